"""Probes of a judge's biases: one file a bias, each with content held constant and one thing varied.

A probe is a frozen dataclass of its parameters, which its module names ``probe``. ``variants(items, generate)`` gives named variants
of the items, each judged like any other run; ``effect(runs)`` gives what the runs of these variants say. Judging is the frame's
affair (`logitjudge.probing`), so that both are pure. The first line of a module's docstring is what ``list probes`` prints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy import stats

from logitjudge.core import FloatArray, Item, Ordering, Rubric
from logitjudge.errors import NotObserved
from logitjudge.measures import intervals
from logitjudge.measures.estimates import Estimate, effect as estimated
from logitjudge.measures.pairs import pairs
from logitjudge.run import Run

RESPONSE = ("response",)
POWER = 0.8
LEVEL = 0.95
ODDS, POINTS, SHARE, LIKELIHOOD = "nats of log-odds", "score points", "share", "nats a token"
Generate = Callable[[Sequence[str]], list[str]]
Likely = Callable[[Sequence[tuple[str, str]]], list[float]]


@dataclass(frozen=True, slots=True)
class Variant:
    """Items as one side of a probe shows them.

    Parameters
    ----------
    items
        Of a pairwise variant with ``response_1`` and ``response_2``, judged in both orders.
    rubric, template, orderings
        Of a variant by a rubric; None: those of the whole probe.
    pairwise
        Whether the items are pairs.
    skipped
        Items that are not in it, by id, with the reason.
    """

    items: tuple[Item, ...]
    rubric: Rubric | None = None
    template: str | None = None
    orderings: str | tuple[Ordering, ...] | None = None
    pairwise: bool = False
    skipped: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Effect:
    """One number of a probe; 0 without the bias.

    Parameters
    ----------
    name, unit
        What it is, in words, and in what.
    estimate
        Value, 95 % interval, test.
    detectable
        The smallest effect that a test of these items finds with power 0.8; None without an interval.
    noise
        How far the noise floor alone could move it; None where none was measured.
    main
        Whether the card shows it, and thresholds are of it.
    signed
        Whether it may be below 0. A spread or a share may not: its interval lies above 0 without any bias, and finds none.
    """

    name: str
    unit: str
    estimate: Estimate
    detectable: float | None = None
    noise: float | None = None
    main: bool = True
    signed: bool = True


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What a probe found.

    Parameters
    ----------
    effects
        The main ones first.
    notes
        What to know before they are used.
    """

    effects: tuple[Effect, ...]
    notes: tuple[str, ...] = ()


class Probe(Protocol):
    """A probe: parameters, variants, effect; perhaps `NEEDS`, fields without which an item is left out (and counted)."""

    def variants(self, items: Sequence[Item], generate: Generate | None = None) -> Mapping[str, Variant]:
        """Named variants of the items. `generate` writes a text for each prompt; None where no writer is there."""

    def effect(self, runs: Mapping[str, Run]) -> ProbeResult:
        """What the runs of the variants, by name, say. A variant without items has no run."""


@runtime_checkable
class Staged(Protocol):
    """A probe whose later variants hang on what the earlier ones said."""

    def then(self, runs: Mapping[str, Run]) -> Mapping[str, Variant]:
        """What is to be judged next, given the runs so far; empty at the end."""


@runtime_checkable
class Explained(Protocol):
    """A probe whose effect may hang on how likely the judge finds the texts."""

    def explain(self, runs: Mapping[str, Run], likely: Likely) -> tuple[Effect, ...]:
        """Effects with the likelihood in them; `likely` gives, for (instruction, response), nats a token under the judge."""


def measured(
    name: str, unit: str, values: FloatArray, items: Sequence[Item], *, noise: float | None = None, main: bool = True
) -> Effect:
    """Mean effect over items (I,), with the interval of their clusters and the smallest effect that they could show."""
    made = estimated(np.asarray(values, dtype=np.float64), intervals.number([item.cluster for item in items]))
    return Effect(name, unit, made, detectable(made), noise, main)


