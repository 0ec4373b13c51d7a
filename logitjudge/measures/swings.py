"""How far the order of a rubric pushes an item, and what is decided by it.

The swing of an item is its largest minus its smallest expected score over the orderings of the run: how far somebody who chooses
the ordering could push the judge. It is a range, so it grows with the number of orderings: compare runs of one design only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from logitjudge.core import BoolArray, FloatArray, IntArray, frozen_array
from logitjudge.errors import InputError, NotObserved
from logitjudge.run import Run

if TYPE_CHECKING:
    import pandas as pd

SAME = 1e-9  # score points; expected scores that differ by less are equal
TWO = 2  # both ends of a swing are readings, each with the noise floor's error


@dataclass(frozen=True, slots=True, eq=False)
class Swings:
    """Range of each item's expected score over orderings, in score points.

    Parameters
    ----------
    ids
        (I,) items.
    low, high
        (I,) smallest and largest expected score.
    lowest, highest
        (I,) orderings that give them, as score values joined by commas; of equal ones the first by score values.
    noise
        What two readings may differ by without any cause (twice the noise floor's largest shift of an expected score), or None
        where it was not measured.
    orderings
        O, over which the range is taken.
    """

    ids: tuple[str, ...]
    low: FloatArray
    high: FloatArray
    lowest: tuple[str, ...]
    highest: tuple[str, ...]
    noise: float | None
    orderings: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", frozen_array(self.low))
        object.__setattr__(self, "high", frozen_array(self.high))

    @property
    def swing(self) -> FloatArray:
        """(I,) largest minus smallest, in score points."""
        swing: FloatArray = self.high - self.low
        return swing

    @property
    def within_noise(self) -> BoolArray:
        """(I,) whether the noise floor alone could explain the swing; all false where it was not measured."""
        within: BoolArray = self.swing <= (-1 if self.noise is None else self.noise)
        return within

    def to_frame(self) -> pd.DataFrame:
        """Frame, one row an item, widest swing first: item, swing, low, high, lowest, highest, within_noise."""
        import pandas as pd

        columns = {name: list(getattr(self, name)) for name in ("low", "high", "lowest", "highest", "within_noise")}
        frame = pd.DataFrame({"item": list(self.ids), "swing": self.swing, **columns})
        order = np.lexsort((np.array(self.ids), -np.round(self.swing / SAME)))  # equal up to rounding: by id
        return frame.iloc[order].reset_index(drop=True)

    def _repr_html_(self) -> str:
        return str(self.to_frame().to_html(index=False, max_rows=20))


def swings(run: Run) -> Swings:
    """Swing of each item, and the orderings that make it. Raises `NotObserved` with one ordering.

    Examples
    --------
    An item with expected scores 1.4 under 1,2 and 1.9 under 2,1 has a swing of 0.5.
    """
    require_two(run)
    expected = run.probs() @ run.scores  # (I, O)
    first = sorted(range(len(run.orderings)), key=lambda o: run.orderings[o].shown)
    texts = [ordering_text(run, o) for o in first]
    low, high = (_end(expected[:, first], sign) for sign in (1, -1))
    ids = tuple(item.id for item in run.items)
    lowest, highest = (tuple(texts[o] for o in ends) for ends in (low, high))
    return Swings(ids, expected.min(axis=1), expected.max(axis=1), lowest, highest, _noise(run), len(texts))


def require_two(run: Run) -> None:
    """Raise `NotObserved` with a single ordering: what orderings change cannot be seen in it, and is not 0."""
    if len(run.orderings) < 2:
        raise NotObserved("the run has one ordering; how orderings differ needs at least two (--orderings balanced).")


def ordering_text(run: Run, o: int) -> str:
    """Score values of an ordering, first position first, joined by commas."""
    return ",".join(map(str, run.orderings[o].values(run.scores.tolist())))


def _end(expected: FloatArray, sign: int) -> IntArray:
    """(I,) first ordering with each row's least value of sign * expected, up to rounding."""
    signed = sign * expected
    first: IntArray = np.argmax(signed <= signed.min(axis=1, keepdims=True) + SAME, axis=1)
    return first


def _noise(run: Run) -> float | None:
    shift = (run.provenance.get("noise_floor") or {}).get("max_score")
    return None if shift is None else TWO * float(shift)


@dataclass(frozen=True, slots=True, eq=False)
class Crossings:
    """Items whose expected score is on one side of a threshold under some ordering and on the other under another.

    Parameters
    ----------
    thresholds
        (T,) an item passes with an expected score of at least this.
    crossing
        (T,) share of items that pass under some orderings and fail under others.
    pass_low, pass_high
        (T,) smallest and largest share of items that pass, over orderings.
    strictest, kindest
        (T,) the orderings that give them, as score values; of equal ones the first by score values.
    """

    thresholds: FloatArray
    crossing: FloatArray
    pass_low: FloatArray
    pass_high: FloatArray
    strictest: tuple[str, ...]
    kindest: tuple[str, ...]

    def to_frame(self) -> pd.DataFrame:
        """Frame, one row a threshold, with the fields."""
        import pandas as pd

        return pd.DataFrame({name: list(getattr(self, name)) for name in self.__dataclass_fields__})


def crossings(run: Run, thresholds: Sequence[float] | None = None) -> Crossings:
    """Decisions that depend on the ordering.

    Parameters
    ----------
    run
        A run with I items and O orderings.
    thresholds
        In score points; by default halfway between neighbouring scores.

    Raises
    ------
    InputError
        A threshold that is no finite number, or none.
    NotObserved
        The run has one ordering.
    """
    require_two(run)
    halves = (run.scores[1:] + run.scores[:-1]) / 2
    cuts = halves if thresholds is None else np.array(list(thresholds), dtype=np.float64)
    if not len(cuts) or not np.isfinite(cuts).all():
        raise InputError(f"thresholds are {list(cuts)}. Give finite numbers, in score points.")
    order = sorted(range(len(run.orderings)), key=lambda o: run.orderings[o].shown)
    expected = (run.probs() @ run.scores)[:, order]
    texts = [ordering_text(run, o) for o in order]
    passes = [expected >= cut - SAME for cut in cuts]  # T of (I, O)
    rates = np.array([passed.mean(axis=0) for passed in passes])  # (T, O)
    return Crossings(
        thresholds=cuts,
        crossing=np.array([(passed.any(axis=1) & ~passed.all(axis=1)).mean() for passed in passes]),
        pass_low=rates.min(axis=1),
        pass_high=rates.max(axis=1),
        strictest=tuple(texts[o] for o in rates.argmin(axis=1)),
        kindest=tuple(texts[o] for o in rates.argmax(axis=1)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class SystemRanks:
    """Ranks of systems (1: the highest mean score) under each ordering. No statement about which differences are real.

    Parameters
    ----------
    by
        The group that names systems.
    systems
        (S,) names, by their rank over all orderings.
    items
        (S,) how many items each has.
    score
        (S,) mean expected score over items and orderings.
    rank
        (S,) rank by that.
    best, worst
        (S,) smallest and largest rank under a single ordering; equal means share a rank.
    swaps
        Pairs of systems of which each is ahead under some ordering.
    """

    by: str
    systems: tuple[str, ...]
    items: IntArray
    score: FloatArray
    rank: FloatArray
    best: FloatArray
    worst: FloatArray
    swaps: tuple[tuple[str, str], ...]

    @property
    def changed(self) -> tuple[str, ...]:
        """Systems whose rank depends on the ordering."""
        return tuple(name for name, moved in zip(self.systems, self.best < self.worst, strict=True) if moved)

    def to_frame(self) -> pd.DataFrame:
        """Frame, one row a system: system, items, score, rank, best, worst."""
        import pandas as pd

        names = ("items", "score", "rank", "best", "worst")
        return pd.DataFrame({"system": list(self.systems), **{name: list(getattr(self, name)) for name in names}})


def system_ranks(run: Run, by: str = "system") -> SystemRanks:
    """Ranks of systems by their mean expected score, under each ordering and over all.

    Raises
    ------
    NotObserved
        No item has that group, or all that have are of one system; or the run has one ordering.
    """
    require_two(run)
    names = [item.groups.get(by) for item in run.items]
    systems = sorted({str(name) for name in names if name is not None})
    if len(systems) < 2:
        raise NotObserved(f"the items' group {by!r} names {len(systems)} system(s); ranks need at least two.")
    of = np.array([[str(name) == system and name is not None for name in names] for system in systems])  # (S, I)
    count = of.sum(axis=1)
    means = (of @ (run.probs() @ run.scores)) / count[:, None]  # (S, O)
    ranks = _ranks(means)
    whole, score = _ranks(means.mean(axis=1, keepdims=True))[:, 0], means.mean(axis=1)
    order = np.lexsort((np.array(systems), whole))
    ahead = ((means[:, None] - means[None]) > SAME).any(axis=2)  # (S, S)
    pairs = [(a, b) for n, a in enumerate(order) for b in order[n + 1 :] if ahead[a, b] and ahead[b, a]]
    return SystemRanks(
        by=by,
        systems=tuple(systems[s] for s in order),
        items=count[order],
        score=score[order],
        rank=whole[order],
        best=ranks.min(axis=1)[order],
        worst=ranks.max(axis=1)[order],
        swaps=tuple((systems[a], systems[b]) for a, b in pairs),
    )


def _ranks(means: FloatArray) -> FloatArray:
    """(S, O) mid-ranks down each column, 1 for the largest; what differs by rounding is equal."""
    ranks: FloatArray = stats.rankdata(-np.round(means / SAME), axis=0)
    return ranks
