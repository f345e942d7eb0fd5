"""A verifier that hangs, dies, prints or talks nonsense gives a verdict that says so, and never a score."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import closing

import fake_verifier
import psutil
import pytest
from support import ROOT

from generate.verifier import worker
from generate.verifier.client import Asked, Verifier, verifier_python
from store.errors import EngineFailed

ROW = {"task": "a family", "prompt": "", "answer": "gold", "metadata": "{}", "level": 0, "mode": "instruct"}


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    return fake_verifier.install(tmp_path_factory.mktemp("verifier"))


@pytest.fixture(autouse=True)
def verifier(python, monkeypatch):
    monkeypatch.setenv("COGLAKE_VERIFIER", str(python))


def verdicts(*answers, row=ROW, **changes):
    with closing(Verifier(fake_verifier.grader(**changes))) as verifier:
        return [verifier.verdict(Asked(row, answer)) for answer in answers]


def test_scores_pass_as_they_are_and_in_order():
    found = verdicts("gold", "half", "tin")
    assert [(verdict.status, verdict.score, verdict.reason) for verdict in found] == [
        ("ok", 1.0, None),
        ("ok", 0.5, None),
        ("ok", 0.0, None),
    ]


@pytest.mark.parametrize(
    ("answer", "status", "reason"),
    [
        ("hang", "timeout", "no verdict within 1 s"),
        ("hang in C", "timeout", "no verdict within 1 s"),
        ("caught time limit", "timeout", "the verifier's own time limit"),
        ("exit", "crash", "the verifier's process ended without a verdict, with exit code 3"),
        ("kill", "crash", "the verifier's process was ended by SIGKILL"),
        ("caught want of memory", "crash", "out of memory"),
        ("quit", "error", "SystemExit: enough"),
        ("raise", "error", "ValueError: two lines, and"),
        ("none", "error", "expected a score, found None"),
        ("two", "error", "expected a score from 0 to 1, found 2.0"),
        ("nan", "not_finite", "expected a score, found nan"),
        ("inf", "not_finite", "expected a score, found inf"),
    ],
)
def test_what_is_no_score_has_a_status_and_a_reason(answer, status, reason):
    after, found, before = verdicts("gold", answer, "tin")
    assert (found.status, found.score, found.reason) == (status, None, reason)
    assert (after.score, before.score) == (1.0, 0.0)


def test_an_answer_that_only_waits_ends_by_the_clock():
    # ten times 0.1 s, since time is that of the processor otherwise
    [found] = verdicts("wait", timeout_s=0.1)
    assert found.status == "timeout"
    assert 1 <= found.seconds < 10


def test_text_that_is_nested_too_deeply_for_a_compiler_is_a_wrong_answer_and_no_want_of_memory():
    [found] = verdicts("caught deep nesting")
    assert (found.status, found.score) == ("ok", 0.0)


def test_what_the_verifier_prints_and_reads_is_not_the_protocol():
    assert [verdict.score for verdict in verdicts("print", "gold")] == [1.0, 1.0]


def test_an_answer_changes_nothing_for_the_next_one():
    # the family's own answer was graded once before, here and nowhere else
    assert [verdict.score for verdict in verdicts("gold", "tin", "seen", "half", row=ROW)][2] == 2 / 100


def test_chance_is_the_same_for_every_answer():
    alone, after_another = verdicts("random")[0], verdicts("half", "random")[1]
    assert alone.score == after_another.score


def test_the_time_of_an_answer_is_without_what_is_loaded_before(tmp_path, monkeypatch):
    slow = """
import time
loaded = []


def score_answer(answer, row):
    if not loaded:
        time.sleep(1)
    loaded.append(1)
    return 1
