"""Players of procedural learning that read texts alone and search the whole space of skills.

They share no code with the families. A player begins with every skill that the opening allows, and keeps
those that give all the feedback it is told. It plays what would be right under the first skill that is left,
and answers with what all that are left say. Told a skill as plain data, it plays as one who has practised
enough.
"""

import re
from itertools import permutations, product

import numpy as np


class Player:
    """What players have in common: ``fits`` tells which of the skills are left."""

    skills: list
    fits: np.ndarray

    def knows(self, description):
        """Keep one skill alone, given as the fields of the family's own skill."""
        self.fits[:] = False
        self.fits[self.skills.index(self.plain(description))] = True

    def first(self):
        return int(np.flatnonzero(self.fits)[0])


class Sorter(Player):
    def __init__(self, level):
        self.letters, self.digits = "KMRTV"[: level["n_letters"]], range(1, level["n_digits"] + 1)
        winding = (False, True) if level["may_wind"] else (False,)
        self.skills = [
            (letters, digits, is_letter_first, winds)
            for letters in permutations(range(level["n_letters"]))
            for digits in permutations(range(level["n_digits"]))
            for is_letter_first in (True, False)
            for winds in winding
        ]
        self.names = [f"{letter}{digit}" for letter in self.letters for digit in self.digits]
        # place of every token under every skill
        self.places = np.array([self._places(*skill) for skill in self.skills])
        self.fits = np.ones(len(self.skills), dtype=bool)

    def _places(self, letters, digits, is_letter_first, winds):
        groups = []
        n_firsts = len(letters) if is_letter_first else len(digits)
        for rank in range(n_firsts):
            if is_letter_first:
                row = [(letters.index(rank), digits.index(other)) for other in range(len(digits))]
            else:
                row = [(letters.index(other), digits.index(rank)) for other in range(len(letters))]
            groups += row[::-1] if winds and rank in (1, 3, 5, 7) else row
        order = [letter * len(digits) + digit for letter, digit in groups]
        return [order.index(token) for token in range(len(order))]

    def plain(self, skill):
        return tuple(skill["letters"]), tuple(skill["digits"]), skill["is_letter_first"], skill["is_winding"]

    def open_round(self, text):
        self.row = re.findall(r"\b[A-Z][1-9]\b", text.split("last: ")[1].split(".")[0])
        self.is_solved = False

    def _goals(self, row):
        """Right rows under each skill, as places in ``row``."""
        return np.argsort(self.places[:, [self.names.index(name) for name in row]], axis=1)

    def choose(self):
        goal = [self.row[place] for place in self._goals(self.row)[self.first()]]
        if goal == self.row:  # the skill that comes first says it is right already: any swap tells more
            return "1 2"
        place = next(place for place, name in enumerate(self.row) if name != goal[place])
        return f"{place + 1} {self.row.index(goal[place]) + 1}"

    def hear(self, action, feedback):
        one, other = (int(place) - 1 for place in action.split())
        self.row[one], self.row[other] = self.row[other], self.row[one]
        told = int(re.search(r"places: (\d+) of", feedback)[1])
        assert f"now {' '.join(self.row)}." in feedback
        self.fits &= (self._goals(self.row) == np.arange(len(self.row))).sum(axis=1) == told
        self.progress = told / len(self.row)
        self.is_solved = told == len(self.row)

    def answers(self, text):
        row = text.split(": ")[1].split()
        return {" ".join(row[place] for place in goal) for goal in self._goals(row)[self.fits]}


