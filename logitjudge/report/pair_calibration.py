"""Judges of pairs against people, as JSON values; what does not exist is None, or the whole part is ``{"reason": ...}``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from logitjudge.measures.pair_accuracy import Length
from logitjudge.measures.pair_calibration import CHECK, RULE, checks, disagreements, gold_agreement
from logitjudge.measures.pair_composition import composition
from logitjudge.measures.pair_panel import panel
from logitjudge.measures.pair_threshold import TARGET, threshold
from logitjudge.report.pairs import or_reason
from logitjudge.run import Run

LISTED = 10  # disagreements that are named
SHORT = ("id", "verdict", "gold", "kind", "confidence", "flipped")
Json = dict[str, Any]


def calibration(
    runs: Mapping[str, Run],
    *,
    rule: str = RULE,
    target: float = TARGET,
    check: str = CHECK,
    length: Length = len,
    draws: int = 1000,
    seed: int = 0,
) -> Json:
    """Calibration of one or several judges of the same pairs.

    Parameters
    ----------
    runs
        Judge's name -> its pairwise run.
    rule
        Of the disagreements, the checks and the panel.
    target
        Accuracy that verdicts are to have without people.
    check
        Group column of a deterministic check.
    length
        Of a response, in any unit; characters by default.
    draws, seed
        Of the resampling of clusters.

    Returns
    -------
    dict
        ``rule``, ``judges`` (name -> ``agreement``, ``threshold``, ``checks``, ``composition``, ``disagreements``: how many, and the most
        confident without their texts), and ``panel``. A part that the runs do not give is ``{"reason": ...}``.

    Raises
    ------
    InputError
        There is no such rule, or pairs that are not the same in all runs.
    NotObserved
        A run is not pairwise.
    """
    how: dict[str, Any] = {"draws": draws, "seed": seed}
    few = {"reason": "a panel takes at least two judges"}
    return {
        "rule": rule,
        "draws": draws,
        "judges": {name: _judge(run, rule, target, check, length, how) for name, run in runs.items()},
        "panel": few if len(runs) < 2 else or_reason(lambda: asdict(panel(runs, rule, **how))),
    }


def _judge(run: Run, rule: str, target: float, check: str, length: Length, how: dict[str, Any]) -> Json:
    wrong = disagreements(run, rule)
    made = composition(run, length=length)
    return {
        "agreement": or_reason(lambda: asdict(gold_agreement(run, length=length, **how))),
        "threshold": or_reason(lambda: asdict(threshold(run, target, **how))),
        "checks": or_reason(lambda: asdict(checks(run, check, rule, **how))),
        "composition": {**asdict(made), "empty": [list(one) for one in made.empty]},
        "disagreements": {
            "pairs": len(wrong),
            "first": [{name: row[name] for name in SHORT} for row in wrong[:LISTED]],
        },
    }
