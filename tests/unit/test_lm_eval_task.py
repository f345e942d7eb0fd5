"""A mode as a task of lm-eval: does the file say what is asked, and what lm-eval's own metric is worth?"""

import hashlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from support import coglake

from generate import standins
from generate.standins import ttm_like
from ingest.pipeline import ingest
from store.errors import InvalidSource, WrongUsage
from store.lake import commit
from store.lm_eval_task import delimiter, terminator, write_task
from store.manifest import load_sources
from store.schemas import ITEMS, RUNS
from store.settings import Home

COLUMNS = ("item_id", "prompt", "legal_options", "credited_options", "target")


class Loader(yaml.SafeLoader):
    """Reads the tag that lm-eval gives a meaning to."""


Loader.add_constructor("!function", lambda loader, node: f"function {node.value}")


def questions(*items):
    schema = pa.schema([ITEMS.field(name) for name in COLUMNS])
    rows = [
        {"item_id": f"i/{number}", "prompt": f"Question {number}. Answer:"} | item
        for number, item in enumerate(items)
    ]
    return pa.Table.from_pylist(rows, schema)


def task_of(folder, *items):
    written = write_task(folder, "a_mode", questions(*items))
    settings = yaml.load((folder / "coglake_a_mode.yaml").read_text(), Loader)
    return settings, pq.read_table(folder / "coglake_a_mode.parquet").to_pylist(), written


def notes_of(settings):
    return " ".join(settings["metadata"]["notes"])


def test_a_question_with_a_right_answer_has_its_index_as_target(tmp_path):
    right = {"legal_options": ["x", "y", "z"], "credited_options": ["y"]}
    settings, rows, written = task_of(tmp_path / "tasks", right, right | {"credited_options": ["z"]})
    assert [row["target"] for row in rows] == [1, 2]
    assert rows[0]["item_id"] == "i/0" and rows[0]["continuations"] == rows[0]["options"] == ["x", "y", "z"]
    assert settings["task"] == written.name == "coglake_a_mode"
    assert settings["output_type"] == "multiple_choice" and settings["num_fewshot"] == 0
    assert (settings["doc_to_text"], settings["doc_to_choice"]) == ("prompt", "continuations")
    assert [metric["metric"] for metric in settings["metric_list"]] == ["acc"]
    assert settings["custom_dataset"] == "function coglake_questions.load"
    assert (tmp_path / "tasks" / settings["dataset_kwargs"]["data_file"]).is_file()


def test_right_answers_are_scored_per_character_and_per_byte_where_that_is_asked_for(tmp_path):
    right = {"legal_options": ["x", "y"], "credited_options": ["y"]}
    write_task(tmp_path, "a_mode", questions(right), is_normalised=True)
    settings = yaml.load((tmp_path / "coglake_a_mode.yaml").read_text(), Loader)
    assert [metric["metric"] for metric in settings["metric_list"]] == ["acc", "acc_norm", "acc_bytes"]
    assert {metric["aggregation"] for metric in settings["metric_list"]} == {"mean"}
    assert "Per token is no metric of lm-eval" in notes_of(settings)


def test_several_right_answers_are_a_list_in_every_row(tmp_path):
    options = {"legal_options": ["x", "y", "z"]}
    _, rows, _ = task_of(
        tmp_path, options | {"credited_options": ["x", "z"]}, options | {"credited_options": ["y"]}
    )
    assert [row["target"] for row in rows] == [[0, 2], [1]]


def test_where_no_answer_is_right_the_target_is_0_and_no_metric_is_printed(tmp_path):
    settings, rows, _ = task_of(tmp_path, {"legal_options": ["x", "y"]})
    assert [row["target"] for row in rows] == [0]
    assert [metric["metric"] for metric in settings["metric_list"]] == ["bypass"]
    assert "No answer is right" in notes_of(settings) and "0 stands there" in notes_of(settings)


