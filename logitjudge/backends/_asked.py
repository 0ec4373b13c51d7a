"""Engines that are asked for chosen tokens, place by place: what to ask for, and what they served."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from logitjudge.backends import Query, Trace
from logitjudge.backends._harvest import resolved
from logitjudge.backends.hf.tokenizer import HFTokenizer
from logitjudge.tokens import Path

MOST_IDS = 128  # that vLLM takes as logprob_token_ids of one request
TOP = 20  # tokens that an item's first prompt is asked for
SMALLEST = 2.0**-24  # probability that float32 cannot tell from none, beside a sum near 1


@dataclass(frozen=True, slots=True)
class Request:
    """Tokens to read behind a sequence: the place `path` of query `number`."""

    number: int
    path: Path
    ids: Path
    wanted: tuple[int, ...]


def requests(
    queries: Sequence[Query], nodes: Sequence[Mapping[Path, Sequence[int]]], most: int = MOST_IDS
) -> list[Request]:
    """What to ask for; tokens beyond the limit of one request go into further requests for the same place.

    Parameters
    ----------
    queries
        Prompts, those of an item next to each other, so that a prefix is still cached when it is needed again.
    nodes
        Place of the trie of each query's tails -> the tokens that are read there.
    most
        Tokens of one request.
    """
    made = []
    for number, query in enumerate(queries):
        tokens = resolved(query)
        for path, begins in nodes[number].items():
            aliases = [token for ids in tokens.aliases for token in ids] if path == () else []
            wanted = (*begins, *aliases)
            for start in range(0, len(wanted), most):
                made.append(Request(number, path, tokens.context + path, wanted[start : start + most]))
    return made


def trace(tokenizer: HFTokenizer, ids: Sequence[int], finish: str, marker: str, ends: Set[int]) -> Trace:
    """What an engine wrote: tokens up to the marker, without a token that ended the text; `finish` is the engine's word."""
    row = list(ids)
    ended = bool(marker) and marker in tokenizer.decode(row)
    while ended and marker in tokenizer.decode(row[:-1]):  # a step of several tokens may go on behind it
        row.pop()
    if not ended and finish != "length" and row and row[-1] in ends:
        row.pop()
    return Trace(tuple(row), tokenizer.decode(row), "marker" if ended else "length" if finish == "length" else "end")


@dataclass(slots=True)
class Served:
    """What an engine did so far; `cached` is None where it does not say."""

    prompts: int = 0
    tokens: int = 0
    cached: int | None = None
    seconds: float = 0.0

    def rates(self) -> dict[str, float | None]:
        """Share of prompt tokens that were cached, and prompts a second."""
        return {
            "hit_rate": None if self.cached is None or not self.tokens else self.cached / self.tokens,
            "prompts_per_second": self.prompts / self.seconds if self.seconds else None,
        }
