#!/usr/bin/env python3
"""Worker of `logitjudge bench` for engines that live in environments of their own: vLLM and lm-evaluation-harness.

python scripts/bench_engine.py --engine vllm|lm_eval --model PATH --dtype bfloat16 --device cpu [--max-batch-tokens N]

`logitjudge bench` starts it with the Python of .venv-vllm or .venv-lmeval and speaks to it in JSON lines; it imports
nothing of logitjudge. It says ``{"ready": true, "settings": {...}}`` when the model is loaded, and then answers ``warm``,
``reset`` (forget cached prefixes), ``stop``, and ``read``: ``{"prompts": [{"context": [ids], "tails": [[ids], ...]}]}`` ->
``{"seconds", "peak_mib", "computed_tokens", "logp"}``, where logp is (prompts, K), the natural log-probability of every
tail over the full vocabulary.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, Protocol

Ids = tuple[int, ...]
Json = dict[str, Any]
MOST_IDS = 128  # that vLLM takes as logprob_token_ids of one request


class Engine(Protocol):
    """What the loop below needs."""

    settings: Json

    def read(self, prompts: Sequence[Json]) -> tuple[list[list[float]], int | None]:
        """(prompts, K) nats, and the prompt tokens that were computed."""

    def reset(self) -> None:
        """Forget cached prefixes."""


def places(prompts: Sequence[Json]) -> dict[Ids, list[int]]:
    """Token sequences behind which a model must be read -> the tokens wanted there, in sorted order of sequences.

    Examples
    --------
    >>> places([{"context": [1, 2], "tails": [[7], [8, 9]]}])
    {(1, 2): [7, 8], (1, 2, 8): [9]}
    """
    found: dict[Ids, list[int]] = {}
    for prompt in prompts:
        for tail in prompt["tails"]:
            for depth, token in enumerate(tail):
                wanted = found.setdefault((*prompt["context"], *tail[:depth]), [])
                if token not in wanted:
                    wanted.append(token)
    return dict(sorted(found.items()))


def tails_logp(prompts: Sequence[Json], read: Mapping[Ids, Mapping[int, float]]) -> list[list[float]]:
    """(prompts, K) nats of every tail, from what was read behind every place.

    Examples
    --------
    >>> tails_logp([{"context": [1], "tails": [[7], [8, 9]]}], {(1,): {7: -1.0, 8: -2.0}, (1, 8): {9: -0.5}})
    [[-1.0, -2.5]]
    """
    return [
        [
            sum(read[*prompt["context"], *tail[:depth]][token] for depth, token in enumerate(tail))
            for tail in prompt["tails"]
        ]
        for prompt in prompts
    ]


class VLLM:
    """vLLM's offline engine at its best: prefix caching, every core bound, float32 head, requests in sorted order."""

    def __init__(self, model: str, dtype: str, device: str, budget: int | None) -> None:
        cpu = device == "cpu"
        if cpu:
            cores = sorted(os.sched_getaffinity(0))
            os.environ.setdefault(
                "VLLM_CPU_OMP_THREADS_BIND", ",".join(map(str, cores))
            )  # by default it leaves one out
            os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # one process: its memory can be read
        from vllm import LLM, SamplingParams

        self._params = SamplingParams
        options: Json = {
            "block_size": 32 if cpu else 16,
            "enforce_eager": cpu,
            "enable_prefix_caching": True,
            "logprobs_mode": "raw_logprobs",
            "hf_overrides": {"head_dtype": "float32"},
        }
        if budget is not None:
            options["max_num_batched_tokens"] = budget
        self._llm = LLM(model, dtype=dtype, max_logprobs=MOST_IDS, disable_log_stats=True, **options)
        bound = {name: os.environ[name] for name in os.environ if name.startswith("VLLM_CPU")} if cpu else {}
        self.settings = {"vllm": version("vllm-cpu" if cpu else "vllm"), "dtype": dtype, **options, **bound}

    def reset(self) -> None:
        """Forget cached prefixes."""
        self._llm.reset_prefix_cache()

    def read(self, prompts: Sequence[Json]) -> tuple[list[list[float]], int | None]:
        """One request a place, all in one call."""
        wanted = places(prompts)
        requests = [{"prompt_token_ids": list(ids)} for ids in wanted]
        params = [self._asking(tokens) for tokens in wanted.values()]
        outputs = self._llm.generate(requests, params, use_tqdm=False)
        read = {
            ids: {token: found[token].logprob for token in tokens}
            for (ids, tokens), output in zip(wanted.items(), outputs, strict=True)
            for found in [output.outputs[0].logprobs[0]]
        }
        computed = sum(len(output.prompt_token_ids) - (output.num_cached_tokens or 0) for output in outputs)
        return tails_logp(prompts, read), computed

    def _asking(self, tokens: Sequence[int]) -> Any:
        if len(tokens) > MOST_IDS:
            raise ValueError(f"{len(tokens)} options: vLLM reads {MOST_IDS} tokens of one request")
        return self._params(max_tokens=1, temperature=0.0, logprob_token_ids=list(tokens), detokenize=False)


