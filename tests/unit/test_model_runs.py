"""Runs of models: what names them, what is asked, and that nothing is asked twice or lost."""

import hashlib
import math
import shutil
from dataclasses import dataclass, field, replace

import polars as pl
import pyarrow as pa
import pytest

from generate.contract import Answer, EngineFacts, Response, ScoredOption
from generate.model_runs import count, do, plan, protocol_name
from generate.pending import Slice
from generate.rollouts import Choosing
from generate.schedule import load_schedules
from generate.weights import Weights
from store.errors import EngineFailed, LakeUnusable
from store.lake import append, batch_parts, commit, doctor, only_writer, part_paths
from store.schemas import ITEMS, RUNS
from store.settings import Home

MODE, SOURCE = "false_belief_qa", "tomi"
WEIGHTS = Weights("org/model", "0" * 40, "org/model", is_folder=False)
FACTS = EngineFacts("hf", "1", "float32", 2048, 2048, has_chat_template=True, n_leading_bos=1, bos_token_id=1)
CHOOSING = Choosing("argmax", is_chat=True, max_response_tokens=8, stop=(), seed=0, batch_size=4)


def nats(prompt, option):
    """A log-probability that prompt and option decide."""
    digest = hashlib.sha256(f"{prompt}|{option}".encode()).digest()
    return -0.01 - digest[0] / 64


@dataclass
class Talker:
    """An engine that answers every request by a rule, fails at a call, and keeps what it was asked."""

    facts: EngineFacts = FACTS
    dies_at: int | None = None
    asked: list = field(default_factory=list)
    n_calls: int = 0
    is_closed: bool = False

    def respond(self, requests):
        self.n_calls += 1
        if self.n_calls == self.dies_at:
            raise EngineFailed("the engine died")
        self.asked += [request.prompt[-1].content for request in requests]
        return [self.said(request) for request in requests]

    def said(self, request):
        prompt = request.prompt[-1].content
        shared = {"prompt_text": f"<s>{prompt}", "prompt_token_ids": (1, 5, 6), "n_prompt_tokens": 3}
        if isinstance(request.task, Answer):
            return Response(
                "ok", **shared, text="0.5", finish_reason="stop", max_tokens=request.task.max_tokens
            )
        options = tuple(ScoredOption(o, (7,), (nats(prompt, o),)) for o in request.task.options)
        return Response("ok", **shared, options=options)

    def close(self):
        self.is_closed = True


@pytest.fixture
def lake(tmp_path):
    return with_questions(Home(tmp_path / "lake"), 10)


def with_questions(lake, n, template="a" * 64):
    rows = [
        {
            "item_id": f"{SOURCE}/{i}",
            "mode_id": MODE,
            "source_id": SOURCE,
            "split": None if i % 2 else "test",
            "prompt": f"Question {i}: drawer or basket?\nAnswer:",
            "template_id": "false_belief",
            "template_sha256": template,
            "legal_options": ["drawer", "basket"],
            "credited_options": ["drawer"],
            "weight": 1.0,
        }
        for i in range(n)
    ]
    for_fitting = [rows[0] | {"item_id": f"{SOURCE}/train", "split": "train", "prompt": None}]
    run = {
        "run_id": f"questions-{template[:4]}-{n}",
        "kind": "items",
        "model_id": "none",
        "agent_kind": "none",
        "planned_modes": [MODE],
        "source_id": SOURCE,
        "source_uri": "file",
        "importer_version": n,
        "notes": [],
    }
    items = pa.Table.from_pylist(rows + for_fitting, ITEMS)
    commit(lake, run["run_id"], [("items", items)], pa.Table.from_pylist([run], RUNS))
    return lake


def planned(lake, weights=WEIGHTS, facts=FACTS, choosing=CHOOSING, modes=(MODE,), **more):
    return plan(lake, weights, facts, choosing, load_schedules(), modes, **more)


def done(lake, engine, part=Slice(), choosing=CHOOSING, tasks=None, is_stopping=lambda: False):  # noqa: B008
    tasks = planned(lake, choosing=choosing) if tasks is None else tasks
    return do(lake, WEIGHTS, tasks, choosing, lambda: engine, part, lambda *_: None, is_stopping)


def committed(lake, task, table):
    """Rows of a table that count."""
    paths = batch_parts(lake, task.run_id, table)
    return pl.concat([pl.read_parquet(path, hive_partitioning=False) for path in paths]) if paths else None


def sorted_rows(lake, task, table, *keys):
    return committed(lake, task, table).sort(keys).to_dicts()


# --- what a run is ---


