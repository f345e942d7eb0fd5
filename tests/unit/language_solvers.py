"""Solvers of the invented languages that read the printed text alone and share no code with what is printed.

Each takes the lines of a lesson and the level, tries every rule of that level, and returns the answers of all
rules that give every form shown. Endings are read off the words that have only one of them.
"""

import re
import unicodedata
from functools import cache, partial, reduce
from itertools import combinations, permutations, product

EXAMPLE = re.compile(r"^(?P<cue>.*) -> (?:`(?P<form>[^`]+)`|\?)$")
ROOT = re.compile(r"`([^`]+)` '([a-z]+)'")
BARRED, SLASHED = "\u0268", "\u00f8"
# height, backness and rounding: 0 or 1 each
FEATURES = {
    "i": (0, 0, 0), "y": (0, 0, 1), BARRED: (0, 1, 0), "u": (0, 1, 1),
    "e": (1, 0, 0), SLASHED: (1, 0, 1), "a": (1, 1, 0), "o": (1, 1, 1),
}  # fmt: skip
LETTER = {features: vowel for vowel, features in FEATURES.items()}
NARROW = "\u02e4"


def read(line):
    """Return roots with their meanings, features, and the form (None in a question)."""
    match = EXAMPLE.match(line)
    roots = ROOT.findall(match["cue"])
    features = tuple(re.findall(r"\+ ([A-Z]+)", match["cue"]))
    return roots, features, match["form"]


def flipped(vowel, dimension):
    features = list(FEATURES[vowel])
    features[dimension] = 1 - features[dimension]
    return LETTER[tuple(features)]


def with_value(vowel, dimension, value):
    return vowel if FEATURES[vowel][dimension] == value else flipped(vowel, dimension)


def decided(values, ruler, otherwise):
    if not values:
        return otherwise
    match ruler:
        case "first":
            return values[0]
        case "last":
            return values[-1]
        case "strong 0":
            return min(values)
        case "strong 1":
            return max(values)


def by_single_endings(lines, asked, realise, candidates):
    """Yield answers of every lexicon of endings under one rule, ``realise(root, endings)``."""
    singles = {}
    for root, features, form in lines:
        if len(features) == 1:
            singles.setdefault(features[0], []).append((root, form))
    lexicon = {}
    for feature, forms in singles.items():
        root, form = forms[0]
        if not form.startswith(root):
            return
        lexicon[feature] = [
            ending
            for ending in candidates(form[len(root) :])
            if all(realise(root, [ending]) == form for root, form in forms)
        ]
        if not lexicon[feature]:
            return
    for chosen in product(*lexicon.values()):
        endings = dict(zip(lexicon, chosen, strict=True))
        if all(realise(root, [endings[f] for f in features]) == form for root, features, form in lines):
            yield tuple(realise(root, [endings[f] for f in features]) for root, features, _ in asked)


def one_root(lines):
    return [(roots[0][0], features, form) for roots, features, form in map(read, lines)]


def heard(word, dimension, silent=()):
    return [FEATURES[v][dimension] for v in word if v in FEATURES and v not in silent]


def harmonised(root, endings, rulings, silent, otherwise, is_local):
    """Return a word; ``rulings`` says per dimension which vowel of the root decides."""
    values = {d: decided(heard(root, d, silent), ruler, otherwise) for d, ruler in rulings}
    for ending, agrees in endings:
        said = ending
        for d in values if agrees else ():
            said = "".join(
                with_value(x, d, values[d]) if x in FEATURES and x not in silent else x for x in said
            )
        root += said
        if is_local:
            values = {d: (heard(said, d, silent) or [value])[-1] for d, value in values.items()}
    return root


def vowel_harmony(lines, questions, level):
    def candidates(tail):
        for vowel in FEATURES:
            yield "".join(vowel if sound in FEATURES else sound for sound in tail), True
        if level > 1:
            yield tail, False

    found = set()
    for dimensions in [(d,) for d in range(3)] if level < 3 else [(0, 1), (0, 2), (1, 2)]:
        # a silent pair differs in the dimension alone
        pairs = {frozenset((v, flipped(v, dimensions[0]))) for v in FEATURES} if level == 2 else {()}
        for silent, otherwise, is_local, rulers in product(
            pairs,
            (0, 1) if level == 2 else (0,),
            (False, True) if level > 1 else (False,),
            product(("first", "last", "strong 0", "strong 1"), repeat=len(dimensions)),
        ):
            rulings = tuple(zip(dimensions, rulers, strict=True))
            realise = partial(
                harmonised, rulings=rulings, silent=silent, otherwise=otherwise, is_local=is_local
            )
            found |= set(by_single_endings(one_root(lines), one_root(questions), realise, candidates))
    return found


