import json

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from planted_runs import planted_run, rated_items, rubric_of, run_of, unrated_items

from logitjudge.core import Ordering
from logitjudge.errors import InputError, NotObserved
from logitjudge.measures.matrices import ESTIMATORS, position_distribution, score_position_matrix, winners
from logitjudge.run import Run

NOISY = "position=0.8,0,0,0,0.3;item_position_sd=0.3;order_noise=0.5;interaction=3:0.6;mass=0.6"


def slow(run, estimator):
    """Matrix and position distribution by the definition, in loops."""
    levels = len(run.scores)
    cell = {(k, p): [] for k in range(levels) for p in range(levels)}
    share = [0.0] * levels
    for i in range(len(run.items)):
        for o, ordering in enumerate(run.orderings):
            q = [float(np.exp(x)) for x in run.logp[i, o]]
            q = [x / sum(q) for x in q]
            if estimator == "hard":
                best = [k for k in range(levels) if q[k] == max(q)]
                q = [1 / len(best) if k in best else 0.0 for k in range(levels)]
            for p, k in enumerate(ordering.shown):
                cell[k, p].append(q[k])
                share[k] += q[k] / (len(run.items) * len(run.orderings))
    mean = [[sum(cell[k, p]) / len(cell[k, p]) for p in range(levels)] for k in range(levels)]
    rows = [[x / sum(row) if sum(row) else float("nan") for x in row] for row in mean]
    picked = [k for k in range(levels) if share[k] > 0]
    return rows, [sum(share[k] * rows[k][p] for k in picked) for p in range(levels)]


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize(
    "design", ["balanced", "full", "williams", "1,2,3,4,5;2,3,4,5,1;3,4,5,1,2;4,5,1,2,3;5,1,2,3,4;5,4,3,2,1"]
)
def test_matrix_and_distribution_equal_the_definition(design, estimator):
    run = planted_run(NOISY, rated_items(12), design)
    rows, distribution = slow(run, estimator)
    matrix = score_position_matrix(run, estimator)
    np.testing.assert_allclose(matrix.values, rows, atol=1e-12)
    np.testing.assert_allclose(matrix.values.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(position_distribution(run, estimator), distribution, atol=1e-12)


def test_planted_position_logits_come_back_in_every_row():
    run = planted_run("position=0.8,0,0,0,0.3;quality_scale=0", unrated_items(3), "full")
    expected = np.exp([0.8, 0, 0, 0, 0.3]) / np.exp([0.8, 0, 0, 0, 0.3]).sum()
    matrix = score_position_matrix(run)
    np.testing.assert_allclose(matrix.values, np.tile(expected, (5, 1)), atol=1e-9)
    np.testing.assert_allclose(matrix.position_distribution(), expected, atol=1e-9)


@pytest.mark.parametrize("design", ["full", "cyclic", "random:60"])
def test_a_judge_that_ignores_order_has_one_over_k_everywhere(design):
    run = planted_run("", rated_items(7), design)
    np.testing.assert_allclose(score_position_matrix(run).values, 0.2, atol=1e-12)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_in_a_balanced_design_the_distribution_is_the_plain_mean(estimator):
    run = planted_run(NOISY, rated_items(20), "balanced")
    weight = run.probs() if estimator == "soft" else winners(run.probs())
    plain = np.take_along_axis(weight, run.shown[None], axis=2).mean(axis=(0, 1))
    np.testing.assert_allclose(position_distribution(run, estimator), plain, atol=1e-12)


def test_relabelling_positions_permutes_columns():
    run = planted_run(NOISY, rated_items(9), "full")
    moved = [2, 0, 4, 1, 3]
    orderings = tuple(Ordering([o.shown[p] for p in moved]) for o in run.orderings)
    other = Run(run.logp, run.alias_mass, run.items, orderings, run.scores)
    np.testing.assert_allclose(
        score_position_matrix(other).values, score_position_matrix(run).values[:, moved], atol=1e-12
    )


@settings(deadline=None, max_examples=30)
@given(st.randoms(use_true_random=False), st.sampled_from(ESTIMATORS), st.integers(2, 6))
def test_items_and_orderings_may_come_in_any_order(random, estimator, levels):
    run = planted_run("order_noise=1", rated_items(6, levels), "balanced", rubric_of(levels))
    rows, columns = (random.sample(range(n), n) for n in run.logp.shape[:2])
    mixed = Run(
        run.logp[np.ix_(rows, columns)],
        run.alias_mass,
        [run.items[i] for i in rows],
        [run.orderings[o] for o in columns],
        run.scores,
    )
    a, b = score_position_matrix(run, estimator), score_position_matrix(mixed, estimator)
    for name in ("values", "share", "picks", "effective_items"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), atol=1e-12)


