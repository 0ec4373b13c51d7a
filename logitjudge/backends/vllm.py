"""Judges that vLLM runs: one request for each place to read, prefixes cached, the head and its logits in float32.

Only the tokens that are asked for come back, at most 128 a request, and the greedy one; a place whose other tokens
matter (the digits behind "1" where "10" is an option, too) gets their probability as 1 minus the sum.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from logitjudge.backends import OutOfMemory, Query
from logitjudge.backends._harvest import Harvest, resolved
from logitjudge.backends.hf.load import load_tokenizer, quiet
from logitjudge.backends.hf.tokenizer import HFTokenizer
from logitjudge.core import Readings
from logitjudge.errors import ModelError
from logitjudge.models import ModelSpec
from logitjudge.tokens import Path

MOST_IDS = 128  # that vLLM takes as logprob_token_ids of one request
TOP = 20  # tokens that a sampled prompt is asked for
BUDGET = 1 << 18  # tokens of one batch: vLLM cuts its passes itself, a batch is what a kill loses
SMALLEST = 2.0**-24  # probability that float32 cannot tell from none, beside a sum near 1
ALIKE = {"float32": 1e-3}  # nats between a cached and a fresh prefix; others as below
ALIKE_ROUNDED = 0.5


@dataclass(frozen=True, slots=True)
class Some:
    """A place of which some tokens are seen."""

    logp: Mapping[int, float]

    def has(self, token: int) -> bool:
        """Every token that was asked for is seen."""
        return token in self.logp

    def of(self, ids: Sequence[int]) -> list[float]:
        """Those of some tokens."""
        return [self.logp[token] for token in ids]

    def rest(self, ids: Sequence[int]) -> float:
        """Log of the probability of all other tokens together: what the sum leaves."""
        return math.log(max(SMALLEST, 1 - math.fsum(math.exp(self.logp[token]) for token in ids)))

    def top(self, count: int) -> list[tuple[int, float]]:
        """The most probable ones: the greedy token is always among them."""
        return sorted(self.logp.items(), key=lambda pair: -pair[1])[:count]


@dataclass(frozen=True, slots=True)
class Request:
    """Tokens to read behind a sequence: the place `path` of query `number`."""

    number: int
    path: Path
    ids: Path
    wanted: tuple[int, ...]


@dataclass(slots=True)
class Served:
    """What the engine did so far."""

    prompts: int = 0
    tokens: int = 0
    cached: int = 0
    seconds: float = 0.0

    def rates(self) -> dict[str, float | None]:
        """Share of prompt tokens that were cached, and prompts a second."""
        return {
            "hit_rate": self.cached / self.tokens if self.tokens else None,
            "prompts_per_second": self.prompts / self.seconds if self.seconds else None,
        }


def open(spec: ModelSpec) -> VLLMJudge:  # noqa: A001  (the protocol's name)
    """Start vLLM's offline engine."""
    if spec.kind not in ("hub", "folder"):
        raise ModelError(f"vLLM reads hub ids and model folders, not {spec.shown_name!r}. Use --backend hf.")
    if spec.adapter:
        raise ModelError("adapters are read by --backend hf; merge this one into its model for vLLM.")
    vllm = _imported()
    tokenizer = HFTokenizer(load_tokenizer(spec), spec.chat_template, spec.date)
    options = _options(spec, vllm)
    try:
        with quiet():
            llm = vllm.LLM(str(spec.path or spec.name), **options)
    except Exception as error:  # an engine that does not start may say so in any way
        raise ModelError(
            f"vLLM cannot start {spec.shown_name}: {type(error).__name__}: {_first_line(error)}. "
            "Give it other --model-kwargs (max_model_len, gpu_memory_utilization ...), or use --backend hf."
        ) from error
    return VLLMJudge(llm, tokenizer, {**options, "version": vllm.__version__}, vllm.SamplingParams)


def open_tokenizer(spec: ModelSpec) -> HFTokenizer:
    """Load the tokenizer of a judge, without its weights."""
    return HFTokenizer(load_tokenizer(spec), spec.chat_template, spec.date)


def _imported() -> Any:
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    if hasattr(os, "sched_getaffinity"):  # by default vLLM leaves a core out
        cores = ",".join(map(str, sorted(os.sched_getaffinity(0))))
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", cores)
    try:
        import vllm
    except ImportError as error:
        raise ModelError(
            f"the backend 'vllm' needs the package vllm in this Python: {error}. bash scripts/install_vllm.sh makes an environment that has both."
        ) from error
    if "logprob_token_ids" not in getattr(vllm.SamplingParams, "__struct_fields__", ()):
        raise ModelError(
            f"vLLM {vllm.__version__} cannot read chosen tokens (it has no logprob_token_ids). Install vLLM 0.32 or newer."
        )
    return vllm


def _options(spec: ModelSpec, vllm: Any) -> dict[str, Any]:
    """Keywords of vllm.LLM; the user's come last, and cannot change what makes readings right."""
    kind = vllm.platforms.current_platform.device_type
    if spec.device != "auto" and not spec.device.startswith(kind):
        raise ModelError(f"this vLLM runs on {kind}, not on {spec.device}. Leave --device out.")
    cpu = kind == "cpu"
    if cpu:
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
    fixed = {"logprobs_mode": "raw_logprobs", "enable_prefix_caching": True, "max_logprobs": MOST_IDS}
    if clash := sorted(fixed.keys() & spec.model_kwargs.keys()):
        raise ModelError(f"--model-kwargs {clash[0]!r} is what makes readings right; leave it out.")
    overrides = {"head_dtype": "float32", **spec.model_kwargs.get("hf_overrides", {})}
    free = {"block_size": 32 if cpu else 16, "enforce_eager": cpu, "disable_log_stats": True}
    source = {"dtype": spec.dtype, "revision": spec.revision, "trust_remote_code": spec.trust_remote_code}
    return {**source, **free, **spec.model_kwargs, **fixed, "hf_overrides": overrides}


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or ["no reason given"])[0]


