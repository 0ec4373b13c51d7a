"""Verdicts against gold: rules, groups, couples."""

import dataclasses

import numpy as np
import pytest
from planted_pairs import pair_items, planted_pairs
from planted_runs import case_file
from scipy import stats
from test_pairs import case_run, run_of_p1

from logitjudge.core import Item
from logitjudge.errors import NotObserved
from logitjudge.measures.pair_accuracy import accuracy
from logitjudge.measures.pair_couples import couples
from logitjudge.measures.pair_rules import RULES

CASE = case_file("pairs")


def test_accuracies_that_can_be_checked_by_hand():
    found = accuracy(case_run())
    for rule, (correct, wrong, undecided, of) in CASE["accuracy"].items():
        row = found.of(rule)
        told = [getattr(row, name).value for name in ("correct", "false_wins", "undecided")]
        assert told == pytest.approx([correct / of, wrong / of, undecided / of]), rule
        assert (row.pairs, row.correct.of, row.discarded) == (of, of, 4 * (rule == "flips_discarded"))
    assert found.without_gold == 1


def test_a_tie_option_that_the_judge_lacks_makes_gold_ties_false_wins():
    row = accuracy(run_of_p1([[0.9, 0.9], [0.9, 0.9]], pair_items(2, [1, 0]))).of("log_odds")
    assert (row.correct.value, row.false_wins.value, row.undecided.value) == (0.5, 0.5, 0)


def test_accuracy_by_group():
    items = pair_items(
        6, [1, 1, 2, 2, 1, None], task=["x", "x", "y", "y", None, "x"], one=["s"] * 6, key=list("abcdef")
    )
    run = run_of_p1([[0.9, 0.9], [0.2, 0.2], [0.1, 0.1], [0.8, 0.8], [0.9, 0.9], [0.9, 0.9]], items)
    found = accuracy(run)
    told = {(row.group, row.value): (row.pairs, row.correct.value) for row in found.rows if row.rule == "log_odds"}
    assert told == {(None, None): (5, 0.6), ("task", "x"): (2, 0.5), ("task", "y"): (2, 0.5)}
    assert dict(found.left_out) == {
        "one": "all pairs have the same value",
        "key": "6 different values are no groups",
        "gold response": "all pairs have the same value",
    }
    assert all(row.correct.note == "too few clusters (2 < 20)" for row in found.rows if row.group)
    assert len(found.to_frame()) == 3 * len(RULES)


def with_responses(items, texts):
    return [
        dataclasses.replace(item, fields={"instruction": "x", "response_1": a, "response_2": b})
        for item, (a, b) in zip(items, texts, strict=True)
    ]


def test_which_response_is_longer():
    texts = [("aa", "b"), ("a", "bb"), ("aa", "b"), ("a", "b"), ("aaa", "b"), ("", "b")]
    items = with_responses(pair_items(6, [1, 1, 2, 1, 0, 1]), texts)
    run = run_of_p1([[0.9, 0.9]] * 6, items)
    told = {
        row.value: (row.pairs, row.correct.value)
        for row in accuracy(run).rows
        if row.group == "gold response" and row.rule == "log_odds"
    }
    assert told == {"longer": (1, 1), "shorter": (2, 0.5), "equally long": (1, 1)}
    words = accuracy(run, length=lambda text: len(text.split()))
    assert ("gold response", "all pairs have the same value") in words.left_out


def test_a_judge_of_length_alone_is_found_by_which_response_is_longer():
    rng = np.random.default_rng(0)
    longer, gold = rng.integers(1, 3, 200), rng.integers(1, 3, 200)
    items = with_responses(pair_items(200, gold), [("xx", "y") if one == 1 else ("x", "yy") for one in longer])
    run = planted_pairs(np.where(longer == 1, 1.0, -1.0), slot=0.5, items=items)
    told = {row.value: row.correct.value for row in accuracy(run).rows if row.group and row.rule == "flips_as_ties"}
    assert told == {"longer": 1, "shorter": 0}


def test_without_gold_there_is_no_accuracy():
    with pytest.raises(NotObserved, match="no pair has a gold"):
        accuracy(planted_pairs([0.3]))
    with pytest.raises(NotObserved, match="there are no couples"):
        couples(planted_pairs([0.3, 0.1], items=pair_items(2, couple=["x", "x"])))


def test_gold_that_is_always_the_first_hides_position_bias_in_one_order():
    run = planted_pairs(np.zeros(40) + 0.1, slot=2, items=pair_items(40, [1] * 40))
    found = accuracy(run)
    told = [found.of(rule).correct.value for rule in ("first_order", "second_order", "flips_as_ties")]
    assert told == [1, 0, 0]
    assert found.of("flips_discarded").correct.value is None
    assert found.of("flips_discarded").discarded == 40


