"""A run's summary as tables that read well at 80 columns, on a terminal or in a pipe."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from logitjudge.cli import _console
from logitjudge.cli._console import number, ordering, percent, plural

if TYPE_CHECKING:
    from rich.console import Console

WIDE = 8  # levels; more are set closer together
LISTED = 24  # orderings; of more, only the ends are listed
ENDS = 5
FEW = 3  # reasons, items: of more, how many there are
HEADS = {"soft": "where the probability of each score falls", "hard": "where the winning score stands"}
Json = dict[str, Any]


def table(
    console: Console, columns: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1, tight: bool = False
) -> None:
    """Print a table without lines: the first `left` columns flush left, the others flush right."""
    from rich.table import Table

    made = Table(box=None, padding=(0, 1 if tight else 2, 0, 0), pad_edge=False, header_style="bold")
    for n, column in enumerate(columns):
        made.add_column(column, justify="left" if n < left else "right", no_wrap=True)
    for row in rows:
        made.add_row(*row)
    with console.capture() as caught:
        console.print(made)
    for line in caught.get().splitlines():
        print(line.rstrip(), file=console.file)


def say(console: Console, text: str, indent: str = "") -> None:
    """Print a paragraph, broken at the console's width, without trailing blanks."""
    options: Any = {"break_long_words": False, "break_on_hyphens": False}
    width = max(console.width, 40)
    console.print(
        textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent + "  " * bool(indent), **options),
        soft_wrap=True,
    )


def title(console: Console, text: str) -> None:
    """Print a heading behind an empty line."""
    console.print()
    console.print(text, style="bold", soft_wrap=True)


def print_summary(console: Console, folder: str, summary: Json) -> None:
    """Print everything that `logitjudge.report.summary.summary` says."""
    _about(console, folder, summary)
    _numbers(console, summary, summary["scores"])
    if summary.get("parsed") is None and summary["finished"] is not None:
        _noise(console, summary["noise_floor"])
    if everything := summary["without_min_mass"]:
        title(console, f"=== For comparison: all {plural(everything['items'], 'item')}, without --min-mass ===")
        _numbers(console, everything, summary["scores"])


def print_pairs(console: Console, folder: str, summary: Json) -> None:
    """Print everything that `logitjudge.report.pairs.summary` says."""
    from logitjudge.cli._sections import pairs

    _judge(console, folder, summary)
    letters = "and both assignments of the letters" if summary["pairwise"]["crossed"] else "letters by slot"
    counts = f"{plural(summary['items'], 'pair')} in {plural(summary['clusters'], 'cluster')} x both orders, {letters}"
    _read(console, summary, counts)
    _mode(console, summary)
    pairs.show(console, summary["pairwise"])
    _mass(console, summary)
    if summary["finished"] is not None:
        _noise(console, summary["noise_floor"])


def _judge(console: Console, folder: str, summary: Json) -> None:
    path = f", path {summary['path']}" if summary["path"] else ""
    where = ", ".join(filter(None, (summary["backend"], summary["dtype"], summary["device"])))
    console.print(f"{folder}: judge {summary['model']} ({where}{path})", style="bold", soft_wrap=True)


def _about(console: Console, folder: str, summary: Json) -> None:
    _judge(console, folder, summary)
    counts = [
        f"{plural(summary['items'], 'item')} in {plural(summary['clusters'], 'cluster')}",
        f"{plural(len(summary['orderings']), 'ordering')} ({'balanced positions' if summary['balanced'] else 'positions not balanced'})",
    ]
    _read(console, summary, " x ".join(counts))
    if summary["left_out"]:
        items = plural(len(summary["left_out"]), "item")
        say(console, f"{items} left out for a mass below {summary['min_mass']:g}: {_some(summary['left_out'])}.")
    _mode(console, summary)


def _read(console: Console, summary: Json, counts: str) -> None:
    """How many readings there are."""
    refused = f", {plural(summary['refused'], 'item')} refused" if summary["refused"] else ""
    say(console, f"{counts} = {plural(summary['readings'], 'reading')}{refused}")
    if summary["finished"] is None:
        say(console, "The run is unfinished: these are the items whose readings are all there.")


def _mode(console: Console, summary: Json) -> None:
    say(console, f"Verdict {summary['verdict']}: not to be compared with figures of another verdict mode.")
    if traces := summary["traces"]:
        _texts(console, traces, summary.get("parsed"), len(summary["scores"]))


