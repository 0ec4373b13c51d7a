"""What a report says of a run, as JSON values: the verdict in plain words, warnings, tables, items. `html` sets it; `--json` gives it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from logitjudge.errors import InputError
from logitjudge.measures.selection import held_out, select
from logitjudge.report.sections import sections
from logitjudge.report.summary import summary
from logitjudge.report.words import warnings
from logitjudge.run import Run, SampledRun

LISTED = 24  # orderings of an item; of more, those of its least and largest expected score, and the first
SHARE = 1.5  # times 1/K: a first position above is named in the verdict
Json = dict[str, Any]


def page(run: Run, name: str) -> Json:
    """Everything that a report shows of one run.

    Returns
    -------
    dict
        ``name``; ``verdict`` and ``warnings``, sentences; ``recommendation``; ``summary`` and ``sections``, as ``show --json`` has
        them; ``items``, the most order-sensitive first.
    """
    made = summary(run)
    parts = sections(run)
    recommended = recommendation(run)
    return {
        "name": name,
        "verdict": _verdict(run, made, parts, recommended),
        "recommendation": recommended,
        "warnings": warnings(made),
        "summary": made,
        "sections": parts,
        "items": [] if isinstance(run, SampledRun) or not run.exact.all() else _items(run),
    }


def _verdict(run: Run, made: Json, parts: Json, recommended: Json) -> list[str]:
    """The main results in plain words."""
    kind = "hard" if isinstance(run, SampledRun) else "soft"
    return [
        *_bias(made, parts["uncertainty"].get(kind, {}), kind),
        *_ordering(recommended),
        *_people(made, parts["people"]),
    ]


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
    p = "< 0.001" if test["p"] < 0.001 else f"= {test['p']:.3f}"
    noise = ", but the noise floor of the readings alone could explain it" if test.get("within_noise") else ""
    note = f"; {test['note']}" if test["note"] else ""
    return [text, f"{surely}{noise} (test of all positions together, p {p}{note})."]


def _ordering(recommended: Json) -> list[str]:
    """What to do about it."""
    if recommended["reason"]:
        return [f"No ordering can be recommended: {recommended['reason']}"]
    many = f"Average over these {recommended['orderings']} orderings"
    found = recommended["held_out"]
    if recommended["average"]:
        return [f"{many}: no single ordering is distinguishably better."]
    if recommended["ordering"] is None:
        return [f"{many}: some ordering is below the mean over all, but the one that half of the items chose is not surely cheaper "
                "on the others than the scores in their order."]  # fmt: skip
    best = ",".join(map(str, recommended["ordering"]))
    return [
        f"{many}; where only one can be read, use {best}: chosen on half of the items, on the other half its Bias Cost is "
        f"{found['saving']:.3f} below that of the scores in their order (95 % interval {found['low']:.3f} to {found['high']:.3f})."
    ]


def recommendation(run: Run) -> Json:
    """Which single ordering to use, if any: one that is surely cheaper than the identity on items that did not choose it.

    Returns
    -------
    dict
        ``ordering`` (score values) or None; ``average``, True where no ordering can be told from the mean over all (`select`);
        ``held_out``: the ordering that half of the clusters chose, its saving on the others with interval; ``orderings``, how many
        were read; ``reason``, why nothing can be said, or "".
    """
    made: Json = {
        "ordering": None,
        "average": None,
        "held_out": None,
        "orderings": len(run.orderings),
        "reason": "",
    }
    try:
        found, judged = select(run), held_out(run)
    except InputError as error:
        return made | {"reason": str(error)}
    values = list(judged.ordering.values(run.scores.tolist()))
    use = (
        judged.better and not found.average and judged.low < judged.high
    )  # an interval without width is of items that do not vary
    held = {
        "ordering": values,
        "saving": judged.saving,
        "low": judged.low,
        "high": judged.high,
        "clusters": judged.clusters,
    }
    return made | {"ordering": values if use else None, "average": found.average, "held_out": held}


def _people(made: Json, people: Json) -> list[str]:
    rows = [row for row in made["agreement"] if row["measure"] == "pearson" and row["value"] is not None]
    if not rows:
        return []
    row = rows[0]
    between = "" if row["low"] is None else f" (95 % interval {row['low']:.2f} to {row['high']:.2f})"
    ceiling = (people.get("reliability") or {}).get("ceiling")
    most = "" if ceiling is None else f"; the raters' own agreement allows about {ceiling:.2f}"
    of = f"over {row['items']} rated items in {row['clusters']} clusters"
    note = f" Note: {row['note']}." if row["note"] else ""
    return [
        f"Its scores ({row['method']}) correlate with {row['target']} by {row['value']:.2f}{between} {of}{most}.{note}"
    ]


def _items(run: Run) -> list[Json]:
    """Items with their probabilities under each ordering, by swing."""
    probs, masses, scores = run.probs(), run.mass, run.scores.tolist()
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
                "mass": round(float(masses[i, o]), 4),
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
