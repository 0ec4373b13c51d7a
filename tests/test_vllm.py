"""The backend vllm: what it asks for and makes of the answers, with an engine that is played; and the real one."""

import builtins
import json
import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tiny_models

import logitjudge as lj
from logitjudge import models, tokens
from logitjudge.backends import Query, _harvest, vllm as backend
from logitjudge.backends.hf.tokenizer import HFTokenizer
from logitjudge.backends.vllm import MOST_IDS, Request, Some, firsts, requests
from logitjudge.core import Item, Level, Message, Ordering, Prompt, Rubric
from logitjudge.errors import ModelError
from logitjudge.tokens import Resolved

SMOLLM2 = Path("~/.cache/logitjudge/models/smollm2-135m").expanduser()
FIELDS = ("max_tokens", "temperature", "logprobs", *backend.FIELDS)


def query(context, tails, aliases=None, item="a"):
    levels = tuple(Level(k, f"text {k}") for k in range(len(tails)))
    resolved = Resolved("", tuple(context), tuple(tails), tuple(aliases or ((),) * len(tails)))
    shown = Ordering(tuple(range(len(tails))))
    prompt = Prompt((), "", tuple(level.option for level in levels))
    return Query(Item(item, {}), Rubric("r", "r", levels), shown, prompt, resolved)


def asked(*queries):
    return requests(queries, [tokens.nodes(each.tokens.tails) for each in queries])


# --- what is asked for ----------------------------------------------------------------------------------------------


def test_one_request_a_place_with_aliases_in_the_first():
    one = query([1, 2], [(5,), (6,)], [(8,), (9,)])
    two = query([1, 3], [(5,), (5, 7), (5, 8)], [(), (), ()], item="b")
    assert asked(one, two) == [
        Request(0, (), (1, 2), (5, 6, 8, 9)),
        Request(1, (), (1, 3), (5,)),
        Request(1, (5,), (1, 3, 5), (7, 8)),
    ]


def test_more_tokens_than_a_request_takes_go_into_further_ones():
    made = asked(query([1], [(token,) for token in range(10, 310)]))
    assert [len(each.wanted) for each in made] == [MOST_IDS, MOST_IDS, 300 - 2 * MOST_IDS]
    assert {(each.number, each.path, each.ids) for each in made} == {(0, (), (1,))}
    assert [token for each in made for token in each.wanted] == list(range(10, 310))


def test_the_first_prompt_of_every_item_is_sampled():
    assert firsts([query([1], [(5,), (6,)], item=item) for item in "aabbbc"]) == [0, 2, 5]


# --- what the answers mean ------------------------------------------------------------------------------------------


def test_the_rest_is_what_the_sum_leaves_and_no_less_than_what_is_seen():
    seen = Some({1: math.log(0.5), 2: math.log(0.3), 3: math.log(1e-3)}, best=(1,))
    assert math.exp(seen.rest([1, 2])) == pytest.approx(0.2)
    sure = Some({1: math.log1p(-1e-9), 2: math.log(4e-7)})
    assert math.exp(sure.rest([1])) == pytest.approx(4e-7)
    assert Some({1: 1e-7}).rest([1]) == math.log(backend.SMALLEST)
    assert seen.top(10) == [(1, math.log(0.5))]


