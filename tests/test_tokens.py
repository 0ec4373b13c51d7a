import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from logitjudge.errors import OptionError
from logitjudge.tokens import alias_strings, common_prefix, nodes, option_logp, resolve, walks

PROMPT = "Rate it. The score is"


class Greedy:
    """Takes the longest piece of its vocabulary, else a character."""

    def __init__(self, *vocabulary, bos=False):
        self.vocabulary = sorted(vocabulary, key=len, reverse=True)
        self.start = ["<s>"] * bos
        self.ids = {}

    def _id(self, piece):
        return self.ids.setdefault(piece, len(self.ids))

    def split(self, text):
        while text:
            piece = next((v for v in self.vocabulary if text.startswith(v)), text[0])
            yield piece
            text = text[len(piece) :]

    def encode(self, texts):
        return [[self._id(piece) for piece in (*self.start, *self.split(text))] for text in texts]

    def pieces(self, texts):
        return [[self._id(piece) for piece in self.split(text)] for text in texts]

    def decode(self, ids):
        piece = {n: text for text, n in self.ids.items()}
        return "".join(piece[n] for n in ids)

    def render(self, messages, prefill):
        return "\n".join(message.content for message in messages) + prefill


class Characters(Greedy):
    """One token a character."""


MERGING = Greedy(*(f" {n}" for n in range(11)), "Rate", " it")  # " 5" is one token
SPLITTING = Greedy(*(str(n) for n in range(11)), " ", "Rate", " it")  # " 5" is " ", "5"
SHARING = Greedy("Score", " Score", " ", *"12345")


def texts_of(tokenizer, resolved):
    return [tokenizer.decode(tail) for tail in resolved.tails]


# --- context and tails ---------------------------------------------------------------------------------------------

TOKENIZERS = {"merging": MERGING, "splitting": SPLITTING, "characters": Characters(), "sharing": SHARING}
TOKENIZERS["with BOS"] = Greedy(" 1", " 2", "12", bos=True)
OPTIONS = (["1", "2"], [" 1", " 2", " 3"], ["1", "10"], ["Score 1", "Score 2"], ["Very poor", "Poor", "Very good"])


@pytest.mark.parametrize("tokenizer", TOKENIZERS.values(), ids=list(TOKENIZERS))
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("prompt", [PROMPT, PROMPT + " ", PROMPT + "\n\n  "])
def test_context_and_tail_are_the_tokens_of_the_whole_text_and_nothing_is_stripped(tokenizer, options, prompt):
    resolved = resolve(tokenizer, prompt, options)
    for option, tail in zip(options, resolved.tails, strict=True):
        assert [*resolved.context, *tail] == tokenizer.encode([prompt + option])[0]


@pytest.mark.parametrize("tokenizer", TOKENIZERS.values(), ids=list(TOKENIZERS))
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_context_is_the_longest_common_prefix_with_the_prompt_alone(tokenizer, options):
    resolved = resolve(tokenizer, PROMPT, options)
    lists = tokenizer.encode([PROMPT, *(PROMPT + option for option in options)])
    n = len(resolved.context)
    assert all(tuple(ids[:n]) == resolved.context for ids in lists)
    assert len({tuple(ids[: n + 1]) for ids in lists}) > 1


def test_an_option_that_merges_with_the_blank_before_it():
    resolved = resolve(MERGING, PROMPT + " ", ["4", "5"])
    assert texts_of(MERGING, resolved) == [" 4", " 5"]
    assert MERGING.decode(resolved.context) == PROMPT


def test_an_option_that_does_not_merge_keeps_the_blank_in_the_context():
    resolved = resolve(SPLITTING, PROMPT + " ", ["4", "5"])
    assert texts_of(SPLITTING, resolved) == ["4", "5"]
    assert SPLITTING.decode(resolved.context) == PROMPT + " "


def test_a_split_option_is_read_as_the_two_tokens_that_it_is():
    assert [len(tail) for tail in resolve(SPLITTING, PROMPT, [" 4", " 5"]).tails] == [2, 2]


def test_what_options_share_stays_in_the_tails():
    resolved = resolve(SHARING, PROMPT + " ", ["Score 1", "Score 5"])
    assert texts_of(SHARING, resolved) == [" Score 1", " Score 5"]


def test_tails_of_one_character_each():
    resolved = resolve(Characters(), "x: ", ["1", "10", "100"])
    assert [len(tail) for tail in resolved.tails] == [1, 2, 3]


