"""Items from files: good ones come through unchanged and alike in every format, bad ones are named to the place."""

import csv
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from logitjudge import datasets, registry, rubrics
from logitjudge.core import Item, ItemSet, Level, Rubric
from logitjudge.datasets import demo
from logitjudge.datasets._prometheus import HEADERS
from logitjudge.errors import InputError, ItemError

OWN = {"name": "mine", "criterion": "Is it clear?", "levels": [{"score": 1, "text": "no"}, {"score": 3, "text": "yes"}]}
GOOD = {"id": "a", "instruction": "Say hello.", "response": "Hello!"}


def lines(*rows):
    return "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)


def written(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def message(spec, error=ItemError):
    with pytest.raises(error) as caught:
        datasets.load(str(spec))
    return str(caught.value)


def parquet(frame):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pandas(frame) if isinstance(frame, pd.DataFrame) else frame, sink)
    return sink.getvalue().to_pybytes()


# Bad values: file, row, field and value are in the message.

BAD_ROWS = {
    "no id": ({"id": None}, ["'id'", "missing or empty", "instruction, response"]),
    "no response": ({"response": None}, ["'response'", "missing or empty"]),
    "empty response": ({"response": ""}, ["'response'", "missing or empty"]),
    "blank response": ({"response": " \n"}, ["'response'", r"' \n'", "is empty"]),
    "no instruction": ({"instruction": None}, ["'instruction'", "missing or empty"]),
    "instruction no text": ({"instruction": 7}, ["'instruction'", "7", "not a text"]),
    "response no text": ({"response": ["x"]}, ["'response'", "['x']", "not a text"]),
    "reference no text": ({"reference": 3}, ["'reference'", "3", "not a text"]),
    "id a fraction": ({"id": 7.5}, ["'id'", "7.5", "whole number"]),
    "id a truth value": ({"id": True}, ["'id'", "True", "whole number"]),
    "cluster a list": ({"cluster": [1]}, ["'cluster'", "[1]"]),
    "rating NaN": ({"human": float("nan")}, ["'human'", "nan", "finite number"]),
    "rating infinite": ({"human": float("inf")}, ["'human'", "inf", "finite number"]),
    "rating huge": ({"human": 10**400}, ["'human'", "10000", "finite number"]),
    "rating a word": ({"human": "good"}, ["'human'", "'good'", "finite number"]),
    "rating a truth value": ({"human": True}, ["'human'", "True", "finite number"]),
    "rating in a list": ({"human": [4, None]}, ["'human'", "None", "finite number"]),
    "rating underscored": ({"human": "1_0"}, ["'human'", "'1_0'"]),
    "rating a mapping": ({"human": {"a": 1}}, ["'human'", "{'a': 1}"]),
    "rating too high": ({"human": [2, 3.5], "rubric": OWN}, ["'human'", "3.5", "1 to 3", "'mine'"]),
    "rating too low": ({"human": 0, "rubric": OWN}, ["'human'", "0", "1 to 3"]),
    "rubric unknown": ({"rubric": "clarty"}, ["'rubric'", "'clarty'", "unknown rubric"]),
    "rubric a number": ({"rubric": 5}, ["'rubric'", "5", "mapping"]),
    "rubric one level": ({"rubric": {**OWN, "levels": OWN["levels"][:1]}}, ["'rubric'", "1 level"]),
    "rubric bad JSON": ({"rubric": "{criterion"}, ["'rubric'", "not valid JSON"]),
    "messages and instruction": ({"messages": [{"role": "user", "content": "x"}]}, ["'messages'", "one of the two"]),
    "messages no list": ({"instruction": None, "messages": "Hi"}, ["'messages'", "'Hi'", "list of turns"]),
    "messages bad role": (
        {"instruction": None, "messages": [{"role": "usr", "content": "x"}]},
        ["'messages'", "usr", "assistant, developer, system, tool, user"],
    ),
    "messages no content": ({"instruction": None, "messages": [{"role": "user"}]}, ["'messages'", "{'role': 'user'}"]),
    "messages without turns": ({"instruction": None, "messages": "[]"}, ["'messages'", "[]", "list of turns"]),
    "messages a text": ({"instruction": None, "messages": ["Hi"]}, ["'messages'", "'Hi'"]),
    "half a surrogate": ({"response": "x\ud800"}, ["'response'", r"\ud800", "surrogate"]),
    "half a surrogate elsewhere": ({"system": "x\ud800"}, ["'system'", r"\ud800", "surrogate"]),
}


