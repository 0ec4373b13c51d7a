"""Files for others: debiased scores, soft labels, and a run folder without its texts."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import meta
from jinja2.sandbox import SandboxedEnvironment

from logitjudge import parts, store
from logitjudge.core import Item
from logitjudge.debiasers import debias
from logitjudge.errors import InputError, RunFolderError, unknown
from logitjudge.measures import pair_review
from logitjudge.run import Run

if TYPE_CHECKING:
    import pandas as pd

CATEGORY = 40  # characters; a longer group is a text
SUFFIXES = (".csv", ".jsonl", ".parquet")
COLUMNS = ("item", "cluster", "score", "method", "human")


def scores(run: Run, method: str = "mean_prob", *, soft_labels: bool = False) -> pd.DataFrame:
    """Table of one debiased score an item.

    Parameters
    ----------
    run
        A run with I items.
    method
        Debiaser, with its argument where it takes one ("single:1,2,3,4,5").
    soft_labels
        Add a column ``prob_S`` for each score value S: the debiased distribution.

    Returns
    -------
    pandas.DataFrame
        I rows: item, cluster, score (score points), method, human (mean rating, where any item has one), and the
        items' group columns.

    Raises
    ------
    InputError
        A method that does not exist.
    """
    import pandas as pd

    made = debias(run, method)
    frame = pd.DataFrame(
        {"item": list(made.ids), "cluster": [item.cluster for item in run.items], "score": made.score, "method": method}
    )
    if np.isfinite(run.ratings).any():
        frame["human"] = run.ratings
    if soft_labels:
        for k, score in enumerate(run.scores.tolist()):
            frame[f"prob_{score}"] = made.dist[:, k]
    for name in dict.fromkeys(name for item in run.items for name in item.groups):
        column = name if name not in COLUMNS and not name.startswith("prob_") else f"group_{name}"
        frame[column] = _one_type([item.groups.get(name) for item in run.items])
    return frame


def review(run: Run) -> pd.DataFrame:
    """Table of the inconclusive pairs of a pairwise run, for people, worst first (`logitjudge.measures.pair_review`)."""
    return table(pair_review.review(run))


def table(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Table of rows, each column of one type."""
    import pandas as pd

    columns = list(dict.fromkeys(name for row in rows for name in row))
    return pd.DataFrame({name: _one_type([row.get(name) for row in rows]) for name in columns})


def _one_type(values: list[Any]) -> list[Any]:
    """Values as they are where they are of one type, as texts where not: a Parquet column has one type."""
    types = {float if type(value) is int else type(value) for value in values if value is not None}
    return values if len(types) <= 1 else [None if value is None else str(value) for value in values]


def write(frame: pd.DataFrame, path: Path) -> None:
    """Write a table as its suffix says. Raises `InputError` where it is unknown, or the file cannot be written."""
    writers = {
        ".csv": lambda: frame.to_csv(path, index=False),
        ".jsonl": lambda: frame.to_json(path, orient="records", lines=True, force_ascii=False, double_precision=15),
        ".parquet": lambda: frame.to_parquet(path, index=False),
    }
    require_suffix(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        writers[path.suffix.lower()]()
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}. Choose another file.") from error


def require_suffix(path: Path) -> None:
    """Raise `InputError` unless `write` knows the file's format."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{path}: {unknown('suffix', path.suffix, SUFFIXES)}")


def without_texts(folder: str | Path, out: str | Path) -> None:
    """Copy a finished run so that it can be shared: no text of any item, and no path of this machine.

    Fields become empty, and groups that the template prints or that hold texts (longer than a category's name) go; ids,
    clusters, rubrics, ratings, other groups and readings stay, so that every number can be made again.

    Raises
    ------
    RunFolderError
        The run is not finished, or `out` is not an empty or new folder.
    """
    folder, out = Path(folder), Path(out)
    head = store.header(folder)
    if head is None or head["finished"] is None:
        raise RunFolderError(f"there is no finished run in {folder}. Finish it with: logitjudge run --out {folder} ...")
    if store.header(out) is not None:
        raise RunFolderError(f"{out} holds a run already. Choose an empty or new folder.")
    bare = [{**row, "text": "", "token_ids": []} for row in parts.traces(folder)]
    items = store.read_items(folder)
    texts = _printed(head["template"]["source"]) | _long(items)
    items = [_emptied(item, texts) for item in items]
    store.start(out, {**head, "finished": None, "texts": False}, items, store.refusals(folder))
    try:
        (out / "readings").mkdir(exist_ok=True)
        shutil.copyfile(folder / "readings" / "all.parquet", out / "readings" / "all.parquet")
        if bare:
            parts.write_traces(out, 0, bare)
    except OSError as error:
        raise RunFolderError(f"{out} cannot be written: {error.strerror or error}. Choose another folder.") from error
    store.write_json(out / "run.json", {**_unplaced(head), "texts": False})


def _printed(source: str) -> set[str]:
    """Names of the variables that a template prints."""
    return meta.find_undeclared_variables(SandboxedEnvironment().parse(source))


def _long(items: Sequence[Item]) -> set[str]:
    """Group columns with a value that is a text and not a category."""
    pairs = (pair for item in items for pair in item.groups.items())
    return {name for name, value in pairs if isinstance(value, str) and (len(value) > CATEGORY or "\n" in value)}


def _emptied(item: Item, texts: set[str]) -> Item:
    groups = {name: value for name, value in item.groups.items() if name not in texts}
    return Item(item.id, dict.fromkeys(item.fields, ""), item.rubric, item.human, item.cluster, groups)


def _unplaced(head: Mapping[str, Any]) -> dict[str, Any]:
    """run.json without the folders of the machine that it was made on."""
    asked, model = dict(head["configuration"]), dict(head["model"])
    places = [(asked, "data"), (model, "path"), (model, "adapter")]
    if model["kind"] not in ("hub", "planted"):
        places += [(asked, "model"), (model, "name")]
    for values, name in places:
        values[name] = values[name] and re.sub(r"(?<=:).*[/\\\\]|^[^:]*[/\\\\]", "", values[name])
    identity, sessions = dict(head["identity"]), [dict(session) for session in head["sessions"]]
    for values in (model, identity):
        if "served_model" in values:
            values["served_model"] = _bare(values["served_model"])
    for session in sessions:
        if "server" in session:
            session["server"] = {**session["server"], "model": _bare(session["server"]["model"])}
    return {**head, "configuration": asked, "model": model, "identity": identity, "sessions": sessions}


def _bare(served: str | None) -> str | None:
    """A server's name of its model: vLLM takes the folder's path unless it is told another one."""
    return served.rsplit("/", 1)[-1] if served and served.startswith("/") else served
