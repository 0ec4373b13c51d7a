"""Readings on the scale on which a position adds: centred log-ratios.

``clr[i, o, k] = log q[i, o, k] - mean over k of log q[i, o, k]`` does not change with the mass on the options, and a judge
whose positions add to its logits adds exactly them. Everything here is computed from log-probabilities, never as the log of
a probability: a score with a log-probability of -5000 has one like every other.

References
----------
J. Aitchison (1986), The Statistical Analysis of Compositional Data.
"""

from __future__ import annotations

import numpy as np

from logitjudge import orderings
from logitjudge.core import FloatArray
from logitjudge.errors import NotObserved
from logitjudge.run import Run

BALANCED = "balanced, full, williams, cyclic or latin:N"


def logs(run: Run) -> FloatArray:
    """(I, O, K) natural log-probability, with aliases where the run counts them; finite wherever the run's `logp` is."""
    run.require_exact()
    if run.aliases == "ignore":
        return run.logp
    alias = np.log(run.alias_mass, where=run.alias_mass > 0, out=np.full(run.logp.shape, -np.inf))
    logp: FloatArray = np.logaddexp(run.logp, alias)
    return logp


def clr(run: Run) -> FloatArray:
    """(I, O, K) centred log-ratios in nats; each reading's sum over k is 0."""
    found = logs(run)
    centred: FloatArray = found - found.mean(axis=-1, keepdims=True)
    return centred


def softmax(logits: FloatArray) -> FloatArray:
    """Probabilities along the last axis; logits of any size, of which only differences count.

    Examples
    --------
    >>> softmax(np.array([-5000.0, -5000.0, -9000.0])).tolist()
    [0.5, 0.5, 0.0]
    """
    weight = np.exp(logits - logits.max(axis=-1, keepdims=True))
    probs: FloatArray = weight / weight.sum(axis=-1, keepdims=True)
    return probs


def central(run: Run) -> FloatArray:
    """(I, K) distribution of each item in the middle of its orderings: the normalised geometric mean of the readings.

    It is the judge without position bias where bias is additive and the design balanced. Unlike a mean of probabilities it is
    no mixture, so an item that orderings move far does not look uncertain for that reason.
    """
    return softmax(logs(run).mean(axis=1))  # a constant of a reading moves all scores alike


def cells(run: Run) -> FloatArray:
    """(I, K, P) each item's mean clr over the orderings that show score k at position p.

    Raises
    ------
    NotObserved
        Some score is not shown equally often at every position, so a mean over cells would mix scores with positions.
    """
    require_balanced(run)
    levels = len(run.scores)
    places = run.shown[:, None, :] == np.arange(levels)[:, None]  # (O, K, P)
    sums = np.einsum("iok,okp->ikp", clr(run), places.astype(np.float64), optimize=True)
    means: FloatArray = sums / (len(run.orderings) / levels)
    return means


def require_balanced(run: Run) -> None:
    """Raise `NotObserved` unless every score stands equally often at every position."""
    if not orderings.is_balanced(run.orderings):
        raise NotObserved(
            f"the run's {len(run.orderings)} ordering(s) do not show every score equally often at every position, so positions "
            f"and scores cannot be told apart. Run with --orderings {BALANCED}, or learn from another run that did."
        )
