"""Plug-ins are files: a module in one of our plug-in packages, an entry point of another package, or a path.

Adding ``datasets/x.py`` registers ``x``. A user's own comes as ``./mine.py`` or as an entry point in the group
``logitjudge.datasets`` (``.debiasers``, ``.probes``, ``.backends``). Nothing is imported before it is used.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from logitjudge.errors import InputError, unknown

ROOT = Path(__file__).parent


def _shipped(kind: str) -> list[str]:
    return [m.name for m in pkgutil.iter_modules([str(ROOT / kind)]) if not m.name.startswith("_")]


def _foreign(kind: str) -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=f"logitjudge.{kind}"):
        other = found.setdefault(entry.name, entry)
        if other.value != entry.value:
            raise InputError(
                f"{kind[:-1]} {entry.name!r} is defined by {other.value} and by {entry.value}. Remove one."
            )
    return found


def names(kind: str) -> list[str]:
    """Sorted names of all plug-ins of a kind ("datasets", "debiasers", ...)."""
    return _names(kind, _foreign(kind))


def _names(kind: str, foreign: Mapping[str, EntryPoint]) -> list[str]:
    shipped = _shipped(kind)
    if clash := sorted(set(shipped) & set(foreign)):
        raise InputError(
            f"{kind[:-1]} {clash[0]!r} is defined by logitjudge and by {foreign[clash[0]].value}. Rename yours."
        )
    return sorted([*shipped, *foreign])


def load(kind: str, name: str) -> Any:
    """Import the plug-in `name` of a kind. Raises `InputError` with the nearest name where there is none."""
    foreign = _foreign(kind)  # found once: it reads a file of every installed package
    if name not in (known := _names(kind, foreign)):
        raise InputError(unknown(kind[:-1], name, known))
    entry = foreign.get(name)
    if entry is None:
        return importlib.import_module(f"logitjudge.{kind}.{name}")
    try:
        return entry.load()
    except Exception as error:  # another package's code: anything may go wrong
        raise InputError(
            f"{kind[:-1]} {name!r} of {entry.value} cannot be imported: {type(error).__name__}: {error}"
        ) from error


def make(kind: str, spec: str) -> Any:
    """What a plug-in makes from ``NAME`` or ``NAME:ARGUMENT``.

    Its module has ``method``, to call without arguments, and, where it takes one, ``parse``, to call with its text.

    Raises
    ------
    InputError
        There is no such plug-in, or it takes no argument.
    """
    name, colon, argument = spec.partition(":")
    module = load(kind, name)
    if not colon:
        return module.method()
    if not hasattr(module, "parse"):
        raise InputError(f"{kind[:-1]} {name!r} takes no argument, but {spec!r} gives one. Write {name!r}.")
    return module.parse(argument)


def load_file(path: Path) -> ModuleType:
    """Import a user's own ``.py`` file as a module of its own, whatever its name."""
    if not path.is_file():
        raise InputError(f"there is no plug-in file {path}.")
    name = f"logitjudge_user_{path.stem}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up while it is being imported
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise InputError(f"plug-in {path} cannot be imported: {type(error).__name__}: {error}") from error
    return module
