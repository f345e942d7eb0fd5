"""``marc_like``: 320 small grid puzzles, a stand-in for MARC: 4 families x 4 levels x 20.

A prompt shows grids before and after one rule, and then one more grid before it. What comes after is the
answer: the rule computes it as it computed what was shown. Cells are the letter of a colour, ``.`` (nothing)
or ``#`` (a wall, which never moves).

Each level of a family is harder by construction: the grids are larger, there are more rules to tell the
right one from (:func:`n_rules`), and the rule has more to it.

========  =========================================================================================
turn      0: the grid is turned or mirrored; 1: and then shifted, wrapping round; 2: and then two
          colours are exchanged; 3: all this inside the outermost ring only
recolour  0: a table says what becomes of each of three colours; 1: of five; 2: of four, one table for
          places such as odd rows and one for the others; 3: of five, one table for cells beside some
          colour and one for the others
fall      0: everything slides to one side; 1: one colour does, and all else is in its way; 2: everything
          slides to one side and then to another, between walls; 3: one colour slides to one side and
          then another colour to another, between walls
pick      0: the shape of one colour is cut out; 1: the shape with most cells, the topmost and so on;
          2: and then turned or mirrored; 3: and then painted as another shape, found in such a way
========  =========================================================================================

The demonstrations settle the answer: of all rules of all families and levels, those that explain every
demonstration agree on it. No rule of a lower level of the family explains the demonstrations, and the rule
without one of its parts gives another answer. No answer is the puzzle's input, one of its demonstrations or
the answer of another puzzle.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from itertools import combinations, permutations, product
from math import perm
from random import Random
from typing import Any, Protocol

REVISION = "1"
SEED = "0"
N_LEVELS = 4
N_PER_LEVEL = 20

COLOURS = "RGBYPWC"
NOTHING, WALL = ".", "#"
# stands in an answer where a rule that explains the demonstrations says nothing
_UNKNOWN = "?"

_HEAD = "Every output grid is made from its input grid by the same rule.\n\n"

Grid = tuple[str, ...]
Pair = tuple[Grid, Grid]


class Rule(Protocol):
    """One way to make a grid from a grid."""

    def __call__(self, grid: Grid) -> Grid | None:
        """Return the grid that is made; None if the rule means nothing for ``grid``."""

    def simpler(self) -> Iterator["Rule"]:
        """Return the rules that lack one part of this one."""


@dataclass(frozen=True, slots=True)
class Level:
    """Rows (and columns) of an input grid, colours in a puzzle, and demonstrations."""

    size: int
    n_colours: int
    n_demonstrations: int


@dataclass(frozen=True, slots=True)
class Family:
    """Puzzles of one kind.

    Attributes
    ----------
    draw_rule, draw_input
        Take chance, the level and the puzzle's colours.
    fitting
        Takes a level and pairs; the rules of this and lower levels that explain all of them.
    n_rules
        How many rules of this and lower levels there are, in the colours of a puzzle of this level.
    """

    levels: tuple[Level, ...]
    draw_rule: Callable[[Random, int, str], Rule]
    draw_input: Callable[[Random, int, str], Grid]
    fitting: Callable[[int, Sequence[Pair]], Iterator[Rule]]
    n_rules: Callable[[int], int]


def _grid(cells: Sequence[Sequence[str]]) -> Grid:
    return tuple("".join(row) for row in cells)


def _colours_in(grid: Sequence[str]) -> str:
    found = {cell for row in grid for cell in row}
    return "".join(colour for colour in COLOURS if colour in found)


def _sprinkled(rng: Random, size: int, symbols: str) -> Grid:
    return tuple("".join(rng.choice(symbols) for _ in range(size)) for _ in range(size))


def _is_same_size(one: Grid, other: Grid) -> bool:
    return len(one) == len(other) and len(one[0]) == len(other[0])


# ---- turn: the grid as a whole ----


def _transposed(grid: Grid) -> Grid:
    return _grid(list(zip(*grid, strict=True)))


def _mirrored(grid: Grid) -> Grid:
    return tuple(row[::-1] for row in grid)


def _flipped(grid: Grid) -> Grid:
    return grid[::-1]


# what is done in turn; the first does nothing, the last one is the other diagonal
_TURNS: tuple[tuple[Callable[[Grid], Grid], ...], ...] = (
    (),
    (_mirrored,),
    (_flipped,),
    (_mirrored, _flipped),
    (_transposed,),
    (_transposed, _mirrored),
    (_transposed, _flipped),
    (_transposed, _mirrored, _flipped),
)
_SHIFTS = ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0))


def _turned(grid: Grid, turn: int) -> Grid:
    for part in _TURNS[turn]:
        grid = part(grid)
    return grid


@dataclass(frozen=True, slots=True)
class Turn:
    """Turn a grid, shift it, exchange two colours; perhaps only inside its outermost ring."""

    turn: int
    shift: int = 0
    exchanged: str = ""
    is_inside: bool = False

    def __call__(self, grid: Grid) -> Grid | None:
        """Return the grid that is made; None if it is too small to have an inside."""
        if self.is_inside:
            if len(grid) < len("a.a") or len(grid[0]) < len("a.a"):
                return None
            inside = replace(self, is_inside=False)(tuple(row[1:-1] for row in grid[1:-1]))
            if inside is None or len(inside) != len(grid) - 2:
                return None
            middle = (f"{row[0]}{new}{row[-1]}" for row, new in zip(grid[1:-1], inside, strict=True))
            return (grid[0], *middle, grid[-1])
        grid = _turned(grid, self.turn)
        down, right = _SHIFTS[self.shift]
        grid = tuple(row[-right:] + row[:-right] for row in grid[-down:] + grid[:-down])
        if self.exchanged:
            table = str.maketrans(self.exchanged, self.exchanged[::-1])
            grid = tuple(row.translate(table) for row in grid)
        return grid

    def simpler(self) -> Iterator[Rule]:
        """Return the rules that lack one part of this one."""
        yield replace(self, turn=0)
        if self.shift:
            yield replace(self, shift=0)
        if self.exchanged:
            yield replace(self, exchanged="")
        if self.is_inside:
            yield replace(self, is_inside=False)


def _turn_rules(level: int, colours: str) -> Iterator[Rule]:
    turns = range(len(_TURNS))
    shifts = range(len(_SHIFTS)) if level >= 1 else (0,)
    exchanges = ("", *map("".join, combinations(colours, 2))) if level >= 2 else ("",)
    insides = (False, True) if level >= 3 else (False,)
    return (Turn(*parts) for parts in product(turns, shifts, exchanges, insides))


def _draw_turn(rng: Random, level: int, colours: str) -> Rule:
    return Turn(
        rng.randrange(1, len(_TURNS)),
        rng.randrange(1, len(_SHIFTS)) if level >= 1 else 0,
        "".join(rng.sample(colours, 2)) if level >= 2 else "",
        level >= 3,
    )


# ---- recolour: each cell by itself ----

Place = Callable[[Grid, int, int], bool]


def _is_edge(grid: Grid, row: int, column: int) -> bool:
    return row in (0, len(grid) - 1) or column in (0, len(grid[0]) - 1)


_PLACES: Mapping[str, Place] = {
    "everywhere": lambda grid, row, column: False,
    "odd rows": lambda grid, row, column: row % 2 == 1,
    "odd columns": lambda grid, row, column: column % 2 == 1,
    "chessboard": lambda grid, row, column: (row + column) % 2 == 1,
    "edge": _is_edge,
}


def _is_beside(colour: str, grid: Grid, row: int, column: int) -> bool:
    return any(
        0 <= r < len(grid) and 0 <= c < len(grid[0]) and grid[r][c] == colour
        for r, c in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1))
    )


def _kinds(where: str, grid: Grid) -> Iterator[tuple[bool, str]]:
    """Return for each cell whether it is one of the places and its colour; ``where`` may be a colour."""
    for row, cells in enumerate(grid):
        for column, cell in enumerate(cells):
            if where in _PLACES:
                yield _PLACES[where](grid, row, column), cell
            else:
                yield _is_beside(where, grid, row, column), cell


@dataclass(frozen=True, slots=True)
class Recolour:
    """Look each cell up in one of two tables: for the places that ``where`` names, or for the others.

    ``where`` is a key of ``_PLACES``, or a colour: cells beside a cell of this colour.
    """

    where: str
    table: Mapping[tuple[bool, str], str]

    def __call__(self, grid: Grid) -> Grid | None:
        """Return the grid that is made, with ``_UNKNOWN`` where the table has no entry."""
        cells = [self.table.get(kind, _UNKNOWN) for kind in _kinds(self.where, grid)]
        width = len(grid[0])
        return _grid([cells[start : start + width] for start in range(0, len(cells), width)])

    def simpler(self) -> Iterator[Rule]:
        """Return the rules that lack one part of this one."""
        if self.where != "everywhere":
            for part in (False, True):
                one = {colour: after for (is_place, colour), after in self.table.items() if is_place == part}
                yield Recolour("everywhere", {(False, colour): after for colour, after in one.items()})


def _wheres(level: int, colours: str) -> tuple[str, ...]:
    if level < 2:
        return ("everywhere",)
    return (*_PLACES, *colours) if level >= 3 else tuple(_PLACES)


def _fitting_recolour(level: int, pairs: Sequence[Pair]) -> Iterator[Rule]:
    colours = "".join(sorted({cell for before, _ in pairs for row in before for cell in row}))
    if not all(_is_same_size(before, after) for before, after in pairs):
        return
    if level == 0 and len(colours) > _RECOLOUR[0].n_colours:
        return
    for where in _wheres(level, colours):
        table: dict[tuple[bool, str], str] = {}
        if all(
            table.setdefault(kind, cell) == cell
            for before, after in pairs
            for kind, cell in zip(_kinds(where, before), "".join(after), strict=True)
        ):
            yield Recolour(where, table)


def _n_recolour(level: int) -> int:
    n_colours = _RECOLOUR[level].n_colours
    n_tables = perm(len(COLOURS), n_colours)
    # one table everywhere, and two that differ for the places
    return n_tables + (len(_wheres(level, "x" * n_colours)) - 1) * n_tables * (n_tables - 1)


def _draw_table(rng: Random, colours: str) -> Mapping[str, str]:
    while True:
        after = rng.sample(COLOURS, len(colours))
        if all(old != new for old, new in zip(colours, after, strict=True)):
            return dict(zip(colours, after, strict=True))


def _draw_recolour(rng: Random, level: int, colours: str) -> Rule:
    first, second = _draw_table(rng, colours), _draw_table(rng, colours)
    where = "everywhere"
    if level == 2:
        where = rng.choice([place for place in _PLACES if place != "everywhere"])
    if level == 3:
        where = rng.choice(colours)
    table = {(False, colour): after for colour, after in first.items()}
    return Recolour(where, table | {(True, colour): after for colour, after in second.items()})


# ---- fall: what is loose slides ----

_DIRECTIONS = ((-1, 0), (1, 0), (0, -1), (0, 1))


@lru_cache(maxsize=4096)
def _slid(grid: Grid, movers: str, direction: tuple[int, int]) -> Grid:
    """Let the cells of these colours slide until something is in their way; ``movers`` empty: all colours."""
    down, right = direction
    cells = [list(row) for row in grid]
    places = [(row, column) for row in range(len(grid)) for column in range(len(grid[0]))]
    # who is in front goes first
    for start in sorted(places, key=lambda place: -(place[0] * down + place[1] * right)):
        row, column = start
        colour = cells[row][column]
        if colour in (NOTHING, WALL) or (movers and colour not in movers):
            continue
        cells[row][column] = NOTHING
        while (
            0 <= row + down < len(cells)
            and 0 <= column + right < len(cells[0])
            and cells[row + down][column + right] == NOTHING
        ):
            row, column = row + down, column + right
        cells[row][column] = colour
    return _grid(cells)


@dataclass(frozen=True, slots=True)
class Fall:
    """Slide colours (empty: all) in a direction, one move after the other."""

    moves: tuple[tuple[str, int], ...]

    def __call__(self, grid: Grid) -> Grid | None:
        """Return the grid after all moves."""
        for movers, direction in self.moves:
            grid = _slid(grid, movers, _DIRECTIONS[direction])
        return grid

    def simpler(self) -> Iterator[Rule]:
        """Return the rules that lack one part of this one."""
        if len(self.moves) > 1:
            yield from (Fall((move,)) for move in self.moves)


def _fall_rules(level: int, colours: str) -> Iterator[Rule]:
    sides = range(len(_DIRECTIONS))
    alone = [("", side) for side in sides]
    if level >= 1:
        alone += [(colour, side) for colour in colours for side in sides]
    yield from (Fall((move,)) for move in alone)
    if level >= 2:
        together = alone if level >= 3 else [("", side) for side in sides]
        yield from (Fall(moves) for moves in permutations(together, 2))


def _draw_fall(rng: Random, level: int, colours: str) -> Rule:
    if level < 2:
        return Fall(((rng.choice(colours) if level else "", rng.randrange(len(_DIRECTIONS))),))
    movers = ["", ""] if level == 2 else rng.sample(colours, 2)
    # up and down, then left and right, or the other way round
    first = rng.randrange(len(_DIRECTIONS))
    second = (2 if first < 2 else 0) + rng.randrange(2)
    return Fall(((movers[0], first), (movers[1], second)))


def _draw_loose(rng: Random, level: int, colours: str) -> Grid:
    size = _FALL[level].size
    walls = WALL if level >= 2 else ""
    return _sprinkled(rng, size, NOTHING * (len(colours) + 1) + colours + walls)


# ---- pick: shapes ----


_OUTLINE = "x"


def _outlines() -> Mapping[tuple[int, int], tuple[Grid, ...]]:
    """Return all connected shapes that reach each side of a box, by rows and columns of the box."""
    found = {}
    for rows, columns in product((2, 3), repeat=2):
        lines = ["".join(cells) for cells in product((NOTHING, _OUTLINE), repeat=columns)]
        found[rows, columns] = tuple(box for box in product(lines, repeat=rows) if _is_whole(box))
    return found


def _is_whole(box: Grid) -> bool:
    cells = {(r, c) for r, row in enumerate(box) for c, cell in enumerate(row) if cell == _OUTLINE}
    reached: set[tuple[int, int]] = set()
    ahead = set(sorted(cells)[:1])
    while ahead:
        reached |= ahead
        ahead = {(r + down, c + right) for r, c in ahead for down, right in _DIRECTIONS} & cells - reached
    sides = (box[0], box[-1], _transposed(box)[0], _transposed(box)[-1])
    return reached == cells and all(_OUTLINE in side for side in sides)


@dataclass(frozen=True, slots=True)
class Shape:
    """All cells of a colour, and where the first and last row and column of their box are."""

    colour: str
    box: Grid
    top: int
    bottom: int
    left: int
    right: int

    @property
    def n_cells(self) -> int:
        """Cells of the colour."""
        return sum(row.count(self.colour) for row in self.box)

    def touches(self, other: "Shape") -> bool:
        """Return whether there is no free row or column between the two boxes."""
        return (
            self.top <= other.bottom + 1
            and other.top <= self.bottom + 1
            and self.left <= other.right + 1
            and other.left <= self.right + 1
        )


@lru_cache(maxsize=256)
def _shapes_in(grid: Grid) -> tuple[Shape, ...]:
    shapes = []
    for colour in _colours_in(grid):
        rows = [row for row, cells in enumerate(grid) if colour in cells]
        columns = [column for column, cells in enumerate(zip(*grid, strict=True)) if colour in cells]
        box = tuple(
            "".join(cell if cell == colour else NOTHING for cell in grid[row][columns[0] : columns[-1] + 1])
            for row in range(rows[0], rows[-1] + 1)
        )
        shapes.append(Shape(colour, box, rows[0], rows[-1], columns[0], columns[-1]))
    return tuple(shapes)


# which shape is meant: the one for which this is lowest
_RELATIONS: Mapping[str, Callable[[Shape], int]] = {
    "most cells": lambda shape: -shape.n_cells,
    "fewest cells": lambda shape: shape.n_cells,
    "top": lambda shape: shape.top,
    "bottom": lambda shape: -shape.bottom,
    "left": lambda shape: shape.left,
    "right": lambda shape: -shape.right,
}


def _picked(shapes: Sequence[Shape], which: str) -> Shape | None:
    if which in _RELATIONS:
        return min(shapes, key=_RELATIONS[which], default=None)
    return next((shape for shape in shapes if shape.colour == which), None)


@dataclass(frozen=True, slots=True)
class Pick:
    """Cut one shape out, turn it, and give it the colour of the shape that ``painted_as`` names."""

    which: str
    turn: int = 0
    painted_as: str = ""

    def __call__(self, grid: Grid) -> Grid | None:
        """Return the shape that is meant; None if the grid has no such shape."""
        shapes = _shapes_in(grid)
        shape = _picked(shapes, self.which)
        model = _picked(shapes, self.painted_as or self.which)
        if shape is None or model is None:
            return None
        return tuple(row.replace(shape.colour, model.colour) for row in _turned(shape.box, self.turn))

    def simpler(self) -> Iterator[Rule]:
        """Return the rules that lack one part of this one."""
        if self.turn:
            yield replace(self, turn=0)
        if self.painted_as:
            yield replace(self, painted_as="")


def _pick_rules(level: int, colours: str) -> Iterator[Rule]:
    relations = tuple(_RELATIONS)
    which = (*colours, *relations) if level >= 1 else tuple(colours)
    turns = range(len(_TURNS)) if level >= 2 else (0,)
    painted = ("", *relations) if level >= 3 else ("",)
    return (Pick(*parts) for parts in product(which, turns, painted) if parts[0] != parts[2])


def _draw_pick(rng: Random, level: int, colours: str) -> Rule:
    which, painted_as = rng.sample(tuple(_RELATIONS), 2)
    return Pick(
        which if level >= 1 else rng.choice(colours),
        rng.randrange(1, len(_TURNS)) if level >= 2 else 0,
        painted_as if level >= 3 else "",
    )


def _draw_shapes(rng: Random, level: int, colours: str) -> Grid:
    size = _PICK[level].size
    while True:
        shapes: list[Shape] = []
        for colour in colours:
            rows, columns = rng.choice((2, 3)), rng.choice((2, 3))
            outline = rng.choice(_OUTLINES[rows, columns])
            top, left = rng.randrange(size - rows + 1), rng.randrange(size - columns + 1)
            box = tuple(row.replace(_OUTLINE, colour) for row in outline)
            shape = Shape(colour, box, top, top + rows - 1, left, left + columns - 1)
            if any(map(shape.touches, shapes)):
                break
            shapes.append(shape)
        else:
            if all(_has_one_lowest(list(map(measure, shapes))) for measure in _RELATIONS.values()):
                return _drawn(shapes, size)


def _has_one_lowest(values: Sequence[int]) -> bool:
    return values.count(min(values)) == 1


def _is_one_shape(_: Grid, after: Grid) -> bool:
    return len(_colours_in(after)) == 1


def _drawn(shapes: Sequence[Shape], size: int) -> Grid:
    cells = [[NOTHING] * size for _ in range(size)]
    for shape in shapes:
        for row, line in enumerate(shape.box, start=shape.top):
            cells[row][shape.left : shape.right + 1] = line
    return _grid(cells)


# ---- puzzles ----

_TURN = (Level(3, 3, 3), Level(4, 4, 3), Level(5, 4, 4), Level(7, 5, 4))
_RECOLOUR = (Level(3, 3, 3), Level(4, 5, 3), Level(5, 4, 4), Level(6, 5, 4))
_FALL = (Level(4, 2, 3), Level(5, 3, 3), Level(6, 3, 4), Level(7, 4, 4))
_PICK = (Level(6, 2, 3), Level(7, 3, 4), Level(8, 3, 4), Level(9, 4, 4))
_OUTLINES = _outlines()


def _listed(
    levels: tuple[Level, ...],
    rules: Callable[[int, str], Iterator[Rule]],
    could_be: Callable[[Grid, Grid], bool],
) -> tuple[Callable[[int, Sequence[Pair]], Iterator[Rule]], Callable[[int], int]]:
    """Return ``fitting`` and ``n_rules`` of a family whose rules can be listed.

    ``could_be`` tells quickly of a pair that no rule of the family explains it.
    """

    def fitting(level: int, pairs: Sequence[Pair]) -> Iterator[Rule]:
        if all(could_be(before, after) for before, after in pairs):
            colours = _colours_in([row for before, _ in pairs for row in before])
            for rule in rules(level, colours):
                if all(rule(before) == after for before, after in pairs):
                    yield rule

    def n_rules(level: int) -> int:
        return sum(1 for _ in rules(level, COLOURS[: levels[level].n_colours]))

    return fitting, n_rules


FAMILIES: Mapping[str, Family] = {
    "turn": Family(
        _TURN,
        _draw_turn,
        lambda rng, level, colours: _sprinkled(rng, _TURN[level].size, NOTHING + colours),
        *_listed(_TURN, _turn_rules, _is_same_size),
    ),
    "recolour": Family(
        _RECOLOUR,
        _draw_recolour,
        lambda rng, level, colours: _sprinkled(rng, _RECOLOUR[level].size, colours),
        _fitting_recolour,
        _n_recolour,
    ),
    "fall": Family(_FALL, _draw_fall, _draw_loose, *_listed(_FALL, _fall_rules, _is_same_size)),
    "pick": Family(_PICK, _draw_pick, _draw_shapes, *_listed(_PICK, _pick_rules, _is_one_shape)),
}


def n_rules(family: str, level: int) -> int:
    """Return how many rules of this and lower levels a puzzle's rule has to be told from."""
    return FAMILIES[family].n_rules(level)


