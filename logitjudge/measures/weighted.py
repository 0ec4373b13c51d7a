"""Agreement of scores with ratings under weights: each measure for many resamples of the items at once.

Scores x and ratings y are (I,); weights (B, I) say how often each item occurs in each of B resamples. Copies of an item are no pair of
items. Where a resample has no number (a column is constant in it, say), it is NaN: such a resample is left out of an interval.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from logitjudge.core import FloatArray, IntArray

BLOCK = 4_000_000  # pairs of items in memory at once
Block = Callable[[slice], FloatArray]


def kendall(x: FloatArray, y: FloatArray, weight: FloatArray) -> FloatArray:
    """(B,) Kendall's tau-b.

    Examples
    --------
    >>> kendall(np.array([1.0, 1.5, 3.0]), np.array([2.0, 2.0, 3.0]), np.ones((1, 3))).round(4).tolist()  # 2 / sqrt(3 * 2)
    [0.8165]
    """

    def concordant(rows: slice) -> FloatArray:
        return np.asarray(np.sign(x[rows, None] - x) * np.sign(y[rows, None] - y))

    untied = [(weight.sum(axis=1) ** 2 - (_tied(values, weight) ** 2).sum(axis=1)) for values in (x, y)]
    return ratio(over_pairs(concordant, weight), np.sqrt(untied[0] * untied[1]))


def pairs(x: FloatArray, y: FloatArray, weight: FloatArray, threshold: float) -> FloatArray:
    """(B,) share of pairs that x puts in the order of y, or ties as y does; x ties what differs by no more than `threshold`."""

    def right(rows: slice) -> FloatArray:
        ours, theirs = x[rows, None] - x, np.sign(y[rows, None] - y)
        return np.asarray(np.where(np.abs(ours) <= threshold, 0, np.sign(ours)) == theirs)

    itself = (weight**2).sum(axis=1)  # an item and its copies tie on both sides
    return ratio(over_pairs(right, weight) - itself, weight.sum(axis=1) ** 2 - itself)


def over_pairs(block: Block, weight: FloatArray) -> FloatArray:
    """(B,) sum over i and j of ``w_i w_j s_ij``; `block` gives some rows (i, I) of s, whose entries are whole numbers."""
    count = weight.shape[1]
    step = max(1, BLOCK // count)
    narrow, total = weight.astype(np.float32), np.zeros(len(weight))  # whole numbers below 2^24: exact
    for start in range(0, count, step):
        rows = slice(start, start + step)
        total += ((narrow @ block(rows).astype(np.float32).T) * weight[:, rows]).sum(axis=1)
    return total


def _tied(x: FloatArray, weight: FloatArray) -> FloatArray:
    """(B, G) how often each of the G values of x occurs."""
    _, group = np.unique(x, return_inverse=True)
    return _sums(group, weight, int(group.max()) + 1)


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
