"""The weather prediction file: does every trial become an item with its visit's history, and no more?"""

import json
from contextlib import suppress

import numpy as np
import pandas as pd
import pyarrow.dataset as ds
import pytest
import rdata
from handwritten import ingested

from ingest.pipeline import ingest
from ingest.r_data import read_data_frame
from store.errors import InvalidSource
from store.lake import part_paths
from store.manifest import Source
from store.schemas import RAW_TABLES

PATH = "data/WPT.rda"
COLUMNS = ["id", "group", "med", "occ", "trial", "c1", "c2", "c3", "c4", "y", "r"]
TEXTS = ("id", "group", "med", "y", "r")
TRIAL = {"id": "P1", "group": "PD", "med": "on", "occ": 1.0, "trial": 1, "y": "Rainy", "r": "Rainy"} | dict(
    c1=1.0, c2=0.0, c3=1.0, c4=0.0
)


def rda(folder, rows, columns=COLUMNS, name="WPT", **options):
    """The bytes of a file that R could have saved; None in a text is NA."""
    cells = [TRIAL | row for row in rows]
    frame = pd.DataFrame(
        {
            column: pd.Series([cell.get(column) for cell in cells], dtype=object if column in TEXTS else None)
            for column in columns
        }
    )
    path = folder / "written.rda"
    folder.mkdir(exist_ok=True)
    rdata.write_rda(path, {name: frame}, **({"compression": "xz"} | options))
    return path.read_bytes()


def rows_of(lake, table):
    paths = [str(path) for path in part_paths(lake, table)]
    return ds.dataset(paths, schema=RAW_TABLES[table]).to_table().to_pylist() if paths else []


def imported(folder, rows):
    lake, report = ingested(folder, "hmmr", PATH, rda(folder, rows))
    assert report.failures == ()
    return {table: rows_of(lake, table) for table in ("items", "human_responses", "runs")}, report


def refusal(folder, content):
    _, report = ingested(folder, "hmmr", PATH, content)
    [failure] = report.failures
    assert isinstance(failure, InvalidSource) and report.n_new_rows == 0
    sentence = str(failure)
    assert "\n" not in sentence and PATH in sentence
    return sentence


def visit(participant, group, occ, trials):
    """Trials of one visit, from (cards, outcome, prediction)."""
    return [
        {"id": participant, "group": group, "occ": float(occ), "trial": number, "y": outcome, "r": prediction}
        | {f"c{card}": float(card in cards) for card in (1, 2, 3, 4)}
        for number, (cards, outcome, prediction) in enumerate(trials, start=1)
    ]


SUNNY = [({1}, "Fine", "Fine"), ({2, 3}, "Rainy", "Fine"), ({1, 2, 4}, "Fine", "Rainy")]
LEARNERS = visit("P1", "PD", 1, SUNNY) + visit("C1", "Control", 1, SUNNY)


def test_a_trial_becomes_an_item_and_a_response(tmp_path):
    tables, report = imported(tmp_path, [*LEARNERS, *visit("P2", "PD", 2, SUNNY)])
    [run] = tables["runs"]
    assert (run["kind"], run["agent_kind"], run["model_id"]) == ("items", "human", "WPT")
    assert run["planned_modes"] == ["weather_prediction_hmmr"] and run["source_id"] == "hmmr"
    assert (run["n_source_rows"], run["n_unreadable_rows"], run["notes"]) == (9, 0, [])
    items = {item["item_id"]: item for item in tables["items"]}
    item = items[f"{run['run_id']}/P2/2/1"]
    assert item["participant_id"] == "wpt-P2" and item["weight"] == 1
    assert item["legal_options"] == ["Fine", "Rainy"] and item["credited_options"] == ["Rainy"]
    assert json.loads(item["facts_json"]) == {"session": 2, "trial": 1, "features": [0, 1, 1, 0]}
    responses = {row["item_id"]: row["response"] for row in tables["human_responses"]}
    assert responses[item["item_id"]] == "Fine" and len(responses) == len(items) == 9
    assert report.notes == ()


def test_the_last_participant_of_each_group_is_the_test(tmp_path):
    rows = [*LEARNERS, *visit("C2", "Control", 1, SUNNY), *visit("P10", "PD", 1, SUNNY)]
    # a second visit comes after the first of others
    rows += visit("P1", "PD", 2, SUNNY)
    tables, _ = imported(tmp_path, rows)
    splits = {(item["participant_id"], item["split"]) for item in tables["items"]}
    assert splits == {("wpt-P1", "train"), ("wpt-C1", "train"), ("wpt-C2", "test"), ("wpt-P10", "test")}
    assert splits == {(row["participant_id"], row["split"]) for row in tables["human_responses"]}
    for item in tables["items"]:
        is_asked = item["split"] == "test"
        for column in ("prompt", "template_id", "template_sha256"):
            assert (item[column] is not None) == is_asked


def prompts(folder, rows):
    tables, _ = imported(folder, rows)
    run_id = tables["runs"][0]["run_id"]
    return {item["item_id"].removeprefix(run_id): item["prompt"] for item in tables["items"]}