@pytest.mark.parametrize(("change", "parts"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_a_bad_row_is_named(tmp_path, change, parts):
    path = written(tmp_path, "x.jsonl", lines(GOOD, "", {**GOOD, "id": "b", **change}))
    text = message(path)
    for part in (f"{path}, line 3", *parts):
        assert part in text


CSV_ONLY = {"no id", "empty response", "rating a word", "rating too high", "rubric unknown", "messages no list"}


@pytest.mark.parametrize("case", sorted(CSV_ONLY))
def test_a_bad_csv_row_is_named_by_row_and_line(tmp_path, case):
    change, parts = BAD_ROWS[case]
    rows = [{**GOOD, "response": "two\nlines"}, {**GOOD, "id": "b", **change}]
    cells = [{key: json.dumps(v) if isinstance(v, list | dict) else v for key, v in row.items()} for row in rows]
    path = tmp_path / "x.csv"
    pd.DataFrame(cells).to_csv(path, index=False)
    text = message(path)
    for part in (f"{path}, row 2 (line 4)", *parts[:2]):
        assert part in text


def test_a_bad_parquet_row_and_a_bad_frame_row_are_named(tmp_path):
    frame = pd.DataFrame([GOOD, {**GOOD, "id": "b", "response": None}])
    path = written(tmp_path, "x.parquet", parquet(frame))
    assert f"{path}, row 2: field 'response' is missing or empty" in message(path)
    with pytest.raises(ItemError, match="DataFrame, row 2: field 'response' is missing or empty"):
        datasets.from_frame(frame)


def test_equal_ids_name_both_rows(tmp_path):
    path = written(tmp_path, "x.jsonl", lines({**GOOD, "id": 7}, {**GOOD, "id": "b"}, {**GOOD, "id": "7"}))
    text = message(path)
    assert f"{path}, line 3, field 'id': '7'" in text
    assert f"{path}, line 1." in text


HEAD = "id,instruction,response\n"
BAD_FILES = {
    "not UTF-8": ("x.jsonl", b'{"id": "a"}\n{"id": "\xe9"}', ["line 2", "byte 20", "0xe9", "Save the file as UTF-8"]),
    "not UTF-8 CSV": ("x.csv", HEAD.encode() + b"a,b,caf\xe9", ["line 2", "byte 31", "0xe9"]),
    "UTF-16": ("x.csv", HEAD.encode("utf-16"), ["line 1", "byte 0", "UTF-8"]),
    "empty": ("x.jsonl", b"", ["is empty"]),
    "blank": ("x.csv", b"\n \n", ["is empty"]),
    "only a mark": ("x.csv", b"\xef\xbb\xbf", ["is empty"]),
    "header only": ("x.csv", HEAD, ["has no rows"]),
    "no row in Parquet": ("x.parquet", parquet(pd.DataFrame(columns=["id", "response"])), ["has no rows"]),
    "broken JSON": ("x.jsonl", lines(GOOD, '{"id": "b",}'), ["line 2", "not valid JSON", "character 1", "'}'"]),
    "cut JSON": ("x.jsonl", lines(GOOD, '{"id": "b"'), ["line 2", "not valid JSON", "'the end'"]),
    "deep JSON": ("x.jsonl", "[" * 100_000, ["line 1", "JSON that cannot be read"]),
    "a line with a list": ("x.jsonl", lines(GOOD, [1]), ["line 2", "[1]", "one object a line"]),
    "a line with a number": ("x.jsonl", lines(GOOD, "5"), ["line 2: 5 is not an object"]),
    "equal keys": ("x.jsonl", '{"id": "a", "id": "b"}', ["line 1", "two columns", "'id'"]),
    "no header": ("x.csv", "a,Say hello.,Hello!\n", ["line 1", "'Say hello.'", "no header"]),
    "semicolons": ("x.csv", HEAD.replace(",", ";"), ["line 1", "id;instruction;response", "no header"]),
    "too short a row": ("x.csv", HEAD + "a,b\n", ["row 1 (line 2)", "['a', 'b']", "2 values for 3 columns"]),
    "too long a row": ("x.csv", HEAD + "a,b,c\na,b,c,d\n", ["row 2 (line 3)", "4 values for 3 columns"]),
    "open quote": ("x.csv", HEAD + 'a,b,"c\nd', ["line 2", "not valid CSV"]),
    "equal columns": ("x.csv", "id,response,id\n", ["line 1", "two columns", "'id'"]),
    "equal Parquet columns": (
        "x.parquet",
        parquet(pa.table([["a"], ["b"]], names=["id", "id"])),
        ["two columns", "'id'"],
    ),
    "date in Parquet": (
        "x.parquet",
        parquet(pa.table([["a"], pa.array([2**62], pa.timestamp("us"))], names=["id", "when"])),
        ["column 'when'", "date value out of range", "as text"],
    ),
    "no Parquet": ("x.parquet", b"id,response", ["is not a Parquet file"]),
    "short Parquet": ("x.parquet", parquet(pd.DataFrame([GOOD]))[:-9], ["is not a Parquet file"]),
    "suffix": ("x.jsonld", lines(GOOD), ["'.jsonld'", "Did you mean '.jsonl'", ".parquet"]),
    "no suffix": ("x", lines(GOOD), ["unknown suffix ''", ".parquet"]),
    "Prometheus": ("x.json", '[{"instruction": "###Response to evaluate:"}]', ["'.json'", "mt_bench:PATH"]),
    "older Prometheus": ("x.jsonl", '{"idx": 1, "response_source": "s"}', ["line 1", "'id'", "mt_bench:PATH"]),
}


@pytest.mark.parametrize(("name", "content", "parts"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_file_is_named(tmp_path, name, content, parts):
    path = written(tmp_path, name, content)
    text = message(path)
    for part in (str(path), *parts):
        assert part in text


def test_a_missing_file_names_the_nearest(tmp_path):
    written(tmp_path, "items.jsonl", lines(GOOD))
    assert f"Did you mean {tmp_path / 'items.jsonl'}?" in message(tmp_path / "itmes.jsonl")
    assert f"There is no folder {tmp_path / 'sub'} either" in message(tmp_path / "sub" / "x.jsonl")


def test_a_folder_is_no_file(tmp_path):
    for name in ("x.jsonl", "x"):
        (tmp_path / name).mkdir()
        assert f"{tmp_path / name} is a folder" in message(tmp_path / name)


def test_equal_columns_of_a_frame_are_refused():
    with pytest.raises(ItemError, match="DataFrame: two columns have the name 'id'"):
        datasets.from_frame(pd.DataFrame([["a", "b"]], columns=["id", "id"]))


# Good files.

ROWS = [
    {
        "id": "007",
        "instruction": 'Say "hello", please.\nNow.',
        "response": "  Hello\u2028\r\nthere, é 你好 \n",
        "reference": "NA",
        "human": [4, 4.5],
        "cluster": "c1",
        "system": "null",
        "rubric": {**OWN, "levels": [{"score": s, "text": f"level {s}"} for s in range(1, 6)]},
    },
    {
        "id": "1.0",
        "instruction": "Say bye.",
        "response": "NaN",
        "reference": None,
        "human": [3],
        "cluster": None,
        "system": None,
        "rubric": {"criteria": "Is it clear?", "score1_description": "no", "score3_description": "yes"},
    },
]


def check_rows(itemset):
    first, second = itemset.items
    assert (itemset.ratings_name, itemset.raters) == ("human", "slots")
    assert first.fields == {key: ROWS[0][key] for key in ("instruction", "response", "reference", "system")}
    assert (first.id, first.human, first.cluster, first.groups) == ("007", (4, 4.5), "c1", {"system": "null"})
    assert (first.rubric.name, first.rubric.scores) == ("mine", (1, 2, 3, 4, 5))
    assert second.fields == {"instruction": "Say bye.", "response": "NaN"}
    assert (second.id, second.human, second.cluster, second.groups) == ("1.0", (3,), "1.0", {})
    assert (second.rubric.criterion, second.rubric.scores) == ("Is it clear?", (1, 3))


def write_csv(path, rows, encoding="utf-8"):
    with path.open("w", encoding=encoding, newline="") as file:
        writer = csv.DictWriter(file, rows[0], quoting=csv.QUOTE_MINIMAL)
        writer.writeheader()
        for row in rows:
            writer.writerow({k: json.dumps(v) if isinstance(v, list | dict) else v for k, v in row.items()})


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_every_format_gives_the_same_items(tmp_path, encoding):
    path = tmp_path / "x.jsonl"
    path.write_bytes("\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS).encode(encoding))
    check_rows(datasets.load(str(path)))
    path = tmp_path / "x.csv"
    write_csv(path, ROWS, encoding)
    check_rows(datasets.load(str(path)))
    path = tmp_path / "x.PARQUET"
    frame = pd.DataFrame(ROWS)
    frame.to_parquet(path, index=False)
    check_rows(datasets.load(str(path)))
    check_rows(datasets.from_frame(frame))
    check_rows(datasets.from_frame(pd.read_parquet(path)))


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(str.strip)
ROW = st.fixed_dictionaries(
    {"instruction": TEXT, "response": TEXT, "note": TEXT, "human": st.lists(st.floats(-9, 9), min_size=1)}
)


@given(st.lists(ROW, min_size=1, max_size=4))
def test_texts_and_ratings_survive_every_format(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("rows")
    rows = [{"id": str(n), **row} for n, row in enumerate(rows)]
    written(folder, "x.jsonl", lines(*rows))
    write_csv(folder / "x.csv", rows)
    pd.DataFrame(rows).to_parquet(folder / "x.parquet")
    sets = [datasets.load(str(folder / f"x{suffix}")) for suffix in (".jsonl", ".csv", ".parquet")]
    for itemset in (*sets, datasets.from_frame(pd.DataFrame(rows))):
        got = [{"id": v.id, **v.fields, "human": list(v.human)} for v in itemset.items]
        assert got == rows
        assert [v.groups for v in itemset.items] == [{"note": row["note"]} for row in rows]


def test_whole_number_ids_and_clusters_become_text(tmp_path):
    path = written(tmp_path, "x.jsonl", lines({**GOOD, "id": 7, "cluster": 3}))
    item = datasets.load(str(path)).items[0]
    assert (item.id, item.cluster) == ("7", "3")
    item = datasets.from_frame(pd.DataFrame([{**GOOD, "id": 7, "cluster": 3}])).items[0]
    assert (item.id, item.cluster) == ("7", "3")


def test_other_columns_are_groups_and_texts_are_fields_too(tmp_path):
    more = {
        "lang": "en",
        "turn": 2,
        "ok": True,
        "x": 0.5,
        "tags": ["a", "ü"],
        "meta": {"k": 1},
        "no": None,
        "nan": float("nan"),
    }
    item = datasets.load(str(written(tmp_path, "x.jsonl", lines({**GOOD, **more})))).items[0]
    assert item.groups == {"lang": "en", "turn": 2, "ok": True, "x": 0.5, "tags": '["a", "ü"]', "meta": '{"k": 1}'}
    assert set(item.fields) == {"instruction", "response", "lang"}


def test_missing_cells_of_a_frame_are_absent():
    frame = pd.DataFrame([{**GOOD, "human": 4}, {**GOOD, "id": "b", "human": None}])
    frame["when"] = [pd.Timestamp("2024-01-02"), pd.NaT]
    first, second = datasets.from_frame(frame).items
    assert (first.human, first.groups) == ((4.0,), {"when": "2024-01-02 00:00:00"})
    assert (second.human, second.groups) == (None, {})


def test_numpy_scalars_of_a_frame_are_plain_values():
    row = {**GOOD, "id": np.int64(7), "human": np.float32(2.5), "ok": np.bool_(True), "name": np.str_("n")}
    item = datasets.from_frame(pd.DataFrame([row], dtype=object)).items[0]
    assert (item.id, item.human) == ("7", (2.5,))
    assert json.dumps(item.groups) == '{"ok": true, "name": "n"}'


def test_spaces_around_column_names_do_not_count(tmp_path):
    path = written(tmp_path, "x.csv", "id, instruction, response\na,b,c\n")
    assert datasets.load(str(path)).items[0].fields == {"instruction": "b", "response": "c"}


def test_an_index_written_by_pandas_is_no_column(tmp_path):
    frame = pd.DataFrame([GOOD], index=[5])
    frame.to_csv(tmp_path / "x.csv")
    frame.to_parquet(tmp_path / "x.parquet")
    for name in ("x.csv", "x.parquet"):
        assert datasets.load(str(tmp_path / name)).items[0].groups == {}


def test_messages_become_a_transcript(tmp_path):
    turns = [
        {"role": "user", "content": "Hi\n"},
        {"role": "assistant", "content": "Yes?"},
        {"role": "user", "content": "Go"},
    ]
    row = {"id": "a", "response": "ok", "messages": turns}
    written(tmp_path, "x.jsonl", lines(row))
    write_csv(tmp_path / "x.csv", [row])
    pd.DataFrame([row]).to_parquet(tmp_path / "x.parquet")
    for name in ("x.jsonl", "x.csv", "x.parquet"):
        fields = datasets.load(str(tmp_path / name)).items[0].fields
        assert fields == {"instruction": "User: Hi\n\n\nAssistant: Yes?\n\nUser: Go", "response": "ok"}


def test_a_rubric_may_be_named(tmp_path, monkeypatch):
    written(tmp_path, "clarity.yaml", json.dumps(OWN))
    monkeypatch.setattr(rubrics, "FOLDER", tmp_path)
    path = written(tmp_path, "x.csv", "id,instruction,response,rubric\na,b,c,clarity\n")
    assert datasets.load(str(path)).items[0].rubric == rubrics.from_dict(OWN)
    path = written(tmp_path, "y.jsonl", lines({**GOOD, "rubric": "clarty"}))
    assert "Did you mean 'clarity'?" in message(path)


def test_a_rubric_is_never_a_path(tmp_path):
    rubric = written(tmp_path, "r.yaml", json.dumps(OWN))
    assert "unknown rubric" in message(written(tmp_path, "x.jsonl", lines({**GOOD, "rubric": str(rubric)})))


@pytest.mark.parametrize("rating", [1, 3, 2.5, "2.5", "[1, 3]"])
def test_a_rating_on_the_scale_need_not_be_a_score(tmp_path, rating):
    row = {**GOOD, "human": rating, "rubric": OWN}
    assert datasets.load(str(written(tmp_path, "x.jsonl", lines(row)))).items[0].human


def test_a_very_long_response_is_read_from_csv(tmp_path):
    before = csv.field_size_limit()
    path = written(tmp_path, "x.csv", HEAD + "a,b," + "x" * 300_000)
    assert len(datasets.load(str(path)).items[0].fields["response"]) == 300_000
    assert csv.field_size_limit() == before


def test_check_ratings_for_one_rubric():
    rubric = Rubric("r", "c", (Level(1, "no"), Level(3, "yes")))
    items = [Item("a", {}, human=(1, 3)), Item("b", {}), Item("c", {}, human=(2, 4))]
    datasets.check_ratings(items, lambda item: None, "x.csv")
    datasets.check_ratings(items[:2], lambda item: rubric, "x.csv")
    with pytest.raises(ItemError, match=r"x.csv, item 'c', field 'human': rating 4 is outside 1 to 3.*'r'"):
        datasets.check_ratings(items, lambda item: rubric, "x.csv")


# Specs.


@pytest.mark.parametrize("spec", ["C:\\x.jsonl", "x:y.jsonl"])
def test_one_letter_is_a_drive(spec):
    assert "there is no file" in message(spec)


def test_a_path_with_a_drive_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "C:x.jsonl", lines(GOOD))
    assert datasets.load("C:x.jsonl").items[0].id == "a"


def test_a_file_with_a_colon_in_its_name_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "run:x.jsonl", lines(GOOD))
    assert datasets.load("run:x.jsonl").items[0].id == "a"


BAD_SPECS = {
    "mt_bnch:x.json": ["unknown dataset 'mt_bnch'", "Did you mean 'mt_bench'?", ".parquet"],
    "dmo": ["unknown dataset 'dmo'", "Did you mean 'demo'?"],
    "mt_bench": ["'mt_bench' needs its file", "mt_bench:PATH"],
    "mt_bench:": ["'mt_bench' needs its file"],
    "demo:x.yaml": ["'demo' reads no file", "'x.yaml'"],
    "demo:?a=b": ["unknown option 'a'", "none"],
    "mt_bench:x.json?system=a": ["unknown option 'system'", "Did you mean 'systems'?", "categories, systems"],
    "mt_bench:x.json?systems": ["'systems' should be given once, with a value"],
    "mt_bench:x.json?systems=": ["'systems=' should be given once, with a value"],
    "mt_bench:x.json?systems=a&systems=b": ["'systems=b' should be given once"],
    "./nothing.py:x": ["there is no plug-in file nothing.py"],
}


@pytest.mark.parametrize(("spec", "parts"), BAD_SPECS.items(), ids=BAD_SPECS)
def test_a_bad_spec_is_named(tmp_path, monkeypatch, spec, parts):
    monkeypatch.chdir(tmp_path)
    text = message(spec, InputError)
    for part in parts:
        assert part in text


ADAPTER = """
from logitjudge.core import Item, ItemSet
def load(arg):
    assert isinstance(arg, str)
    return ItemSet((Item(arg, {"response": "x"}),), "stars", "same")
"""


def test_a_users_adapter_gets_its_argument_as_written(tmp_path):
    path = written(tmp_path, "mine.py", ADAPTER)
    made = datasets.load(f"{path}:~/a:b?c=d&e")
    assert (made.items[0].id, made.ratings_name, made.raters) == ("~/a:b?c=d&e", "stars", "same")


BAD_ADAPTERS = {
    "no argument": (ADAPTER, "", ["needs an argument", "mine.py:ARG"]),
    "no function": ("x = 1", ":a", ["no function load"]),
    "no ItemSet": ("def load(arg): return [arg]", ":a", ["returned list, not an ItemSet"]),
    "crash": ("def load(arg): return {}[arg]", ":a", ["failed: KeyError: 'a'"]),
    "syntax": ("def load(", ":a", ["cannot be imported", "SyntaxError"]),
}


@pytest.mark.parametrize(("source", "arg", "parts"), BAD_ADAPTERS.values(), ids=BAD_ADAPTERS)
def test_a_bad_adapter_is_named(tmp_path, source, arg, parts):
    path = written(tmp_path, "mine.py", source)
    text = message(f"{path}{arg}", InputError)
    for part in (str(path), *parts):
        assert part in text


def test_an_adapters_own_complaint_and_an_adapter_without_argument(tmp_path):
    source = "from logitjudge.errors import ItemError\ndef load(arg): raise ItemError('row 3 is odd')"
    assert message(f"{written(tmp_path, 'mine.py', source)}:a") == "row 3 is odd"
    source = ADAPTER.replace("load(arg):", "load(*, arg='z'):")
    assert datasets.load(str(written(tmp_path, "yours.py", source))).items[0].id == "z"


@pytest.mark.parametrize("name", registry.names("datasets"))
def test_every_dataset_has_a_line_and_a_loader(name):
    module = registry.load("datasets", name)
    assert module.__doc__.splitlines()[0].endswith(".")
    assert callable(module.load)


def test_import_stays_light():
    code = "import sys, logitjudge.datasets; assert not {'pandas', 'pyarrow', 'torch'} & set(sys.modules), sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


# The limit.


def some_items(sizes):
    return ItemSet(
        tuple(Item(f"{c}-{j}", {}, cluster=f"c{c}") for c, size in enumerate(sizes) for j in range(size)),
        "stars",
        "same",
    )


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8), st.integers(1, 50), st.integers(0, 9), st.randoms())
def test_a_limit_is_spread_over_clusters(sizes, n, seed, random):
    itemset = some_items(sizes)
    taken = datasets.take(itemset, n, seed)
    ids = [item.id for item in taken.items]
    assert len(ids) == min(n, sum(sizes))
    assert ids == [item.id for item in itemset.items if item.id in set(ids)]
    assert (taken.ratings_name, taken.raters) == ("stars", "same")
    counts = Counter(item.cluster for item in taken.items)
    assert len(counts) == min(n, len(sizes))
    short = [c for c, size in enumerate(sizes) if counts[f"c{c}"] < size]
    assert all(counts[f"c{c}"] >= max(counts.values()) - 1 for c in short)
    assert taken == datasets.take(itemset, n, seed)
    assert set(ids) <= {item.id for item in datasets.take(itemset, n + 1, seed).items}
    shuffled = ItemSet(tuple(random.sample(itemset.items, len(itemset.items))))
    assert set(ids) == {item.id for item in datasets.take(shuffled, n, seed).items}


def test_the_seed_decides_clusters_and_items():
    itemset = some_items([4] * 6)
    choices = {tuple(item.id for item in datasets.take(itemset, 3, seed).items) for seed in range(20)}
    assert len(choices) > 15
    assert {item[-1] for choice in choices for item in choice} == set("0123")


def test_load_takes_the_limit(tmp_path):
    path = written(tmp_path, "x.jsonl", lines(*({**GOOD, "id": n, "cluster": n // 4} for n in range(12))))
    made = datasets.load(str(path), limit=3, seed=2)
    assert len({item.cluster for item in made.items}) == 3
    assert made == datasets.take(datasets.load(str(path)), 3, 2)


@pytest.mark.parametrize("limit", [0, -1, 2.5, True, "3"])
def test_a_bad_limit_is_refused(limit):
    with pytest.raises(InputError, match=f"the limit is {limit!r}"):
        datasets.take(some_items([2]), limit)


# Prometheus files.

PARTS = (
    "Say hi. \n",
    " Hello ",
    "Hello!\n",
    "[Is it [very] clear?]\n" + "\n".join(f"Score {s}: level {s}" for s in range(1, 6)),
)
PROMPT = "###Task Description:\nJudge.\n\n" + "\n\n".join(
    f"{h}\n{part}" for h, part in zip(HEADERS[:4], PARTS, strict=True)
)
PROMPT += f"\n\n{HEADERS[4]} "
ROW1 = {"idx": 81, "response_source": "a", "category": "w", "instruction": PROMPT, "gpt4_score": [3, 2, 5]}
ROW2 = {**ROW1, "idx": 81, "response_source": "b", "category": "v"}
ROW3 = {**ROW1, "idx": 82}


@pytest.mark.parametrize("name", ["mt_bench", "vicuna_bench"])
def test_prometheus_rows_become_items(tmp_path, name):
    made = datasets.load(f"{name}:{written(tmp_path, 'x.json', json.dumps([ROW1, ROW2, ROW3]))}")
    assert (made.ratings_name, made.raters) == ("GPT-4 reference", "slots")
    assert [(item.id, item.cluster) for item in made.items] == [("81-a", "81"), ("81-b", "81"), ("82-a", "82")]
    item = made.items[0]
    assert item.fields == {"instruction": "Say hi. \n", "response": " Hello ", "reference": "Hello!\n"}
    assert (item.human, item.groups) == ((3, 2, 5), {"category": "w", "system": "a", "idx": 81})
    assert (item.rubric.name, item.rubric.criterion) == (name, "Is it [very] clear?")
    assert [level.text for level in item.rubric.levels] == [f"level {s}" for s in range(1, 6)]


def test_the_older_form_has_no_ratings(tmp_path):
    rows = [{key: row[key] for key in row if key != "gpt4_score"} for row in (ROW1, ROW2)]
    made = datasets.load(f"mt_bench:{written(tmp_path, 'x.json', lines(*rows))}")
    assert [item.human for item in made.items] == [None, None]
    assert made.items[1].fields["response"] == " Hello "


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("systems=a", ["81-a", "82-a"]),
        ("categories=v,w", ["81-a", "81-b", "82-a"]),
        ("systems=a,b&categories=v", ["81-b"]),
    ],
)
def test_prometheus_options(tmp_path, query, ids):
    path = written(tmp_path, "x.json", json.dumps([ROW1, ROW2, ROW3]))
    assert [item.id for item in datasets.load(f"mt_bench:{path}?{query}").items] == ids


@pytest.mark.parametrize(
    ("query", "parts"),
    [
        ("systems=c", ["'systems'", "unknown system 'c'", "a, b"]),
        ("categories=a", ["'categories'", "unknown category 'a'", "v, w"]),
        ("systems=a&categories=v", ["no item of systems 'a' and categories 'v'"]),
    ],
)
def test_bad_prometheus_options_are_named(tmp_path, query, parts):
    path = written(tmp_path, "x.json", json.dumps([ROW1, ROW2, ROW3]))
    text = message(f"mt_bench:{path}?{query}", InputError)
    for part in (str(path), *parts):
        assert part in text


def prompt(old, new):
    return {"instruction": PROMPT.replace(old, new)}


BAD_PROMETHEUS = {
    "no system": ({"response_source": None}, ["'response_source'", "None", "not a text"]),
    "idx a text": ({"idx": "x"}, ["'idx'", "'x'", "whole number"]),
    "no header": (prompt("###Response to evaluate:", "x"), ["'###Response to evaluate:'", "0 times"]),
    "two headers": (prompt(" Hello ", "###Feedback:"), ["'###Feedback:'", "2 times"]),
    "headers swapped": (
        {"instruction": PROMPT.replace(HEADERS[0], "@").replace(HEADERS[1], HEADERS[0]).replace("@", HEADERS[1])},
        ["'instruction'", "order"],
    ),
    "no response": (prompt(" Hello ", ""), ["nothing follows", "'###Response to evaluate:'"]),
    "four levels": (prompt("\nScore 5: level 5", ""), ["'instruction'", "Score 5: ..."]),
    "equal levels": (prompt("level 5", "level 4"), ["'instruction'", "two levels with the text 'level 4'"]),
    "score outside": ({"gpt4_score": [3, 6, 3]}, ["'gpt4_score'", "6", "1 to 5"]),
    "score a text": ({"gpt4_score": [3, "x", 3]}, ["'gpt4_score'", "'x'", "finite number"]),
    "score no list": ({"gpt4_score": 3}, ["'gpt4_score'", "3", "list of scores"]),
}


@pytest.mark.parametrize(("change", "parts"), BAD_PROMETHEUS.values(), ids=BAD_PROMETHEUS)
def test_a_bad_prometheus_row_is_named(tmp_path, change, parts):
    path = written(tmp_path, "x.json", json.dumps([ROW1, {**ROW2, **change}]))
    text = message(f"mt_bench:{path}")
    for part in (f"{path}, row 2", *parts):
        assert part in text
    path = written(tmp_path, "y.json", lines(ROW1, {**ROW2, **change}))
    assert f"{path}, line 2" in message(f"mt_bench:{path}")


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (json.dumps([ROW1, ROW2, ROW1]), ["row 3, field 'id': '81-a'", "row 1."]),
        (json.dumps([ROW1, 5]), ["row 2: 5 is not an object"]),
        (json.dumps([GOOD]), ["row 1: field 'idx' is missing", "id, instruction, response", "original file"]),
        (json.dumps([ROW1], indent=1)[:-2] + "}", ["not valid JSON", "line "]),
        ("[]", ["has no rows"]),
        ("", ["is empty"]),
    ],
)
def test_a_bad_prometheus_file_is_named(tmp_path, content, parts):
    path = written(tmp_path, "x.json", content)
    text = message(f"mt_bench:{path}")
    for part in (str(path), *parts):
        assert part in text


ORIGINALS = [
    ("mt_bench", "mt_bench_eval.prometheus2.json", 3.49),
    ("vicuna_bench", "vicuna_eval.prometheus2.json", 4.15),
]


@pytest.mark.shared_data
@pytest.mark.parametrize(("name", "file", "mean"), ORIGINALS)
def test_the_original_files(shared, name, file, mean):
    folder = shared / "data" / name
    made = datasets.load(f"{name}:{folder / file}")
    assert (len(made.items), len({item.cluster for item in made.items})) == (320, 80)
    assert sum(item.rating for item in made.items) / 320 == pytest.approx(mean, abs=0.005)
    tidy = [json.loads(line) for line in (folder / "tidy_items.jsonl").read_text(encoding="utf-8").splitlines()]
    for item, row in zip(made.items, tidy, strict=True):
        assert (f"{name}-{item.id}", item.cluster) == (row["item_id"], str(row["prompt_id"]))
        assert item.groups == {"category": row["category"], "system": row["system"], "idx": row["prompt_id"]}
        stripped = [item.fields[key].strip() for key in ("instruction", "response", "reference")]
        assert stripped == [row[key] for key in ("instruction", "response", "reference_answer")]
        assert item.rubric == rubrics.from_dict({**row["rubric"], "name": name})
        assert list(item.human) == row["gpt4_scores"]


@pytest.mark.shared_data
@pytest.mark.parametrize(("name", "file", "mean"), ORIGINALS)
def test_the_original_prompts_come_back_byte_for_byte(shared, name, file, mean):
    path = shared / "data" / name / file
    rows = json.loads(path.read_text(encoding="utf-8"))
    start = rows[0]["instruction"].index(HEADERS[0])
    for item, row in zip(datasets.load(f"{name}:{path}").items, rows, strict=True):
        scores = "\n".join(f"Score {level.score}: {level.text}" for level in item.rubric.levels)
        texts = [
            *(item.fields[k] for k in ("instruction", "response", "reference")),
            f"[{item.rubric.criterion}]\n{scores}",
        ]
        body = "\n\n".join(f"{header}\n{text}" for header, text in zip(HEADERS[:4], texts, strict=True))
        assert row["instruction"][start:] == f"{body}\n\n{HEADERS[4]} "


@pytest.mark.shared_data
def test_the_original_without_its_name_gets_a_hint(shared):
    assert "mt_bench:PATH" in message(shared / "data" / "mt_bench" / ORIGINALS[0][1])


# The demo.


def test_the_demo_file_becomes_items(tmp_path, monkeypatch):
    rows = [{"level": level, "human": [k, k], "text": f"text {k}"} for k, level in enumerate("abcd", start=1)]
    task = {
        "id": "t",
        "type": "mail",
        "rubric": "mine",
        "instruction": "Write.",
        "reference": "Best.",
        "responses": rows,
    }
    monkeypatch.setattr(demo, "FILE", written(tmp_path, "demo.yaml", json.dumps({"tasks": [task]})))
    monkeypatch.setattr(rubrics, "FOLDER", tmp_path)
    written(tmp_path, "mine.yaml", json.dumps(OWN))
    made = datasets.load("demo")
    assert (made.ratings_name, made.raters) == ("authors' ratings", "same")
    assert [item.id for item in made.items] == ["t-a", "t-b", "t-c", "t-d"]
    item = made.items[1]
    assert item.fields == {"instruction": "Write.", "response": "text 2", "reference": "Best."}
    assert (item.human, item.cluster, item.groups) == ((2, 2), "t", {"task_type": "mail", "level": "b"})
    assert item.rubric == rubrics.from_dict(OWN)


def test_the_demo_items():
    made = datasets.load("demo")
    assert len(made.items) == 48
    assert min(Counter(item.cluster for item in made.items).values()) >= 2
    datasets.check_ratings(made.items, lambda item: item.rubric, "demo")
    assert {len(item.human) for item in made.items} == {2}
    assert {item.groups["level"] for item in made.items} == set("abcd")
    assert all(text.strip() for item in made.items for text in item.fields.values())


def test_specs_take_a_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    written(tmp_path, "x.jsonl", lines(GOOD))
    assert datasets.load("~/x.jsonl").items[0].id == "a"
    written(Path(tmp_path), "x.json", json.dumps([ROW1]))
    assert datasets.load("mt_bench:~/x.json").items[0].id == "81-a"


def test_only_the_last_question_mark_begins_options(tmp_path):
    path = written(tmp_path, "what?.json", json.dumps([ROW1, ROW2]))
    assert [item.id for item in datasets.load(f"mt_bench:{path}?systems=b").items] == ["81-b"]
