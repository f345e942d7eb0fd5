"""What the families of associative learning have in common: a log of trials in a world with hidden causes.

The text states every assumption, so that all causal worlds can be enumerated. A log is drawn from one of
them, trial by trial; the right answers are what the worlds that agree with the whole log have in common.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, ClassVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from generate.contract import Ints
from generate.learning.associative_learning.asked import (
    UNKNOWN,
    Asked,
    HowFew,
    HowMany,
    HowManyWorlds,
    Number,
    Setup,
    WhichOutcome,
    WhichRole,
    Word,
    right_answer,
)
from generate.learning.associative_learning.choosing import (
    Candidate,
    balanced,
    is_fair,
    is_varied,
    shared_out,
)
from generate.learning.associative_learning.reading import (
    Trial,
    agreeing,
    agreeing_one_at_a_time,
    n_unresolved,
)
from generate.learning.associative_learning.wording import NAMES
from generate.learning.contract import Guess, Question, Sheet
from generate.learning.dice import Dice
from generate.learning.wording import listed
from store.errors import InvalidSource

Several = Annotated[int, Field(strict=True, ge=2, le=12)]
AtLeast = Annotated[int, Field(strict=True, ge=0)]

_MAX_DRAWS = 1000
_MAX_SETUPS = 80
_N_NEW_SETUPS = 48
_N_SUBSETS = 5

# the words stand here and not beside a question, which would then be right as it stands
_HOW_TO_ANSWER = (
    "How to answer: the rules and the log may leave several possibilities. An answer is certain if it is "
    "right in every possibility that obeys all the rules and agrees with all the trials. A question for a "
    "number is answered with that number, in digits, and every other question with the word that is "
    f"certain. If no word is certain, the right one is {UNKNOWN}. The other words, as the question is: "
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What the trials of a log are taken from.

    Attributes
    ----------
    opening
        Trials that the log has in any case.
    further
        Draws one more trial that the log may have.
    due
        The question for a word that is asked in any case, if there is one.
    """

    opening: Sequence[Setup]
    further: Callable[[Dice], Setup]
    due: Word | None = None


