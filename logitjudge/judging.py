"""judge(): items x orderings -> prompts -> backend -> run folder. Batch plan, resume, refusals.

Everything is checked before anything is written. The batch plan is a pure function of items and configuration and is
stored with the resolved token budget, so that a run killed at any instant goes on to the readings it would have had.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import platform
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logitjudge import datasets, models, noise, orderings as designs, prompts, rubrics, store, tokens
from logitjudge.backends import Backend, OutOfMemory, Query
from logitjudge.core import Item, ItemSet, Level, Message, Ordering, Prompt, Readings, Rubric
from logitjudge.errors import InputError, ItemError, ModelError, RubricError, RunFolderError, unknown
from logitjudge.prompts import MissingField, Template
from logitjudge.run import Run

if TYPE_CHECKING:
    import pandas as pd

VERDICTS = ("direct",)
SMALLEST_BUDGET = 32


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is: for a bar, or a line a minute. `message` is set when there is something to say."""

    items: int = 0
    items_total: int = 0
    prompts: int = 0
    prompts_total: int = 0
    message: str = ""


Report = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Study:
    """What is asked of the judge: checked items, one scale, distinct orderings, a template."""

    itemset: ItemSet
    rubric: Rubric | None
    scores: tuple[int, ...]
    orderings: tuple[Ordering, ...]
    template: Template

    def rubric_of(self, item: Item) -> Rubric:
        """The rubric that an item is judged by."""
        rubric = self.rubric or item.rubric
        assert rubric is not None
        return rubric

    def query(self, backend: Backend, item: Item, ordering: Ordering) -> Query:
        """The prompt of one item under one ordering, in token space where the backend has a tokenizer."""
        rubric = self.rubric_of(item)
        prompt = prompts.render(self.template, item, rubric, ordering)
        return Query(item, rubric, ordering, prompt, _tokens(backend, prompt))

    def queries(self, backend: Backend, items: Sequence[Item]) -> list[Query]:
        """All prompts of some items, in item, then ordering order."""
        return [self.query(backend, item, ordering) for item in items for ordering in self.orderings]

    def key(self, query: Query) -> store.Key:
        """What identifies a reading in the run folder."""
        return query.item.id, query.ordering.values(self.scores), query.ordering.labels


def _tokens(backend: Backend, prompt: Prompt) -> tokens.Resolved | None:
    if backend.tokenizer is None:
        return None
    text = backend.tokenizer.render(prompt.messages, prompt.prefill)
    return tokens.resolve(backend.tokenizer, text, prompt.options, prompt.close)


# --- what is asked -------------------------------------------------------------------------------------------------


def study(
    data: str | Path | ItemSet | Sequence[Item] | pd.DataFrame,
    *,
    orderings: str | Sequence[Ordering] | Sequence[Sequence[int]] = "balanced",
    rubric: str | Path | Rubric = "item",
    template: str | Path = "prometheus",
    verdict: str = "direct",
    limit: int | None = None,
    seed: int = 0,
) -> Study:
    """Read and check everything that a run needs but the judge.

    Raises
    ------
    InputError
        Whatever is wrong with the input; the message says what and where.
    """
    if verdict not in VERDICTS:
        raise InputError(unknown("verdict mode", verdict, VERDICTS))
    itemset = _itemset(data)
    one = None if rubric == "item" else rubric if isinstance(rubric, Rubric) else rubrics.load(str(rubric))
    scores = _scale(itemset.items, one)
    datasets.check_ratings(itemset.items, lambda item: one or item.rubric, str(data) if isinstance(data, str | Path) else "items")
    if limit is not None:
        itemset = datasets.take(itemset, limit, seed)
    made = Study(itemset, one, scores, designs.parse(orderings, scores, seed), prompts.load(template, verdict))
    _check_template(made)
    return made


def _itemset(data: Any) -> ItemSet:
    if isinstance(data, ItemSet):
        return data
    if isinstance(data, str | Path):
        return datasets.load(str(data))
    if hasattr(data, "columns"):
        return datasets.from_frame(data)
    return ItemSet(tuple(data))


