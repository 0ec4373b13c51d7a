"""A run from its first batch to its last: plan or resume, read, store, close.

One process writes the run folder; what needs the judge is asked of workers (`logitjudge.workers`), of which that process may
be one. A batch is stored when it is read, whole; what a halved budget changes is stored before it is used.
"""

from __future__ import annotations

import datetime as dt
import platform
import warnings
from collections.abc import Generator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from logitjudge import batches, mending, noise, parts, shards, store, texts
from logitjudge.backends import OutOfMemory
from logitjudge.core import Item, Readings
from logitjudge.errors import ModelError
from logitjudge.progress import Progress, Report, duration
from logitjudge.reader import Read, Task
from logitjudge.texts import Cell
from logitjudge.verdicts import Writing
from logitjudge.workers import Call, Crew, Job, Worker

SMALLEST_BUDGET = 32
SAME = ("logitjudge", "versions", "path", "threads", "device")  # of all who read a run, else it is said
Json = dict[str, Any]


def go_on(
    folder: Path,
    task: Task,
    head: Json | None,
    header: Mapping[str, Any],
    workers: Sequence[Worker],
    report: Report,
    part: shards.Part | None = None,
) -> None:
    """Begin a run, or resume the one of which `head` is the run.json, and finish it; of a shard, read its batches.

    Parameters
    ----------
    header
        What run.json says of a new run that the judge need not be asked for.
    """
    course = _Course(folder, task, head, report)
    with Crew(task, workers, course.opened) as crew:
        course.begin(crew, header, part)
        course.read(crew, part)
        if part is None:
            course.close(crew)
        else:
            report(
                Progress(message=f"shard {part}: its batches are read. Put all shards together with: logitjudge merge")
            )


