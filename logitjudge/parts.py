"""The readings of a run on disk: one Parquet file a batch, and one for all when the run is finished.

A file is written under a temporary name, flushed, renamed: it is there whole or not at all. ``readings/all.parquet``
outranks any part that is still there. Files are read and joined a few thousand rows at a time, so that memory grows
with neither items nor orderings.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from logitjudge.core import BoolArray, FloatArray, Item, Ordering, Readings
from logitjudge.errors import Damaged, RunFolderError

if TYPE_CHECKING:
    import pandas as pd

READINGS, TEXTS = "readings", "traces"  # folders
ROWS = 1_024  # of one read, and of one row group
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
TRACES = pa.schema(
    [
        pa.field("trace_id", pa.string(), nullable=False),
        pa.field("item_id", pa.string(), nullable=False),
        pa.field("source_ordering", pa.list_(pa.int32()), nullable=False),
        ("sample", pa.int32()),
        pa.field("text", pa.string(), nullable=False),
        pa.field("token_ids", pa.list_(pa.int32()), nullable=False),
        pa.field("finish_reason", pa.string(), nullable=False),
        ("picked", pa.int32()),
    ]
)
SCHEMAS = {READINGS: SCHEMA, TEXTS: TRACES}
PART = re.compile(r"part-(\d{6,})\.parquet")
GIVEN_UP = ("timeout", "broken")  # how texts finish of which nothing is taken
Key = tuple[str, tuple[int, ...], tuple[int, ...] | None]
Name = tuple[str, int]  # of a text: trace_id, sample


def trace_id(item: str, values: Sequence[int], labels: Sequence[int] | None = None, sample: int | None = None) -> str:
    """What a text is called: its item, the ordering that it was written under, and which sample it is of several."""
    moved = f"|labels {','.join(map(str, labels))}" if labels is not None else ""
    return f"{item}|{','.join(map(str, values))}{moved}" + ("" if sample is None else f"|{sample}")


@contextlib.contextmanager
def writing(path: Path, place: Path | None = None) -> Iterator[Path]:
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
            f"{path} cannot be written: {error.strerror or error}{_room(path)}. What was written before is whole and stays: "
            "make room, and run the same command again to go on."
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _room(path: Path) -> str:
    """How much room there is where a file goes, in words; "" where nobody knows."""
    try:
        return f" ({shutil.disk_usage(path.parent).free / 2**20:,.1f} MiB are free there)"
    except OSError:
        return ""


def write_part(
    folder: Path, batch: int, keys: Sequence[Key], readings: Readings | None, traces: Sequence[Name] | None = None
) -> None:
    """Write the readings of one batch, with the names of the texts that they were read behind; None: it has none."""
    table = SCHEMA.empty_table() if readings is None else _table(keys, readings, traces)
    _write_part(folder, READINGS, batch, table)


def _table(keys: Sequence[Key], readings: Readings, traces: Sequence[Name] | None) -> pa.Table:
    rows = len(keys)
    names, samples = zip(*traces, strict=True) if traces is not None else ([None] * rows, [None] * rows)
    columns = {
        "item_id": [item for item, _, _ in keys],
        "ordering": [list(values) for _, values, _ in keys],
        "labels": [None if labels is None else list(labels) for _, _, labels in keys],
        "logp": readings.logp.tolist(),
        "mass": readings.mass.tolist(),
        "alias_mass": readings.alias_mass.tolist(),
        "top_tokens": [[token._asdict() for token in tokens] for tokens in readings.top_tokens],
        "trace_id": list(names),
        "sample": list(samples),
        "exact": [None] * rows
        if readings.exact is None
        else [None if all(row) else row for row in readings.exact.tolist()],
    }
    return pa.table({name: columns.get(name, [None] * rows) for name in SCHEMA.names}, schema=SCHEMA)


def _write_part(folder: Path, kind: str, batch: int, table: pa.Table) -> None:
    with _writer(folder / kind / f"part-{batch:06d}.parquet", table.schema) as writer:
        writer.write_table(table)


@contextlib.contextmanager
def _writer(path: Path, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
    with (
        writing(path, path.parent.parent) as temporary,  # outside the folder of its kind, which people read as a whole
        pq.ParquetWriter(temporary, schema, write_page_checksum=True) as writer,
    ):
        yield writer


def write_traces(folder: Path, batch: int, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write what a judge wrote for one batch, one row a trace."""
    _write_part(folder, TEXTS, batch, pa.Table.from_pylist(list(rows), schema=TRACES))


def traces(folder: Path, batch: int | None = None) -> Iterator[dict[str, Any]]:
    """Rows of the traces of one batch, or of all, in order; none where none are stored."""
    for path in _parts(folder, TEXTS, batch):
        for table in _read(path, TRACES):
            yield from table.to_pylist()


