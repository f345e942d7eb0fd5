"""Balloon task (BART): inflate for points and bank them in time.

Source: Coda-Forno et al., CogBench, ``Experiments/BART``, after Lejuez et al. (2002). Every balloon bears a
letter. Each successful inflation adds one point; a balloon that bursts loses its points. A balloon with
maximum M that has been inflated k times bursts at the next inflation with probability 1 / (M - k): so the
inflation at which it bursts is uniform on 1 to M, and M - 1 points are the most there can be.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from generate.contract import Bools, Episodes, Ints, Observation, ScheduledItem, Step, Telling
from generate.streams import choose

SKIP, INFLATE = 0, 1
_INFLATED, _EXPLODED, _BANKED = range(3)

# a step's number within its balloon is stored in 8 bits, and a balloon has as many decisions as its maximum
_Maximum = Annotated[int, Field(strict=True, ge=1, le=128)]


@dataclass(frozen=True, slots=True)
class BalloonsWorld:
    """What was drawn: episodes x balloons.

    Attributes
    ----------
    letters
        Letter of each balloon, from 0.
    maxima
        Inflation at which it bursts at the latest.
    bursts
        Inflation at which it bursts, from 1.
    """

    letters: Ints
    maxima: Ints
    bursts: Ints


@dataclass(frozen=True, slots=True)
class BalloonsState:
    """Which balloon each episode is at, its inflations so far, and what became of the one before.

    ``last_pumps`` is -1 at the first balloon.
    """

    trial: Ints
    live: Bools
    pumps: Ints
    last_pumps: Ints
    last_is_exploded: Bools


@dataclass(frozen=True, slots=True)
class BalloonsSeen(Observation):
    """A balloon, and what became of the one before it.

    Attributes
    ----------
    trial
        Number of the balloon, from 0.
    letter
        Its letter, from 0.
    pumps
        How often it has been inflated.
    last_letter, last_pumps
        Letter and inflations of the balloon before, the one that burst it included; -1 at the first.
    last_is_exploded
        Whether that one burst; False at the first.
    """

    trial: Ints
    letter: Ints
    pumps: Ints
    last_letter: Ints
    last_pumps: Ints
    last_is_exploded: Bools


class Balloons(BaseModel):
    """Balloons of several letters. Which letter has which maximum is dealt anew in every run.

    Balloons come as in the original runner: each letter that still has some is equally likely to be next.

    Attributes
    ----------
    maxima
        One per letter, in any order.
    n_balloons_per_letter
        How many balloons of each letter a run has.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    maxima: Annotated[tuple[_Maximum, ...], Field(min_length=1, max_length=len(ascii_uppercase))]
    n_balloons_per_letter: Annotated[int, Field(strict=True, ge=1)]

    @property
    def letters(self) -> tuple[str, ...]:
        """What balloons are called."""
        return tuple(ascii_uppercase[: len(self.maxima)])

    @property
    def n_balloons(self) -> int:
        """Balloons of a run."""
        return len(self.maxima) * self.n_balloons_per_letter

    @property
    def actions(self) -> tuple[str, ...]:
        """Bank the points, or go on."""
        return ("skip", "inflate")

    @property
    def outcomes(self) -> tuple[str, ...]:
        """What a decision leads to."""
        return ("inflated", "exploded", "banked")

    @property
    def observations(self) -> tuple[str, ...]:
        """The letters."""
        return tuple(f"balloon {letter}" for letter in self.letters)

    def episodes(self, seeds: Sequence[int]) -> Episodes:
        """Return one run per seed."""
        return Episodes(
            tuple(str(seed) for seed in seeds),
            np.array(seeds, dtype=np.int64),
            np.zeros(len(seeds), dtype=np.int64),
        )

    def draw(self, episodes: Episodes) -> BalloonsWorld:
        """Draw which letter has which maximum, the order of the letters, and where each balloon bursts."""
        n_letters, n_balloons = len(self.maxima), self.n_balloons
        n_draws = n_letters + 2 * n_balloons
        uniform = np.array(
            [np.random.RandomState(seed).random_sample(n_draws) for seed in episodes.seeds]
        ).reshape(len(episodes), n_draws)
        dealt = np.array(self.maxima, dtype=np.int64)[uniform[:, :n_letters].argsort(axis=1, kind="stable")]
        letters = np.empty((len(episodes), n_balloons), dtype=np.int64)
        n_left = np.full((len(episodes), n_letters), self.n_balloons_per_letter)
        for balloon in range(n_balloons):
            letters[:, balloon] = choose((n_left > 0).astype(np.float64), uniform[:, n_letters + balloon])
            n_left[np.arange(len(episodes)), letters[:, balloon]] -= 1
        maxima = np.take_along_axis(dealt, letters, axis=1)
        bursts = np.floor(uniform[:, n_letters + n_balloons :] * maxima).astype(np.int64) + 1
        return BalloonsWorld(letters, maxima, bursts)

    def items(self, episodes: Episodes) -> list[ScheduledItem]:
        """Return one item per balloon: its maximum decides what a given rule of play can expect."""
        world = self.draw(episodes)
        return [
            ScheduledItem(item_id=f"{episode}/{balloon}", facts={"maximum": maximum})
            for episode, maxima in zip(episodes.ids, world.maxima.tolist(), strict=True)
            for balloon, maximum in enumerate(maxima)
        ]

    def start(self, world: BalloonsWorld) -> BalloonsState:
        """Return the first balloon of every run."""
        n = len(world.letters)
        return BalloonsState(
            trial=np.zeros(n, dtype=np.int64),
            live=np.ones(n, dtype=np.bool_),
            pumps=np.zeros(n, dtype=np.int64),
            last_pumps=np.full(n, -1),
            last_is_exploded=np.zeros(n, dtype=np.bool_),
        )

    def observe(self, world: BalloonsWorld, state: BalloonsState) -> BalloonsSeen:
        """Return letter and size of the balloon, and what became of the one before."""
        lanes = np.arange(len(state.trial))
        last = world.letters[lanes, np.maximum(state.trial - 1, 0)]
        return BalloonsSeen(
            legal=np.repeat(state.live[:, None], len(self.actions), axis=1),
            trial=state.trial,
            letter=world.letters[lanes, self._balloon(state)],
            pumps=state.pumps,
            last_letter=np.where(state.trial > 0, last, -1),
            last_pumps=state.last_pumps,
            last_is_exploded=state.last_is_exploded,
        )

    def tell(self, seen: BalloonsSeen) -> list[Telling]:
        """Tell which balloon it is and how large; into the history goes what became of the one before."""
        letters = ascii_uppercase[: len(self.maxima)]
        constants = {
            "n_balloons": self.n_balloons,
            "n_per_letter": self.n_balloons_per_letter,
            "letters": ", ".join(letters),
        }
        return [
            Telling(
                happened=(
                    (
                        "burst" if last_is_exploded else "banked",
                        {"number": trial, "letter": letters[last_letter], "pumps": last_pumps},
                    ),
                )
                if trial > 0 and pumps == 0
                else (),
                asked={"number": trial + 1, "letter": letters[letter], "pumps": pumps, **constants},
            )
            for trial, letter, pumps, last_letter, last_pumps, last_is_exploded in zip(
                seen.trial.tolist(),
                seen.letter.tolist(),
                seen.pumps.tolist(),
                seen.last_letter.tolist(),
                seen.last_pumps.tolist(),
                seen.last_is_exploded.tolist(),
                strict=True,
            )
        ]

    def step(self, world: BalloonsWorld, state: BalloonsState, actions: Ints) -> tuple[BalloonsState, Step]:
        """Inflate the balloon, or bank its points and go on to the next.

        A balloon's reward stands on its last step: its points if they were banked, 0 if it burst.
        """
        lanes, balloon = np.arange(len(state.trial)), self._balloon(state)
        is_inflated = actions == INFLATE
        pumps = state.pumps + is_inflated
        is_exploded = is_inflated & (pumps == world.bursts[lanes, balloon])
        is_over = is_exploded | ~is_inflated
        step = Step(
            trial=state.trial,
            stage=state.pumps,
            reward=np.where(is_over, np.where(is_exploded, 0.0, pumps), np.nan),
            is_rewarded=is_over,
            outcome=np.where(is_exploded, _EXPLODED, np.where(is_inflated, _INFLATED, _BANKED)),
            observation=world.letters[lanes, balloon],
            hidden=world.maxima[lanes, balloon][:, None].astype(np.float64),
        )
        is_next = state.live & is_over
        after = BalloonsState(
            trial=state.trial + is_next,
            live=state.live & (state.trial + is_next < self.n_balloons),
            pumps=np.where(is_next, 0, np.where(state.live, pumps, state.pumps)),
            last_pumps=np.where(is_next, pumps, state.last_pumps),
            last_is_exploded=np.where(is_next, is_exploded, state.last_is_exploded),
        )
        return after, step

    def trials_left(self, world: BalloonsWorld, state: BalloonsState) -> Ints:
        """Return how many balloons come after this one."""
        return np.maximum(self.n_balloons - 1 - state.trial, 0)

    def _balloon(self, state: BalloonsState) -> Ints:
        """Return the balloon in front; the last one where there is none any more."""
        return np.minimum(state.trial, self.n_balloons - 1)
