"""Further parts of what a run says, by name: each a function of the run that gives JSON values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from logitjudge.errors import InputError, unknown
from logitjudge.report import agreement, uncertainty, where
from logitjudge.run import Run

Json = dict[str, Any]
SECTIONS: dict[str, Callable[[Run], Json]] = {
    "uncertainty": uncertainty.section,
    "where": where.section,
    "people": agreement.section,  # `agreement` is the name of the core's own rows
}


def sections(run: Run, names: Sequence[str] = tuple(SECTIONS)) -> dict[str, Json]:
    """Some sections of a run, by name.

    Raises
    ------
    InputError
        There is no such section.
    """
    for name in names:
        if name not in SECTIONS:
            raise InputError(unknown("section", name, SECTIONS))
    return {name: SECTIONS[name](run) for name in names}
