"""Screens of made-up programs as data, the one way in which they are told, and what acts on them."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

T = TypeVar("T")

_FIRST_ID, _LAST_ID = 10, 99
_LEFT, _COLUMN, _TOP, _ROW, _HEIGHT = 24, 312, 64, 40, 28


class Draws:
    """Chance that depends on a name alone: the same on every machine and in every version of Python."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._n_drawn = 0

    def below(self, n: int) -> int:
        """Return a number from 0 to ``n - 1``."""
        digest = hashlib.sha256(f"{self._name}#{self._n_drawn}".encode()).digest()
        self._n_drawn += 1
        # 2**256 possible values: what a remainder favours is too little to be seen
        return int.from_bytes(digest, "big") % n

    def between(self, low: int, high: int) -> int:
        """Return a number from ``low`` to ``high``, both included."""
        return low + self.below(high - low + 1)

    def pick(self, options: Sequence[T]) -> T:
        """Return one of the options."""
        return options[self.below(len(options))]

    def some(self, options: Iterable[T], n: int) -> list[T]:
        """Return ``n`` different ones of the options, in any order."""
        left = list(options)
        return [left.pop(self.below(len(left))) for _ in range(n)]

    def shuffled(self, options: Iterable[T]) -> list[T]:
        """Return all options, in any order."""
        everything = list(options)
        return self.some(everything, len(everything))


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where something is, in pixels from the left and upper edge of the page."""

    left: int
    top: int
    width: int
    height: int

    @property
    def bottom(self) -> int:
        """First pixel below."""
        return self.top + self.height

    def holds(self, x: int, y: int) -> bool:
        """Tell whether a point is inside."""
        return self.left <= x < self.left + self.width and self.top <= y < self.bottom


@dataclass(frozen=True, slots=True)
class Element:
    """One thing on a screen that can be read or used.

    Attributes
    ----------
    id
        Empty until the element is placed.
    group
        Title of the part of the window that it belongs to.
    value
        Text in it, or the option that is selected.
    is_ticked
        None for what cannot be ticked.
    keys
        Its keyboard shortcut.
    rule
        What its value has to be like.
    purpose
        What it does. No screen shows that: a person knows it from the label.
    """

    role: str
    label: str
    id: str = ""
    bounds: Bounds = Bounds(0, 0, 0, 0)
    group: str | None = None
    value: str | None = None
    options: tuple[str, ...] = ()
    is_ticked: bool | None = None
    is_required: bool = False
    is_enabled: bool = True
    keys: str | None = None
    rule: str | None = None
    purpose: str | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A table that a window shows."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | int, ...], ...]

    def column(self, name: str) -> int:
        """Return the place of a column."""
        return self.columns.index(name)


@dataclass(frozen=True, slots=True)
class Note:
    """A text on a screen: a message of somebody, an error, or what a dialog says."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class View:
    """Which part of a page is in view, in pixels from its upper edge."""

    top: int
    bottom: int
    page_height: int


@dataclass(frozen=True, slots=True)
class Screen:
    """What a screen shows. Elements stand in the order in which they are listed."""

    title: str
    elements: tuple[Element, ...] = ()
    table: Table | None = None
    notes: tuple[Note, ...] = ()
    address: str | None = None
    view: View | None = None
    is_busy: bool = False

    def the(self, is_meant: Callable[[Element], bool]) -> Element:
        """Return the one element that is meant."""
        (found,) = filter(is_meant, self.elements)
        return found

    def labelled(self, label: str) -> Element:
        """Return the one element that has a label."""
        return self.the(lambda element: element.label == label)


def render(screen: Screen) -> str:
    """Tell all that a screen shows."""
    lines = [f'Window "{screen.title}"' + (f" at {screen.address}" if screen.address else "")]
    if screen.view:
        view = screen.view
        lines.append(f"In view: {view.top} to {view.bottom} of {view.page_height} pixels from the upper edge")
    if screen.is_busy:
        lines.append("State: loading")
    lines += [f'{note.title}: "{note.text}"' for note in screen.notes]
    lines += [_told(element) for element in screen.elements]
    if screen.table:
        lines.append(f'Table "{screen.table.title}"')
        lines += [" | ".join(map(str, row)) for row in (screen.table.columns, *screen.table.rows)]
    return "\n".join(lines)


def _told(element: Element) -> str:
    bounds = element.bounds
    parts = [f'{element.id} {element.role} "{element.label}"']
    if element.group is not None:
        parts.append(f'in "{element.group}"')
    if element.value is not None:
        parts.append(f'= "{element.value}"')
    if element.options:
        parts.append("of " + "/".join(element.options))
    if element.is_ticked is not None:
        parts.append("ticked" if element.is_ticked else "not ticked")
    if element.is_required:
        parts.append("required")
    if not element.is_enabled:
        parts.append("disabled")
    if element.keys is not None:
        parts.append(f"keys {element.keys}")
    if element.rule is not None:
        parts.append(f"({element.rule})")
    parts.append(f"[{bounds.left},{bounds.top} {bounds.width}x{bounds.height}]")
    return " ".join(parts)


def place(draws: Draws, elements: Iterable[Element], *, n_columns: int = 1) -> tuple[Element, ...]:
    """Give elements an id and a place, row by row, and list them in any order."""
    unplaced = list(elements)
    numbers = draws.some(range(_FIRST_ID, _LAST_ID + 1), len(unplaced))
    left, top = _LEFT + 4 * draws.below(6), _TOP + 4 * draws.below(6)
    placed = [
        replace(
            element,
            id=f"e{number}",
            bounds=Bounds(
                left + _COLUMN * (nth % n_columns),
                top + _ROW * (nth // n_columns),
                40 + 8 * len(element.label),
                _HEIGHT,
            ),
        )
        for nth, (element, number) in enumerate(zip(unplaced, numbers, strict=True))
    ]
    return tuple(draws.shuffled(placed))


def is_as_wanted(element: Element, wanted: str | bool) -> bool:
    """Tell whether an element has a value, or is ticked or not."""
    return (element.is_ticked if isinstance(wanted, bool) else element.value) == wanted


def click(element: Element) -> str:
    """Return the action that clicks an element."""
    return f"click({element.id})"


def bring(element: Element, wanted: str | bool) -> str:
    """Return the one action that gives an element a value, or ticks it or not."""
    if isinstance(wanted, bool):
        return click(element)
    return f'{"select" if element.options else "type"}({element.id}, "{wanted}")'
