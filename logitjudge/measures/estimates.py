"""Shares, means and correlations of clustered items, each with a 95 % interval that respects the clusters.

A *share* is a ratio of two sums over items, ``sum above / sum below``, within [0, 1]. Its standard error comes from resampled clusters; the
interval is Wilson's, with the number of observations that this error is worth. The plain interval (value +- t x error) says
"0 to 0" of a share that is 0, and covers 63 % of the truth where one of 59 couples is right; Wilson's does not. Degrees of
freedom are those of the effective clusters behind ``below``, ``(sum n)^2 / sum n^2``, minus 1.

References
----------
E. B. Wilson (1927), JASA 22, 209-212. E. L. Korn, B. I. Graubard (1998), Survey Methodology 24, 193-201 (effective numbers).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from scipy import stats

from logitjudge.core import BoolArray, FloatArray, IntArray
from logitjudge.errors import InputError
from logitjudge.measures import intervals
from logitjudge.measures.intervals import Statistic
from logitjudge.measures.weighted import ratio

LEVEL = 0.95
LEAST = 2.0  # effective clusters that an interval takes
SAME = 1e-9  # a spread that is smaller is rounding
ONE = 1 - 1e-12  # a correlation beyond is perfect
NOTHING = "there is nothing to take it of"
ONE_CLUSTER = "no interval: all items are of one cluster"
Part = tuple[FloatArray, FloatArray]  # (I,) above and below
Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True, slots=True)
class TTest:
    """A t test over clusters of a mean against 0; `p` is 1 where all are 0; none is made where they are all alike otherwise."""

    statistic: float | None
    degrees: float | None
    p: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its interval.

    Parameters
    ----------
    value
        None where it does not exist; `note` says why.
    low, high
        95 % interval, or None.
    of
        How many pairs, verdicts or flips it is of.
    clusters
        How many clusters these come from.
    note
        What to know before it is used, or "".
    test
        Of a mean that would be 0 without the effect; else None.
    """

    value: float | None
    low: float | None
    high: float | None
    of: int
    clusters: int
    note: str = ""
    test: TTest | None = None


def shares(parts: Mapping[Name, Part], clusters: IntArray, *, draws: int = 1000, seed: int = 0) -> dict[Name, Estimate]:
    """Shares of items, each with its interval.

    Parameters
    ----------
    parts
        Name -> (I,) `above` and `below` of each item, 0 <= above <= below.
    clusters
        (I,) cluster of each item, of `intervals.number`.
    draws, seed
        Of the resampling: only clusters in which something counts (below > 0) are drawn.

    Raises
    ------
    InputError
        Fewer than two draws.

    Examples
    --------
    >>> found = shares({"x": (np.array([1.0, 0, 0, 0]), np.ones(4))}, np.arange(4))["x"]
    >>> found.value, found.of, found.note
    (0.25, 4, 'too few clusters (4 < 20)')
    """
    if draws < 2:
        raise InputError(f"draws is {draws}: an interval needs at least two.")
    sums = {name: _sums(part, clusters) for name, part in parts.items()}
    alike: dict[bytes, list[Name]] = {}
    for name, (_, below) in sums.items():
        alike.setdefault((below > 0).tobytes(), []).append(name)
    made = {}
    for names in alike.values():
        there: BoolArray = sums[names[0]][1] > 0
        above, below = (np.array([sums[name][side][there] for name in names]) for side in (0, 1))  # (N, C)
        drawn = _drawn(above, below, draws, seed)
        made.update({name: _share(above[n], below[n], drawn[:, n]) for n, name in enumerate(names)})
    return {name: made[name] for name in parts}


def _sums(part: Part, clusters: IntArray) -> FloatArray:
    """(2, C) sums over the items of each cluster."""
    return np.array([np.bincount(clusters, weights=np.asarray(side, np.float64)) for side in part])


def _drawn(above: FloatArray, below: FloatArray, draws: int, seed: int) -> FloatArray:
    """(B, N) shares of resampled clusters, of (N, C) sums; (B, N) NaN with fewer than two clusters."""
    count = above.shape[1]
    if count < LEAST:
        return np.full((draws, len(above)), np.nan)

    def statistic(weight: FloatArray) -> FloatArray:
        return ratio(weight @ above.T, weight @ below.T)

    rng = np.random.default_rng(seed)
    return intervals.bootstrap(statistic, np.arange(count), draws=draws, rng=rng)


