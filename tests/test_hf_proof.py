"""The proof at start: a wrong path cannot pass, on any of its points."""

import copy
import functools

import numpy as np
import pytest
import tiny_models
import torch
from transformers import AutoConfig

import logitjudge as lj
from logitjudge import models
from logitjudge.backends.hf import (
    PATHS,
    HFJudge,
    forward as forward_module,
    head as head_module,
    masks as masks_module,
    packed as packed_module,
    proof as proof_module,
    shared as shared_module,
    twin as twin_module,
)
from logitjudge.backends.hf.forward import Forward
from logitjudge.backends.hf.proof import Ground, branched, plain, prove
from logitjudge.backends.hf.sequences import Row, sequences
from logitjudge.errors import ModelError
from logitjudge.study import study


@pytest.fixture(scope="module")
def llama():
    return tiny_models.judge("llama")


@pytest.fixture(scope="module")
def rows(llama):
    return rows_of(*llama)


def rows_of(model, tokenizer):
    backend = models.open_backend(models.parse(model, tokenizer=tokenizer))
    items = tiny_models.items(1)
    return sequences(study(items).queries(backend, items))


def proven(path, model, rows):
    return prove(PATHS[path], Ground(Forward(model), rows, rows))


@pytest.mark.parametrize("path", PATHS)
def test_a_right_path_is_proven(path, llama, rows):
    found = proven(path, llama[0], rows)
    assert found.ok, found
    assert found.twin_nats <= 1e-4
    assert found.path_nats <= 1e-4


@pytest.mark.parametrize("path", PATHS)
def test_one_prompt_alone_is_enough_for_a_proof(path, llama, rows):
    assert proven(path, llama[0], rows[:1]).ok


# --- the shared path, broken ---------------------------------------------------------------------------------------


def shifted_positions(original):
    def batch(forward, rows, start, trunk):
        if trunk is None:
            return original(forward, rows, start, trunk)
        patched = copy.copy(forward)
        patched.logp = lambda ids, keep, cache, **inputs: forward.logp(
            ids, keep, cache, **{**inputs, "position_ids": inputs["position_ids"] + 1}
        )
        return original(patched, rows, start, trunk)

    return batch


def lost_token(original):
    def batch(forward, rows, start, trunk):
        if trunk is not None:
            trunk = copy.deepcopy(trunk)
            for layer in trunk.layers:
                layer.values[..., -1, :] = 0
        return original(forward, rows, start, trunk)

    return batch


def neighbours_seen(original):
    """Rows of a batch mixed a little, as a leaking mask would."""

    def batch(forward, rows, start, trunk):
        made = original(forward, rows, start, trunk)
        return [row + 1e-3 * made[n - 1][: len(row)] for n, row in enumerate(made)]

    return batch


@pytest.mark.parametrize("broken", [shifted_positions, lost_token, neighbours_seen])
def test_a_broken_shared_path_is_refused(llama, rows, broken, monkeypatch):
    for module in (shared_module, proof_module):
        monkeypatch.setattr(module, "batch", broken(shared_module.batch))
    found = proven("shared", llama[0], rows)
    assert not found.ok
    assert "on a tiny twin it differs" in found.reason


def blind_twin(monkeypatch):
    """Let the twin see nothing, so that the real weights must."""
    monkeypatch.setattr(proof_module, "_twin_nats", lambda *_: 0.0)


def test_a_shared_leak_alone_is_refused_on_the_real_weights(llama, rows, monkeypatch):
    blind_twin(monkeypatch)
    monkeypatch.setattr(shared_module, "batch", neighbours_seen(shared_module.batch))
    assert "a token of one prompt moves another" in proven("shared", llama[0], rows).reason


def test_more_than_noise_is_refused(llama, rows, monkeypatch):
    blind_twin(monkeypatch)
    monkeypatch.setattr(shared_module, "batch", shifted_positions(shared_module.batch))
    assert "on the real weights it differs" in proven("shared", llama[0], rows).reason


# --- the packed path, broken ---------------------------------------------------------------------------------------


def leaking_mask(monkeypatch):
    """Every token sees the one before it, which is another branch's where a branch begins."""
    original = packed_module.masks

    def masks(step, *args):
        made = original(step, *args)
        if made is not None:
            made[0, 0, :, step.held :].diagonal(-1).fill_(True)
        return made

    monkeypatch.setattr(packed_module, "masks", masks)


def causal_mask(monkeypatch):
    monkeypatch.setattr(packed_module, "masks", lambda *_: None)


def positions_in_a_row(monkeypatch):
    original = Forward.logp

    def logp(self, ids, keep, cache=None, **inputs):
        if cache is not None:
            held = cache.get_seq_length()
            inputs["position_ids"] = torch.arange(held, held + ids.shape[1])[None]
        return original(self, ids, keep, cache, **inputs)

    monkeypatch.setattr(Forward, "logp", logp)


