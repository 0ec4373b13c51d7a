"""The README's table of architectures and paths, against what the proof at start decides here."""

import sys
from pathlib import Path

import pytest
import tiny_models

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))
import architecture_table as script

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")
FEW = [
    "llama",
    "gemma2-window",
    "granite",
    "llama-yarn",
    "mpt",
    "lfm2",
    "llama-dynamic",
]  # every path and kind of reason


@pytest.fixture(scope="module")
def lines():
    return [script.measure(name) for name in FEW]


def test_the_readme_says_what_is_so(lines, capsys):
    assert script.check(lines, README, whole=False) == 0, capsys.readouterr().out
    assert all(line.nats <= 1e-4 for line in lines if line.path != "plain")
    assert {line.path for line in lines} == set(script.ORDER)


def test_the_readme_names_every_architecture():
    rows = list(script.told(script.parts(README)[1]))
    assert sorted(row.partition(":")[0] for row in rows) == sorted(tiny_models.ARCHITECTURES)


LINES = [
    script.Line("a", "sdpa", "packed", "", 1e-6),
    script.Line("b", "sdpa", "packed", "", 2e-6),
    script.Line("c", "eager", "shared", "on a tiny twin it differs from plain by 1.2e-05 nats", 3e-6),
    script.Line("d", "sdpa", "plain", "it says x | y", None),
]
TEXT = f"above\n{script.BEGIN}\n{script.END}\nbelow\n"


def test_what_is_written_is_what_is_checked(capsys):
    text = script.written(LINES, TEXT)
    assert text.startswith(f"above\n{script.BEGIN}\n| architecture |")
    assert text.endswith(f"|\n{script.END}\nbelow\n")
    assert "| a, b | sdpa | packed |  | 2e-06 |\n" in text
    assert "| d | sdpa | plain | it says x \\| y | - |\n" in text
    assert script.written(LINES, text) == text
    assert script.check(LINES, text, whole=True) == 0
    assert script.check(LINES[1:2], text, whole=False) == 0
    assert "1 architectures: as the file says" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("| sdpa | packed |", "| sdpa | shared |", "-a: shared, "),
        ("a, b", "a", "+b: packed, "),
        ("it says", "it said", "-d: plain, it said x"),
        ("by 1.2e-05 nats", "by 3 nats", ""),
        ("2e-06", "1e-05", ""),
        ("a, b | sdpa", "b, a | eager", ""),
    ],
)
def test_a_check_sees_paths_and_reasons_not_differences(old, new, shown, capsys):
    text = script.written(LINES, TEXT)
    assert old in text
    assert script.check(LINES, text.replace(old, new), whole=True) == bool(shown)
    assert shown in capsys.readouterr().out


def test_an_architecture_that_is_gone_shows_in_a_whole_check_only():
    text = script.written(LINES, TEXT)
    assert script.check(LINES[:3], text, whole=True) == 1
    assert script.check(LINES[:3], text, whole=False) == 0


@pytest.mark.parametrize("text", ["", script.BEGIN, f"{script.END}{script.BEGIN}", TEXT * 2])
def test_a_file_without_its_marks_is_refused(text):
    with pytest.raises(SystemExit, match="there must be one"):
        script.written(LINES, text)