def join(folder: Path) -> None:
    """Write all readings into one file, in their order; its bytes do not depend on the parts they came in."""
    with _writer(whole(folder), SCHEMA) as writer:
        held = SCHEMA.empty_table()
        for table in _tables(folder):
            held = pa.concat_tables([held, table]).combine_chunks()
            while len(held) >= ROWS:
                writer.write_table(held.slice(0, ROWS))
                held = held.slice(ROWS).combine_chunks()
        writer.write_table(held)


def copy_part(source: Path, folder: Path, batch: int) -> None:
    """Copy what is stored of one batch, texts and readings, from another run folder."""
    for kind in (TEXTS, READINGS):  # a batch counts as read when its readings are there
        for path in _parts(source, kind, batch):
            with writing(folder / kind / path.name, folder) as temporary:
                shutil.copyfile(path, temporary)


def drop(folder: Path) -> None:
    """Remove the parts that the joined file has made needless."""
    for part in _parts(folder, READINGS):
        with contextlib.suppress(OSError):  # a read-only folder is still a good run
            part.unlink()


def numbered(folder: Path, kind: str) -> dict[int, Path]:
    """Batch -> its part, in order. A file of another name is none of ours."""
    found = {path: PART.fullmatch(path.name) for path in (folder / kind).glob("part-*.parquet")}
    return dict(sorted((int(match[1]), path) for path, match in found.items() if match))


def whole(folder: Path) -> Path:
    """All readings in one file, once the parts are joined."""
    return folder / READINGS / "all.parquet"


def ids(folder: Path, kind: str, batch: int | None) -> list[str]:
    """Item of every row of one part, or of the joined file (None); of none where there is no such file.

    Raises
    ------
    RunFolderError
        It is damaged.
    """
    path = whole(folder) if batch is None else numbered(folder, kind).get(batch)
    if path is None or not path.exists():
        return []
    return [name for table in _read(path, SCHEMAS[kind]) for name in table["item_id"].to_pylist()]


def _parts(folder: Path, kind: str, batch: int | None = None) -> list[Path]:
    """Parts in order, of one batch or of all."""
    return [path for number, path in numbered(folder, kind).items() if batch in (None, number)]


def done(folder: Path, written: bool = False) -> set[int]:
    """Numbers of the batches that are stored; `written`: with their texts."""
    found = [set(numbered(folder, kind)) for kind in (READINGS, TEXTS)]
    return found[0] & found[1] if written else found[0]


def _tables(folder: Path) -> Iterator[pa.Table]:
    """All readings, at most `ROWS` at a time."""
    for path in [whole(folder)] if whole(folder).exists() else _parts(folder, READINGS):
        yield from _read(path, SCHEMA)


def _read(path: Path, schema: pa.Schema) -> Iterator[pa.Table]:
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for batch in file.iter_batches(ROWS, row_groups=range(file.num_row_groups), use_threads=False):
                yield _as_written(path, batch, schema)
    except (OSError, pa.ArrowException) as error:
        raise damaged(path, error) from error


def _as_written(path: Path, batch: pa.RecordBatch, schema: pa.Schema) -> pa.Table:
    """Our columns of a batch; one that is missing is null where it may be."""
    columns = {}
    for field in schema:
        there = field.name in batch.schema.names
        if not field.nullable and (not there or batch[field.name].null_count):
            raise damaged(path, f"column {field.name!r} is not there")
        columns[field.name] = batch[field.name].cast(field.type) if there else pa.nulls(len(batch), field.type)
    return pa.table(columns, schema=schema)


def damaged(path: Path, reason: object) -> Damaged:
    """Say which file is damaged, and what to do."""
    if not whole(path.parent.parent).exists():
        advice = "Run the same command again: it sets the file aside, and makes it again"
    elif path.parent.name == TEXTS:
        advice = (
            "The run is finished: restore the file from a copy, or use --overwrite to begin anew; what does not need its texts "
            "can be shown without them"
        )
    else:
        advice = "Move it away and run the same command again: only its readings are read anew"
    return Damaged(f"{path} is damaged: {reason}. {advice}.", str(reason))


def items(folder: Path) -> set[str]:
    """Ids of the items that have readings."""
    return {name for table in _tables(folder) for name in table["item_id"].to_pylist()}


def frame(folder: Path) -> pd.DataFrame:
    """Every stored column, one row a reading."""
    made: pd.DataFrame = pa.concat_tables([SCHEMA.empty_table(), *_tables(folder)]).to_pandas()
    return made


