"""Read which option a text names: the one rule by which a model's written action is taken.

Answers to questions are read by the same rule, written once more in SQL.

1. Spaces, tabs and line ends around the text are dropped. If it is then an option, letter by letter, that
   option is read.
2. Otherwise an option is read if it alone occurs in the text as a whole word, with the same capitals.
3. If none does, capitals are ignored, and again the option is read that alone occurs.
4. A text that names none, or several, is not read: nobody guesses which was meant.

An option occurs as a whole word where neither a letter, a digit nor an underscore stands directly before or
after it. An option that begins or ends with a digit is no part of a longer number either: it does not occur
behind a point or comma that follows a digit, behind a sign that follows no word, or before a point or comma
that a digit follows. So ``2`` occurs in ``option 2.`` and in ``2, please``, and not in ``12``, ``1.2``,
``2.5`` or ``-2``.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

_AROUND = " \t\r\n"


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read of a text: an option, or the reason why there is none."""

    option: str | None
    reason: str | None = None


def read(text: str, legal: Sequence[str]) -> Reading:
    """Return the option that a text names, or why it names none.

    Parameters
    ----------
    legal
        Options that may be named; no two are the same, and none is empty.
    """
    trimmed = text.strip(_AROUND)
    if trimmed in legal:
        return Reading(trimmed)
    for flags in (re.NOFLAG, re.IGNORECASE):
        named = [option for option in legal if _whole_word(option, flags).search(trimmed)]
        if len(named) == 1:
            return Reading(named[0])
        if named:
            return Reading(None, f"expected one of {', '.join(legal)}, found several: {', '.join(named)}")
    return Reading(None, f"expected one of {', '.join(legal)}, found none of them")


def read_option(text: str, legal: Sequence[str]) -> str | None:
    """Return the option that a text names; None if it names none or several."""
    return read(text, legal).option


@lru_cache(maxsize=1024)
def _whole_word(option: str, flags: re.RegexFlag) -> re.Pattern[str]:
    """Return a pattern that is found wherever an option occurs as a whole word."""
    before, after = r"(?<!\w)", r"(?!\w)"
    if option[0].isdecimal():
        before += r"(?<!\d[.,])(?<!^[-+])(?<![^\w][-+])"
    if option[-1].isdecimal():
        after += r"(?![.,]\d)"
    return re.compile(f"{before}{re.escape(option)}{after}", flags)
