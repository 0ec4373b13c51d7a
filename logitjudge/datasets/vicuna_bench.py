"""Vicuna Bench in the form of Prometheus: four systems' answers to 80 prompts, a rubric each, scores by GPT-4."""

from __future__ import annotations

from pathlib import Path

from logitjudge.core import ItemSet
from logitjudge.datasets import _prometheus


def load(path: Path, *, systems: str = "", categories: str = "") -> ItemSet:
    """Read the original file of Prometheus; its scores are three samples of GPT-4, not ratings by people.

    Parameters
    ----------
    path
        The JSON list with ``gpt4_score``, or the older JSONL without scores.
    systems, categories
        Keep only these, separated by commas; all by default.

    Raises
    ------
    ItemError
        A row that is not of this form.
    InputError
        A system or category that the file does not have.
    """
    return _prometheus.load(path, "vicuna_bench", systems=systems, categories=categories)
