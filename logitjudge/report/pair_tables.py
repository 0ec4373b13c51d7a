"""Tables of the report of a pairwise run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from logitjudge.measures.pairs import ORDERS
from logitjudge.report.tables import ABSENT, Table, number, percent

STABILITY = {
    "swap_consistency": "same verdict in both orders", "flip_rate": "flips", "reversals": "reversals (1 and 2)",
    "half_flips": "half flips (one is a tie)", "flips_to_first": "flips that go to the first shown",
    "flips_to_second": "flips that go to the second shown", "first_hard": "decided verdicts for the first shown",
    "first_soft": "P(first shown), ties apart", "ties_hard": "verdicts that are ties", "ties_soft": "P(tie)",
}  # fmt: skip
Json = dict[str, Any]


def main(found: Json) -> list[Table]:
    """The tables that come first."""
    return [_stability(found), _effects(found), _rules(found["wins"]), *_accuracy(found["accuracy"], grouped=False)]


def more(found: Json) -> dict[str, list[Table]]:
    """The other tables, by heading."""
    parts = {
        "By margin": [_margin(found["margin"])],
        "Accuracy by group": _accuracy(found["accuracy"], grouped=True),
        "Couples": _couples(found["couples"]),
        "Pairs on which the orders disagree": _inconclusive(found["inconclusive"]),
    }
    return {name: tables for name, tables in parts.items() if tables}


def together(pages: Sequence[Json]) -> list[Table]:
    """All runs side by side."""
    rows = []
    for one in pages:
        found = one["summary"]["pairwise"]
        right = [row for row in found["accuracy"].get("rows", []) if row["group"] is None]
        by_rule = {row["rule"]: row["correct"]["value"] for row in right}
        rows.append([
            one["name"], one["summary"]["model"] or ABSENT, str(found["pairs"]), percent(found["stability"]["flip_rate"]["value"]),
            percent(found["stability"]["flips_to_first"]["value"]), *_between(found["stability"]["position"], "+.2f"),
            *(percent(by_rule.get(rule)) for rule in ("first_order", "second_order", "log_odds")),
            percent(one["summary"]["mass"]["mean"]),
        ])  # fmt: skip
    heads = [
        "run", "judge", "pairs", "flips, %", "to the first, %", "position, nats", "from", "to", "right in order 1, %", "in order 2, %",
        "by log-odds, %", "mass, %",
    ]  # fmt: skip
    return [Table("Pairwise runs", heads, rows, ("run", "judge"))]


def _between(found: Json, form: str) -> list[str]:
    return [number(found[name], form) for name in ("value", "low", "high")]


def _share(found: Json) -> list[str]:
    return [*(percent(found[name]) for name in ("value", "low", "high")), f"{found['of']:,}", found["note"]]


def _stability(found: Json) -> Table:
    there = found["stability"]
    rows = [[text, *_share(there[name])] for name, text in STABILITY.items() if there[name] is not None]
    return Table("Swapping the order: shares, %", ["what", "share", "from", "to", "of", "note"], rows, ("what", "note"))


def _effects(found: Json) -> Table:
    named = [("content, for candidate 1", found["content"]), (found["position_name"], found["stability"]["position"])]
    named += [('the letter "A"', found["stability"]["letter"])] if found["stability"]["letter"] else []
    rows = [
        [text, *_between(one, "+.3f"), number((one["test"] or {}).get("p"), ".3g"), one["note"]] for text, one in named
    ]
    caption = "Mean effects, nats of log-odds; position above 0 prefers what is shown first"
    return Table(caption, ["effect", "mean", "from", "to", "p", "note"], rows, ("effect", "note"))


def _rules(wins: Json) -> Table:
    rows = [
        ["candidate 1", row["rule"], *_share(row["rate"])[:4], f"{row['ties']:,}", f"{row['discarded']:,}"]
        for row in wins["rules"]
    ]
    rows += [[row["system"], row["rule"], *_share(row["rate"])[:4], ABSENT, ABSENT] for row in wins["systems"]]
    adjusted, changed = wins["adjusted_hard"]["value"], wins["changed"]["value"]
    notes = [
        f"Averaged over both orders candidate 1 gets {percent(adjusted)} %, and {percent(changed)} % of the pairs change with the order.",
        "A tie counts half. Discarding flips leaves the easier pairs: their win rate is of another question.",
    ]
    heads = ["who", "rule", "win rate, %", "from", "to", "of", "ties", "discarded"]
    return Table("Win rate under each rule", heads, rows, ("who", "rule"), notes)


def _accuracy(found: Json, *, grouped: bool) -> list[Table]:
    rows = [row for row in found.get("rows", []) if (row["group"] is not None) == grouped]
    if not rows:
        return []
    cells = [
        [
            *([str(row["group"]), str(row["value"])] if grouped else []), row["rule"],
            *(percent(row["correct"][name]) for name in ("value", "low", "high")), percent(row["false_wins"]["value"]),
            percent(row["undecided"]["value"]), f"{row['pairs']:,}", f"{row['discarded']:,}", row["correct"]["note"],
        ]
        for row in rows
    ]  # fmt: skip
    words = (*(("group", "value") if grouped else ()), "rule", "note")
    heads = [
        *(("group", "value") if grouped else ()),
        "rule",
        "correct, %",
        "from",
        "to",
        "false wins, %",
        "open, %",
        "of",
        "out",
        "note",
    ]
    notes = ["Open: a tie where gold is none. Out: discarded by the rule, or without a verdict."]
    return [Table("Verdicts against gold", heads, cells, words, notes)]


def _margin(found: Json) -> Table:
    rows = [
        [
            f"{one['low']:.2f}", f"{one['high']:.2f}", f"{one['pairs']:,}",
            *(percent(one["flip_rate"][n]) for n in ("value", "low", "high")),
            number(one["position"]["value"], "+.2f"), number(one["size"]["value"], ".2f"),
        ]
        for one in found["bins"]
    ]  # fmt: skip
    note = (
        f"{found['flips_beyond']:,} of {found['flips']:,} flips lie where |position| > |content|: with two orders and no ties all must. "
        "So flips at small margins are arithmetic; a larger |position| there is not."
    )
    heads = ["|content| from", "to, nats", "pairs", "flips, %", "from", "to", "position", "|position|"]
    return Table("By margin", heads, rows, (), [note])


def _couples(found: Json) -> list[Table]:
    if "reason" in found:
        return []
    rows = [
        [row["rule"], *_share(row["whole"])[:4], f"{row['discarded']:,}", percent(row["blind"])]
        for row in found["rows"]
    ]
    notes = [
        f"Blind: the most that a judge can get that ignores the instruction; a coin gets {percent(found['coin'])} %."
    ]
    heads = ["rule", "right as a whole, %", "from", "to", "of", "discarded", "blind, %"]
    return [Table("Couples that are right as a whole", heads, rows, ("rule",), notes)]


def _inconclusive(found: Json) -> list[Table]:
    rows = [
        [
            str(row["id"]), *(str(row[f"verdict_{order}"]) for order in ORDERS), f"{row['content']:+.2f}", f"{row['position']:+.2f}",
            f"{row['contradiction']:.2f}", ABSENT if row["gold"] is None else str(row["gold"]),
        ]
        for row in found["worst"]
    ]  # fmt: skip
    notes = [
        f"The worst of {found['pairs']:,}; the list below holds all. Verdicts: 1 or 2, 0 is a tie. Contradiction: the smaller lead of the "
        "two verdicts, nats."
    ]
    heads = ["pair", "verdict in order 1", "in order 2", "content", "position", "contradiction", "gold"]
    return [Table("The most confident contradictions", heads, rows, ("pair",), notes)] if rows else []
