"""Figures, accepted for values that they have together, or for one of some."""

from collections.abc import Callable
from functools import reduce
from itertools import permutations
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from generate.contract import Bools
from generate.learning.concept_formation.concepts import LABEL_FORM, LABELS, Space, space_of
from generate.learning.concept_formation.objects import ObjectConcept, of_different
from generate.learning.concept_formation.rules import (
    both,
    either,
    either_of_pairs,
    exactly_one,
    with_opposites,
)

Form = Literal[
    "one", "all_of_two", "any_of_two", "all_of_three", "any_of_three", "one_of_two", "mixed", "pairs"
]

_SENTENCES = {
    "one": "It has a certain value.",
    "all_of_two": "It has two certain values of different attributes, both of them.",
    "any_of_two": "It has at least one of two certain values of different attributes.",
    "all_of_three": "It has three certain values of different attributes, all of them.",
    "any_of_three": "It has at least one of three certain values of different attributes.",
    "one_of_two": "It has exactly one of two certain values of different attributes, not both.",
    "mixed": (
        "It has a certain value and, besides, at least one of two others; all three are of different "
        "attributes."
    ),
    "pairs": (
        "It has both values of a certain pair, or both values of a certain other pair, or all of these. The "
        "two values of a pair are of different attributes; the pairs may share a value."
    ),
}


class ObjectConjunction(ObjectConcept):
    """A hidden rule that joins values of different attributes.

    Attributes
    ----------
    forms
        How values may be joined, the simplest form first. The hidden rule has one of the forms other than
        ``one``.
    with_opposites
        Whether a rule may ask for figures that do not have a value, for each of its values on its own.
    """

    forms: Annotated[tuple[Form, ...], Field(min_length=2)]
    with_opposites: bool = False

    def space(self) -> Space:
        """Return the rules of all forms."""
        parts = self.has_value()
        if self.with_opposites:
            parts = [with_opposites(part) for part in parts]
        tables: dict[str, Bools] = {form: _joined(form, parts) for form in self.forms}
        return space_of(self.inputs(), LABELS, tables, [form for form in self.forms if form != "one"])

    def introduction(self) -> str:
        """Return the attributes and the forms of a rule."""
        forms = "\n".join(f"- {_SENTENCES[form]}" for form in self.forms)
        opposites = ""
        if self.with_opposites:
            opposites = (
                "Wherever a value is meant, having the value may also be not having the value, for each "
                "value on its own.\n"
            )
        return (
            f"{self.situation()}\nWhether a figure is accepted is decided in one of these ways:\n{forms}\n"
            f"{opposites}{LABEL_FORM}"
        )


def _joined(form: Form, parts: list[Bools]) -> Bools:
    """Return the rules of one form, made of one table of values per attribute."""
    if form == "one":
        return np.concatenate(parts)
    if form == "pairs":
        return either_of_pairs(_joined("all_of_two", parts))
    if form == "mixed":
        # what is required comes first, the two others in the order of the attributes
        chosen = [three for three in permutations(range(len(parts)), 3) if three[1] < three[2]]
        return np.concatenate([both(parts[a], either(parts[b], parts[c])) for a, b, c in chosen])
    joins: dict[str, tuple[int, Callable[[Bools, Bools], Bools]]] = {
        "all_of_two": (2, both),
        "any_of_two": (2, either),
        "one_of_two": (2, exactly_one),
        "all_of_three": (3, both),
        "any_of_three": (3, either),
    }
    n, join = joins[form]
    return np.concatenate([reduce(join, some) for some in of_different(parts, n)])
