"""Trie and packing against oracles made of sets: no model, no tensors."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from logitjudge import packing
from logitjudge.orderings import parse
from logitjudge.packing import LEAVES, passes
from logitjudge.trie import trie, unique

SEQUENCES = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=9).map(tuple), min_size=1, max_size=12)


def prefixes(sequences):
    return {sequence[: n + 1] for sequence in sequences for n in range(len(sequence))}


def path_of(tree, index):
    """Tokens from the root to an index, by walking up through the depths alone."""
    path = [index]
    for j in range(index, -1, -1):
        if tree.depths[j] == tree.depths[path[0]] - 1:
            path.insert(0, j)
    return tuple(tree.tokens[path].tolist())


@given(SEQUENCES)
def test_every_prefix_stands_once(sequences):
    tree = trie(sequences)
    assert unique(sequences) == len(prefixes(sequences))
    found = [path_of(tree, i) for i in range(len(tree))]
    assert sorted(found) == sorted(prefixes(sequences))


@given(SEQUENCES)
def test_a_place_is_found_by_what_leads_to_it(sequences):
    tree = trie(sequences)
    for s, sequence in enumerate(sequences):
        for place in range(len(sequence)):
            assert path_of(tree, tree.index(s, place)) == sequence[: place + 1]


@given(SEQUENCES)
def test_an_interval_holds_exactly_the_descendants(sequences):
    tree = trie(sequences)
    paths = [path_of(tree, i) for i in range(len(tree))]
    for j, above in enumerate(paths):
        below = [i for i, path in enumerate(paths) if path[: len(above)] == above]
        assert below == list(range(j, tree.ends[j]))


@given(SEQUENCES)
def test_the_order_depends_on_the_shape_alone(sequences):
    """The leak test changes a token and expects every other one where it was."""
    renamed = [tuple(2 - token for token in sequence) for sequence in sequences]
    one, other = trie(sequences), trie(renamed)
    np.testing.assert_array_equal(one.depths, other.depths)
    assert one.edges == other.edges


def test_nothing_makes_an_empty_tree():
    assert len(trie([])) == 0
    assert list(passes(trie([]), [], 5)) == []


@settings(max_examples=300)
@given(SEQUENCES, st.integers(1, 40), st.sampled_from([1, 2, 3, 64]), st.data())
def test_passes_show_every_token_exactly_its_ancestors(sequences, budget, leaves, data):
    tree = trie(sequences)
    paths = [path_of(tree, i) for i in range(len(tree))]
    reads = data.draw(st.lists(st.integers(0, len(tree) - 1), unique=True))
    cache, fed, read = [], [], []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "LEAVES", leaves)
        for step in passes(tree, reads, budget):
            n, held = len(step.tokens), step.held
            assert 1 <= n <= budget
            assert len(step.reads) <= leaves
            assert held == len(cache)
            here = list(range(len(fed), len(fed) + n))
            keys = cache + here
            mask = (np.arange(held + n) <= held + np.arange(n)[:, None]) & (np.arange(n)[:, None] < step.ends)
            for i, row in zip(here, mask, strict=True):
                seen = [keys[j] for j in np.flatnonzero(row)]
                assert [paths[j] for j in seen] == [paths[i][: d + 1] for d in range(len(paths[i]))]
            assert step.chain == bool((mask == (np.arange(held + n) <= held + np.arange(n)[:, None])).all())
            np.testing.assert_array_equal(step.depths, tree.depths[keys])
            np.testing.assert_array_equal(step.tokens, tree.tokens[here])
            assert [here[r] for r in step.reads] == step.nodes.tolist()
            read += step.nodes.tolist()
            fed += here
            cache = [keys[k] for k in step.keep]
    assert fed == list(range(len(tree)))
    assert read == sorted(reads)
    assert cache == []


@given(SEQUENCES, st.integers(1, 40))
def test_only_the_last_pass_is_not_full(sequences, budget):
    sizes = [len(step.tokens) for step in passes(trie(sequences), [], budget)]
    assert all(size == budget for size in sizes[:-1])


def lines(ordering):
    """A prompt of 700 tokens, five lines of 20 that begin with their score, and 30 more."""
    shown = [token for score in ordering.shown for token in range(1000 * score, 1000 * score + 20)]
    return (*range(700), *shown, *range(30))


def test_memory_follows_the_budget_and_not_the_number_of_orderings():
    rows = [lines(ordering) for ordering in parse("full", (1, 2, 3, 4, 5), 0)]
    tree = trie(rows)
    assert len(tree) == 700 + 20 * (5 + 20 + 60 + 120 + 120) + 120 * 30
    reads = [tree.index(n, len(row) - 1) for n, row in enumerate(rows)]
    steps = list(passes(tree, reads, 512))
    assert max(len(step.tokens) for step in steps) == 512
    assert max(step.held for step in steps) < len(rows[0])
    assert sum(len(step.reads) for step in steps) == 120
    assert len(steps) == -(-len(tree) // 512)


@pytest.mark.parametrize(("design", "levels"), [("full", 6), ("random:200", 7)])
def test_more_orderings_and_levels_need_no_more_memory(design, levels):
    rows = [lines(ordering) for ordering in parse(design, tuple(range(1, levels + 1)), 0)]
    tree = trie(rows)
    steps = list(passes(tree, [tree.index(n, len(row) - 1) for n, row in enumerate(rows)], 512))
    assert max(len(step.tokens) for step in steps) == 512
    assert max(step.held for step in steps) < len(rows[0])
    assert sum(len(step.reads) for step in steps) == len(rows)


def test_a_pass_closes_at_64_places():
    tree = trie([(1, 100 + n) for n in range(150)])
    steps = list(passes(tree, [tree.index(n, 1) for n in range(150)], 10_000))
    assert [len(step.reads) for step in steps] == [LEAVES, LEAVES, 22]
