"""The order of criteria in one prompt: expected scores over all answers so far, against plain forwards and by hand."""

import json
from dataclasses import replace

import numpy as np
import pytest
import tiny_models
import torch

import logitjudge as lj
from logitjudge import datasets, models, probing, prompts
from logitjudge.core import Item, Level, Ordering, Rubric
from logitjudge.errors import NotObserved
from logitjudge.probes.criteria_order import CriteriaOrder, question, rotations, scores, stage

SCORES = (1, 2, 3)


def rubric(name):
    return Rubric(name, f"Is it {name}?", tuple(Level(n, f"{name} {n}", str(n)) for n in SCORES))


def items(criteria=("clear", "short"), texts=2):
    return [
        Item(
            f"t{t}-{name}",
            {"instruction": "Say it.", "response": f"word {t} " * (t + 1)},
            rubric(name),
            cluster=f"t{t}",
        )
        for t in range(texts)
        for name in criteria
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_models.save(tmp_path_factory.mktemp("criteria") / "llama")


@pytest.fixture(scope="module")
def exact(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("exact")
    return probing.run_probe(str(folder), "criteria_order", items(), out=out, dtype="float32"), runs_of(out)


def runs_of(out):
    made = json.loads((out / "criteria_order" / "probe.json").read_text())
    return {name: lj.load_run(out / "criteria_order" / one["folder"]) for name, one in made["variants"].items()}


def plain_probs(folder, item):
    """(K,) of a question's options: softmax over one forward without any of our engine."""
    model = models.open_backend(models.parse(str(folder), dtype="float32"))
    made = prompts.render(prompts.load("criteria"), item, item.rubric, Ordering(tuple(range(len(SCORES)))))
    text = model.tokenizer.render(made.messages, made.prefill)
    logp = []
    for option in [str(n) for n in SCORES]:
        ids, longer = (
            model.tokenizer._tokenizer(t, add_special_tokens=False)["input_ids"] for t in (text, text + option)
        )
        assert longer[: len(ids)] == ids
        with torch.inference_mode():
            seen = model.model(input_ids=torch.tensor([longer])).logits[0].double().log_softmax(-1)
        logp.append(sum(float(seen[n - 1, longer[n]]) for n in range(len(ids), len(longer))))
    mass = np.exp(logp)
    return mass / mass.sum()


def test_the_second_criterion_is_the_exact_mean_over_the_answers_to_the_first(exact, folder):
    _, runs = exact
    found = scores(runs)
    for order in ((0, 1), (1, 0)):
        for t, item in enumerate(items()[::2]):
            rubrics = (rubric("clear"), rubric("short"))
            first = plain_probs(folder, question(item.id, item, rubrics, order, ()))
            later = [plain_probs(folder, question(item.id, item, rubrics, order, [str(a)])) @ SCORES for a in SCORES]
            assert found.expected[order[0], 0, t] == pytest.approx(first @ SCORES, abs=2e-4)
            assert found.expected[order[1], 1, t] == pytest.approx(first @ np.array(later), abs=2e-4)


def test_exact_and_greedy_are_equal_where_they_must_be(exact, folder, tmp_path):
    _, runs = exact
    probe = CriteriaOrder(exact=1)
    variants = probe.variants(items())
    first = runs[stage((0, 1), 0)]
    greedy = probe.then({stage(order, 0): runs[stage(order, 0)] for order in rotations(2)})
    assert variants[stage((0, 1), 0)].items == tuple(first.items)  # so that the first criterion is the same reading
    behind = {item.id: item for item in runs[stage((0, 1), 1)].items}
    best = first.probs()[:, 0].argmax(axis=1)
    asked = greedy[stage((0, 1), 1)].items
    assert [item.groups["answers"] for item in asked] == [str(SCORES[k]) for k in best]
    assert all(behind[item.id] == item for item in asked)
    assert len(behind) == len(SCORES) * len(asked)


def test_a_judge_without_an_order_effect_shows_none_of_three_criteria_read_exactly(tmp_path):
    made = CriteriaOrder(exact=3)
    given = items(("clear", "short", "true"), texts=4)
    runs, more = {}, made.variants(given)
    while more:
        for name, one in more.items():
            runs[name] = lj.judge(
                "planted:quality_sd=0", one.items, out=tmp_path / name.replace(" ", "-"), rubric="item",
                template=one.template, orderings=one.orderings,
            )  # fmt: skip
        more = made.then(runs)
    assert {len(run.items) for name, run in runs.items() if name.endswith("3")} == {4 * 9}
    result = made.effect(runs)
    assert result.effects[0].name == "score asked later, minus asked first, mean over criteria"
    assert [abs(one.estimate.value) < 1e-12 for one in result.effects] == [True] * 4


def test_four_criteria_are_answered_greedily_at_all_places(folder, tmp_path):
    given = items(("clear", "short", "true", "kind"), texts=1)
    made = probing.run_probe(str(folder), "criteria_order", given, out=tmp_path)
    runs = runs_of(tmp_path)
    assert len(runs) == 16
    last = runs[stage((1, 2, 3, 0), 3)].items[0]
    before = [runs[stage((1, 2, 3, 0), place)] for place in range(3)]
    picks = [str(run.scores[run.probs()[0, 0].argmax()]) for run in before]
    titles = ["Kind", "Short", "True"]  # by name: clear, kind, short, true
    assert last.fields["answered"] == "".join(f"{t}: {p}\n" for t, p in zip(titles, picks, strict=True))
    assert last.fields["asked"] == "Clear"
    assert made["notes"][0] == "Behind the judge's own most probable answers to the criteria before it."
    assert scores(runs).expected.shape == (4, 4, 1)


def test_texts_without_all_criteria_are_skipped_and_one_criterion_is_refused():
    made = CriteriaOrder().variants(items()[:3])
    assert made[stage((0, 1), 0)].skipped == {"t1-clear": "1 criteria, others have 2"}
    wide = Rubric("short", "Is it short?", tuple(Level(n, f"short {n}", str(n)) for n in range(1, 6)))
    mixed = [items()[0], replace(items()[1], rubric=wide), *items()[2:]]
    assert CriteriaOrder().variants(mixed)[stage((0, 1), 0)].skipped == {
        "t0-clear": "its criteria have different scores"
    }
    assert [len(one.items) for one in CriteriaOrder(texts=1).variants(items()).values()] == [1, 1]
    with pytest.raises(NotObserved, match="no text has two rubrics"):
        CriteriaOrder().variants([replace(item, rubric=None) for item in items()])


@pytest.mark.shared_data
def test_the_four_criteria_of_summeval_are_one_text(shared):
    given = datasets.load(f"summeval:{shared}/data/summeval/original?systems=M17").items
    made = CriteriaOrder().variants(given)
    assert len(made) == 4
    assert {len(one.items) for one in made.values()} == {len(given) // 4}
    assert "- Coherence: " in made[stage((0, 1, 2, 3), 0)].items[0].fields["criteria"]


def test_criteria_of_other_names_are_not_called_by_the_first_ones(tmp_path):
    levels = tuple(Level(n, f"step {n}", str(n)) for n in (1, 2))
    names = (("Tone", "Reach"), ("Depth", "Style"))
    texts = [
        Item(f"t{n}{name}", {"instruction": "a", "response": f"b{n}"}, Rubric(name, f"Is there {name}?", levels))
        for n in range(2) for name in names[n]
    ]  # fmt: skip
    odd = Item("alone", {"instruction": "a", "response": "c"}, texts[0].rubric)
    made = probing.run_probe("planted:", "criteria_order", [*texts, odd], out=tmp_path)
    assert [one["name"].split(":")[0] for one in made["effects"][1:]] == [f"criterion {n} of each text" for n in (1, 2)]
    assert made["skipped"] == {"1 criteria, others have 2": ["alone"]}


def test_the_noise_is_a_bound_on_what_the_noise_floor_can_do(exact):
    """Log-probabilities that are off by 0.3 nats, upwards for high scores, downwards, or at random."""
    _, runs = exact
    rng, nats, up = np.random.default_rng(0), 0.3, np.sign(np.array(SCORES) - 2)

    def moved(signs):
        return {
            name: replace(run, logp=run.logp + nats * signs(run.logp.shape), logp_by_trace=None)
            for name, run in runs.items()
        }

    def points(run):
        return run.probs() @ run.scores

    pushed = [moved(lambda shape, way=way: way * np.broadcast_to(up, shape)) for way in (1, -1)]
    for name, run in runs.items():
        most = max(np.abs(points(one[name]) - points(run)).max() for one in pushed)
        run.provenance["noise_floor"] = {"max_nats": nats, "max_score": float(most)}
    clean = scores(runs)
    pushed += [moved(lambda shape: rng.choice([-1, 1], shape)) for _ in range(50)]
    far = [np.abs(scores(one).expected - clean.expected).mean(axis=2) for one in pushed]
    assert (np.max(far, axis=0) <= clean.noise + 1e-12).all()
    assert (np.max(far, axis=0) > 0.5 * clean.noise).all()
