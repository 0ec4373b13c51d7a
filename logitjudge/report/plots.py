"""Figures of runs, for papers: one function each, which takes an ``ax`` and gives the Figure; `FIGURES` names those of `plot`.

Colours are safe for the colour-blind and differ in grey, too (Okabe and Ito, line styles, markers); a figure is as wide as one
column; fonts are embedded. How to read each, and what would be a sign of trouble, stands in its docstring.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from logitjudge import registry
from logitjudge.core import BoolArray, FloatArray
from logitjudge.debiasers import debias
from logitjudge.errors import InputError, NotObserved
from logitjudge.measures import cells, uncertainty
from logitjudge.measures.agreement import agreement
from logitjudge.measures.convergence import convergence
from logitjudge.measures.correlations import pearson
from logitjudge.measures.matrices import Estimator, score_position_matrix
from logitjudge.measures.pairs import pairs as pair_effects
from logitjudge.measures.reliability import of_run
from logitjudge.measures.swings import swings
from logitjudge.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 3.4  # inches: one column
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")  # Okabe and Ito
MARKERS, DASHES = "osD^v<>P", ("-", "--", "-.", ":")
STYLE: Any = {
    "font.size": 7,
    "axes.titlesize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "legend.frameon": False,
    "legend.fontsize": 6,
    "figure.dpi": 200,
    "savefig.bbox": "tight",
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
}
SUFFIXES = (".pdf", ".svg", ".png")
MOST_LEVELS = 8  # of costs over K!
LONG = 24  # characters of a name
MOST_ROWS = 120  # of `design`
LABELLED = 30  # rows of `design` with their scores written in


def _axes(ax: Axes | None, height: float = 2.4) -> Axes:
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    if ax is not None:
        return ax
    with mpl.rc_context(STYLE):
        return plt.figure(figsize=(WIDTH, height), layout="constrained").add_subplot()


def _figure(ax: Axes) -> Figure:
    figure: Any = ax.get_figure()
    return figure  # type: ignore[no-any-return]


def _short(name: str) -> str:
    """A name with its middle left out where it is long: names of models often differ at their ends."""
    name = "".join(letter if letter.isprintable() else "\ufffd" for letter in name)
    short = name if len(name) <= LONG else f"{name[: LONG // 2]}…{name[1 - LONG // 2 :]}"
    return short.replace("$", r"\$")  # no formula


def _whole(ax: Axes) -> None:
    """Only whole numbers below the axis."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def matrix(run: Run, *, estimator: Estimator = "soft", ax: Axes | None = None) -> Figure:
    """Score x position heat map, in %: P(position | score). Blue is below 1/K, orange above, white at 1/K.

    Bold: the simultaneous 95 % interval leaves 1/K out. A column of one colour is a liking for a position whatever the score; single
    cells that differ are interaction, which a choice of ordering can use. An empty row was never picked, or not observed.
    """
    ax = _axes(ax, 2.6)
    found = score_position_matrix(run, estimator)
    levels = len(found.scores)
    apart = 100 * (found.values - 1 / levels)
    most = max(float(np.nanmax(np.abs(apart))) if np.isfinite(apart).any() else 0.0, 1e-9)
    ax.imshow(apart, cmap="PuOr_r", vmin=-most, vmax=most, aspect="auto")
    sure = _surely_off(run, estimator, levels)
    for k, p in itertools.product(range(levels), repeat=2):
        value = found.values[k, p]
        text = "–" if np.isnan(value) else f"{100 * value:.0f}"
        dark = np.isfinite(value) and abs(apart[k, p]) > 0.6 * most
        weight = "bold" if sure[k, p] else "normal"
        ax.text(
            p,
            k,
            text,
            ha="center",
            va="center",
            color="white" if dark else "black",
            weight=weight,
            size=7 if levels <= 7 else 5,
        )
    ax.set_xticks(range(levels), [f"p{p + 1}" for p in range(levels)])
    ax.set_yticks(range(levels), [str(score) for score in found.scores])
    ax.set_xlabel("position")
    ax.set_ylabel("score")
    ax.set_title(f"P(position | score), {estimator}, %")
    return _figure(ax)


