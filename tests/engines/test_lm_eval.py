"""Questions go out as a task of lm-eval and its samples come back: do they say what the engine here says?"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from support import built, coglake, query

from generate.contract import Choose, Request
from generate.engines.settings import EngineSettings, open_engine
from store.lake import commit, part_paths
from store.lm_eval_task import terminator
from store.schemas import ITEMS, RAW_TABLES, RUNS
from store.settings import Home

pytest.importorskip("lm_eval")
pytestmark = pytest.mark.engines

WEATHER, SOURCE = "weather_prediction_hmmr", "hmmr"
# the last question has an option of several tokens that goes on where another ends
OPTIONS = [["Fine", "Rainy"]] * 9 + [["Fine", "Fine and a little windy"]]


def weather_items():
    for number, options in enumerate(OPTIONS):
        yield {
            "item_id": f"test/{number}",
            "mode_id": WEATHER,
            "source_id": SOURCE,
            "prompt": f"Trial {number}. On the table: {'square ' * (number % 3)}triangle. You predict:",
            "legal_options": options,
            "credited_options": [options[number % 2]],
            "weight": 1.0,
        }


def commit_items(lake):
    run = {
        "run_id": "questions",
        "kind": "items",
        "model_id": "test",
        "agent_kind": "human",
        "planned_modes": [WEATHER],
        "source_id": SOURCE,
        "importer_version": 1,
        "notes": [],
    }
    items = pa.Table.from_pylist(list(weather_items()), ITEMS)
    commit(lake, "questions", [("items", items)], pa.Table.from_pylist([run], RUNS))


def rows_of(lake, table, **values):
    found = ds.dataset([str(path) for path in part_paths(lake, table)], schema=RAW_TABLES[table]).to_table()
    return [row for row in found.to_pylist() if all(row[name] == value for name, value in values.items())]


def lm_eval(folder, tasks, model, home, *arguments):
    """Run lm-eval as its users do, without a network, and return the samples by task."""
    results = folder / "results"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "lm_eval", "--model", "hf", "--device", "cpu"),
            *("--model_args", f"pretrained={model},dtype=float32"),
            *("--include_path", str(folder / "tasks"), "--tasks", ",".join(tasks)),
            *("--log_samples", "--output_path", str(results), *arguments),
        ],
        # a task is found wherever it is run from
        cwd=home,
        env=os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(home), "TOKENIZERS_PARALLELISM": "false"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return {task: next(results.rglob(f"samples_{task}_*.jsonl")) for task in tasks}


@pytest.fixture(scope="module")
def trip(tmp_path_factory, project, small_model_path):
    """A lake with ten questions about the weather and some about urns, and what lm-eval made of them."""
    folder = tmp_path_factory.mktemp("trip")
    lake = Home(folder / "lake")
    commit_items(lake)
    for mode in (WEATHER, "bayesian_urn"):
        written = coglake(lake, project, "task", mode, "-o", str(folder / "tasks"))
        assert written.returncode == 0, written.stderr
    home = tmp_path_factory.mktemp("home")
    tasks = [f"coglake_{WEATHER}", "coglake_bayesian_urn"]
    samples = lm_eval(folder, tasks, small_model_path, home, "--limit", "10")
    for mode, task in zip((WEATHER, "bayesian_urn"), tasks, strict=True):
        done = coglake(lake, project, "import", "lm-eval", str(samples[task]), "--mode", mode)
        assert done.returncode == 0, done.stderr
    return lake, samples


def test_option_log_probabilities_are_those_of_the_engine_here(trip, small_model_path):
    lake, _ = trip
    engine = open_engine(EngineSettings(engine="hf", model=str(small_model_path), dtype="float32"))
    items = list(weather_items())
    responses = engine.respond(
        [Request(f"{item['prompt']} ", Choose(tuple(item["legal_options"]))) for item in items]
    )
    engine.close()
    found = {
        (row["item_id"], row["option"]): row["logprob_nats"]
        for row in rows_of(lake, "output_options", mode_id=WEATHER)
    }
    expected = {
        (item["item_id"], option.option): option.logprob_nats
        for item, response in zip(items, responses, strict=True)
        for option in response.options
    }
    assert len(expected) == 10 * 2
    assert found == {key: pytest.approx(value, abs=1e-4) for key, value in expected.items()}


def test_an_option_that_another_continues_has_the_same_terminator_on_both_sides(trip):
    lake, _ = trip
    found = {row["terminator"] for row in rows_of(lake, "output_options", item_id="test/9")}
    assert found == {terminator(OPTIONS[9])} == {"\n"}
    assert {row["terminator"] for row in rows_of(lake, "output_options", item_id="test/0")} == {None}


def test_the_run_states_what_lm_eval_said_and_what_it_did_not(trip, small_model_path):
    lake, samples = trip
    [run] = rows_of(lake, "runs", kind="archived", planned_modes=[WEATHER])
    results = json.loads(next(samples[f"coglake_{WEATHER}"].parent.glob("results_*.json")).read_text())
    assert run["model_id"] == Path(small_model_path).name and run["model_revision"] is None
    assert (run["engine"], run["engine_version"]) == ("lm-eval hf", results["lm_eval_version"])
    assert (run["protocol"], run["dtype"], run["agent_kind"]) == ("plain", "float32", "language_model")
    assert any("no token counts" in note for note in run["notes"])
    assert any("limited to 10" in note for note in run["notes"])


@pytest.fixture(scope="module")
def scored(trip, project):
    """The lake built, with a second run: the same samples, in which one of lm-eval's own marks is turned."""
    lake, samples = trip
    path = samples[f"coglake_{WEATHER}"]
    first, *others = [json.loads(line) for line in path.read_text().splitlines()]
    first["acc"] = 1 - first["acc"]
    turned = path.with_name("turned.jsonl")
    turned.write_text("".join(f"{json.dumps(line)}\n" for line in (first, *others)))
    done = coglake(lake, project, "import", "lm-eval", str(turned), "--mode", WEATHER, "--model", "turned")
    assert done.returncode == 0, done.stderr
    built(lake, project)
    return lake, first["doc"]["item_id"]