def drelkovak(lines, questions, level):
    rulers = ("first", "last") if level == 1 else ("first", "last", "strong 0", "strong 1")
    stops = ("", "pbm", "kg") if level > 1 else ("",)
    pulls = (None, 0, 1) if level > 2 else (None,)
    groups = ("td", "sz", "nlr")
    targets = {"".join(some) for n in (1, 2, 3) for some in combinations(groups, n)}
    found = set()

    def candidates(tail):
        for vowel in FEATURES:
            yield "".join(vowel if x in FEATURES else x for x in tail.replace(NARROW, ""))

    for dimension, ruler, source, target, stop, pull in product(
        range(3), rulers, ("any", "first", "last"), targets, stops, pulls
    ):

        def realise(root, endings, d=dimension, r=ruler, so=source, t=target, st=stop, p=pull):
            value = decided([FEATURES[v][d] for v in root if v in FEATURES], r, 0)
            marks = re.findall(f"[^{''.join(FEATURES)}{NARROW}]{NARROW}?", root)
            start = {"any": NARROW in root, "first": NARROW in marks[0], "last": NARROW in marks[-1]}[so]
            if so == "first":
                after = root[root.index(NARROW) :] if start else ""
            else:
                after = root[root.rindex(NARROW) :] if start else ""
            on = start and not set(after) & set(st)
            word = root
            for sound in "".join(endings):
                if sound in st:
                    on = False
                if sound in FEATURES:
                    agreed = with_value(sound, d, value)
                    word += with_value(agreed, p, 1) if on and p is not None else agreed
                else:
                    word += sound + NARROW * (on and sound in t)
            return word

        found |= set(by_single_endings(one_root(lines), one_root(questions), realise, candidates))
    return found


MARKS = {"\u0301": "H", "\u0300": "L", "\u0304": "M", "\u030c": "R"}
SIGNS = {tone: mark for mark, tone in MARKS.items()}
SWAP = {"H": "L", "L": "H", "M": "M"}


def untoned(word):
    """Return the letters of a word, its tones, and the letters with a gap for every tone."""
    apart = unicodedata.normalize("NFD", word)
    tones = "".join(MARKS[x] for x in apart if x in MARKS)
    gaps = "".join("_" if x in MARKS else x for x in apart)
    return gaps.replace("_", ""), tones, gaps


def toned(gaps, tones):
    left = iter(tones)
    return unicodedata.normalize("NFC", "".join(SIGNS[next(left)] if x == "_" else x for x in gaps))


TO = {"H": lambda _: "H", "L": lambda _: "L", "M": lambda _: "M", "~": SWAP.get, "=": lambda tone: tone}
SURPRISES = {
    "reversed": lambda tones: tones[::-1],
    **{f"first {x}": lambda tones, x=x: TO[x](tones[0]) + tones[1:] for x in "HL~"},
    **{f"last {x}": lambda tones, x=x: tones[:-1] + TO[x](tones[-1]) for x in "HL~"},
    **{f"all {x}": lambda tones, x=x: "".join(map(TO[x], tones)) for x in "HL~"},
}


def verb_form(root, affix, manner, surprise, is_first, when):
    """Return a verb; ``when`` is 0, 1 or 2: surprise acts before, after or on the affix too."""
    _, melody, gaps = untoned(root)
    acts = SURPRISES.get(surprise, TO["="])
    melody = acts(melody) if when == 0 else melody
    own = TO[manner](melody[0] if is_first else melody[-1])
    melody = acts(melody) if when == 1 else melody
    melody = own + melody if is_first else melody + own
    melody = acts(melody) if when == 2 else melody
    gap = re.sub("([aeiou\u025b\u0254])", r"\1_", affix)
    return toned(gap + gaps if is_first else gaps + gap, melody)