def test_a_prompt_holds_what_the_visit_showed_before(tmp_path):
    rows = [*LEARNERS, *visit("P2", "PD", 1, SUNNY), *visit("P2", "PD", 2, SUNNY)]
    found = prompts(tmp_path, rows)
    _, _, said = found["/P2/1/2"].partition("\n\n")
    assert said.splitlines() == [
        "On the table: card 1. You predict: Fine. The weather was: Fine.",
        "On the table: card 2 and card 3. You predict: Fine. The weather was: Rainy.",
        "On the table: card 1 and card 2 and card 4. You predict:",
    ]
    assert found["/P2/2/0"].endswith("\n\nOn the table: card 1. You predict:")
    assert "Fine or Rainy" in found["/P2/2/0"]


@pytest.mark.parametrize("flipped", ["y", "r", "both"])
def test_a_prompt_says_neither_its_answer_nor_what_came_later(tmp_path, flipped):
    trials = [*SUNNY, ({4}, "Rainy", "Rainy"), ({3}, "Fine", "Rainy")]
    rows = visit("P2", "PD", 1, trials)
    other = {"Fine": "Rainy", "Rainy": "Fine"}
    keys = ("y", "r") if flipped == "both" else (flipped,)
    changed = [row | {key: other[row[key]] for key in keys} if row["trial"] >= 3 else row for row in rows]
    changed[-1] |= {"c1": 1.0, "c2": 1.0}
    before = prompts(tmp_path / "before", [*LEARNERS, *rows])
    after = prompts(tmp_path / "after", [*LEARNERS, *changed])
    same = [name for name in before if name.startswith("/P2") and before[name] == after[name]]
    assert same == ["/P2/1/0", "/P2/1/1", "/P2/1/2"]
    # what changed is history two trials later
    assert before["/P2/1/3"] != after["/P2/1/3"]


@pytest.mark.parametrize(
    ("cells", "note", "n_items", "n_responses", "credited"),
    [
        ({"id": "P 1"}, "id is not made of letters, digits, _ and -; left out", 2, 2, 2),
        ({"id": None}, "id is not made of letters, digits, _ and -; left out", 2, 2, 2),
        ({"group": "HD"}, "group is not one of PD, Control; left out", 2, 2, 2),
        ({"occ": 1.5}, "occ is not a whole number from 1; left out", 2, 2, 2),
        ({"occ": None}, "occ is not a whole number from 1; left out", 2, 2, 2),
        ({"trial": 0}, "trial is not a whole number from 1; left out", 2, 2, 2),
        ({"c4": 2.0}, "one of c1, c2, c3, c4 is not 0 or 1; left out", 2, 2, 2),
        ({"c2": None}, "one of c1, c2, c3, c4 is not 0 or 1; left out", 2, 2, 2),
        ({"y": "Snow"}, "y is not one of Fine, Rainy; no option is credited", 3, 3, 2),
        ({"r": None}, "r is not one of Fine, Rainy; no response", 3, 2, 3),
        ({"r": "fine"}, "r is not one of Fine, Rainy; no response", 3, 2, 3),
        (
            {"y": None, "r": None},
            "y is not one of Fine, Rainy; no option is credited; r is not one of Fine, Rainy; no response",
            3,
            2,
            2,
        ),
    ],
)
def test_what_cannot_be_read_is_counted_and_named(tmp_path, cells, note, n_items, n_responses, credited):
    rows = visit("P1", "PD", 1, SUNNY)
    rows[1] |= cells
    tables, report = imported(tmp_path, rows)
    assert report.notes == (f"{PATH}: 1 rows: {note}",)
    assert report.n_unreadable_rows == tables["runs"][0]["n_unreadable_rows"] == 1
    assert len(tables["items"]) == n_items and len(tables["human_responses"]) == n_responses
    assert sum(item["credited_options"] is not None for item in tables["items"]) == credited
    # what is not known is history all the same
    unknown = {"y": "The weather was: not recorded", "r": "You predict: not recorded"}
    last = tables["items"][-1]["prompt"]
    assert all((text in last) == (n_items == 3 and key in cells) for key, text in unknown.items())


def test_a_participant_without_a_valid_response_is_named_and_never_the_test(tmp_path):
    silent = [row | {"r": None} for row in visit("C2", "Control", 1, SUNNY)]
    tables, report = imported(tmp_path, [*LEARNERS, *silent])
    assert report.notes == (
        f"{PATH}: 3 rows: r is not one of Fine, Rainy; no response",
        f"{PATH}: 3 rows: no response of wpt-C2 can be read",
    )
    assert report.n_unreadable_rows == 3
    splits = {item["participant_id"]: item["split"] for item in tables["items"]}
    assert splits == {"wpt-P1": "test", "wpt-C1": "test", "wpt-C2": "train"}
    assert "wpt-C2" not in {row["participant_id"] for row in tables["human_responses"]}


