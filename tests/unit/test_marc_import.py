"""Grid puzzles: is each an item with its grid, and are families and levels in equal shares?"""

import json

import pytest
from question_sets import REVISION, changed, declare, items_of, lines, refusal, sha256, source_of

from ingest.marc import GridPuzzleImporter
from ingest.pipeline import ingest
from store.errors import InvalidSource
from store.protocol import load_components, load_datasets
from store.settings import Home

FILE = "marc_like.jsonl"
N_PUZZLES = load_datasets()["marc_like"].n_examples
FAMILIES, N_LEVELS, N_EACH = ("mirror", "fill", "move", "count"), 4, 20


def puzzles():
    """4 families x 4 levels x 20 = 320 puzzles."""
    return [
        {
            "id": f"{family}-{level}-{number}",
            "family": family,
            "level": level,
            "prompt": f"Input:\n1 {number}\nOutput:\n{number} 1\n\nInput:\n2 {level}\nOutput:\n",
            "answer": f"{level} 2\n0 {number}",
        }
        for family in FAMILIES
        for level in range(N_LEVELS)
        for number in range(N_EACH)
    ]


def refused(folder, rows):
    return refusal(folder, "marc_like", FILE, lines(rows))


def test_each_puzzle_is_an_item_with_its_grid(tmp_path):
    items = items_of(tmp_path, "marc_like", {FILE: lines(puzzles())})
    assert len(items) == N_PUZZLES == 4 * 4 * 20
    run = f"marc_like-{sha256(lines(puzzles()))[:12]}-v1"
    for item, puzzle in zip(items, puzzles(), strict=True):
        assert item["item_id"] == f"{run}/{puzzle['id']}" and item["mode_id"] == "marc_like"
        assert item["prompt"] == puzzle["prompt"]
        assert item["legal_options"] is None and item["credited_options"] == [puzzle["answer"]]
        assert json.loads(item["facts_json"]) == {
            "family": puzzle["family"],
            "level": puzzle["level"],
            "format": "grid",
        }
        assert (item["split"], item["weight"], item["max_response_tokens"]) == (None, 1.0, None)
        assert item["template_id"] == "marc_like-v1"
        assert item["template_sha256"] == sha256(GridPuzzleImporter.prompt_rule)


def test_a_puzzle_may_be_drawn_twice(tmp_path):
    rows = changed(puzzles(), 2, prompt=puzzles()[0]["prompt"], answer=puzzles()[0]["answer"])
    assert len(items_of(tmp_path, "marc_like", {FILE: lines(rows)})) == N_PUZZLES


@pytest.mark.parametrize("answer", ["5", "1 2 3", "1\n2\n3", "a b\nc d", "10 .\n# \u2588"])
def test_grids_of_any_shape_and_alphabet_are_grids(tmp_path, answer):
    items = items_of(tmp_path, "marc_like", {FILE: lines(changed(puzzles(), 1, answer=answer))})
    assert items[0]["credited_options"] == [answer]


@pytest.mark.parametrize(
    "answer",
    [
        "1 2\n3",
        "1  2\n3 4",
        " 1 2",
        "1 2 ",
        "1 2\n",
        "\n1 2",
        "1 2\n\n3 4",
        "1\t2",
        "1 2\r\n3 4",
        "1 2\u00a0",
    ],
)
def test_an_answer_that_is_no_grid_refuses_the_file(tmp_path, answer):
    said = refused(tmp_path, changed(puzzles(), 5, answer=answer))
    assert said.startswith("line 5: answer: expected a grid, rows of equally many cells")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"answer": None}, "answer: the field is missing"),
        ({"grid": [[1]]}, "grid: unknown field"),
        ({"answer": ""}, "answer: expected text, found none"),
        ({"answer": [[1, 2]]}, "answer: input should be a valid string, found [[1, 2]]"),
        ({"prompt": "\n"}, "prompt: expected text, found none"),
        ({"family": ""}, "family: expected text, found none"),
        ({"id": 5}, "id: input should be a valid string, found 5"),
        ({"level": True}, "level: input should be a valid integer, found True"),
        ({"level": 1.0}, "level: input should be a valid integer, found 1.0"),
        ({"level": "1"}, "level: input should be a valid integer, found '1'"),
        ({"level": -1}, "level: input should be greater than or equal to 0, found -1"),
    ],
)
def test_one_wrong_field_refuses_the_file(tmp_path, fields, said):
    assert refused(tmp_path, changed(puzzles(), 11, **fields)) == f"line 11: {said}"


