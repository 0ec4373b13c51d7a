"""The output projection in float32.

A bf16 head quantises logits until different options come out equal. A forward hook on the output embeddings computes
the projection again in float32, casting the weight in vocabulary chunks; the model's own soft-cap, scale or bias then
runs in float32 as well, so nothing of a model's post-processing is written again here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
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
    handle = model.get_output_embeddings().register_forward_hook(_project)
    try:
        yield
    finally:
        handle.remove()


def _project(head: nn.Linear, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
    if output.dtype == torch.float32:
        return output
    hidden = inputs[0].float()
    chunk = CHUNK.get(hidden.device.type, CHUNK_ELSEWHERE)
    logits = torch.cat([hidden @ rows.float().T for rows in torch.split(head.weight, chunk)], dim=-1)
    return logits if head.bias is None else logits + head.bias.float()
