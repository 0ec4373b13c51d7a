"""Intervals, the test of position bias, equivalence, what is detectable: by hand, against scipy, on planted judges."""

import json

import numpy as np
import pytest
from planted_runs import case_file, run_of
from scipy import stats

import logitjudge as lj
from logitjudge.errors import InputError, NotObserved
from logitjudge.measures import differences, floor, tests, uncertainty
from logitjudge.orderings import parse
from logitjudge.report.uncertainty import section

CASES = case_file("uncertainty")


@pytest.mark.parametrize("name", CASES)
def test_small_cases_by_hand(name):
    case = CASES[name]
    expected = case["expected"]
    run = run_of(case["probs"], case["orderings"])
    made = uncertainty.resampled(run, draws=200)
    positions, test = uncertainty.position_intervals(made), tests.position_test(made)
    np.testing.assert_allclose(positions.value, expected["positions"])
    for key in ("statistic", "f", "p"):
        found = getattr(test, key)
        assert found == (expected[key] if expected[key] is None else pytest.approx(expected[key], abs=5e-5))
    assert test.degrees == (expected["degrees"] and tuple(expected["degrees"]))
    cost = uncertainty.cost_intervals(made, run.orderings[:1])
    assert cost.value[0] == pytest.approx(expected["cost"], abs=5e-6)
    assert cost.low[0] <= cost.value[0] <= cost.high[0]
    assert tests.equivalence(made, 0.2 if len(run.scores) == 2 else 0.05).p == pytest.approx(
        expected["equivalence"], abs=5e-6
    )
    if expected["detectable"] is None:
        assert np.isnan(tests.detectable(made)).all()
        assert tests.clusters_for(made, 0.03) is None
        np.testing.assert_allclose([positions.low, positions.high], [expected["positions"]] * 2)
        assert (cost.low[0], cost.high[0]) == pytest.approx((cost.value[0],) * 2)
    else:
        assert tests.detectable(made)[0] == pytest.approx(expected["detectable"], abs=5e-5)


def planted(count=60, bias=(0.8, 0.0, 0.0, 0.0, 0.3), noise=0.5, design="balanced", seed=0, clusters=None, levels=5):
    """Readings of a judge with item quality, additive position bias and noise; `clusters` items share one."""
    rng = np.random.default_rng(seed)
    orderings = parse(design, tuple(range(1, levels + 1)))
    quality = rng.normal(0, 1.5, (count, 1, levels))
    place = np.array([o.position_of for o in orderings])
    logits = quality + np.asarray(bias)[place] + rng.normal(0, noise, (count, len(orderings), levels))
    probs = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    items = [lj.Item(f"i{n}", {}, cluster=f"c{n // (clusters or 1)}") for n in range(count)]
    return run_of(probs, design, items=items)


def test_the_position_distribution_is_the_run_s():
    for design in ("balanced", "full", "random:40"):
        run = planted(20, design=design)
        found = uncertainty.position_intervals(uncertainty.resampled(run, draws=50))
        np.testing.assert_allclose(found.value, lj.position_distribution(run), atol=1e-12)
        matrix = uncertainty.matrix_intervals(uncertainty.resampled(run, draws=50))
        np.testing.assert_allclose(matrix.value, lj.score_position_matrix(run).values, atol=1e-12)


def test_intervals_hold_together_and_widen_with_few_clusters():
    run = planted()
    found = uncertainty.position_intervals(uncertainty.resampled(run))
    shares = np.take_along_axis(run.probs(), np.broadcast_to(run.shown, run.logp.shape), 2).mean(axis=1)
    alone = stats.t.ppf(0.975, 59) * shares.std(axis=0, ddof=1) / np.sqrt(60)
    half = (found.high - found.low) / 2
    assert (half > alone).all()  # one factor for all five is larger than that of one
    assert (half < 1.6 * alone).all()
    few = uncertainty.position_intervals(uncertainty.resampled(planted(clusters=6)))
    assert (few.clusters, few.note) == (10, "too few clusters (10 < 20)")


