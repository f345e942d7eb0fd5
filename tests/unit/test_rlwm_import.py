"""Pictures and keys: does every answered trial become an item, and everything else a counted gap?"""

import io
import json
import random

import numpy as np
import pytest
from pytest import approx
from rlwm_files import (
    COLUMNS,
    FIXED,
    MISSED,
    NAMES,
    VALUES,
    cells,
    fits_file,
    ingested,
    mat,
    matrix,
    model,
    read,
    session,
    trials_file,
)
from scipy.io import loadmat

from ingest.rlwm import PUBLISHED_MODEL, PictureLearningImporter
from store.errors import InvalidSource
from store.manifest import load_sources
from store.prompts import load_template

# key 1 is wrong for picture 1, and key 3 wrong for picture 2, whose right key is 1
WRONG = {"choice": 1, "cor": 0, "rew": 0}
SECOND = {"stimseq": 2, "corAseq": 1, "choice": 1}
SECOND_WRONG = {"stimseq": 2, "corAseq": 1, "choice": 3, "cor": 0, "rew": 0}


def imported(folder, rows, fits=None, dataset=1, **variables):
    participants = sorted({int(row["subno"]) for row in rows if np.isfinite(row["subno"])}) or [1]
    fits = fits_file(participants) if fits is None else fits
    return read(folder, trials_file(rows, **variables), fits, dataset)


def prompts(folder, rows, dataset=1):
    items = imported(folder, rows, dataset=dataset)["items"]
    return {json.loads(item["facts_json"])["trial"]: item["prompt"] for item in items}


def refusal(folder, trials, fits=None):
    with pytest.raises(InvalidSource) as refused:
        read(folder, trials, fits_file() if fits is None else fits)
    return str(refused.value)


# ---- items and responses ----


def test_an_answered_trial_becomes_an_item_and_a_response(tmp_path):
    tables = imported(tmp_path, session({}, SECOND_WRONG))
    [run] = tables["runs"]
    assert (run["kind"], run["agent_kind"], run["model_id"]) == ("items", "human", "Expe1")
    assert run["planned_modes"] == ["rlwm"] and run["source_id"] == "rlwm"
    assert (run["n_source_rows"], run["n_unreadable_rows"], run["notes"]) == (2, 0, [])
    assert run["run_id"].startswith("rlwm-Expe1-") and run["run_id"].endswith("-v2")

    first, second = tables["items"]
    assert [item["item_id"] for item in (first, second)] == [f"{run['run_id']}/1/{trial}" for trial in (0, 1)]
    for item in (first, second):
        assert item["participant_id"] == "Expe1/1" and item["mode_id"] == "rlwm"
        assert item["legal_options"] == ["1", "2", "3"] and item["weight"] == 1.0
        assert item["template_id"] == "rlwm" and item["template_sha256"] == load_template("rlwm").sha256
        assert item["split"] is None and item["target"] is None
    assert (first["credited_options"], second["credited_options"]) == (["3"], ["1"])
    assert json.loads(second["facts_json"]) == {"trial": 1, "block": 1, "set_size": 2, "stimulus": 2}

    assert [row["item_id"] for row in tables["human_responses"]] == [first["item_id"], second["item_id"]]
    # the second key was the wrong one: what a person did is not what was right
    assert [row["response"] for row in tables["human_responses"]] == ["3", "3"]
    assert {row["response_number"] for row in tables["human_responses"]} == {None}
    assert {row["participant_id"] for row in tables["human_responses"]} == {"Expe1/1"}


def test_trials_count_through_the_session_whatever_the_order_of_the_file(tmp_path):
    rows = [*session({}, {}), *(row | {"block": 2} for row in session(SECOND))]
    items = imported(tmp_path, rows[::-1])["items"]
    facts = [json.loads(item["facts_json"]) for item in items]
    assert [(fact["block"], fact["trial"]) for fact in facts] == [(1, 0), (1, 1), (2, 2)]


def test_names_wrapped_in_further_cells_are_read(tmp_path):
    wrapped = cells([COLUMNS[0], *(cells([name]) for name in COLUMNS[1:])])
    assert len(imported(tmp_path, session({}), dataset=16, columns=COLUMNS)["items"]) == 1
    data = mat(columns=wrapped, expe_data=matrix(session({})))
    assert len(read(tmp_path / "wrapped", data, fits_file())["items"]) == 1


