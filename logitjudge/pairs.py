"""Pairs: two responses as the lines that a judge picks from, and the orders in which they are shown.

k is the candidate, never the letter: scores are 1 and 2, and 0 where a tie may be picked. A letter belongs to the slot (A is what
is shown first) unless letters are swapped too; `Ordering.labels` always says which is where.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from logitjudge.core import Item, Level, Ordering, Rubric
from logitjudge.errors import InputError, ItemError, unknown

KIND = "pairwise"  # of a run
RESPONSES = ("response_1", "response_2")  # fields of an item
CRITERIA = "criteria"  # field of an item: what makes a response better
DEFAULT_CRITERIA = "Which response follows the instruction better?"
TIE = "Neither response is better than the other."
LETTERS = ("slot", "swap")


@dataclass(frozen=True, slots=True)
class Candidates(Rubric):
    """The two responses of a pair, and perhaps the tie, as levels; equal responses are allowed."""

    distinct_texts: ClassVar[bool] = False


def candidates(item: Item, ties: bool) -> Candidates:
    """What the judge picks from: the item's two responses, by the letters A and B, and with `ties` also "TIE".

    Raises
    ------
    ItemError
        The item is no pair.
    """
    require_pair(item)
    shown = [Level(k, item.fields[name], letter) for k, name, letter in zip((1, 2), RESPONSES, "AB", strict=True)]
    tie = [Level(0, TIE, "TIE")] if ties else []
    return Candidates("pair", item.fields.get(CRITERIA) or DEFAULT_CRITERIA, (*tie, *shown))


def require_pair(item: Item) -> None:
    """Raise `ItemError` where an item lacks a response."""
    for name in RESPONSES:
        if name not in item.fields:
            raise ItemError(
                f"item {item.id!r} has no {name!r}, so it is no pair. Give the columns response_1 and response_2; for a rubric use "
                "'logitjudge run'."
            )


def forbid_pairs(items: Iterable[Item]) -> None:
    """Raise `ItemError` where an item is a pair, which no rubric judges."""
    for item in items:
        if "response" not in item.fields and all(name in item.fields for name in RESPONSES):
            raise ItemError(
                f"item {item.id!r} is a pair of responses. Judge pairs with 'logitjudge pairwise' (logitjudge.pairwise)."
            )


def unreadable(item: Item) -> str:
    """Why a pair cannot be judged, or ""."""
    require_pair(item)
    empty = [name for name in RESPONSES if not item.fields[name].strip()]
    return f"{empty[0]} holds nothing but white space" if empty else ""


def orders(letters: str = "slot", ties: bool = False) -> tuple[Ordering, ...]:
    """Both orders of the candidates; with ``letters="swap"`` each with both assignments of the letters.

    The tie always stands last.

    Raises
    ------
    InputError
        `letters` is neither "slot" nor "swap".

    Examples
    --------
    >>> [(o.shown, o.labels) for o in orders("swap")]
    [((0, 1), (0, 1)), ((1, 0), (0, 1)), ((0, 1), (1, 0)), ((1, 0), (1, 0))]
    """
    if letters not in LETTERS:
        raise InputError(unknown("value of labels", letters, LETTERS))
    slots = [_with_tie(pair, ties) for pair in ((0, 1), (1, 0))]
    printed = slots if letters == "swap" else slots[:1]
    return tuple(Ordering(shown, labels) for labels in printed for shown in slots)


def _with_tie(pair: Sequence[int], ties: bool) -> tuple[int, ...]:
    """Score indices of an order of the candidates: the tie is the first score, and stands last."""
    return (*(k + 1 for k in pair), 0) if ties else tuple(pair)
