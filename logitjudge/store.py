"""The run folder, in and out: readable without us, whole after a kill at any instant.

``run.json`` is the last file written when a run starts, so a folder without it has not started. One batch is one part
file under ``readings/``, written under a temporary name, flushed, renamed: it is there whole or is read again whole.
When the run finishes the parts become ``readings/all.parquet``, which outranks any part that is still there.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import partial as partial_
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from logitjudge import rubrics
from logitjudge.core import Item, Ordering, Readings
from logitjudge.errors import RunFolderError, RunIncomplete
from logitjudge.run import Run

if TYPE_CHECKING:
    import pandas as pd

SCHEMA_VERSION = 1
STARTING = (
    ".logitjudge-starting"  # while a run starts or is removed: without run.json, only then are the other files ours
)
OURS = {"run.json", "items.jsonl", "refused.jsonl", "readings", "traces"}
_TOKEN = pa.struct([("id", pa.int32()), ("text", pa.string()), ("logp", pa.float64())])
SCHEMA = pa.schema(
    [
        pa.field("item_id", pa.string(), nullable=False),
        pa.field("ordering", pa.list_(pa.int32()), nullable=False),
        ("labels", pa.list_(pa.int32())),
        pa.field("logp", pa.list_(pa.float64()), nullable=False),
        pa.field("mass", pa.float64(), nullable=False),
        pa.field("alias_mass", pa.list_(pa.float64()), nullable=False),
        pa.field("top_tokens", pa.list_(_TOKEN), nullable=False),
        ("exact", pa.list_(pa.bool_())),
        ("criterion", pa.string()),
        ("trace_id", pa.string()),
        ("sample", pa.int32()),
    ]
)
Key = tuple[str, tuple[int, ...], tuple[int, ...] | None]


# --- writing -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _writing(path: Path, place: Path | None = None) -> Iterator[Path]:
    """Give a temporary name beside `path`, or in `place`; flush and rename it when the block ends well, remove it when not."""
    temporary = (place or path.parent) / f".{path.name}.writing"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise RunFolderError(
            f"{path} cannot be written: {error.strerror or error}. What was written before is whole and stays; "
            "free the disk or choose another --out, and run the same command again to go on."
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write one JSON object, whole or not at all."""
    with _writing(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def _write_lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    with _writing(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")


def start(folder: Path, header: Mapping[str, Any], items: Sequence[Item], refused: Sequence[Mapping[str, str]]) -> None:
    """Write a new run: items, refusals, and last of all run.json. What is left of another is removed first."""
    clear(folder)
    _write_lines(folder / "items.jsonl", [item_row(item) for item in items])
    _write_lines(folder / "refused.jsonl", refused)
    write_json(folder / "run.json", header)
    (folder / STARTING).unlink(missing_ok=True)


def item_row(item: Item) -> dict[str, Any]:
    """An item as items.jsonl has it."""
    return {
        "id": item.id,
        "cluster": item.cluster,
        "fields": dict(item.fields),
        "rubric": item.rubric.to_dict() if item.rubric else None,
        "human": None if item.human is None else list(item.human),
        "groups": {name: _plain(value) for name, value in item.groups.items()},
    }


def _plain(value: Any) -> Any:
    """Return a value of a group as one that JSON knows: None where there is none, text for what it has no word for."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value if isinstance(value, str | int | float) else str(value)


def write_part(folder: Path, batch: int, keys: Sequence[Key], readings: Readings) -> None:
    """Write the readings of one batch."""
    _write_table(folder, f"part-{batch:06d}.parquet", _table(keys, readings))


def _table(keys: Sequence[Key], readings: Readings) -> pa.Table:
    rows = len(keys)
    columns = {
        "item_id": [item for item, _, _ in keys],
        "ordering": [list(values) for _, values, _ in keys],
        "labels": [None if labels is None else list(labels) for _, _, labels in keys],
        "logp": readings.logp.tolist(),
        "mass": readings.mass.tolist(),
        "alias_mass": readings.alias_mass.tolist(),
        "top_tokens": [[token._asdict() for token in tokens] for tokens in readings.top_tokens],
    }
    return pa.table({name: columns.get(name, [None] * rows) for name in SCHEMA.names}, schema=SCHEMA)


def _write_table(folder: Path, name: str, table: pa.Table) -> None:
    with _writing(folder / "readings" / name, folder) as temporary:  # outside readings/, which people read as a whole
        pq.write_table(table, temporary, write_page_checksum=True)


def finish(folder: Path, header: Mapping[str, Any]) -> None:
    """Put the parts into one file, in item, then ordering order; then say in run.json that the run is finished."""
    _write_table(folder, "all.parquet", _read_parts(folder))
    write_json(folder / "run.json", header)
    _drop_parts(folder)


def _drop_parts(folder: Path) -> None:
    for part in _parts(folder):
        with contextlib.suppress(OSError):  # a read-only folder is still a good run
            part.unlink()


def clear(folder: Path) -> None:
    """Remove a run, and only a run, from `folder`: run.json first, so that what is left never looks finished."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / STARTING).touch()
        for name in ("run.json", *sorted(OURS - {"run.json"})):
            path = folder / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    except OSError as error:
        raise RunFolderError(f"{folder} cannot be written: {error.strerror or error}. Choose another --out.") from error


# --- reading -------------------------------------------------------------------------------------------------------


def header(folder: Path) -> dict[str, Any] | None:
    """Contents of run.json, or None where no run has started.

    Raises
    ------
    RunFolderError
        The folder holds something else, or a run.json that cannot be read.
    """
    path = folder / "run.json"
    if not path.exists():
        if folder.exists() and not folder.is_dir():
            raise RunFolderError(f"{folder} is a file. Choose a folder with --out.")
        if (folder / STARTING).exists() or not folder.exists():
            return None
        if stray := [p.name for p in folder.iterdir() if not p.name.startswith(".")]:
            raise RunFolderError(
                f"{folder} is not a run folder: it holds {sorted(stray)[0]!r}. Give a run's own folder, or a new one."
            )
        return None
    try:
        made = json.loads(path.read_text(encoding="utf-8"))
        version = made["schema_version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunFolderError(
            f"{path} cannot be read as a run: {type(error).__name__}: {error}. Restore it, or use --overwrite."
        ) from error
    if version != SCHEMA_VERSION:
        raise RunFolderError(f"{path} has schema version {version!r}; this logitjudge reads version {SCHEMA_VERSION}.")
    if not (folder / "readings" / "all.parquet").exists():
        made["finished"] = None  # its readings were moved away, to be read anew
    return dict(made)


def _parts(folder: Path) -> list[Path]:
    return sorted((folder / "readings").glob("part-*.parquet"))


def done(folder: Path) -> set[int]:
    """Numbers of the batches that are stored."""
    return {int(part.stem.removeprefix("part-")) for part in _parts(folder)}


def _read_table(path: Path) -> pa.Table:
    try:
        table = pq.read_table(path, schema=SCHEMA, page_checksum_verification=True, partitioning=None)
    except (OSError, pa.ArrowException) as error:
        raise _damaged(path, error) from error
    for field in SCHEMA:
        if not field.nullable and table[field.name].null_count:
            raise _damaged(path, f"column {field.name!r} is not there")
    return table


def _damaged(path: Path, reason: object) -> RunFolderError:
    return RunFolderError(
        f"{path} is damaged: {reason}. Move it away and run the same command again: only its readings are read anew."
    )


def _read_parts(folder: Path) -> pa.Table:
    whole = folder / "readings" / "all.parquet"
    if whole.exists():
        return _read_table(whole)
    tables = [_read_table(part) for part in _parts(folder)]
    return pa.concat_tables(tables) if tables else SCHEMA.empty_table()


def _lines(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{path} cannot be read: {error}. It belongs to the run; restore it.") from error


def _item(row: Mapping[str, Any]) -> Item:
    rubric = rubrics.from_dict(row["rubric"]) if row["rubric"] else None
    human = None if row["human"] is None else tuple(row["human"])
    return Item(row["id"], row["fields"], rubric, human, row["cluster"], row["groups"])


def read_items(folder: Path) -> list[Item]:
    """All items of a run, the refused ones too."""
    return [_item(row) for row in _lines(folder / "items.jsonl")]


def refusals(folder: Path) -> list[dict[str, Any]]:
    """Items that could not be judged, each with the reason."""
    return _lines(folder / "refused.jsonl")


def read_frame(folder: Path) -> pd.DataFrame:
    """Every stored column, one row a reading."""
    frame: pd.DataFrame = _read_parts(folder).to_pandas()
    return frame


def load_run(
    folder: str | Path,
    *,
    partial: bool = False,
    min_mass: float | None = None,
    aliases: Literal["ignore", "sum"] = "ignore",
) -> Run:
    """Load a run folder.

    Parameters
    ----------
    folder
        Where the run is.
    partial
        Take an unfinished run: the items whose readings are all there.
    min_mass
        Leave an item out, in all its orderings, where one of them has less mass on the options.
    aliases
        "sum" counts other single-token forms of an option as the option in `Run.probs`.

    Raises
    ------
    RunIncomplete
        The run is unfinished and `partial` is false, or nothing is left.
    RunFolderError
        There is no run, or a file of it is damaged; the message names it.
    """
    folder = Path(folder)
    head = header(folder)
    if head is None:
        raise RunFolderError(f"there is no run in {folder}. Make one with: logitjudge run --out {folder} ...")
    items, refused = read_items(folder), refusals(folder)
    table = _read_parts(folder)
    if head["finished"] is not None:
        _drop_parts(folder)  # a kill may have left some
    elif not partial:
        stored = len(set(table["item_id"].to_pylist()))
        wanted = len(items) - len(refused)
        left = f"{stored} of {wanted} items are read" if stored < wanted else "all is read, but it was not closed"
        raise RunIncomplete(
            f"the run in {folder} is unfinished: {left}. "
            "Run the same command again to go on, or use --partial (partial=True in Python)."
        )
    orderings = tuple(Ordering(tuple(o["shown"]), o["labels"] and tuple(o["labels"])) for o in head["orderings"])
    try:
        if [list(o.values(head["scores"])) for o in orderings] != [o["values"] for o in head["orderings"]]:
            raise ValueError("run.json's orderings contradict themselves")
        kept, logp, alias = _arrays(table, items, orderings, head["scores"])
        if head["finished"] is not None and len(kept) != len(items) - len(refused):
            raise ValueError(f"{len(items) - len(refused) - len(kept)} items lack readings")
    except (KeyError, TypeError, ValueError) as error:
        whole = folder / "readings" / "all.parquet"
        raise _damaged(
            whole if whole.exists() else folder / "readings", f"it does not fit run.json and items.jsonl: {error}"
        ) from error
    if not kept:
        raise RunIncomplete(f"the run in {folder} has no item with all its readings yet.")
    rubric = head["rubric"] and rubrics.from_dict(head["rubric"])
    run = Run(
        logp,
        alias,
        tuple(kept),
        orderings,
        np.array(head["scores"]),
        rubric,
        tuple(refused),
        head,
        aliases,
        partial_(read_frame, folder),
    )
    return run if min_mass is None else run.select(run.enough_mass(min_mass))


def _arrays(
    table: pa.Table, items: Sequence[Item], orderings: Sequence[Ordering], scores: Sequence[int]
) -> tuple[list[Item], Any, Any]:
    """Complete items and their (I, O, K) arrays."""
    o_of = {(o.values(scores), o.labels): n for n, o in enumerate(orderings)}
    i_of = {item.id: n for n, item in enumerate(items)}
    i = np.array([i_of[name] for name in table["item_id"].to_pylist()], dtype=np.int64)
    labels = [None if row is None else tuple(row) for row in table["labels"].to_pylist()]
    o = np.array(
        [o_of[tuple(row), label] for row, label in zip(table["ordering"].to_pylist(), labels, strict=True)],
        dtype=np.int64,
    )
    if len(set(zip(i.tolist(), o.tolist(), strict=True))) != len(i):
        raise ValueError("a reading is there twice")
    found = np.full((2, len(items), len(orderings), len(scores)), np.nan)
    for n, name in enumerate(("logp", "alias_mass")):
        found[n, i, o] = np.asarray(table[name].combine_chunks().flatten()).reshape(-1, len(scores))
    complete = ~np.isnan(found).any(axis=(0, 2, 3))
    return [item for item, whole in zip(items, complete, strict=True) if whole], *found[:, complete]
