"""Debiased scores: one file a method.

A method is a frozen dataclass of its parameters, with ``fit(run)``, which gives a method that is ready to use, and
``__call__(run)``, which applies it. Its module names it ``method``: something to call without arguments that makes one. A
method with an argument (``single:5,4,3,2,1``) also has ``parse`` in its module, which makes one of the argument's text.

All of them remove effects of *order*. A label and its text move together, so a liking for the token "5" is no effect of order
and stays; `contextual` takes it off, but the items' mean quality with it unless its probes have no content.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from logitjudge import registry
from logitjudge.core import FloatArray, IntArray, frozen_array
from logitjudge.run import Run

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, eq=False)
class DebiasedScores:
    """One score an item, from all of its orderings.

    Parameters
    ----------
    dist
        (I, K) probability of each score; rows sum to 1.
    score
        (I,) expected score, ``dist @ scores``, in score points.
    method
        Name of the method.
    ids
        (I,) item ids.
    scores
        (K,) score values.
    note
        What the scores rest on, beyond the run: how a prior was learned, which ordering was read; or "".
    """

    dist: FloatArray
    score: FloatArray
    method: str
    ids: tuple[str, ...]
    scores: IntArray
    note: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "dist", frozen_array(self.dist))
        object.__setattr__(self, "score", frozen_array(self.score))
        object.__setattr__(self, "scores", frozen_array(self.scores, np.int64))

    @classmethod
    def of(cls, run: Run, dist: FloatArray, method: str, note: str = "") -> DebiasedScores:
        """Scores of a run's items from their distributions (I, K)."""
        return cls(dist, dist @ run.scores, method, tuple(item.id for item in run.items), run.scores, note)

    def to_frame(self) -> pd.DataFrame:
        """Frame, one row an item: item, score, and ``prob_S`` for each score value S."""
        import pandas as pd

        probs = {f"prob_{score}": self.dist[:, k] for k, score in enumerate(self.scores.tolist())}
        return pd.DataFrame({"item": list(self.ids), "score": self.score, **probs})

    def _repr_html_(self) -> str:
        return str(self.to_frame().to_html(index=False, max_rows=20))


class Debiaser(Protocol):
    """A method of debiasing."""

    def fit(self, run: Run) -> Debiaser:
        """Learn what the method needs from `run`; a method that learns nothing gives itself."""

    def __call__(self, run: Run) -> DebiasedScores:
        """Debiased scores of the items of `run`."""


def debias(run: Run, method: str = "mean_prob", *, probe: Run | None = None) -> DebiasedScores:
    """One score an item with the effect of order taken off.

    Only order effects go: a label and its text move together, so a liking for the token "5" stays.

    Parameters
    ----------
    run
        A run with I items, O orderings and K scores.
    method
        A file of `logitjudge.debiasers`: ``mean_prob``, ``mean_logp``, ``mean_winner``, ``position_prior`` ... with its
        argument where it takes one (``single:5,4,3,2,1``).
    probe
        A run whose items teach a method that learns; by default `run` itself. Priors are then cross-fitted over folds of
        clusters: no item is corrected by a prior that saw its cluster.

    Returns
    -------
    DebiasedScores
        ``dist`` (I, K) and ``score`` (I,).

    Raises
    ------
    InputError
        A method that does not exist; the message lists those that do. Or an argument that it does not take.
    NotObserved
        The orderings of the probe (a prior needs a balanced design) or of the run do not give what the method needs.

    References
    ----------
    arXiv:2602.02219, section 5.3.
    """
    run.require_kind("rubric")
    debiaser: Debiaser = registry.make("debiasers", method)
    return debiaser.fit(run if probe is None else probe)(run)
