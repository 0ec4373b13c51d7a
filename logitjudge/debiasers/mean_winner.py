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

    Of a sampled run, the mean over orderings of the share of the texts that pick k, among those from which a score could be
    parsed; orderings without any are left out, and an item without any is NaN.
    """

    def fit(self, run: Run) -> MeanWinner:
        """Return itself: nothing is learned."""
        return self

    def __call__(self, run: Run) -> DebiasedScores:
        """(I, K) shares of picks and (I,) mean picks."""
        shares = picks(run)
        parsed = shares.sum(axis=2, keepdims=True)  # 1, but for texts that could not be parsed
        known = np.divide(shares, parsed, where=parsed > 0, out=np.zeros(shares.shape))
        count = (parsed > 0).sum(axis=1)
        dist = np.divide(known.sum(axis=1), count, where=count > 0, out=np.full(shares[:, 0].shape, np.nan))
        return DebiasedScores.of(run, dist, "mean_winner")


method = MeanWinner
