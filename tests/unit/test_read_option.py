"""Is the action read that a text names, and none where it names none or several?"""

import pytest

from generate.reading import read, read_option

ARMS = ("0", "1", "2", "12")
SHIPS = ("X", "Y")
WORDS = ("skip", "inflate", "STOP", "blue-green", "C++", "(a)")


@pytest.mark.parametrize(
    "text, legal, option",
    [
        ("X", SHIPS, "X"),
        (" \t\r\nX\n", SHIPS, "X"),
        ("spaceship X", SHIPS, "X"),
        ("**X**, since it is near", SHIPS, "X"),
        ("X? Yes, X!", SHIPS, "X"),
        ("1", ARMS, "1"),
        ("12", ARMS, "12"),
        ("I take option 2.", ARMS, "2"),
        ("2, please", ARMS, "2"),
        ("2), because", ARMS, "2"),
        ("option-2", ARMS, "2"),
        ("x=2", ARMS, "2"),
        ("stop.", WORDS, "STOP"),
        ("I would rather Inflate", WORDS, "inflate"),
        ("the blue-green one", WORDS, "blue-green"),
        ("C++ of course", WORDS, "C++"),
        ("it is (a).", WORDS, "(a)"),
    ],
)
def test_the_option_that_alone_occurs_is_read(text, legal, option):
    assert read_option(text, legal) == option


@pytest.mark.parametrize(
    "text, legal",
    [
        ("", SHIPS),
        (" \n", SHIPS),
        ("neither", SHIPS),
        ("Xerxes", SHIPS),
        ("planetX", SHIPS),
        ("X_1", SHIPS),
        ("éX", SHIPS),
        ("13", ARMS),
        ("21", ("2", "1")),
        ("1.5", ARMS),
        ("0.5", ("5", "0")),
        ("2,5", ARMS),
        ("1,000", ARMS),
        ("-2", ARMS),
        ("I take +2", ARMS),
        ("2nd", ARMS),
        ("skipping", WORDS),
    ],
)
def test_an_option_inside_a_longer_word_or_number_does_not_occur(text, legal):
    assert read(text, legal).option is None
    assert read(text, legal).reason == f"expected one of {', '.join(legal)}, found none of them"


@pytest.mark.parametrize(
    "text, legal, named",
    [
        ("X or Y", SHIPS, "X, Y"),
        ("Y, then X", SHIPS, "X, Y"),
        ("2-1", ARMS, "1, 2"),
        ("stop or skip?", ("STOP", "SKIP"), "STOP, SKIP"),
        ("a dark blue", ("blue", "dark blue"), "blue, dark blue"),
    ],
)
def test_of_several_options_none_is_read(text, legal, named):
    assert read(text, legal).option is None
    assert read(text, legal).reason == f"expected one of {', '.join(legal)}, found several: {named}"


def test_a_text_that_is_an_option_is_read_although_it_holds_another():
    assert read_option(" dark blue\n", ("blue", "dark blue")) == "dark blue"
    assert read_option("X or Y", ("X", "Y", "X or Y")) == "X or Y"


def test_capitals_tell_options_apart_before_they_are_ignored():
    # "A" is a word of the sentence, and "a" is another option
    assert read_option("a good one is b", ("A", "B", "a", "b")) is None
    assert read_option("B is a good one", ("A", "B")) == "B"
    assert read_option("b is best", ("A", "B")) == "B"
    assert read_option("I say a or b", ("A", "B")) is None


def test_an_exact_text_keeps_its_capitals():
    assert read_option("a", ("A", "a")) == "a"
    assert read_option("A", ("A", "a")) == "A"


def test_letters_of_any_script_make_a_word_longer():
    assert read_option("да", ("да", "нет")) == "да"
    assert read_option("Да!", ("да", "нет")) == "да"
    assert read_option("данет", ("да", "нет")) is None
