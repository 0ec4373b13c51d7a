import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from planted_runs import planted_run, rated_items, rubric_of, run_of, unrated_items

from logitjudge import registry
from logitjudge.core import Item, Ordering
from logitjudge.debiasers import debias
from logitjudge.debiasers._priors import FOLDS
from logitjudge.errors import InputError, NoLogProbabilities, NotObserved, OrderingError
from logitjudge.measures.costs import bias_cost
from logitjudge.measures.matrices import score_position_matrix, winners
from logitjudge.run import Run, SampledRun

NOISY = "position=0.8,0,0,0,0.3;item_position_sd=0.5;order_noise=0.5;mass=0.6"
NAMES = {
    "mean_prob",
    "mean_logp",
    "mean_winner",
    "position_prior",
    "score_position_prior",
    "contextual",
    "single",
    "cheapest",
}
LEARNERS = ("position_prior", "score_position_prior", "contextual")
every_method = pytest.mark.parametrize("method", registry.names("debiasers"))
every_learner = pytest.mark.parametrize("method", LEARNERS)


def fitted(method, probe):
    return registry.make("debiasers", method).fit(probe)


def under(run, *columns):
    """The same run with some of its orderings only."""
    keep = list(columns)
    logp, alias = run.logp[:, keep], run.alias_mass[:, keep]
    return Run(logp, alias, run.items, tuple(run.orderings[o] for o in keep), run.scores, aliases=run.aliases)


def truth_of(items):
    return planted_run("", items, "identity").probs()[:, 0]


def others(count):
    """Items with other ids, and so other clusters, than `rated_items`."""
    return [Item(f"probe{n}", {}, human=item.human) for n, item in enumerate(rated_items(count, seed=99))]


def test_all_methods_of_the_design_are_there():
    assert set(registry.names("debiasers")) >= NAMES


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
    made = fitted(method, planted_run("", others(12)))
    alone = made(planted_run("", rated_items(9), "identity"))
    np.testing.assert_allclose(made(run).dist, alone.dist, atol=1e-12)
    if method not in ("contextual", "mean_winner"):
        np.testing.assert_allclose(alone.dist, truth_of(rated_items(9)), atol=1e-12)


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
    probe = planted_run(NOISY, others(9))
    np.testing.assert_array_equal(fitted(method, run)(run).dist, debias(run, method).dist)
    np.testing.assert_array_equal(fitted(method, probe)(run).dist, debias(run, method, probe=probe).dist)


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
    np.testing.assert_allclose(found.dist.sum(axis=1), 1, atol=1e-12)


@pytest.mark.parametrize("method", ["mean_logp", *LEARNERS[:2]])
def test_probabilities_that_are_0_as_numbers_hide_no_truth(method):
    """Under +-900 nats of bias most q underflow; their logarithms still hold the quality."""
    run = planted_run("position=900,0,-900,0,-1800", rated_items(8))
    assert (run.probs() == 0).mean() > 0.5
    assert run.logp.min() < -2700
    np.testing.assert_allclose(debias(run, method).dist, truth_of(rated_items(8)), atol=1e-11)


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
    truth = truth_of(rated_items(8))
    np.testing.assert_allclose(debias(biased, "mean_logp").dist, truth, atol=1e-12)
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


# --- priors ----------------------------------------------------------------------------------------------------------

