import json

import pytest

from logitjudge import rubrics
from logitjudge.core import Level, Rubric
from logitjudge.errors import RubricError

GOOD = """
name: tone
criterion: Is the tone right?
levels:
  - {score: 0, text: "Rude."}
  - {score: 2, text: "Neutral.", option: so-so}
  - {score: 5, text: "Friendly."}
"""


@pytest.fixture
def write(tmp_path):
    def to_file(text, name="mine.yaml"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return to_file


def prometheus(**fields):
    return json.dumps({"criteria": "Is it good?", "score1_description": "bad", "score2_description": "good"} | fields)


# --- what can be read ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", rubrics.names())
def test_a_shipped_rubric_loads_under_its_own_name(name):
    assert rubrics.load(name).name == name


def test_the_scale_from_0_to_10_is_shipped():
    assert rubrics.load("likert_0_10").scores == tuple(range(11))


def test_a_scale_with_verbal_options_is_shipped():
    assert [level.option for level in rubrics.load("verbal").levels][::4] == ["Very poor", "Very good"]


def test_yaml(write):
    assert rubrics.load(write(GOOD)) == Rubric(
        "tone", "Is the tone right?", (Level(0, "Rude."), Level(2, "Neutral.", "so-so"), Level(5, "Friendly."))
    )


@pytest.mark.parametrize("as_path", [str, lambda path: path])
def test_a_file_is_given_as_text_or_as_path(write, as_path):
    assert rubrics.load(as_path(write(GOOD, "a.yml"))).name == "tone"


def test_a_yaml_rubric_may_be_written_as_json(write):
    text = json.dumps({"criterion": "c", "levels": [{"score": 1, "text": "a"}, {"score": 2, "text": "b"}]})
    assert rubrics.load(write(text, "mine.json")).scores == (1, 2)


def test_without_a_name_a_rubric_is_called_like_its_file(write):
    assert rubrics.load(write(GOOD.replace("name: tone", ""))).name == "mine"


def test_levels_are_put_into_score_order(write):
    text = "criterion: c\nlevels:\n  - {score: 3, text: c}\n  - {score: 1, text: a}\n  - {score: 2, text: b}\n"
    assert [(level.score, level.text) for level in rubrics.load(write(text)).levels] == [(1, "a"), (2, "b"), (3, "c")]


def test_prometheus_json(write):
    path = write(prometheus(score3_description="very good"), "p.json")
    assert rubrics.load(path) == Rubric("p", "Is it good?", (Level(1, "bad"), Level(2, "good"), Level(3, "very good")))


def test_prometheus_scores_are_ordered_as_numbers(write):
    fields = {f"score{score}_description": f"level {score}" for score in range(10, -1, -1)}
    path = write(json.dumps({"criteria": "c", **fields}), "p.json")
    assert [level.text for level in rubrics.load(path).levels] == [f"level {score}" for score in range(11)]


def test_a_scale_of_1_to_100_in_steps(write):
    rows = "".join(f"  - {{score: {score}, text: level {score}}}\n" for score in (1, 25, 50, 75, 100))
    assert rubrics.load(write(f"criterion: c\nlevels:\n{rows}")).scores == (1, 25, 50, 75, 100)


def test_text_is_kept_as_it_is(write):
    text = 'criterion: "Ist es gut? 好的 {{ x }} <b>"\nlevels:\n  - {score: 1, text: "ä % {# c #}"}\n'
    rubric = rubrics.load(write(text + '  - {score: 2, text: "b"}\n'))
    assert (rubric.criterion, rubric.levels[0].text) == ("Ist es gut? 好的 {{ x }} <b>", "ä % {# c #}")


@pytest.mark.parametrize("name", rubrics.names())
def test_a_rubric_is_read_back_from_its_plain_values(name):
    rubric = rubrics.load(name)
    assert rubrics.from_dict(json.loads(json.dumps(rubric.to_dict()))) == rubric


# --- what cannot ---------------------------------------------------------------------------------------------------


def level(score, text="a", **more):
    return {"score": score, "text": text, **more}


def yaml_of(*levels, criterion="c", **more):
    return json.dumps({"criterion": criterion, "levels": list(levels), **more})


BAD = {
    "one level": (yaml_of(level(1)), r"1 level\(s\)"),
    "no levels": (yaml_of(), r"0 level\(s\)"),
    "levels missing": ('{"criterion": "c"}', "'levels'"),
    "levels a mapping": ("criterion: c\nlevels: {1: a, 2: b}", "'levels'"),
    "equal scores": (yaml_of(level(1), level(1, "b")), "two levels with score 1"),
    "equal texts": (yaml_of(level(1), level(2)), "two levels with the text 'a'"),
    "equal options": (yaml_of(level(1, option="x"), level(2, "b", option="x")), "two levels with the option 'x'"),
    "score not whole": (yaml_of(level(1.5), level(2, "b")), "score 1.5"),
    "score a text": (yaml_of(level("1"), level(2, "b")), "score '1'"),
    "score true": (yaml_of(level(True), level(2, "b")), "score True"),
    "text missing": (yaml_of({"score": 1}, level(2, "b")), "'score': 1"),
    "text empty": (yaml_of(level(1, " "), level(2, "b")), "score 1 has no text"),
    "text null": (yaml_of(level(1, None), level(2, "b")), "score 1 has no text"),
    "text a number": (yaml_of(level(1, 7), level(2, "b")), "score 1 has no text"),
    "level a text": (yaml_of("bad", level(2, "b")), "level 'bad'"),
    "level with a stray field": (yaml_of(level(1, weight=2), level(2, "b")), "'weight'"),
    "option blank": (yaml_of(level(1, option=" "), level(2, "b")), "option of score 1"),
    "criterion missing": (json.dumps({"levels": [level(1), level(2, "b")]}), "no criterion"),
    "criterion empty": (yaml_of(level(1), level(2, "b"), criterion=" "), "no criterion"),
    "stray field": (yaml_of(level(1), level(2, "b"), scale=5), "unknown field 'scale'"),
    "field twice": ("criterion: a\ncriterion: b\nlevels: []", "'criterion' is given twice"),
    "a list": ("- 1\n- 2\n", "not a mapping"),
    "a text": ("just words", "not a mapping"),
    "empty": ("", "not a mapping"),
    "not YAML": ("criterion: [", "not valid YAML"),
    "an object of Python": ("!!python/object/apply:os.getcwd []", "not valid YAML"),
    "not UTF-8": ("criterion: ä".encode("latin-1"), "not UTF-8"),
}


@pytest.mark.parametrize(("text", "words"), BAD.values(), ids=list(BAD))
def test_a_bad_file_names_itself_and_what_is_wrong(write, text, words):
    path = write(text)
    with pytest.raises(RubricError, match=words) as error:
        rubrics.load(path)
    assert str(path) in str(error.value)


BAD_JSON = {
    "not JSON": ("{", "not valid JSON"),
    "empty": ("", "not valid JSON"),
    "one level": (json.dumps({"criteria": "c", "score1_description": "a"}), r"1 level\(s\)"),
    "no criteria": (json.dumps({"score1_description": "a", "score2_description": "b"}), "no criterion"),
    "equal texts": (prometheus(score2_description="bad"), "text 'bad'"),
    "text empty": (prometheus(score2_description=""), "score 2 has no text"),
    "text null": (prometheus(score1_description=None), "score 1 has no text"),
    "equal scores": ('{"criteria": "c", "score1_description": "a", "score1_description": "b"}', "given twice"),
    "equal scores written otherwise": (prometheus(score01_description="x"), "two levels with score 1"),
    "a misspelt field": (prometheus(score3_descripton="x"), "unknown field 'score3_descripton'"),
    "the other format's field": (prometheus(levels=[]), "unknown field 'levels'"),
}


@pytest.mark.parametrize(("text", "words"), BAD_JSON.values(), ids=list(BAD_JSON))
def test_bad_json_names_itself_and_what_is_wrong(write, text, words):
    path = write(text, "mine.json")
    with pytest.raises(RubricError, match=words) as error:
        rubrics.load(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("word", ["no", "yes", "on", "true"])
def test_an_option_that_yaml_takes_for_a_truth_value_is_not_renamed(write, word):
    text = f"criterion: c\nlevels:\n  - {{score: 1, text: a, option: {word}}}\n  - {{score: 2, text: b}}\n"
    with pytest.raises(RubricError, match="option of score 1 .* quotes"):
        rubrics.load(write(text))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(RubricError, match="cannot be read: No such file"):
        rubrics.load(tmp_path / "no.yaml")


def test_a_folder_is_no_rubric(tmp_path):
    with pytest.raises(RubricError, match="cannot be read"):
        rubrics.load(tmp_path)


def test_an_unknown_name_gets_the_nearest_and_all():
    with pytest.raises(RubricError, match="Did you mean 'helpfulness'") as error:
        rubrics.load("helpfullness")
    assert all(name in str(error.value) for name in rubrics.names())


@pytest.mark.parametrize("option", ["no", "01", "1:30", "1.50", "7"])
def test_an_option_that_yaml_reads_as_something_else_must_be_quoted(tmp_path, option):
    path = tmp_path / "r.yaml"
    path.write_text(f"criterion: Is it?\nlevels:\n- {{score: 1, text: a, option: {option}}}\n- {{score: 2, text: b}}\n")
    with pytest.raises(RubricError, match="quotes"):
        rubrics.load(path)


@pytest.mark.parametrize("text", ["? [1, 2]\n: 3", "[" * 3000])
def test_yaml_that_is_no_rubric_at_all(tmp_path, text):
    path = tmp_path / "r.yaml"
    path.write_text(text)
    with pytest.raises(RubricError, match=r"r\.yaml"):
        rubrics.load(path)


def test_a_score_beyond_32_bits():
    with pytest.raises(RubricError, match="32 bits"):
        rubrics.from_dict({"criterion": "c", "levels": [{"score": 1, "text": "a"}, {"score": 2**40, "text": "b"}]})
