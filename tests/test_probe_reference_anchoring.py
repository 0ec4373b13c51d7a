"""The probe `reference_anchoring`: the reference, its paraphrase, a score named for it."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import logitjudge as lj
from logitjudge import orderings, probing, prompts, rubrics
from logitjudge.core import Item, Ordering
from logitjudge.probes import difference, reference_anchoring
from logitjudge.probes.reference_anchoring import RESTATE, ReferenceAnchoring

WORDS = [f"word{n}" for n in range(40)]
NOISE = "quality_sd=1;order_noise=0.4;item_position_sd=0.3"
SHOWN = "score with the reference, minus without it"
WORDING = "score with a paraphrase of the reference, minus with the reference"
ENDS = "score with the highest score named for the reference, minus with the lowest"
GAIN = "gain by the reference, from no shared word to all shared"
TEXT = "gain by the reference's wording over the paraphrase's, from no shared word to all shared"


def items(count=24, seed=0, alike=True, paraphrase=True):
    """Responses of 10 words; references share about half of them, paraphrases (where `alike` is false) about as many."""
    rng = np.random.default_rng(seed)
    made = []
    for n in range(count):
        texts = [" ".join(rng.choice(WORDS, 10 + 10 * (t > 0), replace=False)) for t in range(3)]
        fields = {"instruction": "Say it.", "response": texts[0], "reference": texts[1]}
        if alike:
            fields["reference"] += " " + " ".join(texts[0].split()[: n % 8])
        if paraphrase:
            fields["reference_paraphrase"] = texts[2]
        made.append(Item(f"i{n}", fields, human=(float(rng.integers(1, 6)),)))
    return made


def effects(spec, tmp_path, given=None, **options):
    options = {"rubric": "helpfulness", **options}
    made = probing.run_probe(f"planted:{spec}", "reference_anchoring", given or items(), out=tmp_path, **options)
    return {one["name"]: one["estimate"] for one in made["effects"]}, made


def test_it_finds_what_is_planted(tmp_path):
    found, made = effects(f"reference=1;{NOISE}", tmp_path / "a")
    exact, _ = effects("reference=1;quality_sd=1", tmp_path / "b")
    for name, sign in ((SHOWN, 1), (WORDING, -1), (GAIN, 1), (TEXT, 1)):
        assert found[name]["low"] < exact[name]["value"] < found[name]["high"]
        assert sign * found[name]["value"] > 0
        assert found[name]["low"] * found[name]["high"] > 0
    assert found[ENDS]["value"] == pytest.approx(0, abs=1e-12)
    assert [one["main"] for one in made["effects"]] == [True] * 3 + [False] * 4
    found, _ = effects(f"named=0.3;{NOISE}", tmp_path / "c")
    assert found[ENDS]["low"] > 0
    assert found["score with the lowest score named for the reference, minus with none named"]["high"] < 0
    for name in (SHOWN, WORDING):
        assert found[name]["value"] == pytest.approx(0, abs=1e-12)


def test_a_paraphrase_that_shares_as_much_is_no_bias():
    draws, count = 200, 12
    given = [
        replace(item, id=f"{seed} {item.id}") for seed in range(draws) for item in items(count, seed=seed, alike=False)
    ]
    made = ReferenceAnchoring().variants(given)
    spec = f"planted:reference=2;named=1;position=0.5,0,0,0,0;{NOISE}"
    one, other = (
        lj.judge(spec, made[name].items, rubric="helpfulness", template="reference", orderings="identity")
        for name in ("with", "paraphrase")
    )
    wrong, place = 0, np.arange(draws * count) // count
    for seed in range(draws):
        found = difference("x", one.select(place == seed), other.select(place == seed)).estimate
        wrong += not found.low <= 0 <= found.high
    low, high = stats.binom.ppf([0.0005, 0.9995], draws, 0.05)
    assert low <= wrong <= high, (wrong, draws)


def test_the_effect_of_an_item_worked_by_hand(tmp_path):
    item = Item("a", {"instruction": "Say it.", "response": "one two", "reference": "two three"}, human=(3,))
    found, _ = effects("reference=1;quality_scale=0", tmp_path, [item])
    weight = np.exp(0.5 * np.arange(5))  # half of the words are shared: half a nat between each score and the next
    assert found[SHOWN]["value"] == pytest.approx(weight @ np.arange(1, 6) / weight.sum() - 3)


def test_prompts_differ_in_one_thing():
    item = items(1)[0]
    made = ReferenceAnchoring().variants([item])
    template, rubric = prompts.load("reference"), rubrics.load("helpfulness")

    def text(name):
        (one,) = made[name].items
        return prompts.render(template, one, rubric, Ordering((0, 1, 2, 3, 4))).messages[-1].content

    assert {variant.template for variant in made.values()} == {"reference"}
    plain = text("with")
    assert text("paraphrase") == plain.replace(item.fields["reference"], item.fields["reference_paraphrase"])
    for end, score in (("highest", 5), ("lowest", 1)):
        said = f" A response like the reference deserves a {score}.]"
        assert text(f"named {end}") == plain.replace(f"{rubric.criterion}]", rubric.criterion + said)
    assert item.fields["reference"] in plain
    assert "eference" not in text("without")
    short = rubrics.from_dict({"criterion": "Is it so?", "levels": [{"score": s, "text": f"t{s}"} for s in (0, 3, 7)]})
    body = prompts.render(template, made["named highest"].items[0], short, orderings.parse("identity", (0, 3, 7))[0])
    assert "deserves a 7." in body.messages[-1].content


def test_a_rubric_of_the_user_is_kept_beside_the_named_score(tmp_path):
    given = [Item(i.id, i.fields, rubrics.load("clarity"), i.human) for i in items(3)]
    found, made = effects("named=1", tmp_path, given, rubric="accuracy")
    assert found[ENDS]["value"] > 0
    run = lj.load_run(tmp_path / "reference_anchoring" / "named-highest")
    assert run.rubric.name == "accuracy"


def test_items_and_paraphrases_that_are_not_there(tmp_path):
    four = [*items(3, paraphrase=False), Item("none", {"instruction": "Say it.", "response": "one"})]
    made = ReferenceAnchoring().variants(four, None)
    assert made["without"].skipped == {"none": "no reference"}
    assert [item.id for item in made["with"].items] == ["i0", "i1", "i2"]
    assert not made["paraphrase"].items
    assert all("no model to write one" in why for why in made["paraphrase"].skipped.values())
    found, result = effects("reference=1", tmp_path / "a", four)
    assert WORDING not in found
    assert SHOWN in found
    assert sorted(map(len, result["skipped"].values())) == [1, 3]

    def generate(asked):
        assert all(prompt.endswith(RESTATE) for prompt in asked)
        return [" other words ", four[1].fields["reference"], " "]

    made = ReferenceAnchoring().variants(four, generate)["paraphrase"]
    assert [item.fields["reference"] for item in made.items] == ["other words"]
    assert sorted(made.skipped) == ["i1", "i2"]
    none, result = effects("reference=1", tmp_path / "b", four[3:])
    assert not none
    assert result["reason"] == "no item has a reference"
    assert reference_anchoring.paraphrases(items(2), None)["i0"] == items(2)[0].fields["reference_paraphrase"]
