"""How many orderings are enough: how far n orderings of a design are from all K!, on a run that read all of them.

Distances are root mean squares. A score is compared with its own method's limit over K!, and with the limits of both means
(`mean_prob` and `mean_logp` have different ones). Where orderings are drawn at random, the mean square of a mean of n is exact
(sampling without replacement from N units): ``S^2 / n * (1 - n / N)``; the rest is simulated, with a 95 % interval of its mean.

References
----------
arXiv:2602.02219, sections 3.1 and 7; W. G. Cochran (1977), Sampling Techniques, section 2.5.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from logitjudge import orderings
from logitjudge.core import FloatArray, IntArray
from logitjudge.errors import OrderingError
from logitjudge.measures import cells, ratios
from logitjudge.measures.correlations import pearson
from logitjudge.measures.matrices import winners
from logitjudge.measures.probing import require_full
from logitjudge.run import Run

if TYPE_CHECKING:
    import pandas as pd

METHODS = ("mean_winner", "mean_prob", "mean_logp")
LIMITS = ("mean_prob", "mean_logp")
FIXED = ("identity", "cyclic", "balanced", "williams")
DRAWN = ("random", "latin", "antithetic")
NUMBERS = 30_000_000  # of one chunk of draws x items x scores


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens (or characters) of a prompt: what stands before the rubric's lines, each line, and what stands behind.

    Parameters
    ----------
    before, behind
        Mean over items.
    lines
        (K,) in score order.
    unit
        "tokens" or "characters".
    """

    before: float
    lines: tuple[float, ...]
    behind: float
    unit: str = "tokens"

    @property
    def plain(self) -> float:
        """Of one prompt."""
        return self.before + sum(self.lines) + self.behind

    def unique(self, shown: IntArray) -> float:
        """Of the prompts of one item under n orderings `shown` (n, K), where what they share from the beginning counts once.

        Examples
        --------
        >>> Lengths(10, (1, 2, 3), 4).unique(np.array([[0, 1, 2], [0, 2, 1]]))
        29.0
        """
        rows = [tuple(row) for row in np.asarray(shown).tolist()]
        begins = {row[: p + 1] for row in rows for p in range(len(row))}
        return float(self.before + sum(self.lines[begin[-1]] for begin in begins) + self.behind * len(rows))


def convergence(
    run: Run,
    *,
    numbers: Sequence[int] | None = None,
    draws: int = 100,
    seed: int = 0,
    lengths: Lengths | None = None,
) -> pd.DataFrame:
    """Distances of n orderings to all K!, by design.

    Parameters
    ----------
    run
        A run of the design ``full``.
    numbers
        Numbers of orderings of the drawn designs; 1 .. K! by default.
    draws
        Sets of orderings that are drawn for each number of them.
    lengths
        Of the prompts, for the column of unique tokens.

    Returns
    -------
    pandas.DataFrame
        One row a design, number of orderings and quantity: design, n, passes (forward passes an item: n), unique (tokens an
        item; NaN without `lengths`), quantity, value, low and high (95 % interval of the mean over draws; equal to value where it
        is exact), exact. Quantities: ``METHOD`` (score against its own limit), ``METHOD to LIMIT`` (points);
        ``covered`` (share of draws in which every cell was seen); ``matrix`` (probability), ``cost`` (of an ordering),
        ``cost_r`` (correlation over K! orderings), ``chosen_loss`` (cost of the chosen ordering above the cheapest), over the
        draws that cover all cells (NaN without any); ``METHOD pearson`` (with people; NaN without ratings).

    Raises
    ------
    NotObserved
        The run does not hold all K! orderings.
    """
    require_full(run)
    truth = _Truth.of(run)
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for design, n, sets in _designs(run, numbers, draws, rng):
        found = truth.measured(sets)
        exact = truth.expected(design, n)
        unique = np.mean([lengths.unique(run.shown[chosen]) for chosen in sets[:20]]) if lengths else np.nan
        about = {"design": design, "n": n, "passes": n, "unique": unique}
        rows += [{**about, "quantity": name, **_summary(name, values, exact)} for name, values in found.items()]
    import pandas as pd

    return pd.DataFrame(rows)


