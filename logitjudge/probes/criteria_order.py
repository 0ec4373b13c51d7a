"""The order of several criteria in one prompt: does a criterion's score hang on when it is asked?"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from logitjudge import orderings
from logitjudge.core import FloatArray, Item, Level, Rubric
from logitjudge.errors import InputError, NotObserved
from logitjudge.probes import POINTS, SHARE, Generate, ProbeResult, Variant, measured, noise
from logitjudge.run import Run

Order = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CriteriaOrder:
    """All criteria of a text in one prompt, under the rotations of their order, answered line by line.

    The answers so far stand before the next one. Of a few criteria all answers are read, so that each distribution is the exact mean
    over the answers before it; of more, the judge's own most probable ones.

    Parameters
    ----------
    exact
        Up to so many criteria, all answers are read: K ** (C - 1) prompts for the last of C.
    texts
        Only so many texts; 0: all. (A limit on items would take single criteria of texts.)
    """

    NEEDS: ClassVar = ("instruction", "response")
    exact: int = 2
    texts: int = 0

    def __post_init__(self) -> None:
        if min(self.exact, self.texts) < 0:
            raise InputError(f"exact {self.exact}, texts {self.texts}: give numbers of at least 0.")

    def variants(self, items: Sequence[Item], generate: Generate | None = None) -> Mapping[str, Variant]:
        """The first criterion of each order. Items of the same instruction and response are one text, their rubrics its criteria."""
        texts = dict(list(grouped(items).items())[: self.texts or None])
        levels = sorted({len(rubrics) for _, rubrics in texts.values()})
        most = max(levels, default=0)
        if most < 2:
            raise NotObserved(
                "no text has two rubrics. Give items that share instruction and response, one a criterion."
            )
        skipped = {name: f"{len(r)} criteria, others have {most}" for name, (_, r) in texts.items() if len(r) < most}
        skipped |= {
            name: "its criteria have different scores"
            for name, (_, r) in texts.items()
            if len(set(map(asked_by, r))) > 1
        }
        kept = {name: text for name, text in texts.items() if name not in skipped}
        made = {}
        for order in rotations(most):
            asked = [question(name, item, rubrics, order, ()) for name, (item, rubrics) in kept.items()]
            made[stage(order, 0)] = Variant(tuple(asked), template="criteria", orderings="identity", skipped=skipped)
        return made

    def then(self, runs: Mapping[str, Run]) -> Mapping[str, Variant]:
        """The next criterion of each order, behind the answers that `runs` give; empty when all are asked."""
        done = max(len(answers(item)) for run in runs.values() for item in run.items)
        made = {}
        for name, run in runs.items():
            order, place = parsed(name)
            if place == done and place + 1 < len(order):
                made[stage(order, place + 1)] = _next(run, order, exact=len(order) <= self.exact)
        return made

    def effect(self, runs: Mapping[str, Run]) -> ProbeResult:
        """Each criterion's score when it is asked later, minus its score when it is asked first, and the mean of these."""
        made = scores(runs)
        later = made.expected[:, 1:].mean(axis=1) - made.expected[:, 0]
        reach = made.noise[:, 1:].mean(axis=1) + made.noise[:, 0]
        mean = "score asked later, minus asked first, mean over criteria"
        rows = [(mean, later.mean(axis=0), reach.mean())]
        rows += [
            (f"{name}: asked later, minus asked first", *row)
            for name, *row in zip(made.names, later, reach, strict=True)
        ]
        effects = [
            measured(name, POINTS, values, made.items, noise=None if np.isnan(far) else float(far))
            for name, values, far in rows
        ]
        exact = len(made.names) <= self.exact
        behind = "the exact mean over the answers" if exact else "the judge's own most probable answers"
        notes = [f"Behind {behind} to the criteria before it."]
        notes += (
            []
            if exact
            else ["The noise is that of the scores behind these answers; an answer that it changes is not in it."]
        )
        return ProbeResult(tuple(effects), tuple(notes))