def test_participants_of_two_data_sets_stay_apart(tmp_path):
    ids = {
        imported(tmp_path / f"{number}", session({}), dataset=number)["items"][0]["participant_id"]
        for number in (1, 12)
    }
    assert ids == {"Expe1/1", "Expe12/1"}


def test_an_ingest_again_adds_nothing(tmp_path):
    trials, fits = trials_file(session({})), fits_file()
    _, first = ingested(tmp_path, trials, fits)
    # an item, a response, nine parameters, two switches and a sum, the sum once more, a run
    assert first.failures == () and first.n_new_rows == 2 + 12 + 1 + 1
    _, report = ingested(tmp_path, trials, fits)
    assert (report.n_new_files, report.n_present_files, report.n_new_rows) == (0, 1, 0)


def test_other_fits_of_the_same_trials_are_another_run(tmp_path):
    trials = trials_file(session({}))
    found = [read(tmp_path, trials, fits_file(sums=sums))["runs"][0]["run_id"] for sums in (-12.5, -13.0)]
    assert len(set(found)) == 2


def test_only_files_of_trials_hold_rows():
    source = load_sources()["rlwm"]
    importer = PictureLearningImporter()
    named = {file.path: importer.identify(source, file) for file in source.files}
    assert sum(run_id is not None for run_id in named.values()) == 6
    assert len(set(named.values())) == 7
    for file in source.files:
        if named[file.path] is not None:
            [fits] = importer.companions(source, file)
            assert fits.path.rpartition("dataset")[2] == file.path.rpartition("Expe")[2]


# ---- prompts ----


def test_a_prompt_shows_the_block_so_far_and_the_picture_in_view(tmp_path):
    asked = prompts(tmp_path, session(WRONG, SECOND, {}, SECOND_WRONG))
    assert asked[3].endswith(
        "\npicture A: key 1, 0\npicture B: key 1, +1\npicture A: key 3, +1\npicture B: key"
    )
    assert asked[0].endswith("\nnone yet\npicture A: key")
    for prompt in asked.values():
        assert "1, 2 or 3" in prompt and "Pictures in this block: 2." in prompt


@pytest.mark.parametrize("dataset", [1, 16])
def test_no_prompt_depends_on_its_own_trial_or_on_a_later_one(tmp_path, dataset):
    before = prompts(tmp_path / "before", session(WRONG, SECOND, {}, SECOND), dataset)
    changed = prompts(tmp_path / "after", session(WRONG, SECOND, WRONG, SECOND_WRONG), dataset)
    # the answer of trial 2 differs, and so does all that came after
    assert [before[trial] for trial in (0, 1, 2)] == [changed[trial] for trial in (0, 1, 2)]
    assert before[3] != changed[3]


def test_which_key_is_right_is_in_no_prompt_before_it_was_pressed(tmp_path):
    asked = prompts(tmp_path / "right", session({}, {}))
    moved = session({"corAseq": 2, "cor": 0, "rew": 0}, {"corAseq": 2, "cor": 0, "rew": 0})
    elsewhere = prompts(tmp_path / "moved", moved)
    assert asked[0] == elsewhere[0]
    assert asked[1].endswith("key 3, +1\npicture A: key") and elsewhere[1].endswith(
        "key 3, 0\npicture A: key"
    )


def test_a_block_and_a_participant_begin_without_a_history(tmp_path):
    rows = [
        *session({}, {}),
        *(row | {"block": 2} for row in session({}, {})),
        *(row | {"subno": 2} for row in session({})),
    ]
    items = imported(tmp_path, rows)["items"]
    begun = [item["prompt"].count("none yet") for item in items]
    assert begun == [1, 0, 1, 0, 1]


def test_losses_are_told_as_points(tmp_path):
    asked = prompts(tmp_path, session(WRONG | {"rew": -1}, {"rew": 0}, WRONG, {}, {}), dataset=16)
    assert asked[4].endswith(
        "picture A: key 1, -1\npicture A: key 3, 0\npicture A: key 1, 0\npicture A: key 3, +1\npicture A: key"
    )
    assert "-1" in asked[0] and "-1" not in prompts(tmp_path / "gains", session({}))[0]


