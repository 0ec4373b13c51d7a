#!/usr/bin/env python3
"""Measure how long a report takes to build and to open, and how large it is.

python scripts/check_report.py [--items 320] [--datasets 1]

Planted judges read items of about 1,500 characters under balanced orderings, all the same items, or in turns those of several
datasets. Printed: seconds that `logitjudge report` of 8 runs takes as a process of its own, seconds from navigation until Chromium
has loaded the page and drawn its items (fresh browser context, best of 3; needs the extra `browser`), and megabytes of a report of
10 runs. Exit code 1 above 20 s, 2 s, 3 MB. The processor's seconds stand beside the first: where they are far fewer, the machine had
other things to do.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

BUILD, OPEN, SIZE = 20.0, 2.0, 3.0  # seconds, seconds, MB
WORDS = [
    "the",
    "judge",
    "reads",
    "response",
    "gives",
    "line",
    "order",
    "moves",
    "what",
    "history",
    "code",
    "people",
    "number",
    "other",
]


def main() -> int:
    """Measure, print, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=320)
    parser.add_argument("--datasets", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runs = [judged(folder, n, n % args.datasets, args.items) for n in range(10)]
        before = processor()
        built, eight = report(folder / "8.html", runs[:8])
        worked = processor() - before
        opened = seconds_to_open(eight)
        size = report(folder / "10.html", runs)[1].stat().st_size / 1e6
    print(
        f"8 runs x {args.items} items x 10 orderings: built in {built:.1f} s (at most {BUILD:.0f}; processor {worked:.1f} s)"
    )
    print(
        "Chromium: not measured, no Playwright" if opened is None else f"opened in {opened:.2f} s (at most {OPEN:.0f})"
    )
    print(f"10 runs, {args.datasets} dataset(s): {size:.2f} MB (at most {SIZE:.0f})")
    return int(built > BUILD or (opened or 0) > OPEN or size > SIZE)


def judged(folder: Path, judge: int, dataset: int, items: int) -> Path:
    """Folder of a run."""
    data, out = folder / f"items-{dataset}.jsonl", folder / f"judge-{judge}"
    if not data.exists():
        data.write_text("".join(json.dumps(row) + "\n" for row in rows(items, seed=dataset)), encoding="utf-8")
    model = f"planted:position=0.{judge},0,0,0,0.3;interaction={judge}:0.3;order_noise=0.4;seed={judge}"
    logitjudge("run", "--model", model, "--data", str(data), "--rubric", "clarity", "--out", str(out))
    return out


def rows(items: int, seed: int) -> list[dict[str, object]]:
    """Items as a user's file has them."""
    rng = np.random.default_rng(seed)
    return [
        {
            "id": f"{seed}-{n:04}", "instruction": text(rng, 400), "response": text(rng, 1100), "human": int(rng.integers(1, 6)),
            "source": ("news", "blog", "forum")[n % 3],
        }
        for n in range(items)
    ]  # fmt: skip


def text(rng: np.random.Generator, length: int) -> str:
    """Words up to a length; one in ten is a word of its own, so that they pack no better than prose."""
    words = [w if rng.random() > 0.1 else f"{w}{rng.integers(10**6)}" for w in rng.choice(WORDS, length // 5)]
    return " ".join(words)[:length]


def report(out: Path, runs: list[Path]) -> tuple[float, Path]:
    """Seconds that a report takes, and its file."""
    start = time.perf_counter()
    logitjudge("report", *map(str, runs), "--out", str(out))
    return time.perf_counter() - start, out


def processor() -> float:
    """Seconds of the processor that ended child processes took."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def logitjudge(*words: str) -> None:
    """Run the command in a process of its own."""
    subprocess.run([sys.executable, "-m", "logitjudge", *words], check=True, capture_output=True)


def seconds_to_open(path: Path) -> float | None:
    """Until the page is loaded and the items of every run are drawn."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    chromium = os.environ.get("LOGITJUDGE_CHROMIUM", "/usr/bin/chromium")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--headless", "--no-sandbox", "--disable-gpu"])
        found = []
        for _ in range(3):
            page = browser.new_page()
            start = time.perf_counter()
            page.goto(path.as_uri())
            page.wait_for_function("[...document.querySelectorAll('.items')].every(list => list.children.length > 0)")
            found.append(time.perf_counter() - start)
            page.close()
        browser.close()
    return min(found)


if __name__ == "__main__":
    sys.exit(main())