def now() -> str:
    """The time, as run.json writes it."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


class _Course:
    """The state of a run that goes on."""

    def __init__(self, folder: Path, task: Task, head: Json | None, report: Report) -> None:
        self._folder, self._asked, self._report = folder, task.asked, report
        self._name = task.spec.shown_name
        self._head = head
        self._stored = head is not None
        self._sessions: dict[str, Json] = {}  # of each worker, its last

    @property
    def head(self) -> Json:
        """Contents of run.json."""
        assert self._head is not None
        return self._head

    def _say(self, message: str) -> None:
        self._report(Progress(message=message))

    def _save(self) -> None:
        store.write_json(self._folder / "run.json", self.head)

    def opened(self, name: str, provenance: Json) -> None:
        """Note who reads from here on; what differs from who read before is a warning."""
        if self._head is None:  # the run is only being planned
            return
        about = {"logitjudge": version("logitjudge"), "python": platform.python_version()}
        session = {"started": now(), **about, **provenance}
        if self.head["sessions"]:
            before = self.head["sessions"][-1]
            for key in SAME:
                if before.get(key) != session.get(key):
                    warnings.warn(
                        f"this run began with {key} {before.get(key)} and goes on with {session.get(key)}.",
                        stacklevel=2,
                    )
        self.head["sessions"].append(session)
        self._sessions[name] = session
        if self._stored:
            self._save()

    def begin(self, crew: Crew, header: Mapping[str, Any], part: shards.Part | None) -> None:
        """Plan the run, or prove the path of one that was begun; nothing is written before all is found to be right."""
        self._say(f"opening {self._name}")
        resumed = self._head is not None
        if not resumed:
            count = len(self._asked.itemset.items) * len(self._asked.orderings)
            self._say(f"checking {count} prompts and the judge")
            head, refused = crew.do("begin", header)
            _check(part, head)
            self._head = crew.head = head
            self.opened(crew.first, crew.do("provenance"))
            store.start(self._folder, head, self._asked.itemset.items, refused)
            self._stored = True
        else:
            self._say("checking the judge, and proving the fast path")
            _check(part, self.head)
            crew.head = self.head
        self._how: Writing | None = crew.do("writing")
        if resumed:
            self._mend(crew)
        self._say(_size_line(self.head))
        self._say(_path_line(self.head["sessions"][-1]))

    def _mend(self, crew: Crew) -> None:
        """Name what is damaged of a run that goes on, in run.json too, and set it aside: it is made again."""
        found = mending.look(self._folder, self._asked, self.head, self._how, lambda: crew.do("refusals"))
        for damage in found.files:
            self._say(str(damage))
        if found.files:
            self.head["sessions"][-1]["set_aside"] = [damage.row(self._folder) for damage in found.files]
            self._save()
        found.mend()

    def read(self, crew: Crew, part: shards.Part | None) -> None:
        """Read the batches that are not stored."""
        done = parts.done(self._folder, written=self._how is not None)
        planned = batches.planned(self._asked, self.head, store.refusals(self._folder))
        mine = [(n, items) for n, items in enumerate(planned) if part is None or part.has(n)]
        orders = len(self._asked.orderings) * (self._how.texts if self._how else 1)
        total = sum(self.head["batches"])
        ready, read = sum(len(items) for n, items in mine if n in done), 0
        self._report(Progress(ready, total, ready * orders, total * orders))
        for items in crew.work(self._job(n, items) for n, items in mine if n not in done):
            read += items
            now_ready = ready + read
            self._report(Progress(now_ready, total, now_ready * orders, total * orders, read=read))
        for name, provenance in crew.each("provenance").items():  # some engines count what they did
            self._sessions[name].update(provenance)
        self._save()

    def _job(self, number: int, items: Sequence[Item]) -> Job:
        name = f"batch {number} (items {items[0].id!r} to {items[-1].id!r})"
        return Job(name, self._steps(number, name, [item.id for item in items]))

    def _steps(self, number: int, name: str, ids: list[str]) -> Generator[Call, Any, int]:
        """Let a batch be written and read, and store both; gives how many items it has."""
        rows: texts.Rows = []
        if self._how is not None and not (rows := list(parts.traces(self._folder, number))):
            rows = yield ("write", ids)
            parts.write_traces(self._folder, number, rows)
        made: Read = yield from self._read(number, name, ids, rows)
        if made.longest > (self.head.get("option_tokens") or 0):
            # behind an option of one token alone, `logp` is that of the next token
            self.head["option_tokens"] = made.longest
            self._save()
        batches.refuse(self._folder, number, made.refused)
        parts.write_part(self._folder, number, made.keys, made.readings, made.names)
        return len(ids)

    def _read(self, number: int, name: str, ids: list[str], rows: texts.Rows) -> Generator[Call, Any, Read]:
        """Read one batch; out of memory halves the budget from this batch on, which is recorded before it is used."""
        while True:
            budget = self.head["budget"] >> sum(1 for first in self.head["halvings"] if first <= number)
            try:
                made: Read = yield ("read", ids, rows, budget)
                return made
            except OutOfMemory as error:
                if budget // 2 < SMALLEST_BUDGET:
                    raise ModelError(
                        f"the device is out of memory even with one prompt at a time: {error}. Use another --device or a smaller --dtype."
                    ) from error
            except ValueError as error:
                raise ModelError(f"{name}: {str(error).rstrip('.')}.") from error
            self.head["halvings"].append(number)
            self._save()
            warnings.warn(f"out of memory: the token budget is halved to {budget // 2}.", stacklevel=2)

    def close(self, crew: Crew) -> None:
        """Refuse items whose texts did not end, measure the noise floor, and put the parts together."""
        if served := _served_line(self.head["sessions"][-1]):
            self._say(served)
        self.head.update(texts.ended(self._folder, self._asked, self.head, self._how))
        refused = len(store.refusals(self._folder))
        texts_each = self._how.texts if self._how else 1
        left = self.head["items"] - refused
        self.head.update(refused=refused, readings=left * len(self._asked.orderings) * texts_each)
        floor = None
        if left and not (self._how and self._how.parsed):
            self._say("measuring the noise floor")
            floor = self._floor(crew)
        store.finish(self._folder, {**self.head, "finished": now(), "noise_floor": floor})

    def _floor(self, crew: Crew) -> Json | None:
        """The noise floor; None, with a warning, where the memory is not enough for it."""

        def again(cells: Sequence[Cell]) -> Readings | None:
            made: Readings | None = crew.do("again", cells, texts.of(self._folder, self._asked, self._how, cells))
            return made

        try:
            return noise.floor(store.load_run(self._folder, partial=True), again)
        except OutOfMemory as error:
            warnings.warn(f"the noise floor is not known: out of memory ({error}).", stacklevel=2)
            return None


def _check(part: shards.Part | None, head: Mapping[str, Any]) -> None:
    if part is not None:
        part.check(head["batches"])


def _size_line(head: Mapping[str, Any]) -> str:
    """What the run costs: planted judges and runs of an earlier version do not know."""
    if not head.get("unique_tokens"):
        return ""
    line = f"{head['readings']:,} prompts: {head['tokens']:,} tokens as written, {head['unique_tokens']:,} unique"
    session = head["sessions"][-1]
    fed = {"packed": head["unique_tokens"], "plain": head["tokens"]}.get(session.get("path"))
    return f"{line}, about {duration(fed / session['tokens_per_second'])}" if fed else line


def _path_line(session: Mapping[str, Any]) -> str:
    if "path" not in session:
        return ""
    refused = "".join(f"; not {no['path']}: {no['reason']}" for no in session.get("refused_paths", []))
    return f"path: {session['path']} ({session['proof']['reason']}), {session['dtype']} on {session['device']}{refused}"


def _served_line(session: Mapping[str, Any]) -> str:
    """What an engine with a cache of its own did, where it read anything."""
    if session.get("prompts_per_second") is None:
        return ""
    hits = session.get("hit_rate")
    cached = "" if hits is None else f"; {hits:.1%} of their tokens were found in the cache"
    return f"{session['prompts_per_second']:.3g} prompts a second{cached}"
