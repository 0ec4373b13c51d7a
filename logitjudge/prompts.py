"""Item, rubric, ordering -> the prompt. Templates are Jinja2 files, sandboxed, with YAML front matter for what a study varies.

Front matter: ``system``, ``prefill``, ``level_line`` (variables score, text, option), ``criterion_line`` (variable
criterion), ``close``; for judges that write before they score, ``marker``, which ends their text, and ``lead``, which
stands between it and an option (under ``think``, ``prefill`` is put behind the marker); ``verdicts:`` maps a verdict mode
to other values of these. Variables of the body: the item's fields, ``criterion``, ``criterion_line``, ``levels`` (in shown
order; printed, they are the level lines), ``verdict``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, wraps
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import StrictUndefined, TemplateError as JinjaError, TemplateSyntaxError, UndefinedError
from jinja2.exceptions import SecurityError
from jinja2.sandbox import SandboxedEnvironment

from logitjudge import files
from logitjudge.core import Item, Level, Message, Ordering, Prompt, Rubric
from logitjudge.errors import TemplateError, shown, unknown

FOLDER = Path(__file__).parent / "templates"
SETTINGS = ("system", "prefill", "level_line", "criterion_line", "close", "marker", "lead")
_FRONT = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*(\r?\n|\Z)", re.DOTALL | re.MULTILINE)


MOST = 100_000  # the largest number with which a template may repeat, pad, count or raise to a power
_WIDE = re.compile(
    r"[%:.][^%{}]{0,12}?[0-9]{6}|%[^%a-zA-Z]*\*"
)  # in a format: a width of six digits, or one from elsewhere


class _Sandbox(SandboxedEnvironment):
    """Templates that reach nothing outside, and make nothing huge of something small.

    A template of nested loops can still take for ever: Jinja has no limit for that.
    """

    intercepted_binops = frozenset(["*", "**", "%"])

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Check an operator that may make something huge."""
        if operator == "%":
            _no_wide(left)
        elif operator == "**" or not (isinstance(left, int) and isinstance(right, int)):
            _no_large(left, right)
            _no_large(_length(left) * _length(right) // 10)
        return super().call_binop(context, operator, left, right)

    def call(self, context: Any, obj: Any, /, *args: Any, **named: Any) -> Any:
        """Check the arguments of functions and methods, such as ``range`` and ``'x'.ljust``, and formats."""
        method = getattr(obj, "__wrapped__", obj)  # the sandbox wraps str.format
        if getattr(method, "__name__", "") in ("format", "format_map"):
            _no_wide(getattr(method, "__self__", None))
        _no_large(*args, *named.values())
        return super().call(context, obj, *args, **named)


def _length(value: Any) -> int:
    return len(value) if hasattr(value, "__len__") else value if isinstance(value, int) else 1


def _no_large(*values: Any) -> None:
    if any(isinstance(value, int) and abs(value) > MOST for value in values):
        raise SecurityError(f"a number above {MOST:,}, or more than {10 * MOST:,} characters at once, in a template")


def _no_wide(text: Any) -> None:
    if isinstance(text, str) and _WIDE.search(text):
        raise SecurityError(f"a format with a width above {MOST:,} or from elsewhere in a template")


def _checked(function: Callable[..., Any], check: Callable[..., None]) -> Callable[..., Any]:
    """A filter whose arguments are checked first."""

    @wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        check(*args[:1]) if check is _no_wide else check(*args[1:], *named.values())
        return function(*args, **named)

    return call


_ENVIRONMENT = _Sandbox(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False)  # noqa: S701
_FILTERS: Mapping[str, Callable[..., None]] = {"center": _no_large, "indent": _no_large, "format": _no_wide}
_ENVIRONMENT.filters |= {name: _checked(_ENVIRONMENT.filters[name], check) for name, check in _FILTERS.items()}
_ENVIRONMENT.globals.pop("lipsum")


class MissingField(TemplateError):  # noqa: N818
    """The template prints a field that this item does not have."""

    def __init__(self, template: str, name: str) -> None:
        super().__init__(f"template {template!r} prints the field {name!r}, which is missing")
        self.name = name


@dataclass(frozen=True, slots=True)
class ShownLevel:
    """A level as a template sees it; printed, it is its line."""

    score: int
    text: str
    option: str
    line: str

    def __str__(self) -> str:
        return self.line


class ShownLevels(tuple[ShownLevel, ...]):
    """Levels in shown order; printed, they are the level lines."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n".join(map(str, self))


@dataclass(frozen=True, slots=True)
class Template:
    """A prompt template and its settings for one verdict mode."""

    name: str
    source: str
    system: str = ""
    prefill: str = ""
    level_line: str = "Score {{ option }}: {{ text }}"
    criterion_line: str = "[{{ criterion }}]"
    close: str = ""
    marker: str = ""
    lead: str = ""
    verdict: str = "direct"
    verdicts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def writes(self) -> bool:
        """Whether the judge writes before it scores."""
        return self.verdict != "direct"

    def text(self, source: str, /, **variables: Any) -> str:
        """Render one piece of this template. Raises `TemplateError`; `MissingField` where a variable is not there."""
        try:
            return _compiled(source).render(variables)
        except TemplateSyntaxError as error:
            raise TemplateError(f"template {self.name!r}, line {error.lineno}: {error.message}.") from error
        except UndefinedError as error:
            if name := re.fullmatch(r"'(\w+)' is undefined", str(error)):
                raise MissingField(self.name, name[1]) from error
            raise TemplateError(f"template {self.name!r}: {error}.") from error
        except (JinjaError, ArithmeticError, LookupError, MemoryError, RecursionError, TypeError, ValueError) as error:
            raise TemplateError(f"template {self.name!r}: {type(error).__name__}: {error}.") from error


@cache
def _compiled(source: str) -> jinja2.Template:
    return _ENVIRONMENT.from_string(source)


def names() -> list[str]:
    """Names of the shipped templates."""
    return sorted(path.stem for path in FOLDER.glob("*.j2"))


def load(spec: str | Path, verdict: str = "direct") -> Template:
    """Read a shipped template by name, or a user's own ``.j2`` file, with the settings of a verdict mode.

    Raises
    ------
    TemplateError
        No such template, wrong front matter, or a body that never prints ``levels``.
    """
    shipped = str(spec) in names()
    path = FOLDER / f"{spec}.j2" if shipped else files.place(spec, TemplateError)
    if not shipped and path.suffix != ".j2":
        raise TemplateError(unknown("template", str(spec), names()) + " Or give a .j2 file.")
    try:
        source = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise TemplateError(f"template file {path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise TemplateError(f"template file {path} is not UTF-8 (byte {error.start}). Save it as UTF-8.") from error
    return parse(source, path.stem if shipped else str(path), verdict)


def parse(source: str, name: str = "template", verdict: str = "direct") -> Template:
    """Template from its text: front matter, if any, then the body."""
    front = _FRONT.match(source)
    if front is None and re.match(r"---[ \t]*\r?\n", source):
        raise TemplateError(f"template {name!r} opens its front matter with --- and does not close it with ---.")
    settings = _front_matter(front[1], name) if front else {}
    verdicts = settings.pop("verdicts", {})
    body = source[front.end() :] if front else source
    try:
        _ENVIRONMENT.compile(body)
    except TemplateSyntaxError as error:
        line = error.lineno + (front[0].count("\n") if front else 0)
        raise TemplateError(f"template {name!r}, line {line}: {error.message}.") from error
    template = Template(name, body, verdict=verdict, verdicts=verdicts, **settings)
    return replace(template, **verdicts.get(verdict, {}))


def _front_matter(text: str, name: str) -> dict[str, Any]:
    try:
        settings = files.load_yaml(text) or {}
    except ValueError as error:
        raise TemplateError(f"template {name!r}: the front matter is not valid YAML: {error}") from error
    if not isinstance(settings, dict):
        raise TemplateError(f"template {name!r}: the front matter is {shown(settings)}, not a mapping of settings.")
    verdicts = settings.pop("verdicts", None) or {}
    made = _settings(settings, name)
    if not isinstance(verdicts, dict):
        raise TemplateError(
            f"template {name!r}: setting 'verdicts' is {shown(verdicts)}, not a mapping of verdict modes to settings."
        )
    made["verdicts"] = {mode: _settings(values or {}, f"{name}, verdicts: {mode}") for mode, values in verdicts.items()}
    return made


def _settings(values: Any, where: str) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise TemplateError(f"template {where!r} is {shown(values)}, not a mapping of settings.")
    for key, value in values.items():
        if key not in SETTINGS:
            raise TemplateError(f"template {where!r}: " + unknown("setting", str(key), [*SETTINGS, "verdicts"]))
        if not isinstance(value, str | None):
            raise TemplateError(
                f"template {where!r}: setting {key!r} is {shown(value)}, not a string. Put it in quotes."
            )
    return {key: value or "" for key, value in values.items()}


def render(template: Template, item: Item, rubric: Rubric, ordering: Ordering) -> Prompt:
    """Write the prompt of one item under one ordering.

    Raises
    ------
    MissingField
        The item lacks a field that the template prints.
    TemplateError
        The template cannot be rendered.
    """
    levels = shown_levels(template, rubric.levels, ordering)
    own = {"criterion": rubric.criterion, "levels": levels, "verdict": template.verdict}
    own["criterion_line"] = template.text(template.criterion_line, criterion=rubric.criterion)
    body = template.text(template.source, **{**item.fields, **own})
    system = [Message("system", template.system)] if template.system else []
    options = tuple(rubric.levels[k].option for k in ordering.option_of)
    prefill = "" if template.verdict == "think" else template.prefill  # there it stands behind the thoughts
    prefill = template.text(prefill, **{**item.fields, **own}) if "{" in prefill else prefill
    return Prompt((*system, Message("user", body)), prefill, options, template.close)


def shown_levels(template: Template, levels: Sequence[Level], ordering: Ordering) -> ShownLevels:
    """The levels in the ordering's order, each with its line."""
    labels = ordering.shown if ordering.labels is None else ordering.labels
    pairs = [(levels[k], levels[label].option) for k, label in zip(ordering.shown, labels, strict=True)]
    return ShownLevels(
        ShownLevel(
            v.score, v.text, option, template.text(template.level_line, score=v.score, text=v.text, option=option)
        )
        for v, option in pairs
    )


def check(template: Template, item: Item, rubric: Rubric) -> None:
    """See that the template shows every level once, beside its option, in the ordering's order and none of its own.

    Raises
    ------
    TemplateError
        A level or its option is not printed, or the order of the lines is not the ordering's.
    """
    ordering = Ordering((*range(1, len(rubric.levels)), 0))
    body, marks = _seen(template, item, _marked(rubric), ordering)
    if missing := [level.score for k, level in enumerate(rubric.levels) if k not in {mark[0] for mark in marks}]:
        raise TemplateError(
            f"template {template.name!r} does not print the level of score {missing[0]}: "
            "print {{ levels }}, or the text of each level."
        )
    if tuple(k for k, _, _ in marks) != ordering.shown:
        shown = [rubric.levels[k].score for k, _, _ in marks]
        raise TemplateError(
            f"template {template.name!r} prints the levels as {shown} when the ordering is {list(ordering.values(rubric.scores))}. "
            "Print each level once, in the order of {{ levels }}, so that positions are what they are called."
        )
    if (wrong := _parted(body, marks)) and (wrong := _parted(*_seen(template, item, _numbered(rubric), ordering))):
        raise TemplateError(
            f"template {template.name!r} does not print the option {rubric.levels[wrong[0]].option!r} beside the text of its level: "
            "print {{ levels }}, or the option and the text of each level."
        )


def _parted(body: str, marks: Sequence[tuple[int, int, int]]) -> list[int]:
    """Score indices whose option stands neither right before their text (as for all levels) nor right behind it."""
    ends = [0, *(end for _, _, end in marks)]
    starts = [*(start for _, start, _ in marks), len(body)]
    between = [_labels(body[end:start]) for end, start in zip(ends, starts, strict=True)]
    before = [k for n, (k, _, _) in enumerate(marks) if between[n][-1:] != [k]]
    behind = [k for n, (k, _, _) in enumerate(marks) if between[n + 1][:1] != [k]]
    return before and behind and min(before, behind, key=len)


_TEXT = re.compile(r"zq(\d+)qz")
_LABEL = re.compile(r"zo(\d+)oz|7000(\d\d\d)")


def _labels(text: str) -> list[int]:
    """Score indices whose options stand in a text of marks, in order."""
    return [int(m[1] or m[2]) for m in _LABEL.finditer(text)]


def _seen(template: Template, item: Item, marked: Rubric, ordering: Ordering) -> tuple[str, list[tuple[int, int, int]]]:
    """Body of a prompt, and each level's text in it: score index, start, end."""
    body = render(template, item, marked, ordering).messages[-1].content.lower()
    return body, [(int(m[1]), m.start(), m.end()) for m in _TEXT.finditer(body)]


def _marked(rubric: Rubric) -> Rubric:
    """The rubric with texts and options that cannot be mistaken for anything else."""
    levels = [Level(v.score, f"zq{k}qz", f"zo{k}oz") for k, v in enumerate(rubric.levels)]
    return Rubric(rubric.name, rubric.criterion, tuple(levels))


def _numbered(rubric: Rubric) -> Rubric:
    """The same with scores that cannot be mistaken, for a template that prints the score where it is the option."""
    levels = []
    for k, v in enumerate(rubric.levels):
        score = 7_000_000 + k
        levels.append(Level(score, f"zq{k}qz", str(score) if v.option == str(v.score) else f"zo{k}oz"))
    return Rubric(rubric.name, rubric.criterion, tuple(levels))
