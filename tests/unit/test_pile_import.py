"""Procedural Pile: is each row an item to the letter, and are the asked rows the declared ones or none?"""

import hashlib
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from question_sets import (
    REVISION,
    changed,
    declare,
    ingested,
    items_of,
    lines,
    refusal,
    rows_of,
    sha256,
    source_of,
    without_runs,
)

from ingest import procedural_pile
from ingest.procedural_pile import SERIALISATIONS, ProceduralPileImporter, selection
from store.errors import InvalidSource
from store.protocol import load_components, load_datasets

FILE = "pile_like.parquet"
SHARD = "data/test-00000-of-00001.parquet"
MODES = ("instruct", "verification", "few_shot", "cot")
METADATA = [
    '{"cot": "1 + 1 = 2",  "_level": 0}',
    '{"b":[1,2.50],"a":null}',
    '{"\\u00e9": "\\u0000", "x": NaN}',
]
N_ASKED, N_FAMILIES = 350, 55


def problems(n=N_ASKED, n_families=N_FAMILIES):
    return [
        {
            "task": f"family_{number % n_families:02}",
            "prompt": f"What is {number} + {number}?\n",
            "answer": str(2 * number),
            "metadata": METADATA[number % 3],
            "level": number % 4,
            "mode": MODES[number % 4],
        }
        for number in range(n)
    ]


def parquet(rows, **columns):
    buffer = io.BytesIO()
    table = pa.table({name: [row[name] for row in rows] for name in rows[0]} | columns)
    pq.write_table(table, buffer, row_group_size=100)
    return buffer.getvalue()


def refused(folder, content):
    return refusal(folder, "pile_like", FILE, content)


# --- rows ---


