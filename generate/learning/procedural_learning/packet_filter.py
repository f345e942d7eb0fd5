"""Packets are sent through gates that a hidden filter decides; whether a packet arrives is told.

The filter is a list of tests, each of another property of a packet. The first test that a packet passes
decides its gate; packets that pass none have a gate of their own.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from generate.contract import Bools, Floats, Ints
from generate.learning.contract import Guess, Moved, Question
from generate.learning.dice import Dice
from generate.learning.procedural_learning.rounds import (
    Level,
    carried,
    is_kept_for_transfer,
    told,
    whole_action,
)
from generate.learning.wording import listed

_ORIGINS = ("harbour", "quarry", "orchard", "mill")
_KINDS = ("letter", "chart", "ledger")
_LARGEST_SIZE = 9
_THRESHOLDS = range(3, 9)
_GATES = ("A", "B", "C", "D")
_PACKETS_PER_QUESTION = 4
_FEWEST_OF_A_GATE = 2
_DELIVERY = re.compile(
    r"(?:packet +)?([0-9]{1,6})(?: +(?:to|through) +|[ =>:→-]*)(?:gate +)?([a-z])", re.IGNORECASE | re.ASCII
)

# origin, kind (places in the lists above) and size
Packet = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Filter:
    """A hidden filter.

    Attributes
    ----------
    tests
        Property (0 origin, 1 kind, 2 size) and value, in order. A size passes from the value on.
    gates
        Gate of each test, and last that of packets which pass none.
    """

    tests: tuple[tuple[int, int], ...]
    gates: tuple[int, ...]

    def gate(self, packet: Packet) -> int:
        """Return the gate of a packet."""
        for (field, value), gate in zip(self.tests, self.gates, strict=False):
            if packet[field] == value or (field == 2 and packet[field] > value):
                return gate
        return self.gates[-1]


@dataclass(frozen=True, slots=True)
class Loads:
    """World: packets (episodes x packets x properties), and the gate of each (episodes x packets)."""

    packets: Ints
    gates: Ints


@dataclass(frozen=True, slots=True)
class Delivered:
    """State: which packets have arrived (episodes x packets), and the share of them."""

    packets: Bools
    progress: Floats


class PacketFilter(Level):
    """A level of hidden filters.

    Attributes
    ----------
    n_tests
        Tests in the list.
    n_gates
        Gates there are, used or not.
    n_packets
        Packets of a round.
    """

    n_tests: Annotated[int, Field(ge=1, le=3)]
    n_gates: Annotated[int, Field(ge=2, le=len(_GATES))]
    n_packets: Annotated[int, Field(ge=4, le=20)]

    @model_validator(mode="after")
    def _has_a_gate_for_each_test(self) -> Self:
        if self.n_gates <= self.n_tests:
            raise ValueError(f"expected more gates than tests, found {self.n_gates} and {self.n_tests}")
        return self

    @property
    def grammar(self) -> str:
        """How a delivery is written."""
        return "Write a delivery as the number of a packet and a gate, such as `3>B`."

    def skill(self, dice: Dice) -> Filter:
        """Draw a filter of which every gate can be practised and asked for."""

        def skill() -> Filter | None:
            tests = []
            for field in dice.sample(range(3), self.n_tests):
                values = (range(len(_ORIGINS)), range(len(_KINDS)), _THRESHOLDS)[field]
                tests.append((field, dice.choice(values)))
            drawn = Filter(tuple(tests), tuple(dice.sample(range(self.n_gates), self.n_tests + 1)))
            pools = (_by_gate(drawn, is_transfer=is_transfer) for is_transfer in (False, True))
            is_full = all(len(pool) >= _FEWEST_OF_A_GATE for by_gate in pools for pool in by_gate.values())
            return drawn if is_full else None

        return self.until(skill)

    def opening(self, skill: Filter) -> str:
        """Return what is known of hidden filters."""
        tests = (
            "is one test" if self.n_tests == 1 else f"is a list of {('two', 'three')[self.n_tests - 2]} tests"
        )
        several = (
            "The first test that a packet passes, from the top of the list, decides its gate; no two tests "
            "are of the same property. Each test has a gate of its own, and packets that pass none of them "
            "have another one."
            if self.n_tests > 1
            else "All packets that pass the test have one gate, and all others have another one."
        )
        return (
            f"Packets come from the {listed(_ORIGINS, 'or')}. Each is a {listed(_KINDS, 'or')} and has a "
            f"size from 1 to {_LARGEST_SIZE}. The gates are {listed(_GATES[: self.n_gates])}; not every "
            f"gate need be in use. A hidden filter decides through which gate a packet must go. It {tests}. "
            "A test is one of these: the packet comes from one certain origin; the packet is of one "
            f"certain kind; the size is at least a certain number ({_THRESHOLDS[0]} to {_THRESHOLDS[-1]}). "
            f"{several} The filter is the same in all rounds."
        )

    def draw(self, skills: Sequence[Filter], dice: Sequence[Dice]) -> Loads:
        """Draw packets that need every gate of the filter."""
        loads = [
            self._packets(own, skill, self.n_packets, is_transfer=False)
            for skill, own in zip(skills, dice, strict=True)
        ]
        gates = [[skill.gate(packet) for packet in load] for skill, load in zip(skills, loads, strict=True)]
        return Loads(np.array(loads, dtype=np.int64), np.array(gates, dtype=np.int64))

    def introduction(self, world: Loads) -> list[str]:
        """Return the packets, and what is told."""
        return [
            f"Deliver these {self.n_packets} packets, each through its gate, in any order. "
            + " ".join(f"{number}: {_description(packet)}." for number, packet in enumerate(load, 1))
            + " A move sends one packet through one gate. You are told whether it has arrived or come back."
            for load in world.packets.tolist()
        ]

    def start(self, world: Loads) -> Delivered:
        """Nothing is delivered."""
        return Delivered(np.zeros(world.gates.shape, dtype=np.bool_), np.zeros(len(world.gates)))

    def read(self, text: str) -> tuple[int, ...] | None:
        """Return the number of a packet, from 1, and the place of a gate in the alphabet, from 0."""
        if (found := whole_action(_DELIVERY, text)) is None:
            return None
        return int(found[1]), ord(found[2].upper()) - ord("A")

    def step(self, world: Loads, state: Delivered, actions: Ints, which: Bools) -> tuple[Delivered, Moved]:
        """Send one packet through one gate."""
        number, gate = actions.T
        is_packet, is_gate = (number >= 1) & (number <= self.n_packets), gate < self.n_gates
        lanes = np.arange(len(actions))
        packet = np.where(is_packet, number - 1, 0)
        is_here = ~state.packets[lanes, packet]
        is_legal = which & is_packet & is_gate & is_here
        arrives = is_legal & (world.gates[lanes, packet] == gate)
        packets = state.packets.copy()
        packets[lanes, packet] |= arrives
        n_arrived = packets.sum(axis=1)
        progress = carried(state.progress, n_arrived / self.n_packets, arrives)

        def tell(lane: int) -> str:
            if not is_packet[lane]:
                return f"The packets have the numbers 1 to {self.n_packets}. Nothing was sent."
            if not is_gate[lane]:
                return f"The gates are {listed(_GATES[: self.n_gates])}. Nothing was sent."
            if not is_here[lane]:
                return f"Packet {number[lane]} has arrived already. Nothing was sent."
            outcome = "has arrived" if arrives[lane] else "has come back"
            return (
                f"Packet {number[lane]}, sent through gate {_GATES[gate[lane]]}, {outcome}. "
                f"Arrived so far: {n_arrived[lane]} of {self.n_packets}."
            )

        is_solved = arrives & (n_arrived == self.n_packets)
        return Delivered(packets, progress), Moved(is_legal, is_solved, progress, told(which, tell))

    def best(self, world: Loads, state: Delivered, lanes: Sequence[int]) -> list[str]:
        """Return the delivery of the first packet that has not arrived."""
        first = state.packets.argmin(axis=1)
        return [f"{first[lane] + 1}>{_GATES[world.gates[lane, first[lane]]]}" for lane in lanes]

    def random(self, world: Loads, state: Delivered, lanes: Sequence[int], dice: Sequence[Dice]) -> list[str]:
        """Return any packet that has not arrived, through any gate."""
        gates = _GATES[: self.n_gates]
        return [
            f"{own.choice(np.flatnonzero(~state.packets[lane]).tolist()) + 1}>{own.choice(gates)}"
            for lane, own in zip(lanes, dice, strict=True)
        ]

    def n_best(self, world: Loads) -> Ints:
        """Return how many deliveries are needed: one per packet."""
        return np.full(len(world.gates), self.n_packets, dtype=np.int64)

    def transfer(self, skill: Filter, dice: Dice, n_questions: int) -> tuple[Question, ...]:
        """Ask for the gates of packets that were never sent."""
        seen: set[tuple[Packet, ...]] = set()

        def packets() -> list[Packet] | None:
            drawn = self._packets(dice, skill, _PACKETS_PER_QUESTION, is_transfer=True)
            if tuple(drawn) in seen:
                return None
            seen.add(tuple(drawn))
            return drawn

        return tuple(self._question(skill, self.until(packets)) for _ in range(n_questions))

    def transfer_introduction(self, skill: Filter) -> str:
        """Return what the questions ask for."""
        return (
            f"Each question has {_PACKETS_PER_QUESTION} new packets. Write the gates that the hidden filter "
            "decides for them, in the same order, separated by spaces, such as `B A C B`."
        )

    def _packets(self, dice: Dice, skill: Filter, n: int, *, is_transfer: bool) -> list[Packet]:
        """Return different packets, for one gate of the filter as often as for another."""
        by_gate = _by_gate(skill, is_transfer=is_transfer)

        def packets() -> list[Packet] | None:
            # in questions no gate is sure to occur: the last one would follow from the others
            gates = [] if is_transfer else list(skill.gates)
            gates += [dice.choice(skill.gates) for _ in range(n - len(gates))]
            drawn = [dice.choice(by_gate[gate]) for gate in dice.shuffled(gates)]
            return drawn if len(set(drawn)) == n and len(set(gates)) > 1 else None

        return self.until(packets)

    def _question(self, skill: Filter, packets: list[Packet]) -> Question:
        return Question(
            text="Gates of: " + "; ".join(_description(packet) for packet in packets),
            answer=" ".join(_GATES[skill.gate(packet)] for packet in packets),
            match_kind="sequence",
            guess=Guess(_GATES[: self.n_gates], len(packets), len(packets), " "),
            asked=tuple(packets),
        )


def _by_gate(skill: Filter, *, is_transfer: bool) -> dict[int, list[Packet]]:
    """Return the packets of each gate, of those for rounds or of those for transfer questions."""
    by_gate: dict[int, list[Packet]] = {gate: [] for gate in skill.gates}
    for packet in product(range(len(_ORIGINS)), range(len(_KINDS)), range(1, _LARGEST_SIZE + 1)):
        if is_kept_for_transfer(packet) == is_transfer:
            by_gate[skill.gate(packet)].append(packet)
    return by_gate


def _description(packet: Sequence[int]) -> str:
    origin, kind, size = packet
    return f"{_KINDS[kind]} from the {_ORIGINS[origin]}, size {size}"
