"""One of several items has a wrong weight; materials have hidden weights, and the scale has a hidden bias.

The scale shows the weight in its left pan minus that in its right pan plus its bias. An item weighs what its
material says, except for one. The odd item is found when it is named with its weight.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from generate.contract import Bools, Ints
from generate.learning.contract import Guess, Moved, Question
from generate.learning.dice import Dice
from generate.learning.procedural_learning.rounds import Attempts, Level, carried, told, whole_action
from generate.learning.wording import listed

_MATERIALS = ("tin", "glass", "horn")
_MOST_ITEMS = 60
_N_WEIGHINGS_OF_QUESTION = 2
_NUMBERS = r"[0-9]{1,2}(?:[ ,]+[0-9]{1,2})*"
_WEIGHING = re.compile(rf"({_NUMBERS}) *\| *({_NUMBERS})", re.ASCII)
_FINDING = re.compile(r"(?:item +)?([0-9]{1,6}) *= *([0-9]{1,6})(?: *g)?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Scale:
    """Weight of each material, in grams, and what the scale adds on its left side."""

    weights: tuple[int, ...]
    bias: int


@dataclass(frozen=True, slots=True)
class Items:
    """World.

    Attributes
    ----------
    materials, weights
        Of each item, episodes x items; the odd item has its own weight.
    odd
        Odd item, per episode, from 0.
    bias
        Of the scale, per episode.
    """

    materials: Ints
    weights: Ints
    odd: Ints
    bias: Ints


# items of the left pan, items of the right pan, what the scale shows
Weighing = tuple[tuple[int, ...], tuple[int, ...], int]


class BalanceWeighing(Level):
    """A level of hidden scales.

    Attributes
    ----------
    n_items
        Items of a round.
    lightest, heaviest
        Weights that a material can have, in grams.
    largest_bias
        The bias goes from minus this number to this number.
    changes
        What may be the matter with the odd item: grams more than its material says.
    """

    n_items: Annotated[int, Field(ge=4, le=_MOST_ITEMS)]
    lightest: Annotated[int, Field(ge=1)]
    heaviest: Annotated[int, Field(ge=1)]
    largest_bias: Annotated[int, Field(ge=0)]
    changes: Annotated[tuple[int, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _weighs_something(self) -> Self:
        if self.lightest + min(self.changes) < 1 or self.lightest > self.heaviest or 0 in self.changes:
            raise ValueError(
                "expected changes other than 0 and weights of 1 g and more, found changes of "
                f"{self.changes} to weights from {self.lightest} to {self.heaviest}"
            )
        return self

    @property
    def grammar(self) -> str:
        """How weighings and findings are written."""
        return (
            "Write a weighing as the numbers of the items in the left and right pan, such as `1 4 | 2 7`, "
            "and a finding as the number of an item and its weight, such as `3 = 5`."
        )

    def skill(self, dice: Dice) -> Scale:
        """Draw the weights of materials, and a bias."""
        return Scale(
            tuple(dice.integer(self.lightest, self.heaviest) for _ in _MATERIALS),
            dice.integer(-self.largest_bias, self.largest_bias),
        )

    def opening(self, skill: Scale) -> str:
        """Return what is known of hidden scales."""
        changes = listed(
            [f"{abs(change)} g {'more' if change > 0 else 'less'}" for change in self.changes], "or"
        )
        return (
            f"Items are made of {listed(_MATERIALS, 'or')}. All items of one material weigh the same, a "
            f"hidden whole number of grams from {self.lightest} to {self.heaviest}; two materials may have "
            f"the same weight. In each round one odd item weighs {changes} than its material says. A scale "
            "with two pans shows the weight in the left pan minus the weight in the right pan, plus a "
            f"hidden bias: a whole number from {-self.largest_bias} to {self.largest_bias}. The weights of "
            "the materials and the bias are the same in all rounds."
        )

    def draw(self, skills: Sequence[Scale], dice: Sequence[Dice]) -> Items:
        """Draw items and which of them is odd."""
        drawn = [self._items(skill, own) for skill, own in zip(skills, dice, strict=True)]
        return Items(
            materials=np.array([materials for materials, _, _ in drawn], dtype=np.int64),
            weights=np.array([weights for _, weights, _ in drawn], dtype=np.int64),
            odd=np.array([odd for _, _, odd in drawn], dtype=np.int64),
            bias=np.array([skill.bias for skill in skills], dtype=np.int64),
        )

    def introduction(self, world: Items) -> list[str]:
        """Return the items, and what is told."""
        return [
            f"Items: {_described(materials)}. Find the odd item and its weight in grams. A move is a "
            "weighing, with at least one item in each pan, of which you are told what the scale shows; or "
            "a finding, of which you are told whether item and weight are right."
            for materials in world.materials.tolist()
        ]

    def start(self, world: Items) -> Attempts:
        """Nothing was weighed."""
        return Attempts(np.zeros(world.odd.size))

    def read(self, text: str) -> tuple[int, ...] | None:
        """Return the pans, as sums of powers of two, and zeros; or zeros, the number of an item and a weight.

        Item 1 adds 1 to the number of its pan, item 2 adds 2, item 3 adds 4, and so on.
        """
        if found := whole_action(_FINDING, text):
            return 0, 0, int(found[1]), int(found[2])
        if (found := whole_action(_WEIGHING, text)) is None:
            return None
        pans = [{int(number) for number in re.split("[ ,]+", pan)} for pan in found.groups()]
        if not all(1 <= number <= _MOST_ITEMS for number in set.union(*pans)):
            return None
        left, right = (sum(1 << (number - 1) for number in pan) for pan in pans)
        return left, right, 0, 0

    def step(self, world: Items, state: Attempts, actions: Ints, which: Bools) -> tuple[Attempts, Moved]:
        """Weigh, or name the odd item."""
        left, right, number, weight = actions.T
        is_finding = left == 0
        is_weighed = ~is_finding & (np.maximum(left, right) >> self.n_items == 0) & (left & right == 0)
        is_legal = which & np.where(is_finding, (number >= 1) & (number <= self.n_items), is_weighed)
        bits = np.arange(self.n_items)
        sides = ((left[:, None] >> bits) & 1) - ((right[:, None] >> bits) & 1)
        shown = (sides * world.weights).sum(axis=1) + world.bias
        is_item = is_finding & (number - 1 == world.odd)
        odd_weights = world.weights[np.arange(world.odd.size), world.odd]
        is_solved = is_legal & is_item & (weight == odd_weights)
        # the right item with a wrong weight is half of what is asked for
        progress = carried(state.progress, np.where(is_solved, 1.0, 0.5 * is_item), is_legal)

        def tell(lane: int) -> str:
            if not is_legal[lane]:
                return (
                    f"The items have the numbers 1 to {self.n_items}, and an item lies in one pan only. "
                    "Nothing was weighed."
                )
            if not is_finding[lane]:
                return f"The scale shows {shown[lane]}."
            finding = f"item {number[lane]} is the odd one and weighs {weight[lane]} g"
            return f"Right: {finding}." if is_solved[lane] else f"It is not so that {finding}."

        return Attempts(progress), Moved(is_legal, is_solved, progress, told(which, tell))

    def best(self, world: Items, state: Attempts, lanes: Sequence[int]) -> list[str]:
        """Name the odd item."""
        return [f"{world.odd[lane] + 1} = {world.weights[lane, world.odd[lane]]}" for lane in lanes]

    def random(self, world: Items, state: Attempts, lanes: Sequence[int], dice: Sequence[Dice]) -> list[str]:
        """Weigh or name, each as likely: any weighing with full pans, or any item with any weight."""
        return [
            self._weighing(own)
            if own.chance(0.5)
            else f"{own.integer(1, self.n_items)} = {own.choice(self._odd_weights())}"
            for own in dice
        ]

    def n_best(self, world: Items) -> Ints:
        """Return how many moves are needed by who knows all that is hidden: one."""
        return np.ones(world.odd.size, dtype=np.int64)

    def transfer(self, skill: Scale, dice: Dice, n_questions: int) -> tuple[Question, ...]:
        """Ask for the odd item, given weighings which leave only one; practice has one item less."""
        return tuple(self._question(skill, dice) for _ in range(n_questions))

    def transfer_introduction(self, skill: Scale) -> str:
        """Return what the questions ask for."""
        return (
            "Each question has new items, one of them odd, on the same scale; the number behind a weighing "
            "is what the scale has shown. Write the number of the odd item and its weight in grams, "
            "separated by a space, such as `3 5`."
        )

    def _items(self, skill: Scale, dice: Dice, n_more: int = 0) -> tuple[list[int], list[int], int]:
        """Return materials and weights of items, and which of them is odd."""
        n = self.n_items + n_more
        materials = [dice.integer(0, len(_MATERIALS) - 1) for _ in range(n)]
        weights = [skill.weights[material] for material in materials]
        odd = dice.integer(0, n - 1)
        weights[odd] += dice.choice(self.changes)
        return materials, weights, odd

    def _weighing(self, dice: Dice) -> str:
        """Return a weighing, each as likely."""
        n_sides = 3

        def sides() -> tuple[list[int], list[int]] | None:
            drawn = [dice.integer(0, n_sides - 1) for _ in range(self.n_items)]
            left, right = ([item for item, side in enumerate(drawn) if side == pan] for pan in (1, 2))
            return (left, right) if left and right else None

        return _written(*self.until(sides))

    def _odd_weights(self) -> range:
        """Return all weights that an odd item can have, with those between."""
        return range(self.lightest + min(self.changes), self.heaviest + max(self.changes) + 1)

    def _question(self, skill: Scale, dice: Dice) -> Question:
        def question() -> tuple[list[int], list[Weighing], int, int] | None:
            materials, weights, odd = self._items(skill, dice, n_more=1)
            weighings = []
            for _ in range(_N_WEIGHINGS_OF_QUESTION):
                drawn = dice.sample(range(len(materials)), 2 * (len(materials) // 3))
                left, right = drawn[::2], drawn[1::2]
                shown = (
                    sum(weights[item] for item in left) - sum(weights[item] for item in right) + skill.bias
                )
                weighings.append((tuple(sorted(left)), tuple(sorted(right)), shown))
            if len(self._fitting(skill, materials, weighings)) > 1:
                return None
            return materials, weighings, odd, weights[odd]

        materials, weighings, odd, weight = self.until(question)
        n_items = len(materials)
        shown = "; ".join(f"{_written(left, right)}: {reading}" for left, right, reading in weighings)
        symbols = tuple(map(str, range(1, max(n_items, self._odd_weights()[-1]) + 1)))
        return Question(
            text=f"Items: {_described(materials)}. Weighings: {shown}. Which item is odd, and what does it "
            "weigh?",
            answer=f"{odd + 1} {weight}",
            match_kind="sequence",
            guess=Guess(symbols, 2, 2, " "),
            asked=(tuple(materials), tuple(weighings)),
        )

    def _fitting(
        self, skill: Scale, materials: Sequence[int], weighings: Sequence[Weighing]
    ) -> list[tuple[int, int]]:
        """Return the items, each with its change, that fit some weighings."""
        excesses = []
        for left, right, shown in weighings:
            expected = sum(skill.weights[materials[item]] for item in left)
            expected -= sum(skill.weights[materials[item]] for item in right)
            excesses.append(shown - skill.bias - expected)
        return [
            (item, change)
            for item in range(len(materials))
            for change in self.changes
            if all(
                excess == change * ((item in left) - (item in right))
                for excess, (left, right, _) in zip(excesses, weighings, strict=True)
            )
        ]


def _described(materials: Sequence[int]) -> str:
    return ", ".join(f"{number} {_MATERIALS[material]}" for number, material in enumerate(materials, 1))


def _written(left: Sequence[int], right: Sequence[int]) -> str:
    pans = (" ".join(str(item + 1) for item in pan) for pan in (left, right))
    return " | ".join(pans)