@pytest.mark.parametrize("rows", [puzzles()[1:], [*puzzles(), puzzles()[0] | {"id": "one more"}]])
def test_one_puzzle_short_or_too_many_refuses_the_file(tmp_path, rows):
    assert refused(tmp_path, rows) == f"expected 320 questions, which marc_like has, found {len(rows)}"


def test_an_id_that_is_there_twice_refuses_the_file(tmp_path):
    rows = changed(puzzles(), 320, id="mirror-0-0")
    assert refused(tmp_path, rows) == "row 320: expected each id once, found 'mirror-0-0' in row 1 too"


def test_levels_of_unequal_size_refuse_the_file(tmp_path):
    said = refused(tmp_path, changed(puzzles(), 1, level=1))
    assert said == ("expected each level of 0 to 3 equally often, found 79 of 0, 81 of 1, 80 of 2, 80 of 3")


def test_a_level_that_the_component_does_not_have_refuses_the_file(tmp_path):
    rows = [puzzle | {"level": puzzle["level"] + 1} for puzzle in puzzles()]
    assert refused(tmp_path, rows).startswith("expected each level of 0 to 3 equally often, found 80 of 1")


def test_families_that_differ_between_levels_refuse_the_file(tmp_path):
    # a puzzle of level 0 goes from one family to another, and one of level 1 the other way
    rows = changed(changed(puzzles(), 1, family="fill"), 101, family="mirror")
    assert refused(tmp_path, rows) == (
        "expected each family equally often at each level, found 21, 19, 20, 20 of fill"
    )


# --- what is published: the program is pinned beside the puzzles that it printed ---


def test_puzzles_that_the_pinned_program_printed_come_in(tmp_path, monkeypatch):
    declare(monkeypatch, "marc", revision=REVISION)
    files = {"marc.py": "print('puzzles')\n", "puzzles.jsonl": lines(puzzles())}
    items = items_of(tmp_path, "marc", files, REVISION)
    assert {item["mode_id"] for item in items} == {"marc"} and len(items) == N_PUZZLES


def test_puzzles_without_the_program_are_refused(tmp_path, monkeypatch):
    declare(monkeypatch, "marc", revision=REVISION)
    said = refusal(tmp_path, "marc", "puzzles.jsonl", lines(puzzles()), revision=REVISION)
    assert said == (
        "expected marc.py to be pinned beside the puzzles that it printed, found no such file: "
        "add it to the block"
    )


def test_the_program_is_pinned_and_never_fetched_or_run(tmp_path, monkeypatch):
    declare(monkeypatch, "marc", revision=REVISION)
    program = f"open({str(tmp_path / 'ran')!r}, 'w')\n"
    source = source_of(tmp_path, "marc", {"marc.py": program, "puzzles.jsonl": lines(puzzles())}, REVISION)
    (tmp_path / "mirror" / source.mirror_path(source.files[0])).unlink()
    [report] = ingest(Home(tmp_path / "lake"), [source], mirror=str(tmp_path / "mirror"))
    assert report.failures == () and not (tmp_path / "ran").exists()
    assert report.notes == ("1 of 2 files hold no rows for the store",)


def test_puzzles_of_another_repository_are_refused(tmp_path, monkeypatch):
    declare(monkeypatch, "marc", revision=REVISION, repo="FlameF0X/Micro-ARC")
    others = {"marc.py": "print('puzzles')\n"}
    said = refusal(tmp_path, "marc", "puzzles.jsonl", lines(puzzles()), others=others, revision=REVISION)
    assert said == (
        "expected a file of FlameF0X/Micro-ARC, which marc declares, found one of handwritten: pin that "
        "repository"
    )


@pytest.mark.parametrize("is_dry_run", [False, True])
def test_a_source_of_which_no_file_holds_questions_is_told(tmp_path, is_dry_run):
    source = source_of(tmp_path, "marc", {"marc.py": "", "README.md": ""}, REVISION)
    mirror = str(tmp_path / "mirror")
    [report] = ingest(Home(tmp_path / "lake"), [source], mirror=mirror, dry_run=is_dry_run)
    [failure] = report.failures
    assert isinstance(failure, InvalidSource)
    assert str(failure).startswith(
        "manifests/sources.toml: [marc] files: expected a file of questions, found only marc.py, README.md; "
    )


def test_puzzles_of_another_revision_of_the_program_are_refused(tmp_path):
    files = {"marc.py": "print('puzzles')\n"}
    said = refusal(tmp_path, "marc", "puzzles.jsonl", lines(puzzles()), others=files, revision=REVISION)
    declared = load_components()["marc"].revision
    assert said == f"expected revision {declared}, which marc declares, found {REVISION}: pin that one"
