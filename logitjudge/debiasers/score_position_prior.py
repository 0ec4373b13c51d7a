"""Take off what each position adds to each score on average over other items.

``D[k, p]`` is the mean clr (`logitjudge.measures.ratios`) of score k at position p minus the mean of its row, over probe items
and a balanced set of orderings. Like `position_prior`, with one value for each score and position: it follows an interaction of
the two, and needs more probes. A cell mean holds a part of the other cells of its orderings, because a clr is relative to its
reading's mean: what a position adds to all scores alike comes out whole, what it does to one score more than to another, under
``full``, at (K - 2) / (K - 1) of its size (3/4 for K = 5). A design with one ordering a cell (``cyclic``) mixes them more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from logitjudge.debiasers import DebiasedScores
from logitjudge.debiasers._priors import Prior, corrected, learn, require
from logitjudge.measures.ratios import cells
from logitjudge.run import Run


@dataclass(frozen=True, slots=True, eq=False)
class ScorePositionPrior:
    """``dist[i]`` is the softmax over k of the mean over o of ``log q[i, o, k] - D[k, pos_o(k)]``.

    Parameters
    ----------
    prior
        D (K, P) in nats, rows summing to 0; None before `fit`.
    """

    prior: Prior | None = None

    def fit(self, run: Run) -> ScorePositionPrior:
        """Learn D from probe items. Raises `NotObserved` where their design is not balanced."""
        found = cells(run)
        return ScorePositionPrior(learn(run, found - found.mean(axis=2, keepdims=True)))

    def __call__(self, run: Run) -> DebiasedScores:
        """(I, K) corrected distributions, of any orderings; items that were probes by a prior that did not see them."""
        prior = require(self.prior, "score_position_prior")
        places = np.argsort(run.shown, axis=1)  # (O, K)
        taken = prior.of(run)[:, np.arange(len(run.scores)), places]  # (I, O, K)
        return DebiasedScores.of(run, corrected(run, taken), "score_position_prior", prior.note(run))


method = ScorePositionPrior
