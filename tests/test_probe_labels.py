"""The probe of labels: its design, what it finds of planted judges, and what Latin squares would have found."""

import itertools

import numpy as np
import pytest
from planted_runs import planted_run, rubric_of, unrated_items
from scipy import stats

from logitjudge import probing, store
from logitjudge.core import Item, Level, Ordering, Rubric
from logitjudge.errors import NotObserved
from logitjudge.probes import _rubrics, labels
from logitjudge.probes._rubrics import changed, named, names, renamed
from logitjudge.run import Run

NOISE = "quality_sd=1;order_noise=0.4;item_position_sd=0.3"
FIRST = "share of the first position, minus 1/K, texts and labels crossed (numbers)"
LATIN = "share of the first position, minus 1/K, always labelled 1 (numbers)"
BINDING = "binding of labels to texts by rank (numbers)"


def array_run(orderings, quality, position=0.0, label=0.0, binding=0.0):
    """A judge of arrays: logits quality (I, T) + position (P,) + label (L,) + binding (T, L)."""
    items, count = quality.shape
    position, label = (np.broadcast_to(x, count) for x in (position, label))
    binding = np.broadcast_to(binding, (count, count))
    logp = np.empty((items, len(orderings), count))
    for o, ordering in enumerate(orderings):
        for p, (t, name) in enumerate(zip(ordering.shown, ordering.labels, strict=True)):
            logp[:, o, t] = quality[:, t] + position[p] + label[name] + binding[t, name]
    logp -= np.logaddexp.reduce(logp, axis=2, keepdims=True)
    rubric = rubric_of(count)
    return Run(logp, np.zeros(logp.shape), tuple(unrated_items(items)), tuple(orderings), rubric.scores, rubric=rubric)


def quality_of(items=30, count=5, seed=0):
    return np.random.default_rng(seed).normal(0, 1, (items, count))


def line(count, size):
    """(T, L) binding by rank: the double difference of its ends is `size`."""
    rank = np.arange(count) - (count - 1) / 2
    return size * np.outer(rank, rank) / (count - 1) ** 2


def effects(run):
    return {effect.name: effect for effect in labels._effects(run, "numbers")}


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 7])
def test_each_position_text_and_label_meet_exactly_once(count):
    made = labels.crossed(count)
    met = [triple for o in made for triple in zip(range(count), o.shown, o.labels, strict=True)]
    assert sorted(met) == list(itertools.product(range(count), repeat=3))


def test_cells_hold_every_reading_in_its_place():
    quality, orderings = np.zeros((2, 3)), labels.crossed(3)
    run = array_run(orderings, quality)
    values = np.arange(2 * 9 * 3, dtype=float).reshape(2, 9, 3)
    found = labels.cells(run, values)
    o = next(n for n, one in enumerate(orderings) if one.shown == (2, 0, 1) and one.labels == (1, 2, 0))
    assert found[1, 0, 2, 1] == values[1, o, 2]
    assert found[1, 2, 1, 0] == values[1, o, 1]
    for wrong in (orderings[:-1], orderings[:-1] + orderings[:1]):
        with pytest.raises(NotObserved, match="exactly once"):
            labels.cells(array_run(wrong, quality), np.zeros((2, len(wrong), 3)))


def latin(count):
    """Labels in their order, texts rotated."""
    return [Ordering(tuple((p + a) % count for p in range(count)), tuple(range(count))) for a in range(count)]


def graeco_latin(count):
    """Each (position, text), each (position, label) and each (text, label) once."""
    turns = range(count)
    return [Ordering([(p + a) % count for p in turns], [(p + 2 * a) % count for p in turns]) for a in turns]


def first_and_last(run):
    """Shares of the first and last position, minus 1/K, of any set of orderings."""
    probs, shown = run.probs(), run.shown
    share = np.stack([probs[:, np.arange(len(shown)), shown[:, p]].mean() for p in (0, -1)])
    return share - 1 / len(run.scores)


def test_latin_squares_fake_primacy_and_recency_out_of_binding_alone():
    quality, rising, bound = quality_of(), quality_of() + 0.7 * np.arange(5), line(5, 6.0)
    design = graeco_latin(5)
    for pair in (lambda o, p: (p, o.shown[p]), lambda o, p: (p, o.labels[p]), lambda o, p: (o.shown[p], o.labels[p])):
        assert len({pair(o, p) for o in design for p in range(5)}) == 25
    plain = first_and_last(array_run(latin(5), quality, binding=bound))
    assert (plain > 0.01).all()
    assert (first_and_last(array_run(design, quality, binding=bound)) > 0.05).all()
    assert first_and_last(array_run(latin(5), rising, binding=bound))[1] > 0.09
    for texts in (quality, rising):
        run = array_run(labels.crossed(5), texts, binding=bound, label=np.arange(5) / 2)
        assert np.abs(labels.positions(run)).max() < 1e-12
    found = effects(array_run(labels.crossed(5), quality, binding=bound))
    assert found[LATIN].estimate.value == pytest.approx(plain[0])
    assert found["of that, through the label and its binding (numbers)"].estimate.value == pytest.approx(plain[0])
    assert found[BINDING].estimate.value == pytest.approx(6.0)
    assert abs(found["preference for the label 1 (numbers)"].estimate.value) < 1e-12


