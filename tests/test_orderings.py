import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from logitjudge.core import Ordering
from logitjudge.errors import OrderingError
from logitjudge.orderings import MOST, NAMED, counts, is_balanced, parse, uncovered


def shown(spec, k, seed=0):
    return [ordering.shown for ordering in parse(spec, range(1, k + 1), seed)]


def count_cells(rows):
    """How often each (score, position) is seen, counted another way than `counts`."""
    return Counter((k, p) for row in rows for p, k in enumerate(row))


# --- balance -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("design", ["cyclic", "balanced", "williams", "latin:1"])
@given(k=st.integers(2, 12))
@settings(deadline=None, max_examples=11)
def test_every_score_stands_equally_often_at_every_position(design, k):
    orderings = parse(design, range(1, k + 1))
    cells = count_cells([o.shown for o in orderings])
    assert len(cells) == k * k
    assert len(set(cells.values())) == 1
    assert is_balanced(orderings)


@pytest.mark.parametrize("k", range(2, 8))
def test_full_is_balanced_and_has_every_ordering(k):
    rows = shown("full", k)
    assert set(rows) == set(itertools.permutations(range(k)))
    assert len(rows) == math.factorial(k)
    assert set(count_cells(rows).values()) == {math.factorial(k - 1)}


@pytest.mark.parametrize("design", ["identity", "reverse", "random:7"])
def test_other_designs_say_that_they_are_not_balanced(design):
    assert not is_balanced(parse(design, range(1, 6)))


@given(st.integers(2, 6), st.integers(1, 20), st.integers(0, 99))
@settings(deadline=None)
def test_balance_and_counts_agree_with_counting_by_hand(k, n, seed):
    orderings = parse(f"random:{min(n, math.factorial(k))}", range(k), seed)
    cells = count_cells([o.shown for o in orderings])
    table = counts(orderings)
    assert all(table[score, p] == cells[score, p] for score in range(k) for p in range(k))
    assert uncovered(orderings) == [(s, p) for s in range(k) for p in range(k) if not cells[s, p]]
    assert is_balanced(orderings) == (len(cells) == k * k and len(set(cells.values())) == 1)


def test_identity_leaves_all_but_the_diagonal_uncovered():
    assert uncovered(parse("identity", (1, 2, 3))) == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]


# --- the designs ---------------------------------------------------------------------------------------------------


def test_balanced_is_the_papers_ten_in_the_papers_order():
    rows = [",".join(str(k + 1) for k in row) for row in shown("balanced", 5)]
    forward = ["1,2,3,4,5", "2,3,4,5,1", "3,4,5,1,2", "4,5,1,2,3", "5,1,2,3,4"]
    backward = ["5,4,3,2,1", "4,3,2,1,5", "3,2,1,5,4", "2,1,5,4,3", "1,5,4,3,2"]
    assert rows == forward + backward


@pytest.mark.parametrize(("k", "size"), [(2, 2), (3, 6), (4, 8), (5, 10), (11, 22)])
def test_balanced_has_twice_k_distinct_orderings_and_two_at_k_2(k, size):
    rows = shown("balanced", k)
    assert len(rows) == len(set(rows)) == size


def test_identity_and_reverse():
    assert (shown("identity", 4), shown("reverse", 4)) == ([(0, 1, 2, 3)], [(3, 2, 1, 0)])


def test_cyclic_is_the_rotations():
    assert shown("cyclic", 3) == [(0, 1, 2), (1, 2, 0), (2, 0, 1)]


@pytest.mark.parametrize("k", range(2, 12))
def test_williams_has_every_ordered_pair_of_neighbours_equally_often(k):
    rows = shown("williams", k)
    pairs = Counter(pair for row in rows for pair in itertools.pairwise(row))
    assert len(pairs) == k * (k - 1)
    assert len(set(pairs.values())) == 1
    assert len(rows) == (k if k % 2 == 0 else 2 * k)


@given(st.integers(2, 8), st.data())
@settings(deadline=None)
def test_random_draws_without_replacement(k, data):
    n = data.draw(st.integers(1, min(200, math.factorial(k))))
    rows = shown(f"random:{n}", k, data.draw(st.integers(0, 999)))
    assert len(set(rows)) == len(rows) == n


def test_random_with_all_is_full():
    assert sorted(shown("random:24", 4)) == sorted(shown("full", 4))


@pytest.mark.parametrize("spec", ["random:7", "random:100", "latin:3"])
def test_the_seed_decides_what_is_drawn(spec):
    assert shown(spec, 5, 3) == shown(spec, 5, 3)
    assert shown(spec, 5, 3) != shown(spec, 5, 4)


@pytest.mark.parametrize("n", [1, 4])
def test_random_is_uniform_by_either_way_of_drawing(n):
    drawn = Counter(row for seed in range(1200) for row in shown(f"random:{n}", 3, seed))
    expected = 1200 * n / 6
    chi2 = sum((drawn[row] - expected) ** 2 / expected for row in itertools.permutations(range(3)))
    assert chi2 < 20.5  # the 99.9 % point at 5 degrees of freedom


@given(st.integers(2, 9), st.integers(1, 3), st.integers(0, 99))
@settings(deadline=None)
def test_latin_squares_are_latin(k, n, seed):
    n = min(n, {2: 1, 3: 2}.get(k, 3))
    rows = shown(f"latin:{n}", k, seed)
    assert len(set(rows)) == n * k
    for square in (rows[start : start + k] for start in range(0, n * k, k)):
        assert all(sorted(column) == list(range(k)) for column in zip(*square, strict=True))


