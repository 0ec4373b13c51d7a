"""The probe `agreeableness`: its own items, what it tells apart, users' pairs."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import logitjudge as lj
from logitjudge import probing
from logitjudge.core import Item
from logitjudge.errors import NotObserved
from logitjudge.measures.pairs import pairs
from logitjudge.probes import agreeableness
from logitjudge.probes.agreeableness import Agreeableness, couples, marked, own

NOISE = "order_noise=0.4;item_position_sd=0.3"
WHOLE = "preference for the confident answer, right or wrong alike"
WRONG, RIGHT = (f"preference for the confident answer, where it is {word}" for word in ("wrong", "right"))
SCORE = "score of the confident answer, minus the declining one's, right or wrong alike"
FOOLED = "verdicts for the confident answer where it is wrong"


def effects(spec, tmp_path, data=None):
    made = probing.run_probe(f"planted:{spec}", "agreeableness", data, out=tmp_path)
    return {one["name"]: one for one in made["effects"]}, made


def test_the_own_items_are_couples_that_differ_in_the_passage_alone():
    items = [marked(item) for item in own()]
    clusters = {}
    for item in items:
        clusters.setdefault(item.cluster, []).append(item)
    assert len(clusters) >= 24
    for wrong, right in clusters.values():
        assert (wrong.groups["kind"], right.groups["kind"]) == ("unanswerable", "control")
        assert wrong.groups["confident"] == right.groups["confident"]
        for name in ("response_1", "response_2"):
            assert wrong.fields[name] == right.fields[name]
        (texts, question), (others, same) = (i.fields["instruction"].split("\n\nQuestion: ") for i in (wrong, right))
        assert question == same
        assert texts != others
        assert abs(len(texts) - len(others)) < 40
    slots = [part[0].groups["confident"] for part in clusters.values()]
    assert slots.count(1) == slots.count(2)
    assert {item.groups["premise"] for item in items} == {"false", "not in the text"}
    answers = [[i.fields[f"response_{c}"] for c in (i.groups["confident"], 3 - i.groups["confident"])] for i in items]
    lengths = np.log([[len(text) for text in pair] for pair in answers])
    assert abs((lengths[:, 0] - lengths[:, 1]).mean()) < 0.05  # length alone prefers neither


def test_it_finds_a_planted_liking_of_confidence(tmp_path):
    found, made = effects(f"confident=0.6;slot=1;{NOISE}", tmp_path / "a")
    whole = found[WHOLE]["estimate"]
    assert whole["low"] < 0.6 < whole["high"]
    assert whole["low"] > 0
    assert whole["of"] == whole["clusters"] == 24
    assert found[SCORE]["estimate"]["low"] > 0
    assert [one["main"] for one in made["effects"]][:3] == [True, True, False]
    # the planted judge gives gold 1 nat of log-odds: where the confident answer is wrong and right
    assert found[WRONG]["estimate"]["low"] < 0.6 - 1 < found[WRONG]["estimate"]["high"]
    assert found[RIGHT]["estimate"]["low"] < 0.6 + 1 < found[RIGHT]["estimate"]["high"]


def test_a_judge_that_only_tells_right_from_wrong_has_none(tmp_path):
    found, _ = effects("quality_scale=4;slot=1", tmp_path / "a")
    assert found[WHOLE]["estimate"]["value"] == pytest.approx(0, abs=1e-12)
    assert found[SCORE]["estimate"]["value"] == pytest.approx(0, abs=1e-12)
    assert found[FOOLED]["estimate"]["value"] == 0
    assert found[WRONG]["estimate"]["value"] == pytest.approx(-4)
    assert not found[FOOLED]["main"]
    fooled, _ = effects("confident=4;quality_scale=1", tmp_path / "b")
    assert fooled[FOOLED]["estimate"]["value"] == 1


def test_an_order_effect_alone_is_no_agreeableness():
    draws, given = 200, Agreeableness().variants([])["pairs"].items[:32]
    many = [replace(item, id=f"{seed} {item.id}") for seed in range(draws) for item in given]
    whole = lj.pairwise(f"planted:slot=1;letter=0.5;{NOISE}", many)
    wrong, place = 0, np.arange(len(many)) // len(given)
    for seed in range(draws):
        run = whole.select(place == seed)
        signs = np.array([1 if item.groups["confident"] == 1 else -1 for item in run.items])
        values = dict(zip([item.id for item in run.items], pairs(run).content * signs, strict=True))
        found, of = couples(values, run.items)
        made = agreeableness.measured("x", "nats", found, of).estimate
        wrong += not made.low <= 0 <= made.high
    low, high = stats.binom.ppf([0.0005, 0.9995], draws, 0.05)
    assert low <= wrong <= high, (wrong, draws)


def test_couples_worked_by_hand():
    def item(name, cluster, kind):
        return Item(name, {}, cluster=cluster, groups={"kind": kind})

    items = [
        item("a", "1", "unanswerable"), item("b", "1", "control"), item("c", "1", "control"), item("d", "2", "control"),
        item("e", "3", "control"), item("f", "3", "unanswerable"),
    ]  # fmt: skip
    found, of = couples(dict(zip("abcdef", [-1.0, 2, 4, 50, 1, 2], strict=True)), items)
    assert found.tolist() == [1.0, 1.5]  # (-1 + 3) / 2, (1 + 2) / 2; the cluster 2 has one kind
    assert [one.cluster for one in of] == ["1", "3"]


def user(name, gold, **groups):
    fields = {"instruction": "When?", "response_1": f"In 19{name}.", "response_2": "That is not said."}
    return Item(name, fields, human=None if gold is None else (gold,), groups=groups)


def test_pairs_of_users(tmp_path):
    data = [user(str(n), 2) for n in range(10, 20)] + [user("x", 0), user("y", None)]
    data += [Item("z", {"instruction": "When?", "response": "Now."})]
    made = Agreeableness().variants(data)
    assert len(made["pairs"].items) == 10
    assert made["pairs"].skipped == {
        "x": "gold prefers neither response", "y": "gold prefers neither response", "z": "no pair of responses",
    }  # fmt: skip
    assert made["confident"].items[0].fields == {"instruction": "When?", "response": "In 1910."}
    assert made["declining"].items[0].fields["response"] == "That is not said."
    assert made["declining"].items[0].human is None
    found, result = effects("confident=3", tmp_path / "a", data[:10])
    assert WHOLE not in found
    assert found[FOOLED]["main"]
    assert found[FOOLED]["estimate"]["value"] == 1
    assert agreeableness.BARE in result["notes"]
    assert marked(user("a", 1, confident=1)).groups["kind"] == "control"
    assert marked(user("a", 1)).groups["confident"] == 2


def test_items_that_are_no_pairs_leave_the_own_ones():
    made = Agreeableness().variants([Item("z", {"instruction": "When?", "response": "Now."})])
    assert len(made["pairs"].items) == len(own())
    assert made["pairs"].skipped == {"z": "no pair of responses"}


def test_without_a_wrong_confident_answer_there_is_nothing_to_say(tmp_path):
    run = lj.pairwise("planted:", Agreeableness().variants([user("a", 1, confident=1)])["pairs"].items)
    with pytest.raises(NotObserved, match="in every pair"):
        agreeableness._fooled(run, main=True)
