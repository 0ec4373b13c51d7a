"""An engine with fixed seconds, for tests of `logitjudge bench`: it writes down what it is asked, and can be told to fail."""

import argparse
import json
import os
import sys
from pathlib import Path

PACKED = [2.0, 9.0, 3.0]  # seconds of its rounds: the median is 3
SECONDS = {"shared": 5.0, "vllm": 6.0}
EACH = {"plain": 0.5, "lm_eval": 1.0, "alone": 0.0}  # seconds a prompt
OFF = {"plain": 0.0, "shared": 0.125, "packed": 0.25, "lm_eval": 0.5, "vllm": 1.0, "alone": 0.0}  # nats
PREFILL = [0.25, 0.75, 0.5]


def logp(prompt, path):
    """Other values for every prompt and option, and a little off for every engine."""
    return [
        -1.0 - sum(n * token for n, token in enumerate(prompt["context"])) % 97 - sum(tail) % 7 + OFF[path]
        for tail in prompt["tails"]
    ]


def seconds(path, count, rounds):
    if path == "packed" and count > 2:  # not the two prompts of the warm-up
        rounds.append(PACKED[len(rounds) % 3])
        return rounds[-1]
    return EACH[path] * count if path in EACH else SECONDS.get(path, 1.0)


def answer(request, engine, memory):
    if request["op"] == "prepare":
        proof = {"ok": os.environ.get("BENCH_UNPROVEN") is None, "reason": "it leaks"}
        return {"paths": {p: {"budget": 8_000, "proof": proof} for p in ("plain", "shared", "packed")}}
    if request["op"] == "prefill":
        memory["prefills"] += 1
        return {"seconds": PREFILL[(memory["prefills"] - 2) % 3]}  # the first one warms up
    if request["op"] != "read":
        return {}
    path, count = request.get("path", engine), len(request["prompts"])
    made = {"seconds": seconds(path, count, memory["rounds"]), "peak_mib": 100.0, "computed_tokens": 10 * count}
    return {**made, "logp": [logp(prompt, path) for prompt in request["prompts"]]}


def main():
    parser = argparse.ArgumentParser()
    for name in ("--engine", "--model", "--dtype", "--device", "--max-batch-tokens"):
        parser.add_argument(name)
    args = parser.parse_args()
    fault = os.environ.get(f"BENCH_{args.engine.upper()}")
    if fault == "input":
        print(json.dumps({"error": "that model is no good.", "input": True}), flush=True)
        return
    told = {"device": "cpu", "dtype": "bfloat16" if args.dtype == "auto" else args.dtype, "max_length": 4096}
    print(json.dumps({"ready": True, "settings": told}), flush=True)
    memory = {"prefills": 0, "rounds": []}
    for line in sys.stdin:
        request = json.loads(line)
        with Path(os.environ["BENCH_LOG"]).open("a") as log:
            log.write(json.dumps({"engine": args.engine, "dtype": args.dtype, **request}) + "\n")
        if request["op"] == "stop":
            return
        if request["op"] == "read" and fault == "die":
            sys.exit("Killed by a test: no more memory")
        reply = {"error": "out of cheese"} if request["op"] == "read" and fault == "error" else None
        print("hello" if fault == "print" else json.dumps(reply or answer(request, args.engine, memory)), flush=True)


if __name__ == "__main__":
    main()
