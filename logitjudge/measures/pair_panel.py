"""Several judges of the same pairs: do they err together?

Judges that are trained on similar data share blind spots, so five of them are not five opinions. With r the mean correlation
of their errors, n judges are worth ``n / (1 + (n - 1) r)`` independent ones, and a majority vote is no ground truth.

References
----------
L. Kish (1965), Survey Sampling (design effect).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from logitjudge.core import BoolArray, FloatArray, IntArray
from logitjudge.errors import InputError, NotObserved
from logitjudge.measures import intervals
from logitjudge.measures.agreement import pearson
from logitjudge.measures.estimates import Estimate, bounded
from logitjudge.measures.intervals import Statistic
from logitjudge.measures.pair_accuracy import Accuracy, Group, outcome_rows, right
from logitjudge.measures.pair_calibration import RULE
from logitjudge.measures.pair_review import FIELDS
from logitjudge.measures.pair_rules import ruled
from logitjudge.measures.pairs import NONE, TIE, Pairs, pairs
from logitjudge.run import Run

if TYPE_CHECKING:
    import pandas as pd

MAJORITY = "majority"
SURE = ("correct", "false_wins", "undecided")


@dataclass(frozen=True, slots=True)
class Together:
    """Two judges: the correlation (phi) of their errors, and how many pairs both get wrong."""

    one: str
    other: str
    phi: Estimate
    both_wrong: int


@dataclass(frozen=True, slots=True)
class Panel:
    """Several judges of the same pairs.

    Parameters
    ----------
    rule
        That makes each judge's verdicts.
    pairs, clusters
        Pairs with gold that all of them judged.
    left_out
        Other pairs of any of them.
    judges
        Name -> accuracy, false wins, undecided pairs.
    compared
        Pairs on which all of them have a verdict (`flips_discarded` leaves some without): those of `together` and `correlation`.
    together
        Every two judges.
    correlation
        Mean of their phi.
    effective
        Effective number of judges; its interval is that of the mean correlation, turned round.
    majority
        The vote: the answer (1, 2, tie) with the most judges; a tie where several have as many. A discarded verdict is no vote.
    """

    rule: str
    pairs: int
    clusters: int
    left_out: int
    judges: dict[str, Accuracy]
    compared: int
    together: tuple[Together, ...]
    correlation: Estimate
    effective: Estimate
    majority: Accuracy

    def to_frame(self) -> pd.DataFrame:
        """Frame, one row a judge, the majority last: judge, and each outcome with _low and _high."""
        import pandas as pd

        rows = []
        for name, one in {**self.judges, MAJORITY: self.majority}.items():
            found = [getattr(one, outcome) for outcome in SURE]
            rows.append([name, *(x for e in found for x in (e.value, e.low, e.high))])
        names = [f"{name}{end}" for name in SURE for end in ("", "_low", "_high")]
        return pd.DataFrame(rows, columns=["judge", *names])


def panel(runs: Mapping[str, Run], rule: str = RULE, *, draws: int = 1000, seed: int = 0) -> Panel:
    """Accuracy of several judges, the correlation of their errors, and what their majority is worth.

    Parameters
    ----------
    runs
        Judge's name -> its pairwise run. Pairs are matched by id.
    rule
        Of `logitjudge.measures.pair_rules.RULES`. An error is a verdict that is not the gold, an undecided one, too; a
        discarded one is none.
    draws, seed
        Of the resampling of clusters.

    Raises
    ------
    InputError
        Fewer than two runs, or a pair that is not the same in all of them.
    NotObserved
        No pair with gold is in all runs.
    """
    if len(runs) < 2:
        raise InputError(f"a panel takes at least two judges; there are {len(runs)}.")
    if MAJORITY in runs:
        raise InputError(f"a judge is called {MAJORITY!r}. Give it another name.")
    found = {name: pairs(run) for name, run in runs.items()}
    ids, rows = _shared(runs, found)
    first = next(iter(found))
    gold = found[first].gold[rows[first]]
    clusters = intervals.number([runs[first].items[i].cluster for i in rows[first]])
    verdicts = {name: ruled(one, rule)[rows[name]] for name, one in found.items()}
    votes = {**verdicts, MAJORITY: vote(list(verdicts.values()))}
    every: dict[Group, BoolArray] = {(None, None): np.ones(len(ids), np.bool_)}
    told = {row.rule: row for row in outcome_rows(votes, gold, every, clusters, draws=draws, seed=seed)}
    judged = np.all([verdict != NONE for verdict in verdicts.values()], axis=0)
    errors = {name: (1 - right(verdict, gold))[judged] for name, verdict in verdicts.items()}
    groups = intervals.number([runs[first].items[i].cluster for i in rows[first][judged]])
    correlation = _bounded(lambda w: _mean_phi(list(errors.values()), w), groups, draws=draws, seed=seed)
    return Panel(
        rule=rule,
        pairs=len(ids),
        clusters=int(clusters.max()) + 1,
        left_out=len({name for one in found.values() for name in one.ids} - set(ids)),
        judges={name: told[name] for name in runs},
        compared=int(judged.sum()),
        together=tuple(_together(a, b, errors, groups, draws, seed) for a, b in combinations(runs, 2)),
        correlation=correlation,
        effective=_effective(correlation, len(runs)),
        majority=told[MAJORITY],
    )


def _shared(runs: Mapping[str, Run], found: Mapping[str, Pairs]) -> tuple[list[str], dict[str, IntArray]]:
    """Ids with gold that all runs have, and for each run their rows."""
    place = {name: {one: i for i, one in enumerate(p.ids)} for name, p in found.items()}
    first = next(iter(found))
    ids = [one for i, one in enumerate(found[first].ids) if all(one in p for p in place.values())]
    for one in ids:
        for name in list(found)[1:]:
            _same_pair(one, (runs[first], found[first], place[first][one]), (runs[name], found[name], place[name][one]))
    ids = [one for one in ids if found[first].gold[place[first][one]] != NONE]
    if not ids:
        raise NotObserved("no pair with gold is in all runs, so there is nothing to compare the judges on.")
    return ids, {name: np.array([place[name][one] for one in ids], dtype=np.int64) for name in found}


Place = tuple[Run, Pairs, int]


def _same_pair(name: str, one: Place, other: Place) -> None:
    """Raise `InputError` unless gold and texts (where both runs hold them) are the same."""
    (run, found, i), (second, theirs, j) = one, other
    if found.gold[i] != theirs.gold[j]:
        raise InputError(f"pair {name!r} has another gold in another run. Compare runs of the same data.")
    for field in FIELDS:
        texts = [r.items[n].fields.get(field) for r, n in ((run, i), (second, j))]
        if all(texts) and texts[0] != texts[1]:
            raise InputError(f"pair {name!r} has another {field} in another run. Compare runs of the same data.")


def vote(verdicts: Sequence[IntArray]) -> IntArray:
    """(I,) answer with the most judges; a tie (0) where several have as many; -1 where nobody has one.

    Examples
    --------
    >>> vote([np.array([1, 1, 1, -1]), np.array([1, 2, 0, -1]), np.array([2, -1, 0, -1])]).tolist()
    [1, 0, 0, -1]
    """
    counts = np.stack([sum((verdict == answer).astype(np.int64) for verdict in verdicts) for answer in (TIE, 1, 2)])
    most = counts.max(axis=0)
    alone = (counts == most).sum(axis=0) == 1
    made: IntArray = np.where(most == 0, NONE, np.where(alone, counts.argmax(axis=0), TIE))
    return made


def _bounded(statistic: Statistic, clusters: IntArray, **how: int) -> Estimate:
    """`bounded`, of perhaps no pair at all."""
    none = Estimate(None, None, None, 0, 0, "there is no pair on which all have a verdict")
    return bounded(statistic, clusters, **how) if len(clusters) else none


def _together(
    one: str, other: str, errors: Mapping[str, FloatArray], clusters: IntArray, draws: int, seed: int
) -> Together:
    x, y = errors[one], errors[other]
    phi = _bounded(lambda weight: pearson(x, y, weight), clusters, draws=draws, seed=seed)
    return Together(one, other, phi, int((x * y).sum()))


def _mean_phi(errors: Sequence[FloatArray], weight: FloatArray) -> FloatArray:
    """(B,) mean phi of all pairs of judges; NaN where one of them makes no error, or only errors."""
    return np.asarray(np.mean([pearson(x, y, weight) for x, y in combinations(errors, 2)], axis=0))


def _effective(correlation: Estimate, count: int) -> Estimate:
    """Give n / (1 + (n - 1) r), and its ends."""

    def turned(r: float | None) -> float | None:
        below = None if r is None else 1 + (count - 1) * r
        return None if below is None or below <= 0 else count / below

    return replace(
        correlation,
        value=turned(correlation.value),
        low=turned(correlation.high),
        high=turned(correlation.low),
    )