def test_a_number_is_written_by_the_model(tmp_path):
    settings, rows, _ = task_of(tmp_path, {"target": 0.25}, {})
    assert settings["output_type"] == "generate_until" and "target_delimiter" not in settings
    assert settings["generation_kwargs"]["do_sample"] is False and settings["generation_kwargs"]["until"] == [
        "\n"
    ]
    assert [row["target"] for row in rows] == ["0.25", ""]


@pytest.mark.parametrize(
    ("prompt", "options", "expected"),
    [
        ("Answer:", ["A"], " "),
        ("Answer: ", ["A"], ""),
        ("Answer:\n", ["A"], ""),
        ("Answer:", [" A", "B"], ""),
        ("", ["A"], " "),
    ],
)
def test_a_space_stands_between_prompt_and_option_once(prompt, options, expected):
    assert delimiter(prompt, options) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["1", "2"], ""),
        (["1", "2", "10"], "\n"),
        (["not good", "good"], ""),
        (["ab", "a", "b"], "\n"),
        (["yes", "Yes, it is"], ""),
    ],
)
def test_options_end_in_a_line_break_where_one_begins_another(options, expected):
    assert terminator(options) == expected


def test_a_terminator_is_written_for_its_question_alone(tmp_path):
    settings, rows, _ = task_of(tmp_path, {"legal_options": ["1", "10"]}, {"legal_options": ["1", "2"]})
    assert [row["continuations"] for row in rows] == [["1\n", "10\n"], ["1", "2"]]
    assert "line break" in notes_of(settings) and settings["target_delimiter"] == " "


def test_prompts_that_end_in_a_space_and_prompts_that_do_not_are_one_task(tmp_path):
    options = {"legal_options": ["x", "y"]}
    settings, rows, _ = task_of(tmp_path, options, options | {"prompt": "It is "})
    assert settings["target_delimiter"] == ""
    assert [row["continuations"] for row in rows] == [[" x", " y"], ["x", "y"]]
    assert "plain prompts only" in notes_of(settings)


def test_a_prompt_that_ends_in_a_line_break_is_noted(tmp_path):
    settings, _, _ = task_of(tmp_path, {"legal_options": ["x", "y"], "prompt": "Choose.\n"})
    assert "line break or tab" in notes_of(settings)


def test_questions_without_a_prompt_are_left_out_and_counted(tmp_path):
    _, rows, written = task_of(tmp_path, {"legal_options": ["x", "y"]}, {"prompt": None})
    assert (len(rows), written.n_questions, written.n_without_prompt) == (1, 1, 1)
    with pytest.raises(WrongUsage, match="expected questions with a prompt, found none among 1"):
        task_of(tmp_path, {"prompt": None})


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ([{"legal_options": ["x", "y"]}, {"target": 1.0}], "expected options in every question or in none"),
        ([{"legal_options": ["x", "x"]}], "i/0: expected options that differ and are not empty"),
        ([{"legal_options": ["x", ""]}], "i/0: expected options that differ and are not empty"),
    ],
)
def test_what_lm_eval_could_not_ask_is_refused(tmp_path, items, words):
    with pytest.raises(InvalidSource, match=words):
        task_of(tmp_path / "tasks", *items)
    assert not (tmp_path / "tasks").exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "tasks").write_text("a file")
    with pytest.raises(WrongUsage, match="cannot be written"):
        task_of(tmp_path / "tasks", {"legal_options": ["x", "y"]})


def test_the_same_questions_are_the_same_files(tmp_path):
    for folder in ("one", "other"):
        task_of(tmp_path / folder, {"legal_options": ["x", "y"]})
    one, other = (
        {path.name: path.read_bytes() for path in (tmp_path / folder).iterdir()}
        for folder in ("one", "other")
    )
    assert one == other and len(one) == 3


