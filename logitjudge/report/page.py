"""What a report says of a run, as JSON values: the verdict in plain words, warnings, tables, items. `html` sets it; `--json` gives it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from logitjudge.report.advice import recommendation, words
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
        *words(recommended),
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
