"""Observational learning, solved by who reads the printed text alone and shares no code with the families.

Each solver tries every rule that the text allows and returns the answers of those that fit what is shown. As
there is one tuple of them, and it is the right one, the demonstrations decide the questions.
"""

import importlib
import re
import tomllib
from functools import reduce
from itertools import permutations, product
from math import gcd
from pathlib import Path

import pytest

from generate.learning.dice import Dice

MANIFEST = tomllib.loads(Path("manifests/learning/observational_learning.toml").read_text(encoding="utf-8"))


def family_of(family_id: str, level: int):
    module, name = MANIFEST[family_id]["family"].split(":")
    cls = getattr(importlib.import_module(f"generate.learning.observational_learning.{module}"), name)
    return cls.model_validate(MANIFEST[family_id]["levels"][level - 1])


def read(text: str) -> list[tuple[str, str]]:
    """Return what is given and what comes out, of all demonstrations."""
    lines = text.split("Demonstrations:\n", 1)[1].split("\n\n", 1)[0].split("\n")
    return [tuple(line.split(" -> ")) for line in lines]


# --- machines with states ---


class MachineSearch:
    """All machines that explain some runs: ways to lay the beginnings of the runs onto states.

    Two beginnings may end in one state if nothing that is seen after them differs; the move with the fewest
    possible ends is tried first.
    """

    def __init__(self, n_states, runs, asked):
        self.n_states, self.asked = n_states, asked
        self.seen = {
            (letters[:end], letters[end]): written[end]
            for letters, written in runs
            for end in range(len(letters))
        }
        self.nodes = sorted({node for node, _ in self.seen}, key=len)
        self.apart = {pair for pair in product(self.nodes, self.nodes) if self.differ(*pair)}
        self.answers = set()

    def differ(self, one, two):
        for symbol in "ab":
            first, second = self.seen.get((one, symbol)), self.seen.get((two, symbol))
            if first and second and (first != second or self.differ(one + symbol, two + symbol)):
                return True
        return False

    def laid(self, moves):
        """Return the state of each node that the moves reach and the moves that are open, or None."""
        state_of, open_moves = {}, {}
        members = [[] for _ in range(self.n_states)]
        for node in self.nodes:
            parent = state_of.get(node[:-1])
            if node and parent is None:
                continue
            if node and (parent, node[-1]) not in moves:
                open_moves.setdefault((parent, node[-1]), []).append(node)
                continue
            state = moves[parent, node[-1]] if node else 0
            if not self.fits(node, members[state]):
                return None
            state_of[node] = state
            members[state].append(node)
        ends = {
            move: [
                state
                for state, those in enumerate(members)
                if all(self.fits(node, those) for node in waiting)
            ]
            for move, waiting in open_moves.items()
        }
        return state_of, ends

    def fits(self, node, members):
        return not any((node, other) in self.apart for other in members)

    def search(self, moves, n_used):
        laid = self.laid(moves)
        if laid is None:
            return
        state_of, ends = laid
        if not ends:
            self.answers.add(self.answer(state_of, moves))
            return
        move = min(ends, key=lambda move: sum(state <= n_used for state in ends[move]))
        for state in ends[move]:
            # of states that nothing has reached, one stands for all
            if state <= n_used:
                self.search(moves | {move: state}, max(n_used, state + 1))

    def answer(self, state_of, moves):
        writes = {(state_of[node], symbol): written for (node, symbol), written in self.seen.items()}
        answer = []
        for letters in self.asked:
            state, written = 0, []
            for letter in letters:
                # None: what no run shows, and what therefore could be anything
                written.append(writes.get((state, letter)))
                state = moves.get((state, letter))
            answer.append(" ".join(map(str, written)))
        return tuple(answer)


def solve_hidden_state_machine(text, questions):
    n_states = int(re.search(r"at most (\d) inner", text)[1])
    runs = [(given.replace(" ", ""), result.split()) for given, result in read(text)]
    asked = ["".join(re.findall(r"\b[ab]\b", question.split(" for ")[1])) for question in questions]
    machines = MachineSearch(n_states, runs, asked)
    machines.search({}, 1)
    return machines.answers


