"""Agreement of scores with ratings under weights: each measure for many resamples of the items at once.

Scores x and ratings y are (I,); weights (B, I) say how often each item occurs in each of B resamples. Copies of an item are no pair of
items. Where a resample has no number (a column is constant in it, say), it is NaN: such a resample is left out of an interval.
"""

from __future__ import annotations

import numpy as np

from logitjudge.core import BoolArray, FloatArray, IntArray


def kendall(x: FloatArray, y: FloatArray, weight: FloatArray) -> FloatArray:
    """(B,) Kendall's tau-b.

    Examples
    --------
    >>> kendall(np.array([1.0, 1.5, 3.0]), np.array([2.0, 2.0, 3.0]), np.ones((1, 3))).round(4).tolist()  # 2 / sqrt(3 * 2)
    [0.8165]
    """
    n, a, b = weight.sum(axis=1), _ranks(x), _ranks(y)
    tied = [(_sums(group, weight, int(group.max()) + 1) ** 2).sum(axis=1) for group in (a, b, _ranks(a * len(b) + b))]
    untied = (n**2 - tied[0] - tied[1] + tied[2]) / 2  # pairs that neither side ties
    apart = 2 * dominated(a, a, b, weight) - untied  # pairs in the same order, less those in opposite order
    return ratio(2 * apart, np.sqrt((n**2 - tied[0]) * (n**2 - tied[1])))


def pairs(x: FloatArray, y: FloatArray, weight: FloatArray, threshold: float) -> FloatArray:
    """(B,) share of pairs that x puts in the order of y, or ties as y does; x ties what differs by no more than `threshold`."""
    values, low = np.unique(x, return_inverse=True)
    level = _ranks(y)
    below = np.searchsorted(values, values - threshold)  # values that lie clearly below each
    ties = _within(low, below, level, weight)
    itself = (weight**2).sum(axis=1)  # an item and its copies tie on both sides
    right = 2 * dominated(low, below[low], level, weight) + ties - itself
    return ratio(right, weight.sum(axis=1) ** 2 - itself)


def dominated(low: IntArray, high: IntArray, y: IntArray, weight: FloatArray) -> FloatArray:
    """(B,) sum of ``w_i w_j`` over i and j with ``low_i < high_j`` and ``y_i < y_j``, all whole numbers from 0 (I,).

    y_i < y_j where the two agree above some bit that only y_j has; for each bit, cumulative sums along `low` do the rest. That
    takes I log I steps instead of I^2, and sums whole numbers below 2^53, which is exact.
    """
    total, most = np.zeros(len(weight)), int(max(low.max(), high.max())) + 1
    for bit in range(int(y.max()).bit_length()):
        has = (y >> bit) & 1 == 1
        start = (y >> (bit + 1)) * most
        total += _up_to(start + low, ~has, start + high, start, has, weight)
    return total


def _within(low: IntArray, below: IntArray, y: IntArray, weight: FloatArray) -> FloatArray:
    """(B,) sum of ``w_i w_j`` over i and j (i = j too) that both sides tie."""
    most, every = len(below) + 1, np.ones(len(y), bool)
    above = np.searchsorted(below, np.arange(len(below)), side="right")  # first value that each lies clearly below
    ends = y * most + above[low]
    return _up_to(y * most + low, every, ends, y * most + below[low], every, weight)


def _up_to(
    code: IntArray, those: BoolArray, end: IntArray, start: IntArray, these: BoolArray, weight: FloatArray
) -> FloatArray:
    """(B,) sum of ``w_i w_j`` over j in `these` and i in `those` with ``start_j <= code_i < end_j``."""
    order = np.flatnonzero(those)
    order = order[np.argsort(code[order], kind="stable")]
    summed = np.zeros((len(weight), len(order) + 1))
    np.cumsum(weight[:, order], axis=1, out=summed[:, 1:])
    first, last = (np.searchsorted(code[order], edge[these]) for edge in (start, end))
    return np.asarray(((summed[:, last] - summed[:, first]) * weight[:, these]).sum(axis=1))


