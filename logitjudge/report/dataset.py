"""What a data set holds, by criterion: the paper's Table 1 and how well its raters agree, as JSON values."""

from __future__ import annotations

from typing import Any

from logitjudge.core import Item, ItemSet
from logitjudge.measures.reliability import reliability

CRITERION, SYSTEM = "criterion", "system"
Json = dict[str, Any]


def about(made: ItemSet) -> list[Json]:
    """One row a criterion; one in all where items have none.

    Returns
    -------
    list of dict
        criterion, items, clusters, systems, raters (a rated item at most), scale (scores of the rubric), mean, alpha_ordinal,
        alpha_interval, icc (of the raters' design: "1" or "C" in icc_kind) with icc_low and icc_high, ceiling, self_consistency, target,
        rubric (its name, where all items have the same one), note. What does not exist is None.
    """
    names = list(dict.fromkeys(item.groups.get(CRITERION) for item in made.items))
    return [_row(made, name, [item for item in made.items if item.groups.get(CRITERION) == name]) for name in names]


def _row(made: ItemSet, criterion: Any, items: list[Item]) -> Json:
    found = reliability(items, made.raters, made.ratings_name)
    scales = {item.rubric.scores for item in items if item.rubric is not None}
    rubrics = {item.rubric.name for item in items if item.rubric is not None}
    one = next(iter(scales)) if len(scales) == 1 else None
    return {
        "criterion": criterion,
        "items": len(items),
        "clusters": len({item.cluster for item in items}),
        "systems": len({item.groups[SYSTEM] for item in items if SYSTEM in item.groups}) or None,
        "raters": found.raters or None,
        "scale": one and [one[0], one[-1]],
        "mean": found.mean,
        "alpha_ordinal": found.alpha_ordinal,
        "alpha_interval": found.alpha_interval,
        "icc": found.icc.value,
        "icc_low": found.icc.low,
        "icc_high": found.icc.high,
        "icc_kind": found.icc.kind,
        "ceiling": found.ceiling,
        "self_consistency": found.self_consistency,
        "target": found.target,
        "rubric": next(iter(rubrics)) if len(rubrics) == 1 else None,
        "note": found.note,
    }
