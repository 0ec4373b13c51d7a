"""sdpa for a tree, in blocks: the keys that no query of a block sees are left out before anything is computed.

In depth-first order neighbours share most of their ancestors, so a block of queries needs the trunk and a few tokens
more, where a dense mask computes every pair of a pass and throws most of them away.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

BLOCK = 128  # queries

Keys = torch.Tensor | slice
Blocks = list[tuple[Keys, torch.Tensor]]


@contextlib.contextmanager
def blockwise(device: torch.device) -> Iterator[None]:
    """For the time of one pass, sdpa computes what a boolean mask shows, and no more; on a CPU, where that is faster."""
    if device.type != "cpu":
        yield
        return
    before = ALL_ATTENTION_FUNCTIONS["sdpa"]
    ALL_ATTENTION_FUNCTIONS["sdpa"] = _attention({})
    try:
        yield
    finally:
        ALL_ATTENTION_FUNCTIONS["sdpa"] = before


def _attention(known: dict[int, tuple[torch.Tensor, Blocks]]) -> Callable[..., tuple[torch.Tensor, None]]:
    """What `sdpa_attention_forward` computes. `known`: the masks that layers of this pass have brought, with their blocks."""

    def attend(
        module: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        scaling: float | None = None,
        **others: Any,
    ) -> tuple[torch.Tensor, None]:
        plain = others.get("position_bias") is None and others.get("softcap") is None and not others.get("dropout")
        if attention_mask is None or attention_mask.dtype != torch.bool or len(query) != 1 or not plain:
            made: tuple[torch.Tensor, None] = sdpa_attention_forward(
                module, query, key, value, attention_mask, scaling=scaling, **others
            )
            return made
        if id(attention_mask) not in known:
            known[id(attention_mask)] = (
                attention_mask,
                blocks(attention_mask, query.dtype),
            )  # held, so that its id stays its own
        return _attended(query, key, value, known[id(attention_mask)][1], scaling), None

    return attend


def blocks(mask: torch.Tensor, dtype: torch.dtype) -> Blocks:
    """(1, 1, n, m) boolean mask -> for each block of queries the keys that one of them sees, and their additive mask."""
    made = []
    for sees in torch.split(mask[0, 0], BLOCK):
        keys = _keys(sees.any(0))
        made.append((keys, torch.zeros_like(sees[:, keys], dtype=dtype).masked_fill_(~sees[:, keys], -math.inf)))
    return made


def _keys(seen: torch.Tensor) -> Keys:
    """Keys that are seen: the first ones, which need no copy, or a list."""
    keys = seen.nonzero()[:, 0]
    return slice(len(keys)) if int(keys[-1]) == len(keys) - 1 else keys


def _attended(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, parts: Blocks, scaling: float | None
) -> torch.Tensor:
    """(1, n, H, d) outputs of (1, H, n, d) queries; keys and values have H / G heads."""
    made = [
        scaled_dot_product_attention(rows, key[:, :, keys], value[:, :, keys], added, scale=scaling, enable_gqa=True)
        for rows, (keys, added) in zip(torch.split(query, BLOCK, -2), parts, strict=True)
    ]
    return torch.cat(made, -2).transpose(1, 2).contiguous()
