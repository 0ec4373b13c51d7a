"""Figures: every one for few and many levels and runs, with all text inside, and files as papers want them."""

import matplotlib as mpl
import numpy as np
import pytest
from planted_runs import run_of

import logitjudge as lj
from logitjudge import cli
from logitjudge.cli import plot
from logitjudge.errors import InputError
from logitjudge.orderings import parse
from logitjudge.report import plots

mpl.use("agg")
ONE = [name for name in plots.FIGURES if name not in ("positions", "pairs")]


def planted(levels=5, design="balanced", count=24, seed=0):
    rng = np.random.default_rng(seed)
    place = np.array([o.position_of for o in parse(design, tuple(range(1, levels + 1)))])
    bias = np.linspace(0.8, 0, levels)
    logits = rng.normal(0, 1.5, (count, 1, levels)) + bias[place] + rng.normal(0, 0.3, (count, len(place), levels))
    probs = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    items = [lj.Item(f"i{n}", {}, human=(float(1 + n % levels),)) for n in range(count)]
    return run_of(probs, design, items=items, provenance={"ratings_name": "human", "raters": "slots"})


def all_inside(figure):
    """No text reaches beyond what is saved."""
    figure.canvas.draw()
    whole = figure.get_tightbbox()
    dpi = figure.dpi
    for ax in figure.axes:
        for text in [*ax.texts, ax.title, ax.xaxis.label, ax.yaxis.label]:
            if not text.get_text():
                continue
            box = text.get_window_extent()
            assert box.x0 / dpi >= whole.x0 - 0.05
            assert box.x1 / dpi <= whole.x1 + 0.05


@pytest.mark.parametrize("levels", [2, 5, 10])
@pytest.mark.parametrize("name", [name for name in ONE if name not in ("costs", "plan")])
def test_a_figure_of_few_and_of_many_levels(name, levels, tmp_path):
    figure = plots.draw(name, [planted(levels)], ["one"])
    all_inside(figure)
    plots.save(figure, tmp_path / "f.png")
    assert (tmp_path / "f.png").stat().st_size > 5_000


def test_the_matrix_says_what_the_measure_says():
    run = planted()
    figure = plots.matrix(run)
    values = lj.score_position_matrix(run).values
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert texts == [f"{100 * value:.0f}" for value in values.ravel()]
    bold = [text.get_weight() == "bold" for text in figure.axes[0].texts]
    assert any(bold)
    assert not all(bold)


def test_costs_and_plan_of_all_orderings(tmp_path):
    run = planted(4, "full")
    figure = plots.draw("costs", [run], ["one"])
    labels = [text.get_text() for text in figure.axes[0].texts]
    spread = lj.cost_spread(lj.score_position_matrix(run))
    assert f"cheapest {','.join(map(str, spread.cheapest.values))}" in labels
    assert "identity 1,2,3,4" in labels
    line = figure.axes[0].lines[0].get_ydata()
    assert (line[0], line[-1], len(line)) == (
        pytest.approx(spread.cheapest.cost),
        pytest.approx(spread.dearest.cost),
        24,
    )
    plots.save(figure, tmp_path / "costs.pdf")
    plots.save(plots.draw("plan", [run], ["one"]), tmp_path / "plan.svg")
    assert "forward passes" in (tmp_path / "plan.svg").read_text()  # text stays text
    with pytest.raises(InputError, match="at most 8 levels"):
        plots.costs(planted(10))


def test_one_label_names_an_ordering_that_is_two_things():
    texts = [text.get_text() for text in plots.costs(planted(2)).axes[0].texts]
    assert texts == ["cheapest, identity 1,2", "dearest 2,1"]


def test_a_long_name_keeps_both_ends():
    assert plots._short("organisation/model-of-a-size-7b-instruct") == "organisation…7b-instruct"
    assert len(plots._short("x" * 99)) == 24


def test_a_name_is_no_formula(tmp_path):
    figure = plots.draw("positions", [planted(), planted()], [r"$\frac$", "$x$ 2"])
    plots.save(figure, tmp_path / "p.png")
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == [r"\$\frac\$", r"\$x\$ 2"]


