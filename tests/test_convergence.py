"""How many orderings are enough: against hand-checked cases and against every subset of a small design."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from planted_runs import planted_run, rated_items, rubric_of, run_of

import logitjudge as lj
from logitjudge.debiasers import debias
from logitjudge.errors import InputError, NotObserved
from logitjudge.measures import pools
from logitjudge.measures.convergence import Lengths, convergence
from logitjudge.measures.costs import bias_cost, rank_orderings
from logitjudge.measures.matrices import score_position_matrix
from logitjudge.orderings import parse
from logitjudge.report import plan
from logitjudge.trie import unique

CASES = Path(__file__).parent / "cases"
SPEC = "position=0.8,0,0,0,0.3;interaction=3:0.5;order_noise=0.5"


def at(frame, design, n, quantity):
    [row] = frame[(frame["design"] == design) & (frame["n"] == n) & (frame["quantity"] == quantity)].to_dict("records")
    return row


def test_the_hand_checked_case():
    case = json.loads((CASES / "convergence_k2.json").read_text())
    frame = convergence(run_of(case["probs"], "1,2;2,1"))
    for key, n in (("one", 1), ("both", 2)):
        for quantity, square in case[key].items():
            assert at(frame, "random", n, quantity)["value"] == pytest.approx(math.sqrt(square), abs=1e-9)
    assert at(frame, "random", 1, "mean_prob")["exact"]
    assert at(frame, "identity", 1, "mean_prob")["value"] == pytest.approx(math.sqrt(0.0425))
    assert np.isnan(at(frame, "random", 1, "mean_prob pearson")["value"])


def test_random_orderings_are_exactly_the_mean_over_all_subsets():
    run = planted_run("position=0.9,0,0.3;interaction=1:0.5;order_noise=0.5", rated_items(4, 3), "full", rubric_of(3))
    frame = convergence(run, draws=3000, seed=1)
    limit = {name: debias(run, name).score for name in ("mean_prob", "mean_winner", "mean_logp")}
    for n in (1, 2, 4):
        squares = {key: [] for key in ("mean_prob", "mean_winner", "mean_logp", "mean_prob to mean_logp")}
        for rows in itertools.combinations(range(6), n):
            few = pools.only(run, np.array(rows))
            for name in limit:
                squares[name].append(((debias(few, name).score - limit[name]) ** 2).mean())
            squares["mean_prob to mean_logp"].append(
                ((debias(few, "mean_prob").score - limit["mean_logp"]) ** 2).mean()
            )
        for key in ("mean_prob", "mean_winner", "mean_prob to mean_logp"):
            assert at(frame, "random", n, key)["value"] == pytest.approx(math.sqrt(np.mean(squares[key])), abs=1e-9)
            assert at(frame, "random", n, key)["exact"]
        simulated = at(frame, "random", n, "mean_logp")
        assert not simulated["exact"]
        assert simulated["value"] == pytest.approx(math.sqrt(np.mean(squares["mean_logp"])), rel=0.05)
        assert simulated["low"] < simulated["value"] < simulated["high"]


def test_antithetic_pairs_are_exactly_the_mean_over_all_sets_of_pairs():
    run = planted_run("position=0.9,0,0.3;interaction=1:0.5;order_noise=0.5", rated_items(4, 3), "full", rubric_of(3))
    place = {o.shown: n for n, o in enumerate(run.orderings)}
    pairs = {tuple(sorted((n, place[o.shown[::-1]]))) for n, o in enumerate(run.orderings)}
    limit = debias(run, "mean_prob").score
    squares = [
        ((debias(pools.only(run, np.array(sum(two, ()))), "mean_prob").score - limit) ** 2).mean()
        for two in itertools.combinations(sorted(pairs), 2)
    ]
    frame = convergence(run, draws=20)
    assert at(frame, "antithetic", 4, "mean_prob")["value"] == pytest.approx(math.sqrt(np.mean(squares)))


def test_fixed_designs_are_the_other_modules_numbers():
    run = planted_run(SPEC, rated_items(20), "full")
    frame = convergence(run, numbers=[120], draws=2)
    full = score_position_matrix(run)
    costs = [bias_cost(full, o) for o in run.orderings]
    places = [run.orderings.index(o) for o in parse("balanced", run.scores.tolist())]
    few = pools.only(run, np.array(places))
    matrix = score_position_matrix(few)
    mine = [bias_cost(matrix, o) for o in run.orderings]
    wanted = {
        "matrix": math.sqrt(((matrix.values - full.values) ** 2).mean()),
        "cost": math.sqrt(np.mean((np.array(mine) - costs) ** 2)),
        "cost_r": np.corrcoef(mine, costs)[0, 1],
        "chosen_loss": bias_cost(full, rank_orderings(matrix, 1)[0].ordering) - min(costs),
        "mean_logp": math.sqrt(((debias(few, "mean_logp").score - debias(run, "mean_logp").score) ** 2).mean()),
        "mean_prob pearson": np.corrcoef(debias(few).score, run.ratings)[0, 1],
        "covered": 1.0,
    }
    for quantity, value in wanted.items():
        row = at(frame, "balanced", 10, quantity)
        assert row["value"] == pytest.approx(value, abs=1e-9)
        assert row["exact"]
    for quantity in ("mean_prob", "mean_logp", "mean_winner", "matrix", "cost", "chosen_loss"):
        assert at(frame, "random", 120, quantity)["value"] == pytest.approx(0, abs=1e-9)
    assert np.isnan(at(frame, "identity", 1, "matrix")["value"])
    assert at(frame, "identity", 1, "covered")["value"] == 0


def test_more_orderings_are_closer_and_balanced_ones_closer_than_random_ones():
    frame = convergence(planted_run(SPEC, rated_items(30), "full"), numbers=[10, 20, 40], draws=40)
    for design in ("random", "latin"):
        values = [at(frame, design, n, "mean_prob")["value"] for n in (10, 20, 40)]
        assert values == sorted(values, reverse=True)
    assert at(frame, "latin", 10, "mean_prob")["value"] < at(frame, "random", 10, "mean_prob")["value"]
    assert at(frame, "random", 10, "covered")["value"] < 0.5


def test_unique_lengths_are_those_of_a_tree():
    lengths = Lengths(7, (1, 2, 3, 4), 5)
    rng = np.random.default_rng(0)
    for n in (1, 3, 24):
        shown = np.array(parse(f"random:{n}", (1, 2, 3, 4), int(rng.integers(99)))[0].shown)[None]
        shown = np.array([o.shown for o in parse(f"random:{n}", (1, 2, 3, 4), n)])
        rows = [[0] * 7 + [100 + k for k in row for _ in range(k + 1)] + [9] * 5 for row in shown.tolist()]
        assert lengths.unique(shown) == unique(rows)
    assert lengths.plain == lengths.unique(np.array([[0, 1, 2, 3]])) == 22


def test_only_full_runs_can_say_it():
    with pytest.raises(NotObserved, match="--orderings full"):
        convergence(planted_run(SPEC, rated_items(4)))


def test_chunks_change_nothing(monkeypatch):
    run = planted_run(SPEC, rated_items(8), "full")
    whole = convergence(run, numbers=[10], draws=7)
    monkeypatch.setattr("logitjudge.measures.convergence.NUMBERS", 90)
    np.testing.assert_allclose(convergence(run, numbers=[10], draws=7)["value"], whole["value"], atol=1e-12)


# --- plan -----------------------------------------------------------------------------------------------------------


def test_a_rubrics_plan_says_what_designs_give():
    made = plan.for_rubric("helpfulness", 3000, items=300)
    rows = {row["design"]: row for row in made["rows"]}
    assert [rows[name]["n"] for name in ("identity", "cyclic", "balanced", "williams", "full")] == [1, 5, 10, 10, 120]
    assert not rows["identity"]["all_cells"]
    assert rows["williams"]["neighbours"]
    assert not rows["balanced"]["neighbours"]
    assert rows["identity"]["work"] == 1
    assert rows["full"]["work"] < 40
    assert made["recommended"] == {"design": "williams", "n": 10, "items": 300}
    assert plan.for_rubric("helpfulness", 2999, items=300)["recommended"]["n"] == 5
    assert plan.for_rubric("helpfulness", 4)["recommended"] is None
    assert plan.for_rubric("helpfulness", 1000)["recommended"] == {"design": "williams", "n": 10, "items": 100}
    with pytest.raises(InputError, match="at least one"):
        plan.for_rubric("helpfulness", 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("plan") / "full"
    lj.judge(f"planted:{SPEC}", "demo", orderings="full", out=where, limit=24)
    return where


def test_a_runs_plan_chooses_by_distance(folder):
    made = plan.for_run(folder, 1000, items=100, draws=20)
    assert made["recommended"]["n"] == 10
    fit = [row for row in made["rows"] if row["n"] <= 10]
    best = min(fit, key=lambda row: row["mean_prob"]["value"])
    assert made["recommended"]["design"] == best["design"]
    assert plan.for_run(folder, 99, items=100, draws=5)["recommended"] is None
    assert plan.for_run(folder, draws=5)["items"] == 24
    json.dumps(made, allow_nan=False)
    with pytest.raises(InputError):
        plan.for_run(folder, 10, items=0)


def test_lengths_of_prompts_are_those_of_their_text(folder):
    run = lj.load_run(folder)
    made = plan.for_run(folder, draws=2)["prompt"]
    rubric = run.rubric_of(run.items[0])
    assert made["unit"] == "characters"  # the planted judge has no tokens
    for length, level in zip(made["lines"], rubric.levels, strict=True):
        assert length > len("Score 1: ")
        assert level.score
    assert made["length"] > sum(made["lines"])
