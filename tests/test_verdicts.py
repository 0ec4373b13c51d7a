"""Verdict modes that write first: where the reading is taken, what is stored, what becomes of a text without its end."""

import pickle

import numpy as np
import pytest
import tiny_models
import torch

import logitjudge as lj
from logitjudge import models, parts, store, texts as texts_of, verdicts
from logitjudge.backends import Trace, _asked
from logitjudge.backends.hf import HFJudge
from logitjudge.backends.hf.tokenizer import HFTokenizer
from logitjudge.errors import InputError, OptionError
from logitjudge.measures.traces import by_source, reading_distribution, source_distribution, standard_errors
from logitjudge.orderings import parse
from logitjudge.report.asked import asked as made_again
from logitjudge.report.summary import summary
from logitjudge.study import study
from logitjudge.verdicts import Writing

FEEDBACK = Writing("[RESULT]", lead=" ")


@pytest.fixture(scope="module")
def llama():
    return tiny_models.judge("llama")


def written(tokenizer, text, finish="marker"):
    """A trace of a text."""
    return Trace(tuple(tokenizer.pieces([text])[0]), text, finish)


def query_of(tokenizer, verdict="feedback"):
    class Backend:
        pass

    Backend.tokenizer = tokenizer
    asked = study(tiny_models.items(1), orderings="identity", verdict=verdict)
    return asked.query(Backend, asked.itemset.items[0], asked.orderings[0])


# --- the place -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "how", "given"),
    [
        ("It is fine. [RESULT]", FEEDBACK, ""),
        ("Not a [RES] 3. [RESULT]", FEEDBACK, ""),
        ("I think 5, or [RESULT] 3.</think>", Writing("</think>", given="\n\nThe score is "), "\n\nThe score is "),
    ],
)
def test_the_options_are_read_behind_the_judge_s_own_text(text, how, given):
    tokenizer = HFTokenizer(tiny_models.tokenizer())
    query = query_of(tokenizer)
    placed = verdicts.place(tokenizer, query, written(tokenizer, text), how)
    read = query.tokens.text + text + given
    assert tokenizer.decode(placed.tokens.context) == read
    assert [tokenizer.decode(tail) for tail in placed.tokens.tails] == [f"{how.lead}{k}" for k in range(1, 6)]
    assert placed.tokens.context[: len(query.tokens.context)] == query.tokens.context


def test_what_the_marker_s_last_token_brings_along_stays():
    tokenizer = HFTokenizer(tiny_models.tokenizer(("]:",)))
    ids = tokenizer.pieces(["Fine. [RESULT]:"])[0]
    placed = verdicts.place(tokenizer, query_of(tokenizer), Trace(tuple(ids), "Fine. [RESULT]:", "marker"), FEEDBACK)
    assert tokenizer.decode(placed.tokens.context).endswith("[RESULT]:")
    assert [tokenizer.decode(tail) for tail in placed.tokens.tails] == [f" {k}" for k in range(1, 6)]


def test_a_marker_that_merges_with_the_options_is_an_error():
    tokenizer = HFTokenizer(tiny_models.tokenizer(("] 1", "] 2")))
    with pytest.raises(OptionError, match="merges the marker"):
        verdicts.place(tokenizer, query_of(tokenizer), written(tokenizer, "Fine. [RESULT]"), FEEDBACK)


def test_a_text_without_its_end_is_refused_or_closed():
    tokenizer = HFTokenizer(tiny_models.tokenizer())
    endless = written(tokenizer, "It goes on", "length")
    assert verdicts.place(tokenizer, query_of(tokenizer), endless, FEEDBACK) is None
    closed = verdicts.place(tokenizer, query_of(tokenizer), endless, Writing("[RESULT]", lead=" ", unended="close"))
    assert tokenizer.decode(closed.tokens.context).endswith("It goes on\n[RESULT]")


