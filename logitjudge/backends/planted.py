"""The planted judge: an oracle whose biases are known because they were put there.

``planted:SPEC`` needs no model. Its logit of score k at position p, for item i under ordering o, is::

    quality[i, k] + position[p] + item_position[i, p] + interaction[k, p] + order_noise[i, o, k] + label[option of k]
    + binding * rank(k) * rank(option of k) / (K - 1)^2, ranks from their middle

and ``q = (1 - first) softmax(logits) + first * [k is shown first]``, ``logp = log q + log mass``. Every random number
is a pure function of the seed and of what it belongs to (item id, ordering): no batching and no process can change it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from logitjudge.backends import Query
from logitjudge.backends._planted_spec import Planted
from logitjudge.core import FloatArray, IntArray, Readings, Rubric
from logitjudge.measures.pair_composition import formatted
from logitjudge.measures.wording import hedges, overlap
from logitjudge.pairs import RESPONSES, Candidates
from logitjudge.tokens import Tokenizer

FAMILY = "planted"
BUDGET = 4_000_000  # characters: thousands of prompts a batch


class Named(Protocol):
    """What `open` needs of a model specification."""

    @property
    def name(self) -> str:
        """The text behind ``planted:``."""


@dataclass(slots=True)
class PlantedJudge:
    """A `Backend` that computes its readings from a `Planted` specification; no tokenizer, no limit of length."""

    name: str
    planted: Planted
    tokenizer: Tokenizer | None = None
    max_length: int | None = None
    vocabulary: int | None = None

    def provenance(self) -> Mapping[str, Any]:
        """Where it ran."""
        return {"device": "cpu"}

    def prepare(self, longest: Sequence[Query], shortest: Sequence[Query]) -> None:
        """Check the specification against the number of levels; there is no path to prove."""
        for query in (*longest, *shortest):
            self._check(query)

    def _check(self, query: Query) -> None:
        if not isinstance(query.rubric, Candidates):
            self.planted.check(len(query.rubric.levels))

    def token_budget(self) -> int:
        """Characters that one batch may hold."""
        return BUDGET

    def read(self, queries: Sequence[Query], budget: int) -> Readings:
        """Read B queries with one K, in order. Raises `InputError` where a part does not fit K."""
        self._check(queries[0])
        row, own = _distinct(queries, lambda query: (id(query.item), id(query.rubric)))
        column, ordered = _distinct(queries, lambda query: query.ordering)
        logits = _logits(self.planted, own, ordered, (row, column))
        shown_first = np.array([query.ordering.shown[0] for query in ordered])[column]
        logp = _mixture(_log_softmax(logits), shown_first, self.planted.first) + math.log(self.planted.mass)
        return Readings(logp, np.zeros_like(logp), ((),) * len(queries))

    def read_plain(self, queries: Sequence[Query]) -> Readings | None:
        """None: there is no second way to compute a planted reading."""
        return None


def open(spec: Named) -> PlantedJudge:  # the name that every backend has
    """Planted judge of a specification. Raises `InputError` where it is wrong."""
    return PlantedJudge(spec.name, Planted.parse(spec.name))


def _distinct(queries: Sequence[Query], key: Callable[[Query], Hashable]) -> tuple[IntArray, list[Query]]:
    """(B,) number of each query's key, and one query for each number."""
    keys = [key(query) for query in queries]
    example = dict(zip(keys, queries, strict=True))
    number = {key: n for n, key in enumerate(example)}
    return np.array([number[key] for key in keys], dtype=np.int64), list(example.values())