class Fake:
    """A vllm whose next token has known probabilities at every place: module, LLM and SamplingParams in one."""

    __version__ = "0.0"
    platforms = SimpleNamespace(current_platform=SimpleNamespace(device_type="cpu"))

    def __init__(self, probs, off=0.0):
        self.probs, self.off = probs, off
        self.calls = []
        self.llm_engine = SimpleNamespace(
            model_config=SimpleNamespace(max_model_len=64, dtype="torch.float32", head_dtype="torch.float32")
        )
        self.SamplingParams = SimpleNamespace

    def generate(self, prompts, params, use_tqdm):
        self.calls.append([(tuple(each["prompt_token_ids"]), how) for each, how in zip(prompts, params, strict=True)])
        return [self._output(*call) for call in self.calls[-1]]

    def _output(self, ids, how):
        probs = self.probs(ids)
        ranked = sorted(probs, key=lambda token: -probs[token])
        top = ranked[: getattr(how, "logprobs", 1)]
        shift = self.off if how.skip_reading_prefix_cache else 0.0
        entries = {
            token: SimpleNamespace(logprob=math.log(probs[token]) + shift)
            for token in [*getattr(how, "logprob_token_ids", []), *top]
        }
        said = SimpleNamespace(token_ids=[ranked[0]], logprobs=[entries])
        return SimpleNamespace(outputs=[said], num_cached_tokens=0 if how.skip_reading_prefix_cache else len(ids) // 2)


def judge_of(fake):
    settings = {"hf_overrides": {"head_dtype": "float32"}}
    return backend.VLLMJudge(fake, HFTokenizer(tiny_models.tokenizer()), settings, fake)


def some(context):
    """14 tokens: 5 has 0.4, 6 has 0.3, and so on; behind 5, 7 has 0.25."""
    if context[-1] == 5:
        return {7: 0.25, 8: 0.65, 9: 0.1}
    return {5: 0.4, 6: 0.3, 8: 0.15, 9: 0.05, **dict.fromkeys(range(10, 20), 0.01)}


def test_events_aliases_and_top_tokens():
    """5 is "1" and 5, 7 is "10": what stands behind 5 decides which one it is."""
    made = judge_of(Fake(some)).read([query([1], [(5,), (5, 7), (6,)], [(), (), (9, 19)])], 0)
    np.testing.assert_allclose(np.exp(made.logp), [[0.4 * 0.75, 0.4 * 0.25, 0.3]])
    np.testing.assert_allclose(made.alias_mass, [[0, 0, 0.06]])
    assert [token.id for token in made.top_tokens[0]][:2] == [8, 9]
    assert len(made.top_tokens[0]) == _harvest.TOP


def test_an_unsampled_prompt_tells_its_greedy_token_only():
    queries = [query([n], [(8,), (9,)], [(11,), ()]) for n in (1, 2)]
    first, second = judge_of(Fake(some)).read(queries, 0).top_tokens
    assert [token.id for token in first][:2] == [5, 6]
    assert [token.id for token in second] == [5]
    assert second[0].logp == pytest.approx(math.log(0.4))


def test_hundreds_of_options_are_read():
    fake = Fake(lambda context: {token: 1 / 400 for token in range(10, 410)})
    made = judge_of(fake).read([query([1], [(token,) for token in range(10, 310)])], 0)
    np.testing.assert_allclose(np.exp(made.logp), np.full((1, 300), 1 / 400))
    assert [len(call) for call in fake.calls] == [3, 1]


def test_requests_are_greedy_cached_and_of_one_token():
    fake = Fake(some)
    judge = judge_of(fake)
    judge.read([query([1], [(5,), (6,)])], 0)
    judge.read_plain([query([1], [(5,), (6,)])])
    (((_, cached),), ((_, top),), ((_, fresh),)) = fake.calls
    assert (cached.max_tokens, cached.temperature, cached.logprob_token_ids) == (1, 0.0, [5, 6])
    assert (top.logprobs, hasattr(top, "logprob_token_ids")) == (backend.TOP, False)
    assert [each.skip_reading_prefix_cache for each in (cached, top, fresh)] == [False, False, True]


def test_the_longest_prompts_are_read_fresh_before_a_run():
    queries = [query([n, n + 1], [(5,), (6,)]) for n in range(20, 32)]
    judge = judge_of(Fake(some, off=2e-4))
    judge.prepare(queries, queries[:1])
    assert judge.proof["ok"]
    assert judge.proof["nats"] == pytest.approx(2e-4)
    assert judge.served.rates() == {"hit_rate": None, "prompts_per_second": None}
    with pytest.raises(ModelError, match=r"0.01 nats apart.*at most 0.001"):
        judge_of(Fake(some, off=0.01)).prepare(queries, queries[:1])


def test_what_was_served_is_counted():
    judge = judge_of(Fake(some))
    judge.read([query([1, 2, 3, 4], [(5,), (6,)])] * 3, 0)
    judge.read_plain([query([1, 2, 3, 4], [(5,), (6,)])])
    assert (judge.served.prompts, judge.served.tokens, judge.served.cached) == (3, 16, 8)
    known = judge.provenance()
    assert known["hit_rate"] == 0.5
    assert known["prompts_per_second"] > 0
    assert (known["path"], known["dtype"], known["head"]) == ("vllm", "float32", "float32")


def test_out_of_memory_says_what_to_do():
    fake = Fake(some)
    fake.generate = lambda *_, **__: (_ for _ in ()).throw(backend.torch.OutOfMemoryError("CUDA out of memory."))
    with pytest.raises(ModelError, match=r"CUDA out of memory\. Leave it more: .*gpu_memory_utilization"):
        judge_of(fake).read([query([1], [(5,), (6,)])], 0)
    fake.generate = lambda *_, **__: (_ for _ in ()).throw(RuntimeError("engine died"))
    with pytest.raises(RuntimeError, match="engine died"):
        judge_of(fake).read([query([1], [(5,), (6,)])], 0)


# --- what is wrong before it starts ---------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path_factory):
    return tiny_models.save(tmp_path_factory.mktemp("judge") / "llama")


@pytest.fixture
def package(monkeypatch):
    """A package vllm that is played."""
    made = SimpleNamespace(
        __version__="9.9",
        platforms=SimpleNamespace(current_platform=SimpleNamespace(device_type="cpu")),
        SamplingParams=SimpleNamespace(__struct_fields__=FIELDS),
        LLM=lambda name, **options: SimpleNamespace(name=name, options=options),
    )
    monkeypatch.setitem(sys.modules, "vllm", made)
    for name in (
        "LOGGING_LEVEL",
        "LOGGING_STREAM",
        "ENABLE_V1_MULTIPROCESSING",
        "CPU_KVCACHE_SPACE",
        "CPU_OMP_THREADS_BIND",
    ):
        monkeypatch.setenv(f"VLLM_{name}", "1")  # so that what is set by `check` is taken back
    return made


def open_(model, **options):
    return backend.open(models.parse(model, "vllm", **options))


def test_the_engine_gets_what_the_user_says_and_what_readings_need(folder, package):
    kwargs = {"tensor_parallel_size": 2, "gpu_memory_utilization": 0.5, "max_model_len": 99, "quantization": "fp8"}
    judge = open_(folder, dtype="float32", model_kwargs={**kwargs, "hf_overrides": {"rope_theta": 1.0}})
    options = judge.llm.options
    assert judge.llm.name == str(folder.resolve())
    assert {name: options[name] for name in kwargs} == kwargs
    assert options["dtype"] == "float32"
    assert options["hf_overrides"] == {"head_dtype": "float32", "rope_theta": 1.0}
    assert (options["logprobs_mode"], options["enable_prefix_caching"]) == ("raw_logprobs", True)


def test_vllm_that_is_not_there_is_told_with_the_script(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(ModelError, match=r"bash scripts/install_vllm.sh"):
        open_(folder)


def test_an_old_vllm_is_told_with_the_version_that_is_needed(folder, package):
    package.SamplingParams.__struct_fields__ = ("max_tokens",)
    with pytest.raises(ModelError, match=r"vLLM 9.9 .*no logprob_token_ids.* 0.32 or newer"):
        open_(folder)


def test_what_it_cannot_read_is_refused(folder, package, tmp_path):
    (tmp_path / "judge.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelError, match="hub ids and model folders"):
        open_(tmp_path / "judge.gguf")
    with pytest.raises(ModelError, match="adapters are read by --backend hf"):
        open_(folder, adapter="some/adapter")
    with pytest.raises(ModelError, match="runs on cpu, not on cuda:1"):
        open_(folder, device="cuda:1")
    with pytest.raises(ModelError, match="'logprobs_mode' is what makes readings right"):
        open_(folder, model_kwargs={"logprobs_mode": "processed_logprobs"})
    with pytest.raises(ModelError, match="cannot be read by the backend 'vllm'"):
        open_("planted:seed=1")


def test_an_engine_that_does_not_start_says_why_and_what_to_try(folder, package):
    package.LLM = lambda *_, **__: (_ for _ in ()).throw(ValueError("KV cache is too small.\nAnd more"))
    with pytest.raises(ModelError, match=r"ValueError: KV cache is too small\. Give it other --model-kwargs"):
        open_(folder)


def test_its_tokenizer_opens_without_vllm(folder, monkeypatch):
    real = builtins.__import__

    def refuse(name, *rest, **named):
        assert name != "vllm"
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert models.open_tokenizer(models.parse(folder, "vllm")).has_chat


# --- the real engine ------------------------------------------------------------------------------------------------

OTHERS_WARN = pytest.mark.filterwarnings("ignore")  # vLLM and what it brings have deprecations of their own
RUBRIC = Rubric("ten", "Is it true?", tuple(Level(k, f"text {'abcdefghij'[k - 1]}") for k in range(1, 11)))


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    return tiny_models.save(tmp_path_factory.mktemp("wide") / "judge", "llama-wide")


@pytest.fixture(scope="module")
def engine(wide):
    """One engine for all tests of the tiny judge: it takes long to start."""
    spec = models.parse(wide, "vllm", dtype="float32", device="auto", model_kwargs={"max_model_len": 4096})
    return models.open_backend(spec)


@pytest.fixture(scope="module")
def truth(wide):
    return models.open_backend(models.parse(wide, "hf", dtype="float32", device="cpu"))


def ten_options(judge, count=3):
    """Prompts with the options "1" to "10", which are bytes to this tokenizer: "10" is "1" and "0"."""
    made = []
    for n, item in enumerate(tiny_models.items(count, RUBRIC)):
        prompt = Prompt((Message("user", "Say it. " * 30 + "so " * n),), "", tuple(v.option for v in RUBRIC.levels))
        text = judge.tokenizer.render(prompt.messages, prompt.prefill)
        resolved = tokens.resolve(judge.tokenizer, text, prompt.options)
        made.append(Query(item, RUBRIC, Ordering(tuple(range(10))), prompt, resolved))
    return made


@pytest.mark.vllm
@OTHERS_WARN
def test_options_of_several_tokens_are_read_as_by_transformers(engine, truth):
    queries = ten_options(truth)
    assert {len(tail) for tail in queries[0].tokens.tails} == {1, 2}
    expected, found, fresh = truth.read(queries, 4096), engine.read(queries, 4096), engine.read_plain(queries)
    np.testing.assert_allclose(found.logp, expected.logp, atol=1e-3)
    np.testing.assert_allclose(fresh.logp, expected.logp, atol=1e-3)
    np.testing.assert_allclose(found.alias_mass, expected.alias_mass, atol=1e-3)
    for mine, theirs in zip(found.top_tokens, expected.top_tokens, strict=True):
        assert [token.id for token in mine] == [token.id for token in theirs]
        np.testing.assert_allclose([t.logp for t in mine], [t.logp for t in theirs], atol=1e-3)


@pytest.mark.vllm
@OTHERS_WARN
def test_more_tokens_than_a_request_takes_are_read_as_by_transformers(engine, truth):
    one = ten_options(truth, 1)[0].tokens
    wide = query(one.context, [(token,) for token in range(7, 240)])
    np.testing.assert_allclose(engine.read([wide], 0).logp, truth.read([wide], 4096).logp, atol=1e-3)


@pytest.mark.vllm
@OTHERS_WARN
def test_texts_are_those_of_transformers_or_drawn_by_their_seeds(engine, truth):
    contexts = [query.tokens.context for query in ten_options(truth)]
    assert engine.generate(contexts, "[RESULT]", 12) == truth.generate(contexts, "[RESULT]", 12)
    seeds = list(range(len(contexts)))
    drawn = engine.generate(contexts, "", 12, 1.0, seeds)
    assert engine.generate(contexts[:1], "", 12, 1.0, seeds[:1]) == drawn[:1]
    assert engine.generate(contexts[:1], "", 12, 1.0, [7]) != drawn[:1]


@pytest.mark.vllm
@OTHERS_WARN
def test_a_run_with_vllm_and_one_resumed(engine, wide, tmp_path, monkeypatch, capfd):
    """The readings are those of hf; what was killed goes on; hit rate and pace are in run.json and on stderr."""
    monkeypatch.setattr(models, "open_backend", lambda spec: engine)
    options = {"orderings": "balanced", "dtype": "float32", "backend": "vllm", "max_batch_tokens": 3000}
    lines = []
    run = lj.judge(
        str(wide), tiny_models.items(4), out=tmp_path / "a", progress=lambda p: lines.append(p.message), **options
    )
    head = json.loads((tmp_path / "a/run.json").read_text())
    session = head["sessions"][-1]
    assert session["hit_rate"] > 0.2
    assert session["prompts_per_second"] > 0
    assert (session["path"], session["proof"]["ok"], session["dtype"]) == ("vllm", True, "float32")
    assert any("were found in the cache" in line for line in lines)
    assert len(head["batches"]) > 1

    class Killed(BaseException):
        pass

    read, calls = engine.read, []

    def killed(queries, budget):
        calls.append(1)
        if len(calls) > 2:
            raise Killed
        return read(queries, budget)

    class Dying:
        def __getattr__(self, name):
            return killed if name == "read" else getattr(engine, name)

    monkeypatch.setattr(models, "open_backend", lambda spec: Dying())
    with pytest.raises(Killed):
        lj.judge(str(wide), tiny_models.items(4), out=tmp_path / "b", **options)
    assert list((tmp_path / "b/readings").glob("part-*"))
    monkeypatch.setattr(models, "open_backend", lambda spec: engine)
    again = lj.judge(str(wide), tiny_models.items(4), out=tmp_path / "b", **options)
    np.testing.assert_allclose(again.logp, run.logp, atol=1e-4)
    assert len(json.loads((tmp_path / "b/run.json").read_text())["sessions"]) == 2
    monkeypatch.undo()
    same = lj.judge(str(wide), tiny_models.items(4), dtype="float32", device="cpu")
    np.testing.assert_allclose(run.logp, same.logp, atol=1e-3)
    assert capfd.readouterr().out == ""


@pytest.mark.vllm
@OTHERS_WARN
def test_doctor_looks_at_it(engine, truth, wide, monkeypatch):
    from logitjudge.doctor import diagnose

    monkeypatch.setattr(models, "open_backend", lambda spec: engine)
    found = diagnose(str(wide), tiny_models.items(3), backend="vllm", dtype="float32")
    checks = {check.name: check for check in found.checks}
    assert checks["reading"].status == "ok"
    assert checks["engine"].status == "ok"
    assert "path vllm" in checks["engine"].text
    assert checks["bos"].values["count"] == 1


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory):
    """A folder of SmolLM2: the one that is here, else made of the embedded judge."""
    if (SMOLLM2 / "config.json").exists():
        return SMOLLM2
    made, folder = models.open_backend(models.parse("embedded")), tmp_path_factory.mktemp("smollm2")
    made.model.save_pretrained(folder)
    made.tokenizer._tokenizer.save_pretrained(folder)
    return folder


def command(*words):
    return subprocess.run([sys.executable, "-m", "logitjudge", *words], capture_output=True, text=True, check=False)


@pytest.mark.vllm
@OTHERS_WARN
def test_the_command_reads_smollm2_as_hf_does(smollm2, tmp_path):
    words = ["--data=demo", "--limit=2", "--orderings=1,2,3,4,5;5,4,3,2,1;3,4,5,1,2", "--dtype=float32"]
    kwargs = '--model-kwargs={"max_model_len": 2048}'
    done = command("run", f"--model={smollm2}", "--backend=vllm", f"--out={tmp_path / 'v'}", kwargs, *words)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith(str(tmp_path / "v"))  # no engine talks on stdout
    assert "prompts a second" in done.stderr
    one = lj.load_run(tmp_path / "v")
    other = lj.judge(smollm2, "demo", limit=2, orderings=words[2].partition("=")[2], dtype="float32", device="cpu")
    np.testing.assert_allclose(one.logp, other.logp, atol=1e-3)
    assert one.provenance["sessions"][-1]["hit_rate"] > 0.2


@pytest.mark.vllm
@OTHERS_WARN
def test_parity_of_smollm2(smollm2):
    done = command("parity", f"--model={smollm2}", "--data=demo", "--limit=1", "--dtype=float32", "--json")
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["prompts"] == 10
    assert 0 < found["max_nats"] < 1e-3
    assert found["winners_changed"] == found["ties"]
    assert {name: engine["path"] for name, engine in found["engines"].items()}["vllm"] == "vllm"
