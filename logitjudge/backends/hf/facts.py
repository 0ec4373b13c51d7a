"""What a loaded judge is and takes, which cannot be read from its prompts."""

from __future__ import annotations

from typing import Any

import torch


def facts(model: Any, tokenizer: Any, chat_template: str | None, device: torch.device) -> dict[str, Any]:
    """JSON values: bytes of weights and of free memory, the chat template, what the tokenizer does by itself.

    Parameters
    ----------
    model, tokenizer
        As transformers has them.
    chat_template
        The one in use.
    device
        Where the model takes its inputs.
    """
    return {
        "weight_bytes": sum(weight.numel() * weight.element_size() for weight in model.parameters()),
        "free_bytes": free_bytes(device),
        **of_tokenizer(tokenizer, chat_template),
    }


def of_tokenizer(tokenizer: Any, chat_template: str | None) -> dict[str, Any]:
    """Those of the facts that are known without the model."""
    bos = tokenizer.bos_token_id
    return {
        "chat_template": chat_template,
        "bos": tokenizer.bos_token,
        "adds_bos": bos is not None and tokenizer("")["input_ids"][:1] == [bos],
        "special_tokens": special_tokens(tokenizer),
    }


def special_tokens(tokenizer: Any) -> list[str]:
    """Strings that the tokenizer turns into control tokens wherever they stand."""
    added = getattr(tokenizer, "added_tokens_decoder", {}).values()
    return sorted({token.content for token in added if token.special} | set(tokenizer.all_special_tokens))


def free_bytes(device: torch.device) -> int | None:
    """Memory that is left where the model runs, or None where the device does not say."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    if device.type != "cpu":
        return None
    import psutil  # type: ignore[import-untyped]  # accelerate brings it

    return int(psutil.virtual_memory().available)


def longest(config: Any) -> int | None:
    """How many tokens a prompt may have, or None where the configuration does not say."""
    text = config.get_text_config()
    most: int | None = getattr(text, "max_position_embeddings", None)
    rope = getattr(text, "rope_parameters", None) or {}
    if most and rope.get("rope_type") == "dynamic":  # `most` is where it begins to stretch
        return int(most * rope["factor"])
    return most
