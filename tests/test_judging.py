import json
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from logitjudge import judging, models, noise, parts, planning, running, store, study
from logitjudge.backends import OutOfMemory, planted
from logitjudge.core import Item, ItemSet, Level, Ordering, Readings, Rubric
from logitjudge.errors import InputError, ItemError, ModelError, OrderingError, RubricError, RunFolderError
from logitjudge.orderings import parse

RUBRIC = Rubric("r", "Is it good?", tuple(Level(s, f"level {s}") for s in (1, 2, 3)))
OTHER = Rubric("o", "Is it good?", tuple(Level(s, f"level {s}") for s in (1, 2, 4)))


def items(count=5):
    return [Item(f"i{n}", {"instruction": "x", "response": "y"}, human=(2,), cluster=f"c{n % 2}") for n in range(count)]


class Fake:
    """A planted judge that counts what it reads, and fails when it is told to."""

    tokenizer = None

    def __init__(self):
        self.judge = planted.open(SimpleNamespace(name="order_noise=1;seed=3"))
        self.max_length = None
        self.read_keys = Counter()
        self.calls = []  # (first item, budget) of each call
        self.stop_after = None
        self.memory = 10**9
        self.spoil = None  # (item, value of one of its log-probabilities)
        self.second_way = None
        self.facts = {"device": "cpu", "versions": {"torch": "1"}}

    def provenance(self):
        return self.facts

    def prepare(self, longest, shortest):
        pass

    def token_budget(self):
        return 1000

    def read(self, queries, budget):
        if self.stop_after is not None and len(self.calls) >= self.stop_after:
            raise KeyboardInterrupt
        self.calls.append((queries[0].item.id, budget))
        if budget > self.memory:
            raise OutOfMemory("no memory")
        self.read_keys.update((query.item.id, query.ordering) for query in queries)
        readings = self.judge.read(queries, budget)
        logp = np.array(readings.logp)
        if self.spoil and self.spoil[0] in (names := [query.item.id for query in queries]):
            logp[names.index(self.spoil[0]), 0] = self.spoil[1]
        return Readings(logp, readings.alias_mass, readings.top_tokens)

    def read_plain(self, queries):
        return self.second_way and self.second_way(self.judge.read(queries, 1))


@pytest.fixture
def fake(monkeypatch):
    backend = Fake()
    monkeypatch.setattr(models, "open_backend", lambda spec: backend)
    return backend


@pytest.fixture
def out(tmp_path):
    return tmp_path / "run"


def judge(out, data=None, model="planted", **options):
    """Judge with one batch an item."""
    options = {"rubric": RUBRIC, "orderings": "cyclic", "max_batch_tokens": 1} | options
    return judging.judge(model, items() if data is None else data, out=out, **options)


def stored(out):
    return (out / "readings" / "all.parquet").read_bytes()


def head_of(out):
    return json.loads((out / "run.json").read_text())


def interrupt(fake, out, batches, **options):
    """Begin a run and break it off after some calls of the backend."""
    fake.stop_after = batches
    with pytest.raises(KeyboardInterrupt):
        judge(out, **options)
    fake.stop_after = None


# --- resume --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batches", range(6))
def test_a_run_that_is_resumed_is_the_undisturbed_one_and_reads_nothing_twice(fake, tmp_path, batches):
    judge(tmp_path / "undisturbed")
    fake.read_keys.clear()
    fake.calls.clear()
    if batches < 5:
        interrupt(fake, tmp_path / "run", batches)
    judge(tmp_path / "run")
    assert stored(tmp_path / "run") == stored(tmp_path / "undisturbed")
    assert set(fake.read_keys.values()) == {1}
    assert len(fake.read_keys) == 5 * 3


def test_a_run_may_be_interrupted_many_times(fake, out, tmp_path):
    judge(tmp_path / "undisturbed")
    fake.read_keys.clear()
    for _ in range(5):
        fake.calls.clear()
        interrupt(fake, out, 1) if len(parts.done(out)) < 4 else judge(out)
    assert stored(out) == stored(tmp_path / "undisturbed")
    assert set(fake.read_keys.values()) == {1}


