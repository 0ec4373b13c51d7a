"""Runs of planted judges of pairs, made with numpy alone: logits = content + slot + letter + length + noise."""

from __future__ import annotations

import numpy as np

from logitjudge.core import Item, Ordering
from logitjudge.run import Run

USUAL = {2: (((0, 1), (0, 1)), ((1, 0), (0, 1))), 3: (((1, 2, 0), (1, 2, 0)), ((2, 1, 0), (1, 2, 0)))}
SWAPPED = {2: (((0, 1), (1, 0)), ((1, 0), (1, 0))), 3: (((1, 2, 0), (2, 1, 0)), ((2, 1, 0), (2, 1, 0)))}


def orders(options=2, crossed=False):
    """The two orders, or the 2 x 2 of orders and labellings."""
    made = USUAL[options] + (SWAPPED[options] if crossed else ())
    return tuple(Ordering(shown, labels) for shown, labels in made)


def pair_items(count, golds=None, clusters=None, **columns):
    """Pairs with gold (None: none), `clusters` of equal size, and group columns (one value a pair)."""
    made = []
    for n in range(count):
        gold = None if golds is None or golds[n] is None else (int(golds[n]),)
        fields = {"instruction": f"Do {n}.", "response_1": f"a{n}", "response_2": f"b{n}"}
        groups = {name: values[n] for name, values in columns.items() if values[n] is not None}
        cluster = f"c{n % clusters}" if clusters else ""
        made.append(Item(f"i{n:04d}", fields, human=gold, cluster=cluster, groups=groups))
    return made


def run_of_probs(probs, items=None, crossed=False, **fields):
    """A run with given probabilities (I, O, K); K = 3: tie, 1, 2. A probability of 0 is a log-probability of -5000."""
    probs = np.asarray(probs, dtype=float)
    count, _, options = probs.shape
    logp = np.log(probs, where=probs > 0, out=np.full(probs.shape, -5000.0))
    scores = (1, 2) if options == 2 else (0, 1, 2)
    made = orders(options, crossed)
    return Run(logp, np.zeros(probs.shape), tuple(items or pair_items(count)), made, scores, **fields)


def planted_pairs(content, *, slot=0.0, letter=0.0, noise=0.0, tie=None, crossed=False, items=None, rng=None):
    """A run whose judge has these log-odds: content (I,) for candidate 1; slot and letter, numbers or (I,), for the first and for "A".

    Parameters
    ----------
    tie
        Logit of a tie against a candidate of an even pair, or None: no option.
    noise
        Standard deviation of what each reading adds to the log-odds.
    """
    content = np.asarray(content, dtype=float)
    made = orders(2 if tie is None else 3, crossed)
    one = 0 if tie is None else 1
    logits = np.zeros((len(content), len(made), 3))
    for o, ordering in enumerate(made):
        first = 1 if ordering.position_of[one] < ordering.position_of[one + 1] else -1
        called_a = 1 if ordering.option_of[one] == one else -1
        odds = content + first * np.asarray(slot) + called_a * np.asarray(letter)
        odds = odds + (rng.normal(0, noise, len(content)) if noise else 0)
        logits[:, o, 1], logits[:, o, 2] = odds / 2, -odds / 2
        logits[:, o, 0] = -np.inf if tie is None else tie
    logits -= np.logaddexp.reduce(logits, axis=2, keepdims=True)
    logp = logits[..., 1:] if tie is None else logits
    scores = (1, 2) if tie is None else (0, 1, 2)
    return Run(logp, np.zeros(logp.shape), tuple(items or pair_items(len(content))), made, scores)