def positions_off_by_one(monkeypatch):
    original = Forward.logp

    def logp(self, ids, keep, cache=None, **inputs):
        if cache is not None and cache.get_seq_length():
            inputs["position_ids"] = inputs["position_ids"] + 1
        return original(self, ids, keep, cache, **inputs)

    monkeypatch.setattr(Forward, "logp", logp)


def crop_of_the_end(monkeypatch):
    """The right number of tokens stays in the cache, but the wrong ones."""
    original = packed_module.select
    monkeypatch.setattr(packed_module, "select", lambda cache, keep: original(cache, torch.arange(len(keep))))


def no_crop(monkeypatch):
    monkeypatch.setattr(packed_module, "select", lambda *_: None)


def scaled_head(monkeypatch):
    original = Forward.logp

    def logp(self, ids, keep, cache=None, **inputs):
        made = original(self, ids, keep, cache, **inputs)
        return made if cache is None else torch.log_softmax(made * 1.001, -1)

    monkeypatch.setattr(Forward, "logp", logp)


BREAKS = [
    leaking_mask, causal_mask, positions_in_a_row, positions_off_by_one, crop_of_the_end, no_crop, scaled_head,
]  # fmt: skip


@pytest.mark.parametrize("break_it", BREAKS)
def test_a_broken_packed_path_is_refused(llama, rows, break_it, monkeypatch):
    break_it(monkeypatch)
    found = proven("packed", llama[0], rows)
    assert not found.ok
    assert "on a tiny twin it differs" in found.reason or "RuntimeError" in found.reason


@pytest.mark.parametrize(
    ("break_it", "reason"),
    [
        (leaking_mask, "a token of one prompt moves another"),
        (causal_mask, "a token of one prompt moves another"),
        (positions_in_a_row, "on the real weights it differs"),
        (positions_off_by_one, "on the real weights it differs"),
        (crop_of_the_end, "a token of one prompt moves another"),
        (scaled_head, "on the real weights it differs"),
    ],
)
def test_a_broken_packed_path_is_refused_by_the_real_weights_alone(llama, rows, break_it, reason, monkeypatch):
    blind_twin(monkeypatch)
    break_it(monkeypatch)
    assert reason in proven("packed", llama[0], rows).reason


@pytest.mark.parametrize(
    "name",
    [
        "qwen2-window", "gemma2-window", "gemma3-window", "mistral-window", "olmo3-window", "phi3-window",
        "cohere2-window", "gpt-oss", "llama4-chunks",
    ],
)  # fmt: skip
def test_a_mask_without_windows_or_chunks_is_refused(name, monkeypatch):
    model, tokenizer = tiny_models.judge(name)
    original = masks_module.layers
    monkeypatch.setattr(masks_module, "layers", lambda config: dict.fromkeys(original(config)))
    found = proven("packed", model, rows_of(model, tokenizer))
    assert "on a tiny twin it differs" in found.reason
    assert found.twin_nats > 0.1


def test_a_boolean_mask_under_eager_is_refused(monkeypatch):
    tokenizer = tiny_models.tokenizer()
    model = tiny_models.model("gemma2", len(tokenizer), "eager")
    monkeypatch.setattr(masks_module, "_writer", lambda _: masks_module._shown)
    assert "on a tiny twin it differs" in proven("packed", model, rows_of(model, tokenizer)).reason


def test_what_is_refused_falls_to_the_next_path(llama, monkeypatch):
    causal_mask(monkeypatch)
    run = lj.judge(llama[0], tiny_models.items(1), tokenizer=llama[1], device="cpu")
    session = run.provenance["sessions"][-1]
    assert session["path"] == "shared"
    assert session["proof"]["ok"]
    assert [refused["path"] for refused in session["refused_paths"]] == ["packed"]
    assert "on a tiny twin" in session["refused_paths"][0]["reason"]


def test_no_memory_for_a_path_refuses_it(llama, rows, monkeypatch):
    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(packed_module, "masks", full)
    assert not proven("packed", llama[0], rows).ok


def test_experts_may_move_another_row_within_the_noise_only(llama, rows, monkeypatch):
    monkeypatch.setattr(Ground, "noise", 1e-2)
    blind_twin(monkeypatch)
    monkeypatch.setattr(shared_module, "batch", neighbours_seen(shared_module.batch))
    assert "moves another" in proven("shared", llama[0], rows).reason
    model = copy.copy(llama[0])
    model.config = copy.deepcopy(llama[0].config)
    model.config.num_experts = 4
    monkeypatch.setattr(proof_module, "_spread", lambda *_: 5e-3)
    assert proven("shared", model, rows).ok
    monkeypatch.setattr(proof_module, "_spread", lambda *_: 2e-2)
    assert "moves another" in proven("shared", model, rows).reason