class LMEval:
    """lm-evaluation-harness's HFLM, asked for the log-likelihood of every option behind every prompt."""

    def __init__(self, model: str, dtype: str, device: str, budget: int | None) -> None:
        from lm_eval.models.huggingface import HFLM

        self._batch = 1 if device == "cpu" else "auto"  # on two cores, 4 and 8 were slower
        self._lm = HFLM(pretrained=model, dtype=dtype, device=device, batch_size=self._batch)
        self.settings = {"lm_eval": version("lm_eval"), "dtype": dtype, "batch_size": self._batch}

    def reset(self) -> None:
        """It keeps nothing from call to call."""

    def read(self, prompts: Sequence[Json]) -> tuple[list[list[float]], int | None]:
        """All options of a prompt share one forward where they are one token: its own cache of logits does that."""
        asked = [(("", ""), prompt["context"], list(tail)) for prompt in prompts for tail in prompt["tails"]]
        found = iter(self._lm._loglikelihood_tokens(asked, disable_tqdm=True))
        return [[next(found)[0] for _ in prompt["tails"]] for prompt in prompts], None


ENGINES: dict[str, Callable[[str, str, str, int | None], Engine]] = {"vllm": VLLM, "lm_eval": LMEval}


def answer(engine: Engine, request: Json) -> Json:
    """Do what a request asks for."""
    if request["op"] == "reset":
        engine.reset()
        return {}
    if request["op"] == "warm":
        return {}  # the parent reads two prompts next
    if request["op"] != "read":
        raise ValueError(f"unknown request {request['op']!r}")
    forget_peak()
    start = time.perf_counter()
    logp, computed = engine.read(request["prompts"])
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "peak_mib": peak_mib(), "computed_tokens": computed, "logp": logp}


def forget_peak() -> None:
    """Begin to look for the largest resident memory anew, where the system allows it."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak_mib() -> float:
    """Largest memory: of the GPU where torch holds one, else resident."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        return float((total - free) / 2**20)
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def serve(engine: Engine, requests: Iterable[str], replies: IO[str]) -> None:
    """Answer one request a line until ``stop``."""
    say(replies, {"ready": True, "settings": engine.settings})
    for line in requests:
        request = json.loads(line)
        if request["op"] == "stop":
            return
        try:
            say(replies, answer(engine, request))
        except Exception as error:  # whatever an engine raises is told to the parent, which stops
            say(replies, {"error": f"{type(error).__name__}: {error}"})


def say(replies: IO[str], value: Json) -> None:
    """Write one line."""
    replies.write(json.dumps(value) + "\n")
    replies.flush()


def main() -> int:
    """Open the engine and serve. What engines print goes to stderr: stdout belongs to the answers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", required=True, choices=sorted(ENGINES))
    parser.add_argument("--model", required=True)
    parser.add_argument("--dtype", required=True)
    parser.add_argument("--device", required=True)
    parser.add_argument("--max-batch-tokens", type=int)
    args = parser.parse_args()
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    engine = ENGINES[args.engine](args.model, args.dtype, args.device, args.max_batch_tokens)
    serve(engine, sys.stdin, replies)
    return 0


if __name__ == "__main__":
    sys.exit(main())
