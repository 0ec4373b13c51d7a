"""Accuracy on couples: pairs that share a value, such as the same responses under opposite instructions.

A couple is right where all of its pairs are. A judge that ignores the instruction gets half of such pairs right, and no couple.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from logitjudge.core import FloatArray, IntArray
from logitjudge.errors import NotObserved
from logitjudge.measures.estimates import Estimate, Part, shares
from logitjudge.measures.pair_rules import RULES, SINGLE, kept, ruled
from logitjudge.measures.pairs import NONE, TIE, pairs
from logitjudge.run import Run

if TYPE_CHECKING:
    import pandas as pd

BY = "couple"  # group column


@dataclass(frozen=True, slots=True)
class Couple:
    """Couples under one rule.

    Parameters
    ----------
    rule
        One of `logitjudge.measures.pair_rules.RULES`.
    whole
        Share of the couples of which every pair is right; the interval is over couples.
    discarded
        Couples with a pair that has no verdict under the rule; they do not count.
    blind
        The largest share that a judge which ignores the instruction can get whole: of a couple with the same responses and different
        golds it gets none. Under a single order that needs the responses in the same places: else the order may decide, and not the
        instruction. None where the texts are not there.
    """

    rule: str
    whole: Estimate
    discarded: int
    blind: float | None


@dataclass(frozen=True, slots=True)
class Couples:
    """Couples of a run, and how many are right under each rule.

    Parameters
    ----------
    by
        The column.
    couples, pairs
        Couples of at least two pairs with gold, and their pairs.
    alone
        Pairs with gold and a value that no other has; they are left out.
    rows
        One a rule.
    coin
        What a coin gets whole: the mean of 1/2 to the number of pairs.
    note
        Why there is no ``blind``, or "".
    """

    by: str
    couples: int
    pairs: int
    alone: int
    rows: tuple[Couple, ...]
    coin: float
    note: str = ""

    def to_frame(self) -> pd.DataFrame:
        """Frame, one row a rule: rule, value, low, high, couples, discarded, blind, note."""
        import pandas as pd

        names = ("value", "low", "high", "of")
        rows = [[r.rule, *(getattr(r.whole, n) for n in names), r.discarded, r.blind, r.whole.note] for r in self.rows]
        return pd.DataFrame(rows, columns=["rule", *names[:3], "couples", "discarded", "blind", "note"])


def couples(run: Run, by: str = BY, *, draws: int = 1000, seed: int = 0) -> Couples:
    """Accuracy on couples, under each rule.

    Parameters
    ----------
    run
        A pairwise run.
    by
        Group column; pairs that share its value are a couple.
    draws, seed
        Of the resampling of couples.

    Raises
    ------
    NotObserved
        No two pairs with gold share a value.
    """
    found = pairs(run)
    names = [None if (value := item.groups.get(by)) is None else str(value) for item in run.items]
    members: dict[str, list[int]] = {}
    for i, name in enumerate(names):
        if name is not None and found.gold[i] != NONE:
            members.setdefault(name, []).append(i)
    whole = {name: rows for name, rows in sorted(members.items()) if len(rows) > 1}
    if not whole:
        raise NotObserved(f"no two pairs with gold share a value of {by!r}, so there are no couples.")
    together = list(whole.values())
    parts: dict[str, Part] = {rule: _whole(ruled(found, rule), found.gold, together) for rule in RULES}
    made = shares(parts, np.arange(len(whole)), draws=draws, seed=seed)
    blind = {rule: _blind(run, found.gold, together, ordered=rule in SINGLE) for rule in RULES}
    return Couples(
        by,
        len(whole),
        sum(map(len, together)),
        sum(len(rows) == 1 for rows in members.values()),
        tuple(Couple(r, made[r], len(whole) - made[r].of, _mean(blind[r], parts[r][1])) for r in RULES),
        float(np.mean([0.5 ** len(rows) for rows in together])),
        "" if blind["log_odds"] is not None else "the run does not hold the responses",
    )


def _mean(values: FloatArray | None, counted: FloatArray) -> float | None:
    return None if values is None or not counted.any() else float(np.average(values, weights=counted))


def _whole(verdict: IntArray, gold: IntArray, members: Sequence[Sequence[int]]) -> Part:
    """(couples,) whether all are right, and whether all have a verdict."""
    below = np.array([float(kept(verdict[rows]).all()) for rows in map(list, members)])
    above = np.array([float((verdict[rows] == gold[rows]).all()) for rows in map(list, members)])
    return above * below, below


def _blind(run: Run, gold: IntArray, members: Sequence[Sequence[int]], *, ordered: bool) -> FloatArray | None:
    """(couples,) 1 where no two pairs have the same responses (in the same places) and different golds, else 0."""
    passable: list[float] = []
    for rows in members:
        texts = [tuple(run.items[i].fields.get(f"response_{c}") or "" for c in (1, 2)) for i in rows]
        if not all(map(all, texts)):
            return None
        golden = ["" if gold[i] == TIE else both[gold[i] - 1] for i, both in zip(rows, texts, strict=True)]
        told: dict[Any, str] = {}
        keys = texts if ordered else [frozenset(both) for both in texts]
        passable.append(float(all(told.setdefault(k, good) == good for k, good in zip(keys, golden, strict=True))))
    return np.array(passable)