def path(moves, word):
    """Return the cells of the table that a word goes through."""
    mode = 0
    cells = []
    for letter in word:
        cells.append((mode, letter))
        mode = moves[mode, letter]
    return cells


def explained(done, actions, facts, at=0, n_written=0):
    """Yield all choices of actions that write the results, when the cells that words go through are known."""
    if not facts:
        yield done
        return
    (cells, result), *later = facts
    if at == len(cells):
        if n_written == len(result):
            yield from explained(done, actions, later)
        return
    cell = cells[at]
    for number in [done[cell]] if cell in done else range(len(actions)):
        written = actions[number](cell[1])
        if result.startswith(written, n_written):
            yield from explained({**done, cell: number}, actions, facts, at + 1, n_written + len(written))


def solve_string_transducer(text, questions):
    n_modes = int(re.search(r"at most (\d) hidden", text)[1])
    n_actions = int(re.search(r"one of (\d) things", text)[1])
    letters = re.search(r"of the letters ([a-d, ]+), letter", text)[1].split(", ")
    following = dict(zip(letters, letters[1:] + letters[:1], strict=True))
    actions = [lambda x: x, lambda x: "", lambda x: x + x, lambda x: following[x]][:n_actions]
    runs = sorted(((given.split(), result.replace(" ", "")) for given, result in read(text)), key=str)
    asked = [question.split(" for ")[1].rstrip(" ?").split() for question in questions]
    cells = list(product(range(n_modes), letters))
    answers = set()
    for ends in product(range(n_modes), repeat=len(cells)):
        # modes are named in the order in which the table lists them
        order = list(dict.fromkeys((0, *ends)))
        if order != sorted(order):
            continue
        moves = dict(zip(cells, ends, strict=True))
        facts = [(path(moves, word), result) for word, result in runs]
        for done in explained({}, actions, facts):
            written = (
                "".join(actions[done[cell]](cell[1]) if cell in done else "?" for cell in path(moves, word))
                for word in asked
            )
            answers.add(tuple(" ".join(word) for word in written))
    return answers


# --- a group, from nothing but its laws ---


def is_latin(table):
    """Return whether no number is there twice in a row or a column of the table."""
    rows = {(left, value) for (left, _), value in table.items()}
    columns = {(right, value) for (_, right), value in table.items()}
    return len(rows) == len(columns) == len(table)


def closed(table, numbers):
    """Return the table with all that follows from (x y) z = x (y z), or None where a law is broken."""
    table = dict(table)
    n_known = 0
    while n_known < len(table):
        n_known = len(table)
        for ((x, y), xy), z in product(list(table.items()), numbers):
            yz = table.get((y, z))
            if yz is None:
                continue
            one, two = table.get((xy, z)), table.get((x, yz))
            if one is None and two is not None:
                table[xy, z] = two
            elif two is None and one is not None:
                table[x, yz] = one
            elif one != two:
                return None
        if not is_latin(table):
            return None
    return table


def group_tables(table, numbers):
    """Yield all tables of groups that have the entries of a table."""
    table = closed(table, numbers)
    if table is None:
        return
    free = {
        (left, right): set(numbers)
        - {table.get((left, other)) for other in numbers}
        - {table.get((other, right)) for other in numbers}
        for left, right in product(numbers, numbers)
        if (left, right) not in table
    }
    if not free:
        yield table
        return
    cell = min(free, key=lambda cell: len(free[cell]))
    for value in free[cell]:
        yield from group_tables({**table, cell: value}, numbers)


def solve_hidden_group_operation(text, questions):
    numbers = range(int(re.search(r"numbers 0 to (\d+)", text)[1]) + 1)
    table = {tuple(map(int, given.split(" @ "))): int(result) for given, result in read(text)}
    neutral = next(
        left if value == right else right for (left, right), value in table.items() if value in (left, right)
    )
    for number in numbers:
        table[neutral, number] = table[number, neutral] = number
    asked = [list(map(int, re.findall(r"\d+", question))) for question in questions]
    return {
        tuple(str(reduce(lambda left, right: whole[left, right], chain)) for chain in asked)
        for whole in group_tables(table, numbers)
    }


