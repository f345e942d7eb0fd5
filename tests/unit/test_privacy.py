"""Restricted sources: whose raw text is not to be handed on, and what stands in its place."""

import json

import duckdb
import pytest

from store.errors import InvalidSource
from store.formats import Sheet
from store.manifest import Source, load_sources
from store.privacy import IDENTITIES, RAW_TEXT, PublicRows, restricted_sources, withheld, without_quotes
from store.schemas import RAW_TABLES


def source(name, **marks):
    return Source.model_validate(
        {
            "id": name,
            "kind": "github",
            "repo": f"owner/{name}",
            "revision": "0123456789" * 4,
            "licence": "MIT",
            "description": "A source of a test.",
            "files": [{"path": "a.csv", "sha256": "a" * 64}],
        }
        | marks
    )


KNOWN = {
    each.id: each for each in (source("plain"), source("gated", gated=True), source("private", private=True))
}


def lake(*runs):
    """A build with runs of (run, evaluation, kind, source, address of its file)."""
    con = duckdb.connect()
    con.execute(
        "create table stg_runs "
        "(run_id varchar, evaluation_id varchar, kind varchar, source_id varchar, source_uri varchar)"
    )
    con.executemany(
        "insert into stg_runs values (?, ?, ?, ?, ?)", [("none", None, "model", None, None), *runs]
    )
    return con


def restricted(*runs):
    with lake(*((f"run {place}", None, *run) for place, run in enumerate(runs))) as con:
        return restricted_sources(con, KNOWN)


def test_gated_and_private_sources_are_restricted_whether_or_not_the_lake_has_them():
    assert restricted() == {"gated", "private"}
    assert [KNOWN[name].is_restricted for name in ("plain", "gated", "private")] == [False, True, True]


def test_a_source_that_the_manifest_does_not_know_is_restricted():
    assert restricted(("items", "stranger", "github://owner/stranger@1/a.csv"), ("model", "plain", None)) == {
        "gated",
        "private",
        "stranger",
    }


def test_what_a_schedule_of_this_project_drew_is_free_and_so_is_what_was_played_on_it():
    assert restricted(("schedule", "bart", None), ("reference", "bart", None), ("uniform", "bart", None)) == {
        "gated",
        "private",
    }


def test_a_schedule_that_is_called_as_a_gated_source_frees_nothing():
    assert "gated" in restricted(("schedule", "gated", None))


@pytest.mark.parametrize(
    ("address", "is_restricted"),
    [
        ("github://owner/plain@fedcba/other.csv", False),
        ("github://owner/gated@fedcba/a.csv", True),
        ("github://owner/elsewhere@fedcba/a.csv", True),
        (None, False),
    ],
)
def test_files_that_are_read_under_one_name_are_told_apart_by_their_address(address, is_restricted):
    # another revision is the same source; another repository is not
    assert ("plain" in restricted(("items", "plain", address))) == is_restricted


def test_a_mark_is_true_or_false():
    with pytest.raises(ValueError, match="private"):
        source("x", private="yes")


def test_the_manifest_says_why_a_source_is_private():
    private = [source for source in load_sources().values() if source.private]
    assert {source.id for source in private} == {"polite_speaker", "wcst_prl"}
    assert all("Private: " in source.description for source in private)


def test_a_manifest_that_is_not_valid_is_an_error_and_restricts_nothing_silently(tmp_path):
    path = tmp_path / "sources.toml"
    path.write_text('[a]\nkind = "github"\nprivate = 1\n')
    with pytest.raises(InvalidSource):
        load_sources(path)


# --- rows ---


def test_every_raw_table_says_which_columns_are_text_and_names_them_as_the_schema_does():
    assert set(RAW_TEXT) == set(RAW_TABLES)
    for table, columns in RAW_TEXT.items():
        assert columns <= set(RAW_TABLES[table].names)


def test_a_new_column_is_either_text_or_known_not_to_be():
    """Whoever adds a column of text to a raw table says here if it can quote a source."""
    safe = {
        *("run_id", "batch_id", "mode_id", "source_id", "kind", "model_id", "model_revision", "agent_kind"),
        *(
            "planned_modes",
            "protocol",
            "engine",
            "engine_version",
            "dtype",
            "evaluation_id",
            "parts",
            "status",
        ),
        *("identity_sha256", "identity_json", "source_uri", "source_sha256", "split", "template_id"),
        *("template_sha256", "prompt_sha256", "finish_reason", "terminator", "grader_id", "grader_version"),
        *("answer_rule", "family", "training_set", "parameter", "provenance", "label", "environment_json"),
    }
    texts = {
        (table, field.name)
        for table, schema in RAW_TABLES.items()
        for field in schema
        if str(field.type) in ("string", "list<item: string>")
    }
    unsaid = {
        (table, name)
        for table, name in texts
        if name not in safe | set(IDENTITIES) and name not in RAW_TEXT[table]
    }
    assert unsaid == set()