CASES = json.loads((Path(__file__).parent / "cases" / "priors.json").read_text())["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_priors_that_can_be_checked_by_hand(case):
    logp = np.array(case["logp"], dtype=float)
    scores = tuple(range(1, logp.shape[2] + 1))
    orderings = [Ordering(tuple(s - 1 for s in row)) for row in case["orderings"]]
    items = [Item(f"probe{i}", {}) for i in range(len(logp))]
    probe = Run(logp, np.zeros(logp.shape), items, orderings, scores)
    for method, prior in case["priors"].items():
        np.testing.assert_allclose(fitted(method, probe).prior.whole, prior, atol=1e-12)
    asked = np.array([[case["asked"]["logp"]]], dtype=float)
    ordering = [Ordering(tuple(s - 1 for s in case["asked"]["ordering"]))]
    run = Run(asked, np.zeros(asked.shape), [Item("asked", {})], ordering, scores)
    for method, odds in case["asked"]["log_odds_of_last"].items():
        dist = fitted(method, probe)(run).dist[0]
        np.testing.assert_allclose(np.log(dist[-1] / dist[0]), odds, atol=1e-12)


@pytest.mark.parametrize("design", ["balanced", "cyclic", "full", "williams"])
@pytest.mark.parametrize("method", LEARNERS[:2])
def test_a_prior_of_other_items_gives_the_truth_from_any_single_ordering_under_additive_bias(method, design):
    spec = "position=2,-1,0,0.5,1;mass=0.6"
    made = fitted(method, planted_run(spec, others(6), design))
    asked = planted_run(spec, rated_items(8), "full")
    for o in range(0, 120, 7):
        np.testing.assert_allclose(made(under(asked, o)).dist, truth_of(rated_items(8)), atol=1e-12)


@pytest.mark.parametrize("method", LEARNERS[:2])
def test_a_run_debiases_itself_under_additive_bias(method):
    run = planted_run("position=2,-1,0,0.5,1", rated_items(30, clusters=11))
    np.testing.assert_allclose(debias(run, method).dist, truth_of(rated_items(30)), atol=1e-12)


def test_score_position_prior_follows_an_interaction_that_position_prior_cannot():
    spec = "position=1,0,0,0,0.5;interaction=3:0.8"
    probe, asked = planted_run(spec, others(6), "full"), planted_run(spec, rated_items(20), "full")
    errors = {}
    for method in LEARNERS[:2]:
        made = fitted(method, probe)
        errors[method] = np.mean([np.abs(made(under(asked, o)).dist - made(asked).dist) for o in range(0, 120, 11)])
    assert errors["score_position_prior"] < errors["position_prior"] / 2


@pytest.mark.parametrize("levels", [3, 5])
def test_cell_means_hold_a_part_of_an_interaction(levels):
    """A log-ratio to the mean of a reading holds the reading's other cells: of K!, (K - 2) / (K - 1) of it is left."""
    run = planted_run("interaction=3:0.8", rated_items(6, levels), "full", rubric_of(levels))
    planted = np.random.default_rng(3).normal(0, 0.8, (levels, levels))
    planted -= planted.mean(axis=1, keepdims=True)
    by_position = planted.mean(axis=0)
    left = by_position + (planted - by_position) * (levels - 2) / (levels - 1)
    np.testing.assert_allclose(fitted("score_position_prior", run).prior.whole, left, atol=1e-12)


@every_learner
@pytest.mark.parametrize("clusters", [2, 7, 25])
def test_no_item_is_corrected_by_a_prior_that_saw_its_cluster(method, clusters):
    """Whatever the readings of a fold's clusters are, the priors of its items stay as they are."""
    items = rated_items(50, clusters=clusters)
    run = planted_run(NOISY, items)
    prior = fitted(method, run).prior
    assert len(prior.left_out) == min(FOLDS, clusters)
    for cluster in {item.cluster for item in items}:
        own = np.array([prior.folds[item.cluster] == prior.folds[cluster] for item in items])
        changed = run.logp + own[:, None, None] * np.random.default_rng(1).normal(0, 3, run.logp.shape)
        other = Run(changed, run.alias_mass, run.items, run.orderings, run.scores)
        before, after = (fitted(method, r).prior.of(run)[own] for r in (run, other))
        np.testing.assert_allclose(after, before, atol=1e-12)
        assert np.abs(fitted(method, other).prior.whole - prior.whole).max() > 1e-3


@every_learner
def test_folds_depend_on_names_and_not_on_order(method):
    items = rated_items(30, clusters=15)
    run = planted_run(NOISY, items)
    mixed = planted_run(NOISY, items[::-1])
    assert fitted(method, run).prior.folds == fitted(method, mixed).prior.folds
    sizes = np.bincount(list(fitted(method, run).prior.folds.values()))
    assert sizes.min() >= 1
    assert np.ptp(sizes) <= 1


@every_learner
def test_other_items_are_corrected_by_all_probes(method):
    probe, asked = planted_run(NOISY, others(9)), planted_run(NOISY, rated_items(4))
    made = fitted(method, probe)
    np.testing.assert_array_equal(made.prior.of(asked), np.broadcast_to(made.prior.whole, made.prior.of(asked).shape))
    assert made(asked).note == "prior from 9 cluster(s) of other items"
    assert "cross-fitted" in made(probe).note
    assert "9 folds" in made(probe).note


def spread(logits):
    """How far readings of one item lie apart over orderings: RMS over items, orderings and scores, in nats."""
    clr = logits - logits.mean(axis=2, keepdims=True)
    return np.sqrt(((clr - clr.mean(axis=1, keepdims=True)) ** 2).mean())


def taken(method, probe, run):
    """(I, O, K) logits after the correction of every reading by itself."""
    made = fitted(method, probe)
    readings = [np.log(made(under(run, o)).dist) for o in range(len(run.orderings))]
    return np.stack(readings, axis=1)


@every_learner
def test_order_dependence_does_not_come_back(method):
    """The trap (bnsd55/jevmlx#105): probes that orderings move, items that they do not.

    A prior for each ordering hands what moved the probes to the items. Ours is one for all orderings.
    """
    probe, stable = planted_run("order_noise=1", others(10), "full"), planted_run("", rated_items(20), "full")
    assert spread(stable.logp) < 1e-12
    centred = probe.logp - probe.logp.mean(axis=2, keepdims=True)
    by_ordering = centred.mean(axis=0)  # (O, K): the mistake
    mistake = spread(stable.logp - by_ordering)
    assert mistake > 0.2
    most = {"contextual": 1e-12, "position_prior": mistake / 5, "score_position_prior": mistake / 3}
    assert spread(taken(method, probe, stable)) < most[method]


def test_contextual_is_one_vector_whatever_the_ordering():
    spec = "position=1,0,0,0,-1;order_noise=0.5"
    probe, asked = planted_run(spec, others(10)), planted_run(spec, rated_items(6))
    centred = asked.logp - asked.logp.mean(axis=2, keepdims=True)
    after = taken("contextual", probe, asked)
    change = after - after.mean(axis=2, keepdims=True) - centred
    np.testing.assert_allclose(change, np.broadcast_to(change[:1, :1], change.shape), atol=1e-12)


def test_contextual_takes_off_a_label_with_probes_without_content_and_the_others_leave_it():
    spec = "position=1,0,0,0,-1;label=0,0,0,0,2;quality_sd=0"
    probe, asked = planted_run(spec, unrated_items(5)), planted_run(spec, rated_items(8, seed=5))
    blank = [Item(f"blank{n}", {}) for n in range(5)]
    probe = planted_run(spec, blank)
    found = {method: debias(asked, method, probe=probe).dist for method in LEARNERS}
    truth = truth_of(rated_items(8, seed=5))
    np.testing.assert_allclose(found["contextual"], truth, atol=1e-12)
    liked = truth * np.exp([0, 0, 0, 0, 2])
    liked /= liked.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found["position_prior"], liked, atol=1e-12)


