"""Tables of probes and of a bias card (`logitjudge.report.card`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from logitjudge.cli._console import number, plural
from logitjudge.cli._sections.pairs import nats, p
from logitjudge.cli._tables import say, table, title
from logitjudge.report.card import SHORT, verdict

if TYPE_CHECKING:
    from rich.console import Console

SOME = 3  # ids that are named
Json = dict[str, Any]


def show(console: Console, card: Json) -> None:
    """Print a card."""
    console.print(f"Bias card of {card['model']}", style="bold", soft_wrap=True)
    for one in card["probes"]:
        probe(console, one, main=True)
    if card["not_tested"]:
        title(console, "Not tested")
        for name, why in card["not_tested"].items():
            say(console, f"{name}: {why}", "  ")


def probe(console: Console, found: Json, *, main: bool = False) -> None:
    """Print what one probe found; with `main` its main effects alone."""
    items = max((row["items"] for row in found["variants"].values()), default=0)
    title(console, f"{found['probe']} ({plural(items, 'item')})")
    if found["reason"]:
        say(console, f"No number: {found['reason']}.")
    shown = [one for one in found["effects"] if one["main"] or not main]
    rows = [
        [
            *nats(one["estimate"]), SHORT.get(one["unit"], one["unit"]),
            number(one["detectable"], ".3f"), number(one["noise"], ".3f"), p(one["estimate"]["test"]),
        ]
        for one in shown
    ]  # fmt: skip
    for one, row in zip(shown, rows, strict=True):
        say(console, f"{one['name']}: {one.get('verdict') or verdict(one)}{caution(one['estimate'])}")
        table(console, ["effect", "95 % interval", "unit", "could find", "noise", "p"], [row], left=0)
    if more := len(found["effects"]) - len(shown):
        say(console, f"{plural(more, 'more number')}: --json, --out FILE.html.", "  ")
    for why, ids in found["skipped"].items():
        say(
            console,
            f"{plural(len(ids), 'item')} skipped, {why}: {', '.join(ids[:SOME])}{' ...' * (len(ids) > SOME)}.",
            "  ",
        )
    for note in found["notes"]:
        say(console, note, "  ")


def caution(found: Json) -> str:
    """What is to be said of an interval, behind its verdict; a verdict of no interval says it itself."""
    return f" ({found['note']})" if found["note"] and found["low"] is not None else ""
