"""What families of Learning tasks promise to the dialogues that ask them.

A family makes instances: each has hidden rules of its own, drawn from :class:`generate.learning.dice.Dice`
alone. An object of a family holds the constants of one difficulty level; its methods are pure. What a formula
needs, such as budgets and numbers of examples, belongs to the task's row in ``manifests/learning_tasks.csv``
and is passed in. Right answers come from the rule itself and are never written down by hand.

Sheets, lessons and transfer questions are asked of one instance at a time. Games are played side by side:
arrays have one entry per episode on their first axis.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from generate.contract import Bools, Floats, Ints
from generate.learning.dice import Dice

MatchKind = Literal["substring", "integer", "exact_nfc", "sequence"]


@dataclass(frozen=True, slots=True)
class Guess:
    """All that one who has learned nothing knows of an answer: its form.

    A guess has a length from ``min_length`` to ``max_length``, each as likely; every symbol is drawn from
    ``symbols`` with the same probability, and ``separator`` stands between two.
    """

    symbols: tuple[str, ...]
    min_length: int = 1
    max_length: int = 1
    separator: str = ""

    def draw(self, dice: Dice) -> str:
        """Return one guess."""
        length = dice.integer(self.min_length, self.max_length)
        return self.separator.join(dice.choice(self.symbols) for _ in range(length))


@dataclass(frozen=True, slots=True)
class Question:
    """One question whose answer is scored.

    Attributes
    ----------
    text
        The question, in one line, without its number.
    answer
        The right answer, in the form in which a right answer is written: one line, neither empty nor with
        spaces around.
    match_kind
        How an answer is compared. ``substring``: it contains the right one, capitals aside. ``integer``: it
        is the same integer. ``exact_nfc``: it is the same after Unicode normalisation (NFC) and with runs of
        spaces as one. ``sequence``: it has the same elements in the same order.
    guess
        How one guesses who has learned nothing.
    labels
        Where the answer is one of a few words, all of them; none of them has a space. Else empty.
    asked
        The question in the family's own form, for the search of rival rules.
    """

    text: str
    answer: str
    match_kind: MatchKind
    guess: Guess
    labels: tuple[str, ...] = ()
    asked: Any = None


@dataclass(frozen=True, slots=True)
class Sheet:
    """One instance that is told at once.

    Attributes
    ----------
    text
        All that is told: the situation, the evidence, what kind of answer is expected. Not the questions.
    shown
        The evidence in the family's own form: it decides the answers.
    """

    text: str
    questions: tuple[Question, ...]
    shown: Any


@dataclass(frozen=True, slots=True)
class Lesson:
    """One instance whose examples are asked for.

    Attributes
    ----------
    introduction
        The situation and what kind of answer is expected; neither how examples are asked for nor how many.
    examples
        One line each, in the order in which they are given, without numbers.
    shown
        The same examples in the family's own form.
    """

    introduction: str
    examples: tuple[str, ...]
    questions: tuple[Question, ...]
    shown: tuple[Any, ...]


@runtime_checkable
class SheetFamily(Protocol):
    """Tasks in which everything is told at once: associative and observational learning."""

    def sheet(self, dice: Dice, n_questions: int) -> Sheet:
        """Return an instance, of which :meth:`fitting_answers` are the right ones alone."""
        ...

    def fitting_answers(
        self,
        shown: Any,  # noqa: ANN401
        questions: Sequence[Question],
    ) -> frozenset[tuple[str, ...]]:
        """Return the answers that are given by the rules of the hypothesis space that fit all that is shown.

        It looks at ``shown`` and at :attr:`Question.asked` alone. Where "not known" is a right answer, the
        answers are what all rules that fit have in common, and there is one tuple of them.
        """
        ...


@runtime_checkable
class LessonFamily(Protocol):
    """Tasks in which examples are asked for: concept formation and language learning."""

    def lesson(self, dice: Dice, n_examples: int, n_questions: int) -> Lesson:
        """Return an instance of which all ``n_examples`` together leave the right answers alone."""
        ...

    def fitting_answers(
        self, shown: Sequence[Any], questions: Sequence[Question]
    ) -> frozenset[tuple[str, ...]]:
        """Return the answers that are given by the rules of the hypothesis space that fit the examples shown.

        The search may stop at two different tuples: then more examples are needed. With examples from the
        first on, more of them never make more tuples fit.
        """
        ...


@dataclass(frozen=True, slots=True)
class Moved:
    """What one action led to, one entry per episode; entries of episodes that took no part have no meaning.

    Attributes
    ----------
    is_legal
        Whether the action was allowed. One that is not is told so, and uses up a step.
    is_solved
        Whether the goal is reached.
    progress
        How far the episode is, from 0 to 1; 1 where it is solved. The score takes that of the last step, so
        a best value so far is carried in the state.
    feedback
        What the player is told: all that can be learned from the action. Empty where it took no part.
    """

    is_legal: Bools
    is_solved: Bools
    progress: Floats
    feedback: list[str]


WorldT = TypeVar("WorldT")
WorldT_contra = TypeVar("WorldT_contra", contravariant=True)
StateT = TypeVar("StateT")
SkillT = TypeVar("SkillT")


class Play(Protocol[WorldT_contra, StateT]):
    """How instances are played side by side. Everything hidden is in the world and drawn before."""

    @property
    def grammar(self) -> str:
        """How an action is written: one sentence with an example."""
        ...

    def introduction(self, world: WorldT_contra) -> list[str]:
        """Return what a player is told first, per episode: situation, actions, goal and feedback.

        It says neither the grammar nor the budget.
        """
        ...

    def start(self, world: WorldT_contra) -> StateT:
        """Return the state before the first action."""
        ...

    def read(self, text: str) -> tuple[int, ...] | None:
        """Return the action that a line of text names, as the integers that :meth:`step` takes, or None.

        ``text`` is one line without spaces around it; capitals do not matter unless actions differ in them.
        """
        ...

    def step(self, world: WorldT_contra, state: StateT, actions: Ints, which: Bools) -> tuple[StateT, Moved]:
        """Take one action in some episodes; the others stay as they are.

        Parameters
        ----------
        actions
            Episodes x integers of an action. Rows of episodes that take no part are zeros.
        which
            Episodes that take part: not solved, and with an action that could be read.
        """
        ...

    def best(self, world: WorldT_contra, state: StateT, lanes: Sequence[int]) -> list[str]:
        """Return the next action on a shortest way to the goal, as text, for some episodes.

        It knows all that is hidden.
        """
        ...

    def random(
        self, world: WorldT_contra, state: StateT, lanes: Sequence[int], dice: Sequence[Dice]
    ) -> list[str]:
        """Return an action as text, drawn from all that are visibly possible, each as likely.

        ``dice`` has one entry per lane of ``lanes``.
        """
        ...

    def n_best(self, world: WorldT_contra) -> Ints:
        """Return how many actions a shortest way to the goal of each episode has, by search; -1: none."""
        ...


@runtime_checkable
class Game(Play[WorldT, StateT], Protocol[WorldT, StateT]):
    """One hidden problem that is solved within a budget of steps: runtime RL."""

    def draw(self, dice: Sequence[Dice]) -> WorldT:
        """Draw the worlds of some episodes, one from each dice. What cannot be solved is never drawn."""
        ...

    def rivals(self, world: WorldT, lane: int) -> WorldT:
        """Return every world that looks like that of one episode at the start, in a fixed order.

        They are worlds of episodes side by side, among them the true one: what a systematic player
        considers possible.
        """
        ...


@runtime_checkable
class Practice(Play[WorldT, StateT], Protocol[WorldT, StateT, SkillT]):
    """A skill that is practised on new instances, and then transferred: procedural learning."""

    def skill(self, dice: Dice) -> SkillT:
        """Draw what is to be learned in one episode."""
        ...

    def opening(self, skill: SkillT) -> str:
        """Return what is told once, before the first round."""
        ...

    def draw(self, skills: Sequence[SkillT], dice: Sequence[Dice]) -> WorldT:
        """Draw the instances of one round, one per episode: each can be solved, and is new."""
        ...

    def transfer(self, skill: SkillT, dice: Dice, n_questions: int) -> tuple[Question, ...]:
        """Return questions on new instances, which who has the skill answers without any help."""
        ...

    def transfer_introduction(self, skill: SkillT) -> str:
        """Return what the questions ask for, and how an answer is written."""
        ...
