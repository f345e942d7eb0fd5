"""Questions about using a computer: is each an item with weight, format and budget, in passes of one size?"""

import json

import pytest
from question_sets import REVISION, changed, declare, items_of, lines, refusal, sha256

from ingest.smolcua import ComputerUseImporter
from store.protocol import load_components, load_datasets

FILE = "smolcua_like.jsonl"
N_PASSES, N_EACH = 3, 400
COMPONENT = load_components()["smolcua"]

# format: answers, choices
FORMATS = {
    "choice": (["Save"], ["Save", "Cancel", "Help"]),
    "integer": (["-12"], None),
    "word": (["inbox", "Inbox"], None),
    "action": (['type(e3, "red shoes")'], None),
    "text": (["The file was saved.\n\nIt is closed."], None),
    "steps": (["click(e1)\nclick(e2)"], None),
    "grid": (["1 2\n3 4"], None),
}


def exercise(number, form):
    answers, choices = FORMATS[form]
    row = {
        "id": f"q{number}",
        "pass": 1 + number // N_EACH,
        "kind": "next_action",
        "format": form,
        "prompt": f"Screen {number}\n[e1] button Save\nWhat now?",
        "answers": answers,
        "weight": 1 + number % 3 / 2,
    }
    return row if choices is None else row | {"choices": choices}


def exercises():
    """3 passes of 400."""
    forms = list(FORMATS)
    return [exercise(number, forms[number % len(forms)]) for number in range(N_PASSES * N_EACH)]


def refused(folder, rows):
    return refusal(folder, "smolcua_like", FILE, lines(rows))


def refused_as(folder, form, **fields):
    """Return why the fourth question is refused that has a format and other fields."""
    rows = [*exercises()[:3], exercise(3, form), *exercises()[4:]]
    return refused(folder, changed(rows, 4, **fields)).removeprefix("line 4: ")


def test_each_question_is_an_item_with_weight_format_and_budget(tmp_path):
    items = items_of(tmp_path, "smolcua_like", {FILE: lines(exercises())})
    assert len(items) == load_datasets()["smolcua_like"].n_examples == 3 * 400
    run = f"smolcua_like-{sha256(lines(exercises()))[:12]}-v1"
    for item, row in zip(items, exercises(), strict=True):
        assert item["item_id"] == f"{run}/{row['id']}" and item["mode_id"] == "smolcua_like"
        assert item["prompt"] == row["prompt"] and item["weight"] == row["weight"]
        assert item["legal_options"] is None and item["credited_options"] == row["answers"]
        assert json.loads(item["facts_json"]) == {
            "pass": row["pass"],
            "kind": "next_action",
            "format": row["format"],
            "choices": row.get("choices"),
        }
        assert item["template_sha256"] == sha256(ComputerUseImporter.prompt_rule)
    budgets = {json.loads(item["facts_json"])["format"]: item["max_response_tokens"] for item in items}
    assert budgets == dict.fromkeys(("choice", "integer", "word", "action"), 48) | dict.fromkeys(
        ("text", "steps", "grid"), 512
    )


def test_the_budgets_are_those_of_the_component(tmp_path, monkeypatch):
    declare(monkeypatch, "smolcua", max_response_tokens=70, max_response_tokens_short=7)
    items = items_of(tmp_path, "smolcua_like", {FILE: lines(exercises())})
    assert {item["max_response_tokens"] for item in items} == {7, 70}


def test_choices_that_are_null_are_none(tmp_path):
    rows = [row if row["format"] == "choice" else row | {"choices": None} for row in exercises()]
    assert len(items_of(tmp_path, "smolcua_like", {FILE: lines(rows)})) == 1200


