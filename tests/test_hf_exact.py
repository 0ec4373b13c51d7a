"""Readings of the transformers backend against plain forwards that know nothing of our code."""

import copy
import json
import math
import subprocess
import sys

import numpy as np
import pytest
import tiny_models
import torch
from tokenizers.processors import TemplateProcessing

import logitjudge as lj
from logitjudge import models, prompts
from logitjudge.backends.hf import HFJudge
from logitjudge.backends.hf.facts import longest
from logitjudge.backends.hf.tokenizer import HFTokenizer
from logitjudge.core import Item, Level, Message, Rubric
from logitjudge.study import study

SHORT = "{{ instruction }}\n{{ response }}\n{{ criterion_line }}\n{{ levels }}\n"


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    path = tmp_path_factory.mktemp("templates") / "short.j2"
    path.write_text('---\nprefill: "The score is "\n---\n' + SHORT)
    return path


def plain_logp(model, ids):
    """(L, V) log-probabilities behind every token, by the model alone."""
    with torch.inference_mode():
        return torch.log_softmax(model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].double(), -1)


def brute_force(model, context, tails):
    """Log-probability of each option's event, by sequence probabilities and subtraction of longer options."""

    def sequence(tail):
        logp = plain_logp(model, [*context, *tail])
        return math.fsum(float(logp[len(context) - 1 + n, token]) for n, token in enumerate(tail))

    whole = {tail: math.exp(sequence(tail)) for tail in tails}
    minimal = {
        tail: [
            o
            for o in tails
            if o != tail
            and o[: len(tail)] == tail
            and not any(m not in (o, tail) and o[: len(m)] == m and m[: len(tail)] == tail for m in tails)
        ]
        for tail in tails
    }
    return [math.log(whole[tail] - sum(whole[longer] for longer in minimal[tail])) for tail in tails]


@pytest.mark.parametrize("name", sorted(tiny_models.ARCHITECTURES))
def test_every_reading_is_the_plain_forward(name, template):
    model, tokenizer = tiny_models.judge(name)
    untouched = copy.deepcopy(model)
    items = tiny_models.items()
    run = lj.judge(model, items, tokenizer=tokenizer, template=template, device="cpu")
    backend = models.open_backend(models.parse(model, tokenizer=tokenizer, date=run.provenance["started"]))
    asked = study(items, template=template)
    for i, item in enumerate(items):
        for o, ordering in enumerate(run.orderings):
            tokens = asked.query(backend, item, ordering).tokens
            logp = plain_logp(copy.deepcopy(untouched), tokens.context)[-1]  # some ropes remember
            expected = [float(logp[tail[0]]) for tail in tokens.tails]
            assert {len(tail) for tail in tokens.tails} == {1}
            np.testing.assert_allclose(run.logp[i, o], expected, atol=1e-4)


@pytest.mark.parametrize("name", sorted(tiny_models.ARCHITECTURES))
def test_path_of_architecture(name, template):
    model, tokenizer = tiny_models.judge(name)
    backend = models.open_backend(models.parse(model, tokenizer=tokenizer))
    asked = study(tiny_models.items(1), template=template)
    queries = asked.queries(backend, asked.itemset.items)
    backend.prepare(queries, queries)
    known = backend.provenance()
    alone = tiny_models.RECURRENT | tiny_models.ROPES
    expected = "plain" if name in alone else "shared" if name in tiny_models.ALIBI else "packed"
    order = ["packed", "shared", "plain"]
    assert known["path"] == expected, known
    assert [refused["path"] for refused in known["refused_paths"]] == order[: order.index(expected)]
    assert known["proof"]["ok"]


@pytest.mark.parametrize(
    ("name", "most"), [("llama", 4096), ("phi3-longrope", 4096), ("llama-dynamic", 256), ("bloom", None)]
)
def test_longest_prompt(name, most):
    assert longest(tiny_models.judge(name)[0].config) == most


