"""Choosing an ordering without labels: hand-checked cells and costs, and planted judges whose truth is known."""

import json
from pathlib import Path

import numpy as np
import pytest
from planted_runs import planted_run, rated_items, rubric_of, run_of
from scipy import stats

from logitjudge.errors import InputError, NotObserved
from logitjudge.measures import cells, differences, probing
from logitjudge.measures.correlations import pearson
from logitjudge.measures.costs import bias_cost, cost_spread, rank_orderings
from logitjudge.measures.matrices import score_position_matrix
from logitjudge.measures.selection import has_interaction, held_out, select

CASES = Path(__file__).parent / "cases"
BIASED = "position=0.8,0,0,0,0.3;order_noise=0.5;item_position_sd=0.3"


def test_the_hand_checked_case():
    case = json.loads((CASES / "selection_k2.json").read_text())
    run = run_of(case["probs"], case["orderings"])
    table = cells.by_item(run.probs(), run.shown)
    both = cells.matrices(table, np.array([[1.0, 1.0], [2.0, 0.0]]))
    assert cells.costs(both, run.shown)[0] == pytest.approx(case["costs"])
    assert cells.costs(both, run.shown)[1, 0] == pytest.approx(case["item_1_only"])
    assert cells.mean_cost(both)[0] == pytest.approx(case["mean"])
    found = select(run)
    assert found.average == case["average"]
    assert found.costs.tolist() == pytest.approx(case["costs"])


@pytest.mark.parametrize("design", ["balanced", "full", "williams"])
def test_cells_give_the_matrix_and_the_costs_of_the_other_modules(design):
    run = planted_run(BIASED + ";interaction=1:0.5", rated_items(12), design)
    matrix = score_position_matrix(run)
    made = cells.matrices(cells.by_item(run.probs(), run.shown), np.ones((1, 12)))
    np.testing.assert_allclose(made[0], matrix.values, atol=1e-12)
    ranked = rank_orderings(matrix, 120)
    found = select(run, draws=50)
    assert found.orderings == ranked.orderings
    np.testing.assert_allclose(found.costs, ranked.costs, atol=1e-9)
    assert found.mean == pytest.approx(cost_spread(matrix).mean)


def test_a_weight_is_a_repeated_item():
    run = planted_run(BIASED, rated_items(6), "balanced")
    weight = np.array([2.0, 0, 1, 3, 0, 0])
    again = run.select([True] * 6)
    rows = np.repeat(np.arange(6), weight.astype(int))
    table = cells.by_item(again.probs(), again.shown)
    np.testing.assert_allclose(
        cells.matrices(table, weight[None])[0], cells.matrices(table[rows], np.ones((1, 6)))[0], atol=1e-12
    )


def test_unseen_cells_are_nan():
    table = cells.by_item(np.full((1, 1, 3), 1 / 3), np.array([[0, 1, 2]]))
    assert np.isnan(table[0, 0]).tolist() == [False, True, True]


def test_interaction_of_an_additive_judge_is_nothing():
    run = planted_run("position=0.8,0,0,0,0.3", rated_items(7), "balanced")
    assert np.abs(cells.interaction(run)).max() < 1e-12
    planted = planted_run("position=0.8,0,0,0,0.3;interaction=3:0.5", rated_items(7), "full")
    logits = np.random.default_rng(3).normal(0, 0.5, (5, 5))
    wanted = logits - logits.mean(0) - logits.mean(1)[:, None] + logits.mean()
    left = cells.interaction(
        planted
    )  # log q is centred over scores within a reading, so the planted part is K / (K - 1) as large
    np.testing.assert_allclose(left[0], left[5], atol=1e-12)
    assert np.corrcoef(left[0].ravel(), wanted.ravel())[0, 1] > 0.999


@pytest.mark.parametrize("design", ["balanced", "full"])
@pytest.mark.parametrize("noise", ["", ";order_noise=0.5;item_position_sd=0.3"])
def test_additive_judges_are_averaged(design, noise):
    told = 0
    for seed in range(10):
        run = planted_run(f"position=0.8,0,0,0,0.3;seed={seed}{noise}", rated_items(60, seed=seed), design)
        found = select(run, draws=300)
        told += not found.average
        assert found.average == (found.alike.all() and not found.better.any()) or found.interaction
    assert told == 0  # 10 at most at 5 %; these seeds have none


def test_without_the_test_of_interaction_an_additive_judge_would_seem_to_have_better_orderings():
    """Costs of an additive judge differ a little, because probabilities saturate; ten orderings add their confounding."""
    run = planted_run("position=0.8,0,0,0,0.3", rated_items(60), "balanced")
    spread = cost_spread(score_position_matrix(run))
    assert spread.dearest.cost - spread.cheapest.cost > 0.02
    assert not has_interaction(run)


