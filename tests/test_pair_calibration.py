"""A judge of pairs against people: agreement, threshold, composition, panel."""

import dataclasses
import math

import numpy as np
import pytest
from planted_pairs import pair_items, planted_pairs, run_of_probs
from planted_runs import case_file
from scipy import stats
from sklearn.metrics import cohen_kappa_score
from test_pair_accuracy import with_responses
from test_pairs import case_run, run_of_p1, run_of_verdicts

from logitjudge.core import Item
from logitjudge.errors import InputError, ItemError, NotObserved
from logitjudge.measures.pair_calibration import checks, disagreements, gold_agreement, kappa
from logitjudge.measures.pair_composition import composition, formatted
from logitjudge.measures.pair_panel import panel, vote
from logitjudge.measures.pair_rules import RULES, ruled
from logitjudge.measures.pair_threshold import clusters_needed, lower_bound, threshold
from logitjudge.measures.pairs import pairs
from logitjudge.run import Run

CASE = case_file("pair_calibration")
VERDICTS = ("correct", "false_wins", "undecided")


def test_agreement_that_can_be_checked_by_hand():
    found = gold_agreement(case_run())
    for rule, (above, below) in CASE["kappa"].items():
        assert found.kappa[rule].value == pytest.approx(above / below), rule
    above, below = CASE["swap_disagreement"]
    assert (found.swap_disagreement.value, found.swap_disagreement.of) == (pytest.approx(above / below), below)
    frame = found.to_frame()
    assert frame["kappa"].iloc[RULES.index("log_odds")] == pytest.approx(16 / 37)


def test_kappa_is_cohens():
    verdict, gold = np.random.default_rng(0).integers(0, 3, (2, 80))
    gold[:30] = verdict[:30]
    found = kappa(verdict, gold, np.arange(80))
    assert found.value == pytest.approx(cohen_kappa_score(verdict, gold))
    assert found.low < found.value < found.high
    assert kappa(verdict, np.ones(80, dtype=int), np.arange(80)).value is None
    assert kappa(verdict, np.full(80, -1), np.arange(80)).note == "no pair has both answers"
    assert kappa(gold, gold, np.arange(80)).value == 1


def test_kappa_covers():
    rng, hit, runs = np.random.default_rng(5), 0, 200
    for seed in range(runs):
        gold = rng.integers(1, 3, 60)
        verdict = np.where(rng.random(60) < 0.8, gold, 3 - gold)
        found = kappa(verdict, gold, np.arange(60), draws=200, seed=seed)
        hit += found.low <= 0.6 <= found.high
    assert hit >= stats.binom.ppf(0.001, runs, 0.93)


def test_disagreements_are_listed_by_confidence():
    items = pair_items(5, [1, 2, 0, 1, None])
    rows = disagreements(planted_pairs([-0.5, 2, 1, 1, 3], slot=0.7, items=items))
    assert [(row["id"], row["verdict"], row["gold"], row["kind"]) for row in rows] == [
        ("i0001", 1, 2, "false win"),
        ("i0002", 1, 0, "false win"),
        ("i0000", 2, 1, "false win"),
    ]
    assert [row["confidence"] for row in rows] == pytest.approx([2, 1, 0.5])
    assert [row["flipped"] for row in rows] == [False, False, True]
    kinds = [
        row["kind"] for row in disagreements(planted_pairs([0.1], slot=1, items=pair_items(1, [1])), "flips_as_ties")
    ]
    assert kinds == ["undecided"]
    with pytest.raises(InputError, match="unknown rule"):
        disagreements(case_run(), "logodds")


def checked_run(check):
    run = case_run()
    items = [
        dataclasses.replace(item, groups={} if value is None else {"check": value})
        for item, value in zip(run.items, check, strict=True)
    ]
    return dataclasses.replace(run, items=tuple(items))


def test_checks_that_can_be_compared_by_hand():
    found = checks(checked_run(CASE["check"]))
    told = [[getattr(row, name).value for name in VERDICTS] for row in found.rows]
    np.testing.assert_allclose(told, [[a / n, b / n, c / n] for a, b, c, n in CASE["checks"]])
    assert [row.correct.of for row in found.rows] == [n for *_, n in CASE["checks"]]
    assert (found.checked, found.pairs, len(found.to_frame())) == (6, 8, 5)


def test_checks_that_cannot_be_read():
    for bad in (3, "yes", 1.5, True):
        with pytest.raises(ItemError, match="item 'b': check is"):
            checks(checked_run([None, bad, *[None] * 6]))
    with pytest.raises(NotObserved, match="no pair has a check in the column 'check'"):
        checks(checked_run([None, math.nan, *[None] * 6]))


