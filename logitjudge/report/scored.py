"""Pairs with points, as JSON values: points by criterion, totals, and what the order adds to them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from logitjudge.core import FloatArray
from logitjudge.measures import intervals
from logitjudge.measures.estimates import effect, shares
from logitjudge.measures.pair_scored import scored_totals
from logitjudge.scored import Scored

Json = dict[str, Any]


def section(made: Scored, *, draws: int = 1000, seed: int = 0) -> Json:
    """Points of both candidates in both orders.

    Returns
    -------
    dict
        ``pairs``, ``clusters``, ``criteria`` (name, most points, mean points of both candidates in each order, ``content`` and ``order``
        effect with intervals, in points), ``total`` (the same of the sum), ``stability``: share of pairs whose winner by expected total
        changes with the order (`flips`) and that of each stable winner, and ``list``: every pair, the largest order effect first.
    """
    clusters = intervals.number(made.clusters)
    total = scored_totals(*made.totals.swapaxes(0, 1))
    flips = total.winner[:, 0] != total.winner[:, 1]
    ones = np.ones(len(made.ids))
    stable = {"flips": flips, **{str(k): ~flips & (total.winner[:, 0] == k) for k in (1, 2, 0)}}
    found = shares(
        {name: (value.astype(np.float64), ones) for name, value in stable.items()}, clusters, draws=draws, seed=seed
    )
    order = sorted(range(len(made.ids)), key=lambda i: (-abs(total.order[i]), made.ids[i]))
    return {
        "pairs": len(made.ids),
        "clusters": len(set(made.clusters)),
        "criteria": [
            {"name": one.name, "points": one.points, **_effects(made.expected[c], clusters)} for c, one in enumerate(made.criteria)
        ],
        "total": {"points": sum(one.points for one in made.criteria), **_effects(made.totals, clusters)},
        "stability": {name: asdict(one) for name, one in found.items()},
        "list": [
            {
                "id": made.ids[i], "totals": made.totals[i].tolist(), "winners": total.winner[i].tolist(),
                "content": float(total.content[i]), "order": float(total.order[i]),
            }
            for i in order
        ],
    }  # fmt: skip


def _effects(points: FloatArray, clusters: Any) -> Json:
    """Means and effects of points (I, 2, 2) [pair, order, candidate]."""
    found = scored_totals(*points.swapaxes(0, 1))
    return {
        "mean": points.mean(axis=0).tolist(),
        "content": asdict(effect(found.content, clusters)),
        "order": asdict(effect(found.order, clusters)),
    }