def rotations(count: int) -> list[Order]:
    """Orders of criteria: the cyclic ones, so that each criterion is asked at each place once."""
    return [one.shown for one in orderings.parse("cyclic", tuple(range(1, count + 1)))]


def stage(order: Order, place: int) -> str:
    """Name of a variant: the order of the criteria, and which place is asked."""
    return f"{','.join(str(c + 1) for c in order)} place {place + 1}"


def parsed(name: str) -> tuple[Order, int]:
    """Order and place of a variant's name."""
    order, _, place = name.partition(" place ")
    return tuple(int(c) - 1 for c in order.split(",")), int(place) - 1


def grouped(items: Sequence[Item]) -> dict[str, tuple[Item, tuple[Rubric, ...]]]:
    """First item of each text, by its id, and all rubrics of the text, by name."""
    found: dict[tuple[str, str], list[Item]] = {}
    for item in items:
        found.setdefault((item.fields.get("instruction", ""), item.fields.get("response", "")), []).append(item)
    made = {}
    for alike in found.values():
        rubrics = {item.rubric.criterion: item.rubric for item in alike if item.rubric is not None}
        made[alike[0].id] = (alike[0], tuple(sorted(rubrics.values(), key=lambda rubric: rubric.name)))
    return made


def question(name: str, item: Item, rubrics: Sequence[Rubric], order: Order, given: Sequence[str]) -> Item:
    """What asks for the next criterion of an order, behind the options `given` to those before it."""
    names = titles(rubrics)
    asked = [names[c] for c in order]
    lines = "".join(f"{one}: {option}\n" for one, option in zip(asked, given, strict=False))
    fields = {
        "instruction": item.fields["instruction"], "response": item.fields["response"],
        "criteria": "\n".join(f"- {one}: {rubrics[c].criterion}" for one, c in zip(asked, order, strict=True)),
        "answered": lines, "asked": asked[len(given)],
    }  # fmt: skip
    key = "/".join([name, ",".join(str(c + 1) for c in order), *given])
    kept = json.dumps([[one, rubrics[c].criterion] for one, c in zip(asked, order, strict=True)])
    groups = {"text": name, "answers": "\n".join(given), "asked": kept}
    return Item(key, fields, scale(rubrics[order[len(given)]]), None, item.cluster, groups)


def titles(rubrics: Sequence[Rubric]) -> list[str]:
    """The criteria's names as the judge writes them: without brackets, and without the words that all begin with."""
    words = [re.sub(r"\(.*?\)", "", one.name).replace("_", " ").replace("-", " ").split() for one in rubrics]
    same = len(os.path.commonprefix(words))
    made = [" ".join(one[same:]).capitalize() for one in words]
    return made if all(made) and len(set(made)) == len(made) else [one.name for one in rubrics]


def asked_by(rubric: Rubric) -> tuple[tuple[int, str], ...]:
    """Scores and options of a rubric: a prompt prints them once for all its criteria."""
    return tuple((level.score, level.option) for level in rubric.levels)


def scale(rubric: Rubric) -> Rubric:
    """The scores of a rubric without its own descriptions: one scale serves all criteria of a prompt."""
    last = len(rubric.levels) - 1
    ends = {0: "the lowest score", last: "the highest score"}
    levels = tuple(
        Level(one.score, ends.get(n, f"step {n + 1} of {last + 1}"), one.option) for n, one in enumerate(rubric.levels)
    )
    return Rubric(rubric.name, rubric.criterion, levels)


def answers(item: Item) -> list[str]:
    """Options given before an item's question."""
    return [option for option in str(item.groups["answers"]).split("\n") if option]


def _next(run: Run, order: Order, *, exact: bool) -> Variant:
    """Questions behind each of this run's answers: the most probable one, or all of them."""
    best = run.probs()[:, 0].argmax(axis=1)
    made = []
    for i, item in enumerate(run.items):
        assert item.rubric is not None
        options = [level.option for level in item.rubric.levels]
        for option in options if exact else [options[best[i]]]:
            made.append(_behind(item, order, [*answers(item), option]))
    return Variant(tuple(made), template="criteria", orderings="identity")


