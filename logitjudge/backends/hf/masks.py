"""Attention masks of a pass over a tree: who sees whom, as each attention implementation wants to be told.

A plain ancestor mask replaces a model's own windows and chunks and is then silently wrong, so the mask carries them,
counted in the depth of the tree. sdpa takes booleans; eager *adds* its mask, so it gets 0 and the lowest float;
FlexAttention takes the rule itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention.flex_attention import BlockMask, create_block_mask

from logitjudge.packing import Pass

Floor = Callable[[torch.Tensor], torch.Tensor]  # depths of queries -> the least depth of a key that each may see
Sees = Callable[
    [torch.Tensor, torch.Tensor], torch.Tensor
]  # places of queries and of keys -> whether one sees the other
Mask = torch.Tensor | BlockMask


class NoTreeMask(RuntimeError):  # noqa: N818
    """A judge that cannot be told to see a tree."""


def layers(config: Any) -> dict[str, Floor | None]:
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


def _bound(kind: str, text: Any) -> Floor | None:
    if kind == "full_attention":
        return None
    if kind == "sliding_attention" and (window := getattr(text, "sliding_window", None)):
        return lambda depths: depths - window + 1
    if kind == "chunked_attention" and (size := getattr(text, "attention_chunk_size", None)):
        return lambda depths: depths // size * size
    raise NoTreeMask(f"layers of type {kind}, as this model has them, take no tree")


def masks(step: Pass, model: Any, device: torch.device) -> Mask | dict[str, Mask] | None:
    """(1, 1, n, h + n) mask of a pass; one for each kind of layer where they differ.

    None where the pass is one path and the model's own causal mask says the same; FlexAttention is told nevertheless,
    because the model's own mask would be compiled again for each number of cached tokens.

    Raises
    ------
    NoTreeMask
        The attention implementation is not sdpa, eager or FlexAttention, or `layers` knows no mask.
    """
    floors = layers(model.config)
    write = _writer(model)
    if step.chain and write is not _blocks:
        return None
    queries, keys = (torch.arange(len(some), device=device) for some in (step.tokens, step.ends))
    made = {kind: write(_rule(step, floor, device), queries, keys) for kind, floor in floors.items()}
    return made if len(made) > 1 else next(iter(made.values()))


def _rule(step: Pass, floor: Floor | None, device: torch.device) -> Sees:
    """Who sees whom in a pass, by layers with this floor.

    Two tensors hold all it knows: FlexAttention would compile each number again, and on a CPU torch 2.13 cannot compile
    a rule of ten sizes.
    """
    ends, depths = (torch.from_numpy(values).to(device) for values in (step.ends, step.depths))
    held = torch.tensor(step.held, device=device)
    known = torch.stack([ends + held, depths, torch.zeros_like(depths) if floor is None else floor(depths)])

    def sees(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        own = query + held  # its place among the keys
        return (key <= own) & (own < known[0][key]) & (known[1][key] >= known[2][own])

    return sees


def _writer(model: Any) -> Callable[[Sees, torch.Tensor, torch.Tensor], Mask]:
    """How a rule for queries and keys is written for the model's attention implementation."""
    name = getattr(model.config.get_text_config(), "_attn_implementation", None)
    if name == "sdpa":
        return _shown
    if name == "eager":
        return lambda sees, queries, keys: _added(_shown(sees, queries, keys), model.dtype)
    if name == "flex_attention":
        return _blocks
    raise NoTreeMask(f"the attention implementation {name!r} takes no tree mask")


def _shown(sees: Sees, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    return sees(queries[:, None], keys)[None, None]


def _added(shown: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    lowest = torch.finfo(dtype).min
    return torch.zeros(shown.shape, dtype=dtype, device=shown.device).masked_fill_(~shown, lowest)


def _blocks(sees: Sees, queries: torch.Tensor, keys: torch.Tensor) -> BlockMask:
    def rule(_batch: Any, _head: Any, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return sees(query, key)

    return create_block_mask(rule, None, None, len(queries), len(keys), device=str(queries.device))
