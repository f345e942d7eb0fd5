"""Logs whose trials are compounds: some of the cues are present, and the others are not."""

from collections.abc import Collection, Sequence
from typing import ClassVar

from generate.contract import Ints
from generate.learning.associative_learning.asked import Setup
from generate.learning.associative_learning.causal_log import CausalLog, Plan, Several
from generate.learning.dice import Dice


class Compounds(CausalLog):
    """Logs of compounds; a trial is the cues that are present, in ascending order.

    Attributes
    ----------
    n_together
        Cues that are together in a trial, at most; one more may be together in a question.
    """

    smallest: ClassVar[int] = 1

    n_together: Several

    def plan(self, world: Ints, dice: Dice) -> Plan | None:
        """Return any compounds as trials, whatever the world."""
        del world, dice
        return Plan((), self.any_compound)

    def new_setup(self, dice: Dice) -> Setup:
        """Draw a compound that may be asked about."""
        return self.compound(dice, range(self.n_cues), self.n_together + 1)

    def trial_text(self, names: Sequence[str], setup: Setup) -> str:
        """Return what is in a compound."""
        return " + ".join(names[part] for part in setup)

    def any_compound(self, dice: Dice) -> Setup:
        """Draw a compound of any cues, as large as in a trial."""
        return self.compound(dice, range(self.n_cues), self.n_together)

    def joined(self, setup: Setup, tied: Collection[int]) -> Setup:
        """Return a compound in which cues that are tied to one another are all present if one of them is."""
        return setup if set(tied).isdisjoint(setup) else tuple(sorted({*setup, *tied}))

    def compound(self, dice: Dice, among: Sequence[int], largest: int) -> Setup:
        """Draw a compound of some of the cues."""
        n = dice.integer(self.smallest, min(largest, len(among)))
        return tuple(sorted(dice.sample(among, n)))
