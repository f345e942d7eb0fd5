"""CogniRank's components of one model: what names an evaluation, what is asked, and with which engine."""

from dataclasses import replace

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_evaluations import FACTS, N_QUESTIONS, Talker, add_questions

from generate.evaluation import (
    NATIVE,
    Asking,
    SharedEngine,
    ask_component,
    describe_model,
    n_questions,
    plan_component,
    played,
    questions_of,
)
from generate.evaluation_predictions import answered, predictions, ungraded
from generate.weights import Weights
from store.errors import EngineFailed, LakeUnusable
from store.lake import batch_parts, commit, commit_batch
from store.protocol import load_datasets, load_graders
from store.schemas import ITEMS, OUTPUTS, RUNS, VERDICTS
from store.settings import Home

WEIGHTS = Weights("org/model", "0" * 40, "org/model", is_folder=False)
ASKING = Asking(
    engine="hf",
    dtype="bfloat16",
    context_tokens=4096,
    trust_remote_code=False,
    stand_ins=frozenset({"marc", "ttm", "smolcua", "procedural_pile"}),
    limit=None,
    repeat=0,
)


@pytest.fixture
def lake(tmp_path):
    home = Home(tmp_path / "lake")
    for dataset_id in ("smolcua_like", "marc_like", "pile_like", "ttm_like"):
        add_questions(home, dataset_id)
    return home


def described(asking=ASKING, facts=FACTS, weights=WEIGHTS):
    return describe_model(weights, asking, lambda settings: facts)


def planned(lake, dataset_id, **changes):
    return plan_component(lake, described(**changes), load_datasets()[dataset_id])


def done(lake, dataset_id, engine, limit=None, is_stopping=lambda: False):
    shared = SharedEngine(described(), lambda settings: engine)
    plan = planned(lake, dataset_id)
    try:
        return ask_component(lake, plan, WEIGHTS, shared, limit, lambda *_: None, is_stopping)
    finally:
        shared.close()


# --- what an evaluation is ---


@pytest.mark.parametrize(
    "changed",
    [
        {"weights": replace(WEIGHTS, revision="1" * 40)},
        {"weights": replace(WEIGHTS, model_id="org/other")},
        {"facts": replace(FACTS, name="vllm")},
        {"facts": replace(FACTS, version="2")},
        {"facts": replace(FACTS, dtype="float32")},
        {"facts": replace(FACTS, decisive={"attention": "eager"})},
        {"facts": replace(FACTS, context_effective_tokens=2048)},
        {"asking": replace(ASKING, context_tokens=2048)},
        {"asking": replace(ASKING, context_tokens=NATIVE)},
        {"asking": replace(ASKING, trust_remote_code=True)},
        {"asking": replace(ASKING, repeat=1)},
    ],
    ids=str,
)
def test_whatever_may_change_an_answer_is_another_evaluation(lake, changed):
    assert described(**changed).evaluation_id != described().evaluation_id
    assert planned(lake, "marc_like", **changed).task.run_id != planned(lake, "marc_like").task.run_id


@pytest.mark.parametrize(
    "changed",
    [
        {"asking": replace(ASKING, stand_ins=frozenset())},
        {"asking": replace(ASKING, limit=3)},
        {"facts": replace(FACTS, incidental={"device": "cuda"})},
    ],
    ids=["data sets", "limit", "device"],
)
def test_what_may_not_is_the_same_evaluation(changed):
    assert described(**changed).evaluation_id == described().evaluation_id


def test_a_component_is_played_by_its_stand_in_where_the_user_says_so():
    assert [dataset.dataset_id for dataset in played({"marc"}).values()] == [
        "smolcua",
        "marc_like",
        "procedural_pile",
        "ttm",
    ]


def test_components_of_one_evaluation_share_its_id_and_have_runs_of_their_own(lake):
    tasks = [planned(lake, name).task for name in ("smolcua_like", "marc_like", "pile_like", "ttm_like")]
    assert {task.evaluation_id for task in tasks} == {described().evaluation_id}
    assert len({task.run_id for task in tasks}) == 4
    assert [task.is_one_batch for task in tasks] == [False, True, False, True]


@pytest.mark.parametrize(
    ("has_chat_template", "is_chat"), [(True, [True, False, True, False]), (False, [False] * 4)]
)
def test_the_form_of_a_prompt_is_the_component_s(lake, has_chat_template, is_chat):
    facts = replace(FACTS, has_chat_template=has_chat_template)
    names = ("smolcua_like", "marc_like", "pile_like", "ttm_like")
    assert [planned(lake, name, facts=facts).choosing.is_chat for name in names] == is_chat


