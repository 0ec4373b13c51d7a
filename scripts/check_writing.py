#!/usr/bin/env python3
"""Let transformers and vLLM write feedback on the same prompts, greedily, and compare text by text.

python scripts/check_writing.py --model FOLDER --data D [--limit 5] [--orderings balanced] [--dtype float32] [--out DIR]

Prints, for each backend, how the texts ended, with one worked example of each that did not end with the marker. Two texts
must be equal up to the first token whose lead over the second, by a plain forward behind what both wrote, is below the
noise floor of the two runs: a difference before that is an error (exit code 1). vLLM runs in .venv-vllm, or in the Python
that LOGITJUDGE_VLLM_PYTHON names. Both runs stay in --out, and a second call goes on with them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import logitjudge as lj
from logitjudge import models, parts
from logitjudge.backends._harvest import resolved
from logitjudge.study import study

ROOT = Path(__file__).resolve().parents[1]
VLLM = os.environ.get("LOGITJUDGE_VLLM_PYTHON") or str(ROOT / ".venv-vllm" / "bin" / "python")
SHOWN = 300  # characters of a text's end
BACKENDS = {"hf": sys.executable, "vllm": VLLM}


def main() -> int:
    """Run both, print, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", default="demo")
    parser.add_argument("--orderings", default="balanced")
    parser.add_argument("--limit", type=int, default=5)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--max-new-tokens", type=int, default=512)
    parser.add_argument("--out", type=Path, default=Path(tempfile.mkdtemp(prefix="check-writing-")))
    args = parser.parse_args()
    asked = {name: getattr(args, name) for name in ("model", "data", "orderings", "limit", "dtype", "max_new_tokens")}
    for backend, python in BACKENDS.items():
        options = [f"--{name.replace('_', '-')}={value}" for name, value in asked.items()]
        command = [python, "-m", "logitjudge", "run", *options, "--verdict=feedback", "--unended=close"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run([*command, f"--backend={backend}", f"--out={args.out / backend}"], check=True, env=environment)
    runs = {backend: lj.load_run(args.out / backend) for backend in BACKENDS}
    for backend, run in runs.items():
        endings(backend, run, args.out / backend)
    return compare(args, runs)


def endings(backend: str, run: lj.Run, folder: Path) -> None:
    """Print how a backend's texts ended, and one example of each that has no marker."""
    about = run.provenance["traces"]
    print(f"{backend}: {about['ended']} of {about['count']} texts end with {about['end_marker']!r}", end="")
    print(f" ({about['end']} ended without it, {about['length']} were too long); {about['named']} name a score")
    for kind in ("end", "length"):
        row = next((row for row in parts.traces(folder) if row["finish_reason"] == kind), None)
        if row is not None:
            print(f"  {kind}: {row['trace_id']}, {len(row['token_ids'])} tokens: ...{row['text'][-SHOWN:]!r}")


def compare(args: argparse.Namespace, runs: dict[str, lj.Run]) -> int:
    """Compare the texts token by token, and the readings behind texts that are equal."""
    floor = max(run.provenance["noise_floor"]["max_nats"] for run in runs.values())
    own, other = ({row["trace_id"]: row for row in parts.traces(args.out / name)} for name in BACKENDS)
    parting = {name: n for name in own if (n := first_difference(own[name], other[name])) is not None}
    equal = [name for name in own if name not in parting]
    leads = {name: lead(args, runs["hf"], own[name], other[name], n) for name, n in parting.items()} if parting else {}
    wrong = {name: nats for name, nats in leads.items() if not nats < floor}
    print(f"noise floor {floor:.2g} nats; {len(equal)} of {len(own)} texts are equal to the last token")
    for name, nats in leads.items():
        verdict = "before a lead below the noise floor: WRONG" if name in wrong else "where the lead is below the floor"
        print(f"  {name} parts at token {parting[name]}, lead {nats:.2g} nats: {verdict}")
    print(f"readings behind equal texts: at most {readings_apart(runs, set(equal)):.2g} nats apart")
    return int(bool(wrong))


def first_difference(own: dict[str, Any], other: dict[str, Any]) -> int | None:
    """Number of the first token that differs; None where the shorter text is whole and both ended alike."""
    pairs = zip(own["token_ids"], other["token_ids"], strict=False)
    found = next((n for n, (a, b) in enumerate(pairs) if a != b), None)
    if found is None and len(own["token_ids"]) != len(other["token_ids"]):
        return min(len(own["token_ids"]), len(other["token_ids"]))
    return found


def lead(args: argparse.Namespace, run: lj.Run, own: dict[str, Any], other: dict[str, Any], n: int) -> float:
    """Nats between the two most probable tokens behind what both texts share, if the texts go on with these; else inf."""
    backend = _backend(args, run)
    asked = study(args.data, orderings=args.orderings, verdict="feedback", limit=args.limit)
    item = next(item for item in run.items if item.id == own["item_id"])
    ordering = next(o for o in run.orderings if list(o.values(run.scores.tolist())) == own["source_ordering"])
    ids = [*resolved(asked.query(backend, item, ordering)).context, *own["token_ids"][:n]]
    logp = backend.forward.logp(backend.forward.tensor([ids]), [len(ids) - 1])[0, 0]
    best = torch.topk(logp, 2)
    went = {tuple(row["token_ids"][n : n + 1]) for row in (own, other)}  # () where a text ended: with an end token
    ends = [token for token in best.indices.tolist() if (token,) not in went]
    known = {(token,) for token in best.indices.tolist() if token not in ends} | ({()} if ends else set())
    return float(best.values[0] - best.values[1]) if went <= known else float("inf")


def _backend(args: argparse.Namespace, run: lj.Run, known: dict[str, Any] = {}) -> Any:  # noqa: B006  (a cache)
    if "backend" not in known:
        spec = models.parse(args.model, dtype=args.dtype)
        known["backend"] = models.open_backend(replace(spec, date=run.provenance["started"]))
    return known["backend"]


def readings_apart(runs: dict[str, lj.Run], equal: set[str]) -> float:
    """Largest difference of a log-probability behind texts that are equal."""
    own, other = (run.readings() for run in runs.values())
    both = own.merge(other, on=["item_id", "trace_id"], suffixes=("", "_other"))
    both = both[both["trace_id"].isin(equal)]
    return float(max(np.abs(a - b).max() for a, b in zip(both["logp"], both["logp_other"], strict=True)))


if __name__ == "__main__":
    sys.exit(main())
