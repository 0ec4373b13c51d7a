"""self_preference: pairs of families, the double difference, what is not identified, warnings, --set."""

import json

import numpy as np
import pytest
import tiny_models
import torch
from planted_pairs import run_of_probs
from scipy import stats

import logitjudge as lj
from logitjudge import cli, models, probing
from logitjudge.backends import hf
from logitjudge.core import Item, Level, Message, Rubric
from logitjudge.errors import InputError
from logitjudge.measures.pairs import pairs
from logitjudge.probes import self_preference
from logitjudge.probes.self_preference import EQUALLY, LIKELIER, UNPROVEN, SelfPreference, of_family

NOISE = "order_noise=0.4;item_position_sd=0.3;slot=0.7"
DOUBLE = "the family planted over other, by its own judge minus by other's (double difference)"
GAP = "NOT IDENTIFIED (the responses may be better): the family planted over others, by its own judge alone"


def response(task, family, rating=None, **groups):
    fields = {"instruction": f"Do {task}.", "response": f"{family} did {task}."}
    human = None if rating is None else (float(rating),)
    return Item(f"{task}-{family}", fields, human=human, groups={"family": family, **groups})


def pool(count=40, better=0.5, families=("planted", "other"), **groups):
    """Responses of the first family are the better ones more often than `better` says; a quarter are equal."""
    rng = np.random.default_rng(0)
    made = []
    for task in range(count):
        lead = 0 if task % 4 == 0 else (1 if rng.random() < better else -1)
        made += [response(task, families[0], 3 + lead, **groups)]
        made += [response(task, name, 3) for name in families[1:]]
    return made


def probe(spec, out, items, **parameters):
    made = probing.run_probe(f"planted:{spec}", "self_preference", items, out=out, parameters=parameters)
    return {(one["name"], one["unit"][:4]): one for one in made["effects"]}, made


def test_pairs_are_of_one_instruction_and_two_families():
    rubric = Rubric("r", "Is it kind?", (Level(1, "no"), Level(2, "yes")))
    items = [
        Item("x1", {"instruction": "X", "response": "1"}, rubric, (2.0,), "doc", {"family": "b"}),
        Item("x2", {"instruction": "X", "response": "2"}, rubric, (1.0,), "doc", {"family": "a", "model": "a-7"}),
        Item("x3", {"instruction": "X", "response": "3"}, rubric, (2.0,), "doc", {"family": "c"}),
        Item("y1", {"instruction": "Y", "response": "4"}, groups={"system": "a-9"}),
        Item("z1", {"instruction": "Z", "response": "5"}),
    ]
    made = SelfPreference(family="a").variants(items)["pairs"]
    one, two = made.items
    assert [one.id, two.id] == ["x2 | x1", "x2 | x3"]
    assert one.fields == {"instruction": "X", "response_1": "2", "response_2": "1", "criteria": "Is it kind?"}
    assert (one.groups["family_1"], one.groups["model_1"], one.groups["family_2"]) == ("a", "a-7", "b")
    assert (one.human, one.cluster) == ((2.0,), "doc")
    assert made.skipped == {
        "y1": "no pair with another family's response",
        "z1": "no family, model or system says who wrote it",
    }
    equal = SelfPreference(family="b").variants(items)["pairs"].items
    assert [(item.id, item.human) for item in equal] == [("x2 | x1", (2.0,)), ("x1 | x3", (0.0,))]
    assert len(SelfPreference(family="third").variants(items)["pairs"].items) == 3
    nobody = SelfPreference().variants(items)["pairs"]
    assert not nobody.items
    assert "family=NAME" in nobody.skipped["x1"]


def test_responses_of_one_instruction_share_a_cluster():
    items = [response(task, family) for task in range(2) for family in "abc"]
    made = SelfPreference(family="a").variants(items)["pairs"].items
    assert [item.cluster for item in made] == ["0-a", "0-a", "1-a", "1-a"]
    last = SelfPreference(family="c").variants(items)["pairs"].items
    assert [item.cluster for item in last] == ["0-a", "0-a", "1-a", "1-a"]


