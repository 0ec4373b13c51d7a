"""How much probability falls on the options at all, where little does, and what took it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from logitjudge.run import Run

if TYPE_CHECKING:
    import pandas as pd

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
        ``greedy_off``: share of readings whose most probable token begins no option (``at_most`` where options have
        several tokens: their first tokens are at least as probable as they are), None where it was not stored.
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
            "greedy_off": _greedy_off(run),
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
    if "top_tokens" not in run.loaders:
        return []
    kept = _of_items(run)
    total = kept.assign(prob=np.exp(kept["logp"].to_numpy(float))).groupby("text")["prob"].sum()
    best = sorted(total.items(), key=lambda pair: (-pair[1], pair[0]))[:TOP]
    return [{"text": text, "prob": float(summed) / math.prod(run.logp_by_trace.shape[:3])} for text, summed in best]


def _of_items(run: Run) -> pd.DataFrame:
    """Top tokens of the run's own items: a part of its folder's, where some were left out."""
    frame = run.top_tokens()
    return frame[frame["item_id"].isin([item.id for item in run.items])]


def _greedy_off(run: Run) -> Json | None:
    """Share of readings whose most probable token begins no option."""
    longest = run.provenance.get("option_tokens")
    if longest is None or "top_tokens" not in run.loaders:
        return None
    tokens = _of_items(run)
    off = (tokens["rank"] == 0) & (tokens["logp"] > tokens["best_option"])
    return {"share": float(off.sum() / run.logp_by_trace[..., 0].size), "at_most": longest > 1}
