"""The packed path under FlexAttention: the rule that it is given, against plain, compiled and not."""

import pytest
import tiny_models
import torch
from test_hf_packed import ROWS, VOCABULARY, by_place, largest_difference
from test_hf_proof import proven
from torch.nn.attention.flex_attention import BlockMask, create_mask

from logitjudge.backends.hf import masks as masks_module
from logitjudge.backends.hf.forward import Forward
from logitjudge.backends.hf.masks import masks
from logitjudge.backends.hf.packed import run_packed
from logitjudge.backends.hf.plain import run_plain
from logitjudge.packing import passes
from logitjudge.trie import trie

CPU = torch.device("cpu")
NOT_ON_A_CPU = {"gpt-oss"}  # transformers: no attention sinks under FlexAttention there
FLEX = sorted(
    name
    for name in tiny_models.PACKED
    if name not in NOT_ON_A_CPU and tiny_models.model(name, VOCABULARY)._supports_flex_attn
)
pytestmark = [
    # Said by torch 2.13 to transformers, whose own masks are made with an option that is no longer needed.
    pytest.mark.filterwarnings("ignore:_compile flag on create_block_mask:DeprecationWarning"),
    # Not compiled, FlexAttention computes the same, slowly: what most of these tests want.
    pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile:UserWarning"),
    # Of torch's own, on compiling.
    pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"),
]


@pytest.fixture
def uncompiled():
    with torch.compiler.set_stance("force_eager"):
        yield


def flex(name):
    return tiny_models.model(name, VOCABULARY, "flex_attention")


def test_what_is_tried():
    assert {"llama", "qwen2", "gemma2", "gemma2-window", "gemma3-window", "mistral-window"} <= set(FLEX)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("name", FLEX)
def test_packed_is_plain(name):
    assert largest_difference(Forward(flex(name)), 25) <= 1e-4


def test_packed_is_plain_when_compiled():
    """Passes of several sizes on caches of several sizes; eager says what is right."""
    torch._dynamo.reset()
    plain = by_place(run_plain(Forward(tiny_models.model("gemma2-window", VOCABULARY)), ROWS, 0))
    packed = by_place(run_packed(Forward(flex("gemma2-window")), ROWS, 33))
    assert max(float((plain[key] - packed[key]).abs().max()) for key in plain) <= 1e-4


@pytest.mark.parametrize("name", ["llama", "gemma3-window", "mistral-window", "llama4-chunks"])
def test_the_rule_is_the_boolean_mask(name):
    for step in passes(trie([row.ids for row in ROWS]), [], 25):
        shown, ruled = (masks(step, tiny_models.model(name, VOCABULARY, a), CPU) for a in ("sdpa", "flex_attention"))
        if step.chain:
            assert shown is None
            assert ruled is not None
            continue
        kinds = shown if isinstance(shown, dict) else {None: shown}
        for kind, mask in kinds.items():
            block = ruled if kind is None else ruled[kind]
            assert isinstance(block, BlockMask)
            assert block.shape == (1, 1, len(step.tokens), len(step.ends))
            assert torch.equal(create_mask(block.mask_mod, None, None, *block.shape[2:], device="cpu"), mask)


@pytest.mark.usefixtures("uncompiled")
def test_a_right_rule_is_proven():
    assert proven("packed", flex("gemma2-window"), ROWS).reason == "proven"


def no_intervals(sees):
    """Causal: every token sees all before it, in whatever branch."""
    return lambda query, key: sees(query, key) | (key <= query)


def one_more(sees):
    """Every token sees the one before it, which is another branch's where a branch begins."""
    return lambda query, key: sees(query, key) | (key == query - 1)


def one_less(sees):
    """No token sees the first."""
    return lambda query, key: sees(query, key) & (key > 0)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("broken", [no_intervals, one_more, one_less])
def test_a_broken_rule_is_refused(broken, monkeypatch):
    original = masks_module._rule
    monkeypatch.setattr(masks_module, "_rule", lambda *args: broken(original(*args)))
    assert "on a tiny twin it differs" in proven("packed", flex("llama"), ROWS).reason


@pytest.mark.usefixtures("uncompiled")
def test_a_rule_without_windows_is_refused(monkeypatch):
    original = masks_module._rule
    monkeypatch.setattr(masks_module, "_rule", lambda step, _, device: original(step, None, device))
    assert "on a tiny twin it differs" in proven("packed", flex("mistral-window"), ROWS).reason
