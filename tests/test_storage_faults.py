"""What goes wrong with the folder of a run: damaged files, a full disk, two processes, clocks, copies, read-only folders.

The faults are real ones: bytes are cut and flipped, disks are full, processes run at the same time.
"""

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import tiny_models

import logitjudge as lj
from logitjudge import cli, parts, store
from logitjudge.backends.planted import PlantedJudge
from logitjudge.errors import RunFolderError, RunIncomplete

JUDGE = "planted:position=0.8,0,0,0,0.3;quality_sd=1;order_noise=0.5"
OPTIONS = {"rubric": "helpfulness", "limit": 6, "orderings": "cyclic", "max_batch_tokens": 1, "seed": 3}
COMMAND = ["--model", JUDGE, "--data", "demo", "--rubric", "helpfulness", "--limit", "6", "--orderings", "cyclic"]
COMMAND += ["--max-batch-tokens", "1", "--seed", "3"]


def read(out, **more):
    return lj.judge(JUDGE, "demo", out=out, **{**OPTIONS, **more})


def whole(folder):
    return (folder / "readings" / "all.parquet").read_bytes()


def head_of(folder):
    return json.loads((folder / "run.json").read_text())


def command(*words):
    return [sys.executable, "-m", "logitjudge", *map(str, words)]


