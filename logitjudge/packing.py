"""A tree of tokens -> forward passes of bounded size.

The depth-first order of the tree is cut into pieces. A pass feeds one piece; it stands on the cached ancestors of its
first token, which are a path; and of all that it has seen, it leaves in the cache the ancestors of the next pass's first
token. So every unique token is fed once, every pass but the last is full, and nothing grows with the tree: at most one
path and one piece are held.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from logitjudge.trie import Ints, Trie

LEAVES = 64  # places read in one pass, which bounds the (places x vocabulary) float32 array


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """One forward pass: n tokens that stand on h cached ones.

    Token i sees key j, where keys are the cached tokens and then the pass's own, exactly where
    ``j <= h + i`` and ``i < ends[j]``.

    Parameters
    ----------
    tokens
        (n,) token ids.
    depths
        (h + n,) position of every key in its own sequence.
    ends
        (h + n,) number of the first token of the pass, behind the key, that does not see it.
    reads
        Which tokens of the pass are read, ascending.
    nodes
        Their indices in the tree.
    keep
        Keys that the next pass stands on, ascending.
    """

    tokens: Ints
    depths: Ints
    ends: Ints
    reads: Ints
    nodes: Ints
    keep: Ints

    @property
    def held(self) -> int:
        """How many cached tokens the pass stands on."""
        return len(self.ends) - len(self.tokens)

    @property
    def chain(self) -> bool:
        """Whether the tokens are one path, so that an ordinary causal mask is theirs."""
        return bool((self.ends == len(self.tokens)).all())


def passes(tree: Trie, reads: Sequence[int], budget: int) -> Iterator[Pass]:
    """Cut a tree into passes.

    Parameters
    ----------
    tree
        The tree.
    reads
        Indices of the tokens behind which the model is read, in any order, without repeats.
    budget
        Tokens that one pass may feed, at least 1.
    """
    nodes = np.sort(np.asarray(reads, np.int64))
    held = tree.above(0)
    start = 0
    while start < len(tree):
        stop = _stop(tree, nodes, start, budget)
        keys = np.concatenate([held, np.arange(start, stop)])
        read = nodes[np.searchsorted(nodes, start) : np.searchsorted(nodes, stop)]
        held = tree.above(stop)
        yield Pass(
            tokens=tree.tokens[start:stop],
            depths=tree.depths[keys],
            ends=np.minimum(tree.ends[keys], stop) - start,
            reads=read - start,
            nodes=read,
            keep=np.searchsorted(keys, held),
        )
        start = stop


def _stop(tree: Trie, nodes: Ints, start: int, budget: int) -> int:
    """Where a pass ends: at the budget, or before one place too many."""
    stop = min(start + budget, len(tree))
    over = np.searchsorted(nodes, start) + LEAVES
    return min(stop, int(nodes[over])) if over < len(nodes) else stop
