"""Who reads a run's batches: this process, or several processes of this machine, each with GPUs of its own.

A worker opens the judge and answers each call of a `logitjudge.reader.Reader`'s method with a future. A worker that dies is
opened anew, and its call is given to the next that is free. Nothing but what a call returned is ever stored, and that once.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Protocol

from logitjudge import models
from logitjudge.backends import OutOfMemory
from logitjudge.errors import (
    InputError,
    ItemError,
    ModelError,
    NotFinite,
    OptionError,
    OrderingError,
    RubricError,
    RunFolderError,
    TemplateError,
)
from logitjudge.reader import Reader, Task

MOST_DEATHS = 3  # of one call, or of one worker's opening
Head = Mapping[str, Any] | None
Call = tuple[Any, ...]  # name of a reader's method, and its arguments


class Died(Exception):  # noqa: N818
    """The process or the node of a worker is gone."""


@dataclass(frozen=True, slots=True)
class Job:
    """Calls one after another: each that `steps` yields is answered with its result, or with what it raised."""

    name: str
    steps: Generator[Call, Any, Any]


class Worker(Protocol):
    """Something that holds a `Reader`. A future of one that died raises `Died`."""

    name: str

    def open(self, task: Task, head: Head) -> Future[dict[str, Any]]:
        """Open the judge, anew if need be; gives its provenance."""

    def call(self, method: str, *args: Any) -> Future[Any]:
        """Call a method of the reader."""

    def close(self) -> None:
        """Let go of it, whatever it does."""


class Here:
    """The process that writes the run folder."""

    name = "this process"

    def open(self, task: Task, head: Head) -> Future[dict[str, Any]]:
        """Open the judge."""
        return _done(self._open, task, head)

    def _open(self, task: Task, head: Head) -> dict[str, Any]:
        self.reader = Reader(task, head)
        return self.reader.provenance()

    def call(self, method: str, *args: Any) -> Future[Any]:
        """Call a method of the reader, at once."""
        return _done(getattr(self.reader, method), *args)

    def close(self) -> None:
        """Nothing is left running."""


def _done(function: Callable[..., Any], *args: Any) -> Future[Any]:
    future: Future[Any] = Future()
    try:
        future.set_result(function(*args))
    except Exception as error:
        future.set_exception(error)
    return future


class Process:
    """Another process of this machine, with environment variables of its own."""

    def __init__(self, name: str, environment: Mapping[str, str]) -> None:
        self.name = name
        self._environment = dict(environment)
        self._pool: ProcessPoolExecutor | None = None

    def open(self, task: Task, head: Head) -> Future[dict[str, Any]]:
        """Open the judge in the process, which is started where there is none."""
        if self._pool is None:
            start = multiprocessing.get_context("spawn")  # a forked process cannot use CUDA
            self._pool = ProcessPoolExecutor(1, start, initializer=_begin, initargs=(self._environment,))
        return self._submit(_open, task, head)

    def call(self, method: str, *args: Any) -> Future[Any]:
        """Call a method of the reader."""
        return self._submit(_call, method, *args)

    def _submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        assert self._pool is not None
        try:
            return translated(self._pool.submit(_telling, function, *args), BrokenExecutor, _own)
        except BrokenExecutor as error:
            future: Future[Any] = Future()
            future.set_exception(Died(str(error)))
            return future

    def close(self) -> None:
        """End the process at once, also in the middle of a call."""
        if self._pool is not None:
            for process in list((self._pool._processes or {}).values()):  # kill_workers() of Python 3.14
                process.kill()
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


def translated(
    future: Future[Any],
    died: type[BaseException] | tuple[type[BaseException], ...],
    own: Callable[[BaseException], BaseException] = lambda error: error,
) -> Future[Any]:
    """The same future, whose errors of a kind are `Died`; `own` gives the error that another one stands for."""
    made: Future[Any] = Future()

    def copy(done: Future[Any]) -> None:
        error = None if done.cancelled() else done.exception()
        if done.cancelled() or isinstance(error, died):
            made.set_exception(Died(str(error)))
        elif error is not None:
            made.set_exception(own(error))
        else:
            made.set_result(done.result())

    future.add_done_callback(copy)
    return made


class Told(Exception):  # noqa: N818
    """What a worker's process raised: the names of its kinds, its own first, and its words; not every error can be sent."""


_FOR_PEOPLE = (
    ItemError,
    RubricError,
    OrderingError,
    TemplateError,
    OptionError,
    ModelError,
    NotFinite,
    RunFolderError,
    InputError,
)
_KINDS: dict[str, type[Exception]] = {
    kind.__name__: kind for kind in (*_FOR_PEOPLE, OutOfMemory, ValueError, OSError, MemoryError)
}


