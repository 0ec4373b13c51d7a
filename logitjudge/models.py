"""Which judge is meant: a hub id, a folder, a GGUF file, the embedded judge, a planted one, or a loaded model.

Also what makes it that judge (its fingerprint), found without loading it, so that a finished run is recognised in seconds.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from logitjudge import embedded, files, registry
from logitjudge.backends import Backend
from logitjudge.errors import ModelError, shown, unknown
from logitjudge.tokens import Tokenizer

WEIGHTS = {".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx"}
OPENING = (  # arguments of `logitjudge.judge` that say how a judge is opened
    "backend", "dtype", "device", "revision", "trust_remote_code", "model_kwargs", "chat_template", "adapter", "base_url",
    "served_model", "timeout", "concurrency", "tokenizer",
)  # fmt: skip
SECRETS = ("token", "use_auth_token", "hf_token", "api_key")  # in no file of ours
DTYPES = ("auto", "bfloat16", "float16", "float32")
MIB = 1 << 20
ROOM = 0.8  # share of a GPU's memory that weights may take; the rest is for activations
BLOCKS, BLOCK = 2048, 1024  # bytes read all over a weight file


@dataclass(frozen=True, slots=True, eq=False)
class ModelSpec:
    """A judge, and how to open it.

    Parameters
    ----------
    kind
        What `name` is.
    name
        As the user wrote it; for ``planted`` the part behind the colon.
    path
        The folder or GGUF file, where there is one.
    date
        ISO date that chat templates print as today's.
    thinks
        The chat template may open a reasoning trace (verdict mode ``think``).
    base_url, served_model, concurrency
        For the backend ``openai``: where the server is, its name of the model, and requests in flight.
    timeout
        Seconds that an answer of the server may take (None: 60); with the backend ``hf``, that a text may take which the
        judge writes (None: any).
    model, tokenizer
        Loaded objects, for ``loaded``.
    """

    kind: Literal["hub", "folder", "gguf", "planted", "loaded"]
    name: str
    path: Path | None = None
    revision: str | None = None
    dtype: str = "auto"
    device: str = "auto"
    trust_remote_code: bool = False
    model_kwargs: Mapping[str, Any] = field(default_factory=dict)
    chat_template: str | None = None
    adapter: str | None = None
    backend: str = "hf"
    served_model: str | None = None
    base_url: str | None = None
    timeout: float | None = None
    concurrency: int = 8
    date: str = ""
    thinks: bool = False
    model: Any = None
    tokenizer: Any = None

    @property
    def shown_name(self) -> str:
        """The judge's name for people."""
        return f"planted:{self.name}" if self.kind == "planted" else self.name

    def identity(self) -> dict[str, Any]:
        """JSON values that make readings what they are; a resumed run must have the same."""
        return {
            "model": self.shown_name
            if self.kind in ("hub", "planted")
            else None,  # a path may change, the files may not
            "revision": self.revision,
            "fingerprint": fingerprint(self),
            "backend": self.backend,
            "served_model": self.served_model,
            "dtype": self.dtype,
            "model_kwargs": dict(self.model_kwargs),
            "chat_template": self.chat_template and _sha(self.chat_template.encode()),
            "adapter": self.adapter and _files_hash(Path(self.adapter))
            if self.adapter and Path(self.adapter).exists()
            else self.adapter,
        }


REPEATED = (
    "kind",
    "name",
    "revision",
    "dtype",
    "device",
    "trust_remote_code",
    "model_kwargs",
    "chat_template",
    "adapter",
    "backend",
    "thinks",
    "served_model",
)
LOCAL: dict[str, Any] = {
    "dtype": "auto",
    "device": "auto",
    "adapter": None,
    "model_kwargs": {},
}  # what a server decides for itself
REMOTE: dict[str, Any] = {"base_url": None, "served_model": None, "concurrency": 8}
PATIENCE = 60.0  # seconds that a server may take to answer, where nobody says


def to_dict(spec: ModelSpec) -> dict[str, Any]:
    """JSON values with which `from_dict` means the same judge again; loaded objects are left out."""
    return {**{name: getattr(spec, name) for name in REPEATED}, "path": spec.path and str(spec.path)}


