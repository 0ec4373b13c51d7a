"""Tables of pairs with points (`logitjudge.report.scored`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from logitjudge.cli._console import plural
from logitjudge.cli._sections.pairs import cut, nats, notes, share
from logitjudge.cli._tables import say, table, title

if TYPE_CHECKING:
    from rich.console import Console

LISTED = 10
STABLE = {
    "flips": "winner changes with the order",
    "1": "candidate 1 in both",
    "2": "candidate 2 in both",
    "0": "equal totals in both",
}
Json = dict[str, Any]


def show(console: Console, section: Json) -> None:
    """Print everything that `logitjudge.report.scored.section` says."""
    title(console, f"Points: {plural(section['pairs'], 'pair')}, {plural(section['clusters'], 'cluster')}, both orders")
    parts = [*section["criteria"], {"name": "total", **section["total"]}]
    rows = [
        [f"{cut(one['name'])} ({one['points']})", *(f"{value:.2f}" for side in one["mean"] for value in side)]
        for one in parts
    ]
    table(console, ["expected points", "1 | 1,2", "2 | 1,2", "1 | 2,1", "2 | 2,1"], rows)
    say(console, "1 | 2,1: of candidate 1 where candidate 2 is shown first.")
    title(console, "Effects on the difference of points, candidate 1 minus 2, with 95 % intervals")
    rows = [[cut(one["name"]), *nats(one["content"], "+.2f"), *nats(one["order"], "+.2f")] for one in parts]
    table(console, ["", "content", "interval", "order", "interval"], rows)
    say(console, "order: what being shown first adds to the difference; content: the mean over both orders.")
    notes(console, [(one["name"], one["order"]) for one in parts])
    title(console, "Winners by expected total, %")
    rows = [[STABLE[name], *share(one)] for name, one in section["stability"].items()]
    table(console, ["", "", "95 % interval", "of"], rows)
    title(console, "The largest order effects")
    rows = [
        [
            cut(one["id"]),
            *(f"{a:.2f} : {b:.2f}" for a, b in one["totals"]),
            " and ".join(map(str, one["winners"])),
            f"{one['order']:+.2f}",
        ]
        for one in section["list"][:LISTED]
    ]
    table(console, ["pair", "order 1,2", "order 2,1", "winners", "order effect"], rows)
