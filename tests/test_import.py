"""What is imported when: the package and its help must be quick."""

import json
import subprocess
import sys

import pytest

HEAVY = ["torch", "vllm", "transformers", "pandas", "scipy", "pyarrow", "matplotlib"]
HELP = "from logitjudge.cli import main; assert main(['--help']) == 0"
LEVELS = "import logitjudge; logitjudge.Item, logitjudge.Rubric, logitjudge.Ordering, logitjudge.InputError"


def loaded(code: str) -> list[str]:
    show = f"import sys, json; print('\\n' + json.dumps([name for name in {HEAVY} if name in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{show}"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("code", ["import logitjudge", LEVELS, HELP, HELP.replace("'--help'", "'run', '--help'")])
def test_loads_nothing_heavy(code):
    assert loaded(code) == []


def test_the_probe_itself_finds_what_is_loaded():
    assert loaded("import logitjudge; logitjudge.load_run") == ["pyarrow"]


def test_every_public_name_is_there():
    code = "import logitjudge; print([getattr(logitjudge, name) for name in logitjudge.__all__])"
    subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, check=True)
