"""The plain path: each sequence alone, unpadded, without a cache. Slow, and the oracle of every other path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from logitjudge.backends.hf.forward import Forward
from logitjudge.backends.hf.sequences import Row


def run_plain(forward: Forward, rows: Sequence[Row], budget: int) -> Iterator[tuple[Row, torch.Tensor]]:
    """Run every row by itself; the budget cannot make one prompt smaller."""
    for row in rows:
        yield row, forward.logp(forward.tensor([row.ids]), [place for place, _ in row.places])[0]