def run(*words, **more):
    """Run a command to its end: (exit code, stdout, stderr)."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    made = subprocess.run(command(*words), capture_output=True, text=True, check=False, env=env, timeout=300, **more)
    return made.returncode, made.stdout, made.stderr


@contextmanager
def stopped_after(batches, owner=PlantedJudge):
    """Within it a judge is interrupted once it has read so many batches."""
    before, calls = owner.read, []

    def reads(self, queries, budget):
        if len(calls) == batches:
            raise KeyboardInterrupt
        calls.append(queries)
        return before(self, queries, budget)

    owner.read = reads
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        owner.read = before


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    read(folder)
    return folder


@pytest.fixture
def unfinished(tmp_path):
    """Four of six batches are read."""
    with stopped_after(4):
        read(tmp_path / "run")
    return tmp_path / "run"


# --- damaged files -------------------------------------------------------------------------------------------------


def cut(path):
    path.write_bytes(path.read_bytes()[:-200])


def emptied(path):
    path.write_bytes(b"")


def garbled(path):
    path.write_bytes(b"not parquet at all" * 20)


def flipped(path):
    """A bit of a stored number."""
    data = bytearray(path.read_bytes())
    number = np.float64(pq.read_table(path)["logp"][0][0].as_py()).tobytes()
    data[data.index(number) + 3] ^= 4
    path.write_bytes(data)


def shortened(path):
    """A whole file, which lacks a row."""
    table = pq.read_table(path)
    pq.write_table(table.slice(1), path)


def another(path):
    """The part of another batch."""
    shutil.copyfile(path.with_name("part-000003.parquet"), path)


@pytest.mark.parametrize("damage", [cut, emptied, garbled, flipped, shortened, another])
def test_a_damaged_part_is_named_set_aside_and_read_anew(unfinished, undisturbed, damage):
    path = unfinished / "readings" / "part-000001.parquet"
    damage(path)
    broken = path.read_bytes()
    messages = []
    read(unfinished, progress=lambda progress: messages.append(progress.message))
    assert whole(unfinished) == whole(undisturbed)
    aside = unfinished / "damaged" / "readings-part-000001.parquet"
    assert aside.read_bytes() == broken
    assert [m for m in messages if f"{path} is damaged" in m and f"set aside as {aside}" in m]
    (row,) = head_of(unfinished)["sessions"][-1]["set_aside"]
    assert (row["file"], row["to"]) == ("readings/part-000001.parquet", "damaged/readings-part-000001.parquet")
    assert row["reason"]


def test_only_the_damaged_parts_are_read_anew(unfinished, monkeypatch):
    cut(unfinished / "readings" / "part-000001.parquet")
    emptied(unfinished / "readings" / "part-000002.parquet")
    before, seen = PlantedJudge.read, []
    monkeypatch.setattr(PlantedJudge, "read", lambda s, q, b: seen.append(q[0].item.id) or before(s, q, b))
    ids = [item.id for item in read(unfinished).items]
    assert seen == [ids[n] for n in (1, 2, 4, 5)]


def test_a_part_that_is_damaged_twice_keeps_both(unfinished):
    for n in (1, 2):
        (unfinished / "readings" / "part-000001.parquet").write_bytes(b"x" * n)
        with stopped_after(1):
            read(unfinished)
    (unfinished / "readings" / "part-000004.parquet").write_bytes(b"")
    read(unfinished)
    names = {path.name: path.read_bytes() for path in (unfinished / "damaged").iterdir()}
    assert names == {
        "readings-part-000001.parquet": b"x",
        "readings-part-000001.parquet.2": b"xx",
        "readings-part-000004.parquet": b"",
    }


def test_a_joined_file_that_was_damaged_before_the_run_was_closed_is_made_again(unfinished, undisturbed):
    (unfinished / "readings" / "all.parquet").write_bytes(whole(undisturbed)[:-100])
    read(unfinished)
    assert whole(unfinished) == whole(undisturbed)
    assert (unfinished / "damaged" / "readings-all.parquet").exists()


def test_a_part_that_fits_is_left_alone(unfinished):
    read(unfinished)
    assert "set_aside" not in head_of(unfinished)["sessions"][-1]
    assert not (unfinished / "damaged").exists()


def test_a_copy_under_another_name_is_no_part(unfinished, undisturbed):
    shutil.copyfile(unfinished / "readings/part-000001.parquet", unfinished / "readings/part-000001 (copy).parquet")
    assert len(read(unfinished).items) == 6
    assert whole(unfinished) == whole(undisturbed)


@pytest.mark.parametrize("words", [["show", "--partial"], ["report", "--partial"], ["compare"]])
def test_readers_change_nothing_and_say_what_to_run(unfinished, capsys, words):
    cut(unfinished / "readings" / "part-000001.parquet")
    before = {path: path.read_bytes() for path in unfinished.rglob("*") if path.is_file()}
    if words[0] == "compare":
        with pytest.raises(RunFolderError, match=r"part-000001.parquet is damaged: .* Run the same command again"):
            lj.load_run(unfinished, partial=True)
    else:
        assert cli.main([words[0], str(unfinished), *words[1:]]) == 2
        assert "part-000001.parquet is damaged" in (said := capsys.readouterr().err)
        assert "Run the same command again: it sets the file aside" in said
    assert {path: path.read_bytes() for path in unfinished.rglob("*") if path.is_file()} == before


def test_a_finished_run_that_is_damaged_is_refused_with_what_to_do(undisturbed, tmp_path):
    folder = shutil.copytree(undisturbed, tmp_path / "run")
    flipped(folder / "readings" / "all.parquet")
    for _ in range(2):
        with pytest.raises(RunFolderError, match=r"all.parquet is damaged: .* Move it away and run the same command"):
            read(folder)
    (folder / "readings" / "all.parquet").rename(tmp_path / "away")
    read(folder)
    assert whole(folder) == whole(undisturbed)


@pytest.mark.parametrize("name", ["items.jsonl", "refused.jsonl"])
@pytest.mark.parametrize("damage", [cut, garbled, "gone", "changed"])
def test_a_damaged_list_of_an_unfinished_run_is_written_anew(tmp_path, name, damage):
    rows = [{"id": f"i{n}", "instruction": "x", "response": "y" * 9, "reference": "z" * 300} for n in range(5)]
    rows[2].pop("reference")
    rows[3].pop("reference")
    (tmp_path / "t.j2").write_text("{{ response }} {{ reference }}\n{{ levels }}")
    data = pd.DataFrame(rows)
    given = {"rubric": "helpfulness", "template": tmp_path / "t.j2", "max_batch_tokens": 1, "orderings": "cyclic"}
    lj.judge(JUDGE, data, out=tmp_path / "whole", **given)
    with stopped_after(2):
        lj.judge(JUDGE, data, out=tmp_path / "run", **given)
    path = tmp_path / "run" / name
    if damage == "gone":
        path.unlink()
    elif damage == "changed":
        path.write_text(path.read_text().replace('"i3"', '"j3"'))
    else:
        damage(path)
    run = lj.judge(JUDGE, data, out=tmp_path / "run", **given)
    assert [row["id"] for row in run.refused] == ["i2", "i3"]
    assert whole(tmp_path / "run") == whole(tmp_path / "whole")
    assert path.read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert [row["file"] for row in head_of(tmp_path / "run")["sessions"][-1]["set_aside"]] == [name]


SHORT = """---
verdicts: {feedback: {marker: "[RESULT]"}}
---
{{ response }}
{{ levels }}"""


def texts_of(folder):
    return {path.name: path.read_bytes() for path in (folder / "traces").iterdir()}


def test_damaged_texts_are_written_and_read_anew(tmp_path):
    from logitjudge.backends.hf import HFJudge

    model = str(tiny_models.save(tmp_path / "m"))
    (tmp_path / "t.j2").write_text(SHORT)
    items = tiny_models.items(4)
    given = {
        "template": tmp_path / "t.j2",
        "orderings": "1,2,3,4,5;5,4,3,2,1",
        "max_batch_tokens": 1,
        "verdict": "feedback",
        "unended": "close",
        "max_new_tokens": 6,
    }
    lj.judge(model, items, out=tmp_path / "whole", **given)
    with stopped_after(3, HFJudge):
        lj.judge(model, items, out=tmp_path / "run", **given)
    assert len(texts_of(tmp_path / "run")) == 4  # those of the batch that was not read any more, too
    cut(tmp_path / "run" / "traces" / "part-000001.parquet")
    cut(tmp_path / "run" / "traces" / "part-000003.parquet")
    with pytest.raises(RunFolderError, match=r"traces/part-000001.parquet is damaged: .* Run the same command again"):
        lj.load_run(tmp_path / "run", partial=True).traces()
    lj.judge(model, items, out=tmp_path / "run", **given)
    assert whole(tmp_path / "run") == whole(tmp_path / "whole")
    assert texts_of(tmp_path / "run") == texts_of(tmp_path / "whole")
    aside = sorted(path.name for path in (tmp_path / "run" / "damaged").iterdir())
    assert aside == [
        "readings-part-000001.parquet",
        "traces-part-000001.parquet",
        "traces-part-000003.parquet",
    ]
    reasons = {row["file"]: row["reason"] for row in head_of(tmp_path / "run")["sessions"][-1]["set_aside"]}
    assert "texts that it was read behind are damaged" in reasons["readings/part-000001.parquet"]


def test_overwrite_takes_what_was_set_aside_along(unfinished):
    cut(unfinished / "readings" / "part-000001.parquet")
    read(unfinished)
    read(unfinished, overwrite=True)
    assert not (unfinished / "damaged").exists()


# --- full disk -----------------------------------------------------------------------------------------------------


@contextmanager
def small_disk(folder, size):
    """A folder that takes so many bytes: a file system of its own, or None where none may be made here."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def limit_files(size):
    """Let no file of a process grow beyond a size: what a full disk does, where none can be made."""
    import resource

    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.parametrize("room", [4096, 28_672, 53_248])  # nothing fits; some parts; all but the joined file
