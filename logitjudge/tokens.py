"""Options in token space: which tokens a judge reads before it answers, and which tokens each answer is.

The **context** is the longest common prefix of the token lists of the prompt alone and of the prompt with each option
behind it; what is left of each option's list is its **tail**. A tokenizer that merges " 5", or splits it, is handled by
construction, and nobody strips a space.

The **event** that is read is "the answer starts with this option and does not become another one". Where one tail is a
prefix of another ("1" of "10"), ``log P(option) = log P(tail) + log(1 - sum P(continuations that make another option))``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Protocol

from logitjudge.core import Message
from logitjudge.errors import OptionError

WORDS = {
    n: word
    for n, word in enumerate(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"])
}
Path = tuple[int, ...]


class Tokenizer(Protocol):
    """What the readings need of a tokenizer."""

    def render(self, messages: Sequence[Message], prefill: str) -> str:
        """Text that the model reads: the chat template's, or plain, with the prefill behind it."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of whole texts from `render`, with exactly one beginning-of-sequence token where there is one."""

    def pieces(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of strings on their own, without special tokens."""

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids, special tokens written out."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """One prompt in token space.

    Parameters
    ----------
    text
        What the model reads, prefill included.
    context
        Token ids that are given.
    tails
        (K,) token ids that are read for each option, in score order.
    aliases
        (K,) ids of the other single-token forms of each option.
    """

    text: str
    context: Path
    tails: tuple[Path, ...]
    aliases: tuple[Path, ...]

    @property
    def longest(self) -> int:
        """Number of tokens of the longest sequence that the model has to see or give."""
        return len(self.context) + max(map(len, self.tails))

    @property
    def fed(self) -> list[Path]:
        """Token sequences that the model is fed, so that every option can be read."""
        return [self.context + walk for walk in walks(self.tails)]


def event(close: str = "") -> str:
    """Words for the event that is read."""
    closed = f", closed by {close!r}," if close else ""
    return f"the answer starts with this option{closed} and does not become another one"


def common_prefix(lists: Sequence[Sequence[int]]) -> int:
    """Length of the longest common prefix of token lists.

    Examples
    --------
    >>> common_prefix([[1, 2, 3], [1, 2], [1, 2, 4]])
    2
    """
    rows = [tuple(row) for row in lists]
    shortest, longest = min(rows), max(rows)  # lexicographic extremes differ first where any two do
    for n, (a, b) in enumerate(zip(shortest, longest, strict=False)):
        if a != b:
            return n
    return min(len(shortest), len(longest))


def resolve(tokenizer: Tokenizer, text: str, options: Sequence[str], close: str = "") -> Resolved:
    """Find context, tails and aliases of a rendered prompt.

    Raises
    ------
    OptionError
        Two options have equal tails, or an option has none: the tokenizer cannot tell them apart.
    """
    lists = tokenizer.encode([text, *(text + option + close for option in options)])
    n = common_prefix(lists)
    tails = tuple(tuple(ids[n:]) for ids in lists[1:])
    for k, tail in enumerate(tails):
        if not tail:
            raise OptionError(
                f"the option {options[k]!r} is no token behind the prompt: the tokenizer drops it. Use another option string."
            )
        if tails.index(tail) != k:
            other = options[tails.index(tail)]
            raise OptionError(
                f"the tokenizer cannot tell the options {other!r} and {options[k]!r} apart: both are the tokens {list(tail)}. "
                "Use other option strings."
            )
    return Resolved(text, tuple(lists[0][:n]), tails, aliases(tokenizer, options, tails))


def alias_strings(option: str) -> list[str]:
    """Other ways to write an option: with or without a blank, full-width, spelled out."""
    bare = option.strip()
    forms = [bare, f" {bare}", f"\n{bare}", bare.translate({c: c + 0xFEE0 for c in range(0x21, 0x7F)})]
    if bare.isdecimal() and int(bare) in WORDS:
        word = WORDS[int(bare)]
        forms += [word, f" {word}", word.capitalize(), f" {word.capitalize()}"]
    return forms


def aliases(tokenizer: Tokenizer, options: Sequence[str], tails: Sequence[Path]) -> tuple[Path, ...]:
    """Find the ids of single-token forms of each option that begin no option's tail and belong to one option only."""
    forms = [alias_strings(option) for option in options]
    pieces = iter(tokenizer.pieces([form for row in forms for form in row]))
    single = [{ids[0] for ids in (next(pieces) for _ in row) if len(ids) == 1} for row in forms]
    begins = {tail[0] for tail in tails}
    return tuple(
        tuple(sorted(ids - begins - set().union(*(other for j, other in enumerate(single) if j != k))))
        for k, ids in enumerate(single)
    )


def nodes(tails: Sequence[Path]) -> dict[Path, list[int]]:
    """Places of the trie of tails where the model must be read: path behind the context -> tokens read there.

    Examples
    --------
    >>> nodes([(7,), (7, 8), (9,)])
    {(): [7, 9], (7,): [8]}
    """
    found: dict[Path, list[int]] = {(): []}
    for tail in tails:
        for depth, token in enumerate(tail):
            children = found.setdefault(tail[:depth], [])
            if token not in children:
                children.append(token)
    return found


def walks(tails: Sequence[Path]) -> list[Path]:
    """Paths behind the context that together pass every node of `nodes`: those that no other extends."""
    inner = nodes(tails)
    return [path for path in inner if not any(len(other) > len(path) and other[: len(path)] == path for other in inner)]


def option_logp(
    tails: Sequence[Path], step: Mapping[tuple[Path, int], float], rest: Mapping[Path, float]
) -> list[float]:
    """(K,) log-probability of each option's event, in nats.

    Parameters
    ----------
    tails
        (K,) tails, all different.
    step
        (path, token) -> log P(token | context, path) for every node of `nodes`.
    rest
        path -> log P(any token that is not read there | context, path) for every node but the first. It is summed over
        the vocabulary, because 1 - P would be lost where a judge is nearly sure of the longer option.

    Examples
    --------
    >>> half = math.log(0.5)
    >>> made = option_logp([(1,), (1, 0)], {((), 1): half, ((1,), 0): half}, {(1,): half})
    >>> [round(math.exp(x), 3) for x in made]
    [0.25, 0.25]
    """
    return [along(tail, step) + _not_another(tail, tails, step, rest) for tail in tails]


def along(tail: Path, step: Mapping[tuple[Path, int], float]) -> float:
    """Log P(tail | context)."""
    return math.fsum(step[tail[:depth], tail[depth]] for depth in range(len(tail)))


def _not_another(
    tail: Path, tails: Sequence[Path], step: Mapping[tuple[Path, int], float], rest: Mapping[Path, float]
) -> float:
    """Log of the probability that the option does not go on to be another one."""
    longer = {other for other in tails if len(other) > len(tail) and other[: len(tail)] == tail}
    return _missing(tail, longer, step, rest) if longer else 0.0


def _missing(
    path: Path, targets: Set[Path], step: Mapping[tuple[Path, int], float], rest: Mapping[Path, float]
) -> float:
    """Log of the probability that what follows `path` makes none of `targets`."""
    if path in targets:
        return -math.inf
    ahead = {target[len(path)] for target in targets if target[: len(path)] == path}
    return _log_sum([rest[path], *(step[path, c] + _missing((*path, c), targets, step, rest) for c in sorted(ahead))])


def _log_sum(logs: Sequence[float]) -> float:
    """Log of the sum of exponentials."""
    top = max(logs)
    return top if top == -math.inf else top + math.log(math.fsum(math.exp(x - top) for x in logs))
