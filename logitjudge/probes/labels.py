"""The name of a score (1, A, i, one): does a token win, whatever its line says and wherever it stands?

Texts and labels are rotated each by itself, K x K times, so that each (position, text, label) is read exactly once, for any K. Then on
log-ratios the mean of a position holds no label and no binding of labels to texts, and so on round. In probabilities, too, a judge
without a preference for positions gives each exactly 1/K: rotating texts and labels together only carries a reading along. A Latin
square (labels in their order, texts rotated) or a Graeco-Latin one has no room for the binding, and shows it as primacy or recency.

What all texts gain alike from wearing their own label adds to all options of a reading, so no design of this kind can show it;
binding is what remains: here, its straight line, by the rank of the text and the rank of the label.

References
----------
C. Zheng et al. (2024), Large Language Models Are Not Robust Multiple Choice Selectors, arXiv:2309.03882 (token and position bias).
A. Agresti (2010), Analysis of Ordinal Categorical Data, chapter 6 (linear-by-linear association).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from logitjudge.core import FloatArray, Item, Ordering
from logitjudge.errors import NotObserved
from logitjudge.measures import ratios
from logitjudge.measures.estimates import Estimate
from logitjudge.probes import ODDS, RESPONSE, SHARE, Effect, Generate, ProbeResult, Variant, difference, measured, noise
from logitjudge.probes._rubrics import NO_REFERENCE, named, scores_of, thin
from logitjudge.run import Run

NUMBERS, UNORDERED = "numbers", "unordered"
NAMES = (NUMBERS, "letters", "roman", "words")
TINY = 1e-12
NOTES = (
    "Binding: log-odds that the ends gain from labels in the order of their texts (the lowest text with the lowest label and the highest "
    "with the highest, less the other way round). A gain that all texts have alike from their own label cannot be seen.",
    "Letters begin with A for the lowest score; who reads A as the best grade shows it in their score.",
    "In ordinary orderings each label moves with its text: a preference for a label then shows as one for a score, not for a position.",
    NO_REFERENCE,
)


@dataclass(frozen=True, slots=True)
class Labels:
    """The items under other names of the scores; numbers and unordered letters crossed with places and texts (K x K orderings each)."""

    NEEDS: ClassVar = RESPONSE

    def variants(self, items: Sequence[Item], generate: Generate | None = None) -> Mapping[str, Variant]:
        """Four kinds of names in the orderings of the probe, and two in the crossed design."""
        cross = crossed(len(scores_of(items))) if items else None
        made = {f"crossed {kind}": named(items, kind, cross) for kind in (NUMBERS, UNORDERED)}
        return made | {kind: named(items, kind) for kind in NAMES}

    def effect(self, runs: Mapping[str, Run]) -> ProbeResult:
        """Position, label and binding of the crossed runs; scores under other names minus those under numbers."""
        made = _effects(runs[f"crossed {NUMBERS}"], NUMBERS)
        if f"crossed {UNORDERED}" in runs:
            letters = _effects(runs[f"crossed {UNORDERED}"], "unordered letters")
            made += [letters[0], *(replace(effect, main=False) for effect in letters[1:])]
        for kind in NAMES[1:]:
            if kind in runs:
                made.append(difference(f"score under {kind}, minus under numbers", runs[NUMBERS], runs[kind]))
        return ProbeResult(tuple(sorted(made, key=lambda effect: not effect.main)), (*NOTES, *thin(runs)))


def crossed(count: int) -> tuple[Ordering, ...]:
    """All pairs of rotations of K texts and K labels.

    Examples
    --------
    >>> [(o.shown, o.labels) for o in crossed(2)]
    [((0, 1), (0, 1)), ((0, 1), (1, 0)), ((1, 0), (0, 1)), ((1, 0), (1, 0))]
    """
    turns = [tuple((p + turn) % count for p in range(count)) for turn in range(count)]
    return tuple(Ordering(texts, labels) for texts in turns for labels in turns)


def cells(run: Run, values: FloatArray) -> FloatArray:
    """(I, P, T, L) values (I, O, K) by position, text and label.

    Raises
    ------
    NotObserved
        The orderings do not show each of these triples exactly once.
    """
    count = len(run.scores)
    found = np.full((len(run.items), count, count, count), np.nan)
    for o, ordering in enumerate(run.orderings):
        texts, labels = np.array(ordering.shown), np.array(ordering.labels or ordering.shown)
        found[:, np.arange(count), texts, labels] = values[:, o, texts]
    if len(run.orderings) != count**2 or np.isnan(found).any():
        raise NotObserved("the orderings do not show each position, text and label together exactly once")
    return found


def positions(run: Run) -> FloatArray:
    """(I, P) share of each position, minus 1/K."""
    share: FloatArray = cells(run, run.probs()).sum(axis=(2, 3)) / len(run.orderings) - 1 / len(run.scores)
    return share


def in_order(run: Run) -> FloatArray:
    """(I, P) share of each position, minus 1/K, where each position always has its own label (a Latin square of texts)."""
    found = cells(run, run.probs())
    places = np.arange(len(run.scores))
    share: FloatArray = found[:, places, :, places].sum(axis=2).T / len(places) - 1 / len(places)
    return share


def preferences(run: Run) -> FloatArray:
    """(I, L) mean log-ratio of each label in nats; each item's sum is 0."""
    mean: FloatArray = cells(run, ratios.clr(run)).mean(axis=(1, 2))
    return mean


