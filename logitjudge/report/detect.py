"""Submitted scores from a file, and what `logitjudge.measures.detection` says of them, as JSON values."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from logitjudge.errors import ItemError
from logitjudge.measures.detection import detect
from logitjudge.run import Run

COLUMNS = ("id", "score")
Json = dict[str, Any]


def read(path: str | Path) -> dict[str, float]:
    """Item id to score of a .jsonl or .csv file with the columns ``id`` (or ``item``) and ``score``.

    Raises
    ------
    ItemError
        The file cannot be read, lacks a column, names an item twice, or holds something that is no number.
    """
    import pandas as pd

    path = Path(path)
    try:
        frame = (
            pd.read_json(path, lines=True, dtype=False)
            if path.suffix.lower() == ".jsonl"
            else pd.read_csv(path, dtype=str)
        )
    except (OSError, ValueError) as error:
        raise ItemError(f"{path} cannot be read as .jsonl or .csv: {error}.") from error
    if "id" not in frame and "item" in frame:
        frame = frame.rename(columns={"item": "id"})
    if missing := [name for name in COLUMNS if name not in frame]:
        raise ItemError(f"{path} has no column {missing[0]!r}; it has {', '.join(map(str, frame.columns))}.")
    made: dict[str, float] = {}
    for n, (name, value) in enumerate(zip(frame["id"], frame["score"], strict=True), start=1):
        made[_new(str(name), made, path)] = _number(value, f"{path}, row {n}")
    return made


def _new(name: str, made: dict[str, float], path: Path) -> str:
    if name in made:
        raise ItemError(f"{path}: item {name!r} has two scores. Give one.")
    return name


def _number(value: Any, where: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ItemError(f"{where}: the score is {value!r}, not a number.")
    return number


def section(run: Run, submitted: dict[str, float], ordering: str, *, draws: int = 2000, seed: int = 0) -> Json:
    """What was found, as JSON values: the fields of `Detection`, and the published ordering."""
    found = detect(run, submitted, ordering, draws=draws, seed=seed)
    return {"ordering": [int(value) for value in ordering.split(",")] if "," in ordering else ordering, **asdict(found)}
