"""Texts, greedy or drawn, in left-padded batches: each row up to its marker, its end, or the most tokens.

The loop is our own, so that the head is the float32 one of the readings and no generation setting of a model's authors
(a repetition penalty, say) has a part in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

from logitjudge.backends import Trace
from logitjudge.backends.hf.forward import Forward
from logitjudge.backends.hf.tokenizer import HFTokenizer
from logitjudge.tokens import Path

Choose = Callable[[torch.Tensor], torch.Tensor]


def generate(
    forward: Forward,
    tokenizer: HFTokenizer,
    contexts: Sequence[Path],
    marker: str,
    most: int,
    budget: int,
    *,
    temperature: float = 0.0,
    seeds: Sequence[int] = (),
    timeout: float | None = None,
) -> list[Trace]:
    """Write behind every context.

    Parameters
    ----------
    marker
        What ends a text; "": nothing but its own end does.
    budget
        Tokens, contexts and texts together, of one batch.
    temperature
        0: the most probable token. Otherwise tokens are drawn from the softmax of the logits over the temperature.
    seeds
        (B,) seed of each text's draws, which so do not depend on the batch; needed above temperature 0.
    timeout
        Seconds after which a text that has not ended is given up; looked at behind each token.
    """
    order = sorted(range(len(contexts)), key=lambda n: len(contexts[n]))
    made: dict[int, Trace] = {}
    for batch in _batches(order, contexts, most, budget):
        choose = _chooser(temperature, [seeds[n] for n in batch] if temperature else [])
        texts = _written(forward, tokenizer, [contexts[n] for n in batch], marker, most, choose, timeout)
        made.update(zip(batch, texts, strict=True))
    for n in [n for n, text in made.items() if text.finish == "broken"]:  # by a neighbour's padding, perhaps
        choose = _chooser(temperature, [seeds[n]] if temperature else [])
        (made[n],) = _written(forward, tokenizer, [contexts[n]], marker, most, choose, timeout)
    return [made[n] for n in range(len(contexts))]


def _batches(order: Sequence[int], contexts: Sequence[Path], most: int, budget: int) -> Iterator[list[int]]:
    batch: list[int] = []
    for n in order:
        if batch and (len(batch) + 1) * (len(contexts[n]) + most) > budget:
            yield batch
            batch = []
        batch.append(n)
    if batch:
        yield batch


def _chooser(temperature: float, seeds: Sequence[int]) -> Choose:
    """What picks the next token of each row from its (B, V) log-probabilities."""
    if not temperature:
        return lambda logp: logp.argmax(-1, keepdim=True)
    draws = [np.random.default_rng(seed) for seed in seeds]

    def choose(logp: torch.Tensor) -> torch.Tensor:
        logp = logp.double().cpu()
        reach = ((logp - logp.amax(-1, keepdim=True)) / temperature).softmax(-1).cumsum(-1)  # 0 / any temperature is 0
        at = torch.tensor([[draw.random()] for draw in draws], dtype=torch.float64) * reach[:, -1:]
        return torch.searchsorted(reach, at, right=True).clamp(max=reach.shape[-1] - 1)

    return choose


def _written(
    forward: Forward,
    tokenizer: HFTokenizer,
    contexts: Sequence[Path],
    marker: str,
    most: int,
    choose: Choose,
    timeout: float | None,
) -> list[Trace]:
    """One batch, token by token."""
    ends = end_tokens(forward.model, tokenizer)
    rows: list[list[int]] = [[] for _ in contexts]
    finish: list[Any] = [None] * len(contexts)
    longest = max(map(len, contexts))
    ids = forward.tensor([[0] * (longest - len(row)) + list(row) for row in contexts])
    mask = forward.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in contexts])
    cache = DynamicCache(config=forward.model.config.get_text_config())
    begun, late = time.monotonic(), False
    for _ in range(most):
        positions = (mask.cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        logp = forward.logp(ids, [ids.shape[1] - 1], cache, attention_mask=mask, position_ids=positions)
        broken = logp[:, -1, 0].isnan().tolist()  # log-probabilities of a place are all numbers, or none is
        finish = ["broken" if bad and how is None else how for bad, how in zip(broken, finish, strict=True)]
        ids = choose(logp[:, -1].nan_to_num()).to(ids.device)
        mask = torch.cat([mask, torch.ones_like(ids)], dim=-1)
        for n, token in enumerate(ids[:, 0].tolist()):
            if finish[n] is None:
                finish[n] = _step(rows[n], token, ends, marker, tokenizer)
        if None not in finish:
            break
        if timeout is not None and time.monotonic() - begun > timeout:
            late = True
            break
    last: Any = "timeout" if late else "length"
    return [Trace(tuple(row), tokenizer.decode(row), how or last) for row, how in zip(rows, finish, strict=True)]


def _step(row: list[int], token: int, ends: set[int], marker: str, tokenizer: HFTokenizer) -> str | None:
    """Take one token; say how the text finished, if it did."""
    if token in ends:
        return "end"
    row.append(token)
    return "marker" if marker and marker in tokenizer.decode(row[-len(marker) - 8 :]) else None


def end_tokens(model: Any, tokenizer: HFTokenizer) -> set[int]:
    """Tokens that end an answer."""
    known = [getattr(model.generation_config, "eos_token_id", None), tokenizer.end_token]
    return {token for some in known if some is not None for token in (some if isinstance(some, list) else [some])}