def test_the_command_writes_a_schedule_of_this_project_without_a_download(tmp_path, project):
    done = coglake(Home(tmp_path / "lake"), project, "task", "bayesian_urn", "-o", str(tmp_path / "tasks"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("coglake_bayesian_urn: 400 questions in ")
    assert f"--include_path {tmp_path / 'tasks'} --tasks coglake_bayesian_urn --log_samples" in done.stderr
    rows = pq.read_table(tmp_path / "tasks" / "coglake_bayesian_urn.parquet")
    assert rows.num_rows == 400 and rows.column_names == ["item_id", "prompt", "target"]


def test_the_command_asks_the_test_alone_and_in_the_order_of_hashes(tmp_path, project):
    items = [
        {
            "item_id": f"test/{number}",
            "mode_id": "weather_prediction_hmmr",
            "source_id": "hmmr",
            "split": "train" if number == 3 else None,
            "prompt": f"Trial {number}. You predict:",
            "legal_options": ["Fine", "Rainy"],
            "weight": 1.0,
        }
        for number in range(6)
    ]
    run = {
        "run_id": "questions",
        "kind": "items",
        "model_id": "test",
        "agent_kind": "human",
        "planned_modes": ["weather_prediction_hmmr"],
        "source_id": "hmmr",
        "importer_version": 1,
        "notes": [],
    }
    lake = Home(tmp_path / "lake")
    commit(
        lake, "questions", [("items", pa.Table.from_pylist(items, ITEMS))], pa.Table.from_pylist([run], RUNS)
    )
    done = coglake(lake, project, "task", "weather_prediction_hmmr", "-o", str(tmp_path / "tasks"))
    assert done.returncode == 0, done.stderr
    rows = pq.read_table(tmp_path / "tasks" / "coglake_weather_prediction_hmmr.parquet")
    expected = sorted(
        (f"test/{number}" for number in (0, 1, 2, 4, 5)),
        key=lambda name: hashlib.md5(name.encode()).hexdigest(),
    )
    assert rows["item_id"].to_pylist() == expected


@pytest.fixture(scope="module")
def like_lake(tmp_path_factory):
    """A lake with two stand-ins of CogniRank: stories with endings, and puzzles that are answered in text."""
    folder = tmp_path_factory.mktemp("like")
    names = ("ttm_like", "marc_like")
    for name in names:
        standins.write(name, folder / "mirror")
    lake = Home(folder / "lake")
    reports = ingest(lake, [load_sources()[name] for name in names], mirror=str(folder / "mirror"))
    assert [report.failures for report in reports] == [()] * 2
    return lake


def test_a_data_set_with_options_is_a_task_of_plain_continuations(like_lake, project, tmp_path):
    done = coglake(like_lake, project, "task", "ttm_like", "-o", str(tmp_path))
    assert done.returncode == 0, done.stderr
    settings = yaml.load((tmp_path / "coglake_ttm_like.yaml").read_text(), Loader)
    rows = pq.read_table(tmp_path / "coglake_ttm_like.parquet").to_pylist()
    stories = {str(row["ind"]): row for row in ttm_like.rows()}
    asked = {row["item_id"].rpartition("/")[2]: row for row in rows}
    assert asked.keys() == stories.keys() and len(rows) == len(stories)
    for name, row in asked.items():
        story = stories[name]
        assert (row["prompt"], row["target"]) == (story["ctx"], story["label"])
        assert row["continuations"] == row["options"] == [ending.strip() for ending in story["endings"]]
    assert settings["target_delimiter"] == " "
    assert [metric["metric"] for metric in settings["metric_list"]] == ["acc", "acc_norm", "acc_bytes"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("marc_like", "answers are texts that coglake itself matches or grades"),
        ("ttm", "`coglake ingest ttm`"),
        ("ttm_lik", "did you mean ttm_like"),
    ],
)
def test_a_data_set_of_which_no_task_can_be_made_is_refused_in_one_line(
    like_lake, project, tmp_path, name, words
):
    done = coglake(like_lake, project, "task", name, "-o", str(tmp_path / "tasks"))
    assert done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "tasks").exists()


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("bart", "played step by step"),
        ("rlwm", "`coglake ingest rlwm`"),
        ("urn", "no such mode"),
        ("wcst_prediction", "not identified"),
    ],
)
def test_a_mode_without_questions_is_refused_in_one_line(tmp_path, project, mode, words):
    done = coglake(Home(tmp_path / "lake"), project, "task", mode, "-o", str(tmp_path / "tasks"))
    assert done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "tasks").exists()