@pytest.mark.parametrize("seed", range(4))
def test_interaction_judges_are_told_and_the_cheap_ordering_is_found(seed):
    spec = f"{BIASED};interaction=3:0.5"
    truth = score_position_matrix(
        planted_run(spec.replace("order_noise=0.5", "order_noise=0"), rated_items(2000, seed=99), "full")
    )
    best = rank_orderings(truth, 120)
    run = planted_run(f"{spec};seed={seed}", rated_items(60, seed=seed), "full")
    found = select(run, draws=300)
    assert not found.average
    assert best[0].ordering in [o for o, alike in zip(found.orderings, found.alike, strict=True) if alike]
    assert found.orderings[0] in best.orderings[:5]
    assert 1 <= found.alike.sum() <= 30
    assert "cannot be told from the cheapest" in found.reason


def test_unbiased_judges_and_one_cluster_are_averaged():
    assert select(planted_run("", rated_items(20))).reason.startswith("score x position interaction cannot")
    one = planted_run(BIASED + ";interaction=3:1", rated_items(20, clusters=1))
    assert select(one).average
    assert "one cluster" in select(one).reason


def test_selection_does_not_depend_on_the_order_of_the_items():
    items = rated_items(24, clusters=8)
    a, b = (select(planted_run(BIASED + ";interaction=3:0.3", i, "full"), draws=200) for i in (items, items[::-1]))
    assert a.alike.tolist() == b.alike.tolist()
    np.testing.assert_allclose(a.costs, b.costs, atol=1e-12)


def test_the_frame_has_one_row_an_ordering():
    run = planted_run(BIASED + ";interaction=1:2", rated_items(30), "balanced", rubric_of(5, first=0))
    found = select(run, draws=50)
    frame = found.to_frame()
    assert frame["ordering"].tolist() == [",".join(map(str, o.shown)) for o in found.orderings]  # scores from 0
    for name in ("cost", "alike", "better"):
        assert frame[name].tolist() == getattr(found, "costs" if name == "cost" else name).tolist()


def test_selection_needs_every_cell_and_two_draws():
    run = planted_run(BIASED, rated_items(5), "identity")
    with pytest.raises(NotObserved, match="balanced"):
        select(run)
    with pytest.raises(InputError, match="draws is 1"):
        select(planted_run(BIASED, rated_items(5)), draws=1)


def test_more_than_six_levels_compare_the_cheapest():
    run = planted_run("interaction=3:0.5;order_noise=0.3", rated_items(30, 7), "balanced", rubric_of(7))
    found = select(run, draws=30)
    assert len(found.orderings) <= 720
    assert found.costs[0] == pytest.approx(rank_orderings(score_position_matrix(run), 1)[0].cost, abs=1e-9)


# --- simultaneous differences ---------------------------------------------------------------------------------------


def test_one_number_has_the_t_interval():
    rng = np.random.default_rng(0)
    drawn = rng.normal(0, 2.0, (200_000, 1))
    error, factor = differences.critical(drawn, 10)
    assert error[0] == pytest.approx(2, rel=0.01)
    assert factor == pytest.approx(stats.t.ppf(0.975, 9), rel=0.02)


def test_many_independent_numbers_have_the_sidak_factor():
    drawn = np.random.default_rng(0).normal(0, 1, (50_000, 20))
    factor = differences.critical(drawn, 10**6)[1]
    assert factor == pytest.approx(stats.norm.isf((1 - 0.95 ** (1 / 20)) / 2), rel=0.01)


def test_rank_sets_hold_the_true_rank():
    rng = np.random.default_rng(1)
    truth = np.array([0.0, 0.1, 0.2, 0.2, 0.9])
    missed = 0
    for _ in range(400):
        noise = rng.normal(0, 1, (60, 5)) + rng.normal(0, 1, (60, 1))
        value = truth + noise.mean(axis=0)
        drawn = value + rng.normal(0, 1, (300, 60)) @ (noise - noise.mean(axis=0)) / 60
        low, high = differences.rank_set(value, drawn, 1, 60)
        missed += not low <= 4 <= high
    assert missed <= 33  # 5 % of 400 and three standard errors


def test_sets_hold_the_smallest_and_not_everything():
    rng = np.random.default_rng(2)
    truth = np.array([0.0, 0.05, 1.0, 1.0])
    held = []
    for _ in range(300):
        noise = rng.normal(0, 1, (50, 4))
        value = truth + noise.mean(axis=0)
        drawn = value + rng.normal(0, 1, (300, 50)) @ (noise - noise.mean(axis=0)) / 50
        held.append(differences.may_be_smallest(value, drawn, 50))
    share = np.mean(held, axis=0)
    assert share[0] >= 0.92
    assert share[2] < 0.05


def test_no_resampling_variance_is_an_exact_difference():
    value = np.array([0.0, 0.0, 1.0])
    drawn = np.tile(value, (10, 1))
    assert differences.compare(value, drawn, 0, 5).tolist() == [0, 0, 1]
    assert differences.compare(value, drawn, 0, 1).tolist() == [0, 0, 0]
    assert differences.rank_set(value, drawn, 0, 5) == (2, 3)


