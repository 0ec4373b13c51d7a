"""Files of others: what fuzzing found, and the forms of JSON."""

import pytest

from logitjudge import datasets, files, judge, orderings, probing, prompts, rubrics, scored, shards, store, sweep
from logitjudge.errors import InputError, shown
from logitjudge.probes.stochastic import Stochastic

BOMB = "\n".join(
    ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    + [f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]" for old, new in zip("abcdefgh", "bcdefghi", strict=True)]
)
ODD = {
    "more than a million parts": (f"{BOMB}\nlevels: *i", "more than 1,000,000 parts"),
    "nested": ("[" * 5000, "nested too deeply"),
    "itself": ("levels: &a [*a]", "holds itself"),
    "twice": ("name: a\nname: b", "given twice"),
    "digits": ("name: " + "9" * 5000, "4300 digits"),
    "date": ("name: 2026-99-99", "month"),
    "object": ("name: !!python/object/apply:os.mkdir [ran]", "could not determine a constructor"),
    "key": ("? [1, 2]\n: 3", "unhashable"),
    "bytes": (b"name: \xff", "utf-8"),
}
READERS = {
    "rubric": ("x.yaml", rubrics.load),
    "criteria": ("x.yaml", scored.criteria_of),
    "sweep": ("x.yaml", sweep.planned),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("odd", ODD)
def test_yaml_that_surprises_is_refused_in_words(tmp_path, monkeypatch, reader, odd):
    monkeypatch.chdir(tmp_path)
    text, words = ODD[odd]
    name, read = READERS[reader]
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match="(?i)" + words) as error:
        read(tmp_path / name)
    assert name in str(error.value)
    assert len(str(error.value)) < 1000
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("odd", sorted(set(ODD) - {"bytes"}))
def test_front_matter_that_surprises(odd):
    with pytest.raises(InputError, match=r"(?i)front matter"):
        prompts.parse(f"---\n{ODD[odd][0]}\n---\n{{{{ levels }}}}")


@pytest.mark.parametrize(
    "source",
    [
        "{{ '%1000000000d' % 1 }}",
        "{{ '%*d' % (1000000000, 1) }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{{ '{:{w}}'.format(1, w=10**9) }}",
        "{{ 'a' * 10**12 }}",
        "{{ ('a' * 1000) * 100000 }}",
        "{{ 10**10**8 }}",
        "{{ 'x' | center(10**11) }}",
        "{{ 'x'.ljust(10**11) }}",
        "{{ '%1000000000d' | format(1) }}",
    ],
)
def test_a_template_makes_nothing_huge(source):
    with pytest.raises(InputError, match="in a template"):
        prompts.Template("mine", source).text(source)


@pytest.mark.parametrize(
    ("source", "printed"),
    [
        ("{{ text * 2 }}", "at 12:1234567at 12:1234567"),
        ("{{ text.upper() }}", "AT 12:1234567"),
        ("{{ '%s' % text }}", "at 12:1234567"),
        ("{{ '{:>4}'.format(7) }}", "   7"),
        ("{{ '%.2f' | format(0.5) }}", "0.50"),
        ("{{ 100000 * 1000000 }}", "100000000000"),
        ("{{ 7 % 4 }}", "3"),
    ],
)
def test_a_template_may_count_and_format(source, printed):
    assert prompts.Template("mine", source).text(source, text="at 12:1234567") == printed


# --- forms of JSON -------------------------------------------------------------------------------------------------

FORM = {"a": int, "b?": [(float, None)], "c?": {str: [str]}, "d?": bool}