def test_the_test_for_two_levels_is_the_t_test():
    """K = 2: T^2 is t^2, so p is that of scipy's one-sample t test on the items' share at position 1."""
    run = planted(25, bias=(0.3, 0.0), levels=2, design="full")
    made = uncertainty.resampled(run, draws=10)
    found = tests.position_test(made)
    shares = np.take_along_axis(run.probs(), np.broadcast_to(run.shown, run.logp.shape), 2).mean(axis=1)[:, 0]
    expected = stats.ttest_1samp(shares, 0.5)
    assert found.statistic == pytest.approx(expected.statistic**2)
    assert found.p == pytest.approx(expected.pvalue)
    assert found.degrees == (1, 24)
    assert "1/2" in found.null


def test_hotelling_by_hand():
    """T^2 = n m' S^-1 m on the first K - 1 positions, F = T^2 (n - K + 1) / ((K - 1)(n - 1)), clusters as one number each."""
    run = planted(40, clusters=2)
    shares = np.take_along_axis(run.probs(), np.broadcast_to(run.shown, run.logp.shape), 2).mean(axis=1)
    means = shares.reshape(20, 2, 5).mean(axis=1)[:, :4] - 0.2
    mean = means.mean(axis=0)
    statistic = 20 * mean @ np.linalg.solve(np.cov(means.T), mean)
    found = tests.position_test(uncertainty.resampled(run, draws=10))
    assert found.statistic == pytest.approx(statistic)
    assert found.f == pytest.approx(statistic * 16 / (4 * 19))
    assert found.p == pytest.approx(stats.f.sf(statistic * 16 / (4 * 19), 4, 16))


def test_without_variance_or_with_few_clusters_there_is_no_test():
    same = run_of(np.full((8, 10, 5), 0.2), "balanced")
    found = tests.position_test(uncertainty.resampled(same, draws=10))
    assert (found.p, found.f, found.note) == (1.0, None, "degenerate: the clusters do not vary")
    ends = uncertainty.position_intervals(uncertainty.resampled(same, draws=10))
    np.testing.assert_allclose([ends.low, ends.high], np.full((2, 5), 0.2))
    assert ends.note.startswith("degenerate")
    few = tests.position_test(uncertainty.resampled(planted(5), draws=10))
    assert (few.p, few.note) == (None, "no test: 5 clusters, and it takes 6")
    one = uncertainty.position_intervals(uncertainty.resampled(planted(5, clusters=5), draws=10))
    assert np.isnan(one.low).all()
    assert "one cluster" in one.note


def test_the_cost_interval_is_as_the_design_says():
    run = planted()
    made = uncertainty.resampled(run)
    identity = run.orderings[0]
    found = uncertainty.cost_intervals(made, [identity])
    assert found.value[0] == pytest.approx(lj.bias_cost(lj.score_position_matrix(run), "1,2,3,4,5"))
    drawn = made.matrices()[:, range(5), range(5)]
    error = drawn.std(axis=0, ddof=1)
    largest = np.abs((drawn - drawn.mean(axis=0)) / error).max(axis=1)
    weight = run.probs().mean(axis=1)  # (I, K): every item is a cluster
    effective = weight.sum(axis=0) ** 2 / (weight**2).sum(axis=0)
    half = stats.t.isf(stats.norm.sf(np.quantile(largest, 0.95)), effective - 1) * error
    apart = np.abs(lj.score_position_matrix(run).values[range(5), range(5)] - 0.2)
    assert found.low[0] == pytest.approx(np.maximum(0, apart - half).sum())
    assert found.high[0] == pytest.approx((apart + half).sum())


def test_an_unbiased_judge_shows_the_unbiased_cost():
    costs, unbiased = [], []
    for seed in range(60):
        run = planted(30, bias=(0.0,) * 5, seed=seed)
        found = uncertainty.cost_intervals(uncertainty.resampled(run, draws=200), run.orderings[:1])
        costs.append(found.value[0])
        unbiased.append(found.unbiased[0])
    assert np.mean(unbiased) == pytest.approx(np.mean(costs), rel=0.12)