def graded(count, rng, sharp=1.5, clusters=None):
    """A judge whose content is the truth with a probability that grows with its margin."""
    content = rng.normal(0, 2, count)
    right = rng.random(count) < 1 / (1 + np.exp(-sharp * np.abs(content)))
    gold = np.where((content > 0) == right, 1, 2)
    return planted_pairs(content, slot=0.4, items=pair_items(count, gold, clusters=clusters))


def true_accuracy(margin, sharp=1.5):
    """Accuracy of `graded` pairs at or above a margin."""
    grid = np.linspace(margin, 14, 20_001)
    weight = stats.norm.pdf(grid, 0, 2)
    return float((weight / (1 + np.exp(-sharp * grid))).sum() / weight.sum())


def test_bounds_are_clopper_and_pearsons():
    expected = stats.binomtest(47, 50).proportion_ci(0.99, method="exact").low  # one-sided 99.5 %: a tenth of 5 %
    assert lower_bound(47 / 50, np.arange(50)) == pytest.approx(expected)
    assert lower_bound(47 / 50, np.repeat(np.arange(50), 3)) == pytest.approx(expected)
    assert lower_bound(0.0, np.arange(50)) == 0


def test_all_right_from_the_least_margin_on():
    content = np.linspace(0.1, 3, 60)
    found = threshold(planted_pairs(content, slot=0.5, items=pair_items(60, [1] * 60)))
    assert found.margin == pytest.approx(0.1)
    assert (found.automatic, found.pairs, found.accuracy, found.reason) == (60, 60, 1, "")
    assert found.flips == (content < 0.5).sum()
    assert len(found.levels) == 10
    assert found.folds == (None,) * 5  # 48 clusters do not say 90 %
    assert (found.held_out_accuracy.value, found.held_out_coverage.value) == (None, 0)


def test_few_clusters_reach_nothing():
    found = threshold(planted_pairs(np.linspace(1, 3, 40), items=pair_items(40, [1] * 40)))
    assert found.margin is None
    assert found.reason == "too few clusters: it takes 51 of which every pair is right, and there are 40"
    assert clusters_needed(0.9) == 51
    found = threshold(planted_pairs(np.linspace(1, 3, 400), items=pair_items(400, [1] * 400, clusters=10)))
    assert found.margin is None
    one = threshold(planted_pairs([1, 2], items=pair_items(2, [1, 1], clusters=1)))
    assert (one.margin, one.folds, one.held_out_coverage.value) == (None, (), 0)


def test_a_judge_that_guesses_has_no_threshold():
    rng = np.random.default_rng(0)
    found = threshold(planted_pairs(rng.normal(0, 1, 300), items=pair_items(300, rng.integers(1, 3, 300))))
    assert found.margin is None
    assert found.reason.startswith("no margin reaches it: the best has an accuracy of")
    assert found.automatic == 0


def test_the_promise_is_kept_where_it_is_hardest():
    """Accuracy is 0.899 at every margin: each threshold is wrong. Without the correction for the levels 12 % of runs have one."""
    rng, runs, chosen = np.random.default_rng(5), 400, 0
    for seed in range(runs):
        content = rng.normal(0, 2, 300)
        gold = np.where((content > 0) == (rng.random(300) < 0.899), 1, 2)
        chosen += (
            threshold(planted_pairs(content, items=pair_items(300, gold)), folds=2, draws=2, seed=seed).margin
            is not None
        )
    assert chosen <= stats.binom.ppf(0.999, runs, 0.05)


def test_held_out_accuracy_is_that_of_new_pairs():
    """A fold's threshold knows nothing of the fold: over many runs, hits are coverage times the true accuracy above it."""
    rng, margins, hits, held, expected, weights = np.random.default_rng(1), [], 0.0, 0, 0.0, 0.0
    for seed in range(120):
        found = threshold(graded(300, rng), draws=2, seed=seed)
        told, folds = found.held_out_accuracy, [m for m in found.folds if m is not None]
        margins += [] if found.margin is None else [found.margin]
        hits, held = hits + (told.value or 0) * told.of, held + told.of
        coverage = [2 * stats.norm.sf(m / 2) for m in folds]
        expected += np.dot(coverage, [true_accuracy(m) for m in folds])
        weights += sum(coverage)
    error = np.sqrt(0.96 * 0.04 / held)
    assert len(margins) > 60
    assert min(map(true_accuracy, margins)) >= 0.9
    assert abs(hits / held - expected / weights) < 4 * error


