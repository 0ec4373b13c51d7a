"""Tables of a report: what `page` says of a run and figures do not show, as captions, heads, rows and sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

ABSENT = "–"
REMARKS = ("note", "noise could explain it")  # columns that go where they say nothing
SCALES = {"clr": "log-ratios, nats", "expected": "expected score, points"}
NEARNESS = {"near_tie": "near a tie", "entropy": "entropy", "inside": "inside the scale"}
CLOSENESS = {
    "pearson": "Pearson", "spearman": "Spearman", "kendall": "Kendall tau-b", "quadratic_kappa": "quadratic kappa", "exact": "exact",
    "absolute_error": "absolute error", "pair_accuracy": "pairs in order",
}  # fmt: skip
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Table:
    """A table: the first column heads the rows.

    Parameters
    ----------
    caption, head
        What it shows; names of the columns.
    rows
        Cells as text; `ABSENT` is what does not exist.
    words
        Columns of text, by name: they stand left and sort as text.
    notes
        Sentences below.
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: Sequence[str] = ()
    notes: Sequence[str] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        said = [
            n
            for n, name in enumerate(self.head)
            if name not in REMARKS or any(row[n] not in ("", ABSENT) for row in self.rows)
        ]
        object.__setattr__(self, "head", [self.head[n] for n in said])
        object.__setattr__(self, "rows", [[row[n] for n in said] for row in self.rows])


def percent(value: float | None) -> str:
    """Probability in percent, without the sign."""
    return ABSENT if value is None else f"{100 * value:.1f}"


def number(value: float | None, form: str = ".3f") -> str:
    """Number with sensible digits."""
    return ABSENT if value is None else format(value, form)


def ordering(values: Iterable[int]) -> str:
    """Write an ordering as the command line does."""
    return ",".join(map(str, values))


def sentence(text: str) -> str:
    """Text as a sentence of its own."""
    return f"{text[0].upper()}{text[1:].rstrip('.')}."


def _yes(value: bool | None) -> str:
    return ABSENT if value is None else "yes" if value else "no"


def _places(levels: int) -> list[str]:
    return [f"p{p + 1}" for p in range(levels)]


def matrix(summary: Json, kind: str) -> Table:
    """Score x position, with what each row rests on."""
    rows = [
        [str(row["score"]), *map(percent, cells), number(row["picks"], ".1f"), number(row["effective_items"], ".1f")]
        for row, cells in zip(summary["rows"][kind], summary["score_position"][kind], strict=True)
    ]
    what = "where the probability of each score falls" if kind == "soft" else "where the winning score stands"
    notes = [sentence(f"{row['reason']}") for row in summary["rows"][kind] if row["reason"]]
    heads = ["score", *_places(len(rows)), "picks", "effective items"]
    return Table(f"Score by position, {kind}: {what}, %", heads, rows, notes=notes)


def costs(summary: Json, uncertainty: Json, kind: str) -> Table | None:
    """Bias Cost of the run's orderings, with intervals where there are any."""
    found = uncertainty.get(kind, {}).get("costs")
    if found is None:
        return None
    rows = [
        [
            ordering(row["ordering"]),
            *(number(row[name]) for name in ("cost", "low", "high", "unbiased")),
            _yes(row["within_noise"]),
        ]
        for row in found
    ]
    notes = ["Unbiased: what a judge without position bias would show on average with these items."]
    if spread := summary["cost_spread"][kind]:
        notes.append(_spread(spread))
    if any(row["low"] is None and row["cost"] is not None for row in found):
        notes.append("No interval: some cells of the ordering do not vary, because their scores are hardly used.")
    heads = ["ordering", "cost", "from", "to", "unbiased", "noise could explain it"]
    words = ("ordering", "noise could explain it")
    return Table(f"Bias Cost of the orderings that were read, {kind}, with 95 % intervals", heads, rows, words, notes)


def _spread(spread: Json) -> str:
    ends = (
        f"{name} {ordering(spread[name]['ordering'])} ({spread[name]['cost']:.3f})" for name in ("cheapest", "dearest")
    )
    return f"Of all orderings: {', '.join(ends)}, mean {spread['mean']:.3f}, the scores in their order {spread['identity']:.3f}."


