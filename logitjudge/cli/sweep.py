"""``logitjudge sweep``: a study in one file, restartable."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from logitjudge.cli import _console
from logitjudge.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from logitjudge.sweep import Cost, State

EXAMPLES = """
  logitjudge sweep study.yaml --out sweeps/study --dry-run
  logitjudge sweep study.yaml --out sweeps/study
  logitjudge sweep --status sweeps/study
"""
REPORT = "report.html"


def sweep(
    file: Annotated[str | None, typer.Argument(metavar="FILE", help="The sweep file (YAML).")] = None,
    out: Annotated[
        str | None, typer.Option("--out", metavar="DIR", help="Folder of the runs; a sweep in it goes on.")
    ] = None,
    status: Annotated[
        str | None, typer.Option("--status", metavar="DIR", help="Only say how far the sweep in DIR is.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what the runs need: prompts, tokens, memory, time.")
    ] = False,
    pace: Annotated[
        float | None,
        typer.Option(
            "--tokens-per-second", metavar="N", help="Speed for --dry-run, where no run in --out has measured it."
        ),
    ] = None,
    as_json: _console.AsJson = False,
    verbose: _console.Verbose = False,
) -> None:
    """Judge models x data x designs: one file, one folder a run.

    The same command goes on where it stopped. A run that fails does not stop the others: it is listed at the end, and the exit
    code is 1; 3 where all runs are done and some items were refused. A comparison of all runs is in DIR/report.html.
    """
    from dataclasses import asdict

    from logitjudge import sweep as sweeps

    if status is not None:
        states = sweeps.status(status)
    elif file is None:
        raise InputError("give a sweep file, or --status DIR.")
    elif dry_run:
        costs = sweeps.costs(file, out, pace)
        _console.print_json([asdict(cost) for cost in costs]) if as_json else _costs(costs)
        raise typer.Exit(2 if any(cost.prompts is None for cost in costs) else 0)
    elif out is None:
        raise InputError("give the folder of the runs: --out DIR.")
    else:
        states = _sweep(file, out)
    _console.print_json([asdict(state) for state in states]) if as_json else _states(states)
    failed = any(state.state == "failed" for state in states)
    raise typer.Exit(0 if status is not None else 1 if failed else 3 if any(state.refused for state in states) else 0)


def _sweep(file: str, out: str) -> list[State]:
    from logitjudge import sweep as sweeps
    from logitjudge.cli import _progress

    try:
        with _progress.shown() as progress:
            states = sweeps.sweep(file, out, progress=progress)
    except KeyboardInterrupt:
        _console.note(f"interrupted: what was read is kept in {out}; the same command goes on from there.")
        raise typer.Exit(130) from None
    _report(Path(out), [state.name for state in states if state.state == "done"])
    return states


def _report(out: Path, names: Sequence[str]) -> None:
    """Compare all runs that are done."""
    from logitjudge.errors import AllRefused
    from logitjudge.report import html
    from logitjudge.store import load_run

    runs = {}
    for name in names:
        try:
            runs[name] = load_run(out / name)
        except AllRefused:
            _console.note(f"{name}: no item could be judged; it is not in the report.")
    if runs:
        html.write(html.report(list(runs.values()), list(runs)), out / REPORT)
        _console.note(f"a comparison of {_console.plural(len(runs), 'run')} is in {out / REPORT}")


def _states(states: Sequence[State]) -> None:
    from logitjudge.cli._tables import say, table

    console = _console.out()
    rows = [
        [one.name, one.state, f"{one.read:,} of {one.items:,}" if one.items else _console.ABSENT, f"{one.refused:,}"]
        for one in states
    ]
    table(console, ["run", "state", "items read", "refused"], rows, left=2)
    for one in states:
        if one.reason:
            say(console, f"{one.name}: {one.reason}", "  ")


def _costs(costs: Sequence[Cost]) -> None:
    from logitjudge.cli._tables import say, table
    from logitjudge.progress import duration

    console = _console.out()
    rows = [
        [
            one.name, *(_console.ABSENT if n is None else f"{n:,}" for n in (one.prompts, one.unique_tokens)),
            _console.ABSENT if one.weights is None else f"{one.weights:.1f}",
            _console.ABSENT if one.seconds is None else duration(one.seconds),
        ]
        for one in costs
    ]  # fmt: skip
    table(console, ["run", "prompts", "unique tokens", "weights, GiB", "time"], rows)
    for one in costs:
        if one.reason:
            say(console, f"{one.name}: {one.reason}", "  ")
    if any(one.seconds is None and one.unique_tokens for one in costs):
        say(console, "Time is known where a run in --out has measured a model's speed, or with --tokens-per-second.")
