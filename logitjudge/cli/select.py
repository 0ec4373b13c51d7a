"""``logitjudge select``: which ordering to use, without human labels."""

from __future__ import annotations

from typing import Annotated

import typer

from logitjudge.cli import _console, _tables

EXAMPLES = """
  logitjudge select runs/demo
  logitjudge select runs/demo --top 3 --json
"""


def select(
    folder: _console.Folder,
    top: Annotated[int, typer.Option("--top", metavar="N", min=1, help="How many orderings.")] = 10,
    as_json: _console.AsJson = False,
    partial: _console.Partial = False,
) -> None:
    """Say which ordering to use, without human labels.

    Ranks all K! orderings by soft Bias Cost, cheapest first, exactly. Needs a run in which every score stood at every
    position (such as 'balanced'). An ordering can also be chosen to push scores: publish the rubric with its ordering.
    """
    from logitjudge.measures.costs import rank_orderings
    from logitjudge.measures.matrices import score_position_matrix
    from logitjudge.report.summary import spread
    from logitjudge.store import load_run

    matrix = score_position_matrix(load_run(folder, partial=partial), "soft")
    ranked = rank_orderings(matrix, top)
    if as_json:
        _console.print_json([{"ordering": list(row.values), "cost": row.cost} for row in ranked])
        return
    console = _console.out()
    console.print("Orderings by soft Bias Cost, cheapest first", style="bold")
    rows = [[str(n), _console.ordering(row.values), f"{row.cost:.4f}"] for n, row in enumerate(ranked, start=1)]
    _tables.table(console, ["rank", "ordering", "cost"], rows, left=2)
    found = spread(matrix)
    assert found is not None  # rank_orderings has seen every row
    _tables.print_spread(console, found, len(matrix.scores))
    _tables.say(console, "These are estimates without intervals. Publish the ordering that you use with the rubric.")
