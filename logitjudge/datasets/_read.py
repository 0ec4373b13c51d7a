"""Bytes, text and JSON from a user's file, with errors that say which file and where in it."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from logitjudge.errors import ItemError, shown

PROMETHEUS_HINT = "This looks like a Prometheus file: read it with mt_bench:PATH or vicuna_bench:PATH."


class Row(NamedTuple):
    """One row of a file: where it stands, for messages, and its values by column."""

    place: str
    values: Mapping[str, Any]


def read_bytes(path: Path) -> bytes:
    """All bytes of a file that is there and not empty."""
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise ItemError(f"there is no file {path}.{_nearest(path)}") from error
    except IsADirectoryError as error:
        raise ItemError(f"{path} is a folder, not a file. Name a file in it.") from error
    except OSError as error:
        raise ItemError(f"{path} cannot be read: {error.strerror}.") from error
    if not data.strip():
        raise ItemError(f"{path} is empty: there are no items to judge.")
    return data


def _nearest(path: Path) -> str:
    if not path.parent.is_dir():
        return f" There is no folder {path.parent} either."
    names = sorted(entry.name for entry in path.parent.iterdir())
    near = difflib.get_close_matches(path.name, names, n=1, cutoff=0.5)
    return f" Did you mean {path.parent / near[0]}?" if near else ""


def read_text(path: Path) -> str:
    """Read the text of a UTF-8 file, with or without a byte order mark."""
    data = read_bytes(path)
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        what = f"byte {error.start} is {data[error.start]:#04x}, which is not UTF-8"
        raise ItemError(f"{path}, line {line}: {what}. Save the file as UTF-8.") from error
    if not text.strip():
        raise ItemError(f"{path} is empty: there are no items to judge.")
    return text


def json_lines(text: str, path: Path) -> Iterator[Row]:
    """Rows of a JSONL text. Lines end at newlines only: a text may hold other separators, such as U+2028."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            place = f"{path}, line {number}"
            yield Row(place, as_object(parse_json(line, place), place))


def parse_json(text: str, place: str) -> Any:
    """Value of a JSON text. `place` may be a whole file; then the line of an error is added."""
    try:
        return json.loads(text, object_pairs_hook=lambda pairs: _distinct(pairs, place))
    except json.JSONDecodeError as error:
        where = f"{place}, line {error.lineno}" if "\n" in text.strip() else place
        found = text[error.pos : error.pos + 20].strip() or "the end"
        what = f"{error.msg}, at character {error.colno}, {found!r}"
        raise ItemError(f"{where}: not valid JSON: {what}. Correct it there.") from error
    except ItemError:
        raise
    except (RecursionError, ValueError) as error:  # nested too deeply, or an integer of thousands of digits
        raise ItemError(f"{place}: JSON that cannot be read: {error}.") from error


def as_object(value: Any, place: str) -> Mapping[str, Any]:
    """`value`, which should be a JSON object."""
    if isinstance(value, dict):
        return value
    hint = " Write one object a line, without [ ] around them." if isinstance(value, list) else ""
    raise ItemError(f"{place}: {shown(value)} is not an object with the fields of an item.{hint}")


def _distinct(pairs: list[tuple[str, Any]], place: str) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        require_distinct([key for key, _ in pairs], place)
    return made


def require_distinct(columns: list[str], place: str) -> None:
    """Refuse a column name that stands twice."""
    for number, name in enumerate(columns):
        if name in columns[:number]:
            raise ItemError(f"{place}: two columns have the name {name!r}. Rename or remove one.")


def decoded(row: Row, field: str, opening: str) -> Any:
    """Value of a field, or what it holds where it is a text of JSON, as in a CSV."""
    value = row.values[field]
    is_json = isinstance(value, str) and value.lstrip().startswith(opening)
    return parse_json(value, f"{row.place}, field {field!r}") if is_json else value


def fail(row: Row, field: str, value: Any, what: str) -> ItemError:
    """Error about one value: place, field, value, and what is wrong with it."""
    return ItemError(f"{row.place}, field {field!r}: {shown(value)} {what}")
