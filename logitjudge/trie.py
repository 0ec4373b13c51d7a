"""Token sequences as a tree in which what they share stands once.

The tree is kept as arrays in depth-first order, children in the order in which the sequences bring them. A token's
descendants are then the tokens of one interval, so ``j`` is an ancestor of ``i`` (or ``i`` itself) exactly where
``j <= i < ends[j]``: two comparisons, whatever the tree.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from logitjudge.tokens import common_prefix

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Trie:
    """A tree of N unique tokens.

    Parameters
    ----------
    tokens
        (N,) token ids in depth-first order.
    depths
        (N,) how many tokens stand above each.
    ends
        (N,) index behind the last descendant of each.
    edges
        For each sequence, (depth, index) where it enters each edge of its path.
    """

    tokens: Ints
    depths: Ints
    ends: Ints
    edges: tuple[tuple[tuple[int, int], ...], ...]

    def __len__(self) -> int:
        return len(self.tokens)

    def index(self, sequence: int, place: int) -> int:
        """Where the token at `place` of a sequence stands."""
        path = self.edges[sequence]
        depth, index = path[bisect_right(path, place, key=lambda edge: edge[0]) - 1]
        return index + place - depth

    def above(self, index: int) -> Ints:
        """Indices of the ancestors of a token, the root first; of ``len(self)``: none."""
        return np.flatnonzero(self.ends[:index] > index)


def trie(sequences: Sequence[Sequence[int]]) -> Trie:
    """Tree of some token sequences, which may be equal or begin one another.

    Examples
    --------
    >>> made = trie([(7, 1, 2), (7, 1, 3), (7, 4)])
    >>> made.tokens.tolist(), made.depths.tolist(), made.ends.tolist()
    ([7, 1, 2, 3, 4], [0, 1, 2, 2, 1], [5, 4, 3, 4, 5])
    >>> made.index(1, 2)
    3
    """
    starts, labels = [], []
    edges: list[list[tuple[int, int]]] = [[] for _ in sequences]
    size = 0
    waiting = [(list(range(len(sequences))), 0)] if sequences else []
    while waiting:
        members, start = waiting.pop()
        stop = start + common_prefix([sequences[m][start:] for m in members])
        for m in members:
            edges[m].append((start, size))
        if stop > start:
            starts.append(start)
            labels.append(sequences[members[0]][start:stop])
            size += stop - start
        waiting.extend((branch, stop) for branch in reversed(_branches(sequences, members, stop)))
    return _arrays(starts, labels, edges)


def unique(sequences: Sequence[Sequence[int]]) -> int:
    """How many tokens the sequences have when what they share counts once.

    Examples
    --------
    >>> unique([(7, 1, 2), (7, 1, 3), (7, 4)])
    5
    """
    return len(trie(sequences))


def _branches(sequences: Sequence[Sequence[int]], members: Sequence[int], stop: int) -> list[list[int]]:
    """The members that go on behind `stop`, by their next token."""
    found: dict[int, list[int]] = {}
    for m in members:
        if len(sequences[m]) > stop:
            found.setdefault(sequences[m][stop], []).append(m)
    return list(found.values())


def _arrays(starts: Sequence[int], labels: Sequence[Sequence[int]], edges: Sequence[Sequence[tuple[int, int]]]) -> Trie:
    """Arrays of edges in depth-first order."""
    sizes = [len(label) for label in labels]
    spread = np.repeat(np.array(_ends(starts, sizes), np.int64), sizes)
    depths = [np.arange(start, start + size) for start, size in zip(starts, sizes, strict=True)]
    return Trie(_joined(labels), _joined(depths), spread, tuple(map(tuple, edges)))


def _joined(parts: Sequence[Any]) -> Ints:
    return np.concatenate([np.empty(0, np.int64), *(np.asarray(part, np.int64) for part in parts)])


def _ends(starts: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Index behind the last descendant of each edge: where the next edge begins that does not start below it."""
    ends = [sum(sizes)] * len(starts)
    index = 0
    opened: list[int] = []
    for edge, start in enumerate(starts):
        while opened and start < starts[opened[-1]] + sizes[opened[-1]]:
            ends[opened.pop()] = index
        opened.append(edge)
        index += sizes[edge]
    return ends