def rows() -> list[dict[str, Any]]:
    """Return the puzzles: ``id``, ``family``, ``level``, ``prompt`` and ``answer``.

    Families and levels take turns, so that the first rows of the file are of all kinds.
    """
    found = []
    answers: set[Grid] = set()
    for index, level, name in product(range(N_PER_LEVEL), range(N_LEVELS), FAMILIES):
        *demonstrations, (before, after) = _draw_puzzle(name, level, index, answers)
        answers.add(after)
        found.append(
            {
                "id": f"{name}-{level}-{index:02d}",
                "family": name,
                "level": level,
                "prompt": _prompt(demonstrations, before),
                "answer": _text(after),
            }
        )
    return found


def _draw_puzzle(name: str, level: int, index: int, answers: set[Grid]) -> list[Pair]:
    digest = sha256(f"{SEED} {name} {level} {index}".encode()).digest()
    rng = Random(int.from_bytes(digest))  # noqa: S311 - chance of a puzzle, no secret
    family, spec = FAMILIES[name], FAMILIES[name].levels[level]
    while True:
        colours = "".join(rng.sample(COLOURS, spec.n_colours))
        rule = family.draw_rule(rng, level, colours)
        inputs = [family.draw_input(rng, level, colours) for _ in range(spec.n_demonstrations + 1)]
        outputs = [rule(grid) for grid in inputs]
        pairs = [(before, after) for before, after in zip(inputs, outputs, strict=True) if after is not None]
        if len(set(pairs)) < len(inputs) or pairs[-1][1] in answers:
            continue
        if _is_fair(name, level, rule, pairs):
            return pairs


