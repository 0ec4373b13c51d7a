"""Queries -> token sequences to run, and the log-probabilities at their places -> readings.

A query with one-token options is one sequence, read behind its last token. Options of several tokens are read along the
trie of their tails: one sequence for each walk through the trie's inner nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch

from logitjudge.backends import Query
from logitjudge.backends._harvest import resolved
from logitjudge.tokens import Path, walks


@dataclass(frozen=True, slots=True)
class Row:
    """One token sequence to run.

    Parameters
    ----------
    query
        Number of its query in the batch.
    ids
        Context, then a walk through the trie of tails.
    places
        (place, path): where the log-probabilities are read, and which node of the trie that is.
    """

    query: int
    ids: Path
    places: tuple[tuple[int, Path], ...]


def sequences(queries: Sequence[Query]) -> list[Row]:
    """All sequences of a batch; each node of each query is read once."""
    made = []
    for number, query in enumerate(queries):
        tokens = resolved(query)
        seen: set[Path] = set()
        for walk in walks(tokens.tails):
            here = [walk[:depth] for depth in range(len(walk) + 1) if walk[:depth] not in seen]
            seen.update(here)
            places = tuple((len(tokens.context) - 1 + len(path), path) for path in here)
            made.append(Row(number, tokens.context + walk, places))
    return made


@dataclass(frozen=True, slots=True)
class Whole:
    """A place seen whole.

    Parameters
    ----------
    logp
        (V,) log-probabilities.
    """

    logp: torch.Tensor

    def has(self, token: int) -> bool:
        """Every token is seen."""
        return True

    def of(self, ids: Sequence[int]) -> list[float]:
        """Those of some tokens."""
        found: list[float] = self.logp[list(ids)].tolist() if ids else []
        return found

    def rest(self, ids: Sequence[int]) -> float:
        """Log of the probability of all other tokens together."""
        return float(self.logp.index_fill(0, torch.tensor(ids, device=self.logp.device), -math.inf).logsumexp(0))

    def top(self, count: int) -> list[tuple[int, float]]:
        """The most probable tokens."""
        values, ids = self.logp.topk(min(count, len(self.logp)))
        return list(zip(ids.tolist(), values.tolist(), strict=True))


def seen(rows: Iterable[tuple[Row, torch.Tensor]]) -> Iterator[tuple[tuple[int, Path], Whole]]:
    """What a path's rows, each with the (places, V) log-probabilities there, let a `Harvest` take."""
    for row, logp in rows:
        for (_, path), here in zip(row.places, logp, strict=True):
            yield (row.query, path), Whole(here)
