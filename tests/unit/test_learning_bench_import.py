"""LearningBench: is the leaderboard published and no more, and is a log scored only where it says enough?"""

import json

import pyarrow.dataset as ds
import pytest
from handwritten import ingested

from store.errors import InvalidSource
from store.lake import part_paths
from store.schemas import RAW_TABLES

LEADERBOARD = "leaderboard/leaderboard_flat.csv"
HEADER = "model_name,model_slug,task_slug,category,score,eval_date"
GAME = "mastermind_aggregate_rf_learning"
LENGTH_5 = "A hidden pattern length 5. Budget: 30."


def rows_of(lake, table):
    paths = [str(path) for path in part_paths(lake, table)]
    return ds.dataset(paths, schema=RAW_TABLES[table]).to_table().to_pylist() if paths else []


def imported(folder, path, content):
    lake, report = ingested(folder, "learning_bench", path, content.encode())
    assert report.failures == ()
    return {table: rows_of(lake, table) for table in ("published", "items", "steps", "runs")}


def refusal(folder, path, content):
    _, report = ingested(folder, "learning_bench", path, content.encode())
    [failure] = report.failures
    assert isinstance(failure, InvalidSource)
    assert report.n_new_rows == 0
    return str(failure)


def leaderboard(*rows):
    return "\n".join([HEADER, *rows]) + "\n"


def log_path(task):
    return f"analysis/outputs/kernel_logs/maker_model/{task}-run_id_Run_1_maker_model.run.json"


def log(task, turns, model="maker/model-1@default", score=None, **more):
    """A log of one dialogue: what was told, and the reply or None."""
    requests = [
        {
            "contents": [
                {"role": f"CONTENT_ROLE_{role}", "parts": [{"text": text}]}
                for role, text in (("USER", told), ("ASSISTANT", said))
                if text is not None
            ]
        }
        for told, said in turns
    ]
    return json.dumps(
        {
            "taskVersion": {"name": task, "definition": "..."},
            "modelVersion": {"slug": model},
            "state": "BENCHMARK_TASK_RUN_STATE_COMPLETED",
            "startTime": "2026-04-12T01:25:49.772005Z",
            "endTime": "2026-04-12T01:26:49.772005Z",
            "conversations": [{"id": "one", "requests": requests}],
            "results": [{"numericResult": {} if score is None else {"value": score}}],
            **more,
        }
    )


def echoes(*sums):
    return [(LENGTH_5, "AAAAA"), *((f"Echo: COUPLING_SUM = **{n}** of all.", "BBBBB") for n in sums)]


# leaderboard


def test_every_score_is_a_row_with_its_category(tmp_path):
    found = imported(
        tmp_path,
        LEADERBOARD,
        leaderboard("Big,big-1,a-obs-learning,obs-learning,0.25,x", "Big,big-1,10000,unknown,1.0,x"),
    )
    assert [(row["mode_id"], row["model_id"], row["label"], row["value"]) for row in found["published"]] == [
        ("10000", "big-1", "associative_learning", 1.0),
        ("a-obs-learning", "big-1", "observational_learning", 0.25),
    ]
    [run] = found["runs"]
    assert (run["kind"], run["planned_modes"]) == ("published", ["10000", "a-obs-learning"])
    assert run["notes"] == ["1 tasks of the category unknown are counted as associative learning"]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("Big,big-1,a,obs-learning,1.5,x", "row 2: score: expected a number from 0 to 1, found 1.5"),
        ("Big,big-1,a,obs-learning,nan,x", "row 2: score: expected a number from 0 to 1, found nan"),
        ("Big,big-1,a,obs-learning,,x", "row 2: score: expected a number from 0 to 1, found nothing"),
        ("Big,big-1,a,cooking,0.5,x", "row 2: category: expected one that is known, found cooking"),
        ("Big,,a,obs-learning,0.5,x", "row 2: expected task and model, found none"),
        ("Big,big-0,z,obs-learning,0.5,x", "row 1: expected one score of big-0 in z, found 2"),
    ],
)
def test_a_row_that_cannot_be_meant_refuses_the_leaderboard(tmp_path, row, said):
    assert said in refusal(tmp_path, LEADERBOARD, leaderboard("Old,big-0,z,obs-learning,0.5,x", row))


# logs


def test_a_game_that_ended_before_its_budget_was_solved_with_its_last_action(tmp_path):
    found = imported(tmp_path, log_path(GAME), log(GAME, echoes(1, 3, 2)))
    assert [row["outcome"] for row in found["steps"]] == ["moved", "moved", "moved", "solved"]
    assert [row["hidden_values"] for row in found["steps"]] == [[0.2], [0.6], [0.6], [1.0]]
    assert [row["is_last"] for row in found["steps"]] == [False, False, False, True]
    assert [row["response_text"] for row in found["steps"]] == ["AAAAA", "BBBBB", "BBBBB", "BBBBB"]
    [item] = found["items"]
    assert (item["mode_id"], item["credited_options"]) == ("mastermind-aggregate-rf-learning", None)
    [run] = found["runs"]
    assert (run["kind"], run["model_id"]) == ("archived", "model-1-default")


