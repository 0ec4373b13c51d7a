"""The paper's tables from runs, each as a frame with one row a number, its interval and its protocol beside it.

The paper's tables compare the winners of its ten balanced orderings ("hard"); beside them stand the same from probabilities
("soft"), which the paper could not read. Of a run of all K! orderings the ten are taken.

References
----------
arXiv:2602.02219, sections 5.1 to 5.3: Figure 5, Tables 4 to 6; Tables 2 and 3 are in `logitjudge.measures.permutation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from logitjudge.core import FloatArray, Ordering
from logitjudge.errors import NotObserved
from logitjudge.measures import cells, differences, intervals, pools, repeats, tabled
from logitjudge.measures.correlations import pearson
from logitjudge.measures.costs import bias_cost, rank_orderings
from logitjudge.measures.matrices import Estimator
from logitjudge.measures.pools import By
from logitjudge.run import Run

if TYPE_CHECKING:
    import pandas as pd

DRAWS = 1000
MEASURES = ("pearson", "spearman")


def figure_5(runs: Sequence[Run], *, draws: int = DRAWS, seed: int = 0) -> pd.DataFrame:
    """Share of picks at each position of the ten orderings, by run.

    Returns
    -------
    pandas.DataFrame
        One row a run, estimator and position: model, dataset, protocol, estimator, position (1-based), share, low, high (95 %,
        clusters resampled), items, clusters. A sampled run has no "soft" rows.
    """
    rows = []
    for run in map(pools.ten, runs):
        for estimator, weight in tabled.weights(run).items():
            table = cells.by_item(weight, run.shown)
            low, high, value = tabled.interval(partial(_shares, table), run, draws, seed)
            rows += [
                {
                    **tabled.who(run),
                    "estimator": estimator,
                    "position": p + 1,
                    "share": value[p],
                    "low": low[p],
                    "high": high[p],
                }
                | tabled.size(run)
                for p in range(len(value))
            ]
    return tabled.frame(rows)


def table_4(runs: Sequence[Run], *, draws: int = DRAWS, seed: int = 0) -> pd.DataFrame:
    """Rank of the ordering 12345 among the ten, by Pearson correlation with people.

    Returns
    -------
    pandas.DataFrame
        One row a rated run and estimator ("hard": winners, the paper's; "soft": expected scores): rank (1: the highest
        correlation; ties share), low and high (the ranks that simultaneous paired differences leave, 95 %), of, r, best, note.
    """
    rows = []
    for run in map(pools.ten, runs):
        if not np.isfinite(run.ratings).any():
            continue
        for estimator in tabled.weights(run):
            found = _by_ordering([run], estimator, draws, seed)
            rows.append(
                {**tabled.who(run), "estimator": estimator, **_ranked(found, repeats.identity(run)), **tabled.size(run)}
            )
    return tabled.frame(rows)


def table_5(runs: Sequence[Run], *, by: By = "items") -> pd.DataFrame:
    """Score x position, for each model across all datasets.

    Returns
    -------
    pandas.DataFrame
        One row a model, estimator and score: p1 .. pK (they sum to 1; NaN where nobody picked the score, and `reason`), share,
        picks, effective_items.
    """
    rows = []
    for found in pools.pool([pools.ten(run) for run in runs], by):
        for estimator in tabled.there(found.runs):
            matrix = found.matrix(estimator)
            for k, score in enumerate(matrix.scores.tolist()):
                cell = {f"p{p + 1}": value for p, value in enumerate(matrix.values[k])}
                about = {
                    "model": found.model,
                    "protocol": found.protocol,
                    "by": by,
                    "estimator": estimator,
                    "score": score,
                }
                rests = {name: getattr(matrix, name)[k] for name in ("share", "picks", "effective_items", "reasons")}
                rows.append({**about, **cell, **rests})
    return tabled.frame(rows).rename(columns={"reasons": "reason"})


def table_6(runs: Sequence[Run], *, by: By = "items", draws: int = DRAWS, seed: int = 0) -> pd.DataFrame:
    """The cheapest ordering by Bias Cost: its cost, and its rank by correlation with people.

    Returns
    -------
    pandas.DataFrame
        For each model and estimator one row among the ten, and one among K!: ordering, cost, corr_rank (mean over the
        rated datasets, 1: the highest Pearson correlation; NaN where the ordering was not read, or nothing is rated), low and
        high (ranks that simultaneous differences of the mean correlation leave), of, better_half (whether corr_rank is at
        most half of `of`), note.
    """
    rows = []
    for whole in pools.pool(runs, by):
        few = pools.Pool(whole.model, whole.protocol, tuple(map(pools.ten, whole.runs)), by)
        for estimator in tabled.there(whole.runs):
            about = {"model": whole.model, "protocol": whole.protocol, "by": by, "estimator": estimator}
            ten = few.runs[0].orderings
            rows.append({**about, "among": len(ten), **_cheapest(few, estimator, ten, draws, seed)})
            count = int(np.prod(np.arange(1, len(few.runs[0].scores) + 1)))
            rows.append({**about, "among": count, **_cheapest(whole, estimator, (), draws, seed, read=count)})
    return tabled.frame(rows)


def _cheapest(
    found: pools.Pool, estimator: Estimator, among: Sequence[Ordering], draws: int, seed: int, read: int = 0
) -> dict[str, Any]:
    """The cheapest of `among` (of all K! where that is empty), and its rank by correlation."""
    blank = {"ordering": None, "cost": np.nan, "corr_rank": np.nan, "low": np.nan, "high": np.nan}
    blank |= {"of": np.nan, "better_half": None}
    matrix = found.matrix(estimator)
    try:
        best = (
            min(among, key=lambda o: round(bias_cost(matrix, o), 12))
            if among
            else rank_orderings(matrix, 1)[0].ordering
        )
    except NotObserved as error:
        return {**blank, "note": str(error)}
    run = found.runs[0]
    row = {**blank, "ordering": ",".join(map(str, best.values(run.scores.tolist()))), "cost": bias_cost(matrix, best)}
    rated = [run for run in found.runs if np.isfinite(run.ratings).any()]
    if not rated:
        return {**row, "note": "no ratings"}
    if best not in run.orderings or (read and len(run.orderings) < read):
        return {**row, "note": "not all of these orderings were read, so there is no rank"}
    made = _by_ordering(rated, estimator, draws, seed)
    rank = _ranked(made, run.orderings.index(best))
    each = [differences.rank(r, run.orderings.index(best)) for r in made.by_run if np.isfinite(r).all()]
    mean = float(np.mean(each)) if each else np.nan
    half = bool(mean <= rank["of"] / 2) if each else None
    return {**row, **{k: rank[k] for k in ("low", "high", "of", "note")}, "corr_rank": mean, "better_half": half}


class ByOrdering(NamedTuple):
    """Correlations of each ordering with people."""

    r: FloatArray  # (N,) mean over datasets
    drawn: FloatArray  # (B, N)
    by_run: list[FloatArray]
    clusters: int  # the fewest of any dataset


def _by_ordering(runs: Sequence[Run], estimator: Estimator, draws: int, seed: int) -> ByOrdering:
    """Pearson correlations with people of each ordering alone, averaged over datasets; clusters resampled in each."""
    values, drawn, clusters = [], [], []
    for n, run in enumerate(runs):
        keep = np.isfinite(run.ratings)
        x = (tabled.weights(run)[estimator] @ run.scores)[keep]
        y, number = run.ratings[keep], intervals.number([i.cluster for i, k in zip(run.items, keep, strict=True) if k])
        values.append(pearson(x, y, np.ones((1, len(y))))[0])
        rng = np.random.default_rng([seed, n])
        drawn.append(intervals.bootstrap(partial(pearson, x, y), number, draws=draws, rng=rng))
        clusters.append(int(number.max()) + 1)
    return ByOrdering(np.mean(values, axis=0), np.mean(drawn, axis=0), values, min(clusters))


def _ranked(found: ByOrdering, which: int) -> dict[str, Any]:
    """Rank of one ordering by correlation, and the set of ranks that cannot be excluded."""
    of = len(found.r)
    if not np.isfinite(found.r).all():
        blank = dict.fromkeys(("rank", "low", "high", "r", "best"), np.nan)
        return {**blank, "of": of, "note": "degenerate: some ordering's scores do not vary, so it has no correlation"}
    drawn = found.drawn[np.isfinite(found.drawn).all(axis=1)]
    if len(drawn) < 2 or found.clusters < 2:
        low, high, note = 1, of, "no set of ranks: too few clusters"
    else:
        low, high = differences.rank_set(found.r, drawn, which, found.clusters)
        few = found.clusters < intervals.FEW
        note = f"too few clusters ({found.clusters} < {intervals.FEW})" if few else ""
    rank = differences.rank(found.r, which)
    return {"rank": rank, "low": low, "high": high, "of": of, "r": found.r[which], "best": found.r.max(), "note": note}


def _shares(table: FloatArray, weight: FloatArray) -> FloatArray:
    """(B, P) share of picks at each position, of a balanced design, where items count weight (B, I) times."""
    total = np.einsum("bi,ikp->bp", weight, table)
    shares: FloatArray = total / total.sum(axis=1, keepdims=True)
    return shares