def _telling(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function in a worker's process; what it raises is `Told`."""
    try:
        return function(*args)
    except Exception as error:
        raise Told([kind.__name__ for kind in type(error).__mro__], str(error)) from error


def _own(error: BaseException) -> BaseException:
    """The error that was told, as the nearest of its kinds that is made of words alone; a kind that is not for people is named."""
    if not isinstance(error, Told):
        return error
    names, words = error.args
    kind = next((_KINDS[name] for name in names if name in _KINDS), RuntimeError)
    made = kind(words if kind in _FOR_PEOPLE or kind.__name__ == names[0] else f"{names[0]}: {words}")
    made.__cause__ = error.__cause__
    return made


_reader: Reader | None = None


def _begin(environment: Mapping[str, str]) -> None:
    """What a worker's process does first: Ctrl-C and the end of the parent are not its own to handle."""
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(multiprocessing.parent_process(),), daemon=True).start()
    contextlib.ExitStack().enter_context(models.kept())


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)


def _open(task: Task, head: Head) -> dict[str, Any]:
    global _reader
    _reader = Reader(task, head)
    return _reader.provenance()


def _call(method: str, *args: Any) -> Any:
    return getattr(_reader, method)(*args)


# --- how many ------------------------------------------------------------------------------------------------------


def local(spec: models.ModelSpec, wanted: str) -> list[Worker]:
    """Workers of this machine: ``"auto"`` or a number.

    ``auto`` is one for each GPU, or for as many GPUs as hold the weights; without a GPU one, which uses all cores.

    Raises
    ------
    InputError
        That is no number, or there are fewer GPUs, or nobody knows how large the weights are.
    """
    if wanted == "1":
        return [Here()]
    check_workers(spec, wanted)
    from logitjudge.backends import devices

    memory = [] if spec.device == "cpu" or spec.kind == "planted" else devices.gpus()
    if wanted == "auto" and not memory:
        return [Here()]
    count = len(memory) // models.gpus_each(spec, memory) if wanted == "auto" else int(wanted)
    if memory and count > len(memory):
        raise InputError(
            f"--workers {count}: this machine has {len(memory)} GPUs. Give at most as many, or --device cpu."
        )
    if count == 1:
        return [Here()]
    shares = list(_shares(memory, count))
    key = ("local", *(tuple(share.items()) for share in shares))
    return same(key, lambda: [Process(f"worker {n + 1} of {count}", one) for n, one in enumerate(shares)])


