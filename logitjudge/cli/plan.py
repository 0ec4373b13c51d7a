"""``logitjudge plan``: how many orderings to read for a budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from logitjudge.cli import _console, _tables
from logitjudge.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

EXAMPLES = """
  logitjudge plan --rubric helpfulness --budget 5000
  logitjudge plan --rubric helpfulness --budget 5000 --items 300 --json
  logitjudge plan runs/full --budget 5000 --items 300
"""
Json = dict[str, Any]


def plan(
    folder: Annotated[
        str | None, typer.Argument(metavar="[DIR]", help="A run of --orderings full, which says what is lost.")
    ] = None,
    rubric: Annotated[
        str | None, typer.Option("--rubric", metavar="R", help="A shipped rubric, or a .yaml/.json file.")
    ] = None,
    budget: Annotated[
        int | None, typer.Option("--budget", metavar="N", min=1, help="Readings: forward passes, items x orderings.")
    ] = None,
    items: Annotated[
        int | None, typer.Option("--items", metavar="N", min=1, help="How many items are to be scored.")
    ] = None,
    data: Annotated[
        str, typer.Option("--data", metavar="D", help="Items that say how long prompts are, as of 'run'.")
    ] = "demo",
    draws: Annotated[int, typer.Option("--draws", metavar="N", min=2, help="Random sets of orderings a size.")] = 100,
    as_json: _console.AsJson = False,
) -> None:
    """Say how many orderings to read for a budget.

    For a rubric: which designs there are, and what they cost. For a run that read all orderings: also how far each of
    them is from all of them, in scores, matrix, Bias Cost and choice of ordering, and in agreement with people.
    """
    from logitjudge.report import plan as planning

    if folder is not None and rubric is None:
        made = planning.for_run(folder, budget, items=items, draws=draws)
    elif rubric is not None and budget is not None and folder is None:
        made = planning.for_rubric(rubric, budget, items=items, data=data)
    else:
        raise InputError("give a run folder (of --orderings full), or --rubric R with --budget N.")
    if as_json:
        _console.print_json(made)
    elif made["source"] is None:
        _designs(_console.out(), made)
    else:
        _distances(_console.out(), made)


def _designs(console: Console, made: Json) -> None:
    levels = _console.plural(made["levels"], "level")
    _tables.say(console, f"Rubric {made['rubric']}, {levels}; {made['budget']:,} readings")
    rows = [
        [
            row["design"], str(row["n"]), f"{row['items']:,}", _console.number(row["work"], ".1f"),
            *("yes" if row[name] else "no" for name in ("all_cells", "balanced", "neighbours")),
        ]
        for row in made["rows"]
    ]  # fmt: skip
    _tables.table(console, ["design", "n", "items", "work", "all cells", "balanced", "neighbours"], rows)
    _tables.say(
        console,
        "n: orderings, and forward passes an item; items: how many the budget allows; work: unique text of an item's prompts, "
        "in prompts (what they share is computed once); all cells: every score stands at every position, which matrix, cost "
        "and 'select' need; neighbours: every score follows every other equally often.",
    )
    _recommend(console, made)
    _tables.say(
        console,
        "How far a design is from all orderings depends on the judge. To measure it: logitjudge run --orderings full "
        "--limit 24 ..., then logitjudge plan DIR.",
    )


def _distances(console: Console, made: Json) -> None:
    _tables.say(console, f"{made['source']}: distance to all {made['rows'][-1]['n']} orderings (root mean square)")
    rows = [
        [
            row["design"], str(row["n"]), _console.number(row["work"], ".1f"), *(_value(row, name) for name in COLUMNS),
            _value(row, "mean_prob pearson"),
        ]
        for row in made["rows"]
    ]  # fmt: skip
    heads = ["design", "n", "work", "prob", "logp", "winner", "matrix", "cost", "cost r", "loss", "r"]
    _tables.table(console, heads, rows, tight=True)
    _tables.say(
        console,
        "n: orderings, and forward passes an item; work: unique text of an item's prompts, in prompts; prob, logp, winner: "
        "points, of the score after averaging, each against its own limit; matrix: of a cell; cost: of an ordering's Bias "
        "Cost; cost r: correlation of costs with those of all orderings; loss: cost of the chosen ordering above the cheapest; "
        "r: correlation of prob with the ratings. '-': some cell was never seen. Intervals, and 'to the other means': --json and "
        "logitjudge.measures.convergence.",
    )
    if made["budget"] is not None:
        _recommend(console, made)


COLUMNS = ("mean_prob", "mean_logp", "mean_winner", "matrix", "cost", "cost_r", "chosen_loss")


def _value(row: Json, name: str) -> str:
    value = row[name]["value"]
    return _console.ABSENT if value is None or (row["covered"] < 1 and name in COLUMNS[3:]) else f"{value:.3f}"


def _recommend(console: Console, made: Json) -> None:
    best = made["recommended"]
    if best is None:
        least = "" if made["items"] is None else f" for {_console.plural(made['items'], 'item')}"
        _tables.say(console, f"The budget of {made['budget']:,} readings allows no design{least}.")
        return
    spent = best["n"] * best["items"]
    _tables.say(
        console,
        f"For this budget: {best['design']}, {_console.plural(best['n'], 'ordering')} x {_console.plural(best['items'], 'item')} "
        f"= {spent:,} readings.",
    )
