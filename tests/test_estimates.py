import numpy as np
import pytest
from scipy import stats

from logitjudge.errors import InputError
from logitjudge.measures import intervals
from logitjudge.measures.agreement import pearson
from logitjudge.measures.estimates import bounded, effect, effective, shares, wilson

HITS = np.repeat([1.0, 0.0], [36, 164])


def one(above, below=None, clusters=None, **how):
    above = np.asarray(above, dtype=float)
    below = np.ones(len(above)) if below is None else np.asarray(below, dtype=float)
    return shares({"x": (above, below)}, np.arange(len(above)) if clusters is None else clusters, **how)["x"]


def test_a_share_of_single_items_is_wilsons():
    found = one(HITS, draws=20_000)
    expected = stats.binomtest(36, 200).proportion_ci(method="wilson")
    assert (found.value, found.of, found.clusters, found.note) == (0.18, 200, 200, "")
    assert found.low == pytest.approx(expected.low, abs=0.004)
    assert found.high == pytest.approx(expected.high, abs=0.004)


def test_copies_in_a_cluster_are_no_evidence():
    alone, copied = one(HITS), one(np.repeat(HITS, 5), clusters=np.repeat(np.arange(200), 5))
    assert (copied.value, copied.of, copied.clusters) == (0.18, 1000, 200)
    assert (copied.low, copied.high) == pytest.approx((alone.low, alone.high))


def test_wilson_is_the_test_turned_round():
    low, high = wilson(0.3, 50, 20)
    for end in (low, high):
        assert abs(end - 0.3) / np.sqrt(end * (1 - end) / 50) == pytest.approx(stats.t.ppf(0.975, 20))


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_nothing_at_all_is_not_certain(value):
    found = one(np.full(59, value))
    q2 = stats.t.ppf(0.975, 58) ** 2
    far = q2 / (59 + q2)
    assert (found.low, found.high) == pytest.approx((0, far) if value == 0 else (1 - far, 1))
    assert found.note == "degenerate: no resample differs; each cluster is taken for one observation"


def test_all_a_half_is_degenerate():
    found = one(np.full(30, 0.5))
    assert (found.value, found.low, found.high, found.note) == (0.5, 0.5, 0.5, "degenerate: no resample differs")


def test_only_what_counts_counts():
    below = np.r_[np.ones(30), np.zeros(70)]
    found, alone = one(below * HITS[20:120], below), one(HITS[20:50])
    assert (found.value, found.of, found.clusters) == (alone.value, 30, 30)
    assert (found.low, found.high) == pytest.approx((alone.low, alone.high))


def test_what_has_no_interval():
    assert one(np.zeros(3), np.zeros(3)).value is None
    assert one(np.zeros(3), np.zeros(3)).note == "there is nothing to take it of"
    found = one([1.0, 0.0], clusters=np.array([0, 0]))
    assert (found.value, found.low, found.note) == (0.5, None, "no interval: all items are of one cluster")
    found = one(np.r_[np.ones(5), np.zeros(96)], clusters=np.repeat([0, 1, 2], [99, 1, 1]))
    assert found.low is None
    assert "rests on 1.0 effective clusters" in found.note
    assert one([1.0, 0.0, 0.0]).note == "too few clusters (3 < 20)"
    with pytest.raises(InputError, match="draws is 1"):
        one([1.0, 0.0], draws=1)


@pytest.mark.parametrize(("share", "count"), [(0.03, 59), (0.5, 40), (0.85, 100)])
def test_shares_cover(share, count):
    rng = np.random.default_rng(0)
    parts = {n: ((rng.random(count) < share).astype(float), np.ones(count)) for n in range(2000)}
    found = shares(parts, np.arange(count), draws=400).values()
    inside = sum(one.low <= share <= one.high for one in found)
    assert inside >= stats.binom.ppf(0.001, 2000, 0.93)


def test_shares_of_large_and_small_clusters_cover():
    rng = np.random.default_rng(1)
    sizes = np.tile([1, 2, 6], 14)
    clusters, hit = np.repeat(np.arange(42), sizes), 0
    for seed in range(300):
        level = np.repeat(rng.beta(2, 6, 42), sizes)
        found = one(rng.random(len(level)) < level, clusters=clusters, draws=200, seed=seed)
        hit += found.low <= 0.25 <= found.high
    assert hit >= stats.binom.ppf(0.001, 300, 0.93)


