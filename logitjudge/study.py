"""What is asked of a judge: checked items, one scale, distinct orderings, a template that shows what it is told to.

Everything that can be wrong with the input, but for the judge itself, is found here, before anything is opened or written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logitjudge import datasets, orderings as designs, pairs, parts, prompts, rubrics, tokens
from logitjudge.backends import Backend, Query
from logitjudge.core import Item, ItemSet, Ordering, Prompt, Rubric
from logitjudge.errors import InputError, ItemError, RubricError, unknown
from logitjudge.prompts import MissingField, Template

if TYPE_CHECKING:
    import pandas as pd

OFFERS = ("pairwise", "pairwise_ties")  # shipped templates, which say themselves whether a tie may be answered
TIE = "TIE"
VERDICTS = ("direct", "feedback", "think", "sampled")


@dataclass(frozen=True, slots=True)
class Study:
    """What is asked of the judge: checked items, one scale, distinct orderings, a template."""

    itemset: ItemSet
    rubric: Rubric | None
    scores: tuple[int, ...]
    orderings: tuple[Ordering, ...]
    template: Template
    kind: str = "rubric"
    refuses: Mapping[str, str] = field(default_factory=dict)  # ids of items that cannot be asked about, with the reason

    def rubric_of(self, item: Item) -> Rubric:
        """The rubric that an item is judged by."""
        if self.kind == pairs.KIND:
            return pairs.candidates(item, ties=0 in self.scores)
        rubric = self.rubric or item.rubric
        assert rubric is not None
        return rubric

    def query(self, backend: Backend, item: Item, ordering: Ordering) -> Query:
        """The prompt of one item under one ordering, in token space where the backend has a tokenizer."""
        rubric = self.rubric_of(item)
        prompt = prompts.render(self.template, item, rubric, ordering)
        return Query(item, rubric, ordering, prompt, tokens_of(backend, prompt))

    def queries(self, backend: Backend, items: Sequence[Item]) -> list[Query]:
        """All prompts of some items, in item, then ordering order."""
        return [self.query(backend, item, ordering) for item in items for ordering in self.orderings]

    def key(self, query: Query) -> parts.Key:
        """What identifies a reading in the run folder."""
        return query.item.id, query.ordering.values(self.scores), query.ordering.labels


def tokens_of(backend: Backend, prompt: Prompt) -> tokens.Resolved | None:
    """A prompt in token space, or None where the backend has no tokenizer."""
    if backend.tokenizer is None:
        return None
    text = backend.tokenizer.render(prompt.messages, prompt.prefill)
    return tokens.resolve(backend.tokenizer, text, prompt.options, prompt.close)


def study(
    data: str | Path | ItemSet | Sequence[Item] | pd.DataFrame,
    *,
    orderings: str | Sequence[Ordering] | Sequence[Sequence[int]] = "balanced",
    rubric: str | Path | Rubric = "item",
    template: str | Path = "prometheus",
    verdict: str = "direct",
    limit: int | None = None,
    seed: int = 0,
) -> Study:
    """Read and check everything that a run needs but the judge.

    Raises
    ------
    InputError
        Whatever is wrong with the input; the message says what and where.
    """
    if verdict not in VERDICTS:
        raise InputError(unknown("verdict mode", verdict, VERDICTS))
    itemset = _itemset(data)
    pairs.forbid_pairs(itemset.items)
    one = None if rubric == "item" else rubric if isinstance(rubric, Rubric) else rubrics.load(str(rubric))
    scores = _scale(itemset.items, one)
    datasets.check_ratings(
        itemset.items, lambda item: one or item.rubric, str(data) if isinstance(data, str | Path) else "items"
    )
    if limit is not None:
        itemset = datasets.take(itemset, limit, seed)
    made = Study(itemset, one, scores, designs.parse(orderings, scores, seed), prompts.load(template, verdict))
    _check_template(made)
    return made


def pairs_study(
    data: str | Path | ItemSet | Sequence[Item] | pd.DataFrame,
    *,
    labels: str = "slot",
    ties: bool = False,
    criteria: str | None = None,
    template: str | Path | None = None,
    verdict: str = "direct",
    limit: int | None = None,
    seed: int = 0,
) -> Study:
    """Read and check what a pairwise run needs but the judge: the two responses of an item are its levels.

    Parameters
    ----------
    labels
        "slot": A is what stands first; "swap": both orders with both assignments of the letters.
    ties
        Whether the judge may answer TIE.
    criteria
        What makes a response better, of all items that do not say it themselves.

    Raises
    ------
    InputError
        Whatever is wrong with the input; the message says what and where.
    """
    if verdict not in VERDICTS:
        raise InputError(unknown("verdict mode", verdict, VERDICTS))
    itemset = items_of(data, limit, seed)
    items = [_with_criteria(item, criteria) for item in itemset.items]
    refuses = {item.id: reason for item in items if (reason := pairs.unreadable(item))}
    scores = (0, 1, 2) if ties else (1, 2)
    made = Study(
        replace(itemset, items=tuple(items)), None, scores, pairs.orders(labels, ties),
        prompts.load(template or ("pairwise_ties" if ties else "pairwise"), verdict),
        pairs.KIND, refuses,
    )  # fmt: skip
    if (TIE in made.template.source) != ties and made.template.name in OFFERS:
        offers = "asks for TIE" if TIE in made.template.source else "knows no TIE"
        raise InputError(
            f"the template {made.template.name!r} {offers}: {'leave --ties out' if ties else 'use it with --ties'}."
        )
    _check_template(made)
    return made


def _with_criteria(item: Item, criteria: str | None) -> Item:
    """An item that says what it is judged by: in its own words, else in those of the run."""
    own = item.fields.get(pairs.CRITERIA) or criteria or pairs.DEFAULT_CRITERIA
    return replace(item, fields={**item.fields, pairs.CRITERIA: own})


def items_of(data: Any, limit: int | None, seed: int) -> ItemSet:
    """Items of whatever `judge` takes as data, at most `limit` of them."""
    itemset = _itemset(data)
    return itemset if limit is None else datasets.take(itemset, limit, seed)


def _itemset(data: Any) -> ItemSet:
    if isinstance(data, ItemSet):
        return data
    if isinstance(data, str | Path):
        return datasets.load(str(data))
    if hasattr(data, "columns"):
        return datasets.from_frame(data)
    rows = list(data)
    if rows and all(isinstance(row, Mapping) for row in rows):
        import pandas as pd

        return datasets.from_frame(pd.DataFrame(rows))
    for n, row in enumerate(rows):
        if not isinstance(row, Item):
            raise ItemError(f"data[{n}] is {row!r}, not an Item. Give items, rows (mappings), a DataFrame, or a file.")
    return ItemSet(tuple(rows))


def _scale(items: Sequence[Item], one: Rubric | None) -> tuple[int, ...]:
    """The one list of scores of all items."""
    if one is not None:
        return one.scores
    without = [item.id for item in items if item.rubric is None]
    if without:
        raise RubricError(
            f"item {without[0]!r} has no rubric ({len(without)} of {len(items)} have none). Name one for all items: --rubric NAME or FILE."
        )
    first = items[0].rubric
    assert first is not None
    for item in items:
        assert item.rubric is not None
        if item.rubric.scores != first.scores:
            raise RubricError(
                f"item {item.id!r} has the scores {list(item.rubric.scores)}, item {items[0].id!r} has {list(first.scores)}. "
                "One run has one list of scores: split the items by scale."
            )
    return first.scores


def _check_template(made: Study) -> None:
    """The template must show the levels as ordered, for every kind of item, and print no field that no item has."""
    asked = [item for item in made.itemset.items if item.id not in made.refuses]
    kinds = {(frozenset(item.fields), made.rubric_of(item)): item for item in asked}
    missing = [error for (_, rubric), item in kinds.items() if (error := _lacks(made.template, item, rubric))]
    if missing and len(missing) == len(kinds):
        fields = sorted({name for item in made.itemset.items for name in item.fields})
        name = missing[0].name
        raise InputError(
            f"{missing[0]}: no item can be judged. {unknown('variable', name, [*fields, 'criterion', 'levels'])}"
        )


def _lacks(template: Template, item: Item, rubric: Rubric) -> MissingField | None:
    try:
        prompts.check(template, item, rubric)
    except MissingField as error:
        return error
    return None
