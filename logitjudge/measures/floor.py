"""What the noise floor could explain: how far each number would move if every reading were off by it, the worst way.

The noise floor is the largest difference in nats between two readings of one prompt (``run.provenance["noise_floor"]``).
With every log-probability off by at most n nats, the log-odds of an option move by at most 2n: a probability q by at most
2n q (1 - q) to first order, and a winner may change where it leads by at most 2n. The bounds add up these moves as if all went
the same way; what they do not reach, the floor does not explain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from logitjudge.core import FloatArray, Ordering
from logitjudge.measures import cells
from logitjudge.measures.matrices import Estimator, picks
from logitjudge.run import Run, SampledRun


@dataclass(frozen=True, slots=True, eq=False)
class Reach:
    """How far the noise floor could move numbers of a run.

    Parameters
    ----------
    positions
        (P,) each share of the position distribution.
    cells
        (K, P) each cell of the score x position matrix; NaN in a row that was never picked.
    """

    positions: FloatArray
    cells: FloatArray

    def costs(self, orderings: Sequence[Ordering]) -> FloatArray:
        """(N,) the Bias Cost of each ordering."""
        return np.array([self.cells[list(o.shown), range(len(o.shown))].sum() for o in orderings])


def reach(run: Run, estimator: Estimator = "soft") -> Reach | None:
    """How far the noise floor could move shares and cells; None for a run without one, or without probabilities.

    Raises
    ------
    NotExact
        Some readings are upper bounds.
    """
    floor = run.provenance.get("noise_floor")
    if floor is None or isinstance(run, SampledRun):
        return None
    soft = estimator == "soft"
    weight = run.probs() if soft else picks(run)
    moves = 2 * floor["max_nats"] * weight * (1 - weight) if soft else _may_change(run.logp, 2 * floor["max_nats"])
    there = cells.by_item(weight, run.shown).mean(axis=0)  # (K, P)
    moved = cells.by_item(moves, run.shown).mean(axis=0)
    whole = there.sum(axis=1, keepdims=True)
    share = np.divide(there, whole, where=whole > 0, out=np.full(there.shape, np.nan))
    others = moved.sum(axis=1, keepdims=True) - moved
    by_cell = np.divide((1 - share) * moved + share * others, whole, where=whole > 0, out=np.full(there.shape, np.nan))
    return Reach(moved.mean(axis=0), by_cell)


def _may_change(logp: FloatArray, nats: float) -> FloatArray:
    """(I, O, K) 1 for an option that leads, or trails, by at most so many nats."""
    ranked = np.sort(logp, axis=-1)
    best, second = ranked[..., -1:], ranked[..., -2:-1]
    rival = np.where(logp >= best, second, best)
    near: FloatArray = (np.abs(logp - rival) <= nats).astype(np.float64)
    return near
