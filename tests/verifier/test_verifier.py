"""The real verifier: right answers score 1, hostile ones end in bounded time, none gets a silent score."""

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import hostile
import pyarrow.parquet as pq
import pytest

from generate.standins import pile_like
from generate.verifier import client
from generate.verifier.client import Asked, Verdict, Verifier
from store.protocol import Grader, load_graders

pytestmark = pytest.mark.verifier

# of processor time, instead of the declared 20: what does not explode takes less than 1
TIMEOUT_S = 2.0
N_PROCESSES = 2

KNOWN_HANGS = (
    ("inverse_math", "9**9**9**9**9"),
    ("inverse_math", "10^10^10^10"),
    ("inverse_math", "factorial(10**9)"),
    ("sequential_induction", "9**9**9**9**9"),
    ("sequential_induction", "(x+1)^99999"),
    ("sequential_induction", "factorial(10**9)"),
)


def quick(**changes: object) -> Grader:
    return load_graders()["reasoning_core"].model_copy(update={"timeout_s": TIMEOUT_S} | changes)


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    return pq.read_table(pile_like.path()).to_pylist()


@pytest.fixture(scope="module")
def verifier() -> Iterator[Verifier]:
    with closing(Verifier(quick())) as opened:
        yield opened


def not_right(verifier: Verifier, rows: Iterable[dict]) -> list[tuple[str, Verdict]]:
    graded = ((row["task"], verifier.verdict(Asked(row, row["answer"]))) for row in rows)
    return [(task, verdict) for task, verdict in graded if (verdict.status, verdict.score) != ("ok", 1.0)]


def test_every_own_answer_of_the_stand_in_scores_1(rows, verifier):
    assert len(rows) == 44 * 7 + 7 * 6
    assert not_right(verifier, rows) == []


def test_every_own_answer_of_the_shared_rows_scores_1(verifier):
    path = Path(os.environ.get("COGLAKE_MIRROR") or "no mirror").parent / "pile_rows.jsonl"
    if not path.is_file():
        pytest.skip("pile_rows.jsonl is not beside COGLAKE_MIRROR")
    shared = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(shared) == 51 * 7
    assert not_right(verifier, shared) == []


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_no_family_leaves_a_thread_in_the_program_that_forks(rows, verifier):
    for row in {row["task"]: row for row in rows}.values():
        verifier.verdict(Asked(row, row["answer"]))
    assert len(list(Path(f"/proc/{verifier._process.pid}/task").iterdir())) == 1


def test_loading_a_family_is_not_on_the_clock_of_its_first_answer(rows):
    with closing(Verifier(quick())) as fresh:
        # what is slow to load: 1.7 s and 0.8 s on an idle machine, against 0.01 s for an answer
        for family in ("set_missing_element", "arithmetics"):
            row = next(row for row in rows if row["task"] == family)
            started = time.monotonic()
            verdict = fresh.verdict(Asked(row, "wrong"))
            assert verdict.seconds < (time.monotonic() - started) / 4


# --- the patch ---

# other ways to write answers of the stand-in's rows, whole fractions all of them
FRACTIONS = {
    "n^2 + n": (r"\frac{2n^2+2n}{2}", r"$\frac{n(n+1)}{1}$", r"\frac{n^2}{1} + \dfrac{n}{\frac{2}{2}}"),
    "1 - 2^n": (r"\frac{2}{2} - 2^n", r"\frac{1-2^n}{1}"),
    "3*4^n + 5^n": (r"\frac{3 \cdot 4^n}{1} + 5^n",),
    "(-2)^n*(6*n + 1)/2": (r"(-2)^n \cdot \frac{6n+1}{2}", r"\frac{(-2)^n (6n+1)}{2}"),
}
OTHER_FRACTIONS = (
    r"\frac{1}{2}",
    r"\frac{1}{3}n",
    r"\dfrac{\sqrt{4}}{2}",
    r"\frac{a}{b}",
    r"\frac{}{}",
    r"\frac{1}{0}",
)
TRUNCATED = (
    r"\frac{1",
    r"\frac{1}{",
    r"\frac{",
    r"1 + \frac{n}{2} + \frac{3",
    r"\frac{\frac{1}{2}}{3",
    "frac{1}{2",
)


