"""A judge of pairs against people: agreement, disagreements to be read, and a deterministic check beside the judge.

Where not said otherwise the verdict is that of `log_odds`, and its confidence |content|, in nats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from logitjudge.core import FloatArray, IntArray
from logitjudge.errors import ItemError, NotObserved
from logitjudge.measures import intervals
from logitjudge.measures.estimates import Estimate, bounded, shares
from logitjudge.measures.pair_accuracy import OUTCOMES, Accuracies, Length, accuracy, outcomes, require_gold
from logitjudge.measures.pair_review import Row, group_columns, row
from logitjudge.measures.pair_rules import RULES, kept, ruled
from logitjudge.measures.pairs import NONE, TIE, Pairs, pairs
from logitjudge.measures.weighted import confusion, hits, ratio
from logitjudge.run import Run

if TYPE_CHECKING:
    import pandas as pd

RULE = "log_odds"
CHECK = "check"  # group column
ANSWERS = {"1": 1, "2": 2, "0": TIE, "tie": TIE}
FALSE_WIN, UNDECIDED = "false win", "undecided"


@dataclass(frozen=True, slots=True)
class GoldAgreement:
    """How far a judge agrees with gold.

    Parameters
    ----------
    accuracies
        Accuracy, false wins and undecided pairs, under each rule, of all pairs and by group: the errors of each group.
    kappa
        Rule -> Cohen's kappa of verdict and gold as three answers (1, 2, tie), unweighted; None where either side is one answer only.
    swap_disagreement
        Flip rate of the pairs with gold.
    """

    accuracies: Accuracies
    kappa: dict[str, Estimate]
    swap_disagreement: Estimate

    def to_frame(self) -> pd.DataFrame:
        """Frame of `accuracies`, with kappa, kappa_low and kappa_high where a row is of all pairs."""
        frame = self.accuracies.to_frame()
        for end, name in (("value", "kappa"), ("low", "kappa_low"), ("high", "kappa_high")):
            column = [
                getattr(self.kappa[rule], end) if group is None else None
                for rule, group in zip(frame["rule"], frame["group"], strict=True)
            ]
            frame[name] = np.array(column, dtype=np.float64)
        return frame


def gold_agreement(run: Run, *, length: Length = len, draws: int = 1000, seed: int = 0) -> GoldAgreement:
    """Agreement of a pairwise run with its gold, under each rule.

    Parameters
    ----------
    run
        A pairwise run; pairs without gold are left out.
    length
        Of a response; see `logitjudge.measures.pair_accuracy.accuracy`.
    draws, seed
        Of the resampling of clusters.

    Raises
    ------
    NotObserved
        No pair has a gold.

    References
    ----------
    J. Cohen (1960), Educational and Psychological Measurement 20, 37-46.
    """
    found = pairs(run)
    made = accuracy(run, length=length, draws=draws, seed=seed)
    golden = (found.gold != NONE).astype(np.float64)
    flips = shares({"x": (found.flipped * golden, golden)}, found.clusters, draws=draws, seed=seed)["x"]
    kappas = {rule: kappa(ruled(found, rule), found.gold, found.clusters, draws=draws, seed=seed) for rule in RULES}
    return GoldAgreement(made, kappas, flips)


def kappa(verdict: IntArray, gold: IntArray, clusters: IntArray, *, draws: int = 1000, seed: int = 0) -> Estimate:
    """Cohen's kappa of two columns of answers (1, 2, 0), over the pairs that have both, with a 95 % interval."""
    rows = np.flatnonzero((verdict != NONE) & (gold != NONE))
    if len(rows) == 0:
        return Estimate(None, None, None, 0, 0, "no pair has both answers")
    ours, theirs = verdict[rows], gold[rows]

    def statistic(weight: FloatArray) -> FloatArray:
        return _kappa(confusion(ours, theirs, 3, weight))

    return bounded(statistic, intervals.number(clusters[rows].tolist()), draws=draws, seed=seed)


def _kappa(table: FloatArray) -> FloatArray:
    """(B,) unweighted kappa of (B, K, K) tables; NaN where a side has one answer only.

    Examples
    --------
    >>> _kappa(np.array([[[2.0, 0.0], [1.0, 1.0]]])).tolist()  # (3/4 - 1/2) / (1 - 1/2)
    [0.5]
    """
    rows, columns = table.sum(axis=2), table.sum(axis=1)
    expected = (rows * columns).sum(axis=1) / rows.sum(axis=1) ** 2
    varies = ((rows > 0).sum(axis=1) > 1) & ((columns > 0).sum(axis=1) > 1)
    return ratio(hits(table) - expected, np.where(varies, 1 - expected, 0))


