"""Which ordering to use: one verdict for the report and for ``select``."""

from __future__ import annotations

from typing import Any

from logitjudge.errors import InputError
from logitjudge.measures.selection import Selection, held_out, select
from logitjudge.run import Run

Json = dict[str, Any]


def recommendation(run: Run, found: Selection | None = None) -> Json:
    """Which single ordering to use, if any: one that is surely cheaper than the identity on items that did not choose it.

    Parameters
    ----------
    found
        What `select` gave of the run, where it is known.

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
        found, judged = found or select(run), held_out(run)
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


def words(recommended: Json) -> list[str]:
    """The same as sentences."""
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
