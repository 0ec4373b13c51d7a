import io
import json

import numpy as np
import pytest
from planted_runs import planted_run, rated_items, rubric_of, run_of, unrated_items
from rich.console import Console

from logitjudge.cli._sections.where import show
from logitjudge.core import Item
from logitjudge.measures.calibration import calibration
from logitjudge.measures.certainty import certainty
from logitjudge.measures.decomposition import decomposition
from logitjudge.measures.swings import swings
from logitjudge.report.where import section
from logitjudge.run import SampledRun

NOISY = "order_noise=0.5;item_position_sd=0.3"


def items_of(count, levels=5):
    rows = rated_items(count, levels)
    names = ("a rather long name of a system", "b")
    groups = [{"system": names[n % 2], "task": "xyz"[n % 3]} for n in range(count)]
    return [
        Item(f"a rather long id of an item {n}", {"response": "x" * n}, human=row.human, groups=g)
        for n, (row, g) in enumerate(zip(rows, groups, strict=True))
    ]


def printed(made):
    text = io.StringIO()
    show(Console(file=text, width=80, highlight=False, markup=False, emoji=False), made)
    return text.getvalue()


@pytest.mark.parametrize(
    ("levels", "design"),
    [
        (5, "balanced"),
        (5, "full"),
        (5, "cyclic"),
        (5, "identity"),
        (5, "random:10"),
        (2, "full"),
        (4, "balanced"),
        (11, "balanced"),
    ],
)
def test_every_design_gives_json_and_tables_of_80_columns(levels, design):
    run = planted_run(NOISY, items_of(12, levels), design, rubric_of(levels, first=0))
    made = section(run, draws=20)
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    text = printed(made)
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert "nan" not in text.lower().split()


def test_numbers_are_those_of_the_measures():
    run = planted_run(NOISY, items_of(30))
    made = section(run, draws=20, seed=3)
    for on in ("clr", "expected"):
        assert [t["share"] for t in made["decomposition"][on]["terms"]] == [
            t.share for t in decomposition(run, on).terms
        ]
    rows = certainty(run, draws=20, seed=3).associations
    assert [row["high"] for row in made["certainty"]["associations"]] == [row.high for row in rows]
    assert made["swings"]["mean"] == swings(run).swing.mean()
    assert made["swings"]["widest"][0]["swing"] == swings(run).swing.max()
    assert made["calibration"]["mean_prob"]["ece"] == calibration(run, "mean_prob").ece
    text = printed(made)
    for part in (
        "item x score x position",
        "near a tie, given inside the scale",
        "task: x",
        "Swing",
        "Wasserstein",
        "ECE",
    ):
        assert part in text


@pytest.mark.parametrize("count", [1, 2])
def test_few_items_and_no_ratings(count):
    made = section(planted_run(NOISY, unrated_items(count)), draws=5)
    json.dumps(made, allow_nan=False)
    assert "no item has a rating" in made["calibration"]["readings"]["reason"]
    assert "0 system(s)" in made["systems"]["reason"]
    assert "too few items" in printed(made)


def test_a_judge_that_says_always_the_same():
    made = section(run_of(np.full((4, 2, 2), 0.5), "1,2;2,1"), draws=5)
    assert "no variance" in made["decomposition"]["clr"]["reason"]
    assert made["swings"]["max"] == 0
    assert "no variance" in printed(made)


def test_the_noise_floor_is_named():
    run = planted_run(NOISY, items_of(6), provenance={"noise_floor": {"max_score": 5.0}})
    made = section(run, draws=5)
    assert made["swings"]["within_noise"] == 1
    assert "noise floor (10) could explain 100 % of them" in " ".join(printed(made).split())


def test_a_sampled_run_has_no_probabilities():
    run = planted_run("", rated_items(3))
    made = section(SampledRun(np.ones((3, 10, 2)), run.items, run.orderings, run.scores))
    assert list(made) == ["reason"]
    assert "picks and no probabilities" in printed(made)
