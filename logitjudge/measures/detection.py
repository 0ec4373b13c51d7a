"""Were these scores taken from this judge, under this published ordering? Evidence against "order-blind".

A person, or anything else that does not see the ordering, gives scores that do not depend on it. With s_i the submitted
scores, q[i, o, .] the judge under ordering o and r[i, .] an order-blind scorer::

    L(o) = sum over i of log q[i, o, s_i]        LLR = L(o*) - sum over i of log r[i, s_i]

r is the judge averaged over its orderings, recalibrated to people's ratings on held-out items where there are some:
``r proportional to exp(a log qbar + c_k)``; what LLR is like with and without the judge is learned there, too. But under one
ordering a liking for a position cannot be told from a liking for the score that stands there, so LLR alone accuses people
who differ from the held-out raters. The evidence that needs no model of people is the rank of L(o*) among all L(o): if o* was
drawn at random among the run's orderings, an order-blind scorer's rank is uniform. So "taken" needs both.

References
----------
arXiv:2602.02219, section 7 (the idea).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from logitjudge import orderings
from logitjudge.core import BoolArray, FloatArray, IntArray
from logitjudge.errors import InputError, ItemError, NotObserved
from logitjudge.measures import intervals
from logitjudge.run import Run

TAKEN, BLIND, UNKNOWN = "taken", "order-blind", "cannot tell"
LAPSE = 0.01  # of a judge's answers, spread over all scores: one slip must not decide
POWER = 0.8  # below, nothing is said
LEVEL = 0.05
NUMBERS = 20_000_000  # of one chunk of draws x items x orderings


@dataclass(frozen=True, slots=True)
class Detection:
    """What submitted scores say.

    Parameters
    ----------
    verdict
        "taken", "order-blind" or "cannot tell".
    llr
        Log-likelihood ratio in nats, positive for "taken".
    threshold
        An order-blind scorer like those of the calibration is above it in 5 % of cases.
    p, attainable
        Exact p of an order-blind scorer, were the published ordering drawn at random among the run's, and the least that so
        many orderings can give.
    power
        Probability that scores drawn from the judge would be told: p at most 0.05, and LLR above the threshold.
    typical_p
        Scores drawn from the judge have at most this p in 95 %.
    items, held_out
        Submitted items, and the items on which it was calibrated (0: on the judge's own averaged probabilities).
    calibrated_on
        In words.
    reason
        Why nothing can be told, or "".
    """

    verdict: str
    llr: float
    threshold: float
    p: float
    attainable: float
    power: float
    typical_p: float
    items: int
    held_out: int
    calibrated_on: str
    reason: str


def detect(run: Run, submitted: Mapping[str, float], ordering: str, *, draws: int = 2000, seed: int = 0) -> Detection:
    """Log-likelihood ratio of "taken from this judge under this ordering" against "order-blind".

    Parameters
    ----------
    run
        A run of the judge in question with several orderings, on the submitted items and perhaps others, which calibrate.
    submitted
        Item id to score.
    ordering
        The published ordering: score values, first position first. The run must hold it.
    draws
        Simulated submissions.

    Raises
    ------
    ItemError
        A submitted id that is not in the run, or a score that is none of its.
    NotObserved
        The run does not hold the ordering, or holds no other one.
    """
    if not submitted:
        raise InputError("no scores were submitted. Give at least one item with a score.")
    which, rows, scores = _published(run, ordering), *_submitted(run, submitted)
    probs = (1 - LAPSE) * run.probs() + LAPSE / len(run.scores)
    held = np.ones(len(run.items), np.bool_)
    held[rows] = False
    people = held & np.isfinite(run.ratings)
    blind = _recalibrated(probs.mean(axis=1), run, people)  # (I, K)
    ratio = np.log(probs[:, which]) - np.log(blind)  # (I, K)
    rng = np.random.default_rng(seed)

    where, kind = _calibration(people, held)
    others = _resampled(run, where, len(rows), draws, rng)  # (D, n)
    answers = _ratings(run, others, rng) if kind == PEOPLE else _answers(blind, others, rng)
    threshold = float(np.quantile(ratio[others, answers].sum(axis=1), 1 - LEVEL))

    taken = _answers(probs[:, which], np.broadcast_to(rows, (draws, len(rows))), rng)
    made_p = _ranks(probs[rows], taken, which)
    told = (made_p <= LEVEL) & (ratio[rows, taken].sum(axis=1) > threshold)
    llr, [p] = float(ratio[rows, scores].sum()), _ranks(probs[rows], scores[None], which)
    found = {"llr": llr, "threshold": threshold, "p": float(p), "attainable": 1 / len(run.orderings)}
    found |= {"power": float(told.mean()), "typical_p": float(np.quantile(made_p, 1 - LEVEL))}
    verdict, reason = _verdict(**found)
    held_out = 0 if kind == OWN else int(where.sum())
    return Detection(verdict, **found, items=len(rows), held_out=held_out, calibrated_on=kind, reason=reason)


def _ranks(probs: FloatArray, answers: IntArray, which: int) -> FloatArray:
    """(D,) share of orderings under which answers (D, n) are at least as likely as under `which`; probs (n, O, K)."""
    logs = np.log(probs).transpose(0, 2, 1)  # (n, K, O)
    step = max(1, NUMBERS // (logs.shape[0] * logs.shape[2]))
    items = np.arange(len(logs))
    parts = []
    for d in range(0, len(answers), step):
        likely = logs[items, answers[d : d + step]].sum(axis=1)  # (D, O)
        parts.append((likely >= likely[:, [which]] - 1e-9).mean(axis=1))
    return np.concatenate(parts)


def _published(run: Run, ordering: str) -> int:
    wanted = orderings.parse(ordering, run.scores.tolist())
    if len(wanted) != 1 or wanted[0] not in run.orderings:
        raise NotObserved(f"the run does not hold the one ordering {ordering!r}. Read it, together with others.")
    if len(run.orderings) < 2:
        raise NotObserved("the run holds one ordering only, so nothing is order-blind. Run with --orderings balanced.")
    return run.orderings.index(wanted[0])


def _submitted(run: Run, submitted: Mapping[str, float]) -> tuple[IntArray, IntArray]:
    """Rows (n,) of the submitted items, and (n,) indices of their scores."""
    place = {item.id: i for i, item in enumerate(run.items)}
    known = run.scores.tolist()
    for name, score in submitted.items():
        if name not in place:
            raise ItemError(f"item {name!r} has a submitted score, and is not in the run.")
        if score not in known:
            raise ItemError(f"item {name!r}: the submitted score {score!r} is none of {known}.")
    rows = np.array([place[name] for name in submitted], dtype=np.int64)
    return rows, np.array([known.index(score) for score in submitted.values()], dtype=np.int64)


def _recalibrated(mean: FloatArray, run: Run, rated: BoolArray) -> FloatArray:
    """(I, K) an order-blind scorer: the mean over orderings, fitted to ratings on held-out items where there are ten."""
    if rated.sum() < FEWEST:
        return mean
    x, y = np.log(mean[rated]), _nearest(run.ratings[rated], run.scores)
    levels = x.shape[1]

    def loss(theta: FloatArray) -> float:
        logits = theta[0] * x + theta[1:]
        top = logits.max(axis=1)
        log_sum = top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
        fit = float((log_sum - logits[np.arange(len(y)), y]).sum())
        return fit + 0.5 * float((theta[1:] ** 2).sum() + (theta[0] - 1) ** 2)  # a weak prior: as it is

    found = optimize.minimize(loss, np.r_[1.0, np.zeros(levels)], method="L-BFGS-B").x
    logits = found[0] * np.log(mean) + found[1:]
    weight = np.exp(logits - logits.max(axis=1, keepdims=True))
    fitted: FloatArray = (1 - LAPSE) * weight / weight.sum(axis=1, keepdims=True) + LAPSE / levels
    return fitted


def _nearest(ratings: FloatArray, scores: IntArray) -> IntArray:
    nearest: IntArray = np.abs(np.asarray(ratings)[..., None] - scores).argmin(axis=-1)
    return nearest


def _resampled(run: Run, where: BoolArray, size: int, draws: int, rng: np.random.Generator) -> IntArray:
    """(D, n) items of clusters drawn with replacement until there are n."""
    rows = np.flatnonzero(where)
    clusters = intervals.number([run.items[i].cluster for i in rows])
    members = [rows[clusters == c] for c in range(int(clusters.max()) + 1)]
    made = np.empty((draws, size), np.int64)
    for d in range(draws):
        taken: list[int] = []
        while len(taken) < size:
            taken.extend(members[rng.integers(len(members))].tolist())
        made[d] = taken[:size]
    return made


def _answers(probs: FloatArray, pools: IntArray, rng: np.random.Generator) -> IntArray:
    """(D, n) score indices drawn from probs (I, K) of the items in `pools`."""
    edges = np.cumsum(probs, axis=1)[pools]
    edges /= edges[..., -1:]
    drawn: IntArray = (rng.random(pools.shape)[..., None] > edges).sum(axis=2)
    least: IntArray = np.minimum(drawn, probs.shape[1] - 1)
    return least


def _ratings(run: Run, pools: IntArray, rng: np.random.Generator) -> IntArray:
    """(D, n) score indices that a rater, drawn anew for each item, gave."""
    most = max(len(item.human or ()) for item in run.items)
    table = np.full((len(run.items), most), np.nan)
    for i, item in enumerate(run.items):
        table[i, : len(item.human or ())] = item.human or ()
    count = (~np.isnan(table)).sum(axis=1)
    rater = (rng.random(pools.shape) * count[pools]).astype(np.int64)
    return _nearest(table[pools, rater], run.scores)


def _verdict(
    llr: float, threshold: float, p: float, attainable: float, power: float, typical_p: float
) -> tuple[str, str]:
    """What can be said, and why nothing can."""
    if attainable > LEVEL:
        least = round(1 / LEVEL)
        return (
            UNKNOWN,
            f"p cannot be below {attainable:.2g}: read the items under {least} orderings or more (--orderings full)",
        )
    if power < POWER:
        return (
            UNKNOWN,
            f"scores drawn from the judge would be told in {100 * power:.0f} % of cases only: more items are needed",
        )
    if p <= LEVEL and llr > threshold:
        return TAKEN, ""
    if p > max(LEVEL, typical_p):
        return BLIND, ""
    return UNKNOWN, "the scores are such as both could give"


PEOPLE = "people's ratings of held-out items"
AVERAGED = "the judge's mean over orderings, on held-out items without ratings"
OWN = "the judge's mean over orderings, on the submitted items themselves (fewer than ten others were read)"
FEWEST = 10


def _calibration(people: BoolArray, held: BoolArray) -> tuple[BoolArray, str]:
    """Which items (I,) say what an order-blind scorer is like, and what of them."""
    if people.sum() >= FEWEST:
        return people, PEOPLE
    return (held, AVERAGED) if held.sum() >= FEWEST else (~held, OWN)
