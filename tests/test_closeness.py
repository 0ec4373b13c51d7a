"""Agreement beyond correlations with intervals, against scikit-learn, scipy and by hand; the raters' reliability against krippendorff."""

import itertools
import json
from pathlib import Path

import krippendorff
import numpy as np
import pytest
from planted_runs import run_of
from scipy import stats
from sklearn.metrics import cohen_kappa_score

import logitjudge as lj
from logitjudge import datasets
from logitjudge.measures import closeness, intervals, reliability
from logitjudge.report.agreement import section

CASES = json.loads((Path(__file__).parent / "cases" / "closeness.json").read_text())
SHARED = Path(__file__).parents[2] / "shared" / "data"
LEVELS = np.array([1, 2, 3, 4, 5])


@pytest.fixture
def columns():
    rng = np.random.default_rng(0)
    ratings = rng.integers(1, 6, 60).astype(float)
    return np.clip(ratings + rng.normal(0, 1, 60), 1, 5), ratings


@pytest.mark.parametrize("name", CASES)
def test_small_cases_by_hand(name):
    case = CASES[name]
    scores, ratings, levels = (np.array(case[key]) for key in ("scores", "ratings", "levels"))
    for key, expected in case["expected"].items():
        found = {
            "kendall": lambda: closeness.kendall(scores, ratings),
            "quadratic_kappa": lambda: closeness.quadratic_kappa(scores, ratings, levels),
            "exact": lambda: closeness.exact(scores, ratings, levels),
            "absolute_error": lambda: closeness.absolute_error(scores, ratings),
            "pair_accuracy": lambda: closeness.pair_accuracy(scores, ratings).value,
            "tie_threshold": lambda: closeness.pair_accuracy(scores, ratings).threshold,
        }[key]()
        assert found == (expected if expected is None else pytest.approx(expected)), key


def test_kappa_and_tau_are_those_of_others(columns):
    scores, ratings = columns
    expected = cohen_kappa_score(np.round(scores), ratings.astype(int), weights="quadratic", labels=LEVELS)
    assert closeness.quadratic_kappa(scores, ratings, LEVELS) == pytest.approx(expected)
    assert closeness.kendall(scores, ratings) == pytest.approx(stats.kendalltau(scores, ratings).statistic)
    assert closeness.correlation(scores, ratings) == pytest.approx(stats.pearsonr(scores, ratings)[0])
    assert closeness.correlation(scores, ratings, ranked=True) == pytest.approx(stats.spearmanr(scores, ratings)[0])


def test_the_tie_threshold_is_the_best_of_all(columns):
    ratings = columns[1]
    scores = ratings + np.random.default_rng(7).normal(0, 0.3, 60)
    pairs = list(itertools.combinations(range(len(scores)), 2))

    def accuracy(threshold):
        hits = 0
        for i, j in pairs:
            ours = 0 if abs(scores[i] - scores[j]) <= threshold else np.sign(scores[i] - scores[j])
            hits += ours == np.sign(ratings[i] - ratings[j])
        return hits / len(pairs)

    found = closeness.pair_accuracy(scores, ratings)
    assert found.value == pytest.approx(accuracy(found.threshold + 1e-12))
    assert found.value >= max(accuracy(t) for t in np.linspace(0, 4, 81)) - 1e-12
    assert found.value > accuracy(0)


def test_nothing_to_say_is_none():
    same = np.full(5, 3.0)
    moving = np.arange(5.0)
    assert closeness.kendall(same, moving) is None
    assert closeness.correlation(moving, same) is None
    assert closeness.quadratic_kappa(same, same, LEVELS) is None
    assert closeness.pair_accuracy(same[:1], moving[:1]) is None
    assert closeness.exact(same[:0], same[:0], LEVELS) is None
    few = closeness.system_level(moving, moving, ["a", "b", "c", "d", "e"])
    assert (few.systems, few.pearson) == (5, None)
    assert "takes 8" in few.note


def test_systems_are_means_of_their_items():
    rng = np.random.default_rng(1)
    systems = [f"s{n % 9}" for n in range(45)]
    scores, ratings = rng.normal(0, 1, 45), rng.normal(0, 1, 45)
    found = closeness.system_level(scores, ratings, systems)
    means = [
        [np.mean([v for v, s in zip(values, systems, strict=True) if s == name]) for name in sorted(set(systems))]
        for values in (scores, ratings)
    ]
    assert found.pearson == pytest.approx(stats.pearsonr(*means)[0])
    assert found.spearman == pytest.approx(stats.spearmanr(*means)[0])


