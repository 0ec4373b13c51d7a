#!/usr/bin/env python3
"""Do our own measures do what they say? Planted judges of known bias, many times over: coverage, false positives, power, recovery.

python scripts/validate_measures.py [--draws 2000] [--write README.md]

A data set is C clusters of items with K scores under the balanced design: logits = item quality + bias by position
(+ interaction by score and position) + noise by reading, and with probability `first` the judge takes what stands first. The
truth is that of 40,000 items. Each figure has the standard error of its own Monte Carlo. Exit code 1 where a figure's 99.9 % band misses
the target range of the design; figures without a target are for reading.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

import logitjudge as lj
from logitjudge import registry
from logitjudge.core import BoolArray, FloatArray, IntArray
from logitjudge.measures import tests, uncertainty
from logitjudge.measures.matrices import Estimator
from logitjudge.orderings import parse

BEGIN, END = "<!-- validation:begin -->", "<!-- validation:end -->"
TRUTH = 40_000  # items
RESAMPLES = 400
BIAS = (0.8, 0.0, 0.0, 0.0, 0.3)
SETS = 10  # data sets of 200 items for each figure of recovery
FIGURES = ("one position", "all positions", "one cell", "all cells", "cost", "Pearson r", "rejected")


@dataclass(frozen=True, slots=True)
class Setting:
    """A planted judge and a number of clusters.

    Parameters
    ----------
    clusters, levels
        C and K.
    bias, interaction, first, noise
        Factor of `BIAS`; standard deviation by score and position; probability of taking the first; standard deviation by reading.
    top
        Ratings lie near the top: the lower scores are hardly ever used.
    several
        Clusters have 1, 2, 3 ... items (geometric, 2.5 on average) that share a liking for positions (standard deviation 0.3).
    estimator
        Of the intervals and the test.
    """

    clusters: int
    levels: int = 5
    bias: float = 0.0
    interaction: float = 0.0
    first: float = 0.0
    noise: float = 0.5
    top: bool = False
    several: bool = False
    estimator: Estimator = "soft"

    def name(self) -> str:
        """As the table has it."""
        effects = [
            f"{name} {value:g}"
            for name, value in (("bias", self.bias), ("interaction", self.interaction), ("first", self.first))
            if value
        ]
        more = [
            text
            for text, holds in (
                (f"order noise {self.noise:g}", self.noise != 0.5),
                ("ratings near the top", self.top),
                ("clusters of 1, 2, 3 ... items", self.several),
                ("hard", self.estimator == "hard"),
            )
            if holds
        ]
        return f"K = {self.levels}, C = {self.clusters}, {', '.join([*(effects or ['unbiased']), *more])}"

    @property
    def unbiased(self) -> bool:
        """Whether a rejection is a false one."""
        return not (self.bias or self.interaction or self.first)

    def data(self, clusters: int, rng: np.random.Generator) -> Data:
        """Readings of so many clusters."""
        orderings = parse("balanced", tuple(range(1, self.levels + 1)))
        place = np.array([ordering.position_of for ordering in orderings])  # (O, K)
        size = rng.geometric(0.4, clusters) if self.several else np.ones(clusters, dtype=np.int64)
        cluster = np.repeat(np.arange(clusters), size)
        quality = self._quality(len(cluster), rng)
        bias = self.bias * np.interp(np.linspace(0, 4, self.levels), range(5), BIAS)
        table = self.interaction * np.random.default_rng(7).normal(0, 1, (self.levels, self.levels))
        moved = bias[place] + table[np.arange(self.levels), place]
        liking = rng.normal(0, 0.3, (clusters, self.levels))[cluster][:, place] if self.several else 0.0
        noise = rng.normal(0, self.noise, (len(cluster), len(orderings), self.levels))
        probs = softmax(quality[:, None] + moved + liking + noise)
        return Data((1 - self.first) * probs + self.first * (place == 0), softmax(quality), cluster)

    def _quality(self, items: int, rng: np.random.Generator) -> FloatArray:
        """(I, K) logits without any effect of order."""
        if self.top:
            rating, width, spread = 1 + (self.levels - 1) * rng.beta(4, 1, (items, 1)), 1.0, 0.8
        else:
            rating, width, spread = rng.uniform(1, self.levels, (items, 1)), 2.0, 0.5
        logits: FloatArray = -((np.arange(1, self.levels + 1) - rating) ** 2) / width
        return logits + rng.normal(0, spread, (items, self.levels))


@dataclass(frozen=True, slots=True)
class Data:
    """(I, O, K) probabilities, (I, K) those without any effect of order, and the (I,) cluster of each item."""

    probs: FloatArray
    clean: FloatArray
    cluster: IntArray

    def run(self, human: FloatArray | None = None) -> lj.Run:
        """A run of these readings."""
        scores = tuple(range(1, self.probs.shape[-1] + 1))
        items = tuple(
            lj.Item(f"i{n:05}", {}, human=None if human is None else (human[n],), cluster=f"c{c:05}")
            for n, c in enumerate(self.cluster)
        )
        with np.errstate(divide="ignore"):
            logp = np.maximum(np.log(self.probs), -700)
        return lj.Run(logp, np.zeros(logp.shape), items, parse("balanced", scores), np.array(scores))


GRID = (
    *(Setting(clusters) for clusters in (20, 40, 96)),
    *(Setting(clusters, bias=1.0) for clusters in (20, 40, 96)),
    Setting(40, bias=0.1),
    Setting(40, levels=3),
    Setting(40, levels=3, bias=1.0),
    Setting(40, levels=7, bias=1.0),
    Setting(40, noise=1.5),
    Setting(96, bias=1.0, interaction=0.5),
    Setting(96, first=0.3),
    Setting(40, bias=1.0, top=True),
    Setting(96, bias=1.0, top=True),
    Setting(40, several=True),
    Setting(96, estimator="hard"),
    Setting(96, bias=1.0, estimator="hard"),
    Setting(96, bias=1.0, top=True, estimator="hard"),
)
TARGETS = {  # figure -> (least C, lowest, highest), the last that fits
    "one position": [(20, 0.93, 0.97)],
    "one cell": [(40, 0.90, 1.0), (96, 0.92, 1.0)],
    "all cells": [(96, 0.88, 1.0)],
    "cost": [(96, 0.93, 1.0)],
    "Pearson r": [(20, 0.93, 0.97)],
    "false positives": [(20, 0.03, 0.07)],
}
SOFT_ONLY = ("one cell",)  # as the design has it


def softmax(logits: FloatArray) -> FloatArray:
    """Over the last axis."""
    weight = np.exp(logits - logits.max(axis=-1, keepdims=True))
    made: FloatArray = weight / weight.sum(axis=-1, keepdims=True)
    return made


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """What a setting's intervals should hold."""

    shares: FloatArray
    matrix: FloatArray
    cost: float
    r: float


