"""LLMBar: pairs with an objective gold label, natural and adversarial, and its case studies (pairwise)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from logitjudge.core import Item, ItemSet
from logitjudge.datasets._pairs import pair, read_json, rows_of
from logitjudge.errors import InputError, ItemError, unknown

COLUMNS = ("input", "output_1", "output_2")
CORE = ("LLMBar_Natural", "LLMBar_Adversarial_")  # beginnings of the names of the 419 core items
COUPLES = {
    "CaseStudy_Negation": "negation",
    "CaseStudy_Normal": "negation",
    "CaseStudy_Base_9": "base",
    "CaseStudy_Base_10": "base",
}
PARTS = re.compile(r"(?:.*/)?((?:LLMBar|Processed|CaseStudy)(?:/.+)?)/dataset", re.DOTALL)


def load(path: Path, *, subsets: str = "") -> ItemSet:
    """Read the original files of LLMBar.

    Items are named ``SUBSET-N``. Pairs with the same instruction are a cluster. In the case studies Negation and Normal (the same
    responses under opposite instructions), and Base_9 and Base_10, gold flips: row N of the two is a ``couple``, and a cluster.

    Parameters
    ----------
    path
        The folder ``Dataset`` (or a part of it), a folder of files named after their subsets, or one file.
    subsets
        Keep only these, separated by commas; ``all``; by default, of a folder that has them, the 419 core pairs.

    Raises
    ------
    ItemError
        A row that is not of this form.
    InputError
        A subset that is not there.
    """
    files = dict(_files(path))
    names = _wanted(path, list(files), subsets)
    items = [item for name in names for item in _items(files[name], name)]
    return ItemSet(_clustered(items), "gold", "same")


def _files(path: Path) -> Iterator[tuple[str, Path]]:
    """Subsets and their files."""
    if path.is_dir():
        found = sorted(path.rglob("*.json"))
        if not found:
            raise ItemError(f"{path} has no .json file. Give LLMBar's folder 'Dataset', or one of its files.")
        yield from ((_name(file), file) for file in found)
    else:
        yield _name(path), path


def _name(path: Path) -> str:
    """Subset of a file: of its own name, or of the folders that the original has."""
    parts = PARTS.fullmatch(path.with_suffix("").absolute().as_posix())
    return parts[1].replace("/", "_") if parts else path.stem


def _wanted(path: Path, known: list[str], subsets: str) -> list[str]:
    core = [name for name in known if name.startswith(CORE)]
    if not subsets:
        return core or known
    if subsets == "all":
        return known
    names = [name.strip() for name in subsets.split(",")]
    for name in names:
        if name not in known:
            raise InputError(f"{path}: option 'subsets': {unknown('subset', name, [*known, 'all'])}")
    return names


def _items(path: Path, subset: str) -> list[Item]:
    made = []
    for number, row in enumerate(rows_of(read_json(path), str(path))):
        couple = f"{COUPLES[subset]}-{number}" if subset in COUPLES else ""
        groups = {"subset": subset} | ({"couple": couple} if couple else {})
        made.append(pair(row, f"{subset}-{number}", COLUMNS, cluster=couple, groups=groups))
    return made


def _clustered(items: list[Item]) -> tuple[Item, ...]:
    """Items of one instruction in the cluster of the first of them."""
    first: dict[str, str] = {}
    made = []
    for item in items:
        name = first.setdefault(item.fields["instruction"], item.cluster)
        own = item.cluster if "couple" in item.groups else name
        made.append(Item(item.id, item.fields, human=item.human, cluster=own, groups=item.groups))
    return tuple(made)
