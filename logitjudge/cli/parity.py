"""``logitjudge parity``: the same token ids by transformers and by vLLM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from logitjudge.cli import _console, _options, _tables

if TYPE_CHECKING:
    from rich.console import Console

    from logitjudge.parity import Parity

EXAMPLES = """
  logitjudge parity --model Qwen/Qwen3-8B --data demo --limit 5
  logitjudge parity --model ./judge --data items.jsonl --rubric helpfulness --dtype float32 --json
"""
KWARGS = "Keywords of vLLM, e.g. '{\"max_model_len\": 8192}'."


def parity(
    model: _options.Model,
    data: Annotated[str, typer.Option("--data", metavar="D", help="As of 'run'.")],
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="The items that 'run --limit' would take.")
    ] = None,
    orderings: Annotated[str, typer.Option("--orderings", metavar="O", help="As of 'run'.")] = "balanced",
    rubric: _options.Rubric = "item",
    template: _options.Template = "prometheus",
    dtype: _options.Dtype = "auto",
    device: _options.Device = "auto",
    seed: _options.Seed = 0,
    tolerance: Annotated[
        float | None,
        typer.Option(
            "--tolerance",
            metavar="NATS",
            min=0,
            help="By default 0.001 in float32, else four times the larger noise floor of the two.",
        ),
    ] = None,
    model_kwargs: Annotated[str | None, typer.Option("--model-kwargs", metavar="JSON", help=KWARGS)] = None,
    as_json: _console.AsJson = False,
    verbose: _console.Verbose = False,
) -> None:
    """Compare transformers and vLLM on the same prompts.

    Reads the same token ids by both, one after the other, and says how far apart the log-probabilities are. Runs where
    both are installed (scripts/install_vllm.sh). Exit code 1: some option is further apart than the tolerance.
    """
    from logitjudge.parity import parity as compare

    found = compare(
        model, data, limit=limit, orderings=orderings, rubric=rubric, template=template, dtype=dtype, device=device,
        seed=seed, tolerance=tolerance, model_kwargs=_options.json_object(model_kwargs), say=_console.note,
    )  # fmt: skip
    if as_json:
        _console.print_json(found.to_dict())
    else:
        _print(_console.out(), found)
    raise typer.Exit(0 if found.ok else 1)


def _print(console: Console, found: Parity) -> None:
    diff, dtype = found.differences, found.engines["vllm"]["dtype"]
    rows = [
        ["nats, an option", f"{diff.max_nats:.2g}", f"{diff.median_nats:.2g}"],
        ["expected score", f"{diff.max_score:.2g}", f"{diff.median_score:.2g}"],
    ]
    _tables.say(console, f"{found.model} in {dtype}: {_console.plural(diff.prompts, 'prompt')} by hf and by vllm")
    _tables.table(console, ["difference", "largest", "median"], rows)
    changed = _console.plural(diff.winners_changed, "winner")
    _tables.say(console, f"{changed} changed, {diff.ties} of them in a tie within the tolerance.")
    noise = ", ".join(f"{name} {nats:.2g}" for name, nats in found.noise.items())
    verdict = "within the tolerance" if found.ok else "more than the tolerance"
    _tables.say(console, f"{diff.max_nats:.2g} nats: {verdict} of {found.tolerance:.2g}. Noise floors: {noise} nats.")
