"""What a pairwise run says, as JSON values; what does not exist is None, or the whole part is ``{"reason": ...}``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from logitjudge.errors import NotObserved
from logitjudge.measures.estimates import effect
from logitjudge.measures.pair_accuracy import Length, accuracy
from logitjudge.measures.pair_couples import BY, couples
from logitjudge.measures.pair_margin import margin
from logitjudge.measures.pair_review import Row, review
from logitjudge.measures.pair_stability import stability
from logitjudge.measures.pair_wins import win_rates
from logitjudge.measures.pairs import ORDERS, pairs
from logitjudge.report import summary as summaries
from logitjudge.run import Run

WORST = 10  # inconclusive pairs that are named
SHORT = ("id", *(f"verdict_{order}" for order in ORDERS), "content", "position", "contradiction", "gold")
Json = dict[str, Any]


def summary(run: Run) -> Json:
    """All numbers of a pairwise run, as JSON values: who judged, what, how, masses, and ``pairwise`` (`section`)."""
    return {**summaries.about(run), "pairwise": section(run)}


def section(run: Run, *, length: Length = len, by: str = BY, draws: int = 1000, seed: int = 0) -> Json:
    """Everything about the pairs of a run.

    Parameters
    ----------
    run
        A pairwise run.
    length
        Of a response, in any unit; characters by default.
    by
        Group column of couples.
    draws, seed
        Of the resampling of clusters.

    Returns
    -------
    dict
        ``pairs``, ``clusters``, ``ties`` (whether a tie was an option), ``crossed`` (whether letters were swapped, too), ``position_name``,
        ``content``, ``stability``, ``wins``, ``margin``, ``accuracy``, ``couples``, and ``inconclusive``: how many pairs, and the worst of
        them without their texts. ``accuracy`` and ``couples`` are ``{"reason": ...}`` without gold, or without couples.

    Raises
    ------
    NotObserved
        The run is not pairwise.
    """
    found = pairs(run)
    how: dict[str, Any] = {"draws": draws, "seed": seed}
    rows = review(run)
    return {
        "pairs": len(found),
        "clusters": int(found.clusters.max()) + 1,
        "draws": draws,
        "ties": found.ties,
        "crossed": found.slot is not None,
        "position_name": found.position_name,
        "content": asdict(effect(found.content, found.clusters)),
        "stability": asdict(stability(run, **how)),
        "wins": asdict(win_rates(run, **how)),
        "margin": asdict(margin(run, **how)),
        "accuracy": or_reason(lambda: asdict(accuracy(run, length=length, **how))),
        "couples": or_reason(lambda: asdict(couples(run, by, **how))),
        "inconclusive": {"pairs": len(rows), "worst": [_short(row) for row in rows[:WORST]]},
    }


def or_reason(made: Callable[[], Json]) -> Json:
    """Give a part, or why the run cannot give it."""
    try:
        return made()
    except NotObserved as error:
        return {"reason": str(error)}


def _short(row: Row) -> Json:
    return {name: row[name] for name in SHORT}
