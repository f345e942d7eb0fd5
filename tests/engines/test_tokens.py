"""Prompts and options as tokens: BOS, the boundary, chat templates, and the context's limit.

Small tokenizers are made here, so that each trap stands in a vocabulary that has it.
"""

import pytest

pytest.importorskip("transformers")

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from generate.contract import Answer, Choose, Message, Request, Response
from generate.tokens import Encoded, Tokens, load_tokenizer
from store.errors import EngineFailed

pytestmark = pytest.mark.engines

BOS, EOS, TURN_END, UNKNOWN = "<s>", "</s>", "<end>", "<unk>"
SPECIALS = [UNKNOWN, BOS, EOS, TURN_END]
CHARACTERS = [chr(code) for code in range(32, 127)] + ["\n", "é", "\u0301", "▁"]

ROLES = "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}<end>\n{% endfor %}"
ASKS = "{% if add_generation_prompt %}[assistant]{% endif %}"
PLAIN_TEMPLATE = ROLES + ASKS
BOS_TEMPLATE = "{{ bos_token }}" + ROLES + ASKS
THINKING_TEMPLATE = (
    PLAIN_TEMPLATE + "{% if enable_thinking is not defined or enable_thinking %}<think>{% endif %}"
)
NO_SYSTEM = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
STRICT_TEMPLATE = NO_SYSTEM + PLAIN_TEMPLATE


def tokenizer(merges=(), *, adds=None, normalizer=None, chat_template=None):
    """Characters and merges over the whole text, so that a merge may cross a space."""
    words = [left + right for left, right in merges]
    vocabulary = {token: place for place, token in enumerate([*SPECIALS, *CHARACTERS, *words])}
    made = tokenizers.Tokenizer(models.BPE(vocabulary, list(merges), unk_token=UNKNOWN))
    made.decoder = decoders.Fuse()
    if normalizer:
        made.normalizer = normalizer
    return dressed(made, adds, chat_template)


def sentence_tokenizer():
    """The way of Llama 2: a text gets a space before its first word, and a space belongs to its word."""
    made = spaced()
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return dressed(made, f"{BOS} $A")


def metaspace_tokenizer():
    """The same in newer files: the space is put by what splits words, and only where there is none."""
    made = spaced()
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    made.decoder = decoders.Metaspace(prepend_scheme="first")
    return dressed(made, f"{BOS} $A")


def spaced():
    vocabulary = {token: place for place, token in enumerate([*SPECIALS, *CHARACTERS, "▁A", "▁B"])}
    return tokenizers.Tokenizer(models.BPE(vocabulary, [("▁", "A"), ("▁", "B")], unk_token=UNKNOWN))


def dressed(made, adds, chat_template=None):
    made.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIALS])
    if adds:
        named = [(text, made.token_to_id(text)) for text in SPECIALS if text in adds]
        made.post_processor = processors.TemplateProcessing(single=adds, special_tokens=named)
    return PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token=BOS, eos_token=EOS, unk_token=UNKNOWN, chat_template=chat_template
    )


def with_bos(merges=(), **choices):
    return tokenizer(merges, adds=f"{BOS} $A", **choices)


def spelled(tokens, ids):
    return tokens.tokenizer.convert_ids_to_tokens(list(ids))


def chosen(tokens, prompt, *options):
    encoded = tokens.encode(Request(prompt, Choose(options)))
    assert isinstance(encoded, Encoded), encoded
    return encoded


def refused(tokens, prompt, task, status="error"):
    response = tokens.encode(Request(prompt, task))
    assert isinstance(response, Response)
    assert response.status == status
    return response.reason


def scored(encoded):
    return [one.token_ids[one.start :] for one in encoded.continuations]


@pytest.fixture(scope="module")
def small(small_model_path):
    return Tokens(load_tokenizer(str(small_model_path), None), 200)


# --- BOS ---


def test_bos_is_what_the_tokenizer_writes_and_not_what_it_names():
    assert Tokens(with_bos(), 100).n_leading_bos == 1
    # bos_token is set all the same
    assert Tokens(tokenizer(), 100).n_leading_bos == 0


