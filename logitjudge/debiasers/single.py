"""The plain distribution under one ordering of the run, such as single:5,4,3,2,1; without one, the scores in order.

What a judge says that is asked once: nothing is taken off.
"""

from __future__ import annotations

from dataclasses import dataclass

from logitjudge import orderings
from logitjudge.debiasers import DebiasedScores
from logitjudge.errors import NotObserved, OrderingError
from logitjudge.run import Run

SHOWN = 12  # orderings that a message lists


@dataclass(frozen=True, slots=True)
class Single:
    """``dist[i, k]`` is q[i, o, k] of one ordering o.

    Parameters
    ----------
    ordering
        Score values, first position first ("5,4,3,2,1"), or a design of one ordering ("identity", "reverse"). Empty: identity.
    """

    ordering: str = ""

    def fit(self, run: Run) -> Single:
        """Return itself: nothing is learned."""
        return self

    def __call__(self, run: Run) -> DebiasedScores:
        """(I, K) probabilities under that ordering.

        Raises
        ------
        OrderingError
            Not one permutation of the scores.
        NotObserved
            The run has no such ordering; the message lists those that it has.
        """
        name = f"single:{self.ordering}" if self.ordering else "single"
        return DebiasedScores.of(run, run.probs()[:, self._place(run)], name)

    def _place(self, run: Run) -> int:
        """Number of the ordering in the run; the first of those that differ in their labels only."""
        scores = run.scores.tolist()
        asked = orderings.parse(self.ordering or "identity", scores)
        if len(asked) != 1:
            raise OrderingError(
                f"single:{self.ordering} is {len(asked)} orderings. Give one, such as single:{_text(scores)}."
            )
        found = [o for o, ordering in enumerate(run.orderings) if ordering.shown == asked[0].shown]
        if not found:
            there = "; ".join(_text(ordering.values(scores)) for ordering in run.orderings[:SHOWN])
            more = f" and {len(run.orderings) - SHOWN} more" if len(run.orderings) > SHOWN else ""
            raise NotObserved(f"the run has no ordering {_text(asked[0].values(scores))}. It has {there}{more}.")
        return found[0]


def _text(values: list[int] | tuple[int, ...]) -> str:
    return ",".join(map(str, values))


method = Single
parse = Single
