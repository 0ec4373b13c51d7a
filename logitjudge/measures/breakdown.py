"""Agreement with people in full: by criterion, averaged over criteria and pooled; over items and over systems; all with intervals.

Papers seldom say which of these they print, and they differ: pooled over criteria, a correlation also counts that fluency is rated higher
than coherence; averaged over criteria, it does not. Over systems, each is the mean of its items.

Intervals resample clusters, as `logitjudge.measures.agreement` does; those over systems too: the systems are those of the run, and
the interval is of their items. A resample in which a measure has no number is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from logitjudge import registry
from logitjudge.core import BoolArray, FloatArray, IntArray, Item
from logitjudge.errors import InputError
from logitjudge.measures import closeness, intervals, reliability, weighted
from logitjudge.measures.agreement import LEAST, MEASURES as CORRELATIONS, ONE, ROUNDED, SAME
from logitjudge.run import Run

if TYPE_CHECKING:
    import pandas as pd

CRITERION, SYSTEM = "criterion", "system"  # group columns
OVER_SYSTEMS = ("pearson", "spearman", "kendall")
KAPPAS = ("kappa_winner", "kappa_rounded")
SHARES = ("exact_winner", "exact_rounded", "pair_accuracy")
MEASURES = (*OVER_SYSTEMS, *KAPPAS, *SHARES, "absolute_error")
VARYING = (*OVER_SYSTEMS, *KAPPAS, "pair_accuracy")  # say nothing where a column is constant


@dataclass(frozen=True, slots=True)
class Agreed:
    """One measure of one part of the items.

    Parameters
    ----------
    method
        Debiaser.
    part
        "criterion", "mean" (over the criteria) or "pooled".
    criterion
        Its name; None of the other parts.
    level
        "items" or "systems".
    measure
        "pearson", "spearman", "kendall" (tau-b) with the mean rating; "kappa_winner", "kappa_rounded" (quadratic weights) and
        "exact_winner", "exact_rounded" (share of equal ones): the most probable score, or the one nearest to the expected score,
        against that nearest to the raters' median; "pair_accuracy" (ties calibrated); "absolute_error" from the mean
        rating, in score points.
    value
        None where it is not defined; `note` says why.
    low, high
        95 % interval, or None.
    items, clusters, systems
        What it rests on; `systems` is None where items have none.
    ceiling, share
        Of a Pearson correlation over items: the best that raters of this reliability allow, and `value` over it; else None.
    threshold
        Of "pair_accuracy": scores that differ by no more, in points, are a tie. It was chosen on these items, as the one that makes
        the accuracy largest, so the accuracy is optimistic, and its interval takes the threshold for given.
    note
        What to know before the number is used, or "".
    """

    method: str
    part: str
    criterion: str | None
    level: str
    measure: str
    value: float | None
    low: float | None
    high: float | None
    items: int
    clusters: int
    systems: int | None
    ceiling: float | None = None
    share: float | None = None
    threshold: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Breakdown:
    """All measures of all parts."""

    rows: tuple[Agreed, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Agreed]:
        return iter(self.rows)

    def to_frame(self) -> pd.DataFrame:
        """Frame, one row a part and measure, with the fields of `Agreed`."""
        import pandas as pd

        names = list(Agreed.__dataclass_fields__)
        return pd.DataFrame([[getattr(row, name) for name in names] for row in self.rows], columns=names)


@dataclass(frozen=True, slots=True, eq=False)
class Rated:
    """What a method and the raters say about I items: (I,) scores, mean ratings, and indices of scores and clusters."""

    items: tuple[Item, ...]
    score: FloatArray
    rating: FloatArray
    winner: IntArray
    rounded: IntArray
    median: IntArray
    cluster: IntArray
    scores: IntArray  # (K,)

    @classmethod
    def of(cls, run: Run, method: str) -> Rated:
        """The items that have a rating and a score."""
        made = registry.make("debiasers", method).fit(run)(run)
        rows = np.flatnonzero(np.isfinite(run.ratings) & np.isfinite(made.score))
        items = tuple(run.items[i] for i in rows)
        best = made.dist[rows] >= made.dist[rows].max(axis=1, keepdims=True, initial=0) * (1 - 1e-12)
        winner = (best * run.scores).sum(axis=1) / np.maximum(best.sum(axis=1), 1)  # scores that tie: their middle
        median = np.array([np.median(item.human or ()) for item in items])
        near = [closeness.nearest(values, run.scores) for values in (winner, made.score[rows], median)]
        score, rating = (np.asarray(np.round(x[rows], ROUNDED)) for x in (made.score, run.ratings))
        clusters = intervals.number([item.cluster for item in items])
        return cls(items, score, rating, near[0], near[1], near[2], clusters, run.scores)

    def part(self, keep: BoolArray) -> Rated:
        """Some of the items."""
        rows = np.flatnonzero(keep)
        items = tuple(self.items[i] for i in rows)
        told = (self.score[rows], self.rating[rows])
        indices = (self.winner[rows], self.rounded[rows], self.median[rows])
        return Rated(items, *told, *indices, intervals.number([item.cluster for item in items]), self.scores)

    def group(self, name: str) -> list[str | None]:
        """(I,) value of a group column as a text."""
        return [None if (value := item.groups.get(name)) is None else str(value) for item in self.items]


def breakdown(
    run: Run,
    method: str = "mean_prob",
    *,
    criterion: str = CRITERION,
    system: str = SYSTEM,
    draws: int = 1000,
    seed: int = 0,
) -> Breakdown:
    """Agreement of a method with the ratings, in all parts.

    Parameters
    ----------
    run
        A run with ratings; items without one are left out.
    method
        Debiaser.
    criterion, system
        Group columns. With fewer than two criteria there is the pooled part only; without systems, no level of systems. Over
        systems there is no number below `closeness.LEAST_SYSTEMS`.
    draws, seed
        Of the resampling of clusters.

    Raises
    ------
    InputError
        A method that does not exist, or fewer than two draws.
    """
    if draws < 2:
        raise InputError(f"draws is {draws}: an interval needs at least two.")
    everything = Rated.of(run, method)
    raters = str(run.provenance.get("raters", "slots"))
    how = _How(method, system, raters, run.ratings_name, draws, seed)
    criteria = everything.group(criterion)
    names = sorted({name for name in criteria if name is not None})
    parts = {name: np.array([name == other for other in criteria]) for name in names} if len(names) > 1 else {}
    rows = [row for name, keep in parts.items() for row in _part(everything.part(keep), "criterion", name, how)]
    rows += _mean(everything, list(parts.values()), rows, how) if parts else []
    return Breakdown((*rows, *_part(everything, "pooled", None, how)))


@dataclass(frozen=True, slots=True)
class _How:
    method: str
    system: str
    raters: str
    target: str
    draws: int
    seed: int


Statistic = Callable[[FloatArray], FloatArray]  # (B, I) weights -> (B, measures)


def _part(rated: Rated, part: str, criterion: str | None, how: _How) -> list[Agreed]:
    """Rows of one part, over items and over systems."""
    threshold = _threshold(rated)
    found = _estimated(_statistic(rated, threshold), rated, how, MEASURES, _reasons(rated))
    best = reliability.reliability(rated.items, how.raters, how.target).ceiling
    head = (how.method, part, criterion)
    sizes = (len(rated.items), len(set(rated.cluster.tolist())))
    systems = {name for name in rated.group(how.system) if name is not None}
    rows = []
    for measure, (value, low, high, note) in found.items():
        ceiling = best if measure == "pearson" else None
        share = None if ceiling is None or value is None else value / ceiling
        tie = threshold if measure == "pair_accuracy" and value is not None else None
        count = len(systems) or None
        rows.append(Agreed(*head, "items", measure, value, low, high, *sizes, count, ceiling, share, tie, note))
    if systems:
        over = _over_systems(rated, how)
        rows += [
            Agreed(*head, "systems", name, *over[name][:3], *sizes, len(systems), note=over[name][3]) for name in over
        ]
    return rows


def _mean(everything: Rated, parts: Sequence[BoolArray], rows: Sequence[Agreed], how: _How) -> list[Agreed]:
    """Rows of the mean over criteria; None, with the criteria's reasons, where one of them has no number."""
    made = []
    for level, measures in (("items", MEASURES), ("systems", OVER_SYSTEMS)):
        here = [row for row in rows if row.level == level]
        if {row.criterion for row in here} != {row.criterion for row in rows}:  # a criterion without systems
            continue
        lacking = {
            name: f"no mean: {row.criterion}: {row.note}"
            for name in measures
            for row in here
            if row.measure == name and row.value is None
        }
        statistics = [_of_part(everything, keep, level, how) for keep in parts]
        found = _estimated(_mean_of(statistics), everything, how, measures, lacking)
        sizes = (
            len(everything.items),
            len(set(everything.cluster.tolist())),
            max((row.systems or 0) for row in here) or None,
        )
        for measure in measures:
            value, low, high, note = found[measure]
            ceilings = [row.ceiling for row in here if row.measure == measure]
            best = None if None in ceilings else float(np.mean([c for c in ceilings if c is not None]))
            share = None if best is None or value is None else value / best
            head = (how.method, "mean", None, level, measure)
            made.append(Agreed(*head, value, low, high, *sizes, best, share, note=note))
    return made