@pytest.mark.parametrize("prompt", ["ab", "<s>ab"])
def test_a_plain_prompt_has_one_bos_whether_it_writes_it_or_not(prompt):
    tokens = Tokens(with_bos(), 100)
    encoded = tokens.encode(Request(prompt, Answer(5)))
    assert spelled(tokens, encoded.prompt_token_ids) == [BOS, "a", "b"]
    assert encoded.prompt_text == prompt
    [continuation] = chosen(tokens, prompt, "c").continuations
    assert spelled(tokens, continuation.token_ids) == [BOS, "a", "b", "c"]


def test_a_second_bos_in_a_plain_prompt_is_text():
    tokens = Tokens(with_bos(), 100)
    encoded = tokens.encode(Request("<s><s>", Answer(5)))
    assert spelled(tokens, encoded.prompt_token_ids) == [BOS, "<", "s", ">"]


def test_an_option_that_spells_bos_keeps_it():
    [continuation] = chosen(Tokens(with_bos(), 100), "", BOS).continuations
    assert spelled(Tokens(with_bos(), 100), continuation.token_ids) == [BOS, "<", "s", ">"]


def test_an_eos_that_the_tokenizer_adds_never_ends_a_prompt():
    tokens = Tokens(tokenizer(adds=f"{BOS} $A {EOS}"), 100)
    assert spelled(tokens, tokens.encode(Request("a", Answer(5))).prompt_token_ids) == [BOS, "a"]
    assert spelled(tokens, chosen(tokens, "a", "b").continuations[0].token_ids) == [BOS, "a", "b"]


@pytest.mark.parametrize("template", [PLAIN_TEMPLATE, BOS_TEMPLATE], ids=["adds none", "writes bos"])
def test_a_chat_has_one_bos_whoever_writes_it(template):
    tokens = Tokens(with_bos(chat_template=template), 100)
    encoded = tokens.encode(Request((Message("user", "q"),), Answer(5)))
    assert spelled(tokens, encoded.prompt_token_ids)[:3] == [BOS, "[", "u"]


def test_a_chat_keeps_the_bos_of_its_template_where_the_tokenizer_adds_none():
    tokens = Tokens(tokenizer(chat_template=BOS_TEMPLATE), 100)
    encoded = tokens.encode(Request((Message("user", "q"),), Answer(5)))
    assert (tokens.n_leading_bos, tokens.bos_token_id) == (0, SPECIALS.index(BOS))
    assert spelled(tokens, encoded.prompt_token_ids)[:2] == [BOS, "["]


def test_a_tokenizer_that_changes_text_beside_special_tokens_is_refused():
    odd = tokenizer()
    odd_call = odd.__class__.__call__

    class Odd(odd.__class__):
        def __call__(self, texts, add_special_tokens=True, **keywords):
            given = ["y" for _ in texts] if add_special_tokens else texts
            return odd_call(self, given, add_special_tokens=False, **keywords)

    odd.__class__ = Odd
    with pytest.raises(EngineFailed, match="not supported"):
        Tokens(odd, 100)


# --- the boundary ---


@pytest.mark.parametrize("make", [tokenizer, with_bos, sentence_tokenizer, metaspace_tokenizer])
@pytest.mark.parametrize("spaces", [" ", "   "])
def test_a_trailing_space_belongs_to_the_options(make, spaces):
    tokens = Tokens(make(), 100)
    behind = chosen(tokens, f"Answer:{spaces}", "A", "B")
    before = chosen(tokens, "Answer:", f"{spaces}A", f"{spaces}B")
    assert behind.prompt_token_ids == before.prompt_token_ids
    assert [one.token_ids for one in behind.continuations] == [one.token_ids for one in before.continuations]
    assert scored(behind) == scored(before)
    assert behind.prompt_text == "Answer:"
    assert [one.option for one in behind.continuations] == ["A", "B"]


def test_only_the_space_character_moves():
    tokens = Tokens(tokenizer(), 100)
    assert chosen(tokens, "a:\n", "A").prompt_text == "a:\n"
    assert chosen(tokens, "a:\n ", "A").prompt_text == "a:\n"


