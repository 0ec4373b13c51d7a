#!/usr/bin/env python3
"""Compare every reading of a float32 run with a plain forward of the token ids that `logitjudge prompts --json` prints.

python scripts/check_exact.py --model MODEL [--data demo] [--limit 3] [--orderings balanced] [--rubric item]

Only options of one token, whose reading is one log-probability; the tests cover the others. Exit code 1 above 1e-4 nats.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

import logitjudge as lj
from logitjudge.report.asked import asked

TOLERANCE = 1e-4  # nats


def main() -> int:
    """Run, print, repeat, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a local folder or a hub id")
    parser.add_argument("--data", default="demo")
    parser.add_argument("--rubric", default="item")
    parser.add_argument("--orderings", default="balanced")
    parser.add_argument("--limit", default="3")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "run")
        options = [f"--{name}={value}" for name, value in vars(args).items()]
        command = [sys.executable, "-m", "logitjudge", "run", *options, "--dtype=float32", "--device=cpu"]
        subprocess.run([*command, f"--out={folder}"], check=True)
        worst, count = compare(args.model, folder)
    print(
        f"{Path(args.model).name}: {count} log-probabilities, largest |difference| from plain {worst:.2g} nats (tolerance {TOLERANCE:g})"
    )
    return int(worst > TOLERANCE)


def compare(name: str, folder: Path) -> tuple[float, int]:
    """Largest difference in nats, and the number of log-probabilities compared."""
    model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32).eval()
    run = lj.load_run(folder)
    worst, count = 0.0, 0
    for i, item in enumerate(run.items):
        for o, ordering in enumerate(run.orderings):
            shown = ",".join(map(str, ordering.values(run.scores.tolist())))
            printed = asked(folder, item.id, shown)
            with torch.inference_mode():
                logp = model(torch.tensor([printed["context_token_ids"]])).logits[0, -1].double().log_softmax(-1)
            for k, option in enumerate(printed["options"]):
                (token,) = option["token_ids"]
                worst = max(worst, abs(float(logp[token]) - run.logp[i, o, k]))
                count += 1
    return worst, count


if __name__ == "__main__":
    sys.exit(main())
