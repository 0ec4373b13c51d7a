"""Verdict modes that write first: where the reading is taken, what is stored, what becomes of a text without its end."""

import numpy as np
import pytest
import tiny_models
import torch

import logitjudge as lj
from logitjudge import models, parts, store, verdicts
from logitjudge.backends import Trace
from logitjudge.backends.hf import HFJudge
from logitjudge.backends.hf.tokenizer import HFTokenizer
from logitjudge.errors import InputError, OptionError
from logitjudge.study import study
from logitjudge.verdicts import Writing

FEEDBACK = Writing("[RESULT]", lead=" ")


@pytest.fixture(scope="module")
def llama():
    return tiny_models.judge("llama")


def written(tokenizer, text, finish="marker"):
    """A trace of a text."""
    return Trace(tuple(tokenizer.pieces([text])[0]), text, finish)


def query_of(tokenizer, verdict="feedback"):
    class Backend:
        pass

    Backend.tokenizer = tokenizer
    asked = study(tiny_models.items(1), orderings="identity", verdict=verdict)
    return asked.query(Backend, asked.itemset.items[0], asked.orderings[0])


# --- the place -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "how", "given"),
    [
        ("It is fine. [RESULT]", FEEDBACK, ""),
        ("Not a [RES] 3. [RESULT]", FEEDBACK, ""),
        ("I think 5, or [RESULT] 3.</think>", Writing("</think>", given="\n\nThe score is "), "\n\nThe score is "),
    ],
)
def test_the_options_are_read_behind_the_judge_s_own_text(text, how, given):
    tokenizer = HFTokenizer(tiny_models.tokenizer())
    query = query_of(tokenizer)
    placed = verdicts.place(tokenizer, query, written(tokenizer, text), how)
    read = query.tokens.text + text + given
    assert tokenizer.decode(placed.tokens.context) == read
    assert [tokenizer.decode(tail) for tail in placed.tokens.tails] == [f"{how.lead}{k}" for k in range(1, 6)]
    assert placed.tokens.context[: len(query.tokens.context)] == query.tokens.context


def test_what_the_marker_s_last_token_brings_along_stays():
    tokenizer = HFTokenizer(tiny_models.tokenizer(("]:",)))
    ids = tokenizer.pieces(["Fine. [RESULT]:"])[0]
    placed = verdicts.place(tokenizer, query_of(tokenizer), Trace(tuple(ids), "Fine. [RESULT]:", "marker"), FEEDBACK)
    assert tokenizer.decode(placed.tokens.context).endswith("[RESULT]:")
    assert [tokenizer.decode(tail) for tail in placed.tokens.tails] == [f" {k}" for k in range(1, 6)]


def test_a_marker_that_merges_with_the_options_is_an_error():
    tokenizer = HFTokenizer(tiny_models.tokenizer(("] 1", "] 2")))
    with pytest.raises(OptionError, match="merges the marker"):
        verdicts.place(tokenizer, query_of(tokenizer), written(tokenizer, "Fine. [RESULT]"), FEEDBACK)


def test_a_text_without_its_end_is_refused_or_closed():
    tokenizer = HFTokenizer(tiny_models.tokenizer())
    endless = written(tokenizer, "It goes on", "length")
    assert verdicts.place(tokenizer, query_of(tokenizer), endless, FEEDBACK) is None
    closed = verdicts.place(tokenizer, query_of(tokenizer), endless, Writing("[RESULT]", lead=" ", unended="close"))
    assert tokenizer.decode(closed.tokens.context).endswith("It goes on\n[RESULT]")


def test_thoughts_end_as_the_chat_template_says(llama):
    tokenizer = tiny_models.tokenizer()
    tokenizer.chat_template = tiny_models.CHAT + "<think>\n"
    backend = models.open_backend(models.parse(llama[0], tokenizer=tokenizer, thinks=True))
    template = study(tiny_models.items(1), verdict="think").template
    how = verdicts.writing(template, backend, 20, "refuse")
    assert (how.marker, how.given) == ("</think>", "The score is ")
    silent = models.open_backend(models.parse(llama[0], tokenizer=tiny_models.tokenizer()))
    with pytest.raises(InputError, match="what ends this judge's thoughts"):
        verdicts.writing(template, silent, 20, "refuse")


# --- writing -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [1, 100_000])
def test_greedy_texts_are_the_model_s_own_whatever_the_batch(llama, budget):
    from logitjudge.backends.hf.generate import generate

    model, tokenizer = llama
    backend = models.open_backend(models.parse(model, tokenizer=tokenizer))
    contexts = [tuple(range(10, 10 + n)) for n in (40, 7, 23)]
    made = generate(backend.forward, backend.tokenizer, contexts, "[RESULT]", 12, budget)
    for context, trace in zip(contexts, made, strict=True):
        ids = list(context)
        for token in trace.ids:
            with torch.inference_mode():
                assert int(model(torch.tensor([ids])).logits[0, -1].argmax()) == token
            ids.append(token)
        assert (trace.finish, len(trace.ids)) == ("length", 12)


