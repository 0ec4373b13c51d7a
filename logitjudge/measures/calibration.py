"""Do a judge's probabilities say how people rate?

The raters' distribution of an item is the share of its ratings on each score (a rating between two scores counts for both, the
nearer the more). Two questions: how good a forecast of it is q (log score, a proper score), and does the probability of the
winner mean what it says (expected calibration error).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from logitjudge.core import FloatArray
from logitjudge.errors import InputError, NotObserved, unknown
from logitjudge.measures.matrices import winners
from logitjudge.measures.ratios import logs
from logitjudge.run import Run

if TYPE_CHECKING:
    import pandas as pd

Of = Literal["readings", "mean_prob", "mean_logp"]
OF = ("readings", "mean_prob", "mean_logp")
BINS = 10


@dataclass(frozen=True, slots=True)
class Bin:
    """Winners with a probability in (low, high]: how many, how probable on average, and the raters' share on them."""

    low: float
    high: float
    count: int
    confidence: float | None
    hit: float | None


@dataclass(frozen=True, slots=True)
class Calibration:
    """Calibration of one kind of distribution against the raters'.

    Parameters
    ----------
    of
        "readings" (each reading by itself), "mean_prob" or "mean_logp" (means over the run's orderings).
    target
        What the ratings are.
    log_score
        Mean of -sum over k of r_k log q_k, in nats; small is good.
    base
        The same for the raters' own mean distribution, as a forecast for every item. A judge above it knows less than that.
    floor
        The same for the raters' distribution itself: no forecast is below. 0 with one whole rating an item.
    ece
        Expected calibration error: mean over bins of |probability of the winner - raters' share on it|, weighted by their size.
        Above 0 by chance, too, with few items.
    confidence, hit
        Mean probability of the winner, and mean share of the raters on it. Ties are split.
    items, unrated
        Rated items, and those that are left out.
    bins
        `BINS` of equal width.
    """

    of: Of
    target: str
    log_score: float
    base: float
    floor: float
    ece: float
    confidence: float
    hit: float
    items: int
    unrated: int
    bins: tuple[Bin, ...]

    def to_frame(self) -> pd.DataFrame:
        """Frame, one row a bin: low, high, count, confidence, hit."""
        import pandas as pd

        names = list(Bin.__dataclass_fields__)
        return pd.DataFrame([[getattr(row, name) for name in names] for row in self.bins], columns=names)


def calibration(run: Run, of: Of = "readings") -> Calibration:
    """Log score and calibration error of q against the raters' distribution.

    Parameters
    ----------
    run
        A run with I items; those without a rating are left out. With means instead of single ratings (a GPT-4 reference) the
        raters' distribution is that of the mean.
    of
        Which distributions: see `Calibration`.

    Raises
    ------
    InputError
        A kind that does not exist.
    NotObserved
        No item has a rating.

    References
    ----------
    I. J. Good (1952), Rational Decisions (log score); C. Guo et al. (2017), arXiv:1706.04599 (calibration error).
    """
    if of not in OF:
        raise InputError(unknown("kind of distribution", of, OF))
    rated = np.isfinite(run.ratings)
    if not rated.any():
        raise NotObserved("no item has a rating, so there is nothing to be calibrated against.")
    part = run.select(rated.tolist())
    people = raters(part)[:, None]  # (I, 1, K)
    logq = _log_probs(part, of)  # (I, O or 1, K)
    probs = np.exp(logq)
    bins, ece = _bins(probs, people)
    return Calibration(
        of=of,
        target=run.ratings_name,
        log_score=float(-(people * logq).sum(axis=2).mean()),
        base=_entropy(people.mean(axis=(0, 1))),
        floor=float(np.mean([_entropy(row) for row in people[:, 0]])),
        ece=ece,
        confidence=float(probs.max(axis=2).mean()),
        hit=float((winners(probs) * people).sum(axis=2).mean()),
        items=len(part.items),
        unrated=int((~rated).sum()),
        bins=bins,
    )


def raters(run: Run) -> FloatArray:
    """(I, K) share of an item's ratings on each score; one between two scores is split by its distance to them.

    Raises
    ------
    NotObserved
        An item without a rating.

    Examples
    --------
    Ratings 4 and 4.5 on the scores 1 to 5 are (0, 0, 0, 0.75, 0.25).
    """
    found = np.zeros((len(run.items), len(run.scores)))
    scores = run.scores.astype(np.float64)
    for i, item in enumerate(run.items):
        if item.human is None:
            raise NotObserved(f"item {item.id!r} has no rating.")
        for rating in item.human:
            found[i] += _split(rating, scores) / len(item.human)
    return found


def _split(rating: float, scores: FloatArray) -> FloatArray:
    """(K,) 1 at a rating's score, or shares of its two neighbours; a rating beyond an end counts for the end."""
    return np.array([np.interp(rating, scores, row) for row in np.eye(len(scores))])


def _log_probs(run: Run, of: Of) -> FloatArray:
    """(I, O or 1, K) log-probabilities among the scores, never as the log of a probability that underflowed."""
    logq = logs(run)
    if of == "mean_logp":
        logq = logq.mean(axis=1, keepdims=True)
    logq = logq - np.logaddexp.reduce(logq, axis=2, keepdims=True)
    if of == "mean_prob":
        logq = np.logaddexp.reduce(logq, axis=1, keepdims=True) - np.log(logq.shape[1])
    return np.asarray(logq)


def _entropy(share: FloatArray) -> float:
    """Nats; 0 log 0 is 0."""
    there = share[share > 0]
    return float((there * -np.log(there)).sum() + 0.0)  # a certain one has 0, not -0


def _bins(probs: FloatArray, people: FloatArray) -> tuple[tuple[Bin, ...], float]:
    """Bins of the winner's probability, and the calibration error over them."""
    confidence = probs.max(axis=2).ravel()
    hit = (winners(probs) * people).sum(axis=2).ravel()
    edges = np.linspace(0, 1, BINS + 1)
    place = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, BINS - 1)
    count = np.bincount(place, minlength=BINS)
    sums = [np.bincount(place, weights=values, minlength=BINS) for values in (confidence, hit)]
    ece = float(np.abs(sums[0] - sums[1]).sum() / len(confidence))
    rows = []
    for b in range(BINS):
        means = [float(total[b] / count[b]) if count[b] else None for total in sums]
        rows.append(Bin(float(edges[b]), float(edges[b + 1]), int(count[b]), means[0], means[1]))
    return tuple(rows), ece