def couple_run(swapped=False):
    case = CASE["couples"]
    items = pair_items(7, case["gold"], couple=case["couple"])
    texts = [(f"good {name}", f"bad {name}") for name in case["couple"]]
    p1 = np.array(case["p1"])
    if swapped:  # the second pair of each couple lists its responses the other way round; the judge says the same of each response
        turned = np.arange(7) % 2 == 1
        texts = [pair[::-1] if turn else pair for pair, turn in zip(texts, turned, strict=True)]
        items = [
            dataclasses.replace(item, human=(3 - item.human[0],)) if turn else item
            for item, turn in zip(items, turned, strict=True)
        ]
        p1[turned] = 1 - p1[turned][:, ::-1]
    return run_of_p1(p1, with_responses(items, texts))


def test_couples_that_can_be_checked_by_hand():
    found = couples(couple_run())
    told = {row.rule: [row.whole.value, row.whole.of] for row in found.rows}
    assert told == {rule: [pytest.approx(a / b), b] for rule, (a, b) in CASE["couples"]["whole"].items()}
    assert {row.rule: row.discarded for row in found.rows if row.discarded} == {"flips_discarded": 1}
    assert (found.couples, found.pairs, found.alone, found.coin) == (3, 6, 1, 0.25)
    assert {row.blind for row in found.rows} == {0}
    assert found.to_frame()["couples"].tolist() == [3, 3, 3, 2, 3, 3]


def test_a_judge_that_ignores_the_instruction_gets_no_couple():
    rng = np.random.default_rng(0)
    content, gold = np.repeat(rng.normal(0, 1, 50), 2), np.tile([1, 2], 50)
    items = with_responses(
        pair_items(100, gold, couple=np.repeat(np.arange(50), 2)), [(f"a{n // 2}", f"b{n // 2}") for n in range(100)]
    )
    run = planted_pairs(content, slot=0.4, items=items)
    assert {row.whole.value for row in couples(run).rows} == {0}
    assert {row.blind for row in couples(run).rows} == {0}
    assert accuracy(run).of("log_odds").correct.value == 0.5


def test_a_single_order_can_be_passed_by_position_where_responses_change_places():
    found = {row.rule: row.blind for row in couples(couple_run(swapped=True)).rows}
    assert found == {rule: float(rule in ("first_order", "second_order")) for rule in RULES}
    always_first = run_of_p1([[0.9, 0.1]] * 7, couple_run(swapped=True).items)
    told = {row.rule: row.whole.value for row in couples(always_first).rows}
    assert (told["first_order"], told["flips_as_ties"]) == (1, 0)


def test_couples_without_texts_or_with_golds_that_agree():
    items = [Item(f"i{n}", {}, human=(1,), groups={"couple": "x"}) for n in range(2)]
    found = couples(run_of_p1([[0.9, 0.9]] * 2, items))
    assert (found.rows[0].blind, found.note) == (None, "the run does not hold the responses")
    found = couples(run_of_p1([[0.9, 0.9]] * 2, with_responses(items, [("a", "b")] * 2)))
    assert (found.rows[0].blind, found.rows[0].whole.value, found.rows[0].whole.low) == (1, 1, None)
    assert found.rows[0].whole.note == "no interval: all items are of one cluster"


@pytest.mark.parametrize("slot", [0.0, 0.8])
def test_planted_accuracies_come_back_within_their_intervals(slot):
    rng, runs, noise = np.random.default_rng(3), 200, 0.7

    def same(sd_other, shift):
        """P(content and content + shift + noise have the same sign), content N(0, 1)."""
        both = stats.multivariate_normal([0, 0], [[1, 1], [1, 1 + sd_other**2]])
        return float(both.cdf([0, shift]) + both.cdf([0, -shift]))  # both above 0 (turned round), both below

    expected = {
        "first_order": same(noise, slot),
        "second_order": same(noise, -slot),
        "log_odds": same(noise / np.sqrt(2), 0),
    }
    inside = dict.fromkeys(expected, 0)
    for seed in range(runs):
        content = rng.normal(0, 1, 60)
        items = pair_items(60, np.where(content > 0, 1, 2))
        found = accuracy(planted_pairs(content, slot=slot, noise=noise, items=items, rng=rng), draws=150, seed=seed)
        for rule, value in expected.items():
            one = found.of(rule).correct
            inside[rule] += one.low <= value <= one.high
    least = stats.binom.ppf(0.0005, runs, 0.94)
    assert {name: n for name, n in inside.items() if n < least} == {}
