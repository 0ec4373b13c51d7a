"""What to run for a budget: the designs that a rubric allows, what they cost, and (from a full run) how far they are from K!.

Without a run nothing is known of the judge, so only what the designs themselves give is said: which of them see every
(score, position) cell, and how much of the prompts is read twice. How close they come to all orderings must be measured: on
a few items read under all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from logitjudge import datasets, orderings as designs, prompts, rubrics, store
from logitjudge.core import Item, Ordering, Rubric
from logitjudge.errors import InputError, OrderingError
from logitjudge.measures.convergence import Lengths, convergence
from logitjudge.prompts import MissingField, Template

Json = dict[str, Any]
NAMES = ("identity", "cyclic", "latin:1", "balanced", "williams", "latin:2", "latin:4", "latin:8", "full")
SHOWN = ("mean_prob", "mean_logp", "mean_winner", "matrix", "cost", "cost_r", "chosen_loss", "mean_prob pearson")
SAMPLE = 20  # items whose prompts are measured
CHARACTERS = "characters"


def for_rubric(rubric: str, budget: int, *, items: int | None = None, data: str = "demo") -> Json:
    """Plan for a rubric and a number of forward passes.

    Parameters
    ----------
    rubric
        A shipped rubric or a file.
    budget
        Forward passes (readings: one an item and ordering).
    items
        How many items are to be scored; as many as the budget allows by default.
    data
        Items that say how long prompts are, as of ``logitjudge run``.

    Raises
    ------
    InputError
        No such rubric or data, or a budget without a single pass.
    """
    _positive(budget, items)
    made = rubrics.load(rubric)
    sample = datasets.load(data).items[:SAMPLE]
    lengths = measure(prompts.load("prometheus"), sample, made)
    rows = [_row(name, made.scores, budget, items, lengths) for name in NAMES if _exists(name, made.scores)]
    rows.sort(key=lambda row: row["n"])
    return {"source": None, "rubric": made.name, "levels": len(made.scores), "budget": budget, "items": items} | {
        "prompt": _prompt(lengths),
        "rows": rows,
        "recommended": _by_design(rows, items),
    }


def for_run(folder: str | Path, budget: int | None = None, *, items: int | None = None, draws: int = 100) -> Json:
    """Plan from a run that read all K! orderings: distances of every design to them.

    Parameters
    ----------
    folder
        The run.
    budget
        Forward passes; without one nothing is recommended.
    items
        How many items are to be scored; those of the run by default.

    Raises
    ------
    NotObserved
        The run does not hold all K! orderings.
    """
    run = store.load_run(folder)
    run.require_kind("rubric")
    items = len(run.items) if items is None else items
    _positive(1 if budget is None else budget, items)
    lengths = _of_run(Path(folder), run.provenance)
    scores = run.scores.tolist()
    levels = len(scores)
    numbers = [n for n in (1, 2, *(levels * 2**j for j in range(6)), len(run.orderings)) if n <= len(run.orderings)]
    frame = convergence(run, numbers=sorted(set(numbers)), draws=draws, lengths=lengths)
    rows = []
    for (design, _), part in frame.groupby(["design", "n"], sort=False):
        values = {row["quantity"]: row for row in part.to_dict("records")}
        n = int(part["n"].iloc[0])
        row: Json = {"design": str(design), "n": n, "items": None if budget is None else budget // n}
        row |= {"work": _null(values["mean_prob"]["unique"] / lengths.plain) if lengths else None}
        row |= {"covered": _null(values["covered"]["value"])}
        row |= {name: {key: _null(values[name][key]) for key in ("value", "low", "high")} for name in SHOWN}
        rows.append(row | {"exact": bool(values["mean_prob"]["exact"])})
    rows.sort(key=lambda row: row["n"])
    return {"source": str(folder), "rubric": None, "levels": levels, "budget": budget, "items": items} | {
        "prompt": _prompt(lengths),
        "rows": rows,
        "recommended": _by_distance(rows, budget, items),
    }


def _positive(budget: int, items: int | None) -> None:
    if budget < 1 or (items is not None and items < 1):
        raise InputError(f"the budget is {budget} and the items are {items}. Give at least one of each.")


def _exists(name: str, scores: Sequence[int]) -> bool:
    try:
        designs.parse(name, scores)
    except OrderingError:
        return False
    return True


def _row(name: str, scores: Sequence[int], budget: int, items: int | None, lengths: Lengths | None) -> Json:
    made = designs.parse(name, scores)
    n = len(made)
    work = lengths.unique(np.array([o.shown for o in made])) / lengths.plain if lengths else None
    return {
        "design": name,
        "n": n,
        "items": budget // n,
        "affordable": budget >= n * (items or 1),
        "work": work,
        "all_cells": not designs.uncovered(made),
        "balanced": designs.is_balanced(made),
        "neighbours": neighbours(made),
    }


def neighbours(made: Sequence[Ordering]) -> bool:
    """Whether every score stands directly behind every other one equally often."""
    levels = len(made[0].shown)
    count = np.zeros((levels, levels), np.int64)
    for ordering in made:
        np.add.at(count, (ordering.shown[:-1], ordering.shown[1:]), 1)
    off = count[~np.eye(levels, dtype=bool)]
    return bool(np.ptp(off) == 0)


def _by_design(rows: Sequence[Json], items: int | None) -> Json | None:
    """The largest design that sees all cells and is affordable; one that is neighbour-balanced where two are as large."""
    fit = [row for row in rows if row["affordable"] and row["all_cells"]]
    if items is None:
        fit = [row for row in fit if row["n"] <= 2 * _levels(rows)]  # more items are worth more than more orderings
    best = max(fit, key=lambda row: (row["n"], row["neighbours"]), default=None)
    return None if best is None else {"design": best["design"], "n": best["n"], "items": items or best["items"]}


def _levels(rows: Sequence[Json]) -> int:
    return next(int(row["n"]) for row in rows if row["design"] == "cyclic")


def _by_distance(rows: Sequence[Json], budget: int | None, items: int) -> Json | None:
    """The affordable design whose mean probabilities come closest to all orderings; fewer passes among equals."""
    fit = [row for row in rows if budget is not None and row["n"] * items <= budget]
    best = min(fit, key=lambda row: (round(row["mean_prob"]["value"], 9), row["n"]), default=None)
    return None if best is None else {"design": best["design"], "n": best["n"], "items": items}


def _prompt(lengths: Lengths | None) -> Json | None:
    return None if lengths is None else {"length": lengths.plain, "unit": lengths.unit, "lines": list(lengths.lines)}


def measure(template: Template, items: Sequence[Item], rubric: Rubric | None) -> Lengths | None:
    """Mean lengths, in characters, of the parts of some items' prompts; None where no item can be rendered."""
    found = [part for item in items if (part := _parts(template, item, rubric or item.rubric))]
    if not found:
        return None
    mean = np.mean(found, axis=0)
    return Lengths(float(mean[0]), tuple(mean[2:].tolist()), float(mean[1]), CHARACTERS)


