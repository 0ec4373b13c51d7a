"""judge(): items x orderings -> prompts -> backend -> run folder. Batch plan, resume, refusals.

Everything is checked before anything is written. The batch plan is a pure function of items and configuration and is
stored with the resolved token budget, so that a run killed at any instant goes on to the readings it would have had.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logitjudge import files, models, running, shards, store, verdicts
from logitjudge.backends import Query
from logitjudge.core import Item, ItemSet, Level, Message, Ordering, Prompt, Readings, Rubric
from logitjudge.errors import AllRefused, InputError, ModelError, RunFolderError, RunIncomplete, unknown
from logitjudge.progress import Progress, Report
from logitjudge.reader import Task
from logitjudge.run import Run
from logitjudge.study import Study, study, tokens_of
from logitjudge.workers import Worker, local

if TYPE_CHECKING:
    import pandas as pd

ENGINES = ("local", "ray")
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
    timeout: float | None = None,
    concurrency: int = 8,
    tokenizer: Any = None,
    shard: str | None = None,
    engine: str = "local",
    workers: str | int = "1",
    ray_address: str | None = None,
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
    base_url, served_model, concurrency
        For ``backend="openai"``: the server, its name of the model (by default the one that it has), and requests in
        flight. `model` then names the tokenizer that makes the prompts.
    timeout
        Seconds that an answer of the server may take (by default 60). With ``backend="hf"``: seconds that a text may take
        (by default any); an item with a text that has not ended then is refused, and nothing of that text is read.
    engine, workers, ray_address
        Who reads: ``"local"``, this machine, by one process (``"1"``), by N, or by one for each GPU or for as many GPUs as the weights
        need (``"auto"``); or ``"ray"``, actors of a Ray cluster (`logitjudge.cluster`). The readings are the same.
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
        concurrency=concurrency, tokenizer=tokenizer, shard=shard, engine=engine, workers=workers, ray_address=ray_address,
        progress=progress,
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
    timeout: float | None = None,
    concurrency: int = 8,
    tokenizer: Any = None,
    shard: str | None = None,
    engine: str = "local",
    workers: str | int = "1",
    ray_address: str | None = None,
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
    if spec.timeout is not None and spec.backend == "hf" and not asked.template.writes:
        raise InputError(
            "--timeout belongs to --backend openai, and to judges that write (--verdict feedback, think or sampled). Leave it out."
        )
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
    begins = {
        "started": running.now(),
        "identity": identity,
        "configuration": wanted,
        "model": json.loads(_json(models.to_dict(spec))),
    }
    if (head := _begun(folder, identity, anew)) is None or head["finished"] is None:
        with store.locked(folder):
            head = _begun(folder, identity, anew)  # another process may have gone on with it
            if head is None or head["finished"] is None:
                task = Task(asked, replace(spec, date=head["started"] if head else begins["started"]), text, seed)
                running.go_on(
                    folder, task, head, begins, _workers(spec, engine, str(workers), ray_address), report, part
                )
    else:
        report(Progress(message=f"{folder} is finished: all {head['readings']} readings are there."))
    return store.load_run(folder) if part is None else _shard(folder, part)


def _shard(folder: Path, part: shards.Part) -> Run:
    """What a shard, all of whose batches are read, has."""
    try:
        return store.load_run(folder, partial=True)
    except RunIncomplete as error:
        raise AllRefused(f"shard {part} in {folder} is read, and none of its items could be judged.") from error


def _begun(folder: Path, identity: Mapping[str, Any], anew: bool) -> dict[str, Any] | None:
    """The header of a run of the same identity that has begun, or None."""
    head = None if anew else store.header(folder)
    if head is not None:
        _same(folder, head["identity"], identity)
    return head


def _workers(spec: models.ModelSpec, engine: str, wanted: str, ray_address: str | None) -> list[Worker]:
    """Who reads: workers of this machine, or of a Ray cluster."""
    if engine == "ray":
        from logitjudge import cluster

        return cluster.workers(spec, wanted, ray_address)
    if engine != "local":
        raise InputError(unknown("engine", engine, ENGINES))
    if ray_address is not None:
        raise InputError("--ray-address belongs to --engine ray. Give both, or neither.")
    return local(spec, wanted)


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