@pytest.mark.parametrize("count", [1, 8])
def test_positions_of_several_runs(count, tmp_path):
    runs = [planted(seed=seed) for seed in range(count)]
    names = [f"a-very-long-name-of-a-model-{n}" for n in range(count)]
    figure = plots.draw("positions", runs, names)
    all_inside(figure)
    lines = [line for line in figure.axes[0].lines if len(line.get_xdata()) == 5]
    shares = [line.get_ydata() for line in lines if line.get_marker() in plots.MARKERS]
    np.testing.assert_allclose(shares, [100 * lj.position_distribution(run) for run in runs])
    plots.save(figure, tmp_path / "p.pdf")
    assert b"/FontFile2" in (tmp_path / "p.pdf").read_bytes()  # embedded


def test_what_cannot_be_drawn_is_one_message(tmp_path):
    with pytest.raises(InputError, match="is of one run, and 2 are given"):
        plots.draw("matrix", [planted(), planted()], ["a", "b"])
    with pytest.raises(InputError, match="levels"):
        plots.draw("positions", [planted(5), planted(4)], ["a", "b"])
    with pytest.raises(InputError, match="written as .pdf, .svg, .png"):
        plots.save(plots.design(planted(3)), tmp_path / "f.gif")


def test_the_design_is_drawn_row_by_row():
    figure = plots.design(planted(3))
    assert [text.get_text() for text in figure.axes[0].texts[:6]] == ["1", "2", "3", "2", "3", "1"]
    many = plots.design(planted(5, "full")).axes[0]
    assert (many.texts[:], many.get_ylabel()) == ([], "120 orderings")
    assert plots.design(planted(6, "random:200")).axes[0].get_ylabel() == "first 120 of 200 orderings"


def test_each_ordering_stands_at_its_mean_score_and_correlation():
    run = planted()
    dots, average, identity = plots.correlations(run).axes[0].lines
    expected = run.probs() @ run.scores
    np.testing.assert_allclose(dots.get_xdata(), expected.mean(axis=0))
    wanted = [np.corrcoef(expected[:, o], run.ratings)[0, 1] for o in range(10)]
    np.testing.assert_allclose(dots.get_ydata(), wanted)
    assert identity.get_xdata() == pytest.approx([expected[:, 0].mean()])
    assert average.get_ydata() == pytest.approx([np.corrcoef(expected.mean(axis=1), run.ratings)[0, 1]])


def test_each_pair_stands_at_its_content_and_position(tmp_path):
    rows = [{"id": f"p{n}", "instruction": "q", "response_1": "x" * (n + 1), "response_2": "x" * 9} for n in range(20)]
    run = lj.pairwise("planted:slot=0.5;length=0.6;quality_sd=0", rows, out=tmp_path / "r")
    figure = plots.draw("pairs", [run], ["one"])
    all_inside(figure)
    same, changed = figure.axes[0].lines[:2]
    content = 0.6 * np.log((np.arange(20) + 1) / 9)
    flipped = np.abs(content) < 0.5
    np.testing.assert_allclose(changed.get_xdata(), content[flipped], atol=1e-12)
    np.testing.assert_allclose(same.get_xdata(), content[~flipped], atol=1e-12)
    np.testing.assert_allclose(changed.get_ydata(), 0.5)
    with pytest.raises(InputError, match="pairwise"):
        plots.draw("pairs", [planted()], ["one"])
    with pytest.raises(InputError, match="pairwise run"):
        plots.draw("positions", [run], ["one"])


def test_a_box_holds_what_a_method_changes():
    run = planted(5, "full")
    ax = plots.debiasers(run, methods=["single", "mean_winner"]).axes[0]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["single", "mean_winner"]
    apart = lj.debias(run, "single").score - lj.debias(run).score
    box = ax.lines[0].get_xdata()
    assert [box.min(), box.max()] == pytest.approx(np.quantile(apart, (0.25, 0.75)).tolist())
    names = [label.get_text() for label in plots.debiasers(run).axes[0].get_yticklabels()]
    assert {"contextual", "position_prior", "cheapest", "single"} <= set(names)


def test_the_command(tmp_path, capsys):
    assert tuple(plots.FIGURES) == plot.NAMES
    run = tmp_path / "run"
    model = "planted:position=0.8,0,0,0,0.3;quality_sd=1"
    assert cli.main(["run", "--model", model, "--data", "demo", "--limit", "6", "--out", str(run)]) == 0
    assert cli.main(["plot", "matrix", str(run), "--estimator", "hard", "--out", str(tmp_path / "m.pdf")]) == 0
    assert (tmp_path / "m.pdf").read_bytes().startswith(b"%PDF")
    assert cli.main(["plot", "matrx", str(run), "--out", "m.pdf"]) == 2
    assert "Did you mean 'matrix'" in capsys.readouterr().err
