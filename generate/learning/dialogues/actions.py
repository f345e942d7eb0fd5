"""How an action is found in a reply: the last line that is not empty, without what is put around it.

Dropped are a mark of a list before it, words such as ``Action:``, and quotes, marks of mathematics and
markdown and a full stop around it; what is left is the family's to read.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from generate.contract import Bools
from generate.learning.contract import Moved, Play
from generate.learning.dialogues.contract import Outcome

_AROUND = " \t\r\n*_`$\"'“”\u2018\u2019"
_OF_A_LIST = re.compile(r"[-+•>] +")
_BEFORE = re.compile(
    r"(?:my |the )?(?:next |final )?(?:action|move|guess|answer|probe|attempt|choice)(?: is)? ?[:=]",
    re.IGNORECASE,
)
_BOXED = re.compile(r"\\boxed\{([^{}]*)\}")

# what a line is read of at most: no action is as long
_LONGEST = 1000


def action_line(reply: str) -> str:
    """Return the line of a reply that is read as its action; empty if it has none."""
    text = reply.rstrip(_AROUND)
    line = text[max(text.rfind("\n"), text.rfind("\r")) + 1 :][: _LONGEST + 1]
    if len(line) > _LONGEST:
        return ""
    for words in (_OF_A_LIST, _BEFORE):
        line = _bare(line)
        if found := words.match(line):
            line = line[found.end() :]
    line = _bare(line)
    boxed = _BOXED.fullmatch(line)
    return _bare(boxed[1]) if boxed else line


def _bare(line: str) -> str:
    """Return a line without marks around it and without a full stop at its end, be it inside or outside."""
    return line.strip(_AROUND).removesuffix(".").strip(_AROUND)


@dataclass(frozen=True, slots=True)
class Taken:
    """Actions that replies name, and what they led to, one entry per lane.

    Attributes
    ----------
    is_read
        Lanes whose reply names an action.
    lines
        The actions as text; None where there is none.
    moved
        What they led to; entries of lanes without an action have no meaning.
    """

    is_read: Bools
    lines: list[str | None]
    moved: Moved

    def outcome(self, lane: int) -> Outcome:
        """Return what the reply of a lane led to."""
        if not self.is_read[lane]:
            return "unread"
        if self.moved.is_solved[lane]:
            return "solved"
        return "moved" if self.moved.is_legal[lane] else "illegal"


def take(play: Play[Any, Any], world: object, state: Any, replies: Sequence[str | None]) -> tuple[Any, Taken]:  # noqa: ANN401
    """Read replies and take their actions; a lane without a reply, or an action in it, stays as it is."""
    n = len(replies)
    lines = [None if reply is None else action_line(reply) for reply in replies]
    found = [play.read(line) if line else None for line in lines]
    is_read = np.array([action is not None for action in found], dtype=np.bool_)
    named = [line if action is not None else None for line, action in zip(lines, found, strict=True)]
    moved = Moved(np.zeros(n, np.bool_), np.zeros(n, np.bool_), np.zeros(n), [""] * n)
    # how many integers an action has is the family's to know
    if width := max((len(action) for action in found if action is not None), default=0):
        actions = np.zeros((n, width), dtype=np.int64)
        for lane, action in enumerate(found):
            if action is not None:
                actions[lane, : len(action)] = action
        state, moved = play.step(world, state, actions, is_read)
    return state, Taken(is_read, named, moved)
