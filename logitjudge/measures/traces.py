"""Judges that write before they score: what comes in through the text, and what through the place of its reading.

With ``--trace shared`` each text, written under a source ordering, is read under all orderings. Averaged over the reading
orderings, a position is one of the *source* ordering, and acts through the text; averaged over the texts, it is one of the
*reading* ordering. With several samples, the spread over them is the uncertainty of their mean.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from logitjudge.core import BoolArray, FloatArray, Ordering
from logitjudge.errors import NotObserved
from logitjudge.measures.matrices import Estimator, score_position_matrix
from logitjudge.run import Run, SampledRun


def by_source(run: Run) -> Run:
    """A run of shared texts with the source orderings in place of the orderings.

    Returns
    -------
    Run
        ``logp`` (I, S, K): that of the mean probability over the reading orderings; ``orderings`` (S,), each source as often
        as it has samples. Every measure of it is of the source ordering: what comes in through the text.

    Raises
    ------
    NotObserved
        The texts are not shared: there, source and reading ordering are the same.
    """
    about = run.provenance.get("traces") or {}
    if not about.get("sources"):
        raise NotObserved(
            "source and reading orderings cannot be told apart: every text was read under its own ordering. "
            "Run with --trace shared."
        )
    _refuse_aliases(run)
    index = {score: k for k, score in enumerate(run.scores.tolist())}
    sources = [Ordering(tuple(index[value] for value in values)) for values in about["sources"]]
    orderings = tuple(source for source in sources for _ in range(about["samples"]))
    logp = _mean(run.logp_by_trace, axis=2)
    exact = np.repeat(np.asarray(run.exact.all(axis=1))[:, None], len(orderings), axis=1)
    fields: dict[str, Any] = {"rubric": run.rubric, "provenance": run.provenance, "exact": exact}
    return Run(logp, np.zeros(logp.shape), run.items, orderings, run.scores, **fields)


def _mean(logp: FloatArray, axis: int) -> FloatArray:
    """Log of the mean probability along an axis."""
    return cast(FloatArray, np.logaddexp.reduce(logp, axis=axis) - np.log(logp.shape[axis]))


def source_distribution(run: Run, estimator: Estimator = "soft", *, counted: BoolArray | None = None) -> FloatArray:
    """(K,) share of picks at each position of the source ordering; `counted` (I, S): of some texts only.

    Every text weighs the same.
    """
    return score_position_matrix(by_source(run), estimator, counted=counted).position_distribution()


def reading_distribution(run: Run, estimator: Estimator = "soft", *, counted: BoolArray | None = None) -> FloatArray:
    """(K,) share of picks at each position of the reading ordering; `counted` (I, S): behind some texts only.

    Of each item, the mean probability over its texts, as in ``run.logp``; an item without any is left out.
    """
    _refuse_aliases(run)
    if counted is None:
        return score_position_matrix(run, estimator).position_distribution()
    some = np.flatnonzero(counted.any(axis=1))
    if len(some) == 0:
        return np.full(len(run.scores), np.nan)
    weight = np.where(counted[some, :, None, None], run.logp_by_trace[some], -np.inf)
    logp = np.logaddexp.reduce(weight, axis=1) - np.log(counted[some].sum(axis=1))[:, None, None]
    items = tuple(run.items[i] for i in some)
    part = Run(logp, np.zeros(logp.shape), items, run.orderings, run.scores, exact=run.exact[some])
    return score_position_matrix(part, estimator).position_distribution()


def _refuse_aliases(run: Run) -> None:
    """Alias masses are stored as means over the texts."""
    if run.aliases == "sum":
        raise NotObserved("with aliases summed there is no reading of each text: load the run with aliases ignored.")


def standard_errors(run: Run) -> FloatArray:
    """(I, O) standard error, over the samples, of each expected score (mean pick of a sampled run), in score points.

    The expected score is that of ``run.probs()``: a ratio of means over the texts, each text by its mass; its error is that
    of the linearised ratio (delta method). Source orderings of shared texts are fixed, not drawn: only samples of the same
    source count. NaN with fewer than two.
    """
    samples = (run.provenance.get("traces") or {}).get("samples", 1)
    values = np.moveaxis(run.picks, 2, 1) if isinstance(run, SampledRun) else _linearised(run)  # (I, S, O)
    grouped = values.reshape(len(values), -1, samples, values.shape[-1])  # (I, sources, samples, O)
    count = (~np.isnan(grouped)).sum(axis=2)
    mean = np.nansum(grouped, axis=2, keepdims=True) / np.maximum(count, 1)[:, :, None]
    squares = np.nansum((grouped - mean) ** 2, axis=2)
    variance = np.divide(squares, (count - 1) * count, where=count > 1, out=np.full(squares.shape, np.nan))
    errors: FloatArray = np.sqrt(variance.sum(axis=1)) / grouped.shape[1]
    return errors


def _linearised(run: Run) -> FloatArray:
    """(I, S, O) what each text adds to the ratio sum P k / sum P, linearised: their mean is 0."""
    run.require_exact()
    _refuse_aliases(run)
    weight = np.exp(run.logp_by_trace - run.logp_by_trace.max(axis=(1, 3), keepdims=True))
    above, below = weight @ run.scores, weight.sum(axis=-1)  # (I, S, O)
    ratio = above.sum(axis=1, keepdims=True) / below.sum(axis=1, keepdims=True)
    made: FloatArray = (above - ratio * below) / below.mean(axis=1, keepdims=True)
    return made
