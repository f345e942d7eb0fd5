"""Figures with several attributes, and what can be said of their values."""

from itertools import combinations, product
from typing import Annotated

import numpy as np
from pydantic import Field

from generate.contract import Bools
from generate.learning.concept_formation.concepts import LabelledConcept
from generate.learning.wording import listed

Figure = tuple[str, ...]

_VALUES = {
    "size": ("small", "medium", "large"),
    "colour": ("red", "green", "blue"),
    "filling": ("plain", "dotted", "striped"),
    "shape": ("circle", "square", "triangle"),
    "frame": ("thin", "thick", "dashed"),
}


class ObjectConcept(LabelledConcept[Figure]):
    """A hidden rule about figures that have one value of each attribute.

    Attributes
    ----------
    n_attributes
        How many attributes figures have: size, colour, filling and shape, then the frame.
    """

    n_attributes: Annotated[int, Field(ge=4, le=len(_VALUES))]

    def inputs(self) -> list[Figure]:
        """Return all figures, as values in the order of the attributes."""
        return list(product(*self._values().values()))

    def situation(self) -> str:
        """Return what the figures are."""
        attributes = "\n".join(f"- {name}: {listed(values, 'or')}" for name, values in self._values().items())
        return (
            f"You are shown figures that have one value of each of {self.n_attributes} attributes:\n"
            f"{attributes}\n"
            "Some figures are accepted and all others are rejected, by a rule that never changes."
        )

    def written(self, given: Figure) -> str:
        """Return a figure in words."""
        figure, frame = " ".join(given[:4]), given[4:]
        return f"{figure} with a {frame[0]} frame" if frame else figure

    def has_value(self) -> list[Bools]:
        """Return, for each attribute, the rules that a figure has a certain value of it."""
        figures = np.array(self.inputs())
        return [
            np.array([figures[:, place] == value for value in values])
            for place, values in enumerate(self._values().values())
        ]

    def _values(self) -> dict[str, tuple[str, ...]]:
        return dict(list(_VALUES.items())[: self.n_attributes])


def of_different(parts: list[Bools], n: int) -> list[tuple[Bools, ...]]:
    """Return the ways to take ``n`` tables of different attributes, in the order of the attributes."""
    return list(combinations(parts, n))