def test_thoughts_end_as_the_chat_template_says(llama):
    tokenizer = tiny_models.tokenizer()
    tokenizer.chat_template = tiny_models.CHAT + "<think>\n"
    backend = models.open_backend(models.parse(llama[0], tokenizer=tokenizer, thinks=True))
    template = study(tiny_models.items(1), verdict="think").template
    settings = {"max_new_tokens": 20, "unended": "refuse", "trace": "per-ordering", "samples": 1, "temperature": 0.0}
    how = verdicts.writing(template, backend, (1, 2, 3, 4, 5), settings, 0)
    assert (how.marker, how.given) == ("</think>", "The score is ")
    silent = models.open_backend(models.parse(llama[0], tokenizer=tiny_models.tokenizer()))
    with pytest.raises(InputError, match="what ends this judge's thoughts"):
        verdicts.writing(template, silent, (1, 2, 3, 4, 5), settings, 0)


# --- writing -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [1, 100_000])
def test_greedy_texts_are_the_model_s_own_whatever_the_batch(llama, budget):
    from logitjudge.backends.hf.generate import generate

    model, tokenizer = llama
    backend = models.open_backend(models.parse(model, tokenizer=tokenizer))
    contexts = [tuple(range(10, 10 + n)) for n in (40, 7, 23)]
    made = generate(backend.forward, backend.tokenizer, contexts, "[RESULT]", 12, budget)
    for context, trace in zip(contexts, made, strict=True):
        ids = list(context)
        for token in trace.ids:
            with torch.inference_mode():
                assert int(model(torch.tensor([ids])).logits[0, -1].argmax()) == token
            ids.append(token)
        assert (trace.finish, len(trace.ids)) == ("length", 12)


def scripted(monkeypatch, texts, finish=None):
    """Let the judge write these texts, one after the other."""
    left = iter(texts)

    def generate(self, contexts, marker, most, temperature=0.0, seeds=()):
        made = [next(left) for _ in contexts]
        return [
            Trace(tuple(self.tokenizer.pieces([text])[0]), text, "marker" if marker in text else "end") for text in made
        ]

    monkeypatch.setattr(HFJudge, "generate", generate)


def judge(llama, out, count=2, **options):
    return lj.judge(
        llama[0], tiny_models.items(count), tokenizer=llama[1], orderings="cyclic", device="cpu", out=out,
        verdict="feedback", max_new_tokens=30, **options,
    )  # fmt: skip


