"""What a dataset spec means: which adapter it names, with which path and which options."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from logitjudge import files, registry
from logitjudge.core import ItemSet
from logitjudge.errors import InputError, ItemError, unknown

_NAMED = re.compile(r"([A-Za-z][\w-]+):(.*)", re.DOTALL)  # one letter is a drive: C:\x.jsonl
_USER = re.compile(r"(.+?\.py)(?::(.*))?", re.DOTALL)
_POSITIONAL = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}


def resolve(spec: str) -> Callable[[], ItemSet] | None:
    """Return the call that `spec` stands for, or None where it is a file in one of our own formats."""
    files.place(spec, ItemError)
    names = registry.names("datasets")
    named = _NAMED.fullmatch(spec)
    name = named[1] if named else spec
    if name in names:
        return _shipped(name, named[2] if named else "")
    if user := _USER.fullmatch(spec):
        return _user(Path(user[1]), user[2])
    if (named or re.fullmatch(r"[\w-]+", spec)) and not Path(spec).exists():
        raise InputError(unknown("dataset", name, names) + " Or give a .jsonl, .csv or .parquet file.")
    return None


def usage(name: str) -> str:
    """How a registered dataset is named in a spec: ``x`` or ``x:PATH``, and its options.

    Examples
    --------
    >>> usage("demo"), usage("summeval")
    ('demo', 'summeval:PATH?systems=&criteria=&rotate=')
    """
    load = _function(registry.load("datasets", name), f"dataset {name!r}")
    options = [f"{option}=" for option in _known(load)]
    return name + (":PATH" if _takes_path(load) else "") + ("?" + "&".join(options) if options else "")


def _known(load: Callable[..., Any]) -> list[str]:
    """Names of the options that `load` takes."""
    return [p.name for p in inspect.signature(load).parameters.values() if p.kind is p.KEYWORD_ONLY]


def _shipped(name: str, rest: str) -> Callable[[], ItemSet]:
    path, _, query = rest.rpartition("?") if "?" in rest else (rest, "", "")
    load = _function(registry.load("datasets", name), f"dataset {name!r}")
    options = _options(load, name, query)
    if not _takes_path(load):
        if path:
            raise InputError(f"dataset {name!r} reads no file, but {path!r} was given. Write {name!r} alone.")
        return lambda: _checked(load(**options), f"dataset {name!r}")
    if not path:
        raise InputError(f"dataset {name!r} needs its file. Write {name}:PATH.")
    return lambda: _checked(load(files.place(path, ItemError), **options), f"dataset {name!r}")


def _user(path: Path, arg: str | None) -> Callable[[], ItemSet]:
    load = _function(registry.load_file(path), f"adapter {path}")
    args = [arg or ""] if _takes_path(load) else []
    if arg is None and args:
        raise InputError(f"adapter {path} needs an argument. Write {path}:ARG.")

    def call() -> ItemSet:
        try:
            return _checked(load(*args), f"adapter {path}")
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"adapter {path} failed: {type(error).__name__}: {error}") from error

    return call


def _function(plugin: Any, where: str) -> Callable[..., Any]:
    load: Callable[..., Any] | None = getattr(plugin, "load", None)
    if not callable(load):
        raise InputError(f"{where} has no function load(path) that returns an ItemSet. Define one.")
    return load


def _takes_path(load: Callable[..., Any]) -> bool:
    return any(p.kind in _POSITIONAL for p in inspect.signature(load).parameters.values())


def _options(load: Callable[..., Any], name: str, query: str) -> dict[str, str]:
    known = _known(load)
    options: dict[str, str] = {}
    for part in query.split("&") if query else []:
        key, _, value = part.partition("=")
        if key not in known:
            has = unknown("option", key, known) if known else f"unknown option {key!r}. It has none."
            raise InputError(f"dataset {name!r}: {has}")
        if not value or key in options:
            raise InputError(f"dataset {name!r}: option {part!r} should be given once, with a value: {key}=a,b.")
        options[key] = value
    return options


def _checked(made: Any, where: str) -> ItemSet:
    if not isinstance(made, ItemSet):
        raise InputError(f"{where} returned {type(made).__name__}, not an ItemSet.")
    return made