@pytest.mark.parametrize(
    "value", [{"a": 1}, {"a": 1, "b": [1, 0.5, None], "more": {}}, {"a": 0, "c": {"x": ["y"]}, "d": True}]
)
def test_a_value_of_the_form(value):
    files.require(value, FORM)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "it is None, not a mapping"),
        ({}, "it has no 'a'"),
        ({"a": True}, "it, 'a' is True, not a whole number"),
        ({"a": 10**400}, "too large"),
        ({"a": 1, "b": 1}, "'b' is 1, not a list"),
        ({"a": 1, "b": [1, "x"]}, "'b', number 2 is 'x'"),
        ({"a": 1, "c": {"x": "y"}}, "'c', 'x' is 'y', not a list"),
        ({"a": 1, "c": {"x": ["\ud800"]}}, "surrogate"),
        ({"a": 1, "d": 1}, "not true or false"),
    ],
)
def test_a_value_of_another_form(value, words):
    with pytest.raises(ValueError, match=words):
        files.require(value, FORM)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"scores": [', '"scores": [null, '),
        ('"sessions": [', '"sessions": [7, '),
        ('"kind": "rubric"', '"kind": []'),
        ('"identity": {', '"identity": 3, "x": {'),
        ('"batches": [', '"batches": ["a", '),
        ('"readings": ', '"readings": NaN, "x": '),
        ('"started": "', '"started": 5, "x": "'),
    ],
)
def test_a_run_json_of_another_form(tmp_path, old, new):
    out = judged(tmp_path)
    text = (out / "run.json").read_text()
    assert old in text
    (out / "run.json").write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=r"run\.json cannot be read"):
        store.load_run(out)


@pytest.mark.parametrize("line", ["null", "[1]", '{"id": 3}', "[" * 3000, '{"id": NaN}'])
@pytest.mark.parametrize("name", ["items.jsonl", "refused.jsonl"])
def test_lines_of_another_form(tmp_path, name, line):
    out = judged(tmp_path)
    (out / name).write_text(line + "\n")
    with pytest.raises(InputError, match=f"{name} cannot be read"):
        store.load_run(out)


def judged(tmp_path):
    rows = [{"id": "a", "instruction": "Say it.", "response": "So."}]
    judge("planted:quality_sd=1", rows, rubric="helpfulness", orderings="cyclic", out=tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize("text", ["null", "[]", '{"model": 1}', "[" * 3000, '{"effects": [{}]}'])
def test_a_probe_json_of_another_form(tmp_path, text):
    (tmp_path / "style").mkdir()
    (tmp_path / "style" / "probe.json").write_text(text)
    with pytest.raises(InputError, match=r"probe\.json cannot be read.*run the probe again"):
        probing.results(tmp_path)


@pytest.mark.parametrize(
    ("name", "text"), [("sweep.json", "[]"), ("sweep.json", '{"runs": [3]}'), ("failed.json", "[1]")]
)
def test_a_sweep_folder_of_another_form(tmp_path, name, text):
    (tmp_path / "sweep.json").write_text('{"runs": [{"name": "a"}]}')
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=f"{name} cannot be read"):
        sweep.status(tmp_path)


# --- texts of the command line -------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, [], "x", float("nan"), float("inf"), "inf", 10**400, True])
def test_a_parameter_of_a_probe_that_is_no_number(value):
    with pytest.raises(InputError, match="probe stochastic: temperature="):
        probing.make("stochastic", {"temperature": value})


def test_a_whole_number_is_a_number_to_a_probe():
    assert probing.make("stochastic", {"temperature": 2, "draws": "3"})[1] == Stochastic(2, 3)


@pytest.mark.parametrize("text", ["random:" + "9" * 5000, "9" * 5000, "1,2," + "9" * 5000])
def test_numbers_of_thousands_of_digits(text):
    for read in (
        lambda: orderings.parse(text, (1, 2, 3)),
        lambda: shards.parse(text + "/2"),
        lambda: datasets.load(text),
    ):
        with pytest.raises(InputError) as error:
            read()
        assert len(str(error.value)) < 1000


def test_what_is_shown_is_short():
    deep: list = []
    for _ in range(5000):
        deep = [deep]
    for value in (deep, "x" * 10**6, 10**5000, {n: [n] * 100 for n in range(1000)}):
        assert len(shown(value)) <= 60
    assert shown({"a": [1, "x"]}) == "{'a': [1, 'x']}"
