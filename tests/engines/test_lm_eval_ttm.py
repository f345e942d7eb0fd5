"""Stories with four endings, scored by lm-eval and by an engine here: the same numbers, the same marks?"""

import json

import pytest

pytest.importorskip("lm_eval")

from support import built, coglake, query
from test_lm_eval import lm_eval, rows_of

from generate import evaluation, standins
from generate.engines.settings import describe, open_engine
from generate.weights import resolve
from ingest.pipeline import ingest
from store.manifest import load_sources
from store.protocol import datasets_of
from store.settings import Home

pytestmark = pytest.mark.engines

STORIES, TASK = "ttm_like", "coglake_ttm_like"
N = 24
# lm-eval's name of what the sum of log-probabilities is divided by
METRICS = {"sum": "acc", "character": "acc_norm", "byte": "acc_bytes"}


def answer_here(lake, model):
    """Have the engine here answer the first stories, in the order in which the task has them."""
    asking = evaluation.Asking(
        engine="hf",
        dtype="float32",
        context_tokens=evaluation.NATIVE,
        trust_remote_code=False,
        stand_ins=frozenset({"ttm"}),
        limit=N,
        repeat=0,
    )
    weights = resolve(str(model))
    described = evaluation.describe_model(weights, asking, describe)
    planned = evaluation.plan_component(lake, described, datasets_of("ttm", is_stand_in=True))
    engine = evaluation.SharedEngine(described, open_engine)
    report = evaluation.ask_component(
        lake, planned, weights, engine, asking.limit, lambda *_: None, lambda: False
    )
    engine.close()
    assert report.n_by_status == {}
    return planned.task.run_id


@pytest.fixture(scope="module")
def trip(tmp_path_factory, project, small_model_path):
    """A lake in which lm-eval's answers to some stories stand beside those of the engine here."""
    folder = tmp_path_factory.mktemp("stories")
    lake = Home(folder / "lake")
    standins.write(STORIES, folder / "mirror")
    [report] = ingest(lake, [load_sources()[STORIES]], mirror=str(folder / "mirror"))
    assert report.failures == ()
    done = coglake(lake, project, "task", STORIES, "-o", str(folder / "tasks"))
    assert done.returncode == 0, done.stderr
    home = tmp_path_factory.mktemp("home")
    samples = lm_eval(folder, [TASK], small_model_path, home, "--limit", str(N))[TASK]
    done = coglake(lake, project, "import", "lm-eval", str(samples), "--mode", STORIES)
    assert done.returncode == 0, done.stderr
    here = answer_here(lake, small_model_path)
    built(lake, project)
    return lake, [json.loads(line) for line in samples.read_text().splitlines()], here


def options_of(lake, **values):
    return {(row["item_id"], row["option"]): row for row in rows_of(lake, "output_options", **values)}


def test_log_probabilities_are_lm_evals(trip):
    lake, logged, here = trip
    found = {key: row["logprob_nats"] for key, row in options_of(lake, run_id=here).items()}
    expected = {
        (line["doc"]["item_id"], option): float(response[0][0])
        for line in logged
        for option, response in zip(line["doc"]["options"], line["resps"], strict=True)
    }
    assert len(expected) == N * 4
    assert found == {key: pytest.approx(value, abs=1e-4) for key, value in expected.items()}


def test_the_log_comes_back_as_an_archived_run_and_is_no_evaluation(trip):
    lake, _, here = trip
    [run] = rows_of(lake, "runs", kind="archived", planned_modes=[STORIES])
    assert (run["source_id"], run["evaluation_id"], run["dtype"]) == (STORIES, None, "float32")
    imported = options_of(lake, run_id=run["run_id"])
    own = options_of(lake, run_id=here)
    assert imported.keys() == own.keys()
    for key, row in imported.items():
        assert row["logprob_nats"] == pytest.approx(own[key]["logprob_nats"], abs=1e-4)
        assert (row["n_characters"], row["n_bytes"]) == (own[key]["n_characters"], own[key]["n_bytes"])
        # lm-eval logs no tokens
        assert row["n_tokens"] is None and own[key]["n_tokens"] > 0


@pytest.fixture(scope="module")
def marks(trip):
    """Value by readout and item, of the run here; lm-eval's marks under the same names."""
    lake, logged, here = trip
    rows = query(
        lake,
        "select readout, item_id, status, value from int_scored "
        "where run_id = ? and rule = 'normalised_likelihood' and status = 'ok'",
        here,
    )
    own = {(row["readout"], row["item_id"]): row["value"] for row in rows}
    theirs = {
        (readout, line["doc"]["item_id"]): line[metric]
        for readout, metric in METRICS.items()
        for line in logged
    }
    return own, theirs


def test_marks_by_sum_character_and_byte_are_lm_evals_item_by_item(marks):
    own, theirs = marks
    assert len(theirs) == 3 * N
    # a tie is shared here, and lm-eval gives it to the option listed first; these stories have none
    assert set(own.values()) == {0.0, 1.0}
    assert {key: value for key, value in own.items() if key[0] in METRICS} == theirs
    # some are right and some wrong, or nothing would be shown
    for readout in METRICS:
        assert 0 < sum(value for (name, _), value in theirs.items() if name == readout) < N


def test_marks_per_token_are_those_of_the_token_counts_that_are_stored(trip, marks):
    lake, logged, here = trip
    own, _ = marks
    options = options_of(lake, run_id=here)
    for line in logged:
        doc = line["doc"]
        per_token = [
            (row := options[doc["item_id"], option])["logprob_nats"] / row["n_tokens"]
            for option in doc["options"]
        ]
        best = per_token.index(max(per_token))
        assert own["token", doc["item_id"]] == (best == doc["target"])
