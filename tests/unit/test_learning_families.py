"""Manifests of Learning: is whatever is broken in them one sentence that names file, block and key?"""

import csv
import io
import re
import shutil

import pytest

from generate.learning import families
from generate.learning.agent_runs import load_agents
from generate.learning.families import load_families
from generate.learning.instances import dialogue_of
from generate.learning.players import Prober
from store.errors import InvalidSource
from store.learning_tasks import load_tasks
from store.settings import project_dir

MANIFESTS = project_dir() / "manifests"
BLOCKING = """
[blocking]
version = 1
description = "Herbs."
family = "blocking:Blocking"
seeds = { first = 1, count = 4 }
levels = [
  { n_cues = 6, n_trials = 6, n_together = 2, n_unresolved = 1, strongest = 1, ceiling = 1, n_blocked = 1 },
  { n_cues = 6, n_trials = 6, n_together = 2, n_unresolved = 1, strongest = 1, ceiling = 1, n_blocked = 1 },
  { n_cues = 6, n_trials = 6, n_together = 2, n_unresolved = 1, strongest = 1, ceiling = 1, n_blocked = 1 },
]
"""
ORACLE = """
[oracle]
version = 1
kind = "reference"
description = "Knows."
player = "players:Oracle"
seed = 1
"""


@pytest.fixture
def folder(tmp_path):
    """The manifests of families, of which a test breaks one."""
    return shutil.copytree(MANIFESTS / "learning", tmp_path / "learning")


def one_sentence(load, *arguments):
    with pytest.raises(InvalidSource) as refused:
        load(*arguments)
    said = str(refused.value)
    assert refused.value.exit_code == 10
    assert "\n" not in said
    return said


def blocking_in(folder, old="", new=""):
    """Write a family alone into its manifest, with one thing changed."""
    assert old in BLOCKING
    path = folder / "associative_learning.toml"
    rest = path.read_text().partition("\n[overshadowing]")
    path.write_text(BLOCKING.replace(old, new, 1) + rest[1] + rest[2])


def played(folder):
    family = load_families(folder)["blocking"]
    return [dialogue_of(family, task) for task in family.tasks]


# families


def test_the_manifest_that_the_tests_break_is_whole(folder):
    blocking_in(folder)
    assert len(played(folder)) == 3


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("version = 1", "version = 1\ncolour = 2", "blocking: colour: unknown key"),
        ("version = 1", "", "blocking: version: the key is missing"),
        ("version = 1", "version = 0", "blocking: version: .*greater than or equal to 1, found 0"),
        ("version = 1", 'version = "1"', "blocking: version: .*valid integer, found '1'"),
        ("version = 1", 'id = "x"\nversion = 1', "blocking: id: expected no such key"),
        ("version = 1", 'category = "x"\nversion = 1', "blocking: category: expected no such key"),
        ("count = 4", "count = 0", "blocking: seeds.count: .*greater than or equal to 1, found 0"),
        ("first = 1", "first = -1", "blocking: seeds.first: .*greater than or equal to 0, found -1"),
        ("first = 1", "first = 4294967295", r"blocking: seeds: .*below 2\^32"),
        ("seeds", "seedz", "blocking: seeds: the key is missing"),
        ('"Herbs."', '""', "blocking: description: .*at least 1 character"),
        ("blocking:Blocking", "blocking.Blocking", "blocking: family: .*match pattern"),
        ("[blocking]", "[Blocking]", "'Blocking': expected a block named in lower case"),
        ("[blocking]", '["../x"]', r"'\.\./x': expected a block named in lower case"),
        ("[blocking]", "x = 1\n[blocking]", "'x': expected a block"),
        ("[blocking]", "[blocking", "cannot be read"),
        ("[blocking]", "[overshadowing]", "cannot be read .*overshadowing.* twice"),
    ],
)
def test_a_block_that_is_not_valid_is_named_with_its_key(folder, old, new, said):
    blocking_in(folder, old, new)
    assert re.match(f"associative_learning.toml: {said}", one_sentence(load_families, folder))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("blocking:Blocking", "blocking:Nothing", "level 1: expected a class .*found no blocking:Nothing"),
        ("blocking:Blocking", "nothing:Nothing", "level 1: expected a class .*found no nothing:Nothing"),
        # a class that the module only uses
        (
            "blocking:Blocking",
            "blocking:CausalLog",
            "level 1: expected a class .*found no blocking:CausalLog",
        ),
        ("blocking:Blocking", "overshadowing:Overshadowing", "level 1: n_causes: the key is missing"),
        ("n_cues = 6", "n_cuez = 6", "level 1: n_cues: the key is missing"),
        ("n_cues = 6", "n_cues = 6, size = 1", "level 1: size: unknown key"),
        ("n_cues = 6", "n_cues = nan", "level 1: n_cues: .*found nan"),
        ("n_cues = 6", "n_cues = 1979-05-27", "level 1: n_cues: .*valid integer"),
    ],
)
def test_a_class_or_a_constant_that_is_not_there_is_named_with_its_level(folder, old, new, said):
    blocking_in(folder, old, new)
    assert re.match(f"associative_learning.toml: blocking: {said}", one_sentence(played, folder))


