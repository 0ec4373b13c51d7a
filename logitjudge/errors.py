"""Errors for people: each message names the place, the bad value, and what to do about it."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable
from typing import Any


class InputError(ValueError):
    """The user's input is wrong (exit code 2). Subclasses say which part of it."""


class ItemError(InputError):
    """A row of items that cannot be used."""


class RubricError(InputError):
    """A rubric that breaks a rule, or that does not fit the run."""


class OrderingError(InputError):
    """An ordering that is not a permutation, or a design that does not exist."""


class TemplateError(InputError):
    """A prompt template that cannot be rendered."""


class OptionError(InputError):
    """Options that the tokenizer cannot tell apart."""


class ModelError(InputError):
    """A judge that cannot be opened, or whose readings cannot be trusted."""


class NotFinite(ModelError):  # noqa: N818
    """A reading that is no number: nothing is stored of it."""


class RunFolderError(InputError):
    """A run folder that cannot be written, or that belongs to another configuration."""


class Damaged(RunFolderError):  # noqa: N818
    """A file of a run folder that cannot be read; `reason` says why, without the advice."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class RunIncomplete(RunFolderError):  # noqa: N818  (the contract's name)
    """A run folder whose readings are not all there yet."""


class NotObserved(InputError):  # noqa: N818
    """A number was asked for that this run's orderings cannot give."""


class NoLogProbabilities(InputError):  # noqa: N818
    """Probabilities were asked for of a run that holds picks only."""


class AllRefused(InputError):  # noqa: N818
    """A finished run in which no item could be judged (exit code 3)."""


class NotExact(InputError):  # noqa: N818
    """A probability was asked for of which only an upper bound is known."""


def unknown(kind: str, value: str, known: Iterable[str]) -> str:
    """Message for a name that does not exist, with the nearest valid one and the list."""
    names = sorted(known)
    near = difflib.get_close_matches(value[:LONG], names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"unknown {kind} {shown(value, LONG)}.{hint} Known: {', '.join(names)}."


LONG = 200  # characters of a name in a message
_REPR = reprlib.Repr()
_REPR.maxlevel, _REPR.maxstring, _REPR.maxother = 6, LONG, LONG
_REPR.maxlist = _REPR.maxdict = _REPR.maxtuple = _REPR.maxset = _REPR.maxfrozenset = 20


def shown(value: Any, most: int = 60) -> str:
    """`value` for a message: its repr, cut to a readable length, however large it is."""
    try:
        text = _REPR.repr(value)
    except ValueError:  # an integer of thousands of digits
        text = f"<{type(value).__name__} of very many digits>"
    return text if len(text) <= most else text[: most - 3] + "..."