@every_learner
def test_what_cannot_be_learned_is_refused(method):
    with pytest.raises(NotObserved, match=r"1 ordering\(s\) do not show every score equally often.*balanced, full"):
        debias(planted_run(NOISY, rated_items(9), "identity"), method)
    with pytest.raises(NotObserved, match="of one cluster.*probe=other_run"):
        debias(planted_run(NOISY, rated_items(9, clusters=1)), method)
    with pytest.raises(InputError, match=f"{method} has learned nothing"):
        registry.make("debiasers", method)(planted_run(NOISY, rated_items(3)))
    with pytest.raises(InputError, match=r"learned with the scores \[1, 2, 3, 4, 5\], the run has \[0, 1, 2, 3, 4\]"):
        debias(planted_run("", rated_items(3), rubric=rubric_of(first=0)), method, probe=planted_run("", others(3)))


# --- one ordering ----------------------------------------------------------------------------------------------------


def test_single_is_the_plain_distribution_under_an_ordering():
    run = planted_run(NOISY, rated_items(5))
    found = debias(run, "single:5,4,3,2,1")
    place = [o.shown for o in run.orderings].index((4, 3, 2, 1, 0))
    np.testing.assert_array_equal(found.dist, run.probs()[:, place])
    assert found.method == "single:5,4,3,2,1"
    np.testing.assert_array_equal(debias(run, "single:reverse").dist, found.dist)
    np.testing.assert_array_equal(debias(run, "single").dist, run.probs()[:, 0])


