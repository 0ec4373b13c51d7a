"""Probes: judge a probe's variants, keep their runs, and write down what they say; several make a judge's bias card."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from logitjudge import files, models, registry, rubrics, store
from logitjudge.core import Item, ItemSet, Message, Rubric
from logitjudge.errors import AllRefused, InputError, NotObserved, RunFolderError, shown, unknown
from logitjudge.judging import judge
from logitjudge.pairing import pairwise
from logitjudge.probes import Explained, Generate, Likely, Probe, ProbeResult, Staged, Variant
from logitjudge.run import Run
from logitjudge.study import items_of
from logitjudge.workers import kept

if TYPE_CHECKING:
    import pandas as pd

RESULT = "probe.json"
SCHEMA_VERSION = 1
MOST = 1024  # tokens that a writer may write for one text
RUBRIC = "helpfulness"  # of items that have none
JUDGE = (  # of a run's identity
    "fingerprint", "revision", "backend", "served_model", "dtype", "model_kwargs", "chat_template", "adapter",
)  # fmt: skip
AGAIN = "Remove it, and run the probe again."
REFUSED = "could not be judged"  # how the reason begins of an item that was refused, not left out
OF_WRITER = ("dtype", "device", "trust_remote_code")  # what opens another model than the judge, too
YES = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
PARSERS: dict[Any, Callable[[str], Any]] = {str: str, int: int, float: float, bool: lambda text: YES[text.lower()]}
Json = dict[str, Any]
ESTIMATE = {
    "value": (float, None), "low": (float, None), "high": (float, None), "of": int, "clusters": int, "note": str,
    "test": ({"statistic?": (float, None), "degrees?": (float, None), "p": (float, None)}, None),
}  # fmt: skip
FORM = {  # of probe.json; other names are allowed
    "probe": str, "model": str, "judge?": ({str: object}, None), "parameters?": {str: object}, "reason": str, "notes": [str],
    "skipped": {str: [str]},
    "effects": [
        {"name": str, "unit": str, "estimate": ESTIMATE, "detectable": (float, None), "noise": (float, None), "main": bool, "signed?": bool}
    ],
    "variants": {str: {"items": int, "folder": str}},
}  # fmt: skip


def make(spec: str, parameters: Mapping[str, Any] | None = None) -> tuple[str, Probe, bool]:
    """Name and probe of a registered name, or of a user's own ``./mine.py``, and whether it has items of its own (``OWN``).

    Raises
    ------
    InputError
        No such probe, or `parameters` that it does not have.
    """
    path = files.place(spec)
    module = registry.load_file(path) if path.suffix == ".py" else registry.load("probes", spec)
    if not callable(made := getattr(module, "probe", None)):
        raise InputError(
            f"probe {spec}: it has no 'probe', a dataclass with variants(items, generate) and effect(runs). Define one."
        )
    return path.stem, made(**_parsed(path.stem, made, parameters or {})), bool(getattr(module, "OWN", False))


def parameters_of(spec: str) -> list[str]:
    """Names of the parameters that a probe takes."""
    return [part.name for part in fields(make(spec)[1])]  # type: ignore[arg-type]


def _parsed(name: str, made: Any, parameters: Mapping[str, Any]) -> Json:
    """Parameters of a probe; a text is read as the type of its field."""
    types = {part.name: get_type_hints(made)[part.name] for part in fields(made)} if parameters else {}
    return {key: _value(f"probe {name}", key, value, types) for key, value in parameters.items()}


def _value(where: str, key: str, value: Any, types: Mapping[str, Any]) -> Any:
    if key not in types:
        has = unknown("parameter", key, types) if types else f"unknown parameter {key!r}. It has none."
        raise InputError(f"{where}: {has}")
    kind = types[key]
    try:
        made = PARSERS.get(kind, str)(value) if isinstance(value, str) else value
        if kind in PARSERS:
            files.require(made, kind)
        if kind is float and not math.isfinite(made):
            raise ValueError("it is not finite")
    except (ValueError, KeyError, OverflowError) as error:
        word = getattr(kind, "__name__", kind)
        raise InputError(f"{where}: {key}={shown(value)} is no {word}. Give one, such as --set {key}=...") from error
    return made


def has_items(spec: str) -> bool:
    """Whether a probe has items of its own."""
    return make(spec)[2]


def run_probe(
    model: Any,
    spec: str,
    data: str | Path | ItemSet | Sequence[Item] | pd.DataFrame | None = None,
    *,
    out: str | Path,
    rubric: str | Path | Rubric | None = None,
    orderings: str = "balanced",
    limit: int | None = None,
    seed: int = 0,
    writer: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    **options: Any,
) -> Json:
    """Judge the variants of one probe, and give its result.

    Parameters
    ----------
    model
        The judge, as in `logitjudge.judge`.
    spec
        Name of a probe, or a file of one.
    data
        Items with responses; None where the probe has items of its own.
    out
        The folder: each variant is a run folder in ``OUT/NAME``, beside ``probe.json``. The same call goes on where it stopped.
    rubric
        Of the variants by a rubric: by default the items' own, else ``helpfulness``.
    writer
        Model that writes texts, where a probe needs some; by default the judge itself where it can.
    parameters
        Of the probe: fields of its dataclass, by name; a text is read as the field's type.
    **options
        As in `logitjudge.judge`.

    Returns
    -------
    dict
        ``probe``, ``model``, ``effects``, ``notes``, ``skipped`` (reason -> ids), ``variants`` (name -> items, folder).
    """
    name, probe, own = make(spec, parameters)
    folder = files.place(out) / name
    judge_name = str(model) if isinstance(model, str | Path) else models.parse(model).shown_name
    itemset = None if data is None else _under(items_of(data, limit, seed), rubric)
    if itemset is None and not own:
        raise InputError(f"the probe {name!r} has no items of its own. Give some: --data D.")
    items, without = _usable(itemset.items if itemset else (), getattr(probe, "NEEDS", ()))
    variants: dict[str, Variant] = {}
    runs: dict[str, Run] = {}

    def read(more: Mapping[str, Variant]) -> None:
        variants.update(more)
        for key, variant in more.items():
            if variant.items:
                place = folder / _folder(key)
                try:
                    runs[key] = _judged(model, variant, itemset, place, rubric, orderings, {"seed": seed, **options})
                except AllRefused:
                    refused = {**variant.skipped, **_refused(store.refusals(place))}
                    variants[key] = replace(variant, items=(), skipped=refused)

    def found() -> ProbeResult:
        if without and not items:
            raise NotObserved("no item can be used: " + " or ".join(dict.fromkeys(without.values())))
        read(probe.variants(items, _writer(model, writer, folder, options)))
        while isinstance(probe, Staged) and (more := probe.then(runs)):
            read(more)
        made = probe.effect(runs)
        if isinstance(probe, Explained) and (likely := _likely(model, folder, options)) is not None:
            made = replace(made, effects=(*made.effects, *probe.explain(runs, likely)))
        return made

    with kept():
        made = _result(name, judge_name, probe, variants, runs, found, without)
    store.write_json(folder / RESULT, made)
    return made


def _usable(items: Sequence[Item], needs: Sequence[str]) -> tuple[tuple[Item, ...], dict[str, str]]:
    """Items that have the fields which a probe needs, and why the others are left out, by id."""
    lacking = {item.id: [name for name in needs if name not in item.fields] for item in items}
    without = {name: f"no field {', '.join(map(repr, missing))}" for name, missing in lacking.items() if missing}
    return tuple(item for item in items if item.id not in without), without


def _under(itemset: ItemSet, rubric: str | Path | Rubric | None) -> ItemSet:
    """Items under the rubric that the whole probe is asked by, so that a probe of the rubric changes that one."""
    if rubric is None or rubric == "item":
        return itemset
    one = rubric if isinstance(rubric, Rubric) else rubrics.load(str(rubric))
    return replace(itemset, items=tuple(replace(item, rubric=one) for item in itemset.items))


def _folder(name: str) -> str:
    return name.replace(" ", "-")


def _judged(
    model: Any,
    variant: Variant,
    itemset: ItemSet | None,
    out: Path,
    rubric: Any,
    orderings: str,
    options: Mapping[str, Any],
) -> Run:
    """Judge one variant."""
    items = replace(itemset, items=variant.items) if itemset else ItemSet(variant.items)
    if variant.pairwise:
        return pairwise(model, items, out=out, **{**options, **_given(template=variant.template)})
    known = {item.rubric for item in variant.items}
    own: Any = rubric or RUBRIC if None in known else "item" if len(known) > 1 else known.pop()
    return judge(
        model, items, out=out, rubric=variant.rubric or own, orderings=variant.orderings or orderings,
        **{**options, **_given(template=variant.template)},
    )  # fmt: skip


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _result(
    name: str,
    model: str,
    probe: Probe,
    variants: Mapping[str, Variant],
    runs: Mapping[str, Run],
    effect: Callable[[], ProbeResult],
    without: Mapping[str, str],
) -> Json:
    """What is written down of a probe; without a number where nothing was left to judge, with the reason."""
    found, reason = ProbeResult(()), ""
    try:
        found = effect()
    except NotObserved as error:
        reason = str(error)
    except KeyError as error:  # a variant has no run
        if error.args[0] not in variants or error.args[0] in runs:
            raise
        why = " or ".join(dict.fromkeys(variants[error.args[0]].skipped.values()))
        reason = f"nothing was left to judge as {error}" + (f": {why}" if why else "")
    return {
        "schema_version": SCHEMA_VERSION,
        "probe": name,
        "model": model,
        "judge": next((_judge(run) for run in runs.values()), None),
        "parameters": asdict(probe),  # type: ignore[call-overload]
        "effects": [asdict(effect) for effect in found.effects],
        "notes": list(found.notes),
        "reason": reason,
        "skipped": _skipped(
            [
                without,
                *(variant.skipped for variant in variants.values()),
                *(_refused(run.refused) for run in runs.values()),
            ]
        ),
        "variants": {key: {"items": len(run.items), "folder": _folder(key)} for key, run in runs.items()},
    }


def _judge(run: Run) -> Json:
    """What makes the judge of a run that judge."""
    identity = run.provenance["identity"]
    return {name: identity.get(name) for name in JUDGE}


def _skipped(parts: Sequence[Mapping[str, str]]) -> dict[str, list[str]]:
    """Ids of items by why they were left out, each once, of several (id -> reason)."""
    made: dict[str, dict[str, None]] = {}
    for part in parts:
        for item, why in part.items():
            made.setdefault(why, {})[item] = None
    return {why: list(ids) for why, ids in made.items()}


def _refused(rows: Sequence[Mapping[str, str]]) -> dict[str, str]:
    return {row["id"]: f"{REFUSED}: {row['reason']}" for row in rows}


def _is_planted(model: Any) -> bool:
    return isinstance(model, str) and models.parse(model).kind == "planted"


def _writer(model: Any, writer: str | None, folder: Path, options: Mapping[str, Any]) -> Generate | None:
    """What writes texts, None of a planted judge: it opens the model when it is first asked, and keeps what it wrote in ``texts.json``.

    What belongs to the judge's own files (adapter, template, server ...) does not open another writer.
    """
    chosen: Any = model if writer is None else writer
    if _is_planted(chosen):
        return None
    given = options if chosen == model else {name: options[name] for name in OF_WRITER if name in options}

    def write(prompts: Sequence[str]) -> list[str]:
        return _write(chosen, prompts, given)

    return lambda prompts: _answered(folder / "texts.json", _who(chosen, given), prompts, write)


def _likely(model: Any, folder: Path, options: Mapping[str, Any]) -> Likely | None:
    """How likely a judge finds a response to an instruction, kept in ``likelihoods.json``; None where it cannot be read."""
    if _is_planted(model) or options.get("backend") not in (None, "hf"):
        return None

    def read(keys: Sequence[str]) -> list[float]:
        texts = [json.loads(key) for key in keys]
        backend = _opened(model, options)
        contexts = _contexts(backend.tokenizer, [instruction for instruction, _ in texts])
        tails = [tuple(ids) for ids in backend.tokenizer.pieces([response for _, response in texts])]
        found: list[float] = backend.likelihoods(contexts, tails)
        return found

    def answered(texts: Sequence[tuple[str, str]]) -> list[float]:
        keys = [json.dumps(text) for text in texts]
        return _answered(folder / "likelihoods.json", _who(model, options), keys, read)

    return answered


def _answered(path: Path, who: str, keys: Sequence[str], ask: Callable[[Sequence[str]], list[Any]]) -> list[Any]:
    """What a model said to each key: what is kept of it in a file, else asked, all at once, and kept."""
    every = files.read_json(path, RunFolderError, AGAIN, {str: {str: object}}) if path.exists() else {}
    known = every.setdefault(who, {})
    if missing := [key for key in dict.fromkeys(keys) if key not in known]:
        known |= zip(missing, ask(missing), strict=True)
        store.write_json(path, every)
    return [known[key] for key in keys]


def _spec(model: Any, options: Mapping[str, Any]) -> models.ModelSpec:
    return models.parse(model, **{name: options[name] for name in models.OPENING if options.get(name) is not None})


def _who(model: Any, options: Mapping[str, Any]) -> str:
    """What makes a model's answers its own, so that those of another one are not taken for them."""
    return json.dumps(_spec(model, options).identity(), sort_keys=True)


