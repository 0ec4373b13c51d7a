"""Designs: named sets of distinct orderings, and which (score, position) cells they observe.

``balanced`` is the paper's design (arXiv:2602.02219, section 3.1): K forward and K reversed rotations, so that every
score stands equally often at every position.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Sequence

import numpy as np

from logitjudge.core import IntArray, Ordering
from logitjudge.errors import OrderingError, shown, unknown

MOST = 10_000
NAMED = ("identity", "reverse", "cyclic", "balanced", "williams", "full")
COUNTED = ("random", "latin")


def counts(orderings: Sequence[Ordering]) -> IntArray:
    """(K, K) how often each score [row] stands at each position [column]."""
    table = np.zeros((len(orderings[0].shown),) * 2, dtype=np.int64)
    for ordering in orderings:
        table[list(ordering.shown), range(len(table))] += 1
    return table


def is_balanced(orderings: Sequence[Ordering]) -> bool:
    """Whether every score stands equally often at every position."""
    return bool(np.ptp(counts(orderings)) == 0)


def uncovered(orderings: Sequence[Ordering]) -> list[tuple[int, int]]:
    """(score index, position) cells that no ordering observes."""
    return [(int(k), int(p)) for k, p in np.argwhere(counts(orderings) == 0)]


def parse(
    spec: str | Sequence[Ordering] | Sequence[Sequence[int]], scores: Sequence[int], seed: int = 0
) -> tuple[Ordering, ...]:
    """Orderings of a design.

    Parameters
    ----------
    spec
        A name (``balanced``), a name with a number (``random:20``, ``latin:2``), a list of score values
        (``"1,2,3;3,2,1"`` or nested sequences), or orderings.
    scores
        (K,) score values in increasing order.
    seed
        For ``random`` and ``latin``.

    Raises
    ------
    OrderingError
        Unknown name, not a permutation of the scores, a repeat, or more than 10,000 orderings.

    Examples
    --------
    >>> [o.shown for o in parse("cyclic", (1, 2, 3))]
    [(0, 1, 2), (1, 2, 0), (2, 0, 1)]
    """
    if isinstance(spec, str):
        shown = _named(spec.strip(), len(scores), seed) if not _is_list(spec) else _listed(spec, scores)
        orderings = [Ordering(row) for row in shown]
    else:
        orderings = [o if isinstance(o, Ordering) else Ordering(_indices(o, scores)) for o in spec]
    return _checked(orderings, scores)


def _checked(orderings: list[Ordering], scores: Sequence[int]) -> tuple[Ordering, ...]:
    if not orderings:
        raise OrderingError("there are no orderings. Name a design such as 'balanced', or list some.")
    if len(orderings) > MOST:
        raise OrderingError(f"{len(orderings):,} orderings are listed; at most {MOST:,} can be read in one run.")
    seen = set()
    for ordering in orderings:
        if len(ordering.shown) != len(scores):
            raise OrderingError(
                f"an ordering has {len(ordering.shown)} positions, but the rubric has {len(scores)} levels."
            )
        if ordering in seen:
            raise OrderingError(
                f"ordering {','.join(map(str, ordering.values(scores)))} is listed twice. Orderings of a design are distinct."
            )
        seen.add(ordering)
    return tuple(orderings)


def _is_list(spec: str) -> bool:
    return any(mark in spec for mark in ",;")


def _listed(spec: str, scores: Sequence[int]) -> list[tuple[int, ...]]:
    return [_indices(row.split(","), scores) for row in spec.split(";") if row.strip()]


def _indices(values: Iterable[str | int], scores: Sequence[int]) -> tuple[int, ...]:
    """Score indices of an ordering written as score values."""
    written = [str(value).strip() for value in values]
    index = {str(int(score)): k for k, score in enumerate(scores)}
    if sorted(written) != sorted(index):
        raise OrderingError(
            f"ordering {shown(','.join(written))} is not a permutation of the scores {','.join(index)}."
        )
    return tuple(index[value] for value in written)


def _named(spec: str, k: int, seed: int) -> list[tuple[int, ...]]:
    name, _, number = spec.partition(":")
    if spec in NAMED:
        return _DESIGNS[spec](k)
    if name not in COUNTED:
        raise OrderingError(
            unknown("design", spec, [*NAMED, *(f"{c}:N" for c in COUNTED)]) + " Or list score values: 1,2,3;3,2,1."
        )
    if not re.fullmatch("[0-9]{1,9}", number) or int(number) < 1:
        raise OrderingError(
            f"design {shown(spec)} needs a number of at least 1, of at most nine digits, such as {name}:10."
        )
    if seed < 0:
        raise OrderingError(f"design {spec!r} cannot be drawn with the seed {seed}. Give a seed of at least 0.")
    n, rng = int(number), np.random.default_rng(seed)
    wanted, there_are = (n if name == "random" else n * k), math.factorial(k)
    if wanted > min(there_are, MOST):
        limit = (
            f"only {there_are:,} exist for {k} levels"
            if wanted > there_are
            else f"at most {MOST:,} can be read in one run"
        )
        raise OrderingError(f"design {spec!r} asks for {wanted:,} orderings, but {limit}.")
    return _random(k, n, rng) if name == "random" else _latin(k, n, rng)


def _cyclic(k: int) -> list[tuple[int, ...]]:
    return [tuple((start + p) % k for p in range(k)) for start in range(k)]


def _balanced(k: int) -> list[tuple[int, ...]]:
    """K forward and K reversed rotations, without repeats (K = 2 has two orderings in all)."""
    reverse = [tuple((start - p) % k for p in range(k)) for start in reversed(range(k))]
    return list(dict.fromkeys(_cyclic(k) + reverse))


def _williams(k: int) -> list[tuple[int, ...]]:
    """Every score follows every other equally often: K orderings for even K, 2 K for odd K (Williams, 1949)."""
    zigzag = [(p + 1) // 2 if p % 2 else (k - p // 2) % k for p in range(k)]
    square = [tuple((start + step) % k for step in zigzag) for start in range(k)]
    return square if k % 2 == 0 else list(dict.fromkeys(square + [row[::-1] for row in square]))


def _full(k: int) -> list[tuple[int, ...]]:
    if math.factorial(k) > MOST:
        raise OrderingError(
            f"'full' has {math.factorial(k):,} orderings for {k} levels; at most {MOST:,} can be read in one run. Use random:N."
        )
    return list(itertools.permutations(range(k)))


_DESIGNS = {
    "identity": lambda k: [tuple(range(k))],
    "reverse": lambda k: [tuple(range(k))[::-1]],
    "cyclic": _cyclic,
    "balanced": _balanced,
    "williams": _williams,
    "full": _full,
}


def _random(k: int, n: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """N distinct orderings, uniformly without replacement."""
    if 2 * n > math.factorial(k):
        every = list(itertools.permutations(range(k)))
        return [every[j] for j in rng.choice(len(every), n, replace=False)]
    drawn: dict[tuple[int, ...], None] = {}
    while len(drawn) < n:
        drawn.setdefault(tuple(rng.permutation(k).tolist()))
    return list(drawn)


def _latin(k: int, n: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """N Latin squares: the cyclic square with rows, columns and symbols permuted; a square that repeats a row is redrawn."""
    drawn: dict[tuple[int, ...], None] = {}
    for _ in range(1000 * n):
        rows, columns, symbols = rng.permutation(k), rng.permutation(k), rng.permutation(k)
        square = [tuple(int(symbols[(r + c) % k]) for c in columns) for r in rows]
        if not any(row in drawn for row in square):
            drawn.update(dict.fromkeys(square))
        if len(drawn) == n * k:
            return list(drawn)
    raise OrderingError(
        f"latin:{n} was not found: {n} squares without a common row are too many for {k} levels. Use a smaller number."
    )