def _texts(console: Console, traces: Json, parsed: Json | None, levels: int) -> None:
    """How the judge's texts ended, and what the readings behind them, or the picks in them, are."""
    drawn = f"drawn at temperature {traces['temperature']:g}" if traces["temperature"] else "greedy"
    if "count" in traces:
        rest = traces["count"] - traces["ended"]
        left = f"; {traces['length']} were too long and {traces['end']} ended without it" if rest else ""
        ended = f"{traces['ended']} ended with {traces['end_marker']!r}{left}; {traces['named']} name a score before it"
        if parsed:
            ended = f"{traces['length']} were cut at the most tokens"
        say(console, f"{plural(traces['count'], 'text')} of the judge, {drawn}: {ended}.")
    if parsed:
        lost = parsed["items_without"]
        without = f" Of {plural(len(lost), 'item')} none could: {', '.join(lost[:FEW])}." if lost else ""
        say(
            console,
            f"Scores were parsed from the texts, nothing was read: {parsed['failed']} of {parsed['texts']} "
            f"({percent(parsed['share'])} %) could not be parsed, by ordering "
            f"{percent(min(parsed['by_ordering']))} to {percent(max(parsed['by_ordering']))} %.{without}",
        )
    elif traces["samples"] == 1:
        say(console, "Each reading is exact for the text before it, not over the texts that the judge might write.")
    else:
        say(
            console,
            f"Probabilities are means over {traces['samples']} texts: each is exact for its text, their mean is an estimate.",
        )
    if errors := traces["standard_error"]:
        what = "a mean pick" if parsed else "an expected score"
        sizes = f"median {errors['median']:.2g}, largest {errors['max']:.2g} points"
        say(console, f"Standard error of {what} over the samples: {sizes}.")
    if shared := traces["shared"]:
        _shared(console, traces, shared, levels)


def _shared(console: Console, traces: Json, shared: Json, levels: int) -> None:
    """Position distributions by the ordering that a text was written under, and by that of its reading."""
    title(
        console, f"Through the text, and through the reading: position distribution, % ({100 / levels:.1f}: no effect)"
    )
    say(
        console,
        f"Texts were written under {plural(len(traces['sources']), 'source ordering')}, and each was read under all orderings. "
        "source: positions in the ordering that the text was written under; reading: in that of the reading.",
    )
    rows = []
    for name, label in (
        ("all", "all texts"),
        ("named", "texts that name a score"),
        ("unnamed", "texts that name none"),
    ):
        if (found := shared[name]) and found["texts"]:
            for side in ("source", "reading"):
                cells = found[side] or [None] * levels
                rows.append([f"{label} ({found['texts']})" if side == "source" else "", side, *map(percent, cells)])
    table(console, ["", "by", *_heads(levels)], rows, left=2, tight=levels > WIDE)


def _some(rows: Sequence[Json]) -> str:
    """Name the first few items with their masses, and say how many more there are."""
    named = ", ".join(f"{row['id']} ({percent(row['mass'])} %)" for row in rows[:FEW])
    return named + (f" and {len(rows) - FEW} more" if len(rows) > FEW else "")


def _numbers(console: Console, numbers: Json, scores: Sequence[int]) -> None:
    _positions(console, numbers, len(scores))
    for estimator in _there(numbers):
        _matrix(console, numbers, estimator, len(scores))
    _costs(console, numbers, len(scores))
    if spread := numbers["cost_spread"]["soft"]:
        print_spread(console, spread, len(scores))
    _agreement(console, numbers)
    if numbers["mass"]:
        _mass(console, numbers)


def _there(numbers: Json) -> list[str]:
    """Estimators that the run gives: a sampled run has no probabilities, so no soft ones."""
    return [name for name in HEADS if numbers["score_position"][name] is not None]


def _positions(console: Console, numbers: Json, levels: int) -> None:
    title(console, f"Position distribution, % ({100 / levels:.1f} everywhere: no position bias)")
    found = numbers["position_distribution"]
    rows = [[name, *map(percent, found[name])] for name in _there(numbers)]
    table(console, ["", *_heads(levels)], rows, tight=levels > WIDE)


def _heads(levels: int) -> list[str]:
    return [f"p{p + 1}" for p in range(levels)]


def _matrix(console: Console, numbers: Json, estimator: str, levels: int) -> None:
    title(console, f"Score x position, {estimator}: {HEADS[estimator]}, %")
    values, rows = numbers["score_position"][estimator], numbers["rows"][estimator]
    cells = [_matrix_row(*pair) for pair in zip(values, rows, strict=True)]
    table(console, ["score", *_heads(levels), "picks", "eff.items"], cells, tight=levels > WIDE)
    missing = [row for row in rows if row["reason"]]
    for row in missing[:FEW]:
        say(console, f"{_console.ABSENT} {row['reason']}", "  ")
    if more := missing[FEW:]:
        say(console, f"{_console.ABSENT} likewise: score(s) {', '.join(str(row['score']) for row in more)}", "  ")


def _matrix_row(values: Sequence[float | None], row: Json) -> list[str]:
    return [str(row["score"]), *map(percent, values), f"{row['picks']:.1f}", f"{row['effective_items']:.1f}"]


