"""Is the order worst where the judge is unsure?

Two claims compete. One: bias is strongest at near ties. Other: it shows wherever the item is away from the ceiling and the floor
of the scale, near tie or not. An item in the middle of the scale is often a near tie, too, so each claim is tested with the
other held fixed (partial rank correlations), and a table crosses the two.

Certainty is that of the item in the middle of its orderings (`ratios.central`): a mean of probabilities would look unsure merely
because orderings disagree. Movement is measured on three scales, because the answer depends on the scale: a judge whose positions
add the same to every logit moves no item more than another in nats, and moves a certain item's expected score hardly at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from logitjudge.core import BoolArray, FloatArray, IntArray, frozen_array
from logitjudge.measures import intervals
from logitjudge.measures.matrices import winners
from logitjudge.measures.ratios import central, clr
from logitjudge.measures.swings import require_two
from logitjudge.run import Run

if TYPE_CHECKING:
    import pandas as pd

MOVEMENTS = ("points", "flips", "nats")
NEARNESS = ("near_tie", "entropy", "inside")
PAIRS = (  # (what, given what)
    ("near_tie", None),
    ("entropy", None),
    ("inside", None),
    ("near_tie", "inside"),
    ("inside", "near_tie"),
)
LEAST = 5  # items: a partial correlation of fewer says nothing
SAME = 1e-9
ONE = 1 - 1e-12
THIRDS = ("near tie", "between", "clear")
PLACES = ("end", "inside")


@dataclass(frozen=True, slots=True)
class Association:
    """A rank correlation over items.

    Parameters
    ----------
    movement
        "points" (standard deviation of the expected score over orderings), "flips" (share of orderings with another winner) or
        "nats" (root mean square departure of the centred log-ratios from their mean over orderings).
    nearness
        "near_tie" (minus the margin), "entropy" or "inside" (distance from the nearer end of the scale).
    given
        What is held fixed, or None.
    value
        Spearman, or partial Spearman, correlation in [-1, 1]; None where it is not defined.
    low, high
        95 % interval from a bootstrap of clusters, or None. Ranks are those among all items.
    note
        What to know, or "".
    """

    movement: str
    nearness: str
    given: str | None
    value: float | None
    low: float | None
    high: float | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """Items alike in certainty and place, and their mean movement; None where there are none."""

    third: str
    place: str
    items: int
    points: float | None
    flips: float | None
    nats: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Certainty:
    """Certainty and movement of each item, and how they go together.

    Parameters
    ----------
    ids
        (I,) items.
    entropy
        (I,) nats.
    margin
        (I,) most probable minus second score's probability.
    inside
        (I,) distance of the expected score from the nearer end of the scale, in score points.
    points, flips, nats
        (I,) movement over orderings; see `Association`.
    associations
        For each movement the pairs of `PAIRS`.
    cells
        Thirds of the items by margin x within half a step of an end or inside.
    """

    ids: tuple[str, ...]
    entropy: FloatArray
    margin: FloatArray
    inside: FloatArray
    points: FloatArray
    flips: FloatArray
    nats: FloatArray
    associations: tuple[Association, ...]
    cells: tuple[Cell, ...]

    def __post_init__(self) -> None:
        for name in ("entropy", "margin", "inside", *MOVEMENTS):
            object.__setattr__(self, name, frozen_array(getattr(self, name)))

    def to_frame(self) -> pd.DataFrame:
        """Frame, one row an association, with the fields of `Association`."""
        import pandas as pd

        names = list(Association.__dataclass_fields__)
        return pd.DataFrame([[getattr(row, name) for name in names] for row in self.associations], columns=names)

    def items(self) -> pd.DataFrame:
        """Frame, one row an item: item, entropy, margin, inside, points, flips, nats."""
        import pandas as pd

        names = ("entropy", "margin", "inside", *MOVEMENTS)
        return pd.DataFrame({"item": list(self.ids), **{name: getattr(self, name) for name in names}})

    def _repr_html_(self) -> str:
        return str(self.to_frame().to_html(index=False, float_format="{:.2f}".format))


def certainty(run: Run, *, draws: int = 1000, seed: int = 0) -> Certainty:
    """How movement over orderings goes with the certainty of an item and with its place on the scale.

    Parameters
    ----------
    run
        A run with I items, O orderings and K scores. With an unbalanced design the middle of the orderings is biased itself.
    draws, seed
        Of the bootstrap of clusters; the result does not depend on the order of the items.

    Raises
    ------
    NotObserved
        The run has one ordering.

    References
    ----------
    Claim of near ties: Zheng et al. (2023), arXiv:2306.05685, and its successors, for pairs.
    """
    require_two(run)
    middle = central(run)
    columns = {**_nearness(run, middle), **_movement(run, middle)}
    ids = tuple(item.id for item in run.items)
    rows = _associations(run, columns, draws=draws, rng=np.random.default_rng(seed))
    margin = -columns["near_tie"]
    moved = {name: columns[name] for name in MOVEMENTS}
    cells = _cells(run, margin, columns["inside"], moved)
    return Certainty(ids, columns["entropy"], margin, columns["inside"], **moved, associations=rows, cells=cells)


def _nearness(run: Run, middle: FloatArray) -> dict[str, FloatArray]:
    """(I,) each of `NEARNESS`."""
    ordered = np.sort(middle, axis=1)
    expected = middle @ run.scores
    inside = np.minimum(expected - run.scores[0], run.scores[-1] - expected)
    values: tuple[FloatArray, ...] = (ordered[:, -2] - ordered[:, -1], stats.entropy(middle, axis=1), inside)
    return dict(zip(NEARNESS, values, strict=True))


def _movement(run: Run, middle: FloatArray) -> dict[str, FloatArray]:
    """(I,) each of `MOVEMENTS`."""
    probs, logits = run.probs(), clr(run)
    same = (winners(probs) * winners(middle)[:, None]).sum(axis=2) / winners(middle).max(axis=1)[:, None]
    nats = np.sqrt(((logits - logits.mean(axis=1, keepdims=True)) ** 2).mean(axis=(1, 2)))
    values: tuple[FloatArray, ...] = ((probs @ run.scores).std(axis=1), 1 - np.minimum(same, 1).mean(axis=1), nats)
    return dict(zip(MOVEMENTS, values, strict=True))


def _associations(
    run: Run, columns: dict[str, FloatArray], *, draws: int, rng: np.random.Generator
) -> tuple[Association, ...]:
    """Correlations of the items' ranks, with intervals from the same resamples."""
    names = list(columns)
    ranks = np.column_stack([stats.rankdata(np.round(columns[name] / SAME)) for name in names])
    ranks -= ranks.mean(axis=0)
    clusters = intervals.number([item.cluster for item in run.items])
    value = _correlations(ranks, np.ones((1, len(ranks))))
    count = int(clusters.max()) + 1
    drawn = (
        intervals.bootstrap(lambda w: _correlations(ranks, w), clusters, draws=draws, rng=rng) if count > 1 else None
    )
    rows = []
    for movement in MOVEMENTS:
        for nearness, given in PAIRS:
            place = [names.index(name) for name in (movement, nearness, given) if name is not None]
            spread = None if drawn is None else _partial(drawn, place)
            note = _undefined(ranks, place, names)
            made = (None, None, None, note) if note else _interval(float(_partial(value, place)[0]), spread, count)
            rows.append(Association(movement, nearness, given, *made))
    return tuple(rows)