def _opened(model: Any, options: Mapping[str, Any]) -> Any:
    return models.open_backend(_spec(model, options))


def _contexts(tokenizer: Any, prompts: Sequence[str]) -> list[tuple[int, ...]]:
    """Tokens of a chat in which the judge is about to answer each prompt."""
    return [tuple(ids) for ids in tokenizer.pieces([tokenizer.render((Message("user", one),), "") for one in prompts])]


def _write(model: Any, prompts: Sequence[str], options: Mapping[str, Any]) -> list[str]:
    backend = _opened(model, options)
    tokenizer = backend.tokenizer
    if tokenizer is None or not hasattr(backend, "generate"):
        raise InputError(
            "this judge cannot write texts. Name a model that can: --writer M, or give the texts in the data."
        )
    return [trace.text.strip() for trace in backend.generate(_contexts(tokenizer, prompts), "", MOST)]


def is_card(folder: str | Path) -> bool:
    """Whether a folder holds results of probes."""
    return any(Path(folder).glob(f"*/{RESULT}"))


def results(folder: str | Path) -> list[Json]:
    """Results of all probes in a folder, by name.

    Raises
    ------
    RunFolderError
        There is none, or one cannot be read.
    """
    paths = sorted(Path(folder).glob(f"*/{RESULT}"))
    if not paths:
        raise RunFolderError(
            f"{folder} holds no probe's result. Make some with: logitjudge probe NAME --out {folder} ..."
        )
    return [_checked(path) for path in paths]


def _checked(path: Path) -> Json:
    """A result of a probe that has all that a card shows of one."""
    made: Json = files.read_json(path, RunFolderError, AGAIN, {"schema_version?": object})
    if (version := made.get("schema_version", 1)) != SCHEMA_VERSION:
        raise RunFolderError(
            f"{path} is of version {version!r}, not {SCHEMA_VERSION}: another logitjudge wrote it. {AGAIN}"
        )
    files.read_json(path, RunFolderError, AGAIN, FORM)
    for effect in made["effects"]:
        if not _sound(effect["estimate"]):
            raise RunFolderError(f"{path} is damaged: {effect['name']!r} has no interval from low to high. {AGAIN}")
    return made


def _sound(estimate: Json) -> bool:
    """Whether the numbers of an estimate are finite, and its interval is one, or none."""
    numbers = [estimate[name] for name in ("value", "low", "high")]
    if not all(number is None or math.isfinite(number) for number in numbers):
        return False
    value, low, high = numbers
    return low is high is None or None not in (value, low, high) and low <= high
