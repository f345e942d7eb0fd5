"""Actions that are a word and a number, such as ``PRESS 3``."""

import re
from functools import cache

# no game numbers as much
_MOST_DIGITS = 3


def read_numbered(text: str, verb: str, thing: str) -> tuple[int, ...] | None:
    """Return the number of an action, or None where the text is none; either word may be left out."""
    if found := _pattern(verb, thing).fullmatch(text):
        return (int(found[1]),)
    return None


@cache
def _pattern(verb: str, thing: str) -> re.Pattern[str]:
    number = rf"(?:# *)?([0-9]{{1,{_MOST_DIGITS}}})"
    # without ASCII, digits and letters of other scripts would count as these
    return re.compile(rf"(?:{verb} *)?(?:{thing} *)?{number}\.?", re.ASCII | re.IGNORECASE)
