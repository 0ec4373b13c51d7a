"""Win rates at equal length: what is left of a system's wins when both responses are equally long?

As in AlpacaEval 2: the log-odds of a pair are ``theta + phi tanh(difference in characters / sd) + what is left``, theta a constant for
each couple of systems. There it is a logistic regression of verdicts, with a difficulty of each instruction from another fit. Here the
log-odds are exact, so that a linear regression does, and the difficulty of a pair is what is left. The win rate at equal length takes
``phi tanh(...)`` out of every reading and leaves all else.

References
----------
Y. Dubois, B. Galambosi, P. Liang, T. Hashimoto (2024), Length-Controlled AlpacaEval: A Simple Way to Debias Automatic Evaluators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from logitjudge.core import FloatArray, IntArray, Item
from logitjudge.errors import NotObserved
from logitjudge.measures import intervals
from logitjudge.measures.estimates import Estimate
from logitjudge.measures.intervals import Statistic
from logitjudge.measures.lengths import bootstrapped, coefficients
from logitjudge.measures.pairs import NONE, golds, pairs
from logitjudge.pairs import RESPONSES
from logitjudge.probes import ODDS, SHARE, Effect, Generate, ProbeResult, Variant, detectable, noise
from logitjudge.run import Run

MODELS = ("model_1", "model_2")  # groups of a pair
UNNAMED = ("response 1", "response 2")  # systems of pairs that do not say
STEEPEST = 0.25  # share a nat: the most that a probability moves with its log-odds
CAUSE = (
    "Longer responses may also be better ones. The win rate at equal length takes all that goes with length for the judge's taste for "
    "length."
)


@dataclass(frozen=True, slots=True)
class LengthControlled:
    """Pairs of two systems' responses (columns `model_1` and `model_2`, else all first responses are one system's), in both orders.

    Parameters
    ----------
    model
        Whose win rate; by default that of the first pair's first response, or with more than two systems that of each.
    """

    model: str = ""

    def variants(self, items: Sequence[Item], generate: Generate | None = None) -> Mapping[str, Variant]:
        """The pairs as they are."""
        skipped = {item.id: why for item in items if (why := _unusable(item))}
        return {"pairs": Variant(tuple(i for i in items if i.id not in skipped), pairwise=True, skipped=skipped)}

    def effect(self, runs: Mapping[str, Run]) -> ProbeResult:
        """Log-odds for length, also at equal gold; win rates raw and at equal length, and their difference."""
        if "pairs" not in runs:
            raise NotObserved("no item is a pair of two systems' responses (columns response_1 and response_2)")
        run = runs["pairs"]
        fit = _fit(run)
        names = self._names(run)
        rates = [_Rate.of(name, run, fit) for name in names]
        effects = [
            fit.effect("log-odds for length, for each unit of tanh(difference / sd)", run),
            *(rate.gap(fit, run) for rate in rates),
            *_at_gold(run),
            *(one for rate in rates for one in rate.levels(fit)),
        ]
        sd = f"The sd of the difference in length, of pairs of the same two systems, is {fit.sd:.0f} characters."
        return ProbeResult(tuple(effects), (*(rate.note(fit) for rate in rates), CAUSE, sd))

    def _names(self, run: Run) -> list[str]:
        """Systems whose win rate is to be said."""
        known = sorted({name for item in run.items for name in systems(item)})
        if self.model and self.model not in known:
            raise NotObserved(f"no response is by {self.model!r}. There are {', '.join(known)}")
        if self.model or len(known) == 2:
            return [self.model or systems(run.items[0])[0]]
        return known


def _unusable(item: Item) -> str:
    if not all(name in item.fields for name in RESPONSES):
        return "no pair of responses"
    return "both responses are of one system" if len(set(systems(item))) == 1 else ""


def systems(item: Item) -> tuple[str, str]:
    """Who wrote response 1 and response 2."""
    one, two = (str(item.groups.get(group) or name) for group, name in zip(MODELS, UNNAMED, strict=True))
    return one, two


@dataclass(frozen=True, slots=True, eq=False)
class _Fit:
    """A regression of I pairs, each turned so that its couple of systems stands in the same order.

    Parameters
    ----------
    x
        (I, P) tanh of the difference in length, what is held fixed, a constant for each couple.
    content
        (I,) log-odds for the first of the couple, nats.
    clusters
        (I,) of `intervals.number`.
    sd
        Of the difference in length within couples, characters.
    """

    x: FloatArray
    content: FloatArray
    clusters: IntArray
    sd: float

    def phi(self, weight: FloatArray) -> FloatArray:
        """(B,) nats for one unit of tanh, under weights (B, I)."""
        return coefficients(weight, self.x, self.content)[:, 0]

    def reach(self, run: Run) -> float | None:
        """How far the noise floor could move phi, nats."""
        floor = noise(run, ODDS)
        return None if floor is None else float(floor * np.abs(np.linalg.pinv(self.x)[0]).sum())

    def effect(self, name: str, run: Run, *, main: bool = True) -> Effect:
        """Phi with its interval."""
        made = bootstrapped(self.phi, self.clusters)
        return Effect(name, ODDS, made, detectable(made), self.reach(run), main)


def _fit(run: Run, held: Sequence[FloatArray] = ()) -> _Fit:
    """Regression of content log-odds on length; `held`: columns (I,) for response 1 that are held fixed.

    Raises
    ------
    NotObserved
        Length does not vary apart from what is held fixed.
    """
    couples = [tuple(sorted(systems(item))) for item in run.items]
    turn = np.array([1 if systems(item) == couple else -1 for item, couple in zip(run.items, couples, strict=True)])
    number = intervals.number(couples)
    constants = np.eye(int(number.max()) + 1)[number]  # (I, couples)
    longer = turn * _longer(run.items)
    apart = longer - (constants @ (constants.T @ longer / constants.sum(axis=0)))
    sd = float(np.sqrt((apart**2).mean()))
    if sd == 0:
        raise NotObserved("the difference in length does not vary, so it cannot be told from the systems")
    x = np.column_stack([np.tanh(longer / sd), *(turn * column for column in held), constants])
    if np.linalg.matrix_rank(x) < x.shape[1]:
        raise NotObserved("length does not vary apart from the systems and the gold")
    clusters = intervals.number([item.cluster for item in run.items])
    return _Fit(x, turn * pairs(run).content, clusters, sd)


def _longer(items: Sequence[Item]) -> FloatArray:
    """(I,) by how many characters response 1 is longer."""
    return np.array(
        [len(item.fields["response_1"]) - len(item.fields["response_2"]) for item in items], dtype=np.float64
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Rate:
    """Win rates of one system in its J pairs.

    Parameters
    ----------
    name
        The system.
    rows
        (J,) numbers of its pairs.
    logit
        (J, 2) log-odds for it in each order, nats.
    tanh
        (J,) of its response's greater length.
    """

    name: str
    rows: IntArray
    logit: FloatArray
    tanh: FloatArray

    @classmethod
    def of(cls, name: str, run: Run, fit: _Fit) -> _Rate:
        """The win rates of a system."""
        rows = np.array([n for n, item in enumerate(run.items) if name in systems(item)], dtype=np.int64)
        side = np.array([1.0 if systems(run.items[n])[0] == name else -1.0 for n in rows])
        return cls(
            name, rows, pairs(run).logit[rows] * side[:, None], np.tanh(side * _longer(run.items)[rows] / fit.sd)
        )

    def share(self, weight: FloatArray, phi: FloatArray) -> FloatArray:
        """(B,) mean win rate under weights (B, I), with phi (B,) nats a unit of length taken out."""
        taken = phi[:, None, None] * self.tanh[:, None]
        each = expit(self.logit - taken).mean(axis=-1)  # (B, J)
        mine = weight[:, self.rows]
        with np.errstate(invalid="ignore"):
            rate: FloatArray = (mine * each).sum(axis=1) / mine.sum(axis=1)
        return rate

    def raw(self, weight: FloatArray) -> FloatArray:
        """(B,) win rate as it is."""
        return self.share(weight, np.zeros(len(weight)))

    def gap(self, fit: _Fit, run: Run) -> Effect:
        """What length gives to the system's win rate."""
        made = self._estimate(lambda weight: self.raw(weight) - self.share(weight, fit.phi(weight)), fit)
        reach, floor = fit.reach(run), noise(run, ODDS)
        most = (
            None if reach is None or floor is None else STEEPEST * (2 * floor + reach * float(np.abs(self.tanh).mean()))
        )
        return Effect(f"win rate of {self.name}, minus that at equal length", SHARE, made, detectable(made), most)

    def levels(self, fit: _Fit) -> list[Effect]:
        """Win rate as it is and at equal length, each minus 1/2."""
        made = {
            f"win rate of {self.name}, minus 1/2": self._estimate(lambda weight: self.raw(weight) - 0.5, fit),
            f"win rate of {self.name} at equal length, minus 1/2": self._estimate(
                lambda weight: self.share(weight, fit.phi(weight)) - 0.5, fit
            ),
        }
        return [Effect(name, SHARE, _within(one), detectable(one), main=False) for name, one in made.items()]

    def _estimate(self, statistic: Statistic, fit: _Fit) -> Estimate:
        made = bootstrapped(statistic, fit.clusters, count=len(set(fit.clusters[self.rows].tolist())))
        return replace(made, of=len(self.rows))

    def note(self, fit: _Fit) -> str:
        """Both win rates in words."""
        one = np.ones((1, len(fit.x)))
        raw, equal = float(self.raw(one)[0]), float(self.share(one, fit.phi(one))[0])
        return f"{self.name} wins {raw:.1%} of {len(self.rows)} pairs, and {equal:.1%} at equal length."


def _within(made: Estimate) -> Estimate:
    """An estimate of a share minus 1/2 whose interval ends where shares end."""
    if made.low is None or made.high is None:
        return made
    return replace(made, low=max(made.low, -0.5), high=min(made.high, 0.5))


def _at_gold(run: Run) -> list[Effect]:
    """Log-odds for length where gold is held fixed."""
    gold = golds(run)
    known = run.select((gold != NONE).tolist())
    if not known.items:
        return []
    better = np.array([{0: 0.0, 1: 1.0, 2: -1.0}[g] for g in golds(known).tolist()])
    try:
        fit = _fit(known, [better] if np.any(better) else [])
    except NotObserved:
        return []
    return [fit.effect("the same at equal gold", known, main=False)]


probe = LengthControlled
