"""Probes: the frame, verbosity, formatting, position, the card and its thresholds, a probe of one file."""

import contextlib
import json
import shutil
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tiny_models
from planted_runs import run_of
from scipy import stats

import logitjudge as lj
from logitjudge import cli, models, probing, registry
from logitjudge.backends import hf
from logitjudge.core import Item, Message
from logitjudge.errors import AllRefused, InputError, RunFolderError
from logitjudge.measures.estimates import Estimate, TTest
from logitjudge.measures.lengths import bootstrapped, slope
from logitjudge.probes import detectable, formatting, measured, position, preference, verbosity
from logitjudge.report.card import bias_card, crossed, verdict

CARD = Path(__file__).parent / "runs" / "qwen-card"

NOISE = "quality_sd=1;order_noise=0.4;item_position_sd=0.3"


def items(count=24, longer=True, seed=0):
    rng = np.random.default_rng(seed)
    made = []
    for n in range(count):
        words = [f"Word{rng.integers(99)} is here." for _ in range(int(rng.integers(3, 9)))]
        text = " ".join(words)
        fields = {"instruction": "Say something.", "response": text} | (
            {"longer": " ".join([text, text])} if longer else {}
        )
        made.append(Item(f"i{n}", fields, human=(float(rng.integers(1, 6)),)))
    return made


def effects(spec, name, tmp_path, given=None, **options):
    made = probing.run_probe(f"planted:{spec}", name, given or items(), out=tmp_path, rubric="helpfulness", **options)
    return {one["name"]: one for one in made["effects"]}, made


def test_formatting_changes_no_word():
    for item in items(12):
        text = item.fields["response"]
        rich = formatting.formatted(text)
        assert formatting.plain(rich).removeprefix("Answer").split() == text.split()
        assert rich.startswith("## Answer\n\n- **Word")
    marked = "# Title\n\n- one **two**\n- three\n\n1. four `five`"
    assert formatting.plain(marked) == "Title\n\none two three\n\nfour five"


def test_each_probe_finds_its_own_planted_bias(tmp_path):
    long, _ = effects(f"length=0.5;{NOISE}", "verbosity", tmp_path / "a")
    found = long["preference for the longer restatement"]["estimate"]
    truth = np.mean([0.5 * np.log(len(i.fields["longer"]) / len(i.fields["response"])) for i in items()])
    assert found["low"] < truth < found["high"]
    assert found["low"] > 0
    assert long["score of the longer restatement, minus the response's"]["estimate"]["low"] > 0
    rich, _ = effects(f"formatting=0.6;{NOISE}", "formatting", tmp_path / "b")
    found = rich["preference for the formatted text"]["estimate"]
    assert found["low"] < 0.6 < found["high"]
    assert rich["score of the formatted text, minus the plain one's"]["estimate"]["low"] > 0
    place, _ = effects(f"position=0.8,0,0,0,0;{NOISE}", "position", tmp_path / "c")
    assert place["share of the first position, minus 1/K"]["estimate"]["low"] > 0


def test_an_order_effect_alone_is_no_other_bias(tmp_path):
    wrong, draws = 0, 200
    for seed in range(draws):
        spec = f"planted:slot=1;letter=0.5;{NOISE};seed={seed}"
        made = formatting.Formatting().variants(items(20, seed=seed))["pairs"]
        found = preference("x", lj.pairwise(spec, made.items, out=tmp_path / str(seed))).estimate
        wrong += not found.low <= 0 <= found.high
    low, high = stats.binom.ppf([0.0005, 0.9995], draws, 0.05)
    assert low <= wrong <= high, (wrong, draws)


def test_the_position_shares_are_those_of_the_matrix(tmp_path):
    run = lj.judge(f"planted:position=0.8,0,0,0,0.3;{NOISE}", items(), rubric="helpfulness", out=tmp_path / "r")
    np.testing.assert_allclose(position.shares(run).mean(axis=0), lj.position_distribution(run), atol=1e-12)


