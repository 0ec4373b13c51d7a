"""The paper's Tables 2 and 3: ten orderings against ten repeats of one.

The mean of ten orderings correlates better with people than one pick even without any position bias, because it is finer and
averages noise. So beside the repeat stand the expected score of the one ordering, which is as fine, and a placebo: ten
rewordings at a fixed ordering.

References
----------
arXiv:2602.02219, section 5.2, Tables 2 and 3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from logitjudge.core import FloatArray
from logitjudge.errors import InputError
from logitjudge.measures import agreement, intervals, pools, repeats, tabled
from logitjudge.measures.matrices import picks
from logitjudge.run import Run, SampledRun

if TYPE_CHECKING:
    import pandas as pd

DRAWS = 1000
MEASURES = ("pearson", "spearman")
SAME = 1e-9
OVER = ("over_expected", "over_expected_low", "over_expected_high")
DIFFERENCES = ("repeat_low", "repeat_high", "difference", "low", "high", *OVER)


def table_2(
    runs: Sequence[Run],
    *,
    placebo: Sequence[Run] = (),
    sampled: Sequence[SampledRun] = (),
    temperature: float = 0.0,
    draws: int = DRAWS,
    seed: int = 0,
) -> pd.DataFrame:
    """Permutation against repeat: correlations of the mean of ten orderings' picks, and of ten answers under one.

    Parameters
    ----------
    runs
        Runs with the ten orderings and with ratings; those without ratings have no rows.
    placebo
        Runs of the same judges and items under the identity ordering, each with other words: what averaging over ten
        prompts gives without any change of order.
    sampled
        Sampled runs under the identity ordering, instead of the exact repeat.
    temperature
        Of the repeated answers.

    Returns
    -------
    pandas.DataFrame
        One row a run and measure: permutation (mean of picks, the paper's), repeat, difference with low and high (paired over
        clusters), repeat_low and repeat_high (95 % of means of ten draws; NaN where repeats are equal), mean_prob (mean of
        probabilities), identity_expected (expected score of the one ordering: what finer grain alone gives), over_expected
        (permutation minus that) with its interval, placebo, placebos (how many rewordings, 0: not run), how, note.
    """
    rows = []
    for run in map(pools.ten, runs):
        if not np.isfinite(run.ratings).any():
            continue
        again = repeats.repeat(run, temperature=temperature, sampled=_partner(run, sampled), draws=draws, seed=seed)
        words = [other for other in placebo if pools.about(other)[:2] == pools.about(run)[:2]]
        scores = _methods(run, again, words)
        for measure in MEASURES:
            rows.append(tabled.who(run) | {"measure": measure} | _compared(run, scores, again, measure, draws, seed))
            rows[-1] |= {"placebos": len(words), "how": again.how, **tabled.size(run)}
    return tabled.frame(rows)


def table_3(
    runs: Sequence[Run],
    *,
    sampled: Sequence[SampledRun] = (),
    temperature: float = 0.0,
    draws: int = DRAWS,
    seed: int = 0,
) -> pd.DataFrame:
    """Standard deviation of one item's scores, averaged over items: over ten orderings, and over ten repeats.

    Returns
    -------
    pandas.DataFrame
        One row a run: permutation (of the picks; divided by n - 1) with low and high, expected (of the expected scores; NaN of
        a sampled run), repeat (0 by construction at temperature 0), how.
    """
    rows = []
    for run in map(pools.ten, runs):
        again = repeats.repeat(run, temperature=temperature, sampled=_partner(run, sampled), draws=2, seed=seed)
        picked = picks(run) @ run.scores  # (I, O)
        value = picked.std(axis=1, ddof=1)
        low, high, mean = tabled.interval(partial(_mean, value), run, draws, seed)
        soft = np.nan if isinstance(run, SampledRun) else (run.probs() @ run.scores).std(axis=1, ddof=1).mean()
        row = {"permutation": mean[0], "low": low[0], "high": high[0], "expected": soft, "repeat": np.nanmean(again.sd)}
        rows.append({**tabled.who(run), **row, "how": again.how, **tabled.size(run)})
    return tabled.frame(rows)


def _methods(run: Run, again: repeats.Repeat, words: Sequence[Run]) -> dict[str, FloatArray]:
    """Name to (I,) scores of everything that Table 2 compares; a column that does not exist is NaN."""
    mean = picks(run).mean(axis=1)
    whole = mean.sum(axis=1, keepdims=True)
    none = np.full(len(run.items), np.nan)
    made = {
        "permutation": np.divide(mean, whole, where=whole > 0, out=np.full(mean.shape, np.nan)) @ run.scores,
        "repeat": again.score,
        "mean_prob": none,
        "identity_expected": none,
        "placebo": none,
    }
    if not isinstance(run, SampledRun):
        made["mean_prob"] = run.probs().mean(axis=1) @ run.scores
        made["identity_expected"] = run.probs()[:, repeats.identity(run)] @ run.scores
    if words:
        ids = [item.id for item in run.items]
        answers = [repeats.aligned(repeats.repeat(other).score, other, ids) for other in words]
        made["placebo"] = np.mean(answers, axis=0)
    return {name: np.round(column, 9) for name, column in made.items()}  # means of picks that are equal tie in ranks


def _compared(
    run: Run, scores: Mapping[str, FloatArray], again: repeats.Repeat, measure: str, draws: int, seed: int
) -> dict[str, Any]:
    """Correlations of all methods on the items that all of them score, and paired differences."""
    there = [name for name, column in scores.items() if np.isfinite(column).any()]
    keep = np.isfinite(run.ratings) & np.all([np.isfinite(scores[name]) for name in there], axis=0)
    if not keep.any():
        return dict.fromkeys((*scores, *DIFFERENCES), np.nan) | {"note": "no item that all methods score has a rating"}
    y, correlate = run.ratings[keep], agreement.MEASURES[measure]
    clusters = intervals.number([item.cluster for item, k in zip(run.items, keep, strict=True) if k])
    count = int(clusters.max()) + 1
    row: dict[str, Any] = dict.fromkeys((*scores, *DIFFERENCES), np.nan)
    drawn: dict[str, FloatArray] = {}
    constant = [name for name in there if np.ptp(scores[name][keep]) <= SAME or np.ptp(y) <= SAME]
    for name in (name for name in there if name not in constant):
        statistic = partial(correlate, scores[name][keep], y)
        row[name] = float(statistic(np.ones((1, len(y))))[0])
        if count > 1:
            rng = np.random.default_rng(seed)  # the same clusters for every method: differences are paired
            drawn[name] = intervals.bootstrap(statistic, clusters, draws=draws, rng=rng)
    noise = _over_draws(again, keep, y, correlate)
    if noise is not None:
        row["repeat"] = float(noise.mean())
        row["repeat_low"], row["repeat_high"] = np.quantile(noise, [0.025, 0.975]).tolist()
    for key, other, extra in (("difference", "repeat", noise), ("over_expected", "identity_expected", None)):
        row |= _difference(key, row, other, drawn, count, extra)
    return {**row, "note": _note(constant, count)}


def _note(constant: Sequence[str], clusters: int) -> str:
    """What to know before a row of Table 2 is used."""
    notes = []
    if constant:
        notes.append(f"degenerate: {', '.join(constant)} (or the ratings) do not vary")
    if clusters < intervals.FEW:
        notes.append(f"too few clusters ({clusters} < {intervals.FEW})")
    return "; ".join(notes)


def _over_draws(
    again: repeats.Repeat, keep: Any, y: FloatArray, correlate: Callable[..., FloatArray]
) -> FloatArray | None:
    """(D,) correlations of each simulated mean of n answers, or None where repeats are equal."""
    if again.draws is None or not keep.any():
        return None
    one = np.ones((1, len(y)))
    made = np.array([correlate(x, y, one)[0] for x in again.draws[:, keep]])
    made = made[np.isfinite(made)]
    return made if len(made) else None


def _difference(
    key: str,
    row: Mapping[str, Any],
    other: str,
    drawn: Mapping[str, FloatArray],
    clusters: int,
    noise: FloatArray | None,
) -> dict[str, Any]:
    """Permutation minus another column, with a 95 % interval: paired over clusters, and over the draws of repeats."""
    value = row["permutation"] - row[other]
    low = high = np.nan
    if "permutation" in drawn and other in drawn:
        apart = drawn["permutation"] - drawn[other]
        apart = apart[np.isfinite(apart)]
        variance = apart.var(ddof=1) + (0 if noise is None else noise.var(ddof=1))
        half = float(np.sqrt(variance) * stats.t.ppf(0.975, clusters - 1))
        low, high = value - half, value + half
    begin = "" if key == "difference" else f"{key}_"
    return {key: value, f"{begin}low": low, f"{begin}high": high}


def _partner(run: Run, sampled: Sequence[SampledRun]) -> SampledRun | None:
    """The sampled run of the same judge and dataset."""
    found = [other for other in sampled if pools.about(other)[:2] == pools.about(run)[:2]]
    if len(found) > 1:
        raise InputError(f"there are {len(found)} sampled runs of {pools.about(run).model}. Give one.")
    return found[0] if found else None


def _mean(value: FloatArray, weight: FloatArray) -> FloatArray:
    """(B, 1) weighted mean of a value (I,)."""
    mean: FloatArray = weight @ value[:, None] / weight.sum(axis=1, keepdims=True)
    return mean
