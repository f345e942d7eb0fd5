"""Rules that accept what has one property of some kinds, or two of them joined."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from generate.contract import Bools
from generate.learning.concept_formation.concepts import (
    LABEL_FORM,
    LABELS,
    InputT,
    LabelledConcept,
    Space,
    space_of,
)
from generate.learning.concept_formation.rules import both_of_pairs, either_of_pairs, with_opposites
from store.errors import InvalidSource


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of property.

    Attributes
    ----------
    sentence
        What such a property says of an input, as the reader is told.
    table
        Properties of this kind x inputs.
    """

    sentence: str
    table: Bools


class PropertyConcept(LabelledConcept[InputT]):
    """A hidden property, or two, of some kinds that the reader is told.

    Attributes
    ----------
    kinds
        The kinds of property of this level, the simplest first.
    with_opposites
        Whether the rule may accept what lacks the property.
    is_joined
        Whether the hidden rule joins two properties by "and" or by "or".
    """

    kinds: Annotated[tuple[str, ...], Field(min_length=1)]
    with_opposites: bool = False
    is_joined: bool = False

    @abstractmethod
    def inputs(self) -> Sequence[InputT]:
        """Return everything that is accepted or rejected."""

    @abstractmethod
    def kinds_known(self) -> Mapping[str, Kind]:
        """Return every kind of property that a level may name."""

    @abstractmethod
    def situation(self) -> str:
        """Return what the inputs are and how they are written."""

    def space(self) -> Space:
        """Return the properties, and every two of them joined where the level says so.

        Raises
        ------
        InvalidSource
            If the level names a kind that is not known.
        """
        chosen = self._chosen()
        tables = {
            name: with_opposites(kind.table) if self.with_opposites else kind.table
            for name, kind in chosen.items()
        }
        hidden = list(tables)
        if self.is_joined:
            single = np.concatenate(list(tables.values()))
            tables |= {"both": both_of_pairs(single), "either": either_of_pairs(single)}
            hidden = ["both", "either"]
        return space_of(self.inputs(), LABELS, tables, hidden)

    def introduction(self) -> str:
        """Return the situation and the kinds of property."""
        rule = "The rule looks at one property and accepts what has it"
        if self.with_opposites:
            rule += ", or it accepts exactly what lacks it"
        if self.is_joined:
            rule += "; or it looks at two such properties and accepts what has both, or what has at least one"
        kinds = "\n".join(f"- {kind.sentence}" for kind in self._chosen().values())
        return (
            f"{self.situation()} Some are accepted and all others are rejected, by a rule that never "
            f"changes.\n{rule}. A property is of one of these kinds:\n{kinds}\n{LABEL_FORM}"
        )

    def _chosen(self) -> dict[str, Kind]:
        known = self.kinds_known()
        if unknown := [name for name in self.kinds if name not in known]:
            raise InvalidSource(f"kinds: expected some of {', '.join(known)}, found {unknown[0]}")
        return {name: known[name] for name in self.kinds}
