"""doctor: every warning is provoked, and a healthy judge passes."""

import json
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import tiny_models
import torch
from tokenizers import Tokenizer, models as token_models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import logitjudge as lj
from logitjudge import doctor, tokens
from logitjudge.backends import OutOfMemory
from logitjudge.backends.hf.tokenizer import HFTokenizer
from logitjudge.cli import main
from logitjudge.core import Item, Level, Readings, Rubric, TopToken
from logitjudge.doctor.findings import plain
from logitjudge.doctor.follow import follower_ids
from logitjudge.errors import InputError, OptionError
from logitjudge.study import study

BODY = "{{ instruction }}\n{{ response }}\n{{ criterion_line }}\n{{ levels }}\n"
ELEVEN = Rubric("eleven", "How good is it?", tuple(Level(k, f"text {'abcdefghijk'[k]}") for k in range(11)))


class Scripted:
    """A backend whose next-token probabilities are a function of the text before.

    `says` maps the end of the text (the longest that fits) to a mapping from token strings to probabilities.
    """

    def __init__(self, tokenizer, says, second=None, path="shared", head="float32", dtype="float32", **facts):
        self.tokenizer = HFTokenizer(tokenizer)
        self.max_length = 4096
        self._says, self._second, self._facts = says, second or says, facts
        self._provenance = {
            "path": path, "proof": {"ok": True, "reason": "proven"}, "dtype": dtype, "head": head, "device": "cpu",
        }  # fmt: skip

    def facts(self):
        return {
            "special_tokens": tiny_models.SPECIAL,
            "chat_template": "",
            "adds_bos": False,
            "bos": "<s>",
        } | self._facts

    def provenance(self):
        return self._provenance

    def prepare(self, longest, shortest):
        self.prepared = longest

    def token_budget(self):
        return 4096

    def read(self, queries, budget):
        return self._readings(queries, self._says)

    def read_plain(self, queries):
        return self._readings(queries, self._second)

    def _probs(self, ids, says):
        text = self.tokenizer.decode(ids)
        end = max((end for end in says if text.endswith(end)), key=len)
        return {self.tokenizer.pieces([piece])[0][0]: p for piece, p in says[end].items()}

    def _readings(self, queries, says):
        logp, alias, top = [], [], []
        for query in queries:
            read, step, rest = query.tokens, {}, {}
            for path, wanted in tokens.nodes(read.tails).items():
                probs = self._probs((*read.context, *path), says)
                step |= {(path, token): math.log(probs.get(token, 1e-12)) for token in wanted}
                rest[path] = math.log(max(1 - sum(probs.get(token, 0) for token in wanted), 1e-12))
            probs = self._probs(read.context, says)
            begins = {tail[0] for tail in read.tails}
            logp.append(tokens.option_logp(read.tails, step, rest))
            alias.append([sum(probs.get(token, 0.0) for token in ids) for ids in read.aliases])
            left = sorted((t for t in probs if t not in begins), key=lambda t: -probs[t])
            top.append(tuple(TopToken(t, self.tokenizer.decode([t]), math.log(probs[t])) for t in left))
        return Readings(logp, alias, top)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    path = tmp_path_factory.mktemp("templates") / "short.j2"
    path.write_text('---\nprefill: "The score is "\n---\n' + BODY)
    return path


@pytest.fixture
def examine(template):
    """Look at a scripted judge: `answer` is what it says behind the prompt, `then` what it says behind an option."""

    def made(answer, then=None, items=None, tokenizer=None, asked=None, **options):
        says = {"": then or {"</s>": 1.0}, "is ": answer} | options.pop("more", {})
        backend = Scripted(tokenizer or tiny_models.tokenizer(), says, **options)
        return doctor.examine(asked or study(items or tiny_models.items(5), template=template), backend, "scripted")

    return made


GOOD = {"1": 0.1, "2": 0.1, "3": 0.2, "4": 0.3, "5": 0.25, "T": 0.05}


