"""Time of both orders of pairs against twice the time of one order, in turns in one process.

python scripts/bench_pairs.py --model MODEL --data evalbiasbench:biasbench.json --limit 12
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import replace

from logitjudge import models, planning
from logitjudge.study import Study, pairs_study


def seconds(asked: Study, backend: models.Backend, budget: int) -> float:
    """Time to read all pairs of a study."""
    begun = time.perf_counter()
    for item in asked.itemset.items:
        backend.read(asked.queries(backend, [item]), budget)
    return time.perf_counter() - begun


def main() -> None:
    """Print medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--limit", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    both = pairs_study(given.data, limit=given.limit)
    one = replace(both, orderings=both.orderings[:1])
    backend = models.open_backend(models.parse(given.model))
    sizes = planning.readable(both, backend)
    planning.prepare(both, backend, planning.ends(sizes))
    budget = backend.token_budget()
    seconds(both, backend, budget)  # warm
    times = [(seconds(both, backend, budget), seconds(one, backend, budget)) for _ in range(given.repeats)]
    two, single = (statistics.median(column) for column in zip(*times, strict=True))
    alone = planning.readable(one, backend)
    tokens = [sum(size.unique or 0 for size in some.values()) for some in (sizes, alone)]
    print(f"{len(sizes)} pairs, {given.repeats} rounds, path {backend.provenance().get('path')}")
    print(f"both orders {two:.2f} s, one order {single:.2f} s: {two / (2 * single):.2f} x twice one order")
    print(f"unique tokens: both {tokens[0]:,}, one {tokens[1]:,}: {tokens[0] / (2 * tokens[1]):.2f} x twice one order")


if __name__ == "__main__":
    main()
