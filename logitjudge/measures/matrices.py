"""Where a judge picks: the probability of each position, given the score that it picks.

With q the probabilities of one reading among its K options and pos_o(k) the position of score k in ordering o::

    P(p | k)  is proportional to  mean of q[i, o, k] over all (i, o) with pos_o(k) = p

"soft" takes q itself, "hard" the winner of each reading (ties split). 1/K everywhere means no position bias, in every
design that shows each score at each position.

References
----------
arXiv:2602.02219, section 5.3, Table 5 (matrix) and Figure 5 (position distribution).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from logitjudge import orderings
from logitjudge.core import BoolArray, FloatArray, IntArray, frozen_array
from logitjudge.errors import InputError, NotObserved, unknown
from logitjudge.run import Run, SampledRun

if TYPE_CHECKING:
    import pandas as pd

Estimator = Literal["soft", "hard"]
TIE = 1e-12  # relative
ESTIMATORS: tuple[Estimator, ...] = ("soft", "hard")


@dataclass(frozen=True, slots=True, eq=False)
class ScorePositionMatrix:
    """P(position | score) and what it rests on.

    Parameters
    ----------
    values
        (K, K) [score, position], rows sum to 1. A row that this run cannot give is NaN.
    scores
        (K,) score values, increasing.
    estimator
        "soft" or "hard".
    share
        (K,) a_k, the overall share of each score; sums to 1.
    picks
        (K,) number of picks of each score: expected ("soft") or counted ("hard", a tie of n is 1/n each).
    effective_items
        (K,) ``(sum w)^2 / sum w^2`` over items, w the item's total weight on the score; 0 where nobody picked it.
    reasons
        (K,) why the row is NaN, or None.
    """

    values: FloatArray
    scores: IntArray
    estimator: Estimator
    share: FloatArray
    picks: FloatArray
    effective_items: FloatArray
    reasons: tuple[str | None, ...]

    def __post_init__(self) -> None:
        for name in ("values", "share", "picks", "effective_items"):
            object.__setattr__(self, name, frozen_array(getattr(self, name)))
        object.__setattr__(self, "scores", frozen_array(self.scores, np.int64))

    @property
    def missing(self) -> tuple[int, ...]:
        """Score values whose row is NaN."""
        return tuple(int(s) for s, reason in zip(self.scores, self.reasons, strict=True) if reason)

    def require_all(self) -> None:
        """Raise `NotObserved`, with the reasons, unless every row is there."""
        if reasons := [reason for reason in self.reasons if reason]:
            more = f" (and {len(reasons) - 1} more row(s): scores {', '.join(map(str, self.missing))})" * (
                len(reasons) > 1
            )
            raise NotObserved(f"the {self.estimator} score x position matrix is not complete: {reasons[0]}{more}.")

    def position_distribution(self) -> FloatArray:
        """(K,) P(p) = sum over k of a_k P(p | k); NaN where a picked score's row is. See `position_distribution`."""
        if not self.share.any():
            return np.full(len(self.scores), np.nan)
        picked = self.share > 0
        distribution: FloatArray = self.share[picked] @ self.values[picked]
        return distribution

    def to_frame(self) -> pd.DataFrame:
        """Long frame, one row a cell.

        Columns: estimator, score, position (1-based), prob, share, picks, effective_items, reason.
        """
        import pandas as pd

        levels = len(self.scores)
        by_score = {"share": self.share, "picks": self.picks, "effective_items": self.effective_items}
        return pd.DataFrame(
            {
                "estimator": self.estimator,
                "score": np.repeat(self.scores, levels),
                "position": np.tile(np.arange(1, levels + 1), levels),
                "prob": self.values.ravel(),
                **{name: np.repeat(column, levels) for name, column in by_score.items()},
                "reason": [reason for reason in self.reasons for _ in range(levels)],
            }
        )

    def _repr_html_(self) -> str:
        from logitjudge import markup

        levels = len(self.scores)
        heads = [markup.element("abbr", f"p{p + 1}", title=f"position {p + 1}") for p in range(levels)]
        rows = [self._row(k) for k in range(levels)]
        rows.append(["all", *self._shaded(self.position_distribution()), f"{self.picks.sum():.1f}", ""])
        about = f"{100 / levels:.1f} everywhere: no position bias. Orange is above, blue below"
        missing = "; ".join(reason for reason in self.reasons if reason)
        return markup.block(
            f"P(position | score), {self.estimator}, %",
            markup.table(["score", *heads, "picks", "effective items"], rows),
            markup.note(f"{about}; picks: how much of all readings picks the score."),
            markup.note(f"not observed: {missing}" if missing else ""),
        )

    def _row(self, k: int) -> list[Any]:
        return [self.scores[k], *self._shaded(self.values[k]), f"{self.picks[k]:.1f}", f"{self.effective_items[k]:.1f}"]

    def _shaded(self, shares: FloatArray) -> list[Any]:
        """(K,) cells, shaded by their distance from 1/K; twice or nothing is the strongest."""
        from logitjudge import markup

        even = 1 / len(shares)
        return [markup.Shaded(markup.percent(p), 0.0 if np.isnan(p) else (p - even) / even) for p in shares]


