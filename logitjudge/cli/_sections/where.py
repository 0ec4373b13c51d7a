"""Tables of where bias lives (`logitjudge.report.where`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from logitjudge.cli._console import ABSENT, number, percent, plural
from logitjudge.cli._tables import WIDE, say, table, title

if TYPE_CHECKING:
    from rich.console import Console

SCALES = {"clr": "log-ratios, nats", "expected": "expected score, points"}
NEARNESS = {"near_tie": "near a tie", "entropy": "entropy", "inside": "inside the scale"}
SHOWN = 12  # rows of groups, systems
Json = dict[str, Any]


def show(console: Console, section: Json) -> None:
    """Print everything that `logitjudge.report.where.section` says."""
    if "reason" in section:
        title(console, "Where bias lives: nothing to see")
        say(console, f"{section['reason'][0].upper()}{section['reason'][1:]}.")
        return
    levels = len(section["reweighted"]["scores"])
    _variance(console, section["decomposition"])
    _certainty(console, section["certainty"])
    _groups(console, section["groups"])
    _reweighted(console, section["reweighted"])
    _swings(console, section["swings"], levels)
    _decisions(console, section["thresholds"], section["systems"], levels)
    _shapes(console, section["ordinal"])
    _calibration(console, section["calibration"])


def _variance(console: Console, scales: Json) -> None:
    """Shares of variance on both scales, and what the design cannot part."""
    title(console, "Where the variance lies, % (chance: what items alone would show)")
    found = {on: part for on, part in scales.items() if "terms" in part}
    for on, part in scales.items():
        if on not in found:
            say(console, f"{SCALES[on]}: {part['reason']}", "  ")
    for on, part in found.items():
        rows = [
            [term["name"], f"{term['freedom']:,}", percent(term["share"]), percent(term["chance"])]
            for term in part["terms"]
        ]
        table(console, [SCALES[on], "dims", "share", "chance"], rows)
        _limits(console, part)


def _limits(console: Console, part: Json) -> None:
    """What the design cannot do for which terms."""
    reasons = [
        (term["reason"], term["name"]) for term in part["terms"] if term["reason"] and "item" not in term["name"]
    ]
    for reason, name in reasons:
        say(console, f"{name}: {reason}", "  ")
    if not part["balanced"]:
        say(console, "The design is not balanced: each term is what it adds to those before it.", "  ")


def _certainty(console: Console, found: Json) -> None:
    if "reason" in found:
        return
    title(console, "Does order move uncertain items more? (rank correlations over items)")
    rows = []
    for row in found["associations"]:
        what = NEARNESS[row["nearness"]] + (f", given {NEARNESS[row['given']]}" if row["given"] else "")
        between = ABSENT if row["low"] is None else f"{row['low']:.2f} to {row['high']:.2f}"
        rows.append([row["movement"], what, number(row["value"], ".2f"), between])
    table(console, ["movement in", "goes with", "value", "95 % interval"], rows, left=2)
    for note in dict.fromkeys(row["note"] for row in found["associations"] if row["note"]):
        say(console, note, "  ")
    say(
        console,
        "Worst at near ties: near a tie stays above 0 given inside the scale. Only away from ceiling and floor: inside the scale "
        "stays above 0 given near a tie. In points and flips a certain item can hardly move; in nats nothing holds it.",
    )
    cells = [
        [
            cell["third"],
            cell["place"],
            str(cell["items"]),
            *(number(cell[name]) for name in ("points", "flips", "nats")),
        ]
        for cell in found["cells"]
    ]
    table(console, ["third by margin", "place", "items", "points", "flips", "nats"], cells, left=2)


def _groups(console: Console, found: Json) -> None:
    if not found["rows"]:
        return
    title(console, "Bias by group (distance: sum of |P(p) - 1/K|; movement in points)")
    rows = [
        [
            f"{row['group']}: {row['value']}"[:34],
            str(row["items"]),
            number(row["distance"]),
            number(row["movement"]) + (f" +- {row['error']:.3f}" if row["error"] is not None else ""),
            number(row["score"], ".2f"),
        ]
        for row in found["rows"][:SHOWN]
    ]
    table(console, ["group", "items", "distance", "movement +- s.e.", "score"], rows)
    if more := found["rows"][SHOWN:]:
        say(console, f"{plural(len(more), 'more group')}; --json has all.")
    if any(row["note"] for row in found["rows"]):
        say(console, "A distance is above 0 by chance, too, and the more so the fewer items: compare groups of a size.")


def _reweighted(console: Console, found: Json) -> None:
    title(console, "Every score that some item has weighted alike (positions, %)")
    names = [f"p{p + 1}" for p in range(len(found["positions"]))]
    rows = [
        [
            label,
            *map(percent, found[f"positions{key}"]),
            number(found[f"movement{key}"]),
            number(found[f"score{key}"], ".2f"),
        ]
        for label, key in (("as it is", "_before"), ("weighted", ""))
    ]
    table(console, ["", *names, "movement", "score"], rows, tight=len(names) > WIDE)
    missing = f" No item has the score(s) {', '.join(map(str, found['missing']))}." if found["missing"] else ""
    say(console, f"As precise as {found['effective_items']:.1f} equal items of {sum(found['items'])}.{missing}")


def _swings(console: Console, found: Json, levels: int) -> None:
    if "reason" in found:
        title(console, "How far orderings move an item, and decisions: not to be seen")
        say(console, f"{found['reason'][0].upper()}{found['reason'][1:]}")
        return
    title(console, f"Swing: range of the expected score over {plural(found['orderings'], 'ordering')}, points")
    say(console, f"Mean {found['mean']:.2f}, median {found['median']:.2f}, largest {found['max']:.2f}.")
    if found["within_noise"]:
        say(
            console, f"The noise floor ({found['noise']:.2g}) could explain {percent(found['within_noise'])} % of them."
        )
    tight = levels > WIDE
    rows = [
        [
            row["item"][: 12 if tight else 24],
            number(row["swing"], ".2f"),
            row["lowest"],
            number(row["low"], ".2f"),
            row["highest"],
            number(row["high"], ".2f"),
        ]
        for row in found["widest"]
    ]
    table(console, ["widest", "swing", "lowest under", "score", "highest under", "score"], rows, tight=tight)
    ends = [(name, found[f"{name}_orderings"][0]) for name in ("lowest", "highest")]
    text = ", ".join(f"{name} under {end['ordering']} ({plural(end['items'], 'item')})" for name, end in ends)
    say(console, f"Most often {text}.")


def _decisions(console: Console, thresholds: Json, systems: Json, levels: int) -> None:
    if "reason" in thresholds:
        return
    title(console, "Decisions: items on both sides of a threshold, depending on the ordering")
    rows = [
        [
            f"{row['thresholds']:g}",
            percent(row["crossing"]),
            f"{percent(row['pass_low'])} to {percent(row['pass_high'])}",
            row["strictest"],
            row["kindest"],
        ]
        for row in thresholds["rows"]
    ]
    table(console, ["pass from", "cross, %", "pass, %", "strictest", "kindest"], rows, tight=levels > WIDE)
    if "reason" in systems:
        return
    title(console, "Systems: rank by mean score, and its range over single orderings")
    ranks = [
        [
            row["system"][:30],
            str(row["items"]),
            f"{row['score']:.2f}",
            *(f"{row[name]:g}" for name in ("rank", "best", "worst")),
        ]
        for row in systems["rows"][:SHOWN]
    ]
    table(console, ["system", "items", "score", "rank", "best", "worst"], ranks)
    say(
        console,
        f"{len(systems['changed'])} of {plural(len(systems['rows']), 'system')} change their rank with the ordering, "
        f"and {len(systems['swaps'])} pair(s) change places. Which differences are real is another question.",
    )


def _shapes(console: Console, found: Json) -> None:
    title(console, "Are the probabilities those of ordered scores?")
    rows = [
        ["readings with two humps, %", percent(found["two_humped"])],
        ["items with two humps, orderings averaged, %", percent(found["middle_two_humped"])],
        ["Wasserstein distance between two orderings, points", number(found["distance"])],
        ["... of it, difference of the expected scores", number(found["shift"])],
        ["|expected score - mode|, points", number(found["from_mode"])],
        ["|expected score - median|, points", number(found["from_median"])],
    ]
    table(console, ["", "mean"], rows)
    say(console, f"Two humps: a score at least {found['deep']:g} below what stands on both sides of it.")


def _calibration(console: Console, found: Json) -> None:
    there = {of: part for of, part in found.items() if "reason" not in part}
    if not there:
        return
    one = next(iter(there.values()))
    title(console, f"Probabilities against {one['target']} ({plural(one['items'], 'rated item')})")
    rows = [
        [of, number(part["log_score"]), number(part["ece"]), percent(part["confidence"]), percent(part["hit"])]
        for of, part in there.items()
    ]
    table(console, ["distribution", "log score", "ECE", "winner's prob., %", "raters on it, %"], rows)
    say(
        console,
        f"Log score in nats: {one['floor']:.3f} at best, {one['base']:.3f} for the raters' overall distribution. A liking for a "
        "label stays in all of them. ECE is above 0 by chance, too.",
    )
