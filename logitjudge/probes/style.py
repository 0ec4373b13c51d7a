"""Polished prose that hedges against a terse text of the same content: does the manner win?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from logitjudge.core import Item
from logitjudge.measures.wording import hedges
from logitjudge.probes import Generate, ProbeResult, Variant, difference, paired, preference, replaced, restated
from logitjudge.run import Run

POLISHED, TERSE = "polished", "terse"  # fields of an item
PROMPTS = {
    POLISHED: "Rewrite the answer above in polished, careful prose that hedges its claims (it seems, perhaps, generally). Keep every "
    "claim. Add no facts, no recommendations and no examples.",
    TERSE: "Rewrite the answer above in as few words as possible, without any hedging. Keep every claim, and add none.",
}


@dataclass(frozen=True, slots=True)
class Style:
    """A polished, hedged text of each response against a terse one, both given in fields or written by a model."""

    def variants(self, items: Sequence[Item], generate: Generate | None = None) -> Mapping[str, Variant]:
        """Pairs (terse, polished), and both alone by the rubric."""
        polished, terse = (restated(items, name, PROMPTS[name], generate) for name in (POLISHED, TERSE))
        reasons = {item.id: _why(item, polished.get(item.id), terse.get(item.id)) for item in items}
        skipped = {name: why for name, why in reasons.items() if why}
        polished, terse = ({k: v for k, v in part.items() if k not in skipped} for part in (polished, terse))
        return {
            "pairs": Variant(paired(replaced(items, terse), polished), pairwise=True, skipped=skipped),
            "terse": Variant(replaced(items, terse)),
            "polished": Variant(replaced(items, polished)),
        }

    def effect(self, runs: Mapping[str, Run]) -> ProbeResult:
        """Preference for the polished text in log-odds and points."""
        made = (
            preference("preference for the polished, hedged text", runs["pairs"]),
            difference("score of the polished text, minus the terse one's", runs["terse"], runs["polished"]),
        )
        fields = [item.fields for item in runs["pairs"].items]
        ratio = float(np.median([len(f["response_2"]) / len(f["response_1"]) for f in fields]))
        return ProbeResult(made, (
            f"The polished text is {ratio:.1f} times as long (median), so length is part of the effect: see verbosity.",
            "Texts that a model wrote may lose or soften a claim. Read some: they are in texts.json and in the runs.",
        ))  # fmt: skip


def _why(item: Item, polished: str | None, terse: str | None) -> str:
    """Why an item cannot be used, or ""."""
    if polished is None or terse is None:
        name = POLISHED if polished is None else TERSE
        return f"no {name} text: no field {name!r}, and no model to write one"
    if not polished.strip() or not terse.strip():
        return "a text is empty"
    if len(terse) >= len(polished):
        return "the terse text is no shorter than the polished one"
    if POLISHED not in item.fields and not hedges(polished):
        return "the polished text that was written hedges nothing"
    return ""


probe = Style
