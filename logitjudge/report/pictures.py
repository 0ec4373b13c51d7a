"""Figures of a report as small SVG images, each with a sentence on how to read it and one that says what it shows."""

from __future__ import annotations

import base64
import io
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from logitjudge.errors import InputError
from logitjudge.report import plots
from logitjudge.report.tables import number, ordering, percent
from logitjudge.run import Run, SampledRun

READ = {
    "positions": "Share of probability (of picks, where a run has none) at each position, with 95 % intervals; the grey line is no "
    "position bias. Lines of one shape are a bias that judges share.",
    "matrix": "Each row is a score: where it stands when it is picked. One strong column is a liking for a position; single cells that "
    "differ are interaction. Bold: surely not 1/K.",
    "costs": "Bias Cost of every ordering, cheapest first. A flat curve: no ordering is better than another. Dashed: an unbiased judge.",
    "swing": "Each bar is an item: its least and largest expected score over the orderings. Long bars: the ordering decides the score.",
    "certainty": "Each dot is an item: how far orderings move it against the lead of its first score. A slope downwards: order moves "
    "the uncertain items.",
    "people": "Correlation with the ratings, with 95 % intervals. Intervals that overlap widely cannot tell methods apart.",
    "pairs": "Each dot is a pair: how much its content speaks for candidate 1, and how much the place. Above and below both dotted lines "
    "the place is stronger than the content; orange: the verdict changes with the order. A cloud above or below 0: a liking for a place.",
    "mass": "Probability that falls on any option, by ordering. Below one half the judge mostly wants to say something else.",
}
FULL_MASS = 0.9  # on average; above, and at least LOW_MASS everywhere, its figure says nothing
LOW_MASS = 0.5
NAMED = 4  # runs whose shares a sentence lists
FONTS = "'DejaVu Sans', Verdana, sans-serif"  # Verdana is as wide
BAD = re.compile("[\\x00-\\x1f\\x7f\\ud800-\\udfff\\ufffe\\uffff]")  # not in XML
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure: its name, a data URI, what it shows and how to read it, in words."""

    name: str
    image: str
    alt: str
    text: str


def of_run(run: Run, page: Json, *, alone: bool = True) -> list[Picture]:
    """Figures of one run, those that it gives; `together` draws the positions of runs that are not alone."""
    kind = "hard" if isinstance(run, SampledRun) else "soft"
    wanted: list[tuple[str, Json]] = [("positions", {"estimator": kind})] if alone else []
    wanted.append(("matrix", {"estimator": kind}))
    if kind == "soft":
        wanted += [("costs", {}), ("swing", {}), ("certainty", {}), ("people", {})]
        wanted += [("mass", {})] if _thin(page["summary"]["mass"]) else []
    return [found for name, options in wanted if (found := _picture(name, run, page, options))]


def together(runs: Sequence[Run], pages: Sequence[Json]) -> Picture | None:
    """Position distributions of all runs; None where they have different numbers of scores, or some distribution is not there."""
    kind = "hard" if any(isinstance(run, SampledRun) for run in runs) else "soft"
    names = [page["name"] for page in pages]
    try:
        image = _image("positions", runs, names, estimator=kind)
    except InputError:
        return None
    shares = [page["summary"]["position_distribution"][kind] for page in pages]
    if len(runs) > NAMED:
        ends = f"{percent(min(share[0] for share in shares))} to {percent(max(share[0] for share in shares))}"
        alt = f"Lines of {len(runs)} runs. At the first position: {ends} %. The table has all shares."
    else:
        alt = " ".join(f"{name}: {_listed(share)}." for name, share in zip(names, shares, strict=True))
    return Picture("positions", image, alt, READ["positions"])


def _thin(mass: Json | None) -> bool:
    return mass is not None and (mass["mean"] < FULL_MASS or mass["min"] < LOW_MASS)


def of_pairs(run: Run, page: Json) -> list[Picture]:
    """The figure of a pairwise run."""
    found = page["summary"]["pairwise"]
    flips = found["stability"]["flip_rate"]["value"]
    alt = f"Content and position effect of {found['pairs']} pairs; {percent(flips)} % of the verdicts change with the order."
    return [Picture("pairs", _image("pairs", [run], [page["name"]]), alt, READ["pairs"])]


def _picture(name: str, run: Run, page: Json, options: Json) -> Picture | None:
    try:
        image = _image(name, [run], [page["name"]], **options)
    except InputError:  # not observed, or no ratings: the tables say why
        return None
    return Picture(name, image, ALT[name](page, options.get("estimator", "soft")), READ[name])


def _listed(shares: Sequence[float | None]) -> str:
    return ", ".join(f"p{p + 1} {percent(share)} %" for p, share in enumerate(shares))


def _positions(page: Json, kind: str) -> str:
    return f"Share at each position: {_listed(page['summary']['position_distribution'][kind])}."


def _matrix(page: Json, kind: str) -> str:
    summary = page["summary"]
    said = []
    for score, row in zip(summary["scores"], summary["score_position"][kind], strict=True):
        if None not in row:
            place = max(range(len(row)), key=row.__getitem__)
            said.append(f"score {score} falls most often on p{place + 1} ({percent(row[place])} %)")
    return f"Heat map of score by position: {'; '.join(said) or 'no row was observed'}."


def _costs(page: Json, kind: str) -> str:
    spread = page["summary"]["cost_spread"][kind]
    ends = (
        f"{name} {ordering(spread[name]['ordering'])} ({number(spread[name]['cost'])})"
        for name in ("cheapest", "dearest")
    )
    return f"Curve of the Bias Cost of all orderings: {', '.join(ends)}, mean {number(spread['mean'])}."


def _swing(page: Json, kind: str) -> str:
    found = page["sections"]["where"]["swings"]
    if "reason" in found:
        return f"Ranges of the expected score: {found['reason']}."
    return f"Ranges of the expected score of {page['summary']['items']} items: mean {found['mean']:.2f}, largest {found['max']:.2f} points."


def _certainty(page: Json, kind: str) -> str:
    rows = page["sections"]["where"]["certainty"].get("associations", ())
    near = [
        row["value"] for row in rows if (row["movement"], row["nearness"], row["given"]) == ("points", "near_tie", None)
    ]
    goes = f"rank correlation of movement with nearness to a tie {number(near[0] if near else None, '.2f')}"
    return f"Dots of {page['summary']['items']} items; {goes}."


def _people(page: Json, kind: str) -> str:
    rows = [
        row for one in page["sections"]["people"]["methods"] for row in one["intervals"] if row["measure"] == "pearson"
    ]
    said = (
        f"{row['method']} {number(row['value'], '.2f')} ({number(row['low'], '.2f')} to {number(row['high'], '.2f')})"
        for row in rows
    )
    return f"Pearson correlation with {page['summary']['ratings_name']}: {'; '.join(said)}."


def _mass(page: Json, kind: str) -> str:
    mass = page["summary"]["mass"]
    return f"Probability on the options by ordering: mean {percent(mass['mean'])} %, least {percent(mass['min'])} %."


ALT: dict[str, Callable[[Json, str], str]] = {
    "positions": _positions, "matrix": _matrix, "costs": _costs, "swing": _swing, "certainty": _certainty, "people": _people,
    "mass": _mass,
}  # fmt: skip


def _image(name: str, runs: Sequence[Run], names: Sequence[str], **options: Any) -> str:
    """A figure as a data URI. A name is no formula, and may have letters that matplotlib's font lacks: the browser's has them."""
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    file = io.BytesIO()
    plain = [BAD.sub("\ufffd", text) for text in names]
    with mpl.rc_context({"text.parse_math": False, "svg.hashsalt": "logitjudge"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = plots.draw(name, runs, plain, **options)
        with mpl.rc_context(plots.STYLE):
            figure.savefig(file, format="svg", metadata={"Date": None})
    plt.close(figure)
    return "data:image/svg+xml;base64," + base64.b64encode(slim(file.getvalue().decode()).encode()).decode()


def slim(svg: str) -> str:
    """A smaller SVG that looks the same: two decimals (hundredths of a point), styles said once, strokes of one style as one path."""
    svg = re.sub(r"<\?xml.*?<svg", "<svg", svg, flags=re.DOTALL)
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<[^<>]*>", _shorter, svg)
    svg = re.sub(r">\s*\n\s*<", "><", svg)
    svg = re.sub(r'(?:<path d="[^"]*" clip-path="[^"]*" style="[^"]*"/>){2,}', _one_path, svg)
    return re.sub(r'(<g clip-path="[^"]*")>((?:<use [^>]*/>){2,})</g>', _one_style, svg)


def _shorter(tag: re.Match[str]) -> str:
    """A tag with short numbers and one list of fonts; what stands between tags is a reader's text and stays."""
    text = re.sub(r"\s*\n\s*", " ", tag[0])
    text = re.sub(r"font-family: [^;\"]*", f"font-family: {FONTS}", text)
    return re.sub(
        r"(?<=[\s\"(-])\d+\.\d{3,}(?=[\s\"),])", lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), text
    )


def _one_path(found: re.Match[str]) -> str:
    """Paths that follow each other; those of one opaque stroke become one."""
    paths = re.findall(r'<path d="([^"]*)" (clip-path="[^"]*" style="([^"]*)")/>', found[0])
    if len({look for _, look, _ in paths}) > 1 or "fill: none" not in paths[0][2] or "opacity" in paths[0][2]:
        return found[0]
    return f'<path d="{"".join(d for d, _, _ in paths)}" {paths[0][1]}/>'


def _one_style(found: re.Match[str]) -> str:
    """Markers of one style: it goes to their group."""
    styles = set(re.findall(r' style="([^"]*)"', found[2]))
    if len(styles) > 1:
        return found[0]
    return f'{found[1]} style="{styles.pop()}">{re.sub(r" style=.[^>]*?.(?=/>)", "", found[2])}</g>'
