import dataclasses
import json
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from logitjudge import judging, parts, store
from logitjudge.backends.planted import PlantedJudge
from logitjudge.core import Item, Level, Readings, Rubric, TopToken
from logitjudge.errors import NotObserved, RunFolderError, RunIncomplete
from logitjudge.prompts import Template

RUBRIC = Rubric("r", "Is it good?", tuple(Level(s, f"level {s}") for s in (0, 2, 5)))
PLANTED = "planted:order_noise=1;position=0.5,0,0.2;mass=0.8"


def items(count=4):
    return [
        Item(f"i{n}", {"instruction": "x", "response": "y" * n}, human=(2, 5), cluster=f"c{n % 2}", groups={"n": n})
        for n in reversed(range(count))
    ]


def judge(out, model=PLANTED, data=None, **options):
    """Judge with one batch an item."""
    options = {"rubric": RUBRIC, "orderings": "cyclic", "max_batch_tokens": 1} | options
    return judging.judge(model, items() if data is None else data, out=out, **options)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "run"


@pytest.fixture
def unfinished(out, monkeypatch):
    """A run that was interrupted after two of four batches."""
    read = PlantedJudge.read

    def interrupted(self, queries, budget):
        if len(parts.done(out)) == 2:
            raise KeyboardInterrupt
        return read(self, queries, budget)

    monkeypatch.setattr(PlantedJudge, "read", interrupted)
    with pytest.raises(KeyboardInterrupt):
        judge(out)
    monkeypatch.setattr(PlantedJudge, "read", read)
    return out


