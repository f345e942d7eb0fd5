"""Questions about what a screen shows: the answer is a number, a word, a text, or one of some choices."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from generate.standins.screen_words import (
    BOXES,
    COLOURS,
    DAYS,
    FILES,
    GROUPS,
    LISTS,
    PEOPLE,
    PLACES,
    TEXTS,
    TOWNS,
    WINDOWS,
)
from generate.standins.screens import Bounds, Draws, Element, Note, Screen, Table, is_as_wanted, place


@dataclass(frozen=True, slots=True)
class Asked:
    """One question about one screen.

    Attributes
    ----------
    question
        What is wanted, in words, with all rules that decide the answer.
    answers
        Texts that are right, computed from the screen.
    choices
        All answers that may be given, where they are listed.
    """

    screen: Screen
    question: str
    answers: tuple[str, ...]
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Register:
    """What a table lists."""

    title: str
    names: tuple[str, Sequence[str]]
    sorts: tuple[str, Sequence[str]]
    numbers: tuple[tuple[str, range], tuple[str, range]]


_N_ROWS = 8
_REGISTERS = (
    _Register(
        "Orders",
        ("Customer", PEOPLE),
        ("Status", ("open", "paid", "late")),
        (("Amount", range(21, 490)), ("Items", range(2, 60))),
    ),
    _Register(
        "Files",
        ("File", FILES),
        ("Owner", ("Uma", "Viktor", "Wen")),
        (("Kilobytes", range(110, 980)), ("Pages", range(3, 80))),
    ),
    _Register(
        "Flights",
        ("Town", TOWNS),
        ("Gate", ("north", "south", "west")),
        (("Minutes", range(45, 600)), ("Seats", range(12, 99))),
    ),
    _Register(
        "Paints",
        ("Colour", COLOURS),
        ("Shelf", ("upper", "middle", "lower")),
        (("Grams", range(120, 890)), ("Tins", range(4, 70))),
    ),
)


def field_value(draws: Draws, n: int) -> Asked:
    """Read a field whose label is there twice, once in each of two groups."""
    groups = draws.some(GROUPS, 2)
    labels = draws.some(TEXTS, 4)
    elements = place(
        draws,
        [
            Element("textbox", label, group=group, value=value)
            for label in labels
            for group, value in zip(groups, draws.some(TEXTS[label], 2), strict=True)
        ],
        n_columns=2,
    )
    screen = Screen(draws.pick(WINDOWS), elements)
    group, label = groups[n % 2], draws.pick(labels)
    field = screen.the(lambda element: (element.group, element.label) == (group, label))
    return Asked(screen, f'What is in the field "{label}" of "{group}"?', (_value(field),))


def table_cell(draws: Draws, n: int) -> Asked:
    """Read one number of a table."""
    register, table = _table(draws, n)
    row, (column, _) = draws.pick(table.rows), draws.pick(register.numbers)
    return Asked(
        Screen(draws.pick(WINDOWS), table=table),
        f'What does the table show as "{column}" of {row[0]}?',
        (str(row[table.column(column)]),),
    )


def table_count(draws: Draws, n: int) -> Asked:
    """Count the rows that meet two conditions: from none to four."""
    n_wanted = n % 5
    sort, _, table = _table_with_five_alike(draws, n)
    column = table.columns[2]
    numbers = sorted((_number(row, 2) for row in table.rows if row[1] == sort), reverse=True)
    # a bound between two neighbours, or above all
    bound = draws.between(numbers[n_wanted] + 1, numbers[n_wanted - 1] if n_wanted else numbers[0] + 30)
    n_rows = sum(row[1] == sort and _number(row, 2) >= bound for row in table.rows)
    return Asked(
        Screen(draws.pick(WINDOWS), table=table),
        f'How many rows have "{sort}" as {table.columns[1]} and {bound} or more as {column}?',
        (str(n_rows),),
    )


def table_sum(draws: Draws, n: int) -> Asked:
    """Add up the numbers of some rows."""
    register, table = _table(draws, n)
    sort = draws.pick([sort for sort in register.sorts[1] if _n_alike(table, sort) > 1])
    column = register.numbers[1][0]
    total = sum(_number(row, table.column(column)) for row in table.rows if row[1] == sort)
    return Asked(
        Screen(draws.pick(WINDOWS), table=table),
        f'What is the sum of {column} over all rows with "{sort}" as {table.columns[1]}?',
        (str(total),),
    )


def row_filter(draws: Draws, n: int) -> Asked:
    """Find the row that meets two conditions, among rows that meet one."""
    while True:
        sort, others, table = _table_with_five_alike(draws, n)
        alike = sorted((row for row in table.rows if row[1] == sort), key=lambda row: _number(row, 2))
        highest, second = alike[-1], alike[-2]
        rival = max((row for row in table.rows if row[1] in others), key=lambda row: _number(row, 2))
        # it meets the bound too, or the bound alone would tell
        if _number(rival, 2) > _number(second, 2):
            break
    bound = draws.between(_number(second, 2) + 1, min(_number(highest, 2), _number(rival, 2)))
    found = [row for row in table.rows if row[1] == sort and _number(row, 2) >= bound]
    wrong = [*draws.some(alike[:-1], 2), rival]
    choices = _choices(draws, n, str(found[0][0]), [str(row[0]) for row in wrong])
    return Asked(
        Screen(draws.pick(WINDOWS), table=table),
        f'Which {table.columns[0].lower()} has "{sort}" as {table.columns[1]} and {bound} or more as '
        f"{table.columns[2]}?",
        tuple(str(row[0]) for row in found),
        choices,
    )


def after_sort(draws: Draws, n: int) -> Asked:
    """Say what is in a row once the table is sorted."""
    register, table = _table(draws, n)
    is_rising = n % 2 == 0
    column, _ = draws.pick(register.numbers)
    place_ = 2 + draws.below(_N_ROWS - 2)
    at = table.column(column)
    rows = sorted(table.rows, key=lambda row: _number(row, at), reverse=not is_rising)
    return Asked(
        Screen(draws.pick(WINDOWS), table=table),
        f'The table is sorted by "{column}" so that the {"smallest" if is_rising else "largest"} number '
        f"comes first. Which {table.columns[0].lower()} is then in row {place_}, counted from 1 and without "
        f"the column names?",
        (str(rows[place_ - 1][0]),),
    )


def copy_text(draws: Draws, _n: int) -> Asked:
    """Copy what one person wrote."""
    senders = draws.some(PEOPLE, 4)
    screen = Screen(
        draws.pick(WINDOWS), notes=tuple(Note(f"Message from {who}", _sentence(draws)) for who in senders)
    )
    who = draws.pick(senders)
    (text,) = (note.text for note in screen.notes if note.title == f"Message from {who}")
    return Asked(screen, f"Copy the message from {who}, without the quotation marks.", (text,))


def goal_reached(draws: Draws, n: int) -> Asked:
    """Say whether a screen shows that all of a goal is done: in one of two twins, one part is not."""
    texts, lists, boxes = draws.some(TEXTS, 2), draws.some(LISTS, 2), draws.some(BOXES, 3)
    wanted: dict[str, str | bool] = {label: draws.pick(TEXTS[label]) for label in texts}
    wanted |= {label: draws.pick(LISTS[label]) for label in lists}
    wanted |= {box: bool(draws.below(2)) for box in boxes}
    others = {label: draws.pick([o for o in TEXTS[label] if o != wanted[label]]) for label in texts}
    others |= {label: draws.pick([o for o in LISTS[label] if o != wanted[label]]) for label in lists}
    mistaken = draws.pick(list(wanted))
    shown = dict(wanted)
    if n % 2:
        shown[mistaken] = not shown[mistaken] if mistaken in boxes else others[mistaken]
    elements = [Element("textbox", label, value=str(shown[label])) for label in texts]
    elements += [Element("list", label, value=str(shown[label]), options=LISTS[label]) for label in lists]
    elements += [Element("checkbox", label, is_ticked=bool(shown[label])) for label in boxes]
    screen = Screen(draws.pick(WINDOWS), place(draws, draws.shuffled(elements), n_columns=2))
    is_reached = all(is_as_wanted(screen.labelled(label), value) for label, value in wanted.items())
    parts = draws.shuffled(_setting(label, value) for label, value in wanted.items())
    return Asked(
        screen,
        f"The goal is: {'; '.join(parts)}. Does the screen show that the whole goal is reached?",
        ("yes" if is_reached else "no",),
        ("yes", "no"),
    )


@dataclass(frozen=True, slots=True)
class _EntryRule:
    labels: tuple[str, ...]
    text: str
    accepts: Callable[[str], bool]
    good: Callable[[Draws], str]
    bad: Callable[[Draws], str]


_ENTRY_RULES = (
    _EntryRule(
        ("Postcode", "Customer number", "Door code"),
        "exactly 5 digits",
        lambda value: re.fullmatch(r"[0-9]{5}", value) is not None,
        lambda draws: str(draws.between(10_000, 99_999)),
        lambda draws: draws.pick([str(draws.between(1_000, 9_999)), str(draws.between(100_000, 999_999))]),
    ),
    _EntryRule(
        ("Guests", "Copies", "Nights"),
        "a number from 1 to 20",
        lambda value: value.isdecimal() and 1 <= int(value) <= 20,
        lambda draws: str(draws.between(1, 20)),
        lambda draws: str(draws.pick([0, draws.between(21, 60)])),
    ),
    _EntryRule(
        ("Arrival", "Birthday", "Due date"),
        "a day as YYYY-MM-DD",
        lambda value: re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value) is not None,
        lambda draws: f"20{draws.between(10, 29)}-{draws.between(10, 12)}-{draws.between(10, 28)}",
        lambda draws: f"{draws.between(10, 28)}-{draws.between(10, 12)}-20{draws.between(10, 29)}",
    ),
    _EntryRule(
        ("Mail", "Second mail", "Mail for bills"),
        "one @ and at least one point after it",
        lambda value: re.fullmatch(r"[^@]+@[^@]*\.[^@]*", value) is not None,
        lambda draws: f"{draws.pick(PEOPLE).lower()}@{draws.pick(FILES).split('.')[0]}.example",
        lambda draws: draws.pick(
            [
                f"{draws.pick(PEOPLE).lower()}.{draws.pick(FILES).split('.')[0]}.example",
                f"{draws.pick(PEOPLE).lower()}@{draws.pick(FILES).split('.')[0]}",
            ]
        ),
    ),
    _EntryRule(
        ("User name", "Nickname", "Team name"),
        "6 to 10 lower-case letters",
        lambda value: re.fullmatch(r"[a-z]{6,10}", value) is not None,
        lambda draws: draws.pick(PLACES).lower() + draws.pick(["fox", "owl", "elk"]),
        lambda draws: draws.pick([draws.pick(PLACES)[:4].lower(), draws.pick(PLACES) + "fox"]),
    ),
)


def invalid_field(draws: Draws, n: int) -> Asked:
    """Find the field that breaks its own rule."""
    rules = draws.some(_ENTRY_RULES, 4)
    wrong = n % 4
    fields = [
        Element(
            "textbox",
            draws.pick(rule.labels),
            value=rule.bad(draws) if nth == wrong else _good(rule, draws),
            rule=rule.text,
        )
        for nth, rule in enumerate(rules)
    ]
    screen = Screen(
        draws.pick(WINDOWS),
        place(draws, draws.shuffled(fields)),
        notes=(Note("Error", "Not saved: one field breaks its rule."),),
    )
    accepts = {rule.text: rule.accepts for rule in _ENTRY_RULES}
    (broken,) = (field.label for field in fields if not accepts[field.rule or ""](_value(field)))
    choices = _choices(draws, n, broken, [field.label for field in fields if field.label != broken])
    return Asked(screen, "Which field does the error mean?", (broken,), choices)


def after_actions(draws: Draws, n: int) -> Asked:
    """Count the ticked boxes after some clicks, of which those on a disabled box do nothing."""
    boxes = [
        Element("checkbox", label, is_ticked=bool(draws.below(2)), is_enabled=nth > 0)
        for nth, label in enumerate(draws.some(BOXES, 6))
    ]
    buttons = [Element("button", label) for label in _ALL_BOXES]
    screen = Screen(draws.pick(WINDOWS), place(draws, [*boxes, *buttons], n_columns=2))
    while True:
        clicked = [draws.pick(screen.elements) for _ in range(3)]
        # a button for all boxes comes first or second, so that it does not undo every click
        clicked.insert(draws.below(2), screen.labelled(draws.pick(list(_ALL_BOXES))))
        clicked.append(screen.labelled(boxes[draws.below(6)].label))
        n_ticked = sum(bool(element.is_ticked) for element in _clicked(screen, clicked).elements)
        # every count comes up alike, or whoever guesses the usual one is right too often
        if n_ticked == 1 + n % 5:
            break
    actions = ", ".join(f"click({element.id})" for element in clicked)
    return Asked(
        screen,
        f'A click on a box ticks it or takes the tick away; on a disabled box it does nothing. "{_TICK}" and '
        f'"{_UNTICK}" change all boxes that are not disabled. These actions are carried out, in this order: '
        f"{actions}. How many boxes are ticked then, disabled ones included?",
        (str(n_ticked),),
    )


def element_at_point(draws: Draws, _n: int) -> Asked:
    """Say which tile a point is in."""
    left, top = draws.between(10, 60), draws.between(40, 90)
    widths, heights = (
        [draws.between(90, 150) for _ in range(3)],
        [draws.between(60, 110) for _ in range(3)],
    )
    labels = draws.some(PLACES, 9)
    placed = place(draws, [Element("tile", label) for label in labels])
    tiles = tuple(
        replace(
            tile,
            bounds=Bounds(
                left + sum(widths[:column]) + 8 * column,
                top + sum(heights[:row]) + 8 * row,
                widths[column],
                heights[row],
            ),
        )
        for tile, (row, column) in ((tile, divmod(labels.index(tile.label), 3)) for tile in placed)
    )
    aim = draws.pick(tiles).bounds
    x, y = aim.left + draws.between(5, aim.width - 5), aim.top + draws.between(5, aim.height - 5)
    screen = Screen(draws.pick(WINDOWS), tiles)
    found = screen.the(lambda tile: tile.bounds.holds(x, y))
    return Asked(
        screen,
        f"The pointer is {x} pixels from the left and {y} pixels from the upper edge. What is the id of the "
        f"tile that it is on?",
        (found.id,),
    )


_TICK, _UNTICK = "Tick all", "Untick all"
_ALL_BOXES: Mapping[str, bool] = {_TICK: True, _UNTICK: False}


def _clicked(screen: Screen, clicked: Sequence[Element]) -> Screen:
    """Return what the screen shows after clicks on boxes and on the buttons for all boxes."""
    for target in clicked:
        screen = replace(screen, elements=tuple(_after_click(element, target) for element in screen.elements))
    return screen


def _after_click(element: Element, target: Element) -> Element:
    if element.is_ticked is None or not element.is_enabled:
        return element
    if target.label in _ALL_BOXES:
        return replace(element, is_ticked=_ALL_BOXES[target.label])
    return replace(element, is_ticked=not element.is_ticked) if element.id == target.id else element


def _choices(draws: Draws, n: int, right: str, wrong: Sequence[str]) -> tuple[str, ...]:
    """Return choices in any order, with the right one as often in each place."""
    choices = draws.shuffled(wrong)
    choices.insert(n % (len(wrong) + 1), right)
    return tuple(choices)


def _setting(label: str, wanted: str | bool) -> str:
    if isinstance(wanted, bool):
        return f'"{label}" is {"ticked" if wanted else "not ticked"}'
    return f'"{label}" is "{wanted}"'


def _good(rule: _EntryRule, draws: Draws) -> str:
    """Return an entry that keeps a rule."""
    while not rule.accepts(value := rule.good(draws)):
        pass
    return value


def _sentence(draws: Draws) -> str:
    code = f"{draws.pick('BCDFGHJK')}{draws.pick('LMNPQRST')}-{draws.between(1000, 9999)}"
    who, town, day = draws.pick(PEOPLE), draws.pick(TOWNS), draws.pick(DAYS)
    hour = f"{draws.between(7, 20)}:{draws.between(10, 59)}"
    number = draws.between(3, 89)
    return draws.pick(
        [
            f"Parcel {code} leaves {town} on {day} at {hour}; {who} has to sign for {number} boxes.",
            f"Please meet {who} in {town}, room {number}, on {day} at {hour}, and bring form {code}.",
            f"Ticket {code} is closed: {who} changed {number} parts in {town} on {day} before {hour}.",
            f"The train to {town} is late, so {who} starts on {day} at {hour} with page {number} of {code}.",
            f"{who} counted {number} chairs in {town}; the list {code} has to be there on {day} by {hour}.",
        ]
    )


def _table(draws: Draws, n: int, sorts: Sequence[str] | None = None) -> tuple[_Register, Table]:
    register = _REGISTERS[n % len(_REGISTERS)]
    columns = (register.names[0], register.sorts[0], *(name for name, _ in register.numbers))
    names = draws.some(register.names[1], _N_ROWS)
    sorts = sorts or [draws.pick(register.sorts[1]) for _ in range(_N_ROWS)]
    numbers = [draws.some(values, _N_ROWS) for _, values in register.numbers]
    return register, Table(register.title, columns, tuple(zip(names, sorts, *numbers, strict=True)))


def _table_with_five_alike(draws: Draws, n: int) -> tuple[str, list[str], Table]:
    """Return a table, the sort that five of its rows are of, and the sorts of the others."""
    register = _REGISTERS[n % len(_REGISTERS)]
    sort, *others = draws.shuffled(register.sorts[1])
    rest = [draws.pick(others) for _ in range(_N_ROWS - 5)]
    return sort, others, _table(draws, n, draws.shuffled([sort] * 5 + rest))[1]


def _n_alike(table: Table, sort: str) -> int:
    return sum(row[1] == sort for row in table.rows)


def _number(row: Sequence[str | int], at: int) -> int:
    number = row[at]
    assert isinstance(number, int)
    return number


def _value(element: Element) -> str:
    assert element.value is not None
    return element.value
