"""Correlations of many orderings with people at once, under many resamples of the items."""

from __future__ import annotations

import numpy as np

from logitjudge.core import FloatArray

TINY = 1e-18  # a variance that is smaller, against the largest square, is rounding


def pearson(x: FloatArray, y: FloatArray, weight: FloatArray) -> FloatArray:
    """(B, N) Pearson correlations of y (I,) with each column of x (I, N) under weights (B, I); NaN where one does not vary.

    Examples
    --------
    >>> pearson(np.array([[1.0, 3.0], [2.0, 2.0], [3.0, 1.0]]), np.array([1.0, 2.0, 3.0]), np.ones((1, 3))).tolist()
    [[1.0, -1.0]]
    """
    total = weight.sum(axis=1, keepdims=True)
    share = np.divide(weight, total, where=total > 0, out=np.full(weight.shape, np.nan))
    least_x, least_y = TINY * np.abs(x).max(axis=0, initial=0) ** 2, TINY * np.abs(y).max(initial=0) ** 2
    x, y = x - x.mean(axis=0), y - y.mean()
    mx, my = share @ x, (share @ y)[:, None]
    xx, yy, xy = share @ x**2 - mx**2, (share @ y**2)[:, None] - my**2, share @ (x * y[:, None]) - mx * my
    ok = (xx > least_x) & (yy > least_y)
    r: FloatArray = np.divide(xy, np.sqrt(np.abs(xx * yy)), where=ok, out=np.full(xx.shape, np.nan))
    return np.clip(r, -1, 1)
