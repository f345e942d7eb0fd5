"""Transcripts: does every mark become a question without its answer, and every flaw a count with a name?

The transcripts are written here, in the form of the published ones.
"""

import csv
import hashlib
import json
import unicodedata
from operator import itemgetter
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from handwritten import ingested

from ingest import psych_101, transcripts
from ingest.pipeline import IMPORTERS, ingest
from ingest.psych_101 import PsychImporter
from ingest.transcripts import load_rules
from store.errors import InvalidSource
from store.lake import committed_runs, conform, part_paths
from store.manifest import Source, load_sources
from store.prompts import load_template
from store.schemas import RAW_TABLES

ROOT = Path(__file__).parents[2]
TRAINING, TEST = "prompts_training.jsonl", "prompts_testing_t1.jsonl"
NINE = "extremely low, very low, low, somewhat low, normal, somewhat high, high, very high, extremely high"

# by task: experiment, instructions, and trials of text before and after the response
TASKS = {
    "shj": (
        "badham2017deficits/exp1.csv",
        "Find out whether a thing belongs to the E or K category.\n\nYou encounter a new problem:\n",
        [
            ("You see a big black square. You press ", "K", ". The correct category is K.\n"),
            ("You see a small white triangle. You press ", "E", ". The correct category is K.\n"),
            ("You encounter a new problem:\nYou see a big white square. You press ", "E",
             ". The correct category is E.\n"),
        ],
    ),
    "multiple_cue": (
        "collsiöö2023MCPL/exp2.csv",
        f"Caldionine can take nine values ({NINE}).\n\n",
        [
            ("Progladine: 2. Amalydine: 5. You say that the Caldionine concentration is ", "high",
             ". That is incorrect. The correct concentration of Caldionine is very high.\n"),
            ("Progladine: a lot. Amalydine: very little. You say that the Caldionine concentration is ",
             "low", ". That is correct. The correct concentration of Caldionine is indeed low.\n"),
            ("Progladine: 1. Amalydine: 1. You say that the Caldionine concentration is ", "normal", ". \n"),
        ],
    ),
    "multi_attribute": (
        "hilbig2014generalized/exp1.csv",
        "Choose the better product.\n",
        [
            ("Product A ratings: [1 0 1 0]. Product R ratings: [0 1 1 1]. You press ", "R", ".\n"),
            ("Product R ratings: [1 1 1 0]. Product A ratings: [0 1 0 1]. You press ", "A", ".\n"),
        ],
    ),
    "coherence": (
        "zhu2020bayesian/exp1.csv",
        "Give your estimates.\n",
        [
            ("What is the probability that it is icy on a random day? You estimate ", "40", "%.\n"),
            ("If it is icy, what is the probability that it is cold? You estimate ", "90.0", "%.\n"),
        ],
    ),
    "medin": (
        "levering2020revisiting/exp1.csv",
        "You sort images by pressing Z or W.\n",
        [
            ("You see image 211. You press ", "Z", ". That is incorrect. The correct category is W.\n"),
            ("You see image 121. You press ", "Z", ". That is correct.\n"),
            ("You see image 112. You press ", "W", ". That is wrong.\n"),
        ],
    ),
    "weather": (
        "speekenbrink2008learning/exp1.csv",
        "Predict rainy weather (by pressing E) or fine weather (by pressing J).\n",
        [
            ("You are seeing the following: card 1, card 4. You press ", "E",
             ". You are wrong, the weather is fine.\n"),
            ("You are seeing the following: card 2. You press ", "E",
             ". You are correct, the weather is indeed rainy.\n"),
        ],
    ),
    "recent_probes": (
        "enkavi2019recentprobes/exp1.csv",
        "If you think it was, you have to press L. If you think it was not, press N.\n",
        [
            ("You are shown the letters ['C', 'I', 'N']. You see the letter I. You press ", "L", ".\n"),
            ("You are shown the letters ['B', 'X', 'D']. You see the letter I. You press ", "L", ".\n"),
        ],
    ),
    "wcst": (
        "sorting2020/exp1.csv",
        "Sort cards below card 1, 2, 3 or 4.\n",
        [
            ("You see a card: green, star, two. You press ", "4", ". The correct card is 4.\n"),
            ("You see a card: red, cross, four. You press ", "3", ". The correct card is 4.\n"),
        ],
    ),
    "horizon": (
        "wilson2014humans/exp1.csv",
        "You play two slot machines, labeled J and R.\n\n",
        [
            ("Game 1. There are 5 trials in this game.\nYou are instructed to press J and get 40 points.\n"
             "You press ", "R", " and get 60 points.\n\n"),
            ("Game 2. There are 10 trials in this game.\nYou are instructed to press R and get 4 points.\n"
             "You press ", "J", " and get 70 points.\n"),
            ("You press ", "J", " and get -3.5 points.\n"),
        ],
    ),
    "hybrid": (
        "sampling2020/exp1.csv",
        "You play four slot machines, labeled A, B, C, and D.\n\n",
        [
            ("Game 1.\nYou press ", "A", " and get 60 points.\n"),
            ("You press ", "D", " and get 7 points.\n"),
        ],
    ),
    "self_assessment": (
        "jansen2021dunningkruger/exp1.csv",
        "",
        [
            ("You answer 20 questions. How many of the 20 questions will be right?\nYou say ", "15", ".\n"),
            ("Compared to other participants, how well will you do?\nYou say ", "60", "%.\n"),
            ("On a scale of 0 to 10, how difficult is it?\nYou say ", "4", ".\n\n"),
            ("Q1. Which is right?\nThe choices are:\nB: one\nA: two\nC: three\nE: four\nD: five\nYou press ",
             "C", ".\n\n"),
        ],
    ),
}  # fmt: skip