# --- its context ---


@pytest.mark.parametrize(
    ("asked", "wanted", "may_extend"), [(4096, 4096, True), (512, 512, True), (NATIVE, 4096, False)]
)
def test_the_engine_is_told_the_context(asked, wanted, may_extend):
    settings = described(replace(ASKING, context_tokens=asked)).settings
    assert (settings.max_context_tokens, settings.may_extend_context) == (wanted, may_extend)
    # the largest batch of a component: no batch is split
    assert settings.batch_size == 32


@pytest.mark.parametrize(
    ("declared", "effective", "is_extension"),
    [(8192, 4096, False), (4096, 4096, False), (2048, 4096, True), (2048, 2048, False), (None, 4096, False)],
)
def test_more_than_the_declared_context_is_an_extension(declared, effective, is_extension):
    facts = replace(FACTS, context_declared_tokens=declared, context_effective_tokens=effective)
    assert described(facts=facts).is_extension is is_extension


def test_deviations_are_sentences():
    found = described(
        replace(ASKING, dtype="float32", context_tokens=NATIVE), replace(FACTS, dtype="float32")
    ).deviations
    assert found == (
        "computed in float32, where the protocol has bfloat16",
        "asked for a context of its own, where the protocol has 4,096 tokens",
    )
    assert described().deviations == ()


# --- its questions ---


def test_questions_at_another_revision_are_not_those_of_the_data_set(lake):
    before = n_questions(lake, load_datasets()["marc_like"])
    rows = [
        {
            "item_id": "marc_like/x",
            "mode_id": "marc_like",
            "source_id": "marc_like",
            "prompt": "?",
            "weight": 1,
        }
    ]
    run = {
        "run_id": "items-of-another-revision",
        "kind": "items",
        "model_id": "marc_like",
        "agent_kind": "none",
        "planned_modes": ["marc_like"],
        "source_id": "marc_like",
        "source_uri": "generated://marc_like@0-other/marc_like.jsonl",
        "importer_version": 1,
        "notes": [],
    }
    commit(
        lake,
        run["run_id"],
        [("items", pa.Table.from_pylist(rows, ITEMS))],
        pa.Table.from_pylist([run], RUNS),
    )
    assert n_questions(lake, load_datasets()["marc_like"]) == before == N_QUESTIONS
    assert "items-of-another-revision" not in questions_of(lake, load_datasets()["marc_like"])


def test_a_data_set_that_is_not_there_has_no_run_and_no_questions(tmp_path):
    nowhere = Home(tmp_path / "nowhere")
    assert planned(nowhere, "ttm_like") is None
    assert n_questions(nowhere, load_datasets()["ttm"]) == 0
    assert not nowhere.root.exists()


def test_the_budget_of_a_question_holds_where_it_is_smaller(lake):
    engine = Talker()
    done(lake, "smolcua_like", engine)
    assert [engine.budgets[f"smolcua_like: question {i}"] for i in range(4)] == [512, 48, 512, 48]


def test_questions_of_an_older_version_have_no_budget_of_their_own(lake):
    for path in (lake.raw / "items").glob("run=items-marc_like-*/part-*.parquet"):
        rows = pq.ParquetFile(path).read()
        pq.write_table(rows.drop_columns(["max_response_tokens"]), path)
    engine = Talker()
    done(lake, "marc_like", engine)
    assert set(engine.budgets.values()) == {200}


# --- asking ---


def test_what_resumes_as_a_whole_keeps_nothing_when_it_is_stopped(lake):
    dataset_id = "ttm_like"
    add_questions(lake, dataset_id, 20)
    plan = planned(lake, dataset_id)
    stopped = Talker()
    report = done(lake, dataset_id, stopped, is_stopping=lambda: stopped.n_calls > 0)
    assert (report.is_whole, report.n_new, len(stopped.asked)) == (False, 0, plan.choosing.batch_size)
    assert batch_parts(lake, plan.task.run_id, "outputs") == []

    report = done(lake, dataset_id, Talker())
    assert (report.is_whole, report.n_new) == (True, 20)
    assert len(batch_parts(lake, plan.task.run_id, "outputs")) == 1


def test_a_wish_to_stop_during_the_last_batch_leaves_it_whole(lake):
    report = done(lake, "ttm_like", engine := Talker(), is_stopping=lambda: engine.n_calls > 0)
    assert (report.is_whole, report.n_new) == (True, N_QUESTIONS)