def _behind(item: Item, order: Order, given: Sequence[str]) -> Item:
    """The question after `item`'s, behind one more answer."""
    criteria = json.loads(str(item.groups["asked"]))
    lines = "".join(f"{name}: {option}\n" for (name, _), option in zip(criteria, given, strict=False))
    name, text = criteria[len(given)]
    assert item.rubric is not None
    rubric = Rubric(name, text, item.rubric.levels)
    key = "/".join([str(item.groups["text"]), ",".join(str(c + 1) for c in order), *given])
    fields = {**item.fields, "answered": lines, "asked": name}
    return Item(key, fields, rubric, None, item.cluster, {**item.groups, "answers": "\n".join(given)})


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Expected scores (C, C, I) [criterion, place at which it was asked, text], in score points.

    `noise` (C, C): how far the noise floor alone could move their means, NaN where none was measured.
    """

    names: tuple[str, ...]
    items: tuple[Item, ...]
    expected: FloatArray
    noise: FloatArray


def scores(runs: Mapping[str, Run]) -> Scores:
    """Expected scores of all criteria at all places; behind several answers their mean, weighted by the answers' probabilities."""
    orders = {parsed(name)[0] for name in runs}
    count = len(next(iter(orders)))
    some = runs[stage(tuple(range(count)), 0)]
    texts = [str(item.groups["text"]) for item in some.items]
    made, reach = np.full((count, count, len(texts)), np.nan), np.full((count, count), np.nan)
    names: dict[int, str] = {}
    for order in orders:
        weights: Weights = {(text, ()): 1.0 for text in texts}
        in_order = [runs[stage(order, place)] for place in range(count)]
        for place, run in enumerate(in_order):
            reach[order[place], place] = _noise(run, in_order[:place])
            made[order[place], place] = _means(run, texts, weights)
            asked = {item.fields["asked"] for item in run.items}  # texts may have criteria of other names
            names[order[place]] = asked.pop() if len(asked) == 1 else f"criterion {order[place] + 1} of each text"
            weights = _behind_them(run, weights)
    if np.isnan(made).any():
        raise NotObserved("some text was not read at all places")
    return Scores(tuple(names[c] for c in range(count)), some.items, made, reach)


Weights = dict[tuple[str, tuple[str, ...]], float]  # probability of a text's answers so far


def _means(run: Run, texts: Sequence[str], weights: Weights) -> FloatArray:
    """(I,) mean expected score of each text's questions, weighted by how probable the answers before them are."""
    sums, total = dict.fromkeys(texts, 0.0), dict.fromkeys(texts, 0.0)
    for value, item in zip(run.probs()[:, 0] @ run.scores, run.items, strict=True):
        text = str(item.groups["text"])
        weight = weights[text, tuple(answers(item))]
        sums[text] += weight * float(value)
        total[text] += weight
    return np.array([sums[text] / total[text] if total[text] else np.nan for text in texts])


def _noise(run: Run, before: Sequence[Run]) -> float:
    """How far the noise floor could move `_means`' mean over texts: by the scores, and by the weights of the answers before them.

    Weights that move by a total variation v move a mean of values by at most v times their range; of one answer a text that is 0.
    """
    by_text: dict[str, list[float]] = {}
    for value, item in zip(run.probs()[:, 0] @ run.scores, run.items, strict=True):
        by_text.setdefault(str(item.groups["text"]), []).append(float(value))
    reach = [noise(one, SHARE) for one in before]
    points = noise(run, POINTS)
    if points is None or None in reach:
        return np.nan
    return points + sum(one or 0.0 for one in reach) * float(np.mean([np.ptp(values) for values in by_text.values()]))


def _behind_them(run: Run, weights: Weights) -> Weights:
    """How probable each answer to this run's questions is, with those before it."""
    made: Weights = {}
    for row, item in zip(run.probs()[:, 0], run.items, strict=True):
        assert item.rubric is not None
        text, before = str(item.groups["text"]), tuple(answers(item))
        for level, value in zip(item.rubric.levels, row, strict=True):
            made[text, (*before, level.option)] = weights[text, before] * float(value)
    return made


probe = CriteriaOrder