def test_a_healthy_judge_passes_every_check(examine):
    found = examine(GOOD)
    assert {check.name: check.status for check in found.checks if check.status not in ("ok", "info")} == {}
    assert found.status == "ok"
    assert found.context.endswith("The score is ")
    assert found["mass"].values["mean"] == pytest.approx(0.95)
    assert found["mass"].values["prompts"] == 8  # four items at two orderings
    assert found["noise"].values["max_nats"] == 0
    first = found.options[0]
    assert (first["score"], first["text"], first["tokens"]) == (1, "1", ["1"])
    assert first["prob"] == pytest.approx(0.1)
    assert found["work"].values["prompts"] == 50
    assert found["work"].values["seconds"] > 0


def test_mass_warns_below_a_half_and_fails_below_a_twentieth(examine):
    low = {"1": 0.2, "2": 0.29, "T": 0.51}
    assert examine(low)["mass"].status == "warn"
    assert examine({**low, "3": 0.02})["mass"].status == "ok"
    assert examine({"1": 0.04, "T": 0.96})["mass"].status == "fail"
    assert examine({"1": 0.04, "T": 0.96}).status == "fail"
    assert examine({"1": 0.06, "T": 0.94})["mass"].status == "warn"


def test_one_prompt_with_little_mass_is_enough_for_a_warning(examine):
    items = tiny_models.items(4)
    weak = replace(items[0], fields={**items[0].fields, "response": "WEAK"})
    found = examine(GOOD, items=[weak, *items[1:]], more={})
    assert found["mass"].status == "ok"
    rubric = Rubric("one", "Is it true?", tuple(Level(k, "x" * k) for k in range(1, 6)))  # reverse ends with level 1
    asked = study([Item("a", {"instruction": "i", "response": "r"}, rubric)], template="prometheus")
    end = "Score 1: x\n\n###Score:<|end|><|assistant|>The score is "
    found = examine(GOOD, asked=asked, more={end: {"1": 0.3, "T": 0.7}})
    assert (found["mass"].status, found["mass"].values["below_half"]) == ("warn", 1)
    without = {piece: p for piece, p in GOOD.items() if piece != "T"}
    found = examine(without, asked=asked, more={end: {"1": 0.3, "T": 0.7}})
    assert found["off_scale"].values["tokens"][0]["prob"] == pytest.approx(0.35)  # over both prompts


def test_off_scale_tokens_are_named_with_their_mean_probability(examine):
    tokens_ = examine({"1": 0.6, "T": 0.3, "N": 0.1})["off_scale"].values["tokens"]
    assert [(t["text"], round(t["prob"], 6)) for t in tokens_] == [("T", 0.3), ("N", 0.1)]


def test_aliases_warn_above_a_tenth_of_the_mass(examine):
    tokenizer = tiny_models.tokenizer(merges=("four",))
    found = examine({"4": 0.8, "four": 0.09}, tokenizer=tokenizer)
    assert found["aliases"].status == "warn"
    assert found.options[3]["alias_mass"] == pytest.approx(0.09)
    assert found.options[2]["alias_mass"] == 0
    assert examine({"4": 0.9, "four": 0.08}, tokenizer=tokenizer)["aliases"].status == "ok"


def after(end, then, otherwise=None):
    """Answers behind an option's text: in the script, what comes behind `end`."""
    return {"more": {end: then}, "then": otherwise or {"</s>": 1.0}}


def test_a_digit_behind_an_option_warns(examine):
    found = examine(GOOD, **after("is 4", {"5": 0.03, "</s>": 0.97}))
    assert found["follows"].status == "warn"
    assert "'4'" in found["follows"].text
    assert found.options[3]["follows"]["digit"] == pytest.approx(0.03)
    assert found.options[2]["follows"]["digit"] < 1e-9
    assert examine(GOOD, **after("is 4", {"5": 0.01, "0": 0.009}))["follows"].status == "ok"