def affixes_at(lines, is_first):
    """Return the letters of every evidential's affix, or None if an affix stands at the other side."""
    found = {}
    for root, features, form in lines:
        letters, whole = untoned(root)[0], untoned(form)[0]
        if not (whole.endswith(letters) if is_first else whole.startswith(letters)):
            return None
        found[features[0]] = whole[: -len(letters)] if is_first else whole[len(letters) :]
    return found


def gwelthar(lines, questions, level):
    shown, asked = one_root(lines), one_root(questions)
    names = sorted({features[0] for _, features, _ in shown})
    found = set()
    for is_first, when, odd in product(
        (True, False), range(3) if level > 1 else (0,), [None, *names] if level > 2 else [None]
    ):
        affixes = affixes_at(shown, is_first)
        if affixes is None:
            continue

        def fits(name, manner, surprise, has_surprise, affixes=affixes, is_first=is_first, when=when):
            return all(
                verb_form(root, affixes[name], manner, surprise, is_first, when) == form
                for root, features, form in shown
                if features[0] == name and (len(features) == 2) == has_surprise
            )

        manners = "=~HL" if level < 3 else "=~HLM"
        possible = [[m for m in manners if fits(name, m, None, False)] for name in names]
        for chosen in product(*possible):
            manner = dict(zip(names, chosen, strict=True))
            usual, strange = (
                [
                    s
                    for s in SURPRISES
                    if all(fits(n, manner[n], s, True) for n in names if (n == odd) == apart)
                ]
                for apart in (False, True)
            )
            for acts in product(usual, strange):
                found.add(
                    tuple(
                        verb_form(
                            root,
                            affixes[name],
                            manner[name],
                            acts[name == odd] if surprise else None,
                            is_first,
                            when,
                        )
                        for root, (name, *surprise), _ in asked
                    )
                )
    return found


@cache
def through(word, rule, backwards):
    """Send one rule through a word of tones."""
    a, b, place, new = rule
    word = list(word)
    steps = range(len(word) - 1)
    for k in reversed(steps) if backwards else steps:
        if word[k] == a and word[k + 1] == b:
            word[k + place] = new
    return "".join(word)


def compound(line):
    roots, _, form = read(line)
    _, tones, gaps = untoned("".join(root for root, _ in roots))
    return gaps, tones, form and untoned(form)[1]


def tone_sandhi(lines, questions, level):
    tones = "HLM" if level < 3 else "HLMR"
    kinds = product(tones, tones, (0, 1), tones)
    rules = [(a, b, place, new) for a, b, place, new in kinds if new != (a, b)[place]]
    shown, asked = [compound(line) for line in lines], [compound(line) for line in questions]
    found = set()
    for backwards, system in product((False, True), permutations(rules, 1 if level == 1 else 2)):

        def result(word, system=system, backwards=backwards):
            return reduce(lambda word, rule: through(word, rule, backwards), system, word)

        if all(result(word) == form for _, word, form in shown):
            found.add(tuple(toned(gaps, result(word)) for gaps, word, _ in asked))
    return found


VOWELS = "aeiou"
CONDITIONS = (
    lambda root: bool(re.match("[aeiou]", root)),
    lambda root: bool(re.search("[aeiou]$", root)),
    lambda root: len(re.findall("[aeiou]", root)) > 2,
    lambda root: bool(re.search("[ei][^aeiou]*$", root)),
    lambda root: bool(re.search("[lmnr]", root)),
)


def by_pattern(lines, questions, level, patterns):
    """Answers where every feature, and at level 3 every kind of root, has a pattern of its own."""
    shown, asked = one_root(lines), one_root(questions)
    found = set()
    for condition in CONDITIONS if level == 3 else (lambda root: False,):
        options = []
        for root, (feature,), _ in asked:
            alike = [
                (other, form)
                for other, (name,), form in shown
                if name == feature and condition(other) == condition(root)
            ]
            fits = {p(root) for p in patterns if all(p(other) == form for other, form in alike)}
            options.append(fits)
        # what one question leaves open is open for all: none of them may be
        found |= set(product(*options))
    return found


