"""How well raters agree with each other, and so how well a judge can agree with them at best.

A judge that knew the true quality would correlate with the raters' mean by the square root of that mean's reliability, an
intraclass correlation (ICC): the *ceiling* of a Pearson correlation. Where the same raters rated every item, their differences in
level do not lower a correlation, and the ICC is the consistent one, ICC(C,k); where raters are exchangeable slots, different
people for every item, it is ICC(1,k).

References
----------
Krippendorff (2019), Content Analysis, chapter 12 (alpha). McGraw & Wong (1996), Psychological Methods 1, 30-46 (the ICCs and
their limits).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy import stats

from logitjudge.core import FloatArray, Item
from logitjudge.errors import InputError, unknown
from logitjudge.run import Run

if TYPE_CHECKING:
    import pandas as pd

Level = Literal["ordinal", "interval"]
LEVELS = ("ordinal", "interval")
KINDS = ("1", "C")
RATERS = ("same", "slots")
SAME = 1e-12  # variances below, relative to the ratings' size, are rounding


@dataclass(frozen=True, slots=True)
class Icc:
    """Reliability of the mean of k raters.

    Parameters
    ----------
    kind
        "1": ICC(1,k), each item has raters of its own; "C": ICC(C,k), the same raters throughout, their level not counted.
    value
        At most 1; below 0 where raters agree less than by chance; None where it is not defined.
    low, high
        95 % limits, or None.
    items, raters
        Items with `raters` ratings each.
    note
        Why there is no value, which items were left out, or "".
    """

    kind: str
    value: float | None
    low: float | None
    high: float | None
    items: int
    raters: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class Reliability:
    """Everything about the ratings of some items.

    Parameters
    ----------
    target
        What the ratings are: "human", "GPT-4 reference" ...
    design
        "same" where rater j is one person throughout, "slots" where raters are exchangeable.
    items
        Items with a rating.
    raters
        Most ratings of an item.
    mean
        Mean of the items' mean ratings; None without ratings.
    alpha_ordinal, alpha_interval
        Krippendorff's alpha, or None.
    icc_1, icc_c
        ICC(1,k) and ICC(C,k). The latter means nothing where raters are slots.
    ceiling
        Square root of the ICC of the design: the best Pearson correlation with the mean rating that a judge can expect.
    self_consistency
        The same of a model's repeated scores ("... reference"): no limit to agreement with people.
    note
        Why there is neither, or "".
    """

    target: str
    design: str
    items: int
    raters: int
    mean: float | None
    alpha_ordinal: float | None
    alpha_interval: float | None
    icc_1: Icc
    icc_c: Icc
    ceiling: float | None
    self_consistency: float | None
    note: str = ""

    @property
    def icc(self) -> Icc:
        """The ICC of the design."""
        return self.icc_c if self.design == "same" else self.icc_1

    def to_frame(self) -> pd.DataFrame:
        """Frame of one row; the ICCs as ``icc_1``, ``icc_1_low``, ``icc_1_high`` and likewise ``icc_c``."""
        import pandas as pd

        row = {name: getattr(self, name) for name in self.__dataclass_fields__ if not name.startswith("icc")}
        for name in ("icc_1", "icc_c"):
            found = getattr(self, name)
            row |= {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}
        return pd.DataFrame([row])


def reliability(items: Sequence[Item], raters: str = "slots", target: str = "human") -> Reliability:
    """Reliability of the ratings of some items.

    Parameters
    ----------
    items
        Items; those without ratings are left out. An ICC takes the items with the most frequent number of ratings.
    raters
        "same" or "slots" (`logitjudge.core.ItemSet`).
    target
        What the ratings are. Those of a model end in "reference".

    Raises
    ------
    InputError
        `raters` is neither.
    """
    if raters not in RATERS:
        raise InputError(unknown("kind of raters", raters, RATERS))
    rated = [item for item in items if item.human is not None]
    ratings = matrix(rated)
    one, consistent = icc(ratings, "1"), icc(ratings, "C")
    used = consistent if raters == "same" else one
    best = None if used.low is None or used.value is None or used.low <= 0 else math.sqrt(used.value)
    model = target.endswith("reference")
    return Reliability(
        target=target,
        design=raters,
        items=len(rated),
        raters=ratings.shape[1],
        mean=float(np.mean([item.rating for item in rated])) if rated else None,
        alpha_ordinal=alpha(ratings, "ordinal"),
        alpha_interval=alpha(ratings, "interval"),
        icc_1=one,
        icc_c=consistent,
        ceiling=None if model else best,
        self_consistency=best if model else None,
        note=_why(used, best, model),
    )


def _why(used: Icc, best: float | None, model: bool) -> str:
    """Say why there is no ceiling."""
    if best is None:
        return (
            used.note
            if used.value is None
            else f"no ceiling: ICC({used.kind},k) may be 0 (its lower limit is not above)"
        )
    return "a model's self-consistency, no ceiling" if model else ""


def of_run(run: Run) -> Reliability:
    """Reliability of a run's ratings, raters as its dataset says."""
    return reliability(run.items, str(run.provenance.get("raters", "slots")), run.ratings_name)


def matrix(items: Sequence[Item]) -> FloatArray:
    """(I, R) ratings, NaN behind the last of an item with fewer than R."""
    width = max((len(item.human or ()) for item in items), default=0)
    made = np.full((len(items), width), np.nan)
    for row, item in zip(made, items, strict=True):
        row[: len(item.human or ())] = item.human or ()
    return made


