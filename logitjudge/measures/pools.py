"""Several runs as the paper has them: a model, its datasets, and the model over all datasets.

``by="items"`` counts every item alike, ``by="datasets"`` every dataset alike (the mean of the datasets' matrices, a row from
those that have it). The paper says "for each model across all datasets" and not which.

References
----------
arXiv:2602.02219, section 5.3.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from logitjudge.core import FloatArray, IntArray
from logitjudge.errors import InputError, NotObserved, unknown
from logitjudge.measures import cells
from logitjudge.measures.matrices import Estimator, ScorePositionMatrix, score_position_matrix
from logitjudge.run import Run, SampledRun

By = Literal["items", "datasets"]
WAYS = ("items", "datasets")
PAPER = "feedback"  # the paper's judges write feedback before they score


class About(NamedTuple):
    """What a run is: the judge's name, the dataset's, and how the judge gives its verdict."""

    model: str
    dataset: str
    protocol: str


def about(run: Run) -> About:
    """Names for tables, without folders. What a run does not know is "-"."""
    asked = run.provenance.get("configuration") or {}
    return About(_short(asked.get("model")), _short(asked.get("data")), str(run.provenance.get("verdict") or "-"))


def _short(name: Any) -> str:
    """Last part of a path; a dataset's name and its options stay."""
    if not isinstance(name, str) or not name:
        return "-"
    if name.startswith("planted:"):
        return name
    found = re.fullmatch(r"(\w{2,}):([^?]*)(\?.*)?", name)
    if found:
        return found[1] + (found[3] or "")
    last = re.split(r"[/\\]", name.rstrip("/\\"))[-1]
    return re.sub(r"\.(jsonl|json|csv|parquet)$", "", last)


def protocol_note(runs: Sequence[Run]) -> str:
    """Which protocols the runs have, and that the paper's is feedback."""
    found = sorted({about(run).protocol for run in runs})
    mixed = " They differ: figures of different protocols are not to be compared." if len(found) > 1 else ""
    return f"Protocol: {', '.join(found)}; the paper's judges write {PAPER} before they score.{mixed}"


def only(run: Run, rows: IntArray) -> Run:
    """The same run with some of its orderings."""
    orderings = tuple(run.orderings[o] for o in rows)
    if isinstance(run, SampledRun):
        return SampledRun(
            run.picks[:, rows], run.items, orderings, run.scores, rubric=run.rubric, provenance=run.provenance
        )
    return replace(
        run,
        logp=run.logp[:, rows],
        alias_mass=run.alias_mass[:, rows],
        exact=run.exact[:, rows],
        logp_by_trace=run.logp_by_trace[:, :, rows],
        orderings=orderings,
        loaders={},
    )


def ten(run: Run) -> Run:
    """The same run with the paper's 2K balanced orderings alone, in the paper's order.

    Raises
    ------
    NotObserved
        One of them was not read.
    """
    rows = cells.balanced_rows(run)
    if rows is None:
        raise NotObserved(
            "the paper's tables compare its balanced orderings, and this run does not have them. Run with --orderings balanced."
        )
    return only(run, rows)


@dataclass(frozen=True, slots=True)
class Pool:
    """One model under one protocol, over all its datasets.

    Parameters
    ----------
    model, protocol
        Of all runs.
    runs
        One a dataset.
    by
        "items" or "datasets": what counts alike.
    """

    model: str
    protocol: str
    runs: tuple[Run, ...]
    by: By

    def matrix(self, estimator: Estimator = "soft") -> ScorePositionMatrix:
        """P(p | k) over all datasets, (K, K), with what it rests on."""
        if self.by == "items":
            return score_position_matrix(joined(self.runs), estimator)
        found = [score_position_matrix(run, estimator) for run in self.runs]
        if len(found) == 1:
            return found[0]
        values = _mean_of_known(np.stack([matrix.values for matrix in found]))
        reasons = tuple(
            found[0].reasons[k] if np.isnan(row).any() else None for k, row in enumerate(values)
        )  # no dataset has the row
        return ScorePositionMatrix(
            values,
            found[0].scores,
            estimator,
            share=np.mean([matrix.share for matrix in found], axis=0),
            picks=np.sum([matrix.picks for matrix in found], axis=0),
            effective_items=np.sum([matrix.effective_items for matrix in found], axis=0),
            reasons=reasons,
        )

    def position_distribution(self, estimator: Estimator = "soft") -> FloatArray:
        """(K,) share of picks at each position over all datasets."""
        if self.by == "items":
            return self.matrix(estimator).position_distribution()
        found = [score_position_matrix(run, estimator).position_distribution() for run in self.runs]
        mean: FloatArray = np.mean(found, axis=0)
        return mean


def pool(runs: Sequence[Run], by: By = "items") -> tuple[Pool, ...]:
    """Runs by model and protocol, in the order in which they come.

    Raises
    ------
    InputError
        An unknown way to pool, or runs of one model with other scores or orderings.
    """
    if by not in WAYS:
        raise InputError(unknown("way to pool", by, WAYS))
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        name = about(run)
        groups.setdefault((name.model, name.protocol), []).append(run)
    for (model, _), found in groups.items():
        _check(model, found)
    return tuple(Pool(*key, tuple(found), by) for key, found in groups.items())


def _check(model: str, runs: Sequence[Run]) -> None:
    kinds = {(tuple(run.scores.tolist()), run.orderings, isinstance(run, SampledRun)) for run in runs}
    if len(kinds) > 1:
        raise InputError(
            f"the runs of {model} have other scores or orderings than each other. Pool runs of one design and one scale."
        )


def joined(runs: Sequence[Run]) -> Run:
    """All items as one run; the clusters of different runs stay apart."""
    if len(runs) == 1:
        return runs[0]
    items = tuple(
        replace(item, id=f"{n}/{item.id}", cluster=f"{n}/{item.cluster}")
        for n, run in enumerate(runs)
        for item in run.items
    )
    first = runs[0]
    if isinstance(first, SampledRun):
        most = max(run.picks.shape[2] for run in runs)  # type: ignore[attr-defined]
        picks = [_padded(run.picks, most) for run in runs]  # type: ignore[attr-defined]
        return SampledRun(np.concatenate(picks), items, first.orderings, first.scores, provenance=first.provenance)
    parts: dict[str, Any] = {
        name: np.concatenate([getattr(run, name) for run in runs]) for name in ("logp", "alias_mass", "exact")
    }
    return Run(
        items=items,
        orderings=first.orderings,
        scores=first.scores,
        provenance=first.provenance,
        aliases=first.aliases,
        **parts,
    )


def _padded(picks: FloatArray, samples: int) -> FloatArray:
    """(I, O, S) picks with NaN for samples that this run does not have."""
    return np.pad(picks, ((0, 0), (0, 0), (0, samples - picks.shape[2])), constant_values=np.nan)


def _mean_of_known(values: FloatArray) -> FloatArray:
    """(K, P) mean of (D, K, P) over the datasets that have the row; NaN where none has."""
    known = np.isfinite(values)
    count = known.sum(axis=0)
    total = np.where(known, values, 0).sum(axis=0)
    mean: FloatArray = np.divide(total, count, where=count > 0, out=np.full(total.shape, np.nan))
    return mean
