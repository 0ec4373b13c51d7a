"""Where the variance of a run comes from: scores, positions, their interaction, items, and what is left.

A run is a complete crossing of items and orderings, so it falls into two parts that are orthogonal: its mean over items, and how
each item departs from it. Both are projected on the same terms of the orderings. On centred log-ratios (`ratios`), by reading and
score::

    clr[i, o, k] = a[k] + b[pos_o(k)] + D[k, pos_o(k)] + left[o, k]  +  the same four for item i alone

On the expected score there is one number a reading. Positions move it through what stands there: with s the score values,
``b[pos_o(k)]`` acts as ``sum over k of (s_k - mean s) b[pos_o(k)]``, and what else the places of the scores explain
(``sum over k of D[k, pos_o(k)]``) is the interaction.

Sums of squares add up to the total. Whether a design can tell a term from those before it is read off the rank of its design
matrix: under ``cyclic`` positions, scores and their interaction use up everything, so nothing is left; ``balanced`` with an even
K is one dimension of the interaction short, with an odd K it has all of them. What few orderings cannot tell from the
interaction (neighbours, noise) is counted in it.

References
----------
H. Scheffe (1959), The Analysis of Variance, chapter 4 (orthogonal and non-orthogonal layouts).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from logitjudge import orderings
from logitjudge.core import FloatArray
from logitjudge.errors import InputError, NotObserved, unknown
from logitjudge.measures.ratios import clr
from logitjudge.run import Run

if TYPE_CHECKING:
    import pandas as pd

On = Literal["clr", "expected"]
ON = ("clr", "expected")
RANK = 1e-9  # relative size below which a direction, or a spread, is rounding
ITEM, POSITION, INTERACTION, LEFT = "item", "position", "score x position", "left"


@dataclass(frozen=True, slots=True)
class Term:
    """One term of a decomposition.

    Parameters
    ----------
    name
        "score", "position", "score x position" or "left"; "item x ..." is the same by item; "item" (of the expected score) is how
        items differ on average.
    freedom
        Dimensions that the term has in this design, next to the terms before it.
    whole
        Dimensions that it would have under all K! orderings; None for what is left.
    squares
        Sum of squares; None where the design does not identify the term.
    share
        Part of the total sum of squares, or None.
    chance
        Share that a term common to all items would show without any effect, from items alone: its dimensions times the mean
        square of the same term by item. None where there is none. Items of one cluster count as different.
    reason
        What the design cannot do for this term, or "".
    """

    name: str
    freedom: int
    whole: int | None
    squares: float | None
    share: float | None
    chance: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Decomposition:
    """Shares of variance.

    Parameters
    ----------
    on
        "clr" (nats) or "expected" (score points).
    terms
        In the order in which they are fitted.
    total
        Sum of squares about the mean (which is 0 for log-ratios).
    balanced
        Whether the design is. Where not, terms overlap, and each is what it adds to those before it.
    """

    on: On
    terms: tuple[Term, ...]
    total: float
    balanced: bool

    def __getitem__(self, name: str) -> Term:
        for term in self.terms:
            if term.name == name:
                return term
        raise InputError(unknown("term", name, [term.name for term in self.terms]))

    def to_frame(self) -> pd.DataFrame:
        """Frame, one row a term, with the fields of `Term`."""
        import pandas as pd

        names = list(Term.__dataclass_fields__)
        return pd.DataFrame([[getattr(term, name) for name in names] for term in self.terms], columns=names)

    def _repr_html_(self) -> str:
        return str(self.to_frame().to_html(index=False, float_format="{:.3f}".format))


def decomposition(run: Run, on: On = "clr") -> Decomposition:
    """Sums of squares and shares of each term.

    Parameters
    ----------
    run
        A run with I items, O orderings and K scores.
    on
        "clr": all scores count alike, also those that are never picked; log-ratios of options that nobody picks can dominate.
        "expected": the expected score, on which they do not.

    Raises
    ------
    InputError
        Neither of the two.
    NotObserved
        The readings do not vary at all.
    """
    if on not in ON:
        raise InputError(unknown("scale", on, ON))
    values, columns = _of_clr(run) if on == "clr" else _of_expected(run)
    total = float((values**2).sum())
    if total <= values.size * (RANK * np.abs(run.scores).max()) ** 2:
        raise NotObserved("there is no variance to decompose: all readings are the same.")
    levels, count = len(run.scores), len(run.orderings)
    parts = _parts(values, _bases(columns), count * (levels - 1) if on == "clr" else count)
    found = [_common(part, run, total, on) for part in parts if part.name != ITEM]
    found += [_own(part, run, total, on) for part in parts]
    return Decomposition(on, tuple(found), total, orderings.is_balanced(run.orderings))


def _of_clr(run: Run) -> tuple[FloatArray, dict[str, FloatArray]]:
    """(I, O K) centred log-ratios, and the columns (O K, m) of each term: indicators, each reading centred as its clr is."""
    scores = np.broadcast_to(np.eye(len(run.scores)), (len(run.orderings), *(len(run.scores),) * 2))
    places = _places(run)
    cells = (scores[..., :, None] * places[..., None, :]).reshape(*places.shape[:2], -1)
    made = {"score": scores, POSITION: places, INTERACTION: cells}
    centred = {name: x - x.mean(axis=1, keepdims=True) for name, x in made.items()}
    return clr(run).reshape(len(run.items), -1), {name: x.reshape(-1, x.shape[-1]) for name, x in centred.items()}


def _of_expected(run: Run) -> tuple[FloatArray, dict[str, FloatArray]]:
    """(I, O) expected scores about their mean, and the columns (O, m) of each term."""
    expected = run.probs() @ run.scores
    places = _places(run)
    shifts = np.einsum("okp,k->op", places, run.scores - run.scores.mean())
    columns = {ITEM: np.ones((len(places), 1)), POSITION: shifts, INTERACTION: places.reshape(len(places), -1)}
    return expected - expected.mean(), columns


def _places(run: Run) -> FloatArray:
    """(O, K, P) 1 where an ordering shows a score at a position."""
    places: FloatArray = np.eye(len(run.scores))[np.argsort(run.shown, axis=1)]
    return places


def _bases(columns: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Orthonormal bases (D, r) of what each term's columns add to those before it."""
    before = np.zeros((len(next(iter(columns.values()))), 0))
    found = {}
    for name, x in columns.items():
        left, size, _ = np.linalg.svd(x - before @ (before.T @ x), full_matrices=False)
        found[name] = left[:, size > RANK * np.linalg.norm(x)]
        before = np.hstack([before, found[name]])
    return found