def trace_frame(folder: Path) -> pd.DataFrame:
    """Every stored text, one row each."""
    made: pd.DataFrame = pa.Table.from_pylist(list(traces(folder)), schema=TRACES).to_pandas()
    return made


def token_frame(folder: Path) -> pd.DataFrame:
    """Every stored top token, one row each: reading, item_id, best_option, rank, id, text, logp."""
    import pandas as pd

    made, before = [], 0
    for table in _tables(folder):
        column = table["top_tokens"].combine_chunks()
        of = pc.list_parent_indices(column).to_numpy()
        tokens = column.flatten()
        begins = np.searchsorted(of, of)  # the first of the reading's tokens
        frame = {name: tokens.field(name).to_numpy(zero_copy_only=False) for name in ("id", "text", "logp")}
        best = np.stack(table["logp"].to_numpy()).max(axis=1)
        head = {
            "reading": of + before,
            "item_id": table["item_id"].to_pandas().to_numpy()[of],
            "best_option": best[of],
        }
        made.append(pd.DataFrame({**head, "rank": np.arange(len(of)) - begins, **frame}))
        before += len(table)
    columns = ["reading", "item_id", "best_option", "rank", "id", "text", "logp"]
    return pd.concat(made, ignore_index=True) if made else pd.DataFrame(columns=columns)


FRAMES = {"readings": frame, "traces": trace_frame, "top_tokens": token_frame}


def arrays(
    folder: Path,
    items: Sequence[Item],
    orderings: Sequence[Ordering],
    scores: Sequence[int],
    texts: Mapping[str | None, int],
) -> tuple[list[Item], FloatArray, FloatArray, BoolArray | None]:
    """Complete items, their log-probabilities and alias masses, and what is exact (None: all), (I, S, O, K) each.

    Parameters
    ----------
    texts
        Trace id -> its place on the axis S; ``{None: 0}`` where nothing was written.

    Raises
    ------
    KeyError, ValueError
        The readings are not those of these items and orderings.
    """
    i_of = {item.id: n for n, item in enumerate(items)}
    o_of = {(o.values(scores), o.labels): n for n, o in enumerate(orderings)}
    found = np.full((2, len(items), max(texts.values()) + 1, len(orderings), len(scores)), np.nan)
    exact: BoolArray | None = None
    for table in _tables(folder):
        i = np.array([i_of[name] for name in table["item_id"].to_pylist()], dtype=np.int64)
        o = np.array([o_of[key] for key in _orderings(table)], dtype=np.int64)
        s = np.array([texts[name] for name in table["trace_id"].to_pylist()], dtype=np.int64)
        if (
            len(set(zip(i.tolist(), s.tolist(), o.tolist(), strict=True))) < len(i)
            or not np.isnan(found[0, i, s, o]).all()
        ):
            raise ValueError("a reading is there twice")
        for n, name in enumerate(("logp", "alias_mass")):
            found[n, i, s, o] = np.stack(table[name].to_numpy())
        if table["exact"].null_count < len(table):
            exact = np.ones(found.shape[1:], np.bool_) if exact is None else exact
            exact[i, s, o] = [row or [True] * len(scores) for row in table["exact"].to_pylist()]
    complete = ~np.isnan(found).any(axis=(0, 2, 3, 4))
    kept = [item for item, whole in zip(items, complete, strict=True) if whole]
    if len(kept) < len(items):
        found, exact = found[:, complete], None if exact is None else exact[complete]
    return kept, found[0], found[1], exact


def picks(
    folder: Path, items: Sequence[Item], orderings: int, samples: int, texts: Mapping[str, tuple[int, int]]
) -> tuple[list[Item], FloatArray]:
    """Items whose texts are all there, and the score values that these pick, (I, O, S); NaN where none could be parsed.

    Parameters
    ----------
    texts
        Trace id -> (ordering, sample).
    """
    i_of = {item.id: n for n, item in enumerate(items)}
    found = np.full((len(items), orderings, samples), np.nan)
    there = np.zeros(found.shape, np.bool_)
    for row in traces(folder):
        if row["finish_reason"] in GIVEN_UP:
            continue
        cell = (i_of[row["item_id"]], *texts[row["trace_id"]])
        there[cell] = True
        found[cell] = np.nan if row["picked"] is None else row["picked"]
    complete: BoolArray = np.asarray(there.all(axis=(1, 2)))
    return [item for item, whole in zip(items, complete, strict=True) if whole], found[complete]


def _orderings(table: pa.Table) -> Iterator[tuple[tuple[int, ...], tuple[int, ...] | None]]:
    for shown, labels in zip(table["ordering"].to_pylist(), table["labels"].to_pylist(), strict=True):
        yield tuple(shown), None if labels is None else tuple(labels)