SCALES = {
    "0-10": [Level(k, f"it is {k} good") for k in range(11)],
    "Score 1": [Level(k, f"text {k}", f"Score {k}") for k in range(1, 6)],
    "Very poor": [
        Level(k, f"level {k}", text) for k, text in enumerate(["Very poor", "Poor", "Fair", "Good", "Very good"], 1)
    ],
    "1, 10, 100": [Level(k, f"up to {k}") for k in (1, 10, 100)],
}


@pytest.mark.parametrize("merges", [(), ("10", " 10", "Very", "Score ", " good")], ids=["bytes", "merged"])
@pytest.mark.parametrize("scale", sorted(SCALES))
def test_options_of_several_tokens_equal_brute_force(scale, merges, template):
    model, tokenizer = tiny_models.judge("qwen2", merges)
    items = tiny_models.items(2, Rubric("scale", "How good?", tuple(SCALES[scale])))
    run = lj.judge(model, items, tokenizer=tokenizer, template=template, orderings="identity", device="cpu")
    backend = models.open_backend(models.parse(model, tokenizer=tokenizer, date=run.provenance["started"]))
    asked = study(items, template=template, orderings="identity")
    for i, item in enumerate(items):
        tokens = asked.query(backend, item, run.orderings[0]).tokens
        expected = brute_force(model, tokens.context, tokens.tails)
        np.testing.assert_allclose(run.logp[i, 0], expected, atol=1e-4)
        assert run.mass[i, 0] == pytest.approx(sum(map(math.exp, expected)), abs=1e-5)
        assert run.mass[i, 0] < 1


def test_a_merged_blank_is_read_as_the_token_that_it_is(template, tmp_path):
    own = tmp_path / "blank.j2"
    own.write_text('---\nprefill: "Score:"\n---\n' + SHORT)
    model, tokenizer = tiny_models.judge("llama", (" 1", " 2", " 3", " 4", " 5"))
    rubric = Rubric("blank", "Is it?", tuple(Level(k, f"text {k}", f" {k}") for k in range(1, 6)))
    backend = models.open_backend(models.parse(model, tokenizer=tokenizer))
    asked = study(tiny_models.items(1, rubric), template=own)
    tokens = asked.query(backend, asked.itemset.items[0], asked.orderings[0]).tokens
    assert [tokenizer.decode(tail) for tail in tokens.tails] == [f" {k}" for k in range(1, 6)]
    assert {len(tail) for tail in tokens.tails} == {1}


def test_prompts_command_gives_what_was_read(template, tmp_path):
    """The contract: anyone can repeat a reading with a plain forward of the printed token ids."""
    folder = tiny_models.save(tmp_path / "judge")
    run = lj.judge(str(folder), tiny_models.items(), template=template, out=tmp_path / "run", device="cpu")
    command = [
        sys.executable,
        "-m",
        "logitjudge",
        "prompts",
        str(tmp_path / "run"),
        "--item",
        "item-1",
        "--ordering",
        "5,4,3,2,1",
        "--json",
    ]
    printed = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    model, _ = tiny_models.judge("llama")
    logp = plain_logp(model, printed["context_token_ids"])[-1]
    o = [ordering.values(run.scores.tolist()) for ordering in run.orderings].index((5, 4, 3, 2, 1))
    assert [option["score"] for option in printed["options"]] == run.scores.tolist()
    expected = [float(logp[option["token_ids"][0]]) for option in printed["options"]]
    np.testing.assert_allclose(run.logp[1, o], expected, atol=1e-4)


def test_a_budget_of_one_row_reads_the_same(template):
    model, tokenizer = tiny_models.judge("llama")
    runs = [
        lj.judge(model, tiny_models.items(), tokenizer=tokenizer, template=template, device="cpu", max_batch_tokens=n)
        for n in (1, 100_000)
    ]
    np.testing.assert_allclose(runs[0].logp, runs[1].logp, atol=1e-4)