@pytest.mark.parametrize(
    "changed",
    [
        {"weights": replace(WEIGHTS, revision="1" * 40)},
        {"weights": replace(WEIGHTS, model_id="other")},
        {"facts": replace(FACTS, version="2")},
        {"facts": replace(FACTS, dtype="bfloat16")},
        {"facts": replace(FACTS, context_effective_tokens=1024)},
        {"facts": replace(FACTS, decisive={"prefix_caching": "true"})},
        {"choosing": replace(CHOOSING, is_chat=False)},
        {"choosing": replace(CHOOSING, choice="sampled")},
        {"choosing": replace(CHOOSING, seed=1)},
        {"choosing": replace(CHOOSING, max_response_tokens=9)},
        {"repeat": 1},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_whatever_may_change_an_answer_makes_another_run(lake, changed):
    assert planned(lake, **changed)[0].run_id != planned(lake)[0].run_id


@pytest.mark.parametrize(
    "changed",
    [
        {"choosing": replace(CHOOSING, batch_size=1)},
        {"facts": replace(FACTS, incidental={"device": "cuda"})},
    ],
    ids=["batch size", "device"],
)
def test_what_may_not_change_an_answer_makes_the_same_run(lake, changed):
    assert planned(lake, **changed)[0].run_id == planned(lake)[0].run_id


def test_a_repeated_run_differs_from_the_first_in_nothing_but_its_number(lake):
    first, again = planned(lake)[0], planned(lake, repeat=1)[0]
    assert first.identity_sha256 == again.identity_sha256


def test_other_words_for_the_same_questions_make_another_run(lake, tmp_path):
    other = with_questions(Home(tmp_path / "other"), 10, template="b" * 64)
    assert planned(other)[0].run_id != planned(lake)[0].run_id


def test_the_row_of_a_run_says_what_was_asked_of_whom(lake):
    (task,) = planned(lake)
    done(lake, Talker())
    (path,) = [path for path in part_paths(lake, "runs") if path.parent.name == f"run={task.run_id}"]
    (run,) = pl.read_parquet(path, hive_partitioning=False).to_dicts()
    assert run["kind"] == "model"
    assert (run["model_id"], run["model_revision"]) == (WEIGHTS.model_id, WEIGHTS.revision)
    assert (run["engine"], run["engine_version"], run["dtype"]) == ("hf", "1", "float32")
    assert (run["protocol"], run["seed"], run["repeat"]) == ("chat", 0, 0)
    assert run["context_effective_tokens"] == 2048
    assert run["parts"] is None
    assert run["started_at"] is None


@pytest.mark.parametrize(
    ("changed", "name"),
    [({}, "chat"), ({"is_chat": False}, "plain"), ({"choice": "text"}, "chat, text")],
    ids=["chat", "plain", "text"],
)
def test_a_protocol_has_a_short_name(changed, name):
    assert protocol_name(replace(CHOOSING, **changed)) == name


# --- what is asked ---


def test_every_question_of_the_test_is_asked_once_and_none_that_is_for_fitting(lake):
    engine = Talker()
    (report,) = done(lake, engine)
    assert (report.n_planned, report.n_new, report.is_whole) == (10, 10, True)
    assert sorted(engine.asked) == sorted(f"Question {i}: drawer or basket?\nAnswer:" for i in range(10))
    assert engine.is_closed


def test_rows_hold_every_option_with_its_log_probability_and_lengths(lake):
    (task,) = planned(lake)
    done(lake, Talker())
    outputs = sorted_rows(lake, task, "outputs", "item_id")
    options = sorted_rows(lake, task, "output_options", "item_id", "option_index")
    assert [row["item_id"] for row in outputs] == sorted(f"{SOURCE}/{i}" for i in range(10))
    assert {row["status"] for row in outputs} == {"ok"}
    assert [row["option"] for row in options] == ["drawer", "basket"] * 10
    for row in options:
        number = row["item_id"].partition("/")[2]
        prompt = f"Question {number}: drawer or basket?\nAnswer:"
        assert row["logprob_nats"] == nats(prompt, row["option"])
        assert (row["n_tokens"], row["n_characters"], row["n_bytes"]) == (1, 6, 6)


def test_a_second_time_opens_no_engine(lake):
    done(lake, Talker())

    def refuse():
        raise AssertionError("the engine was opened")

    (report,) = do(lake, WEIGHTS, planned(lake), CHOOSING, refuse, Slice(), lambda *_: None, lambda: False)
    assert (report.n_new, report.is_whole) == (0, True)


def test_a_limit_takes_some_questions_and_a_higher_one_adds_to_them(lake):
    few, more = Talker(), Talker()
    done(lake, few, Slice(limit=3))
    (report,) = done(lake, more, Slice(limit=7))
    assert (len(few.asked), len(more.asked)) == (3, 4)
    assert not set(few.asked) & set(more.asked)
    assert report.n_planned == 7


def test_a_limited_slice_is_the_same_whatever_order_the_questions_are_stored_in(lake, tmp_path):
    other = with_questions(Home(tmp_path / "other"), 12)
    one, two = Talker(), Talker()
    done(lake, one, Slice(limit=3))
    done(other, two, Slice(limit=12))
    # the first three of the hashes are a random sample, not the first of the file
    ranks = sorted(range(10), key=lambda i: hashlib.md5(f"{SOURCE}/{i}".encode()).hexdigest())
    assert sorted(one.asked) == sorted(f"Question {i}: drawer or basket?\nAnswer:" for i in ranks[:3])


@pytest.mark.parametrize("dies_at", [1, 2, 3])
def test_what_was_answered_before_an_engine_dies_is_not_asked_again(lake, dies_at):
    first, second = Talker(dies_at=dies_at), Talker()
    with pytest.raises(EngineFailed, match="the engine died"):
        done(lake, first)
    done(lake, second)
    assert sorted(first.asked + second.asked) == sorted(
        f"Question {i}: drawer or basket?\nAnswer:" for i in range(10)
    )


def test_rows_of_a_batch_that_was_never_finished_do_not_count(lake, monkeypatch):
    (task,) = planned(lake)
    engine = Talker()

    def fails_at_the_last_part(home, table, rows, run_id):
        if table == "batches" and engine.n_calls == 2:
            raise LakeUnusable("killed")
        return append(home, table, rows, run_id)

    monkeypatch.setattr("store.lake.append", fails_at_the_last_part)
    with pytest.raises(LakeUnusable, match="killed"):
        done(lake, engine)
    monkeypatch.undo()
    assert len(committed(lake, task, "outputs")) == 4
    done(lake, Talker())
    outputs, prompts = committed(lake, task, "outputs"), committed(lake, task, "prompts")
    assert sorted(outputs["item_id"]) == sorted(f"{SOURCE}/{i}" for i in range(10))
    assert sorted(prompts["prompt_sha256"]) == sorted(outputs["prompt_sha256"])


def test_a_model_that_cannot_be_loaded_leaves_no_run(lake):
    def cannot_be_loaded():
        raise EngineFailed("no such weights")

    before = part_paths(lake)
    with pytest.raises(EngineFailed, match="no such weights"):
        do(
            lake,
            WEIGHTS,
            planned(lake),
            CHOOSING,
            cannot_be_loaded,
            Slice(),
            lambda *_: None,
            lambda: False,
        )
    assert part_paths(lake) == before


def test_a_stop_ends_after_the_batch_in_flight(lake):
    engine = Talker()
    (report,) = done(lake, engine, is_stopping=lambda: engine.n_calls >= 2)
    assert (len(engine.asked), report.n_new, report.is_whole) == (8, 8, False)


def test_shards_share_the_questions_and_their_lakes_are_merged_by_copying(lake, tmp_path):
    whole = Home(shutil.copytree(lake.root, tmp_path / "whole"))
    parts = [Home(shutil.copytree(lake.root, tmp_path / f"part{i}")) for i in range(3)]
    talkers = [Talker() for _ in parts]
    for i, (part, engine) in enumerate(zip(parts, talkers, strict=True)):
        done(part, engine, Slice(shard=i, n_shards=3))
    done(whole, Talker())
    for part in parts:
        shutil.copytree(part.raw, lake.raw, dirs_exist_ok=True)
    (task,) = planned(lake)
    assert sum(len(engine.asked) for engine in talkers) == 10
    for table, keys in (("outputs", ["item_id"]), ("output_options", ["item_id", "option_index"])):
        assert sorted_rows(lake, task, table, *keys) == sorted_rows(whole, task, table, *keys)
    assert count(lake, task, Slice()) == (10, 0)
    assert doctor(lake) == []


def test_two_processes_do_not_do_the_same_part(lake):
    (task,) = planned(lake)
    with only_writer(lake, task.run_id), pytest.raises(LakeUnusable, match="another process is at it"):
        done(lake, Talker())


def test_a_lost_part_of_a_batch_is_found(lake):
    (task,) = planned(lake)
    done(lake, Talker())
    batch_parts(lake, task.run_id, "outputs")[0].unlink()
    assert any("was committed with this part" in finding.problem for finding in doctor(lake))


def test_a_prompt_is_stored_once_however_often_it_is_asked(lake):
    done(lake, Talker())
    done(lake, Talker(), tasks=planned(lake, repeat=1))
    prompts = pl.concat(
        [pl.read_parquet(path, hive_partitioning=False) for path in part_paths(lake, "prompts")]
    )
    assert len(prompts) == prompts["prompt_sha256"].n_unique() == 10
    for row in prompts.to_dicts():
        assert row["prompt_sha256"] == hashlib.sha256(row["text"].encode()).hexdigest()
        assert (row["n_leading_bos"], row["n_declared_bos"]) == (1, 1)


def test_a_failed_question_is_a_row_and_the_others_go_on(lake):
    class Choking(Talker):
        def said(self, request):
            if "Question 3" in request.prompt[-1].content:
                return Response("error", "question 3", reason="out of memory")
            return super().said(request)

    (report,) = done(lake, Choking())
    (task,) = planned(lake)
    failed = [row for row in sorted_rows(lake, task, "outputs", "item_id") if row["status"] != "ok"]
    assert [(row["item_id"], row["status_reason"]) for row in failed] == [(f"{SOURCE}/3", "out of memory")]
    assert (report.n_by_status, report.n_new, report.is_whole) == ({"error": 1}, 10, True)


def test_a_missing_option_has_no_log_probability(lake):
    class Forgetful(Talker):
        def said(self, request):
            said = super().said(request)
            lost = replace(
                said.options[1], token_logprobs_nats=(), status="missing_option", reason="none was returned"
            )
            return replace(said, status="missing_option", options=(said.options[0], lost))

    (task,) = planned(lake)
    done(lake, Forgetful())
    options = sorted_rows(lake, task, "output_options", "item_id", "option_index")
    assert {row["logprob_nats"] for row in options if row["option"] == "basket"} == {None}
    assert all(math.isfinite(row["logprob_nats"]) for row in options if row["option"] == "drawer")


def test_an_engine_that_is_not_the_one_described_is_refused(lake):
    with pytest.raises(EngineFailed, match="dtype: expected float32"):
        done(lake, Talker(facts=replace(FACTS, dtype="bfloat16")))


def test_text_is_asked_for_where_the_protocol_says_so(lake):
    choosing = replace(CHOOSING, choice="text")
    (task,) = planned(lake, choosing=choosing)
    done(lake, Talker(), choosing=choosing)
    assert {row["response_text"] for row in sorted_rows(lake, task, "outputs", "item_id")} == {"0.5"}
    assert committed(lake, task, "output_options") is None


# --- schedules of this project ---


def test_questions_of_a_schedule_need_no_ingest(tmp_path):
    lake = Home(tmp_path / "lake")
    (task,) = planned(lake, modes=["bayesian_urn"])
    assert count(lake, task, Slice(limit=5)) == (5, 5)
    assert not lake.raw.exists()
    engine = Talker()
    (report,) = done(lake, engine, Slice(limit=5), tasks=[task])
    assert (report.n_new, len(set(engine.asked))) == (5, 5)


def test_an_environment_is_played_and_its_run_goes_on(tmp_path):
    lake = Home(tmp_path / "lake")
    (task,) = planned(lake, modes=["restless_bandit"])
    assert count(lake, task, Slice(limit=3)) == (3, 3)
    first, second = Talker(), Talker()
    done(lake, first, Slice(limit=1), tasks=[task], is_stopping=lambda: first.n_calls >= 30)
    (report,) = done(lake, second, Slice(limit=1), tasks=[task])
    assert count(lake, task, Slice(limit=3)) == (3, None)
    steps = sorted_rows(lake, task, "steps", "episode_id", "step_index")
    assert report.is_whole
    assert len(first.asked) + len(second.asked) == len(steps) == 80
    assert [row["step_index"] for row in steps] == list(range(80))


def test_a_run_that_is_played_says_how_many_episodes_it_has_and_which_of_its_steps_are_the_last(tmp_path):
    lake = Home(tmp_path / "lake")
    asked, played = (planned(lake, modes=[mode])[0] for mode in ("bayesian_urn", "temporal_discounting"))
    assert "n_episodes" not in asked.identity
    (report,) = done(lake, Talker(), tasks=[played])
    steps = committed(lake, played, "steps")
    n_over = steps.filter(pl.col("is_last"))["episode_id"].n_unique()
    assert report.n_planned == played.identity["n_episodes"] == n_over == steps["episode_id"].n_unique()


def test_a_mode_without_questions_is_left_out(tmp_path):
    assert planned(Home(tmp_path / "lake"), modes=["multiple_cue_judgment"]) == []
