"""The probe of the scale's direction: its two directions, and what it finds of planted judges."""

import numpy as np
import pytest
from planted_runs import planted_run, rubric_of, unrated_items
from scipy import stats

from logitjudge import orderings, probing
from logitjudge.core import Item, Ordering
from logitjudge.probes import scale_direction as probe
from logitjudge.run import Run

NOISE = "quality_sd=1;order_noise=0.4;item_position_sd=0.3"
TURNED = "score where the lowest number is best, minus where the highest is"
SHARE = "share of the verdict that goes by the number, whatever its line says"
NUMBER = "preference for the highest number over the lowest"
LETTERS = "score where the {} number is best, minus without numbers"


def runs(spec, count=30, levels=5):
    rubric = rubric_of(levels)
    usual = orderings.parse("balanced", rubric.scores)
    turned = tuple(map(probe.turn, usual))
    designs = {probe.HIGH: usual, probe.LOW: turned, probe.LETTERS: (*usual, *turned)}
    return {name: planted_run(spec, unrated_items(count), design, rubric) for name, design in designs.items()}


def effects(made):
    return {effect.name: effect for effect in probe.ScaleDirection().effect(made).effects}


def ends_of(values):
    """Double difference of a straight line through K numbers, by least squares."""
    rank = np.arange(len(values))
    return np.polyfit(rank, values, 1)[0] * (len(values) - 1)


def test_turning_keeps_lines_and_turns_their_numbers():
    for ordering in orderings.parse("balanced", (1, 2, 3, 4, 5)):
        turned = probe.turn(ordering)
        assert turned.shown == ordering.shown
        assert [5 - 1 - label for label in turned.labels] == list(ordering.shown)
        assert turned.option_of == (4, 3, 2, 1, 0)


def test_ends_are_the_straight_line_by_hand():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(3, 2, 4))
    logp = logits - np.logaddexp.reduce(logits, axis=2, keepdims=True)
    designs = (Ordering((0, 1, 2, 3)), Ordering((3, 2, 1, 0)))
    run = Run(logp, np.zeros(logp.shape), tuple(unrated_items(3)), designs, (1, 2, 3, 4), rubric=rubric_of(4))
    expected = [[ends_of(row) for row in item] for item in logits]
    np.testing.assert_allclose(probe.ends(run), expected, atol=1e-12)
    np.testing.assert_allclose(probe.halves(run), np.transpose(expected), atol=1e-12)


def test_a_judge_of_numbers_alone_gives_each_line_the_other_ones_score():
    """By hand: with by_label=1 the number n has the same probability in both directions, so the scores add to K + 1."""
    made = runs("by_label=1;quality_sd=1", count=20)
    high, low = (made[name].probs() @ made[name].scores for name in (probe.HIGH, probe.LOW))
    np.testing.assert_allclose(high + low, 6, atol=1e-9)
    found = effects(made)
    assert found[SHARE].estimate.value == pytest.approx(1)
    assert found[TURNED].estimate.value == pytest.approx(6 - 2 * high.mean())


def test_a_preference_for_high_numbers_is_found_and_is_no_usual_sense():
    label = (-0.4, 0, 0, 0.1, 0.6)
    found = effects(runs(f"label={','.join(map(str, label))};position=0.5,0,0,0,0.2;{NOISE};seed=2", count=60))
    one = found[NUMBER].estimate
    assert one.low < ends_of(label) < one.high
    assert found[TURNED].estimate.high < 0
    assert found[SHARE].estimate.low < 0 < found[SHARE].estimate.high
    assert found[LETTERS.format("highest")].estimate.low > 0
    assert found[LETTERS.format("lowest")].estimate.high < 0


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_the_share_by_the_number_is_found(share):
    draws, hits = 60, 0
    for seed in range(draws):
        spec = f"by_label={share};position=0.5,0,0,0,0.2;{NOISE};seed={seed}"
        found = effects(runs(spec, count=40))[SHARE].estimate
        hits += found.low < share < found.high
        assert found.low > 0
    assert hits >= stats.binom.ppf(0.0005, draws, 0.95)