def agreement(summary: Json) -> Table | None:
    """Correlations with the ratings."""
    if not summary["agreement"]:
        return None
    rows = [
        [row["method"], row["measure"], *(number(row[name], ".2f") for name in ("value", "low", "high")), row["note"]]
        for row in summary["agreement"]
    ]
    heads = ["method", "measure", "value", "from", "to", "note"]
    return Table(f"Agreement with {summary['ratings_name']}", heads, rows, ("method", "measure", "note"))


def uncertainty(found: Json) -> list[Table]:
    """How sure the position bias is, soft and hard."""
    made = []
    for kind in ("soft", "hard"):
        if "reason" not in found[kind]:
            made += [_positions(found, kind), _cells(found, kind)]
    return made


def _positions(section: Json, kind: str) -> Table:
    found = section[kind]
    shares, least = found["positions"], found["detectable"]["by_position"]
    within = shares["within_noise"] or [None] * len(least)
    rows = [
        [name, *map(percent, cells), _yes(noise)]
        for name, *cells, noise in zip(
            _places(len(least)), shares["value"], shares["low"], shares["high"], least, within, strict=True
        )
    ]
    notes = [
        f"{section['clusters']} clusters, resampled {section['draws']} times. Detectable: the least deviation that a test of that "
        f"position finds with power {found['detectable']['power']:g}.",
        *([sentence(shares["note"])] if shares["note"] else []),
        *_tests(found, len(least)),
    ]
    heads = ["position", "share", "from", "to", "detectable", "noise could explain it"]
    caption = f"Share at each position, {kind}, %, with 95 % intervals that hold together"
    return Table(caption, heads, rows, ("position", heads[-1]), notes)


def _tests(found: Json, levels: int) -> list[str]:
    test, equal, wanted = found["test"], found["equivalence"], found["clusters_for"]
    note = f" ({test['note']})" if test["note"] else ""
    if test["f"] is None:
        made = [f"Test of position bias{'' if test['p'] is None else ': p = ' + format(test['p'], 'g')}{note}."]
    else:
        degrees = ", ".join(format(number, ".4g") for number in test["degrees"])
        made = [f"Null: {test['null']}. Hotelling F({degrees}) = {test['f']:.3g}, p {_p(test['p'])}{note}."]
    if equal["p"] is not None and equal["p"] > 0.05 and equal["note"]:
        made.append(
            f"Whether all shares are within {100 * equal['margin']:g} points cannot be tested: {equal['note']}."
        )
    elif equal["p"] is not None:
        inside = "are" if equal["p"] <= 0.05 else "cannot be said to be"
        made.append(
            f"All shares {inside} within {100 * equal['margin']:g} points of {100 / levels:.1f} % (two one-sided tests, "
            f"p {_p(equal['p'])})."
        )
    if wanted["clusters"] is not None:
        made.append(
            f"To find {100 * wanted['effect']:g} points off at any position takes about {wanted['clusters']} clusters."
        )
    return made


def _p(value: float) -> str:
    return f"= {value:.3f}" if value >= 0.001 else "< 0.001"


def _cells(section: Json, kind: str) -> Table:
    cells, scores = section[kind]["cells"], section["scores"]
    levels = len(scores)
    off = [(k, p) for k in range(levels) for p in range(levels) if cells["off"][k][p]]
    rows = [
        [
            str(scores[k]),
            f"p{p + 1}",
            *(percent(cells[name][k][p]) for name in ("value", "low", "high")),
            _yes(cells["within_noise"] and cells["within_noise"][k][p]),
        ]
        for k, p in off
    ]
    notes = [
        f"Score {score} has no interval: {reason}."
        for score, reason in zip(scores, cells["reasons"], strict=True)
        if reason
    ]
    if not rows:
        notes.insert(0, "None: with intervals that hold together for all cells, no cell is surely off.")
    heads = ["score", "position", "share", "from", "to", "noise could explain it"]
    caption = f"Score by position, {kind}: cells whose interval leaves {100 / levels:.1f} % out, %"
    return Table(caption, heads, rows, ("position", heads[-1]), notes)


def where(found: Json) -> list[Table]:
    """Where bias lives."""
    if "reason" in found:
        return []
    return [
        *(_variance(on, part) for on, part in found["decomposition"].items() if "terms" in part),
        *(_certainty(found["certainty"]) if "reason" not in found["certainty"] else []),
        *([_groups(found["groups"])] if found["groups"]["rows"] else []),
        _reweighted(found["reweighted"]),
        *([_thresholds(found["thresholds"])] if "reason" not in found["thresholds"] else []),
        *([_systems(found["systems"])] if "reason" not in found["systems"] else []),
        _shapes(found["ordinal"]),
        *_calibration(found["calibration"]),
    ]