def _mean_of(statistics: Sequence[Statistic]) -> Statistic:
    return lambda weight: np.mean([statistic(weight) for statistic in statistics], axis=0)


def _of_part(everything: Rated, keep: BoolArray, level: str, how: _How) -> Statistic:
    """The statistic of some items as one of the weights of all."""
    rated = everything.part(keep)
    inner = _statistic(rated, _threshold(rated)) if level == "items" else _system_statistic(rated, how.system)

    def statistic(weight: FloatArray) -> FloatArray:
        inside = weight[:, keep]
        empty = inside.sum(axis=1) == 0
        inside[empty] = 1
        made = inner(inside)
        made[empty] = np.nan
        return made

    return statistic


def _threshold(rated: Rated) -> float:
    pairs = closeness.pair_accuracy(rated.score, rated.rating)
    return pairs.threshold if pairs else 0.0


def _statistic(rated: Rated, threshold: float) -> Statistic:
    """All `MEASURES` over items."""

    def statistic(weight: FloatArray) -> FloatArray:
        pair = (rated.score, rated.rating, weight)
        levels = len(rated.scores)
        tables = [weighted.confusion(ours, rated.median, levels, weight) for ours in (rated.winner, rated.rounded)]
        columns = [
            CORRELATIONS["pearson"](*pair),
            CORRELATIONS["spearman"](*pair),
            weighted.kendall(*pair),
            *(weighted.quadratic_kappa(table, rated.scores) for table in tables),
            *(weighted.hits(table) for table in tables),
            weighted.pairs(*pair, threshold + SAME),
            weighted.mean(np.abs(rated.score - rated.rating), weight),
        ]
        return np.stack(columns, axis=1)

    return statistic


