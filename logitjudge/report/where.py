"""Where bias lives, as JSON values: the variance, uncertain items, groups, swings, decisions, shapes, calibration.

What a run cannot give is None, and ``reason`` beside it, or the whole part is ``{"reason": ...}``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

import numpy as np

from logitjudge.errors import NotObserved
from logitjudge.measures.calibration import OF, calibration
from logitjudge.measures.certainty import certainty
from logitjudge.measures.decomposition import ON, decomposition
from logitjudge.measures.groups import by_group, reweighted
from logitjudge.measures.ordinal import ordinal
from logitjudge.measures.swings import crossings, swings, system_ranks
from logitjudge.run import Run, SampledRun

WIDEST = 5  # items whose swings are listed
Json = dict[str, Any]


def section(run: Run, *, draws: int = 1000, seed: int = 0) -> Json:
    """Where the bias of a run lives.

    Parameters
    ----------
    run
        A run with I items, O orderings and K scores.
    draws, seed
        Of the bootstrap of clusters behind the intervals of ``certainty``.

    Returns
    -------
    dict
        ``decomposition`` (by scale), ``certainty``, ``groups``, ``reweighted``, ``swings``, ``thresholds``, ``systems``,
        ``ordinal`` and ``calibration`` (by kind); or ``{"reason": ...}`` of a sampled run, which has no probabilities.
    """
    if isinstance(run, SampledRun):
        return {"reason": "the run was sampled: it has picks and no probabilities"}
    return {
        "decomposition": {on: _or_reason(lambda on=on: _decomposition(run, on)) for on in ON},  # type: ignore[misc]
        "certainty": _or_reason(lambda: _certainty(run, draws, seed)),
        "groups": _groups(run),
        "reweighted": _reweighted(run),
        "swings": _or_reason(lambda: _swings(run)),
        "thresholds": _or_reason(lambda: {"rows": _rows(crossings(run))}),
        "systems": _or_reason(lambda: _systems(run)),
        "ordinal": _ordinal(run),
        "calibration": {of: _or_reason(lambda of=of: _calibration(run, of)) for of in OF},  # type: ignore[misc]
    }


def _or_reason(made: Callable[[], Json]) -> Json:
    """Give a part, or why the run cannot give it."""
    try:
        return made()
    except NotObserved as error:
        return {"reason": str(error)}


def _decomposition(run: Run, on: Any) -> Json:
    made = decomposition(run, on)
    return {"balanced": made.balanced, "total": made.total, "terms": [asdict(term) for term in made.terms]}


def _certainty(run: Run, draws: int, seed: int) -> Json:
    made = certainty(run, draws=draws, seed=seed)
    return {
        "associations": [asdict(row) for row in made.associations],
        "cells": [asdict(cell) for cell in made.cells],
        "draws": draws,
    }


def _groups(run: Run) -> Json:
    made = by_group(run)
    rows = [{**asdict(row), "positions": row.positions and list(row.positions)} for row in made.rows]
    return {"rows": rows, "left_out": [{"group": name, "reason": reason} for name, reason in made.left_out]}


def _reweighted(run: Run) -> Json:
    """Each score that some item has, made equally frequent."""
    made = reweighted(run)
    return {
        "scores": made.scores.tolist(),
        "items": made.items.tolist(),
        "target": made.target.tolist(),
        "missing": list(made.missing),
        "effective_items": made.effective_items,
        **{name: _nulls(getattr(made, name)) for name in ("positions", "positions_before")},
        **{name: _plain(getattr(made, name)) for name in ("movement", "movement_before", "score", "score_before")},
    }


def _swings(run: Run) -> Json:
    made = swings(run)
    swing = made.swing
    widest = made.to_frame().head(WIDEST).to_dict("records")
    return {
        "orderings": made.orderings,
        "mean": float(swing.mean()),
        "median": float(np.median(swing)),
        "max": float(swing.max()),
        "noise": made.noise,
        "within_noise": None if made.noise is None else float(made.within_noise.mean()),
        "widest": [{str(name): _plain(value) for name, value in row.items()} for row in widest],
        **{f"{end}_orderings": _often(getattr(made, end)) for end in ("lowest", "highest")},
    }


def _often(orderings: Iterable[str]) -> list[Json]:
    """Orderings by how many items have their end there, most first."""
    count: dict[str, int] = {}
    for text in orderings:
        count[text] = count.get(text, 0) + 1
    best = sorted(count.items(), key=lambda pair: (-pair[1], pair[0]))
    return [{"ordering": text, "items": items} for text, items in best[:WIDEST]]


def _systems(run: Run) -> Json:
    made = system_ranks(run)
    return {"by": made.by, "rows": _rows(made), "changed": list(made.changed), "swaps": [list(p) for p in made.swaps]}


def _ordinal(run: Run) -> Json:
    made = ordinal(run)
    rows = _rows(made)
    return {
        "deep": made.deep,
        "two_humped": made.two_humped,
        "middle_two_humped": made.middle_two_humped,
        "orderings": rows,
        **{name: _mean(row[name] for row in rows) for name in ("distance", "shift", "from_mode", "from_median")},
    }


def _calibration(run: Run, of: Any) -> Json:
    made = asdict(calibration(run, of))
    return {**made, "bins": list(made["bins"])}


def _mean(values: Iterable[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return sum(there) / len(there) if there else None


def _rows(made: Any) -> list[Json]:
    """Rows of a measure's frame as JSON values."""
    return [{str(name): _plain(value) for name, value in row.items()} for row in made.to_frame().to_dict("records")]


def _plain(value: Any) -> Any:
    """Value as JSON has it: Python's own types, and None for what is not a number."""
    plain = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(plain, float) and not math.isfinite(plain) else plain


def _nulls(values: Iterable[float]) -> list[float | None]:
    return [_plain(float(value)) for value in values]
