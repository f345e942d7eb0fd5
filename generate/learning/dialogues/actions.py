"""How an action is found in a reply: the last line that is not empty, without what is put around it.

A word such as ``Action:`` before it and marks such as ``*`` or quotes around it are dropped; what is left is
the family's to read.
"""

import re
from collections.abc import Sequence

import numpy as np

from generate.contract import Bools, Ints
from generate.learning.contract import Play

_AROUND = " \t\r\n*_`\"'“”\u2018\u2019"
_PREFIX = re.compile(r"(?:my )?(?:next )?(?:action|move|guess|answer|probe|attempt) ?[:=]", re.IGNORECASE)

# what a line is read of at most: no action is as long
_LONGEST = 1000


def action_line(reply: str) -> str:
    """Return the line of a reply that is read as its action; empty if it has none."""
    text = reply.rstrip(_AROUND)
    line = text[max(text.rfind("\n"), text.rfind("\r")) + 1 :][: _LONGEST + 1].strip(_AROUND)
    if len(line) > _LONGEST:
        return ""
    if prefix := _PREFIX.match(line):
        line = line[prefix.end() :].strip(_AROUND)
    return line


def read_all(
    play: Play[object, object], replies: Sequence[str | None]
) -> tuple[Ints, Bools, list[str | None]]:
    """Return the actions of replies as rows of integers, which could be read, and their lines.

    Lanes without a reply, or without an action in it, have a row of zeros and no line.
    """
    lines = [None if reply is None else action_line(reply) for reply in replies]
    found = [play.read(line) if line else None for line in lines]
    width = max((len(action) for action in found if action is not None), default=1)
    actions = np.zeros((len(replies), width), dtype=np.int64)
    is_read = np.array([action is not None for action in found], dtype=np.bool_)
    for lane, action in enumerate(found):
        if action is not None:
            actions[lane, : len(action)] = action
    return (
        actions,
        is_read,
        [line if action is not None else None for line, action in zip(lines, found, strict=True)],
    )
