"""The command line: what it prints where, its exit codes, and its messages."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import logitjudge as lj
from logitjudge import cli, judging
from logitjudge.cli import _progress, demo
from logitjudge.progress import Progress
from logitjudge.rubrics import load as load_rubric

PLANTED = "planted:position=0.8,0,0,0,0.3;interaction=3:0.5;seed=1"
NEVER_3 = "planted:label=0,0,-30,0,0;position=0.8,0,0,0,0.3"
TEXT = "an answer that nobody else gives"


@pytest.fixture
def call(capsys):
    """Run a command in this process: exit code, stdout, stderr."""

    def run(*args):
        capsys.readouterr()
        code = cli.main([str(arg) for arg in args])
        out, err = capsys.readouterr()
        return SimpleNamespace(code=code, out=out, err=err)

    return run


def rows(count=6, **fields):
    return [
        {
            "id": f"i{n}",
            "instruction": f"Question {n}?",
            "response": f"{TEXT}, number {n}",
            "rubric": "helpfulness",
            "human": 1 + n % 5,
            "cluster": f"c{n // 2}",
            "task": "odd" if n % 2 else "even",
            **fields,
        }
        for n in range(count)
    ]


def write_rows(path, made):
    path.write_text("".join(json.dumps(row) + "\n" for row in made), encoding="utf-8")
    return path


@pytest.fixture
def items(tmp_path):
    return write_rows(tmp_path / "items.jsonl", rows())


@pytest.fixture
def run_folder(tmp_path, items, call):
    """Make a run of the planted judge: (model, options) -> folder."""

    def make(model=PLANTED, *options, data=items):
        folder = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
        done = call("run", "--model", model, "--data", data, "--out", folder, *options)
        assert done.code == 0, done.err
        return folder

    return make


def strict(text):
    """JSON without NaN and Infinity."""
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in the JSON"))


def summary_of(call, folder, *options):
    done = call("show", folder, "--json", *options)
    assert done.code == 0, done.err
    return strict(done.out)


# --- the whole ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name.rstrip("_") for name in cli.commands()])
def test_every_command_has_help_with_examples(call, name):
    done = call(name, "-h")
    assert done.code == 0
    assert "Examples:\n    logitjudge " in done.out
    assert done.out == call(name, "--help").out
    assert max(map(len, done.out.partition("Examples:")[0].splitlines())) <= 80


def test_help_lists_every_command_in_full(call):
    done = call("--help")
    shown = done.out.partition("Commands:")[2]
    assert done.code == 0
    assert [line.split()[0] for line in shown.splitlines() if line.strip()][:4] == ["demo", "run", "pairwise", "show"]
    assert {"select", "prompts", "list", "export"} <= set(shown.split())
    assert "..." not in shown
    assert call().out == done.out


def test_version(call):
    assert call("--version").out == f"logitjudge {lj.__version__}\n"


@pytest.mark.parametrize(
    ("args", "parts"),
    [
        (["shwo"], ["shwo", "'show'"]),
        (["show"], ["DIR", "logitjudge show --help"]),
        (["show", "x", "--jsn"], ["--jsn"]),
        (["run", "--data", "demo", "--out", "x"], ["--model"]),
        (["select", "x", "--top", "0"], ["--top"]),
        (["list", "dataset"], ["'datasets'"]),
        (["list"], ["WHAT"]),
    ],
)
def test_a_wrong_command_line_is_one_message(call, args, parts):
    done = call(*args)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1
    assert all(part in done.err for part in parts)


def test_an_internal_failure_shows_its_traceback(call, monkeypatch, items, tmp_path):
    def broken(*args, **kwargs):
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr(judging, "judge", broken)
    done = call("run", "--model", PLANTED, "--data", items, "--out", tmp_path / "out")
    assert done.code == 1
    assert "Traceback" in done.err
    assert "RuntimeError: a bug of ours" in done.err


def test_ctrl_c_of_any_command_is_130(call, monkeypatch):
    from logitjudge import store

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "load_run", interrupted)
    done = call("show", "anything")
    assert (done.code, done.out) == (130, "")
    assert "Traceback" not in done.err


def test_a_warning_is_one_line(call, monkeypatch, items, tmp_path):
    judge = judging.judge

    def warning(*args, **kwargs):
        warnings.warn("this is\nunusual.", stacklevel=1)
        return judge(*args, **kwargs)

    monkeypatch.setattr(judging, "judge", warning)
    warning.__globals__["__name__"] = "logitjudge.test"
    try:
        done = call("run", "--model", PLANTED, "--data", items, "--out", tmp_path / "out")
    finally:
        warning.__globals__["__name__"] = __name__
    assert done.code == 0
    assert "warning: this is unusual.\n" in done.err
    assert ".py" not in done.err


# --- run ------------------------------------------------------------------------------------------------------------


def process(*args, **options):
    command = [sys.executable, "-W", "error", "-m", "logitjudge", *map(str, args)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def test_results_go_to_stdout_progress_to_stderr(items, tmp_path):
    out = tmp_path / "out"
    made = process("run", "--model", PLANTED, "--data", items, "--out", out)
    stdout, stderr = made.communicate(timeout=120)
    assert made.returncode == 0, stderr
    assert stdout.splitlines()[0] == f"{out}: 6 items x 10 orderings = 60 readings"
    assert stdout.splitlines()[-1] == f"next: logitjudge show {out}"
    assert "reading 6 items, 60 prompts" in stderr
    assert "read 6 items in " in stderr
    assert "\x1b" not in stdout + stderr


def test_the_same_command_reads_nothing_again(call, items, tmp_path):
    args = ("run", "--model", PLANTED, "--data", items, "--out", tmp_path / "out")
    first = call(*args)
    table = tmp_path / "out" / "readings" / "all.parquet"
    before = table.stat().st_mtime_ns
    second = call(*args)
    assert (second.code, second.out) == (0, first.out)
    assert "is finished: all 60 readings are there" in second.err
    assert table.stat().st_mtime_ns == before


def test_every_option_reaches_judge(call, monkeypatch, items, tmp_path):
    from planted_runs import run_of

    seen = {}

    def judge(model, data, **options):
        seen.update(options, model=model, data=data)
        return run_of([[[0.1, 0.2]]], "identity")

    monkeypatch.setattr(judging, "judge", judge)
    given = {
        "model": "m/x", "data": "d", "out": "o", "orderings": "full", "rubric": "r", "backend": "hf", "template": "t", "verdict": "v",
        "dtype": "float32", "device": "cpu", "revision": "main", "limit": 3, "seed": 4, "max_batch_tokens": 5, "chat_template": "c",
        "adapter": "a", "max_new_tokens": 6, "unended": "close", "base_url": "u", "served_model": "s", "timeout": 7.0,
        "concurrency": 8, "trace": "shared", "samples": 2, "temperature": 0.5, "shard": "1/2", "engine": "ray",
        "workers": "auto", "ray_address": "h:1",
    }  # fmt: skip
    args = [part for name, value in given.items() for part in (f"--{name.replace('_', '-')}", value)]
    done = call("run", *args, "--model-kwargs", '{"a": [1]}', "--trust-remote-code", "--overwrite", "--verbose")
    assert done.code == 0, done.err
    del seen["progress"]
    assert seen == {**given, "model_kwargs": {"a": [1]}, "trust_remote_code": True, "overwrite": True}


def test_refused_items_are_listed_and_give_exit_code_3(call, tmp_path):
    made = rows(30)
    for row in made[25:]:
        row["source"] = "a text"
    template = tmp_path / "own.j2"
    template.write_text("{{ source }} {{ levels }}")
    data = write_rows(tmp_path / "items.jsonl", made)
    done = call("run", "--model", PLANTED, "--data", data, "--template", template, "--out", tmp_path / "out")
    assert done.code == 3
    assert "25 items refused" in done.err
    assert "  i0: the template prints the field 'source'" in done.err
    assert "  i19: " in done.err
    assert "  i20: " not in done.err
    assert "and 5 more" in done.err
    assert "5 items x 10 orderings = 50 readings, 25 items refused" in done.out
    shown = summary_of(call, tmp_path / "out")
    assert (shown["items"], shown["refused"]) == (5, 25)
    assert shown["refused_items"][3]["id"] == "i3"
    refused = call("prompts", tmp_path / "out", "--item", "i3", "--ordering", "1,2,3,4,5")
    assert refused.code == 2
    assert "refused" in refused.err


@pytest.mark.skipif(os.name == "nt", reason="signals are POSIX")
def test_ctrl_c_keeps_what_was_read(tmp_path):
    data = write_rows(tmp_path / "items.jsonl", rows(12))
    out = tmp_path / "out"
    args = (
        "run",
        "--model",
        PLANTED,
        "--data",
        data,
        "--orderings",
        "full",
        "--out",
        out,
        "--max-batch-tokens",
        "5000",
    )
    made = process(*args, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    wait_for(lambda: list(out.glob("readings/part-*.parquet")), made)
    made.send_signal(signal.SIGINT)
    stdout, stderr = made.communicate(timeout=120)
    assert (made.returncode, stdout) == (130, "")
    assert f"interrupted: what was read is kept in {out}" in stderr
    assert "Traceback" not in stderr
    again = process(*args)
    stdout, stderr = again.communicate(timeout=300)
    assert again.returncode == 0, stderr
    assert "had been read before" in stderr
    assert "12 items x 120 orderings = 1,440 readings" in stdout


def wait_for(ready, made):
    end = time.monotonic() + 120
    while not ready():
        assert made.poll() is None, made.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.002)


@pytest.mark.skipif(os.name == "nt", reason="resource limits are POSIX")
def test_a_full_disk_is_a_message_and_the_run_goes_on(tmp_path):
    import resource

    made = [{key: value for key, value in row.items() if key != "rubric"} for row in rows(60)]
    data = write_rows(tmp_path / "items.jsonl", made)
    out = tmp_path / "out"
    args = (
        "run",
        "--model",
        f"{PLANTED};order_noise=1",
        "--data",
        data,
        "--out",
        out,
        "--max-batch-tokens",
        "30000",
        "--rubric",
        "helpfulness",
    )
    limit = 20_000  # enough for every part, not for all of them in one file
    made = process(*args, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    _, stderr = made.communicate(timeout=120)
    assert made.returncode == 2, stderr
    assert "error: " in stderr
    assert "cannot be written" in stderr
    assert "Traceback" not in stderr
    assert len(lj.load_run(out, partial=True).items) > 0
    again = process(*args)
    _, stderr = again.communicate(timeout=120)
    assert again.returncode == 0, stderr


# --- bad input ------------------------------------------------------------------------------------------------------


def own_rubric(levels, name="own.yaml"):
    def write(folder):
        (folder / name).write_text(json.dumps({"name": "own", "criterion": "Is it?", "levels": levels}))
        return ["--rubric", folder / name]

    return write


def own_template(text):
    def write(folder):
        (folder / "own.j2").write_text(text)
        return ["--template", folder / "own.j2"]

    return write


def own_data(content, name="bad.jsonl"):
    def write(folder):
        text = "".join(json.dumps(row) + "\n" for row in content) if isinstance(content, list) else content
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return ["--data", folder / name]

    return write


def option(*args):
    return lambda folder: [str(arg).replace("FOLDER", str(folder)) for arg in args]


def other_run(folder):
    done = cli.main(["run", "--model", PLANTED, "--data", str(folder / "items.jsonl"), "--out", str(folder / "there")])
    assert done == 0
    return ["--out", folder / "there", "--seed", "9"]


LEVEL = {"score": 1, "text": "bad"}
BAD = {
    "duplicate id": (own_data([*rows(2), *rows(1)]), ["bad.jsonl", "line 3", "'id'", "'i0'", "unique"]),
    "missing field": (own_data([{"id": "a", "instruction": "x"}]), ["bad.jsonl", "line 1", "'response'", "missing"]),
    "empty field": (own_data(rows(1, response=" ")), ["bad.jsonl", "line 1", "'response'", "' '", "empty"]),
    "rating outside": (own_data(rows(1, human=6)), ["bad.jsonl", "line 1", "'human'", "6"]),
    "NaN": (own_data(rows(1, human=float("nan"))), ["bad.jsonl", "line 1", "'human'", "nan"]),
    "not UTF-8": (own_data(b'{"id": "\xff"}\n'), ["bad.jsonl", "line 1", "0xff", "UTF-8"]),
    "empty file": (own_data(""), ["bad.jsonl", "empty"]),
    "a list": (own_data("[1, 2]\n"), ["bad.jsonl", "line 1", "one object a line"]),
    "not JSON": (own_data("{id: 1}\n"), ["bad.jsonl", "line 1", "not valid JSON"]),
    "another format": (own_data("x", "bad.txt"), ["bad.txt", "'.txt'", ".jsonl"]),
    "not Parquet": (own_data("x", "bad.parquet"), ["bad.parquet", "not a Parquet file"]),
    "broken CSV": (own_data("id,instruction,response\na,b\n", "bad.csv"), ["bad.csv", "row 1", "2 values for 3 columns"]),
    "no rubric": (own_data([{"id": "a", "instruction": "x", "response": "y"}]), ["'a'", "rubric", "--rubric"]),
    "no file": (option("--data", "FOLDER/itms.jsonl"), ["itms.jsonl", "items.jsonl"]),
    "equal options": (
        own_rubric([{**LEVEL, "option": "A"}, {"score": 2, "text": "good", "option": "A"}]),
        ["own.yaml", "option", "'A'", "differ"],
    ),
    "one level": (own_rubric([LEVEL]), ["own.yaml", "1 level", "two"]),
    "equal scores": (own_rubric([LEVEL, {"score": 1, "text": "good"}]), ["own.yaml", "score 1", "differ"]),
    "equal texts": (own_rubric([LEVEL, {"score": 2, "text": "bad"}]), ["own.yaml", "'bad'", "differ"]),
    "not a rubric": (own_rubric("x"), ["own.yaml", "'levels'", "'x'"]),
    "not a permutation": (option("--orderings", "1,2,3,4,4"), ["1,2,3,4,4", "permutation", "1,2,3,4,5"]),
    "listed twice": (option("--orderings", "1,2,3,4,5;1,2,3,4,5"), ["1,2,3,4,5", "twice"]),
    "too many": (option("--orderings", "random:121"), ["random:121", "120"]),
    "unknown variable": (own_template("{{ respnse }} {{ levels }}"), ["own.j2", "'respnse'", "'response'"]),
    "no levels": (own_template("{{ response }}"), ["own.j2", "level", "score 1", "{{ levels }}"]),
    "broken template": (own_template("{{ response "), ["own.j2", "line 1"]),
    "unknown model": (option("--model", "embeded"), ["'embeded'", "'embedded'"]),
    "no model folder": (option("--model", "./no/model"), ["./no/model"]),
    "unknown dataset": (option("--data", "mt_bnch:x.json"), ["'mt_bnch'", "'mt_bench'"]),
    "unknown design": (option("--orderings", "balancd"), ["'balancd'", "'balanced'"]),
    "unknown rubric": (option("--rubric", "helpfulnes"), ["'helpfulnes'", "'helpfulness'"]),
    "unknown template": (option("--template", "promethus"), ["'promethus'", "'prometheus'"]),
    "unknown verdict": (option("--verdict", "dirct"), ["'dirct'", "'direct'"]),
    "unknown backend": (option("--backend", "plante"), ["'plante'"]),
    "unknown dtype": (option("--dtype", "float31"), ["'float31'", "'float32'"]),
    "unknown part": (option("--model", "planted:postion=1"), ["'postion'", "'position'"]),
    "wrong length": (option("--model", "planted:position=1,2"), ["position", "5"]),
    "no items": (option("--limit", "0"), ["0", "1 or more"]),
    "kwargs not JSON": (option("--model-kwargs", "{a"), ["--model-kwargs", "{a"]),
    "kwargs no object": (option("--model-kwargs", "[1]"), ["--model-kwargs", "[1]", "object"]),
    "no chat template": (option("--chat-template", "FOLDER/no.jinja"), ["no.jinja", "cannot be read"]),
    "unwritable": (option("--out", "FOLDER/items.jsonl/x"), ["items.jsonl/x", "cannot be written"]),
    "another run": (other_run, ["there", "'seed'", "0 there, 9 now", "--overwrite"]),
    "a folder of others": (option("--out", "FOLDER"), ["not a run folder", "items.jsonl"]),
}  # fmt: skip


def tree(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_a_message_and_nothing_is_written(call, items, tmp_path, case):
    make, parts = BAD[case]
    given = {"--model": PLANTED, "--data": items, "--out": tmp_path / "out"}
    extra = make(tmp_path)
    given |= dict(zip(extra[::2], extra[1::2], strict=True))
    before = tree(tmp_path)
    done = call("run", *(part for pair in given.items() for part in pair))
    assert (done.code, done.out) == (2, "")
    message = done.err[done.err.index("error: ") :]
    assert [part for part in parts if part not in message] == []
    assert "Traceback" not in done.err
    assert tree(tmp_path) == before
    assert not (tmp_path / "out").exists()


def test_options_that_the_tokenizer_cannot_tell_apart(call, items, tmp_path):
    import tiny_models

    model = tiny_models.save(tmp_path / "model")
    file = model / "tokenizer.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"normalizer": {"type": "Lowercase"}}))
    levels = [{"score": 1, "text": "bad", "option": "a"}, {"score": 2, "text": "good", "option": "A"}]
    rubric = own_rubric(levels)(tmp_path)
    data = write_rows(tmp_path / "unrated.jsonl", [{k: v for k, v in row.items() if k != "human"} for row in rows(2)])
    done = call("run", "--model", model, "--data", data, *rubric, "--out", tmp_path / "out")
    assert done.code == 2
    assert "cannot tell the options 'a' and 'A' apart" in done.err
    assert not (tmp_path / "out").exists()


# --- show -----------------------------------------------------------------------------------------------------------


def test_show_json_has_the_numbers_of_the_library(call, run_folder):
    folder = run_folder()
    made, run = summary_of(call, folder), lj.load_run(folder)
    assert {key: made[key] for key in ("schema_version", "items", "clusters", "refused", "readings", "kind", "verdict")} == {
        "schema_version": 1, "items": 6, "clusters": 3, "refused": 0, "readings": 60, "kind": "rubric", "verdict": "direct",
    }  # fmt: skip
    assert (made["model"], made["scores"], made["noise_floor"]) == (PLANTED, [1, 2, 3, 4, 5], None)
    assert made["orderings"] == [list(o.values(run.scores)) for o in run.orderings]
    for estimator in ("soft", "hard"):
        matrix = lj.score_position_matrix(run, estimator)
        np.testing.assert_allclose(np.array(made["score_position"][estimator], float), matrix.values, atol=1e-12)
        found = np.array(made["position_distribution"][estimator], float)
        np.testing.assert_allclose(found, lj.position_distribution(run, estimator), atol=1e-12)
    soft = lj.score_position_matrix(run)
    assert [row["soft"] for row in made["bias_cost"]] == pytest.approx([lj.bias_cost(soft, o) for o in run.orderings])
    assert [row["ordering"] for row in made["bias_cost"]] == made["orderings"]
    assert made["cost_spread"]["soft"]["cheapest"]["cost"] == pytest.approx(lj.rank_orderings(soft, 1)[0].cost)
    assert made["mass"]["mean"] == pytest.approx(1)
    assert made["mass"]["low"] == []
    rows_of = {(row["method"], row["measure"]): row for row in made["agreement"]}
    value = lj.agreement(run)["pearson"]
    expected = {"target": "human", "value": value.value, "low": value.low, "high": value.high}
    assert {key: rows_of["mean_prob", "pearson"][key] for key in expected} == expected
    assert ("mean_winner", "spearman") in rows_of


def test_what_was_not_observed_is_null(call, run_folder):
    folder = run_folder(PLANTED, "--orderings", "identity")
    made = summary_of(call, folder)
    nothing = [None] * 5
    for estimator in ("soft", "hard"):
        assert made["position_distribution"][estimator] == nothing
        assert made["score_position"][estimator] == [nothing] * 5
        assert "never shown" in made["rows"][estimator][0]["reason"]
    assert made["bias_cost"] == [{"ordering": [1, 2, 3, 4, 5], "soft": None, "hard": None, "hard_partial": None}]
    assert made["cost_spread"] == {"soft": None, "hard": None}
    assert {"score": 1, "position": 2} in made["uncovered"]
    assert len(made["uncovered"]) == 20
    shown = call("show", folder)
    assert shown.code == 0
    assert "score 1 was never shown at position(s) 2, 3, 4, 5" in shown.out
    assert "balanced" in shown.out
    assert "nan" not in shown.out.lower()


def test_hard_rows_of_scores_that_were_never_picked_are_null(call, run_folder):
    folder = run_folder(NEVER_3)
    made = summary_of(call, folder)
    assert made["score_position"]["hard"][2] == [None] * 5
    assert None not in [cell for row in made["score_position"]["soft"] for cell in row]
    assert [row["reason"] for row in made["rows"]["hard"]] == [None, None, "score 3 was never picked", None, None]
    matrix = lj.score_position_matrix(lj.load_run(folder), "hard").values
    for row in made["bias_cost"]:
        shown = [(made["scores"].index(score), p) for p, score in enumerate(row["ordering"]) if score != 3]
        assert row["hard"] is None
        assert row["soft"] is not None
        assert row["hard_partial"] == pytest.approx(sum(abs(matrix[k, p] - 0.2) for k, p in shown))
    assert made["cost_spread"]["hard"] is None
    assert made["cost_spread"]["soft"]["mean"] > 0
    shown = call("show", folder).out
    assert "score 3 was never picked" in shown
    assert "Partial: without the position of score(s) 3" in shown


def test_show_prints_tables(call, run_folder):
    folder = run_folder()
    shown = call("show", folder)
    assert (shown.code, shown.err) == (0, "")
    made = summary_of(call, folder)
    for part in (
        "Position distribution",
        "Score x position, soft",
        "Score x position, hard",
        "Bias Cost",
        "cheapest",
        "dearest",
        "Mass",
        "Noise floor",
        "Agreement with human",
    ):
        assert part in shown.out
    assert f"{100 * made['position_distribution']['soft'][0]:.1f}" in shown.out
    assert "6 items in 3 clusters x 10 orderings (balanced positions) = 60 readings" in shown.out
    assert "1,2,3,4,5" in shown.out


def test_eleven_levels_fit_80_columns(call, run_folder, tmp_path):
    unrated = write_rows(
        tmp_path / "unrated.jsonl", [{k: v for k, v in row.items() if k != "human"} for row in rows(40)]
    )
    folder = run_folder("planted:interaction=2:0.8;first=0.3", "--rubric", "likert_0_10", data=unrated)
    for args in (("show", folder), ("select", folder)):
        lines = call(*args).out.splitlines()
        assert max(len(line) for line in lines[1:]) <= 80  # the first line holds the folder's path
        assert not any(line.endswith(("…", " ")) for line in lines)
    assert "Agreement: none" in call("show", folder).out
    assert summary_of(call, folder)["agreement"] == []


def test_many_orderings_are_cut_in_the_tables_only(call, run_folder):
    folder = run_folder(PLANTED, "--orderings", "full", "--limit", "2")
    assert len(summary_of(call, folder)["bias_cost"]) == 120
    assert "The 5 cheapest and dearest of 120" in call("show", folder).out


def test_show_of_an_unfinished_run_names_partial(call, run_folder):
    folder = run_folder(PLANTED, "--max-batch-tokens", "1")
    unfinished(folder)
    done = call("show", folder)
    assert (done.code, done.out) == (2, "")
    assert "--partial" in done.err
    assert "0 of 6" not in done.err
    made = summary_of(call, folder, "--partial")
    assert (made["items"], made["finished"]) == (2, None)
    assert "unfinished" in call("show", folder, "--partial").out
    assert call("select", folder).code == 2
    assert call("select", folder, "--partial").code == 0


def unfinished(folder, kept=2):
    """Turn a finished run into one of which only the first items are read."""
    import pyarrow.parquet as pq

    table = pq.read_table(folder / "readings" / "all.parquet", partitioning=None)
    pq.write_table(table.slice(0, 10 * kept), folder / "readings" / "part-000000.parquet")
    (folder / "readings" / "all.parquet").unlink()
    head = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**head, "finished": None}))


def test_min_mass_is_shown_with_and_without(call, run_folder):
    folder = run_folder()
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = folder / "readings" / "all.parquet"
    old = pq.read_table(table, partitioning=None)
    logp = old["logp"].to_pylist()
    logp[3] = [value + np.log(0.25) for value in logp[3]]  # item i0, one ordering
    pq.write_table(
        old.set_column(old.schema.get_field_index("logp"), old.schema.field("logp"), pa.array(logp)),
        table,
        write_page_checksum=True,
    )
    plain = summary_of(call, folder)
    assert (plain["items"], plain["without_min_mass"], plain["left_out"]) == (6, None, [])
    assert plain["mass"]["low"] == [{"id": "i0", "mass": pytest.approx(0.25)}]
    made = summary_of(call, folder, "--min-mass", "0.5")
    assert (made["items"], made["without_min_mass"]["items"]) == (5, 6)
    assert made["left_out"] == [{"id": "i0", "mass": pytest.approx(0.25)}]
    assert made["score_position"] != made["without_min_mass"]["score_position"]
    assert made["without_min_mass"]["score_position"] == plain["score_position"]
    expected = lj.score_position_matrix(lj.load_run(folder, min_mass=0.5)).values
    np.testing.assert_allclose(made["score_position"]["soft"], expected, atol=1e-12)
    shown = call("show", folder, "--min-mass", "0.5").out
    assert "1 item left out for a mass below 0.5: i0 (25.0 %)" in shown
    assert "all 6 items, without --min-mass" in shown
    assert "Warning: 1 item below 50 %" in call("show", folder).out
    for value, part in (("1.5", "from 0 to 1"), ("nan", "from 0 to 1")):
        done = call("show", folder, "--min-mass", value)
        assert done.code == 2
        assert part in done.err
    low = run_folder("planted:mass=0.4")
    done = call("show", low, "--min-mass", "0.5")
    assert done.code == 2
    assert "0.4" in done.err


def test_show_takes_methods_and_aliases(call, run_folder):
    folder = run_folder()
    made = summary_of(call, folder, "--method", "mean_logp", "--aliases", "sum")
    assert {row["method"] for row in made["agreement"]} == {"mean_logp"}
    assert made["alias"] == {"counted": True, "mean": 0, "share": 0, "warning": None}
    assert call("show", folder, "--method", "mean_lgp").code == 2
    assert "'sum'" in call("show", folder, "--aliases", "smu").err


def test_show_takes_methods_that_learn_and_methods_with_arguments(call, run_folder):
    folder = run_folder()
    methods = ["position_prior", "score_position_prior", "contextual", "cheapest", "single:5,4,3,2,1"]
    made = summary_of(call, folder, *(part for method in methods for part in ("--method", method)))
    assert list(dict.fromkeys(row["method"] for row in made["agreement"])) == methods
    refused = call("show", folder, "--method", "single:1,3,2,4,5")
    assert refused.code == 2
    assert "no ordering 1,3,2,4,5" in refused.err
    assert call("show", folder, "--method", "mean_prob:1").code == 2


def test_aliases_and_what_took_the_mass():
    from planted_runs import run_of

    from logitjudge.report import masses

    tokens = [
        [{"id": 1, "text": "The", "logp": np.log(0.4)}, {"id": 2, "text": "**", "logp": np.log(0.1)}],
        [{"id": 1, "text": "The", "logp": np.log(0.2)}],
    ]
    rows = [{"item_id": "i0", "rank": n, **token} for row in tokens for n, token in enumerate(row)]
    run = run_of([[[0.1, 0.2], [0.1, 0.2]]], "balanced", loaders={"top_tokens": lambda: pd.DataFrame(rows)})
    object.__setattr__(run, "alias_mass", np.full((1, 2, 2), 0.02))
    made = masses.masses(run)
    assert made["mass"]["low"] == [{"id": "i0", "mass": pytest.approx(0.3)}]
    assert made["mass"]["top_tokens"] == [
        {"text": "The", "prob": pytest.approx(0.3)},
        {"text": "**", "prob": pytest.approx(0.05)},
    ]
    assert made["alias"]["share"] == pytest.approx(0.04 / 0.3)
    assert "--aliases sum" in made["alias"]["warning"]


def test_the_least_mass_comes_first():
    from planted_runs import run_of

    from logitjudge.report import masses

    run = run_of([[[0.1, 0.2]] * 2, [[0.1, 0.05]] * 2, [[0.4, 0.4]] * 2], "balanced")
    assert [row["id"] for row in masses.masses(run)["mass"]["low"]] == ["i1", "i0"]


def test_a_run_that_is_not_there(call, tmp_path):
    for command in ("show", "select", "export", "prompts"):
        extra = {"export": ("--scores", "x.csv"), "prompts": ("--item", "a", "--ordering", "1,2")}.get(command, ())
        done = call(command, tmp_path / "nothing", *extra)
        assert done.code == 2
        assert "there is no" in done.err


# --- select ---------------------------------------------------------------------------------------------------------


def test_select_ranks_all_orderings(call, run_folder):
    folder = run_folder()
    done = call("select", folder, "--json", "--top", "7")
    assert (done.code, done.err) == (0, "")
    ranked = lj.rank_orderings(lj.score_position_matrix(lj.load_run(folder)), 7)
    made = strict(done.out)
    assert [{key: row[key] for key in ("ordering", "cost")} for row in made] == [
        {"ordering": list(row.values), "cost": row.cost} for row in ranked
    ]
    assert {type(row[key]) for row in made for key in ("alike", "better", "average")} == {bool}
    assert len(strict(call("select", folder, "--json").out)) == 10


def test_select_prints_what_a_choice_can_change(call, run_folder):
    folder = run_folder()
    spread = lj.cost_spread(lj.score_position_matrix(lj.load_run(folder)))
    shown = call("select", folder).out
    for name in ("mean", "identity", "additive"):
        assert f"{getattr(spread, name):.3f}" in shown
    for end in (spread.cheapest, spread.dearest):
        assert ",".join(map(str, end.values)) in shown
    assert f"Here it is {spread.dearest.cost - spread.cheapest.cost:.3f} more" in " ".join(shown.split())
    assert "no single ordering stands out" in " ".join(shown.split())
    assert "significan" not in shown


def test_select_says_when_to_average(call, run_folder, tmp_path):
    position = ("planted:position=0.8,0,0,0,0.3", "--orderings", "full")
    shown = " ".join(call("select", run_folder(*position)).out.split())
    assert shown.startswith("No ordering can be recommended: 3 clusters cannot be halved")
    many = run_folder(*position, data=write_rows(tmp_path / "more.jsonl", rows(24)))
    first = " ".join(call("select", many).out.split())
    assert first.startswith("Average over these 120 orderings: no single ordering is distinguishably better.")
    assert "No ordering is distinguishably better: average. (score x position interaction cannot be told" in shown


def test_select_says_how_many_probes_are_enough(call, run_folder, tmp_path):
    data = write_rows(tmp_path / "more.jsonl", rows(24))
    folder = run_folder(PLANTED, "--orderings", "full", data=data)
    shown = " ".join(call("select", folder, "--probes").out.split())
    assert "How many probes are enough" in shown
    assert "not probed" in shown
    few = " ".join(call("select", run_folder(), "--probes").out.split())
    assert "probes: 6 items in 3 clusters are too few" in few
    assert "--orderings full" in few


def test_plan_for_a_rubric_and_for_a_run(call, run_folder):
    done = call("plan", "--rubric", "helpfulness", "--budget", "1000")
    assert done.code == 0
    assert "For this budget: williams, 10 orderings x 100 items = 1,000 readings." in " ".join(done.out.split())
    assert "To measure it: logitjudge run --orderings full" in " ".join(done.out.split())
    folder = run_folder(PLANTED, "--orderings", "full")
    made = strict(call("plan", folder, "--budget", "60", "--draws", "5", "--json").out)
    assert made["recommended"]["n"] == 10
    shown = call("plan", folder, "--budget", "60", "--draws", "5").out
    assert "distance to all 120 orderings" in " ".join(shown.split())
    assert max(map(len, shown.replace(str(folder), "DIR").splitlines())) <= 80
    for args in ((), ("--rubric", "helpfulness"), (folder, "--rubric", "helpfulness", "--budget", "5")):
        done = call("plan", *args)
        assert (done.code, "--budget N" in done.err) == (2, True)
    assert call("plan", run_folder()).code == 2


def test_compare_puts_runs_side_by_side_and_shows_drift(call, run_folder):
    first, second = run_folder(), run_folder("planted:position=0.1,0,0,0,0", "--orderings", "full")
    done = call("compare", first, second, "--baseline", first)
    assert done.code == 0, done.err
    words = " ".join(done.out.split())
    assert "the paper's judges write feedback before they score" in words
    for part in (
        "Position distribution, soft, %",
        "Soft Bias Cost",
        "Agreement",
        "6 shared items in 3 clusters",
        "mass",
    ):
        assert part in words
    made = strict(call("compare", first, second, "--json").out)
    assert [row["name"] for row in made["runs"]] == [str(first), str(second)]
    assert made["drift"] is None
    assert len(strict(call("compare", second, "--baseline", first, "--json").out)["drift"]) == 1
    assert call("compare", "nowhere").code == 2


def test_detect_reads_submitted_scores(call, run_folder, tmp_path):
    folder = run_folder(PLANTED, "--orderings", "full")
    submitted = tmp_path / "s.csv"
    submitted.write_text("id,score\ni0,1\ni1,2\n")
    done = call("detect", folder, "--scores", submitted, "--ordering", "5,4,3,2,1", "--draws", "100")
    assert done.code == 0, done.err
    assert "This cannot be told: scores drawn from the judge would be told in" in " ".join(done.out.split())
    made = strict(call("detect", folder, "--scores", submitted, "--ordering", "5,4,3,2,1", "--json").out)
    assert (made["verdict"], made["items"], made["ordering"]) == ("cannot tell", 2, [5, 4, 3, 2, 1])
    submitted.write_text("id,score\nwho,1\n")
    assert "'who'" in call("detect", folder, "--scores", submitted, "--ordering", "5,4,3,2,1").err


def test_soft_labels_are_targets_for_training(call, run_folder, tmp_path):
    folder = run_folder()
    file = tmp_path / "labels.jsonl"
    assert call("export", folder, "--soft-labels", file, "--method", "mean_logp").code == 0
    made = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(made) == 6
    for row in made:
        assert sum(row[f"prob_{score}"] for score in range(1, 6)) == pytest.approx(1)


def test_select_needs_every_cell(call, run_folder):
    folder = run_folder(PLANTED, "--orderings", "identity")
    done = call("select", folder, "--json")
    assert (done.code, done.out) == (2, "")
    assert "score 1 was never shown at position(s) 2, 3, 4, 5" in done.err
    assert "10 orderings" in done.err


# --- prompts --------------------------------------------------------------------------------------------------------


def test_prompts_of_a_planted_judge(call, run_folder):
    folder = run_folder()
    done = call("prompts", folder, "--item", "i2", "--ordering", "5,4,3,2,1", "--json")
    assert (done.code, done.err) == (0, "")
    made = strict(done.out)
    assert set(made) == {"text", "context_token_ids", "options", "event"}
    assert f"{TEXT}, number 2" in made["text"]
    texts = [f"Score {level.score}: {level.text}" for level in reversed(load_rubric("helpfulness").levels)]
    assert "\n".join(texts) in made["text"]
    assert made["context_token_ids"] is None
    assert made["options"] == [{"score": k, "text": str(k), "token_ids": None} for k in range(1, 6)]
    assert "does not become another" in made["event"]
    assert made["text"] in call("prompts", folder, "--item", "i2", "--ordering", "5,4,3,2,1").out


@pytest.mark.parametrize(
    ("item", "ordering", "parts"),
    [
        ("i9", "5,4,3,2,1", ["'i9'", "Did you mean 'i"]),
        ("i2", "5,3,4,2,1", ["'5,3,4,2,1'", "It has: 1,2,3,4,5; "]),
        ("i2", "5,4,3,2", ["5,4,3,2", "permutation"]),
        ("i2", "1,2,3,4,5;5,4,3,2,1", ["1,2,3,4,5;5,4,3,2,1"]),
    ],
)
def test_prompts_that_were_not_read(call, run_folder, item, ordering, parts):
    done = call("prompts", run_folder(), "--item", item, "--ordering", ordering)
    assert (done.code, done.out) == (2, "")
    assert [part for part in parts if part not in done.err] == []


def test_prompts_open_the_tokenizer_of_the_run(call, items, tmp_path):
    import tiny_models

    model = tiny_models.save(tmp_path / "model", merges=("Score", " the"))
    out = tmp_path / "out"
    done = call(
        "run",
        "--model",
        model,
        "--data",
        items,
        "--limit",
        "2",
        "--orderings",
        "5,4,3,2,1",
        "--dtype",
        "float32",
        "--out",
        out,
    )
    assert done.code == 0, done.err
    item = lj.load_run(out).items[0].id
    (model / "model.safetensors").unlink()  # the weights are not needed
    args = ("prompts", out, "--item", item, "--ordering", "5,4,3,2,1", "--json")
    made = strict(call(*args).out)
    tokens = tiny_models.tokenizer(merges=("Score", " the"))
    assert tokens.decode(made["context_token_ids"]) == made["text"]
    assert [tokens.decode(option["token_ids"]) for option in made["options"]] == ["1", "2", "3", "4", "5"]
    shutil.move(model, tmp_path / "moved")
    gone = call(*args)
    assert gone.code == 2
    assert "--model PATH" in gone.err
    assert strict(call(*args, "--model", tmp_path / "moved").out) == made
    tiny_models.tokenizer(merges=("Score",)).save_pretrained(tmp_path / "moved")
    other = call(*args, "--model", tmp_path / "moved")
    assert other.code == 2
    assert "tokenizer is not the one that the run used" in other.err


# --- list, export, demo ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("models", ["embedded", "planted:SPEC", "FILE.gguf"]),
        ("datasets", ["demo", "mt_bench", "vicuna_bench", "MT Bench"]),
        ("templates", ["prometheus", "Prometheus-Eval"]),
        ("rubrics", ["helpfulness", "1 to 5, 5 levels", "0 to 10, 11 levels"]),
        ("orderings", ["balanced", "10 for K = 5", "120 for K = 5", "identity", "not balanced", "latin:N"]),
        ("debiasers", ["mean_prob", "mean_logp", "mean_winner", "The mean, over orderings"]),
    ],
)
def test_list(call, kind, parts):
    done = call("list", kind)
    assert (done.code, done.err) == (0, "")
    assert [part for part in parts if part not in done.out] == []
    assert all(len(line.split("  ")) > 1 for line in done.out.splitlines())


def test_list_of_probes_has_a_sentence_each(call):
    done = call("list", "probes")
    rows = [line.split(maxsplit=1) for line in done.out.splitlines()]
    assert {"formatting", "labels", "verbosity"} <= {name for name, _ in rows}
    assert all(text.endswith("?") for _, text in rows)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_export_scores(call, run_folder, tmp_path, suffix):
    folder, file, labels = run_folder(), tmp_path / f"new/s.{suffix}", tmp_path / f"l.{suffix}"
    done = call("export", folder, "--scores", file, "--soft-labels", labels, "--method", "mean_logp")
    assert done.code == 0, done.err
    read = {"csv": pd.read_csv, "jsonl": lambda path: pd.read_json(path, lines=True), "parquet": pd.read_parquet}[
        suffix
    ]
    run = lj.load_run(folder)
    expected = lj.debias(run, "mean_logp")
    frame, soft = read(file), read(labels)
    assert list(frame.columns) == ["item", "cluster", "score", "method", "human", "task"]
    assert list(frame["item"]) == [item.id for item in run.items]
    np.testing.assert_allclose(frame["score"], expected.score, rtol=1e-12)
    np.testing.assert_allclose(frame["human"], run.ratings)
    assert set(frame["method"]) == {"mean_logp"}
    np.testing.assert_allclose(soft[[f"prob_{k}" for k in range(1, 6)]], expected.dist, rtol=1e-9)


def test_export_takes_an_argument_of_a_method(call, run_folder, tmp_path):
    file = tmp_path / "out.csv"
    assert call("export", run_folder(), "--scores", str(file), "--method", "single:5,4,3,2,1").code == 0
    assert set(pd.read_csv(file)["method"]) == {"single:5,4,3,2,1"}


def test_export_without_ratings_has_no_column_for_them(call, run_folder, tmp_path):
    mixed = [
        {**{k: v for k, v in row.items() if k != "human"}, "task": n if n % 2 else "x", "score": "g"}
        for n, row in enumerate(rows(4))
    ]
    folder = run_folder(PLANTED, data=write_rows(tmp_path / "unrated.jsonl", mixed))
    assert call("export", folder, "--scores", tmp_path / "s.parquet", "--soft-labels", tmp_path / "s.csv").code == 0
    frame = pd.read_parquet(tmp_path / "s.parquet")
    assert list(frame.columns) == ["item", "cluster", "score", "method", "task", "group_score"]
    assert list(frame["task"]) == ["x", "1", "x", "3"]
    with (tmp_path / "s.csv").open() as file:
        assert next(csv.reader(file))[4:9] == [f"prob_{k}" for k in range(1, 6)]


def test_export_without_texts(call, run_folder, tmp_path):
    template = tmp_path / "own.j2"
    template.write_text("{{ instruction }} {{ response }} {{ note }} {{ levels }}")
    data = write_rows(tmp_path / "noted.jsonl", rows(4, note="a private note"))
    folder, out = run_folder(PLANTED, "--template", template, data=data), tmp_path / "shared"
    done = call("export", folder, "--without-texts", out)
    assert done.code == 0, done.err
    everything = b"".join(tree(out).values())
    for secret in (TEXT, "Question 1", "a private note", str(tmp_path / "noted")):
        assert secret.encode() not in everything
    before, after = lj.load_run(folder), lj.load_run(out)
    np.testing.assert_array_equal(before.logp, after.logp)
    assert [item.rubric for item in after.items] == [item.rubric for item in before.items]
    assert after.items[1].groups == {"task": "odd"}
    assert set(after.items[0].fields.values()) == {""}
    first, second = summary_of(call, folder), summary_of(call, out)
    lengths = [made["where"].pop("groups") for made in (first, second)]  # one of them goes by the length of the texts
    assert {**first, "data": None} == {**second, "data": None}
    assert [row for row in lengths[0]["rows"] if row["group"] == "task"] == lengths[1]["rows"]
    again = call("export", folder, "--without-texts", out)
    assert again.code == 2
    assert "holds a run already" in again.err
    asked = call("prompts", out, "--item", "i0", "--ordering", "5,4,3,2,1")
    assert asked.code == 2
    assert "without texts" in asked.err


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ([], ["--scores", "--without-texts"]),
        (["--scores", "s.xlsx"], ["s.xlsx", "'.xlsx'", ".csv"]),
        (["--scores", "s.csv", "--method", "mean_prb"], ["'mean_prb'", "'mean_prob'"]),
        (["--scores", "items.jsonl/s.csv"], ["cannot be written"]),
        (["--without-texts", "items.jsonl/s"], ["cannot be written"]),
    ],
)
def test_export_of_bad_input(call, run_folder, tmp_path, monkeypatch, options, parts):
    folder = run_folder()
    monkeypatch.chdir(tmp_path)
    before = tree(tmp_path)
    done = call("export", folder, *options)
    assert (done.code, done.out) == (2, "")
    assert [part for part in parts if part not in done.err] == []
    assert tree(tmp_path) == before


def test_demo(call, monkeypatch, tmp_path):
    monkeypatch.setattr(demo, "MODEL", PLANTED)
    monkeypatch.chdir(tmp_path)
    first = call("demo")
    assert first.code == 0, first.err
    for part in (
        "Score x position, soft",
        "Score x position, hard",
        "Position distribution",
        "cheapest",
        "dearest",
        "Mass",
        "Noise floor",
    ):
        assert part in first.out
    made = summary_of(call, Path("runs/demo"))
    assert made["orderings"][0] == [1, 2, 3, 4, 5]
    assert "small demonstration" in first.out
    assert f"correlate {made['agreement'][0]['value']:.2f}" in " ".join(first.out.split())
    assert "logitjudge select runs/demo" in first.out
    second = call("demo")
    assert second.code == 0
    assert second.out.startswith("All readings were there already: nothing was read again.\n")
    assert "is finished: all 480 readings are there" in second.err
    assert second.out.endswith(first.out)


# --- progress -------------------------------------------------------------------------------------------------------


def reports(times, capsys):
    """Lines printed for (seconds, items) of 10 items with 5 prompts each."""
    clock = iter(times)
    now = [0.0]
    lines = _progress.Lines(lambda: now[0])
    for seconds, items, read in clock:
        now[0] = seconds
        lines(Progress(items, 10, 5 * items, 50, read=read))
    return capsys.readouterr().err.splitlines()


def test_a_line_a_minute_where_there_is_no_terminal(capsys):
    shown = reports([(100, 0, 0), (101, 1, 1), (161, 4, 4), (170, 5, 5), (225, 8, 8), (230, 10, 10)], capsys)
    assert shown == [
        "reading 10 items, 50 prompts",
        "4 of 10 items, 20 of 50 prompts, 0.0656 items/s, 0.328 prompts/s, 1 min 32 s left",
        "8 of 10 items, 40 of 50 prompts, 0.064 items/s, 0.32 prompts/s, 31 s left",
        "read 10 items in 2 min 10 s",
    ]


def test_what_was_there_before_does_not_count_as_speed(capsys):
    shown = reports([(0, 0, 0), (0, 6, 0), (100, 8, 2), (200, 10, 4)], capsys)
    assert shown[1] == "8 of 10 items, 40 of 50 prompts, 0.02 items/s, 0.1 prompts/s, 1 min 40 s left"
    assert shown[2] == "read 4 items in 3 min 20 s; 6 items had been read before"


def test_each_run_of_a_sweep_or_a_probe_has_a_clock_of_its_own(capsys):
    shown = reports(
        [(0, 0, 0), (90, 5, 5), (100, 10, 10), (200, 0, 0), (270, 7, 7), (300, 10, 10), (400, 10, 0)], capsys
    )
    assert shown[2] == "read 10 items in 1 min 40 s"
    assert shown[3:] == [
        "reading 10 items, 50 prompts",
        "7 of 10 items, 35 of 50 prompts, 0.1 items/s, 0.5 prompts/s, 30 s left",
        "read 10 items in 1 min 40 s",
        "reading 10 items, 50 prompts",
        "read 0 items in 0.0 s; 10 items had been read before",
    ]


def test_a_bar_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with _progress.shown() as report:
        report(Progress(message="opening [it]"))
        report(Progress(0, 10, 0, 50))
        report(Progress(10, 10, 50, 50, read=10))
    shown = capsys.readouterr().err
    assert "opening [it]" in shown
    assert "10/10" in shown
    assert "items/s" in shown
    assert "prompts/s" in shown


def test_the_largest_bias_cost_is_k_minus_1(call, run_folder):
    shown = call("show", run_folder()).out
    levels = len(lj.load_run(run_folder()).scores)
    assert f"at most {levels - 1})" in shown
    extreme = lj.bias_cost(
        lj.score_position_matrix(lj.load_run(run_folder("planted:first=0.999999;quality_sd=0"))), "1,2,3,4,5"
    )
    # a judge that always takes the first position is off by 1 - 1/K there, and by 1/K at each other
    assert extreme == pytest.approx(2 * (1 - 1 / levels), abs=1e-4)
