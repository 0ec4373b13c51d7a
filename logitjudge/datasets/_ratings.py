"""Ratings: what is one, and whether it lies on the scale of its rubric."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from logitjudge.core import Item, Rubric
from logitjudge.datasets._read import Row, decoded, fail
from logitjudge.errors import ItemError


def check_ratings(items: Iterable[Item], rubric_of: Callable[[Item], Rubric | None], where: str) -> None:
    """See that every rating lies within the scores of the item's rubric; it need not be one of them.

    Parameters
    ----------
    items
        Items, with or without ratings.
    rubric_of
        The rubric that an item is judged by; None where it has none.
    where
        The file, for the message.

    Raises
    ------
    ItemError
        A rating lies outside.
    """
    for item in items:
        check_rating(item, rubric_of(item), f"{where}, item {item.id!r}, field 'human'")


def check_rating(item: Item, rubric: Rubric | None, place: str) -> None:
    """See that the ratings of the item at `place` lie within the scores of its rubric, if it has one."""
    if rubric is None or item.human is None:
        return
    first, last = rubric.scores[0], rubric.scores[-1]
    for rating in item.human:
        if not first <= rating <= last:
            raise ItemError(
                f"{place}: rating {rating:g} is outside {first} to {last}, the scores of rubric {rubric.name!r}. "
                "Correct the rating, or use a rubric of its scale."
            )


def human(row: Row) -> tuple[float, ...] | None:
    """Ratings of a row: a number or a list of numbers, or either of them as text."""
    if "human" not in row.values:
        return None
    value = decoded(row, "human", "[")
    return ratings(row, "human", value if isinstance(value, list) else [_number(value)])


def ratings(row: Row, field: str, values: list[Any]) -> tuple[float, ...] | None:
    """`values` as ratings, which are finite numbers; None where there are none."""
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value):
            raise fail(row, field, value, "is not a finite number. Write a number or a list, such as [4, 5].")
    return tuple(float(value) for value in values) or None


def _number(value: Any) -> Any:
    """Read a number that is written as text, as every CSV has it; anything else comes back as it is."""
    try:
        return float(value) if isinstance(value, str) and "_" not in value else value
    except ValueError:
        return value


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer of more than 308 digits
        return False