# --- what the proof stands on --------------------------------------------------------------------------------------


@pytest.mark.parametrize("lengths", [(40, 40, 40), (9, 30), (50,), (3,)])
def test_rows_of_the_twin_branch_twice_and_differ_in_length(lengths):
    made = branched([Row(n, (*range(length - 2), 60 + n, 61), ()) for n, length in enumerate(lengths)], 97)
    assert len(made) == 2 * len(lengths)
    assert len({row.ids for row in made}) == len(made)
    assert len(made[0].ids) == lengths[0]
    assert all(0 <= place < len(row.ids) for row in made for place, _ in row.places)
    for one, other in zip(made[::2], made[1::2], strict=True):
        (half, _), (end, _) = one.places
        assert one.ids[: half + 1] == other.ids[: half + 1]
        assert one.ids[half + 1] != other.ids[half + 1]
        assert end == len(one.ids) - 1


@pytest.mark.parametrize("name", sorted(set(tiny_models.PACKED)))
def test_twin_is_strong_enough_to_show_a_wrong_mask(name):
    model, _ = tiny_models.judge(name)
    small = Forward(twin_module.twin(model, torch.float32))
    ids = tuple(range(3, 63))
    changed = (*(token + 1 for token in ids[:-2]), *ids[-2:])
    one, other = (plain(small, [Row(0, row, ((59, ()),))]) for row in (ids, changed))
    assert (one - other).abs().max() > 0.1


@pytest.mark.parametrize(
    ("kind", "special", "count"),
    [
        ("qwen2", {"num_hidden_layers": 30, "use_sliding_window": True, "max_window_layers": 28}, 6),
        ("gemma3_text", {"num_hidden_layers": 26}, 6),
        ("olmo3", {"num_hidden_layers": 32}, 6),
        ("llama4_text", {"num_hidden_layers": 48}, 6),
        ("llama", {"num_hidden_layers": 3}, 3),
    ],
)
def test_twin_has_every_type_of_layer(kind, special, count):
    config = AutoConfig.for_model(kind, **special)
    small = twin_module.small(config)
    assert small.num_hidden_layers == count
    types = getattr(config, "layer_types", None)
    if types:
        assert set(small.layer_types) == set(types)
        assert len(small.layer_types) == count
    for name in ("sliding_window", "attention_chunk_size"):
        assert getattr(small, name, None) == getattr(config, name, None)


@pytest.mark.parametrize("path", PATHS)
def test_a_model_that_ignores_the_cache_is_plain(path, llama, rows, monkeypatch):
    original = forward_module.Forward._logits
    monkeypatch.setattr(
        Forward, "_logits", lambda self, ids, keep, cache, exact, _: original(self, ids, keep, None, exact, {})
    )
    found = proven(path, llama[0], rows)
    assert not found.ok
    assert "this model ignores the cache" in found.reason


@pytest.mark.parametrize("name", sorted(tiny_models.ROPES))
def test_a_rope_that_changes_with_the_length_gets_no_cache(name):
    """Nor do longer prompts move shorter ones: each is what a model says that has met no other prompt."""
    model, tokenizer = tiny_models.judge(name)
    backend = models.open_backend(models.parse(model, tokenizer=tokenizer))
    items = tiny_models.items(3)
    queries = [query for item in reversed(items) for query in study(items).queries(backend, [item])[:2]]
    backend.prepare(queries, queries)
    assert backend.path == "plain"
    assert [refused["path"] for refused in backend.refused_paths] == ["packed", "shared"]
    assert all(f"rope of type {name.split('-')[1]}" in refused["reason"] for refused in backend.refused_paths)
    read = backend.read(queries, 10_000)
    for query, logp in zip(queries, read.logp, strict=True):
        fresh = tiny_models.judge(name)[0]
        with torch.inference_mode():
            expected = fresh(input_ids=torch.tensor([query.tokens.context])).logits[0, -1].log_softmax(-1)
        np.testing.assert_allclose(logp, expected[[tail[0] for tail in query.tokens.tails]], atol=1e-4)