def _system_statistic(rated: Rated, system: str) -> Statistic:
    """`OVER_SYSTEMS`; items without a system have no weight."""
    names = rated.group(system)
    known = np.array([name is not None for name in names])
    which = intervals.number([name for name in names if name is not None])

    def statistic(weight: FloatArray) -> FloatArray:
        x, y = (weighted.system_means(z[known], which, weight[:, known]) for z in (rated.score, rated.rating))
        found = weighted.over_systems(x, y)
        return np.stack([found[name] for name in OVER_SYSTEMS], axis=1)

    return statistic


Estimated = tuple[float | None, float | None, float | None, str]  # value, low, high, note


def _over_systems(rated: Rated, how: _How) -> dict[str, Estimated]:
    count = len({name for name in rated.group(how.system) if name is not None})
    if count < closeness.LEAST_SYSTEMS:
        why = f"too few systems ({count} < {closeness.LEAST_SYSTEMS})"
        return dict.fromkeys(OVER_SYSTEMS, (None, None, None, why))
    return _estimated(_system_statistic(rated, how.system), rated, how, OVER_SYSTEMS, {})


def _reasons(rated: Rated) -> dict[str, str]:
    """Measure -> why it has no number."""
    if len(rated.items) == 0:
        return dict.fromkeys(MEASURES, "no ratings")
    made = {}
    if len(rated.items) < LEAST:
        made = dict.fromkeys((*OVER_SYSTEMS, *KAPPAS), f"too few rated items ({len(rated.items)} < {LEAST})")
    if len(rated.items) < 2:
        made["pair_accuracy"] = "one item makes no pair"
    columns = {"scores": _constant(rated.score), "ratings": _constant(rated.rating)}
    columns |= {
        "winners": _constant(rated.winner),
        "rounded scores": _constant(rated.rounded),
        "medians": _constant(rated.median),
    }
    for measure in VARYING:
        sides = _sides(measure)
        still = [name for name in sides if columns[name]]
        if still and measure not in made:
            made[measure] = f"degenerate: the {' and the '.join(still)} do not vary"
    return made


