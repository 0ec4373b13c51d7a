"""Bias by group of items, and of the items reweighted to another distribution of scores.

A judge's positions may move essays and not code. And a set of items that are nearly all a "5" says little about the others: the
same readings, weighted to a distribution of scores that one cares about, give the figures that such a set would have had.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from logitjudge import orderings
from logitjudge.core import FloatArray, IntArray, frozen_array
from logitjudge.errors import InputError, NotObserved, unknown
from logitjudge.measures.intervals import FEW
from logitjudge.measures.matrices import score_position_matrix
from logitjudge.measures.ratios import central
from logitjudge.run import Run

if TYPE_CHECKING:
    import pandas as pd

MOST = 24  # values of a group that are still groups
LENGTH = "response length"
BINS = 3
By = Literal["judge", "ratings"]


@dataclass(frozen=True, slots=True)
class GroupBias:
    """Bias of the items of one group.

    Parameters
    ----------
    group, value
        Column, and its value or bin.
    items, clusters
        How many.
    positions
        (K,) soft position distribution, or None where the design does not cover all cells.
    distance
        Sum over p of |P(p) - 1/K|; above 0 also by chance, and the more so the fewer items.
    movement
        Mean over items of the standard deviation of the expected score over orderings, in score points; None with one ordering.
    error
        Standard error of `movement`, from sums of clusters; None with one cluster.
    score
        Mean expected score over items and orderings.
    note
        What to know, or "".
    """

    group: str
    value: str
    items: int
    clusters: int
    positions: tuple[float, ...] | None
    distance: float | None
    movement: float | None
    error: float | None
    score: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class GroupBiases:
    """All groups, and why columns are none."""

    rows: tuple[GroupBias, ...]
    left_out: tuple[tuple[str, str], ...]

    def to_frame(self) -> pd.DataFrame:
        """Frame, one row a group, with the fields of `GroupBias` and a column ``p1`` ... for each position."""
        import pandas as pd

        names = [name for name in GroupBias.__dataclass_fields__ if name != "positions"]
        frame = pd.DataFrame([[getattr(row, name) for name in names] for row in self.rows], columns=names)
        for p in range(max((len(row.positions or ()) for row in self.rows), default=0)):
            frame[f"p{p + 1}"] = [row.positions[p] if row.positions else None for row in self.rows]
        return frame


def by_group(run: Run) -> GroupBiases:
    """Bias by each group of the items that has from 2 to `MOST` values, and by thirds of numbers and of the response's length.

    Returns
    -------
    GroupBiases
        ``left_out``: columns that are no groups, each with the reason. Items without a value are left out of a column.
    """
    rows: list[GroupBias] = []
    left_out = []
    for name, values in _columns(run).items():
        labels = _labels(values)
        if isinstance(labels, str):
            left_out.append((name, labels))
            continue
        for label in sorted({label for label in labels if label is not None}):
            rows.append(_row(run, name, label[1], [other == label for other in labels]))
    return GroupBiases(tuple(rows), tuple(left_out))


def _columns(run: Run) -> dict[str, list[Any]]:
    """Values of every group, and the length of the response."""
    names = dict.fromkeys(name for item in run.items for name in item.groups)
    columns = {name: [item.groups.get(name) for item in run.items] for name in names}
    return columns | {LENGTH: [len(item.fields.get("response", "")) or None for item in run.items]}


Label = tuple[int, str]  # place among the labels, and text


def _labels(values: Sequence[Any]) -> list[Label | None] | str:
    """Label of each item, or why there are none."""
    there = [value for value in values if value is not None]
    if not there:
        return "no item has a value (texts may have been taken out)"
    if len({str(value) for value in there}) < 2:
        return "all items have the same value"
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in there):
        return _binned(values) if len(set(there)) > BINS else [None if v is None else (0, f"{v:g}") for v in values]
    if len({str(value) for value in there}) > min(MOST, len(there) - 1):
        return f"{len({str(value) for value in there})} different values are no groups"
    return [None if value is None else (0, str(value)) for value in values]


def _binned(values: Sequence[float | None]) -> list[Label | None]:
    """Thirds of numbers, each named by its ends."""
    numbers = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    cuts = np.nanquantile(numbers, np.arange(1, BINS) / BINS)
    place = np.searchsorted(cuts, numbers, side="left")  # NaN goes last
    made: list[Label | None] = [None] * len(values)
    for n in range(BINS):
        chosen = np.flatnonzero((place == n) & np.isfinite(numbers))
        if len(chosen):
            text = f"{numbers[chosen].min():g} to {numbers[chosen].max():g}"
            for i in chosen:
                made[i] = (n, text)
    return made


def _row(run: Run, group: str, value: str, keep: Sequence[bool]) -> GroupBias:
    part = run.select(keep)
    positions = score_position_matrix(part).position_distribution()
    known = bool(np.isfinite(positions).all())
    expected = part.probs() @ part.scores
    movement, several = expected.std(axis=1), len(run.orderings) > 1
    count = len(set(part.clusters.tolist()))
    return GroupBias(
        group=group,
        value=value,
        items=len(part.items),
        clusters=count,
        positions=tuple(positions.tolist()) if known else None,
        distance=float(np.abs(positions - 1 / len(positions)).sum()) if known else None,
        movement=float(movement.mean()) if several else None,
        error=_error(movement, part) if several else None,
        score=float(expected.mean()),
        note=f"too few clusters ({count} < {FEW})" if count < FEW else "",
    )


def _error(values: FloatArray, run: Run) -> float | None:
    """Standard error of a mean over items whose clusters are drawn: sums of residuals by cluster."""
    count = int(run.clusters.max()) + 1
    if count < 2:
        return None
    sums = np.bincount(run.clusters, weights=values - values.mean())
    return float(np.sqrt((sums**2).sum() * count / (count - 1)) / len(values))


@dataclass(frozen=True, slots=True, eq=False)
class Reweighted:
    """Figures of the run's items, and of the same items weighted to a distribution of scores.

    Parameters
    ----------
    scores
        (K,) score values.
    items
        (K,) items of each score.
    target
        (K,) share that each score is to have; 0 for those that no item has.
    missing
        Score values that no item has.
    weights
        (I,) mean 1.
    effective_items
        ``(sum w)^2 / sum w^2``: how many equally weighted items would be as precise.
    positions, positions_before
        (K,) soft position distribution, weighted and not; NaN where the design does not cover all cells.
    movement, movement_before
        Mean standard deviation of the expected score over orderings, in score points; NaN with one ordering.
    score, score_before
        Mean expected score.
    """

    scores: IntArray
    items: IntArray
    target: FloatArray
    missing: tuple[int, ...]
    weights: FloatArray
    effective_items: float
    positions: FloatArray
    positions_before: FloatArray
    movement: float
    movement_before: float
    score: float
    score_before: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", frozen_array(self.weights))

    def to_frame(self) -> pd.DataFrame:
        """Frame, one row a quantity: quantity, before, after."""
        import pandas as pd

        names = [f"p{p + 1}" for p in range(len(self.scores))]
        rows = list(zip(names, self.positions_before, self.positions, strict=True))
        rows += [(name, getattr(self, f"{name}_before"), getattr(self, name)) for name in ("movement", "score")]
        return pd.DataFrame(rows, columns=["quantity", "before", "after"])


def reweighted(run: Run, target: Sequence[float] | None = None, *, by: By = "judge") -> Reweighted:
    """Figures for items with another distribution of scores.

    Parameters
    ----------
    run
        A run with I items and K scores.
    target
        (K,) share of each score, in any unit; by default the same for each score that some item has.
    by
        Whose score an item has, rounded to the nearest: the "judge"'s (in the middle of its orderings), or the "ratings"' mean.

    Raises
    ------
    InputError
        `target` is not K shares, or `by` is neither.
    NotObserved
        No item has a score with a share of the target, or (by "ratings") some item has no rating.
    """
    if by not in ("judge", "ratings"):
        raise InputError(unknown("source of scores", by, ("judge", "ratings")))
    own = run.ratings if by == "ratings" else central(run) @ run.scores
    if np.isnan(own).any():
        raise NotObserved(f"{int(np.isnan(own).sum())} item(s) have no rating. Leave them out: run.select(...).")
    stratum = np.abs(own[:, None] - run.scores).argmin(axis=1)  # (I,)
    items = np.bincount(stratum, minlength=len(run.scores))
    share = _target(target, items, run)
    weights = (share / np.maximum(items, 1))[stratum] * len(stratum)
    even = np.ones(len(stratum))
    expected = run.probs() @ run.scores  # (I, O)
    spread = expected.std(axis=1) if len(run.orderings) > 1 else np.full(len(expected), np.nan)
    after, before = ((_positions(run, w), _mean(spread, w), _mean(expected.mean(axis=1), w)) for w in (weights, even))
    return Reweighted(
        scores=run.scores,
        items=items,
        target=share,
        missing=tuple(run.scores[items == 0].tolist()),
        weights=weights,
        effective_items=float(weights.sum() ** 2 / (weights**2).sum()),
        positions=after[0],
        positions_before=before[0],
        movement=after[1],
        movement_before=before[1],
        score=after[2],
        score_before=before[2],
    )


def _target(target: Sequence[float] | None, items: IntArray, run: Run) -> FloatArray:
    """(K,) shares that sum to 1."""
    share = (items > 0).astype(np.float64) if target is None else np.array(list(target), dtype=np.float64)
    if share.shape != items.shape or not np.isfinite(share).all() or (share < 0).any() or not share.any():
        raise InputError(f"target is {share.tolist()}. Give a share of at least 0 for each of {len(items)} scores.")
    if gaps := [str(s) for s, n, wanted in zip(run.scores, items, share, strict=True) if n == 0 and wanted]:
        raise NotObserved(
            f"no item has the score(s) {', '.join(gaps)}, so none can be given weight. Set the share to 0."
        )
    return np.asarray(share / share.sum())


def _mean(values: FloatArray, weight: FloatArray) -> float:
    return float(np.average(values, weights=weight))


def _positions(run: Run, weight: FloatArray) -> FloatArray:
    """(K,) soft position distribution of weighted items (`matrices`): sum over k of a_k P(p | k)."""
    levels = len(run.scores)
    mean = np.einsum("i,iok->ok", weight / weight.sum(), run.probs())  # (O, K)
    total = np.zeros((levels, levels))  # (K, P)
    np.add.at(total, (run.shown, np.arange(levels)), np.take_along_axis(mean, run.shown, axis=1))
    shown = orderings.counts(run.orderings)
    if (shown == 0).any():
        return np.full(levels, np.nan)
    cells = total / shown
    share = mean.mean(axis=0)
    return np.asarray(share @ (cells / cells.sum(axis=1, keepdims=True)))
