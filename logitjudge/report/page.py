"""What a report says of a run, as JSON values: the verdict in plain words, warnings, tables, items. `html` sets it; `--json` gives it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from logitjudge.errors import InputError
from logitjudge.measures.intervals import FEW
from logitjudge.measures.selection import select
from logitjudge.report.sections import sections
from logitjudge.report.summary import summary
from logitjudge.run import Run, SampledRun

LISTED = 24  # orderings of an item; of more, those of its least and largest expected score, and the first
SHARE = 1.5  # times 1/K: a first position above is named in the verdict
LOW = 0.5  # mass
Json = dict[str, Any]


def page(run: Run, name: str) -> Json:
    """Everything that a report shows of one run.

    Returns
    -------
    dict
        ``name``; ``verdict`` and ``warnings``, sentences; ``summary`` and ``sections``, as ``show --json`` has them; ``items``, the
        most order-sensitive first.
    """
    made = summary(run)
    parts = sections(run)
    return {
        "name": name,
        "verdict": _verdict(run, made, parts),
        "warnings": _warnings(run, made),
        "summary": made,
        "sections": parts,
        "items": [] if isinstance(run, SampledRun) or not run.exact.all() else _items(run),
    }


def _verdict(run: Run, made: Json, parts: Json) -> list[str]:
    """The main results in plain words."""
    kind = "hard" if isinstance(run, SampledRun) else "soft"
    return [*_bias(made, parts["uncertainty"].get(kind, {}), kind), *_ordering(run), *_people(made, parts["people"])]


def _bias(made: Json, found: Json, kind: str) -> list[str]:
    shares = made["position_distribution"][kind]
    if None in shares:
        return ["The design leaves out some score at some position, so position bias cannot be stated."]
    even = 1 / len(shares)
    where = int(np.argmax(shares))
    what = "probability" if kind == "soft" else "picks"
    text = f"This judge puts {shares[where]:.1%} of its {what} on position {where + 1}; without position bias it would be {even:.1%}."
    test = found.get("test") or {}
    if test.get("p") is None:
        return [
            text,
            f"Whether that is chance cannot be tested ({test.get('note') or found.get('reason', 'no test')}).",
        ]
    surely = "That is not chance" if test["p"] < 0.05 else "That may be chance"
    return [
        text,
        f"{surely} (test of all positions together, p {'< 0.001' if test['p'] < 0.001 else '= ' + format(test['p'], '.3f')}).",
    ]


def _ordering(run: Run) -> list[str]:
    """What to do about it."""
    try:
        found = select(run)
    except InputError as error:
        return [f"No ordering can be recommended: {error}"]
    many = f"Average over these {len(run.orderings)} orderings"
    if found.average:
        return [f"{many}: no single ordering is distinguishably better."]
    best = ",".join(map(str, found.orderings[0].values(run.scores.tolist())))
    alike = int(found.alike.sum())
    return [
        f"{many}, or publish one: {best} is the cheapest, and {alike} of {len(found.alike)} orderings cannot be told from it."
    ]


def _people(made: Json, people: Json) -> list[str]:
    rows = [row for row in made["agreement"] if row["measure"] == "pearson" and row["value"] is not None]
    if not rows:
        return []
    row = rows[0]
    between = "" if row["low"] is None else f" (95 % interval {row['low']:.2f} to {row['high']:.2f})"
    ceiling = (people.get("reliability") or {}).get("ceiling")
    most = "" if ceiling is None else f"; the raters allow {ceiling:.2f} at most"
    return [f"Its scores ({row['method']}) correlate with {row['target']} by {row['value']:.2f}{between}{most}."]


def _warnings(run: Run, made: Json) -> list[str]:
    """What a reader must know before using a number."""
    found = []
    if made["finished"] is None:
        found.append("The run is unfinished: these are the items whose readings are all there.")
    if made["refused"]:
        found.append(f"{made['refused']} items were refused and are not in any number.")
    if made["clusters"] < FEW:
        found.append(f"There are only {made['clusters']} clusters: intervals hold less than they say below {FEW}.")
    if not made["balanced"]:
        found.append("The design is not balanced: not every score stood equally often at every position.")
    if mass := made["mass"]:
        if mass["min"] < LOW:
            found.append(
                f"In some reading only {mass['min']:.1%} of the probability falls on the options; on average {mass['mean']:.1%}."
            )
        if made["alias"]["warning"]:
            found.append(f"{made['alias']['warning'][0].upper()}{made['alias']['warning'][1:]}.")
    if made["path"] == "plain":
        found.append("No fast path could be proven for this judge: every prompt was run alone.")
    if parsed := made.get("parsed"):
        found.append(f"{parsed['failed']} of {parsed['texts']} texts could not be parsed.")
    return found


def _items(run: Run) -> list[Json]:
    """Items with their probabilities under each ordering, by swing."""
    probs, scores = run.probs(), run.scores.tolist()
    expected = probs @ run.scores  # (I, O)
    swing = expected.max(axis=1) - expected.min(axis=1)
    made = []
    for i in np.argsort(-swing, kind="stable"):
        item, shown = run.items[i], _shown(expected[i])
        rows = [
            {
                "ordering": list(run.orderings[o].values(scores)),
                "probs": [round(float(q), 4) for q in probs[i, o]],
                "expected": round(float(expected[i, o]), 4),
                "mass": round(float(run.mass[i, o]), 4),
            }
            for o in shown
        ]
        made.append({
            "id": item.id, "cluster": item.cluster, "groups": {k: _plain(v) for k, v in item.groups.items()}, "fields": dict(item.fields),
            "rating": item.rating, "swing": round(float(swing[i]), 4), "mean": round(float(expected[i].mean()), 4), "orderings": rows,
        })  # fmt: skip
    return made


def _shown(expected: Any) -> list[int]:
    """Numbers of the orderings that are listed."""
    if len(expected) <= LISTED:
        return list(range(len(expected)))
    return list(dict.fromkeys([int(np.argmin(expected)), int(np.argmax(expected)), 0]))


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
