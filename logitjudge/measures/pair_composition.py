"""What a set of labelled pairs is made of, and what it lacks.

A judge is known only on the kinds of pairs that the set holds: clear wins, borderline ones and ties, both lengths, both styles, every
language. An empty stratum is listed, because no figure warns of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from logitjudge.core import IntArray, Item
from logitjudge.measures.pair_accuracy import (
    APART,
    LENGTHS,
    LONGER,
    Length,
    gold_lengths,
    no_groups,
    response_lengths,
)
from logitjudge.measures.pair_review import group_columns
from logitjudge.measures.pairs import NONE, TIE, Pairs, pairs
from logitjudge.run import Run

if TYPE_CHECKING:
    import pandas as pd

BORDER = float(np.log(3))  # nats: below, the judge is less than 75 % sure in the middle of its orders
KINDS = ("clear win", "borderline win", "tie", "without gold")
GOLDS = {1: "1", 2: "2", TIE: "tie", NONE: "none"}
SIDES = ("response 1", "response 2", "equally long")
RATIOS = ("up to 1.1", "to 1.5", "to 2", "over 2")
CUTS = (1.1, 1.5, 2.0)
STYLES = ("none", "one", "both")
WANTED = ("task", "language")  # columns that a set should have
LISTS = re.compile(r"^\s*(?:[-*+\u2022]|\d+[.)])\s+\S", re.MULTILINE)
HEADINGS = re.compile(r"^#{1,6}\s+\S", re.MULTILINE)
BOLD = re.compile(r"\*\*[^*\n]+\*\*|__[^_\n]+__")
NO_TEXTS = "the run does not hold the responses"


@dataclass(frozen=True, slots=True)
class Stratum:
    """Pairs of one kind; `dimension` is what they are told apart by."""

    dimension: str
    value: str
    pairs: int
    clusters: int


@dataclass(frozen=True, slots=True)
class Composition:
    """Strata of a set.

    Parameters
    ----------
    pairs, clusters
        In all.
    border
        Nats of |content| from which on a win counts as clear. It is this judge's margin: another judge finds other pairs close.
    strata
        By ``gold``; by ``kind`` (clear and borderline wins by the margin, ties, pairs without gold); ``longer`` and ``length
        ratio`` (longer over shorter); ``gold response`` (longer, shorter); ``formatting`` (a list, a heading or bold text in
        none, one or both); then group columns.
    left_out
        Dimensions that there are not, each with the reason.
    """

    pairs: int
    clusters: int
    border: float
    strata: tuple[Stratum, ...]
    left_out: tuple[tuple[str, str], ...]

    @property
    def empty(self) -> tuple[tuple[str, str], ...]:
        """(dimension, value) of the strata without a pair."""
        return tuple((one.dimension, one.value) for one in self.strata if one.pairs == 0)

    def to_frame(self) -> pd.DataFrame:
        """Frame, one row a stratum: dimension, value, pairs, clusters."""
        import pandas as pd

        names = list(Stratum.__dataclass_fields__)
        return pd.DataFrame([[getattr(one, n) for n in names] for one in self.strata], columns=names)


def composition(run: Run, *, length: Length = len, border: float = BORDER) -> Composition:
    """Strata of a pairwise run's pairs, with their counts.

    Parameters
    ----------
    run
        A pairwise run.
    length
        Of a response, in any unit; characters by default.
    border
        See `Composition`.
    """
    found = pairs(run)
    strata = _strata("gold", [GOLDS[gold] for gold in found.gold.tolist()], list(GOLDS.values()), found.clusters)
    strata += _strata("kind", _kinds(found, border), KINDS, found.clusters)
    left_out: list[tuple[str, str]] = []
    sizes = [response_lengths(item, length) for item in run.items]
    texts: dict[str, tuple[Sequence[str | None], Sequence[str]]] = {
        "longer": ([_longer(size) for size in sizes], SIDES),
        "length ratio": ([_ratio(size) for size in sizes], RATIOS),
        LONGER: (gold_lengths(run, length), LENGTHS),
        "formatting": ([_formatting(item) for item in run.items], STYLES),
    }
    for name, (values, known) in texts.items():
        if any(value is not None for value in values):
            strata += _strata(name, values, known, found.clusters)
        else:
            left_out.append((name, NO_TEXTS if not any(sizes) else "no gold is a candidate"))
    for name in [column for column in group_columns(run) if column not in APART]:
        labels = [None if (v := item.groups.get(name)) is None else str(v) for item in run.items]
        if (reason := no_groups(labels)) and len(set(labels) - {None}) != 1:
            left_out.append((name, reason))
        else:
            strata += _strata(name, labels, sorted({label for label in labels if label is not None}), found.clusters)
    missing = [(name, "there is no such column") for name in WANTED if name not in group_columns(run)]
    return Composition(len(found), int(found.clusters.max()) + 1, border, tuple(strata), (*left_out, *missing))


def _strata(dimension: str, values: Sequence[str | None], known: Sequence[str], clusters: IntArray) -> list[Stratum]:
    """One stratum for each known value, empty ones, too."""
    made = []
    for value in known:
        here = np.array([value == other for other in values])
        made.append(Stratum(dimension, value, int(here.sum()), len(set(clusters[here].tolist()))))
    return made


def _kinds(found: Pairs, border: float) -> list[str]:
    """(I,) kind of each pair."""
    made = []
    for gold, content in zip(found.gold.tolist(), found.content.tolist(), strict=True):
        win = KINDS[0] if abs(content) >= border else KINDS[1]
        made.append({TIE: KINDS[2], NONE: KINDS[3]}.get(gold, win))
    return made


def _longer(sizes: tuple[float, float] | None) -> str | None:
    if sizes is None:
        return None
    return SIDES[2] if sizes[0] == sizes[1] else SIDES[0] if sizes[0] > sizes[1] else SIDES[1]


def _ratio(sizes: tuple[float, float] | None) -> str | None:
    """Bin of the longer over the shorter; None where one has no length."""
    if sizes is None or min(sizes) <= 0:
        return None
    return RATIOS[int(np.searchsorted(CUTS, max(sizes) / min(sizes), side="left"))]


def _formatting(item: Item) -> str | None:
    """In how many of the responses there is formatting."""
    texts = [item.fields.get(f"response_{c}") or "" for c in (1, 2)]
    return STYLES[sum(map(formatted, texts))] if all(texts) else None


def formatted(text: str) -> bool:
    r"""Whether a text has a list of at least two lines, a heading, or bold words, as Markdown writes them.

    Examples
    --------
    >>> [formatted(text) for text in ("- a\n- b", "1. a", "# Title", "**so**", "2 * 3 * 4")]
    [True, False, True, True, False]
    """
    return len(LISTS.findall(text)) > 1 or bool(HEADINGS.search(text) or BOLD.search(text))
