"""Loading a judge with transformers: hub id, folder, GGUF, adapter, device map."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import transformers

from logitjudge.errors import ModelError
from logitjudge.models import ModelSpec

LARGER = 2  # times as many rows as words: no padding is as long


def load(spec: ModelSpec) -> tuple[Any, Any]:
    """Model in evaluation mode, and tokenizer.

    Raises
    ------
    ModelError
        Anything that keeps them from loading, with what to do.
    """
    if spec.kind == "loaded":
        if spec.tokenizer is None:
            raise ModelError("a loaded model needs its tokenizer: judge(model, ..., tokenizer=...).")
        _check_vocabulary(spec, spec.model, spec.tokenizer)
        return spec.model.eval(), spec.tokenizer
    where, source = _source(spec)
    tokenizer = load_tokenizer(spec)
    with quiet():
        try:
            model = transformers.AutoModelForCausalLM.from_pretrained(where, **source, **_options(spec))
        except Exception as error:
            raise ModelError(_reason(spec, error)) from error
        if spec.adapter:
            model = _adapted(model, spec.adapter)
    _check_vocabulary(spec, model, tokenizer)
    return _placed(model, spec).eval(), tokenizer


def _check_vocabulary(spec: ModelSpec, model: Any, tokenizer: Any) -> None:
    """Warn where tokenizer and weights differ so much in size that they may not belong together."""
    words, rows = len(tokenizer), model.get_input_embeddings().weight.shape[0]
    if not words <= rows <= LARGER * words:
        warnings.warn(
            f"the tokenizer of {spec.shown_name} has {words:,} tokens, and its weights know {rows:,}: if they belong to different "
            "models, no reading means anything. Look at: logitjudge doctor.",
            stacklevel=2,
        )


def load_tokenizer(spec: ModelSpec) -> Any:
    """Tokenizer alone. Raises `ModelError` as `load` does."""
    if spec.kind == "loaded":
        raise ModelError(
            f"the judge {spec.name!r} was a loaded model, so its tokenizer cannot be opened from its name."
        )
    where, source = _source(spec)
    with quiet():
        try:
            made = transformers.AutoTokenizer.from_pretrained(where, **source)
            made(["a"])  # some wrong settings come out only as it is used
            return made
        except Exception as error:
            raise ModelError(_reason(spec, error)) from error


def _source(spec: ModelSpec) -> tuple[str, dict[str, Any]]:
    if spec.kind == "gguf":
        assert spec.path is not None
        return str(spec.path.parent), {"gguf_file": spec.path.name}
    return str(spec.path or spec.name), {"revision": spec.revision, "trust_remote_code": spec.trust_remote_code}


def _options(spec: ModelSpec) -> dict[str, Any]:
    """Keywords of from_pretrained. GGUF weights are dequantised, so ``auto`` means float32 for them."""
    auto: Any = torch.float32 if spec.kind == "gguf" else "auto"
    options: dict[str, Any] = {"dtype": auto if spec.dtype == "auto" else getattr(torch, spec.dtype)}
    if spec.kind != "gguf":
        options["use_safetensors"] = True  # weights that cannot run code
    if spec.device == "auto" and torch.cuda.is_available():
        options["device_map"] = "auto"
    return options | dict(spec.model_kwargs)


def _placed(model: Any, spec: ModelSpec) -> Any:
    if getattr(model, "hf_device_map", None) or getattr(model, "is_quantized", False) and spec.device == "auto":
        return model
    device = spec.device
    if device == "auto":
        device = "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        return model.to(device)
    except (RuntimeError, AssertionError) as error:
        raise ModelError(
            f"device {device!r} cannot be used: {str(error).splitlines()[0]}. Try --device auto."
        ) from error


def _adapted(model: Any, adapter: str) -> Any:
    folder = Path(adapter)
    if any(folder.glob("*.bin")) and not any(folder.glob("*.safetensors")):  # pickles may run code
        raise ModelError(f"adapter {adapter} has no safetensors weights. Save it again with PEFT, which writes them.")
    try:
        model.load_adapter(adapter)
    except ImportError as error:
        raise ModelError("an adapter needs the package peft: pip install peft.") from error
    except (OSError, ValueError) as error:
        raise ModelError(f"adapter {adapter} cannot be loaded: {error}") from error
    return model


def _reason(spec: ModelSpec, error: Exception) -> str:
    text = str(error).strip()
    if "trust_remote_code" in text:
        return f"model {spec.name} brings its own Python code. Read it, and if you trust it, add --trust-remote-code."
    if "safetensors" in text and "use_safetensors" not in spec.model_kwargs and isinstance(error, OSError):
        return (
            f"model {spec.name} has no safetensors weights. Convert it, or if you trust the file, add "
            """--model-kwargs '{"use_safetensors": false}'."""
        )
    return f"model {spec.name} cannot be loaded: {type(error).__name__}: {text.splitlines()[0] if text else 'no reason given'}"


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers' own warnings and bars off the user's terminal, unless logging of ``logitjudge`` shows INFO (``-v``)."""
    if logging.getLogger("logitjudge").isEnabledFor(logging.INFO):
        yield
        return
    log = transformers.utils.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()
