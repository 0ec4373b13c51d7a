"""Effects, verdicts, rules, stability and win rates of pairs."""

import dataclasses

import numpy as np
import pytest
from planted_pairs import orders, pair_items, planted_pairs, run_of_probs
from planted_runs import case_file, run_of
from scipy import stats

from logitjudge.core import Item, Ordering
from logitjudge.errors import InputError, ItemError, NotExact, NotObserved
from logitjudge.measures.pair_margin import margin
from logitjudge.measures.pair_review import contradiction, review
from logitjudge.measures.pair_rules import RULES, ruled, stable_winners
from logitjudge.measures.pair_scored import scored_totals
from logitjudge.measures.pair_stability import stability
from logitjudge.measures.pair_wins import win_rates
from logitjudge.measures.pairs import SLOT, SLOT_AND_LETTER, pairs
from logitjudge.run import Run

CASE = case_file("pairs")
FIGURES = ("swap_consistency", "flip_rate", "first_hard", "flips_to_first")


def case_run():
    items = [
        dataclasses.replace(item, id=name) for item, name in zip(pair_items(8, CASE["gold"]), CASE["ids"], strict=True)
    ]
    return run_of_probs(CASE["probs"], items)


def run_of_p1(p1, items=None):
    """A run without ties, of P(1) in both orders (I, 2)."""
    p1 = np.array(p1)
    return run_of_probs(np.stack([p1, 1 - p1], axis=2), items)


def run_of_verdicts(first, second):
    """A run with ties whose verdicts in both orders are given."""
    probs = np.full((len(first), 2, 3), 0.1)
    for o, verdicts in enumerate((first, second)):
        probs[np.arange(len(first)), o, verdicts] = 0.8
    return run_of_probs(probs)


def harness(first, second):
    """The article's `position_bias`, fed with what its judge would have answered; "A" is the slot shown first."""
    agree = flips = first_pref = 0
    for one, two in zip(first, second, strict=True):
        v1 = {1: "A", 2: "B", 0: "TIE"}[one]
        v2 = {1: "B", 2: "A", 0: "TIE"}[two]
        v2n = {"A": "B", "B": "A", "TIE": "TIE"}[v2]
        if v1 == v2n:
            agree += 1
        else:
            flips += 1
            if v1 != "TIE":
                first_pref += 1
    n = len(first)
    return {
        "swap_consistency": agree / n,
        "flip_rate": flips / n,
        "flips_favouring_position_1": first_pref / max(flips, 1),
    }


def test_effects_that_can_be_checked_by_hand():
    found = pairs(case_run())
    odds = np.log(CASE["odds"])
    np.testing.assert_allclose(found.logit, odds, atol=1e-12)
    np.testing.assert_allclose(found.content, odds.mean(axis=1), atol=1e-12)
    np.testing.assert_allclose(found.position, (odds[:, 0] - odds[:, 1]) / 2, atol=1e-12)
    np.testing.assert_allclose(found.probs, CASE["probs"], atol=1e-12)
    np.testing.assert_allclose(found.tie, np.array(CASE["probs"])[..., 0], atol=1e-12)
    assert found.verdict.tolist() == CASE["verdict"]
    assert found.slot is found.letter is found.rest is None
    assert found.position_name == SLOT_AND_LETTER
    assert list(stable_winners(found)) == CASE["stable"]
    assert {rule: ruled(found, rule).tolist() for rule in RULES} == CASE["ruled"]


def test_stability_that_can_be_checked_by_hand():
    found = stability(case_run())
    for name, (above, below) in CASE["stability"].items():
        one = getattr(found, name)
        assert (one.value, one.of) == (pytest.approx(above / below), below), name
    assert found.position.value == pytest.approx((np.log(2.1) / 2 - np.log(2)) / 8)
    assert len(found.to_frame()) == 11


