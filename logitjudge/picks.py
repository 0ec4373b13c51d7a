"""The score in a text that a judge wrote: what is parsed where nothing is read, and whether a text names a score at all."""

from __future__ import annotations

import re
from collections.abc import Sequence


def pick(text: str, options: Sequence[str], marker: str = "") -> int | None:
    """Index of the option that a text picks; None where it cannot be parsed.

    The option is what stands behind the first marker (without one, at the beginning of the text), not counting blanks,
    brackets and other signs before it. It must end there: "1" is not picked by "10", "1.5" or "1st".

    Examples
    --------
    >>> pick("Clear and short. [RESULT] (4)", ["1", "2", "3", "4", "5"], "[RESULT]")
    3
    >>> pick("10", ["1", "10"]), pick("1.5", ["1", "2"]), pick("It deserves a 4.", ["1", "4"])
    (1, None, None)
    """
    before, found, behind = text.partition(marker) if marker else ("", "", text)
    if marker and not found:
        return None
    match = re.match(rf"[\W_]*?{_any(options)}", behind)
    return options.index(match[1]) if match else None


def names(text: str, options: Sequence[str]) -> bool:
    """Whether an option stands in a text as a word of its own.

    Examples
    --------
    >>> names("I would give it a 4.", ["1", "4"]), names("It has 14 lines.", ["1", "4"])
    (True, False)
    """
    return re.search(rf"(?<!\w)(?<!\d[.,]){_any(options)}", text) is not None


def _any(options: Sequence[str]) -> str:
    """Pattern of an option that ends where it ends; the longest first."""
    longest = sorted(options, key=len, reverse=True)
    return rf"({'|'.join(map(re.escape, longest))})(?!\w|[.,]\d)"
