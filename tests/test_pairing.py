"""Pairwise runs: what is shown where, what is read, what is refused; pairs with points."""

import json
import warnings
from functools import partial

import numpy as np
import pytest

import logitjudge as lj
from logitjudge import cli, datasets, pairs, prompts, scored, store
from logitjudge.core import Item
from logitjudge.errors import InputError, ItemError, RubricError, RunFolderError
from logitjudge.report import pair_page

PAIRS = [
    {"id": "a", "instruction": "Say hello.", "response_1": "Hello!", "response_2": "Hello, dear friend of mine.", "gold": 1, "task": "x"},
    {"id": "b", "instruction": "Count to 3.", "response_1": "1 2 4", "response_2": "1 2 3", "gold": 2, "task": "y"},
    {"id": "c", "instruction": "Say yes.", "response_1": "yes", "response_2": "yes", "gold": "tie", "task": "y"},
    {"id": "d", "instruction": "Say no.", "response_1": "no", "response_2": "No."},
]  # fmt: skip


def written(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def data(tmp_path):
    return written(tmp_path / "pairs.jsonl", PAIRS)


def shown(item, ordering, ties=False):
    """The part of a prompt that holds the responses, and its options by candidate."""
    template = prompts.load("pairwise_ties" if ties else "pairwise")
    prompt = prompts.render(template, item, pairs.candidates(item, ties), ordering)
    return prompt.messages[-1].content.split("###Criteria:")[1], prompt.options


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("letters", ["slot", "swap"])
def test_each_candidate_stands_in_each_slot_and_under_each_letter(letters, ties):
    item = Item("i", {"instruction": "q", "response_1": "ONE", "response_2": "TWO"})
    seen = []
    for ordering in pairs.orders(letters, ties):
        text, options = shown(item, ordering, ties)
        first = 1 if text.index("ONE") < text.index("TWO") else 2
        letter = dict(zip((1, 2), options[-2:], strict=True))
        for k, response in ((1, "ONE"), (2, "TWO")):
            head = f"###{letter[k]}:" if ties else f"###Response {letter[k]}:"
            assert f"{head}\n{response}" in text
        if ties:
            assert options[0] == "TIE"
            assert text.rindex("TIE") > text.index("TWO")
        seen.append((first, letter[first]))
    wanted = [(1, "A"), (2, "A")] if letters == "slot" else [(1, "A"), (2, "A"), (1, "B"), (2, "B")]
    assert seen == wanted


def test_the_tie_stands_last_and_values_are_candidates():
    assert [o.values((0, 1, 2)) for o in pairs.orders("slot", True)] == [(1, 2, 0), (2, 1, 0)]
    assert [o.values((1, 2)) for o in pairs.orders("slot", False)] == [(1, 2), (2, 1)]


def test_gold_and_groups_of_a_file(data):
    items = datasets.load(data).items
    assert [item.human for item in items] == [(1.0,), (2.0,), (0.0,), None]
    assert items[0].groups == {"task": "x"}
    assert set(items[0].fields) == {"instruction", "response_1", "response_2", "task"}


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"response_2": None}, ["line 1", "'response_2'", "missing"]),
        ({"response_1": "  "}, ["line 1", "'response_1'", "is empty"]),
        ({"gold": 3}, ["line 1", "'gold'", "3", "not 1, 2 or tie"]),
        ({"gold": True}, ["'gold'", "not 1, 2 or tie"]),
        ({"gold": "first"}, ["'gold'", "'first'"]),
        ({"instruction": None}, ["'instruction'", "missing"]),
    ],
)
def test_a_wrong_row_is_named(tmp_path, change, parts):
    with pytest.raises(ItemError) as caught:
        datasets.load(written(tmp_path / "p.jsonl", [{**PAIRS[0], **change}]))
    assert all(part in str(caught.value) for part in parts), str(caught.value)


