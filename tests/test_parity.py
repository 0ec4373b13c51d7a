"""parity: the arithmetic of the differences, and the command with engines whose readings are known."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import tiny_models

from logitjudge import models, parity as module, registry
from logitjudge.cli import main
from logitjudge.core import Readings
from logitjudge.parity import allowed, differences

EVEN = [[0.1, 0.2, 0.4], [0.3, 0.1, 0.2], [0.2, 0.201, 0.1]]
WORDS = ["parity", "--model=some/judge", "--data=demo", "--limit=2", "--orderings=1,2,3,4,5;5,4,3,2,1"]


def logp(rows):
    return np.log(np.array(rows))


def test_the_differences_of_equal_readings_are_none():
    assert differences(logp(EVEN), logp(EVEN), [1, 2, 3], 0.0) == module.Differences(3, 0.0, 0.0, 0.0, 0.0, 0, 0)


def test_largest_and_median_are_taken_over_options_and_prompts():
    shift = np.array([[0.01, 0.0, 0.02], [0.0, 0.0, -0.25], [0.0, 0.0, 0.03]])
    found = differences(logp(EVEN), logp(EVEN) + shift, [1, 2, 3], 0.1)
    assert found.max_nats == pytest.approx(0.25)
    assert found.median_nats == pytest.approx(0.0)
    assert (found.prompts, found.winners_changed, found.ties) == (3, 0, 0)


def test_expected_scores_are_among_the_options():
    """Half of all the probability gone, evenly: many nats, no difference in scores; all of it moved: one point."""
    found = differences(logp([[0.4, 0.4]]), logp([[0.2, 0.2]]), [1, 5], 0.1)
    assert found.max_nats == pytest.approx(np.log(2))
    assert found.max_score == pytest.approx(0.0)
    found = differences(logp([[0.75, 0.25]]), logp([[0.5, 0.5]]), [1, 5], 0.1)
    assert (found.max_score, found.median_score) == (pytest.approx(1.0), pytest.approx(1.0))


def test_a_changed_winner_is_a_tie_where_one_engine_has_the_two_within_the_tolerance():
    one, other = logp([[0.2, 0.201], [0.2, 0.3], [0.3, 0.2]]), logp([[0.3, 0.2], [0.3, 0.2], [0.4, 0.2]])
    found = differences(one, other, [1, 2], 0.01)
    assert (found.winners_changed, found.ties) == (2, 1)
    assert differences(other, one, [1, 2], 0.01).ties == 1
    assert differences(one, other, [1, 2], 0.001).ties == 0


def test_the_tolerance_is_fixed_in_float32_and_follows_the_noise_elsewhere():
    assert allowed("float32", {"hf": 0.5, "vllm": 0.5}) == 1e-3
    assert allowed("bfloat16", {"hf": 0.01, "vllm": 0.03}) == pytest.approx(0.12)
    assert allowed("bfloat16", {"hf": 0.0, "vllm": 0.0}) == 1e-3


class Engine:
    """Gives every prompt the same log-probabilities, the last one `off`; a second way of reading differs by `noise`."""

    max_length = None

    def __init__(self, spec, off, noise=0.0):
        self.spec, self.off, self.noise = spec, off, noise
        self.tokenizer = tiny_models_tokenizer()
        self.read_ids = []

    def provenance(self):
        return {"dtype": "bfloat16" if self.spec.dtype == "auto" else self.spec.dtype, "path": "fake"}

    def prepare(self, longest, shortest):
        assert {len(longest), len(shortest)} == {2}

    def token_budget(self):
        return 100

    def read(self, queries, budget):
        self.read_ids += [query.tokens.context for query in queries]
        return self._readings(len(queries), self.off)

    def read_plain(self, queries):
        return self._readings(len(queries), self.off + self.noise) if self.noise else None

    def _readings(self, count, off):
        rows = np.tile(np.log([0.1, 0.1, 0.1, 0.1, 0.2]), (count, 1))
        rows[:, -1] += off
        return Readings(rows, np.zeros((count, 5)), ((),) * count)


def tiny_models_tokenizer():
    from logitjudge.backends.hf.tokenizer import HFTokenizer

    return HFTokenizer(tiny_models.tokenizer())


@pytest.fixture
def engines(monkeypatch):
    """Engines by the name of their backend, as they were opened; `off` is what vLLM's last option differs by."""
    made = SimpleNamespace(off=0.0, noise=0.0, opened={}, specs={})

    def open_backend(spec):
        made.specs[spec.backend] = spec
        made.opened[spec.backend] = Engine(spec, made.off if spec.backend == "vllm" else 0.0, made.noise)
        return made.opened[spec.backend]

    monkeypatch.setattr(models, "open_backend", open_backend)
    monkeypatch.setattr(registry.load("backends", "vllm"), "check", lambda spec: None)
    return made


def run(capsys, *words):
    code = main([*WORDS, "--json", *words])
    return code, json.loads(capsys.readouterr().out)


def test_both_engines_read_the_same_token_ids(engines, capsys):
    code, found = run(capsys, "--dtype=float32", '--model-kwargs={"max_model_len": 99}')
    first, second = engines.opened["hf"], engines.opened["vllm"]
    assert code == 0
    assert len(first.read_ids) == found["prompts"] == 4
    assert first.read_ids == second.read_ids
    assert engines.specs["vllm"].model_kwargs == {"max_model_len": 99}
    assert engines.specs["hf"].model_kwargs == {}
    assert found["ok"]
    assert found["engines"]["hf"]["path"] == "fake"


def test_more_than_the_tolerance_is_exit_code_1(engines, capsys):
    engines.off = 0.01
    code, found = run(capsys, "--dtype=float32")
    assert (code, found["ok"], found["tolerance"]) == (1, False, 1e-3)
    assert found["max_nats"] == pytest.approx(0.01)
    assert run(capsys, "--dtype=float32", "--tolerance=0.02")[0] == 0


def test_the_second_engine_takes_the_first_ones_dtype_and_the_noise_makes_the_tolerance(engines, capsys):
    engines.off, engines.noise = 0.01, 0.005
    code, found = run(capsys)
    assert engines.specs["vllm"].dtype == "bfloat16"
    assert code == 0
    assert found["noise"] == pytest.approx({"hf": 0.005, "vllm": 0.005})
    assert found["tolerance"] == pytest.approx(0.02)


def test_the_table_says_what_differs_and_whether_that_is_allowed(engines, capsys):
    engines.off = -1.0
    assert main([*WORDS, "--dtype=float32"]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "some/judge in float32: 4 prompts by hf and by vllm" in out
    assert "nats, an option 1 0" in out
    assert "4 winners changed, 0 of them in a tie" in out
    assert "1 nats: more than the tolerance of 0.001." in out


def test_an_item_that_an_engine_refuses_is_named(engines, capsys, monkeypatch):
    monkeypatch.setattr(Engine, "max_length", 10)
    assert main(WORDS) == 2
    assert "cannot be read: the prompt has" in capsys.readouterr().err
