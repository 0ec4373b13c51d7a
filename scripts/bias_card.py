"""The bias card of a real judge, with every probe: what the README quotes.

python scripts/bias_card.py --model M --other M2 --mt-bench mt_bench_eval.json --summeval FOLDER --llmbar FOLDER --out cards

The judge's own responses, and those of the other model, are written here: without them there is no self-preference to look at.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from pathlib import Path

from logitjudge import datasets, models
from logitjudge.core import Message

WORDS = 160  # tokens that a response may have
POINTWISE = (
    "position", "formatting", "verbosity", "style", "scale_direction", "rubric_anchoring", "reference_anchoring", "stochastic",
)  # fmt: skip


def responses(model: str, instructions: list[str]) -> list[str]:
    """What a model writes to each instruction, greedily."""
    backend = models.open_backend(models.parse(model))
    contexts = [
        tuple(backend.tokenizer.pieces([backend.tokenizer.render((Message("user", text),), "")])[0])
        for text in instructions
    ]
    return [trace.text.strip() for trace in backend.generate(contexts, "", WORDS)]


def write_pairs(given: argparse.Namespace, path: Path) -> None:
    """Responses of both models to the instructions of MT Bench, as items of both families."""
    tasks = {item.fields["instruction"]: item.cluster for item in datasets.load(f"mt_bench:{given.mt_bench}").items}
    chosen = dict(sorted(tasks.items(), key=lambda task: len(task[0]))[: given.pairs])
    rows = []
    for family, model in ((given.family, given.model), (given.other_family, given.other)):
        written = zip(chosen.items(), responses(model, list(chosen)), strict=True)
        for n, ((text, cluster), response) in enumerate(written, 1):
            if response:
                rows.append(
                    {
                        "id": f"{cluster}-{n}-{family}",
                        "instruction": text,
                        "response": response,
                        "cluster": cluster,
                        "family": family,
                    }
                )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def run(*command: str) -> None:
    """Run a command of logitjudge, and say which."""
    print("$ logitjudge", shlex.join(command), flush=True)
    subprocess.run([sys.executable, "-m", "logitjudge", *command], check=True)


def main() -> None:
    """Run all probes, and write the card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("model", "other", "mt-bench", "summeval", "llmbar", "out"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--family", default="qwen")
    parser.add_argument("--other-family", default="smollm")
    parser.add_argument("--writer", help="Model that restates responses, by default the judge.")
    parser.add_argument("--limit", type=int, default=12)
    parser.add_argument("--pairs", type=int, default=40)
    given = parser.parse_args()
    out = Path(given.out)
    card, second, two, length = (str(out / name) for name in ("card", "second", "two-criteria", "length"))
    out.mkdir(parents=True, exist_ok=True)
    pairs = out / "pairs.jsonl"
    if not pairs.exists():
        write_pairs(given, pairs)
    judge = ("--model", given.model, "--out", card)
    demo = ("--data", "demo", "--limit", str(given.limit), "--orderings", "cyclic")
    run("probe", *POINTWISE, *judge, *demo, "--writer", given.writer or given.model)
    bench = ("--data", f"mt_bench:{given.mt_bench}", "--limit", "48", "--set", "write=false")
    run("probe", "verbosity", "--model", given.model, "--out", length, *bench)
    run("probe", "agreeableness", *judge, "--orderings", "identity")
    run(
        "probe",
        "self_preference",
        "--model",
        given.other,
        "--data",
        str(pairs),
        "--out",
        second,
        "--set",
        f"family={given.other_family}",
    )
    run(
        "probe",
        "self_preference",
        *judge,
        "--data",
        str(pairs),
        "--set",
        f"family={given.family}",
        "--set",
        f"second={second}",
    )
    run("probe", "length_controlled", *judge, "--data", f"llmbar:{given.llmbar}", "--limit", "48")
    summaries = f"summeval:{given.summeval}?systems=M17"
    run("probe", "criteria_order", *judge, "--data", summaries, "--set", "texts=8")
    run(
        "probe",
        "criteria_order",
        "--model",
        given.model,
        "--out",
        two,
        "--data",
        f"{summaries}&criteria=coherence,relevance",
        "--set",
        "texts=8",
    )
    run("probe", "labels", *judge, *demo)
    run("card", card, "--out", str(out / "card.html"))


if __name__ == "__main__":
    main()
