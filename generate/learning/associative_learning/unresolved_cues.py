"""Unresolved cues: how many causes are confirmed, how many are open, and how many there can be."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from pydantic import Field

from generate.contract import Ints
from generate.learning.associative_learning.asked import HowFew, HowMany, HowManyWorlds, Number, Setup
from generate.learning.associative_learning.compounds import Compounds
from generate.learning.associative_learning.reading import all_roles
from generate.learning.associative_learning.wording import are
from generate.learning.dice import Dice
from generate.learning.wording import listed

_ROLES = ("INERT", "CHARGED")
_OUTCOMES = ("QUIET", "BUZZ")


class UnresolvedCues(Compounds):
    """Beads on a detector that buzzes for enough charged ones; most questions are for numbers.

    Attributes
    ----------
    threshold
        Charged beads for which the detector buzzes.
    n_charged
        The smallest and the largest number of charged beads that are possible.
    """

    shares: ClassVar[tuple[int, int, int]] = (1, 1, 3)
    plural: ClassVar[str] = "beads"

    threshold: int = Field(strict=True, ge=1, le=3)
    n_charged: tuple[int, int]

    def possible_worlds(self) -> Ints:
        """Return all sets of charged beads."""
        worlds = all_roles(self.n_cues, 2)
        n_charged = worlds.sum(axis=1)
        fewest, most = self.n_charged
        return np.asarray(worlds[(n_charged >= fewest) & (n_charged <= most)])

    def outcomes(self, worlds: Ints, setup: Setup) -> Ints:
        """Return 1 where the detector buzzes."""
        return np.asarray(worlds[:, list(setup)].sum(axis=1) >= self.threshold, dtype=np.int64)

    def counts(self, names: Sequence[str], dice: Dice) -> list[Number]:
        """Return questions for a number that may be asked."""
        extremes = [HowFew(role, is_largest) for role in range(2) for is_largest in (False, True)]
        return [*super().counts(names, dice), *extremes, HowManyWorlds()]

    def number_text(self, names: Sequence[str], asked: Number) -> str:
        """Return a question for a number of beads, or of sets of them."""
        match asked:
            case HowManyWorlds():
                return (
                    f"How many different sets of CHARGED beads, of all {self.n_cues} beads, agree with the "
                    "rules and the log?"
                )
            case HowFew(role, is_largest):
                extreme = "largest" if is_largest else "smallest"
                return (
                    f"What is the {extreme} number of beads, of all {self.n_cues}, that can be "
                    f"{_ROLES[role]} according to the rules and the log?"
                )
            case HowMany():
                return super().number_text(names, asked)

    def situation(self, names: Sequence[str]) -> str:
        """Return what a reader is told first."""
        return (
            "Beads are laid on a detector, in each trial the beads named and no others, and it is written "
            f"down whether it gives a buzz (BUZZ) or not (QUIET). The beads are {listed(names)}."
        )

    def rules(self, names: Sequence[str]) -> Sequence[str]:
        """Return the assumptions."""
        fewest, most = self.n_charged
        if fewest == most:
            how_many = f"Exactly {most} of the {self.n_cues} beads are CHARGED."
        elif fewest > 0 or most < self.n_cues:
            how_many = f"At least {fewest} and at most {most} of the {self.n_cues} beads are CHARGED."
        else:
            how_many = "Any number of beads may be CHARGED, from none to all."
        beads = "one CHARGED bead is" if self.threshold == 1 else f"{self.threshold} CHARGED beads are"
        return (
            f"Each bead is INERT or CHARGED, in every trial the same. {how_many}",
            f"The detector gives a BUZZ if at least {beads} on it, and else stays QUIET. Nothing else "
            "matters.",
        )

    def role_labels(self, names: Sequence[str], part: int) -> tuple[str, ...]:
        """Return what a bead can be."""
        return _ROLES

    def outcome_labels(self, setup: Setup) -> tuple[str, ...]:
        """Return what the detector can do."""
        return _OUTCOMES

    def outcome_text(self, names: Sequence[str], setup: Setup) -> str:
        """Return the question what the detector does."""
        return f"What does the detector do when only {are([names[cue] for cue in setup])} on it?"
