"""A reference beside the response: does showing it, its wording or a score named for it move the score?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from logitjudge.core import Item
from logitjudge.errors import NotObserved
from logitjudge.measures.lengths import slope
from logitjudge.measures.wording import overlap
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
    restated,
)
from logitjudge.run import Run

REFERENCE, PARAPHRASE, NAMED = "reference", "reference_paraphrase", "reference_named"  # fields of an item
TEMPLATE = "reference"
HIGHEST, LOWEST = "highest", "lowest"
RESTATE = "Restate the answer above in different words, at about the same length. Add no facts, and leave none out."
NOTES = (
    "The probe's own template shows a reference without a score: the template prometheus also says that it deserves the highest one.",
    "What a reference does to scores is no mistake by itself: it may teach the judge what is right. That its wording does, or a score "
    "named for it, is one where the response is unlike it; where it is like it, the judge may only do as it is told.",
)


@dataclass(frozen=True, slots=True)
class ReferenceAnchoring:
    """Each response without its reference, with it, with a paraphrase of it, and with the highest and the lowest score named for it."""

    NEEDS: ClassVar = RESPONSE

    def variants(self, items: Sequence[Item], generate: Generate | None = None) -> Mapping[str, Variant]:
        """Five variants under the rubric; the paraphrase is the field `reference_paraphrase`, or written by a model."""
        usable = tuple(item for item in items if item.fields.get(REFERENCE))
        skipped = {item.id: "no reference" for item in items if not item.fields.get(REFERENCE)}
        texts = paraphrases(usable, generate)
        failed = {item.id: _why(texts.get(item.id)) for item in usable if _why(texts.get(item.id))}
        restated = [item for item in usable if item.id not in failed]
        made = {
            "without": Variant(tuple(without(item) for item in usable), skipped=skipped),
            "with": Variant(usable),
            "paraphrase": Variant(tuple(_with(item, REFERENCE, texts[item.id]) for item in restated), skipped=failed),
            f"named {HIGHEST}": Variant(tuple(_with(item, NAMED, HIGHEST) for item in usable)),
            f"named {LOWEST}": Variant(tuple(_with(item, NAMED, LOWEST) for item in usable)),
        }
        return {name: replace(variant, template=TEMPLATE) for name, variant in made.items()}

    def effect(self, runs: Mapping[str, Run]) -> ProbeResult:
        """Differences in expected score, item by item, and how they hang on the words that response and reference share."""
        if "with" not in runs:
            raise NotObserved("no item has a reference")
        plain, high, low = runs["with"], runs[f"named {HIGHEST}"], runs[f"named {LOWEST}"]
        made = [difference("score with the reference, minus without it", runs["without"], plain)]
        if "paraphrase" in runs:
            name = "score with a paraphrase of the reference, minus with the reference"
            made.append(difference(name, plain, runs["paraphrase"]))
        name = "score with the highest score named for the reference, minus with the lowest"
        made.append(difference(name, low, high))
        for word, run in ((HIGHEST, high), (LOWEST, low)):
            name = f"score with the {word} score named for the reference, minus with none named"
            made.append(difference(name, plain, run, main=False))
        made.append(_by_words("gain by the reference, from no shared word to all shared", runs["without"], plain))
        if "paraphrase" in runs:
            name = "gain by the reference's wording over the paraphrase's, from no shared word to all shared"
            made.append(_by_words(name, runs["paraphrase"], plain))
        return ProbeResult(tuple(made), NOTES)


def paraphrases(items: Sequence[Item], generate: Generate | None) -> dict[str, str]:
    """A paraphrase of each item's reference by id: given, or written; none where neither is there."""
    texts = restated(items, PARAPHRASE, RESTATE, generate, of=REFERENCE)
    same = {item.id: "" for item in items if texts.get(item.id) == item.fields[REFERENCE].strip()}
    return texts | same


def _why(text: str | None) -> str:
    """Why there is no paraphrase, or ""."""
    if text is None:
        return "no paraphrase: no field 'reference_paraphrase', and no model to write one"
    return "" if text else "the paraphrase is empty, or the reference itself"


def without(item: Item) -> Item:
    """The item without its reference."""
    return replace(item, fields={name: text for name, text in item.fields.items() if name != REFERENCE})


def _with(item: Item, name: str, text: str) -> Item:
    return replace(item, fields={**item.fields, name: text})


def _by_words(name: str, one: Run, other: Run) -> Effect:
    """Slope of `other` minus `one` in score on how much more of the response's words the reference of `other` holds."""
    first, second = expected(one), expected(other)
    before = {item.id: _shared(item) for item in one.items}
    both = kept(other.items, {name: True for name in first if name in second})
    gain = np.array([second[item.id] - first[item.id] for item in both])
    more = np.array([_shared(item) - before[item.id] for item in both])
    return Effect(name, POINTS, slope(gain, [more], [item.cluster for item in both]), main=False)


def _shared(item: Item) -> float:
    """Share of the response's words that stand in its reference; 0 without one."""
    return overlap(item.fields["response"], item.fields.get(REFERENCE, ""))


probe = ReferenceAnchoring
