"""The proof that a path may be used for this judge, before anything is read with it.

Three points, for the packed and for the shared path alike: a twin in float64 at the run's longest prompt agrees with
plain to 1e-4 nats; on the real weights, a token moves no row that it does not stand in; and on the real weights the path
differs from plain no more than plain batching does. A rope whose frequencies change with the length is never given a
cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from logitjudge.backends.hf.forward import Forward
from logitjudge.backends.hf.plain import run_plain
from logitjudge.backends.hf.sequences import Row
from logitjudge.backends.hf.shared import batch
from logitjudge.backends.hf.twin import VOCABULARY, twin
from logitjudge.tokens import Path, common_prefix

Run = Callable[[Forward, Sequence[Row], int], Iterator[tuple[Row, torch.Tensor]]]
EXACT = 1e-4  # nats
ROWS = 3
PADDING = 7
LIKELY = 200  # most probable tokens that the noise is measured on
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")


@dataclass(frozen=True, slots=True)
class Proof:
    """Whether a path may be used, and why; all differences in nats, None where they are no numbers or not known."""

    ok: bool
    reason: str
    twin_nats: float | None = None
    noise_nats: float | None = None
    path_nats: float | None = None

    def __post_init__(self) -> None:
        for name in ("twin_nats", "noise_nats", "path_nats"):
            if (value := getattr(self, name)) is not None and not math.isfinite(value):
                object.__setattr__(self, name, None)


class Ground:
    """What every path is measured against, computed when first needed: plain readings of the twin and of the judge.

    Parameters
    ----------
    forward
        The judge.
    longest, shortest
        Rows of the run's longest and of its shortest prompts: the twin runs the ones, the judge the others.
    """

    def __init__(self, forward: Forward, longest: Sequence[Row], shortest: Sequence[Row]) -> None:
        self.forward = forward
        self.longest = max(len(row.ids) for row in longest)
        vocabulary = forward.model.config.get_text_config().vocab_size
        long, self.short = (_several(rows, vocabulary) for rows in (longest, shortest))
        self.tree = branched([replace(row, ids=_small(row.ids)) for row in long], VOCABULARY)
        self._twins: dict[torch.dtype, tuple[Forward, torch.Tensor]] = {}

    def twin(self, dtype: torch.dtype) -> tuple[Forward, torch.Tensor]:
        """The twin, where the judge is, and what it says of `tree` by the plain path."""
        if dtype not in self._twins:
            made = Forward(twin(self.forward.model, dtype).to(self.forward.device))
            self._twins[dtype] = made, plain(made, self.tree)
        return self._twins[dtype]

    @cached_property
    def short_plain(self) -> torch.Tensor:
        """What the judge says by the plain path."""
        return plain(self.forward, self.short)

    @cached_property
    def noise(self) -> float:
        """How much a batch moves likely tokens of the judge.

        Plain batching happens to use the same kernels as a prompt alone at some lengths, so it is looked at for several.
        """
        shorter = [_first(self.short, share) for share in (0.7, 0.4)]
        alone = [self.short_plain, *(plain(self.forward, rows) for rows in shorter)]
        return max(
            _spread(a, _padded(self.forward, rows)) for a, rows in zip(alone, [self.short, *shorter], strict=True)
        )


def prove(run: Run, ground: Ground) -> Proof:
    """Prove a path: its structure on the run's longest prompts, the real weights on its shortest."""
    if reason := _changing_rope(ground.forward.model.config, ground.longest):
        return Proof(False, reason)
    try:
        return _measured(run, ground)
    except Exception as error:  # a model that refuses the path says so in a hundred ways; each means: not this path
        return Proof(False, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}")


def _measured(run: Run, ground: Ground) -> Proof:
    exact = _twin_nats(run, ground)
    if not exact <= EXACT:
        return Proof(False, f"on a tiny twin it differs from plain by {exact:.2g} nats", exact)
    if leak := _leak(run, ground):
        return Proof(False, f"a token of one prompt moves another by {leak:.2g} nats", exact)
    nats = max(_spread(ground.short_plain, read) for read in _ways(run, ground.forward, ground.short))
    if not nats <= max(EXACT, 2 * ground.noise):
        reason = f"on the real weights it differs from plain by {nats:.2g} nats, plain batching by {ground.noise:.2g}"
        return Proof(False, reason, exact, ground.noise, nats)
    return Proof(True, "proven", exact, ground.noise, nats)


def _twin_nats(run: Run, ground: Ground) -> float:
    """In float64, where rounding cannot be taken for an error; in float32 where the model's kernels know no other."""
    try:
        return _twin_differs(run, ground, torch.float64)
    except RuntimeError:
        return _twin_differs(run, ground, torch.float32)


def _twin_differs(run: Run, ground: Ground, dtype: torch.dtype) -> float:
    twin, alone = ground.twin(dtype)
    return max(_distance(alone, read) for read in _ways(run, twin, ground.tree))


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