# --- everything else: all rules that the text lists ---


def blocks_moved(word, order):
    word = list(word)
    for start in range(0, len(word) - len(order) + 1, len(order)):
        block = word[start : start + len(order)]
        word[start : start + len(order)] = [block[place] for place in order]
    return word


def added_before(place, chain, uncoded, coded):
    if place == 0 or chain == "none":
        return 0
    return ord((uncoded if chain == "uncoded" else coded)[place - 1]) - 97


def is_coded_so(pair, order, factor, stride, chain, shift):
    plain, coded = pair
    word = blocks_moved(plain, order)
    return all(
        (factor * (ord(letter) - 97) + stride * place + shift + added_before(place, chain, word, coded)) % 26
        == ord(coded[place]) - 97
        for place, letter in enumerate(word)
    )


def decoded(coded, order, factor, stride, chain, shift):
    word = []
    for place, letter in enumerate(coded):
        value = ord(letter) - 97 - stride * place - shift - added_before(place, chain, word, coded)
        word.append(next(chr(97 + number) for number in range(26) if (factor * number - value) % 26 == 0))
    # undone by doing it until it comes round
    turns = [word]
    while (turned := blocks_moved(turns[-1], order)) != word:
        turns.append(turned)
    return " ".join(turns[-1])


def solve_cipher(text, questions):
    pairs = [(given.split(), result.split()) for given, result in read(text)]
    asked = [question.split(" as ")[1].rstrip(" ?").split() for question in questions]
    found = re.search(r"at most (\d) letters", text)
    orders = [order for size in range(1, int(found[1]) + 1) for order in permutations(range(size))]
    factors = [factor for factor in range(26) if gcd(factor, 26) == 1] if "fixed factor" in text else [1]
    chains = ("none", "uncoded", "coded") if "letter before it" in text else ("none",)
    answers = set()
    for key in product(orders, factors, range(26), chains):
        order, factor, *_ = key
        plain, coded = pairs[0]
        shift = ord(coded[0]) - 97 - factor * (ord(blocks_moved(plain, order)[0]) - 97)
        if all(is_coded_so(pair, *key, shift) for pair in pairs):
            answers.add(tuple(decoded(word, *key, shift) for word in asked))
    return answers


def solve_cellular_automaton(text, questions):
    n_colours = 3 if "0, 1, 2" in text.split(". ")[0] else 2
    is_sum = "sum of the three" in text
    listed = re.search(r"and one of ([\d, ]+)\.", text)
    steps = list(map(int, listed[1].split(", "))) if listed else [1]
    ends = ["ring", "empty"] if "or else" in text else ["ring"]
    rows = [(tuple(map(int, a.split())), tuple(map(int, b.split()))) for a, b in read(text)]
    asked = [tuple(map(int, re.findall(r"\d", question))) for question in questions]
    seen = {}
    for cells in product(range(n_colours), repeat=3):
        seen[cells] = sum(cells) if is_sum else cells
    kinds = sorted(set(seen.values()))

    def later(rule, row, n_steps, end):
        for _ in range(n_steps):
            wide = (row[-1], *row, row[0]) if end == "ring" else (0, *row, 0)
            row = tuple(rule[seen[wide[at : at + 3]]] for at in range(len(row)))
        return row

    answers = set()
    for values in product(range(n_colours), repeat=len(kinds)):
        rule = dict(zip(kinds, values, strict=True))
        for n_steps, end in product(steps, ends):
            if all(later(rule, before, n_steps, end) == after for before, after in rows):
                answers.add(tuple(" ".join(map(str, later(rule, row, n_steps, end))) for row in asked))
    return answers


