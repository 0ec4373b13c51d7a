"""Blockwise sdpa against transformers' own, on random masks; and how a pass switches it on and off."""

import pytest
import tiny_models
import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from logitjudge.backends.hf import attention
from logitjudge.backends.hf.attention import blocks, blockwise
from logitjudge.backends.hf.forward import Forward
from logitjudge.backends.hf.packed import run_packed

CPU = torch.device("cpu")


class Module(torch.nn.Module):
    num_key_value_groups = 3
    is_causal = True


def case(n=300, m=350, share=0.2):
    """Queries, keys, values, and a mask in which each query sees some keys, its own among them."""
    numbers = torch.Generator().manual_seed(1)
    query = torch.randn(1, 6, n, 8, generator=numbers, dtype=torch.float64)
    key, value = torch.randn(2, 1, 2, m, 8, generator=numbers, dtype=torch.float64)
    sees = torch.rand(1, 1, n, m, generator=numbers) < share
    sees[..., m - n :].diagonal(dim1=-2, dim2=-1).fill_(True)
    sees[..., 100:140] = False
    return query, key, value, sees


@pytest.mark.parametrize("scaling", [None, 0.3])
def test_it_is_sdpa(scaling):
    inputs = case()
    with blockwise(CPU):
        ours, _ = ALL_ATTENTION_FUNCTIONS["sdpa"](Module(), *inputs, scaling=scaling)
    theirs, _ = sdpa_attention_forward(Module(), *inputs, scaling=scaling)
    assert ours.shape == (1, 300, 6, 8)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def test_blocks_hold_what_is_seen_and_no_more():
    mask = case()[3]
    made = blocks(mask, torch.float32)
    assert [len(added) for _, added in made] == [128, 128, 44]
    for number, (keys, added) in enumerate(made):
        sees = mask[0, 0, 128 * number : 128 * (number + 1)]
        assert keys.tolist() == [j for j in range(350) if sees[:, j].any()]
        assert not set(keys.tolist()) & set(range(100, 140))
        assert torch.equal(added == 0, sees[:, keys])
        assert torch.equal(added == -torch.inf, ~sees[:, keys])


@pytest.mark.parametrize("other", ["no mask", "added mask", "batch", "softcap", "position bias", "dropout"])
def test_what_it_does_not_know_is_left_to_transformers(other, monkeypatch):
    query, key, value, mask = case()
    options = {}
    if other == "no mask":
        mask = None
    elif other == "added mask":
        mask = torch.zeros(mask.shape, dtype=torch.float64).masked_fill(~mask, -torch.inf)
    elif other == "batch":
        query, key, value = (states.expand(2, -1, -1, -1) for states in (query, key, value))
    else:
        options = {other.replace(" ", "_"): torch.zeros(1) if other == "position bias" else 0.5}
    given = []
    monkeypatch.setattr(attention, "sdpa_attention_forward", lambda *args, **options: given.append((args[4], options)))
    with blockwise(CPU):
        ALL_ATTENTION_FUNCTIONS["sdpa"](Module(), query, key, value, mask, **options)
    assert given[0][0] is mask
    assert given[0][1] == {"scaling": None, **options}


def test_two_masks_in_one_pass_are_kept_apart():
    query, key, value, mask = case()
    other = mask.roll(7, -1)
    with blockwise(CPU):
        attend = ALL_ATTENTION_FUNCTIONS["sdpa"]
        made = [attend(Module(), query, key, value, m)[0] for m in (mask, other, mask)]
    assert torch.equal(made[0], made[2])
    torch.testing.assert_close(made[1], sdpa_attention_forward(Module(), query, key, value, other)[0])
    assert (made[1] - made[0]).abs().max() > 0.1


def test_it_ends_with_the_pass_also_when_that_fails():
    before = ALL_ATTENTION_FUNCTIONS["sdpa"]
    with pytest.raises(ZeroDivisionError), blockwise(CPU):
        1 / (ALL_ATTENTION_FUNCTIONS["sdpa"] is before)
    assert ALL_ATTENTION_FUNCTIONS["sdpa"] is before
    with blockwise(torch.device("cuda")):
        assert ALL_ATTENTION_FUNCTIONS["sdpa"] is before


def test_a_pass_uses_it(monkeypatch):
    from test_hf_packed import ROWS, VOCABULARY

    seen = []
    original = attention.blocks
    monkeypatch.setattr(
        attention, "blocks", lambda mask, dtype: (seen.append(mask.shape[-2:]), original(mask, dtype))[1]
    )
    list(run_packed(Forward(tiny_models.model("llama", VOCABULARY)), ROWS, 25))
    assert len(seen) >= 3
    assert max(n for n, _ in seen) == 25
    layered = len(seen)
    list(run_packed(Forward(tiny_models.model("gemma3-window", VOCABULARY)), ROWS, 1_000))
    assert len(seen) == layered + 2  # one for each kind of layer, not for each layer
