"""Mouselab planning: MetaGreedy predicts where a person looks next, and when they stop.

The policy, its likelihood and the fit of one person are those of :mod:`generate.agents.metagreedy`, whose
agent plays with such parameters. Here each person's parameters come from their trials in the other folds and
predict those of the fold that was left out, as in the authors' five-fold cross-validation: parameters are
never fitted to a trial that they predict, and never to another person's.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from generate.agents.metagreedy import (
    PARAMETERS,
    Parameters,
    action_probabilities,
    as_beliefs,
    as_decisions,
    maximum_likelihood,
    situations,
    trees,
    value_of_information,
)
from generate.contract import Estimate, Exposure, Fit, Floats, Training
from generate.environments.mouselab import MouselabTrees
from generate.references.decoding import require, with_facts
from store.errors import InvalidSource

_FACTS = pl.Struct({"branching": pl.List(pl.Int64)})


@dataclass(frozen=True, slots=True)
class People:
    """Whose parameters are known.

    Attributes
    ----------
    positions
        Place of each person's parameters, by person.
    parameters
        One set per person.
    """

    positions: Mapping[str, int]
    parameters: Parameters


class MetaGreedyPrediction(BaseModel):
    """One-step value of information with the parameters of the person who is predicted."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @property
    def exposure(self) -> Exposure:
        """Each fold is predicted from the others."""
        return "other_folds"

    def fit(self, training: Training) -> Estimate:
        """Return one parameter set per person, by maximum likelihood within bounds.

        Raises
        ------
        InvalidSource
            If the trees are not those of the schedule.
        """
        environment = trees()
        answered = training.trials.drop_nulls("response")
        decisions = as_decisions(_rows(answered, environment), environment)
        gains = value_of_information(environment, decisions.node_values)
        found: list[Floats] = []
        fits: list[Fit] = []
        for position, name in enumerate(decisions.participants):
            own = decisions.participant == position
            estimate = maximum_likelihood(
                situations(gains[own], decisions.legal[own], decisions.actions[own])
            )
            found.append(estimate.values)
            fits += estimate.fits(PARAMETERS, int(own.sum()), name)
        columns = np.array(found).reshape(len(found), len(PARAMETERS)).T
        positions = {name: position for position, name in enumerate(decisions.participants)}
        return Estimate(
            People(positions, Parameters(*columns)),
            tuple(fits),
            f"own trials in the other folds: {len(positions)} participants, {answered.height} decisions",
        )

    def predict(self, estimate: Estimate, trials: pl.DataFrame) -> pl.DataFrame:
        """Return the log-probability of stopping and of each look.

        Who has no trials in the other folds is not predicted.
        """
        environment, people = trees(), estimate.parameters
        known = trials.filter(pl.col("participant_id").is_in(list(people.positions)))
        node_values, legal = as_beliefs(_rows(known, environment), environment)
        who = np.array([people.positions[name] for name in known["participant_id"]], dtype=np.int64)
        gains = value_of_information(environment, node_values)
        probabilities = action_probabilities(gains, legal, people.parameters[who])
        return known.select("item_id").with_columns(
            logprobs_nats=_log_of_options(probabilities, known, environment)
        )


def _rows(trials: pl.DataFrame, environment: MouselabTrees) -> pa.Table:
    """Return the trials, all of them about trees of the schedule's shape."""
    shapes = with_facts(trials.select("item_id", "facts_json"), _FACTS)
    require(shapes, "branching")
    others = shapes.filter(pl.col("branching") != list(environment.branching))
    if others.height:
        raise InvalidSource(
            f"expected trees with the branching {list(environment.branching)}, found {others.height} "
            f"decisions about others, first {others['item_id'][0]}"
        )
    return trials.select("participant_id", "legal_options", "facts_json", "response").to_arrow()


def _log_of_options(probabilities: Floats, trials: pl.DataFrame, environment: MouselabTrees) -> pl.Series:
    """Return the logarithms of each row's legal options, in their order.

    Parameters
    ----------
    probabilities
        Rows x actions.
    """
    actions = pl.Enum(environment.actions)
    options = trials.select("legal_options").with_row_index("row").explode("legal_options")
    at = options["row"].to_numpy(), options["legal_options"].cast(actions).to_physical().to_numpy()
    logs = options.select("row", logprob=pl.Series(np.log(probabilities[at])))
    return logs.group_by("row", maintain_order=True).agg("logprob")["logprob"]