# how many numbers a thing is done to, and what is there instead
THINGS = {
    "replace the two topmost numbers by their sum": (2, lambda s: [s[0] + s[1]]),
    "replace the two topmost numbers by their product": (2, lambda s: [s[0] * s[1]]),
    "replace the two topmost numbers by the second from the top minus the top one": (
        2,
        lambda s: [s[0] - s[1]],
    ),
    "replace the two topmost numbers by the larger of them": (2, lambda s: [max(s)]),
    "replace the two topmost numbers by the smaller of them": (2, lambda s: [min(s)]),
    "put another copy of the top number on top": (1, lambda s: s * 2),
    "exchange the two topmost numbers": (2, lambda s: s[::-1]),
    "remove the top number": (1, lambda s: []),
    "replace the two topmost numbers by the top one minus the second from the top": (
        2,
        lambda s: [s[1] - s[0]],
    ),
    "change the sign of the top number": (1, lambda s: [-s[0]]),
    "put a copy of the second number from the top on top": (2, lambda s: [*s, s[0]]),
    "remove the second number from the top": (2, lambda s: s[1:]),
    "move the third number from the top to the top": (3, lambda s: [*s[1:], s[0]]),
    "move the top number below the two under it": (3, lambda s: [s[2], *s[:2]]),
    "double the top number": (1, lambda s: [s[0] + s[0]]),
    "add one to the top number": (1, lambda s: [s[0] + 1]),
}


def solve_stack_machine(text, questions):
    things = [THINGS[line[2:]] for line in text.split("\n") if line.startswith("- ")]
    is_top = "machine shows the number on top" in text
    programs = [(given.split(), result) for given, result in read(text)]
    asked = [question.split(" of ")[1].rstrip(" ?").split() for question in questions]

    def shown(meanings, program):
        stack = []
        for token in program:
            if token not in meanings:
                stack.append(int(token))
                continue
            n_numbers, done_to = things[meanings[token]]
            if len(stack) < n_numbers:
                return None
            stack = stack[: len(stack) - n_numbers] + done_to(stack[len(stack) - n_numbers :])
        return " ".join(map(str, stack[-1:] if is_top else stack))

    def words_of(program):
        return sorted({token for token in program if token.isalpha()})

    known = [{}]
    for program, result in sorted(programs, key=lambda one: len(words_of(one[0]))):
        longer = []
        for meanings in known:
            new = [word for word in words_of(program) if word not in meanings]
            rest = [thing for thing in range(len(things)) if thing not in meanings.values()]
            for chosen in permutations(rest, len(new)):
                tried = meanings | dict(zip(new, chosen, strict=True))
                if shown(tried, program) == result:
                    longer.append(tried)
        known = longer
    answers = {tuple(shown(meanings, program) for program in asked) for meanings in known}
    # no program asks a word for more numbers than there are, and so does none of the questions
    return {answer for answer in answers if None not in answer}


def solve_affine_chain(text, questions):
    shift = int(re.search(r"from (-\d+) to", text)[1])
    shifts = range(shift, -shift + 1)
    if "(x, y)" in text:
        maps = [
            lambda v, m=m, c=c, f=f: (m[0] * v[0] + m[1] * v[1] + c, m[2] * v[0] + m[3] * v[1] + f)
            for m in product((-1, 0, 1), repeat=4)
            if m[0] * m[3] - m[1] * m[2] in (1, -1)
            for c, f in product(shifts, shifts)
        ]
    else:
        factors = list(map(int, re.search(r"one of ([-\d, ]+) and b", text)[1].split(", ")))
        maps = [lambda v, a=a, b=b: (a * v[0] + b,) for a in factors for b in shifts]

    def parsed(line):
        chain, start = re.search(r"([PQR]+) on ([-\d ]*\d)", line).groups()
        return chain, tuple(map(int, start.split()))

    def end(choice, chain, value, is_backward):
        for letter in chain[::-1] if is_backward else chain:
            value = choice[letter](value)
        return value

    facts = [(*parsed(given), tuple(map(int, result.split()))) for given, result in read(text)]
    asked = [parsed(question) for question in questions]
    answers = set()
    for is_backward in (False, True):
        known = [{}]
        left = list(facts)
        while left:
            met = set(known[0]) if known else set()
            fact = min(left, key=lambda fact: len(set(fact[0]) - met))
            left.remove(fact)
            chain, start, result = fact
            new = sorted(set(chain) - met)
            known = [
                tried
                for choice in known
                for chosen in product(maps, repeat=len(new))
                if end(tried := choice | dict(zip(new, chosen, strict=True)), chain, start, is_backward)
                == result
            ]
        for choice in known:
            answers.add(tuple(" ".join(map(str, end(choice, *one, is_backward))) for one in asked))
    return answers


