"""The mean, over orderings, of the score that was picked.

References
----------
arXiv:2602.02219, section 5.3: the paper's own method.
"""

from __future__ import annotations

from dataclasses import dataclass

from logitjudge.debiasers import DebiasedScores
from logitjudge.measures.matrices import winners
from logitjudge.run import Run


@dataclass(frozen=True, slots=True)
class MeanWinner:
    """``dist[i, k]`` is the share of orderings whose most probable score is k; n scores that tie get 1/n each."""

    def fit(self, run: Run) -> MeanWinner:
        """Return itself: nothing is learned."""
        return self

    def __call__(self, run: Run) -> DebiasedScores:
        """(I, K) shares of picks and (I,) mean picks."""
        return DebiasedScores.of(run, winners(run.probs()).mean(axis=1), "mean_winner")


method = MeanWinner
