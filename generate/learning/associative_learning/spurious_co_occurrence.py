"""Spurious co-occurrence: much happens on the nights of an alarm, but one circumstance alone sets it off."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from pydantic import Field

from generate.contract import Ints
from generate.learning.associative_learning.asked import HowManyWorlds, Number, Setup, WhichRole
from generate.learning.associative_learning.causal_log import Plan
from generate.learning.associative_learning.compounds import Compounds
from generate.learning.associative_learning.reading import all_roles
from generate.learning.dice import Dice
from generate.learning.wording import listed

_ROLES = ("BYSTANDER", "CULPRIT", "VETO")
_OUTCOMES = ("CALM", "ALERT")


class SpuriousCoOccurrence(Compounds):
    """Events on the nights of an alarm, which one of them or a circumstance of two sets off.

    Attributes
    ----------
    has_vetoes
        Whether what sets off the alarm may also be one event without another.
    n_followed
        Nights, about, on which an event without any effect goes along with the alarm, or stays away with it.
    """

    plural: ClassVar[str] = "events"

    n_cues: int = Field(strict=True, ge=5, le=12)
    n_together: int = Field(strict=True, ge=4, le=12)
    has_vetoes: bool
    n_followed: int = Field(strict=True, ge=2)

    def possible_worlds(self) -> Ints:
        """Return all circumstances: one culprit, two culprits, or a culprit and a veto."""
        worlds = all_roles(self.n_cues, 3 if self.has_vetoes else 2)
        n_culprits, n_vetoes = (worlds == 1).sum(axis=1), (worlds == 2).sum(axis=1)
        return np.asarray(worlds[(n_culprits >= 1) & (n_culprits + n_vetoes <= 2)])

    def outcomes(self, worlds: Ints, setup: Setup) -> Ints:
        """Return 1 where all culprits happen and no veto does."""
        happens = np.zeros(worlds.shape[1], dtype=np.bool_)
        happens[list(setup)] = True
        is_given = (worlds[:, ~happens] != 1).all(axis=1) & (worlds[:, happens] != 2).all(axis=1)
        return np.asarray(is_given, dtype=np.int64)

    def plan(self, world: Ints, dice: Dice) -> Plan:
        """Return nights with and without an alarm with which one event goes along, itself without effect.

        In half of the logs another event without effect never happens without one of the culprits, nor that
        without it: which of the two is a culprit is then left open.
        """
        culprits = [cue for cue in range(self.n_cues) if world[0, cue] == 1]
        follower, companion, *others = dice.shuffled(
            [cue for cue in range(self.n_cues) if world[0, cue] == 0]
        )
        culprit = dice.choice(culprits)
        tied = (culprit, companion) if dice.chance(0.5) else ()
        opening = []
        for number in range(self.n_followed):
            among = dice.sample(
                others, dice.integer(1, min(self.n_together - len(culprits) - 1, len(others)))
            )
            if number % 2 == 0:
                night = (*culprits, follower, *among)
            else:
                night = (*(cue for cue in culprits if cue != culprit), *among)
            opening.append(self.joined(tuple(sorted(night)), tied))
        opening = list(dict.fromkeys(opening))
        due = WhichRole(follower, self.role_labels((), follower))
        return Plan(opening, lambda more: self.joined(self.any_compound(more), tied), due)

    def counts(self, names: Sequence[str], dice: Dice) -> list[Number]:
        """Return questions for a number that may be asked."""
        return [*super().counts(names, dice), HowManyWorlds()]

    def number_text(self, names: Sequence[str], asked: Number) -> str:
        """Return a question for a number of events, or of circumstances."""
        if isinstance(asked, HowManyWorlds):
            return "How many different circumstances are left that may be the one which sets off the alarm?"
        return super().number_text(names, asked)

    def situation(self, names: Sequence[str]) -> str:
        """Return what a reader is told first."""
        return (
            "An alarm in an old house goes off on some nights. For some nights it was written down what "
            "happened before, and whether the alarm then went off (ALERT) or not (CALM). Events are known by "
            f"code names: {listed(names)}. On each night only the events named happened."
        )

    def rules(self, names: Sequence[str]) -> Sequence[str]:
        """Return the assumptions."""
        circumstance = (
            "That circumstance is one of three kinds: one particular event happens, the only CULPRIT; or two "
            "particular events both happen on the same night, each of them a CULPRIT; or one particular "
            "event, the CULPRIT, happens and another one, the VETO, does not happen on the same night."
            if self.has_vetoes
            else "That circumstance is one of two kinds: one particular event happens, the only CULPRIT; or "
            "two particular events both happen on the same night, each of them a CULPRIT."
        )
        return (
            "The alarm goes off on exactly those nights on which one circumstance is given, always the same.",
            circumstance,
            "Every event that is no part of that circumstance is a BYSTANDER, even if it often goes along "
            "with the alarm. How often events happen, alone or together, says nothing about what they are.",
        )

    def trial_text(self, names: Sequence[str], setup: Setup) -> str:
        """Return what happened on a night."""
        return ", ".join(names[cue] for cue in setup)

    def role_labels(self, names: Sequence[str], part: int) -> tuple[str, ...]:
        """Return what an event can be."""
        return _ROLES if self.has_vetoes else _ROLES[:2]

    def outcome_labels(self, setup: Setup) -> tuple[str, ...]:
        """Return what a night can be like."""
        return _OUTCOMES

    def outcome_text(self, names: Sequence[str], setup: Setup) -> str:
        """Return the question whether the alarm goes off."""
        return f"What is a night like on which only {listed([names[cue] for cue in setup])} happened?"
