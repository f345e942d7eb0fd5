"""kill -9 at moments drawn at random, in every command that writes: nothing lost, nothing doubled.

``COGLAKE_N_KILLS`` says how many, 10 by default and 200 in ``make test-faults``. Every case has its own
draw, a share of the time that the command takes undisturbed; it is in the name of the test.
"""

import hashlib
import json
import os
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from fault_lakes import EXPORTS, WRITERS, assert_one_sentence, rows_that_count
from support import ROOT, copy_project, mart_hashes, query, relation_hash

from store import lake as raw
from store.manifest import load_sources

N_KILLS = int(os.environ.get("COGLAKE_N_KILLS", "10"))
SEED = 20261130
COMMANDS = (*WRITERS, *EXPORTS, "build")
# tables follow from the rows that count, which every case compares; one round in so many builds them too
ROUNDS_PER_BUILD = 4
MAX_TRIES = 20
SHORTER = 0.97

PINS = {source.uri(file): file.sha256 for source in load_sources().values() for file in source.files}

# what a killed command may leave behind, as doctor puts it
TEMPORARY = "a command was stopped and left this temporary file"
UNFINISHED = "was never finished"


def draws(names, n_kills):
    """Command and share of its time, in turn, so that any number is spread over all of them."""
    stream = random.Random(SEED)
    return [
        pytest.param(name, share, number, id=f"{name}-{number:03d}-at-{share:.4f}")
        for number in range(n_kills)
        for name, share in [(names[number % len(names)], stream.random())]
    ]


def killed(run, share, seconds):
    """Kill a command, and return what ``run`` gave with its end; where it was quicker than before, once more.

    ``run`` starts the command afresh every time and kills it after so many seconds.
    """
    for number in range(MAX_TRIES):
        ended, *found = run(number, share * seconds)
        if ended.is_killed:
            return found
        assert ended.returncode == 0, ended.complaint
        # on a busy machine no two take the same time: ever less, or a share near 1 would never be met
        seconds = SHORTER * min(seconds, ended.seconds)
    raise AssertionError(f"it ended before it could be killed, {MAX_TRIES} times")


def prepared(server, whole, name, folder):
    """Return the lake that a command works on, and its arguments: of an export, which leaves the lake as it
    is, the whole one, with an older export that this one replaces."""
    if name not in EXPORTS:
        return whole.without(name, folder), whole.commands[name]
    arguments = (*whole.commands[name], "-o", str(folder / f"{name}.csv"))
    ended = server.run(whole.lake.root, *arguments, "--models", "demo-bayes")
    assert ended.returncode == 0, ended.complaint
    return whole.lake, arguments


def leftovers(lake):
    """Every part is what its name says, and doctor finds what a killed command may leave and no more."""
    assert raw.verify(lake, PINS) == []
    problems = [found.problem for found in raw.doctor(lake)]
    assert [text for text in problems if TEMPORARY not in text and UNFINISHED not in text] == []
    return problems