def test_pairs_are_of_one_criterion_and_never_of_one_family():
    levels = (Level(1, "no"), Level(2, "yes"))
    items = [
        Item(f"{m}{c}", {"instruction": "X", "response": m}, Rubric("r", c, levels), groups={"system": m})
        for m in ("qwen-7b", "qwen-72b", "llama-8b")
        for c in ("Kind?", "True?")
    ]
    made = SelfPreference(family="qwen").variants(items)["pairs"]
    assert [item.id.count("Kind?") for item in made.items] == [2, 2, 0, 0]
    assert all("llama-8b" in (item.groups["family_1"], item.groups["family_2"]) for item in made.items)
    assert not made.skipped


def test_given_pairs_are_taken():
    def pair(name, **groups):
        return Item(name, {"instruction": "X", "response_1": "1", "response_2": "2"}, groups=groups)

    items = [
        pair("p", family_1="b", family_2="a"),
        pair("q", model_1="a-1", model_2="b-1"),
        pair("r", family_1="b", family_2="c"),
        pair("s"),
    ]
    made = SelfPreference(family="a").variants(items[:1] + items[2:])["pairs"]
    assert [item.id for item in made.items] == ["p"]
    assert set(made.skipped) == {"r", "s"}
    named = SelfPreference(family="a").variants(items[1:2])["pairs"].items
    assert named[0].groups["family_1"] == "a-1"


def test_a_family_is_a_label_or_a_word_of_a_models_name():
    assert of_family("qwen", ["Qwen", "Qwen2.5-7B"]) == {"Qwen"}
    assert of_family("qwen", ["Qwen/Qwen2.5-7B", "xqwen", "other"]) == {"Qwen/Qwen2.5-7B"}
    assert of_family("", ["a"]) == set()


def test_the_double_difference_finds_the_planted_preference(tmp_path):
    items = pool(better=0.9)
    probe(f"seed=2;{NOISE}", tmp_path / "b", items, family="other")
    found, made = probe(f"self=0.6;{NOISE}", tmp_path / "a", items, family="planted", second=str(tmp_path / "b"))
    both = found[DOUBLE, "nats"]
    assert both["main"]
    assert both["estimate"]["low"] < 0.6 < both["estimate"]["high"]
    assert both["estimate"]["low"] > 0
    assert both["estimate"]["clusters"] == 40
    assert found[DOUBLE, "shar"]["estimate"]["low"] > 0
    equal = found[f"{DOUBLE}: pairs that are equal by gold", "nats"]["estimate"]
    assert equal["of"] == 10
    assert equal["low"] < 0.6 < equal["high"]
    gap = found[GAP, "nats"]
    assert not gap["main"]
    assert gap["estimate"]["value"] > 0.8
    assert made["parameters"]["family"] == "planted"
    assert "sum of what each judge" in made["notes"][0]


def test_the_gap_of_one_judge_is_not_identified(tmp_path):
    found, made = probe(NOISE, tmp_path, pool(better=0.95), family="planted")
    assert found[GAP, "nats"]["estimate"]["low"] > 0  # no bias is there: the responses are better
    assert [one["name"] for one in made["effects"] if one["main"]] == 2 * [
        "the family planted over others, by its own judge alone: pairs that are equal by gold"
    ]
    equal = found[made["effects"][2]["name"], "nats"]["estimate"]
    assert equal["low"] < 0 < equal["high"]
    assert "NOT IDENTIFIED" in made["notes"][0]


def test_both_judges_for_their_own_add_up(tmp_path):
    items = pool()
    probe(f"self=-0.5;seed=2;{NOISE}", tmp_path / "b", items, family="other")  # against a: for its own
    found, _ = probe(f"self=0.6;{NOISE}", tmp_path / "a", items, family="planted", second=str(tmp_path / "b"))
    estimate = found[DOUBLE, "nats"]["estimate"]
    assert estimate["low"] < 1.1 < estimate["high"]


def test_a_judge_of_a_third_family(tmp_path):
    items = pool(families=("planted", "other", "more"))
    _, alone = probe(f"seed=2;{NOISE}", tmp_path / "c", items, family="third")
    assert alone["reason"].endswith("serve as a second judge's")
    found, made = probe(f"self=0.6;{NOISE}", tmp_path / "a", items, family="planted", second=str(tmp_path / "c"))
    name = "the family planted over others, by its own judge minus by third's"
    label = f"NOT IDENTIFIED (unless the second judge takes no side): {name}"
    third = found[label, "nats"]
    assert third["estimate"]["low"] < 0.6 < third["estimate"]["high"]
    assert third["estimate"]["of"] == 80
    assert not third["main"]
    assert "takes no side" in made["notes"][0]


