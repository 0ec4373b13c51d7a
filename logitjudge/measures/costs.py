"""Bias Cost: how far an ordering lets positions move the pick, and which ordering to use.

``Cost(pi) = sum over p of |P(p | pi_p) - 1/K|`` (arXiv:2602.02219, section 5.3). It is a sum over (score, position)
pairs, so the best of K! orderings is a linear assignment problem: exact for any K.

Costs are compared on a grid of 1e-12, so that orderings that cost the same in exact arithmetic tie, whatever the
rounding of the matrix; ties stand in lexicographic order of their score values.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from logitjudge import orderings
from logitjudge.core import FloatArray, IntArray, Ordering, frozen_array
from logitjudge.errors import InputError, OrderingError
from logitjudge.measures import assignment
from logitjudge.measures.matrices import ScorePositionMatrix

if TYPE_CHECKING:
    import pandas as pd

GRID = 1e12
ENUMERATE = 8  # at most 8! = 40,320 orderings are listed; more levels go through k-best assignment


@dataclass(frozen=True, slots=True)
class OrderingCost:
    """An ordering, its score values (first position first) and its Bias Cost, in [0, 2 (K - 1)]."""

    ordering: Ordering
    values: tuple[int, ...]
    cost: float


@dataclass(frozen=True, slots=True, eq=False)
class RankedOrderings:
    """Orderings by Bias Cost, cheapest first.

    Parameters
    ----------
    orderings
        (n,) orderings.
    costs
        (n,) their Bias Costs.
    scores
        (K,) score values.
    """

    orderings: tuple[Ordering, ...]
    costs: FloatArray
    scores: IntArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "costs", frozen_array(self.costs))
        object.__setattr__(self, "scores", frozen_array(self.scores, np.int64))

    def __len__(self) -> int:
        return len(self.orderings)

    def __getitem__(self, rank: int) -> OrderingCost:
        ordering = self.orderings[rank]
        return OrderingCost(ordering, ordering.values(self.scores.tolist()), float(self.costs[rank]))

    def __iter__(self) -> Iterator[OrderingCost]:
        return (self[rank] for rank in range(len(self)))

    def to_frame(self) -> pd.DataFrame:
        """Frame, one row an ordering: rank (1-based), ordering (score values joined by commas), cost."""
        import pandas as pd

        texts = [",".join(map(str, row.values)) for row in self]
        return pd.DataFrame({"rank": np.arange(1, len(self) + 1), "ordering": texts, "cost": self.costs})

    def _repr_html_(self) -> str:
        return str(self.to_frame().to_html(index=False))


@dataclass(frozen=True, slots=True)
class CostSpread:
    """What a choice among all K! orderings can change.

    Parameters
    ----------
    cheapest, dearest
        The ends of the range.
    mean
        Mean cost over all K! orderings.
    identity
        Cost of the scores in increasing order.
    additive
        Cost of every ordering for a judge with the same P(p) and no score x position interaction (all rows equal to
        the position distribution).
    """

    cheapest: OrderingCost
    dearest: OrderingCost
    mean: float
    identity: float
    additive: float

    def to_frame(self) -> pd.DataFrame:
        """Frame, one row a quantity: quantity, ordering (score values, or None), cost."""
        import pandas as pd

        ends = {"cheapest": self.cheapest, "dearest": self.dearest}
        rows: list[tuple[str, str | None, float]] = [
            (name, ",".join(map(str, end.values)), end.cost) for name, end in ends.items()
        ]
        rows += [(name, None, getattr(self, name)) for name in ("mean", "identity", "additive")]
        return pd.DataFrame(rows, columns=["quantity", "ordering", "cost"])


def bias_cost(matrix: ScorePositionMatrix, ordering: Ordering | Sequence[int] | str) -> float:
    """Bias Cost of one ordering: ``sum over p of |P(p | pi_p) - 1/K|``; 0 for a judge without position bias.

    Parameters
    ----------
    matrix
        P(position | score) of a run.
    ordering
        An `Ordering`, or score values with the first position first: ``(5, 4, 3, 2, 1)`` or ``"5,4,3,2,1"``.

    Raises
    ------
    NotObserved
        A row of the matrix is missing; every ordering needs all of them.
    OrderingError
        Not one permutation of the scores.

    References
    ----------
    arXiv:2602.02219, section 5.3.
    """
    shown = _one(ordering, matrix.scores).shown
    return float(_distance(matrix)[list(shown), range(len(shown))].sum())


def rank_orderings(matrix: ScorePositionMatrix, n: int = 10) -> RankedOrderings:
    """Rank the n cheapest of all K! orderings (all of them where n > K!), exact for any K.

    Raises
    ------
    NotObserved
        A row of the matrix is missing.
    InputError
        n is less than 1.

    References
    ----------
    arXiv:2602.02219, section 5.3; K. G. Murty (1968), Operations Research 16, 682-687, for K > 8.
    """
    if n < 1:
        raise InputError(f"n is {n}: ask for at least one ordering.")
    table = _grid(matrix)
    shown, totals = _enumerated(table, n) if len(table) <= ENUMERATE else assignment.cheapest(table, n)
    return RankedOrderings(tuple(Ordering(row) for row in shown), np.array(totals) / GRID, matrix.scores)


def dearest_ordering(matrix: ScorePositionMatrix) -> OrderingCost:
    """Find the most expensive of all K! orderings; the first in lexicographic order where several are.

    Raises
    ------
    NotObserved
        A row of the matrix is missing.
    """
    [shown], [total] = assignment.cheapest(-_grid(matrix), 1)
    ordering = Ordering(shown)
    return OrderingCost(ordering, ordering.values(matrix.scores.tolist()), abs(total) / GRID)


def cost_spread(matrix: ScorePositionMatrix) -> CostSpread:
    """Range and mean of the cost over all K! orderings, beside identity's and an additive judge's.

    The mean needs no enumeration: each (score, position) pair is in 1/K of the orderings. Where the range is small
    against its uncertainty no ordering is better than another: average over orderings instead.

    Raises
    ------
    NotObserved
        A row of the matrix is missing.

    References
    ----------
    arXiv:2602.02219, section 5.3.
    """
    distance = _distance(matrix)
    levels = len(distance)
    return CostSpread(
        cheapest=rank_orderings(matrix, 1)[0],
        dearest=dearest_ordering(matrix),
        mean=float(distance.sum() / levels),
        identity=float(np.trace(distance)),
        additive=float(np.abs(matrix.position_distribution() - 1 / levels).sum()),
    )


def _one(ordering: Ordering | Sequence[int] | str, scores: IntArray) -> Ordering:
    found = orderings.parse(ordering if isinstance(ordering, str) else [ordering], scores.tolist())  # type: ignore[arg-type]  # a list of one of either kind
    if len(found) != 1:
        raise OrderingError(f"{ordering!r} is {len(found)} orderings. Give one, as score values: 5,4,3,2,1.")
    return found[0]


def _distance(matrix: ScorePositionMatrix) -> FloatArray:
    """(K, P) |P(p | k) - 1/K|."""
    matrix.require_all()
    distance: FloatArray = np.abs(matrix.values - 1 / len(matrix.scores))
    return distance


def _grid(matrix: ScorePositionMatrix) -> FloatArray:
    """(K, P) distances in whole units of 1 / GRID: their sums are exact, so ties are ties."""
    grid: FloatArray = np.rint(_distance(matrix) * GRID)
    return grid


def _enumerated(table: FloatArray, n: int) -> tuple[list[tuple[int, ...]], list[float]]:
    """List the n cheapest permutations of all, and their totals."""
    every = np.array(list(itertools.permutations(range(len(table)))))  # (K!, P), lexicographic
    totals = table[every, np.arange(len(table))].sum(axis=1)
    best = np.argsort(totals, kind="stable")[:n]
    return [tuple(row) for row in every[best].tolist()], totals[best].tolist()
