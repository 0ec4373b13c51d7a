"""Engines as child processes, each in the Python that has its packages: JSON lines through pipes.

A child says ``{"ready": true, "settings": {...}}`` when its model is loaded, and then answers one request at a time. The
own engines share one child; `vllm` and `lm_eval` pin packages that do not fit ours, so each has an environment of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from logitjudge.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
OWN = ("-m", "logitjudge.backends.hf.worker")
FOREIGN = ROOT / "scripts" / "bench_engine.py"
ENVIRONMENTS = {  # engine -> (environment variable, folder, what makes it)
    "lm_eval": ("LOGITJUDGE_LMEVAL_PYTHON", ".venv-lmeval", "scripts/install_lmeval.sh"),
    "vllm": ("LOGITJUDGE_VLLM_PYTHON", ".venv-vllm", "scripts/install_vllm.sh"),
    "vllm_server": ("LOGITJUDGE_VLLM_PYTHON", ".venv-vllm", "scripts/install_vllm.sh"),
}
SHOWN = 2_000  # characters of a dead child's stderr
PATIENCE = 20.0  # seconds that a child has to stop
Json = dict[str, Any]


class WorkerError(RuntimeError):
    """An engine failed: what it said last."""


def python(engine: str) -> Path:
    """Python of a foreign engine's environment.

    Raises
    ------
    InputError
        It is not installed; the message names the script that does it.
    """
    variable, folder, script = ENVIRONMENTS[engine]
    place = Path(os.environ.get(variable) or ROOT / folder / "bin" / "python")
    if not place.exists():
        raise InputError(
            f"the engine {engine!r} has no environment: there is no {place}. Make it with: bash {script} "
            f"(or set {variable} to a Python that has it, or leave the engine out of --engines)."
        )
    if not FOREIGN.exists():
        raise InputError(f"the engine {engine!r} needs a checkout of the repository: there is no {FOREIGN}.")
    return place


def installed() -> list[str]:
    """Foreign engines whose environments are there; not the server, whose engine is vLLM's own once more."""
    found = []
    for engine in ("lm_eval", "vllm"):
        with contextlib.suppress(InputError):
            python(engine)
            found.append(engine)
    return found


class Child:
    """A worker process.

    Parameters
    ----------
    engine
        ``own``, or a foreign engine.
    options
        Words for its command line.

    Raises
    ------
    WorkerError
        Now or at any request: it died, or answered with an error.
    """

    def __init__(self, engine: str, options: Sequence[str]) -> None:
        self.engine = engine
        where = [sys.executable, *OWN] if engine == "own" else [str(python(engine)), str(FOREIGN)]
        ours = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (a pipe that nobody reads would stop the child)
        self._process = subprocess.Popen(
            [*where, "--engine", engine, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            encoding="utf-8",
            env={**os.environ, "PYTHONPATH": ours} if engine == "own" else None,
            start_new_session=True,  # so that what it starts itself can be ended with it
        )
        try:
            self.settings: Json = self._answer()["settings"]
        except BaseException:
            self._kill()
            raise

    def ask(self, op: str, **values: Any) -> Json:
        """Send a request and wait for its answer."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"op": op, **values}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._death() from None
        return self._answer()

    def _answer(self) -> Json:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._death()
        try:
            reply: Json = json.loads(line)
        except ValueError:
            raise WorkerError(f"the engine {self.engine!r} printed {line[:200]!r} among its answers.") from None
        if "error" in reply:
            if reply.get("input"):
                raise InputError(reply["error"])
            raise WorkerError(f"the engine {self.engine!r} failed: {reply['error']}")
        return reply

    def _death(self) -> WorkerError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE)
        self._errors.seek(0)
        last = self._errors.read().decode(errors="replace").strip()[-SHOWN:]
        return WorkerError(f"the engine {self.engine!r} died (exit code {self._process.poll()}):\n{last}")

    def __enter__(self) -> Child:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            with contextlib.suppress(OSError, ValueError, subprocess.TimeoutExpired):
                self._process.communicate(json.dumps({"op": "stop"}) + "\n", timeout=PATIENCE)
        self._kill()

    def _kill(self) -> None:
        """End the child and what it started, whatever they are doing."""
        if self._process.poll() is None:
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL) if sys.platform != "win32" else self._process.kill()
        self._process.communicate()
        self._errors.close()
