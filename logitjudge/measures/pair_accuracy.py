"""How often verdicts are those of people: in each order, and after each rule.

A verdict is correct where it is the gold (a gold tie: the verdict is a tie), a false win where a candidate wins that is not the gold, and
undecided where it is a tie and the gold is not. The three sum to 1 over the pairs that the rule keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from logitjudge.core import BoolArray, FloatArray, IntArray, Item
from logitjudge.errors import NotObserved
from logitjudge.measures.estimates import Estimate, Part, shares
from logitjudge.measures.groups import MOST
from logitjudge.measures.pair_rules import RULES, kept, ruled
from logitjudge.measures.pairs import NONE, TIE, golds, pairs
from logitjudge.run import Run

if TYPE_CHECKING:
    import pandas as pd

OUTCOMES = ("correct", "false_wins", "undecided")
LONGER = "gold response"
LENGTHS = ("longer", "shorter", "equally long")
APART = ("couple", "check", "model_1", "model_2")  # group columns with a meaning of their own
Length = Callable[[str], float]


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Verdicts of one rule against gold, of all pairs or of a group.

    Parameters
    ----------
    group, value
        Column and its value; None of all pairs.
    rule
        One of `logitjudge.measures.pair_rules.RULES`; the first two are the single orders.
    pairs
        Pairs with gold that the rule keeps.
    discarded
        Pairs with gold that it does not.
    correct, false_wins, undecided
        Shares of `pairs`.
    """

    group: str | None
    value: str | None
    rule: str
    pairs: int
    discarded: int
    correct: Estimate
    false_wins: Estimate
    undecided: Estimate


@dataclass(frozen=True, slots=True)
class Accuracies:
    """All rules, of all pairs and by group; `left_out`: columns that are no groups, with the reason."""

    rows: tuple[Accuracy, ...]
    left_out: tuple[tuple[str, str], ...]
    without_gold: int

    def of(self, rule: str) -> Accuracy:
        """The row of a rule over all pairs."""
        return next(row for row in self.rows if row.rule == rule and row.group is None)

    def to_frame(self) -> pd.DataFrame:
        """Frame, one row a group and rule: group, value, rule, pairs, discarded, and each outcome with _low and _high, note."""
        import pandas as pd

        made = []
        for row in self.rows:
            found = [getattr(row, name) for name in OUTCOMES]
            ends = [x for one in found for x in (one.value, one.low, one.high)]
            made.append([row.group, row.value, row.rule, row.pairs, row.discarded, *ends, row.correct.note])
        names = [f"{name}{end}" for name in OUTCOMES for end in ("", "_low", "_high")]
        return pd.DataFrame(made, columns=["group", "value", "rule", "pairs", "discarded", *names, "note"])


def accuracy(run: Run, *, length: Length = len, draws: int = 1000, seed: int = 0) -> Accuracies:
    """Accuracy, false wins and undecided pairs against gold, with 95 % intervals.

    Parameters
    ----------
    run
        A pairwise run; pairs without gold are left out and counted.
    length
        Of a response, in any unit; characters by default. Pairs whose gold is the longer, the shorter or as long a response are a
        group.
    draws, seed
        Of the resampling of clusters.

    Raises
    ------
    NotObserved
        No pair has a gold.
    """
    found = pairs(run)
    require_gold(found.gold)
    verdicts = {rule: ruled(found, rule) for rule in RULES}
    groups, left_out = strata(run, length)
    every: dict[tuple[str | None, str | None], BoolArray] = {(None, None): np.ones(len(found), np.bool_)}
    rows = outcome_rows(verdicts, found.gold, every | groups, found.clusters, draws=draws, seed=seed)
    return Accuracies(rows, left_out, int((found.gold == NONE).sum()))


def require_gold(gold: IntArray) -> None:
    """Raise `NotObserved` where no pair has a gold."""
    if not (gold != NONE).any():
        raise NotObserved("no pair has a gold (1, 2, or 0 for a tie), so there is nothing to compare verdicts with.")


