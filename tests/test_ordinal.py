import numpy as np
import pytest
from planted_runs import case_file, case_run, planted_run, rated_items, rubric_of
from scipy import stats

from logitjudge.core import Level, Rubric
from logitjudge.errors import InputError
from logitjudge.measures.ordinal import ordinal, valley

CASE = case_file("ordinal")
NOISY = "item_position_sd=0.5;order_noise=1"


def test_shapes_that_can_be_checked_by_hand():
    found = ordinal(case_run(CASE["probs"], CASE["orderings"]))
    for name in ("depth", "expected", "mode", "median", "distance", "shift"):
        np.testing.assert_allclose(getattr(found, name), CASE[name], atol=1e-12)
    assert found.two_humped == CASE["two_humped"]


def uneven():
    return Rubric("r", "How good?", tuple(Level(s, f"level {s}") for s in (0, 1, 4, 5)))


def test_distances_equal_scipy():
    run = planted_run(NOISY, rated_items(5, 4), "balanced", uneven())
    found, q = ordinal(run), run.probs()
    for a in range(len(run.orderings)):
        for b in range(len(run.orderings)):
            each = [stats.wasserstein_distance(run.scores, run.scores, q[i, a], q[i, b]) for i in range(5)]
            assert found.distance[a, b] == pytest.approx(np.mean(each), abs=1e-12)
    assert (found.shift <= found.distance + 1e-12).all()


def test_valleys_equal_the_definition():
    q = planted_run(NOISY, rated_items(20)).probs().reshape(-1, 5)
    for row, depth in zip(q, valley(q), strict=True):
        slow = max(0, *(min(row[:k].max(), row[k + 1 :].max()) - row[k] for k in range(1, 4)))
        assert depth == pytest.approx(slow, abs=1e-15)


def test_centres_equal_the_definition():
    run = planted_run(NOISY, rated_items(8, 4), "full", uneven())
    found, q = ordinal(run), run.probs()
    np.testing.assert_array_equal(found.mode, run.scores[q.argmax(axis=2)])
    for i, o in np.ndindex(found.median.shape):
        median = next(s for s, below in zip(run.scores, np.cumsum(q[i, o]), strict=True) if below >= 0.5)
        assert found.median[i, o] == median


def test_what_takes_the_first_has_two_humps():
    plain = ordinal(planted_run("", rated_items(30)))
    first = ordinal(planted_run("first=0.3", rated_items(30)))
    assert plain.two_humped == 0
    assert first.two_humped > 0.3
    assert plain.distance.max() == pytest.approx(0, abs=1e-12)


def test_one_ordering_has_no_others():
    frame = ordinal(planted_run("", rated_items(3), "identity")).to_frame()
    assert frame[["distance", "shift"]].isna().all().all()
    frame = ordinal(planted_run(NOISY, rated_items(3), "cyclic", rubric_of(5))).to_frame()
    assert list(frame.columns) == ["ordering", "two_humped", "distance", "shift", "from_mode", "from_median"]
    assert len(frame) == 5


@pytest.mark.parametrize("deep", [-0.1, 1, np.nan])
def test_depth_is_a_probability(deep):
    with pytest.raises(InputError, match="deep is"):
        ordinal(planted_run("", rated_items(3)), deep=deep)
