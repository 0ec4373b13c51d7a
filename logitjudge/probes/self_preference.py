"""Responses of the judge's own family against another's: does it prefer its own?

W_a(a) - W_a(b), how much more often judge a takes its own family's response than family b's, identifies nothing: a's may be better. With
the readings of a judge of family b of the same pairs, (W_a(a) - W_a(b)) - (W_b(a) - W_b(b)) takes out what both see in the responses. It
is the sum of both judges' preference for their own. With a judge of a third family what is left is a's, if the third takes no side.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from logitjudge import store
from logitjudge.core import FloatArray, IntArray, Item
from logitjudge.errors import NotObserved
from logitjudge.measures.lengths import slope
from logitjudge.measures.pairs import TIE, Pairs, golds, pairs
from logitjudge.pairs import RESPONSES
from logitjudge.probes import ODDS, SHARE, Effect, Generate, ProbeResult, Variant, measured, noise
from logitjudge.run import Run

FAMILIES = ("family_1", "family_2")  # groups of a pair
TRAINED = ("trained_on_1", "trained_on_2")  # on whose outputs the writer was trained
AUTHOR = "rubric_author_model"  # on whose outputs the rubric was tried
LIKELY = ("logprob_1", "logprob_2")  # mean log-probability of a response's tokens under the judge, nats
UNPROVEN = "NOT IDENTIFIED (the responses may be better)"
PLACES = ("", "pairs", "self_preference/pairs")  # where a folder may have the run
Likelihoods = Callable[[Sequence[tuple[str, str]]], Sequence[float]]


@dataclass(frozen=True, slots=True)
class SelfPreference:
    """Pairs of responses of two families, `family_1` and `family_2`, judged in both orders.

    Parameters
    ----------
    family
        The judge's own; by default the one of the items' families that the judge's name contains.
    other
        Folder of another judge's run of the same pairs (or of its probe, or its card); "": none.
    other_family
        Of that judge; found like `family` by default.
    """

    family: str = ""
    other: str = ""
    other_family: str = ""

    def variants(self, items: Sequence[Item], generate: Generate | None = None) -> Mapping[str, Variant]:
        """Pairs of two families."""
        skipped = {item.id: why for item in items if (why := _unusable(item))}
        return {"pairs": Variant(tuple(i for i in items if i.id not in skipped), pairwise=True, skipped=skipped)}

    def effect(self, runs: Mapping[str, Run]) -> ProbeResult:
        """Preference for its own in log-odds and win share, minus the other judge's where there is one; at equal gold and likelihood."""
        if "pairs" not in runs:
            raise NotObserved("no pair has a response of each of two families (columns family_1 and family_2)")
        run = runs["pairs"]
        own = self.family or _family(run, "family")
        run = run.select([own in _families(item) for item in run.items])
        if not run.items:
            raise NotObserved(f"no response is of the judge's own family {own!r}")
        if not self.other:
            return _gap(run, own)
        other = _read(self.other)
        theirs = self.other_family or _family(other, "other_family", must=False)
        if theirs == own:
            made = _gap(run, own)
            note = f"WARNING: the other judge is of the same family ({own}), so it checks nothing and was left out."
            return ProbeResult(made.effects, (note, *made.notes))
        return _against(run, other, own, theirs)


def with_likelihoods(items: Sequence[Item], read: Likelihoods) -> tuple[Item, ...]:
    """Pairs with the groups `logprob_1` and `logprob_2`.

    Parameters
    ----------
    read
        Gives, of (instruction, response), the mean log-probability of the response's tokens, nats.
    """
    asked = [(item.fields["instruction"], item.fields[name]) for item in items for name in RESPONSES]
    found = np.reshape(np.asarray(read(asked), dtype=np.float64), (len(items), 2))
    return tuple(
        replace(item, groups={**item.groups, **dict(zip(LIKELY, row.tolist(), strict=True))})
        for item, row in zip(items, found, strict=True)
    )


def _unusable(item: Item) -> str:
    if not all(name in item.fields for name in RESPONSES):
        return "no pair of responses"
    if not all(item.groups.get(name) for name in FAMILIES):
        return "no family_1 and family_2"
    return "both responses are of one family" if len(set(_families(item))) == 1 else ""


def _families(item: Item) -> tuple[str, str]:
    one, two = (str(item.groups[name]) for name in FAMILIES)
    return one, two


def _family(run: Run, parameter: str, must: bool = True) -> str:
    """The one family of the items that the name of a run's judge contains; "" where it may have none."""
    judge = str((run.provenance.get("configuration") or {}).get("model"))
    known = sorted({name for item in run.items for name in _families(item)})
    found = [name for name in known if _names(name, judge)]
    if len(found) == 1 or not (found or must):
        return "".join(found)
    raise NotObserved(
        f"the judge's name {judge!r} holds {len(found) or 'none'} of the families {', '.join(known)}: say which is its own "
        f"(parameter {parameter})"
    )


def _names(family: str, text: Any) -> bool:
    """Whether a text names a family, as a word or a word's beginning up to a digit.

    Examples
    --------
    >>> _names("qwen", "Qwen/Qwen2.5-7B"), _names("a", "planted")
    (True, False)
    """
    return bool(re.search(rf"(?<![a-z]){re.escape(family)}(?![a-z])", str(text), re.IGNORECASE))


def _read(folder: str) -> Run:
    """The other judge's run."""
    there = next((place for name in PLACES if ((place := Path(folder, name)) / "run.json").exists()), Path(folder))
    return store.load_run(there)


