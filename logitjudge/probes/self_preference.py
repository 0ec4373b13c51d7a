"""Responses of the judge's own family against another's: does it prefer its own?

W_a(a) - W_a(b), how much more often judge a takes its own family's response than family b's, identifies nothing: a's may be better. With
the readings of a judge of family b of the same pairs, [W_a(a) - W_a(b)] - [W_b(a) - W_b(b)] takes out what both see in the responses. It
is the sum of both judges' preference for their own. With a judge of a third family what is left is a's, if the third takes no side.

A possible reason is that a judge likes what it finds likely: where it can be read (transformers), the mean log-probability of a response
behind its instruction, in nats a token, stands beside the preference, and the preference of equally likely responses is given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from logitjudge import files, store
from logitjudge.core import FloatArray, IntArray, Item
from logitjudge.errors import InputError, NotObserved
from logitjudge.measures import intervals
from logitjudge.measures.estimates import Estimate
from logitjudge.measures.lengths import bootstrapped, coefficients
from logitjudge.measures.pairs import TIE, Pairs, golds, pairs
from logitjudge.pairs import CRITERIA, RESPONSES
from logitjudge.probes import (
    LIKELIHOOD,
    ODDS,
    SHARE,
    Effect,
    Generate,
    Likely,
    ProbeResult,
    Variant,
    detectable,
    measured,
    noise,
)
from logitjudge.run import Run

WRITER = ("family", "model", "system")  # groups of a response: the first that there is says whose it is
MODEL = ("model", "system")
TRAINED = "trained_on"  # on whose outputs its writer was trained
AUTHOR = "rubric_author_model"  # on whose outputs the rubric was tried
UNPROVEN = "NOT IDENTIFIED (the responses may be better)"
EQUALLY = "at equal likelihood of both responses"
LIKELIER = "for each nat a token that its own is likelier"
NO_SIDE = "NOT IDENTIFIED (unless the second judge takes no side)"
PLACES = ("", "pairs", "self_preference/pairs")  # where a folder may have the run
ALONE = (
    "No second judge, so the gap is NOT IDENTIFIED as self-preference: the responses of its own family may simply be better. Judge the "
    "same items with a judge of another family, and give its folder (second)."
)
THIRD = (
    "No response is known to be of the second judge's family: the difference is self-preference only if that judge takes no side "
    "(parameter second_family, if it has a side)."
)
SURE = (
    "It takes both judges to be equally sure: one that is surer of a real difference looks partial. Compare both units."
)


@dataclass(frozen=True, slots=True)
class SelfPreference:
    """Responses of several models to the same instructions (columns `family`, else `model` or `system`), or pairs with `family_1` ...

    Parameters
    ----------
    family
        The judge's own. Of a family without responses, all pairs of two families are judged: it serves as a second judge.
    second
        Folder of another judge's result of this probe, or of its card or pairwise run; "": none.
    second_family
        Of that judge; by default the `family` of its probe.
    """

    family: str = ""
    second: str = ""
    second_family: str = ""

    def variants(self, items: Sequence[Item], generate: Generate | None = None) -> Mapping[str, Variant]:
        """Pairs of an own response and another family's, of one instruction each."""
        if self.second:
            _place(self.second)
        given = [_named(item) for item in items if _is_pair(item)]
        alone = [item for item in items if not _is_pair(item)]
        skipped = {item.id: "no family, model or system says who wrote it" for item in alone if not _writer(item)}
        made = [*given, *_paired([item for item in alone if item.id not in skipped])]
        labels = {label for item in made for label in writers(item)}
        own = of_family(self.family, labels)
        unusable = {item.id: why for item in made if (why := self._unusable(item, own))}
        used = tuple(item for item in made if item.id not in unusable)
        there = {item.groups.get(f"item_{n}") for item in used for n in (1, 2)}
        left = {item.id: self._lonely() for item in alone if item.id not in skipped and item.id not in there}
        left |= {item.id: unusable[item.id] for item in given if item.id in unusable}
        return {"pairs": Variant(used, pairwise=True, skipped={**skipped, **left})}

    def _lonely(self) -> str:
        return "no pair with another family's response" if self.family else _which()

    def _unusable(self, item: Item, own: set[str]) -> str:
        """Why a pair is of no use, or ""."""
        one, two = writers(item)
        if not (one and two):
            return "family_1 or family_2 is missing"
        if not self.family:
            return _which()
        if own:
            return "" if (one in own) != (two in own) else "not one response of the own family and one of another"
        return "" if one != two else "both responses are of one family"

    def effect(self, runs: Mapping[str, Run]) -> ProbeResult:
        """Preference for its own in log-odds and win share, minus the second judge's where there is one; apart at equal gold."""
        if "pairs" not in runs:
            raise NotObserved(self._lonely())
        run = runs["pairs"]
        own = of_family(self.family, _labels(run))
        if not own:
            raise NotObserved(f"no response is of the family {self.family!r}: these readings serve as a second judge's")
        alone = _gap(run, self.family, own)
        if not self.second:
            return ProbeResult(alone.effects, (ALONE, *_warnings(run.items, self.family, own, "")))
        second, theirs = _read(self.second, self.second_family)
        if of_family(theirs, _labels(run)) & own or theirs.casefold() == self.family.casefold():
            note = f"WARNING: the second judge is of the same family ({theirs}), so it checks nothing and was left out."
            return ProbeResult(alone.effects, (note, ALONE, *_warnings(run.items, self.family, own, "")))
        return _against(run, second, self.family, own, theirs, alone)

    def explain(self, runs: Mapping[str, Run], likely: Likely) -> tuple[Effect, ...]:
        """How much likelier the judge finds its family's responses, and its preference for them where both are equally likely."""
        run = runs["pairs"]
        own = of_family(self.family, _labels(run))
        texts = [(item.fields["instruction"], item.fields[name]) for item in run.items for name in RESPONSES]
        nats = np.array(likely(texts)).reshape(-1, 2)
        side = _side(run.items, own)
        likelier, odds = (nats[:, 0] - nats[:, 1]) * side, _odds(pairs(run), side)
        number, constant = intervals.number([item.cluster for item in run.items]), np.ones(len(run.items))
        name = f"log-likelihood of the family {self.family}'s responses under the judge, minus others'"
        made = [measured(name, LIKELIHOOD, likelier, run.items, main=False)]
        if np.ptp(likelier) > 0:
            x = np.column_stack([constant, likelier])
            for k, what in enumerate((EQUALLY, LIKELIER)):
                estimate = _coefficient(x, odds, number, k)
                effect = f"{UNPROVEN}: preference for the family {self.family}, {what}"
                made.append(Effect(effect, ODDS, estimate, detectable(estimate), main=False))
        return tuple(made)


