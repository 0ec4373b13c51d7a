"""What goes wrong with a judge: NaN in its weights, another model's tokenizer, no memory, texts that do not end.

The faults are real ones: they are in files of weights and of tokenizers, and in what a model does.
"""

import contextlib
import functools
import json
import time
from dataclasses import replace

import numpy as np
import pytest
import tiny_models
import torch
from safetensors.torch import load_file, save_file

import logitjudge as lj
from logitjudge import cli
from logitjudge.backends import OutOfMemory
from logitjudge.backends.hf import HFJudge
from logitjudge.backends.hf.tokenizer import HFTokenizer
from logitjudge.core import Item
from logitjudge.errors import AllRefused, ItemError, ModelError, NotFinite

BAD = "~"  # a byte of one item alone
SHORT = """---
verdicts: {feedback: {marker: "[RESULT]"}, sampled: {marker: "[RESULT]"}}
---
{{ instruction }} {{ response }}
{{ levels }}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tiny_models.save(tmp_path_factory.mktemp("sound") / "model")
    (made.parent / "t.j2").write_text(SHORT)
    return made


def spoiled(folder, place, tokens, value):
    """A copy of a model's folder in whose file of weights the embeddings of some tokens are no numbers."""
    made = tiny_models.save(place)
    weights = load_file(made / "model.safetensors")
    for token in tokens:
        weights["model.embed_tokens.weight"][token] = value
    save_file(weights, made / "model.safetensors", metadata={"format": "pt"})
    return made


def token(text):
    return tiny_models.tokenizer()(text, add_special_tokens=False)["input_ids"]


def items(bad=(1,), count=4, mark=BAD):
    made = tiny_models.items(count)
    return [replace(item, fields={**item.fields, "response": item.fields["response"] + mark * (n in bad)})
        for n, item in enumerate(made)]  # fmt: skip


def read(model, out=None, data=None, **more):
    template = {} if "template" in more else {"template": more.pop("folder").parent / "t.j2"}
    return lj.judge(str(model), items() if data is None else data, out=out, device="cpu",
        orderings="1,2,3,4,5;5,4,3,2,1;2,1,3,4,5", **{**template, **more})  # fmt: skip


# --- NaN and inf ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("path", ["packed", "shared", "plain"])
def test_an_item_that_meets_nan_is_refused_and_the_others_keep_their_numbers(
    folder, tmp_path, monkeypatch, value, path
):
    """All items are packed into one batch, where a NaN leaks into all of them: 0 * NaN is NaN."""
    from logitjudge.backends import hf

    kept = {} if path == "plain" else {path: hf.PATHS[path]}
    monkeypatch.setattr(hf, "PATHS", kept)
    sound = read(folder, folder=folder)
    run = read(spoiled(folder, tmp_path / "m", token(BAD), value), tmp_path / "out", folder=folder)
    assert len(run.provenance["batches"]) == 1
    assert run.provenance["sessions"][-1]["path"] == path
    assert [row["id"] for row in run.refused] == ["item-1"]
    assert "NaN or infinite" in run.refused[0]["reason"]
    assert [item.id for item in run.items] == ["item-0", "item-2", "item-3"]
    np.testing.assert_allclose(run.logp, sound.logp[[0, 2, 3]], atol=1e-4)
    assert lj.load_run(tmp_path / "out").provenance["refused"] == 1


def test_the_command_lists_the_item_and_exits_3(folder, tmp_path, capsys):
    import pandas as pd

    model = spoiled(folder, tmp_path / "m", token(BAD), float("nan"))
    rows = [{"id": item.id, **item.fields} for item in items()]
    pd.DataFrame(rows).to_json(tmp_path / "items.jsonl", orient="records", lines=True)
    words = ["--rubric", "helpfulness", "--template", str(folder.parent / "t.j2"), "--out", str(tmp_path / "out")]
    words += ["--device", "cpu", "--orderings", "1,2,3,4,5", "--data", str(tmp_path / "items.jsonl")]
    assert cli.main(["run", "--model", str(model), *words]) == 3
    assert "item-1: a reading is not finite" in capsys.readouterr().err


@pytest.mark.parametrize("bad", [(0,), (3,), (0, 3)])
def test_a_shortest_or_longest_item_that_meets_nan_does_not_stop_the_run(folder, tmp_path, bad):
    run = read(spoiled(folder, tmp_path / "m", token(BAD), float("nan")), data=items(bad), folder=folder)
    assert [row["id"] for row in run.refused] == [f"item-{n}" for n in bad]
    assert run.provenance["sessions"][-1]["path"] == "packed"


