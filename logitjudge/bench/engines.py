"""The engines of a bench, open: which child runs each, with which settings, and what plain float32 says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from logitjudge.bench.children import Child, WorkerError, python
from logitjudge.bench.work import Json, Work
from logitjudge.core import FloatArray
from logitjudge.errors import InputError, ModelError, unknown

OWN = ("plain", "shared", "packed")
FOREIGN = ("lm_eval", "vllm", "vllm_server")
SLOW = ("plain", "lm_eval")  # whose time is so many times that of one prompt, so that it can be scaled
WARM = 2  # prompts
PREFILL = 1_024  # tokens


@dataclass(frozen=True, slots=True)
class Judge:
    """The judge that all engines run: words of a worker's command line."""

    model: str
    dtype: str
    device: str
    budget: int | None

    def words(self) -> list[str]:
        """Options of a worker."""
        budget = [] if self.budget is None else ["--max-batch-tokens", str(self.budget)]
        return ["--model", self.model, "--dtype", self.dtype, "--device", self.device, *budget]


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What an engine read: seconds of the work alone, most memory meanwhile, (B, K) nats of every option's tail."""

    seconds: float
    peak_mib: float | None
    computed_tokens: int | None
    logp: FloatArray
    hit_rate: float | None = None


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine of a child; `budget`, tokens of one forward pass, is for own engines."""

    name: str
    child: Child
    settings: Mapping[str, Any]
    budget: int | None = None

    def read(self, work: Work, which: Sequence[int] | None = None) -> Answer:
        """Read the prompts of a design, or some."""
        prompts = work.prompts(which)
        own: Json = {}
        if self.budget is not None:
            own = {"path": self.name, "budget": self.budget, "batches": work.batches(self.name, self.budget, which)}
        reply = self.child.ask("read", prompts=prompts, **own)
        logp = np.array(reply["logp"], np.float64)
        if logp.shape != (len(prompts), len(prompts[0]["tails"])) or not np.isfinite(logp).all():
            raise WorkerError(
                f"the engine {self.name!r} gave {logp.shape} log-probabilities for {len(prompts)} prompts, or some are not finite."
            )
        return Answer(
            reply["seconds"], reply.get("peak_mib"), reply.get("computed_tokens"), logp, reply.get("hit_rate")
        )

    def warm(self, work: Work) -> None:
        """Let the engine do once what it does the first time only."""
        self.child.ask("warm")
        self.read(work, range(min(WARM, len(work.queries))))


@dataclass(frozen=True, slots=True)
class Fleet:
    """The child of the own engines, and all engines."""

    own: Child
    engines: tuple[Engine, ...]

    def prefill(self, work: Work) -> float:
        """Seconds of one plain forward of 1,024 tokens of real prompts, in the process that runs `packed`."""
        seconds: float = self.own.ask("prefill", tokens=PREFILL, ids=work.prompts([0])[0]["context"])["seconds"]
        return seconds


def check(names: Sequence[str]) -> None:
    """Raise `InputError` for an engine that does not exist, comes twice, or is not installed."""
    for n, name in enumerate(names):
        if name not in OWN + FOREIGN:
            raise InputError(unknown("engine", name, OWN + FOREIGN))
        if name in names[:n]:
            raise InputError(f"the engine {name!r} is named twice.")
        if name in FOREIGN:
            python(name)


@contextmanager
def opened(names: Sequence[str], judge: Judge, work: Work) -> Iterator[Fleet]:
    """Open engines one after the other, prove the own paths on the prompts of a design, and warm all up.

    Raises
    ------
    ModelError
        A path is not proven for this judge.
    """
    with ExitStack() as stack:
        own = stack.enter_context(Child("own", judge.words()))
        paths = own.ask("prepare", longest=work.of_item(True), shortest=work.of_item(False))["paths"]
        same = replace(judge, dtype=own.settings["dtype"], device=_device(judge, own))
        engines = []
        for name in names:
            if name in OWN:
                engines.append(_own(name, own, paths[name]))
            else:
                child = stack.enter_context(Child(name, same.words()))
                engines.append(Engine(name, child, child.settings))
            engines[-1].warm(work)
        fleet = Fleet(own, tuple(engines))
        fleet.prefill(work)
        yield fleet


def _device(judge: Judge, own: Child) -> str:
    """Where the foreign engines go: where the own ones went."""
    found: str = own.settings["device"]
    return judge.device if judge.device != "auto" else found.partition(":")[0]


def _own(name: str, child: Child, path: Json) -> Engine:
    if "proof" in path and not path["proof"]["ok"]:
        raise ModelError(
            f"the path {name!r} is not proven for this judge: {path['proof']['reason']}. Leave it out of --engines."
        )
    return Engine(name, child, {**child.settings, **path}, path["budget"])


def oracle(
    child: Child, works: Mapping[str, Work], samples: Mapping[str, Sequence[int]], say: Callable[[str], None]
) -> dict[str, FloatArray]:
    """(B, K) nats that the plain forward of every sampled prompt alone gives; prompts of two designs are read once."""
    known: dict[str, list[float]] = {}
    found = {}
    for design, work in works.items():
        prompts = {str(prompt): prompt for prompt in work.prompts(samples[design])}
        new = [prompt for key, prompt in prompts.items() if key not in known]
        if new:
            say(f"{design}: reading {len(new)} prompts in float32, each alone")
            answer = child.ask("read", prompts=new, path="alone", budget=0, batches=[1] * len(new))
            known.update(zip(map(str, new), answer["logp"], strict=True))
        found[design] = np.array([known[str(prompt)] for prompt in work.prompts(samples[design])])
    return found
