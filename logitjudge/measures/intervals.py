"""Intervals of clustered data: resample clusters, never readings.

A percentile bootstrap covers too little with few clusters, so an interval is the bootstrap's standard error times a
quantile of t with C - 1 degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from scipy import stats

from logitjudge.core import FloatArray, IntArray

FEW = 20  # below this number of clusters an interval is flagged
CHUNK = 4_000_000  # weights in memory at once
KEPT = 4  # resamplings in memory
MOST = 1 << 28  # bytes that one of them may have
Statistic = Callable[[FloatArray], FloatArray]


def number(names: Sequence[Hashable]) -> IntArray:
    """(I,) cluster of each item, numbered by sorted name: draws then do not depend on the order of the items.

    Examples
    --------
    >>> number(["b", "a", "b"]).tolist()
    [1, 0, 1]
    """
    place = {name: n for n, name in enumerate(sorted(set(names), key=str))}
    return np.array([place[name] for name in names], dtype=np.int64)


def few(clusters: int) -> str:
    """A note where there are too few clusters for an interval to hold what it says, or ""."""
    return f"too few clusters ({clusters} < {FEW})" if clusters < FEW else ""


def bootstrap(statistic: Statistic, clusters: IntArray, *, draws: int, rng: np.random.Generator) -> FloatArray:
    """(draws,) a statistic under cluster resampling.

    Parameters
    ----------
    statistic
        Takes (B, I) weights, how often each item was drawn, and gives (B,) values.
    clusters
        (I,) cluster of each item, numbered 0 .. C - 1.
    draws
        Number of resamples of C clusters with replacement.
    rng
        Source of randomness.
    """
    count = int(clusters.max()) + 1
    drawn = times(count, draws, rng)
    step = max(1, CHUNK // len(clusters))
    parts = [statistic(drawn[b : b + step, clusters].astype(np.float64)) for b in range(0, draws, step)]
    return np.concatenate(parts)


_drawn: dict[tuple[str, int, int], tuple[IntArray, Any]] = {}  # key -> counts, state of the source behind them


def times(count: int, draws: int, rng: np.random.Generator) -> IntArray:
    """(draws, C) how often each cluster is drawn; the last ones are kept, because the figures of one run resample it alike."""
    key = (repr(rng.bit_generator.state), count, draws)
    if key in _drawn:
        made, rng.bit_generator.state = _drawn[key]
        return made
    step = max(1, CHUNK // count)
    made = np.concatenate([_multinomial(count, min(step, draws - b), rng) for b in range(0, draws, step)])
    made.flags.writeable = False
    if made.nbytes <= MOST:
        while len(_drawn) >= KEPT:
            del _drawn[next(iter(_drawn))]
        _drawn[key] = made, rng.bit_generator.state
    return made


def _multinomial(count: int, draws: int, rng: np.random.Generator) -> IntArray:
    """(draws, C) counts of the narrowest type that holds them."""
    times: IntArray = rng.multinomial(count, np.full(count, 1 / count), size=draws)
    return times.astype(np.min_scalar_type(times.max()))


def t_interval(value: float, drawn: FloatArray, clusters: int, *, level: float = 0.95) -> tuple[float, float]:
    """Interval of a value: bootstrap standard error times the t quantile with C - 1 degrees of freedom.

    Parameters
    ----------
    value
        Estimate.
    drawn
        (draws,) the same under resampling; at least two.
    clusters
        C, at least two.
    level
        Probability of covering.

    Examples
    --------
    >>> low, high = t_interval(0.0, np.array([-1.0, 1.0]), 1001)
    >>> round(high, 2)
    2.78
    """
    half = float(np.std(drawn, ddof=1) * stats.t.ppf((1 + level) / 2, clusters - 1))
    return value - half, value + half
