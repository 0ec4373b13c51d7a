"""Imports point down: see the README's architecture section."""

import ast
import sys
from pathlib import Path

import pytest

import logitjudge

ROOT = Path(logitjudge.__file__).parent
HOUSE = (
    {"core", "errors", "registry", "progress", "markup"},
    {"files", "orderings", "rubrics", "tokens", "trie", "packing", "picks", "pairs", "run", "measures"},
    {
        "backends",
        "models",
        "embedded",
        "datasets",
        "prompts",
        "templates",
        "probes",
        "debiasers",
        "store",
        "parts",
        "data",
    },
    {
        "judging",
        "batches",
        "mending",
        "running",
        "reader",
        "workers",
        "pairing",
        "scored",
        "probing",
        "study",
        "planning",
        "noise",
        "texts",
        "verdicts",
        "doctor",
        "bench",
        "parity",
        "plan",
        "sweep",
        "shards",
        "cluster",
        "report",
    },
    {"cli", "__main__"},
)
LEVEL = {"__version__": 0} | {name: level for level, names in enumerate(HOUSE) for name in names}
HOMES = {
    "backends": {"torch", "transformers", "vllm", "accelerate", "safetensors", "gguf", "tokenizers", "peft", "httpx2"},
    "cluster": {"ray"},
    "cli": {"rich", "typer", "click"},
}
CORE_MAY = {"numpy", *sys.stdlib_module_names}


def module_name(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for path in sorted(ROOT.rglob("*.py")) if path != ROOT / "__init__.py"}


def imports(path, name):
    """(full name, whether it happens as the module is imported) of every import, wherever it stands."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    later = {id(n) for f in ast.walk(tree) if isinstance(f, ast.FunctionDef | ast.Lambda) for n in ast.walk(f)}
    typing = {
        id(n)
        for f in ast.walk(tree)
        if isinstance(f, ast.If) and "TYPE_CHECKING" in ast.unparse(f.test)
        for n in ast.walk(f)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: write the whole name"
            found = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from ((full, id(node) not in later | typing) for full in found)


def ours(full):
    """The module of ours that an imported name lives in, or None."""
    if not full.startswith("logitjudge."):
        return None
    return next((name for name in (full, full.rpartition(".")[0]) if name in FILES), None)


@pytest.mark.parametrize("name", FILES)
def test_a_module_has_a_level(name):
    assert name.split(".")[1] in LEVEL


@pytest.mark.parametrize("name", FILES)
def test_imports_point_down(name):
    mine = LEVEL[name.split(".")[1]]
    for full, _ in imports(FILES[name], name):
        if full.startswith("logitjudge."):
            assert LEVEL[full.split(".")[1]] <= mine, f"{name} imports {full}"


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("home", HOMES)
def test_heavy_libraries_stay_at_home(name, home):
    found = {full.split(".")[0] for full, _ in imports(FILES[name], name)}
    assert name.split(".")[1] == home or not found & HOMES[home]


@pytest.mark.parametrize("name", sorted(f"logitjudge.{module}" for module in HOUSE[0]))
def test_the_ground_floor_needs_numpy_only(name):
    found = {full.split(".")[0] for full, _ in imports(FILES[name], name)} - {"logitjudge"}
    assert found <= CORE_MAY


def test_no_two_modules_import_each_other():
    """As they are imported: no cycle through any number of modules."""
    below = {
        name: {ours(full) for full, at_once in imports(path, name) if at_once} - {None, name}
        for name, path in FILES.items()
    }
    while leaves := [name for name, needs in below.items() if not needs & set(below)]:
        for name in leaves:
            del below[name]
    assert not below, f"in a cycle: {', '.join(below)}"


def test_no_two_parts_of_one_level_import_each_other():
    """Parts are the files and folders that the house names; a function's imports count too."""
    part = {name: name.split(".")[1] for name in FILES}
    pairs = {(part[name], full.split(".")[1]) for name in FILES for full, _ in imports(FILES[name], name) if ours(full)}
    both = {(a, b) for a, b in pairs if a < b and (b, a) in pairs}
    assert both <= {("backends", "models")}  # models opens a backend; a backend's `open` is given a ModelSpec
