"""``logitjudge bench``: the same prompts through several engines, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from logitjudge.cli import _console, _options, _tables
from logitjudge.cli._console import number

if TYPE_CHECKING:
    from rich.console import Console

    from logitjudge.bench import Bench, Row

EXAMPLES = """
  logitjudge bench --model Qwen/Qwen2.5-0.5B-Instruct --data demo
  logitjudge bench --model ./judge --data mt_bench:mt_bench_eval.json --engines plain,packed,vllm --sample 12
  logitjudge bench --model ./judge --data demo --engines packed --designs balanced --growth --json
"""
COLUMNS = ("engine", "design", "seconds", "prompts/s", "unique/s", "hits", "MiB", "max nats", "speed-up")


def bench(
    model: _options.Model,
    data: Annotated[
        str,
        typer.Option("--data", metavar="D", help="As of 'run'; the items are those that 'run --limit' would take."),
    ],
    engines: Annotated[
        str | None,
        typer.Option(
            "--engines",
            metavar="E,...",
            help="Of plain, shared, packed, lm_eval, vllm, vllm_server; by default those installed, but the server.",
        ),
    ] = None,
    designs: Annotated[
        str, typer.Option("--designs", metavar="O,...", help="Designs by name (see 'list orderings').")
    ] = "balanced,full",
    repeats: Annotated[
        int, typer.Option("--repeats", metavar="N", min=1, help="Interleaved rounds; the median is reported.")
    ] = 3,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Items.")] = 1,
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample", metavar="N", min=1, help="Time plain and lm_eval on N prompts of a design, and scale."
        ),
    ] = None,
    growth: Annotated[
        bool, typer.Option("--growth", help="Time the packed path by the number of orderings and of levels, too.")
    ] = False,
    rubric: _options.Rubric = "item",
    template: _options.Template = "prometheus",
    dtype: _options.Dtype = "auto",
    device: _options.Device = "auto",
    seed: _options.Seed = 0,
    max_batch_tokens: _options.MaxBatchTokens = None,
    as_json: _console.AsJson = False,
    verbose: _console.Verbose = False,
) -> None:
    """Time engines on the same prompts, side by side.

    Plain prompts in batches, the shared prefix and the packed tree are ours; lm_eval, vllm and a vllm_server on this
    machine run in environments of their own (scripts/install_lmeval.sh, scripts/install_vllm.sh). Every figure is the
    median of interleaved rounds, and every reading is compared with the plain forward in float32.
    """
    from logitjudge import bench as benches

    names = engines.split(",") if engines is not None else [*benches.OWN, *benches.installed()]
    try:
        found = benches.bench(
            model, data, engines=names, designs=designs.split(","), repeats=repeats, limit=limit, sample=sample,
            growth=growth, rubric=rubric, template=template, dtype=dtype, device=device, seed=seed,
            max_batch_tokens=max_batch_tokens, say=_console.note,
        )  # fmt: skip
    except benches.WorkerError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    if as_json:
        _console.print_json(found.to_dict())
    else:
        _print(_console.out(), found)


def _print(console: Console, found: Bench) -> None:
    _tables.table(console, COLUMNS, [_cells(row, found.speed_up(row)) for row in found.rows], left=2)
    _tables.say(
        console,
        "unique/s: unique tokens a second. hits: share of prompt tokens that were found in the engine's cache. MiB: most "
        "memory. max nats: largest difference from plain prompts in float32.",
    )
    for row in found.rows:
        if row.scaled_from:
            _tables.say(console, f"{row.engine}, {row.design}: scaled from {row.scaled_from} of {row.prompts} prompts.")
    _print_ratios(console, found)
    if found.growth:
        _print_growth(console, found)
    _tables.title(console, "Settings")
    for name, settings in {row.engine: row.settings for row in found.rows}.items():
        _tables.say(console, f"{name}: {', '.join(_flat(settings))}")


def _cells(row: Row, speed_up: float | None) -> list[str]:
    rates = [f"{count / row.seconds:,.4g}" for count in (row.prompts, row.unique_tokens)]
    memory, hits = number(row.peak_mib, ",.0f"), number(row.hit_rate, ".1%")
    nats, faster = f"{row.max_nats:.2g}", number(speed_up, ".2f")
    return [row.engine, row.design, f"{row.seconds:.4g}", *rates, hits, memory, nats, faster]


def _print_ratios(console: Console, found: Bench) -> None:
    """The bound that sharing has, and how near the packed path comes to it."""
    _tables.title(console, "Tokens")
    first = {row.design: row for row in found.rows}
    rows = [
        [name, f"{row.tokens:,}", f"{row.unique_tokens:,}", f"{ratio:.2f}", number(found.efficiency[name])]
        for (name, row), ratio in zip(first.items(), found.token_ratio.values(), strict=True)
    ]
    _tables.table(console, ["design", "as written", "unique", "ratio", "efficiency"], rows)
    _tables.say(
        console, "efficiency: unique tokens a second of the packed path over those of a plain 1,024-token prefill."
    )


def _print_growth(console: Console, found: Bench) -> None:
    _tables.title(console, "Growth of the packed path")
    heads = ["levels", "orderings", "prompts", "tokens", "unique", "seconds"]
    rows = [
        [str(p.k), *(f"{n:,}" for n in (p.orderings, p.prompts, p.tokens, p.unique_tokens)), f"{p.seconds:.4g}"]
        for p in found.growth or ()
    ]
    _tables.table(console, heads, rows)


def _flat(settings: Mapping[str, Any]) -> Iterator[str]:
    """``name value`` of nested settings, without those that are not set."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from (f"{name} {inner}" for inner in _flat(value))
        elif value is not None:
            yield f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
