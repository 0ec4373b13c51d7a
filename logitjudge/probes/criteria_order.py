"""The order of several criteria in one prompt: does a criterion's score hang on when it is asked?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from logitjudge import orderings
from logitjudge.core import FloatArray, Item, Level, Rubric
from logitjudge.errors import NotObserved
from logitjudge.probes import POINTS, Effect, Generate, ProbeResult, Variant, measured
from logitjudge.run import Run

Order = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CriteriaOrder:
    """All criteria of a text in one prompt, under the rotations of their order, answered line by line.

    The answers so far stand before the next one: the judge's own most probable ones, and of two criteria every one, so that the second
    criterion's distribution is the exact mean over the first one's answers.
    """

    def variants(self, items: Sequence[Item], generate: Generate | None = None) -> Mapping[str, Variant]:
        """The first criterion of each order. Items of the same instruction and response are one text, their rubrics its criteria."""
        texts = grouped(items)
        levels = sorted({len(rubrics) for _, rubrics in texts.values()})
        most = max(levels, default=0)
        if most < 2:
            raise NotObserved(
                "no text has two rubrics. Give items that share instruction and response, one a criterion."
            )
        skipped = {name: f"{len(r)} criteria, others have {most}" for name, (_, r) in texts.items() if len(r) < most}
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
                made[stage(order, place + 1)] = _next(run, order, exact=len(order) == 2)
        return made

    def effect(self, runs: Mapping[str, Run]) -> ProbeResult:
        """Each criterion's score when it is asked later, minus its score when it is asked first, and the spread over all places."""
        made = scores(runs)
        effects = []
        for c, name in enumerate(made.names):
            first, later = made.expected[c, 0], made.expected[c, 1:].mean(axis=0)
            effects.append(measured(f"{name}: asked later minus asked first", POINTS, later - first, made.items))
        exact = (
            "the exact mean over the answers"
            if made.expected.shape[1] == 2
            else "the judge's own most probable answers"
        )
        return ProbeResult((_largest(effects), *effects), (f"Behind {exact} to the criteria before it.",))


def _largest(effects: Sequence[Effect]) -> Effect:
    """The effect of the largest size comes first, under a name that says so."""
    one = max(effects, key=lambda effect: abs(effect.estimate.value or 0))
    return replace(one, name=f"largest of {len(effects)} criteria, {one.name}", main=False)


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
    titles = [title(rubrics[c]) for c in order]
    lines = "".join(f"{one}: {option}\n" for one, option in zip(titles, given, strict=False))
    fields = {
        "instruction": item.fields["instruction"], "response": item.fields["response"],
        "criteria": "\n".join(f"- {one}: {rubrics[c].criterion}" for one, c in zip(titles, order, strict=True)),
        "answered": lines, "asked": titles[len(given)],
    }  # fmt: skip
    key = "/".join([name, ",".join(str(c + 1) for c in order), *given])
    asked = json.dumps([[one, rubrics[c].criterion] for one, c in zip(titles, order, strict=True)])
    groups = {"text": name, "answers": "\n".join(given), "asked": asked}
    return Item(key, fields, scale(rubrics[order[len(given)]]), None, item.cluster, groups)


def title(rubric: Rubric) -> str:
    """A criterion's name as the judge writes it."""
    return rubric.name.rpartition("_")[2].replace("-", " ").capitalize() or rubric.name


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
    """Expected scores (C, C, I) [criterion, place at which it was asked, text], in score points."""

    names: tuple[str, ...]
    items: tuple[Item, ...]
    expected: FloatArray


def scores(runs: Mapping[str, Run]) -> Scores:
    """Expected scores of all criteria at all places; behind several answers their mean, weighted by the answers' probabilities."""
    orders = {parsed(name)[0] for name in runs}
    count = len(next(iter(orders)))
    firsts = {order: runs[stage(order, 0)] for order in orders}
    some = firsts[tuple(range(count))]
    texts = [str(item.groups["text"]) for item in some.items]
    made = np.full((count, count, len(texts)), np.nan)
    names = {}
    for order in orders:
        for place in range(count):
            run = runs[stage(order, place)]
            made[order[place], place] = _means(run, texts, firsts[order])
            names[order[place]] = str(run.items[0].fields["asked"])
    if np.isnan(made).any():
        raise NotObserved("some text was not read at all places")
    return Scores(tuple(names[c] for c in range(count)), some.items, made)


def _means(run: Run, texts: Sequence[str], first: Run) -> FloatArray:
    """(I,) mean expected score of each text's questions, weighted by how probable the answers before them are."""
    expected = run.probs()[:, 0] @ run.scores
    known = {str(item.groups["text"]): n for n, item in enumerate(first.items)}
    sums, weights = dict.fromkeys(texts, 0.0), dict.fromkeys(texts, 0.0)
    for value, item in zip(expected, run.items, strict=True):
        text, given = str(item.groups["text"]), answers(item)
        weight = _probability(first, known[text], given[0]) if len(given) == 1 else 1.0
        sums[text] += weight * float(value)
        weights[text] += weight
    return np.array([sums[text] / weights[text] if weights[text] else np.nan for text in texts])


def _probability(first: Run, i: int, option: str) -> float:
    rubric = first.items[i].rubric
    assert rubric is not None
    k = [level.option for level in rubric.levels].index(option)
    return float(first.probs()[i, 0, k])


probe = CriteriaOrder
