"""The proof at start: a wrong shared path cannot pass, on any of its three points."""

import copy
import functools

import numpy as np
import pytest
import tiny_models
import torch
from transformers import AutoConfig, AutoModelForCausalLM

import logitjudge as lj
from logitjudge import models
from logitjudge.backends.hf import (
    forward as forward_module,
    proof as proof_module,
    shared as shared_module,
    twin as twin_module,
)
from logitjudge.backends.hf.forward import Forward
from logitjudge.backends.hf.proof import prove_shared
from logitjudge.backends.hf.sequences import sequences
from logitjudge.study import study


@pytest.fixture(scope="module")
def llama():
    return tiny_models.judge("llama")


@pytest.fixture(scope="module")
def rows(llama):
    model, tokenizer = llama
    backend = models.open_backend(models.parse(model, tokenizer=tokenizer))
    items = tiny_models.items(1)
    asked = study(items)
    return sequences(asked.queries(backend, items))


def test_a_right_path_is_proven(llama, rows):
    assert prove_shared(Forward(llama[0]), rows, rows).ok


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
def test_a_broken_path_is_refused(llama, rows, broken, monkeypatch):
    for module in (shared_module, proof_module):
        monkeypatch.setattr(module, "batch", broken(shared_module.batch))
    found = prove_shared(Forward(llama[0]), rows, rows)
    assert not found.ok
    assert "differs" in found.reason or "moves" in found.reason


def test_a_leak_alone_is_refused_on_the_real_weights(llama, rows, monkeypatch):
    monkeypatch.setattr(proof_module, "_twin_agrees", lambda *_: None)
    monkeypatch.setattr(proof_module, "batch", neighbours_seen(shared_module.batch))
    monkeypatch.setattr(shared_module, "batch", neighbours_seen(shared_module.batch))
    assert "a token of one prompt moves another" in prove_shared(Forward(llama[0]), rows, rows).reason


def test_more_than_noise_is_refused(llama, rows, monkeypatch):
    monkeypatch.setattr(proof_module, "_twin_agrees", lambda *_: None)
    monkeypatch.setattr(shared_module, "batch", shifted_positions(shared_module.batch))
    assert "on the real weights it differs" in prove_shared(Forward(llama[0]), rows, rows).reason


@pytest.mark.parametrize("name", ["llama", "gemma2-window", "mixtral", "cohere"])
def test_twin_is_strong_enough_to_show_a_wrong_mask(name):
    model, _ = tiny_models.judge(name)
    small = twin_module.twin(model, torch.float32)
    ids = torch.arange(3, 63)[None]
    with torch.inference_mode():
        plain, changed = (
            small(input_ids=x).logits[0, -1].log_softmax(-1)
            for x in (ids, torch.cat([ids[:, :-2] + 1, ids[:, -2:]], 1))
        )
    assert (plain - changed).abs().max() > 0.1


def test_a_model_that_ignores_the_cache_is_plain(llama, rows, monkeypatch):
    monkeypatch.setattr(forward_module.Forward, "trunk", lambda *_: (_ for _ in ()).throw(RuntimeError("no cache")))
    found = prove_shared(Forward(llama[0]), rows, rows)
    assert (found.ok, found.reason) == (False, "RuntimeError: no cache")


ROPES = {
    "longrope": (
        "phi3",
        {
            "rope_type": "longrope",
            "rope_theta": 10000.0,
            "short_factor": [1.0] * 4,
            "long_factor": [4.0] * 4,
            "original_max_position_embeddings": 64,
        },
    ),
    "dynamic": ("llama", {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0}),
}


@pytest.mark.parametrize("rope", sorted(ROPES))
def test_a_rope_that_changes_with_the_length_gets_no_cache(rope, tmp_path):
    kind, parameters = ROPES[rope]
    tokenizer = tiny_models.tokenizer()
    length = (
        {"max_position_embeddings": 4096, "original_max_position_embeddings": 64}
        if rope == "longrope"
        else {"max_position_embeddings": 64}
    )
    config = AutoConfig.for_model(
        kind,
        **{
            **tiny_models.COMMON,
            **length,
            "vocab_size": len(tokenizer),
            "rope_parameters": parameters,
            "sliding_window": None,
        },
    )
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    twin_module.strengthen(model)
    model.eval()
    backend = models.open_backend(models.parse(model, tokenizer=tokenizer))
    items = tiny_models.items(1)
    asked = study(items)
    queries = asked.queries(backend, items)
    backend.prepare(queries, queries)
    assert backend.path == "plain"
    assert rope in backend.proof.reason
    read = backend.read(queries[:2], 10_000)
    for query, logp in zip(queries[:2], read.logp, strict=True):
        with torch.inference_mode():
            expected = model(input_ids=torch.tensor([query.tokens.context])).logits[0, -1].log_softmax(-1)
        np.testing.assert_allclose(logp, expected[[tail[0] for tail in query.tokens.tails]], atol=1e-4)


def test_out_of_memory_halves_the_budget_and_gives_the_same_numbers(llama, monkeypatch):
    model, tokenizer = llama
    whole = lj.judge(model, tiny_models.items(), tokenizer=tokenizer, device="cpu")
    original = type(model).forward

    @functools.wraps(original)
    def small_device(self, input_ids, **inputs):
        if len(input_ids) > 4:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return original(self, input_ids=input_ids, **inputs)

    monkeypatch.setattr(type(model), "forward", small_device)
    with pytest.warns(UserWarning, match="halved"):
        run = lj.judge(model, tiny_models.items(), tokenizer=tokenizer, device="cpu")
    assert run.provenance["halvings"]
    np.testing.assert_allclose(run.logp, whole.logp, atol=1e-4)


def test_a_head_that_is_not_the_models_own_is_not_used(llama, rows, monkeypatch):
    model, tokenizer = llama
    backend = models.open_backend(models.parse(copy.deepcopy(model).to(torch.bfloat16), tokenizer=tokenizer))
    monkeypatch.setattr("logitjudge.backends.hf.head.CHUNK", 1)
    monkeypatch.setattr(torch, "cat", lambda parts, dim=0, cat=torch.cat: cat([part * 1.5 for part in parts], dim))
    backend._check_head(rows[0].ids)
    assert backend.provenance()["head"] == "the model's own"


def test_nan_weights_are_an_error_not_a_number(llama):
    model, tokenizer = copy.deepcopy(llama[0]), llama[1]
    with torch.no_grad():
        model.lm_head.weight[5] = float("nan")
    with pytest.raises(lj.InputError, match="not finite"):
        lj.judge(model, tiny_models.items(1), tokenizer=tokenizer, device="cpu")


def test_a_run_of_one_ordering_is_proven_too(llama):
    model, tokenizer = llama
    run = lj.judge(model, tiny_models.items(), tokenizer=tokenizer, orderings="identity", device="cpu")
    assert run.provenance["sessions"][-1]["proof"]["reason"] == "proven"


def test_a_plain_run_has_no_noise_floor(llama, monkeypatch):
    model, tokenizer = llama
    monkeypatch.setattr(proof_module, "_twin_agrees", lambda *_: proof_module.Proof(False, "for this test"))
    run = lj.judge(model, tiny_models.items(1), tokenizer=tokenizer, device="cpu")
    assert run.provenance["sessions"][-1]["path"] == "plain"
    assert run.provenance["noise_floor"] is None