def test_the_prompt_of_an_answer_keeps_its_trailing_space():
    encoded = Tokens(tokenizer(), 100).encode(Request("a: ", Answer(5)))
    assert encoded.prompt_text == "a: "
    assert len(encoded.prompt_token_ids) == len("a: ")


def test_a_chat_moves_no_space():
    tokens = Tokens(tokenizer(chat_template=PLAIN_TEMPLATE + " "), 100)
    encoded = chosen(tokens, (Message("user", "q"),), "A")
    assert encoded.prompt_text.endswith("[assistant] ")
    assert [spelled(tokens, ids) for ids in scored(encoded)] == [["A"]]


def test_a_merge_across_the_boundary_is_said_of_all_options():
    # ": C" is one token, so the prompt's ":" is none of the sequence that ends in C
    tokens = Tokens(with_bos([(":", " "), (": ", "C")]), 100)
    encoded = chosen(tokens, "a:", " C", " D")
    assert spelled(tokens, encoded.prompt_token_ids) == [BOS, "a", ":"]
    assert [one.is_merged for one in encoded.continuations] == [True, True]
    assert [spelled(tokens, ids) for ids in scored(encoded)] == [[": C"], [": ", "D"]]


def test_without_a_merge_scoring_starts_where_the_prompt_ends():
    tokens = Tokens(with_bos([("C", "D")]), 100)
    encoded = chosen(tokens, "a:", " CD", " E")
    assert [one.is_merged for one in encoded.continuations] == [False, False]
    assert {one.start for one in encoded.continuations} == {len(encoded.prompt_token_ids)}
    assert [spelled(tokens, ids) for ids in scored(encoded)] == [[" ", "CD"], [" ", "E"]]


def test_a_merge_with_the_first_token_needs_a_bos():
    merges = [(":", " "), (": ", "C")]
    assert "no BOS" in refused(Tokens(tokenizer(merges), 100), ":", Choose((" C", " D")))
    encoded = chosen(Tokens(with_bos(merges), 100), ":", " C", " D")
    assert {one.start for one in encoded.continuations} == {1}


@pytest.mark.parametrize("make", [sentence_tokenizer, metaspace_tokenizer])
def test_a_word_with_its_space_is_one_token_where_spaces_belong_to_words(make):
    tokens = Tokens(make(), 100)
    encoded = chosen(tokens, "B:", " A", " B")
    assert [spelled(tokens, ids) for ids in scored(encoded)] == [["▁A"], ["▁B"]]


def test_a_word_that_is_two_tokens_alone_is_one_behind_a_prompt():
    tokens = Tokens(sentence_tokenizer(), 100)
    assert len(tokens.tokenizer(" A", add_special_tokens=False)["input_ids"]) == 2
    assert [len(ids) for ids in scored(chosen(tokens, "B:", " A"))] == [1]


def test_an_empty_prompt_needs_a_bos():
    assert "no BOS" in refused(Tokens(tokenizer(), 100), "", Choose(("A", "B")))
    assert "no BOS" in refused(Tokens(tokenizer(), 100), "", Answer(5))
    encoded = chosen(Tokens(with_bos(), 100), "", "A", "B")
    assert encoded.prompt_token_ids == (SPECIALS.index(BOS),)
    assert {one.start for one in encoded.continuations} == {1}


# --- options ---


def test_options_are_whole_whatever_their_number_of_tokens():
    tokens = Tokens(with_bos([("C", "D")]), 100)
    encoded = chosen(tokens, "a", "CD", "xyz", " é")
    assert [spelled(tokens, ids) for ids in scored(encoded)] == [["CD"], ["x", "y", "z"], [" ", "é"]]


@pytest.mark.parametrize(
    ("options", "word"),
    [((), "none"), (("A", ""), "empty"), (("A", "B", "A"), "'A'")],
    ids=["none", "empty", "twice"],
)
def test_options_that_cannot_be_compared_are_refused(options, word):
    assert word in refused(Tokens(tokenizer(), 100), "a", Choose(options))


def test_options_that_become_the_same_tokens_are_refused():
    tokens = Tokens(tokenizer(normalizer=normalizers.Lowercase()), 100)
    reason = refused(tokens, "a", Choose(("Yes", "yes")))
    assert "'Yes'" in reason
    assert "'yes'" in reason