@pytest.mark.parametrize("count", [3, 4, 5, 6])
def test_the_terms_of_a_judge_of_arrays_are_told_apart(count):
    rng = np.random.default_rng(count)
    position, label = rng.normal(0, 1, (2, count))
    run = array_run(labels.crossed(count), quality_of(4, count), position, label, line(count, 1.7))
    np.testing.assert_allclose(labels.preferences(run), np.tile(label - label.mean(), (4, 1)), atol=1e-9)
    np.testing.assert_allclose(labels.binding(run), 1.7, atol=1e-9)
    still = array_run(labels.crossed(count), quality_of(4, count), position, label)
    np.testing.assert_allclose(labels.binding(still), 0, atol=1e-9)
    no_label = array_run(labels.crossed(count), quality_of(4, count), position)
    np.testing.assert_allclose(labels.in_order(no_label), labels.positions(no_label), atol=1e-12)


def test_a_gain_from_the_own_label_moves_no_reading():
    quality = quality_of(3)
    one, other = (array_run(labels.crossed(5), quality, 0.3, binding=b * np.eye(5)) for b in (0.0, 2.0))
    np.testing.assert_allclose(one.probs(), other.probs(), atol=1e-12)


def test_two_levels_by_hand():
    """Texts alike, 1 nat for the label "1", none for a place: the label has 1 / (1 + e^-1) wherever it stands."""
    run = array_run(labels.crossed(2), np.zeros((3, 2)), label=(1.0, 0.0))
    found = effects(run)
    assert found[FIRST].estimate.value == pytest.approx(0)
    assert found[LATIN].estimate.value == pytest.approx(1 / (1 + np.exp(-1)) - 0.5)
    assert found["preference for the label 1 (numbers)"].estimate.value == pytest.approx(0.5)
    assert found["preference for the label 2 (numbers)"].estimate.value == pytest.approx(-0.5)
    assert found[BINDING].estimate.value is None
    assert "two levels" in found[BINDING].estimate.note


def truth(position, label=(0,) * 5, latin=False, items=4000):
    """Share of the first position of many items of the planted judge, by its formula alone."""
    rng = np.random.default_rng(99)
    total = 0.0
    for b in [0] * 5 if latin else [*range(5)] * 5:
        turned = np.roll(np.arange(5), -b)
        logits = rng.normal(0, 1, (items, 5)) + rng.normal(0, 0.3, (items, 5)) + rng.normal(0, 0.4, (items, 5))
        weight = np.exp(logits + np.array(position) + np.array(label)[turned])
        total += (weight[:, 0] / weight.sum(axis=1)).mean() / (5 if latin else 25)
    return total - 0.2


def test_planted_positions_and_labels_are_found():
    place, label = (0.6, 0, 0, 0, 0.2), (0.5, 0, 0, 0, -0.3)
    spec = f"position={','.join(map(str, place))};label={','.join(map(str, label))};{NOISE};seed=3"
    found = effects(planted_run(spec, unrated_items(60), labels.crossed(5)))
    for name, value in (
        (FIRST, truth(place, label)),
        (LATIN, truth(place, label, latin=True)),
        ("preference for the label 1 (numbers)", 0.5 - 0.04),
        ("preference for the label 5 (numbers)", -0.3 - 0.04),
    ):
        one = found[name].estimate
        assert one.low < value < one.high, name
        assert one.low > 0 or one.high < 0, name
    assert found[BINDING].estimate.low < 0 < found[BINDING].estimate.high


def test_a_judge_without_a_bias_has_one_in_a_twentieth_of_the_cases():
    draws, wrong = 300, {}
    for seed in range(draws):
        run = planted_run(f"{NOISE};seed={seed}", unrated_items(20), labels.crossed(4), rubric_of(4))
        for name, effect in effects(run).items():
            wrong[name] = wrong.get(name, 0) + (not effect.estimate.low <= 0 <= effect.estimate.high)
    low, high = stats.binom.ppf([0.0005, 0.9995], draws, 0.05)
    assert len(wrong) == 9
    assert all(low <= count <= high for count in wrong.values()), (wrong, low, high)


def test_a_preference_for_positions_is_none_for_labels():
    draws, wrong = 200, {}
    for seed in range(draws):
        run = planted_run(
            f"position=0.8,0,0,0.3;{NOISE};seed={seed}", unrated_items(20), labels.crossed(4), rubric_of(4)
        )
        for name, effect in effects(run).items():
            wrong[name] = wrong.get(name, 0) + (not effect.estimate.low <= 0 <= effect.estimate.high)
    low, high = stats.binom.ppf([0.0005, 0.9995], draws, 0.05)
    assert wrong.pop(FIRST) > draws / 2
    wrong = {name: count for name, count in wrong.items() if "share" not in name}
    assert len(wrong) == 6
    assert all(low <= count <= high for count in wrong.values()), (wrong, low, high)


