"""What a backend is: something that reads the log-probability of every option of a prompt.

The only home of torch, transformers and vllm. A backend module has ``open(spec: ModelSpec) -> Backend``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from logitjudge.core import Item, Ordering, Prompt, Readings, Rubric
from logitjudge.tokens import Resolved, Tokenizer


@dataclass(frozen=True, slots=True)
class Query:
    """One prompt to read: what is asked about which item, and its tokens where the backend has a tokenizer."""

    item: Item
    rubric: Rubric
    ordering: Ordering
    prompt: Prompt
    tokens: Resolved | None = None

    @property
    def length(self) -> int:
        """Tokens; characters where there is no tokenizer."""
        if self.tokens is not None:
            return self.tokens.longest
        return sum(len(message.content) for message in self.prompt.messages) + len(self.prompt.prefill)


@dataclass(frozen=True, slots=True)
class Trace:
    """What a judge wrote before its score.

    Parameters
    ----------
    ids
        Its own tokens, up to the one that completes the marker; without an end-of-sequence token.
    text
        The same in text.
    finish
        It wrote the marker, ended without it, reached the most tokens, or was given up: it took too long, or the judge gave no
        probabilities (NaN).
    """

    ids: tuple[int, ...]
    text: str
    finish: Literal["marker", "end", "length", "timeout", "broken"]


class Backend(Protocol):
    """A judge that can be read.

    One that can write before it scores has ``generate(contexts, marker, most, temperature, seeds) -> list[Trace]``: texts
    behind (B,) token sequences, each up to `marker` (to its end where that is empty) or at most `most` tokens; greedy at
    temperature 0, else drawn with (B,) seeds.
    """

    tokenizer: Tokenizer | None
    max_length: int | None
    vocabulary: int | None  # token ids that the weights know: 0 to this, excluded; None where that is not known

    def provenance(self) -> Mapping[str, Any]:
        """JSON values worth keeping that do not make another judge: device, path and its proof, hashes."""

    def prepare(self, longest: Sequence[Query], shortest: Sequence[Query]) -> None:
        """Prove the fast path on the run's longest and shortest prompts; choose a slower one where it fails.

        Called once, before `token_budget` and `read`.
        """

    def token_budget(self) -> int:
        """Tokens that one batch may hold on this machine by the path that `prepare` chose."""

    def read(self, queries: Sequence[Query], budget: int) -> Readings:
        """Read all queries, in order, at most `budget` tokens in one forward pass. Raises `OutOfMemory`."""

    def read_plain(self, queries: Sequence[Query]) -> Readings | None:
        """Read again by the plain forward, each prompt alone; None where there is no second way."""


class OutOfMemory(RuntimeError):  # noqa: N818
    """The device ran out of memory: the same queries may fit with a smaller budget."""
