"""One episode at a time, with the method signatures of a Gymnasium environment.

The rules are those of the batch: this is a batch of one episode.
"""

from typing import Any, NamedTuple

import numpy as np

from generate.contract import AnyEnvironment, Environment, Observation
from generate.episodes import check
from store.errors import WrongUsage


class Turn(NamedTuple):
    """What a step returns.

    Attributes
    ----------
    observation
        Arrays have one entry. It alone may be shown to an agent.
    reward
        In the mode's unit; NaN where the step pays nothing that is scored.
    terminated
        Whether the episode is over.
    truncated
        Always False: an episode ends by its own rules.
    info
        ``outcome``: its label or None; ``invalid``: why an action could not be taken, or None.
    """

    observation: Observation
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, str | None]


class SingleEpisode:
    """One episode of an environment.

    Parameters
    ----------
    environment
        The environment with its constants.

    Raises
    ------
    WrongUsage
        If the task is not played: all there is of it is its items.
    """

    def __init__(self, environment: AnyEnvironment) -> None:
        if not isinstance(environment, Environment):
            raise WrongUsage(f"{type(environment).__name__}: expected a task that is played, found questions")
        self._environment = environment
        self._world: Any = None
        self._state: Any = None
        self._is_over = True

    @property
    def actions(self) -> tuple[str, ...]:
        """Labels of all actions; an action is an index into them."""
        return self._environment.actions

    def reset(self, *, seed: int, episode: int = 0) -> tuple[Observation, dict[str, str | None]]:
        """Start an episode of the schedule with one seed.

        Parameters
        ----------
        seed
            Of the episode's chance events.
        episode
            Which of the episodes that the schedule has for this seed.

        Raises
        ------
        WrongUsage
            If the schedule has no such episode, or the seed is none.
        """
        if not isinstance(seed, int) or not 0 <= seed < 2**32:
            raise WrongUsage(f"seed {seed!r}: expected a whole number from 0 to 2^32 - 1")
        episodes = self._environment.episodes([seed])
        if not 0 <= episode < len(episodes):
            raise WrongUsage(f"episode {episode}: expected one of 0 to {len(episodes) - 1} of seed {seed}")
        self._world = self._environment.draw(episodes.only(np.array([episode])))
        self._state = self._environment.start(self._world)
        self._is_over = False
        return self._environment.observe(self._world, self._state), {"outcome": None, "invalid": None}

    def step(self, action: object) -> Turn:
        """Take an action. One that is not legal, or no number, ends the episode and pays nothing.

        Raises
        ------
        WrongUsage
            If the episode is over, or was never started.
        """
        if self._is_over:
            raise WrongUsage("the episode is over: reset() starts another")
        environment = self._environment
        seen = environment.observe(self._world, self._state)
        number = action if isinstance(action, int | float | np.number) else np.nan
        checked = check([number], seen.legal, np.array([True]), environment.actions)
        if checked.reasons:
            self._is_over = True
            return Turn(seen, np.nan, True, False, {"outcome": None, "invalid": checked.reasons[0]})
        self._state, step = environment.step(self._world, self._state, checked.actions)
        self._is_over = not bool(self._state.live[0])
        index = -1 if step.outcome is None else int(step.outcome[0])
        outcome = environment.outcomes[index] if index >= 0 else None
        seen = environment.observe(self._world, self._state)
        return Turn(seen, float(step.reward[0]), self._is_over, False, {"outcome": outcome, "invalid": None})
