"""Sections of pairs: JSON values, and tables at 80 columns, whatever the run is."""

import dataclasses
import io
import json

import numpy as np
import pytest
from planted_pairs import pair_items, planted_pairs
from planted_runs import run_of
from rich.console import Console
from test_pair_accuracy import couple_run, with_responses
from test_pair_calibration import checked_run, panel_runs
from test_pairs import case_run, run_of_verdicts

from logitjudge.cli._sections import pair_calibration as calibration_tables, pairs as pair_tables
from logitjudge.errors import NotObserved
from logitjudge.measures.pair_accuracy import accuracy
from logitjudge.measures.pair_stability import stability
from logitjudge.measures.pair_threshold import threshold
from logitjudge.report.pair_calibration import calibration
from logitjudge.report.pairs import section


def rich_run(options=None, crossed=False, count=90):
    rng = np.random.default_rng(0)
    content = rng.normal(0.3, 1.5, count)
    gold = np.where(rng.random(count) < 0.85, np.where(content > 0, 1, 2), 0)
    groups = {
        "task": np.tile(["a rather long name of a task, longer than tables", "b"], count)[:count],
        "couple": np.arange(count) // 2,
        "check": [1 if n % 3 == 0 else None for n in range(count)],
        "model_1": ["one"] * count,
        "model_2": ["another model with a very long name"] * count,
    }
    items = with_responses(pair_items(count, gold, **groups), [("a" * (n % 7 + 1), "b" * 4) for n in range(count)])
    return planted_pairs(content, slot=0.6, letter=0.2, noise=0.3, tie=options, crossed=crossed, items=items, rng=rng)


RUNS = {
    "two options": lambda: rich_run(),
    "ties": lambda: rich_run(0.2),
    "2 x 2": lambda: rich_run(crossed=True),
    "2 x 2 with ties": lambda: rich_run(0.2, crossed=True),
    "by hand": case_run,
    "no gold": lambda: planted_pairs([0.3, -0.2, 1.0], slot=0.5),
    "one pair": lambda: planted_pairs([0.3], slot=0.5, items=pair_items(1, [1])),
    "one cluster": lambda: planted_pairs([0.3, -1, 2], slot=0.5, items=pair_items(3, [1, 2, 1], clusters=1)),
    "all ties": lambda: dataclasses.replace(run_of_verdicts([0] * 30, [0] * 30), items=tuple(pair_items(30, [0] * 30))),
    "gold always 1": lambda: planted_pairs(np.linspace(-1, 3, 70), slot=0.5, items=pair_items(70, [1] * 70)),
    "identical": lambda: planted_pairs(np.zeros(25), slot=0.5, items=pair_items(25, [0] * 25)),
    "couples": couple_run,
}


def printed(show, value):
    file = io.StringIO()
    show(Console(file=file, width=80, highlight=False, markup=False, emoji=False), value)
    return file.getvalue()


def assert_whole(text):
    """80 columns, and nothing cropped: a table that is too wide keeps to the width by cutting cells."""
    assert max(map(len, text.splitlines())) <= 80
    assert "\u2026" not in text


@pytest.mark.parametrize("name", RUNS)
def test_a_section_is_json_and_80_columns_wide(name):
    found = section(RUNS[name](), draws=50)
    found = json.loads(json.dumps(found, allow_nan=False))
    text = printed(pair_tables.show, found)
    assert_whole(text)
    assert "None" not in text.replace("None: both orders agree", "")
    assert "nan" not in text.lower().split()


@pytest.mark.parametrize("name", RUNS)
def test_calibration_is_json_and_80_columns_wide(name):
    run = RUNS[name]()
    for runs in ({"a": run}, {"a": run, "a judge with a name that is long": run}):
        found = json.loads(json.dumps(calibration(runs, draws=50), allow_nan=False))
        text = printed(calibration_tables.show, found)
        assert_whole(text)
        assert "nan" not in text.lower().split()


def test_the_section_says_what_the_measures_say():
    run = rich_run(0.2)
    found = section(run, draws=100, seed=3)
    assert found["stability"] == dataclasses.asdict(stability(run, draws=100, seed=3))
    assert found["accuracy"] == dataclasses.asdict(accuracy(run, draws=100, seed=3))
    assert found["inconclusive"]["pairs"] == round(found["stability"]["flip_rate"]["value"] * 90)
    assert len(found["inconclusive"]["worst"]) == 10
    assert set(found["inconclusive"]["worst"][0]) == {
        "id", "verdict_first_order", "verdict_second_order", "content", "position", "contradiction", "gold",
    }  # fmt: skip
    told = calibration({"x": run}, draws=100, seed=3)
    assert told["judges"]["x"]["threshold"] == dataclasses.asdict(threshold(run, draws=100, seed=3))
    assert told["panel"] == {"reason": "a panel takes at least two judges"}


def test_what_does_not_exist_has_a_reason():
    found = section(RUNS["no gold"](), draws=50)
    assert "no pair has a gold" in found["accuracy"]["reason"]
    assert "there are no couples" in found["couples"]["reason"]
    assert found["stability"]["ties_soft"] is found["stability"]["letter"] is None
    told = calibration({"x": RUNS["no gold"]()}, draws=50)["judges"]["x"]
    assert {"no pair has a gold" in told[name]["reason"] for name in ("agreement", "threshold")} == {True}
    assert "no pair has a check" in told["checks"]["reason"]
    with pytest.raises(NotObserved, match="not pairwise"):
        section(run_of(np.full((1, 6, 3), 1 / 3), "full"))


def test_tables_print_the_numbers_by_hand():
    text = printed(pair_tables.show, section(case_run(), draws=50))
    lines = [line.split() for line in text.splitlines()]
    assert next(line for line in lines if line[:1] == ["flips"])[1] == "62.5"
    assert next(line for line in lines if line[:4] == ["flips", "to", "the", "second"])[5] == "60.0"
    assert next(line for line in lines if line[:1] == ["flips_discarded"])[-1] == "5"
    assert "Inconclusive: 5 of 8 pairs" in text
    assert "first slot including its letter" in text
    assert [line[0] for line in lines if line[:1] in (["d"], ["b"], ["c"], ["e"], ["h"])] == ["d", "b", "c", "e", "h"]
    assert "first slot including its letter" not in printed(pair_tables.show, section(RUNS["2 x 2"](), draws=50))


def test_calibration_tables_print_the_panel_and_the_checks():
    text = printed(calibration_tables.show, calibration(panel_runs(), draws=50))
    assert "3 judges are worth 1.7 independent ones" in text
    assert "A majority of them is no ground truth" in " ".join(text.split())
    run = checked_run([None, 1, "2", "tie", 2.0, 0, "", 1])
    assert "(6 of 8 pairs have one)" in printed(calibration_tables.show, calibration({"x": run}, draws=50))
    text = printed(calibration_tables.show, calibration({"x": RUNS["gold always 1"]()}, draws=50))
    assert "Empty: gold 2" in text
    assert "a side does not vary" in text
