"""Judging with progress, interruptions and refusals: what `run` and `demo` share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from logitjudge.cli import _console, _progress
from logitjudge.errors import AllRefused

if TYPE_CHECKING:
    from logitjudge.run import Run

SHOWN_REFUSALS = 20


def judged(model: str, data: str, *, out: str, **options: Any) -> Run:
    """Call `logitjudge.judge`; Ctrl-C says what is kept and exits with 130; with 3 where every item was refused."""
    try:
        from logitjudge import embedded
        from logitjudge.judging import judge

        if model == "embedded" and not (file := embedded.file()).exists():
            _console.note(f"fetching the demonstration judge ({embedded.NAME}, 90 MB) once, to {file.parent}")
        with _progress.shown() as progress:
            return judge(model, data, out=out, progress=progress, **options)
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
