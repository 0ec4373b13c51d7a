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
    """(K,) share of picks at each position of the source ordering; `counted` (I, S): of some texts only."""
    return score_position_matrix(by_source(run), estimator, counted=counted).position_distribution()


def reading_distribution(run: Run, estimator: Estimator = "soft", *, counted: BoolArray | None = None) -> FloatArray:
    """(K,) share of picks at each position of the reading ordering; `counted` (I, S): behind some texts only."""
    i, s = np.nonzero(np.ones(run.logp_by_trace.shape[:2], np.bool_) if counted is None else counted)
    if len(i) == 0:
        return np.full(len(run.scores), np.nan)
    logp = run.logp_by_trace[i, s]
    texts = Run(
        logp, np.zeros(logp.shape), tuple(run.items[n] for n in i), run.orderings, run.scores, exact=run.exact[i]
    )
    return score_position_matrix(texts, estimator).position_distribution()


def standard_errors(run: Run) -> FloatArray:
    """(I, O) standard error, over the samples, of each mean expected score (mean pick of a sampled run), in score points.

    Source orderings of shared texts are fixed, not drawn: only samples of the same source count. NaN with fewer than two.
    """
    samples = (run.provenance.get("traces") or {}).get("samples", 1)
    if isinstance(run, SampledRun):
        values = np.moveaxis(run.picks, 2, 1)  # (I, S, O)
    else:
        run.require_exact()
        weight = np.exp(run.logp_by_trace - run.logp_by_trace.max(axis=-1, keepdims=True))
        values = weight @ run.scores / weight.sum(axis=-1)
    grouped = values.reshape(len(values), -1, samples, values.shape[-1])  # (I, sources, samples, O)
    count = (~np.isnan(grouped)).sum(axis=2)
    mean = np.nansum(grouped, axis=2, keepdims=True) / np.maximum(count, 1)[:, :, None]
    squares = np.nansum((grouped - mean) ** 2, axis=2)
    variance = np.divide(squares, (count - 1) * count, where=count > 1, out=np.full(squares.shape, np.nan))
    errors: FloatArray = np.sqrt(variance.sum(axis=1)) / grouped.shape[1]
    return errors
