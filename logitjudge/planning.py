"""The beginning of a run: which items can be judged, how long their prompts are, and which are read together.

The plan is a pure function of items and configuration, and is stored with the resolved token budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from logitjudge import store, tokens
from logitjudge.backends import Backend, Query
from logitjudge.core import Ordering
from logitjudge.errors import ItemError
from logitjudge.prompts import MissingField
from logitjudge.study import Study

Json = dict[str, Any]


def begin(asked: Study, backend: Backend, header: Mapping[str, Any]) -> tuple[Json, list[dict[str, str]]]:
    """Header (run.json) of a new run, and its refusals: every prompt is rendered once, and the batches are planned.

    Raises
    ------
    ItemError
        No item can be judged.
    """
    lengths, refused = _survey(asked, backend)
    if not lengths:
        raise ItemError(f"no item can be judged; the first: {refused[0]['id']!r}: {refused[0]['reason']}")
    longest, shortest = (end(lengths, key=lambda name: max(lengths[name])) for end in (max, min))
    budget = header["configuration"]["max_batch_tokens"] or backend.token_budget()
    sums = {name: sum(row) for name, row in lengths.items()}
    head = {
        "schema_version": store.SCHEMA_VERSION,
        "kind": "rubric",
        **header,
        "event": tokens.event(asked.template.close),
        "verdict": asked.template.verdict,
        "template": asdict(asked.template),
        "scores": list(asked.scores),
        "rubric": asked.rubric and asked.rubric.to_dict(),
        "orderings": [_ordering(o, asked.scores) for o in asked.orderings],
        "items": len(asked.itemset.items),
        "refused": len(refused),
        "readings": len(lengths) * len(asked.orderings),
        "ratings_name": asked.itemset.ratings_name,
        "raters": asked.itemset.raters,
        "tokens": sum(sums.values()),
        "longest": {"item": longest, "length": max(lengths[longest])},
        "shortest": {"item": shortest, "length": max(lengths[shortest])},
        "budget": budget,
        "batches": [len(batch) for batch in plan(sums, budget)],
        "halvings": [],
        "sessions": [],
        "finished": None,
        "noise_floor": None,
    }
    return head, refused


def _ordering(ordering: Ordering, scores: Sequence[int]) -> Json:
    labels = ordering.labels and list(ordering.labels)
    return {"shown": list(ordering.shown), "labels": labels, "values": list(ordering.values(scores))}


def _survey(asked: Study, backend: Backend) -> tuple[dict[str, list[int]], list[dict[str, str]]]:
    """Length of every prompt of every item that can be judged, and the others with their reasons."""
    lengths: dict[str, list[int]] = {}
    refused = []
    for item in asked.itemset.items:
        try:
            lengths[item.id] = [_fitting(query, backend.max_length) for query in asked.queries(backend, [item])]
        except _Refused as error:
            refused.append({"id": item.id, "reason": str(error)})
        except MissingField as error:
            reason = f"the template prints the field {error.name!r}, which this item does not have"
            refused.append({"id": item.id, "reason": reason})
    return lengths, refused


class _Refused(Exception):  # noqa: N818
    """An item that cannot be judged, with the reason."""


def _fitting(query: Query, most: int | None) -> int:
    if most is not None and query.length > most:
        raise _Refused(f"the prompt has {query.length} tokens, the judge takes {most}; prompts are never cut")
    return query.length


def plan(lengths: Mapping[str, int], budget: int) -> list[list[str]]:
    """Batches of whole items, in order, each within the budget unless a single item is larger.

    Examples
    --------
    >>> plan({"a": 3, "b": 3, "c": 9, "d": 1}, 6)
    [['a', 'b'], ['c'], ['d']]
    """
    batches: list[list[str]] = []
    held = 0
    for name, length in lengths.items():
        if not batches or held + length > budget:
            batches.append([])
            held = 0
        batches[-1].append(name)
        held += length
    return batches
