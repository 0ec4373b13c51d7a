"""Pairs with points: both responses scored by several weighted criteria in one prompt, in both orders.

Every criterion with P points is an ordinary run of its own, in a folder of its name: options 0 to P, and an item for each pair,
candidate and order. What is read is the distribution of each criterion's points; totals and their order effect follow.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from logitjudge import files, pairs, store
from logitjudge.core import FloatArray, Item, ItemSet, Level, Rubric
from logitjudge.errors import InputError, RubricError, RunFolderError, shown, unknown
from logitjudge.judging import judge
from logitjudge.study import items_of

if TYPE_CHECKING:
    import pandas as pd

MANIFEST = "scored.json"
KEYS = ("name", "points", "text")
ORDERS = ((1, 2), (2, 1))  # candidates, first shown first
MOST = 20  # points of one criterion
FORM = {"criteria": [{"name": str, "points": int, "text": str}], "finished?": bool}  # of the manifest


@dataclass(frozen=True, slots=True)
class Criterion:
    """One criterion and its most points."""

    name: str
    points: int
    text: str = ""

    @property
    def folder(self) -> str:
        """Name of its run folder."""
        return re.sub(r"\W+", "-", self.name.lower()).strip("-") or "criterion"

    @property
    def rubric(self) -> Rubric:
        """Points from 0 to the most, as levels."""
        levels = tuple(Level(n, f"{n} of {self.points} points") for n in range(self.points + 1))
        return Rubric(self.name, self.text or self.name, levels)


def criteria_of(path: str | Path) -> tuple[Criterion, ...]:
    """Read criteria from YAML: a list of ``{name, points, text}``, or a mapping with that list as ``criteria``.

    Raises
    ------
    RubricError
        The file, or an entry of it, is not of this form.
    """
    value = files.read_yaml(path, RubricError, "Write a list of {name, points, text}.")
    rows = value.get("criteria") if isinstance(value, dict) else value
    if not isinstance(rows, list) or not rows:
        raise RubricError(f"{path} has no list of criteria. Write a list of {{name, points, text}}.")
    made = tuple(_criterion(row, f"{path}, criterion {n}") for n, row in enumerate(rows, start=1))
    if len({one.folder for one in made}) < len(made):
        raise RubricError(
            f"{path} has two criteria of one name: {', '.join(one.name for one in made)}. Names must differ."
        )
    return made


def _criterion(row: Any, place: str) -> Criterion:
    if not isinstance(row, dict):
        raise RubricError(f"{place} is {shown(row)}, not a mapping of {', '.join(KEYS)}.")
    for key in row:
        if key not in KEYS:
            raise RubricError(f"{place}: {unknown('key', str(key), KEYS)}")
    name, points, text = row.get("name"), row.get("points"), row.get("text") or ""
    if not isinstance(name, str) or not name.strip() or not isinstance(text, str):
        raise RubricError(
            f"{place}: name {shown(name)} and text {shown(text)} must be texts, and the name must not be empty."
        )
    if isinstance(points, bool) or not isinstance(points, int) or not 1 <= points <= MOST:
        raise RubricError(f"{place}: points {shown(points)} is not a whole number from 1 to {MOST}.")
    return Criterion(name.strip(), points, text.strip())


def scored_pairs(
    model: Any,
    data: str | Path | ItemSet | Sequence[Item] | pd.DataFrame,
    *,
    points: str | Path | Sequence[Criterion],
    out: str | Path,
    limit: int | None = None,
    seed: int = 0,
    template: str | Path = "pairwise_points",
    **options: Any,
) -> Scored:
    """Read the points of both responses by every criterion, in both orders.

    Parameters
    ----------
    model, data
        As in `logitjudge.pairwise`.
    points
        A YAML file of criteria (`criteria_of`), or criteria.
    out
        The folder; each criterion has a run folder in it. The same call goes on where it stopped.
    **options
        As in `logitjudge.judge`.

    Returns
    -------
    Scored
        Distributions of points.
    """
    asked = criteria_of(points) if isinstance(points, str | Path) else tuple(points)
    itemset = items_of(data, limit, seed)
    _begin(Path(out), asked, overwrite=bool(options.get("overwrite")))
    for one in asked:
        made = [row for item in itemset.items for row in _questions(item, one, asked)]
        judge(
            model, replace(itemset, items=tuple(made)), orderings="identity", out=Path(out) / one.folder,
            template=template, seed=seed, **options,
        )  # fmt: skip
    store.write_json(Path(out) / MANIFEST, _manifest(asked, finished=True))
    return load_scored(out)


def _manifest(asked: Sequence[Criterion], *, finished: bool) -> dict[str, Any]:
    return {"kind": "scored", "finished": finished, "criteria": [asdict(one) for one in asked]}


def _begin(out: Path, asked: Sequence[Criterion], *, overwrite: bool) -> None:
    """Say what the folder is going to hold, before anything is read; a half-made one says so."""
    if (out / "run.json").exists():
        raise RunFolderError(f"{out} holds a run of its own. Choose another --out for points.")
    before = _criteria(out) if is_scored(out) else tuple(asked)
    if tuple(asked) != before and not overwrite:
        raise RunFolderError(
            f"{out} was made with other criteria ({', '.join(one.name for one in before)}). Use the same, another --out, or --overwrite."
        )
    for old in {one.folder for one in before} - {one.folder for one in asked}:
        if (out / old / "run.json").exists():
            shutil.rmtree(out / old)
    out.mkdir(parents=True, exist_ok=True)
    store.write_json(out / MANIFEST, _manifest(asked, finished=False))


def _questions(item: Item, one: Criterion, every: Sequence[Criterion]) -> list[Item]:
    """Questions of one pair by one criterion: an item for each candidate and order."""
    pairs.require_pair(item)
    if pairs.CRITERIA in item.fields:
        raise InputError(
            f"pair {item.id!r} has criteria of its own, and points go by those of the file. Take the column 'criteria' out."
        )
    known = {name: text for name, text in item.fields.items() if name not in pairs.RESPONSES}
    listed = "\n".join(f"- {c.name} (0 to {c.points} points){': ' if c.text else ''}{c.text}" for c in every)
    made = []
    for order in ORDERS:
        shown = [item.fields[pairs.RESPONSES[k - 1]] for k in order]
        for candidate in (1, 2):
            letter = "AB"[order.index(candidate)]
            fields = {**known, pairs.CRITERIA: listed, "first": shown[0], "second": shown[1], "letter": letter}
            groups = {**item.groups, "pair": item.id, "order": ",".join(map(str, order)), "candidate": candidate}
            name = f"{item.id}/{candidate}/{order[0]}{order[1]}"
            made.append(Item(name, fields, one.rubric, None, item.cluster, groups))
    return made


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """Points of both candidates by every criterion in both orders.

    Parameters
    ----------
    ids
        (I,) pairs all of whose questions were read.
    clusters
        (I,) cluster of each pair.
    criteria
        (C,)
    dists
        C arrays (I, 2, 2, P + 1) [pair, order, candidate, points]: probability of each number of points.
    refused
        Pairs of which some question could not be read.
    """

    ids: tuple[str, ...]
    clusters: tuple[str, ...]
    criteria: tuple[Criterion, ...]
    dists: tuple[FloatArray, ...]
    refused: tuple[str, ...] = ()

    @property
    def expected(self) -> FloatArray:
        """(C, I, 2, 2) expected points [criterion, pair, order, candidate]."""
        return np.array([dist @ np.arange(dist.shape[-1]) for dist in self.dists])

    @property
    def totals(self) -> FloatArray:
        """(I, 2, 2) expected total [pair, order, candidate]."""
        totals: FloatArray = self.expected.sum(axis=0)
        return totals

    def total_dist(self) -> FloatArray:
        """(I, 2, 2, T + 1) distribution of the total [pair, order, candidate, points], the criteria read independently."""
        made = self.dists[0]
        for dist in self.dists[1:]:
            made = _convolved(made, dist)
        return made


def _convolved(one: FloatArray, other: FloatArray) -> FloatArray:
    """Distribution of the sum of two numbers of points, along the last axis."""
    made = np.zeros((*one.shape[:-1], one.shape[-1] + other.shape[-1] - 1))
    for n in range(other.shape[-1]):
        made[..., n : n + one.shape[-1]] += one * other[..., n : n + 1]
    return made


def is_scored(folder: str | Path) -> bool:
    """Whether a folder holds pairs with points."""
    return (Path(folder) / MANIFEST).exists()


def _criteria(folder: str | Path, *, finished: bool = False) -> tuple[Criterion, ...]:
    """Criteria of a folder of pairs with points; with `finished`, of a whole one."""
    path = Path(folder) / MANIFEST
    made = files.read_json(path, RunFolderError, "Make it with 'pairwise --points'.", FORM)
    asked = tuple(Criterion(row["name"], row["points"], row["text"]) for row in made["criteria"])
    whole = made.get("finished", True)  # folders of before were written only when they were whole
    if finished and not whole:
        raise RunFolderError(f"{folder} is not finished. Run the same command again: it goes on where it stopped.")
    return asked


def load_scored(folder: str | Path) -> Scored:
    """Load a folder of pairs with points.

    Raises
    ------
    RunFolderError
        It is none, or a criterion's run is not there.
    """
    asked = _criteria(folder, finished=True)
    runs = [store.load_run(Path(folder) / one.folder) for one in asked]
    judges = {run.provenance["identity"]["fingerprint"] for run in runs}
    if len(judges) > 1:
        raise RunFolderError(
            f"{folder}: its criteria were read by {len(judges)} different judges. Read it anew: --overwrite."
        )
    known = [
        {(i.groups["pair"], i.groups["order"], i.groups["candidate"]): n for n, i in enumerate(run.items)}
        for run in runs
    ]
    clusters = {item.groups["pair"]: item.cluster for run in runs for item in run.items}
    every = {item.groups["pair"] for one in asked for item in store.read_items(Path(folder) / one.folder)}
    keys = [(",".join(map(str, order)), candidate) for order in ORDERS for candidate in (1, 2)]
    ids = [name for name in clusters if all((name, *key) in there for there in known for key in keys)]
    if not ids:
        raise InputError(f"{folder}: no pair was read by all criteria in both orders.")
    dists = []
    for run, there in zip(runs, known, strict=True):
        rows = [[there[name, *key] for key in keys] for name in ids]
        probs = run.probs()[:, 0][np.array(rows)]  # (I, 4, P + 1)
        dists.append(probs.reshape(len(ids), 2, 2, -1))
    return Scored(
        tuple(ids), tuple(clusters[name] for name in ids), asked, tuple(dists), tuple(sorted(every - set(ids)))
    )
