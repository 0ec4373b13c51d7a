"""The same prompts through several engines, in one run, side by side: time, memory, and distance from plain float32.

Every figure is the median of interleaved rounds, so that a machine that slows down slows all engines. What an engine is
compared with stands in the same rounds: plain prompts, and for the efficiency of the packed path a plain forward of 1,024
tokens in the same process.
"""

from __future__ import annotations

import datetime as dt
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from logitjudge import models
from logitjudge.bench import engines as fleets
from logitjudge.bench.children import Child, WorkerError, installed
from logitjudge.bench.engines import OWN, PREFILL, SLOW, Answer, Engine, Fleet, Judge
from logitjudge.bench.growth import Point, growth as measure_growth
from logitjudge.bench.work import Work, spread, work
from logitjudge.core import FloatArray
from logitjudge.errors import InputError, ModelError
from logitjudge.study import Study, study
from logitjudge.tokens import Tokenizer

__all__ = ["OWN", "Bench", "Row", "WorkerError", "bench", "installed"]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Row:
    """One engine on the prompts of one design.

    Parameters
    ----------
    seconds
        Median over `rounds`; where `scaled_from` prompts were read only, that for all.
    tokens, unique_tokens
        As separate prompts, and when what the prompts of an item share counts once.
    computed_tokens
        Tokens that the engine fed to the model, padding included; None where it does not say.
    hit_rate
        Share of the requests' prompt tokens that the engine found in its cache; None where it has none, or does not say.
    peak_mib
        Most memory of the engine's process (of the GPU, where there is one), weights included.
    max_nats
        Largest |difference| of an option's log-probability from the plain forward in float32.
    rounds
        Seconds of each round, as measured.
    settings
        Of the engine.
    """

    engine: str
    design: str
    seconds: float
    prompts: int
    tokens: int
    unique_tokens: int
    computed_tokens: int | None
    hit_rate: float | None
    peak_mib: float | None
    max_nats: float
    scaled_from: int | None
    rounds: tuple[float, ...]
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Bench:
    """Rows, design by design; `prefill` is the median seconds of 1,024 plain tokens in the rounds of each design."""

    rows: tuple[Row, ...]
    prefill: Mapping[str, float]
    growth: tuple[Point, ...] | None = None

    @property
    def token_ratio(self) -> dict[str, float]:
        """Tokens as separate prompts over unique tokens, by design: the most that sharing can bring."""
        return {row.design: row.tokens / row.unique_tokens for row in self.rows}

    @property
    def efficiency(self) -> dict[str, float | None]:
        """Unique tokens per second of the packed path over tokens per second of the prefill, by design."""
        packed = {row.design: row.unique_tokens / row.seconds for row in self.rows if row.engine == "packed"}
        return {
            name: packed[name] / (PREFILL / self.prefill[name]) if name in packed else None for name in self.token_ratio
        }

    def speed_up(self, row: Row) -> float | None:
        """How many times faster than plain prompts of the same design."""
        plain = [other.seconds for other in self.rows if (other.engine, other.design) == ("plain", row.design)]
        return plain[0] / row.seconds if plain else None

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        made = {
            "rows": [asdict(row) for row in self.rows],
            "token_ratio": self.token_ratio,
            "efficiency": self.efficiency,
            "prefill_seconds": dict(self.prefill),
        }
        return made if self.growth is None else {**made, "growth": [asdict(point) for point in self.growth]}


def bench(
    model: str,
    data: str | Path,
    *,
    engines: Sequence[str] = OWN,
    designs: Sequence[str] = ("balanced", "full"),
    repeats: int = 3,
    limit: int | None = 1,
    sample: int | None = None,
    growth: bool = False,
    rubric: str | Path = "item",
    template: str | Path = "prometheus",
    dtype: str = "auto",
    device: str = "auto",
    seed: int = 0,
    max_batch_tokens: int | None = None,
    say: Say = lambda _: None,
) -> Bench:
    """Time engines on the prompts that a run would read.

    Parameters
    ----------
    engines
        Of ``plain``, ``shared``, ``packed``, ``lm_eval``, ``vllm``, ``vllm_server``.
    sample
        Time ``plain`` and ``lm_eval`` on so many prompts of a design, and scale; look at these for `max_nats`.
    growth
        Time the packed path against the number of orderings and of levels, too.
    say
        Called with a line at each step.

    Raises
    ------
    InputError
        Whatever is wrong with the input; an engine that is not installed.
    WorkerError
        An engine failed.
    """
    fleets.check(engines)
    if growth and "packed" not in engines:
        raise InputError("--growth times the engine 'packed'. Add it to --engines.")
    asked = study(data, orderings="identity", rubric=rubric, template=template, limit=limit, seed=seed)
    spec = models.parse(model, dtype=dtype, device=device)
    if spec.kind == "planted":
        raise ModelError("a planted judge has no tokens that an engine could run. Give a model.")
    tokenizer = _tokenizer(spec)
    judge = Judge(str(spec.path or spec.name), dtype, device, max_batch_tokens)
    works, samples, truth = _prepare(asked, judge, tokenizer, designs, sample=sample, seed=seed, say=say)
    say(f"opening {', '.join(engines)}, and proving the paths")
    with fleets.opened(engines, judge, works[designs[0]]) as fleet:
        found = _measured(fleet, works, samples, truth, repeats=repeats, say=say)
        if not growth:
            return found
        packed = next(engine for engine in fleet.engines if engine.name == "packed")
        return replace(found, growth=measure_growth(asked, tokenizer, packed, repeats=repeats, seed=seed, say=say))


