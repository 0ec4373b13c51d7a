"""What data sets of several systems and criteria share: options that choose, and rubrics of our own wording."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import yaml

from logitjudge import rubrics
from logitjudge.core import Rubric
from logitjudge.errors import InputError, ItemError, unknown

FOLDER = Path(__file__).parent.parent / "data" / "criteria"
YES = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def chosen(kind: str, wanted: str, known: Iterable[str], where: str) -> list[str]:
    """Names in `wanted`, separated by commas; all that are known where it is empty.

    Raises
    ------
    InputError
        A name that is not known, or one that is given twice.

    Examples
    --------
    >>> chosen("system", "M20, M17", ["M17", "M20"], "x"), chosen("system", "", ["M17", "M20"], "x")
    (['M20', 'M17'], ['M17', 'M20'])
    """
    names, every = [name.strip() for name in wanted.split(",") if name.strip()], list(known)
    for n, name in enumerate(names):
        if name not in every:
            raise InputError(f"{where}: {unknown(kind, name, every)}")
        if name in names[:n]:
            raise InputError(f"{where}: {kind} {name!r} is named twice.")
    return names or every


def switch(value: str, where: str) -> bool:
    """Whether an option is on."""
    if value and value.lower() not in YES:
        raise InputError(f"{where} is {value!r}. Write true or false.")
    return YES.get(value.lower(), False)


def own_rubrics(dataset: str) -> dict[str, Rubric]:
    """Criterion -> rubric, in our own wording: its name says so."""
    rows = yaml.safe_load((FOLDER / f"{dataset}.yaml").read_text(encoding="utf-8"))
    return {
        name: rubrics.from_dict({"name": f"{dataset}-{name} (logitjudge's wording)", **row})
        for name, row in rows.items()
    }


def turns(names: Sequence[str], row: Iterable[str], number: int, place: str) -> Sequence[str]:
    """The one of `names` whose turn it is in document `number`, which has the systems in `row`.

    Raises
    ------
    ItemError
        The document has nothing by it: another in its place would upset the turns.
    """
    name, there = names[number % len(names)], list(row)
    if name not in there:
        raise ItemError(
            f"{place} has nothing by {name!r}, whose turn it is; it has {', '.join(there)}. "
            "Choose systems that all documents have, or leave out 'rotate'."
        )
    return [name]
