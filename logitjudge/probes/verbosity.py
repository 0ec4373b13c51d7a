"""Longer responses with the same content: does length alone win?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from logitjudge.core import Item
from logitjudge.errors import InputError
from logitjudge.measures.estimates import Estimate
from logitjudge.measures.lengths import slope
from logitjudge.probes import (
    POINTS,
    RESPONSE,
    Effect,
    Generate,
    ProbeResult,
    Variant,
    difference,
    expected,
    kept,
    paired,
    preference,
    replaced,
    restated,
)  # fmt: skip
from logitjudge.run import Run

FIELD = "longer"  # field of an item that has a restatement of its response
LEAST = 1.5  # times as long, in characters
RESTATE = (
    "Restate the answer above in different words, adding no new facts, no new recommendations and no new caveats. Keep every claim "
    "identical."
)  # the article's instruction; where it came out short, the next one asks for length
LONGER = (
    "Restate the answer above in twice as many words: say every sentence of it in full, and once more in different words. Add no new "
    "facts, no new recommendations and no new caveats. Keep every claim identical."
)


@dataclass(frozen=True, slots=True)
class Verbosity:
    """Each response against a longer restatement, given in the field `longer` or written by a model.

    Parameters
    ----------
    least
        A restatement that is not so many times as long is skipped, and counted.
    write
        Whether a model writes what is not given; else only the slopes are left of items without the field.
    """

    NEEDS: ClassVar = RESPONSE
    least: float = LEAST
    write: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.least < np.inf:
            raise InputError(f"least {self.least}: give how many times as long, at least 1.")

    def variants(self, items: Sequence[Item], generate: Generate | None = None) -> Mapping[str, Variant]:
        """Pairs (response, longer), and both alone by the rubric; ``all`` items, for the regression on length."""
        writer = generate if self.write else None
        found = restated(items, FIELD, RESTATE, writer)
        found |= restated([item for item in items if self._short(item, found.get(item.id))], FIELD, LONGER, writer)
        short = {item.id for item in items if self._short(item, found.get(item.id))}
        skipped = {
            item.id: f"restated less than {self.least:g} times as long"
            if item.id in found
            else "no restatement: no field 'longer', and no model to write one"
            for item in items
            if item.id in short
        }
        longer = {name: text for name, text in found.items() if name not in skipped}
        return {
            "pairs": Variant(paired(items, longer), pairwise=True, skipped=skipped),
            "as it is": Variant(kept(items, longer)),
            "longer": Variant(replaced(items, longer)),
            "all": Variant(tuple(items), orderings="identity"),
        }

    def _short(self, item: Item, text: str | None) -> bool:
        return text is None or len(text) < self.least * len(item.fields["response"])

    def effect(self, runs: Mapping[str, Run]) -> ProbeResult:
        """Preference for the longer in log-odds and points; the slope of scores on length, with and without people's scores."""
        effects = []
        if "pairs" in runs:
            effects.append(preference("preference for the longer restatement", runs["pairs"]))
        if "longer" in runs:
            effects.append(
                difference("score of the longer restatement, minus the response's", runs["as it is"], runs["longer"])
            )
        notes = ["The slopes on length prove nothing alone: longer responses may be better ones."]
        return ProbeResult((*effects, *_slopes(runs["all"])), tuple(notes))


def _slopes(run: Run) -> list[Effect]:
    """Slopes of expected score on the logarithm of length; with people's scores held fixed, too, where items have them."""
    scores = np.array(list(expected(run).values()))
    lengths = np.log2([max(1, len(item.fields["response"])) for item in run.items])
    clusters = [item.cluster for item in run.items]
    made: list[tuple[str, Estimate]] = [
        ("score for each doubling of length, over all responses", slope(scores, [lengths], clusters))
    ]
    rated = np.isfinite(run.ratings)
    if rated.sum() > 3:
        part = [name for name, there in zip(clusters, rated, strict=True) if there]
        found = slope(scores[rated], [lengths[rated], run.ratings[rated]], part)
        made.append((f"the same at equal {run.ratings_name} score", found))
    return [Effect(name, POINTS, one, main=False) for name, one in made]


probe = Verbosity