def test_a_run_reads_behind_every_text_and_keeps_the_texts(llama, tmp_path, monkeypatch):
    texts = [f"Text {n}, I give it [RES] {n % 3}. [RESULT]" for n in range(10)]
    scripted(monkeypatch, texts)
    run = judge(llama, tmp_path)
    rows = list(parts.traces(tmp_path))
    assert [row["text"] for row in rows] == texts
    assert run.provenance["traces"] == {
        "end_marker": "[RESULT]", "sources": None, "samples": 1, "temperature": 0.0,
        "count": 10, "ended": 10, "end": 0, "length": 0, "named": 6,
    }  # fmt: skip
    assert list(run.readings()["trace_id"]) == [row["trace_id"] for row in rows]
    assert run.provenance["noise_floor"]["max_nats"] < 1e-4
    tokenizer = HFTokenizer(llama[1])
    asked = study(tiny_models.items(2), orderings="cyclic", verdict="feedback")
    backend = models.open_backend(models.parse(llama[0], tokenizer=llama[1], date=run.provenance["started"]))
    for n, query in enumerate(asked.queries(backend, asked.itemset.items)):
        context = [*query.tokens.context, *tokenizer.pieces([texts[n]])[0]]
        for k in range(5):
            ids = tokenizer.pieces([f" {k + 1}"])[0]
            with torch.inference_mode():
                logp = llama[0](torch.tensor([context + ids])).logits[0].log_softmax(-1)
            expected = sum(float(logp[len(context) - 1 + d, token]) for d, token in enumerate(ids))
            assert run.logp[n // 5, n % 5, k] == pytest.approx(expected, abs=1e-4)


def test_an_item_with_a_text_without_its_end_is_refused_in_all_its_orderings(llama, tmp_path, monkeypatch):
    texts = [f"{n} [RESULT]" for n in range(15)]
    texts[7] = "no end"
    scripted(monkeypatch, texts)
    run = judge(llama, tmp_path, 3)
    assert [item.id for item in run.items] == ["item-0", "item-2"]
    assert [(row["id"], row["reason"]) for row in run.refused] == [
        ("item-1", "1 of 5 texts of the judge have no '[RESULT]'")
    ]
    assert run.provenance["traces"]["end"] == 1
    assert run.provenance["readings"] == 10


def test_closed_by_force_it_is_read_and_counted(llama, tmp_path, monkeypatch):
    scripted(monkeypatch, ["no end"] + [f"{n} [RESULT]" for n in range(9)])
    run = judge(llama, tmp_path, unended="close")
    assert (len(run.items), len(run.refused)) == (2, 0)
    assert run.provenance["traces"]["ended"] == 9


def cut(llama, out, monkeypatch, batches):
    """A run that is interrupted when so many batches were read."""
    read, calls = HFJudge.read, []

    def stopped(self, queries, budget):
        if len(calls) == batches:
            raise KeyboardInterrupt
        calls.append(1)
        return read(self, queries, budget)

    with monkeypatch.context() as patch:
        patch.setattr(HFJudge, "read", stopped)
        with pytest.raises(KeyboardInterrupt):
            judge(llama, out, 3, max_batch_tokens=1)


def test_a_resumed_run_writes_no_text_twice(llama, tmp_path, monkeypatch):
    texts = [f"Text {n} [RESULT]" for n in range(15)]
    scripted(monkeypatch, texts)
    whole = judge(llama, tmp_path / "whole", 3, max_batch_tokens=1)
    scripted(monkeypatch, texts)
    cut(llama, tmp_path / "cut", monkeypatch, 1)
    assert len(list(parts.traces(tmp_path / "cut"))) == 10  # those of the second batch were stored before it was read
    run = judge(llama, tmp_path / "cut", 3, max_batch_tokens=1)
    np.testing.assert_array_equal(run.logp, whole.logp)
    assert [row["text"] for row in parts.traces(tmp_path / "cut")] == texts


def test_another_length_of_the_text_is_another_run(llama, tmp_path, monkeypatch):
    scripted(monkeypatch, [f"{n} [RESULT]" for n in range(10)])
    judge(llama, tmp_path)
    with pytest.raises(InputError, match="another setting 'writing'"):
        lj.judge(
            llama[0], tiny_models.items(2), tokenizer=llama[1], orderings="cyclic", device="cpu", out=tmp_path,
            verdict="feedback", max_new_tokens=31,
        )  # fmt: skip


def test_a_planted_judge_cannot_write(tmp_path):
    with pytest.raises(InputError, match="cannot write"):
        lj.judge("planted:position=1,0,0,0,0", "demo", verdict="feedback", out=tmp_path / "run")
    assert store.header(tmp_path / "run") is None


# --- several texts -------------------------------------------------------------------------------------------------


def brute(llama, run, asked, text, item, ordering):
    """(K,) log-probabilities of " 1" ... " 5" behind a prompt and a text, by plain forwards."""
    tokenizer = HFTokenizer(llama[1])
    backend = models.open_backend(models.parse(llama[0], tokenizer=llama[1], date=run.provenance["started"]))
    query = asked.query(backend, item, ordering)
    context = [*query.tokens.context, *tokenizer.pieces([text])[0]]
    made = []
    for k in range(5):
        ids = tokenizer.pieces([f" {k + 1}"])[0]
        with torch.inference_mode():
            logp = llama[0](torch.tensor([context + ids])).logits[0].log_softmax(-1)
        made.append(sum(float(logp[len(context) - 1 + d, token]) for d, token in enumerate(ids)))
    return made


SHARED = [f"Text {chr(97 + n)} gives {'a 4' if n % 3 == 0 else 'no score'}. [RESULT]" for n in range(12)]


def test_shared_texts_are_each_read_under_all_orderings(llama, tmp_path, monkeypatch):
    scripted(monkeypatch, SHARED)
    run = judge(llama, tmp_path, 2, trace="shared:random:3", samples=2, temperature=0.7)
    rows = list(parts.traces(tmp_path))
    assert [(row["item_id"], row["sample"]) for row in rows] == [(f"item-{n // 6}", n % 2) for n in range(12)]
    assert len({row["trace_id"] for row in rows}) == 12
    sources = run.provenance["traces"]["sources"]
    assert [row["source_ordering"] for row in rows] == [
        source for _ in range(2) for source in sources for _ in range(2)
    ]
    assert run.logp_by_trace.shape == (2, 6, 5, 5)
    np.testing.assert_allclose(np.exp(run.logp), np.exp(run.logp_by_trace).mean(axis=1), rtol=1e-12)
    asked = study(tiny_models.items(2), orderings="cyclic", verdict="feedback")
    for i, s, o in ((0, 0, 0), (1, 3, 2), (1, 5, 4)):
        text = SHARED[i * 6 + s]
        expected = brute(llama, run, asked, text, run.items[i], run.orderings[o])
        np.testing.assert_allclose(run.logp_by_trace[i, s, o], expected, atol=1e-4)
    stored = run.readings()
    assert len(stored) == run.provenance["readings"] == 60
    assert [name.rpartition("|")[0] for name in stored["trace_id"][:6]] == [
        f"item-0|{','.join(map(str, source))}" for source in sources for _ in range(2)
    ]
    assert run.provenance["noise_floor"]["max_nats"] < 1e-4
    again = judge(llama, tmp_path, 2, trace="shared:random:3", samples=2, temperature=0.7)
    np.testing.assert_array_equal(again.logp_by_trace, run.logp_by_trace)


def test_shared_texts_show_apart_what_comes_through_them(llama, tmp_path, monkeypatch):
    scripted(monkeypatch, SHARED)
    run = judge(llama, tmp_path, 2, trace="shared:random:3", samples=2, temperature=0.7)
    made = summary(run)["traces"]
    named = np.array([n % 3 == 0 for n in range(12)]).reshape(2, 6)
    assert (made["shared"]["named"]["texts"], made["shared"]["unnamed"]["texts"]) == (named.sum(), (~named).sum())
    assert made["named"] == named.sum()
    p = np.exp(run.logp_by_trace)
    mean = np.array([p[i, ~named[i]].mean(axis=0) for i in range(2)])  # over the item's texts
    q = mean / mean.sum(axis=-1, keepdims=True)
    reading = [q[:, o, list(ordering.shown)].mean(axis=0) for o, ordering in enumerate(run.orderings)]
    np.testing.assert_allclose(made["shared"]["unnamed"]["reading"], np.mean(reading, axis=0), atol=1e-12)
    assert made["shared"]["all"]["reading"] == summary(run)["position_distribution"]["soft"]
    assert made["standard_error"]["max"] == pytest.approx(standard_errors(run).max())


def test_the_standard_error_is_that_of_the_score_that_is_reported():
    """Against the spread of the ratio over many draws of S texts of unequal mass."""
    rng = np.random.default_rng(0)
    texts, draws = 40, 2_000
    mass = rng.uniform(0.05, 0.95, (draws, texts))
    share = np.clip(
        0.2 + 0.6 * mass + rng.normal(0, 0.1, (draws, texts)), 0.01, 0.99
    )  # of score 2; it goes with the mass
    p = np.stack([mass * (1 - share), mass * share], axis=-1)[:, :, None, :]
    logp = np.log(p)
    items = tuple(lj.Item(f"i{n}", {}) for n in range(draws))
    head = {"traces": {"sources": None, "samples": texts}}
    mean = np.log(p.mean(axis=1))
    fields = {"provenance": head, "logp_by_trace": logp}
    run = lj.Run(mean, np.zeros(mean.shape), items, parse("identity", (1, 2)), (1, 2), **fields)
    spread = lj.debias(run).score.std()
    assert np.sqrt((standard_errors(run) ** 2).mean()) == pytest.approx(spread, rel=0.06)


def test_the_effect_of_the_source_is_that_of_its_positions():
    scores = (1, 2, 3)
    sources = parse("cyclic", scores)
    logits = np.array([2.0, 0.0, 0.0])  # of positions in the source; the reading ordering does nothing
    logp = np.empty((1, 3, 6, 3))
    for s, source in enumerate(sources):
        logp[0, s] = np.log(np.exp(logits) / np.exp(logits).sum())[list(source.position_of)]
    head = {"traces": {"sources": [list(source.values(scores)) for source in sources], "samples": 1}}
    mean = np.log(np.exp(logp).mean(axis=1))
    run = lj.Run(
        mean,
        np.zeros(mean.shape),
        (lj.Item("a", {}),),
        parse("full", scores),
        scores,
        provenance=head,
        logp_by_trace=logp,
    )
    np.testing.assert_allclose(source_distribution(run), np.exp(logits) / np.exp(logits).sum(), atol=1e-12)
    np.testing.assert_allclose(reading_distribution(run), np.full(3, 1 / 3), atol=1e-12)
    with pytest.raises(lj.NotObserved, match="--trace shared"):
        by_source(lj.Run(mean, np.zeros(mean.shape), run.items, run.orderings, scores))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"samples": 3}, "would be the same text"),
        ({"trace": "shred"}, "unknown value of trace 'shred'. Did you mean 'shared'"),
        ({"trace": "shared:cycli"}, "unknown design"),
        ({"temperature": -1.0}, "temperature is -1.0"),
        ({"verdict": "direct", "samples": 2, "temperature": 1.0}, "of judges that write"),
        ({"verdict": "sampled", "trace": "shared"}, "no text can be shared"),
        ({"verdict": "sampled", "unended": "close"}, "Leave --unended out"),
        ({"verdict": "direct", "max_new_tokens": 7}, "max_new_tokens is of judges that write"),
    ],
)
def test_settings_that_make_no_sense_are_refused_before_anything_is_opened(tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        lj.judge("no/model", tiny_models.items(1), out=tmp_path / "run", **{"verdict": "feedback", **options})
    assert not (tmp_path / "run").exists()


def test_texts_under_moved_labels_have_names_of_their_own():
    own = Writing("x").name("a", lj.Ordering((0, 1)), 0, (1, 2))
    moved = Writing("x").name("a", lj.Ordering((0, 1), (1, 0)), 0, (1, 2))
    assert own != moved


# --- drawn texts ---------------------------------------------------------------------------------------------------


def test_texts_are_drawn_by_their_seeds_whatever_the_batch(llama):
    from logitjudge.backends.hf.generate import generate

    backend = models.open_backend(models.parse(llama[0], tokenizer=llama[1]))
    contexts = [tuple(range(10, 30))] * 6
    seeds = [1, 2, 3, 4, 5, 1]
    several, alone = (
        generate(backend.forward, backend.tokenizer, contexts, "", 8, budget, temperature=1.0, seeds=seeds)
        for budget in (100_000, 1)
    )
    assert several == alone
    assert several[0] == several[5]
    assert len({trace.ids for trace in several}) == 5


def test_tokens_are_drawn_from_the_softmax_over_the_temperature(llama):
    from logitjudge.backends.hf.generate import generate

    backend = models.open_backend(models.parse(llama[0], tokenizer=llama[1]))
    context = tuple(range(10, 30))
    made = generate(
        backend.forward, backend.tokenizer, [context] * 4_000, "", 1, 200_000, temperature=2.0, seeds=range(4_000)
    )
    with torch.inference_mode():
        expected = (llama[0](torch.tensor([context])).logits[0, -1].double() / 2.0).softmax(-1).numpy()
    found = np.bincount([trace.ids[0] for trace in made if trace.ids], minlength=len(expected)) / 4_000
    likely = expected > 0.005
    assert likely.sum() > 10
    errors = np.sqrt(expected * (1 - expected) / 4_000)
    assert (np.abs(found - expected) < 4.5 * errors)[likely].all()


# --- sampled -------------------------------------------------------------------------------------------------------


def sampled(llama, out, texts, monkeypatch, **options):
    scripted(monkeypatch, texts)
    return lj.judge(
        llama[0], tiny_models.items(2), tokenizer=llama[1], orderings="cyclic", device="cpu", out=out,
        verdict="sampled", max_new_tokens=30, samples=3, temperature=1.0, **options,
    )  # fmt: skip


PICKS = [f"Fine. [RESULT] {n % 5 + 1}" for n in range(30)]


def test_a_sampled_run_has_picks_and_no_probabilities(llama, tmp_path, monkeypatch):
    texts = [*PICKS]
    texts[4], texts[7] = "no score", "Well. [RESULT] 45"
    run = sampled(llama, tmp_path, texts, monkeypatch)
    expected = np.array([float(n % 5 + 1) for n in range(30)])
    expected[[4, 7]] = np.nan
    np.testing.assert_array_equal(run.picks, expected.reshape(2, 5, 3))
    for name in ("logp", "alias_mass", "logp_by_trace", "exact"):
        with pytest.raises(lj.NoLogProbabilities, match="--verdict sampled"):
            getattr(run, name)
    with pytest.raises(lj.NoLogProbabilities):
        run.probs()
    with pytest.raises(lj.NoLogProbabilities):
        lj.score_position_matrix(run)
    assert run.provenance["traces"]["failed"] == 2
    assert [row["picked"] for row in parts.traces(tmp_path)][3:6] == [4, None, 1]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(run)).picks, run.picks)  # noqa: S301
    np.testing.assert_array_equal(run.select([False, True]).picks, run.picks[1:])


