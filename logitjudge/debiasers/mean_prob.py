"""The mean, over orderings, of the probability of each score."""

from __future__ import annotations

from dataclasses import dataclass

from logitjudge.debiasers import DebiasedScores
from logitjudge.run import Run


@dataclass(frozen=True, slots=True)
class MeanProb:
    """``dist[i, k]`` is the mean over o of q[i, o, k]: what a judge under a random ordering of the run would pick."""

    def fit(self, run: Run) -> MeanProb:
        """Return itself: nothing is learned."""
        return self

    def __call__(self, run: Run) -> DebiasedScores:
        """(I, K) mean probabilities and (I,) expected scores."""
        return DebiasedScores.of(run, run.probs().mean(axis=1), "mean_prob")


method = MeanProb
