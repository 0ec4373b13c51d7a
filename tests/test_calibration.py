import numpy as np
import pytest
from planted_runs import case_file, case_run, planted_run, rated_items, rubric_of, run_of, unrated_items

from logitjudge.core import Item
from logitjudge.debiasers import debias
from logitjudge.errors import InputError, NotObserved
from logitjudge.measures.calibration import calibration, raters

CASE = case_file("calibration")


def test_a_case_that_can_be_checked_by_hand():
    items = [Item(f"i{n}", {}, human=human) for n, human in enumerate(CASE["human"])]
    found = calibration(case_run(CASE["probs"], CASE["orderings"], items))
    for name in ("log_score", "base", "floor", "ece", "confidence", "hit"):
        assert getattr(found, name) == pytest.approx(CASE[name], abs=1e-10)
    [only] = [row for row in found.bins if row.count]
    assert (only.low, only.high, only.count, only.hit) == (pytest.approx(0.7), pytest.approx(0.8), 2, 0.625)


def test_ratings_between_scores_are_split():
    items = [Item("a", {}, human=(4, 4.5)), Item("b", {}, human=(1, 1, 5))]
    run = planted_run("", items)
    np.testing.assert_allclose(raters(run), [[0, 0, 0, 0.75, 0.25], [2 / 3, 0, 0, 0, 1 / 3]])
    uneven = run_of([[[0.2, 0.3, 0.5]]], "0,1,5", [Item("a", {}, human=(4,))], scores=(0, 1, 5))
    np.testing.assert_allclose(raters(uneven), [[0, 0.25, 0.75]])
    with pytest.raises(NotObserved, match="'i0' has no rating"):
        raters(planted_run("", unrated_items(1)))


@pytest.mark.parametrize("of", ["readings", "mean_prob", "mean_logp"])
def test_scores_equal_the_definition(of):
    run = planted_run("position=0.8,0,0,0,0.3;order_noise=0.5", rated_items(40))
    q = run.probs() if of == "readings" else debias(run, of).dist[:, None]
    people = raters(run)
    found = calibration(run, of)
    rows = [(q[i, o], people[i]) for i in range(40) for o in range(q.shape[1])]
    assert found.log_score == pytest.approx(np.mean([-(r * np.log(p)).sum() for p, r in rows]))
    confidence = np.array([p.max() for p, _ in rows])
    hit = np.array([r[p.argmax()] for p, r in rows])
    ece = 0.0
    for b in range(10):
        inside = (confidence > b / 10) & (confidence <= (b + 1) / 10)
        if inside.any():
            ece += inside.mean() * abs(confidence[inside].mean() - hit[inside].mean())
    assert found.ece == pytest.approx(ece)
    assert (found.confidence, found.hit) == (pytest.approx(confidence.mean()), pytest.approx(hit.mean()))
    assert sum(row.count for row in found.bins) == len(rows)


def test_a_judge_that_says_the_raters_distribution_is_at_the_floor():
    items = [Item(f"i{n}", {}, human=tuple([1] * n + [2] * (10 - n))) for n in range(1, 10)]
    probs = [[[n / 10, 1 - n / 10]] for n in range(1, 10)]
    found = calibration(run_of(probs, "1,2", items))
    assert found.log_score == pytest.approx(found.floor)
    assert found.ece == pytest.approx(0, abs=1e-12)
    assert found.base > found.floor


def test_a_probability_of_0_has_a_finite_log():
    run = case_run([[[1, 0]]], [[1, 2]], [Item("a", {}, human=(2,))])
    assert calibration(run).log_score == pytest.approx(5000)


def test_unrated_items_are_left_out_and_counted():
    items = [*rated_items(3), Item("blank", {})]
    found = calibration(planted_run("", items))
    assert (found.items, found.unrated) == (3, 1)
    assert found.log_score == pytest.approx(calibration(planted_run("", items[:3])).log_score)
    assert list(found.to_frame().columns) == ["low", "high", "count", "confidence", "hit"]
    with pytest.raises(NotObserved, match="no item has a rating"):
        calibration(planted_run("", unrated_items(3)))
    with pytest.raises(InputError, match="unknown kind of distribution 'mean_prb'.*'mean_prob'"):
        calibration(planted_run("", rated_items(3), rubric=rubric_of()), "mean_prb")


def test_a_bin_holds_its_upper_end():
    items = [Item("a", {}, human=(1,))]
    [only] = [row for row in calibration(run_of([[[0.5, 0.5]]], "1,2", items)).bins if row.count]
    assert (only.low, only.high, only.hit) == (0.4, 0.5, 0.5)