def test_each_row_is_an_item_with_what_its_verifier_needs(tmp_path):
    items = items_of(tmp_path, "pile_like", {FILE: parquet(problems())})
    assert len(items) == load_datasets()["pile_like"].n_examples == N_ASKED
    run = f"pile_like-{sha256(parquet(problems()))[:12]}-v1"
    for position, (item, row) in enumerate(zip(items, problems(), strict=True)):
        canonical = json.dumps(row, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        assert item["item_id"] == f"{run}/{position}-{sha256(canonical)[:12]}"
        assert item["mode_id"] == item["source_id"] == "pile_like"
        assert item["prompt"] == row["prompt"]
        facts = json.loads(item["facts_json"])
        assert facts == {name: row[name] for name in ("task", "level", "mode", "answer", "metadata")}
        # to the letter: spaces, numbers and escapes as they were
        assert facts["metadata"] == METADATA[position % 3]
        assert item["legal_options"] is item["credited_options"] is item["target"] is None
        assert item["max_response_tokens"] is None and item["weight"] == 1.0
        assert item["template_sha256"] == sha256(procedural_pile.PROMPT_RULE)


def test_parquet_and_json_lines_give_the_same_items(tmp_path):
    from_parquet = items_of(tmp_path / "parquet", "pile_like", {FILE: parquet(problems())})
    from_lines = items_of(tmp_path / "lines", "pile_like", {"pile_like.jsonl": lines(problems())})
    assert without_runs(from_parquet) == without_runs(from_lines)


def test_types_that_hold_the_same_text_give_the_same_items(tmp_path):
    rows = problems()
    plain = items_of(tmp_path / "plain", "pile_like", {FILE: parquet(rows)})
    coded = parquet(
        rows,
        task=pa.array([row["task"] for row in rows]).dictionary_encode(),
        prompt=pa.array([row["prompt"] for row in rows], pa.large_string()),
        level=pa.array([row["level"] for row in rows], pa.int8()),
    )
    assert without_runs(items_of(tmp_path / "coded", "pile_like", {FILE: coded})) == without_runs(plain)


def test_an_answer_may_be_empty_and_a_problem_may_not(tmp_path):
    items = items_of(tmp_path, "pile_like", {FILE: parquet(changed(problems(), 3, answer=""))})
    assert json.loads(items[2]["facts_json"])["answer"] == ""
    said = refused(tmp_path / "other", parquet(changed(problems(), 3, prompt=" ")))
    assert said == "row 3: prompt: expected text, found none"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"metadata": None}, "metadata: the field is missing"),
        ({"source": "x"}, "source: unknown field"),
        ({"metadata": "{"}, "metadata: expected JSON text, found another (Expecting property name"),
        ({"metadata": "{'a': 1}"}, "metadata: expected JSON text, found another"),
        ({"metadata": "[1]"}, "metadata: expected the JSON text of an object, found that of list"),
        ({"metadata": "[" * 100_000}, "metadata: expected JSON text, found another"),
        ({"metadata": {"cot": "1"}}, "metadata: input should be a valid string, found {'cot': '1'}"),
        ({"metadata": ""}, "metadata: expected text, found none"),
        ({"task": "  "}, "task: expected text, found none"),
        ({"task": "a\x00"}, "task: expected text, found a NUL byte in it"),
        ({"answer": 4}, "answer: input should be a valid string, found 4"),
        ({"answer": "4\x00"}, "answer: expected text, found a NUL byte in it"),
        ({"level": True}, "level: input should be a valid integer, found True"),
        ({"level": 1.0}, "level: input should be a valid integer, found 1.0"),
        ({"level": "1"}, "level: input should be a valid integer, found '1'"),
        ({"level": -1}, "level: input should be greater than or equal to 0, found -1"),
        (
            {"mode": "chat"},
            "mode: input should be 'instruct', 'verification', 'few_shot' or 'cot', found 'chat'",
        ),
    ],
)
def test_one_wrong_field_refuses_the_file(tmp_path, fields, said):
    found = refusal(tmp_path, "pile_like", "rows.jsonl", lines(changed(problems(), 12, **fields)))
    assert found.startswith(f"line 12: {said}"), found
    assert len(found) < 300


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"__index_level_0__": list(range(N_ASKED))}, "row 1: __index_level_0__: unknown field"),
        ({"level": [0.0] * N_ASKED}, "row 1: level: input should be a valid integer, found 0.0"),
        ({"level": [0] * 9 + [None] * 341}, "row 10: level: input should be a valid integer, found None"),
        ({"answer": [b"4"] * N_ASKED}, "row 1: answer: input should be a valid string, found b'4'"),
        (
            {"metadata": [{"a": 1}] * N_ASKED},
            "row 1: metadata: input should be a valid string, found {'a': 1}",
        ),
    ],
)
def test_one_wrong_column_refuses_the_file(tmp_path, columns, said):
    assert refused(tmp_path, parquet(problems(), **columns)) == said


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:-10], lambda data: data[:4], lambda data: data[:500] + data[600:]],
)
def test_a_damaged_parquet_file_is_refused(tmp_path, damage):
    assert refused(tmp_path, damage(parquet(problems()))).startswith("not readable as parquet (")


def test_text_in_parquet_that_is_not_utf_8_is_refused(tmp_path):
    broken = pa.array([b"\xff\xfe"] * N_ASKED).cast(pa.string(), safe=False)
    said = refused(tmp_path, parquet(problems(), prompt=broken))
    assert said.startswith("not readable as parquet (")


@pytest.mark.parametrize("n", [N_ASKED - 1, N_ASKED + 1])
def test_one_row_short_or_too_many_refuses_the_file(tmp_path, n):
    assert (
        refused(tmp_path, parquet(problems(n))) == f"expected 350 questions, which pile_like has, found {n}"
    )


def test_a_row_that_is_there_twice_refuses_the_file(tmp_path):
    said = refused(tmp_path, parquet([*problems()[:349], problems()[4]]))
    assert said.startswith("row 350: expected each row once, found '") and said.endswith("' in row 5 too")


# --- which rows of the published shard are asked ---


def shard():
    """8 rows of each family, in an order that is neither that of families nor that of hashes."""
    return problems(8 * N_FAMILIES)


