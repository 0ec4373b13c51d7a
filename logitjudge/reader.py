"""What of a run needs the judge: its plan, its texts, its readings. In this process, in a worker, or on a node of a cluster.

A reader writes nothing: what it gives goes back to the one process that writes the run folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from logitjudge import batches, models, parts, planning, texts, verdicts
from logitjudge.core import Readings
from logitjudge.study import Study
from logitjudge.texts import Cell, Rows

EXTREMES = ("longest", "shortest")
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Task:
    """What is read by which judge; it can be sent to another process.

    Parameters
    ----------
    spec
        The judge, with the date of the run's start.
    writing
        How it writes before it scores (`logitjudge.verdicts.settings`), or None.
    """

    asked: Study
    spec: models.ModelSpec
    writing: Mapping[str, Any] | None
    seed: int


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """What was read of one batch.

    Parameters
    ----------
    keys
        (B,) what each reading is of.
    readings
        Of B prompts; None where there is none.
    names
        (B,) the texts that they were read behind; None where nothing was written.
    longest
        Tokens of the longest option.
    refused
        Items for which the judge gave no numbers, with the reason.
    """

    keys: list[parts.Key]
    readings: Readings | None
    names: list[parts.Name] | None
    longest: int
    refused: dict[str, str]


class Reader:
    """An opened judge at work on a task.

    Parameters
    ----------
    task
        What is read.
    head
        run.json of the run where it has begun: the fast path is then proven on that run's prompts.
    """

    def __init__(self, task: Task, head: Mapping[str, Any] | None = None) -> None:
        self.asked = task.asked
        self.backend = models.open_backend(task.spec)
        self.how = verdicts.writing(task.asked.template, self.backend, task.asked.scores, task.writing, task.seed)
        self._items = {item.id: item for item in task.asked.itemset.items}
        if head is not None:
            planning.prepare(self.asked, self.backend, {which: head[which]["item"] for which in EXTREMES}, self._room)

    @property
    def _room(self) -> int:
        return self.how.most if self.how else 0

    def begin(self, header: Mapping[str, Any]) -> tuple[Json, list[dict[str, str]]]:
        """run.json of a new run, and the items that cannot be judged; as `logitjudge.planning.begin`."""
        about = verdicts.about(self.how, self.asked.scores)
        return planning.begin(
            self.asked, self.backend, {**header, "traces": about}, self._room, self.how.texts if self.how else 1
        )

    def refusals(self) -> list[dict[str, str]]:
        """Items that cannot be judged, as `begin` finds them."""
        return planning.survey(self.asked, self.backend, self._room)[1]

    def writing(self) -> verdicts.Writing | None:
        """How the judge writes before it scores."""
        return self.how

    def provenance(self) -> Json:
        """JSON values of who reads: device, path and its proof, versions."""
        return dict(self.backend.provenance())

    def write(self, ids: Sequence[str]) -> Rows:
        """Rows of the texts that the judge writes about some items."""
        assert self.how is not None
        return texts.write(self.asked, self.backend, [self._items[name] for name in ids], self.how)

    def read(self, ids: Sequence[str], rows: Rows, budget: int) -> Read:
        """Read all prompts of some items, behind the texts of `rows` where the judge wrote; `budget` tokens at once.

        Raises
        ------
        OutOfMemory
            With this budget.
        ValueError
            A reading is no probability.
        """
        queries, names = texts.queries(self.asked, self.backend, [self._items[name] for name in ids], rows, self.how)
        tails = [tail for query in queries if query.tokens is not None for tail in query.tokens.tails]
        readings, refused = batches.read(self.backend, queries, budget)
        kept = [n for n, query in enumerate(queries) if query.item.id not in refused]
        keys = [self.asked.key(queries[n]) for n in kept]
        return Read(keys, readings, names and [names[n] for n in kept], max(map(len, tails), default=0), refused)

    def again(self, cells: Sequence[Cell], rows: Rows) -> Readings | None:
        """Read some prompts a second way, behind the texts of `rows`; None where there is no second way."""
        return self.backend.read_plain(texts.again(self.asked, self.backend, self.how, cells, rows))
