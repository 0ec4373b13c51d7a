"""The shared-prefix path: what rows have in common is run once, its keys and values are copied, the rest runs as a batch."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import torch

from logitjudge.backends.hf.forward import Forward
from logitjudge.backends.hf.sequences import Row
from logitjudge.packing import LEAVES
from logitjudge.tokens import common_prefix


def run_shared(
    forward: Forward, rows: Sequence[Row], budget: int, same: Sequence[object] | None = None
) -> Iterator[tuple[Row, torch.Tensor]]:
    """Run rows in groups that share a prefix.

    Parameters
    ----------
    rows
        The sequences.
    budget
        Tokens, those in the copied cache included, that one pass may hold; a single row always goes.
    same
        For each query, what its rows share (its item): rows of neighbouring queries with equal values are one group.
        By default all rows are.
    """
    for _, group in groupby(rows, key=lambda row: same and same[row.query]):
        yield from _group(forward, list(group), budget)


def run_batched(forward: Forward, rows: Sequence[Row], budget: int) -> Iterator[tuple[Row, torch.Tensor]]:
    """Run rows as plain prompts in right-padded batches that share nothing: what `bench` compares the other paths with."""
    for chunk in _chunks(rows, 0, budget):
        yield from zip(chunk, batch(forward, chunk, 0, None), strict=True)


def _group(forward: Forward, rows: Sequence[Row], budget: int) -> Iterator[tuple[Row, torch.Tensor]]:
    start = min(common_prefix([row.ids for row in rows]), min(row.places[0][0] for row in rows)) if len(rows) > 1 else 0
    trunk = forward.trunk(rows[0].ids[:start]) if start else None
    for chunk in _chunks(rows, start, budget):
        yield from zip(chunk, batch(forward, chunk, start, trunk), strict=True)


def _chunks(rows: Sequence[Row], start: int, budget: int) -> Iterator[Sequence[Row]]:
    """Rows, as many at a time as budget and head allow."""
    longest = max(len(row.ids) for row in rows)
    places = len({place - start for row in rows for place, _ in row.places})
    n = max(1, min(budget // longest, LEAVES // places))
    for first in range(0, len(rows), n):
        yield rows[first : first + n]


def batch(forward: Forward, rows: Sequence[Row], start: int, trunk: Any) -> list[torch.Tensor]:
    """Run right-padded rows behind a cached prefix of `start` tokens; with none, this is plain batching."""
    length = max(len(row.ids) for row in rows) - start
    ids = [[*row.ids[start:], *[0] * (start + length - len(row.ids))] for row in rows]
    mask = [[1] * len(row.ids) + [0] * (start + length - len(row.ids)) for row in rows]
    keep = sorted({place - start for row in rows for place, _ in row.places})
    inputs = {
        "attention_mask": forward.tensor(mask),
        "position_ids": forward.tensor([list(range(start, start + length))] * len(rows)),
    }
    cache = copy.deepcopy(trunk)
    if cache is not None:
        cache.batch_repeat_interleave(len(rows))
    logp = forward.logp(forward.tensor(ids), keep, cache, **inputs)
    at = {place: n for n, place in enumerate(keep)}
    return [logp[n, [at[place - start] for place, _ in row.places]] for n, row in enumerate(rows)]
