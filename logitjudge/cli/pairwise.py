"""``logitjudge pairwise``: which of two responses a judge prefers, in both orders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from logitjudge.cli import _console, _judging, _options
from logitjudge.errors import InputError

EXAMPLES = """
  logitjudge pairwise --model Qwen/Qwen3-8B --data llmbar:LLMBar/Dataset --out runs/llmbar
  logitjudge pairwise --model ./my-model --data pairs.jsonl --ties --labels swap --out runs/mine
  logitjudge pairwise --model ./my-model --data pairs.csv --criteria "Which answer is correct?" --out runs/facts
  logitjudge pairwise --model 'planted:slot=0.8;letter=0.3' --data pairs.jsonl --out runs/oracle
"""


def pairwise(
    model: _options.Model,
    data: Annotated[
        str,
        typer.Option(
            "--data",
            metavar="D",
            help="Pairs: a .jsonl/.csv/.parquet file (id, instruction, response_1, response_2, gold), llmbar:PATH, evalbiasbench:PATH.",
        ),
    ],
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="The run folder; an unfinished run in it goes on.")],
    ties: Annotated[bool, typer.Option("--ties", help="The judge may also answer TIE.")] = False,
    labels: Annotated[
        str, typer.Option("--labels", help="slot: what stands first is A; swap: the letters are swapped, too (2 x 2).")
    ] = "slot",
    criteria: Annotated[
        str | None,
        typer.Option("--criteria", metavar="TEXT", help="What makes a response better: a text, or a file of it."),
    ] = None,
    points: Annotated[
        str | None,
        typer.Option(
            "--points",
            metavar="FILE",
            help="YAML list of {name, points, text}: both get points by each criterion instead.",
        ),
    ] = None,
    backend: _options.Backend = None,
    template: Annotated[
        str | None,
        typer.Option(
            "--template",
            metavar="T",
            help="pairwise, with --ties pairwise_ties, with --points pairwise_points, or a .j2 file.",
        ),
    ] = None,
    verdict: _options.Verdict = "direct",
    max_new_tokens: _options.MaxNewTokens = 512,
    unended: _options.Unended = "refuse",
    samples: _options.Samples = 1,
    temperature: _options.Temperature = 0.0,
    dtype: _options.Dtype = "auto",
    device: _options.Device = "auto",
    revision: _options.Revision = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", metavar="N", help="Judge N pairs, drawn round-robin over clusters in seeded order."),
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
    engine: _options.Engine = "local",
    workers: _options.Workers = "1",
    ray_address: _options.RayAddress = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Remove the run in --out and begin anew.")] = False,
    verbose: _console.Verbose = False,
) -> None:
    """Judge pairs of responses in both orders.

    Reads the probability of either response (and of a tie) in both orders, without sampling: content and position effect of every pair
    in log-odds. 'show' prints flips, win rates and accuracy; 'export --review' lists the pairs on which the orders disagree.

    The same command on an existing folder goes on where it stopped. Exit code 3: some pairs could not be judged.
    """
    from logitjudge.pairing import pairwise as judge_pairs

    common: dict[str, Any] = dict(
        out=out, backend=backend, verdict=verdict, max_new_tokens=max_new_tokens, unended=unended, samples=samples,
        temperature=temperature, dtype=dtype, device=device, revision=revision, limit=limit, seed=seed,
        max_batch_tokens=max_batch_tokens, model_kwargs=_options.json_object(model_kwargs), chat_template=chat_template,
        adapter=adapter, base_url=base_url, served_model=served_model, timeout=timeout, concurrency=concurrency,
        trust_remote_code=trust_remote_code, overwrite=overwrite, engine=engine, workers=workers, ray_address=ray_address,
    )  # fmt: skip
    if points is not None:
        if ties or labels != "slot" or criteria is not None or verdict != "direct":
            raise InputError(
                "--points goes with no --ties, --labels, --criteria or --verdict: the criteria are those of the file."
            )
        _scored(model, data, points, template or "pairwise_points", common)
        return
    made = _judging.judged(
        model, data, judge=judge_pairs, ties=ties, labels=labels, criteria=_text(criteria), template=template, **common
    )
    _judging.note_refusals(made)
    _judging.tell(out, made)
    raise typer.Exit(_judging.exit_code(made))


def _scored(model: str, data: str, points: str, template: str, options: dict[str, Any]) -> None:
    """Read points, and say where they are; exit code 3 where a pair lacks some."""
    from logitjudge.scored import scored_pairs

    made = _judging.judged(model, data, judge=scored_pairs, points=points, template=template, **options)
    typer.echo(
        f"{options['out']}: {_console.plural(len(made.ids), 'pair')} x both orders x {len(made.criteria)} criteria"
    )
    typer.echo(f"next: logitjudge show {options['out']}")
    if made.refused:
        _console.note(f"{_console.plural(len(made.refused), 'pair')} refused: {', '.join(made.refused[:20])}")
        raise typer.Exit(3)


def _text(criteria: str | None) -> str | None:
    """Criteria as given, or as the file of that name has them."""
    if criteria is None or not criteria.lower().endswith((".txt", ".md")):
        return criteria
    try:
        return Path(criteria).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"--criteria {criteria}: the file cannot be read: {error}. Give a text, or a UTF-8 file."
        ) from error
