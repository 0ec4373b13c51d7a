"""``logitjudge run``: judge items under a design of orderings, into a run folder."""

from __future__ import annotations

from typing import Annotated

import typer

from logitjudge.cli import _console, _judging, _options

EXAMPLES = """
  logitjudge run --model Qwen/Qwen2.5-0.5B-Instruct --data demo --out runs/q05
  logitjudge run --model ./my-model --data items.jsonl --rubric helpfulness --out runs/mine
  logitjudge run --model judge.gguf --data mt_bench:mt_bench_eval.json --limit 12 --out runs/mt
  logitjudge run --model ./my-model --data items.jsonl --verdict feedback --trace shared --out runs/texts
  logitjudge run --model ./my-model --backend openai --base-url http://gpu:8000/v1 --data items.jsonl --out runs/far
  logitjudge run --model 'planted:position=0.8,0,0,0,0.3' --data demo --orderings full --out runs/oracle
"""


def run(
    model: _options.Model,
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
    rubric: _options.Rubric = "item",
    backend: _options.Backend = None,
    template: _options.Template = "prometheus",
    verdict: _options.Verdict = "direct",
    max_new_tokens: _options.MaxNewTokens = 512,
    unended: _options.Unended = "refuse",
    trace: _options.Trace = "per-ordering",
    samples: _options.Samples = 1,
    temperature: _options.Temperature = 0.0,
    dtype: _options.Dtype = "auto",
    device: _options.Device = "auto",
    revision: _options.Revision = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", metavar="N", help="Judge N items, drawn round-robin over clusters in seeded order."),
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
    shard: Annotated[
        str | None,
        typer.Option("--shard", metavar="I/N", help="Read only this part of the batches (1/8 ... 8/8), for 'merge'."),
    ] = None,
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
        max_new_tokens=max_new_tokens, unended=unended, trace=trace, samples=samples, temperature=temperature,
        dtype=dtype, device=device, revision=revision, limit=limit,
        seed=seed, max_batch_tokens=max_batch_tokens, model_kwargs=_options.json_object(model_kwargs),
        chat_template=chat_template, adapter=adapter, base_url=base_url, served_model=served_model, timeout=timeout,
        concurrency=concurrency, trust_remote_code=trust_remote_code, overwrite=overwrite, shard=shard,
        engine=engine, workers=workers, ray_address=ray_address,
    )  # fmt: skip
    if shard is not None:
        typer.echo(
            f"{out}: shard {shard}, {len(made.items):,} items. When all shards are read: logitjudge merge DIR {out} ..."
        )
        return
    _judging.note_refusals(made)
    _judging.tell(out, made)
    raise typer.Exit(_judging.exit_code(made))