def test_gold_of_a_csv(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("id,instruction,response_1,response_2,gold\na,q,x,y,2\nb,q,x,y,TIE\nc,q,x,y,\n")
    assert [item.human for item in datasets.load(str(path)).items] == [(2.0,), (0.0,), None]


def odds(run):
    """(I, O) log-odds of candidate 1 over 2."""
    return run.logp[..., -2] - run.logp[..., -1]


@pytest.mark.parametrize("ties", [False, True])
def test_what_is_planted_is_read(data, tmp_path, ties):
    run = lj.pairwise(
        "planted:slot=0.8;letter=0.3;length=0.5;tie=-1", data, labels="swap", ties=ties, out=tmp_path / "r"
    )
    found = odds(run)
    content, slot, letter = (
        found.mean(axis=1),
        (found[:, [0, 2]].mean(axis=1) - found[:, [1, 3]].mean(axis=1)) / 2,
        (found[:, [0, 3]].mean(axis=1) - found[:, [1, 2]].mean(axis=1)) / 2,
    )
    np.testing.assert_allclose(slot, 0.8, atol=1e-12)
    np.testing.assert_allclose(letter, 0.3, atol=1e-12)
    lengths = np.array([0.5 * np.log(len(row["response_1"]) / len(row["response_2"])) for row in PAIRS])
    np.testing.assert_allclose(content[:3], lengths[:3] + [1, -1, 0], atol=1e-12)
    if ties:
        middle = run.logp[..., 1:].mean(axis=-1)
        np.testing.assert_allclose((run.logp[..., 0] - middle)[:3], -1, atol=1e-12)


def test_equal_responses_differ_by_their_place_alone(data, tmp_path):
    run = lj.pairwise("planted:slot=0.8;length=2", data, out=tmp_path / "r")
    first, second = odds(run)[2]
    assert first == pytest.approx(0.8)
    assert second == pytest.approx(-0.8)


def test_the_run_folder(data, tmp_path):
    run = lj.pairwise("planted:slot=1", data, ties=True, criteria="Which is shorter?", out=tmp_path / "r")
    assert run.provenance["kind"] == "pairwise"
    assert run.rubric is None
    assert run.scores.tolist() == [0, 1, 2]
    assert run.items[0].fields["criteria"] == "Which is shorter?"
    frame = run.readings()
    assert [list(row) for row in frame["ordering"][:2]] == [[1, 2, 0], [2, 1, 0]]
    assert [list(row) for row in frame["labels"][:2]] == [[1, 2, 0], [1, 2, 0]]
    again = lj.pairwise("planted:slot=1", data, ties=True, criteria="Which is shorter?", out=tmp_path / "r")
    np.testing.assert_array_equal(again.logp, run.logp)


@pytest.mark.parametrize("change", [{"ties": True}, {"labels": "swap"}, {"criteria": "Which is longer?"}])
def test_another_setting_is_another_run(data, tmp_path, change):
    lj.pairwise("planted:slot=1", data, out=tmp_path / "r")
    with pytest.raises(RunFolderError, match="another setting"):
        lj.pairwise("planted:slot=1", data, out=tmp_path / "r", **change)


def test_pairs_are_no_items_of_a_rubric_and_the_other_way_round(data):
    with pytest.raises(InputError, match="item 'a' is a pair"):
        lj.judge("planted:quality_sd=1", data, rubric="helpfulness")
    with pytest.raises(ItemError, match="is no pair"):
        lj.pairwise("planted:slot=1", "demo")
    with pytest.raises(InputError, match="no --trace shared"):
        lj.pairwise("planted:slot=1", data, trace="shared")
    with pytest.raises(InputError, match="'swap'"):
        lj.pairwise("planted:slot=1", data, labels="swop")


def test_a_name_in_a_text_is_not_blind(tmp_path):
    row = {**PAIRS[0], "response_2": "I am Llama-3, hello", "model_1": "GPT-4", "model_2": "llama-3"}
    with pytest.warns(UserWarning, match="not blind: in 1 pairs .the first: 'a'"):
        lj.pairwise("planted:slot=1", written(tmp_path / "p.jsonl", [row, PAIRS[1]]), out=tmp_path / "r")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other = {**row, "response_2": "I am Llama-31, hello"}
        lj.pairwise("planted:slot=1", written(tmp_path / "q.jsonl", [other]), out=tmp_path / "s")


def test_an_empty_response_of_a_data_set_is_refused_and_listed(tmp_path):
    rows = [{"input": "q", "output_1": "x", "output_2": text, "label": 1} for text in ("y", " \n ")]
    (tmp_path / "LLMBar_Natural.json").write_text(json.dumps(rows))
    run = lj.pairwise("planted:slot=1", f"llmbar:{tmp_path}", out=tmp_path / "r")
    assert [item.id for item in run.items] == ["LLMBar_Natural-0"]
    assert run.refused[0]["id"] == "LLMBar_Natural-1"
    assert "response_2 holds nothing" in run.refused[0]["reason"]
    assert len(store.read_items(tmp_path / "r")) == 2


def test_original_folders_name_the_subsets(tmp_path):
    row = {"input": "q", "output_1": "x", "output_2": "y", "label": 1}
    for n, part in enumerate(("LLMBar/Natural", "LLMBar/Adversarial/Manual", "CaseStudy/Negation", "CaseStudy/Normal")):
        folder = tmp_path / "Dataset" / part
        folder.mkdir(parents=True)
        (folder / "dataset.json").write_text(json.dumps([{**row, "input": f"q{n}"}]))
    core = datasets.load(f"llmbar:{tmp_path / 'Dataset'}").items
    assert [item.id for item in core] == ["LLMBar_Adversarial_Manual-0", "LLMBar_Natural-0"]
    couple = datasets.load(f"llmbar:{tmp_path / 'Dataset'}?subsets=CaseStudy_Negation,CaseStudy_Normal").items
    assert {item.groups["couple"] for item in couple} == {item.cluster for item in couple} == {"negation-0"}
    with pytest.raises(InputError, match="Did you mean 'LLMBar_Natural'"):
        datasets.load(f"llmbar:{tmp_path / 'Dataset'}?subsets=LLMBar_Naturl")


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("spec", "tidy", "count"),
    [
        ("llmbar:{}/llmbar?subsets=all", "llmbar", 1200),
        ("llmbar:{}/llmbar", "llmbar", 419),
        ("evalbiasbench:{}/evalbiasbench/biasbench.json", "evalbiasbench", 80),
    ],
)
def test_the_originals_are_as_the_tidy_files_have_them(shared, spec, tidy, count):
    items = datasets.load(spec.format(shared / "data")).items
    assert len(items) == count
    rows = [json.loads(line) for line in (shared / "data" / tidy / "tidy_pairs.jsonl").read_text().splitlines()]
    known = {(r["subset"], r["instruction"], r["response_1"], r["response_2"], r["gold"]) for r in rows}
    for item in items:
        fields = item.fields
        assert (
            item.groups["subset"], fields["instruction"], fields["response_1"], fields["response_2"], item.human[0],
        ) in known  # fmt: skip


