"""SPEC of a planted judge: its parts, and their errors for people."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from logitjudge.errors import InputError, unknown

OF_PAIRS = ("slot", "letter", "length", "tie")
MOST = 1e6  # in absolute value: larger numbers overflow on the way to a probability


@dataclass(frozen=True, slots=True)
class Planted:
    """What is planted: the parts of a SPEC, each with its default. Logits are in nats.

    Parameters
    ----------
    position
        (K,) logits by position.
    label
        (K,) logits by option string, in score order.
    slot, letter, length, tie
        Of pairs only, in log-odds: for the response shown first over the other; for the letter A over B; for each unit of the
        natural logarithm of the ratio of lengths (characters), for the longer; of TIE over a response that is neither better nor worse.
    interaction
        ``(SEED, SD)``: ``default_rng(SEED).normal(0, SD, (K, K))``, indexed [score, position].
    quality_scale
        Factor of every item's quality.
    quality_sd
        Standard deviation of the quality of an item without ratings.
    item_position_sd
        Standard deviation of each item's own position preference.
    order_noise
        Standard deviation of noise by (item, ordering, score).
    first
        Probability, below 1, of taking whatever stands first.
    mass
        Probability, above 0, that falls on the options.
    seed
        Of everything random but `interaction`.
    """

    position: tuple[float, ...] = ()
    label: tuple[float, ...] = ()
    slot: float = 0.0
    letter: float = 0.0
    length: float = 0.0
    tie: float = 0.0
    interaction: tuple[int, float] = (0, 0.0)
    quality_scale: float = 1.0
    quality_sd: float = 1.0
    item_position_sd: float = 0.0
    order_noise: float = 0.0
    first: float = 0.0
    mass: float = 1.0
    seed: int = 0

    @classmethod
    def parse(cls, spec: str) -> Planted:
        """Read ``part=value;part=value``. Raises `InputError` with the part, the value and the known parts.

        Examples
        --------
        >>> Planted.parse("position=0.5,0,0;mass=0.6").position
        (0.5, 0.0, 0.0)
        """
        found: dict[str, Any] = {}
        for part in filter(None, (text.strip() for text in spec.split(";"))):
            name, _, value = (text.strip() for text in part.partition("="))
            if name not in _PARSERS:
                raise InputError(unknown("part of a planted judge", name, _PARSERS))
            if name in found:
                raise InputError(f"planted judge: {name!r} is given twice. Give each part once.")
            try:
                found[name] = _PARSERS[name](value)
            except ValueError as error:
                raise InputError(f"planted judge: {name}={value!r} is not {_FORMS[name]}. {_known()}") from error
        return cls(**found)

    def check(self, levels: int, pairs: bool = False) -> None:
        """Raise `InputError` where a part has not one number for each of K levels, or is for pairs and this is none."""
        if given := [name for name in OF_PAIRS if getattr(self, name) and not pairs]:
            raise InputError(
                f"planted judge: {given[0]!r} is for pairs ('logitjudge pairwise'), not for rubrics or --points. {_known()}"
            )
        for name in ("position", "label"):
            values = getattr(self, name)
            if values and len(values) != levels:
                text = ",".join(f"{value:g}" for value in values)
                raise InputError(
                    f"planted judge: {name}={text!r} has {len(values)} number(s), but the rubric has {levels} levels. "
                    f"Give {levels} numbers. {_known()}"
                )


def _finite(text: str) -> float:
    value = float(text)
    if not abs(value) <= MOST:  # NaN too
        raise ValueError(text)
    return value


def _within(low: float, high: float, *, closed: str) -> Callable[[str], float]:
    """Parser of a number between two limits, of which those named in `closed` ("low high") are allowed."""

    def parse(text: str) -> float:
        value = _finite(text)
        if (
            not low <= value <= high
            or (value == low and "low" not in closed)
            or (value == high and "high" not in closed)
        ):
            raise ValueError(text)
        return value

    return parse


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(text)
    return int(text)


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(_finite(value) for value in text.split(","))


def _seed_and_sd(text: str) -> tuple[int, float]:
    seed, _, sd = text.partition(":")
    return _whole(seed.strip()), _deviation(sd)


_deviation = _within(0, math.inf, closed="low")
_PARSERS: dict[str, Callable[[str], Any]] = {
    "position": _numbers,
    "label": _numbers,
    "slot": _finite,
    "letter": _finite,
    "length": _finite,
    "tie": _finite,
    "interaction": _seed_and_sd,
    "quality_scale": _finite,
    "quality_sd": _deviation,
    "item_position_sd": _deviation,
    "order_noise": _deviation,
    "first": _within(0, 1, closed="low"),
    "mass": _within(0, 1, closed="high"),
    "seed": _whole,
}
_SD = "a standard deviation: a number of at least 0"
_FORMS = {
    "position": "a list of numbers, one a position, such as 0.8,0,0,0,0.3",
    "label": "a list of numbers, one a score, such as 0,0,0,0,0.5",
    "slot": "a number",
    "letter": "a number",
    "length": "a number",
    "tie": "a number",
    "interaction": "SEED:SD, a whole number and a number of at least 0, such as 3:0.5",
    "quality_scale": "a number",
    "quality_sd": _SD,
    "item_position_sd": _SD,
    "order_noise": _SD,
    "first": "a probability of at least 0 and below 1",
    "mass": "a probability above 0 and at most 1",
    "seed": "a whole number of at least 0",
}


def _known() -> str:
    return f"Known parts: {', '.join(sorted(part.name for part in fields(Planted)))}."