class Router(Player):
    origins, kinds = ("harbour", "quarry", "orchard", "mill"), ("letter", "chart", "ledger")

    def __init__(self, level):
        values = (range(4), range(3), range(3, 9))
        self.gates = "ABCD"[: level["n_gates"]]
        n = level["n_tests"]
        tests = [
            tuple(zip(fields, drawn, strict=True))
            for fields in permutations(range(3), n)
            for drawn in product(*(values[field] for field in fields))
        ]
        uses = list(permutations(range(level["n_gates"]), n + 1))
        self.skills = [(test, use) for test in tests for use in uses]
        packets = list(product(range(4), range(3), range(1, 10)))
        self.place = {packet: place for place, packet in enumerate(packets)}
        # which test decides, then which gate that is
        decides = np.array([[self._decides(test, packet) for packet in packets] for test in tests])
        self.table = np.array(uses)[:, decides].swapaxes(0, 1).reshape(len(self.skills), len(packets))
        self.fits = np.ones(len(self.skills), dtype=bool)

    def _decides(self, tests, packet):
        for place, (field, value) in enumerate(tests):
            if (packet[field] >= value) if field == 2 else (packet[field] == value):
                return place
        return len(tests)

    def plain(self, skill):
        return tuple(map(tuple, skill["tests"])), tuple(skill["gates"])

    def _packets(self, text):
        found = re.findall(r"(\w+) from the (\w+), size (\d)", text)
        return [self.place[self.origins.index(o), self.kinds.index(k), int(size)] for k, o, size in found]

    def open_round(self, text):
        self.packets, self.arrived, self.is_solved = self._packets(text), set(), False

    def choose(self):
        packet = next(place for place in range(len(self.packets)) if place not in self.arrived)
        return f"{packet + 1}>{self.gates[self.table[self.first(), self.packets[packet]]]}"

    def hear(self, action, feedback):
        number, gate = action.split(">")
        arrives = "has arrived" in feedback
        right = self.table[:, self.packets[int(number) - 1]] == self.gates.index(gate)
        self.fits &= right == arrives
        if arrives:
            self.arrived.add(int(number) - 1)
        self.progress = len(self.arrived) / len(self.packets)
        assert f"{len(self.arrived)} of {len(self.packets)}" in feedback
        self.is_solved = self.progress == 1

    def answers(self, text):
        rows = np.unique(self.table[self.fits][:, self._packets(text)], axis=0)
        return {" ".join(self.gates[gate] for gate in row) for row in rows}


class Locksmith(Player):
    def __init__(self, level):
        self.n, self.keys = level["n_positions"], "abcde"[: level["n_keys"]]
        one = [
            (factor, addition)
            for factor in range(1, level["largest_factor"] + 1)
            for addition in range(self.n)
            if (factor, addition) != (1, 0)
        ]
        self.skills = list(permutations(one, level["n_keys"]))
        maps = np.array(
            [[(factor * x + addition) % self.n for x in range(self.n)] for factor, addition in one]
        )
        self.table = maps[np.array(list(permutations(range(len(one)), level["n_keys"])))]
        self.fits = np.ones(len(self.skills), dtype=bool)

    def plain(self, skill):
        return tuple(zip(skill["factors"], skill["additions"], strict=True))

    def open_round(self, text):
        self.start = int(re.search(r"stands at (\d+)", text)[1])
        self.checks = [int(check) for check in re.findall(r"(\d+) after the \w+ key", text)]
        self.is_solved, self.best = False, 0

    def _follow(self, which, start, keys):
        """Positions after each key under some skills."""
        here, reached = np.full(which.size, start), []
        for key in keys:
            here = self.table[which, self.keys.index(key), here]
            reached.append(here)
        return reached

    def choose(self):
        # the first skill left under which there is a password
        for skill in np.flatnonzero(self.fits)[:200]:
            here, password = self.start, []
            for check in self.checks:
                pairs = (
                    pair
                    for pair in product(self.keys, repeat=2)
                    if self._follow(np.array([skill]), here, pair)[1][0] == check
                )
                pair = next(pairs, None)
                if pair is None:
                    break
                password += pair
                here = check
            else:
                return " ".join(password)
        raise AssertionError("no skill that is left has a password")

    def hear(self, action, feedback):
        keys = action.split()
        told = [int(at) for at in re.findall(r"(?:is at|it is at) (\d+)", feedback)]
        which = np.flatnonzero(self.fits)
        reached = self._follow(which, self.start, keys)[1::2]
        for at, there in zip(told, reached, strict=False):
            self.fits[which] &= there == at
        met = sum(at == check for at, check in zip(told, self.checks, strict=False))
        assert len(told) == min(met + 1, 4)
        self.best = max(self.best, met)
        self.progress = self.best / 4
        self.is_solved = met == 4

    def answers(self, text):
        start, keys = re.fullmatch(r"Start (\d+), keys ([a-e ]+)", text).groups()
        reached = self._follow(np.flatnonzero(self.fits), int(start), keys.split())
        return {" ".join(map(str, row)) for row in np.stack(reached[2::3], axis=1).tolist()}