def _side(items: Sequence[Item], own: str) -> IntArray:
    """(I,) 1 where response 1 is of the own family, else -1."""
    return np.array([1 if _families(item)[0] == own else -1 for item in items], dtype=np.int64)


def _odds(found: Pairs, side: IntArray) -> FloatArray:
    """(I,) log-odds for the own family's response."""
    return found.content * side


def _lead(found: Pairs, side: IntArray) -> FloatArray:
    """(I,) W of the own family's response minus W of the other's, a mean over both orders."""
    lead: FloatArray = (found.probs[..., 1] - found.probs[..., 2]).mean(axis=1) * side
    return lead


def _gap(run: Run, own: str) -> ProbeResult:
    """What one judge alone says."""
    found, side = pairs(run), _side(run.items, own)
    odds, lead = _odds(found, side), _lead(found, side)
    reach = noise(run, ODDS)
    name = f"the family {own} over others, by its own judge alone"
    effects = [
        *_both(f"{UNPROVEN}: {name}", odds, lead, run, reach, main=False),
        *_equal(name, odds, lead, run, reach),
        *_likely(name, odds, run),
    ]
    notes = ["No second judge: the responses of its own family may simply be better. Give another judge's run (other)."]
    return ProbeResult(_ordered(effects), (*notes, *_shared(run, own, "")))


def _against(run: Run, other: Run, own: str, theirs: str) -> ProbeResult:
    """This judge's preference minus the other's, of the pairs of both families where the pool has both."""
    gap = _gap(run, own)
    both = bool(theirs) and any(theirs in _families(item) for item in run.items)
    mine, second = _common(run.select([not both or theirs in _families(item) for item in run.items]), other)
    side = _side(mine.items, own)
    odds, lead = (take(pairs(mine), side) - take(pairs(second), side) for take in (_odds, _lead))
    floors = [noise(one, ODDS) for one in (mine, second)]
    reach = None if None in floors else sum(floor or 0.0 for floor in floors)
    if both:
        name = f"the family {own} over {theirs}, by its own judge minus by {theirs}'s (double difference)"
        notes = [f"The double difference is the sum of what each judge, of {own} and of {theirs}, gives to its own."]
    else:
        name = f"the family {own} over others, by its own judge minus by another"
        notes = ["No response is of the other judge's family: the difference is self-preference if that judge takes no side."]
    notes.append("It takes both judges to be equally sure: one that is surer of a real difference looks partial. Compare both units.")
    effects = [
        *_both(name if both else f"NOT IDENTIFIED (unless the other judge takes no side): {name}", odds, lead, mine, reach, main=both),
        *_equal(name, odds, lead, mine, reach),
        *_likely(name, odds, mine),
        *(replace(effect, main=False) for effect in gap.effects if effect.name.startswith(UNPROVEN)),
    ]  # fmt: skip
    return ProbeResult(_ordered(effects), (*notes, *_shared(mine, own, theirs)))


def _common(run: Run, other: Run) -> tuple[Run, Run]:
    """Both runs with the pairs that they have in common, in one order."""
    place = {item.id: n for n, item in enumerate(other.items)}
    mine = run.select([item.id in place for item in run.items])
    if not mine.items:
        raise NotObserved("the other judge's run has none of these pairs")
    second = _rows(other, [place[item.id] for item in mine.items])
    for one, two in zip(mine.items, second.items, strict=True):
        if any(one.fields[name] != two.fields.get(name) for name in ("instruction", *RESPONSES)):
            raise NotObserved(f"pair {one.id!r} has other texts in the other judge's run")
    return mine, second


def _rows(run: Run, rows: Sequence[int]) -> Run:
    """A run with these items in this order."""
    at = np.asarray(rows)
    arrays: dict[str, Any] = {name: getattr(run, name)[at] for name in ("logp", "alias_mass", "exact")}
    return replace(run, **arrays, logp_by_trace=run.logp_by_trace[at], items=tuple(run.items[n] for n in rows))


def _both(
    name: str, odds: FloatArray, lead: FloatArray, run: Run, reach: float | None, *, main: bool = True
) -> list[Effect]:
    """An effect in log-odds and in win share; a lead moves by at most half of what its log-odds do."""
    return [
        measured(name, ODDS, odds, run.items, noise=reach, main=main),
        measured(name, SHARE, lead, run.items, noise=None if reach is None else reach / 2, main=main),
    ]


def _equal(name: str, odds: FloatArray, lead: FloatArray, run: Run, reach: float | None) -> list[Effect]:
    """The same of the pairs that gold calls equal."""
    tied = golds(run) == TIE
    if not tied.any():
        return []
    return _both(f"{name}: pairs that are equal by gold", odds[tied], lead[tied], run.select(tied.tolist()), reach)


def _likely(name: str, odds: FloatArray, run: Run) -> list[Effect]:
    """Regression of log-odds on the difference in likelihood: what is left at equal likelihood, and the slope.

    Which response is number 1 is a convention, so each pair counts in both directions, which needs no constant.
    """
    rows = [n for n, item in enumerate(run.items) if all(_is_number(item.groups.get(name)) for name in LIKELY)]
    if not rows:
        return []
    return [
        replace(_regressed(columns, rows, odds, run), name=f"{name}: {what}")
        for what, columns in (
            ("left at equal likelihood under the judge", (0, 1)),
            ("for each nat a token that the judge finds it likelier", (1, 0)),
        )
    ]


def _regressed(order: tuple[int, int], rows: Sequence[int], odds: FloatArray, run: Run) -> Effect:
    items = [run.items[n] for n in rows]
    return Effect("", ODDS, _fit(order, odds[np.asarray(rows)], items, _lean(items, run)), main=False)


probe = SelfPreference
