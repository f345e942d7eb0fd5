"""Short stories: a reader of the text alone finds every credited ending, and no shortcut does."""

import re
from collections import Counter
from itertools import product

import pytest

from generate.standins import ttm_like
from generate.standins.ttm_like import believed, event

KINDS = ("false belief", "true belief")


@pytest.fixture(scope="module")
def rows():
    return ttm_like.rows()


def topic_of(row):
    return row["metadata"]["topic"]


def credited(row):
    return row["endings"][row["label"]].removesuffix(".")


# ---- a reader, who knows English words and nothing of how stories are made ----


class Reader:
    """Sentences of one story, and what its endings name."""

    def __init__(self, row):
        self.text = row["ctx"]
        self.named = [ending.removesuffix(".") for ending in row["endings"]]
        self.sentences = re.findall(r"[^.]+\.", self.text)
        self.question = self.text[len("".join(self.sentences)) :]

    def values(self, sentence):
        """Return which of the endings a sentence names, in its order."""
        where = {value: re.search(rf"\b{re.escape(value)}\b", sentence) for value in self.named}
        return sorted((value for value in where if where[value]), key=lambda value: where[value].start())

    def find(self, pattern):
        return re.search(pattern, self.text)

    def first_name(self, sentence):
        """Return the person whom a sentence names first; None if it names nobody."""
        words = re.findall(r"\w+", sentence)
        return next((word for word in words if word[0].isupper() and word not in NO_NAMES), None)

    def asked_about(self):
        return self.first_name(self.question)


CAPITALISED = """
A After Asked At Before Each If In It Later Much Music Neither Not Now Of Outside Soon The Then There They
Things Through To What When Without
"""
NO_NAMES = set(CAPITALISED.split())
UNSEEING = ("over her eyes", "over his eyes", "to the wall and", "sound asleep", "hides everything")


def placements(reader):
    """Return who puts a thing where, and who was out or could not see then: one per sentence."""
    away, blind = set(), set()
    for sentence in reader.sentences:
        who = reader.first_name(sentence)
        if "out to" in sentence:
            away.add(who)
        if "comes back" in sentence:
            away.discard(who)
        if any(words in sentence for words in UNSEEING):
            blind.add(who)
        places = reader.values(sentence)
        if len(places) == 1:
            yield places[0], away | blind


def where_it_was_last_seen(reader):
    seen = list(placements(reader))
    holder = reader.asked_about()
    known = [place for place, without in seen if holder not in without]
    return known[-1], seen[0][0], seen[-1][0]


def where_it_was_last_seen_together(reader):
    first, second = (place for place, _ in placements(reader))
    is_alone = reader.find("does not notice|back to the window")
    return first if is_alone else second, first, second


def what_was_in_it(reader):
    holder, inside, known = reader.asked_about(), [], None
    for sentence in reader.sentences:
        if fills := re.search(r"(?:fills (?:a .*|it) with|puts) (\w+)(?: in)? and closes", sentence):
            inside.append(fills[1])
        if len(inside) == 1 or sentence.strip().startswith(f"{holder} opens"):
            known = inside[-1] if inside else None
    return known, inside[0], inside[-1]


def who_has_seen_it(reader):
    opener = reader.find(r"(\w+) opens the")[1]
    mover = reader.find(r"When nobody is there, (\w+)")[1]
    return mover if reader.find(r"takes the \w+ out") else opener, opener, mover


def how_it_feels(reader):
    wanted = reader.find(r"would love some ([a-z ]+?)(?: today)?[,.]")[1]
    holder = reader.find(r"(\w+) would love|(\w+) cannot bear")
    holder = holder[1] or holder[2]
    poured, known, is_there = [], None, True
    for sentence in reader.sentences:
        is_there &= not re.search(rf"{holder} (?:goes|has to go) out", sentence)
        is_there |= f"{holder} comes back" in sentence
        if fills := re.search(r"(?:fill|fills) (?:the flask|it) with ([a-z ]+)\.", sentence):
            poured.append(fills[1])
            known = fills[1] if is_there else known

    def ending(drink):
        mood = "pleased" if drink == wanted else "annoyed"
        (told,) = [value for value in reader.named if value.startswith(mood) and f" {drink} in" in value]
        return told

    return ending(known), ending(poured[0]), ending(poured[-1])


def what_each_thinks(reader):
    holder = reader.asked_about()
    mine = next(
        value
        for sentence in reader.sentences
        if f"{holder} believes that it is" in sentence
        for value in reader.values(sentence)
    )
    news = next(sentence for sentence in reader.sentences if "has just seen it" in sentence)
    (real,) = reader.values(news)
    return real if f"tells {holder}," in news else mine, mine, real


def what_the_badge_hides(reader):
    shown, real = reader.find(r"badge that says (\w+)")[1], reader.find(r"I am (\w+) today")[1]
    return real if reader.find("whispered to") else shown, shown, real


def what_was_announced(reader):
    first = reader.find(r"this time it is ([a-z ]+)\.")[1]
    second = reader.find(r"has to be ([a-z ]+) instead|will be ([a-z ]+) after all")
    second = second[1] or second[2]
    return first if reader.find("forgets") else second, first, second


def what_it_looks_like(reader):
    pairs = re.findall(r"What looks like ([a-z ]+) is really ([a-z ]+)\.", reader.text)
    looks, real = pairs[("first", "second").index(reader.find(r"The (\w+) of them")[1])]
    return real if reader.find("before and looks") else looks, looks, real


# what is believed, what was or seemed so at first, what is so
READERS = {
    "change of location": where_it_was_last_seen,
    "change of content": what_was_in_it,
    "second-order belief": where_it_was_last_seen_together,
    "knowledge access": who_has_seen_it,
    "desire and outcome": how_it_feels,
    "perception": where_it_was_last_seen,
    "diverse beliefs": what_each_thinks,
    "hidden feeling": what_the_badge_hides,
    "hearsay": what_was_announced,
    "appearance and reality": what_it_looks_like,
}