def test_weights_that_are_all_nan_are_an_error_before_anything_is_written(folder, tmp_path):
    model = spoiled(folder, tmp_path / "m", range(263), float("nan"))
    with pytest.raises(NotFinite, match="not finite. Try --dtype float32, or check the weights"):
        read(model, tmp_path / "out", folder=folder)
    assert not (tmp_path / "out").exists()


def test_a_run_of_which_nothing_is_left_says_so(folder, tmp_path):
    model = spoiled(folder, tmp_path / "m", token(BAD), float("nan"))
    sound = [Item("sound", dict(items()[0].fields), items()[0].rubric)]
    with pytest.raises((AllRefused, NotFinite)):
        read(model, data=items(range(4)), folder=folder)
    run = read(model, data=[*items(range(4)), *sound], folder=folder)
    assert [item.id for item in run.items] == ["sound"]


@pytest.mark.parametrize("verdict", ["feedback", "sampled"])
def test_no_text_is_written_where_there_are_no_probabilities(folder, tmp_path, verdict):
    given = {"verdict": verdict, "max_new_tokens": 4, "folder": folder}
    given |= {"unended": "close"} if verdict == "feedback" else {}
    sound = read(folder, **given)
    run = read(spoiled(folder, tmp_path / "m", token(BAD), float("nan")), tmp_path / "out", **given)
    (refused,) = run.refused
    assert refused["id"] == "item-1"
    assert refused["reason"].startswith("3 of 3 texts of the judge could not be written: the model gave NaN")
    assert run.provenance["traces"]["broken"] == 3
    texts, expected = (made.traces().set_index("trace_id")["text"] for made in (run, sound))
    left = [name for name in expected.index if not name.startswith("item-1|")]
    assert texts[left].tolist() == expected[left].tolist()
    if verdict == "feedback":
        np.testing.assert_allclose(run.logp, sound.logp[[0, 2, 3]], atol=1e-4)


def test_padding_that_is_nan_costs_no_text(folder, tmp_path):
    """Shorter prompts are padded with token 0: where that is NaN, they are written alone."""
    given = {"verdict": "feedback", "max_new_tokens": 4, "unended": "close", "folder": folder}
    run = read(spoiled(folder, tmp_path / "m", [0], float("nan")), **given)
    assert run.refused == ()
    np.testing.assert_allclose(run.logp, read(folder, **given).logp, atol=1e-4)


# --- tokenizers ----------------------------------------------------------------------------------------------------


def test_an_item_with_a_token_that_the_weights_do_not_know_is_refused(folder, tmp_path):
    model = tiny_models.save(tmp_path / "m")
    tiny_models.tokenizer(("~~",)).save_pretrained(model)  # one word more than the weights know
    with pytest.warns(UserWarning, match="has 264 tokens, and its weights know 263"):
        run = read(model, data=items(mark="~~"), folder=folder)
    (refused,) = run.refused
    assert refused["id"] == "item-1"
    assert "the token 263 ('~~'), and the weights know tokens 0 to 262 only" in refused["reason"]
    np.testing.assert_allclose(run.logp, read(folder, folder=folder).logp[[0, 2, 3]], atol=1e-4)


def test_a_tokenizer_of_another_model_is_an_error_before_anything_is_written(folder, tmp_path):
    model = tiny_models.save(tmp_path / "m")
    tiny_models.tokenizer(("Say", "It", " is", "te", "tex", "text", "Score")).save_pretrained(model)
    with (
        pytest.warns(UserWarning, match="belong to different models"),
        pytest.raises(ItemError, match="no item can be judged.*is the tokenizer that of another model"),
    ):
        read(model, tmp_path / "out", folder=folder)
    assert not (tmp_path / "out").exists()


def test_a_setting_of_the_tokenizer_that_fails_as_it_is_used_is_an_error_of_the_model(folder, tmp_path):
    model = tiny_models.save(tmp_path / "m")
    path = model / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "model_max_length": "many"}))
    with pytest.raises(ModelError, match="cannot be loaded"):
        read(model, tmp_path / "out", folder=folder)


def test_weights_much_larger_than_their_tokenizer_are_a_warning(folder, tmp_path):
    large = tiny_models.model("llama", 1000)
    large.save_pretrained(tmp_path / "m")
    tiny_models.tokenizer().save_pretrained(tmp_path / "m")
    with pytest.warns(UserWarning, match="has 263 tokens, and its weights know 1,000"):
        read(tmp_path / "m", folder=folder)