# by task: facts of each trial (without its number and experiment), credited options, targets
EXPECTED = {
    "shj": (
        [
            {"session": 0, "features": [1, 1, 1]},
            {"session": 0, "features": [0, 0, 0]},
            {"session": 1, "features": [1, 0, 1]},
        ],
        [["K"], ["K"], ["E"]],
        [None] * 3,
    ),
    # the scale in words counts from 1
    "multiple_cue": ([{"cues": [2, 5]}, {"cues": [4, 1]}, {"cues": [1, 1]}], [None] * 3, [8, 3, None]),
    "multi_attribute": (
        [{"options": [[1, 0, 1, 0], [0, 1, 1, 1]]}, {"options": [[1, 1, 1, 0], [0, 1, 0, 1]]}],
        [None] * 2,
        [None] * 2,
    ),
    "coherence": (
        [
            {"query": "What is the probability that it is icy on a random day?"},
            {"query": "If it is icy, what is the probability that it is cold?"},
        ],
        [None] * 2,
        [40, 90],
    ),
    "medin": (
        [{"features": [2, 1, 1]}, {"features": [1, 2, 1]}, {"features": [1, 1, 2]}],
        [["W"], ["Z"], ["Z"]],
        [None] * 3,
    ),
    "weather": ([{"features": [1, 0, 0, 1]}, {"features": [0, 1, 0, 0]}], [["J"], ["E"]], [None] * 2),
    "recent_probes": (
        [{"letters": ["C", "I", "N"], "probe": "I"}, {"letters": ["B", "X", "D"], "probe": "I"}],
        [["L"], ["N"]],
        [None] * 2,
    ),
    "wcst": ([{"matches": [2, 4, 2]}, {"matches": [1, 3, 4]}], [["4"], ["4"]], [None] * 2),
    "horizon": (
        [
            {"game": 0, "horizon": 1, "history": [[0, 40]]},
            {"game": 1, "horizon": 6, "history": [[1, 4]]},
            {"game": 1, "horizon": 6, "history": [[1, 4], [0, 70]]},
        ],
        [None] * 3,
        [None] * 3,
    ),
    "hybrid": ([{"game": 0, "history": []}, {"game": 0, "history": [[0, 60]]}], [None] * 2, [None] * 2),
    "self_assessment": (
        [
            {"question": "You answer 20 questions. How many of the 20 questions will be right?"},
            {"question": "Compared to other participants, how well will you do?"},
            {"question": "On a scale of 0 to 10, how difficult is it?"},
            {"question": "Q1. Which is right?", "answers": ["one", "two", "three", "four", "five"]},
        ],
        [None] * 4,
        [None] * 4,
    ),
}


# a trial whose feedback does not say what is right is not asked
OTHER_FEEDBACK = {
    "shj": ". The correct category is E.\n",
    "weather": ". You are wrong, the weather is rainy.\n",
    "wcst": ". The correct card is 1.\n",
}


def is_test(participant_id):
    """The rule of `split = "participants"`, once more."""
    return int(hashlib.md5(participant_id.encode()).hexdigest()[:8], 16) % 10 == 0


# someone who is asked: by a published split everybody of the test file, otherwise one in ten
PERSON = dict.fromkeys(TASKS, "7") | {
    name: next(person for person in map(str, range(1000)) if is_test(f"{task}/exp1/{person}"))
    for name, task in (("wcst", "sorting2020"), ("hybrid", "sampling2020"))
}


@pytest.fixture(scope="module")
def importer(tmp_path_factory):
    """The manifest of the project, with ids for the two tasks that are in no public list."""
    text = (ROOT / "manifests" / "psych_101.toml").read_text(encoding="utf-8")
    for name in ("wcst", "hybrid"):
        head, block, rest = text.partition(f"[tasks.{name}]\n")
        text = head + block + rest.replace("experiments = []", f'experiments = ["{TASKS[name][0]}"]', 1)
    path = tmp_path_factory.mktemp("rules") / "rules.toml"
    path.write_text(text, encoding="utf-8")
    return PsychImporter(path)