def binding(run: Run) -> FloatArray:
    """(I,) what the ends gain from labels in the order of their texts, by a straight line, nats.

    Raises
    ------
    NotObserved
        There are two levels: labels in order then add to both options alike.
    """
    weight = _weights(len(run.scores))
    found: FloatArray = np.einsum("iptl,tl->i", cells(run, ratios.clr(run)), weight) / len(run.scores)
    return found


def _weights(count: int) -> FloatArray:
    """(T, L) of the mean log-ratios over positions, so that they give the double difference of the ends."""
    rank = np.arange(count) - (count - 1) / 2
    line = np.outer(rank, rank)
    turns = (
        np.arange(count) - np.arange(count)[:, None]
    ) % count  # a reading holds one turn, and of its log-odds only differences
    for turn in range(count):
        line[turns == turn] -= line[turns == turn].mean()
    size = float((line**2).sum())
    if size < TINY:
        raise NotObserved("no binding: with two levels, labels in order add to both options alike")
    weights: FloatArray = line / size * (count - 1) ** 2
    return weights


def _effects(run: Run, kind: str) -> list[Effect]:
    """Main effects of a crossed run, the position's first, and what stands behind them."""
    rubric = run.rubric_of(run.items[0])
    assert rubric is not None
    names = [level.option for level in rubric.levels]
    share, fixed, liked = positions(run), in_order(run), preferences(run)
    nats = noise(run, ODDS)
    reach = noise(run, SHARE)

    def one(name: str, unit: str, values: FloatArray, floor: float | None, main: bool = True) -> Effect:
        return measured(f"{name} ({kind})", unit, values, run.items, noise=floor, main=main)

    twice = None if reach is None else 2 * reach
    ends = (0, len(names) - 1)
    return [
        one("share of the first position, minus 1/K, texts and labels crossed", SHARE, share[:, 0], reach),
        *(one(f"preference for the label {names[k]}", ODDS, liked[:, k], nats, k in ends) for k in range(len(names))),
        _binding(run, kind, nats),
        one("share of the last position, minus 1/K, texts and labels crossed", SHARE, share[:, -1], reach, False),
        one(f"share of the first position, minus 1/K, always labelled {names[0]}", SHARE, fixed[:, 0], reach, False),
        one("of that, through the label and its binding", SHARE, fixed[:, 0] - share[:, 0], twice, False),
    ]


def _binding(run: Run, kind: str, nats: float | None) -> Effect:
    """The binding as an effect, without a number where there is none."""
    name = f"binding of labels to texts by rank ({kind})"
    try:
        values = binding(run)
    except NotObserved as error:
        return Effect(name, ODDS, Estimate(None, None, None, 0, 0, str(error)))
    floor = None if nats is None else float(np.abs(_weights(len(run.scores))).sum()) * nats / 2
    return measured(name, ODDS, values, run.items, noise=floor)


probe = Labels