def truth_of(setting: Setting, seed: int) -> Truth:
    """Shares, cells, cost of 1,2,...,K and correlation of the mean score with noisy ratings, of many items."""
    rng = np.random.default_rng(10_000 + seed)
    data = setting.data(TRUTH, rng)
    run = data.run()
    matrix = lj.score_position_matrix(run, setting.estimator)
    r = float(np.corrcoef(lj.debias(run).score, _ratings(data, rng))[0, 1])
    return Truth(matrix.position_distribution(), matrix.values, float(cost_of(matrix.values)), r)


def cost_of(matrix: FloatArray) -> float:
    """Bias Cost of the identity ordering."""
    return float(np.abs(np.diag(matrix) - 1 / len(matrix)).sum())


def _ratings(data: Data, rng: np.random.Generator) -> FloatArray:
    """(I,) what people would say of the items: their scores without any effect of order, and noise."""
    ratings: FloatArray = data.clean @ np.arange(1, data.clean.shape[1] + 1) + rng.normal(0, 0.8, len(data.clean))
    return ratings


def validate(setting: Setting, draws: int, seed: int) -> dict[str, FloatArray]:
    """Figure -> (draws,) a rate of each draw, 0 or 1 where it is one thing; NaN where there was no interval."""
    truth = truth_of(setting, seed)
    found = np.empty((draws, len(FIGURES)))
    for draw in range(draws):
        rng = np.random.default_rng([seed, draw])
        data = setting.data(setting.clusters, rng)
        run = data.run(_ratings(data, rng))
        found[draw] = [*_covered(run, setting, truth, draw), _correlation(run, truth), _rejected(run, setting)]
    return dict(zip(FIGURES, found.T, strict=True))


