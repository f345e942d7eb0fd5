"""Q-learning with a softmax, its learning rate and inverse temperature chosen in training environments."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from generate.agents.value_learning import (
    InverseTemperatures,
    LearningRates,
    Parameters,
    ValueLearner,
    select,
)
from generate.contract import AnyEnvironment, Fitted


class QLearning(BaseModel):
    """The Q-learner that earns most, after Coda-Forno et al. (2024) and Ershadmanesh et al. (2023).

    Attributes
    ----------
    learning_rate, inverse_temperature
        The grid; values of arms are in units of ``reward_unit``.
    initial_value
        Of every arm.
    reward_unit
        Reward that counts as 1.
    selection_seed
        Of the draws in training, which all points of the grid share.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    learning_rate: LearningRates
    inverse_temperature: InverseTemperatures
    initial_value: float
    reward_unit: Annotated[float, Field(gt=0)]
    selection_seed: Annotated[int, Field(strict=True, ge=0)]

    def fit(self, environment: AnyEnvironment, training_seeds: Sequence[int]) -> Fitted:
        """Return the learner that earns most in the training environments."""
        grid = {"learning_rate": self.learning_rate, "inverse_temperature": self.inverse_temperature}

        def learner(parameters: Parameters) -> ValueLearner:
            rate = parameters["learning_rate"]
            return ValueLearner(
                learning_rate_positive=rate,
                learning_rate_negative=rate,
                inverse_temperature=parameters["inverse_temperature"],
                initial_value=np.full_like(rate, self.initial_value),
                n_arms=len(environment.actions),
                reward_unit=self.reward_unit,
            )

        selected = select(environment, training_seeds, grid, learner, self.selection_seed)
        return Fitted(learner(selected.parameters), fits=selected.fits, training_set=selected.training_set)