def _variance(on: str, part: Json) -> Table:
    rows = [
        [term["name"], str(term["freedom"]), percent(term["share"]), percent(term["chance"]), term["reason"]]
        for term in part["terms"]
    ]
    notes = ["Chance: what items alone would show."]
    if not part["balanced"]:
        notes.append("The design is not balanced: each term is what it adds to those before it.")
    heads = ["term", "dimensions", "share", "chance", "note"]
    return Table(f"Where the variance lies: {SCALES[on]}, %", heads, rows, ("term", "note"), notes)


def _certainty(found: Json) -> list[Table]:
    rows = []
    for row in found["associations"]:
        what = NEARNESS[row["nearness"]] + (f", given {NEARNESS[row['given']]}" if row["given"] else "")
        rows.append(
            [row["movement"], what, *(number(row[name], ".2f") for name in ("value", "low", "high")), row["note"]]
        )
    heads = ["movement in", "goes with", "value", "from", "to", "note"]
    note = (
        "Worst at near ties: near a tie stays above 0 given inside the scale. Only away from ceiling and floor: inside the scale "
        "stays above 0 given near a tie. In points and flips a certain item can hardly move; in nats nothing holds it."
    )
    cells = [
        [
            f"{cell['third']}, {cell['place']}",
            str(cell["items"]),
            *(number(cell[name]) for name in ("points", "flips", "nats")),
        ]
        for cell in found["cells"]
    ]
    caption = "Does order move uncertain items more? Rank correlations over items, with 95 % intervals"
    return [
        Table(caption, heads, rows, ("movement in", "goes with", "note"), [note]),
        Table(
            "Movement by margin and place",
            ["third by margin, place", "items", "points", "flips", "nats"],
            cells,
            ("third by margin, place",),
        ),
    ]


def _groups(found: Json) -> Table:
    rows = [
        [
            f"{row['group']}: {row['value']}",
            str(row["items"]),
            str(row["clusters"]),
            *(number(row[name]) for name in ("distance", "movement", "error")),
            number(row["score"], ".2f"),
            row["note"],
        ]
        for row in found["rows"]
    ]
    notes = [
        "Distance: sum of |share - 1/K|; it is above 0 by chance, too, and the more so the fewer items: compare groups of a size. "
        "Movement: in score points.",
        *(f"{row['group']}: {row['reason']}." for row in found["left_out"]),
    ]
    heads = ["group", "items", "clusters", "distance", "movement", "standard error", "score", "note"]
    return Table("Bias by group", heads, rows, ("group", "note"), notes)


def _reweighted(found: Json) -> Table:
    rows = [
        [
            label,
            *map(percent, found[f"positions{key}"]),
            number(found[f"movement{key}"]),
            number(found[f"score{key}"], ".2f"),
        ]
        for label, key in (("as it is", "_before"), ("weighted", ""))
    ]
    missing = f" No item has the score(s) {', '.join(map(str, found['missing']))}." if found["missing"] else ""
    note = f"As precise as {found['effective_items']:.1f} equal items of {sum(found['items'])}.{missing}"
    heads = ["items", *_places(len(found["positions"])), "movement", "score"]
    return Table("Every score that some item has weighted alike: positions, %", heads, rows, ("items",), [note])


def _thresholds(found: Json) -> Table:
    rows = [
        [
            f"{row['thresholds']:g}",
            *(percent(row[name]) for name in ("crossing", "pass_low", "pass_high")),
            row["strictest"],
            row["kindest"],
        ]
        for row in found["rows"]
    ]
    heads = ["pass from", "cross", "pass at least", "pass at most", "strictest", "kindest"]
    caption = "Decisions: items on both sides of a threshold, depending on the ordering, %"
    return Table(caption, heads, rows, ("strictest", "kindest"))


def _systems(found: Json) -> Table:
    rows = [
        [
            str(row["system"]),
            str(row["items"]),
            number(row["score"], ".2f"),
            *(number(row[name], "g") for name in ("rank", "best", "worst")),
        ]
        for row in found["rows"]
    ]
    note = (
        f"{len(found['changed'])} of {len(rows)} systems change their rank with the ordering, and {len(found['swaps'])} pairs change "
        "places. Which differences are real is another question."
    )
    heads = ["system", "items", "score", "rank", "best", "worst"]
    return Table("Systems: rank by mean score, and its range over single orderings", heads, rows, ("system",), [note])


