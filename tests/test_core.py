import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from logitjudge.core import Item, ItemSet, Level, Message, Ordering, Prompt, Readings, Rubric, TopToken
from logitjudge.errors import InputError, ItemError, NotExact, OrderingError, RubricError
from logitjudge.orderings import parse
from logitjudge.run import Run

PERMUTATIONS = st.integers(2, 9).flatmap(lambda k: st.permutations(range(k)))
PAIRS = st.integers(2, 9).flatmap(lambda k: st.tuples(st.permutations(range(k)), st.permutations(range(k))))


def rubric(levels=3):
    return Rubric("r", "How good is it?", tuple(Level(s, f"level {s}") for s in range(1, levels + 1)))


def small_run(probs, orderings="identity", alias=None, items=None, **fields):
    probs = np.asarray(probs, dtype=float)
    scores = tuple(range(1, probs.shape[2] + 1))
    items = items or tuple(Item(f"i{n}", {"instruction": "x"}) for n in range(len(probs)))
    alias = np.zeros(probs.shape) if alias is None else alias
    return Run(np.log(probs), alias, items, parse(orderings, scores), scores, **fields)


# --- Level ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["", None])
def test_a_level_is_answered_with_its_score_by_default(option):
    assert Level(-3, "poor", option).option == "-3"


@pytest.mark.parametrize("score", [1.0, 1.5, "1", True, None, np.float64(1)])
def test_a_score_is_a_whole_number(score):
    with pytest.raises(RubricError, match="is not an integer"):
        Level(score, "poor")


def test_a_numpy_score_becomes_a_plain_int():
    assert type(Level(np.int64(3), "fair").score) is int


@pytest.mark.parametrize("text", ["", " \n", None, 7, "half \ud800"])
def test_a_level_has_a_text(text):
    with pytest.raises(RubricError, match="score 4 has no text"):
        Level(4, text)


@pytest.mark.parametrize("option", ["  ", 5])
def test_an_option_is_a_string_that_can_be_answered(option):
    with pytest.raises(RubricError, match="option of score 4"):
        Level(4, "good", option)


# --- Rubric --------------------------------------------------------------------------------------------------------


def levels(*rows):
    return tuple(Level(*row) for row in rows)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ((), r"0 level\(s\)"),
        (((1, "a"),), r"1 level\(s\)"),
        (((1, "a"), (1, "b")), "two levels with score 1"),
        (((2, "a"), (1, "b")), r"\[2, 1\]"),
        (((1, "a"), (2, " a ")), "two levels with the text 'a'"),
        (((1, "a", "x"), (2, "b", "x")), "two levels with the option 'x'"),
        (((1, "a", "2"), (2, "b")), "two levels with the option '2'"),
    ],
)
def test_a_rubric_refuses_levels_that_cannot_be_told_apart(rows, words):
    with pytest.raises(RubricError, match=words) as error:
        Rubric("mine", "c", levels(*rows))
    assert "'mine'" in str(error.value)


@pytest.mark.parametrize("criterion", ["", " ", None, 3])
def test_a_rubric_has_a_criterion(criterion):
    with pytest.raises(RubricError, match="no criterion"):
        Rubric("mine", criterion, levels((1, "a"), (2, "b")))


@given(st.sets(st.integers(-200, 200), min_size=2, max_size=12))
def test_any_increasing_scores_are_a_rubric(scores):
    made = Rubric("r", "c", tuple(Level(s, f"level {s}") for s in sorted(scores)))
    assert made.scores == tuple(sorted(scores))


def test_values_are_immutable():
    with pytest.raises(FrozenInstanceError):
        rubric().criterion = "other"


# --- Ordering ------------------------------------------------------------------------------------------------------


@given(PERMUTATIONS)
def test_position_of_inverts_shown(shown):
    ordering = Ordering(tuple(shown))
    assert [ordering.position_of[k] for k in shown] == list(range(len(shown)))
    assert [shown[p] for p in ordering.position_of] == list(range(len(shown)))


@given(PERMUTATIONS)
def test_without_labels_a_score_is_answered_with_its_own_option(shown):
    assert Ordering(tuple(shown)).option_of == tuple(range(len(shown)))


@given(PAIRS)
def test_with_labels_a_score_is_answered_with_the_label_at_its_position(pair):
    shown, labels = pair
    option_of = Ordering(tuple(shown), tuple(labels)).option_of
    for p, k in enumerate(shown):
        assert option_of[k] == labels[p]


