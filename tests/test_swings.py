import numpy as np
import pytest
from planted_runs import case_file, case_run, planted_run, rated_items, rubric_of, run_of
from scipy import stats

from logitjudge.core import Item
from logitjudge.errors import InputError, NotObserved
from logitjudge.measures.swings import crossings, swings, system_ranks

CASE = case_file("swings")
NOISY = "position=0.8,0,0,0,0.3;order_noise=0.5"


def case():
    items = [Item(name, {}, groups={"system": system}) for name, system in zip("abc", CASE["systems"], strict=True)]
    return case_run(CASE["probs"], CASE["orderings"], items)


def test_swings_that_can_be_checked_by_hand():
    found = swings(case())
    np.testing.assert_allclose(found.low, CASE["low"])
    np.testing.assert_allclose(found.high, CASE["high"])
    assert (list(found.lowest), list(found.highest)) == (CASE["lowest"], CASE["highest"])
    assert found.to_frame()["item"].tolist() == ["a", "b", "c"]
    assert (found.noise, found.orderings) == (None, 2)
    assert not found.within_noise.any()


def test_decisions_that_can_be_checked_by_hand():
    found = crossings(case(), CASE["thresholds"])
    for name in ("crossing", "pass_low", "pass_high"):
        np.testing.assert_allclose(getattr(found, name), CASE[name])
    assert list(found.kindest) == CASE["kindest"]
    np.testing.assert_allclose(crossings(case()).thresholds, [1.5, 2.5])
    ranks = system_ranks(case())
    assert list(ranks.systems) == CASE["system_names"]
    for name in ("score", "best", "worst"):
        np.testing.assert_allclose(getattr(ranks, name), CASE[f"system_{name}"])
    assert ranks.swaps == ranks.changed == ()


@pytest.mark.parametrize("design", ["balanced", "full"])
def test_swings_equal_the_definition(design):
    run = planted_run(NOISY, rated_items(12), design, rubric_of(first=0))
    expected = run.probs() @ [0, 1, 2, 3, 4]
    found = swings(run)
    np.testing.assert_allclose(found.swing, np.ptp(expected, axis=1), atol=1e-12)
    texts = [",".join(map(str, o.values([0, 1, 2, 3, 4]))) for o in run.orderings]
    for i in range(12):
        assert expected[i, texts.index(found.lowest[i])] == pytest.approx(expected[i].min())
        assert expected[i, texts.index(found.highest[i])] == pytest.approx(expected[i].max())


def test_of_equal_ends_the_first_ordering_by_score_values_is_named():
    found = swings(planted_run("", rated_items(3), "3,2,1,4,5;2,1,3,4,5;1,2,3,5,4"))
    assert set(found.lowest) == set(found.highest) == {"1,2,3,5,4"}


def test_swings_within_the_noise_floor_are_marked():
    run = planted_run(NOISY, rated_items(12), provenance={"noise_floor": {"max_score": 0.4}})
    found = swings(run)
    assert found.noise == 0.8
    np.testing.assert_array_equal(found.within_noise, found.swing <= 0.8)
    assert 0 < found.within_noise.mean() < 1


def test_crossings_equal_the_definition():
    run = planted_run(NOISY, rated_items(25), "balanced")
    expected = run.probs() @ run.scores
    found = crossings(run, [2.2, 3.3])
    for t, cut in enumerate((2.2, 3.3)):
        passes = expected >= cut
        assert found.crossing[t] == np.mean([len(set(row)) == 2 for row in passes.tolist()])
        assert found.pass_low[t] == passes.mean(axis=0).min()
        assert found.pass_high[t] == passes.mean(axis=0).max()
        texts = [",".join(map(str, o.values([1, 2, 3, 4, 5]))) for o in run.orderings]
        assert passes.mean(axis=0)[texts.index(found.strictest[t])] == found.pass_low[t]
    assert list(found.to_frame().columns)[:2] == ["thresholds", "crossing"]


@pytest.mark.parametrize("cuts", [[], [np.nan], [1, np.inf]])
def test_thresholds_are_numbers(cuts):
    with pytest.raises(InputError, match="Give finite numbers"):
        crossings(case(), cuts)


def test_ranks_equal_scipy_and_pairs_that_swap_are_found():
    groups = [f"M{n % 4}" for n in range(24)]
    items = [Item(f"i{n}", {}, groups={"system": g, "model": g}) for n, g in enumerate(groups)]
    run = planted_run("position=2,0,0,0,-1;order_noise=1;quality_sd=0.3", items, "full")
    found = system_ranks(run)
    expected = run.probs() @ run.scores
    means = np.array([[expected[np.array(groups) == f"M{s}", o].mean() for o in range(120)] for s in range(4)])
    ranks = stats.rankdata(-means, axis=0)
    for s, name in enumerate(("M0", "M1", "M2", "M3")):
        place = found.systems.index(name)
        assert (found.best[place], found.worst[place]) == (ranks[s].min(), ranks[s].max())
    assert list(found.rank) == sorted(found.rank)
    swaps = {
        frozenset((f"M{a}", f"M{b}"))
        for a in range(4)
        for b in range(a)
        if (means[a] > means[b]).any() and (means[a] < means[b]).any()
    }
    assert {frozenset(pair) for pair in found.swaps} == swaps
    assert swaps
    assert system_ranks(run, "model").systems == found.systems
    assert set(found.changed) == {
        name for name, a, b in zip(found.systems, found.best, found.worst, strict=True) if a < b
    }


def test_equal_systems_share_their_rank():
    items = [Item(f"i{n}", {}, groups={"system": "AB"[n]}) for n in range(2)]
    run = run_of(np.full((2, 2, 2), 0.5), "1,2;2,1", items)
    assert system_ranks(run).rank.tolist() == [1.5, 1.5]
    with pytest.raises(NotObserved, match="'judge' names 0 system"):
        system_ranks(run, "judge")


@pytest.mark.parametrize("measure", [swings, crossings, system_ranks])
def test_one_ordering_shows_nothing_which_is_not_0(measure):
    items = [Item(name, {}, groups={"system": name}) for name in "ab"]
    with pytest.raises(NotObserved, match="at least two"):
        measure(planted_run("", items, "identity"))
