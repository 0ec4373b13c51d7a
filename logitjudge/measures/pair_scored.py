"""Pairs of which each candidate gets a total of points in each order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from logitjudge.core import FloatArray, IntArray, frozen_array
from logitjudge.errors import InputError
from logitjudge.measures.pair_rules import ROUNDING
from logitjudge.measures.pairs import TIE

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """Totals of I pairs, apart into content and order; all in points.

    Parameters
    ----------
    totals
        (I, 2) each candidate's order-adjusted total: the mean over orders.
    content
        (I,) candidate 1's total minus candidate 2's, the mean over orders.
    order
        (I,) what being shown first adds to that difference: half of the difference between orders.
    winner
        (I, 2) 1, 2 or 0 (equal totals) in each order: candidate 1 shown first, candidate 2 shown first.
    """

    totals: FloatArray
    content: FloatArray
    order: FloatArray
    winner: IntArray

    def __post_init__(self) -> None:
        for name in ("totals", "content", "order"):
            object.__setattr__(self, name, frozen_array(getattr(self, name)))
        object.__setattr__(self, "winner", frozen_array(self.winner, np.int64))

    @property
    def stable(self) -> tuple[int | None, ...]:
        """(I,) the winner of both orders (0: equal totals in both), or None: inconclusive."""
        return tuple(int(a) if a == b else None for a, b in self.winner)

    def to_frame(self) -> pd.DataFrame:
        """Frame, one row a pair: total_1, total_2, content, order, winner_first_order, winner_second_order, stable."""
        import pandas as pd

        columns: dict[str, Any] = {f"total_{c + 1}": self.totals[:, c] for c in (0, 1)}
        columns |= {"content": self.content, "order": self.order}
        columns |= {"winner_first_order": self.winner[:, 0], "winner_second_order": self.winner[:, 1]}
        return pd.DataFrame(columns | {"stable": list(self.stable)})


def scored_totals(first_order: Sequence[Any] | FloatArray, second_order: Sequence[Any] | FloatArray) -> Scored:
    """Content difference and order effect of scored pairs.

    Parameters
    ----------
    first_order, second_order
        (I, 2) totals of candidate 1 and candidate 2, where candidate 1 is shown first, and where candidate 2 is; or (2,) of one pair.
        Columns are candidates, never slots.

    Raises
    ------
    InputError
        Other shapes, or a total that is not finite.

    Examples
    --------
    A, B: 8, 7 points; then B, A: 8, 7 points. Each gains a point of the difference by being shown first.

    >>> found = scored_totals((8, 7), (7, 8))
    >>> found.content.tolist(), found.order.tolist(), found.winner.tolist(), found.stable
    ([0.0], [1.0], [[1, 2]], (None,))
    """
    totals = [np.atleast_2d(np.array(side, dtype=np.float64)) for side in (first_order, second_order)]
    if totals[0].shape != totals[1].shape or totals[0].shape[1:] != (2,):
        raise InputError(
            f"totals have shapes {totals[0].shape} and {totals[1].shape}. Give both orders' totals of both candidates."
        )
    both = np.stack(totals, axis=1)  # (I, 2 orders, 2 candidates)
    if not np.isfinite(both).all():
        raise InputError("some total is missing. Leave pairs out that were not scored in both orders.")
    apart = both[..., 0] - both[..., 1]
    winner = np.where(np.abs(apart) <= ROUNDING, TIE, np.where(apart > 0, 1, 2))
    return Scored(both.mean(axis=1), apart.mean(axis=1), (apart[:, 0] - apart[:, 1]) / 2, winner)
