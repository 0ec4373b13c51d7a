"""What follows an option: "4.5" would be read as 4.

The judge is read once more behind context and option, and behind the full stop that may stand there, since a full stop
alone ends a sentence and only one with a digit behind it makes another number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from logitjudge.backends import Query
from logitjudge.core import FloatArray, Readings
from logitjudge.tokens import Path, Resolved, Tokenizer

CARRIER = (
    "A"  # a letter that a number can follow: not every tokenizer lets a digit follow a digit as a token of its own
)
DIGITS = [*(str(n) for n in range(100)), *(f"0{n}" for n in range(10))]
FORMS = {
    "digit": DIGITS,
    "point": ["."],
    "point_digit": [f".{n}" for n in range(10)],
    "slash": ["/", *(f"/{n}" for n in range(11))],
}
Read = Callable[[Sequence[Query]], Readings]


class Follows(NamedTuple):
    """Probability of what stands behind an option: a digit, a full stop, a full stop and a digit, a slash.

    `point` includes `point_digit`.
    """

    digit: float
    point: float
    point_digit: float
    slash: float

    @property
    def total(self) -> float:
        """Probability that a digit, a full stop or a slash follows."""
        return self.digit + self.point + self.slash

    @property
    def other_number(self) -> float:
        """Probability that the answer is another number than the option."""
        return self.digit + self.point_digit


def follows(queries: Sequence[Query], tokenizer: Tokenizer, read: Read) -> tuple[Follows, ...]:
    """(K,) what follows each option, mean over queries that have tokens.

    Parameters
    ----------
    queries
        Prompts with one K.
    tokenizer
        Their tokenizer.
    read
        Reads queries.
    """
    ids = follower_ids(tokenizer, queries[0].prompt.options)
    wanted = sorted({token for group in ids.values() for token in group})
    if not wanted:
        return (Follows(0.0, 0.0, 0.0, 0.0),) * len(queries[0].prompt.options)
    asked = [_behind(query, tail, wanted) for query in queries for tail in _tokens(query).tails]
    points = (
        [_behind(query, (*tail, ids["point"][0]), wanted) for query in queries for tail in _tokens(query).tails]
        if ids["point"]
        else []
    )
    probs = np.exp(read([*asked, *points]).logp)
    column = {token: n for n, token in enumerate(wanted)}
    first = probs[: len(asked)] * _not_options(queries, wanted)
    after = probs[len(asked) :] if points else np.zeros_like(first)

    def total(of: FloatArray, name: str) -> FloatArray:
        summed: FloatArray = of[:, [column[token] for token in ids[name]]].sum(axis=1)
        return summed

    point_digit = total(first, "point_digit") + total(first, "point") * total(after, "digit")
    point = total(first, "point") + total(first, "point_digit")
    table = np.stack([total(first, "digit"), point, point_digit, total(first, "slash")], axis=1)
    return tuple(Follows(*row) for row in table.reshape(len(queries), -1, 4).mean(axis=0).tolist())


def follower_ids(tokenizer: Tokenizer, options: Sequence[str]) -> dict[str, list[int]]:
    """Ids of the single tokens that add a digit, a full stop, a full stop with a digit, or a slash to a text."""
    carriers = [CARRIER, *options]
    texts = [carrier + form for carrier in carriers for form in ("", *(f for forms in FORMS.values() for f in forms))]
    pieces = dict(zip(texts, map(tuple, tokenizer.pieces(texts)), strict=True))
    found = {
        name: sorted({t for c in carriers for f in forms if (t := _added(pieces[c], pieces[c + f])) is not None})
        for name, forms in FORMS.items()
    }
    return _disjoint(found)


def _added(before: Path, after: Path) -> int | None:
    """Find the token that was added, where it is one and the others stayed."""
    return after[-1] if len(after) == len(before) + 1 and after[:-1] == before else None


def _disjoint(found: Mapping[str, list[int]]) -> dict[str, list[int]]:
    """Each token in the first group that has it: a tokenizer may know a letter as unknown only."""
    seen: set[int] = set()
    made = {}
    for name, ids in found.items():
        made[name] = [token for token in ids if token not in seen]
        seen.update(ids)
    return made


def _behind(query: Query, path: Path, wanted: Sequence[int]) -> Query:
    """Make the prompt with a part of its answer given, and single tokens as options."""
    tokens = _tokens(query)
    tails = tuple((token,) for token in wanted)
    return replace(query, tokens=Resolved(tokens.text, tokens.context + path, tails, ((),) * len(tails)))


def _not_options(queries: Sequence[Query], wanted: Sequence[int]) -> FloatArray:
    """(B * K, W) 0 where the token goes on to another option ("1", "10"), which the event counts itself."""
    rows = [
        [0.0 if any(other[: len(tail) + 1] == (*tail, token) for other in tails) else 1.0 for token in wanted]
        for tails in (_tokens(query).tails for query in queries)
        for tail in tails
    ]
    return np.array(rows)


def _tokens(query: Query) -> Resolved:
    assert query.tokens is not None
    return query.tokens
