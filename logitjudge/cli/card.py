"""``logitjudge card``: all that the probes say of a judge, on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from logitjudge.cli import _console

EXAMPLES = """
  logitjudge card cards/q8
  logitjudge card cards/q8 --out q8.html
  logitjudge card cards/q8 --fail-on 'verbosity>0.2' --fail-on 'position:share>0.05'
"""


def card(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The folder that 'probe' wrote with --out.")],
    out: Annotated[str | None, typer.Option("--out", metavar="FILE", help="Write the card as one HTML file.")] = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on",
            metavar="RULE",
            help="PROBE>X or PROBE:UNIT>X (nats, points, share): exit 4 where an effect is larger.",
        ),
    ] = None,
    as_json: _console.AsJson = False,
) -> None:
    """Show all that the probes found, and what was not tested.

    With --fail-on the exit code is 4 where a threshold is crossed, for tests of other projects.
    """
    from logitjudge.cli._sections import card as tables
    from logitjudge.report import card as cards, html

    made = cards.bias_card(folder)
    over = cards.crossed(made, fail_on or [])
    if as_json:
        _console.print_json({**made, "crossed": over})
    else:
        tables.show(_console.out(), made)
    if out is not None:
        html.write(html.card(made), Path(out))
        _console.note(f"the card is in {out}")
    for text in over:
        _console.note(f"crossed: {text}")
    if over:
        raise typer.Exit(4)
