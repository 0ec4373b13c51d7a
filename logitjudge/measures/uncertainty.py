"""How sure a run is of its position bias: intervals that hold together.

Items that share a cluster are alike, so clusters are resampled, never readings. Intervals that belong together (positions
of a distribution, cells of a matrix) are simultaneous: bootstrap standard errors times one max-t factor. Its degrees of freedom
are those of the *effective* clusters ``(sum w)^2 / sum w^2``, minus 1. For positions w is a cluster's number of items: C - 1 where all
have as many. For a row of the matrix it is the weight on its score, which may rest on few clusters (real judges hardly use some
scores): with C - 1, simultaneous cells of such judges covered 60-80 % at 20-200 clusters, with these 91-98 %
(scripts/validate_measures.py).

References
----------
R. G. Miller (1981), Simultaneous Statistical Inference (max-t). L. Kish (1965), Survey Sampling (effective numbers).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from logitjudge import orderings as designs
from logitjudge.core import BoolArray, FloatArray, IntArray, Ordering, frozen_array
from logitjudge.errors import InputError, NotObserved, unknown
from logitjudge.measures import cells, differences, intervals
from logitjudge.measures.differences import SAME
from logitjudge.measures.matrices import ESTIMATORS, Estimator, picks
from logitjudge.run import Run, SampledRun

LEAST = 2.0  # effective clusters that a row needs: the spread of one number is unknown, not 0


@dataclass(frozen=True, slots=True, eq=False)
class Simultaneous:
    """Numbers with 95 % intervals that hold together.

    Parameters
    ----------
    value, low, high
        (N, ...) estimate and ends; [x, x] where the clusters do not vary.
    clusters, draws
        C, and how many times they were resampled.
    note
        "too few clusters", "degenerate", or "".
    reasons
        (K,) of a matrix: why its row has no interval, or None.
    """

    value: FloatArray
    low: FloatArray
    high: FloatArray
    clusters: int
    draws: int
    note: str
    reasons: tuple[str | None, ...] = ()

    @property
    def off(self) -> BoolArray:
        """(N, ...) numbers whose interval leaves 1/K out; never one that does not vary, or has no interval."""
        even = 1 / self.value.shape[-1]
        varies = self.high - self.low > SAME
        left_out: BoolArray = varies & ((self.low > even) | (self.high < even))
        return left_out

    def __post_init__(self) -> None:
        for name in ("value", "low", "high"):
            object.__setattr__(self, name, frozen_array(getattr(self, name)))


@dataclass(frozen=True, slots=True, eq=False)
class Resampled:
    """A run's item cells under resampling of its clusters; everything below is made of it.

    Parameters
    ----------
    cells
        (C, K, P) sums over each cluster's items of what they give to score k at position p.
    share
        (C, K) sums of what they give to score k.
    shares
        (C, K) what each cluster says of the share at each position; see `_by_cluster`. Their mean over clusters is the mean
        over items; in a balanced design that is the position distribution.
    weights
        (B, C) how often each cluster was drawn.
    """

    cells: FloatArray
    share: FloatArray
    shares: FloatArray
    weights: FloatArray

    @property
    def clusters(self) -> int:
        """C."""
        return len(self.cells)

    @property
    def once(self) -> FloatArray:
        """(1, C) weights of the run itself: every cluster once."""
        return np.ones((1, self.clusters))

    @property
    def effective(self) -> FloatArray:
        """(K,) clusters that a row of the matrix rests on, (sum w)^2 / sum w^2 with w a cluster's weight on the score."""
        return _effective(self.cells.sum(axis=2))

    @property
    def worth(self) -> float:
        """How many clusters of one size these are worth, (sum n)^2 / sum n^2 with n a cluster's number of items; C at most."""
        return float(_effective(np.rint(self.share.sum(axis=1))[:, None])[0])

    @property
    def widening(self) -> float:
        """Factor of variances over items, (1 - 1/C) / (1 - 1/worth): large clusters pull the mean that they are compared with."""
        return (1 - 1 / self.clusters) / (1 - 1 / self.worth)

    def matrices(self, weights: FloatArray | None = None) -> FloatArray:
        """(B, K, P) score x position matrices; of the run itself where ``weights`` is `once`."""
        return cells.matrices(self.cells, self.weights if weights is None else weights)

    def distributions(self, weights: FloatArray | None = None) -> FloatArray:
        """(B, P) position distributions: rows of the matrices, by the scores' shares."""
        weights = self.weights if weights is None else weights
        share = weights @ self.share
        share = share / share.sum(axis=1, keepdims=True)
        made: FloatArray = np.einsum("bk,bkp->bp", share, np.nan_to_num(self.matrices(weights)))
        return made


