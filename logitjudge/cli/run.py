"""``logitjudge run``: judge items under a design of orderings, into a run folder."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from logitjudge.cli import _console, _judging
from logitjudge.cli._console import plural
from logitjudge.errors import InputError

EXAMPLES = """
  logitjudge run --model Qwen/Qwen2.5-0.5B-Instruct --data demo --out runs/q05
  logitjudge run --model ./my-model --data items.jsonl --rubric helpfulness --out runs/mine
  logitjudge run --model judge.gguf --data mt_bench:mt_bench_eval.json --limit 12 --out runs/mt
  logitjudge run --model 'planted:position=0.8,0,0,0,0.3' --data demo --orderings full --out runs/oracle
"""


def run(
    model: Annotated[
        str,
        typer.Option(
            "--model",
            metavar="M",
            help="A Hugging Face id, a local folder, a .gguf file, 'embedded', or 'planted:SPEC'.",
        ),
    ],
    data: Annotated[
        str,
        typer.Option(
            "--data",
            metavar="D",
            help="'demo', a .jsonl/.csv/.parquet file, NAME:PATH (see 'list datasets'), or ./mine.py:ARG.",
        ),
    ],
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="The run folder; an unfinished run in it goes on.")],
    orderings: Annotated[
        str,
        typer.Option(
            "--orderings", metavar="O", help="A design (see 'list orderings'), or score values: '1,2,3;3,2,1'."
        ),
    ] = "balanced",
    rubric: Annotated[
        str,
        typer.Option(
            "--rubric",
            metavar="R",
            help="'item' (each item's own), a shipped rubric, or a .yaml/.json file for all items.",
        ),
    ] = "item",
    backend: Annotated[
        str | None, typer.Option("--backend", help="hf or planted; found from the model by default.")
    ] = None,
    template: Annotated[
        str, typer.Option("--template", metavar="T", help="A shipped template, or a .j2 file.")
    ] = "prometheus",
    verdict: Annotated[
        str, typer.Option("--verdict", help="direct: the judge answers with the score at once.")
    ] = "direct",
    dtype: Annotated[str, typer.Option("--dtype", help="auto, bfloat16, float16 or float32.")] = "auto",
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:1 or mps.")] = "auto",
    revision: Annotated[
        str | None, typer.Option("--revision", metavar="REV", help="Commit, tag or branch of a hub id.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", metavar="N", help="Judge N items, drawn round-robin over clusters in seeded order."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Of --limit and of random designs.")] = 0,
    max_batch_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-batch-tokens",
            metavar="N",
            min=1,
            help="Tokens of one forward pass; from the free memory by default.",
        ),
    ] = None,
    model_kwargs: Annotated[
        str | None,
        typer.Option(
            "--model-kwargs", metavar="JSON", help='Keywords for loading, e.g. \'{"attn_implementation": "eager"}\'.'
        ),
    ] = None,
    chat_template: Annotated[
        str | None, typer.Option("--chat-template", metavar="FILE", help="Another chat template than the model's own.")
    ] = None,
    adapter: Annotated[
        str | None, typer.Option("--adapter", metavar="PATH", help="A PEFT adapter to load on the model.")
    ] = None,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run the Python code that a model brings. Read it first.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Remove the run in --out and begin anew.")] = False,
    verbose: _console.Verbose = False,
) -> None:
    """Judge items under every ordering of a design.

    Reads the probability of every score option, for every item, under every ordering, in forward passes. No sampling.

    The same command on an existing folder goes on where it stopped; nothing that was read is read again or lost. Exit
    code 3 means that the run is finished, but that some items could not be judged.
    """
    made = _judging.judged(
        model, data, out=out, orderings=orderings, rubric=rubric, backend=backend, template=template, verdict=verdict,
        dtype=dtype, device=device, revision=revision, limit=limit, seed=seed, max_batch_tokens=max_batch_tokens,
        model_kwargs=_object(model_kwargs), chat_template=chat_template, adapter=adapter,
        trust_remote_code=trust_remote_code, overwrite=overwrite,
    )  # fmt: skip
    _judging.note_refusals(made)
    _report(out, made)
    raise typer.Exit(_judging.exit_code(made))


def _object(text: str | None) -> dict[str, Any]:
    """JSON object of --model-kwargs."""
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InputError(f"--model-kwargs {text!r} is not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise InputError(f'--model-kwargs {text!r} is not a JSON object, such as {{"attn_implementation": "eager"}}.')
    return value


def _report(out: str, made: Any) -> None:
    """Say what is there now."""
    items, orders, _ = made.logp.shape
    counts = f"{plural(items, 'item')} x {plural(orders, 'ordering')} = {plural(items * orders, 'reading')}"
    refused = f", {plural(len(made.refused), 'item')} refused" if made.refused else ""
    typer.echo(f"{out}: {counts}{refused}")
    typer.echo(f"mass on the options: mean {made.mass.mean():.1%}, least {made.mass.min():.1%}")
    typer.echo(f"next: logitjudge show {out}")
