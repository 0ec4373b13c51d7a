"""length_controlled: the regression, win rates at equal length, false positives, systems."""

from dataclasses import replace

import numpy as np
import pytest
from planted_pairs import run_of_probs
from scipy import stats
from scipy.special import expit

import logitjudge as lj
from logitjudge import cli, probing
from logitjudge.core import Item
from logitjudge.errors import NotObserved
from logitjudge.measures.pairs import pairs
from logitjudge.probes.length_controlled import LengthControlled

NOISE = "quality_sd=1;order_noise=0.4;item_position_sd=0.3"
PHI = "log-odds for length, for each unit of tanh(difference / sd)"


def pair(n, one, two, gold=None, **groups):
    fields = {"instruction": f"Do {n}.", "response_1": "a" * int(one), "response_2": "b" * int(two)}
    return Item(f"i{n:03d}", fields, human=None if gold is None else (float(gold),), groups=groups)


def items(count=60, lead=150, seed=0, gold=False):
    """Response 1 is longer by `lead` in the mean."""
    rng = np.random.default_rng(seed)
    short = rng.integers(400, 800, count)
    longer = short + lead + rng.normal(0, 150, count)
    return [
        pair(n, max(50, longer[n]), short[n], rng.integers(0, 3) if gold else None, model_1="new", model_2="base")
        for n in range(count)
    ]


def run_of_logits(logit, given):
    """A run of log-odds for response 1 (I, 2)."""
    return run_of_probs(np.stack([expit(logit), expit(-np.asarray(logit))], axis=-1), given)


def effects(run, **parameters):
    return {one.name: one for one in LengthControlled(**parameters).effect({"pairs": run}).effects}


def tanh(given):
    longer = np.array([len(i.fields["response_1"]) - len(i.fields["response_2"]) for i in given], dtype=float)
    return np.tanh(longer / longer.std())


def test_without_noise_it_is_the_truth():
    given = items(30)
    logit = (0.4 + 0.9 * tanh(given))[:, None] + [0.5, -0.5]
    found = effects(run_of_logits(logit, given))
    assert found[PHI].estimate.value == pytest.approx(0.9)
    equal = expit(np.array([0.9, -0.1])).mean()
    assert found["win rate of new at equal length, minus 1/2"].estimate.value == pytest.approx(equal - 0.5)
    raw = expit(logit).mean()
    assert found["win rate of new, minus 1/2"].estimate.value == pytest.approx(raw - 0.5)
    assert found["win rate of new, minus that at equal length"].estimate.value == pytest.approx(raw - equal)
    assert [one.main for one in found.values()] == [True, True, False, False]


def test_the_slope_is_that_of_least_squares_and_what_is_left_stays():
    given = items(40, gold=True)
    rng = np.random.default_rng(1)
    logit = rng.normal(0, 1, (40, 2))
    found = effects(run_of_logits(logit, given))
    t, content = tanh(given), logit.mean(axis=1)
    phi = np.linalg.lstsq(np.column_stack([t, np.ones(40)]), content, rcond=None)[0][0]
    assert found[PHI].estimate.value == pytest.approx(phi)
    equal = expit(logit - phi * t[:, None]).mean()
    assert found["win rate of new at equal length, minus 1/2"].estimate.value == pytest.approx(equal - 0.5)
    gold = np.array([{0: 0, 1: 1, 2: -1}[int(item.rating)] for item in given])
    at_gold = np.linalg.lstsq(np.column_stack([t, gold, np.ones(40)]), content, rcond=None)[0][0]
    assert found["the same at equal gold"].estimate.value == pytest.approx(at_gold)


def test_which_response_is_number_one_changes_nothing():
    given = items(40)
    logit = np.random.default_rng(2).normal(0.3, 1, (40, 2))
    turned, signs = [], []
    for n, item in enumerate(given):
        signs.append(-1 if n % 2 else 1)
        one, two = item.fields["response_1"], item.fields["response_2"]
        fields = {**item.fields, "response_1": two, "response_2": one} if n % 2 else item.fields
        groups = {"model_1": "base", "model_2": "new"} if n % 2 else item.groups
        turned.append(Item(item.id, fields, groups=groups))
    other = logit * np.array(signs)[:, None]
    first, second = effects(run_of_logits(logit, given)), effects(run_of_logits(other, turned))
    for name, one in first.items():
        assert second[name].estimate.value == pytest.approx(one.estimate.value)
        assert second[name].estimate.low == pytest.approx(one.estimate.low)