def _is_fair(name: str, level: int, rule: Rule, pairs: Sequence[Pair]) -> bool:
    """Return whether the demonstrations settle the answer, and nothing less than the rule does."""
    *demonstrations, (before, after) = pairs
    if any(old == new for old, new in pairs) or after in [new for _, new in demonstrations]:
        return False
    if any(other(before) == after for other in rule.simpler()):
        return False
    if level and any(FAMILIES[name].fitting(level - 1, demonstrations)):
        return False
    # the rule itself is found from the demonstrations, and so says what becomes of every cell
    if all(other(before) != after for other in _all_fitting(name, demonstrations)):
        return False
    return all(
        _agree(other(before), after) for family in FAMILIES for other in _all_fitting(family, demonstrations)
    )


def _all_fitting(name: str, pairs: Sequence[Pair]) -> Iterator[Rule]:
    return FAMILIES[name].fitting(N_LEVELS - 1, pairs)


def _agree(found: Grid | None, answer: Grid) -> bool:
    """Return whether nothing in ``found`` contradicts the answer."""
    if found is None or not _is_same_size(found, answer):
        return found is None
    return all(
        mine in (_UNKNOWN, theirs) for mine, theirs in zip("".join(found), "".join(answer), strict=True)
    )


def _text(grid: Grid) -> str:
    return "\n".join(" ".join(row) for row in grid)


def _prompt(demonstrations: Sequence[Pair], before: Grid) -> str:
    shown = "".join(f"Input:\n{_text(old)}\nOutput:\n{_text(new)}\n\n" for old, new in demonstrations)
    return f"{_HEAD}{shown}Input:\n{_text(before)}\nOutput:\n"
