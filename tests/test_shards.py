"""Shards of a run: put together they are the run; a folder is written by one process at a time."""

import json
import os
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest
import tiny_models

import logitjudge as lj
from logitjudge import cli, running, shards, store
from logitjudge.backends.planted import PlantedJudge
from logitjudge.core import Readings
from logitjudge.errors import AllRefused, InputError, RunFolderError, RunIncomplete
from logitjudge.study import study

OPTIONS = {"rubric": "helpfulness", "limit": 7, "orderings": "cyclic", "max_batch_tokens": 9000, "seed": 3}
JUDGE = "planted:position=0.8,0,0,0,0.3;quality_sd=1;order_noise=0.5"


def read(out, part=None, model=JUDGE, **more):
    return lj.judge(model, "demo", out=out, shard=part, **{**OPTIONS, **more})


def whole(folder):
    return (folder / "readings" / "all.parquet").read_bytes()


@pytest.mark.parametrize("model", ["planted", "tiny"])
def test_shards_put_together_are_the_run(tmp_path, model):
    given = {"model": JUDGE if model == "planted" else str(tiny_models.save(tmp_path / "m")), "max_batch_tokens": None}
    given |= {"max_batch_tokens": 9000 if model == "planted" else 1500}
    alone = read(tmp_path / "alone", **given)
    assert len(alone.provenance["batches"]) >= 3
    for n in (1, 2, 3):
        read(tmp_path / f"s{n}", f"{n}/3", **given)
    made = shards.merge(tmp_path / "all", [tmp_path / f"s{n}" for n in (3, 1, 2)])
    assert len(made["sessions"]) == 3
    with pytest.raises(RunIncomplete, match="all is read, but it was not closed"):
        store.load_run(tmp_path / "all")
    closed = read(tmp_path / "all", **given)
    assert whole(tmp_path / "all") == whole(tmp_path / "alone")
    assert closed.provenance["noise_floor"] == alone.provenance["noise_floor"]
    assert (closed.logp == alone.logp).all()


def test_texts_go_along(tmp_path):
    model = str(tiny_models.save(tmp_path / "m"))
    given = {"verdict": "sampled", "temperature": 1.0, "max_new_tokens": 4, "max_batch_tokens": 1500}
    read(tmp_path / "alone", model=model, **given)
    for n in (1, 2):
        read(tmp_path / f"s{n}", f"{n}/2", model=model, **given)
    shards.merge(tmp_path / "all", [tmp_path / "s1", tmp_path / "s2"])
    read(tmp_path / "all", model=model, **given)
    texts = [
        sorted((p.name, p.read_bytes()) for p in (tmp_path / name / "traces").iterdir()) for name in ("all", "alone")
    ]
    assert texts[0] == texts[1]


def test_a_shard_goes_on_and_reads_its_own_batches_alone(tmp_path):
    first = read(tmp_path / "s", "2/3")
    batches = first.provenance["batches"]
    assert len(first.items) == sum(batches[1::3])
    stored = {path: path.stat().st_mtime_ns for path in (tmp_path / "s" / "readings").iterdir()}
    read(tmp_path / "s", "2/3")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "s" / "readings").iterdir()} == stored
    assert len(read(tmp_path / "s").items) == 7  # without a shard the run is finished there


def test_items_that_a_shard_could_not_read_are_refused_in_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(PlantedJudge, "read", nothing_of(1, 4))
    alone = read(tmp_path / "alone")
    assert len(alone.refused) == 2
    for n in (1, 3):
        read(tmp_path / f"s{n}", f"{n}/3")
    with pytest.raises(AllRefused, match="shard 2/3 .* none of its items could be judged"):
        read(tmp_path / "s2", "2/3")
    shards.merge(tmp_path / "all", [tmp_path / f"s{n}" for n in (1, 2, 3)])
    made = read(tmp_path / "all")
    assert sorted(row["id"] for row in made.refused) == sorted(row["id"] for row in alone.refused)
    assert whole(tmp_path / "all") == whole(tmp_path / "alone")


def nothing_of(*places):
    """A planted judge's `read` that gives no numbers for some items."""
    read = PlantedJudge.read
    names = [item.id for item in study("demo", rubric="helpfulness", limit=7, seed=3).itemset.items]
    bad = {names[place] for place in places}

    def reads(self, queries, budget):
        readings = read(self, queries, budget)
        logp = np.array(readings.logp)
        logp[[query.item.id in bad for query in queries]] = np.nan
        return Readings(logp, readings.alias_mass, readings.top_tokens)

    return reads