# --- explicit lists ------------------------------------------------------------------------------------------------


def test_a_list_is_score_values_first_position_first():
    assert [o.shown for o in parse("5,4,3,2,1; 1,2,3,4,5", range(1, 6))] == [(4, 3, 2, 1, 0), (0, 1, 2, 3, 4)]


@pytest.mark.parametrize(
    ("text", "scores"),
    [
        ("10,9,8,7,6,5,4,3,2,1,0", tuple(range(11))),
        ("100,75,50,25,1", (1, 25, 50, 75, 100)),
        ("3,-1,0", (-1, 0, 3)),
    ],
)
def test_a_list_may_have_scores_of_any_scale(text, scores):
    (ordering,) = parse(text, scores)
    assert ",".join(map(str, ordering.values(scores))) == text


@pytest.mark.parametrize(
    "spec", [[(3, 2, 1), (1, 2, 3)], [["3", "2", "1"], [1, 2, 3]], np.array([[3, 2, 1], [1, 2, 3]])]
)
def test_nested_sequences_are_score_values_too(spec):
    assert [o.shown for o in parse(spec, (1, 2, 3))] == [(2, 1, 0), (0, 1, 2)]


def test_orderings_stay_as_they_are():
    given = (Ordering((1, 0)), Ordering((1, 0), (0, 1)))
    assert parse(given, (1, 2)) == given


@given(st.permutations([0, 5, 10, 50, 100]))
def test_values_of_an_ordering_are_read_back(values):
    scores = (0, 5, 10, 50, 100)
    (ordering,) = parse(",".join(map(str, values)), scores)
    assert ordering.values(scores) == tuple(values)


# --- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "nearest"), [("balancd", "balanced"), ("ful", "full"), ("randm:3", "random:N"), ("wiliams", "williams")]
)
def test_an_unknown_design_gets_the_nearest_name(spec, nearest):
    with pytest.raises(OrderingError, match=f"Did you mean '{nearest}'"):
        parse(spec, (1, 2, 3))


def test_an_unknown_design_gets_all_names():
    with pytest.raises(OrderingError) as error:
        parse("zzz", (1, 2, 3))
    assert all(name in str(error.value) for name in (*NAMED, "random:N", "latin:N"))


@pytest.mark.parametrize(
    "spec",
    ["random", "random:", "random:0", "random:-3", "random:2.5", "random:x", "latin", "latin:0", "random:²"],
)
def test_a_counted_design_needs_a_number(spec):
    with pytest.raises(OrderingError, match="needs a number of at least 1"):
        parse(spec, (1, 2, 3))


@pytest.mark.parametrize("spec", ["balanced:3", "full:1", "identity:x", "balanced:", ""])
def test_a_named_design_takes_no_number(spec):
    with pytest.raises(OrderingError, match="unknown design"):
        parse(spec, (1, 2, 3))


@pytest.mark.parametrize("spec", ["random:7", "latin:3"])
def test_more_orderings_than_there_are(spec):
    with pytest.raises(OrderingError, match="only 6 exist for 3 levels"):
        parse(spec, (1, 2, 3))


@pytest.mark.parametrize("spec", ["random:10001", "latin:1001", "full"])
def test_more_than_10_000_orderings(spec):
    with pytest.raises(OrderingError, match="at most 10,000"):
        parse(spec, range(10))


def test_10_000_orderings_are_allowed():
    assert len(parse("random:10000", range(10))) == MOST == 10_000


@pytest.mark.parametrize("as_list", [str, list])
def test_more_than_10_000_listed(as_list):
    rows = list(itertools.islice(itertools.permutations(range(8)), 10_001))
    spec = ";".join(",".join(map(str, row)) for row in rows) if as_list is str else rows
    with pytest.raises(OrderingError, match="at most 10,000"):
        parse(spec, range(8))


@pytest.mark.parametrize(
    "spec", ["1,2", "1,2,2", "1,2,4", "1,2,3,3", "1,,2,3", "1,2,x", [(1, 2)], [(0, 1, 2)], [(1, 2, 3.5)], "1 2,3"]
)
def test_a_list_that_is_no_permutation_of_the_scores(spec):
    with pytest.raises(OrderingError, match="not a permutation of the scores 1,2,3"):
        parse(spec, (1, 2, 3))


def test_the_message_shows_the_bad_ordering():
    with pytest.raises(OrderingError, match="'3,3,1'"):
        parse("1,2,3;3,3,1", (1, 2, 3))


@pytest.mark.parametrize("spec", ["2,1;1,2;2,1", [Ordering((0, 1)), Ordering((0, 1))]])
def test_a_repeat(spec):
    with pytest.raises(OrderingError, match="listed twice"):
        parse(spec, (1, 2))


def test_an_ordering_of_another_length():
    with pytest.raises(OrderingError, match="2 positions, but the rubric has 3 levels"):
        parse([Ordering((0, 1))], (1, 2, 3))


@pytest.mark.parametrize("spec", [[], " ; ", ";"])
def test_no_orderings(spec):
    with pytest.raises(OrderingError, match="no orderings"):
        parse(spec, (1, 2, 3))


@pytest.mark.parametrize("spec", ["random:3", "latin:1"])
def test_a_seed_that_is_no_seed(spec):
    with pytest.raises(OrderingError, match="seed -1"):
        parse(spec, (1, 2, 3), -1)