def from_dict(values: Mapping[str, Any], date: str = "") -> ModelSpec:
    """Judge of the values from `to_dict`; `date` is what its chat template prints as today's."""
    path = values["path"] and Path(values["path"])
    known = {name: values[name] for name in REPEATED if name in values}  # run folders of an earlier version have fewer
    return ModelSpec(**{**known, "path": path}, date=date)


def parse(model: Any, backend: str | None = None, **options: Any) -> ModelSpec:
    """Find out what `model` means.

    Raises
    ------
    ModelError
        A path that does not exist, a name that is neither, or an option with a value that does not exist.
    """
    spec = _parse(model)
    inferred = "planted" if spec.kind == "planted" else "hf"
    if backend not in (None, inferred) and "planted" in (backend, inferred):
        raise ModelError(f"model {str(model)!r} cannot be read by the backend {backend!r}. Leave --backend out.")
    if backend is not None and backend not in registry.names("backends"):
        raise ModelError(unknown("backend", backend, registry.names("backends")))
    if (dtype := options.get("dtype", "auto")) not in DTYPES:
        raise ModelError(unknown("dtype", str(dtype), DTYPES))
    if secret := [name for name in options.get("model_kwargs") or {} if name in SECRETS]:
        raise ModelError(
            f"model_kwargs hold {secret[0]!r}, and the run folder says how a judge was opened. Set HF_TOKEN in the environment instead."
        )
    if path := options.get("chat_template"):
        options["chat_template"] = _text(Path(path))
    given = [name for name in ("adapter", "chat_template", "tokenizer") if options.get(name)]
    if spec.kind == "planted" and given:
        raise ModelError(f"a planted judge takes no {given[0]}: it has no weights and no tokenizer. Leave it out.")
    return _placed(replace(spec, backend=backend or inferred, **options))


def _placed(spec: ModelSpec) -> ModelSpec:
    """Check what says where a judge runs, and ask a server which model it has where that is not said."""
    if spec.timeout is not None and not (math.isfinite(spec.timeout) and spec.timeout > 0):
        raise ModelError(f"--timeout {spec.timeout:g}: give seconds above 0.")
    if spec.backend not in ("openai", "hf") and spec.timeout is not None:
        raise ModelError(f"--timeout belongs to --backend openai or hf, not to {spec.backend}. Leave it out.")
    if spec.backend != "openai":
        if given := [name for name, default in REMOTE.items() if getattr(spec, name) != default]:
            raise ModelError(f"{_option(given[0])} belongs to --backend openai, not to {spec.backend}. Leave it out.")
        return spec
    if not spec.base_url:
        raise ModelError(
            "--backend openai needs the address of the server, such as --base-url http://127.0.0.1:8000/v1."
        )
    if given := [name for name, default in LOCAL.items() if getattr(spec, name) != default]:
        raise ModelError(f"{_option(given[0])} is decided where the server is started. Leave it out.")
    if spec.kind == "loaded":
        raise ModelError(
            "--backend openai makes prompts with the tokenizer of a folder or a hub id: give its name as model."
        )
    if spec.concurrency < 1:
        raise ModelError(f"--concurrency {spec.concurrency}: give 1 or more.")
    from logitjudge.backends import _http

    _http.api_url(spec.base_url)
    spec = replace(spec, timeout=spec.timeout or PATIENCE)
    return spec if spec.served_model else replace(spec, served_model=_http.served_model(spec))


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _parse(model: Any) -> ModelSpec:
    if not isinstance(model, str | Path):
        return ModelSpec("loaded", str(getattr(model, "name_or_path", "") or type(model).__name__), model=model)
    name = str(model)
    if not files.encodable(name):
        raise ModelError(f"the model {shown(name)} has half of a surrogate pair in it, which is no character.")
    if name == "planted" or name.startswith("planted:"):
        return ModelSpec("planted", name.partition(":")[2])
    if name == "embedded":
        return ModelSpec("gguf", name, embedded.fetch())
    path = files.place(name, ModelError)
    if path.is_dir():
        if not (path / "config.json").exists():
            raise ModelError(
                f"the folder {path} holds no model: it has no config.json. Give the folder that save_pretrained wrote."
            )
        return ModelSpec("folder", name, path.resolve())
    if path.suffix.lower() == ".gguf":
        if not path.is_file():
            raise ModelError(f"there is no GGUF file {path}.")
        return ModelSpec("gguf", name, path.resolve())
    if path.is_file():
        raise ModelError(f"{path} is a file, but not a .gguf file. Give a model folder, a .gguf file, or a hub id.")
    if re.fullmatch(r"[\w.-]+/[\w.-]+", name) and not name.startswith("."):
        return ModelSpec("hub", name)
    if "/" in name or "\\" in name:
        raise ModelError(f"there is no model folder {name}, and it is not a hub id (organisation/name) either.")
    raise ModelError(
        unknown("model", name, ["embedded", "planted:SPEC"])
        + " Or give a hub id (organisation/name), a folder, or a .gguf file."
    )