def moved_along(place, speed, edge, size):
    place += speed
    if 1 <= place <= size:
        return place, speed
    if edge == "bounce":
        return (2 - place if place < 1 else 2 * size - place), -speed
    if edge == "wrap":
        return (place + size if place < 1 else place - size), speed
    return (1 if place < 1 else size), 0


def bead_end(start, size, pull, zone, edges, strip):
    x, y, right, up, n_ticks = start
    for _ in range(n_ticks):
        x, right = moved_along(x, right, edges[0], size)
        y, up = moved_along(y, up, edges[1], size)
        is_left, is_low = x <= size // 2, y <= size // 2
        if {"left": is_left, "right": not is_left, "lower": is_low, "upper": not is_low}.get(zone, True):
            right = max(-3, min(3, right + pull[0]))
            up = max(-3, min(3, up + pull[1]))
        if strip in (("column", x), ("row", y)):
            right, up = up, right
    return f"{x} {y}"


def solve_simple_physics(text, questions):
    size = int(re.search(r"board of (\d+) columns", text)[1])
    zones = ["anywhere"]
    if "where the pull acts" in text:
        zones += ["left", "right", "lower", "upper"]
    strips = [None]
    if "turning strip" in text:
        strips += product(("column", "row"), range(1, size + 1))
    facts = [(tuple(map(int, re.findall(r"-?\d+", given))), result) for given, result in read(text)]
    asked = [tuple(map(int, re.findall(r"-?\d+", question))) for question in questions]
    kinds = list(product(("bounce", "wrap", "stop"), repeat=2))
    return {
        tuple(bead_end(start, size, *laws) for start in asked)
        for laws in product(((1, 0), (-1, 0), (0, 1), (0, -1)), zones, kinds, strips)
        if all(bead_end(start, size, *laws) == result for start, result in facts)
    }


def solve_sorting_network(text, questions):
    n_places, n_left = map(int, re.search(r"list of (\d) numbers.* through (\d) comp", text).groups())
    facts = [(list(map(int, a.split())), list(map(int, b.split()))) for a, b in read(text)]
    asked = [list(map(int, re.findall(r"\d+", question))) for question in questions]
    answers = set()

    def applied(numbers, low, high):
        numbers = list(numbers)
        if numbers[low] > numbers[high]:
            numbers[low], numbers[high] = numbers[high], numbers[low]
        return numbers

    def search(now, n_left, network):
        wrong = set()
        for (_, after), numbers in zip(facts, now, strict=True):
            wrong.update(place for place in range(n_places) if numbers[place] != after[place])
            if len(wrong) > 2 * n_left:
                return
        if n_left == 0:
            ends = asked
            for pair in network:
                ends = [applied(numbers, *pair) for numbers in ends]
            answers.add(tuple(" ".join(map(str, numbers)) for numbers in ends))
            return
        for pair in permutations(range(n_places), 2):
            # all that is wrong before the last one, it mends
            if n_left == 1 and not wrong <= set(pair):
                continue
            search([applied(numbers, *pair) for numbers in now], n_left - 1, (*network, pair))

    search([before for before, _ in facts], n_left, ())
    return answers


def attached(word, marker, at, copies):
    """Return a word with a marker at its start (0) or end (-1), which may copy the vowel next to it."""
    if copies:
        marker = marker[0] + [letter for letter in word if letter in "aeiou"][at]
    return word + marker if at else marker + word


