"""Several runs side by side, and drift: planted shifts are found, and the same judge has none."""

import json
from dataclasses import replace

import numpy as np
import pytest
from planted_runs import planted_run, rated_items, rubric_of, unrated_items
from scipy import stats

from logitjudge.debiasers import debias
from logitjudge.errors import InputError
from logitjudge.measures.costs import bias_cost, cost_spread
from logitjudge.measures.matrices import picks, position_distribution, score_position_matrix
from logitjudge.report.compare import comparison, drift, section
from logitjudge.run import SampledRun

SPEC = "position=0.8,0,0,0,0.3;order_noise=0.5"


def rows_of(found):
    return {row["quantity"]: row for row in found["rows"]}


@pytest.mark.parametrize("design", ["balanced", "full", "random:40"])
def test_a_row_is_the_other_modules_numbers(design):
    run = planted_run(SPEC, rated_items(25), design)
    made = section(run, "a", draws=50)
    matrix = score_position_matrix(run)
    for estimator in ("soft", "hard"):
        assert made["position_distribution"][estimator] == pytest.approx(position_distribution(run, estimator).tolist())
    assert made["identity"] == pytest.approx(bias_cost(matrix, "identity"))
    assert made["cheapest"]["cost"] == pytest.approx(cost_spread(matrix).cheapest.cost)
    assert [row["measure"] for row in made["agreement"]] == ["pearson", "spearman"]
    now = rows_of(drift(run, run, draws=50))
    assert now["identity cost"]["run"] == pytest.approx(made["identity"])
    assert now["position p1"]["run"] == pytest.approx(made["position_distribution"]["soft"][0])
    assert now["mean expected score"]["run"] == pytest.approx(debias(run).score.mean())
    assert now["pearson"]["run"] == pytest.approx(np.corrcoef(debias(run).score, run.ratings)[0, 1])
    json.dumps(comparison([run], ["a"], draws=20), allow_nan=False)


def test_the_same_judge_has_not_moved():
    run = planted_run(SPEC, rated_items(40))
    found = drift(run, run, draws=100)
    assert all(row["difference"] == 0 for row in found["rows"])
    assert not any(row["moved"] for row in found["rows"])
    assert found["winners_changed"] == 0


def test_noise_rarely_moves_and_a_planted_shift_does():
    moved = []
    for seed in range(30):
        a, b = (planted_run(f"{SPEC};seed={s}", rated_items(40), "balanced") for s in (seed, 100 + seed))
        moved.append(any(row["moved"] for row in drift(a, b, draws=200)["rows"]))
    assert sum(moved) <= 5
    more = planted_run("position=1.4,0,0,0,0.3;order_noise=0.5;seed=3", rated_items(40))
    rows = rows_of(drift(more, planted_run(SPEC, rated_items(40)), draws=200))
    assert rows["position p1"]["moved"]
    assert rows["position p1"]["low"] > 0
    assert rows["identity cost"]["moved"]


def test_drift_is_paired_over_what_both_runs_share():
    first, second = (
        planted_run(SPEC, rated_items(30), "balanced"),
        planted_run(SPEC + ";seed=5", rated_items(40), "full"),
    )
    found = drift(first, second, draws=50)
    assert (found["items"], found["orderings"]) == (30, 10)
    back = second.select([True] * 30 + [False] * 10)
    places = [back.orderings.index(o) for o in first.orderings]
    changed = (picks(first) != picks(back)[:, places]).any(axis=2).mean()
    assert found["winners_changed"] == pytest.approx(changed)
    gaps = debias(first).score - (back.probs()[:, places] @ back.scores).mean(axis=1)
    row = rows_of(drift(first, second, draws=4000))["mean expected score"]
    assert row["difference"] == pytest.approx(gaps.mean())
    wanted = 2 * stats.t.ppf(0.975, 29) * gaps.std() / np.sqrt(30)  # the bootstrap's variance divides by n
    assert row["high"] - row["low"] == pytest.approx(wanted, rel=0.05)
    upside = replace(first, logp=first.logp[::-1], items=first.items[::-1], logp_by_trace=None)
    a, b = (rows_of(drift(side, second, draws=50)) for side in (first, upside))
    assert a["mean expected score"]["difference"] == pytest.approx(b["mean expected score"]["difference"])
    assert a["mean expected score"]["low"] == pytest.approx(b["mean expected score"]["low"])


def test_what_is_missing_is_none_and_noted():
    run = planted_run(SPEC, unrated_items(10), "identity")
    made = section(run, "a", draws=20)
    assert made["identity"] is None
    assert made["cheapest"] is None
    assert made["position_distribution"]["soft"] == [None] * 5
    assert made["severity"]["soft"] is None
    assert made["agreement"] == []
    found = drift(run, run, draws=20)
    assert [row["quantity"] for row in found["rows"]] == ["mean expected score", "mass"]
    assert found["notes"] == ["too few clusters (10 < 20)"]
    one = planted_run(SPEC, rated_items(10, clusters=1))
    assert {row["low"] for row in drift(one, one, draws=20)["rows"]} == {None}
    assert {row["moved"] for row in drift(one, one, draws=20)["rows"]} == {None}


def test_notes_on_noise_protocol_and_rubric():
    def of(verdict, rubric):
        about = {"verdict": verdict, "identity": {"rubric": rubric}, "noise_floor": {"max_nats": 0.1, "max_score": 0.5}}
        return planted_run(SPEC, rated_items(30), provenance=about)

    notes = " | ".join(drift(of("direct", "a"), of("feedback", "b"), draws=20)["notes"])
    assert "not to be compared" in notes
    assert "another rubric" in notes
    assert "within the noise floor (0.5 points)" in notes


def test_runs_that_cannot_be_paired_are_refused():
    run = planted_run(SPEC, rated_items(6))
    other = replace(run, items=tuple(replace(item, id="x" + item.id) for item in run.items))
    with pytest.raises(InputError, match="no item in common"):
        drift(run, other)
    with pytest.raises(InputError, match="no ordering in common"):
        drift(planted_run(SPEC, rated_items(6), "identity"), planted_run(SPEC, rated_items(6), "reverse"))
    with pytest.raises(InputError, match="have the scores"):
        drift(run, planted_run("", rated_items(6, 3), rubric=rubric_of(3)))
    sampled = SampledRun(np.ones((6, 10, 1)), run.items, run.orderings, run.scores)
    with pytest.raises(InputError, match="sampled"):
        drift(run, sampled)
    made = section(sampled, "s", draws=20)
    assert made["position_distribution"]["soft"] is None
    assert made["mass"] is None
    json.dumps(made, allow_nan=False)