class Part(NamedTuple):
    """A term before it is told about: its dimensions, and its sums of squares common to all items and of the items' own."""

    name: str
    freedom: int
    common: float
    own: float


def _parts(values: FloatArray, bases: Mapping[str, FloatArray], room: int) -> list[Part]:
    """Sums of squares of values (I, D) along each basis, and what is left of the `room` dimensions."""
    mean = values.mean(axis=0)
    own = values - mean
    parts = [
        Part(name, q.shape[1], len(values) * float(((mean @ q) ** 2).sum()), float(((own @ q) ** 2).sum()))
        for name, q in bases.items()
    ]
    freedom = room - sum(part.freedom for part in parts)
    common = len(values) * float((mean**2).sum()) - sum(part.common for part in parts)
    rest = float((own**2).sum()) - sum(part.own for part in parts)
    return [*parts, Part(LEFT, freedom, max(common, 0.0), max(rest, 0.0))]


def _whole(name: str, levels: int, on: On) -> int | None:
    """Dimensions of a term under all K! orderings."""
    crossed = (levels - 1) ** 2 if levels > 2 else 0  # with two scores it moves both alike, or is the position's
    crossed -= levels - 1 if on == "expected" and levels > 2 else 0
    return {ITEM: 1, "score": levels - 1, POSITION: levels - 1, INTERACTION: crossed}.get(name)


def _common(part: Part, run: Run, total: float, on: On) -> Term:
    """What all items have in common."""
    whole = _whole(part.name, len(run.scores), on)
    chance = part.own / (len(run.items) - 1) / total if len(run.items) > 1 else None
    return _term(part.name, (part.freedom, whole), part.common, total, chance=chance, reason=_reason(part, whole, run))


def _own(part: Part, run: Run, total: float, on: On) -> Term:
    """What is each item's own."""
    whole = _whole(part.name, len(run.scores), on)
    reason = "there is one item" if len(run.items) == 1 else _reason(part, whole, run)
    name = ITEM if part.name == ITEM else f"{ITEM} x {part.name}"
    times = len(run.items) - 1
    sizes = (part.freedom * times, None if whole is None else whole * times)
    return _term(name, sizes, part.own, total, chance=None, reason=reason)


def _term(
    name: str, sizes: tuple[int, int | None], squares: float, total: float, *, chance: float | None, reason: str
) -> Term:
    if sizes[0] == 0:
        return Term(name, *sizes, None, None, None, reason)
    return Term(name, *sizes, squares, squares / total, chance, reason)


def _reason(part: Part, whole: int | None, run: Run) -> str:
    """What these orderings cannot do for a term."""
    those = f"the run's {len(run.orderings)} ordering(s)"
    if part.name == LEFT:
        return "" if part.freedom else f"{those} leave nothing: the terms before it hold noise and neighbours, too"
    if whole == 0:
        return "with two scores there is none on this scale"
    short = (whole or 0) - part.freedom
    if part.freedom == 0:
        return f"{those} do not identify it"
    return f"{those} do not identify {short} of its {whole} dimension(s)" if short else ""