def winners(probs: FloatArray) -> FloatArray:
    """(..., K) 1 for the most probable score of each reading, else 0; n scores that tie get 1/n each.

    A tie is equality to 1e-12 of the larger: the last bit of a sum decides nothing.

    Examples
    --------
    >>> winners(np.array([[0.4, 0.4, 0.2]])).tolist()
    [[0.5, 0.5, 0.0]]
    """
    best = probs >= probs.max(axis=-1, keepdims=True) * (1 - TIE)
    split: FloatArray = best / best.sum(axis=-1, keepdims=True)
    return split


def picks(run: Run) -> FloatArray:
    """(I, O, K) share with which each reading picks each score: its winner, ties split, or a sampled run's picks.

    Of a sampled run, what is left of 1 is the share of texts from which no score could be parsed (``run.parsed``).
    """
    return run.shares if isinstance(run, SampledRun) else winners(run.probs())


def score_position_matrix(
    run: Run, estimator: Estimator = "soft", *, counted: BoolArray | None = None
) -> ScorePositionMatrix:
    """P(position | score), (K, K).

    Parameters
    ----------
    run
        A run with I items, O orderings and K scores.
    estimator
        "soft": mean probabilities. "hard": winners, ties split; in a balanced design the paper's Table 5.
    counted
        (I, O) readings that count; all by default.

    Returns
    -------
    ScorePositionMatrix
        The row of a score that the design leaves out at some position, or (hard) that was never picked, is NaN, and
        its reason says what would help.

    Raises
    ------
    InputError
        An estimator that does not exist.

    References
    ----------
    arXiv:2602.02219, section 5.3, Table 5.
    """
    if estimator not in ESTIMATORS:
        raise InputError(unknown("estimator", estimator, ESTIMATORS))
    weight = run.probs() if estimator == "soft" else picks(run)  # (I, O, K)
    often = _counted(run, counted)  # (I, O)
    weight = weight if counted is None else weight * counted[..., None]
    shown = _totals(np.repeat(often.sum(axis=0)[:, None], len(run.scores), axis=1), run.shown)  # readings of each cell
    by_item = weight.sum(axis=1)  # (I, K)
    picked = by_item.sum(axis=0)
    values = _rows(_totals(weight.sum(axis=0), run.shown), shown)
    return ScorePositionMatrix(
        values,
        run.scores,
        estimator,
        share=picked / picked.sum() if picked.any() else picked,
        picks=picked,
        effective_items=_or_nan(picked**2, (by_item**2).sum(axis=0), otherwise=0.0),
        reasons=_reasons(run.scores, values, shown),
    )


def _counted(run: Run, counted: BoolArray | None) -> FloatArray:
    """(I, O) how much of each reading counts: of a sampled run, the texts from which a score could be parsed."""
    whole = run.parsed if isinstance(run, SampledRun) else np.ones((len(run.items), len(run.orderings)))
    return whole if counted is None else whole * counted


def position_distribution(run: Run, estimator: Estimator = "soft") -> FloatArray:
    """Share of picks at each position, (K,), were every score shown equally often at every position.

    ``P(p) = sum over k of a_k P(p | k)``, a_k the overall share of score k; sums to 1. In a balanced design it is the
    plain mean of the probability (or of the winners) at each position. NaN where a picked score's row was not observed.

    Raises
    ------
    InputError
        An estimator that does not exist.

    References
    ----------
    arXiv:2602.02219, section 5.3, Figure 5.
    """
    return score_position_matrix(run, estimator).position_distribution()


def _totals(by_ordering: FloatArray, shown: IntArray) -> FloatArray:
    """(K, P) sums of (O, K) weights over the orderings that show score k at position p."""
    total = np.zeros((shown.shape[1],) * 2)
    np.add.at(total, (shown, np.arange(len(total))), np.take_along_axis(by_ordering, shown, axis=1))
    return total


def _rows(total: FloatArray, shown: FloatArray) -> FloatArray:
    """(K, P) means of each cell, rows divided by their sum; NaN throughout a row without a cell or weight."""
    mean = _or_nan(total, shown)
    return _or_nan(mean, np.broadcast_to(mean.sum(axis=1, keepdims=True), mean.shape))


def _or_nan(above: FloatArray, below: FloatArray | IntArray, *, otherwise: float = np.nan) -> FloatArray:
    """Ratio of `above` to `below` where below > 0."""
    ratio: FloatArray = np.divide(above, below, where=below > 0, out=np.full(above.shape, otherwise))
    return ratio


def _reasons(scores: IntArray, values: FloatArray, shown: FloatArray) -> tuple[str | None, ...]:
    """(K,) what is wrong with each row."""
    needed = len(orderings.parse("balanced", scores.tolist()))
    enough = f"the design 'balanced' ({needed} orderings) covers all cells"
    reasons: list[str | None] = []
    for score, row, count in zip(scores, values, shown, strict=True):
        gaps = [str(p + 1) for p in np.flatnonzero(count == 0)]
        if not shown.any():
            reasons.append("no item was judged")
        elif gaps:
            reasons.append(f"score {score} was never shown at position(s) {', '.join(gaps)}; {enough}")
        else:
            reasons.append(f"score {score} was never picked" if np.isnan(row).any() else None)
    return tuple(reasons)