def test_what_the_judges_share_is_a_warning(tmp_path):
    items = pool(trained_on="gpt, other", rubric_author_model="Planted-7B")
    probe("seed=2", tmp_path / "b", items, family="other")
    _, made = probe(NOISE, tmp_path / "a", items, family="planted", second=str(tmp_path / "b"))
    notes = [note for note in made["notes"] if note.startswith("WARNING")]
    assert len(notes) == 2
    assert any("own responses are by models trained on outputs of other" in note for note in notes)
    assert any("rubric was written with outputs of planted" in note for note in notes)
    _, same = probe(NOISE, tmp_path / "a", items, family="planted", second=str(tmp_path / "b"), second_family="Planted")
    assert "same family" in same["notes"][0]
    assert all("double" not in one["name"] for one in same["effects"])
    _, clean = probe(NOISE, tmp_path / "d", pool(), family="planted", second=str(tmp_path / "b"))
    assert not [note for note in clean["notes"] if "WARNING" in note]


def test_the_second_judge_must_have_read_the_same_texts(tmp_path):
    items = pool(8)
    probe("seed=2", tmp_path / "b", items, family="other")
    other = [Item(i.id, {**i.fields, "response": "x"}, human=i.human, groups=i.groups) for i in items]
    _, made = probe(NOISE, tmp_path / "a", other, family="planted", second=str(tmp_path / "b"))
    assert "other texts" in made["reason"]
    _, made = probe(NOISE, tmp_path / "c", pool(12)[16:], family="planted", second=str(tmp_path / "b"))
    assert "none of these pairs" in made["reason"]
    with pytest.raises(InputError, match="holds no pairwise run"):
        probe(NOISE, tmp_path / "d", items, family="planted", second=str(tmp_path / "none"))
    assert not (tmp_path / "d").exists()


def test_quality_position_and_noise_are_no_self_preference(monkeypatch):
    """Own responses are better and the judges have other position biases; the second judge lists the pairs in another order."""
    items = SelfPreference(family="planted").variants(pool(24))["pairs"].items
    rng = np.random.default_rng(5)
    wrong, draws = 0, 400
    monkeypatch.setattr(self_preference, "_place", lambda folder: folder)
    for _ in range(draws):
        content = -0.8 + rng.normal(0, 1, len(items))  # "other" is response 1

        def run(slot, order, content=content):
            one = (content[:, None] + [slot, -slot] + rng.normal(0, 0.5, (len(items), 2)))[order]
            probs = 1 / (1 + np.exp(np.stack([-one, one], axis=-1)))
            return run_of_probs(probs, [items[n] for n in order])

        mine, second = run(1.0, np.arange(len(items))), run(-0.3, rng.permutation(len(items)))
        monkeypatch.setattr(self_preference, "_read", lambda folder, family, second=second: (second, "other"))
        found = SelfPreference(family="planted", second="x").effect({"pairs": mine}).effects[0]
        assert found.name == DOUBLE
        wrong += not found.estimate.low <= 0 <= found.estimate.high
    low, high = stats.binom.ppf([0.0005, 0.9995], draws, 0.05)
    assert low <= wrong <= high, (wrong, draws)


def test_the_double_difference_by_hand(monkeypatch):
    items = SelfPreference(family="a").variants([response(t, f) for t in range(2) for f in "ab"])["pairs"].items
    mine = run_of_probs([[[0.8, 0.2], [0.6, 0.4]], [[0.5, 0.5], [0.5, 0.5]]], items)
    second = run_of_probs([[[0.5, 0.5], [0.4, 0.6]], [[0.5, 0.5], [0.5, 0.5]]], items)
    monkeypatch.setattr(self_preference, "_read", lambda folder, family: (second, "b"))
    odds, share = SelfPreference(family="a", second="x").effect({"pairs": mine}).effects[:2]
    assert share.estimate.value == pytest.approx(((0.6 + 0.2) / 2 - (0 - 0.2) / 2) / 2)
    by_hand = (np.log(0.8 / 0.2) + np.log(0.6 / 0.4)) / 2 - np.log(0.4 / 0.6) / 2
    assert odds.estimate.value == pytest.approx(by_hand / 2)
    assert odds.noise is None


