"""Which part of a response is graded: named rules, since the choice moves scores.

A rule is a pure function of the response, and its name is kept with every verdict. Once a verdict bears it, a
rule never changes: another reading is another name.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

_ANSWER = re.compile(r"<answer>((?:(?!<answer>).)*?)</answer>", re.DOTALL)


def raw(response: str) -> str:
    """Return the response as it is."""
    return response


def in_answer_tags(response: str) -> str:
    """Return what the last whole ``<answer>...</answer>`` holds, without the spaces around it.

    Of nested tags the innermost count. A response without such a pair is returned as it is, also one whose
    last tag was cut off.
    """
    found = _ANSWER.findall(response)
    return found[-1].strip() if found else response


def last_line(response: str) -> str:
    """Return the last line that is not blank, without the spaces around it; a blank response as it is.

    Lines end as :meth:`str.splitlines` says, so also at a form feed or a Unicode line separator.
    """
    lines = [line.strip() for line in response.splitlines() if line.strip()]
    return lines[-1] if lines else response


RULES: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {"raw-v1": raw, "answer-tags-v1": in_answer_tags, "last-line-v1": last_line}
)
"""Answer rules by the name that ``manifests/graders.toml`` and ``raw/verdicts`` use."""
