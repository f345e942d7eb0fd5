"""Does the same work become the same run, once, whatever happens in between?"""

import json

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from doors import Scripted
from support import coglake, raw_hashes

from generate import pipeline
from generate.agents.uniform import Uniform
from generate.contract import Fit, Fitted
from generate.pipeline import ensure_items, generate, plan, schedule_run_id
from generate.schedule import Seeds, load_agents, load_schedules
from store import lake as raw
from store.errors import EngineFailed, InvalidSource
from store.lake import part_paths
from store.schemas import ITEMS, RAW_TABLES, RUNS
from store.settings import Home

UNIFORM = load_agents()["uniform"]


@pytest.fixture
def lake(tmp_path):
    lake = Home(tmp_path / "lake")
    raw.ensure_schema_parts(lake)
    return lake


def schedules(*names, count=2):
    """The schedules of the project, cut to a few seeds."""
    return {
        name: schedule.model_copy(update={"seeds": Seeds(first=schedule.seeds.first, count=count)})
        for name, schedule in load_schedules().items()
        if name in names
    }


def run_all(lake, agents, chosen):
    return generate(lake, plan(lake, agents, chosen))


def rows(lake, table):
    paths = [str(path) for path in part_paths(lake, table)]
    return ds.dataset(paths, schema=RAW_TABLES[table]).to_table().to_pylist()


def test_a_second_time_adds_nothing(lake):
    chosen = schedules("two_step", "restless_bandit", "bayesian_urn")
    reports = run_all(lake, [UNIFORM], chosen)
    assert [(report.mode_id, report.is_new) for report in reports] == [
        (schedule.mode, True) for schedule in chosen.values()
    ]
    before = raw_hashes(lake)
    again = run_all(lake, [UNIFORM], chosen)
    assert [(report.is_new, report.n_rows) for report in again] == [(False, 0)] * 3
    assert [report.run_id for report in again] == [report.run_id for report in reports]
    assert raw_hashes(lake) == before


def test_a_run_that_was_interrupted_is_done_again_to_the_same_bytes(lake, tmp_path, monkeypatch):
    chosen = schedules("two_step")
    whole = Home(tmp_path / "whole")
    raw.ensure_schema_parts(whole)
    run_all(whole, [UNIFORM], chosen)

    real_append = raw.append

    def append(home, table, rows, run_id):
        if table == "runs" and not run_id.startswith("schedule-"):
            raise KeyboardInterrupt
        return real_append(home, table, rows, run_id)

    with monkeypatch.context() as patch:
        patch.setattr(raw, "append", append)
        with pytest.raises(KeyboardInterrupt):
            run_all(lake, [UNIFORM], chosen)
    assert len(rows(lake, "steps")) > 0
    assert [run["kind"] for run in rows(lake, "runs")] == ["schedule"]

    [report] = run_all(lake, [UNIFORM], chosen)
    assert report.is_new
    in_runs = f"runs/run={report.run_id}"
    assert {path: sha for path, sha in raw_hashes(lake).items() if not path.startswith(in_runs)} == {
        path: sha for path, sha in raw_hashes(whole).items() if not path.startswith(in_runs)
    }


def test_a_schedule_that_changed_under_its_version_is_refused(lake):
    chosen = schedules("two_step")
    run_all(lake, [UNIFORM], chosen)
    changed = schedules("two_step", count=3)
    with pytest.raises(InvalidSource, match="two_step: the lake holds version 1 with another content"):
        plan(lake, [UNIFORM], changed)
    with pytest.raises(InvalidSource, match="raise the version"):
        ensure_items(lake, changed["two_step"])
    raised = {"two_step": changed["two_step"].model_copy(update={"version": 2})}
    [report] = run_all(lake, [UNIFORM], raised)
    assert report.is_new
    assert {run["importer_version"] for run in rows(lake, "runs") if run["kind"] == "schedule"} == {1, 2}


def test_another_description_is_the_same_schedule(lake):
    chosen = schedules("two_step")
    run_all(lake, [UNIFORM], chosen)
    reworded = {"two_step": chosen["two_step"].model_copy(update={"description": "The same in other words."})}
    assert [report.is_new for report in run_all(lake, [UNIFORM], reworded)] == [False]


def test_another_seed_or_setting_of_an_agent_is_another_run(lake):
    chosen = schedules("two_step")
    agents = [UNIFORM, UNIFORM.model_copy(update={"seed": 5}), UNIFORM.model_copy(update={"version": 2})]
    assert len({task.run_id for task in plan(lake, agents, chosen)}) == 3


