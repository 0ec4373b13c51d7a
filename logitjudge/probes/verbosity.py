"""Longer responses with the same content: does length alone win?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from logitjudge.core import Item
from logitjudge.measures.estimates import Estimate
from logitjudge.measures.lengths import slope
from logitjudge.probes import (
    POINTS,
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
)  # fmt: skip
from logitjudge.run import Run

FIELD = "longer"  # field of an item that has a restatement of its response
LEAST = 1.5  # times as long, in characters
RESTATE = (
    "Restate the answer above in different words, adding no new facts, no new recommendations and no new caveats. Keep every claim "
    "identical."
)  # ../shared/seeds/001: the article's instruction


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

    least: float = LEAST
    write: bool = True

    def variants(self, items: Sequence[Item], generate: Generate | None = None) -> Mapping[str, Variant]:
        """Pairs (response, longer), and both alone by the rubric; ``all`` items, for the regression on length."""
        given = {item.id: item.fields[FIELD] for item in items if item.fields.get(FIELD)}
        asked = [item for item in items if item.id not in given]
        written = (
            generate([f"{item.fields['response']}\n\n{RESTATE}" for item in asked])
            if generate and asked and self.write
            else []
        )
        found = {**given, **{item.id: text.strip() for item, text in zip(asked, written, strict=False)}}
        skipped = {
            item.id: "no restatement: no field 'longer', and no model to write one"
            for item in asked
            if item.id not in found
        }
        short = {item.id: len(found[item.id]) / len(item.fields["response"]) for item in items if item.id in found}
        skipped |= {
            name: f"restated only {ratio:.2f} times as long" for name, ratio in short.items() if ratio < self.least
        }
        longer = {name: text for name, text in found.items() if name not in skipped}
        return {
            "pairs": Variant(paired(items, longer), pairwise=True, skipped=skipped),
            "as it is": Variant(kept(items, longer)),
            "longer": Variant(replaced(items, longer)),
            "all": Variant(tuple(items), orderings="identity"),
        }

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