def test_a_restatement_that_is_too_short_is_asked_for_once_more_then_skipped_and_counted():
    three = items(3, longer=False)
    texts = {item.id: item.fields["response"] for item in three}
    asked = []

    def generate(prompts):
        asked.append(prompts)
        if len(asked) == 1:
            return [texts["i0"] * 2, "short", "shorter"]
        return [texts["i1"] + " " + texts["i1"], "short again"]

    made = verbosity.Verbosity().variants(three, generate)
    assert asked == [
        [f"{texts[name]}\n\n{verbosity.RESTATE}" for name in ("i0", "i1", "i2")],
        [f"{texts[name]}\n\n{verbosity.LONGER}" for name in ("i1", "i2")],
    ]
    longer = [texts["i0"] * 2, f"{texts['i1']} {texts['i1']}"]
    assert [item.fields["response_2"] for item in made["pairs"].items] == longer
    assert [item.fields["response"] for item in made["longer"].items] == longer
    assert made["pairs"].skipped == {"i2": "restated less than 1.5 times as long"}
    silent = verbosity.Verbosity(write=False).variants(three, generate)
    assert (len(silent["pairs"].skipped), len(silent["all"].items)) == (3, 3)
    nobody = verbosity.Verbosity().variants(three, None)
    assert not nobody["pairs"].items
    assert len(nobody["pairs"].skipped) == 3


def test_the_slope_is_that_of_least_squares():
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(2, 60))
    y = 2 * x - z + rng.normal(0, 0.1, 60)
    found = slope(y, [x, z], [str(n) for n in range(60)])
    assert found.value == pytest.approx(np.linalg.lstsq(np.column_stack([x, z, np.ones(60)]), y, rcond=None)[0][0])
    assert found.low < 2 < found.high
    assert slope(y, [x, x], ["a"] * 60).value is None


def test_a_number_that_never_varies_has_no_p():
    found = bootstrapped(lambda weight: np.full(len(weight), 0.5), np.arange(9))
    assert (found.value, found.low, found.high, found.test) == (0.5, 0.5, 0.5, None)
    assert bootstrapped(lambda weight: np.zeros(len(weight)), np.arange(9)).test.p == 1


def test_the_smallest_effect_is_found_with_power_four_fifths():
    rng = np.random.default_rng(0)
    values = rng.normal(0, 1, 40)
    made = measured("x", "points", values, items(40))
    size = made.detectable
    draws = rng.normal(size, values.std(ddof=1), (4000, 40))
    power = (stats.ttest_1samp(draws, 0, axis=1).pvalue < 0.05).mean()
    assert 0.76 < power < 0.84
    assert detectable(Estimate(1.0, None, None, 1, 1)) is None


def effect_of(value, low, high, noise=None, unit="share", main=True, signed=True):
    test = TTest(1.0, 9.0, 0.5)
    return {
        "name": "e", "unit": unit, "noise": noise, "detectable": 0.1, "main": main, "signed": signed,
        "estimate": {"value": value, "low": low, "high": high, "of": 9, "clusters": 9, "note": "few", "test": test},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((0.3, 0.1, 0.5), "found"),
        ((-0.3, -0.5, -0.1), "found"),
        ((0.3, 0.1, 0.5, 0.3), "within what the noise floor could do"),
        ((0.1, -0.1, 0.3), "not found; at most 0.3 either way"),
        ((0.0, 0.0, 0.0), "the same for every item"),
        ((0.1, None, None), "no interval: few"),
        ((None, None, None), "no number: few"),
        ((0.3, 0.1, 0.5, 0.1, "score points", True, False), "never below 0, so its interval finds nothing"),
    ],
)
def test_what_an_effect_allows_to_say(numbers, text):
    assert verdict(effect_of(*numbers)) == text