def test_a_run_says_who_played_what(lake):
    chosen = schedules("two_step")
    [report] = run_all(lake, [UNIFORM], chosen)
    [schedule, run] = sorted(rows(lake, "runs"), key=lambda run: run["kind"])
    assert schedule["run_id"] == schedule_run_id(chosen["two_step"]) == "schedule-two_step-v1"
    assert schedule["source_sha256"] == chosen["two_step"].sha256
    assert (run["run_id"], run["kind"], run["model_id"]) == (report.run_id, "uniform", "uniform")
    assert run["model_revision"] == UNIFORM.sha256
    assert run["planned_modes"] == ["two_step"]
    assert (run["seed"], run["importer_version"]) == (UNIFORM.seed, 1)
    assert json.loads(run["environment_json"])["numpy"] == np.__version__
    assert len(run["parts"]) == 1
    assert {step["run_id"] for step in rows(lake, "steps")} == {report.run_id}


def test_fits_are_written_with_their_provenance(lake, monkeypatch):
    class Fixed(Uniform):
        def fit(self, environment, training_seeds):
            policy = Scripted(lambda seen: seen.legal.argmax(axis=1))
            fit = Fit("threshold", 4.0, participant_id="p1", is_at_bound=False, n_training=10)
            return Fitted(policy, ("p1",), (fit,), f"{len(training_seeds)} training episodes")

    monkeypatch.setattr("generate.agents.uniform.Uniform", Fixed)
    monkeypatch.setattr("generate.schedule._class", lambda package, name: Fixed)
    agent = UNIFORM.model_copy(update={"id": "fixed", "kind": "reference", "schedule": "two_step"})
    chosen = schedules("two_step")
    monkeypatch.setattr(type(chosen["two_step"]), "environment", lambda self: environment)
    from generate.environments.two_step import TwoStep

    environment = TwoStep.model_validate(dict(chosen["two_step"].constants))
    run_all(lake, [agent], chosen)
    [fit] = rows(lake, "fits")
    assert fit["run_id"] == rows(lake, "steps")[0]["run_id"]
    assert {name: fit[name] for name in ("family", "participant_id", "parameter", "value")} == {
        "family": "uniform",
        "participant_id": "p1",
        "parameter": "threshold",
        "value": 4.0,
    }
    assert (fit["training_set"], fit["n_training"], fit["is_at_bound"]) == ("0 training episodes", 10, False)
    assert (fit["provenance"], fit["seed"]) == ("analytic", UNIFORM.seed)


def test_an_agent_that_returns_nothing_adds_nothing(lake, monkeypatch):
    monkeypatch.setattr("generate.agents.uniform.UniformPolicy.act", lambda *_: (None, None))
    with pytest.raises(EngineFailed, match="one per episode"):
        run_all(lake, [UNIFORM], schedules("two_step"))
    assert rows(lake, "steps") == []


def test_a_run_that_a_later_one_displaced_is_named(lake):
    chosen = schedules("two_step")
    [first] = run_all(lake, [UNIFORM], chosen)
    other = UNIFORM.model_copy(update={"seed": 5})
    [second] = run_all(lake, [other], chosen)
    # the settings are those of the first run again, and the cell is the second's
    [task] = plan(lake, [UNIFORM], chosen)
    assert (task.run_id, task.is_present, task.displaced_by) == (first.run_id, True, second.run_id)
    assert [task.displaced_by for task in plan(lake, [other], chosen)] == [None]
    raised = UNIFORM.model_copy(update={"version": 2})
    assert [(task.is_present, task.displaced_by) for task in plan(lake, [raised], chosen)] == [(False, None)]


@pytest.mark.parametrize("error", [RuntimeError("no luck"), SystemExit(0), KeyError("arm"), MemoryError()])
def test_whatever_an_agent_raises_is_its_failure_and_names_it(lake, monkeypatch, error):
    def act(*_):
        raise error

    monkeypatch.setattr("generate.agents.uniform.UniformPolicy.act", act)
    with pytest.raises(EngineFailed, match=f"uniform in two_step: {type(error).__name__}"):
        run_all(lake, [UNIFORM], schedules("two_step"))
    assert rows(lake, "steps") == []


