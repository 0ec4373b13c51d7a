"""A run's batches on a Ray cluster: actors that hold the judge, placed by Ray, wherever it has the GPUs. The only home of ray.

The driver hands out batches and alone writes the run folder, so nodes share no disk. A node that is lost takes nothing with it
but the batches in flight: their calls are made again, and Ray places another actor when it has room. Every node needs
logitjudge, and the judge under the same name: a hub id, or a path that exists there.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import socket
from concurrent.futures import Future
from typing import Any

from logitjudge import models
from logitjudge.errors import InputError
from logitjudge.reader import Reader, Task
from logitjudge.workers import Head, Worker, check_workers, same, translated

SECONDS = 10  # to answer at all


def workers(spec: models.ModelSpec, wanted: str, address: str | None) -> list[Worker]:
    """Actors of a Ray cluster, not yet placed.

    Parameters
    ----------
    wanted
        How many: a number, or ``"auto"``: as many as the cluster's GPUs can hold; one a node where it has none.
    address
        As of ``ray.init``: ``auto``, ``HOST:PORT``, ``ray://HOST:PORT``. None: the environment's RAY_ADDRESS, else a cluster of this
        machine alone, which ends with the process.

    Raises
    ------
    InputError
        Ray is not installed, there is no cluster at `address`, or it has no room for such workers.
    """
    check_workers(spec, wanted)
    ray = _connected(address)
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    gpus = 0 if spec.device == "cpu" or spec.kind == "planted" else int(max(n.get("GPU", 0) for n in nodes))
    each = models.gpus_each(spec, _memory(ray, gpus)) if gpus else 0
    room = sum(int(n.get("GPU", 0)) // each for n in nodes) if each else sum(n.get("CPU", 0) >= 1 for n in nodes)
    count = room if wanted == "auto" else int(wanted)
    most = room if each else sum(int(n.get("CPU", 0)) for n in nodes)
    if not 1 <= count <= most:
        raise InputError(f"--workers {wanted}: the Ray cluster has room for {most}. Give at most as many.")
    return same(("ray", each, count), lambda: [Actor(f"Ray worker {n + 1} of {count}", each) for n in range(count)])


def _connected(address: str | None) -> Any:
    """Ray, connected to its cluster."""
    try:
        import ray
    except ImportError as error:
        raise InputError('--engine ray needs Ray: pip install "logitjudge[ray]".') from error
    if ray.is_initialized():
        return ray
    given: dict[str, Any] = {"address": address} if address else {"include_dashboard": False}
    try:
        _answers(address or os.environ.get("RAY_ADDRESS", ""))
        ray.init(logging_level=logging.ERROR, log_to_driver=False, **given)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        where = address or os.environ.get("RAY_ADDRESS") or "this machine"
        raise InputError(
            f"there is no Ray cluster at {where}: {(str(error).splitlines() or [type(error).__name__])[0]}. Start one with "
            "'ray start --head', or leave --ray-address out."
        ) from error
    return ray


def _answers(address: str) -> None:
    """Raise `OSError` where nothing listens at ``HOST:PORT``: Ray itself waits for minutes."""
    if found := re.fullmatch(r"(?:ray://)?([^:/]+):(\d+)", address):
        socket.create_connection((found[1], int(found[2])), SECONDS).close()


def _memory(ray: Any, gpus: int) -> list[int]:
    """Bytes of each GPU of a node, asked on one that has some."""

    def ask() -> list[int]:
        from logitjudge.backends import devices

        return devices.gpus()

    made: list[int] = ray.get(ray.remote(num_gpus=gpus)(ask).remote())
    return made


class There(Reader):
    """A reader on a node of the cluster."""

    def provenance(self) -> dict[str, Any]:
        """Who reads, and on which node."""
        import ray

        node = f"{ray.util.get_node_ip_address()} {ray.get_runtime_context().get_node_id()[:12]}"
        return {**super().provenance(), "node": node}


class Remote:
    """What an actor holds: the reader of the task that it was opened for."""

    def __init__(self) -> None:
        contextlib.ExitStack().enter_context(models.kept())

    def open(self, task: Task, head: Head) -> dict[str, Any]:
        """Open the judge; gives its provenance."""
        self._reader = There(task, head)
        return self._reader.provenance()

    def call(self, method: str, *args: Any) -> Any:
        """Call a method of the reader."""
        return getattr(self._reader, method)(*args)


class Actor:
    """A worker that Ray places: one actor at a time."""

    def __init__(self, name: str, gpus: int) -> None:
        self.name = name
        self._gpus = gpus
        self._actor: Any = None
        self._task: tuple[Task, Any] | None = None

    def open(self, task: Task, head: Head) -> Future[dict[str, Any]]:
        """Open the judge in an actor, which Ray places when it has room."""
        import ray

        if self._task is None or self._task[0] is not task:
            self._task = (task, ray.put(task))
        if self._actor is None:
            made = ray.remote(num_cpus=1, num_gpus=self._gpus, scheduling_strategy="SPREAD")(Remote)
            self._actor = made.remote()
        return _future(self._actor.open.remote(self._task[1], head))

    def call(self, method: str, *args: Any) -> Future[Any]:
        """Call a method of the reader."""
        return _future(self._actor.call.remote(method, *args))

    def close(self) -> None:
        """End the actor at once."""
        import ray

        if self._actor is not None:
            ray.kill(self._actor)
            self._actor = None


def _future(reference: Any) -> Future[Any]:
    """Future of a Ray object; a node or an actor that is gone is `Died`, an error of ours is itself."""
    from ray import exceptions

    lost = (exceptions.RayActorError, exceptions.ObjectLostError, exceptions.WorkerCrashedError)
    return translated(reference.future(), lost, lambda error: getattr(error, "cause", None) or error)