"""
    monkeypatch.setenv("COGLAKE_VERIFIER", str(fake_verifier.install(tmp_path / "slow", scorer=slow)))
    [found] = verdicts("tin")
    assert found.status == "ok"
    assert found.seconds < 0.5


@pytest.mark.parametrize(
    "text", ["\0", "\ud800", "\u202e\u2066", "a\nb\r\u2028c", '"}\n{"', "\U0001f600", "x" * 10_000_000]
)
def test_any_text_reaches_the_verifier_as_it_is(text):
    assert verdicts(text, f"{text} ", row=ROW | {"answer": text})[0].score == 1.0
    assert verdicts(f"{text} ", row=ROW | {"answer": text})[0].score == 0.0


@pytest.mark.parametrize(
    ("code", "event"),
    [
        ("open('written', 'w')", "open"),
        ("open('written', 'ab')", "open"),
        ("os.open('written', os.O_CREAT | os.O_WRONLY)", "open"),
        ("os.mkdir('written')", "os.mkdir"),
        ("os.remove('/nowhere')", "os.remove"),
        ("os.system('touch written')", "os.system"),
        ("subprocess.run(['touch', 'written'])", "subprocess.Popen"),
        ("os.fork()", "os.fork"),
        ("os.kill(1, 0)", "os.kill"),
        ("import socket; socket.socket()", "socket.__new__"),
        ("import ctypes; ctypes.CDLL(None)", "ctypes.dlopen"),
    ],
)
def test_an_answer_that_is_executed_can_do_nothing_outside_and_gets_no_score(code, event):
    with closing(Verifier(fake_verifier.grader())) as verifier:
        verdict = verifier.verdict(Asked(ROW, f"run: {code}"))
        assert (verdict.status, verdict.reason) == ("error", f"the answer would run {event}")
        assert list(verifier.folder.iterdir()) == []
    assert not verifier.folder.exists()


def test_reading_and_importing_are_no_trouble():
    assert verdicts("run: import graphlib; open(graphlib.__file__).read()")[0].score == 0.0


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("2 * n + 1", ["n"]),
        ("().__class__", ["__class__"]),
        ("(lambda: eval('1'))()", ["eval"]),
        ("[open for x in n]", ["n", "open"]),
    ],
)
def test_all_that_a_text_names_is_seen(text, names):
    assert sorted(worker._names(compile(text, "<string>", "eval"))) == names


def test_keys_of_the_user_are_not_shown_to_the_verifier(monkeypatch):
    monkeypatch.setenv("COGLAKE_API_KEY", "secret")
    assert verdicts("environment")[0].score == 1.0


def test_the_same_answer_to_the_same_question_is_graded_once():
    with closing(Verifier(fake_verifier.grader())) as verifier:
        first = verifier.verdict(Asked(ROW, "hang"))
        started = time.monotonic()
        assert verifier.verdict(Asked(dict(ROW), "hang")) is first
        assert time.monotonic() - started < 0.5
        assert verifier.verdict(Asked(ROW | {"level": 1}, "gold")).status == "ok"


def test_a_verifier_that_dies_is_no_verdict():
    with closing(Verifier(fake_verifier.grader())) as verifier:
        assert verifier.verdict(Asked(ROW, "gold")).score == 1.0
        verifier._process.kill()
        with pytest.raises(EngineFailed, match="ended with SIGKILL: run the same command again"):
            verifier.verdict(Asked(ROW, "tin"))


def test_closing_ends_all_processes_also_in_the_midst_of_an_answer(python):
    verifier = Verifier(fake_verifier.grader(timeout_s=600))
    program = psutil.Process(verifier._process.pid)
    verifier._stdin.write(b'{"row": {"task": "a", "answer": "gold"}, "answer": "hang"}\n')
    verifier._stdin.flush()
    deadline = time.monotonic() + 10
    while not (busy := [child for child in program.children() if child.cpu_times().user > 0.1]):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    program.kill()
    verifier.close()
    _, alive = psutil.wait_procs([program, *busy], timeout=10)
    assert alive == []


def is_running(process_id):
    try:
        # not every machine takes orphans away once they have ended
        return psutil.Process(process_id).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("answer", ["gold", "wait"])
def test_when_the_program_that_asks_is_killed_no_process_and_no_folder_stay(tmp_path, answer):
    asks = tmp_path / "asks.py"
    asks.write_text(
        textwrap.dedent(f"""
            import os, signal
            import fake_verifier
            from generate.verifier.client import Asked, Verifier
            verifier = Verifier(fake_verifier.grader(timeout_s=0.1))
            print(verifier._process.pid, flush=True)
            if {answer!r} == "wait":
                verifier._stdin.write(b'{{"row": {{"task": "a", "answer": "gold"}}, "answer": "wait"}}\\n')
                verifier._stdin.flush()
            os.kill(os.getpid(), signal.SIGKILL)
            """)
    )
    environment = os.environ | {
        "TMPDIR": str(tmp_path / "temporary"),
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests" / "unit"))),
    }
    (tmp_path / "temporary").mkdir()
    asked = subprocess.run(
        [sys.executable, asks], env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    assert asked.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 20
    while is_running(int(asked.stdout)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert list((tmp_path / "temporary").iterdir()) == []


def test_without_its_environment_one_sentence_says_how_to_make_it(monkeypatch, tmp_path):
    monkeypatch.setenv("COGLAKE_VERIFIER", str(tmp_path / "nowhere"))
    with pytest.raises(EngineFailed, match="nowhere, found no such file: correct COGLAKE_VERIFIER, or unset"):
        verdicts("gold")
    monkeypatch.delenv("COGLAKE_VERIFIER")
    monkeypatch.setattr("generate.verifier.client.project_dir", lambda: tmp_path)
    with pytest.raises(EngineFailed, match="python, found no such file: run `make setup-verifier`"):
        verifier_python()


def test_a_python_without_the_verifier_is_told(monkeypatch, tmp_path):
    python = fake_verifier.install(tmp_path)
    (tmp_path / "site" / "reasoning_core" / "__init__.py").write_text("raise ImportError('no such luck')")
    monkeypatch.setenv("COGLAKE_VERIFIER", str(python))
    with pytest.raises(
        EngineFailed, match=r"ended with exit code 1 \(ImportError: no such luck\): correct COGLAKE_VER"
    ):
        verdicts("gold")
    (tmp_path / "python").write_text("#!/bin/sh\necho hello\n")
    with pytest.raises(EngineFailed, match="expected a line of JSON from the verifier"):
        verdicts("gold")
    (tmp_path / "python").chmod(0o644)
    with pytest.raises(EngineFailed, match="cannot be started"):
        verdicts("gold")


def test_another_version_than_the_declared_one_is_refused(monkeypatch, tmp_path):
    python = fake_verifier.install(tmp_path, version="0.5.1")
    monkeypatch.setenv("COGLAKE_VERIFIER", str(python))
    with pytest.raises(EngineFailed, match=r"expected the verifier 0\.5\.0\+.*found 0\.5\.1\+"):
        verdicts("gold")


def test_a_loop_that_makes_no_progress_raises_and_all_else_stays(tmp_path, monkeypatch):
    (tmp_path / "looping.py").write_text(fake_verifier._NORMALIZE)
    monkeypatch.syspath_prepend(tmp_path)
    import looping

    changed = worker.with_progress(looping, "normalize", "t")
    for text in ("", "1", "frac{1}", "frac{1} + frac{1}"):
        assert changed(text) == looping.normalize(text)
    with pytest.raises(ValueError, match="not closed"):
        changed("frac{2}")


def test_a_function_with_no_loop_is_not_changed_silently(tmp_path, monkeypatch):
    (tmp_path / "loopless.py").write_text("def normalize(t):\n    return t\n")
    monkeypatch.syspath_prepend(tmp_path)
    import loopless

    with pytest.raises(RuntimeError, match="expected one loop, found 0"):
        worker.with_progress(loopless, "normalize", "t")


def test_the_worker_imports_nothing_that_its_environment_lacks():
    import ast
    import sys
    from pathlib import Path

    tree = ast.parse(Path(worker.__file__).read_text(encoding="utf-8"))
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported <= set(sys.stdlib_module_names)


def test_no_zombie_is_left():
    verdicts("gold", "hang", "exit")
    children = psutil.Process(os.getpid()).children()
    assert [child for child in children if child.status() == psutil.STATUS_ZOMBIE] == []
