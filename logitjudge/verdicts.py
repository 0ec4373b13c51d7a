"""Verdict modes in which the judge writes before it scores: its text up to the marker, then the reading at that place.

The place is found in the judge's own tokens: the trace ends with the token that completes the marker, and the options
are read behind it. Nothing is matched in the prompt, and no digit is parsed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import product
from pathlib import Path as FilePath
from typing import Any, Literal, get_args

import yaml

from logitjudge import orderings as designs, picks
from logitjudge.backends import Backend, Query, Trace
from logitjudge.backends._harvest import resolved
from logitjudge.core import Ordering
from logitjudge.errors import InputError, ModelError, OptionError, unknown
from logitjudge.parts import GIVEN_UP, trace_id
from logitjudge.prompts import Template
from logitjudge.tokens import Path, Resolved, Tokenizer, aliases, common_prefix

REASONING = FilePath(__file__).parent / "data" / "reasoning.yaml"
OWN, SHARED = "per-ordering", "shared"
USUAL = {"max_new_tokens": 512, "unended": "refuse", "trace": OWN, "samples": 1, "temperature": 0.0}
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
    sources
        Orderings under which the texts are written, each then read under all orderings; None: every ordering writes its
        own.
    samples
        Texts that are written under each.
    temperature
        0: greedy.
    seed
        Of the samples.
    parsed
        The score is parsed from the text, and nothing is read.
    """

    marker: str
    lead: str = ""
    given: str = ""
    most: int = 512
    unended: Unended = "refuse"
    sources: tuple[Ordering, ...] | None = None
    samples: int = 1
    temperature: float = 0.0
    seed: int = 0
    parsed: bool = False

    def behind(self, ordering: Ordering) -> list[tuple[Ordering, int]]:
        """Source ordering and sample of every text that is read under an ordering: the axis S of ``run.logp_by_trace``."""
        return list(product(self.sources or [ordering], range(self.samples)))

    @property
    def texts(self) -> int:
        """How many texts are read, or parsed, under each ordering."""
        return len(self.sources or [None]) * self.samples

    def name(self, item: str, source: Ordering, sample: int, scores: Sequence[int]) -> str:
        """What a text is called in the run folder."""
        return trace_id(item, source.values(scores), source.labels, sample if self.samples > 1 else None)


def settings(template: Template, scores: Sequence[int], asked: Mapping[str, Any], seed: int) -> dict[str, Any] | None:
    """Settings of the texts, checked, as run.json's identity has them; None where nothing is written.

    Parameters
    ----------
    asked
        ``max_new_tokens``, ``unended``, ``trace``, ``samples``, ``temperature``, as in `logitjudge.judge`.

    Raises
    ------
    InputError
        A setting makes no sense.
    """
    samples, temperature = asked["samples"], asked["temperature"]
    if not template.writes:
        if strange := [name for name, usual in USUAL.items() if asked[name] != usual]:
            raise InputError(
                f"{strange[0]} is of judges that write, and with --verdict direct they do not. Leave it out, or use --verdict "
                "feedback, think or sampled."
            )
        return None
    if template.verdict != "think" and not template.marker:
        raise InputError(
            f"template {template.name!r} does not say what stands before the score of a judge that writes. Give it a marker "
            f"(front matter, verdicts: {{{template.verdict}: {{marker: ...}}}}), or use --verdict direct."
        )
    if asked["unended"] not in get_args(Unended):
        raise InputError(unknown("value of unended", asked["unended"], get_args(Unended)))
    if asked["max_new_tokens"] < 1:
        raise InputError(f"max_new_tokens is {asked['max_new_tokens']}. Give a whole number of at least 1.")
    if samples < 1:
        raise InputError(f"samples is {samples}. Give a whole number of at least 1.")
    if not 0 <= temperature < float("inf"):
        raise InputError(f"temperature is {temperature}. Give a number of at least 0; 0 is greedy.")
    if samples > 1 and temperature == 0:
        raise InputError(
            f"at temperature 0 all {samples} samples would be the same text. Give --temperature, such as 0.7."
        )
    _sources(asked["trace"], scores, seed)
    if template.verdict == "sampled" and asked["unended"] != USUAL["unended"]:
        raise InputError(
            "--verdict sampled parses the text as it is, and puts no marker behind it. Leave --unended out."
        )
    if template.verdict == "sampled" and asked["trace"] != OWN:
        raise InputError(
            "--verdict sampled parses each text and reads nothing, so no text can be shared. Leave --trace out."
        )
    return dict(asked)


def _sources(trace: str, scores: Sequence[int], seed: int) -> tuple[Ordering, ...] | None:
    """Source orderings of shared texts: ``shared`` (the K cyclic ones) or ``shared:DESIGN``."""
    kind, _, design = trace.partition(":")
    if trace == OWN:
        return None
    if kind != SHARED:
        raise InputError(unknown("value of trace", trace, [OWN, SHARED, f"{SHARED}:DESIGN"]))
    return designs.parse(design or "cyclic", scores, seed)


