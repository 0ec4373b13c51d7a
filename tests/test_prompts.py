import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from logitjudge import prompts, rubrics
from logitjudge.core import Item, Level, Ordering, Rubric
from logitjudge.errors import TemplateError
from logitjudge.orderings import parse
from logitjudge.prompts import MissingField, check, render
from logitjudge.study import study

GOLDEN = Path(__file__).parent / "golden" / "prompts"
ITEM = Item("a", {"instruction": "Name a prime number.", "response": "It is 7.", "reference": "2 is a prime."})
WITHOUT = Item("b", {name: text for name, text in ITEM.fields.items() if name != "reference"})
FIVE = Rubric("five", "Is it right?", tuple(Level(s, f"text of {s}") for s in range(1, 6)))
VERBAL = Rubric(
    "v", "Is it right?", tuple(Level(s, f"text of {s}", o) for s, o in enumerate(["poor", "so-so", "good"]))
)
IDENTITY = Ordering(tuple(range(5)))
BODY = "{{ instruction }}\n{{ levels }}\n"


def printed(template, item=ITEM, rubric=FIVE, ordering=IDENTITY):
    return render(template, item, rubric, ordering).messages[-1].content


def body_of(source, **fields):
    return printed(prompts.parse(source), Item("a", {**ITEM.fields, **fields}))


# --- golden prompts ------------------------------------------------------------------------------------------------


def reverse(rubric):
    return parse("reverse", rubric.scores)[0]


def golden_cases():
    five, ten, verbal = (rubrics.load(name) for name in ("helpfulness", "likert_0_10", "verbal"))
    orderings = {rubric.name: parse("identity", rubric.scores)[0] for rubric in (five, ten, verbal)}
    return {
        "with_reference": (ITEM, five, orderings[five.name]),
        "without_reference": (WITHOUT, five, orderings[five.name]),
        "reversed": (ITEM, five, reverse(five)),
        "scale_0_10": (ITEM, ten, orderings[ten.name]),
        "verbal_reversed": (WITHOUT, verbal, reverse(verbal)),
    }


@pytest.mark.parametrize("name", golden_cases())
def test_golden_prompt(name):
    prompt = render(prompts.load("prometheus"), *golden_cases()[name])
    turns = "".join(f"<<{message.role}>>\n{message.content}\n" for message in prompt.messages)
    text = f"{turns}<<prefill>>\n{prompt.prefill}\n<<options>>\n{'|'.join(prompt.options)}\n"
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("LOGITJUDGE_WRITE_GOLDEN") == "1":  # after a change of wording that is meant: look at the diff
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_sections_stand_in_the_order_of_the_layout():
    headers = re.findall(r"^###.*$", printed(prompts.load("prometheus")), re.MULTILINE)
    assert headers == [
        "###Task Description:",
        "###The instruction to evaluate:",
        "###Response to evaluate:",
        "###Reference Answer (Score 5):",
        "###Score Rubrics:",
        "###Score:",
    ]


def test_an_item_without_a_reference_gets_no_word_of_one():
    assert "reference" not in printed(prompts.load("prometheus"), WITHOUT).lower()


# --- the prompt shows what the ordering says -----------------------------------------------------------------------


def level_lines(prompt):
    """(label, text) of each level line, first position first."""
    return re.findall(r"^Score (.+?): (text of .+)$", prompt.messages[-1].content, re.MULTILINE)


def assert_shows(rubric, ordering):
    """The lines are the ordering, and the option of each score stands on the line with its text."""
    prompt = render(prompts.load("prometheus"), ITEM, rubric, ordering)
    lines = level_lines(prompt)
    score_of = {level.text: level.score for level in rubric.levels}
    assert [score_of[text] for _, text in lines] == list(ordering.values(rubric.scores))
    on_line = {text: label for label, text in lines}
    assert [on_line[level.text] for level in rubric.levels] == list(prompt.options)


@pytest.mark.parametrize("ordering", parse("balanced", FIVE.scores), ids=str)
def test_the_score_lines_are_the_ordering(ordering):
    lines = level_lines(render(prompts.load("prometheus"), ITEM, FIVE, ordering))
    assert [int(label) for label, _ in lines] == list(ordering.values(FIVE.scores))


@pytest.mark.parametrize("ordering", parse("balanced", FIVE.scores), ids=str)
def test_the_option_read_for_a_score_is_on_the_line_with_its_text(ordering):
    assert_shows(FIVE, ordering)


