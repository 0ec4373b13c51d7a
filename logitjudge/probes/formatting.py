"""Headings, bullets and bold around the same words: does formatting alone win?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from logitjudge.core import Item
from logitjudge.probes import RESPONSE, Generate, ProbeResult, Variant, difference, kept, paired, preference, replaced
from logitjudge.run import Run

HEADING = "## Answer"
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9\"'(])")
MARK = re.compile(r"^[ ]{0,3}(#{1,6}[ ]+|[-*+][ ]+|\d+[.)][ ]+|>[ ]+)|\*\*|__|`{1,3}", re.MULTILINE)
FEWEST = 2  # sentences


@dataclass(frozen=True, slots=True)
class Formatting:
    """Each response without Markdown against the same words with a heading, bullets and bold, by rule."""

    NEEDS: ClassVar = RESPONSE

    def variants(self, items: Sequence[Item], generate: Generate | None = None) -> Mapping[str, Variant]:
        """Pairs (plain, formatted), and both alone by the rubric."""
        plains = {item.id: plain(item.fields["response"]) for item in items}
        skipped = {name: "a single sentence" for name, text in plains.items() if len(sentences(text)) < FEWEST}
        bare = {name: text for name, text in plains.items() if name not in skipped}
        rich = {name: formatted(text) for name, text in bare.items()}
        return {
            "pairs": Variant(paired(replaced(items, bare), rich), pairwise=True, skipped=skipped),
            "plain": Variant(replaced(kept(items, bare), bare)),
            "formatted": Variant(replaced(items, rich)),
        }

    def effect(self, runs: Mapping[str, Run]) -> ProbeResult:
        """Preference for the formatted text in log-odds and points."""
        return ProbeResult((
            preference("preference for the formatted text", runs["pairs"]),
            difference("score of the formatted text, minus the plain one's", runs["plain"], runs["formatted"]),
        ))  # fmt: skip


def plain(text: str) -> str:
    """The words of a text without headings, bullets, bold and code marks, as one paragraph a blank line."""
    parts = [" ".join(part.split()) for part in re.split(r"\n\s*\n", MARK.sub("", text))]
    return "\n\n".join(part for part in parts if part)


def sentences(text: str) -> list[str]:
    """Sentences of a text."""
    return [part for part in SENTENCE.split(" ".join(text.split())) if part]


def formatted(text: str) -> str:
    """The same words under a heading, a bullet a sentence, each with its first words in bold."""
    return "\n".join([HEADING, "", *(f"- {_bold(part)}" for part in sentences(text))])


def _bold(sentence: str) -> str:
    words = sentence.split(" ")
    return " ".join([f"**{' '.join(words[:2])}**", *words[2:]])


probe = Formatting