def _surely_off(run: Run, estimator: Estimator, levels: int) -> BoolArray:
    """(K, P) whether a cell varies and its interval leaves 1/K out; nowhere without intervals."""
    try:
        return uncertainty.matrix_intervals(uncertainty.resampled(run, estimator)).off
    except NotObserved:
        return np.zeros((levels, levels), np.bool_)


def positions(
    runs: Sequence[Run], names: Sequence[str], *, estimator: Estimator = "soft", ax: Axes | None = None
) -> Figure:
    """Share of picks at each position, one line a run, with simultaneous 95 % intervals (the paper's Figure 5).

    The grey line is 1/K, no position bias. Lines of one shape are a bias that judges share.
    """
    ax = _axes(ax)
    levels = len(runs[0].scores)
    drawn = []
    for n, (run, name) in enumerate(zip(runs, names, strict=True)):
        if len(run.scores) != levels:
            raise InputError(
                f"run {name!r} has {len(run.scores)} levels, {names[0]!r} has {levels}. Draw runs of one number of levels."
            )
        share = 100 * score_position_matrix(run, estimator).position_distribution()
        place = np.arange(1, levels + 1) + 0.04 * (n - (len(runs) - 1) / 2)
        look: Any = {"color": COLOURS[n % 8], "marker": MARKERS[n % 8], "ls": DASHES[n // 8 % 4]}
        bars = ax.errorbar(place, share, yerr=_half(run, estimator, share), capsize=1.5, elinewidth=0.7, **look)
        drawn.append(bars)
    ax.axhline(100 / levels, color="0.6", lw=0.8, zorder=0)
    ax.set_xticks(range(1, levels + 1))
    ax.set_ylim(bottom=0)
    ax.set_xlabel("position")
    ax.set_ylabel("share of probability, %" if estimator == "soft" else "share of picks, %")
    if len(runs) > 1:  # given, because a label that begins with "_" would be left out
        ax.legend(drawn, [_short(name) for name in names], ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.22))
    return _figure(ax)


def _half(run: Run, estimator: Estimator, share: FloatArray) -> FloatArray | None:
    """(2, P) arms of the intervals; None where there are none."""
    try:
        found = uncertainty.position_intervals(uncertainty.resampled(run, estimator))
    except NotObserved:
        return None
    if np.isnan(found.low).any():
        return None
    return np.maximum(0, np.stack([share - 100 * found.low, 100 * found.high - share]))


def costs(run: Run, *, ax: Axes | None = None) -> Figure:
    """Soft Bias Cost of all K! orderings, cheapest first; the identity, the cheapest and the dearest are named.

    A flat curve: no ordering is better than another, so average. The dashed line is an unbiased judge's cost with these items.
    """
    ax = _axes(ax)
    found = score_position_matrix(run)
    found.require_all()
    levels = len(found.scores)
    if levels > MOST_LEVELS:
        raise InputError(f"{levels} levels have {levels}! orderings. Costs are drawn for at most {MOST_LEVELS} levels.")
    every = cells.every(levels)
    cost = cells.costs(found.values[None], every)[0]
    order = np.argsort(cost, kind="stable")
    ax.plot(np.arange(1, len(cost) + 1), cost[order], color=COLOURS[0])
    named: dict[int, list[str]] = {}
    for name, which in (("cheapest", order[0]), ("dearest", order[-1]), ("identity", 0)):
        named.setdefault(int(np.flatnonzero(order == which)[0]), []).append(name)
    for rank, names in named.items():
        text = f"{', '.join(names)} {','.join(str(found.scores[k]) for k in every[order[rank]])}"
        height = float(cost[order[rank]])
        ax.plot([rank + 1], [height], "o", color=COLOURS[1])
        place: Any = {"xytext": (-4, 5), "ha": "right"} if 2 * rank >= len(order) else {"xytext": (5, -9), "ha": "left"}
        ax.annotate(text, (rank + 1, height), textcoords="offset points", size=6, **place)
    null = uncertainty.cost_intervals(uncertainty.resampled(run), run.orderings[:1]).unbiased[0]
    ax.axhline(null, color="0.5", ls="--", lw=0.8)
    ax.set_ylim(0, float(cost.max()) * 1.15)
    _whole(ax)
    ax.set_xlabel("rank among all orderings")
    ax.set_ylabel("Bias Cost")
    return _figure(ax)


def expected(run: Run, *, ax: Axes | None = None) -> Figure:
    """Mean expected score of the items under each ordering, in score points, orderings by size.

    The distance from end to end is how far the author of a rubric could push all scores by its ordering alone.
    """
    ax = _axes(ax)
    mean = (run.probs() @ run.scores).mean(axis=0)
    order = np.argsort(mean, kind="stable")
    ax.plot(np.arange(1, len(mean) + 1), mean[order], color=COLOURS[0], marker="o" if len(mean) <= 30 else None)
    ax.axhline(mean.mean(), color="0.6", lw=0.8)
    for which, up in ((order[0], -9), (order[-1], 5)):
        rank = int(np.flatnonzero(order == which)[0]) + 1
        text = ",".join(map(str, run.orderings[which].values(run.scores.tolist())))
        ax.annotate(
            text,
            (rank, mean[which]),
            xytext=(0, up),
            textcoords="offset points",
            size=6,
            ha="left" if rank == 1 else "right",
        )
    ax.margins(y=0.2)
    _whole(ax)
    ax.set_xlabel("ordering, by mean score")
    ax.set_ylabel("mean expected score")
    return _figure(ax)


def swing(run: Run, *, ax: Axes | None = None) -> Figure:
    """Each item's smallest and largest expected score over the orderings, items by size of the swing.

    Long bars: the score of that item is a matter of the ordering. The dot is the mean over orderings.
    """
    ax = _axes(ax)
    found = swings(run)
    mean = (run.probs() @ run.scores).mean(axis=1)
    order = np.argsort(-(found.high - found.low), kind="stable")
    place = np.arange(1, len(order) + 1)
    ax.vlines(place, found.low[order], found.high[order], color=COLOURS[5], lw=max(0.4, min(3.0, 120 / len(order))))
    ax.plot(place, mean[order], ".", color=COLOURS[0], ms=2.5)
    ax.set_ylim(run.scores[0], run.scores[-1])
    _whole(ax)
    ax.set_xlabel("item, by swing")
    ax.set_ylabel("expected score")
    return _figure(ax)


def certainty(run: Run, *, ax: Axes | None = None) -> Figure:
    """Swing of each item against its certainty: the margin between its two most probable scores, averaged over orderings.

    A slope downwards: order moves the uncertain items.
    """
    ax = _axes(ax)
    found, mean = swings(run), np.sort(run.probs().mean(axis=1), axis=1)
    ax.plot(100 * (mean[:, -1] - mean[:, -2]), found.high - found.low, "o", color=COLOURS[0], alpha=0.6, mec="none")
    ax.set_ylim(bottom=0)
    ax.set_xlabel("margin of the first score, points of %")
    ax.set_ylabel("swing, score points")
    return _figure(ax)


def plan(run: Run, *, ax: Axes | None = None) -> Figure:
    """How far the mean probability's score is from that of all K! orderings, against forward passes an item, by design.

    Needs a run of `full`. Where a line is low enough for your purpose, read its passes.
    """
    ax = _axes(ax)
    frame = convergence(run)
    frame = frame[(frame["quantity"] == "mean_prob") & (frame["value"] > 0)]
    for n, (name, rows) in enumerate(frame.groupby("design", sort=False)):
        ax.plot(
            rows["passes"],
            rows["value"],
            markevery=max(1, len(rows) // 8),
            color=COLOURS[n % 8],
            marker=MARKERS[n % 8],
            ls=DASHES[n // 8 % 4],
            label=str(name),
        )
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("forward passes an item")
    ax.set_ylabel("distance to all orderings, points")
    ax.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.22))
    return _figure(ax)


def people(
    run: Run, *, methods: Sequence[str] = ("mean_prob", "mean_logp", "mean_winner", "single"), ax: Axes | None = None
) -> Figure:
    """Pearson correlation of debiased scores with the ratings, with 95 % intervals, and the raters' ceiling where there is one.

    Intervals that overlap widely: these items cannot tell the methods apart.
    """
    ax = _axes(ax)
    rows = [agreement(run, name)["pearson"] for name in methods]
    if all(row.value is None for row in rows):
        raise NotObserved(f"there is no correlation with people: {rows[0].note}.")
    for n, row in enumerate(rows):
        if row.value is not None and row.low is not None and row.high is not None:
            ax.errorbar(
                row.value, n, xerr=[[row.value - row.low], [row.high - row.value]], fmt="o", color=COLOURS[0], capsize=2
            )
    if (best := of_run(run).ceiling) is not None:
        ax.axvline(best, color=COLOURS[1], ls="--", lw=1)
        ax.text(best, -0.7, "ceiling", ha="right", size=6, color=COLOURS[1])
    ax.axvline(0, color="0.6", lw=0.8, zorder=0)
    ax.set_yticks(range(len(rows)), methods)
    ax.set_ylim(len(rows) - 0.5, -1)
    ax.set_xlabel(f"Pearson correlation with {_short(rows[0].target)}")
    return _figure(ax)


def mass(run: Run, *, ax: Axes | None = None) -> Figure:
    """Probability that falls on any option, by ordering: median, quartiles and least of the items.

    Below one half the judge mostly wants to say something else, and the scores are of little worth.
    """
    ax = _axes(ax)
    share = 100 * run.mass
    place = np.arange(1, share.shape[1] + 1)
    low, middle, high = np.quantile(share, (0.25, 0.5, 0.75), axis=0)
    ax.fill_between(place, low, high, color=COLOURS[5], alpha=0.5, lw=0, label="quartiles")
    ax.plot(place, middle, color=COLOURS[0], label="median")
    ax.plot(place, share.min(axis=0), color=COLOURS[1], ls=":", label="least")
    ax.set_ylim(0, 102)
    _whole(ax)
    ax.set_xlabel("ordering, as run")
    ax.set_ylabel("mass on the options, %")
    ax.legend(loc="lower right")
    return _figure(ax)


def correlations(run: Run, *, ax: Axes | None = None) -> Figure:
    """Mean expected score against Pearson correlation with the ratings, one dot an ordering; orange: the average over all.

    Dots far apart to the right and left: the ordering moves all scores. Far apart up and down: it decides how well they agree with
    people. The average should lie near the top; dots above it are no better unless they stay above on other items.
    """
    ax = _axes(ax)
    rated = np.isfinite(run.ratings)
    if rated.sum() < 2:
        raise NotObserved("fewer than two items have a rating, so there is no correlation with people.")
    scores = (run.probs() @ run.scores)[rated]  # (I, O)
    every = np.column_stack([scores, debias(run, "mean_prob").score[rated]])
    r = pearson(every, run.ratings[rated], np.ones((1, len(every))))[0]
    if np.isnan(r).all():
        raise NotObserved("the ratings, or the scores, do not vary, so there is no correlation with people.")
    mean = every.mean(axis=0)
    ax.plot(mean[:-1], r[:-1], "o", color=COLOURS[0], alpha=0.7, mec="none", label="an ordering")
    ax.plot(mean[-1:], r[-1:], "D", color=COLOURS[1], label="average over orderings")
    identity = next((o for o, one in enumerate(run.orderings) if one.shown == tuple(range(len(run.scores)))), None)
    if identity is not None:
        ax.plot(mean[identity], r[identity], "o", mfc="none", mec="black")
        ax.annotate("identity", (mean[identity], r[identity]), xytext=(4, 3), textcoords="offset points", size=6)
    ax.margins(0.12)
    ax.set_xlabel("mean expected score")
    ax.set_ylabel(f"Pearson r with {_short(run.ratings_name)}")
    ax.legend(ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.2))
    return _figure(ax)