def _ranks(x: FloatArray | IntArray) -> IntArray:
    """(I,) number of the value, from 0."""
    made: IntArray = np.unique(x, return_inverse=True)[1]
    return made


def _sums(group: IntArray, weight: FloatArray, groups: int) -> FloatArray:
    """(B, G) sum of the weights of each group (I,)."""
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    made = np.zeros((len(weight), groups))
    made[:, group[order][starts]] = np.add.reduceat(weight[:, order], starts, axis=1)
    return made


def confusion(ours: IntArray, theirs: IntArray, levels: int, weight: FloatArray) -> FloatArray:
    """(B, K, K) how often items that we put on score k have score l by the raters."""
    return _sums(ours * levels + theirs, weight, levels**2).reshape(-1, levels, levels)


def quadratic_kappa(table: FloatArray, scores: IntArray) -> FloatArray:
    """(B,) Cohen's kappa with quadratic weights, of (B, K, K) tables; NaN where either side has one score only.

    Examples
    --------
    >>> quadratic_kappa(np.array([[[1.0, 0.0], [1.0, 2.0]]]), np.array([1, 2])).tolist()  # 1 - 1 / ((1*2 + 3*2) / 4)
    [0.5]
    """
    rows, columns = table.sum(axis=2), table.sum(axis=1)
    distance = (scores[:, None] - scores).astype(np.float64) ** 2
    observed = (table * distance).sum(axis=(1, 2))
    expected = np.einsum("bk,kl,bl->b", rows, distance, columns) / rows.sum(axis=1)
    varies = ((rows > 0).sum(axis=1) > 1) & ((columns > 0).sum(axis=1) > 1)
    return 1 - ratio(observed, np.where(varies, expected, 0))


def hits(table: FloatArray) -> FloatArray:
    """(B,) share of items with the same score on both sides, of (B, K, K) tables."""
    return ratio(np.trace(table, axis1=1, axis2=2), table.sum(axis=(1, 2)))


def mean(values: FloatArray, weight: FloatArray) -> FloatArray:
    """(B,) weighted mean of (I,) values."""
    return ratio(weight @ values, weight.sum(axis=1))


def system_means(values: FloatArray, system: IntArray, weight: FloatArray) -> FloatArray:
    """(B, S) mean of each system's items; NaN where a resample has none of them."""
    count = int(system.max()) + 1
    made = ratio(_sums(system, weight * values, count), _sums(system, weight, count))
    return np.asarray(np.round(made, 9))  # sums in another order tie none the less


def over_systems(x: FloatArray, y: FloatArray) -> dict[str, FloatArray]:
    """(B,) Pearson, Spearman and Kendall over S systems, of (B, S) means; NaN where one does not vary, or is missing."""
    signs = [np.sign(z[:, :, None] - z[:, None, :]) for z in (x, y)]  # (B, S, S)
    ranks = [s.sum(axis=2) for s in signs]  # twice the mid-rank, moved
    concordant = (signs[0] * signs[1]).sum(axis=(1, 2))
    untied = [np.abs(s).sum(axis=(1, 2)) for s in signs]
    return {
        "pearson": _plain_pearson(x, y),
        "spearman": _plain_pearson(*ranks),
        "kendall": ratio(concordant, np.sqrt(untied[0] * untied[1])),
    }


def _plain_pearson(x: FloatArray, y: FloatArray) -> FloatArray:
    dx, dy = (z - z.mean(axis=1, keepdims=True) for z in (x, y))
    varies = (np.ptp(x, axis=1) > 1e-9) & (np.ptp(y, axis=1) > 1e-9)
    return ratio((dx * dy).sum(axis=1), np.where(varies, np.sqrt((dx**2).sum(axis=1) * (dy**2).sum(axis=1)), 0))


def ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    """Ratio where `below` is above 0, else NaN."""
    made: FloatArray = np.divide(above, below, where=below > 0, out=np.full(np.shape(above), np.nan))
    return made