@pytest.fixture
def unpatched(tmp_path, monkeypatch) -> Iterator[Verifier]:
    worker = client._WORKER.read_text(encoding="utf-8")
    declared = 'PATCHES = {"inverse-math-normalize-progress-v1": _inverse_math_normalize_progress_v1}'
    assert declared in worker
    changed = tmp_path / "worker.py"
    changed.write_text(worker.replace(declared, "PATCHES = {}"), encoding="utf-8")
    monkeypatch.setattr(client, "_WORKER", changed)
    with closing(Verifier(quick(version="0.5.0", timeout_s=2.0))) as opened:
        yield opened


def of_inverse_math(rows):
    return [row for row in rows if row["task"] == "inverse_math"]


def test_with_the_patch_whole_fractions_score_as_without_it(rows, verifier, unpatched):
    n_right = 0
    for row in of_inverse_math(rows):
        right = (row["answer"], *FRACTIONS.get(row["answer"], ()))
        for answer in (*right, *OTHER_FRACTIONS):
            patched, original = (one.verdict(Asked(row, answer)) for one in (verifier, unpatched))
            assert (patched.status, patched.score) == (original.status, original.score), answer
            if answer in right:
                assert patched.score == 1.0, answer
                n_right += 1
    assert n_right == len(of_inverse_math(rows)) + sum(map(len, FRACTIONS.values()))


def test_with_the_patch_a_truncated_fraction_is_wrong_and_without_it_hangs(rows, verifier, unpatched):
    for row in of_inverse_math(rows):
        for answer in TRUNCATED:
            verdict = verifier.verdict(Asked(row, answer))
            assert (verdict.status, verdict.score) == ("ok", 0.0), (row["answer"], answer)
    row = next(row for row in of_inverse_math(rows) if row["answer"] in FRACTIONS)
    assert unpatched.verdict(Asked(row, TRUNCATED[0])).status == "timeout"


# --- hostile answers ---


def asked(rows, share: int = 1) -> list[tuple[str, str, Asked]]:
    """Family, kind and question for every ``share``-th pair of a family and a hostile answer."""
    first = {row["task"]: row for row in reversed(rows)}
    families = sorted(first)
    found = []
    for position, family in enumerate(families):
        other = first[families[position - 1]]["answer"]
        answers = hostile.answers(first[family]["answer"], other)
        found += [
            (family, name, Asked(first[family], answer))
            for number, (name, answer) in enumerate(answers.items())
            if (position + number) % share == 0
        ]
    return found


def graded(
    questions: list[tuple[str, str, Asked]], timeout_s: float = TIMEOUT_S
) -> list[tuple[str, str, Asked, Verdict]]:
    """Grade with a few verifiers side by side; fails if an answer that was executed left a file."""

    def work(share: list[tuple[str, str, Asked]]) -> list[tuple[str, str, Asked, Verdict]]:
        with closing(Verifier(quick(timeout_s=timeout_s))) as opened:
            done = [(family, name, one, opened.verdict(one)) for family, name, one in share]
            assert list(opened.folder.iterdir()) == []
        return done

    # families stay together, for each is loaded where it is graded
    families = sorted({family for family, _, _ in questions})
    shares = [
        [question for question in questions if families.index(question[0]) % N_PROCESSES == number]
        for number in range(N_PROCESSES)
    ]
    with ThreadPoolExecutor(N_PROCESSES) as pool:
        return [verdict for done in pool.map(work, shares) for verdict in done]


# whose answers become numbers of any size
FAMILIES_THAT_COMPUTE = ("function_manipulation", "inverse_math", "sequential_induction")
# whose reward falls with the distance from the right answer, and is more than 0 for nearly all
FAMILIES_WITH_DISTANCE = (
    "arithmetics",
    "equation_system",
    "math_word_problem",
    "set_expression",
    "string_transduction",
)
# right answers, as the verifier sees it
RIGHT_IN_OTHER_WORDS = {
    # the own answer is Yes
    ("code_analysis", "true"),
    ("table_equivalence", "true"),
    # the own answer is No
    ("defeasible_nli", "NO"),
    ("regex_reasoning", "NO"),
    ("unification_entailment", "NO"),
    # the own answers are 1 and 12
    ("finite_automaton_execution", "1.0"),
    ("math_word_problem", "\uff11\uff12"),
}


