"""Sweeps: what a file says, what fails, what is gone on with; killed runs end with the same bytes."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tiny_models
import yaml

import logitjudge as lj
from logitjudge import cli, store, sweep
from logitjudge.backends import hf
from logitjudge.errors import InputError, RunFolderError

JUDGE = "planted:position=0.8,0,0,0,0.3;quality_sd=1"
TWO = {
    "models": [JUDGE, {"name": "flat", "model": "planted:quality_sd=1"}],
    "data": [{"name": "few", "data": "demo", "limit": 4}, "demo"],
    "designs": ["cyclic", {"name": "both", "orderings": "1,2,3,4,5;5,4,3,2,1"}],
    "defaults": {"rubric": "helpfulness", "seed": 1},
    "exclude": [{"models": "flat", "data": ["demo"]}],
}


def written(tmp_path, value):
    path = tmp_path / "sweep.yaml"
    path.write_text(yaml.safe_dump(value))
    return str(path)


def test_a_file_is_a_product_with_what_is_left_out(tmp_path):
    runs = sweep.planned(written(tmp_path, TWO))
    judge = "planted-position=0.8,0,0,0,0.3-quality_sd=1"
    assert [run.name for run in runs] == [
        f"{judge}--few--cyclic", f"{judge}--few--both", f"{judge}--demo--cyclic", f"{judge}--demo--both",
        "flat--few--cyclic", "flat--few--both",
    ]  # fmt: skip
    assert runs[0].settings == {
        "rubric": "helpfulness", "seed": 1, "model": JUDGE, "data": "demo", "limit": 4, "orderings": "cyclic",
    }  # fmt: skip


def test_later_axes_win(tmp_path):
    value = {
        **TWO,
        "exclude": [],
        "rubrics": ["accuracy"],
        "designs": [{"orderings": "cyclic", "seed": 7, "name": "x"}],
    }
    assert {(run.settings["rubric"], run.settings["seed"]) for run in sweep.planned(written(tmp_path, value))} == {
        ("accuracy", 7)
    }


def test_workers_are_a_number_or_auto(tmp_path):
    for workers in (2, "2", "auto"):
        value = {**TWO, "defaults": {"rubric": "helpfulness", "workers": workers}}
        assert sweep.planned(written(tmp_path, value))[0].settings["workers"] == workers
    with pytest.raises(InputError, match="'workers' is True"):
        sweep.planned(written(tmp_path, {**TWO, "defaults": {"workers": True}}))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"model": []}, "'model'.*Did you mean 'models'"),
        ({"models": []}, "'models' is .* at least one"),
        ({"models": [{"name": "x"}]}, "models 1: 'model' is None"),
        ({"models": [{"model": "a/b", "dtypes": "auto"}]}, "models 1: .*dtypes.*Did you mean 'dtype'"),
        (
            {"models": [{"name": "é" * 130, "model": "a/b"}]},
            r"name of \d+ bytes, .* at most 255. Give its entries a shorter 'name'",
        ),
        ({"models": ["a/b", "c/b"]}, "two models are called 'b'"),
        ({"models": [{"model": "a/b", "out": "x"}]}, "'out'"),
        ({"data": [{"data": "demo", "limit": "4"}]}, "data 1: 'limit' is '4'. Give a whole number"),
        ({"data": [{"data": "demo", "seed": 1.5}]}, "data 1: 'seed' is 1.5"),
        ({"data": [{"data": "demo", "trust_remote_code": "yes"}]}, "'trust_remote_code' is 'yes'"),
        ({"defaults": [1]}, "defaults is .*not a mapping"),
        ({"exclude": [{"models": "flt"}]}, "exclude 1: .*Did you mean 'flat'"),
        ({"exclude": [{"model": "flat"}]}, "exclude 1: .*'model'"),
        ({"exclude": [{"data": ["few", "demo"]}]}, "leaves no run"),
    ],
)
def test_what_a_file_must_not_say(tmp_path, change, text):
    change = {"exclude": [], **change} if "models" in change else change
    with pytest.raises(InputError, match=text):
        sweep.planned(written(tmp_path, {**TWO, **change}))


def test_two_runs_of_one_folder_are_refused(tmp_path):
    value = {
        "models": [{"name": "a", "model": JUDGE}, {"name": "a--b", "model": "planted:"}],
        "data": [{"name": "b--c", "data": "demo"}, {"name": "c", "data": "demo"}],
    }
    with pytest.raises(InputError, match="runs of a, b--c and of a--b, c are both called 'a--b--c'"):
        sweep.planned(written(tmp_path, value))
    value["exclude"] = [{"models": "a", "data": "b--c"}]
    assert len(sweep.planned(written(tmp_path, value))) == 3


def test_files_that_are_none(tmp_path):
    for text in ("- 1", "a: [", ""):
        (tmp_path / "x.yaml").write_text(text)
        with pytest.raises(InputError, match="x.yaml"):
            sweep.planned(tmp_path / "x.yaml")
    with pytest.raises(InputError, match="no-such"):
        sweep.planned(tmp_path / "no-such.yaml")


def test_a_run_that_fails_does_not_stop_the_others_and_is_gone_on_with(tmp_path, capsys):
    value = {
        "models": [JUDGE, {"name": "gone", "model": str(tmp_path / "gone")}],
        "data": [{"data": "demo", "limit": 3}],
    }
    path, out = written(tmp_path, value), tmp_path / "out"
    assert cli.main(["sweep", path, "--out", str(out)]) == 1
    shown = capsys.readouterr()
    assert "failed" in shown.out
    assert "there is no model folder" in shown.out
    assert (out / "report.html").exists()
    done, failed = sweep.status(out)
    assert (done.state, done.read, done.items, failed.state) == ("done", 3, 3, "failed")
    tiny_models.save(tmp_path / "gone")
    assert cli.main(["sweep", path, "--out", str(out)]) == 0
    assert [state.state for state in sweep.status(out)] == ["done", "done"]
    capsys.readouterr()
    assert cli.main(["sweep", "--status", str(out), "--json"]) == 0
    assert [row["reason"] for row in json.loads(capsys.readouterr().out)] == ["", ""]
    assert cli.main(["sweep", "--status", str(tmp_path)]) == 2
    assert cli.main(["sweep"]) == 2
    assert cli.main(["sweep", path]) == 2


def test_each_model_is_loaded_once_and_the_runs_are_those_of_judge(tmp_path, monkeypatch):
    folders = [str(tiny_models.save(tmp_path / name)) for name in ("one", "two")]
    loads = []
    monkeypatch.setattr(hf, "load", lambda spec, load=hf.load: loads.append(spec.name) or load(spec))
    value = {
        "models": folders, "data": [{"data": "demo", "limit": 2}], "designs": ["cyclic", "identity"],
        "defaults": {"rubric": "helpfulness"},
    }  # fmt: skip
    states = sweep.sweep(written(tmp_path, value), tmp_path / "out")
    assert [state.state for state in states] == ["done"] * 4
    assert loads == folders
    alone = lj.judge(folders[1], "demo", limit=2, orderings="identity", rubric="helpfulness")
    assert (lj.load_run(tmp_path / "out" / "two--demo--identity").logp == alone.logp).all()
    sweep.sweep(written(tmp_path, value), tmp_path / "out")
    assert len(loads) == 3  # the sweep's two and judge's: what is done loads nothing


def test_a_status_with_a_damaged_run_tells_of_the_others(tmp_path):
    sweep.sweep(written(tmp_path, TWO), tmp_path / "out")
    first, *others = sweep.status(tmp_path / "out")
    folder = tmp_path / "out" / first.name
    (folder / "refused.jsonl").write_text("{")
    damaged, *rest = sweep.status(tmp_path / "out")
    assert (damaged.state, rest) == ("failed", others)
    assert "refused.jsonl cannot be read" in damaged.reason


def test_a_status_counts_what_was_sampled(tmp_path):
    settings = {
        "orderings": "identity",
        "verdict": "sampled",
        "temperature": 1.0,
        "max_new_tokens": 4,
        "max_batch_tokens": 400,
    }
    value = {
        "models": [str(tiny_models.save(tmp_path / "m"))], "data": [{"data": "demo", "limit": 3}],
        "defaults": {"rubric": "helpfulness", **settings},
    }  # fmt: skip
    path, out = written(tmp_path, value), tmp_path / "out"
    (run,) = sweep.planned(path)
    lj.judge(**run.settings, out=out / run.name, shard="1/2")
    store.write_json(out / "sweep.json", {"runs": [{"name": run.name}]})
    (state,) = sweep.status(out)
    assert (state.state, state.read, state.items) == ("unfinished", 2, 3)


def test_a_dry_run_says_what_is_needed(tmp_path, capsys):
    folder = tiny_models.save(tmp_path / "one")
    value = {
        "models": [str(folder), "planted:"], "data": [{"data": "demo", "limit": 2}, {"name": "no", "data": "no.jsonl"}],
        "defaults": {"rubric": "helpfulness"},
    }  # fmt: skip
    path = written(tmp_path, value)
    made = sweep.costs(path, pace=10.0)
    run = lj.judge(str(folder), "demo", limit=2, rubric="helpfulness")
    assert (made[0].prompts, made[0].unique_tokens) == (20, run.provenance["unique_tokens"])
    assert made[0].seconds == run.provenance["unique_tokens"] / 10
    assert made[0].weights == (folder / "model.safetensors").stat().st_size / 2**30
    assert "no.jsonl" in made[1].reason
    assert (made[2].prompts, made[2].unique_tokens, made[2].weights) == (20, None, None)
    for pace in ("0", "-3", "nan", "inf"):
        assert cli.main(["sweep", path, "--dry-run", "--tokens-per-second", pace]) == 2
        assert "give a number above 0" in capsys.readouterr().err
    assert cli.main(["sweep", path, "--dry-run", "--out", str(tmp_path / "out")]) == 2
    assert "unique tokens" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


def test_a_run_that_is_not_what_the_file_asks_for_now_is_not_done(tmp_path, capsys):
    value = {
        "models": [JUDGE],
        "data": [{"name": "d", "data": "demo", "limit": 3}],
        "defaults": {"rubric": "helpfulness"},
    }
    out, changed = tmp_path / "out", {**value, "data": [{"name": "d", "data": "demo", "limit": 5}]}
    assert cli.main(["sweep", written(tmp_path, value), "--out", str(out)]) == 0
    capsys.readouterr()
    assert cli.main(["sweep", written(tmp_path, changed), "--out", str(out)]) == 1
    shown = capsys.readouterr()
    assert "made with another setting 'items'" in " ".join(shown.out.split())
    assert "a comparison of" not in shown.err
    assert [state.state for state in sweep.status(out)] == ["failed"]
    assert cli.main(["sweep", written(tmp_path, value), "--out", str(out)]) == 0
    assert [state.state for state in sweep.status(out)] == ["done"]


def test_a_folder_is_of_one_sweep_at_a_time(tmp_path):
    path, out = written(tmp_path, TWO), tmp_path / "out"

    def second(progress):
        with pytest.raises(RunFolderError, match="out is being written by another process"):
            sweep.sweep(path, out)

    assert {state.state for state in sweep.sweep(path, out, progress=second)} == {"done"}
    assert not list(out.glob(".lock"))
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match="cannot be written"):
        sweep.sweep(path, tmp_path / "file" / "x")


def files(folder):
    """Bytes of all readings of a sweep."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("all.parquet"))}


