"""What probe items teach about positions, kept so that no item is corrected by what it taught itself.

Each prior here is a mean over items. `learn` takes it over all probe items, and again without each fold of clusters. An item
whose cluster was among the probes is corrected by the mean without its fold, any other item by the mean of all. So one run
can be its own probe (``fit(run)(run)`` is cross-fitted), and nobody has to remember to do so.

A prior is one for all orderings: taken for each ordering by itself, it would hold that ordering's noise, and put it back into
every item that it corrects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from logitjudge.core import FloatArray, IntArray, frozen_array
from logitjudge.errors import InputError, NotObserved
from logitjudge.measures.intervals import number
from logitjudge.measures.ratios import logs, softmax
from logitjudge.run import Run

FOLDS = 10  # of clusters; fewer clusters are a fold each


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """A mean over probe items, of shape (...).

    Parameters
    ----------
    whole
        (...) from all probe items.
    left_out
        (F, ...) from the probe items outside each fold; NaN where there are none.
    folds
        Fold of each cluster's name.
    scores
        (K,) score values of the probe's rubric.
    """

    whole: FloatArray
    left_out: FloatArray
    folds: Mapping[str, int]
    scores: IntArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "whole", frozen_array(self.whole))
        object.__setattr__(self, "left_out", frozen_array(self.left_out))

    def of(self, run: Run) -> FloatArray:
        """(I, ...) the mean that corrects each item of a run.

        Raises
        ------
        InputError
            The run has other scores than the probe.
        NotObserved
            An item's own cluster is the only one that was probed.
        """
        if run.scores.tolist() != self.scores.tolist():
            raise InputError(
                f"the prior was learned with the scores {self.scores.tolist()}, the run has {run.scores.tolist()}. "
                "Learn it from a run with the same rubric."
            )
        fold = [self.folds.get(item.cluster, len(self.left_out)) for item in run.items]
        found: FloatArray = np.concatenate([self.left_out, self.whole[None]])[fold]
        if np.isnan(found).any():
            raise NotObserved(
                "all items that the prior was learned from are of one cluster, so nothing but themselves could correct them. "
                "Learn it from other items: debias(run, method, probe=other_run)."
            )
        return found

    def note(self, run: Run) -> str:
        """Which items taught, for people."""
        if any(item.cluster in self.folds for item in run.items):
            return f"cross-fitted: prior from the clusters outside an item's fold, {len(self.left_out)} folds"
        return f"prior from {len(self.folds)} cluster(s) of other items"


def learn(run: Run, taught: FloatArray) -> Prior:
    """Means over items of what each of them teaches, (I, ...).

    Folds are of whole clusters: clusters in sorted order of their names, shuffled with the seed 0, are dealt to `FOLDS` folds,
    so that neither the order of the items nor of the orderings matters.
    """
    clusters = number([item.cluster for item in run.items])
    count = int(clusters.max()) + 1
    folds = min(FOLDS, count)
    fold_of = np.random.default_rng(0).permutation(count) % folds  # (C,)
    outside = fold_of[clusters] != np.arange(folds)[:, None]  # (F, I)
    size = outside.sum(axis=1).astype(np.float64)
    size[size == 0] = np.nan
    left_out = np.einsum("fi,i...->f...", outside.astype(np.float64), taught) / size.reshape(
        -1, *[1] * (taught.ndim - 1)
    )
    names = {item.cluster: int(fold_of[c]) for item, c in zip(run.items, clusters, strict=True)}
    return Prior(taught.mean(axis=0), left_out, names, run.scores)


def require(prior: Prior | None, method: str) -> Prior:
    """Give the prior; raise `InputError` where there is none yet."""
    if prior is None:
        raise InputError(f"{method} has learned nothing yet. Call fit(probe_run) first, or debias(run, {method!r}).")
    return prior


def corrected(run: Run, prior: FloatArray) -> FloatArray:
    """(I, K) softmax over k of the mean over o of log q[i, o, k] minus the prior, (I, O, K) or what broadcasts to it."""
    return softmax((logs(run) - prior).mean(axis=1))
