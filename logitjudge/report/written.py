"""What the texts of a judge that writes first say of a run: how they ended, what comes in through them, their spread."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from logitjudge import picks
from logitjudge.core import BoolArray, FloatArray
from logitjudge.errors import NotExact, NotObserved
from logitjudge.measures.traces import reading_distribution, source_distribution, standard_errors
from logitjudge.run import Run, SampledRun

if TYPE_CHECKING:
    import pandas as pd

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
    if about.get("sources") and run.exact.all() and run.aliases == "ignore":
        shared = {"all": _effects(run, None), **_apart(run)}
    return {**about, **_counts(run), "standard_error": _errors(run), "shared": shared}


def _counts(run: Run) -> Json:
    """How the texts of the run's own items ended: a part of the folder's, where some items were left out."""
    if "count" not in run.provenance["traces"] or not _whole(run):
        return {}
    frame = _frame(run)
    ends = frame["finish_reason"].value_counts()
    named = [picks.names(text, _options(run)[item]) for item, text in zip(frame["item_id"], frame["text"], strict=True)]
    counts = {
        name: int(ends.get(kind, 0)) for name, kind in (("ended", "marker"), ("end", "end"), ("length", "length"))
    }
    return {"count": len(frame), **counts, "named": sum(named)}


def _whole(run: Run) -> bool:
    """Whether the texts of all items are there."""
    if "traces" not in run.loaders or run.provenance.get("texts") is False:
        return False
    each = len(run.provenance["traces"]["sources"] or run.orderings) * run.provenance["traces"]["samples"]
    return bool(len(_frame(run)) == len(run.items) * each)


def _frame(run: Run) -> pd.DataFrame:
    """Texts of the run's own items."""
    frame = run.traces()
    return frame[frame["item_id"].isin([item.id for item in run.items])]


def _options(run: Run) -> dict[str, list[str]]:
    """Options by item id."""
    rubrics = {item.id: run.rubric_of(item) for item in run.items}
    return {name: [level.option for level in rubric.levels] for name, rubric in rubrics.items() if rubric is not None}


def _errors(run: Run) -> Json | None:
    try:
        errors = standard_errors(run)
    except (NotExact, NotObserved):
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
    """(I, S) whether a text states a score; None where the texts are not all there."""
    if not _whole(run):
        return None
    options, place = _options(run), {item.id: n for n, item in enumerate(run.items)}
    found: list[list[bool]] = [[] for _ in run.items]
    frame = _frame(run)
    for item, text in zip(frame["item_id"], frame["text"], strict=True):  # by source, then sample
        found[place[item]].append(picks.names(text, options[item]))
    made: BoolArray = np.array(found)
    return made


def _nulls(values: FloatArray) -> list[float] | None:
    """Plain floats; None where some text's score was not shown at every position, so that there is no distribution."""
    return None if np.isnan(values).any() else values.tolist()


def parsed(run: SampledRun) -> Json:
    """Share of texts from which no score could be parsed, by ordering too, and the items without any."""
    lost = np.isnan(run.picks)
    nothing = [item.id for item, none in zip(run.items, lost.all(axis=(1, 2)), strict=True) if none]
    return {
        "texts": int(lost.size),
        "failed": int(lost.sum()),
        "share": float(lost.mean()),
        "by_ordering": lost.mean(axis=(0, 2)).tolist(),
        "items_without": nothing,
    }