@pytest.mark.parametrize("levels", [2, 3, 5])
def test_positions_and_binding_are_no_direction(levels):
    draws, wrong = 200, {}
    position = ",".join(["0.8", *["0"] * (levels - 2), "0.3"])
    for seed in range(draws):
        made = runs(f"position={position};binding=2;{NOISE};seed={seed}", 60 if levels == 2 else 20, levels)
        del made[probe.LETTERS]
        for name, effect in effects(made).items():
            wrong[name] = wrong.get(name, 0) + (not effect.estimate.low <= 0 <= effect.estimate.high)
    low, high = stats.binom.ppf([0.0005, 0.9995], draws, 0.05)
    assert set(wrong) == {TURNED, SHARE, NUMBER}
    assert all(low <= count <= high for count in wrong.values()), (wrong, low, high)


def test_the_whole_way(tmp_path):
    assert probe.ScaleDirection().variants(())[probe.HIGH].items == ()
    fields = {"instruction": "x", "response": "y", "reference": "z"}
    items = [Item(f"i{n}", fields) for n in range(12)]
    made = probe.ScaleDirection().variants(items)
    assert [len(made[name].orderings) for name in (probe.HIGH, probe.LOW, probe.LETTERS)] == [10, 10, 20]
    assert [level.option for level in made[probe.LETTERS].rubric.levels] == ["Q", "H", "M", "X", "D"]
    assert "reference" not in made[probe.LOW].items[0].fields
    found = probing.run_probe(f"planted:label=0,0,0,0,1;{NOISE}", "scale_direction", items, out=tmp_path)
    by_name = {one["name"]: one for one in found["effects"]}
    assert [one["name"] for one in found["effects"] if one["main"]] == [TURNED, SHARE]
    assert by_name[TURNED]["estimate"]["high"] < 0
    assert by_name[SHARE]["detectable"] > 0


def test_the_share_is_not_made_smaller_by_noise():
    """A quarter of a half's spread is noise, and over many judges the mean share is the planted one."""
    spec = "by_label=0.6;quality_sd=1;order_noise=1.2;seed={}"
    found = [effects(runs(spec.format(seed), count=60))[SHARE].estimate.value for seed in range(30)]
    assert np.mean(found) == pytest.approx(0.6, abs=3 * np.std(found) / np.sqrt(len(found)))
    assert np.std(found) < 0.12


def test_no_share_of_a_judge_that_tells_nothing_apart():
    made = [effects(runs(f"quality_sd=0;order_noise=0.4;seed={seed}"))[SHARE].estimate for seed in range(12)]
    assert [one.value for one in made] == [None] * 12
    assert "hardly apart" in made[0].note


def test_items_that_only_one_direction_could_read_are_left_out():
    made = runs(f"by_label=0.5;{NOISE}", count=20)
    part = {**made, probe.LOW: made[probe.LOW].select([n > 3 for n in range(20)])}
    found = effects(part)
    assert {found[name].estimate.of for name in (TURNED, SHARE, NUMBER)} == {16}
    both = {name: run.select([n > 3 for n in range(20)]) for name, run in made.items()}
    assert found[SHARE].estimate == effects(both)[SHARE].estimate


def test_orderings_whose_halves_are_uneven_give_no_share(tmp_path):
    for design, there in (("balanced", True), ("cyclic", False), ("identity", False)):
        made = probing.run_probe(
            "planted:by_label=0.4;item_position_sd=1.5", "scale_direction",
            [Item(f"i{n}", {"instruction": "a", "response": f"b{n}"}, human=(1.0 + n % 5,)) for n in range(12)],
            out=tmp_path / design, rubric="helpfulness", parameters={"design": design},
        )  # fmt: skip
        found = {one["name"]: one["estimate"] for one in made["effects"]}
        share = found["share of the verdict that goes by the number, whatever its line says"]
        assert (share["value"] is not None) == there
        assert found["preference for the highest number over the lowest"]["value"] is not None