def _scale(items: Sequence[Item], one: Rubric | None) -> tuple[int, ...]:
    """The one list of scores of all items."""
    if one is not None:
        return one.scores
    without = [item.id for item in items if item.rubric is None]
    if without:
        raise RubricError(f"item {without[0]!r} has no rubric ({len(without)} of {len(items)} have none). Name one for all items: --rubric NAME or FILE.")
    first = items[0].rubric
    assert first is not None
    for item in items:
        assert item.rubric is not None
        if item.rubric.scores != first.scores:
            raise RubricError(
                f"item {item.id!r} has the scores {list(item.rubric.scores)}, item {items[0].id!r} has {list(first.scores)}. "
                "One run has one list of scores: split the items by scale."
            )
    return first.scores


def _check_template(made: Study) -> None:
    """The template must show the levels as ordered, and print no field that no item has."""
    missing: MissingField | None = None
    for item in made.itemset.items:
        try:
            prompts.check(made.template, item, made.rubric_of(item))
            return
        except MissingField as error:
            missing = error
    assert missing is not None
    fields = sorted({name for item in made.itemset.items for name in item.fields})
    raise InputError(f"{missing}: no item can be judged. " + unknown("variable", missing.name, [*fields, "criterion", "levels"]))


# --- the run -------------------------------------------------------------------------------------------------------


def judge(
    model: Any,
    data: str | Path | ItemSet | Sequence[Item] | pd.DataFrame,
    *,
    orderings: str | Sequence[Ordering] | Sequence[Sequence[int]] = "balanced",
    out: str | Path | None = None,
    rubric: str | Path | Rubric = "item",
    backend: str | None = None,
    template: str | Path = "prometheus",
    verdict: str = "direct",
    dtype: str = "auto",
    device: str = "auto",
    revision: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    max_batch_tokens: int | None = None,
    trust_remote_code: bool = False,
    overwrite: bool = False,
    model_kwargs: Mapping[str, Any] | None = None,
    chat_template: str | Path | None = None,
    adapter: str | None = None,
    tokenizer: Any = None,
    progress: Report | None = None,
) -> Run:
    """Read the probability of every score option for every item under every ordering.

    Parameters
    ----------
    model
        A hub id, a local folder, a ``.gguf`` file, ``embedded``, ``planted:SPEC``, or a loaded model (with `tokenizer`).
    data
        Items, a DataFrame, a file, or a data set's name (see ``logitjudge list datasets``).
    orderings
        A design's name, score values (``"1,2,3;3,2,1"``), or orderings.
    out
        The run folder; a temporary one by default. The same call on it goes on where it stopped.
    rubric
        One for all items: its name, a file, or a `Rubric`; ``"item"`` takes each item's own.
    max_batch_tokens
        Tokens that one forward pass may hold; from the free memory by default.
    progress
        Called with a `Progress` after each batch.

    Returns
    -------
    Run
        ``run.refused`` lists the items that could not be judged.

    Raises
    ------
    InputError
        Whatever is wrong with the input, the judge or the folder; nothing was written then.
    """
    report = progress or (lambda _: None)
    asked = study(data, orderings=orderings, rubric=rubric, template=template, verdict=verdict, limit=limit, seed=seed)
    spec = models.parse(
        model, backend, dtype=dtype, device=device, revision=revision, trust_remote_code=trust_remote_code,
        model_kwargs=dict(model_kwargs or {}), chat_template=chat_template, adapter=adapter, tokenizer=tokenizer,
    )  # fmt: skip
    folder = Path(out) if out is not None else Path(tempfile.mkdtemp(prefix="logitjudge-"))
    identity = _identity(asked, spec, seed)
    if overwrite and store.header(folder) is not None:
        store.clear(folder)
    head = store.header(folder)
    if head is not None:
        _same(folder, head["identity"], identity)
    if head is None or head["finished"] is None:
        wanted = {"model": spec.shown_name, "data": data if isinstance(data, str) else None, "limit": limit, "max_batch_tokens": max_batch_tokens}
        _go_on(folder, asked, spec, head, {"identity": identity, "configuration": wanted}, report)
    else:
        report(Progress(message=f"{folder} is finished: all {head['readings']} readings are there."))
    return store.load_run(folder)