def test_a_higher_limit_adds_to_what_is_there(lake):
    done(lake, "marc_like", few := Talker(), limit=2)
    done(lake, "marc_like", more := Talker(), limit=4)
    assert (len(few.asked), len(more.asked), set(few.asked) & set(more.asked)) == (2, 2, set())


def test_an_engine_is_loaded_by_the_first_question_and_closed_once(lake):
    engine = Talker()
    opened = []
    shared = SharedEngine(described(), lambda settings: opened.append(settings) or engine)
    for name in ("smolcua_like", "marc_like"):
        assert ask_component(
            lake, planned(lake, name), WEIGHTS, shared, None, lambda *_: None, lambda: False
        ).is_whole
        assert not engine.is_closed
    shared.close()
    assert (len(opened), engine.is_closed) == (1, True)
    # what is whole needs no engine
    ask_component(lake, planned(lake, "marc_like"), WEIGHTS, shared, None, lambda *_: None, lambda: False)
    assert len(opened) == 1


@pytest.mark.parametrize("where", ["describe", "open", "answer"])
def test_whatever_code_of_others_raises_is_the_failure_of_the_model(lake, where):
    def fail(*_):
        raise SystemExit("bye\nTraceback of somebody")

    with pytest.raises(EngineFailed) as failed:
        if where == "describe":
            describe_model(WEIGHTS, ASKING, fail)
        engine = Talker()
        engine.respond = fail
        opens = fail if where == "open" else lambda settings: engine
        shared = SharedEngine(described(), opens)
        ask_component(lake, planned(lake, "marc_like"), WEIGHTS, shared, None, lambda *_: None, lambda: False)
    assert str(failed.value) == "model org/model: SystemExit: bye"


def test_an_engine_whose_error_is_a_sentence_is_taken_at_its_word():
    def fail(settings):
        raise EngineFailed("engine vllm: package vllm is not installed")

    with pytest.raises(EngineFailed, match=r"^engine vllm: package vllm is not installed$"):
        describe_model(WEIGHTS, ASKING, fail)


# --- what was answered ---


def test_predictions_tell_a_question_that_was_answered_twice_twice(lake):
    done(lake, "marc_like", Talker())
    plan = planned(lake, "marc_like")
    again = pl.read_parquet(batch_parts(lake, plan.task.run_id, "outputs")[0], hive_partitioning=False)
    rows = again.head(1).with_columns(response_text=pl.lit("another")).to_arrow()
    commit_batch(
        lake,
        plan.task.run_id,
        [("outputs", pa.Table.from_pylist(rows.to_pylist(), OUTPUTS))],
        n_requests=0,
        environment={},
        started_at=pl.Series(["2026-11-30"]).str.to_datetime(time_zone="UTC").to_list()[0],
    )
    told = list(predictions(lake, plan))
    assert len(told) == N_QUESTIONS + 1
    assert len({row["item_id"] for row in told}) == N_QUESTIONS
    assert answered(lake, plan.task.run_id).n == N_QUESTIONS + 1


def test_a_damaged_part_is_a_sentence(lake):
    done(lake, "marc_like", Talker())
    plan = planned(lake, "marc_like")
    batch_parts(lake, plan.task.run_id, "outputs")[0].write_bytes(b"PAR1")
    with pytest.raises(LakeUnusable, match="coglake doctor"):
        answered(lake, plan.task.run_id)


@pytest.mark.parametrize(
    ("status", "rule", "version", "n"),
    [
        ("timeout", "raw-v1", None, 1),
        ("ok", "raw-v1", None, 0),
        ("timeout", "last-line-v1", None, 0),
        ("timeout", "raw-v1", "another version", 0),
    ],
)
def test_only_a_verdict_of_the_declared_grader_under_its_first_rule_fails_a_component(
    lake, status, rule, version, n
):
    done(lake, "pile_like", Talker())
    plan, grader = planned(lake, "pile_like"), load_graders()["reasoning_core"]
    verdict = {
        "run_id": plan.task.run_id,
        "item_id": "pile_like/0",
        "mode_id": "pile_like",
        "episode_id": "pile_like/0",
        "grader_id": grader.id,
        "grader_version": version or grader.version,
        "answer_rule": rule,
        "status": status,
        "status_reason": "no verdict within 20 s",
    }
    commit_batch(
        lake,
        plan.task.run_id,
        [("verdicts", pa.Table.from_pylist([verdict], VERDICTS))],
        n_requests=0,
        environment={},
        started_at=pl.Series(["2026-11-30"]).str.to_datetime(time_zone="UTC").to_list()[0],
    )
    assert ungraded(lake, plan.task.run_id, grader) == (n, f"{status}: no verdict within 20 s" if n else None)