def _parts(template: Template, item: Item, rubric: Rubric | None) -> list[int] | None:
    """Length before the lines, behind them, and of each line, of one prompt."""
    if rubric is None or not any(item.fields.values()):
        return None
    ordering = Ordering(tuple(range(len(rubric.levels))))
    try:
        prompt = prompts.render(template, item, rubric, ordering)
    except MissingField:
        return None
    text = "\n".join(message.content for message in prompt.messages) + prompt.prefill
    lines = [len(str(line)) + 1 for line in prompts.shown_levels(template, rubric.levels, ordering)]
    start = text.rfind(str(prompts.shown_levels(template, rubric.levels, ordering)))
    if start < 0:
        return None
    return [start, len(text) - start - sum(lines), *lines]


def _of_run(folder: Path, head: Any) -> Lengths | None:
    """Lengths of a run's prompts, in tokens where it counted them (shared out by characters)."""
    rubric = rubrics.from_dict(head["rubric"]) if head.get("rubric") else None
    found = measure(Template(**head["template"]), store.read_items(folder)[:SAMPLE], rubric)
    prompts_read = (head.get("items", 0) - head.get("refused", 0)) * len(head.get("orderings", ()))
    if found is None or not head.get("tokens") or not prompts_read or not head.get("unique_tokens"):
        return found
    scale = head["tokens"] / prompts_read / found.plain
    return Lengths(found.before * scale, tuple(scale * line for line in found.lines), found.behind * scale)


def _null(value: Any) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None
