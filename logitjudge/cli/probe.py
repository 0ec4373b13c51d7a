"""``logitjudge probe``: one bias of a judge, with the content held constant."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from logitjudge.cli import _console, _judging, _options

EXAMPLES = """
  logitjudge probe verbosity formatting --model Qwen/Qwen3-8B --data mine.jsonl --out cards/q8
  logitjudge probe all --model ./my-model --data demo --limit 24 --out cards/mine
  logitjudge probe self_preference --model Qwen/Qwen3-8B --data mine.jsonl --set family=qwen --set second=cards/llama --out cards/q8
  logitjudge probe ./mine.py --model ./my-model --data demo --out cards/mine
"""


def probe(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="Probes (see 'list probes'), 'all', or ./mine.py.")
    ],
    model: _options.Model,
    out: Annotated[
        str,
        typer.Option(
            "--out", metavar="DIR", help="Folder of the judge's card; each probe has a folder in it and goes on there."
        ),
    ],
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="D",
            help="Items with responses. Not for probes with their own, under 'all'.",
        ),
    ] = None,
    writer: Annotated[
        str | None,
        typer.Option(
            "--writer", metavar="M", help="Model that writes texts where a probe needs some; the judge itself."
        ),
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Parameter of a probe, such as family=qwen; repeatable."),
    ] = None,
    rubric: Annotated[str | None, typer.Option("--rubric", metavar="R", help=_options.RUBRIC)] = None,
    orderings: Annotated[
        str, typer.Option("--orderings", metavar="O", help="Of what is judged by a rubric.")
    ] = "balanced",
    backend: _options.Backend = None,
    dtype: _options.Dtype = "auto",
    device: _options.Device = "auto",
    revision: _options.Revision = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", help="Take N items, spread over the clusters.")
    ] = None,
    seed: _options.Seed = 0,
    model_kwargs: _options.ModelKwargs = None,
    chat_template: _options.ChatTemplate = None,
    adapter: _options.Adapter = None,
    base_url: _options.BaseUrl = None,
    trust_remote_code: _options.TrustRemoteCode = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Judge anew what these probes judged in --out.")
    ] = False,
    as_json: _console.AsJson = False,
    verbose: _console.Verbose = False,
) -> None:
    """Test a judge for a bias.

    Judges variants of the items that differ in one thing, in both orders and under all orderings, and prints the effect with its
    interval, the smallest effect that these items could show, and what the noise floor could do. 'card DIR' shows all probes of a judge.
    Exit code 3 means that some items could not be judged.
    """
    from logitjudge import registry
    from logitjudge.cli._sections import card as tables
    from logitjudge.probing import REFUSED, has_items, run_probe
    from logitjudge.workers import kept

    listed = [every for name in names for every in (registry.names("probes") if name == "all" else [name])]
    asked = list(dict.fromkeys(listed))
    chosen = _parameters(asked, given or [])
    options: dict[str, Any] = dict(
        writer=writer, rubric=rubric, orderings=orderings, backend=backend, dtype=dtype, device=device, revision=revision,
        limit=limit, seed=seed, model_kwargs=_options.json_object(model_kwargs), chat_template=chat_template, adapter=adapter,
        base_url=base_url, trust_remote_code=trust_remote_code, overwrite=overwrite,
    )  # fmt: skip
    made = []
    with kept():
        for name in asked:
            _console.note(f"probe {name}")
            made.append(
                _judging.judged(
                    model,
                    None if "all" in names and has_items(name) else data,
                    judge=lambda m, d, n=name, **more: run_probe(m, n, d, **more),
                    out=out,
                    parameters=chosen[name],
                    **options,
                )  # fmt: skip
            )
    if as_json:
        _console.print_json(made)
    else:
        for one in made:
            tables.probe(_console.out(), one)
        typer.echo(f"\nnext: logitjudge card {out}")
    raise typer.Exit(3 if any(why.startswith(REFUSED) for one in made for why in one["skipped"]) else 0)


def _parameters(asked: list[str], given: list[str]) -> dict[str, dict[str, str]]:
    """Of each probe asked for the parameters that it has; each must be known to one of them.

    Raises
    ------
    InputError
        A parameter without a value, one that is given twice, or one that no probe has.
    """
    from logitjudge.errors import InputError, unknown
    from logitjudge.probing import parameters_of

    known = {name: parameters_of(name) for name in asked}
    every = {parameter for names in known.values() for parameter in names}
    values: dict[str, str] = {}
    for text in given:
        key, sign, value = (part.strip() for part in text.partition("="))
        if not key or not sign or key in values:
            raise InputError(f"--set {text!r} should be given once, as NAME=VALUE.")
        if key not in every:
            has = unknown("parameter", key, every) if every else f"{', '.join(asked)} has no parameters."
            raise InputError(f"--set {text!r}: {has}")
        values[key] = value
    return {name: {key: values[key] for key in names if key in values} for name, names in known.items()}