def test_the_command_and_its_prompts(data, tmp_path, capsys):
    folder = str(tmp_path / "r")
    assert cli.main(["pairwise", "--model", "planted:slot=1", "--data", data, "--labels", "swap", "--out", folder]) == 0
    capsys.readouterr()
    args = ["prompts", folder, "--item", "b", "--ordering", "2,1"]
    assert cli.main([*args, "--labels", "B,A"]) == 0
    text = capsys.readouterr().out
    assert "###Response B:\n1 2 3" in text
    assert "###Response A:\n1 2 4" in text
    assert cli.main([*args, "--labels", "A,A"]) == 2
    assert "It has: A,B; B,A" in capsys.readouterr().err
    criteria = tmp_path / "criteria.txt"
    criteria.write_text("Which is shorter?\n")
    assert (
        cli.main(
            [
                "pairwise",
                "--model",
                "planted:slot=1",
                "--data",
                data,
                "--criteria",
                str(criteria),
                "--out",
                folder + "2",
            ]
        )
        == 0
    )
    assert lj.load_run(folder + "2").items[0].fields["criteria"] == "Which is shorter?"


POINTS = "- {name: Policy accuracy, points: 5}\n- {name: clarity, points: 2, text: Clear and short.}\n"


def test_a_folder_of_points_is_of_one_judge_and_one_list_of_criteria(data, tmp_path, capsys):
    (tmp_path / "points.yaml").write_text(POINTS)
    (tmp_path / "fewer.yaml").write_text(POINTS.splitlines()[0])
    read = partial(scored.scored_pairs, "planted:quality_sd=1", data, out=tmp_path / "r")
    read(points=tmp_path / "points.yaml")
    with pytest.raises(RunFolderError, match="was made with other criteria"):
        read(points=tmp_path / "fewer.yaml")
    with pytest.raises(InputError, match="position"):  # the second criterion has fewer points than places
        scored.scored_pairs(
            "planted:position=9,0,0,0,0,0", data, points=tmp_path / "points.yaml", out=tmp_path / "r", overwrite=True
        )
    with pytest.raises(RunFolderError, match="is not finished"):
        scored.load_scored(tmp_path / "r")
    read(points=tmp_path / "points.yaml", overwrite=True)
    assert cli.main(["show", str(tmp_path / "r"), "--min-mass", "0.8"]) == 2
    assert "--min-mass means nothing" in capsys.readouterr().err
    manifest = json.loads((tmp_path / "r" / "scored.json").read_text())
    del manifest["finished"]  # as it was written before there was a word for half-made ones
    (tmp_path / "r" / "scored.json").write_text(json.dumps(manifest))
    assert len(scored.load_scored(tmp_path / "r").criteria) == 2
    made = json.loads((tmp_path / "r" / "clarity" / "run.json").read_text())
    made["identity"]["fingerprint"] = "another"
    (tmp_path / "r" / "clarity" / "run.json").write_text(json.dumps(made))
    with pytest.raises(RunFolderError, match="2 different judges"):
        scored.load_scored(tmp_path / "r")
    read(points=tmp_path / "fewer.yaml", overwrite=True)
    assert not (tmp_path / "r" / "clarity").exists()
    lj.pairwise("planted:quality_sd=1", data, out=tmp_path / "p")
    with pytest.raises(RunFolderError, match="holds a run of its own"):
        scored.scored_pairs("planted:", data, points=tmp_path / "points.yaml", out=tmp_path / "p")


