"""How sure a run is of its position bias, as JSON values; what it cannot give is None, or ``{"reason": ...}``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from logitjudge.core import FloatArray
from logitjudge.errors import NotObserved
from logitjudge.measures import uncertainty
from logitjudge.measures.matrices import ESTIMATORS
from logitjudge.measures.uncertainty import Resampled, Simultaneous
from logitjudge.run import Run, SampledRun

EFFECT = 0.03  # a deviation of a share that a study may want to find
Json = dict[str, Any]


def section(run: Run, *, draws: int = 2000, seed: int = 0, margin: float = uncertainty.MARGIN) -> Json:
    """Uncertainty of a run, by estimator.

    Parameters
    ----------
    run
        A run with I items, O orderings and K scores.
    draws, seed
        Of the bootstrap of clusters.
    margin
        Of the test of equivalence.

    Returns
    -------
    dict
        ``draws``, ``clusters``, ``noise_reach`` (how far the noise floor could move each share), and for ``soft`` and
        ``hard``: ``positions``, ``cells`` and ``costs`` with 95 % intervals, ``test``, ``equivalence``, ``detectable``, ``clusters_for``.
    """
    reach = uncertainty.noise_reach(run) if run_is_exact(run) else None
    made: Json = {
        "scores": run.scores.tolist(),
        "draws": draws,
        "noise_reach": None if reach is None else reach.tolist(),
        "clusters": None,
    }
    for estimator in ESTIMATORS:
        try:
            if isinstance(run, SampledRun) and estimator == "soft":
                raise NotObserved("the run was sampled: it has picks and no probabilities")
            found = uncertainty.resampled(run, estimator, draws=draws, seed=seed)  # type: ignore[arg-type]
        except NotObserved as error:
            made[estimator] = {"reason": str(error)}
            continue
        made["clusters"] = found.clusters
        made[estimator] = _of(run, found, reach, margin)
    return made


def run_is_exact(run: Run) -> bool:
    """Whether a run has probabilities."""
    return not isinstance(run, SampledRun) and bool(run.exact.all())


def _of(run: Run, found: Resampled, reach: FloatArray | None, margin: float) -> Json:
    positions = uncertainty.position_intervals(found)
    test, equal = uncertainty.position_test(found), uncertainty.equivalence(found, margin)
    apart = np.abs(positions.value - 1 / len(positions.value))
    return {
        "positions": {
            **_ends(positions),
            "within_noise": None if reach is None else (apart <= reach).tolist(),
        },
        "test": {
            "null": test.null, "statistic": _plain(test.statistic), "f": _plain(test.f),
            "degrees": test.degrees and list(test.degrees), "p": _plain(test.p), "note": test.note,
        },
        "equivalence": {"margin": equal.margin, "p": _plain(equal.p), "by_position": _nulls(equal.by_position)},
        "detectable": {"power": 0.8, "by_position": _nulls(uncertainty.detectable(found))},
        "clusters_for": {"effect": EFFECT, "clusters": uncertainty.clusters_for(found, EFFECT)},
        "cells": _cells(uncertainty.matrix_intervals(found)),
        "costs": _costs(run, found),
    }  # fmt: skip


def _ends(found: Simultaneous) -> Json:
    return {**{name: _nulls(getattr(found, name)) for name in ("value", "low", "high")}, "note": found.note}


def _cells(found: Simultaneous) -> Json:
    ends = {name: [_nulls(row) for row in getattr(found, name)] for name in ("value", "low", "high")}
    return {**ends, "note": found.note}


def _costs(run: Run, found: Resampled) -> list[Json]:
    costs = uncertainty.cost_intervals(found, run.orderings)
    columns = [_nulls(getattr(costs, name)) for name in ("value", "low", "high", "unbiased")]
    scores = run.scores.tolist()
    return [
        {"ordering": list(ordering.values(scores)), "cost": cost, "low": low, "high": high, "unbiased": unbiased}
        for ordering, cost, low, high, unbiased in zip(run.orderings, *columns, strict=True)
    ]


def _nulls(values: FloatArray) -> list[float | None]:
    return [_plain(float(value)) for value in values]


def _plain(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