def _coefficient(x: FloatArray, y: FloatArray, clusters: IntArray, k: int) -> Estimate:
    """The k-th coefficient of a regression of y (I,) on x (I, P)."""
    return bootstrapped(lambda weight: coefficients(weight, x, y)[:, k], clusters)


def _which() -> str:
    return "the judge's own family is not said (--set family=NAME)"


def _is_pair(item: Item) -> bool:
    return all(name in item.fields for name in RESPONSES)


def _writer(item: Item, suffix: str = "") -> str:
    """Family of a response, else its model; "" where nothing says."""
    return next((str(item.groups[name + suffix]) for name in WRITER if item.groups.get(name + suffix)), "")


def _named(item: Item) -> Item:
    """A given pair with both families as groups."""
    found = {f"family_{n}": _writer(item, f"_{n}") for n in (1, 2)}
    return replace(item, groups={**item.groups, **found})


def writers(item: Item) -> tuple[str, str]:
    """Families of a pair's responses."""
    return str(item.groups["family_1"]), str(item.groups["family_2"])


def _labels(run: Run) -> set[str]:
    return {label for item in run.items for label in writers(item)}


def of_family(family: str, labels: Iterable[str]) -> set[str]:
    """Labels of a family: those equal to it, else those of models whose name has it as a word, perhaps with a number behind.

    Examples
    --------
    >>> of_family("qwen", ["Qwen", "Qwen2.5-7B"]), sorted(of_family("llama", ["meta-llama/x", "codellama", "Llama3"]))
    ({'Qwen'}, ['Llama3', 'meta-llama/x'])
    """
    every = set(labels)
    same = {label for label in every if label.casefold() == family.casefold()}
    return same or {label for label in every if _names(family, label)}


