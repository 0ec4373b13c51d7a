"""One reading as it shows itself: the text that was read, its tokens, the options and their probabilities."""

from dataclasses import replace

import numpy as np
import pytest
import tiny_models
from planted_runs import planted_run, rated_items, rubric_of
from test_markup import HOSTILE, seen
from test_verdicts import PICKS, SHARED, sampled, scripted

import logitjudge as lj
from logitjudge import store
from logitjudge.backends.hf.tokenizer import HFTokenizer
from logitjudge.core import Item, Level, Rubric
from logitjudge.errors import InputError, ModelError
from logitjudge.report.asked import asked
from logitjudge.report.reading import pieces

ODD = f"{HOSTILE} größer 日本語 👩‍👩‍👧 \u202eabc"


def items(count=2, levels=5):
    rubric = Rubric("r", "How good?", tuple(Level(k, f"level {k}: {HOSTILE}") for k in range(1, levels + 1)))
    return [Item(f"i{n}", {"instruction": "Say.", "response": f"{n} {ODD}"}, rubric) for n in range(count)]


@pytest.fixture(scope="module")
def llama():
    return tiny_models.judge("llama")


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A run of a tiny judge with its model's folder."""
    folder = tmp_path_factory.mktemp("stored")
    model = tiny_models.save(folder / "model", merges=("Score", " the"))
    return lj.judge(
        str(model), items(), orderings="balanced", device="cpu", dtype="float32", out=folder / "run"
    ), model  # fmt: skip


def test_a_reading_has_the_text_its_tokens_and_the_probabilities(stored):
    run, _ = stored
    found = lj.reading(run, "i1", "5,4,3,2,1")
    o = [ordering.values((1, 2, 3, 4, 5)) for ordering in run.orderings].index((5, 4, 3, 2, 1))
    made = asked(run.folder, "i1", "5,4,3,2,1")
    assert f"1 {ODD}" in found.text
    assert found.text == made["text"]
    assert "".join(text for text, _ in found.pieces) == made["text"]
    assert [n for _, ids in found.pieces for n in ids] == made["context_token_ids"]
    assert [list(answer.token_ids) for answer in found.answers] == [o["token_ids"] for o in made["options"]]
    assert [answer.prob for answer in found.answers] == pytest.approx(np.exp(run.logp[1, o]))
    assert [answer.share for answer in found.answers] == pytest.approx(run.probs()[1, o])
    assert [answer.position for answer in found.answers] == [5, 4, 3, 2, 1]
    stored_tokens = run.readings().query("item_id == 'i1'").iloc[o]["top_tokens"]
    assert [token.id for token in found.top_tokens] == [token["id"] for token in stored_tokens[:5]]
    assert (found.note, found.trace, found.samples) == ("", None, None)


def test_it_shows_itself_with_everything_as_text(stored):
    found = lj.reading(stored[0], "i1", (5, 4, 3, 2, 1))
    shown = seen(found)
    assert found.text in shown.text
    assert [row[:3] for row in shown.rows[1:]] == [[str(p), str(6 - p), repr(str(6 - p))] for p in range(1, 6)]
    assert shown.rows[1][3] == f"{100 * found.answers[4].prob:.1f}"
    assert shown.titles[0] == "1"  # the beginning-of-sequence token
    assert f"other tokens: {found.top_tokens[0].text!r}" in shown.text
    assert found.text in repr(found)
    assert "position  score  option" in repr(found)
    assert found.to_frame()["prob"].tolist() == [answer.prob for answer in found.answers]


@pytest.mark.parametrize("spec", [(5, 4, 3, 2, 1), "5,4,3,2,1", lj.Ordering((4, 3, 2, 1, 0))])
def test_an_ordering_is_given_in_any_form(stored, spec):
    assert lj.reading(stored[0], "i0", spec).ordering == (5, 4, 3, 2, 1)


@pytest.mark.parametrize(
    ("item", "ordering", "options", "message"),
    [
        ("i7", "5,4,3,2,1", {}, "unknown item 'i7'"),
        ("i1", "5,3,4,2,1", {}, "no ordering '5,3,4,2,1'"),
        ("i1", "balanced", {}, "no ordering 'balanced'"),
        ("i1", lj.Ordering((4, 3, 2, 1, 0), (0, 1, 2, 3, 4)), {}, "no ordering"),
        ("i1", "5,4,3,2,1", {"trace": "x"}, "no readings behind texts"),
    ],
)
def test_what_was_not_read_is_an_error(stored, item, ordering, options, message):
    with pytest.raises(InputError, match=message):
        lj.reading(stored[0], item, ordering, **options)


def test_without_the_judge_the_prompt_is_there_and_the_reason(stored, tmp_path):
    run, model = stored
    moved = model.rename(tmp_path / "moved")
    try:
        found = lj.reading(run, "i1", "5,4,3,2,1")
        assert found.text.endswith("The score is ")
        assert f"1 {ODD}" in found.text
        assert found.pieces is None
        assert "no longer at" in found.note
        assert found.answers[0].prob == lj.reading(run, "i1", "5,4,3,2,1", model=str(moved)).answers[0].prob
        tiny_models.tokenizer().save_pretrained(tmp_path / "other")
        (tmp_path / "other" / "config.json").write_bytes((moved / "config.json").read_bytes())
        with pytest.raises(ModelError, match="not the one that the run used"):
            lj.reading(run, "i1", "5,4,3,2,1", model=str(tmp_path / "other"))
    finally:
        moved.rename(model)


