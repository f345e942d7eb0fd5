"""``ttm_like``: 400 short stories with four endings, in the schema of Tiny Theory of Mind: a stand-in for it.

Ten topics, 20 pairs of stories each. In one story of a pair somebody is wrong about something (``false
belief``); in the next one the same people do the same with the same things, but who was wrong has seen or
heard of it (``true belief``). The endings are the same and another one is credited, so whoever goes by the
endings alone, or always by what was so at first, is right in one story of a pair at most.

What somebody believes is computed from who noticed what (:func:`believed`), and with it the credited ending.
All endings name what the story mentions, are of one form, and stand in each position equally often.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from random import Random
from typing import Any, TypeVar

REVISION = "1"
SEED = "0"
N_PER_KIND = 20
N_ENDINGS = 4

# by whether somebody is wrong
_KINDS = {True: "false belief", False: "true belief"}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Event:
    """Something becomes the case, or turns out to be.

    Attributes
    ----------
    value
        What is the case from now on, or seems to be.
    noticed_by
        Who notices it, openly: all of these know of each other that they did.
    unseen
        Who notices it without anybody knowing.
    """

    value: str
    noticed_by: frozenset[str]
    unseen: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Story:
    """A story, what could come next, and what does."""

    text: str
    endings: Mapping[str, str]
    credited: str


def event(value: str, *noticed_by: str, unseen: Sequence[str] = ()) -> Event:
    """Return an event that these people notice."""
    return Event(value, frozenset(noticed_by), frozenset(unseen))


def believed(events: Sequence[Event], *who: str) -> str:
    """Return what somebody believes, or what one believes that another believes, and so on.

    It is the last of the values that reached the last of ``who`` as far as all before know; whether it is
    still so plays no part.
    """
    *others, holder = who
    return next(
        event.value
        for event in reversed(events)
        if set(who) <= event.noticed_by or (not others and holder in event.unseen)
    )


@dataclass(frozen=True, slots=True)
class Person:
    """A name and its pronouns."""

    name: str
    they: str
    their: str

    def __str__(self) -> str:
        return self.name


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(", "))


_PEOPLE = (
    *(
        Person(name, "she", "her")
        for name in _words("Anna, Bea, Clara, Dora, Edith, Fatima, Grace, Hana, Ines, Julia, Kira, Leonie")
    ),
    *(
        Person(name, "he", "his")
        for name in _words("Adam, Boris, Carlo, David, Emil, Felix, Georg, Hugo, Ivan, Jonas, Karim, Lukas")
    ),
)


@dataclass(frozen=True, slots=True)
class Setting:
    """Where a story happens, what people look for there, and where that can be."""

    where: str
    things: tuple[str, ...]
    places: tuple[str, ...]


def _setting(where: str, things: str, places: str) -> Setting:
    return Setting(where, _words(things), _words(places))


_SETTINGS = (
    _setting(
        "in the kitchen",
        "torch, bottle opener, recipe card, kitchen timer, bread knife",
        "in the bread bin, in the blue jug, on the top shelf, under the sink, behind the toaster, "
        "in the drawer",
    ),
    _setting(
        "in the workshop",
        "tape measure, small hammer, pencil, paintbrush, spare key",
        "in the toolbox, on the bench, under the ladder, behind the planks, in the bucket, on the hook",
    ),
    _setting(
        "in the living room",
        "remote control, pack of cards, letter, photograph, knitting needle",
        "in the sewing basket, under the cushion, behind the curtain, on the piano, "
        "in the cupboard, on the armchair",
    ),
    _setting(
        "in the office",
        "stapler, contract, red folder, memory stick, rubber stamp",
        "in the filing cabinet, on the window sill, under the desk, behind the printer, "
        "in the tray, on the bookcase",
    ),
    _setting(
        "in the garden shed",
        "watering can, trowel, bag of seeds, garden glove, ball of string",
        "in the wheelbarrow, on the shelf, under the table, behind the mower, in the flower pot, "
        "on the crate",
    ),
    _setting(
        "in the classroom",
        "globe, glue stick, flute, ruler, box of chalk",
        "in the wardrobe, on the teacher's desk, under the bench, behind the blackboard, "
        "in the sports bag, on the heater",
    ),
    _setting(
        "in the caravan",
        "map, compass, tin whistle, pocket lamp, guidebook",
        "in the rucksack, on the bunk, under the mattress, behind the stove, in the cool box, on the rack",
    ),
    _setting(
        "backstage at the theatre",
        "mask, script, paper crown, wooden sword, music box",
        "in the costume trunk, on the dressing table, under the stairs, behind the backdrop, "
        "in the hat box, on the stool",
    ),
)

_ERRANDS = _words(
    "answer the telephone, post a parcel, talk to a neighbour, park the car, pay the delivery man, "
    "see who rang the bell, fetch an umbrella, look for the caretaker"
)
_ASIDES = (
    "It is a windy afternoon.",
    "Outside it has begun to rain.",
    "It is almost time for supper.",
    "A clock is ticking somewhere.",
    "The sun is shining.",
    "Music is playing in the house next door.",
    "It is the first day of the month.",
    "It has been a long week.",
    "The radio is on.",
    "There is a smell of fresh paint.",
)
_CONTENTS = _words("buttons, biscuits, coins, shells, nails, beads, walnuts, pencils, marbles, stamps")
_BOXES = _words("tin, clay jar, cardboard box, cloth bag, wooden case, paper bag")
_DRINKS = _words("tea, coffee, cocoa, milk, water, apple juice, lemonade, tomato soup")
_FEELINGS = _words("happy, angry, proud, upset, tired, bored, scared, jealous, calm, lonely")
_ROOMS = _words(
    "the library, the gym, the town hall, the chapel, the canteen, the boathouse, the museum, the old mill"
)
_GROUPS = _words("choir, chess club, film club, reading circle, jury, dance class")
_PETS = _words("cat, tortoise, parrot, hamster, rabbit, puppy")
_LOOKS = _words("an apple, a lemon, a pear, an egg, a stone, a seashell, a frog, a cupcake")
_MATTERS = _words(
    "a candle, a bar of soap, a sponge, a purse, an eraser, a money box, a magnet, a pincushion"
)


class Teller:
    """The chance of one pair of stories, and what is done with it in many."""

    def __init__(self, *names: str) -> None:
        digest = sha256(" ".join([SEED, *names]).encode()).digest()
        self._rng = Random(int.from_bytes(digest))  # noqa: S311 - chance of a story, no secret

    def one(self, *choices: T) -> T:
        """Return one of the choices."""
        return self._rng.choice(choices)

    def some(self, choices: Sequence[T], n: int) -> list[T]:
        """Return ``n`` different ones of the choices, in any order."""
        return self._rng.sample(choices, n)

    def shuffled(self, values: Sequence[T]) -> list[T]:
        """Return the values in any order."""
        return self.some(values, len(values))

    def story(self, sentences: Sequence[str], last: str) -> str:
        """Join sentences, with an aside before or behind them, and the beginning of the last one."""
        told = [sentence for sentence in sentences if sentence]
        told.insert(self.one(0, len(told)), self.one(*_ASIDES))
        return " ".join([*told, last])


def _listed(values: Sequence[str], last: str = "or") -> str:
    return f"{', '.join(values[:-1])} {last} {values[-1]}"


def _leaves(tell: Teller, who: Person) -> str:
    errand = tell.one(*_ERRANDS)
    return tell.one(
        f"{who} goes out to {errand}.",
        f"{who} has to go out to {errand}.",
        f"Then {who} goes out to {errand}.",
    )


def _returns(tell: Teller, who: Person) -> str:
    return tell.one(f"{who} comes back.", f"After a while {who} comes back.", f"Soon {who} comes back in.")


def _puts(tell: Teller, who: Person, thing: str, place: str) -> str:
    return tell.one(
        f"{who} puts the {thing} {place}.",
        f"{who} has a {thing} and puts it {place}.",
        f"{who} leaves the {thing} {place}.",
    )


def _moves(tell: Teller, who: Person, thing: str, place: str) -> str:
    return tell.one(
        f"{who} picks up the {thing} and puts it {place}.",
        f"{who} takes the {thing} away and lays it {place}.",
        f"{who} finds a better spot for the {thing}: from now on it is {place}.",
    )


def _places(tell: Teller, setting: Setting) -> tuple[list[str], str]:
    """Return four places in the order in which a story will use them, and a sentence that names all."""
    places = tell.some(setting.places, N_ENDINGS)
    listed = _listed(tell.shuffled(places))
    told = tell.one(
        f"Things are kept {listed} there.", f"Much lies about there, {_listed(tell.shuffled(places), 'and')}."
    )
    return places, told


def _as_they_are(values: Sequence[str]) -> dict[str, str]:
    return {value: f"{value}." for value in values}


# ---- topics: chance is used alike whether or not somebody is wrong, so that pairs are alike ----


def change_of_location(tell: Teller, is_wrong: bool) -> Story:
    """Tell of somebody who is out while a thing is moved, or is there."""
    one, other = tell.some(_PEOPLE, 2)
    setting = tell.one(*_SETTINGS)
    thing = tell.one(*setting.things)
    places, kept = _places(tell, setting)
    first, second = places[:2]
    puts, moves = _puts(tell, one, thing, first), _moves(tell, other, thing, second)
    leaves, returns = _leaves(tell, one), _returns(tell, one)
    sees_it = tell.one([moves, leaves, returns], [leaves, returns, moves])
    events = [event(first, one.name, other.name), event(second, other.name, *[one.name] * (not is_wrong))]
    return Story(
        tell.story(
            [
                f"{one} and {other} are {setting.where}.",
                kept,
                puts,
                *([leaves, moves, returns] if is_wrong else sees_it),
                tell.one("", "They talk about other things.", "Neither of them says a word about it."),
            ],
            tell.one(
                f"Now {one} needs the {thing}, and looks for it first",
                f"A little later {one} wants the {thing} and reaches for it",
            ),
        ),
        _as_they_are(places),
        believed(events, one.name),
    )


def change_of_content(tell: Teller, is_wrong: bool) -> Story:
    """Tell of a box that holds something else now, into which somebody has or has not looked since."""
    one, other = tell.some(_PEOPLE, 2)
    contents, box = tell.some(_CONTENTS, N_ENDINGS), tell.one(*_BOXES)
    first, second = contents[:2]
    at_hand = _listed(tell.shuffled(contents), "and")
    fills = f"{one} fills a {box} with {first} and closes it."
    swaps = tell.one(
        f"{other} empties the {box}, fills it with {second} and closes it again.",
        f"{other} takes the {first} out, puts {second} in and closes the {box}.",
    )
    leaves, returns = _leaves(tell, one), _returns(tell, one)
    looks = tell.one(
        f"{one} opens the {box} for a moment and looks in.", f"{one} opens the {box}, looks in and closes it."
    )
    before, after = ([looks], []) if is_wrong else ([], [looks])
    events = [event(first, one.name, other.name), event(second, other.name)]
    events += [event(second, one.name)] * (not is_wrong)
    return Story(
        tell.story(
            [
                f"{one} and {other} are sorting {at_hand}.",
                fills,
                *before,
                leaves,
                swaps,
                returns,
                *after,
                tell.one("", f"The {box} stands on the table.", f"{other} has gone home."),
            ],
            tell.one(
                f"Asked what is in the {box}, {one} says that there are",
                f"{one} is sure that in the {box} there are",
            ),
        ),
        _as_they_are(contents),
        believed(events, one.name),
    )


def second_order(tell: Teller, is_wrong: bool) -> Story:
    """Tell of somebody who sees through a window what another does, who does or does not notice."""
    one, other = tell.some(_PEOPLE, 2)
    setting = tell.one(*_SETTINGS)
    thing = tell.one(*setting.things)
    places, kept = _places(tell, setting)
    first, second = places[:2]
    sees = tell.one(
        f"Through the window {one} sees exactly what {other} is doing.",
        f"{one} has stopped at the window and sees all of this.",
    )
    notices = (
        tell.one(f"{other} does not notice {one} there.", f"{other} has {other.their} back to the window.")
        if is_wrong
        else tell.one(f"{other} notices {one} there and waves.", f"{other} looks up, and their eyes meet.")
    )
    events = [
        event(first, one.name, other.name),
        event(second, other.name, unseen=[one.name]) if is_wrong else event(second, one.name, other.name),
    ]
    return Story(
        tell.story(
            [
                f"{one} and {other} are {setting.where}.",
                kept,
                _puts(tell, one, thing, first),
                _leaves(tell, one),
                _moves(tell, other, thing, second),
                sees,
                notices,
            ],
            tell.one(
                f"Before {one} is back, {other} is asked where {one} will look for the {thing}, and answers:",
                f"{other} thinks that on coming back {one} will look for the {thing}",
            ),
        ),
        _as_they_are(places),
        believed(events, other.name, one.name),
    )


def knowledge_access(tell: Teller, is_wrong: bool) -> Story:
    """Tell of four people who have to do with a box, one of whom knows what is in it."""
    looker, last, *idle = people = tell.some(_PEOPLE, N_ENDINGS)
    first, second = tell.some(_CONTENTS, 2)
    box = tell.one(*_BOXES)
    looks = f"{looker} opens the {box} that was found on the doorstep, sees {first} in it and closes it."
    acts = (
        f"When nobody is there, {last} takes the {first} out, puts {second} in and closes it again."
        if is_wrong
        else f"When nobody is there, {last} carries it inside and leaves it closed, as it was."
    )
    aside = [
        tell.one(f"{idle[0]} shakes it and listens.", f"{idle[0]} weighs it in one hand."),
        tell.one(f"{idle[1]} reads the address on it.", f"{idle[1]} ties a ribbon round it."),
    ]
    told = tell.one([looks, *aside, acts], [looks, acts, *aside], [looks, aside[0], acts, aside[1]])
    events = (
        [event(first, looker.name), event(second, last.name)] if is_wrong else [event(first, looker.name)]
    )
    (knows,) = events[-1].noticed_by
    everybody = _listed(tell.shuffled([person.name for person in people]), "and")
    return Story(
        tell.story(
            [f"{everybody} share a house.", *told],
            tell.one(
                f"In the evening they wonder what the {box} holds now. The only one who knows is",
                f"Of the four of them, the one who could say what is in the {box} now is",
            ),
        ),
        _as_they_are([person.name for person in people]),
        knows,
    )


def desire_and_outcome(tell: Teller, is_wrong: bool) -> Story:
    """Tell of a drink that somebody wants, of what is in the flask, and of what is believed to be in it."""
    one, other = tell.some(_PEOPLE, 2)
    first, second = tell.some(_DRINKS, 2)
    wanted, refused = tell.shuffled([first, second])
    wish = tell.one(
        f"{one} would love some {wanted}, but cannot bear {refused} today.",
        f"{one} cannot bear {refused} today, but would love some {wanted}.",
    )
    fills = f"{one} sees {other} fill the flask with {first}."
    swaps = tell.one(
        f"{other} pours the {first} away and fills the flask with {second}.",
        f"{other} empties the flask and fills it with {second}.",
    )
    leaves, returns = _leaves(tell, one), _returns(tell, one)
    sees_it = tell.one([swaps, leaves, returns], [leaves, returns, swaps])
    events = [event(first, one.name, other.name), event(second, other.name, *[one.name] * (not is_wrong))]
    expected = believed(events, one.name)
    feels = "pleased" if expected == wanted else "annoyed"
    endings = {
        f"{feeling} {drink}": f"{feeling}, because {one.they} thinks that there is {drink} in it."
        for feeling in ("pleased", "annoyed")
        for drink in (first, second)
    }
    return Story(
        tell.story(
            [
                f"{one} and {other} are working late.",
                wish,
                fills,
                *([leaves, swaps, returns] if is_wrong else sees_it),
            ],
            tell.one(
                f"When {other} holds out the closed flask, {one} is",
                f"Then {one} reaches for the flask. Before {one.they} has opened it, {one.they} is",
            ),
        ),
        endings,
        f"{feels} {expected}",
    )


def perception(tell: Teller, is_wrong: bool) -> Story:
    """Tell of somebody who is in the room when a thing is moved, and can or cannot see it."""
    one, other = tell.some(_PEOPLE, 2)
    setting = tell.one(*_SETTINGS)
    thing = tell.one(*setting.things)
    places, kept = _places(tell, setting)
    first, second = places[:2]
    blocked, clear = tell.one(
        (
            f"{one} ties a thick scarf over {one.their} eyes for a game.",
            f"{one} ties a thick scarf round {one.their} neck for a game.",
        ),
        (
            f"{one} turns {one.their} face to the wall and counts to a hundred.",
            f"{one} leans with {one.their} back against the wall and counts to a hundred.",
        ),
        (
            f"{one} is sound asleep in a chair.",
            f"{one} is sitting wide awake in a chair.",
        ),
        (
            f"{one} holds a newspaper so high that it hides everything else.",
            f"{one} has put down the newspaper and looks around.",
        ),
    )
    events = [event(first, one.name, other.name), event(second, other.name, *[one.name] * (not is_wrong))]
    return Story(
        tell.story(
            [
                f"{one} and {other} are {setting.where}.",
                kept,
                _puts(tell, other, thing, first),
                blocked if is_wrong else clear,
                f"Without a sound, {other} takes the {thing} and puts it {second}.",
            ],
            tell.one(
                f"If {one} were asked now, {one.they} would say that the {thing} is",
                f"In {one.their} mind, the {thing} that {one} saw {other} with is now",
            ),
        ),
        _as_they_are(places),
        believed(events, one.name),
    )


def diverse_beliefs(tell: Teller, is_wrong: bool) -> Story:
    """Tell of two people who believe different things, one of whom is told how things are."""
    one, other, witness = tell.some(_PEOPLE, 3)
    setting, pet = tell.one(*_SETTINGS), tell.one(*_PETS)
    places, _ = _places(tell, setting)
    mine, yours, real, _ = places
    beliefs = tell.shuffled(
        [f"{one} believes that it is {mine}.", f"{other} believes that it is {yours}."],
    )
    hears = other if is_wrong else one
    finds = f"{witness} has just seen it {real} and tells {hears}, who believes this at once."
    events = [event(mine, one.name), event(real, witness.name, hears.name)]
    return Story(
        tell.story(
            [
                f"The {pet} has slipped away somewhere {setting.where}.",
                f"It likes to sleep {_listed(tell.shuffled(places))}.",
                *beliefs,
                finds,
            ],
            tell.one(
                f"Each goes to look alone, and {one} looks first",
                f"Without another word {one} goes off and looks for it first",
            ),
        ),
        _as_they_are(places),
        believed(events, one.name),
    )


def hidden_feeling(tell: Teller, is_wrong: bool) -> Story:
    """Tell of somebody who shows another feeling than is felt, and of one who does or does not know."""
    one, other = tell.some(_PEOPLE, 2)
    feelings = tell.some(_FEELINGS, N_ENDINGS)
    real, shown = feelings[:2]
    confided = (
        f"In the morning {one} wrote in {one.their} secret diary: I am {real} today."
        if is_wrong
        else f"In the morning {one} whispered to {other} in secret: I am {real} today."
    )
    wears = tell.one(
        f"Not to be asked about it, {one} pins on the badge that says {shown}.",
        f"{one} wants to keep this from the class and pins on the badge that says {shown}.",
    )
    sees = tell.one(f"{other} sees the badge.", f"{other} sits down opposite and reads the badge.")
    # what was confided outweighs what is worn, and so counts as the later of the two
    events = [event(shown, other.name)] + [event(real, other.name)] * (not is_wrong)
    return Story(
        tell.story(
            [
                f"At school everybody may wear a badge: {_listed(tell.shuffled(feelings))}.",
                confided,
                wears,
                sees,
            ],
            tell.one(
                f"Whatever the badge says, {other} takes it that {one} is really",
                f"{other} is convinced that deep down {one} is",
            ),
        ),
        _as_they_are(feelings),
        believed(events, other.name),
    )


def hearsay(tell: Teller, is_wrong: bool) -> Story:
    """Tell of a meeting that is moved, of which somebody has or has not heard."""
    one, other, leader = tell.some(_PEOPLE, 3)
    rooms, group = tell.some(_ROOMS, N_ENDINGS), tell.one(*_GROUPS)
    first, second = rooms[:2]
    passes_on = f"{other} tells {one}." if not is_wrong else f"{other} means to tell {one}, but forgets."
    events = [event(first, one.name, other.name), event(second, other.name, *[one.name] * (not is_wrong))]
    return Story(
        tell.story(
            [
                f"The {group} meets in a different place each week: {_listed(tell.shuffled(rooms))}.",
                tell.one(
                    f"{leader}, who leads it, tells {one} and {other} that this time it is {first}.",
                    f"{one} and {other} read in a note from {leader} that this time it is {first}.",
                ),
                tell.one(
                    f"At noon {leader} rings {other}: it has to be {second} instead.",
                    f"Later {leader} meets {other} and says that it will be {second} after all.",
                ),
                passes_on,
            ],
            tell.one(
                f"When it is time, {one} sets out straight for",
                f"In the evening {one} gets on {one.their} bicycle and rides to",
            ),
        ),
        _as_they_are(rooms),
        believed(events, one.name),
    )


def appearance_and_reality(tell: Teller, is_wrong: bool) -> Story:
    """Tell of a thing that looks like another, which somebody has or has not had in hand."""
    one, other = tell.some(_PEOPLE, 2)
    looks, look_of_other = tell.some(_LOOKS, 2)
    is_really, other_really = tell.some(_MATTERS, 2)
    goods = [
        f"What looks like {looks} is really {is_really}.",
        f"What looks like {look_of_other} is really {other_really}.",
    ]
    which = tell.one("first", "second")
    if which == "second":
        goods.reverse()
    has_tried = (
        f"{one} has only just come in and looks at it from the door."
        if is_wrong
        else f"{one} has held it in {one.their} hands before and looks at it from the door."
    )
    # what was felt in the hand outweighs what is seen
    events = [event(looks, one.name)] + [event(is_really, one.name)] * (not is_wrong)
    return Story(
        tell.story(
            [
                f"{other} sells things that deceive the eye.",
                *goods,
                f"The {which} of them lies in the window.",
                has_tried,
            ],
            tell.one(
                f"{one} thinks that in the window there is",
                f"To {other}, {one} says that the thing in the window is",
            ),
        ),
        _as_they_are([looks, is_really, look_of_other, other_really]),
        believed(events, one.name),
    )


TOPICS: Mapping[str, Callable[[Teller, bool], Story]] = {
    "change of location": change_of_location,
    "change of content": change_of_content,
    "second-order belief": second_order,
    "knowledge access": knowledge_access,
    "desire and outcome": desire_and_outcome,
    "perception": perception,
    "diverse beliefs": diverse_beliefs,
    "hidden feeling": hidden_feeling,
    "hearsay": hearsay,
    "appearance and reality": appearance_and_reality,
}


def rows() -> list[dict[str, Any]]:
    """Return the stories: ``ind``, ``ctx``, ``endings``, ``label``, ``activity_label`` and ``metadata``.

    ``activity_label`` tells false from true beliefs, ``metadata`` has the topic. The stories of a pair follow
    each other and topics take turns, so that the first rows of the file are of all kinds.
    """
    found: list[dict[str, Any]] = []
    labels = {kind: _labels(*kind) for kind in product(TOPICS, _KINDS)}
    for index, (topic, is_wrong) in product(range(N_PER_KIND), labels):
        tell = Teller(topic, str(index))
        story = TOPICS[topic](tell, is_wrong)
        endings = tell.shuffled([text for value, text in story.endings.items() if value != story.credited])
        label = labels[topic, is_wrong][index]
        endings.insert(label, story.endings[story.credited])
        found.append(
            {
                "ind": len(found),
                "ctx": story.text,
                "endings": endings,
                "label": label,
                "activity_label": _KINDS[is_wrong],
                "metadata": {"topic": topic},
            }
        )
    return found


def _labels(topic: str, is_wrong: bool) -> list[int]:
    """Return where the credited ending stands in each story of one kind: each position equally often."""
    tell = Teller(topic, _KINDS[is_wrong], "labels")
    return tell.shuffled(list(range(N_ENDINGS)) * (N_PER_KIND // N_ENDINGS))