def test_held_out_pairs_are_judged_by_other_folds_and_clusters_stay_together():
    rng = np.random.default_rng(2)
    run = graded(600, rng, clusters=300)
    found = threshold(run)
    assert len(found.folds) == 5
    assert None not in found.folds
    assert found.held_out_coverage.of == 600
    expected = np.mean([2 * stats.norm.sf(margin / 2) for margin in found.folds])  # each fold's own threshold at work
    assert found.held_out_coverage.value == pytest.approx(expected, abs=0.06)
    mixed = rng.permutation(600)
    other = Run(run.logp[mixed], run.alias_mass, [run.items[i] for i in mixed], run.orderings, run.scores)
    assert threshold(other) == found
    assert found.to_frame()["chosen"].sum() == 1


def test_thresholds_that_make_no_sense():
    for wrong in ({"target": 1.0}, {"confidence": 0.0}, {"folds": 1}):
        with pytest.raises(InputError):
            threshold(case_run(), **wrong)
    with pytest.raises(NotObserved, match="no pair has a gold"):
        threshold(planted_pairs([0.1]))


def test_composition():
    texts = [("a" * 10, "b" * 10), ("a" * 11, "b" * 10), ("a" * 30, "- x\n- y"), ("**a**", "# b"), ("a", "b" * 2)]
    items = with_responses(pair_items(5, [1, 2, 0, None, 1], language=["en", "de", "en", "en", None]), texts)
    found = composition(planted_pairs([2, 0.5, 3, 0.1, -1.2], items=items))
    told = {(one.dimension, one.value): one.pairs for one in found.strata}
    assert told == {
        ("gold", "1"): 2, ("gold", "2"): 1, ("gold", "tie"): 1, ("gold", "none"): 1,
        ("kind", "clear win"): 2, ("kind", "borderline win"): 1, ("kind", "tie"): 1, ("kind", "without gold"): 1,
        ("longer", "response 1"): 3, ("longer", "response 2"): 1, ("longer", "equally long"): 1,
        ("length ratio", "up to 1.1"): 2, ("length ratio", "to 1.5"): 0, ("length ratio", "to 2"): 2,
        ("length ratio", "over 2"): 1,
        ("gold response", "longer"): 0, ("gold response", "shorter"): 2, ("gold response", "equally long"): 1,
        ("formatting", "none"): 3, ("formatting", "one"): 1, ("formatting", "both"): 1,
        ("language", "de"): 1, ("language", "en"): 3,
    }  # fmt: skip
    assert found.empty == (("length ratio", "to 1.5"), ("gold response", "longer"))
    assert found.left_out == (("task", "there is no such column"),)
    assert (found.pairs, found.clusters, len(found.to_frame())) == (5, 5, len(told))


def test_composition_without_texts_or_gold():
    items = [Item(f"i{n}", {}, groups={"task": "one", "key": n}) for n in range(3)]
    found = composition(run_of_p1([[0.9, 0.9]] * 3, items))
    reasons = dict(found.left_out)
    assert {reasons[name] for name in ("longer", "length ratio", "gold response", "formatting")} == {
        "the run does not hold the responses"
    }
    assert reasons["key"] == "3 different values are no groups"
    assert {(one.dimension, one.value, one.pairs) for one in found.strata if one.pairs} == {
        ("gold", "none", 3),
        ("kind", "without gold", 3),
        ("task", "one", 3),
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("* a\n* b", True),
        ("1) a\n2) b", True),
        ("## So", True),
        ("#tag", False),
        ("a - b", False),
        ("__so__", True),
        ("a_b_c", False),
    ],
)
def test_what_counts_as_formatting(text, expected):
    assert formatted(text) is expected


def panel_runs():
    case = CASE["panel"]
    items = pair_items(4, case["gold"])
    return {
        name: run_of_p1([[0.9, 0.9] if v == 1 else [0.1, 0.1] for v in verdicts], items)
        for name, verdicts in case["verdicts"].items()
    }


def test_a_panel_that_can_be_checked_by_hand():
    found, case = panel(panel_runs()), CASE["panel"]
    told = {name: one.correct.value for name, one in found.judges.items()} | {"majority": found.majority.correct.value}
    assert told == case["correct"]
    assert [one.phi.value for one in found.together] == pytest.approx(case["phi"])
    assert [one.both_wrong for one in found.together] == case["both_wrong"]
    assert found.correlation.value == pytest.approx(case["mean"])
    assert found.effective.value == pytest.approx(case["effective"])
    assert (found.pairs, found.clusters, found.left_out, len(found.to_frame())) == (4, 4, 0, 4)


