"""A study in one file: models x data x designs, each product a run folder; restartable, and honest about what failed.

Models come first in the order of work, so that each is loaded once for all its runs. A run that fails is noted and does not stop
the others; the same call goes on where it stopped.
"""

from __future__ import annotations

import inspect
import itertools
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from logitjudge import files, models, planning, store
from logitjudge.errors import AllRefused, InputError, shown, unknown
from logitjudge.judging import judge
from logitjudge.progress import Progress, Report
from logitjudge.study import study
from logitjudge.workers import kept

AXES = {"models": "model", "data": "data", "rubrics": "rubric", "templates": "template", "designs": "orderings"}
KEYS = (*AXES, "defaults", "exclude")
NEEDED = ("models", "data")
NOT_HERE = ("out", "overwrite", "progress", "tokenizer", "shard")
STUDY = ("orderings", "rubric", "template", "verdict", "limit", "seed")
MANIFEST, FAILED = "sweep.json", "failed.json"
GIB = 1 << 30
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Planned:
    """One run of a sweep.

    Parameters
    ----------
    name
        Of its folder.
    of
        Axis -> name of the entry that it was made of.
    settings
        Arguments of `logitjudge.judge`, but for ``out``.
    """

    name: str
    of: Mapping[str, str]
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class State:
    """How far a run is: "not begun", "unfinished", "done", or "failed" with the reason; items that are read, and all of them."""

    name: str
    state: str
    read: int = 0
    items: int = 0
    refused: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a run needs: prompts, tokens when what they share counts once, GiB of weights, seconds; None: not known."""

    name: str
    prompts: int | None = None
    unique_tokens: int | None = None
    weights: float | None = None
    seconds: float | None = None
    reason: str = ""


def planned(path: str | Path) -> list[Planned]:
    """Runs of a sweep file, those of one model together.

    The file has lists ``models`` and ``data``, perhaps ``rubrics``, ``templates`` and ``designs``; an entry is a text, or a mapping
    with that and other arguments of `logitjudge.judge`, perhaps with a ``name``. ``defaults`` hold for all runs, later axes win.
    ``exclude`` is a list of mappings of axes to names (or lists of names): a run that one of them fits is left out.

    Raises
    ------
    InputError
        The file, or an entry of it, is not of this form; the message says where.
    """
    value = files.read_yaml(path, InputError, "Write lists 'models' and 'data'.")
    if not isinstance(value, dict):
        raise InputError(f"{path} is no mapping. Write lists 'models' and 'data'.")
    for key in value:
        if key not in KEYS:
            raise InputError(f"{path}: {unknown('key', str(key), KEYS)}")
    defaults = _settings(value.get("defaults") or {}, f"{path}, defaults")
    axes = {axis: _entries(value.get(axis), axis, str(path)) for axis in AXES if axis in NEEDED or value.get(axis)}
    excluded = _excluded(value.get("exclude") or [], axes, str(path))
    made = [_run(defaults, dict(zip(axes, chosen, strict=True))) for chosen in itertools.product(*axes.values())]
    left = [run for run in made if not any(_fits(run, rule) for rule in excluded)]
    if not left:
        raise InputError(f"{path}: 'exclude' leaves no run.")
    _check_names(left, str(path))
    return left


def _check_names(runs: Sequence[Planned], path: str) -> None:
    """Raise `InputError` where two runs would have one folder, as names may hold what joins them, or a name is too long for one."""
    of: dict[str, Planned] = {}
    for run in runs:
        if (size := len(os.fsencode(run.name))) > files.LONGEST:
            raise InputError(
                f"{path}: the run {shown(run.name)} has a name of {size} bytes, and a folder's has at most {files.LONGEST}. Give its "
                "entries a shorter 'name'."
            )
        if (other := of.setdefault(run.name, run)) is not run:
            first, second = (", ".join(one.of.values()) for one in (other, run))
            raise InputError(
                f"{path}: the runs of {first} and of {second} are both called {run.name!r}. Give an entry another 'name'."
            )


Entry = tuple[str, Json]


def _entries(value: Any, axis: str, path: str) -> list[Entry]:
    if not isinstance(value, list) or not value:
        raise InputError(f"{path}: {axis!r} is {shown(value)}, not a list with at least one entry.")
    made = [_entry(one, AXES[axis], f"{path}, {axis} {n}") for n, one in enumerate(value, start=1)]
    names = [name for name, _ in made]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"{path}: two {axis} are called {twice[0]!r}. Give one of them another 'name'.")
    return made


def _entry(value: Any, key: str, where: str) -> Entry:
    """Name and settings of an entry."""
    given = dict(value) if isinstance(value, dict) else {key: value}
    name = given.pop("name", None)
    settings = _settings(given, where)
    if not isinstance(settings.get(key), str) or not settings[key]:
        raise InputError(f"{where}: {key!r} is {shown(settings.get(key))}. Give a text.")
    made = str(name) if name is not None else re.split(r"[/\\]", re.sub(r"[/\\]+$", "", settings[key]))[-1]
    slug = re.sub(r"[^\w.,=-]+", "-", made).strip("-.")
    if not slug:
        raise InputError(f"{where}: it has no name. Give one.")
    return slug, settings


def _settings(given: Any, where: str) -> Json:
    """Arguments of `judge`, checked by name and by type."""
    if not isinstance(given, dict):
        raise InputError(f"{where} is {shown(given)}, not a mapping.")
    known = {n: p for n, p in inspect.signature(judge).parameters.items() if n not in NOT_HERE}
    for name, value in given.items():
        if name not in known:
            raise InputError(f"{where}: {unknown('setting', str(name), sorted(known))}")
        default = known[name].default
        wanted = (float, int) if isinstance(default, float) else (str, int) if name == "workers" else type(default)
        plain = default is None or default is inspect.Parameter.empty
        if not plain and (not isinstance(value, wanted) or (isinstance(value, bool) and not isinstance(default, bool))):
            raise InputError(f"{where}: {name!r} is {shown(value)}. Give one like {default!r}.")
        if name in ("limit", "max_batch_tokens") and not (value is None or type(value) is int):
            raise InputError(f"{where}: {name!r} is {shown(value)}. Give a whole number.")
    return given


def _excluded(value: Any, axes: Mapping[str, Sequence[Entry]], path: str) -> list[dict[str, set[str]]]:
    made = []
    for n, rule in enumerate(value if isinstance(value, list) else [value], start=1):
        where = f"{path}, exclude {n}"
        if not isinstance(rule, dict) or not rule:
            raise InputError(f"{where} is {shown(rule)}. Write a mapping such as {{models: NAME, data: NAME}}.")
        found = {}
        for axis, names in rule.items():
            if axis not in axes:
                raise InputError(f"{where}: {unknown('axis', str(axis), axes)}")
            known = [name for name, _ in axes[axis]]
            for name in (chosen := names if isinstance(names, list) else [names]):
                if name not in known:
                    raise InputError(f"{where}: {unknown(axis, str(name), known)}")
            found[axis] = set(chosen)
        made.append(found)
    return made


def _run(defaults: Json, chosen: Mapping[str, Entry]) -> Planned:
    settings = dict(defaults)
    for _, given in chosen.values():
        settings |= given
    of = {axis: name for axis, (name, _) in chosen.items()}
    return Planned("--".join(of.values()), of, settings)


def _fits(run: Planned, rule: Mapping[str, set[str]]) -> bool:
    return all(run.of[axis] in names for axis, names in rule.items())


def sweep(path: str | Path, out: str | Path, *, progress: Report | None = None) -> list[State]:
    """Judge all runs of a sweep file that are not done, model by model.

    Parameters
    ----------
    path
        The sweep file (`planned`).
    out
        A folder; each run is a run folder in it, which `logitjudge show` and the others read.
    progress
        As in `logitjudge.judge`.

    Returns
    -------
    list of State
        Of all runs, in the order of the file; a run that failed does not stop the others.
    """
    runs, folder = planned(path), Path(out)
    report = progress or (lambda _: None)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file. Choose a folder with --out.")
    with store.locked(folder), kept():  # two sweeps would write each other's list of what failed
        store.write_json(
            folder / MANIFEST, {"schema_version": 1, "runs": [{"name": run.name, "of": dict(run.of)} for run in runs]}
        )
        failed = _failed(folder)
        for n, run in enumerate(runs, start=1):
            report(Progress(message=f"run {n} of {len(runs)}: {run.name}"))
            reason = _judged(run, folder, report)
            failed = {name: why for name, why in {**failed, run.name: reason}.items() if why}
            store.write_json(folder / FAILED, failed)
    return status(folder)


def _judged(run: Planned, folder: Path, report: Report) -> str:
    """Judge one run; why it failed, or ""."""
    try:
        judge(**run.settings, out=folder / run.name, progress=report)
    except AllRefused:
        return ""
    except InputError as error:
        return str(error)
    except Exception as error:  # code of a model may raise anything, and the other runs shall go on
        return f"{type(error).__name__}: {error}"
    return ""


def _failed(folder: Path) -> dict[str, str]:
    path = folder / FAILED
    if not path.exists():
        return {}
    made: dict[str, str] = files.read_json(path, InputError, "Remove it: it only says why runs failed.", {str: str})
    return made


def status(out: str | Path) -> list[State]:
    """How far each run of a sweep is, by its folder; at any time, also while it goes on."""
    folder = Path(out)
    path = folder / MANIFEST
    advice = f"There is no sweep in {folder}, or it is damaged. Make one with: logitjudge sweep FILE --out {folder}"
    names = [run["name"] for run in files.read_json(path, InputError, advice, {"runs": [{"name": str}]})["runs"]]
    failed = _failed(folder)
    return [_state(folder / name, failed.get(name, "")) for name in names]


def _state(folder: Path, reason: str) -> State:
    try:
        return _counted(folder, reason)
    except InputError as error:
        return State(folder.name, "failed", reason=str(error))


def _counted(folder: Path, reason: str) -> State:
    head = store.header(folder)
    if head is None:
        return State(folder.name, "failed" if reason else "not begun", reason=reason)
    items, refused = head["items"], len(store.refusals(folder))
    if head["finished"] is not None:  # with a reason: it is done, but is not what the file asks for now
        return State(folder.name, "failed" if reason else "done", items - refused, items, refused, reason)
    read = len(store.stored(folder, head))
    return State(folder.name, "failed" if reason else "unfinished", read, items, refused, reason)


def costs(path: str | Path, out: str | Path | None = None, pace: float | None = None) -> list[Cost]:
    """What each run of a sweep file needs; models are not loaded, only their tokenizers.

    Parameters
    ----------
    out
        A sweep's folder: what its runs measured of a model's speed is taken for the others.
    pace
        Tokens a second, where nothing is measured.
    """
    if pace is not None and not 0 < pace < float("inf"):
        raise InputError(f"--tokens-per-second {pace:g}: give a number above 0.")
    runs = planned(path)
    paces = _paces(Path(out), runs) if out is not None else {}
    return [_cost(run, paces.get(run.of["models"], pace)) for run in runs]


@dataclass(frozen=True, slots=True)
class _Unloaded:
    """A judge without its weights."""

    tokenizer: Any
    max_length: int | None = None
    vocabulary: int | None = None


def _cost(run: Planned, pace: float | None) -> Cost:
    try:
        asked = study(run.settings["data"], **{n: run.settings[n] for n in STUDY if n in run.settings})
        spec = models.parse(
            run.settings["model"],
            **{n: run.settings[n] for n in models.OPENING if n in run.settings},
            thinks=asked.template.verdict == "think",
        )
        backend: Any = _Unloaded(models.open_tokenizer(spec))
        sizes, refused = planning.survey(asked, backend)
        weights = models.weights(spec)
    except (InputError, OSError) as error:
        return Cost(run.name, reason=str(error))
    unique = [size.unique for size in sizes.values() if size.unique is not None]
    tokens = sum(unique) if unique else None
    seconds = None if tokens is None or pace is None else tokens / pace
    note = f"{len(refused)} items refused" if refused else ""
    return Cost(run.name, len(sizes) * len(asked.orderings), tokens, weights and weights / GIB, seconds, note)


def _paces(folder: Path, runs: Sequence[Planned]) -> dict[str, float]:
    """Tokens a second of each model, as its runs in the folder measured."""
    made = {}
    for run in runs:
        try:
            head = store.header(folder / run.name)
        except InputError:
            continue
        for session in head["sessions"] if head else []:
            if session.get("tokens_per_second"):
                made[run.of["models"]] = float(session["tokens_per_second"])
    return made
