"""The beginning of a run: which items can be judged, how long their prompts are, and which are read together.

The plan is a pure function of items and configuration, and is stored with the resolved token budget.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from heapq import nsmallest
from typing import Any

from logitjudge import store, tokens
from logitjudge.backends import Backend, OutOfMemory, Query
from logitjudge.core import Ordering
from logitjudge.errors import ItemError, ModelError, NotFinite
from logitjudge.prompts import MissingField
from logitjudge.study import Study
from logitjudge.trie import unique

Json = dict[str, Any]
TRIED = 8  # items that the path is proven on, should the judge give no numbers for the ones before
EXTREMES: Mapping[str, Any] = {"longest": max, "shortest": min}


@dataclass(frozen=True, slots=True)
class Size:
    """Tokens of an item's prompts: of the longest, as written, and when what they share counts once (None: no tokenizer)."""

    longest: int
    written: int
    unique: int | None


def begin(
    asked: Study, backend: Backend, header: Mapping[str, Any], room: int, texts: int = 1
) -> tuple[Json, list[dict[str, str]]]:
    """Header (run.json) of a new run, and its refusals: every prompt is rendered once, and the batches are planned.

    `room` is how many tokens the judge may write behind a prompt before it scores, `texts` how many texts are read, or
    parsed, behind each.

    The path is proven first, because the budget depends on it.

    Raises
    ------
    ItemError
        No item can be judged.
    """
    sizes, refused = survey(asked, backend, room)
    if not sizes:
        raise ItemError(f"no item can be judged; the first: {refused[0]['id']!r}: {refused[0]['reason']}")
    extremes = _prepared(asked, backend, sizes, room)
    budget = header["configuration"]["max_batch_tokens"] or backend.token_budget()
    alone = [size.unique for size in sizes.values() if size.unique is not None]
    head = {
        "schema_version": store.SCHEMA_VERSION,
        "kind": asked.kind,
        **header,
        "event": tokens.event(asked.template.close),
        "verdict": asked.template.verdict,
        "template": asdict(asked.template),
        "scores": list(asked.scores),
        "rubric": asked.rubric and asked.rubric.to_dict(),
        "orderings": [_ordering(o, asked.scores) for o in asked.orderings],
        "items": len(asked.itemset.items),
        "refused": len(refused),
        "readings": len(sizes) * len(asked.orderings) * texts,
        "ratings_name": asked.itemset.ratings_name,
        "raters": asked.itemset.raters,
        "tokens": sum(size.written for size in sizes.values()),
        "unique_tokens": sum(alone) if alone else None,
        **{which: {"item": name, "length": sizes[name].longest} for which, name in extremes.items()},
        "prompt": _prompt(asked, backend, extremes["shortest"]),
        "budget": budget,
        "batches": [len(batch) for batch in plan(fed(sizes, backend.provenance().get("path")), budget)],
        "halvings": [],
        "sessions": [],
        "finished": None,
        "noise_floor": None,
    }
    return head, refused


def _prompt(asked: Study, backend: Backend, name: str) -> str | None:
    """SHA-256 of the tokens of one prompt, which shows what else is in all prompts: the date, of a chat template that prints it."""
    item = next(item for item in asked.itemset.items if item.id == name)
    resolved = asked.query(backend, item, asked.orderings[0]).tokens
    return None if resolved is None else hashlib.sha256(repr(tuple(resolved.context)).encode()).hexdigest()


def _prepared(asked: Study, backend: Backend, sizes: Mapping[str, Size], room: int) -> dict[str, str]:
    """Names of the items that the path was proven on: a shortest one for which the judge gives no numbers is left aside.

    Raises
    ------
    NotFinite
        It gives none for any of several.
    """
    extremes = ends(sizes)
    shortest = nsmallest(TRIED, sizes, key=lambda name: sizes[name].longest)
    for n, name in enumerate(shortest, 1):
        try:
            prepare(asked, backend, {**extremes, "shortest": name}, room)
        except NotFinite as error:
            if n == len(shortest):
                raise NotFinite(f"the prompts of {', '.join(map(repr, shortest))}: {error}") from error
        else:
            return {**extremes, "shortest": name}
    raise AssertionError("there is at least one item")


def ends(sizes: Mapping[str, Size]) -> dict[str, str]:
    """Names of the items with the longest and with the shortest prompt."""
    return {which: end(sizes, key=lambda name: sizes[name].longest) for which, end in EXTREMES.items()}