def test_head_is_float32_under_a_bf16_body(template):
    """A bf16 head rounds logits to 8 bits: distinct options would come out equal."""
    model, tokenizer = tiny_models.judge("gemma2")
    backend = HFJudge(model.to(torch.bfloat16), models.open_backend(models.parse(model, tokenizer=tokenizer)).tokenizer)
    assert backend.forward.exact_head
    ids = backend.forward.tensor([list(range(3, 40))])
    logp = backend.forward.logp(ids, [36])[0, 0]
    with torch.inference_mode():
        hidden = model.model(input_ids=ids).last_hidden_state[0, -1].float()
        logits = model.get_output_embeddings().weight.float() @ hidden
    cap = model.config.final_logit_softcapping
    torch.testing.assert_close(logp, torch.log_softmax(torch.tanh(logits / cap) * cap, -1), atol=1e-4, rtol=0)
    assert len(set(logp.tolist())) == len(logp)


def test_base_model_without_chat_template_gets_one_bos(template):
    model, tokenizer = tiny_models.judge("llama", chat=False)
    backend = models.open_backend(models.parse(model, tokenizer=tokenizer))
    asked = study(tiny_models.items(1), template=template)
    tokens = asked.query(backend, asked.itemset.items[0], asked.orderings[0]).tokens
    assert backend.tokenizer.begins(tokens.context) <= 1
    assert tokenizer.decode(tokens.context).endswith("The score is ")


def test_chat_prompt_has_one_bos(template):
    model, tokenizer = tiny_models.judge("llama")
    backend = models.open_backend(models.parse(model, tokenizer=tokenizer))
    asked = study(tiny_models.items(1), template=template)
    assert (
        backend.tokenizer.begins(asked.query(backend, asked.itemset.items[0], asked.orderings[0]).tokens.context) == 1
    )


def test_read_reads_one_prompt():
    model, tokenizer = tiny_models.judge("llama")
    readings = lj.read(model, [{"role": "user", "content": "Is it? "}], options=["yes", "no"], tokenizer=tokenizer)
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Is it? "}], tokenize=False, add_generation_prompt=True
    )
    context = tokenizer(text, add_special_tokens=False)["input_ids"]
    tails = [tuple(tokenizer(word, add_special_tokens=False)["input_ids"]) for word in ("yes", "no")]
    np.testing.assert_allclose(readings.logp[0], brute_force(model, context, tails), atol=1e-4)


def test_prompt_longer_than_the_context_is_refused_not_cut(template):
    model, tokenizer = tiny_models.judge("llama")
    model.config.max_position_embeddings = 200
    short, long = (
        tiny_models.items(1)[0],
        Item("long", {"instruction": "x" * 300, "response": "y"}, tiny_models.items(1)[0].rubric),
    )
    run = lj.judge(model, [short, long], tokenizer=tokenizer, template=template, device="cpu")
    assert [item.id for item in run.items] == ["item-0"]
    assert run.refused[0]["id"] == "long"
    assert "200" in run.refused[0]["reason"]


def test_shown_prompt_is_what_the_template_renders(template):
    item = tiny_models.items(1)[0]
    prompt = prompts.render(prompts.load(template), item, item.rubric, study([item], template=template).orderings[3])
    assert prompt.messages[-1].content.endswith(
        "Score 4: text d\nScore 5: text e\nScore 1: text a\nScore 2: text b\nScore 3: text c"
    )


# --- tokenizers and chat templates that set traps ------------------------------------------------------------------


def opened(chat=None, **options):
    model, tokenizer = tiny_models.judge("llama", chat=chat is not None)
    if chat is not None:
        tokenizer.chat_template = chat
    return models.open_backend(models.parse(model, tokenizer=tokenizer, **options))


def test_a_tokenizer_whose_bos_is_its_eos_loses_no_token():
    """OPT begins a text with </s>: an empty text then looks as if it were closed."""
    tokenizer = tiny_models.tokenizer(chat=False)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single="</s> $A", special_tokens=[("</s>", 2)])
    assert tokenizer("")["input_ids"] == [2]
    backend = HFTokenizer(tokenizer)
    assert tokenizer.decode(backend.encode(["abc"])[0]) == "</s>abc"


def test_a_tokenizer_that_closes_a_text_does_not_close_the_prompt():
    tokenizer = tiny_models.tokenizer(chat=False)
    specials = [("<s>", 1), ("</s>", 2)]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single="<s> $A </s>", special_tokens=specials)
    assert tokenizer.decode(HFTokenizer(tokenizer).encode(["abc"])[0]) == "<s>abc"