@pytest.mark.parametrize(("name", "share", "number"), draws(COMMANDS, N_KILLS))
def test_kill_9_loses_and_doubles_nothing(kill_server, whole, tmp_path, record_property, name, share, number):
    def run(attempt, kill_after_s):
        lake, arguments = prepared(kill_server, whole, name, tmp_path / str(attempt))
        return kill_server.run(lake.root, *arguments, kill_after_s=kill_after_s), lake, arguments

    lake, arguments = killed(run, share, whole.seconds[name])
    left = leftovers(lake)
    record_property("left", json.dumps(left))
    if name == "build":
        assert_readers_are_answered_or_told(kill_server, lake)
    if name in EXPORTS:
        file = Path(arguments[-1])
        new = export_of(whole.lake.exports / f"{name}.csv")
        assert_old_or_new(export_of(file), new)

    again = kill_server.run(lake.root, *arguments)
    assert (again.returncode, "Traceback" in again.complaint) == (0, False), again.complaint
    assert rows_that_count(lake) == whole.rows
    assert [problem for problem in leftovers(lake) if UNFINISHED in problem] == []
    if name in EXPORTS:
        assert export_of(file) == new
        return
    if name != "build":
        if (number // len(COMMANDS) + 1) % ROUNDS_PER_BUILD:
            return
        built = kill_server.run(lake.root, "build")
        assert built.returncode == 0, built.complaint
    assert mart_hashes(lake) == whole.marts


def assert_readers_are_answered_or_told(server, lake):
    """The database opens, whatever the moment, and nothing is exported of half a build."""
    asked = server.run(lake.root, "sql", "select count(*) as n from table_3", "--json")
    assert asked.returncode == 0, asked.complaint
    assert server.run(lake.root, "status").returncode == 0
    assert_one_sentence(server.run(lake.root, "export", "table3"), 15)


def assert_old_or_new(found, new):
    """Table and statement are each one of two whole files, and a pair that does not match is seen."""
    (table, statement), (new_table, new_statement) = found, new
    is_pair = statement["sha256"] == hashlib.sha256(table).hexdigest()
    # the table is replaced first
    assert is_pair or (table == new_table and statement != new_statement)


def export_of(path):
    """Bytes of an export, and the statement beside it."""
    return path.read_bytes(), json.loads(path.with_name(f"{path.name}.provenance.json").read_text())


# --- verdicts of another version are replaced ---

VERDICTS = """
    (select * exclude (replaced_by, replaced_at) from score_versions)
"""


@dataclass(frozen=True)
class Rescored:
    """What a build with a changed rule makes of the whole lake, undisturbed."""

    project: Path
    seconds: float
    marts: dict[str, str]
    verdicts: str


@pytest.fixture(scope="module")
def rescored(tmp_path_factory, kill_server, whole):
    folder = tmp_path_factory.mktemp("rescored")
    project = copy_project(folder / "project")
    rule = project / "models_sql/intermediate/scored/int_scored__reported_confidence.sql"
    text = rule.read_text()
    assert text.count("confidence as value") == 1
    # another version of the rule, which says the same
    rule.write_text(text.replace("confidence as value", "confidence + 0 as value"))
    lake = whole.built_copy(folder / "lake")
    ended = kill_server.run(lake.root, "build", project=project)
    assert ended.returncode == 0, ended.complaint
    [found] = query(lake, "select count(*) as n from score_versions where not is_current")
    assert found["n"] > 0
    verdicts = relation_hash(lake, VERDICTS)
    return Rescored(project, ended.seconds, mart_hashes(lake), verdicts)


@pytest.mark.parametrize("share", [draw.values[1] for draw in draws(("rescore",), N_KILLS // 20)])
def test_kill_9_while_verdicts_are_replaced_keeps_each_version_once(
    kill_server, whole, rescored, tmp_path, share
):
    def run(attempt, kill_after_s):
        lake = whole.built_copy(tmp_path / str(attempt))
        ended = kill_server.run(lake.root, "build", kill_after_s=kill_after_s, project=rescored.project)
        return ended, lake

    [lake] = killed(run, share, rescored.seconds)
    again = kill_server.run(lake.root, "build", project=rescored.project)
    assert again.returncode == 0, again.complaint
    assert relation_hash(lake, VERDICTS) == rescored.verdicts
    assert mart_hashes(lake) == rescored.marts


# --- files ---

ABANDONED = """
import os, sys
from pathlib import Path
from store.files import replacing
os.getpid = lambda: 7
with replacing(Path(sys.argv[1])) as temporary:
    temporary.write_text("half")
    if sys.argv[2] == "killed":
        os._exit(9)
    temporary.write_text("whole")
"""


def test_what_a_killed_writer_left_is_not_in_the_way_of_a_process_of_the_same_number(tmp_path):
    # in a container every first process may be number 7
    path = tmp_path / "table3.csv"
    ends = [
        subprocess.run([sys.executable, "-c", ABANDONED, path, end], cwd=ROOT, check=False).returncode
        for end in ("killed", "whole")
    ]
    assert ends == [9, 0]
    assert path.read_text() == "whole"
    assert len(list(tmp_path.glob(".*.tmp"))) == 1


def test_draws_are_the_same_every_time_and_every_command_gets_its_share():
    found = draws(COMMANDS, 200)
    assert found == draws(COMMANDS, 200)
    assert found[:10] == draws(COMMANDS, 10)
    counts = {name: sum(draw.values[0] == name for draw in found) for name in COMMANDS}
    assert set(counts.values()) == {28, 29}
