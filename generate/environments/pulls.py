"""What all bandits share: where their episodes stand, and which of them have a world in common."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeVar

import numpy as np

from generate.contract import Bools, Episodes, Floats, Ints
from generate.environments.arms import ArmsSeen

_SLOT_BITS = 31

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pulls:
    """Where the episodes of a bandit stand.

    Episodes are played in step, so all that are live are at the same trial.

    Attributes
    ----------
    live
        Episodes that are not over.
    trial
        Trial that is under way, from 0.
    last_action, last_context
        Arm that was chosen last and the context it was in; -1 before the first choice.
    last_reward
        What it paid, as shown; NaN before the first choice.
    """

    live: Bools
    trial: int
    last_action: Ints
    last_context: Ints
    last_reward: Floats

    def after(self, live: Bools, actions: Ints, contexts: Ints, shown: Floats) -> "Pulls":
        """Return the state after each episode took ``actions`` and was shown the rewards ``shown``."""
        return Pulls(live, self.trial + 1, actions, contexts, shown)

    def seen(self, legal: Bools, contexts: Ints) -> ArmsSeen:
        """Return what a participant sees before the trial that is under way."""
        return ArmsSeen(
            legal=legal,
            trial=np.full(self.live.size, self.trial),
            context=contexts,
            last_action=self.last_action,
            last_context=self.last_context,
            last_reward=self.last_reward,
        )


def before_the_first_pull(n_episodes: int) -> Pulls:
    """Return the state in which nothing was chosen yet."""
    none = np.full(n_episodes, -1, dtype=np.int64)
    return Pulls(np.ones(n_episodes, dtype=np.bool_), 0, none, none, np.full(n_episodes, np.nan))


def distinct_worlds(episodes: Episodes, draw: Callable[[int, int], T]) -> tuple[list[T], Ints]:
    """Draw each world once, however many episodes take place in it.

    Parameters
    ----------
    draw
        Takes a seed and a slot, and returns the world of the episodes that have both.

    Returns
    -------
    list, Ints
        The worlds, and for each episode which of them is its own.
    """
    keys = (episodes.seeds << _SLOT_BITS) | episodes.slots
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    worlds = [
        draw(seed, slot)
        for seed, slot in zip(episodes.seeds[first].tolist(), episodes.slots[first].tolist(), strict=True)
    ]
    return worlds, which.astype(np.int64)


def episodes_of(seeds: Sequence[int]) -> Episodes:
    """Return one episode per seed, named by it."""
    return Episodes(
        tuple(str(seed) for seed in seeds),
        np.array(seeds, dtype=np.int64),
        np.zeros(len(seeds), dtype=np.int64),
    )


def best(means: Floats) -> Bools:
    """Mark every arm whose mean is the highest, along the last axis."""
    # arm by arm: a maximum over a last axis of two takes a hundred times as long
    top = reduce(np.maximum, np.moveaxis(means, -1, 0))
    marked: Bools = means == top[..., None]
    return marked
