"""What a judge wrote before it scored, in its run folder: stored before it is read, found again, counted at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from logitjudge import parts, picks, store, verdicts
from logitjudge.backends import Backend, Query, Trace
from logitjudge.core import Item, Ordering
from logitjudge.parts import GIVEN_UP, Name
from logitjudge.study import Study
from logitjudge.verdicts import Writing

Cell = tuple[Item, int, Ordering]  # a reading: its item, its text's place on the axis S, its ordering
Rows = Sequence[Mapping[str, Any]]  # of texts, as `logitjudge.parts.traces` gives them


def queries(
    asked: Study, backend: Backend, items: Sequence[Item], rows: Rows, how: Writing | None
) -> tuple[list[Query], list[Name] | None]:
    """Queries behind the texts of `rows`, and the names of these; items whose texts did not end are left out.

    No queries where the score is parsed and nothing is read.
    """
    if how is None:
        return asked.queries(backend, items), None
    if how.parsed:
        return [], None
    known = {row["trace_id"]: verdicts.trace_of(row) for row in rows}
    cells = [(item, s, ordering) for item in items for ordering in asked.orderings for s in range(how.texts)]
    placed = _behind(asked, backend, how, cells, known)
    lost = {item.id for (item, _, _), (query, _) in zip(cells, placed, strict=True) if query is None}
    kept = [(query, name) for query, name in placed if query is not None and query.item.id not in lost]
    return [query for query, _ in kept], [name for _, name in kept]


def write(asked: Study, backend: Backend, items: Sequence[Item], how: Writing) -> list[dict[str, Any]]:
    """Rows of all texts of some items."""
    queries: list[Query] = []
    samples: list[int] = []
    for item in items:
        for ordering in how.sources or asked.orderings:
            queries += [asked.query(backend, item, ordering)] * how.samples
            samples += range(how.samples)
    names = [how.name(q.item.id, q.ordering, s, asked.scores) for q, s in zip(queries, samples, strict=True)]
    traces = verdicts.write(backend, queries, names, how)
    picked = [verdicts.parsed(*pair, how) if how.parsed else None for pair in zip(queries, traces, strict=True)]
    rows = zip(names, queries, samples, traces, picked, strict=True)
    return [verdicts.row(*each, asked.scores) for each in rows]


def _behind(
    asked: Study, backend: Backend, how: Writing, cells: Sequence[Cell], known: Mapping[str, Trace]
) -> list[tuple[Query | None, Name]]:
    """Each cell's query behind its text, None where that did not end, and the text's name."""
    assert backend.tokenizer is not None
    prompts: dict[tuple[str, Ordering], Query] = {}
    made: list[tuple[Query | None, Name]] = []
    for item, s, ordering in cells:
        if (item.id, ordering) not in prompts:
            prompts[item.id, ordering] = asked.query(backend, item, ordering)
        source, sample = how.behind(ordering)[s]
        name = how.name(item.id, source, sample, asked.scores)
        query = verdicts.place(backend.tokenizer, prompts[item.id, ordering], known[name], how)
        made.append((query, (name, sample)))
    return made


def again(asked: Study, backend: Backend, how: Writing | None, cells: Sequence[Cell], rows: Rows) -> list[Query]:
    """Make some prompts once more, behind the texts of `rows`, which their judge wrote (`of`)."""
    if how is None:
        return [asked.query(backend, item, ordering) for item, _, ordering in cells]
    known = {row["trace_id"]: verdicts.trace_of(row) for row in rows}
    kept = [query for query, _ in _behind(asked, backend, how, cells, known) if query is not None]
    assert len(kept) == len(cells)  # refused items have no readings to make again
    return kept


def of(folder: Path, asked: Study, how: Writing | None, cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Rows of the stored texts behind which some cells were read; none where nothing was written."""
    if how is None:
        return []
    names = {how.name(item.id, *how.behind(ordering)[s], asked.scores) for item, s, ordering in cells}
    return [row for row in parts.traces(folder) if row["trace_id"] in names]


def unended(rows: Iterable[Mapping[str, Any]], how: Writing) -> Iterator[str]:
    """Item of each text, among some rows, for which an item is refused."""
    for row in rows:
        missing = row["finish_reason"] != "marker" and how.unended == "refuse" and not how.parsed
        if missing or row["finish_reason"] in GIVEN_UP:
            yield row["item_id"]


def ended(folder: Path, asked: Study, head: Mapping[str, Any], how: Writing | None) -> dict[str, Any]:
    """Refuse items whose texts did not end, and give what run.json says of how all texts ended."""
    if how is None:
        return {}
    options = {item.id: [level.option for level in asked.rubric_of(item).levels] for item in asked.itemset.items}
    counts: Counter[str] = Counter()
    lost: dict[str, Counter[str]] = {}
    for row in parts.traces(folder):
        counts[row["finish_reason"]] += 1
        counts["named"] += picks.names(row["text"], options[row["item_id"]])
        counts["failed"] += row["picked"] is None
        for item in unended([row], how):
            lost.setdefault(item, Counter())[
                row["finish_reason"] if row["finish_reason"] in GIVEN_UP else "unended"
            ] += 1
    _refuse(folder, head, how, lost)
    ends = {"ended": counts["marker"], "end": counts["end"], "length": counts["length"]}
    ends |= {name: counts[name] for name in GIVEN_UP if counts[name]}
    about = {**head["traces"], "count": sum(ends.values()), **ends, "named": counts["named"]}
    return {"traces": {**about, "failed": counts["failed"]} if how.parsed else about}


def _refuse(folder: Path, head: Mapping[str, Any], how: Writing, lost: Mapping[str, Mapping[str, int]]) -> None:
    """Write down which items are refused because of their texts."""
    each = len(how.sources or head["orderings"]) * how.samples
    limits = {session["timeout"] for session in head["sessions"] if session.get("timeout")}
    time = f"after {limits.pop():g} s" if len(limits) == 1 else "in time"
    why = {
        "unended": f"have no {how.marker!r}",
        "timeout": f"had not ended {time} (--timeout)",
        "broken": "could not be written: the model gave NaN or infinite logits",
    }
    late = [
        {
            "id": item,
            "reason": ", ".join(f"{count} of {each} texts of the judge {why[kind]}" for kind, count in kinds.items()),
            "late": True,
        }
        for item, kinds in lost.items()
    ]
    known = [row for row in store.refusals(folder) if not row.get("late") or "batch" in row]
    store.refuse(folder, [*known, *late])