def test_equivalence_is_two_one_sided_tests():
    run = planted(60, bias=(0.05, 0, 0, 0, 0), noise=0.1)
    made = uncertainty.resampled(run, draws=10)
    found = tests.equivalence(made, 0.03)
    shares = made.shares
    for p in range(5):
        below = stats.ttest_1samp(shares[:, p], 0.2 + 0.03, alternative="less").pvalue
        above = stats.ttest_1samp(shares[:, p], 0.2 - 0.03, alternative="greater").pvalue
        assert found.by_position[p] == pytest.approx(max(below, above))
    assert found.p == found.by_position.max() < 0.05
    assert tests.equivalence(made, 1e-4).p > 0.05
    with pytest.raises(InputError, match="margin"):
        tests.equivalence(made, 0.0)


def test_what_is_detectable_is_found_that_often():
    made = uncertainty.resampled(planted(40), draws=10)
    effect = tests.detectable(made)[0]
    spread = made.shares[:, 0].std(ddof=1)
    rng = np.random.default_rng(1)
    p = stats.ttest_1samp(rng.normal(effect, spread, (4_000, 40)), 0, axis=1).pvalue
    assert (p < 0.05).mean() == pytest.approx(0.8, abs=0.03)
    needed = tests.clusters_for(made, effect=float(tests.detectable(made).max()))
    assert needed == pytest.approx(40, abs=2)


def test_models_are_adjusted_together():
    assert tests.false_discovery([0.01, None, 0.04, 0.03]) == pytest.approx([0.03, None, 0.04, 0.04])


def test_an_uncovered_cell_is_named():
    with pytest.raises(NotObserved, match="never shown at position 2"):
        uncertainty.resampled(planted(5, design="identity"))


def with_floor(run, nats):
    return lj.Run(
        run.logp, run.alias_mass, run.items, run.orderings, run.scores, provenance={"noise_floor": {"max_nats": nats}}
    )


def moved_against(run, here, nats):
    """The run with every log-probability moved by `nats`: up where `here` (O, K), else down."""
    logp = run.logp + np.where(here, nats, -nats)
    return lj.Run(
        logp - np.log(np.exp(logp).sum(axis=-1, keepdims=True)), run.alias_mass, run.items, run.orderings, run.scores
    )


@pytest.mark.parametrize(("estimator", "nats", "least"), [("soft", 0.01, 0.9), ("hard", 0.3, 0.4)])
def test_the_noise_floor_s_reach_is_what_it_could_do(estimator, nats, least):
    """No share or cell moves by more, to first order, when all readings move the same way; and some by almost as much.

    For winners not quite: that of a reading may turn to or from a position, and the bound has both.
    """
    run = with_floor(planted(40), nats)
    reach = floor.reach(run, estimator)
    place = np.array([o.position_of for o in run.orderings])
    for p in range(5):
        moved = moved_against(run, place == p, nats)
        shift = lj.position_distribution(moved, estimator)[p] - lj.position_distribution(run, estimator)[p]
        assert least * reach.positions[p] < shift <= 1.05 * reach.positions[p]
        for k in range(5):
            here = (place[:, [k]] == p) == (np.arange(5) == k)  # k against all others: up at p, down elsewhere
            matrices = [lj.score_position_matrix(r, estimator).values for r in (moved_against(run, here, nats), run)]
            shift = matrices[0][k, p] - matrices[1][k, p]
            assert least * reach.cells[k, p] < shift <= 1.1 * reach.cells[k, p]
    identity = list(range(5))
    assert reach.costs(run.orderings[:1])[0] == pytest.approx(reach.cells[identity, identity].sum())


