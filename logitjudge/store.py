"""The run folder, in and out: readable without us, whole after a kill at any instant.

``run.json`` is the last file written when a run starts, so a folder without it has not started. One batch is one part
file under ``readings/``, written under a temporary name, flushed, renamed: it is there whole or is read again whole.
When the run finishes the parts become ``readings/all.parquet``, which outranks any part that is still there.
"""

from __future__ import annotations

import contextlib
import json
import math
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial as partial_
from importlib.metadata import version as package_version
from pathlib import Path
from typing import Any, Literal

import filelock
import numpy as np

from logitjudge import files, parts, rubrics
from logitjudge.core import Item, Ordering
from logitjudge.errors import AllRefused, Damaged, NoLogProbabilities, NotExact, RunFolderError, RunIncomplete
from logitjudge.parts import writing
from logitjudge.run import Run, SampledRun

SCHEMA_VERSION = 1
STARTING = (
    ".logitjudge-starting"  # while a run starts or is removed: without run.json, only then are the other files ours
)
LOCK = ".lock"
AGAIN = (
    "The same command makes an unfinished run's list again; restore a finished one's from a copy, or use --overwrite"
)
SESSION = {
    "started?": str, "logitjudge?": str, "device?": (str, None), "tokens_per_second?": (float, None), "aliases_seen?": (bool, None),
    "versions?": {str: (str, None)}, "path?": (str, None),
}  # fmt: skip
TEMPLATE = {  # the fields of `logitjudge.prompts.Template`, and no others: each has a part in the prompt
    **{"name": str, "source": str, "verdicts?": {str: {str: str}}},
    **{
        f"{name}?": str
        for name in ("system", "prefill", "level_line", "criterion_line", "close", "marker", "lead", "verdict")
    },
}
FORM = {  # of run.json; other names are allowed
    "kind": str, "started": str, "finished": (str, None), "verdict": str, "event": str, "scores": [int],
    "orderings": [{"shown": [int], "labels": ([int], None), "values": [int]}],
    "sessions": [SESSION], "readings": int, "batches": [int], "items": int, "refused": int, "tokens?": (int, None),
    "unique_tokens?": (int, None), "ratings_name?": str, "raters?": str, "rubric?": (dict, None),
    "identity": {"fingerprint": str, "model?": (str, None), "seed?": int, "template?": str},
    "configuration": {"model?": (str, None), "data?": (str, None), "limit?": (int, None), "max_batch_tokens?": (int, None)},
    "template": TEMPLATE,
    "model": {"kind": str, "name": str, "path": (str, None)},
    "traces?": ({"samples": int, "sources": ([[int]], None)}, None),
}  # fmt: skip
ITEM = {
    "id": str, "cluster": str, "fields": {str: str}, "rubric": (dict, None), "human": ([float], None),
    "groups": {str: (str, float, bool, None)},
}  # fmt: skip
DAMAGED = "damaged"  # folder of files that a resumed run has set aside
OURS = {"run.json", "items.jsonl", "refused.jsonl", "readings", "traces", DAMAGED}


