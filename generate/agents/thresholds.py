"""One fixed number of inflations per balloon letter.

Source: document 003, autonomous references, BART: thresholds are selected by mean reward on training
environments and frozen. The maxima are dealt to the letters anew in every run, so no threshold can fit a
letter's maximum.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import BaseModel, ConfigDict

from generate.contract import AnyEnvironment, Fit, Fitted, Ints, Lanes
from generate.environments.balloons import INFLATE, SKIP, Balloons, BalloonsSeen
from generate.streams import Streams
from store.errors import InvalidSource


@dataclass(frozen=True, slots=True)
class ThresholdPolicy:
    """Inflates a balloon until its letter's threshold is reached, and banks then.

    Attributes
    ----------
    thresholds
        Inflations per letter.
    """

    thresholds: Ints

    def start(self, lanes: Lanes) -> None:
        """Nothing is learned from one balloon to the next."""

    def act(self, memory: None, seen: BalloonsSeen, streams: Streams) -> tuple[None, Ints]:
        """Compare the balloon in front with the threshold of its letter."""
        return None, np.where(seen.pumps < self.thresholds[seen.letter], INFLATE, SKIP)


class FixedThreshold(BaseModel):
    """Thresholds that earn most on the training runs.

    A policy with threshold t earns t on a balloon that bursts later than at inflation t and 0 on any other.
    What every threshold would have earned therefore follows from where the training balloons burst, without
    playing them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def fit(self, environment: AnyEnvironment, training_seeds: Sequence[int]) -> Fitted:
        """Return the policy whose thresholds earn most; of those that earn the same, the smallest.

        Raises
        ------
        InvalidSource
            If the environment has no balloons, or there are no training runs.
        """
        if not isinstance(environment, Balloons):
            found = type(environment).__name__
            raise InvalidSource(f"fixed_threshold: expected an environment of Balloons, found {found}")
        if not training_seeds:
            raise InvalidSource("fixed_threshold: expected training_seeds of the schedule, found none")
        world = environment.draw(environment.episodes(training_seeds))
        candidates = np.arange(1, max(environment.maxima) + 1)
        thresholds, fits = [], []
        for letter, name in enumerate(environment.letters):
            bursts = np.sort(world.bursts[world.letters == letter])
            n_banked = bursts.size - np.searchsorted(bursts, candidates, side="right")
            # totals are whole numbers, so ties are exact
            best = int(candidates[(candidates * n_banked).argmax()])
            thresholds.append(best)
            fits.append(
                Fit(
                    parameter=f"threshold_{name}",
                    value=float(best),
                    is_at_bound=best in (candidates[0], candidates[-1]),
                    n_training=bursts.size,
                )
            )
        return Fitted(
            ThresholdPolicy(np.array(thresholds)),
            fits=tuple(fits),
            training_set=f"{len(training_seeds)} training runs of {environment.n_balloons} balloons",
        )
