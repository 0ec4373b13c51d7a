"""The softmax of the mean, over orderings, of the log-probability of each score.

Under purely additive position bias, and a design that shows every score equally often at every position, it recovers
the unbiased judge exactly: each score's mean logit is its quality plus the same mean bias.
"""

from __future__ import annotations

from dataclasses import dataclass

from logitjudge.debiasers import DebiasedScores
from logitjudge.measures.ratios import central
from logitjudge.run import Run


@dataclass(frozen=True, slots=True)
class MeanLogp:
    """``dist[i]`` is the softmax over k of the mean over o of log q[i, o, k]: a geometric mean of probabilities."""

    def fit(self, run: Run) -> MeanLogp:
        """Return itself: nothing is learned."""
        return self

    def __call__(self, run: Run) -> DebiasedScores:
        """(I, K) normalised geometric means and (I,) expected scores."""
        return DebiasedScores.of(run, central(run), "mean_logp")


method = MeanLogp
