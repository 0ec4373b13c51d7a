"""How sure a run is of its position bias: intervals that hold together, a test, equivalence, and what it could detect.

Items that share a cluster are alike, so clusters are resampled, never readings. Intervals that belong together (positions
of a distribution, cells of a matrix) are simultaneous: bootstrap standard errors times one max-t factor with C - 1 degrees of
freedom.

References
----------
R. G. Miller (1981), Simultaneous Statistical Inference (max-t). H. Hotelling (1931), Annals of Mathematical Statistics 2,
360-378. D. J. Schuirmann (1987), Journal of Pharmacokinetics and Biopharmaceutics 15, 657-680 (two one-sided tests). Y. Benjamini,
Y. Hochberg (1995), JRSS B 57, 289-300.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from logitjudge import orderings as designs
from logitjudge.core import FloatArray, IntArray, Ordering, frozen_array
from logitjudge.errors import InputError, NotObserved, unknown
from logitjudge.measures import cells, differences, intervals
from logitjudge.measures.matrices import ESTIMATORS, Estimator, picks
from logitjudge.run import Run, SampledRun

SAME = 1e-12  # a variance below is rounding
MARGIN = 0.05  # of equivalence: a share this close to 1/K counts as the same


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
    """

    value: FloatArray
    low: FloatArray
    high: FloatArray
    clusters: int
    draws: int
    note: str

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
        (C, K) mean over each cluster's items of their share at each position.
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

    def matrices(self, weights: FloatArray | None = None) -> FloatArray:
        """(B, K, P) score x position matrices; of the run itself where ``weights`` is (1, C) ones."""
        return cells.matrices(self.cells, self.weights if weights is None else weights)

    def distributions(self, weights: FloatArray | None = None) -> FloatArray:
        """(B, P) position distributions: rows of the matrices, by the scores' shares."""
        weights = self.weights if weights is None else weights
        share = weights @ self.share
        share = share / share.sum(axis=1, keepdims=True)
        made: FloatArray = np.einsum("bk,bkp->bp", share, np.nan_to_num(self.matrices(weights)))
        return made


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
    places = by_item.sum(axis=1)
    places = np.divide(places, places.sum(axis=1, keepdims=True), where=places.any(axis=1, keepdims=True), out=places)
    number = intervals.number([item.cluster for item in run.items])
    count = int(number.max()) + 1
    size = np.bincount(number, minlength=count)[:, None]
    rng = np.random.default_rng(seed)
    weights = rng.multinomial(count, np.full(count, 1 / count), size=draws).astype(np.float64)
    summed = [_sums(values, number, count) for values in (by_item, weight.mean(axis=1), places)]
    return Resampled(summed[0], summed[1], summed[2] / size, weights)


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
    """(P,) position distribution with simultaneous intervals."""
    return _simultaneous(made.distributions(np.ones((1, made.clusters)))[0], made.distributions(), made.clusters)


def matrix_intervals(made: Resampled) -> Simultaneous:
    """(K, P) score x position matrix; intervals of all cells hold together. NaN in a row that was never picked."""
    value = made.matrices(np.ones((1, made.clusters)))[0]
    drawn = made.matrices()
    found = _simultaneous(value.ravel(), drawn.reshape(len(drawn), -1), made.clusters)
    ends = {name: getattr(found, name).reshape(value.shape) for name in ("value", "low", "high")}
    return Simultaneous(**ends, clusters=found.clusters, draws=found.draws, note=found.note)


def _simultaneous(value: FloatArray, drawn: FloatArray, clusters: int) -> Simultaneous:
    """Intervals value +- factor x error, within [0, 1]; resamples without a number (a score nobody picked) are left out."""
    note = intervals.few(clusters)
    if clusters < 2:
        nothing = np.full(value.shape, np.nan)
        return Simultaneous(value, nothing, nothing, clusters, len(drawn), "no interval: all items are of one cluster")
    half = _half_widths(drawn, clusters)
    if not half[np.isfinite(value)].any():
        note = "degenerate: the clusters do not vary"
    return Simultaneous(value, np.clip(value - half, 0, 1), np.clip(value + half, 0, 1), clusters, len(drawn), note)