def _covered(run: lj.Run, setting: Setting, truth: Truth, seed: int) -> list[float]:
    """One position, all positions, one cell, all cells, cost."""
    made = uncertainty.resampled(run, setting.estimator, draws=RESAMPLES, seed=seed)
    positions, cells = uncertainty.position_intervals(made), uncertainty.matrix_intervals(made)
    cost = uncertainty.cost_intervals(made, run.orderings[:1])
    one = stats.t.ppf(0.975, made.worth - 1) * np.sqrt(made.widening) * made.distributions().std(axis=0, ddof=1)
    return [
        float((np.abs(positions.value - truth.shares) <= one).mean()),
        float(_holds(positions, truth.shares).all()),
        _one_cell(made, cells, truth),
        float((_holds(cells, truth.matrix) | ~_there(cells)).all()),
        float(cost.low[0] <= truth.cost <= cost.high[0]) if np.isfinite(cost.low[0]) else np.nan,
    ]


def _holds(found: uncertainty.Simultaneous, truth: FloatArray) -> BoolArray:
    """Which intervals hold the truth."""
    held: BoolArray = (found.low <= truth) & (truth <= found.high)
    return held


def _there(found: uncertainty.Simultaneous) -> BoolArray:
    """Which numbers have an interval; one of zero width is flagged, and says nothing."""
    there: BoolArray = found.high > found.low
    return there


def _one_cell(made: uncertainty.Resampled, cells: uncertainty.Simultaneous, truth: Truth) -> float:
    """Share of cells that hold the truth in intervals of their own, not simultaneous ones."""
    there = _there(cells)
    if not there.any():
        return np.nan
    error = np.nanstd(made.matrices()[:, there], axis=0, ddof=1)
    effective = np.broadcast_to(made.effective[:, None], there.shape)[there]
    return float((np.abs(cells.value - truth.matrix)[there] <= error * stats.t.ppf(0.975, effective - 1)).mean())


def _correlation(run: lj.Run, truth: Truth) -> float:
    row = lj.agreement(run, draws=RESAMPLES)["pearson"]
    assert row.low is not None
    assert row.high is not None
    return float(row.low <= truth.r <= row.high)


def _rejected(run: lj.Run, setting: Setting) -> float:
    test = tests.position_test(uncertainty.resampled(run, setting.estimator, draws=2))
    assert test.p is not None
    return float(test.p < 0.05)


def recovery(setting: Setting, seed: int) -> dict[str, float]:
    """Debiaser -> root mean square distance of its score from the judge's without any effect of order, in points."""
    data = setting.data(setting.clusters, np.random.default_rng(seed))
    run, truth = data.run(), data.clean @ np.arange(1, setting.levels + 1)
    found = {name: lj.debias(run, name).score - truth for name in registry.names("debiasers")}
    return {name: float(np.sqrt((apart**2).mean())) for name, apart in found.items()}


