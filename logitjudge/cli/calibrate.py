"""``logitjudge calibrate``: judges of pairs against a set that people labelled."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from logitjudge.cli import _console
from logitjudge.errors import InputError

EXAMPLES = """
  logitjudge calibrate runs/llmbar
  logitjudge calibrate runs/q8 runs/l8 runs/m7 --target 0.95
  logitjudge calibrate runs/llmbar --disagreements read.jsonl
"""


def calibrate(
    folders: Annotated[list[str], typer.Argument(metavar="DIR...", help="Pairwise runs of the same pairs with gold.")],
    target: Annotated[
        float, typer.Option("--target", metavar="X", help="Accuracy that verdicts must have to be used without people.")
    ] = 0.9,
    rule: Annotated[
        str,
        typer.Option(
            "--rule", metavar="R", help="How two orders make a verdict: log_odds, mean_prob, flips_as_ties ..."
        ),
    ] = "log_odds",
    check: Annotated[
        str, typer.Option("--check", metavar="COLUMN", help="Group column of a deterministic check: 1, 2 or tie.")
    ] = "check",
    disagreements: Annotated[
        str | None,
        typer.Option(
            "--disagreements", metavar="FILE", help="Write the pairs on which the (first) judge and people disagree."
        ),
    ] = None,
    as_json: _console.AsJson = False,
    partial: _console.Partial = False,
) -> None:
    """Compare judges of pairs with people.

    Accuracy and kappa with intervals, swap disagreement, errors by group; the least |content| above which verdicts are as accurate as
    --target, judged on held-out pairs; what the set is made of, and which kinds of pairs it lacks; of several judges, how far their
    errors go together.
    """
    from logitjudge.cli._sections import pair_calibration
    from logitjudge.measures.pair_calibration import disagreements as listed
    from logitjudge.report import export
    from logitjudge.report.pair_calibration import calibration
    from logitjudge.store import load_run

    if not 0.5 < target < 1:
        raise InputError(f"--target is {target}. Give an accuracy between 0.5 and 1, such as 0.9.")
    if len({Path(folder).resolve() for folder in folders}) < len(folders):
        raise InputError("a run is given twice. Give each run once.")
    loaded = [load_run(folder, partial=partial) for folder in folders]
    runs = dict(zip(_console.run_names(folders), loaded, strict=True))
    for run in runs.values():
        run.require_kind("pairwise")
    if disagreements:
        export.require_suffix(Path(disagreements))
    made = calibration(runs, rule=rule, target=target, check=check)
    if disagreements:
        frame = export.table(listed(next(iter(runs.values())), rule))
        export.write(frame, Path(disagreements))
        _console.note(f"{disagreements}: {_console.plural(len(frame), 'pair')}")
    if as_json:
        _console.print_json(made)
        return
    pair_calibration.show(_console.out(), made)
