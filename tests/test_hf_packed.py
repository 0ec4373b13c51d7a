"""The packed path against the plain forward, architecture by architecture, however the tree is cut."""

import numpy as np
import pytest
import tiny_models
import torch

import logitjudge as lj
from logitjudge import models
from logitjudge.backends.hf import HFJudge, packed as packed_module
from logitjudge.backends.hf.forward import Forward
from logitjudge.backends.hf.masks import NoTreeMask, layers, masks
from logitjudge.backends.hf.packed import run_packed
from logitjudge.backends.hf.plain import run_plain
from logitjudge.backends.hf.sequences import Row
from logitjudge.core import Level, Rubric
from logitjudge.packing import passes
from logitjudge.progress import duration
from logitjudge.study import study
from logitjudge.trie import trie, unique

VOCABULARY = 97


def tree_rows():
    """40 tokens in common, three branches of 12, two leaves each of 2 to 6; each row is read at its end and once before."""
    numbers = torch.Generator().manual_seed(3)

    def some(n):
        return tuple(torch.randint(3, VOCABULARY, (n,), generator=numbers).tolist())

    trunk, middles, leaves = some(40), [some(12) for _ in range(3)], [some(n) for n in (5, 3, 4, 6, 5, 2)]
    ids = [trunk + middles[n // 2] + leaf for n, leaf in enumerate(leaves)]
    return [Row(n, row, ((len(row) - 4, (1,)), (len(row) - 1, ()))) for n, row in enumerate(ids)]


ROWS = tree_rows()


def by_place(found):
    """(query, path) -> (V,) log-probabilities; nothing may come twice."""
    read = {}
    for row, logp in found:
        for (_, path), here in zip(row.places, logp, strict=True):
            assert (row.query, path) not in read
            read[row.query, path] = here
    return read


def largest_difference(forward, budget):
    plain, packed = by_place(run_plain(forward, ROWS, 0)), by_place(run_packed(forward, ROWS, budget))
    assert plain.keys() == packed.keys()
    return max(float((plain[key] - packed[key]).abs().max()) for key in plain)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", tiny_models.PACKED)
def test_packed_is_plain(name, attention):
    if attention == "sdpa" and not tiny_models.model(name, VOCABULARY)._supports_sdpa:
        attention = "eager"  # soft-caps and sinks
    forward = Forward(tiny_models.model(name, VOCABULARY, attention))
    for budget in (1_000, 25, 7):
        assert largest_difference(forward, budget) <= 1e-4


@pytest.mark.parametrize("name", sorted(tiny_models.RECURRENT))
def test_recurrent_layers_take_no_tree(name):
    with pytest.raises(NoTreeMask, match="take no tree"):
        list(run_packed(Forward(tiny_models.model(name, VOCABULARY)), ROWS, 1_000))


def test_another_attention_implementation_takes_no_tree():
    model = tiny_models.model("llama", VOCABULARY)
    model.config._attn_implementation = "flash_attention_2"
    with pytest.raises(NoTreeMask, match="flash_attention_2"):
        list(run_packed(Forward(model), ROWS, 1_000))


@pytest.mark.parametrize(
    ("missing", "name"), [("sliding_window", "qwen2-window"), ("attention_chunk_size", "llama4-chunks")]
)
def test_a_bound_that_is_not_known_takes_no_tree(missing, name):
    config = tiny_models.model(name, VOCABULARY).config
    setattr(config, missing, None)
    with pytest.raises(NoTreeMask, match="take no tree"):
        layers(config)


def test_every_unique_token_is_fed_once(monkeypatch):
    fed = []
    original = Forward._logits

    def counted(self, ids, *args):
        fed.append(ids.numel())
        return original(self, ids, *args)

    monkeypatch.setattr(Forward, "_logits", counted)
    by_place(run_packed(Forward(tiny_models.model("llama", VOCABULARY)), ROWS, 25))
    assert sum(fed) == unique([row.ids for row in ROWS]) == 40 + 3 * 12 + 25
    assert max(fed) == 25


def test_masks_where_layers_differ_and_where_they_are_alike():
    step = next(passes(trie([row.ids for row in ROWS]), [], 1_000))
    cpu = torch.device("cpu")
    differing = masks(step, tiny_models.model("gemma3-window", VOCABULARY), cpu)
    assert sorted(differing) == ["full_attention", "sliding_attention"]
    assert differing["full_attention"].dtype == torch.bool
    assert int(differing["sliding_attention"].sum(-1).max()) == 16
    assert int(differing["full_attention"].sum(-1).max()) == 58
    alike = masks(step, tiny_models.model("mistral-window", VOCABULARY), cpu)
    assert torch.equal(alike, differing["sliding_attention"])
    added = masks(step, tiny_models.model("llama", VOCABULARY, "eager").to(torch.bfloat16), cpu)
    assert added.dtype == torch.bfloat16
    assert torch.equal(added == 0, differing["full_attention"])
    assert added.min() == torch.finfo(torch.bfloat16).min


def test_a_model_that_ignores_the_cache_is_noticed(monkeypatch):
    model = tiny_models.model("llama", VOCABULARY)
    forward = Forward(model)
    original = Forward._logits
    monkeypatch.setattr(
        Forward, "_logits", lambda self, ids, keep, cache, exact, _: original(self, ids, keep, None, exact, {})
    )
    with pytest.raises(RuntimeError, match="ignores the cache"):
        list(run_packed(forward, ROWS, 25))


@pytest.mark.parametrize("broken", ["mask", "positions", "cache"])
def test_what_is_broken_shows(broken, monkeypatch):
    """The rows above are a test of every part: without this, agreement could mean that nothing was tested."""
    if broken == "mask":
        monkeypatch.setattr(packed_module, "masks", lambda *_: None)
    elif broken == "cache":
        monkeypatch.setattr(
            packed_module, "select", lambda cache, keep: cache.crop(min(0, len(keep) - cache.get_seq_length()))
        )
    else:
        original = Forward.logp

        def shifted(self, ids, keep, cache=None, **inputs):
            if "position_ids" in inputs:
                inputs["position_ids"] = torch.arange(cache.get_seq_length(), cache.get_seq_length() + ids.shape[1])[
                    None
                ]
            return original(self, ids, keep, cache, **inputs)

        monkeypatch.setattr(Forward, "logp", shifted)
    assert largest_difference(Forward(tiny_models.model("llama", VOCABULARY)), 25) > 0.1


# --- in a run ------------------------------------------------------------------------------------------------------


def prefixes(model, tokenizer, items, run):
    """All that a run must feed, as a set for each item."""
    backend = models.open_backend(models.parse(model, tokenizer=tokenizer, date=run.provenance["started"]))
    asked = study(items, orderings="full")
    for item in items:
        rows = [query.tokens.context for query in asked.queries(backend, [item])]
        yield {row[: n + 1] for row in rows for n in range(len(row))}


def test_a_run_knows_its_cost_before_it_starts_and_pays_no_more(monkeypatch):
    model, tokenizer = tiny_models.judge("llama")
    items = tiny_models.items(2, Rubric("k3", "Is it?", tuple(Level(k, f"text {k}") for k in (1, 2, 3))))
    fed, said = [], []
    read, original = HFJudge.read, Forward._logits

    def counted(self, ids, *args):
        fed.append(ids.numel())
        return original(self, ids, *args)

    def counted_read(self, queries, budget):
        with monkeypatch.context() as patch:
            patch.setattr(Forward, "_logits", counted)
            return read(self, queries, budget)

    monkeypatch.setattr(HFJudge, "read", counted_read)
    run = lj.judge(
        model, items, tokenizer=tokenizer, orderings="full", device="cpu", progress=lambda p: said.append(p.message)
    )
    each = list(prefixes(model, tokenizer, items, run))
    unique_tokens = sum(map(len, each))
    head = run.provenance
    assert head["unique_tokens"] == unique_tokens
    assert sum(fed) == len(set().union(*each)) <= unique_tokens  # both are in one batch: what they share is fed once
    pace = head["sessions"][-1]["tokens_per_second"]
    line = f"12 prompts: {head['tokens']:,} tokens as written, {unique_tokens:,} unique, about "
    assert line + duration(unique_tokens / pace) in said
    assert max(fed) <= head["budget"] == 2048


@pytest.mark.parametrize("budget", [7, 100])
def test_the_budget_bounds_every_pass_and_changes_no_reading(budget, monkeypatch):
    model, tokenizer = tiny_models.judge("gemma2-window")
    options = {"tokenizer": tokenizer, "orderings": "cyclic", "device": "cpu"}
    items = tiny_models.items(1)
    whole = lj.judge(model, items, **options)
    sizes = []
    original = packed_module.run_pass
    monkeypatch.setattr(
        packed_module, "run_pass", lambda *args: (sizes.append(len(args[1].tokens)), original(*args))[1]
    )
    run = lj.judge(model, items, max_batch_tokens=budget, **options)
    assert set(sizes[-10:-1]) == {budget}
    np.testing.assert_allclose(run.logp, whole.logp, atol=1e-4)


def test_items_are_read_together_by_their_unique_tokens():
    model, tokenizer = tiny_models.judge("llama")
    run = lj.judge(
        model, tiny_models.items(3), tokenizer=tokenizer, orderings="full", device="cpu", max_batch_tokens=100_000
    )
    head = run.provenance
    assert head["unique_tokens"] < 100_000 < head["tokens"]
    assert head["batches"] == [3]


def test_small_items_share_a_pass(monkeypatch):
    model, tokenizer = tiny_models.judge("llama")
    backend = models.open_backend(models.parse(model, tokenizer=tokenizer))
    asked = study(tiny_models.items(3), orderings="cyclic")
    queries = asked.queries(backend, asked.itemset.items)
    backend.prepare(queries, queries)
    steps = []
    original = packed_module.run_pass
    monkeypatch.setattr(packed_module, "run_pass", lambda *args: (steps.append(args[1]), original(*args))[1])
    together = backend.read(queries, 100_000)
    assert len(steps) == 1
    np.testing.assert_allclose(together.logp, backend.read_plain(queries).logp, atol=1e-4)
