"""Win rates of candidate 1, and of systems, under each rule; always beside the share of pairs that change with the order.

A win counts 1, a tie a half. An average over orders hides instability, so the order-adjusted rate never comes without `changed`; and a rate
without the flipped pairs is one of an easier set, so it never comes without the number of discarded ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from logitjudge.core import FloatArray
from logitjudge.measures.estimates import Estimate, Part, shares
from logitjudge.measures.pair_rules import RULES, ruled, wins, won
from logitjudge.measures.pairs import NONE, TIE, Pairs, pairs
from logitjudge.run import Run

if TYPE_CHECKING:
    import pandas as pd

MODELS = ("model_1", "model_2")  # group columns
BY_SYSTEM = ("flips_as_ties", "log_odds")  # rules


@dataclass(frozen=True, slots=True)
class WinRate:
    """Win rate under one rule.

    Parameters
    ----------
    rule
        One of `logitjudge.measures.pair_rules.RULES`.
    system
        Whose; None: candidate 1's.
    rate
        Over the pairs that the rule keeps.
    ties, discarded
        How many pairs are ties, and how many have no verdict under the rule.
    """

    rule: str
    system: str | None
    rate: Estimate
    ties: int
    discarded: int


@dataclass(frozen=True, slots=True)
class WinRates:
    """Order-adjusted win rates, those under each rule, and those of systems.

    Parameters
    ----------
    adjusted_hard, adjusted_soft
        Candidate 1's win rate, the mean over both orders: of verdicts, and of P(1) + P(tie) / 2.
    changed
        Share of pairs whose verdict changes with the order.
    reversed
        Share of pairs whose winner does: without changes to or from a tie.
    rules
        Candidate 1's, one a rule.
    systems
        Each system's over its pairs, under the rules `BY_SYSTEM`; empty where pairs carry no model_1 and model_2. A pair of a system with
        itself does not count.
    """

    adjusted_hard: Estimate
    adjusted_soft: Estimate
    changed: Estimate
    reversed: Estimate
    rules: tuple[WinRate, ...]
    systems: tuple[WinRate, ...]

    def to_frame(self) -> pd.DataFrame:
        """Frame, one row a rule and system: system, rule, value, low, high, of, clusters, ties, discarded, note."""
        import pandas as pd

        names = ("value", "low", "high", "of", "clusters")
        rows = [
            [row.system, row.rule, *(getattr(row.rate, n) for n in names), row.ties, row.discarded, row.rate.note]
            for row in self.rules + self.systems
        ]
        return pd.DataFrame(rows, columns=["system", "rule", *names, "ties", "discarded", "note"])


def win_rates(run: Run, *, draws: int = 1000, seed: int = 0) -> WinRates:
    """Win rates of a pairwise run, with 95 % intervals.

    Parameters
    ----------
    run
        A pairwise run; `model_1` and `model_2` in the items' groups give the systems.
    draws, seed
        Of the resampling of clusters.
    """
    found = pairs(run)
    verdicts = {rule: ruled(found, rule) for rule in RULES}
    sides = _sides(run)
    parts: dict[tuple[str, str | None], Part] = {(name, None): part for name, part in _averages(found).items()}
    parts |= {(rule, None): won(verdict) for rule, verdict in verdicts.items()}
    parts |= {(rule, name): _of_system(verdicts[rule], side) for name, side in sides.items() for rule in BY_SYSTEM}
    made = shares(parts, found.clusters, draws=draws, seed=seed)

    def row(rule: str, system: str | None) -> WinRate:
        mine = verdicts[rule] if system is None else verdicts[rule][sides[system] != 0]
        return WinRate(rule, system, made[rule, system], int((mine == TIE).sum()), int((mine == NONE).sum()))

    return WinRates(
        **{name: made[name, None] for name in _averages(found)},
        rules=tuple(row(rule, None) for rule in RULES),
        systems=tuple(row(rule, name) for name in sides for rule in BY_SYSTEM),
    )


def _averages(found: Pairs) -> dict[str, Part]:
    every, probs = np.ones(len(found)), found.probs
    return {
        "adjusted_hard": (wins(found.verdict).mean(axis=1), every),
        "adjusted_soft": ((probs[..., 1] + probs[..., TIE] / 2).mean(axis=1), every),
        "changed": (found.flipped.astype(np.float64), every),
        "reversed": (found.reversed.astype(np.float64), every),
    }


def _sides(run: Run) -> dict[str, FloatArray]:
    """System -> (I,) 1 where it is candidate 1, -1 where it is candidate 2, 0 where it is neither or both."""
    named = [tuple(item.groups.get(column) for column in MODELS) for item in run.items]
    usable = [(str(a), str(b)) if a is not None and b is not None and a != b else None for a, b in named]
    systems = sorted({name for pair in usable if pair for name in pair})
    return {
        name: np.array([0.0 if not pair or name not in pair else 1.0 if pair[0] == name else -1.0 for pair in usable])
        for name in systems
    }


def _of_system(verdict: np.ndarray, side: FloatArray) -> Part:
    """What a system wins, over its pairs."""
    above, below = won(verdict)
    below = below * (side != 0)
    return np.where(side < 0, 1 - above, above) * below, below
