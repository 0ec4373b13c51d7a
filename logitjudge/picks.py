"""The score in a text that a judge wrote: what is parsed where nothing is read, and whether a text names a score at all.

Strict on purpose: what is not plainly one score is no score, and is counted as such.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from logitjudge.tokens import WORDS

_BEFORE = r"[\s:=(\[{<\"'`*_]*(?:score\b[\s:=(\[{<\"'`*_]*)?"
_CLOSERS = r"[)\]}>\"'`*_]*"
_SCORING = (
    r"\b(?:scor\w*|rat(?:e|es|ed|ing|ings)|grad\w+|marks?|gives?|gave|award\w*|deserv\w+|earn\w*|assign\w*|receiv\w+)\b"
)


def pick(text: str, options: Sequence[str], marker: str, *, cut: bool = False) -> int | None:
    """Index of the option that a text picks; None where it is not plainly one.

    Behind the marker the line must hold the option and nothing else, apart from signs around it, the word "Score", and
    what it is out of ("4/5" where "5" is the last option). Where the marker stands more than once, all must agree.

    Parameters
    ----------
    marker
        What stands before the score.
    cut
        The text was cut at its end: an option that reaches there may be the beginning of another one.

    Examples
    --------
    >>> options = ["1", "2", "3", "4", "5"]
    >>> pick("Clear and short. [RESULT] (4)", options, "[RESULT]"), pick("[RESULT] 4/5", options, "[RESULT]")
    (3, 3)
    >>> [pick(f"[RESULT] {text}", options, "[RESULT]") for text in ("4.5", "3 or 4", "-1", "4/10", "5 points off")]
    [None, None, None, None, None]
    """
    ends = rf"(?:\s*(?:/|out\s+of)\s*{re.escape(options[-1])})?{_CLOSERS}\.?{_CLOSERS}[ \t]*(\r?\n|\Z)"
    pattern = re.compile(rf"{_BEFORE}({_any(options)}){_CLOSERS}{ends}", re.IGNORECASE)
    found = [pattern.match(part) for part in text.split(marker)[1:]]
    if not found or None in found or (cut and found[-1] and not found[-1][2]):
        return None
    picked = {match[1].lower() for match in found if match}
    lower = [option.lower() for option in options]
    if len(picked) > 1 or len(set(lower)) < len(lower):
        picked = {match[1] for match in found if match}
        lower = list(options)
    (one,) = picked if len(picked) == 1 else (None,)
    return lower.index(one) if one in lower else None


def names(text: str, options: Sequence[str]) -> bool:
    """Whether a text states a score: an option within four words of a word of scoring, or one out of the highest.

    Examples
    --------
    >>> options = ["1", "2", "3", "4", "5"]
    >>> [names(text, options) for text in ("I would give it a 4.", "The score is four.", "It is a 4 out of 5.")]
    [True, True, True]
    >>> [names(text, options) for text in ("It has 4 parts.", "5 reasons are given.", "A good text.")]
    [False, False, False]
    """
    words = [word for option in options if option.isdecimal() and (word := WORDS.get(int(option)))]
    scored = rf"{_SCORING}(?:\W+\w+){{0,3}}?\W+(?<!\d[.,])({_any([*options, *words])})(?![\w-]|[.,]\d)"
    out_of = rf"(?<!\w)(?<!\d[.,])({_any(options)})\s*(?:/|out\s+of)\s*{re.escape(options[-1])}(?!\w)"
    return any(re.search(pattern, text, re.IGNORECASE) for pattern in (scored, out_of))


def _any(options: Sequence[str]) -> str:
    """Pattern of any option, the longest first."""
    return "|".join(map(re.escape, sorted(options, key=len, reverse=True)))