def open_backend(spec: ModelSpec) -> Backend:
    """Load the judge; within `kept` its weights may be loaded already."""
    module = registry.load("backends", spec.backend)
    if _last is None or spec.kind in ("planted", "loaded") or not hasattr(module, "again"):
        backend: Backend = module.open(spec)
        return backend
    weights = json.dumps(
        [str(spec.path), {**spec.identity(), "chat_template": None}, spec.device, spec.trust_remote_code]
    )
    if weights in _last:
        _last[weights] = module.again(_last[weights], spec)
    else:
        _last.clear()  # before the next is loaded: there may be room for one only
        _last[weights] = module.open(spec)
    return _last[weights]


_last: dict[str, Backend] | None = None


@contextmanager
def kept() -> Iterator[None]:
    """Within it the judge that was opened last stays in memory, so that its runs one after another load it once."""
    global _last
    before, _last = _last, {} if _last is None else _last
    try:
        yield
    finally:
        _last = before


def open_tokenizer(spec: ModelSpec) -> Tokenizer | None:
    """Load the judge's tokenizer alone, without its weights; None where it has none."""
    opener = getattr(registry.load("backends", spec.backend), "open_tokenizer", None)
    return None if opener is None else opener(spec)


def weights(spec: ModelSpec) -> int | None:
    """Bytes of a judge's weights, found without loading them; None where nobody knows."""
    if spec.kind == "hub":
        return _hub_weights(spec)
    if spec.path is None or not spec.path.exists():
        return None
    files = [spec.path] if spec.path.is_file() else list(spec.path.iterdir())
    return sum(file.stat().st_size for file in files if file.suffix in WEIGHTS)


def gpus_each(spec: ModelSpec, memory: Sequence[int]) -> int:
    """How many GPUs, of bytes of `memory` each, one copy of the judge needs, as `gpus_for`.

    Raises
    ------
    ModelError
        Nobody knows how large its weights are.
    """
    if (size := weights(spec)) is None:
        raise ModelError(f"the size of {spec.name} is not known before it is loaded. Say how many copies: --workers N.")
    return gpus_for(size, memory)


def gpus_for(size: int, memory: Sequence[int]) -> int:
    """How many GPUs, of bytes of `memory` each, hold weights of `size` bytes: 1, 2, 4, ... but not more than there are.

    Examples
    --------
    >>> [gpus_for(gib << 30, [80 << 30] * 8) for gib in (16, 66, 140, 900)]
    [1, 2, 4, 8]
    """
    each = 1
    while each < len(memory) and size > ROOM * each * min(memory):
        each *= 2
    return min(each, len(memory))


def _hub_weights(spec: ModelSpec) -> int | None:
    """What the hub says, or what lies in its local cache."""
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        files = HfApi().model_info(spec.name, revision=spec.revision, files_metadata=True).siblings or []
        return sum(file.size or 0 for file in files if file.rfilename.endswith(".safetensors")) or None
    except (HfHubHTTPError, OSError):
        pass
    try:
        folder = Path(snapshot_download(spec.name, revision=spec.revision, local_files_only=True))
    except (LocalEntryNotFoundError, OSError):
        return None
    return sum(file.stat().st_size for file in folder.glob("*.safetensors")) or None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"chat template {path} cannot be read: {error}.") from error


