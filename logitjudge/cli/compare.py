"""``logitjudge compare``: several runs side by side, and drift against a baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from logitjudge.cli import _console, _tables

if TYPE_CHECKING:
    from rich.console import Console

EXAMPLES = """
  logitjudge compare runs/small runs/large
  logitjudge compare runs/today --baseline runs/last-week
"""
Json = dict[str, Any]


def compare(
    folders: Annotated[list[str], typer.Argument(metavar="DIR...", help="Run folders.")],
    baseline: Annotated[
        str | None, typer.Option("--baseline", metavar="DIR", help="How far every run has moved from this one.")
    ] = None,
    draws: Annotated[int, typer.Option("--draws", metavar="N", min=2, help="Resamples of clusters.")] = 1000,
    as_json: _console.AsJson = False,
    partial: _console.Partial = False,
) -> None:
    """Put several runs side by side.

    Models as rows, as in the paper: position distribution, cost of the identity and of the cheapest ordering, agreement,
    mass, noise floor. With --baseline the differences on the items that both runs share, with intervals over clusters.
    """
    from logitjudge.report import compare as comparing

    runs = [_console.rubric_run(folder, partial) for folder in folders]
    made = comparing.comparison(runs, folders, draws=draws)
    made["baseline"] = baseline
    before = None if baseline is None else _console.rubric_run(baseline, partial)
    made["drift"] = before and [
        {"name": name, **comparing.drift(run, before, draws=draws)} for name, run in zip(folders, runs, strict=True)
    ]
    if as_json:
        _console.print_json(made)
        return
    console = _console.out()
    _print(console, made)
    for found in made["drift"] or ():
        _drift(console, found, baseline)


def _print(console: Console, made: Json) -> None:
    rows = made["runs"]
    _tables.say(console, made["note"])
    console.print()
    numbered = [[f"{n}", row["name"], row["model"], row["dataset"]] for n, row in enumerate(rows, start=1)]
    for number, name, model, dataset in numbered:
        _tables.say(console, f"{number}: {name} ({model}, {dataset})", "  ")
    counts = ["items", "clusters", "orderings"]
    body = [[str(n), *(str(row[name]) for name in counts), _mass(row), _floor(row)] for n, row in enumerate(rows, 1)]
    _tables.title(console, "What was read")
    _tables.table(console, ["run", *counts, "mass, %", "noise floor, nats"], body)
    levels = max(len(row["scores"]) for row in rows)
    for name in ("soft", "hard"):
        if there := [(n, row) for n, row in enumerate(rows, 1) if row["position_distribution"][name] is not None]:
            _tables.title(console, f"Position distribution, {name}, %")
            cells = [[str(n), *_shares(row, name, levels), _console.number(row["severity"][name])] for n, row in there]
            heads = [f"p{p + 1}" for p in range(levels)]
            _tables.table(console, ["run", *heads, "sum |p - 1/K|"], cells, tight=levels > _tables.WIDE)
    _tables.title(console, "Soft Bias Cost")
    costs = [[str(n), _console.number(row["identity"]), *_cheapest(row)] for n, row in enumerate(rows, 1)]
    _tables.table(console, ["run", "identity", "cheapest", "ordering"], costs)
    _tables.title(console, "Agreement")
    agreed = [
        [str(n), one["measure"], _console.number(one["value"], ".2f"), _interval(one), one["target"]]
        for n, row in enumerate(rows, 1)
        for one in row["agreement"]
    ]
    if agreed:
        _tables.table(console, ["run", "measure", "value", "95 % interval", "with"], agreed, left=2)
    else:
        _tables.say(console, "none: no item has a rating")


def _mass(row: Json) -> str:
    return _console.ABSENT if row["mass"] is None else _console.percent(row["mass"]["mean"])


def _floor(row: Json) -> str:
    return _console.ABSENT if row["noise_floor"] is None else f"{row['noise_floor']:.2g}"


def _shares(row: Json, name: str, levels: int) -> list[str]:
    shares = [_console.percent(value) for value in row["position_distribution"][name]]
    return shares + [""] * (levels - len(shares))


def _cheapest(row: Json) -> list[str]:
    if row["cheapest"] is None:
        return [_console.ABSENT, _console.ABSENT]
    return [_console.number(row["cheapest"]["cost"]), _console.ordering(row["cheapest"]["ordering"])]


def _interval(row: Json) -> str:
    return _console.ABSENT if row["low"] is None else f"{row['low']:.2f} to {row['high']:.2f}"


def _drift(console: Console, found: Json, baseline: str | None) -> None:
    _tables.title(console, f"{found['name']} against {baseline}")
    _tables.say(
        console,
        f"{_console.plural(found['items'], 'shared item')} in {_console.plural(found['clusters'], 'cluster')}, "
        f"{_console.plural(found['orderings'], 'shared ordering')}; {_console.percent(found['winners_changed'])} % of the winners "
        "are not the same.",
    )
    rows = [
        [
            row["quantity"], _console.number(row["baseline"]), _console.number(row["run"]), _console.number(row["difference"]),
            _console.ABSENT if row["low"] is None else f"{row['low']:.3f} to {row['high']:.3f}",
            _console.ABSENT if row["moved"] is None else "yes" if row["moved"] else "no",
        ]
        for row in found["rows"]
    ]  # fmt: skip
    _tables.table(console, ["", "baseline", "run", "difference", "95 %", "moved"], rows)
    for note in found["notes"]:
        _tables.say(console, note, "  ")
    _tables.say(console, "moved: surely not 0, all rows together (max-t over clusters); intervals hold each alone.")
