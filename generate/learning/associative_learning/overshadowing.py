"""Overshadowing: cues are only ever seen in compounds, and some of them never without one another."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from pydantic import Field

from generate.contract import Ints
from generate.learning.associative_learning.asked import Setup, WhichRole
from generate.learning.associative_learning.causal_log import Plan
from generate.learning.associative_learning.compounds import Compounds
from generate.learning.associative_learning.reading import all_roles
from generate.learning.dice import Dice
from generate.learning.wording import listed

_ROLES = ("INERT", "FERTILE")
_OUTCOMES = ("WITHER", "BLOOM")


class Overshadowing(Compounds):
    """Powders strewn in mixtures, some of which make a bed bloom; how many of them do is known.

    Attributes
    ----------
    n_causes
        Powders that make a bed bloom.
    n_tied
        Powders that are in a mixture all together or not at all.
    """

    plural: ClassVar[str] = "powders"
    smallest: ClassVar[int] = 2

    n_causes: int = Field(strict=True, ge=1)
    n_tied: int = Field(strict=True, ge=2)

    def possible_worlds(self) -> Ints:
        """Return all choices of as many causes as there are."""
        worlds = all_roles(self.n_cues, 2)
        return np.asarray(worlds[worlds.sum(axis=1) == self.n_causes])

    def outcomes(self, worlds: Ints, setup: Setup) -> Ints:
        """Return 1 where at least one cause is in a mixture."""
        return np.asarray(worlds[:, list(setup)].max(axis=1))

    def plan(self, world: Ints, dice: Dice) -> Plan:
        """Return mixtures in which some powders stay together."""
        del world
        tied = dice.sample(range(self.n_cues), self.n_tied)
        return Plan((), lambda more: self.joined(self.any_compound(more), tied), WhichRole(tied[0], _ROLES))

    def situation(self, names: Sequence[str]) -> str:
        """Return what a reader is told first."""
        return (
            "A gardener strews mixtures of powders on beds of the same flower, one mixture on each bed, and "
            "writes down what becomes of the bed. No powder was ever strewn alone. The powders are "
            f"{listed(names)}."
        )

    def rules(self, names: Sequence[str]) -> Sequence[str]:
        """Return the assumptions."""
        return (
            "Each powder is INERT or FERTILE, on every bed the same.",
            f"Exactly {self.n_causes} of the {self.n_cues} powders are FERTILE.",
            "A bed comes to BLOOM if at least one powder of its mixture is FERTILE; else the flowers WITHER. "
            "Nothing else makes a bed BLOOM or keeps it from it.",
        )

    def role_labels(self, names: Sequence[str], part: int) -> tuple[str, ...]:
        """Return what a powder can be."""
        return _ROLES

    def outcome_labels(self, setup: Setup) -> tuple[str, ...]:
        """Return what can become of a bed."""
        return _OUTCOMES

    def outcome_text(self, names: Sequence[str], setup: Setup) -> str:
        """Return the question what becomes of a bed."""
        return f"What becomes of a bed with the mixture of {listed([names[cue] for cue in setup])}?"