def test_ties_are_split():
    probs = [[[0.4, 0.4, 0.2]] * 3]
    matrix = score_position_matrix(run_of(probs, "cyclic"), "hard")
    assert matrix.picks.tolist() == [1.5, 1.5, 0]
    assert winners(np.array([[[1, 1, 1, 0]]]) / 3).tolist() == [[[1 / 3, 1 / 3, 1 / 3, 0]]]


def test_picks_share_and_effective_items():
    probs = np.array([[[0.5, 0.25, 0.25]] * 3, [[0.125, 0.125, 0.75]] * 3])
    soft, hard = (score_position_matrix(run_of(probs, "cyclic"), e) for e in ESTIMATORS)
    np.testing.assert_allclose(soft.picks, [1.875, 1.125, 3.0])
    np.testing.assert_allclose(soft.share, np.array([1.875, 1.125, 3.0]) / 6)
    np.testing.assert_allclose(soft.effective_items[0], (1.5 + 0.375) ** 2 / (1.5**2 + 0.375**2))
    assert hard.picks.tolist() == [3, 0, 3]
    assert hard.effective_items.tolist() == [1, 0, 1]


def test_a_score_that_is_never_picked_has_no_hard_row_and_adds_nothing():
    run = run_of([[[0.6, 0.1, 0.3], [0.2, 0.1, 0.7], [0.6, 0.1, 0.3]]], "cyclic")
    matrix = score_position_matrix(run, "hard")
    assert np.isnan(matrix.values[1]).all()
    assert matrix.reasons == (None, "score 2 was never picked", None)
    assert matrix.missing == (2,)
    np.testing.assert_allclose(position_distribution(run, "hard"), [1 / 3, 2 / 3, 0], atol=1e-12)  # places 1, 2, 2
    assert not np.isnan(score_position_matrix(run).values).any()


def test_an_uncovered_cell_empties_its_row_only_and_says_what_would_do():
    run = planted_run(NOISY, rated_items(4), "1,2,3,4,5;1,3,4,5,2;1,4,5,2,3;1,5,2,3,4;1,2,4,3,5")
    matrix = score_position_matrix(run)
    assert np.isnan(matrix.values[0]).all()
    assert matrix.reasons[0] == (
        "score 1 was never shown at position(s) 2, 3, 4, 5; the design 'balanced' (10 orderings) covers all cells"
    )
    with pytest.raises(NotObserved, match=r"score 1 was never shown.*10 orderings.*scores 1, 2, 3, 4, 5"):
        matrix.require_all()


def test_one_uncovered_row_leaves_the_others():
    three = planted_run("order_noise=1", rated_items(4, 3), "1,2,3;2,3,1;3,2,1;2,1,3", rubric_of(3))
    matrix = score_position_matrix(three)
    assert matrix.missing == (2,)
    assert matrix.reasons[1].startswith("score 2 was never shown at position(s) 3; the design 'balanced' (6 orderings)")
    np.testing.assert_allclose(matrix.values[[0, 2]].sum(axis=1), 1)
    assert np.isnan(matrix.position_distribution()).all()


def test_identity_has_no_matrix_and_no_distribution():
    run = planted_run(NOISY, rated_items(4), "identity")
    for estimator in ESTIMATORS:
        assert np.isnan(score_position_matrix(run, estimator).values).all()
        assert np.isnan(position_distribution(run, estimator)).all()


def test_a_run_without_items_has_nothing():
    run = planted_run("", rated_items(2)).select([False, False])
    matrix = score_position_matrix(run)
    assert np.isnan(matrix.values).all()
    assert set(matrix.reasons) == {"no item was judged"}
    assert np.isnan(position_distribution(run)).all()


def test_an_unknown_estimator_is_named():
    with pytest.raises(InputError, match=r"unknown estimator 'sofd'.*'soft'"):
        score_position_matrix(planted_run("", rated_items(2)), "sofd")


def test_frame_has_one_row_a_cell_and_arrays_are_read_only():
    matrix = score_position_matrix(planted_run(NOISY, rated_items(4), rubric=rubric_of(5, first=0)), "soft")
    frame = matrix.to_frame()
    assert frame.shape == (25, 8)
    row = frame[(frame["score"] == 2) & (frame["position"] == 4)].iloc[0]
    assert row["prob"] == matrix.values[2, 3]
    assert row["picks"] == matrix.picks[2]
    assert "position 5" in matrix._repr_html_()
    assert "not observed" in score_position_matrix(planted_run("", rated_items(2), "identity"))._repr_html_()
    with pytest.raises(ValueError, match="read-only"):
        matrix.values[0, 0] = 1
    json.dumps(matrix.missing)
