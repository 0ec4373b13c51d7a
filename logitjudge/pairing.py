"""pairwise(): two responses an item, judged in both orders, into an ordinary run folder."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logitjudge.core import Item, ItemSet
from logitjudge.errors import InputError
from logitjudge.judging import run_study
from logitjudge.pairs import RESPONSES
from logitjudge.run import Run
from logitjudge.study import pairs_study

if TYPE_CHECKING:
    import pandas as pd

MODELS = ("model_1", "model_2")  # columns that say who wrote the responses
REFUSED = ("sampled",)  # verdict modes without probabilities


def pairwise(
    model: Any,
    data: str | Path | ItemSet | Sequence[Item] | pd.DataFrame,
    *,
    labels: str = "slot",
    ties: bool = False,
    criteria: str | None = None,
    template: str | Path | None = None,
    verdict: str = "direct",
    limit: int | None = None,
    seed: int = 0,
    **options: Any,
) -> Run:
    """Read which of two responses a judge prefers, for every pair in both orders.

    Parameters
    ----------
    model
        As in `judge`.
    data
        Pairs: ``id, instruction, response_1, response_2``, perhaps ``gold`` (1, 2 or tie), ``criteria``, ``reference``, ``cluster``,
        ``model_1``, ``model_2``; other columns are groups. Or a data set of pairs: ``llmbar:PATH``, ``evalbiasbench:PATH``.
    labels
        "slot": what stands first is A. "swap": the letters are swapped, too (2 x 2), which parts slot from letter.
    ties
        Whether the judge may answer TIE.
    template
        By default ``pairwise``, or with `ties` ``pairwise_ties``.
    criteria
        What makes a response better, for pairs without criteria of their own.
    **options
        As in `judge`: out, backend, dtype, device, max_new_tokens, unended ...

    Returns
    -------
    Run
        ``provenance["kind"]`` is "pairwise"; scores are the candidates 1 and 2, and 0 for the tie. ``logp`` (I, O, K).

    Raises
    ------
    InputError
        Whatever is wrong with the input, the judge or the folder; nothing was written then.
    """
    if verdict in REFUSED or options.get("trace", "per-ordering") != "per-ordering":
        raise InputError(
            "pairs are read with --verdict direct, feedback or think, and every order has its own text (no --trace shared)."
        )
    asked = pairs_study(
        data, labels=labels, ties=ties, criteria=criteria, template=template, verdict=verdict, limit=limit, seed=seed
    )
    if seen := [item.id for item in asked.itemset.items if named(item)]:
        warnings.warn(
            f"not blind: in {len(seen)} pairs (the first: {seen[0]!r}) a response names the model that wrote it or its rival. "
            "The judge may recognise it: take the names out, or read the results with care.",
            stacklevel=2,
        )
    return run_study(asked, model, data, limit=limit, seed=seed, **options)


def named(item: Item) -> list[str]:
    """Names of the pair's models that stand in one of its responses, as words."""
    names = [str(item.groups[column]) for column in MODELS if item.groups.get(column)]
    texts = " ".join(item.fields[name] for name in RESPONSES)
    return [name for name in names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", texts, re.IGNORECASE)]