def test_points_are_read_for_both_candidates_in_both_orders(data, tmp_path):
    (tmp_path / "points.yaml").write_text(POINTS)
    made = scored.scored_pairs("planted:quality_sd=1", data, points=tmp_path / "points.yaml", out=tmp_path / "r")
    assert made.ids == ("a", "b", "c", "d")
    run = lj.load_run(tmp_path / "r" / "policy-accuracy")
    place = {item.id: n for n, item in enumerate(run.items)}
    for o, order in enumerate(("12", "21")):
        for k in (1, 2):
            probs = run.probs()[place[f"b/{k}/{order}"], 0]
            np.testing.assert_allclose(made.dists[0][1, o, k - 1], probs)
            assert made.expected[0, 1, o, k - 1] == pytest.approx(probs @ np.arange(6))
    item = run.items[place["b/2/21"]]
    assert (item.fields["first"], item.fields["second"], item.fields["letter"]) == ("1 2 3", "1 2 4", "A")
    assert "- Policy accuracy (0 to 5 points)\n- clarity (0 to 2 points): Clear and short." in item.fields["criteria"]


def test_a_total_is_the_sum_of_independent_points():
    one = np.array([[[[0.5, 0.5], [0.25, 0.75]], [[1.0, 0.0], [0.0, 1.0]]]])
    two = np.array([[[[0.2, 0.3, 0.5], [1.0, 0, 0]], [[0, 1.0, 0], [0, 0, 1.0]]]])
    criteria = (scored.Criterion("x", 1), scored.Criterion("y", 2))
    made = scored.Scored(("a",), ("a",), criteria, (one, two))
    np.testing.assert_allclose(made.total_dist()[0, 0, 0], [0.1, 0.25, 0.4, 0.25])
    np.testing.assert_allclose(made.total_dist()[0, 1, 1], [0, 0, 0, 1])
    np.testing.assert_allclose(made.totals[0], [[0.5 + 1.3, 0.75], [1.0, 3.0]])


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("- {name: x, points: 0}", "points 0"),
        ("- {name: x, points: 3, weight: 2}", "weight"),
        ("- {points: 3}", "name None"),
        ("- {name: a b, points: 3}\n- {name: a-b, points: 3}", "two criteria of one name"),
        ("criteria: []", "no list of criteria"),
        ("- [", "cannot be read as YAML"),
        ("- x", "not a mapping"),
    ],
)
def test_wrong_points_are_named(tmp_path, text, part):
    (tmp_path / "p.yaml").write_text(text)
    with pytest.raises(RubricError, match=part):
        scored.criteria_of(tmp_path / "p.yaml")