def test_an_effect_is_the_t_test_of_cluster_means():
    rng = np.random.default_rng(0)
    values = rng.normal(0.2, 1, (24, 3))
    found = effect(values.ravel(), np.repeat(np.arange(24), 3))
    test = stats.ttest_1samp(values.mean(axis=1), 0)
    assert (found.test.statistic, found.test.degrees, found.test.p) == pytest.approx((test.statistic, 23, test.pvalue))
    ends = test.confidence_interval()
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high))


def test_an_effect_of_clusters_of_several_sizes_by_hand():
    """Clusters (1, 3), (2), (6): mean 3, sums of residuals -2, -1, 3; sizes 2, 1, 1 are worth 16/6 clusters.

    The variance is (4 + 1 + 9) / (1 - 6/16) / 16.
    """
    found = effect(np.array([1.0, 3.0, 2.0, 6.0]), np.array([0, 0, 1, 2]))
    error = np.sqrt(14 / (10 / 16)) / 4
    assert (found.value, found.test.statistic) == pytest.approx((3, 3 / error))
    assert found.test.degrees == pytest.approx(16 / 6 - 1)
    assert found.high == pytest.approx(3 + error * stats.t.ppf(0.975, 16 / 6 - 1))


def test_an_effect_rejects_as_often_as_it_says():
    rng = np.random.default_rng(2)
    clusters = np.repeat(np.arange(30), np.tile([1, 2, 3], 10))
    shifts = rng.normal(0, 1, (1000, 30))[:, clusters] + rng.normal(0, 1, (1000, 60))
    rejected = sum(effect(row, clusters).test.p < 0.05 for row in shifts)
    assert stats.binom.ppf(0.001, 1000, 0.05) <= rejected <= stats.binom.ppf(0.999, 1000, 0.07)


def test_effects_that_do_not_vary_are_no_evidence():
    found = effect(np.full(10, 0.8), np.arange(10))
    assert (found.value, found.low, found.high, found.test) == (0.8, 0.8, 0.8, None)
    assert found.note == "degenerate: the clusters do not vary"
    assert effect(np.array([1.0, 2.0]), np.array([0, 0])).low is None
    assert effect(np.array([]), np.array([], dtype=int)).value is None


def test_effective_clusters():
    assert effective(np.ones(7)) == pytest.approx(7)


def test_a_correlation_has_the_interval_of_agreement():
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, 50)
    y = x + rng.normal(0, 1, 50)
    clusters = np.arange(50)
    found = bounded(lambda w: pearson(x, y, w), clusters, draws=300, seed=4)
    drawn = intervals.bootstrap(lambda w: pearson(x, y, w), clusters, draws=300, rng=np.random.default_rng(4))
    ends = np.tanh(intervals.t_interval(np.arctanh(stats.pearsonr(x, y).statistic), np.arctanh(drawn), 50))
    assert found.value == pytest.approx(stats.pearsonr(x, y).statistic)
    assert (found.low, found.high) == pytest.approx(tuple(ends))
    assert bounded(lambda w: pearson(x, x, w), clusters).note == "degenerate: it is perfect"
    assert bounded(lambda w: pearson(x, 0 * y, w), clusters).value is None
    assert bounded(lambda w: pearson(x, y, w), 0 * clusters).low is None


@pytest.mark.parametrize("chunk", [100, intervals.CHUNK])
def test_resamplings_that_are_kept_are_those_of_the_generator(chunk, monkeypatch):
    monkeypatch.setattr(intervals, "CHUNK", chunk)
    intervals._drawn.clear()

    def statistic(weight):
        return weight @ np.arange(30.0)

    clusters = np.arange(30)
    for seed in (0, 1, 0, 2, 3, 4, 5, 0):
        rng, fresh = np.random.default_rng(seed), np.random.default_rng(seed)
        for _ in range(2):  # the generator goes on as if it had drawn
            expected = fresh.multinomial(30, np.full(30, 1 / 30), size=50) @ np.arange(30.0)
            np.testing.assert_array_equal(intervals.bootstrap(statistic, clusters, draws=50, rng=rng), expected)
    assert len(intervals._drawn) <= intervals.KEPT