@pytest.mark.parametrize("call", ["strftime_now('%d %b %Y')", 'strftime_now("%d %b %Y")'])
def test_a_chat_template_that_prints_the_date_prints_the_runs(call):
    backend = opened("{{ " + call + " }} " + tiny_models.CHAT, date="2026-02-03T10:00:00+00:00")
    assert backend.tokenizer.render([Message("user", "hello")], "").startswith("03 Feb 2026 ")


def test_a_run_resumed_on_another_day_reads_the_same_prompts(template, tmp_path):
    model, tokenizer = tiny_models.judge("llama")
    tokenizer.chat_template = "{{ strftime_now('%d %b %Y') }}" + tiny_models.CHAT
    options = {"tokenizer": tokenizer, "template": template, "device": "cpu", "max_batch_tokens": 1}

    def stop(progress):
        if progress.items == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lj.judge(model, tiny_models.items(4), out=tmp_path / "run", progress=stop, **options)
    head = json.loads((tmp_path / "run/run.json").read_text())
    (tmp_path / "run/run.json").write_text(json.dumps({**head, "started": "2020-05-17T00:00:00+00:00"}))
    run = lj.judge(model, tiny_models.items(4), out=tmp_path / "run", **options)
    backend = models.open_backend(models.parse(model, tokenizer=tokenizer, date=run.provenance["started"]))
    asked = study(tiny_models.items(4), template=template)
    tokens = asked.query(backend, run.items[3], run.orderings[0]).tokens
    assert tokens.text.startswith("17 May 2020")
    expected = plain_logp(model, tokens.context)[-1][[tail[0] for tail in tokens.tails]]
    np.testing.assert_allclose(run.logp[3, 0], expected, atol=1e-4)


def test_a_date_that_cannot_be_fixed_is_refused():
    with pytest.raises(lj.InputError, match="date"):
        opened("{% set f = '%d' %}{{ strftime_now(f) }}" + tiny_models.CHAT)


def test_a_score_is_not_read_inside_a_thought():
    backend = opened(tiny_models.CHAT.replace("<|assistant|>{%", "<|assistant|><think>\n{%"))
    with pytest.raises(lj.InputError, match="<think>"):
        backend.tokenizer.render([Message("user", "hello")], "")


def test_a_chat_template_that_fails_is_an_error_for_people():
    with pytest.raises(lj.InputError, match="chat template failed: TypeError"):
        opened("{{ 1 + 'a' }}" + tiny_models.CHAT)


def test_the_default_of_several_chat_templates_is_used():
    model, tokenizer = tiny_models.judge("llama")
    tokenizer.chat_template = {"default": tiny_models.CHAT, "tool_use": "no"}
    text = HFTokenizer(tokenizer).render([Message("user", "hello")], "")
    assert text == "<s><|user|>hello<|end|><|assistant|>"


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_a_prefix_is_proven_where_only_one_item_has_one(name, template):
    """Single prompts of one row at both ends, several rows in the middle: the trunk must have been proven as well."""
    model, tokenizer = tiny_models.judge(name)
    words = Rubric("w", "Is it?", (Level(1, "text a", "Very poor"), Level(2, "text b", "Very good")))
    letters = Rubric("l", "Is it?", (Level(1, "text a", "p"), Level(2, "text b", "g")))
    items = [
        Item(str(n), {"instruction": "Say it." * n, "response": "so"}, words if n == 2 else letters) for n in (1, 2, 3)
    ]
    run = lj.judge(model, items, tokenizer=tokenizer, template=template, orderings="identity", device="cpu")
    assert run.provenance["sessions"][-1]["path"] == "packed"
    backend = models.open_backend(models.parse(model, tokenizer=tokenizer, date=run.provenance["started"]))
    for i, item in enumerate(items):
        tokens = study(items, template=template, orderings="identity").query(backend, item, run.orderings[0]).tokens
        np.testing.assert_allclose(run.logp[i, 0], brute_force(model, tokens.context, tokens.tails), atol=1e-4)
