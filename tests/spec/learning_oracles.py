"""How Learning is scored, stated in Python a second time: letter by letter where SQL has expressions, in
exact fractions where SQL has doubles. Nothing here is read from the project."""

import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from spec.oracles import options_named

# ---- reading a reply ----

MARKS = "*_`\"'“”‘’«»,"
BEFORE_A_NUMBER = '>*-#_`"(•'
WORDS = ("question", "answer", "item", "q", "a")
DIGITS = "0123456789"


def is_blank(letter: str) -> bool:
    """Tell white space of any kind and what takes no room, such as a mark of direction."""
    return _is_white(letter) or unicodedata.category(letter) == "Cf"


def without(text: str, marks: str) -> str:
    """Leave out blanks and marks before a text."""
    place = 0
    while place < len(text) and (is_blank(text[place]) or text[place] in marks):
        place += 1
    return text[place:]


def without_around(text: str, marks: str) -> str:
    return without(without(text, marks)[::-1], marks)[::-1]


def answer_of_line(line: str) -> tuple[int, str] | None:
    """Return the number of the question that a line answers, and the answer; None if it answers none."""
    rest = without(line, BEFORE_A_NUMBER)
    for word in WORDS:
        if rest[: len(word)].lower() == word and without(rest[len(word) :], "_#")[:1] in (*DIGITS,):
            rest = without(rest[len(word) :], "_#")
            break
    tail = rest.lstrip(DIGITS)
    number = rest[: len(rest) - len(tail)]
    if not number or len(number.lstrip("0")) > 6:
        return None
    after = tail.lstrip('*_`")')
    closing = tail[: len(tail) - len(after)]
    if without(after, "")[:1] in (":", "："):
        return int(number), without(after, "")[1:]
    if after[:1] in (".", "=", "-"):
        return int(number), after[1:]
    if ")" in closing:
        return int(number), tail[closing.rindex(")") + 1 :]
    return None


def bare(text: str) -> str:
    """Leave out blanks, marks, quotes and commas around an answer, unless it consists of them."""
    return without_around(text, MARKS) or without_around(text, "")


def answers(reply: str, n_questions: int) -> dict[int, str | None]:
    """Return what a reply says to each question, from 1; None where it says nothing."""
    text = reply.replace("\r\n", "\n").replace("\r", "\n")
    read = [each for line in text.split("\n") if (each := answer_of_line(line)) is not None]
    # what says something, later than what does not
    said = dict(sorted(read, key=lambda each: without_around(each[1], MARKS) != ""))
    if not said and n_questions == 1:
        said = {1: text}
    return {question: bare(said.get(question, "")) or None for question in range(1, n_questions + 1)}


# ---- comparing an answer ----


def spelled(text: str) -> str:
    """Return one spelling of each letter with its accents, of which the first eight count."""
    kept, n_marks = [], 0
    for letter in text.replace("\0", "\ufffd"):
        n_marks = n_marks + 1 if unicodedata.category(letter)[0] == "M" else 0
        if n_marks <= 8:
            kept.append(letter)
    return unicodedata.normalize("NFC", "".join(kept))


def small(text: str) -> str:
    """Write capitals small, letter by letter; the small form of a dotted capital I is one letter."""
    letters = ("i" if letter == "İ" else letter.lower() for letter in spelled(text))
    return unicodedata.normalize("NFC", "".join(letters))


def one_spaced(text: str) -> str:
    """Put one space where there is white space of any kind, and none around."""
    return " ".join(
        part for part in "".join(" " if _is_white(c) else c for c in spelled(text)).split(" ") if part
    )


def _is_white(letter: str) -> bool:
    return letter in "\t\n\v\f\r\x85" or unicodedata.category(letter)[0] == "Z"


# the digit zero of each script whose digits are read
ZEROS = "0０٠۰०"
PLAIN = {ord(zero) + value: str(value) for zero in ZEROS for value in range(10)} | {
    ord("−"): "-",
    ord("－"): "-",
    ord("＋"): "+",
}


def integer(text: str) -> str | None:
    """Return the one way to write the integer that a whole text is, however long; None if it is none."""
    plain = text.translate(PLAIN)
    sign, digits = (plain[0], plain[1:]) if plain[:1] in ("+", "-") else ("", plain)
    if not digits or set(digits) - set(DIGITS):
        return None
    magnitude = digits.lstrip("0") or "0"
    return "-" + magnitude if sign == "-" and magnitude != "0" else magnitude


def integer_answered(text: str) -> str | None:
    around = "*_`\"'“”‘’«»()[]{}<>"
    return integer(without_around(without_around(text, around).removesuffix("."), around))


def elements(text: str) -> list[str]:
    """Return what stands between white space, commas, semicolons, brackets and quotes."""
    between = "".join(
        " " if _is_white(letter) or letter in ",;()[]{}\"'`“”‘’«»" else letter for letter in small(text)
    )
    parts = [part.translate(PLAIN) for part in between.split(" ") if part]
    return [integer(part) or part for part in parts]


def is_right(match_kind: str, answer: str | None, right: str) -> bool:
    """Tell whether an answer is right by its kind of match; no answer is wrong."""
    if answer is None:
        return False
    answer, right = bare(answer), bare(right)
    if match_kind == "substring":
        return small(right) in small(answer)
    if match_kind == "integer":
        return integer_answered(answer) is not None and integer_answered(answer) == integer_answered(right)
    if match_kind == "exact_nfc":
        return one_spaced(answer) == one_spaced(right)
    assert match_kind == "sequence", match_kind
    return elements(answer) == elements(right)


