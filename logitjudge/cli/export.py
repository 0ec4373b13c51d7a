"""``logitjudge export``: scores, soft labels, and a folder that can be shared."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from logitjudge.cli import _console
from logitjudge.errors import InputError

EXAMPLES = """
  logitjudge export runs/demo --scores scores.csv
  logitjudge export runs/demo --scores scores.parquet --method mean_logp
  logitjudge export runs/demo --scores scores.csv --method single:5,4,3,2,1
  logitjudge export runs/demo --soft-labels labels.jsonl
  logitjudge export runs/demo --without-texts runs/demo-to-share
"""


def export(
    folder: _console.Folder,
    scores: Annotated[
        str | None,
        typer.Option("--scores", metavar="FILE", help="One debiased score an item; .csv, .jsonl or .parquet."),
    ] = None,
    soft_labels: Annotated[
        str | None,
        typer.Option(
            "--soft-labels", metavar="FILE", help="The same, with a column for the probability of each score."
        ),
    ] = None,
    without_texts: Annotated[
        str | None,
        typer.Option(
            "--without-texts", metavar="OUTDIR", help="A copy of the run without the items' texts; it still loads."
        ),
    ] = None,
    review: Annotated[
        str | None,
        typer.Option(
            "--review", metavar="FILE", help="Of a pairwise run: the pairs on which the orders disagree, worst first."
        ),
    ] = None,
    method: Annotated[
        str, typer.Option("--method", metavar="NAME", help="Debiaser (see 'list debiasers'): NAME or NAME:ARGUMENT.")
    ] = "mean_prob",
    partial: _console.Partial = False,
) -> None:
    """Write scores to a file, or a run that can be shared."""
    from logitjudge.report import export as exporting
    from logitjudge.store import load_run

    tables = [(Path(path), soft) for path, soft in ((scores, False), (soft_labels, True)) if path]
    if not tables and not without_texts and not review:
        raise InputError(
            "nothing to export: give --scores FILE, --soft-labels FILE, --review FILE or --without-texts OUTDIR."
        )
    for path in [*(path for path, _ in tables), *([Path(review)] if review else [])]:
        exporting.require_suffix(path)
    run = load_run(folder, partial=partial)
    for path, soft in tables:
        exporting.write(exporting.scores(run, method, soft_labels=soft), path)
        typer.echo(f"{path}: {_console.plural(len(run.items), 'item')}, {method}")
    if review:
        run.require_kind("pairwise")
        frame = exporting.review(run)
        exporting.write(frame, Path(review))
        typer.echo(f"{review}: {_console.plural(len(frame), 'inconclusive pair')} of {len(run.items):,}")
    if without_texts:
        exporting.without_texts(folder, without_texts)
        typer.echo(f"{without_texts}: the run without its texts")
