"""How well debiased scores agree with people: correlations over items, each with an interval that respects clusters.

The interval is made on the arctanh scale: bootstrap standard error over clusters times a t quantile, and back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from logitjudge import registry
from logitjudge.core import FloatArray, IntArray
from logitjudge.errors import InputError, unknown
from logitjudge.measures import intervals
from logitjudge.run import Run

if TYPE_CHECKING:
    import pandas as pd

LEAST = 3  # items: two points always correlate perfectly
SAME = 1e-9  # values that differ by less, relative to their size, do not vary: rounding is not information
ROUNDED = 9  # digits of a score: means that are equal but for the last bit tie, as ranks want it
ONE = 1 - 1e-12  # a correlation beyond is perfect; arctanh of 1 is infinite


@dataclass(frozen=True, slots=True)
class Agreement:
    """One measure of agreement between a judge's debiased scores and ratings.

    Parameters
    ----------
    target
        What the ratings are: "human", "GPT-4 reference" ...
    method
        Debiaser.
    measure
        "pearson" or "spearman".
    value
        Correlation in [-1, 1], or None where it is not defined; `note` says why.
    low, high
        95% interval, or None.
    items, clusters
        Rated items, and the clusters that they come from.
    unrated
        Items without a rating, or (of a sampled run) without a score; they are left out.
    note
        What to know before the number is used, or "".
    """

    target: str
    method: str
    measure: str
    value: float | None
    low: float | None
    high: float | None
    items: int
    clusters: int
    unrated: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class Agreements:
    """All measures of one method, in the order of `MEASURES`."""

    rows: tuple[Agreement, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Agreement]:
        return iter(self.rows)

    def __getitem__(self, measure: str) -> Agreement:
        for row in self.rows:
            if row.measure == measure:
                return row
        raise InputError(unknown("measure", measure, MEASURES))

    def to_frame(self) -> pd.DataFrame:
        """Frame, one row a measure, with the fields of `Agreement`."""
        import pandas as pd

        names = list(Agreement.__dataclass_fields__)
        return pd.DataFrame([[getattr(row, name) for name in names] for row in self.rows], columns=names)

    def _repr_html_(self) -> str:
        return str(self.to_frame().to_html(index=False, float_format="{:.3f}".format))


def agreement(run: Run, method: str = "mean_prob", *, draws: int = 1000, seed: int = 0) -> Agreements:
    """Correlations between debiased scores and the items' mean ratings, with 95% intervals.

    Parameters
    ----------
    run
        A run with I items; those without a rating are left out and counted.
    method
        Debiaser that gives the (I,) scores.
    draws
        Resamples of clusters for the interval.
    seed
        Of the resampling. The result does not depend on the order of the items.

    Returns
    -------
    Agreements
        Pearson and Spearman correlations. `value` is None with fewer than 3 rated items, or where scores or ratings do
        not vary. With fewer than 20 clusters the note says so.

    Raises
    ------
    InputError
        A method that does not exist, or fewer than two draws.

    References
    ----------
    arXiv:2602.02219, section 5.3.
    """
    if draws < 2:
        raise InputError(f"draws is {draws}: an interval needs at least two.")
    if run.kind == "pairwise":
        raise InputError(
            "verdicts of pairs have no correlation with gold. Use 'logitjudge show', or 'logitjudge calibrate'."
        )
    debiased = registry.make("debiasers", method).fit(run)(run)
    scores = debiased.score
    rated = np.flatnonzero(np.isfinite(run.ratings) & np.isfinite(scores))
    clusters = intervals.number([run.items[i].cluster for i in rated])
    pair = (scores[rated], run.ratings[rated])
    rows = []
    for measure in MEASURES:
        value, (low, high), note = _measured(measure, pair, clusters, draws=draws, seed=seed)
        sizes = (len(rated), len(set(clusters.tolist())), len(run.items) - len(rated))
        noted = "; ".join(filter(None, (note, debiased.note)))
        rows.append(Agreement(run.ratings_name, method, measure, value, low, high, *sizes, note=noted))
    return Agreements(tuple(rows))


Interval = tuple[float | None, float | None]


def _measured(
    measure: str, pair: tuple[FloatArray, FloatArray], clusters: IntArray, *, draws: int, seed: int
) -> tuple[float | None, Interval, str]:
    """Value, interval and note of one measure."""
    if note := _undefined(*pair):
        return None, (None, None), note
    correlate = MEASURES[measure]
    value = float(correlate(*pair, np.ones((1, len(clusters))))[0])
    if abs(value) > ONE:
        return value, (value, value), "degenerate: the correlation is perfect"
    count = int(clusters.max()) + 1
    if count < 2:
        return value, (None, None), "no interval: all items are of one cluster"
    rng = np.random.default_rng(seed)
    drawn = intervals.bootstrap(lambda weight: correlate(*pair, weight), clusters, draws=draws, rng=rng)
    drawn = np.arctanh(
        drawn[np.abs(drawn) < ONE]
    )  # no resample in which a column is constant, or the correlation perfect
    if len(drawn) < draws / 2:
        return value, (None, None), f"no interval: too few clusters ({count}), most resamples are degenerate"
    low, high = np.tanh(intervals.t_interval(float(np.arctanh(value)), drawn, count))
    return value, (float(low), float(high)), intervals.few(count)


def _undefined(scores: FloatArray, ratings: FloatArray) -> str:
    """Why there is no correlation, or ""."""
    if len(ratings) == 0:
        return "no ratings"
    if len(ratings) < LEAST:
        return f"too few rated items ({len(ratings)} < {LEAST})"
    constant = [name for name, x in (("scores", scores), ("ratings", ratings)) if np.ptp(x) <= SAME * np.abs(x).max()]
    return f"degenerate: the {' and the '.join(constant)} do not vary" if constant else ""


def pearson(x: FloatArray, y: FloatArray, weight: FloatArray) -> FloatArray:
    """(B,) weighted correlations of x and y, each (I,) or (B, I), under weights (B, I); NaN where one does not vary."""
    share = weight / weight.sum(axis=1, keepdims=True)
    dx = x - (share * x).sum(axis=1, keepdims=True)
    dy = y - (share * y).sum(axis=1, keepdims=True)
    xx, yy, xy = ((share * a * b).sum(axis=1) for a, b in ((dx, dx), (dy, dy), (dx, dy)))
    varies = (np.sqrt(xx) > SAME * np.abs(x).max()) & (np.sqrt(yy) > SAME * np.abs(y).max())
    r: FloatArray = np.divide(xy, np.sqrt(xx * yy), where=varies, out=np.full(len(weight), np.nan))
    return r


def _spearman(x: FloatArray, y: FloatArray, weight: FloatArray) -> FloatArray:
    """(B,) correlations of the mid-ranks that x and y (I,), rounded, have in each resample (B, I)."""
    x, y = np.round(x, ROUNDED), np.round(y, ROUNDED)
    return pearson(ranks(x, weight), ranks(y, weight), weight)


def ranks(x: FloatArray, weight: FloatArray) -> FloatArray:
    """(B, I) mid-ranks of x (I,) where item i occurs weight[b, i] times.

    Examples
    --------
    >>> ranks(np.array([3.0, 1.0, 3.0]), np.array([[1.0, 2.0, 1.0]])).tolist()
    [[3.5, 1.5, 3.5]]
    """
    _, group = np.unique(x, return_inverse=True)
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    size = np.add.reduceat(weight[:, order], starts, axis=1)  # (B, G) how often each value occurs
    middle = np.cumsum(size, axis=1) - (size - 1) / 2
    ranks: FloatArray = middle[:, group]
    return ranks


MEASURES: dict[str, Callable[[FloatArray, FloatArray, FloatArray], FloatArray]] = {
    "pearson": pearson,
    "spearman": _spearman,
}
