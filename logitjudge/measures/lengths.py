"""Regression of scores on length and other columns, with intervals that resample clusters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from logitjudge.core import FloatArray
from logitjudge.measures import intervals
from logitjudge.measures.estimates import Estimate

DRAWS = 1000


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

    def slopes(weight: FloatArray) -> FloatArray:
        moments = np.einsum("bi,ij,ik->bjk", weight, x, x)
        right = np.einsum("bi,ij,i->bj", weight, x, y)
        solved: FloatArray = np.linalg.pinv(moments) @ right[..., None]
        return solved[:, 0, 0]

    value = float(slopes(np.ones((1, len(y))))[0])
    if count < 3:
        return Estimate(value, None, None, len(y), count, f"no interval: {count} clusters")
    drawn = intervals.bootstrap(slopes, number, draws=DRAWS, rng=np.random.default_rng(seed))
    low, high = intervals.t_interval(value, drawn, count)
    return Estimate(value, low, high, len(y), count, intervals.few(count))
