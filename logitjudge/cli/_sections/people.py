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
    _systems(console, section["methods"])
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
    for one in section["methods"]:
        if one["share_of_ceiling"] is not None:
            say(console, f"{one['method']}: {100 * one['share_of_ceiling']:.0f} % of the ceiling.", "  ")


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


def _systems(console: Console, methods: list[Json]) -> None:
    for one in methods:
        if found := one["systems"]:
            numbers = f"r {number(found['pearson'], '.2f')}, rho {number(found['spearman'], '.2f')} over {found['systems']} systems"
            say(console, f"{one['method']}, means by system: {found['note'] or numbers}.")


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