def is_as_expected(family: str, name: str, one: Asked, verdict: Verdict) -> bool:
    """Tell whether a hostile answer has a score for a known reason, or none for a known reason."""
    kind = name.rpartition(" ")[0]
    reason = verdict.reason or ""
    if verdict.status == "ok":
        return verdict.score == 0 or kind == "hidden answers" or is_explained(family, one, verdict)
    if verdict.status == "timeout":
        return kind == "exploding" and family in FAMILIES_THAT_COMPUTE
    if family == "lambda_reduction":
        # the verifier of this family follows a thousand applications at most, and says so itself
        return kind == "repeated" and reason.startswith("RecursionError")
    # sympy runs these answers: what they may not do ends them, and want of memory does
    is_run = family == "sequential_induction" and kind in ("code", "markup")
    return is_run and reason.startswith(("the answer would run", "out of memory"))


def is_explained(family: str, one: Asked, verdict: Verdict) -> bool:
    """Tell whether the verifier gives an answer its points by a rule of its own that is known."""
    if family in FAMILIES_WITH_DISTANCE and verdict.score < 0.5:
        return True
    # this family reads the first number of an answer
    is_first_number = family == "grid_navigation" and one.row["answer"] in one.answer
    return is_first_number or (family, one.answer) in RIGHT_IN_OTHER_WORDS


def unexpected(done):
    return [
        (family, name, one.answer[:60], verdict)
        for family, name, one, verdict in done
        if not is_as_expected(family, name, one, verdict)
    ]


def test_there_are_more_than_200_hostile_answers_for_each_of_51_families(rows):
    questions = asked(rows)
    families = {family for family, _, _ in questions}
    assert len(families) == 51
    for family in families:
        assert len({one.answer for of, _, one in questions if of == family}) > 200


def test_hostile_answers_end_with_an_expected_verdict(rows):
    # each on two families
    share = 24
    questions = asked(rows, share)
    assert {family for family, _, _ in questions} == {row["task"] for row in rows}
    # every hostile answer is tried, each on some of the families
    assert {name for _, name, _ in questions} == {name for _, name, _ in asked(rows)}
    done = graded(questions)
    assert len(done) == len(questions) > 51 * 300 / share
    assert unexpected(done) == []


def test_known_hangs_end_as_timeouts(rows):
    first = {row["task"]: row for row in reversed(rows)}
    done = graded([(family, text, Asked(first[family], text)) for family, text in KNOWN_HANGS], 1.0)
    assert {(family, text): verdict.status for family, text, _, verdict in done} == dict.fromkeys(
        KNOWN_HANGS, "timeout"
    )
    assert all(verdict.score is None for *_, verdict in done)


def test_what_sympy_would_run_leaves_no_trace_and_a_plain_word_is_just_wrong(rows, verifier):
    row = next(row for row in rows if row["task"] == "sequential_induction")
    for answer, name in (
        ("__import__('os').system('touch escaped')", "__import__"),
        ("().__class__", "__class__"),
        ("(lambda: eval('1'))()", "eval"),
        # sympy would run the text in it without another look
        ("lambdify([], '().__class__')()", "lambdify"),
    ):
        verdict = verifier.verdict(Asked(row, answer))
        assert (verdict.status, verdict.score) == ("error", None), answer
        assert verdict.reason == f"the answer would run {name}"
    assert list(verifier.folder.iterdir()) == []
    for word in ("open", "type", "help", "exit", "n", "n.name"):
        assert verifier.verdict(Asked(row, word)).score == 0.0, word


def not_bounded(verifier: Verifier, rows: list[dict]) -> list[tuple[str, Verdict]]:
    """Return what comes of ten megabytes of text where that is more than next to nothing."""
    graded = ((row["task"], verifier.verdict(Asked(row, "no answer " * 1_000_000))) for row in rows)
    return [
        (task, verdict)
        for task, verdict in graded
        if verdict.status not in ("ok", "timeout", "error") or (verdict.score or 0.0) >= 1e-4
    ]


def test_an_answer_of_ten_megabytes_has_a_verdict(rows, verifier):
    of_families = list({row["task"]: row for row in reversed(rows)}.values())
    assert not_bounded(verifier, of_families[::3]) == []


@pytest.mark.slow
def test_an_answer_of_ten_megabytes_has_a_verdict_in_every_family(rows, verifier):
    of_families = list({row["task"]: row for row in reversed(rows)}.values())
    assert not_bounded(verifier, of_families) == []


@pytest.mark.slow
def test_all_hostile_answers_in_all_families_end_with_an_expected_verdict(rows):
    done = graded(asked(rows))
    assert len(done) > 51 * 300
    assert unexpected(done) == []
