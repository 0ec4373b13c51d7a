"""Options that several commands take, with one wording."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from logitjudge import files
from logitjudge.errors import InputError, shown

MODEL = "A Hugging Face id, a local folder, a .gguf file, 'embedded', or 'planted:SPEC'."
RUBRIC = "'item' (each item's own), a shipped rubric, or a .yaml/.json file for all items."
KWARGS = 'Keywords for loading, e.g. \'{"attn_implementation": "eager"}\', or vLLM\'s.'

Model = Annotated[str, typer.Option("--model", metavar="M", help=MODEL)]
Rubric = Annotated[str, typer.Option("--rubric", metavar="R", help=RUBRIC)]
Template = Annotated[str, typer.Option("--template", metavar="T", help="A shipped template, or a .j2 file.")]
Backend = Annotated[str | None, typer.Option("--backend", help="hf, vllm, openai (with --base-url) or planted.")]
Verdict = Annotated[
    str,
    typer.Option(
        "--verdict",
        help="direct: the score at once; feedback or think: the judge writes before it scores; sampled: it writes, and "
        "the score is parsed.",
    ),
]
MaxNewTokens = Annotated[
    int, typer.Option("--max-new-tokens", metavar="N", min=1, help="Tokens of the longest text that the judge writes.")
]
Unended = Annotated[
    str, typer.Option("--unended", help="A text without its end marker: 'refuse' its item, or 'close' it by force.")
]
Trace = Annotated[
    str,
    typer.Option(
        "--trace",
        metavar="T",
        help="per-ordering: the judge writes under every ordering; shared[:DESIGN]: under a few (the cyclic ones), and "
        "each text is read under all.",
    ),
]
Samples = Annotated[
    int, typer.Option("--samples", metavar="S", min=1, help="Texts for each ordering, at --temperature.")
]
Temperature = Annotated[
    float, typer.Option("--temperature", metavar="T", min=0, help="Of the judge's texts; 0 is greedy.")
]
Dtype = Annotated[str, typer.Option("--dtype", help="auto, bfloat16, float16 or float32.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:1 or mps.")]
Revision = Annotated[str | None, typer.Option("--revision", metavar="REV", help="Commit, tag or branch of a hub id.")]
Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Of --limit and of random designs.")]
MaxBatchTokens = Annotated[
    int | None,
    typer.Option(
        "--max-batch-tokens", metavar="N", min=1, help="Tokens of one forward pass; from the free memory by default."
    ),
]
ModelKwargs = Annotated[str | None, typer.Option("--model-kwargs", metavar="JSON", help=KWARGS)]
ChatTemplate = Annotated[
    str | None, typer.Option("--chat-template", metavar="FILE", help="Another chat template than the model's own.")
]
Adapter = Annotated[str | None, typer.Option("--adapter", metavar="PATH", help="A PEFT adapter to load on the model.")]
BaseUrl = Annotated[
    str | None,
    typer.Option("--base-url", metavar="URL", help="Of the server, for --backend openai: http://127.0.0.1:8000/v1."),
]
ServedModel = Annotated[
    str | None,
    typer.Option("--served-model", metavar="NAME", help="The server's name of the model; the only one that it has."),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="S",
        help="Seconds that a server may take to answer (--backend openai; 60), or that a local judge may write one text: an item "
        "whose text has not ended then is refused.",
    ),
]
Concurrency = Annotated[
    int, typer.Option("--concurrency", metavar="N", help="Requests in flight to a server (--backend openai).")
]
TrustRemoteCode = Annotated[
    bool, typer.Option("--trust-remote-code", help="Run the Python code that a model brings. Read it first.")
]

Engine = Annotated[
    str, typer.Option("--engine", help="Who reads: 'local', this machine; 'ray', actors of a Ray cluster.")
]
Workers = Annotated[
    str,
    typer.Option(
        "--workers",
        metavar="N|auto",
        help="Copies of the judge that read side by side; auto: as many as the GPUs hold.",
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray-address",
        metavar="A",
        help="auto, HOST:PORT or ray://HOST:PORT; by default RAY_ADDRESS, else a local one.",
    ),
]


def json_object(text: str | None) -> dict[str, Any]:
    """JSON object of --model-kwargs."""
    if text is None:
        return {}
    try:
        value = files.load_json(text)
    except ValueError as error:
        raise InputError(f"--model-kwargs {shown(text)} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise InputError(
            f'--model-kwargs {shown(text)} is not a JSON object, such as {{"attn_implementation": "eager"}}.'
        )
    return value
