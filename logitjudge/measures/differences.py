"""Which of N numbers differ, and which ranks they may have: simultaneous paired differences over clusters (max-t).

All N numbers of one resample come from the same clusters, so their differences are paired. The bootstrap of a *rank* is
wrong where numbers are close, so a rank is given as the set that the simultaneous differences leave.

References
----------
M. Mogstad, J. P. Romano, A. M. Shaikh, D. Wilhelm (2024), Inference for ranks. Review of Economic Studies 91, 476-518.
J. C. Hsu (1981), Simultaneous confidence intervals for all distances from the "best". Annals of Statistics 9, 1026-1034.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from logitjudge.core import BoolArray, FloatArray, IntArray

SAME = 1e-9  # a difference that is smaller is rounding


def critical(drawn: FloatArray, clusters: int, *, level: float = 0.95, sides: int = 2) -> tuple[FloatArray, float]:
    """Standard errors (N,) and one max-t factor: all N intervals value +- factor x error hold together.

    Parameters
    ----------
    drawn
        (B, N) the numbers under resampling of clusters, B >= 2.
    clusters
        C; the factor is that of t with C - 1 degrees of freedom at the tail probability that the bootstrap gives.
    level
        Probability that all hold.
    sides
        2, or 1 for a bound from below.
    """
    error, tail = spread(drawn, level=level, sides=sides)
    return error, float(stats.t.isf(tail, max(clusters - 1, 1)))


def spread(drawn: FloatArray, *, level: float = 0.95, sides: int = 2) -> tuple[FloatArray, float]:
    """Standard errors (N,), and the normal tail probability one-sided at which all N intervals hold together; see `critical`."""
    error = drawn.std(axis=0, ddof=1)
    apart = drawn - drawn.mean(axis=0)
    t = np.divide(apart, error, where=error > SAME, out=np.zeros(drawn.shape))
    largest = (np.abs(t) if sides == 2 else t).max(axis=1, initial=0)
    return error, float(stats.norm.sf(np.quantile(largest, level)))


def compare(
    value: FloatArray, drawn: FloatArray, which: int, clusters: int, *, level: float = 0.95, sides: int = 2
) -> IntArray:
    """(N,) 1 where a number is surely larger than number `which`, -1 where surely smaller, 0 where that cannot be told.

    Parameters
    ----------
    value, drawn
        (N,) the numbers and (B, N) the same under resampling of clusters.
    which
        The number that all others are compared with.
    clusters
        C; with one, nothing can be told.
    sides
        2; with 1, only -1 and 0 are told.
    """
    if clusters < 2:
        return np.zeros(len(value), np.int64)
    behind = drawn[:, [which]] - drawn
    error, factor = critical(behind, clusters, level=level, sides=sides)
    apart = value[which] - value
    told = (np.abs(apart) > SAME) & (np.abs(apart) > factor * error)
    signs: IntArray = np.where(told, -np.sign(apart), 0).astype(np.int64)
    return signs if sides == 2 else np.minimum(signs, 0)


def rank_set(
    value: FloatArray, drawn: FloatArray, which: int, clusters: int, *, level: float = 0.95
) -> tuple[int, int]:
    """Lowest and highest rank (1: the largest number) that number `which` may have.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> value = np.array([0.0, 0.01, 5.0])
    >>> rank_set(value, value + rng.normal(0, 1, (500, 3)), 0, 100)
    (2, 3)
    """
    signs = compare(value, drawn, which, clusters, level=level)
    return 1 + int((signs > 0).sum()), len(value) - int((signs < 0).sum())


def rank(value: FloatArray, which: int) -> float:
    """Rank of number `which` among N, 1: the largest; the middle of the ranks that equal numbers share.

    Examples
    --------
    >>> rank(np.array([0.3, 0.5, 0.3]), 0)
    2.5
    """
    same = np.abs(value - value[which]) <= SAME
    larger = (value > value[which]) & ~same
    return float(larger.sum() + (same.sum() + 1) / 2)


def may_be_smallest(value: FloatArray, drawn: FloatArray, clusters: int, *, level: float = 0.95) -> BoolArray:
    """(N,) numbers that cannot be told from the smallest: none of the others is surely smaller.

    The set holds the truly smallest number with probability `level`.
    """
    told = [(compare(value, drawn, n, clusters, level=level, sides=1) < 0).any() for n in range(len(value))]
    return ~np.array(told)


def surely_below(value: FloatArray, drawn: FloatArray, clusters: int, *, level: float = 0.95) -> BoolArray:
    """(N,) numbers that are surely below 0, all of them together."""
    if clusters < 2:
        return np.zeros(len(value), np.bool_)
    error, factor = critical(-drawn, clusters, level=level, sides=1)
    below: BoolArray = (value < -SAME) & (value < -factor * error)
    return below


def surely_not_zero(value: FloatArray, drawn: FloatArray, clusters: int, *, level: float = 0.95) -> BoolArray:
    """(N,) numbers that surely differ from 0, all of them together."""
    if clusters < 2:
        return np.zeros(len(value), np.bool_)
    error, factor = critical(drawn, clusters, level=level)
    apart: BoolArray = (np.abs(value) > SAME) & (np.abs(value) > factor * error)
    return apart
