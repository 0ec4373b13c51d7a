import math
import subprocess
import sys
import time

import numpy as np
import pytest
from planted_runs import judge_of, planted_run, queries_of, rated_items, rubric_of, unrated_items

from logitjudge.backends import Query
from logitjudge.core import Item, Level, Ordering, Prompt, Rubric
from logitjudge.errors import InputError
from logitjudge.orderings import parse

EVERYTHING = (
    "position=0.8,0,0,0,0.3;quality_sd=1.5;item_position_sd=0.3;order_noise=0.5;interaction=3:0.4;label=0,0,0.1,0,0.5;"
    "first=0.1;mass=0.6;seed=7"
)


def softmax(x):
    weight = [math.exp(v - max(x)) for v in x]
    return [w / sum(weight) for w in weight]


@pytest.mark.parametrize("design", ["full", "balanced", "random:13"])
def test_position_logits_are_read_back_in_every_prompt(design):
    run = planted_run("position=0.8,0,0,0,0.3;quality_scale=0", unrated_items(4), design)
    expected = np.array(softmax([0.8, 0, 0, 0, 0.3]))
    for o, ordering in enumerate(run.orderings):
        np.testing.assert_allclose(run.probs()[:, o, list(ordering.shown)], expected[None].repeat(4, 0), atol=1e-12)


def test_quality_is_minus_half_the_squared_distance_in_steps_of_the_scale():
    rubric = Rubric("r", "c", tuple(Level(s, f"level {s}") for s in (0, 5, 20)))  # a step is 10
    item = Item("a", {}, human=(4.0, 8.0))  # rating 6
    run = planted_run("quality_scale=2", [item], "identity", rubric)
    expected = softmax([-(0.6**2), -(0.1**2), -(1.4**2)])
    np.testing.assert_allclose(run.probs()[0, 0], expected, atol=1e-12)


def test_unrated_quality_has_the_planted_deviation_and_is_one_draw_an_item():
    run = planted_run("quality_sd=1.5", unrated_items(4000), "cyclic")
    q = np.log(run.probs())
    np.testing.assert_allclose(q, q[:, :1].repeat(5, 1), atol=1e-12)
    deviations = q[:, 0] - q[:, 0].mean(axis=1, keepdims=True)
    assert np.sqrt((deviations**2).sum() / (4000 * 4)) == pytest.approx(1.5, rel=0.03)
    assert abs(np.corrcoef(q[:, 0, 0] - q[:, 0, 1], q[:, 0, 2] - q[:, 0, 3])[0, 1]) < 0.05
    assert np.abs(deviations.mean(axis=0)).max() < 0.1


def test_quality_sd_is_1_by_default_and_does_not_touch_rated_items():
    assert (planted_run("", unrated_items(3)).logp == planted_run("quality_sd=1", unrated_items(3)).logp).all()
    assert (planted_run("", rated_items(3)).logp == planted_run("quality_sd=9", rated_items(3)).logp).all()


def test_interaction_is_the_array_that_the_contract_names():
    run = planted_run("interaction=11:0.7;quality_scale=0", unrated_items(1), "full")
    table = np.random.default_rng(11).normal(0, 0.7, (5, 5))
    for o, ordering in enumerate(run.orderings):
        expected = softmax([table[k, ordering.shown.index(k)] for k in range(5)])
        np.testing.assert_allclose(run.probs()[0, o], expected, atol=1e-12)


def test_label_follows_the_option_string_and_position_the_place():
    rubric = rubric_of(3)
    prompt = Prompt((), "", ("1", "2", "3"))
    ordering = Ordering((2, 0, 1), labels=(0, 1, 2))  # score 3 is shown first, under the label "1"
    query = Query(Item("a", {}, human=(2.0,)), rubric, ordering, prompt)
    read = judge_of("label=0.5,1,2;position=0.1,0.2,0.4;quality_scale=0").read([query], 1)
    np.testing.assert_allclose(np.exp(read.logp[0]), softmax([1 + 0.2, 2 + 0.4, 0.5 + 0.1]), atol=1e-12)