@given(PERMUTATIONS)
def test_values_are_scores_in_shown_order(shown):
    scores = [10 * k - 7 for k in range(len(shown))]
    assert Ordering(tuple(shown)).values(scores) == tuple(scores[k] for k in shown)


@pytest.mark.parametrize(
    ("shown", "labels"),
    [((0, 0), None), ((1, 2), None), ((0, 1, 3), None), ((0, -1), None), ((0, 1), (0, 0)), ((0, 1), (0, 1, 2))],
)
def test_an_ordering_is_a_permutation(shown, labels):
    with pytest.raises(OrderingError, match="not a permutation"):
        Ordering(shown, labels)


def test_orderings_are_equal_by_value():
    assert len({Ordering((0, 1)), Ordering([np.int64(0), np.int64(1)]), Ordering((0, 1), (0, 1))}) == 2


# --- Item and ItemSet ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", None, 7, "a\udfff"])
def test_an_item_has_an_id(name):
    with pytest.raises(ItemError, match="non-empty string"):
        Item(name, {})


@pytest.mark.parametrize("value", [3, None, b"x", "half of a pair \ud83d"])
def test_a_field_is_a_text(value):
    with pytest.raises(ItemError, match="item 'a': field 'response' is"):
        Item("a", {"response": value})


@pytest.mark.parametrize("human", [float("nan"), float("inf"), "4", True, (3, None), (3, float("nan"))])
def test_a_rating_is_a_finite_number(human):
    with pytest.raises(ItemError, match="item 'a': field 'human'"):
        Item("a", {}, human=human)


@pytest.mark.parametrize("human", [4, (3, 5), [3, 5], np.array([3, 5]), np.int64(4)])
def test_the_rating_is_the_mean_of_the_raters(human):
    assert Item("a", {}, human=human).rating == 4


@pytest.mark.parametrize("human", [None, (), []])
def test_no_raters_is_no_rating(human):
    item = Item("a", {}, human=human)
    assert (item.human, item.rating) == (None, None)


def test_the_cluster_is_the_id_by_default():
    assert [Item("a", {}).cluster, Item("a", {}, cluster="story").cluster] == ["a", "story"]


def test_an_item_does_not_change_with_the_callers_fields():
    fields = {"response": "x"}
    item = Item("a", fields)
    fields["response"] = "y"
    assert item.fields["response"] == "x"


def test_ids_are_unique_in_a_set():
    with pytest.raises(ItemError, match="two items have the id 'b'"):
        ItemSet((Item("a", {}), Item("b", {}), Item("b", {})))


def test_a_set_has_an_item():
    with pytest.raises(ItemError, match="no items"):
        ItemSet(())


# --- Prompt and Readings -------------------------------------------------------------------------------------------


def test_options_of_a_prompt_differ():
    with pytest.raises(RubricError, match="option '5'"):
        Prompt((Message("user", "x"),), "", ("5", "4", "5"))


@pytest.mark.parametrize("bad", [np.nan, -np.inf, np.inf])
def test_a_reading_is_finite(bad):
    with pytest.raises(ValueError, match="not finite"):
        Readings([[-1.0, bad]], [[0, 0]], ((),))


@given(st.floats(2e-6, 1))
def test_options_have_no_more_than_all_of_the_probability(excess):
    with pytest.raises(ValueError, match="not exclusive"):
        Readings(np.log([[0.5, 0.5 + excess]]), [[0, 0]], ((),))


def test_rounding_is_no_excess_of_probability():
    assert Readings(np.log([[0.5, 0.5 + 5e-7]]), [[0, 0]], ((),)).mass[0] > 1


def test_readings_cannot_be_written_to():
    readings = Readings(np.log([[0.5, 0.2]]), [[0, 0]], ((),))
    with pytest.raises(ValueError, match="read-only"):
        readings.logp[0, 0] = 0


def test_readings_do_not_change_with_the_callers_array():
    logp = np.log([[0.5, 0.2]])
    readings = Readings(logp, [[0, 0]], ((),))
    logp[:] = -9
    assert readings.mass[0] == pytest.approx(0.7)


def test_joined_readings_are_in_order():
    parts = [
        Readings(np.log([[p, 0.1]]), [[p / 2, 0]], ((TopToken(n, "x", -1.0),),)) for n, p in enumerate((0.2, 0.3, 0.4))
    ]
    joined = Readings.join(parts)
    np.testing.assert_allclose(np.exp(joined.logp[:, 0]), [0.2, 0.3, 0.4])
    assert joined.alias_mass[:, 0].tolist() == [0.1, 0.15, 0.2]
    assert [tokens[0].id for tokens in joined.top_tokens] == [0, 1, 2]


