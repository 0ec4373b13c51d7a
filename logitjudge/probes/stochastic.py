"""Repeated draws at a temperature against the ordering: does temperature 0, or averaging, remove the order effect?

Nothing is sampled: a reading is the distribution of a draw, q proportional to p^(1/T) over the options. The variance of a mean of n draws
under an ordering taken at random is, exactly, ``between + within / n`` (law of total variance): within is the mean over orderings of the
variance of one draw, between the variance over orderings of the expected score. More draws only make the first part smaller, and
temperature 0 only sets it to 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from logitjudge.core import FloatArray, Item
from logitjudge.errors import InputError, NotObserved
from logitjudge.measures import intervals
from logitjudge.measures.estimates import shares
from logitjudge.measures.matrices import winners
from logitjudge.measures.ratios import logs, softmax
from logitjudge.measures.repeats import require_direct
from logitjudge.probes import POINTS, RESPONSE, SHARE, Effect, Generate, ProbeResult, Variant, measured, noise
from logitjudge.run import Run

FLIPS = "items whose most probable score differs between orderings (temperature 0)"
NOTES = (
    "Draws are from the options alone, as if the judge always answered with one of them; nothing was sampled.",
    "Standard deviations are never below 0, so reading noise counts, too: compare them with the noise floor.",
)


@dataclass(frozen=True, slots=True)
class Stochastic:
    """The items under all orderings: what repeated draws vary, and what the ordering does.

    Parameters
    ----------
    temperature
        Of the draws, above 0.
    draws
        Draws that are averaged.
    """

    NEEDS: ClassVar = RESPONSE
    temperature: float = 1.0
    draws: int = 10

    def __post_init__(self) -> None:
        if not 0 < self.temperature < np.inf or self.draws < 1:
            raise InputError(f"temperature {self.temperature}, draws {self.draws}: give one above 0, and at least 1.")

    def variants(self, items: Sequence[Item], generate: Generate | None = None) -> Mapping[str, Variant]:
        """The items as they are."""
        return {"items": Variant(tuple(items))}

    def effect(self, runs: Mapping[str, Run]) -> ProbeResult:
        """Items that change at temperature 0; standard deviations within and between orderings; shares of variance."""
        run = runs["items"]
        require_direct(run)
        if len(run.orderings) < 2:
            raise NotObserved("the items were read under one ordering. Give several: --orderings balanced.")
        within, between = variances(run, self.temperature)
        _, cold = variances(run, 0.0)
        at = f"at temperature {self.temperature:g}"
        made = (
            _share(FLIPS, differs(run), np.ones(len(run.items)), run, main=True),
            _deviation(f"between orderings of the expected score, {at}", between, run, main=True),
            _deviation("between orderings of the most probable score (temperature 0)", cold, run),
            _deviation(f"of a draw within an ordering, {at}", within, run),
            _share(f"variance that is the ordering's, one draw {at}", between, between + within, run),
            _share(
                f"variance that is the ordering's, mean of {self.draws} draws {at}",
                between,
                between + within / self.draws,
                run,
            ),
        )
        return ProbeResult(made, NOTES)


def variances(run: Run, temperature: float) -> tuple[FloatArray, FloatArray]:
    """(I,) variance in points^2 of one draw within an ordering (mean over orderings), and of the expected score between orderings.

    At temperature 0 a draw is the most probable score; where n scores tie, each with probability 1/n.
    """
    q = winners(run.probs()) if temperature == 0 else softmax(logs(run) / temperature)  # (I, O, K)
    scores = run.scores.astype(np.float64)
    mean: FloatArray = q @ scores  # (I, O)
    within = (q * (scores - mean[..., None]) ** 2).sum(axis=-1)  # (I, O)
    return np.asarray(within.mean(axis=1)), np.asarray(mean.var(axis=1))


def differs(run: Run) -> FloatArray:
    """(I,) 1 where no score is the most probable one, alone or in a tie, under every ordering; else 0."""
    best = winners(run.probs()) > 0  # (I, O, K)
    steady = best.all(axis=1).any(axis=-1)
    return np.asarray(~steady, dtype=np.float64)


def _share(name: str, above: FloatArray, below: FloatArray, run: Run, *, main: bool = False) -> Effect:
    clusters = intervals.number([item.cluster for item in run.items])
    return Effect(name, SHARE, shares({name: (above, below)}, clusters)[name], main=main, signed=False)


def _deviation(what: str, variance: FloatArray, run: Run, *, main: bool = False) -> Effect:
    floor = noise(run, POINTS) if main else None
    made = measured(f"standard deviation {what}", POINTS, np.sqrt(variance), run.items, noise=floor, main=main)
    return replace(made, signed=False)


probe = Stochastic
