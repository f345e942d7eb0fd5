"""Each answer rule reads the part of a response that its name says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generate.verifier.extraction import RULES
from store.protocol import load_graders

RESPONSES = (
    "",
    " \n\t",
    "4",
    "so:\n\n 4 \n\n",
    "<answer> 4 </answer> or so",
    "<answer>1</answer>\n<answer>2</answer>",
)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("raw-v1", RESPONSES),
        ("answer-tags-v1", ("", " \n\t", "4", "so:\n\n 4 \n\n", "4", "2")),
        ("last-line-v1", ("", " \n\t", "4", "4", "<answer> 4 </answer> or so", "<answer>2</answer>")),
    ],
)
def test_what_is_graded_of_a_response(rule, expected):
    assert tuple(map(RULES[rule], RESPONSES)) == expected


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("<answer>4", "<answer>4"),
        ("4</answer>", "4</answer>"),
        ("</answer>4<answer>", "</answer>4<answer>"),
        ("<answer>3</answer> no: <answer>4", "3"),
        ("<answer>a <answer>b</answer>", "b"),
        ("<answer></answer>", ""),
        ("<answer>line 1\nline 2</answer>", "line 1\nline 2"),
        ("<ANSWER>4</ANSWER>", "<ANSWER>4</ANSWER>"),
    ],
)
def test_only_a_whole_pair_of_tags_counts_and_the_last_one(response, expected):
    assert RULES["answer-tags-v1"](response) == expected


def test_a_million_open_tags_are_read_in_no_time():
    # a pattern that backtracks would take hours
    response = "<answer>" * 1_000_000
    assert RULES["answer-tags-v1"](response) == response


def test_any_kind_of_line_end_ends_a_line():
    assert RULES["last-line-v1"]("a\r\nb\u2028c\x0c \r\n") == "c"


@given(st.text())
def test_no_rule_makes_up_a_text(response):
    for rule in RULES.values():
        assert rule(response) in response


def test_every_declared_rule_is_there_and_the_response_as_it_is_scores():
    for grader in load_graders().values():
        assert set(grader.answer_rules) <= set(RULES)
        assert grader.answer_rules[0] == "raw-v1"
