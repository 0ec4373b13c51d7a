"""The n cheapest permutations of a cost table, by Murty's partition, with lexicographic order among equals.

Every permutation but the best one departs from it at a first position: fix what stands before, forbid what stood there,
and K smaller problems of the same kind are left. Each is solved by `scipy.optimize.linear_sum_assignment`.

References
----------
K. G. Murty (1968), An algorithm for ranking all the assignments in order of increasing cost. Operations Research 16.
"""

from __future__ import annotations

import heapq
import math

import numpy as np
from scipy.optimize import linear_sum_assignment

from logitjudge.core import FloatArray

Shown = tuple[int, ...]


def cheapest(table: FloatArray, n: int) -> tuple[list[Shown], list[float]]:
    """Permutations in order of (total, permutation), and their totals.

    Parameters
    ----------
    table
        (K, P) cost of score k at position p: whole numbers, of at most 1e12 in size, so that sums are exact.
    n
        How many; fewer come back only where n > K!.

    Returns
    -------
    tuple
        At most n permutations, ``shown[p]`` the row taken in column p, and as many totals.

    Examples
    --------
    >>> cheapest(np.array([[0.0, 1.0], [3.0, 0.0]]), 5)
    ([(0, 1), (1, 0)], [0.0, 4.0])
    """
    columns = np.arange(len(table))
    heap = _solved(table, (), frozenset())
    shown: list[Shown] = []
    totals: list[float] = []
    while heap and len(shown) < n:
        total, best, fixed, banned = heapq.heappop(heap)
        shown.append(best)
        totals.append(total)
        for p in columns[fixed:].tolist():
            taken = banned | {best[p]} if p == fixed else frozenset({best[p]})
            for problem in _solved(table, best[:p], taken):
                heapq.heappush(heap, problem)
    return shown, totals


def _solved(table: FloatArray, prefix: Shown, banned: frozenset[int]) -> list[tuple[float, Shown, int, frozenset[int]]]:
    """Find the first of the cheapest permutations that begin with `prefix` and go on with none of `banned`."""
    total = _least(table, prefix, banned)
    if math.isinf(total):
        return []
    best = prefix
    for p in range(len(prefix), len(table)):
        forbidden = banned if p == len(prefix) else frozenset()
        rest = [k for k in range(len(table)) if k not in best and k not in forbidden]
        best += (next(k for k in rest if _least(table, (*best, k), frozenset()) == total),)
    return [(total, best, len(prefix), banned)]


def _least(table: FloatArray, prefix: Shown, banned: frozenset[int]) -> float:
    """Least total of permutations that begin with `prefix` and go on with none of `banned`; infinite without any."""
    start = len(prefix)
    total = float(table[list(prefix), range(start)].sum())
    rest = [k for k in range(len(table)) if k not in prefix]
    if not rest:
        return total
    if banned.issuperset(rest):
        return math.inf
    open_table = table[rest, start:].copy()
    open_table[[k in banned for k in rest], 0] = np.inf
    return total + float(open_table[linear_sum_assignment(open_table)].sum())