def _costs(console: Console, numbers: Json, levels: int) -> None:
    title(console, f"Bias Cost of the run's orderings (0: positions do not matter; at most {levels - 1})")
    costs, note = _listed(numbers["bias_cost"])
    partial = any(row["hard_partial"] is not None for row in costs)
    names = [*_there(numbers), *(["hard_partial"] if partial else [])]
    rows = [[ordering(row["ordering"]), *(number(row[name]) for name in names)] for row in costs]
    table(console, ["ordering", *(name.replace("_", ", ") for name in names)], rows)
    if note:
        say(console, note)
    if partial:
        missing = ", ".join(str(row["score"]) for row in numbers["rows"]["hard"] if row["reason"])
        say(console, f"Partial: without the position of score(s) {missing}, whose hard rows are missing.")


def _listed(costs: Sequence[Json]) -> tuple[Sequence[Json], str]:
    """Orderings to print, and what was left out."""
    if len(costs) <= LISTED:
        return costs, ""
    if costs[0]["soft"] is None:
        return costs[:ENDS], f"The first {ENDS} of {len(costs)} orderings; --json has all."
    by_cost = sorted(costs, key=lambda row: float(row["soft"]))
    return by_cost[:ENDS] + by_cost[-ENDS:], f"The {ENDS} cheapest and dearest of {len(costs)}; --json has all."


def print_spread(console: Console, spread: Json, levels: int) -> None:
    """Print what a choice among all orderings can change."""
    low, high = spread["cheapest"], spread["dearest"]
    rows = [
        [name, ordering(spread[name]["ordering"]), number(spread[name]["cost"])] for name in ("cheapest", "dearest")
    ]
    rows += [[name, "", number(spread[name])] for name in ("mean", "identity", "additive")]
    title(console, f"Soft cost over all {math.factorial(levels):,} orderings")
    table(console, ["", "ordering", "cost"], rows, left=2)
    say(
        console,
        f"additive: a judge with the same position distribution, and no more, charges {number(spread['additive'])} for every "
        "ordering, so that its dearest costs 0 more than its cheapest. "
        f"Here it is {number(high['cost'] - low['cost'])} more; where that is close to 0, no single ordering stands out: average over "
        "orderings.",
    )


def _mass(console: Console, numbers: Json) -> None:
    mass, alias = numbers["mass"], numbers["alias"]
    title(console, f"Mass on the options: mean {percent(mass['mean'])} %, least {percent(mass['min'])} %")
    if mass["low"]:
        below = plural(len(mass["low"]), "item")
        say(console, f"Warning: {below} below 50 % in some ordering: {_some(mass['low'])}. See --min-mass.")
    if off := mass["greedy_off"]:
        most = "at most " if off["at_most"] else ""
        say(console, f"The most probable token begins no option in {most}{percent(off['share'])} % of the readings.")
    if mass["top_tokens"]:
        taken = ", ".join(f"{token['text']!r} {percent(token['prob'])} %" for token in mass["top_tokens"])
        say(console, f"What the judge would say instead: {taken}.")
    if alias["warning"]:
        say(console, f"Warning: {alias['warning']}.")


def _noise(console: Console, floor: Json | None) -> None:
    if floor is None:
        title(console, "Noise floor: none")
        say(console, "Every prompt was read alone, or this judge has no second way to read.")
        return
    title(console, f"Noise floor: {floor['max_nats']:.2g} nats at most, median {floor['median_nats']:.2g}")
    say(
        console,
        f"{plural(floor['readings'], 'reading')} read twice. {percent(floor['winners_within'])} % of all winners lead "
        f"by less than that; an expected score moves by {floor['max_score']:.2g} points at most.",
    )


def _agreement(console: Console, numbers: Json) -> None:
    rows = numbers["agreement"]
    if not rows:
        title(console, "Agreement: none (no item has a rating in the column 'human')")
        return
    counts = f"{plural(rows[0]['items'], 'item')}, {plural(rows[0]['clusters'], 'cluster')}"
    title(console, f"Agreement with {rows[0]['target']} ({counts})")
    cells = [[row["method"], row["measure"], number(row["value"], ".2f"), _interval(row)] for row in rows]
    table(console, ["method", "measure", "value", "95 % interval"], cells, left=2)
    for text in dict.fromkeys(row["note"] for row in rows if row["note"]):
        which = ", ".join(f"{row['method']} {row['measure']}" for row in rows if row["note"] == text)
        say(console, text if which.count(",") == len(rows) - 1 else f"{which}: {text}", "  ")


def _interval(row: Json) -> str:
    return _console.ABSENT if row["low"] is None else f"{row['low']:.2f} to {row['high']:.2f}"