def test_two_at_once_are_one_run(lake):
    chosen = schedules("two_step")
    first, second = (plan(lake, [UNIFORM], chosen) for _ in range(2))
    assert [report.is_new for report in generate(lake, first)] == [True]
    assert [(report.is_new, report.n_rows) for report in generate(lake, second)] == [(False, 0)]
    assert len(rows(lake, "runs")) == 2


def test_a_schedule_plays_the_mode_whose_items_it_holds(lake):
    [schedule] = schedules("two_step").values()
    for mode, sentence in [("twostep", "expected a mode"), ("bart", "the items of bart come from bart")]:
        other = schedule.model_copy(update={"mode": mode})
        with pytest.raises(InvalidSource, match=sentence):
            plan(lake, [UNIFORM], {"two_step": other})


# ---- questions that were ingested ----

QUESTIONS = [
    {"item_id": "q1", "legal_options": ["yes", "no", "none"], "credited_options": ["no"], "weight": 2.0},
    {"item_id": "q2", "legal_options": ["yes", "no"], "credited_options": ["yes"], "participant_id": "p9"},
    {"item_id": "q3", "support_low": 0.0, "support_high": 100.0, "target": 30.0},
    {"item_id": "q4", "support_low": 0.0, "support_high": 4.0, "target": 1.0, "legal_options": list("01234")},
    {"item_id": "q5", "support_low": 2.0, "support_high": 2.0, "target": 2.0, "legal_options": ["2"]},
]


def ingested(lake, source_id="tomi", mode_id="false_belief_qa", run_id="tomi-1"):
    defaults = {"mode_id": mode_id, "source_id": source_id, "weight": 1.0}
    items = pa.Table.from_pylist([defaults | question for question in QUESTIONS], ITEMS)
    run = {
        "run_id": run_id,
        "kind": "items",
        "model_id": source_id,
        "agent_kind": "none",
        "planned_modes": [mode_id],
        "source_id": source_id,
        "notes": [],
    }
    raw.commit(lake, run_id, [("items", items)], pa.Table.from_pylist([run], RUNS))


def test_the_uniform_agent_answers_with_its_whole_distribution(lake):
    ingested(lake)
    [report] = run_all(lake, [UNIFORM], {})
    assert (report.mode_id, report.n_rows) == ("false_belief_qa", 5)
    outputs = {row["item_id"]: row for row in rows(lake, "outputs")}
    assert {name: row["episode_id"] for name, row in outputs.items()} == {
        "q1": "q1",
        "q2": "p9",
        "q3": "q3",
        "q4": "q4",
        "q5": "q5",
    }
    reports = {
        name: (row["report_low"], row["report_high"], row["report_spacing"]) for name, row in outputs.items()
    }
    assert reports == {
        "q1": (None, None, None),
        "q2": (None, None, None),
        "q3": (0.0, 100.0, 0.0),
        "q4": (0.0, 4.0, 1.0),
        "q5": (2.0, 2.0, 0.0),
    }
    options = [
        (row["item_id"], row["option_index"], row["option"], row["logprob_nats"])
        for row in rows(lake, "output_options")
    ]
    third, half = pytest.approx(-np.log(3), abs=1e-15), pytest.approx(-np.log(2), abs=1e-15)
    assert options == [
        ("q1", 0, "yes", third),
        ("q1", 1, "no", third),
        ("q1", 2, "none", third),
        ("q2", 0, "yes", half),
        ("q2", 1, "no", half),
    ]


def test_an_agent_is_shown_nothing_that_says_what_is_right(lake, monkeypatch):
    shown = []

    def answer(self, questions):
        shown.append(questions.column_names)
        return questions.select(["item_id"])

    monkeypatch.setattr(Uniform, "answer", answer)
    ingested(lake)
    run_all(lake, [UNIFORM], {})
    assert shown == [["item_id", "legal_options", "support_low", "support_high", "facts_json"]]


def test_questions_are_answered_once(lake):
    ingested(lake)
    assert [report.is_new for report in run_all(lake, [UNIFORM], {})] == [True]
    # the agent's answers are of the same source, and no questions
    assert [report.is_new for report in run_all(lake, [UNIFORM], {})] == [False]


def test_items_of_a_substitute_are_no_questions_of_the_mode(lake):
    ingested(lake, source_id="another_set", run_id="another-1")
    assert plan(lake, [UNIFORM], {}) == []


