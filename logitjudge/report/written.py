"""What the texts of a judge that writes first say of a run: how they ended, what comes in through them, their spread."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from logitjudge import picks
from logitjudge.core import BoolArray, FloatArray
from logitjudge.errors import NotExact
from logitjudge.measures.traces import reading_distribution, source_distribution, standard_errors
from logitjudge.run import Run, SampledRun

Json = dict[str, Any]


def written(run: Run) -> Json | None:
    """What ``show --json`` has as ``traces``; None where the judge wrote nothing.

    Returns
    -------
    dict
        How many texts there are and how they ended (run.json's own keys); of a sampled run ``failed``, those without a
        score that can be parsed. ``standard_error``: of the expected scores, over samples. ``shared``, with shared texts:
        position distributions by source and by reading ordering, of all texts, and apart for those that name a score.
    """
    about = run.provenance.get("traces")
    if about is None:
        return None
    shared = None
    if about.get("sources") and run.exact.all():
        shared = {"all": _effects(run, None), **_apart(run)}
    return {**about, "standard_error": _errors(run), "shared": shared}


def _errors(run: Run) -> Json | None:
    try:
        errors = standard_errors(run)
    except NotExact:
        return None
    known = errors[np.isfinite(errors)]
    return {"median": float(np.median(known)), "max": float(known.max())} if len(known) else None


def _effects(run: Run, counted: BoolArray | None) -> Json:
    """Soft position distributions by source and by reading ordering."""
    texts = math.prod(run.logp_by_trace.shape[:2]) if counted is None else int(counted.sum())
    source, reading = (
        source_distribution(run, counted=counted), reading_distribution(run, counted=counted)
    )  # fmt: skip
    return {"texts": texts, "source": _nulls(source), "reading": _nulls(reading)}


def _apart(run: Run) -> Json:
    """The same for texts that name a score themselves, and for those that do not; None where the texts are not there."""
    named = _named(run)
    if named is None:
        return {"named": None, "unnamed": None}
    return {"named": _effects(run, named), "unnamed": _effects(run, ~named)}


def _named(run: Run) -> BoolArray | None:
    """(I, S) whether a text has an option as a word of its own."""
    if "traces" not in run.loaders or run.provenance.get("texts") is False:
        return None
    frame = run.traces()
    names: dict[str, list[bool]] = {item.id: [] for item in run.items}
    options = {}
    for item in run.items:
        rubric = run.rubric_of(item)
        assert rubric is not None
        options[item.id] = [level.option for level in rubric.levels]
    for item_id, text in zip(frame["item_id"], frame["text"], strict=True):  # in item, source, sample order
        if item_id in names:
            names[item_id].append(picks.names(text, options[item_id]))
    made: BoolArray = np.array([names[item.id] for item in run.items])
    return made


def _nulls(values: FloatArray) -> list[float] | None:
    """Plain floats; None where some text's score was not shown at every position, so that there is no distribution."""
    return None if np.isnan(values).any() else values.tolist()


def parsed(run: SampledRun) -> Json:
    """Share of texts from which no score could be parsed, and the items without any."""
    lost = np.isnan(run.picks)
    nothing = [item.id for item, none in zip(run.items, lost.all(axis=(1, 2)), strict=True) if none]
    return {"texts": int(lost.size), "failed": int(lost.sum()), "share": float(lost.mean()), "items_without": nothing}