def test_hard_estimators_take_the_picks(llama, tmp_path, monkeypatch):
    run = sampled(llama, tmp_path, PICKS, monkeypatch)
    frame = run.to_frame()
    for p in range(1, 6):
        assert lj.position_distribution(run, "hard")[p - 1] == pytest.approx((frame["position"] == p).mean())
    np.testing.assert_allclose(lj.debias(run, "mean_winner").score, run.picks.mean(axis=(1, 2)))
    made = summary(run)
    assert made["position_distribution"]["soft"] is None
    assert made["parsed"] == {"texts": 30, "failed": 0, "share": 0.0, "by_ordering": [0.0] * 5, "items_without": []}
    assert {row["method"] for row in made["agreement"]} <= {"mean_winner"}
    assert made["traces"]["standard_error"]["max"] == pytest.approx((run.picks.std(axis=2, ddof=1) / np.sqrt(3)).max())


def test_an_item_without_any_pick_has_no_score(llama, tmp_path, monkeypatch):
    run = sampled(llama, tmp_path, ["no"] * 15 + PICKS[15:], monkeypatch)
    scores = lj.debias(run, "mean_winner").score
    assert np.isnan(scores).tolist() == [True, False]
    assert summary(run)["parsed"]["items_without"] == ["item-0"]


