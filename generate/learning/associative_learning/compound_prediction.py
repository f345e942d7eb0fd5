"""Compound prediction: what is known of single causes is combined by rules that are told."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from generate.contract import Ints
from generate.learning.associative_learning.asked import Setup
from generate.learning.associative_learning.compounds import Compounds
from generate.learning.associative_learning.reading import all_roles
from generate.learning.associative_learning.wording import are
from generate.learning.wording import listed

_ROLES = ("INERT", "AMBER", "TEAL", "QUENCHER", "SWAPPER")
_OUTCOMES = ("DARK", "AMBER", "TEAL", "WHITE")


class CompoundPrediction(Compounds):
    """Crystals that give light of two colours, and others that change the light of those around them.

    Attributes
    ----------
    n_kinds
        Kinds of crystals, in this order: none, two colours, quenchers, swappers.
    mixture
        Which colour is seen where there are crystals of both: with ``both`` white; with ``more`` that of
        which there are more, and white where there are as many.
    """

    shares: ClassVar[tuple[int, int, int]] = (3, 1, 1)
    plural: ClassVar[str] = "crystals"

    # five kinds of seven crystals are 78,125 worlds
    n_cues: int = Field(strict=True, ge=3, le=7)
    n_kinds: Literal[3, 4, 5]
    mixture: Literal["both", "more"]

    def possible_worlds(self) -> Ints:
        """Return all combinations of kinds."""
        return all_roles(self.n_cues, self.n_kinds)

    def outcomes(self, worlds: Ints, setup: Setup) -> Ints:
        """Return the light that is seen."""
        present = worlds[:, list(setup)]
        n_amber, n_teal, n_quenchers, n_swappers = ((present == kind).sum(axis=1) for kind in range(1, 5))
        if self.mixture == "both":
            light = (n_amber > 0) + 2 * (n_teal > 0)
        else:
            light = 1 * (n_amber >= n_teal) * (n_amber > 0) + 2 * (n_teal >= n_amber) * (n_teal > 0)
        is_swapped = (n_swappers % 2 == 1) & ((light == 1) | (light == 2))
        light = np.where(is_swapped, 3 - light, light)
        return np.where(n_quenchers > 0, 0, light)

    def situation(self, names: Sequence[str]) -> str:
        """Return what a reader is told first."""
        return (
            "Crystals are laid into a bowl and a lamp without colour is held over it; then the light that "
            "comes back is written down. In each trial the bowl holds the crystals named and no others. The "
            f"crystals are {listed(names)}."
        )

    def rules(self, names: Sequence[str]) -> Sequence[str]:
        """Return the assumptions."""
        kinds = _ROLES[: self.n_kinds]
        seen = (
            "The light is AMBER if AMBER but no TEAL crystals are in the bowl, TEAL if TEAL but no AMBER "
            "ones are, and WHITE if both are."
            if self.mixture == "both"
            else "The light is AMBER if more AMBER than TEAL crystals are in the bowl, TEAL if more TEAL "
            "than AMBER ones are, and WHITE if there are as many of both, at least one of each."
        )
        rules = [
            f"Each crystal is of one kind, {listed(kinds, 'or')}, in every trial the same. Any combination "
            "is possible.",
            f"{seen} It is DARK if neither is there. INERT crystals change nothing.",
        ]
        if self.n_kinds > 4:
            rules.append(
                "Each SWAPPER in the bowl exchanges the two colours of the light: AMBER becomes TEAL, and "
                "TEAL becomes AMBER; WHITE and DARK stay. Two in the same bowl undo each other."
            )
        if self.n_kinds > 3:
            rules.append(
                "If at least one QUENCHER is in the bowl, the light is DARK, whatever else is there."
            )
        return rules

    def role_labels(self, names: Sequence[str], part: int) -> tuple[str, ...]:
        """Return the kinds."""
        return _ROLES[: self.n_kinds]

    def outcome_labels(self, setup: Setup) -> tuple[str, ...]:
        """Return the lights."""
        return _OUTCOMES

    def role_text(self, names: Sequence[str], part: int) -> str:
        """Return the question of which kind a crystal is."""
        return f"Of which kind is {names[part]}?"

    def outcome_text(self, names: Sequence[str], setup: Setup) -> str:
        """Return the question for a light."""
        return f"Which light comes back when {are([names[cue] for cue in setup])} in the bowl?"
