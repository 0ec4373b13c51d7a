"""One batch of a run, read whatever its judge does: out of memory halves the budget, what is no number refuses its item."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from logitjudge import store
from logitjudge.backends import Backend, OutOfMemory, Query
from logitjudge.core import Item, Readings
from logitjudge.errors import ModelError, NotFinite
from logitjudge.study import Study

SMALLEST_BUDGET = 32


def planned(asked: Study, head: Mapping[str, Any], refused: Sequence[Mapping[str, Any]]) -> Iterator[list[Item]]:
    """Items of each batch of a run's plan, which leaves out what was refused before anything was read."""
    out = {row["id"] for row in refused if not row.get("late")}
    left = iter([item for item in asked.itemset.items if item.id not in out])
    for size in head["batches"]:
        yield [next(left) for _ in range(size)]


def read(
    folder: Path, head: dict[str, Any], batch: int, backend: Backend, queries: Sequence[Query]
) -> tuple[Readings | None, dict[str, str]]:
    """Readings of the items that could be read, in order (None: there is none), and the ids of the others with the reason.

    A NaN may leak into whatever is in one pass with it, so where one comes out each item is read alone. Where one comes out
    then, its prompts are read plainly; an item without numbers by that is refused, and its prompts have no readings.
    """
    try:
        return _read(folder, head, batch, backend, queries), {}
    except NotFinite:
        pass
    made: list[Readings] = []
    refused: dict[str, str] = {}
    for item, own in groupby(queries, key=lambda query: query.item.id):
        try:
            made.append(_alone(folder, head, batch, backend, list(own)))
        except NotFinite as error:
            refused[item] = str(error)
    return Readings.join(made) if made else None, refused


def _alone(folder: Path, head: dict[str, Any], batch: int, backend: Backend, queries: Sequence[Query]) -> Readings:
    """Readings of one item's prompts, at last each by itself."""
    try:
        return _read(folder, head, batch, backend, queries)
    except NotFinite as error:
        with contextlib.suppress(OutOfMemory):
            if (plain := backend.read_plain(queries)) is not None:
                return plain
        raise error


def _read(folder: Path, head: dict[str, Any], batch: int, backend: Backend, queries: Sequence[Query]) -> Readings:
    """Read at once; out of memory halves the budget from this batch on, which is recorded before it is used."""
    while True:
        budget = head["budget"] >> sum(1 for first in head["halvings"] if first <= batch)
        try:
            return backend.read(queries, budget)
        except OutOfMemory as error:
            if budget // 2 < SMALLEST_BUDGET:
                raise ModelError(
                    f"the device is out of memory even with one prompt at a time: {error}. Use another --device or a smaller --dtype."
                ) from error
        except NotFinite:
            raise
        except ValueError as error:
            raise ModelError(
                f"batch {batch} (items {queries[0].item.id!r} to {queries[-1].item.id!r}): {str(error).rstrip('.')}."
            ) from error
        head["halvings"].append(batch)
        store.write_json(folder / "run.json", head)
        warnings.warn(f"out of memory: the token budget is halved to {budget // 2}.", stacklevel=2)


def refuse(folder: Path, batch: int, refused: dict[str, str]) -> None:
    """Note which items of a batch could not be read, in the place of what was noted when it was read before."""
    before = store.refusals(folder)
    rows = [row for row in before if row.get("batch") != batch]
    rows += [{"id": item, "reason": reason, "late": True, "batch": batch} for item, reason in refused.items()]
    if rows != before:
        store.refuse(folder, rows)