def test_without_a_floor_or_without_probabilities_nothing_is_said():
    assert floor.reach(planted(3)) is None
    assert section(planted(3), draws=10)["soft"]["positions"]["within_noise"] is None
    orderings = parse("cyclic", (1, 2, 3))
    run = lj.SampledRun(np.ones((2, 3, 1)), tuple(lj.Item(f"i{n}", {}) for n in range(2)), orderings, (1, 2, 3))
    assert floor.reach(run, "hard") is None


def test_the_section_says_what_the_floor_could_explain():
    found = section(with_floor(planted(30, bias=(0.0,) * 5, noise=0.05), 0.2), draws=50)["soft"]
    assert all(found["positions"]["within_noise"])
    assert found["test"]["within_noise"]
    assert found["costs"][0]["within_noise"]
    assert all(all(row) for row in found["cells"]["within_noise"])
    found = section(with_floor(planted(30), 1e-4), draws=50)["soft"]
    assert not found["positions"]["within_noise"][0]
    assert not found["test"]["within_noise"]
    assert not found["costs"][0]["within_noise"]


def test_clusters_of_several_sizes_count_with_their_items():
    case = case_file("uncertainty_clusters")
    items = [lj.Item(f"i{n}", {}, cluster=name) for n, name in enumerate(case["clusters"])]
    probs = [[[s, 1 - s], [1 - s, s]] for s in case["shares"]]
    run = run_of(probs, "1,2;2,1", items=items)
    made, expected = uncertainty.resampled(run, draws=10), case["expected"]
    np.testing.assert_allclose(made.shares[:, 0], expected["by_cluster"])
    np.testing.assert_allclose(made.shares.mean(axis=0), lj.position_distribution(run))
    assert [*made.effective, made.worth] == pytest.approx([expected["effective"]] * 3, abs=5e-7)
    assert tests._error(made)[0] == pytest.approx(expected["error"], abs=5e-8)
    assert tests.position_test(made).note == "no test: 3 clusters of several sizes, worth 2.7, and it takes 3"
    items = [lj.Item(f"i{n}", {}, cluster=name) for n, name in enumerate("aabcddef")]
    found = tests.position_test(uncertainty.resampled(run_of(probs * 2, "1,2;2,1", items=items), draws=10))
    assert found.statistic == pytest.approx(expected["twice"]["statistic"], abs=5e-7)
    assert found.f == pytest.approx(found.statistic)
    assert found.degrees == pytest.approx(expected["twice"]["degrees"], abs=5e-7)
    assert found.p == pytest.approx(stats.f.sf(found.f, *found.degrees))


def test_unbiased_judges_of_clusters_of_several_sizes_are_not_rejected_more_often():
    """One cluster of 6 items and one of 4 among 20: C - 1 degrees of freedom reject about 11 %."""
    rng = np.random.default_rng(0)
    size = np.array([6, 4, *[1] * 12, *[2] * 6])
    rejected, held = [], []
    for _ in range(600):
        items = rng.normal(0, 0.03, (size.sum(), 5)) + np.repeat(rng.normal(0, 0.05, (20, 5)), size, axis=0)
        by_item = np.broadcast_to((0.2 + items - items.mean(axis=1, keepdims=True))[:, None], (size.sum(), 5, 5))
        shares = uncertainty._by_cluster(by_item, np.repeat(np.arange(20), size), 20)
        made = uncertainty.Resampled(np.ones((20, 5, 5)), np.outer(size, np.full(5, 0.2)), shares, np.ones((2, 20)))
        rejected.append(tests.position_test(made).p < 0.05)
        held.append(np.abs(shares.mean(axis=0) - 0.2) <= stats.t.isf(0.025, made.worth - 1) * tests._error(made))
    assert np.mean(rejected) < 0.085
    assert np.mean(held) > 0.925