def test_a_game_that_used_its_budget_has_the_progress_before_its_last_action(tmp_path):
    found = imported(tmp_path, log_path(GAME), log(GAME, echoes(*[2] * 28, 4)))
    assert len(found["steps"]) == 30
    assert (found["steps"][-1]["outcome"], found["steps"][-1]["hidden_values"]) == ("moved", [0.8])


def test_feedback_that_is_not_understood_gives_no_score_and_says_so(tmp_path):
    found = imported(tmp_path, log_path(GAME), log(GAME, [*echoes(1), ("Try harder.", "CCCCC")], score=0.5))
    assert found["items"] == []
    assert [row["outcome"] for row in found["steps"]] == [None, None, None]
    assert found["runs"][0]["notes"] == [
        "the log states the score 0.5",
        "no score: the log does not say which answers are right, or how far its player came",
    ]


@pytest.mark.parametrize(
    "content",
    [
        log(GAME, [*echoes(1, 3), ("Echo: COUPLING_SUM = **2** of all.", None)]),
        log(GAME, echoes(1, 3, 2), state="BENCHMARK_TASK_RUN_STATE_ERRORED"),
    ],
    ids=["without its last reply", "that failed"],
)
def test_a_game_that_was_broken_off_was_not_solved(tmp_path, content):
    found = imported(tmp_path, log_path(GAME), content)
    assert found["items"] == []
    assert {row["outcome"] for row in found["steps"]} == {None}
    assert found["runs"][0]["notes"][-1] == "no score: the run was not carried to its end"


def test_a_game_longer_than_its_budget_is_another_and_has_no_score(tmp_path):
    found = imported(tmp_path, log_path(GAME), log(GAME, echoes(*[2] * 30)))
    assert (len(found["steps"]), found["items"]) == (31, [])


def test_answers_after_other_turns_are_those_of_the_last(tmp_path):
    task = "inhibitory_summation_assoc_learning"
    assertions = [{"expectation": "`q_1` must match.", "status": "ASSERTION_STATUS_PASSED"}]
    turns = [("Predict.", "well"), ("Go on.", '{"q_1": "DAMP"}')]
    found = imported(tmp_path, log_path(task), log(task, turns, assertions=assertions))
    assert [row["outcome"] for row in found["steps"]] == [None, "examined"]
    assert [item["credited_options"] for item in found["items"]] == [["DAMP"]]


def test_a_log_of_a_model_that_is_not_on_the_leaderboard_keeps_its_own_name(tmp_path):
    found = imported(tmp_path, log_path(GAME), log(GAME, echoes(1), model="someone/new-model@v2"))
    assert found["runs"][0]["model_id"] == "new-model-v2"


def test_answers_of_which_the_log_says_whether_they_are_right_are_items(tmp_path):
    task = "inhibitory_summation_assoc_learning"
    reply = json.dumps(json.dumps({"q_1": "FLARE", "q_2": "DAMP"}))
    assertions = [
        {"expectation": "`q_1` must match.", "status": "ASSERTION_STATUS_PASSED"},
        {"expectation": "`q_2` must match.", "status": "ASSERTION_STATUS_FAILED"},
    ]
    found = imported(tmp_path, log_path(task), log(task, [("Predict.", reply)], assertions=assertions))
    assert [item["credited_options"] for item in found["items"]] == [["FLARE"], []]
    assert [json.loads(item["facts_json"])["question"] for item in found["items"]] == [1, 2]
    [step] = found["steps"]
    assert (step["outcome"], step["response_text"]) == ("examined", "q_1: FLARE\nq_2: DAMP")


def test_a_task_whose_right_answers_are_not_in_the_log_keeps_its_transcript(tmp_path):
    task = "codon_table_translation_obs_learning"
    found = imported(tmp_path, log_path(task), log(task, [("Observe.", '{"a": [1, 2]}'), ("More?", None)]))
    assert [row["response_text"] for row in found["steps"]] == ["a: [1, 2]", None]
    assert found["items"] == []
    assert found["runs"][0]["notes"][0] == "the log states the score 0.0"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "Invalid JSON"),
        (log(GAME, echoes(1, 3))[:-40], "Invalid JSON"),
        ("[]", "Input should be an object"),
        ("{}", "taskVersion: Field required"),
        (log(GAME, []), "expected a dialogue"),
    ],
)
def test_what_is_no_log_is_refused(tmp_path, content, said):
    assert said in refusal(tmp_path, log_path(GAME), content)
