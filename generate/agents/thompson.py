"""Thompson sampling with conjugate posteriors: beta for rewards of 0 or 1, normal-inverse-gamma for others.

Every arm has a posterior of its own rewards alone. A step draws one mean from each and takes the arm with
the highest (Thompson, 1933; Chapelle & Li, 2011).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from scipy.special import gammaincinv, ndtri

from generate.contract import AnyEnvironment, Bools, Fitted, Floats, Ints, Lanes
from generate.environments.arms import ArmsSeen
from generate.environments.stationary import StationaryBandits
from generate.streams import Streams
from store.errors import InvalidSource

_N_UNIFORMS = (
    4  # of one arm: two for each gamma variate, of which a probability takes two and a normal mean one
)

_Positive = Annotated[float, Field(gt=0)]
_AtLeastOne = Annotated[float, Field(ge=1)]


def gamma(shape: Floats, first: Floats, second: Floats) -> Floats:
    """Turn two uniform numbers into one draw of the gamma distribution with scale 1.

    The method of Marsaglia & Tsang (2000) accepts over 95 of 100 proposals and would need new numbers for
    each of the others. Instead, what remains of the second number after a rejection, which is again uniform
    and independent of the proposal, is put through the inverse distribution function: the draw is exact,
    and every draw takes the same numbers from its stream.

    Parameters
    ----------
    shape
        At least 1.
    first, second
        Uniform on [0, 1).
    """
    d = shape - 1 / 3
    normal = ndtri(first)
    cube = (1 + normal / (3 * np.sqrt(d))) ** 3
    is_positive = cube > 0
    log_cube = np.log(cube, out=np.zeros_like(cube), where=is_positive)
    log_ratio = np.where(is_positive, normal**2 / 2 + d * (1 - cube + log_cube), -np.inf)
    accepted = np.exp(np.minimum(log_ratio, 0.0))
    draws: Floats = d * cube
    (rejected,) = np.nonzero(second >= accepted)
    rest = (second[rejected] - accepted[rejected]) / (1 - accepted[rejected])
    draws[rejected] = gammaincinv(shape[rejected], rest)
    return draws


@dataclass(frozen=True, slots=True)
class Posteriors:
    """What is known of each arm: episodes x arms.

    Attributes
    ----------
    n_pulls
        How often it was chosen.
    total
        Sum of its rewards.
    deviation
        Half the squared deviations of its rewards from what was expected of each, as the rate of a
        normal-inverse-gamma posterior adds them up.
    is_binary
        Episodes whose rewards are 0 or 1.
    """

    n_pulls: Floats
    total: Floats
    deviation: Floats
    is_binary: Bools


@dataclass(frozen=True, slots=True)
class ThompsonPolicy:
    """Draws a mean of each arm from its posterior and takes the arm with the highest.

    Attributes
    ----------
    is_binary
        Whether rewards are 0 or 1, for each slot of the schedule.
    n_arms
        How many arms there are at most.
    beta
        Prior successes and failures, each at least 1.
    normal_inverse_gamma
        Prior mean, the number of rewards that it is worth, and shape (at least 1) and rate of the precision.
    """

    is_binary: Bools
    n_arms: int
    beta: tuple[float, float]
    normal_inverse_gamma: tuple[float, float, float, float]

    def start(self, lanes: Lanes) -> Posteriors:
        """Know of no reward."""
        nothing = np.zeros((len(lanes), self.n_arms))
        return Posteriors(nothing, nothing, nothing, self.is_binary[lanes.slots])

    def act(self, memory: Posteriors, seen: ArmsSeen, streams: Streams) -> tuple[Posteriors, Ints]:
        """Count the last reward, and choose by one draw per arm."""
        memory = self._updated(memory, seen)
        n_episodes = len(seen.legal)
        uniform = streams.uniform(self.n_arms * _N_UNIFORMS).reshape(n_episodes, self.n_arms, _N_UNIFORMS)
        means = np.full(seen.legal.shape, -np.inf)
        for is_kind, drawn in (
            (memory.is_binary, self._probabilities),
            (~memory.is_binary, self._normal_means),
        ):
            arms = seen.legal & is_kind[:, None]
            means[arms] = drawn(
                memory.n_pulls[arms], memory.total[arms], memory.deviation[arms], uniform[arms].T
            )
        return memory, means.argmax(axis=1)

    def _updated(self, memory: Posteriors, seen: ArmsSeen) -> Posteriors:
        rows = np.flatnonzero(seen.last_action >= 0)
        arm = rows, seen.last_action[rows]
        reward = seen.last_reward[rows]
        n_pulls, total, deviation = memory.n_pulls.copy(), memory.total.copy(), memory.deviation.copy()
        mean, weight = self._expected(n_pulls[arm], total[arm])
        deviation[arm] += weight / (weight + 1) * (reward - mean) ** 2 / 2
        n_pulls[arm] += 1
        total[arm] += reward
        return Posteriors(n_pulls, total, deviation, memory.is_binary)

    def _expected(self, n_pulls: Floats, total: Floats) -> tuple[Floats, Floats]:
        """Return the mean of the normal-inverse-gamma posterior, and the number of rewards it is worth."""
        prior_mean, prior_weight, _, _ = self.normal_inverse_gamma
        weight = prior_weight + n_pulls
        return (prior_weight * prior_mean + total) / weight, weight

    def _probabilities(self, n_pulls: Floats, total: Floats, _: Floats, uniform: Floats) -> Floats:
        """Draw from the beta posteriors."""
        successes = gamma(self.beta[0] + total, uniform[0], uniform[1])
        failures = gamma(self.beta[1] + n_pulls - total, uniform[2], uniform[3])
        return successes / (successes + failures)

    def _normal_means(self, n_pulls: Floats, total: Floats, deviation: Floats, uniform: Floats) -> Floats:
        """Draw a precision from its gamma posterior, and then a mean from the normal one."""
        _, _, prior_shape, prior_rate = self.normal_inverse_gamma
        mean, weight = self._expected(n_pulls, total)
        precision = gamma(prior_shape + n_pulls / 2, uniform[0], uniform[1]) / (prior_rate + deviation)
        means: Floats = mean + ndtri(uniform[2]) / np.sqrt(precision * weight)
        return means


class Thompson(BaseModel):
    """Thompson sampling in conditions that pay 0 or 1, and in conditions with normal rewards.

    Attributes
    ----------
    beta
        Prior successes and failures of an arm that pays 0 or 1.
    normal_inverse_gamma
        Prior of an arm with normal rewards: mean, the number of rewards that it is worth, and shape and rate
        of the precision.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    beta: tuple[_AtLeastOne, _AtLeastOne]
    normal_inverse_gamma: tuple[float, _Positive, _AtLeastOne, _Positive]

    def fit(self, environment: AnyEnvironment, training_seeds: Sequence[int]) -> Fitted:
        """Return the policy, which is told the kind of reward of each condition; nothing is fitted.

        Raises
        ------
        InvalidSource
            If the environment has no conditions that declare their kind of reward.
        """
        if not isinstance(environment, StationaryBandits):
            raise InvalidSource(
                f"expected conditions that declare their rewards, found {type(environment).__name__}"
            )
        is_binary = np.array([condition.rewards == "bernoulli" for condition in environment.conditions])
        return Fitted(
            ThompsonPolicy(is_binary, len(environment.actions), self.beta, self.normal_inverse_gamma)
        )
