import numpy as np
import pytest
from planted_runs import case_file, case_run, planted_run, rated_items, run_of, unrated_items
from scipy import stats

from logitjudge.errors import NotObserved
from logitjudge.measures.certainty import MOVEMENTS, PAIRS, certainty
from logitjudge.orderings import parse
from logitjudge.run import Run

NOISY = "position=0.8,0,0,0,0.3;order_noise=0.5;item_position_sd=0.3"


def at(found, movement, nearness, given=None):
    [row] = [r for r in found.associations if (r.movement, r.nearness, r.given) == (movement, nearness, given)]
    return row


def test_an_item_that_can_be_checked_by_hand():
    case = case_file("certainty")
    found = certainty(case_run(case["probs"], case["orderings"]))
    for name in ("margin", "entropy", "inside", *MOVEMENTS):
        np.testing.assert_allclose(getattr(found, name), case[name], atol=1e-10)


def test_correlations_equal_scipy():
    found = certainty(planted_run(NOISY, rated_items(40)), draws=50)
    frame = found.items()
    frame["near_tie"] = -frame["margin"]
    ranks = frame[["near_tie", "entropy", "inside", *MOVEMENTS]].rank()
    for row in found.associations:
        x, y = ranks[row.movement], ranks[row.nearness]
        if row.given:
            x, y = (v - np.polyval(np.polyfit(ranks[row.given], v, 1), ranks[row.given]) for v in (x, y))
        assert row.value == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-9)
        assert row.low < row.value < row.high
    assert len(found.associations) == len(MOVEMENTS) * len(PAIRS)


def judge(strength_of, seed=0, count=150):
    """Items all over the scale, near ties or not, whose order moves each by a strength of its own, in nats."""
    rng = np.random.default_rng(seed)
    orderings = parse("balanced", (1, 2, 3, 4, 5))
    places = np.array([o.position_of for o in orderings])
    centre, sharp = rng.uniform(1, 5, count), rng.uniform(0.3, 4, count)
    quality = -sharp[:, None] * (np.arange(1, 6) - centre[:, None]) ** 2
    q = np.exp(quality) / np.exp(quality).sum(axis=1, keepdims=True)
    top = np.sort(q, axis=1)
    margin, mean = top[:, -1] - top[:, -2], q @ np.arange(1, 6)
    strength = strength_of(margin, np.minimum(mean - 1, 5 - mean)) * rng.uniform(0.9, 1.1, count)
    logp = quality[:, None] + strength[:, None, None] * np.array([1, 0, 0, 0, -1.0])[places]
    return Run(logp, np.zeros(logp.shape), tuple(unrated_items(count)), orderings, (1, 2, 3, 4, 5))


def test_worst_at_near_ties_is_told_from_away_from_the_ends():
    tie = certainty(judge(lambda margin, inside: 1 - margin), draws=200)
    place = certainty(judge(lambda margin, inside: inside), draws=200)
    assert at(tie, "nats", "near_tie", "inside").low > 0.8
    assert abs(at(tie, "nats", "inside", "near_tie").value) < 0.3
    assert at(place, "nats", "inside", "near_tie").low > 0.8
    assert abs(at(place, "nats", "near_tie", "inside").value) < 0.3


def test_an_additive_judge_moves_all_items_alike_in_nats_and_certain_ones_less_in_points():
    found = certainty(planted_run("position=0.8,0,0,0,0.3", rated_items(40)), draws=50)
    assert np.ptp(found.nats) < 1e-12
    assert at(found, "nats", "near_tie").value is None
    assert at(found, "nats", "near_tie").note == "degenerate: nats does not vary"
    assert at(found, "points", "inside").value > 0.5


def test_cells_cross_thirds_with_places():
    run = planted_run(NOISY, rated_items(60))
    found = certainty(run, draws=10)
    assert [(c.third, c.place) for c in found.cells] == [
        (third, place) for third in ("near tie", "between", "clear") for place in ("end", "inside")
    ]
    assert sum(c.items for c in found.cells) == 60
    inside = found.inside > 0.5
    clear = found.margin > np.quantile(found.margin, 2 / 3)
    cell = next(c for c in found.cells if (c.third, c.place) == ("clear", "inside"))
    assert cell.items == (clear & inside).sum()
    assert cell.points == pytest.approx(found.points[clear & inside].mean())
    assert all((c.points is None) == (c.items == 0) for c in found.cells)


def test_order_of_items_does_not_matter():
    items = rated_items(30, clusters=25)
    one, other = (certainty(planted_run(NOISY, made), draws=60) for made in (items, items[::-1]))
    for a, b in zip(one.associations, other.associations, strict=True):
        assert (a.value, a.low, a.high) == pytest.approx((b.value, b.low, b.high), abs=1e-9)
        assert a.note == ""


def test_what_is_not_defined_says_why():
    few = certainty(planted_run(NOISY, rated_items(3)), draws=10)
    assert {row.note for row in few.associations} == {"too few items (3 < 5)"}
    assert {row.value for row in few.associations} == {None}
    one = certainty(planted_run(NOISY, rated_items(9, clusters=1)), draws=10)
    assert at(one, "points", "entropy").note == "no interval: all items are of one cluster"
    assert at(one, "points", "entropy").value is not None
    some = certainty(planted_run(NOISY, rated_items(9)), draws=30)
    assert at(some, "points", "entropy").note == "too few clusters (9 < 20)"
    two = certainty(run_of(np.random.default_rng(0).dirichlet([1, 1], (12, 2)), "1,2;2,1"), draws=10)
    assert at(two, "points", "inside", "near_tie").note == "degenerate: what is held fixed says all about the other"
    assert list(one.to_frame().columns)[:3] == ["movement", "nearness", "given"]
    with pytest.raises(NotObserved, match="at least two"):
        certainty(planted_run(NOISY, rated_items(9), "identity"))