def test_the_harness_of_the_article_is_right_about_flips_and_wrong_about_their_direction():
    found, told = stability(case_run()), harness(*zip(*CASE["verdict"], strict=True))
    assert told == pytest.approx(CASE["harness"])
    assert (found.swap_consistency.value, found.flip_rate.value) == (told["swap_consistency"], told["flip_rate"])
    assert found.flips_to_first.value == 0.4
    always_second = [2] * 10, [1] * 10  # takes the second slot in every reversal
    assert harness(*always_second)["flips_favouring_position_1"] == 1
    assert stability(run_of_verdicts(*always_second)).flips_to_first.value == 0
    half = [0] * 10, [2] * 10  # the first slot, in the second order only
    assert harness(*half)["flips_favouring_position_1"] == 0
    assert stability(run_of_verdicts(*half)).flips_to_first.value == 1


def test_the_harness_agrees_on_any_verdicts():
    first, second = np.random.default_rng(0).integers(0, 3, (2, 300))
    found, told = stability(run_of_verdicts(first, second)), harness(first.tolist(), second.tolist())
    assert (found.swap_consistency.value, found.flip_rate.value) == pytest.approx(
        (told["swap_consistency"], told["flip_rate"])
    )


def test_200_pairs_of_which_36_change_winner():
    found = stability(run_of_verdicts([1] * 200, [2] * 36 + [1] * 164))
    assert (found.flip_rate.value, found.reversals.value, found.flip_rate.of) == (0.18, 0.18, 200)
    assert found.half_flips.value == 0
    assert found.flips_to_first.value == 1


def test_scored_pairs():
    found = scored_totals((8, 7), (7, 8))  # A 8, B 7; then B 8, A 7
    assert (found.content.tolist(), found.order.tolist()) == ([0], [1])
    assert (found.winner.tolist(), found.stable) == ([[1, 2]], (None,))
    assert found.totals.tolist() == [[7.5, 7.5]]
    found = scored_totals([[9, 5], [6, 6]], [[7, 6], [5, 5]])
    assert (found.content.tolist(), found.order.tolist(), found.stable) == ([2.5, 0], [1.5, 0], (1, 0))
    assert found.to_frame()["total_2"].tolist() == [5.5, 5.5]
    with pytest.raises(InputError, match=r"shapes \(1, 3\)"):
        scored_totals((1, 2, 3), (1, 2, 3))
    with pytest.raises(InputError, match="some total is missing"):
        scored_totals((1, np.nan), (1, 2))


def test_win_rates_that_can_be_checked_by_hand():
    found = win_rates(case_run())
    for name, value in CASE["adjusted"].items():
        assert getattr(found, name).value == pytest.approx(value), name
    assert {row.rule: [row.rate.value, row.rate.of] for row in found.rules} == {
        rule: [pytest.approx(above / below), below] for rule, (above, below) in CASE["wins"].items()
    }
    assert {row.rule: row.discarded for row in found.rules} == {rule: 5 * (rule == "flips_discarded") for rule in RULES}
    assert [row.ties for row in found.rules] == [4, 3, 7, 2, 4, 5]
    assert found.systems == ()


def test_win_rates_of_systems():
    case = CASE["systems"]
    one, two = zip(*case["models"], strict=True)
    found = win_rates(run_of_p1(case["p1"], pair_items(4, model_1=one, model_2=two)))
    told = {(row.system, row.rule): [row.rate.value, row.rate.of] for row in found.systems}
    assert told == {
        (name, rule): [pytest.approx(above / below), below]
        for name, (above, below) in case["rates"].items()
        for rule in ("flips_as_ties", "log_odds")
    }
    assert [row.ties for row in found.systems if row.system == "A"] == [1, 1]
    assert len(found.to_frame()) == len(RULES) + 6


def test_two_by_two():
    case = CASE["crossed"]
    p1 = 1 / (1 + np.exp(-np.array(case["logits"], dtype=float)))
    found = pairs(run_of_probs(np.stack([p1, 1 - p1], axis=2), crossed=True))
    for name in ("content", "slot", "letter", "rest", "logit"):
        np.testing.assert_allclose(getattr(found, name), case[name], atol=1e-12, err_msg=name)
    np.testing.assert_array_equal(found.position, found.slot)
    assert found.verdict.tolist() == case["verdict"]
    assert found.position_name == SLOT
    assert found.tie is None
    assert {"slot", "letter", "rest"} < set(found.to_frame().columns)


def test_two_by_two_averages_probabilities_not_their_logs():
    case = CASE["averaged"]
    found = pairs(run_of_probs(case["probs"], crossed=True))
    np.testing.assert_allclose(found.probs, case["mean"], atol=1e-12)
    assert found.verdict.tolist() == case["verdict"]


