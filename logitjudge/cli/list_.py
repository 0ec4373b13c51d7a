"""``logitjudge list``: what there is to choose from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer

from logitjudge.cli import _console, _tables
from logitjudge.errors import InputError

EXAMPLES = """
  logitjudge list datasets
  logitjudge list datasets --data summeval:annotations/
  logitjudge list orderings
"""
LEVELS = 5  # of the rubric for which orderings are counted
Line = tuple[str, ...]


def list_(
    kind: Annotated[
        str,
        typer.Argument(metavar="WHAT", help="models, datasets, templates, rubrics, orderings, debiasers or probes."),
    ],
    data: Annotated[
        str | None,
        typer.Option(
            "--data", metavar="D", help="With 'datasets': what this one holds, by criterion, and how its raters agree."
        ),
    ] = None,
    as_json: _console.AsJson = False,
) -> None:
    """Print what there is, one line each."""
    if data is not None or as_json:
        _dataset(kind, data, as_json)
        return
    lines = list(KINDS[_console.one_of("list", kind, KINDS)]())
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    if not lines:
        _console.note(f"no {kind} yet")


def _dataset(kind: str, data: str | None, as_json: bool) -> None:
    """Print what one data set holds."""
    from logitjudge import datasets
    from logitjudge.report.dataset import about

    if kind != "datasets" or data is None:
        raise InputError(
            "--data and --json go together with 'datasets': logitjudge list datasets --data NAME:PATH [--json]."
        )
    rows = about(datasets.load(data))
    if as_json:
        _console.print_json(rows)
        return
    console, columns = _console.out(), ["items", "clusters", "systems", "raters"]
    numbers = {
        "mean": "mean",
        "alpha_ordinal": "a.ord",
        "alpha_interval": "a.int",
        "icc": "ICC",
        "ceiling": "ceiling",
    }
    cells = [
        [
            str(row["criterion"] or "all"),
            *(_console.ABSENT if row[name] is None else f"{row[name]:,}" for name in columns),
            _console.ABSENT if row["scale"] is None else f"{row['scale'][0]}-{row['scale'][1]}",
            *(_console.number(row[name], ".2f") for name in numbers),
        ]
        for row in rows
    ]
    _tables.table(console, ["criterion", *columns, "scale", *numbers.values()], cells, tight=True)
    _tables.say(
        console,
        f"Ratings: {rows[0]['target']}. a.ord, a.int: Krippendorff's alpha; ICC: of the mean of the raters; ceiling: its square "
        "root, the best Pearson correlation that a judge can expect.",
    )
    if own := [row["criterion"] for row in rows if "logitjudge's wording" in (row["rubric"] or "")]:
        _tables.say(console, f"The levels of {', '.join(own)} are in our own wording, not in the raters'.", "  ")
    for text in dict.fromkeys(row["note"] for row in rows if row["note"]):
        _tables.say(console, f"{text[0].upper()}{text[1:]}.", "  ")


def _first_line(text: str | None) -> str:
    return ((text or "").strip().splitlines() or [""])[0]


def _plugins(kind: str) -> Callable[[], Iterator[Line]]:
    def lines() -> Iterator[Line]:
        from logitjudge import registry

        for name in registry.names(kind):
            yield name, _first_line(registry.load(kind, name).__doc__)

    return lines


def _datasets() -> Iterator[Line]:
    from logitjudge import datasets, registry

    for name in registry.names("datasets"):
        yield datasets.usage(name), _first_line(registry.load("datasets", name).__doc__)


def _models() -> Iterator[Line]:
    from logitjudge import embedded

    yield "ORGANISATION/NAME", "A model of the Hugging Face hub; --revision picks a commit."
    yield "FOLDER", "A local folder that save_pretrained wrote."
    yield "FILE.gguf", "A GGUF file; its weights are dequantised."
    yield "embedded", f"{embedded.NAME}: the demonstration judge, fetched once."
    yield "planted:SPEC", "No model: a judge with known biases, e.g. planted:position=0.8,0,0,0,0.3;seed=7."


def _templates() -> Iterator[Line]:
    from logitjudge import prompts

    for name in prompts.names():
        lines = (prompts.FOLDER / f"{name}.j2").read_text(encoding="utf-8").splitlines()
        comments = (line.strip("# ") for line in lines if line.startswith("#") and not line.startswith("##"))
        yield name, next(comments, "")


def _rubrics() -> Iterator[Line]:
    from logitjudge import rubrics

    for name in rubrics.names():
        rubric = rubrics.load(name)
        yield (
            name,
            f"{rubric.scores[0]} to {rubric.scores[-1]}, {len(rubric.scores)} levels",
            _first_line(rubric.criterion),
        )


def _orderings() -> Iterator[Line]:
    from logitjudge import orderings

    scores = range(1, LEVELS + 1)
    for name in (*orderings.NAMED, *(f"{name}:N" for name in orderings.COUNTED)):
        made: Any = orderings.parse(name.replace(":N", ":4"), scores)
        count = {"random:N": "N", "latin:N": "N x K"}.get(name, str(len(made)))
        balance = (
            "depends on the draw"
            if name == "random:N"
            else "balanced"
            if orderings.is_balanced(made)
            else "not balanced"
        )
        yield name, f"{count} for K = {LEVELS}", balance
    yield "1,2,3,4,5;5,4,3,2,1", "as listed", "score values, first position first"


KINDS: dict[str, Callable[[], Iterator[Line]]] = {
    "models": _models,
    "datasets": _datasets,
    "templates": _templates,
    "rubrics": _rubrics,
    "orderings": _orderings,
    "debiasers": _plugins("debiasers"),
    "probes": _plugins("probes"),
}
