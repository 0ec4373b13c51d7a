import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from planted_runs import planted_run, rated_items, rubric_of, run_of, unrated_items

from logitjudge import registry
from logitjudge.debiasers import debias
from logitjudge.errors import InputError
from logitjudge.measures.matrices import winners
from logitjudge.run import Run

NOISY = "position=0.8,0,0,0,0.3;item_position_sd=0.5;order_noise=0.5;mass=0.6"
every_method = pytest.mark.parametrize("method", registry.names("debiasers"))


def test_the_three_means_are_there():
    assert {"mean_prob", "mean_logp", "mean_winner"} <= set(registry.names("debiasers"))


@every_method
def test_distributions_sum_to_1_and_scores_are_expectations(method):
    run = planted_run(NOISY, rated_items(9), rubric=rubric_of(5, first=0))
    found = debias(run, method)
    assert found.dist.shape == (9, 5)
    assert (found.dist >= 0).all()
    np.testing.assert_allclose(found.dist.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(found.score, found.dist @ [0, 1, 2, 3, 4], atol=1e-12)
    assert found.method == method
    assert found.ids == tuple(item.id for item in run.items)


@every_method
def test_a_judge_that_ignores_order_is_left_as_it_is(method):
    run = planted_run("", rated_items(9))
    alone = debias(planted_run("", rated_items(9), "identity"), method)
    np.testing.assert_allclose(debias(run, method).dist, alone.dist, atol=1e-12)


@every_method
def test_mass_changes_nothing(method):
    one, other = (debias(planted_run(f"order_noise=1;mass={x}", rated_items(9)), method) for x in (1, 0.01))
    np.testing.assert_allclose(one.dist, other.dist, atol=1e-12)


@every_method
@settings(deadline=None, max_examples=15)
@given(random=st.randoms(use_true_random=False))
def test_items_and_orderings_may_come_in_any_order(method, random):
    run = planted_run(NOISY, rated_items(7))
    rows, columns = (random.sample(range(n), n) for n in run.logp.shape[:2])
    cut = np.ix_(rows, columns)
    mixed = Run(
        run.logp[cut],
        run.alias_mass[cut],
        [run.items[i] for i in rows],
        [run.orderings[o] for o in columns],
        run.scores,
    )
    np.testing.assert_allclose(debias(mixed, method).dist, debias(run, method).dist[rows], atol=1e-12)


@every_method
def test_a_method_is_fitted_and_then_applied(method):
    run = planted_run(NOISY, rated_items(7))
    fitted = registry.load("debiasers", method).method().fit(run)
    np.testing.assert_array_equal(fitted(run).dist, debias(run, method).dist)


@every_method
def test_frames_and_read_only_arrays(method):
    found = debias(planted_run(NOISY, rated_items(3), rubric=rubric_of(5, first=0)), method)
    frame = found.to_frame()
    assert list(frame.columns) == ["item", "score", "prob_0", "prob_1", "prob_2", "prob_3", "prob_4"]
    assert frame["prob_4"].tolist() == found.dist[:, 4].tolist()
    assert "<table" in found._repr_html_()
    for array in (found.dist, found.score, found.scores):
        assert not array.flags.writeable


@every_method
def test_certain_judges_do_not_break(method):
    found = debias(planted_run("position=5000,0,0,0,0", unrated_items(2)), method)
    assert np.isfinite(found.dist).all()


def test_mean_prob_is_the_mean_of_the_probabilities():
    run = planted_run(NOISY, rated_items(6))
    q = np.exp(run.logp) / np.exp(run.logp).sum(axis=2, keepdims=True)
    np.testing.assert_allclose(debias(run).dist, sum(q[:, o] for o in range(10)) / 10, atol=1e-12)
    assert debias(run).method == "mean_prob"


def test_mean_winner_is_the_mean_of_the_picks_with_ties_split():
    run = run_of([[[0.5, 0.25, 0.25], [0.4, 0.4, 0.2], [0.1, 0.2, 0.7]]], "cyclic")
    found = debias(run, "mean_winner")
    np.testing.assert_allclose(found.dist, [[0.5, 1 / 6, 1 / 3]])
    assert found.score == pytest.approx([0.5 + 2 / 6 + 1])
    noisy = planted_run(NOISY, rated_items(6))
    picks = noisy.scores[noisy.logp.argmax(axis=2)]
    np.testing.assert_allclose(debias(noisy, "mean_winner").score, picks.mean(axis=1))
    assert (winners(noisy.probs()).max(axis=2) == 1).all()


def test_mean_logp_is_the_normalised_geometric_mean():
    run = run_of([[[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]], "1,2,3;3,2,1")
    geometric = np.sqrt([0.05, 0.03, 0.16])
    np.testing.assert_allclose(debias(run, "mean_logp").dist[0], geometric / geometric.sum())


@pytest.mark.parametrize("design", ["balanced", "cyclic", "full", "williams"])
def test_mean_logp_recovers_the_unbiased_judge_under_additive_bias(design):
    biased = planted_run("position=2,-1,0,0.5,1;item_position_sd=0.7;mass=0.6", rated_items(8), design)
    truth = planted_run("", rated_items(8), "identity").probs()[:, 0]
    np.testing.assert_allclose(debias(biased, "mean_logp").dist, truth, atol=1e-9)
    assert np.abs(debias(biased, "mean_prob").dist - truth).max() > 0.01


def test_mean_logp_adds_aliases_where_the_run_does():
    logp, alias = np.log([[[0.2, 0.3], [0.3, 0.1]]]), np.array([[[0.1, 0.0], [0.0, 0.2]]])
    run = planted_run("", rated_items(1), "balanced", rubric_of(2))
    summed = Run(logp, alias, run.items, run.orderings, run.scores, aliases="sum")
    ignored = Run(logp, alias, run.items, run.orderings, run.scores)
    geometric = np.sqrt([0.3 * 0.3, 0.3 * 0.3])
    np.testing.assert_allclose(debias(summed, "mean_logp").dist[0], geometric / geometric.sum())
    geometric = np.sqrt([0.2 * 0.3, 0.3 * 0.1])
    np.testing.assert_allclose(debias(ignored, "mean_logp").dist[0], geometric / geometric.sum())


def test_an_unknown_method_is_named():
    with pytest.raises(InputError, match=r"unknown debiaser 'mean_win'.*Did you mean.*mean_logp, mean_prob"):
        debias(planted_run("", rated_items(2)), "mean_win")
