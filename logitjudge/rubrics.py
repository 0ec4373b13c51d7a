"""Rubrics from files: our YAML (``name, criterion, levels``), Prometheus JSON (``criteria, score1_description`` ...)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from logitjudge import files
from logitjudge.core import Level, Rubric
from logitjudge.errors import RubricError, shown, unknown

FOLDER = Path(__file__).parent / "data" / "rubrics"
_DESCRIPTION = re.compile(r"score(-?\d+)_description")


def names() -> list[str]:
    """Names of the shipped rubrics."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load(spec: str | Path) -> Rubric:
    """Read a shipped rubric by name, or a YAML or JSON file.

    Raises
    ------
    RubricError
        No such rubric, or a file that is not one; the message names file, field and value.
    """
    if str(spec) in names():
        return _read(FOLDER / f"{spec}.yaml")
    path = files.place(spec, RubricError)
    if path.suffix.lower() in {".yaml", ".yml", ".json"} or path.exists():
        return _read(path)
    raise RubricError(unknown("rubric", str(spec), names()) + " Or give a .yaml or .json file, or 'item'.")


def from_dict(data: Any, name: str = "rubric") -> Rubric:
    """Make a rubric of plain values in either format. Levels are put into score order."""
    if not isinstance(data, Mapping):
        raise RubricError(f"rubric {name!r} is {shown(data)}, not a mapping with 'criterion' and 'levels'.")
    if "criteria" in data or any(_DESCRIPTION.fullmatch(str(key)) for key in data):
        return _prometheus(data, name)
    if stray := set(data) - {"name", "criterion", "levels"}:
        raise RubricError(
            f"rubric {name!r} has an unknown field {shown(min(map(str, stray)))}. Known: name, criterion, levels."
        )
    levels = data.get("levels")
    if not isinstance(levels, list):
        raise RubricError(f"rubric {name!r}: field 'levels' is {shown(levels)}, not a list of {{score, text}}.")
    made = [_level(row, name) for row in levels]
    return Rubric(
        str(data.get("name", name)), data.get("criterion", ""), tuple(sorted(made, key=lambda level: level.score))
    )


def _level(row: Any, name: str) -> Level:
    if not isinstance(row, Mapping) or not {"score", "text"} <= set(row) or set(row) - {"score", "text", "option"}:
        raise RubricError(f"rubric {name!r}: level {shown(row)} is not {{score, text}} or {{score, text, option}}.")
    option = row.get("option")
    if option is not None and not isinstance(option, str):  # YAML reads no as False, 01 as 1, 1:30 as 90
        raise RubricError(
            f"rubric {name!r}: the option of score {shown(row['score'])} is {shown(option)}, not a string. Put the option in quotes."
        )
    return Level(row["score"], row["text"], option or "")


def _prometheus(data: Mapping[str, Any], name: str) -> Rubric:
    found = {key: int(m[1]) for key in data if (m := _DESCRIPTION.fullmatch(str(key)))}
    if stray := set(data) - set(found) - {"name", "criteria"}:
        known = "Known: name, criteria, score1_description, score2_description ..."
        raise RubricError(f"rubric {name!r} has an unknown field {shown(min(map(str, stray)))}. {known}")
    levels = tuple(Level(found[key], data[key]) for key in sorted(found, key=lambda key: found[key]))
    return Rubric(str(data.get("name", name)), data.get("criteria", ""), levels)


def _read(path: Path) -> Rubric:
    try:
        text = path.read_text(encoding="utf-8")
        is_json = path.suffix.lower() == ".json"
        data = json.loads(text, object_pairs_hook=files.distinct) if is_json else files.load_yaml(text)
    except OSError as error:
        raise RubricError(f"rubric file {path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise RubricError(f"rubric file {path} is not UTF-8 (byte {error.start}). Save it as UTF-8.") from error
    except (ValueError, RecursionError) as error:
        raise RubricError(f"rubric file {path} is not valid {path.suffix[1:].upper()}: {error}") from error
    try:
        return from_dict(data, path.stem)
    except RubricError as error:
        raise RubricError(f"{path}: {error}") from error