def test_a_finished_run_reads_nothing_and_opens_no_judge(fake, out, monkeypatch):
    run = judge(out)
    monkeypatch.setattr(models, "open_backend", lambda spec: pytest.fail("the judge was opened"))
    messages = []
    again = judge(out, progress=lambda progress: messages.append(progress.message))
    assert (again.logp == run.logp).all()
    assert any("is finished: all 15 readings are there" in message for message in messages)


def test_the_planted_judge_gives_the_same_whatever_the_batches(tmp_path):
    model = "planted:order_noise=1;item_position_sd=0.5;interaction=3:1"
    runs = [judge(tmp_path / str(n), model=model, max_batch_tokens=n) for n in (1, 4000, None)]
    assert stored(tmp_path / "1") == stored(tmp_path / "4000") == stored(tmp_path / "None")
    assert len({len(run.provenance["batches"]) for run in runs}) == 3


def test_the_budget_of_the_beginning_is_kept(fake, out):
    interrupt(fake, out, 1)
    judge(out, max_batch_tokens=10**6)
    assert [name for name, _ in fake.calls] == ["i0", "i1", "i2", "i3", "i4"]


def test_without_a_folder_a_temporary_one_is_used(fake):
    assert judge(None).logp.shape == (5, 3, 3)


CHANGES = {
    "items": {"data": items(4)},
    "rubric": {"rubric": Rubric("r", "Is it short?", RUBRIC.levels)},
    "orderings": {"orderings": "identity"},
    "labels": {"orderings": [Ordering(o.shown, (0, 1, 2)) for o in parse("cyclic", (1, 2, 3))]},
    "seed": {"seed": 7},
    "dtype": {"dtype": "float32"},
    "model": {"model": "planted:seed=9"},
    "revision": {"revision": "main"},
    "model_kwargs": {"model_kwargs": {"a": 1}},
}


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_setting_is_refused_by_name_and_nothing_is_touched(fake, out, name, finished):
    judge(out) if finished else interrupt(fake, out, 2)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    with pytest.raises(RunFolderError, match=f"'{name}'|[(, ]{name}[, ]") as error:
        judge(out, **CHANGES[name])
    assert "--overwrite" in str(error.value)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_a_changed_template_is_refused_by_name(fake, out, tmp_path):
    judge(out)
    path = tmp_path / "mine.j2"
    path.write_text("{{ instruction }}\n{{ levels }}")
    with pytest.raises(RunFolderError, match="another setting 'template'"):
        judge(out, template=path)


def test_the_message_shows_both_values(fake, out):
    judge(out)
    with pytest.raises(RunFolderError, match="'seed': 0 there, 7 now"):
        judge(out, seed=7)


def test_settings_that_change_no_reading_may_change(fake, out):
    run = judge(out)
    assert (judge(out, device="cpu", max_batch_tokens=99).logp == run.logp).all()


def test_a_setting_that_json_writes_otherwise_is_the_same_setting(fake, out):
    interrupt(fake, out, 1, model_kwargs={"max_memory": {0: "1GiB"}, "pair": (1, 2)})
    judge(out, model_kwargs={"max_memory": {0: "1GiB"}, "pair": (1, 2)})


def test_overwrite_begins_anew(fake, out):
    judge(out)
    assert judge(out, orderings="identity", overwrite=True).logp.shape == (5, 1, 3)


# --- out of memory -------------------------------------------------------------------------------------------------


def test_out_of_memory_halves_the_budget_and_the_run_ends_with_the_same_numbers(fake, out, tmp_path):
    undisturbed = judge(tmp_path / "undisturbed", max_batch_tokens=None)
    fake.calls.clear()
    fake.memory = 300
    with pytest.warns(UserWarning, match="halved to") as caught:
        run = judge(out, max_batch_tokens=None)
    assert [str(warning.message)[-4:-1] for warning in caught] == ["500", "250"]
    assert [budget for _, budget in fake.calls[:3]] == [1000, 500, 250]
    assert {budget for _, budget in fake.calls[3:]} == {250}
    assert (run.logp == undisturbed.logp).all()