def canonical(row):
    return json.dumps(row, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def picked_by_our_rule():
    """Positions of 20 x 7 + 35 x 6 rows: by family, and within it by the hash of the row."""
    order = []
    for rank, family in enumerate(sorted({row["task"] for row in shard()})):
        of_family = [position for position, row in enumerate(shard()) if row["task"] == family]
        of_family.sort(key=lambda position: sha256(canonical(shard()[position])))
        order += of_family[: 7 if rank < 20 else 6]
    return order


def declared(monkeypatch, content, subset_sha256):
    return declare(
        monkeypatch,
        "procedural_pile",
        revision=REVISION,
        source_sha256=sha256(content),
        selection_sha256=subset_sha256,
    )


def lines_hash(positions):
    return sha256("".join(f"{canonical(shard()[position])}\n" for position in positions))


def test_rows_picked_by_our_rule_come_in_if_they_are_the_declared_ones(tmp_path, monkeypatch):
    content, order = parquet(shard()), picked_by_our_rule()
    declared(monkeypatch, content, lines_hash(order))
    lake, report = ingested(tmp_path, "procedural_pile", {SHARD: content}, REVISION)
    items = rows_of(lake, "items")
    assert [item["prompt"] for item in items] == [shard()[position]["prompt"] for position in sorted(order)]
    families = [json.loads(item["facts_json"])["task"] for item in items]
    sizes = [families.count(family) for family in sorted(set(families))]
    assert len(items) == 20 * 7 + 35 * 6 and sizes == [7] * 20 + [6] * 35
    assert items[0]["item_id"].startswith(f"procedural_pile-{sha256(content)[:12]}-v1/{min(order)}-")
    # rows that are not asked are counted and are no fault
    assert (report.n_source_rows, report.n_unreadable_rows) == (440, 0)
    assert report.notes == (f"{SHARD}: 90 rows: not among the selected rows; not asked",)


def test_other_rows_than_the_declared_ones_are_refused_with_both_hashes(tmp_path, monkeypatch):
    content = parquet(shard())
    component = declared(monkeypatch, content, "a" * 64)
    said = refusal(tmp_path, "procedural_pile", SHARD, content, revision=REVISION)
    assert said.startswith("expected rows of sha256 " + "a" * 64 + ", as procedural-pile-350-v1 has them; ")
    assert lines_hash(picked_by_our_rule()) in said
    assert said.endswith("pin selection.json with the positions that the release embeds")
    assert component.selection == "procedural-pile-350-v1"


CHOSEN = [*range(3, 353)][::-1]
ROWS = {True: CHOSEN, False: sorted(CHOSEN)}


@pytest.mark.parametrize("is_ordered", [True, False])
@pytest.mark.parametrize(
    "write",
    [
        lambda rows, _: "".join(f"{canonical(row)}\n" for row in rows),
        lambda rows, _: "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows),
        lambda rows, _: "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows),
        lambda rows, _: canonical(rows),
        lambda rows, _: json.dumps(rows, sort_keys=True),
        lambda _, positions: json.dumps(positions),
        lambda _, positions: json.dumps(positions, separators=(",", ":")),
    ],
)
def test_a_pinned_selection_comes_in_if_its_rows_are_the_declared_ones(
    tmp_path, monkeypatch, write, is_ordered
):
    content, order = lines(shard()), ROWS[is_ordered]
    declared(monkeypatch, content, sha256(write([shard()[position] for position in order], order)))
    files = {"test.jsonl": content, "selection.json": json.dumps(CHOSEN)}
    items = items_of(tmp_path, "procedural_pile", files, REVISION)
    assert [item["prompt"] for item in items] == [row["prompt"] for row in shard()[3:353]]


def test_as_many_ways_to_write_rows_down_are_tried_as_are_tested():
    assert len(SERIALISATIONS) == 7


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ("{", "not JSON (Expecting property name"),
        ('{"rows": [1]}', "expected a list of positions, found dict"),
        (json.dumps(CHOSEN[:-1]), "expected 350 positions, each once, found 349, 349 of them different"),
        (json.dumps([*CHOSEN[:-1], CHOSEN[0]]), "expected 350 positions, each once, found 350, 349 of them"),
        (json.dumps([*CHOSEN, 400]), "expected 350 positions, each once, found 351, 351 of them different"),
        (json.dumps([*CHOSEN[:-1], 440]), "expected positions from 0 to 439, found 440"),
        (json.dumps([*CHOSEN[:-1], -1]), "expected positions from 0 to 439, found -1"),
        (json.dumps([*CHOSEN[:-1], True]), "expected positions from 0 to 439, found True"),
        (json.dumps([*CHOSEN[:-1], 4.0]), "expected positions from 0 to 439, found 4.0"),
        (json.dumps([*CHOSEN[:-1], "4"]), "expected positions from 0 to 439, found '4'"),
        (b"\xff", "not UTF-8 text at byte 0"),
    ],
)
def test_a_selection_that_is_none_refuses_the_shard(tmp_path, monkeypatch, chosen, said):
    content = lines(shard())
    declared(monkeypatch, content, lines_hash(CHOSEN))
    found = refusal(
        tmp_path,
        "procedural_pile",
        "test.jsonl",
        content,
        others={"selection.json": chosen},
        revision=REVISION,
    )
    assert found.startswith(f"selection.json: {said}"), found