# --- writing -------------------------------------------------------------------------------------------------------


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write one JSON object, whole or not at all."""
    with writing(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def write_lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write JSON objects, one a line, whole or not at all."""
    with writing(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")


def start(folder: Path, header: Mapping[str, Any], items: Sequence[Item], refused: Sequence[Mapping[str, str]]) -> None:
    """Write a new run: items, refusals, and last of all run.json. What is left of another is removed first."""
    clear(folder)
    write_lines(folder / "items.jsonl", [item_row(item) for item in items])
    write_lines(folder / "refused.jsonl", refused)
    write_json(folder / "run.json", header)
    (folder / STARTING).unlink(missing_ok=True)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes out of a run folder while this one writes it; a process that dies lets go.

    Raises
    ------
    RunFolderError
        Another process writes it, or it cannot be written.
    """
    made = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(folder / LOCK)
        lock.acquire(timeout=0)
    except filelock.Timeout as error:
        raise RunFolderError(
            f"{folder} is being written by another process. Wait until it is done, or choose another --out."
        ) from error
    except OSError as error:
        raise RunFolderError(f"{folder} cannot be written: {error.strerror or error}. Choose another --out.") from error
    try:
        yield
    finally:
        lock.release()
        if not (folder / "run.json").exists():  # nothing came of it, so nothing stays
            (folder / LOCK).unlink(missing_ok=True)
            if made:
                with contextlib.suppress(OSError):
                    folder.rmdir()


def refuse(folder: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the list of refusals anew."""
    write_lines(folder / "refused.jsonl", rows)


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


def finish(folder: Path, header: Mapping[str, Any]) -> None:
    """Put the parts into one file, in item, then ordering order; then say in run.json that the run is finished."""
    parts.join(folder)
    write_json(folder / "run.json", header)
    parts.drop(folder)


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
    advice = "It is not the run.json of a run. Restore it, or use --overwrite."
    made: dict[str, Any] = files.read_json(path, RunFolderError, advice, {"schema_version": object})
    if (version := made["schema_version"]) != SCHEMA_VERSION:
        raise RunFolderError(_other_version(path, version, made))
    files.read_json(path, RunFolderError, advice, FORM)
    if unknown := sorted(set(made["template"]) - {name.rstrip("?") for name in TEMPLATE}):
        raise RunFolderError(
            f"{path}: its template has {unknown[0]!r}, which this logitjudge ({package_version('logitjudge')}) does not know: read it "
            "with the version that made it."
        )
    if not parts.whole(folder).exists():
        made["finished"] = None  # its readings were moved away, to be read anew
    return dict(made)


def _other_version(path: Path, version: object, made: Mapping[str, Any]) -> str:
    """What to do with a run folder of another schema version."""
    sessions = made.get("sessions")
    by = (
        sessions[-1].get("logitjudge")
        if isinstance(sessions, list) and sessions and isinstance(sessions[-1], dict)
        else None
    )
    maker = f"logitjudge {by}" if isinstance(by, str) else "another logitjudge"
    newer = isinstance(version, int) and version > SCHEMA_VERSION
    advice = (
        f"It was made by {maker}, which is newer: install that version"
        if newer
        else f"It was made by {maker}: read it with that version"
    )
    return (
        f"{path} has schema version {version!r}; this logitjudge ({package_version('logitjudge')}) reads version {SCHEMA_VERSION}. "
        f"{advice}, or use --overwrite to begin anew."
    )


def lines(path: Path, form: Any) -> list[dict[str, Any]]:
    """JSON objects of a form (`logitjudge.files.require`), one a line.

    Raises
    ------
    RunFolderError
        They cannot be read.
    """
    try:
        rows = [files.load_json(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
        files.require(rows, [form])
    except (OSError, ValueError) as error:
        raise Damaged(f"{path} cannot be read: {str(error).rstrip('.')}. {AGAIN}.", str(error)) from error
    return rows


def _item(row: Mapping[str, Any]) -> Item:
    rubric = rubrics.from_dict(row["rubric"]) if row["rubric"] else None
    human = None if row["human"] is None else tuple(row["human"])
    return Item(row["id"], row["fields"], rubric, human, row["cluster"], row["groups"])


def read_items(folder: Path) -> list[Item]:
    """All items of a run, the refused ones too."""
    return [_item(row) for row in lines(folder / "items.jsonl", ITEM)]


def refusals(folder: Path) -> list[dict[str, Any]]:
    """Items that could not be judged, each with the reason."""
    return lines(folder / "refused.jsonl", {"id": str, "reason": str})


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
    AllRefused
        The run is finished, and no item could be judged.
    NotExact
        Some readings are upper bounds: with `min_mass`; or aliases outside a server's most probable tokens were not
        seen: with ``aliases="sum"``.
    """
    folder = files.place(folder)
    head = header(folder)
    if head is None:
        raise RunFolderError(f"there is no run in {folder}. Make one with: logitjudge run --out {folder} ...")
    if aliases == "sum" and any(session.get("aliases_seen") is False for session in head["sessions"]):
        raise NotExact(
            f"the run in {folder} was read from a server that gave only its most probable tokens: the mass of aliases "
            'outside them is not known. Leave --aliases sum (aliases="sum") out.'
        )
    if aliases == "sum" and head["verdict"] == "sampled":
        raise NoLogProbabilities(
            f"the run in {folder} was sampled: it has no probabilities of aliases. Leave --aliases sum out."
        )
    items, refused = read_items(folder), refusals(folder)
    if head["finished"] is not None:
        parts.drop(folder)  # a kill may have left some
    elif not partial:
        there = len(stored(folder, head))
        wanted = len(items) - len(refused)
        left = f"{there} of {wanted} items are read" if there < wanted else "all is read, but it was not closed"
        raise RunIncomplete(
            f"the run in {folder} is unfinished: {left}. "
            "Run the same command again to go on, or use --partial (partial=True in Python)."
        )
    orderings = tuple(Ordering(tuple(o["shown"]), o["labels"] and tuple(o["labels"])) for o in head["orderings"])
    try:
        if [list(o.values(head["scores"])) for o in orderings] != [o["values"] for o in head["orderings"]]:
            raise ValueError("run.json's orderings contradict themselves")
        kept, made = _made(folder, head, items, orderings)
        if head["finished"] is not None and len(kept) != len(items) - len(refused):
            raise ValueError(f"{len(items) - len(refused) - len(kept)} items lack readings")
    except RunFolderError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        whole = parts.whole(folder)
        raise parts.damaged(
            whole if whole.exists() else folder / "readings", f"it does not fit run.json and items.jsonl: {error}"
        ) from error
    if not kept and head["finished"] is not None:
        raise AllRefused(
            f"the run in {folder} is finished, and none of its items could be judged; the first: {refused[0]['id']!r}: "
            f"{refused[0]['reason']}."
        )
    if not kept:
        raise RunIncomplete(f"the run in {folder} has no item with all its readings yet.")
    run = made(
        items=tuple(kept),
        orderings=orderings,
        scores=np.array(head["scores"]),
        rubric=head["rubric"] and rubrics.from_dict(head["rubric"]),
        refused=tuple(refused),
        provenance=head,
        aliases=aliases,
        loaders={name: partial_(made_of, folder) for name, made_of in parts.FRAMES.items()},
        folder=folder,
    )
    return run if min_mass is None else run.select(run.enough_mass(min_mass))


def stored(folder: Path, head: Mapping[str, Any]) -> set[str]:
    """Ids of the items that have readings, or picks."""
    if head["verdict"] == "sampled":
        return {row["item_id"] for row in parts.traces(folder)}
    return parts.items(folder)


def _made(
    folder: Path, head: Mapping[str, Any], items: Sequence[Item], orderings: Sequence[Ordering]
) -> tuple[list[Item], Callable[..., Run]]:
    """Complete items, and what makes a run of their stored arrays.

    Raises
    ------
    KeyError, TypeError, ValueError
        What is stored does not fit.
    """
    texts = _texts(head, items, orderings)
    if head["verdict"] == "sampled":
        kept, picks = parts.picks(folder, items, len(orderings), head["traces"]["samples"], texts)
        return kept, partial_(SampledRun, picks)
    on_axis: dict[str | None, int] = {name: s for name, (_, s) in texts.items()} or {None: 0}
    kept, logp, alias, exact = parts.arrays(folder, items, orderings, head["scores"], on_axis)
    mean = np.logaddexp.reduce(logp, axis=1) - np.log(logp.shape[1]) if logp.shape[1] > 1 else logp[:, 0]
    whole: Any = None if exact is None else exact.all(axis=1)
    return kept, partial_(Run, mean, alias.mean(axis=1), exact=whole, logp_by_trace=logp)


def _texts(head: Mapping[str, Any], items: Sequence[Item], orderings: Sequence[Ordering]) -> dict[str, tuple[int, int]]:
    """Trace id -> the ordering that it was written under, and its place on the axis S; empty where nothing was written."""
    about = head.get("traces")
    if about is None:
        return {}
    samples, scores = about["samples"], head["scores"]
    own = [(o.values(scores), o.labels) for o in orderings]
    sources = [(tuple(values), None) for values in about["sources"]] if about["sources"] else own
    names = [(n, s) for n in range(len(sources)) for s in range(samples)]
    return {
        parts.trace_id(item.id, sources[n][0], sources[n][1], s if samples > 1 else None): (
            n,
            n * samples + s if about["sources"] else s,
        )
        for item in items
        for n, s in names
    }