def names(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


# --- the schema, read without us -----------------------------------------------------------------------------------


def test_columns_and_types_are_the_contracts(out):
    judge(out)
    types = {field.name: str(field.type) for field in pq.read_schema(out / "readings" / "all.parquet")}
    assert types == {
        "item_id": "string",
        "ordering": "list<element: int32>",
        "labels": "list<element: int32>",
        "logp": "list<element: double>",
        "mass": "double",
        "alias_mass": "list<element: double>",
        "top_tokens": "list<element: struct<id: int32, text: string, logp: double>>",
        "exact": "list<element: bool>",
        "criterion": "string",
        "trace_id": "string",
        "sample": "int32",
    }


def test_columns_that_a_reading_always_has_cannot_be_null(out):
    judge(out)
    schema = pq.read_schema(out / "readings" / "all.parquet")
    required = {field.name for field in schema if not field.nullable}
    assert required == {"item_id", "ordering", "logp", "mass", "alias_mass", "top_tokens"}


def test_pandas_alone_reads_what_the_run_holds(out):
    run = judge(out)
    frame = pd.read_parquet(out / "readings")
    assert frame["item_id"].tolist() == [item.id for item in run.items for _ in run.orderings]
    assert [tuple(row) for row in frame["ordering"]] == [o.values(run.scores) for o in run.orderings] * 4
    np.testing.assert_array_equal(np.stack(frame["logp"]).reshape(run.logp.shape), run.logp)
    np.testing.assert_array_equal(frame["mass"], run.mass.ravel())


def test_an_ordering_is_stored_as_score_values(out):
    judge(out, orderings="5,0,2")
    assert pd.read_parquet(out / "readings")["ordering"][0].tolist() == [5, 0, 2]


def test_a_folder_of_parts_can_be_read_as_a_whole(unfinished):
    assert len(pd.read_parquet(unfinished / "readings")) == 2 * 3


def test_rows_are_in_the_order_of_items_and_then_orderings_whatever_the_batches(out, tmp_path):
    judge(out, max_batch_tokens=1)
    judge(tmp_path / "other", max_batch_tokens=10**6)
    one, other = (pq.read_table(folder / "readings" / "all.parquet") for folder in (out, tmp_path / "other"))
    assert one.equals(other)


def test_labels_are_stored_and_read_back(out):
    from logitjudge.core import Ordering

    orderings = (Ordering((1, 0, 2)), Ordering((1, 0, 2), (0, 1, 2)))
    run = judge(out, orderings=orderings)
    frame = pd.read_parquet(out / "readings")
    assert frame["labels"].tolist()[0] is None
    assert frame["labels"].tolist()[1].tolist() == [0, 1, 2]
    assert run.orderings == orderings


def test_top_tokens_are_stored_with_id_text_and_log_probability(tmp_path):
    readings = Readings(np.log([[0.1, 0.2]]), [[0.0, 0.1]], ((TopToken(7, "The", -0.5), TopToken(9, "ä", -1.5)),))
    parts.write_part(tmp_path, 0, [("a", (1, 2), None)], readings)
    (row,) = pq.read_table(tmp_path / "readings" / "part-000000.parquet").to_pylist()
    tokens = [{"id": 7, "text": "The", "logp": -0.5}, {"id": 9, "text": "ä", "logp": -1.5}]
    assert (row["top_tokens"], row["alias_mass"]) == (tokens, [0.0, 0.1])


def test_identical_runs_have_identical_readings(out, tmp_path):
    judge(out)
    judge(tmp_path / "again")
    one, two = (folder / "readings" / "all.parquet" for folder in (out, tmp_path / "again"))
    assert one.read_bytes() == two.read_bytes()


def test_no_time_is_stored_with_the_readings(out):
    judge(out)
    started = json.loads((out / "run.json").read_text())["started"]
    assert started[:10].encode() not in (out / "readings" / "all.parquet").read_bytes()


# --- page checksums ------------------------------------------------------------------------------------------------


def flip(path, needle):
    """Flip a bit inside the 8 bytes of a stored number."""
    data = bytearray(path.read_bytes())
    data[data.index(needle) + 3] ^= 4
    path.write_bytes(data)


def logp_bytes(folder):
    """Bytes of one stored log-probability."""
    (path, *_) = sorted((folder / "readings").glob("*.parquet"))
    return path, np.float64(pq.read_table(path)["logp"][0][0].as_py()).tobytes()


def test_a_flipped_bit_in_the_finished_readings_is_found(out):
    judge(out)
    path, needle = logp_bytes(out)
    flip(path, needle)
    with pytest.raises(RunFolderError, match="all.parquet is damaged"):
        store.load_run(out)


def test_a_flipped_bit_in_a_part_is_found(unfinished):
    path, needle = logp_bytes(unfinished)
    flip(path, needle)
    with pytest.raises(RunFolderError, match="part-000000.parquet is damaged"):
        store.load_run(unfinished, partial=True)


def test_a_flipped_bit_in_a_part_never_gets_into_the_finished_readings(unfinished, tmp_path):
    path, needle = logp_bytes(unfinished)
    flip(path, needle)
    np.testing.assert_array_equal(judge(unfinished).logp, judge(tmp_path / "undisturbed").logp)
    assert (unfinished / "damaged" / "readings-part-000000.parquet").exists()


@pytest.mark.parametrize("name", ["all.parquet", "part-000000.parquet"])
def test_damaged_readings_that_are_moved_away_are_read_anew(request, tmp_path, name):
    folder = tmp_path / "run"
    judge(folder) if name == "all.parquet" else request.getfixturevalue("unfinished")
    (folder / "readings" / name).rename(tmp_path / "away.parquet")
    judge(folder)
    judge(tmp_path / "undisturbed")
    one, two = (f / "readings" / "all.parquet" for f in (folder, tmp_path / "undisturbed"))
    assert one.read_bytes() == two.read_bytes()


def test_whatever_byte_is_damaged_the_file_is_named_or_nothing_has_changed(out):
    run = judge(out)
    path = out / "readings" / "all.parquet"
    good = path.read_bytes()
    for at in np.random.default_rng(0).choice(len(good), 250, replace=False):
        data = bytearray(good)
        data[at] ^= 1 << (at % 8)
        path.write_bytes(data)
        reason = refusal(out)
        if reason is None:
            found = store.load_run(out)
            np.testing.assert_array_equal(found.logp, run.logp)
            np.testing.assert_array_equal(found.alias_mass, run.alias_mass)
        else:
            assert str(path) in reason


def refusal(out):
    """Why a run folder is not loaded, or None."""
    try:
        store.load_run(out)
    except RunFolderError as error:
        return str(error)
    return None


@pytest.mark.parametrize("content", [b"", b"PAR1", b"not parquet at all" * 20])
def test_a_file_that_is_not_parquet_is_named(out, content):
    judge(out)
    (out / "readings" / "all.parquet").write_bytes(content)
    with pytest.raises(RunFolderError, match="all.parquet is damaged"):
        store.load_run(out)


@pytest.mark.parametrize("length", [0, 10, 500])
def test_a_truncated_list_of_items_is_named(out, length):
    judge(out)
    path = out / "items.jsonl"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(RunFolderError, match="items.jsonl"):
        store.load_run(out)


# --- atomic writes -------------------------------------------------------------------------------------------------


def full_disk(*_, **__):
    raise OSError(28, "No space left on device")


def test_a_part_that_cannot_be_written_leaves_nothing(unfinished, monkeypatch):
    before = names(unfinished)
    monkeypatch.setattr(parts.pq, "ParquetWriter", full_disk)
    with pytest.raises(RunFolderError, match="part-000002.parquet cannot be written: No space left on device"):
        judge(unfinished)
    assert names(unfinished) == before


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_a_write_that_is_broken_off_leaves_nothing(unfinished, monkeypatch, error):
    def broken(path, *_, **__):
        path.write_bytes(b"half")
        raise error

    before = names(unfinished)
    monkeypatch.setattr(parts.pq, "ParquetWriter", broken)
    with pytest.raises(error):
        judge(unfinished)
    assert names(unfinished) == before


def test_a_disk_that_is_full_at_the_end_keeps_every_part(out, monkeypatch):
    writer = pq.ParquetWriter
    monkeypatch.setattr(
        parts.pq, "ParquetWriter", lambda p, *a, **k: full_disk() if "all" in p.name else writer(p, *a, **k)
    )
    with pytest.raises(RunFolderError, match="all.parquet cannot be written"):
        judge(out)
    assert len(store.load_run(out, partial=True).items) == 4


def test_a_run_goes_on_once_the_disk_has_room(out, tmp_path, monkeypatch):
    writer = pq.ParquetWriter
    monkeypatch.setattr(
        parts.pq, "ParquetWriter", lambda p, *a, **k: full_disk() if "02" in p.name else writer(p, *a, **k)
    )
    with pytest.raises(RunFolderError):
        judge(out)
    monkeypatch.undo()
    np.testing.assert_array_equal(judge(out).logp, judge(tmp_path / "undisturbed").logp)


LIMITED = """
import resource, sys
sys.path.insert(0, sys.argv[1])
import test_store
from logitjudge.errors import RunFolderError
for folder, limit in zip(sys.argv[2::2], map(int, sys.argv[3::2])):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        test_store.judge(folder, data=test_store.items(30))
    except RunFolderError as error:
        print(error)
"""


def test_a_disk_that_refuses_to_let_a_file_grow(request, tmp_path):
    whole = judge(tmp_path / "whole", data=items(30))
    files = {"items.jsonl": tmp_path / "a", "readings/all.parquet": tmp_path / "b"}
    limits = [x for name, out in files.items() for x in (out, (tmp_path / "whole" / name).stat().st_size - 1)]
    command = [sys.executable, "-c", LIMITED, str(request.path.parent), *map(str, limits)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for line, (name, out) in zip(done.stdout.strip().split("\n"), files.items(), strict=True):
        assert f"{out / name} cannot be written: " in line
        assert not [name for name in names(out) if name.endswith(".writing")]
    assert len(store.load_run(tmp_path / "b", partial=True).items) == 30
    for out in files.values():
        np.testing.assert_array_equal(judge(out, data=items(30)).logp, whole.logp)


def test_no_file_is_left_under_a_temporary_name(out):
    judge(out)
    assert names(out) == [".lock", "items.jsonl", "readings/all.parquet", "refused.jsonl", "run.json"]


def test_nothing_temporary_is_ever_among_the_readings(out, monkeypatch):
    seen = []
    replace = parts.os.replace

    def watched(source, target):
        seen.extend((out / "readings").glob(".*"))
        replace(source, target)

    monkeypatch.setattr(parts.os, "replace", watched)
    judge(out)
    assert seen == []


# --- compaction ----------------------------------------------------------------------------------------------------


def test_one_batch_is_one_part(unfinished):
    parts = ["readings/part-000000.parquet", "readings/part-000001.parquet"]
    assert names(unfinished) == [".lock", "items.jsonl", *parts, "refused.jsonl", "run.json"]


def test_the_joined_file_does_not_depend_on_the_parts_it_came_in(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "ROWS", 5)
    whole, single = (judge(tmp_path / str(budget), max_batch_tokens=budget) for budget in (10**6, 1))
    assert len(whole.provenance["batches"]) == 1 < len(single.provenance["batches"])
    one, other = (tmp_path / str(budget) / "readings" / "all.parquet" for budget in (10**6, 1))
    assert one.read_bytes() == other.read_bytes()
    assert [pq.ParquetFile(one).metadata.row_group(n).num_rows for n in range(3)] == [5, 5, 2]
    np.testing.assert_array_equal(whole.logp, single.logp)


def test_parts_that_a_kill_left_are_dropped_and_not_read(out, unfinished_copy):
    run = judge(out)
    for part in unfinished_copy:
        part.replace(out / "readings" / part.name)
    np.testing.assert_array_equal(store.load_run(out).logp, run.logp)
    assert names(out / "readings") == ["all.parquet"]


@pytest.fixture
def unfinished_copy(tmp_path):
    folder = tmp_path / "other"
    judge(folder, model="planted:order_noise=2;seed=9")  # other readings: they must not be taken
    table = pq.read_table(folder / "readings" / "all.parquet")
    paths = [tmp_path / "part-000000.parquet", tmp_path / "part-000009.parquet"]
    for path in paths:
        pq.write_table(table, path)
    return paths


def test_the_whole_outranks_parts_before_the_run_is_said_to_be_finished(unfinished):
    run = judge(unfinished)
    head = json.loads((unfinished / "run.json").read_text()) | {"finished": None}
    (unfinished / "run.json").write_text(json.dumps(head))  # killed between the two
    assert (judge(unfinished).logp == run.logp).all()


def test_a_run_that_is_finished_is_not_written_to(out):
    judge(out)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    judge(out)
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before


# --- folders that are not ours -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["thesis.docx", "items.jsonl", "readings/mine.parquet", "traces/x", "refused.jsonl"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_with_something_else_in_it_is_refused_and_not_touched(out, name, overwrite):
    path = out / name
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    with pytest.raises(RunFolderError, match=f"not a run folder: it holds '{name.split('/')[0]}'"):
        judge(out, overwrite=overwrite)
    assert (names(out), path.read_text()) == ([name], "mine")


def test_an_empty_folder_will_do(out):
    out.mkdir()
    assert len(judge(out).items) == 4


def test_a_folder_with_only_hidden_files_will_do(out):
    out.mkdir()
    (out / ".DS_Store").write_text("x")
    judge(out)
    assert (out / ".DS_Store").exists()


@pytest.mark.parametrize("overwrite", [False, True])
def test_out_is_a_file(tmp_path, overwrite):
    path = tmp_path / "file"
    path.write_text("mine")
    with pytest.raises(RunFolderError, match=f"{path} is a file"):
        judge(path, overwrite=overwrite)
    assert path.read_text() == "mine"


def test_out_is_below_a_file(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RunFolderError, match="cannot be written"):
        judge(tmp_path / "file" / "run")


def test_overwrite_removes_our_files_only(out):
    judge(out)
    (out / "notes.txt").write_text("mine")
    run = judge(out, data=items(2), overwrite=True)
    assert len(run.items) == 2
    assert (out / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("content", ["{", "[]", '{"schema_version": 2}', "{}"])
def test_overwrite_begins_anew_even_where_run_json_cannot_be_read(out, content):
    judge(out, data=items(2))
    (out / "run.json").write_text(content)
    assert len(judge(out, overwrite=True).items) == 4


@pytest.mark.parametrize("survivor", ["items.jsonl", "refused.jsonl", "readings"])
def test_a_kill_while_an_old_run_is_removed_leaves_nothing_of_it_in_the_new_one(out, monkeypatch, survivor):
    judge(out, data=items(3))

    def killed(self, *_, **__):
        raise KeyboardInterrupt

    if survivor == "readings":
        monkeypatch.setattr(store.shutil, "rmtree", killed)
    else:
        unlink = store.Path.unlink
        monkeypatch.setattr(store.Path, "unlink", lambda p, **k: killed(p) if p.name == survivor else unlink(p, **k))
    with pytest.raises(KeyboardInterrupt):
        store.clear(out)
    monkeypatch.undo()
    assert (out / survivor).exists()
    with pytest.raises(RunFolderError, match="there is no run"):
        store.load_run(out)
    run = judge(out, model="planted:seed=5")
    assert len(run.items) == 4
    assert "planted:seed=5" in (out / "run.json").read_text()


def test_a_kill_while_a_run_starts_is_no_obstacle(out, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(store, "write_json", full_disk)
        with pytest.raises(OSError, match="No space"):
            judge(out)
    assert "items.jsonl" in names(out)
    assert len(judge(out).items) == 4
    assert ".logitjudge-starting" not in names(out)


# --- run.json ------------------------------------------------------------------------------------------------------


def test_another_schema_version_is_refused(out):
    judge(out)
    path = out / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": 2}))
    with pytest.raises(RunFolderError, match=r"run.json has schema version 2; .* version 1"):
        store.load_run(out)


@pytest.mark.parametrize(
    ("field", "value", "match"),
    [("reasoning", "", "its template has 'reasoning', which this"), ("level_line", 3, "level_line"), ("verdicts", {"think": 1}, "think")],
)  # fmt: skip
def test_a_template_that_is_not_known_is_refused(out, field, value, match):
    judge(out)
    head = json.loads((out / "run.json").read_text())
    head["template"][field] = value
    (out / "run.json").write_text(json.dumps(head))
    with pytest.raises(RunFolderError, match=match):
        store.load_run(out)


def test_the_form_of_a_template_is_that_of_its_class():
    assert {name.rstrip("?") for name in store.TEMPLATE} == {field.name for field in dataclasses.fields(Template)}


@pytest.mark.parametrize("content", ["{", "[]", "{}", "", "\x00"])
def test_a_run_json_that_is_none_is_named(out, content):
    judge(out)
    (out / "run.json").write_text(content)
    with pytest.raises(RunFolderError, match="run.json cannot be read"):
        store.load_run(out)


def test_run_json_says_what_the_run_is(out):
    judge(out)
    head = json.loads((out / "run.json").read_text())
    assert (head["schema_version"], head["kind"], head["event"]) == (1, "rubric", store_event())
    assert (head["items"], head["refused"], head["readings"]) == (4, 0, 12)
    assert head["finished"] >= head["started"]


def store_event():
    return "the answer starts with this option and does not become another one"


# --- loading -------------------------------------------------------------------------------------------------------


def test_a_run_is_loaded_as_it_was_made(out):
    made, loaded = judge(out), store.load_run(out)
    assert (loaded.items, loaded.orderings, loaded.rubric) == (tuple(items()), made.orderings, RUBRIC)
    assert loaded.scores.tolist() == [0, 2, 5]
    np.testing.assert_array_equal(made.logp, loaded.logp)


AWKWARD = ["a\u2028b\u2029c\x85d", "\r\n\ttab\x0b\x0c\x1c\x00", "日本語 🙂", '{"a": "\\u2028"}', ' " \\ ']


@pytest.mark.parametrize("text", AWKWARD)
def test_any_text_comes_back_as_it_was(out, text):
    item = Item(f"id {text}", {"instruction": text, "response": text}, cluster=text, groups={"g": text})
    assert judge(out, data=[item]).items == (item,)


@pytest.mark.parametrize(
    ("value", "stored"),
    [(np.int64(3), 3), (np.float32(0.5), 0.5), (float("nan"), None), (np.nan, None), (True, True), (None, None)]
    + [(pd.Timestamp("2020-01-02"), "2020-01-02 00:00:00"), ("x", "x")],
)
def test_a_group_may_be_any_value(out, value, stored):
    (item,) = judge(out, data=[Item("a", {"instruction": "x", "response": "y"}, groups={"g": value})]).items
    assert item.groups == {"g": stored}


def test_no_run(tmp_path):
    with pytest.raises(RunFolderError, match="there is no run in"):
        store.load_run(tmp_path)


def test_an_unfinished_run_is_not_loaded_by_default(unfinished):
    with pytest.raises(RunIncomplete, match="2 of 4 items are read"):
        store.load_run(unfinished)


def test_an_unfinished_run_is_loaded_with_its_complete_items(unfinished, tmp_path):
    run = store.load_run(unfinished, partial=True)
    whole = judge(tmp_path / "whole")
    assert [item.id for item in run.items] == ["i3", "i2"]
    np.testing.assert_array_equal(run.logp, whole.logp[:2])


def test_an_item_with_some_of_its_orderings_is_not_complete(unfinished):
    path = unfinished / "readings" / "part-000001.parquet"
    table = pq.read_table(path)
    pq.write_table(table.slice(0, 2), path)
    assert [item.id for item in store.load_run(unfinished, partial=True).items] == ["i3"]


def test_an_unfinished_run_without_a_complete_item(unfinished):
    for part in (unfinished / "readings").iterdir():
        part.unlink()
    with pytest.raises(RunIncomplete, match="no item with all its readings"):
        store.load_run(unfinished, partial=True)


def test_readings_of_an_item_that_is_not_in_the_run_are_refused(out):
    judge(out)
    lines = (out / "items.jsonl").read_text().split("\n")
    (out / "items.jsonl").write_text("\n".join(lines[1:]))
    with pytest.raises(RunFolderError, match="all.parquet is damaged"):
        store.load_run(out)


def with_mass(out, rows, alias=None):
    """A run whose readings have given probabilities (I, K), the same in every ordering but the last."""
    judge(out, data=items(len(rows)))
    path = out / "readings" / "all.parquet"
    table = pq.read_table(path)
    probs = np.repeat(np.array(rows, dtype=float), 3, axis=0)
    probs[::3] *= 0.5  # the first ordering of each item has half of the mass
    columns = {"logp": np.log(probs).tolist(), "mass": probs.sum(axis=1).tolist()}
    if alias is not None:
        columns["alias_mass"] = np.repeat(np.array(alias, dtype=float), 3, axis=0).tolist()
    for name, values in columns.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, table.schema.field(name), pa.array(values, table.schema.field(name).type))
    pq.write_table(table, path, write_page_checksum=True)


def test_min_mass_leaves_an_item_out_in_all_its_orderings(out):
    with_mass(out, [[0.2, 0.2, 0.2], [0.3, 0.3, 0.3]])  # the smallest masses are 0.3 and 0.45
    assert [item.id for item in store.load_run(out, min_mass=0.4).items] == ["i0"]
    assert len(store.load_run(out, min_mass=0.3 - 1e-9).items) == len(store.load_run(out).items) == 2


def test_a_min_mass_that_no_item_has(out):
    with_mass(out, [[0.2, 0.2, 0.2], [0.3, 0.3, 0.3]])
    with pytest.raises(NotObserved, match="no item has a mass of 0.9 .* 0.45"):
        store.load_run(out, min_mass=0.9)


def test_aliases_are_summed_where_that_is_asked_for(out):
    with_mass(out, [[0.2, 0.2, 0.2]], alias=[[0.2, 0.0, 0.0]])
    np.testing.assert_allclose(store.load_run(out).probs()[0, 1], [1 / 3, 1 / 3, 1 / 3])
    np.testing.assert_allclose(store.load_run(out, aliases="sum").probs()[0, 1], [0.5, 0.25, 0.25])
    np.testing.assert_array_equal(store.load_run(out, aliases="sum").logp, store.load_run(out).logp)


def test_readings_have_every_stored_column(out):
    frame = judge(out).readings()
    assert list(frame.columns) == parts.SCHEMA.names
    assert len(frame) == 12


def test_a_loaded_run_can_be_pickled(out):
    run = judge(out)
    back = pickle.loads(pickle.dumps(run))
    assert back.items == run.items
    assert len(back.readings()) == 12


# --- a finished folder that was tampered with ----------------------------------------------------------------------


def rewrite(folder, change):
    path = folder / "readings" / "all.parquet"
    pq.write_table(change(pq.read_table(path)), path, write_page_checksum=True)


@pytest.mark.parametrize(
    ("change", "words"),
    [(lambda t: t.slice(0, len(t) - 1), "lack readings"), (lambda t: pa.concat_tables([t, t.slice(0, 1)]), "twice")],
    ids=["a row is gone", "a row is there twice"],
)
def test_readings_that_are_not_those_of_the_run_are_refused(out, change, words):
    judge(out)
    rewrite(out, change)
    with pytest.raises(RunFolderError, match=words):
        store.load_run(out)


def test_orderings_that_contradict_themselves_are_refused(out):
    judge(out)
    head = json.loads((out / "run.json").read_text())
    first, second = head["orderings"][:2]
    first["shown"], second["shown"] = second["shown"], first["shown"]
    (out / "run.json").write_text(json.dumps(head))
    with pytest.raises(RunFolderError, match="contradict"):
        store.load_run(out)
