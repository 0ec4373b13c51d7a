"""The words of the rubric (explicit, vague, leading criterion): does the judge follow how it is asked, instead of the response?

The responses and the orderings stay the same. A leading criterion is the item's own with one sentence behind it, which differs in one
word between the two directions and says nothing of the response; the levels stay as they are. A vague criterion asks only how good
the response is: once over the same levels, which still say what is asked, and once over levels that are vague, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from logitjudge.core import Item, Rubric
from logitjudge.measures.lengths import slope
from logitjudge.probes import POINTS, RESPONSE, Effect, Generate, ProbeResult, Variant, difference, expected, kept
from logitjudge.probes._rubrics import NO_REFERENCE, changed, rubric_of, thin
from logitjudge.run import Run

EXPLICIT, VAGUE, VAGUE_LEVELS, UP, DOWN = "explicit", "vague", "vague levels", "leading up", "leading down"
ASKED = "How good is the response?"
LEAD = "Say how {word} the response is in this respect."
PRAISE, BLAME = "excellent", "poor"
GRADES = {
    2: ("bad", "good"),
    3: ("bad", "fair", "good"),
    4: ("very bad", "bad", "good", "very good"),
    5: ("very bad", "bad", "fair", "good", "very good"),
    6: ("terrible", "very bad", "bad", "good", "very good", "superb"),
    7: ("terrible", "very bad", "bad", "fair", "good", "very good", "superb"),
}
FEWEST = 4  # rated items that a slope takes
NOTES = (
    "The main effects keep the levels: a judge who reads them has no reason to give other scores.",
    "Vague levels ask something else, so a shift of scores under them is no bias by itself: it says how much the explicit levels do. Who "
    "has people's scores sees in the slope whether the vague ones tell good responses apart less well (below 0).",
    NO_REFERENCE,
)


@dataclass(frozen=True, slots=True)
class RubricAnchoring:
    """Each item under its own rubric, under a vague criterion, and under two that lead."""

    NEEDS: ClassVar = RESPONSE

    def variants(self, items: Sequence[Item], generate: Generate | None = None) -> Mapping[str, Variant]:
        """The items under five wordings of their rubrics."""
        steps = {item.id: len(rubric_of(item).levels) for item in items}
        skipped = {name: f"no vague words for {count} levels" for name, count in steps.items() if count not in GRADES}
        graded = {name: count for name, count in steps.items() if name not in skipped}
        return {
            EXPLICIT: changed(items, lambda rubric: rubric),
            UP: changed(items, lambda rubric: leading(rubric, PRAISE)),
            DOWN: changed(items, lambda rubric: leading(rubric, BLAME)),
            VAGUE: changed(items, lambda rubric: replace(rubric, criterion=ASKED)),
            VAGUE_LEVELS: replace(changed(kept(items, graded), vague), skipped=skipped),
        }

    def effect(self, runs: Mapping[str, Run]) -> ProbeResult:
        """Differences in score between wordings; the slope of vague minus explicit on people's scores."""
        own = runs[EXPLICIT]
        effects = [
            difference("score where the criterion leads up, minus where it leads down", runs[DOWN], runs[UP]),
            difference(
                "score under a vague criterion over the same levels, minus under the explicit one", own, runs[VAGUE]
            ),
            difference("score where the criterion leads up, minus the explicit one's", own, runs[UP], main=False),
            difference("score where the criterion leads down, minus the explicit one's", own, runs[DOWN], main=False),
        ]
        if VAGUE_LEVELS in runs:
            name = "score under vague criterion and levels, minus under the explicit ones"
            effects.append(difference(name, own, runs[VAGUE_LEVELS], main=False))
            effects += _apart(own, runs[VAGUE_LEVELS])
        return ProbeResult(tuple(effects), (*NOTES, *thin(runs)))


def leading(rubric: Rubric, word: str) -> Rubric:
    """A rubric whose criterion takes for granted that the response is what a word says."""
    return replace(rubric, criterion=f"{rubric.criterion} {LEAD.format(word=word)}")


def vague(rubric: Rubric) -> Rubric:
    """The same scores and options, with a criterion and levels that say nothing of what is asked."""
    grades = GRADES[len(rubric.levels)]
    levels = [
        replace(level, text=f"The response is {grade}.") for level, grade in zip(rubric.levels, grades, strict=True)
    ]
    return Rubric("vague", ASKED, tuple(levels))


def _apart(explicit: Run, other: Run) -> list[Effect]:
    """How much more the scores of `other` rise with people's than the explicit ones do; none where too few items are rated."""
    name = f"rise of the score for each point of the {other.ratings_name} score, vague minus explicit"
    scores, before = expected(other), expected(explicit)
    rated = [item for item in other.items if item.rating is not None and item.id in before]
    if len(rated) < FEWEST:
        return []
    ratings = np.array([item.rating for item in rated], dtype=np.float64)
    moved = np.array([scores[item.id] - before[item.id] for item in rated])
    return [Effect(name, POINTS, slope(moved, [ratings], [item.cluster for item in rated]), main=False)]


probe = RubricAnchoring
