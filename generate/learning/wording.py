"""Words as they stand in a sentence, for the texts of all families."""

from collections.abc import Iterable


def listed(words: Iterable[str], last: str = "and") -> str:
    """Return words as a list: ``a, b and c``."""
    *before, final = words
    return f"{', '.join(before)} {last} {final}" if before else final
