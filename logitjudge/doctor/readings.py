"""Checks of the readings and of the machine: mass, aliases, what follows, noise, engine, memory, time."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from logitjudge.core import TopToken
from logitjudge.doctor.evidence import Evidence, Timing
from logitjudge.doctor.findings import Check, share, size
from logitjudge.noise import leads
from logitjudge.progress import duration

LOW_MASS, NO_MASS = 0.5, 0.05
ALIASES = 0.1  # of the mass
FOLLOWS = 0.02
NOISE = 0.1  # nats
SHOWN = 5  # off-scale tokens
FREE = 512 << 20  # bytes


def reading(seen: Evidence) -> Check:
    """Whether the judge can be read at all."""
    if seen.broken:
        return Check("reading", "fail", f"the judge cannot be read: {seen.broken.rstrip('.')}.")
    return Check("reading", "ok", f"{len(seen.queries)} prompts were read, all finite.", {"prompts": len(seen.queries)})


def mass(seen: Evidence) -> Check | None:
    """How much probability falls on the options."""
    if seen.readings is None:
        return None
    values = seen.readings.mass
    mean, low = float(values.mean()), int((values < LOW_MASS).sum())
    found = {"mean": mean, "min": float(values.min()), "below_half": low, "prompts": len(values)}
    text = f"{share(mean)} of the probability falls on the options, {share(found['min'])} at least."
    if mean < NO_MASS:
        advice = " This judge does not answer with an option here: change template, prefill or options."
        return Check("mass", "fail", text + advice, found)
    if low:
        advice = f" {low} of {len(values)} prompts are below {share(LOW_MASS)}: a prefill of the answer may help."
        return Check("mass", "warn", text + advice, found)
    return Check("mass", "ok", text, found)


def off_scale(seen: Evidence) -> Check | None:
    """Name the tokens that take probability away from the options."""
    if seen.readings is None:
        return None
    taken: dict[tuple[int, str], list[float]] = defaultdict(list)
    for row in seen.readings.top_tokens:
        for token in row:
            taken[token.id, token.text].append(math.exp(token.logp))
    count = len(seen.readings.top_tokens)
    means = [TopToken(name, text, math.fsum(probs) / count) for (name, text), probs in taken.items()]
    top = sorted(means, key=lambda token: -token.logp)[:SHOWN]  # here means of probabilities
    values = {"tokens": [{"id": t.id, "text": t.text, "prob": t.logp} for t in top]}
    return Check("off_scale", "info", ", ".join(f"{t.text!r} {share(t.logp)}" for t in top) or "none.", values)


def aliases(seen: Evidence) -> Check | None:
    """How much falls on other forms of the options."""
    if seen.readings is None:
        return None
    by_option = seen.readings.alias_mass.mean(axis=0)
    ratio = float(by_option.sum() / seen.readings.mass.mean())
    values = {"by_option": by_option.tolist(), "of_mass": ratio}
    text = f"other forms of the options (with a blank, spelled out ...) have {share(ratio)} of the options' own mass."
    if ratio > ALIASES:
        return Check("aliases", "warn", text + " They are never added by themselves: try another prefill.", values)
    return Check("aliases", "ok", text, values)


def follows(seen: Evidence) -> Check | None:
    """Whether an option goes on to be another number, or might."""
    if seen.follows is None:
        return None
    options = seen.queries[0].prompt.options
    total = [f.total for f in seen.follows]
    other = [f.other_number for f in seen.follows]
    becomes = max(other) > FOLLOWS
    worst = other.index(max(other)) if becomes else total.index(max(total))
    most = seen.follows[worst]
    text = f"behind {options[worst]!r} stands a digit with {share(most.digit)}, a full stop with {share(most.point)}"
    text += f", a slash with {share(most.slash)}; it becomes another number with {share(most.other_number)}."
    values = {"total": total, "other_number": other}
    if becomes:
        advice = f" That would be read as {options[worst]!r}: set `close` in the template for a stricter reading."
        return Check("follows", "warn", text + advice, values)
    if max(total) > FOLLOWS:
        return Check(
            "follows", "info", text + " Mostly the end of a sentence, then, or of a phrase such as 4/5.", values
        )
    return Check("follows", "ok", text, values)


def noise(seen: Evidence) -> Check | None:
    """How far a second way of reading differs."""
    if seen.readings is None or seen.second is None:
        return None
    nats = np.abs(seen.readings.logp[: len(seen.second.logp)] - seen.second.logp)
    most = float(nats.max())
    values = {
        "max_nats": most,
        "median_nats": float(np.median(nats)),
        "winners_within": float((leads(seen.readings.logp) < most).mean()),
        "prompts": len(seen.second.logp),
    }
    text = (
        f"read a second way, log-probabilities differ by {most:.2g} nats at most; {share(values['winners_within'])} of"
    )
    text += " the winners lead by less."
    if most > NOISE:
        return Check("noise", "warn", text + " Try --dtype float32.", values)
    return Check("noise", "ok", text, values)


def engine(seen: Evidence) -> Check | None:
    """Path, proof, dtype and head."""
    known = seen.provenance
    path = known.get("path")
    if path is None or seen.broken:
        return None
    proof: dict[str, Any] = dict(known.get("proof") or {})
    values = {name: known.get(name) for name in ("path", "proof", "dtype", "head", "device", "attention")}
    refused: list[dict[str, str]] = list(known.get("refused_paths") or [])
    values["refused_paths"] = refused
    text = f"path {path} ({proof.get('reason', 'not proven')}), {known.get('dtype')} on {known.get('device')}, head"
    text += f" {known.get('head')}."
    if path == "remote":
        advice = """ For vLLM, start it with --hf-overrides '{"head_dtype": "float32"}': a rounded head makes ties."""
        return Check("engine", "info", text + advice, values)
    if known.get("head") != "float32" and known.get("dtype") != "float32":
        return Check("engine", "warn", text + " Options may come out equal by rounding: try --dtype float32.", values)
    text += "".join(f" Not {no['path']}: {no['reason']}." for no in refused)
    if path == "plain":
        return Check("engine", "warn", text + " Every prompt is run whole: right, but slow.", values)
    return Check("engine", "ok", text, values)


def memory(seen: Evidence) -> Check | None:
    """Weights, what is left, and the tokens that one pass may hold."""
    weights, free = seen.facts.get("weight_bytes"), seen.facts.get("free_bytes")
    if weights is None:
        return None
    values = {"weight_bytes": weights, "free_bytes": free, "token_budget": seen.budget}
    left = "an unknown amount is" if free is None else f"{size(free)} are"
    text = f"the weights take {size(weights)}, {left} free; one pass holds up to {seen.budget:,} tokens."
    if free is not None and free < FREE:
        return Check("memory", "warn", text + " That is little: use a smaller --max-batch-tokens or --dtype.", values)
    return Check("memory", "ok", text, values)


def work(seen: Evidence) -> Check:
    """How many prompts a run has, and how long it would take here."""
    lengths = [seen.survey.lengths[name] for name in seen.survey.fitting(seen.backend.max_length)]
    orderings = len(seen.asked.orderings)
    prompts, tokens = len(lengths) * orderings, sum(lengths) * orderings
    values: dict[str, Any] = {"items": len(lengths), "orderings": orderings, "prompts": prompts, "tokens": tokens}
    unit = "tokens" if seen.backend.tokenizer else "characters"
    text = f"{len(lengths)} items x {orderings} orderings = {prompts:,} prompts, about {tokens:,} {unit} as written"
    if seen.unique_share is not None:
        values["unique_tokens"] = round(tokens * seen.unique_share)
        text += f", {values['unique_tokens']:,} unique"
    if seen.timing is not None and seen.timing.seconds > 0:
        values |= {"pace": pace(seen, seen.timing), "seconds": expected(seen, seen.timing, values)}
        text += f"; {values['pace']:,.0f} {unit} fed a second here: about {duration(values['seconds'])}"
    return Check("work", "info", text + ".", values)


def pace(seen: Evidence, timing: Timing) -> float:
    """Tokens a second that were fed: on the packed path, what prompts share is fed once."""
    return (timing.unique if _packed(seen) else timing.tokens) / timing.seconds


def expected(seen: Evidence, timing: Timing, work: Mapping[str, Any]) -> float:
    """Seconds that the run takes at the pace that was measured."""
    fed: float = work["unique_tokens"] if _packed(seen) else work["tokens"]
    return fed / pace(seen, timing)


def _packed(seen: Evidence) -> bool:
    return seen.provenance.get("path") == "packed" and seen.unique_share is not None
