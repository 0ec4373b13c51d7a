"""judge(): items x orderings -> prompts -> backend -> run folder. Batch plan, resume, refusals.

Everything is checked before anything is written. The batch plan is a pure function of items and configuration and is
stored with the resolved token budget, so that a run killed at any instant goes on to the readings it would have had.
"""

from __future__ import annotations

import atexit
import datetime as dt
import hashlib
import json
import platform
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logitjudge import files, models, noise, parts, planning, shards, store, texts, verdicts
from logitjudge.backends import Backend, OutOfMemory, Query
from logitjudge.core import Item, ItemSet, Level, Message, Ordering, Prompt, Readings, Rubric
from logitjudge.errors import InputError, ModelError, RunFolderError
from logitjudge.progress import Progress, Report, duration
from logitjudge.run import Run
from logitjudge.study import Study, study, tokens_of
from logitjudge.verdicts import Writing

if TYPE_CHECKING:
    import pandas as pd

SMALLEST_BUDGET = 32
SETTINGS = {  # of a run's identity, those whose value is a hash that says nothing to people
    "fingerprint": "'model': its files or its tokenizer differ",
    "chat_template": "'chat_template'",
    "adapter": "'adapter'",
    "items": "'items': other --data, --limit or --seed",
    "rubric": "'rubric'",
    "template": "'template'",
}


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
    max_new_tokens: int = 512,
    unended: str = "refuse",
    trace: str = "per-ordering",
    samples: int = 1,
    temperature: float = 0.0,
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
    base_url: str | None = None,
    served_model: str | None = None,
    timeout: float = 60.0,
    concurrency: int = 8,
    tokenizer: Any = None,
    shard: str | None = None,
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
        The run folder; by default a temporary one, which goes when Python ends. The same call on it goes on where it stopped.
    rubric
        One for all items: its name, a file, or a `Rubric`; ``"item"`` takes each item's own.
    verdict
        ``direct``: the score at once. ``feedback``: the judge writes feedback first, greedily, and the score is read
        behind the marker in its text; ``think``: the same behind its thoughts. Readings are then exact for that text.
        ``sampled``: it writes, and the score is parsed from the text: picks, and no probabilities (a `SampledRun`).
    max_new_tokens
        Tokens of the longest text that the judge may write.
    unended
        What becomes of a text without the marker: ``refuse`` its item, or ``close`` it by force and count it.
    trace
        ``per-ordering``: the judge writes under every ordering. ``shared`` or ``shared:DESIGN``: it writes under a few
        source orderings (the K cyclic ones), and each text is read under all orderings.
    samples, temperature
        Texts for each ordering, drawn at this temperature; 0 is greedy. Probabilities are means over the texts.
    max_batch_tokens
        Tokens that one forward pass may hold; from the free memory by default.
    base_url, served_model, timeout, concurrency
        For ``backend="openai"``: the server, its name of the model (by default the one that it has), seconds that an
        answer may take, and requests in flight. `model` then names the tokenizer that makes the prompts.
    shard
        ``"2/8"``: read only the second eighth of the batches, and leave the run unfinished, for `logitjudge.shards.merge`.
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
    AllRefused
        The run is finished, and no item could be judged.
    """
    asked = study(data, orderings=orderings, rubric=rubric, template=template, verdict=verdict, limit=limit, seed=seed)
    return run_study(
        asked, model, data, out=out, limit=limit, seed=seed, backend=backend, dtype=dtype, device=device, revision=revision,
        max_new_tokens=max_new_tokens, unended=unended, trace=trace, samples=samples, temperature=temperature,
        max_batch_tokens=max_batch_tokens, trust_remote_code=trust_remote_code, overwrite=overwrite, model_kwargs=model_kwargs,
        chat_template=chat_template, adapter=adapter, base_url=base_url, served_model=served_model, timeout=timeout,
        concurrency=concurrency, tokenizer=tokenizer, shard=shard, progress=progress,
    )  # fmt: skip


def run_study(
    asked: Study,
    model: Any,
    data: Any,
    *,
    out: str | Path | None = None,
    limit: int | None = None,
    seed: int = 0,
    backend: str | None = None,
    max_new_tokens: int = 512,
    unended: str = "refuse",
    trace: str = "per-ordering",
    samples: int = 1,
    temperature: float = 0.0,
    dtype: str = "auto",
    device: str = "auto",
    revision: str | None = None,
    max_batch_tokens: int | None = None,
    trust_remote_code: bool = False,
    overwrite: bool = False,
    model_kwargs: Mapping[str, Any] | None = None,
    chat_template: str | Path | None = None,
    adapter: str | None = None,
    base_url: str | None = None,
    served_model: str | None = None,
    timeout: float = 60.0,
    concurrency: int = 8,
    tokenizer: Any = None,
    shard: str | None = None,
    progress: Report | None = None,
) -> Run:
    """Read what a study asks, into a run folder; parameters and errors as in `judge`."""
    if max_batch_tokens is not None and max_batch_tokens < 1:
        raise InputError(f"max_batch_tokens is {max_batch_tokens}. Give a whole number of at least 1, or leave it out.")
    part = None if shard is None else shards.parse(shard)
    report = progress or (lambda _: None)
    spec = models.parse(
        model, backend, dtype=dtype, device=device, revision=revision, trust_remote_code=trust_remote_code,
        model_kwargs=dict(model_kwargs or {}), chat_template=chat_template, adapter=adapter, tokenizer=tokenizer,
        thinks=asked.template.verdict == "think",
        base_url=base_url, served_model=served_model, timeout=timeout, concurrency=concurrency,
    )  # fmt: skip
    writes = {
        "max_new_tokens": max_new_tokens, "unended": unended, "trace": trace, "samples": samples, "temperature": temperature,
    }  # fmt: skip
    text = verdicts.settings(asked.template, asked.scores, writes, seed)
    folder = files.place(out) if out is not None else _temporary()
    identity = json.loads(_json({**_identity(asked, spec, seed), "writing": text}))  # as run.json will have it
    anew = (
        overwrite and (folder / "run.json").exists()
    )  # even one that cannot be read; `store.start` removes the old run
    wanted = {
        "model": spec.shown_name,
        "data": str(data) if isinstance(data, str | Path) else None,
        "limit": limit,
        "max_batch_tokens": max_batch_tokens,
    }
    begins = {"identity": identity, "configuration": wanted, "model": json.loads(_json(models.to_dict(spec)))}
    if (head := _begun(folder, identity, anew)) is None or head["finished"] is None:
        with store.locked(folder):
            head = _begun(folder, identity, anew)  # another process may have gone on with it
            if head is None or head["finished"] is None:
                _go_on(folder, asked, spec, head, begins, report, part)
    else:
        report(Progress(message=f"{folder} is finished: all {head['readings']} readings are there."))
    return store.load_run(folder, partial=part is not None)


def _begun(folder: Path, identity: Mapping[str, Any], anew: bool) -> dict[str, Any] | None:
    """The header of a run of the same identity that has begun, or None."""
    head = None if anew else store.header(folder)
    if head is not None:
        _same(folder, head["identity"], identity)
    return head


def _temporary() -> Path:
    """A folder that goes when Python ends: a run reads its stored columns from it until then."""
    folder = Path(tempfile.mkdtemp(prefix="logitjudge-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _identity(asked: Study, spec: models.ModelSpec, seed: int) -> dict[str, Any]:
    """What a resumed run must share with the one that began."""
    template = {name: value for name, value in asdict(asked.template).items() if name != "name"}
    return {
        **spec.identity(),
        "items": _digest([store.item_row(item) for item in asked.itemset.items]),
        "rubric": asked.rubric and _digest(asked.rubric.to_dict()),
        "template": _digest(template),
        "orderings": [list(o.values(asked.scores)) for o in asked.orderings],
        "labels": [o.labels and list(o.labels) for o in asked.orderings if o.labels] or None,
        "verdict": asked.template.verdict,
        "seed": seed,
    }


def _digest(value: Any) -> str:
    return hashlib.sha256(_json(value).encode()).hexdigest()


def _json(value: Any) -> str:
    """JSON, in which objects that it does not know (a quantisation config) are what they say of themselves."""
    return json.dumps(value, sort_keys=True, default=lambda v: v.to_dict() if hasattr(v, "to_dict") else str(v))


def _same(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    differing = [name for name in now if before.get(name) != now[name]]
    if differing:
        first, others = differing[0], ", ".join(SETTINGS.get(name, name) for name in differing[1:])
        values = f"{first!r}: {_short(before.get(first))} there, {_short(now[first])} now"
        raise RunFolderError(
            f"the run in {folder} was made with another setting {SETTINGS.get(first, values)}"
            + (f" ({others} differ too)" if others else "")
            + ". Use the same settings to go on, another --out, or --overwrite (overwrite=True) to begin anew."
        )


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _go_on(
    folder: Path,
    asked: Study,
    spec: models.ModelSpec,
    head: dict[str, Any] | None,
    header: Mapping[str, Any],
    report: Report,
    part: shards.Part | None = None,
) -> None:
    """Begin or resume a run, and finish it."""
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    begun = head["started"] if head else now
    report(Progress(message=f"opening {spec.shown_name}"))
    backend = models.open_backend(replace(spec, date=begun))
    identity = header["identity"]
    how = verdicts.writing(asked.template, backend, asked.scores, identity["writing"], identity["seed"])
    room, texts_each = (how.most, how.texts) if how else (0, 1)
    refused = None
    if head is None:
        report(Progress(message=f"checking {len(asked.itemset.items) * len(asked.orderings)} prompts and the judge"))
        header = {**header, "started": now, "traces": verdicts.about(how, asked.scores)}
        head, refused = planning.begin(asked, backend, header, room, texts_each)
    else:
        report(Progress(message="checking the judge, and proving the fast path"))
        planning.prepare(asked, backend, {which: head[which]["item"] for which in ("longest", "shortest")}, room)
    if part is not None:
        part.check(head["batches"])
    _session(head, backend, now)
    if (
        refused is not None
    ):  # only now: whatever is wrong with the judge or the prompts was found, and nothing is written
        store.start(folder, head, asked.itemset.items, refused)
    store.write_json(folder / "run.json", head)
    report(Progress(message=_size_line(head)))
    report(Progress(message=_path_line(head["sessions"][-1])))
    _read_batches(folder, asked, backend, head, how, report, part)
    head["sessions"][-1].update(backend.provenance())  # some engines count what they did
    if part is not None:
        store.write_json(folder / "run.json", head)
        report(Progress(message=f"shard {part}: its batches are read. Put all shards together with: logitjudge merge"))
        return
    if served := _served_line(head["sessions"][-1]):
        report(Progress(message=served))
    head = {**head, **texts.ended(folder, asked, head, how)}
    floor = None
    if head["refused"] < head["items"] and not (how and how.parsed):
        report(Progress(message="measuring the noise floor"))
        floor = noise.floor(
            store.load_run(folder, partial=True), backend, partial(texts.again, folder, asked, backend, how)
        )
    finished = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    store.finish(folder, {**head, "finished": finished, "noise_floor": floor})


def _size_line(head: Mapping[str, Any]) -> str:
    """What the run costs: planted judges and runs of an earlier version do not know."""
    if not head.get("unique_tokens"):
        return ""
    line = f"{head['readings']:,} prompts: {head['tokens']:,} tokens as written, {head['unique_tokens']:,} unique"
    session = head["sessions"][-1]
    fed = {"packed": head["unique_tokens"], "plain": head["tokens"]}.get(session.get("path"))
    return f"{line}, about {duration(fed / session['tokens_per_second'])}" if fed else line


def _path_line(session: Mapping[str, Any]) -> str:
    if "path" not in session:
        return ""
    refused = "".join(f"; not {no['path']}: {no['reason']}" for no in session.get("refused_paths", []))
    return f"path: {session['path']} ({session['proof']['reason']}), {session['dtype']} on {session['device']}{refused}"


def _served_line(session: Mapping[str, Any]) -> str:
    """What an engine with a cache of its own did, where it read anything."""
    if session.get("prompts_per_second") is None:
        return ""
    hits = session.get("hit_rate")
    cached = "" if hits is None else f"; {hits:.1%} of their tokens were found in the cache"
    return f"{session['prompts_per_second']:.3g} prompts a second{cached}"


def _session(head: dict[str, Any], backend: Backend, now: str) -> None:
    """Note who reads from here on; a library version that changed in between is a warning."""
    session = {
        "started": now,
        "logitjudge": version("logitjudge"),
        "python": platform.python_version(),
        **backend.provenance(),
    }
    if head["sessions"]:
        before = head["sessions"][-1]
        for name in ("logitjudge", "versions", "path", "threads", "device"):
            if before.get(name) != session.get(name):
                warnings.warn(
                    f"this run began with {name} {before.get(name)} and goes on with {session.get(name)}.", stacklevel=2
                )
    head["sessions"].append(session)


def _read_batches(
    folder: Path,
    asked: Study,
    backend: Backend,
    head: dict[str, Any],
    how: Writing | None,
    report: Report,
    part: shards.Part | None = None,
) -> None:
    done = parts.done(folder, written=how is not None)
    ready = read = 0
    total, orders = head["items"] - head["refused"], len(asked.orderings) * (how.texts if how else 1)
    report(Progress(0, total, 0, total * orders))
    for number, items in enumerate(_batches(folder, asked, head)):
        if part is not None and not part.has(number):
            continue
        if number not in done:
            queries, names = texts.written(folder, asked, backend, number, items, how)
            _note_options(folder, head, queries)
            readings = _read(folder, head, number, backend, queries) if queries else None
            parts.write_part(folder, number, [asked.key(query) for query in queries], readings, names)
            read += len(items)
        ready += len(items)
        report(Progress(ready, total, ready * orders, total * orders, read=read))


def _note_options(folder: Path, head: dict[str, Any], queries: Sequence[Query]) -> None:
    """Keep how many tokens the longest option has: behind one of one token alone, `logp` is that of the next token."""
    tails = [tail for query in queries if query.tokens is not None for tail in query.tokens.tails]
    longest = max(map(len, tails), default=0)
    if longest > (head.get("option_tokens") or 0):
        head["option_tokens"] = longest
        store.write_json(folder / "run.json", head)


def _batches(folder: Path, asked: Study, head: Mapping[str, Any]) -> Iterator[list[Item]]:
    refused = {row["id"] for row in store.refusals(folder) if not row.get("late")}
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
                raise ModelError(
                    f"the device is out of memory even with one prompt at a time: {error}. Use another --device or a smaller --dtype."
                ) from error
        except ValueError as error:
            raise ModelError(
                f"batch {batch} (items {queries[0].item.id!r} to {queries[-1].item.id!r}): {str(error).rstrip('.')}."
            ) from error
        head["halvings"].append(batch)
        store.write_json(folder / "run.json", head)
        warnings.warn(f"out of memory: the token budget is halved to {budget // 2}.", stacklevel=2)


def read(
    model: Any,
    messages: Sequence[Mapping[str, str]],
    *,
    options: Sequence[str],
    prefill: str = "",
    tokenizer: Any = None,
    **model_options: Any,
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
    query = Query(Item("prompt", {}), rubric, Ordering(tuple(range(len(options)))), prompt, tokens_of(backend, prompt))
    return backend.read([query], query.length)