# --- memory --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def small_device(model, most):
    """Within it the model runs out of memory with more tokens at once than so many."""
    before = type(model).forward

    @functools.wraps(before)
    def forward(self, input_ids, **inputs):
        if input_ids.numel() > most:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return before(self, input_ids=input_ids, **inputs)

    type(model).forward = forward
    try:
        yield
    finally:
        type(model).forward = before


def contexts(count=6):
    return [token("Say it. " * (3 + n)) for n in range(count)]


def test_texts_that_do_not_fit_are_written_fewer_at_once():
    model, tokenizer = tiny_models.judge("llama")
    judge = HFJudge(model, HFTokenizer(tokenizer))
    whole = judge.generate(contexts(), "", 5)
    longest = max(map(len, contexts()))
    with small_device(model, 2 * longest), pytest.warns(UserWarning, match="out of memory: texts are written"):
        assert judge.generate(contexts(), "", 5) == whole
    with (
        small_device(model, longest - 1),
        pytest.warns(UserWarning, match="out of memory"),
        pytest.raises(ModelError, match="out of memory with one text at a time: .* --max-new-tokens"),
    ):
        judge.generate(contexts(), "", 5)


def test_a_noise_floor_that_does_not_fit_is_not_known(monkeypatch):
    model, tokenizer = tiny_models.judge("llama")

    def full(self, queries):
        raise OutOfMemory("CUDA out of memory.")

    monkeypatch.setattr(HFJudge, "read_plain", full)
    with pytest.warns(UserWarning, match="the noise floor is not known: out of memory"):
        run = lj.judge(model, tiny_models.items(1), tokenizer=tokenizer, device="cpu", orderings="1,2,3,4,5;5,4,3,2,1")
    assert run.provenance["noise_floor"] is None


# --- texts that do not end -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def hanging(model, mark, seconds):
    """Within it the model takes so many seconds for each token of a text whose prompt has a token."""
    state = {"hangs": False}

    def before(module, args, given):
        ids = given["input_ids"]
        if ids.shape[1] > 1:
            state["hangs"] = bool((ids == mark).any())
        elif state["hangs"]:
            time.sleep(seconds)

    handle = model.register_forward_pre_hook(before, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


@pytest.mark.parametrize("verdict", ["feedback", "sampled"])
def test_a_text_that_does_not_end_in_time_refuses_its_item_and_is_never_read(folder, tmp_path, verdict):
    model, tokenizer = tiny_models.judge("llama")
    given = {"verdict": verdict, "max_new_tokens": 8, "max_batch_tokens": 1, "template": folder.parent / "t.j2"}
    given |= {"unended": "close"} if verdict == "feedback" else {}
    given |= {"tokenizer": tokenizer, "device": "cpu", "orderings": "1,2,3,4,5;5,4,3,2,1"}
    sound = lj.judge(model, items(), **given)
    with hanging(model, token(BAD)[0], 3.5):
        run = lj.judge(model, items(), out=tmp_path / "out", timeout=3, **given)
    assert [(row["id"], row["reason"]) for row in run.refused] == [
        ("item-1", "2 of 2 texts of the judge had not ended after 3 s (--timeout)")
    ]
    assert [item.id for item in run.items] == ["item-0", "item-2", "item-3"]
    assert run.provenance["traces"]["timeout"] == 2
    if verdict == "feedback":
        np.testing.assert_array_equal(run.logp, sound.logp[[0, 2, 3]])
    else:
        np.testing.assert_array_equal(run.picks, sound.picks[[0, 2, 3]])
    (tmp_path / "out" / "readings" / "all.parquet").rename(tmp_path / "away")
    again = lj.judge(model, items(), out=tmp_path / "out", timeout=100, **given)  # what is stored stays as it is
    assert [row["id"] for row in again.refused] == ["item-1"]
    assert len(again.items) == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"timeout": 5}, "belongs to --backend openai, and to judges that write"),
        ({"timeout": 0, "verdict": "feedback"}, "give seconds above 0"),
    ],
)
def test_a_time_that_makes_no_sense(folder, options, words):
    with pytest.raises(lj.InputError, match=words):
        read(folder, folder=folder, **options)


def test_a_planted_judge_takes_no_time():
    with pytest.raises(ModelError, match="--timeout belongs to --backend openai or hf"):
        lj.judge("planted", "demo", rubric="helpfulness", timeout=5)