def debiasers(run: Run, *, methods: Sequence[str] | None = None, ax: Axes | None = None) -> Figure:
    """How far each method moves the items' scores from their mean probability over orderings: middle half, 95 %, median.

    `single` is the plain reading under the rubric's own ordering: its box is what debiasing changes at all. A narrow box at 0: the
    method says the same as averaging. A box off 0 moves all items alike, which correlations do not see.
    """
    ax = _axes(ax)
    base = debias(run, "mean_prob").score
    made = {name: one for name in methods or _methods() if (one := _debiased(run, name)) is not None}
    if not made:
        raise NotObserved("none of these methods can be used on this run.")
    ax.boxplot(
        [one - base for one in made.values()], orientation="horizontal", whis=(2.5, 97.5), showfliers=False, widths=0.6,
        medianprops={"color": COLOURS[1], "lw": 1.4}, boxprops={"lw": 0.8}, whiskerprops={"lw": 0.8}, capprops={"lw": 0.8},
    )  # fmt: skip
    ax.axvline(0, color="0.6", lw=0.8, zorder=0)
    ax.set_yticks(range(1, len(made) + 1), list(made))
    ax.invert_yaxis()
    ax.set_xlabel("score minus mean over orderings (mean_prob), points")
    return _figure(ax)


def _methods() -> list[str]:
    return [name for name in registry.names("debiasers") if name != "mean_prob"]