@pytest.mark.parametrize(
    ("form", "fields", "said"),
    [
        ("word", {"answers": None}, "answers: the field is missing"),
        ("word", {"points": 2}, "points: unknown field"),
        ("word", {"turn": 1}, "turn: unknown field"),
        ("word", {"format": "essay"}, "format: input should be 'choice', 'integer', 'word', 'action'"),
        ("word", {"format": ["word"]}, "format: input should be 'choice', 'integer', 'word', 'action'"),
        ("word", {"pass": True}, "pass: input should be a valid integer, found True"),
        ("word", {"pass": 1.0}, "pass: input should be a valid integer, found 1.0"),
        ("word", {"pass": 0}, "pass: input should be greater than or equal to 1, found 0"),
        ("word", {"kind": " "}, "kind: expected text, found none"),
        ("word", {"prompt": ""}, "prompt: expected text, found none"),
        ("word", {"answers": "inbox"}, "answers: input should be a valid list, found 'inbox'"),
        ("word", {"answers": []}, "answers: list should have at least 1 item after validation, not 0"),
        ("word", {"answers": ["a", "a"]}, "answers: expected different texts, found one twice"),
        ("word", {"answers": [""]}, "answers.0: expected text, found none"),
        ("word", {"answers": ["a\x00"]}, "answers.0: expected text, found a NUL byte in it"),
        ("word", {"answers": [" a"]}, "expected answers of one line without space around, found ' a'"),
        ("action", {"answers": ["a\nb"]}, "expected answers of one line without space around, found 'a\\nb'"),
        ("integer", {"answers": ["4.0"]}, "expected whole numbers as answers, found '4.0'"),
        ("integer", {"answers": ["\u0664"]}, "expected whole numbers as answers, found '\\u0664'"),
        ("integer", {"answers": [4]}, "answers.0: input should be a valid string, found 4"),
        ("steps", {"answers": ["click(e1)\n\nclick(e2)"]}, "expected answers without a blank line, found"),
        ("grid", {"answers": ["1 2\n"]}, "expected answers without a blank line, found '1 2\\n'"),
        ("choice", {"choices": None}, "expected choices with the format choice alone, found none of choice"),
        ("choice", {"choices": ["Save"]}, "choices: list should have at least 2 items"),
        ("choice", {"choices": ["Save", "Save"]}, "choices: expected different texts, found one twice"),
        ("choice", {"answers": ["Quit"]}, "expected every answer among the choices, found 'Quit'"),
        ("choice", {"answers": ["Save", "save"]}, "expected every answer among the choices, found 'save'"),
        (
            "word",
            {"choices": ["a", "b"]},
            "expected choices with the format choice alone, found some of word",
        ),
        ("word", {"weight": 0}, "weight: input should be greater than or equal to 0.001, found 0"),
        ("word", {"weight": -1.5}, "weight: input should be greater than or equal to 0.001, found -1.5"),
        ("word", {"weight": True}, "weight: input should be a valid number, found True"),
        ("word", {"weight": "2"}, "weight: input should be a valid number, found '2'"),
        ("word", {"weight": [2]}, "weight: input should be a valid number, found [2]"),
    ],
)
def test_one_wrong_field_refuses_the_file(tmp_path, form, fields, said):
    found = refused_as(tmp_path, form, **fields)
    assert found.startswith(said), found


@pytest.mark.parametrize(
    ("number", "said"),
    [
        ("1e999", "weight: input should be less than or equal to 1000, found inf"),
        ("1e30", "weight: input should be less than or equal to 1000, found 1e+30"),
        ("1000.5", "weight: input should be less than or equal to 1000, found 1000.5"),
        ("NaN", "not JSON (NaN is no number)"),
        ("Infinity", "not JSON (Infinity is no number)"),
        ("1e-999", "weight: input should be greater than or equal to 0.001, found 0.0"),
    ],
)
def test_a_weight_that_is_no_number_of_points_refuses_the_file(tmp_path, number, said):
    content = lines(exercises()).replace('"weight": 1.5', f'"weight": {number}', 1)
    assert refusal(tmp_path, "smolcua_like", FILE, content) == f"line 2: {said}"


def test_one_question_short_or_too_many_refuses_the_file(tmp_path):
    rows = exercises()
    said = "expected 1,200 questions, which smolcua_like has, found "
    assert refused(tmp_path / "short", rows[:-1]) == f"{said}1,199"
    assert refused(tmp_path / "many", [*rows, rows[0] | {"id": "more"}]) == f"{said}1,201"


def test_an_id_that_is_there_twice_refuses_the_file(tmp_path):
    said = refused(tmp_path, changed(exercises(), 401, id="q0"))
    assert said == "row 401: expected each id once, found 'q0' in row 1 too"


def test_passes_of_unequal_size_refuse_the_file(tmp_path):
    said = refused(tmp_path, changed(exercises(), 1, **{"pass": 2}))
    assert said == "expected each pass of 1 to 3 equally often, found 399 of 1, 401 of 2, 400 of 3"


def test_a_pass_too_many_refuses_the_file(tmp_path):
    rows = [row | {"pass": 1 + number // 300} for number, row in enumerate(exercises())]
    said = refused(tmp_path, rows)
    assert said == (
        "expected each pass of 1 to 3 equally often, found 300 of 1, 300 of 2, 300 of 3, 300 of 4"
    )


def test_the_published_questions_are_those_of_the_declared_hash(tmp_path, monkeypatch):
    content = lines(exercises())
    folder = COMPONENT.source_path
    declare(monkeypatch, "smolcua", revision=REVISION, source_sha256=sha256(content))
    files = {f"{folder}questions.jsonl": content, f"{folder}log.jsonl": "{}\n", "README.md": "about"}
    items = items_of(tmp_path, "smolcua", files, REVISION)
    assert len(items) == 1200 and {item["mode_id"] for item in items} == {"smolcua"}


def test_other_questions_under_the_published_name_are_refused_with_both_hashes(tmp_path):
    content, path = lines(exercises()), f"{COMPONENT.source_path}questions.jsonl"
    said = refusal(tmp_path, "smolcua", path, content, revision=COMPONENT.revision)
    assert said.startswith(f"expected sha256 {COMPONENT.source_sha256}, which smolcua declares, found ")
    assert sha256(content) in said