def test_a_participant_without_a_trial_that_has_a_place_is_named(tmp_path):
    lost = [row | {"occ": 1.5} for row in visit("C2", "Control", 1, SUNNY)]
    _, report = imported(tmp_path, [*LEARNERS, *lost])
    assert f"{PATH}: 3 rows: no response of wpt-C2 can be read" in report.notes


def test_the_order_of_rows_and_columns_does_not_matter(tmp_path):
    rows = visit("P1", "PD", 1, SUNNY)
    straight, _ = imported(tmp_path / "straight", rows)
    content = rda(tmp_path / "turned", rows[::-1], columns=COLUMNS[::-1])
    lake, _ = ingested(tmp_path / "turned", "hmmr", PATH, content)
    kept = ("prompt", "facts_json", "credited_options")
    assert [[item[key] for key in kept] for item in rows_of(lake, "items")] == [
        [item[key] for key in kept] for item in straight["items"]
    ]


def test_a_trial_that_is_there_twice_refuses_the_file(tmp_path):
    rows = [*LEARNERS, LEARNERS[1] | {"r": "Rainy"}]
    assert refusal(tmp_path, rda(tmp_path, rows)).endswith(
        "expected each trial once, found 1 several times, the first is trial 2 of P1 at visit 1"
    )


def test_another_object_or_other_columns_refuse_the_file(tmp_path):
    other = refusal(tmp_path / "object", rda(tmp_path, LEARNERS, name="IGT"))
    assert other.endswith("expected the object WPT, found IGT")
    lacking = refusal(tmp_path / "lacking", rda(tmp_path, LEARNERS, columns=COLUMNS[1:]))
    assert lacking.endswith("missing: id; unknown: none")
    extra = refusal(tmp_path / "extra", rda(tmp_path, LEARNERS, columns=[*COLUMNS, "rt"]))
    assert extra.endswith("missing: none; unknown: rt")
    path = tmp_path / "vector.rda"
    rdata.write_rda(path, {"WPT": np.arange(3)})
    assert "expected WPT to be a data frame" in refusal(tmp_path / "vector", path.read_bytes())


def test_a_factor_whose_value_is_none_of_its_levels_refuses_the_file(tmp_path):
    path = tmp_path / "factor.rda"
    # the writer makes 0 of a missing category, which R never does
    rdata.write_rda(path, {"WPT": pd.DataFrame({"id": pd.Categorical(["P1", None])})})
    assert "none of its levels" in refusal(tmp_path, path.read_bytes())


def test_a_factor_is_read_as_its_strings(tmp_path):
    folder = tmp_path / "factors"
    folder.mkdir()
    frame = pd.DataFrame([TRIAL | row for row in LEARNERS])[COLUMNS]
    for column in TEXTS:
        frame[column] = pd.Categorical(frame[column])
    rdata.write_rda(folder / "written.rda", {"WPT": frame})
    lake, report = ingested(folder, "hmmr", PATH, (folder / "written.rda").read_bytes())
    assert report.failures == () and report.notes == ()
    assert {row["response"] for row in rows_of(lake, "human_responses")} == {"Fine", "Rainy"}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"id,group\n",
        b"\xfd7zXZ\x00",
        b"RDX3\nX\n",
        pytest.param("cut", id="cut"),
        pytest.param("tail", id="tail"),
    ],
)
def test_damaged_files_are_refused_in_one_sentence(tmp_path, content):
    if content == "cut":
        content = rda(tmp_path, LEARNERS)[:-40]
    elif content == "tail":
        content = rda(tmp_path, LEARNERS, compression=None)[:600]
    assert "not readable as data of R" in refusal(tmp_path, content)


def test_a_changed_byte_anywhere_is_read_or_refused(tmp_path):
    whole, path = rda(tmp_path, LEARNERS, compression=None), tmp_path / "damaged"
    for position in range(0, len(whole), 5):
        damaged = bytearray(whole)
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)
        with suppress(InvalidSource):
            assert read_data_frame(path, "WPT", COLUMNS, PATH).num_rows == len(LEARNERS)


def test_no_rows_are_a_note(tmp_path):
    tables, _ = imported(tmp_path, [])
    assert tables["items"] == [] and tables["runs"][0]["notes"] == ["the file holds no rows"]


def test_a_second_import_adds_nothing(tmp_path):
    content = rda(tmp_path, LEARNERS)
    lake, first = ingested(tmp_path, "hmmr", PATH, content)
    [path] = [file for file in (tmp_path / "mirror").rglob("*") if file.is_file()]
    assert first.n_new_rows == 13 and path.read_bytes() == content
    block = {"id": "hmmr", "kind": "generated", "repo": "handwritten", "revision": "1", "licence": "MIT"}
    sha256 = rows_of(lake, "runs")[0]["source_sha256"]
    files = [{"path": PATH, "sha256": sha256, "bytes": len(content)}]
    source = Source.model_validate(block | {"description": "Files of a test.", "files": files})
    [second] = ingest(lake, [source], mirror=str(tmp_path / "mirror"))
    assert (second.n_new_rows, second.n_present_files) == (0, 1)