@pytest.mark.parametrize("topic", READERS)
def test_a_reader_of_the_text_finds_every_credited_ending(rows, topic):
    for row in rows:
        if topic_of(row) == topic:
            assert READERS[topic](Reader(row))[0] == credited(row), row["ctx"]


# ---- the world that the endings follow from ----


def test_what_is_believed_is_what_was_noticed_last():
    events = [event("shelf", "Anna", "Ben"), event("drawer", "Ben")]
    assert (believed(events, "Anna"), believed(events, "Ben")) == ("shelf", "drawer")
    assert believed([*events, event("bag", "Anna")], "Anna") == "bag"


def test_who_watches_unseen_knows_and_is_not_known_to_know():
    events = [event("shelf", "Anna", "Ben"), event("drawer", "Ben", unseen=["Anna"])]
    assert believed(events, "Anna") == "drawer"
    assert believed(events, "Ben", "Anna") == "shelf"
    assert believed([*events, event("bag", "Anna", "Ben")], "Ben", "Anna") == "bag"


# ---- the set ----


def test_there_are_ten_topics_of_twenty_false_and_twenty_true_beliefs(rows):
    assert len(rows) == 10 * 2 * 20
    assert Counter((topic_of(row), row["activity_label"]) for row in rows) == dict.fromkeys(
        product(READERS, KINDS), 20
    )
    assert [row["ind"] for row in rows] == list(range(len(rows)))
    assert all(
        list(row) == ["ind", "ctx", "endings", "label", "activity_label", "metadata"]
        and list(row["metadata"]) == ["topic"]
        for row in rows
    )


def test_the_first_rows_of_the_file_are_of_all_kinds(rows):
    assert len({(topic_of(row), row["activity_label"]) for row in rows[:20]}) == 20


def test_no_story_is_there_twice_and_endings_differ(rows):
    assert len({row["ctx"] for row in rows}) == len(rows)
    assert all(len(set(row["endings"])) == 4 for row in rows)


def test_each_position_is_credited_equally_often_in_every_kind(rows):
    assert Counter(row["label"] for row in rows) == dict.fromkeys(range(4), 100)
    counts = Counter((topic_of(row), row["activity_label"], row["label"]) for row in rows)
    assert counts == dict.fromkeys(product(READERS, KINDS, range(4)), 5)


def test_stories_and_endings_are_clean_text(rows):
    for row in rows:
        told = f"{row['ctx']} {row['endings'][0]}"
        assert not re.search(r"\s{2}|\s[.,:]|\.\.|[{}]|\ba [aeio]|^\s|\s$", told), told
        assert row["ctx"][-1] not in ". " and all(ending[-1] == "." for ending in row["endings"])


def test_every_ending_names_what_the_story_has_told(rows):
    for row in rows:
        for ending in row["endings"]:
            named = re.sub(r"^.* there is (.*) in it\.$", r"\1", ending).removesuffix(".")
            assert named in row["ctx"], row["ctx"]


def test_stories_of_a_pair_differ_in_what_somebody_notices_alone(rows):
    for false, true in zip(rows[::2], rows[1::2], strict=True):
        assert (false["activity_label"], true["activity_label"]) == KINDS
        assert topic_of(false) == topic_of(true)
        assert set(false["endings"]) == set(true["endings"])
        assert credited(false) != credited(true)
        told, also = (Counter(part.strip() for part in row["ctx"].split(".")) for row in (false, true))
        # another sentence in the place of one, or the same ones in another order
        assert (told - also).total() == (also - told).total() <= 1
        assert (told != also) == (topic_of(false) not in REORDERED)


# the same things happen, before or after somebody comes or looks
REORDERED = ("change of location", "change of content", "desire and outcome")


# ---- shortcuts ----


def share(rows, values_of):
    """Return the percentage of stories whose credited ending has the highest value; ties are shared."""
    credit = 0.0
    for row in rows:
        values = [values_of(row, ending) for ending in row["endings"]]
        best = [n for n, value in enumerate(values) if value == max(values)]
        credit += (row["label"] in best) / len(best)
    return 100 * credit / len(rows)


SHORTCUTS = {
    "the shortest ending": lambda row, ending: -len(ending),
    "the longest ending": lambda row, ending: len(ending),
    "the first ending": lambda row, ending: -row["endings"].index(ending),
    "the last ending": lambda row, ending: row["endings"].index(ending),
    "the ending with fewest words": lambda row, ending: -len(ending.split()),
    "what is named first": lambda row, ending: -row["ctx"].find(ending.removesuffix(".")),
}


@pytest.mark.parametrize("shortcut", SHORTCUTS)
def test_no_shortcut_scores_more_than_chance(rows, shortcut):
    assert abs(share(rows, SHORTCUTS[shortcut]) - 25) <= 5


def test_what_was_so_at_first_and_what_is_so_now_are_each_right_in_one_half(rows):
    found = {
        (topic, kind): [
            READERS[topic](Reader(row))
            for row in rows
            if topic_of(row) == topic and row["activity_label"] == kind
        ]
        for topic, kind in product(READERS, KINDS)
    }
    for (topic, kind), solved in found.items():
        is_first = [believes == first for believes, first, _ in solved]
        is_last = [believes == last for believes, _, last in solved]
        assert all(first != last for first, last in zip(is_first, is_last, strict=True))
        # who has seen inside a box knows it as long as nobody changes what is in it
        keeps_the_first = (kind == "false belief") != (topic == "knowledge access")
        assert set(is_first) == {keeps_the_first}
