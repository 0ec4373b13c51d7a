"""The claims of the paper's text, each counted over models, with the exact probability that chance does as well.

A claim is one yes or no a model. With few models even a unanimous count proves little, so beside every p stands the least p
that so many models can reach ("attainable").

References
----------
arXiv:2602.02219, sections 5.1 (position), 5.2 (permutation) and 5.3 (ordering).
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from logitjudge.core import FloatArray
from logitjudge.errors import InputError
from logitjudge.measures import paper, permutation, pools
from logitjudge.measures.matrices import Estimator, score_position_matrix
from logitjudge.run import Run

if TYPE_CHECKING:
    import pandas as pd

SHUFFLED = 8  # models of which all n! orders are listed


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim, counted.

    Parameters
    ----------
    name
        Of the function.
    text
        What is claimed, of one model.
    holds
        Model (or family) to whether it holds; a model of which that cannot be said is not there.
    chance
        Probability that it holds by chance, of each of them.
    p
        Probability that chance gives at least as many; None without any.
    attainable
        The same were it true of all of them.
    note
        What it rests on.
    """

    name: str
    text: str
    holds: Mapping[str, bool]
    chance: tuple[float, ...]
    p: float | None
    attainable: float | None
    note: str = ""

    @property
    def count(self) -> int:
        """Of how many models it holds."""
        return sum(self.holds.values())


def claim(name: str, text: str, holds: Mapping[str, bool], chance: Sequence[float], note: str = "") -> Claim:
    """A claim with its exact p: binomial, where every model has the same chance.

    Examples
    --------
    >>> claim("c", "", {"a": True, "b": True, "c": False}, [0.5] * 3).p
    0.5
    """
    if not holds:
        return Claim(name, text, {}, (), None, None, note or "no model of which it can be said")
    sure = {key: bool(value) for key, value in holds.items()}
    tail = _at_least(chance)
    return Claim(name, text, sure, tuple(chance), float(tail[sum(sure.values())]), float(tail[-1]), note)


def _at_least(chance: Sequence[float]) -> FloatArray:
    """(n + 1,) probability of at least 0 .. n successes of independent trials."""
    exactly = np.ones(1)
    for p in chance:
        exactly = np.convolve(exactly, [1 - p, p])
    tail: FloatArray = np.minimum(np.cumsum(exactly[::-1])[::-1], 1.0)
    return tail


def first_position_preferred(runs: Sequence[Run], estimator: Estimator = "hard") -> Claim:
    """Version 1 of the paper: all models prefer the first position (its share is above 1/K, over all datasets)."""
    share = _pooled(runs, estimator)
    holds = {model: row[0] > 1 / len(row) for model, row in share.items()}
    return claim("first_position_preferred", "position 1 is picked more often than 1/K", holds, [0.5] * len(holds))


def direction_is_the_models(runs: Sequence[Run], estimator: Estimator = "hard") -> Claim:
    """Version 2 of the paper: each model prefers or avoids the first position, the same way on all of its datasets."""
    by = {model: [row[0] - 1 / len(row) for row in rows] for model, rows in _by_model(runs, estimator).items()}
    by = {model: signs for model, signs in by.items() if len(signs) > 1}
    holds = {model: len(set(np.sign(signs))) == 1 for model, signs in by.items()}
    chance = [2.0 ** (1 - len(signs)) for signs in by.values()]
    text = "position 1 is on the same side of 1/K on all datasets"
    return claim("direction_is_the_models", text, holds, chance, "models with two or more datasets")