def ablaut(lines, questions, level):
    row = ["u", "o", "a", "e", "i"]
    maps = [dict(zip(row, row[k:] + row[:k], strict=True)) for k in range(1, 5)]
    maps += [dict(zip(row, [*row[1:], "i"], strict=True)), dict(zip(row, ["u", *row[:-1]], strict=True))]
    maps += [dict(zip(row, row[::-1], strict=True))] + [dict.fromkeys(row, v) for v in row]
    pairs = ["pb", "td", "kg", "sz", "fv"]
    voice = {x: y for p in pairs for x, y in (p, p[::-1])}

    def vowels_changed(root, change, places):
        spots = [m.start() for m in re.finditer("[aeiou]", root)]
        spots = {"first": spots[:1], "last": spots[-1:], "all": spots}[places]
        return "".join(change[x] if k in spots else x for k, x in enumerate(root))

    def ends(root, kind):
        first, *_, last = re.findall("[aeiou]", root)
        head, tail = {"swap": (last, first), "copy on": (first, first), "copy back": (last, last)}[kind]
        root = re.sub("^([^aeiou]*)[aeiou]", rf"\g<1>{head}", root)
        return re.sub("[aeiou]([^aeiou]*)$", rf"{tail}\g<1>", root)

    vocalic = [lambda r, m=m, p=p: vowels_changed(r, m, p) for m in maps for p in ("first", "last", "all")]
    vocalic += [lambda r, k=k: ends(r, k) for k in ("swap", "copy on", "copy back")]
    consonantal = [lambda r: r]
    if level > 1:
        consonantal += [
            lambda r: re.sub("^([aeiou]*)([^aeiou])", lambda m: m[1] + voice.get(m[2], m[2]), r),
            lambda r: re.sub("([^aeiou])([aeiou]*)$", lambda m: voice.get(m[1], m[1]) + m[2], r),
            lambda r: re.sub("([^aeiou])([aeiou]*)$", r"\1\1\2", r),
        ]
    patterns = [lambda r, f=f, g=g: g(f(r)) for f, g in product(vocalic, consonantal)]
    return by_pattern(lines, questions, level, patterns)


def reduplication(lines, questions, level):
    parts = (
        "^([^aeiou]*[aeiou])",
        "^([^aeiou]*[aeiou].)",
        "^([^aeiou]*[aeiou][^aeiou]*[aeiou])",
        "^(.*)$",
        "([aeiou][^aeiou]*)$",
        "([^aeiou][aeiou][^aeiou]*)$",
    )
    changes = [lambda c: c]
    if level > 1:
        changes += [lambda c, v=v: re.sub("[aeiou]", v, c) for v in VOWELS]
        changes += [lambda c, x=x: x + re.sub("^[^aeiou]", "", c) for x in "mrt"]

    def made(root, part, place, change):
        copy = change(re.search(part, root)[1])
        if place == "inside":
            return re.sub("^([^aeiou]*[aeiou])", lambda m: m[1] + copy, root)
        return copy + root if place == "before" else root + copy

    patterns = [
        lambda r, a=a, b=b, c=c: made(r, a, b, c)
        for a, b, c in product(parts, ("before", "after", "inside"), changes)
    ]
    return by_pattern(lines, questions, level, patterns)


def attached(word, affix, is_first, between_vowels, between_consonants):
    # written for an affix that follows; one that precedes is the mirror image
    word, affix = (word[::-1], affix[::-1]) if is_first else (word, affix)
    kinds = {word[-1] in VOWELS, affix[0] in VOWELS}
    how = "stay" if len(kinds) == 2 else between_vowels if kinds == {True} else between_consonants
    joined = {"stay": word + affix, "lose": word[:-1] + affix}.get(how, word + how + affix)
    return joined[::-1] if is_first else joined


def edges(form, is_first):
    """Return the first or the last one to three sounds of a form, if there is a vowel among them."""
    pieces = [form[:n] if is_first else form[-n:] for n in (1, 2, 3)]
    return [piece for piece in pieces if re.search("[aeiou]", piece)]


def told(root, features, evidence, surprise, is_first, repairs, merged, copied):
    name = features[0]
    if merged and len(features) == 2 and name == merged[0]:
        name = merged[1]
    word = attached(root, evidence[name], is_first, *repairs)
    if len(features) == 1:
        return word
    if copied is not None:
        surprise = re.sub("[aeiou]", re.findall("[aeiou]", root)[copied], surprise)
    return attached(word, surprise, not is_first, *repairs)


