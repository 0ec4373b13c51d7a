"""``logitjudge pairwise``: which of two responses a judge prefers, in both orders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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
    backend: _options.Backend = None,
    template: Annotated[
        str | None, typer.Option("--template", metavar="T", help="pairwise, with --ties pairwise_ties, or a .j2 file.")
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
    timeout: _options.Timeout = 60.0,
    concurrency: _options.Concurrency = 8,
    trust_remote_code: _options.TrustRemoteCode = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Remove the run in --out and begin anew.")] = False,
    verbose: _console.Verbose = False,
) -> None:
    """Judge pairs of responses in both orders.

    Reads the probability of either response (and of a tie) in both orders, without sampling: content and position effect of every pair
    in log-odds. 'show' prints flips, win rates and accuracy; 'export --review' lists the pairs on which the orders disagree.

    The same command on an existing folder goes on where it stopped. Exit code 3: some pairs could not be judged.
    """
    from logitjudge.pairing import pairwise as judge_pairs

    made = _judging.judged(
        model, data, judge=judge_pairs, out=out, ties=ties, labels=labels, criteria=_text(criteria), backend=backend,
        template=template, verdict=verdict, max_new_tokens=max_new_tokens, unended=unended, samples=samples,
        temperature=temperature, dtype=dtype, device=device, revision=revision, limit=limit, seed=seed,
        max_batch_tokens=max_batch_tokens, model_kwargs=_options.json_object(model_kwargs), chat_template=chat_template,
        adapter=adapter, base_url=base_url, served_model=served_model, timeout=timeout, concurrency=concurrency,
        trust_remote_code=trust_remote_code, overwrite=overwrite,
    )  # fmt: skip
    _judging.note_refusals(made)
    _judging.tell(out, made)
    raise typer.Exit(_judging.exit_code(made))


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
