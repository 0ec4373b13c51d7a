"""The rules of our own item format: a row of values -> an `Item`. Every error names place, field, value and remedy."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from logitjudge import rubrics
from logitjudge.core import RESERVED, Item, ItemSet, Rubric
from logitjudge.datasets._ratings import check_rating, human
from logitjudge.datasets._read import PROMETHEUS_HINT, Row, decoded, fail
from logitjudge.errors import ItemError, RubricError, unknown
from logitjudge.pairs import CRITERIA, RESPONSES

OF_PAIR = ("id", "instruction", "messages", "reference", "cluster", "gold", CRITERIA, *RESPONSES)
ROLES = ("assistant", "developer", "system", "tool", "user")
Shipped = Callable[[str], Rubric]


def itemset(rows: Iterable[Row], where: str) -> ItemSet:
    """Items of all rows of the file `where`; each shipped rubric that they name is read once."""
    shipped = cache(rubrics.load)
    return ItemSet(distinct(rows, where, lambda row: _item(row, shipped)))


def distinct(rows: Iterable[Row], where: str, make: Callable[[Row], Item]) -> tuple[Item, ...]:
    """Make an item of each row; ids must differ, and there must be one at least."""
    places: dict[str, str] = {}
    items = []
    for row in rows:
        item = make(row)
        if item.id in places:
            raise fail(row, "id", item.id, f"is already the id of {places[item.id]}. Ids must be unique.")
        places[item.id] = row.place
        items.append(item)
    if not items:
        raise ItemError(f"{where} has no rows: there are no items to judge.")
    return tuple(items)


def _item(row: Row, shipped: Shipped) -> Item:
    row = Row(row.place, {key: value for key, value in row.values.items() if not _absent(row, key)})
    of_pair = any(name in row.values for name in RESPONSES)
    if of_pair and "response" not in row.values:
        return _pair(row)
    if of_pair:
        raise fail(
            row, "response", row.values["response"],
            "stands beside response_1 or response_2: a row is one response, or a pair of them. Take one of them out.",
        )  # fmt: skip
    groups = {key: _group(row, key) for key in row.values if key not in RESERVED}
    item = Item(
        id=_name(row, "id"),
        fields={**_prompt(row), **{key: value for key, value in groups.items() if isinstance(row.values[key], str)}},
        rubric=_rubric(row, shipped),
        human=human(row),
        cluster=_name(row, "cluster") if "cluster" in row.values else "",
        groups=groups,
    )
    check_rating(item, item.rubric, f"{row.place}, field 'human'")
    return item


def _pair(row: Row) -> Item:
    groups = {key: _group(row, key) for key in row.values if key not in OF_PAIR}
    texts = {key: value for key, value in groups.items() if isinstance(row.values[key], str)}
    responses = {name: _text(row, name) for name in RESPONSES}
    criteria = {CRITERIA: _text(row, CRITERIA)} if CRITERIA in row.values else {}
    return Item(
        id=_name(row, "id"),
        fields={"instruction": _instruction(row), **_reference(row), **responses, **criteria, **texts},
        human=gold(row, "gold"),
        cluster=_name(row, "cluster") if "cluster" in row.values else _couple(row),
        groups=groups,
    )


def _couple(row: Row) -> str:
    """The cluster of a pair that names no other: the pairs of a couple hang together."""
    return f"couple {_name(row, 'couple')}" if "couple" in row.values else ""


def gold(row: Row, field: str) -> tuple[float] | None:
    """Which response people prefer: 1, 2, or 0 for a tie; None where the row does not say."""
    if field not in row.values:
        return None
    value = row.values[field]
    known = {"1": 1.0, "2": 2.0, "0": 0.0, "tie": 0.0, "1.0": 1.0, "2.0": 2.0, "0.0": 0.0}
    text = str(value).strip().lower()
    if isinstance(value, bool) or text not in known:
        raise fail(row, field, value, "is not 1, 2 or tie (0). Write which response is better.")
    return (known[text],)


def _absent(row: Row, field: str) -> bool:
    value = row.values[field]
    if isinstance(value, float) and math.isnan(value):
        return field not in (*RESERVED, "gold")  # a rating must not vanish silently
    return value is None or (isinstance(value, str | list) and not value)


def _required(row: Row, field: str) -> Any:
    if field not in row.values:
        prometheus = {"idx", "response_source"} <= set(row.values)
        hint = PROMETHEUS_HINT if prometheus else f"Filled here: {', '.join(row.values) or 'nothing'}."
        raise ItemError(f"{row.place}: field {field!r} is missing or empty. {hint}")
    return row.values[field]


def _name(row: Row, field: str) -> str:
    value = _required(row, field)
    if isinstance(value, str):
        return _text(row, field)
    if isinstance(value, bool) or not isinstance(value, int):
        raise fail(row, field, value, "is neither a text nor a whole number. Write it as a text, in quotes.")
    return str(value)


def _text(row: Row, field: str) -> str:
    value = _required(row, field)
    if not isinstance(value, str):
        raise fail(row, field, value, "is not a text. Write it in quotes.")
    if not value.strip():
        raise fail(row, field, value, "is empty. Fill it, or remove the row.")
    return _encodable(row, field, value)


def _encodable(row: Row, field: str, value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        half = value[error.start]
        raise fail(row, field, half, "is half of a surrogate pair, not a character. Remove it.") from error
    return value


def _prompt(row: Row) -> dict[str, str]:
    return {"instruction": _instruction(row), "response": _text(row, "response"), **_reference(row)}


def _instruction(row: Row) -> str:
    if "messages" not in row.values:
        return _text(row, "instruction")
    if "instruction" in row.values:
        raise fail(row, "messages", row.values["messages"], "stands beside an 'instruction'. Give one of the two.")
    return _transcript(row)


def _reference(row: Row) -> dict[str, str]:
    return {"reference": _text(row, "reference")} if "reference" in row.values else {}


def _transcript(row: Row) -> str:
    turns = decoded(row, "messages", "[")
    if not isinstance(turns, list) or not turns:
        raise fail(row, "messages", turns, "is not a list of turns {role, content}.")
    return "\n\n".join(_turn(row, turn) for turn in turns)


def _turn(row: Row, turn: Any) -> str:
    role, content = (turn.get("role"), turn.get("content")) if isinstance(turn, Mapping) else (None, None)
    if role not in ROLES or not isinstance(content, str):
        raise fail(row, "messages", turn, f"is not {{role, content}} with a text and a role of {', '.join(ROLES)}.")
    return f"{role.capitalize()}: {_encodable(row, 'messages', content)}"


def _rubric(row: Row, shipped: Shipped) -> Rubric | None:
    if "rubric" not in row.values:
        return None
    value = decoded(row, "rubric", "{")
    try:
        return _shipped(value, shipped) if isinstance(value, str) else rubrics.from_dict(_filled(value), "item")
    except RubricError as error:
        raise ItemError(f"{row.place}, field 'rubric': {error}") from error


def _shipped(name: str, shipped: Shipped) -> Rubric:
    if name not in rubrics.names():  # a path would be relative to nobody knows what
        raise RubricError(unknown("rubric", name, rubrics.names()) + " Or give criterion and levels.")
    return shipped(name)


def _filled(value: Any) -> Any:
    """Drop the empty entries of a mapping: Parquet gives every row all the keys of the column."""
    return {key: part for key, part in value.items() if part is not None} if isinstance(value, Mapping) else value


def _group(row: Row, field: str) -> Any:
    """Texts, numbers and truth values as they are; lists and mappings as JSON; the rest as text."""
    value = row.values[field]
    if isinstance(value, str):
        return _encodable(row, field, value)
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return value if isinstance(value, bool | int | float) else str(value)
