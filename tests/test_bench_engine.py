"""bench's workers for other packages: the plan of their requests, the protocol, and a real engine where there is one."""

import importlib.util
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny_models
import torch

SCRIPT = Path(__file__).parent.parent / "scripts" / "bench_engine.py"
PROMPTS = [
    {"context": [5, 6, 7], "tails": [[8], [9, 10], [9, 11]]},
    {"context": [5, 6], "tails": [[8], [9], [11]]},
]


@pytest.fixture(scope="module")
def worker():
    spec = importlib.util.spec_from_file_location("bench_engine", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Even:
    """An engine that gives every token the same probability, and fails on an empty request."""

    settings = {"vocabulary": 16}
    forgotten = 0

    def read(self, prompts):
        if not prompts:
            raise ValueError("no prompts")
        return [[len(tail) * -np.log(16.0) for tail in prompt["tails"]] for prompt in prompts], self.tokens(12, 9)

    def reset(self):
        self.forgotten += 1

    def peak_mib(self):
        return 25.0


def test_every_place_is_read_once_and_neighbours_follow_each_other(worker):
    wanted = worker.places(PROMPTS)
    assert wanted == {(5, 6): [8, 9, 11], (5, 6, 7): [8, 9], (5, 6, 7, 9): [10, 11]}
    assert list(wanted) == sorted(wanted)


def test_a_tail_is_the_sum_along_it(worker):
    read = {(5, 6): {8: -1, 9: -2, 11: -3}, (5, 6, 7): {8: -4, 9: -5}, (5, 6, 7, 9): {10: -6, 11: -7}}
    assert worker.tails_logp(PROMPTS, read) == [[-4, -11, -12], [-1, -2, -3]]


def test_the_protocol(worker):
    engine, replies = Even(), io.StringIO()
    engine.tokens = worker.Tokens
    asked = [{"op": "warm"}, {"op": "reset"}, {"op": "read", "prompts": PROMPTS}, {"op": "read", "prompts": []}]
    worker.serve(engine, [json.dumps(each) for each in (*asked, {"op": "jump"}, {"op": "stop"}, asked[2])], replies)
    ready, warm, reset, read, failed, unknown = map(json.loads, replies.getvalue().splitlines())
    assert ready == {"ready": True, "settings": {"vocabulary": 16}}
    assert (warm, reset, engine.forgotten) == ({}, {}, 1)
    assert (read["computed_tokens"], read["hit_rate"], read["peak_mib"]) == (3, 0.75, 25.0)
    assert read["seconds"] > 0
    assert worker.peak_mib() > 10
    assert os.getpid() in worker.descendants(os.getppid())
    np.testing.assert_allclose(read["logp"], [[-2.7726, -5.5452, -5.5452], [-2.7726] * 3], atol=1e-4)
    assert failed == {"error": "ValueError: no prompts"}
    assert unknown == {"error": "ValueError: unknown request 'jump'"}


def test_an_unknown_engine_is_named():
    done = subprocess.run([sys.executable, SCRIPT, "--engine", "none"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "invalid choice: 'none'" in done.stderr


@pytest.mark.vllm
@pytest.mark.parametrize("engine", ["vllm", "vllm_server"])
def test_vllm_reads_what_transformers_says(tmp_path, engine):
    folder = tiny_models.save(tmp_path / "model", "llama-wide")
    python = os.environ.get("LOGITJUDGE_VLLM_PYTHON", SCRIPT.parent.parent / ".venv-vllm" / "bin" / "python")
    words = [python, SCRIPT, f"--engine={engine}", f"--model={folder}", "--dtype=float32", "--device=cpu"]
    prompts = [{"context": list(range(10, 60)), "tails": [[70], [71, 72], [71, 73]]}, PROMPTS[1]]
    asked = "".join(
        json.dumps(each) + "\n" for each in ({"op": "read", "prompts": prompts}, {"op": "reset"}, {"op": "stop"})
    )
    done = subprocess.run(words, input=asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    _, reply, reset = map(json.loads, done.stdout.splitlines())
    assert reset == {}
    assert reply["computed_tokens"] > 0
    assert reply["peak_mib"] > 100
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    for prompt, found in zip(prompts, reply["logp"], strict=True):
        for tail, value in zip(prompt["tails"], found, strict=True):
            with torch.inference_mode():
                logp = model(torch.tensor([prompt["context"] + tail])).logits[0].log_softmax(-1)
            places = range(len(prompt["context"]) - 1, len(prompt["context"]) - 1 + len(tail))
            assert value == pytest.approx(float(logp[list(places), tail].sum()), abs=1e-3)
