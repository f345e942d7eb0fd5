"""The smallest environment there is, for tests of the loop: every trial hides a prize behind a door."""

from dataclasses import dataclass, replace

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from generate.contract import Episodes, Fit, Fitted, Observation, ScheduledItem, Step, Telling


@dataclass(frozen=True, slots=True)
class DoorsWorld:
    prizes: np.ndarray  # hidden: episodes x trials
    n_trials: np.ndarray


@dataclass(frozen=True, slots=True)
class DoorsState:
    trial: int
    n_trials: np.ndarray
    last_reward: np.ndarray

    @property
    def live(self):
        return self.trial < self.n_trials


@dataclass(frozen=True, slots=True)
class DoorsSeen(Observation):
    trial: int
    last_reward: np.ndarray


class Doors(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    n_doors: int = Field(default=3, ge=1)
    n_trials: int = Field(default=4, ge=1)

    @property
    def actions(self):
        return tuple("abcdefgh"[: self.n_doors])

    outcomes: tuple[str, ...] = ("prize", "nothing")
    observations: tuple[str, ...] = ("doors",)

    def episodes(self, seeds):
        return Episodes(tuple(str(seed) for seed in seeds), np.array(seeds), np.zeros(len(seeds), int))

    def draw(self, episodes):
        # an even seed has one trial more than an odd one
        n_trials = self.n_trials + (episodes.seeds % 2 == 0)
        worlds = [np.random.RandomState(seed) for seed in episodes.seeds.tolist()]
        prizes = [world.randint(0, self.n_doors, self.n_trials + 1) for world in worlds]
        return DoorsWorld(np.array(prizes).reshape(len(episodes), -1), n_trials)

    def items(self, episodes):
        return [ScheduledItem(item_id=name, legal_options=self.actions) for name in episodes.ids]

    def start(self, world):
        return DoorsState(0, world.n_trials, np.full(world.n_trials.size, np.nan))

    def observe(self, world, state):
        legal = np.broadcast_to(state.live[:, None], (state.live.size, self.n_doors)).copy()
        # the last trial leaves no choice
        legal[state.trial == world.n_trials - 1, 1:] = False
        return DoorsSeen(legal, state.trial, state.last_reward)

    def tell(self, seen):
        return [Telling((), {}) for _ in range(len(seen.legal))]

    def step(self, world, state, actions):
        prize = world.prizes[:, min(state.trial, world.prizes.shape[1] - 1)]
        reward = (actions == prize).astype(float)
        n = actions.size
        step = Step(
            trial=np.full(n, state.trial),
            reward=reward,
            is_rewarded=np.ones(n, dtype=bool),
            credited=prize[:, None] == np.arange(self.n_doors),
            outcome=(reward == 0).astype(int),
            observation=np.zeros(n, dtype=int),
            hidden=prize[:, None].astype(float),
        )
        return replace(state, trial=state.trial + 1, last_reward=reward), step

    def trials_left(self, world, state):
        return np.maximum(world.n_trials - state.trial - 1, 0)


class Scripted:
    """Returns what it is told to, step by step; it notes all that it is shown."""

    def __init__(self, *choices):
        self.choices = choices
        self.seen = []

    def start(self, lanes):
        self.lanes = lanes
        return 0

    def act(self, memory, seen, streams):
        self.seen.append(seen)
        choice = self.choices[min(memory, len(self.choices) - 1)]
        return memory + 1, choice(seen) if callable(choice) else choice


def fitted(*choices, replicas=("",)):
    return Fitted(Scripted(*choices), replicas, (Fit("temperature", 1.0),), "a script")
