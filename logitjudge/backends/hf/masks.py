"""Attention masks of a pass over a tree: who sees whom, as each attention implementation wants to be told.

A plain ancestor mask replaces a model's own windows and chunks and is then silently wrong, so the mask carries them,
counted in the depth of the tree. sdpa takes booleans; eager *adds* its mask, so it gets 0 and the lowest float.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from logitjudge.packing import Pass

Near = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # depths of queries (n, 1) and keys (m,) -> (n, m) bool
Masks = torch.Tensor | dict[str, torch.Tensor]


class NoTreeMask(RuntimeError):  # noqa: N818
    """A judge that cannot be told to see a tree."""


def layers(config: Any) -> dict[str, Near | None]:
    """Kinds of attention layers, each with what bounds its view besides ancestry (None: nothing does).

    Raises
    ------
    NoTreeMask
        A layer is no attention layer, or its bound is not known.
    """
    text = config.get_text_config()
    window = getattr(text, "sliding_window", None)
    kinds = set(getattr(text, "layer_types", None) or ["sliding_attention" if window else "full_attention"])
    return {kind: _bound(kind, text) for kind in sorted(kinds)}


def _bound(kind: str, text: Any) -> Near | None:
    if kind == "full_attention":
        return None
    if kind == "sliding_attention" and (window := getattr(text, "sliding_window", None)):
        return lambda query, key: query - key < window
    if kind == "chunked_attention" and (size := getattr(text, "attention_chunk_size", None)):
        return lambda query, key: query // size == key // size
    raise NoTreeMask(f"layers of type {kind}, as this model has them, take no tree")


def masks(step: Pass, model: Any, device: torch.device) -> Masks | None:
    """(1, 1, n, h + n) mask of a pass; one for each kind of layer where they differ.

    None where the pass is one path and the model's own causal mask says the same.

    Raises
    ------
    NoTreeMask
        The attention implementation is neither sdpa nor eager, or `layers` knows no mask.
    """
    bounds = layers(model.config)
    write = _writer(model)
    if step.chain:
        return None
    ends, depths = (torch.from_numpy(values).to(device) for values in (step.ends, step.depths))
    token = torch.arange(len(step.tokens), device=device)[:, None]
    sees = (torch.arange(len(ends), device=device) <= step.held + token) & (token < ends)
    made = {
        kind: write(sees if near is None else sees & near(depths[step.held :, None], depths))
        for kind, near in bounds.items()
    }
    return made if len(made) > 1 else next(iter(made.values()))


def _writer(model: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    """How a boolean (n, m) mask is written for the model's attention implementation."""
    name = getattr(model.config.get_text_config(), "_attn_implementation", None)
    if name == "sdpa":
        return lambda sees: sees[None, None]
    if name == "eager":
        return lambda sees: _added(sees, model.dtype)
    raise NoTreeMask(f"the attention implementation {name!r} takes no tree mask")


def _added(sees: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    lowest = torch.finfo(dtype).min
    return torch.zeros(sees.shape, dtype=dtype, device=sees.device).masked_fill_(~sees, lowest)[None, None]
