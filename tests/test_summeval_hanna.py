"""SummEval and HANNA, from their original files: small ones made here, and (marked shared_data) the real ones."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from logitjudge import datasets
from logitjudge.errors import InputError, ItemError

SHARED = Path(__file__).parents[2] / "shared" / "data"
CRITERIA = ("Relevance", "Coherence", "Empathy", "Surprise", "Engagement", "Complexity")


def annotation(article, system, **change):
    rating = {"coherence": 4, "consistency": 5, "fluency": 5, "relevance": 3}
    row = {
        "id": article,
        "model_id": system,
        "decoded": f"Summary of {article} by {system}.",
        "text": f"Article {article}.",
    }
    return {**row, "expert_annotations": [rating, {**rating, "coherence": 2}, rating], **change}


@pytest.fixture
def summeval(tmp_path):
    for system in ("M8", "M10", "M17"):
        rows = [annotation(f"a{n}", system) for n in range(4)]
        (tmp_path / f"{system}_outputs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_an_item_is_an_article_a_system_and_a_criterion(summeval):
    made = datasets.load(f"summeval:{summeval}")
    assert len(made.items) == 4 * 3 * 4
    assert (made.ratings_name, made.raters) == ("human experts", "same")
    item = {item.id: item for item in made.items}["a1-M8-coherence"]
    assert item.human == (4.0, 2.0, 4.0)
    assert item.cluster == "a1"
    assert item.groups == {"system": "M8", "criterion": "coherence", "document": "a1"}
    assert item.fields == {"instruction": "Summarise this article.\n\nArticle a1.", "response": "Summary of a1 by M8."}
    assert item.rubric.scores == (1, 2, 3, 4, 5)
    assert "logitjudge's wording" in item.rubric.name


def test_systems_and_criteria_are_chosen_and_take_turns(summeval):
    made = datasets.load(f"summeval:{summeval}?systems=M17,M8&criteria=fluency,coherence&rotate=true")
    assert [item.id for item in made.items] == [
        f"a{n}-{system}-{criterion}"
        for n, system in enumerate(("M17", "M8", "M17", "M8"))
        for criterion in ("fluency", "coherence")
    ]
    assert len(datasets.load(f"summeval:{summeval / 'M8_outputs.jsonl'}?criteria=coherence").items) == 4


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("systems=M18", "unknown system 'M18'. Did you mean"),
        ("criteria=coherance", "unknown criterion 'coherance'. Did you mean 'coherence'"),
        ("systems=M8,M8", "named twice"),
        ("rotate=maybe", "Write true or false"),
        ("rotation=true", "unknown option 'rotation'. Did you mean 'rotate'"),
    ],
)
def test_a_wrong_option_is_named(summeval, query, message):
    with pytest.raises(InputError, match=message):
        datasets.load(f"summeval:{summeval}?{query}")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text": ""}, r"line 1, field 'text': '' is not an article. Pair the annotations"),
        ({"expert_annotations": None}, "field 'expert_annotations': None is no list"),
        ({"expert_annotations": [{"fluency": 1}]}, "no list of ratings of 'coherence'"),
        ({"expert_annotations": [{"coherence": "good"}]}, "'good' is not a finite number"),
        ({"model_id": 8}, "field 'model_id': 8 is not a system"),
    ],
)
def test_a_wrong_row_is_named(tmp_path, change, message):
    path = tmp_path / "one.jsonl"
    path.write_text(json.dumps(annotation("a", "M8", **change)) + "\n")
    with pytest.raises(ItemError, match=message):
        datasets.load(f"summeval:{path}?criteria=coherence")


def test_a_summary_that_comes_twice_is_named(tmp_path):
    path = tmp_path / "one.jsonl"
    path.write_text((json.dumps(annotation("a", "M8")) + "\n") * 2)
    with pytest.raises(ItemError, match="comes twice"):
        datasets.load(f"summeval:{path}")


def test_a_turn_needs_its_summary(summeval):
    path = summeval / "M10_outputs.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:1]))
    with pytest.raises(ItemError, match=r"article 'a1' has nothing by 'M10', whose turn it is; it has M17, M8"):
        datasets.load(f"summeval:{summeval}?systems=M8,M10&rotate=true")
    assert len(datasets.load(f"summeval:{summeval}?systems=M8,M10").items) == (4 + 1) * 4


def hanna_csv(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["Story ID", "Prompt", "Story", "Model", *CRITERIA])
        writer.writerows(rows)
    return path


def test_hanna_s_own_file_has_a_row_a_rating(tmp_path):
    rows = [
        [n, f"Prompt {p}", f"Story {p} by {model}", model, *(1 + (n + c) % 5 for c in range(6))]
        for n, (p, model) in enumerate((p, model) for p in range(2) for model in ("Human", "GPT") for _ in range(3))
    ]
    made = datasets.load(f"hanna:{hanna_csv(tmp_path / 'h.csv', rows)}?criteria=Coherence&systems=GPT")
    assert [item.id for item in made.items] == ["0-GPT-coherence", "1-GPT-coherence"]
    assert made.items[0].human == tuple(float(1 + (n + 1) % 5) for n in (3, 4, 5))
    assert (made.items[0].cluster, made.raters) == ("0", "slots")
    assert made.items[1].fields["response"] == "Story 1 by GPT"


def test_hanna_s_folder_is_its_annotations_or_the_two_files(tmp_path):
    rows = [[n, "p", f"by {m}", m, 1, 2, 3, 4, 5, 1] for n, m in enumerate(("Human", "GPT"))]
    hanna_csv(tmp_path / "hanna_stories_annotations.csv", rows)
    assert len(datasets.load(f"hanna:{tmp_path}?criteria=surprise").items) == 2
    made = datasets.load(f"hanna:{tmp_path}?systems=GPT,Human&criteria=surprise&rotate=true")
    assert [item.id for item in made.items] == ["0-GPT-surprise"]
    with pytest.raises(InputError, match=r"unknown system 'GTP'. Did you mean 'GPT'"):
        datasets.load(f"hanna:{tmp_path}?systems=GTP")
    with pytest.raises(ItemError, match="line 2, field 'Story': the story is empty"):
        datasets.load(f"hanna:{hanna_csv(tmp_path / 'e.csv', [[0, 'p', ' ', 'm', 1, 1, 1, 1, 1, 1]])}")


def two_files(folder, people):
    """The pair of smaller files, with ratings of two prompts by three raters."""
    (folder / "hanna_metric_scores_llm.csv").unlink(missing_ok=True)
    columns = [f"Human {rater} {short}" for rater in (1, 2, 3) for short in ("RE", "CH", "EM", "SU", "EG", "CX")]
    with (folder / "hanna_metric_scores_llm.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["Model", *columns], [people, *(f"[{n % 5 + 1}, 2]" for n in range(18))]])
    with (folder / "hanna_llm_stories.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["", "Prompt", "Human", "Story", "Model"])
        writer.writerows([n, f"Prompt {n % 2}", f"Story {n % 2}", "x", "Llama"] for n in range(4))


def test_the_two_files_hold_people_s_stories(tmp_path):
    two_files(tmp_path, "Human")
    for path in (tmp_path, tmp_path / "hanna_llm_stories.csv"):
        made = datasets.load(f"hanna:{path}?criteria=coherence")
        assert [(item.id, item.human) for item in made.items] == [
            ("0-Human-coherence", (2.0, 3.0, 4.0)),
            ("1-Human-coherence", (2.0, 2.0, 2.0)),
        ]
        assert made.items[1].fields["response"] == "Story 1"
        assert made.items[1].groups == {"system": "Human", "criterion": "coherence", "document": "1"}
    two_files(tmp_path, "GPT")
    with pytest.raises(ItemError, match="no ratings of the stories by 'Human'"):
        datasets.load(f"hanna:{tmp_path}")


def test_another_csv_is_not_hanna(tmp_path):
    (tmp_path / "h.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ItemError, match="no column 'Prompt'"):
        datasets.load(f"hanna:{tmp_path / 'h.csv'}")
    with pytest.raises(ItemError, match="is no rating"):
        datasets.load(f"hanna:{hanna_csv(tmp_path / 'g.csv', [[0, 'p', 's', 'm', 'x', 1, 1, 1, 1, 1]])}")


@pytest.mark.shared_data
def test_the_real_summeval_is_the_tidy_one():
    made = datasets.load(f"summeval:{SHARED / 'summeval' / 'original'}?criteria=coherence,relevance")
    assert len(made.items) == 1200 * 2
    lines = (SHARED / "summeval" / "tidy_summaries_experts.jsonl").read_text().splitlines()
    tidy = {(row["doc_id"], row["system"]): row for row in map(json.loads, lines)}
    for item in made.items:
        row = tidy[item.cluster, item.groups["system"]]
        assert item.fields["response"] == row["summary"]
    four = [np.mean(item.human) for item in made.items if item.id.endswith("M17-coherence")]
    assert np.mean(four) == pytest.approx(4.00, abs=0.005)  # DATASETS.md


@pytest.mark.shared_data
def test_the_real_hanna_is_the_tidy_one():
    made = datasets.load(f"hanna:{SHARED / 'hanna'}")
    assert len(made.items) == 96 * 6
    lines = (SHARED / "hanna" / "tidy_human_stories.jsonl").read_text().splitlines()
    tidy = {str(row["story_id"]): row for row in map(json.loads, lines)}
    for item in made.items:
        row = tidy[item.cluster]
        assert item.fields["response"] == row["story"]
        assert list(item.human) == row["ratings"][item.groups["criterion"].capitalize()]


def test_what_a_data_set_holds_is_listed(summeval, capsys):
    from logitjudge import cli

    assert cli.main(["list", "datasets", "--data", f"summeval:{summeval}", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["criterion"] for row in rows] == ["coherence", "consistency", "fluency", "relevance"]
    first = rows[0]
    assert (first["items"], first["clusters"], first["systems"], first["raters"], first["scale"]) == (
        12,
        4,
        3,
        3,
        [1, 5],
    )
    assert first["mean"] == pytest.approx(10 / 3)
    assert cli.main(["list", "datasets", "--data", f"summeval:{summeval}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:6] == ["coherence", "12", "4", "3", "3", "1-5"]
    assert max(map(len, lines)) <= 80
    assert cli.main(["list", "rubrics", "--data", "demo"]) == 2
    assert "go together with 'datasets'" in capsys.readouterr().err