def test_single_says_what_is_wrong():
    run = planted_run(NOISY, rated_items(2))
    with pytest.raises(NotObserved, match=r"no ordering 1,3,2,4,5. It has 1,2,3,4,5; 2,3,4,5,1;"):
        debias(run, "single:1,3,2,4,5")
    with pytest.raises(OrderingError, match="is not a permutation"):
        debias(run, "single:1,1,2,4,5")
    with pytest.raises(OrderingError, match="single:balanced is 10 orderings"):
        debias(run, "single:balanced")
    with pytest.raises(InputError, match="'mean_prob' takes no argument.*Write 'mean_prob'"):
        debias(run, "mean_prob:1")


@pytest.mark.parametrize("design", ["balanced", "full"])
def test_cheapest_reads_the_cheapest_ordering_of_the_run(design):
    run = planted_run("position=0.8,0,0,0,0.3;interaction=3:0.6", rated_items(30), design)
    matrix = score_position_matrix(run)
    costs = [bias_cost(matrix, ordering) for ordering in run.orderings]
    found = debias(run, "cheapest")
    np.testing.assert_array_equal(found.dist, run.probs()[:, int(np.argmin(costs))])
    assert f"Bias Cost {min(costs):.3f}" in found.note
    assert f"of the run's {len(costs)} ordering(s)" in found.note


def test_cheapest_takes_its_costs_from_the_probe_and_its_orderings_from_the_run():
    spec = "position=0.8,0,0,0,0.3;interaction=3:0.6"
    probe, asked = planted_run(spec, others(30), "full"), planted_run(spec, rated_items(9), "3,1,2,4,5;5,4,3,2,1")
    matrix = score_position_matrix(probe)
    best = int(np.argmin([bias_cost(matrix, ordering) for ordering in asked.orderings]))
    np.testing.assert_array_equal(debias(asked, "cheapest", probe=probe).dist, asked.probs()[:, best])
    with pytest.raises(NotObserved, match="not complete"):
        debias(asked, "cheapest")


def test_of_equally_cheap_orderings_the_first_by_score_values_is_read():
    run = planted_run("", rated_items(3))
    assert "read under 1,2,3,4,5" in debias(run, "cheapest").note
    assert "read under 1,2,3,4,5" in debias(under(run, *range(9, -1, -1)), "cheapest").note


@pytest.mark.parametrize("method", sorted(NAMES - {"mean_winner"}))
def test_sampled_runs_have_no_probabilities_to_debias(method):
    run = planted_run("", rated_items(3))
    picks = np.ones((3, 10, 2))
    with pytest.raises(NoLogProbabilities):
        debias(SampledRun(picks, run.items, run.orderings, run.scores), method)