def test_halvings_are_recorded_before_they_are_used(fake, out):
    recorded = []
    read = fake.read

    def watched(queries, budget):
        recorded.append((budget, head_of(out)["halvings"]))
        return read(queries, budget)

    fake.read, fake.memory = watched, 500
    with pytest.warns(UserWarning, match="halved"):
        judge(out, max_batch_tokens=None)
    assert recorded[:2] == [(1000, []), (500, [0])]


def test_halvings_are_replayed_by_a_resumed_run(fake, out):
    interrupt(fake, out, 2, max_batch_tokens=None)
    fake.calls.clear()
    fake.memory, fake.stop_after = 500, 3
    with pytest.raises(KeyboardInterrupt), pytest.warns(UserWarning, match="halved to 500"):
        judge(out, max_batch_tokens=None)
    assert head_of(out)["halvings"] == [2]
    fake.calls.clear()
    fake.memory, fake.stop_after = 10**9, None
    part = out / "readings" / "part-000000.parquet"
    part.unlink()  # read again from before the halving: with the budget that it had then
    judge(out, max_batch_tokens=None)
    budgets = dict(fake.calls)
    assert budgets == {"i0": 1000, "i4": 500}


def test_out_of_memory_with_the_smallest_budget_is_an_error(fake, out):
    fake.memory = 0
    with (
        pytest.warns(UserWarning, match="halved"),
        pytest.raises(ModelError, match="out of memory even with one prompt at a time"),
    ):
        judge(out, max_batch_tokens=None)


# --- sessions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [("versions", {"torch": "2"}), ("device", "cuda"), ("threads", 8), ("path", "shared")],
)
def test_what_changes_between_sessions_is_a_warning_and_recorded(fake, out, name, value):
    interrupt(fake, out, 2)
    fake.facts = {**fake.facts, name: value, "dtype": "float32", "proof": {"reason": "proven"}}
    with pytest.warns(UserWarning, match=f"began with {name} .* goes on with"):
        judge(out)
    assert [session.get(name) for session in head_of(out)["sessions"]] == [Fake().facts.get(name), value]