def test_shards_that_print_another_date_are_of_another_run(tmp_path, monkeypatch):
    dated = tmp_path / "dated.jinja"
    dated.write_text("{{ strftime_now('%d %b %Y') }}" + tiny_models.CHAT)
    given = {"model": str(tiny_models.save(tmp_path / "m")), "chat_template": dated, "max_batch_tokens": 1500}
    for n, day in ((1, "2026-07-01"), (2, "2026-07-02"), (3, "2026-07-01")):
        monkeypatch.setattr(running, "now", lambda day=day: f"{day}T12:00:00+00:00")
        read(tmp_path / f"s{n}", f"{min(n, 2)}/2", **given)
    with pytest.raises(RunFolderError, match=r"prompt differ\. The chat template prints the date"):
        shards.merge(tmp_path / "out", [tmp_path / "s1", tmp_path / "s2"])
    shards.merge(tmp_path / "out", [tmp_path / "s1", tmp_path / "s3"])


def test_what_cannot_be_merged(tmp_path):
    read(tmp_path / "a", "1/2")
    with pytest.raises(RunFolderError, match=r"batches are in no shard: 1.*missing or unfinished"):
        shards.merge(tmp_path / "out", [tmp_path / "a"])
    assert not (tmp_path / "out").exists()
    read(tmp_path / "other", "2/2", seed=4)
    with pytest.raises(RunFolderError, match="other is of another run than .*identity"):
        shards.merge(tmp_path / "out", [tmp_path / "a", tmp_path / "other"])
    read(tmp_path / "plan", "2/2", max_batch_tokens=20_000)
    with pytest.raises(RunFolderError, match="batches, budget differ. Give all shards one --max-batch-tokens"):
        shards.merge(tmp_path / "out", [tmp_path / "a", tmp_path / "plan"])
    read(tmp_path / "done")
    with pytest.raises(RunFolderError, match="is a finished run, not a shard"):
        shards.merge(tmp_path / "out", [tmp_path / "done"])
    with pytest.raises(RunFolderError, match="holds no shard"):
        shards.merge(tmp_path / "out", [tmp_path / "nothing"])
    read(tmp_path / "b", "2/2")
    with pytest.raises(RunFolderError, match="Merge into another folder"):
        shards.merge(tmp_path / "done", [tmp_path / "a", tmp_path / "b"])


def test_a_folder_is_not_merged_into_itself_nor_twice(tmp_path):
    for n in (1, 2):
        read(tmp_path / f"s{n}", f"{n}/2")
    stored = sorted(path.name for path in (tmp_path / "s1" / "readings").iterdir())
    (tmp_path / "link").symlink_to(tmp_path / "s1")
    for out, shard in (("s1", "s1"), ("link", "s1"), ("out", "s2")):
        with pytest.raises(InputError, match="is given twice"):
            shards.merge(tmp_path / out, [tmp_path / shard, tmp_path / "s2"])
    assert sorted(path.name for path in (tmp_path / "s1" / "readings").iterdir()) == stored
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "-1/2", "1/0"])
def test_what_is_no_shard(text):
    with pytest.raises(InputError, match="not one of n"):
        shards.parse(text)


def test_more_shards_than_batches_are_refused(tmp_path):
    with pytest.raises(InputError, match="the run has .* batches. Make at most as many shards"):
        read(tmp_path / "a", "1/500")
    assert not (tmp_path / "a" / "run.json").exists()


def test_the_commands(tmp_path, capsys):
    args = [
        "run",
        "--model",
        JUDGE,
        "--data",
        "demo",
        "--rubric",
        "helpfulness",
        "--limit",
        "4",
        "--max-batch-tokens",
        "9000",
    ]
    for n in "12":
        assert cli.main([*args, "--out", str(tmp_path / n), "--shard", f"{n}/2"]) == 0
    assert "shard 2/2" in capsys.readouterr().out
    assert cli.main(["merge", str(tmp_path / "all"), str(tmp_path / "1"), str(tmp_path / "2")]) == 0
    assert "without --shard" in capsys.readouterr().out
    assert cli.main([*args, "--out", str(tmp_path / "all")]) == 0
    assert cli.main(["show", str(tmp_path / "all")]) == 0


HOLD = """
from pathlib import Path
from logitjudge import store
with store.locked(Path({!r})):
    print("held", flush=True)
    input()
"""


def test_a_folder_is_written_by_one_process_at_a_time(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD.format(str(tmp_path / "r"))],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as holder:  # fmt: skip
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(RunFolderError, match="is being written by another process"):
            read(tmp_path / "r")
        holder.kill()  # a process that dies lets go
    assert len(read(tmp_path / "r").items) == 7


def test_a_finished_run_needs_no_lock(tmp_path):
    read(tmp_path / "r")
    with store.locked(tmp_path / "r"):
        made = []
        thread = threading.Thread(target=lambda: made.append(read(tmp_path / "r")))
        thread.start()
        thread.join()
    assert len(made) == 1


def test_a_copied_folder_is_the_run(tmp_path):
    read(tmp_path / "r", "1/2")
    shutil.copytree(tmp_path / "r", tmp_path / "far")
    shutil.rmtree(tmp_path / "r")
    assert len(read(tmp_path / "far").items) == 7
    assert json.loads((tmp_path / "far" / "run.json").read_text())["finished"]
