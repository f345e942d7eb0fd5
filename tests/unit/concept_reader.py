"""A reader of concept lessons: what do the texts alone say of the answers?

It takes an introduction, the lines of the examples and of the questions, and tries every rule that the
introduction allows. It knows nothing of how lessons are made.
"""

import re
from itertools import combinations, permutations, product

ACCEPT, REJECT = "ACCEPT", "REJECT"


def answers_that_fit(introduction, examples, questions):
    """Return the answers, as tuples, of all rules that the introduction allows and no example refutes."""
    if "turns strings into strings" in introduction:
        return _rewritten(introduction, examples, questions)
    shown = [line.rpartition(": ") for line in examples]
    asked = [line.rpartition(": ")[0] for line in questions]
    inputs = [text for text, _, _ in shown] + asked
    known = (1 << len(shown)) - 1
    told = sum(1 << place for place, (_, _, label) in enumerate(shown) if label == ACCEPT)
    wrong = re.search(r"At most (one|two) labels? of all the examples", introduction)
    most_wrong = {"one": 1, "two": 2}[wrong[1]] if wrong else 0
    return {
        tuple(ACCEPT if rule >> place & 1 else REJECT for place in range(len(shown), len(inputs)))
        for rule in _rules(introduction, inputs)
        if ((rule ^ told) & known).bit_count() <= most_wrong
    }


def _rules(introduction, inputs):
    """Return the rules as integers: bit k says whether input k is accepted."""
    if "unbroken range" in introduction:
        return _ranges(introduction, [int(text) for text in inputs])
    if "figures" in introduction:
        return _figures(introduction, inputs)
    read, kinds = next(pair for key, pair in _SUBJECTS.items() if key in introduction)
    values = [read(text) for text in inputs]
    everything = (1 << len(inputs)) - 1
    highest = int((re.search(r"numbers from 1 to (\d+)", introduction) or [0, 0])[1])
    letters = re.findall(r"\b[a-z]\b", (re.search(r"each of them (.*), written", introduction) or [0, ""])[1])
    single = {
        _mask(holds, values)
        for sentence in re.findall(r"^- (.*)$", introduction, re.MULTILINE)
        for holds in kinds[sentence](letters or highest)
    }
    if "what lacks it" in introduction:
        single |= {rule ^ everything for rule in single}
    if "two such properties" in introduction:
        pairs = list(combinations(single, 2))
        single |= {one & other for one, other in pairs} | {one | other for one, other in pairs}
    return single


def _mask(holds, values):
    return sum(1 << place for place, value in enumerate(values) if holds(value))


def _bounds(quantity, low, high):
    for limit in range(low, high + 1):
        yield lambda value, limit=limit: quantity(value) >= limit
        yield lambda value, limit=limit: quantity(value) <= limit


def _is(quantity, options):
    return [lambda value, option=option: quantity(value) == option for option in options]


def _leaves(quantity, divisors):
    return [lambda value, d=d, r=r: quantity(value) % d == r for d in divisors for r in range(d)]


def _order(value):
    return (value[0] > value[1]) - (value[0] < value[1])


def _digits(text):
    return tuple(int(digit) for digit in text)


