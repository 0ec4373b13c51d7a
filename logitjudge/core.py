"""The values that everything passes around. numpy only, immutable, checked when they are made.

Axes: ``i`` item, ``o`` ordering, ``k`` score index, ``p`` position. Score order is the canonical axis of every array;
`Ordering` is the only place where positions and scores are converted into each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitjudge.errors import ItemError, NotFinite, OrderingError, RubricError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

RESERVED = ("id", "instruction", "response", "reference", "human", "rubric", "cluster", "messages")


def frozen_array(values: Any, dtype: Any = np.float64) -> Any:
    """Return `values` as a new read-only array."""
    array = np.array(values, dtype=dtype)
    array.setflags(write=False)
    return array


@dataclass(frozen=True, slots=True)
class Level:
    """One line of a rubric.

    Parameters
    ----------
    score
        The score that this level stands for.
    text
        Its description.
    option
        The string that the judge answers with; ``str(score)`` by default.
    """

    score: int
    text: str
    option: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.score, bool) or not isinstance(self.score, int | np.integer):
            raise RubricError(f"score {self.score!r} is not an integer. Use whole numbers, such as 1 to 5.")
        if not -(2**31) <= self.score < 2**31:
            raise RubricError(f"score {self.score} does not fit into 32 bits. Use smaller scores.")
        object.__setattr__(self, "score", int(self.score))
        if not _is_text(self.text) or not self.text.strip():
            raise RubricError(f"the level of score {self.score} has no text. Describe it in a few words.")
        if self.option is None or self.option == "":
            object.__setattr__(self, "option", str(self.score))
        if not _is_text(self.option) or not self.option.strip():
            raise RubricError(
                f"the option of score {self.score} is {self.option!r}. Give a string that the judge answers."
            )


def _is_text(value: Any) -> bool:
    """Whether a value is a string that UTF-8 can hold: JSON may write half of a surrogate pair."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def _repeated(values: Sequence[Any]) -> Any | None:
    seen: set[Any] = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None


