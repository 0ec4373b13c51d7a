"""How close debiased scores come to people's ratings, beyond correlations with intervals: kappa, exact hits, errors, pairs.

All take (I,) scores in score points and (I,) ratings, and give None, never 0 or NaN, where there is no number.

References
----------
J. Cohen (1968), Weighted kappa. Psychological Bulletin 70, 213-220. D. Deutsch, G. Foster, M. Freitag (2023), Ties Matter:
Meta-Evaluating Modern Metrics with Pairwise Accuracy and Tie Calibration. EMNLP.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from logitjudge.core import FloatArray, IntArray
from logitjudge.measures import intervals, weighted
from logitjudge.measures.agreement import ROUNDED, SAME, pearson, ranks

LEAST_SYSTEMS = 8  # below, a correlation over systems says nothing
PAIRS = 4_000_000  # of more, a threshold is chosen on as many drawn ones


@dataclass(frozen=True, slots=True)
class PairAccuracy:
    """Share of pairs of items that scores put in the people's order, or tie as they do.

    Parameters
    ----------
    value
        With the tie threshold that makes it largest (Deutsch et al. 2023, "acc*_eq").
    threshold
        Scores that differ by no more are a tie, in score points.
    pairs
        I (I - 1) / 2.
    """

    value: float
    threshold: float
    pairs: int


def correlation(scores: FloatArray, ratings: FloatArray, ranked: bool = False) -> float | None:
    """Pearson's r, or Spearman's; None where a column does not vary, or with fewer than three items."""
    if len(scores) < 3 or _constant(scores) or _constant(ratings):
        return None
    weight = np.ones((1, len(scores)))
    one, other = (ranks(np.round(x, 9), weight) if ranked else x for x in (scores, ratings))
    return float(np.clip(pearson(one, other, weight)[0], -1, 1))


def kendall(scores: FloatArray, ratings: FloatArray) -> float | None:
    """Kendall's tau-b; None where a column does not vary, or with fewer than three items."""
    if len(scores) < 3 or _constant(scores) or _constant(ratings):
        return None
    return float(stats.kendalltau(np.round(scores, 9), ratings).statistic)


def nearest(values: FloatArray, levels: IntArray) -> IntArray:
    """(I,) index of the score nearest to each value; of two as near (to nine digits), the upper.

    Examples
    --------
    >>> nearest(np.array([1.2, 2.5, 9.0]), np.array([1, 2, 3])).tolist()
    [0, 2, 2]
    """
    middle = (levels[1:] + levels[:-1]) / 2
    index: IntArray = np.searchsorted(middle, np.round(values, ROUNDED), side="right")
    return index


def quadratic_kappa(scores: FloatArray, medians: FloatArray, levels: IntArray) -> float | None:
    """Cohen's kappa with quadratic weights between the nearest score and the raters' median, as a score too.

    None where either side has one score only: kappa would be 0 whatever that score is.
    """
    if len(scores) == 0:
        return None
    table = weighted.confusion(
        nearest(scores, levels), nearest(medians, levels), len(levels), np.ones((1, len(scores)))
    )
    kappa = float(weighted.quadratic_kappa(table, levels)[0])
    return kappa if np.isfinite(kappa) else None


def exact(scores: FloatArray, medians: FloatArray, levels: IntArray) -> float | None:
    """Share of items whose nearest score is the raters' median, as a score."""
    return float((nearest(scores, levels) == nearest(medians, levels)).mean()) if len(scores) else None


def absolute_error(scores: FloatArray, ratings: FloatArray) -> float | None:
    """Mean |score - rating|, in score points."""
    return float(np.abs(scores - ratings).mean()) if len(scores) else None


