"""`coglake cognirank`: what it runs, writes, resumes and refuses."""

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from small_evaluations import (
    FACTS,
    N_QUESTIONS,
    STAND_INS,
    Talker,
    add_questions,
    install,
    model_folder,
)
from typer.testing import CliRunner

from store import command_cognirank, command_cognirank_look
from store.cli import app
from store.errors import EngineFailed, InvalidSource, SourceUnavailable
from store.lake import batch_parts, only_writer, part_paths
from store.manifest import load_sources
from store.settings import Home

ROOT = Path(__file__).parents[2]
LIMIT = ("--limit", str(N_QUESTIONS))
STAND_IN_OF = dict(zip(("smolcua", "marc", "procedural_pile", "ttm"), STAND_INS, strict=True))


def here(folder, patch):
    """Make a folder the current one and its lake the one in use."""
    patch.setenv("COGLAKE_HOME", str(folder / "lake"))
    patch.delenv("COGLAKE_DEBUG", raising=False)
    patch.chdir(folder)


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A lake with some questions of every stand-in, and the model `small`."""
    folder = tmp_path_factory.mktemp("begun")
    for dataset_id in STAND_INS:
        add_questions(Home(folder / "lake"), dataset_id)
    model_folder(folder / "small")
    return folder


@pytest.fixture(scope="module")
def evaluated(begun, tmp_path_factory):
    """The same once `small` was asked everything, with its results in `out`."""
    folder = tmp_path_factory.mktemp("evaluated")
    shutil.copytree(begun, folder, dirs_exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        here(folder, patch)
        install(patch)
        assert cognirank().exit_code == 0
    return folder


@pytest.fixture
def lake(begun, tmp_path, monkeypatch):
    """A lake with some questions of every stand-in; the current folder holds the model `small`."""
    shutil.copytree(begun, tmp_path, dirs_exist_ok=True)
    here(tmp_path, monkeypatch)
    return Home(tmp_path / "lake")


@pytest.fixture
def engines(lake, monkeypatch):
    """The engines that a command opens, in their order."""
    return install(monkeypatch)


@pytest.fixture
def done(evaluated, tmp_path, monkeypatch):
    """The lake after an evaluation, whose results are in `out` of the current folder; its engine is gone."""
    shutil.copytree(evaluated, tmp_path, dirs_exist_ok=True)
    here(tmp_path, monkeypatch)
    install(monkeypatch)
    return Home(tmp_path / "lake")


def cognirank(*arguments, models=("small",), output="out"):
    command = ["cognirank", "--stand-in", "all", *LIMIT, "--engine", "hf", "--output-dir", output]
    result = CliRunner().invoke(app, [*command, "--models", *models, *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.stderr
    return result


def folder_of(output="out", model="small"):
    (found,) = Path(output).glob(f"{model}@*")
    return found


def record(output="out", model="small"):
    return json.loads((folder_of(output, model) / "run.json").read_text())


def results(output="out", model="small"):
    return json.loads((folder_of(output, model) / "results.json").read_text(), parse_constant=pytest.fail)


def predicted(component, output="out"):
    text = (folder_of(output) / component / "predictions.jsonl").read_text()
    return [json.loads(line, parse_constant=pytest.fail) for line in text.splitlines()]


def is_as_summed(output="out"):
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=output, check=False
    )
    listed = {line[66:] for line in Path(output, "SHA256SUMS").read_text().splitlines()}
    there = {path.relative_to(output).as_posix() for path in Path(output).rglob("*") if path.is_file()}
    return done.returncode == 0 and listed == there - {"SHA256SUMS"}


# --- what is run ---


def test_each_component_is_asked_as_the_protocol_says_and_the_engine_is_loaded_once(lake, engines):
    result = cognirank()

    assert result.exit_code == 0, result.stderr
    (engine,) = engines
    assert (engine.n_opened, engine.is_closed) == (1, True)
    assert sorted(engine.asked) == sorted(
        f"{name}: question {i}" for name in STAND_INS for i in range(N_QUESTIONS)
    )
    # the short formats have 48 tokens, the others what the component has
    assert engine.budgets["smolcua_like: question 1"] == 48
    assert engine.budgets["smolcua_like: question 2"] == 512
    assert engine.budgets["marc_like: question 1"] == 200
    assert engine.budgets["pile_like: question 1"] == 512
    assert (engine.settings.max_context_tokens, engine.settings.may_extend_context) == (4096, True)
    assert (engine.settings.dtype, engine.settings.trust_remote_code) == ("bfloat16", False)


def test_a_chat_model_is_asked_in_a_chat_where_the_component_allows_it(done):
    texts = {row["prompt_sha256"] for row in predicted("marc")}
    (run_id,) = {record()["components"]["marc"]["run_id"]}
    import polars as pl

    prompts = pl.concat(
        [pl.read_parquet(path, hive_partitioning=False) for path in batch_parts(done, run_id, "prompts")]
    )
    assert {row["text"][:7] for row in prompts.to_dicts() if row["prompt_sha256"] in texts} == {"<False>"}
    smolcua = batch_parts(done, record()["components"]["smolcua"]["run_id"], "prompts")
    assert {text[:6] for text in pl.read_parquet(smolcua[0], hive_partitioning=False)["text"]} == {"<True>"}


def test_the_rows_of_a_run_name_the_evaluation_and_all_that_may_change_an_answer(lake, engines):
    import polars as pl

    cognirank("--trust-remote-code", "--eval-context", "2048")
    found = record()
    runs = pl.concat([pl.read_parquet(path, hive_partitioning=False) for path in part_paths(lake, "runs")])
    rows = runs.filter(pl.col("evaluation_id").is_not_null()).to_dicts()

    assert {row["evaluation_id"] for row in rows} == {found["evaluation_id"]}
    assert {row["planned_modes"][0] for row in rows} == set(STAND_INS)
    for row in rows:
        said = json.loads(row["identity_json"])["evaluation"]
        assert said["trust_remote_code"] is True
        assert said["context_requested_tokens"] == row["context_requested_tokens"] == 2048
        assert said["deviations"] == [
            "asked for a context of 2,048 tokens, where the protocol has 4,096 tokens"
        ]


def test_a_context_beyond_the_declared_one_is_recorded_as_an_extension(lake, monkeypatch):
    install(monkeypatch, facts=replace(FACTS, context_declared_tokens=2048))
    cognirank()

    assert record()["context"] == {
        "requested_tokens": 4096,
        "declared_tokens": 2048,
        "effective_tokens": 4096,
        "limit_tokens": None,
        "is_extension": True,
    }
    assert results()["is_context_extension"] is True


def test_the_own_context_of_a_model_is_never_extended_and_ends_at_that_of_the_protocol(lake, engines):
    cognirank("--eval-context", "0")

    (engine,) = engines
    assert (engine.settings.max_context_tokens, engine.settings.may_extend_context) == (4096, False)
    assert record()["deviations"] == ["asked for a context of its own, where the protocol has 4,096 tokens"]


def test_another_dtype_is_a_deviation(lake, monkeypatch):
    install(monkeypatch, facts=replace(FACTS, dtype="float32"))
    result = cognirank("--dtype", "float32")

    assert results()["deviations"] == ["computed in float32, where the protocol has bfloat16"]
    assert "warning: small: computed in float32" in result.stderr


def test_models_run_one_after_another_and_each_engine_is_closed_before_the_next_is_opened(lake, monkeypatch):
    opened = install(monkeypatch)
    model_folder(Path("other"))
    Path("other/config.json").write_text('{"other": 1}')
    before = command_cognirank.open_engine

    def open_engine(settings):
        assert all(engine.is_closed for engine in opened)
        return before(settings)

    monkeypatch.setattr(command_cognirank, "open_engine", open_engine)
    result = cognirank("--json", models=("small", "other"))

    assert result.exit_code == 0, result.stderr
    assert len(opened) == 2
    compared = json.loads(result.stdout)
    assert [model["model"] for model in compared["models"]] == ["other", "small"]
    assert compared == json.loads(Path("out/comparison.json").read_text())


# --- what is written ---


def test_the_folder_tells_everything_and_sums_up(done):
    names = {path.name for path in folder_of().iterdir()}
    components = {"smolcua", "marc", "procedural_pile", "ttm"}
    assert names == components | {"run.json", "results.json", "environment.json", "pip-freeze.txt"}
    for component in components:
        assert {path.name for path in (folder_of() / component).iterdir()} == {"log.txt", "predictions.jsonl"}
    assert {path.name for path in Path("out").iterdir()} == {
        folder_of().name,
        "comparison.json",
        "release.json",
        "SHA256SUMS",
    }
    assert is_as_summed()
    assert f"pytest=={pytest.__version__}" in (folder_of() / "pip-freeze.txt").read_text().splitlines()
    assert json.loads((folder_of() / "environment.json").read_text())["machine"] == {"device": "cpu"}


def test_predictions_are_in_the_order_of_the_questions_with_scores_and_verdicts(done):
    for component, dataset_id in zip(("smolcua", "marc", "procedural_pile", "ttm"), STAND_INS, strict=True):
        rows = predicted(component)
        assert [row["item_id"] for row in rows] == [f"{dataset_id}/{i}" for i in range(N_QUESTIONS)]
        assert {row["status"] for row in rows} == {"ok"}
    for row in predicted("smolcua"):
        assert row["scores"] == {"points": float(row["response_text"].startswith("one"))}
    for row in predicted("procedural_pile"):
        verdicts = {said["answer_rule"]: said["verdict"] for said in row["verdicts"]}
        assert verdicts["raw-v1"] == row["scores"]["reward"]
    for row in predicted("ttm"):
        assert [option["option"] for option in row["options"]] == ["one", "two", "three", "four"]
        assert {option["n_tokens"] for option in row["options"]} == {2}
        assert all(option["logprob_nats"] < 0 for option in row["options"])


def test_results_have_a_value_or_a_reason_and_no_number_that_json_does_not_know(done):
    told = results()

    assert (told["cogniscore"], told["withheld_because"]) == (None, "stand-ins")
    assert told["cogniscore_standin"] == pytest.approx(
        sum(part["value"] for part in told["components"].values()) / 4
    )
    for part in told["components"].values():
        assert (part["value"] is None) == (part["reason"] is not None)
        (metric,) = part["metrics"].values()
        assert metric["se"] is None  # it is NaN in the build
    assert told["components"]["smolcua"]["weight"] == "30/95"


def test_run_json_names_the_parts_in_the_lake(done):
    for component in record()["components"].values():
        assert component["state"] == "complete"
        assert (component["n_planned"], component["n_answered"]) == (N_QUESTIONS, N_QUESTIONS)
        for table, hashes in component["parts"].items():
            found = [path.stem for path in batch_parts(done, component["run_id"], table)]
            assert found == [f"part-{sha256}" for sha256 in hashes]
    assert "verdicts" in record()["components"]["procedural_pile"]["parts"]
    assert "output_options" in record()["components"]["ttm"]["parts"]


def test_without_some_questions_there_is_no_composite_and_the_reason_is_said(lake, engines):
    # of --limit questions fewer are answered than the small build asks for
    result = CliRunner().invoke(
        app,
        ["cognirank", "--stand-in", "all", "--limit", "2", "--output-dir", "out", "--model", "small"],
    )

    assert result.exit_code == 0
    told = results()
    assert told["cogniscore"] is told["cogniscore_standin"] is told["ci_low"] is None
    assert told["withheld_because"].count("2 answers") == 4
    assert "no CogniScore: smolcua: 2 answers" in result.stderr
    # of marc the small build has no mean, as the real one where a whole part was not asked
    shown = {name: f"(2 of {N_QUESTIONS}, {name})" for name in STAND_INS}
    assert f"100.00s {shown['ttm_like']}" in result.stdout
    assert f" - {shown['marc_like']}" in result.stdout
    assert "s: the mean over the questions that have a score, which is no score" in result.stderr


# --- what fails ---


def test_questions_that_are_missing_are_said_with_the_command_and_the_others_are_asked(lake, engines):
    result = CliRunner().invoke(
        app,
        [
            "cognirank",
            "--stand-in",
            "marc",
            "--stand-in",
            "ttm",
            *LIMIT,
            "--output-dir",
            "out",
            "--model",
            "small",
        ],
    )

    assert result.exit_code == SourceUnavailable.exit_code
    states = {name: part["state"] for name, part in record()["components"].items()}
    assert states == {
        "smolcua": "missing",
        "marc": "complete",
        "procedural_pile": "missing",
        "ttm": "complete",
    }
    assert "small: smolcua: missing: 0 of the 1,200 questions of smolcua are in the lake: " in result.stderr
    assert "`coglake ingest smolcua`" in results()["withheld_because"]
    assert is_as_summed()


def test_a_model_that_fails_does_not_stop_the_next_and_decides_the_exit_code(lake, monkeypatch):
    engines = install(monkeypatch, [Talker(dies_at=2), Talker()])
    model_folder(Path("other"))
    Path("other/config.json").write_text('{"other": 1}')
    result = cognirank(models=("small", "other"))

    assert result.exit_code == EngineFailed.exit_code
    assert result.stderr.endswith("with --resume\n")
    failure = "model small: RuntimeError: out of memory"
    assert record()["failure"] == failure
    assert record()["components"]["smolcua"]["state"] == "complete"
    assert record()["components"]["marc"] | {"run_id": None, "state": "failed", "reason": failure} == (
        record()["components"]["marc"] | {"run_id": None}
    )
    assert record(model="other")["failure"] is None
    assert results(model="other")["cogniscore_standin"] is not None
    assert results()["cogniscore_standin"] is None
    assert all(engine.is_closed for engine in engines)
    assert is_as_summed()


def test_a_model_that_cannot_be_described_is_recorded(lake, engines, monkeypatch):
    def describe(settings):
        raise EngineFailed("engine hf: package torch is not installed")

    monkeypatch.setattr(command_cognirank, "describe", describe)
    result = cognirank()

    assert result.exit_code == EngineFailed.exit_code
    assert record()["failure"] == "engine hf: package torch is not installed"
    assert results()["withheld_because"].startswith("engine hf: package torch is not installed")
    assert engines == []


def test_a_model_that_the_hub_does_not_have_is_recorded_and_found_later(lake, engines, monkeypatch):
    resolve = command_cognirank.resolve

    def gone(model, revision=None):
        if model == "org/gone":
            raise SourceUnavailable("there is no such repository")
        return resolve(model, revision)

    monkeypatch.setattr(command_cognirank, "resolve", gone)
    result = cognirank(models=("org/gone", "small"))
    assert result.exit_code == EngineFailed.exit_code
    assert json.loads(Path("out/org-gone@unresolved/run.json").read_text())["failure"] == (
        "there is no such repository"
    )
    assert results()["cogniscore_standin"] is not None

    def found(model, revision=None):
        if model == "org/gone":
            return command_cognirank.Weights(model, "0" * 40, model, is_folder=False)
        return resolve(model, revision)

    monkeypatch.setattr(command_cognirank, "resolve", found)
    assert cognirank("--resume", models=("org/gone", "small")).exit_code == 0
    assert {path.name[:8] for path in Path("out").iterdir() if path.is_dir()} == {
        "org-gone",
        "small@" + folder_of().name[6:8],
    }
    assert not Path("out/org-gone@unresolved").exists()
    assert is_as_summed()


def test_a_folder_that_cannot_be_read_does_not_stop_the_next(lake, engines, monkeypatch):
    resolve = command_cognirank.resolve

    def unreadable(model, revision=None):
        if model == "other":
            raise EngineFailed("cannot read other/model.safetensors: Input/output error")
        return resolve(model, revision)

    monkeypatch.setattr(command_cognirank, "resolve", unreadable)
    result = cognirank(models=("other", "small"))

    assert result.exit_code == EngineFailed.exit_code
    assert record(model="other")["failure"] == "cannot read other/model.safetensors: Input/output error"
    assert results()["cogniscore_standin"] is not None
    assert is_as_summed()


def test_a_prompt_that_does_not_fit_fails_its_component_and_no_other(lake, monkeypatch):
    install(monkeypatch, [Talker(too_long="marc_like: question 3")])
    result = cognirank()

    assert result.exit_code == EngineFailed.exit_code
    parts = record()["components"]
    assert {name: part["state"] for name, part in parts.items() if name != "marc"} == dict.fromkeys(
        ("smolcua", "procedural_pile", "ttm"), "complete"
    )
    reason = "1 of 5 questions have no answer (1 too_long): 5000 tokens, 4096 fit"
    assert (parts["marc"]["state"], parts["marc"]["reason"]) == ("failed", reason)
    assert results()["components"]["marc"]["value"] is None


def test_a_verifier_that_is_not_there_leaves_its_component_without_a_score_and_grades_later(
    lake, engines, monkeypatch
):
    graded = command_cognirank.grade_run

    def not_there(*_):
        raise EngineFailed("expected the Python of the verifier, found none: run `make setup-verifier`")

    monkeypatch.setattr(command_cognirank, "grade_run", not_there)
    result = cognirank()
    assert result.exit_code == EngineFailed.exit_code
    assert "procedural_pile: failed: not graded: expected the Python of the verifier" in result.stderr
    assert results()["components"]["procedural_pile"]["value"] is None
    assert record()["components"]["ttm"]["state"] == "complete"

    monkeypatch.setattr(command_cognirank, "grade_run", graded)
    assert cognirank("--resume").exit_code == 0
    assert results()["components"]["procedural_pile"]["value"] is not None
    assert len(engines) == 1  # nothing was asked again


def test_an_answer_without_a_verdict_fails_its_component(lake, engines, monkeypatch):
    monkeypatch.setattr(command_cognirank, "ungraded", lambda *_: (1, "timeout: no verdict within 20 s"))
    result = cognirank()

    assert result.exit_code == EngineFailed.exit_code
    assert record()["components"]["procedural_pile"]["state"] == "failed"
    told = results()["components"]["procedural_pile"]
    assert (told["value"], told["reason"]) == (
        None,
        "1 answers have no verdict, the first: timeout: no verdict within 20 s",
    )


# --- going on ---


def test_what_an_interrupted_component_keeps_is_as_the_protocol_says(lake, monkeypatch):
    # batches: smolcua 1, marc 1, pile 1, ttm 1; the first batch of smolcua is not asked again
    engines = install(monkeypatch, [Talker(dies_at=2)])
    assert cognirank().exit_code == EngineFailed.exit_code
    (first,) = engines
    assert cognirank("--resume").exit_code == 0

    (_, second) = engines
    assert set(first.asked) == {f"smolcua_like: question {i}" for i in range(N_QUESTIONS)}
    assert not set(first.asked) & set(second.asked)
    assert len(second.asked) == 3 * N_QUESTIONS


def test_a_component_that_resumes_as_a_whole_keeps_nothing_until_it_is_whole(lake, monkeypatch):
    from generate import evaluation

    small_batches = {
        name: component.model_copy(update={"batch_size": 2})
        for name, component in evaluation.load_components().items()
    }
    monkeypatch.setattr(evaluation, "load_components", lambda: small_batches)
    # smolcua takes three batches; marc fails in its second
    engines = install(monkeypatch, [Talker(dies_at=5)])
    cognirank()
    run_id = record()["components"]["marc"]["run_id"]
    assert batch_parts(lake, run_id, "outputs") == []
    assert cognirank("--resume").exit_code == 0

    first, second = engines
    assert [prompt for prompt in second.asked if "marc" in prompt] == [
        f"marc_like: question {i}" for i in range(N_QUESTIONS)
    ]
    assert not [prompt for prompt in second.asked if "smolcua" in prompt]
    assert len([prompt for prompt in first.asked if "marc" in prompt]) == 2
    assert len(batch_parts(lake, run_id, "outputs")) == 1


def test_a_second_time_asks_nothing_and_changes_no_number(done, monkeypatch):
    engines, before = install(monkeypatch), results()
    assert cognirank("--resume").exit_code == 0

    assert engines == []
    assert results() == before
    assert is_as_summed()
    assert "begins" in (folder_of() / "marc" / "log.txt").read_text()


def test_killed_again_and_again_it_ends_with_the_same_numbers_and_no_question_asked_twice(
    lake, tmp_path, monkeypatch
):
    whole, interrupted = tmp_path / "whole", tmp_path / "interrupted"
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests' / 'unit'}"}
    command = ["cognirank", "--stand-in", "all", *LIMIT, "--engine", "hf", "--model", "small"]

    def started(n_events, output, home):
        script = str(ROOT / "tests" / "unit" / "small_evaluations.py")
        return subprocess.run(
            [sys.executable, script, str(n_events), *command, "--output-dir", str(output), "--resume"],
            env=environment | {"COGLAKE_HOME": str(home)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    for home in (whole, interrupted):
        for dataset_id in STAND_INS:
            add_questions(Home(home), dataset_id)
    assert started(10**6, "as-whole", whole).returncode == 0
    n_killed, code, n_events = 0, None, 11
    while code != 0:
        code = (done := started(n_events, "as-interrupted", interrupted)).returncode
        assert code in (0, -signal.SIGKILL), done.stderr
        n_killed += code != 0
        # a little further each time, to land before, in and after every file
        n_events += 37
    assert n_killed > 1

    monkeypatch.chdir(tmp_path)
    for component in ("smolcua", "marc", "procedural_pile", "ttm"):
        assert predicted(component, "as-interrupted") == predicted(component, "as-whole")
    assert results("as-interrupted") == results("as-whole")
    assert is_as_summed("as-interrupted")
    # a question that is asked twice would have two rows
    assert all(part["n_answered"] == N_QUESTIONS for part in record("as-interrupted")["components"].values())


def test_an_interrupt_ends_after_the_batch_and_goes_on_later(lake, monkeypatch):
    class Interrupted(Talker):
        def respond(self, requests):
            if self.n_calls == 0:
                os.kill(os.getpid(), signal.SIGINT)
            return super().respond(requests)

    engines = install(monkeypatch, [Interrupted()])
    result = cognirank()

    assert result.exit_code == 130
    assert "--resume goes on from here" in result.stderr
    assert len(engines[0].asked) == N_QUESTIONS
    assert results_are_withheld()
    assert is_as_summed()
    assert cognirank("--resume").exit_code == 0
    assert len(engines[1].asked) == 3 * N_QUESTIONS


def results_are_withheld():
    (model,) = json.loads(Path("out/comparison.json").read_text())["models"]
    return model["cogniscore"] is None and "marc: the component is waiting" in model["withheld_because"]


def test_the_revision_of_a_repository_is_asked_for_once(lake, engines, monkeypatch):
    asked = []

    def resolve(model, revision=None):
        asked.append(model)
        return command_cognirank.Weights(model, "0" * 40, model, is_folder=False)

    monkeypatch.setattr(command_cognirank, "resolve", resolve)
    assert cognirank(models=("org/model",)).exit_code == 0
    assert cognirank("--resume", models=("org/model",)).exit_code == 0
    assert asked == ["org/model"]
    assert record(model="org-model")["revision"] == "0" * 40

    result = cognirank("--resume", "--model-revision", "1" * 40, models=("org/model",))
    assert result.exit_code == 0  # the stand-in for the hub says that this is the same commit

    def moved(model, revision=None):
        return command_cognirank.Weights(model, "1" * 40, model, is_folder=False)

    monkeypatch.setattr(command_cognirank, "resolve", moved)
    result = cognirank("--resume", "--model-revision", "main", models=("org/model",))
    assert result.exit_code == 2
    assert f"revision: expected {'1' * 40} as this command says, found {'0' * 40}" in result.stderr


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        (("--eval-context", "2048"), "context: expected 2048 as this command says, found 4096"),
        (("--dtype", "float32"), "dtype: expected float32 as this command says, found bfloat16"),
        (("--engine", "vllm"), "engine: expected vllm as this command says, found hf"),
        (("--limit", "4"), "limit: expected 4 as this command says, found 5"),
        (
            ("--trust-remote-code",),
            "code of the model's own: expected True as this command says, found False",
        ),
        (("--repeat", "1"), "repeat: expected 1 as this command says, found 0"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_what_was_asked_otherwise_is_not_gone_on_with(done, changed, what):
    before = {path: path.read_bytes() for path in Path("out").rglob("*") if path.is_file()}
    result = cognirank("--resume", *changed)

    assert result.exit_code == 2
    assert what in result.stderr
    assert {path: path.read_bytes() for path in Path("out").rglob("*") if path.is_file()} == before


def test_other_data_sets_other_weights_and_another_engine_version_are_not_gone_on_with(done, monkeypatch):
    command = ["cognirank", *LIMIT, "--engine", "hf", "--output-dir", "out", "--model", "small", "--resume"]
    result = CliRunner().invoke(app, command)
    assert (result.exit_code, "data sets: expected smolcua, marc" in result.stderr) == (2, True)

    install(monkeypatch, facts=replace(FACTS, version="2"))
    result = cognirank("--resume")
    assert (result.exit_code, "engine: expected hf 2" in result.stderr) == (2, True)

    Path("small/model.safetensors").write_bytes(b"other weights")
    result = cognirank("--resume")
    assert (result.exit_code, "revision: expected sha256:" in result.stderr) == (2, True)


def test_another_release_is_not_gone_on_with(done, monkeypatch):
    monkeypatch.setattr(command_cognirank, "release_id", lambda: "f" * 64)
    result = cognirank("--resume")

    assert result.exit_code == 2
    assert f"release: expected {'f' * 12} as this command says" in result.stderr


def test_what_is_refused_at_once_leaves_no_folder_that_is_in_the_way(lake, engines):
    result = cognirank(models=("small", "no-such-folder"))
    assert (result.exit_code, "is neither" in result.stderr) == (2, True)
    assert not Path("out").exists()
    assert cognirank().exit_code == 0


@pytest.mark.parametrize(("output", "where"), [("lake", "around"), ("lake/raw/out", "around"), (".", "in")])
def test_results_and_lake_are_kept_apart(lake, engines, output, where):
    before = sorted(lake.raw.rglob("*"))
    result = cognirank(output=output)

    assert result.exit_code == 2
    assert f"expected a folder apart from the lake, found the lake {lake.root} {where} it" in result.stderr
    assert sorted(lake.raw.rglob("*")) == before


def test_the_folder_of_a_model_under_another_name_is_no_second_model(done):
    shutil.copytree(folder_of(), "out/other@01234567")
    Path("out/SHA256SUMS").unlink()
    result = cognirank("--resume")

    assert result.exit_code == InvalidSource.exit_code
    assert f"out/other@01234567: expected the name {folder_of().name}" in result.stderr


def test_results_are_never_written_over(done):
    result = cognirank()
    assert (result.exit_code, "holds results already: --resume" in result.stderr) == (2, True)

    Path("notes").mkdir()
    Path("notes/note.txt").touch()
    result = cognirank(output="notes")
    assert (result.exit_code, "found other files in it" in result.stderr) == (2, True)
    assert [path.name for path in Path("notes").iterdir()] == ["note.txt"]


def test_two_runners_do_not_write_one_folder(done):
    names = []

    def spy(home, name):
        names.append(name)
        return only_writer(home, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command_cognirank, "only_writer", spy)
        assert cognirank().exit_code == 2  # without --resume
    with only_writer(done, names[0]):
        result = cognirank("--resume")
    assert result.exit_code == 14
    assert result.stderr == "error: out: another runner writes there; wait until it ends\n"


# --- what was changed by hand ---


@pytest.mark.parametrize("name", ["results.json", "smolcua/predictions.jsonl", "ttm/log.txt", "run.json"])
def test_a_file_that_was_changed_is_refused_and_named(done, name):
    path = folder_of() / name
    path.write_bytes(path.read_bytes().replace(b"1", b"2", 1))
    result = cognirank("--resume")

    assert result.exit_code == 11
    assert result.stderr.count("\n") == 1
    assert str(path) in result.stderr


@pytest.mark.parametrize("name", ["results.json", "marc/predictions.jsonl"])
def test_a_file_that_is_gone_is_refused_and_named_also_where_a_killed_runner_left_no_sums(done, name):
    (folder_of() / name).unlink()
    Path("out/SHA256SUMS").unlink()
    result = cognirank("--resume")

    assert result.exit_code == 11
    assert str(folder_of() / name) in result.stderr


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(b"PAR1")])
def test_a_part_in_the_lake_that_is_gone_or_damaged_is_refused_and_named(done, damage):
    part = batch_parts(done, record()["components"]["ttm"]["run_id"], "output_options")[0]
    damage(part)
    result = cognirank("--resume")

    assert result.exit_code == 11
    assert part.name in result.stderr


# --- usage ---


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--output-dir", "x"), "expected --model or --models"),
        (("--model", "small"), "expected --output-dir"),
        (("--models", "small", "small", "--output-dir", "x"), "expected different models, found one twice"),
        (("--models", "a/b", "c/d", "--model-revision", "main", "--output-dir", "x"), "expected one model"),
        (("--model", "small", "--resume"), "--resume: expected the folder"),
        (("--stand-in", "mark", "--model", "small", "--output-dir", "x"), "did you mean marc"),
        (("--verify", "--model", "small"), "--model does nothing beside --verify"),
        (("--verify", "small"), "MODEL does nothing beside --verify"),
        (("--print-requirements", "--limit", "2"), "--limit does nothing beside --print-requirements"),
        (("--dry-run", "--verify"), "--dry-run does nothing beside --verify"),
        (("--extract-only", "x", "--engine", "hf"), "--engine does nothing beside --extract-only"),
        (("--extract-only", "small/config.json"), "expected a folder, found a file"),
        (("--model", "no-such-folder", "--output-dir", "x"), "is neither"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused_in_one_sentence(lake, engines, arguments, sentence):
    result = CliRunner().invoke(app, ["cognirank", *arguments])

    assert result.exit_code == 2
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1
    assert engines == []
    assert not Path("x").exists()


# --- looking ---


def without_engines(command, **options):
    """Run a command where nothing of an engine can be imported, and return what it printed."""
    blocked = "torch transformers vllm ray tokenizers accelerate reasoning_core"
    code = (
        "import sys\n"
        f"for name in {blocked!r}.split(): sys.modules[name] = None\n"
        "from store.cli import main\n"
        f"sys.argv = ['coglake', *{command!r}]\n"
        "main()"
    )
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        text=True,
        capture_output=True,
        check=False,
        **options,
    )


def test_looks_need_neither_an_engine_nor_a_lake(tmp_path, monkeypatch):
    monkeypatch.setenv("COGLAKE_HOME", str(tmp_path / "no-lake"))
    model_folder(tmp_path / "small")
    plan = without_engines(["cognirank", "--dry-run", "--model", "small", "--json"], cwd=tmp_path)
    assert plan.returncode == 0, plan.stderr
    told = json.loads(plan.stdout)
    assert [part["weight"] for part in told["components"]] == ["30/95", "25/95", "25/95", "15/95"]
    assert [part["n_in_lake"] for part in told["components"]] == [0, 0, 0, 0]
    assert [model["model"] for model in told["models"]] == ["small"]

    needed = without_engines(["cognirank", "--print-requirements"], cwd=tmp_path)
    lines = needed.stdout.splitlines()
    assert any(line.startswith("vllm") for line in lines)
    assert any(line.startswith("torch") for line in lines)
    # what must not be installed beside these is said and no line for pip
    assert "# reasoning-core==0.5.0" in lines

    written = without_engines(["cognirank", "--extract-only", "all"], cwd=tmp_path)
    assert written.returncode == 0, written.stderr
    release = json.loads((tmp_path / "all" / "release.json").read_text())
    assert release["release_id"] == told["release_id"]
    for name in release["files"]:
        assert "#" in name or (tmp_path / "all" / name).is_file()
    monkeypatch.chdir(tmp_path)
    assert is_as_summed("all")
    for dataset_id in STAND_INS:
        example = json.loads((tmp_path / "all" / "prompts" / f"{dataset_id}.json").read_text())
        assert example["prompt"]
    again = without_engines(["cognirank", "--extract-only", "all"], cwd=tmp_path)
    assert (again.returncode, "expected an empty or new folder" in again.stderr) == (2, True)

    checked = without_engines(["cognirank", "--verify", "--json"], cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout
    assert {check["state"] for check in json.loads(checked.stdout)} == {"ok", "not here"}
    assert not (tmp_path / "no-lake").exists()


def test_verify_tells_what_differs(lake, monkeypatch):
    # these take their time, and are compared where there is no lake
    monkeypatch.setattr(command_cognirank_look.standins, "differences", lambda _source: [])
    result = CliRunner().invoke(app, ["cognirank", "--verify", "--json"])

    assert result.exit_code == 1
    wrong = {
        check["what"]: (check["expected"], check["found"])
        for check in json.loads(result.stdout)
        if check["state"] == "differs"
    }
    assert wrong["marc_like: questions"] == ("320", str(N_QUESTIONS))
    assert wrong["marc_like: questions by level"] == ("4 x 80", f"1 x {N_QUESTIONS}")


def test_a_plan_says_what_would_be_asked(lake):
    result = cognirank("--dry-run", "--eval-context", "2048")
    assert result.exit_code == 0
    assert (
        "asks hf in bfloat16, with 2,048 tokens of context, at most 5 questions per component, so there is "
        "no composite\n"
    ) in result.stdout

    told = json.loads(cognirank("--dry-run", "--json").stdout)
    assert (told["asking"]["limit"], told["asking"]["stand_ins"]) == (N_QUESTIONS, sorted(STAND_IN_OF))
    for part in told["components"]:
        assert (part["dataset_id"], part["n_asked"]) == (STAND_IN_OF[part["component_id"]], N_QUESTIONS)
        assert part["revision"] == load_sources()[part["dataset_id"]].revision
    assert not Path("out").exists()


def test_a_plan_writes_nothing_and_shows_what_is_left(done):
    before = {path: path.read_bytes() for path in Path("out").rglob("*") if path.is_file()}
    result = cognirank("--dry-run", "--resume", "--json")
    assert json.loads(result.stdout)["models"][0]["state"] == (
        "smolcua complete, marc complete, procedural_pile complete, ttm complete"
    )
    assert {path: path.read_bytes() for path in Path("out").rglob("*") if path.is_file()} == before