@pytest.fixture
def imported(importer, tmp_path):
    """Read lines, or bytes, and return the rows of each table and the run."""

    def read(*lines, name=TEST, reader=importer):
        content = lines[0] if isinstance(lines[0], bytes) else "\n".join(lines).encode()
        path = tmp_path / "content"
        path.write_bytes(content)
        source = source_of(name, content)
        tables = {"items": [], "human_responses": [], "runs": []}
        for raw in reader.stream(source, source.files[0], path):
            assert not tables["runs"]
            tables[raw.table] += conform(raw.table, raw.rows).to_pylist()
        [run] = tables["runs"]
        return tables, run

    return read


def source_of(path, content):
    return Source.model_validate(
        {
            "id": "psych_101",
            "kind": "generated",
            "repo": "handwritten",
            "revision": "1",
            "licence": "MIT",
            "description": "Files of a test.",
            "files": [{"path": path, "sha256": hashlib.sha256(content).hexdigest()}],
        }
    )


def transcript(name, trials=None):
    _, instructions, own = TASKS[name]
    return instructions + "".join(f"{lead}<<{response}>>{tail}" for lead, response, tail in trials or own)


def line(text, experiment, participant="7"):
    return json.dumps({"text": text, "experiment": experiment, "participant": participant})


def of_task(name, trials=None, participant=None):
    return line(transcript(name, trials), TASKS[name][0], participant or PERSON[name])


def rows_of(lake, table):
    paths = [str(path) for path in part_paths(lake, table)]
    return ds.dataset(paths, schema=RAW_TABLES[table]).to_table().to_pylist() if paths else []


@pytest.fixture
def prompts(imported):
    """Return the prompts of a task in the order of its marks."""

    def ask(name, trials=None):
        tables, _ = imported(of_task(name, trials))
        return [item["prompt"] for item in sorted(tables["items"], key=lambda item: item["item_id"])]

    return ask


# --- what a transcript becomes ---


@pytest.mark.parametrize("name", TASKS)
def test_a_mark_becomes_a_question_and_a_response(imported, name):
    experiment, _, trials = TASKS[name]
    tables, run = imported(of_task(name))
    assert run["notes"] == []
    assert (run["kind"], run["agent_kind"], run["source_id"]) == ("items", "human", "psych_101")
    assert (run["n_source_rows"], run["n_unreadable_rows"], run["model_id"]) == (1, 0, "prompts_testing_t1")
    assert run["importer_version"] == load_rules().version
    items = sorted(tables["items"], key=lambda item: item["item_id"])
    person = f"{experiment.removesuffix('.csv')}/{PERSON[name]}"
    assert [item["item_id"] for item in items] == [
        f"{run['run_id']}/{person}/{mark}" for mark in range(1, len(trials) + 1)
    ]
    mode = load_rules().tasks[name].mode
    for item in items:
        assert (item["mode_id"], item["source_id"], item["participant_id"]) == (mode, "psych_101", person)
        assert len(set(item["legal_options"])) == len(item["legal_options"]) >= 2
        assert item["weight"] == 1
    facts = [json.loads(item["facts_json"]) for item in items]
    expected, credited, targets = EXPECTED[name]
    assert facts == [{"trial": trial, "experiment": experiment} | fact for trial, fact in enumerate(expected)]
    assert [item["credited_options"] for item in items] == credited
    assert [item["target"] for item in items] == targets
    responses = {row["item_id"]: row for row in tables["human_responses"]}
    assert [responses[item["item_id"]]["response"] for item in items] == [
        response.removesuffix(".0") for _, response, _ in trials
    ]
    assert {row["split"] for row in tables["human_responses"]} == {item["split"] for item in items}


@pytest.mark.parametrize("name", sorted(set(TASKS) - {"wcst", "hybrid"}))
def test_only_people_of_the_test_file_are_asked(imported, name):
    tables, _ = imported(of_task(name), name=TRAINING)
    for item in tables["items"]:
        assert item["split"] == "train"
        assert item["prompt"] is item["template_id"] is item["template_sha256"] is None
    tables, _ = imported(of_task(name))
    template = load_template("psych_101")
    for item in tables["items"]:
        assert item["split"] == "test" and item["prompt"]
        assert (item["template_id"], item["template_sha256"]) == (template.id, template.sha256)


@pytest.mark.parametrize("name", ["wcst", "hybrid"])
def test_without_a_published_split_one_in_ten_is_asked(imported, name):
    people = [str(person) for person in range(200)]
    tables, _ = imported(*(of_task(name, None, person) for person in people), name=TRAINING)
    asked = {item["participant_id"] for item in tables["items"] if item["split"] == "test"}
    everyone = {item["participant_id"] for item in tables["items"]}
    assert asked == {person for person in everyone if is_test(person)} and 10 <= len(asked) <= 30
    assert all((item["prompt"] is None) == (item["split"] == "train") for item in tables["items"])


def test_every_support_of_the_self_assessment_is_listed(imported):
    tables, _ = imported(of_task("self_assessment"))
    items = sorted(tables["items"], key=lambda item: item["item_id"])
    assert [len(item["legal_options"]) for item in items] == [21, 101, 11, 5]
    assert items[0]["legal_options"] == [str(count) for count in range(21)]
    # the answers in their own order, whatever key each has
    assert items[3]["legal_options"] == ["B", "A", "C", "E", "D"]


