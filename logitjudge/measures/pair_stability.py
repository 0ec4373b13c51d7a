"""How far a judge of pairs holds when the order is swapped.

A flip is a pair whose verdicts differ: a reversal (1 in one order, 2 in the other) or a half flip (one order says tie). A reversal took the
same slot twice; a half flip took the slot of its decided order. Counting the first order only, as a widely copied harness does, says
that every reversal and most half flips "favour position 1", whichever slot was taken.

References
----------
L. Zheng et al. (2023), arXiv:2306.05685; P. Wang et al. (2023), arXiv:2305.17926.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from logitjudge.core import FloatArray
from logitjudge.measures.estimates import Estimate, Part, effect, shares
from logitjudge.measures.pairs import TIE, Pairs, pairs
from logitjudge.run import Run

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Stability:
    """What swapping the order does to a run of pairs; shares are of pairs where nothing else is said.

    Parameters
    ----------
    position_name
        What `position` is the effect of: "first slot including its letter", or "first slot" in a 2 x 2 design.
    swap_consistency, flip_rate
        Pairs with the same verdict in both orders, and with different ones.
    reversals, half_flips
        The two kinds of flips.
    flips_to_first, flips_to_second
        Of the flips: those that took what was shown first, second.
    first_hard
        Of the decided verdicts of both orders: those that take the candidate shown first.
    first_soft
        Mean over verdicts of the probability of the candidate shown first, given no tie.
    ties_hard, ties_soft
        Of the verdicts: those that are ties; mean probability of a tie. `ties_soft` is None where a tie is no option.
    position, slot, letter
        Mean effects in nats of log-odds; `slot` and `letter` only of a 2 x 2 design.
    """

    position_name: str
    swap_consistency: Estimate
    flip_rate: Estimate
    reversals: Estimate
    half_flips: Estimate
    flips_to_first: Estimate
    flips_to_second: Estimate
    first_hard: Estimate
    first_soft: Estimate
    ties_hard: Estimate
    ties_soft: Estimate | None
    position: Estimate
    slot: Estimate | None
    letter: Estimate | None

    def to_frame(self) -> pd.DataFrame:
        """Frame, one row a measure: measure, value, low, high, of, clusters, note."""
        import pandas as pd

        found = {field.name: getattr(self, field.name) for field in fields(self)[1:]}
        names = ("value", "low", "high", "of", "clusters", "note")
        rows = [[name, *(getattr(one, n) for n in names)] for name, one in found.items() if one is not None]
        return pd.DataFrame(rows, columns=["measure", *names])


def stability(run: Run, *, draws: int = 1000, seed: int = 0) -> Stability:
    """Flips, their direction, and the effect of the position, with 95 % intervals.

    Parameters
    ----------
    run
        A pairwise run (`logitjudge.measures.pairs.pairs`).
    draws, seed
        Of the resampling of clusters.
    """
    found = pairs(run)
    made = shares(_parts(found), found.clusters, draws=draws, seed=seed)
    slot, letter = (None if x is None else effect(x, found.clusters) for x in (found.slot, found.letter))
    return Stability(
        position_name=found.position_name,
        position=effect(found.position, found.clusters),
        slot=slot,
        letter=letter,
        ties_soft=made.pop("ties_soft", None),
        **made,
    )


def _parts(found: Pairs) -> dict[str, Part]:
    every = np.ones(len(found))
    flips = found.flipped.astype(np.float64)
    turned = found.reversed.astype(np.float64)
    taken = found.takes_first
    decided = (found.verdict != TIE).sum(axis=1).astype(np.float64)
    to_first = flips * (taken.sum(axis=1) > 0)
    parts = {
        "swap_consistency": (1 - flips, every),
        "flip_rate": (flips, every),
        "reversals": (turned, every),
        "half_flips": (flips - turned, every),
        "flips_to_first": (to_first, flips),
        "flips_to_second": (flips - to_first, flips),
        "first_hard": ((taken == 1).sum(axis=1).astype(np.float64), decided),
        "first_soft": (found.first.sum(axis=1), 2 * every),
        "ties_hard": (2 - decided, 2 * every),
    }
    soft: FloatArray | None = found.tie
    return parts if soft is None else parts | {"ties_soft": (soft.sum(axis=1), 2 * every)}
