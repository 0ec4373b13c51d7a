"""What a judge of pairs says of each pair: how much is content, how much is order, and its verdict in each order.

L is the log-odds of candidate 1 over candidate 2, log P(1) - log P(2), in nats. With candidate 1 shown first (the first order) it is
``content + position``, with candidate 2 shown first ``content - position``: content is the mean of both, position half their
difference, above 0 where the judge prefers what is shown first. Where letters belong to the slots, position is the effect of "the first
slot including its letter". The 2 x 2 of orders and labellings tells them apart, L = content + s slot + a letter + s a rest, with s = 1
where candidate 1 is shown first and a = 1 where it is called "A", else -1; position is then the slot's alone.

A verdict is a candidate (1, 2) or a tie (0), never a slot: of equal leading options (to rounding) it is a tie.

References
----------
G. E. P. Box, W. G. Hunter, J. S. Hunter (1978), Statistics for Experimenters (2 x 2 factorial effects).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from logitjudge.core import BoolArray, FloatArray, IntArray, frozen_array
from logitjudge.errors import ItemError, NotObserved
from logitjudge.measures import intervals
from logitjudge.measures.matrices import winners
from logitjudge.measures.ratios import logs, softmax
from logitjudge.run import Run

if TYPE_CHECKING:
    import pandas as pd

TIE, NONE = 0, -1  # verdicts and golds that are no candidate; NONE: there is none
ORDERS = ("first_order", "second_order")  # candidate 1 shown first, candidate 2 shown first
SLOT = "first slot"
SLOT_AND_LETTER = "first slot including its letter"
USUAL = {(1, 1), (-1, -1)}  # (s, a) of the designs
CROSSED = USUAL | {(1, -1), (-1, 1)}
ARRAYS = ("logit", "content", "position", "logq", "first")


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Effects and verdicts of I pairs; axis 1 of an (I, 2) array is the order (`ORDERS`).

    Parameters
    ----------
    ids, clusters
        (I,) pairs, and their clusters as `intervals.number` counts them.
    logit
        (I, 2) log-odds of candidate 1 over 2, nats; in a 2 x 2 design the mean over the two labellings.
    content, position
        (I,) nats; above 0: for candidate 1, for what is shown first.
    slot, letter, rest
        (I,) of the 2 x 2 design: above 0 for the first slot, for "A", and for candidate 1 where the first slot is "A" more than where
        it is "B". None in the usual design.
    logq
        (I, 2, 3) log-probability of a tie, candidate 1 and 2, of which probabilities sum to 1; of the mean over labellings. -inf
        for a tie that is no option.
    first
        (I, 2) probability of the candidate shown first, given that it is no tie; the mean over labellings.
    verdict
        (I, 2) 1, 2 or 0.
    gold
        (I,) 1, 2, 0, or -1 where there is none.
    ties
        Whether the judge could answer with a tie.
    """

    ids: tuple[str, ...]
    clusters: IntArray
    logit: FloatArray
    content: FloatArray
    position: FloatArray
    slot: FloatArray | None
    letter: FloatArray | None
    rest: FloatArray | None
    logq: FloatArray
    first: FloatArray
    verdict: IntArray
    gold: IntArray
    ties: bool

    def __post_init__(self) -> None:
        for name in ARRAYS:
            object.__setattr__(self, name, frozen_array(getattr(self, name)))
        for name in ("clusters", "verdict", "gold"):
            object.__setattr__(self, name, frozen_array(getattr(self, name), np.int64))

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def position_name(self) -> str:
        """What `position` is the effect of."""
        return SLOT_AND_LETTER if self.slot is None else SLOT

    @property
    def probs(self) -> FloatArray:
        """(I, 2, 3) probability of a tie, candidate 1 and 2 in each order."""
        probs: FloatArray = np.exp(self.logq)
        return probs

    @property
    def tie(self) -> FloatArray | None:
        """(I, 2) probability of a tie in each order, or None where it is no option."""
        return self.probs[..., TIE] if self.ties else None

    @property
    def flipped(self) -> BoolArray:
        """(I,) whether the verdicts of the two orders differ."""
        flipped: BoolArray = self.verdict[:, 0] != self.verdict[:, 1]
        return flipped

    @property
    def reversed(self) -> BoolArray:
        """(I,) whether each order has another winner: flips without those to or from a tie."""
        turned: BoolArray = self.flipped & (self.verdict != TIE).all(axis=1)
        return turned

    @property
    def takes_first(self) -> IntArray:
        """(I, 2) 1 where the verdict takes the candidate shown first, -1 where it takes the second, 0 at a tie."""
        taken: IntArray = np.where(self.verdict == TIE, 0, np.where(self.verdict == (1, 2), 1, -1))
        return taken

    def to_frame(self) -> pd.DataFrame:
        """Frame, one row a pair.

        Columns: item, cluster (its number), content, position, of a 2 x 2 design slot, letter, rest; for each order log_odds, tie (where
        it is an option), verdict; flipped; gold (missing where there is none).
        """
        import pandas as pd

        named = ("content", "position") + (() if self.slot is None else ("slot", "letter", "rest"))
        columns = {"item": list(self.ids), "cluster": self.clusters} | {name: getattr(self, name) for name in named}
        for o, order in enumerate(ORDERS):
            columns[f"log_odds_{order}"] = self.logit[:, o]
            if self.tie is not None:
                columns[f"tie_{order}"] = self.tie[:, o]
            columns[f"verdict_{order}"] = self.verdict[:, o]
        columns["flipped"] = self.flipped
        columns["gold"] = [None if gold == NONE else int(gold) for gold in self.gold]
        return pd.DataFrame(columns)

    def _repr_html_(self) -> str:
        return str(self.to_frame().to_html(index=False, float_format="{:.3f}".format))