def test_a_full_stop_is_told_and_it_says_whether_another_number_comes_of_it(examine):
    sentence = examine(GOOD, then={".": 0.4, "</s>": 0.6})
    assert sentence["follows"].status == "info"
    assert "end of a sentence" in sentence["follows"].text
    assert max(sentence["follows"].values["other_number"]) < 1e-9
    decimal = examine(GOOD, more={"is 4": {".": 0.4}, "is 4.": {"5": 0.5, " ": 0.5}})
    assert decimal["follows"].values["other_number"][3] == pytest.approx(0.2)
    assert "would be read as '4'" in decimal["follows"].text
    merged = examine(GOOD, tokenizer=tiny_models.tokenizer((".5",)), more={"is 4": {".5": 0.3, ".": 0.1}})
    assert merged.options[3]["follows"]["point_digit"] == pytest.approx(0.3)
    assert merged.options[3]["follows"]["point"] == pytest.approx(0.4)


def test_a_slash_is_told(examine):
    found = examine(GOOD, **after("is 3", {"/": 0.05, "</s>": 0.95}))
    assert (found["follows"].status, found.options[2]["follows"]["slash"]) == ("info", pytest.approx(0.05))


def test_a_digit_that_makes_another_option_is_no_fault(examine, template):
    items = [Item("a", {"instruction": "i", "response": "r"}, ELEVEN)]
    asked = study(items, template=template, orderings="cyclic")
    found = examine({"1": 0.9, "7": 0.1}, asked=asked, more={"is 1": {"0": 0.6, "2": 0.01, "</s>": 0.39}})
    assert found["follows"].status == "ok"
    assert found.options[1]["follows"]["digit"] == pytest.approx(0.01)
    assert found.options[10]["tokens"] == ["1", "0"]
    assert found["options"].values["shared_first_token"]


def test_followers_are_found_behind_letters_and_digits():
    ids = follower_ids(HFTokenizer(tiny_models.tokenizer(("42", ".5"))), ("1", "2"))
    decode = tiny_models.tokenizer(("42", ".5")).decode
    assert sorted(decode([t]) for t in ids["digit"]) == ["0", "1", "2", "3", "4", "42", "5", "6", "7", "8", "9"]
    assert [decode([t]) for t in ids["point_digit"]] == [".5"]
    joining = HFTokenizer(tiny_models.tokenizer(tuple(f"4{n}" for n in range(10))))  # behind "4" no digit is a token
    assert len(follower_ids(joining, ("4",))["digit"]) == 20


def test_an_unknown_token_is_counted_once():
    core = Tokenizer(token_models.WordLevel({"?": 0, "1": 1, "A": 2}, "?"))
    core.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    ids = follower_ids(HFTokenizer(PreTrainedTokenizerFast(tokenizer_object=core, unk_token="?")), ("1",))
    assert sum(group.count(0) for group in ids.values()) == 1


def test_with_a_closing_string_nothing_that_follows_is_read(examine, tmp_path):
    path = tmp_path / "closed.j2"
    path.write_text('---\nprefill: "The score is "\nclose: "."\n---\n' + BODY)
    found = examine(GOOD, asked=study(tiny_models.items(2), template=path), then={".": 0.5, "5": 0.5})
    assert found.options[0]["follows"] is None
    assert "counts only with '.'" in found["options"].text
    with pytest.raises(KeyError):
        found["follows"]


def test_a_second_or_a_missing_beginning_of_sequence_token_warns(examine):
    twice = tiny_models.tokenizer()
    twice.chat_template = "{{ bos_token }}" + tiny_models.CHAT
    found = examine(GOOD, tokenizer=twice)
    assert (found["bos"].status, found["bos"].values["count"]) == ("warn", 2)
    none = tiny_models.tokenizer()
    none.chat_template = tiny_models.CHAT.replace("{{ bos_token }}", "")
    assert examine(GOOD, tokenizer=none)["bos"].status == "ok"
    assert examine(GOOD, tokenizer=none, adds_bos=True)["bos"].status == "warn"
    assert examine(GOOD, adds_bos=True)["bos"].status == "ok"


