"""Verdict modes in which the judge writes before it scores: its text up to the marker, then the reading at that place.

The place is found in the judge's own tokens: the trace ends with the token that completes the marker, and the options
are read behind it. Nothing is matched in the prompt, and no digit is parsed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any, Literal, get_args

import yaml

from logitjudge.backends import Backend, Query, Trace
from logitjudge.backends._harvest import resolved
from logitjudge.errors import InputError, ModelError, OptionError, unknown
from logitjudge.prompts import Template
from logitjudge.tokens import Path, Resolved, Tokenizer, aliases, common_prefix

REASONING = FilePath(__file__).parent / "data" / "reasoning.yaml"
Unended = Literal["refuse", "close"]


@dataclass(frozen=True, slots=True)
class Writing:
    """How a judge writes before it scores.

    Parameters
    ----------
    marker
        What ends its text.
    lead
        What stands between the marker and an option; it is read, not given.
    given
        What is put behind the marker before the reading.
    most
        Tokens of the longest text.
    unended
        What becomes of a text without its marker: the item is refused, or the marker is put behind the text.
    """

    marker: str
    lead: str = ""
    given: str = ""
    most: int = 512
    unended: Unended = "refuse"


def writing(template: Template, backend: Backend, most: int, unended: str) -> Writing | None:
    """How a template's judge writes; None where it does not.

    Raises
    ------
    InputError
        The settings make no sense, the judge cannot write, or nothing says what ends its thoughts.
    """
    if not template.writes:
        return None
    if not hasattr(backend, "generate"):
        raise ModelError("this judge cannot write: the verdict modes feedback and think need --backend hf or vllm.")
    if unended not in get_args(Unended):
        raise InputError(unknown("value of unended", unended, get_args(Unended)))
    if most < 1:
        raise InputError(f"max_new_tokens is {most}. Give a whole number of at least 1.")
    marker = template.marker or _reasoning(backend)
    given = template.prefill if template.verdict == "think" else ""
    return Writing(marker, template.lead, given, most, unended)  # type: ignore[arg-type]


def _reasoning(backend: Backend) -> str:
    """What ends the judge's thoughts, by its chat template."""
    chat = getattr(backend.tokenizer, "chat_template", None) or ""
    for row in yaml.safe_load(REASONING.read_text(encoding="utf-8")):
        if row["template"] in chat:
            return str(row["marker"])
    raise InputError(
        "nothing in the chat template says what ends this judge's thoughts. Give the template a marker "
        "(verdicts: {think: {marker: ...}}), or use --verdict direct or feedback."
    )


def write(backend: Backend, queries: Sequence[Query], writing: Writing) -> list[Trace]:
    """Greedy texts of a batch of queries."""
    contexts = [resolved(query).context for query in queries]
    traces: list[Trace] = backend.generate(contexts, writing.marker, writing.most)  # type: ignore[attr-defined]
    return traces


def place(tokenizer: Tokenizer, query: Query, trace: Trace, writing: Writing) -> Query | None:
    """The query at the end of its trace; None where that has no marker and is not closed by force."""
    if trace.finish == "marker":
        return _behind(tokenizer, query, trace.ids, trace.text.partition(writing.marker)[2], writing)
    if writing.unended == "refuse":
        return None
    (closing,) = tokenizer.pieces([f"\n{writing.marker}"])
    return _behind(tokenizer, query, (*trace.ids, *closing), "", writing)


def _behind(tokenizer: Tokenizer, query: Query, trace: Path, after: str, writing: Writing) -> Query:
    """Options behind the marker, `after` (what the marker's last token brought along) and what is given."""
    ended = writing.marker + after
    base = ended + writing.given
    lead = "" if base.endswith((" ", "\n")) else writing.lead
    options = query.prompt.options
    texts = (base + lead + option + query.prompt.close for option in options)
    first, given, *lists = tokenizer.pieces([ended, base, *texts])
    n = common_prefix([given, *lists])
    if given[: len(first)] != first or n < len(first):
        raise OptionError(
            f"the tokenizer merges the marker {writing.marker!r} with what follows it. Use another marker in the template."
        )
    tails = tuple(tuple(ids[n:]) for ids in lists)
    before = resolved(query)
    context = (*before.context, *trace, *given[len(first) : n])
    return replace(query, tokens=Resolved(before.text, context, tails, aliases(tokenizer, options, tails)))


def trace_id(query: Query, scores: Sequence[int]) -> str:
    """What a trace is called: its item and the ordering that it was written under."""
    return f"{query.item.id}|{','.join(map(str, query.ordering.values(scores)))}"


def row(query: Query, trace: Trace, scores: Sequence[int]) -> dict[str, Any]:
    """A trace as the run folder has it."""
    return {
        "trace_id": trace_id(query, scores),
        "item_id": query.item.id,
        "source_ordering": list(query.ordering.values(scores)),
        "text": trace.text,
        "token_ids": list(trace.ids),
        "finish_reason": trace.finish,
    }


def trace_of(row: Mapping[str, Any]) -> Trace:
    """The trace of a row."""
    return Trace(tuple(row["token_ids"]), row["text"], row["finish_reason"])
