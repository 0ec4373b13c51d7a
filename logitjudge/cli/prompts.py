"""``logitjudge prompts``: exactly what the judge was asked in one reading."""

from __future__ import annotations

from typing import Annotated

import typer

from logitjudge.cli import _console, _tables

EXAMPLES = """
  logitjudge prompts runs/demo --item thank-you-note-a --ordering 5,4,3,2,1
  logitjudge prompts runs/demo --item thank-you-note-a --ordering 1,2,3,4,5 --json
"""


def prompts(
    folder: _console.Folder,
    item: Annotated[str, typer.Option("--item", metavar="ID", help="Id of an item of the run.")],
    ordering: Annotated[
        str,
        typer.Option("--ordering", metavar="O", help="One ordering of the run: score values, first position first."),
    ],
    labels: Annotated[
        str | None,
        typer.Option(
            "--labels", metavar="L", help="Printed options, first position first (B,A), of a run that swaps them."
        ),
    ] = None,
    as_json: _console.AsJson = False,
    model: Annotated[
        str | None, typer.Option("--model", metavar="M", help="Where the judge is now, if it has moved.")
    ] = None,
    trace: Annotated[
        str | None,
        typer.Option("--trace", metavar="ID", help="Which of the judge's texts, by trace_id; the first by default."),
    ] = None,
    verbose: _console.Verbose = False,
) -> None:
    """Print the exact text and token ids of one reading.

    With these, anyone can repeat it with a plain forward pass. Opens the judge's tokenizer, not its
    weights. The log-probability of an option is that of its token ids behind the context, minus what would make another
    option of it (the event).
    """
    from logitjudge.report.asked import asked

    made = asked(folder, item, ordering, labels=labels, model=model, trace=trace)
    if as_json:
        _console.print_json(made)
        return
    typer.echo(made["text"])
    typer.echo("-" * 80)
    context = made["context_token_ids"]
    console = _console.out()
    console.print(
        "no token ids: this judge has no tokenizer" if context is None else f"context, {len(context)} tokens: {context}"
    )
    rows = [
        [str(o["score"]), repr(o["text"]), _console.ABSENT if o["token_ids"] is None else str(o["token_ids"])]
        for o in made["options"]
    ]
    _tables.table(console, ["score", "option", "token ids"], rows, left=3)
    console.print(f"event: {made['event']}")
