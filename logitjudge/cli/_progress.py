"""How far a run is: a bar on a terminal, a line a minute where there is none. Everything goes to stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from logitjudge.cli import _console
from logitjudge.cli._console import plural
from logitjudge.progress import duration

if TYPE_CHECKING:
    from logitjudge.progress import Progress

EVERY = 60.0  # seconds between two lines


class Clock:
    """Speed of one run's own reading; what was there before does not count, and another run begins anew."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start: float | None = None
        self._before: Progress | None = None

    def begins(self, progress: Progress) -> bool:
        """Whether a run's reading begins with this report: the one before was the last of a run, or one that had read more."""
        before, self._before = self._before, progress
        if before is not None and before.items < before.items_total and before.read <= progress.read:
            return False
        self._start = self._clock()
        return True

    def seconds(self) -> float:
        """Since the reading began, by this clock."""
        return 0.0 if self._start is None else self._clock() - self._start

    def speed(self, progress: Progress) -> tuple[float, float, float | None]:
        """Items a second, prompts a second, and the seconds that are left (None while nobody knows)."""
        seconds = self.seconds()
        if not progress.read or seconds <= 0:
            return 0.0, 0.0, None
        items = progress.read / seconds
        each = progress.prompts_total / progress.items_total
        return items, items * each, (progress.items_total - progress.items) / items


def rates(speed: tuple[float, float, float | None]) -> str:
    """Speed and time left, in words."""
    items, prompts, left = speed
    return (
        f"{items:.3g} items/s, {prompts:.3g} prompts/s, {duration(left)} left" if left is not None else "no speed yet"
    )


class Lines:
    """A line at the start, one a minute, one at the end."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = Clock(clock)
        self._next = EVERY

    def __call__(self, progress: Progress) -> None:
        """Take a report."""
        if not progress.items_total:
            return self._say(progress.message)
        items, prompts = plural(progress.items_total, "item"), plural(progress.prompts_total, "prompt")
        begins = self._clock.begins(progress)
        seconds, speed = self._clock.seconds(), self._clock.speed(progress)
        if begins:
            self._next = EVERY
            self._say(f"reading {items}, {prompts}")
        if progress.items == progress.items_total:
            before = progress.items - progress.read
            there = f"; {plural(before, 'item')} had been read before" if before else ""
            self._say(f"read {plural(progress.read, 'item')} in {duration(seconds)}{there}")
        elif seconds >= self._next:
            self._next = seconds + EVERY
            self._say(f"{progress.items} of {items}, {progress.prompts} of {prompts}, {rates(speed)}")
        return None

    @staticmethod
    def _say(text: str) -> None:
        if text:
            _console.note(text)


class Bar:
    """A rich bar with items/s, prompts/s and the time left."""

    def __init__(self, bar: Any) -> None:
        self._bar = bar
        self._clock = Clock()
        self._task: Any = None

    def __call__(self, progress: Progress) -> None:
        """Take a report."""
        if not progress.items_total:
            if progress.message:
                self._bar.console.print(progress.message)
            return
        if self._clock.begins(progress):
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task("reading", total=progress.items_total, rates="")
        self._bar.update(self._task, completed=progress.items, rates=rates(self._clock.speed(progress)))


@contextmanager
def shown() -> Iterator[Callable[[Progress], None]]:
    """Give what `logitjudge.judge` takes as ``progress``."""
    if not sys.stderr.isatty():
        yield Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress as RichProgress, TextColumn

    console = Console(stderr=True, highlight=False, markup=False)
    columns = (BarColumn(bar_width=20), MofNCompleteColumn(), TextColumn("{task.fields[rates]}", markup=False))
    with RichProgress(*columns, console=console) as bar:
        yield Bar(bar)