# --- fingerprints --------------------------------------------------------------------------------------------------


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def fingerprint(spec: ModelSpec) -> str:
    """What the weights and the tokenizer are: a hub commit, else a SHA-256 over the model's files (see `_files_hash`)."""
    if spec.kind == "planted":
        return _sha(spec.name.encode())
    if spec.kind == "hub":
        return f"hub:{_hub_commit(spec)}"
    if spec.kind == "loaded":
        return f"sha256:{_loaded_hash(spec)}"
    assert spec.path is not None
    return f"sha256:{_files_hash(spec.path)}"


def _files_hash(path: Path) -> str:
    """SHA-256 over each weight file's name, size and a sample of its bytes (`_ends`), and every other file (but ``.md``) whole."""
    files = (
        [path]
        if path.is_file()
        else sorted(f for f in path.iterdir() if f.is_file() and f.suffix != ".md" and not f.name.startswith("."))
    )
    digest = hashlib.sha256()
    for file in files:
        digest.update(json.dumps([file.name, file.stat().st_size]).encode())
        digest.update(_ends(file) if file.suffix in WEIGHTS else file.read_bytes())
    return digest.hexdigest()


def _ends(file: Path) -> bytes:
    """Safetensors header, first and last MiB, and blocks from all over the file, so that a changed layer is seen."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        first = stream.read(MIB)
        head = b""
        if file.suffix == ".safetensors" and len(first) >= 8:
            stream.seek(8)
            head = stream.read(min(struct.unpack("<Q", first[:8])[0], 64 * MIB))
        blocks = []
        for n in range(BLOCKS):
            stream.seek(size * n // BLOCKS)
            blocks.append(stream.read(BLOCK))
        stream.seek(max(0, size - MIB))
        return head + first + b"".join(blocks) + stream.read(MIB)


def _hub_commit(spec: ModelSpec) -> str:
    """The commit that a hub id means now, from the hub or from its local cache."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import (
        EntryNotFoundError,
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        path = Path(hf_hub_download(spec.name, "config.json", revision=spec.revision))
    except GatedRepoError as error:
        raise ModelError(
            f"{spec.name} is gated: accept its licence on the hub, then log in with 'hf auth login' or set HF_TOKEN."
        ) from error
    except RevisionNotFoundError as error:
        raise ModelError(f"{spec.name} has no revision {spec.revision!r}.") from error
    except RepositoryNotFoundError as error:
        raise ModelError(
            f"the hub has no model {spec.name!r}, or it is private: check the name, or log in with 'hf auth login'."
        ) from error
    except HFValidationError as error:
        raise ModelError(f"{spec.name!r} is not a hub id: {error}") from error
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
        if isinstance(error, EntryNotFoundError) and not isinstance(error, LocalEntryNotFoundError):
            raise ModelError(
                f"{spec.name} holds no config.json, so it is no model of transformers. Give another id, or a .gguf file."
            ) from error
        offline = " The hub is switched off by HF_HUB_OFFLINE." if os.environ.get("HF_HUB_OFFLINE") else ""
        raise ModelError(
            f"{spec.name} is not in the local cache and the hub cannot be reached.{offline} Check the network, or give a local folder."
        ) from error
    return path.parent.name


def _loaded_hash(spec: ModelSpec) -> str:
    """SHA-256 over a sample of each parameter of a loaded model, its configuration, and its tokenizer."""
    digest = hashlib.sha256(spec.model.config.to_json_string().encode())
    for name, tensor in spec.model.named_parameters():
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        values = tensor.detach().flatten()
        digest.update(values[:: max(1, len(values) // 4096)].float().cpu().numpy().tobytes())
    backend = getattr(spec.tokenizer, "backend_tokenizer", None)
    digest.update(backend.to_str().encode() if backend is not None else repr(spec.tokenizer).encode())
    digest.update(str(getattr(spec.tokenizer, "chat_template", None)).encode())
    return digest.hexdigest()
