"""A real process, really killed: what was read is kept, and the run ends as if nothing had happened."""

import subprocess
import sys
import time
from collections import Counter
from types import SimpleNamespace

import numpy as np

from logitjudge.backends import planted
from logitjudge.core import Item, Level, Rubric
from logitjudge.judging import judge

SPEC = "order_noise=1;seed=3"
RUBRIC = Rubric("r", "Is it good?", tuple(Level(s, f"level {s}") for s in (1, 2, 3)))
ITEMS = [Item(f"i{n:02}", {"instruction": "x", "response": "y"}) for n in range(12)]
OPTIONS = {"rubric": RUBRIC, "orderings": "cyclic", "max_batch_tokens": 1}  # a batch an item, three prompts a batch
SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import test_kill
test_kill.slow_judge(*sys.argv[2:])
"""


class Slow(planted.PlantedJudge):
    """Takes 0.02 s a prompt, and writes down which items it begins to read."""

    log = None

    def read(self, queries, budget):
        with open(self.log, "a") as file:
            file.write(queries[0].item.id + "\n")
        time.sleep(0.02 * len(queries))
        return super().read(queries, budget)


def slow_judge(out, log):
    from logitjudge import models

    one = planted.open(SimpleNamespace(name=SPEC))
    slow = Slow(one.name, one.planted)
    slow.log = log
    models.open_backend = lambda spec: slow
    judge(f"planted:{SPEC}", ITEMS, out=out, **OPTIONS)


def lines_of(log):
    return log.read_text().split() if log.exists() else []


def run_until(process, log, begun, delay):
    """Wait until a process has begun to read more items than `begun`, then for `delay` seconds, unless it ends first."""
    while process.poll() is None and len(lines_of(log)) <= begun:
        time.sleep(0.005)
    try:
        process.wait(timeout=delay)
    except subprocess.TimeoutExpired:
        process.kill()
    return process.wait()


def test_a_run_that_is_killed_three_times_is_the_undisturbed_one(request, tmp_path):
    out, log = tmp_path / "run", tmp_path / "log"
    command = [sys.executable, "-c", SCRIPT, str(request.path.parent), str(out), str(log)]
    chance = np.random.default_rng(20)
    in_flight = Counter()
    killed = 0
    for delay in (*chance.uniform(0, 0.22, 3), 60):
        begun = len(lines_of(log))
        process = subprocess.Popen(command)
        killed += run_until(process, log, begun, delay) == -9
        in_flight.update(lines_of(log)[-1:])
    assert (killed, process.returncode) == (3, 0)

    judge(f"planted:{SPEC}", ITEMS, out=tmp_path / "undisturbed", **OPTIONS)
    one, two = (folder / "readings" / "all.parquet" for folder in (out, tmp_path / "undisturbed"))
    assert one.read_bytes() == two.read_bytes()

    begun = Counter(lines_of(log))
    assert set(begun) == {item.id for item in ITEMS}
    in_flight.subtract(lines_of(log)[-1:])  # the last session was not killed
    assert all(count <= 1 + in_flight[name] for name, count in begun.items())
