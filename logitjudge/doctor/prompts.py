"""Checks of the prompt: options in token space, its beginning, the chat template, thinking, control tokens, length."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from logitjudge.backends import Query
from logitjudge.doctor.evidence import Evidence
from logitjudge.doctor.findings import Check, share
from logitjudge.tokens import Tokenizer

NAMED = 5  # items that a message names
CONTEXT = 40  # characters of the context that are shown
OPENERS = (
    "<think>",
    "<thinking>",
    "<|thinking|>",
    "<|begin_of_thought|>",
    "<thought>",
    "<reasoning>",
    "<seed:think>",
    "<|channel|>",
    "[THINK]",
    "◁think▷",
)
CLOSERS = ("</", "[/", "<|end", "◁/")  # with the opener's word behind it
THINKS = 0.05  # mass on openers above which `direct` does not read what the judge would say


def options(seen: Evidence) -> Check:
    """How the options look in token space."""
    query, tokenizer = seen.queries[0], _tokenizer(seen)
    assert query.tokens is not None
    tails = query.tokens.tails
    lengths = sorted({len(tail) for tail in tails})
    written = len(tokenizer.encode([query.tokens.text])[0])
    text = f"{len(tails)} options of {' to '.join(map(str, lengths[:: max(1, len(lengths) - 1)]))} token(s)"
    text += f", read behind {context_end(query, tokenizer)!r}"
    if len(query.tokens.context) < written:
        text += "; the tokenizer joins the end of the prompt with the option, so both are read together"
    if query.prompt.close:
        text += f"; an option counts only with {query.prompt.close!r} behind it"
    shared = len({tail[0] for tail in tails}) < len(tails)
    if shared:
        text += "; some options begin with the same token and are read along a trie"
    values = {"token_counts": [len(tail) for tail in tails], "shared_first_token": shared, "close": query.prompt.close}
    return Check("options", "ok", text + ".", values)


def context_end(query: Query, tokenizer: Tokenizer) -> str:
    """Decode the end of the text behind which the options are read."""
    assert query.tokens is not None
    return tokenizer.decode(query.tokens.context[-CONTEXT:])[-CONTEXT:]


def beginning(seen: Evidence) -> Check | None:
    """One beginning-of-sequence token, where the tokenizer has one."""
    tokenizer, query = _tokenizer(seen), seen.queries[0]
    assert query.tokens is not None
    begins = getattr(tokenizer, "begins", None)
    if begins is None:
        return None
    count, bos, adds = begins(query.tokens.context), seen.facts.get("bos"), bool(seen.facts.get("adds_bos"))
    values = {"count": count, "bos": bos, "tokenizer_adds_one": adds}
    if count > 1:
        text = (
            f"the prompt begins with {count} {bos} tokens. Use a chat template that writes one: --chat-template FILE."
        )
        return Check("bos", "warn", text, values)
    if count == 0 and adds:
        text = f"the tokenizer puts {bos} before a text, but the chat template does not write it. Use one that does."
        return Check("bos", "warn", text, values)
    return Check(
        "bos", "ok", f"the prompt begins with one {bos}." if count else "the prompt begins without one.", values
    )


def chat(seen: Evidence) -> Check | None:
    """Chat template, and what became of the system message."""
    tokenizer = _tokenizer(seen)
    has, folded = getattr(tokenizer, "has_chat", None), bool(getattr(tokenizer, "system_folded", False))
    if has is None:
        return None
    values = {"chat_template": has, "system_folded": folded}
    if not has:
        return Check("chat", "info", "no chat template: the prompt is plain text, as for a base model.", values)
    if folded:
        text = "the chat template takes no system message: it stands at the beginning of the user's."
        return Check("chat", "info", text, values)
    return Check("chat", "ok", "the chat template prints all messages as they are.", values)


def thinking(seen: Evidence) -> Check | None:
    """Whether the judge wants to reason first."""
    mass = opener_mass(seen)
    template = str(seen.facts.get("chat_template") or "")
    mentioned = [mark for mark in ("enable_thinking", *OPENERS) if mark in template]
    opened = left_open(seen.queries[0])
    values = {"opener_mass": mass, "template_mentions": mentioned, "left_open": opened or None}
    if opened:
        text = f"the chat template opens a thought ({opened}) and does not close it: that is where it is read."
        return Check(
            "thinking", "warn", text + " Use --chat-template FILE; such a judge needs --verdict think.", values
        )
    if mass >= THINKS:
        text = f"{share(mass)} goes to the beginning of a thought: the judge wants to reason first, and `direct`"
        return Check(
            "thinking", "warn", text + " reads it without. It needs --verdict think (a later version).", values
        )
    if mentioned:
        text = f"the chat template knows reasoning ({', '.join(mentioned)}): `direct` reads the answer without."
        return Check("thinking", "info", text, values)
    return Check("thinking", "ok", "no sign of a thinking judge.", values)


def opener_mass(seen: Evidence) -> float:
    """Mean probability of tokens that open a thought."""
    if seen.readings is None:
        return 0.0
    rows = [[math.exp(t.logp) for t in row if _opens(t.text)] for row in seen.readings.top_tokens]
    return math.fsum(map(math.fsum, rows)) / len(rows)


def _opens(text: str) -> bool:
    """Whether a token is an opener, or begins one where the tokenizer splits it."""
    bare = text.strip()
    return bare in OPENERS or (len(bare) >= 3 and any(mark.startswith(bare) for mark in OPENERS))


def left_open(query: Query) -> str:
    """Find the opener of a thought that the generation prompt begins and does not close, or ''."""
    assert query.tokens is not None
    end = query.tokens.text[: len(query.tokens.text) - len(query.prompt.prefill)]
    end = end[end.rfind(query.prompt.messages[-1].content.strip()[-40:]) :]
    for mark in OPENERS[:-1]:
        word = mark.strip("<>[]|")
        if mark in end and not any(closer + word in end[end.rfind(mark) :] for closer in CLOSERS):
            return mark
    return ""


def control_tokens(seen: Evidence) -> Check:
    """Texts that would be read as control tokens."""
    marked = seen.survey.marked
    values = {"items": len(marked), "first": dict(list(marked.items())[:NAMED])}
    if not marked:
        return Check("control_tokens", "ok", "no text holds a control token of the tokenizer.", values)
    text = f"{_listed(f'{name} ({mark})' for name, mark in marked.items())}: the text holds a control token, which"
    return Check(
        "control_tokens", "warn", text + " the judge takes for the chat's own. Change or leave out these texts.", values
    )


def items(seen: Evidence) -> Check:
    """Whether every item can be judged: fields and length."""
    most, lengths, lacking = seen.backend.max_length, seen.survey.lengths, seen.survey.lacking
    fitting = set(seen.survey.fitting(most))
    long = [name for name in lengths if name not in fitting]
    longest = max(lengths.values(), default=None)
    values: Mapping[str, Any] = {"longest": longest, "max_length": most, "too_long": len(long), "lacking": len(lacking)}
    if not fitting:
        return Check(
            "items", "fail", f"no item can be judged: {_too_long(long, most)} {_without(lacking)}".strip(), values
        )
    if long or lacking:
        text = f"{_too_long(long, most)} {_without(lacking)}".strip() + " They would be refused."
        return Check("items", "warn", text, values)
    limit = "without a limit" if most is None else f"of {most:,} that the judge takes"
    unit = "tokens" if seen.backend.tokenizer else "characters"
    return Check("items", "ok", f"the longest prompt has {longest:,} {unit}, {limit}.", values)


def _too_long(names: list[str], most: int | None) -> str:
    return (
        f"{_listed(names)}: longer than the {most:,} tokens that the judge takes; prompts are never cut."
        if names
        else ""
    )


def _without(lacking: Mapping[str, str]) -> str:
    named = _listed(f"{name} ({lacks})" for name, lacks in lacking.items())
    return f"{named}: without a field that the template prints." if lacking else ""


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - NAMED} more" if len(every) > NAMED else ""
    return f"{len(every)} item(s), {', '.join(every[:NAMED])}{more}"


def _tokenizer(seen: Evidence) -> Tokenizer:
    assert seen.backend.tokenizer is not None
    return seen.backend.tokenizer
