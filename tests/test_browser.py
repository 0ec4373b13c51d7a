"""The report in a real Chromium: what a reader clicks, types, hears and prints, with texts that try to break it."""

import io
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from planted_runs import planted_run, rated_items, rubric_of, unrated_items

import logitjudge as lj
from logitjudge import cli
from logitjudge.core import Item, Level, Rubric
from logitjudge.report import html, pictures

pytestmark = pytest.mark.browser
STORED = Path(__file__).parent / "runs" / "qwen-summeval-coherence"
NAMES = ("hostile", "one", "eight", "two", "ten", "sampled", "unrated", "unfinished")
SIZES = {"desk": (1280, 900), "phone": (390, 844)}
EVIL = (
    "<script>document.title = 'owned'</script>",
    "</script><script>alert(1)</script>",
    '"><img src=x onerror="document.title=\'owned\'">',
    "{{7*7}} {% raw %} ${7*7} $\\frac$",
    "right \u202eto\u202c left \u200f\u05d0\u05d1 \u2067abc",
    "line\u2028and\u2029paragraph",
    "W" * 300,
    "",
    "javascript:alert(1) &lt;b&gt; &amp; %3Cscript%3E",
    "\u4e2d\u6587 \U0001f600 \x0b",
)
PROMPTED = "Q" * 200


# What is looked at


def evil_run():
    rubric = Rubric("r", "<b>How?</b>", tuple(Level(s, EVIL[s], option=f"<i>{s}") for s in range(1, 6)))
    items = [
        Item(
            f"{n}{text}" if text else PROMPTED,
            {"instruction": text, "response": EVIL[-n], "<field>": "x"},
            human=(1.0 + n % 5,),
            groups={"<i>group": EVIL[(n + 3) % len(EVIL)], "source": "news" if n % 2 else "blog", "length": n},
        )
        for n, text in enumerate(EVIL)
    ]
    about = {
        "configuration": {"model": EVIL[2], "data": EVIL[1]}, "ratings_name": EVIL[0], "finished": "<now>", "verdict": EVIL[3],
        "event": EVIL[4], "template": {"name": EVIL[5]}, "identity": {"backend": EVIL[6]},
    }  # fmt: skip
    run = planted_run("position=0.9,0,0,0,0.3;order_noise=0.4;mass=0.4", items, rubric=rubric, provenance=about)
    return replace(run, refused=({"id": EVIL[0], "reason": EVIL[1]},))


def planted(levels=5, items=None, seed=0, **about):
    spec = f"position=0.8{',0' * (levels - 1)};interaction={seed}:0.3;order_noise=0.4;seed={seed}"
    about = {"finished": "now", "verdict": "direct", "configuration": {"model": spec, "data": "x"}} | about
    return planted_run(spec, items or rated_items(60, levels), rubric=rubric_of(levels), provenance=about)


def eight_runs():
    names = [EVIL[0], EVIL[2], "a-very-long-name-of-a-run-" * 8, EVIL[4], EVIL[3], "runs/q8", "runs/l8", EVIL[9]]
    return [planted(seed=n) for n in range(8)], names


def sampled_run():
    run = planted()
    picks = np.random.default_rng(0).integers(1, 6, (60, 10, 2)).astype(float)
    picks[0, 0, 0] = np.nan
    return lj.SampledRun(
        picks, run.items, run.orderings, (1, 2, 3, 4, 5), provenance={"finished": "now", "verdict": "sampled"}
    )


def unfinished(folder):
    """A run that was stopped: its last part is gone, and so is the time of its end."""
    data = folder / "items.jsonl"
    data.write_text("".join(json.dumps({"id": f"i{n}", "instruction": "Q", "response": "A"}) + "\n" for n in range(40)))
    words = ["run", "--model", "planted:position=0.8,0,0,0,0.3", "--data", str(data), "--rubric", "clarity"]
    assert cli.main([*words, "--out", str(folder / "run")]) == 0
    head = json.loads((folder / "run" / "run.json").read_text())
    (folder / "run" / "run.json").write_text(json.dumps(head | {"finished": None}))
    parts = sorted((folder / "run" / "readings").glob("*.parquet"))
    if len(parts) > 1:
        parts[-1].unlink()
    assert cli.main(["report", str(folder / "run"), "--partial", "--out", str(folder / "unfinished.html")]) == 0
    return (folder / "unfinished.html").read_text(encoding="utf-8")


