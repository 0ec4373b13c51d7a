#!/usr/bin/env python3
"""Measure how the memory of a run grows with the number of items, and with the number of orderings.

python scripts/check_memory.py [--few 200] [--many 2000]

A tiny random Llama reads short items. Each run is a process of its own that loads the items, notes its resident memory,
runs, and reports the largest meanwhile minus that (Linux): all that a run takes, the judge included. Beside it, stricter,
what it takes above what a run of two items left behind: neither judge nor libraries. Exit code 1 when `many` items take
over a tenth more than `few`, or when 720 orderings (K = 6) or 200 of 7 levels take over a tenth more than 24 (K = 4).
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
        f"items loaded {found['loaded']:.0f} MiB, at most {found['peak']:.0f} MiB: {found['grown']:.0f} MiB "
        f"({found['above']:.1f} MiB above judge and libraries)"
    )
    return found


def compare(what: str, small: dict[str, float], large: dict[str, float]) -> bool:
    """Whether the memory of the larger run stays within the tolerance."""
    ratio = large["grown"] / small["grown"]
    above = large["above"] - small["above"]
    print(f"{what}: {ratio:.3f} x the memory (tolerance {TOLERANCE:.2f}), {above:+.1f} MiB above judge and libraries")
    return ratio <= TOLERANCE


def measure(count: int, k: int, orderings: str) -> dict[str, float]:
    """MiB that a run takes above what model and items hold."""
    import logitjudge as lj
    from logitjudge.core import Level, Rubric

    rubric = Rubric("quality", "Is it good?", tuple(Level(score, f"text {score}") for score in range(1, k + 1)))
    items = [lj.Item(f"item-{n}", {"instruction": f"Do {n}.", "response": f"Done {n}."}) for n in range(count)]
    loaded = resident("VmRSS")
    with tempfile.TemporaryDirectory() as place:
        options = {"orderings": orderings, "rubric": rubric, "device": "cpu"}
        model = judge_folder(Path(place, "model"))
        lj.judge(model, items[:2], **options)
        gc.collect()
        ready = resident("VmRSS")
        run = lj.judge(model, items, out=Path(place, "run"), **options)
        peak = resident("VmHWM")
    return {
        "readings": run.mass.size,
        "loaded": loaded,
        "peak": peak,
        "grown": peak - loaded,
        "above": peak - ready,
    }


def judge_folder(place: Path) -> Path:
    """Folder of the tiny judge, made by another process."""
    tests = Path(__file__).parent.parent / "tests"
    made = f"import sys, pathlib; sys.path.insert(0, {str(tests)!r}); import tiny_models; tiny_models.save(pathlib.Path({str(place)!r}))"
    subprocess.run([sys.executable, "-c", made], check=True, stderr=subprocess.DEVNULL)
    return place


def resident(field: str) -> float:
    """MiB, from /proc/self/status."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field)]
    return int(line.split()[1]) * 1024 / MIB


if __name__ == "__main__":
    sys.exit(main())
