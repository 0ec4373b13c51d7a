"""The probe `stochastic`: exact variances of draws within orderings against those between, and what temperature 0 leaves."""

import numpy as np
import pytest
from planted_runs import run_of

import logitjudge as lj
from logitjudge import probing
from logitjudge.core import Item
from logitjudge.errors import InputError, NotObserved
from logitjudge.probes.stochastic import FLIPS, Stochastic, differs, variances

TWO = [[1, 2], [2, 1]]


def items(count=20):
    return [
        Item(f"i{n}", {"instruction": "Say it.", "response": f"It is {n}."}, human=(1 + n % 5,)) for n in range(count)
    ]


def effects(result):
    return {one.name: one for one in result.effects}


def test_a_case_worked_by_hand():
    # item 1: P(2) = 0.8, then 0.4: means 1.8, 1.4; within (0.16 + 0.24) / 2, between 0.2^2. Item 2: 0.6 twice: 0.24, 0.
    run = run_of([[[0.2, 0.8], [0.6, 0.4]], [[0.4, 0.6], [0.4, 0.6]]], TWO)
    within, between = variances(run, 1.0)
    np.testing.assert_allclose(within, [0.2, 0.24])
    np.testing.assert_allclose(between, [0.04, 0])
    np.testing.assert_allclose(variances(run, 0.0), [[0, 0], [0.25, 0]])
    np.testing.assert_allclose(differs(run), [1, 0])
    # temperature 1/2: odds are squared: 16 : 1 and 4 : 9
    q = np.array([16 / 17, 4 / 13])
    np.testing.assert_allclose(variances(run, 0.5)[0][0], (q * (1 - q)).mean())
    np.testing.assert_allclose(variances(run, 0.5)[1][0], q.var())
    found = effects(Stochastic(draws=4).effect({"items": run}))
    assert found[FLIPS].estimate.value == 0.5
    assert found["variance that is the ordering's, one draw at temperature 1"].estimate.value == pytest.approx(
        0.04 / 0.48
    )
    many = found["variance that is the ordering's, mean of 4 draws at temperature 1"].estimate.value
    assert many == pytest.approx(0.04 / (0.04 + 0.44 / 4))
    sd = found["standard deviation between orderings of the expected score, at temperature 1"].estimate.value
    assert sd == pytest.approx(0.1)


def test_a_tie_is_no_change():
    run = run_of([[[0.5, 0.5], [0.4, 0.6]], [[0.6, 0.4], [0.4, 0.6]], [[0.5, 0.5], [0.5, 0.5]]], TWO)
    np.testing.assert_allclose(differs(run), [0, 1, 0])


def test_it_is_what_sampling_shows():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(5), size=(1, 5))
    run = run_of(probs, "cyclic")
    within, between = variances(run, 1.0)
    orders = rng.integers(5, size=40_000)
    draws = np.array([rng.choice(5, size=3, p=probs[0, o]).mean() for o in orders])
    assert draws.var() == pytest.approx(between[0] + within[0] / 3, rel=0.05)


def test_temperature_0_keeps_a_planted_order_effect(tmp_path):
    made = probing.run_probe("planted:position=2,0,0,0,0", "stochastic", items(), out=tmp_path, rubric="helpfulness")
    found = {one["name"]: one["estimate"] for one in made["effects"]}
    run = lj.judge("planted:position=2,0,0,0,0", items(), rubric="helpfulness", out=tmp_path / "r")
    truth = np.mean([len(set(row)) > 1 for row in run.probs().argmax(axis=-1).tolist()])
    assert found[FLIPS]["value"] == pytest.approx(truth)
    assert found[FLIPS]["low"] > 0.5
    one, many = (
        found[f"variance that is the ordering's, {n} at temperature 1"]["value"]
        for n in ("one draw", "mean of 10 draws")
    )
    assert 0 < one < many < 1


def test_without_an_order_effect_it_is_0_whatever_else_is_planted():
    run = lj.judge(
        "planted:label=1,0,0,0,-1;length=0.1;quality_scale=0.5", items(200), rubric="helpfulness", orderings="cyclic"
    )
    within, between = variances(run, 1.0)
    assert within.min() > 0.1
    assert between.max() < 1e-20
    assert not differs(run).any()


def test_what_cannot_be_told():
    run = run_of([[[0.2, 0.8]], [[0.4, 0.6]]], [[1, 2]])
    with pytest.raises(NotObserved, match="one ordering"):
        Stochastic().effect({"items": run})
    run = run_of([[[0.2, 0.8], [0.4, 0.6]]], TWO, provenance={"verdict": "feedback"})
    with pytest.raises(NotObserved, match="writes first"):
        Stochastic().effect({"items": run})
    with pytest.raises(InputError, match="draws"):
        Stochastic(draws=0)


def test_a_spread_is_never_a_finding():
    made = Stochastic().effect({"items": run_of([[[0.2, 0.8], [0.6, 0.4]], [[0.4, 0.6], [0.3, 0.7]]], TWO)})
    assert not any(one.signed for one in made.effects)