def test_numbers_stand_beside_reports(imported):
    tables, _ = imported(of_task("coherence"), of_task("multiple_cue"))
    numbers = {row["item_id"].split("/", 1)[1]: row["response_number"] for row in tables["human_responses"]}
    assert numbers["zhu2020bayesian/exp1/7/2"] == 90 and numbers["collsiöö2023MCPL/exp2/7/1"] == 7
    supports = {(item["support_low"], item["support_high"]) for item in tables["items"]}
    assert supports == {(0, 100), (None, None)}


def test_a_scale_in_numbers_stands_for_itself(imported):
    text = (
        "Caldionine can take nine values (10, 20, 30, 40, 50, 60, 70, 80, 90).\nProgladine: 2. Amalydine: 5. "
    )
    text += "You say that the Caldionine concentration is <<40>>. That is incorrect. "
    text += "The correct concentration of Caldionine is 60.\n"
    tables, _ = imported(line(text, "collsiöö2023MCPL/exp1.csv"))
    [item], [response] = tables["items"], tables["human_responses"]
    assert (item["target"], response["response"], response["response_number"]) == (60, "40", 40)


# --- prompts ---


@pytest.mark.parametrize("name", TASKS)
def test_a_prompt_ends_before_its_answer(prompts, name):
    trials = TASKS[name][2]
    for prompt, (lead, _, _) in zip(prompts(name), trials, strict=True):
        assert prompt.endswith(lead.rstrip())
        assert "<<" not in prompt and ">>" not in prompt and not prompt[-1].isspace()


@pytest.mark.parametrize("name", TASKS)
def test_a_prompt_shows_neither_its_answer_nor_what_came_later(prompts, name):
    trials = TASKS[name][2]
    before = prompts(name)
    options = {
        "shj": "EK", "multi_attribute": "AR", "medin": "ZW", "weather": "EJ", "recent_probes": "LN",
        "horizon": "JR", "multiple_cue": ["normal", "low"], "coherence": ["3", "4"],
        "self_assessment": ["1", "2"], "wcst": "12", "hybrid": "BC",
    }[name]  # fmt: skip
    for place in range(len(trials)):
        # another response, another feedback, and other trials from there on
        lead, response, tail = trials[place]
        other = next(option for option in options if option != response)
        feedback = tail.replace("correct", "correct, and later,").replace("points", "points and more")
        feedback = OTHER_FEEDBACK.get(name, feedback)
        # what makes a trial one of the task has to stay
        changed = [*trials[:place], (lead, other, feedback if name != "medin" else tail)]
        later = prompts(name, changed)
        assert later == before[: place + 1], place


@pytest.mark.parametrize("name", TASKS)
def test_a_prompt_shows_what_the_person_saw_and_did_before(prompts, name):
    _, instructions, trials = TASKS[name]
    found = prompts(name)
    for place, prompt in enumerate(found):
        assert instructions in prompt
        shown = trials[:place]
        if name == "horizon":
            # games have nothing to do with each other: the last begins at the second trial
            shown = trials[1:place] if place else []
        for lead, response, tail in shown:
            assert f"{lead}{response}{tail}".strip() in prompt
    if name == "horizon":
        assert "Game 1." not in found[2]


@pytest.mark.parametrize("name", TASKS)
def test_facts_depend_on_nothing_that_came_later(imported, name):
    trials = TASKS[name][2]
    whole, _ = imported(of_task(name))
    cut, _ = imported(of_task(name, trials[:-1]))
    facts = {item["item_id"].split("/", 1)[1]: item["facts_json"] for item in whole["items"]}
    assert all(facts[item["item_id"].split("/", 1)[1]] == item["facts_json"] for item in cut["items"])


def test_the_options_stand_in_the_prompt(prompts):
    assert "is written: E, K\n\n" in prompts("shj")[0]
    assert f"is written: {', '.join(map(str, range(101)))}\n\n" in prompts("coherence")[0]


# --- other kinds of marks ---


def test_marks_of_another_kind_are_counted_and_not_asked(imported):
    trials = [
        *TASKS["medin"][2],
        ("You see image 111. You press ", "Z", ". You rate the typicality as "),
        ("", "7", ".\n"),
    ]
    tables, run = imported(of_task("medin", trials))
    assert len(tables["items"]) == len(TASKS["medin"][2])
    assert run["notes"] == [
        "2 responses: levering2020revisiting/exp1.csv: of another kind than the task asks for; left out"
    ]


def test_experiments_of_no_task_are_counted_by_their_id(imported):
    tables, run = imported(of_task("shj"), line("x <<1>>", "b/exp1.csv"), line("x <<1>>", "a/exp1.csv"),
        line("without marks", "b/exp1.csv"),
    )  # fmt: skip
    assert tables["runs"][0]["n_unreadable_rows"] == 0
    assert run["notes"] == [
        "3 transcripts of 2 experiments that no task names: a/exp1.csv (1), b/exp1.csv (2)"
    ]