def _sides(measure: str) -> tuple[str, str]:
    """Names of the columns that a measure compares."""
    ours = {"kappa_winner": "winners", "kappa_rounded": "rounded scores"}.get(measure)
    return (ours, "medians") if ours else ("scores", "ratings")


def _constant(values: FloatArray | IntArray) -> bool:
    return bool(np.ptp(values) <= SAME * float(np.abs(values).max()))


def _estimated(
    statistic: Statistic, rated: Rated, how: _How, measures: Sequence[str], reasons: dict[str, str]
) -> dict[str, Estimated]:
    """Value, interval and note of each measure."""
    if len(rated.items) == 0:
        return {name: (None, None, None, "no ratings") for name in measures}
    values = statistic(np.ones((1, len(rated.items))))[0]
    count = int(rated.cluster.max()) + 1
    drawn = np.empty((0, len(values)))
    if count > 1:
        rng = np.random.default_rng(how.seed)
        drawn = intervals.bootstrap(statistic, rated.cluster, draws=how.draws, rng=rng)
    made: dict[str, Estimated] = {}
    for n, name in enumerate(measures):
        why = reasons.get(name) or (
            "" if np.isfinite(values[n]) else "degenerate: the means of the systems do not vary"
        )
        made[name] = (
            (None, None, None, why) if why else _interval(name, float(values[n]), drawn[:, n], count, how.draws)
        )
    return made


def _interval(measure: str, value: float, drawn: FloatArray, clusters: int, draws: int) -> Estimated:
    """Interval of one measure: correlations and kappas on the arctanh scale, the others on their own, within their range."""
    bounded = measure in (*OVER_SYSTEMS, *KAPPAS)
    if bounded and abs(value) > ONE:
        return value, value, value, "degenerate: the agreement is perfect"
    if clusters < 2:
        return value, None, None, "no interval: all items are of one cluster"
    kept = drawn[np.isfinite(drawn) & (np.abs(drawn) < ONE if bounded else True)]
    if len(kept) < max(2, draws / 2):
        return value, None, None, f"no interval: most resamples are degenerate ({clusters} clusters)"
    if np.ptp(kept) <= SAME * np.abs(kept).max():
        return value, value, value, "degenerate: no resample differs"
    if bounded:
        ends = np.tanh(intervals.t_interval(float(np.arctanh(value)), np.arctanh(kept), clusters))
    else:
        ends = np.clip(intervals.t_interval(value, kept, clusters), 0, 1 if measure in SHARES else np.inf)
    return value, float(ends[0]), float(ends[1]), intervals.few(clusters)