def test_a_row_of_a_public_source_is_whole():
    row = {"item_id": "i", "participant_id": "anna", "prompt": "What?"}
    assert PublicRows(frozenset({"gated"})).of("items", row, "plain") == row


@pytest.mark.parametrize(("source_id", "named"), [("gated", "gated"), (None, "a source that nothing names")])
def test_a_row_of_a_restricted_source_has_numbers_for_names_and_no_text(source_id, named):
    row = {"item_id": "i", "participant_id": "anna", "prompt": "What?", "split": "test", "weight": 1.0}
    assert PublicRows(frozenset({"gated"})).of("items", row, source_id) == {
        "item_id": "item 1",
        "participant_id": "participant 1",
        "prompt": None,
        "split": "test",
        "weight": 1.0,
        "withheld": f"withheld: {named} is not public",
    }


def test_rows_of_several_tables_can_still_be_matched():
    rows = PublicRows(frozenset({"gated"}))
    asked = [rows.of("items", {"item_id": name}, "gated")["item_id"] for name in ("b", "a", "b")]
    answered = [rows.of("outputs", {"item_id": name, "episode_id": name}, "gated") for name in ("a", "b")]
    assert asked == ["item 1", "item 2", "item 1"]
    assert [(row["item_id"], row["episode_id"]) for row in answered] == [
        ("item 2", "episode 1"),
        ("item 1", "episode 2"),
    ]
    assert rows.of("outputs", {"participant_id": None}, "gated")["participant_id"] is None


def test_rows_are_shuffled_anew_by_each_object_alike_in_every_table_and_their_steps_stay_in_order():
    names = [f"p{number:02}" for number in range(20)]
    steps = " union all ".join(
        f"select to_json({{'episode_id': '{name}', 'step_index': {step}}})"
        for name in names
        for step in (2, 10)
    )
    people = " union all ".join(f"select to_json({{'participant_id': '{name}'}})" for name in names)

    def order(rows, query, column):
        found = [json.loads(line) for (line,) in duckdb.connect().execute(rows.shuffled(query)).fetchall()]
        assert [row["step_index"] for row in found if "step_index" in row] in ([], [2, 10] * len(names))
        return list(dict.fromkeys(row[column] for row in found))

    first, second = PublicRows(frozenset()), PublicRows(frozenset())
    assert order(first, steps, "episode_id") == order(first, people, "participant_id")
    assert (
        len({tuple(names), *(tuple(order(rows, people, "participant_id")) for rows in (first, second))}) == 3
    )


# --- reasons in tables ---

RUNS = (
    ("open", None, "model", "plain", None),
    ("shut", "evaluation", "model", "gated", None),
)


@pytest.fixture
def con(monkeypatch):
    monkeypatch.setattr("store.privacy.load_sources", lambda: KNOWN)
    with lake(*RUNS) as con:
        yield con


def test_the_reason_of_a_row_is_left_out_for_restricted_runs_alone(con):
    sheet = Sheet(
        ("run_id", "value", "reason"), (("open", 1, "said x"), ("shut", 2, "said x"), ("shut", 3, None))
    )
    assert without_quotes(con, sheet).rows == (
        ("open", 1, "said x"),
        ("shut", 2, withheld("gated")),
        ("shut", 3, None),
    )


def test_counts_stay_before_the_reason_of_the_first_row_is_left_out(con):
    reason = "a: no run; b: 1 of 3 items have a score, the first without: x/2: said y, the first z"
    sheet = Sheet(("Withheld because", "Evaluation"), ((reason, "evaluation"), ("a: no run", "evaluation")))
    assert without_quotes(con, sheet).rows == (
        ("a: no run; b: 1 of 3 items have a score; withheld: gated is not public", "evaluation"),
        ("a: no run", "evaluation"),
    )


def test_a_table_without_reasons_stays_as_it_is(con):
    sheet = Sheet(("Model", "Score"), (("shut", 1),), printed=frozenset({1}), notes=("note",))
    assert without_quotes(con, sheet) is sheet
