"""Items to judge, from our own formats, from known datasets and from a user's adapter.

A dataset is a file. ``datasets/x.py`` registers ``x``, read with ``x:PATH``; the first line of its docstring is what
``logitjudge list datasets`` prints, and one function is all that it holds::

    def load(path: Path, *, systems: str = "") -> ItemSet: ...

Its positional parameter is the PATH (without one, as in `demo`, the name alone is the whole spec). Its keyword-only
parameters are its options, always strings: ``x:PATH?systems=M17,M20`` calls ``load(Path(PATH), systems="M17,M20")``,
and any other option is refused. A user's adapter, ``./mine.py:ARG``, holds the same function, and gets ARG as it was
written, as a ``str``: its options are its own affair.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

from logitjudge.core import ItemSet
from logitjudge.datasets._files import read, read_frame
from logitjudge.datasets._ratings import check_ratings
from logitjudge.datasets._spec import resolve, usage
from logitjudge.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["check_ratings", "from_frame", "load", "take", "usage"]


def load(spec: str, *, limit: int | None = None, seed: int = 0) -> ItemSet:
    """Read items.

    Parameters
    ----------
    spec
        ``demo``; a ``.jsonl``, ``.csv`` or ``.parquet`` file; ``NAME:PATH`` or ``NAME:PATH?key=a,b`` with a registered
        NAME of at least two letters; or a user's adapter ``./mine.py:ARG``.
    limit
        Take so many items, spread over the clusters as in `take`; all of them by default.
    seed
        Which items `limit` takes.

    Raises
    ------
    InputError
        No such dataset, file or option.
    ItemError
        A row that cannot be used; the message names file, row, field and value.
    """
    adapter = resolve(spec)
    items = read(spec) if adapter is None else adapter()
    return items if limit is None else take(items, limit, seed)


def from_frame(frame: pd.DataFrame) -> ItemSet:
    """Items from a DataFrame, by the rules of a file: the same columns, the same errors. The index is not read.

    Raises
    ------
    ItemError
        A row that cannot be used.
    """
    return read_frame(frame)


def take(itemset: ItemSet, n: int, seed: int = 0) -> ItemSet:
    """Take `n` items, round-robin over the clusters in seeded order, so that min(n, clusters) clusters are there.

    The choice depends on ids, clusters and seed alone, not on the order of the rows, and a larger `n` only adds to it.
    The items keep their order.

    Raises
    ------
    InputError
        `n` is not a positive whole number.

    Examples
    --------
    >>> from logitjudge.core import Item
    >>> items = ItemSet(tuple(Item(f"{c}{j}", {}, cluster=c) for c in "ab" for j in range(3)))
    >>> sorted(item.cluster for item in take(items, 3).items) in (["a", "a", "b"], ["a", "b", "b"])
    True
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise InputError(f"the limit is {n!r}. Give a whole number of items, 1 or more.")
    turns: dict[str, int] = {}
    order: dict[str, tuple[int, str]] = {}
    for item in sorted(itemset.items, key=lambda item: _draw(seed, item.cluster, item.id)):
        turns[item.cluster] = turns.get(item.cluster, -1) + 1
        order[item.id] = (turns[item.cluster], _draw(seed, item.cluster))
    chosen = set(sorted(order, key=lambda name: order[name])[:n])
    return replace(itemset, items=tuple(item for item in itemset.items if item.id in chosen))


def _draw(seed: int, *names: str) -> str:
    """Draw by chance that only seed and names decide, on every machine and with every version of numpy."""
    return sha256(repr((seed, *names)).encode()).hexdigest()