class CausalLog(BaseModel, ABC):
    """Logs of trials from which causes are inferred; the fields are the constants of one level.

    Attributes
    ----------
    n_cues
        Cues whose roles are hidden.
    n_trials
        Trials of a log.
    n_unresolved
        Parts whose role the log leaves open, at least.
    n_deep
        Questions, at least, that a reader gets wrong who never combines two trials.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    # questions for outcomes, for roles and for numbers are asked in this proportion
    shares: ClassVar[tuple[int, int, int]] = (3, 3, 2)
    plural: ClassVar[str]

    n_cues: Several
    n_trials: Annotated[int, Field(strict=True, ge=2, le=20)]
    n_unresolved: AtLeast
    n_deep: AtLeast = 0

    @abstractmethod
    def possible_worlds(self) -> Ints:
        """Return all causal worlds that the rules allow: worlds x parts, roles. Cues are the first parts."""

    @abstractmethod
    def outcomes(self, worlds: Ints, setup: Setup) -> Ints:
        """Return what each world makes of a trial, counted from 0."""

    @abstractmethod
    def plan(self, world: Ints, dice: Dice) -> Plan | None:
        """Return what the trials of one log are taken from, or None if a world does not allow any.

        ``world`` has one row: the true one.
        """

    @abstractmethod
    def new_setup(self, dice: Dice) -> Setup:
        """Draw a trial that may be asked about."""

    @abstractmethod
    def situation(self, names: Sequence[str]) -> str:
        """Return what a reader is told first; ``names`` are those of the parts."""

    @abstractmethod
    def rules(self, names: Sequence[str]) -> Sequence[str]:
        """Return all that can be assumed."""

    @abstractmethod
    def trial_text(self, names: Sequence[str], setup: Setup) -> str:
        """Return what a trial consisted of."""

    @abstractmethod
    def role_labels(self, names: Sequence[str], part: int) -> tuple[str, ...]:
        """Return a word for each role of a part."""

    @abstractmethod
    def outcome_labels(self, setup: Setup) -> tuple[str, ...]:
        """Return a word for each outcome of a trial."""

    @abstractmethod
    def outcome_text(self, names: Sequence[str], setup: Setup) -> str:
        """Return the question what a trial leads to."""

    def role_text(self, names: Sequence[str], part: int) -> str:
        """Return the question what a part does."""
        return f"What is {names[part]}?"

    def counts(self, names: Sequence[str], dice: Dice) -> list[Number]:
        """Return questions for a number that may be asked."""
        asked: list[Number] = []
        for _ in range(_N_SUBSETS):
            n = dice.integer(max(3, self.n_cues - 3), self.n_cues)
            parts = sorted(dice.sample(range(self.n_cues), n))
            of = tuple(WhichRole(part, self.role_labels(names, part)) for part in parts)
            asked += [HowMany(of, label) for label in (*self.role_labels(names, 0), UNKNOWN)]
        return asked

    def number_text(self, names: Sequence[str], asked: Number) -> str:
        """Return a question for a number, here for how many cues have a role."""
        assert isinstance(asked, HowMany)
        among = listed([names[one.part] for one in asked.of if isinstance(one, WhichRole)])
        if asked.label == UNKNOWN:
            return f"For how many of the {self.plural} {among} is it {UNKNOWN} what they are?"
        return f"How many of the {self.plural} {among} are certainly {asked.label}?"

    def sheet(self, dice: Dice, n_questions: int) -> Sheet:
        """Return an instance: its answers are what all worlds that agree with the log have in common.

        Raises
        ------
        InvalidSource
            The constants of the level hardly allow an instance with so many questions.
        """
        for attempt in range(_MAX_DRAWS):
            if (drawn := self._drawn(dice.named(attempt), n_questions)) is not None:
                return drawn
        raise InvalidSource(
            f"{type(self).__name__}: expected a log with {n_questions} questions among {_MAX_DRAWS} drawn, "
            f"found none; change n_test_items or the constants {self.model_dump()}"
        )

    def fitting_answers(
        self, shown: Sequence[Trial], questions: Sequence[Question]
    ) -> frozenset[tuple[str, ...]]:
        """Return the answers that follow from a log: one tuple, or none if no world agrees with it."""
        fits = agreeing(self, worlds_of(self), shown)
        if not len(fits):
            return frozenset()
        return frozenset({tuple(right_answer(self, fits, question.asked) for question in questions)})

    def _drawn(self, dice: Dice, n_questions: int) -> Sheet | None:
        worlds = worlds_of(self)
        place = dice.integer(0, len(worlds) - 1)
        world = worlds[place : place + 1]
        plan = self.plan(world, dice)
        shown = None if plan is None else self._log(plan, world, dice)
        if plan is None or shown is None:
            return None
        names = dice.sample(NAMES, worlds.shape[1])
        fits = agreeing(self, worlds, shown)
        chosen = self._chosen(names, shown, fits, plan.due, n_questions, dice)
        if chosen is None:
            return None
        rules = (f"{number}. {rule}" for number, rule in enumerate(self.rules(names), start=1))
        log = (
            f"Trial {number}: {self.trial_text(names, trial.setup)} -> "
            f"{self.outcome_labels(trial.setup)[trial.outcome]}"
            for number, trial in enumerate(shown, start=1)
        )
        text = "\n\n".join(
            (
                self.situation(names),
                "\n".join(("Rules:", *rules)),
                "\n".join(("Log:", *log)),
                f"{_HOW_TO_ANSWER}{_words_told(chosen)}.",
            )
        )
        return Sheet(text, tuple(self._question(names, candidate) for candidate in chosen), shown)

    def _log(self, plan: Plan, world: Ints, dice: Dice) -> tuple[Trial, ...] | None:
        """Draw trials that each rule something out, without resolving more than they may."""
        trials = [Trial(setup, int(self.outcomes(world, setup)[0])) for setup in plan.opening]
        fits = agreeing(self, worlds_of(self), trials)
        if n_unresolved(fits) < self.n_unresolved:
            return None
        tried = set(plan.opening)
        for _ in range(_MAX_SETUPS):
            if len(trials) == self.n_trials:
                return tuple(dice.shuffled(trials))
            setup = plan.further(dice)
            # what is refused once would be refused later, when fewer worlds are left
            if setup in tried:
                continue
            tried.add(setup)
            trial = Trial(setup, int(self.outcomes(world, setup)[0]))
            left = agreeing(self, fits, [trial])
            if len(left) < len(fits) and n_unresolved(left) >= self.n_unresolved:
                trials.append(trial)
                fits = left
        return None

    def _chosen(
        self,
        names: Sequence[str],
        shown: Sequence[Trial],
        fits: Ints,
        due: Word | None,
        n_questions: int,
        dice: Dice,
    ) -> list[Candidate] | None:
        outcomes = self._new_outcomes(shown, dice)
        if isinstance(due, WhichOutcome):
            outcomes.append(due)
        roles = [WhichRole(part, self.role_labels(names, part)) for part in range(fits.shape[1])]
        for words in (outcomes, roles):
            if not is_varied({right_answer(self, fits, one) for one in words}):
                return None
        left = agreeing_one_at_a_time(self, worlds_of(self), shown)
        chosen = []
        kinds: tuple[Sequence[Asked], ...] = (outcomes, roles, self.counts(names, dice))
        for kind, n in zip(kinds, shared_out(n_questions, self.shares), strict=True):
            candidates = []
            for asked in dict.fromkeys(kind):
                answer = right_answer(self, fits, asked)
                is_deep = right_answer(self, left, asked) != answer
                candidates.append(Candidate(asked, answer, is_deep, asked == due))
            chosen += balanced(candidates, n, dice)
        if len(chosen) < n_questions or sum(candidate.is_deep for candidate in chosen) < self.n_deep:
            return None
        answers = [one.answer for one in chosen if isinstance(one.asked, WhichOutcome | WhichRole)]
        return dice.shuffled(chosen) if is_fair(answers, n_questions) else None

    def _new_outcomes(self, shown: Sequence[Trial], dice: Dice) -> list[WhichOutcome]:
        old = {trial.setup for trial in shown}
        drawn = (self.new_setup(dice) for _ in range(_N_NEW_SETUPS))
        return [WhichOutcome(setup, self.outcome_labels(setup)) for setup in drawn if setup not in old]

    def _question(self, names: Sequence[str], candidate: Candidate) -> Question:
        match candidate.asked:
            case WhichRole(part, labels):
                possible = [labels[role] for role in np.unique(worlds_of(self)[:, part])]
                return _word(self.role_text(names, part), possible, candidate)
            case WhichOutcome(setup, labels):
                return _word(self.outcome_text(names, setup), labels, candidate)
            case asked:
                return _number(self.number_text(names, asked), self._guess(asked), candidate)

    def _guess(self, asked: Number) -> Guess:
        match asked:
            case HowMany(of):
                return _up_to(len(of))
            case HowFew():
                return _up_to(self.n_cues)
            case HowManyWorlds():
                return Guess(tuple("0123456789"), 1, len(str(len(worlds_of(self)))))


@cache
def worlds_of(family: CausalLog) -> Ints:
    """Return all causal worlds that the rules of a family allow, enumerated once."""
    worlds = family.possible_worlds()
    worlds.setflags(write=False)
    return worlds


def _words_told(chosen: Iterable[Candidate]) -> str:
    """Return the words that the answers are taken from, those for outcomes first."""
    asked = [one.asked for one in chosen]
    outcomes = [one.labels for one in asked if isinstance(one, WhichOutcome)]
    roles = [one.labels for one in asked if isinstance(one, WhichRole)]
    return "; ".join(listed(labels, "or") for labels in dict.fromkeys([*sorted(outcomes), *sorted(roles)]))


def _up_to(largest: int) -> Guess:
    return Guess(tuple(str(number) for number in range(largest + 1)))


def _word(text: str, labels: Sequence[str], candidate: Candidate) -> Question:
    words = (*labels, UNKNOWN)
    return Question(text, candidate.answer, "substring", Guess(words), words, candidate.asked)


def _number(text: str, guess: Guess, candidate: Candidate) -> Question:
    return Question(
        f"{text} Answer with a number.", candidate.answer, "integer", guess, asked=candidate.asked
    )