def test_modes_that_share_a_source_are_runs_of_their_own(lake):
    for mode_id in ("shj_categories", "medin_categories"):
        ingested(lake, source_id="psych_101", mode_id=mode_id, run_id=f"psych-{mode_id}")
    reports = run_all(lake, [UNIFORM], {})
    assert {report.mode_id: report.n_rows for report in reports} == {
        "shj_categories": len(QUESTIONS),
        "medin_categories": len(QUESTIONS),
    }
    assert len({report.run_id for report in reports}) == 2


def test_more_items_make_another_run(lake):
    ingested(lake)
    [first] = plan(lake, [UNIFORM], {})
    ingested(lake, run_id="tomi-2")
    [second] = plan(lake, [UNIFORM], {})
    assert first.run_id != second.run_id


# ---- the command ----


def test_the_command_plans_generates_and_says_so(lake, project):
    arguments = ("generate", "--agent", "uniform", "--modes", "bayesian_urn", "--json")
    planned = json.loads(coglake(lake, project, *arguments, "--dry-run").stdout)
    assert [run["is_new"] for run in planned["runs"]] == [True]
    assert rows(lake, "outputs") == []
    done = json.loads(coglake(lake, project, *arguments).stdout)
    assert [(run["is_new"], run["n_rows"]) for run in done["runs"]] == [(True, 400)]
    again = coglake(lake, project, "generate", "--agent", "unif*", "--modes", "bayesian_urn")
    assert again.returncode == 0
    assert "0 new" in again.stdout


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (("--agent", "unifrom"), "unifrom: no such agent; did you mean uniform?"),
        (("--agent", "zzz*"), "zzz*: no such agent; there are uniform"),
        (("--agent", "uniform", "--modes", "zzz"), "zzz: no such mode; there are bayesian_urn"),
        (("--agent", "bayes", "--modes", "bart"), "bayes: nothing to do in bart"),
        (
            ("--agent", "hybrid_independent_networks"),
            "hybrid_independent_networks: nothing to do in any mode: "
            "the source of the questions of hybrid_sampling is not identified\n",
        ),
        (
            ("--agent", "leave_one_out"),
            "the questions of politeness, pragmatic_interpretation are not in the lake: "
            "ingest polite_speaker, pragmatics\n",
        ),
        (
            ("--agent", "leave_one_out", "--agent", "hybrid_independent_networks"),
            "hybrid_sampling is not identified; the questions of politeness, pragmatic_interpretation are",
        ),
        (
            ("--agent", "leave_one_out", "--modes", "politeness"),
            "in politeness: the questions of politeness are not in the lake: ingest polite_speaker\n",
        ),
        (
            ("--agent", "leave_one_out", "--modes", "bart"),
            "in bart: what is predicted is politeness, pragmatic_interpretation\n",
        ),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(lake, project, arguments, sentence):
    result = coglake(lake, project, "generate", *arguments)
    assert result.returncode == 2
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "old, new, sentence",
    [
        ("count = 10", "count = 0", "seeds.count"),
        ('dynamics = "restless:', 'dynamics = "restful:', "no restful:"),
        ("[restless_bandit]", "[restless_bandit]\nspeed = 3", "speed: unknown key"),
        (
            "[restless_bandit]",
            '[restless_bandit]\nid = "bart"',
            "id: unknown key",
        ),
        ("first = 30000000", "first = 20261009", "training_seeds must not be seeds of the test"),
        ("first = 30000000", "first = 4294967295", "seeds must be below 2\\^32"),
        ("reward_sd = 8.0", "reward_sd = inf", "reward_sd"),
        ('"restless:RestlessBandit"', '"restless:BaseModel"', "no restless:BaseModel"),
        ("version = 1", "version = 0", "version"),
    ],
)
def test_a_manifest_that_is_not_valid_is_named(old, new, sentence, tmp_path):
    text = (pipeline.project_dir() / "manifests" / "environments.toml").read_text()
    start = text.index("[restless_bandit]")
    path = tmp_path / "environments.toml"
    path.write_text(text[start:].replace(old, new, 1))
    with pytest.raises(InvalidSource, match=f"environments.toml: restless_bandit: .*{sentence}"):
        load_schedules(path)["restless_bandit"].environment()


def test_an_empty_manifest_leaves_nothing_to_play(lake, tmp_path):
    path = tmp_path / "environments.toml"
    path.write_text("")
    assert load_schedules(path) == {}
    path.write_text("not = [toml")
    with pytest.raises(InvalidSource, match=r"environments.toml: cannot be read"):
        load_schedules(path)
