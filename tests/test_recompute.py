"""Every number of `show` against `recompute`, which is written from the definitions alone."""

from pathlib import Path

import pytest
from recompute import recompute

import logitjudge as lj
from logitjudge.report.summary import summary

RUNS = {
    "balanced": ("planted:position=0.8,0,0,0,0.3;quality_sd=1;order_noise=0.5", "balanced"),
    "full": ("planted:interaction=3:0.8;quality_sd=1;order_noise=0.5;mass=0.6", "full"),
    "random": ("planted:position=1,0,0,0,0;quality_sd=2", "random:20"),
    "cyclic": ("planted:first=0.4;item_position_sd=0.5", "cyclic"),
}


def close(found, expected):
    """The same numbers, None where there is none."""
    assert [value is None for value in found] == [value is None for value in expected]
    pairs = zip(found, expected, strict=True)
    assert all(a is None or a == pytest.approx(b, abs=1e-9) for a, b in pairs), (found, expected)


@pytest.mark.parametrize("name", RUNS)
def test_show_says_what_the_definitions_say(tmp_path, name):
    model, design = RUNS[name]
    compare(lj.judge(model, "demo", orderings=design, limit=12, out=tmp_path / "run"), tmp_path / "run")


@pytest.mark.parametrize("name", ["qwen-summeval-coherence", "qwen-hanna-relevance"])
def test_so_it_does_of_the_real_runs(name):
    """The runs that the README's figures come from; spread by name so that a changed number is noticed."""
    folder = Path(__file__).parent / "runs" / name
    compare(lj.load_run(folder), folder)


def test_the_readme_s_figures_are_those_of_the_run():
    run = lj.load_run(Path(__file__).parent / "runs" / "qwen-summeval-coherence")
    text = (Path(__file__).parent.parent / "README.md").read_text()
    for estimator in ("soft", "hard"):
        shares = " | ".join(f"{100 * share:.1f}" for share in lj.position_distribution(run, estimator))
        assert f"| {estimator} | {shares} |" in text


def compare(run, folder):
    """All numbers of the core of `show`."""
    found, expected = summary(run), recompute(folder)
    for key in ("items", "clusters", "readings"):
        assert found[key] == expected[key]
    for kind in ("soft", "hard"):
        close(found["position_distribution"][kind], expected["position_distribution"][kind])
        for row, other in zip(found["score_position"][kind], expected["score_position"][kind], strict=True):
            close(row, other)
        close([row[kind] for row in found["bias_cost"]], expected["bias_cost"][kind])
        for column in ("picks", "effective_items"):
            close([row[column] for row in found["rows"][kind]], expected[column][kind])
    spread = found["cost_spread"]["soft"]
    assert (spread["cheapest"]["cost"], spread["dearest"]["cost"], spread["mean"]) == pytest.approx(
        tuple(expected["spread"].values())
    )
    assert (found["mass"]["mean"], found["mass"]["min"]) == pytest.approx(tuple(expected["mass"].values()))
    assert found["alias"]["mean"] == pytest.approx(expected["alias"])
    rows = {(row["method"], row["measure"]): row["value"] for row in found["agreement"]}
    close([rows[key] for key in expected["agreement"]], list(expected["agreement"].values()))
