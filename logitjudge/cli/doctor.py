"""``logitjudge doctor``: whether a judge will give honest readings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from logitjudge.cli import _console, _progress, _tables
from logitjudge.cli.run import _object

if TYPE_CHECKING:
    from rich.console import Console

    from logitjudge.doctor import Diagnosis

EXAMPLES = """
  logitjudge doctor --model Qwen/Qwen2.5-0.5B-Instruct
  logitjudge doctor --model judge.gguf --data items.jsonl --rubric helpfulness --json
"""
STYLES = {"ok": "green", "info": "", "warn": "bold yellow", "fail": "bold red"}
FOLLOWERS = {"digit": "digit", "point": "'.'", "point_digit": "'.' digit", "slash": "'/'"}


def doctor(
    model: Annotated[
        str,
        typer.Option(
            "--model",
            metavar="M",
            help="A Hugging Face id, a local folder, a .gguf file, 'embedded', or 'planted:SPEC'.",
        ),
    ],
    data: Annotated[
        str | None,
        typer.Option("--data", metavar="D", help="The items of the run that is planned; the demo items by default."),
    ] = None,
    rubric: Annotated[
        str,
        typer.Option(
            "--rubric", metavar="R", help="'item' (each item's own), a shipped rubric, or a .yaml/.json file."
        ),
    ] = "item",
    template: Annotated[
        str, typer.Option("--template", metavar="T", help="A shipped template, or a .j2 file.")
    ] = "prometheus",
    orderings: Annotated[
        str, typer.Option("--orderings", metavar="O", help="The design whose time is estimated.")
    ] = "balanced",
    backend: Annotated[
        str | None, typer.Option("--backend", help="hf or planted; found from the model by default.")
    ] = None,
    verdict: Annotated[
        str, typer.Option("--verdict", help="direct: the judge answers with the score at once.")
    ] = "direct",
    dtype: Annotated[str, typer.Option("--dtype", help="auto, bfloat16, float16 or float32.")] = "auto",
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:1 or mps.")] = "auto",
    revision: Annotated[
        str | None, typer.Option("--revision", metavar="REV", help="Commit, tag or branch of a hub id.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", help="The run that is planned has N items.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Of --limit and of random designs.")] = 0,
    max_batch_tokens: Annotated[
        int | None,
        typer.Option("--max-batch-tokens", metavar="N", min=1, help="Tokens of one forward pass."),
    ] = None,
    model_kwargs: Annotated[
        str | None, typer.Option("--model-kwargs", metavar="JSON", help="Keywords for loading, as for 'run'.")
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
    as_json: _console.AsJson = False,
    verbose: _console.Verbose = False,
) -> None:
    """Check, before a long run, that a judge reads honestly.

    Reads a handful of prompts: how much probability falls on the options, where the rest goes, what would follow an
    option, whether the fast path is proven, and how long the run would take. Exit code 1 means that a check failed.
    """
    from logitjudge.doctor import diagnose

    with _progress.shown() as progress:
        found = diagnose(
            model, data, orderings=orderings, rubric=rubric, template=template, verdict=verdict, limit=limit, seed=seed,
            max_batch_tokens=max_batch_tokens, progress=progress, backend=backend, dtype=dtype, device=device,
            revision=revision, model_kwargs=_object(model_kwargs), chat_template=chat_template, adapter=adapter,
            trust_remote_code=trust_remote_code,
        )  # fmt: skip
    if as_json:
        _console.print_json(found.to_dict())
    else:
        _print(_console.out(), found)
    raise typer.Exit(1 if found.status == "fail" else 0)


def _print(console: Console, found: Diagnosis) -> None:
    """Print the options as a table, then one line a check."""
    if found.options:
        _print_options(console, found)
    from rich.table import Table

    made = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    for check in found.checks:
        made.add_row(f"[{check.status}]", check.name, check.text, style=STYLES[check.status])
    console.print(made)


def _print_options(console: Console, found: Diagnosis) -> None:
    console.print(f"Options, read behind {found.context!r}; probabilities in %:", soft_wrap=True)
    rows = []
    for option in found.options:
        follows = option["follows"] or dict.fromkeys(FOLLOWERS)
        tokens = " ".join(f"{n}:{text!r}" for n, text in zip(option["token_ids"], option["tokens"], strict=True))
        probs = (option["prob"], option["alias_mass"], *(follows[name] for name in FOLLOWERS))
        rows.append([repr(option["text"]), tokens, *map(_console.percent, probs)])
    _tables.table(console, ["option", "tokens", "prob", "aliases", *FOLLOWERS.values()], rows, left=2)
    console.print("The last four columns: what stands behind the option.")
    console.print()
