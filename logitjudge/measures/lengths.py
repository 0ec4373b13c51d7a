"""Regression of scores on length and other columns, with intervals that resample clusters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from logitjudge.core import FloatArray, IntArray
from logitjudge.measures import intervals
from logitjudge.measures.estimates import Estimate, TTest
from logitjudge.measures.intervals import Statistic

DRAWS = 1000
LEAST = 3  # clusters that an interval takes


def slope(y: FloatArray, columns: Sequence[FloatArray], clusters: Sequence[str], *, seed: int = 0) -> Estimate:
    """Least-squares slope of y (N,) on the first of `columns` (each (N,)), the others and a constant held fixed.

    Returns
    -------
    Estimate
        With a 95 % interval: bootstrap standard error over clusters times t; ``value`` None where the columns do not vary apart.
    """
    x = np.column_stack([*columns, np.ones(len(y))])
    number = intervals.number(list(clusters))
    count = int(number.max()) + 1
    if np.linalg.matrix_rank(x - x.mean(axis=0) * (np.arange(x.shape[1]) < x.shape[1] - 1)) < x.shape[1]:
        return Estimate(None, None, None, len(y), count, "the columns do not vary apart from each other")

    return bootstrapped(lambda weight: coefficients(weight, x, y)[:, 0], number, seed=seed)


def coefficients(weight: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """(B, P) least-squares coefficients of y (N,) on x (N, P) under B weights (B, N)."""
    moments = np.einsum("bi,ij,ik->bjk", weight, x, x)
    right = np.einsum("bi,ij,i->bj", weight, x, y)
    solved: FloatArray = np.linalg.pinv(moments) @ right[..., None]
    return solved[..., 0]


def bootstrapped(statistic: Statistic, clusters: IntArray, *, count: int | None = None, seed: int = 0) -> Estimate:
    """A number with a 95 % interval, bootstrap standard error over clusters (N,) times t, and the test against 0 that agrees with it.

    Parameters
    ----------
    statistic
        Takes weights (B, N) and gives (B,); NaN where a resample has none.
    count
        Of the clusters that it rests on, where these are not all.
    """
    of, count = len(clusters), count or int(clusters.max()) + 1
    value = float(statistic(np.ones((1, of)))[0])
    if count < LEAST:
        return Estimate(value, None, None, of, count, f"no interval: {count} clusters")
    drawn = intervals.bootstrap(statistic, clusters, draws=DRAWS, rng=np.random.default_rng(seed))
    drawn = drawn[np.isfinite(drawn)]
    if len(drawn) < DRAWS / 2:
        return Estimate(value, None, None, of, count, "no interval: most resamples are degenerate")
    low, high = intervals.t_interval(value, drawn, count)
    error = float(np.std(drawn, ddof=1))
    if error == 0:  # an effect that never varies has no p
        return Estimate(
            value, low, high, of, count, "degenerate: no resample differs", None if value else TTest(None, None, 1.0)
        )
    t = value / error
    test = TTest(t, count - 1, float(2 * stats.t.sf(abs(t), count - 1)))
    return Estimate(value, low, high, of, count, intervals.few(count), test)
