"""Which ordering to use, without labels: the cheapest by soft Bias Cost, and which others cannot be told from it.

A judge with one bias by position, whatever the score, charges about the same for every ordering: then no ordering is better,
and only averaging helps. So a choice is made only where two things can be told over clusters: that the judge has score x
position interaction at all (its log-ratios are not additive), and that some ordering costs less than the mean over all K!.

References
----------
arXiv:2602.02219, section 5.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from logitjudge.core import BoolArray, FloatArray, IntArray, Ordering, frozen_array
from logitjudge.errors import InputError, NotObserved
from logitjudge.measures import cells, differences, intervals
from logitjudge.measures.costs import dearest_ordering, rank_orderings
from logitjudge.measures.matrices import score_position_matrix
from logitjudge.run import Run

if TYPE_CHECKING:
    import pandas as pd

LISTED = 720  # 6! orderings are compared with each other; of more levels, the cheapest ones
WORK = 200_000_000  # numbers of a comparison of all pairs: of many orderings there are fewer resamples


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """Orderings by soft Bias Cost, and what can be told apart.

    Parameters
    ----------
    orderings
        (N,) orderings that were compared, cheapest first: all K!, or of more than 6 levels the cheapest and the dearest.
    costs
        (N,) soft Bias Costs.
    alike
        (N,) those that cannot be told from the cheapest; they hold the truly cheapest with 95 %. All, without `interaction`.
    better
        (N,) those that are surely cheaper than the mean over all K!, together at 95 %. None, without `interaction`.
    mean
        Mean cost over all K!.
    interaction
        Whether score x position interaction was told from none: without it, orderings do not differ in kind.
    clusters, draws
        What was resampled, and how often.
    scores
        (K,) score values.
    """

    orderings: tuple[Ordering, ...]
    costs: FloatArray
    alike: BoolArray
    better: BoolArray
    mean: float
    interaction: bool
    clusters: int
    draws: int
    scores: IntArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "costs", frozen_array(self.costs))
        object.__setattr__(self, "scores", frozen_array(self.scores, np.int64))
        for name in ("alike", "better"):
            object.__setattr__(self, name, frozen_array(getattr(self, name), np.bool_))

    @property
    def average(self) -> bool:
        """Whether no ordering is distinguishably better, so that averaging is all that helps."""
        return not (self.interaction and self.better[0])

    @property
    def reason(self) -> str:
        """Why to average, or how many orderings are as good as the cheapest."""
        if self.clusters < 2:
            return "all items are of one cluster, so nothing can be told"
        if not self.interaction:
            return "score x position interaction cannot be told from none, and without it every ordering costs about the same"
        if not self.better[0]:
            return "no ordering can be told from the mean over all orderings"
        return f"{int(self.alike.sum())} of {len(self.orderings)} orderings cannot be told from the cheapest"

    def to_frame(self) -> pd.DataFrame:
        """Frame, one row an ordering, cheapest first: ordering (score values joined by commas), cost, alike, better."""
        import pandas as pd

        texts = [",".join(map(str, ordering.values(self.scores.tolist()))) for ordering in self.orderings]
        return pd.DataFrame({"ordering": texts, "cost": self.costs, "alike": self.alike, "better": self.better})


def select(run: Run, *, draws: int = 1000, seed: int = 0) -> Selection:
    """Rank orderings by soft Bias Cost and say which of them cannot be told apart.

    Parameters
    ----------
    run
        A run in which every score stood at every position.
    draws
        Resamples of clusters; fewer where there are more than 400 orderings.
    seed
        Of the resampling. The result does not depend on the order of the items.

    Returns
    -------
    Selection
        With `average` true where no ordering is distinguishably better.

    Raises
    ------
    NotObserved
        A (score, position) cell is missing.
    InputError
        Fewer than two draws.
    """
    if draws < 2:
        raise InputError(f"draws is {draws}: an interval needs at least two.")
    shown = _candidates(run)
    draws = max(2, min(draws, WORK // len(shown) ** 2))
    clusters = intervals.number([item.cluster for item in run.items])
    table = cells.by_item(run.probs(), run.shown)
    (values, mean), (drawn, means) = _costs(table, shown, clusters, draws, seed)
    order = np.lexsort((*shown.T[::-1], np.rint(values * 1e12)))
    values, drawn, count = values[order], drawn[:, order], int(clusters.max()) + 1
    told = has_interaction(run, draws=draws, seed=seed)
    return Selection(
        tuple(Ordering(row) for row in shown[order].tolist()),
        values,
        alike=differences.may_be_smallest(values, drawn, count) | (not told),
        better=differences.surely_below(values - mean, drawn - means[:, None], count) & told,
        mean=mean,
        interaction=told,
        clusters=count,
        draws=draws,
        scores=run.scores,
    )


def _candidates(run: Run) -> IntArray:
    """(N, K) orderings to compare: all, or the cheapest, the dearest and the identity."""
    matrix = score_position_matrix(run, "soft")
    matrix.require_all()
    levels = len(run.scores)
    if levels <= 6:
        return cells.every(levels)
    rows = [row.ordering.shown for row in rank_orderings(matrix, LISTED - 2)]
    return np.array(list(dict.fromkeys([*rows, tuple(range(levels)), dearest_ordering(matrix).ordering.shown])))


def _costs(
    table: FloatArray, shown: IntArray, clusters: IntArray, draws: int, seed: int
) -> tuple[tuple[FloatArray, float], tuple[FloatArray, FloatArray]]:
    """Costs (N,) and their mean over all K!; (B, N) and (B,) the same under resampling of clusters."""

    def statistic(weight: FloatArray) -> FloatArray:
        matrix = cells.matrices(table, weight)
        return np.column_stack([cells.costs(matrix, shown), cells.mean_cost(matrix)])

    [value] = statistic(np.ones((1, len(table))))
    drawn = intervals.bootstrap(statistic, clusters, draws=draws, rng=np.random.default_rng(seed))
    drawn = drawn[np.isfinite(drawn).all(axis=1)]
    return (value[:-1], float(value[-1])), (drawn[:, :-1], drawn[:, -1])


def has_interaction(run: Run, *, draws: int = 1000, seed: int = 0) -> bool:
    """Whether some cell of score x position interaction (centred log-ratios, nats) surely differs from 0, by max-t over cells.

    False with one cluster, where nothing can be told.
    """
    left = cells.interaction(run).reshape(len(run.items), -1)  # (I, K P)
    clusters = intervals.number([item.cluster for item in run.items])

    def mean(weight: FloatArray) -> FloatArray:
        average: FloatArray = weight @ left / weight.sum(axis=1, keepdims=True)
        return average

    [value] = mean(np.ones((1, len(left))))
    drawn = intervals.bootstrap(mean, clusters, draws=draws, rng=np.random.default_rng(seed))
    return bool(differences.surely_not_zero(value, drawn, int(clusters.max()) + 1).any())


@dataclass(frozen=True, slots=True)
class HeldOut:
    """An ordering that half of the clusters chose, judged on the other half.

    Parameters
    ----------
    ordering
        The cheapest on the first half.
    saving
        Soft Bias Cost of the identity minus that of `ordering`, on the second half; the identity is the order of the scores.
    low, high
        95 % interval of `saving`, paired over the clusters of the second half.
    clusters
        Of the second half.
    """

    ordering: Ordering
    saving: float
    low: float
    high: float
    clusters: int

    @property
    def better(self) -> bool:
        """Whether the ordering is surely cheaper than the identity where it was not chosen."""
        return self.saving > differences.SAME and self.low > 0


def held_out(run: Run, *, draws: int = 1000, seed: int = 0) -> HeldOut:
    """Choose an ordering on one half of the clusters, and compare it with the identity on the other.

    A choice looks too good on the items that made it; this is what it is worth on items that it never saw.

    Parameters
    ----------
    run
        A run in which every score stood at every position.
    draws, seed
        Of the resampling; `seed` also halves the clusters.

    Raises
    ------
    NotObserved
        A (score, position) cell is missing, or there are fewer than four clusters.
    """
    clusters = intervals.number([item.cluster for item in run.items])
    if (count := int(clusters.max()) + 1) < 4:
        raise NotObserved(f"{count} clusters cannot be halved and resampled. Read items of at least 4 clusters.")
    rng = np.random.default_rng(seed)
    chooses = np.isin(clusters, rng.permutation(count)[: count // 2])
    matrix = score_position_matrix(run.select(chooses.tolist()), "soft")
    matrix.require_all()
    ordering = rank_orderings(matrix, 1)[0].ordering
    shown = np.array([range(len(run.scores)), ordering.shown])
    table = cells.by_item(run.probs()[~chooses], run.shown)

    def saving(weight: FloatArray) -> FloatArray:
        price = cells.costs(cells.matrices(table, weight), shown)
        apart: FloatArray = price[:, 0] - price[:, 1]
        return apart

    [value] = saving(np.ones((1, len(table))))
    _, judging = np.unique(clusters[~chooses], return_inverse=True)
    drawn = intervals.bootstrap(saving, judging, draws=draws, rng=rng)
    low, high = intervals.t_interval(float(value), drawn, count - count // 2)
    return HeldOut(ordering, float(value), low, high, count - count // 2)