class Searcher(Player):
    def __init__(self, level):
        self.n, self.is_ring, self.wraps = level["n_numbers"], level["is_ring"], level["is_wrapped"]
        self.skills = [
            (scale, shift)
            for scale in range(2, level["largest_scale"] + 1)
            for shift in range(level["largest_shift"] + 1)
        ]
        self.scales, self.shifts = (np.array(values) for values in zip(*self.skills, strict=True))
        self.fits = np.ones(len(self.skills), dtype=bool)

    def plain(self, skill):
        return skill["scale"], skill["shift"]

    def _shown(self, skills, numbers, at):
        """Readings at a place under some skills and, each with one of them, for some hidden numbers."""
        away = numbers - at
        turns = [away - self.n, away, away + self.n] if self.is_ring else [away]
        shown = self.scales[skills] * np.abs(turns).min(axis=0) + self.shifts[skills]
        return shown - self.n * (shown // self.n) if self.wraps else shown

    def _pairs(self, at, shown):
        """Skills that are left, each with a number that it allows."""
        skills = np.repeat(np.flatnonzero(self.fits), self.n)
        numbers = np.tile(np.arange(self.n), self.fits.sum())
        fits = self._shown(skills, numbers, at) == shown
        return skills[fits], numbers[fits]

    def _keep(self, skills, numbers):
        self.pairs = skills, numbers
        self.fits = np.isin(np.arange(self.fits.size), skills)

    def open_round(self, text):
        at, shown = (int(n) for n in re.search(r"put at (\d+), shows (\d+)", text).groups())
        self._keep(*self._pairs(at, shown))
        self.is_solved = False

    def choose(self):
        # the hidden number that most pairs of skill and number speak for
        return str(np.bincount(self.pairs[1]).argmax())

    def hear(self, action, feedback):
        guess = int(action)
        told = int(re.search(r"shows (\d+)", feedback)[1])
        self.is_solved = "is the hidden" in feedback
        skills, numbers = self.pairs
        fits = (self._shown(skills, numbers, guess) == told) & ((numbers == guess) == self.is_solved)
        self._keep(skills[fits], numbers[fits])

    def answers(self, text):
        at, shown, side = re.search(r"put at (\d+), shows (\d+)\..* is (larger|smaller)", text).groups()
        numbers = np.unique(self._pairs(int(at), int(shown))[1])
        return {str(number) for number in numbers if (number > int(at)) == (side == "larger")}


class Traveller(Player):
    colours = ("red", "blue", "green", "white")

    def __init__(self, level):
        limits = list(permutations(range(1, 7), 2))
        pairs = list(permutations(range(4), 2)) if level["has_colours"] else [None]
        exchanges = range(4) if level["may_exchange"] else [None]
        self.skills = [(*both, pair, colour) for both, pair, colour in product(limits, pairs, exchanges)]
        self.climbs, self.descents = (np.array([skill[place] for skill in self.skills]) for place in (0, 1))
        self.barred = np.array([skill[2] or (-1, -1) for skill in self.skills])
        self.exchanging = np.array([-1 if skill[3] is None else skill[3] for skill in self.skills])
        self.fits = np.ones(len(self.skills), dtype=bool)

    def plain(self, skill):
        return skill["climb"], skill["descent"], skill["barred"], skill["exchanging"]

    def _network(self, text):
        found = re.findall(r"([A-P]) \((?:(\w+), )?height (\d)\)", text)
        places = {n: (self.colours.index(c) if c else 0, int(h)) for n, c, h in found}
        links = {frozenset(pair.split("-")) for pair in re.findall(r"[A-P]-[A-P]", text)}
        return places, links

    def _is_open(self, here, there):
        """Under every skill."""
        (colour, height), (other, next_height) = here, there
        exchanged = self.exchanging == colour
        climbs = np.where(exchanged, self.descents, self.climbs)
        descents = np.where(exchanged, self.climbs, self.descents)
        barred = (self.barred == (colour, other)).all(axis=1)
        return (next_height - height <= climbs) & (height - next_height <= descents) & ~barred

    def _opened(self, places, links):
        one_way = [tuple(pair) for pair in links]
        both = one_way + [pair[::-1] for pair in one_way]
        return {pair: self._is_open(places[pair[0]], places[pair[1]]) for pair in both}

    def open_round(self, text):
        self.places, self.links = self._network(text)
        self.here, self.target = re.search(r"You are at ([A-P]); go to ([A-P])", text).groups()
        self.opened = self._opened(self.places, self.links)
        self.is_solved = False

    def _routes(self, opened, skill, start, target):
        """All shortest routes under one skill, by layers."""
        layer, seen = [[start]], {start}
        while layer and not any(route[-1] == target for route in layer):
            longer = [
                [*route, there]
                for route in layer
                for (here, there), is_open in opened.items()
                if here == route[-1] and is_open[skill] and there not in seen
            ]
            seen |= {route[-1] for route in longer}
            layer = longer
        return [route for route in layer if route[-1] == target]

    def choose(self):
        for skill in np.flatnonzero(self.fits)[:100]:
            if routes := self._routes(self.opened, skill, self.here, self.target):
                return min(routes)[1]
        return min(there for here, there in self.opened if here == self.here)

    def hear(self, action, feedback):
        is_open = "is closed" not in feedback
        self.fits &= self.opened[self.here, action] == is_open
        if is_open:
            self.here = action
            signs = re.search(
                r"Open from there: ([A-P ]+|none)\. Closed from there: ([A-P ]+|none)\.", feedback
            )
            for names, is_open_to in zip(signs.groups(), (True, False), strict=True):
                for there in "" if names == "none" else names.split():
                    self.fits &= self.opened[self.here, there] == is_open_to
        assert f"at {self.here}." in feedback
        self.is_solved = self.here == self.target

    def n_moves(self, start):
        """Moves from a place to the target under the first skill that is left."""
        return len(self._routes(self.opened, self.first(), start, self.target)[0]) - 1

    def answers(self, text):
        places, links = self._network(text)
        start, target = re.search(r"From ([A-P]) to ([A-P])", text).groups()
        opened = self._opened(places, links)
        which = np.flatnonzero(self.fits)
        # skills under which the same links are open have the same routes
        maps = np.stack([opened[pair][which] for pair in opened], axis=1)
        _, ones = np.unique(maps, axis=0, return_index=True)
        return {
            " ".join(route) for skill in which[ones] for route in self._routes(opened, skill, start, target)
        }


class Weigher(Player):
    materials = ("tin", "glass", "horn")

    def __init__(self, level):
        self.changes = level["changes"]
        weights = range(level["lightest"], level["heaviest"] + 1)
        biases = range(-level["largest_bias"], level["largest_bias"] + 1)
        self.skills = [(of, bias) for of in product(weights, repeat=3) for bias in biases]
        self.weights = np.array([of for of, _ in self.skills])
        self.biases = np.array([bias for _, bias in self.skills])
        self.fits = np.ones(len(self.skills), dtype=bool)

    def plain(self, skill):
        return tuple(skill["weights"]), skill["bias"]

    def _items(self, text):
        return [self.materials.index(word) for word in re.findall(r"\d+ (tin|glass|horn)", text)]

    def _pans(self, text, n):
        left, right = ({int(item) for item in pan.split()} for pan in text.split("|"))
        return np.array([(item in left) - (item in right) for item in range(1, n + 1)])

    def _all(self, items):
        """Whether each skill, with each odd item and change, is left: skills x items x changes."""
        return np.broadcast_to(
            self.fits[:, None, None], (self.fits.size, len(items), len(self.changes))
        ).copy()

    def _shown(self, items, pans):
        plain = self.weights[:, items] @ pans + self.biases
        return plain[:, None, None] + (pans[:, None] * np.array(self.changes))[None]

    def open_round(self, text):
        self.items = self._items(text)
        self.left = self._all(self.items)
        self.is_solved = False

    def _findings(self):
        """Items with weights that are left, each once."""
        skill, item, change = np.nonzero(self.left)
        weight = self.weights[skill, np.array(self.items)[item]] + np.array(self.changes)[change]
        return np.unique(np.stack([item, weight]), axis=1).T.tolist()

    def choose(self):
        findings = self._findings()
        if len(findings) > 2:
            best = self._best_weighing()
            if best:
                return best
        item, weight = findings[0]
        return f"{item + 1} = {weight}"

    def _best_weighing(self):
        """The weighing, of a fixed choice of them, whose most likely reading leaves least."""
        n, best, least = len(self.items), None, self.left.sum()
        sample = np.stack(np.nonzero(self.left))[:, :: max(1, int(least) // 400)]
        skill, item, change = sample
        for size in (1, 2, 3):
            for turn, step in product(range(n), (1, 2, 4)):
                chosen = [(turn + step * place) % n for place in range(2 * size)]
                if len(set(chosen)) < 2 * size:
                    continue
                pans = np.zeros(n, dtype=int)
                pans[chosen[:size]], pans[chosen[size:]] = 1, -1
                shown = self.weights[:, self.items] @ pans + self.biases
                readings = shown[skill] + pans[item] * np.array(self.changes)[change]
                most = np.unique(readings, return_counts=True)[1].max()
                if most < least and most < skill.size:
                    least = most
                    left, right = (" ".join(str(i + 1) for i in np.flatnonzero(pans == s)) for s in (1, -1))
                    best = f"{left} | {right}"
        return best

    def hear(self, action, feedback):
        if "|" in action:
            told = int(re.fullmatch(r"The scale shows (-?\d+)\.", feedback)[1])
            self.left &= self._shown(self.items, self._pans(action, len(self.items))) == told
        else:
            number, weight = (int(part) for part in action.split("="))
            self.is_solved = feedback.startswith("Right")
            says = np.zeros_like(self.left)
            of_item = self.weights[:, self.items[number - 1], None] + np.array(self.changes)
            says[:, number - 1] = of_item == weight
            self.left &= says == self.is_solved
        self.fits = self.left.any(axis=(1, 2))

    def answers(self, text):
        listed, weighed = text.split("Weighings: ")
        items = self._items(listed)
        left = self._all(items)
        for pans, shown in re.findall(r"([\d ]+\|[\d ]+): (-?\d+)", weighed):
            left &= self._shown(items, self._pans(pans, len(items))) == int(shown)
        skill, item, change = np.nonzero(left)
        weight = self.weights[skill, np.array(items)[item]] + np.array(self.changes)[change]
        return {f"{i + 1} {w}" for i, w in zip(item.tolist(), weight.tolist(), strict=True)}


PLAYERS = {
    "hidden_order_sort": Sorter,
    "packet_filter": Router,
    "password_machine": Locksmith,
    "number_search": Searcher,
    "route_planning": Traveller,
    "balance_weighing": Weigher,
}