def test_a_beginning_of_sequence_token_is_in_the_context_once():
    tokenizer = Greedy(bos=True)
    context = resolve(tokenizer, PROMPT, ["1", "2"]).context
    assert (context[0], context.count(context[0])) == (tokenizer.ids["<s>"], 1)


def test_the_closing_string_is_part_of_each_tail():
    tokenizer = Characters()
    assert texts_of(tokenizer, resolve(tokenizer, PROMPT, ["1", "2"], close=".\n")) == ["1.\n", "2.\n"]


def test_the_longest_sequence_is_context_and_longest_tail():
    resolved = resolve(Characters(), "abc", ["1", "100"])
    assert resolved.longest == 3 + 3


def test_the_text_is_what_the_model_reads():
    assert resolve(MERGING, PROMPT + " ", ["4", "5"]).text == PROMPT + " "


class Blurring(Greedy):
    """Knows no upper case, and nothing of marks."""

    def split(self, text):
        return super().split("".join(c for c in text.lower() if c not in "!?"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["a", "A"], "the options 'a' and 'A' apart"),
        (["b", "a", "A"], "the options 'a' and 'A' apart"),
        (["a", "!"], "the option '!' is no token"),
        (["!", "?"], "the option '!' is no token"),
    ],
)
def test_options_that_the_tokenizer_cannot_tell_apart(options, words):
    with pytest.raises(OptionError, match=words):
        resolve(Blurring(), PROMPT, options)


# --- common_prefix -------------------------------------------------------------------------------------------------

LISTS = st.lists(st.lists(st.integers(0, 2), max_size=6), min_size=1, max_size=6)


@given(LISTS)
def test_the_common_prefix_is_common_and_the_longest(lists):
    n = common_prefix(lists)
    assert all(row[:n] == lists[0][:n] and len(row) >= n for row in lists)
    assert any(len(row) == n for row in lists) or len({row[n] for row in lists}) > 1


# --- nodes and walks -----------------------------------------------------------------------------------------------

TAILS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=4).map(tuple), min_size=2, max_size=8, unique=True)


@given(TAILS)
def test_nodes_are_every_step_of_every_tail_once(tails):
    steps = {(tail[:depth], tail[depth]) for tail in tails for depth in range(len(tail))}
    listed = [(path, token) for path, read in nodes(tails).items() for token in read]
    assert sorted(listed) == sorted(steps)


@given(TAILS)
def test_the_root_is_a_node(tails):
    assert set(nodes(tails)[()]) == {tail[0] for tail in tails}


@given(TAILS)
def test_walks_pass_every_node(tails):
    passed = {walk[:depth] for walk in walks(tails) for depth in range(len(walk) + 1)}
    assert passed == set(nodes(tails))


@given(TAILS)
def test_no_walk_is_a_part_of_another(tails):
    for one, other in itertools.permutations(walks(tails), 2):
        assert other[: len(one)] != one


@given(st.lists(st.integers(0, 9), min_size=2, unique=True))
def test_options_of_one_token_need_one_walk_of_no_token(tokens):
    assert walks([(token,) for token in tokens]) == [()]


# --- option_logp, against an enumeration of all strings ------------------------------------------------------------

VOCABULARY = 3


def conditional(seed):
    """A language model: prefix -> (V,) probabilities, from a table that is drawn when it is needed."""
    table = {}

    def probabilities(prefix):
        if prefix not in table:
            draw = np.random.default_rng([seed, *(token + 1 for token in prefix)])
            table[prefix] = draw.dirichlet(np.full(VOCABULARY, 0.5)) * 0.98 + 0.02 / VOCABULARY
        return table[prefix]

    return probabilities


def brute_force(tails, probabilities):
    """Probability of each option, and of none: of all strings, by the longest tail that each begins with."""
    found = dict.fromkeys([*tails, None], 0.0)
    for string in itertools.product(range(VOCABULARY), repeat=max(map(len, tails))):
        chance = math.prod(probabilities(string[:depth])[token] for depth, token in enumerate(string))
        begun = [tail for tail in tails if string[: len(tail)] == tail]
        found[max(begun, key=len) if begun else None] += chance
    return found


def read(tails, probabilities):
    inner = nodes(tails)
    step = {(path, token): math.log(probabilities(path)[token]) for path, found in inner.items() for token in found}
    others = {path: sum(np.delete(probabilities(path), found)) for path, found in inner.items() if path}
    return option_logp(tails, step, {path: math.log(p) if p else -math.inf for path, p in others.items()})


