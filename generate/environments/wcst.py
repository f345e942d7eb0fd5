"""Wisconsin card sorting: find by trial and error which dimension counts, and notice when another one does.

Four key cards lie on the table. A stimulus card matches one key card in its colour, one in its form and one
in its number; putting it under a key card is right if they match in the dimension that counts now.

Of the 64 cards only the 24 whose dimensions match three different key cards are dealt, so a choice always
tells which dimension was followed, or that none was: chance is 1/4, and a uniform chooser follows each of
the three dimensions, and none, equally often.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from generate.contract import Bools, Episodes, Ints, Observation, ScheduledItem, Step, Telling

DIMENSIONS = ("colour", "form", "number")
KEY_CARDS = ("1", "2", "3", "4")

# what key cards show, in their order: a card is told by what it shares with them
_COLOURS = ("red", "green", "blue", "yellow")
_FORMS = (("circle", "circles"), ("triangle", "triangles"), ("cross", "crosses"), ("star", "stars"))
_NUMBERS = ("one", "two", "three", "four")

# key card that each dimension of a stimulus matches: 24 stimuli x 3 dimensions
_STIMULI = np.array(list(permutations(range(len(KEY_CARDS)), len(DIMENSIONS))), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class CardsWorld:
    """What was drawn: episodes x trials.

    Attributes
    ----------
    rules
        Dimension that counts.
    stimuli
        Stimulus that is dealt, as an index into the 24 there are.
    """

    rules: Ints
    stimuli: Ints


@dataclass(frozen=True, slots=True)
class CardsState:
    """Where each episode stands; ``last_action`` is -1 before the first choice."""

    trial: Ints
    live: Bools
    last_action: Ints
    last_is_right: Bools


@dataclass(frozen=True, slots=True)
class CardsSeen(Observation):
    """A stimulus card, and what came of the last one.

    Attributes
    ----------
    trial
        Number of the trial, from 0.
    cards
        Key card, from 0, that the stimulus matches in each dimension: episodes x 3.
    last_cards
        The same of the last stimulus; -1 before the first choice.
    last_action
        Key card chosen last, from 0; -1 before the first choice.
    last_is_right
        Whether that was said to be right; False before the first choice.
    """

    trial: Ints
    cards: Ints
    last_cards: Ints
    last_action: Ints
    last_is_right: Bools


class CardSorting(BaseModel):
    """Card sorting in which the rule changes on a fixed schedule, whatever is chosen.

    Every episode has rules and stimuli of its own. A rule holds for ``block_length`` trials; the first is
    any of the three, each later one either of the two others. The sequences behind the figures of document
    003 are not public, and it does not say how long a rule holds: these sequences are drawn anew.

    Attributes
    ----------
    n_trials
        Trials of an episode.
    block_length
        Trials for which a rule holds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    n_trials: Annotated[int, Field(strict=True, ge=1)]
    block_length: Annotated[int, Field(strict=True, ge=1)]

    @property
    def actions(self) -> tuple[str, ...]:
        """The key cards."""
        return KEY_CARDS

    @property
    def outcomes(self) -> tuple[str, ...]:
        """What is said about a choice."""
        return ("correct", "wrong")

    @property
    def observations(self) -> tuple[str, ...]:
        """The 24 stimuli."""
        return tuple(
            ", ".join(f"{name} {KEY_CARDS[card]}" for name, card in zip(DIMENSIONS, cards, strict=True))
            for cards in _STIMULI.tolist()
        )

    def episodes(self, seeds: Sequence[int]) -> Episodes:
        """Return one episode per seed."""
        return Episodes(
            tuple(str(seed) for seed in seeds),
            np.array(seeds, dtype=np.int64),
            np.zeros(len(seeds), dtype=np.int64),
        )

    def draw(self, episodes: Episodes) -> CardsWorld:
        """Draw the rule of each block, then the stimulus of each trial, from the seed of each episode."""
        n_blocks = -(-self.n_trials // self.block_length)
        uniform = np.array(
            [np.random.RandomState(seed).random_sample(n_blocks + self.n_trials) for seed in episodes.seeds]
        ).reshape(len(episodes), n_blocks + self.n_trials)
        # the first rule is one of three; from each to the next it is one or two dimensions on, cyclically
        turns = np.floor(uniform[:, :n_blocks] * (len(DIMENSIONS) - 1)).astype(np.int64) + 1
        turns[:, 0] = np.floor(uniform[:, 0] * len(DIMENSIONS)).astype(np.int64)
        of_block = turns.cumsum(axis=1) % len(DIMENSIONS)
        rules = of_block[:, np.arange(self.n_trials) // self.block_length]
        stimuli = np.floor(uniform[:, n_blocks:] * len(_STIMULI)).astype(np.int64)
        return CardsWorld(rules, stimuli)

    def items(self, episodes: Episodes) -> list[ScheduledItem]:
        """Return one item per trial: which card is right, and whether the rule has just changed."""
        world = self.draw(episodes)
        right = np.take_along_axis(_STIMULI[world.stimuli], world.rules[:, :, None], axis=2)[:, :, 0]
        return [
            ScheduledItem(
                item_id=f"{episode}/{trial}",
                participant_id=episode,
                legal_options=self.actions,
                credited_options=(KEY_CARDS[card],),
                facts={
                    "trial": trial,
                    "is_rule_switch": rules[trial] != rules[trial - 1] if trial > 0 else None,
                },
            )
            for episode, rules, cards in zip(episodes.ids, world.rules.tolist(), right.tolist(), strict=True)
            for trial, card in enumerate(cards)
        ]

    def start(self, world: CardsWorld) -> CardsState:
        """Return the first trial of every episode."""
        n = len(world.rules)
        return CardsState(
            trial=np.zeros(n, dtype=np.int64),
            live=np.ones(n, dtype=np.bool_),
            last_action=np.full(n, -1),
            last_is_right=np.zeros(n, dtype=np.bool_),
        )

    def observe(self, world: CardsWorld, state: CardsState) -> CardsSeen:
        """Return the stimulus that lies there, and what was said about the last choice."""
        lanes = np.arange(len(state.trial))
        trial = np.minimum(state.trial, self.n_trials - 1)
        is_first = state.trial == 0
        last = _STIMULI[world.stimuli[lanes, np.maximum(state.trial - 1, 0)]]
        return CardsSeen(
            legal=np.repeat(state.live[:, None], len(KEY_CARDS), axis=1),
            trial=state.trial,
            cards=_STIMULI[world.stimuli[lanes, trial]],
            last_cards=np.where(is_first[:, None], -1, last),
            last_action=state.last_action,
            last_is_right=state.last_is_right,
        )

    def tell(self, seen: CardsSeen) -> list[Telling]:
        """Tell which card is to be sorted; into the history goes what was said about the last one."""
        keys = {f"key_{label}": _card(key, key, key) for key, label in enumerate(KEY_CARDS)}
        return [
            Telling(
                happened=(
                    (
                        "sorted",
                        {
                            "number": trial,
                            "card": _card(*last_cards),
                            "action": KEY_CARDS[action],
                            "verdict": "right" if is_right else "wrong",
                        },
                    ),
                )
                if trial > 0
                else (),
                asked={"number": trial + 1, "card": _card(*cards), **keys},
            )
            for trial, cards, last_cards, action, is_right in zip(
                seen.trial.tolist(),
                seen.cards.tolist(),
                seen.last_cards.tolist(),
                seen.last_action.tolist(),
                seen.last_is_right.tolist(),
                strict=True,
            )
        ]

    def step(self, world: CardsWorld, state: CardsState, actions: Ints) -> tuple[CardsState, Step]:
        """Put the stimulus under a key card, and say whether that is right: reward 1 or 0."""
        lanes = np.arange(len(state.trial))
        trial = np.minimum(state.trial, self.n_trials - 1)
        rule, stimulus = world.rules[lanes, trial], world.stimuli[lanes, trial]
        cards = _STIMULI[stimulus]
        right = cards[lanes, rule]
        is_right = actions == right
        step = Step(
            trial=state.trial,
            reward=is_right.astype(np.float64),
            is_rewarded=np.ones(len(lanes), dtype=np.bool_),
            credited=right[:, None] == np.arange(len(KEY_CARDS)),
            outcome=np.where(is_right, 0, 1),
            observation=stimulus,
            hidden=np.column_stack([rule, cards + 1]).astype(np.float64),
        )
        after = CardsState(
            trial=state.trial + state.live,
            live=state.live & (state.trial + 1 < self.n_trials),
            last_action=np.where(state.live, actions, state.last_action),
            last_is_right=np.where(state.live, is_right, state.last_is_right),
        )
        return after, step

    def trials_left(self, world: CardsWorld, state: CardsState) -> Ints:
        """Return how many stimuli are still to be dealt."""
        return np.maximum(self.n_trials - 1 - state.trial, 0)


def _card(colour: int, form: int, number: int) -> str:
    """Name a card by the key cards that share its colour, its form and its number."""
    singular, plural = _FORMS[form]
    return f"{_NUMBERS[number]} {_COLOURS[colour]} {singular if number == 0 else plural}"
