"""The paper's baseline: n answers under one fixed ordering, averaged.

At temperature 0 they are all the winner. At temperature T a judge that gives its score at once, in one token, draws from
q_T proportional to p^(1/T), so that the distribution of a mean of n draws is known without sampling the model. A judge
that writes first must be sampled: its texts differ.

References
----------
arXiv:2602.02219, sections 4.4 and 5.2, Tables 2 and 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from logitjudge.core import FloatArray, Ordering
from logitjudge.errors import InputError, NotObserved
from logitjudge.measures.matrices import picks
from logitjudge.run import Run, SampledRun


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """Scores of n answers under the identity ordering.

    Parameters
    ----------
    score
        (I,) mean answer, expected where it is not fixed; NaN where no text of a sampled run could be parsed.
    sd
        (I,) standard deviation of single answers to one item; 0 by construction at temperature 0.
    draws
        (D, I) means of n simulated answers, or None where the mean is not random.
    how
        In words.
    """

    score: FloatArray
    sd: FloatArray
    draws: FloatArray | None
    how: str


def repeat(
    run: Run,
    *,
    temperature: float = 0.0,
    n: int = 10,
    sampled: SampledRun | None = None,
    draws: int = 1000,
    seed: int = 0,
) -> Repeat:
    """Score of n answers under the identity ordering (scores in increasing order).

    Parameters
    ----------
    run
        A run that holds the identity ordering.
    temperature
        0: the winner. Above: drawn from q_T, for judges that give the score at once in one token.
    n
        Answers an item.
    sampled
        A sampled run of the same judge and items: its answers instead.
    draws
        Simulated means of n answers.

    Raises
    ------
    NotObserved
        The identity ordering was not read, or the judge writes first and was not sampled.
    InputError
        A negative temperature, no answers, or a sampled run without some item.
    """
    if temperature < 0 or n < 1:
        raise InputError(
            f"temperature {temperature} and n {n}: give a temperature of at least 0 and at least one answer."
        )
    if sampled is not None:
        return _sampled(run, sampled)
    if isinstance(run, SampledRun):
        return _sampled(run, run)
    o = identity(run)
    if temperature == 0:
        winner = picks(run)[:, o] @ run.scores
        return Repeat(winner, np.zeros(len(winner)), None, "the winner: repeats are equal at temperature 0")
    require_direct(run)
    q = _heated(run.logp[:, o], temperature)
    mean = q @ run.scores
    sd = np.sqrt(np.maximum(q @ run.scores.astype(float) ** 2 - mean**2, 0))
    counts = np.random.default_rng(seed).multinomial(n, q, size=(draws, len(q)))  # (D, I, K)
    how = f"{n} draws from q proportional to p^(1/{temperature:g}), simulated {draws} times"
    return Repeat(mean, sd, counts @ run.scores / n, how)


def identity(run: Run) -> int:
    """Place of the identity ordering. Raises `NotObserved` without it."""
    wanted = Ordering(tuple(range(len(run.scores))))
    if wanted not in run.orderings:
        raise NotObserved("the ordering of increasing scores was not read, so there is nothing to repeat. Add it.")
    return run.orderings.index(wanted)


def aligned(scores: FloatArray, run: Run, ids: Sequence[str]) -> FloatArray:
    """(len(ids),) a run's scores (I,) by item id; NaN where the run lacks an item."""
    place = {item.id: i for i, item in enumerate(run.items)}
    return np.array([scores[place[name]] if name in place else np.nan for name in ids])


def _sampled(run: Run, sampled: SampledRun) -> Repeat:
    answers = sampled.picks[:, identity(sampled)]  # (I, S)
    known = (~np.isnan(answers)).sum(axis=1)
    total = np.nansum(answers, axis=1)
    mean = np.divide(total, known, where=known > 0, out=np.full(len(total), np.nan))
    squares = np.nansum((answers - mean[:, None]) ** 2, axis=1)
    sd = np.sqrt(np.divide(squares, known - 1, where=known > 1, out=np.full(len(total), np.nan)))
    ids = [item.id for item in run.items]
    how = f"sampled: {answers.shape[1]} texts an item"
    return Repeat(aligned(mean, sampled, ids), aligned(sd, sampled, ids), None, how)


def require_direct(run: Run) -> None:
    """Raise `NotObserved` unless a draw at a temperature is one token of the distribution that was read."""
    verdict, tokens = run.provenance.get("verdict", "direct"), run.provenance.get("option_tokens") or 1
    if verdict != "direct" or tokens > 1:
        why = f"writes first (verdict {verdict})" if verdict != "direct" else f"answers in up to {tokens} tokens"
        raise NotObserved(
            f"answers at a temperature cannot be computed: this judge {why}, so its answers are not drawn from these "
            "probabilities. Give a sampled run: logitjudge run --verdict sampled --orderings identity --samples 10 --temperature T."
        )


def _heated(logp: FloatArray, temperature: float) -> FloatArray:
    """(I, K) q_T proportional to p^(1/T)."""
    scaled = (logp - logp.max(axis=1, keepdims=True)) / temperature
    weight = np.exp(scaled)
    q: FloatArray = weight / weight.sum(axis=1, keepdims=True)
    return q