def detectable(made: Estimate) -> float | None:
    """The smallest effect that a two-sided t test at 5 % finds with power 0.8, given the standard error of an estimate."""
    if made.test is None or made.test.degrees is None or made.high is None or made.low is None:
        return None
    t = float(stats.t.ppf((1 + LEVEL) / 2, made.test.degrees))
    error = (made.high - made.low) / 2 / t
    return float(error * (t + stats.t.ppf(POWER, made.test.degrees)))


def preference(name: str, run: Run, *, main: bool = True) -> Effect:
    """Mean content effect for response 2 over response 1 of a pairwise run in both orders."""
    return measured(name, ODDS, -pairs(run).content, run.items, noise=noise(run, ODDS), main=main)


def difference(name: str, one: Run, other: Run, *, main: bool = True) -> Effect:
    """Mean of `other` minus `one` in expected score, averaged over orderings, of the items that both runs have."""
    first, second = expected(one), expected(other)
    both = [item for item in one.items if item.id in second]
    if not both:
        raise NotObserved("the variants have no item in common")
    values = np.array([second[item.id] - first[item.id] for item in both])
    reach = [noise(run, POINTS) for run in (one, other)]
    return measured(
        name, POINTS, values, both, noise=None if None in reach else sum(r or 0.0 for r in reach), main=main
    )


def expected(run: Run) -> dict[str, float]:
    """Expected score of each item by id, averaged over orderings, in score points."""
    mean = (run.probs() @ run.scores).mean(axis=1)
    return {item.id: float(value) for item, value in zip(run.items, mean, strict=True)}


def noise(run: Run, unit: str) -> float | None:
    """How far the noise floor alone could move a mean effect, if all readings were off by it in the same direction.

    A share is a mean of probabilities: log-odds that move by 2 n move a probability by at most tanh(n / 2).
    """
    floor: Mapping[str, Any] | None = run.provenance.get("noise_floor")
    if floor is None:
        return None
    nats = floor["max_nats"]
    return float({ODDS: 2 * nats, POINTS: floor["max_score"], SHARE: np.tanh(nats / 2)}[unit])


def paired(items: Sequence[Item], texts: Mapping[str, str]) -> tuple[Item, ...]:
    """Pairs of each item's own response (1) and its other text of the same content (2), a tie by gold; of the items that have one."""
    made = []
    for item in items:
        if item.id in texts:
            known = {name: text for name, text in item.fields.items() if name != "response"}
            fields = {**known, "response_1": item.fields["response"], "response_2": texts[item.id]}
            made.append(Item(item.id, fields, human=(0.0,), cluster=item.cluster, groups=item.groups))
    return tuple(made)


def replaced(items: Sequence[Item], texts: Mapping[str, str]) -> tuple[Item, ...]:
    """Items with another response, of those that have one."""
    return tuple(
        Item(item.id, {**item.fields, "response": texts[item.id]}, item.rubric, item.human, item.cluster, item.groups)
        for item in items
        if item.id in texts
    )


def restated(
    items: Sequence[Item], name: str, instruction: str, generate: Generate | None, of: str = "response"
) -> dict[str, str]:
    """Another text of each item by id: its field `name`, else what a model writes behind the field `of` and an instruction."""
    given = {item.id: item.fields[name] for item in items if item.fields.get(name)}
    asked = [item for item in items if item.id not in given and of in item.fields]
    if generate is None or not asked:
        return given
    written = generate([f"{item.fields[of]}\n\n{instruction}" for item in asked])
    return given | {item.id: text.strip() for item, text in zip(asked, written, strict=True)}


def kept(items: Sequence[Item], ids: Mapping[str, Any]) -> tuple[Item, ...]:
    """Items whose id is one of `ids`."""
    return tuple(item for item in items if item.id in ids)