# --- all refused, and what was asked -------------------------------------------------------------------------------


def test_a_run_whose_items_are_all_refused_is_finished(llama, tmp_path, monkeypatch):
    scripted(monkeypatch, ["no end"] * 10)
    with pytest.raises(lj.AllRefused, match="none of its items could be judged"):
        judge(llama, tmp_path)
    head = store.header(tmp_path)
    assert (head["refused"], head["readings"], head["noise_floor"]) == (2, 0, None)
    assert head["finished"]
    with pytest.raises(lj.AllRefused):
        judge(llama, tmp_path)


def test_what_was_asked_has_the_text(llama, tmp_path, monkeypatch):
    model = tiny_models.save(tmp_path / "model")
    scripted(monkeypatch, SHARED)
    run = lj.judge(
        str(model), tiny_models.items(2), orderings="cyclic", device="cpu", out=tmp_path / "run", verdict="feedback",
        trace="shared:identity", samples=2, temperature=1.0,
    )  # fmt: skip
    made = made_again(tmp_path / "run", "item-1", "3,4,5,1,2", trace="item-1|1,2,3,4,5|1")
    assert made["text"].endswith(SHARED[3])
    ids = made["context_token_ids"]
    for k, option in enumerate(made["options"]):
        with torch.inference_mode():
            logp = llama[0](torch.tensor([ids + option["token_ids"]])).logits[0].log_softmax(-1)
        expected = sum(float(logp[len(ids) - 1 + d, token]) for d, token in enumerate(option["token_ids"]))
        assert run.logp_by_trace[1, 1, 2, k] == pytest.approx(expected, abs=1e-4)
    assert made_again(tmp_path / "run", "item-1", "3,4,5,1,2")["trace_id"] == "item-1|1,2,3,4,5|0"
    with pytest.raises(InputError, match="unknown trace"):
        made_again(tmp_path / "run", "item-1", "3,4,5,1,2", trace="item-0|1,2,3,4,5|1")