def test_a_folded_system_message_and_a_missing_chat_template_are_told(examine):
    asked = study(tiny_models.items(2), template="prometheus")
    folding = tiny_models.tokenizer()
    folding.chat_template = (
        "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no') }}{% endif %}" + tiny_models.CHAT
    )
    folded = examine(GOOD, tokenizer=folding, asked=asked)["chat"]
    assert (folded.status, folded.values["system_folded"]) == ("info", True)
    assert examine(GOOD, asked=asked)["chat"].values == {"chat_template": True, "system_folded": False}
    base = examine(GOOD, tokenizer=tiny_models.tokenizer(chat=False), asked=asked)
    assert (base["chat"].status, base["chat"].values["chat_template"]) == ("info", False)


def thinker():
    tokenizer = tiny_models.tokenizer()
    tokenizer.add_tokens(["<think>", "</think>"])
    return tokenizer


def test_a_judge_that_would_think_first_warns(examine):
    found = examine({"5": 0.6, "<think>": 0.4}, tokenizer=thinker())
    assert found["thinking"].status == "warn"
    assert found["thinking"].values["opener_mass"] == pytest.approx(0.4)
    assert "--verdict think" in found["thinking"].text
    assert examine({"5": 0.98, "<think>": 0.02}, tokenizer=thinker())["thinking"].status == "ok"


def test_a_chat_template_that_knows_thinking_is_told(examine):
    found = examine(GOOD, chat_template="{% if enable_thinking %}<think>{% endif %}")
    assert (found["thinking"].status, found["thinking"].values["template_mentions"]) == (
        "info",
        ["enable_thinking", "<think>"],
    )


def test_a_thought_that_the_template_closes_is_fine(examine):
    tokenizer = thinker()
    tokenizer.chat_template = tiny_models.CHAT + "<think>\n\n</think>\n\n"
    assert examine(GOOD, tokenizer=tokenizer)["thinking"].status == "ok"


def test_a_thought_that_the_template_leaves_open_is_an_error(examine):
    tokenizer = thinker()
    tokenizer.chat_template = tiny_models.CHAT + "<think>\n"
    with pytest.raises(InputError, match="opens a reasoning trace"):
        examine(GOOD, tokenizer=tokenizer)


def test_a_thought_in_an_item_is_not_the_template_s(examine):
    items = [Item("a", {"instruction": "<think>", "response": "r"}, tiny_models.items(1)[0].rubric)]
    assert examine(GOOD, items=items, tokenizer=thinker())["thinking"].status == "ok"


def test_control_tokens_in_a_text_warn_with_the_item(examine):
    items = tiny_models.items(3)
    items[1] = replace(items[1], fields={**items[1].fields, "response": "so<|end|>so"})
    found = examine(GOOD, items=items)
    assert found["control_tokens"].status == "warn"
    assert found["control_tokens"].values == {"items": 1, "first": {"item-1": "<|end|>"}}
    assert "item-1 (<|end|>)" in found["control_tokens"].text


def test_items_that_do_not_fit_warn_and_are_not_read(examine):
    items = tiny_models.items(3)
    items[2] = replace(items[2], fields={**items[2].fields, "response": "so " * 2000})
    found = examine(GOOD, items=items)
    assert (found["items"].status, found["items"].values["too_long"]) == ("warn", 1)
    assert found["work"].values["items"] == 2
    long = [replace(item, fields={**item.fields, "response": "so " * 2000}) for item in items]
    found = examine(GOOD, items=long)
    assert (found["items"].status, found["reading"].status) == ("fail", "fail")
    assert found.options == ()


def test_items_without_a_field_are_named(examine):
    items = tiny_models.items(3)
    items[2] = replace(items[2], fields={"instruction": "i"})
    found = examine(GOOD, items=items)
    assert found["items"].status == "warn"
    assert "item-2 (response)" in found["items"].text


def test_noise_warns_where_a_second_way_differs(examine):
    second = {"": {"</s>": 1.0}, "is ": {**GOOD, "4": 0.3 * math.exp(-0.2)}}
    found = examine(GOOD, second=second)
    assert found["noise"].status == "warn"
    assert found["noise"].values["max_nats"] == pytest.approx(0.2)
    assert found["noise"].values["winners_within"] == 1.0  # 4 leads 5 by 0.18 nats
    second["is "]["4"] = 0.3 * math.exp(-0.05)
    assert examine(GOOD, second=second)["noise"].status == "ok"