def test_an_option_that_becomes_no_token_is_refused():
    tokens = Tokens(tokenizer(normalizer=normalizers.Replace("x", "")), 100)
    assert "'x' adds no token" in refused(tokens, "a", Choose(("x", "y")))


def test_composed_and_decomposed_letters_are_two_options():
    assert len(set(scored(chosen(Tokens(tokenizer(), 100), "a", "é", "e\u0301")))) == 2


def test_all_options_get_a_line_end_where_one_goes_on_from_another():
    tokens = Tokens(tokenizer(), 100)
    encoded = chosen(tokens, "a", "1", "2", "10")
    assert {one.terminator for one in encoded.continuations} == {"\n"}
    assert [spelled(tokens, ids) for ids in scored(encoded)] == [["1", "\n"], ["2", "\n"], ["1", "0", "\n"]]
    assert {one.terminator for one in chosen(tokens, "a", "1", "2").continuations} == {None}


def test_in_a_chat_the_terminator_is_what_ends_a_turn_and_not_what_ends_a_text():
    tokens = Tokens(tokenizer(chat_template=PLAIN_TEMPLATE), 200)
    encoded = chosen(tokens, (Message("user", "q"),), "1", "10")
    assert {one.terminator for one in encoded.continuations} == {TURN_END}
    assert [spelled(tokens, ids)[-1] for ids in scored(encoded)] == [TURN_END, TURN_END]


def test_a_template_that_ends_turns_without_a_token_is_given_the_eos():
    tokens = Tokens(tokenizer(chat_template=PLAIN_TEMPLATE.replace(TURN_END, "")), 200)
    encoded = chosen(tokens, (Message("user", "q"),), "1", "10")
    assert {one.terminator for one in encoded.continuations} == {EOS}


def test_options_that_a_terminator_cannot_tell_apart_are_refused():
    assert "'A'" in refused(Tokens(tokenizer(), 100), "a", Choose(("A", "A\nB")))


# --- special tokens in texts ---


def test_a_special_token_that_a_plain_text_spells_is_text():
    tokens = Tokens(with_bos(), 100)
    encoded = chosen(tokens, f"{TURN_END}:", EOS, "A")
    specials = {SPECIALS.index(text) for text in (TURN_END, EOS)}
    for one in encoded.continuations:
        assert not specials & set(one.token_ids)
    assert tokens.decode(encoded.continuations[0].token_ids) == f"{TURN_END}:{EOS}"


def test_special_tokens_of_a_template_are_tokens():
    tokens = Tokens(tokenizer(chat_template=PLAIN_TEMPLATE), 100)
    encoded = tokens.encode(Request((Message("user", "q"),), Answer(5)))
    assert list(encoded.prompt_token_ids).count(SPECIALS.index(TURN_END)) == 1


# --- chats ---


def test_thinking_is_off_where_the_template_has_it():
    tokens = Tokens(tokenizer(chat_template=THINKING_TEMPLATE), 100)
    encoded = tokens.encode(Request((Message("user", "q"),), Answer(5)))
    assert encoded.prompt_text == "[user]q<end>\n[assistant]"


def test_a_template_that_refuses_messages_refuses_this_request_alone():
    tokens = Tokens(tokenizer(chat_template=STRICT_TEMPLATE), 100)
    bad = Request((Message("system", "s"), Message("user", "q")), Answer(5))
    good = Request((Message("user", "q"),), Answer(5))
    first, second = tokens.encode_many([bad, good])
    assert (first.status, first.reason) == ("error", "the chat template refuses the messages: no system role")
    assert first.prompt_text == '[{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]'
    assert isinstance(second, Encoded)


def test_messages_without_a_template_are_refused():
    tokens = Tokens(tokenizer(), 100)
    assert not tokens.has_chat_template
    assert "no chat template" in refused(tokens, (Message("user", "q"),), Answer(5))


# --- lengths ---