def _designs(
    run: Run, numbers: Sequence[int] | None, draws: int, rng: np.random.Generator
) -> Iterator[tuple[str, int, IntArray]]:
    """Name, n and (D, n) sets of orderings, as indices into a full run. A fixed design is one set."""
    every, levels = len(run.orderings), len(run.scores)
    place = {ordering.shown: o for o, ordering in enumerate(run.orderings)}
    for name in FIXED:
        made = orderings.parse(name, run.scores.tolist())
        yield name, len(made), np.array([[place[ordering.shown] for ordering in made]])
    wanted = [n for n in (numbers or range(1, every + 1)) if 1 <= n <= every]
    for n in wanted:
        count = 1 if n == every else draws
        yield "random", n, np.array([rng.permutation(every)[:n] for _ in range(count)])
    mirror = np.array([place[ordering.shown[::-1]] for ordering in run.orderings])
    first = np.flatnonzero(np.arange(every) < mirror)  # one of each pair
    for n in (n for n in wanted if n % 2 == 0):
        count = 1 if n == every else draws
        pairs = np.array([rng.permutation(first)[: n // 2] for _ in range(count)])
        yield "antithetic", n, np.concatenate([pairs, mirror[pairs]], axis=1)
    for n in (n for n in wanted if n % levels == 0 and n < every / 2):
        if len(sets := _latin(run, n // levels, draws, place, rng)):
            yield "latin", n, sets


def _latin(run: Run, squares: int, draws: int, place: Any, rng: np.random.Generator) -> IntArray:
    """(D, n) sets from random Latin squares; none where squares without a common row are hard to find."""
    sets = []
    for seed in rng.integers(2**31, size=draws).tolist():
        try:
            made = orderings.parse(f"latin:{squares}", run.scores.tolist(), seed)
        except OrderingError:
            return np.empty((0, 0), np.int64)
        sets.append([place[ordering.shown] for ordering in made])
    return np.array(sets)


@dataclass(frozen=True, slots=True, eq=False)
class _Truth:
    """A full run's readings in the three forms that are averaged, and what all K! orderings give.

    `parts` has (O, I K) winners, probabilities and log-probabilities by method, `scores` the (I,) limits.
    """

    run: Run
    parts: dict[str, FloatArray]
    limits: dict[str, FloatArray]
    matrix: FloatArray
    costs: FloatArray

    @classmethod
    def of(cls, run: Run) -> _Truth:
        probs = run.probs()
        forms = {"mean_winner": winners(probs), "mean_prob": probs, "mean_logp": ratios.clr(run)}
        parts = {
            name: np.ascontiguousarray(form.transpose(1, 0, 2)).reshape(len(run.orderings), -1)
            for name, form in forms.items()
        }
        every = np.arange(len(run.orderings))[None]
        limits = {name: _scores(run, name, part, every)[0] for name, part in parts.items()}
        matrix = cells.matrices(cells.by_item(probs, run.shown), np.ones((1, len(run.items))))
        return cls(run, parts, limits, matrix[0], cells.costs(matrix, run.shown)[0])

    def measured(self, sets: IntArray) -> dict[str, FloatArray]:
        """Quantity to (D,) values of each set of orderings; distances are mean squares."""
        found: dict[str, FloatArray] = {}
        for name, part in self.parts.items():
            score = _scores(self.run, name, part, sets)  # (D, I)
            found[name] = ((score - self.limits[name]) ** 2).mean(axis=1)
            for limit in LIMITS:
                if limit != name:
                    found[f"{name} to {limit}"] = ((score - self.limits[limit]) ** 2).mean(axis=1)
            found[f"{name} pearson"] = self._agreement(score)
        return found | self._cells(sets)

    def _agreement(self, score: FloatArray) -> FloatArray:
        """(D,) correlation of scores (D, I) with people."""
        rated = np.isfinite(self.run.ratings)
        if rated.sum() < 3:
            return np.full(len(score), np.nan)
        [r] = pearson(score[:, rated].T, self.run.ratings[rated], np.ones((1, int(rated.sum()))))
        found: FloatArray = r
        return found

    def _cells(self, sets: IntArray) -> dict[str, FloatArray]:
        """Distances of the soft matrix, of costs and of the choice, NaN where some cell was not seen."""
        mean = self.parts["mean_prob"].reshape(len(self.run.orderings), len(self.run.items), -1).mean(axis=1)  # (O, K)
        tables = np.concatenate([cells.by_item(mean[None, chosen], self.run.shown[chosen]) for chosen in sets])
        covered = np.isfinite(tables).all(axis=(1, 2))
        rows = tables / tables.sum(axis=2, keepdims=True)
        costs = cells.costs(rows, self.run.shown)
        loss = np.full(len(sets), np.nan)
        chosen = np.argmin(np.rint(costs[covered] * 1e12), axis=1)
        loss[covered] = self.costs[chosen] - self.costs.min()
        return {
            "covered": covered.astype(np.float64),
            "matrix": ((rows - self.matrix) ** 2).mean(axis=(1, 2)),
            "cost": ((costs - self.costs) ** 2).mean(axis=1),
            "cost_r": pearson(costs.T, self.costs, np.ones((1, len(self.costs))))[0],
            "chosen_loss": loss,
        }

    def expected(self, design: str, n: int) -> dict[str, float]:
        """Mean squares that are known exactly: scores that are linear in the orderings, under simple random sampling."""
        if design not in ("random", "antithetic"):
            return {}
        found = {}
        for name in ("mean_winner", "mean_prob"):
            score = (
                self.parts[name].reshape(len(self.run.orderings), len(self.run.items), -1) @ self.run.scores
            )  # (O, I)
            if design == "antithetic":
                place = {ordering.shown: o for o, ordering in enumerate(self.run.orderings)}
                mirror = np.array([place[ordering.shown[::-1]] for ordering in self.run.orderings])
                score = ((score + score[mirror]) / 2)[np.arange(len(mirror)) < mirror]
            taken = n if design == "random" else n // 2
            variance = score.var(axis=0, ddof=1).mean() if len(score) > 1 else 0.0
            found[name] = float(variance / taken * (1 - taken / len(score)))
            for limit in LIMITS:
                if limit != name:
                    bias = ((self.limits[name] - self.limits[limit]) ** 2).mean()
                    found[f"{name} to {limit}"] = float(found[name] + bias)
        return found


def _scores(run: Run, method: str, part: FloatArray, sets: IntArray) -> FloatArray:
    """(D, I) debiased scores of each set of orderings (D, n)."""
    step = max(1, NUMBERS // part.shape[1])
    made = [_chunk(run, method, part, sets[d : d + step]) for d in range(0, len(sets), step)]
    return np.concatenate(made)


def _chunk(run: Run, method: str, part: FloatArray, sets: IntArray) -> FloatArray:
    share = np.zeros((len(sets), len(part)))
    np.put_along_axis(share, sets, 1 / sets.shape[1], axis=1)
    mean = (share @ part).reshape(len(sets), len(run.items), len(run.scores))
    if method == "mean_logp":
        mean = np.exp(mean - mean.max(axis=2, keepdims=True))
        mean /= mean.sum(axis=2, keepdims=True)
    score: FloatArray = mean @ run.scores
    return score


SQUARES = ("matrix", "cost", *METHODS, *(f"{m} to {limit}" for m in METHODS for limit in LIMITS if m != limit))


def _summary(name: str, values: FloatArray, exact: dict[str, float]) -> dict[str, Any]:
    """Mean over draws with the 95 % interval of that mean; the root of both where `values` are mean squares."""
    known = values[np.isfinite(values)]
    root = math.sqrt if name in SQUARES else float
    if name in exact:
        return dict.fromkeys(("value", "low", "high"), root(exact[name])) | {"exact": True}
    if not len(known):
        return dict.fromkeys(("value", "low", "high"), np.nan) | {"exact": False}
    mean = float(known.mean())
    half = 1.96 * float(known.std(ddof=1)) / math.sqrt(len(known)) if len(known) > 1 else 0.0
    low = max(mean - half, 0.0) if name in SQUARES else mean - half
    return {"value": root(mean), "low": root(low), "high": root(mean + half), "exact": len(values) == 1}