def _logits(
    planted: Planted, own: Sequence[Query], ordered: Sequence[Query], place: tuple[IntArray, IntArray]
) -> FloatArray:
    """(B, K) logits of the pairs (own item, ordering) at `place`."""
    row, column = place
    levels = len(own[0].rubric.levels)
    position = np.array([query.ordering.position_of for query in ordered])  # (O, K)
    option = np.array([query.ordering.option_of for query in ordered])  # (O, K)
    of_pairs = isinstance(own[0].rubric, Candidates)
    by_ordering = _slots(planted, position, option) if of_pairs else _places(planted, position, option)
    by_item: FloatArray = (_quality(planted, own) + (_rivals if of_pairs else _traits)(planted, own))[row]
    if planted.by_label and not of_pairs:
        by_item += planted.by_label * (np.take_along_axis(by_item, option[column], axis=1) - by_item)
    logits: FloatArray = by_item + by_ordering[column]
    if planted.item_position_sd:
        keys = [_key(planted, "item_position", query.item.id) for query in own]
        item_position = planted.item_position_sd * _normal(keys, levels)  # (U, P)
        logits += item_position[row[:, None], position[column]]
    if planted.order_noise:
        begins = [_key(planted, "order_noise", query.item.id) for query in own]
        ends = [json.dumps([query.ordering.shown, query.ordering.labels]) for query in ordered]
        keys = [begins[u] + ends[o] for u, o in zip(row.tolist(), column.tolist(), strict=True)]
        logits += planted.order_noise * _normal(keys, levels)
    return logits


def _places(planted: Planted, position: IntArray, option: IntArray) -> FloatArray:
    """(O, K) logits of position and label under a rubric."""
    levels = position.shape[1]
    by_score: FloatArray = _score_position(planted, levels)[np.arange(levels), position]
    rank = np.arange(levels) - (levels - 1) / 2
    bound: FloatArray = planted.binding / (levels - 1) ** 2 * rank * rank[option]
    labelled: FloatArray = by_score + _or_zero(planted.label, levels)[option] + bound
    return labelled


def _slots(planted: Planted, position: IntArray, option: IntArray) -> FloatArray:
    """(O, K) logits of slot, letter and tie; the candidates are the last two levels, the letters the last two options."""
    levels = position.shape[1]
    logits = np.zeros(position.shape)
    logits[:, -2:] = planted.slot * np.where(position[:, -2:] == 0, 0.5, -0.5)
    logits[:, -2:] += planted.letter * np.where(option[:, -2:] == levels - 2, 0.5, -0.5)
    if levels == 3:
        logits[:, 0] = planted.tie
    return logits


def _rivals(planted: Planted, own: Sequence[Query]) -> FloatArray:
    """(U, K) logits of what the responses of a pair are like; a tie stands in the middle."""
    levels = len(own[0].rubric.levels)
    logits = np.zeros((len(own), levels))
    for u, query in enumerate(own):
        groups = query.item.groups
        for n, name in enumerate(RESPONSES):
            logits[u, levels - 2 + n] = _trait(planted, query.item.fields[name], groups.get(f"family_{n + 1}"))
            logits[u, levels - 2 + n] += planted.confident * (groups.get("confident") == n + 1)
    if levels == 3:
        logits[:, 0] = logits[:, 1:].mean(axis=1)
    return logits


def _said(planted: Planted, query: Query) -> float:
    """What a response gains by its confidence, by a reference, and by words in the criterion."""
    praise = query.rubric.criterion.count("excellent") - query.rubric.criterion.count("poor")
    sure = query.item.groups.get("confident") == 1
    return planted.confident * sure + planted.leading * praise + _anchors(planted, query.item.fields)


def _traits(planted: Planted, own: Sequence[Query]) -> FloatArray:
    """(U, K) logits of what a response is like, under a rubric: the higher the score, the more."""
    levels = len(own[0].rubric.levels)
    trait = [
        _trait(planted, q.item.fields.get("response", ""), q.item.groups.get("family")) + _said(planted, q) for q in own
    ]
    logits: FloatArray = np.outer(trait, np.arange(levels) - (levels - 1) / 2)
    return logits