def pairs(run: Run) -> Pairs:
    """Effects and verdicts of the pairs of a pairwise run.

    Parameters
    ----------
    run
        Scores [1, 2], or [0, 1, 2] where 0 is a tie; both orders, with the letters on the slots, or the 2 x 2 of orders and labellings.

    Raises
    ------
    NotObserved
        The run is not pairwise, or its orderings are neither design.
    NotExact
        Some log-probability is only an upper bound.
    ItemError
        A gold other than 1, 2 and 0.
    """
    logp, signs = _with_ties(run), _signs(run)
    logit = logp[..., 1] - logp[..., 2]  # (I, O)
    slots, letters = signs.T
    orders = [slots == 1, slots == -1]
    crossed = len(signs) > len(USUAL)
    slot, letter, rest = ((logit * x).mean(axis=1) if crossed else None for x in (slots, letters, slots * letters))
    logq = logp - np.logaddexp.reduce(logp, axis=-1, keepdims=True)
    logq = np.stack([np.logaddexp.reduce(logq[:, o], axis=1) - np.log(o.sum()) for o in orders], axis=1)
    first = softmax(np.stack([logit * slots, np.zeros(logit.shape)], axis=-1))[..., 0]
    return Pairs(
        ids=tuple(item.id for item in run.items),
        clusters=intervals.number([item.cluster for item in run.items]),
        logit=_by_order(logit, orders),
        content=logit.mean(axis=1),
        position=(logit * slots).mean(axis=1),
        slot=slot,
        letter=letter,
        rest=rest,
        logq=logq,
        first=_by_order(first, orders),
        verdict=leaders(np.exp(logq)),
        gold=golds(run),
        ties=len(run.scores) > 2,
    )


def _by_order(values: FloatArray, orders: list[BoolArray]) -> FloatArray:
    """(I, 2) means over the labellings of each order."""
    return np.stack([values[:, o].mean(axis=1) for o in orders], axis=1)


def _with_ties(run: Run) -> FloatArray:
    """(I, O, 3) log-probability of a tie, candidate 1 and 2."""
    scores = run.scores.tolist()
    if scores not in ([1, 2], [0, 1, 2]):
        raise NotObserved(f"this run is not pairwise: its scores are {scores}, not 1, 2 (and 0 for a tie).")
    logp = logs(run)
    none = np.full((*logp.shape[:2], 3 - len(scores)), -np.inf)
    return np.concatenate([none, logp], axis=-1)


def _signs(run: Run) -> IntArray:
    """(O, 2) s and a of each ordering: 1 where candidate 1 is shown first, and where it is called "A", else -1."""
    one = run.scores.tolist().index(1)
    made = [
        (1 if o.position_of[one] < o.position_of[one + 1] else -1, 1 if o.option_of[one] == one else -1)
        for o in run.orderings
    ]
    if len(made) != len(set(made)) or set(made) not in (USUAL, CROSSED):
        raise NotObserved(
            f"the run's {len(made)} ordering(s) are not both orders with the letters on the slots, nor the 2 x 2 of orders and "
            "labellings, so content and position cannot be told apart. Run with both orders (logitjudge pairwise)."
        )
    return np.array(made, dtype=np.int64)


def leaders(probs: FloatArray) -> IntArray:
    """(...) 1, 2 or 0 of (..., 3) probabilities of a tie, candidate 1 and 2; 0 where the leading options are equal to rounding.

    Examples
    --------
    >>> leaders(np.array([[0.2, 0.5, 0.3], [0.2, 0.4, 0.4], [0.4, 0.4, 0.2]])).tolist()
    [1, 0, 0]
    """
    best = winners(probs)
    alone = best.max(axis=-1) == 1
    found: IntArray = np.where(alone, best.argmax(axis=-1), TIE)
    return found


def golds(run: Run) -> IntArray:
    """(I,) gold of each pair: 1, 2, 0 (a tie), or -1 where there is none.

    Raises
    ------
    ItemError
        Another gold.
    """
    made = [NONE if item.rating is None else item.rating for item in run.items]
    for item, gold in zip(run.items, made, strict=True):
        if gold not in (NONE, TIE, 1, 2) or (gold == NONE and item.rating is not None):
            raise ItemError(f"item {item.id!r}: gold {gold:g} is none of 1, 2 and 0 (a tie).")
    return np.array(made, dtype=np.int64)