def is_strictly_right(match_kind: str, answer: str | None, right: str, labels: Sequence[str]) -> bool:
    """Tell whether the right label, or a right answer that is none, is the one whole word that is named."""
    if not is_right(match_kind, answer, right) or match_kind != "substring":
        return is_right(match_kind, answer, right)
    options = [small(label) for label in labels] or [small(bare(right))]
    return options_named(small(answer or ""), options) == [small(bare(right))]


def n_labels_matched(answer: str | None, labels: Sequence[str]) -> int:
    return sum(small(label) in small(answer) for label in labels) if answer is not None else 0


def position_accuracy(answer: str | None, right: str) -> Fraction:
    """Return the share of places of the right sequence that an answer has right."""
    expected, given = elements(right), elements(answer or "")
    expected, given = (list(each[0]) if len(each) == 1 else each for each in (expected, given))
    hits = sum(one == other for one, other in zip(expected, given, strict=False))
    return Fraction(hits, len(expected))


# ---- formulas ----


def fraction_correct(n_correct: int, n_questions: int) -> float:
    return n_correct / n_questions


def active_induction(
    n_correct: int,
    n_questions: int,
    n_used: int,
    n_initial: int,
    n_free: int,
    n_max: int,
    base: float = 0.40,
    bonus: float = 0.60,
) -> float:
    """Return accuracy x (base + bonus x efficiency), as the document writes it."""
    accuracy = n_correct / n_questions
    if accuracy == 0:
        return 0.0
    effective_free = max(n_initial, n_free)
    if n_used <= effective_free or n_max <= effective_free:
        efficiency = 1.0
    else:
        efficiency = max(0.0, 1.0 - (n_used - effective_free) / (n_max - effective_free))
    return accuracy * (base + bonus * efficiency)


def step_efficiency(step: int | None, budget: int, min_explore: int, floor: float = 0.10) -> float:
    """Return the efficiency of what was solved at a step; 0 of what was not."""
    if step is None:
        return 0.0
    step = max(1, min(step, budget))
    if step <= min_explore or budget <= min_explore:
        return 1.0
    return max(floor, 1.0 - (1.0 - floor) * ((step - min_explore) / (budget - min_explore)))


def runtime_rl(
    step: int | None, budget: int, min_explore: int, progress: float, *, floor: float = 0.10
) -> float:
    """Return the composite of a game as the document writes it; a step of None is one that was not solved."""
    progress = max(0.0, min(1.0, float(progress)))
    efficiency = step_efficiency(step, budget, min_explore, floor)
    return round(0.55 * float(step is not None) + 0.25 * efficiency + 0.20 * progress, 4)


@dataclass(frozen=True)
class Curve:
    """Components of a composite of practice, exact."""

    asymptote: Fraction
    slope: Fraction
    consistency: Fraction


def curve(rounds: Sequence[Fraction]) -> Curve:
    """Return the mean of the last half, the slope from 0 to 1, and the mean that weighs round i by i."""
    n = len(rounds)
    last = rounds[-max(1, n // 2) :]
    if n == 1:
        slope = Fraction(1, 2)
    else:
        middle = Fraction(n - 1, 2)
        rise = sum((x - middle) * y for x, y in enumerate(rounds)) / sum((x - middle) ** 2 for x in range(n))
        slope = (min(Fraction(1), max(Fraction(-1), rise * (n - 1))) + 1) / 2
    consistency = Fraction(sum(i * y for i, y in enumerate(rounds, start=1)), sum(range(1, n + 1)))
    return Curve(Fraction(sum(last), len(last)), slope, consistency)


def roundings(value: Fraction, decimals: int) -> list[Fraction]:
    """Return what a number near ``value`` may be rounded to: one, or two where it is as near to both."""
    scaled = value * 10**decimals
    below = scaled.numerator // scaled.denominator
    part = scaled - below
    if abs(part - Fraction(1, 2)) < Fraction(1, 10**9):
        return [Fraction(below, 10**decimals), Fraction(below + 1, 10**decimals)]
    return [Fraction(below + (part > Fraction(1, 2)), 10**decimals)]


def procedural(rounds: Sequence[float], transfer: float) -> set[float]:
    """Return what the formula gives, as Python adds and rounds: several only where the slope is a tie."""
    last = rounds[-max(1, len(rounds) // 2) :]
    asymptote = math.fsum(last) / len(last)
    consistency = math.fsum(i * y for i, y in enumerate(rounds, start=1)) / sum(range(1, len(rounds) + 1))
    if asymptote < 1e-9 and transfer < 1e-9:
        return {0.0}
    slope = curve([Fraction(each) for each in rounds]).slope
    return {
        round(0.30 * transfer + 0.25 * asymptote + 0.25 * float(trajectory) + 0.20 * consistency, 4)
        for trajectory in roundings(slope, 4)
    }


def highest_procedural(efficiencies: Iterable[float], n_rounds: int) -> float:
    """Return the highest composite, by trying every course that all rounds can take."""
    every = product(sorted(set(efficiencies)), repeat=n_rounds)
    return max(max(procedural(course, 1.0)) for course in every)
