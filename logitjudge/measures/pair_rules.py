"""Rules that make one verdict of a pair out of two orders.

======================== ==============================================================================
`first_order`            the verdict where candidate 1 was shown first, alone
`second_order`           the verdict where candidate 2 was shown first, alone
`flips_as_ties`          the common verdict of both orders; a tie where they differ
`flips_discarded`        the common verdict; none where they differ (an easier set of pairs is left)
`log_odds`               the sign of the content effect: never a tie, but for a content of 0
`mean_prob`              the leader of the probabilities averaged over orders
======================== ==============================================================================
"""

from __future__ import annotations

import numpy as np

from logitjudge.core import FloatArray, IntArray
from logitjudge.errors import InputError, unknown
from logitjudge.measures.pairs import NONE, TIE, Pairs, leaders

RULES = ("first_order", "second_order", "flips_as_ties", "flips_discarded", "log_odds", "mean_prob")
SINGLE = RULES[:2]
ROUNDING = 1e-9  # nats: a content below is 0


def ruled(found: Pairs, rule: str) -> IntArray:
    """(I,) verdict of each pair under a rule: 1, 2, 0 (a tie), or -1 where it is discarded.

    Raises
    ------
    InputError
        There is no such rule.
    """
    if rule not in RULES:
        raise InputError(unknown("rule", rule, RULES))
    if rule == "first_order":
        return found.verdict[:, 0]
    if rule == "second_order":
        return found.verdict[:, 1]
    if rule == "log_odds":
        return np.where(np.abs(found.content) <= ROUNDING, TIE, np.where(found.content > 0, 1, 2))
    if rule == "mean_prob":
        return leaders(found.probs.mean(axis=1))
    return np.where(found.flipped, TIE if rule == "flips_as_ties" else NONE, found.verdict[:, 0])


def stable_winners(found: Pairs) -> tuple[int | None, ...]:
    """(I,) the verdict that both orders agree on (1, 2, 0 for a tie), or None: inconclusive."""
    return tuple(None if verdict == NONE else int(verdict) for verdict in ruled(found, "flips_discarded"))


def wins(verdict: IntArray) -> FloatArray:
    """(...) what a verdict is worth to candidate 1: 1, 0, a half for a tie; NaN where there is none.

    Examples
    --------
    >>> wins(np.array([1, 2, 0, -1])).tolist()
    [1.0, 0.0, 0.5, nan]
    """
    worth: FloatArray = np.array([0.5, 1.0, 0.0, np.nan])[verdict]  # -1 is the last
    return worth


def kept(verdict: IntArray) -> FloatArray:
    """(I,) 1 where there is a verdict, else 0."""
    return np.asarray(verdict != NONE, dtype=np.float64)


def won(verdict: IntArray) -> tuple[FloatArray, FloatArray]:
    """(I,) what candidate 1 wins, and (I,) whether the pair counts: the two sides of a share."""
    return np.nan_to_num(wins(verdict)), kept(verdict)