@given(st.permutations(range(5)), st.none() | st.permutations(range(5)))
@settings(deadline=None)
def test_labels_stand_where_the_ordering_puts_them_and_are_read_for_the_level_beside_them(shown, labels):
    assert_shows(FIVE, Ordering(shown, labels))


@given(st.permutations(range(3)), st.none() | st.permutations(range(3)))
@settings(deadline=None)
def test_the_same_with_verbal_options(shown, labels):
    assert_shows(VERBAL, Ordering(shown, labels))


def test_labels_stay_when_the_levels_move():
    prompt = render(prompts.load("prometheus"), ITEM, VERBAL, Ordering((2, 0, 1), (0, 1, 2)))
    assert level_lines(prompt) == [("poor", "text of 2"), ("so-so", "text of 0"), ("good", "text of 1")]
    assert prompt.options == ("so-so", "good", "poor")


def test_the_top_score_of_the_reference_is_not_the_last_line():
    assert "###Reference Answer (Score 5):" in printed(prompts.load("prometheus"), ordering=reverse(FIVE))


OTHER_FIELDS = {
    "criteria": "- clarity",
    "first": "one",
    "second": "two",
    "letter": "A",
    "answered": "",
    "asked": "Clarity",
}


@pytest.mark.parametrize("name", prompts.names())
@pytest.mark.parametrize("item", [ITEM, WITHOUT], ids=["with reference", "without"])
@pytest.mark.parametrize("rubric", [FIVE, VERBAL, rubrics.load("likert_0_10")], ids=["5", "verbal", "0-10"])
def test_every_shipped_template_passes_its_own_check(name, item, rubric):
    check(prompts.load(name), replace(item, fields={**item.fields, **OTHER_FIELDS}), rubric)


# --- text is printed as it is --------------------------------------------------------------------------------------

UNTOUCHED = [
    "<script>alert('&')</script>",
    "{{ levels }} {% for x in y %} {# no #} {{ 7 * 7 }}",
    "日本語 🙂 e\u0301 \u200b\ufeff",
    "  ends with blanks  \n\n\tand a tab\t",
    "a\r\nb\rc",
    "\\n %s {} $x `y`",
]


@pytest.mark.parametrize("text", UNTOUCHED)
def test_a_field_is_printed_as_it_is(text):
    assert f":\n{text}\n" in printed(prompts.load("prometheus"), Item("a", {**ITEM.fields, "response": text}))


@pytest.mark.parametrize("text", UNTOUCHED)
def test_a_criterion_and_a_level_are_printed_as_they_are(text):
    rubric = Rubric("r", text, (Level(1, text + "1", f"o{text}"), Level(2, text + "2")))
    shown = printed(prompts.load("prometheus"), rubric=rubric, ordering=Ordering((0, 1)))
    assert f"[{text}]\nScore o{text}: {text}1\nScore 2: {text}2" in shown


@given(st.text(min_size=1))
@settings(deadline=None)
def test_any_text_is_printed_as_it_is(text):
    assert body_of("{{ response }}|{{ levels }}", response=text).split("|Score 1: ")[0] == text


def test_a_field_cannot_take_the_place_of_the_rubric():
    shown = body_of("{{ criterion }} {{ levels }}", criterion="mine", levels="mine")
    assert shown.startswith("Is it right? Score 1:")


# --- settings ------------------------------------------------------------------------------------------------------

SETTINGS = """---
system: Be fair.
prefill: "Answer: "
level_line: "<{{ score }}|{{ option }}> {{ text }}"
criterion_line: "Judge this: {{ criterion }}"
close: "."
verdicts:
  feedback:
    prefill: "Feedback: "
    system:
---
{{ verdict }} {{ instruction }}
{{ criterion_line }}
{{ levels }}
"""


def test_front_matter_sets_what_a_study_varies():
    prompt = render(prompts.parse(SETTINGS), ITEM, VERBAL, Ordering((2, 0, 1)))
    assert [tuple(message) for message in prompt.messages] == [
        ("system", "Be fair."),
        (
            "user",
            "direct Name a prime number.\nJudge this: Is it right?\n<2|good> text of 2\n<0|poor> text of 0\n"
            "<1|so-so> text of 1",
        ),
    ]
    assert (prompt.prefill, prompt.close) == ("Answer: ", ".")


