"""Take off what each position adds on average over other items: one forward pass an item is enough.

``b_p`` is the mean clr (`logitjudge.measures.ratios`) of whatever stands at position p, over probe items and a balanced set of
orderings. Under purely additive position bias the result is the unbiased judge, from any single ordering. It cannot see what a
position does to one score more than to another (`score_position_prior`), nor what it does to one item more than to another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from logitjudge.core import FloatArray
from logitjudge.debiasers import DebiasedScores
from logitjudge.debiasers._priors import Prior, corrected, learn, require
from logitjudge.measures.ratios import cells
from logitjudge.run import Run


@dataclass(frozen=True, slots=True, eq=False)
class PositionPrior:
    """``dist[i]`` is the softmax over k of the mean over o of ``log q[i, o, k] - b[pos_o(k)]``.

    Parameters
    ----------
    prior
        b (P,) in nats, summing to 0; None before `fit`.
    """

    prior: Prior | None = None

    def fit(self, run: Run) -> PositionPrior:
        """Learn b from probe items. Raises `NotObserved` where their design is not balanced."""
        return PositionPrior(learn(run, cells(run).mean(axis=1)))

    def __call__(self, run: Run) -> DebiasedScores:
        """(I, K) corrected distributions, of any orderings; items that were probes by a prior that did not see them."""
        prior = require(self.prior, "position_prior")
        by_position = prior.of(run)  # (I, P)
        places = np.argsort(run.shown, axis=1)  # (O, K)
        taken: FloatArray = by_position[:, places]
        return DebiasedScores.of(run, corrected(run, taken), "position_prior", prior.note(run))


method = PositionPrior
