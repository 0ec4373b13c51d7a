"""The evaluation files of Prometheus: each row holds the whole judge prompt, which is cut at its five headers.

Two forms: a JSON list with ``gpt4_score``, three scores by GPT-4 (prometheus-eval), and the older JSONL without it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from logitjudge.core import Item, ItemSet, Level, Rubric
from logitjudge.datasets._items import distinct
from logitjudge.datasets._ratings import check_rating, ratings
from logitjudge.datasets._read import Row, as_object, fail, json_lines, parse_json, read_text
from logitjudge.errors import InputError, ItemError, RubricError, unknown

HEADERS = (
    "###The instruction to evaluate:",
    "###Response to evaluate:",
    "###Reference Answer (Score 5):",
    "###Score Rubrics:",
    "###Feedback:",
)
_RUBRIC = re.compile(r"\[(.*)\]\nScore 1: (.*)\nScore 2: (.*)\nScore 3: (.*)\nScore 4: (.*)\nScore 5: (.*)", re.DOTALL)


def load(path: Path, name: str, *, systems: str = "", categories: str = "") -> ItemSet:
    """Read the items of one file; `name` names the rubrics, `systems` and `categories` keep only those given."""
    every = distinct(_rows(path), str(path), _Maker(name))
    of_system = _only(every, "system", systems, f"{path}: option 'systems'")
    of_category = _only(every, "category", categories, f"{path}: option 'categories'")
    items = tuple(item for item in every if item.id in of_system & of_category)
    if not items:
        raise InputError(f"{path} has no item of systems {systems!r} and categories {categories!r} at once.")
    return ItemSet(items, "GPT-4 reference", "slots")


def _rows(path: Path) -> Iterator[Row]:
    text = read_text(path)
    if not text.lstrip().startswith("["):
        yield from json_lines(text, path)
        return
    for number, value in enumerate(parse_json(text, str(path)), start=1):
        place = f"{path}, row {number}"
        yield Row(place, as_object(value, place))


def _only(items: tuple[Item, ...], group: str, wanted: str, where: str) -> set[str]:
    """Ids of the items whose `group` is one of the names in `wanted`; of all of them where it is empty."""
    if not wanted:
        return {item.id for item in items}
    known = {item.groups[group] for item in items if group in item.groups}
    names = [name.strip() for name in wanted.split(",")]
    for name in names:
        if name not in known:
            raise InputError(f"{where}: {unknown(group, name, known)}")
    return {item.id for item in items if item.groups.get(group) in names}


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes an item of a row of the file."""

    name: str

    def __call__(self, row: Row) -> Item:
        number = _value(row, "idx", lambda value: type(value) is int, "a whole number")
        system = _value(row, "response_source", _is_text, "a text")
        category = {"category": _value(row, "category", _is_text, "a text")} if "category" in row.values else {}
        instruction, response, reference, rubric = _parts(row, _value(row, "instruction", _is_text, "a text"))
        item = Item(
            id=f"{number}-{system}",
            fields={"instruction": instruction, "response": response, "reference": reference},
            rubric=self._rubric(row, rubric),
            human=_scores(row),
            cluster=str(number),
            groups={**category, "system": system, "idx": number},
        )
        check_rating(item, item.rubric, f"{row.place}, field 'gpt4_score'")
        return item

    def _rubric(self, row: Row, text: str) -> Rubric:
        found = _RUBRIC.fullmatch(text)
        if not found:
            raise fail(row, "instruction", text, "is not '[criterion]' and lines 'Score 1: ...' to 'Score 5: ...'.")
        criterion, *texts = found.groups()
        try:
            return Rubric(self.name, criterion, tuple(Level(score, part) for score, part in enumerate(texts, start=1)))
        except RubricError as error:
            raise ItemError(f"{row.place}, field 'instruction': {error}") from error


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _value(row: Row, field: str, right: Callable[[Any], bool], what: str) -> Any:
    if field not in row.values:
        found = ", ".join(row.values) or "nothing"
        raise ItemError(f"{row.place}: field {field!r} is missing. Found: {found}. Is this the original file?")
    if not right(row.values[field]):
        raise fail(row, field, row.values[field], f"is not {what}.")
    return row.values[field]


def _parts(row: Row, text: str) -> list[str]:
    """Texts between the headers, exactly.

    The prompt is "header, newline, text, blank line, next header": that one newline and that one blank line are markup
    and go. Any other space at the edges was written by a system or by the authors and stays, so that a template of the
    same layout gives the original prompt again, byte for byte.
    """
    for header in HEADERS:
        if (count := text.count(header)) != 1:
            raise ItemError(f"{row.place}, field 'instruction': the header {header!r} occurs {count} times, not once.")
    places = [text.index(header) for header in HEADERS]
    if places != sorted(places):
        raise ItemError(f"{row.place}, field 'instruction': the headers are not in the order {', '.join(HEADERS)}.")
    starts = [place + len(header) for place, header in zip(places, HEADERS, strict=True)]
    parts = [
        text[start:end].removeprefix("\n").removesuffix("\n\n")
        for start, end in zip(starts[:-1], places[1:], strict=True)
    ]
    for header, part in zip(HEADERS, parts, strict=False):
        if not part.strip():
            raise ItemError(f"{row.place}, field 'instruction': nothing follows the header {header!r}.")
    return parts


def _scores(row: Row) -> tuple[float, ...] | None:
    """GPT-4's scores; None in the older form, which has none."""
    if "gpt4_score" not in row.values:
        return None
    scores = _value(row, "gpt4_score", lambda value: isinstance(value, list) and bool(value), "a list of scores")
    return ratings(row, "gpt4_score", scores)
