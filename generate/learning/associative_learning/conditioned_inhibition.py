"""Conditioned inhibition: a cue that prevents an outcome shows it only beside a cause of that outcome."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from generate.contract import Ints
from generate.learning.associative_learning.asked import Setup, WhichRole
from generate.learning.associative_learning.causal_log import Plan
from generate.learning.associative_learning.compounds import Compounds
from generate.learning.associative_learning.reading import all_roles
from generate.learning.associative_learning.wording import are
from generate.learning.dice import Dice
from generate.learning.wording import listed

_ROLES = ("INERT", "EXCITER", "INHIBITOR")
# no word of an answer is one of the question, which would then be right as it stands
_OUTCOMES = ("SILENT", "HONK")


class ConditionedInhibition(Compounds):
    """Switches that sound a horn, prevent that, or do nothing.

    Attributes
    ----------
    prevents
        What one inhibitor prevents: ``all`` exciters together, or ``one`` of them.
    """

    plural: ClassVar[str] = "switches"

    prevents: Literal["all", "one"]

    def possible_worlds(self) -> Ints:
        """Return all combinations of roles."""
        return all_roles(self.n_cues, len(_ROLES))

    def outcomes(self, worlds: Ints, setup: Setup) -> Ints:
        """Return 1 where the horn sounds."""
        present = worlds[:, list(setup)]
        n_exciters, n_inhibitors = (present == 1).sum(axis=1), (present == 2).sum(axis=1)
        if self.prevents == "one":
            return np.asarray(n_exciters > n_inhibitors, dtype=np.int64)
        return np.asarray((n_exciters > 0) & (n_inhibitors == 0), dtype=np.int64)

    def plan(self, world: Ints, dice: Dice) -> Plan | None:
        """Return trials of any switches, and an inhibitor to be asked about."""
        inhibitors = [cue for cue in range(self.n_cues) if world[0, cue] == 2]
        if not inhibitors:
            return None
        return Plan((), self.any_compound, WhichRole(dice.choice(inhibitors), _ROLES))

    def situation(self, names: Sequence[str]) -> str:
        """Return what a reader is told first."""
        return (
            "Some switches are wired to a horn in a way that nobody remembers. In each trial the switches "
            "named are turned on and all others are off; then it is written down whether the horn sounds. "
            f"The switches are {listed(names)}."
        )

    def rules(self, names: Sequence[str]) -> Sequence[str]:
        """Return the assumptions."""
        prevention = (
            "Each INHIBITOR that is on cancels one EXCITER that is on: the horn sounds (HONK) if more "
            "EXCITER than INHIBITOR switches are on, and else stays SILENT."
            if self.prevents == "one"
            else "The horn sounds (HONK) if at least one EXCITER and no INHIBITOR is on, and else stays "
            "SILENT."
        )
        return (
            "Each switch is an EXCITER, an INHIBITOR or INERT, in every trial the same. Any combination is "
            "possible.",
            prevention,
            "INERT switches change nothing, and nothing but the switches matters.",
        )

    def role_labels(self, names: Sequence[str], part: int) -> tuple[str, ...]:
        """Return what a switch can be."""
        return _ROLES

    def outcome_labels(self, setup: Setup) -> tuple[str, ...]:
        """Return what the horn can do."""
        return _OUTCOMES

    def outcome_text(self, names: Sequence[str], setup: Setup) -> str:
        """Return the question what the horn does."""
        return f"What does the horn do when only {are([names[cue] for cue in setup])} on?"
