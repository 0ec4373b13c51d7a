"""What the rows of the paper's tables share: what each reading gives, who judged what, and intervals over clusters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from logitjudge.core import FloatArray, IntArray
from logitjudge.measures import intervals, pools
from logitjudge.measures.matrices import ESTIMATORS, Estimator, picks
from logitjudge.run import Run, SampledRun

if TYPE_CHECKING:
    import pandas as pd


def weights(run: Run) -> dict[Estimator, FloatArray]:
    """Estimator to (I, O, K) what each reading gives to each score."""
    hard: dict[Estimator, FloatArray] = {"hard": picks(run)}
    return hard if isinstance(run, SampledRun) else {"soft": run.probs(), **hard}


def there(runs: Sequence[Run]) -> tuple[Any, ...]:
    """Estimators that a set of runs gives: a sampled run has no probabilities, so no soft one."""
    return ("hard",) if isinstance(runs[0], SampledRun) else ESTIMATORS


def interval(
    statistic: Callable[[FloatArray], FloatArray], run: Run, draws: int, seed: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Low, high and value of a (B, N) statistic of item weights; NaN limits with one cluster."""
    [value] = statistic(np.ones((1, len(run.items))))
    clusters: IntArray = intervals.number([item.cluster for item in run.items])
    count = int(clusters.max()) + 1
    if count < 2:
        return np.full(len(value), np.nan), np.full(len(value), np.nan), value
    drawn = intervals.bootstrap(statistic, clusters, draws=draws, rng=np.random.default_rng(seed))
    half = drawn.std(axis=0, ddof=1) * stats.t.ppf(0.975, count - 1)
    return value - half, value + half, value


def who(run: Run) -> dict[str, Any]:
    """Columns that say whose row it is: model, dataset, protocol."""
    return pools.about(run)._asdict()


def size(run: Run) -> dict[str, int]:
    """Columns that say what a row rests on: items, clusters."""
    return {"items": len(run.items), "clusters": len({item.cluster for item in run.items})}


def frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Frame of rows."""
    import pandas as pd

    return pd.DataFrame(list(rows))
