"""Our own formats, JSONL, CSV and Parquet, and a DataFrame: rows with their places, which `_items` makes into items."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logitjudge import files
from logitjudge.core import RESERVED, ItemSet
from logitjudge.datasets._items import itemset
from logitjudge.datasets._read import PROMETHEUS_HINT, Row, json_lines, read_bytes, read_text, require_distinct
from logitjudge.errors import ItemError, shown, unknown

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".csv", ".jsonl", ".parquet")
_INDEX = re.compile(r"|__index_level_\d+__")  # how pandas names an index without a name in CSV and in Parquet


def read(spec: str) -> ItemSet:
    """Items of a ``.jsonl``, ``.csv`` or ``.parquet`` file."""
    path = files.place(spec, ItemError)
    suffix = path.suffix.lower()
    if suffix == ".jsonl":
        return itemset(json_lines(read_text(path), path), str(path))
    if suffix == ".csv":
        return itemset(_csv(path), str(path))
    if suffix == ".parquet":
        return itemset(_parquet(path), str(path))
    prometheus = b"###Response to evaluate:" in read_bytes(path)  # a file that is not there says so first
    hint = PROMETHEUS_HINT if prometheus else "Items are read from .jsonl, .csv or .parquet files."
    raise ItemError(f"{path}: {unknown('suffix', suffix, SUFFIXES)} {hint}")


def read_frame(frame: pd.DataFrame) -> ItemSet:
    """Items of a DataFrame."""
    return itemset(_frame(frame), "DataFrame")


def _csv(path: Path) -> Iterator[Row]:
    (_, header), *records = _records(read_text(path), path)
    columns = [name.strip() for name in header]
    if not set(columns) & set(RESERVED):
        raise ItemError(f"{path}, line 1: {shown(header)} is no header. Name the columns: id,instruction,response.")
    require_distinct(columns, f"{path}, line 1")
    for number, (line, record) in enumerate(records, start=1):
        place = f"{path}, row {number} (line {line})"
        if len(record) != len(columns):
            raise ItemError(
                f"{place}: {shown(record)} has {len(record)} values for {len(columns)} columns. "
                "Put quotes around a value with a comma or a newline in it."
            )
        yield Row(place, _named(zip(columns, record, strict=True)))


def _records(text: str, path: Path) -> list[tuple[int, list[str]]]:
    """Read records with the line that each begins on, blank lines left out."""
    limit = csv.field_size_limit(len(text))  # a global of the csv module; its default refuses responses over 128 kB
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    records, line = [], 1
    try:
        for record in reader:
            records.append((line, record))
            line = reader.line_num + 1
    except csv.Error as error:
        raise ItemError(f"{path}, line {line}: not valid CSV: {error}. Close or double the quotes there.") from error
    finally:
        csv.field_size_limit(limit)
    return [(line, record) for line, record in records if record]


def _parquet(path: Path) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = read_bytes(path)
    try:
        table = pq.ParquetFile(pa.BufferReader(data)).read()
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise ItemError(f"{path} is not a Parquet file: {reason} Write it with DataFrame.to_parquet.") from error
    require_distinct(table.column_names, str(path))
    columns = {}
    for name in table.column_names:
        try:
            columns[name] = table[name].to_pylist()
        except (pa.ArrowException, ValueError, OverflowError) as error:  # a date beyond those that Python knows, say
            raise ItemError(f"{path}, column {name!r}: a value cannot be read: {error}. Write it as text.") from error
    for number, values in enumerate(zip(*columns.values(), strict=True), start=1):
        yield Row(f"{path}, row {number}", _named(zip(columns, values, strict=True)))


def _frame(frame: pd.DataFrame) -> Iterator[Row]:
    columns = [str(name) for name in frame.columns]
    require_distinct(columns, "DataFrame")
    for number, values in enumerate(frame.itertuples(index=False, name=None), start=1):
        yield Row(f"DataFrame, row {number}", _named(zip(columns, map(_plain, values), strict=True)))


def _named(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in pairs if not _INDEX.fullmatch(name)}


def _plain(value: Any) -> Any:
    """Make a plain value of a cell of a DataFrame; pandas writes what is missing as NaN, NaT or NA."""
    import numpy as np
    import pandas as pd

    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if pd.isna(value):
        return None
    return value.item() if isinstance(value, np.number | np.bool_ | np.str_) else value
