"""A hidden number is searched for with an instrument whose readings follow a hidden scale and shift.

The instrument shows ``scale * distance + shift``, where the distance is that between the place of the
instrument and the hidden number: on a line or the shorter way round a ring. A reading may wrap: then only the
remainder of a division is shown.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from generate.contract import Bools, Ints
from generate.learning.contract import Guess, Moved, Question
from generate.learning.dice import Dice
from generate.learning.procedural_learning.rounds import (
    Attempts,
    Level,
    carried,
    is_kept_for_transfer,
    told,
    whole_action,
)

_NUMBER = re.compile(r"(?:guess +)?(-?[0-9]{1,6})", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Instrument:
    """What readings follow from."""

    scale: int
    shift: int


@dataclass(frozen=True, slots=True)
class Searches:
    """World, per episode: the hidden number, where a first reading is given, and the instrument."""

    targets: Ints
    given: Ints
    scales: Ints
    shifts: Ints


class NumberSearch(Level):
    """A level of hidden instruments.

    Attributes
    ----------
    n_numbers
        The hidden number is from 0 to one less. Where readings wrap a prime number, so that no two distances
        have the same reading.
    is_ring
        Whether the numbers stand in a ring, else on a line.
    is_wrapped
        Whether only the remainder of a division by ``n_numbers`` is shown.
    largest_scale
        Scales go from 2 to this number.
    largest_shift
        Shifts go from 0 to this number.
    """

    n_numbers: Annotated[int, Field(ge=10, le=99_999)]
    is_ring: bool
    is_wrapped: bool
    largest_scale: Annotated[int, Field(ge=2)]
    largest_shift: Annotated[int, Field(ge=0)]

    @property
    def grammar(self) -> str:
        """How a guess is written."""
        last = self.n_numbers - 1
        return f"Write a guess as one whole number from 0 to {last}, such as `{last // 3}`."

    def skill(self, dice: Dice) -> Instrument:
        """Draw an instrument."""
        return Instrument(
            scale=dice.integer(2, self.largest_scale),
            shift=dice.integer(0, self.largest_shift),
        )

    def opening(self, skill: Instrument) -> str:
        """Return what is known of hidden instruments."""
        last = self.n_numbers - 1
        ring = (
            f"The numbers stand in a ring, in which 0 follows {last}, and a distance is the shorter way "
            f"round: that of 1 and {last} is 2. "
            if self.is_ring
            else ""
        )
        wrapped = (
            f" It shows only the remainder of the division of the result by {self.n_numbers}."
            if self.is_wrapped
            else " It shows the result."
        )
        return (
            f"A number from 0 to {last} is hidden, and an instrument can be put at any of these numbers. "
            f"{ring}The instrument takes the distance between its place and the hidden number, multiplies "
            f"it by its scale and adds its shift.{wrapped} The scale is a whole number from 2 to "
            f"{self.largest_scale}, the shift one from 0 to {self.largest_shift}; neither is told, and both "
            "are the same in all rounds."
        )

    def draw(self, skills: Sequence[Instrument], dice: Sequence[Dice]) -> Searches:
        """Draw a hidden number, and where the first reading is taken."""
        drawn = [self._numbers(own) for own in dice]
        return Searches(
            targets=np.array([target for target, _ in drawn], dtype=np.int64),
            given=np.array([place for _, place in drawn], dtype=np.int64),
            scales=np.array([skill.scale for skill in skills], dtype=np.int64),
            shifts=np.array([skill.shift for skill in skills], dtype=np.int64),
        )

    def introduction(self, world: Searches) -> list[str]:
        """Return the first reading, and what is told."""
        readings = self._readings(world, world.given)
        return [
            f"A new number is hidden. The instrument, put at {place}, shows {reading}. Find the hidden "
            "number. A move is a guess: the instrument is put there, and you are told what it shows and "
            "whether that is the hidden number."
            for place, reading in zip(world.given.tolist(), readings.tolist(), strict=True)
        ]

    def start(self, world: Searches) -> Attempts:
        """Nothing was guessed."""
        return Attempts(np.zeros(world.targets.size))

    def read(self, text: str) -> tuple[int, ...] | None:
        """Return the number."""
        found = whole_action(_NUMBER, text)
        return found and (int(found[1]),)

    def step(self, world: Searches, state: Attempts, actions: Ints, which: Bools) -> tuple[Attempts, Moved]:
        """Guess a number."""
        (guess,) = actions.T
        is_legal = which & (guess >= 0) & (guess < self.n_numbers)
        readings = self._readings(world, guess)
        is_solved = is_legal & (guess == world.targets)
        nearness = 1.0 - self._distances(guess, world.targets) / self.n_numbers
        progress = carried(state.progress, nearness, is_legal)

        def tell(lane: int) -> str:
            if not is_legal[lane]:
                return f"A guess is a number from 0 to {self.n_numbers - 1}. Nothing was measured."
            verdict = "is the hidden number" if is_solved[lane] else "is not the hidden number"
            return f"At {guess[lane]} the instrument shows {readings[lane]}. {guess[lane]} {verdict}."

        return Attempts(progress), Moved(is_legal, is_solved, progress, told(which, tell))

    def best(self, world: Searches, state: Attempts, lanes: Sequence[int]) -> list[str]:
        """Return the hidden number."""
        return [str(world.targets[lane]) for lane in lanes]

    def random(
        self, world: Searches, state: Attempts, lanes: Sequence[int], dice: Sequence[Dice]
    ) -> list[str]:
        """Return any number."""
        return [str(own.integer(0, self.n_numbers - 1)) for own in dice]

    def n_best(self, world: Searches) -> Ints:
        """Return how many guesses are needed by who knows all that is hidden: one."""
        return np.ones(world.targets.size, dtype=np.int64)

    def transfer(self, skill: Instrument, dice: Dice, n_questions: int) -> tuple[Question, ...]:
        """Ask which number is hidden, one that no round hides, given a reading and on which side it is."""
        seen: set[int] = set()
        numbers = np.arange(self.n_numbers)

        def search() -> tuple[int, int] | None:
            target, place = dice.integer(0, self.n_numbers - 1), dice.integer(0, self.n_numbers - 1)
            if target in seen or not is_kept_for_transfer([target]) or target == place:
                return None
            readings = self._shown(skill.scale, skill.shift, numbers, place)
            fits = (readings == readings[target]) & ((numbers > place) == (target > place))
            # on a ring both numbers with this reading may be on one side
            if fits.sum() > 1:
                return None
            seen.add(target)
            return target, place

        return tuple(self._question(skill, *self.until(search)) for _ in range(n_questions))

    def transfer_introduction(self, skill: Instrument) -> str:
        """Return what the questions ask for."""
        return (
            "Each question is about a new hidden number and gives one reading of the same instrument. "
            f"Write the hidden number, a whole number from 0 to {self.n_numbers - 1}."
        )

    def _numbers(self, dice: Dice) -> tuple[int, int]:
        def numbers() -> tuple[int, int] | None:
            target, place = dice.integer(0, self.n_numbers - 1), dice.integer(0, self.n_numbers - 1)
            return None if is_kept_for_transfer([target]) or target == place else (target, place)

        return self.until(numbers)

    def _readings(self, world: Searches, places: Ints) -> Ints:
        return self._shown(world.scales, world.shifts, places, world.targets)

    def _shown(self, scale: Ints | int, shift: Ints | int, places: Ints, targets: Ints | int) -> Ints:
        results = scale * self._distances(places, targets) + shift
        shown: Ints = results % self.n_numbers if self.is_wrapped else results
        return shown

    def _distances(self, places: Ints, targets: Ints | int) -> Ints:
        distances: Ints = np.abs(places - targets)
        return np.minimum(distances, self.n_numbers - distances) if self.is_ring else distances

    def _question(self, skill: Instrument, target: int, place: int) -> Question:
        reading = int(self._shown(skill.scale, skill.shift, np.array(place), target))
        side = "larger" if target > place else "smaller"
        return Question(
            text=f"The instrument, put at {place}, shows {reading}. The hidden number is {side} than "
            f"{place}. Which is it?",
            answer=str(target),
            match_kind="integer",
            guess=Guess(tuple(map(str, range(self.n_numbers)))),
            asked=(place, reading, target > place),
        )