# ---- what cannot be read ----


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (MISSED, "no key was pressed in time; no question"),
        ({"choice": 4, "cor": -1, "rew": -1}, "choice is not one of 1, 2, 3; no question"),
        ({"choice": np.nan}, "choice is not one of 1, 2, 3; no question"),
        ({"choice": 2.5}, "choice is not one of 1, 2, 3; no question"),
        ({"cor": 0, "rew": 0}, "cor contradicts choice and corAseq; no question"),
        ({"cor": np.nan}, "cor contradicts choice and corAseq; no question"),
        ({"rew": np.nan}, "rew is not what the key brings; no question"),
        ({"rew": 0}, "rew is not what the key brings; no question"),
        ({"rt": np.nan}, "rt is not a number; no question"),
        ({"rt": 0.15}, "answered within 0.15 s, which the authors' likelihood passes over; no question"),
        ({"subno": np.nan}, "subno is not a whole number; left out"),
        ({"subno": np.inf}, "subno is not a whole number; left out"),
        ({"block": 1.5}, "block is not a whole number; left out"),
        ({"time": np.nan}, "time is not a whole number; left out"),
        ({"ns": 0}, "ns is not a number of pictures; left out"),
        ({"ns": 27}, "ns is not a number of pictures; left out"),
        ({"stimseq": 3}, "stimseq is not a picture of the block; left out"),
        ({"stimseq": 0}, "stimseq is not a picture of the block; left out"),
    ],
)
def test_a_row_that_cannot_be_read_is_counted_and_named(tmp_path, change, note):
    tables = imported(tmp_path, session({}, change, SECOND))
    [run] = tables["runs"]
    assert (run["n_source_rows"], run["n_unreadable_rows"], run["notes"]) == (3, 1, [f"1 rows: {note}"])
    assert len(tables["items"]) == len(tables["human_responses"]) == 2
    [history] = [item["prompt"].rpartition("brought:\n")[2] for item in tables["items"]][1:]
    seen = history.splitlines()[:-1]
    # what happened in the block is shown even where it is no question
    if "left out" in note:
        assert seen == ["picture A: key 3, +1"]
    elif "rt" in change and change is not MISSED:
        assert seen == ["picture A: key 3, +1"] * 2
    else:
        what = {-1: "no key in time", 4: "another key"}.get(change.get("choice"), "key not on record")
        assert seen == ["picture A: key 3, +1", f"picture A: {what}"]


def test_a_right_key_that_is_none_is_named(tmp_path):
    tables = imported(tmp_path, session({"corAseq": 5}, SECOND))
    assert tables["runs"][0]["notes"] == ["1 rows: corAseq is not one of 1, 2, 3; no question"]


def test_points_below_zero_belong_to_one_data_set(tmp_path):
    rows = session(WRONG | {"rew": -1}, {"rew": 0}, {"rew": -1})
    assert imported(tmp_path / "gains", rows)["runs"][0]["n_unreadable_rows"] == 3
    assert imported(tmp_path / "losses", rows, dataset=16)["runs"][0]["n_unreadable_rows"] == 1


def test_a_participant_without_a_valid_response_has_no_item_and_costs_no_other(tmp_path):
    rows = [*session({}, {}), *(row | {"subno": 2} for row in session(MISSED, MISSED))]
    tables = imported(tmp_path, rows)
    assert {item["participant_id"] for item in tables["items"]} == {"Expe1/1"}
    assert tables["runs"][0]["notes"] == [
        "2 rows: no key was pressed in time; no question",
        "2 rows: no response of Expe1/2 can be read",
    ]
    assert tables["runs"][0]["n_unreadable_rows"] == 2
    assert {row["participant_id"] for row in tables["fits"]} == {"Expe1/1", "Expe1/2"}


