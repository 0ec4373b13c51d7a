"""Judges that vLLM runs: one request for each place to read, prefixes cached, the head and its logits in float32.

Only the tokens that are asked for come back, at most 128 a request, and the greedy one; a place whose other tokens
matter (the digits behind "1" where "10" is an option, too) gets their probability as 1 minus the sum. The first prompt
of every item is asked for its 20 most probable tokens, too.
"""

from __future__ import annotations

import json
import logging
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from logitjudge.backends import Query, Trace, devices
from logitjudge.backends._asked import MOST_IDS, SMALLEST, TOP, Request, Served, requests, trace
from logitjudge.backends._harvest import Harvest, resolved
from logitjudge.backends.hf import open_tokenizer
from logitjudge.backends.hf.facts import of_tokenizer
from logitjudge.backends.hf.load import quiet
from logitjudge.backends.hf.tokenizer import HFTokenizer
from logitjudge.core import Readings
from logitjudge.errors import ModelError
from logitjudge.models import ModelSpec, gpus_for, weights
from logitjudge.tokens import Path

PROVEN = 8  # prompts that are read with cached prefixes and without before a run
FIELDS = ("logprob_token_ids", "skip_reading_prefix_cache")  # of SamplingParams, without which there are no readings
VERSION = "0.32"
INSTALL = "bash scripts/install_vllm.sh makes an environment that has both: .venv-vllm/bin/logitjudge"
BUDGET = 1 << 18  # tokens of one batch: vLLM cuts its passes itself, a batch is what a kill loses
ALIKE = {"float32": 1e-3}  # nats between a cached and a fresh prefix; others as below
ALIKE_ROUNDED = 0.5


@dataclass(frozen=True, slots=True)
class Some:
    """A place of which some tokens are seen.

    Parameters
    ----------
    logp
        Token -> log-probability, in nats over the full vocabulary.
    best
        The most probable tokens, best first, as far as they are known.

    Examples
    --------
    >>> seen = Some({7: math.log(0.5), 8: math.log(0.25)}, best=(7,))
    >>> round(math.exp(seen.rest([7])), 3), round(math.exp(seen.rest([7, 8])), 3)
    (0.5, 0.25)
    """

    logp: Mapping[int, float]
    best: Path = ()

    def has(self, token: int) -> bool:
        """Every token that was asked for is seen."""
        return token in self.logp

    def of(self, ids: Sequence[int]) -> list[float]:
        """Those of some tokens."""
        return [self.logp[token] for token in ids]

    def rest(self, ids: Sequence[int]) -> float:
        """Log of the probability of all other tokens together: what the sum leaves, and no less than those that are seen."""
        probs = {token: math.exp(logp) for token, logp in self.logp.items()}
        others = math.fsum(prob for token, prob in probs.items() if token not in ids)
        return math.log(max(SMALLEST, others, 1 - math.fsum(probs[token] for token in ids)))

    def top(self, count: int) -> list[tuple[int, float]]:
        """The most probable tokens, as far as they are known: the greedy one always is."""
        return [(token, self.logp[token]) for token in self.best[:count]]

    def joined(self, logp: Mapping[int, float], best: Path) -> Some:
        """With what another request for the same place says."""
        return Some({**self.logp, **logp}, max(self.best, best, key=len))


def open(spec: ModelSpec) -> VLLMJudge:  # noqa: A001  (the protocol's name)
    """Start vLLM's offline engine. Raises `ModelError` where it does not start."""
    vllm = check(spec)
    tokenizer, options = open_tokenizer(spec), _options(spec, vllm)
    torch.cuda.empty_cache()  # vLLM takes a share of what is free; nothing where no GPU is in use
    try:
        with quiet():
            llm = vllm.LLM(str(spec.path or spec.name), **options)
    except Exception as error:  # an engine that does not start may say so in any way
        raise ModelError(
            f"vLLM cannot start {spec.shown_name}: {type(error).__name__}: {_first_line(error)}. "
            "Give it other --model-kwargs (max_model_len, gpu_memory_utilization ...), or use --backend hf."
        ) from error
    return VLLMJudge(llm, tokenizer, options, vllm)


def again(judge: VLLMJudge, spec: ModelSpec) -> VLLMJudge:
    """A judge on the engine of another, of a later date or with another chat template."""
    tokenizer = judge.tokenizer.again(spec.chat_template, spec.date, spec.thinks)
    return VLLMJudge(judge.llm, tokenizer, judge.settings, judge.package)


