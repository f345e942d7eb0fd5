"""A target is to be reached in a network in which a hidden rule closes links, often in one direction only.

Places have a height and may have a colour. A link can be followed where it climbs no more and descends no
more than hidden limits allow, and not from one hidden colour to another. In places of one more hidden colour
the two limits may be exchanged.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from pydantic import Field

from generate.contract import Bools, Floats, Ints
from generate.learning.contract import Guess, Moved, Question
from generate.learning.dice import Dice
from generate.learning.procedural_learning.rounds import Level, carried, told, whole_action
from generate.learning.wording import listed

_NAMES = tuple("ABCDEFGHIJKLMNOP")
_COLOURS = ("red", "blue", "green", "white")
_LARGEST_HEIGHT = 9
_LIMITS = range(1, 7)
_N_CHORDS_PER_PLACE = 0.8
_PLACE = re.compile(r"(?:(?:go|move) +)?(?:to +)?([a-z])", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class Closures:
    """Which links are closed.

    Attributes
    ----------
    climb, descent
        A link that climbs or descends by more is closed.
    barred
        Colours from and to which no link leads; None if there is no such pair.
    exchanging
        Colour of places for whose links out the two limits are exchanged; None if there is none.
    """

    climb: int
    descent: int
    barred: tuple[int, int] | None = None
    exchanging: int | None = None

    def opens(self, heights: Sequence[int], colours: Sequence[int]) -> Bools:
        """Return between which places a link can be followed, if there is one: places x places."""
        height, colour = np.array(heights), np.array(colours)
        is_exchanged = colour[:, None] == (-1 if self.exchanging is None else self.exchanging)
        climb = np.where(is_exchanged, self.descent, self.climb)
        descent = np.where(is_exchanged, self.climb, self.descent)
        rise = height - height[:, None]
        opens: Bools = (rise <= climb) & (rise >= -descent)
        if self.barred is not None:
            opens &= ~((colour[:, None] == self.barred[0]) & (colour == self.barred[1]))
        return opens


@dataclass(frozen=True, slots=True)
class Network:
    """One instance: heights, colours and linked pairs of places; the first and last place of the route."""

    heights: tuple[int, ...]
    colours: tuple[int, ...]
    links: tuple[tuple[int, int], ...]
    first: int
    last: int

    def linked(self) -> Bools:
        """Return which places are linked: places x places."""
        is_linked = np.zeros((len(self.heights), len(self.heights)), dtype=np.bool_)
        one, other = np.array(self.links).T
        is_linked[one, other] = is_linked[other, one] = True
        return is_linked


@dataclass(frozen=True, slots=True)
class Networks:
    """World.

    Attributes
    ----------
    networks
        What is visible, per episode.
    is_linked, is_open
        Episodes x places x places: what is linked, and what can be followed.
    distances
        Moves from each place to the target, episodes x places; -1 where there is no way.
    first, last
        Where the route starts and ends, per episode.
    """

    networks: tuple[Network, ...]
    is_linked: Bools
    is_open: Bools
    distances: Ints
    first: Ints
    last: Ints


@dataclass(frozen=True, slots=True)
class Travellers:
    """State, per episode: the place, and the best progress so far."""

    places: Ints
    progress: Floats


class RoutePlanning(Level):
    """A level of hidden closures.

    Attributes
    ----------
    n_places
        Places of a network.
    has_colours
        Whether places have colours, of which one pair is barred.
    may_exchange
        Whether the limits are exchanged in places of a hidden colour.
    shortest, longest
        Moves of the shortest route.
    """

    n_places: Annotated[int, Field(ge=6, le=len(_NAMES))]
    has_colours: bool
    may_exchange: bool
    shortest: Annotated[int, Field(ge=2)]
    longest: Annotated[int, Field(ge=2)]

    @property
    def grammar(self) -> str:
        """How a move is written."""
        return "Write a move as the name of the next place, such as `C`."

    def skill(self, dice: Dice) -> Closures:
        """Draw what closes links."""
        climb, descent = dice.sample(_LIMITS, 2)
        colours = range(len(_COLOURS))
        if not self.has_colours:
            return Closures(climb, descent)
        one, other = dice.sample(colours, 2)
        return Closures(climb, descent, (one, other), dice.choice(colours) if self.may_exchange else None)

    def opening(self, skill: Closures) -> str:
        """Return what is known of hidden closures."""
        coloured = (
            f" Places are also {listed(_COLOURS, 'or')}: from the places of one certain colour no link can "
            "be followed to those of another certain colour."
            if self.has_colours
            else ""
        )
        exchanged = (
            " In the places of one certain colour the two limits are exchanged for all links that lead away: "
            "there, the limit of climbing is the limit of descending, and the other way round."
            if self.may_exchange
            else ""
        )
        return (
            f"Places are joined by links. Every place has a height from 1 to {_LARGEST_HEIGHT}. A hidden "
            "rule closes links, often in one direction only. A link cannot be followed upwards if it "
            "climbs by more than a certain limit, and not downwards if it descends by more than another "
            f"limit; the two limits are different whole numbers from {_LIMITS[0]} to "
            f"{_LIMITS[-1]}.{coloured}{exchanged} Nothing else closes a link. The rule is the same in all "
            "rounds."
        )

    def draw(self, skills: Sequence[Closures], dice: Sequence[Dice]) -> Networks:
        """Draw networks in which the rule matters and no move can close the way to the target."""
        networks = tuple(
            self._network(skill, own, is_transfer=False) for skill, own in zip(skills, dice, strict=True)
        )
        is_linked = np.stack([network.linked() for network in networks])
        opens = [
            skill.opens(network.heights, network.colours)
            for skill, network in zip(skills, networks, strict=True)
        ]
        is_open = is_linked & np.stack(opens)
        last = np.array([network.last for network in networks], dtype=np.int64)
        return Networks(
            networks=networks,
            is_linked=is_linked,
            is_open=is_open,
            distances=_distances(is_open)[np.arange(last.size), :, last],
            first=np.array([network.first for network in networks], dtype=np.int64),
            last=last,
        )

    def introduction(self, world: Networks) -> list[str]:
        """Return the network, the target, and what is told."""
        return [
            f"Places: {self._places(network)}. Links: {_links(network)}. You are at "
            f"{_NAMES[network.first]}; go to {_NAMES[network.last]}. A move follows one link from the place "
            "where you are. You are told where you are then and which links are open from there, or that the "
            "link is closed in this direction and you have stayed."
            for network in world.networks
        ]

    def start(self, world: Networks) -> Travellers:
        """Stand at the first places."""
        return Travellers(world.first, np.zeros(world.first.size))

    def read(self, text: str) -> tuple[int, ...] | None:
        """Return the place of a name in the alphabet, from 0."""
        if (found := whole_action(_PLACE, text)) is None:
            return None
        return (ord(found[1].upper()) - ord("A"),)

    def step(
        self, world: Networks, state: Travellers, actions: Ints, which: Bools
    ) -> tuple[Travellers, Moved]:
        """Follow a link, or find that it is closed."""
        (wanted,) = actions.T
        lanes = np.arange(wanted.size)
        is_place = wanted < self.n_places
        there = np.where(is_place, wanted, 0)
        is_legal = which & is_place & world.is_linked[lanes, state.places, there]
        is_moved = is_legal & world.is_open[lanes, state.places, there]
        places = np.where(is_moved, there, state.places)
        left, whole = world.distances[lanes, places], world.distances[lanes, world.first]
        progress = carried(state.progress, 1.0 - left / whole, is_moved)

        def tell(lane: int) -> str:
            here = _NAMES[state.places[lane]]
            if not is_place[lane]:
                return f"The places are {_NAMES[0]} to {_NAMES[self.n_places - 1]}. You are still at {here}."
            there = _NAMES[wanted[lane]]
            if not is_legal[lane]:
                return f"No link joins {here} and {there}. You are still at {here}."
            if not is_moved[lane]:
                return (
                    f"The link from {here} to {there} is closed in this direction. You are still at {here}."
                )
            return f"You are at {there}.{self._signs(world, lane, int(places[lane]))}"

        is_solved = is_moved & (places == world.last)
        return Travellers(places, progress), Moved(is_legal, is_solved, progress, told(which, tell))

    def best(self, world: Networks, state: Travellers, lanes: Sequence[int]) -> list[str]:
        """Return the first open link to a place that is nearer."""
        moves = []
        for lane in lanes:
            here, distances = state.places[lane], world.distances[lane]
            is_nearer = world.is_open[lane, here] & (distances == distances[here] - 1)
            moves.append(_NAMES[is_nearer.argmax()])
        return moves

    def random(
        self, world: Networks, state: Travellers, lanes: Sequence[int], dice: Sequence[Dice]
    ) -> list[str]:
        """Return any place that is linked with this one."""
        return [
            _NAMES[own.choice(np.flatnonzero(world.is_linked[lane, state.places[lane]]).tolist())]
            for lane, own in zip(lanes, dice, strict=True)
        ]

    def n_best(self, world: Networks) -> Ints:
        """Return the length of the shortest route."""
        n_moves: Ints = world.distances[np.arange(world.first.size), world.first]
        return n_moves

    def transfer(self, skill: Closures, dice: Dice, n_questions: int) -> tuple[Question, ...]:
        """Ask for the only shortest route in networks with one link more than those of practice."""
        return tuple(
            self._question(skill, self._network(skill, dice, is_transfer=True)) for _ in range(n_questions)
        )

    def transfer_introduction(self, skill: Closures) -> str:
        """Return what the questions ask for."""
        return (
            "Each question is a new network. Write the shortest route that the hidden rule leaves open: "
            "the names of all its places, from the first to the last with both of them, separated by "
            "spaces, such as `D A F B`."
        )

    def _signs(self, world: Networks, lane: int, place: int) -> str:
        """Return what is seen at a place."""
        is_linked, is_open = world.is_linked[lane, place], world.is_open[lane, place]
        names = [
            " ".join(_NAMES[there] for there in np.flatnonzero(links)) or "none"
            for links in (is_open, is_linked & ~is_open)
        ]
        return f" Open from there: {names[0]}. Closed from there: {names[1]}."

    def _network(self, skill: Closures, dice: Dice, *, is_transfer: bool) -> Network:
        places = range(self.n_places)
        # transfer networks have one link more, so none of them can be one of practice
        n_chords = round(_N_CHORDS_PER_PLACE * self.n_places) + is_transfer
        pairs = [(one, other) for one in places for other in places if one < other]

        def network() -> Network | None:
            circle = dice.shuffled(places)
            ring = {_pair(one, other) for one, other in zip(circle, circle[1:] + circle[:1], strict=True)}
            chords = dice.sample([pair for pair in pairs if pair not in ring], n_chords)
            heights = tuple(dice.integer(1, _LARGEST_HEIGHT) for _ in places)
            colours = tuple(dice.integer(0, len(_COLOURS) - 1) if self.has_colours else 0 for _ in places)
            blank = Network(heights, colours, tuple(sorted(ring | set(chords))), 0, 0)
            ends = np.argwhere(self._is_task(blank, skill, is_transfer=is_transfer)).tolist()
            if not ends:
                return None
            first, last = dice.choice(ends)
            return replace(blank, first=first, last=last)

        return self.until(network)

    def _is_task(self, network: Network, skill: Closures, *, is_transfer: bool) -> Bools:
        """Return from where to where the shortest route depends on the rule and cannot be lost.

        In practice it is also longer, or there is none, where either limit is one less: too much care costs
        moves. In questions there is one shortest route alone.
        """
        is_linked = network.linked()
        is_open = is_linked & skill.opens(network.heights, network.colours)
        n_moves = _distances(is_open)
        is_lost = (n_moves >= 0) @ (n_moves < 0)
        is_task: Bools = (n_moves >= self.shortest) & (n_moves <= self.longest) & ~is_lost
        # most networks have no such pair of places: what is next need not be worked out for them
        if is_task.any():
            is_task &= _distances(is_linked) < n_moves
        if is_transfer:
            is_task &= _n_shortest(is_open, n_moves) == 1
            return is_task
        for less in (replace(skill, climb=skill.climb - 1), replace(skill, descent=skill.descent - 1)):
            if is_task.any():
                careful = is_linked & less.opens(network.heights, network.colours)
                is_task &= _distances(careful) != n_moves
        return is_task

    def _places(self, network: Network) -> str:
        return ", ".join(
            f"{_NAMES[place]} ({_COLOURS[network.colours[place]]}, height {height})"
            if self.has_colours
            else f"{_NAMES[place]} (height {height})"
            for place, height in enumerate(network.heights)
        )

    def _question(self, skill: Closures, network: Network) -> Question:
        is_open = network.linked() & skill.opens(network.heights, network.colours)
        left = _distances(is_open)[:, network.last]
        route = [network.first]
        while route[-1] != network.last:
            route.append(int((is_open[route[-1]] & (left == left[route[-1]] - 1)).argmax()))
        return Question(
            text=f"Places: {self._places(network)}. Links: {_links(network)}. From {_NAMES[network.first]} "
            f"to {_NAMES[network.last]}.",
            answer=" ".join(_NAMES[place] for place in route),
            match_kind="sequence",
            guess=Guess(_NAMES[: self.n_places], self.shortest + 1, self.longest + 1, " "),
            asked=network,
        )


def _pair(one: int, other: int) -> tuple[int, int]:
    return min(one, other), max(one, other)


def _links(network: Network) -> str:
    return ", ".join(f"{_NAMES[one]}-{_NAMES[other]}" for one, other in network.links)


def _distances(is_open: Bools) -> Ints:
    """Return the moves from each place to each, -1 where there is no way; breadth first from all at once."""
    n_places = is_open.shape[-1]
    reached = np.broadcast_to(np.eye(n_places, dtype=np.bool_), is_open.shape)
    distances = reached.astype(np.int64) - 1
    for n_moves in range(1, n_places):
        reached = (reached @ is_open) & (distances < 0)
        if not reached.any():
            break
        distances[reached] = n_moves
    return distances


def _n_shortest(is_open: Bools, distances: Ints) -> Ints:
    """Return the number of shortest routes from each place to each."""
    links = is_open.astype(np.int64)
    walks, counts = np.eye(len(links), dtype=np.int64), np.zeros_like(links)
    for n_moves in range(distances.max() + 1):
        counts[distances == n_moves] = walks[distances == n_moves]
        walks = walks @ links
    return counts