_NUMBER = {
    "The number leaves a certain remainder, 0 included, when it is divided by 2, 3, 4, 5 or 6.": lambda _: (
        _leaves(lambda n: 10 * n[0] + n[1], (2, 3, 4, 5, 6))
    ),
    "The last digit is at least, or at most, a certain digit.": lambda _: _bounds(lambda n: n[1], 0, 9),
    "The first digit is at least, or at most, a certain digit.": lambda _: _bounds(lambda n: n[0], 0, 9),
    "The first digit is larger than, smaller than, or the same as the last digit.": lambda _: _is(
        _order, (1, -1, 0)
    ),
    "The sum of the two digits is at least, or at most, a certain number.": lambda _: _bounds(sum, 0, 20),
    "The sum of the two digits leaves a certain remainder when it is divided by 2, 3, 4 or 5.": lambda _: (
        _leaves(sum, (2, 3, 4, 5))
    ),
    "The larger digit minus the smaller digit is at least, or at most, a certain number.": lambda _: _bounds(
        lambda n: max(n) - min(n), 0, 9
    ),
    "At least one of the two digits is a certain digit.": lambda _: [
        lambda n, digit=digit: digit in n for digit in range(10)
    ],
}
_PAIR = {
    "The first number minus the second is at least, or at most, a certain number, which may be "
    "negative.": lambda top: _bounds(lambda p: p[0] - p[1], -top, top),
    "The larger of the two minus the smaller one is at least, or at most, a certain number.": lambda top: (
        _bounds(lambda p: max(p) - min(p), 0, top)
    ),
    "The sum of the two is at least, or at most, a certain number.": lambda top: _bounds(sum, 0, 2 * top),
    "The sum of the two leaves a certain remainder when it is divided by 2, 3 or 4.": lambda _: _leaves(
        sum, (2, 3, 4)
    ),
    "The first is a multiple of the second; or the second is a multiple of the first; or one of the two, "
    "whichever, is a multiple of the other. A number is a multiple of itself.": lambda _: [
        lambda p: not p[0] % p[1],
        lambda p: not p[1] % p[0],
        lambda p: not max(p) % min(p),
    ],
    "Twice the one number minus the other is at least, or at most, a certain number, which may be negative; "
    "either of the two may be the doubled one.": lambda top: [
        *_bounds(lambda p: 2 * p[0] - p[1], -top, 2 * top),
        *_bounds(lambda p: 2 * p[1] - p[0], -top, 2 * top),
    ],
    "The product of the two leaves a certain remainder when it is divided by 2, 3 or 4.": lambda _: _leaves(
        lambda p: p[0] * p[1], (2, 3, 4)
    ),
}
_TRIPLE = {
    "A certain one of the first, the second and the third number is the largest, or the smallest, or the "
    "middle one in size.": lambda _: [
        lambda t, place=place, rank=rank: sorted(t).index(t[place]) == rank
        for place in range(3)
        for rank in range(3)
    ],
    "The sum of all three is at least, or at most, a certain number.": lambda top: _bounds(sum, 0, 3 * top),
    "The sum of all three leaves a certain remainder when it is divided by 2, 3 or 4.": lambda _: _leaves(
        sum, (2, 3, 4)
    ),
    "A certain one of the three is larger than the sum of the two others.": lambda _: [
        lambda t, place=place: t[place] > sum(t[:place] + t[place + 1 :]) for place in range(3)
    ],
    "The distance between the first and the second (the larger minus the smaller) is larger than, smaller "
    "than, or the same as the distance between the second and the third.": lambda _: _is(
        lambda t: _order((abs(t[0] - t[1]), abs(t[1] - t[2]))), (1, -1, 0)
    ),
    "The largest minus the smallest is at least, or at most, a certain number.": lambda top: _bounds(
        lambda t: max(t) - min(t), 0, top
    ),
    "The middle one in size is at least, or at most, a certain number.": lambda top: _bounds(
        lambda t: sorted(t)[1], 0, top
    ),
    "A certain number of the three, from none to all, are odd.": lambda _: _is(
        lambda t: [n % 2 for n in t].count(1), range(4)
    ),
}
_STRING = {
    "The string begins with a certain letter.": lambda letters: [
        lambda s, x=x: s.startswith(x) for x in letters
    ],
    "The string ends with a certain letter.": lambda letters: [lambda s, x=x: s.endswith(x) for x in letters],
    "The string contains a certain letter.": lambda letters: [lambda s, x=x: s.count(x) > 0 for x in letters],
    "The string contains a certain letter directly followed by a certain letter; the two may be the "
    "same.": lambda letters: [
        lambda s, x=x, y=y: any(s[k] == x and s[k + 1] == y for k in range(len(s) - 1))
        for x in letters
        for y in letters
    ],
    "A certain letter stands somewhere before a certain other letter, not necessarily "
    "directly.": lambda letters: [
        lambda s, x=x, y=y: re.search(f"{x}.*{y}", s) for x in letters for y in letters if x != y
    ],
    "A certain letter occurs at least, or at most, a certain number of times.": lambda letters: [
        holds for x in letters for holds in _bounds(lambda s, x=x: s.count(x), 0, 6)
    ],
    "A certain letter occurs an even number of times (or not at all), or an odd number of "
    "times.": lambda letters: [holds for x in letters for holds in _leaves(lambda s, x=x: s.count(x), (2,))],
    "The string begins and ends with the same letter.": lambda _: [lambda s: s.startswith(s[-1])],
    "Some letter is directly followed by the same letter.": lambda _: [lambda s: re.search(r"(.)\1", s)],
    "The string reads the same forwards and backwards.": lambda _: [lambda s: list(s) == list(reversed(s))],
    "The string has a certain number of different letters.": lambda _: _is(lambda s: len({*s}), range(1, 7)),
}
_SET = {
    "A certain number is in the set.": lambda top: [lambda s, n=n: n in s for n in range(1, top + 1)],
    "The smallest member is at least, or at most, a certain number.": lambda top: _bounds(min, 0, top),
    "The largest member is at least, or at most, a certain number.": lambda top: _bounds(max, 0, top),
    "The set has at least, or at most, a certain number of members.": lambda top: _bounds(len, 0, top),
    "The sum of the members is at least, or at most, a certain number.": lambda top: _bounds(sum, 0, 5 * top),
    "The sum of the members leaves a certain remainder when it is divided by 2, 3 or 4.": lambda _: _leaves(
        sum, (2, 3, 4)
    ),
    "At least, or at most, a certain number of members are odd.": lambda top: _bounds(
        lambda s: len([n for n in s if n & 1]), 0, top
    ),
    "At least, or at most, a certain number of members are even.": lambda top: _bounds(
        lambda s: len([n for n in s if not n & 1]), 0, top
    ),
    "The largest member minus the smallest is at least, or at most, a certain number.": lambda top: _bounds(
        lambda s: max(s) - min(s), 0, top
    ),
    "The smallest difference between two members is a certain number.": lambda top: _is(
        lambda s: min(abs(a - b) for a, b in combinations(s, 2)), range(1, top + 1)
    ),
}