def test_thoughts_that_give_another_score_do_not_move_the_reading(llama, tmp_path, monkeypatch):
    model, tokenizer = llama[0], tiny_models.tokenizer()
    tokenizer.chat_template = tiny_models.CHAT + "<think>\n"
    thoughts = [f"It is {k}, so [RESULT] 3. The score is {k}</think>" for k in range(1, 6)]
    scripted(monkeypatch, thoughts)
    run = lj.judge(
        model,
        tiny_models.items(1),
        tokenizer=tokenizer,
        orderings="cyclic",
        device="cpu",
        out=tmp_path,
        verdict="think",
    )
    assert run.provenance["traces"]["end_marker"] == "</think>"
    wrapped = HFTokenizer(tokenizer, thinks=True)
    backend = models.open_backend(models.parse(model, tokenizer=tokenizer, thinks=True, date=run.provenance["started"]))
    questions = study(tiny_models.items(1), orderings="cyclic", verdict="think")
    for o, query in enumerate(questions.queries(backend, questions.itemset.items)):
        text = query.tokens.text + thoughts[o] + "The score is "
        for k in range(5):
            context, ids = wrapped.pieces([text])[0], wrapped.pieces([str(k + 1)])[0]
            with torch.inference_mode():
                logp = model(torch.tensor([context + ids])).logits[0].log_softmax(-1)
            expected = sum(float(logp[len(context) - 1 + d, token]) for d, token in enumerate(ids))
            assert run.logp[0, o, k] == pytest.approx(expected, abs=1e-4)