def _correlations(ranks: FloatArray, weight: FloatArray) -> FloatArray:
    """(B, M, M) correlations of the columns of ranks (I, M) under weights (B, I); NaN where one does not vary."""
    size = ranks.shape[1]
    share = weight / weight.sum(axis=1, keepdims=True)
    mean = share @ ranks
    products = (ranks[:, :, None] * ranks[:, None, :]).reshape(len(ranks), -1)
    covariance = (share @ products).reshape(-1, size, size) - mean[:, :, None] * mean[:, None, :]
    spread = np.sqrt(np.maximum(np.diagonal(covariance, axis1=1, axis2=2), 0))
    scale = spread[:, :, None] * spread[:, None, :]
    return np.asarray(np.divide(covariance, scale, where=scale > SAME, out=np.full(covariance.shape, np.nan)))


def _partial(r: FloatArray, place: list[int]) -> FloatArray:
    """(B,) correlation of two columns, or of two given a third; NaN where the third says all."""
    x, y, *rest = place
    if not rest:
        return np.asarray(r[:, x, y])
    z = rest[0]
    left = (1 - r[:, x, z] ** 2) * (1 - r[:, y, z] ** 2)
    above = r[:, x, y] - r[:, x, z] * r[:, y, z]
    good = left > SAME  # false for NaN, too
    root = np.sqrt(np.where(good, left, 1))
    return np.where(good, above / root, np.nan)


def _undefined(ranks: FloatArray, place: list[int], names: list[str]) -> str:
    """Why there is no correlation, or ""."""
    if len(ranks) < LEAST:
        return f"too few items ({len(ranks)} < {LEAST})"
    constant = [names[column] for column in place if np.ptp(ranks[:, column]) == 0]
    if constant:
        return f"degenerate: {' and '.join(constant)} does not vary"
    if np.isnan(_partial(_correlations(ranks, np.ones((1, len(ranks)))), place)).any():
        return "degenerate: what is held fixed says all about the other"
    return ""


def _interval(value: float, drawn: FloatArray | None, clusters: int) -> tuple[float, float | None, float | None, str]:
    """Value, interval and note, on the arctanh scale."""
    if drawn is None:
        return value, None, None, "no interval: all items are of one cluster"
    if abs(value) > ONE:
        return value, value, value, "degenerate: the correlation is perfect"
    kept = np.arctanh(np.clip(drawn[np.isfinite(drawn)], -ONE, ONE))
    if len(kept) < 2:
        return value, None, None, f"no interval: too few clusters ({clusters})"
    low, high = np.tanh(intervals.t_interval(float(np.arctanh(value)), kept, clusters))
    few = f"too few clusters ({clusters} < {intervals.FEW})" if clusters < intervals.FEW else ""
    return value, float(low), float(high), few


def _cells(run: Run, margin: FloatArray, inside: FloatArray, moved: dict[str, FloatArray]) -> tuple[Cell, ...]:
    """Mean movements by third of margin and by place."""
    third: IntArray = np.searchsorted(np.quantile(margin, [1 / 3, 2 / 3]), margin, side="left")
    step = (run.scores[-1] - run.scores[0]) / (len(run.scores) - 1)
    place: IntArray = (inside > step / 2).astype(np.int64)
    made = []
    for t, name in enumerate(THIRDS):
        for p, where in enumerate(PLACES):
            chosen: BoolArray = (third == t) & (place == p)
            means = {m: float(values[chosen].mean()) if chosen.any() else None for m, values in moved.items()}
            made.append(Cell(name, where, int(chosen.sum()), **means))
    return tuple(made)
