"""Take off what each score gets on average over other items: one vector for all orderings.

``c_k`` is the mean clr (`logitjudge.measures.ratios`) of score k over probe items and a balanced set of orderings (a mean of
logarithms). It says nothing about positions: they go by the mean over the run's own orderings, and stay under a single one. It
takes off a liking for a label **and** how good the probe items are on average, which only probes without content (an empty
response, "N/A") can part: fitted on real items, it centres their scores.

References
----------
Z. Zhao et al. (2021), Calibrate Before Use, arXiv:2102.09690 (content-free probes); H. Zhou et al. (2024), Batch Calibration,
arXiv:2309.17249 (real ones).
"""

from __future__ import annotations

from dataclasses import dataclass

from logitjudge.debiasers import DebiasedScores
from logitjudge.debiasers._priors import Prior, corrected, learn, require
from logitjudge.measures.ratios import cells
from logitjudge.run import Run


@dataclass(frozen=True, slots=True, eq=False)
class Contextual:
    """``dist[i]`` is the softmax over k of the mean over o of ``log q[i, o, k] - c[k]``.

    Parameters
    ----------
    prior
        c (K,) in nats, summing to 0; None before `fit`. Never one for each ordering: that would put order back.
    """

    prior: Prior | None = None

    def fit(self, run: Run) -> Contextual:
        """Learn c from probe items. Raises `NotObserved` where their design is not balanced."""
        return Contextual(learn(run, cells(run).mean(axis=2)))

    def __call__(self, run: Run) -> DebiasedScores:
        """(I, K) corrected distributions; items that were probes by a prior that did not see them."""
        prior = require(self.prior, "contextual")
        return DebiasedScores.of(run, corrected(run, prior.of(run)[:, None]), "contextual", prior.note(run))


method = Contextual