def ends_and_second(runs: Sequence[Run], estimator: Estimator = "hard") -> Claim:
    """For almost all scores the likeliest position is the first, the second or the last (Table 5)."""
    holds, chance = {}, []
    for found in pools.pool(_ten(runs), "items"):
        values = found.matrix(estimator).values
        there = values[np.isfinite(values).all(axis=1)]
        if not len(there):
            continue
        levels = values.shape[1]
        hits = int(np.isin(there.argmax(axis=1), [0, 1, levels - 1]).sum())
        holds[found.model] = hits > len(there) / 2
        chance.append(float(stats.binom.sf(len(there) // 2, len(there), min(3, levels) / levels)))
    text = "most scores are likeliest at position 1, 2 or K"
    return claim("ends_and_second", text, holds, chance, "chance: each score is likeliest anywhere, alike and apart")


def primacy_and_recency(runs: Sequence[Run], estimator: Estimator = "hard") -> tuple[Claim, Claim, Claim]:
    """The ends are picked more often than the middle: first and last together, first alone, last alone."""
    share = _pooled(runs, estimator)
    share = {model: row for model, row in share.items() if len(row) > 2}
    made = []
    for name, text, first, last in (
        ("primacy_and_recency", "the mean of first and last", 0.5, 0.5),
        ("primacy", "the first", 1.0, 0.0),
        ("recency", "the last", 0.0, 1.0),
    ):
        contrast = {m: float(first * row[0] + last * row[-1] - row[1:-1].mean()) for m, row in share.items()}
        holds = {model: value > 0 for model, value in contrast.items()}
        note = "; ".join(f"{model}: {100 * value:+.1f} points" for model, value in contrast.items())
        made.append(claim(name, f"{text} is picked more often than the middle", holds, [0.5] * len(holds), note))
    return made[0], made[1], made[2]


def same_on_all_datasets(runs: Sequence[Run], estimator: Estimator = "hard") -> Claim:
    """The pattern is the model's: the same position is the most picked one on all of its datasets."""
    by = {model: rows for model, rows in _by_model(runs, estimator).items() if len(rows) > 1}
    holds = {model: len({int(np.argmax(row)) for row in rows}) == 1 for model, rows in by.items()}
    chance = [float(len(rows[0])) ** (1 - len(rows)) for rows in by.values()]
    within = [np.abs(a - b).sum() / 2 for rows in by.values() for a, b in itertools.combinations(rows, 2)]
    between = [
        np.abs(a - b).sum() / 2
        for x, y in itertools.combinations(by.values(), 2)
        for a, b in itertools.product(x, y)
        if len(a) == len(b)
    ]
    note = "" if not (within and between) else _distances(within, between)
    text = "the most picked position is the same on all datasets"
    return claim("same_on_all_datasets", text, holds, chance, note)


def _distances(within: Sequence[float], between: Sequence[float]) -> str:
    return (
        f"total variation between datasets of one model {np.mean(within):.3f} on average, between models "
        f"{np.mean(between):.3f}"
    )


def smaller_models_worse(
    runs: Sequence[Run], estimator: Estimator = "hard", *, sizes: Mapping[str, float] | None = None
) -> Claim:
    """Within a family the smallest model has a stronger position bias than the largest: one comparison a family.

    Parameters
    ----------
    runs
        Of any models.
    sizes
        Model name to size; by default the number before B (or M) in its name, and the family is the name before it.
    """
    bias = {model: float(np.abs(row - 1 / len(row)).sum()) for model, row in _pooled(runs, estimator).items()}
    families: dict[str, list[tuple[float, str]]] = {}
    for model in bias:
        family, size = _family(model, sizes)
        if size is not None:
            families.setdefault(family, []).append((size, model))
    ends = {name: (min(found)[1], max(found)[1]) for name, found in families.items() if len({s for s, _ in found}) > 1}
    holds = {f"{small} / {large}": bias[small] > bias[large] for small, large in ends.values()}
    text = "the smallest model of a family is more biased than the largest"
    note = "" if holds else "no family with two sizes; give sizes={model: size}"
    return claim("smaller_models_worse", text, holds, [0.5] * len(holds), note)


def _family(model: str, sizes: Mapping[str, float] | None) -> tuple[str, float | None]:
    found = re.search(r"(\d+(?:\.\d+)?)\s*([bBmM])(?![A-Za-z])", model)
    family = (model[: found.start()] if found else re.sub(r"[\d.]+", "", model)).strip("-_ .").lower()
    if sizes is not None:
        return family, sizes.get(model)
    return family, float(found[1]) * (1 if found[2] in "bB" else 1e-3) if found else None


def cheapest_in_the_better_half(runs: Sequence[Run], estimator: Estimator = "hard") -> Claim:
    """The ordering of least Bias Cost among the ten is in the better half by correlation (Table 6)."""
    table = paper.table_6(runs, draws=2)
    levels = {2 * len(run.scores) for run in runs} | {2}
    few = table[(table["estimator"] == estimator) & table["among"].isin(levels) & table["better_half"].notna()]
    few = few.drop_duplicates(["model", "protocol"])
    holds = {row["model"]: bool(row["better_half"]) for row in few.to_dict("records")}
    return claim(
        "cheapest_in_the_better_half", "the cheapest of the ten is in the better half", holds, [0.5] * len(holds)
    )


def permutation_helps(runs: Sequence[Run], **options: Any) -> Claim:
    """Permutation correlates better with people than repeat (Table 2, Pearson, mean over datasets)."""
    gain = _gains(runs, **options)
    return claim(
        "permutation_helps", "permutation is better than repeat", {m: g > 0 for m, g in gain.items()}, [0.5] * len(gain)
    )


def permutation_helps_the_more_biased(runs: Sequence[Run], estimator: Estimator = "hard", **options: Any) -> Claim:
    """The stronger a model's position bias, the more permutation gains over repeat: Kendall's tau over models, exact."""
    gain, bias = _gains(runs, **options), _severities(runs, estimator)
    text = "the more biased of two models gains more from permutation"
    return _concordant("permutation_helps_the_more_biased", text, bias, gain)


def less_bias_is_not_better_agreement(runs: Sequence[Run], estimator: Estimator = "hard", **options: Any) -> Claim:
    """The least biased model is not the one that agrees best: a count of one, and Kendall's tau over models, exact."""
    table, bias = _table_2(runs, **options), _severities(runs, estimator)
    agree = _means(table, "permutation")
    both = [model for model in bias if model in agree]
    if len(both) < 2:
        return claim("less_bias_is_not_better_agreement", "", {}, [], "fewer than two rated models")
    least, best = min(both, key=lambda m: bias[m]), max(both, key=lambda m: agree[m])
    tau = _concordant("", "", {m: -bias[m] for m in both}, agree)
    text = f"the least biased model ({least}) is not the one that agrees best ({best})"
    note = f"{tau.note}; the p of the count is that of any two different models, and no evidence by itself"
    return claim("less_bias_is_not_better_agreement", text, {least: least != best}, [1 - 1 / len(both)], note)


def _concordant(name: str, text: str, x: Mapping[str, float], y: Mapping[str, float]) -> Claim:
    """Pairs of models in the same order in x and in y; p by all n! orders of y (an exact permutation test)."""
    models = [model for model in x if model in y]
    pairs = list(itertools.combinations(models, 2))
    holds = {f"{a} / {b}": (x[a] - x[b]) * (y[a] - y[b]) > 0 for a, b in pairs}
    if not pairs:
        return claim(name, text, {}, [], "fewer than two models")
    a, b = np.array([x[m] for m in models]), np.array([y[m] for m in models])
    tau, p, attainable = _kendall(a, b)
    note = f"Kendall tau {tau:+.2f} over {len(models)} models; pairs of models are not independent, so p is tau's"
    return Claim(name, text, holds, (0.5,) * len(pairs), p, attainable, note)


def _kendall(a: FloatArray, b: FloatArray) -> tuple[float, float, float]:
    """Tau, its one-sided p, and the least p that there is; exact, over all orders, up to `SHUFFLED` models."""
    if len(a) > SHUFFLED:
        found = stats.kendalltau(a, b, alternative="greater")
        return float(found.statistic), float(found.pvalue), 1 / math.factorial(len(a))
    upper = np.triu_indices(len(a), 1)
    signs = np.sign(a[:, None] - a)[upper]
    orders = b[np.array(list(itertools.permutations(range(len(b)))))]  # (n!, n), the given one first
    concordance = (np.sign(orders[:, :, None] - orders[:, None, :])[:, *upper] * signs).sum(axis=1)
    p = float((concordance >= concordance[0]).mean())
    return float(concordance[0] / len(signs)), p, float((concordance >= concordance.max()).mean())


def claims(
    runs: Sequence[Run], estimator: Estimator = "hard", *, sizes: Mapping[str, float] | None = None
) -> tuple[Claim, ...]:
    """All claims over a set of runs of one protocol, each with the ten balanced orderings.

    Raises
    ------
    InputError
        Runs of different protocols: their figures are not to be compared.
    """
    if len(found := sorted({pools.about(run).protocol for run in runs})) > 1:
        raise InputError(f"the runs have the protocols {', '.join(found)}. Give runs of one protocol.")
    rated = [run for run in runs if np.isfinite(run.ratings).any()]
    made = [
        first_position_preferred(runs, estimator),
        direction_is_the_models(runs, estimator),
        ends_and_second(runs, estimator),
        *primacy_and_recency(runs, estimator),
        same_on_all_datasets(runs, estimator),
        smaller_models_worse(runs, estimator, sizes=sizes),
    ]
    if rated:
        made += [
            cheapest_in_the_better_half(rated, estimator),
            permutation_helps(rated),
            permutation_helps_the_more_biased(rated, estimator),
            less_bias_is_not_better_agreement(rated, estimator),
        ]
    return tuple(made)


def to_frame(found: Sequence[Claim]) -> pd.DataFrame:
    """Frame, one row a claim: claim, text, holds (how many), of, p (exact), attainable, note."""
    import pandas as pd

    columns = ("claim", "text", "holds", "of", "p", "attainable", "note")
    rows = [(c.name, c.text, c.count, len(c.holds), c.p, c.attainable, c.note) for c in found]
    return pd.DataFrame(rows, columns=list(columns))


def _ten(runs: Sequence[Run]) -> list[Run]:
    return [pools.ten(run) for run in runs]


def _pooled(runs: Sequence[Run], estimator: Estimator) -> dict[str, FloatArray]:
    """Model to position distribution over all its datasets, each dataset alike."""
    return {found.model: found.position_distribution(estimator) for found in pools.pool(_ten(runs), "datasets")}


def _by_model(runs: Sequence[Run], estimator: Estimator) -> dict[str, list[FloatArray]]:
    """Model to the position distributions of its datasets."""
    made = {}
    for found in pools.pool(_ten(runs), "datasets"):
        made[found.model] = [score_position_matrix(run, estimator).position_distribution() for run in found.runs]
    return made


def _severities(runs: Sequence[Run], estimator: Estimator) -> dict[str, float]:
    return {model: float(np.abs(row - 1 / len(row)).sum()) for model, row in _pooled(runs, estimator).items()}


def _table_2(runs: Sequence[Run], **options: Any) -> pd.DataFrame:
    table = permutation.table_2(runs, draws=2, **options)
    return table[table["measure"] == "pearson"]


def _gains(runs: Sequence[Run], **options: Any) -> dict[str, float]:
    """Model to permutation minus repeat, mean over its rated datasets."""
    return _means(_table_2(runs, **options), "difference")


def _means(table: pd.DataFrame, column: str) -> dict[str, float]:
    """Model to the mean of a column over its datasets."""
    means = table.groupby("model", sort=False)[column].mean().dropna()
    return {str(model): float(value) for model, value in means.items()}
