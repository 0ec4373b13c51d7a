"""What a judge wrote before it scored, in its run folder: stored before it is read, found again, counted at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from logitjudge import parts, store, verdicts
from logitjudge.backends import Backend, Query
from logitjudge.core import Item, Ordering
from logitjudge.study import Study
from logitjudge.verdicts import Writing


def written(
    folder: Path, asked: Study, backend: Backend, batch: int, items: Sequence[Item], how: Writing | None
) -> tuple[list[Query], list[str] | None]:
    """Queries behind the texts that the judge writes, and the names of these; items that are refused are left out."""
    queries = asked.queries(backend, items)
    if how is None:
        return queries, None
    rows = list(parts.traces(folder, batch))
    if not rows:
        traces = verdicts.write(backend, queries, how)
        rows = [verdicts.row(query, trace, asked.scores) for query, trace in zip(queries, traces, strict=True)]
        parts.write_traces(folder, batch, rows)
    placed = [_placed(backend, query, row, how) for query, row in zip(queries, rows, strict=True)]
    lost = {query.item.id for query, there in zip(queries, placed, strict=True) if there is None}
    kept = [query for query in placed if query is not None and query.item.id not in lost]
    return kept, [verdicts.trace_id(query, asked.scores) for query in kept]


def _placed(backend: Backend, query: Query, row: Mapping[str, Any], how: Writing) -> Query | None:
    assert backend.tokenizer is not None
    return verdicts.place(backend.tokenizer, query, verdicts.trace_of(row), how)


def again(
    folder: Path, asked: Study, backend: Backend, how: Writing | None, pairs: Sequence[tuple[Item, Ordering]]
) -> list[Query]:
    """Make some prompts once more, behind the texts that their judge wrote."""
    queries = [asked.query(backend, item, ordering) for item, ordering in pairs]
    if how is None:
        return queries
    names = [verdicts.trace_id(query, asked.scores) for query in queries]
    rows = {row["trace_id"]: row for row in parts.traces(folder) if row["trace_id"] in names}
    placed = [_placed(backend, query, rows[name], how) for query, name in zip(queries, names, strict=True)]
    kept = [query for query in placed if query is not None]
    assert len(kept) == len(queries)  # refused items have no readings to make again
    return kept


def ended(folder: Path, head: Mapping[str, Any], how: Writing | None) -> dict[str, Any]:
    """Refuse items whose texts did not end, and give what run.json says of that and of how all texts ended."""
    if how is None:
        return {}
    ends: Counter[str] = Counter()
    unended: Counter[str] = Counter()
    for row in parts.traces(folder):
        ends[row["finish_reason"]] += 1
        unended[row["item_id"]] += row["finish_reason"] != "marker"
    counts = {"ended": ends["marker"], "end": ends["end"], "length": ends["length"]}
    late = [
        {
            "id": item,
            "reason": f"{count} of {len(head['orderings'])} texts of the judge have no {how.marker!r}",
            "late": True,
        }
        for item, count in unended.items()
        if count and how.unended == "refuse"
    ]
    known = [row for row in store.refusals(folder) if not row.get("late")]
    store.refuse(folder, [*known, *late])
    items = head["items"] - len(known) - len(late)
    return {
        "traces": {"end_marker": how.marker, "count": ends.total(), **counts},
        "refused": len(known) + len(late),
        "readings": items * len(head["orderings"]),
    }
