"""Shards: parts of a run's one batch plan, read by different processes or machines, and put together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from logitjudge import parts, store
from logitjudge.errors import InputError, RunFolderError, shown

SAME = ("identity", "batches", "budget", "readings", "refused", "prompt")  # of all shards of a run
HINTS = {
    "plan": " Give all shards one --max-batch-tokens.",
    "prompt": " The chat template prints the date, and they began on different days: begin the later ones anew, all on one day.",
}
SHOWN = 5


@dataclass(frozen=True, slots=True)
class Part:
    """The `index`-th of `count` shards, from 1: the batches whose number leaves that rest."""

    index: int
    count: int

    def has(self, batch: int) -> bool:
        """Whether a batch, from 0, is of this shard."""
        return batch % self.count == self.index - 1

    def check(self, batches: Sequence[int]) -> None:
        """Raise `InputError` where some shard would have nothing to read."""
        if self.count > len(batches):
            raise InputError(
                f"shard {self}: the run has {len(batches)} batches. Make at most as many shards, or smaller batches (--max-batch-tokens)."
            )

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


def parse(text: str) -> Part:
    """Read ``i/n``.

    Examples
    --------
    >>> parse("2/8")
    Part(index=2, count=8)
    """
    found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", str(text).strip())
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise InputError(f"shard {shown(text)} is not one of n, such as 1/8 to 8/8.")
    return Part(int(found[1]), int(found[2]))


def merge(out: str | Path, folders: Sequence[str | Path]) -> dict[str, Any]:
    """Put the batches of all shards of a run into one folder, which the same ``run`` command with that --out then closes.

    Parameters
    ----------
    out
        A new folder, or one that such a merge began.
    folders
        Shards of one run: same settings, items, judge and batch plan. Where several hold a batch, the first one's is taken.

    Returns
    -------
    dict
        run.json of the merged run.

    Raises
    ------
    RunFolderError
        A folder is no shard, is of another run or of another plan, or some batch is nowhere.
    """
    if not folders:
        raise InputError("give the folders of the shards.")
    folder, sources = Path(out), [Path(one) for one in folders]
    _distinct([folder, *sources])
    heads = [_head(one) for one in sources]
    for one, head in zip(sources[1:], heads[1:], strict=True):
        _same(sources[0], heads[0], one, head)
    held = _held(sources, heads[0])
    with store.locked(folder):
        before = store.header(folder)
        if before is not None:
            _same(sources[0], heads[0], folder, before)
            if before["finished"] is not None:
                raise RunFolderError(f"{folder} is a finished run. Merge into another folder.")
        sessions = [session for head in heads for session in head["sessions"]]
        halvings = sorted(batch for head in heads for batch in head["halvings"])
        longest = max((head.get("option_tokens") or 0 for head in heads), default=0)
        made = {**heads[0], "sessions": sessions, "halvings": halvings, "option_tokens": longest}
        store.start(folder, made, store.read_items(sources[0]), _refused(sources[0], held))
        for number, source in held.items():
            parts.copy_part(source, folder, number)
    return made


def _distinct(folders: Sequence[Path]) -> None:
    """Raise `InputError` where a folder is there twice: merging into a shard would remove what it holds."""
    places = [folder.resolve() for folder in folders]
    for n, folder in enumerate(folders):
        if places[n] in places[:n]:
            raise InputError(
                f"{folder} is given twice: OUT and every shard are folders of their own. Merge into another folder."
            )


def _head(folder: Path) -> dict[str, Any]:
    head = store.header(folder)
    if head is None:
        raise RunFolderError(f"{folder} holds no shard. Make one with: logitjudge run --shard 1/4 --out {folder} ...")
    if head["finished"] is not None:
        raise RunFolderError(f"{folder} is a finished run, not a shard.")
    return head


def _same(first: Path, head: dict[str, Any], folder: Path, other: dict[str, Any]) -> None:
    differing = [name for name in SAME if head.get(name) != other.get(name)]
    if differing:
        hint = "" if "identity" in differing else HINTS["prompt" if differing == ["prompt"] else "plan"]
        raise RunFolderError(f"{folder} is of another run than {first}: {', '.join(differing)} differ.{hint}")


def _refused(first: Path, held: Mapping[int, Path]) -> list[dict[str, Any]]:
    """Refusals of the plan, which all shards have, and those that each batch had when it was read."""
    rows = [row for row in store.refusals(first) if "batch" not in row]
    for source in dict.fromkeys(held.values()):
        rows += [row for row in store.refusals(source) if "batch" in row and held[row["batch"]] == source]
    return rows


def _held(sources: Sequence[Path], head: dict[str, Any]) -> dict[int, Path]:
    """Which shard has each batch."""
    written = head["verdict"] != "direct"
    held: dict[int, Path] = {}
    for source in reversed(sources):
        held |= dict.fromkeys(parts.done(source, written=written), source)
    missing = [number for number in range(len(head["batches"])) if number not in held]
    if missing:
        some = ", ".join(str(number) for number in missing[:SHOWN]) + (" ..." if len(missing) > SHOWN else "")
        raise RunFolderError(
            f"{len(missing)} of {len(head['batches'])} batches are in no shard: {some}. Run the shards that are missing or unfinished."
        )
    return dict(sorted(held.items()))