# --- bad input ---


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("{not json", "not a JSON object"),
        ('["text"]', "not a JSON object"),
        ("null", "not a JSON object"),
        (b"\xff\xfe".decode("latin-1"), "not a JSON object"),
        ('{"experiment": "e", "participant": "1"}', "the key text is missing or empty"),
        ('{"text": "", "experiment": "e", "participant": "1"}', "the key text is missing or empty"),
        ('{"text": "x", "participant": "1"}', "the key experiment is missing or empty"),
        ('{"text": "x", "experiment": " ", "participant": "1"}', "the key experiment is missing or empty"),
        ('{"text": "x", "experiment": "e"}', "the key participant is missing or empty"),
        ('{"text": "x", "experiment": "e", "participant": null}', "the key participant is missing or empty"),
        ('{"text": ["x"], "experiment": "e", "participant": "1"}', "the key text is not a text"),
        ('{"text": 1.5, "experiment": "e", "participant": "1"}', "the key text is not a text"),
        ('{"text": NaN, "experiment": "e", "participant": "1"}', "the key text is not a text"),
        ('{"text": null, "experiment": "e", "participant": "1"}', "the key text is missing or empty"),
        ('{"text": "x", "experiment": 1, "participant": "1"}', "the key experiment is not a text"),
        ('{"text": "x", "experiment": {"a": 1}, "participant": "1"}', "the key experiment is not a text"),
        *(
            (
                f'{{"text": "x", "experiment": "e", "participant": {participant}}}',
                "the key participant is neither a text nor a whole number",
            )
            for participant in ("1.5", "true", '["1"]')
        ),
    ],
)
def test_a_broken_line_is_counted_and_does_not_lose_the_others(imported, bad, said):
    tables, run = imported(of_task("shj"), bad, of_task("shj", None, "8"))
    assert {item["participant_id"][-1] for item in tables["items"]} == {"7", "8"}
    assert run["notes"] == [f"1 transcripts: {said}; left out"]
    assert (run["n_source_rows"], run["n_unreadable_rows"]) == (3, 1)


def test_a_line_that_is_not_utf_8_is_counted(imported):
    content = b"\n".join([of_task("shj").encode(), b'{"text": "\xff"}', of_task("weather").encode()])
    tables, run = imported(content)
    assert {item["mode_id"] for item in tables["items"]} == {"shj_categories", "weather_prediction"}
    assert run["notes"] == ["1 transcripts: not UTF-8 text; left out"]


@pytest.mark.parametrize(
    "text",
    [
        "E or K. You press <<K. The correct",
        "E or K. You press K>>. The correct",
        "E or K. You press <<K<<E>>>>. The",
        "E or K. You press <<K>>. Then <<E. Then <<K>>",
        "<<K>>>> and more",
        ">> <<K>>",
    ],
)
def test_a_transcript_whose_marks_are_not_in_pairs_is_left_out(imported, text):
    tables, run = imported(line(text, "badham2017deficits/exp1.csv"), of_task("shj", None, "8"))
    assert {item["participant_id"] for item in tables["items"]} == {"badham2017deficits/exp1/8"}
    assert run["notes"] == [
        "1 transcripts: badham2017deficits/exp1.csv: its marks are not in pairs; left out"
    ]


def test_a_transcript_without_a_mark_is_counted(imported):
    tables, run = imported(line("Nothing was pressed.", "badham2017deficits/exp1.csv"))
    assert tables["items"] == []
    assert run["notes"] == ["1 transcripts: badham2017deficits/exp1.csv: it has no mark; left out"]


def test_a_whole_number_names_a_participant_as_a_text_does(imported):
    record = json.loads(of_task("shj"))
    tables, _ = imported(*(json.dumps(record | {"participant": number}) for number in (12, -3)))
    named = {item["participant_id"] for item in tables["items"]}
    assert named == {"badham2017deficits/exp1/12", "badham2017deficits/exp1/-3"}


def test_a_mark_at_the_very_start_names_no_options(imported):
    text = "<<K>>. E or K category.\nYou see a big black square. You press <<E>>."
    tables, run = imported(line(text, "badham2017deficits/exp1.csv"))
    assert tables["items"] == []
    assert sorted(run["notes"]) == [
        "1 responses: badham2017deficits/exp1.csv: of another kind than the task asks for; left out",
        "1 responses: badham2017deficits/exp1.csv: the options are not named; left out",
        "1 transcripts: badham2017deficits/exp1.csv: in no mark can a response be used",
    ]


@pytest.mark.parametrize(
    ("response", "said"), [("", "empty"), ("  ", "empty"), ("X", "none of the options"), ("k", "none of")]
)
def test_a_response_that_cannot_be_leaves_its_question(imported, response, said):
    trials = [(lead, response if place == 1 else own, tail)
              for place, (lead, own, tail) in enumerate(TASKS["shj"][2])]  # fmt: skip
    tables, run = imported(of_task("shj", trials))
    assert len(tables["items"]) == 3
    assert [row["item_id"][-1] for row in tables["human_responses"]] == ["1", "3"]
    [note] = run["notes"]
    assert note.startswith(f"1 responses: badham2017deficits/exp1.csv: {said}")
    assert run["n_unreadable_rows"] == 1


