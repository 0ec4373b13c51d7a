"""What probes of the rubric share: each item's rubric, names of scores, and variants under a changed rubric."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from logitjudge import rubrics
from logitjudge.core import Item, Ordering, Rubric
from logitjudge.probes import Variant, kept
from logitjudge.run import Run

DEFAULT = "helpfulness"  # of items that have none
ROMAN = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii")
WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
UNORDERED = "QHMXDWJTZFRL"  # neither rising nor falling
LEAST = 0.5  # of the probability that the options must have, in the mean, for a run to go without a note
NO_REFERENCE = "No reference answer is shown: a template may print a score beside it."
Change = Callable[[Rubric], Rubric]


def rubric_of(item: Item) -> Rubric:
    """An item's own rubric, or the one of items that have none."""
    return item.rubric or rubrics.load(DEFAULT)


def scores_of(items: Sequence[Item]) -> tuple[int, ...]:
    """(K,) scores of the first item's rubric."""
    return rubric_of(items[0]).scores


def names(kind: str, scores: Sequence[int]) -> tuple[str, ...] | None:
    """(K,) names of scores in score order; None where some score has none.

    Parameters
    ----------
    kind
        "numbers", "roman" and "words" name the value; "letters" (A is the lowest) and "unordered" (Q, H, M ...) name the rank.

    Examples
    --------
    >>> names("roman", (1, 2, 4)), names("roman", (0, 1))
    (('i', 'ii', 'iv'), None)
    >>> names("unordered", (1, 2, 3))
    ('Q', 'H', 'M')
    """
    ranks = range(len(scores))
    known: dict[int, str] = {
        "numbers": {score: str(score) for score in scores},
        "roman": dict(enumerate(ROMAN, start=1)),
        "words": dict(enumerate(WORDS)),
        "letters": dict(zip(scores, string.ascii_uppercase, strict=False)),
        "unordered": dict(zip(scores, UNORDERED, strict=False)),
    }[kind]
    found = [known[scores[k]] for k in ranks if scores[k] in known]
    return tuple(found) if len(found) == len(scores) else None


def renamed(rubric: Rubric, options: Sequence[str]) -> Rubric:
    """A rubric whose levels are answered with other strings (K,)."""
    levels = [replace(level, option=option) for level, option in zip(rubric.levels, options, strict=True)]
    return Rubric(rubric.name, rubric.criterion, tuple(levels))


def changed(items: Sequence[Item], change: Change, orderings: tuple[Ordering, ...] | None = None) -> Variant:
    """Items under a changed rubric, each its own; without their references, beside which a template may print a score."""
    made = []
    for item in items:
        fields = {name: text for name, text in item.fields.items() if name != "reference"}
        made.append(replace(item, fields=fields, rubric=change(rubric_of(item))))
    distinct = {item.rubric for item in made}
    return Variant(tuple(made), rubric=distinct.pop() if len(distinct) == 1 else None, orderings=orderings)


def named(items: Sequence[Item], kind: str, orderings: tuple[Ordering, ...] | None = None) -> Variant:
    """Items whose scores have names of a kind; those whose scores have none are skipped."""
    known = {item.id: names(kind, rubric_of(item).scores) is not None for item in items}
    skipped = {name: f"its scores have no name of the kind {kind!r}" for name, there in known.items() if not there}
    made = changed(
        kept(items, {name: True for name, there in known.items() if there}),
        lambda rubric: renamed(rubric, names(kind, rubric.scores) or ()),
        orderings,
    )
    return replace(made, skipped=skipped)


def thin(runs: Mapping[str, Run]) -> tuple[str, ...]:
    """A note for each run whose judge mostly wanted to answer with none of the options."""
    shares = {name: float(run.mass.mean()) for name, run in runs.items()}
    return tuple(
        f"{name}: the options have only {share:.1%} of the probability, so their shares say little."
        for name, share in shares.items()
        if share < LEAST
    )
