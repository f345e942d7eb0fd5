"""Grid puzzles: a prompt settles its answer, as solvers find that share no code with the maker."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations, product

import numpy as np
import pytest

from generate.standins import marc_like

LEVELS = range(4)


@dataclass(frozen=True)
class Puzzle:
    """What a reader has: pairs of grids, and one grid more."""

    id: str
    family: str
    level: int
    shown: tuple[tuple[np.ndarray, np.ndarray], ...]
    asked: np.ndarray
    answer: str


def read(row):
    """Read a prompt, and nothing but the prompt."""
    assert row["prompt"].endswith("\nOutput:\n")
    grids = [grid(block) for block in re.findall(r"put:\n([^:]*?)(?=\n+(?:Input|Output):)", row["prompt"])]
    *shown, asked = grids
    assert len(shown) % 2 == 0
    pairs = tuple(zip(shown[::2], shown[1::2], strict=True))
    return Puzzle(row["id"], row["family"], row["level"], pairs, asked, row["answer"])


def grid(text):
    return np.array([line.split(" ") for line in text.strip("\n").splitlines()])


def text(cells):
    return "\n".join(" ".join(row) for row in cells)


def is_same(one, other):
    return one.shape == other.shape and (one == other).all()


@pytest.fixture(scope="module")
def rows():
    return marc_like.rows()


@pytest.fixture(scope="module")
def puzzles(rows):
    return [read(row) for row in rows]


# ---- solvers: all answers that some rule of at most a level gives, if it explains what is shown ----


def oriented(cells, quarter, is_mirrored):
    return np.rot90(cells[:, ::-1] if is_mirrored else cells, quarter)


def solve_turn(puzzle, level):
    """Undo nothing: try each placement and read off which letters it would have to change."""
    steps = [(0, 0)] + [(0, 1), (0, -1), (1, 0), (-1, 0)] * (level >= 1)
    for quarter, is_mirrored, step, margin in product(
        range(4), (False, True), steps, range(1 + (level >= 3))
    ):
        inner = (slice(margin, -margin or None),) * 2
        changes = {}
        fits = True
        for before, after in puzzle.shown:
            ring = np.ones(before.shape, dtype=bool)
            ring[inner] = False
            placed = np.roll(oriented(before[inner], quarter, is_mirrored), step, axis=(0, 1))
            fits &= before.shape == after.shape and placed.shape == after[inner].shape
            if not fits or not (before[ring] == after[ring]).all():
                fits = False
                break
            for old, new in zip(placed.ravel(), after[inner].ravel(), strict=True):
                fits &= changes.setdefault(old, new) == new
        changed = {old: new for old, new in changes.items() if old != new}
        is_exchange = len(changed) == 2 and set(changed) == set(changed.values()) and "." not in changed
        if fits and (not changed or (is_exchange and level >= 2)):
            answer = puzzle.asked.copy()
            placed = np.roll(oriented(answer[inner], quarter, is_mirrored), step, axis=(0, 1))
            answer[inner] = np.vectorize(lambda cell, changes=changed: changes.get(cell, cell))(placed)
            yield text(answer)


def marked(cells, where):
    """Return the places that have a table of their own."""
    row, column = np.indices(cells.shape)
    if where == "everywhere":
        return np.zeros(cells.shape, dtype=bool)
    if where == "row":
        return row % 2 == 1
    if where == "column":
        return column % 2 == 1
    if where == "chess":
        return (row + column) % 2 == 1
    if where == "edge":
        inside = np.zeros(cells.shape, dtype=bool)
        inside[1:-1, 1:-1] = True
        return ~inside
    ringed = np.pad(cells == where, 1)
    return ringed[:-2, 1:-1] | ringed[2:, 1:-1] | ringed[1:-1, :-2] | ringed[1:-1, 2:]


def solve_recolour(puzzle, level):
    letters = sorted({cell for before, _ in puzzle.shown for cell in before.ravel()})
    if level == 0 and len(letters) > 3:
        return
    places = ["row", "column", "chess", "edge"] * (level >= 2) + letters * (level >= 3)
    for where in ["everywhere", *places]:
        seen = [
            ((bool(mark), old), new)
            for before, after in puzzle.shown
            for mark, old, new in zip(
                marked(before, where).ravel(), before.ravel(), after.ravel(), strict=True
            )
        ]
        table = dict(seen)
        asked = list(zip(marked(puzzle.asked, where).ravel(), puzzle.asked.ravel(), strict=True))
        if len(set(seen)) == len(table) and all((bool(mark), old) in table for mark, old in asked):
            cells = [table[bool(mark), old] for mark, old in asked]
            yield text(np.array(cells).reshape(puzzle.asked.shape))


def slide(cells, movers, side):
    """Turn the side to the left, then move letters over dots until no more can."""
    turned = np.rot90(cells, side)
    lines = []
    for line in map("".join, turned):
        moved, still = re.sub(rf"\.([{movers}])", r"\1.", line), line
        while moved != still:
            moved, still = re.sub(rf"\.([{movers}])", r"\1.", moved), moved
        lines.append(list(moved))
    return np.rot90(np.array(lines), -side)


def solve_fall(puzzle, level):
    letters = "".join(sorted({cell for before, _ in puzzle.shown for cell in before.ravel()} - {".", "#"}))
    everything = [(letters, side) for side in range(4)]
    one_colour = list(product(letters, range(4)))
    moves = everything + one_colour * (level >= 1)
    chains = [(move,) for move in moves]
    chains += list(permutations(moves if level >= 3 else everything, 2)) if level >= 2 else []

    slides = {}

    def after_all(name, cells, chain):
        """Keep what the first moves make: chains share them."""
        for n in range(1, len(chain) + 1):
            key = (name, chain[:n])
            if key not in slides:
                slides[key] = slide(cells, *chain[n - 1])
            cells = slides[key]
        return cells

    for chain in chains:
        if all(is_same(after_all(n, old, chain), new) for n, (old, new) in enumerate(puzzle.shown)):
            yield text(after_all("asked", puzzle.asked, chain))


def described(cells):
    """Return the shapes of a grid by letter: cells of the box, and who is first in what."""
    shapes, order = {}, {}
    for letter in sorted(set(cells.ravel()) - {".", "#"}):
        where = np.argwhere(cells == letter)
        (top, left), (bottom, right) = where.min(axis=0), where.max(axis=0)
        shapes[letter] = cells[top : bottom + 1, left : right + 1] == letter
        order[letter] = (len(where), -len(where), -top, bottom, -left, right)
    firsts = []
    for n in range(6):
        best = max(measures[n] for measures in order.values())
        (letter,) = [letter for letter, measures in order.items() if measures[n] == best]
        firsts.append(letter)
    return shapes, firsts


def solve_pick(puzzle, level):
    found = [described(before) for before, _ in puzzle.shown]
    shapes, firsts = described(puzzle.asked)
    names = sorted(set.intersection(*(set(drawn) for drawn, _ in found)))

    def name(which, firsts):
        return firsts[which] if isinstance(which, int) else which

    turns = list(product(range(4), (False, True))) if level >= 2 else [(0, False)]
    for which, turn in product([*names, *range(6)] if level >= 1 else names, turns):
        cut = [oriented(drawn[name(which, first)], *turn) for drawn, first in found]
        if not all(is_same(one, after != ".") for one, (_, after) in zip(cut, puzzle.shown, strict=True)):
            continue
        painted = [(set(after.ravel()) - {"."}).pop() for _, after in puzzle.shown]
        models = [which] + [model for model in range(6) if level >= 3]
        for model in models:
            if [name(model, first) for _, first in found] == painted and name(which, firsts) in shapes:
                shape = oriented(shapes[name(which, firsts)], *turn)
                yield text(np.where(shape, name(model, firsts), "."))


SOLVERS = {"turn": solve_turn, "recolour": solve_recolour, "fall": solve_fall, "pick": solve_pick}


def solutions(puzzle: Puzzle, level: int) -> Iterator[str]:
    return SOLVERS[puzzle.family](puzzle, level)


# ---- the set ----


def test_there_are_four_families_of_four_levels_of_twenty(rows):
    assert len(rows) == 4 * 4 * 20
    counts = Counter((row["family"], row["level"]) for row in rows)
    assert counts == dict.fromkeys(product(marc_like.FAMILIES, LEVELS), 20)
    assert len({row["id"] for row in rows}) == len(rows)
    assert all(list(row) == ["id", "family", "level", "prompt", "answer"] for row in rows)


def test_the_first_rows_of_the_file_are_of_all_kinds(rows):
    assert len({(row["family"], row["level"]) for row in rows[:16]}) == 16


def test_no_puzzle_and_no_answer_is_there_twice(rows):
    assert len({row["prompt"] for row in rows}) == len(rows)
    assert len({row["answer"] for row in rows}) == len(rows)


@pytest.mark.parametrize("family", marc_like.FAMILIES)
def test_every_rule_that_explains_what_is_shown_gives_the_answer(puzzles, family):
    for puzzle in puzzles:
        if puzzle.family == family:
            assert set(solutions(puzzle, 3)) == {puzzle.answer}, puzzle.id


@pytest.mark.parametrize("family", marc_like.FAMILIES)
def test_a_rule_of_the_level_is_enough_and_none_of_a_lower_one_explains_what_is_shown(puzzles, family):
    for puzzle in puzzles:
        if puzzle.family == family:
            assert set(solutions(puzzle, puzzle.level)) == {puzzle.answer}, puzzle.id
            assert puzzle.level == 0 or not list(solutions(puzzle, puzzle.level - 1)), puzzle.id


def test_what_is_asked_was_not_shown_and_neither_was_its_answer(puzzles):
    for puzzle in puzzles:
        before = [text(old) for old, _ in puzzle.shown]
        assert len(set(before)) == len(before) in (3, 4)
        assert text(puzzle.asked) not in before
        assert puzzle.answer not in [text(puzzle.asked), *(text(new) for _, new in puzzle.shown)]


@pytest.mark.parametrize("family", marc_like.FAMILIES)
def test_each_level_has_larger_grids_and_more_rules_to_tell_apart(puzzles, family):
    cells = {level: set() for level in LEVELS}
    for puzzle in puzzles:
        if puzzle.family == family:
            cells[puzzle.level] |= {puzzle.asked.size, *(before.size for before, _ in puzzle.shown)}
    assert [len(sizes) for sizes in cells.values()] == [1, 1, 1, 1]
    for measures in (
        [sizes.pop() for sizes in cells.values()],
        [marc_like.n_rules(family, level) for level in LEVELS],
    ):
        assert measures == sorted(set(measures))


def test_the_rules_of_a_level_are_counted_as_they_are_made_of_parts():
    placements, pairs_of_four, pairs_of_five = 8 * (1 + 4), 4 * 3 // 2, 5 * 4 // 2
    assert [marc_like.n_rules("turn", level) for level in LEVELS] == [
        8,
        placements,
        placements * (1 + pairs_of_four),
        placements * (1 + pairs_of_five) * 2,
    ]
    # a colour to a side, everything to a side, and two moves one after the other
    assert [marc_like.n_rules("fall", level) for level in LEVELS] == [
        4,
        4 + 3 * 4,
        4 + 3 * 4 + 4 * 3,
        (4 + 4 * 4) + (4 + 4 * 4) * (4 + 4 * 4 - 1),
    ]
    # painted as itself or as one of six; one that is the first in something, as one of the other five
    assert [marc_like.n_rules("pick", level) for level in LEVELS] == [
        2,
        3 + 6,
        (3 + 6) * 8,
        (4 * (1 + 6) + 6 * (1 + 5)) * 8,
    ]


def test_answers_are_short_enough_to_be_written_and_prompts_to_be_read(rows):
    # a cell with the space before it is one token, and so is a line end
    assert max(len(re.findall(r"\S|\n", row["answer"])) for row in rows) == 7 * 7 + 6
    assert max(len(re.findall(r"[A-Za-z]+|\S|\n", row["prompt"])) for row in rows) < 600


def test_no_answer_without_reading_the_rule_scores(puzzles):
    constant = max(Counter(puzzle.answer for puzzle in puzzles).values())
    copied = sum(text(puzzle.asked) == puzzle.answer for puzzle in puzzles)
    repeated = sum(text(puzzle.shown[-1][1]) == puzzle.answer for puzzle in puzzles)
    assert (constant, copied, repeated) == (1, 0, 0)