def test_a_method_does_not_differ_from_itself_and_from_noise_it_does(columns):
    scores, ratings = columns
    clusters = intervals.number([str(n) for n in range(60)])
    same = closeness.differences(scores, scores, ratings, clusters)
    assert [(row.value, row.low, row.high) for row in same] == [(0.0, 0.0, 0.0)] * 2
    noise = np.random.default_rng(2).normal(0, 1, 60)
    for row in closeness.differences(scores, noise, ratings, clusters):
        assert row.low > 0
        one, other = (closeness.correlation(x, ratings, ranked=row.measure == "spearman") for x in (scores, noise))
        assert row.value == pytest.approx(one - other)


def test_the_section_goes_by_criterion_and_names_the_ceiling():
    rng = np.random.default_rng(3)
    truth = rng.integers(1, 6, 80)
    humans = np.clip(truth[:, None] + rng.integers(-1, 2, (80, 3)), 1, 5).astype(float)
    probs = np.exp(-((np.arange(1, 6) - truth[:, None, None] + rng.normal(0, 0.5, (80, 10, 1))) ** 2))
    probs /= probs.sum(axis=-1, keepdims=True)
    items = [
        lj.Item(f"i{n}", {}, human=tuple(humans[n]), groups={"criterion": "ab"[n % 2], "system": f"s{n % 10}"})
        for n in range(80)
    ]
    run = run_of(probs, "balanced", items=items, provenance={"raters": "same", "ratings_name": "human experts"})
    made = section(run, draws=100)
    json.dumps(made, allow_nan=False)
    first = made["methods"][0]
    assert [one["method"] for one in made["methods"]] == ["mean_prob", "mean_logp", "mean_winner", "single"]
    assert set(first["by_criterion"]) == {"a", "b"}
    half = [first["by_criterion"][name]["pearson"] for name in "ab"]
    assert first["mean_over_criteria"]["pearson"] == pytest.approx(np.mean(half))
    assert first["systems"]["systems"] == 10
    assert first["share_of_ceiling"] == pytest.approx(first["pooled"]["pearson"] / made["reliability"]["ceiling"])
    assert section(run_of(probs, "balanced"))["reason"].startswith("no item has a rating")


def test_a_difference_without_enough_resamples_has_no_interval():
    scores, ratings = np.array([1.0, 2.0, 2.0]), np.array([1.0, 1.0, 3.0])
    other = np.array([2.0, 2.0, 1.0])
    for row in closeness.differences(scores, other, ratings, np.array([0, 1, 2])):  # 12 of 27 draws vary in all columns
        assert (row.low, row.note) == (None, "no interval: most resamples are degenerate (3 clusters)")
    for row in closeness.differences(scores, other, ratings, np.array([0, 0, 1])):  # half of them, all alike
        assert (row.low, row.high, row.note) == (row.value, row.value, "degenerate: no resample differs")


# --- reliability ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["ordinal", "interval"])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_alpha_is_that_of_krippendorff(level, missing):
    rng = np.random.default_rng(4)
    ratings = np.clip(rng.integers(1, 6, (40, 1)) + rng.integers(-1, 2, (40, 4)), 1, 5).astype(float)
    ratings[rng.random(ratings.shape) < missing] = np.nan
    expected = krippendorff.alpha(reliability_data=ratings.T, level_of_measurement=level)
    assert reliability.alpha(ratings, level) == pytest.approx(expected)


def test_icc_by_the_mean_squares_of_scipy():
    rng = np.random.default_rng(5)
    ratings = rng.normal(0, 1, (30, 1)) + np.array([0.0, 0.5, -0.5]) + rng.normal(0, 0.7, (30, 3))
    between = stats.f_oneway(*ratings).statistic  # B over the whole within
    one = reliability.icc(ratings, "1")
    assert one.value == pytest.approx(1 - 1 / between)
    assert one.low < one.value < one.high
    assert reliability.icc(ratings, "C").value > one.value  # the raters' levels do not count


def test_raters_who_agree_by_chance_give_no_ceiling():
    rng = np.random.default_rng(6)
    items = [lj.Item(f"i{n}", {}, human=tuple(rng.integers(1, 6, 3).astype(float))) for n in range(40)]
    found = reliability.reliability(items)
    assert found.ceiling is None
    assert "no ceiling" in found.note


@pytest.mark.shared_data
def test_the_real_raters_are_as_known():
    """DATASETS.md: SummEval coherence (12 systems) alpha .574/.576, HANNA relevance .131/.103."""
    made = datasets.load(f"summeval:{SHARED / 'summeval' / 'original'}?criteria=coherence")
    found = reliability.reliability(made.items, made.raters, made.ratings_name)
    assert (found.alpha_ordinal, found.alpha_interval) == pytest.approx((0.574, 0.576), abs=6e-4)
    made = datasets.load(f"hanna:{SHARED / 'hanna'}?criteria=relevance")
    found = reliability.reliability(made.items, made.raters, made.ratings_name)
    assert (found.alpha_ordinal, found.alpha_interval) == pytest.approx((0.131, 0.103), abs=6e-4)
