"""What the engines are given: the prompts of a design in token space, rendered exactly as a run renders them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from logitjudge import orderings as designs, planning
from logitjudge.backends import Query
from logitjudge.backends._harvest import resolved
from logitjudge.study import Study
from logitjudge.tokens import Tokenizer

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Work:
    """The prompts of a design, in item, then ordering order.

    Parameters
    ----------
    queries
        The prompts.
    sizes
        Tokens of each item's prompts, by the item's id.
    """

    queries: tuple[Query, ...]
    sizes: dict[str, planning.Size]

    @property
    def tokens(self) -> int:
        """Tokens as separate prompts."""
        return sum(size.written for size in self.sizes.values())

    @property
    def unique_tokens(self) -> int:
        """Tokens when what the prompts of an item share counts once."""
        return sum(size.unique or 0 for size in self.sizes.values())

    def prompts(self, which: Sequence[int] | None = None) -> list[Json]:
        """All prompts, or some, as an engine takes them."""
        number = {name: n for n, name in enumerate(self.sizes)}
        return [_prompt(query, number[query.item.id]) for query in self._some(which)]

    def batches(self, path: str, budget: int, which: Sequence[int] | None = None) -> list[int]:
        """Numbers of prompts that a run by this path and with this token budget reads at once: whole items."""
        count = Counter(query.item.id for query in self._some(which))
        fed = planning.fed({name: size for name, size in self.sizes.items() if name in count}, path)
        return [sum(count[name] for name in batch) for batch in planning.plan(fed, budget)]

    def of_item(self, longest: bool) -> list[Json]:
        """Prompts of the item with the longest prompt, or the shortest."""
        name = (max if longest else min)(self.sizes, key=lambda name: self.sizes[name].longest)
        return self.prompts([n for n, query in enumerate(self.queries) if query.item.id == name])

    def _some(self, which: Sequence[int] | None) -> list[Query]:
        return [self.queries[n] for n in which] if which is not None else list(self.queries)


def _prompt(query: Query, item: int) -> Json:
    tokens = resolved(query)  # planted judges do not come here
    return {"context": list(tokens.context), "tails": [list(tail) for tail in tokens.tails], "item": item}


def work(asked: Study, design: Any, tokenizer: Tokenizer, *, seed: int, max_length: int | None) -> Work:
    """Prompts of a study under a design.

    Raises
    ------
    ItemError
        An item that a run would refuse.
    """
    made = replace(asked, orderings=designs.parse(design, asked.scores, seed))
    judge: Any = SimpleNamespace(tokenizer=tokenizer, max_length=max_length)
    sizes = planning.readable(made, judge)
    return Work(tuple(made.queries(judge, made.itemset.items)), sizes)


def spread(count: int, sample: int, seed: int) -> list[int]:
    """Numbers of `sample` of `count` prompts, one drawn from each of as many equal stretches; all where there are no more.

    Examples
    --------
    >>> spread(3, 5, 0)
    [0, 1, 2]
    >>> [n // 10 for n in spread(40, 4, 0)]
    [0, 1, 2, 3]
    """
    if sample >= count:
        return list(range(count))
    edges = [count * n // sample for n in range(sample + 1)]
    numbers = np.random.default_rng(seed)
    return [int(numbers.integers(low, high)) for low, high in zip(edges[:-1], edges[1:], strict=True)]
