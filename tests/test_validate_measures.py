"""scripts/validate_measures.py, with few draws: its truth, its verdict, its table."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import logitjudge as lj

SCRIPT = Path(__file__).parent.parent / "scripts" / "validate_measures.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("validate_measures", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["validate_measures"] = module
    spec.loader.exec_module(module)
    return module


def test_an_unbiased_judge_has_an_even_truth(script):
    probs, _ = script.Setting(40).data(4_000, np.random.default_rng(0))
    np.testing.assert_allclose(lj.position_distribution(script.run_of(probs)), np.full(5, 0.2), atol=0.01)


def test_the_additive_judge_s_truth_comes_back_to_the_last_digit(script):
    found = script.recovery(script.Setting(40, bias=1.0), 0, items=40)
    assert max(found["mean_logp"], found["position_prior"]) < 1e-12
    assert found["mean_winner"] > 0.05


def test_few_draws_make_a_table_and_no_miss(script):
    text, wrong = script.table(20, [script.Setting(40), script.Setting(40, bias=1.0)])
    assert wrong == []
    rows = [line for line in text.splitlines() if line.startswith("| K = 5")]
    assert len(rows) == 2
    assert rows[1].endswith("| 100.0 (0.0) |")  # a bias of 0.8 nats is always found
    assert all(f"`{name}`" in text for name in ("mean_logp", "contextual", "cheapest"))


def test_a_figure_off_its_target_is_told(script):
    setting = script.Setting(96)
    assert script.missed(setting, "one position", 0.95, 2_000) == []
    (line,) = script.missed(setting, "one position", 0.85, 2_000)
    assert "one position 0.850" in line
    assert script.missed(setting, "rejected", 0.05, 2_000) == []
    assert script.missed(setting, "rejected", 0.2, 2_000)
    assert script.missed(script.Setting(96, bias=1.0), "rejected", 1.0, 2_000) == []
