"""Will this judge give honest readings? What is found in a minute, before a long run.

A handful of prompts is read at the identity and the reverse ordering: how much probability falls on the options, where
the rest goes, what would follow an option, how far a second way of reading differs, and what a run would cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from logitjudge import datasets, models
from logitjudge.backends import Backend
from logitjudge.core import Item, ItemSet, Ordering, Rubric
from logitjudge.doctor import prompts, readings
from logitjudge.doctor.evidence import Evidence, look
from logitjudge.doctor.findings import Check, Diagnosis
from logitjudge.progress import Progress, Report
from logitjudge.study import Study, study

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Check", "Diagnosis", "diagnose", "examine"]

OF_PROMPTS: tuple[Callable[[Evidence], Check | None], ...] = (
    prompts.options,
    prompts.beginning,
    prompts.chat,
    prompts.thinking,
    prompts.control_tokens,
    prompts.items,
)
OF_READINGS: tuple[Callable[[Evidence], Check | None], ...] = (
    readings.mass,
    readings.off_scale,
    readings.aliases,
    readings.follows,
    readings.noise,
    readings.engine,
    readings.memory,
    readings.work,
)


def diagnose(
    model: Any,
    data: str | Path | ItemSet | Sequence[Item] | pd.DataFrame | None = None,
    *,
    orderings: str | Sequence[Ordering] | Sequence[Sequence[int]] = "balanced",
    rubric: str | Path | Rubric = "item",
    template: str | Path = "prometheus",
    verdict: str = "direct",
    limit: int | None = None,
    seed: int = 0,
    max_batch_tokens: int | None = None,
    progress: Report | None = None,
    backend: str | None = None,
    **model_options: Any,
) -> Diagnosis:
    """Look at a judge before a long run.

    Parameters
    ----------
    model, orderings, rubric, template, verdict, limit, seed, max_batch_tokens, backend, model_options
        As in `logitjudge.judge`.
    data
        The items of the run that is planned; by default the demo items, judged by `rubric` where one is given.
    progress
        Called with a `Progress` that carries a message at each step.

    Raises
    ------
    InputError
        Whatever is wrong with the input, such as options that the tokenizer cannot tell apart.
    """
    asked = study(
        demo(rubric) if data is None else data,
        orderings=orderings,
        rubric=rubric,
        template=template,
        verdict=verdict,
        limit=limit,
        seed=seed,
    )

    def say(text: str) -> None:
        if progress is not None:
            progress(Progress(message=text))

    say("opening the judge")
    spec = models.parse(model, backend, **model_options)
    return examine(asked, models.open_backend(spec), spec.shown_name, budget=max_batch_tokens, say=say)


def demo(rubric: Any) -> ItemSet:
    """Load the demo items, without their ratings where these are not on the scale of another rubric."""
    items = datasets.load("demo")
    if rubric == "item":
        return items
    return replace(items, items=tuple(replace(item, human=None, rubric=None) for item in items.items))


def examine(
    asked: Study,
    backend: Backend,
    name: str,
    *,
    budget: int | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Diagnosis:
    """Look at an open judge. Raises `InputError` as `diagnose` does."""
    seen = look(asked, backend, budget, say)
    if backend.tokenizer is None:
        return Diagnosis(name, _made(seen, (readings.reading, _no_tokenizer, readings.mass)))
    if not seen.queries:
        return Diagnosis(name, _made(seen, (readings.reading, prompts.control_tokens, prompts.items, readings.memory)))
    checks = _made(seen, (readings.reading, *OF_PROMPTS, *OF_READINGS))
    return Diagnosis(name, checks, tuple(_options(seen)), prompts.context_end(seen.queries[0], backend.tokenizer))


def _no_tokenizer(seen: Evidence) -> Check:
    return Check("tokenizer", "info", "this judge has no tokenizer (it is planted): only its mass can be looked at.")


def _made(seen: Evidence, checks: Sequence[Callable[[Evidence], Check | None]]) -> tuple[Check, ...]:
    return tuple(made for check in checks if (made := check(seen)) is not None)


def _options(seen: Evidence) -> list[Mapping[str, Any]]:
    """One mapping an option, in score order."""
    query, tokenizer = seen.queries[0], seen.backend.tokenizer
    assert query.tokens is not None
    assert tokenizer is not None
    read = seen.readings
    return [
        {
            "score": score,
            "text": query.prompt.options[k],
            "token_ids": list(query.tokens.tails[k]),
            "tokens": [tokenizer.decode([token]) for token in query.tokens.tails[k]],
            "prob": None if read is None else float(np.exp(read.logp[:, k]).mean()),
            "alias_mass": None if read is None else float(read.alias_mass[:, k].mean()),
            "follows": None if seen.follows is None else seen.follows[k]._asdict(),
        }
        for k, score in enumerate(seen.asked.scores)
    ]
