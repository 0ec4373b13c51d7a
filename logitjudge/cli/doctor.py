"""``logitjudge doctor``: whether a judge will give honest readings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from logitjudge.cli import _console, _options, _progress, _tables

if TYPE_CHECKING:
    from rich.console import Console

    from logitjudge.doctor import Diagnosis

EXAMPLES = """
  logitjudge doctor --model Qwen/Qwen2.5-0.5B-Instruct
  logitjudge doctor --model judge.gguf --data items.jsonl --rubric helpfulness --json
"""
STYLES = {"ok": "green", "info": "", "warn": "bold yellow", "fail": "bold red"}
LAST = {
    "ok": "this judge can be read with this rubric",
    "info": "this judge can be read with this rubric",
    "warn": "read the warnings before you trust its readings",
    "fail": "do not judge with it as it is",
}
FOLLOWERS = {"digit": "digit", "point": "'.'", "point_digit": "'.' digit", "slash": "'/'"}


def doctor(
    model: _options.Model,
    data: Annotated[
        str | None,
        typer.Option("--data", metavar="D", help="The items of the run that is planned; the demo items by default."),
    ] = None,
    orderings: Annotated[
        str, typer.Option("--orderings", metavar="O", help="The design whose time is estimated.")
    ] = "balanced",
    rubric: _options.Rubric = "item",
    backend: _options.Backend = None,
    template: _options.Template = "prometheus",
    verdict: _options.Verdict = "direct",
    dtype: _options.Dtype = "auto",
    device: _options.Device = "auto",
    revision: _options.Revision = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", help="The run that is planned has N items.")
    ] = None,
    seed: _options.Seed = 0,
    max_batch_tokens: _options.MaxBatchTokens = None,
    model_kwargs: _options.ModelKwargs = None,
    chat_template: _options.ChatTemplate = None,
    adapter: _options.Adapter = None,
    base_url: _options.BaseUrl = None,
    served_model: _options.ServedModel = None,
    timeout: _options.Timeout = None,
    concurrency: _options.Concurrency = 8,
    trust_remote_code: _options.TrustRemoteCode = False,
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
            revision=revision, model_kwargs=_options.json_object(model_kwargs), chat_template=chat_template, adapter=adapter,
            base_url=base_url, served_model=served_model, timeout=timeout, concurrency=concurrency,
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
    bad = {status: sum(check.status == status for check in found.checks) for status in ("fail", "warn")}
    console.print(f"{bad['fail']} failed, {bad['warn']} to look at: {LAST[found.status]}.")


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
