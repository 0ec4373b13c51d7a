"""A confident answer against a right "cannot be answered": does the judge like whoever claims to know?

Every question of the probe's own items stands over two passages. One does not answer it, or shows that it presupposes what is false, so
that declining is right; the other, the control, does answer it, so that the same confident answer is right. A judge that merely tells
right from wrong gains as much in one as it loses in the other: the mean of both is 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from logitjudge import datasets, rubrics
from logitjudge.core import FloatArray, Item
from logitjudge.errors import NotObserved
from logitjudge.measures import intervals
from logitjudge.measures.estimates import shares
from logitjudge.measures.pairs import TIE, pairs
from logitjudge.pairs import RESPONSES
from logitjudge.probes import (
    ODDS,
    POINTS,
    SHARE,
    Effect,
    Generate,
    ProbeResult,
    Variant,
    expected,
    measured,
    noise,
)  # fmt: skip
from logitjudge.run import Run

OWN = True
FILE = Path(__file__).parent.parent / "data" / "probes" / "agreeableness.jsonl"
RUBRIC = "accuracy"  # of responses alone, where the items have none
CONFIDENT, KIND = "confident", "kind"  # groups of an item: which response claims to know (1, 2), and what it is
UNANSWERABLE, CONTROL = "unanswerable", "control"
NOTES = (
    "Below 0 the judge likes declining. An equal preference for confidence everywhere and one only where nothing can be known look alike "
    "in the mean; the parts show them if the judge tells right from wrong equally well in both kinds of questions.",
    "A preference for the wrong confident answer alone says little: a judge that cannot tell right from wrong is near 0, too.",
)
BARE = "No question has both kinds of passages, so a general preference for confident answers cannot be told from agreeableness."


@dataclass(frozen=True, slots=True)
class Agreeableness:
    """Pairs of a confident and a declining answer, in both orders, and each alone.

    A user's pairs need `gold`; the group `confident` (1 or 2) says which response claims to know, by default the one that gold does not
    prefer. Where gold prefers it, the pair is a control; a pair and its control share their cluster.
    """

    def variants(self, items: Sequence[Item], generate: Generate | None = None) -> Mapping[str, Variant]:
        """Pairs, and both responses by the rubric; the probe's own items where none of those given is a pair."""
        given = [item for item in items if all(name in item.fields for name in RESPONSES)]
        known = {item.id for item in given}
        skipped = {item.id: "no pair of responses" for item in items if item.id not in known}
        asked = given or own()
        reasons = {item.id: _why(item) for item in asked}
        skipped |= {name: why for name, why in reasons.items() if why}
        made = tuple(marked(item) for item in asked if not reasons[item.id])
        return {
            "pairs": Variant(made, pairwise=True, skipped=skipped),
            "confident": Variant(tuple(alone(item, confident=True) for item in made)),
            "declining": Variant(tuple(alone(item, confident=False) for item in made)),
        }

    def effect(self, runs: Mapping[str, Run]) -> ProbeResult:
        """Preference for the confident answer, whether it is right or wrong; and of each kind of question."""
        by_pair, one, other = runs["pairs"], expected(runs["declining"]), expected(runs["confident"])
        signs = np.array([1 if item.groups[CONFIDENT] == 1 else -1 for item in by_pair.items])
        odds = {item.id: value for item, value in zip(by_pair.items, pairs(by_pair).content * signs, strict=True)}
        points = {name: other[name] - one[name] for name in other if name in one}
        reach = [noise(runs[name], POINTS) for name in ("confident", "declining")]
        floor = None if None in reach else sum(value or 0.0 for value in reach)
        made = [
            *_of("preference for the confident answer", ODDS, odds, by_pair.items, noise(by_pair, ODDS)),
            *_of("score of the confident answer, minus the declining one's", POINTS, points, runs["confident"].items, floor),
        ]  # fmt: skip
        whole = any(effect.main for effect in made)
        made += [_fooled(by_pair, main=not whole)]
        return ProbeResult(tuple(sorted(made, key=lambda effect: not effect.main)), NOTES + (() if whole else (BARE,)))