def test_a_judge_that_never_errs_has_no_correlation():
    runs = panel_runs()
    runs["z"] = run_of_p1([[0.9, 0.9], [0.9, 0.9], [0.1, 0.1], [0.1, 0.1]], runs["x"].items)
    found = panel(runs)
    assert found.together[1].phi.value is None
    assert (found.correlation.value, found.effective.value) == (None, None)
    assert found.together[0].phi.value is not None


def test_judges_that_err_alone_and_judges_that_err_together():
    rng = np.random.default_rng(0)
    gold = rng.integers(1, 3, 400)
    items, sign = pair_items(400, gold), np.where(gold == 1, 1, -1)

    def judges(shared):
        common = rng.normal(0, 1, 400)
        contents = [sign + np.sqrt(shared) * common + np.sqrt(1 - shared) * rng.normal(0, 1, 400) for _ in range(3)]
        return {f"judge {n}": planted_pairs(content, items=items) for n, content in enumerate(contents)}

    alone, alike = panel(judges(0.0)), panel(judges(0.95))
    assert alone.correlation.low < 0 < alone.correlation.high
    assert alone.effective.low < 3 < alone.effective.high
    assert alone.majority.correct.value > max(one.correct.value for one in alone.judges.values()) + 0.03
    assert alike.effective.high < 2
    assert abs(alike.majority.correct.value - np.mean([one.correct.value for one in alike.judges.values()])) < 0.02


def test_pairs_are_matched_by_id():
    runs = panel_runs()
    run = runs["y"]
    back = [3, 2, 1, 0]
    runs["y"] = Run(run.logp[back], run.alias_mass, [run.items[i] for i in back], run.orderings, run.scores)
    assert panel(runs) == panel(panel_runs())
    runs["x"] = runs["x"].select([True, True, True, False])
    found = panel(runs)
    assert (found.pairs, found.left_out) == (3, 1)


def test_runs_of_other_pairs_are_no_panel():
    runs = panel_runs()
    with pytest.raises(InputError, match="at least two judges"):
        panel({"x": runs["x"]})
    with pytest.raises(InputError, match="called 'majority'"):
        panel({"majority": runs["x"], "y": runs["y"]})
    other = dataclasses.replace(runs["y"], items=tuple(pair_items(4, [1, 1, 2, 1])))
    with pytest.raises(InputError, match="pair 'i0003' has another gold"):
        panel({"x": runs["x"], "y": other})
    texts = [("other", "words")] * 4
    other = dataclasses.replace(runs["y"], items=tuple(with_responses(runs["y"].items, texts)))
    with pytest.raises(InputError, match="pair 'i0000' has another instruction"):
        panel({"x": runs["x"], "y": other})
    none = run_of_verdicts([1], [1])
    with pytest.raises(NotObserved, match="no pair with gold is in all runs"):
        panel({"x": none, "y": none})


def test_votes():
    assert vote([np.array([1]), np.array([2])]).tolist() == [0]
    assert vote([np.array([0]), np.array([0]), np.array([1])]).tolist() == [0]
    assert vote([np.array([-1]), np.array([2])]).tolist() == [2]
    discarded = panel(
        {n: run_of_probs([[[0.9, 0.1], [0.1, 0.9]]] * 2, pair_items(2, [1, 2])) for n in "ab"}, "flips_discarded"
    )
    assert (discarded.majority.pairs, discarded.majority.discarded) == (0, 2)


def test_discarded_verdicts_are_no_errors_of_a_panel():
    gold = [1, 2] * 30
    rng = np.random.default_rng(1)
    content = np.where(np.array(gold) == 1, 0.5, -0.5) + rng.normal(0, 1, (2, 60))
    items = pair_items(60, gold)
    runs = {n: planted_pairs(one, slot=0.7, items=items) for n, one in zip("12", content, strict=True)}
    made = panel(runs, "flips_discarded", draws=20)
    one, two = (ruled(pairs(run), "flips_discarded") for run in runs.values())
    both = (one >= 0) & (two >= 0)
    wrong, other = one[both] != np.array(gold)[both], two[both] != np.array(gold)[both]
    assert 0 < both.sum() < 60
    assert made.compared == both.sum()
    assert made.together[0].both_wrong == (wrong & other).sum()
    assert made.together[0].phi.value == pytest.approx(np.corrcoef(wrong, other)[0, 1])
