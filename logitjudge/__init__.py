"""Exact score x position probabilities of open-weight LLM judges, under every ordering of the rubric.

Names are imported when they are used: ``import logitjudge`` loads no torch, transformers, pandas or scipy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "Item": "core",
    "ItemSet": "core",
    "Level": "core",
    "Ordering": "core",
    "Readings": "core",
    "Rubric": "core",
    "AllRefused": "errors",
    "InputError": "errors",
    "NoLogProbabilities": "errors",
    "NotExact": "errors",
    "NotObserved": "errors",
    "RunIncomplete": "errors",
    "Run": "run",
    "SampledRun": "run",
    "agreement": "measures.agreement",
    "bias_card": "report.card",
    "bias_cost": "measures.costs",
    "cost_spread": "measures.costs",
    "dearest_ordering": "measures.costs",
    "debias": "debiasers",
    "judge": "judging",
    "load_run": "store",
    "pairwise": "pairing",
    "position_distribution": "measures.matrices",
    "rank_orderings": "measures.costs",
    "read": "judging",
    "reading": "report.reading",
    "run_probe": "probing",
    "score_position_matrix": "measures.matrices",
}

if TYPE_CHECKING:
    from logitjudge.core import (
        Item as Item,
        ItemSet as ItemSet,
        Level as Level,
        Ordering as Ordering,
        Readings as Readings,
        Rubric as Rubric,
    )
    from logitjudge.debiasers import debias as debias
    from logitjudge.errors import (
        AllRefused as AllRefused,
        InputError as InputError,
        NoLogProbabilities as NoLogProbabilities,
        NotExact as NotExact,
        NotObserved as NotObserved,
        RunIncomplete as RunIncomplete,
    )
    from logitjudge.judging import judge as judge, read as read
    from logitjudge.measures.agreement import agreement as agreement
    from logitjudge.measures.costs import (
        bias_cost as bias_cost,
        cost_spread as cost_spread,
        dearest_ordering as dearest_ordering,
        rank_orderings as rank_orderings,
    )
    from logitjudge.measures.matrices import (
        position_distribution as position_distribution,
        score_position_matrix as score_position_matrix,
    )
    from logitjudge.pairing import pairwise as pairwise
    from logitjudge.probing import run_probe as run_probe
    from logitjudge.report.card import bias_card as bias_card
    from logitjudge.report.reading import reading as reading
    from logitjudge.run import Run as Run, SampledRun as SampledRun
    from logitjudge.store import load_run as load_run

__all__ = sorted([*_HOMES, "__version__"])  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'logitjudge' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"logitjudge.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
