"""What `doctor` looks at: the lengths of all prompts, and a handful of readings at the identity and the reverse."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from logitjudge import datasets
from logitjudge.backends import Backend, OutOfMemory, Query
from logitjudge.core import Item, ItemSet, Ordering, Readings
from logitjudge.doctor.follow import Follows, follows
from logitjudge.errors import InputError, ModelError
from logitjudge.prompts import MissingField
from logitjudge.study import Study
from logitjudge.trie import unique

SAMPLE = 4  # items that are read, each at two orderings
TIMED = 10  # prompts that are timed
TWICE = 4  # prompts that are read a second way
FOLLOWED = 2  # prompts behind whose options is read
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Survey:
    """What is known of the items before anything is read.

    Parameters
    ----------
    lengths
        Length of the prompt of each item at its first ordering.
    lacking
        Items without a field that the template prints, and the field.
    marked
        Items whose prompt holds a control token of the tokenizer, and the token.
    """

    lengths: Mapping[str, int]
    lacking: Mapping[str, str]
    marked: Mapping[str, str]

    def fitting(self, most: int | None) -> list[str]:
        """Items that the judge can take."""
        return [name for name, length in self.lengths.items() if most is None or length <= most]


@dataclass(frozen=True, slots=True)
class Timing:
    """How long some prompts took, warm."""

    prompts: int
    tokens: int
    unique: int
    seconds: float


@dataclass(slots=True)
class Evidence:
    """Everything that the checks judge. What could not be read stays None, and `broken` says why.

    `unique_share` is the share of tokens that is left when what the prompts of an item share counts once.
    """

    asked: Study
    backend: Backend
    survey: Survey
    facts: Mapping[str, Any]
    budget: int
    queries: Sequence[Query] = ()
    readings: Readings | None = None
    second: Readings | None = None
    follows: tuple[Follows, ...] | None = None
    timing: Timing | None = None
    unique_share: float | None = None
    broken: str = ""
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def read(self, queries: Sequence[Query]) -> Readings:
        """Read by the backend's own path."""
        return self.backend.read(queries, self.budget)


def look(asked: Study, backend: Backend, budget: int | None, say: Say) -> Evidence:
    """Look at a judge.

    Raises
    ------
    InputError
        The input is wrong: options that cannot be told apart, a planted judge for another number of levels.
    """
    facts: Mapping[str, Any] = getattr(backend, "facts", dict)()
    say(f"checking {len(asked.itemset.items)} items")
    seen = Evidence(asked, backend, survey(asked, backend, facts), facts, budget or 0)
    fitting = set(seen.survey.fitting(backend.max_length))
    items = [item for item in asked.itemset.items if item.id in fitting]
    if items:
        _read(seen, items, say)
    else:
        seen.broken = "no prompt can be read"
    seen.budget = seen.budget or backend.token_budget()
    seen.provenance = backend.provenance()
    return seen


def _read(seen: Evidence, items: Sequence[Item], say: Say) -> None:
    """Read, and note what keeps the judge from being read."""
    try:
        for what, step in STEPS.items():
            say(what)
            step(seen, items)
    except OutOfMemory as error:
        seen.broken = f"out of memory: {error}"
    except InputError as error:
        if not isinstance(error, ModelError):
            raise
        seen.broken = str(error)
    except ValueError as error:  # a reading that breaks its invariants, such as being finite
        seen.broken = str(error)


def _prepare(seen: Evidence, items: Sequence[Item]) -> None:
    ends = (end(items, key=lambda item: seen.survey.lengths[item.id]) for end in (max, min))
    seen.backend.prepare(*(list(islice(_prompts(seen, [item]), TIMED)) for item in ends))
    seen.budget = seen.budget or seen.backend.token_budget()  # it depends on the path


def _sample(seen: Evidence, items: Sequence[Item]) -> None:
    shown = tuple(range(len(seen.asked.scores)))
    seen.queries = [
        seen.asked.query(seen.backend, item, Ordering(row))
        for item in _few(seen, items)
        for row in (shown, shown[::-1])
    ]
    readings = seen.read(seen.queries)
    if readings.exact is not None:
        raise ModelError(
            "the server gives its most probable tokens only, and an option is not among them: its probability is not known"
        )
    seen.readings = readings


def _twice(seen: Evidence, items: Sequence[Item]) -> None:
    seen.second = seen.backend.read_plain(seen.queries[:TWICE])


def _time(seen: Evidence, items: Sequence[Item]) -> None:
    queries = list(islice(_prompts(seen, _few(seen, items)), TIMED))
    start = time.perf_counter()
    seen.read(queries)
    seconds = time.perf_counter() - start
    seen.timing = Timing(len(queries), *_fed(queries), seconds)
    if seen.backend.tokenizer is not None:
        sizes = [_fed(list(_prompts(seen, [item]))) for item in _few(seen, items)]
        seen.unique_share = sum(alone for _, alone in sizes) / sum(written for written, _ in sizes)


def _fed(queries: Sequence[Query]) -> tuple[int, int]:
    """Length of the prompts as written, and their tokens when what they share counts once."""
    rows = [row for query in queries if query.tokens is not None for row in query.tokens.fed]
    return sum(query.length for query in queries), unique(rows)


def _follow(seen: Evidence, items: Sequence[Item]) -> None:
    if seen.backend.tokenizer is not None and not seen.queries[0].prompt.close:
        seen.follows = follows(seen.queries[:FOLLOWED], seen.backend.tokenizer, seen.read)


STEPS = {
    "proving the fast path": _prepare,
    "reading a few prompts": _sample,
    "reading some of them a second way": _twice,
    "measuring the time": _time,
    "reading what follows the options": _follow,
}


def _few(seen: Evidence, items: Sequence[Item]) -> Sequence[Item]:
    """Take a few items of different clusters."""
    return datasets.take(ItemSet(tuple(items)), SAMPLE).items


def _prompts(seen: Evidence, items: Sequence[Item]) -> Iterator[Query]:
    return (seen.asked.query(seen.backend, item, ordering) for item in items for ordering in seen.asked.orderings)


def survey(asked: Study, backend: Backend, facts: Mapping[str, Any]) -> Survey:
    """Write every item's prompt at the first ordering. Raises `OptionError` where options cannot be told apart."""
    lengths: dict[str, int] = {}
    lacking: dict[str, str] = {}
    marked: dict[str, str] = {}
    for item in asked.itemset.items:
        try:
            query = asked.query(backend, item, asked.orderings[0])
        except MissingField as error:
            lacking[item.id] = error.name
            continue
        lengths[item.id] = query.length
        text = "\n".join(message.content for message in query.prompt.messages)
        if found := next((mark for mark in facts.get("special_tokens", ()) if mark and mark in text), None):
            marked[item.id] = found
    return Survey(lengths, lacking, marked)