def test_constants_that_allow_no_instance_are_named_with_their_block(folder, monkeypatch):
    greedy = load_tasks()["blocking_1"].model_copy(update={"n_test_items": 50})
    monkeypatch.setattr(families, "load_tasks", lambda: load_tasks() | {"blocking_1": greedy})
    blocking_in(folder)
    assert one_sentence(played, folder).startswith("associative_learning.toml: blocking: level 1: ")


def test_a_class_of_another_category_is_refused(folder):
    # as if the module of a lesson lay among those of sheets
    family = load_families()["numeric_property"].model_copy(update={"category": "associative_learning"})
    made = load_families()["numeric_property"].made(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(families.Family, "made", lambda self, level: made)
        said = one_sentence(dialogue_of, family, load_tasks()["numeric_property_1"])
    assert said.startswith("associative_learning.toml: numeric_property: family: expected a class that keeps")


@pytest.mark.parametrize(
    ("levels", "found"),
    [("levels = [ {} ]", "1 to 1, found 1, 2, 3"), ("levels = [ {}, {}, {}, {} ]", "1 to 4, found 1, 2, 3")],
)
def test_levels_and_rows_have_to_agree(folder, levels, found):
    path = folder / "associative_learning.toml"
    blocking_in(folder)
    path.write_text(re.sub(r"levels = \[\n(.*\n){3}\]", levels, path.read_text(), count=1))
    said = one_sentence(lambda: load_families(folder)["blocking"].tasks)
    assert said == f"learning_tasks.csv: blocking: expected a row for each of the levels {found}"


def test_levels_without_one_are_refused(folder):
    path = folder / "associative_learning.toml"
    blocking_in(folder)
    path.write_text(re.sub(r"levels = \[\n(.*\n){3}\]", "levels = []", path.read_text(), count=1))
    assert "associative_learning.toml: blocking: levels: " in one_sentence(load_families, folder)


def test_two_families_of_one_name_are_refused(folder):
    path = folder / "runtime_rl.toml"
    path.write_text(path.read_text().replace("[hanoi_two]", "[blocking]"))
    said = one_sentence(load_families, folder)
    assert said == "runtime_rl.toml: blocking: expected one family of this name, found two"


@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"[x"])
def test_a_manifest_that_cannot_be_read_is_named(folder, content):
    path = folder / "runtime_rl.toml"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert one_sentence(load_families, folder).startswith("runtime_rl.toml: cannot be read (")


def test_a_row_of_a_family_that_is_not_there_is_refused(folder):
    path = folder / "runtime_rl.toml"
    path.write_text(path.read_text().replace("[hanoi_two]", "[hanoi_three]"))
    assert one_sentence(load_families, folder) == (
        "learning_tasks.csv: hanoi_two_1: family_id: expected a family of manifests/learning, found hanoi_two"
    )


# rows of learning_tasks.csv


def rows_in(folder, task_id=None, column=None, value=None, text=None):
    """Write the rows with one cell changed, or with another text; return the file."""
    path = folder / "learning_tasks.csv"
    if text is None:
        rows = list(csv.DictReader(io.StringIO((MANIFESTS / "learning_tasks.csv").read_text())))
        for row in rows:
            if row["task_id"] == task_id:
                row[column] = value
        written = io.StringIO()
        writer = csv.DictWriter(written, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
        text = written.getvalue()
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("n_test_items", "0", "n_test_items: .*greater than or equal to 1, found '0'"),
        ("n_test_items", "-1", "n_test_items: .*found '-1'"),
        ("n_test_items", "6.5", "n_test_items: .*found '6.5'"),
        ("n_test_items", "٦x", "n_test_items: .*found '٦x'"),
        ("budget_steps", "0", "budget_steps: .*greater than or equal to 1, found '0'"),
        ("max_examples", "0", "max_examples: .*greater than or equal to 1, found '0'"),
        ("weight_accuracy", "1e999", "weight_accuracy: .*found '1e999'"),
        ("weight_accuracy", "nan", "weight_accuracy: .*found 'nan'"),
        ("epsilon", "nan", "epsilon: .*finite number, found 'nan'"),
        ("epsilon", "-1", "epsilon: .*greater than or equal to 0, found '-1'"),
        ("score_rule", "luck", "score_rule: .*found 'luck'"),
        ("match_kind", "", "match_kind: .*found nothing"),
        ("label", "", "label: .*found nothing"),
        ("has_zero_guard", "maybe", "has_zero_guard: .*found 'maybe'"),
        ("category", "cooking", "category: .*found 'cooking'"),
        ("level", "0", "level: .*found '0'"),
    ],
)
def test_a_cell_that_is_not_valid_is_named(tmp_path, column, value, said):
    path = rows_in(tmp_path, "blocking_1", column, value)
    assert re.match(f"learning_tasks.csv: blocking_1: {said}", one_sentence(load_tasks, path))