def test_parameters_from_the_command_line(tmp_path, capsys):
    path = tmp_path / "pool.jsonl"
    rows = [
        {"id": i.id, "instruction": i.fields["instruction"], "response": i.fields["response"], **i.groups}
        for i in pool(6)
    ]
    path.write_text("\n".join(json.dumps(row) for row in rows))
    args = ["--model", "planted:self=0.5", "--data", str(path), "--out", str(tmp_path / "card")]
    assert cli.main(["probe", "self_preference", "position", *args, "--set", "family=planted"]) == 0
    assert "NOT IDENTIFIED" in capsys.readouterr().out
    for given, part in (
        (["famly=x"], "Did you mean 'family'"),
        (["family"], "NAME=VALUE"),
        (["family=a", "family=b"], "once"),
    ):
        more = [text for one in given for text in ("--set", one)]
        assert cli.main(["probe", "self_preference", *args, *more]) == 2
        assert part in capsys.readouterr().err
    assert cli.main(["probe", "position", *args, "--set", "a=1"]) == 2
    assert "has no parameters" in capsys.readouterr().err


def test_parameters_are_read_as_their_type():
    assert probing.make("verbosity", {"least": "2.5"})[1].least == 2.5
    assert probing.make("verbosity", {"least": 3.0})[1].least == 3.0
    with pytest.raises(InputError, match="least='x' is no float"):
        probing.make("verbosity", {"least": "x"})
    with pytest.raises(InputError, match="Known: least"):
        probing.make("verbosity", {"last": "1"})
    with pytest.raises(InputError, match="It has none"):
        probing.make("position", {"last": "1"})


def test_likelihoods_are_those_of_a_plain_forward(tmp_path, monkeypatch):
    backend = models.open_backend(models.parse(str(tiny_models.save(tmp_path / "m")), dtype="float32"))
    text = "a response of some words"
    context = tuple(backend.tokenizer.pieces([backend.tokenizer.render((Message("user", "Say it."),), "")])[0])
    tail = tuple(backend.tokenizer.pieces([text])[0])
    with torch.inference_mode():
        logp = backend.model(input_ids=torch.tensor([[*context, *tail]])).logits[0].double().log_softmax(-1)
    expected = np.mean([float(logp[len(context) + n - 1, token]) for n, token in enumerate(tail)])
    assert backend.likelihoods([context], [tail]) == [pytest.approx(expected, abs=1e-4)]
    whole = backend.likelihoods([context], [tail * 200])
    monkeypatch.setattr(hf, "PLACES", 7)
    assert backend.likelihoods([context], [tail * 200]) == pytest.approx(whole, abs=1e-4)


def test_the_preference_at_equal_likelihood_is_that_of_least_squares(tmp_path):
    given = [
        Item(
            f"t{n}-{name}", {"instruction": f"Say {n}.", "response": f"{name} says {n} " * (1 + n % 3)}, cluster=f"t{n}",
            groups={"family": name},
        )
        for n in range(8)
        for name in ("ours", "theirs")
    ]  # fmt: skip
    folder = str(tiny_models.save(tmp_path / "m"))
    made = probing.run_probe(folder, "self_preference", given, out=tmp_path / "card", parameters={"family": "ours"})
    found = {one["name"]: one["estimate"] for one in made["effects"]}
    run = lj.load_run(tmp_path / "card" / "self_preference" / "pairs")
    (known,) = json.loads((tmp_path / "card" / "self_preference" / "likelihoods.json").read_text()).values()
    nats = np.array(
        [[known[json.dumps([i.fields["instruction"], i.fields[f"response_{k}"]])] for k in (1, 2)] for i in run.items]
    )
    side = np.array([1 if item.groups["family_1"] == "ours" else -1 for item in run.items])
    likelier, odds = (nats[:, 0] - nats[:, 1]) * side, pairs(run).content * side
    equal, slope = np.linalg.lstsq(np.column_stack([np.ones(8), likelier]), odds, rcond=None)[0]
    assert found["log-likelihood of the family ours's responses under the judge, minus others'"][
        "value"
    ] == pytest.approx(likelier.mean())
    assert found[f"{UNPROVEN}: preference for the family ours, {EQUALLY}"]["value"] == pytest.approx(equal)
    assert found[f"{UNPROVEN}: preference for the family ours, {LIKELIER}"]["value"] == pytest.approx(slope)
