"""Tables of how sure a run is of its position bias (`logitjudge.report.uncertainty`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from logitjudge.cli._console import ABSENT, number, ordering, percent
from logitjudge.cli._tables import WIDE, say, table, title

if TYPE_CHECKING:
    from rich.console import Console

LISTED = 12  # orderings
Json = dict[str, Any]


def show(console: Console, section: Json) -> None:
    """Print everything that `logitjudge.report.uncertainty.section` says."""
    for estimator in ("soft", "hard"):
        found = section[estimator]
        if "reason" in found:
            title(console, f"Uncertainty, {estimator}: none")
            say(console, f"{found['reason'][0].upper()}{found['reason'][1:]}")
            continue
        _positions(console, estimator, found, section)
        _cells(console, estimator, found["cells"], section["scores"])
        _costs(console, estimator, found["costs"])


def _positions(console: Console, estimator: str, found: Json, section: Json) -> None:
    levels = len(found["positions"]["value"])
    title(console, f"Position distribution, {estimator}, %, with 95 % intervals that hold together")
    rows = [
        [name, *map(percent, found["positions"][key])]
        for name, key in (("share", "value"), ("low", "low"), ("high", "high"))
    ]
    rows.append(["detectable", *map(percent, found["detectable"]["by_position"])])
    table(console, ["", *(f"p{p + 1}" for p in range(levels))], rows, tight=levels > WIDE)
    say(
        console,
        f"{section['clusters']} clusters, resampled {section['draws']:,} times. detectable: the least deviation that a test of "
        f"that position finds with power {found['detectable']['power']:g}.",
    )
    if note := found["positions"]["note"]:
        say(console, f"{note[0].upper()}{note[1:]}.", "  ")
    _tests(console, found, levels)
    within = found["positions"]["within_noise"]
    if within and any(within):
        names = "all of them" if all(within) else ", ".join(f"p{p + 1}" for p, inside in enumerate(within) if inside)
        say(console, f"The noise floor alone could move {names} as far from {100 / levels:.1f} %.")


def _tests(console: Console, found: Json, levels: int) -> None:
    test, equal, wanted = found["test"], found["equivalence"], found["clusters_for"]
    if test["f"] is None:
        say(
            console,
            f"Test of position bias: {test['note']}" + ("" if test["p"] is None else f" (p = {test['p']:g})") + ".",
        )
    else:
        degrees = ", ".join(f"{number:.4g}" for number in test["degrees"])
        more = f" ({test['note']})" if test["note"] else ""
        say(console, f"Null: {test['null']}. Hotelling F({degrees}) = {test['f']:.3g}, p {_p(test['p'])}{more}.")
    if equal["p"] is not None and equal["p"] > 0.05 and equal["note"]:
        say(
            console,
            f"Whether all shares are within {100 * equal['margin']:g} points cannot be tested: {equal['note']}.",
        )
    elif equal["p"] is not None:
        inside = "are" if equal["p"] <= 0.05 else "cannot be said to be"
        say(
            console,
            f"All shares {inside} within {100 * equal['margin']:g} points of {100 / levels:.1f} % (two one-sided tests, p "
            f"{_p(equal['p'])}{'; ' * bool(equal['note'])}{equal['note']}).",
        )
    if wanted["clusters"] is not None:
        say(
            console,
            f"To find {100 * wanted['effect']:g} points off at any position takes about {wanted['clusters']:,} clusters.",
        )


def _p(value: float) -> str:
    return f"= {value:.3f}" if value >= 0.001 else "< 0.001"


def _cells(console: Console, estimator: str, cells: Json, scores: list[int]) -> None:
    levels = len(cells["value"])
    title(console, f"Score x position, {estimator}: cells whose interval leaves {100 / levels:.1f} % out, %")
    found = [(k, p) for k in range(levels) for p in range(levels) if cells["off"][k][p]]
    rows = [[str(scores[k]), f"p{p + 1}", *_cell(cells, k, p)] for k, p in found]
    if rows:
        table(console, ["score", "position", "share", "95 % interval", ""], rows, left=2)
    else:
        say(console, "None: with intervals that hold together for all cells, no cell is surely off.")
    if any(cells["within_noise"][k][p] for k, p in found if cells["within_noise"]):
        say(console, "*: the noise floor alone could move it as far.")
    for k, reason in enumerate(cells["reasons"]):
        if reason:
            say(console, f"score {scores[k]} has no interval: {reason}", "  - ")


def _cell(cells: Json, k: int, p: int) -> tuple[str, str, str]:
    """Share, interval, and a mark where the noise floor reaches as far."""
    low, high = percent(cells["low"][k][p]), percent(cells["high"][k][p])
    marked = cells["within_noise"] and cells["within_noise"][k][p]
    return percent(cells["value"][k][p]), f"{low} to {high}", "*" * bool(marked)


def _costs(console: Console, estimator: str, costs: list[Json]) -> None:
    title(console, f"Bias Cost, {estimator}, with 95 % intervals")
    rows = [
        [
            ordering(row["ordering"]),
            number(row["cost"]),
            _between(row),
            number(row["unbiased"]),
            "*" * bool(row["within_noise"]),
        ]
        for row in costs[:LISTED]
    ]
    table(console, ["ordering", "cost", "95 % interval", "unbiased", ""], rows)
    more = f" The first {LISTED} of {len(costs)} orderings; --json has all." if len(costs) > LISTED else ""
    say(console, f"unbiased: what a judge without position bias would show on average with these items.{more}")
    if any(row["low"] is None and row["cost"] is not None for row in costs):
        say(
            console,
            "No interval: some cells of the ordering do not vary, or have none, because their scores are hardly used.",
        )
    if any(row["within_noise"] for row in costs):
        say(console, "*: the noise floor alone could make a cost as large.")


def _between(row: Json) -> str:
    return ABSENT if row["low"] is None else f"{row['low']:.3f} to {row['high']:.3f}"
