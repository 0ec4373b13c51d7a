"""How far a run is, and times as people say them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is: for a bar, or a line a minute. `message` is set when there is something to say.

    `read` counts the items that this call has read itself; the others were there.
    """

    items: int = 0
    items_total: int = 0
    prompts: int = 0
    prompts_total: int = 0
    message: str = ""
    read: int = 0


Report = Callable[[Progress], None]


def duration(seconds: float) -> str:
    """Write a time for people.

    Examples
    --------
    >>> [duration(x) for x in (4.2, 75, 7500, 200_000)]
    ['4.2 s', '1 min 15 s', '2 h 5 min', '2 d 7 h']
    """
    whole = round(seconds)
    if seconds < 10:
        return f"{seconds:.1f} s"
    for size, name, smaller, part in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {name} {whole % size // smaller} {part}"
    return f"{whole} s"
