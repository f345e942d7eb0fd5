"""Which questions are asked: a mixture of kinds, in which no answer stands out."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from generate.learning.associative_learning.asked import UNKNOWN, Asked
from generate.learning.dice import Dice


@dataclass(frozen=True, slots=True)
class Candidate:
    """A question that may be asked.

    Attributes
    ----------
    answer
        The right answer.
    is_deep
        Whether a reader gets it wrong who never combines two trials.
    is_due
        Whether it is asked in any case.
    """

    asked: Asked
    answer: str
    is_deep: bool
    is_due: bool


def shared_out(n: int, shares: Sequence[int]) -> list[int]:
    """Return ``n`` as a sum in the proportion of some shares; what is left over goes to the first of them."""
    parts = [n * share // sum(shares) for share in shares]
    for place in range(n - sum(parts)):
        parts[place % len(parts)] += 1
    return parts


def balanced(candidates: Iterable[Candidate], n: int, dice: Dice) -> list[Candidate]:
    """Return ``n`` candidates, or all if there are fewer, with every right answer as often as the others.

    What is due comes first, and then, of candidates with the same answer, what takes several trials at once.
    """
    by_answer: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        by_answer[candidate.answer].append(candidate)
    columns = [
        sorted(dice.shuffled(by_answer[answer]), key=lambda one: (not one.is_due, not one.is_deep))
        for answer in dice.shuffled(sorted(by_answer))
    ]
    columns.sort(key=lambda column: not column[0].is_due)
    rounds = zip_longest(*columns)
    return [one for one_round in rounds for one in one_round if one is not None][:n]


def is_varied(answers: Collection[str]) -> bool:
    """Return whether UNKNOWN is among some different answers, and at least two other words."""
    return UNKNOWN in answers and len(answers) > 2


def is_fair(answers: Iterable[str], n_questions: int) -> bool:
    """Return whether UNKNOWN is right somewhere, and no word in more than half of all the questions."""
    counts = Counter(answers)
    return counts[UNKNOWN] > 0 and 2 * max(counts.values()) <= n_questions