def fed(sizes: Mapping[str, Size], path: str | None) -> dict[str, int]:
    """Tokens that each item feeds to the model: the packed path feeds once what its prompts share."""
    packed = path == "packed"
    return {name: size.unique if packed and size.unique else size.written for name, size in sizes.items()}


def prepare(asked: Study, backend: Backend, ends: Mapping[str, str], room: int = 0) -> None:
    """Let the backend prove its path on the run's longest and shortest prompts: those of the items named in `ends`.

    Where the judge writes first, the longest prompts are made longer by the tokens that it may write.

    Raises
    ------
    ModelError
        Not even one of these prompts alone fits into the memory.
    """
    items = {item.id: item for item in asked.itemset.items}
    try:
        longest, shortest = (asked.queries(backend, [items[ends[which]]]) for which in ("longest", "shortest"))
        backend.prepare([_stretched(query, room) for query in longest], shortest)
    except OutOfMemory as error:
        raise ModelError(
            f"the device is out of memory with the prompts of item {ends['longest']!r}, the longest: {error}. "
            "Use another --device, a smaller --dtype, or leave that item out."
        ) from error


def _stretched(query: Query, room: int) -> Query:
    """The query behind as many tokens as its judge may write: those of its own prompt again."""
    if not room or query.tokens is None:
        return query
    ids = query.tokens.context
    text = (ids * (room // len(ids) + 1))[:room]
    return replace(query, tokens=replace(query.tokens, context=ids + text))


def _ordering(ordering: Ordering, scores: Sequence[int]) -> Json:
    labels = ordering.labels and list(ordering.labels)
    return {"shown": list(ordering.shown), "labels": labels, "values": list(ordering.values(scores))}


def survey(asked: Study, backend: Backend, room: int = 0) -> tuple[dict[str, Size], list[dict[str, str]]]:
    """Size of every item that can be judged, with `room` for what the judge writes, and the others with their reasons."""
    sizes: dict[str, Size] = {}
    refused = []
    for item in asked.itemset.items:
        if item.id in asked.refuses:
            refused.append({"id": item.id, "reason": asked.refuses[item.id]})
            continue
        try:
            sizes[item.id] = _size(asked.queries(backend, [item]), backend, room)
        except _Refused as error:
            refused.append({"id": item.id, "reason": str(error)})
        except MissingField as error:
            reason = f"the template prints the field {error.name!r}, which this item does not have"
            refused.append({"id": item.id, "reason": reason})
    return sizes, refused


def readable(asked: Study, backend: Backend) -> dict[str, Size]:
    """Size of every item. Raises `ItemError` where one cannot be judged."""
    sizes, refused = survey(asked, backend)
    if refused:
        raise ItemError(f"item {refused[0]['id']!r} cannot be read: {refused[0]['reason']}. Leave it out of the data.")
    return sizes


class _Refused(Exception):  # noqa: N818
    """An item that cannot be judged, with the reason."""


def _size(queries: Sequence[Query], backend: Backend, room: int) -> Size:
    lengths = [_fitting(query, backend.max_length, room) for query in queries]
    for query in queries:
        _known(query, backend)
    fed = [row for query in queries if query.tokens is not None for row in query.tokens.fed]
    return Size(max(lengths), sum(lengths), unique(fed) if fed else None)


def _fitting(query: Query, most: int | None, room: int) -> int:
    if most is not None and query.length + room > most:
        text = f" and its text up to {room} (--max-new-tokens)" if room else ""
        raise _Refused(f"the prompt has {query.length} tokens{text}, the judge takes {most}; prompts are never cut")
    return query.length


def _known(query: Query, backend: Backend) -> None:
    """Refuse a prompt with a token that the weights do not know: their tokenizer is another one, or has words more."""
    vocabulary = getattr(backend, "vocabulary", None)  # backends of others may not say
    if query.tokens is None or backend.tokenizer is None or vocabulary is None:
        return
    highest = max(max(ids, default=0) for ids in (query.tokens.context, *query.tokens.tails, *query.tokens.aliases))
    if highest >= vocabulary:
        raise _Refused(
            f"the prompt has the token {highest} ({backend.tokenizer.decode([highest])!r}), and the weights know tokens 0 to "
            f"{vocabulary - 1} only: is the tokenizer that of another model?"
        )


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