@pytest.mark.parametrize("report", ["101", "150", "-1", "40.5", "forty", "inf", "nan", "1e400", "", " "])
def test_a_report_that_cannot_be_is_nothing_to_match(imported, report):
    trials = [(TASKS["coherence"][2][0][0], report, "%.\n"), TASKS["coherence"][2][1]]
    tables, run = imported(of_task("coherence", trials))
    [item] = tables["items"]
    assert (item["item_id"][-1], item["target"]) == ("2", 90)
    assert json.loads(item["facts_json"])["trial"] == 1 and f"You estimate {report}%." in item["prompt"]
    assert [row["response"] for row in tables["human_responses"]] == ["90"]
    what = "none of the options" if report.strip() else "empty"
    assert run["notes"] == [f"1 responses: zhu2020bayesian/exp1.csv: {what}; left out"]
    assert run["n_unreadable_rows"] == 1


def test_a_report_outside_a_support_that_is_narrower_than_the_options_is_left_out(tmp_path, imported):
    rules = tmp_path / "narrow.toml"
    text = (ROOT / "manifests" / "psych_101.toml").read_text(encoding="utf-8")
    rules.write_text(text.replace("support = [0, 100]", "support = [0, 50]"), encoding="utf-8")
    tables, run = imported(of_task("coherence"), reader=PsychImporter(rules))
    assert [item["target"] for item in tables["items"]] == [40]
    assert run["notes"] == ["1 responses: zhu2020bayesian/exp1.csv: outside its support; left out"]


@pytest.mark.parametrize("split_file", [TEST, TRAINING])
@pytest.mark.parametrize(
    ("name", "tail"),
    [
        ("shj", ".\n"),
        ("shj", ". The correct category is Z.\n"),
        ("weather", ". \n"),
        ("weather", ". You are wrong, the weather is cloudy.\n"),
        ("medin", ". Nothing here is wrong.\n"),
    ],
)
def test_a_mark_without_what_is_right_is_not_asked_and_stays_in_the_history(imported, name, tail, split_file):
    experiment, _, trials = TASKS[name]
    (lead, response, _), *others = trials
    tables, run = imported(of_task(name, [(lead, response, tail), *others]), name=split_file)
    items = sorted(tables["items"], key=lambda item: item["item_id"])
    assert [item["item_id"][-1] for item in items] == [str(mark + 2) for mark in range(len(others))]
    assert [item["credited_options"] for item in items] == EXPECTED[name][1][1:]
    assert [json.loads(item["facts_json"])["trial"] for item in items] == [
        mark + 1 for mark in range(len(others))
    ]
    assert {row["item_id"] for row in tables["human_responses"]} == {item["item_id"] for item in items}
    if split_file == TEST:
        assert f"{lead}{response}{tail}".rstrip() in items[0]["prompt"]
    assert run["notes"] == [f"1 responses: {experiment}: nothing says which option is right; left out"]
    assert run["n_unreadable_rows"] == 1


def test_a_probe_whose_set_is_not_shown_is_not_asked(imported):
    trials = [("You see the letter Q. You press ", "N", ".\n"), *TASKS["recent_probes"][2]]
    tables, run = imported(of_task("recent_probes", trials))
    assert len(tables["items"]) == 2
    assert run["notes"] == [
        "1 responses: enkavi2019recentprobes/exp1.csv: nothing says which option is right; left out"
    ]


@pytest.mark.parametrize("feedback", ["inf", "nan", "1e999"])
def test_what_was_right_is_a_finite_number_or_none(imported, feedback):
    (lead, response, _), *_ = TASKS["multiple_cue"][2]
    tail = f". That is incorrect. The correct concentration of Caldionine is {feedback}.\n"
    tables, _ = imported(of_task("multiple_cue", [(lead, response, tail)]))
    assert [item["target"] for item in tables["items"]] == [None]


def test_a_session_without_a_response_is_named(imported):
    trials = [(lead, "X", tail) for lead, _, tail in TASKS["shj"][2]]
    of_another_kind = line("You sort images by pressing Z or W. You rate <<4>>.", TASKS["medin"][0])
    tables, run = imported(of_task("shj", trials), of_task("shj", None, "8"), of_another_kind)
    assert len(tables["human_responses"]) == 3
    assert sorted(note for note in run["notes"] if "transcripts" in note) == [
        "1 transcripts: badham2017deficits/exp1.csv: in no mark can a response be used",
        "1 transcripts: levering2020revisiting/exp1.csv: in no mark can a response be used",
    ]
    # three keys that are none; to rate is another task and no fault
    assert (run["n_source_rows"], run["n_unreadable_rows"]) == (3, 3)


