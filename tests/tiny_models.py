"""Tiny random judges, one per architecture that matters, with weights strong enough that a wrong mask shows."""

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from logitjudge.backends.hf.twin import strengthen
from logitjudge.core import Item, Level, Rubric

CHAT = (
    "{{ bos_token }}{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIAL = ["<pad>", "<s>", "</s>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"]
COMMON = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
UNLIMITED = {"bloom", "mamba"}  # their configurations know no longest prompt
WINDOW = {"sliding_window": 16}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
ROPE = {"rope_theta": 10000.0, "original_max_position_embeddings": 64}
QWEN_EXPERTS = {"head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
ARCHITECTURES: dict[str, tuple[str, dict[str, Any]]] = {  # windows and chunks are shorter than the prompts
    "llama": ("llama", {}),
    "llama-wide": ("llama", {"head_dim": 32}),  # the narrowest heads that vLLM takes on a CPU
    "qwen2": ("qwen2", {}),
    "qwen2-window": ("qwen2", {"use_sliding_window": True, "max_window_layers": 2, **WINDOW}),
    "qwen3": ("qwen3", {"head_dim": 8}),
    "qwen3-moe": ("qwen3_moe", QWEN_EXPERTS),
    "gpt2": ("gpt2", {"n_embd": 32, "n_layer": 4, "n_head": 4, "n_positions": 4096, "n_inner": 64}),
    "gpt-neox": ("gpt_neox", {}),
    "opt": ("opt", {"ffn_dim": 64, "word_embed_proj_dim": 32}),
    "gemma": ("gemma", {"head_dim": 8}),
    "gemma2": ("gemma2", {"head_dim": 8}),
    "gemma2-window": ("gemma2", {"head_dim": 8, **WINDOW}),
    "gemma3-window": ("gemma3_text", {"head_dim": 8, "num_hidden_layers": 6, **WINDOW}),
    "mistral": ("mistral", {"sliding_window": None}),
    "mistral-window": ("mistral", WINDOW),
    "mixtral": ("mixtral", EXPERTS),
    "olmo": ("olmo", {}),
    "olmo2": ("olmo2", {}),
    "olmo3-window": ("olmo3", WINDOW),
    "phi3": ("phi3", {"sliding_window": None}),
    "phi3-window": ("phi3", WINDOW),
    "phi3-longrope": (
        "phi3",
        {
            "sliding_window": None,
            "original_max_position_embeddings": 64,
            "rope_parameters": {
                "rope_type": "longrope",
                "rope_theta": 10000.0,
                "short_factor": [1.0] * 4,
                "long_factor": [4.0] * 4,
                "original_max_position_embeddings": 64,
            },
        },
    ),
    "llama-dynamic": (
        "llama",
        {
            "max_position_embeddings": 64,
            "rope_parameters": {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0},
        },
    ),
    "falcon": ("falcon", {"alibi": False}),
    "falcon-alibi": ("falcon", {"alibi": True}),
    "bloom": ("bloom", {"n_layer": 4, "n_head": 4}),
    "mpt": ("mpt", {"d_model": 32, "n_heads": 4, "n_layers": 4, "max_seq_len": 4096}),
    "cohere": ("cohere", {}),
    "cohere2-window": ("cohere2", WINDOW),
    "granite": (
        "granite",
        {"logits_scaling": 4.0, "embedding_multiplier": 2.0, "residual_multiplier": 0.5, "attention_multiplier": 0.3},
    ),
    "gpt-oss": ("gpt_oss", {"head_dim": 8, **WINDOW, **EXPERTS}),
    "smollm3": ("smollm3", {}),
    "deepseek-v3": (
        "deepseek_v3",
        {
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "n_group": 1,
            "topk_group": 1,
            "moe_intermediate_size": 32,
            "q_lora_rank": 16,
            "kv_lora_rank": 16,
            "qk_rope_head_dim": 8,
            "qk_nope_head_dim": 8,
            "v_head_dim": 8,
            "first_k_dense_replace": 1,
            "num_key_value_heads": 4,
        },
    ),
    "llama4-chunks": (
        "llama4_text",
        {"head_dim": 8, "attention_chunk_size": 16, "intermediate_size_mlp": 64, "num_local_experts": 2},
    ),
    "llama-llama3": (
        "llama",
        {
            "rope_parameters": {
                **ROPE,
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
            },
        },
    ),
    "llama-yarn": ("llama", {"rope_parameters": {**ROPE, "rope_type": "yarn", "factor": 4.0}}),
    "mamba": ("mamba", {"state_size": 8}),
    "mamba2": (
        "mamba2",
        {"state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 2, "expand": 2, "chunk_size": 16},
    ),
    "jamba": (
        "jamba",
        {
            "num_experts": 2,
            "num_experts_per_tok": 1,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "expert_layer_period": 2,
            "expert_layer_offset": 1,
            "mamba_d_state": 8,
            "use_mamba_kernels": False,
        },
    ),
    "falcon-h1": (
        "falcon_h1",
        {
            "mamba_d_ssm": 64,
            "mamba_n_heads": 8,
            "mamba_d_head": 8,
            "mamba_n_groups": 2,
            "mamba_d_state": 8,
            "mamba_chunk_size": 16,
            "head_dim": 8,
        },
    ),
    "lfm2": ("lfm2", {"layer_types": ["conv", "full_attention"] * 2, "block_multiple_of": 8}),
    "qwen3-next": (
        "qwen3_next",
        {
            **QWEN_EXPERTS,
            "shared_expert_intermediate_size": 32,
            "linear_num_value_heads": 4,
            "linear_num_key_heads": 2,
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
        },
    ),
}
ALIBI = {"falcon-alibi", "bloom", "mpt"}  # positions stand in a bias that knows no tree
ROPES = {"phi3-longrope", "llama-dynamic"}  # their frequencies change with the length, beyond 64 tokens
RECURRENT = {"mamba", "mamba2", "jamba", "falcon-h1", "lfm2", "qwen3-next"}
PACKED = sorted(ARCHITECTURES.keys() - ALIBI - ROPES - RECURRENT)


def tokenizer(merges: tuple[str, ...] = (), chat: bool = True) -> PreTrainedTokenizerFast:
    """Byte-level tokenizer; `merges` are strings that become one token."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: n for n, piece in enumerate([*SPECIAL, *alphabet])}
    pairs = []
    for merge in merges:
        piece = merge.replace(" ", "Ġ")
        left = piece[0]
        for letter in piece[1:]:
            pairs.append((left, letter))
            left += letter
            vocabulary.setdefault(left, len(vocabulary))
    core = Tokenizer(models.BPE(vocabulary, pairs))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens(SPECIAL)
    made = PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", bos_token="<s>", eos_token="</s>")
    made.chat_template = CHAT if chat else None
    return made


def model(name: str, vocabulary: int, attention: str | None = None) -> Any:
    """A strong random float32 model of an architecture, with its own attention implementation or another."""
    kind, special = ARCHITECTURES[name]
    common = {
        name: value for name, value in COMMON.items() if kind not in UNLIMITED or name != "max_position_embeddings"
    }
    config = AutoConfig.for_model(kind, **{**common, "vocab_size": vocabulary, **special})
    torch.manual_seed(0)
    made = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation=attention)
    strengthen(made)
    return made.eval()


def judge(name: str, merges: tuple[str, ...] = (), chat: bool = True) -> tuple[Any, PreTrainedTokenizerFast]:
    """Model and tokenizer that fit each other."""
    tokens = tokenizer(merges, chat)
    return model(name, len(tokens)), tokens


def save(folder: Path, name: str = "llama", merges: tuple[str, ...] = (), chat: bool = True) -> Path:
    """A model folder as a user has it."""
    made, tokens = judge(name, merges, chat)
    made.save_pretrained(folder)
    tokens.save_pretrained(folder)
    return folder


def items(count: int = 3, rubric: Rubric | None = None) -> list[Item]:
    """Short items of different lengths."""
    rubric = rubric or Rubric("short", "Is it true?", tuple(Level(k, f"text {'abcde'[k - 1]}") for k in range(1, 6)))
    return [
        Item(f"item-{n}", {"instruction": "Say it." * (n + 1), "response": "It is " + "so" * n}, rubric, (1 + n % 5,))
        for n in range(count)
    ]