def _shapes(found: Json) -> Table:
    rows = [
        ["readings with two humps, %", percent(found["two_humped"])],
        ["items with two humps, orderings averaged, %", percent(found["middle_two_humped"])],
        ["Wasserstein distance between two orderings, points", number(found["distance"])],
        ["of it, difference of the expected scores, points", number(found["shift"])],
        ["expected score to mode, points", number(found["from_mode"])],
        ["expected score to median, points", number(found["from_median"])],
    ]
    note = f"Two humps: a score at least {found['deep']:g} below what stands on both sides of it."
    return Table("Are the probabilities those of ordered scores?", ["what", "mean"], rows, ("what",), [note])


def _calibration(found: Json) -> list[Table]:
    there = {of: part for of, part in found.items() if "reason" not in part}
    if not there:
        return []
    one = next(iter(there.values()))
    rows = [
        [of, number(part["log_score"]), number(part["ece"]), percent(part["confidence"]), percent(part["hit"])]
        for of, part in there.items()
    ]
    note = (
        f"Log score in nats: {number(one['floor'])} at best, {number(one['base'])} for the raters' overall distribution. A liking for "
        "a label stays in all of them. ECE is above 0 by chance, too."
    )
    heads = ["distribution", "log score", "ECE", "winner's probability, %", "raters on it, %"]
    caption = f"Probabilities against {one['target']}, {one['items']} rated items"
    return [Table(caption, heads, rows, ("distribution",), [note])]


def people(found: Json) -> list[Table]:
    """Agreement with the ratings in full."""
    if "reason" in found:
        return []
    return [_pooled(found), _parts(found), *([_differences(found)] if found["differences"] else [])]


def _pooled(found: Json) -> Table:
    rows = [
        [one["method"], str(one["pooled"]["items"]), *(number(one["pooled"][name], ".2f") for name in CLOSENESS)]
        for one in found["methods"]
    ]
    return Table(
        "Agreement by method, all items pooled",
        ["method", "items", *CLOSENESS.values()],
        rows,
        ("method",),
        _raters(found["reliability"]),
    )


def _raters(found: Json) -> list[str]:
    alpha = f"{number(found['alpha_ordinal'], '.2f')} (ordinal) and {number(found['alpha_interval'], '.2f')} (interval)"
    made = [f"Raters of an item: {found['raters']} at most. Krippendorff's alpha {alpha}."]
    if found["ceiling"] is not None:
        made.append(f"Ceiling of a Pearson correlation with their mean: {found['ceiling']:.2f}.")
    return made + ([sentence(found["note"])] if found["note"] else [])


def _parts(found: Json) -> Table:
    rows = [
        [
            row["method"],
            row["measure"],
            str(row["criterion"] or ("mean" if row["part"] == "mean" else "all")),
            row["level"],
            *(number(row[name], ".2f") for name in ("value", "low", "high", "ceiling")),
            percent(row["share"]),
            row["note"],
        ]
        for one in found["methods"]
        for row in one["rows"]
    ]
    heads = ["method", "measure", "part", "over", "value", "from", "to", "ceiling", "of the ceiling, %", "note"]
    caption = "Correlations with 95 % intervals, and the share of the ceiling"
    return Table(caption, heads, rows, ("method", "measure", "part", "over", "note"))


def _differences(found: Json) -> Table:
    rows = [
        [one["method"], row["measure"], *(number(row[name], "+.3f") for name in ("value", "low", "high")), row["note"]]
        for one in found["differences"]
        for row in one["rows"]
    ]
    heads = ["method", "measure", "difference", "from", "to", "note"]
    caption = f"Difference from {found['differences'][0]['than']}, paired over {found['draws']} resamples of clusters"
    return Table(caption, heads, rows, ("method", "measure", "note"))


def masses(summary: Json) -> list[Table]:
    """Items with little mass on the options, and what took it."""
    mass = summary["mass"] or {}
    low = [[row["id"], percent(row["mass"])] for row in mass.get("low", ())]
    tokens = [[repr(row["text"]), percent(row["prob"])] for row in mass.get("top_tokens", ())]
    made = []
    if low:
        made.append(
            Table("Items with a reading whose mass on the options is low, %", ["item", "least mass"], low, ("item",))
        )
    if tokens:
        made.append(
            Table("Tokens that begin no option: mean probability, %", ["token", "probability"], tokens, ("token",))
        )
    return made


