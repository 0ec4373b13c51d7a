"""The proof that the shared path may be used for this judge, before anything is read with it.

Three points: a twin in float64 at the run's longest prompt agrees with plain to 1e-4 nats; on the real weights, what stands
in another row cannot be seen; and on the real weights the path differs from plain no more than plain batching does.
A rope whose frequencies change with the length is never given a cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from logitjudge.backends import OutOfMemory
from logitjudge.backends.hf.forward import Forward
from logitjudge.backends.hf.plain import run_plain
from logitjudge.backends.hf.sequences import Row
from logitjudge.backends.hf.shared import batch, run_shared
from logitjudge.backends.hf.twin import VOCABULARY, twin
from logitjudge.tokens import common_prefix

EXACT = 1e-4  # nats
ROWS = 3
PADDING = 7
LIKELY = 200  # most probable tokens that the noise is measured on


@dataclass(frozen=True, slots=True)
class Proof:
    """Whether a path may be used, and why; all differences in nats."""

    ok: bool
    reason: str
    twin_nats: float | None = None
    noise_nats: float | None = None
    path_nats: float | None = None


def prove_shared(forward: Forward, longest: Sequence[Row], shortest: Sequence[Row]) -> Proof:
    """Prove the shared path: its structure on the run's longest prompts, the real weights on its shortest."""
    if reason := _changing_rope(forward.model.config, max(len(row.ids) for row in longest)):
        return Proof(False, reason)
    long, short = (_several(rows, forward.model.config.get_text_config().vocab_size) for rows in (longest, shortest))
    try:
        return _twin_agrees(forward, long) or _nothing_leaks(forward, short) or _no_more_than_noise(forward, short)
    except OutOfMemory:
        raise
    except Exception as error:  # a model that refuses the path says so in a hundred ways; each means: not this path
        return Proof(False, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}")


def _several(rows: Sequence[Row], vocabulary: int) -> list[Row]:
    """Some rows of one group; where there is one only, another that differs in its last token, so that a prefix is shared."""
    rows = [replace(row, query=0) for row in rows[:ROWS]]
    if len(rows) == 1:
        rows.append(replace(rows[0], ids=(*rows[0].ids[:-1], (rows[0].ids[-1] + 2) % vocabulary)))
    return rows


def _changing_rope(config: Any, longest: int) -> str:
    text = config.get_text_config()
    rope = getattr(text, "rope_parameters", None) or getattr(text, "rope_scaling", None) or {}
    for kind in [rope, *(value for value in rope.values() if isinstance(value, dict))]:
        name = kind.get("rope_type", kind.get("type"))
        most = kind.get("original_max_position_embeddings") or getattr(text, "original_max_position_embeddings", None)
        most = most or getattr(text, "max_position_embeddings", None) or 0
        if name in ("longrope", "dynamic") and longest > most:
            return f"rope of type {name} changes beyond {most} tokens, and the longest prompt has {longest}"
    return ""


def _run(forward: Forward, rows: Sequence[Row]) -> torch.Tensor:
    return torch.cat([logp for _, logp in run_shared(forward, rows, 1 << 30, [0])])


def _alone(forward: Forward, rows: Sequence[Row]) -> torch.Tensor:
    return torch.cat([logp for _, logp in run_plain(forward, rows, 0)])


def _twin_agrees(forward: Forward, rows: Sequence[Row]) -> Proof | None:
    """In float64, where rounding cannot be taken for an error; in float32 where the model's kernels know no other."""
    rows = _apart([replace(row, ids=tuple(token % (VOCABULARY - 3) + 3 for token in row.ids)) for row in rows])
    try:
        nats = _twin_nats(Forward(twin(forward.model, torch.float64)), rows)
    except RuntimeError:
        nats = _twin_nats(Forward(twin(forward.model, torch.float32)), rows)
    return None if nats <= EXACT else Proof(False, f"on a tiny twin it differs from plain by {nats:.2g} nats", nats)


def _twin_nats(small: Forward, rows: Sequence[Row]) -> float:
    return float((_run(small, rows) - _alone(small, rows)).abs().max())


def _apart(rows: Sequence[Row]) -> list[Row]:
    """Rows of clearly different lengths, so that padding is put to the test."""
    cut = []
    for n, row in enumerate(rows):
        keep = min(len(row.ids), max(len(row.ids) - 3 * n, common_prefix([r.ids for r in rows]) + 1))
        cut.append(replace(row, ids=row.ids[:keep], places=((keep - 1, ()),)))
    return cut


def _nothing_leaks(forward: Forward, rows: Sequence[Row]) -> Proof | None:
    """Changing the last token of one row leaves the other rows as they are, to the bit."""
    *others, last = rows
    changed = [
        *others,
        replace(last, ids=(*last.ids[:-1], (last.ids[-1] + 1) % forward.model.config.get_text_config().vocab_size)),
    ]
    n = sum(len(row.places) for row in others)
    before, after = _run(forward, rows)[:n], _run(forward, changed)[:n]
    return (
        None
        if torch.equal(before, after)
        else Proof(False, f"a token of one prompt moves another by {float((before - after).abs().max()):.2g} nats")
    )


def _no_more_than_noise(forward: Forward, rows: Sequence[Row]) -> Proof:
    """On real weights, the path moves likely tokens (root mean square) by at most twice what padding a batch does.

    Plain batching happens to use the same kernels as a prompt alone at some lengths, so it is looked at for several.
    """
    noise = max(
        _spread(_alone(forward, cut), _padded(forward, cut)) for cut in (rows, _first(rows, 0.7), _first(rows, 0.4))
    )
    nats = _spread(_alone(forward, rows), _run(forward, rows))
    ok = nats <= max(EXACT, 2 * noise)
    reason = (
        "proven"
        if ok
        else f"on the real weights it differs from plain by {nats:.2g} nats, plain batching by {noise:.2g}"
    )
    return Proof(ok, reason, None, noise, nats)


def _first(rows: Sequence[Row], share: float) -> list[Row]:
    """The beginnings of rows, read behind their last token."""
    return [
        replace(row, ids=row.ids[: (n := max(1, int(share * len(row.ids))))], places=((n - 1, ()),)) for row in rows
    ]


def _padded(forward: Forward, rows: Sequence[Row]) -> torch.Tensor:
    """Plain batching with a longer row in the batch."""
    longer = replace(rows[0], ids=rows[0].ids + rows[0].ids[:PADDING])
    return torch.cat(batch(forward, [*rows, longer], 0, None)[:-1])


def _spread(alone: torch.Tensor, other: torch.Tensor) -> float:
    """Root mean square difference over the most probable tokens, in nats."""
    likely = alone.topk(min(LIKELY, alone.shape[-1]), dim=-1).indices
    return float((other - alone).gather(-1, likely).pow(2).mean().sqrt())
