#!/usr/bin/env python3
"""Do our own measures do what they say? Planted judges of known bias, many times over: coverage, false positives, power, recovery.

python scripts/validate_measures.py [--draws 2000] [--write README.md]

A data set is C items (each a cluster) of K scores under the balanced design: logits = item quality + bias by position
(+ interaction by score and position) + noise by reading, and with probability `first` the judge takes what stands first. The
truth is that of 40,000 items. Each figure has the standard error of its own Monte Carlo. Exit code 1 where a figure's 99.9 % band misses
the target range of the design; figures without a target are for reading.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

import logitjudge as lj
from logitjudge import registry
from logitjudge.core import FloatArray
from logitjudge.measures import tests, uncertainty
from logitjudge.orderings import parse

BEGIN, END = "<!-- validation:begin -->", "<!-- validation:end -->"
TRUTH = 40_000  # items
RESAMPLES = 400
BIAS = (0.8, 0.0, 0.0, 0.0, 0.3)
AGREEMENT_SHARE = 5  # of the draws, one in so many is used for the slow interval of a correlation


@dataclass(frozen=True, slots=True)
class Setting:
    """A planted judge and a number of items."""

    clusters: int
    levels: int = 5
    bias: float = 0.0
    interaction: float = 0.0
    first: float = 0.0
    noise: float = 0.5

    def name(self) -> str:
        """As the table has it."""
        parts = [
            f"{name} {value:g}"
            for name, value in (("bias", self.bias), ("interaction", self.interaction), ("first", self.first))
            if value
        ]
        return f"K = {self.levels}, C = {self.clusters}, {', '.join(parts) or 'unbiased'}"

    def data(self, items: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """(I, O, K) probabilities, and (I, K) those of the judge without any effect of order."""
        orderings = parse("balanced", tuple(range(1, self.levels + 1)))
        place = np.array([ordering.position_of for ordering in orderings])
        rating = rng.uniform(1, self.levels, (items, 1))
        quality = -((np.arange(1, self.levels + 1) - rating) ** 2) / 2 + rng.normal(0, 0.5, (items, self.levels))
        bias = self.bias * np.interp(np.linspace(0, 4, self.levels), range(5), BIAS)
        table = self.interaction * np.random.default_rng(7).normal(0, 1, (self.levels, self.levels))
        moved = bias[place] + table[np.arange(self.levels), place]
        noise = rng.normal(0, self.noise, (items, len(orderings), self.levels))
        probs = softmax(quality[:, None] + moved + noise)
        return (1 - self.first) * probs + self.first * (place == 0), softmax(quality)


GRID = (
    *(Setting(clusters) for clusters in (20, 40, 96)),
    *(Setting(clusters, bias=1.0) for clusters in (20, 40, 96)),
    Setting(40, levels=3, bias=1.0),
    Setting(96, bias=1.0, interaction=0.5),
    Setting(96, first=0.3),
    Setting(40, bias=0.1),
)
TARGETS = {  # figure -> (least C, range)
    "one position": (20, (0.93, 0.97)),
    "all positions": (96, (0.93, 1.0)),
    "one cell": (40, (0.90, 1.0)),
    "all cells": (96, (0.88, 1.0)),
    "cost": (96, (0.93, 1.0)),
    "Pearson r": (20, (0.93, 0.97)),
    "false positives": (20, (0.03, 0.07)),
}


def softmax(logits: FloatArray) -> FloatArray:
    """Over the last axis."""
    weight = np.exp(logits - logits.max(axis=-1, keepdims=True))
    made: FloatArray = weight / weight.sum(axis=-1, keepdims=True)
    return made


def run_of(probs: FloatArray, human: Sequence[float] | None = None) -> lj.Run:
    """A run of these probabilities; every item a cluster of its own."""
    scores = tuple(range(1, probs.shape[-1] + 1))
    ratings: Sequence[float | None] = human if human is not None else [None] * len(probs)
    items = tuple(lj.Item(f"i{n:05}", {}, human=None if r is None else (r,)) for n, r in enumerate(ratings))
    with np.errstate(divide="ignore"):
        logp = np.maximum(np.log(probs), -700)
    return lj.Run(logp, np.zeros(probs.shape), items, parse("balanced", scores), np.array(scores))


def validate(setting: Setting, draws: int, seed: int) -> dict[str, list[float]]:
    """Figure -> one value (0 or 1 where it is a rate) a draw."""
    truth = run_of(setting.data(TRUTH, np.random.default_rng(10_000 + seed))[0])
    shares, matrix = lj.position_distribution(truth), lj.score_position_matrix(truth).values
    cost = lj.bias_cost(lj.score_position_matrix(truth), ",".join(map(str, range(1, setting.levels + 1))))
    found: dict[str, list[float]] = {}
    for draw in range(draws):
        rng = np.random.default_rng([seed, draw])
        run = run_of(setting.data(setting.clusters, rng)[0])
        made = uncertainty.resampled(run, draws=RESAMPLES, seed=draw)
        for name, value in _covered(run, made, shares, matrix, cost):
            found.setdefault(name, []).append(value)
        if draw % AGREEMENT_SHARE == 0:
            found.setdefault("Pearson r", []).append(_correlation(setting, rng, seed))
    return found


def _covered(
    run: lj.Run, made: uncertainty.Resampled, shares: FloatArray, matrix: FloatArray, cost: float
) -> Iterator[tuple[str, float]]:
    positions, cells = uncertainty.position_intervals(made), uncertainty.matrix_intervals(made)
    factor = stats.t.ppf(0.975, made.clusters - 1)
    one = factor * made.distributions().std(axis=0, ddof=1)
    yield "one position", float((np.abs(positions.value - shares) <= one).mean())
    yield "all positions", float(((positions.low <= shares) & (shares <= positions.high)).all())
    alone = factor * made.matrices().std(axis=0, ddof=1)
    yield "one cell", float((np.abs(cells.value - matrix) <= alone).mean())
    yield "all cells", float(((cells.low <= matrix) & (matrix <= cells.high)).all())
    found = uncertainty.cost_intervals(made, run.orderings[:1])
    yield "cost", float(found.low[0] <= cost <= found.high[0])
    test = tests.position_test(made)
    assert test.p is not None
    yield "rejected", float(test.p < 0.05)


_POPULATION: dict[tuple[Setting, int], float] = {}


def _correlation(setting: Setting, rng: np.random.Generator, seed: int) -> float:
    """Whether the interval of Pearson's r with noisy ratings holds the r of the population."""
    if (setting, seed) not in _POPULATION:
        judged, ratings = _rated(setting, TRUTH, np.random.default_rng(20_000 + seed))
        _POPULATION[setting, seed] = float(np.corrcoef(lj.debias(run_of(judged)).score, ratings)[0, 1])
    judged, ratings = _rated(setting, setting.clusters, rng)
    row = lj.agreement(run_of(judged, ratings.tolist()), draws=RESAMPLES)["pearson"]
    assert row.low is not None
    assert row.high is not None
    return float(row.low <= _POPULATION[setting, seed] <= row.high)