def _integers(text):
    return tuple(int(number) for number in re.findall(r"\d+", text))


_SUBJECTS = {
    "whole numbers from 10 to 99": (_digits, _NUMBER),
    "ordered pairs": (_integers, _PAIR),
    "triples": (_integers, _TRIPLE),
    "strings of": (lambda text: text.replace(" ", ""), _STRING),
    "sets of": (_integers, _SET),
}


def _ranges(introduction, numbers):
    last = int(re.search(r"numbers from 1 to (\d+)", introduction)[1])
    blocks = re.search(r"blocks of (\d+) numbers", introduction)
    width = int(blocks[1]) if blocks else 1
    ends = range(0, last + 1, width)
    one = {_mask(lambda n, a=a, b=b: a < n <= b, numbers) for a, b in combinations(ends, 2)}
    rules = set(one)
    if "two such ranges" in introduction:
        rules |= {first | second for first, second in combinations(one, 2)}
    if "Either the accepted numbers or the rejected numbers" in introduction:
        rules |= {rule ^ ((1 << len(numbers)) - 1) for rule in rules}
    return rules


def _figures(introduction, inputs):
    attributes = [
        re.split(r", | or ", values) for values in re.findall(r"^- \w+: (.*)$", introduction, re.MULTILINE)
    ]
    everything = (1 << len(inputs)) - 1
    words = [text.split() for text in inputs]
    values = [(place, _mask(lambda w, v=v: v in w, words)) for place, of in enumerate(attributes) for v in of]
    if "There is a main rule" in introduction:
        return _with_exceptions(introduction, values, everything)
    if "not having the value" in introduction:
        values += [(place, rule ^ everything) for place, rule in values]
    return {
        rule
        for sentence in re.findall(r"^- (It .*)$", introduction, re.MULTILINE)
        for rule in _FORMS[sentence](values)
    }


def _apart(values, n):
    """Return the ways to take values of ``n`` different attributes, in every order."""
    for some in permutations(values, n):
        if len({place for place, _ in some}) == n:
            yield [rule for _, rule in some]


def _pairs_of_pairs(values):
    pairs = {one & other for one, other in _apart(values, 2)}
    return [one | other for one, other in combinations(pairs, 2)]


