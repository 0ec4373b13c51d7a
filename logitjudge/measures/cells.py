"""The cells of a run item by item, so that a matrix under any resampling of items is one matrix product.

``cells[i, k, p]`` is the mean, over the orderings that show score k at position p, of what item i gives to k. Everything
of the soft score x position matrix and of Bias Cost is a function of their mean over items.

References
----------
arXiv:2602.02219, section 5.3.
"""

from __future__ import annotations

import itertools

import numpy as np

from logitjudge import orderings
from logitjudge.core import FloatArray, IntArray
from logitjudge.measures import ratios
from logitjudge.run import Run


def by_item(weight: FloatArray, shown: IntArray) -> FloatArray:
    """(I, K, P) mean of weight (I, O, K) over the orderings `shown` (O, P) that have k at p; NaN in a cell without any.

    Examples
    --------
    >>> by_item(np.array([[[0.9, 0.1], [0.4, 0.6]]]), np.array([[0, 1], [1, 0]])).tolist()
    [[[0.9, 0.4], [0.6, 0.1]]]
    """
    places = np.arange(shown.shape[1])
    total = np.zeros((len(weight), len(places), len(places)))
    times = np.zeros(total.shape[1:])
    for o, row in enumerate(shown):
        total[:, row, places] += weight[:, o, row]
        times[row, places] += 1
    mean: FloatArray = np.divide(total, times, where=times > 0, out=np.full(total.shape, np.nan))
    return mean


def matrices(cells: FloatArray, weight: FloatArray) -> FloatArray:
    """(B, K, P) P(p | k) where item i counts weight[b, i] times; a row without weight, or with an unseen cell, is NaN."""
    total = (weight @ cells.reshape(len(cells), -1)).reshape(len(weight), *cells.shape[1:])
    whole = total.sum(axis=2, keepdims=True)
    rows: FloatArray = np.divide(total, whole, where=whole > 0, out=np.full(total.shape, np.nan))
    return rows


def costs(matrix: FloatArray, shown: IntArray) -> FloatArray:
    """(B, N) Bias Cost of N orderings `shown` (N, P) under each matrix (B, K, P)."""
    distance = np.abs(matrix - 1 / matrix.shape[-1])
    places = np.arange(shown.shape[1])
    return np.stack([distance[:, row, places].sum(axis=1) for row in shown], axis=1)


def mean_cost(matrix: FloatArray) -> FloatArray:
    """(B,) mean Bias Cost over all K! orderings: each (score, position) pair is in 1/K of them."""
    mean: FloatArray = np.abs(matrix - 1 / matrix.shape[-1]).sum(axis=(1, 2)) / matrix.shape[-1]
    return mean


def every(levels: int) -> IntArray:
    """(K!, K) all orderings in lexicographic order."""
    return np.array(list(itertools.permutations(range(levels))), dtype=np.int64)


def interaction(run: Run) -> FloatArray:
    """(I, K, P) what each item's cells of log-ratios hold beside a mean by score and a mean by position, in nats.

    Of a judge with one bias by position, whatever its size and the items' quality, the mean over orderings of a balanced
    design is 0 everywhere, but for noise.
    """
    cells = by_item(ratios.clr(run), run.shown)
    left: FloatArray = (
        cells
        - cells.mean(axis=1, keepdims=True)
        - cells.mean(axis=2, keepdims=True)
        + cells.mean(axis=(1, 2), keepdims=True)
    )
    return left


def covered(shown: IntArray) -> bool:
    """Whether orderings show every score at every position."""
    levels = shown.shape[1]
    return bool(len(np.unique(shown * levels + np.arange(levels))) == levels**2)


def balanced_rows(run: Run) -> IntArray | None:
    """Which orderings of a run are the 2K rotations of the paper, in its order; None where one of them was not read."""
    place = {ordering.shown: o for o, ordering in enumerate(run.orderings)}
    wanted = [ordering.shown for ordering in orderings.parse("balanced", run.scores.tolist())]
    return np.array([place[shown] for shown in wanted]) if all(shown in place for shown in wanted) else None