def test_prompt_and_longest_option_fill_the_context_and_no_more():
    request = Request("abcd", Choose(("x", "yz")))
    assert isinstance(Tokens(tokenizer(), 6).encode(request), Encoded)
    response = Tokens(tokenizer(), 5).encode(request)
    assert response.status == "too_long"
    assert "4 tokens" in response.reason
    assert "needs 6" in response.reason
    assert "has 5" in response.reason
    assert response.n_prompt_tokens == len(response.prompt_token_ids) == 4


def test_a_prompt_that_leaves_no_room_for_an_answer_is_too_long():
    assert isinstance(Tokens(tokenizer(), 5).encode(Request("abcd", Answer(9))), Encoded)
    reason = refused(Tokens(tokenizer(), 4), "abcd", Answer(9), "too_long")
    assert "needs 5" in reason
    assert "has 4" in reason


@pytest.mark.parametrize(("asked", "given"), [(2, 2), (3, 3), (100, 3)])
def test_the_budget_of_an_answer_shrinks_to_the_space_left(asked, given):
    assert Tokens(tokenizer(), 7).encode(Request("abcd", Answer(asked))).max_tokens == given


@pytest.mark.parametrize("task", [Answer(0), Answer(5, ("",))], ids=["no budget", "empty stop"])
def test_an_answer_that_cannot_be_asked_for_is_refused(task):
    assert refused(Tokens(tokenizer(), 7), "abcd", task)


# --- batches, texts that are none, and loading ---


def test_a_batch_is_what_its_requests_are_alone(small):
    requests = [
        Request("Answer: ", Choose(("A", "B"))),
        Request((Message("user", "Which?"),), Choose(("1", "10"))),
        Request("word " * 300, Answer(5)),
        Request("Say", Answer(500)),
        Request((Message("user", "Say"),), Answer(5)),
        Request("Twice", Choose(("A", "A"))),
    ]
    assert small.encode_many(requests) == [small.encode(request) for request in requests]
    assert small.encode_many([]) == []


def test_half_a_surrogate_pair_is_refused_and_can_be_stored():
    response = Tokens(tokenizer(), 100).encode(Request("a\ud83d", Answer(5)))
    assert "surrogate" in response.reason
    assert response.prompt_text.encode() == b"a\\ud83d"


@pytest.mark.parametrize("prompt", ["Q: 2+2?\nA:", "Ä ö  ü", "日本語", "tab\t", "…🎈", "a\n\n", "<|im_end|>"])
def test_nothing_of_prompt_and_option_is_lost(small, prompt):
    options = ("A", " B", "\n\nC", "é", "日", "🎈🎈", "0.5", "<|im_start|>")
    encoded = chosen(small, prompt, *options)
    starts = {one.token_ids[: one.start] for one in encoded.continuations}
    assert len(starts) == 1
    for option, one in zip(options, encoded.continuations, strict=True):
        assert small.decode(one.token_ids) == prompt + option
        assert 1 <= one.start <= len(encoded.prompt_token_ids)
        assert one.is_merged == (one.start < len(encoded.prompt_token_ids))


@pytest.mark.parametrize("make", [sentence_tokenizer, metaspace_tokenizer])
def test_text_is_decoded_as_it_goes_on(make):
    tokens = Tokens(make(), 100)
    [continuation] = chosen(tokens, "B:", " A").continuations
    before, after = continuation.token_ids[: continuation.start], continuation.token_ids[continuation.start :]
    assert tokens.decode(after) == "A"
    assert tokens.decode_after(before, after) == " A"


def test_a_folder_without_a_tokenizer_is_one_sentence(tmp_path):
    with pytest.raises(EngineFailed) as failed:
        load_tokenizer(str(tmp_path), None)
    assert str(tmp_path) in str(failed.value)
    assert "\n" not in str(failed.value)


def test_the_small_model_adds_no_bos_of_its_own_and_its_template_writes_one(small):
    chat = small.encode(Request((Message("user", "Hi"),), Answer(5)))
    assert (small.n_leading_bos, small.has_chat_template) == (0, True)
    assert chat.prompt_token_ids[0] == small.bos_token_id
    assert chat.prompt_token_ids[1] != small.bos_token_id
    assert small.bos_token_id not in small.encode(Request("Hi", Answer(5))).prompt_token_ids
