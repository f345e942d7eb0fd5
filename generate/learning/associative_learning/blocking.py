"""Blocking: a cue that was only seen beside causes which explain the outcome without it stays unknown."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from pydantic import Field

from generate.contract import Ints
from generate.learning.associative_learning.asked import Setup, WhichRole
from generate.learning.associative_learning.causal_log import Plan
from generate.learning.associative_learning.compounds import Compounds
from generate.learning.associative_learning.reading import all_roles
from generate.learning.associative_learning.wording import are
from generate.learning.dice import Dice
from generate.learning.wording import listed

_STRENGTHS = ("INERT", "MILD", "POTENT")
_GRADES = ("CLEAR", "FAINT", "MARKED", "SEVERE")


class Blocking(Compounds):
    """Herbs and a rash, whose grade is the sum of their strengths up to a ceiling.

    Attributes
    ----------
    strongest
        Points of the strongest herb.
    ceiling
        Points from which the rash does not become worse.
    n_blocked
        Herbs that are only eaten together with others which reach the ceiling without them.
    """

    plural: ClassVar[str] = "herbs"

    strongest: int = Field(strict=True, ge=1, le=2)
    ceiling: int = Field(strict=True, ge=1, le=3)
    n_blocked: int = Field(strict=True, ge=1)

    def possible_worlds(self) -> Ints:
        """Return all combinations of strengths."""
        return all_roles(self.n_cues, self.strongest + 1)

    def outcomes(self, worlds: Ints, setup: Setup) -> Ints:
        """Return the grades of the rash."""
        return np.asarray(np.minimum(worlds[:, list(setup)].sum(axis=1), self.ceiling))

    def plan(self, world: Ints, dice: Dice) -> Plan | None:
        """Return trials in which some herbs are blocked, and others without these herbs."""
        cues = dice.shuffled(range(self.n_cues))
        blocking: list[int] = []
        for cue in cues:
            if world[0, cue] and world[0, blocking].sum() < self.ceiling:
                blocking.append(cue)
        blocked = [cue for cue in cues if cue not in blocking][: self.n_blocked]
        if world[0, blocking].sum() < self.ceiling or len(blocked) < self.n_blocked:
            return None
        others = [cue for cue in range(self.n_cues) if cue not in blocked]
        opening = [tuple(sorted(blocking)), *(tuple(sorted((*blocking, cue))) for cue in blocked)]
        due = WhichRole(blocked[0], self.role_labels((), blocked[0]))
        return Plan(opening, lambda more: self.compound(more, others, self.n_together), due)

    def situation(self, names: Sequence[str]) -> str:
        """Return what a reader is told first."""
        return (
            "A clinic wants to know which herbs bring on a rash. In each trial a volunteer without a rash "
            "eats one or more herbs, and the rash that follows is written down. The herbs are "
            f"{listed(names)}."
        )

    def rules(self, names: Sequence[str]) -> Sequence[str]:
        """Return the assumptions."""
        strengths = enumerate(_STRENGTHS[: self.strongest + 1])
        herbs = [f"{label} ({_points(points)})" for points, label in strengths]
        *below, last = _GRADES[: self.ceiling + 1]
        grades = [f"{label} at {_points(points)}" for points, label in enumerate(below)]
        return (
            f"Each herb is {listed(herbs, 'or')}, in every trial the same. Any combination of herbs is "
            "possible.",
            "The points of all herbs eaten in a trial are added; nothing else adds points or takes them "
            "away.",
            f"The rash is {listed([*grades, f'{last} at {self.ceiling} or more points'])}.",
        )

    def role_labels(self, names: Sequence[str], part: int) -> tuple[str, ...]:
        """Return the strengths."""
        return _STRENGTHS[: self.strongest + 1]

    def outcome_labels(self, setup: Setup) -> tuple[str, ...]:
        """Return the grades."""
        return _GRADES[: self.ceiling + 1]

    def outcome_text(self, names: Sequence[str], setup: Setup) -> str:
        """Return the question for a rash."""
        return f"Which rash follows when {are([names[cue] for cue in setup])} eaten in one trial?"


def _points(n: int) -> str:
    return f"{n} point{'' if n == 1 else 's'}"
