"""What leaves a lake: does any text of a source that is not public reach an export, a trace or a diff?

Every raw column that can hold such a text holds a mark, and the mark is looked for in all that is written.
"""

import csv
import hashlib
import json
from pathlib import Path

import pyarrow as pa
import pytest
from support import ROOT, built, copy_lake, query

from store import cli
from store.database import connect
from store.lake import commit
from store.privacy import IDENTITIES, RAW_TEXT, restricted_sources
from store.schemas import RAW_TABLES
from store.settings import Home

MARK = "Xyzzy"
ANNA, BERT = f"{MARK}-anna", f"{MARK}-bert"
SECRET, PEOPLE, QUESTIONS = "secret_panel", "weather_prediction_hmmr", "ttm"
OPEN, OPEN_PEOPLE = "multinomineq", "multi_attribute_choice_heck2017"
SAID, KEPT = f"{MARK} said so", "an open prompt"
FORMS = ("csv", "json", "md", "latex", "html")
TABLES = ("table3", "metrics", "cogniscore", "learning", "scores")


def manifest(name):
    with (ROOT / "manifests" / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


TTM = next(row for row in manifest("cognirank_components") if row["component_id"] == QUESTIONS)
N_QUESTIONS = int(TTM["n_examples"])
GAME = next(
    row["task_id"]
    for row in manifest("learning_tasks")
    if row["score_rule"] == "runtime_rl" and row["family_id"]
)


def rows(table, *found):
    """Return rows of a raw table; of those whose text says the mark, every text column does."""
    return table, pa.Table.from_pylist(list(found), RAW_TABLES[table])


def run(lake, run_id, *tables, **columns):
    row = {
        "run_id": run_id,
        "agent_kind": "human",
        "notes": [SAID],
        "environment_json": f'"{SAID}"',
    } | columns
    commit(lake, run_id, tables, pa.Table.from_pylist([row], RAW_TABLES["runs"]))


def item(name, mode_id, source_id, text, options, **columns):
    return {
        "item_id": f"{name}/0",
        "mode_id": mode_id,
        "source_id": source_id,
        "split": "test",
        "prompt": text,
        "legal_options": options,
        "credited_options": options[:1],
        "facts_json": json.dumps({"trial": 0, "said": text}),
        "weight": 1.0,
    } | columns


def output(run_id, asked, **columns):
    return {
        "run_id": run_id,
        "item_id": asked["item_id"],
        "mode_id": asked["mode_id"],
        "episode_id": asked["participant_id"] or asked["item_id"],
        "participant_id": asked["participant_id"],
        "response_text": asked["legal_options"][0],
        "status": "ok",
    } | columns


def plant_people(lake, source_id, mode_id, names, text, options):
    """Two people who were asked one question each, and two models that were asked the same."""
    asked = [item(name, mode_id, source_id, text, options, participant_id=name) for name in names]
    responses = [
        {name: row[name] for name in ("item_id", "mode_id", "source_id", "participant_id", "split")}
        | {"response": options[1], "weight": 1.0}
        for row in asked
    ]
    of_source = {"planned_modes": [mode_id], "source_id": source_id}
    run(
        lake,
        f"people-{source_id}",
        rows("items", *asked),
        rows("human_responses", *responses),
        kind="items",
        model_id="panel",
        **of_source,
    )
    for model in ("reader", "writer"):
        run_id = f"{model}-{source_id}"
        said = {"status": "unparsed", "status_reason": text, "response_text": f"{text}, or so"}
        answers = [
            output(run_id, asked[0], response_text=options[model == "writer"]),
            output(run_id, asked[1], **said),
        ]
        of_model = {"kind": "archived", "model_id": model, "agent_kind": "language_model"}
        run(lake, run_id, rows("outputs", *answers), **of_model, **of_source)


def plant_questions(lake):
    """Questions of the gated data set of CogniRank, one of them answered with an error."""
    options = [f"{MARK} {letter}" for letter in "abcd"]
    asked = [
        item(f"{MARK}-{place:04}", QUESTIONS, QUESTIONS, SAID, options, participant_id=None)
        for place in range(N_QUESTIONS)
    ]
    of_source = {"planned_modes": [QUESTIONS], "source_id": QUESTIONS}
    run(
        lake,
        "questions",
        rows("items", *asked),
        kind="items",
        model_id="ttm",
        source_sha256=TTM["source_sha256"],
        **of_source,
    )
    failed = {"status": "error", "status_reason": SAID}
    answers = [output("asked", row, **(failed if place else {})) for place, row in enumerate(asked[:2])]
    scored = [
        {name: answers[0][name] for name in ("run_id", "item_id", "mode_id", "episode_id", "status")}
        | {
            "option_index": place,
            "option": option,
            "logprob_nats": -1.0 - place,
            "n_characters": 7,
            "n_bytes": 7,
        }
        for place, option in enumerate(options)
    ]
    verdicts = [
        {name: answers[0][name] for name in ("run_id", "item_id", "mode_id", "episode_id")}
        | {"grader_id": "x", "grader_version": "1", "status": "error", "status_reason": SAID}
    ]
    run(
        lake,
        "asked",
        rows("outputs", *answers),
        rows("output_options", *scored),
        rows("verdicts", *verdicts),
        kind="model",
        model_id="reader",
        agent_kind="language_model",
        evaluation_id="evaluation",
        **of_source,
    )


def plant_dialogue(lake):
    """A game that was told to a model, and of which a reply failed."""
    game = item(
        f"{MARK}-game", GAME, SECRET, SAID, [SAID], participant_id=f"{MARK}-game/0", legal_options=None
    )
    reply = {
        "run_id": "dialogue",
        "mode_id": GAME,
        "episode_id": game["participant_id"],
        "stage": 0,
        "trial": 0,
        "observation": SAID,
        "response_text": SAID,
        "action": SAID,
        "is_forced": False,
        "is_rewarded": False,
        "outcome": "moved",
        "status": "ok",
    }
    failed = {"step_index": 1, "status": "error", "status_reason": SAID, "is_last": True, "outcome": SAID}
    prompt = {"prompt_sha256": "0" * 64, "run_id": "dialogue", "text": SAID}
    replies = [
        reply | {"step_index": 0, "prompt_sha256": prompt["prompt_sha256"]},
        reply | failed,
    ]
    run(
        lake,
        "dialogue",
        rows("items", game),
        rows("prompts", prompt),
        rows("steps", *replies),
        kind="model",
        model_id="reader",
        agent_kind="language_model",
        evaluation_id="dialogues",
        planned_modes=[GAME],
        source_id=SECRET,
    )


@pytest.fixture(scope="module")
def lake(tmp_path_factory, empty_lake, project) -> Home:
    lake = copy_lake(empty_lake, tmp_path_factory.mktemp("public") / "lake")
    plant_people(lake, SECRET, PEOPLE, (ANNA, BERT), SAID, [f"{MARK}-sun", f"{MARK}-rain"])
    plant_people(lake, OPEN, OPEN_PEOPLE, ("carl", "dora"), KEPT, ["A", "B"])
    plant_questions(lake)
    plant_dialogue(lake)
    built(lake, project)
    return lake


@pytest.fixture
def command(lake, project, tmp_path, monkeypatch, capsys):
    """Run a command on the lake; return exit code and everything that it wrote, also into files."""

    def run_command(*arguments):
        monkeypatch.setenv("COGLAKE_HOME", str(lake.root))
        monkeypatch.chdir(project)
        with pytest.raises(SystemExit) as ended:
            cli.app(list(arguments))
        return ended.value.code, *capsys.readouterr()

    return run_command


def exported(command, folder: Path, what: str, form: str, *options: str) -> str:
    path = folder / f"{what}.{form}"
    code, out, said = command("export", what, "--format", form, "-o", str(path), "--allow-partial", *options)
    assert code == 0, said
    return out + said + "".join(each.read_text() for each in sorted(folder.iterdir()))


def test_every_raw_text_column_holds_the_mark(lake):
    holding = {}
    for table, columns in RAW_TEXT.items():
        found = query(lake, f"select * from stg_{table}")
        for column in (*columns, *IDENTITIES):
            holding[table, column] = any(MARK in str(row.get(column)) for row in found)
    numbers = {"response_number", "report_low", "report_high", "target", "hidden_values", "token_ids"}
    texts = {
        (table, column)
        for table, columns in RAW_TEXT.items()
        for column in columns
        if column not in numbers and (table, column) not in {("output_options", "status_reason")}
    } - {("steps", "legal_options"), ("steps", "credited_options")}
    assert {place for place in texts if not holding[place]} == set()
    assert holding["human_responses", "participant_id"] and holding["items", "item_id"]
    assert holding["outputs", "episode_id"] and holding["steps", "episode_id"]
    # and the reasons of tables that are made to be handed on quote it
    assert MARK in str(query(lake, "select reason from metrics"))
    assert MARK in str(query(lake, "select reason from learning_scores"))
    assert MARK in str(query(lake, "select withheld_because from cogniscore"))


def test_gated_and_unknown_sources_are_restricted(lake):
    con = connect(lake)
    try:
        assert restricted_sources(con) == {"ttm", "polite_speaker", "wcst_prl", SECRET}
    finally:
        con.close()


@pytest.mark.parametrize("what", TABLES)
@pytest.mark.parametrize("form", FORMS)
def test_no_export_holds_the_mark(command, tmp_path, what, form):
    assert MARK not in exported(command, tmp_path, what, form, "--public")


@pytest.mark.parametrize("what", [name for name in TABLES if name != "scores"])
def test_tables_hold_no_raw_text_even_if_nobody_asks(command, tmp_path, what):
    written = exported(command, tmp_path, what, "csv")
    assert MARK not in written and ("reader" in written or what == "table3")


def test_why_a_value_is_missing_is_still_counted(command, tmp_path):
    written = exported(command, tmp_path, "cogniscore", "csv")
    assert f" of {N_QUESTIONS} items have a score; withheld: ttm is not public" in written


def test_scores_hold_it_unless_they_are_public_and_then_say_so(command, tmp_path):
    whole = json.loads(exported_alone(command, tmp_path, "scores", "json"))
    public = json.loads(exported_alone(command, tmp_path, "scores", "json", "--public"))
    assert len(whole) == len(public) and {row["withheld"] for row in whole} == {None}
    text = ("status_reason", "prompt", "options", "credited_options", "response_text", "human_response")
    for row in public:
        if row["source_id"] == OPEN:
            assert (
                row["withheld"] is None
                and row["prompt"] == KEPT
                and row["participant_id"] in ("carl", "dora")
            )
        else:
            assert row["withheld"] == f"withheld: {row['source_id']} is not public"
            assert [row[name] for name in text] == [None] * len(text)
    [secret] = [
        row
        for row in whole
        if (row["run_id"], row["status"], row["rule"]) == (f"reader-{SECRET}", "ok", "credited_choice")
    ]
    assert (secret["item_id"], secret["participant_id"], secret["prompt"]) == (f"{ANNA}/0", ANNA, SAID)
    assert (secret["response_text"], secret["human_response"]) == (f"{MARK}-sun", f"{MARK}-rain")
    assert (secret["options"], secret["credited_options"]) == (
        [f"{MARK}-sun", f"{MARK}-rain"],
        [f"{MARK}-sun"],
    )
    assert (secret["value"], secret["benchmark"], secret["is_partial"]) == (1.0, "s1cogbench", False)


def exported_alone(command, folder, what, form, *options):
    exported(command, folder, what, form, *options)
    return (folder / f"{what}.{form}").read_text()


def test_numbers_in_place_of_names_tell_the_same_rows_apart(command, tmp_path):
    whole, public = (
        json.loads(exported_alone(command, tmp_path, "scores", "json", *options))
        for options in ((), ("--public",))
    )

    def rows_of(found):
        return {
            (row["run_id"], row["mode_id"], row["rule"], row["readout"], row["value"], row["status"]): row
            for row in found
            if row["source_id"] == SECRET and row["mode_id"] == PEOPLE
        }

    called = {
        column: {(rows_of(whole)[key][column], row[column]) for key, row in rows_of(public).items()}
        for column in IDENTITIES
    }
    for column, pairs in called.items():
        names, numbers = {name for name, _ in pairs}, {number for _, number in pairs}
        assert len(pairs) == len(names) == len(numbers) == 2
        assert all(number.startswith(f"{IDENTITIES[column]} ") for number in numbers)


@pytest.mark.parametrize(
    ("mode", "model"), [(PEOPLE, "reader"), ("cogniscore", "reader"), ("ttm", "reader"), (GAME, "reader")]
)
def test_no_public_trace_holds_the_mark(command, mode, model):
    for options in ((), ("--json",)):
        code, out, said = command("trace", mode, model, "--public", *options)
        assert code == 0, said
        assert MARK not in out + said and "is not public" in out
    code, out, _ = command("trace", mode, model, "--json")
    assert code == 0 and MARK in out


def test_no_public_diff_holds_the_mark(command):
    runs = (f"reader-{SECRET}", f"writer-{SECRET}")
    for options in ((), ("--json",)):
        code, out, said = command("diff", *runs, "--public", *options)
        assert code == 1, said
        assert MARK not in out + said and "is not public" in out
    code, out, _ = command("diff", *runs, "--json")
    assert code == 1 and MARK in out


@pytest.mark.parametrize("form", FORMS)
def test_standard_output_is_the_file_and_its_hash_is_stated(command, tmp_path, form):
    written = exported_alone(command, tmp_path, "scores", form)
    code, out, _ = command("export", "scores", "--format", form, "-o", "-", "--allow-partial")
    assert code == 0 and out == written
    [stated] = [json.loads(path.read_text()) for path in tmp_path.glob("*.provenance.json")]
    assert stated["sha256"] == hashlib.sha256(written.encode()).hexdigest()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [f"scores.{form}", f"scores.{form}.provenance.json"]
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("scores", "--with", "se"), "--with does not belong to scores"),
        (("metrics", "--modes", "bart"), "--modes does not belong to metrics"),
        (("scores", "--json", "-o", "-"), "--json says where the file is"),
        (("scores", "--modes", "no_such_mode"), "no such mode with verdicts"),
    ],
)
def test_options_that_do_not_go_together_are_one_sentence(command, arguments, said):
    code, out, error = command("export", *arguments)
    assert (code, out) == (2, "") and said in error and error.count("\n") == 1
