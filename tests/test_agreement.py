import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from planted_runs import planted_run, rated_items, rubric_of, unrated_items
from scipy import stats

from logitjudge.core import Item
from logitjudge.debiasers import debias
from logitjudge.errors import InputError
from logitjudge.measures import intervals
from logitjudge.measures.agreement import MEASURES, _spearman, agreement, pearson, ranks
from logitjudge.run import Run

NOISY = "position=0.8,0,0,0,0.3;order_noise=1.5;item_position_sd=1"


@pytest.mark.parametrize("method", ["mean_prob", "mean_logp", "mean_winner"])
def test_values_equal_scipys(method):
    run = planted_run(NOISY, rated_items(40))
    found, score = agreement(run, method), debias(run, method).score
    assert found["pearson"].value == pytest.approx(stats.pearsonr(score, run.ratings)[0], abs=1e-12)
    ranked = np.round(score, 9)  # means of picks that are equal but for the last bit tie
    assert found["spearman"].value == pytest.approx(stats.spearmanr(ranked, run.ratings)[0], abs=1e-12)


def test_what_was_measured_is_named():
    run = planted_run(NOISY, rated_items(40, clusters=25), provenance={"ratings_name": "GPT-4 reference"})
    row = agreement(run)["pearson"]
    assert (row.target, row.method, row.measure) == ("GPT-4 reference", "mean_prob", "pearson")
    assert (row.items, row.clusters, row.unrated, row.note) == (40, 25, 0, "")
    assert row.low < row.value < row.high


@settings(deadline=None, max_examples=40)
@given(st.integers(3, 30), st.integers(0, 2**32 - 1))
def test_weighted_measures_equal_scipys_on_the_resampled_data(count, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 5, count).astype(float), rng.normal(size=count)
    weight = rng.multinomial(count, np.full(count, 1 / count), size=4).astype(float)
    for b, times in enumerate(weight.astype(int)):
        xs, ys = np.repeat(x, times), np.repeat(y, times)
        np.testing.assert_allclose(np.repeat(ranks(x, weight)[b], times), stats.rankdata(xs))
        if np.ptp(xs) and np.ptp(ys):
            assert pearson(x, y, weight)[b] == pytest.approx(stats.pearsonr(xs, ys)[0], abs=1e-9)
            assert _spearman(x, y, weight)[b] == pytest.approx(stats.spearmanr(xs, ys)[0], abs=1e-9)
        else:
            assert np.isnan(pearson(x, y, weight)[b])


def test_the_order_of_items_does_not_matter_to_value_or_interval():
    run = planted_run(NOISY, rated_items(30, clusters=21))
    rows = np.random.default_rng(0).permutation(30)
    mixed = Run(run.logp[rows], run.alias_mass[rows], [run.items[i] for i in rows], run.orderings, run.scores)
    for a, b in zip(agreement(run), agreement(mixed), strict=True):
        np.testing.assert_allclose([a.value, a.low, a.high], [b.value, b.low, b.high], atol=1e-12)


def test_the_seed_and_the_number_of_draws_are_arguments():
    run = planted_run(NOISY, rated_items(30))
    assert agreement(run) == agreement(run)
    assert agreement(run, seed=1)["pearson"].low != agreement(run)["pearson"].low
    assert agreement(run, draws=50)["pearson"].low != agreement(run)["pearson"].low
    with pytest.raises(InputError, match="draws is 1"):
        agreement(run, draws=1)


def test_the_interval_is_near_fishers_for_independent_items():
    run = planted_run(NOISY, rated_items(400))
    row = agreement(run)["pearson"]
    expected = np.tanh(np.arctanh(row.value) + np.array([-1, 1]) * 1.96 / np.sqrt(397))
    assert row.high - row.low == pytest.approx(expected[1] - expected[0], rel=0.2)
    assert np.arctanh(row.high) - np.arctanh(row.value) == pytest.approx(np.arctanh(row.value) - np.arctanh(row.low))


def test_copies_in_a_cluster_add_nothing_to_the_certainty():
    run = planted_run(NOISY, rated_items(30))
    copies = [Item(f"{item.id}-{n}", {}, human=item.human, cluster=item.id) for item in run.items for n in range(4)]
    four = Run(run.logp.repeat(4, 0), run.alias_mass.repeat(4, 0), copies, run.orderings, run.scores)
    one, many = agreement(run)["pearson"], agreement(four)["pearson"]
    assert many.clusters == one.clusters == 30
    np.testing.assert_allclose([many.value, many.low, many.high], [one.value, one.low, one.high], atol=0.02)


def test_simulated_intervals_cover_the_truth():
    """95% intervals of 24 clusters of 2: 99.9% Monte Carlo band of 400 draws around 95%."""
    rng, clusters, rho = np.random.default_rng(5), np.repeat(np.arange(24), 2), 0.6
    hits = dict.fromkeys(MEASURES, 0)
    truth = {"pearson": rho, "spearman": 6 / np.pi * np.arcsin(rho / 2)}
    for _ in range(400):
        x, noise = (0.6 * rng.normal(size=24)[clusters] + 0.8 * rng.normal(size=48) for _ in range(2))
        y = rho * x + np.sqrt(1 - rho**2) * noise
        for measure, correlate in MEASURES.items():
            drawn = intervals.bootstrap(lambda w, f=correlate: f(x, y, w), clusters, draws=200, rng=rng)  # noqa: B023
            value = np.arctanh(correlate(x, y, np.ones((1, 48)))[0])
            low, high = np.tanh(intervals.t_interval(value, np.arctanh(drawn), 24))
            hits[measure] += low <= truth[measure] <= high
    for measure, count in hits.items():
        assert 0.914 <= count / 400 <= 0.986, measure


