"""How much probability falls on the options at all, where little does, and what took it."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

from logitjudge.run import Run

LOW = 0.5  # below, an item is listed
THIN = 0.9  # below, on average, the tokens that took the rest are listed
ALIAS_SHARE = 0.1  # of the mass; above, aliases are a warning
TOP = 8
Json = dict[str, Any]


def masses(run: Run) -> Json:
    """Mass on the options, items with little of it, the tokens that took it, and aliases.

    Returns
    -------
    dict
        ``mass``: mean and min over readings; ``low``, items with a reading below `LOW`, least first; ``top_tokens``,
        what the judge would say instead, with the mean probability over readings (only where mass is missing).
        ``alias``: mean mass of other forms of the options, its ratio to theirs, a warning above `ALIAS_SHARE`.
    """
    mass = run.mass
    low = sorted((row for row in by_item(run) if row["mass"] < LOW), key=lambda row: float(row["mass"]))
    thin = low or mass.mean() < THIN
    return {
        "mass": {
            "mean": float(mass.mean()),
            "min": float(mass.min()),
            "low": low,
            "top_tokens": _top_tokens(run) if thin else [],
        },
        "alias": _alias(run),
    }


def by_item(run: Run) -> list[Json]:
    """Least mass of each item over its orderings."""
    return [{"id": item.id, "mass": float(mass)} for item, mass in zip(run.items, run.mass.min(axis=1), strict=True)]


def _alias(run: Run) -> Json:
    total, own = float(run.alias_mass.sum(axis=-1).mean()), float(run.mass.mean())
    warning = None
    if total > ALIAS_SHARE * own:
        advice = "they are counted" if run.aliases == "sum" else "count them with --aliases sum"
        warning = f"other forms of the options hold {total:.1%} of the probability, the options {own:.1%}; {advice}"
    return {"counted": run.aliases == "sum", "mean": total, "share": total / own, "warning": warning}


def _top_tokens(run: Run) -> list[Json]:
    """Tokens that begin no option, by mean probability over the readings, as far as they were stored."""
    if run.loader is None:
        return []
    frame = run.readings()
    kept = frame[frame["item_id"].isin([item.id for item in run.items])]
    total: dict[str, float] = defaultdict(float)
    for tokens in kept["top_tokens"]:
        for token in tokens:
            total[token["text"]] += math.exp(token["logp"])
    best = sorted(total.items(), key=lambda pair: (-pair[1], pair[0]))[:TOP]
    return [{"text": text, "prob": summed / len(kept)} for text, summed in best]
