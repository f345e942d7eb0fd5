"""Causal insufficiency: a trial's place may bring about the outcome itself, which confounds the evidence."""

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

_ROLES = ("INERT", "CLOUDER")
_PLACE_ROLES = ("PURE", "TAINTED")
_OUTCOMES = ("LIMPID", "CLOUDY")


class CausalInsufficiency(Compounds):
    """Substances in water of springs that may be tainted: cloudy water tells of them only if it was pure.

    Parts are the substances and then the springs; a trial has one spring, its last part.

    Attributes
    ----------
    n_places
        Springs.
    n_tainted
        Springs that are tainted, if this is known; else None.
    """

    plural: ClassVar[str] = "substances"

    n_places: int = Field(strict=True, ge=2, le=5)
    n_tainted: int | None = Field(default=None, strict=True, ge=1)

    def possible_worlds(self) -> Ints:
        """Return all combinations of substances and springs."""
        worlds = all_roles(self.n_cues + self.n_places, 2)
        if self.n_tainted is None:
            return worlds
        return np.asarray(worlds[worlds[:, self.n_cues :].sum(axis=1) == self.n_tainted])

    def outcomes(self, worlds: Ints, setup: Setup) -> Ints:
        """Return 1 where the water becomes cloudy."""
        return np.asarray(worlds[:, list(setup)].max(axis=1))

    def plan(self, world: Ints, dice: Dice) -> Plan | None:
        """Return trials with water of any spring, one of which is tainted and one not."""
        if not 0 < world[0, self.n_cues :].sum() < self.n_places:
            return None
        due = WhichRole(self.n_cues + dice.integer(0, self.n_places - 1), _PLACE_ROLES)
        return Plan((), lambda more: self._glass(more, self.n_together), due)

    def new_setup(self, dice: Dice) -> Setup:
        """Draw a trial that may be asked about."""
        return self._glass(dice, self.n_together + 1)

    def _glass(self, dice: Dice, largest: int) -> Setup:
        poured = self.compound(dice, range(self.n_cues), largest)
        return (*poured, self.n_cues + dice.integer(0, self.n_places - 1))

    def situation(self, names: Sequence[str]) -> str:
        """Return what a reader is told first."""
        return (
            "A laboratory pours substances into glasses of water and writes down what the water looks like "
            "on the next day. Water comes from several springs, each glass from one of them, and no glass "
            f"was left without a substance. The substances are {listed(names[: self.n_cues])}; the springs "
            f"are {listed(names[self.n_cues :])}."
        )

    def rules(self, names: Sequence[str]) -> Sequence[str]:
        """Return the assumptions."""
        known = (
            f"Exactly {self.n_tainted} of the {self.n_places} springs "
            f"{'is' if self.n_tainted == 1 else 'are'} TAINTED."
            if self.n_tainted
            else "Any number of springs may be TAINTED, from none to all."
        )
        return (
            "Each substance is INERT or a CLOUDER, in every trial the same. Any combination is possible.",
            f"Each spring is PURE or TAINTED, in every trial the same. {known}",
            "A glass is CLOUDY on the next day if its water is from a TAINTED spring or at least one CLOUDER "
            "is in it (or both); else it is LIMPID. Nothing else matters.",
        )

    def trial_text(self, names: Sequence[str], setup: Setup) -> str:
        """Return what was poured into water of which spring."""
        return f"{' + '.join(names[part] for part in setup[:-1])} in water of {names[setup[-1]]}"

    def role_labels(self, names: Sequence[str], part: int) -> tuple[str, ...]:
        """Return what a substance or a spring can be."""
        return _ROLES if part < self.n_cues else _PLACE_ROLES

    def outcome_labels(self, setup: Setup) -> tuple[str, ...]:
        """Return what water can look like."""
        return _OUTCOMES

    def role_text(self, names: Sequence[str], part: int) -> str:
        """Return the question what a substance or a spring is."""
        return f"What is {'' if part < self.n_cues else 'the spring '}{names[part]}?"

    def outcome_text(self, names: Sequence[str], setup: Setup) -> str:
        """Return the question what water looks like."""
        poured = are([names[part] for part in setup[:-1]])
        return f"What does water of {names[setup[-1]]} look like on the day after {poured} poured in?"