def test_in_an_unbalanced_design_order_blind_winners_are_not_called_biased():
    """Two scores lead and picks are noisy. Score 1 stands first twice, at 2 and 3 once: shares divided by their sum reject 33 %."""
    rejected = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        quality = np.array([0.0, 2.0, 2.0]) + rng.normal(0, 0.5, (300, 1, 3))
        weight = np.exp(quality + rng.normal(0, 1, (300, 4, 3)))
        run = run_of(weight / weight.sum(axis=-1, keepdims=True), "1,2,3;2,3,1;3,1,2;1,3,2")
        rejected.append(tests.position_test(uncertainty.resampled(run, "hard", draws=2)).p < 0.05)
    assert np.mean(rejected) < 0.12


def test_resamples_without_a_row_do_not_shrink_its_error():
    drawn = np.random.default_rng(0).normal(0, 1, (4_000, 1, 2))
    drawn[::2, :, 0] = np.nan  # half of the resamples lack the first number
    half = uncertainty._half_widths(drawn, np.array([[1e6]]))
    assert half[0, 0] == pytest.approx(half[0, 1], rel=0.05)


def rare_score(takers):
    """40 items, all of which pick score 5 whatever the order, but `takers` that pick score 1 when it stands first, else 5."""
    orderings = parse("balanced", (1, 2, 3, 4, 5))
    probs = np.full((40, 10, 5), 0.02)
    probs[..., 4] = 0.92
    first = [o for o, ordering in enumerate(orderings) if ordering.shown[0] == 0]
    for o in first:
        probs[:takers, o] = [0.92, 0.02, 0.02, 0.02, 0.02]
    return run_of(probs, "balanced")


def test_a_row_that_rests_on_one_item_is_not_certain():
    made = uncertainty.resampled(rare_score(1), "hard", draws=200)
    found = uncertainty.matrix_intervals(made)
    assert found.value[0].tolist() == [1, 0, 0, 0, 0]
    assert np.isnan(found.low[0]).all()
    assert found.reasons[:2] == ("rests on 1.0 effective clusters, and an interval takes 2", "never picked")
    assert not found.off[0].any()
    cost = uncertainty.cost_intervals(made, parse("1,5,4,3,2", (1, 2, 3, 4, 5)))
    assert np.isnan([cost.low[0], cost.unbiased[0]]).all()


def test_a_row_without_spread_is_not_surely_off():
    found = uncertainty.matrix_intervals(uncertainty.resampled(rare_score(6), "hard", draws=200))
    assert (found.low[0].tolist(), found.high[0].tolist()) == ([1, 0, 0, 0, 0],) * 2  # [x, x]
    assert not found.off[0].any()


def test_a_cost_of_which_some_cells_do_not_vary_has_no_interval():
    """K = 2: eight of twenty take score 1 where it stands first, and only there: row 1 is (1, 0) in every resample, row 2 moves."""
    probs = np.full((20, 2, 2), [0.1, 0.9])
    probs[:8, 0] = [0.9, 0.1]
    found = uncertainty.cost_intervals(
        made := uncertainty.resampled(run_of(probs, "1,2;2,1"), "hard", draws=100), parse("1,2", (1, 2))
    )
    matrix = uncertainty.matrix_intervals(made)
    assert (matrix.low[0, 0], matrix.high[0, 0]) == (1, 1)
    assert matrix.low[1, 1] < matrix.value[1, 1] < matrix.high[1, 1]
    assert found.value[0] == pytest.approx(
        0.5 + abs(12 / 32 - 0.5)
    )  # score 2: 20 picks at position 1, 12 at position 2
    assert np.isnan([found.low[0], found.high[0], found.unbiased[0]]).all()


def test_intervals_of_positions_widen_where_one_cluster_is_large():
    """The same error of the resamples, but 20 clusters of which one has half of the items are worth (38)^2 / (19^2 + 19) = 3.8."""
    drawn = uncertainty.resampled(planted(20), draws=200)
    even = uncertainty.position_intervals(drawn)
    size = np.array([19.0, *[1.0] * 19])
    uneven = uncertainty.Resampled(drawn.cells, drawn.share / drawn.share.sum(axis=1, keepdims=True) * size[:, None],
                                   drawn.shares, drawn.weights)  # fmt: skip
    assert uneven.worth == pytest.approx(3.8)
    assert uneven.widening == pytest.approx((1 - 1 / 20) / (1 - 1 / 3.8))
    error, tail = differences.spread(uneven.distributions())
    half = error * np.sqrt(uneven.widening) * stats.t.isf(tail, 2.8)
    found = uncertainty.position_intervals(uneven)
    np.testing.assert_allclose(found.high - found.value, half)
    assert (even.high - even.low < found.high - found.low).all()


