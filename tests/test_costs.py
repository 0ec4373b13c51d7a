import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from planted_runs import planted_run, rated_items, unrated_items

from logitjudge.core import Ordering
from logitjudge.errors import InputError, NotObserved, OrderingError
from logitjudge.measures import assignment
from logitjudge.measures.costs import bias_cost, cost_spread, dearest_ordering, rank_orderings
from logitjudge.measures.matrices import ESTIMATORS, ScorePositionMatrix, score_position_matrix


def matrix_of(values, share=None, scores=None):
    levels = len(values)
    share = np.full(levels, 1 / levels) if share is None else share
    return ScorePositionMatrix(
        np.asarray(values, dtype=float),
        np.arange(1, levels + 1) if scores is None else scores,
        "soft",
        share=share,
        picks=share,
        effective_items=np.ones(levels),
        reasons=(None,) * levels,
    )


def random_matrix(levels, seed=0):
    return matrix_of(np.random.default_rng(seed).dirichlet(np.full(levels, 5.0), levels))


def slow_cost(values, shown):
    return sum(abs(values[k][p] - 1 / len(values)) for p, k in enumerate(shown))


def every(matrix):
    """All orderings with their costs, cheapest first, ties in lexicographic order."""
    rows = [(slow_cost(matrix.values, s), s) for s in itertools.permutations(range(len(matrix.scores)))]
    return sorted((round(cost, 10), s) for cost, s in rows)


def test_cost_of_a_matrix_that_can_be_checked_by_hand():
    matrix = matrix_of([[0.5, 0.5], [0.75, 0.25]])
    assert bias_cost(matrix, "1,2") == pytest.approx(0 + 0.25)
    assert bias_cost(matrix, (2, 1)) == pytest.approx(0.25 + 0)
    lopsided = matrix_of([[0.5, 0.25, 0.25], [1 / 3, 1 / 3, 1 / 3], [0.2, 0.3, 0.5]])
    assert bias_cost(lopsided, "3,1,2") == pytest.approx((1 / 3 - 0.2) + (1 / 3 - 0.25) + 0)
    assert bias_cost(lopsided, Ordering((2, 0, 1))) == bias_cost(lopsided, [3, 1, 2])


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_costs_of_a_run_equal_the_definition(estimator):
    run = planted_run("position=0.8,0,0,0,0.3;interaction=3:0.6;order_noise=0.5", rated_items(40), "full")
    matrix = score_position_matrix(run, estimator)
    for cost, shown in every(matrix):
        assert bias_cost(matrix, Ordering(shown)) == pytest.approx(cost, abs=1e-9)
    ranked = rank_orderings(matrix, 200)
    assert [row.ordering.shown for row in ranked] == [shown for _, shown in every(matrix)]
    np.testing.assert_allclose(ranked.costs, [cost for cost, _ in every(matrix)], atol=1e-9)


def test_score_values_need_not_begin_at_1():
    matrix = matrix_of(random_matrix(3).values, scores=[0, 2, 7])
    assert bias_cost(matrix, "7,0,2") == bias_cost(matrix, Ordering((2, 0, 1)))
    assert rank_orderings(matrix, 1)[0].values == tuple([0, 2, 7][k] for k in every(matrix)[0][1])


@pytest.mark.parametrize("levels", [2, 3, 5, 6, 7])
@pytest.mark.parametrize("seed", range(3))
def test_k_best_assignment_equals_enumeration(levels, seed, monkeypatch):
    matrix = random_matrix(levels, seed)
    listed = rank_orderings(matrix, 30)
    monkeypatch.setattr("logitjudge.measures.costs.ENUMERATE", 0)
    found = rank_orderings(matrix, 30)
    assert found.orderings == listed.orderings
    assert found.costs.tolist() == listed.costs.tolist()
    assert [o.shown for o in listed.orderings] == [shown for _, shown in every(matrix)[:30]]


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 5), st.integers(1, 130), st.data())
def test_k_best_assignment_keeps_lexicographic_order_among_ties(levels, n, data):
    cells = st.lists(st.integers(0, 3), min_size=levels**2, max_size=levels**2)
    table = np.array(data.draw(cells), dtype=float).reshape(levels, levels)
    rows = sorted((sum(table[k, p] for p, k in enumerate(s)), s) for s in itertools.permutations(range(levels)))[:n]
    assert assignment.cheapest(table, n) == ([s for _, s in rows], [total for total, _ in rows])


