"""One judge by transformers and by vLLM on the same token ids: how far apart the readings are."""

from __future__ import annotations

import datetime as dt
import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from logitjudge import models, planning, registry
from logitjudge.backends import Backend, Query
from logitjudge.core import FloatArray, Readings
from logitjudge.noise import READ_TWICE, probs
from logitjudge.study import Study, study

TOLERANCE = 1e-3  # nats, in float32, and the least
NOISES = 4  # in other dtypes: so many times the larger noise floor, which is the largest of a few readings only
ENGINES = ("hf", "vllm")


@dataclass(frozen=True, slots=True)
class Differences:
    """How far two engines' readings of the same prompts are apart.

    Parameters
    ----------
    prompts
        How many were read.
    max_nats, median_nats
        Of |difference| of an option's log-probability.
    max_score, median_score
        Of |difference| of a prompt's expected score.
    winners_changed
        Prompts whose most probable option differs.
    ties
        How many of these are ties: by one of the engines the two winners are no further apart than the tolerance.
    """

    prompts: int
    max_nats: float
    median_nats: float
    max_score: float
    median_score: float
    winners_changed: int
    ties: int


def differences(first: FloatArray, second: FloatArray, scores: Sequence[int], tolerance: float) -> Differences:
    """Compare readings.

    Parameters
    ----------
    first, second
        (B, K) log-probabilities, in nats, in score order.
    scores
        (K,) their scores.
    tolerance
        In nats, for ties.

    Examples
    --------
    >>> differences(np.log([[0.5, 0.25]]), np.log([[0.25, 0.25]]), [1, 2], 0.1).max_nats
    0.6931471805599453
    """
    nats = np.abs(first - second)
    score = np.abs((probs(first) - probs(second)) @ np.asarray(scores, np.float64))
    rows = np.arange(len(first))
    one, other = first.argmax(axis=1), second.argmax(axis=1)
    gap = np.minimum(first[rows, one] - first[rows, other], second[rows, other] - second[rows, one])
    return Differences(
        prompts=len(first),
        max_nats=float(nats.max()),
        median_nats=float(np.median(nats)),
        max_score=float(score.max()),
        median_score=float(np.median(score)),
        winners_changed=int((one != other).sum()),
        ties=int(((one != other) & (gap <= tolerance)).sum()),
    )


def allowed(dtype: str, noise: Mapping[str, float]) -> float:
    """Nats that two engines may be apart: in float32 a fixed number, else a multiple of the larger noise floor.

    Examples
    --------
    >>> allowed("float32", {"hf": 1e-5, "vllm": 1e-5}), allowed("bfloat16", {"hf": 0.05, "vllm": 0.0625})
    (0.001, 0.25)
    """
    return TOLERANCE if dtype == "float32" else max(TOLERANCE, NOISES * max(noise.values()))


@dataclass(frozen=True, slots=True)
class Parity:
    """What `parity` found.

    Parameters
    ----------
    differences
        Between the engines.
    tolerance
        Nats that they may be apart.
    noise
        Engine -> largest |difference|, in nats, from a second way of reading of its own.
    engines
        Engine -> what it says of itself.
    """

    model: str
    differences: Differences
    tolerance: float
    noise: Mapping[str, float]
    engines: Mapping[str, Mapping[str, Any]]

    @property
    def ok(self) -> bool:
        """Whether no option of any prompt is further apart than the tolerance."""
        return self.differences.max_nats <= self.tolerance

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        head = {"model": self.model, "ok": self.ok, "tolerance": self.tolerance}
        return {**head, **asdict(self.differences), "noise": dict(self.noise), "engines": dict(self.engines)}


def parity(
    model: str,
    data: str | Path,
    *,
    limit: int | None = None,
    orderings: str = "balanced",
    rubric: str | Path = "item",
    template: str | Path = "prometheus",
    dtype: str = "auto",
    device: str = "auto",
    seed: int = 0,
    tolerance: float | None = None,
    model_kwargs: Mapping[str, Any] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Parity:
    """Read the prompts that a run would read by transformers, then the same token ids by vLLM.

    Parameters
    ----------
    model, data, limit, orderings, rubric, template, dtype, device, seed
        As in `logitjudge.judge`.
    tolerance
        Nats that an option may be apart; by default 0.001 in float32, else four times the larger noise floor.
    model_kwargs
        Keywords of vLLM.
    say
        Called with a line at each step.

    Raises
    ------
    InputError
        Whatever is wrong with the input; vLLM is not installed here; an item that one of the engines would refuse.
    """
    asked = study(data, orderings=orderings, rubric=rubric, template=template, limit=limit, seed=seed)
    spec = models.parse(model, "hf", dtype=dtype, device=device, date=dt.datetime.now(dt.UTC).isoformat())
    other = replace(spec, backend="vllm", model_kwargs=dict(model_kwargs or {}))
    registry.load("backends", "vllm").check(other)  # now: what is missing is said before anything is loaded
    say(f"opening {spec.shown_name} by transformers")
    first = _read(asked, models.open_backend(spec), None, say)
    gc.collect()  # one model at a time
    same = replace(other, dtype=first.settings["dtype"])
    say(f"opening it by vLLM, in {same.dtype}")
    second = _read(asked, models.open_backend(same), first.queries, say)
    both = dict(zip(ENGINES, (first, second), strict=True))
    noise = {name: side.noise for name, side in both.items()}
    within = allowed(same.dtype, noise) if tolerance is None else tolerance
    found = differences(first.readings.logp, second.readings.logp, asked.scores, within)
    return Parity(spec.shown_name, found, within, noise, {name: side.settings for name, side in both.items()})


@dataclass(frozen=True, slots=True)
class _Side:
    """What one engine read."""

    queries: Sequence[Query]
    readings: Readings
    noise: float
    settings: Mapping[str, Any]


def _read(asked: Study, backend: Backend, queries: Sequence[Query] | None, say: Callable[[str], None]) -> _Side:
    """Prove an engine's path and read all prompts: those that it makes itself, or the token ids of the other engine."""
    sizes = planning.readable(asked, backend)
    if queries is None:
        queries = asked.queries(backend, asked.itemset.items)
    planning.prepare(asked, backend, planning.ends(sizes))
    say(f"reading {len(queries)} prompts")
    budget, count = backend.token_budget(), len(asked.orderings)
    parts = [backend.read(queries[n : n + count], budget) for n in range(0, len(queries), count)]  # item by item
    readings = Readings.join(parts)
    return _Side(queries, readings, _noise(backend, queries, readings), dict(backend.provenance()))


def _noise(backend: Backend, queries: Sequence[Query], readings: Readings) -> float:
    """Largest |difference| of some readings from the engine's second way of reading; 0 where it has none."""
    some = sorted({len(queries) * n // READ_TWICE for n in range(READ_TWICE)})
    second = backend.read_plain([queries[n] for n in some])
    return 0.0 if second is None else float(np.abs(second.logp - readings.logp[some]).max())