def test_a_binding_is_no_preference_and_no_position():
    draws, wrong = 200, {}
    for seed in range(draws):
        noise = np.random.default_rng(seed).normal(0, 0.4, (20, 16, 4))
        run = array_run(labels.crossed(4), quality_of(20, 4, seed), binding=line(4, 3.0))
        run = Run(run.logp + noise - 5, run.alias_mass, run.items, run.orderings, run.scores, rubric=run.rubric)
        for name, effect in effects(run).items():
            wrong[name] = wrong.get(name, 0) + (not effect.estimate.low <= 0 <= effect.estimate.high)
    low, high = stats.binom.ppf([0.0005, 0.9995], draws, 0.05)
    assert wrong.pop(BINDING) == draws
    wrong = {name: count for name, count in wrong.items() if "always labelled" not in name and "of that" not in name}
    assert all(low <= count <= high for count in wrong.values()), (wrong, low, high)


def test_a_planted_binding_is_found_and_fakes_primacy_only_in_a_latin_square():
    made = effects(planted_run(f"binding=8;{NOISE};seed=1", unrated_items(80), labels.crossed(5)))
    found = made[BINDING].estimate
    assert found.low < 8 < found.high
    assert made[LATIN].estimate.low > 0
    assert made["of that, through the label and its binding (numbers)"].estimate.low > 0
    assert made[FIRST].estimate.low < 0 < made[FIRST].estimate.high


def test_the_rubric_of_the_whole_probe_is_the_one_that_gets_new_names(tmp_path):
    items = [Item(f"i{n}", {"instruction": "x", "response": "y"}, rubric_of(3)) for n in range(3)]
    probing.run_probe("planted:", "labels", items, out=tmp_path, rubric="accuracy")
    run = store.load_run(tmp_path / "labels" / "letters")
    rubric = run.rubric_of(run.items[0])
    assert rubric.name == "accuracy"
    assert [level.option for level in rubric.levels] == ["A", "B", "C", "D", "E"]
    assert probing.RUBRIC == _rubrics.DEFAULT


def test_a_judge_that_wants_other_answers_is_said(tmp_path):
    items = [Item(f"i{n}", {"instruction": "x", "response": "y"}) for n in range(3)]
    made = probing.run_probe("planted:mass=0.2", "labels", items, out=tmp_path)
    assert "roman: the options have only 20.0% of the probability, so their shares say little." in made["notes"]


def test_names_of_scores():
    five = (1, 2, 3, 4, 5)
    assert names("numbers", five) == ("1", "2", "3", "4", "5")
    assert names("letters", five) == ("A", "B", "C", "D", "E")
    assert names("roman", five) == ("i", "ii", "iii", "iv", "v")
    assert names("words", five) == ("one", "two", "three", "four", "five")
    assert names("unordered", five) == ("Q", "H", "M", "X", "D")
    assert names("roman", (0, 1)) is None
    assert names("unordered", tuple(range(13))) is None
    assert names("words", (0, 10)) == ("zero", "ten")
    assert renamed(rubric_of(2), ("x", "y")).levels == (Level(1, "level 1", "x"), Level(2, "level 2", "y"))


def test_a_reference_goes_and_own_rubrics_stay():
    fields = {"instruction": "x", "response": "y", "reference": "z"}
    items = [Item("a", fields, rubric_of(3)), Item("b", fields, Rubric("s", "Else?", rubric_of(3).levels))]
    made = changed(items, lambda rubric: rubric)
    assert made.rubric is None
    assert [item.rubric for item in made.items] == [item.rubric for item in items]
    assert set(made.items[0].fields) == {"instruction", "response"}
    (zero,) = named([Item("z", fields, rubric_of(3, first=0))], "roman").skipped.values()
    assert "roman" in zero


def test_the_variants_and_the_whole_way(tmp_path):
    assert labels.Labels().variants(())["numbers"].items == ()
    items = [Item(f"i{n}", {"instruction": "x", "response": "y"}) for n in range(5)]
    made = labels.Labels().variants(items)
    assert list(made) == ["crossed numbers", "crossed unordered", "numbers", "letters", "roman", "words"]
    assert [level.option for level in made["roman"].rubric.levels] == ["i", "ii", "iii", "iv", "v"]
    assert len(made["crossed unordered"].orderings) == 25
    found = probing.run_probe(f"planted:label=0.5,0,0,0,0;{NOISE}", "labels", items, out=tmp_path)
    shown = {one["name"]: one for one in found["effects"] if one["main"]}
    assert list(shown)[0] == FIRST
    assert shown["preference for the label 1 (numbers)"]["estimate"]["value"] == pytest.approx(0.4, abs=0.2)
    assert shown["score under roman, minus under numbers"]["estimate"]["value"] == 0  # the planted judge reads no names
    none = probing.run_probe("planted:", "labels", zero_items(), out=tmp_path / "zero")
    assert "roman" not in none["variants"]
    assert not any("roman" in one["name"] for one in none["effects"])


def zero_items():
    return [Item(f"i{n}", {"instruction": "x", "response": "y"}, rubric_of(3, first=0)) for n in range(4)]