def _effective(weight: FloatArray) -> FloatArray:
    """(N,) effective number of (C, N) weights; 0 without any."""
    square = (weight**2).sum(axis=0)
    count: FloatArray = np.divide(weight.sum(axis=0) ** 2, square, where=square > 0, out=np.zeros(len(square)))
    return count


def resampled(run: Run, estimator: Estimator = "soft", *, draws: int = 2000, seed: int = 0) -> Resampled:
    """Item cells of a run, summed by cluster, and draws of clusters.

    Raises
    ------
    InputError
        An estimator that does not exist, or fewer than two draws.
    NotObserved
        Some score is never shown at some position.
    """
    if estimator not in ESTIMATORS:
        raise InputError(unknown("estimator", estimator, ESTIMATORS))
    if draws < 2:
        raise InputError(f"draws is {draws}: an interval needs at least two.")
    if gaps := designs.uncovered(run.orderings):
        k, p = gaps[0]
        raise NotObserved(
            f"score {run.scores[k]} is never shown at position {p + 1}: there is no interval. The design 'balanced' covers all cells."
        )
    weight = run.probs() if estimator == "soft" else _picks(run)
    by_item = cells.by_item(weight, run.shown)  # (I, K, P)
    number = intervals.number([item.cluster for item in run.items])
    count = int(number.max()) + 1
    rng = np.random.default_rng(seed)
    weights = intervals.times(count, draws, rng).astype(np.float64)
    return Resampled(
        _sums(by_item, number, count),
        _sums(weight.mean(axis=1), number, count),
        _by_cluster(by_item, number, count),
        weights,
    )


def _by_cluster(by_item: FloatArray, number: IntArray, count: int) -> FloatArray:
    """(C, P) shares by cluster, m + C/I x the sum over its items of (share - m), m the mean over items.

    For clusters of equal size it is their mean; for others a mean of means would answer another question than the position
    distribution does, so each cluster counts with its items (linearisation). An item's share at p is the mean over scores of its
    cells at p, shifted (not divided) to sum to 1: both are the plain share in a balanced design, and the shift
    keeps an order-blind judge's expectation at 1/K where some cells rest on fewer readings than others.
    """
    shares = by_item.mean(axis=1)
    shares += 1 / shares.shape[1] - shares.mean(axis=1, keepdims=True)
    mean = shares.mean(axis=0)
    made: FloatArray = mean + count / len(shares) * _sums(shares - mean, number, count)
    return made


def _picks(run: Run) -> FloatArray:
    """(I, O, K) picks; of a sampled run, shares among the texts that could be parsed."""
    made = picks(run)
    if not isinstance(run, SampledRun):
        return made
    if not (run.parsed > 0).all():
        count = int((run.parsed == 0).sum())
        raise NotObserved(
            f"from {count} of {run.parsed.size} readings no text could be parsed: intervals over items need all. "
            "Take more --samples, or leave these items out (run.select)."
        )
    shares: FloatArray = made / run.parsed[..., None]
    return shares


def _sums(values: FloatArray, number: IntArray, count: int) -> FloatArray:
    """(C, ...) sums of (I, ...) values over the items of each cluster."""
    total = np.zeros((count, *values.shape[1:]))
    np.add.at(total, number, values)
    return total


def position_intervals(made: Resampled) -> Simultaneous:
    """(P,) position distribution with simultaneous intervals, t with `worth` - 1 degrees of freedom (C - 1 for clusters of one size)."""
    value, drawn = made.distributions(made.once)[0], made.distributions()
    if made.clusters < 2:
        return _ends(value, np.full(value.shape, np.nan), made)
    error, tail = differences.spread(drawn)
    return _ends(value, error * np.sqrt(made.widening) * stats.t.isf(tail, made.worth - 1), made)


