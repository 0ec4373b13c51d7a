"""What a report says of a pairwise run, as JSON values of the same form as `logitjudge.report.page`."""

from __future__ import annotations

from typing import Any

from logitjudge.measures.pairs import pairs
from logitjudge.report.pairs import summary
from logitjudge.report.words import warnings
from logitjudge.run import Run

Json = dict[str, Any]


def page(run: Run, name: str) -> Json:
    """Everything that a report shows of one pairwise run.

    Returns
    -------
    dict
        ``name``; ``verdict`` and ``warnings``, sentences; ``summary``, as ``show --json`` has it; ``items``, the pairs whose verdict
        hangs most on the order first.
    """
    made = summary(run)
    return {
        "name": name,
        "verdict": _verdict(made["pairwise"]),
        "warnings": warnings(made),
        "summary": made,
        "items": _items(run) if run.exact.all() else [],
    }


def _verdict(found: Json) -> list[str]:
    """The main results in plain words."""
    return [_flips(found), _place(found), _wins(found), *_gold(found), *_couples(found), _use(found)]


def _share(found: Json) -> str:
    between = "" if found["low"] is None else f" (95 % interval {found['low']:.1%} to {found['high']:.1%})"
    return f"{found['value']:.1%}{between}"


def _flips(found: Json) -> str:
    return f"The verdict changes with the order of the responses in {_share(found['stability']['flip_rate'])} of {found['pairs']:,} pairs."


def _place(found: Json) -> str:
    effect, to_first = found["stability"]["position"], found["stability"]["flips_to_first"]
    between = "" if effect["low"] is None else f" (95 % interval {effect['low']:+.2f} to {effect['high']:+.2f})"
    number = f"mean effect of the {found['position_name']} {effect['value']:+.2f} nats of log-odds{between}"
    share = "" if to_first["value"] is None else f"; {to_first['value']:.1%} of the flips go to the first shown"
    if effect["low"] is None or effect["low"] <= 0 <= effect["high"]:
        return f"Whether it prefers a place cannot be told: {number}{share}."
    return f"It prefers what is shown {'first' if effect['value'] > 0 else 'second'}: {number}{share}."


def _wins(found: Json) -> str:
    rules = {row["rule"]: row for row in found["wins"]["rules"]}
    kept = rules["flips_discarded"]
    aside = " (ties left aside)" if found["ties"] else ""
    discarded = (
        f"and with flips discarded (all {kept['discarded']:,}) nothing is left"
        if kept["rate"]["value"] is None
        else f"with flips discarded ({kept['discarded']:,} of them) {kept['rate']['value']:.1%}"
    )
    return (
        f"Candidate 1 wins {_share(rules['log_odds']['rate'])} by averaged log-odds{aside}, "
        f"{rules['flips_as_ties']['rate']['value']:.1%} with flips as ties, {discarded}."
    )


def _overall(found: Json) -> dict[str, Json]:
    """Accuracy over all pairs by rule; empty without gold."""
    return {row["rule"]: row for row in found["accuracy"].get("rows", []) if row["group"] is None}


def _gold(found: Json) -> list[str]:
    rows = _overall(found)
    if not rows:
        return []
    row = rows["log_odds"]
    return [
        f"By averaged log-odds it agrees with gold in {_share(row['correct'])} of {row['pairs']:,} pairs and is decided for the wrong "
        f"response in {row['false_wins']['value']:.1%}; in a single order {rows['first_order']['correct']['value']:.1%} and "
        f"{rows['second_order']['correct']['value']:.1%} are right."
    ]


def _couples(found: Json) -> list[str]:
    rows = {row["rule"]: row for row in found["couples"].get("rows", [])}
    if not rows:
        return []
    return [
        f"Of {found['couples']['couples']:,} couples of pairs with opposite gold it gets {_share(rows['log_odds']['whole'])} right as a "
        "whole; a judge that ignores the instruction gets none."
        if rows["log_odds"]["blind"] == 0
        else f"Of {found['couples']['couples']:,} couples of pairs it gets {_share(rows['log_odds']['whole'])} right as a whole."
    ]


def _use(found: Json) -> str:
    count = found["inconclusive"]["pairs"]
    rows = _overall(found)
    right = rows["flips_discarded"]["correct"] if rows else None
    how_good = (
        "" if right is None or right["value"] is None else f" Where both orders agree it is right in {_share(right)}."
    )
    if not count:
        return f"Both orders agree on every pair.{how_good}"
    return (
        f"The verdict of a pair is of no use where the orders disagree: give these {count:,} to people (logitjudge export DIR --review "
        f"FILE).{how_good}"
    )


def _items(run: Run) -> list[Json]:
    """Pairs with their probabilities in each order; ``expected`` runs from 1 (response 1) to 2 (response 2), a tie in the middle."""
    found, probs = pairs(run), run.probs()
    two = probs[..., -1] + (probs[..., 0] / 2 if found.ties else 0)
    expected = 1 + two  # (I, O)
    swing = expected.max(axis=1) - expected.min(axis=1)
    made = []
    for i in sorted(range(len(run.items)), key=lambda i: (-swing[i], found.ids[i])):
        item = run.items[i]
        rows = [
            {"ordering": _printed(run, o), "probs": [round(float(q), 4) for q in probs[i, o]],
             "expected": round(float(expected[i, o]), 4), "mass": round(float(run.mass[i, o]), 4)}
            for o in range(len(run.orderings))
        ]  # fmt: skip
        effects = {"content": f"{found.content[i]:+.3f} nats", "position": f"{found.position[i]:+.3f} nats"}
        verdicts = " and ".join("tie" if v == 0 else str(v) for v in found.verdict[i].tolist())
        made.append({
            "id": item.id, "cluster": item.cluster, "groups": {**dict(item.groups), "verdicts": verdicts},
            "about": effects, "fields": dict(item.fields), "rating": item.rating, "swing": round(float(swing[i]), 4),
            "mean": round(float(expected[i].mean()), 4), "orderings": rows,
        })  # fmt: skip
    return made


def _printed(run: Run, o: int) -> list[str]:
    """Candidates with their letters, first shown first."""
    ordering = run.orderings[o]
    options = ["TIE", "A", "B"] if 0 in run.scores else ["A", "B"]
    labels = ordering.labels or ordering.shown
    return [
        f"{run.scores[k]} as {options[label]}" for k, label in zip(ordering.shown, labels, strict=True) if run.scores[k]
    ]
