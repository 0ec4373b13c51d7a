"""Tables of judges of pairs against people (`logitjudge.report.pair_calibration`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from logitjudge.cli._console import ABSENT, number, percent, plural
from logitjudge.cli._sections.pairs import accuracy_rows, cut, interval, nats, notes, share
from logitjudge.cli._tables import say, table, title

if TYPE_CHECKING:
    from rich.console import Console

Json = dict[str, Any]


def show(console: Console, section: Json) -> None:
    """Print everything that `logitjudge.report.pair_calibration.calibration` says."""
    several = len(section["judges"]) > 1
    for name, found in section["judges"].items():
        if several:
            title(console, f"== {name} ==")
        _agreement(console, found["agreement"])
        _threshold(console, found["threshold"])
        _checks(console, found["checks"])
        _disagreements(console, found["disagreements"], section["rule"])
    _composition(console, next(iter(section["judges"].values()))["composition"])
    _panel(console, section["panel"])


def _none(console: Console, what: str, found: Json) -> bool:
    """Print why a part is not there, if it is not."""
    if "reason" not in found or len(found) > 1:
        return False
    title(console, f"{what}: none")
    say(console, f"{found['reason'][0].upper()}{found['reason'][1:]}")
    return True


def _agreement(console: Console, found: Json) -> None:
    if _none(console, "Agreement with gold", found):
        return
    every = [row for row in found["accuracies"]["rows"] if row["group"] is None]
    title(console, "Agreement with gold, %")
    accuracy_rows(console, "rule", [[row["rule"]] for row in every], every)
    value, between, of = share(found["swap_disagreement"])
    say(console, f"Swap disagreement {value} % (95 % interval {between}) of {of} pairs with gold.")
    title(console, "Cohen's kappa with gold")
    table(
        console, ["rule", "kappa", "95 % interval"], [[rule, *nats(one, ".2f")] for rule, one in found["kappa"].items()]
    )
    notes(console, list(found["kappa"].items()))
    groups = [row for row in found["accuracies"]["rows"] if row["group"] is not None and row["rule"] == "log_odds"]
    if groups:
        title(console, "Errors by group, log_odds, %")
        accuracy_rows(console, "group", [[cut(f"{row['group']}: {row['value']}")] for row in groups], groups)


def _threshold(console: Console, found: Json) -> None:
    if _none(console, "Threshold for automatic use", found):
        return
    wanted = f"{100 * found['target']:g} % right with {100 * found['confidence']:g} % confidence"
    title(console, f"Threshold for automatic use: {wanted}")
    say(console, "Of the verdicts by log_odds, whatever the rule above.")
    if found["margin"] is None:
        say(console, f"None: {found['reason']}.")
    else:
        say(
            console,
            f"From |content| = {found['margin']:.2f} nats on: {found['automatic']:,} of {plural(found['pairs'], 'pair')}, "
            f"{percent(found['accuracy'])} % right, surely {percent(found['bound'])} %. Flips among these: {found['flips']:,}.",
        )
    rows = [
        [f"{one['margin']:.2f}", f"{one['pairs']:,}", percent(one["accuracy"]), percent(one["bound"])]
        for one in found["levels"]
    ]
    table(console, ["|content| from", "pairs", "right, %", "surely, %"], rows)
    right, cover = found["held_out_accuracy"], found["held_out_coverage"]
    if right["value"] is None:
        say(console, "Held out: no fold has a threshold, so nothing would be automatic.")
    else:
        say(
            console,
            f"Held out: {percent(right['value'])} % right ({interval(right)}) of the {percent(cover['value'])} % of pairs "
            f"({interval(cover)}) that would be automatic.",
        )


def _checks(console: Console, found: Json) -> None:
    if "reason" in found:
        return
    title(console, f"A check beside the judge ({found['checked']:,} of {plural(found['pairs'], 'pair')} have one), %")
    rows = [
        [f"{one['what']} against {one['against']}", one["where"], percent(one["correct"]["value"]), interval(one["correct"]),
         percent(one["false_wins"]["value"]), f"{one['correct']['of']:,}"]
        for one in found["rows"]
    ]  # fmt: skip
    table(console, ["", "of", "same", "95 % interval", "false wins", "pairs"], rows, left=2, tight=True)


def _disagreements(console: Console, found: Json, rule: str) -> None:
    title(console, f"Disagreements with gold under {rule}: {found['pairs']:,}, the most confident first")
    rows = [
        [
            cut(one["id"]),
            str(one["verdict"]),
            str(one["gold"]),
            one["kind"],
            f"{one['confidence']:.2f}",
            "yes" if one["flipped"] else "no",
        ]
        for one in found["first"]
    ]
    if rows:
        table(console, ["pair", "verdict", "gold", "kind", "|content|", "flips"], rows)


def _composition(console: Console, found: Json) -> None:
    title(console, f"The set: {plural(found['pairs'], 'pair')}, {plural(found['clusters'], 'cluster')}")
    rows = [
        [cut(one["dimension"]), cut(one["value"]), f"{one['pairs']:,}", f"{one['clusters']:,}"]
        for one in found["strata"]
    ]
    table(console, ["by", "", "pairs", "clusters"], rows, left=2)
    say(console, f"Wins are clear from |content| = {found['border']:.2f} nats on, by the first judge's margin.")
    empty = ", ".join(f"{dimension} {value}" for dimension, value in found["empty"])
    say(console, f"Empty: {empty}. No figure above speaks of such pairs." if empty else "No stratum is empty.")
    for name, reason in found["left_out"]:
        say(console, f"{name}: {reason}", "  ")


def _panel(console: Console, found: Json) -> None:
    if "reason" in found:
        return
    left = f", {found['left_out']:,} left out" if found["left_out"] else ""
    title(
        console,
        f"Panel of {len(found['judges'])} judges under {found['rule']}: {plural(found['pairs'], 'pair')}{left}, %",
    )
    everyone = {**found["judges"], "majority": found["majority"]}
    accuracy_rows(console, "judge", [[cut(name)] for name in everyone], list(everyone.values()))
    of = (
        ""
        if found["compared"] == found["pairs"]
        else f", of the {plural(found['compared'], 'pair')} on which all have a verdict"
    )
    title(console, f"Do their errors go together? phi, 1: the same errors{of}")
    rows = [
        [cut(one["one"]), cut(one["other"]), *nats(one["phi"], ".2f"), f"{one['both_wrong']:,}"]
        for one in found["together"]
    ]
    table(console, ["judge", "and", "phi", "95 % interval", "both wrong"], rows, left=2)
    notes(console, [(f"{one['one']} and {one['other']}", one["phi"]) for one in found["together"]])
    effective, r = found["effective"], found["correlation"]
    if effective["value"] is None:
        say(console, f"No effective number of judges: {r['note'] or 'the mean correlation is too far below 0'}.")
        return
    between = (
        ABSENT
        if None in (effective["low"], effective["high"])
        else f"{effective['low']:.1f} to {effective['high']:.1f}"
    )
    say(
        console,
        f"Mean phi {number(r['value'], '.2f')}: {len(found['judges'])} judges are worth {effective['value']:.1f} independent ones "
        f"(95 % interval {between}). A majority of them is no ground truth.",
    )