def test_out_of_memory_halves_the_budget_and_gives_the_same_numbers(llama, monkeypatch):
    model, tokenizer = llama
    whole = lj.judge(model, tiny_models.items(), tokenizer=tokenizer, device="cpu")
    original, read = type(model).forward, HFJudge.read
    reading = []

    @functools.wraps(original)
    def small_device(self, input_ids, **inputs):
        if reading and input_ids.numel() > 300:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return original(self, input_ids=input_ids, **inputs)

    def read_on_it(self, queries, budget):
        reading.append(budget)
        try:
            return read(self, queries, budget)
        finally:
            reading.clear()

    monkeypatch.setattr(type(model), "forward", small_device)
    monkeypatch.setattr(HFJudge, "read", read_on_it)
    with pytest.warns(UserWarning, match="halved"):
        run = lj.judge(model, tiny_models.items(), tokenizer=tokenizer, device="cpu")
    assert run.provenance["halvings"]
    assert run.provenance["sessions"][-1]["path"] == "packed"
    np.testing.assert_allclose(run.logp, whole.logp, atol=1e-4)


def test_no_memory_for_the_longest_prompt_is_an_error_that_names_its_item(llama, monkeypatch, tmp_path):
    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(type(llama[0]), "forward", functools.wraps(type(llama[0]).forward)(full))
    with pytest.raises(
        ModelError, match="out of memory with the prompts of item '.*', the longest: CUDA out of memory"
    ):
        lj.judge(llama[0], tiny_models.items(), tokenizer=llama[1], device="cpu", out=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_head_that_is_not_the_models_own_is_not_used(llama, rows, monkeypatch):
    model, tokenizer = llama
    backend = models.open_backend(models.parse(copy.deepcopy(model).to(torch.bfloat16), tokenizer=tokenizer))
    project = head_module._project
    monkeypatch.setattr(
        head_module, "_project", lambda *args: project(*args).roll(1, -1)
    )  # every token is its neighbour
    backend._check_head(rows[0].ids)
    assert backend.provenance()["head"] == "the model's own"


@pytest.mark.parametrize(("dtype", "scale"), [(torch.float32, 1.001), (torch.bfloat16, 1.05)])
@pytest.mark.parametrize("name", ["llama", "gemma2", "cohere", "granite"])  # the last three scale or cap logits
def test_a_head_scaled_again_is_noticed_at_start(name, dtype, scale, monkeypatch):
    model, tokenizer = tiny_models.judge(name)
    backend = models.open_backend(models.parse(model.to(dtype), tokenizer=tokenizer))
    asked = study(tiny_models.items(1))
    queries = asked.queries(backend, asked.itemset.items)
    project = head_module._project
    monkeypatch.setattr(head_module, "_project", lambda *args: project(*args) * scale)
    backend.prepare(queries, queries)
    assert backend.provenance()["head"] == "the model's own"
    context = queries[0].tokens.context
    with torch.inference_mode():
        own = model(input_ids=torch.tensor([context]), use_cache=False).logits[0, -1].float().log_softmax(-1)
    expected = [float(own[tail[0]]) for tail in queries[0].tokens.tails]
    np.testing.assert_allclose(backend.read_plain(queries[:1]).logp[0], expected, atol=1e-4)


@pytest.mark.parametrize("name", ["llama", "gemma2", "cohere", "granite"])
def test_a_right_head_is_used(name):
    model, tokenizer = tiny_models.judge(name)
    backend = models.open_backend(models.parse(model.to(torch.bfloat16), tokenizer=tokenizer))
    asked = study(tiny_models.items(1))
    queries = asked.queries(backend, asked.itemset.items)
    backend._check_head(queries[0].tokens.context)
    assert backend.provenance()["head"] == "float32"


def test_nan_weights_are_an_error_not_a_number(llama):
    model, tokenizer = copy.deepcopy(llama[0]), llama[1]
    with torch.no_grad():
        model.lm_head.weight[5] = float("nan")
    with pytest.raises(lj.InputError, match="not finite"):
        lj.judge(model, tiny_models.items(1), tokenizer=tokenizer, device="cpu")


def test_a_run_of_one_ordering_is_proven_too(llama):
    model, tokenizer = llama
    run = lj.judge(model, tiny_models.items(), tokenizer=tokenizer, orderings="identity", device="cpu")
    assert run.provenance["sessions"][-1]["path"] == "packed"
    assert run.provenance["sessions"][-1]["proof"]["reason"] == "proven"


def test_a_leak_shows_with_one_prompt_too(llama, rows, monkeypatch):
    blind_twin(monkeypatch)
    leaking_mask(monkeypatch)
    assert "a token of one prompt moves another" in proven("packed", llama[0], rows[:1]).reason


def test_a_plain_run_has_no_noise_floor(llama, monkeypatch):
    model, tokenizer = llama
    monkeypatch.setattr(proof_module, "_twin_nats", lambda *_: 1.0)
    run = lj.judge(model, tiny_models.items(1), tokenizer=tokenizer, device="cpu")
    assert run.provenance["sessions"][-1]["path"] == "plain"
    assert run.provenance["noise_floor"] is None
