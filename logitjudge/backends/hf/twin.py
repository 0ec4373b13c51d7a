"""A twin of a judge: a tiny random model of the judge's own configuration, on which a wrong path shows.

Widths are small; window, rope, soft-caps, layer pattern and attention implementation are the judge's. The weights are
strong, because with a configuration's default initialisation (0.02) a wrong mask hides below any tolerance.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from logitjudge.backends.hf.load import quiet

VOCABULARY = 199
LAYERS = 6
HEADS = 4


def twin(model: Any, dtype: torch.dtype = torch.float64) -> Any:
    """The twin of `model`, or an exception of any kind where the configuration cannot be made small."""
    config = small(model.config)
    attention = getattr(model.config, "_attn_implementation", None)
    with quiet(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = AutoModelForCausalLM.from_config(config, attn_implementation=attention, dtype=dtype)
    strengthen(made)
    return made.eval()


def strengthen(model: Any) -> None:
    """Weights large enough that a wrong mask moves log-probabilities by more than 0.1."""
    generator = torch.Generator().manual_seed(1)
    embeddings = {id(model.get_input_embeddings().weight)}
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim >= 2 and "A_log" not in name:
                embedded = id(weight) in embeddings or "emb" in name or "wpe" in name
                scale = 1.0 if embedded else 0.6 if "conv" in name else 1.6 / weight.shape[-1] ** 0.5
                weight.copy_(torch.randn(weight.shape, generator=generator) * scale)


def small(config: Any) -> Any:
    """The configuration with small widths, few layers and experts, and its pattern of layers kept."""
    config = copy.deepcopy(config)
    config.quantization_config = None
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    heads = text.num_attention_heads
    size = getattr(text, "head_dim", None) or text.hidden_size // heads
    few = min(HEADS, heads)
    groups = heads // (getattr(text, "num_key_value_heads", None) or heads)
    layers = _layers(text)
    wanted = {
        "vocab_size": VOCABULARY,
        "num_attention_heads": few,
        "num_key_value_heads": max(1, few // groups),
        "hidden_size": few * size,
        "intermediate_size": 2 * few * size,
        "num_hidden_layers": len(layers),
    }
    total = text.num_hidden_layers
    for name, value in wanted.items():
        if getattr(text, name, None) is not None:
            setattr(text, name, value)
    _fewer_experts(text)
    for name, value in list(vars(text).items()):
        if isinstance(value, list) and len(value) == total:  # one entry a layer: types, positions, experts
            setattr(text, name, [value[n] for n in layers])
    for name in ("pad_token_id", "bos_token_id", "eos_token_id"):
        setattr(text, name, 0 if getattr(text, name, None) is not None else None)
    return config


def _layers(text: Any) -> list[int]:
    """Which layers the twin has: the first ones, and the first of every type that is not among them."""
    few = list(range(min(LAYERS, text.num_hidden_layers)))
    types = list(getattr(text, "layer_types", None) or [])
    missing = {kind for kind in types if kind not in types[: len(few)]}
    kept = few[: len(few) - len(missing)] if len(missing) < len(few) else few
    return kept + sorted(types.index(kind) for kind in missing)


def _fewer_experts(text: Any) -> None:
    for name in ("num_experts", "num_local_experts", "n_routed_experts"):
        if getattr(text, name, None):
            setattr(text, name, min(4, getattr(text, name)))
    for name in ("num_experts_per_tok", "n_group", "topk_group"):
        if getattr(text, name, None):
            setattr(text, name, min(2, getattr(text, name)))
    for name in ("moe_intermediate_size", "shared_expert_intermediate_size"):
        if getattr(text, name, None):
            setattr(text, name, 64)
