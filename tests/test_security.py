"""Nothing that a judge, a file or the environment brings may run code, leave its folder, or be written down as a secret."""

import ast
import contextlib
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import tiny_models
import torch

import logitjudge
from logitjudge import judge, models, sweep
from logitjudge.errors import InputError, ModelError

ROOT = Path(logitjudge.__file__).parent
SECRET = "hf_sEcReTofThisTest"
KEYS = ("OPENAI_API_KEY", "LOGITJUDGE_API_KEY", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
ITEM = '{"id": "%s", "instruction": "Say it.", "response": "It is so."}\n'
CODE = """
from pathlib import Path
from transformers import LlamaConfig, LlamaForCausalLM
Path({marker!r}).touch()
class Config(LlamaConfig):
    model_type = "brought"
class Model(LlamaForCausalLM):
    config_class = Config
"""


class Touch:
    """A pickle that makes a file when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return tiny_models.save(tmp_path_factory.mktemp("model") / "judge")


@pytest.fixture
def items(tmp_path):
    path = tmp_path / "items.jsonl"
    path.write_text(ITEM % "one")
    return str(path)


def copied(saved, folder):
    folder.mkdir()
    for file in saved.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


def read(model, items, out, **more):
    return judge(str(model), items, rubric="helpfulness", orderings="identity", out=out, **more)


# --- weights and code ----------------------------------------------------------------------------------------------


def test_pickled_weights_are_refused(saved, items, tmp_path):
    folder = copied(saved, tmp_path / "judge")
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Touch(tmp_path / "ran")))
    with pytest.raises(ModelError, match="no safetensors weights"):
        read(folder, items, tmp_path / "run")
    assert not (tmp_path / "ran").exists()


def test_pickled_weights_that_were_asked_for_run_no_code_either(saved, items, tmp_path):
    folder = copied(saved, tmp_path / "judge")
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Touch(tmp_path / "ran")))
    with pytest.raises(ModelError, match="cannot be loaded"):
        read(folder, items, tmp_path / "run", model_kwargs={"use_safetensors": False})
    assert not (tmp_path / "ran").exists()


def test_pickled_weights_can_be_asked_for(saved, items, tmp_path):
    folder = copied(saved, tmp_path / "judge")
    from safetensors.torch import load_file

    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    assert len(read(folder, items, tmp_path / "run", model_kwargs={"use_safetensors": False}).items) == 1


def test_a_pickled_adapter_is_refused(saved, items, tmp_path):
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text("{}")
    (adapter / "adapter_model.bin").write_bytes(pickle.dumps(Touch(tmp_path / "ran")))
    with pytest.raises(ModelError, match="adapter .* has no safetensors weights"):
        read(saved, items, tmp_path / "run", adapter=str(adapter))
    assert not (tmp_path / "ran").exists()


def brings_code(saved, tmp_path):
    folder = copied(saved, tmp_path / "judge")
    config = (folder / "config.json").read_text().replace('"model_type": "llama"', '"model_type": "brought"')
    auto = '{"auto_map": {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"},'
    (folder / "config.json").write_text(config.replace("{", auto, 1))
    (folder / "own.py").write_text(CODE.format(marker=str(tmp_path / "ran")))
    return folder


def test_code_that_a_model_brings_does_not_run_unless_asked(saved, items, tmp_path):
    folder = brings_code(saved, tmp_path)
    with pytest.raises(ModelError, match="add --trust-remote-code"):
        read(folder, items, tmp_path / "run")
    assert not (tmp_path / "ran").exists()


def test_it_runs_where_it_was_asked_for(saved, items, tmp_path, monkeypatch):
    folder = brings_code(saved, tmp_path)
    read(folder, items, tmp_path / "run", trust_remote_code=True)
    assert (tmp_path / "ran").exists()


# --- keys ----------------------------------------------------------------------------------------------------------


def test_keys_of_the_environment_are_in_no_file(saved, items, tmp_path):
    out, page, export = tmp_path / "run", tmp_path / "report.html", tmp_path / "export"
    about = ["--rubric", "helpfulness", "--orderings", "balanced"]
    said = [
        called("run", "--model", str(saved), "--data", items, "--out", str(out), *about),
        called("report", str(out), "--out", str(page)),
        called("export", str(out), "--without-texts", str(export)),
    ]
    files = [page, *(path for folder in (out, export) for path in folder.rglob("*") if path.is_file())]
    assert len(files) >= 8
    for file in files:
        assert SECRET.encode() not in file.read_bytes(), file
    assert SECRET not in "".join(said)


def called(*words):
    done = subprocess.run(
        [sys.executable, "-m", "logitjudge", *words], capture_output=True, text=True,
        env={**os.environ, **dict.fromkeys(KEYS, SECRET), "HF_HUB_OFFLINE": "1"}, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", models.SECRETS)
def test_a_key_among_the_keywords_is_refused(saved, items, tmp_path, name):
    with pytest.raises(ModelError, match="Set HF_TOKEN") as error:
        read(saved, items, tmp_path / "run", model_kwargs={name: SECRET})
    assert SECRET not in str(error.value)
    assert not (tmp_path / "run").exists()


# --- paths ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["../away", "../../away", "/tmp/logitjudge-away", "a/../../away", "..", "x" * 300, "a\\nb"]
)
def test_an_id_never_becomes_a_path(tmp_path, name):
    cage = tmp_path / "cage" / "work"
    cage.mkdir(parents=True)
    (cage / "items.jsonl").write_text(ITEM % name)
    read("planted:quality_sd=1", str(cage / "items.jsonl"), cage / "run")
    assert {path.name for path in cage.iterdir()} == {"items.jsonl", "run"}
    assert [path.name for path in cage.parent.iterdir()] == ["work"]
    assert {path.name for path in (cage / "run").iterdir()} <= {
        "run.json", "items.jsonl", "refused.jsonl", "readings", ".lock"
    }  # fmt: skip
    assert not Path("/tmp/logitjudge-away").exists()


@pytest.mark.parametrize("name", ["\0", "\ud800", "x" * 300])
@pytest.mark.parametrize("argument", ["data", "out", "rubric", "template"])
def test_names_that_no_file_can_have(items, tmp_path, name, argument):
    given = {"data": items, "out": tmp_path / "run", "rubric": "helpfulness", argument: name + ".j2"}
    with pytest.raises(InputError, match="can be no file"):
        judge("planted:quality_sd=1", orderings="identity", **given)


@pytest.mark.parametrize("kind", ["sweep", "template", "rubric"])
def test_yaml_makes_no_objects(tmp_path, kind):
    owned = tmp_path / "owned"
    evil = f"!!python/object/apply:os.mkdir [{str(owned)!r}]"
    path = tmp_path / ("t.j2" if kind == "template" else "file.yaml")
    path.write_text(f"---\nsystem: {evil}\n---\n{{{{ levels }}}}" if kind == "template" else f"models: {evil}\n")
    given = {"rubric": "helpfulness", kind: path}
    with pytest.raises(InputError):
        sweep.sweep(path, tmp_path / "out") if kind == "sweep" else judge("planted", "demo", **given)
    assert not owned.exists()


@pytest.mark.parametrize("name", ["../up", "/tmp/up", "a/b", ".."])
def test_runs_of_a_sweep_stay_in_its_folder(tmp_path, name):
    path = tmp_path / "sweep.yaml"
    value = {
        "models": [{"name": name, "model": "planted"}],
        "data": ["demo"],
        "defaults": {"rubric": "helpfulness", "limit": 1},
    }
    path.write_text(json.dumps(value))
    with contextlib.suppress(InputError):
        sweep.sweep(path, tmp_path / "in" / "out")
    left = [p for p in tmp_path.rglob("run.json") if tmp_path / "in" / "out" not in p.parents]
    assert left == []
    assert not Path("/tmp/up").exists()


DANGEROUS = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_unpickles_or_evaluates(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert not {alias.name.split(".")[0] for alias in node.names} & DANGEROUS
        elif isinstance(node, ast.ImportFrom):
            assert (node.module or "").split(".")[0] not in DANGEROUS
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            assert name not in ("eval", "exec", "torch.load", "yaml.unsafe_load", "yaml.full_load", "os.system")
            assert not any(key.arg == "shell" for key in node.keywords)