def outcomes(verdict: IntArray, gold: IntArray) -> dict[str, Part]:
    """The three outcomes as parts of shares; pairs without verdict or gold do not count."""
    below = kept(verdict) * (gold != NONE)
    correct, wrong = verdict == gold, (verdict != gold) & (verdict != TIE)
    made = (correct, wrong, (verdict == TIE) & ~correct)
    return {name: (below * hit, below) for name, hit in zip(OUTCOMES, made, strict=True)}


Group = tuple[str | None, str | None]  # column and value


def outcome_rows(
    verdicts: Mapping[str, IntArray],
    gold: IntArray,
    groups: Mapping[Group, BoolArray],
    clusters: IntArray,
    *,
    draws: int,
    seed: int,
) -> tuple[Accuracy, ...]:
    """One row a group and rule."""
    parts: dict[tuple[Group, str, str], Part] = {}
    for group, here in groups.items():
        for rule, verdict in verdicts.items():
            for name, (above, below) in outcomes(verdict, gold).items():
                parts[group, rule, name] = (above * here, below * here)
    made = shares(parts, clusters, draws=draws, seed=seed)
    rows = []
    for group, here in groups.items():
        for rule, verdict in verdicts.items():
            golden = here & (gold != NONE)
            found = [made[group, rule, name] for name in OUTCOMES]
            gone = int((golden & (verdict == NONE)).sum())
            rows.append(Accuracy(*group, rule, int(golden.sum()) - gone, gone, *found))
    return tuple(rows)


def strata(run: Run, length: Length = len) -> tuple[dict[Group, BoolArray], tuple[tuple[str, str], ...]]:
    """Groups of pairs, (column, value) -> (I,) whether a pair is in it; and columns that are none, with the reason."""
    columns = {
        name: [item.groups.get(name) for item in run.items]
        for name in dict.fromkeys(name for item in run.items for name in item.groups)
        if name not in APART
    }
    columns[LONGER] = gold_lengths(run, length)
    made: dict[Group, BoolArray] = {}
    left_out = []
    for name, values in columns.items():
        texts = [None if value is None else str(value) for value in values]
        if reason := no_groups(texts):
            left_out.append((name, reason))
            continue
        for value in sorted({text for text in texts if text is not None}):
            made[name, value] = np.array([text == value for text in texts])
    return made, tuple(left_out)


def no_groups(values: Sequence[str | None]) -> str:
    """Why the values of a column are no groups, or ""."""
    there = [value for value in values if value is not None]
    different = len(set(there))
    if not there:
        return "no pair has a value (texts may have been taken out)"
    if different < 2:
        return "all pairs have the same value"
    return f"{different} different values are no groups" if different > min(MOST, len(there) - 1) else ""


def gold_lengths(run: Run, length: Length = len) -> list[str | None]:
    """(I,) whether the gold response is longer, shorter or equally long; None where the gold is no candidate, or texts are gone."""
    made: list[str | None] = []
    for item, gold in zip(run.items, golds(run).tolist(), strict=True):
        sizes = response_lengths(item, length)
        if gold in (TIE, NONE) or sizes is None:
            made.append(None)
            continue
        apart = (sizes[0] - sizes[1]) * (1 if gold == 1 else -1)
        made.append(LENGTHS[0] if apart > 0 else LENGTHS[1] if apart < 0 else LENGTHS[2])
    return made


def response_lengths(item: Item, length: Length = len) -> tuple[float, float] | None:
    """Lengths of both responses, or None where a text is not there."""
    texts = [item.fields.get(f"response_{c}") or "" for c in (1, 2)]
    return (length(texts[0]), length(texts[1])) if all(texts) else None


def right(verdict: IntArray, gold: IntArray) -> FloatArray:
    """(I,) 1 where the verdict is the gold, else 0."""
    return np.asarray(verdict == gold, dtype=np.float64)
