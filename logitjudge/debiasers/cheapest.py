"""The plain distribution under the ordering of the run with the least soft Bias Cost: one ordering for all items.

Only orderings that the run has are candidates, because no other was read; where the cheapest of all K! is not among them, this
is the best that there is (run it under ``full`` to have them all). Costs come from the run that `fit` gets and use no ratings.
Where costs hardly differ no ordering is better than another (see ``logitjudge select``): then a mean over orderings is better.
"""

from __future__ import annotations

from dataclasses import dataclass

from logitjudge.debiasers import DebiasedScores
from logitjudge.errors import InputError
from logitjudge.measures.costs import bias_cost
from logitjudge.measures.matrices import ScorePositionMatrix, score_position_matrix
from logitjudge.run import Run

DIGITS = 12  # costs that differ by less are equal, as in `logitjudge.measures.costs`


@dataclass(frozen=True, slots=True, eq=False)
class Cheapest:
    """``dist[i, k]`` is q[i, o, k] of the cheapest ordering o of the run; of equal ones the first by score values.

    Parameters
    ----------
    matrix
        Soft P(position | score) of the probe items, or None before `fit`.
    """

    matrix: ScorePositionMatrix | None = None

    def fit(self, run: Run) -> Cheapest:
        """Learn costs. Raises `NotObserved`, when applied, where some cell of the matrix was not observed."""
        return Cheapest(score_position_matrix(run))

    def __call__(self, run: Run) -> DebiasedScores:
        """(I, K) probabilities under the cheapest ordering that `run` has; `note` names it."""
        place, cost = self._place(run)
        values = ",".join(map(str, run.orderings[place].values(run.scores.tolist())))
        note = f"read under {values}, Bias Cost {cost:.3f}: the cheapest of the run's {len(run.orderings)} ordering(s)"
        return DebiasedScores.of(run, run.probs()[:, place], "cheapest", note)

    def _place(self, run: Run) -> tuple[int, float]:
        """Number of the cheapest ordering, and its cost."""
        matrix = self.matrix
        if matrix is None:
            raise InputError("cheapest has learned nothing yet. Call fit(probe_run) first, or debias(run, 'cheapest').")
        if run.scores.tolist() != matrix.scores.tolist():
            raise InputError(f"costs were learned with the scores {matrix.scores.tolist()}, the run has others.")
        costs = [round(bias_cost(matrix, ordering), DIGITS) for ordering in run.orderings]
        place = min(range(len(costs)), key=lambda o: (costs[o], run.orderings[o].shown))
        return place, costs[place]


method = Cheapest