MADE = {
    "hostile": lambda folder: html.report([evil_run()], [EVIL[1]]),
    "one": lambda folder: html.report([lj.load_run(STORED)], ["coherence"]),
    "eight": lambda folder: html.report(*eight_runs()),
    "two": lambda folder: html.report([planted(2)], ["two levels"]),
    "ten": lambda folder: html.report([planted(10), planted(10, seed=1)], ["ten levels", "ten more"]),
    "sampled": lambda folder: html.report([sampled_run()], ["sampled"]),
    "unrated": lambda folder: html.report([planted(items=unrated_items(120))], ["unrated"]),
    "unfinished": unfinished,
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Path of a report, by name; each is made once."""
    known = {}

    def path(name):
        if name not in known:
            folder = tmp_path_factory.mktemp(name)
            html.write(MADE[name](folder), folder / "report.html")
            known[name] = folder / "report.html"
        return known[name]

    return path


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    found = Path(os.environ.get("LOGITJUDGE_CHROMIUM", "/usr/bin/chromium"))
    assert found.exists(), f"{found} is not there: bash scripts/install_browser.sh, or name one in LOGITJUDGE_CHROMIUM"
    with sync_playwright() as play:
        one = play.chromium.launch(executable_path=str(found), args=["--headless", "--no-sandbox", "--disable-gpu"])
        yield one
        one.close()


@pytest.fixture
def opened(browser, made):
    """Open a report; at the end of the test nothing may have gone wrong in the page, and nothing been asked for outside the file."""
    wrong, contexts = [], []

    def page(name, size="desk", **options):
        width, height = SIZES[size]
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
        address = made(name).as_uri()
        page.on("request", lambda asked: None if asked.url.startswith(("data:", address)) else wrong.append(asked.url))
        page.goto(address)
        if options.get("java_script_enabled", True) and page.locator(".items").count():
            page.wait_for_selector(".items > details")
        return page

    yield page
    for context in contexts:
        context.close()
    assert not wrong


def unfold(page, runs=99):
    """Open all tables of the first runs, and three items of each."""
    page.evaluate(
        """runs => [...document.querySelectorAll("section[id]")].slice(0, runs).forEach(run => {
          run.querySelectorAll(":scope > details, .items > details:nth-child(-n+3)").forEach(part => { part.open = true; }); })""",
        runs,
    )
    page.wait_for_timeout(200)


# Opening


@pytest.mark.parametrize("name", NAMES)
def test_it_opens_and_nothing_in_it_runs(opened, name):
    page = opened(name)
    title = page.title()
    unfold(page)
    page.wait_for_timeout(300)
    assert page.title() == title
    assert title.startswith("logitjudge: ")
    assert page.locator("script").count() == 2  # ours: the packed data and the code
    assert page.locator("img").evaluate_all("all => all.every(one => one.complete && one.naturalWidth > 0)")
    assert page.locator("img").count() >= 2


def test_hostile_texts_are_shown_as_they_are(opened):
    page, run = opened("hostile"), evil_run()
    unfold(page)
    assert page.locator("h2").text_content() == EVIL[1]
    assert EVIL[2] in page.locator(".about").nth(1).text_content()
    assert set(page.locator(".items .id").all_text_contents()) == {item.id for item in run.items}
    page.evaluate("document.querySelectorAll('.items details').forEach(one => { one.open = true; })")
    page.wait_for_timeout(300)
    texts = page.locator(".items pre").all_text_contents()
    for text in EVIL:
        assert not text or text in texts
    assert page.locator(".items details").get_by_text("Empty, or stored without its text.").count() == 2


def test_what_is_written_from_right_to_left_does_not_turn_what_follows(opened):
    page = opened("hostile")
    boxes = page.locator(".items summary").evaluate_all(
        """all => all.map(one => [".id bdi", ".numbers"].map(part => one.querySelector(part).getBoundingClientRect().left))"""
    )
    assert all(name < numbers for name, numbers in boxes)
    page.evaluate("document.querySelector('.items').dir = 'ltr'")
    texts = page.locator(".items .numbers").all_text_contents()
    assert all(text.startswith("swing ") for text in texts)


# Tables


def table_of(page, caption):
    return page.locator("table", has=page.locator("caption", has_text=caption)).first


def column(table, name):
    """Head's button and texts of the cells."""
    heads = table.locator("thead th").all_text_contents()
    at = heads.index(name)
    return table.locator("thead th").nth(at), table.locator(f"tbody tr > :nth-child({at + 1})").all_text_contents()


def numbers(cells):
    return [float(cell) for cell in cells if cell != "–"]


def test_a_click_sorts_numbers_as_numbers(opened):
    table = table_of(opened("one"), "Score by position, soft: where")
    head, before = column(table, "picks")
    assert sorted(before) != sorted(before, key=float)  # else this shows nothing
    head.locator("button").click()
    head, cells = column(table, "picks")
    assert numbers(cells) == sorted(numbers(before))
    assert head.get_attribute("aria-sort") == "ascending"
    head.locator("button").click()
    assert numbers(column(table, "picks")[1]) == sorted(numbers(before), reverse=True)
    assert head.get_attribute("aria-sort") == "descending"
    assert table.locator("[aria-sort]").count() == 1


def test_numbers_below_zero_stand_first(opened):
    page = opened("one")
    unfold(page)
    table = table_of(page, "Correlations with 95 %")
    column(table, "value")[0].locator("button").click()
    cells = numbers(column(table, "value")[1])
    assert cells[0] < cells[1] < 0 < cells[-1]
    assert cells == sorted(cells)


def test_a_row_stays_whole(opened):
    table = table_of(opened("one"), "Bias Cost of the orderings")
    before = dict(zip(column(table, "ordering")[1], column(table, "cost")[1], strict=True))
    column(table, "cost")[0].locator("button").click()
    assert dict(zip(column(table, "ordering")[1], column(table, "cost")[1], strict=True)) == before
    assert column(table, "ordering")[1] != list(before)


@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_keys_sort(opened, key):
    page = opened("one")
    table = table_of(page, "Bias Cost of the orderings")
    column(table, "ordering")[0].locator("button").focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "cost"
    page.keyboard.press(key)
    head, cells = column(table, "cost")
    assert head.get_attribute("aria-sort") == "ascending"
    assert numbers(cells) == sorted(numbers(cells))
    assert cells[0] != cells[-1]
    page.keyboard.press(key)
    assert numbers(column(table, "cost")[1]) == sorted(numbers(cells), reverse=True)


def test_text_sorts_as_text(opened):
    page = opened("one")
    unfold(page)
    table = table_of(page, "Correlations with 95 %")
    before = column(table, "measure")[1]
    column(table, "measure")[0].locator("button").click()
    assert column(table, "measure")[1] == sorted(before) != before
    column(table, "measure")[0].locator("button").click()
    assert column(table, "measure")[1] == sorted(before, reverse=True)


def test_what_is_missing_stands_last_both_ways(opened):
    page = opened("one")
    unfold(page)
    table = table_of(page, "Correlations with 95 %")
    before = column(table, "value")[1]
    missing = before.count("–")
    assert 0 < missing < len(before)
    for way in (False, True):
        column(table, "value")[0].locator("button").click()
        cells = column(table, "value")[1]
        assert cells[-missing:] == ["–"] * missing
        assert numbers(cells) == sorted(numbers(before), reverse=way)


# Items


def status(page):
    return page.locator("[role=status]").text_content()


def test_the_search_keeps_the_items_that_have_the_words(opened):
    page = opened("hostile")
    assert status(page) == "10 of 10 items"
    search = page.get_by_label("Search in ids, groups, texts")
    search.fill("ONERROR=")  # as text, in any case
    kept = page.locator(".items .id").count()
    assert 0 < kept < 10
    assert status(page) == f"{kept} of 10 items"
    search.fill("nothing has this")
    assert status(page) == "0 of 10 items"
    assert page.locator(".items details").count() == 0
    search.fill("")
    assert page.locator(".items details").count() == 10


def test_a_group_is_chosen(opened):
    page = opened("hostile")
    group = page.get_by_label("Group", exact=True)
    group.select_option(label="source: news")
    assert status(page) == "5 of 10 items"
    assert set(page.locator(".items .id").all_text_contents()) == {
        item.id for item in evil_run().items if item.groups["source"] == "news"
    }
    group.select_option(index=0)
    assert status(page) == "10 of 10 items"


def test_items_come_by_swing_and_in_other_orders(opened):
    page = opened("one")
    swing = lambda: [float(text.split()[1].rstrip(",")) for text in page.locator(".items .numbers").all_text_contents()]  # noqa: E731
    assert swing() == sorted(swing(), reverse=True)
    page.get_by_label("Order", exact=True).select_option("swing, smallest first")
    assert swing() == sorted(swing())
    page.get_by_label("Order", exact=True).select_option("id")
    ids = page.locator(".items .id").all_text_contents()
    assert len(ids) == len(set(ids)) == 40


def test_enter_opens_an_item_with_its_texts_and_its_probabilities(opened):
    page, run = opened("hostile"), evil_run()
    first = page.locator(".items summary").first
    first.focus()
    page.keyboard.press("Enter")
    at = page.locator(".items details").first
    at.locator("table").wait_for()
    which = next(n for n, item in enumerate(run.items) if item.id == at.locator(".id").text_content())
    assert at.locator("h4").all_text_contents() == list(run.items[which].fields)
    rows = at.locator("tbody tr").evaluate_all("all => all.map(row => [...row.cells].map(cell => cell.textContent))")
    assert [row[0] for row in rows] == [",".join(map(str, o.values((1, 2, 3, 4, 5)))) for o in run.orderings]
    shown = np.array([[float(cell) for cell in row[1:]] for row in rows])
    probs = run.probs()[which]
    np.testing.assert_allclose(shown[:, :5], 100 * probs, atol=0.00501)
    np.testing.assert_allclose(shown[:, 5], probs @ run.scores, atol=0.00056)
    np.testing.assert_allclose(shown[:, 6], 100 * run.mass[which], atol=0.00501)
    page.keyboard.press("Enter")
    assert at.get_attribute("open") is None


def test_of_many_orderings_it_says_which_are_listed(opened):
    page, run = opened("one"), lj.load_run(STORED)
    page.locator(".items summary").first.click()
    at = page.locator(".items details").first
    at.locator("table").wait_for()
    assert "of 120 orderings are listed" in at.text_content()
    expected = run.probs() @ run.scores
    shown = [float(text) for text in at.locator("tbody tr > :nth-child(7)").all_text_contents()]
    which = next(n for n, item in enumerate(run.items) if item.id == at.locator(".id").text_content())
    assert min(shown) == pytest.approx(expected[which].min(), abs=6e-4)
    assert max(shown) == pytest.approx(expected[which].max(), abs=6e-4)


def test_many_items_are_drawn_in_steps_and_none_is_lost(opened):
    page = opened("unrated")
    assert page.locator(".items > details").count() == 50
    assert status(page) == "120 of 120 items, the first 50 are shown"
    more = page.locator(".more-items")
    more.focus()
    page.keyboard.press("Enter")
    assert page.locator(".items > details").count() == 100
    assert page.evaluate("[...document.querySelectorAll('.items summary')].indexOf(document.activeElement)") == 50
    more.click()
    ids = page.locator(".items .id").all_text_contents()
    assert set(ids) == {f"i{n}" for n in range(120)}
    assert not more.is_visible()


@pytest.mark.parametrize("name", ["sampled", "unrated", "unfinished"])
def test_what_a_run_lacks_is_said(opened, name):
    text = opened(name).locator("main").text_content()
    said = {
        "sampled": "the run was sampled",
        "unrated": "no item has a rating",
        "unfinished": "The run is unfinished",
    }
    assert said[name] in text
    assert not re.search(r"\b(NaN|undefined|null|None(?!:))\b", text)


def test_several_runs_stand_in_one_table_first(opened):
    page = opened("eight")
    runs, names = eight_runs()
    assert page.locator("main h2").first.text_content() == "The runs side by side"
    table = page.locator("main table").first
    assert column(table, "run")[1] == names
    assert column(table, "p1")[1] == [f"{100 * lj.position_distribution(run)[0]:.1f}" for run in runs]
    assert column(table, "its cost")[1] == [
        f"{lj.cost_spread(lj.score_position_matrix(run)).cheapest.cost:.3f}" for run in runs
    ]
    page.get_by_role("navigation").get_by_role("link", name="runs/l8").click()
    assert page.evaluate("document.querySelector(location.hash).querySelector('h2').textContent") == "runs/l8"


# Looks


def axe(page):
    """Serious and critical faults that axe finds, each as one line."""
    import axe_playwright_python

    page.evaluate((Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [
        f"{one['id']} ({one['impact']}): {one['nodes'][0]['html'][:200]} {one['nodes'][0]['failureSummary'][:300]}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["hostile", "one", "eight", "ten", "sampled"])
def test_axe_finds_no_serious_fault(opened, name, size, scheme):
    page = opened(name, size, color_scheme=scheme)
    unfold(page, runs=1)
    assert axe(page) == []


def test_the_dark_scheme_is_dark(opened):
    ground = "getComputedStyle(document.body).backgroundColor"
    colours = {scheme: opened("one", color_scheme=scheme).evaluate(ground) for scheme in ("light", "dark")}
    assert colours["light"] == "rgb(255, 255, 255)"
    assert max(int(part) for part in colours["dark"][4:-1].split(",")) < 40


@pytest.mark.parametrize("name", NAMES)
def test_headings_are_in_order(opened, name):
    page = opened(name)
    unfold(page)
    levels = page.locator("h1, h2, h3, h4, h5, h6").evaluate_all("all => all.map(one => Number(one.tagName[1]))")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:], strict=False))
    alts = page.locator("img").evaluate_all("all => all.map(one => one.alt)")
    assert all(len(alt) > 20 and any(letter.isdigit() for letter in alt) for alt in alts)


MISPLACED = (
    (Path(__file__).parent / "misplaced.js").read_text(encoding="utf-8").split("\n", 1)[1]
)  # without its comment


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_cut_overlaps_or_leaves_the_page(opened, name, size):
    page = opened(name, size)
    for _ in range(2):
        assert page.evaluate(MISPLACED) == []
        wide = page.evaluate("[document.scrollingElement.scrollWidth, document.scrollingElement.clientWidth]")
        assert wide[0] <= wide[1]
        unfold(page)


def test_the_check_of_places_finds_what_is_misplaced(opened):
    page = opened("two")
    for style in ("h2 { margin-bottom: -3rem; }", "td { max-width: 1rem; }", ".note { margin-left: 90rem; }"):
        added = page.add_style_tag(content=style)
        assert page.evaluate(MISPLACED), style
        added.evaluate("one => one.remove()")
    assert page.evaluate(MISPLACED) == []


@pytest.mark.parametrize("name", NAMES)
def test_on_paper_tables_are_whole_and_tools_are_gone(opened, name):
    page = opened(name)
    page.set_viewport_size({"width": 718, "height": 1000})  # A4 between margins of 1 cm
    page.emulate_media(media="print")
    page.wait_for_timeout(200)
    assert page.locator(".tools:visible, .more-items:visible, nav:visible").count() == 0
    cut = page.locator(".wide").evaluate_all(
        """all => all.filter(one => one.checkVisibility()
            && (one.scrollWidth > one.clientWidth + 1 || one.scrollHeight > one.clientHeight + 1))
          .map(one => one.getAttribute("aria-label"))"""
    )
    assert cut == []
    assert page.locator("details.print table:visible").count() == page.locator("details.print table").count() > 0
    assert page.evaluate("document.scrollingElement.scrollWidth <= document.scrollingElement.clientWidth")
    assert page.pdf(format="A4").startswith(b"%PDF")


@pytest.mark.parametrize("name", ["hostile", "eight", "sampled"])
def test_without_javascript_the_numbers_are_there(opened, name):
    page = opened(name, java_script_enabled=False)
    assert page.locator(".verdict li").first.is_visible()
    assert page.locator("img").first.is_visible()
    assert page.locator("table").first.is_visible()
    assert page.locator(".tools:visible").count() == 0
    said = page.get_by_text("The list of items needs JavaScript.").filter(visible=True)
    assert said.count() == {"hostile": 1, "eight": 8, "sampled": 0}[name]
    page.locator("details.print summary").first.click()
    assert page.locator("details.print table").first.is_visible()


def test_a_slim_figure_looks_as_the_whole_one(browser, monkeypatch):
    from matplotlib import image

    seen = []
    slim = pictures.slim
    monkeypatch.setattr(pictures, "slim", lambda svg: seen.append(svg) or slim(svg))
    run = lj.load_run(STORED)
    page = browser.new_page(viewport={"width": 700, "height": 700})
    for name in ("positions", "matrix", "costs", "swing", "certainty", "people", "mass"):
        pictures._image(name, [run], ["0.123456 0.123456"])
        whole, small = seen[-1], slim(seen[-1])
        assert len(small) < 0.8 * len(whole)
        looks = []
        for svg in (whole, small):
            page.set_content(f"<body style='margin:0'>{svg[svg.index('<svg') :]}")
            looks.append(image.imread(io.BytesIO(page.screenshot()), format="png")[..., :3])
        apart = np.abs(looks[0] - looks[1]).max(axis=-1)
        assert looks[0].min() < 0.5, name
        assert (apart > 0.3).mean() < 2e-4, name
    page.close()
