"""The report: what it says in plain words, that everything is escaped, that it loads nothing, that a browser opens it."""

import base64
import gzip
import json
import re
import shutil

import numpy as np
import pytest
from planted_runs import run_of

import logitjudge as lj
from logitjudge import cli
from logitjudge.errors import InputError
from logitjudge.measures.selection import held_out
from logitjudge.report import html
from logitjudge.report.page import page

HOSTILE = [
    {
        "id": "a<script>alert(1)</script>", "instruction": "</script><script>document.title='owned'</script> & <b>x</b>",
        "response": "<img src=x onerror=\"document.title='owned'\">", "human": 3, "source": "news & <i>more</i>",
    },
    {"id": "b", "instruction": "W" * 300, "response": "{{ 7 * 7 }} {% raw %}", "human": 4, "source": "blog"},
    {"id": "c", "instruction": "Q", "response": "fine", "human": 5, "source": "blog"},
]  # fmt: skip


@pytest.fixture
def hostile(tmp_path):
    data = tmp_path / "items.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in HOSTILE))
    model = "planted:position=0.8,0,0,0,0.3;order_noise=0.4"
    assert (
        cli.main(["run", "--model", model, "--data", str(data), "--rubric", "clarity", "--out", str(tmp_path / "run")])
        == 0
    )
    return tmp_path / "run"


def planted(bias, interaction=0.0, count=60, seed=0):
    from logitjudge.orderings import parse

    rng = np.random.default_rng(seed)
    place = np.array([o.position_of for o in parse("balanced", (1, 2, 3, 4, 5))])
    table = interaction * np.random.default_rng(3).normal(0, 1, (5, 5))
    moved = np.array(bias)[place] + table[np.arange(5), place]
    logits = rng.normal(0, 1.2, (count, 1, 5)) + moved + rng.normal(0, 0.3, (count, 10, 5))
    probs = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    items = [lj.Item(f"i{n}", {}, human=(float(1 + n % 5),)) for n in range(count)]
    return run_of(probs, "balanced", items=items, provenance={"finished": "now", "ratings_name": "people"})


def test_the_verdict_is_in_plain_words():
    biased = page(planted((1.0, 0, 0, 0, 0)), "one")["verdict"]
    share = lj.position_distribution(planted((1.0, 0, 0, 0, 0)))[0]
    assert (
        biased[0]
        == f"This judge puts {share:.1%} of its probability on position 1; without position bias it would be 20.0%."
    )
    assert biased[1].startswith("That is not chance (test of all positions together, p < 0.001)")
    assert biased[2] == "Average over these 10 orderings: no single ordering is distinguishably better."
    assert "correlate with people by" in biased[3]
    assert page(planted((0, 0, 0, 0, 0)), "none")["verdict"][1].startswith("That may be chance")


def test_one_ordering_is_recommended_only_where_held_out_items_say_so():
    chosen = page(planted((0, 0, 0, 0, 0), interaction=0.8), "two")
    found = chosen["recommendation"]
    judged = held_out(planted((0, 0, 0, 0, 0), interaction=0.8))
    assert found["ordering"] == list(judged.ordering.values([1, 2, 3, 4, 5]))
    assert f"use {','.join(map(str, found['ordering']))}: chosen on half" in chosen["verdict"][2]
    assert f"{judged.saving:.3f} below" in chosen["verdict"][2]
    flat = page(planted((1.0, 0, 0, 0, 0)), "one")["recommendation"]
    assert (flat["ordering"], flat["average"]) == (None, True)
    few = page(planted((1.0, 0, 0, 0, 0), count=3), "few")
    assert few["recommendation"]["reason"].startswith("3 clusters")
    assert few["verdict"][2].startswith("No ordering can be recommended: 3 clusters")


def test_warnings_say_what_a_reader_must_know():
    run = planted((0, 0, 0, 0, 0), count=8)
    low = lj.Run(run.logp - 2, run.alias_mass, run.items, run.orderings, run.scores, provenance={"finished": None})
    found = page(low, "one")["warnings"]
    assert any("unfinished" in text for text in found)
    assert any("only 8 clusters" in text for text in found)
    assert any("only 13.5% of the probability" in text for text in found)
    assert page(planted((0, 0, 0, 0, 0)), "one")["warnings"] == []


def test_items_come_by_swing_with_their_probabilities():
    run = planted((1.0, 0, 0, 0, 0))
    items = page(run, "one")["items"]
    swings = [item["swing"] for item in items]
    assert swings == sorted(swings, reverse=True)
    first = next(n for n, item in enumerate(run.items) if item.id == items[0]["id"])
    np.testing.assert_allclose([row["probs"] for row in items[0]["orderings"]], run.probs()[first], atol=5e-5)


