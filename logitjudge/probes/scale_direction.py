"""Which end of the scale is best (5 = best, 1 = best, no numbers): does a high number win, whatever its line says?

The lines and their order stay the same, and each line's number is turned round. All scores are those of the lines, so that a judge who
reads the lines gives the same under both. On log-odds between the ends (a straight line through the log-ratios by rank), half of the
difference is what goes by the number: a preference for high numbers is the same for all items, and the usual sense of a number (5 is
good, whatever stands beside it) rises with what the judge thinks of the item. So its slope on the item's log-odds when the highest is
best is the share that goes by the number: 0 reads the lines, 1 reads the numbers alone. The slope is a ratio of covariances between two
halves of the orderings, so that the noise of an ordering neither makes a share nor makes it smaller.

References
----------
D. Staiger, J. H. Stock (1997), Instrumental Variables Regression with Weak Instruments, Econometrica 65, 557-586.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from logitjudge import orderings
from logitjudge.core import FloatArray, Item, Ordering
from logitjudge.measures import ratios
from logitjudge.measures.estimates import Estimate
from logitjudge.probes import (
    ODDS,
    RESPONSE,
    SHARE,
    Effect,
    Generate,
    ProbeResult,
    Variant,
    difference,
    measured,
    noise,
)
from logitjudge.probes._rubrics import NO_REFERENCE, named, scores_of, thin
from logitjudge.run import Run

HIGH, LOW, LETTERS = "high is best", "low is best", "no numbers"
STRONG = 10.0  # F of a regressor that is strong enough for a ratio of covariances (Staiger and Stock, 1997)
TINY = 1e-12
UNEVEN = "the two halves of the orderings do not show every line equally often at every place, so no share can be taken: design=balanced"
SAME = "the judge tells the items hardly apart where the highest number is best, so a share of that cannot be taken"
NOTES = (
    "Scores are those of the lines: the best line has the highest score, whatever its number.",
    "A preference for high numbers lowers the score where the lowest is best and raises it where the highest is; so does a judge who goes "
    "by the usual sense of numbers and likes the items on the whole. The share that goes by the number tells the two apart.",
    "Without numbers the lines have unordered letters (Q, H, M ...), in both directions. Weak judges take letters less well than numbers.",
    NO_REFERENCE,
)


@dataclass(frozen=True, slots=True)
class ScaleDirection:
    """The same lines with the highest number best, the lowest number best, and with unordered letters.

    Parameters
    ----------
    design
        Orderings of the lines, each under both directions.
    """

    NEEDS: ClassVar = RESPONSE
    design: str = "balanced"

    def variants(self, items: Sequence[Item], generate: Generate | None = None) -> Mapping[str, Variant]:
        """The items under both directions of numbers, and under letters in both directions at once."""
        scores = scores_of(items) if items else (1, 2)
        usual = orderings.parse(self.design, scores)
        turned = tuple(map(turn, usual))
        return {
            HIGH: named(items, "numbers", usual),
            LOW: named(items, "numbers", turned),
            LETTERS: named(items, "unordered", (*usual, *turned)),
        }

    def effect(self, runs: Mapping[str, Run]) -> ProbeResult:
        """The difference between directions in points, the share that goes by the number, and both directions against letters."""
        high, low = runs[HIGH], runs[LOW]
        made = [
            difference("score where the lowest number is best, minus where the highest is", high, low),
            _by_number(high, low),
            _high_numbers(high, low),
        ]
        if LETTERS in runs:
            for name, run in (("highest", high), ("lowest", low)):
                what = f"score where the {name} number is best, minus without numbers"
                made.append(difference(what, runs[LETTERS], run, main=False))
        return ProbeResult(tuple(made), (*NOTES, *thin(runs)))


def turn(ordering: Ordering) -> Ordering:
    """The same lines in the same order, the lowest label on the best one.

    Examples
    --------
    >>> turn(Ordering((2, 0, 1)))
    Ordering(shown=(2, 0, 1), labels=(0, 2, 1))
    """
    last = len(ordering.shown) - 1
    return replace(ordering, labels=tuple(last - k for k in ordering.shown))


def ends(run: Run) -> FloatArray:
    """(I, O) log-odds of the best line over the worst, by a straight line through the log-ratios, nats."""
    count = len(run.scores)
    rank = np.arange(count) - (count - 1) / 2
    found: FloatArray = ratios.clr(run) @ rank / (rank**2).sum() * (count - 1)
    return found


def halves(run: Run) -> FloatArray:
    """(2, I) the same, averaged over each half of the orderings: forward and reversed rotations, each with all lines at all places.

    Two levels have one ordering a half; an item's own preference for a place then makes the share a little too large.
    """
    return np.stack([part.mean(axis=1) for part in np.array_split(ends(run), 2, axis=1)])


def _shared(high: Run, low: Run) -> tuple[Run, Run]:
    """Both runs with the items that both have."""
    ids = {item.id for item in high.items} & {item.id for item in low.items}
    one, other = (run.select([item.id in ids for item in run.items]) for run in (high, low))
    return one, other


def by_number(high: Run, low: Run) -> FloatArray:
    """(2, I) what goes by the number in each half of the orderings: half of the difference between directions, nats."""
    found: FloatArray = (halves(high) - halves(low)) / 2
    return found


def _high_numbers(high: Run, low: Run) -> Effect:
    one, other = _shared(high, low)
    values = (ends(one) - ends(other)).mean(axis=1) / 2
    rank = np.arange(len(high.scores)) - (len(high.scores) - 1) / 2
    most = np.abs(rank).sum() / (rank**2).sum() * (len(rank) - 1) / 2  # of `ends`, for each nat of log-odds
    floors = [noise(run, ODDS) for run in (high, low)]
    reach = None if None in floors else float(most * sum(floor or 0.0 for floor in floors) / 2)
    return measured(
        "preference for the highest number over the lowest", ODDS, values, one.items, noise=reach, main=False
    )


def _even(run: Run) -> bool:
    """Whether each half of the orderings shows every line equally often at every place; of two levels each has one ordering."""
    half = -(-len(run.orderings) // 2)  # as `halves` splits them
    parts = [part for part in (run.orderings[:half], run.orderings[half:]) if part]
    return len(parts) == 2 and (len(run.scores) == 2 or all(map(orderings.is_balanced, parts)))


def _by_number(high: Run, low: Run) -> Effect:
    """The covariance of what goes by the number with the item's log-odds in the other half, over that of the two halves."""
    name = "share of the verdict that goes by the number, whatever its line says"
    one, other = _shared(high, low)
    clusters = len({item.cluster for item in one.items})
    if not _even(one):
        return Effect(name, SHARE, Estimate(None, None, None, len(one.items), clusters, UNEVEN))
    number, whole = (values - values.mean(axis=1, keepdims=True) for values in (by_number(one, other), halves(one)))
    above = (number * whole[::-1]).sum(axis=0)
    below = (whole * whole[::-1]).sum(axis=0)
    if below.mean() <= 0 or _strength(whole, clusters) < STRONG:
        return Effect(name, SHARE, Estimate(None, None, None, len(one.items), clusters, SAME))
    share = above.mean() / below.mean()
    return measured(name, SHARE, share + (above - share * below) / below.mean(), one.items)  # linearised, for the error


def _strength(whole: FloatArray, clusters: int) -> float:
    """F of the regression of one half (2, I) on the other: how well the judge tells the items apart, beside the noise of orderings."""
    squared = float((whole[0] * whole[1]).sum() ** 2 / max((whole**2).sum(axis=1).prod(), TINY))
    return clusters * squared / max(1 - squared, TINY)


probe = ScaleDirection
