"""The place of a line in the rubric: does what stands first, or last, win?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from logitjudge.core import FloatArray, Item
from logitjudge.errors import NotObserved
from logitjudge.measures import cells
from logitjudge.probes import RESPONSE, SHARE, Generate, ProbeResult, Variant, measured, noise
from logitjudge.run import Run


@dataclass(frozen=True, slots=True)
class Position:
    """Every score at every position (a balanced design): what falls on the first and on the last line."""

    NEEDS: ClassVar = RESPONSE

    def variants(self, items: Sequence[Item], generate: Generate | None = None) -> Mapping[str, Variant]:
        """The items as they are."""
        return {"items": Variant(tuple(items))}

    def effect(self, runs: Mapping[str, Run]) -> ProbeResult:
        """Share of the probability on the first and on the last position, minus 1/K."""
        run = runs["items"]
        if not cells.covered(run.shown):
            raise NotObserved("the orderings do not show every score at every position. Give: --orderings balanced.")
        share, reach = shares(run) - 1 / len(run.scores), noise(run, SHARE)
        return ProbeResult((
            measured("share of the first position, minus 1/K", SHARE, share[:, 0], run.items, noise=reach),
            measured("share of the last position, minus 1/K", SHARE, share[:, -1], run.items, noise=reach),
        ))  # fmt: skip


def shares(run: Run) -> FloatArray:
    """(I, P) mean over scores of what each item gives to a score at a position, of a design that shows all at all positions."""
    found: FloatArray = cells.by_item(run.probs(), run.shown).sum(axis=1)
    total = found.sum(axis=1, keepdims=True)
    return np.asarray(found / total)


probe = Position