@pytest.mark.parametrize("levels", [9, 10])
def test_beyond_enumeration_the_cheapest_and_the_dearest_are_the_best_of_many(levels):
    matrix = random_matrix(levels, 4)
    ranked, spread = rank_orderings(matrix, 12), cost_spread(matrix)
    rng = np.random.default_rng(0)
    drawn = [bias_cost(matrix, Ordering(rng.permutation(levels))) for _ in range(3000)]
    assert len(set(ranked.orderings)) == 12
    assert (np.diff(ranked.costs) >= 0).all()
    assert ranked.costs[0] == pytest.approx(bias_cost(matrix, ranked.orderings[0]), abs=1e-10)
    assert ranked.costs[-1] <= min(drawn)
    assert spread.dearest.cost >= max(drawn)
    assert spread.dearest.cost == pytest.approx(bias_cost(matrix, spread.dearest.ordering), abs=1e-10)
    swapped = [list(ranked.orderings[0].shown) for _ in range(levels * (levels - 1) // 2)]
    for row, (a, b) in zip(swapped, itertools.combinations(range(levels), 2), strict=True):
        row[a], row[b] = row[b], row[a]
        assert bias_cost(matrix, Ordering(row)) >= ranked.costs[0] - 1e-10


def test_the_cheapest_of_nine_levels_is_the_planted_one():
    levels, hidden = 9, (3, 1, 4, 0, 5, 8, 2, 6, 7)
    values = np.full((levels, levels), 0.1)
    values[list(hidden), range(levels)] = 0.2  # each row sums to 1
    matrix = matrix_of(values)
    assert dearest_ordering(matrix).ordering.shown == hidden
    assert dearest_ordering(matrix).cost == pytest.approx(levels * (0.2 - 1 / 9))
    assert hidden not in [o.shown for o in rank_orderings(matrix, 20).orderings]


@pytest.mark.parametrize("levels", [2, 3, 4, 5, 6])
def test_the_spread_equals_enumeration(levels):
    matrix, rows = random_matrix(levels, 2), every(random_matrix(levels, 2))
    spread = cost_spread(matrix)
    assert spread.mean == pytest.approx(np.mean([cost for cost, _ in rows]), abs=1e-9)
    assert (spread.cheapest.cost, spread.cheapest.ordering.shown) == (pytest.approx(rows[0][0], abs=1e-9), rows[0][1])
    dearest = max(cost for cost, _ in rows)
    assert spread.dearest.cost == pytest.approx(dearest, abs=1e-9)
    assert spread.dearest.ordering.shown == min(s for cost, s in rows if cost == dearest)
    assert spread.identity == pytest.approx(slow_cost(matrix.values, range(levels)))


def test_an_additive_judge_costs_the_same_in_every_ordering():
    run = planted_run("position=0.8,0,0,0,0.3;quality_scale=0", unrated_items(3), "full")
    spread = cost_spread(score_position_matrix(run))
    shares = np.exp([0.8, 0, 0, 0, 0.3]) / np.exp([0.8, 0, 0, 0, 0.3]).sum()
    expected = np.abs(shares - 0.2).sum()
    for cost in (spread.cheapest.cost, spread.dearest.cost, spread.mean, spread.identity, spread.additive):
        assert cost == pytest.approx(expected, abs=1e-9)
    ranked = rank_orderings(score_position_matrix(run), 3)
    assert [row.values for row in ranked] == [(1, 2, 3, 4, 5), (1, 2, 3, 5, 4), (1, 2, 4, 3, 5)]  # ties
    assert spread.dearest.values == (1, 2, 3, 4, 5)


def test_additive_weighs_rows_by_share():
    values, share = np.array([[0.9, 0.1], [0.3, 0.7]]), np.array([0.25, 0.75])
    assert cost_spread(matrix_of(values, share)).additive == pytest.approx(2 * abs(0.25 * 0.9 + 0.75 * 0.3 - 0.5))


def test_an_unbiased_judge_costs_nothing():
    matrix = score_position_matrix(planted_run("", rated_items(5), "balanced"))
    assert bias_cost(matrix, "identity") == pytest.approx(0, abs=1e-12)
    assert rank_orderings(matrix, 1)[0].values == (1, 2, 3, 4, 5)


def test_missing_rows_are_errors_with_the_reason():
    missing = score_position_matrix(planted_run("", rated_items(5), "identity"))
    never = score_position_matrix(
        planted_run("position=9,0,0,0,0;label=9,0,0,0,0", rated_items(3), "1,2,3,4,5;2,1,3,4,5"), "hard"
    )
    calls = (lambda m: bias_cost(m, "1,2,3,4,5"), rank_orderings, dearest_ordering, cost_spread)
    for call in calls:
        with pytest.raises(NotObserved, match=r"score 1 was never shown at position\(s\) 2, 3, 4, 5.*10 orderings"):
            call(missing)
        with pytest.raises(NotObserved, match="hard score x position"):
            call(never)


def test_what_is_not_one_ordering_is_refused():
    matrix = random_matrix(3)
    for wrong in ("1,2", "1,2,4", (1, 1, 2), "balanced", "1,2,3;3,2,1", Ordering((0, 1))):
        with pytest.raises(OrderingError):
            bias_cost(matrix, wrong)
    with pytest.raises(InputError, match="n is 0"):
        rank_orderings(matrix, 0)


def test_more_orderings_than_exist_are_all_of_them():
    assert len(rank_orderings(random_matrix(3), 100)) == math.factorial(3)


def test_frames():
    matrix = random_matrix(3)
    ranked, spread = rank_orderings(matrix, 2), cost_spread(matrix)
    assert ranked.to_frame()["ordering"].tolist() == [",".join(map(str, row.values)) for row in ranked]
    assert ranked.to_frame()["rank"].tolist() == [1, 2]
    assert "<table" in ranked._repr_html_()
    frame = spread.to_frame().set_index("quantity")
    assert frame.loc["mean", "cost"] == spread.mean
    assert frame.loc["dearest", "ordering"] == ",".join(map(str, spread.dearest.values))
