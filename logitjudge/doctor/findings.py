"""What `doctor` found: checks, each with a status, a sentence and the numbers behind it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from logitjudge.tokens import event

SCHEMA_VERSION = 1
Status = Literal["ok", "info", "warn", "fail"]
WORST: tuple[Status, ...] = ("fail", "warn", "info", "ok")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Parameters
    ----------
    name
        A word for it.
    status
        ``ok``, ``info`` (nothing to judge), ``warn`` (readings are to be taken with care), or ``fail``.
    text
        What was found and, where it is not well, what to do.
    values
        The numbers, as JSON values; a number that does not exist is None.
    """

    name: str
    status: Status
    text: str
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything that was found about one judge.

    Parameters
    ----------
    model
        The judge's name.
    checks
        In the order in which they are read best.
    options
        One mapping an option, in score order: score, text, token_ids, tokens, prob, alias_mass, follows. Empty for a
        judge without a tokenizer.
    context
        The end of the text behind which options are read.
    """

    model: str
    checks: tuple[Check, ...]
    options: tuple[Mapping[str, Any], ...] = ()
    context: str | None = None

    @property
    def status(self) -> Status:
        """The worst of all checks; ``info`` counts as ``ok``."""
        worst: Status = min((check.status for check in self.checks), key=WORST.index, default="ok")
        return "ok" if worst == "info" else worst

    def __getitem__(self, name: str) -> Check:
        """Return the check of a name. Raises KeyError where it was not made."""
        for check in self.checks:
            if check.name == name:
                return check
        raise KeyError(name)

    def to_dict(self) -> dict[str, Any]:
        """JSON values; null, never NaN."""
        found = {
            "schema_version": SCHEMA_VERSION,
            "model": self.model,
            "status": self.status,
            "event": event() if self.options else None,
            "context": self.context,
            "options": self.options,
            "checks": [{"name": c.name, "status": c.status, "text": c.text, "values": c.values} for c in self.checks],
        }
        return {name: plain(value) for name, value in found.items()}


def plain(value: Any) -> Any:
    """JSON value with lists for tuples and None for numbers that are not finite.

    Examples
    --------
    >>> plain({"a": (1.0, float("nan"))})
    {'a': [1.0, None]}
    """
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def share(value: float) -> str:
    """Write a probability for people.

    Examples
    --------
    >>> [share(x) for x in (1.0, 0.9981, 0.8412, 0.0312, 0.0002, 0.0)]
    ['100 %', '99.8 %', '84 %', '3.1 %', '< 0.1 %', '0 %']
    """
    if value == 0:
        return "0 %"
    if value < 0.001:
        return "< 0.1 %"
    if 0.995 <= value < 0.9995:
        return f"{100 * value:.1f} %"
    return f"{100 * value:.0f} %" if value >= 0.1 else f"{100 * value:.1f} %"


def size(count: float) -> str:
    """Write bytes for people.

    Examples
    --------
    >>> [size(x) for x in (3_000_000, 3 * 2**30)]
    ['3 MiB', '3.0 GiB']
    """
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"
