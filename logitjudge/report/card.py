"""The bias card of a judge: every probe with its effects, intervals, noise floor, what could have been found, what was not tested."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from logitjudge import registry
from logitjudge.errors import InputError, unknown
from logitjudge.probing import results

SCHEMA_VERSION = 1
UNITS = {"nats": "nats of log-odds", "points": "score points", "share": "share", "likelihood": "nats a token"}
RULE = re.compile(r"\s*([\w./-]+?)(?::(\w+))?\s*(>=|>)\s*([0-9.eE+-]+)\s*")
SHORT = {text: name for name, text in UNITS.items()}
COMPARE = {">": operator.gt, ">=": operator.ge}
Json = dict[str, Any]


def bias_card(folder: str | Path) -> Json:
    """Everything that the probes in a folder say of a judge.

    Returns
    -------
    dict
        ``model``; ``probes``, one a probe: its result (`logitjudge.probing.run_probe`) with a ``verdict`` in words for every effect;
        ``not_tested``: names of probes that were not run, or left nothing to judge, with the reason.

    Raises
    ------
    RunFolderError
        There is no result of a probe.
    InputError
        The probes are of several judges.
    """
    found = results(folder)
    judges = sorted({row["model"] for row in found})
    if len(judges) > 1:
        raise InputError(f"{folder} holds probes of several judges: {', '.join(judges)}. Use one folder a judge.")
    _check_one(folder, found)
    tested = [row for row in found if row["effects"]]
    names = {row["probe"] for row in found}
    missing = {name: "not run" for name in registry.names("probes") if name not in names}
    missing |= {row["probe"]: row["reason"] or "it gives no number" for row in found if not row["effects"]}
    return {
        "schema_version": SCHEMA_VERSION,
        "model": judges[0],
        "probes": [{**row, "effects": [{**one, "verdict": verdict(one)} for one in row["effects"]]} for row in tested],
        "not_tested": dict(sorted(missing.items())),
    }


def _check_one(folder: str | Path, found: Sequence[Json]) -> None:
    """Probes of one name must be of one judge; those of an earlier version do not say more than its name."""
    said = [row for row in found if row.get("judge")]
    for row in said[1:]:
        first = said[0]
        if differing := [name for name, value in row["judge"].items() if first["judge"].get(name, value) != value]:
            raise InputError(
                f"{folder} holds probes of several judges: {first['probe']} and {row['probe']} differ in "
                f"{', '.join(differing)}. Use one folder a judge."
            )


def verdict(effect: Json) -> str:
    """What an effect allows to say: found, not found (and how small it may still be), or not told from the noise floor."""
    found = effect["estimate"]
    if found["value"] is None:
        return f"no number: {found['note']}"
    if found["low"] is None:
        return f"no interval: {found['note']}"
    if effect["noise"] is not None and abs(found["value"]) <= effect["noise"]:
        return "within what the noise floor could do"
    if found["low"] == found["high"]:
        return "the same for every item"
    if not effect.get("signed", True):
        return "never below 0, so its interval finds nothing"
    if found["low"] > 0 or found["high"] < 0:
        return "found"
    limit = max(abs(found["low"]), abs(found["high"]))
    return f"not found; at most {limit:.2g} either way"


def crossed(made: Json, rules: Sequence[str]) -> list[str]:
    """Sentences on the thresholds that are crossed.

    A rule is ``PROBE>X``, or ``PROBE:UNIT>X`` with nats, points or share: crossed where the size of a main effect (of that unit) is
    above X. Without a unit the probe's first main effect counts.

    Raises
    ------
    InputError
        A rule that cannot be read, or of a probe that the card does not have.
    """
    return [text for rule in rules for text in _crossed(made, rule)]


def _crossed(made: Json, rule: str) -> list[str]:
    parts = RULE.fullmatch(rule)
    if parts is None:
        raise InputError(f"--fail-on {rule!r} is not PROBE>NUMBER or PROBE:UNIT>NUMBER, such as verbosity>0.2.")
    name, unit, sign, number = parts.groups()
    known = {row["probe"]: row for row in made["probes"]}
    if name not in known:
        why = made["not_tested"].get(name)
        raise InputError(
            f"--fail-on {rule!r}: " + (f"{name} was not tested ({why})." if why else unknown("probe", name, known))
        )
    if unit is not None and unit not in UNITS:
        raise InputError(f"--fail-on {rule!r}: {unknown('unit', unit, UNITS)}")
    effects = [one for one in known[name]["effects"] if one["main"] and (unit is None or one["unit"] == UNITS[unit])]
    if not effects:
        raise InputError(f"--fail-on {rule!r}: {name} has no effect in {unit or 'any unit'}.")
    try:
        limit = float(number)
    except ValueError as error:
        raise InputError(f"--fail-on {rule!r}: {number!r} is not a number.") from error
    if not math.isfinite(limit):
        raise InputError(f"--fail-on {rule!r}: {number!r} is not a finite number.")
    there = effects if unit else effects[:1]
    if all(one["estimate"]["value"] is None for one in there):
        raise InputError(f"--fail-on {rule!r}: {there[0]['name']} has no number: {there[0]['estimate']['note']}.")
    return [
        f"{name}: {one['name']} is {one['estimate']['value']:+.3g} {one['unit']}, {sign} {limit:g}"
        for one in there
        if one["estimate"]["value"] is not None and COMPARE[sign](abs(one["estimate"]["value"]), limit)
    ]
