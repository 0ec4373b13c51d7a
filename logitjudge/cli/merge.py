"""``logitjudge merge``: shards of a run into one folder."""

from __future__ import annotations

from typing import Annotated

import typer

EXAMPLES = """
  logitjudge run --model M --data D --out shards/1 --shard 1/2
  logitjudge run --model M --data D --out shards/2 --shard 2/2
  logitjudge merge runs/m shards/1 shards/2
  logitjudge run --model M --data D --out runs/m
"""


def merge(
    out: Annotated[str, typer.Argument(metavar="OUT", help="A new folder.")],
    shards: Annotated[
        list[str], typer.Argument(metavar="SHARD...", help="Folders of 'run --shard i/n', all of one run.")
    ],
) -> None:
    """Put the shards of a run together.

    The same 'run' command with --out OUT then closes the run: it reads nothing that is there, and measures the noise floor.
    """
    from logitjudge.shards import merge as merged

    made = merged(out, shards)
    typer.echo(f"{out}: all {len(made['batches']):,} batches of {len(shards):,} shards, {made['readings']:,} readings")
    typer.echo(f"next: the run command of the shards, with --out {out} and without --shard")