def _share(above: FloatArray, below: FloatArray, drawn: FloatArray) -> Estimate:
    """One share of (C,) sums, with its interval."""
    if len(below) == 0:
        return Estimate(None, None, None, 0, 0, NOTHING)
    value, of, count = float(np.clip(above.sum() / below.sum(), 0, 1)), round(float(below.sum())), len(below)
    if count < LEAST:
        return Estimate(value, None, None, of, count, ONE_CLUSTER)
    worth = effective(below)
    if worth < LEAST * (1 - SAME):
        why = f"no interval: rests on {worth:.1f} effective clusters, and an interval takes {LEAST:g}"
        return Estimate(value, None, None, of, count, why)
    error = float(drawn.std(ddof=1)) / np.sqrt(1 - 1 / worth)
    note = intervals.few(count)
    if error <= SAME:
        same = "degenerate: no resample differs"
        note = "; ".join(filter(None, (note, same + "; each cluster is taken for one observation" * (value in (0, 1)))))
        if value not in (0, 1):
            return Estimate(value, value, value, of, count, note)
    number = value * (1 - value) / error**2 if error > SAME else worth
    return Estimate(value, *wilson(value, number, worth - 1), of, count, note)


def effective(sizes: FloatArray) -> float:
    """Effective number of clusters, ``(sum n)^2 / sum n^2``; C where all are of one size.

    Examples
    --------
    >>> effective(np.array([3.0, 1.0]))
    1.6
    """
    return float(sizes.sum() ** 2 / (sizes**2).sum())


def wilson(value: float, number: float, degrees: float, *, level: float = LEVEL) -> tuple[float, float]:
    """Wilson's interval of a share of `number` observations, with a quantile of t.

    Examples
    --------
    >>> [round(end, 3) for end in wilson(0.0, 59, 58)]
    [0.0, 0.064]
    """
    q2 = float(stats.t.ppf((1 + level) / 2, degrees)) ** 2 / number
    middle, half = value + q2 / 2, np.sqrt(value * (1 - value) * q2 + q2**2 / 4)
    low, high = (middle - half) / (1 + q2), (middle + half) / (1 + q2)
    return float(np.clip(low, 0, value)), float(np.clip(high, value, 1))


def effect(values: FloatArray, clusters: IntArray) -> Estimate:
    """Mean of an effect over items, with the interval and the t test of its clusters (against 0).

    The standard error is that of the clusters' sums of residuals, so the test and the interval agree; with clusters of one size it
    is the t test of their means.

    Parameters
    ----------
    values
        (I,) effect of each item.
    clusters
        (I,) of `intervals.number`.
    """
    if len(values) == 0:
        return Estimate(None, None, None, 0, 0, NOTHING)
    value, of = float(values.mean()), len(values)
    sizes = np.bincount(clusters).astype(np.float64)
    count, worth = len(sizes), effective(sizes)
    if count < LEAST:
        return Estimate(value, None, None, of, count, ONE_CLUSTER)
    if worth < LEAST * (1 - SAME) and count > LEAST:
        return Estimate(value, None, None, of, count, f"no interval: rests on {worth:.1f} effective clusters")
    apart = np.bincount(clusters, weights=values - value)
    error = float(np.sqrt((apart**2).sum() / (1 - 1 / worth))) / of
    if error <= SAME * max(1.0, float(np.abs(values).max())):
        same = TTest(None, None, 1.0) if abs(value) <= SAME else None  # an effect that never varies has no p
        return Estimate(value, value, value, of, count, "degenerate: the clusters do not vary", same)
    half, t = error * float(stats.t.ppf((1 + LEVEL) / 2, worth - 1)), value / error
    test = TTest(t, worth - 1, float(2 * stats.t.sf(abs(t), worth - 1)))
    return Estimate(value, value - half, value + half, of, count, intervals.few(count), test)


def bounded(statistic: Statistic, clusters: IntArray, *, draws: int = 1000, seed: int = 0) -> Estimate:
    """A correlation or a kappa in [-1, 1], with an interval on the arctanh scale.

    Parameters
    ----------
    statistic
        Takes (B, I) weights and gives (B,) values, NaN where there is none. Say by yourself why the run has none.
    clusters
        (I,) of `intervals.number`; at least one item.
    draws, seed
        Of the resampling of clusters.
    """
    of, count = len(clusters), int(clusters.max()) + 1
    value = float(statistic(np.ones((1, of)))[0])
    if np.isnan(value):
        return Estimate(None, None, None, of, count, "degenerate: a side does not vary")
    if abs(value) > ONE:
        return Estimate(value, value, value, of, count, "degenerate: it is perfect")
    if count < LEAST:
        return Estimate(value, None, None, of, count, ONE_CLUSTER)
    drawn = intervals.bootstrap(statistic, clusters, draws=draws, rng=np.random.default_rng(seed))
    kept = np.arctanh(drawn[np.abs(drawn) < ONE])
    if len(kept) < max(2, draws / 2):
        return Estimate(value, None, None, of, count, f"no interval: most resamples are degenerate ({count} clusters)")
    low, high = np.tanh(intervals.t_interval(float(np.arctanh(value)), kept, count))
    return Estimate(value, float(low), float(high), of, count, intervals.few(count))
