"""The output projection in float32.

A bf16 head quantises logits until different options come out equal. Within `float32_head` the output embeddings compute
the projection in float32, casting the weight in vocabulary chunks; the model's own soft-cap, scale or bias then runs in
float32 as well, so nothing of a model's post-processing is written again here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import nn

CHUNK = {"cpu": 512}  # vocabulary rows cast at a time: on a CPU what its cache holds; elsewhere as below
CHUNK_ELSEWHERE = 16_384


def can_hook(model: Any) -> bool:
    """Whether the head is a plain projection with weights in memory (not quantised, not offloaded)."""
    head = model.get_output_embeddings()
    weight = getattr(head, "weight", None)
    return (
        isinstance(head, nn.Linear)
        and weight is not None
        and weight.is_floating_point()
        and weight.device.type != "meta"
    )


@contextlib.contextmanager
def float32_head(model: Any) -> Iterator[None]:
    """Within the block, the model's logits start from a float32 projection."""
    head = model.get_output_embeddings()
    before = vars(head).get("forward")
    head.forward = partial(_project, head, head.forward)
    try:
        yield
    finally:
        if before is None:
            del head.forward
        else:
            head.forward = before


def _project(head: nn.Linear, own: Callable[[torch.Tensor], torch.Tensor], hidden: torch.Tensor) -> torch.Tensor:
    """(..., V) float32 logits; the head's own where these are float32 already."""
    if hidden.dtype == head.weight.dtype == torch.float32:
        return own(hidden)
    hidden = hidden.to(head.weight.device, torch.float32)
    size, width = head.weight.shape
    logits = hidden.new_empty((*hidden.shape[:-1], size))
    cast = hidden.new_empty((min(CHUNK.get(hidden.device.type, CHUNK_ELSEWHERE), size), width))
    for start in range(0, size, len(cast)):
        rows = head.weight[start : start + len(cast)]
        logits[..., start : start + len(rows)] = hidden @ cast[: len(rows)].copy_(rows).T
    return logits if head.bias is None else logits.add_(head.bias)