def test_labels_move_with_levels_by_default():
    run = planted_run("label=0,0,0,0,0.5;quality_scale=0", unrated_items(1), "full")
    np.testing.assert_allclose(run.probs()[0], np.array(softmax([0, 0, 0, 0, 0.5]))[None].repeat(120, 0), atol=1e-12)


def test_first_is_a_mixture_with_the_score_shown_first():
    plain, mixed = (planted_run(f"{x}position=0.3,0,0,0,0", rated_items(6), "full") for x in ("", "first=0.3;"))
    taken = np.array([[k == o.shown[0] for k in range(5)] for o in plain.orderings])
    np.testing.assert_allclose(mixed.probs(), 0.7 * plain.probs() + 0.3 * taken, atol=1e-12)
    np.testing.assert_allclose(mixed.mass, 1, atol=1e-12)


def test_mass_is_the_probability_on_any_option_and_leaves_probs_alone():
    whole, part = (planted_run(f"mass={x};first=0.2", rated_items(6)) for x in (1, 0.6))
    np.testing.assert_allclose(part.mass, 0.6, atol=1e-12)
    np.testing.assert_allclose(part.probs(), whole.probs(), atol=1e-12)


def test_item_position_preferences_stay_with_the_item_and_the_place():
    run = planted_run("item_position_sd=0.8;quality_scale=0", unrated_items(3000), "cyclic")
    shown = np.log(np.take_along_axis(run.probs(), run.shown[None], axis=2))  # (I, O, P)
    np.testing.assert_allclose(shown, shown[:, :1].repeat(5, 1), atol=1e-12)
    centred = shown[:, 0] - shown[:, 0].mean(axis=1, keepdims=True)
    assert np.sqrt((centred**2).sum() / (3000 * 4)) == pytest.approx(0.8, rel=0.03)


def test_order_noise_is_drawn_anew_for_each_item_ordering_and_score():
    run = planted_run("order_noise=0.5;quality_scale=0", unrated_items(1000), "cyclic")
    logp = np.log(run.probs())
    centred = logp - logp.mean(axis=2, keepdims=True)
    assert np.sqrt((centred**2).sum() / (5000 * 4)) == pytest.approx(0.5, rel=0.03)
    assert abs(np.corrcoef(centred[:, 0, 0], centred[:, 1, 0])[0, 1]) < 0.1
    assert abs(np.corrcoef(centred[:-1, 0, 0], centred[1:, 0, 0])[0, 1]) < 0.1


def test_order_noise_tells_labels_apart():
    item, rubric, prompt = unrated_items(1)[0], rubric_of(3), Prompt((), "", ("1", "2", "3"))
    orderings = [Ordering((0, 1, 2)), Ordering((0, 1, 2), labels=(1, 0, 2))]
    read = judge_of("order_noise=1").read([Query(item, rubric, o, prompt) for o in orderings], 1)
    assert np.abs(read.logp[0] - read.logp[1]).max() > 1e-3


def test_a_constant_added_to_the_logits_changes_nothing():
    a, b = (planted_run(f"position={x}", rated_items(5)) for x in ("0.8,0,0,0,0.3", "5.8,5,5,5,5.3"))
    np.testing.assert_allclose(a.logp, b.logp, atol=1e-12)


@pytest.mark.parametrize("part", ["quality_sd=1", "item_position_sd=1", "order_noise=1"])
def test_the_seed_changes_every_random_part(part):
    one, two = (planted_run(f"{part};seed={seed}", unrated_items(3)).logp for seed in (1, 2))
    assert np.abs(one - two).max() > 1e-3