def test_thresholds():
    effects_ = [
        effect_of(-0.3, -0.4, -0.2),
        effect_of(0.9, 0.8, 1, unit="score points"),
        effect_of(9, 8, 10, main=False),
    ]
    made = {"probes": [{"probe": "position", "effects": effects_}], "not_tested": {"labels": "not run"}}
    assert len(crossed(made, ["position>0.2"])) == 1
    assert crossed(made, ["position>0.3"]) == []
    assert len(crossed(made, ["position>=0.3"])) == 1
    assert len(crossed(made, ["position:points>0.5", "position:share>0.1"])) == 2
    for rule, part in (
        ("position", "is not PROBE>NUMBER"),
        ("labels>1", "was not tested"),
        ("positon>1", "Did you mean"),
        ("position:nats>1", "no effect in nats"),
        ("position:x>1", "unit"),
    ):
        with pytest.raises(InputError, match=part):
            crossed(made, [rule])


def test_a_threshold_on_what_has_no_number_does_not_pass():
    made = {"probes": [{"probe": "labels", "effects": [effect_of(None, None, None), effect_of(0.3, 0.2, 0.4)]}]}
    with pytest.raises(InputError, match="has no number: few"):
        crossed(made, ["labels>0.1"])
    assert len(crossed(made, ["labels:share>0.1"])) == 1
    with pytest.raises(InputError, match="finite"):
        crossed(made, ["labels>1e999"])


def test_items_that_a_probe_cannot_use_are_left_out_and_counted(tmp_path):
    pair = Item("pair", {"instruction": "Say.", "response_1": "One. Two.", "response_2": "Three."}, human=(1.0,))
    for name in ("formatting", "position"):
        found, made = effects(NOISE, name, tmp_path / "mixed", [*items(6), pair])
        assert made["skipped"] == {"no field 'response'": ["pair"]}
        assert all(one["estimate"]["of"] == 6 for one in found.values())
        _, made = effects(NOISE, name, tmp_path / "pairs", [pair])
        assert (made["effects"], made["reason"]) == ([], "no item can be used: no field 'response'")


def test_items_that_the_judge_refuses_are_counted(tmp_path):
    blank = Item("blank", {"instruction": "Say.", "response": " ", "longer": "One. Two."})
    _, made = effects(NOISE, "verbosity", tmp_path, [*items(4), blank])
    why = next(why for why, ids in made["skipped"].items() if ids == ["blank"])
    assert why.startswith("could not be judged: response_1 holds nothing")


def test_positions_that_were_not_all_shown_give_no_number(tmp_path):
    _, made = effects(NOISE, "position", tmp_path, items(6), orderings="identity")
    assert not made["effects"]
    assert "do not show every score at every position" in made["reason"]


def test_a_share_of_a_position_has_the_noise_floor_s_reach():
    given = Item("i", {"instruction": "a", "response": "b"})
    run = run_of([[[0.2, 0.8], [0.6, 0.4]]], [[1, 2], [2, 1]], items=(given,))
    run = replace(run, provenance={"noise_floor": {"max_nats": 0.1, "max_score": 0.3}})
    made = position.Position().effect({"items": run}).effects[0]
    odds = np.log(0.5 / 0.5) + 0.2  # the largest move is at one half
    assert made.noise >= 1 / (1 + np.exp(-odds / 2)) - 1 / (1 + np.exp(odds / 2)) - 1e-12


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("verbosity", {"least": "nan"}), ("verbosity", {"least": "0"}), ("stochastic", {"temperature": "nan"}),
        ("stochastic", {"temperature": "inf"}), ("criteria_order", {"texts": "-1"}), ("criteria_order", {"exact": "-1"}),
    ],
)  # fmt: skip
def test_parameters_that_mean_nothing_are_refused(name, given):
    with pytest.raises(InputError, match="at least|is no float"):
        probing.make(name, given)


