"""Is the order worst where two candidates are close?

Pairs by their margin, |content| in nats. With two orders and no ties a pair is reversed exactly where |position| > |content|:
that flips lie at small margins follows by arithmetic and is no finding. Whether the position *effect* is larger there is one,
so both are given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from logitjudge.core import FloatArray, IntArray
from logitjudge.errors import InputError
from logitjudge.measures import intervals
from logitjudge.measures.agreement import MEASURES
from logitjudge.measures.estimates import Estimate, bounded, effect, shares
from logitjudge.measures.pairs import pairs
from logitjudge.run import Run

if TYPE_CHECKING:
    import pandas as pd

BINS = 4
LEAST = 3  # pairs: two points always correlate perfectly


@dataclass(frozen=True, slots=True)
class MarginBin:
    """Pairs with a margin from `low` to `high` nats: how many, their flip rate, their mean position effect (nats)."""

    low: float
    high: float
    pairs: int
    flip_rate: Estimate
    position: Estimate
    size: Estimate


@dataclass(frozen=True, slots=True)
class Margin:
    """Order effects against the margin.

    Parameters
    ----------
    bins
        Quantile bins of |content|, the closest pairs first. `MarginBin.size` is the mean |position|.
    flipped_when_close
        Spearman correlation of being flipped (0, 1) with -|content|; above 0: flips lie at small margins.
    larger_when_close
        Spearman correlation of |position| with -|content|: not by construction.
    flips, flips_beyond, beyond
        How many pairs flip, how many of these have |position| > |content|, and how many of all pairs have.
    """

    bins: tuple[MarginBin, ...]
    flipped_when_close: Estimate
    larger_when_close: Estimate
    flips: int
    flips_beyond: int
    beyond: int

    def to_frame(self) -> pd.DataFrame:
        """Frame, one row a bin: low, high, pairs, and value, low and high of flip_rate, position and size."""
        import pandas as pd

        rows = []
        for one in self.bins:
            found = (one.flip_rate, one.position, one.size)
            rows.append([one.low, one.high, one.pairs, *(x for e in found for x in (e.value, e.low, e.high))])
        names = [f"{name}{end}" for name in ("flip_rate", "position", "size") for end in ("", "_low", "_high")]
        return pd.DataFrame(rows, columns=["low", "high", "pairs", *names])


def margin(run: Run, bins: int = BINS, *, draws: int = 1000, seed: int = 0) -> Margin:
    """Flips and position effects by |content|.

    Parameters
    ----------
    run
        A pairwise run.
    bins
        How many bins of equally many pairs; those that ties of the margin leave empty are left out.
    draws, seed
        Of the resampling of clusters.

    Raises
    ------
    InputError
        Fewer than one bin.
    """
    if bins < 1:
        raise InputError(f"bins is {bins}. Give at least one.")
    found = pairs(run)
    close, size, flips = -np.abs(found.content), np.abs(found.position), found.flipped.astype(np.float64)
    place = _place(-close, bins)
    rates = shares(
        {b: (flips * (place == b), (place == b).astype(np.float64)) for b in range(bins)},
        found.clusters,
        draws=draws,
        seed=seed,
    )
    rows = []
    for b in np.unique(place).tolist():
        here = place == b
        clusters = intervals.number(found.clusters[here].tolist())
        effects = (effect(values[here], clusters) for values in (found.position, size))
        rows.append(
            MarginBin(float(-close[here].max()), float(-close[here].min()), int(here.sum()), rates[b], *effects)
        )
    beyond = size > -close
    return Margin(
        tuple(rows),
        _spearman(flips, close, found.clusters, draws, seed),
        _spearman(size, close, found.clusters, draws, seed),
        int(flips.sum()),
        int((found.flipped & beyond).sum()),
        int(beyond.sum()),
    )


def _place(size: FloatArray, bins: int) -> IntArray:
    """(I,) quantile bin of each margin; equal margins share one."""
    cuts = np.quantile(size, np.arange(1, bins) / bins)
    place: IntArray = np.searchsorted(cuts, size, side="left")
    return place


def _spearman(x: FloatArray, y: FloatArray, clusters: IntArray, draws: int, seed: int) -> Estimate:
    count = len(set(clusters.tolist()))
    if len(x) < LEAST:
        return Estimate(None, None, None, len(x), count, f"too few pairs ({len(x)} < {LEAST})")
    return bounded(lambda weight: MEASURES["spearman"](x, y, weight), clusters, draws=draws, seed=seed)