def refused(summary: Json) -> Table | None:
    """Items that could not be judged."""
    rows = [[str(row["id"]), str(row["reason"])] for row in summary["refused_items"]]
    return Table("Refused items", ["item", "reason"], rows, ("item", "reason")) if rows else None


def texts(summary: Json) -> list[str]:
    """Sentences on what a judge wrote before its scores were read."""
    traces = summary["traces"]
    if not traces:
        return []
    drawn = f"drawn at temperature {traces['temperature']:g}" if traces["temperature"] else "greedy"
    made = [f"{traces['samples']} text(s) of the judge for each prompt, {drawn}."]
    if "count" in traces:
        made.append(
            f"Of {traces['count']} texts {traces['ended']} ended with {traces['end_marker']!r}, {traces['end']} without it, "
            f"{traces['length']} were too long; {traces['named']} name a score."
        )
    if errors := traces["standard_error"]:
        made.append(
            f"Standard error over the samples: median {errors['median']:.2g}, largest {errors['max']:.2g} points."
        )
    return made


def shared(summary: Json) -> Table | None:
    """Positions by the ordering that a text was written under, and by that of its reading."""
    found = (summary["traces"] or {}).get("shared")
    if not found:
        return None
    levels = len(summary["scores"])
    labels = {"all": "all texts", "named": "texts that name a score", "unnamed": "texts that name none"}
    rows = [
        [label, side, str(one["texts"]), *map(percent, one[side] or [None] * levels)]
        for name, label in labels.items()
        if (one := found[name]) and one["texts"]
        for side in ("source", "reading")
    ]
    notes = ["Source: positions in the ordering that a text was written under; reading: in that of the reading."]
    heads = ["texts", "by", "count", *_places(levels)]
    return Table("Through the text, and through the reading: positions, %", heads, rows, ("texts", "by"), notes)


def together(found: Json) -> list[Table]:
    """All runs side by side, of `logitjudge.report.compare.comparison`: their numbers, and what they are."""
    runs = found["runs"]
    levels = max(len(row["scores"]) for row in runs)
    heads = [
        "run", "judge", "items", *_places(levels), "cheapest ordering", "its cost", "identity's cost", "r with ratings", "mass, %",
        "noise floor, nats",
    ]  # fmt: skip
    notes = [
        "p1 to pK: share of probability at each position, % (of picks, where a run has no probabilities); without position bias "
        f"{' or '.join(_even(runs))}. r: Pearson correlation of mean_prob with the ratings (of mean_winner, without probabilities). "
        "A cheapest ordering here is cheapest on these very items; whether it is distinguishably better is in each run's verdict.",
    ]
    rows = [_run(row, levels) for row in runs]
    return [
        Table("Position bias, costs, agreement", heads, rows, ("run", "judge", "cheapest ordering"), notes),
        _what(found),
    ]


def _even(runs: Sequence[Json]) -> list[str]:
    return [f"{100 / levels:.1f}" for levels in sorted({len(row["scores"]) for row in runs})]


def _run(row: Json, levels: int) -> list[str]:
    shares = row["position_distribution"]["soft"] or row["position_distribution"]["hard"]
    best = row["cheapest"]
    return [
        row["name"],
        row["model"],
        str(row["items"]),
        *map(percent, shares),
        *[ABSENT] * (levels - len(shares)),
        ordering(best["ordering"]) if best else ABSENT,
        number(best and best["cost"]),
        number(row["identity"]),
        number(_pearson(row).get("value"), ".2f"),
        percent(row["mass"] and row["mass"]["mean"]),
        number(row["noise_floor"], ".2g"),
    ]


def _pearson(row: Json) -> Json:
    return next((found for found in row["agreement"] if found["measure"] == "pearson"), {})


def _what(found: Json) -> Table:
    rows = []
    for row in found["runs"]:
        r = _pearson(row)
        counts = (str(row[name]) for name in ("clusters", "orderings"))
        rows.append([
            row["name"], row["dataset"], row["protocol"], *counts, r.get("target", ABSENT),
            *(number(r.get(name), ".2f") for name in ("value", "low", "high")), r.get("note", ""),
        ])  # fmt: skip
    heads = ["run", "data", "protocol", "clusters", "orderings", "ratings", "r", "from", "to", "note"]
    words = ("run", "data", "protocol", "ratings", "note")
    return Table("What was run, and r with its 95 % interval", heads, rows, words, [found["note"]])
