"""EvalBiasBench: 80 pairs in six kinds of bias; gold is always the first response (pairwise)."""

from __future__ import annotations

from pathlib import Path

from logitjudge.core import ItemSet
from logitjudge.datasets._pairs import pair, read_json, rows_of
from logitjudge.datasets._read import as_object
from logitjudge.errors import InputError, unknown

COLUMNS = ("instruction", "response1", "response2")


def load(path: Path, *, biases: str = "") -> ItemSet:
    """Read the original file ``biasbench.json``.

    Gold is the first response throughout, so that only both orders show what a judge does.

    Parameters
    ----------
    path
        The JSON file: a mapping of kinds of bias to lists of pairs.
    biases
        Keep only these kinds, separated by commas; all by default.

    Raises
    ------
    ItemError
        A row that is not of this form.
    InputError
        A kind that the file does not have.
    """
    parts = as_object(read_json(path), str(path))
    names = [name.strip() for name in biases.split(",")] if biases else list(parts)
    for name in names:
        if name not in parts:
            raise InputError(f"{path}: option 'biases': {unknown('kind of bias', name, parts)}")
    items = [
        pair(row, f"{name.replace(' ', '_')}-{number}", COLUMNS, groups={"subset": name})
        for name in names
        for number, row in enumerate(rows_of(parts[name], f"{path}, {name!r}"))
    ]
    return ItemSet(tuple(items), "gold", "same")