def alpha(ratings: FloatArray, level: Level = "interval") -> float | None:
    """Krippendorff's alpha: 1 minus observed over expected disagreement.

    Parameters
    ----------
    ratings
        (I, R), NaN where a rater did not rate. Items with fewer than two ratings do not count.
    level
        "interval": disagreement is the squared difference. "ordinal": the squared number of ratings from one value to the
        other, the ends half.

    Returns
    -------
    float or None
        None where no item has two ratings, or where all ratings are equal.

    Raises
    ------
    InputError
        A level that does not exist.

    Examples
    --------
    >>> alpha(np.array([[1.0, 1.0], [2.0, 2.0]]))
    1.0
    """
    if level not in LEVELS:
        raise InputError(unknown("level", level, LEVELS))
    pairable = ratings[np.isfinite(ratings).sum(axis=1) >= 2]
    values, place, often = np.unique(pairable[np.isfinite(pairable)], return_inverse=True, return_counts=True)
    if len(values) < 2:
        return None
    where = (
        np.cumsum(often) - often / 2 if level == "ordinal" else values
    )  # both distances are those between points on a line
    placed = np.where(np.isfinite(pairable), 0.0, np.nan)
    placed[np.isfinite(pairable)] = (where - where.mean())[place]
    raters = np.isfinite(placed).sum(axis=1)
    observed = (_apart(placed) / (raters - 1)).sum()
    expected = _apart(placed.reshape(1, -1))[0] / (raters.sum() - 1)
    return float(1 - observed / expected)


def _apart(placed: FloatArray) -> FloatArray:
    """(U,) sum over ordered pairs of squared differences in each row of (U, R), without NaN."""
    count = np.isfinite(placed).sum(axis=1)
    centre = np.nansum(placed, axis=1, keepdims=True) / count[:, None]
    squares: FloatArray = 2 * count * np.nansum((placed - centre) ** 2, axis=1)
    return squares


def icc(ratings: FloatArray, kind: str = "1") -> Icc:
    """Intraclass correlation of the mean of k raters, with 95 % limits from F.

    ``1 - W/B``, B the mean square between items and W within: for kind "1" all of what is within items, for kind "C" what is
    left of it without the raters' differences in level. The limits take items as independent: with several items a document they
    are too narrow.

    Parameters
    ----------
    ratings
        (I, R), NaN where a rater did not rate. Items with another number of ratings than most (of ties, the larger) are
        left out; with kind "C" those without a rating of every rater.

    Raises
    ------
    InputError
        A kind that does not exist.

    Examples
    --------
    >>> icc(np.array([[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]]), "C").value
    1.0
    >>> round(icc(np.array([[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]]), "1").value, 3)  # B = 2, W = 1/2
    0.75
    """
    if kind not in KINDS:
        raise InputError(unknown("kind of ICC", kind, KINDS))
    full, left_out = _complete(ratings, kind)
    n, k = full.shape
    note = f"{left_out} item(s) with another number of ratings left out" if left_out else ""
    why = _undefined(full)
    if why:
        return Icc(kind, None, None, None, n, k, why)
    between, within, freedom = _squares(full, kind)
    if within <= SAME * between:
        return Icc(kind, 1.0, 1.0, 1.0, n, k, note or "degenerate: the raters agree perfectly")
    ratio = between / within
    low = 1 - stats.f.ppf(0.975, n - 1, freedom) / ratio
    high = 1 - 1 / (ratio * stats.f.ppf(0.975, freedom, n - 1))
    return Icc(kind, float(1 - 1 / ratio), float(low), float(high), n, k, note)


def _complete(ratings: FloatArray, kind: str) -> tuple[FloatArray, int]:
    """(n, k) ratings of the items that have k of them, and how many other items have a rating."""
    count = np.isfinite(ratings).sum(axis=1)
    often = np.bincount(count, minlength=1)
    often[0] = 0
    if not often.any():
        return np.empty((0, 0)), 0
    k = ratings.shape[1] if kind == "C" else int(len(often) - 1 - np.argmax(often[::-1]))
    rows = ratings[count == k]
    return rows[np.isfinite(rows)].reshape(-1, k), int((count > 0).sum() - len(rows))


def _undefined(ratings: FloatArray) -> str:
    """Why there is no ICC of (n, k) ratings, or ""."""
    n, k = ratings.shape
    if n == 0:
        return "no ratings"
    if k < 2:
        return "one rating an item: raters cannot be compared"
    if n < 2:
        return "one item: items cannot be compared"
    size = np.abs(ratings).max()
    return "degenerate: the items do not differ" if ratings.mean(axis=1).std() <= SAME * size else ""


def _squares(ratings: FloatArray, kind: str) -> tuple[float, float, int]:
    """Mean squares between items and within, and the latter's degrees of freedom."""
    n, k = ratings.shape
    item = ratings.mean(axis=1, keepdims=True)
    between = k * item.var(ddof=1)
    rest = ratings - item
    freedom = n * (k - 1)
    if kind == "C":
        rest, freedom = rest - rest.mean(axis=0), (n - 1) * (k - 1)
    return float(between), float((rest**2).sum() / freedom), freedom
