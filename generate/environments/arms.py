"""What every bandit shows: the arms, and what the last one paid."""

from dataclasses import dataclass

from generate.contract import Floats, Ints, Observation


@dataclass(frozen=True, slots=True)
class ArmsSeen(Observation):
    """A choice between arms.

    Attributes
    ----------
    trial
        Number of the trial, from 0.
    context
        Which set of arms is in front: casino of the instrumental task; 0 where there is only one.
    last_action, last_context
        Arm chosen last, and the context it was in; -1 before the first choice.
    last_reward
        What it paid, as shown; NaN before the first choice.
    """

    trial: Ints
    context: Ints
    last_action: Ints
    last_context: Ints
    last_reward: Floats
