"""Random numbers of a policy: one stream per episode, so that a batch of any size draws the same."""

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

_BLOCK = 256


class Streams:
    """Uniform numbers on [0, 1) for episodes played side by side.

    Raw 64-bit words of PCG64 are guaranteed to stay the same between versions of NumPy and machines, which
    its distributions are not; so a number is the upper 53 bits of a word.

    Parameters
    ----------
    keys
        One sequence of integers per episode, such as (agent seed, replica, episode seed). They are hashed, so
        that a policy cannot tell the seed of the episode from its stream, and with it all that will happen.
    """

    def __init__(self, keys: Iterable[Sequence[int]]) -> None:
        digests = [hashlib.sha256(repr(tuple(key)).encode()).digest() for key in keys]
        self._generators = [np.random.PCG64(int.from_bytes(digest)) for digest in digests]
        self._block = np.empty((len(self._generators), 0))
        self._n_used = 0

    def __len__(self) -> int:
        return len(self._generators)

    def uniform(self, n: int) -> NDArray[np.float64]:
        """Return the next ``n`` numbers of every episode: episodes x n."""
        if self._n_used + n > self._block.shape[1]:
            kept = self._block[:, self._n_used :]
            n_new = max(_BLOCK, n)
            words = np.empty((len(self), n_new), dtype=np.uint64)
            for row, generator in zip(words, self._generators, strict=True):
                row[:] = generator.random_raw(n_new)
            self._block = np.concatenate([kept, (words >> np.uint64(11)) * 2.0**-53], axis=1)
            self._n_used = 0
        self._n_used += n
        return self._block[:, self._n_used - n : self._n_used]


def choose(probabilities: NDArray[np.float64], uniform: NDArray[np.float64]) -> NDArray[np.int64]:
    """Draw one action per row of ``probabilities`` (episodes x actions) by inversion of ``uniform``.

    Rows need not add up to one; a row of zeros, which an episode that is over has, gives action 0.
    """
    cumulative = probabilities.cumsum(axis=1)
    total = cumulative[:, -1:]
    # a product that is rounded up to the total must not lead past the last action that can be drawn
    actions: NDArray[np.int64] = ((cumulative <= uniform[:, None] * total) & (cumulative < total)).sum(axis=1)
    return actions


def softmax(values: NDArray[np.float64], legal: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return probabilities proportional to ``exp(values)`` over the legal actions of each row."""
    top = np.where(legal, values, -np.inf).max(axis=1, keepdims=True, initial=-np.inf)
    # a row without a legal action, whose top is -inf, gets no probability
    shifted = np.where(legal, values - np.where(np.isfinite(top), top, 0.0), -np.inf)
    weights = np.exp(shifted)
    total = weights.sum(axis=1, keepdims=True)
    probabilities: NDArray[np.float64] = np.divide(
        weights, total, out=np.zeros_like(weights), where=total > 0
    )
    return probabilities
