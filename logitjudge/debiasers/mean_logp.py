"""The softmax of the mean, over orderings, of the log-probability of each score.

Under purely additive position bias, and a design that shows every score equally often at every position, it recovers
the unbiased judge exactly: each score's mean logit is its quality plus the same mean bias.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from logitjudge.core import FloatArray
from logitjudge.debiasers import DebiasedScores
from logitjudge.run import Run


@dataclass(frozen=True, slots=True)
class MeanLogp:
    """``dist[i]`` is the softmax over k of the mean over o of log q[i, o, k]: a geometric mean of probabilities."""

    def fit(self, run: Run) -> MeanLogp:
        """Return itself: nothing is learned."""
        return self

    def __call__(self, run: Run) -> DebiasedScores:
        """(I, K) normalised geometric means and (I,) expected scores."""
        mean = _logp(run).mean(axis=1)  # log q and logp differ by a constant of the reading, which softmax drops
        weight = np.exp(mean - mean.max(axis=1, keepdims=True))
        return DebiasedScores.of(run, weight / weight.sum(axis=1, keepdims=True), "mean_logp")


def _logp(run: Run) -> FloatArray:
    """(I, O, K) log-probability, with aliases where the run asks for them. Never log(probs()): a tiny q is 0 there."""
    run.require_exact()
    if run.aliases == "ignore":
        return run.logp
    alias = np.log(run.alias_mass, where=run.alias_mass > 0, out=np.full(run.logp.shape, -np.inf))
    logp: FloatArray = np.logaddexp(run.logp, alias)
    return logp


method = MeanLogp