def test_a_fact_that_is_not_found_is_counted_and_null(imported):
    trials = [("You see nothing at all. You press ", "K", ". The correct category is K.\n")]
    tables, run = imported(of_task("shj", trials))
    [item] = tables["items"]
    assert json.loads(item["facts_json"])["features"] is None
    assert run["notes"] == [
        "1 responses: badham2017deficits/exp1.csv: a fact is not found in the text; kept without it"
    ]


def test_a_participant_counts_once_in_an_experiment(imported):
    other = TASKS["weather"][2][:1]
    tables, run = imported(
        of_task("weather"), of_task("shj"), of_task("weather", other), of_task("weather", None, "8")
    )
    assert run["notes"] == [
        "1 transcripts: speekenbrink2008learning/exp1.csv: its participant is there already; left out"
    ]
    weather = [item for item in tables["items"] if item["mode_id"] == "weather_prediction"]
    assert len(weather) == 2 * 2


def test_a_participant_counts_once_even_if_far_apart(imported, monkeypatch):
    monkeypatch.setattr(transcripts, "_BLOCK_BYTES", 1000)
    tables, run = imported(*(of_task("shj") for _ in range(20)))
    assert len(tables["items"]) == 3
    assert "19 transcripts: badham2017deficits/exp1.csv: its participant" in run["notes"][0]


def test_a_damaged_transcript_does_not_keep_out_the_same_participant(imported):
    damaged = line("E or K category. You press <<K", "badham2017deficits/exp1.csv")
    tables, _ = imported(damaged, of_task("shj"))
    assert len(tables["items"]) == 3


def test_nfd_and_crlf_are_brought_into_one_form(imported):
    record = json.loads(of_task("self_assessment"))
    record["text"] = record["text"].replace("one", "ö").replace("\n", "\r\n")
    record = {key: unicodedata.normalize("NFD", value) for key, value in record.items()}
    cue = json.loads(of_task("multiple_cue"))
    cue["experiment"] = unicodedata.normalize("NFD", cue["experiment"])
    tables, run = imported(json.dumps(record), json.dumps(cue, ensure_ascii=False))
    assert run["notes"] == [
        "1 transcripts: jansen2021dunningkruger/exp1.csv: brought to NFC and plain line ends"
    ]
    assert len(tables["human_responses"]) == 4 + 3
    answers = [json.loads(item["facts_json"]).get("answers") for item in tables["items"]]
    assert ["ö", "two", "three", "four", "five"] in answers
    assert "\r" not in "".join(item["prompt"] for item in tables["items"])
    assert any(item["participant_id"] == "collsiöö2023MCPL/exp2/7" for item in tables["items"])


def test_a_byte_order_mark_crlf_and_empty_lines_change_nothing(imported):
    lines = [of_task("shj"), of_task("weather")]
    plain, _ = imported(*lines)
    content = b"\xef\xbb\xbf" + "\r\n\r\n \r\n".join(lines).encode() + b"\r\n"
    other, run = imported(content)
    assert run["notes"] == [] and run["n_source_rows"] == 2
    strip = [
        [item | {"item_id": item["item_id"].split("/", 1)[1]} for item in tables["items"]]
        for tables in (plain, other)
    ]
    assert strip[0] == strip[1]


def test_an_empty_file_holds_no_transcripts(imported):
    tables, run = imported(b"")
    assert tables["items"] == [] and tables["runs"][0]["notes"] == ["the file holds no transcripts"]
    assert run["n_source_rows"] == 0


def test_a_file_of_another_kind_is_refused(tmp_path):
    lake, report = ingested(tmp_path, "psych_101", TEST, b"PAR1\x00\xff\n\xfe\n{}")
    [failure] = report.failures
    assert isinstance(failure, InvalidSource) and "expected a JSON object with text" in str(failure)
    assert rows_of(lake, "runs") == []


def test_other_files_of_the_repository_hold_no_rows(tmp_path):
    _, report = ingested(tmp_path, "psych_101", "README.md", "# Psych-101")
    assert report.n_new_files == 0
    assert report.notes == ("1 of 1 files hold no rows for the store",)