def pair_accuracy(scores: FloatArray, ratings: FloatArray) -> PairAccuracy | None:
    """Accuracy over pairs of items, ties calibrated; None with fewer than two items, or where scores or ratings do not vary.

    Every threshold at which some pair of scores becomes a tie is tried; of equally good ones the least is taken. It is chosen on the
    items that it is judged by, as in the paper, so the accuracy is optimistic: compare methods, not datasets. With more than
    `PAIRS` pairs the threshold is chosen on that many drawn ones; the accuracy is that of all.
    """
    if len(scores) < 2 or _constant(scores) or _constant(ratings):
        return None
    scores, ratings = np.round(scores, ROUNDED), np.round(ratings, ROUNDED)
    threshold = _best_threshold(*_pairs(scores, ratings))
    found = weighted.pairs(scores, ratings, np.ones((1, len(scores))), threshold + SAME)
    return PairAccuracy(float(found[0]), threshold, len(scores) * (len(scores) - 1) // 2)


def _best_threshold(apart: FloatArray, right: FloatArray, tied: FloatArray) -> float:
    """Least threshold with the most hits, of `_pairs`."""
    order = np.argsort(apart, kind="stable")
    apart, right, tied = apart[order], right[order], tied[order]
    as_tie = np.concatenate([[0], np.cumsum(tied)])  # pairs called ties, and rightly so
    as_order = right.sum() - np.concatenate([[0], np.cumsum(right)])  # pairs called an order, and rightly so
    last = np.concatenate([[True], np.diff(apart) > SAME, [True]])[1:]  # thresholds lie behind equal distances
    ends = np.concatenate([[0], np.flatnonzero(last) + 1])
    hits = (as_tie + as_order)[ends]
    best = int(np.argmax(hits))
    return 0.0 if best == 0 else float(apart[ends[best] - 1])


def _pairs(scores: FloatArray, ratings: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(pairs,) |difference of scores|, whether they stand in the people's order, whether people tie them."""
    count = len(scores)
    if count * (count - 1) // 2 <= PAIRS:
        i, j = np.triu_indices(count, 1)
    else:
        rng = np.random.default_rng(0)
        i = rng.integers(count, size=PAIRS)
        j = (i + rng.integers(1, count, size=PAIRS)) % count
    ours, theirs = scores[i] - scores[j], ratings[i] - ratings[j]
    return np.abs(ours), (np.sign(ours) * np.sign(theirs) > 0).astype(float), (theirs == 0).astype(float)


def _constant(values: FloatArray) -> bool:
    return bool(np.ptp(values) <= SAME * np.abs(values).max())


@dataclass(frozen=True, slots=True)
class SystemLevel:
    """Correlation of systems' mean scores with their mean ratings; None below `LEAST_SYSTEMS`."""

    systems: int
    pearson: float | None
    spearman: float | None
    note: str


def system_level(scores: FloatArray, ratings: FloatArray, systems: list[str]) -> SystemLevel:
    """Correlations over systems, each the mean of its items."""
    names = sorted(set(systems))
    if len(names) < LEAST_SYSTEMS:
        return SystemLevel(
            len(names), None, None, f"{len(names)} systems, and a correlation over systems takes {LEAST_SYSTEMS}"
        )
    which = np.array([names.index(name) for name in systems])
    mean = [np.bincount(which, values) / np.bincount(which) for values in (scores, ratings)]
    if _constant(mean[0]) or _constant(mean[1]):
        return SystemLevel(len(names), None, None, "the systems' means do not vary")
    return SystemLevel(len(names), float(stats.pearsonr(*mean)[0]), float(stats.spearmanr(*mean)[0]), "")


@dataclass(frozen=True, slots=True)
class Difference:
    """Correlation of one method minus that of another on the same items, with a 95 % interval over clusters."""

    measure: str
    value: float | None
    low: float | None
    high: float | None
    note: str = ""


def differences(
    one: FloatArray, other: FloatArray, ratings: FloatArray, clusters: IntArray, *, draws: int = 1000, seed: int = 0
) -> list[Difference]:
    """Paired bootstrap over clusters: both methods are drawn together."""
    made = []
    one, other = np.round(one, 9), np.round(other, 9)
    for measure in ("pearson", "spearman"):
        if len(ratings) < 3 or any(map(_constant, (one, other, ratings))):
            made.append(Difference(measure, None, None, None, "degenerate: a column does not vary, or too few items"))
            continue

        def apart(weight: FloatArray, ranked: bool = measure == "spearman") -> FloatArray:
            sides = [ranks(x, weight) if ranked else x for x in (one, other, ratings)]
            first, second = pearson(sides[0], sides[2], weight), pearson(sides[1], sides[2], weight)
            return first - second

        value = float(apart(np.ones((1, len(ratings))))[0])
        count = int(clusters.max()) + 1
        if count < 2:
            made.append(Difference(measure, value, None, None, "no interval: all items are of one cluster"))
            continue
        drawn = intervals.bootstrap(apart, clusters, draws=draws, rng=np.random.default_rng(seed))
        drawn = drawn[np.isfinite(drawn)]  # no resample in which a column is constant
        if len(drawn) < max(2, draws / 2):
            made.append(
                Difference(measure, value, None, None, f"no interval: most resamples are degenerate ({count} clusters)")
            )
            continue
        low, high = intervals.t_interval(value, drawn, count)
        note = intervals.few(count) if low < high else "degenerate: no resample differs"
        made.append(Difference(measure, value, float(low), float(high), note))
    return made