def test_a_file_without_rows_says_so(tmp_path):
    tables = imported(tmp_path, [])
    assert tables["items"] == []
    assert tables["runs"][0]["notes"] == ["the file holds no rows"]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (
            session({}, {"time": 1}),
            "expected each trial once, found 1 others, first trial 1 in block 1 of 1",
        ),
        (
            session({}, {"ns": 3}),
            "expected one number of pictures per block, found 1 others, first block 1 of 1",
        ),
        (
            session({}, {"corAseq": 2, "choice": 2}),
            "expected one right key per picture of a block, found 1 others, first picture 1 in block 1 of 1",
        ),
    ],
)
def test_what_would_make_the_history_ambiguous_is_refused(tmp_path, rows, expected):
    assert expected in refusal(tmp_path, trials_file(rows))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "not readable as a MATLAB file"),
        (b"MATLAB 5.0 MAT-file" + bytes(200), "not readable as a MATLAB file"),
        (b"subno,block\n1,1\n", "not readable as a MATLAB file"),
        (trials_file(session({}))[:-40], "not readable as a MATLAB file"),
        (mat(columns=cells(COLUMNS)), "missing: expe_data"),
        (mat(expe_data=matrix(session({}))), "missing: columns"),
        (
            mat(columns=cells(COLUMNS), expe_data=np.zeros((2, 3, 4))),
            "expected a table of numbers in expe_data, found 2 x 3 x 4 of float64",
        ),
        (mat(columns=cells(COLUMNS), expe_data="text"), "expected a table of numbers in expe_data"),
        (
            mat(columns=cells(COLUMNS), expe_data=np.zeros((2, 16))),
            "expected 17 columns in expe_data, found 16",
        ),
        (trials_file(session({}), columns=COLUMNS[:-4]), "missing or repeated: rt"),
        (
            trials_file(session({}), columns=[*COLUMNS[:-1], "choice"]),
            "missing or repeated: choice",
        ),
    ],
)
def test_a_file_that_is_not_one_of_trials_is_refused(tmp_path, data, expected):
    said = refusal(tmp_path, data)
    assert expected in said and "RLWM/DataSets/Expe1.mat" in said and "\n" not in said


def test_damaged_bytes_are_refused(tmp_path):
    whole, fits = trials_file(session({}, {}, {})), fits_file()
    draw = random.Random(7)
    for number in range(60):
        data = bytearray((whole, fits)[number % 2])
        # the text of the header, which says nothing, is left alone
        data[draw.randrange(124, len(data))] ^= 1 << draw.randrange(8)
        pair = (bytes(data), fits) if number % 2 == 0 else (whole, bytes(data))
        assert "not readable as a MATLAB file" in refusal(tmp_path, *pair)


# ---- archived fits ----


def test_every_parameter_of_every_participant_is_a_row(tmp_path):
    rows = [*session({}), *(row | {"subno": 2} for row in session({}))]
    values = np.array([VALUES, [0.2, -0.1, 0.5, 0.1, 0.01, 0.6, 5.0]])
    tables = imported(tmp_path, rows, fits=fits_file((1, 2), values, sums=np.array([-12.5, -20.25])))
    fits = {(row["participant_id"], row["parameter"]): row for row in tables["fits"]}
    free = [name for name in NAMES if name not in FIXED]
    for participant, numbers in zip(("Expe1/1", "Expe1/2"), values, strict=True):
        found = {name: fits[participant, name]["value"] for name in (*NAMES, "interact", "value")}
        assert found == approx(dict(zip(free, numbers, strict=True)) | FIXED | {"interact": 0, "value": 1})
    assert fits["Expe1/2", "negative_log_likelihood"]["value"] == 20.25
    assert len(tables["fits"]) == 2 * 12
    assert {row["family"] for row in tables["fits"]} == {PUBLISHED_MODEL}
    assert {row["provenance"] for row in tables["fits"]} == {"archived_replay"}
    assert {row["run_id"] for row in tables["fits"]} == {tables["runs"][0]["run_id"]}

    published = {row["episode_id"]: row for row in tables["published"]}
    assert {name: row["value"] for name, row in published.items()} == {"Expe1/1": 12.5, "Expe1/2": 20.25}
    for row in published.values():
        assert (row["mode_id"], row["source_id"], row["model_id"]) == ("rlwm", "rlwm", PUBLISHED_MODEL)
        assert row["label"] == "negative_log_likelihood" and "FitRLWM_dataset1.mat" in row["source_uri"]