@pytest.mark.parametrize("value", ["", "a/b", "A b", "x\ny"])
def test_a_name_that_is_no_name_is_refused(tmp_path, value):
    assert "task_id: " in one_sentence(load_tasks, rows_in(tmp_path, "blocking_1", "task_id", value))


HEADER = (MANIFESTS / "learning_tasks.csv").read_text().splitlines()[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'asymptote_share': expected this column, found none"),
        (
            HEADER.replace("n_test_items", "n_tests") + "\n",
            "'n_test_items': expected this column, found none",
        ),
        (HEADER + ",colour\n", "'colour': expected no such column, found one"),
        (HEADER + "\na,b\n", "a: expected 29 cells, found 2"),
        (HEADER + "\na" + "," * 40 + "\n", "a: expected 29 cells, found 41"),
        (HEADER + '\n"a', "cannot be read (unexpected end of data)"),
        (HEADER + "\n" + "x" * 200_000 + "\n", "cannot be read (field larger than field limit (131072))"),
    ],
)
def test_a_file_of_other_columns_or_cells_is_refused(tmp_path, text, said):
    assert one_sentence(load_tasks, rows_in(tmp_path, text=text)) == f"learning_tasks.csv: {said}"


def test_a_task_has_one_row(tmp_path):
    said = one_sentence(load_tasks, rows_in(tmp_path, "blocking_1", "task_id", "blocking_2"))
    assert said == "learning_tasks.csv: blocking_2: expected one row of this task, found two"


def test_marks_and_lines_that_spreadsheets_add_change_nothing(tmp_path):
    text = (MANIFESTS / "learning_tasks.csv").read_text()
    path = rows_in(tmp_path, text="\ufeff" + text.replace("\n", "\r\n") + "\r\n\r\n")
    assert load_tasks(path) == load_tasks()


@pytest.mark.parametrize(
    ("family_id", "column"),
    [
        ("blocking", "n_test_items"),
        ("numeric_property", "max_examples"),
        ("numeric_property", "initial_examples"),
        ("hanoi_two", "budget_steps"),
        ("packet_filter", "practice_rounds"),
        ("packet_filter", "n_test_items"),
    ],
)
def test_an_empty_cell_without_which_nothing_can_be_played_is_named(family_id, column):
    family = load_families()[family_id]
    task = family.tasks[0].model_copy(update={column: None})
    said = one_sentence(dialogue_of, family, task)
    assert said == f"learning_tasks.csv: {family_id}_1: {column}: expected a number, found nothing"


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        (
            "category",
            "runtime_rl",
            "blocking_1: category: expected associative_learning, in which blocking is",
        ),
        ("level", "", "blocking: expected a row for each of the levels 1 to 3, found no level, 2, 3"),
        ("level", "2", "blocking: expected a row for each of the levels 1 to 3, found 2, 2, 3"),
        ("family_id", "overshadowing", "blocking: expected a row for each of the levels 1 to 3, found 2, 3"),
    ],
)
def test_a_row_that_is_not_of_its_family_is_named(tmp_path, monkeypatch, column, value, said):
    path = rows_in(tmp_path, "blocking_1", column, value)
    family = load_families()["blocking"]
    monkeypatch.setattr(families, "load_tasks", lambda: load_tasks(path))
    assert one_sentence(lambda: family.tasks).startswith(f"learning_tasks.csv: {said}")


# agents


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("version = 1", "version = 1\ncolour = 2", "oracle: colour: unknown key"),
        ("version = 1", "version = 0", "oracle: version: .*found 0"),
        ("version = 1", 'id = "x"\nversion = 1', "oracle: id: expected no such key"),
        ('"reference"', '"human"', "oracle: kind: .*found 'human'"),
        ("seed = 1", "seed = -1", "oracle: seed: .*found -1"),
        ("seed = 1", 'seed = 1\ncategories = ["cooking"]', "oracle: categories.0: .*found 'cooking'"),
        ("players:Oracle", "players.Oracle", "oracle: player: .*match pattern"),
        ("players:Oracle", "players:Nobody", "oracle: expected a class .*found no players:Nobody"),
        ("players:Oracle", "dice:Dice", "oracle: expected a class .*found no dice:Dice"),
        ("[oracle]", "[oracle", "cannot be read"),
        ("[oracle]", "x = 1\n[oracle]", "'x': expected a block"),
        ("[oracle]", '["an oracle"]', "'an oracle': expected a block"),
    ],
)
def test_an_agent_that_is_not_valid_is_named_with_its_key(tmp_path, old, new, said):
    path = tmp_path / "learning_agents.toml"
    path.write_text(ORACLE.replace(old, new, 1))
    refused = one_sentence(lambda: [agent.made() for agent in load_agents(path).values()])
    assert re.match(f"learning_agents.toml: {said}", refused)


def test_the_prober_says_that_it_plays_games_alone():
    family = load_families()["blocking"]
    task = family.tasks[0]
    said = one_sentence(Prober().begin, task, dialogue_of(family, task), ["blocking_1/0"], 0)
    assert "expected a game, found blocking_1: name runtime_rl alone" in said
