import numpy as np
import pytest
from planted_runs import case_file, case_run, planted_run, rated_items, run_of, unrated_items

from logitjudge.core import Item
from logitjudge.errors import InputError, NotObserved
from logitjudge.measures.groups import by_group, reweighted
from logitjudge.measures.matrices import position_distribution
from logitjudge.run import Run

CASE = case_file("groups")
NOISY = "position=0.8,0,0,0,0.3;order_noise=0.5"


def grouped(count=24, **columns):
    return [
        Item(
            f"i{n}",
            {"response": "x" * (n + 1)},
            human=item.human,
            cluster=f"c{n % 6}",
            groups={k: f(n) for k, f in columns.items()},
        )
        for n, item in enumerate(rated_items(count))
    ]


def test_groups_that_can_be_checked_by_hand():
    items = [
        Item(f"i{n}", {}, cluster=c, groups={"task": g})
        for n, (g, c) in enumerate(zip(CASE["groups"], CASE["clusters"], strict=True))
    ]
    found = by_group(case_run(CASE["probs"], CASE["orderings"], items))
    assert [row.value for row in found.rows] == ["A", "B"]
    for name in ("positions", "distance", "movement", "score"):
        for row, value in zip(found.rows, CASE[name], strict=True):
            assert getattr(row, name) == pytest.approx(tuple(value) if name == "positions" else value, abs=1e-12)
    assert [row.error for row in found.rows] == [None, None]


def test_groups_bins_and_columns_that_are_none():
    made = grouped(
        task=lambda n: "ab"[n % 2],
        level=lambda n: n % 3,
        year=lambda n: n * 1.5,
        id=lambda n: f"id {n}",
        same=lambda n: "x",
    )
    found = by_group(planted_run(NOISY, made))
    values = {name: [row.value for row in found.rows if row.group == name] for name in {r.group for r in found.rows}}
    assert values == {
        "task": ["a", "b"],
        "level": ["0", "1", "2"],
        "year": ["0 to 10.5", "12 to 22.5", "24 to 34.5"],
        "response length": ["1 to 8", "9 to 16", "17 to 24"],
    }
    assert dict(found.left_out) == {"id": "24 different values are no groups", "same": "all items have the same value"}
    assert dict(by_group(planted_run(NOISY, unrated_items(3))).left_out) == {
        "response length": "no item has a value (texts may have been taken out)"
    }
    frame = found.to_frame()
    assert len(frame) == len(found.rows)
    np.testing.assert_allclose(frame[["p1", "p2", "p3", "p4", "p5"]].sum(axis=1), 1)


def test_bias_of_one_group_is_found_in_that_group():
    items = grouped(task=lambda n: "ab"[n % 2])
    biased, plain = planted_run("position=2,0,0,0,0", items), planted_run("", items)
    odd = np.arange(24) % 2 == 1
    run = Run(
        np.where(odd[:, None, None], biased.logp, plain.logp), plain.alias_mass, items, plain.orderings, plain.scores
    )
    a, b = (row for row in by_group(run).rows if row.group == "task")
    assert a.distance == pytest.approx(0, abs=1e-12)
    assert a.movement == pytest.approx(0, abs=1e-12)
    assert b.distance > 0.3
    np.testing.assert_allclose(b.positions, position_distribution(run.select(odd.tolist())))


def test_standard_errors_are_of_clusters():
    items = grouped(task=lambda n: "ab"[n % 2])
    row = by_group(planted_run(NOISY, items)).rows[0]
    run = planted_run(NOISY, [item for n, item in enumerate(items) if n % 2 == 0])
    movement = (run.probs() @ run.scores).std(axis=1)
    names = [item.cluster for item in run.items]
    means = [movement[[name == c for name in names]].mean() for c in sorted(set(names))]
    assert row.error == pytest.approx(np.std(means, ddof=1) / np.sqrt(len(means)))  # clusters of one size
    assert row.note == f"too few clusters ({len(means)} < 20)"


def test_a_design_with_gaps_has_no_position_distribution():
    found = by_group(planted_run(NOISY, grouped(task=lambda n: "ab"[n % 2]), "identity"))
    assert {(row.positions, row.distance, row.movement, row.error) for row in found.rows} == {(None,) * 4}


def test_weights_are_as_good_as_copies():
    items = [Item(f"i{n}", {}, human=(r,)) for n, r in enumerate([1, 5, 5])]
    run = planted_run(NOISY, items)
    found = reweighted(run, [2, 0, 0, 0, 2], by="ratings")
    copies = planted_run(NOISY, items)
    copies = Run(
        copies.logp[[0, 0, 1, 2]],
        copies.alias_mass[[0, 0, 1, 2]],
        tuple(Item(f"c{n}", {}) for n in range(4)),
        copies.orderings,
        copies.scores,
    )
    np.testing.assert_allclose(found.weights, [1.5, 0.75, 0.75])
    np.testing.assert_allclose(found.positions, position_distribution(copies))
    np.testing.assert_allclose(found.positions_before, position_distribution(run))
    expected = copies.probs() @ copies.scores
    assert found.score == pytest.approx(expected.mean())
    assert found.movement == pytest.approx(expected.std(axis=1).mean())
    assert found.effective_items == pytest.approx(9 / (1.5**2 + 2 * 0.75**2))
    assert found.missing == (2, 3, 4)


def test_its_own_distribution_changes_nothing():
    run = planted_run(NOISY, rated_items(30))
    own = reweighted(run)
    assert own.items.sum() == 30
    found = reweighted(run, own.items)
    np.testing.assert_allclose(found.weights, 1)
    np.testing.assert_allclose(found.positions, found.positions_before)
    assert own.target[own.items > 0] == pytest.approx(1 / (own.items > 0).sum())
    assert list(found.to_frame()["quantity"]) == ["p1", "p2", "p3", "p4", "p5", "movement", "score"]


def test_bad_targets():
    run = run_of([[[0.9, 0.1]]], "1,2", [Item("a", {}, human=(1,))])
    for target in ([1], [1, -1], [0, 0], [1, np.nan]):
        with pytest.raises(InputError, match="Give a share of at least 0 for each of 2 scores"):
            reweighted(run, target)
    with pytest.raises(NotObserved, match=r"no item has the score\(s\) 2"):
        reweighted(run, [1, 1])
    with pytest.raises(NotObserved, match="1 item.s. have no rating"):
        reweighted(run_of([[[0.9, 0.1]]], "1,2"), by="ratings")
    with pytest.raises(InputError, match="unknown source of scores 'people'"):
        reweighted(run, by="people")
    assert np.isnan(reweighted(run).positions).all()
    assert np.isnan(reweighted(run).movement)
