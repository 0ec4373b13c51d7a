"""`logitjudge bench`: a worker with fixed seconds, whose figures are checked by hand, and a real tiny judge."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tiny_models
import torch

from logitjudge import cli
from logitjudge.backends.hf import HFJudge
from logitjudge.backends.hf.tokenizer import HFTokenizer
from logitjudge.backends.hf.worker import Worker
from logitjudge.bench import children, growth
from logitjudge.bench.work import spread
from logitjudge.study import study

FAKE = Path(__file__).with_name("bench_worker.py")
ROW = {
    "engine",
    "design",
    "seconds",
    "prompts",
    "tokens",
    "unique_tokens",
    "peak_mib",
    "max_nats",
    "scaled_from",
    "settings",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_models.save(tmp_path_factory.mktemp("bench") / "llama")


@pytest.fixture
def call(capsys, folder):
    def run(*options):
        code = cli.main(["bench", "--model", str(folder), "--data", "demo", *map(str, options)])
        out, err = capsys.readouterr()
        return SimpleNamespace(code=code, out=out, err=err, json=json.loads(out) if out.startswith("{") else None)

    return run


@pytest.fixture
def fake(monkeypatch, tmp_path, call):
    """Run a bench whose workers are the fake: its result, with `log`, the requests of all workers in order."""
    monkeypatch.setattr(children, "OWN", (str(FAKE),))
    monkeypatch.setattr(children, "FOREIGN", FAKE)
    for variable, _, _ in children.ENVIRONMENTS.values():
        monkeypatch.setenv(variable, sys.executable)
    log = tmp_path / "log"
    monkeypatch.setenv("BENCH_LOG", str(log))

    def run(*options):
        log.write_text("")
        done = call(*options)
        done.log = [json.loads(line) for line in log.read_text().splitlines()]
        return done

    return run


def by_engine(done):
    return {row["engine"]: row for row in done.json["rows"]}


def reads(done, path):
    """The prompts of every measured read of an own engine."""
    found = [r["prompts"] for r in done.log if r["op"] == "read" and r.get("path", r["engine"]) == path]
    return [prompts for prompts in found if len(prompts) > 2]


def test_json_has_the_keys_of_the_contract(fake):
    done = fake("--designs", "balanced,full", "--repeats", 1, "--json")
    assert done.code == 0, done.err
    assert {"rows", "token_ratio", "efficiency"} <= set(done.json)
    assert set(done.json["token_ratio"]) == set(done.json["efficiency"]) == {"balanced", "full"}
    assert all(set(row) >= ROW for row in done.json["rows"])
    engines = ["plain", "shared", "packed", "lm_eval", "vllm"]  # all that are installed
    assert [(row["engine"], row["design"]) for row in done.json["rows"]] == [
        (engine, design) for design in ("balanced", "full") for engine in engines
    ]
    assert [row["prompts"] for row in done.json["rows"]] == [10] * 5 + [120] * 5


def test_medians_token_ratio_and_efficiency_by_hand(fake):
    done = fake("--engines", "plain,packed", "--designs", "balanced", "--json")
    prompts = reads(done, "packed")[0]
    contexts = [tuple(prompt["context"]) for prompt in prompts]
    written = sum(len(prompt["context"]) + max(map(len, prompt["tails"])) for prompt in prompts)
    unique = len({context[: n + 1] for context in contexts for n in range(len(context))})  # tails of one token: not fed
    rows = by_engine(done)
    assert rows["packed"]["seconds"] == 3  # of 2, 9, 3
    assert rows["packed"]["rounds"] == [2, 9, 3]
    assert rows["plain"]["seconds"] == 5
    assert (rows["packed"]["tokens"], rows["packed"]["unique_tokens"]) == (written, unique)
    assert done.json["token_ratio"]["balanced"] == pytest.approx(written / unique)
    assert done.json["efficiency"]["balanced"] == pytest.approx((unique / 3) / (1024 / 0.5))  # 0.25, 0.75, 0.5


def test_without_packed_there_is_no_efficiency(fake):
    assert fake("--engines", "plain", "--designs", "balanced", "--json").json["efficiency"] == {"balanced": None}


def test_rounds_are_interleaved_and_rotate(fake):
    done = fake("--engines", "plain,packed,vllm", "--designs", "balanced", "--json")
    asked = [(r["op"], r.get("path", r["engine"]), len(r.get("prompts", ()))) for r in done.log]
    start = next(n for n, request in enumerate(asked) if request[0] == "reset")
    plain, packed, vllm = (
        [("reset", child, 0), ("read", name, 10), *extra]
        for child, name, extra in (
            ("own", "plain", []),
            ("own", "packed", [("prefill", "own", 0)]),
            ("vllm", "vllm", []),
        )
    )
    measured = [request for request in asked[start:] if request[0] != "stop"]
    assert measured == plain + packed + vllm + packed + vllm + plain + vllm + plain + packed
    assert ("prefill", "own", 0) in asked[:start]  # warmed up


def test_slow_engines_are_scaled_from_a_sample(fake):
    done = fake("--designs", "full", "--sample", 12, "--repeats", 1, "--json")
    rows = by_engine(done)
    assert {name: row["scaled_from"] for name, row in rows.items()} == {
        "plain": 12, "lm_eval": 12, "shared": None, "packed": None, "vllm": None,
    }  # fmt: skip
    assert rows["plain"]["seconds"] == 12 * 0.5 * 10
    assert rows["lm_eval"]["seconds"] == 12 * 1.0 * 10
    assert rows["packed"]["seconds"] == 2
    assert rows["plain"]["prompts"] == rows["packed"]["prompts"] == 120
    assert rows["plain"]["computed_tokens"] == rows["packed"]["computed_tokens"] == 1200
    everything, (some,) = reads(done, "packed")[0], reads(done, "plain")
    assert [everything.index(prompt) // 10 for prompt in some] == list(range(12))
    assert reads(done, "lm_eval") == [some] == reads(done, "alone")


def test_distances_are_of_the_same_prompts_and_from_plain_in_float32(fake):
    done = fake("--designs", "balanced,full", "--sample", 7, "--repeats", 2, "--json")
    nats = {
        row["engine"]: {r["max_nats"] for r in done.json["rows"] if r["engine"] == row["engine"]}
        for row in done.json["rows"]
    }
    assert nats == {"plain": {0}, "shared": {0.125}, "packed": {0.25}, "lm_eval": {0.5}, "vllm": {1}}
    assert {r["dtype"] for r in done.log if r.get("path") == "alone"} == {"float32"}
    assert {r["dtype"] for r in done.log if r["engine"] == "vllm"} == {
        "bfloat16"
    }  # what auto meant for the own engines


def test_prompts_of_two_designs_are_read_once_in_float32(fake):
    done = fake("--engines", "plain", "--designs", "full,balanced", "--repeats", 1, "--json")
    assert [len(prompts) for prompts in reads(done, "alone")] == [120]


def test_batches_are_those_of_a_run(fake):
    """Whole items, within the budget by what the path feeds; in the plain path that is every prompt as written."""
    done = fake("--engines", "plain,packed", "--designs", "cyclic", "--limit", 3, "--repeats", 1, "--json")
    read = {r["path"]: r for r in done.log if r["op"] == "read" and len(r["prompts"]) == 15}
    assert (read["packed"]["budget"], read["packed"]["batches"]) == (8_000, [10, 5])
    assert (read["plain"]["budget"], read["plain"]["batches"]) == (8_000, [5, 5, 5])
    assert [prompt["item"] for prompt in read["packed"]["prompts"]] == [0] * 5 + [1] * 5 + [2] * 5


def test_the_table_says_what_was_scaled(fake):
    done = fake("--engines", "plain,packed", "--designs", "balanced", "--sample", 4)
    assert done.code == 0
    first = done.out.splitlines()
    assert first[0].split() == [
        "engine",
        "design",
        "seconds",
        "prompts/s",
        "unique/s",
        "hits",
        "MiB",
        "max",
        "nats",
        "speed-up",
    ]
    assert first[2].split()[5] == "-"  # it keeps no cache from request to request
    assert first[2].split()[:3] + first[2].split()[-2:] == ["packed", "balanced", "3", "0.25", "1.67"]
    assert "plain, balanced: scaled from 4 of 10 prompts." in done.out
    assert max(map(len, first)) <= 80
    assert "balanced, round 3 of 3: plain 2 s" in done.err


@pytest.mark.parametrize("engine", ["vllm", "vllm_server", "lm_eval"])
def test_a_missing_environment_names_its_script(fake, monkeypatch, tmp_path, engine):
    variable, _, script = children.ENVIRONMENTS[engine]
    monkeypatch.setenv(variable, str(tmp_path / "python"))
    done = fake("--engines", f"plain,{engine}")
    assert (done.code, done.out, done.log) == (2, "", [])
    assert all(part in done.err for part in (f"bash {script}", str(tmp_path / "python"), variable))
    left = {"own", "lm_eval", "vllm"} - {engine.removesuffix("_server")}  # one environment has both
    assert {r["engine"] for r in fake("--designs", "balanced", "--repeats", 1).log} == left


@pytest.mark.parametrize(
    ("fault", "parts"),
    [("die", ["'vllm' died", "Killed by a test"]), ("error", ["'vllm' failed: out of cheese"]), ("print", ["'hello"])],
)
def test_a_worker_that_fails_ends_the_bench(fake, monkeypatch, fault, parts):
    monkeypatch.setenv("BENCH_VLLM", fault)
    done = fake("--engines", "plain,vllm", "--designs", "balanced")
    assert (done.code, done.out) == (1, "")
    assert all(part in done.err for part in parts)
    assert "Traceback" not in done.err


WRONG = {
    "engine": (["--engines", "plain,pakced"], ["'pakced'", "'packed'"]),
    "twice": (["--engines", "plain,plain"], ["'plain'", "twice"]),
    "design": (["--designs", "balnced"], ["'balnced'", "'balanced'"]),
    "planted": (["--model", "planted"], ["planted"]),
    "growth": (["--engines", "plain", "--growth"], ["--growth", "'packed'"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input_is_one_message(fake, name):
    options, parts = WRONG[name]
    done = fake(*options)
    assert (done.code, done.out) == (2, "")
    assert all(part in done.err.splitlines()[-1] for part in parts)


def test_a_judge_that_cannot_be_loaded_is_wrong_input(fake, monkeypatch):
    monkeypatch.setenv("BENCH_OWN", "input")
    done = fake()
    assert (done.code, done.err.splitlines()[-1]) == (2, "error: that model is no good.")


def test_an_unproven_path_is_not_timed(fake, monkeypatch):
    monkeypatch.setenv("BENCH_UNPROVEN", "1")
    done = fake("--engines", "packed", "--designs", "balanced")
    assert done.code == 2
    assert "'packed' is not proven for this judge: it leaks" in done.err


def test_growth_counts_orderings_and_levels(fake):
    done = fake("--engines", "packed", "--designs", "cyclic", "--repeats", 1, "--growth", "--json")
    points = done.json["growth"]
    assert [(p["k"], p["orderings"]) for p in points] == [
        (5, 1), (5, 5), (5, 10), (5, 30), (5, 60), (5, 120), (3, 6), (4, 24), (6, 720),
    ]  # fmt: skip
    assert all(p["prompts"] == p["orderings"] for p in points)
    assert points[0]["unique_tokens"] == points[0]["tokens"] - 1  # a single prompt; its option is not fed
    unique = [p["unique_tokens"] for p in points[:6]]
    assert unique == sorted(unique)
    assert all(set(p) == {"k", "orderings", "prompts", "tokens", "unique_tokens", "seconds"} for p in points)
    sent = {len(r["prompts"]): r["prompts"] for r in done.log if r["op"] == "read"}
    assert sent[10][:1] == sent[1]  # beginnings of one design
    assert sent[60][:30] == sent[30]
    assert len(sent[720][0]["tails"]) == 6
    assert len({str(prompt) for prompt in sent[120]}) == 120


@pytest.mark.parametrize("k", [3, 5, 6, 11])
def test_a_rubric_is_cut_or_extended(k):
    asked = study("demo", limit=1)
    made = growth.with_levels(asked, k)
    rubric = made.rubric_of(made.itemset.items[0])
    assert len(rubric.levels) == k
    assert made.scores == rubric.scores
    assert rubric.levels[: min(k, 5)] == asked.rubric_of(asked.itemset.items[0]).levels[:k]


def test_a_sample_is_spread_and_seeded():
    drawn = spread(120, 12, 5)
    assert [n // 10 for n in drawn] == list(range(12))
    assert drawn == spread(120, 12, 5) != spread(120, 12, 6)
    assert spread(3, 3, 0) == spread(3, 9, 0) == [0, 1, 2]


def test_a_real_judge_end_to_end(call):
    done = call(
        "--designs", "balanced", "--engines", "plain,shared,packed", "--repeats", 1, "--dtype", "float32", "--json"
    )
    assert done.code == 0, done.err
    rows = by_engine(done)
    assert all(row["max_nats"] <= 1e-4 for row in rows.values())
    assert all(row["seconds"] > 0 and row["peak_mib"] > 50 for row in rows.values())
    assert rows["packed"]["computed_tokens"] == rows["packed"]["unique_tokens"]
    assert rows["plain"]["computed_tokens"] == rows["plain"]["tokens"] - 10  # the options are not fed
    assert rows["packed"]["computed_tokens"] < rows["shared"]["computed_tokens"] < rows["plain"]["computed_tokens"]
    assert rows["packed"]["settings"]["proof"]["ok"]
    assert (rows["packed"]["settings"]["budget"], rows["plain"]["settings"]["budget"]) == (2048, 8192)
    assert done.json["efficiency"]["balanced"] > 0


@pytest.mark.parametrize("path", ["alone", "plain", "shared", "packed"])
def test_the_worker_reads_tails_of_several_tokens_whatever_follows(path):
    """A longer option is not taken off a shorter one: the other engines know no events."""
    model, tokens = tiny_models.judge("llama")
    worker = Worker(HFJudge(model, HFTokenizer(tokens)), 64)
    contexts, tails = [[5, 6, 7, 8], [5, 6, 9, 8, 7]], [[11], [11, 12], [13, 14, 15]]
    prompts = [{"context": context, "tails": tails, "item": 0} for context in contexts]
    reply = worker.answer({"op": "read", "path": path, "prompts": prompts, "budget": 64, "batches": [2]})
    expected = [[along(model, context, tail) for tail in tails] for context in contexts]
    np.testing.assert_allclose(reply["logp"], expected, atol=1e-4)
    assert reply["peak_mib"] > 50


def along(model, context, tail):
    with torch.inference_mode():
        logp = model(input_ids=torch.tensor([context + tail])).logits[0].double().log_softmax(-1)
    return sum(float(logp[len(context) + n - 1, token]) for n, token in enumerate(tail))


def test_the_worker_prefills_what_it_is_told(monkeypatch):
    model, tokens = tiny_models.judge("llama")
    worker = Worker(HFJudge(model, HFTokenizer(tokens)), None)
    fed = []
    model.register_forward_pre_hook(lambda _, args, inputs: fed.append(inputs["input_ids"].tolist()), with_kwargs=True)
    assert worker.answer({"op": "prefill", "tokens": 8, "ids": [5, 6, 7]})["seconds"] > 0
    assert fed == [[[5, 6, 7, 5, 6, 7, 5, 6]]]
