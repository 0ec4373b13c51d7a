"""Judging with progress, interruptions and refusals: what `run` and `demo` share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from logitjudge.cli import _console, _progress
from logitjudge.cli._console import plural
from logitjudge.errors import AllRefused

if TYPE_CHECKING:
    from logitjudge.run import Run

SHOWN_REFUSALS = 20
LOW = 0.5  # mass


def judged(model: str, data: Any, *, out: str, judge: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Call `logitjudge.judge`, or a function like it; Ctrl-C says what is kept and exits with 130; with 3 where all is refused."""
    try:
        from logitjudge import embedded, judging

        if model == "embedded" and not (file := embedded.file()).exists():
            _console.note(f"fetching the demonstration judge ({embedded.NAME}, 90 MB) once, to {file.parent}")
        with _progress.shown() as progress:
            return (judge or judging.judge)(model, data, out=out, progress=progress, **options)
    except AllRefused as error:
        _console.note(f"{error} All are listed in {Path(out) / 'refused.jsonl'}.")
        raise typer.Exit(3) from error
    except KeyboardInterrupt:
        there = (Path(out) / "run.json").exists()
        kept = (
            f"what was read is kept in {out}; the same command goes on from there" if there else "nothing was read yet"
        )
        _console.note(f"interrupted: {kept}.")
        raise typer.Exit(130) from None


def note_refusals(run: Run) -> None:
    """List the items that could not be judged, each with the reason, on stderr."""
    if not run.refused:
        return
    _console.note(f"{_console.plural(len(run.refused), 'item')} refused:")
    for row in run.refused[:SHOWN_REFUSALS]:
        _console.note(f"  {row['id']}: {row['reason']}")
    if len(run.refused) > SHOWN_REFUSALS:
        _console.note(f"  and {len(run.refused) - SHOWN_REFUSALS} more: see refused.jsonl in the run folder")


def exit_code(run: Run) -> int:
    """3 where items were refused, else 0."""
    return 3 if run.refused else 0


def tell(out: str, made: Any) -> None:
    """Say what is there now."""
    import numpy as np

    from logitjudge.run import SampledRun

    items, orders = len(made.items), len(made.orderings)
    texts = made.picks.shape[2] if isinstance(made, SampledRun) else made.logp_by_trace.shape[1]
    each = f" x {plural(texts, 'text')}" if texts > 1 else ""
    what = "pick" if isinstance(made, SampledRun) else "reading"
    total = plural(items * orders * texts, what)
    counts = f"{plural(items, 'item')} x {plural(orders, 'ordering')}{each} = {total}"
    refused = f", {plural(len(made.refused), 'item')} refused" if made.refused else ""
    typer.echo(f"{out}: {counts}{refused}")
    if isinstance(made, SampledRun):
        typer.echo(f"texts from which no score could be parsed: {np.isnan(made.picks).mean():.1%}")
        typer.echo(f"next: logitjudge show {out}")
        return
    if not made.exact.all():
        _console.note(
            f"warning: {1 - made.exact.all(axis=-1).mean():.1%} of the readings hold upper bounds (exact = false): the server "
            "gave only its most probable tokens. show, select and export need probabilities and will refuse"
        )
        return
    typer.echo(f"mass on the options: mean {made.mass.mean():.1%}, least {made.mass.min():.1%}")
    if made.mass.min() < LOW:
        _console.note(
            "warning: little of the probability falls on the options: logitjudge show and doctor say where it went"
        )
    typer.echo(f"next: logitjudge show {out}")
