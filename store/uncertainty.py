"""What an export prints beside a value: its standard error, or its 95 % interval."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum


class Uncertainty(StrEnum):
    """What stands beside a value of an export."""

    SE = "se"
    CI = "ci"

    def headers(self, column: str) -> tuple[str, ...]:
        """Return the names of the columns that stand beside a column."""
        return (f"{column} SE",) if self is Uncertainty.SE else (f"{column} CI low", f"{column} CI high")


@dataclass(frozen=True, slots=True)
class Error:
    """How wide a value is, in its unit; null where there is no error."""

    se: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None

    def beside(
        self, what: Uncertainty, printed: Callable[[float | None], str | None], mark: str = ""
    ) -> tuple[str | None, ...]:
        """Return the cells beside a value, printed as it is; ``mark`` ends each that is not empty."""
        numbers = (self.se,) if what is Uncertainty.SE else (self.ci_low, self.ci_high)
        cells = [printed(number) for number in numbers]
        return tuple(None if cell is None else f"{cell}{mark}" for cell in cells)

    def rounded(self, what: Uncertainty, decimals: int, mark: str = "") -> tuple[str | None, ...]:
        """Return the cells beside a value that has so many decimals.

        The standard error has two significant digits; the ends of the interval have as many decimals as it,
        and no fewer than the value.
        """
        if self.se is None:
            return self.beside(what, lambda _: None)
        digits = max(0, 1 - int(f"{self.se:.1e}".partition("e")[2])) if self.se else decimals
        if what is Uncertainty.CI:
            digits = max(digits, decimals)
        return self.beside(what, lambda number: None if number is None else f"{number:.{digits}f}", mark)


def groups(starts: Iterable[int], width: int) -> tuple[tuple[int, ...], ...]:
    """Return the positions of values, each with what stands beside it; nothing if nothing does."""
    return tuple(tuple(range(start, start + width)) for start in starts) if width > 1 else ()