@pytest.mark.parametrize("tie", [None, 0.3])
def test_two_by_two_tells_slot_and_letter_apart(tie):
    rng = np.random.default_rng(0)
    content, slot, letter = rng.normal(0, 1, (3, 40))
    run = planted_pairs(content, slot=slot, letter=letter, tie=tie, crossed=True)
    shuffled = [2, 0, 3, 1]
    run = Run(run.logp[:, shuffled], run.alias_mass, run.items, [run.orderings[o] for o in shuffled], run.scores)
    found, usual = pairs(run), pairs(planted_pairs(content, slot=slot, letter=letter, tie=tie))
    np.testing.assert_allclose(found.content, content, atol=1e-12)
    np.testing.assert_allclose(found.slot, slot, atol=1e-12)
    np.testing.assert_allclose(found.letter, letter, atol=1e-12)
    np.testing.assert_allclose(found.rest, 0, atol=1e-12)
    np.testing.assert_allclose(usual.position, slot + letter, atol=1e-12)
    told = stability(run)
    assert (told.slot.value, told.letter.value) == pytest.approx((slot.mean(), letter.mean()))
    assert stability(planted_pairs(content)).letter is None


@pytest.mark.parametrize("crossed", [False, True])
def test_identical_responses_are_position_only(crossed):
    run = planted_pairs(np.zeros(30), slot=np.random.default_rng(0).normal(0.7, 0.2, 30), letter=0.2, crossed=crossed)
    found, told = pairs(run), stability(run)
    np.testing.assert_allclose(found.content, 0, atol=1e-12)
    assert ruled(found, "log_odds").tolist() == [0] * 30
    assert (told.flip_rate.value, told.flips_to_first.value) == (1, 1)
    assert [row.rate.value for row in win_rates(run).rules] == [1, 0, 0.5, None, 0.5, 0.5]


def test_rounding_decides_nothing():
    found = pairs(run_of_probs([[[0.1, 0.45, 0.45 * (1 + 1e-15)], [0.1, 0.45 * (1 + 1e-9), 0.45]]]))
    assert found.verdict.tolist() == [[0, 1]]


def test_a_candidate_without_probability():
    found = pairs(run_of_p1([[1, 0.5], [0, 0]]))
    np.testing.assert_allclose(found.content, [2500, -5000])
    assert found.verdict.tolist() == [[1, 0], [2, 2]]
    assert np.isfinite(contradiction(found)).all()


def test_aliases_count_where_they_are_asked_for():
    run = run_of_p1([[0.6, 0.6]])
    alias = np.zeros(run.logp.shape)
    alias[..., 1] = 0.6
    both = [Run(run.logp, alias, run.items, run.orderings, run.scores, aliases=how) for how in ("ignore", "sum")]
    assert [pairs(one).content[0] for one in both] == pytest.approx([np.log(1.5), np.log(0.6)])


def test_the_order_of_items_and_of_orderings_does_not_matter():
    rng = np.random.default_rng(0)
    run = planted_pairs(rng.normal(0, 1, 30), slot=0.8, noise=0.5, rng=rng, items=pair_items(30, clusters=10))
    mixed = rng.permutation(30)
    other = Run(
        run.logp[mixed][:, ::-1], run.alias_mass, [run.items[i] for i in mixed], run.orderings[::-1], run.scores
    )
    for measure in (stability, win_rates, margin):
        ours, theirs = (dataclasses.asdict(measure(one)) for one in (run, other))
        assert str(_rounded(ours)) == str(_rounded(theirs))


def _rounded(value):
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(one) for one in value]
    return round(value, 9) + 0.0 if isinstance(value, float) else value


def test_review_lists_contradictions_worst_first():
    rows = review(case_run())
    assert [row["id"] for row in rows] == CASE["review"]
    assert [row["contradiction"] for row in rows] == pytest.approx(np.log(CASE["contradiction_as_ratio"]).tolist())
    first = rows[0]
    assert (first["verdict_first_order"], first["verdict_second_order"], first["gold"]) == (2, 0, 2)
    assert (first["p_1_first_order"], first["p_tie_second_order"]) == pytest.approx((0.2, 0.6))
    assert (first["instruction"], first["response_2"]) == ("Do 3.", "b3")
    assert rows[-1]["gold"] is None


