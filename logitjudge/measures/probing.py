"""How well a choice of ordering carries over: from few items, from few orderings, and to other runs.

What is chosen on some items is judged on others: ``loss`` is the Bias Cost there of the chosen ordering minus that of the
ordering which is cheapest there, ``gain`` the share of the way from the mean over all K! to the cheapest. A choice at random
has a gain of 0 on average. With ratings, ``better_half`` is how often the chosen ordering's expected scores correlate with
people at least as well as the median ordering that was read.

References
----------
arXiv:2602.02219, section 5.3, Table 6.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from logitjudge import orderings
from logitjudge.core import BoolArray, FloatArray, IntArray
from logitjudge.errors import InputError, NotObserved, OrderingError
from logitjudge.measures import cells, intervals
from logitjudge.measures.correlations import pearson
from logitjudge.run import Run

if TYPE_CHECKING:
    import pandas as pd

SIZES = (5, 10, 20)
MOST = 8  # levels of which all K! orderings are ranked


class Judged(NamedTuple):
    """What a chosen ordering is worth on other items; each (B,)."""

    loss: FloatArray
    gain: FloatArray
    rank: FloatArray
    better_half: FloatArray


def probe_items(
    run: Run, sizes: Sequence[int] = (5, 10, 20, 40, 80), *, repeats: int = 200, seed: int = 0
) -> pd.DataFrame:
    """How good the ordering is that few probe items choose, on the items that were held out.

    Parameters
    ----------
    run
        A run with I items in C clusters, in which every score stood at every position.
    sizes
        Numbers of probe items. Whole clusters are drawn until so many are there; a size that leaves fewer than a third of the
        items to be held out is left out.
    repeats
        Draws a size.

    Returns
    -------
    pandas.DataFrame
        One row a size: probes (items), passes (readings that they need), loss with low and high (the middle 95 % of
        draws), gain, rank (mean, of K!, by cost on the held-out items), better_half (None without ratings), draws.

    Raises
    ------
    NotObserved
        A (score, position) cell is missing, or there are too few items or clusters.
    """
    shown, table = _every(run), cells.by_item(run.probs(), run.shown)
    clusters = intervals.number([item.cluster for item in run.items])
    rng = np.random.default_rng(seed)
    rows = []
    for size in sizes:
        if 3 * size > 2 * len(run.items) or clusters.max() < 1:
            continue
        probe = np.array([_drawn(clusters, size, rng) for _ in range(repeats)])
        chosen = _cheapest(table, probe, shown)
        judged = _judged(run, table, ~probe, shown, chosen)
        rows.append({"probes": size, "passes": size * len(run.orderings), **_summary(judged), "draws": repeats})
    if not rows:
        raise NotObserved(
            f"{len(run.items)} items in {int(clusters.max()) + 1} clusters are too few to probe with {min(sizes)} and to hold others out."
        )
    return _frame(rows)


def probe_orderings(run: Run, sizes: Sequence[int] = SIZES, *, repeats: int = 200, seed: int = 0) -> pd.DataFrame:
    """How good the ordering is that few orderings choose, on other items read under all K!.

    Half of the clusters are read under n orderings (random Latin squares, so that all cells are covered), the others, under
    all, say what the choice is worth: among all orderings, and among those that were never probed.

    Parameters
    ----------
    run
        A run of the design ``full``.
    sizes
        Numbers of orderings; one that is no multiple of K is rounded up to one.

    Returns
    -------
    pandas.DataFrame
        Two rows a size, of all orderings and of those that were not probed (`among`): orderings, loss with low and high,
        gain, rank, better_half, draws.

    Raises
    ------
    NotObserved
        The run does not hold all K! orderings, or has fewer than two clusters.
    """
    require_full(run)
    shown, probs = run.shown, run.probs()
    clusters = intervals.number([item.cluster for item in run.items])
    if clusters.max() < 1:
        raise NotObserved("all items are of one cluster, so none can be held out. Read items of more clusters.")
    whole = cells.by_item(probs, shown)
    rng = np.random.default_rng(seed)
    rows = []
    for size in _squares(sizes, run):
        probe = np.array([_drawn(clusters, (len(run.items) + 1) // 2, rng) for _ in range(repeats)])
        sets = np.array([_latin(run, size, rng) for _ in range(repeats)])  # (R, n)
        price = cells.costs(np.stack([_matrix(probs, *pair, shown) for pair in zip(probe, sets, strict=True)]), shown)
        seen = np.zeros(price.shape, np.bool_)
        np.put_along_axis(seen, sets, True, axis=1)
        for among, costs in (("all", price), ("not probed", np.where(seen, np.inf, price))):
            if np.isfinite(costs).any(axis=1).all():
                judged = _judged(run, whole, ~probe, shown, _first(costs))
                rows.append({"orderings": size, "among": among, **_summary(judged), "draws": repeats})
    return _frame(rows)


def transfer(runs: Sequence[Run], names: Sequence[str], *, seed: int = 0, repeats: int = 100) -> pd.DataFrame:
    """What the ordering that one run chooses is worth in another: across datasets, criteria and models.

    Where both are the same run, one half of its clusters chooses and the other half judges, over and over.

    Returns
    -------
    pandas.DataFrame
        One row a pair: source, target, ordering (the source's cheapest, of all its items), cost and cheapest (in the
        target), loss, gain, rank (of K!), better_half.

    Raises
    ------
    InputError
        Runs with different scores, or not one name a run.
    NotObserved
        A run misses a (score, position) cell.
    """
    if len(names) != len(runs) or len({tuple(run.scores.tolist()) for run in runs}) != 1:
        raise InputError("transfer needs runs with the same scores, and one name for each run.")
    every = [np.ones((1, len(run.items)), np.bool_) for run in runs]
    shown = _every(runs[0])
    tables = [cells.by_item(run.probs(), run.shown) for run in runs]
    for run in runs:
        _every(run)
    best = [_cheapest(table, all_, shown) for table, all_ in zip(tables, every, strict=True)]
    rows = []
    for a, b in np.ndindex(len(runs), len(runs)):
        own = _own_half(runs[a], tables[a], shown, repeats, seed) if a == b else None
        judged = own or _judged(runs[b], tables[b], every[b], shown, best[a])
        [price] = cells.costs(cells.matrices(tables[b], every[b].astype(np.float64)), shown)
        values = [runs[a].scores.tolist()[k] for k in shown[best[a][0]]]
        pair = {"source": names[a], "target": names[b], "ordering": ",".join(map(str, values))}
        known = {"cost": price[best[a][0]], "cheapest": price.min()}
        rows.append(pair | known | {k: v for k, v in _summary(judged).items() if k not in ("low", "high")})
    return _frame(rows)


def enough(frame: pd.DataFrame, by: str = "probes", *, gain: float = 0.9) -> int | None:
    """Smallest number of probes (or of ``orderings``) with at least a share `gain` of what a choice can gain, or None."""
    reached = frame[frame["gain"] >= gain]
    return None if reached.empty else int(reached[by].min())


def require_full(run: Run) -> None:
    """Raise `NotObserved` unless a run holds all K! orderings, each once."""
    levels = len(run.scores)
    if len(run.orderings) != len({o.shown for o in run.orderings}) or len(run.orderings) != np.prod(
        np.arange(1, levels + 1)
    ):
        raise NotObserved(
            f"this needs all orderings of {levels} levels, and the run has {len(run.orderings)}. Read it with --orderings full."
        )


def _own_half(run: Run, table: FloatArray, shown: IntArray, repeats: int, seed: int) -> Judged | None:
    """A run's choice judged on the other half of its clusters; None where there is only one."""
    clusters = intervals.number([item.cluster for item in run.items])
    if clusters.max() < 1:
        return None
    rng = np.random.default_rng(seed)
    probe = np.array([_drawn(clusters, (len(run.items) + 1) // 2, rng) for _ in range(repeats)])
    return _judged(run, table, ~probe, shown, _cheapest(table, probe, shown))


def _every(run: Run) -> IntArray:
    """(K!, K) all orderings. Raises `NotObserved` where a cell is missing or there are too many."""
    if not cells.covered(run.shown):
        raise NotObserved(
            "some score was never shown at some position, so no ordering can be chosen. Read the design balanced."
        )
    if len(run.scores) > MOST:
        raise NotObserved(f"{len(run.scores)} levels have too many orderings to rank them all; at most {MOST} levels.")
    return cells.every(len(run.scores))


def _drawn(clusters: IntArray, size: int, rng: np.random.Generator) -> BoolArray:
    """(I,) items of clusters drawn until `size` items are there, and at least one cluster is left out."""
    counts = np.bincount(clusters)
    order = rng.permutation(len(counts))
    taken = 1 + int(np.searchsorted(np.cumsum(counts[order]), size))
    return np.isin(clusters, order[: min(taken, len(counts) - 1)])


def _first(costs: FloatArray) -> IntArray:
    """(B,) the cheapest, the first in lexicographic order where several are."""
    first: IntArray = np.argmin(np.rint(costs * 1e12), axis=1)
    return first


def _cheapest(table: FloatArray, probe: BoolArray, shown: IntArray) -> IntArray:
    return _first(cells.costs(cells.matrices(table, probe.astype(np.float64)), shown))


def _judged(run: Run, table: FloatArray, held: BoolArray, shown: IntArray, chosen: IntArray) -> Judged:
    """What orderings `chosen` (B,) of `shown` are worth on the items `held` (B, I)."""
    matrix = cells.matrices(table, held.astype(np.float64))
    price = cells.costs(matrix, shown)
    own = price[np.arange(len(price)), chosen]
    least, mean = price.min(axis=1), cells.mean_cost(matrix)
    room = mean - least
    gain = np.divide(mean - own, room, where=room > 1e-9, out=np.full(len(own), np.nan))
    rank = (price < own[:, None] - 1e-12).sum(axis=1) + 1.0
    return Judged(own - least, gain, rank, _better_half(run, held, shown[chosen]))


def _better_half(run: Run, held: BoolArray, chosen: IntArray) -> FloatArray:
    """(B,) 1 where the chosen ordering (B, K) correlates with people at least as well as the median one; NaN if not read."""
    rated = np.isfinite(run.ratings)
    place = {ordering.shown: o for o, ordering in enumerate(run.orderings)}
    found = np.full(len(chosen), np.nan)
    if not rated.any():
        return found
    expected = run.probs()[rated] @ run.scores
    r = pearson(expected, run.ratings[rated], held[:, rated].astype(np.float64))
    for b, row in enumerate(chosen.tolist()):
        o = place.get(tuple(row))
        if o is not None and np.isfinite(r[b]).all():
            found[b] = r[b, o] >= np.median(r[b])
    return found


def _squares(sizes: Sequence[int], run: Run) -> Iterator[int]:
    """Multiples of K, below K!, without repeats."""
    levels = len(run.scores)
    made = dict.fromkeys(-(-size // levels) * levels for size in sizes)
    return (size for size in made if size < len(run.orderings))


def _latin(run: Run, size: int, rng: np.random.Generator) -> list[int]:
    """Indices, in a full run, of `size` orderings from random Latin squares."""
    place = {ordering.shown: o for o, ordering in enumerate(run.orderings)}
    seed = int(rng.integers(2**31))
    try:
        made = orderings.parse(f"latin:{size // len(run.scores)}", run.scores.tolist(), seed)
    except OrderingError:  # too many squares without a common row: all orderings but a random few
        return [int(o) for o in rng.permutation(len(run.orderings))[:size]]
    return [place[ordering.shown] for ordering in made]


def _matrix(probs: FloatArray, items: BoolArray, few: IntArray, shown: IntArray) -> FloatArray:
    """(K, P) matrix of the items and the orderings that were read."""
    mean = probs[np.ix_(items, few)].mean(axis=0, keepdims=True)  # (1, n, K)
    [matrix] = cells.matrices(cells.by_item(mean, shown[few]), np.ones((1, 1)))
    found: FloatArray = matrix
    return found


def _summary(judged: Judged) -> dict[str, float | None]:
    low, high = np.quantile(judged.loss, [0.025, 0.975])
    known = judged.better_half[np.isfinite(judged.better_half)]
    gains = judged.gain[np.isfinite(judged.gain)]
    return {
        "loss": float(judged.loss.mean()),
        "low": float(low),
        "high": float(high),
        "gain": float(gains.mean()) if len(gains) else np.nan,
        "rank": float(judged.rank.mean()),
        "better_half": float(known.mean()) if len(known) else np.nan,
    }


def _frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(list(rows))