def _debiased(run: Run, name: str) -> FloatArray | None:
    """(I,) scores; None where the run's orderings do not give the method."""
    try:
        return debias(run, name).score
    except InputError:
        return None


def pairs(run: Run, *, ax: Axes | None = None) -> Figure:
    """Content against position effect of each pair, nats of log-odds; orange: the verdict changes with the order.

    A cloud above 0: a liking for what is shown first. Above and below the dotted lines the place is stronger than the content, and
    without ties the order decides the winner.
    """
    ax = _axes(ax)
    found = pair_effects(run)
    for which, colour, marker, label in (
        (~found.flipped, COLOURS[0], "o", "same verdict in both orders"),
        (found.flipped, COLOURS[1], "^", "changes with the order"),
    ):
        ax.plot(
            found.content[which], found.position[which], marker, ls="", color=colour, alpha=0.6, mec="none", label=label
        )
    most = float(max(np.abs(found.content).max(), np.abs(found.position).max(), 1e-9))
    for sign in (-1, 1):
        ax.plot([-most, most], [-sign * most, sign * most], ls=":", color="0.6", lw=0.8, zorder=0)
    ax.axhline(0, color="0.6", lw=0.8, zorder=0)
    ax.set_xlabel("content, for candidate 1, nats")
    ax.set_ylabel("position, for the first shown, nats")
    ax.legend(ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.2))
    return _figure(ax)


