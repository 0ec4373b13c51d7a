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
        for n, node in enumerate(step.nodes.tolist()):
            assert logp is not None
            yield from ((row, logp[n : n + 1]) for row in readers[node])


def run_pass(forward: Forward, step: Pass, cache: DynamicCache) -> torch.Tensor | None:
    """(places, V) log-probabilities of one pass, None where it reads nothing; the cache then holds what the next stands on."""
    ids = forward.tensor([step.tokens.tolist()])
    inputs = {
        "position_ids": forward.tensor([step.depths[step.held :].tolist()]),
        "attention_mask": masks(step, forward.model, forward.device),
    }
    logp = None
    with blockwise(forward.device):
        if len(step.reads):
            logp = forward.logp(ids, step.reads.tolist(), cache, **inputs)[0]
        else:
            forward.fill(ids, cache, **inputs)
    if cache.get_seq_length() != len(step.ends):
        raise RuntimeError(
            f"the cache holds {cache.get_seq_length()} of {len(step.ends)} tokens: this model ignores the cache it is given"
        )
    select(cache, torch.from_numpy(step.keep))
    return logp


def select(cache: DynamicCache, keep: torch.Tensor) -> None:
    """Keep some tokens of a cache, in order."""
    for layer in cache.layers:
        if layer.is_initialized:  # layers that share another's keys and values have none of their own
            keep = keep.to(layer.keys.device)
            layer.keys, layer.values = layer.keys.index_select(-2, keep), layer.values.index_select(-2, keep)