def test_a_full_disk_is_a_message_and_the_run_goes_on_when_there_is_room(tmp_path, undisturbed, monkeypatch, room):
    with small_disk(tmp_path / "disk", 10**6) as disk:
        out = (disk or tmp_path) / "run"
        if disk is None:
            code, _, said = run("run", *COMMAND, "--out", out, preexec_fn=limit_files(room // 10))
        else:
            filler = disk / "filler"
            filler.write_bytes(b"x" * (10**6 // 4096 * 4096 - room))
            code, _, said = run("run", *COMMAND, "--out", out)
            filler.unlink()
        assert code == 2, said
        assert re.search(rf"error: {re.escape(str(out))}.* cannot be written: ", said), said
        assert "Traceback" not in said
        if disk is not None:
            assert "No space left on device" in said
            assert "free" in said
        there = parts.numbered(out, "readings")
        assert not list(out.rglob("*.writing"))
        if out.exists() and there:
            assert len(lj.load_run(out, partial=True).items) == len(there)
        before, seen = PlantedJudge.read, []
        monkeypatch.setattr(PlantedJudge, "read", lambda s, q, b: seen.append(q) or before(s, q, b))
        read(out)
        assert len(seen) == 6 - len(there)
        assert whole(out) == whole(undisturbed)


# --- processes, clocks, places -------------------------------------------------------------------------------------


def test_two_processes_on_one_folder_make_one_run(tmp_path, undisturbed):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = command("run", *COMMAND, "--out", tmp_path / "run")
    both = [
        subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=env) for _ in range(3)
    ]
    said = [process.communicate(timeout=120)[1] for process in both]
    codes = [process.returncode for process in both]
    assert 0 in codes
    for code, text in zip(codes, said, strict=True):
        assert code == 0 or (code == 2 and "is being written by another process" in text), text
    assert whole(tmp_path / "run") == whole(undisturbed)


def test_a_clock_that_went_back_changes_nothing(unfinished, undisturbed):
    head = head_of(unfinished)
    head["started"] = head["sessions"][0]["started"] = "2099-01-01T00:00:00+00:00"
    (unfinished / "run.json").write_text(json.dumps(head))
    stamps = np.random.default_rng(0).integers(0, 4_000_000_000, 100)  # 1970 to 2096
    for path, stamp in zip(sorted(unfinished.rglob("*")), stamps, strict=False):
        os.utime(path, (int(stamp), int(stamp)))
    made = read(unfinished)
    assert whole(unfinished) == whole(undisturbed)
    assert made.provenance["started"] == "2099-01-01T00:00:00+00:00" > made.provenance["finished"]
    for words in (["show"], ["report", "--out", str(unfinished.parent / "r.html")]):
        assert cli.main([words[0], str(unfinished), *words[1:]]) == 0


def test_a_folder_that_was_moved_goes_on_and_is_read_elsewhere(tmp_path):
    from logitjudge.backends.hf import HFJudge

    def judged(place, **more):
        given = {**OPTIONS, "limit": 3, "orderings": "1,2,3,4,5;5,4,3,2,1", "template": place / "t.j2", **more}
        return lj.judge(str(place / "model"), str(place / "items.jsonl"), out=place / "run", **given)

    here, there = tmp_path / "here", tmp_path / "über all" / "there"
    tiny_models.save(here / "model")
    (here / "t.j2").write_text(SHORT)
    rows = [{"id": f"i{n}", "instruction": "Say it.", "response": "so" * (n + 1)} for n in range(3)]
    pd.DataFrame(rows).to_json(here / "items.jsonl", orient="records", lines=True)
    with stopped_after(1, HFJudge):
        judged(here)
    shutil.copytree(here, there)
    shutil.rmtree(here)
    moved = judged(there)
    assert (there / "run" / "readings" / "all.parquet").exists()
    shutil.move(there, here)
    again = lj.load_run(here / "run")
    np.testing.assert_array_equal(again.logp, moved.logp)
    assert len(again.readings()) == 6
    whole_again = judged(here, overwrite=True)
    np.testing.assert_array_equal(whole_again.logp, moved.logp)
    assert not [p for p in (here / "run").rglob("*") if p.is_file() and b"logitjudge-starting" in p.read_bytes()]


# --- versions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "words"),
    [(0, "read it with that version"), (2, "is newer: install that version"), ("1", "read it with that version")],
)
def test_a_folder_of_another_version_is_refused_with_what_to_do(undisturbed, tmp_path, version, words):
    folder = shutil.copytree(undisturbed, tmp_path / "run")
    head = head_of(folder) | {"schema_version": version}
    (folder / "run.json").write_text(json.dumps(head))
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for reader in (store.load_run, read):
        with pytest.raises(RunFolderError, match=f"schema version {version!r}; .* reads version 1.*{words}"):
            reader(folder)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_readings_of_before_a_column_was_there_are_read(undisturbed, tmp_path):
    folder = shutil.copytree(undisturbed, tmp_path / "run")
    path = folder / "readings" / "all.parquet"
    table = pq.read_table(path).drop_columns(["labels", "exact", "criterion", "trace_id", "sample"])
    pq.write_table(table, path)
    np.testing.assert_array_equal(lj.load_run(folder).logp, lj.load_run(undisturbed).logp)


# --- read-only folders ---------------------------------------------------------------------------------------------


def without_privilege():
    """Root may write everywhere, unless it gives up that capability (CAP_DAC_OVERRIDE) for its children."""
    ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)


@pytest.fixture
def read_only(undisturbed, tmp_path):
    """A finished folder, with a part that a kill has left, which nobody may write to."""
    folder = shutil.copytree(undisturbed, tmp_path / "run")
    shutil.copyfile(folder / "readings" / "all.parquet", folder / "readings" / "part-000000.parquet")
    places = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    for path in folder.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    folder.chmod(0o555)
    yield folder
    for place in places:
        place.chmod(0o755)


LOAD = """
import sys
import logitjudge as lj
try:
    open(sys.argv[1] + "/new", "w")
except OSError:
    print(lj.load_run(sys.argv[1]).logp.shape, len(lj.load_run(sys.argv[1]).readings()))
"""


def test_a_read_only_folder_can_be_analysed(read_only, tmp_path):
    before = {path: path.read_bytes() for path in read_only.rglob("*") if path.is_file()}
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    load = [sys.executable, "-c", LOAD, str(read_only)]
    made = subprocess.run(load, capture_output=True, text=True, check=True, env=env, preexec_fn=without_privilege)
    assert made.stdout == "(6, 5, 5) 30\n"
    for words in (
        ["show", read_only],
        ["compare", read_only, read_only],
        ["report", read_only, "--out", tmp_path / "report.html"],
        ["run", *COMMAND, "--out", read_only],  # it is finished
    ):
        code, _, said = run(*words, preexec_fn=without_privilege)
        assert code == 0, said
    assert (tmp_path / "report.html").exists()
    code, _, said = run("run", *COMMAND, "--out", read_only, "--overwrite", preexec_fn=without_privilege)
    assert (code, "Traceback" in said) == (2, False)
    assert "cannot be written: Permission denied" in said
    assert {path: path.read_bytes() for path in read_only.rglob("*") if path.is_file()} == before


def test_a_read_only_folder_that_is_unfinished_says_so(unfinished):
    for path in [unfinished, unfinished / "readings"]:
        path.chmod(0o555)
    code, _, said = run("run", *COMMAND, "--out", unfinished, preexec_fn=without_privilege)
    for path in [unfinished, unfinished / "readings"]:
        path.chmod(0o755)
    assert (code, "Traceback" in said) == (2, False)
    assert "cannot be written: Permission denied" in said
    with pytest.raises(RunIncomplete):
        lj.load_run(unfinished)