@given(TAILS, st.integers(0, 10_000))
@settings(deadline=None)
def test_options_are_worth_what_an_enumeration_of_all_answers_says(tails, seed):
    probabilities = conditional(seed)
    found = brute_force(tails, probabilities)
    assume(all(found[tail] > 1e-12 for tail in tails))  # an option whose every continuation is another has none
    np.testing.assert_allclose(np.exp(read(tails, probabilities)), [found[tail] for tail in tails], rtol=1e-9)


@given(TAILS, st.integers(0, 10_000))
@settings(deadline=None)
def test_options_exclude_each_other(tails, seed):
    probabilities = conditional(seed)
    none = brute_force(tails, probabilities)[None]
    assert math.fsum(map(math.exp, read(tails, probabilities))) == pytest.approx(1 - none, abs=1e-9)


@given(TAILS, st.integers(0, 10_000), st.randoms())
@settings(deadline=None)
def test_the_order_of_options_changes_nothing(tails, seed, chance):
    probabilities = conditional(seed)
    worth = dict(zip(tails, read(tails, probabilities), strict=True))
    chance.shuffle(tails)
    assert read(tails, probabilities) == [worth[tail] for tail in tails]


def test_1_10_and_100_are_nested():
    one, zero = 1, 0
    steps = {((), one): 0.8, ((one,), zero): 0.5, ((one, zero), zero): 0.25}
    step = {key: math.log(value) for key, value in steps.items()}
    rest = {(one,): math.log(0.5), (one, zero): math.log(0.75)}
    worth = np.exp(option_logp([(1,), (1, 0), (1, 0, 0)], step, rest))
    np.testing.assert_allclose(worth, [0.8 * 0.5, 0.8 * 0.5 * 0.75, 0.8 * 0.5 * 0.25])


def test_options_1_and_10_of_a_prompt_are_told_apart():
    tokenizer = Characters()
    resolved = resolve(tokenizer, "x: ", ["1", "9", "10"])
    one, nine, zero = (tokenizer.ids[c] for c in "190")
    step = {((), one): math.log(0.6), ((), nine): math.log(0.3), ((one,), zero): math.log(0.9)}
    np.testing.assert_allclose(np.exp(option_logp(resolved.tails, step, {(one,): math.log(0.1)})), [0.06, 0.3, 0.54])


def test_a_judge_that_is_sure_of_the_longer_option_leaves_the_shorter_one_finite():
    """1 - P("0" after "1") is 0 in float32; the other tokens still have their exp(-40)."""
    worth = option_logp([(1,), (1, 0)], {((), 1): -0.5, ((1,), 0): 0.0}, {(1,): -40.0})
    assert worth == [-40.5, -0.5]


# --- aliases -------------------------------------------------------------------------------------------------------


def test_aliases_are_other_ways_to_write_the_option():
    assert {" 5", "\n5", "５", "five", " Five"} <= set(alias_strings("5"))
    assert " good" in alias_strings("good")


def alias_texts(tokenizer, resolved):
    return [{tokenizer.decode([token]) for token in ids} for ids in resolved.aliases]


def test_aliases_are_single_tokens_only():
    tokenizer = Greedy("4", "5", " 5", "five")  # " 4" is two tokens
    assert alias_texts(tokenizer, resolve(tokenizer, PROMPT, ["4", "5"])) == [{"４"}, {"５", " 5", "five"}]


def test_an_option_is_not_its_own_alias():
    resolved = resolve(MERGING, PROMPT, [" 4", " 5"])
    assert alias_texts(MERGING, resolved) == [{"4", "４"}, {"5", "５"}]


def test_a_token_that_two_options_share_is_an_alias_of_neither():
    tokenizer = Greedy("5", " 5", "five", " five")
    resolved = resolve(tokenizer, PROMPT, ["5", "five"])
    assert alias_texts(tokenizer, resolved) == [{"５", " 5"}, set()]  # "five" is the other option itself


WORDS = st.sampled_from(["1", "10", "2", "one", " 1", "two", "Two", "good", " good", "ten", "1０"])
PIECES = st.sampled_from(
    [" 1", "10", " 10", "one", " one", "One", "two", " two", "good", " good", "go", "１", "ten", " "]
)


@given(st.lists(WORDS, min_size=2, max_size=5, unique=True), st.lists(PIECES, unique=True))
@settings(deadline=None)
def test_an_alias_begins_no_option_and_belongs_to_one(options, vocabulary):
    resolved = resolve(Greedy(*vocabulary), PROMPT + ": ", options)
    begins = {tail[0] for tail in resolved.tails}
    every = [token for ids in resolved.aliases for token in ids]
    assert not begins & set(every)
    assert len(every) == len(set(every))
