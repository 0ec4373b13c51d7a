#!/usr/bin/env python3
"""Measure how the memory of a run grows with the number of items, and with the number of orderings.

python scripts/check_memory.py [--few 200] [--many 2000]

A tiny random Llama reads short items. Each run is a process of its own and reports its largest resident memory minus
that after model and items were loaded (Linux). Exit code 1 when `many` items take over a tenth more than `few`, or when
720 orderings (K = 6) or 200 of 7 levels take over a tenth more than 24 (K = 4).
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
from pathlib import Path

TOLERANCE = 1.10  # times the smaller run
MIB = 1 << 20


def main() -> int:
    """Measure, print, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--few", type=int, default=200)
    parser.add_argument("--many", type=int, default=2_000)
    parser.add_argument("--one", nargs=3, metavar=("ITEMS", "K", "ORDERINGS"), help="measure one run in this process")
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(int(args.one[0]), int(args.one[1]), args.one[2])))
        return 0
    few, many = child(args.few, 4, "full"), child(args.many, 4, "full")
    small = child(args.few, 4, "full"), child(20, 6, "full"), child(20, 7, "random:200")
    verdicts = [compare("items", few, many), *(compare("orderings", small[0], other) for other in small[1:])]
    return int(not all(verdicts))


def child(items: int, k: int, orderings: str) -> dict[str, float]:
    """One run in a fresh process."""
    words = [sys.executable, __file__, "--one", str(items), str(k), orderings]
    found: dict[str, float] = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)
    print(
        f"{items:>6,} items, K = {k}, {orderings:<10}  {found['readings']:>7,} readings  "
        f"after loading {found['loaded']:.0f} MiB, at most {found['peak']:.0f} MiB: {found['grown']:.1f} MiB"
    )
    return found


def compare(what: str, small: dict[str, float], large: dict[str, float]) -> bool:
    """Whether the memory of the larger run stays within the tolerance."""
    ratio = large["grown"] / small["grown"]
    print(f"{what}: {ratio:.2f} x the memory (tolerance {TOLERANCE:.2f})")
    return ratio <= TOLERANCE


def measure(count: int, k: int, orderings: str) -> dict[str, float]:
    """MiB that a run takes above what model and items hold."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    import tiny_models

    import logitjudge as lj
    from logitjudge.core import Level, Rubric

    rubric = Rubric("quality", "Is it good?", tuple(Level(score, f"text {score}") for score in range(1, k + 1)))
    model, tokenizer = tiny_models.judge("llama")
    items = [lj.Item(f"item-{n}", {"instruction": f"Do {n}.", "response": f"Done {n}."}) for n in range(count)]
    options = {"tokenizer": tokenizer, "orderings": orderings, "rubric": rubric, "device": "cpu"}
    lj.judge(model, items[:2], **options)  # whatever is loaded once: libraries, kernels
    gc.collect()
    loaded = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the largest begins anew
    with tempfile.TemporaryDirectory() as place:
        run = lj.judge(model, items, out=place, **options)
        peak = resident("VmHWM")
    return {"readings": run.logp[..., 0].size, "loaded": loaded, "peak": peak, "grown": peak - loaded}


def resident(field: str) -> float:
    """MiB, from /proc/self/status."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field)]
    return int(line.split()[1]) * 1024 / MIB


if __name__ == "__main__":
    sys.exit(main())
