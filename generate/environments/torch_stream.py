"""The normal numbers that torch draws one at a time on a CPU, without torch.

``torch.manual_seed`` starts the same Mersenne Twister as NumPy's ``RandomState``. Drawn one at a time, a
normal number comes from the Box-Muller transform in double precision, whose second number is kept for the
next draw; only then is it rounded to single precision. Tensors of 16 and more numbers are drawn another way.
"""

import math

import numpy as np
from numpy.typing import NDArray

_MASK_53 = (1 << 53) - 1


def scalar_normals(seed: int, n: int) -> NDArray[np.float32]:
    """Return the first ``n`` standard normal numbers after ``torch.manual_seed(seed)``.

    Parameters
    ----------
    seed
        From 0 to 2**32 - 1.

    Notes
    -----
    Functions are those of :mod:`math`, which calls the C library as torch does: vectorised ones of NumPy may
    differ in the last bit from one processor to another.
    """
    n_pairs = (n + 1) // 2
    words = np.random.RandomState(seed).randint(0, 2**32, size=(n_pairs, 2, 2), dtype=np.uint32).tolist()
    numbers: list[float] = []
    for first, second in words:
        radius = math.sqrt(-2.0 * math.log1p(-_uniform(*second)))
        angle = 2.0 * math.pi * _uniform(*first)
        numbers += [radius * math.cos(angle), radius * math.sin(angle)]
    return np.array(numbers[:n], dtype=np.float32)


def _uniform(high: int, low: int) -> float:
    return (((high << 32) | low) & _MASK_53) * 2.0**-53
