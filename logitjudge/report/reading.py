"""One reading: what the judge read for an item under an ordering, in tokens, and the probabilities that it gave.

In a notebook it shows itself, the text beside the options; made again from the run folder, without the judge's weights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from logitjudge import markup, orderings as designs
from logitjudge.core import Ordering, TopToken
from logitjudge.errors import InputError, ModelError, unknown
from logitjudge.report import asked
from logitjudge.run import Run, SampledRun
from logitjudge.tokens import Tokenizer

if TYPE_CHECKING:
    import pandas as pd

Piece = tuple[str, tuple[int, ...]]  # text, and the tokens that it is
TOP = 5  # tokens that begin no option


@dataclass(frozen=True, slots=True)
class Answer:
    """One option of a reading.

    Parameters
    ----------
    score
        The score that it stands for.
    position
        Where its level is shown, from 1.
    text
        What the judge answers with; "" where the prompt is not known.
    token_ids
        The tokens that are read behind the context; None without a tokenizer.
    prob
        Its probability over the full vocabulary; None of a sampled run.
    share
        Its probability among the options, as in `Run.probs`; None where that is not known.
    exact
        Whether `prob` is what the judge says; false where it is an upper bound.
    picks
        Of a sampled run, how many texts pick it; else None.
    """

    score: int
    position: int
    text: str
    token_ids: tuple[int, ...] | None = None
    prob: float | None = None
    share: float | None = None
    exact: bool = True
    picks: int | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Reading:
    """One item under one ordering: the text as it was read, its tokens, and what the judge answered.

    Parameters
    ----------
    item
        Id of the item.
    ordering
        Score values, first position first.
    answers
        (K,) in score order.
    text
        What the judge read; None where that is not known, and `note` says why.
    pieces
        The same in tokens: each piece of the text, and its token ids. None where they are not known.
    top_tokens
        The most probable tokens that begin no option; empty where none are stored.
    trace
        The judge's text behind which was read, by its trace_id; None where it wrote nothing.
    samples
        Of a sampled run, how many texts there are; else None.
    note
        Why something is missing, or "".
    """

    item: str
    ordering: tuple[int, ...]
    answers: tuple[Answer, ...]
    text: str | None = None
    pieces: tuple[Piece, ...] | None = None
    top_tokens: tuple[TopToken, ...] = ()
    trace: str | None = None
    samples: int | None = None
    note: str = ""

    def to_frame(self) -> pd.DataFrame:
        """Frame, one row an option in score order, with the fields of `Answer`."""
        import pandas as pd

        names = list(Answer.__dataclass_fields__)
        return pd.DataFrame([[getattr(row, name) for name in names] for row in self.answers], columns=names)

    @property
    def _heading(self) -> str:
        behind = "" if self.trace is None else f", behind text {self.trace}"
        return f"Item {self.item} under {','.join(map(str, self.ordering))}{behind}"

    def __repr__(self) -> str:
        heads, rows = self._table()
        lines = [heads, *[list(map(str, row)) for row in rows]]
        width = [max(len(row[n]) for row in lines) for n in range(len(heads))]
        made = ["  ".join(cell.rjust(w) for cell, w in zip(row, width, strict=True)) for row in lines]
        about = [self._heading, self.text, self._counted(), *made, *self._others(), self.note]
        return "\n".join(part for part in about if part)

    def _repr_html_(self) -> str:
        heads, rows = self._table()
        column = heads.index("picks" if self.samples is not None else "%")
        for row, answer in zip(rows, self._shown(), strict=True):
            row[column] = markup.Shaded(row[column], answer.prob or (answer.picks or 0) / (self.samples or 1))
        side = markup.element(
            "div", markup.table(heads, rows, left=(2,)), *map(markup.note, self._others()), style="flex: 0 1 auto"
        )
        text = markup.element("div", *self._passage(), style="flex: 1 1 24em; min-width: 0")
        both = markup.element("div", text, side, style="display: flex; flex-wrap: wrap; gap: 1em")
        return markup.block(self._heading, both, *map(markup.note, filter(None, [self.note])))

    def _passage(self) -> list[markup.Html]:
        """The text, every second token shaded."""
        if self.text is None:
            return []
        if self.pieces is None:
            return [markup.passage(self.text)]
        made = [
            markup.element("span", text, title=" ".join(map(str, ids)), style=markup.shade(-0.3) if n % 2 else "")
            for n, (text, ids) in enumerate(self.pieces)
        ]
        return [markup.passage(*made), markup.note(self._counted())]

    def _counted(self) -> str:
        return "" if self.pieces is None else f"{sum(len(ids) for _, ids in self.pieces)} tokens"

    def _shown(self) -> list[Answer]:
        """Options as the judge saw them, first position first."""
        return sorted(self.answers, key=lambda answer: answer.position)

    def _table(self) -> tuple[list[str], list[list[Any]]]:
        """Heads and rows of the options."""
        known = self.samples is None
        heads = ["position", "score", "option", *(["%", "% of options"] if known else ["picks"])]
        rows: list[list[Any]] = []
        for one in self._shown():
            last = [_bound(one), "–" if one.share is None else markup.percent(one.share)] if known else [str(one.picks)]
            rows.append([str(one.position), str(one.score), repr(one.text) if one.text else "–", *last])
        return heads, rows

    def _others(self) -> list[str]:
        """What is said below the options."""
        if self.samples is not None:
            lost = self.samples - sum(answer.picks or 0 for answer in self.answers)
            return [f"{self.samples} texts, {lost} without a score that can be parsed"]
        mass = f"on the options together: {markup.percent(sum(answer.prob or 0.0 for answer in self.answers))} %"
        least = "" if all(answer.exact for answer in self.answers) else " at most"
        tokens = ", ".join(f"{token.text!r} {markup.percent(math.exp(token.logp))} %" for token in self.top_tokens)
        return [mass + least, *([f"other tokens: {tokens}"] if tokens else [])]


def _bound(answer: Answer) -> str:
    if answer.prob is None:
        return "–"
    return markup.percent(answer.prob) if answer.exact else f"at most {markup.percent(answer.prob)}"


def reading(
    run: Run,
    item: str,
    ordering: Ordering | Sequence[int] | str,
    *,
    model: str | None = None,
    trace: str | None = None,
) -> Reading:
    """One item of a run under one of its orderings.

    Parameters
    ----------
    run
        A run; its folder says what the judge read.
    item
        Id of an item of the run.
    ordering
        Score values, first position first (``"5,4,3,2,1"``), or an `Ordering`.
    model
        Where the judge is now, if it is not where it was. Its tokenizer is opened, not its weights.
    trace
        Which of the judge's texts, by its trace_id; the first by default.

    Returns
    -------
    Reading
        Shows itself in a notebook. What is not known is None, and its `note` says why.

    Raises
    ------
    InputError
        No such item, ordering or text in the run; or the tokenizer at `model` is not that of the run.
    """
    i, o = _item(run, item), _ordering(run, ordering)
    found = _Words.of(run, item, run.orderings[o], model, trace)
    row = (
        None
        if isinstance(run, SampledRun) or "readings" not in run.loaders
        else _row(run, item, o, found.trace or trace)
    )
    if row is None and trace is not None:
        raise InputError("this run has no stored readings behind texts of the judge. Leave the trace out.")
    picks = run.picks[i, o] if isinstance(run, SampledRun) else None
    return Reading(
        item,
        run.orderings[o].values(run.scores.tolist()),
        _answers(run, i, o, row, found),
        found.text,
        found.pieces,
        () if row is None else tuple(TopToken(**token) for token in row["top_tokens"][:TOP]),
        row["trace_id"] if row is not None and isinstance(row["trace_id"], str) else None,
        None if picks is None else len(picks),
        found.note,
    )


def _item(run: Run, name: str) -> int:
    ids = [item.id for item in run.items]
    if name not in ids:
        near = unknown("item", name, ids)
        raise InputError(near if len(ids) <= 20 else near.split(" Known:")[0] + " See run.items.")
    return ids.index(name)


def _ordering(run: Run, ordering: Ordering | Sequence[int] | str) -> int:
    if isinstance(ordering, Ordering):
        found = [o for o, made in enumerate(run.orderings) if made == ordering]
    else:
        given = designs.parse(ordering if isinstance(ordering, str) else [ordering], run.scores.tolist())
        found = [o for o, made in enumerate(run.orderings) if len(given) == 1 and made.shown == given[0].shown]
    if not found:
        raise InputError(f"the run has no ordering {ordering!r}. See run.orderings.")
    return found[0]


@dataclass(frozen=True, slots=True)
class _Words:
    """What is known of the text of a reading."""

    text: str | None = None
    pieces: tuple[Piece, ...] | None = None
    options: tuple[str, ...] | None = None
    tails: tuple[tuple[int, ...], ...] | None = None
    trace: str | None = None
    note: str = ""

    @classmethod
    def of(cls, run: Run, item: str, ordering: Ordering, model: str | None, trace: str | None) -> _Words:
        if run.folder is None:
            return cls(note="The run was not loaded from a folder, so what the judge read is not known.")
        if not any(run.items[_item(run, item)].fields.values()):
            return cls(note="The run was exported without texts, so what the judge read is not known.")
        try:
            query, tokenizer, name = asked.placed(run.folder, item, ordering, model=model, trace=trace)
        except ModelError as error:
            if model is not None:
                raise
            return cls._untokenized(run, item, ordering, str(error))
        options = query.prompt.options
        if tokenizer is None or query.tokens is None:
            return cls(asked.plain(query.prompt), options=options, note="This judge has no tokenizer.")
        spelled = tuple(pieces(tokenizer, query.tokens.context))
        return cls(query.tokens.text, spelled, options, query.tokens.tails, name)

    @classmethod
    def _untokenized(cls, run: Run, item: str, ordering: Ordering, why: str) -> _Words:
        assert run.folder is not None
        prompt = asked.unplaced(run.folder, item, ordering)
        note = f"The prompt alone, without its chat template and without what the judge wrote: {why}"
        return cls(asked.plain(prompt), options=prompt.options, note=note)


def pieces(tokenizer: Tokenizer, ids: Sequence[int]) -> list[Piece]:
    """Text of each token behind those before it; tokens that are one character only together are one piece.

    The pieces, put together, are the decoded text: a token is decoded behind the piece before it, because a tokenizer may
    drop the space at the beginning of a text.
    """
    made: list[Piece] = []
    before: tuple[int, ...] = ()
    begin = 0
    for end in range(1, len(ids) + 1):
        open_ = tuple(ids[begin:end])
        text = tokenizer.decode([*before, *open_])[len(tokenizer.decode(before)) if before else 0 :]
        if text and (not text.endswith("\ufffd") or end == len(ids)):
            made.append((text, open_))
            before, begin = open_, end
    return made


def _row(run: Run, item: str, o: int, trace: str | None) -> Mapping[str, Any]:
    """The stored row of a reading: that behind `trace`, or the first."""
    frame = run.readings()
    ordering = run.orderings[o]
    for row in frame[frame["item_id"] == item].to_dict("records"):
        labels = None if row["labels"] is None else tuple(row["labels"])
        same = tuple(row["ordering"]) == ordering.values(run.scores.tolist()) and labels == ordering.labels
        if same and trace in (None, row["trace_id"]):
            return {str(name): value for name, value in row.items()}
    raise InputError(f"the run has no reading of item {item!r} behind the text {trace!r}.")


def _answers(run: Run, i: int, o: int, row: Mapping[str, Any] | None, words: _Words) -> tuple[Answer, ...]:
    place = run.orderings[o].position_of
    options = words.options or ("",) * len(place)
    tails = words.tails or (None,) * len(place)
    found = [(int(s), place[k] + 1, options[k], tails[k]) for k, s in enumerate(run.scores)]
    if isinstance(run, SampledRun):
        return tuple(Answer(*one, picks=int((run.picks[i, o] == one[0]).sum())) for one in found)
    logp, alias, exact = _stored(row) if row is not None else (run.logp[i, o], run.alias_mass[i, o], run.exact[i, o])
    weight = np.exp(logp) + (alias if run.aliases == "sum" else 0.0)
    share = weight / weight.sum() if exact.all() else None
    return tuple(
        Answer(*one, float(np.exp(logp[k])), None if share is None else float(share[k]), bool(exact[k]))
        for k, one in enumerate(found)
    )


def _stored(row: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """(K,) log-probability, alias mass, and what is exact, of a stored row."""
    exact = np.ones(len(row["logp"]), np.bool_) if row["exact"] is None else np.asarray(row["exact"], np.bool_)
    return np.asarray(row["logp"], float), np.asarray(row["alias_mass"], float), exact