def test_correlations_are_numpys():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(30, 4)), rng.normal(size=30)
    weight = rng.integers(0, 3, (2, 30)).astype(float)
    r = pearson(x, y, weight)
    for b in range(2):
        rows = np.repeat(np.arange(30), weight[b].astype(int))
        for n in range(4):
            assert r[b, n] == pytest.approx(np.corrcoef(x[rows, n], y[rows])[0, 1])
    assert np.isnan(pearson(np.ones((5, 1)), y[:5], np.ones((1, 5)))).all()


# --- probes ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def full():
    return planted_run(BIASED + ";interaction=3:0.5", rated_items(60), "full")


def test_more_probe_items_lose_less(full):
    frame = probing.probe_items(full, (3, 30), repeats=100)
    assert frame["loss"].is_monotonic_decreasing
    assert (frame["gain"] > 0.6).all()
    assert frame["passes"].tolist() == [360, 3600]
    assert probing.enough(frame, gain=0.5) == 3
    assert probing.enough(frame, gain=1.01) is None


def test_more_orderings_lose_less_also_among_those_not_probed(full):
    frame = probing.probe_orderings(full, repeats=60)
    assert frame["orderings"].tolist() == [5, 5, 10, 10, 20, 20]
    for among in ("all", "not probed"):
        assert frame.loc[frame["among"] == among, "loss"].is_monotonic_decreasing
    assert (frame["low"] <= frame["loss"]).all()
    with pytest.raises(NotObserved, match="--orderings full"):
        probing.probe_orderings(planted_run(BIASED, rated_items(20)))


def test_a_choice_carries_over_to_the_same_judge_and_not_to_another(full):
    same = planted_run(BIASED + ";interaction=3:0.5;seed=9", rated_items(60, seed=9), "full")
    other = planted_run(BIASED + ";interaction=8:0.5;seed=9", rated_items(60, seed=9), "full")
    frame = probing.transfer([full, same, other], ["a", "b", "c"]).set_index(["source", "target"])
    assert frame.loc[("a", "b"), "gain"] > 0.8
    assert frame.loc[("a", "a"), "gain"] > 0.9
    assert frame.loc[("a", "c"), "gain"] < 0.5
    assert frame.loc[("a", "b"), "loss"] == pytest.approx(
        frame.loc[("a", "b"), "cost"] - frame.loc[("a", "b"), "cheapest"]
    )
    with pytest.raises(InputError, match="same scores"):
        probing.transfer([full, planted_run("", rated_items(4, 3), "full", rubric_of(3))], ["a", "b"])


def test_too_few_items_to_hold_out_is_said():
    with pytest.raises(NotObserved, match="too few"):
        probing.probe_items(planted_run(BIASED, rated_items(5)))
    with pytest.raises(NotObserved, match="balanced"):
        probing.probe_items(planted_run(BIASED, rated_items(30), "identity"))


def test_a_held_out_saving_is_the_difference_of_costs_on_the_other_half():
    run = planted_run(BIASED + ";interaction=1:0.8", rated_items(60, clusters=30), "balanced")
    found = held_out(run, draws=200)
    half = np.random.default_rng(0).permutation(30)[:15]
    names = sorted({item.cluster for item in run.items})
    first = {names[c] for c in half}
    chose = [item.cluster in first for item in run.items]
    ordering = rank_orderings(score_position_matrix(run.select(chose)), 1)[0].ordering
    assert found.ordering == ordering
    other = score_position_matrix(run.select([not c for c in chose]))
    saving = bias_cost(other, "1,2,3,4,5") - bias_cost(other, ordering)
    assert found.saving == pytest.approx(saving, abs=1e-12)
    assert found.low < found.saving < found.high
    assert found.clusters == 15


def test_a_saving_is_claimed_where_there_is_one_and_seldom_where_there_is_none():
    wrong = sum(
        held_out(planted_run(f"{BIASED};seed={s}", rated_items(40, seed=s), "balanced"), draws=200).better
        for s in range(100)
    )
    assert wrong <= stats.binom.ppf(0.9995, 100, 0.05)
    right = planted_run(BIASED + ";interaction=1:0.8", rated_items(200), "balanced")
    found = held_out(right)
    assert found.better
    full = planted_run("position=0.8,0,0,0,0.3;interaction=1:0.8", rated_items(200), "full")
    truth = score_position_matrix(full)
    assert bias_cost(truth, found.ordering) < bias_cost(truth, "1,2,3,4,5")


def test_three_clusters_cannot_be_halved():
    with pytest.raises(NotObserved, match="at least 4 clusters"):
        held_out(planted_run(BIASED, rated_items(9, clusters=3), "balanced"))
