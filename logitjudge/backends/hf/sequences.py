"""Queries -> token sequences to run, and the log-probabilities at their places -> readings.

A query with one-token options is one sequence, read behind its last token. Options of several tokens are read along the
trie of their tails: one sequence for each walk through the trie's inner nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import torch

from logitjudge.backends import Query
from logitjudge.core import Readings, TopToken
from logitjudge.tokens import Path, Resolved, along, nodes, option_logp, walks

TOP = 10  # off-scale tokens kept of each prompt


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


def resolved(query: Query) -> Resolved:
    """The query's tokens, which a backend with a tokenizer always has."""
    assert query.tokens is not None
    return query.tokens


@dataclass(slots=True)
class _Found:
    """What has been read of one query so far."""

    step: dict[tuple[Path, int], float] = field(default_factory=dict)
    rest: dict[Path, float] = field(default_factory=dict)
    alias: list[float] = field(default_factory=list)
    top: list[TopToken] = field(default_factory=list)


class Harvest:
    """Collects log-probabilities of a batch of queries, and makes readings of them.

    Parameters
    ----------
    queries
        The batch.
    decode
        Token ids to text, for the top tokens.
    """

    def __init__(self, queries: Sequence[Query], decode: Callable[[Sequence[int]], str]) -> None:
        self._tokens = [resolved(query) for query in queries]
        self._nodes = [nodes(tokens.tails) for tokens in self._tokens]
        self._found = [_Found() for _ in queries]
        self._decode = decode

    def add(self, number: int, path: Path, logp: torch.Tensor) -> None:
        """Take what is needed of the (V,) log-probabilities behind `path` of query `number`."""
        found, tokens = self._found[number], self._tokens[number]
        wanted = self._nodes[number][path]
        found.step.update(zip(((path, token) for token in wanted), logp[wanted].tolist(), strict=True))
        if path == ():
            found.alias = [math.fsum(logp[list(ids)].exp().tolist()) if ids else 0.0 for ids in tokens.aliases]
            found.top = self._top(logp, set(wanted))
        else:
            found.rest[path] = float(
                logp.index_fill(0, torch.tensor(wanted, device=logp.device), -math.inf).logsumexp(0)
            )

    def _top(self, logp: torch.Tensor, begins: set[int]) -> list[TopToken]:
        values, ids = logp.topk(min(TOP + len(begins), len(logp)))
        pairs = zip(ids.tolist(), values.tolist(), strict=True)
        return [
            TopToken(token, self._decode([token]), value)
            for token, value in pairs
            if token not in begins and value > -math.inf
        ][:TOP]

    def tails(self) -> list[list[float]]:
        """(B, K) log-probability of every option's tail, in nats, whatever follows it: no event, which engines differ in."""
        pairs = zip(self._tokens, self._found, strict=True)
        return [[along(tail, found.step) for tail in tokens.tails] for tokens, found in pairs]

    def readings(self) -> Readings:
        """Readings of all queries, in order."""
        logp = [
            option_logp(tokens.tails, found.step, found.rest)
            for tokens, found in zip(self._tokens, self._found, strict=True)
        ]
        return Readings(logp, [found.alias for found in self._found], tuple(tuple(found.top) for found in self._found))  # type: ignore[arg-type]


def harvest(
    queries: Sequence[Query], rows: Iterable[tuple[Row, torch.Tensor]], decode: Callable[[Sequence[int]], str]
) -> Readings:
    """Readings of queries from the rows that a path ran for them, each with the (places, V) log-probabilities there."""
    found = Harvest(queries, decode)
    for row, logp in rows:
        for (_, path), here in zip(row.places, logp, strict=True):
            found.add(row.query, path, here)
    return found.readings()
