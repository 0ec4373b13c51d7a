"""A transformers run killed with SIGKILL three times ends with the bytes of an undisturbed one."""

import subprocess
import sys
import time

import pandas as pd
import tiny_models

ITEMS = 30
KILLS = 3


def command(folder, out):
    options = {
        "model": folder,
        "data": folder / "items.jsonl",
        "rubric": "accuracy",
        "out": out,
        "device": "cpu",
        "template": folder / "short.j2",
    }
    words = [f"--{name}={value}" for name, value in options.items()]
    return [sys.executable, "-m", "logitjudge", "run", *words, "--max-batch-tokens=1000", "--dtype=float32"]


def kill_after(words, out, parts):
    """Start a run and kill it once `parts` batches are stored."""
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while len(list(out.glob("readings/part-*.parquet"))) < parts:
        assert process.poll() is None, "the run ended before it could be killed"
        time.sleep(0.002)
    process.kill()
    process.wait()


def test_killed_three_times_ends_with_the_same_bytes(tmp_path):
    folder = tiny_models.save(tmp_path / "judge")
    rows = [
        {"id": str(n), "instruction": "Say it. " * (1 + n % 7), "response": "It is " + "so " * n} for n in range(ITEMS)
    ]
    pd.DataFrame(rows).to_json(folder / "items.jsonl", orient="records", lines=True)
    (folder / "short.j2").write_text("{{ instruction }}{{ response }}\n{{ levels }}\n")
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    for n in range(KILLS):
        kill_after(command(folder, killed), killed, 3 + 8 * n)
        assert not (killed / "readings/all.parquet").exists()
    for out in (killed, whole):
        subprocess.run(command(folder, out), check=True, capture_output=True)
    assert (killed / "readings/all.parquet").read_bytes() == (whole / "readings/all.parquet").read_bytes()
    assert pd.read_parquet(killed / "readings/all.parquet").duplicated(["item_id"]).sum() == ITEMS * 9
    assert len(pd.read_json(killed / "run.json", typ="series")["sessions"]) == KILLS + 1
