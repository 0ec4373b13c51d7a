"""From which margin on may a judge's verdicts be used without people?

The verdict is the sign of the content, its margin |content|. For the `LEVELS` shares of the pairs with the largest margins (a
tenth, two tenths ... all) there is a lower bound of the accuracy, Clopper and Pearson's with each effective cluster as one
observation and a Bonferroni correction for the number of shares: so the bounds hold together, whichever is chosen, and the
least margin whose bound reaches the target is safe to choose. What it does to other pairs is said by cross-fitting: the
threshold of all folds but one, at work on that one.

Where the accuracy is 0.899 at every margin, 12 % of runs have a threshold for 0.9 without the correction, and 1 % with it.

References
----------
C. J. Clopper, E. S. Pearson (1934), Biometrika 26, 404-413. A. N. Angelopoulos et al. (2021), Learn then Test, arXiv:2110.01052.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from logitjudge.core import BoolArray, FloatArray, IntArray
from logitjudge.errors import InputError
from logitjudge.measures import intervals
from logitjudge.measures.estimates import Estimate, effective, shares
from logitjudge.measures.pair_accuracy import right
from logitjudge.measures.pair_calibration import RULE, with_gold
from logitjudge.measures.pair_rules import ROUNDING, ruled
from logitjudge.measures.pairs import pairs
from logitjudge.run import Run

if TYPE_CHECKING:
    import pandas as pd

LEVELS = 10
FOLDS = 5
TARGET, CONFIDENCE = 0.9, 0.95


@dataclass(frozen=True, slots=True)
class Level:
    """Pairs with |content| of at least `margin` nats: how many, their accuracy, and its lower bound."""

    margin: float
    pairs: int
    accuracy: float
    bound: float


@dataclass(frozen=True, slots=True)
class Threshold:
    """The least |content| from which on verdicts reach a target accuracy.

    Parameters
    ----------
    target, confidence
        Accuracy to be reached, and the probability with which all lower bounds hold together.
    margin
        Nats, or None; then `reason` says why.
    levels
        All that were tried, the largest margins first.
    pairs, automatic, flips
        Pairs with gold; those at or above the threshold; how many of these flip with the order.
    accuracy, bound
        Of the automatic pairs of this set, and its lower bound; None without a threshold.
    held_out_accuracy, held_out_coverage
        Accuracy of the automatic pairs, and their share of all, where each fold of clusters uses the threshold of the others.
        Their intervals are of the held-out clusters. In one run the accuracy is a little low (1.3 points in simulations of 300
        pairs): a fold with more errors leaves the others a laxer threshold, so it counts more.
    folds
        Threshold of each fold's others; None where none reaches the target (nothing of that fold is automatic).
    """

    target: float
    confidence: float
    margin: float | None
    reason: str
    levels: tuple[Level, ...]
    pairs: int
    automatic: int
    flips: int
    accuracy: float | None
    bound: float | None
    held_out_accuracy: Estimate
    held_out_coverage: Estimate
    folds: tuple[float | None, ...]

    def to_frame(self) -> pd.DataFrame:
        """Frame, one row a level: margin, pairs, accuracy, bound, chosen."""
        import pandas as pd

        names = list(Level.__dataclass_fields__)
        frame = pd.DataFrame([[getattr(one, n) for n in names] for one in self.levels], columns=names)
        frame["chosen"] = [one.margin == self.margin for one in self.levels]
        return frame


def threshold(
    run: Run,
    target: float = TARGET,
    *,
    confidence: float = CONFIDENCE,
    folds: int = FOLDS,
    draws: int = 1000,
    seed: int = 0,
) -> Threshold:
    """Threshold for automatic use of a pairwise run with gold.

    Parameters
    ----------
    run
        A pairwise run; a gold tie counts as wrong wherever a candidate wins.
    target, confidence
        See `Threshold`.
    folds
        Of clusters, for the held-out figures; C of fewer clusters.
    draws, seed
        Of the resampling behind their intervals; `seed` deals clusters out to folds, too.

    Raises
    ------
    InputError
        A target or a confidence that is no share, or fewer than two folds.
    NotObserved
        No pair has a gold.
    """
    if not (0 < target < 1 and 0 < confidence < 1):
        raise InputError(f"target {target} and confidence {confidence}: give shares between 0 and 1, such as 0.9.")
    if folds < 2:
        raise InputError(f"folds is {folds}. Give at least two.")
    found = pairs(run)
    verdict = ruled(found, RULE)
    rows = with_gold(found, verdict)
    sizes, hit = np.abs(found.content[rows]), right(verdict, found.gold)[rows]
    clusters = intervals.number(found.clusters[rows].tolist())
    levels = _levels(sizes, hit, clusters, confidence)
    chosen = _least(levels, target)
    held, margins = _held_out(sizes, hit, clusters, target, confidence, folds, seed)
    every = np.ones(len(rows))
    parts = {"accuracy": (hit * held, held.astype(np.float64)), "coverage": (held.astype(np.float64), every)}
    told = shares(parts, clusters, draws=draws, seed=seed)
    above = np.zeros(len(rows), np.bool_) if chosen is None else _at_least(sizes, chosen.margin)
    return Threshold(
        target=target,
        confidence=confidence,
        margin=None if chosen is None else chosen.margin,
        reason="" if chosen else _reason(levels, clusters, target, confidence),
        levels=levels,
        pairs=len(rows),
        automatic=int(above.sum()),
        flips=int((above & found.flipped[rows]).sum()),
        accuracy=chosen.accuracy if chosen else None,
        bound=chosen.bound if chosen else None,
        held_out_accuracy=told["accuracy"],
        held_out_coverage=told["coverage"],
        folds=margins,
    )


def _levels(sizes: FloatArray, hit: FloatArray, clusters: IntArray, confidence: float) -> tuple[Level, ...]:
    """Margins that keep 1, 2 ... of `LEVELS` parts of the pairs, each once, with the accuracy above and its bound."""
    ordered = np.sort(sizes)[::-1]
    places = np.ceil(len(sizes) * np.arange(1, LEVELS + 1) / LEVELS).astype(np.int64) - 1
    made: list[Level] = []
    for margin in np.unique(ordered[places])[::-1].tolist():
        above = _at_least(sizes, margin)
        if not made or above.sum() > made[-1].pairs:
            share = float(hit[above].mean())
            made.append(Level(margin, int(above.sum()), share, lower_bound(share, clusters[above], confidence)))
    return tuple(made)


def _at_least(sizes: FloatArray, margin: float) -> BoolArray:
    """(I,) margins at or above a threshold, to rounding."""
    above: BoolArray = sizes >= margin - ROUNDING
    return above


def lower_bound(share: float, clusters: IntArray, confidence: float = CONFIDENCE) -> float:
    """One-sided lower bound of an accuracy, one of `LEVELS` that hold together; each effective cluster is one observation.

    Examples
    --------
    >>> round(lower_bound(1.0, np.arange(51)), 3)  # (0.05 / 10) ** (1 / 51)
    0.901
    """
    number = effective(np.unique(clusters, return_counts=True)[1].astype(np.float64))
    right_ones, wrong_ones = share * number, (1 - share) * number + 1
    return float(stats.beta.ppf((1 - confidence) / LEVELS, right_ones, wrong_ones)) if share else 0.0


def _least(levels: tuple[Level, ...], target: float) -> Level | None:
    """The level with the least margin whose bound reaches the target."""
    return next((one for one in reversed(levels) if one.bound >= target), None)


def _held_out(
    sizes: FloatArray, hit: FloatArray, clusters: IntArray, target: float, confidence: float, folds: int, seed: int
) -> tuple[BoolArray, tuple[float | None, ...]]:
    """(I,) pairs that are automatic by the threshold of the other folds, and these thresholds."""
    count = int(clusters.max()) + 1
    held = np.zeros(len(sizes), np.bool_)
    if count < 2:
        return held, ()
    number = min(folds, count)
    fold = np.random.default_rng(seed).permutation(np.arange(count) % number)[clusters]
    margins: list[float | None] = []
    for f in range(number):
        other = fold != f
        chosen = _least(_levels(sizes[other], hit[other], clusters[other], confidence), target)
        margins.append(chosen.margin if chosen else None)
        if chosen:
            held |= (fold == f) & _at_least(sizes, chosen.margin)
    return held, tuple(margins)


def _reason(levels: tuple[Level, ...], clusters: IntArray, target: float, confidence: float) -> str:
    """Why no level reaches the target."""
    count, needed = int(clusters.max()) + 1, clusters_needed(target, confidence)
    if count < needed:
        return f"too few clusters: it takes {needed} of which every pair is right, and there are {count}"
    best = max(levels, key=lambda one: one.bound)
    return (
        f"no margin reaches it: the best has an accuracy of {100 * best.accuracy:.1f} % over {best.pairs} pairs, "
        f"surely at least {100 * best.bound:.1f} %"
    )


def clusters_needed(target: float = TARGET, confidence: float = CONFIDENCE) -> int:
    """How many clusters a level takes to reach the target where every pair is right.

    Examples
    --------
    >>> clusters_needed(0.9)
    51
    """
    return int(np.ceil(np.log((1 - confidence) / LEVELS) / np.log(target)))