_FORMS = {
    "It has a certain value.": lambda v: [rule for _, rule in v],
    "It has two certain values of different attributes, both of them.": lambda v: [
        a & b for a, b in _apart(v, 2)
    ],
    "It has at least one of two certain values of different attributes.": lambda v: [
        a | b for a, b in _apart(v, 2)
    ],
    "It has exactly one of two certain values of different attributes, not both.": lambda v: [
        a ^ b for a, b in _apart(v, 2)
    ],
    "It has three certain values of different attributes, all of them.": lambda v: [
        a & b & c for a, b, c in _apart(v, 3)
    ],
    "It has at least one of three certain values of different attributes.": lambda v: [
        a | b | c for a, b, c in _apart(v, 3)
    ],
    "It has a certain value and, besides, at least one of two others; all three are of different "
    "attributes.": lambda v: [a & (b | c) for a, b, c in _apart(v, 3)],
    "It has both values of a certain pair, or both values of a certain other pair, or all of these. The two "
    "values of a pair are of different attributes; the pairs may share a value.": _pairs_of_pairs,
}


def _with_exceptions(introduction, values, everything):
    main = {rule for _, rule in values}
    if "both, or at least one, of two certain values" in introduction:
        main |= {one & other for one, other in _apart(values, 2)}
        main |= {one | other for one, other in _apart(values, 2)}
    main |= {rule ^ everything for rule in main}
    if "every figure that has two certain values" in introduction:
        exceptional = {one & other for one, other in _apart(values, 2)}
    else:
        exceptional = {rule for _, rule in values}
    return main | {one ^ other for one, other in product(main, exceptional)}


def _rewritten(introduction, examples, questions):
    letters = re.findall(r"\b[a-z]\b", re.search(r"each of them (.*), with what", introduction)[1])
    shown = [tuple(side.split() for side in line.split(" ->")) for line in examples]
    inputs = [given for given, _ in shown] + [line.split(" ->")[0].split() for line in questions]
    told = [made for _, made in shown]
    steps = [
        step for line in re.findall(r"^- (.*)$", introduction, re.MULTILINE) for step in _STEPS[line](letters)
    ]
    once = [[step(given) for given in inputs] for step in steps]
    found = list(once)
    if "two steps one after the other" in introduction:
        found += [[step(given) for given in made] for made in once for step in steps]
    if "meet a certain condition" in introduction:
        conditions = [[given[place] == x for given in inputs] for x in letters for place in (0, -1)]
        conditions += [[x in given for given in inputs] for x in letters]
        conditions += [[given[0] == given[-1] for given in inputs]]
        found += [
            [one if holds else other for one, other, holds in zip(made, else_made, condition, strict=True)]
            for made, else_made in permutations(once, 2)
            for condition in conditions
        ]
    return {
        tuple(" ".join(string) for string in made[len(told) :]) for made in found if made[: len(told)] == told
    }


def _each(letters, of):
    return [lambda s, x=x: [made for y in s for made in of(x, y)] for x in letters]


_STEPS = {
    "reverse the string": lambda _: [lambda s: list(reversed(s))],
    "move the first letter to the end": lambda _: [lambda s: [*s[1:], *s[:1]]],
    "move the last letter to the front": lambda _: [lambda s: [*s[-1:], *s[:-1]]],
    "exchange the first and the last letter": lambda _: [
        lambda s: s if len(s) < 2 else [s[-1], *s[1:-1], s[0]]
    ],
    "write the first letter twice": lambda _: [lambda s: [*s[:1], *s]],
    "write the last letter twice": lambda _: [lambda s: [*s, *s[-1:]]],
    "drop the first letter": lambda _: [lambda s: s[1:]],
    "drop the last letter": lambda _: [lambda s: s[:-1]],
    "write the whole string twice": lambda _: [lambda s: s * 2],
    "put a certain letter in front": lambda letters: [lambda s, x=x: [x, *s] for x in letters],
    "put a certain letter at the end": lambda letters: [lambda s, x=x: [*s, x] for x in letters],
    "write every occurrence of a certain letter twice": lambda letters: _each(
        letters, lambda x, y: [y, y] if x == y else [y]
    ),
    "drop every occurrence of a certain letter": lambda letters: _each(
        letters, lambda x, y: [] if x == y else [y]
    ),
    "turn every occurrence of a certain letter into a certain other letter": lambda letters: [
        lambda s, x=x, to=to: [to if y == x else y for y in s] for x, to in permutations(letters, 2)
    ],
    "exchange two certain letters throughout, each for the other": lambda letters: [
        lambda s, x=x, to=to: [{x: to, to: x}.get(y, y) for y in s] for x, to in combinations(letters, 2)
    ],
}