def test_little_memory_and_a_slow_or_rounding_engine_warn(examine):
    assert examine(GOOD, weight_bytes=10 << 30, free_bytes=100 << 20)["memory"].status == "warn"
    assert examine(GOOD, weight_bytes=10 << 30, free_bytes=10 << 30)["memory"].status == "ok"
    assert examine(GOOD, weight_bytes=10 << 30, free_bytes=None)["memory"].status == "ok"
    assert examine(GOOD, path="plain")["engine"].status == "warn"
    assert examine(GOOD, head="the model's own")["engine"].status == "ok"  # the model itself is float32
    assert examine(GOOD, head="the model's own", dtype="bfloat16")["engine"].status == "warn"


def test_what_cannot_be_read_is_a_failed_check(template, monkeypatch):
    asked = study(tiny_models.items(2), template=template)
    backend = Scripted(tiny_models.tokenizer(), {"": GOOD})

    def full(queries, budget):
        raise OutOfMemory("no room")

    def infinite(queries, budget):
        return Readings(np.full((len(queries), 5), np.nan), np.zeros((len(queries), 5)), ((),) * len(queries))

    for read, words in ((full, "out of memory: no room"), (infinite, "not finite")):
        monkeypatch.setattr(backend, "read", read)
        found = doctor.examine(asked, backend, "scripted")
        assert (found.status, found["reading"].status) == ("fail", "fail")
        assert words in found["reading"].text
        json.dumps(found.to_dict(), allow_nan=False)


# --- real models -----------------------------------------------------------------------------------------------------


def test_a_random_model_is_found_to_answer_with_no_option(template):
    model, tokenizer = tiny_models.judge("llama")
    said = []
    found = doctor.diagnose(
        model, tiny_models.items(2), template=template, tokenizer=tokenizer, progress=lambda p: said.append(p.message)
    )
    assert found["mass"].status in ("warn", "fail")
    assert len(found["off_scale"].values["tokens"]) == 5
    assert found["noise"].values["max_nats"] < 1e-4
    assert found["engine"].values["path"] == "packed"
    assert found["engine"].values["head"] == "float32"
    assert found["memory"].values["weight_bytes"] == sum(p.numel() * 4 for p in model.parameters())
    assert found["memory"].values["free_bytes"] > 0
    assert found["bos"].values == {"count": 1, "bos": "<s>", "tokenizer_adds_one": False}
    assert "reading a few prompts" in said


def leaning(tokenizer, **weights):
    """A random model whose head has a bias towards some tokens: log of the weight."""
    model = tiny_models.model("llama", len(tokenizer))
    old = model.get_output_embeddings()
    head = torch.nn.Linear(old.in_features, old.out_features)
    with torch.no_grad():
        head.weight.zero_()
        head.bias.fill_(-30)
        for piece, weight in weights.items():
            head.bias[tokenizer(piece, add_special_tokens=False)["input_ids"][0]] = math.log(weight)
    model.set_output_embeddings(head)
    return model


def test_what_a_model_says_is_what_is_reported(template):
    tokenizer = tiny_models.tokenizer()
    model = leaning(tokenizer, **{"1": 0.2, "5": 0.5, ".": 0.1, "/": 0.05, "T": 0.15})
    found = doctor.diagnose(model, tiny_models.items(1), template=template, tokenizer=tokenizer)
    assert found["mass"].values["mean"] == pytest.approx(0.7, abs=1e-5)
    assert found["mass"].status == "ok"
    for option in found.options:
        assert option["follows"] == pytest.approx(
            {"digit": 0.7, "point": 0.1, "point_digit": 0.07, "slash": 0.05}, abs=1e-5
        )
    assert found["follows"].status == "warn"