def disagreements(run: Run, rule: str = RULE) -> list[Row]:
    """Pairs whose verdict under a rule is not the gold, the most confident first; of equal ones, by id.

    Returns
    -------
    list of dict
        The columns of `logitjudge.measures.pair_review.review`, and behind ``position``: ``verdict`` (under the rule),
        ``kind`` ("false win" or "undecided"), ``confidence`` (|content|, nats) and ``flipped``.

    Raises
    ------
    InputError
        There is no such rule.
    """
    found = pairs(run)
    verdict, columns, sure = ruled(found, rule), group_columns(run), np.abs(found.content)
    wrong = (verdict != NONE) & (found.gold != NONE) & (verdict != found.gold)
    order = sorted(np.flatnonzero(wrong).tolist(), key=lambda i: (-round(float(sure[i]), 9), found.ids[i]))
    return [
        row(
            found,
            run.items[i],
            i,
            columns,
            verdict=int(verdict[i]),
            kind=UNDECIDED if verdict[i] == TIE else FALSE_WIN,
            confidence=float(sure[i]),
            flipped=bool(found.flipped[i]),
        )
        for i in order
    ]


@dataclass(frozen=True, slots=True)
class Checked:
    """Answers of one source against another.

    Parameters
    ----------
    what
        "judge", "check" or "check, else judge".
    against
        "gold" or "check".
    where
        "checked pairs" or "all pairs".
    correct, false_wins, undecided
        Shares of the pairs that have both, as in `logitjudge.measures.pair_accuracy`.
    """

    what: str
    against: str
    where: str
    correct: Estimate
    false_wins: Estimate
    undecided: Estimate


@dataclass(frozen=True, slots=True)
class Checks:
    """A deterministic check beside the judge's verdict; `checked` of `pairs` have one."""

    rule: str
    checked: int
    pairs: int
    rows: tuple[Checked, ...]

    def to_frame(self) -> pd.DataFrame:
        """Frame, one row a comparison: what, against, where, pairs, and each outcome with _low and _high."""
        import pandas as pd

        made = []
        for one in self.rows:
            found = [getattr(one, name) for name in OUTCOMES]
            made.append(
                [one.what, one.against, one.where, found[0].of, *(x for e in found for x in (e.value, e.low, e.high))]
            )
        names = [f"{name}{end}" for name in OUTCOMES for end in ("", "_low", "_high")]
        return pd.DataFrame(made, columns=["what", "against", "where", "pairs", *names])


def checks(run: Run, column: str = CHECK, rule: str = RULE, *, draws: int = 1000, seed: int = 0) -> Checks:
    """Agreement of the check with gold, of the judge with the check, and of "the check where there is one, else the judge" with gold.

    Parameters
    ----------
    run
        A pairwise run.
    column
        Group column with 1, 2, 0 or "tie"; None or "" where a pair has no check.
    rule
        Which verdict of the judge.
    draws, seed
        Of the resampling of clusters.

    Raises
    ------
    NotObserved
        No pair has a check.
    ItemError
        A check is another value.
    InputError
        There is no such rule.
    """
    found = pairs(run)
    check, judge = answers(run, column), ruled(found, rule)
    if not (check != NONE).any():
        raise NotObserved(f"no pair has a check in the column {column!r}.")
    both = np.where(check != NONE, check, judge)
    masked = np.where(check != NONE, judge, NONE)
    compared = (
        ("check", "gold", "checked pairs", check, found.gold),
        ("judge", "gold", "checked pairs", masked, found.gold),
        ("judge", "check", "checked pairs", judge, check),
        ("judge", "gold", "all pairs", judge, found.gold),
        ("check, else judge", "gold", "all pairs", both, found.gold),
    )
    parts = {
        (n, name): part
        for n, (*_, ours, theirs) in enumerate(compared)
        for name, part in outcomes(ours, theirs).items()
    }
    made = shares(parts, found.clusters, draws=draws, seed=seed)
    rows = tuple(
        Checked(what, against, where, *(made[n, name] for name in OUTCOMES))
        for n, (what, against, where, _, _) in enumerate(compared)
    )
    return Checks(rule, int((check != NONE).sum()), len(found), rows)


def answers(run: Run, column: str) -> IntArray:
    """(I,) 1, 2 or 0 of a group column, -1 where a pair has none.

    Raises
    ------
    ItemError
        Another value.
    """
    return np.array([_answer(item.id, column, item.groups.get(column)) for item in run.items], dtype=np.int64)


def _answer(name: str, column: str, value: Any) -> int:
    if value is None or value == "" or (isinstance(value, float) and np.isnan(value)):
        return NONE
    text = f"{value:g}" if isinstance(value, float) else str(value).strip().lower()
    if isinstance(value, bool) or text not in ANSWERS:
        raise ItemError(f"item {name!r}: {column} is {value!r}. Give 1, 2, 0 or tie, or nothing.")
    return ANSWERS[text]


def with_gold(found: Pairs, verdict: IntArray) -> IntArray:
    """Rows of the pairs that have a gold and a verdict.

    Raises
    ------
    NotObserved
        No pair has a gold.
    """
    require_gold(found.gold)
    return np.flatnonzero(kept(verdict) * (found.gold != NONE))