def test_few_clusters_are_flagged_and_one_has_no_interval():
    row = agreement(planted_run(NOISY, rated_items(30, clusters=7)))["spearman"]
    assert row.note == "too few clusters (7 < 20)"
    assert row.low < row.value < row.high
    one = agreement(planted_run(NOISY, rated_items(30, clusters=1)))["pearson"]
    assert (one.low, one.high, one.note) == (None, None, "no interval: all items are of one cluster")
    assert one.value is not None


@pytest.mark.parametrize("clusters", [2, 3, 4])
def test_very_few_clusters_give_wide_intervals_without_a_warning(clusters):
    row = agreement(planted_run(NOISY, rated_items(clusters + 2, clusters=clusters)))["pearson"]
    assert row.low is None or -1 <= row.low <= row.value <= row.high <= 1


def test_items_without_a_rating_are_left_out_and_counted():
    items = [*rated_items(25), *(Item(f"u{n}", {}) for n in range(6))]
    run = planted_run(NOISY, items)
    row = agreement(run)["pearson"]
    assert (row.items, row.clusters, row.unrated) == (25, 25, 6)
    rated = agreement(run.select([item.human is not None for item in items]))["pearson"]
    assert row == replace(rated, unrated=6)


@pytest.mark.parametrize(
    ("items", "note"),
    [
        (unrated_items(5), "no ratings"),
        (rated_items(2), "too few rated items (2 < 3)"),
        ([Item(f"i{n}", {}, human=(0.1 + 0.2,)) for n in range(5)], "degenerate: the ratings do not vary"),
    ],
)
def test_undefined_agreement_is_null_with_a_note(items, note):
    for row in agreement(planted_run("order_noise=1", items)):
        assert (row.value, row.low, row.high, row.note) == (None, None, None, note)


def test_scores_that_differ_by_rounding_only_do_not_vary():
    run = planted_run("position=0.8,0,0,0,0.3;quality_scale=0", rated_items(30), "full")
    assert {row.note for row in agreement(run)} == {"degenerate: the scores do not vary"}
    run = planted_run("item_position_sd=0.7;quality_scale=0", rated_items(30), "full")
    assert np.ptp(debias(run, "mean_logp").score) > 0
    assert {row.note for row in agreement(run, "mean_logp")} == {"degenerate: the scores do not vary"}
    both = planted_run("quality_scale=0", [Item(f"i{n}", {}, human=(3,)) for n in range(5)])
    assert agreement(both)["pearson"].note == "degenerate: the scores and the ratings do not vary"


def test_no_items_is_no_ratings():
    assert agreement(planted_run("", rated_items(2)).select([False, False]))["pearson"].note == "no ratings"


def test_perfect_agreement_is_flagged():
    run = planted_run(
        "quality_scale=3", [Item(f"i{n}", {}, human=(n / 10 + 1,)) for n in range(30)], "identity", rubric_of()
    )
    row = agreement(run)["spearman"]
    assert (row.value, row.low, row.high) == (pytest.approx(1),) * 3
    assert row.note == "degenerate: the correlation is perfect"


def test_unknown_names_are_errors():
    run = planted_run("", rated_items(4))
    with pytest.raises(InputError, match=r"unknown debiaser 'mean_porb'.*'mean_prob'"):
        agreement(run, "mean_porb")
    with pytest.raises(InputError, match="unknown measure 'kendall'"):
        agreement(run)["kendall"]


def test_frame():
    found = agreement(planted_run(NOISY, rated_items(30)))
    frame = found.to_frame().set_index("measure")
    assert frame.loc["spearman", "value"] == found["spearman"].value
    assert list(frame.index) == list(MEASURES)
    assert "<table" in found._repr_html_()


def test_bootstrap_does_not_depend_on_the_chunk(monkeypatch):
    clusters = intervals.number(list("abcabcdde"))
    x = np.arange(9.0)

    def mean():
        return intervals.bootstrap(lambda w: (w @ x) / w.sum(axis=1), clusters, draws=20, rng=np.random.default_rng(3))

    whole = mean()
    monkeypatch.setattr(intervals, "CHUNK", 40)
    np.testing.assert_allclose(mean(), whole, atol=1e-12)


def test_bootstrap_keeps_clusters_together():
    clusters = np.array([0, 0, 1, 2, 2, 2])
    seen = []
    intervals.bootstrap(lambda w: seen.append(w) or w[:, 0], clusters, draws=50, rng=np.random.default_rng(0))
    [weight] = seen
    assert (weight[:, 0] == weight[:, 1]).all()
    assert (weight[:, 3] == weight[:, 5]).all()
    assert (weight[:, [0, 2, 3]].sum(axis=1) == 3).all()


def test_t_interval_is_the_standard_error_times_t():
    drawn = np.array([1.0, 2.0, 4.0])
    low, high = intervals.t_interval(2.0, drawn, 8, level=0.9)
    half = np.std(drawn, ddof=1) * stats.t.ppf(0.95, 7)
    assert (low, high) == (pytest.approx(2 - half), pytest.approx(2 + half))


def test_nothing_warns_on_tiny_runs():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for count in range(1, 6):
            agreement(planted_run("order_noise=1", rated_items(count)), draws=200)