def test_a_sweep_that_is_killed_ends_with_the_same_bytes(tmp_path):
    value = {**TWO, "defaults": {"rubric": "helpfulness", "max_batch_tokens": 4000}}
    path, code = written(tmp_path, value), "import sys; from logitjudge import cli; sys.exit(cli.main(sys.argv[1:]))"
    sweep.sweep(path, tmp_path / "whole")
    rng, kills = random.Random(0), 0
    for _ in range(5):
        process = subprocess.Popen([sys.executable, "-c", code, "sweep", path, "--out", str(tmp_path / "killed")],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})  # fmt: skip
        begun = time.monotonic()
        while not (tmp_path / "killed").exists() and time.monotonic() < begun + 60 and process.poll() is None:
            time.sleep(0.005)
        time.sleep(rng.random() * 0.4)
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
    assert kills > 0
    assert {state.state for state in sweep.sweep(path, tmp_path / "killed")} == {"done"}
    assert files(tmp_path / "killed") == files(tmp_path / "whole")


def test_the_example_is_a_sweep_of_six_runs(tmp_path):
    path = Path(__file__).parents[1] / "scripts" / "sweep_example.yaml"
    assert [state.state for state in sweep.sweep(path, tmp_path / "out")] == ["done"] * 6


def test_the_papers_sweep_can_be_planned():
    runs = sweep.planned(Path(__file__).parents[1] / "scripts" / "paper_sweep.yaml")
    assert len(runs) == 5 * 4 * 2
    assert {run.settings["temperature"] for run in runs if run.of["designs"] == "repeat"} == {0.3}
    assert {
        run.settings.get("temperature", 0)
        for run in runs
        if run.name.startswith("qwen3-8b--") and run.of["designs"] == "balanced"
    } == {0}