def test_the_planted_length_is_found_and_taken_out(tmp_path):
    given = items(80)
    length = probing.run_probe(f"planted:length=2;{NOISE}", "length_controlled", given, out=tmp_path / "a")
    found = {one["name"]: one["estimate"] for one in length["effects"]}
    assert found[PHI]["low"] > 0
    assert found["win rate of new, minus that at equal length"]["low"] > 0
    none = lj.pairwise(f"planted:{NOISE}", given, out=tmp_path / "b")  # the same judge without its taste for length
    truth = expit(pairs(none).logit).mean() - 0.5
    equal = found["win rate of new at equal length, minus 1/2"]
    assert equal["low"] < truth < equal["high"]
    assert found["win rate of new, minus 1/2"]["value"] > truth + 0.03
    assert "at equal length" in length["notes"][0]


def test_a_better_system_position_and_noise_are_no_taste_for_length():
    rng = np.random.default_rng(3)
    wrong, draws = np.zeros(2, dtype=int), 240
    for seed in range(draws):
        given = items(30, seed=seed)
        slot = rng.normal(0, 1)
        logit = 1 + rng.normal(0, 1.5, (30, 1)) + [slot, -slot] + rng.normal(0, 0.4, (30, 2))
        found = effects(run_of_logits(logit, given))
        for n, name in enumerate((PHI, "win rate of new, minus that at equal length")):
            made = found[name].estimate
            wrong[n] += not made.low <= 0 <= made.high
    low, high = stats.binom.ppf([0.0005, 0.9995], draws, 0.05)
    assert (low <= wrong).all(), wrong
    assert (wrong <= high).all(), wrong


def three(count=20):
    rng = np.random.default_rng(4)
    couples = [("a", "b"), ("c", "a"), ("b", "c")]
    made = []
    for n in range(3 * count):
        one, two = couples[n % 3]
        made.append(pair(n, rng.integers(300, 900), rng.integers(300, 900), model_1=one, model_2=two))
    return made


def test_several_systems_each_have_a_win_rate():
    given = three()
    size = {"a": 1.0, "b": 0.0, "c": -0.5}
    theta = np.array([size[i.groups["model_1"]] - size[i.groups["model_2"]] for i in given])
    found = effects(run_of_logits(np.stack([theta, theta], axis=1), given))
    assert found[PHI].estimate.value == pytest.approx(0, abs=1e-9)
    best = found["win rate of a at equal length, minus 1/2"].estimate
    assert best.value == pytest.approx((expit(1.0) + expit(1.5)) / 2 - 0.5)
    assert best.of == 40
    assert "win rate of c, minus 1/2" in found
    only = effects(run_of_logits(np.stack([theta, theta], axis=1), given), model="b")
    assert [name for name in only if "minus 1/2" in name] == [
        "win rate of b, minus 1/2", "win rate of b at equal length, minus 1/2",
    ]  # fmt: skip
    with pytest.raises(NotObserved, match="no response is by 'x'. There are a, b, c"):
        effects(run_of_logits(np.stack([theta, theta], axis=1), given), model="x")


def test_what_cannot_be_used_is_said(tmp_path):
    given = [pair(0, 9, 8), pair(1, 9, 8, model_1="a", model_2="a"), Item("r", {"instruction": "X", "response": "Y"})]
    made = LengthControlled().variants(given)["pairs"]
    assert [item.id for item in made.items] == ["i000"]
    assert made.skipped == {"i001": "both responses are of one system", "r": "no pair of responses"}
    same = run_of_logits(np.zeros((4, 2)), [pair(n, 20, 10) for n in range(4)])
    with pytest.raises(NotObserved, match="does not vary"):
        effects(same)
    with pytest.raises(NotObserved, match="no item is a pair"):
        LengthControlled().effect({})
    few = effects(run_of_logits(np.zeros((2, 2)), [pair(0, 20, 10), pair(1, 10, 20)]))
    assert few[PHI].estimate.note == "no interval: 2 clusters"
    args = ["probe", "length_controlled", "--model", "planted:", "--data", "demo", "--out", str(tmp_path)]
    assert cli.main(args) == 0


def test_the_noise_floor_bounds_what_noise_can_do():
    given = items(20)
    floor = 0.05
    rng = np.random.default_rng(6)
    logit = rng.normal(0, 1, (20, 2))
    run = run_of_logits(logit, given)
    known = replace(run, provenance={"noise_floor": {"max_nats": floor, "max_score": 0.1}})
    floored = effects(known)
    for _ in range(20):
        off = effects(run_of_logits(logit + 2 * floor * rng.choice([-1, 1], (20, 2)), given))
        for name, one in floored.items():
            if one.noise is not None:
                assert abs(off[name].estimate.value - one.estimate.value) <= one.noise