def design(run: Run, *, ax: Axes | None = None) -> Figure:
    """The orderings of a run as a picture: one row an ordering, one shade a score (of `balanced`, the paper's Figure 4).

    In a balanced design every column holds every shade equally often; a column that does not favours some score there.
    """
    rows = run.shown[:MOST_ROWS]
    ax = _axes(ax, max(1.2, min(4.5, 0.5 + 0.22 * len(rows))))
    levels = len(run.scores)
    ax.imshow(rows, cmap="Blues", vmin=-1, vmax=levels * 1.4, aspect="auto")
    if len(rows) <= LABELLED:
        for o, p in np.ndindex(rows.shape):
            ax.text(p, o, str(run.scores[rows[o, p]]), ha="center", va="center", size=7 if levels <= 7 else 5)
    ax.set_xticks(range(levels), [f"p{p + 1}" for p in range(levels)])
    ax.set_yticks([])
    ax.set_ylabel(
        f"{len(rows)} orderings" if len(rows) == len(run.shown) else f"first {len(rows)} of {len(run.shown)} orderings"
    )
    return _figure(ax)


FIGURES: dict[str, Callable[..., Figure]] = {
    "positions": positions, "matrix": matrix, "costs": costs, "expected": expected, "swing": swing, "certainty": certainty,
    "plan": plan, "debiasers": debiasers, "people": people, "correlations": correlations, "mass": mass, "design": design, "pairs": pairs,
}  # fmt: skip


def draw(name: str, runs: Sequence[Run], names: Sequence[str], **options: Any) -> Figure:
    """One of `FIGURES`. Raises `InputError` where it is of one run, and several are given."""
    import matplotlib as mpl
    from matplotlib import pyplot as plt  # noqa: F401  (imported within rc_context it would make a notebook's figures stay away)

    with mpl.rc_context(STYLE):
        if name == "positions":
            for run in runs:
                run.require_kind("rubric")
            return positions(runs, names, **options)
        if len(runs) > 1:
            raise InputError(
                f"the figure {name!r} is of one run, and {len(runs)} are given. Only 'positions' draws several."
            )
        runs[0].require_kind("pairwise" if name == "pairs" else "rubric")
        return FIGURES[name](runs[0], **options)


def save(figure: Figure, path: Path) -> None:
    """Write a figure as its suffix says, and close it. Raises `InputError`."""
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{path}: a figure is written as {', '.join(SUFFIXES)}.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with mpl.rc_context(STYLE):
            figure.savefig(path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}. Choose another --out.") from error
    finally:
        plt.close(figure)