def test_an_unchanged_session_gives_no_warning(fake, out):
    interrupt(fake, out, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        judge(out)
    assert len(head_of(out)["sessions"]) == 2


def test_a_new_version_of_ours_is_a_warning(fake, out, monkeypatch):
    interrupt(fake, out, 2)
    monkeypatch.setattr(running, "version", lambda name: "99")
    with pytest.warns(UserWarning, match="began with logitjudge .* goes on with 99"):
        judge(out)


def test_the_date_of_the_beginning_is_kept(out, monkeypatch):
    dates = []
    backend = Fake()
    monkeypatch.setattr(models, "open_backend", lambda spec: dates.append(spec.date) or backend)
    interrupt(backend, out, 2)
    head = head_of(out) | {"started": "2001-02-03T04:05:06+00:00"}
    (out / "run.json").write_text(json.dumps(head))
    judge(out)
    assert dates[1] == head_of(out)["started"] == "2001-02-03T04:05:06+00:00"


# --- refusals ------------------------------------------------------------------------------------------------------


def test_a_prompt_that_is_too_long_is_refused_with_its_length_and_never_cut(fake, out):
    data = [*items(2), Item("long", {"instruction": "x", "response": "y" * 5000}), *items(4)[2:]]
    fake.max_length = 2000
    run = judge(out, data)
    assert [item.id for item in run.items] == ["i0", "i1", "i2", "i3"]
    (refused,) = run.refused
    assert refused["id"] == "long"
    assert "the judge takes 2000" in refused["reason"]
    assert int("".join(c for c in refused["reason"].split(" tokens")[0] if c.isdigit())) > 5000
    assert not any(name == "long" for name, _ in fake.read_keys)


def test_a_prompt_of_just_the_length_is_read(fake, tmp_path):
    fake.max_length = 10**6
    longest = judge(tmp_path / "a").provenance["longest"]["length"]
    fake.max_length = longest
    assert judge(tmp_path / "b").refused == ()
    fake.max_length = longest - 1
    with pytest.raises(ItemError, match="no item can be judged; the first: 'i0'"):
        judge(tmp_path / "c")
    assert not (tmp_path / "c").exists()


@pytest.fixture
def needs_reference(tmp_path):
    path = tmp_path / "mine.j2"
    path.write_text("{{ response }} {{ reference }}\n{{ levels }}")
    return path


def test_a_missing_field_that_the_template_prints_is_a_refusal(fake, out, needs_reference):
    data = [*items(2), Item("with", {"instruction": "x", "response": "y", "reference": "z"})]
    run = judge(out, data, template=needs_reference)
    assert [item.id for item in run.items] == ["with"]
    assert [row["id"] for row in run.refused] == ["i0", "i1"]
    assert all("'reference'" in row["reason"] for row in run.refused)


def test_refusals_are_kept_on_resume(fake, out, needs_reference):
    reference = [Item(f"w{n}", {"response": "y", "reference": "z"}) for n in range(3)]
    data = [items(1)[0], reference[0], items(2)[1], *reference[1:]]
    interrupt(fake, out, 1, data=data, template=needs_reference)
    run = judge(out, data, template=needs_reference)
    assert [item.id for item in run.items] == ["w0", "w1", "w2"]
    assert len(run.refused) == 2
    assert set(fake.read_keys.values()) == {1}


def test_a_field_that_no_item_has_is_an_error_with_the_nearest_name(fake, out, tmp_path):
    path = tmp_path / "mine.j2"
    path.write_text("{{ respons }}\n{{ levels }}")
    with pytest.raises(InputError, match="Did you mean 'response'"):
        judge(out, template=path)
    assert not out.exists()


def test_an_item_that_can_never_be_judged_is_kept_with_the_run(fake, out, needs_reference):
    data = [*items(1), Item("with", {"response": "y", "reference": "z"})]
    judge(out, data, template=needs_reference)
    assert [item.id for item in store.read_items(out)] == ["i0", "with"]


# --- bad input -----------------------------------------------------------------------------------------------------


def test_scales_cannot_be_mixed(fake, out):
    data = [Item("a", {"response": "y"}, RUBRIC), Item("b", {"response": "y"}, OTHER)]
    with pytest.raises(RubricError, match=r"item 'b' has the scores \[1, 2, 4\], item 'a' .* split the items by scale"):
        judge(out, data, rubric="item")


def test_items_without_a_rubric_need_one(fake, out):
    data = [Item("a", {"response": "y"}, RUBRIC), *items(2)]
    with pytest.raises(RubricError, match=r"item 'i0' has no rubric \(2 of 3 have none\)"):
        judge(out, data, rubric="item")


def test_each_item_may_bring_its_rubric(fake, out):
    wording = Rubric("w", "Is it short?", tuple(Level(s, f"other {s}") for s in (1, 2, 3)))
    data = [
        Item(name, {"instruction": "x", "response": "y"}, rubric) for name, rubric in (("a", RUBRIC), ("b", wording))
    ]
    run = judge(out, data, rubric="item")
    assert run.rubric is None
    assert [run.rubric_of(item) for item in run.items] == [RUBRIC, wording]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"verdict": "direkt"}, InputError, "unknown verdict mode 'direkt'. Did you mean 'direct'"),
        ({"orderings": "balancd"}, OrderingError, "Did you mean 'balanced'"),
        ({"rubric": "helpfulnes"}, RubricError, "Did you mean 'helpfulness'"),
        ({"template": "promethius"}, InputError, "Did you mean 'prometheus'"),
        ({"model": "planted:positon=1"}, InputError, "Did you mean 'position'"),
        ({"model": "planted:position=1,2"}, InputError, "3 levels"),
        ({"dtype": "float23"}, ModelError, "unknown dtype 'float23'. Did you mean 'float32'"),
        ({"limit": 0}, InputError, "limit"),
        ({"data": []}, ItemError, "no items"),
        ({"data": [*items(2), *items(1)]}, ItemError, "two items have the id 'i0'"),
        ({"data": [Item("a", {"response": "y"}, human=(4,))]}, ItemError, "4"),
        ({"max_batch_tokens": 0}, InputError, "max_batch_tokens"),
        ({"max_batch_tokens": -5}, InputError, "max_batch_tokens"),
    ],
)
def test_bad_input_is_refused_in_words_before_anything_is_written(out, options, error, words):
    with pytest.raises(error, match=words):
        judge(out, **options)
    assert not out.exists()


