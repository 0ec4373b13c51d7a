"""``logitjudge detect``: were submitted scores taken from this judge, under the published ordering?"""

from __future__ import annotations

from typing import Annotated

import typer

from logitjudge.cli import _console, _tables

EXAMPLES = """
  logitjudge detect runs/full --scores submitted.csv --ordering 5,4,3,2,1
  logitjudge detect runs/full --scores submitted.jsonl --ordering 3,1,4,5,2 --json
"""
WORDS = {
    "taken": "Taken from this judge under this ordering, as far as chance can be excluded.",
    "order-blind": "Nothing of this ordering is in the scores: they are as likely under others.",
    "cannot tell": "This cannot be told",
}


def detect(
    folder: _console.Folder,
    scores: Annotated[
        str, typer.Option("--scores", metavar="FILE", help="What was submitted: .csv or .jsonl with id and score.")
    ],
    ordering: Annotated[
        str,
        typer.Option("--ordering", metavar="O", help="The published ordering: score values, first position first."),
    ],
    draws: Annotated[int, typer.Option("--draws", metavar="N", min=100, help="Simulated submissions.")] = 2000,
    as_json: _console.AsJson = False,
    partial: _console.Partial = False,
) -> None:
    """Say whether submitted scores were taken from this judge.

    Compares how likely they are under the published ordering with an order-blind scorer, and with the other orderings of
    the run, of which 20 or more are needed. The published ordering must have been drawn at random among them, before anybody
    scored: then somebody who never saw it is accused in at most 5 % of cases.
    """
    from logitjudge.report import detect as detecting

    found = detecting.section(_console.rubric_run(folder, partial), detecting.read(scores), ordering, draws=draws)
    if as_json:
        _console.print_json(found)
        return
    console = _console.out()
    reason = f": {found['reason']}." if found["reason"] else ""
    _tables.say(console, WORDS[found["verdict"]] + reason)
    rows = [
        ["p, were the ordering drawn at random", f"{found['p']:.3g}", f"at least {found['attainable']:.3g}"],
        [
            "log-likelihood ratio, nats",
            f"{found['llr']:.1f}",
            f"above {found['threshold']:.1f} in 5 % of others",
        ],
        ["scores of the judge would be told", f"{100 * found['power']:.0f} %", ""],
    ]
    _tables.table(console, ["", "here", ""], rows)
    held = f" ({_console.plural(found['held_out'], 'item')})" if found["held_out"] else ""
    _tables.say(
        console,
        f"{_console.plural(found['items'], 'submitted score')}; calibrated on {found['calibrated_on']}{held}. The ratio alone "
        "accuses people who differ from those raters, so it is never enough.",
    )
