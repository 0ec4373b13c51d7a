"""How the time of the packed path grows: with the number of orderings, and with the number of levels."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from logitjudge import orderings as designs
from logitjudge.bench.engines import Engine
from logitjudge.bench.work import Work, work
from logitjudge.core import Item, ItemSet, Level, Ordering, Rubric
from logitjudge.study import Study
from logitjudge.tokens import Tokenizer

LEVELS = 5
COUNTS = (1, 5, 10, 30, 60, 120)  # orderings of that many levels; the last is all of them
FULL = (3, 4, 6)  # levels, under all their orderings


@dataclass(frozen=True, slots=True)
class Point:
    """Median seconds of the packed path for some orderings of a rubric with `k` levels."""

    k: int
    orderings: int
    prompts: int
    tokens: int
    unique_tokens: int
    seconds: float


def growth(
    asked: Study, tokenizer: Tokenizer, packed: Engine, *, repeats: int, seed: int, say: Callable[[str], None]
) -> tuple[Point, ...]:
    """Time the packed path in interleaved rounds over designs of growing size."""
    works = [
        work(*pair, tokenizer, seed=seed, max_length=packed.settings["max_length"]) for pair in _studies(asked, seed)
    ]
    seconds: list[list[float]] = [[] for _ in works]
    for number in range(repeats):
        for here, made in zip(seconds, works, strict=True):
            packed.child.ask("reset")
            here.append(packed.read(made).seconds)
        say(f"growth, round {number + 1} of {repeats}: {sum(row[-1] for row in seconds):.3g} s")
    return tuple(_point(*pair) for pair in zip(works, seconds, strict=True))


def _point(made: Work, seconds: list[float]) -> Point:
    k, orderings = len(made.queries[0].rubric.levels), len(made.queries) // len(made.sizes)
    return Point(k, orderings, len(made.queries), made.tokens, made.unique_tokens, statistics.median(seconds))


def _studies(asked: Study, seed: int) -> Iterator[tuple[Study, str | tuple[Ordering, ...]]]:
    """Studies and their designs: the beginnings of one random design, then `full` of fewer and of more levels."""
    usual = with_levels(asked, LEVELS)
    drawn = designs.parse(f"random:{COUNTS[-1]}", usual.scores, seed)
    yield from ((usual, "full" if count == COUNTS[-1] else drawn[:count]) for count in COUNTS)
    yield from ((with_levels(asked, k), "full") for k in FULL)


def with_levels(asked: Study, k: int) -> Study:
    """The same items, their rubrics cut or extended to k levels: a text of the same length, for its time only."""
    items = tuple(_with_levels(item, asked.rubric_of(item), k) for item in asked.itemset.items)
    assert items[0].rubric is not None
    return replace(asked, itemset=ItemSet(items), rubric=None, scores=items[0].rubric.scores)


def _with_levels(item: Item, rubric: Rubric, k: int) -> Item:
    levels = list(rubric.levels[:k])
    while len(levels) < k:
        like, score = rubric.levels[len(levels) % len(rubric.levels)], levels[-1].score + 1
        levels.append(Level(score, f"{like.text} ({score})"))
    return replace(item, rubric=replace(rubric, levels=tuple(levels)), human=None)
