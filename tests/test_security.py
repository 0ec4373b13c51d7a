"""What comes from outside runs no code and leaves no run folder: weights, models' code, YAML, templates, ids."""

import ast
import contextlib
import json
import os
import pickle
from pathlib import Path

import pytest
import tiny_models
import torch

import logitjudge as lj
from logitjudge import sweep
from logitjudge.core import Item
from logitjudge.errors import InputError, ModelError

ROOT = Path(lj.__file__).parent


class Payload:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.fixture
def owned(tmp_path):
    return tmp_path / "owned"


def judged(model, **more):
    given = {"orderings": "1,2,3,4,5", "device": "cpu", **more}
    return lj.judge(str(model), tiny_models.items(1), **given)


@pytest.mark.parametrize("allowed", [False, True])
def test_pickled_weights_run_no_code(tmp_path, owned, allowed):
    """Without leave they are not opened; with it torch takes tensors only."""
    folder = tiny_models.save(tmp_path / "m")
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Payload(owned)))
    words = "cannot be loaded" if allowed else "has no safetensors weights"
    with pytest.raises(ModelError, match=words):
        judged(folder, model_kwargs={"use_safetensors": False} if allowed else {})
    torch.save({"x": Payload(owned)}, folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match=words):
        judged(folder, model_kwargs={"use_safetensors": False} if allowed else {})
    assert not owned.exists()


CODE = """
import os
os.mkdir({!r})
from transformers import PretrainedConfig
class Mine(PretrainedConfig):
    model_type = "mine"
"""


def test_a_models_own_code_is_not_run_unless_asked(tmp_path, owned):
    folder = tiny_models.save(tmp_path / "m")
    (folder / "code.py").write_text(CODE.format(str(owned)))
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "code.Mine", "AutoModelForCausalLM": "code.Mine"}}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="--trust-remote-code"):
        judged(folder)
    assert not owned.exists()


@pytest.mark.parametrize("kind", ["sweep", "template", "rubric"])
def test_yaml_makes_no_objects(tmp_path, owned, kind):
    evil = f"!!python/object/apply:os.mkdir [{str(owned)!r}]"
    path = tmp_path / ("t.j2" if kind == "template" else "file.yaml")
    path.write_text(f"---\nsystem: {evil}\n---\n{{{{ levels }}}}" if kind == "template" else f"models: {evil}\n")
    given = {"rubric": "helpfulness", kind: path}
    with pytest.raises(InputError):
        sweep.sweep(path, tmp_path / "out") if kind == "sweep" else lj.judge("planted", "demo", **given)
    assert not owned.exists()


def test_ids_and_names_with_paths_leave_no_folder(tmp_path):
    names = ["../../up", "/etc/owned", "a/../../b", "..", "nul\x00byte", "C:\\x", "~/home"]
    rows = [Item(name, {"instruction": name, "response": name}, cluster=name, groups={name: name}) for name in names]
    place = tmp_path / "deep" / "run"
    run = lj.judge(
        "planted:order_noise=1", rows, rubric="helpfulness", orderings="cyclic", out=place, max_batch_tokens=1
    )
    assert [item.id for item in run.items] == names
    files = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    inside = [".lock", "items.jsonl", "readings/all.parquet", "refused.jsonl", "run.json"]
    assert files == [f"deep/run/{name}" for name in inside]


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