@dataclass(slots=True)
class VLLMJudge:
    """A causal LM read by vLLM.

    Parameters
    ----------
    llm
        A ``vllm.LLM``.
    tokenizer
        Its tokenizer.
    settings
        What it was started with.
    params
        ``vllm.SamplingParams``.
    """

    llm: Any
    tokenizer: HFTokenizer
    settings: Mapping[str, Any]
    params: Any
    served: Served = field(default_factory=Served)
    proof: dict[str, Any] = field(default_factory=lambda: {"ok": False, "reason": "not proven yet"})

    @property
    def max_length(self) -> int | None:
        """Tokens of the longest prompt and one more."""
        return int(self._config.max_model_len) - 1

    @property
    def _config(self) -> Any:
        return self.llm.llm_engine.model_config

    def provenance(self) -> Mapping[str, Any]:
        """Settings, hashes, and how often a prefix was found in the cache."""
        import transformers
        import vllm

        return {
            "device": vllm.platforms.current_platform.device_type,
            "dtype": str(self._config.dtype).removeprefix("torch."),
            "head": "float32",
            "path": "vllm",
            "proof": self.proof,
            "versions": {"vllm": vllm.__version__, "transformers": transformers.__version__},
            "vllm": {name: value for name, value in self.settings.items() if name != "version"},
            "threads": os.environ.get("VLLM_CPU_OMP_THREADS_BIND"),
            "tokenizer_hash": self.tokenizer.hash(),
            "chat_template_hash": self.tokenizer.template_hash(),
            "system_folded": self.tokenizer.system_folded,
            **self.served.rates(),
        }

    def prepare(self, longest: Sequence[Query], shortest: Sequence[Query]) -> None:
        """Read the longest prompts with cached prefixes and without: the largest difference is the proof."""
        cached = self.read(longest, BUDGET)
        fresh = self.read_plain(longest)
        nats = float(abs(cached.logp - fresh.logp).max())
        limit = ALIKE.get(str(self._config.dtype).removeprefix("torch."), ALIKE_ROUNDED)
        if not nats <= limit:
            raise ModelError(
                f"vLLM reads the same prompts {nats:.2g} nats apart with cached prefixes and without (at most {limit:g}). Use --backend hf."
            )
        self.proof = {"ok": True, "reason": "cached prefixes read as fresh ones", "nats": nats}
        self.served = Served()

    def token_budget(self) -> int:
        """Tokens, as written, of one batch."""
        return BUDGET

    def read(self, queries: Sequence[Query], budget: int) -> Readings:
        """Read queries; the first one's most probable tokens are asked for, too."""
        return self._read(queries, fresh=False)

    def read_plain(self, queries: Sequence[Query]) -> Readings:
        """Read queries again without cached prefixes, each alone."""
        return Readings.join([self._read([query], fresh=True) for query in queries])

    def _read(self, queries: Sequence[Query], fresh: bool) -> Readings:
        found = Harvest(queries, self.tokenizer.decode)
        asked = requests(queries, found.nodes)
        params = [self._params(fresh, logprob_token_ids=list(request.wanted)) for request in asked]
        seen: dict[tuple[int, Path], dict[int, float]] = {}
        outputs = self._generate([request.ids for request in asked], params)
        for request, output in zip(asked, outputs, strict=True):
            seen.setdefault((request.number, request.path), {}).update(_logp(output))
        sampled = self._generate([resolved(queries[0]).context], [self._params(fresh, logprobs=TOP)])
        for token, logp in _logp(sampled[0]).items():
            seen[0, ()].setdefault(token, logp)
        for (number, path), logps in seen.items():
            found.add(number, path, Some(logps))
        return found.readings()

    def _params(self, fresh: bool, **asked: Any) -> Any:
        return self.params(max_tokens=1, temperature=0.0, detokenize=False, skip_reading_prefix_cache=fresh, **asked)

    def _generate(self, prompts: Sequence[Sequence[int]], params: Sequence[Any]) -> list[Any]:
        start = time.perf_counter()
        try:
            outputs = self.llm.generate([{"prompt_token_ids": list(ids)} for ids in prompts], params, use_tqdm=False)
        except MemoryError as error:
            raise OutOfMemory(str(error)) from error
        self.served.seconds += time.perf_counter() - start
        self.served.prompts += len(prompts)
        self.served.tokens += sum(map(len, prompts))
        self.served.cached += sum(output.num_cached_tokens or 0 for output in outputs)
        return list(outputs)


def requests(
    queries: Sequence[Query], nodes: Sequence[Mapping[Path, Sequence[int]]], most: int = MOST_IDS
) -> list[Request]:
    """What to ask for; tokens beyond the limit of one request go into further requests for the same place."""
    made = []
    for number, query in enumerate(queries):
        tokens = resolved(query)
        for path, begins in nodes[number].items():
            aliases = [token for ids in tokens.aliases for token in ids] if path == () else []
            wanted = (*begins, *aliases)
            for start in range(0, len(wanted), most):
                made.append(Request(number, path, tokens.context + path, wanted[start : start + most]))
    return made


def _logp(output: Any) -> dict[int, float]:
    return {token: entry.logprob for token, entry in output.outputs[0].logprobs[0].items()}
