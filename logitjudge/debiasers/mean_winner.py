"""The mean, over orderings, of the score that was picked.

References
----------
arXiv:2602.02219, section 5.3: the paper's own method.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from logitjudge.debiasers import DebiasedScores
from logitjudge.measures.matrices import picks
from logitjudge.run import Run


@dataclass(frozen=True, slots=True)
class MeanWinner:
    """``dist[i, k]`` is the share of orderings whose most probable score is k; n scores that tie get 1/n each.

    Of a sampled run, the share of the texts that pick k among those from which a score could be parsed; NaN where none could.
    """

    def fit(self, run: Run) -> MeanWinner:
        """Return itself: nothing is learned."""
        return self

    def __call__(self, run: Run) -> DebiasedScores:
        """(I, K) shares of picks and (I,) mean picks."""
        mean = picks(run).mean(axis=1)
        whole = mean.sum(axis=1, keepdims=True)
        dist = np.divide(mean, whole, where=whole > 0, out=np.full(mean.shape, np.nan))
        return DebiasedScores.of(run, dist, "mean_winner")


method = MeanWinner