def noun_phrase(words, rule, is_object):
    is_many = words[0] == "many"
    *adjectives, noun = words[is_many:]
    if is_many and rule["many"] in (0, -1):
        noun = attached(noun, "mi", rule["many"], rule["copies"])
    if is_many and rule["many"] == "twice":
        noun = noun[0:2] + noun
    if is_many and rule["agrees"] == "adjective":
        adjectives = [attached(word, "mi", -1, rule["copies"]) for word in adjectives]
    if is_object and rule["marked"] in ("always", is_many):
        noun = attached(noun, "na", -1, rule["copies"])
    phrase = [*adjectives, noun] if rule["adjective"] == "before" else [noun, *adjectives]
    return [*phrase, "mi"] if is_many and rule["many"] == "word" else phrase


def verb_group(words, rule, subject_is_many):
    verb = words[-1]
    if rule["agrees"] == "verb" and subject_is_many:
        verb = attached(verb, "mi", -1, rule["copies"])
    if "past" in words and rule["past"] in (0, -1):
        verb = attached(verb, "ko", rule["past"], rule["copies"])
    if "not" in words and rule["not"] in ("before", "after"):
        return ["tu", verb] if rule["not"] == "before" else [verb, "tu"]
    return [verb]


def spoken(note, rule):
    groups = {role: noun_phrase(note[role], rule, role == "O") for role in ("S", "O") if role in note}
    groups["V"] = verb_group(note["V"], rule, note["S"][0] == "many")
    order = (rule["order with not"] if "not" in note["V"] else None) or rule["order"]
    words = [word for role in order for word in groups.get(role, [])]
    if "not" in note["V"] and rule["not"] in ("first", "last"):
        words = ["tu", *words] if rule["not"] == "first" else [*words, "tu"]
    if "past" in note["V"] and rule["past"] in ("first", "last"):
        at = 0 if rule["past"] == "first" else len(words) - 1
        words[at] = attached(words[at], "ko", -1, rule["copies"])
    return " ".join(words)


def solve_linguistic_transducer(text, questions):
    has_more, has_most = "what agrees" in text, "sentences with 'not'" in text

    def parsed(line):
        parts = dict(part.split(": ") for part in line.split(", "))
        return {name: part.split() for name, part in parts.items()}

    facts = [(parsed(given), result) for given, result in read(text)]
    asked = [parsed(question.split(" spoken: ")[1].rstrip(" ?")) for question in questions]
    orders = list(permutations("SVO"))
    options = {
        "order": orders,
        "adjective": ("before", "after"),
        "many": (-1, 0, "twice", "word"),
        "past": (-1, 0, "first", "last"),
        "not": ("before", "after", "first", "last"),
        "agrees": ("nothing", "adjective", "verb") if has_more else ("nothing",),
        "marked": ("never", "always", True, False) if has_more else ("never",),
        "order with not": orders if has_most else (None,),
        "copies": (False, True) if has_most else (False,),
    }
    rules = (dict(zip(options, values, strict=True)) for values in product(*options.values()))
    return {
        tuple(spoken(note, rule) for note in asked)
        for rule in rules
        if all(spoken(note, rule) == result for note, result in facts)
    }


SOLVERS = {
    name.removeprefix("solve_"): solver
    for name, solver in list(globals().items())
    if name.startswith("solve_")
}
CASES = [(family_id, level) for family_id in MANIFEST for level in (1, 2, 3)]


def test_every_family_has_a_solver():
    assert set(SOLVERS) == set(MANIFEST)


@pytest.mark.parametrize(("family_id", "level"), CASES)
def test_who_reads_the_text_alone_finds_the_one_answer(family_id, level):
    sheet = family_of(family_id, level).sheet(Dice("solved", family_id, level), 4)
    found = SOLVERS[family_id](sheet.text, [question.text for question in sheet.questions])
    assert found == {tuple(question.answer for question in sheet.questions)}
