"""``logitjudge plot``: a figure of a run, for a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from logitjudge.cli import _console

NAMES = (
    "positions",
    "matrix",
    "costs",
    "expected",
    "swing",
    "certainty",
    "plan",
    "debiasers",
    "people",
    "correlations",
    "mass",
    "design",
    "pairs",
)
EXAMPLES = """
  logitjudge plot matrix runs/q8 --out matrix.pdf
  logitjudge plot positions runs/q8 runs/l8 runs/m7 --out positions.svg
"""


def plot(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"{', '.join(NAMES)}.")],
    folders: Annotated[list[str], typer.Argument(metavar="DIR...", help="Run folders; several for 'positions'.")],
    out: Annotated[str, typer.Option("--out", metavar="FILE", help="A .pdf, .svg or .png file.")],
    estimator: Annotated[
        str, typer.Option("--estimator", help="soft (probabilities) or hard (picks), of 'positions' and 'matrix'.")
    ] = "soft",
    partial: _console.Partial = False,
) -> None:
    """Draw a figure of a run, for a paper.

    One column wide, fonts embedded, readable in grey.
    """
    from logitjudge.report import plots
    from logitjudge.store import load_run

    _console.one_of("figure", name, NAMES)
    options = (
        {"estimator": _console.one_of("estimator", estimator, ("soft", "hard"))}
        if name in ("positions", "matrix")
        else {}
    )
    runs = [load_run(folder, partial=partial) for folder in folders]
    figure = plots.draw(name, runs, _console.run_names(folders), **options)
    plots.save(figure, Path(out))
    typer.echo(out)