def test_a_bad_judge_does_not_cost_the_run_that_would_be_overwritten(out):
    run = judge(out)
    with pytest.raises(InputError):
        judge(out, model="planted:position=1,2", overwrite=True)
    assert (store.load_run(out).logp == run.logp).all()


@pytest.mark.parametrize("value", [np.nan, -np.inf])
@pytest.mark.parametrize("budget", [1, 10**6])
def test_an_item_without_numbers_is_refused_by_name_and_the_others_are_read(fake, out, tmp_path, value, budget):
    whole = judge(tmp_path / "whole")
    fake.spoil = "i2", value
    run = judge(out, max_batch_tokens=budget)
    assert [item.id for item in run.items] == ["i0", "i1", "i3", "i4"]
    assert [row["id"] for row in run.refused] == ["i2"]
    assert "a reading is not finite" in run.refused[0]["reason"]
    assert (run.provenance["refused"], run.provenance["readings"]) == (1, 4 * 3)
    np.testing.assert_array_equal(run.logp, whole.logp[[0, 1, 3, 4]])


def test_an_item_that_only_the_second_way_can_read_is_read_by_it(fake, out, tmp_path):
    whole = judge(tmp_path / "whole")
    fake.spoil, fake.second_way = ("i2", np.nan), lambda readings: readings
    run = judge(out)
    assert run.refused == ()
    np.testing.assert_array_equal(run.logp, whole.logp)


@pytest.mark.parametrize("batches", [1, 3, 4])
def test_an_item_without_numbers_stays_refused_when_the_run_goes_on(fake, out, tmp_path, batches):
    fake.spoil = "i2", np.nan
    judge(tmp_path / "undisturbed")
    fake.calls.clear()
    interrupt(fake, out, batches)
    run = judge(out)
    assert [row["id"] for row in run.refused] == ["i2"]
    assert stored(out) == stored(tmp_path / "undisturbed")
    assert (out / "refused.jsonl").read_bytes() == (tmp_path / "undisturbed" / "refused.jsonl").read_bytes()


def test_an_item_is_not_refused_any_more_where_its_batch_is_read_anew(fake, out):
    fake.spoil = "i2", np.nan
    interrupt(fake, out, 4)
    (out / "readings" / "part-000002.parquet").unlink()
    fake.spoil = None
    assert judge(out).refused == ()


def test_a_bad_batch_names_its_first_and_last_item(fake, out):
    fake.spoil = "i2", 1.0  # more than all of the probability
    with pytest.raises(ModelError, match=r"batch 0 \(items 'i0' to 'i4'\): a reading has mass"):
        judge(out, max_batch_tokens=10**6)
    assert parts.done(out) == set()


# --- data, limit, provenance ---------------------------------------------------------------------------------------


def test_a_data_frame_is_judged_like_its_items(tmp_path):
    frame = pd.DataFrame({"id": ["a", "b"], "instruction": "x", "response": ["y", "z"], "human": [1.0, 3.0]})
    one = judge(tmp_path / "a", frame)
    rows = [
        Item("a", {"instruction": "x", "response": "y"}, human=1),
        Item("b", {"instruction": "x", "response": "z"}, human=3),
    ]
    two = judge(tmp_path / "b", rows)
    assert one.items == two.items
    assert (one.logp == two.logp).all()


def test_ratings_keep_their_name(fake, out):
    run = judge(out, ItemSet(tuple(items()), "GPT-4 reference", "same"))
    assert (run.ratings_name, run.provenance["raters"]) == ("GPT-4 reference", "same")


@given(st.integers(1, 12))
@settings(deadline=None)
def test_limit_takes_so_many_items_from_as_many_clusters_as_it_can(limit):
    asked = study.study(items(10), rubric=RUBRIC, limit=limit)
    assert len(asked.itemset.items) == min(limit, 10)
    assert len({item.cluster for item in asked.itemset.items}) == min(limit, 2)


def test_limit_is_not_the_first_rows():
    data = [Item(f"i{n}", {"instruction": "x", "response": "y"}, cluster=f"c{n // 10}") for n in range(20)]
    asked = study.study(data, rubric=RUBRIC, limit=2)
    assert [item.cluster for item in asked.itemset.items] == ["c0", "c1"]


