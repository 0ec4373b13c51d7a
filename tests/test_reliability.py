"""The raters' reliability: published and hand-checked values, an independent analysis of variance, and where there is none."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from planted_runs import case_file, rated_items, unrated_items
from scipy import stats

from logitjudge import datasets
from logitjudge.core import Item
from logitjudge.errors import InputError
from logitjudge.measures import reliability
from logitjudge.measures.reliability import alpha, icc

CASES = case_file("reliability")


def items_of(ratings):
    return [Item(f"i{n}", {}, human=tuple(row)) for n, row in enumerate(ratings)]


@pytest.mark.parametrize("name", CASES)
def test_small_cases(name):
    case = CASES[name]
    ratings = np.array(case["ratings"], dtype=float)
    for kind in ("1", "C"):
        found, digits = icc(ratings, kind), 0.005 if name == "shrout_fleiss" else 1e-9
        for value, expected in zip((found.value, found.low, found.high), case[f"icc_{kind.lower()}"], strict=True):
            assert expected is None or value == pytest.approx(expected, abs=digits)
    for level in ("interval", "ordinal"):
        if (expected := case.get(f"alpha_{level}")) is not None:
            assert alpha(ratings, level) == pytest.approx(expected, abs=1e-9)


@settings(deadline=None, max_examples=30)
@given(st.integers(3, 12), st.integers(2, 5), st.integers(0, 2**32 - 1))
def test_the_mean_squares_are_those_of_a_least_squares_fit(n, k, seed):
    """Residuals of regressions on items, and on items and raters: no formula of ours."""
    rng = np.random.default_rng(seed)
    ratings = rng.normal(size=(n, 1)) + rng.normal(size=k) + rng.normal(size=(n, k))
    of_item, of_rater = np.eye(n).repeat(k, axis=0), np.tile(np.eye(k), (n, 1))
    y, ones = ratings.ravel(), np.ones((n * k, 1))

    def left(*columns):
        design = np.hstack(columns)
        return ((y - design @ np.linalg.lstsq(design, y, rcond=None)[0]) ** 2).sum()

    between = (left(ones) - left(of_item)) / (n - 1)
    for kind, within, freedom in (
        ("1", left(of_item), n * (k - 1)),
        ("C", left(of_item, of_rater), (n - 1) * (k - 1)),
    ):
        found, ratio = icc(ratings, kind), between / (within / freedom)
        assert found.value == pytest.approx(1 - 1 / ratio, abs=1e-6)
        assert found.low == pytest.approx(1 - stats.f.ppf(0.975, n - 1, freedom) / ratio, rel=1e-6)
        assert found.high == pytest.approx(1 - stats.f.ppf(0.025, n - 1, freedom) / ratio, rel=1e-6)


def test_limits_hold_the_truth():
    """True reliability of a mean of 3 with item variance 1 and error variance 2: 1 / (1 + 2/3) = .6; 99.9 % Monte Carlo band."""
    rng, hits = np.random.default_rng(0), {"1": 0, "C": 0}
    for _ in range(1000):
        ratings = rng.normal(size=(30, 1)) + math.sqrt(2) * rng.normal(size=(30, 3))
        for kind in hits:
            levels = np.array([0, 1, -2]) * (kind == "C")
            found = icc(ratings + levels, kind)
            hits[kind] += found.low <= 0.6 <= found.high
    assert all(0.927 <= count / 1000 <= 0.973 for count in hits.values()), hits


def test_the_ceiling_is_what_a_judge_that_knows_the_truth_reaches():
    rng = np.random.default_rng(1)
    truth = rng.normal(size=20000)
    ratings = truth[:, None] + rng.normal(size=(20000, 3)) * 1.5
    found = reliability.reliability(items_of(ratings), "slots")
    assert found.ceiling == pytest.approx(np.corrcoef(truth, ratings.mean(axis=1))[0, 1], abs=0.01)
    assert found.ceiling == pytest.approx(math.sqrt(found.icc_1.value))
    strict = reliability.reliability(items_of(ratings + np.array([2, 0, -2])), "same")
    assert strict.ceiling == pytest.approx(found.ceiling, abs=0.01)
    assert strict.icc is strict.icc_c


def test_a_model_has_a_self_consistency_and_no_ceiling():
    items = items_of(np.arange(20)[:, None] + np.random.default_rng(2).normal(size=(20, 3)))
    found = reliability.reliability(items, "slots", "GPT-4 reference")
    assert found.ceiling is None
    assert found.self_consistency == pytest.approx(math.sqrt(found.icc_1.value))
    assert found.note == "a model's self-consistency, no ceiling"


@pytest.mark.parametrize(
    ("items", "note"),
    [
        ([], "no ratings"),
        (unrated_items(3), "no ratings"),
        (items_of([[1.0], [2.0]]), "one rating an item: raters cannot be compared"),
        (items_of([[1.0, 2.0]]), "one item: items cannot be compared"),
        (items_of([[1.0, 2.0], [2.0, 1.0]]), "degenerate: the items do not differ"),
        (items_of([[3.0, 3.0]] * 4), "degenerate: the items do not differ"),
    ],
)
def test_nothing_to_say_is_none_with_a_reason(items, note):
    for raters in ("same", "slots"):
        found = reliability.reliability(items, raters)
        assert (found.icc.value, found.icc.low, found.ceiling, found.self_consistency) == (None,) * 4
        assert found.note == note
    assert found.alpha_interval is None or note.startswith(("one item", "degenerate"))


def test_equal_ratings_have_no_alpha_and_perfect_ones_are_flagged():
    assert alpha(np.full((4, 2), 3.0)) is None
    found = reliability.reliability(items_of([[1.0, 1.0], [2.0, 2.0], [4.0, 4.0]]))
    assert (found.alpha_ordinal, found.alpha_interval, found.ceiling) == (1, 1, 1)
    assert (found.icc_1.low, found.icc_1.note) == (1, "degenerate: the raters agree perfectly")


def test_items_with_other_numbers_of_ratings_are_left_out_and_counted():
    full = np.random.default_rng(3).normal(size=(9, 3)) + np.arange(9)[:, None]
    ragged = [*items_of(full), *(Item(f"r{n}", {}, human=(1.0, 2.0)) for n in range(4)), *unrated_items(2)]
    found = reliability.reliability(ragged)
    assert (found.items, found.raters, found.icc_1.items) == (13, 3, 9)
    assert found.icc_1.value == icc(full, "1").value
    assert found.icc_1.note == "4 item(s) with another number of ratings left out"
    assert found.mean == pytest.approx(np.mean([*full.mean(axis=1), *[1.5] * 4]))


def test_arguments_and_frame():
    for call in (
        lambda: reliability.reliability([], "slot"),
        lambda: icc(np.ones((2, 2)), "A"),
        lambda: alpha(np.ones((2, 2)), "x"),
    ):
        with pytest.raises(InputError, match="unknown"):
            call()
    frame = reliability.reliability(rated_items(20)).to_frame()
    assert {"alpha_ordinal", "icc_1_low", "icc_c", "ceiling", "note"} <= set(frame.columns)


def icc_2k(ratings):
    """ICC(A,k), the column ICC2k of DATASETS.md: two-way random, absolute agreement."""
    n, k = ratings.shape
    rows, columns = ratings.mean(axis=1), ratings.mean(axis=0)
    between, raters = k * rows.var(ddof=1), n * columns.var(ddof=1)
    error = ((ratings - rows[:, None] - columns + ratings.mean()) ** 2).sum() / ((n - 1) * (k - 1))
    return (between - error) / (between + (raters - error) / n)


TABLE = {  # DATASETS.md: alpha ordinal, alpha interval, ICC2k, digits of the latter
    "hanna?systems=Human": {
        "relevance": (0.131, 0.103, 0.25), "coherence": (0.128, 0.141, 0.33), "empathy": (0.111, 0.113, 0.30),
        "surprise": (0.083, 0.077, 0.22), "engagement": (0.067, 0.072, 0.20), "complexity": (0.084, 0.081, 0.22),
    },
    "summeval": {
        "coherence": (0.574, 0.576, 0.81), "consistency": (0.815, 0.899, 0.96), "fluency": (0.612, 0.738, 0.90),
        "relevance": (0.447, 0.493, 0.75),
    },
    "summeval?systems=M17,M20,M22,M23": {
        "coherence": (0.406, 0.475, 0.76), "consistency": (0.865, 0.915, 0.97), "fluency": (0.644, 0.774, 0.91),
        "relevance": (0.362, 0.445, 0.73),
    },
    "mt_bench": {None: (0.815, 0.851, 0.945)},
    "vicuna_bench": {None: (0.723, 0.808, 0.927)},
}  # fmt: skip
FILES = {
    "hanna": ".",
    "summeval": "original",
    "mt_bench": "mt_bench_eval.prometheus2.json",
    "vicuna_bench": "vicuna_eval.prometheus2.json",
}


@pytest.mark.shared_data
@pytest.mark.parametrize("spec", TABLE)
def test_the_table_of_the_real_raters(shared, spec):
    name, _, query = spec.partition("?")
    made = datasets.load(f"{name}:{shared / 'data' / name / FILES[name]}" + ("?" + query if query else ""))
    for criterion, (ordinal, interval, two) in TABLE[spec].items():
        items = [item for item in made.items if item.groups.get("criterion") == criterion]
        found = reliability.reliability(items, made.raters, made.ratings_name)
        assert (found.alpha_ordinal, found.alpha_interval) == pytest.approx((ordinal, interval), abs=6e-4)
        assert icc_2k(reliability.matrix(items)) == pytest.approx(
            two, abs=0.0056
        )  # one of them, .8945, stands there as .90
        assert found.icc_1.value <= icc_2k(reliability.matrix(items)) + 0.01 <= found.icc_c.value + 0.02
        assert (found.ceiling is None) == (name != "summeval" and criterion != "coherence")
        assert (found.self_consistency is None) == (name in ("hanna", "summeval"))
