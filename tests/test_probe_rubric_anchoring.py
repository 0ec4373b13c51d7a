"""The probe of the rubric's words: what varies and what stays, and what it finds of planted judges."""

import numpy as np
import pytest
from planted_runs import planted_run, rated_items, rubric_of
from scipy import stats

from logitjudge import probing, rubrics, store
from logitjudge.core import Item, Rubric
from logitjudge.probes import rubric_anchoring as probe

NOISE = "quality_sd=1;order_noise=0.4;item_position_sd=0.3"
LEADS = "score where the criterion leads up, minus where it leads down"
UP = "score where the criterion leads up, minus the explicit one's"
DOWN = "score where the criterion leads down, minus the explicit one's"
VAGUE = "score under a vague criterion over the same levels, minus under the explicit one"
LEVELS = "score under vague criterion and levels, minus under the explicit ones"
RISE = "rise of the score for each point of the human score, vague minus explicit"


def items(count=24, rubric=None, **more):
    return [Item(f"i{n}", {"instruction": "x", "response": f"y{n}"}, rubric, **more) for n in range(count)]


def whole(spec, data, folder, **options):
    made = probing.run_probe(f"planted:{spec}", "rubric_anchoring", data, out=folder, **options)
    return {one["name"]: one for one in made["effects"]}, made


def effects(runs):
    return {effect.name: effect for effect in probe.RubricAnchoring().effect(runs).effects}


def test_one_thing_varies():
    rubric = rubrics.load("accuracy")
    made = probe.RubricAnchoring().variants(items(2, rubric))
    assert list(made) == ["explicit", "leading up", "leading down", "vague", "vague levels"]
    shown = {name: variant.rubric for name, variant in made.items()}
    assert shown["explicit"] == rubric
    assert all(shown[name].levels == rubric.levels for name in ("leading up", "leading down", "vague"))
    up, down = shown["leading up"].criterion, shown["leading down"].criterion
    assert up.startswith(rubric.criterion + " ")
    assert up.replace("excellent", "poor") == down
    assert up != down
    assert shown["vague"].criterion == shown["vague levels"].criterion == "How good is the response?"
    assert [level.text for level in shown["vague levels"].levels][::2] == [
        "The response is very bad.", "The response is fair.", "The response is very good.",
    ]  # fmt: skip
    assert [level.option for level in shown["vague levels"].levels] == ["1", "2", "3", "4", "5"]
    assert all(
        [item.fields for item in variant.items] == [item.fields for item in items(2)] for variant in made.values()
    )


def test_own_rubrics_stay_own_and_scales_without_words_are_skipped():
    two = [
        *items(1, rubric_of(3)),
        Item("z", {"instruction": "x", "response": "y"}, Rubric("s", "S?", rubric_of(3).levels)),
    ]
    made = probe.RubricAnchoring().variants(two)
    assert [item.rubric.criterion[:10] for item in made["leading up"].items] == ["How good i", "S? Say how"]
    long = probe.RubricAnchoring().variants(items(2, rubrics.load("likert_0_10")))["vague levels"]
    assert long.items == ()
    assert set(long.skipped.values()) == {"no vague words for 11 levels"}
    for count, grades in probe.GRADES.items():
        assert len(set(grades)) == count


def test_leading_by_hand(tmp_path):
    """All levels alike, ln 2 a step: the probabilities of 1 to 5 are 1, 2, 4, 8, 16 of 31, and the other way round."""
    found, _ = whole(f"leading={np.log(2)};quality_sd=0", items(), tmp_path)
    up = (1 + 4 + 12 + 32 + 80) / 31
    assert found[LEADS]["estimate"]["value"] == pytest.approx(up - (6 - up))
    assert found[UP]["estimate"]["value"] == pytest.approx(up - 3)
    assert found[DOWN]["estimate"]["value"] == pytest.approx(3 - up)
    assert found[VAGUE]["estimate"]["value"] == pytest.approx(0)
    assert RISE not in found
    assert [name for name, one in found.items() if one["main"]] == [LEADS, VAGUE]


def truth(leading, count=4000):
    """Mean difference of the expected scores of many items of the planted judge, by its formula alone."""
    logits = np.random.default_rng(7).normal(size=(count, 5)) + np.random.default_rng(8).normal(0, 0.5, (count, 5))
    step = leading * np.arange(5)
    scores = [np.exp(logits + s) @ np.arange(1, 6) / np.exp(logits + s).sum(axis=1) for s in (step, -step)]
    return (scores[0] - scores[1]).mean()


def test_a_planted_lead_is_found(tmp_path):
    found, _ = whole(f"leading=0.2;position=0.5,0,0,0,0.2;{NOISE}", items(60), tmp_path)
    one = found[LEADS]["estimate"]
    assert one["low"] < truth(0.2) < one["high"]
    assert one["low"] > 0
    assert one["test"]["p"] < 1e-6


def test_no_wording_is_found_where_only_positions_and_labels_are_planted():
    """Rated items have the same quality under every seed, so that runs of other seeds differ by the noise alone."""
    draws, wrong = 200, {}
    names = (probe.EXPLICIT, probe.UP, probe.DOWN, probe.VAGUE, probe.VAGUE_LEVELS)
    for draw in range(draws):
        data, spec = rated_items(24, seed=draw), f"position=0.8,0,0,0,0.3;label=0,0,0,0,0.5;{NOISE}"
        runs = {name: planted_run(f"{spec};seed={10 * draw + n}", data, "cyclic") for n, name in enumerate(names)}
        for name, effect in effects(runs).items():
            wrong[name] = wrong.get(name, 0) + (not effect.estimate.low <= 0 <= effect.estimate.high)
    low, high = stats.binom.ppf([0.0005, 0.9995], draws, 0.05)
    assert set(wrong) == {LEADS, VAGUE, UP, DOWN, LEVELS, RISE}
    assert all(low <= count <= high for count in wrong.values()), (wrong, low, high)


def test_vague_levels_that_tell_less_apart_have_a_rise_below_zero():
    data = rated_items(40)
    runs = {
        name: planted_run("quality_scale=1.5", data) for name in (probe.EXPLICIT, probe.UP, probe.DOWN, probe.VAGUE)
    }
    runs[probe.VAGUE_LEVELS] = planted_run("quality_scale=0.2", data)
    found = effects(runs)[RISE].estimate
    ratings = np.array([item.rating for item in data])
    explicit, other = (
        run.probs().mean(axis=1) @ run.scores for run in (runs[probe.EXPLICIT], runs[probe.VAGUE_LEVELS])
    )
    assert found.value == pytest.approx(np.polyfit(ratings, other, 1)[0] - np.polyfit(ratings, explicit, 1)[0])
    assert found.high < 0


def test_the_rubric_of_the_call_is_the_one_that_is_reworded(tmp_path):
    _, made = whole("", items(3, rubric_of(3)), tmp_path, rubric="clarity")
    assert made["reason"] == ""
    run = store.load_run(tmp_path / "rubric_anchoring" / "leading-up")
    assert run.rubric_of(run.items[0]).criterion.startswith(rubrics.load("clarity").criterion)
    assert probe.RubricAnchoring().variants(())[probe.EXPLICIT].items == ()