def test_models_with_a_further_mechanism_and_unused_places_are_left_out(tmp_path):
    chunked = model(names=(*NAMES[:-1], "chunk", "K"))
    planned = (model(ID="planned"), np.empty((1, 0)))
    other = model({"r0": 0.0}, ID="freq WM RL 0", interact=1, value=0)
    models = {
        2: (model(), VALUES),
        3: planned,
        5: (other, (0.1, 0.05, 0.9, 0.2, 0.02, 0.3, 0.8, 3.0)),
        9: (chunked, (*VALUES, 1.0)),
    }
    tables = imported(tmp_path, session({}), fits=fits_file(models=models))
    assert {row["family"] for row in tables["fits"]} == {PUBLISHED_MODEL, "model 5: freq WM RL 0"}
    of_other = {
        row["parameter"]: row["value"] for row in tables["fits"] if row["family"] == "model 5: freq WM RL 0"
    }
    assert (of_other["biasRL"], of_other["K"], of_other["interact"], of_other["value"]) == (0.8, 3, 1, 0)
    # the sums of the other models are in the fits alone
    assert {row["model_id"] for row in tables["published"]} == {PUBLISHED_MODEL}


def test_a_missing_number_is_kept_without_a_value_and_counted(tmp_path):
    tables = imported(tmp_path, session({}), fits=fits_file(values=(np.nan, *VALUES[1:]), sums=np.nan))
    assert [row["parameter"] for row in tables["fits"] if row["value"] is None] == [
        "alphaRL",
        "negative_log_likelihood",
    ]
    assert tables["published"][0]["value"] is None
    assert tables["runs"][0]["notes"] == [
        "2 rows: a number of an archived fit is missing; kept without a value"
    ]


def without(definition, field):
    return {name: value for name, value in definition.items() if name != field}


@pytest.mark.parametrize(
    ("fits", "expected"),
    [
        (b"", "not readable as a MATLAB file"),
        (fits_file()[:-60], "not readable as a MATLAB file"),
        (mat(Ms=cells([1])), "missing: All_Params, All_fits, subjects_list"),
        (fits_file((2,)), "expected a fit to each participant, found none to 1, first 1"),
        (fits_file((1, 1)), "expected each participant of subjects_list once"),
        (fits_file(All_fits=np.zeros((1, 6, 5))), "expected measures of 1 participants and 2 models"),
        (fits_file(All_fits=np.zeros((1, 1, 2))), "expected measures of 1 participants and 2 models"),
        (fits_file(All_Params=np.zeros((1, 2))), "expected measures of 1 participants and 2 models"),
        (fits_file(models={2: (without(model(), "ID"), VALUES)}), "model 2: expected pnames and ID"),
        (fits_file(models={2: (without(model(), "pnames"), VALUES)}), "model 2: expected pnames and ID"),
        (
            fits_file(models={2: (without(model(), "thetamapping"), VALUES)}),
            "model 2: WM RL0 0: expected a column or a fixed value for each parameter",
        ),
        (
            fits_file(models={2: (without(model(), "interact"), VALUES)}),
            "expected a column or a fixed value for each parameter",
        ),
        (
            fits_file(models={2: (model(), VALUES[:3])}),
            "expected a column or a fixed value for each parameter",
        ),
        (
            fits_file(models={2: (model() | {"pfixed": [[0, 0]]}, VALUES)}),
            "expected a column or a fixed value for each parameter",
        ),
        (
            fits_file(All_Params=cells([np.empty((0, 0)), np.zeros((3, 7))])),
            "model 2: WM RL0 0: expected parameters of 1 participants, found 3 x 7",
        ),
        (
            fits_file(All_Params=cells([np.empty((0, 0)), "text"])),
            "model 2: WM RL0 0: expected a table of numbers",
        ),
        (fits_file(models={3: (model(), VALUES)}), f"expected {PUBLISHED_MODEL}, found model 3: WM RL0 0"),
    ],
)
def test_fits_that_do_not_say_what_they_are_are_refused(tmp_path, fits, expected):
    said = refusal(tmp_path, trials_file(session({})), fits)
    assert expected in said and "FitRLWM_dataset1.mat" in said and "\n" not in said


def test_trials_without_their_fits_are_refused(tmp_path):
    _, report = ingested(tmp_path, trials_file(session({})))
    [failure] = report.failures
    assert "its archived fits are not among the source's files" in str(failure)


def test_a_written_file_has_the_schema_of_the_source():
    found = loadmat(io.BytesIO(fits_file()))
    assert found["Ms"].shape == (1, 2) and found["Ms"][0, 1]["pnames"].shape == (1, 1)
    assert found["All_fits"].shape == (1, 6, 2)