def _names(family: str, text: Any) -> bool:
    """Whether a text names a family, as a word."""
    return bool(family) and bool(re.search(rf"(?<![a-z]){re.escape(family)}(?![a-z])", str(text), re.IGNORECASE))


def _paired(items: Sequence[Item]) -> list[Item]:
    """Pairs of two writers' responses to one instruction under one criterion, in the order of the names; one cluster an instruction."""
    tasks: dict[tuple[str, ...], list[Item]] = {}
    for item in items:
        tasks.setdefault(_task(item), []).append(item)
    made = []
    for group in tasks.values():
        ordered = sorted(group, key=lambda item: (_writer(item), item.id))
        made += [_pair(a, b, ordered[0].cluster) for a, b in combinations(ordered, 2) if _writer(a) != _writer(b)]
    return made


def _task(item: Item) -> tuple[str, ...]:
    return (item.fields["instruction"], item.fields.get("reference", ""), item.rubric.criterion if item.rubric else "")


def _pair(one: Item, two: Item, cluster: str) -> Item:
    """A pair; gold is which has the higher rating. Groups `item_1` and `item_2` are the items that it is made of."""
    fields = {name: one.fields[name] for name in ("instruction", "reference") if name in one.fields}
    criteria = {CRITERIA: one.rubric.criterion} if one.rubric else {}
    texts = dict(zip(RESPONSES, (one.fields["response"], two.fields["response"]), strict=True))
    groups: dict[str, Any] = {"item_1": one.id, "item_2": two.id}
    for n, item in enumerate((one, two), start=1):
        told = {"family": _writer(item), "model": next((item.groups[m] for m in MODEL if item.groups.get(m)), None)}
        told |= {TRAINED: item.groups.get(TRAINED)}
        groups |= {f"{name}_{n}": value for name, value in told.items() if value}
    if author := one.groups.get(AUTHOR) or two.groups.get(AUTHOR):
        groups[AUTHOR] = author
    return Item(f"{one.id} | {two.id}", {**fields, **criteria, **texts}, None, _gold(one, two), cluster, groups)


def _gold(one: Item, two: Item) -> tuple[float] | None:
    if one.rating is None or two.rating is None:
        return None
    return (0.0,) if one.rating == two.rating else (1.0,) if one.rating > two.rating else (2.0,)


def _place(folder: str) -> Path:
    """The folder of the second judge's run."""
    for name in PLACES:
        if (place := Path(folder, name) / "run.json").exists():
            return place.parent
    raise InputError(f"second={folder!r} holds no pairwise run. Name another judge's card, or its probe or run folder.")


def _read(folder: str, family: str) -> tuple[Run, str]:
    """The second judge's run, and its family, which is "" where nothing says."""
    place = _place(folder)
    told = place.parent / "probe.json"
    if not family and told.exists():
        known = files.read_json(
            told,
            InputError,
            "Name the family of the second judge: second_family=NAME.",
            {"parameters?": {"family?": str}},
        )
        family = known.get("parameters", {}).get("family", "")
    return store.load_run(place), family


def _side(items: Sequence[Item], own: set[str]) -> IntArray:
    """(I,) 1 where response 1 is of the own family, else -1."""
    return np.array([1 if writers(item)[0] in own else -1 for item in items], dtype=np.int64)


def _odds(found: Pairs, side: IntArray) -> FloatArray:
    """(I,) log-odds for the own family's response."""
    return found.content * side


def _lead(found: Pairs, side: IntArray) -> FloatArray:
    """(I,) W of the own family's response minus W of the other's, a mean over both orders."""
    lead: FloatArray = (found.probs[..., 1] - found.probs[..., 2]).mean(axis=1) * side
    return lead