def _identity(asked: Study, spec: models.ModelSpec, seed: int) -> dict[str, Any]:
    """What a resumed run must share with the one that began."""
    template = {name: value for name, value in asdict(asked.template).items() if name != "name"}
    return {
        **spec.identity(),
        "items": _digest([store.item_row(item) for item in asked.itemset.items]),
        "rubric": asked.rubric and _digest(asked.rubric.to_dict()),
        "template": _digest(template),
        "orderings": [list(o.values(asked.scores)) for o in asked.orderings],
        "labels": [o.labels and list(o.labels) for o in asked.orderings],
        "verdict": asked.template.verdict,
        "seed": seed,
    }


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _same(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    differing = [name for name in now if before.get(name) != now[name]]
    if differing:
        name = differing[0]
        raise RunFolderError(
            f"the run in {folder} has another setting {name!r}: {_short(before.get(name))} there, {_short(now[name])} now"
            + (f" ({', '.join(differing[1:])} differ too)" if differing[1:] else "")
            + ". Use the same settings to go on, another --out, or --overwrite to begin anew."
        )


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _go_on(folder: Path, asked: Study, spec: models.ModelSpec, head: dict[str, Any] | None, header: Mapping[str, Any], report: Report) -> None:
    """Begin or resume a run, and finish it."""
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    begun = head["started"] if head else now
    report(Progress(message=f"opening {spec.shown_name}"))
    backend = models.open_backend(replace(spec, date=begun))
    if head is None:
        head = _begin(folder, asked, backend, {**header, "started": now}, report)
    items = {item.id: item for item in asked.itemset.items}
    backend.prepare(asked.queries(backend, [items[head["longest"]["item"]]]), head["longest"]["length"])
    _session(head, backend, now)
    store.write_json(folder / "run.json", head)
    report(Progress(message=_path_line(head["sessions"][-1])))
    _read_batches(folder, asked, backend, head, report)
    report(Progress(message="measuring the noise floor"))
    finished = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    floor = noise.floor(store.load_run(folder, partial=True), backend, lambda item, ordering: asked.query(backend, item, ordering))
    store.finish(folder, {**head, "finished": finished, "noise_floor": floor})


def _path_line(session: Mapping[str, Any]) -> str:
    path = session.get("path")
    return "" if path is None else f"path: {path} ({session['proof']['reason']}), {session['dtype']} on {session['device']}"


def _begin(folder: Path, asked: Study, backend: Backend, header: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Render every prompt once, refuse what cannot be judged, plan the batches, and write the new run's header."""
    report(Progress(message=f"checking {len(asked.itemset.items) * len(asked.orderings)} prompts"))
    lengths, refused = _survey(asked, backend)
    if not lengths:
        raise ItemError(f"no item can be judged; the first: {refused[0]['id']!r}: {refused[0]['reason']}")
    longest = max(lengths, key=lambda name: max(lengths[name]))
    budget = header["configuration"]["max_batch_tokens"] or backend.token_budget()
    sums = {name: sum(row) for name, row in lengths.items()}
    head = {
        "schema_version": store.SCHEMA_VERSION,
        "kind": "rubric",
        **header,
        "event": tokens.EVENT,
        "verdict": asked.template.verdict,
        "template": asdict(asked.template),
        "scores": list(asked.scores),
        "rubric": asked.rubric and asked.rubric.to_dict(),
        "orderings": [{"shown": list(o.shown), "labels": o.labels and list(o.labels), "values": list(o.values(asked.scores))} for o in asked.orderings],
        "items": len(asked.itemset.items),
        "refused": len(refused),
        "readings": len(lengths) * len(asked.orderings),
        "ratings_name": asked.itemset.ratings_name,
        "raters": asked.itemset.raters,
        "tokens": sum(sums.values()),
        "longest": {"item": longest, "length": max(lengths[longest])},
        "budget": budget,
        "batches": [len(batch) for batch in plan(sums, budget)],
        "halvings": [],
        "sessions": [],
        "finished": None,
        "noise_floor": None,
    }  # fmt: skip
    store.start(folder, head, asked.itemset.items, refused)
    return head


def _survey(asked: Study, backend: Backend) -> tuple[dict[str, list[int]], list[dict[str, str]]]:
    """Length of every prompt of every item that can be judged, and the others with their reasons."""
    lengths: dict[str, list[int]] = {}
    refused = []
    for item in asked.itemset.items:
        try:
            lengths[item.id] = [_fitting(query, backend.max_length) for query in asked.queries(backend, [item])]
        except _Refused as error:
            refused.append({"id": item.id, "reason": str(error)})
        except MissingField as error:
            refused.append({"id": item.id, "reason": f"the template prints the field {error.name!r}, which this item does not have"})
    return lengths, refused


class _Refused(Exception):  # noqa: N818
    """An item that cannot be judged, with the reason."""


def _fitting(query: Query, most: int | None) -> int:
    if most is not None and query.length > most:
        raise _Refused(f"the prompt has {query.length} tokens, the judge takes {most}; prompts are never cut")
    return query.length


def plan(lengths: Mapping[str, int], budget: int) -> list[list[str]]:
    """Batches of whole items, in order, each within the budget unless a single item is larger.

    Examples
    --------
    >>> plan({"a": 3, "b": 3, "c": 9, "d": 1}, 6)
    [['a', 'b'], ['c'], ['d']]
    """
    batches: list[list[str]] = []
    held = 0
    for name, length in lengths.items():
        if not batches or held + length > budget:
            batches.append([])
            held = 0
        batches[-1].append(name)
        held += length
    return batches


def _session(head: dict[str, Any], backend: Backend, now: str) -> None:
    """Note who reads from here on; a library version that changed in between is a warning."""
    session = {"started": now, "logitjudge": version("logitjudge"), "python": platform.python_version(), **backend.provenance()}
    if head["sessions"]:
        before = head["sessions"][-1]
        for name in ("versions", "path", "threads", "device"):
            if before.get(name) != session.get(name):
                warnings.warn(f"this run began with {name} {before.get(name)} and goes on with {session.get(name)}.", stacklevel=2)
    head["sessions"].append(session)


def _read_batches(folder: Path, asked: Study, backend: Backend, head: dict[str, Any], report: Report) -> None:
    done = store.done(folder)
    ready = 0
    for number, items in enumerate(_batches(folder, asked, head)):
        if number not in done:
            queries = asked.queries(backend, items)
            readings = _read(folder, head, number, backend, queries)
            store.write_part(folder, number, [asked.key(query) for query in queries], readings)
        ready += len(items)
        total = head["items"] - head["refused"]
        report(Progress(ready, total, ready * len(asked.orderings), total * len(asked.orderings)))


def _batches(folder: Path, asked: Study, head: Mapping[str, Any]) -> Iterator[list[Item]]:
    refused = {row["id"] for row in store.refusals(folder)}
    left = iter([item for item in asked.itemset.items if item.id not in refused])
    for size in head["batches"]:
        yield [next(left) for _ in range(size)]


def _read(folder: Path, head: dict[str, Any], batch: int, backend: Backend, queries: Sequence[Query]) -> Readings:
    """Read one batch; out of memory halves the budget from this batch on, which is recorded before it is used."""
    while True:
        budget = head["budget"] >> sum(1 for first in head["halvings"] if first <= batch)
        try:
            return backend.read(queries, budget)
        except OutOfMemory as error:
            if budget // 2 < SMALLEST_BUDGET:
                raise ModelError(f"the device is out of memory even with one prompt at a time: {error}. Use another --device or a smaller --dtype.") from error
        except ValueError as error:
            raise ModelError(f"batch {batch} (items {queries[0].item.id!r} to {queries[-1].item.id!r}): {error}.") from error
        head["halvings"].append(batch)
        store.write_json(folder / "run.json", head)
        warnings.warn(f"out of memory: the token budget is halved to {budget // 2}.", stacklevel=2)


def read(
    model: Any, messages: Sequence[Mapping[str, str]], *, options: Sequence[str], prefill: str = "", tokenizer: Any = None, **model_options: Any
) -> Readings:
    """Read one prompt.

    Parameters
    ----------
    model
        As in `judge`, but not a planted judge.
    messages
        The chat: mappings with ``role`` and ``content``.
    options
        (K,) strings that the judge may answer with.
    prefill
        The beginning of its answer.

    Returns
    -------
    Readings
        With B = 1: ``logp`` (1, K) in nats over the full vocabulary.
    """
    backend = models.open_backend(models.parse(model, tokenizer=tokenizer, **model_options))
    prompt = Prompt(tuple(Message(m["role"], m["content"]) for m in messages), prefill, tuple(options))
    if backend.tokenizer is None:
        raise ModelError("a planted judge reads items, not messages.")
    rubric = Rubric("options", "options", tuple(Level(k, option, option) for k, option in enumerate(options)))
    query = Query(Item("prompt", {}), rubric, Ordering(tuple(range(len(options)))), prompt, _tokens(backend, prompt))
    readings = backend.read_plain([query])
    assert readings is not None
    return readings
