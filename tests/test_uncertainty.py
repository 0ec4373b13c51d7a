"""Intervals, the test of position bias, equivalence, what is detectable: by hand, against scipy, on planted judges."""

import json
from pathlib import Path

import numpy as np
import pytest
from planted_runs import run_of
from scipy import stats

import logitjudge as lj
from logitjudge.errors import InputError, NotObserved
from logitjudge.measures import uncertainty
from logitjudge.orderings import parse
from logitjudge.report.uncertainty import section

CASES = json.loads((Path(__file__).parent / "cases" / "uncertainty.json").read_text())


@pytest.mark.parametrize("name", CASES)
def test_small_cases_by_hand(name):
    case = CASES[name]
    expected = case["expected"]
    run = run_of(case["probs"], case["orderings"])
    made = uncertainty.resampled(run, draws=200)
    positions, test = uncertainty.position_intervals(made), uncertainty.position_test(made)
    np.testing.assert_allclose(positions.value, expected["positions"])
    for key in ("statistic", "f", "p"):
        found = getattr(test, key)
        assert found == (expected[key] if expected[key] is None else pytest.approx(expected[key], abs=5e-5))
    assert test.degrees == (expected["degrees"] and tuple(expected["degrees"]))
    cost = uncertainty.cost_intervals(made, run.orderings[:1])
    assert cost.value[0] == pytest.approx(expected["cost"], abs=5e-6)
    assert cost.low[0] <= cost.value[0] <= cost.high[0]
    assert uncertainty.equivalence(made, 0.2 if len(run.scores) == 2 else 0.05).p == pytest.approx(
        expected["equivalence"], abs=5e-6
    )
    assert uncertainty.detectable(made)[0] == pytest.approx(expected["detectable"], abs=5e-5)
    if expected["detectable"] == 0:
        np.testing.assert_allclose([positions.low, positions.high], [expected["positions"]] * 2)
        assert (cost.low[0], cost.high[0]) == pytest.approx((cost.value[0],) * 2)


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
    found = uncertainty.position_test(made)
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
    found = uncertainty.position_test(uncertainty.resampled(run, draws=10))
    assert found.statistic == pytest.approx(statistic)
    assert found.f == pytest.approx(statistic * 16 / (4 * 19))
    assert found.p == pytest.approx(stats.f.sf(statistic * 16 / (4 * 19), 4, 16))


def test_without_variance_or_with_few_clusters_there_is_no_test():
    same = run_of(np.full((8, 10, 5), 0.2), "balanced")
    found = uncertainty.position_test(uncertainty.resampled(same, draws=10))
    assert (found.p, found.f, found.note) == (1.0, None, "degenerate: the clusters do not vary")
    ends = uncertainty.position_intervals(uncertainty.resampled(same, draws=10))
    np.testing.assert_allclose([ends.low, ends.high], np.full((2, 5), 0.2))
    assert ends.note.startswith("degenerate")
    few = uncertainty.position_test(uncertainty.resampled(planted(5), draws=10))
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
    half = stats.t.isf(stats.norm.sf(np.quantile(largest, 0.95)), 59) * error
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
    found = uncertainty.equivalence(made, 0.03)
    shares = made.shares
    for p in range(5):
        below = stats.ttest_1samp(shares[:, p], 0.2 + 0.03, alternative="less").pvalue
        above = stats.ttest_1samp(shares[:, p], 0.2 - 0.03, alternative="greater").pvalue
        assert found.by_position[p] == pytest.approx(max(below, above))
    assert found.p == found.by_position.max() < 0.05
    assert uncertainty.equivalence(made, 1e-4).p > 0.05
    with pytest.raises(InputError, match="margin"):
        uncertainty.equivalence(made, 0.0)


def test_what_is_detectable_is_found_that_often():
    made = uncertainty.resampled(planted(40), draws=10)
    effect = uncertainty.detectable(made)[0]
    spread = made.shares[:, 0].std(ddof=1)
    rng = np.random.default_rng(1)
    p = stats.ttest_1samp(rng.normal(effect, spread, (4_000, 40)), 0, axis=1).pvalue
    assert (p < 0.05).mean() == pytest.approx(0.8, abs=0.03)
    needed = uncertainty.clusters_for(made, effect=float(uncertainty.detectable(made).max()))
    assert needed == pytest.approx(40, abs=2)


def test_models_are_adjusted_together():
    assert uncertainty.false_discovery([0.01, None, 0.04, 0.03]) == pytest.approx([0.03, None, 0.04, 0.04])


def test_an_uncovered_cell_is_named():
    with pytest.raises(NotObserved, match="never shown at position 2"):
        uncertainty.resampled(planted(5, design="identity"))


def test_the_noise_floor_s_reach_is_what_it_could_do():
    """A shift of every log-probability by up to n nats moves no share by more, to first order, and some by almost as much."""
    run = planted(10)
    floor = 0.01
    run = lj.Run(
        run.logp, run.alias_mass, run.items, run.orderings, run.scores, provenance={"noise_floor": {"max_nats": floor}}
    )
    reach = uncertainty.noise_reach(run)
    sign = np.where(np.array([o.position_of for o in run.orderings]) == 0, floor, -floor)  # all against position 1
    moved = run.logp + sign
    q = np.exp(moved) / np.exp(moved).sum(axis=-1, keepdims=True)
    share = np.take_along_axis(q, np.broadcast_to(run.shown, q.shape), 2).mean(axis=(0, 1))[0]
    shift = share - lj.position_distribution(run)[0]
    assert 0.9 * reach[0] < shift <= 1.05 * reach[0]


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