def test_texts_are_those_of_the_writer_that_is_asked_now(tmp_path, monkeypatch):
    opened = []

    def write(model, prompts, options):
        opened.append((model, dict(options)))
        return [f"{model}: {prompt}" for prompt in prompts]

    monkeypatch.setattr(probing, "_write", write)
    judge, other = (str(tiny_models.save(tmp_path / name)) for name in ("llama", "gpt2"))
    options = {"dtype": "float32", "adapter": None, "revision": None, "model_kwargs": {"x": 1}, "tokenizer": "t"}
    for writer in (None, judge, other, other):
        texts = probing._writer(judge, writer, tmp_path, options if writer == other else {})(["a", "b"])
        assert texts[0].startswith(writer or judge)
    assert opened == [(judge, {}), (other, {"dtype": "float32"})]
    assert probing._writer("planted", None, tmp_path, {}) is None


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "{}", '{"effects": 5}', '{"schema_version": 2}', '{"effects": [{"estimate": NaN}]}', '{"effects": [{"x": 1}]}'],
)  # fmt: skip
def test_a_result_that_cannot_be_read_is_named(text, tmp_path):
    (tmp_path / "position").mkdir()
    (tmp_path / "position" / "probe.json").write_text(text)
    with pytest.raises(RunFolderError, match=r"position.probe.json"):
        bias_card(tmp_path)


@pytest.mark.parametrize("name", ["of", "clusters"])
def test_an_effect_without_its_number_of_items_is_refused(name, tmp_path):
    shutil.copytree(CARD / "style", tmp_path / "style")
    path = tmp_path / "style" / "probe.json"
    result = json.loads(path.read_text())
    del result["effects"][0]["estimate"][name]
    path.write_text(json.dumps(result))
    with pytest.raises(RunFolderError, match=rf"style.probe.json.*{name}"):
        bias_card(tmp_path)


@pytest.mark.parametrize(
    ("numbers", "sound"),
    [((0.1, 0.0, 0.2), True), ((0.1, None, None), True), ((None, None, None), True), ((0.1, 0.0, None), False),
     ((0.1, None, 0.2), False), ((None, 0.0, 0.2), False), ((0.1, 0.2, 0.0), False), ((float("inf"), 0.0, 0.2), False)],
)  # fmt: skip
def test_an_interval_that_is_none_is_no_result(numbers, sound, tmp_path):
    (tmp_path / "position").mkdir()
    result = {
        "probe": "position",
        "model": "m",
        "reason": "",
        "notes": [],
        "skipped": {},
        "variants": {},
        "effects": [effect_of(*numbers)],
    }
    result["effects"][0]["estimate"]["test"] = None
    (tmp_path / "position" / "probe.json").write_text(json.dumps(result).replace("Infinity", "1e999"))
    with (
        contextlib.nullcontext()
        if sound
        else pytest.raises(RunFolderError, match="'e' has no interval from low to high")
    ):
        bias_card(tmp_path)