def check(spec: ModelSpec) -> Any:
    """The package vllm, if it can read this judge with these settings. Raises `ModelError` otherwise."""
    if spec.kind not in ("hub", "folder"):
        raise ModelError(f"vLLM reads hub ids and model folders, not {spec.shown_name!r}. Use --backend hf.")
    if spec.adapter:
        raise ModelError("adapters are read by --backend hf; merge this one into its model for vLLM.")
    _environment()
    try:
        import vllm
    except ImportError as error:
        raise ModelError(f"the backend 'vllm' needs the package vllm in this Python: {error}. {INSTALL}.") from error
    known = getattr(vllm.SamplingParams, "__struct_fields__", ())
    if lacking := [name for name in FIELDS if name not in known]:
        raise ModelError(
            f"vLLM {vllm.__version__} cannot read chosen tokens (it has no {lacking[0]}). Install vLLM {VERSION} or newer."
        )
    _options(spec, vllm)
    return vllm


def _environment() -> None:
    """What vLLM reads from the environment when it is imported; what the user has set stays."""
    verbose = logging.getLogger("logitjudge").isEnabledFor(logging.INFO)
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "INFO" if verbose else "ERROR")
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")  # stdout belongs to results
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
    if hasattr(os, "sched_getaffinity"):  # by default vLLM leaves a core out
        cores = ",".join(map(str, sorted(os.sched_getaffinity(0))))
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", cores)


