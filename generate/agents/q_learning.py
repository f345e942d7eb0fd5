"""Q-learning with one learning rate and a softmax, its two parameters chosen in training environments.

After Coda-Forno et al. (2024) and the choice model of Ershadmanesh et al. (2023): both values start at 0.5,
rewards count in units of 100, Q(a) <- Q(a) + learning rate (reward - Q(a)).
"""

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict, Field

from generate.agents.value_learning import Axis, ValueLearner, select
from generate.contract import AnyEnvironment, Fitted, Floats


class QLearning(BaseModel):
    """Q-learners, one of which is selected by mean reward.

    Attributes
    ----------
    learning_rate, inverse_temperature
        The grid.
    initial_value
        Of every arm, in units of ``reward_unit``.
    reward_unit
        Reward that counts as 1.
    selection_seed
        Of the draws in training, which all parameter sets share.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    learning_rate: Axis
    inverse_temperature: Axis
    initial_value: float
    reward_unit: float = Field(gt=0)
    selection_seed: int = Field(strict=True, ge=0)

    def fit(self, environment: AnyEnvironment, training_seeds: Sequence[int]) -> Fitted:
        """Return the learner that earns most in the training environments."""
        grid = {"learning_rate": self.learning_rate, "inverse_temperature": self.inverse_temperature}
        n_arms = len(environment.actions)

        def learner(parameters: Mapping[str, Floats]) -> ValueLearner:
            return ValueLearner.with_one_rate(
                parameters["learning_rate"],
                parameters["inverse_temperature"],
                np.full_like(parameters["learning_rate"], self.initial_value),
                n_arms,
                self.reward_unit,
            )

        return select(environment, training_seeds, grid, learner, self.selection_seed)
