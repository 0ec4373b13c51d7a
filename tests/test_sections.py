"""Sections of `show`: all of them in JSON, one by one as tables."""

import json

import pytest
from planted_runs import run_of

from logitjudge import cli
from logitjudge.cli import show
from logitjudge.errors import InputError
from logitjudge.report.sections import SECTIONS, sections


def test_the_names_that_the_command_knows_are_those_of_the_report():
    assert tuple(SECTIONS) == show.NAMES


def test_an_unknown_section_is_named():
    with pytest.raises(InputError, match="unknown section 'wher'. Did you mean 'where'"):
        sections(run_of([[[0.5, 0.5]]], "identity"), ["wher"])


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "run"
    model = "planted:position=0.8,0,0,0,0.3;quality_sd=1"
    assert cli.main(["run", "--model", model, "--data", "demo", "--out", str(made)]) == 0
    return made


def test_json_has_every_section(folder, capsys):
    capsys.readouterr()
    assert cli.main(["show", str(folder), "--json"]) == 0
    assert set(SECTIONS) <= set(json.loads(capsys.readouterr().out))


@pytest.mark.parametrize("name", [*SECTIONS, "all"])
def test_a_section_is_printed_at_80_columns_instead_of_the_tables(folder, capsys, name):
    capsys.readouterr()
    assert cli.main(["show", str(folder), "--section", name]) == 0
    out = capsys.readouterr().out
    assert "where the probability of each score falls" not in out
    assert len(out.splitlines()) > 5
    assert max(map(len, out.splitlines())) <= 80
