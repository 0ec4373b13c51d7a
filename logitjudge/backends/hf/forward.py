"""One forward pass of a causal LM: float32 log-probabilities over the full vocabulary at the places asked for."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from transformers import DynamicCache

from logitjudge.backends import OutOfMemory
from logitjudge.backends.hf.head import can_hook, float32_head

_FULL = ("out of memory", "not enough memory", "can't allocate memory", "failed to allocate")


@contextlib.contextmanager
def memory_guard() -> Iterator[None]:
    """Name every device's way of running out of memory `OutOfMemory`."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise OutOfMemory(str(error)) from error
    except RuntimeError as error:
        if any(sign in str(error).lower() for sign in _FULL):
            raise OutOfMemory(str(error)) from error
        raise


class Forward:
    """Calls the model itself, never a part of it, so that its own post-processing of logits is kept.

    Parameters
    ----------
    model
        A transformers causal LM.
    exact_head
        Compute the output projection in float32.
    """

    def __init__(self, model: Any, exact_head: bool = True) -> None:
        self.model = model
        self.exact_head = exact_head and can_hook(model)
        self.device = model.get_input_embeddings().weight.device
        if self.device.type == "meta":  # offloaded: accelerate moves inputs itself
            self.device = torch.device("cpu")
        spread = len(set((getattr(model, "hf_device_map", None) or {}).values())) > 1
        self._keep_device = torch.device("cpu") if spread else self.device  # the last layers may be on another device
        names = inspect.signature(model.forward).parameters
        self._cache_name = "cache" if "cache" in names else "past_key_values"  # transformers 5.24 renamed it
        self._keeps = "logits_to_keep" in names
        self._ropes = [m for m in model.modules() if "dynamic" in str(getattr(m, "rope_type", ""))]

    def tensor(self, values: Sequence[Any]) -> torch.Tensor:
        """An integer tensor where the model takes its inputs."""
        return torch.tensor(values, dtype=torch.long, device=self.device)

    @torch.inference_mode()
    def logp(
        self, ids: torch.Tensor, keep: Sequence[int], cache: DynamicCache | None = None, **inputs: Any
    ) -> torch.Tensor:
        """(B, len(keep), V) natural log-probabilities behind the tokens at the places `keep` of every row."""
        return torch.log_softmax(self._logits(ids, keep, cache, self.exact_head, inputs).float(), dim=-1)

    @torch.inference_mode()
    def fill(self, ids: torch.Tensor, cache: DynamicCache, **inputs: Any) -> None:
        """Run tokens for their keys and values only: the head is the model's own, at one place, and what it says is dropped."""
        self._logits(ids, [ids.shape[1] - 1], cache, False, inputs)  # no model takes an empty list of places

    def _logits(
        self,
        ids: torch.Tensor,
        keep: Sequence[int],
        cache: DynamicCache | None,
        exact: bool,
        inputs: dict[str, Any],
    ) -> torch.Tensor:
        if cache is not None:
            inputs |= {self._cache_name: cache, "use_cache": True}
        else:
            inputs |= {"use_cache": False}
        if self._keeps:
            inputs["logits_to_keep"] = torch.tensor(keep, dtype=torch.long, device=self._keep_device)
        self._forget_lengths()
        with memory_guard(), float32_head(self.model) if exact else contextlib.nullcontext():
            logits: torch.Tensor = self.model(input_ids=ids, **inputs).logits
            return logits if self._keeps else logits[:, list(keep)]

    def _forget_lengths(self) -> None:
        """Let no prompt move a shorter one: a dynamic rope keeps the frequencies of the longest that it has met."""
        for rope in self._ropes:
            for name in [name for name in vars(rope) if name.endswith("max_seq_len_cached")]:
                setattr(rope, name, 0)

    def trunk(self, ids: Sequence[int]) -> DynamicCache:
        """Keys and values of a prefix, in a cache without the configuration: windows stay in the mask."""
        cache = DynamicCache()
        self.fill(self.tensor([ids]), cache)
        if cache.get_seq_length() != len(ids):
            raise RuntimeError(
                f"the cache holds {cache.get_seq_length()} of {len(ids)} tokens: this model ignores the cache it is given"
            )
        return cache
