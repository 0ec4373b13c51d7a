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
    for setting in (script.Setting(40), script.Setting(40, several=True)):
        run = setting.data(4_000, np.random.default_rng(0)).run()
        np.testing.assert_allclose(lj.position_distribution(run), np.full(5, 0.2), atol=0.01)


def test_what_was_planted_is_in_the_readings(script):
    data = script.Setting(40, bias=1.0, noise=0.0).data(50, np.random.default_rng(0))
    place = np.array([o.position_of for o in data.run().orderings])
    logits = np.log(data.probs) - np.log(data.clean)[:, None] - np.array(script.BIAS)[place]
    np.testing.assert_allclose(logits, np.broadcast_to(logits.mean(axis=-1, keepdims=True), logits.shape), atol=1e-12)
    several = script.Setting(40, several=True).data(400, np.random.default_rng(0))
    assert np.bincount(several.cluster).mean() == pytest.approx(2.5, abs=0.3)
    used = script.Setting(40, top=True).data(4_000, np.random.default_rng(0)).clean.mean(axis=0)
    assert used[0] < 0.05 < 0.3 < used[3]


def test_the_additive_judge_s_truth_comes_back_to_the_last_digit(script):
    found = script.recovery(script.Setting(40, bias=1.0, noise=0.0), 0)
    assert max(found["mean_logp"], found["position_prior"]) < 1e-12
    assert found["mean_winner"] > 0.05


def test_few_draws_make_a_table_and_no_miss(script):
    text, wrong = script.table(20, [script.Setting(40), script.Setting(40, bias=1.0)])
    assert wrong == []
    rows = [line for line in text.splitlines() if line.startswith("| K = 5")]
    assert len(rows) == 2
    assert rows[1].endswith("| 100.0 (0.0) |")  # a bias of 0.8 nats is always found
    assert all(f"`{name}`" in text for name in ("mean_logp", "contextual", "cheapest"))


def test_the_band_is_that_of_the_monte_carlo(script):
    rng = np.random.default_rng(0)
    low, high = script.band((rng.random(2_000) < 0.95).astype(float))
    assert (low, high) == pytest.approx((0.95 - 3.29 * 0.00487, 0.95 + 3.29 * 0.00487), abs=0.006)
    even = rng.choice([0.8, 1.0], 2_000)  # means over five positions: their own spread
    assert script.band(even) == pytest.approx((0.9 - 3.29 * 0.1 / 2_000**0.5, 0.9 + 3.29 * 0.1 / 2_000**0.5), abs=0.006)
    assert script.band(np.ones(20))[1] == 1.0


def test_a_figure_off_its_target_is_told(script):
    setting = script.Setting(96)

    def rates(share, count=2_000):
        return (np.arange(count) < share * count).astype(float)

    assert script.missed(setting, "one position", rates(0.95)) == []
    (line,) = script.missed(setting, "one position", rates(0.85))
    assert "one position 0.850" in line
    assert script.missed(setting, "rejected", rates(0.05)) == []
    assert script.missed(setting, "rejected", rates(0.2))
    assert script.missed(script.Setting(96, bias=1.0), "rejected", rates(1.0)) == []
    assert script.missed(setting, "one cell", rates(0.89))  # 92 % from 96 clusters on
    assert script.missed(script.Setting(40), "one cell", rates(0.89)) == []  # 90 % from 40, and the band reaches it
    assert script.missed(script.Setting(10), "one cell", rates(0.5)) == []
    assert script.missed(setting, "cost", np.full(20, np.nan)) == []


def test_the_exit_code_is_1_where_a_target_is_missed(script, monkeypatch, tmp_path):
    page = tmp_path / "README.md"
    page.write_text(f"before\n{script.BEGIN}\nold\n{script.END}\nafter\n", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["validate", "--write", str(page)])
    monkeypatch.setattr(script, "table", lambda draws: (f"{draws} draws", []))
    assert script.main() == 0
    assert page.read_text(encoding="utf-8") == f"before\n{script.BEGIN}\n2000 draws\n{script.END}\nafter\n"
    monkeypatch.setattr(script, "table", lambda draws: ("", ["something"]))
    assert script.main() == 1
