"""Tables of a pairwise run (`logitjudge.report.pairs`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from logitjudge.cli._console import ABSENT, number, percent, plural
from logitjudge.cli._tables import say, table, title

if TYPE_CHECKING:
    from rich.console import Console

STABILITY = {
    "swap_consistency": "same verdict in both orders",
    "flip_rate": "flips",
    "reversals": "  reversals (1 and 2)",
    "half_flips": "  half flips (one is a tie)",
    "flips_to_first": "flips to the first shown",
    "flips_to_second": "flips to the second shown",
    "first_hard": "decided for the first shown",
    "first_soft": "P(first shown | no tie)",
    "ties_hard": "verdicts that are ties",
    "ties_soft": "P(tie)",
}
ADJUSTED = {
    "adjusted_hard": "mean over orders, verdicts",
    "adjusted_soft": "mean over orders, P",
    "changed": "pairs that change",
    "reversed": "pairs that change winner",
}
OUTCOMES = ("correct", "false_wins", "undecided")
BY_GROUP = ("first_order", "second_order", "log_odds")  # rules
WIDEST = 27  # characters of an id or a group
Json = dict[str, Any]


def show(console: Console, section: Json) -> None:
    """Print everything that `logitjudge.report.pairs.section` says."""
    _stability(console, section)
    _wins(console, section["wins"])
    _margin(console, section["margin"])
    _accuracy(console, section["accuracy"])
    _couples(console, section["couples"])
    _inconclusive(console, section["inconclusive"], section["pairs"])


def interval(found: Json) -> str:
    """Write the interval of a share, in percent."""
    return ABSENT if found["low"] is None else f"{percent(found['low'])} to {percent(found['high'])}"


def share(found: Json) -> list[str]:
    """Cells of a share: percent, interval, of how many."""
    return [percent(found["value"]), interval(found), f"{found['of']:,}"]


def nats(found: Json, form: str = "+.3f") -> list[str]:
    """Cells of a number that is no share: value and interval."""
    between = ABSENT if found["low"] is None else f"{found['low']:{form}} to {found['high']:{form}}"
    return [number(found["value"], form), between]


def cut(text: Any) -> str:
    """Leave the middle of a name out that would break a table: names often differ at their ends."""
    name = str(text)
    return name if len(name) <= WIDEST else f"{name[: WIDEST // 2 - 3]}...{name[-WIDEST // 2 :]}"


def notes(console: Console, named: list[tuple[str, Json]]) -> None:
    """Print each note once, and what it is about."""
    for note in dict.fromkeys(found["note"] for _, found in named if found["note"]):
        which = list(dict.fromkeys(name.strip() for name, found in named if found["note"] == note))
        about = "" if len(which) == len(named) else f"{', '.join(which)}: "
        say(console, f"{about}{note}", "  ")


def _stability(console: Console, section: Json) -> None:
    found = section["stability"]
    design = "the 2 x 2 of orders and letters" if section["crossed"] else "both orders"
    title(
        console,
        f"Swapping the order: {plural(section['pairs'], 'pair')}, {plural(section['clusters'], 'cluster')}, {design}",
    )
    named = [(text, found[name]) for name, text in STABILITY.items() if found[name] is not None]
    table(console, ["share, %", "", "95 % interval", "of"], [[text, *share(one)] for text, one in named])
    notes(console, named)
    effects = [("content, for candidate 1", section["content"]), (section["position_name"], found["position"])]
    effects += [('the letter "A"', found["letter"])] if found["letter"] else []
    title(console, "Mean effects, nats of log-odds (position above 0: prefers what is shown first)")
    rows = [[text, *nats(one), p(one["test"])] for text, one in effects]
    table(console, ["effect", "mean", "95 % interval", "p"], rows)
    notes(console, effects)


def p(test: Json | None) -> str:
    if test is None:
        return ABSENT
    return f"{test['p']:.3f}" if test["p"] >= 0.001 else "< 0.001"


def _wins(console: Console, wins: Json) -> None:
    title(console, "Win rate of candidate 1, a tie counts half, beside what the order changes, %")
    rows = [[text, *share(wins[name])] for name, text in ADJUSTED.items()]
    table(console, ["", "", "95 % interval", "of"], rows)
    title(console, "Win rate under each rule, %")
    rows = [[row["rule"], *share(row["rate"]), f"{row['ties']:,}", f"{row['discarded']:,}"] for row in wins["rules"]]
    table(console, ["candidate 1", "rate", "95 % interval", "of", "ties", "discarded"], rows)
    notes(console, [(row["rule"], row["rate"]) for row in wins["rules"]])
    if wins["systems"]:
        rows = [[cut(row["system"]), row["rule"], *share(row["rate"])] for row in wins["systems"]]
        table(console, ["system", "rule", "rate", "95 % interval", "of"], rows, left=2)


def _margin(console: Console, found: Json) -> None:
    title(console, "By margin, |content| in nats")
    rows = [
        [
            f"{one['low']:.2f} to {one['high']:.2f}",
            f"{one['pairs']:,}",
            percent(one["flip_rate"]["value"]),
            interval(one["flip_rate"]),
            number(one["position"]["value"], "+.2f"),
            number(one["size"]["value"], ".2f"),
        ]
        for one in found["bins"]
    ]
    table(console, ["margin", "pairs", "flips, %", "95 % interval", "position", "|position|"], rows, tight=True)
    for name, text in (("flipped_when_close", "flips"), ("larger_when_close", "a larger |position|")):
        value, between = nats(found[name], "+.2f")
        why = f" ({found[name]['note']})" if found[name]["note"] else ""
        say(console, f"Rank correlation of a small margin with {text}: {value}, 95 % interval {between}{why}.")
    say(
        console,
        f"{found['flips_beyond']:,} of {plural(found['flips'], 'flip')} lie where |position| > |content|: with two orders and no "
        "ties all must. So flips at small margins are arithmetic; a larger |position| there is not.",
    )


def _accuracy(console: Console, found: Json) -> None:
    if "reason" in found:
        title(console, "Accuracy: none")
        say(console, f"{found['reason'][0].upper()}{found['reason'][1:]}")
        return
    every = [row for row in found["rows"] if row["group"] is None]
    left = f" ({plural(found['without_gold'], 'pair')} without)" if found["without_gold"] else ""
    title(console, f"Verdicts against gold, %{left}")
    accuracy_rows(console, "rule", [[row["rule"]] for row in every], every)
    groups = [row for row in found["rows"] if row["group"] is not None and row["rule"] in BY_GROUP]
    if groups:
        title(console, "Correct by group, %")
        rows = [
            [
                cut(f"{row['group']}: {row['value']}"),
                row["rule"],
                *share(row["correct"]),
                percent(row["false_wins"]["value"]),
            ]
            for row in groups
        ]
        table(console, ["group", "rule", "", "95 % interval", "of", "false wins"], rows, left=2, tight=True)
        notes(console, [(f"{row['group']} {row['value']}", row["correct"]) for row in groups])


def accuracy_rows(console: Console, head: str, names: list[list[str]], rows: list[Json]) -> None:
    """Print outcomes, one line a row, with the interval of the correct ones."""
    cells = [
        [*name, percent(row["correct"]["value"]), interval(row["correct"]), percent(row["false_wins"]["value"]),
         percent(row["undecided"]["value"]), f"{row['pairs']:,}", f"{row['discarded']:,}"]
        for name, row in zip(names, rows, strict=True)
    ]  # fmt: skip
    table(console, [head, "correct", "95 % interval", "false wins", "open", "of", "out"], cells, tight=True)
    say(console, "open: a tie where gold is none; out: discarded by the rule, or without a verdict.")
    notes(console, [(name[0], row["correct"]) for name, row in zip(names, rows, strict=True)])


def _couples(console: Console, found: Json) -> None:
    if "reason" in found:
        return
    title(
        console,
        f"Couples that are right as a whole, % ({plural(found['couples'], 'couple')}; a coin: {percent(found['coin'])})",
    )
    rows = [
        [row["rule"], *share(row["whole"]), f"{row['discarded']:,}", percent(row["blind"])] for row in found["rows"]
    ]
    table(console, ["rule", "", "95 % interval", "of", "discarded", "blind"], rows)
    say(console, "blind: the most that a judge can get that ignores the instruction.")
    notes(console, [(row["rule"], row["whole"]) for row in found["rows"]])
    if found["note"]:
        say(console, f"No figure for a blind judge: {found['note']}.", "  ")


def _inconclusive(console: Console, found: Json, pairs: int) -> None:
    title(
        console, f"Inconclusive: {found['pairs']:,} of {plural(pairs, 'pair')}, the most confident contradictions first"
    )
    if not found["worst"]:
        say(console, "None: both orders agree on every pair.")
        return
    rows = [
        [
            cut(row["id"]),
            f"{row['verdict_first_order']}, {row['verdict_second_order']}",
            *(f"{row[name]:+.2f}" for name in ("content", "position")),
            f"{row['contradiction']:.2f}",
            ABSENT if row["gold"] is None else str(row["gold"]),
        ]
        for row in found["worst"]
    ]
    table(console, ["pair", "verdicts", "content", "position", "contradiction", "gold"], rows)
    say(console, "Verdicts: in the order 1 2, in the order 2 1; 0 is a tie. contradiction: the smaller lead, nats.")
