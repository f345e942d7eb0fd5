"""Temporal discounting: choose between less now and more later.

Source: Coda-Forno et al., CogBench, ``Experiments/TemporalDiscounting``, after Ruggeri et al. (2022). Three
series of questions close in on the premium for which a participant waits a year: for a reward, for one ten
times as large, and for a payment. Four more questions look for anomalies at the lowest premium for which the
participant waited in the first series; they are left out if there was none.

The amounts are exact percentages. The wording is this project's own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from generate.contract import Bools, Episodes, Ints, Observation, ScheduledItem, Step, Telling

_FIRST, _SECOND = range(2)
_N_SERIES = 3
_LAST_BLOCK = _N_SERIES + 3

_Dollars = Annotated[int, Field(strict=True, ge=1)]
_Percent = Annotated[int, Field(strict=True, ge=1)]


@dataclass(frozen=True, slots=True)
class Question:
    """One choice between two options.

    Attributes
    ----------
    id
        Series or anomaly, and premium in percent.
    first, second
        The options, in their order.
    kind
        What the options are: rewards, payments, or a reward that can be had sooner against a payment.
    later
        Which option is the later one, as an index.
    """

    id: str
    first: str
    second: str
    kind: Literal["reward", "payment", "speed_up"]
    later: int = _SECOND

    @property
    def text(self) -> str:
        """Both options in one sentence."""
        return f"{self.first}, or {self.second}"

    @property
    def is_scored(self) -> bool:
        """Whether one option is a later reward, which no pure payment is."""
        return self.kind != "payment"


@dataclass(frozen=True, slots=True)
class _Position:
    """Where a participant is on the path.

    Attributes
    ----------
    block
        Series or anomaly, from 0.
    answers
        Options chosen in this series so far.
    premium
        Lowest premium in percent for which the participant waited in the first series; None if none yet.
    """

    block: int = 0
    answers: tuple[int, ...] = ()
    premium: int | None = None

    def order(self) -> tuple[int, int, tuple[int, ...], int]:
        """Return what sorts positions so that each comes before those that it leads to."""
        return self.block, len(self.answers), self.answers, self.premium or 0


@dataclass(frozen=True, slots=True)
class _Path:
    """All positions as tables; the row after the last position stands for the end.

    Attributes
    ----------
    questions
        What can be asked.
    asked
        Question at each position.
    following
        Next position: positions x options.
    n_left
        Most questions that can follow the one at each position.
    """

    questions: tuple[Question, ...]
    asked: Ints
    following: Ints
    n_left: Ints


@dataclass(frozen=True, slots=True)
class DiscountingWorld:
    """Nothing is drawn but how many take part."""

    n_episodes: int


@dataclass(frozen=True, slots=True)
class DiscountingState:
    """Position of each episode on the path, and how many questions it has answered."""

    trial: Ints
    live: Bools
    position: Ints


@dataclass(frozen=True, slots=True)
class DiscountingSeen(Observation):
    """A question.

    Attributes
    ----------
    trial
        Number of the question in its session, from 0.
    question
        Which one it is, as an index into the environment's ``observations``.
    """

    trial: Ints
    question: Ints


class TemporalDiscounting(BaseModel):
    """The adaptive questionnaire. Nothing in it is random: sessions differ by their answers alone.

    A series asks for ``first_percent`` first. If the sooner option is chosen, the premium rises along
    ``rising_percent`` until the later one is; if the later option is chosen, the premium falls along
    ``falling_percent`` until the sooner one is.

    Attributes
    ----------
    base_dollars
        Sooner amount of the first series, of the payments and of the anomalies.
    large_base_dollars
        Sooner amount of the second series.
    first_percent, rising_percent, falling_percent
        Premiums of the later amount.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    base_dollars: _Dollars
    large_base_dollars: _Dollars
    first_percent: _Percent
    rising_percent: tuple[_Percent, ...]
    falling_percent: tuple[_Percent, ...]

    @model_validator(mode="after")
    def _is_ladder(self) -> "TemporalDiscounting":
        ladder = (*reversed(self.falling_percent), self.first_percent, *self.rising_percent)
        if any(low >= high for low, high in pairwise(ladder)):
            raise ValueError("expected premiums that fall after a later choice and rise after a sooner one")
        if any(
            base * percent % 100
            for base in (self.base_dollars, self.large_base_dollars)
            for percent in ladder
        ):
            raise ValueError("expected premiums in whole dollars")
        return self

    @property
    def actions(self) -> tuple[str, ...]:
        """The options by their number."""
        return ("1", "2")

    @property
    def outcomes(self) -> tuple[str, ...]:
        """What the chosen option is."""
        return ("sooner", "later")

    @property
    def observations(self) -> tuple[str, ...]:
        """All questions that can be asked."""
        return tuple(question.text for question in self._path.questions)

    def episodes(self, seeds: Sequence[int]) -> Episodes:
        """Return one session per seed."""
        return Episodes(
            tuple(str(seed) for seed in seeds),
            np.array(seeds, dtype=np.int64),
            np.zeros(len(seeds), dtype=np.int64),
        )

    def draw(self, episodes: Episodes) -> DiscountingWorld:
        """Draw nothing."""
        return DiscountingWorld(len(episodes))

    def items(self, episodes: Episodes) -> list[ScheduledItem]:
        """Return one item per question that can be asked, whichever answers lead to it."""
        return [
            ScheduledItem(
                item_id=question.id,
                template_id=question.kind,
                legal_options=self.actions,
                credited_options=(self.actions[question.later],) if question.is_scored else None,
                facts={"question": question.text},
            )
            for question in self._path.questions
        ]

    def start(self, world: DiscountingWorld) -> DiscountingState:
        """Return the first question."""
        nothing = np.zeros(world.n_episodes, dtype=np.int64)
        return DiscountingState(nothing, np.ones(world.n_episodes, dtype=np.bool_), nothing)

    def observe(self, world: DiscountingWorld, state: DiscountingState) -> DiscountingSeen:
        """Return the question that is asked now."""
        return DiscountingSeen(
            legal=np.repeat(state.live[:, None], len(self.actions), axis=1),
            trial=state.trial,
            question=self._path.asked[state.position],
        )

    def tell(self, seen: DiscountingSeen) -> list[Telling]:
        """Tell both options. Every question stands alone, as in the original: there is no history."""
        options = [
            {"first": question.first.capitalize(), "second": question.second.capitalize()}
            for question in self._path.questions
        ]
        return [Telling((), options[question]) for question in seen.question.tolist()]

    def step(
        self, world: DiscountingWorld, state: DiscountingState, actions: Ints
    ) -> tuple[DiscountingState, Step]:
        """Take an answer, and go on to the question that it leads to.

        The later reward is credited, whichever number its option has: paying to have a reward at once is the
        sooner choice although it is option 2. A payment credits nothing.
        """
        path = self._path
        asked = path.asked[state.position]
        later = np.array([question.later for question in path.questions])[asked]
        is_scored = np.array([question.is_scored for question in path.questions])[asked]
        step = Step(
            trial=state.trial,
            reward=np.full(world.n_episodes, np.nan),
            is_rewarded=is_scored,
            credited=is_scored[:, None] & (later[:, None] == np.arange(len(self.actions))),
            is_credited=is_scored,
            outcome=(actions == later).astype(np.int64),
            observation=asked,
        )
        position = np.where(state.live, path.following[state.position, actions], state.position)
        after = DiscountingState(
            trial=state.trial + state.live,
            live=state.live & (position < len(path.asked) - 1),
            position=position,
        )
        return after, step

    def trials_left(self, world: DiscountingWorld, state: DiscountingState) -> Ints:
        """Return how many questions can still follow at most: breaking off must not shrink a denominator."""
        return self._path.n_left[state.position]

    @cached_property
    def _path(self) -> _Path:
        """Every position that answers can lead to, each before those that it leads to."""
        following: dict[_Position, list[_Position | None]] = {}
        waiting = [_Position()]
        while waiting:
            position = waiting.pop()
            if position not in following:
                following[position] = [self._after(position, option) for option in (_FIRST, _SECOND)]
                waiting += [reached for reached in following[position] if reached is not None]
        positions = sorted(following, key=_Position.order)
        row = {position: number for number, position in enumerate(positions)}
        end = len(positions)
        table = [
            [end if reached is None else row[reached] for reached in following[position]]
            for position in positions
        ]
        n_left = [0] * (end + 1)
        for at in reversed(range(end)):
            n_left[at] = max(0 if reached == end else 1 + n_left[reached] for reached in table[at])
        asked = [self._question(position) for position in positions]
        number = {question: number for number, question in enumerate(dict.fromkeys(asked))}
        return _Path(
            questions=tuple(number),
            # nothing is asked at the end; any number serves there
            asked=np.array([*(number[question] for question in asked), 0]),
            following=np.array([*table, [end, end]]),
            n_left=np.array(n_left),
        )

    def _after(self, position: _Position, option: int) -> _Position | None:
        """Return where an answer leads; None at the end."""
        if position.block >= _N_SERIES:
            return replace(position, block=position.block + 1) if position.block < _LAST_BLOCK else None
        premium = position.premium
        if position.block == 0 and option == _SECOND:
            # a premium that is offered after one that was accepted is lower
            premium = self._premium(position)
        answers = (*position.answers, option)
        ladder = self._ladder(answers)
        if option == answers[0] and len(answers) <= len(ladder):
            return _Position(position.block, answers, premium)
        block = position.block + 1
        return _Position(block, (), premium) if block < _N_SERIES or premium is not None else None

    def _ladder(self, answers: tuple[int, ...]) -> tuple[int, ...]:
        return self.falling_percent if answers[0] == _SECOND else self.rising_percent

    def _premium(self, position: _Position) -> int:
        """Return the premium in percent that a series offers at this position."""
        answers = position.answers
        return self._ladder(answers)[len(answers) - 1] if answers else self.first_percent

    def _question(self, position: _Position) -> Question:
        if position.premium is not None and position.block >= _N_SERIES:
            return self._anomaly(position.block - _N_SERIES, position.premium)
        premium = self._premium(position)
        name = ("reward", "large_reward", "payment")[position.block]
        sooner = self.large_base_dollars if name == "large_reward" else self.base_dollars
        later = sooner + sooner * premium // 100
        if name == "payment":
            now, then = f"pay {sooner} dollars now", f"pay {later} dollars in 12 months"
            return Question(f"{name}/{premium}", now, then, "payment")
        now, then = f"receive {sooner} dollars now", f"receive {later} dollars in 12 months"
        return Question(f"{name}/{premium}", now, then, "reward")

    def _anomaly(self, number: int, premium: int) -> Question:
        """Return one of the four questions that look for an anomaly at a premium in percent."""
        base = self.base_dollars
        extra = base * premium // 100
        return (
            Question(
                f"present_bias/{premium}",
                f"receive {base} dollars in 12 months",
                f"receive {base + extra} dollars in 24 months",
                "reward",
            ),
            Question(
                f"subadditivity/{premium}",
                f"receive {base} dollars now",
                f"receive {base + 2 * extra} dollars in 24 months",
                "reward",
            ),
            Question(
                f"delay/{premium}",
                f"receive {base} dollars now",
                f"wait 12 months for {extra} dollars more",
                "reward",
            ),
            Question(
                f"speed_up/{premium}",
                f"wait 12 months for {base + extra} dollars",
                f"pay {extra} dollars to receive them now",
                "speed_up",
                later=_FIRST,
            ),
        )[number]
