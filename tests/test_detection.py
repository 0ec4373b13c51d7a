"""Scores that were taken from a judge, and scores of people who never saw the ordering."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from planted_runs import planted_run, rated_items, run_of, unrated_items

from logitjudge.errors import InputError, ItemError, NotObserved
from logitjudge.measures.detection import AVERAGED, BLIND, OWN, PEOPLE, TAKEN, UNKNOWN, detect
from logitjudge.report.detect import read, section

CASES = Path(__file__).parent / "cases"
SPEC = "position=0.8,0,0,0,0.3;interaction=3:0.3;order_noise=0.5"
COUNT = 60


def values_of(run, o):
    return ",".join(map(str, run.orderings[o].values(run.scores.tolist())))


def of_judge(run, o, rng):
    return {f"i{i}": int(rng.choice(5, p=q)) + 1 for i, q in enumerate(run.probs()[:COUNT, o])}


def of_people(run, rng, sd=0.7):
    noisy = np.clip(np.rint(run.ratings[:COUNT] + rng.normal(0, sd, COUNT)), 1, 5)
    return {f"i{i}": int(score) for i, score in enumerate(noisy)}


def full_run(seed, count=COUNT + 60, items=None):
    return planted_run(f"{SPEC};seed={seed}", items or rated_items(count, seed=seed), "full")


def test_the_hand_checked_case():
    case = json.loads((CASES / "detection_k2.json").read_text())
    found = detect(run_of(case["probs"], "1,2;2,1"), case["submitted"], "1,2", draws=200)
    assert found.llr == pytest.approx(case["llr"], abs=1e-6)
    assert (found.p, found.attainable, found.verdict) == (case["p"], case["attainable"], case["verdict"])
    assert "20 orderings" in found.reason


def test_a_judges_scores_are_told_and_noisy_people_are_not_accused():
    rng = np.random.default_rng(0)
    told, accused, alone = Counter(), Counter(), 0
    for seed in range(12):
        run, o = full_run(seed), int(rng.integers(120))
        told[detect(run, of_judge(run, o, rng), values_of(run, o), draws=200).verdict] += 1
        people = detect(run, of_people(run, rng), values_of(run, o), draws=200)
        accused[people.verdict] += 1
        alone += people.llr > people.threshold
    assert told[TAKEN] >= 10
    assert told[BLIND] == 0
    assert accused[BLIND] >= 9
    assert accused[TAKEN] <= 1
    assert alone >= 4  # the ratio alone accuses people who are noisier than the raters it was calibrated on


def test_p_of_an_order_blind_scorer_is_uniform():
    rng = np.random.default_rng(1)
    run = full_run(3)
    scores = of_people(run, rng)
    p = sorted(detect(run, scores, values_of(run, o), draws=100).p for o in range(0, 120, 8))
    every = np.arange(0, 120, 8)
    assert np.all(np.diff(p) > 0)
    assert abs(np.mean(p) - 0.5) < 0.2
    assert len(every) == len(p)


def test_calibration_says_on_what():
    rng = np.random.default_rng(2)
    run = full_run(0)
    scores = of_judge(run, 4, rng)
    assert detect(run, scores, values_of(run, 4), draws=100).calibrated_on == PEOPLE
    assert detect(run, scores, values_of(run, 4), draws=100).held_out == 60
    unrated = full_run(0, items=unrated_items(COUNT + 20))
    found = detect(unrated, of_judge(unrated, 4, rng), values_of(unrated, 4), draws=100)
    assert (found.calibrated_on, found.held_out) == (AVERAGED, 20)
    alone = full_run(0, COUNT)
    assert detect(alone, of_judge(alone, 4, rng), values_of(alone, 4), draws=100).calibrated_on == OWN


def test_few_items_and_unbiased_judges_cannot_be_told():
    run = full_run(0)
    few = detect(run, {"i0": 3, "i1": 2}, values_of(run, 4), draws=200)
    assert few.verdict == UNKNOWN
    assert "more items" in few.reason
    blind = planted_run("", rated_items(COUNT + 20), "full")
    found = detect(blind, of_judge(blind, 4, np.random.default_rng(0)), values_of(blind, 4), draws=200)
    assert found.verdict == UNKNOWN
    assert found.power == 0
    assert found.p == 1


def test_what_does_not_fit_is_refused():
    run = full_run(0, 12)
    with pytest.raises(ItemError, match="'x'"):
        detect(run, {"x": 1}, "1,2,3,4,5")
    with pytest.raises(ItemError, match=r"2\.5"):
        detect(run, {"i0": 2.5}, "1,2,3,4,5")
    with pytest.raises(InputError, match="no scores"):
        detect(run, {}, "1,2,3,4,5")
    with pytest.raises(NotObserved, match="does not hold"):
        detect(planted_run(SPEC, rated_items(5)), {"i0": 1}, "1,3,2,4,5")
    with pytest.raises(NotObserved, match="one ordering only"):
        detect(planted_run(SPEC, rated_items(5), "identity"), {"i0": 1}, "identity")


def test_submitted_files(tmp_path):
    (tmp_path / "a.csv").write_text("id,score\n7,3\n8,4\n")
    (tmp_path / "a.jsonl").write_text('{"item": "7", "score": 3}\n{"item": "8", "score": 4.0}\n')
    assert read(tmp_path / "a.csv") == read(tmp_path / "a.jsonl") == {"7": 3.0, "8": 4.0}
    for name, text, message in (
        ("b.csv", "id,points\n7,3\n", "no column 'score'"),
        ("c.csv", "id,score\n7,3\n7,4\n", "two scores"),
        ("d.csv", "id,score\n7,good\n", "row 1: the score is 'good'"),
        ("e.csv", "id,score\n7,\n", "not a number"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(ItemError, match=message):
            read(tmp_path / name)
    with pytest.raises(ItemError, match="cannot be read"):
        read(tmp_path / "none.csv")


def test_the_section_is_json():
    run = full_run(0)
    made = section(run, of_judge(run, 4, np.random.default_rng(0)), values_of(run, 4), draws=100)
    assert json.loads(json.dumps(made, allow_nan=False))["ordering"] == list(run.orderings[4].values((1, 2, 3, 4, 5)))