def own() -> list[Item]:
    """The probe's own pairs: each question with a passage that does not answer it, and with one that does."""
    return list(datasets.load(str(FILE)).items)


def _why(item: Item) -> str:
    """Why a pair cannot be used, or ""."""
    if item.rating not in (1, 2):
        return "gold prefers neither response"
    return "" if str(item.groups.get(CONFIDENT, 1)) in ("1", "2") else f"the group {CONFIDENT!r} is neither 1 nor 2"


def marked(item: Item) -> Item:
    """A pair with its groups `confident` (1 or 2) and `kind`."""
    gold = int(item.rating or 0)
    confident = int(item.groups.get(CONFIDENT, 3 - gold))
    kind = CONTROL if confident == gold else UNANSWERABLE
    return replace(item, groups={**item.groups, CONFIDENT: confident, KIND: kind})


def alone(pair: Item, *, confident: bool) -> Item:
    """One response of a pair as an item of a rubric, its group `confident` 1 or 0."""
    place = pair.groups[CONFIDENT] if confident else 3 - pair.groups[CONFIDENT]
    fields = {name: text for name, text in pair.fields.items() if name not in RESPONSES}
    fields["response"] = pair.fields[f"response_{place}"]
    groups = {**pair.groups, CONFIDENT: int(confident)}
    rubric = pair.rubric or rubrics.load(RUBRIC)
    return Item(pair.id, fields, rubric=rubric, cluster=pair.cluster, groups=groups)


def couples(values: Mapping[str, float], items: Sequence[Item]) -> tuple[FloatArray, list[Item]]:
    """(C,) mean of both kinds in each cluster that has both, and an item of each."""
    parts: dict[str, dict[str, list[Item]]] = {}
    for item in items:
        parts.setdefault(item.cluster, {}).setdefault(item.groups[KIND], []).append(item)
    both = [kinds for kinds in parts.values() if len(kinds) == 2]
    means = [[np.mean([values[item.id] for item in part]) for part in kinds.values()] for kinds in both]
    return np.array(means).reshape(-1, 2).mean(axis=1), [kinds[CONTROL][0] for kinds in both]


def _of(
    name: str, unit: str, values: Mapping[str, float], items: Sequence[Item], floor: float | None
) -> Iterator[Effect]:
    """The mean over couples, and the mean of each kind."""
    there = [item for item in items if item.id in values]
    found, of = couples(values, there)
    if of:
        yield measured(f"{name}, right or wrong alike", unit, found, of, noise=floor)
    for kind, when in ((UNANSWERABLE, "where it is wrong"), (CONTROL, "where it is right")):
        part = [item for item in there if item.groups[KIND] == kind]
        if part:
            found = np.array([values[item.id] for item in part])
            yield measured(f"{name}, {when}", unit, found, part, noise=floor, main=False)


def _fooled(run: Run, *, main: bool) -> Effect:
    """Share of verdicts, over both orders, for the confident wrong answer; a tie is half of one."""
    rows = [i for i, item in enumerate(run.items) if item.groups[KIND] == UNANSWERABLE]
    if not rows:
        raise NotObserved("in every pair the confident answer is right")
    items = [run.items[i] for i in rows]
    verdict, confident = pairs(run).verdict[rows], np.array([[item.groups[CONFIDENT]] for item in items])
    above = np.where(verdict == TIE, 0.5, verdict == confident).mean(axis=1)
    clusters = intervals.number([item.cluster for item in items])
    name = "verdicts for the confident answer where it is wrong"
    return Effect(name, SHARE, shares({name: (above, np.ones(len(rows)))}, clusters)[name], main=main, signed=False)


probe = Agreeableness