@dataclass(frozen=True, slots=True)
class Rubric:
    """One criterion and its K levels, in score order.

    Raises
    ------
    RubricError
        Fewer than two levels, scores that do not strictly increase, equal texts, equal options, or no criterion.
    """

    name: str
    criterion: str
    levels: tuple[Level, ...]
    distinct_texts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", tuple(self.levels))
        where = f"rubric {self.name!r}"
        if not _is_text(self.criterion) or not self.criterion.strip():
            raise RubricError(f"{where} has no criterion. Say in one sentence what is judged.")
        if len(self.levels) < 2:
            raise RubricError(f"{where} has {len(self.levels)} level(s). A rubric needs at least two.")
        scores = [level.score for level in self.levels]
        if (score := _repeated(scores)) is not None:
            raise RubricError(f"{where} has two levels with score {score}. Scores must differ.")
        if scores != sorted(scores):
            raise RubricError(f"{where} has scores {scores}. List the levels with increasing scores.")
        texts = [level.text.strip() for level in self.levels]
        if self.distinct_texts and (text := _repeated(texts)) is not None:
            raise RubricError(f"{where} has two levels with the text {text!r}. Texts must differ.")
        if (option := _repeated([level.option for level in self.levels])) is not None:
            raise RubricError(f"{where} has two levels with the option {option!r}. Options must differ.")

    @property
    def scores(self) -> tuple[int, ...]:
        """Scores in increasing order, (K,)."""
        return tuple(level.score for level in self.levels)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; `logitjudge.rubrics.from_dict` reads them back."""
        levels = [{"score": v.score, "text": v.text, "option": v.option} for v in self.levels]
        return {"name": self.name, "criterion": self.criterion, "levels": levels}

    def _repr_html_(self) -> str:
        from logitjudge import markup

        rows = [[level.score, level.option, level.text] for level in self.levels]
        return markup.block(
            f"Rubric {self.name}",
            markup.note(self.criterion),
            markup.table(["score", "the judge answers", "level"], rows, left=(1, 2)),
        )


@dataclass(frozen=True, slots=True)
class Ordering:
    """Which score is shown where.

    Parameters
    ----------
    shown
        (K,) ``shown[p]`` is the score index printed at position ``p``.
    labels
        (K,) ``labels[p]`` is the index of the option string printed at position ``p``; None means that each label
        moves with its level, as in a usual rubric.

    Raises
    ------
    OrderingError
        `shown` or `labels` is not a permutation of ``range(K)``.

    Examples
    --------
    >>> Ordering((2, 0, 1)).position_of
    (1, 2, 0)
    """

    shown: tuple[int, ...]
    labels: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "shown", tuple(int(k) for k in self.shown))
        if self.labels is not None:
            object.__setattr__(self, "labels", tuple(int(k) for k in self.labels))
        for part in (self.shown, self.labels):
            if part is not None and sorted(part) != list(range(len(self.shown))):
                raise OrderingError(f"{list(part)} is not a permutation of 0..{len(self.shown) - 1}.")

    @property
    def position_of(self) -> tuple[int, ...]:
        """(K,) the position at which score index ``k`` is shown: the inverse of `shown`."""
        place = {k: p for p, k in enumerate(self.shown)}
        return tuple(place[k] for k in range(len(self.shown)))

    @property
    def option_of(self) -> tuple[int, ...]:
        """(K,) index of the option string with which the judge picks score index ``k``."""
        labels = self.shown if self.labels is None else self.labels
        return tuple(labels[p] for p in self.position_of)

    def values(self, scores: Sequence[int]) -> tuple[int, ...]:
        """Score values, first position first: the form used outside Python."""
        return tuple(int(scores[k]) for k in self.shown)


@dataclass(frozen=True, slots=True)
class Item:
    """A thing to judge.

    Parameters
    ----------
    id
        Unique in its set.
    fields
        Name to text: ``instruction``, ``response``, perhaps ``reference``, and whatever a template prints.
    rubric
        The item's own rubric, or None where one rubric serves all items.
    human
        Ratings by people (or another reference), one a rater, or None.
    cluster
        What items share that makes them alike (document, story, prompt); the id by default. Intervals resample it.
    groups
        Task type, system, language ...
    """

    id: str
    fields: Mapping[str, str]
    rubric: Rubric | None = None
    human: tuple[float, ...] | None = None
    cluster: str = ""
    groups: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _is_text(self.id) or not self.id:
            raise ItemError(f"id {self.id!r} is not a non-empty string.")
        for name, text in self.fields.items():
            if not _is_text(text):
                raise ItemError(f"item {self.id!r}: field {name!r} is {text!r}, not a text.")
        object.__setattr__(self, "fields", dict(self.fields))
        object.__setattr__(self, "groups", dict(self.groups))
        object.__setattr__(self, "cluster", self.cluster or self.id)
        if self.human is not None:
            object.__setattr__(self, "human", self._ratings(self.human))

    def _ratings(self, human: Any) -> tuple[float, ...] | None:
        values = tuple(human) if isinstance(human, Sequence | np.ndarray) and not isinstance(human, str) else (human,)
        for value in values:
            if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not math.isfinite(value):
                raise ItemError(f"item {self.id!r}: field 'human' has {value!r}. A rating is a finite number.")
        return tuple(float(value) for value in values) or None

    @property
    def rating(self) -> float | None:
        """Mean rating, or None without ratings."""
        return None if self.human is None else sum(self.human) / len(self.human)


@dataclass(frozen=True, slots=True)
class ItemSet:
    """Items and what their ratings are called.

    Parameters
    ----------
    items
        Items with distinct ids.
    ratings_name
        What stands in ``human``: "human", "GPT-4 reference", "human experts" ...
    raters
        "same" where rater j is one person throughout, "slots" where raters are exchangeable.
    """

    items: tuple[Item, ...]
    ratings_name: str = "human"
    raters: Literal["same", "slots"] = "slots"

    def __post_init__(self) -> None:
        object.__setattr__(self, "items", tuple(self.items))
        if (repeat := _repeated([item.id for item in self.items])) is not None:
            raise ItemError(f"two items have the id {repeat!r}. Ids must be unique.")
        if not self.items:
            raise ItemError("there are no items to judge.")


class Message(NamedTuple):
    """One turn of a chat."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is shown to the judge for one item under one ordering.

    Parameters
    ----------
    messages
        The chat, in order.
    prefill
        The beginning of the judge's answer that is written for it.
    options
        (K,) the strings that it may answer with, in score order.
    close
        A string that must follow the option for it to count, or "".
    """

    messages: tuple[Message, ...]
    prefill: str
    options: tuple[str, ...]
    close: str = ""

    def __post_init__(self) -> None:
        if (option := _repeated(self.options)) is not None:
            raise RubricError(f"two scores have the option {option!r}. Options must differ.")

    def _repr_html_(self) -> str:
        from logitjudge import markup

        parts = [part for role, text in self.messages for part in (markup.note(role), markup.passage(text))]
        begun = [markup.note("the answer begins"), markup.passage(self.prefill)] if self.prefill else []
        options = f"options, by score: {', '.join(map(repr, self.options))}"
        close = f"; each with {self.close!r} behind it" if self.close else ""
        return markup.block("Prompt", *parts, *begun, markup.note(options + close))


class TopToken(NamedTuple):
    """A token that took probability away from the options; `logp` in nats."""

    id: int
    text: str
    logp: float


@dataclass(frozen=True, slots=True, eq=False)
class Readings:
    """What a backend read for B prompts.

    Parameters
    ----------
    logp
        (B, K) natural log-probability of each option over the full vocabulary, in score order.
    alias_mass
        (B, K) probability of other single-token forms of each option; not part of `logp`.
    top_tokens
        (B,) for each prompt the most probable tokens that begin no option.
    exact
        (B, K) whether `logp` is what the judge says; false where it is an upper bound. None where all are exact.

    Raises
    ------
    NotFinite
        A log-probability is not finite.
    ValueError
        A prompt's options have more than all of the probability.
    """

    logp: FloatArray
    alias_mass: FloatArray
    top_tokens: tuple[tuple[TopToken, ...], ...]
    exact: BoolArray | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "logp", frozen_array(self.logp))
        object.__setattr__(self, "alias_mass", frozen_array(self.alias_mass))
        object.__setattr__(self, "top_tokens", tuple(tuple(tokens) for tokens in self.top_tokens))
        object.__setattr__(self, "exact", self._inexact())
        if not np.isfinite(self.logp).all():
            raise NotFinite(
                "a reading is not finite: the model gave NaN or infinite logits, or an option has no probability"
            )
        known = np.exp(self.logp) if self.exact is None else np.exp(self.logp) * self.exact
        if (mass := known.sum(axis=1).max(initial=0)) > 1 + 1e-6:
            raise ValueError(f"a reading has mass {mass}: options are not exclusive")

    def _inexact(self) -> BoolArray | None:
        """`exact` as an array, or None where it says nothing."""
        if self.exact is None:
            return None
        exact: BoolArray = frozen_array(self.exact, np.bool_)
        if exact.shape != self.logp.shape:
            raise ValueError(f"exact has shape {exact.shape}, logp {self.logp.shape}")
        return None if exact.all() else exact

    @property
    def mass(self) -> FloatArray:
        """(B,) probability that falls on any option at all; at most, where a reading is not exact."""
        mass: FloatArray = np.exp(self.logp).sum(axis=1)
        return mass

    @classmethod
    def join(cls, parts: Sequence[Readings]) -> Readings:
        """Readings of several batches, in order."""
        exact = [np.ones(part.logp.shape, np.bool_) if part.exact is None else part.exact for part in parts]
        return cls(
            np.concatenate([part.logp for part in parts]),
            np.concatenate([part.alias_mass for part in parts]),
            tuple(tokens for part in parts for tokens in part.top_tokens),
            np.concatenate(exact),
        )