def _tokenizer(spec: models.ModelSpec) -> Tokenizer:
    found = models.open_tokenizer(replace(spec, date=dt.datetime.now(dt.UTC).isoformat(timespec="seconds")))
    assert found is not None
    return found


def _prepare(
    asked: Study,
    judge: Judge,
    tokenizer: Tokenizer,
    designs: Sequence[str],
    *,
    sample: int | None,
    seed: int,
    say: Say,
) -> tuple[dict[str, Work], dict[str, list[int]], dict[str, FloatArray]]:
    """Prompts of every design, numbers of those that are sampled, and what plain float32 says of these."""
    say("opening the judge in float32")
    with Child("own", replace(judge, dtype="float32").words()) as child:
        longest = child.settings["max_length"]
        works = {name: work(asked, name, tokenizer, seed=seed, max_length=longest) for name in designs}
        samples = {name: spread(len(made.queries), sample or len(made.queries), seed) for name, made in works.items()}
        for name, made in works.items():
            say(
                f"{name}: {len(made.queries)} prompts, {made.tokens:,} tokens as written, {made.unique_tokens:,} unique"
            )
        return works, samples, fleets.oracle(child, works, samples, say)


def _measured(
    fleet: Fleet,
    works: Mapping[str, Work],
    samples: Mapping[str, Sequence[int]],
    truth: Mapping[str, FloatArray],
    *,
    repeats: int,
    say: Say,
) -> Bench:
    rows: list[Row] = []
    prefill: dict[str, float] = {}
    for name, made in works.items():
        answers, seconds = _rounds(fleet, made, samples[name], repeats, partial(_say_of, say, name))
        rows += [_row(engine, name, made, answers[engine.name], samples[name], truth[name]) for engine in fleet.engines]
        if seconds:
            prefill[name] = statistics.median(seconds)
    return Bench(tuple(rows), prefill)


def _say_of(say: Say, design: str, text: str) -> None:
    say(f"{design}, {text}")


def _rounds(
    fleet: Fleet, made: Work, sample: Sequence[int], repeats: int, say: Say
) -> tuple[dict[str, list[Answer]], list[float]]:
    """Answers of every engine, round by round, in an order that rotates; seconds of the prefills around `packed`."""
    answers: dict[str, list[Answer]] = {engine.name: [] for engine in fleet.engines}
    prefill = []
    for number in range(repeats):
        first = number % len(fleet.engines)
        for engine in fleet.engines[first:] + fleet.engines[:first]:
            engine.child.ask("reset")
            answers[engine.name].append(engine.read(made, sample if engine.name in SLOW else None))
            say(f"round {number + 1} of {repeats}: {engine.name} {answers[engine.name][-1].seconds:.3g} s")
            if engine.name == "packed":
                prefill.append(fleet.prefill(made))
    return answers, prefill


def _row(
    engine: Engine, design: str, made: Work, answers: Sequence[Answer], sample: Sequence[int], truth: FloatArray
) -> Row:
    count = len(made.queries)
    scaled = len(answers[0].logp) < count
    factor = count / len(answers[0].logp)
    rounds = tuple(answer.seconds for answer in answers)
    logp = np.stack([answer.logp if scaled else answer.logp[list(sample)] for answer in answers])
    computed, peaks = answers[0].computed_tokens, [a.peak_mib for a in answers if a.peak_mib is not None]
    return Row(
        engine=engine.name,
        design=design,
        seconds=statistics.median(rounds) * factor,
        prompts=count,
        tokens=made.tokens,
        unique_tokens=made.unique_tokens,
        computed_tokens=None if computed is None else round(computed * factor),
        hit_rate=answers[0].hit_rate,
        peak_mib=statistics.median(peaks) if peaks else None,
        max_nats=float(np.abs(logp - truth).max()),
        scaled_from=len(sample) if scaled else None,
        rounds=rounds,
        settings=engine.settings,
    )