def test_without_ties_a_contradiction_is_position_beyond_content():
    rng = np.random.default_rng(1)
    found = pairs(planted_pairs(rng.normal(0, 1, 60), slot=rng.normal(0.5, 1, 60)))
    expected = np.maximum(np.abs(found.position) - np.abs(found.content), 0)
    np.testing.assert_allclose(contradiction(found), expected, atol=1e-12)
    assert 5 < found.flipped.sum() < 55


def test_review_carries_groups_and_what_is_missing():
    items = [Item("x", {}, groups={"task": "sum", "gold": "old"}), Item("y", {}, groups={})]
    rows = review(run_of_p1([[0.9, 0.3], [0.9, 0.2]], items))
    assert [row["id"] for row in rows] == ["y", "x"]
    assert (rows[1]["task"], rows[1]["group_gold"], rows[1]["gold"], rows[1]["instruction"]) == (
        "sum",
        "old",
        None,
        None,
    )
    assert (rows[0]["task"], rows[0]["p_tie_first_order"]) == (None, None)
    assert review(run_of_p1([[0.9, 0.9]])) == []


def test_margin():
    rng = np.random.default_rng(0)
    content = rng.permutation(np.linspace(-2, 2, 81))  # 0, 0.05, 0.1 ... on both sides: 19 within 0.475
    found = margin(planted_pairs(content, slot=0.475), 4)
    assert [one.pairs for one in found.bins] == [21, 20, 20, 20]
    assert [one.flip_rate.value for one in found.bins] == pytest.approx([19 / 21, 0, 0, 0])
    assert [one.position.value for one in found.bins] == pytest.approx([0.475] * 4)
    assert (found.bins[0].low, found.bins[0].high) == pytest.approx((0, 0.5))
    assert (found.flips, found.flips_beyond, found.beyond) == (19, 19, 19)
    flips = (np.abs(content) < 0.475).astype(float)
    expected = stats.spearmanr(flips, -np.abs(content).round(9)).statistic
    assert found.flipped_when_close.value == pytest.approx(expected)
    assert found.larger_when_close.value is None
    assert found.to_frame()["flip_rate"].iloc[1] == 0


def test_an_effect_that_grows_at_near_ties_is_told_from_flips_that_must_lie_there():
    rng = np.random.default_rng(0)
    content = rng.normal(0, 1, 200)
    noise = rng.normal(0, 0.1, 200)
    same = margin(planted_pairs(content, slot=0.5 + noise))
    grows = margin(planted_pairs(content, slot=1 / (1 + np.abs(content)) + noise))
    assert same.flipped_when_close.low > 0.3
    assert same.larger_when_close.low < 0 < same.larger_when_close.high
    assert grows.larger_when_close.low > 0.5
    assert same.flips == same.flips_beyond == same.beyond


def test_edges_of_the_margin():
    found = margin(planted_pairs(np.zeros(5), slot=1))
    assert [one.pairs for one in found.bins] == [5]
    assert found.flipped_when_close.note == "degenerate: a side does not vary"
    assert margin(planted_pairs([0.1, 0.4], slot=1)).flipped_when_close.note == "too few pairs (2 < 3)"
    with pytest.raises(InputError, match="bins is 0"):
        margin(planted_pairs([0.1]), 0)


def test_one_cluster_has_numbers_and_no_intervals():
    run = planted_pairs([0.2, 1, -2], slot=0.5, items=pair_items(3, clusters=1))
    found = stability(run)
    assert found.flip_rate.value == pytest.approx(1 / 3)
    assert (found.flip_rate.low, found.position.low, found.position.test) == (None, None, None)
    assert found.flip_rate.note == "no interval: all items are of one cluster"
    assert win_rates(run).rules[0].rate.low is None


def test_all_ties():
    run = run_of_verdicts([0] * 25, [0] * 25)
    found = stability(run)
    assert (found.swap_consistency.value, found.ties_hard.value) == (1, 1)
    assert found.first_hard.value is found.flips_to_first.value is None
    assert found.first_hard.note == "there is nothing to take it of"
    assert {row.rate.value for row in win_rates(run).rules} == {0.5}


