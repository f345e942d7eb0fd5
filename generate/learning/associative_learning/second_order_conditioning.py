"""Second-order conditioning: a cue brings about the outcome through another, with which alone it was seen."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from pydantic import Field

from generate.contract import Ints
from generate.learning.associative_learning.asked import UNKNOWN, HowMany, Number, Setup, WhichOutcome
from generate.learning.associative_learning.causal_log import CausalLog, Plan
from generate.learning.dice import Dice
from generate.learning.wording import listed

_LOOSE, _BELL = 0, 1
_NOBODY = -1
# not BELL: the question names the bell, and would then be right as it stands
_RINGS = ("QUIET", "CHIME")
_GLOWS = ("DIM", "GLOW")
_N_SUBSETS = 6
_P_REMOVAL = 0.35
_P_LAMP = 0.5


class SecondOrderConditioning(CausalLog):
    """Relays that switch on one another or a bell, of which one thing was watched at a time.

    A role is what a relay drives: 0 nothing, 1 the bell, 2 + i the relay number i, later in the list. A
    trial is three numbers: the relay that is switched on, the one that is taken out or -1, and what is
    watched, the lamp of a relay or -1 for the bell.

    Attributes
    ----------
    is_exclusive
        Whether no two relays drive the same thing.
    n_chained
        Relays on the longest way to the bell, at least.
    """

    plural: ClassVar[str] = "relays"

    # the wirings grow as a factorial
    n_cues: int = Field(strict=True, ge=3, le=8)
    is_exclusive: bool
    n_chained: int = Field(strict=True, ge=2)

    def possible_worlds(self) -> Ints:
        """Return all wirings in which a relay drives at most one thing, the bell or a later relay."""
        targets = [(_LOOSE, _BELL, *range(2 + cue + 1, 2 + self.n_cues)) for cue in range(self.n_cues)]
        grids = np.meshgrid(*(np.array(one, dtype=np.int64) for one in targets), indexing="ij")
        worlds = np.stack([grid.ravel() for grid in grids], axis=1)
        if not self.is_exclusive:
            return worlds
        n_drivers = [(worlds == target).sum(axis=1) for target in range(_BELL, 2 + self.n_cues)]
        return np.asarray(worlds[np.max(n_drivers, axis=0) <= 1])

    def outcomes(self, worlds: Ints, setup: Setup) -> Ints:
        """Return 1 where what is watched is reached: the bell rings, or the lamp glows."""
        on, removed, watched = setup
        place = np.full(len(worlds), on)
        is_reached = place == watched
        rows = np.arange(len(worlds))
        for _ in range(self.n_cues):
            is_alive = (place >= 0) & (place != removed)
            if not is_alive.any():
                break
            target = np.where(is_alive, worlds[rows, place], _LOOSE)
            # what comes after the bell, or nothing, is nowhere
            place = np.where(target >= 2, target - 2, -2)
            is_reached |= (target == _BELL) if watched == _NOBODY else (place == watched) & (place != removed)
        return np.asarray(is_reached, dtype=np.int64)

    def plan(self, world: Ints, dice: Dice) -> Plan | None:
        """Return trials of single relays, and one that is asked about and in no log.

        It is whether the bell rings for a relay that drives it through others.
        """
        n_links = [self._n_links(world[0], cue) for cue in range(self.n_cues)]
        chained = [cue for cue in range(self.n_cues) if n_links[cue] >= self.n_chained]
        if not chained:
            return None
        due = WhichOutcome((dice.choice(chained), _NOBODY, _NOBODY), _RINGS)

        def further(more: Dice) -> Setup:
            while (setup := self._trial(more)) == due.setup:
                pass
            return setup

        return Plan((), further, due)

    def new_setup(self, dice: Dice) -> Setup:
        """Draw a trial that may be asked about."""
        return self._trial(dice)

    def counts(self, names: Sequence[str], dice: Dice) -> list[Number]:
        """Return questions for how many relays the bell rings."""
        asked: list[Number] = []
        for _ in range(_N_SUBSETS):
            parts = sorted(
                dice.sample(range(self.n_cues), dice.integer(max(3, self.n_cues - 2), self.n_cues))
            )
            of = tuple(WhichOutcome((part, _NOBODY, _NOBODY), _RINGS) for part in parts)
            asked += [HowMany(of, label) for label in (*_RINGS, UNKNOWN)]
        return asked

    def number_text(self, names: Sequence[str], asked: Number) -> str:
        """Return the question for how many relays the bell rings."""
        assert isinstance(asked, HowMany)
        among = listed([names[one.setup[0]] for one in asked.of if isinstance(one, WhichOutcome)])
        if asked.label == UNKNOWN:
            ends = f"is it {UNKNOWN} whether the bell rings"
        else:
            ends = f"is it certain that the bell {'rings' if asked.label == _RINGS[1] else 'stays quiet'}"
        return f"If one of {among} is switched on and none is taken out, for how many of them {ends}?"

    def situation(self, names: Sequence[str]) -> str:
        """Return what a reader is told first."""
        return (
            "Relays are wired to one another and to a bell, and the wires are hidden. In each trial one "
            "relay was switched on by hand, all others started off, and sometimes one relay was taken out "
            "before. One thing alone was watched: the bell, or the lamp of one relay; the rest went unseen. "
            f"The relays, in the order of their list, are {listed(names)}."
        )

    def rules(self, names: Sequence[str]) -> Sequence[str]:
        """Return the assumptions."""
        shared = (
            "No two relays drive the same thing."
            if self.is_exclusive
            else "Several relays may drive the same thing."
        )
        return (
            "Each relay drives at most one thing: the bell (BELL), or one relay that comes later in the "
            f"list. A relay that drives nothing is LOOSE. {shared} The wires are the same in every trial, "
            "and any wiring of this kind is possible.",
            "A relay that is switched on, by hand or by another relay, has a lamp that glows (GLOW) and "
            "switches on what it drives. All other lamps stay DIM.",
            "The bell rings (CHIME) if a relay that is on drives it; else it stays QUIET.",
            "A relay that is taken out is never on, its lamp stays DIM and it drives nothing in that trial.",
        )

    def trial_text(self, names: Sequence[str], setup: Setup) -> str:
        """Return what was done, and what was watched."""
        on, removed, watched = setup
        taken_out = f"{names[removed]} taken out, " if removed != _NOBODY else ""
        return f"{taken_out}{names[on]} switched on, {self._watched(names, watched)} watched"

    def role_labels(self, names: Sequence[str], part: int) -> tuple[str, ...]:
        """Return all that a relay may drive."""
        return ("LOOSE", "BELL", *names)

    def outcome_labels(self, setup: Setup) -> tuple[str, ...]:
        """Return what the bell or a lamp can do."""
        return _RINGS if setup[2] == _NOBODY else _GLOWS

    def role_text(self, names: Sequence[str], part: int) -> str:
        """Return the question what a relay drives."""
        return f"What does {names[part]} drive itself, not through another relay?"

    def outcome_text(self, names: Sequence[str], setup: Setup) -> str:
        """Return the question what the bell or a lamp does."""
        on, removed, watched = setup
        taken_out = f"{names[removed]} is taken out and " if removed != _NOBODY else ""
        return f"What does {self._watched(names, watched)} do when {taken_out}{names[on]} is switched on?"

    def _trial(self, dice: Dice) -> Setup:
        others = list(range(self.n_cues))
        on = dice.integer(0, self.n_cues - 1)
        others.remove(on)
        removed = _NOBODY
        if dice.chance(_P_REMOVAL):
            removed = dice.choice(others)
            others.remove(removed)
        later = [cue for cue in others if cue > on]
        watched = dice.choice(later) if later and dice.chance(_P_LAMP) else _NOBODY
        return (on, removed, watched)

    def _n_links(self, wiring: Ints, cue: int) -> int:
        """Return how many relays are on the way from one of them to the bell, itself included; else 0."""
        target = int(wiring[cue])
        if target < 2:
            return target
        further = self._n_links(wiring, target - 2)
        return further + 1 if further else 0

    def _watched(self, names: Sequence[str], watched: int) -> str:
        return "the bell" if watched == _NOBODY else f"the lamp of {names[watched]}"