def matrix_intervals(made: Resampled) -> Simultaneous:
    """(K, P) score x position matrix; intervals of all cells hold together.

    NaN in a row that was never picked; no interval in one that rests on less than two effective clusters (`reasons`).
    """
    value, drawn = made.matrices(made.once)[0], made.matrices()
    half = np.full(value.shape, np.nan)
    rows = _usable(made)
    if rows.any():
        half[rows] = _half_widths(drawn[:, rows], made.effective[rows, None])
    return _ends(value, half, made, tuple(_reason(count) for count in made.effective))


def _usable(made: Resampled) -> BoolArray:
    """(K,) rows that have intervals."""
    rows: BoolArray = made.effective >= LEAST * (1 - SAME)
    return rows


def _reason(effective: float) -> str | None:
    """Why a row has no interval."""
    if effective == 0:
        return "never picked"
    few = effective < LEAST * (1 - SAME)
    return f"rests on {effective:.1f} effective clusters, and an interval takes {LEAST:g}" if few else None


def _ends(value: FloatArray, half: FloatArray, made: Resampled, reasons: tuple[str | None, ...] = ()) -> Simultaneous:
    """Intervals value +- half within [0, 1], and what is to be said of all of them."""
    note = intervals.few(made.clusters)
    if made.clusters < 2:
        note = "no interval: all items are of one cluster"
    elif not (half[np.isfinite(half)] > SAME).any():
        note = "degenerate: the clusters do not vary"
    low, high = np.clip(value - half, 0, 1), np.clip(value + half, 0, 1)
    return Simultaneous(value, low, high, made.clusters, len(made.weights), note, reasons)


def _half_widths(drawn: FloatArray, effective: FloatArray) -> FloatArray:
    """(...) simultaneous half-widths of numbers drawn (B, ...), with `effective` clusters each (broadcast).

    Resamples that lack a number (a score that nobody picked in them) are left out of its error.
    """
    flat = drawn.reshape(len(drawn), -1)
    there = np.isfinite(flat)
    filled = np.where(there, flat, np.where(there, flat, 0).sum(axis=0) / there.sum(axis=0))
    error, tail = differences.spread(filled)
    error = error * np.sqrt(len(drawn) / there.sum(axis=0))
    half: FloatArray = error.reshape(drawn.shape[1:]) * stats.t.isf(tail, effective - 1)
    return half


@dataclass(frozen=True, slots=True, eq=False)
class CostInterval:
    """Bias Costs with intervals, and what an unbiased judge would show.

    Parameters
    ----------
    value, low, high
        (N,) cost of each ordering, and [sum max(0, |d_p| - h_p), sum (|d_p| + h_p)] with simultaneous half-widths h.
    unbiased
        (N,) the cost that a judge without position bias would show on average with these items: distances are never
        negative, so noise alone costs something. Resamples about their own centre, whose variance is (C - 1)/C of that of
        clusters drawn anew, made up for.
    """

    value: FloatArray
    low: FloatArray
    high: FloatArray
    unbiased: FloatArray


def cost_intervals(made: Resampled, orderings: Sequence[Ordering]) -> CostInterval:
    """Bias Costs of orderings, each with its 95 % interval; NaN where a row of the matrix is missing or has no interval.

    Nor is there one where cells do not vary, in rows of less than 20 effective clusters, and others do: they are not certain (a score
    picked three times, each time at the same place), they rest on few picks.
    """
    value, drawn, rows = made.matrices(made.once)[0], made.matrices(), _usable(made)
    return CostInterval(*np.array([_cost(value, drawn, made, rows, list(o.shown)) for o in orderings]).T)


def _cost(
    value: FloatArray, drawn: FloatArray, made: Resampled, rows: BoolArray, shown: list[int]
) -> tuple[float, ...]:
    """Cost, its ends, and the cost of an unbiased judge, of one ordering."""
    places = range(len(shown))
    apart = np.abs(value[shown, places] - 1 / len(shown))
    if not rows[shown].all():
        return float(apart.sum()), np.nan, np.nan, np.nan
    cells_of = drawn[:, shown, places]
    half = _half_widths(cells_of, made.effective[shown])
    if (half > SAME).any() and (made.effective[shown][half <= SAME] < intervals.FEW).any():
        return float(apart.sum()), np.nan, np.nan, np.nan
    noise = np.abs(cells_of - value[shown, places]).sum(axis=1)
    null = np.nanmean(noise) * np.sqrt(made.clusters / (made.clusters - 1))
    return float(apart.sum()), float(np.maximum(0, apart - half).sum()), float((apart + half).sum()), float(null)