def test_runs_that_are_not_pairs():
    with pytest.raises(NotObserved, match=r"not pairwise: its scores are \[1, 2, 3\]"):
        pairs(run_of(np.full((1, 6, 3), 1 / 3), "full"))
    with pytest.raises(NotObserved, match="neither|not both orders"):
        pairs(run_of([[[0.5, 0.5]]], "1,2"))
    moving = run_of(np.full((1, 2, 2), 0.5), "1,2;2,1")  # labels move with the candidates: letters and content are one
    with pytest.raises(NotObserved, match="content and position cannot be told apart"):
        pairs(moving)
    usual = planted_pairs([0.1])
    twice = Run(np.repeat(usual.logp, 2, axis=1), np.zeros((1, 4, 2)), usual.items, usual.orderings * 2, usual.scores)
    with pytest.raises(NotObserved, match="4 ordering"):
        pairs(twice)
    with pytest.raises(NotExact):
        pairs(dataclasses.replace(usual, exact=np.zeros(usual.logp.shape, bool)))
    with pytest.raises(ItemError, match="item 'i0000': gold 3 is none of 1, 2 and 0"):
        pairs(planted_pairs([0.1], items=pair_items(1, [3])))
    with pytest.raises(ItemError, match="gold -1"):
        pairs(planted_pairs([0.1], items=pair_items(1, [-1])))
    with pytest.raises(InputError, match="unknown rule 'flips_as_tie'. Did you mean 'flips_as_ties'"):
        ruled(pairs(usual), "flips_as_tie")


def test_the_designs_of_the_contract():
    assert orders(3)[1] == Ordering((2, 1, 0), (1, 2, 0))
    assert orders(2, crossed=True)[2] == Ordering((0, 1), (1, 0))


def truth(slot, noise, mean=0.4, sd=1.2):
    """Figures of a judge with log-odds N(mean, sd^2) + s slot + noise: L1, L2 of both orders are normal."""
    variance = sd**2 + noise**2
    both = stats.multivariate_normal([0, 0], [[variance, sd**2], [sd**2, variance]])
    up = [stats.norm.cdf((mean + s * slot) / np.sqrt(variance)) for s in (1, -1)]  # P(L > 0)
    one = float(both.cdf([mean + slot, mean - slot]))  # both above 0
    to_first, to_second = up[0] - one, up[1] - one
    flips = to_first + to_second
    agree = stats.norm.cdf(mean / np.sqrt(sd**2 + noise**2 / 2))
    return {
        "flip_rate": flips, "swap_consistency": 1 - flips, "flips_to_first": to_first / flips,
        "first_hard": (up[0] + 1 - up[1]) / 2, "position": slot, "adjusted_hard": (up[0] + up[1]) / 2,
        "first_order": up[0], "second_order": up[1], "flips_as_ties": one + flips / 2,
        "flips_discarded": one / (1 - flips), "log_odds": agree,
    }  # fmt: skip


@pytest.mark.parametrize(("slot", "noise"), [(0.0, 0.6), (0.5, 0.4), (-1.2, 0.2)])
def test_what_is_planted_comes_back_within_its_interval(slot, noise):
    rng, expected = np.random.default_rng(7), truth(slot, noise)
    items, draws, runs = pair_items(80, clusters=40), 200, 200
    inside = dict.fromkeys(expected, 0)
    for seed in range(runs):
        content = 0.4 + 1.2 * (np.tile(rng.normal(0, 0.8, 40), 2) + rng.normal(0, 0.6, 80))
        run = planted_pairs(content, slot=slot, noise=noise, items=items, rng=rng)
        found, won = stability(run, draws=draws, seed=seed), win_rates(run, draws=draws, seed=seed)
        told = {name: getattr(found, name) for name in (*FIGURES, "position")} | {"adjusted_hard": won.adjusted_hard}
        told |= {row.rule: row.rate for row in won.rules}
        for name, value in expected.items():
            inside[name] += told[name].low <= value <= told[name].high
    least = stats.binom.ppf(0.0005, runs, 0.94)
    assert {name: n for name, n in inside.items() if n < least} == {}
