"""A report as one HTML file: offline, nothing loaded from elsewhere, everything that comes from data or a model escaped."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from logitjudge import __version__
from logitjudge.errors import InputError
from logitjudge.report import plots
from logitjudge.report.page import page
from logitjudge.run import Run, SampledRun

TEMPLATE = Path(__file__).parent.parent / "data" / "report.html"
OF_ONE = {
    "matrix": "Each row is a score: where it stands when it is picked. One strong column is a liking for a position; single cells that "
    "differ are interaction. Bold: surely not 1/K.",
    "costs": "Bias Cost of every ordering, cheapest first. A flat curve: no ordering is better than another. Dashed: an unbiased judge.",
    "swing": "Each bar is an item: its least and largest expected score over the orderings. Long bars: the ordering decides the score.",
    "people": "Correlation with the ratings, with 95 % intervals. Intervals that overlap widely cannot tell methods apart.",
}
TOGETHER = "Share of picks at each position; the grey line is no position bias. Lines of one shape are a bias that judges share."
Json = dict[str, Any]


def report(runs: Sequence[Run], names: Sequence[str]) -> str:
    """HTML of one or several runs.

    Raises
    ------
    InputError
        No run, or two of one name.
    """
    if not runs or len(set(names)) < len(names):
        raise InputError("a report takes at least one run, and every run once.")
    pages = [page(run, name) for run, name in zip(runs, names, strict=True)]
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {
        "percent": _percent,
        "number": _number,
        "ordering": lambda values: ",".join(map(str, values)),
    }
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    texts, data = _data(pages)
    return template.render(
        pages=pages,
        figures=[_figures(run) for run in runs],
        together=_together(runs, names),
        version=__version__,
        data=Markup(_script(data)),  # noqa: S704  (every "<" is written as an escape)
        texts=Markup(_script(texts)),  # noqa: S704
    )


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def _number(value: float | None, form: str = ".3f") -> str:
    return "–" if value is None else format(value, form)


def _script(value: Any) -> str:
    """JSON that is safe inside a script element."""
    return json.dumps(value, allow_nan=False).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _data(pages: Sequence[Json]) -> tuple[list[Json], list[list[Json]]]:
    """Texts, each once, and the items of every run with the number of theirs."""
    texts: list[Json] = []
    known: dict[str, int] = {}
    made = []
    for one in pages:
        rows = []
        for item in one["items"]:
            key = json.dumps(item["fields"], sort_keys=True)
            if key not in known:
                known[key] = len(texts)
                texts.append(item["fields"])
            rows.append({**{name: value for name, value in item.items() if name != "fields"}, "text": known[key]})
        made.append(rows)
    return texts, made


def _figures(run: Run) -> list[Json]:
    """Figures of one run, those that it gives."""
    if isinstance(run, SampledRun):
        return [
            {"image": _image("matrix", [run], ["run"], estimator="hard"), "name": "matrix", "text": OF_ONE["matrix"]}
        ]
    made = []
    for name, text in OF_ONE.items():
        try:
            made.append({"image": _image(name, [run], ["run"]), "name": name, "text": text})
        except InputError:  # not observed, or no ratings: the tables say why
            continue
    return made


def _together(runs: Sequence[Run], names: Sequence[str]) -> Json | None:
    kind = "hard" if any(isinstance(run, SampledRun) for run in runs) else "soft"
    try:
        return {"image": _image("positions", runs, names, estimator=kind), "text": TOGETHER, "kind": kind}
    except InputError:
        return None


def _image(name: str, runs: Sequence[Run], names: Sequence[str], **options: Any) -> str:
    """A figure as a data URI."""
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    figure = plots.draw(name, runs, names, **options)
    file = io.BytesIO()
    with mpl.rc_context({**plots.STYLE, "svg.hashsalt": "logitjudge"}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    plt.close(figure)
    return "data:image/svg+xml;base64," + base64.b64encode(file.getvalue()).decode()


def write(text: str, path: Path) -> None:
    """Write a report. Raises `InputError` where the file cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}. Choose another --out.") from error