def test_everything_that_comes_from_data_is_escaped(hostile, tmp_path):
    text = html.report([lj.load_run(hostile)], ["<b>name</b>"])
    assert text.count("<script") == 2  # ours: the data and the code
    assert "alert(1)</script>" not in text
    assert 'onerror="document' not in text
    assert "<b>name</b>" not in text
    assert "&lt;b&gt;name&lt;/b&gt;" in text
    data = unpacked(text)
    assert {row["response"] for row in data["texts"]} == {row["response"] for row in HOSTILE}


def unpacked(text):
    packed = re.search(r'id="data">([A-Za-z0-9+/=]*)</script>', text)[1]
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def test_the_items_in_the_file_are_those_of_the_run_and_texts_are_stored_once():
    runs = [planted((1.0, 0, 0, 0, 0), seed=n) for n in range(2)]
    data = unpacked(html.report(runs, ["a", "b"]))
    assert len(data["texts"]) == 1
    for run, made in zip(runs, data["runs"], strict=True):
        place = {item.id: n for n, item in enumerate(run.items)}
        rows = np.array([item["rows"] for item in made["items"]]) / data["parts"]
        probs = run.probs()[[place[item["id"]] for item in made["items"]]]
        np.testing.assert_allclose(rows[..., 1:6], probs, atol=5.1e-5)
        np.testing.assert_allclose(rows[..., 6], probs @ run.scores, atol=5.1e-5)
        assert made["orderings"] == [list(o.values((1, 2, 3, 4, 5))) for o in run.orderings]


def test_a_name_may_have_letters_that_no_file_has(tmp_path):
    text = html.report([planted((0, 0, 0, 0, 0), count=8)], ["a\udc80b\x0b $\\frac$"])
    html.write(text, tmp_path / "r.html")
    assert "a&#56448;b" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_nothing_is_loaded_from_elsewhere(hostile):
    text = html.report([lj.load_run(hostile)], ["run"])
    assert not re.search(r'(?:src|href)="(?!data:|#)', text)
    assert "default-src 'none'" in text


def test_several_runs_stand_side_by_side():
    runs = [planted((b, 0, 0, 0, 0), seed=n) for n, b in enumerate((0.2, 1.0))]
    text = html.report(runs, ["weak", "strong"])
    assert text.count('<section id="run') == 2
    for run in runs:
        assert f"<td>{100 * lj.position_distribution(run)[0]:.1f}</td>" in text
    with pytest.raises(InputError, match="every run once"):
        html.report(runs, ["same", "same"])


def test_a_sampled_run_has_a_report_of_its_picks():
    rng = np.random.default_rng(0)
    run = planted((0, 0, 0, 0, 0))
    picks = rng.integers(1, 6, (60, 10, 2)).astype(float)
    made = lj.SampledRun(
        picks, run.items, run.orderings, (1, 2, 3, 4, 5), provenance={"finished": "now", "verdict": "sampled"}
    )
    text = html.report([made], ["sampled"])
    assert "of its picks on position" in text


def test_the_command(hostile, tmp_path, capsys):
    capsys.readouterr()
    assert cli.main(["report", str(hostile), "--out", str(tmp_path / "sub" / "r.html")]) == 0
    assert (tmp_path / "sub" / "r.html").read_text().startswith("<!doctype html>")
    capsys.readouterr()
    assert cli.main(["report", str(hostile), "--json"]) == 0
    (made,) = json.loads(capsys.readouterr().out)
    assert {"name", "verdict", "recommendation", "warnings", "summary", "sections", "items"} == set(made)
    assert cli.main(["report", str(tmp_path / "nothing")]) == 2


def test_a_run_is_named_by_its_folder(hostile, tmp_path, capsys):
    (tmp_path / "other").mkdir()
    shutil.copytree(hostile, tmp_path / "other" / "run")
    out = tmp_path / "r.html"
    assert cli.main(["report", str(hostile), "--out", str(out)]) == 0
    assert "<title>logitjudge: run</title>" in out.read_text()
    two = [str(hostile), str(tmp_path / "other" / "run")]
    assert cli.main(["report", *two, "--out", str(out)]) == 0
    assert all(f"<bdi>{name}</bdi></h2>" in out.read_text() for name in two)
    assert cli.main(["report", str(hostile), str(hostile), "--out", str(out)]) == 2