def test_a_selection_of_other_rows_refuses_the_shard(tmp_path, monkeypatch):
    content = lines(shard())
    declared(monkeypatch, content, lines_hash(CHOSEN))
    others = {"selection.json": json.dumps([*CHOSEN[:-1], 400])}
    said = refusal(tmp_path, "procedural_pile", "test.jsonl", content, others=others, revision=REVISION)
    assert f"expected rows of sha256 {lines_hash(CHOSEN)}" in said and "those of selection.json have" in said


def test_a_family_with_too_few_rows_refuses_the_shard(tmp_path, monkeypatch):
    rows = [row for row in shard() if row["task"] != "family_54"] + shard()[54 : 54 + 55 * 5 : 55]
    content = lines(rows)
    declared(monkeypatch, content, "a" * 64)
    said = refusal(tmp_path, "procedural_pile", "test.jsonl", content, revision=REVISION)
    assert said == "expected 6 rows of family_54, found 5"


def test_another_shard_under_the_published_name_is_refused_with_both_hashes(tmp_path):
    content, component = lines(shard()), load_components()["procedural_pile"]
    said = refusal(tmp_path, "procedural_pile", "test.jsonl", content, revision=component.revision)
    assert said.startswith(
        f"expected sha256 {component.source_sha256}, which procedural_pile declares, found "
    )
    assert sha256(content) in said


def test_the_selection_can_be_checked_without_a_lake(tmp_path, monkeypatch):
    content = parquet(shard())
    component = declared(monkeypatch, content, lines_hash(picked_by_our_rule()))
    path = tmp_path / "test.parquet"
    path.write_bytes(content)
    found = selection(path, str(path), component)
    assert found.positions == tuple(sorted(picked_by_our_rule()))
    assert [row.prompt for row in found.rows] == [shard()[place]["prompt"] for place in found.positions]
    assert (found.sha256, found.serialisation) == (component.selection_sha256, next(iter(SERIALISATIONS)))
    assert found.picked_by == "a rule of this project for procedural-pile-350-v1"
    with pytest.raises(InvalidSource, match="expected rows of sha256"):
        selection(path, str(path), component.model_copy(update={"selection_sha256": "b" * 64}))


def test_all_rows_of_a_stand_in_are_asked_whatever_stands_beside_them(tmp_path):
    files = {FILE: parquet(problems()), "selection.json": "[0]"}
    assert len(items_of(tmp_path, "pile_like", files)) == N_ASKED


def test_a_file_of_something_else_holds_no_problems(tmp_path):
    source = source_of(tmp_path, "pile_like", {FILE: parquet(problems()), "README.md": "about"})
    importer = ProceduralPileImporter()
    names = {file.path: importer.identify(source, file) for file in source.files}
    assert names == {
        FILE: f"pile_like-{hashlib.sha256(parquet(problems())).hexdigest()[:12]}-v1",
        "README.md": None,
    }
    [readme] = [file for file in source.files if file.path != FILE]
    with pytest.raises(InvalidSource, match="not a file of problems"):
        importer.read_with(source, readme, tmp_path, {})
