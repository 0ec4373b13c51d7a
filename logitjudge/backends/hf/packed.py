"""The packed path: what prompts share is run once, and their branches together, each token seeing its ancestors only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from transformers import DynamicCache

from logitjudge.backends.hf.attention import blockwise
from logitjudge.backends.hf.forward import Forward
from logitjudge.backends.hf.masks import masks
from logitjudge.backends.hf.sequences import Row
from logitjudge.packing import Pass, passes
from logitjudge.trie import trie


def run_packed(forward: Forward, rows: Sequence[Row], budget: int) -> Iterator[tuple[Row, torch.Tensor]]:
    """Run rows as one tree.

    A row comes out as many times as it has places, with one place each, as soon as that has been read.

    Parameters
    ----------
    rows
        The sequences.
    budget
        Tokens that one pass may feed.
    """
    tree = trie([row.ids for row in rows])
    readers: dict[int, list[Row]] = {}
    for number, row in enumerate(rows):
        for place in row.places:
            readers.setdefault(tree.index(number, place[0]), []).append(replace(row, places=(place,)))
    cache = DynamicCache()  # without the configuration: windows stay in the mask
    for step in passes(tree, list(readers), budget):
        logp = run_pass(forward, step, cache)
        for here, node in zip(logp, step.nodes.tolist(), strict=True):
            yield from ((row, here[None]) for row in readers[node])


def run_pass(forward: Forward, step: Pass, cache: DynamicCache) -> torch.Tensor:
    """(places, V) log-probabilities of one pass; the cache then holds what the next one stands on."""
    read = step.reads.tolist() or [len(step.tokens) - 1]  # no model takes an empty list of places to keep
    inputs = {
        "position_ids": forward.tensor([step.depths[step.held :].tolist()]),
        "attention_mask": masks(step, forward.model, forward.device),
    }
    with blockwise(forward.device):
        logp = forward.logp(forward.tensor([step.tokens.tolist()]), read, cache, **inputs)[0]
    if cache.get_seq_length() != len(step.ends):
        raise RuntimeError(
            f"the cache holds {cache.get_seq_length()} of {len(step.ends)} tokens: this model ignores the cache it is given"
        )
    select(cache, torch.from_numpy(step.keep))
    return logp[: len(step.reads)]


def select(cache: DynamicCache, keep: torch.Tensor) -> None:
    """Keep some tokens of a cache, in order."""
    for layer in cache.layers:
        if layer.is_initialized:  # layers that share another's keys and values have none of their own
            keep = keep.to(layer.keys.device)
            layer.keys, layer.values = layer.keys.index_select(-2, keep), layer.values.index_select(-2, keep)