def scripted(monkeypatch, texts, finish=None):
    """Let the judge write these texts, one after the other."""
    left = iter(texts)

    def generate(self, contexts, marker, most):
        made = [next(left) for _ in contexts]
        return [
            Trace(tuple(self.tokenizer.pieces([text])[0]), text, "marker" if marker in text else "end") for text in made
        ]

    monkeypatch.setattr(HFJudge, "generate", generate)


def judge(llama, out, count=2, **options):
    return lj.judge(
        llama[0], tiny_models.items(count), tokenizer=llama[1], orderings="cyclic", device="cpu", out=out,
        verdict="feedback", max_new_tokens=30, **options,
    )  # fmt: skip


def test_a_run_reads_behind_every_text_and_keeps_the_texts(llama, tmp_path, monkeypatch):
    texts = [f"Text {n}, it says [RES] {n % 3}. [RESULT]" for n in range(10)]
    scripted(monkeypatch, texts)
    run = judge(llama, tmp_path)
    rows = list(parts.traces(tmp_path))
    assert [row["text"] for row in rows] == texts
    assert run.provenance["traces"] == {
        "end_marker": "[RESULT]", "count": 10, "ended": 10, "end": 0, "length": 0,
    }  # fmt: skip
    assert list(run.readings()["trace_id"]) == [row["trace_id"] for row in rows]
    assert run.provenance["noise_floor"]["max_nats"] < 1e-4
    tokenizer = HFTokenizer(llama[1])
    asked = study(tiny_models.items(2), orderings="cyclic", verdict="feedback")
    backend = models.open_backend(models.parse(llama[0], tokenizer=llama[1], date=run.provenance["started"]))
    for n, query in enumerate(asked.queries(backend, asked.itemset.items)):
        context = [*query.tokens.context, *tokenizer.pieces([texts[n]])[0]]
        for k in range(5):
            ids = tokenizer.pieces([f" {k + 1}"])[0]
            with torch.inference_mode():
                logp = llama[0](torch.tensor([context + ids])).logits[0].log_softmax(-1)
            expected = sum(float(logp[len(context) - 1 + d, token]) for d, token in enumerate(ids))
            assert run.logp[n // 5, n % 5, k] == pytest.approx(expected, abs=1e-4)


def test_an_item_with_a_text_without_its_end_is_refused_in_all_its_orderings(llama, tmp_path, monkeypatch):
    texts = [f"{n} [RESULT]" for n in range(15)]
    texts[7] = "no end"
    scripted(monkeypatch, texts)
    run = judge(llama, tmp_path, 3)
    assert [item.id for item in run.items] == ["item-0", "item-2"]
    assert [(row["id"], row["reason"]) for row in run.refused] == [
        ("item-1", "1 of 5 texts of the judge have no '[RESULT]'")
    ]
    assert run.provenance["traces"]["end"] == 1
    assert run.provenance["readings"] == 10


def test_closed_by_force_it_is_read_and_counted(llama, tmp_path, monkeypatch):
    scripted(monkeypatch, ["no end"] + [f"{n} [RESULT]" for n in range(9)])
    run = judge(llama, tmp_path, unended="close")
    assert (len(run.items), len(run.refused)) == (2, 0)
    assert run.provenance["traces"]["ended"] == 9


def test_a_resumed_run_writes_no_text_twice(llama, tmp_path, monkeypatch):
    texts = [f"Text {n} [RESULT]" for n in range(15)]
    scripted(monkeypatch, texts)
    whole = judge(llama, tmp_path / "whole", 3, max_batch_tokens=1)
    scripted(monkeypatch, texts)
    read = HFJudge.read
    calls = []

    def stopped(self, queries, budget):
        if len(calls) == 1:
            raise KeyboardInterrupt
        calls.append(1)
        return read(self, queries, budget)

    with monkeypatch.context() as patch:
        patch.setattr(HFJudge, "read", stopped)
        with pytest.raises(KeyboardInterrupt):
            judge(llama, tmp_path / "cut", 3, max_batch_tokens=1)
    assert len(list(parts.traces(tmp_path / "cut"))) == 10  # those of the second batch were stored before it was read
    run = judge(llama, tmp_path / "cut", 3, max_batch_tokens=1)
    np.testing.assert_array_equal(run.logp, whole.logp)
    assert [row["text"] for row in parts.traces(tmp_path / "cut")] == texts


def test_another_length_of_the_text_is_another_run(llama, tmp_path, monkeypatch):
    scripted(monkeypatch, [f"{n} [RESULT]" for n in range(10)])
    judge(llama, tmp_path)
    with pytest.raises(InputError, match="another setting 'writing'"):
        lj.judge(
            llama[0], tiny_models.items(2), tokenizer=llama[1], orderings="cyclic", device="cpu", out=tmp_path,
            verdict="feedback", max_new_tokens=31,
        )  # fmt: skip


def test_a_planted_judge_cannot_write(tmp_path):
    with pytest.raises(InputError, match="cannot write"):
        lj.judge("planted:position=1,0,0,0,0", "demo", verdict="feedback", out=tmp_path / "run")
    assert store.header(tmp_path / "run") is None