@pytest.mark.parametrize("levels", [2, 10])
def test_a_planted_judge_has_no_tokens(levels, tmp_path):
    run = lj.judge("planted:item_position_sd=1", items(2, levels), orderings="identity", out=tmp_path / "run")
    found = lj.reading(run, "i0", "identity")
    assert (found.pieces, found.note) == (None, "This judge has no tokenizer.")
    assert f"0 {ODD}" in found.text
    assert len(seen(found).rows) == levels + 1
    assert [answer.share for answer in found.answers] == pytest.approx(run.probs()[0, 0])


def test_a_run_in_memory_has_probabilities_only():
    run = planted_run("item_position_sd=1;mass=0.5", rated_items(3), rubric=rubric_of(5))
    found = lj.reading(run, "i1", "5,4,3,2,1")
    assert (found.text, found.pieces, found.top_tokens) == (None, None, ())
    assert "not loaded from a folder" in found.note
    assert "on the options together: 50.0 %" in repr(found)
    assert found.answers[0].share == pytest.approx(run.probs()[1, 5, 0])
    assert seen(found).rows[1][2] == "–"
    with pytest.raises(InputError, match="Leave the trace out"):
        lj.reading(run, "i1", "5,4,3,2,1", trace="x")


def test_aliases_count_as_they_do_in_the_run():
    run = planted_run("", rated_items(1), "identity", rubric_of(2))
    run = replace(run, logp=np.log([[[0.1, 0.3]]]), alias_mass=[[[0.3, 0.0]]], aliases="sum")
    found = lj.reading(run, "i0", "1,2")
    assert [answer.prob for answer in found.answers] == pytest.approx([0.1, 0.3])
    assert [answer.share for answer in found.answers] == pytest.approx([4 / 7, 3 / 7])


def test_an_upper_bound_says_so():
    run = planted_run("", rated_items(1), "identity", rubric_of(2))
    found = lj.reading(replace(run, exact=np.array([[[True, False]]])), "i0", "1,2")
    assert [answer.share for answer in found.answers] == [None, None]
    assert [row[-2:] for row in seen(found).rows[1:]] == [
        [f"{100 * found.answers[0].prob:.1f}", "–"],
        [f"at most {100 * found.answers[1].prob:.1f}", "–"],
    ]
    assert "on the options together: 100.0 % at most" in repr(found)


def test_a_run_without_texts_says_so(tmp_path):
    run = lj.judge("planted:item_position_sd=1", items(1), orderings="identity", out=tmp_path / "run")
    bare = replace(run, items=(Item("i0", {}),))
    found = lj.reading(bare, "i0", "identity")
    assert found.text is None
    assert "exported without texts" in found.note


def test_a_reading_behind_a_text_is_that_of_the_text(tmp_path, monkeypatch):
    model = tiny_models.save(tmp_path / "model")
    scripted(monkeypatch, SHARED)
    run = lj.judge(
        str(model), tiny_models.items(2), orderings="cyclic", device="cpu", out=tmp_path / "run", verdict="feedback",
        trace="shared:identity", samples=2, temperature=1.0,
    )  # fmt: skip
    for name, s in ((None, 0), ("item-1|1,2,3,4,5|1", 1)):
        found = lj.reading(run, "item-1", "3,4,5,1,2", trace=name)
        assert found.trace == f"item-1|1,2,3,4,5|{s}"
        assert found.text.endswith(SHARED[2 + s])
        assert "".join(text for text, _ in found.pieces) == found.text
        assert [answer.prob for answer in found.answers] == pytest.approx(np.exp(run.logp_by_trace[1, s, 2]))
    with pytest.raises(InputError, match="unknown trace"):
        lj.reading(run, "item-1", "3,4,5,1,2", trace="item-0|1,2,3,4,5|1")


def test_a_sampled_reading_has_picks(llama, tmp_path, monkeypatch):
    texts = [*PICKS]
    texts[4] = "no score"
    run = sampled(llama, tmp_path, texts, monkeypatch)
    found = lj.reading(run, "item-0", run.orderings[1])
    assert [answer.picks for answer in found.answers] == [1, 0, 0, 1, 0]
    assert [answer.prob for answer in found.answers] == [None] * 5
    assert "3 texts, 1 without a score that can be parsed" in seen(found).text
    assert seen(found).rows[0][-1] == "picks"
    assert found.to_frame()["picks"].sum() == 2


def test_the_folder_of_a_run_stays_with_it(tmp_path):
    run = lj.judge("planted:item_position_sd=1", items(2), orderings="identity", out=tmp_path / "run")
    assert run.folder == store.load_run(tmp_path / "run").folder == tmp_path / "run"
    assert run.select([True, False]).folder == run.folder
    assert planted_run("", rated_items(1)).folder is None


class Stripping:
    """A tokenizer that drops the space at the beginning of a text, and splits characters."""

    def decode(self, ids):
        return bytes(ids).decode("utf-8", errors="replace").removeprefix(" ")


@pytest.mark.parametrize("text", ["a  b c", " a", "日本 ü", "", "\n\n", "x\ufffd y", "\ufffd"])
def test_pieces_spell_the_text(text):
    made = pieces(Stripping(), text.encode())
    assert "".join(piece for piece, _ in made) == text.removeprefix(" ")
    assert b"".join(bytes(ids) for _, ids in made) == text.encode()


def test_a_character_of_several_tokens_is_one_piece():
    tokenizer = HFTokenizer(tiny_models.tokenizer())
    (ids,) = tokenizer.pieces(["aü日"])
    assert [(text, len(group)) for text, group in pieces(tokenizer, ids)] == [("a", 1), ("ü", 2), ("日", 3)]