@pytest.mark.parametrize("n_bytes", [10 * 2**20, 10 * 2**20 - 1])
def test_a_transcript_of_10_mib_is_counted_and_the_next_one_read(imported, n_bytes):
    trial = "You see a big black square. You press <<K>>. The correct category is K.\n"
    long = "E or K category\n" + trial * (n_bytes // len(trial))
    longest = line(long, "badham2017deficits/exp1.csv", "9")
    tables, run = imported(of_task("shj"), longest, of_task("shj", None, "8"), name=TRAINING)
    assert run["notes"] == ["1 transcripts: longer than 2 MiB; left out"]
    assert {item["participant_id"][-1] for item in tables["items"]} == {"7", "8"}
    assert run["n_source_rows"] == 3


def test_an_unfinished_line_of_10_mib_ends_the_file(imported):
    content = of_task("shj").encode() + b"\n" + b"x" * (10 * 2**20)
    tables, run = imported(content)
    assert len(tables["items"]) == 3 and run["notes"] == ["1 transcripts: longer than 2 MiB; left out"]


def test_a_prompt_that_no_window_holds_is_left_out(imported, monkeypatch):
    monkeypatch.setattr(psych_101, "LONGEST_PROMPT", len(transcript("shj", TASKS["shj"][2][:2])))
    tables, run = imported(of_task("shj"))
    assert [item["item_id"][-1] for item in tables["items"]] == ["1", "2"]
    assert "1 responses: badham2017deficits/exp1.csv: after more than" in run["notes"][0]
    # nobody is asked with a training prompt
    tables, run = imported(of_task("shj"), name=TRAINING)
    assert len(tables["items"]) == 3 and run["notes"] == []


# --- part by part ---


def test_many_parts_are_the_rows_of_one(imported, monkeypatch):
    lines = [of_task(name, None, str(person)) for person in range(4) for name in TASKS]
    whole, _ = imported(*lines)
    monkeypatch.setattr(transcripts, "_BLOCK_BYTES", 2000)
    monkeypatch.setattr(psych_101, "_PART_BYTES", 4000)
    monkeypatch.setattr(psych_101, "_CHARACTERS_AT_ONCE", 1500)
    parted, _ = imported(*lines)
    for table in ("items", "human_responses"):
        assert sorted(parted[table], key=itemgetter("item_id")) == sorted(
            whole[table], key=itemgetter("item_id")
        )


def test_the_last_part_commits_the_others_and_a_file_is_read_once(tmp_path, monkeypatch):
    monkeypatch.setattr(psych_101, "_PART_BYTES", 4000)
    content = "\n".join(of_task("shj", None, str(person)) for person in range(50)).encode()
    runs = []
    for folder in ("first", "second"):
        lake, report = ingested(tmp_path / folder, "psych_101", TEST, content)
        runs += rows_of(lake, "runs")
        assert (report.n_new_files, report.n_source_rows) == (1, 50)
        assert report.n_new_rows == 50 * (3 + 3) + 1
        items = {path.stem.removeprefix("part-") for path in part_paths(lake, "items")}
        responses = {path.stem.removeprefix("part-") for path in part_paths(lake, "human_responses")}
        assert set(runs[-1]["parts"]) == items | responses and len(items) > 1
    # the same bytes are the same parts
    assert runs[0] == runs[1]
    source = source_of(TEST, content)
    [report] = ingest(lake, [source], mirror=str(tmp_path / "second" / "mirror"))
    assert (report.n_new_files, report.n_present_files, report.n_new_rows) == (0, 1, 0)


def test_a_file_that_breaks_off_is_not_committed(tmp_path, importer, monkeypatch):
    class Interrupted(PsychImporter):
        def stream(self, source, file, path):
            yield next(importer.stream(source, file, path))
            raise InvalidSource("the disk went away")

    monkeypatch.setitem(IMPORTERS, "psych_101", Interrupted())
    content = of_task("shj").encode()
    lake, report = ingested(tmp_path, "psych_101", TEST, content)
    assert len(report.failures) == 1 and len(part_paths(lake, "items")) == 1
    assert committed_runs(lake) == frozenset()
    monkeypatch.setitem(IMPORTERS, "psych_101", importer)
    [report] = ingest(lake, [source_of(TEST, content)], mirror=str(tmp_path / "mirror"))
    assert report.failures == () and len(committed_runs(lake)) == 1 and len(part_paths(lake, "items")) == 1


# --- the manifest ---


def test_the_rules_name_modes_that_exist():
    with (ROOT / "manifests" / "s1cogbench_modes.csv").open(encoding="utf-8") as file:
        modes = {row["mode_id"] for row in csv.DictReader(file)}
    rules = load_rules()
    assert {task.mode for task in rules.tasks.values()} <= modes
    assert len(rules.tasks) == 11 and set(rules.tasks) == set(TASKS)


def test_both_repositories_are_read_by_this_importer():
    assert isinstance(IMPORTERS["psych_101_test"], PsychImporter)
    pin = load_sources()["psych_101"]
    assert PsychImporter().identify(pin, pin.files[0]) == "psych_101-prompts_training-7a370a94084a-v2"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("version = 2", "version = 0", "version"),
        ("lead = 'You press $'", "lead = '('", "is not a pattern"),
        ("integers = [0, 100]", "integers = [0, 100], list = ['a']", "expected one of list"),
        ("block = 'Game \\d+\\.'\n", "", "expected a pattern that begins a block"),
        ('["hilbig2014generalized/exp1.csv"]', '["zhu2020bayesian/exp1.csv"]', "more than one task"),
        ("[tasks.shj]", "[tasks.shj]\ncolour = 1", "tasks.shj.colour"),
        ("target = { is_response = true }", "target = {}", "expected find or is_response"),
        ("\n[files]\n", "\n[files\n", "cannot be read"),
    ],
)
def test_a_rule_that_cannot_be_is_named(tmp_path, old, new, said):
    text = (ROOT / "manifests" / "psych_101.toml").read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "broken.toml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InvalidSource, match=r"broken\.toml") as caught:
        load_rules(path)
    assert said in str(caught.value)
