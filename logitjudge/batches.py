"""One batch of a run, read whatever its judge does: what is no number refuses its item."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from logitjudge import store
from logitjudge.backends import Backend, Query
from logitjudge.core import Item, Readings
from logitjudge.errors import NotFinite
from logitjudge.study import Study


def planned(asked: Study, head: Mapping[str, Any], refused: Sequence[Mapping[str, Any]]) -> Iterator[list[Item]]:
    """Items of each batch of a run's plan, which leaves out what was refused before anything was read."""
    out = {row["id"] for row in refused if not row.get("late")}
    left = iter([item for item in asked.itemset.items if item.id not in out])
    for size in head["batches"]:
        yield [next(left) for _ in range(size)]


def read(backend: Backend, queries: Sequence[Query], budget: int) -> tuple[Readings | None, dict[str, str]]:
    """Readings of the items that could be read, in order (None: there is none), and the ids of the others with the reason.

    A NaN may leak into whatever is in one pass with it, so where one comes out each item is read alone. Where one comes out
    then, its prompts are read plainly; an item without numbers by that is refused, and its prompts have no readings.
    """
    if not queries:
        return None, {}
    with contextlib.suppress(NotFinite):
        return backend.read(queries, budget), {}
    made: list[Readings] = []
    refused: dict[str, str] = {}
    for item, own in groupby(queries, key=lambda query: query.item.id):
        try:
            made.append(_alone(backend, list(own), budget))
        except NotFinite as error:
            refused[item] = str(error)
    return Readings.join(made) if made else None, refused


def _alone(backend: Backend, queries: Sequence[Query], budget: int) -> Readings:
    """Readings of one item's prompts, at last each by itself."""
    try:
        return backend.read(queries, budget)
    except NotFinite as error:
        if (plain := backend.read_plain(queries)) is not None:
            return plain
        raise error


def refuse(folder: Path, batch: int, refused: dict[str, str]) -> None:
    """Note which items of a batch could not be read, in the place of what was noted when it was read before."""
    before = store.refusals(folder)
    rows = [row for row in before if row.get("batch") != batch]
    rows += [{"id": item, "reason": reason, "late": True, "batch": batch} for item, reason in refused.items()]
    if rows != before:
        store.refuse(folder, rows)
