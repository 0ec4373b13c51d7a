"""Several runs side by side, and how far a run has drifted from another, as JSON values.

Drift is paired: the same items, under the orderings that both runs read, with the clusters of the items resampled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from logitjudge.core import FloatArray, IntArray
from logitjudge.errors import InputError
from logitjudge.measures import cells, differences, intervals, pools
from logitjudge.measures.agreement import agreement
from logitjudge.measures.correlations import pearson
from logitjudge.measures.matrices import ESTIMATORS, picks, score_position_matrix
from logitjudge.report.summary import spread
from logitjudge.run import Run, SampledRun

Json = dict[str, Any]


def section(run: Run, name: str, *, draws: int = 1000) -> Json:
    """One run's row.

    Returns
    -------
    dict
        name, model, dataset, protocol, items, clusters, orderings (how many), balanced design or not, scores;
        ``position_distribution`` and ``severity`` (sum of |share - 1/K|) by estimator; ``identity`` and ``cheapest`` soft
        cost; ``agreement`` (rows of Pearson and Spearman); ``mass`` (mean, min); ``noise_floor`` (nats at most). What does
        not exist is None.
    """
    sampled = isinstance(run, SampledRun)
    matrices = {e: None if sampled and e == "soft" else score_position_matrix(run, e) for e in ESTIMATORS}
    shares = {e: None if m is None else _nulls(m.position_distribution()) for e, m in matrices.items()}
    costs = None if matrices["soft"] is None else spread(matrices["soft"])
    method = "mean_winner" if sampled else "mean_prob"
    rated = bool(np.isfinite(run.ratings).any())
    floor = run.provenance.get("noise_floor")
    return {
        "name": name,
        **pools.about(run)._asdict(),
        "items": len(run.items),
        "clusters": len({item.cluster for item in run.items}),
        "orderings": len(run.orderings),
        "scores": run.scores.tolist(),
        "position_distribution": shares,
        "severity": {e: _severity(share) for e, share in shares.items()},
        "identity": costs and costs["identity"],
        "cheapest": costs and costs["cheapest"],
        "agreement": [
            {key: getattr(row, key) for key in ("target", "method", "measure", "value", "low", "high", "note")}
            for row in (agreement(run, method, draws=draws) if rated else ())
        ],
        "mass": None if sampled else {"mean": float(run.mass.mean()), "min": float(run.mass.min())},
        "noise_floor": floor and floor["max_nats"],
    }


def comparison(runs: Sequence[Run], names: Sequence[str], *, draws: int = 1000) -> Json:
    """All runs as rows, with a note on their protocols."""
    return {
        "note": pools.protocol_note(runs),
        "runs": [section(run, name, draws=draws) for run, name in zip(runs, names, strict=True)],
    }


def drift(run: Run, baseline: Run, *, draws: int = 1000, seed: int = 0) -> Json:
    """How far a run is from a baseline.

    Returns
    -------
    dict
        ``items``, ``clusters``, ``orderings`` (that both have), ``winners_changed`` (share of those readings), ``notes``, and
        ``rows``, each with ``quantity``, ``baseline``, ``run``, ``difference``, ``low``, ``high`` (95 %, each alone; clusters
        resampled) and ``moved`` (surely not 0, all rows together). Quantities: position p1 .. pK, the identity's cost (both
        soft), the mean expected score, mass, and Pearson with people (where all shared items are rated). A difference of expected
        scores that the noise floor could explain says so in ``notes``.

    Raises
    ------
    InputError
        Other scores, or no common item or ordering.
    """
    ids, a, b = _shared(run, baseline)
    clusters = intervals.number([run.items[i].cluster for i in a[0]])
    new, old = (_Side(side, *rows) for side, rows in ((run, a), (baseline, b)))
    names = _quantities(new, old)

    def statistic(weight: FloatArray) -> FloatArray:
        return np.concatenate([new.values(weight, old), old.values(weight, new)], axis=1)

    [value] = statistic(np.ones((1, len(ids))))
    count = int(clusters.max()) + 1
    n = len(names)
    if count > 1:
        drawn = intervals.bootstrap(statistic, clusters, draws=draws, rng=np.random.default_rng(seed))
        apart = drawn[:, :n] - drawn[:, n:]
    else:
        apart = np.full((2, n), np.nan)
    return {
        "items": len(ids),
        "clusters": count,
        "orderings": len(a[1]),
        "winners_changed": float((np.abs(new.picked - old.picked).sum(axis=2) > 1e-9).mean()),
        "rows": _rows(names, value[:n], value[n:], apart, count),
        "notes": _notes(run, baseline, value[:n], value[n:], names, count),
    }


def _shared(run: Run, baseline: Run) -> tuple[list[str], tuple[IntArray, IntArray], tuple[IntArray, IntArray]]:
    """Ids of common items, and in each run the places of them and of the common orderings."""
    if isinstance(run, SampledRun) or isinstance(baseline, SampledRun):
        raise InputError("a sampled run has no probabilities to compare. Give runs of direct, feedback or think.")
    if run.scores.tolist() != baseline.scores.tolist():
        raise InputError(
            f"the runs have the scores {run.scores.tolist()} and {baseline.scores.tolist()}. They must be the same."
        )
    first, second = ({item.id: i for i, item in enumerate(side.items)} for side in (run, baseline))
    ids = [name for name in first if name in second]
    there, then = ({o: n for n, o in enumerate(side.orderings)} for side in (run, baseline))
    orders = [o for o in there if o in then]
    if not ids or not orders:
        what = "item" if not ids else "ordering"
        raise InputError(f"the runs have no {what} in common, so nothing can be paired. Run the same data and design.")
    places = [np.array([side[name] for name in ids]) for side in (first, second)]
    columns = [np.array([side[o] for o in orders]) for side in (there, then)]
    return ids, (places[0], columns[0]), (places[1], columns[1])


class _Side:
    """One of the two runs on what both share."""

    def __init__(self, run: Run, items: IntArray, orders: IntArray) -> None:
        self.probs = run.probs()[np.ix_(items, orders)]
        self.picked = picks(run)[np.ix_(items, orders)]
        self.shown = run.shown[orders]
        self.cells = cells.by_item(self.probs, self.shown)
        self.expected = (self.probs @ run.scores).mean(axis=1)
        self.mass = run.mass[np.ix_(items, orders)].mean(axis=1)
        self.ratings = run.ratings[items]

    @property
    def covered(self) -> bool:
        """Whether every score was seen at every position."""
        return cells.covered(self.shown)

    @property
    def rated(self) -> bool:
        """Whether all shared items have ratings that vary."""
        return bool(np.isfinite(self.ratings).all() and np.ptp(self.ratings) > 0)

    def values(self, weight: FloatArray, other: _Side) -> FloatArray:
        """(B, Q) all quantities where items count weight (B, I) times."""
        share = weight / weight.sum(axis=1, keepdims=True)
        made = [(share @ self.expected)[:, None], (share @ self.mass)[:, None]]
        if self.covered:
            matrix = cells.matrices(self.cells, weight)
            made += [np.einsum("bk,bkp->bp", share @ self.probs.mean(axis=1), matrix)]
            made += [np.trace(np.abs(matrix - 1 / matrix.shape[1]), axis1=1, axis2=2)[:, None]]
        if self.rated and other.rated:
            made.append(pearson(self.expected[:, None], self.ratings, weight))
        return np.concatenate(made, axis=1)


def _quantities(new: _Side, old: _Side) -> list[str]:
    names = ["mean expected score", "mass"]
    if new.covered:
        names += [f"position p{p + 1}" for p in range(new.shown.shape[1])] + ["identity cost"]
    return [*names, *(["pearson"] if new.rated and old.rated else [])]


def _rows(names: Sequence[str], new: FloatArray, old: FloatArray, apart: FloatArray, clusters: int) -> list[Json]:
    """Each quantity with the interval of its difference."""
    apart = apart[np.isfinite(apart).all(axis=1)]
    told = len(apart) > 1 and clusters > 1
    half = apart.std(axis=0, ddof=1) * stats.t.ppf(0.975, clusters - 1) if told else np.full(len(names), np.nan)
    moved = differences.surely_not_zero(new - old, apart, clusters) if told else None
    rows = []
    for n, name in enumerate(names):
        gap = new[n] - old[n]
        ends = {"difference": _null(gap), "low": _null(gap - half[n]), "high": _null(gap + half[n])}
        sure = None if moved is None else bool(moved[n])
        rows.append({"quantity": name, "baseline": _null(old[n]), "run": _null(new[n]), **ends, "moved": sure})
    return rows


def _notes(run: Run, baseline: Run, new: FloatArray, old: FloatArray, names: Sequence[str], clusters: int) -> list[str]:
    """What to know before the rows are used."""
    made = []
    if len({pools.about(side).protocol for side in (run, baseline)}) > 1:
        made.append(pools.protocol_note([run, baseline]))
    identities = [side.provenance.get("identity") or {} for side in (run, baseline)]
    for key in ("rubric", "template"):
        if len({str(identity.get(key)) for identity in identities}) > 1:
            made.append(f"the runs have another {key}")
    if clusters < intervals.FEW:
        made.append(f"too few clusters ({clusters} < {intervals.FEW})")
    floors = [(side.provenance.get("noise_floor") or {}).get("max_score") for side in (run, baseline)]
    known = [floor for floor in floors if floor is not None]
    if known and abs(new[0] - old[0]) <= max(known):
        made.append(f"the difference of the {names[0]} is within the noise floor ({max(known):.2g} points)")
    return made


def _severity(share: Sequence[float | None] | None) -> float | None:
    if share is None or any(value is None for value in share):
        return None
    return float(np.abs(np.array(share, float) - 1 / len(share)).sum())


def _nulls(values: FloatArray) -> list[float | None]:
    return [_null(value) for value in values]


def _null(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
