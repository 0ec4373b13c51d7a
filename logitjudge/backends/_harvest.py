"""What a backend saw behind each place of its queries -> readings. Pure: a place is seen whole, or only some of its tokens."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field
from typing import Protocol

from logitjudge.backends import Query
from logitjudge.core import Readings, TopToken
from logitjudge.tokens import Path, Resolved, along, nodes, option_logp

TOP = 10  # off-scale tokens kept of each prompt


class Seen(Protocol):
    """Log-probabilities of the next token at one place, in nats over the full vocabulary."""

    def has(self, token: int) -> bool:
        """Whether a token is seen; of another one, `of` gives an upper bound."""

    def of(self, ids: Sequence[int]) -> list[float]:
        """Those of some tokens."""

    def rest(self, ids: Sequence[int]) -> float:
        """Log of the probability of all other tokens together."""

    def top(self, count: int) -> list[tuple[int, float]]:
        """The most probable tokens that are known, at most `count`, best first."""


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
    top: tuple[TopToken, ...] = ()
    bounds: set[tuple[Path, int]] = field(default_factory=set)  # those of `step` that are upper bounds


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
        self.nodes = [nodes(tokens.tails) for tokens in self._tokens]
        self._found = [_Found() for _ in queries]
        self._decode = decode

    def take(self, seen: Iterable[tuple[tuple[int, Path], Seen]]) -> Harvest:
        """Take what is needed of places ((number of the query, path), what was seen there)."""
        for (number, path), place in seen:
            self.add(number, path, place)
        return self

    def add(self, number: int, path: Path, seen: Seen) -> None:
        """Take what is needed of what was seen behind `path` of query `number`."""
        found, tokens = self._found[number], self._tokens[number]
        wanted = self.nodes[number][path]
        found.step.update(zip(((path, token) for token in wanted), seen.of(wanted), strict=True))
        found.bounds.update((path, token) for token in wanted if not seen.has(token))
        if path == ():
            known = [[token for token in ids if seen.has(token)] for ids in tokens.aliases]
            found.alias = [math.fsum(math.exp(logp) for logp in seen.of(ids)) for ids in known]
            found.top = self._top(seen, set(wanted))
        else:
            found.rest[path] = seen.rest(wanted)

    def _top(self, seen: Seen, begins: set[int]) -> tuple[TopToken, ...]:
        off = [(token, logp) for token, logp in seen.top(TOP + len(begins)) if token not in begins and logp > -math.inf]
        return tuple(TopToken(token, self._decode([token]), logp) for token, logp in off[:TOP])

    def tails(self) -> list[list[float]]:
        """(B, K) log-probability of every option's tail, in nats, whatever follows it: no event, which engines differ in."""
        pairs = zip(self._tokens, self._found, strict=True)
        return [[along(tail, found.step) for tail in tokens.tails] for tokens, found in pairs]

    def readings(self) -> Readings:
        """Readings of all queries, in order."""
        pairs = list(zip(self._tokens, self._found, strict=True))
        logp = [option_logp(tokens.tails, found.step, found.rest) for tokens, found in pairs]
        alias, top = [found.alias for found in self._found], tuple(found.top for found in self._found)
        exact = [exact_options(tokens.tails, found.bounds) for tokens, found in pairs]
        return Readings(logp, alias, top, exact)  # type: ignore[arg-type]  # arrays as soon as they are there


def exact_options(tails: Sequence[Path], bounds: Set[tuple[Path, int]]) -> list[bool]:
    """(K,) whether an option's log-probability uses no upper bound: neither its own tail nor one that goes on from it.

    Examples
    --------
    >>> exact_options([(7,), (7, 8), (9,)], {((7,), 8)})
    [False, False, True]
    """
    steps = {tail: {(tail[:depth], tail[depth]) for depth in range(len(tail))} for tail in tails}
    return [not any(steps[other] & bounds for other in tails if other[: len(tail)] == tail) for tail in tails]