# --- Run -----------------------------------------------------------------------------------------------------------

LOGP = st.integers(2, 6).flatmap(
    lambda k: st.lists(st.lists(st.floats(-700, 0), min_size=k, max_size=k), min_size=1, max_size=4)
)


@given(LOGP)
@settings(deadline=None)
def test_probabilities_of_a_reading_sum_to_1(rows):
    logp = np.array(rows)[:, None]
    scores = tuple(range(logp.shape[2]))
    items = tuple(Item(f"i{n}", {}) for n in range(len(rows)))
    run = Run(logp, np.zeros(logp.shape), items, parse("identity", scores), scores)
    np.testing.assert_allclose(run.probs().sum(axis=-1), 1, atol=1e-12)


@given(LOGP, st.floats(-50, 0))
@settings(deadline=None)
def test_a_constant_added_to_the_log_probabilities_changes_no_probability(rows, shift):
    logp = np.array(rows)[:, None]
    scores = tuple(range(logp.shape[2]))
    items = tuple(Item(f"i{n}", {}) for n in range(len(rows)))
    one, two = (
        Run(x, np.zeros(logp.shape), items, parse("identity", scores), scores).probs() for x in (logp, logp + shift)
    )
    np.testing.assert_allclose(one, two, atol=1e-12)


def test_mass_is_the_probability_before_it_is_renormalised():
    run = small_run([[[0.1, 0.3]], [[0.2, 0.6]]])
    np.testing.assert_allclose(run.mass, [[0.4], [0.8]])


def test_aliases_count_only_where_they_are_asked_for():
    values = {"probs": [[[0.1, 0.3]]], "alias": [[[0.3, 0.0]]]}
    np.testing.assert_allclose(small_run(**values).probs(), [[[0.25, 0.75]]])
    np.testing.assert_allclose(small_run(**values, aliases="sum").probs(), [[[4 / 7, 3 / 7]]])


def test_aliases_are_never_part_of_the_log_probabilities():
    run = small_run([[[0.1, 0.3]]], alias=[[[0.3, 0.0]]], aliases="sum")
    np.testing.assert_allclose(np.exp(run.logp), [[[0.1, 0.3]]])


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_a_run_has_one_finite_reading_for_each_item_and_ordering(bad):
    with pytest.raises(ValueError, match="not finite"):
        Run([[[-1.0, bad]]], np.zeros((1, 1, 2)), (Item("a", {}),), parse("identity", (1, 2)), (1, 2))


@pytest.mark.parametrize("shape", [(2, 1, 2), (1, 2, 2), (1, 1, 3)])
def test_a_runs_arrays_fit_its_items_orderings_and_scores(shape):
    with pytest.raises(ValueError, match="expected"):
        Run(np.full(shape, -1.0), np.zeros(shape), (Item("a", {}),), parse("identity", (1, 2)), (1, 2))


def test_arrays_of_a_run_cannot_be_written_to():
    run = small_run([[[0.1, 0.3]]])
    for array in (run.logp, run.alias_mass, run.scores):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_select_keeps_the_readings_of_the_items_that_it_keeps():
    run = small_run([[[0.1, 0.3]], [[0.2, 0.6]], [[0.5, 0.1]]], alias=[[[0.1, 0]], [[0.2, 0]], [[0.3, 0]]])
    kept = run.select([True, False, True])
    assert [item.id for item in kept.items] == ["i0", "i2"]
    np.testing.assert_allclose(np.exp(kept.logp[:, 0, 0]), [0.1, 0.5])
    assert kept.alias_mass[:, 0, 0].tolist() == [0.1, 0.3]


def test_select_keeps_everything_else():
    run = small_run([[[0.1, 0.3]], [[0.2, 0.6]]], aliases="sum", provenance={"ratings_name": "x"}, rubric=rubric(2))
    kept = run.select([False, True])
    assert (kept.aliases, kept.ratings_name, kept.rubric, kept.orderings) == ("sum", "x", run.rubric, run.orderings)


def test_clusters_are_numbered_by_first_appearance():
    items = tuple(Item(f"i{n}", {}, cluster=c) for n, c in enumerate("bab"))
    assert small_run([[[0.1, 0.3]]] * 3, items=items).clusters.tolist() == [0, 1, 0]