def test_a_verdict_mode_overrides_settings():
    prompt = render(prompts.parse(SETTINGS, verdict="feedback"), ITEM, FIVE, IDENTITY)
    assert (prompt.prefill, prompt.close, [message.role for message in prompt.messages]) == (
        "Feedback: ",
        ".",
        ["user"],
    )
    assert prompt.messages[0].content.startswith("feedback ")


def test_front_matter_may_be_left_out():
    prompt = render(prompts.parse(BODY), ITEM, FIVE, IDENTITY)
    assert (len(prompt.messages), prompt.prefill, prompt.close) == (1, "", "")


def test_front_matter_of_windows():
    assert prompts.parse(SETTINGS.replace("\n", "\r\n")).prefill == "Answer: "


def test_a_rule_in_the_body_is_no_front_matter():
    assert body_of("Text\n---\n{{ levels }}\n---\n").startswith("Text\n---\nScore 1")


@pytest.mark.parametrize(
    ("front", "words"),
    [
        ("prefil: x", "unknown setting 'prefil'. Did you mean 'prefill'"),
        ("prefill: 3", "setting 'prefill' is 3, not a string"),
        ("prefill: [", "front matter is not valid YAML"),
        ("- a", "not a mapping"),
        ("verdicts:\n  direct: {prefil: x}", "verdicts: direct.*'prefil'"),
        ("verdicts:\n  direct: {close: 1}", "verdicts: direct.*setting 'close' is 1"),
        ("verdicts: [direct]", "'verdicts' is \\['direct'\\], not a mapping"),
        ("verdicts:\n  direct: x", "verdicts: direct.* is 'x', not a mapping"),
    ],
)
def test_wrong_front_matter(front, words):
    with pytest.raises(TemplateError, match=words):
        prompts.parse(f"---\n{front}\n---\n{BODY}")


# --- a user's own file ---------------------------------------------------------------------------------------------


@pytest.fixture
def write(tmp_path):
    def to_file(source):
        path = tmp_path / "mine.j2"
        path.write_bytes(source if isinstance(source, bytes) else source.encode())
        return path

    return to_file


@pytest.mark.parametrize("as_path", [str, Path])
def test_a_template_of_ones_own(write, as_path):
    template = prompts.load(as_path(write("---\nprefill: ja\n---\n" + BODY)))
    assert render(template, ITEM, FIVE, IDENTITY).prefill == "ja"


def test_a_template_of_ones_own_passes_the_check(write):
    check(prompts.load(write(BODY)), ITEM, FIVE)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(TemplateError, match="no.j2 cannot be read: No such file"):
        prompts.load(tmp_path / "no.j2")


def test_a_file_that_is_not_utf_8(write):
    path = write("ä {{ levels }}".encode("latin-1"))
    with pytest.raises(TemplateError, match=rf"{path} is not UTF-8 \(byte 0\)"):
        prompts.load(path)


def test_an_unknown_template_gets_the_nearest():
    with pytest.raises(TemplateError, match="Did you mean 'prometheus'"):
        prompts.load("promethius")


def test_a_syntax_error_has_its_line(write):
    path = write("one\n{{ levels }}\n{% if %}\n")
    with pytest.raises(TemplateError, match=rf"{path}', line 3"):
        prompts.load(path)


def test_a_syntax_error_behind_front_matter_has_the_files_line(write):
    path = write("---\nprefill: x\n---\n{{ levels }}\n{% if %}\n")
    with pytest.raises(TemplateError, match="line 5"):
        prompts.load(path)


def test_a_syntax_error_in_a_setting_names_the_template():
    with pytest.raises(TemplateError, match="'template', line 1"):
        printed(prompts.parse(f"---\nlevel_line: '{{{{ text'\n---\n{BODY}"))


# --- templates that are refused ------------------------------------------------------------------------------------


def test_a_missing_field_is_named():
    with pytest.raises(MissingField, match="'summary'") as error:
        body_of("{{ summary }} {{ levels }}")
    assert error.value.name == "summary"


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ levels.__class__ }}",
        "{{ levels[0].__class__.__init__.__globals__ }}",
        "{{ levels.__init__.__globals__ }}",
        "{{ '{0.__class__}'.format(levels) }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ ().__class__.__bases__[0].__subclasses__() }}",
    ],
)
def test_a_template_cannot_reach_out_of_its_sandbox(source):
    with pytest.raises(TemplateError, match="unsafe"):
        body_of(source)


