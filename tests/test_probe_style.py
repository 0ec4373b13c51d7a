"""The probe `style`: polished and hedged against terse."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import logitjudge as lj
from logitjudge import probing
from logitjudge.core import Item
from logitjudge.measures.wording import hedges, overlap
from logitjudge.probes import preference, style

NOISE = "quality_sd=1;order_noise=0.4;item_position_sd=0.3"


def items(count=24, given=True):
    made = []
    for n in range(count):
        fields = {"instruction": "Name it.", "response": f"The answer is {n}, as one sees."}
        if given:
            fields |= {"terse": f"It is {n}.", "polished": f"Perhaps it would seem that the answer is {n}."}
        made.append(Item(f"i{n}", fields, human=(float(1 + n % 5),)))
    return made


def effects(spec, tmp_path, given=None):
    made = probing.run_probe(f"planted:{spec}", "style", given or items(), out=tmp_path, rubric="helpfulness")
    return [one["estimate"] for one in made["effects"]], made


def test_it_finds_a_planted_liking_of_hedges(tmp_path):
    (odds, points), made = effects(f"hedged=0.6;{NOISE}", tmp_path / "a")
    assert odds["low"] < 0.6 < odds["high"]
    assert odds["low"] > 0
    assert points["low"] > 0
    assert "times as long" in made["notes"][0]
    (odds, points), _ = effects(f"hedged=-0.6;{NOISE}", tmp_path / "b")
    assert odds["high"] < 0
    assert points["high"] < 0
    (odds, points), _ = effects("formatting=2;slot=1;letter=1", tmp_path / "c")
    assert odds["value"] == pytest.approx(0, abs=1e-12)
    assert points["value"] == pytest.approx(0, abs=1e-12)


def test_an_order_effect_alone_is_no_style():
    draws, count = 200, 16
    given = style.Style().variants(items(count))["pairs"].items
    many = [replace(item, id=f"{seed} {item.id}", cluster="") for seed in range(draws) for item in given]
    run = lj.pairwise(f"planted:slot=1;letter=0.5;formatting=1;{NOISE}", many)
    wrong, place = 0, np.arange(len(many)) // count
    for seed in range(draws):
        found = preference("x", run.select(place == seed)).estimate
        wrong += not found.low <= 0 <= found.high
    low, high = stats.binom.ppf([0.0005, 0.9995], draws, 0.05)
    assert low <= wrong <= high, (wrong, draws)


def test_written_texts_and_those_that_cannot_be_used():
    five = items(5, given=False)
    asked = []

    def generate(prompts):
        asked.extend(prompts)
        if prompts[0].endswith(style.PROMPTS["polished"]):
            return [
                "Perhaps it is the answer.",
                "It is surely the answer.",
                "Maybe so.",
                " ",
                "It may be the very answer.",
            ]
        return ["Yes.", "Yes.", "This is not short at all.", "Yes.", " The answer. "]

    made = style.Style().variants(five, generate)
    assert asked[0] == f"{five[0].fields['response']}\n\n{style.PROMPTS['polished']}"
    assert len(asked) == 10
    assert [(i.fields["response_1"], i.fields["response_2"]) for i in made["pairs"].items] == [
        ("Yes.", "Perhaps it is the answer."),
        ("The answer.", "It may be the very answer."),
    ]
    assert [i.fields["response"] for i in made["terse"].items] == ["Yes.", "The answer."]
    assert made["pairs"].skipped == {
        "i1": "the polished text that was written hedges nothing",
        "i2": "the terse text is no shorter than the polished one",
        "i3": "a text is empty",
    }
    nobody = style.Style().variants(five, None)
    assert not nobody["pairs"].items
    assert set(nobody["pairs"].skipped) == {f"i{n}" for n in range(5)}
    half = [Item("x", {**five[0].fields, "terse": "Yes."})]
    assert "no polished text" in style.Style().variants(half, None)["pairs"].skipped["x"]


def test_a_given_polished_text_needs_no_hedge():
    item = Item("x", {"response": "Yes.", "terse": "Yes.", "polished": "The answer is, in every respect, yes."})
    assert style.Style().variants([item])["pairs"].items


def test_words():
    assert hedges("It may seem, generally, to some extent. In May we could.") == 5
    assert hedges("This is so, likewise.") == 0
    assert overlap("", "a") == 0
    assert overlap("A b c d", "B, D and x") == 0.5
