"""``logitjudge report``: one HTML file that says what a judge does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from logitjudge.cli import _console

EXAMPLES = """
  logitjudge report runs/q8
  logitjudge report runs/q8 runs/l8 --out judges.html
"""


def report(
    folders: Annotated[list[str], typer.Argument(metavar="DIR...", help="Run folders.")],
    out: Annotated[
        str, typer.Option("--out", metavar="FILE", help="The HTML file; report.html in this folder by default.")
    ] = "report.html",
    as_json: _console.AsJson = False,
    partial: _console.Partial = False,
) -> None:
    """Write one HTML file of one or several runs.

    It opens offline and loads nothing: verdict and warnings first, then figures, tables that sort, the items with their texts and
    their probabilities under each ordering, protocol and provenance; of several runs, a comparison first. --json prints the same
    numbers.
    """
    from logitjudge.probing import is_card
    from logitjudge.report import html
    from logitjudge.report.card import bias_card
    from logitjudge.store import load_run

    if len(folders) == 1 and is_card(folders[0]):
        made = bias_card(folders[0])
        if as_json:
            _console.print_json(made)
            return
        html.write(html.card(made), Path(out))
        typer.echo(out)
        return
    runs = [load_run(folder, partial=partial) for folder in folders]
    names = _console.run_names(folders)
    if as_json:
        _console.print_json(html.pages_of(runs, names))
        return
    html.write(html.report(runs, names), Path(out))
    typer.echo(out)