def table(draws: int, grid: Sequence[Setting] = GRID) -> tuple[str, list[str]]:
    """Markdown, and what misses its target."""
    rows, wrong = [], []
    for n, setting in enumerate(grid):
        found = validate(setting, draws, n)
        rows.append(f"| {setting.name()} | {' | '.join(_figure(found[name]) for name in FIGURES)} |")
        wrong += [line for name in FIGURES for line in missed(setting, name, found[name])]
        print(rows[-1], file=sys.stderr, flush=True)
    head = f"| planted judge | {' | '.join(FIGURES)} |\n|{'---|' * (len(FIGURES) + 1)}\n"
    return head + "\n".join(rows) + "\n\n" + _recoveries(), wrong


def _figure(values: FloatArray) -> str:
    """Mean and standard error in %, and in how many of the draws there was an interval where not in all."""
    there = values[np.isfinite(values)]
    if not len(there):
        return "-"
    some = f", in {100 * len(there) / len(values):.0f} %" if len(there) < len(values) else ""
    return f"{100 * there.mean():.1f} ({100 * there.std() / np.sqrt(len(there)):.1f}){some}"


def band(values: FloatArray) -> tuple[float, float]:
    """99.9 % Monte Carlo band of a mean of rates: exact binomial where each is 0 or 1, else from their spread."""
    count, rate = len(values), float(values.mean())
    if not np.isin(values, (0.0, 1.0)).all():
        half = float(stats.norm.ppf(0.9995) * values.std() / np.sqrt(count))
        return rate - half, rate + half
    hits = values.sum()
    low = 0.0 if hits == 0 else float(stats.beta.ppf(0.0005, hits, count - hits + 1))
    return low, 1.0 if hits == count else float(stats.beta.ppf(0.9995, hits + 1, count - hits))


def missed(setting: Setting, name: str, values: FloatArray) -> list[str]:
    """A line where the figure's own 99.9 % band misses its target."""
    values = values[np.isfinite(values)]
    name = "false positives" if name == "rejected" and setting.unbiased else name
    fits = [(low, high) for least, low, high in TARGETS.get(name, []) if setting.clusters >= least]
    if not fits or not len(values) or (name in SOFT_ONLY and setting.estimator == "hard"):
        return []
    (bottom, top), (low, high) = band(values), fits[-1]
    if top >= low and bottom <= high:
        return []
    said = f"{name} {values.mean():.3f} ({bottom:.3f} to {top:.3f})"
    return [f"{setting.name()}: {said}, the target is {low:g} to {high:g}"]


def _recoveries() -> str:
    """Markdown: how far each debiaser is from the truth, over data sets of 200 items."""
    settings = {
        "additive": Setting(200, bias=1.0, noise=0.0),
        "order noise": Setting(200, bias=1.0, noise=0.5),
        "interaction": Setting(200, bias=1.0, interaction=0.5, noise=0.0),
        "takes the first": Setting(200, first=0.3, noise=0.0),
    }
    found = {kind: [recovery(setting, seed) for seed in range(SETS)] for kind, setting in settings.items()}
    rows = [
        f"| `{name}` | {' | '.join(_distance([made[name] for made in found[kind]]) for kind in found)} |"
        for name in found["additive"][0]
    ]
    return (
        f"| debiaser: distance from the truth, points | {' | '.join(found)} |\n|{'---|' * (len(found) + 1)}\n"
        + "\n".join(rows)
    )


def _distance(values: Sequence[float]) -> str:
    """Mean over data sets and its standard error; rounding errors as what they are."""
    mean, error = float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))
    return f"{mean:.1g}" if mean < 1e-9 else f"{mean:.3f} ({error:.3f})"


def main() -> int:
    """Validate, print, write, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--write", type=Path, metavar="README.md", help="replace the table between its markers")
    args = parser.parse_args()
    text, wrong = table(args.draws)
    print(text)
    if args.write:
        before, _, rest = args.write.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        args.write.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")
    for line in wrong:
        print(f"missed: {line}", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