# --- what must not pass --------------------------------------------------------------------------------------------


def test_texts_that_cannot_be_parsed_make_no_position_bias():
    """Every score equally often wherever it stands, but nothing to parse under one ordering, and less under another."""
    orderings = parse("cyclic", (1, 2, 3))
    picks = np.tile(np.array([1.0, 2.0, 3.0]), (30, 3, 2))
    picks[:, 1, ::2] = np.nan
    run = lj.SampledRun(picks, tuple(lj.Item(f"i{n}", {}) for n in range(30)), orderings, (1, 2, 3))
    kept = np.isfinite(picks[:, 1]).sum(axis=0) > 0
    assert 0 < kept.sum() < len(kept)
    matrix = lj.score_position_matrix(run, "hard")
    parsed = np.isfinite(picks).sum(axis=(0, 2))
    for k in range(3):
        cells = [
            (picks[:, [o for o in range(3) if orderings[o].position_of[k] == p]] == k + 1).sum()
            / parsed[[o for o in range(3) if orderings[o].position_of[k] == p]].sum()
            for p in range(3)
        ]
        np.testing.assert_allclose(matrix.values[k], np.array(cells) / np.sum(cells))
    picks[:, 1] = np.nan
    blind = lj.score_position_matrix(lj.SampledRun(picks, run.items, orderings, (1, 2, 3)), "hard")
    assert np.isnan(blind.values).all()
    assert all("never shown" in reason for reason in blind.reasons)


