"""``logitjudge select``: which ordering to use, without human labels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from logitjudge.cli import _console, _tables

if TYPE_CHECKING:
    from rich.console import Console

    from logitjudge.measures.selection import Selection
    from logitjudge.run import Run

EXAMPLES = """
  logitjudge select runs/demo
  logitjudge select runs/demo --top 3 --json
  logitjudge select runs/full --probes
"""


def select(
    folder: _console.Folder,
    top: Annotated[int, typer.Option("--top", metavar="N", min=1, help="How many orderings.")] = 10,
    as_json: _console.AsJson = False,
    partial: _console.Partial = False,
    draws: Annotated[int, typer.Option("--draws", metavar="N", min=2, help="Resamples of clusters.")] = 1000,
    probes: Annotated[
        bool,
        typer.Option("--probes", help="Also how many probe items (and, of a full run, orderings) are enough."),
    ] = False,
) -> None:
    """Say which ordering to use, without human labels.

    Ranks all K! orderings by soft Bias Cost, cheapest first, exactly, and says which of them cannot be told from the
    cheapest: simultaneous paired differences over clusters. Needs a run in which every score stood at every position
    (such as 'balanced'). An ordering can also be chosen to push scores: publish the rubric with its ordering.
    """
    from logitjudge.measures.costs import rank_orderings
    from logitjudge.measures.matrices import score_position_matrix
    from logitjudge.measures.selection import select as choose
    from logitjudge.report import advice
    from logitjudge.report.summary import spread

    run = _console.rubric_run(folder, partial)
    matrix = score_position_matrix(run, "soft")
    ranked = rank_orderings(matrix, top)
    found = choose(run, draws=draws)
    told = {o: (bool(a), bool(b)) for o, a, b in zip(found.orderings, found.alike, found.better, strict=True)}
    rows = [
        {"ordering": list(row.values), "cost": row.cost, **_told(told.get(row.ordering)), "average": found.average}
        for row in ranked
    ]
    if as_json:
        _console.print_json(rows)
        return
    console = _console.out()
    for sentence in advice.words(advice.recommendation(run, found)):
        _tables.say(console, sentence)
    console.print()
    console.print("Orderings by soft Bias Cost, cheapest first", style="bold")
    cells = [
        [str(n), _console.ordering(row["ordering"]), f"{row['cost']:.4f}", _mark(row["alike"]), _mark(row["better"])]
        for n, row in enumerate(rows, start=1)
    ]
    _tables.table(console, ["rank", "ordering", "cost", "like the cheapest", "below the mean"], cells, left=2)
    _tables.print_spread(console, spread(matrix) or {}, len(matrix.scores))
    _verdict(console, found, len(run.orderings), math.factorial(len(run.scores)))
    _held_out(console, run)
    if probes:
        _probes(console, run)
    _tables.say(console, "Publish the ordering that you use with the rubric.")


def _told(pair: tuple[bool, bool] | None) -> dict[str, Any]:
    alike, better = (None, None) if pair is None else pair
    return {"alike": alike, "better": better}


def _mark(value: bool | None) -> str:
    return _console.ABSENT if value is None else "yes" if value else "no"


def _verdict(console: Console, found: Selection, read: int, every: int) -> None:
    from logitjudge.measures import intervals

    few = f"; {note}" if (note := intervals.few(found.clusters)) else ""
    sure = f"{_console.plural(found.clusters, 'cluster')}, {found.draws} resamples, 95 % for all together{few}"
    _tables.title(console, "What can be told")
    if found.average:
        _tables.say(console, f"No ordering is distinguishably better: average. ({found.reason}; {sure}.)")
        return
    _tables.say(
        console,
        f"{found.reason} ({sure}); surely cheaper than the mean over all orderings, {found.mean:.4f}: {int(found.better.sum())}."
        + ("" if read == every else f" These hold for the orderings that were read: {read} of {every:,}."),
    )


def _held_out(console: Console, run: Run) -> None:
    from logitjudge.errors import NotObserved
    from logitjudge.measures import intervals
    from logitjudge.measures.selection import held_out

    try:
        found = held_out(run)
    except NotObserved as error:
        _tables.say(console, f"Nothing can be held out: {error}")
        return
    values = _console.ordering(found.ordering.values(run.scores.tolist()))
    if found.ordering.shown == tuple(range(len(run.scores))):
        _tables.say(console, f"Held out: half of the clusters choose the scores in their order, {values}.")
        return
    few = f"; {note}" if (note := intervals.few(found.clusters)) else ""
    _tables.say(
        console,
        f"Held out: half of the clusters choose {values}; on the others it costs {found.saving:.4f} less than the scores in their order "
        f"(95 % interval {found.low:.4f} to {found.high:.4f}, {_console.plural(found.clusters, 'cluster')}{few}).",
    )


def _probes(console: Console, run: Any) -> None:
    from logitjudge.errors import NotObserved
    from logitjudge.measures import probing

    _tables.title(console, "How many probes are enough (judged on items that were held out)")
    for what, of in (("probes", probing.probe_items), ("orderings", probing.probe_orderings)):
        try:
            frame = of(run)
        except NotObserved as error:
            _tables.say(console, f"{what}: {error}")
            continue
        _tables.table(console, [what, "among", "loss", "95 % of draws", "gain, %", "rank"], _cells(frame, what), left=2)
        least = probing.enough(frame[frame["among"] == "all"] if "among" in frame else frame, what)
        _tables.say(
            console, f"{what}: {least} are enough for 90 % of what a choice can gain." if least else f"{what}: none."
        )
    _tables.say(
        console,
        "loss: Bias Cost above the cheapest there; gain: share of the way from the mean over all orderings to the cheapest.",
    )


def _cells(frame: Any, what: str) -> list[list[str]]:
    return [
        [
            str(row[what]),
            str(row.get("among", "all")),
            f"{row['loss']:.4f}",
            f"{row['low']:.4f} to {row['high']:.4f}",
            _console.percent(row["gain"]) if row["gain"] == row["gain"] else _console.ABSENT,
            f"{row['rank']:.1f}",
        ]
        for row in frame.to_dict("records")
    ]
