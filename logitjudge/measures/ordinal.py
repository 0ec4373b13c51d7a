"""Are a judge's probabilities those of ordered scores?

An expected score takes the scores for places on a line. Where a reading has two humps (much on 1 and 5, little between), its
mean is a score that the judge would hardly give, and mean, median and mode part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from logitjudge.core import FloatArray, frozen_array
from logitjudge.errors import InputError
from logitjudge.measures.ratios import central
from logitjudge.measures.swings import ordering_text
from logitjudge.run import Run

if TYPE_CHECKING:
    import pandas as pd

DEPTH = 0.05
HALF = 1e-12  # probabilities within this of 1/2 are a tie of two medians


def valley(probs: FloatArray) -> FloatArray:
    """(...) depth of the deepest valley: how far a score is below the smaller of the highest on its left and on its right.

    0 for a distribution with one hump.

    Examples
    --------
    >>> valley(np.array([[0.4, 0.1, 0.5], [0.1, 0.6, 0.3]])).round(3).tolist()
    [0.3, 0.0]
    """
    left = np.maximum.accumulate(probs, axis=-1)
    right = np.maximum.accumulate(probs[..., ::-1], axis=-1)[..., ::-1]
    depth: FloatArray = (np.minimum(left, right) - probs).max(axis=-1)
    return depth


@dataclass(frozen=True, slots=True, eq=False)
class Ordinal:
    """Shapes of a run's distributions.

    Parameters
    ----------
    ids
        (I,) items.
    orderings
        (O,) as score values.
    depth
        (I, O) `valley` of each reading.
    deep
        Depth above which a distribution counts as two-humped.
    middle_depth
        (I,) `valley` of each item in the middle of its orderings (`ratios.central`).
    distance
        (O, O) Wasserstein-1 distance between two orderings, mean over items, in score points.
    shift
        (O, O) mean |difference of the expected scores|, at most `distance`; equal where probability only moves one way.
    expected, mode, median
        (I, O) of each reading, in score points. A tie of modes or medians is their mean.
    """

    ids: tuple[str, ...]
    orderings: tuple[str, ...]
    depth: FloatArray
    deep: float
    middle_depth: FloatArray
    distance: FloatArray
    shift: FloatArray
    expected: FloatArray
    mode: FloatArray
    median: FloatArray

    def __post_init__(self) -> None:
        for name in ("depth", "middle_depth", "distance", "shift", "expected", "mode", "median"):
            object.__setattr__(self, name, frozen_array(getattr(self, name)))

    @property
    def two_humped(self) -> float:
        """Share of readings with two humps."""
        return float((self.depth > self.deep).mean())

    @property
    def middle_two_humped(self) -> float:
        """Share of items with two humps in the middle of their orderings."""
        return float((self.middle_depth > self.deep).mean())

    def to_frame(self) -> pd.DataFrame:
        """Frame, one row an ordering.

        Columns: ordering, two_humped (share of items), distance and shift (means to the other orderings, NaN with one),
        from_mode and from_median (mean |expected - that|), all in score points.
        """
        import pandas as pd

        others = max(len(self.orderings) - 1, 0) or np.nan
        return pd.DataFrame(
            {
                "ordering": list(self.orderings),
                "two_humped": (self.depth > self.deep).mean(axis=0),
                "distance": self.distance.sum(axis=1) / others,
                "shift": self.shift.sum(axis=1) / others,
                "from_mode": np.abs(self.expected - self.mode).mean(axis=0),
                "from_median": np.abs(self.expected - self.median).mean(axis=0),
            }
        )


def ordinal(run: Run, *, deep: float = DEPTH) -> Ordinal:
    """Humps, distances between orderings, and expected score against mode and median.

    Parameters
    ----------
    run
        A run with I items, O orderings and K scores.
    deep
        Depth of a valley, in probability, above which a distribution has two humps.

    Raises
    ------
    InputError
        `deep` is no probability.

    References
    ----------
    L. N. Vaserstein (1969); on a line the distance is the area between the distribution functions.
    """
    if not 0 <= deep < 1:
        raise InputError(f"deep is {deep}. Give a probability from 0 to below 1.")
    probs, scores = run.probs(), run.scores.astype(np.float64)
    expected = probs @ scores
    return Ordinal(
        ids=tuple(item.id for item in run.items),
        orderings=tuple(ordering_text(run, o) for o in range(len(run.orderings))),
        depth=valley(probs),
        deep=deep,
        middle_depth=valley(central(run)),
        distance=_distances(probs, scores),
        shift=_shifts(expected),
        expected=expected,
        mode=_mode(probs, scores),
        median=_median(probs, scores),
    )


def _distances(probs: FloatArray, scores: FloatArray) -> FloatArray:
    """(O, O) mean over items of sum over k of |F_o(k) - F_o'(k)| times the step to the next score."""
    below = np.cumsum(probs, axis=2)[..., :-1] * np.diff(scores)
    return np.array([np.abs(below - below[:, o : o + 1]).sum(axis=2).mean(axis=0) for o in range(probs.shape[1])])


def _shifts(expected: FloatArray) -> FloatArray:
    """(O, O) mean over items of |e_o - e_o'|."""
    return np.array([np.abs(expected - expected[:, o : o + 1]).mean(axis=0) for o in range(expected.shape[1])])


def _mode(probs: FloatArray, scores: FloatArray) -> FloatArray:
    """(I, O) most probable score, ties averaged."""
    best = probs >= probs.max(axis=-1, keepdims=True) * (1 - HALF)
    return np.asarray((best @ scores) / best.sum(axis=-1))


def _median(probs: FloatArray, scores: FloatArray) -> FloatArray:
    """(I, O) middle of the scores at which the distribution function reaches 1/2 and exceeds it."""
    below = np.cumsum(probs, axis=-1)
    reaches, exceeds = ((below < 0.5 + shift).sum(axis=-1) for shift in (-HALF, HALF))
    return np.asarray((scores[reaches] + scores[np.minimum(exceeds, len(scores) - 1)]) / 2)