def _gap(run: Run, family: str, own: set[str]) -> ProbeResult:
    """What one judge alone says."""
    found, side = pairs(run), _side(run.items, own)
    values, reach = (_odds(found, side), _lead(found, side)), noise(run, ODDS)
    name = f"the family {family} over others, by its own judge alone"
    return ProbeResult((
        *_both(f"{UNPROVEN}: {name}", *values, run, reach, main=False),
        *_equal(name, *values, run, reach),
    ))  # fmt: skip


def _against(run: Run, second: Run, family: str, own: set[str], theirs: str, alone: ProbeResult) -> ProbeResult:
    """Preference of the own judge minus the second's, of the pairs of both families where the pool has both."""
    rivals = of_family(theirs, _labels(run))
    mine, other = _common(run.select([not rivals or bool(rivals & set(writers(item))) for item in run.items]), second)
    side = _side(mine.items, own)
    odds, lead = (take(pairs(mine), side) - take(pairs(other), side) for take in (_odds, _lead))
    floors = [noise(one, ODDS) for one in (mine, other)]
    reach = None if None in floors else sum(floor or 0.0 for floor in floors)
    if rivals:
        name = label = f"the family {family} over {theirs}, by its own judge minus by {theirs}'s (double difference)"
        note = f"The double difference is the sum of what each judge, of {family} and of {theirs}, gives to its own."
    else:
        name = f"the family {family} over others, by its own judge minus by {theirs + chr(39) + 's' if theirs else 'another'}"
        label, note = f"{NO_SIDE}: {name}", THIRD
    effects = (
        *_both(label, odds, lead, mine, reach, main=bool(rivals)),
        *_equal(name, odds, lead, mine, reach),
        *(replace(effect, main=False) for effect in alone.effects),
    )
    effects = tuple(sorted(effects, key=lambda effect: not effect.main))
    return ProbeResult(effects, (note, SURE, *_warnings(mine.items, family, own, theirs)))


def _common(run: Run, second: Run) -> tuple[Run, Run]:
    """Both runs with the pairs that they have in common, in one order."""
    place = {item.id: n for n, item in enumerate(second.items)}
    mine = run.select([item.id in place for item in run.items])
    if not mine.items:
        raise NotObserved("the second judge's run has none of these pairs")
    other = _rows(second, [place[item.id] for item in mine.items])
    for one, two in zip(mine.items, other.items, strict=True):
        if any(one.fields[name] != two.fields.get(name) for name in ("instruction", *RESPONSES)):
            raise NotObserved(f"pair {one.id!r} has other texts in the second judge's run")
    return mine, other


def _rows(run: Run, rows: Sequence[int]) -> Run:
    """A run with these items in this order."""
    at = np.asarray(rows)
    arrays: dict[str, Any] = {name: getattr(run, name)[at] for name in ("logp", "alias_mass", "exact", "logp_by_trace")}
    return replace(run, **arrays, items=tuple(run.items[n] for n in rows))


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


def _warnings(items: Sequence[Item], family: str, own: set[str], theirs: str) -> list[str]:
    """What the second judge, or the other responses, share with the own family beside the name."""
    ours = {str(item.groups.get(f"{TRAINED}_{n + 1}", "")) for item in items for n in (0, 1) if writers(item)[n] in own}
    others = {
        str(item.groups.get(f"{TRAINED}_{n + 1}", "")) for item in items for n in (0, 1) if writers(item)[n] not in own
    }
    authors = {str(item.groups.get(AUTHOR, "")) for item in items}
    facts = [
        (others, family, f"some other responses are by models trained on outputs of {family} ({TRAINED}): the effect is too small"),
        (ours, theirs, f"some own responses are by models trained on outputs of {theirs}, the second judge's family ({TRAINED})"),
        (authors, family, f"the rubric was written with outputs of {family} ({AUTHOR}), whose habits it may hold"),
        (authors, theirs, f"the rubric was written with outputs of {theirs}, the second judge's family ({AUTHOR})"),
    ]  # fmt: skip
    return [f"WARNING: {text}." for texts, name, text in facts if any(_names(name, one) for one in texts)]


probe = SelfPreference