def test_progress_counts_to_the_end(fake, out):
    seen = []
    judge(out, progress=seen.append)
    assert (seen[-2].items, seen[-2].items_total, seen[-2].prompts, seen[-2].prompts_total) == (5, 5, 15, 15)


def test_results_do_not_depend_on_the_order_of_items_or_orderings(fake, tmp_path):
    one = judge(tmp_path / "a", orderings="1,2,3;2,3,1")
    two = judge(tmp_path / "b", items()[::-1], orderings="2,3,1;1,2,3")
    assert (one.logp == two.logp[::-1, ::-1]).all()


# --- plan ----------------------------------------------------------------------------------------------------------

LENGTHS = st.lists(st.integers(1, 100), max_size=40).map(lambda row: {f"i{n}": length for n, length in enumerate(row)})


@given(LENGTHS, st.integers(1, 300))
def test_the_plan_has_every_item_once_in_order(lengths, budget):
    assert [name for batch in planning.plan(lengths, budget) for name in batch] == list(lengths)


@given(LENGTHS, st.integers(1, 300))
def test_a_batch_is_within_the_budget_unless_it_is_one_item(lengths, budget):
    for batch in planning.plan(lengths, budget):
        assert len(batch) == 1 or sum(lengths[name] for name in batch) <= budget


@given(LENGTHS, st.integers(1, 300))
def test_no_batch_is_empty_and_none_could_take_the_next_item(lengths, budget):
    batches = planning.plan(lengths, budget)
    assert all(batches)
    for batch, following in zip(batches, batches[1:], strict=False):
        assert sum(lengths[name] for name in batch) + lengths[following[0]] > budget


# --- noise floor ---------------------------------------------------------------------------------------------------


def shifted(first, rest=0.0):
    def second_way(readings):
        logp = np.array(readings.logp) - rest
        logp[:, 0] -= first - rest
        return Readings(logp, readings.alias_mass, readings.top_tokens)

    return second_way


def test_the_noise_floor_is_the_difference_of_the_second_way(fake, out):
    fake.second_way = shifted(0.25, 0.01)
    floor = judge(out).provenance["noise_floor"]
    assert floor["max_nats"] == pytest.approx(0.25)
    assert floor["median_nats"] == pytest.approx(0.01)
    assert floor["readings"] == noise.READ_TWICE


def test_the_noise_floor_counts_the_winners_that_lead_by_less(fake, out):
    fake.second_way = shifted(0.4)
    run = judge(out)
    ranked = np.sort(run.logp, axis=-1)
    within = np.mean(ranked[..., 2] - ranked[..., 1] < 0.4)
    assert 0 < within < 1
    assert run.provenance["noise_floor"]["winners_within"] == pytest.approx(within)


def test_the_noise_floor_of_a_score_has_a_known_size(fake, out):
    fake.second_way = shifted(0.5)
    run = judge(out, orderings="identity")
    q = run.probs()[:, 0]
    moved = q * np.exp([-0.5, 0, 0])
    moved /= moved.sum(axis=1, keepdims=True)
    expected = np.abs((moved - q) @ run.scores).max()
    assert run.provenance["noise_floor"]["max_score"] == pytest.approx(expected)


def test_a_second_way_that_agrees_has_no_noise(fake, out):
    fake.second_way = shifted(0.0)
    floor = judge(out).provenance["noise_floor"]
    assert (floor["max_nats"], floor["winners_within"]) == (0, 0)


def test_without_a_second_way_there_is_no_noise_floor(fake, out):
    assert judge(out).provenance["noise_floor"] is None


# --- one prompt ----------------------------------------------------------------------------------------------------


def test_a_planted_judge_reads_no_messages():
    with pytest.raises(ModelError, match="reads items, not messages"):
        judging.read("planted", [{"role": "user", "content": "x"}], options=["1", "2"])


def test_a_temporary_folder_goes_when_python_ends():
    code = "\n".join([
        "import logitjudge as lj",
        "run = lj.judge('planted', 'demo', limit=1)",
        "print(run.loaders['readings'].args[0])",
        "assert len(run.readings()) == 10",
    ])  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not Path(done.stdout.strip()).exists()
    assert "logitjudge-" in done.stdout
