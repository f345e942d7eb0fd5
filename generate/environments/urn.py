"""Bayesian urn: tell from which of two urns a ball comes.

Source: Coda-Forno et al., CogBench, ``Experiments/ProbabilisticReasoning``, after Dasgupta et al. (2020). A
wheel of ten sections says how likely the left urn is; each urn holds ten balls, and what is red in one is
blue in the other. A ball is drawn; the report is the probability that the left urn was the one. Each run
has one question whose likelihood is informative and one whose prior is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from generate.contract import Episodes, ScheduledItem
from store.prompts import load_template

# sections of a wheel, or balls of a colour, out of ten
_N_PARTS = 10
_Tenths = Annotated[tuple[Annotated[int, Field(strict=True, ge=1, lt=_N_PARTS)], ...], Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class Urn:
    """One question, in tenths.

    Attributes
    ----------
    is_likelihood_informative
        Which of prior and likelihood is the informative one.
    prior
        Probability of the left urn.
    red
        Red balls in the left urn; the right urn has as many blue ones.
    is_red
        Colour of the ball that was drawn.
    """

    is_likelihood_informative: bool
    prior: int
    red: int
    is_red: bool

    @property
    def likelihood(self) -> int:
        """Balls of the drawn colour in the left urn."""
        return self.red if self.is_red else _N_PARTS - self.red

    @property
    def posterior(self) -> Fraction:
        """Probability that the ball came from the left urn."""
        left = self.prior * self.likelihood
        return Fraction(left, left + (_N_PARTS - self.prior) * (_N_PARTS - self.likelihood))


class Urns(BaseModel):
    """Questions about urns; no answer changes a later question.

    Attributes
    ----------
    informative_tenths
        Equally likely values, in tenths, of what is informative; a value may be there twice.
    uninformative_tenths
        The same of what is not.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    informative_tenths: _Tenths
    uninformative_tenths: _Tenths

    def episodes(self, seeds: Sequence[int]) -> Episodes:
        """Return one run per seed."""
        return Episodes(
            tuple(str(seed) for seed in seeds),
            np.array(seeds, dtype=np.int64),
            np.zeros(len(seeds), dtype=np.int64),
        )

    def draw(self, seed: int) -> tuple[Urn, Urn]:
        """Return the two questions of a run: first the one whose likelihood is informative."""
        uniform = np.random.RandomState(seed).random_sample(8).tolist()
        return self._urn(True, *uniform[:4]), self._urn(False, *uniform[4:])

    def items(self, episodes: Episodes) -> list[ScheduledItem]:
        """Return two items per run, each with its prompt and its exact posterior, rounded once."""
        template = load_template("bayesian_urn")
        return [
            ScheduledItem(
                item_id=f"{episode}/{question}",
                prompt=template.texts["prompt"].format_map(_places(urn)),
                template_id=template.id,
                template_sha256=template.sha256,
                support_low=0.0,
                support_high=1.0,
                target=float(urn.posterior),
                facts={
                    "prior": urn.prior / _N_PARTS,
                    "likelihood": urn.likelihood / _N_PARTS,
                    "is_likelihood_informative": urn.is_likelihood_informative,
                    "red_share_left": urn.red / _N_PARTS,
                    "red_share_right": (_N_PARTS - urn.red) / _N_PARTS,
                    "is_red": urn.is_red,
                },
            )
            for episode, seed in zip(episodes.ids, episodes.seeds.tolist(), strict=True)
            for question, urn in enumerate(self.draw(seed))
        ]

    def _urn(self, is_likelihood_informative: bool, *uniform: float) -> Urn:
        """Draw both shares, then which urn, then which ball."""
        informative = _drawn(self.informative_tenths, uniform[0])
        uninformative = _drawn(self.uninformative_tenths, uniform[1])
        red, prior = (
            (informative, uninformative) if is_likelihood_informative else (uninformative, informative)
        )
        is_left = int(uniform[2] * _N_PARTS) < prior
        is_red = int(uniform[3] * _N_PARTS) < (red if is_left else _N_PARTS - red)
        return Urn(is_likelihood_informative, prior, red, is_red)


def _places(urn: Urn) -> dict[str, int | str]:
    """Return what the places of the prompt hold: all that is visible."""
    return {
        "red_left": urn.red,
        "blue_left": _N_PARTS - urn.red,
        "red_right": _N_PARTS - urn.red,
        "blue_right": urn.red,
        "sections_left": urn.prior,
        "sections_right": _N_PARTS - urn.prior,
        "colour": "red" if urn.is_red else "blue",
    }


def _drawn(values: Sequence[int], uniform: float) -> int:
    return values[int(uniform * len(values))]
