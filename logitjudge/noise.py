"""The noise floor: some of a run's prompts read a second way (alone, unpadded, no cache), and what the difference means."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from logitjudge.core import FloatArray, Item, Ordering, Readings
from logitjudge.run import Run

READ_TWICE = 8


def floor(
    run: Run,
    again: Callable[[Sequence[tuple[Item, int, Ordering]]], Readings | None],
    *,
    count: int = READ_TWICE,
    seed: int = 0,
) -> dict[str, Any] | None:
    """Compare some readings of a run with the plain forward of the same prompts.

    Parameters
    ----------
    run
        The run.
    again
        (item, its text's place on the axis S, ordering) -> these prompts read by the plain forward; None where there is no second way.
    count
        How many readings, drawn without replacement.

    Returns
    -------
    dict or None
        ``max_nats`` and ``median_nats``, over options, of |difference|; ``max_score``, the largest difference of an
        expected score; ``winners_within``, the share of all the run's readings whose winner leads the second by less
        than ``max_nats``; ``readings``, how many were read twice. None for a judge without a second way, or where some
        readings are upper bounds.
    """
    if not run.exact.all():
        return None
    shape = run.logp_by_trace.shape[:3]
    all_of_them = math.prod(shape)
    cells = np.random.default_rng(seed).choice(all_of_them, min(count, all_of_them), replace=False)
    i, s, o = np.unravel_index(np.sort(cells), shape)
    asked = [(run.items[a], int(b), run.orderings[c]) for a, b, c in zip(i, s, o, strict=True)]
    second = again(asked)
    if second is None:
        return None
    first = run.logp_by_trace[i, s, o]
    nats = np.abs(second.logp - first)
    score = np.abs((probs(second.logp) - probs(first)) @ run.scores)
    return {
        "max_nats": float(nats.max()),
        "median_nats": float(np.median(nats)),
        "max_score": float(score.max()),
        "winners_within": float((leads(run.logp_by_trace) < nats.max()).mean()),
        "readings": len(cells),
    }


def leads(logp: FloatArray) -> FloatArray:
    """(...,) nats by which the winner leads the second of (..., K) log-probabilities."""
    ranked = np.sort(logp, axis=-1)
    lead: FloatArray = ranked[..., -1] - ranked[..., -2]
    return lead


def probs(logp: FloatArray) -> FloatArray:
    """(..., K) probabilities among the options of (..., K) log-probabilities."""
    weight = np.exp(logp - logp.max(axis=-1, keepdims=True))
    among: FloatArray = weight / weight.sum(axis=-1, keepdims=True)
    return among