def test_simultaneous_cells_hold_where_scores_are_used_unevenly():
    """Ratings near the top, so that score 1 has few effective clusters: C - 1 degrees of freedom held in 60 % (400 draws)."""
    place = np.array([o.position_of for o in parse("balanced", (1, 2, 3, 4, 5))])
    bias = np.array([0.8, 0, 0, 0, 0.3])

    def judged(count, rng):
        rating = 1 + 4 * rng.beta(4, 1, (count, 1))
        quality = -((np.arange(1, 6) - rating) ** 2) + rng.normal(0, 0.8, (count, 5))
        logits = quality[:, None] + bias[place] + rng.normal(0, 0.5, (count, 10, 5))
        return run_of(np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True), "balanced")

    truth = lj.score_position_matrix(judged(40_000, np.random.default_rng(1))).values
    held = []
    for draw in range(150):
        found = uncertainty.matrix_intervals(
            uncertainty.resampled(judged(40, np.random.default_rng([2, draw])), draws=300, seed=draw)
        )
        held.append((((found.low <= truth) & (truth <= found.high)) | np.isnan(found.low)).all())
    assert np.mean(held) > 0.88


def test_directions_that_do_not_vary_are_left_out_whichever_positions_they_are():
    rng = np.random.default_rng(0)
    first = 0.2 + rng.normal(0.02, 0.02, 30)
    shares = np.stack([first, 0.4 - first, np.full(30, 0.2), np.full(30, 0.2), np.full(30, 0.2)], axis=1)
    for turn in range(5):
        made = uncertainty.Resampled(np.ones((30, 5, 5)), np.ones((30, 5)), np.roll(shares, turn, 1), np.ones((2, 30)))
        found = tests.position_test(made)
        assert found.p == pytest.approx(stats.ttest_1samp(first, 0.2).pvalue)
        assert found.note == "3 of 4 directions do not vary and are left out"


def test_bounds_that_are_not_exact_are_said_to_be():
    run = planted(4)
    exact = np.ones(run.logp.shape, dtype=bool)
    exact[0, 0, 0] = False
    run = lj.Run(run.logp, run.alias_mass, run.items, run.orderings, run.scores, exact=exact)
    assert "reason" in section(run, draws=10)["soft"]


def test_the_section_has_json_values_for_every_kind_of_run():
    for run in (planted(30), planted(3), planted(30, design="cyclic"), planted(6, design="identity")):
        json.dumps(section(run, draws=50), allow_nan=False)
    found = section(planted(30), draws=50)
    assert len(found["soft"]["costs"]) == 10
    assert found["soft"]["test"]["p"] < 0.001


def test_texts_that_cannot_be_parsed_make_no_interval_of_bias():
    orderings = parse("cyclic", (1, 2, 3))
    picks = np.tile(np.array([1.0, 2.0, 3.0]), (30, 3, 2))
    picks[:, 1, :3] = np.nan  # half of the texts under one ordering; the others still pick every score once
    run = lj.SampledRun(picks, tuple(lj.Item(f"i{n}", {}) for n in range(30)), orderings, (1, 2, 3))
    found = uncertainty.position_intervals(uncertainty.resampled(run, "hard", draws=20))
    np.testing.assert_allclose(found.value, np.full(3, 1 / 3))
    picks[0, 1] = np.nan
    with pytest.raises(NotObserved, match="from 1 of 90 readings no text could be parsed"):
        uncertainty.resampled(lj.SampledRun(picks, run.items, orderings, (1, 2, 3)), "hard")