@pytest.fixture
def judged(data, tmp_path):
    folder = tmp_path / "judged"
    lj.pairwise("planted:slot=1.2;letter=0.1", data, out=folder)
    return str(folder)


def test_show_prints_what_the_measures_say(judged, capsys):
    assert cli.main(["show", judged]) == 0
    text = capsys.readouterr().out
    assert "4 pairs in 4 clusters x both orders, letters by slot = 8 readings" in text
    assert "first slot including its letter" in text
    assert cli.main(["show", judged, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["kind"] == "pairwise"
    assert made["pairwise"]["stability"]["position"]["value"] == pytest.approx(1.3)
    assert made["pairwise"]["inconclusive"]["pairs"] == 4  # content of 1 nat, position of 1.3


def test_inconclusive_pairs_are_written_for_people_worst_first(judged, tmp_path, capsys):
    for name in ("review.jsonl", "review.csv"):
        assert cli.main(["export", judged, "--review", str(tmp_path / name)]) == 0
    rows = [json.loads(line) for line in (tmp_path / "review.jsonl").read_text().splitlines()]
    assert {row["id"] for row in rows} == {"a", "b", "c", "d"}
    wrong = [row["contradiction"] for row in rows]
    assert wrong == sorted(wrong, reverse=True)
    assert rows[0]["response_2"]
    assert (tmp_path / "review.csv").read_text().startswith("id,instruction,response_1,response_2")
    capsys.readouterr()
    assert cli.main(["export", judged, "--scores", str(tmp_path / "s.csv")]) == 2
    assert "this is a pairwise run" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [["select"], ["compare"], ["plan"], ["plot", "matrix"], ["detect", "--scores", "x.csv", "--ordering", "1,2"]],
)
def test_what_is_of_rubrics_is_refused(judged, tmp_path, capsys, command):
    out = ["--out", str(tmp_path / "m.png")] if command[0] == "plot" else []
    args = [command[0], *command[1:2], judged, *out] if command[0] == "plot" else [command[0], judged, *command[1:]]
    assert cli.main(args) == 2
    assert "this is a pairwise run" in capsys.readouterr().err


def test_a_report_of_pairs(judged, data, tmp_path, capsys):
    other = tmp_path / "other"
    lj.pairwise("planted:slot=-0.4;tie=-1", data, ties=True, labels="swap", out=other)
    assert cli.main(["report", judged, str(other), "--out", str(tmp_path / "r.html")]) == 0
    text = (tmp_path / "r.html").read_text()
    assert "order of two responses" in text
    assert "It prefers what is shown second" in text
    capsys.readouterr()
    assert cli.main(["report", judged, "--json"]) == 0
    (made,) = json.loads(capsys.readouterr().out)
    assert made["verdict"][0].startswith("The verdict changes with the order of the responses in 100.0%")
    rows = {item["id"]: item["orderings"] for item in made["items"]}
    probs = lj.load_run(judged).probs()
    assert [row["ordering"] for row in rows["b"]] == [["1 as A", "2 as B"], ["2 as A", "1 as B"]]
    np.testing.assert_allclose([row["probs"] for row in rows["b"]], probs[1], atol=5e-5)
    np.testing.assert_allclose([row["expected"] for row in rows["b"]], 1 + probs[1, :, 1], atol=5e-5)
    rubric = tmp_path / "rubric"
    lj.judge("planted:quality_sd=1", "demo", limit=3, out=rubric)
    assert cli.main(["report", judged, str(rubric), "--out", str(tmp_path / "x.html")]) == 2
    assert "Make a report of each kind" in capsys.readouterr().err
    assert cli.main(["plot", "pairs", judged, "--out", str(tmp_path / "p.png")]) == 0
    assert cli.main(["plot", "pairs", str(rubric), "--out", str(tmp_path / "p.png")]) == 2


def test_calibrate(judged, data, tmp_path, capsys):
    other = tmp_path / "other"
    lj.pairwise("planted:slot=-0.4", data, out=other)
    assert cli.main(["calibrate", judged, str(other), "--json", "--disagreements", str(tmp_path / "d.csv")]) == 0
    made = json.loads(capsys.readouterr().out)
    assert list(made["judges"]) == ["judged", "other"]
    assert "reason" not in made["panel"]
    assert (tmp_path / "d.csv").exists()
    assert cli.main(["calibrate", judged]) == 0
    assert "Agreement with gold" in capsys.readouterr().out
    assert cli.main(["calibrate", judged, "--target", "1.5"]) == 2
    assert cli.main(["calibrate", judged, judged]) == 2
    assert cli.main(["calibrate", judged, "--rule", "log_od"]) == 2
    assert "log_odds" in capsys.readouterr().err


def test_the_command_of_points(data, tmp_path, capsys):
    (tmp_path / "points.yaml").write_text(POINTS)
    args = ["pairwise", "--model", "planted:quality_sd=1", "--data", data, "--points", str(tmp_path / "points.yaml")]
    assert cli.main([*args, "--out", str(tmp_path / "r")]) == 0
    capsys.readouterr()
    assert cli.main(["show", str(tmp_path / "r")]) == 0
    assert "total (7)" in capsys.readouterr().out
    assert cli.main(["show", str(tmp_path / "r"), "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    points = scored.load_scored(tmp_path / "r")
    np.testing.assert_allclose(made["total"]["mean"], points.totals.mean(axis=0))
    assert made["list"][0]["order"] == pytest.approx(
        max(one["order"] for one in made["list"])
        if made["list"][0]["order"] > 0
        else min(one["order"] for one in made["list"])
    )
    assert cli.main([*args, "--ties", "--out", str(tmp_path / "s")]) == 2


def test_a_response_beside_a_pair_is_refused_and_couples_are_clusters(tmp_path):
    path = tmp_path / "pairs.jsonl"
    row = {"id": "a", "instruction": "Say it.", "response_1": "x", "response_2": "y", "gold": 1, "couple": "c"}
    path.write_text(
        "".join(json.dumps({**row, "id": name, **more}) + "\n" for name, more in (("a", {}), ("b", {"cluster": "k"})))
    )
    assert [item.cluster for item in datasets.load(str(path)).items] == ["couple c", "k"]
    path.write_text(json.dumps({**row, "response": "z"}))
    with pytest.raises(InputError, match="line 1, field 'response'.*a row is one response, or a pair"):
        datasets.load(str(path))


@pytest.mark.parametrize(
    ("template", "ties", "text"), [("pairwise_ties", False, "--ties"), ("pairwise", True, "leave --ties out")]
)
def test_a_template_and_ties_must_not_contradict(data, template, ties, text):
    with pytest.raises(InputError, match=text):
        lj.pairwise("planted:", data, template=template, ties=ties)


def test_a_frame_says_which_letters_were_printed(data, tmp_path):
    frame = lj.pairwise("planted:slot=1", data, labels="swap", out=tmp_path / "r").to_frame()
    assert not frame.duplicated(["item", "ordering", "labels", "score"]).any()
    assert set(frame["labels"]) == {"1,2", "2,1"}
    assert set(lj.pairwise("planted:slot=1", data, out=tmp_path / "s").to_frame()["labels"]) == {"1,2"}
    assert "labels" not in lj.judge("planted:", "demo", limit=2, out=tmp_path / "t").to_frame()


def test_verdicts_of_pairs_have_no_correlation(data, tmp_path):
    with pytest.raises(InputError, match="calibrate"):
        lj.agreement(lj.pairwise("planted:slot=1", data, out=tmp_path / "r"))


@pytest.mark.parametrize("ties", [False, True])
def test_the_report_says_of_ties_only_where_one_could_be_answered(data, tmp_path, ties):
    run = lj.pairwise("planted:slot=3", data, ties=ties, out=tmp_path / "r")
    assert ("(ties left aside)" in " ".join(pair_page.page(run, "r")["verdict"])) == ties