def _ways(run: Run, forward: Forward, rows: Sequence[Row]) -> list[torch.Tensor]:
    """Readings of rows in one pass, and in passes so small that the rows' own parts are cut as well."""
    longest = max(len(row.ids) for row in rows)
    own = sum(len(row.ids) - common_prefix([r.ids for r in rows]) for row in rows)
    return [ordered(run(forward, rows, budget), rows) for budget in (len(rows) * longest, max(16, own // 3))]


def plain(forward: Forward, rows: Sequence[Row]) -> torch.Tensor:
    """(places, V) log-probabilities by the plain path."""
    return ordered(run_plain(forward, rows, 0), rows)


def ordered(found: Iterable[tuple[Row, torch.Tensor]], rows: Sequence[Row]) -> torch.Tensor:
    """(places, V) log-probabilities in the order of rows and their places, in whatever order they were found."""
    here: dict[tuple[int, Path], torch.Tensor] = {}
    for row, block in found:
        here |= {(row.query, path): logp for (_, path), logp in zip(row.places, block, strict=True)}
    return torch.stack([here[row.query, path] for row in rows for _, path in row.places])


def _several(rows: Sequence[Row], vocabulary: int) -> list[Row]:
    """Some rows, each of a query of its own; where there is one only, another that ends otherwise."""
    some = list(rows[:ROWS])
    if len(some) == 1:
        some.append(replace(some[0], ids=(*some[0].ids[:-1], (some[0].ids[-1] + 2) % vocabulary)))
    return [replace(row, query=n) for n, row in enumerate(some)]


def _small(ids: Path) -> Path:
    """Tokens of a judge as tokens of its twin."""
    return tuple(token % (VOCABULARY - 3) + 3 for token in ids)


def branched(rows: Sequence[Row], vocabulary: int) -> list[Row]:
    """Rows, each with one that leaves it halfway down its own part; of different lengths, read there and at the end."""
    parted = common_prefix([row.ids for row in rows])
    common = min(parted, *(2 * len(row.ids) // 3 for row in rows))
    made: list[Row] = []
    for n, row in enumerate(rows, 1):
        half = (common + len(row.ids)) // 2
        other = tuple((token + n) % vocabulary for token in row.ids[half:])
        for ids in (row.ids, row.ids[:half] + other):
            keep = max(len(ids) - 3 * len(made), max(half, parted) + 1)
            made.append(Row(len(made), ids[:keep], ((half - 1, (0,)), (len(ids[:keep]) - 1, ()))))
    return made


def _leak(run: Run, ground: Ground) -> float:
    """How far the first and last of some rows move those between, nats: not at all, to the bit.

    A mixture of experts sorts the tokens of a pass by expert, so that other tokens change its rounding: it may move
    within the noise.
    """
    vocabulary = ground.forward.model.config.get_text_config().vocab_size
    rows = branched(ground.short, vocabulary)
    changed = [_changed(rows, 0, vocabulary), *rows[1:-1], _changed(rows, len(rows) - 1, vocabulary)]
    between = slice(len(rows[0].places), -len(rows[-1].places) or None)
    found = 0.0
    for before, after in zip(*(_ways(run, ground.forward, some) for some in (rows, changed)), strict=True):
        before, after = before[between], after[between]
        if not torch.equal(before, after) and not (_experts(ground) and _spread(before, after) <= ground.noise):
            found = max(found, _distance(before, after), EXACT)
    return found


def _changed(rows: Sequence[Row], number: int, vocabulary: int) -> Row:
    """A row with other tokens where it is alone; none is another row's there, so that the tree keeps its shape."""
    row = rows[number]
    others = [other.ids for other in rows if other is not row]
    alone = min(max(common_prefix([row.ids, other]) for other in others), len(row.ids) - 1)
    own = tuple(_another(place, row.ids[place], others, vocabulary) for place in range(alone, len(row.ids)))
    return replace(row, ids=row.ids[:alone] + own)


def _another(place: int, token: int, others: Sequence[Path], vocabulary: int) -> int:
    """The next token that stands nowhere at this place."""
    taken = {token, *(other[place] for other in others if len(other) > place)}
    return next(t % vocabulary for t in range(token, token + vocabulary) if t % vocabulary not in taken)


def _experts(ground: Ground) -> bool:
    text = ground.forward.model.config.get_text_config()
    return any(getattr(text, name, None) for name in EXPERTS)


def _first(rows: Sequence[Row], share: float) -> list[Row]:
    """The beginnings of rows, read behind their last token."""
    return [
        replace(row, ids=row.ids[: (n := max(1, int(share * len(row.ids))))], places=((n - 1, ()),)) for row in rows
    ]


def _padded(forward: Forward, rows: Sequence[Row]) -> torch.Tensor:
    """Plain batching with a longer row in the batch."""
    longer = replace(rows[0], ids=rows[0].ids + rows[0].ids[:PADDING])
    return torch.cat(batch(forward, [*rows, longer], 0, None)[:-1])


def _distance(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).abs().max())


def _spread(alone: torch.Tensor, other: torch.Tensor) -> float:
    """Root mean square difference over the most probable tokens, in nats."""
    likely = alone.topk(min(LIKELY, alone.shape[-1]), dim=-1).indices
    return float((other - alone).gather(-1, likely).pow(2).mean().sqrt())