def test_imported_answers_are_scored_as_any_others(scored):
    lake, _ = scored
    credited = {item["item_id"]: item["credited_options"][0] for item in weather_items()}
    by_item = {}
    for row in rows_of(lake, "output_options", mode_id=WEATHER):
        by_item.setdefault(row["item_id"], []).append((row["logprob_nats"], row["option"]))
    n_right = sum(max(options)[1] == credited[item_id] for item_id, options in by_item.items())
    metrics = query(lake, "select * from metrics where mode_id = ? and metric = 'accuracy'", WEATHER)
    assert [metric["value"] for metric in metrics] == [pytest.approx(100 * n_right / 10)] * 2


def test_scores_agree_with_lm_evals_own_item_by_item_but_for_the_one_that_was_turned(scored):
    lake, turned = scored
    compared = query(
        lake,
        """
        select model_id, item_id, verdict = value as agrees
        from stg_verdicts
        inner join int_scored using (run_id, item_id, episode_id)
        inner join stg_runs using (run_id)
        where rule = 'credited_choice' and grader_id = 'lm-eval acc (none)'
        """,
    )
    assert len(compared) == 20
    assert [(row["model_id"], row["item_id"]) for row in compared if not row["agrees"]] == [
        ("turned", turned)
    ]


def test_a_log_of_some_questions_makes_no_whole_cell(scored):
    lake, _ = scored
    metric = "select * from metrics where mode_id = 'bayesian_urn' and metric = 'posterior_mae'"
    [urns] = query(lake, metric)
    # ten of the 400 questions were asked
    assert urns["value"] is None and urns["n_planned"] == 400 and urns["n_error"] == 390


def test_numbers_that_were_written_are_imported_as_texts(trip):
    lake, samples = trip
    logged = [json.loads(line) for line in samples["coglake_bayesian_urn"].read_text().splitlines()]
    found = {row["item_id"]: row["response_text"] for row in rows_of(lake, "outputs", mode_id="bayesian_urn")}
    assert found == {line["doc"]["item_id"]: line["resps"][0][0] for line in logged} and len(found) == 10


def test_the_same_samples_again_are_no_new_rows(trip, project):
    lake, samples = trip
    before = part_paths(lake)
    done = coglake(lake, project, "import", "lm-eval", str(samples[f"coglake_{WEATHER}"]), "--mode", WEATHER)
    assert done.returncode == 0 and "0 new" in done.stdout
    assert part_paths(lake) == before