def _trait(planted: Planted, text: str, family: object) -> float:
    """Logits of a response's length, formatting and family."""
    length = planted.length * math.log(max(1, len(text)) / 1000) if planted.length else 0.0
    hedged = planted.hedged * (hedges(text) > 0) if planted.hedged else 0.0
    marked = planted.formatting * formatted(text) if planted.formatting else 0.0
    return length + hedged + marked + planted.self * (family == FAMILY)


def _anchors(planted: Planted, fields: Mapping[str, str]) -> float:
    """Logits of a reference that is shown, and of a score that is named for it."""
    named = {"highest": 1, "lowest": -1}.get(fields.get("reference_named", ""), 0)
    shared = overlap(fields.get("response", ""), fields.get("reference", "")) if planted.reference else 0.0
    return planted.reference * shared + planted.named * named


def _score_position(planted: Planted, levels: int) -> FloatArray:
    """(K, K) logits [score, position] that are the same for every item."""
    seed, sd = planted.interaction
    logits: FloatArray = np.random.default_rng(seed).normal(0, sd, (levels, levels)) + _or_zero(
        planted.position, levels
    )
    return logits


def _or_zero(values: tuple[float, ...], levels: int) -> FloatArray:
    return np.array(values or (0.0,) * levels)


def _quality(planted: Planted, own: Sequence[Query]) -> FloatArray:
    """(U, K) logits by item and score."""
    levels = len(own[0].rubric.levels)
    quality = np.array([_rated_query(query) for query in own])
    unrated = [u for u, query in enumerate(own) if query.item.rating is None]
    if unrated:
        keys = [_key(planted, "quality", own[u].item.id) for u in unrated]
        quality[unrated] = planted.quality_sd * _normal(keys, levels)
        if isinstance(own[0].rubric, Candidates) and levels == 3:
            quality[unrated, 0] = quality[unrated, 1:].mean(axis=1)
    return planted.quality_scale * quality


def _rated_query(query: Query) -> FloatArray:
    """(K,) quality of a rated item; of a pair half a logit for the gold response, and half a logit against the other."""
    rating = query.item.rating or 0.0
    if not isinstance(query.rubric, Candidates):
        return _rated(query.rubric, rating)
    quality = np.zeros(len(query.rubric.levels))
    if rating:
        quality[-2:] = (0.5, -0.5) if rating == 1 else (-0.5, 0.5)
    return quality


def _rated(rubric: Rubric, rating: float) -> FloatArray:
    """(K,) quality of an item with a rating: minus half the squared distance in steps of the scale."""
    scores = np.array(rubric.scores, dtype=np.float64)
    step = (scores[-1] - scores[0]) / (len(scores) - 1)
    quality: FloatArray = -(((scores - rating) / step) ** 2) / 2
    return quality


def _key(planted: Planted, what: str, item_id: str) -> str:
    return json.dumps([planted.seed, what, item_id])


def _normal(keys: Sequence[str], levels: int) -> FloatArray:
    """(len(keys), K) standard normal numbers, each row a pure function of its key (Box and Muller, 1958)."""
    digest = b"".join(hashlib.shake_256(key.encode()).digest(16 * levels) for key in keys)
    bits = np.frombuffer(digest, dtype="<u8").reshape(len(keys), 2, levels) >> np.uint64(11)
    uniform = (bits + 0.5) * 2.0**-53  # in (0, 1]
    normal: FloatArray = np.sqrt(-2 * np.log(uniform[:, 0])) * np.cos(2 * np.pi * uniform[:, 1])
    return normal


def _log_softmax(logits: FloatArray) -> FloatArray:
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_softmax: FloatArray = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return log_softmax


def _mixture(log_softmax: FloatArray, shown_first: IntArray, first: float) -> FloatArray:
    """(B, K) log of ``(1 - first) softmax + first * [k is shown first]``."""
    if first == 0:
        return log_softmax
    log_q = math.log1p(-first) + log_softmax
    rows = np.arange(len(log_q))
    log_q[rows, shown_first] = np.logaddexp(log_q[rows, shown_first], math.log(first))
    return log_q