def test_all_and_a_file_of_one_s_own_are_both_run(tmp_path, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(probing, "run_probe", lambda model, name, *_, **__: asked.append(name) or {})
    path = tmp_path / "shouting.py"
    path.write_text(textwrap.dedent(TOY).lstrip())
    cli.main(["probe", "all", str(path), "--model", "planted:", "--data", "demo", "--out", str(tmp_path), "--json"])
    assert asked == [*registry.names("probes"), str(path)]


def test_the_commands_and_the_card(tmp_path, capsys):
    folder = str(tmp_path / "card")
    model = f"planted:position=0.8,0,0,0,0.3;formatting=0.5;{NOISE}"
    args = ["probe", "position", "formatting", "--model", model, "--data", "demo", "--limit", "12", "--out", folder]
    assert cli.main(args) == 0
    said = "share of the first position, minus 1/K: found (too few clusters (12 < 20))"
    assert said in " ".join(capsys.readouterr().out.split())
    assert cli.main(["card", folder]) == 0
    assert said in " ".join(capsys.readouterr().out.split())
    assert cli.main(["card", folder, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert [one["probe"] for one in made["probes"]] == ["formatting", "position"]
    assert made["not_tested"]["verbosity"] == "not run"
    html = tmp_path / "card.html"
    assert cli.main(["card", folder, "--out", str(html), "--fail-on", "position>0.01"]) == 4
    assert "crossed: position" in capsys.readouterr().err
    assert cli.main(["card", folder, "--fail-on", "position>0.9"]) == 0
    assert "Bias card of" in html.read_text()
    assert cli.main(["report", folder, "--out", str(tmp_path / "r.html")]) == 0
    assert (tmp_path / "r.html").read_text() == html.read_text()
    assert cli.main(["report", folder, "--json", "--out", str(tmp_path / "none.html")]) == 0
    assert "none.html" not in capsys.readouterr().err
    assert not (tmp_path / "none.html").exists()
    assert cli.main(["probe", "positio", "--model", model, "--data", "demo", "--out", folder]) == 2
    assert cli.main(["probe", "position", "--model", model, "--out", folder]) == 2
    assert "--data" in capsys.readouterr().err
    with pytest.raises(RunFolderError, match="holds no probe"):
        bias_card(tmp_path)


def test_a_card_of_another_s_commands_no_terminal(tmp_path, capsys):
    shutil.copytree(CARD / "style", tmp_path / "style")
    path = tmp_path / "style" / "probe.json"
    made = json.loads(path.read_text())
    made["notes"] = ["\x1b]0;owned\x07 \x9b31m"]
    made["effects"][0]["name"] = made["effects"][0]["unit"] = "\x1b[2J"
    path.write_text(json.dumps(made))
    assert cli.main(["card", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert not set("\x1b\x07\x9b") & set(text)
    assert "\\x1b]0;owned\\x07 \\x9b31m" in text
    assert "\\x1b[2J" in text
    assert cli.main(["show", "\x1b[2J"]) == 2
    said = capsys.readouterr().err
    assert "\\x1b[2J" in said
    assert "\x1b" not in said


def test_the_variants_load_the_judge_once_and_read_the_same(tmp_path, monkeypatch):
    folder, loads = tiny_models.save(tmp_path / "llama"), []
    monkeypatch.setattr(hf, "load", lambda spec, load=hf.load: loads.append(spec.name) or load(spec))
    given = items(2)
    made = probing.run_probe(str(folder), "formatting", given, out=tmp_path / "card", rubric="helpfulness")
    assert (len(made["variants"]), len(loads)) == (3, 1)
    alone = lj.judge(str(folder), formatting.Formatting().variants(given)["formatted"].items, rubric="helpfulness")
    assert len(loads) == 2
    kept = lj.load_run(tmp_path / "card" / "formatting" / "formatted")
    np.testing.assert_array_equal(kept.logp, alone.logp)


def test_a_judge_that_is_kept_takes_the_date_and_the_template_of_each_run(tmp_path):
    folder = str(tiny_models.save(tmp_path / "llama"))
    dated = "{{ strftime_now('%Y') }}{% for m in messages %}{{ m['content'] }}{% endfor %}"
    with models.kept():
        made = [
            models.open_backend(replace(models.parse(folder), date=date, chat_template=text))
            for date, text in (("2020-01-01", dated), ("2021-01-01", dated), ("2021-01-01", None))
        ]
        again = [one.tokenizer.render((Message("user", "hi"),), "") for one in made]
        other = models.open_backend(replace(models.parse(folder), dtype="bfloat16"))
    assert again == [
        "2020hi",
        "2021hi",
        models.open_backend(models.parse(folder)).tokenizer.render((Message("user", "hi"),), ""),
    ]
    assert made[0].model is made[1].model is made[2].model
    assert other.model is not made[0].model
    assert models.open_backend(models.parse(folder)).model is not other.model


TOY = '''
"""Responses in capitals: does shouting win?"""

from dataclasses import dataclass

from logitjudge.probes import ProbeResult, Variant, difference, replaced


@dataclass(frozen=True)
class Toy:
    def variants(self, items, generate=None):
        loud = {item.id: item.fields["response"].upper() for item in items}
        return {"as it is": Variant(tuple(items)), "loud": Variant(replaced(items, loud))}

    def effect(self, runs):
        return ProbeResult((difference("score of the capitals, minus the response's", runs["as it is"], runs["loud"]),))


probe = Toy
'''


def test_a_variant_that_is_refused_whole_stops_no_other_probe(tmp_path, monkeypatch, capsys):
    def judge(*args, out, real=probing.judge, **more):
        run = real(*args, out=out, **more)
        if out.name != "loud":
            return run
        rows = [{"id": item.id, "reason": "a reading is not finite"} for item in run.items]
        (out / "refused.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        raise AllRefused("none of its items could be judged")

    monkeypatch.setattr(probing, "judge", judge)
    path = tmp_path / "shouting.py"
    path.write_text(textwrap.dedent(TOY).lstrip())
    args = ["--model", "planted:quality_sd=1", "--data", "demo", "--limit", "3", "--out", str(tmp_path / "card")]
    assert cli.main(["probe", str(path), "position", *args, "--json"]) == 3
    refused, read = json.loads(capsys.readouterr().out)
    why = "could not be judged: a reading is not finite"
    assert (refused["effects"], refused["reason"]) == ([], f"nothing was left to judge as 'loud': {why}")
    assert {reason: len(ids) for reason, ids in refused["skipped"].items()} == {why: 3}
    assert list(refused["variants"]) == ["as it is"]
    assert read["effects"]
    assert read["skipped"] == {}


def test_a_probe_begins_anew_with_overwrite(tmp_path, capsys):
    args = ["probe", "position", "--data", "demo", "--limit", "3", "--out", str(tmp_path)]
    assert cli.main([*args, "--model", "planted:seed=1"]) == 0
    assert cli.main([*args, "--model", "planted:seed=2"]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert cli.main([*args, "--model", "planted:seed=2", "--overwrite"]) == 0
    assert bias_card(tmp_path)["model"] == "planted:seed=2"


def test_a_probe_is_one_file(tmp_path, monkeypatch, capsys):
    path = tmp_path / "shouting.py"
    path.write_text(textwrap.dedent(TOY).lstrip())
    args = ["--model", "planted:quality_sd=1", "--data", "demo", "--limit", "6", "--out", str(tmp_path / "card")]
    assert cli.main(["probe", str(path), *args]) == 0
    capsys.readouterr()
    place = tmp_path / "probes"
    place.mkdir()
    import logitjudge.probes as package

    (place / "shouting.py").write_text(path.read_text())
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(place)])
    shipped = registry._shipped
    monkeypatch.setattr(
        registry, "_shipped", lambda kind: [*shipped(kind), *(["shouting"] if kind == "probes" else [])]
    )
    assert cli.main(["list", "probes"]) == 0
    assert "shouting" in capsys.readouterr().out
    assert cli.main(["probe", "shouting", *args]) == 0
    assert cli.main(["card", str(tmp_path / "card"), "--json"]) == 0
    made = json.loads(capsys.readouterr().out.split("next: logitjudge card")[-1].split("\n", 1)[1])
    assert [one["probe"] for one in made["probes"]] == ["shouting"]
    assert made["probes"][0]["effects"][0]["estimate"]["value"] == 0


def test_a_probe_of_one_s_own_has_a_unit_of_its_own(tmp_path):
    lj.run_probe("planted:quality_sd=1", "position", "demo", out=tmp_path, limit=6)
    path = tmp_path / "position" / "probe.json"
    path.write_text(path.read_text().replace('"unit": "share"', '"unit": "syllables"'))
    assert cli.main(["card", str(tmp_path), "--out", str(tmp_path / "card.html")]) == 0
    assert "<td>syllables</td>" in (tmp_path / "card.html").read_text()


def test_a_card_is_of_one_judge_also_where_names_are_the_same(tmp_path):
    for name in ("position", "formatting"):
        lj.run_probe("planted:formatting=0.5", name, "demo", out=tmp_path, limit=6)
    assert [row["judge"]["backend"] for row in bias_card(tmp_path)["probes"]] == ["planted", "planted"]
    path = tmp_path / "formatting" / "probe.json"
    made = json.loads(path.read_text())
    path.write_text(json.dumps({**made, "judge": {**made["judge"], "adapter": "x"}}))
    with pytest.raises(InputError, match="formatting and position differ in adapter"):
        bias_card(tmp_path)
    path.write_text(json.dumps({**made, "judge": True}))
    with pytest.raises(RunFolderError, match=r"formatting.probe.json.*judge"):
        bias_card(tmp_path)