@pytest.mark.parametrize(
    ("verdict", "front"),
    [("feedback", "system: x"), ("sampled", "system: x"), ("feedback", "verdicts: {feedback: {lead: x}}")],
)
def test_a_template_without_a_marker_is_refused(tmp_path, verdict, front):
    (tmp_path / "own.j2").write_text(f"---\n{front}\n---\n{{{{ instruction }}}} {{{{ levels }}}}")
    with pytest.raises(InputError, match="does not say what stands before the score"):
        lj.judge("no/model", tiny_models.items(1), out=tmp_path / "run", verdict=verdict, template=tmp_path / "own.j2")


def test_a_text_ends_with_the_token_that_completes_its_marker():
    tokenizer = HFTokenizer(tiny_models.tokenizer())
    ids = tokenizer.pieces(["Fine. [RESULT] 4"])[0]
    made = _asked.trace(tokenizer, ids, "stop", "[RESULT]", set())
    assert (made.text, made.finish) == ("Fine. [RESULT]", "marker")


def test_the_least_temperature_is_greedy(llama):
    backend = models.open_backend(models.parse(llama[0], tokenizer=llama[1]))
    contexts = [tuple(range(10, 30))]
    greedy = backend.generate(contexts, "", 4)
    assert backend.generate(contexts, "", 4, 1e-310, [3]) == greedy


def test_lost_texts_are_written_and_read_anew(llama, tmp_path, monkeypatch):
    texts = [f"Text {chr(97 + n)} [RESULT]" for n in range(15)]
    scripted(monkeypatch, texts)
    whole = judge(llama, tmp_path / "whole", 3, max_batch_tokens=1)
    scripted(monkeypatch, texts)
    cut(llama, tmp_path / "cut", monkeypatch, 2)
    (tmp_path / "cut/traces/part-000001.parquet").unlink()
    scripted(monkeypatch, texts[5:10])
    run = judge(llama, tmp_path / "cut", 3, max_batch_tokens=1)
    np.testing.assert_array_equal(run.logp, whole.logp)
    assert list(run.traces()["text"]) == texts


def test_a_shared_run_without_its_texts_is_shown_without_what_they_say(llama, tmp_path, monkeypatch):
    scripted(monkeypatch, SHARED)
    run = judge(llama, tmp_path, 2, trace="shared:random:3", samples=2, temperature=0.7)
    (tmp_path / "traces/part-000000.parquet").unlink()
    made = summary(lj.load_run(tmp_path))["traces"]
    assert (made["shared"]["named"], made["shared"]["unnamed"]) == (None, None)
    assert made["shared"]["all"] == summary(run)["traces"]["shared"]["all"]


def test_aliases_are_not_ignored_silently(llama, tmp_path, monkeypatch):
    scripted(monkeypatch, SHARED)
    judge(llama, tmp_path / "shared", 2, trace="shared:random:3", samples=2, temperature=0.7)
    made = summary(lj.load_run(tmp_path / "shared", aliases="sum"))["traces"]
    assert (made["shared"], made["standard_error"]) == (None, None)
    sampled(llama, tmp_path / "sampled", PICKS, monkeypatch)
    with pytest.raises(lj.NoLogProbabilities, match="aliases"):
        lj.load_run(tmp_path / "sampled", aliases="sum")


def test_what_was_asked_of_a_text_without_its_end_is_one_message(llama, tmp_path, monkeypatch):
    model = tiny_models.save(tmp_path / "model")
    scripted(monkeypatch, ["no end"] * 5)
    monkeypatch.setattr(texts_of, "ended", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        lj.judge(
            str(model), tiny_models.items(1), orderings="cyclic", device="cpu", out=tmp_path / "run", verdict="feedback"
        )
    with pytest.raises(InputError, match="did not reach"):
        made_again(tmp_path / "run", "item-0", "3,4,5,1,2")
