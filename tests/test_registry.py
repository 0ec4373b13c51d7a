import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from logitjudge import registry
from logitjudge.errors import InputError

KINDS = ("datasets", "debiasers", "backends")


@pytest.fixture
def entry(monkeypatch):
    """Pretend that another package brings plug-ins."""

    def add(kind, name, value):
        group = f"logitjudge.{kind}"
        monkeypatch.setattr(
            registry, "entry_points", lambda group: [EntryPoint(name, value, group)] if group == wanted else []
        )
        wanted = group

    return add


@pytest.fixture
def write(tmp_path):
    def to_file(source, name="mine.py"):
        path = tmp_path / name
        path.write_text(source)
        return path

    return to_file


# --- by name -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_every_file_of_a_kind_is_a_plug_in(kind):
    folder = registry.ROOT / kind
    files = {path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert set(registry.names(kind)) == {name for name in files if not name.startswith("_")}


@pytest.mark.parametrize("kind", KINDS)
def test_names_are_sorted(kind):
    assert registry.names(kind) == sorted(registry.names(kind))


def test_a_plug_in_is_its_module():
    assert registry.load("debiasers", "mean_prob").__name__ == "logitjudge.debiasers.mean_prob"


def test_to_list_names_imports_nothing():
    code = (
        "import sys; from logitjudge import registry; [registry.names(k) for k in ('datasets', 'debiasers', 'backends')];"
        "print([m for m in sys.modules if m.startswith(('logitjudge.d', 'logitjudge.b', 'torch', 'pandas'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unknown_name_gets_the_nearest_and_all():
    with pytest.raises(InputError, match="unknown debiaser 'mean_porb'. Did you mean 'mean_prob'") as error:
        registry.load("debiasers", "mean_porb")
    assert all(name in str(error.value) for name in registry.names("debiasers"))


@pytest.mark.parametrize("name", ["_spec", "__init__", "../models", ""])
def test_what_is_private_or_elsewhere_is_no_plug_in(name):
    with pytest.raises(InputError, match="unknown dataset"):
        registry.load("datasets", name)


def test_a_kind_without_plug_ins_has_no_names():
    assert registry.names("nothing_of_this_kind") == []


# --- entry points --------------------------------------------------------------------------------------------------


def test_an_entry_point_is_a_plug_in(entry):
    entry("debiasers", "theirs", "json:loads")
    assert "theirs" in registry.names("debiasers")
    assert registry.load("debiasers", "theirs")("1") == 1


def test_an_entry_point_belongs_to_its_kind(entry):
    entry("debiasers", "theirs", "json:loads")
    assert "theirs" not in registry.names("datasets")


@pytest.mark.parametrize("call", [registry.names, lambda kind: registry.load(kind, "mean_prob")])
def test_a_name_that_is_ours_and_theirs_is_an_error_that_names_both(entry, call):
    entry("debiasers", "mean_prob", "their_package:thing")
    with pytest.raises(InputError, match="'mean_prob' is defined by logitjudge and by their_package:thing"):
        call("debiasers")


@pytest.mark.parametrize("value", ["no_such_module_anywhere", "json:no_such_name"])
def test_an_entry_point_that_cannot_be_imported_is_named(entry, value):
    entry("debiasers", "theirs", value)
    with pytest.raises(InputError, match=f"debiaser 'theirs' of {value} cannot be imported"):
        registry.load("debiasers", "theirs")


def test_two_packages_with_one_name_are_an_error(monkeypatch):
    both = [EntryPoint("theirs", f"package_{n}:x", "logitjudge.debiasers") for n in (1, 2)]
    monkeypatch.setattr(registry, "entry_points", lambda group: both)
    with pytest.raises(InputError, match="'theirs' is defined by package_1:x and by package_2:x"):
        registry.names("debiasers")


# --- a user's file -------------------------------------------------------------------------------------------------


def test_a_file_is_a_module_of_its_own(write):
    assert registry.load_file(write("answer = 42")).answer == 42


def test_files_of_the_same_name_do_not_mix(write, tmp_path):
    (tmp_path / "other").mkdir()
    one, two = write("x = 1"), write("x = 2", "other/mine.py")
    assert [registry.load_file(path).x for path in (one, two)] == [1, 2]


def test_a_file_named_like_a_library_does_not_replace_it(write):
    registry.load_file(write("x = 1", "json.py"))
    import json

    assert hasattr(json, "loads")


def test_a_file_may_hold_dataclasses_and_relative_annotations(write):
    source = "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\n"
    assert registry.load_file(write(source)).P(3).x == 3


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="there is no plug-in file .*no.py"):
        registry.load_file(tmp_path / "no.py")


def test_a_file_of_another_kind(write):
    with pytest.raises(InputError, match="mine.txt is not a Python file"):
        registry.load_file(write("x = 1", "mine.txt"))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import no_such_module_anywhere", "ModuleNotFoundError"),
        ("x = ", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_file_that_fails_is_named_with_the_reason(write, source, words):
    path = write(source)
    before = set(sys.modules)
    with pytest.raises(InputError, match=f"plug-in {path} cannot be imported: {words}"):
        registry.load_file(path)
    assert set(sys.modules) == before