_kept: dict[tuple[Any, ...], list[Worker]] | None = None


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Within it the workers of the last run, and in each the judge that it opened last, stay for the next run."""
    global _kept
    if _kept is not None:
        yield
        return
    _kept = {}
    try:
        with models.kept():
            yield
    finally:
        _let_go(_kept)
        _kept = None


def same(key: tuple[Any, ...], make: Callable[[], list[Worker]]) -> list[Worker]:
    """Workers that are kept, else new ones, for which others make room."""
    if _kept is None:
        return make()
    if key not in _kept:
        _let_go(_kept)
        _kept[key] = make()
    return _kept[key]


def _let_go(crews: dict[tuple[Any, ...], list[Worker]]) -> None:
    for worker in [one for crew in crews.values() for one in crew]:
        worker.close()
    crews.clear()


def check_workers(spec: models.ModelSpec, wanted: str) -> None:
    """Raise `InputError` where a judge cannot be read by so many workers (``"auto"`` or a number)."""
    if wanted != "auto" and not (wanted.isdecimal() and int(wanted) > 0):
        raise InputError(f"--workers {wanted!r} is neither 'auto' nor a number of at least 1.")
    if spec.kind == "loaded":
        raise InputError("a loaded model is in this process only: give its name or folder, or leave --workers out.")
    if spec.backend == "openai":
        raise InputError("a server is asked from this process: use --concurrency, and leave --workers out.")
    if spec.device not in ("auto", "cpu"):
        raise InputError(
            f"--workers shares out all GPUs: leave --device {spec.device} out, or set CUDA_VISIBLE_DEVICES."
        )


def _shares(memory: Sequence[int], count: int) -> Iterator[dict[str, str]]:
    """Environment of each worker: its GPUs, or its part of the cores."""
    seen = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    names = seen or [str(n) for n in range(len(memory))]
    each = len(memory) // count
    for n in range(count):
        if memory:
            yield {"CUDA_VISIBLE_DEVICES": ",".join(names[n * each : (n + 1) * each])}
        else:
            yield {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS") or str(max(1, (os.cpu_count() or 1) // count))}


# --- a crew at work ------------------------------------------------------------------------------------------------


class Crew:
    """Workers on one task.

    Parameters
    ----------
    opened
        Called with a worker's name and its provenance whenever one has opened the judge.
    """

    def __init__(self, task: Task, workers: Sequence[Worker], opened: Callable[[str, dict[str, Any]], None]) -> None:
        self._task = task
        self._workers = list(workers)
        self._opened = opened
        self._ready: list[Worker] = []
        self.head: Head = None

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None and _kept is not None and self._workers in _kept.values():
            return
        for worker in self._workers:
            worker.close()

    @property
    def first(self) -> str:
        """Name of the first worker that is open."""
        return self._ready[0].name

    def do(self, method: str, *args: Any) -> Any:
        """What one worker's reader answers."""

        def steps() -> Generator[Call, Any, Any]:
            return (yield (method, *args))

        (answer,) = self._work([Job(method, steps())], self._ready[:1] or self._workers[:1])
        return answer

    def each(self, method: str) -> dict[str, Any]:
        """Name of each worker that is open -> what its reader answers; those that died meanwhile are left out."""
        made = {}
        for worker in self._ready:
            with contextlib.suppress(Died):
                made[worker.name] = worker.call(method).result()
        return made

    def work(self, jobs: Iterable[Job]) -> Iterator[Any]:
        """Do jobs on all workers; yields what each returns, as they end."""
        return self._work(jobs, self._workers)

    def _work(self, jobs: Iterable[Job], workers: Sequence[Worker]) -> Iterator[Any]:
        table = _Table(jobs)
        if (first := table.next()) is None:
            return
        table.give_back(first)
        free = deque(worker for worker in workers if worker in self._ready)
        busy: dict[Future[Any], tuple[Worker, _Asked | None]] = {}
        opening = {worker.name: 0 for worker in workers}
        for worker in workers:
            if worker not in self._ready:
                busy[worker.open(self._task, self.head)] = (worker, None)
        while True:
            while free and (asked := table.next()) is not None:
                worker = free.popleft()
                busy[worker.call(*asked.call)] = (worker, asked)
            if table.empty and not any(asked for _, asked in busy.values()):
                break
            done = wait(busy, return_when=FIRST_COMPLETED).done
            for future in [one for one in busy if one in done]:
                worker, asked = busy.pop(future)
                if isinstance(error := future.exception(), Died):
                    self._bury(worker, asked, opening, table)
                    busy[worker.open(self._task, self.head)] = (worker, None)
                    continue
                if asked is None:
                    self._welcome(worker, future.result())
                    opening[worker.name] = 0
                else:
                    yield from table.answer(asked, future.result() if error is None else None, error)
                free.append(worker)

    def _welcome(self, worker: Worker, provenance: dict[str, Any]) -> None:
        self._ready.append(worker)
        self._opened(worker.name, provenance)

    def _bury(self, worker: Worker, asked: _Asked | None, opening: dict[str, int], table: _Table) -> None:
        """Close a worker that died, and give its call to another; one that dies of every call, or at every opening, ends the run."""
        worker.close()
        if worker in self._ready:
            self._ready.remove(worker)
        if asked is not None:
            table.give_back(asked)
            asked.deaths += 1
        else:
            opening[worker.name] += 1
        what = f"while it worked on {asked.job.name}" if asked else "as it opened the judge"
        if (asked.deaths if asked else opening[worker.name]) >= MOST_DEATHS:
            raise ModelError(
                f"{worker.name} died {what}, {MOST_DEATHS} times: most often the machine is out of memory (see its log). What was read is "
                "kept. Use fewer --workers, a smaller --dtype or a smaller --max-batch-tokens."
            )


@dataclass(slots=True, eq=False)
class _Asked:
    """A call of a job that waits for its answer."""

    job: Job
    call: Call
    deaths: int = 0


class _Table:
    """Jobs that are not done: calls that came back from a worker that died come first, then calls of begun jobs, then new ones."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._new = iter(jobs)
        self._calls: deque[_Asked] = deque()
        self.empty = False

    def next(self) -> _Asked | None:
        """The next call, or None where there is none to be made now."""
        if self._calls:
            return self._calls.popleft()
        for job in self._new:
            return _Asked(job, next(job.steps))
        self.empty = True
        return None

    def give_back(self, asked: _Asked) -> None:
        """Ask the same again."""
        self._calls.appendleft(asked)
        self.empty = False

    def answer(self, asked: _Asked, result: Any, error: BaseException | None) -> Iterator[Any]:
        """Give a job what its call returned or raised; yields what the job returns, if that ends it."""
        steps = asked.job.steps
        try:
            call = steps.send(result) if error is None else steps.throw(error)
        except StopIteration as end:
            yield end.value
        else:
            self._calls.appendleft(_Asked(asked.job, call))
            self.empty = False
