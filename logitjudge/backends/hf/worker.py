"""The own engines of ``logitjudge bench`` as a child process that holds one judge: JSON lines in, JSON lines out.

``python -m logitjudge.backends.hf.worker --engine own --model M --dtype D --device DEV [--max-batch-tokens N]``

``plain`` runs prompts in padded batches, ``shared`` and ``packed`` are the paths of `run`, each with the budget that a run
would give it; ``alone`` is the plain forward of every prompt by itself, the oracle.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import IO, Any

import torch

from logitjudge import models
from logitjudge.backends import Query, hf
from logitjudge.backends._harvest import Harvest
from logitjudge.backends.hf.forward import Forward
from logitjudge.backends.hf.sequences import Row, seen, sequences
from logitjudge.backends.hf.shared import run_batched
from logitjudge.core import Item, Level, Ordering, Prompt, Rubric
from logitjudge.errors import InputError
from logitjudge.tokens import Resolved

Json = dict[str, Any]
TOLD = ("device", "dtype", "attention", "head", "threads", "versions")
MIB = 1 << 20


class Worker:
    """Answers requests with one judge.

    Parameters
    ----------
    judge
        The judge.
    budget
        Tokens of one forward pass; by default what a run would take on this machine.
    """

    def __init__(self, judge: hf.HFJudge, budget: int | None) -> None:
        self._judge = judge
        self._budget = budget
        self._cuda = judge.forward.device.type == "cuda"
        self._fed = 0
        judge.model.register_forward_pre_hook(self._count, with_kwargs=True)

    def _count(self, _: Any, args: tuple[Any, ...], inputs: Mapping[str, Any]) -> None:
        self._fed += inputs["input_ids"].numel()

    def settings(self) -> Json:
        """What the judge is and where it runs."""
        known = self._judge.provenance()
        return {**{name: known[name] for name in TOLD}, "max_length": self._judge.max_length}

    def answer(self, request: Json) -> Json:
        """Do what a request asks for."""
        does: dict[str, Callable[[Json], Json]] = {
            "prepare": self._do_prepare,
            "read": self._do_read,
            "prefill": self._do_prefill,
            "warm": self._do_warm,
            "reset": self._do_reset,
        }
        return does[request["op"]](request)

    def _do_prepare(self, request: Json) -> Json:
        """Prove the paths on the longest and the shortest prompts, as a run does, and say their budgets."""
        proofs = self._judge.proofs(*(_queries(request[which]) for which in ("longest", "shortest")))
        found: dict[str, Json] = {name: {"proof": asdict(proof)} for name, proof in proofs}
        for path in ("plain", *found):
            self._judge.path = path
            found.setdefault(path, {})["budget"] = self._budget or self._judge.token_budget()
        return {"paths": found}

    def _do_read(self, request: Json) -> Json:
        queries = _queries(request["prompts"])
        _forget_peak(self._cuda)
        self._fed, start = 0, perf_counter()
        logp: list[list[float]] = []
        for batch in _split(queries, request["batches"]):
            logp += self._read(request["path"], batch, request["budget"])
        seconds = perf_counter() - start
        return {"seconds": seconds, "peak_mib": _peak_mib(self._cuda), "computed_tokens": self._fed, "logp": logp}

    def _read(self, path: str, queries: Sequence[Query], budget: int) -> list[list[float]]:
        """(B, K) log-probability of every tail; all else that a run takes from a prompt is taken, too."""
        return Harvest(queries, self._judge.tokenizer.decode).take(seen(self._run(path, queries, budget))).tails()

    def _run(self, path: str, queries: Sequence[Query], budget: int) -> Iterator[tuple[Row, torch.Tensor]]:
        self._judge.path = "plain" if path == "alone" else path
        if path == "plain":
            return run_batched(self._judge.forward, sequences(queries), budget)
        return self._judge.run(queries, budget)

    def _do_prefill(self, request: Json) -> Json:
        """Time one plain forward of so many tokens: the prompt's, repeated and cut, with the model's own head."""
        ids = request["ids"] * (request["tokens"] // len(request["ids"]) + 1)
        forward = Forward(self._judge.model, exact_head=False)
        inputs = forward.tensor([ids[: request["tokens"]]])
        start = perf_counter()
        forward.logp(inputs, [request["tokens"] - 1])[0, 0, 0].item()  # a GPU is waited for
        return {"seconds": perf_counter() - start}

    def _do_warm(self, request: Json) -> Json:
        """Nothing: the first read and the proofs do it."""
        return {}

    def _do_reset(self, request: Json) -> Json:
        """Give back what an earlier engine left in the allocators."""
        gc.collect()
        if self._cuda:
            torch.cuda.empty_cache()
        elif sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
            libc.malloc_trim(0)
        return {}


def _queries(prompts: Sequence[Json]) -> list[Query]:
    """Prompts as the paths take them; what they do not look at is made up."""
    return [_query(str(prompt["item"]), prompt["context"], prompt["tails"]) for prompt in prompts]


def _query(item: str, context: Sequence[int], tails: Sequence[Sequence[int]]) -> Query:
    names = tuple(map(str, range(len(tails))))
    rubric = Rubric("bench", "bench", tuple(Level(k, name) for k, name in enumerate(names)))
    tokens = Resolved("", tuple(context), tuple(map(tuple, tails)), ((),) * len(tails))
    return Query(Item(item, {}), rubric, Ordering(tuple(range(len(tails)))), Prompt((), "", names), tokens)


def _split(queries: Sequence[Query], sizes: Sequence[int]) -> Iterator[Sequence[Query]]:
    start = 0
    for size in sizes:
        yield queries[start : start + size]
        start += size


def _forget_peak(cuda: bool) -> None:
    """Begin to look for the peak of memory anew, where the system lets us."""
    if cuda:
        torch.cuda.reset_peak_memory_stats()
        return
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak_mib(cuda: bool) -> float | None:
    """Most memory at once since `_forget_peak`: of the GPU, else resident; None where nobody counts."""
    if cuda:
        return torch.cuda.max_memory_allocated() / MIB
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), None)


def serve(requests: IO[str], answers: IO[str], worker: Worker) -> None:
    """Answer every line until one says stop; what goes wrong is an answer, too."""
    for line in requests:
        request = json.loads(line)
        if request["op"] == "stop":
            return
        try:
            reply = worker.answer(request)
        except Exception as error:  # the parent tells people
            reply = {"error": f"{type(error).__name__}: {error}"}
        _say(answers, reply)


def _say(answers: IO[str], reply: Json) -> None:
    answers.write(json.dumps(reply) + "\n")
    answers.flush()


def main() -> None:
    """Load the judge, say so, and serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", choices=["own"], required=True)
    for name in ("--model", "--dtype", "--device"):
        parser.add_argument(name, required=True)
    parser.add_argument("--max-batch-tokens", type=int)
    args = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print must not get among the answers
    try:
        judge = hf.open(models.parse(args.model, dtype=args.dtype, device=args.device))
    except InputError as error:
        return _say(answers, {"error": str(error), "input": True})
    worker = Worker(judge, args.max_batch_tokens)
    _say(answers, {"ready": True, "settings": worker.settings()})
    return serve(sys.stdin, answers, worker)


if __name__ == "__main__":
    main()