def _rated(setting: Setting, items: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    probs, clean = setting.data(items, rng)
    return probs, clean @ np.arange(1, setting.levels + 1) + rng.normal(0, 0.8, items)


def recovery(setting: Setting, seed: int, items: int = 200) -> dict[str, float]:
    """Debiaser -> root mean square distance of its score from the judge's without any effect of order, in points; no noise."""
    quiet = Setting(items, setting.levels, setting.bias, setting.interaction, setting.first, noise=0.0)
    probs, clean = quiet.data(items, np.random.default_rng(seed))
    run, truth = run_of(probs), clean @ np.arange(1, setting.levels + 1)
    found = {name: lj.debias(run, name).score - truth for name in registry.names("debiasers")}
    return {name: float(np.sqrt((apart**2).mean())) for name, apart in found.items()}


def table(draws: int, grid: Sequence[Setting] = GRID) -> tuple[str, list[str]]:
    """Markdown, and what misses its target."""
    rows, wrong = [], []
    names = ["one position", "all positions", "one cell", "all cells", "cost", "Pearson r", "rejected"]
    for n, setting in enumerate(grid):
        found = validate(setting, draws, n)
        cells = []
        for name in names:
            rate, error = float(np.mean(found[name])), float(np.std(found[name]) / np.sqrt(len(found[name])))
            cells.append(f"{100 * rate:.1f} ({100 * error:.1f})")
            wrong += missed(setting, name, rate, len(found[name]))
        rows.append(f"| {setting.name()} | {' | '.join(cells)} |")
        print(rows[-1], file=sys.stderr, flush=True)
    head = f"| planted judge | {' | '.join(names)} |\n|{'---|' * (len(names) + 1)}\n"
    return head + "\n".join(rows) + "\n\n" + _recoveries(), wrong


def missed(setting: Setting, name: str, rate: float, draws: int) -> list[str]:
    """A line where the figure's own 99.9 % band (exact binomial; wider than needed for means over positions) misses its target."""
    name = "false positives" if name == "rejected" and not setting.bias + setting.interaction + setting.first else name
    least, (low, high) = TARGETS.get(name, (10**9, (0.0, 1.0)))
    hits = rate * draws
    band = stats.beta.ppf(0.0005, hits, draws - hits + 1), stats.beta.ppf(0.9995, hits + 1, draws - hits)
    bottom, top = (0.0 if hits == 0 else band[0]), (1.0 if hits == draws else band[1])
    if setting.clusters < least or (top >= low and bottom <= high):
        return []
    return [f"{setting.name()}: {name} {rate:.3f} ({bottom:.3f} to {top:.3f}), the target is {low:g} to {high:g}"]


def _recoveries() -> str:
    settings = {
        "additive": Setting(200, bias=1.0),
        "interaction": Setting(200, bias=1.0, interaction=0.5),
        "takes the first": Setting(200, first=0.3),
    }
    found = {name: recovery(setting, 0) for name, setting in settings.items()}
    rows = [f"| `{name}` | {' | '.join(f'{found[kind][name]:.2g}' for kind in found)} |" for name in found["additive"]]
    return (
        f"| debiaser: distance from the truth, points | {' | '.join(found)} |\n|{'---|' * (len(found) + 1)}\n"
        + "\n".join(rows)
    )


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
