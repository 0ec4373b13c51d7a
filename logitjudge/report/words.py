"""Sentences that reports of all kinds of runs share."""

from __future__ import annotations

from typing import Any

from logitjudge.measures.intervals import FEW

LOW = 0.5  # mass
Json = dict[str, Any]


def warnings(made: Json) -> list[str]:
    """What a reader must know before using a number."""
    found = []
    if made["finished"] is None:
        found.append("The run is unfinished: these are the items whose readings are all there.")
    if made["refused"]:
        were = "item was refused and is" if made["refused"] == 1 else "items were refused and are"
        found.append(f"{made['refused']} {were} not in any number.")
    if made["clusters"] < FEW:
        found.append(f"There are only {made['clusters']} clusters: intervals hold less than they say below {FEW}.")
    if made["kind"] != "pairwise" and not made["balanced"]:
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