def _half_widths(drawn: FloatArray, clusters: int) -> FloatArray:
    """(N,) simultaneous half-widths of N numbers drawn (B, N), NaN ones left out of each column."""
    filled = np.where(np.isfinite(drawn), drawn, np.nanmean(np.where(np.isfinite(drawn).any(axis=0), drawn, 0), axis=0))
    error, factor = differences.critical(filled, clusters)
    return factor * error


@dataclass(frozen=True, slots=True, eq=False)
class CostInterval:
    """Bias Costs with intervals, and what an unbiased judge would show.

    Parameters
    ----------
    value, low, high
        (N,) cost of each ordering, and [sum max(0, |d_p| - h_p), sum (|d_p| + h_p)] with simultaneous half-widths h.
    unbiased
        (N,) the cost that a judge without position bias would show on average with these items: distances are never
        negative, so noise alone costs something.
    """

    value: FloatArray
    low: FloatArray
    high: FloatArray
    unbiased: FloatArray


def cost_intervals(made: Resampled, orderings: Sequence[Ordering]) -> CostInterval:
    """Bias Costs of orderings, each with its 95 % interval; NaN where a row of the matrix is missing."""
    value = made.matrices(np.ones((1, made.clusters)))[0]
    drawn = made.matrices()
    levels = value.shape[1]
    rows = []
    for ordering in orderings:
        which = (list(ordering.shown), range(levels))
        apart = np.abs(value[which] - 1 / levels)
        half = _half_widths(drawn[:, *which], made.clusters) if made.clusters > 1 else np.full(levels, np.nan)
        noise = np.abs(drawn[:, *which] - value[which]).sum(axis=1)
        noise = noise[np.isfinite(noise)]
        null = noise.mean() if len(noise) else np.nan
        rows.append((apart.sum(), np.maximum(0, apart - half).sum(), (apart + half).sum(), null))
    return CostInterval(*np.array(rows).T)


@dataclass(frozen=True, slots=True)
class PositionTest:
    """Hotelling's test of position bias.

    Parameters
    ----------
    null
        What is tested, in words.
    statistic
        T^2, or None.
    f, degrees
        F = T^2 (C - r) / (r (C - 1)) and its degrees of freedom (r, C - r), r = K - 1 at most.
    p
        None where there is no test; `note` says why.
    """

    null: str
    statistic: float | None
    f: float | None
    degrees: tuple[int, int] | None
    p: float | None
    note: str = ""


def position_test(made: Resampled) -> PositionTest:
    """Hotelling's T^2 of the cluster means of the items' position shares against 1/K, F(K - 1, C - K + 1)."""
    count, levels = made.shares.shape
    null = f"the mean over clusters of the share at each position is 1/{levels}"
    apart = made.shares[:, :-1] - 1 / levels
    mean, spread = apart.mean(axis=0), np.cov(apart.T, ddof=1).reshape(levels - 1, -1) if count > 1 else None
    if spread is None or count < levels + 1:
        return PositionTest(null, None, None, None, None, f"no test: {count} clusters, and it takes {levels + 1}")
    rank = int(np.linalg.matrix_rank(spread, tol=SAME * max(1.0, float(np.abs(spread).max())), hermitian=True))
    if rank == 0 or np.abs(spread).max() <= SAME:
        return PositionTest(null, None, None, None, 1.0, "degenerate: the clusters do not vary")
    statistic = float(count * mean @ np.linalg.pinv(spread, hermitian=True) @ mean)
    f = statistic * (count - rank) / (rank * (count - 1))
    return PositionTest(
        null, statistic, f, (rank, count - rank), float(stats.f.sf(f, rank, count - rank)), intervals.few(count)
    )


