"""Load, kills, a sweep: how fast, how large, and whether anything is lost.

python scripts/stress.py load --items 100000      # planted judge: readings/s, memory, folder size, time of show
python scripts/stress.py kills --count 200        # SIGKILL at random instants: 0 lost, 0 double, 0 unreadable
python scripts/stress.py sweep --model M --model N --data demo --data F.jsonl --count 5    # a sweep, killed and undisturbed: the same bytes
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from logitjudge import parts, store
from logitjudge.errors import RunFolderError

JUDGE = "planted:position=0.8,0,0,0,0.3;quality_sd=1;order_noise=0.3"
COMMAND = [sys.executable, "-m", "logitjudge"]
MIB = 1 << 20


def items(path: Path, count: int) -> Path:
    """A file of so many items."""
    with path.open("w", encoding="utf-8") as file:
        for n in range(count):
            row = {"id": f"i{n}", "instruction": f"Say {n}.", "response": f"It is {n}.", "human": 1 + n % 5}
            file.write(json.dumps(row) + "\n")
    return path


def run(data: Path, out: Path, batch: int) -> list[str]:
    """The command that judges the items."""
    settings = ["--rubric", "helpfulness", "--max-batch-tokens", str(batch)]
    return [*COMMAND, "run", "--model", JUDGE, "--data", str(data), "--out", str(out), *settings]


def timed(command: list[str]) -> tuple[float, int]:
    """Seconds of a command, and the largest memory of any command so far in MiB."""
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024


def watched(command: list[str], out: Path) -> tuple[float, int, list[tuple[int, int]]]:
    """Seconds of a run, its largest memory in MiB, and (stored batches, memory then) twice a second while it reads."""
    begun, seen = time.perf_counter(), []
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        batches = len(list(out.glob("readings/part-*.parquet")))
        pages = Path(f"/proc/{process.pid}/statm").read_text().split()
        if batches and pages and not (out / "readings" / "all.parquet").exists():
            seen.append((batches, int(pages[1]) * resource.getpagesize() // MIB))
        time.sleep(0.5)
    if process.returncode:
        raise SystemExit(process.returncode)
    return time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024, seen


def load(folder: Path, count: int, report: bool) -> None:
    """Judge many items, and print what that took."""
    data, out = items(folder / "items.jsonl", count), folder / "run"
    seconds, memory, seen = watched(run(data, out, 200_000), out)
    last = max(batches for batches, _ in seen)
    for part in (0.1, 0.5, 0.9):
        batches, then = next(one for one in seen if one[0] >= part * last)
        print(f"  {then} MiB after {batches} of {last} batches")
    readings = json.loads((out / "run.json").read_text())["readings"]
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print(
        f"run: {count:,} items, {readings:,} readings in {seconds:.0f} s: {readings / seconds:,.0f} a second",
        flush=True,
    )
    print(
        f"  memory at most {memory:,} MiB, folder {size / MIB:,.0f} MiB ({size / readings:.0f} bytes a reading)",
        flush=True,
    )
    seconds, memory = timed([*COMMAND, "show", str(out)])
    print(f"show: {seconds:.0f} s, memory {memory:,} MiB", flush=True)
    if report:
        seconds, memory = timed([*COMMAND, "report", str(out), "--out", str(folder / "report.html")])
        size = (folder / "report.html").stat().st_size
        print(f"report: {seconds:.0f} s, memory {memory:,} MiB, {size / MIB:.1f} MiB", flush=True)


def kills(folder: Path, count: int, seed: int) -> None:
    """Kill a run at random instants, over and over; each run that ends must have the bytes of an undisturbed one."""
    data = items(folder / "items.jsonl", 400)
    whole = folder / "whole"
    subprocess.run(run(data, whole, 4_000), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    expected = (whole / "readings" / "all.parquet").read_bytes()
    rng, done, runs = random.Random(seed), 0, 0
    counts = {"lost": 0, "double": 0, "unreadable": 0, "set aside": 0}
    out, longest = folder / "killed-0", 1.0
    while done < count:
        begun = time.monotonic()
        process = subprocess.Popen(
            run(data, out, 4_000), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            process.wait(timeout=rng.random() * longest)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        done += code == -signal.SIGKILL
        longest = max(longest, 1.1 * (time.monotonic() - begun)) if code == 0 else min(longest * 1.05, 20)
        check(out, counts)
        if code == 0:
            counts["lost"] += (out / "readings" / "all.parquet").read_bytes() != expected
            runs += 1
            out = folder / f"killed-{runs}"
    subprocess.run(run(data, out, 4_000), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    counts["lost"] += (out / "readings" / "all.parquet").read_bytes() != expected
    print(
        f"{done} kills over {runs + 1} runs of {400 * 10:,} readings: "
        + ", ".join(f"{n} {name}" for name, n in counts.items())
    )
    if any(counts.values()):
        raise SystemExit(1)


def sweep(folder: Path, models: list[str], data: list[str], limit: int, count: int, seed: int) -> None:
    """Kill a sweep at random instants; each of its runs must end with the bytes of an undisturbed one."""
    file = folder / "sweep.json"  # YAML, too
    named = [{"name": f"{n}-{Path(model).name}", "model": model} for n, model in enumerate(models, 1)]
    defaults = {"rubric": "helpfulness", "limit": limit, "orderings": "cyclic"}
    file.write_text(json.dumps({"models": named, "data": data, "defaults": defaults}))
    command = [*COMMAND, "sweep", str(file), "--out"]
    seconds, _ = timed([*command, str(folder / "whole")])
    print(f"undisturbed: {len(models)} judges x {len(data)} data sets in {seconds:.0f} s", flush=True)
    rng, done = random.Random(seed), 0
    for n in range(count):
        process = subprocess.Popen(
            [*command, str(folder / "killed")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(seconds * rng.uniform(0.1, 0.4))
        process.kill()
        done += process.wait() == -signal.SIGKILL
        parquet = len(list((folder / "killed").glob("*/readings/*.parquet")))
        print(f"kill {n + 1}: {parquet} files of readings are there", flush=True)
    timed([*command, str(folder / "killed")])
    runs = sorted(path.parent.parent.name for path in (folder / "whole").glob("*/readings/all.parquet"))
    same = [
        name
        for name in runs
        if len({(folder / part / name / "readings" / "all.parquet").read_bytes() for part in ("whole", "killed")}) == 1
    ]
    report = (folder / "killed" / "report.html").stat().st_size
    print(f"{done} kills: {len(same)} of {len(runs)} runs have the same bytes; report.html has {report / MIB:.1f} MiB")
    if (len(same), done, len(runs)) != (len(runs), count, len(models) * len(data)):
        raise SystemExit(1)


def check(out: Path, counts: dict[str, int]) -> None:
    """What a kill left must be readable, with nothing twice and nothing damaged."""
    counts["set aside"] += (out / "damaged").exists()
    try:
        if store.header(out) is None:
            return
        frame = parts.frame(out)
    except RunFolderError as error:
        print(error)
        counts["unreadable"] += 1
        return
    keys = frame["item_id"] + "|" + frame["ordering"].map(str)
    counts["double"] += int(keys.duplicated().any())


def main() -> None:
    """Run one of the three."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["load", "kills", "sweep"])
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--data", action="append", default=[])
    parser.add_argument("--limit", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stress-") as folder:
        if given.what == "load":
            load(Path(folder), given.items, given.report)
        elif given.what == "kills":
            kills(Path(folder), given.count, given.seed)
        else:
            sweep(Path(folder), given.model, given.data, given.limit, given.count, given.seed)


if __name__ == "__main__":
    main()
