"""Agreement with people in full, as JSON values: by method, by criterion, over systems, with the raters' own ceiling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from logitjudge import registry
from logitjudge.core import BoolArray, FloatArray
from logitjudge.errors import InputError
from logitjudge.measures import closeness, intervals, reliability
from logitjudge.measures.agreement import agreement
from logitjudge.measures.breakdown import breakdown
from logitjudge.run import Run, SampledRun

Json = dict[str, Any]
METHODS = ("mean_prob", "mean_logp", "mean_winner", "single")
CRITERION, SYSTEM = "criterion", "system"  # group columns


def section(run: Run, *, draws: int = 1000, seed: int = 0) -> Json:
    """Agreement of a run's debiased scores with its ratings.

    Returns
    -------
    dict
        ``reliability`` of the raters and the ceiling; ``methods``: for each debiaser the closeness over all items (``pooled``), by
        criterion where items have one and averaged over these, over systems, the share of the ceiling that Pearson reaches, and
        ``rows``: every measure of every part with its interval, ceiling and reason (`logitjudge.measures.breakdown`);
        ``differences`` from ``mean_prob`` (paired). ``{"reason": ...}`` where no item is rated.
    """
    if not np.isfinite(run.ratings).any():
        return {"reason": "no item has a rating in the column 'human'"}
    found = reliability.of_run(run)
    made: Json = {
        "target": run.ratings_name,
        "reliability": _plain(asdict(found)),
        "draws": draws,
        "methods": [],
        "differences": [],
    }
    scores = {name: value for name in _methods(run) if (value := _scores(run, name)) is not None}
    for name, value in scores.items():
        made["methods"].append(_method(run, name, value, found.ceiling, draws, seed))
    first, *others = scores
    for name in others:
        rows = _differences(run, scores[name], scores[first], draws, seed)
        made["differences"].append({"method": name, "than": first, "rows": rows})
    return made


def _methods(run: Run) -> Sequence[str]:
    return ("mean_winner",) if isinstance(run, SampledRun) else METHODS


def _scores(run: Run, name: str) -> FloatArray | None:
    """(I,) scores; None where the run's orderings do not give the method (no identity ordering, say)."""
    try:
        made: FloatArray = registry.make("debiasers", name).fit(run)(run).score
    except InputError:
        return None
    return made


def _method(run: Run, name: str, scores: FloatArray, ceiling: float | None, draws: int, seed: int) -> Json:
    everything = np.isfinite(run.ratings) & np.isfinite(scores)
    criteria = [item.groups.get(CRITERION) for item in run.items]
    names = sorted({str(value) for value in criteria if value is not None})
    parts = {one: _closeness(run, scores, everything & np.array([value == one for value in criteria])) for one in names}
    correlations = {row.measure: row for row in agreement(run, name, draws=draws, seed=seed)}
    pooled = _closeness(run, scores, everything)
    pearson = correlations["pearson"].value
    return {
        "method": name,
        "intervals": [asdict(row) for row in correlations.values()],
        "pooled": pooled,
        "by_criterion": parts if len(parts) > 1 else {},
        "mean_over_criteria": _mean(parts) if len(parts) > 1 else None,
        "systems": _systems(run, scores, everything),
        "rows": [_plain(asdict(row)) for row in breakdown(run, name, draws=draws, seed=seed)],
        "share_of_ceiling": None if ceiling is None or pearson is None else pearson / ceiling,
    }


def _closeness(run: Run, scores: FloatArray, which: BoolArray) -> Json:
    """All point measures over some items."""
    rows = np.flatnonzero(which)
    one, ratings = scores[rows], run.ratings[rows]
    medians = np.array([np.median(run.items[i].human or ()) for i in rows])
    pairs = closeness.pair_accuracy(one, ratings)
    return {
        "items": len(rows),
        "pearson": closeness.correlation(one, ratings),
        "spearman": closeness.correlation(one, ratings, ranked=True),
        "kendall": closeness.kendall(one, ratings),
        "quadratic_kappa": closeness.quadratic_kappa(one, medians, run.scores),
        "exact": closeness.exact(one, medians, run.scores),
        "absolute_error": closeness.absolute_error(one, ratings),
        "pair_accuracy": pairs and pairs.value,
        "tie_threshold": pairs and pairs.threshold,
    }


def _mean(parts: dict[str, Json]) -> Json:
    """Mean over the criteria that have a number."""
    names = [name for name in next(iter(parts.values())) if name not in ("items", "tie_threshold")]
    columns = {name: [part[name] for part in parts.values()] for name in names}
    return {name: None if None in values else float(np.mean(values)) for name, values in columns.items()}


def _systems(run: Run, scores: FloatArray, which: BoolArray) -> Json | None:
    rows = [i for i in np.flatnonzero(which) if SYSTEM in run.items[i].groups]
    if not rows:
        return None
    systems = [str(run.items[i].groups[SYSTEM]) for i in rows]
    return asdict(closeness.system_level(scores[rows], run.ratings[rows], systems))


def _differences(run: Run, one: FloatArray, other: FloatArray, draws: int, seed: int) -> list[Json]:
    rows = np.flatnonzero(np.isfinite(run.ratings) & np.isfinite(one) & np.isfinite(other))
    clusters = intervals.number([run.items[i].cluster for i in rows])
    found = closeness.differences(one[rows], other[rows], run.ratings[rows], clusters, draws=draws, seed=seed)
    return [asdict(row) for row in found]


def _plain(values: Any) -> Any:
    """Plain JSON values of a nested dataclass."""
    if isinstance(values, dict):
        return {name: _plain(value) for name, value in values.items()}
    if isinstance(values, np.generic):
        return values.item()
    return values