def evidential_mirative(lines, questions, level):
    shown, asked = one_root(lines), one_root(questions)
    names = ("SEEN", "HEARD", "GUESSED")
    plain = {name: [(r, form) for r, features, form in shown if features == (name,)] for name in names}
    strange = [line for line in shown if len(line[1]) == 2]
    clashes = ("stay", "lose", *VOWELS) if level > 1 else ("stay",)
    mergers = [None, *permutations(names, 2)] if level > 1 else [None]
    copies = (None, 0, -1) if level > 2 else (None,)
    found = set()
    for is_first, *repairs in product((True, False), ("stay", "lose", "h", "j", "w"), clashes):
        possible = [
            [
                piece
                for piece in edges(forms[0][1], is_first)
                if all(attached(root, piece, is_first, *repairs) == form for root, form in forms)
            ]
            for forms in plain.values()
        ]
        pieces = edges(strange[0][2], not is_first)
        for *chosen, merged, copied, piece in product(*possible, mergers, copies, pieces):
            evidence = dict(zip(names, chosen, strict=True))
            rest = evidence, piece, is_first, repairs, merged, copied
            if all(told(root, features, *rest) == form for root, features, form in strange):
                found.add(tuple(told(root, features, *rest) for root, features, _ in asked))
    return found


NOUN = re.compile(r"(?:subject|object) `([a-z]+)` '([a-z]+)', (SINGULAR|PLURAL)")
WHOSE = (
    lambda nouns: nouns[0],
    lambda nouns: nouns[1],
    lambda nouns: max(nouns, key=lambda noun: noun[1]),
    lambda nouns: max(nouns, key=lambda noun: noun[2] == "PLURAL"),
)


def sides(of_class, number, is_fused):
    """Return every arrangement of the affixes' names before and after the verb."""
    if is_fused:
        return [(((of_class, number),), ()), ((), ((of_class, number),))]
    c, n = ("class", of_class), ("number", number)
    return [((c,), (n,)), ((n,), (c,)), ((c, n), ()), ((n, c), ()), ((), (c, n)), ((), (n, c))]


def cuts(text, n):
    """Return every way to cut a text into ``n`` pieces with a vowel each."""
    if n == 0:
        return [()] if text == "" else []
    heads = [k for k in range(1, len(text) + 1) if re.search("[aeiou]", text[:k])]
    return [(text[:k], *rest) for k in heads for rest in cuts(text[k:], n - 1)]


def lexicons(rows, known):
    """Yield every lexicon of affixes that gives all verbs."""
    if not rows:
        yield known
        return
    (verb, (before, after), form), *rest = rows
    for start in re.finditer(f"(?={verb})", form):
        at = start.start()
        for pieces in product(cuts(form[:at], len(before)), cuts(form[at + len(verb) :], len(after))):
            new = dict(zip((*before, *after), (*pieces[0], *pieces[1]), strict=True))
            if all(known.get(name, text) == text for name, text in new.items()):
                yield from lexicons(rest, known | new)


def agreement(lines, questions, level, kind_of):
    """``kind_of`` says of a meaning whether it is a person (2), an animal (1) or a thing (0)."""
    classes = [lambda noun: noun[1], lambda noun: noun[1] == 2, lambda noun: noun[1] == 0]
    classes += [lambda noun, holds=holds: holds(noun[0]) for holds in CONDITIONS[:4]]
    whose = WHOSE if level > 1 else WHOSE[:1]
    pairs = list(product(whose, whose)) if level == 3 else [(one, one) for one in whose]

    def parsed(line):
        nouns = [(root, kind_of(gloss), number) for root, gloss, number in NOUN.findall(line)]
        return read(line)[0][0][0], nouns, read(line)[2]

    found = set()
    for is_a, (ruler, counter), k in product(classes, pairs, range(6 if level == 3 else 2)):

        def arranged(line, is_a=is_a, ruler=ruler, counter=counter, k=k):
            verb, nouns, form = parsed(line)
            return verb, sides(is_a(ruler(nouns)), counter(nouns)[2], level < 3)[k], form

        for known in lexicons([arranged(line) for line in lines], {}):
            answer = []
            for verb, (before, after), _ in map(arranged, questions):
                left, right = ("".join(known.get(name, "?") for name in side) for side in (before, after))
                answer.append(left + verb + right)
            found.add(tuple(answer))
    return found
