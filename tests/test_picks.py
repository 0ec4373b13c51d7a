"""Scores parsed from texts: what is plainly one score, and nothing else."""

import pytest

from logitjudge.picks import names, pick

FIVE, TEN, LETTERS = [str(k) for k in range(1, 6)], [str(k) for k in range(1, 11)], list("ABCDE")
MARK = "[RESULT]"


def picked(text, options=FIVE, **how):
    found = pick(f"Feedback: fine, a 2. {MARK}{text}", options, MARK, **how)
    return None if found is None else options[found]


@pytest.mark.parametrize(
    "text",
    ["4", " **4**", " (4)", ": [4]", " Score: 4", " Score 4.", " 4/5", " 4 out of 5.", "\n4", ' "4"', " 4\nBecause 3"],
)
def test_one_score_is_picked(text):
    assert picked(text) == "4"


@pytest.mark.parametrize(
    "text",
    [
        "", " none", " 4.5", " .5", " 45", " 4,5", " 3 or 4", " 1-5", " (1-5)", " -1", " \u22121", " - 1", " 4/10", " 4 out of 10",
        " 5%", " 4 1/2", " 1. The response is clear", " 5 points off, so 2", " ~~3~~ 4", " 1|2|3", " 4th", " 4 (good)",
    ],
)  # fmt: skip
def test_what_is_not_plainly_a_score_is_none(text):
    assert picked(text) is None


@pytest.mark.parametrize("text", [" A good answer", " A's", " E.g. this", " B+", " C#", " A/B", " D'accord"])
def test_a_letter_that_begins_a_sentence_is_none(text):
    assert picked(text, LETTERS) is None


def test_letters_words_signs_and_stars():
    assert (picked(" (C)", LETTERS), picked(" c", LETTERS)) == ("C", "C")
    words = ["Poor", "Fair", "Good"]
    assert [picked(text, words) for text in (" good.", " Fair enough", " Good/Fair")] == ["Good", None, None]
    assert [picked(text, ["-1", "0", "1"]) for text in (" -1", " 1", " - 1")] == ["-1", "1", None]
    stars = ["\u2605" * k for k in range(1, 6)]
    assert picked(f" {stars[2]}", stars) == stars[2]
    assert picked(f" {stars[4]}\u2605", stars) is None


def test_a_cut_text_may_have_been_another_option():
    assert picked(" 1", TEN) == "1"
    assert picked(" 1", TEN, cut=True) is None
    assert picked(" 1\n", TEN, cut=True) == "1"
    assert picked(" 10", TEN) == "10"


def test_several_markers_must_agree():
    assert picked(f" 4\n{MARK} 4") == "4"
    assert picked(f" 4\n{MARK} 5") is None
    assert picked(f" 3? No.\n{MARK} 5") is None
    assert pick("a 4", FIVE, MARK) is None


def test_options_that_differ_in_case_only_are_told_apart():
    assert [picked(text, ["a", "A"]) for text in (" a", " A")] == ["a", "A"]


@pytest.mark.parametrize(
    "text", ["I give it a 4.", "The score is four.", "It deserves 4", "a 4/5", "It is a 4 out of 5", "rated it 4"]
)
def test_a_text_that_states_a_score(text):
    assert names(text, FIVE)


@pytest.mark.parametrize(
    "text", ["A response of 4 parts", "5 reasons", "score 4.5", "deserves a 4-step plan", "1. It is clear", "4 of 5"]
)
def test_a_text_that_states_none(text):
    assert not names(text, FIVE)


def test_words_are_named_beside_a_word_of_scoring():
    assert names("I rate it good", ["Poor", "Good"])
    assert not names("It is good", ["Poor", "Good"])
    assert not names("A response", LETTERS)
