"""What adapters of pairs share: a row of one file -> an item with two responses and a gold label."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from logitjudge.core import Item
from logitjudge.datasets._items import gold
from logitjudge.datasets._read import Row, as_object, fail, parse_json, read_text
from logitjudge.errors import ItemError
from logitjudge.pairs import RESPONSES


def rows_of(value: Any, place: str) -> Iterator[Row]:
    """Rows of a JSON list."""
    if not isinstance(value, list):
        raise ItemError(f"{place} is not a list of pairs. Give the data set's original file.")
    for number, row in enumerate(value):
        where = f"{place}, row {number + 1}"
        yield Row(where, as_object(row, where))


def read_json(path: Path) -> Any:
    """Value of a JSON file."""
    return parse_json(read_text(path), str(path))


def pair(
    row: Row, name: str, names: tuple[str, str, str], *, cluster: str = "", groups: Mapping[str, Any] | None = None
) -> Item:
    """Item of a row whose columns `names` hold the instruction and the responses, and ``label`` the gold."""
    texts = [_text(row, column) for column in names]
    if "label" not in row.values:
        raise ItemError(f"{row.place}: field 'label' is missing. Give the data set's original file.")
    fields = dict(zip(("instruction", *RESPONSES), texts, strict=True))
    return Item(name, fields, human=gold(row, "label"), cluster=cluster, groups=groups or {})


def _text(row: Row, column: str) -> str:
    if column not in row.values:
        raise ItemError(
            f"{row.place}: field {column!r} is missing. The row has {', '.join(row.values)}; give the data set's original file."
        )
    value = row.values[column]
    if not isinstance(value, str):
        raise fail(row, column, value, "is not a text. Give the data set's original file.")
    return value
