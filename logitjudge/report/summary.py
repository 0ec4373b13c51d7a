"""The numbers of a run as one JSON object: what ``logitjudge show`` prints, with ``--json`` or in tables.

What does not exist (an unobserved cell, a hard row of a score that was never picked) is None, never 0 and never NaN.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from logitjudge import orderings as designs
from logitjudge.core import FloatArray, Ordering
from logitjudge.errors import NotObserved
from logitjudge.measures.agreement import agreement
from logitjudge.measures.costs import cost_spread
from logitjudge.measures.matrices import ESTIMATORS, ScorePositionMatrix, score_position_matrix
from logitjudge.report import masses, written
from logitjudge.run import Run, SampledRun

SCHEMA_VERSION = 1
METHODS = ("mean_prob", "mean_winner")
OF_PICKS = ("mean_winner",)  # of a sampled run
Json = dict[str, Any]


def summary(run: Run, *, methods: Sequence[str] | None = None, min_mass: float | None = None) -> Json:
    """All numbers of a run, as JSON values.

    Parameters
    ----------
    run
        A run with I items, O orderings and K scores.
    methods
        Debiasers whose scores are compared with the ratings: by default `METHODS`, of a sampled run `OF_PICKS`.
    min_mass
        Leave an item out, in all its orderings, where one of them has less mass on the options. Then
        ``without_min_mass`` holds the numbers of all items, and ``left_out`` the items that are not counted.

    Returns
    -------
    dict
        The object of ``show --json``; `SCHEMA_VERSION` changes when a key changes its meaning or goes.

    Raises
    ------
    InputError
        A method that does not exist, or a `min_mass` outside [0, 1].
    NotObserved
        No item has that much mass.
    """
    methods = methods or (OF_PICKS if isinstance(run, SampledRun) else METHODS)
    made = {"schema_version": SCHEMA_VERSION, **_about(run), **_design(run)}
    if min_mass is None:
        return made | _numbers(run, methods) | {"min_mass": None, "left_out": [], "without_min_mass": None}
    keep = run.enough_mass(min_mass)
    left_out = [row for row, kept in zip(masses.by_item(run), keep, strict=True) if not kept]
    extra = {"min_mass": min_mass, "left_out": left_out, "without_min_mass": _numbers(run, methods)}
    return made | _numbers(run.select(keep), methods) | extra


def about(run: Run) -> Json:
    """What the summary of a run of any kind holds: who judged what and how, orderings, counts and masses."""
    made = {"schema_version": SCHEMA_VERSION, **_about(run), **_design(run), **_counts(run), **_masses(run)}
    return {**made, "traces": written.written(run)}


def _about(run: Run) -> Json:
    """Who judged what, and how."""
    head = run.provenance
    session = (head.get("sessions") or [{}])[-1]
    asked, identity = head.get("configuration") or {}, head.get("identity") or {}
    return {
        "kind": head.get("kind", "rubric"),
        "model": asked.get("model"),
        "data": asked.get("data"),
        "verdict": head.get("verdict"),
        "template": (head.get("template") or {}).get("name"),
        "event": head.get("event"),
        "backend": identity.get("backend"),
        "device": session.get("device"),
        "dtype": session.get("dtype"),
        "path": session.get("path"),
        "proof": session.get("proof"),
        "started": head.get("started"),
        "finished": head.get("finished"),
        "ratings_name": run.ratings_name,
        "refused": len(run.refused),
        "refused_items": [dict(row) for row in run.refused],
        "noise_floor": head.get("noise_floor"),
    }


def _design(run: Run) -> Json:
    """Orderings as score values, and what they leave out."""
    scores = run.scores.tolist()
    return {
        "orderings": [_values(run, ordering) for ordering in run.orderings],
        "labels": [ordering.labels and list(ordering.labels) for ordering in run.orderings],
        "scores": scores,
        "balanced": designs.is_balanced(run.orderings),
        "uncovered": [{"score": scores[k], "position": p + 1} for k, p in designs.uncovered(run.orderings)],
    }


def _numbers(run: Run, methods: Sequence[str]) -> Json:
    """Numbers that depend on which items are counted."""
    there: tuple[Any, ...] = ("hard",) if isinstance(run, SampledRun) else ESTIMATORS
    matrices = {estimator: score_position_matrix(run, estimator) for estimator in there}
    by_estimator = {
        "position_distribution": lambda matrix: _nulls(matrix.position_distribution()),
        "score_position": lambda matrix: [_nulls(row) for row in matrix.values],
        "rows": _rows,
        "cost_spread": spread,
    }
    return {
        **_counts(run),
        **{
            key: {name: of(matrices[name]) if name in matrices else None for name in ESTIMATORS}
            for key, of in by_estimator.items()
        },
        "bias_cost": [_costs(run, ordering, matrices) for ordering in run.orderings],
        **_masses(run),
        "traces": written.written(run),
        "agreement": [asdict(row) for method in methods for row in agreement(run, method)] if _rated(run) else [],
    }


def _counts(run: Run) -> Json:
    return {
        "items": len(run.items),
        "clusters": len({item.cluster for item in run.items}),
        "readings": len(run.items) * len(run.orderings) * _texts(run),
    }


def _masses(run: Run) -> Json:
    """Masses; of a sampled run, how many of its texts could be parsed."""
    if isinstance(run, SampledRun):
        return {"mass": None, "alias": None, "parsed": written.parsed(run)}
    return masses.masses(run)


def _texts(run: Run) -> int:
    """How many texts are read, or parsed, behind each prompt."""
    return int(run.picks.shape[2] if isinstance(run, SampledRun) else run.logp_by_trace.shape[1])


def _rated(run: Run) -> bool:
    return bool(np.isfinite(run.ratings).any())


def _values(run: Run, ordering: Ordering) -> list[int]:
    return list(ordering.values(run.scores.tolist()))


def _nulls(values: Iterable[float]) -> list[float | None]:
    """Plain floats, with None for what is not a number."""
    return [float(value) if math.isfinite(value) else None for value in values]


def _rows(matrix: ScorePositionMatrix) -> list[Json]:
    """List what each row of a matrix rests on."""
    columns = (
        matrix.scores.tolist(),
        matrix.share.tolist(),
        matrix.picks.tolist(),
        matrix.effective_items.tolist(),
        matrix.reasons,
    )
    names = ("score", "share", "picks", "effective_items", "reason")
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _costs(run: Run, ordering: Ordering, matrices: dict[Any, ScorePositionMatrix]) -> Json:
    """Bias Cost of one ordering; a partial hard cost is the sum over the rows that there are."""
    found = {name: _terms(matrix, ordering) for name, matrix in matrices.items()}
    none = np.array([np.nan])
    soft, hard = (float(s) if np.isfinite(s := found.get(name, none).sum()) else None for name in ESTIMATORS)
    partial = float(np.nansum(found["hard"])) if hard is None and np.isfinite(found["hard"]).any() else None
    return {"ordering": _values(run, ordering), "soft": soft, "hard": hard, "hard_partial": partial}


def _terms(matrix: ScorePositionMatrix, ordering: Ordering) -> FloatArray:
    """(P,) |P(p | pi_p) - 1/K| (`logitjudge.measures.costs`), NaN at the positions of scores whose row is missing."""
    levels = len(ordering.shown)
    terms: FloatArray = np.abs(matrix.values[list(ordering.shown), range(levels)] - 1 / levels)
    return terms


def spread(matrix: ScorePositionMatrix) -> Json | None:
    """Costs over all K! orderings, as JSON values, or None where a row is missing."""
    try:
        found = cost_spread(matrix)
    except NotObserved:
        return None
    ends = {
        name: {"ordering": list(end.values), "cost": end.cost}
        for name, end in (("cheapest", found.cheapest), ("dearest", found.dearest))
    }
    return {**ends, "mean": found.mean, "identity": found.identity, "additive": found.additive}