def test_ratings_are_nan_where_there_are_none():
    items = (Item("a", {}, human=(1, 2)), Item("b", {}))
    np.testing.assert_array_equal(small_run([[[0.1, 0.3]]] * 2, items=items).ratings, [1.5, np.nan])


def test_the_rubric_of_an_item_is_the_runs_or_its_own():
    own, one = rubric(2), Rubric("one", "c", levels((1, "a"), (2, "b")))
    item = Item("i0", {}, rubric=own)
    assert small_run([[[0.1, 0.3]]], items=(item,)).rubric_of(item) is own
    assert small_run([[[0.1, 0.3]]], items=(item,), rubric=one).rubric_of(item) is one


def test_readings_need_a_folder():
    with pytest.raises(ValueError, match="not loaded from a folder"):
        small_run([[[0.1, 0.3]]]).readings()


def test_the_frame_has_one_row_an_item_ordering_and_score():
    items = (Item("a", {}, groups={"language": "de", "prob": 9}), Item("b", {}, cluster="story", groups={"task": "x"}))
    run = small_run(np.full((2, 3, 3), 0.2), "cyclic", items=items)
    frame = run.to_frame()
    assert list(frame.columns) == [
        *("item", "cluster", "ordering", "score", "position", "logp", "prob", "mass"),
        *("language", "group_prob", "task"),
    ]
    assert len(frame) == 2 * 3 * 3
    assert frame["language"].tolist()[:9] == ["de"] * 9
    assert frame["language"].isna().tolist() == [False] * 9 + [True] * 9
    assert frame["prob"].sum() == pytest.approx(6)
    assert frame["mass"].tolist() == pytest.approx([0.6] * 18)
    assert frame["cluster"].tolist() == ["a"] * 9 + ["story"] * 9


def test_the_frames_position_is_where_its_ordering_shows_the_score():
    frame = small_run(np.full((2, 5, 5), 0.1), "random:5").to_frame()
    for row in frame.itertuples():
        assert row.ordering.split(",")[row.position - 1] == str(row.score)


def test_the_frames_probabilities_are_the_runs():
    rng = np.random.default_rng(0)
    run = small_run(rng.uniform(0.01, 0.2, (3, 4, 3)), "random:4")
    frame = run.to_frame().set_index(["item", "ordering", "score"])
    for i, item in enumerate(run.items):
        for o, ordering in enumerate(run.orderings):
            for k, score in enumerate(run.scores):
                row = frame.loc[item.id, ",".join(map(str, ordering.values(run.scores))), score]
                assert (row["prob"], row["logp"]) == (run.probs()[i, o, k], run.logp[i, o, k])


def test_what_is_passed_around_can_be_pickled():
    run = small_run([[[0.1, 0.3]]], rubric=rubric(2), provenance={"a": 1})
    back = pickle.loads(pickle.dumps(run))
    assert (back.items, back.orderings, back.rubric, back.provenance) == (
        *(run.items, run.orderings, run.rubric),
        run.provenance,
    )
    np.testing.assert_array_equal(back.logp, run.logp)


def test_a_bound_does_not_count_as_mass():
    made = Readings(np.log([[0.5, 0.9]]), [[0, 0]], ((),), [[True, False]])
    assert made.exact.tolist() == [[True, False]]
    with pytest.raises(ValueError, match="not exclusive"):
        Readings(np.log([[0.5, 0.9]]), [[0, 0]], ((),), [[True, True]])


def test_readings_that_are_all_exact_say_nothing():
    all_exact = Readings(np.log([[0.5, 0.2]]), [[0, 0]], ((),), [[True, True]])
    assert all_exact.exact is None
    bound = Readings(np.log([[0.5, 0.2]]), [[0, 0]], ((),), [[True, False]])
    assert Readings.join([all_exact, bound]).exact.tolist() == [[True, True], [True, False]]
    assert Readings.join([all_exact, all_exact]).exact is None
    with pytest.raises(ValueError, match="exact has shape"):
        Readings(np.log([[0.5, 0.2]]), [[0, 0]], ((),), [[True]])


def test_a_run_is_exact_unless_it_says_otherwise():
    assert small_run([[[0.1, 0.3]]]).exact.tolist() == [[[True, True]]]
    bound = small_run([[[0.1, 0.3]]], exact=[[[True, False]]])
    with pytest.raises(NotExact, match="1 of 1 readings are not exact"):
        bound.probs()
    np.testing.assert_allclose(bound.probs(bounds=True), [[[0.25, 0.75]]])


def test_a_users_mistake_is_a_value_error():
    assert issubclass(InputError, ValueError)
