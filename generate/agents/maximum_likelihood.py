"""Maximum likelihood within bounds, for objectives that evaluate many parameter vectors at once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.stats import qmc

from generate.contract import Bools, Fit, Floats

Objective = Callable[[Floats], Floats]
"""Negative log-likelihoods in nats (n) of parameter vectors (n x parameters)."""

# of the width of a parameter's range: for central differences, and to call an estimate one at its bound
_DIFFERENCE = 1e-5
_AT_BOUND = 1e-6


@dataclass(frozen=True, slots=True)
class Bounds:
    """Ranges of the parameters, in their order."""

    lower: Floats
    upper: Floats

    @property
    def width(self) -> Floats:
        """Size of each range."""
        return self.upper - self.lower

    def spread(self, n: int) -> Floats:
        """Return ``n`` points, a power of two, that fill the box evenly: n x parameters.

        They are the first points of an unscrambled Sobol sequence, always the same, moved off the lower
        bounds by half a cell.
        """
        points = qmc.Sobol(self.lower.size, scramble=False).random_base2(n.bit_length() - 1)
        scaled: Floats = self.lower + (points + 0.5 / n) * self.width
        return scaled


@dataclass(frozen=True, slots=True)
class Estimate:
    """Where the negative log-likelihood is least.

    Attributes
    ----------
    values
        One per parameter.
    is_at_bound
        Whether each lies at an end of its range.
    negative_log_likelihood
        In nats, summed over all choices.
    is_converged
        Whether the descent that ended there stopped by its own criterion; None where that is not known.
    n_converged
        Descents, from all starts, that stopped by their own criterion.
    """

    values: Floats
    is_at_bound: Bools
    negative_log_likelihood: float
    is_converged: bool | None = None
    n_converged: int | None = None

    def fits(self, names: Sequence[str], n_training: int, participant_id: str | None = None) -> list[Fit]:
        """Return one fit per parameter, and ``negative_log_likelihood`` in nats after them."""
        fits = [
            Fit(
                name,
                float(value),
                participant_id,
                is_at_bound=bool(is_at_bound),
                n_training=n_training,
                is_converged=self.is_converged,
            )
            for name, value, is_at_bound in zip(names, self.values, self.is_at_bound, strict=True)
        ]
        loss = self.negative_log_likelihood
        return [*fits, Fit("negative_log_likelihood", loss, participant_id, n_training=n_training)]


def estimate_parameters(objective: Objective, bounds: Bounds, starts: Floats) -> Estimate:
    """Descend from every start with L-BFGS-B, and return the best end.

    Nothing in it is drawn, so the same objective gives the same estimate.

    Parameters
    ----------
    objective
        Finite everywhere within the bounds.
    starts
        Parameter vectors within the bounds: starts x parameters.
    """

    def value_and_slope(values: Floats) -> tuple[float, Floats]:
        steps = np.diag(_DIFFERENCE * bounds.width)
        # a difference that would leave the range is taken up to the bound
        above = np.minimum(values + steps, bounds.upper)
        below = np.maximum(values - steps, bounds.lower)
        found = objective(np.concatenate([values[None], above, below]))
        n = values.size
        return float(found[0]), (found[1 : n + 1] - found[n + 1 :]) / np.diagonal(above - below)

    box = list(zip(bounds.lower, bounds.upper, strict=True))
    ends = [minimize(value_and_slope, start, jac=True, method="L-BFGS-B", bounds=box) for start in starts]
    best = min(ends, key=lambda end: float(end.fun))
    distance = np.minimum(best.x - bounds.lower, bounds.upper - best.x)
    return Estimate(
        best.x,
        distance <= _AT_BOUND * bounds.width,
        float(best.fun),
        is_converged=bool(best.success),
        n_converged=sum(bool(end.success) for end in ends),
    )


def diverse_starts(objective: Objective, bounds: Bounds, candidates: Floats, halved: Sequence[int]) -> Floats:
    """Return the best candidate in each part of the box.

    The best candidates overall lie close together, and descents from there may all end in one minimum.

    Parameters
    ----------
    candidates
        Parameter vectors within the bounds: candidates x parameters.
    halved
        Positions of the parameters whose ranges are cut in half: k of them make 2^k parts.
    """
    middle = (bounds.lower + bounds.upper) / 2
    parts = (candidates > middle)[:, halved] @ (1 << np.arange(len(halved)))
    order = np.argsort(objective(candidates), kind="stable")
    _, first = np.unique(parts[order], return_index=True)
    return candidates[order[first]]
