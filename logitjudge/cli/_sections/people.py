"""Tables of agreement with people (`logitjudge.report.agreement`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from logitjudge.cli._console import ABSENT, number, percent
from logitjudge.cli._tables import say, table, title

if TYPE_CHECKING:
    from rich.console import Console

COLUMNS = {
    "items": "items", "pearson": "r", "spearman": "rho", "kendall": "tau-b", "quadratic_kappa": "kappa", "exact": "exact",
    "absolute_error": "error", "pair_accuracy": "pairs",
}  # fmt: skip
HEADS = ["r", "interval", "tau-b", "interval", "ceiling", "%"]
FEW = 2  # rows that a note names
Json = dict[str, Any]


def show(console: Console, section: Json) -> None:
    """Print everything that `logitjudge.report.agreement.section` says."""
    if "reason" in section:
        title(console, "Agreement with people: none")
        say(console, f"{section['reason'][0].upper()}{section['reason'][1:]}.")
        return
    _raters(console, section["target"], section["reliability"])
    _closeness(console, section)
    _criteria(console, section["methods"])
    _intervals(console, section["methods"])
    _over_systems(console, section["methods"])
    _differences(console, section)


def _raters(console: Console, target: str, found: Json) -> None:
    title(console, f"Raters: {target} ({found['raters']} a rated item at most, {found['design']})")
    alpha = " and ".join(f"{number(found[f'alpha_{level}'], '.2f')} ({level})" for level in ("ordinal", "interval"))
    say(console, f"Krippendorff's alpha {alpha}; ICC(1,k) {_icc(found['icc_1'])}, ICC(C,k) {_icc(found['icc_c'])}.")
    if found["ceiling"] is not None:
        say(console, f"Ceiling of a Pearson correlation with their mean: {found['ceiling']:.2f}.")
    if found["note"]:
        say(console, f"{found['note'][0].upper()}{found['note'][1:]}.")


def _icc(icc: Json) -> str:
    if icc["value"] is None:
        return ABSENT
    between = "" if icc["low"] is None else f" ({icc['low']:.2f} to {icc['high']:.2f})"
    return f"{icc['value']:.2f}{between}"


def _closeness(console: Console, section: Json) -> None:
    title(console, "Agreement by method, all items pooled")
    rows = [[one["method"], *_cells(one["pooled"])] for one in section["methods"]]
    table(console, ["method", *COLUMNS.values()], rows)
    say(
        console,
        "kappa: quadratic weights, nearest score against the raters' median; exact: share of equal ones, %; error: mean absolute, "
        "points; pairs: accuracy with calibrated ties, %.",
    )


def _cells(found: Json) -> list[str]:
    made = []
    for name in COLUMNS:
        share = name in ("exact", "pair_accuracy")
        made.append(
            f"{found[name]:,}" if name == "items" else percent(found[name]) if share else number(found[name], ".2f")
        )
    return made


def _criteria(console: Console, methods: list[Json]) -> None:
    for one in methods:
        if one["by_criterion"]:
            title(console, f"By criterion, {one['method']}")
            rows = [[name, *_cells(found)] for name, found in one["by_criterion"].items()]
            rows.append(
                [
                    "mean",
                    *_cells(
                        {"items": sum(f["items"] for f in one["by_criterion"].values()), **one["mean_over_criteria"]}
                    ),
                ]
            )
            table(console, ["criterion", *COLUMNS.values()], rows)


def _intervals(console: Console, methods: list[Json]) -> None:
    """Correlations with their intervals, and how much of what the raters allow is reached, part by part."""
    title(console, "Correlations, 95 % intervals, and the share of the ceiling")
    table(console, ["method", "part", *HEADS], _lines(methods, "items"), left=2, tight=True)
    _notes(console, _rows(methods, "items"))


def _over_systems(console: Console, methods: list[Json]) -> None:
    rows = _rows(methods, "systems")
    if not rows:
        return
    if all(row["value"] is None for row in rows):
        say(console, f"Over systems, each the mean of its items: {rows[0]['note']}.")
        return
    title(console, f"Over {rows[0]['systems']} systems, each the mean of its items")
    table(console, ["method", "part", *HEADS[:-2]], [line[:-2] for line in _lines(methods, "systems")], left=2)
    _notes(console, rows)
    say(console, "The intervals are of the items: other systems may be ordered better or worse.")


def _notes(console: Console, rows: list[Json]) -> None:
    """Each note once, and the first rows that have it."""
    for note in dict.fromkeys(row["note"] for row in rows if row["note"]):
        which = [f"{row['method']}, {_name(row)}, {row['measure']}" for row in rows if row["note"] == note]
        more = f" and {len(which) - FEW} more" if len(which) > FEW else ""
        say(console, note if len(which) == len(rows) else f"{'; '.join(which[:FEW])}{more}: {note}", "  ")


def _rows(methods: list[Json], level: str) -> list[Json]:
    """Rows of the correlations on a level."""
    return [
        row
        for one in methods
        for row in one["rows"]
        if row["level"] == level and row["measure"] in ("pearson", "kendall")
    ]


def _lines(methods: list[Json], level: str) -> list[list[str]]:
    """One line a method and part."""
    rows = _rows(methods, level)
    made = []
    for r, tau in zip(rows[::2], rows[1::2], strict=True):
        reached = ABSENT if r["share"] is None else f"{100 * r['share']:.0f}"
        made.append(
            [r["method"], _name(r), *_with_interval(r), *_with_interval(tau), number(r["ceiling"], ".2f"), reached]
        )
    return made


def _name(row: Json) -> str:
    return str(row["criterion"] or ("mean" if row["part"] == "mean" else "all"))


def _with_interval(row: Json) -> tuple[str, str]:
    between = ABSENT if row["low"] is None else f"{row['low']:.2f} to {row['high']:.2f}"
    return number(row["value"], ".2f"), between


def _differences(console: Console, section: Json) -> None:
    if not section["differences"]:
        return
    title(
        console,
        f"Difference from {section['differences'][0]['than']}, paired over {section['draws']:,} resamples of clusters",
    )
    rows = [
        [
            one["method"],
            row["measure"],
            number(row["value"], "+.3f"),
            ABSENT if row["low"] is None else f"{row['low']:+.3f} to {row['high']:+.3f}",
        ]
        for one in section["differences"]
        for row in one["rows"]
    ]
    table(console, ["method", "measure", "difference", "95 % interval"], rows, left=2)
