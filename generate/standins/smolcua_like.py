"""Small questions about using a computer, made by this project: a stand-in for SmolCUA.

A screen is told line by line, and one question is asked about it. What is right follows from the screen by
the rule of the kind of question: nothing is written down by hand. Three passes of 400 questions each have the
same kinds, each as often, and so the same weight; no question is there twice.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from generate.standins import screen_acting, screen_reading, screen_words, screens
from generate.standins.screen_acting import DOWN, REFUSE, UP, WAIT
from generate.standins.screen_reading import Asked
from generate.standins.screens import Draws, render

REVISION = "2"
# what decides the rows: the revision under which they are pinned has its hash
SOURCES = tuple(
    Path(file)
    for file in (
        __file__,
        screen_acting.__file__,
        screen_reading.__file__,
        screen_words.__file__,
        screens.__file__,
    )
)

N_PASSES = 3
N_PER_KIND = 20
_SEED = "smolcua_like 0"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of question.

    Attributes
    ----------
    format
        How an answer is matched.
    weight
        1: the answer stands in one place of the screen, which the question names. 2: two or more places have
        to be put together, or one rule applied. 3: several steps have to be carried through, or a mistake
        does harm.
    make
        Makes the n-th question, counted from 0 over all passes.
    n_twins
        Questions in a row that are drawn alike and differ in what decides the answer.
    """

    name: str
    format: str
    weight: int
    make: Callable[[Draws, int], Asked]
    n_twins: int = 1


KINDS = (
    Kind("click_target", "action", 1, screen_acting.click_target),
    Kind("similar_labels", "action", 2, screen_acting.similar_labels),
    Kind("button_of_row", "action", 2, screen_acting.button_of_row),
    Kind("disabled_control", "action", 2, screen_acting.disabled_control, n_twins=2),
    Kind("next_of_plan", "action", 2, screen_acting.next_of_plan),
    Kind("in_view", "action", 2, screen_acting.in_view, n_twins=4),
    Kind("shortcut", "action", 1, screen_acting.shortcut),
    Kind("unsafe_step", "action", 3, screen_acting.unsafe_step, n_twins=2),
    Kind("form_steps", "steps", 3, screen_acting.form_steps),
    Kind("field_value", "word", 1, screen_reading.field_value),
    Kind("table_cell", "integer", 1, screen_reading.table_cell),
    Kind("table_count", "integer", 2, screen_reading.table_count),
    Kind("table_sum", "integer", 3, screen_reading.table_sum),
    Kind("after_sort", "word", 2, screen_reading.after_sort),
    Kind("row_filter", "choice", 2, screen_reading.row_filter),
    Kind("goal_reached", "choice", 2, screen_reading.goal_reached, n_twins=2),
    Kind("invalid_field", "choice", 2, screen_reading.invalid_field),
    Kind("after_actions", "integer", 3, screen_reading.after_actions),
    Kind("element_at_point", "word", 2, screen_reading.element_at_point),
    Kind("copy_text", "text", 1, screen_reading.copy_text),
)

_INTRODUCTION = (
    "A program controls a computer for a user. The screen is told below, one thing per line and in no "
    "particular order. A line that begins with an id ends with a place: left edge, upper edge, width and "
    "height in pixels."
)
_ACTIONS = (
    f'click(e0), type(e0, "text"), select(e0, "option"), press(keys), {UP}, {DOWN}, {WAIT} and {REFUSE}, '
    f"where e0 stands for an id"
)
_HOW_TO_ANSWER: Mapping[str, str] = MappingProxyType(
    {
        "action": f"Actions are {_ACTIONS}. Reply with one action on one line and nothing else.",
        "steps": f"Actions are {_ACTIONS}. Reply with one action per line, in order, and nothing else.",
        "integer": "Reply with one whole number in digits and nothing else.",
        "word": "Reply with it alone, on one line, exactly as the screen shows it.",
        "text": "Reply with the text alone.",
        "choice": "Reply with one of these, exactly as written, and nothing else: ",
    }
)


def rows() -> list[dict[str, object]]:
    """Return all questions in the order of the file.

    Within a pass every block of as many questions as there are kinds has one of each, so that the first ones
    are a fair sample.

    Returns
    -------
    list of dict
        Keys ``id``, ``pass``, ``kind``, ``format``, ``prompt``, ``answers``, ``choices`` (None but for the
        format ``choice``) and ``weight``.
    """
    found = []
    for pass_ in range(1, N_PASSES + 1):
        # twins and runs of like answers are taken apart
        places = {
            kind.name: Draws(f"{_SEED} order {pass_} {kind.name}").shuffled(range(N_PER_KIND))
            for kind in KINDS
        }
        asked = [
            (kind, (pass_ - 1) * N_PER_KIND + places[kind.name][block])
            for block in range(N_PER_KIND)
            for kind in Draws(f"{_SEED} block {pass_} {block}").shuffled(KINDS)
        ]
        found += [_row(pass_, nth, kind, n) for nth, (kind, n) in enumerate(asked, start=1)]
    return found


def _row(pass_: int, nth: int, kind: Kind, n: int) -> dict[str, object]:
    asked = kind.make(Draws(f"{_SEED} {kind.name} {n // kind.n_twins}"), n)
    how = _HOW_TO_ANSWER[kind.format] + "; ".join(asked.choices)
    return {
        "id": f"p{pass_}-{nth:03}",
        "pass": pass_,
        "kind": kind.name,
        "format": kind.format,
        "prompt": f"{_INTRODUCTION}\n\n{render(asked.screen)}\n\n{asked.question}\n{how}\nAnswer:",
        "answers": list(asked.answers),
        "choices": list(asked.choices) or None,
        "weight": kind.weight,
    }
