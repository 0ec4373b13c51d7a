"""Judges that transformers runs: hub ids, folders, GGUF files, loaded models."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch
import transformers

from logitjudge.backends import OutOfMemory, Query, Trace
from logitjudge.backends._harvest import Harvest
from logitjudge.backends.hf.facts import facts, longest
from logitjudge.backends.hf.forward import Forward
from logitjudge.backends.hf.generate import generate
from logitjudge.backends.hf.load import load, load_tokenizer, quiet
from logitjudge.backends.hf.packed import run_packed
from logitjudge.backends.hf.plain import run_plain
from logitjudge.backends.hf.proof import Ground, Proof, Run, prove
from logitjudge.backends.hf.sequences import Row, seen, sequences
from logitjudge.backends.hf.shared import run_shared
from logitjudge.backends.hf.tokenizer import HFTokenizer
from logitjudge.core import Readings
from logitjudge.errors import ModelError, NotFinite
from logitjudge.models import ModelSpec
from logitjudge.tokens import Path

PATHS: dict[str, Run] = {"packed": run_packed, "shared": run_shared}  # fastest first; plain needs no proof
MOST = {  # tokens of one pass, (CPU, GPU): what more would cost in masked attention or in cache misses, it does not bring
    "packed": (2_048, 4_096),
    "shared": (8_192, 65_536),
}
PLACES = 256  # of a text whose likelihood is read at once
HEAD_TOLERANCE = {torch.float32: 1e-4, torch.float16: 0.05, torch.bfloat16: 0.4}  # nats, over likely tokens
HEAD_SLOPE = (
    0.01  # of the whole vocabulary: where a model's logits lie close together, the nats above hide a wrong scale
)


def open(spec: ModelSpec) -> HFJudge:  # noqa: A001  (the protocol's name)
    """Load a judge."""
    model, tokenizer = load(spec)
    return HFJudge(model, HFTokenizer(tokenizer, spec.chat_template, spec.date, spec.thinks), spec.timeout)


def again(judge: HFJudge, spec: ModelSpec) -> HFJudge:
    """A judge with the weights of another, of a later date or with another chat template."""
    return HFJudge(judge.model, judge.tokenizer.again(spec.chat_template, spec.date, spec.thinks), spec.timeout)


def open_tokenizer(spec: ModelSpec) -> HFTokenizer:
    """Load the tokenizer of a judge, without its weights."""
    return HFTokenizer(load_tokenizer(spec), spec.chat_template, spec.date, spec.thinks)


class HFJudge:
    """A causal LM read by forward passes.

    Parameters
    ----------
    model
        A transformers causal LM in evaluation mode.
    tokenizer
        Its tokenizer.
    timeout
        Seconds that a text may take which it writes; None: any.
    """

    def __init__(self, model: Any, tokenizer: HFTokenizer, timeout: float | None = None) -> None:
        self.tokenizer = tokenizer
        self.model = model
        self.forward = Forward(model)
        self.path = "plain"
        self.proof = Proof(False, "not proven yet")
        self.refused_paths: list[dict[str, str]] = []
        self.tokens_per_second: float | None = None
        self.max_length = longest(model.config)
        self.vocabulary: int | None = model.get_input_embeddings().weight.shape[0]
        self.timeout = timeout
        self.room = (
            MOST["shared"][self.forward.device.type == "cuda"] * 2
        )  # tokens of the texts that are written at once

    def provenance(self) -> Mapping[str, Any]:
        """Device, dtype, path and proof, hashes of tokenizer and chat template."""
        return {
            "device": str(self.forward.device),
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "attention": getattr(self.model.config, "_attn_implementation", None),
            "head": "float32" if self.forward.exact_head else "the model's own",
            "path": self.path,
            "proof": asdict(self.proof),
            "refused_paths": self.refused_paths,
            "threads": torch.get_num_threads(),
            "tokens_per_second": self.tokens_per_second,
            **({} if self.timeout is None else {"timeout": self.timeout}),
            "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
            "tokenizer_hash": self.tokenizer.hash(),
            "chat_template_hash": self.tokenizer.template_hash(),
            "system_folded": self.tokenizer.system_folded,
        }

    def facts(self) -> Mapping[str, Any]:
        """What `doctor` wants to know: bytes of weights and of free memory, what tokenizer and chat template do."""
        return facts(self.model, self.tokenizer._tokenizer, self.tokenizer._template, self.forward.device)

    def prepare(self, longest: Sequence[Query], shortest: Sequence[Query]) -> None:
        """Check the float32 head against the model's own logits, and take the fastest path that is proven."""
        self.path, self.proof, self.refused_paths = "plain", Proof(True, "every prompt alone"), []
        for name, proof in self.proofs(longest, shortest):
            if proof.ok:
                self.path, self.proof = name, proof
                return
            self.refused_paths.append({"path": name, "reason": proof.reason})

    def _pace(self, ids: Sequence[int]) -> float:
        """Tokens a second of one prompt alone."""
        start = time.perf_counter()
        self.forward.logp(self.forward.tensor([ids]), [len(ids) - 1]).cpu()
        return len(ids) / (time.perf_counter() - start)

    def proofs(self, longest: Sequence[Query], shortest: Sequence[Query]) -> Iterator[tuple[str, Proof]]:
        """Check the float32 head and take the pace, then prove path after path, the fastest first."""
        long, short = sequences(longest), sequences(shortest)
        self._check_head(short[0].ids)
        self.tokens_per_second = self._pace(long[0].ids)
        ground = Ground(self.forward, long, short)
        for name, run in PATHS.items():
            with quiet():
                proof = prove(run, ground)
            yield name, proof

    def _check_head(self, ids: Sequence[int]) -> None:
        """The float32 head must be the model's own head, but for rounding; otherwise the model's own is used."""
        if not self.forward.exact_head:
            return
        own = Forward(self.model, exact_head=False)
        inputs = self.forward.tensor([ids])
        ours, theirs = (f.logp(inputs, [len(ids) - 1])[0, 0] for f in (self.forward, own))
        if not torch.isfinite(ours).all():
            raise NotFinite("the model's log-probabilities are not finite. Try --dtype float32, or check the weights.")
        likely = ours.topk(min(20, len(ours))).indices
        near = float((ours - theirs)[likely].abs().max()) <= HEAD_TOLERANCE.get(self.model.dtype, 0.4)
        if not (near and abs(_slope(ours, theirs) - 1) <= HEAD_SLOPE):
            self.forward = own

    def token_budget(self) -> int:
        """Tokens of one pass, from the memory that is free: keys, values and activations, a quarter of it at most."""
        text = self.model.config.get_text_config()
        width = getattr(text, "hidden_size", 1024) * 24 + getattr(text, "num_hidden_layers", 24) * 1024
        device = self.forward.device.type
        free = torch.cuda.mem_get_info()[0] if device == "cuda" else 4 << 30
        most = MOST[self.path if self.path in MOST else "shared"][device == "cuda"]
        return int(max(min(2_048, most), min(most, free // 4 // (2 * width))))

    def read(self, queries: Sequence[Query], budget: int) -> Readings:
        """Read queries by the proven path."""
        return self._harvest(queries, self.run(queries, budget))

    def run(self, queries: Sequence[Query], budget: int) -> Iterator[tuple[Row, torch.Tensor]]:
        """Run queries by the path that was chosen; what comes out is for `sequences.seen`."""
        rows = sequences(queries)
        if self.path == "packed":
            return run_packed(self.forward, rows, budget)
        if self.path == "shared":
            return run_shared(self.forward, rows, budget, [query.item.id for query in queries])
        return run_plain(self.forward, rows, budget)

    def read_plain(self, queries: Sequence[Query]) -> Readings | None:
        """Read queries by the plain path; None where `read` does so itself."""
        if self.path == "plain":
            return None
        return self._harvest(queries, run_plain(self.forward, sequences(queries), 0))

    def generate(
        self, contexts: Sequence[Path], marker: str, most: int, temperature: float = 0.0, seeds: Sequence[int] = ()
    ) -> list[Trace]:
        """Texts behind contexts, each up to the marker or at most so many tokens; out of memory halves how many at once."""
        while True:
            try:
                return generate(
                    self.forward, self.tokenizer, contexts, marker, most, self.room,
                    temperature=temperature, seeds=seeds, timeout=self.timeout,
                )  # fmt: skip
            except OutOfMemory as error:
                if self.room < max(map(len, contexts)) + most:  # they are written one by one already
                    raise ModelError(
                        f"the device is out of memory with one text at a time: {error}. Use another --device, a smaller --dtype "
                        "or --max-new-tokens."
                    ) from error
            self.room //= 2
            warnings.warn(f"out of memory: texts are written {self.room} tokens at once.", stacklevel=2)

    def likelihoods(self, contexts: Sequence[Path], texts: Sequence[Path]) -> list[float]:
        """Mean log-probability of each text behind its context (B,), in nats a token: one plain forward each."""
        return [self._likelihood(context, text) for context, text in zip(contexts, texts, strict=True)]

    def _likelihood(self, context: Path, text: Path) -> float:
        ids, total = self.forward.tensor([[*context, *text]]), 0.0
        for begin in range(0, len(text), PLACES):  # the whole vocabulary is kept at each place
            tail = text[begin : begin + PLACES]
            places = [len(context) - 1 + begin + n for n in range(len(tail))]
            logp = self.forward.logp(ids, places)[0]
            total += float(logp.gather(1, self.forward.tensor([[t] for t in tail]).to(logp.device)).double().sum())
        return total / len(text)

    def _harvest(self, queries: Sequence[Query], rows: Any) -> Readings:
        return Harvest(queries, self.tokenizer.decode).take(seen(rows)).readings()


def _slope(one: torch.Tensor, other: torch.Tensor) -> float:
    """By how much `one` rises, on average over the vocabulary, where `other` rises by 1: what a wrong scale changes."""
    one, other = one - one.mean(), other - other.mean()
    return float((one @ other) / (other @ other))
