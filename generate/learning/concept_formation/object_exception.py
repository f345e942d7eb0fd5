"""Figures, accepted by a simple rule that has exceptions, sometimes with a wrong label among the examples."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from generate.contract import Bools
from generate.learning.concept_formation.concepts import LABEL_FORM, LABELS, Space, space_of
from generate.learning.concept_formation.objects import ObjectConcept, of_different
from generate.learning.concept_formation.rules import both, either, exactly_one, with_opposites


class ObjectException(ObjectConcept):
    """A hidden main rule, and a hidden kind of figure with which it is the other way round.

    Attributes
    ----------
    main
        ``one``: the main rule is that a figure has a certain value. ``two``: or that it has both, or at least
        one, of two values.
    n_exceptional
        How many values, of different attributes, a figure has to have to be an exception.
    n_wrong
        How many of the examples have a wrong label.
    """

    main: Literal["one", "two"]
    n_exceptional: Literal[1, 2]
    n_wrong: Annotated[int, Field(ge=0, le=2)] = 0

    @property
    def most_wrong(self) -> int:
        """How many of the examples may have a wrong answer."""
        return self.n_wrong

    def space(self) -> Space:
        """Return the main rules without exceptions, then those with exceptions."""
        parts = self.has_value()
        plain = with_opposites(self._main(parts))
        exceptional = np.concatenate(
            [both(*two) for two in of_different(parts, 2)] if self.n_exceptional == 2 else parts
        )
        tables: dict[str, Bools] = {"plain": plain, "with_exceptions": exactly_one(plain, exceptional)}
        return space_of(self.inputs(), LABELS, tables, ["with_exceptions"])

    def introduction(self) -> str:
        """Return the attributes, the main rules, the exceptions and how far labels can be trusted."""
        main = "has a certain value"
        if self.main == "two":
            main += ", or has both, or at least one, of two certain values of different attributes"
        exceptional = (
            "a certain value" if self.n_exceptional == 1 else "two certain values of different attributes"
        )
        return (
            f"{self.situation()}\nThere is a main rule: it accepts a figure that {main}, and rejects every "
            "other; or it does the reverse. There may be exceptions: every figure that has "
            f"{exceptional} gets the other label than the main rule gives.\n{self._trust()}{LABEL_FORM}"
        )

    def _main(self, parts: list[Bools]) -> Bools:
        one = np.concatenate(parts)
        if self.main == "one":
            return one
        twos = of_different(parts, 2)
        return np.concatenate([one, *(both(*two) for two in twos), *(either(*two) for two in twos)])

    def _trust(self) -> str:
        if not self.n_wrong:
            return ""
        number = {1: "one label", 2: "two labels"}[self.n_wrong]
        return (
            f"At most {number} of all the examples that you can see may be wrong. All others follow the "
            "rule, and so do the right answers.\n"
        )