@pytest.mark.parametrize(
    "source",
    [
        "{{ levels.nothing }}",
        "{{ levels[9] }}",
        "{{ 1 / 0 }}",
        "{{ 'a' + 1 }}",
        "{{ 'x' | nofilter }}",
        "{% include 'other' %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ instruction() }}",
        "{{ instruction.format.__self__ }}",
        "{{ range(10**9) | list }}",
    ],
)
def test_a_template_that_fails_says_so_in_words(source):
    with pytest.raises(TemplateError, match="'template'"):
        body_of(source)


def refused(source, words, rubric=FIVE):
    with pytest.raises(TemplateError, match=words):
        check(prompts.parse(source), ITEM, rubric)


@pytest.mark.parametrize("source", ["{{ instruction }}", "{{ levels | length }}", "{{ levels[0].text }}"])
def test_a_template_must_print_every_level(source):
    refused(source, "does not print the level")


def test_the_missing_level_is_named():
    refused("{% for v in levels %}{% if v.score != 3 %}{{ v }}{% endif %}{% endfor %}", "level of score 3")


@pytest.mark.parametrize(
    "source",
    [
        "{% for v in levels %}{{ loop.index }}: {{ v.text }}\n{% endfor %}",
        "{% for v in levels %}{{ v.text }}\n{% endfor %}",
        "{% for v in levels %}Score {{ levels[loop.index0 - 1].option }}: {{ v.text }}\n{% endfor %}",
    ],
)
def test_a_text_without_its_own_option_is_refused(source):
    refused(source, "beside the text of its level")


@pytest.mark.parametrize(
    "source",
    [
        "{% for v in levels | sort(attribute='score') %}{{ v }}\n{% endfor %}",
        "{% for v in levels | reverse %}{{ v }}\n{% endfor %}",
        "{{ levels }} {{ levels }}",
        "{{ levels }} {{ levels[0].text }}",
    ],
)
def test_a_template_must_print_levels_once_in_the_orderings_order(source):
    refused(source, "prints the levels as")


@pytest.mark.parametrize(
    "rubric", [FIVE, VERBAL, Rubric("r", "c", (Level(0, "a"), Level(1, "b")))], ids=["5", "3", "2"]
)
@pytest.mark.parametrize("order", ["sort(attribute='score')", "reverse"])
def test_an_order_of_its_own_is_found_for_every_k(rubric, order):
    refused(f"{{% for v in levels | {order} %}}{{{{ v }}}}{{% endfor %}}", "prints the levels as", rubric)


@pytest.mark.parametrize(
    "source",
    [
        "{% for v in levels %}({{ v.option }}) {{ v.text }}{% endfor %}",
        "{% for v in levels %}{{ v.score }}. {{ v.text | upper }}{% endfor %}",
        "The best is {{ levels | map(attribute='score') | max }}. {% for v in levels %}{{ v.text }} -> {{ v.option }}\n{% endfor %}",
        "{{ levels | join(' / ') }}",
    ],
)
def test_a_template_may_print_levels_in_its_own_look(source):
    check(prompts.parse(source), ITEM, FIVE)


@pytest.mark.parametrize("begin", ["\ufeff---\n", "--- \n", "---\r\n"], ids=["BOM", "blank", "CRLF"])
def test_front_matter_is_found_behind_what_editors_leave(tmp_path, begin):
    path = tmp_path / "mine.j2"
    path.write_text(begin + "prefill: 'It is '\n---\n{{ levels }}", encoding="utf-8", newline="")
    template = prompts.load(path)
    assert (template.prefill, template.source) == ("It is ", "{{ levels }}")


def test_front_matter_that_is_not_closed_is_refused():
    with pytest.raises(TemplateError, match="does not close"):
        prompts.parse("---\nprefill: x\n{{ levels }}")


def test_every_kind_of_item_is_checked(tmp_path):
    path = tmp_path / "two.j2"
    source = "{% if reference is defined %}{{ levels }}{% else %}{{ levels | reverse | join('\\n') }}{% endif %}"
    path.write_text(source)
    with pytest.raises(TemplateError, match="order"):
        study([replace(ITEM, rubric=FIVE), replace(WITHOUT, rubric=FIVE)], template=path)
