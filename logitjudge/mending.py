"""Damaged files of an unfinished run: found, set aside under ``damaged/``, and made again by the command that goes on.

A file is damaged that cannot be read, whose checksums are wrong, or that does not hold what its batch must hold.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from logitjudge import batches, parts, store, texts
from logitjudge.errors import Damaged, RunFolderError
from logitjudge.parts import READINGS, TEXTS
from logitjudge.study import Study
from logitjudge.verdicts import Writing

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Damage:
    """A file of a run folder, where it goes, and what is wrong with it."""

    path: Path
    to: Path
    reason: str

    def row(self, folder: Path) -> dict[str, str]:
        """What a session of run.json says of it."""
        name, to = (path.relative_to(folder).as_posix() for path in (self.path, self.to))
        return {"file": name, "to": to, "reason": self.reason}

    def __str__(self) -> str:
        return f"{self.path} is damaged ({self.reason}): set aside as {self.to}, and made again"


@dataclass(frozen=True, slots=True)
class Damages:
    """What is damaged in a run folder, and the lists that are to be written anew."""

    files: Sequence[Damage]
    lists: Mapping[Path, Sequence[Mapping[str, Any]]]

    def mend(self) -> None:
        """Move the damaged files to their places, and write the lists. Raises `RunFolderError` where that is not allowed."""
        for damage in self.files:
            try:
                damage.to.parent.mkdir(exist_ok=True)
                if damage.path.exists():
                    os.replace(damage.path, damage.to)
            except OSError as error:
                raise RunFolderError(
                    f"{damage.path} is damaged and cannot be moved to {damage.to}: {error.strerror}. Make room, or move it."
                ) from error
        for path, rows in self.lists.items():
            store.write_lines(path, rows)


def look(
    folder: Path, asked: Study, head: Mapping[str, Any], how: Writing | None, left_out: Callable[[], Sequence[Json]]
) -> Damages:
    """Look at all files of an unfinished run but run.json; nothing is changed.

    Parameters
    ----------
    left_out
        Gives the refusals of the plan, should their list be damaged.

    Raises
    ------
    RunFolderError
        The list of refusals is damaged, and cannot be made again.
    """
    found: dict[Path, str] = {}
    lists: dict[Path, Sequence[Mapping[str, Any]]] = {}
    rows = [store.item_row(item) for item in asked.itemset.items]
    if reason := _differs(path := folder / "items.jsonl", rows):
        found[path], lists[path] = reason, rows
    count = head["items"] - sum(head["batches"])
    if reason := _short(folder, count, {item.id for item in asked.itemset.items}):
        refused = left_out()
        if len(refused) != count:
            raise RunFolderError(
                f"{folder / 'refused.jsonl'} is damaged: {reason}. It had {count} items that could not be judged; now there are "
                f"{len(refused)}. Restore it from a copy, or use --overwrite to begin anew."
            )
        found[folder / "refused.jsonl"], lists[folder / "refused.jsonl"] = reason, refused
    else:
        refused = store.refusals(folder)
    names = [[item.id for item in batch] for batch in batches.planned(asked, head, refused)]
    found |= _parts(folder, asked, names, how, refused)
    return Damages([Damage(path, _place(folder, path), reason) for path, reason in found.items()], lists)


def _differs(path: Path, rows: Sequence[Mapping[str, Any]]) -> str:
    """Why a list is not that of these items, or ""."""
    try:
        there = store.lines(path, store.ITEM)
    except Damaged as error:
        return _line(error.reason)
    return "" if there == json.loads(json.dumps(rows)) else "it does not hold the items of this run"


def _short(folder: Path, planned: int, names: Set[str]) -> str:
    """Why the list of refusals is not this run's, or ""."""
    try:
        rows = store.refusals(folder)
        ids = [str(row["id"]) for row in rows if not row.get("late")]
    except Damaged as error:
        return _line(error.reason)
    except (AttributeError, KeyError, TypeError):
        return "it holds something else than refusals"
    if len(ids) != planned:
        return f"it holds {len(ids)} of the {planned} items that the plan leaves out"
    strange = sorted({str(row["id"]) for row in rows} - names)
    return f"it holds {strange[0]!r}, which is no item of this run" if strange else ""


def _parts(
    folder: Path, asked: Study, names: Sequence[Sequence[str]], how: Writing | None, refused: Sequence[Json]
) -> dict[Path, str]:
    """Parts that are damaged, and the reason of each."""
    lost: dict[int, set[str]] = {}
    for row in refused:
        if "batch" in row:
            lost.setdefault(row["batch"], set()).add(row["id"])
    found: dict[Path, str] = {}
    for number, path in parts.numbered(folder, TEXTS).items():
        each = len(how.sources or asked.orderings) * how.samples if how else 0
        if reason := _unsound(folder, TEXTS, number, names, each, set()):
            found[path] = reason
        elif how is not None:
            lost.setdefault(number, set()).update(texts.unended(parts.traces(folder, number), how))
    behind = parts.numbered(folder, TEXTS)
    for number, path in parts.numbered(folder, READINGS).items():
        each = 0 if how and how.parsed else len(asked.orderings) * (how.texts if how else 1)
        if reason := _unsound(folder, READINGS, number, names, each, lost.get(number, set())):
            found[path] = reason
        elif behind.get(number) in found:
            found[path] = "the texts that it was read behind are damaged"
    if reason := _unsound(folder, READINGS, None, names, None, set()):
        found[parts.whole(folder)] = reason
    return found


def _unsound(
    folder: Path, kind: str, number: int | None, names: Sequence[Sequence[str]], each: int | None, lost: set[str]
) -> str:
    """Why a part (None: the joined file) is damaged, or "".

    Parameters
    ----------
    each
        Rows of every item; None: any.
    lost
        Items of the batch that may be missing.
    """
    try:
        held = Counter(parts.ids(folder, kind, number))
    except Damaged as error:
        return _line(error.reason)
    if number is None or each is None:
        return ""
    if number >= len(names):
        return "this run has no such batch"
    wanted = dict.fromkeys(names[number], each) if each else {}
    for item, count in held.items():
        if wanted.get(item) != count:
            return f"it holds {count} rows of item {item!r}, and should hold {wanted.get(item, 0)}"
    missing = [item for item in wanted if item not in held and item not in lost]
    return f"it lacks item {missing[0]!r}" if missing else ""


def _line(reason: str) -> str:
    """The first line of a reason."""
    return reason.split("\n")[0].rstrip(".")


def _place(folder: Path, path: Path) -> Path:
    """Where a damaged file goes: no other file is there."""
    name = "-".join(path.relative_to(folder).parts)
    place, n = folder / store.DAMAGED / name, 2
    while place.exists():
        place, n = folder / store.DAMAGED / f"{name}.{n}", n + 1
    return place
