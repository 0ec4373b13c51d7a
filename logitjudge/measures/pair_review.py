"""Pairs for people to look at: those whose verdict the order decides, worst first.

How bad a contradiction is, in nats: each order leads its own verdict over the other order's by log P(own) - log P(other's); the smaller of
the two leads counts. It is large only where the judge is sure both times. Without ties it is exactly |position| - |content|.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from logitjudge.core import FloatArray, Item
from logitjudge.measures.pairs import NONE, ORDERS, TIE, Pairs, pairs
from logitjudge.run import Run

FIELDS = ("instruction", "response_1", "response_2")
OPTIONS = {"1": 1, "2": 2, "tie": TIE}
Row = dict[str, Any]


def review(run: Run) -> list[Row]:
    """Inconclusive pairs as rows, the most confident contradiction first; of equal ones, by id.

    Returns
    -------
    list of dict
        ``id, instruction, response_1, response_2`` (None where the run holds no texts); for each order (`ORDERS`) ``verdict_ORDER``
        (1, 2, 0) and ``p_1_ORDER, p_2_ORDER, p_tie_ORDER`` (None where a tie is no option); ``content, position, contradiction``
        (nats); ``gold`` (None where there is none); then the items' group columns, as ``group_NAME`` where the name is taken.
    """
    found = pairs(run)
    bad, columns = contradiction(found), group_columns(run)
    flips = np.flatnonzero(found.flipped).tolist()
    order = sorted(flips, key=lambda i: (-round(float(bad[i]), 9), found.ids[i]))
    return [row(found, run.items[i], i, columns, contradiction=float(bad[i])) for i in order]


def contradiction(found: Pairs) -> FloatArray:
    """(I,) smaller lead, in nats, of an order's verdict over the other order's; 0 where they agree, or an equal lead made a tie."""
    i = np.arange(len(found))
    leads = []
    for o in (0, 1):
        own, other = found.verdict[:, o], found.verdict[:, 1 - o]
        usable = found.flipped & np.isfinite(found.logq[i, o, own])
        with np.errstate(invalid="ignore"):  # a tie that is no option: -inf on both sides
            leads.append(np.where(usable, found.logq[i, o, own] - found.logq[i, o, other], 0))
    return np.maximum(np.minimum(*leads), 0)


def group_columns(run: Run) -> list[str]:
    """Names of all group columns, in the order of their appearance."""
    return list(dict.fromkeys(name for item in run.items for name in item.groups))


def row(found: Pairs, item: Item, i: int, columns: list[str], **measures: Any) -> Row:
    """One pair as a row; `measures` stand behind its effects."""
    made: Row = {"id": item.id} | {name: item.fields.get(name) or None for name in FIELDS}
    for o, order in enumerate(ORDERS):
        made[f"verdict_{order}"] = int(found.verdict[i, o])
        for name, option in OPTIONS.items():
            there = option != TIE or found.ties
            made[f"p_{name}_{order}"] = float(found.probs[i, o, option]) if there else None
    made |= {"content": float(found.content[i]), "position": float(found.position[i]), **measures}
    made["gold"] = None if found.gold[i] == NONE else int(found.gold[i])
    for name in columns:
        made[f"group_{name}" if name in made else name] = item.groups.get(name)
    return made