@pytest.mark.parametrize(("name", "fed"), [("llama", "unique_tokens"), ("mamba", "tokens")])
def test_the_expected_time_is_that_of_the_tokens_that_the_path_feeds(name, fed, template):
    model, tokenizer = tiny_models.judge(name)
    options = {"orderings": "balanced", "template": template, "tokenizer": tokenizer}
    work = doctor.diagnose(model, tiny_models.items(2), **options)["work"].values
    head = lj.judge(model, tiny_models.items(2), device="cpu", **options).provenance
    assert (work["tokens"], work["unique_tokens"]) == (head["tokens"], head["unique_tokens"])
    assert work["seconds"] == pytest.approx(work[fed] / work["pace"])


def test_weights_that_are_not_numbers_are_a_failed_check(template):
    model, tokenizer = tiny_models.judge("llama")
    with torch.no_grad():
        model.lm_head.weight.fill_(float("nan"))
    found = doctor.diagnose(model, tiny_models.items(2), template=template, tokenizer=tokenizer)
    assert "not finite" in found["reading"].text
    assert found.status == "fail"


def test_options_that_cannot_be_told_apart_are_the_user_s_mistake(template):
    core = Tokenizer(token_models.WordLevel({"?": 0, "1": 1, "2": 2}, "?"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, unk_token="?", eos_token="?")
    with pytest.raises(OptionError, match="apart"):
        doctor.diagnose(tiny_models.model("llama", 3), tiny_models.items(1), template=template, tokenizer=tokenizer)


# --- without a tokenizer, and the command ----------------------------------------------------------------------------


def test_of_a_planted_judge_only_the_mass_is_reported():
    found = doctor.diagnose("planted:mass=0.3")
    assert [check.name for check in found.checks] == ["reading", "tokenizer", "mass"]
    assert found["mass"].values["mean"] == pytest.approx(0.3)
    assert found["mass"].status == "warn"
    assert found.to_dict()["options"] == []
    assert found.to_dict()["event"] is None


def test_a_rubric_is_tried_on_the_demo_items_whatever_their_ratings():
    rubric = Rubric("yes", "Is it good?", (Level(0, "no"), Level(1, "yes")))
    assert doctor.diagnose("planted", rubric=rubric).status == "ok"


def test_a_planted_judge_for_another_scale_is_the_user_s_mistake():
    with pytest.raises(InputError):
        doctor.diagnose("planted:position=1,0,0")


@pytest.mark.parametrize(("mass", "code"), [(0.9, 0), (0.3, 0), (0.01, 1)])
def test_the_command_prints_one_object_and_fails_where_a_check_fails(capsys, mass, code):
    assert main(["doctor", "--model", f"planted:mass={mass}", "--json"]) == code
    printed = json.loads(capsys.readouterr().out)
    assert printed["schema_version"] == 1
    assert printed["model"] == f"planted:mass={mass}"
    assert printed["checks"][-1]["name"] == "mass"
    assert main(["doctor", "--model", f"planted:mass={mass}"]) == code
    last = capsys.readouterr().out.strip().splitlines()[-1]
    assert last.startswith(f"{int(code == 1)} failed")
    assert ("do not judge" in last) == (code == 1)


def test_the_command_exits_with_2_where_the_input_is_wrong(capsys):
    assert main(["doctor", "--model", "planted:mas=1"]) == 2
    assert "mas" in capsys.readouterr().err


def test_the_command_prints_tables(capsys, tmp_path, template):
    folder = tiny_models.save(tmp_path / "model")
    code = main(["doctor", "--model", str(folder), "--template", str(template), "--limit", "2", "--device", "cpu"])
    printed = capsys.readouterr().out
    assert code == int("[fail]" in printed)
    assert "The score is" in printed
    assert "[ok]    engine" in printed
    assert "'5'" in printed


def test_doctor_imports_neither_torch_nor_rich():
    code = "import sys, logitjudge.doctor; print([m for m in ('torch', 'transformers', 'rich', 'typer') if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_json_has_null_for_what_is_not_a_number():
    assert plain({"a": [float("inf"), {"b": float("nan")}], "c": "x"}) == {"a": [None, {"b": None}], "c": "x"}
