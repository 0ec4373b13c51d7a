"""What words a text has: words that it shares with another, and hedges."""

from __future__ import annotations

import re

WORD = re.compile(r"\w+")
HEDGE = re.compile(
    r"(?i:\b(?:perhaps|maybe|possibly|probably|likely|might|could|arguably|generally|typically|usually|roughly|seems?|appears?|"
    r"suggests?|tends? to|to some extent|in many cases|in some cases|as far as|it is worth noting)\b)|\bmay\b"
)


def overlap(text: str, other: str) -> float:
    """Share of the distinct words of a text that stand in another, in any case; 0 of a text without words.

    Examples
    --------
    >>> overlap("The red fox, the fox.", "A fox is red.")
    0.6666666666666666
    """
    words = set(WORD.findall(text.casefold()))
    return len(words & set(WORD.findall(other.casefold()))) / max(1, len(words))


def hedges(text: str) -> int:
    """How many hedges (perhaps, it seems, may ...) a text has; the month of May is none.

    Examples
    --------
    >>> hedges("Perhaps it may rain in May, and it generally does.")
    3
    """
    return len(HEDGE.findall(text))
