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
ARCHITECTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "qwen2": ("qwen2", {}),
    "gpt2": ("gpt2", {"n_embd": 32, "n_layer": 4, "n_head": 4, "n_positions": 4096, "n_inner": 64}),
    "gemma2": ("gemma2", {"head_dim": 8}),
    "gemma2-window": ("gemma2", {"head_dim": 8, "sliding_window": 16}),
    "mistral-window": ("mistral", {"sliding_window": 16}),
    "mixtral": ("mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2}),
    "cohere": ("cohere", {}),
    "granite": (
        "granite",
        {"logits_scaling": 4.0, "embedding_multiplier": 2.0, "residual_multiplier": 0.5, "attention_multiplier": 0.3},
    ),
    "bloom": ("bloom", {"n_layer": 4, "n_head": 4}),
    "mamba": ("mamba", {"state_size": 8}),
}


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


def model(name: str, vocabulary: int) -> Any:
    """A strong random float32 model of an architecture."""
    kind, special = ARCHITECTURES[name]
    common = {
        name: value for name, value in COMMON.items() if kind not in UNLIMITED or name != "max_position_embeddings"
    }
    config = AutoConfig.for_model(kind, **{**common, "vocab_size": vocabulary, **special})
    torch.manual_seed(0)
    made = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
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
