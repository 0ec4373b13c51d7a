"""Runs of the planted judge without the rest of the product."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from logitjudge.backends import Query, planted
from logitjudge.core import Item, Level, Prompt, Rubric
from logitjudge.orderings import parse
from logitjudge.run import Run


def rubric_of(levels=5, first=1):
    return Rubric("r", "How good is it?", tuple(Level(s, f"level {s}") for s in range(first, first + levels)))


def rated_items(count, levels=5, seed=0, clusters=None):
    """Items with ratings that are spread over the scale; every third has two raters."""
    rng = np.random.default_rng(seed)
    ratings = np.round(rng.uniform(1, levels, (count, 2)), 2)
    return [
        Item(
            f"i{n}",
            {"instruction": "x"},
            human=tuple(ratings[n]) if n % 3 == 0 else (ratings[n, 0],),
            cluster=f"c{n % clusters}" if clusters else "",
        )
        for n in range(count)
    ]


def unrated_items(count):
    return [Item(f"i{n}", {"instruction": "x"}) for n in range(count)]


def queries_of(items, orderings, rubric):
    prompt = Prompt((), "", tuple(level.option for level in rubric.levels))
    return [Query(item, rubric, ordering, prompt) for item in items for ordering in orderings]


def judge_of(spec):
    return planted.open(SimpleNamespace(name=spec))


def planted_run(spec, items, orderings="balanced", rubric=None, **fields):
    rubric = rubric or rubric_of()
    orderings = parse(orderings, rubric.scores)
    judge = judge_of(spec)
    readings = judge.read(queries_of(items, orderings, rubric), judge.token_budget())
    shape = (len(items), len(orderings), len(rubric.scores))
    return Run(
        readings.logp.reshape(shape), np.zeros(shape), tuple(items), orderings, rubric.scores, rubric=rubric, **fields
    )


def run_of(probs, orderings, items=None, scores=None, **fields):
    """A run with given probabilities (I, O, K)."""
    probs = np.asarray(probs, dtype=float)
    scores = scores or tuple(range(1, probs.shape[2] + 1))
    items = items or unrated_items(len(probs))
    return Run(np.log(probs), np.zeros(probs.shape), tuple(items), parse(orderings, scores), scores, **fields)


def case_run(probs, orderings, items=None, **fields):
    """A run of a JSON case: probabilities may be 0 (a log-probability of -5000), orderings are lists of score values."""
    probs = np.asarray(probs, dtype=float)
    logp = np.log(probs, where=probs > 0, out=np.full(probs.shape, -5000.0))
    scores = tuple(range(1, probs.shape[2] + 1))
    return Run(
        logp,
        np.zeros(probs.shape),
        tuple(items or unrated_items(len(probs))),
        parse(orderings, scores),
        scores,
        **fields,
    )


def case_file(name):
    """A JSON file of hand-checked cases."""
    return json.loads((Path(__file__).parent / "cases" / f"{name}.json").read_text(encoding="utf-8"))
