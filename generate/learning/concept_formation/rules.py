"""Tables of yes-or-no rules, rules by inputs, and what is made of them."""

from collections.abc import Iterable

import numpy as np

from generate.contract import Bools, Ints


def stacked(rules: Iterable[Bools]) -> Bools:
    """Return one table of single rules."""
    return np.stack(list(rules))


def compared(values: Ints, limits: Iterable[int]) -> Bools:
    """Return, for each limit, the rules that a value is at least, and at most, the limit."""
    return stacked(rule for limit in limits for rule in (values >= limit, values <= limit))


def equal(values: Ints, targets: Iterable[int]) -> Bools:
    """Return, for each target, the rule that a value is the target."""
    return stacked(values == target for target in targets)


def remainders(values: Ints, divisors: Iterable[int]) -> Bools:
    """Return, for each divisor and remainder, the rule that a value leaves this remainder."""
    return stacked(values % divisor == remainder for divisor in divisors for remainder in range(divisor))


def with_opposites(table: Bools) -> Bools:
    """Return the rules, then the opposite of each."""
    return np.concatenate([table, ~table])


def both(one: Bools, other: Bools) -> Bools:
    """Return every rule of one table joined with every rule of the other by "and"."""
    return (one[:, None] & other[None]).reshape(-1, one.shape[1])


def either(one: Bools, other: Bools) -> Bools:
    """Return every rule of one table joined with every rule of the other by "or"."""
    return (one[:, None] | other[None]).reshape(-1, one.shape[1])


def exactly_one(one: Bools, other: Bools) -> Bools:
    """Return every rule of one table joined with every rule of the other by "exactly one of the two"."""
    return (one[:, None] ^ other[None]).reshape(-1, one.shape[1])


def both_of_pairs(table: Bools) -> Bools:
    """Return every two rules of a table joined by "and"."""
    one, other = _pairs(table)
    return table[one] & table[other]


def either_of_pairs(table: Bools) -> Bools:
    """Return every two rules of a table joined by "or"."""
    one, other = _pairs(table)
    return table[one] | table[other]


def column(values: Iterable[int]) -> Ints:
    """Return a quantity of the inputs, one entry per input."""
    return np.fromiter(values, dtype=np.int64)


def _pairs(table: Bools) -> tuple[Ints, Ints]:
    one, other = np.triu_indices(len(table), 1)
    return one.astype(np.int64), other.astype(np.int64)
