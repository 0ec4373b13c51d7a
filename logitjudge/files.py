"""YAML and JSON that others wrote: values without surprises, and whether they have the form that we need.

YAML makes plain values only (``SafeLoader``), with no key twice, and no short text that means a value without end.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from logitjudge.errors import InputError, shown

DEEPEST = 100  # brackets in brackets
LONGEST = 255  # bytes of a name of a file
MOST = 1_000_000  # parts of a YAML value, what it repeats counted each time
Kind = type[InputError]


def place(path: str | Path, kind: Kind = InputError) -> Path:
    """Path of a file or folder that somebody named. Raises an error of `kind` where no file can have that name."""
    try:
        parts = os.fsencode(path).split(b"/")
    except UnicodeEncodeError:
        parts = [b"\0"]
    if any(b"\0" in part or len(part) > LONGEST for part in parts):
        raise kind(f"{shown(str(path))} can be no file: a name has at most {LONGEST} bytes, and characters only.")
    try:
        return Path(path).expanduser()
    except RuntimeError:  # no user of that name: a file that begins with ~
        return Path(path)


def distinct(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """Return a mapping of pairs whose keys differ: JSON and YAML would silently take the last."""
    made: dict[Any, Any] = {}
    for key, value in pairs:
        if key in made:
            raise ValueError(f"{shown(key)} is given twice.")
        made[key] = value
    return made


class _Loader(yaml.SafeLoader):
    """YAML without repeated keys, and without more brackets in brackets than the scanner can do quickly."""

    def fetch_flow_collection_start(self, TokenClass: Any) -> None:  # noqa: N803  (PyYAML's name)
        if self.flow_level >= DEEPEST:
            raise ValueError("it is nested too deeply.")
        super().fetch_flow_collection_start(TokenClass)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        scalars = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode) and not key.tag.endswith(":merge")]
        distinct((key.value, None) for key in scalars)
        return super().construct_mapping(node, deep)


def load_yaml(text: str) -> Any:
    """Value of a YAML text. Raises `ValueError` in words."""
    try:
        value = yaml.load(text, _Loader)
        if _size(value, {}) > MOST:
            raise ValueError(f"it means a value of more than {MOST:,} parts.")
    except RecursionError as error:
        raise ValueError("it is nested too deeply.") from error
    except (yaml.YAMLError, TypeError, OverflowError, AttributeError, LookupError) as error:  # of odd keys and tags
        raise ValueError(str(error)) from error
    return value


def _size(value: Any, known: dict[int, int]) -> int:
    """Parts of a value, what stands in it several times counted each time."""
    if not isinstance(value, dict | list | set | tuple):
        return 1
    if id(value) in known:
        if not known[id(value)]:
            raise ValueError("it holds itself.")
        return known[id(value)]
    known[id(value)] = 0  # being counted
    parts = [*value, *value.values()] if isinstance(value, dict) else value
    known[id(value)] = 1 + sum(_size(part, known) for part in parts)
    return known[id(value)]


def read_yaml(path: str | Path, kind: Kind, advice: str) -> Any:
    """Value of a YAML file. Raises an error of `kind` that ends with `advice`."""
    try:
        return load_yaml(place(path, kind).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise kind(f"{path} cannot be read as YAML: {_why(error)} {advice}") from error


def read_json(path: Path, kind: Kind, advice: str, form: Any = object) -> Any:
    """Value of a JSON file that has a form (`require`). Raises an error of `kind` that ends with `advice`."""
    try:
        value = load_json(path.read_text(encoding="utf-8"))
        require(value, form)
    except (OSError, ValueError) as error:
        raise kind(f"{path} cannot be read: {_why(error)} {advice}") from error
    return value


def load_json(text: str) -> Any:
    """Value of a JSON text without NaN, which is no JSON. Raises `ValueError`."""
    try:
        return json.loads(text, parse_constant=_constant)
    except RecursionError as error:
        raise ValueError("it is nested too deeply.") from error


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON.")


def _why(error: Exception) -> str:
    text = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    return text.rstrip(".") + "."


def require(value: Any, form: Any, where: str = "it") -> None:
    """See that a value of JSON has a form.

    A form is a type (``float`` takes whole numbers too, ``object`` everything), a tuple of forms of which one must fit (``None`` is a
    form), ``[form]`` for a list of such, ``{str: form}`` for a mapping of any names to such, or a mapping of names to forms; a name that
    ends with ``?`` may be missing, and other names are allowed.

    Raises
    ------
    ValueError
        It has not; the message says where, and what is there.

    Examples
    --------
    >>> require({"a": [1, 2], "more": None}, {"a": [int], "b?": str})
    """
    if isinstance(form, tuple):
        _one_of(value, form, where)
    elif isinstance(form, list):
        _fits(value, list, where, "a list")
        for n, part in enumerate(value):
            require(part, form[0], f"{where}, number {n + 1}")
    elif isinstance(form, dict):
        _fits(value, Mapping, where, "a mapping")
        for name, part in _named(value, form, where).items():
            require(part[0], part[1], f"{where}, {name!r}")
    elif form is None:
        _fits(value, type(None), where, "null")
    elif form is not object:
        _fits(value, (float, int) if form is float else form, where, WORDS[form])
        if isinstance(value, int) and abs(value) >= 2**63:
            raise ValueError(f"{where} is {shown(value)}, which is too large.")
        if isinstance(value, str) and not encodable(value):
            raise ValueError(f"{where} is {shown(value)}: it has half of a surrogate pair, which is no character.")


WORDS = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "true or false",
    dict: "a mapping",
    list: "a list",
}


def _fits(value: Any, kind: Any, where: str, what: str) -> None:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{where} is {shown(value)}, not {what}.")


def encodable(text: str) -> bool:
    """Whether UTF-8 can hold a text: half of a surrogate pair it cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _one_of(value: Any, forms: tuple[Any, ...], where: str) -> None:
    reasons = []
    for form in forms:
        try:
            return require(value, form, where)
        except ValueError as error:
            reasons.append(str(error))
    raise ValueError(max(reasons, key=len))


def _named(value: Mapping[str, Any], form: Mapping[Any, Any], where: str) -> dict[str, tuple[Any, Any]]:
    """Name -> what stands there, and the form that it should have."""
    if str in form:
        return {name: (part, form[str]) for name, part in value.items()}
    made = {}
    for name, part in form.items():
        key = name.removesuffix("?")
        if key in value:
            made[key] = (value[key], part)
        elif key == name:
            raise ValueError(f"{where} has no {key!r}.")
    return made
