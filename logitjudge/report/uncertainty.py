"""How sure a run is of its position bias, as JSON values; what it cannot give is None, or ``{"reason": ...}``."""

from __future__ import annotations

import math
from typing import Any

from logitjudge.core import FloatArray
from logitjudge.errors import NotExact, NotObserved
from logitjudge.measures import floor, tests, uncertainty
from logitjudge.measures.floor import Reach
from logitjudge.measures.matrices import ESTIMATORS, Estimator
from logitjudge.measures.uncertainty import Resampled, Simultaneous
from logitjudge.run import Run, SampledRun

EFFECT = 0.03  # a deviation of a share that a study may want to find
Json = dict[str, Any]


def section(run: Run, *, draws: int = 2000, seed: int = 0, margin: float = tests.MARGIN) -> Json:
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
        ``draws``, ``clusters``, ``noise_reach`` (how far the noise floor could move each soft share), and for ``soft`` and
        ``hard``: ``positions``, ``cells`` and ``costs`` with 95 % intervals, ``test``, ``equivalence``, ``detectable``,
        ``clusters_for``. ``within_noise`` beside a number: the noise floor alone could explain it; None without a noise floor.
    """
    soft = _reach(run, "soft")
    made: Json = {
        "scores": run.scores.tolist(),
        "draws": draws,
        "noise_reach": None if soft is None else soft.positions.tolist(),
        "clusters": None,
    }
    for estimator in ESTIMATORS:
        try:
            if isinstance(run, SampledRun) and estimator == "soft":
                raise NotObserved("the run was sampled: it has picks and no probabilities")
            found = uncertainty.resampled(run, estimator, draws=draws, seed=seed)
        except (NotObserved, NotExact) as error:
            made[estimator] = {"reason": str(error)}
            continue
        made["clusters"] = found.clusters
        made[estimator] = _of(run, found, _reach(run, estimator), margin)
    return made


def run_is_exact(run: Run) -> bool:
    """Whether a run has probabilities."""
    return not isinstance(run, SampledRun) and bool(run.exact.all())


def _reach(run: Run, estimator: Estimator) -> Reach | None:
    """What the noise floor could do; None where it or the probabilities are not known."""
    return floor.reach(run, estimator) if run_is_exact(run) else None


def _of(run: Run, found: Resampled, reach: Reach | None, margin: float) -> Json:
    positions = uncertainty.position_intervals(found)
    test, equal = tests.position_test(found), tests.equivalence(found, margin)
    within = reach and _within(positions.value - 1 / len(positions.value), reach.positions)
    return {
        "positions": {**_ends(positions), "within_noise": within},
        "test": {
            "null": test.null, "statistic": _plain(test.statistic), "f": _plain(test.f),
            "degrees": test.degrees and [test.degrees[0], _plain(test.degrees[1])], "p": _plain(test.p), "note": test.note,
            "within_noise": within and all(within),
        },
        "equivalence": {
            "margin": equal.margin, "p": _plain(equal.p), "by_position": _nulls(equal.by_position), "note": equal.note,
        },
        "detectable": {"power": 0.8, "by_position": _nulls(tests.detectable(found))},
        "clusters_for": {"effect": EFFECT, "clusters": tests.clusters_for(found, EFFECT)},
        "cells": _cells(uncertainty.matrix_intervals(found), found, reach),
        "costs": _costs(run, found, reach),
    }  # fmt: skip


def _within(apart: FloatArray, reach: FloatArray) -> list[bool | None]:
    """Whether the noise floor reaches as far as a number is from what no bias would give; None for one that is not there."""
    return [None if not math.isfinite(a) else bool(abs(a) <= r) for a, r in zip(apart, reach, strict=True)]


def _ends(found: Simultaneous) -> Json:
    return {**{name: _nulls(getattr(found, name)) for name in ("value", "low", "high")}, "note": found.note}


def _cells(found: Simultaneous, made: Resampled, reach: Reach | None) -> Json:
    ends = {name: [_nulls(row) for row in getattr(found, name)] for name in ("value", "low", "high")}
    within = reach and [_within(*rows) for rows in zip(found.value - 1 / len(found.value), reach.cells, strict=True)]
    return {
        **ends,
        "off": found.off.tolist(),
        "within_noise": within,
        "effective_clusters": _nulls(made.effective),
        "reasons": list(found.reasons),
        "note": found.note,
    }


def _costs(run: Run, found: Resampled, reach: Reach | None) -> list[Json]:
    costs = uncertainty.cost_intervals(found, run.orderings)
    within = [None] * len(run.orderings) if reach is None else _within(costs.value, reach.costs(run.orderings))
    columns = [_nulls(getattr(costs, name)) for name in ("value", "low", "high", "unbiased")]
    names = ("ordering", "cost", "low", "high", "unbiased", "within_noise")
    scores = run.scores.tolist()
    orderings = [list(ordering.values(scores)) for ordering in run.orderings]
    return [dict(zip(names, row, strict=True)) for row in zip(orderings, *columns, within, strict=True)]


def _nulls(values: FloatArray) -> list[float | None]:
    return [_plain(float(value)) for value in values]


def _plain(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
