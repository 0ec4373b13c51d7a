"""How values show themselves in a notebook: every number is there, and text of data or a model is text."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from planted_runs import planted_run, rated_items, rubric_of, run_of, unrated_items

from logitjudge import markup
from logitjudge.core import Item, Level, Message, Prompt, Rubric
from logitjudge.measures.matrices import score_position_matrix
from logitjudge.run import Run, SampledRun

HOSTILE = '</div><script>alert("x")</script><img src=x onerror=alert(1)> & $\\frac{1}{2}$ <b>'
TAGS = {"div", "b", "table", "thead", "tbody", "tr", "th", "td", "abbr", "span"}
NAMES = {"class", "style", "title", "scope", "tabindex"}


class Seen(HTMLParser):
    """What a browser makes of HTML: its text, rows of its tables, and whether tags are only ours and closed in turn."""

    def __init__(self, source):
        super().__init__()
        self.open, self.text, self.rows, self.titles = [], "", [], []
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        assert tag in TAGS
        assert {name for name, _ in attributes} <= NAMES
        self.titles += [value for name, value in attributes if name == "title"]
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if {"th", "td"} & set(self.open):
            self.rows[-1][-1] += data


def seen(value):
    source = value._repr_html_()
    assert "mathjax_ignore" in source
    assert not re.search(r"(?<!-)color: (?!inherit)|#[0-9a-f]{3}", source)  # text has the page's own colour
    return Seen(source)


@pytest.mark.parametrize("levels", [2, 10])
@pytest.mark.parametrize("estimator", ["soft", "hard"])
def test_a_matrix_shows_its_numbers(levels, estimator):
    spec = f"position=0.8{',0' * (levels - 1)};item_position_sd=0.5"
    matrix = score_position_matrix(planted_run(spec, rated_items(9, levels), rubric=rubric_of(levels)), estimator)
    head, *rows, last = seen(matrix).rows
    assert head == ["score", *(f"p{p + 1}" for p in range(levels)), "picks", "effective items"]
    for k, row in enumerate(rows):
        shares = [markup.percent(p) for p in matrix.values[k]]
        assert row == [str(k + 1), *shares, f"{matrix.picks[k]:.1f}", f"{matrix.effective_items[k]:.1f}"]
    assert last[1:-2] == [f"{100 * p:.1f}" for p in matrix.position_distribution()]


def test_shades_of_a_matrix_say_which_way():
    matrix = score_position_matrix(run_of([[[0.8, 0.2], [0.2, 0.8]]] * 2, "balanced"))
    cells = re.findall(r"rgba\((\d+, \d+, \d+), [\d.]+\)\">([\d.]+)</td>", matrix._repr_html_())
    assert cells == [(markup.ABOVE, "80.0"), (markup.BELOW, "20.0")] * 3


def test_attributes_are_escaped():
    made = markup.element("b", "a < b", markup.Html("<br>"), title='">')
    assert made == '<b title="&quot;&gt;">a &lt; b<br></b>'


def test_a_row_that_is_not_observed_says_why():
    shown = seen(score_position_matrix(planted_run("", rated_items(2), "identity")))
    assert shown.rows[1][1:6] == ["–"] * 5
    assert "not observed: score 1 was never shown at position(s) 2, 3, 4, 5" in shown.text
    assert "nan" not in shown.text.lower()


@pytest.mark.parametrize(("levels", "orderings"), [(2, "balanced"), (10, "balanced"), (5, "1,2,3,4,5;2,1,3,4,5")])
def test_a_run_shows_the_mean_probabilities_under_each_ordering(levels, orderings):
    run = planted_run("item_position_sd=1;mass=0.5", rated_items(6, levels, clusters=2), orderings, rubric_of(levels))
    shown = seen(run)
    head, *rows = shown.rows
    assert head == ["ordering", *(f"score {k + 1}" for k in range(levels)), "mean score"]
    mean = run.probs().mean(axis=0)
    for o, row in enumerate(rows):
        assert row[0] == ",".join(map(str, run.orderings[o].values(run.scores.tolist())))
        assert row[1:] == [*map(markup.percent, mean[o]), f"{mean[o] @ run.scores:.2f}"]
    left = len(run.orderings) - len(rows)
    assert len(rows) == min(12, len(run.orderings))
    assert (f"and {left} more orderings" in shown.text) == (left > 0)
    assert f"6 items in 2 clusters x {len(run.orderings)} orderings, 0 refused, 6 rated (human)" in shown.text
    assert "mass on the options 50.0 % (least 50.0 %)" in shown.text


def test_a_run_of_upper_bounds_shows_no_probabilities():
    run = planted_run("", unrated_items(2))
    bounds = Run(run.logp, run.alias_mass, run.items, run.orderings, run.scores, exact=np.zeros(run.logp.shape, bool))
    shown = seen(bounds)
    assert "upper bounds" in shown.text
    assert shown.rows == []


def test_a_run_without_items_shows_no_numbers():
    shown = seen(planted_run("", rated_items(2)).select([False, False]))
    assert "0 items in 0 clusters" in shown.text
    assert "mass" not in shown.text


def test_a_sampled_run_shows_its_picks():
    run = planted_run("", unrated_items(2), "identity", rubric_of(2))
    picks = np.array([[[1, 2, np.nan, 1]], [[1, 1, np.nan, 2]]])
    shown = seen(SampledRun(picks, run.items, run.orderings, run.scores))
    assert shown.rows == [["ordering", "score 1", "score 2", "not parsed"], ["1,2", "50.0", "25.0", "25.0"]]
    assert "4 texts each" in shown.text
    assert "no probabilities" in shown.text


def test_what_comes_from_data_is_text():
    levels = (Level(1, HOSTILE), Level(2, "fine", f"{HOSTILE}2"))
    rubric = Rubric(HOSTILE, f"{HOSTILE}?", levels)
    shown = seen(rubric)
    assert shown.rows[1:] == [["1", "1", HOSTILE], ["2", f"{HOSTILE}2", "fine"]]
    assert f"Rubric {HOSTILE}{HOSTILE}?" in shown.text
    prompt = Prompt((Message(HOSTILE, f"a\n {HOSTILE}"),), f"{HOSTILE}!", ("1", f"{HOSTILE}2"), HOSTILE)
    text = seen(prompt).text
    assert f"{HOSTILE}a\n {HOSTILE}" in text
    assert f"the answer begins{HOSTILE}!" in text
    assert repr(f"{HOSTILE}2") in text
    run = planted_run("", [Item(HOSTILE, {})], provenance={"configuration": {"model": HOSTILE}})
    assert f"Run of {HOSTILE}" in seen(run).text


@pytest.mark.parametrize("amount", [-1.0, -0.3, 0.0, 0.4, 1.0, 7.0])
def test_text_on_a_shade_keeps_its_contrast(amount):
    """At least 4.5 to 1, the measure of WCAG, on a white and on a black page."""
    *rgb, alpha = map(float, re.findall(r"[\d.]+", markup.shade(amount)))
    for page, ink in ((255, 0), (17, 221)):
        back = [alpha * c + (1 - alpha) * page for c in rgb]
        light, dark = sorted((luminance(back), luminance([ink] * 3)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5


def luminance(rgb):
    linear = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in rgb]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))