@dataclass(frozen=True, slots=True, eq=False)
class Equivalence:
    """Two one-sided tests per position: all shares lie within `margin` of 1/K.

    Parameters
    ----------
    p
        The largest over positions: small says that there is no bias larger than the margin. None without an error.
    by_position
        (P,) p of each position.
    """

    margin: float
    p: float | None
    by_position: FloatArray


def equivalence(made: Resampled, margin: float = MARGIN) -> Equivalence:
    """Whether every share is surely within `margin` of 1/K (t, C - 1 degrees of freedom).

    Raises
    ------
    InputError
        The margin is not above 0.
    """
    if not margin > 0:
        raise InputError(f"the margin is {margin}. Give a share above 0, such as 0.05.")
    count, levels = made.shares.shape
    if count < 2:
        return Equivalence(margin, None, np.full(levels, np.nan))
    apart = made.shares.mean(axis=0) - 1 / levels
    error = made.shares.std(axis=0, ddof=1) / np.sqrt(count)
    inside = margin - np.abs(apart)
    t = np.divide(inside, error, where=error > SAME, out=np.where(inside > 0, np.inf, -np.inf))
    p = stats.t.sf(t, count - 1)
    return Equivalence(margin, float(p.max()), p)


def detectable(made: Resampled, *, power: float = 0.8, level: float = 0.05) -> FloatArray:
    """(P,) the least deviation of a share from 1/K that a two-sided t test of that position would find with this power."""
    count = made.clusters
    if count < 2:
        return np.full(made.shares.shape[1], np.nan)
    error = made.shares.std(axis=0, ddof=1) / np.sqrt(count)
    least: FloatArray = (stats.t.ppf(1 - level / 2, count - 1) + stats.t.ppf(power, count - 1)) * error
    return least


def clusters_for(made: Resampled, effect: float, *, power: float = 0.8, level: float = 0.05) -> int | None:
    """How many clusters like these a test of the worst position needs to find a stated deviation; None without an error.

    Raises
    ------
    InputError
        The effect is not above 0.
    """
    if not effect > 0:
        raise InputError(f"the effect is {effect}. Give a deviation of a share above 0, such as 0.03.")
    if made.clusters < 2:
        return None
    spread = float(made.shares.std(axis=0, ddof=1).max())
    for count in range(2, 1_000_000):
        needed = (stats.t.ppf(1 - level / 2, count - 1) + stats.t.ppf(power, count - 1)) * spread / np.sqrt(count)
        if needed <= effect:
            return count
        if count > 100:  # from here on a normal quantile will do
            z = stats.norm.ppf(1 - level / 2) + stats.norm.ppf(power)
            return int(np.ceil((z * spread / effect) ** 2)) + 2
    return None


def false_discovery(p: Sequence[float | None]) -> list[float | None]:
    """Benjamini-Hochberg adjusted p, over models only: positions of one judge are tested together already.

    Examples
    --------
    >>> false_discovery([0.01, None, 0.04, 0.03])
    [0.03, None, 0.04, 0.04]
    """
    known = [n for n, value in enumerate(p) if value is not None]
    made: list[float | None] = [None] * len(p)
    if known:
        for n, value in zip(known, stats.false_discovery_control([p[n] for n in known]), strict=True):
            made[n] = float(value)
    return made


def noise_reach(run: Run) -> FloatArray | None:
    """(P,) how far the noise floor alone could move each share: first order, every log-probability off by ``max_nats``.

    None where the run has no noise floor, or no probabilities.
    """
    floor = run.provenance.get("noise_floor")
    if floor is None or isinstance(run, SampledRun):
        return None
    q = np.take_along_axis(run.probs(), np.broadcast_to(run.shown, run.logp.shape), axis=2)  # (I, O, P)
    reach: FloatArray = 2 * floor["max_nats"] * (q * (1 - q)).mean(axis=(0, 1))
    return reach
