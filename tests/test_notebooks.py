"""The notebooks: executed from the checkout they show what is stored; and what is compared notices what has changed."""

import copy
import json
import re
import sys
from pathlib import Path

import pytest
from notebook_outputs import code_cells, differences, shown

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
NAMES = [path.stem for path in NOTEBOOKS]


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def test_the_notebooks_are_there():
    assert NAMES == [
        "01_first_look",
        "02_paper_tables",
        "03_choose_an_ordering",
        "04_your_own_judge",
        "05_other_biases",
    ]


@pytest.mark.notebooks
@pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)
def test_an_execution_shows_what_is_stored(path):
    sys.path.insert(0, str(ROOT / "scripts"))
    import notebooks

    found = differences(path.name, read(path), notebooks.execute(path))
    assert not found, "\n".join([*found, "store what they show now: python scripts/notebooks.py"])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)
def test_a_stored_notebook_was_executed_once_from_top_to_bottom(path):
    cells = code_cells(read(path))
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert {kind for cell in cells for kind, _ in shown(cell)} <= {"text/plain", "text/html", "image", "stdout"}
    assert any(shown(cell) for cell in cells)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)
def test_a_stored_notebook_names_no_machine_and_no_time(path):
    notebook = read(path)
    texts = [text for cell in code_cells(notebook) for _, text in shown(cell)]
    found = [re.search(r"/home/|/root|/tmp|/Users/|site-packages|\b20\d\d-\d\d-\d\d|0x[0-9a-f]{6}", t) for t in texts]
    assert not any(found), found
    assert set(notebook["metadata"]) == {"kernelspec"}
    assert not any(cell["metadata"] for cell in notebook["cells"])


# --- what is compared -----------------------------------------------------------------------------------------------


def notebook(*outputs):
    return {"cells": [{"cell_type": "markdown"}, {"cell_type": "code", "outputs": list(outputs)}]}


def stream(text, name="stdout"):
    return {"output_type": "stream", "name": name, "text": text}


def value(**data):
    return {"output_type": "execute_result", "data": {name.replace("_", "/"): text for name, text in data.items()}}


STORED = notebook(
    stream("mean 0.183 of 10 items\n"), value(text_plain=["a  b\n", "24.8"], text_html="<b>-0.50</b>", image_png="abc")
)


def changed(old, new):
    """The messages where the stored notebook says `new` for `old`."""
    return differences("n.ipynb", STORED, json.loads(json.dumps(STORED).replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("0.183", "0.189"),
        ("0.183", "0.193"),
        ("0.183", "0.18"),
        ("24.8", "24.9"),
        ("a  b", "a b"),
        ("-0.50", "-0.51"),
        ('"abc"', '"other"'),
    ],
)
def test_what_is_no_change(old, new):
    assert json.dumps(STORED).count(old) == 1
    assert changed(old, new) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("0.183", "0.194"),
        ("0.183", "1.83e-05"),
        ("0.183", "0"),
        ("24.8", "25.0"),
        ("10 items", "11 items"),
        ("mean", "least"),
        ("a  b", "ab"),
        ("<b>", "<i>"),
        ("-0.50", "0.50"),
        ("-0.50", "-0.50</b><b>0.10"),
        ('"stdout"', '"stderr"'),
        ("image/png", "text/latex"),
    ],
)
def test_what_is_a_change(old, new):
    assert json.dumps(STORED).count(old) == 1
    assert len(changed(old, new)) == 1


def test_the_message_names_notebook_cell_stored_and_new():
    [found] = changed("0.183", "0.283")
    assert found == "n.ipynb, code cell 1: stored stdout 'mean 0.183 of 10 items', new stdout 'mean 0.283 of 10 items'"


def test_a_change_far_behind_is_shown_with_what_stands_around_it():
    stored, new = ("x " * 500 + f"here {word} stands" for word in ("this", "that"))
    [found] = differences("n", notebook(stream(stored)), notebook(stream(new)))
    assert "here this stands" in found
    assert "here that stands" in found
    assert len(found) < 300


@pytest.mark.parametrize("which", [0, 1])
def test_an_output_that_is_missing_or_new_is_noticed(which):
    fewer = copy.deepcopy(STORED)
    del fewer["cells"][1]["outputs"][which]
    assert len(differences("n", STORED, fewer)) == len(differences("n", fewer, STORED)) == 1


def test_a_missing_image_is_noticed():
    fewer = copy.deepcopy(STORED)
    del fewer["cells"][1]["outputs"][1]["data"]["image/png"]
    [found] = differences("n", STORED, fewer)
    assert "stored image" in found


def test_a_missing_cell_and_an_error_are_noticed():
    assert len(differences("n", STORED, {"cells": []})) == 1
    error = {"output_type": "error", "ename": "ValueError", "evalue": "no"}
    [found] = differences("n", notebook(), notebook(error))
    assert "new error 'ValueError: no'" in found


def test_a_stream_that_came_in_parts_is_one():
    assert differences("n", notebook(stream("ab\n")), notebook(stream("a"), stream("b\n"))) == []


def test_what_numpy_pads_is_no_change():
    before, after = ("array([[0.14741218, 0.31]])", "array([[0.1474126 , 0.31 ]])")
    assert not differences("n", notebook(stream(before)), notebook(stream(after)))
    assert differences("n", notebook(stream(before)), notebook(stream(after.replace("[[", "[ ([ "))))