def test_readings_do_not_depend_on_the_batch():
    items, rubric = [*unrated_items(6), *(Item(f"r{n}", {}, human=(1.7 * n,)) for n in (1, 2))], rubric_of()
    judge, queries = judge_of(EVERYTHING), queries_of(items, parse("full", rubric.scores), rubric)
    together = judge.read(queries, 1)
    for size in (1, 2, 3, 7, 8, 64):
        picked = np.random.default_rng(size).permutation(len(queries))[: 10 * size]
        for start in range(0, len(picked), size):
            rows = picked[start : start + size]
            assert (judge.read([queries[r] for r in rows], 1).logp == together.logp[rows]).all()


def test_readings_do_not_depend_on_the_process():
    code = (
        "from planted_runs import *\n"
        f"print(planted_run({EVERYTHING!r}, unrated_items(2), 'identity').logp.tobytes().hex())"
    )
    prints = [
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            text=True,
            env={"PYTHONHASHSEED": str(n), "PYTHONPATH": ":".join(sys.path)},
        ).stdout.strip()
        for n in (1, 2)
    ]
    assert prints == [planted_run(EVERYTHING, unrated_items(2), "identity").logp.tobytes().hex()] * 2


def test_very_sure_judges_stay_finite():
    run = planted_run("position=5000,0,0,0,0", unrated_items(2))
    assert run.logp.min() < -4000


def test_two_hundred_forty_thousand_prompts_take_seconds():
    rubric = rubric_of()
    queries = queries_of(unrated_items(2000), parse("full", rubric.scores), rubric)
    start = time.perf_counter()
    judge_of(EVERYTHING).read(queries, 1)
    assert time.perf_counter() - start < 30


def test_no_tokenizer_no_aliases_no_tokens_and_one_way_to_read():
    judge = judge_of("seed=1")
    queries = queries_of(unrated_items(2), parse("identity", (1, 2, 3, 4, 5)), rubric_of())
    readings = judge.read(queries, judge.token_budget())
    assert judge.tokenizer is None
    assert judge.max_length is None
    assert readings.alias_mass.tolist() == [[0.0] * 5] * 2
    assert readings.top_tokens == ((), ())
    assert judge.read_plain(queries) is None


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("positon=1", "'positon'.*Did you mean 'position'.*quality_scale"),
        ("position", "position=''"),
        ("position=1,x,2", "position='1,x,2'.*Known parts: binding, .*first, formatting"),
        ("position=1,nan", "position='1,nan'"),
        ("label=", "label=''"),
        ("interaction=3", "interaction='3'.*SEED:SD"),
        ("interaction=a:1", "interaction='a:1'"),
        ("interaction=1:-1", "interaction='1:-1'"),
        ("quality_sd=-1", "quality_sd='-1'"),
        ("quality_scale=inf", "quality_scale='inf'"),
        ("item_position_sd=-0.1", "item_position_sd"),
        ("order_noise=z", "order_noise='z'"),
        ("first=1", "first='1'.*below 1"),
        ("first=-0.1", "first='-0.1'"),
        ("mass=0", "mass='0'.*above 0"),
        ("mass=1.1", "mass='1.1'"),
        ("seed=1.5", "seed='1.5'"),
        ("seed=-1", "seed='-1'"),
        ("seed=1;seed=2", "'seed' is given twice"),
    ],
)
def test_wrong_parts_are_named(spec, said):
    with pytest.raises(InputError, match=said):
        judge_of(spec)


@pytest.mark.parametrize("part", ["position", "label"])
def test_wrong_lengths_are_found_before_and_while_reading(part):
    judge = judge_of(f"{part}=1,2,3")
    queries = queries_of(unrated_items(1), parse("identity", (1, 2, 3, 4, 5)), rubric_of())
    for call in (lambda: judge.prepare(queries, queries), lambda: judge.read(queries, 1)):
        with pytest.raises(InputError, match=rf"{part}='1,2,3' has 3 number\(s\), but the rubric has 5 levels.*Known"):
            call()