def writing(
    template: Template, backend: Backend, scores: Sequence[int], asked: Mapping[str, Any] | None, seed: int
) -> Writing | None:
    """How a judge writes, by its template and by `settings`; None where it does not.

    Raises
    ------
    InputError
        The judge cannot write, or nothing says what ends its thoughts.
    """
    if asked is None:
        return None
    if not hasattr(backend, "generate"):
        raise ModelError(
            f"this judge cannot write, as the verdict mode {template.verdict} asks. Use --backend hf or vllm."
        )
    parsed = template.verdict == "sampled"
    return Writing(
        template.marker or _reasoning(backend),
        template.lead,
        template.prefill if template.verdict == "think" else "",
        asked["max_new_tokens"],
        asked["unended"],
        _sources(asked["trace"], scores, seed),
        asked["samples"],
        asked["temperature"],
        seed,
        parsed,
    )


def of_run(head: Mapping[str, Any], template: Template) -> Writing | None:
    """How the judge of a run has written, by its run.json."""
    asked, about, scores = head["identity"].get("writing"), head.get("traces"), head["scores"]
    if not asked or not about:
        return None
    return Writing(
        about["end_marker"],
        template.lead,
        template.prefill if template.verdict == "think" else "",
        asked["max_new_tokens"],
        asked["unended"],
        about["sources"] and designs.parse(about["sources"], scores),
        about["samples"],
        about["temperature"],
        head["identity"]["seed"],
        template.verdict == "sampled",
    )


def about(how: Writing | None, scores: Sequence[int]) -> dict[str, Any] | None:
    """What run.json says of the texts before they are written."""
    if how is None:
        return None
    sources = how.sources and [list(source.values(scores)) for source in how.sources]
    return {"end_marker": how.marker, "sources": sources, "samples": how.samples, "temperature": how.temperature}


def _reasoning(backend: Backend) -> str:
    """What ends the judge's thoughts, by its chat template."""
    chat = getattr(backend.tokenizer, "chat_template", None) or ""
    for row in yaml.safe_load(REASONING.read_text(encoding="utf-8")):
        if row["template"] in chat:
            return str(row["marker"])
    raise InputError(
        "nothing in the chat template says what ends this judge's thoughts. Give the template a marker "
        "(front matter, verdicts: {think: {marker: ...}}), or use --verdict direct or feedback."
    )


def write(backend: Backend, queries: Sequence[Query], names: Sequence[str], writing: Writing) -> list[Trace]:
    """Texts of a batch of queries. Samples are drawn by the seed and the text's name, whatever else is in the batch."""
    contexts = [resolved(query).context for query in queries]
    seeds = [_seed(writing.seed, name) for name in names]
    marker = "" if writing.parsed else writing.marker
    traces: list[Trace] = backend.generate(contexts, marker, writing.most, writing.temperature, seeds)  # type: ignore[attr-defined]
    return traces


def _seed(seed: int, name: str) -> int:
    return int.from_bytes(sha256(f"{seed}|{name}".encode()).digest()[:4])


def parsed(query: Query, trace: Trace, writing: Writing) -> int | None:
    """Score index that a text picks, or None."""
    if trace.finish in GIVEN_UP:
        return None
    return picks.pick(trace.text, query.prompt.options, writing.marker, cut=trace.finish == "length")


def place(tokenizer: Tokenizer, query: Query, trace: Trace, writing: Writing) -> Query | None:
    """The query at the end of its trace; None where that has no marker and is not closed by force."""
    if trace.finish == "marker":
        return _behind(tokenizer, query, trace.ids, trace.text.partition(writing.marker)[2], writing)
    if writing.unended == "refuse" or trace.finish in GIVEN_UP:
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
    text = before.text + tokenizer.decode(trace) + writing.given
    return replace(query, tokens=Resolved(text, context, tails, aliases(tokenizer, options, tails)))


def row(
    name: str, query: Query, sample: int, trace: Trace, picked: int | None, scores: Sequence[int]
) -> dict[str, Any]:
    """A text as the run folder has it."""
    return {
        "trace_id": name,
        "item_id": query.item.id,
        "source_ordering": list(query.ordering.values(scores)),
        "sample": sample,
        "text": trace.text,
        "token_ids": list(trace.ids),
        "finish_reason": trace.finish,
        "picked": None if picked is None else scores[picked],
    }


def trace_of(row: Mapping[str, Any]) -> Trace:
    """The trace of a row."""
    return Trace(tuple(row["token_ids"]), row["text"], row["finish_reason"])