def _options(spec: ModelSpec, vllm: Any) -> dict[str, Any]:
    """Keywords of vllm.LLM; the user's come last, and cannot change what makes readings right."""
    kind: str = vllm.platforms.current_platform.device_type
    if spec.device not in ("auto", kind):
        advice = " CUDA_VISIBLE_DEVICES picks a GPU." if spec.device.startswith(f"{kind}:") else ""
        raise ModelError(f"this vLLM runs on {kind}, not on {spec.device}. Leave --device out.{advice}")
    fixed = {"logprobs_mode": "raw_logprobs", "enable_prefix_caching": True, "max_logprobs": MOST_IDS}
    if clash := sorted(fixed.keys() & spec.model_kwargs.keys()):
        raise ModelError(f"--model-kwargs {clash[0]!r} is what makes readings right; leave it out.")
    overrides = {"head_dtype": "float32", **spec.model_kwargs.get("hf_overrides", {})}
    cpu = kind == "cpu"
    free = {"block_size": 32 if cpu else 16, "enforce_eager": cpu, "disable_log_stats": True, "use_tqdm_on_load": False}
    if not cpu and len(memory := devices.gpus()) > 1 and (size := weights(spec)):
        free["tensor_parallel_size"] = gpus_for(size, memory)
    source = {"dtype": spec.dtype, "revision": spec.revision, "trust_remote_code": spec.trust_remote_code}
    return {**source, **free, **spec.model_kwargs, **fixed, "hf_overrides": overrides}


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or ["no reason given"])[0].rstrip(".")


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
    package
        The module ``vllm``.
    """

    llm: Any
    tokenizer: HFTokenizer
    settings: Mapping[str, Any]
    package: Any
    served: Served = field(default_factory=Served)
    proof: dict[str, Any] = field(default_factory=lambda: {"ok": False, "reason": "not proven yet"})

    @property
    def max_length(self) -> int | None:
        """Tokens of the longest sequence that can be read: its last token is never fed, but told."""
        return int(self._config.max_model_len)

    @property
    def vocabulary(self) -> int | None:
        """Token ids that the weights know."""
        return int(self._config.get_vocab_size())

    @property
    def _config(self) -> Any:
        return self.llm.llm_engine.model_config

    @property
    def _dtype(self) -> str:
        return str(self._config.dtype).removeprefix("torch.")

    def provenance(self) -> Mapping[str, Any]:
        """Settings, hashes, prompts a second, and the share of tokens that were found in the cache."""
        import transformers

        kind = self.package.platforms.current_platform.device_type
        versions = {"vllm": self.package.__version__, "torch": torch.__version__}
        return {
            "device": kind,
            "dtype": self._dtype,
            "head": str(self._config.head_dtype).removeprefix("torch."),
            "path": "vllm",
            "proof": self.proof,
            "versions": {**versions, "transformers": transformers.__version__},
            "vllm": json.loads(json.dumps(self.settings, default=str)),
            "threads": os.environ.get("VLLM_CPU_OMP_THREADS_BIND") if kind == "cpu" else None,
            "tokenizer_hash": self.tokenizer.hash(),
            "chat_template_hash": self.tokenizer.template_hash(),
            "system_folded": self.tokenizer.system_folded,
            **self.served.rates(),
        }

    def facts(self) -> Mapping[str, Any]:
        """What `doctor` wants to know of tokenizer and chat template."""
        return of_tokenizer(self.tokenizer._tokenizer, self.tokenizer._template)

    def prepare(self, longest: Sequence[Query], shortest: Sequence[Query]) -> None:
        """Read some of the longest prompts with cached prefixes and without: the largest difference is the proof.

        Raises
        ------
        ModelError
            They are further apart than rounding makes them.
        """
        queries = longest[:PROVEN]
        cached, fresh = self.read(queries, BUDGET), self.read_plain(queries)
        nats = float(abs(cached.logp - fresh.logp).max())
        limit = ALIKE.get(self._dtype, ALIKE_ROUNDED)
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
        """Read queries; vLLM itself sees to it that its passes fit."""
        start = time.perf_counter()
        found = Harvest(queries, self.tokenizer.decode)
        seen = self._seen(requests(queries, found.nodes), fresh=False)
        first = firsts(queries)
        contexts = [resolved(queries[number]).context for number in first]
        outputs = self._generate(contexts, fresh=False, asked=[{"logprobs": TOP}] * len(first))
        for number, output in zip(first, outputs, strict=True):
            logp = _logp(output)
            seen[number, ()] = seen[number, ()].joined(logp, tuple(sorted(logp, key=lambda token: -logp[token])))
        self.served.prompts += len(queries)
        self.served.seconds += time.perf_counter() - start
        return found.take(seen.items()).readings()

    def read_plain(self, queries: Sequence[Query]) -> Readings:
        """Read queries again without cached prefixes, each alone."""
        return Readings.join([self._alone(query) for query in queries])

    def generate(
        self, contexts: Sequence[Path], marker: str, most: int, temperature: float = 0.0, seeds: Sequence[int] = ()
    ) -> list[Trace]:
        """Texts behind contexts, each up to the marker or at most so many tokens."""
        stop = {"stop": [marker], "include_stop_str_in_output": True} if marker else {}
        common = {"max_tokens": most, "temperature": temperature, "skip_special_tokens": False, **stop}
        drawn = [{"seed": seed} for seed in seeds] if temperature else [{}] * len(contexts)
        params = [self.package.SamplingParams(**common, **each) for each in drawn]
        written = [output.outputs[0] for output in self._outputs(contexts, params)]
        return [trace(self.tokenizer, w.token_ids, w.finish_reason, marker, self._ends) for w in written]

    @property
    def _ends(self) -> set[int]:
        """Tokens that end an answer."""
        known = self._config.try_get_generation_config().get("eos_token_id")
        return {self.tokenizer.end_token, *(known if isinstance(known, list) else [known])} - {None}

    def _alone(self, query: Query) -> Readings:
        found = Harvest([query], self.tokenizer.decode)
        return found.take(self._seen(requests([query], found.nodes), fresh=True).items()).readings()

    def _seen(self, asked: Sequence[Request], fresh: bool) -> dict[tuple[int, Path], Some]:
        """What is seen at each place of each query."""
        wanted = [{"logprob_token_ids": list(request.wanted)} for request in asked]
        seen: dict[tuple[int, Path], Some] = {}
        for request, output in zip(asked, self._generate([each.ids for each in asked], fresh, wanted), strict=True):
            before = seen.get((request.number, request.path), Some({}))
            seen[request.number, request.path] = before.joined(_logp(output), tuple(output.outputs[0].token_ids))
        return seen

    def _generate(
        self, prompts: Sequence[Sequence[int]], fresh: bool, asked: Sequence[Mapping[str, Any]]
    ) -> Sequence[Any]:
        """One greedy token behind each prompt, and the log-probabilities that are asked for there."""
        common = {"max_tokens": 1, "temperature": 0.0, "detokenize": False, "skip_reading_prefix_cache": fresh}
        outputs = self._outputs(prompts, [self.package.SamplingParams(**common, **each) for each in asked])
        if not fresh:
            self.served.tokens += sum(map(len, prompts))
            self.served.cached = (self.served.cached or 0) + sum(output.num_cached_tokens or 0 for output in outputs)
        return outputs

    def _outputs(self, prompts: Sequence[Sequence[int]], params: Sequence[Any]) -> Sequence[Any]:
        try:
            outputs = self.llm.generate([{"prompt_token_ids": list(ids)} for ids in prompts], params, use_tqdm=False)
        except (torch.OutOfMemoryError, MemoryError) as error:
            raise ModelError(
                f"vLLM is out of memory: {_first_line(error)}. "
                """Leave it more: --model-kwargs '{"gpu_memory_utilization": 0.8, "max_num_seqs": 64}'"""
            ) from error
        return list(outputs)


def firsts(queries: Sequence[Query]) -> list[int]:
    """Number of the first query of each item."""
    ids = [query.item.id for query in queries]
    return [ids.index(name) for name in dict.fromkeys(ids)]


def _logp(output: Any) -> dict[int, float]:
    return {token: entry.logprob for token, entry in output.outputs[0].logprobs[0].items()}
