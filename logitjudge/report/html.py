"""A report as one HTML file: offline, nothing loaded from elsewhere, everything that comes from data or a model escaped."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2

from logitjudge import __version__
from logitjudge.errors import InputError
from logitjudge.report import pair_page, pair_tables, pictures, tables
from logitjudge.report.card import SHORT
from logitjudge.report.compare import comparison
from logitjudge.report.page import page
from logitjudge.report.tables import Table
from logitjudge.run import Run, SampledRun

TEMPLATE = Path(__file__).parent.parent / "data" / "report.html"
CARD = TEMPLATE.with_name("card.html")
PARTS = 10_000  # probabilities, scores and masses of items are whole numbers of these parts
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
    if len({run.kind for run in runs}) > 1:
        raise InputError("some runs are pairwise and others are not. Make a report of each kind.")
    pages = pages_of(runs, names)
    template = _template(TEMPLATE)
    several, of_pairs = len(runs) > 1, runs[0].kind == "pairwise"
    positions = pictures.together(runs, pages) if several and not of_pairs else None
    together = None
    if several:
        together = pair_tables.together(pages) if of_pairs else tables.together(comparison(runs, names))
    return template.render(
        parts=[_part(run, one, alone=positions is None) for run, one in zip(runs, pages, strict=True)],
        together=together,
        of_pairs=of_pairs,
        positions=positions,
        version=__version__,
        data=_packed(_data(pages)),
    )


def card(made: Json) -> str:
    """HTML of a bias card (`logitjudge.report.card`)."""
    probes = [
        {**one, "effects": [{**effect, "bar": _bar(one, effect)} for effect in one["effects"]]}
        for one in made["probes"]
    ]
    return _template(CARD).render(card={**made, "probes": probes}, units=SHORT, version=__version__)


def _template(path: Path) -> jinja2.Template:
    """A page of ours, in which every text is escaped."""
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {
        "percent": tables.percent,
        "number": tables.number,
        "ordering": tables.ordering,
        "sentence": tables.sentence,
        "small": lambda p: f"{p:.3f}" if p >= 0.001 else "< 0.001",
    }
    return environment.from_string(path.read_text(encoding="utf-8"))


def _bar(one: Json, effect: Json) -> Json:
    """Where an effect and its interval lie, in % of an axis from minus to plus the largest of the probe's effects in its unit."""
    alike = [other["estimate"] for other in one["effects"] if other["unit"] == effect["unit"]]
    ends = [abs(found[name]) for found in alike for name in ("value", "low", "high") if found[name] is not None]
    most = max(ends, default=0.0) or 1.0
    place = {
        name: None if (x := effect["estimate"][name]) is None else 50 + 49 * x / most
        for name in ("value", "low", "high")
    }
    wide = None if place["low"] is None or place["high"] is None else round(place["high"] - place["low"], 2)
    return {**{name: x if x is None else round(x, 2) for name, x in place.items()}, "wide": wide}


def pages_of(runs: Sequence[Run], names: Sequence[str]) -> list[Json]:
    """What a report says of each run."""
    return [
        (pair_page.page if run.kind == "pairwise" else page)(run, name) for run, name in zip(runs, names, strict=True)
    ]


def _pair_part(run: Run, one: Json) -> Json:
    """What the template sets of one pairwise run."""
    summary = one["summary"]
    return {
        "page": one,
        "pictures": pictures.of_pairs(run, one),
        "tables": pair_tables.main(summary["pairwise"]),
        "more": pair_tables.more(summary["pairwise"]),
        "texts": tables.texts(summary),
        "protocol": [*tables.masses(summary), *_there(tables.refused(summary))],
    }


def _part(run: Run, one: Json, *, alone: bool) -> Json:
    """What the template sets of one run."""
    if run.kind == "pairwise":
        return _pair_part(run, one)
    summary, sections = one["summary"], one["sections"]
    kind = "hard" if isinstance(run, SampledRun) else "soft"
    main = [
        tables.matrix(summary, kind),
        tables.costs(summary, sections["uncertainty"], kind),
        tables.agreement(summary),
    ]
    other = [tables.matrix(summary, "hard")] if kind == "soft" else []
    more = {
        "How sure: intervals and tests": [*other, *tables.uncertainty(sections["uncertainty"])],
        "Where the bias lives": tables.where(sections["where"]),
        "Agreement with people in full": tables.people(sections["people"]),
    }
    return {
        "page": one,
        "pictures": pictures.of_run(run, one, alone=alone),
        "tables": [table for table in main if table],
        "more": {name: found for name, found in more.items() if found},
        "texts": tables.texts(summary),
        "protocol": [*_there(tables.shared(summary)), *tables.masses(summary), *_there(tables.refused(summary))],
    }


def _there(table: Table | None) -> list[Table]:
    return [] if table is None else [table]


def _packed(value: Any) -> str:
    """JSON, gzipped, in base64: a tenth of the bytes, and no character that HTML knows."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode("ascii"), mtime=0)).decode("ascii")


def _data(pages: Sequence[Json]) -> Json:
    """Texts, each once over all runs, and the items of every run."""
    texts: dict[str, int] = {}
    runs = [_listed(one, texts) for one in pages]
    return {"parts": PARTS, "texts": [json.loads(key) for key in texts], "runs": runs}


def _listed(one: Json, texts: dict[str, int]) -> Json:
    """Items of a run: the number of their text, and their readings in a row: ordering, probabilities, expected score, mass."""
    orderings: dict[tuple[Any, ...], int] = {}
    items = []
    for item in one["items"]:
        text = texts.setdefault(json.dumps(item["fields"]), len(texts))
        rows = [_row(row, orderings) for row in item["orderings"]]
        kept = {name: item[name] for name in ("id", "cluster", "rating", "swing", "mean")}
        kept["groups"] = {
            name: None if value is None else str(value) for name, value in item["groups"].items()
        }  # exact in JS, too
        items.append({**kept, "about": item.get("about", {}), "text": text, "rows": rows})
    scores, of_pairs = one["summary"]["scores"], one["summary"]["kind"] == "pairwise"
    return {
        "scores": scores,
        "ends": [1, 2] if of_pairs else [scores[0], scores[-1]],
        "expected": "from 1 to 2" if of_pairs else "expected score",
        "rating": "gold" if of_pairs else "rating",
        "all": len(one["summary"]["orderings"]),
        "orderings": [list(values) for values in orderings],
        "items": items,
    }


def _row(row: Json, orderings: dict[tuple[Any, ...], int]) -> list[int]:
    which = orderings.setdefault(tuple(row["ordering"]), len(orderings))
    return [which, *(round(PARTS * value) for value in (*row["probs"], row["expected"], row["mass"]))]


def write(text: str, path: Path) -> None:
    """Write a report; half a character, which UTF-8 does not have, as a reference. Raises `InputError` where that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="xmlcharrefreplace")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}. Choose another --out.") from error
