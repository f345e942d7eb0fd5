"""Logs of other harnesses: is every sample kept, once, with the question that it answers?"""

import io
import json
import math
import struct
import zipfile
import zlib

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from support import coglake, raw_hashes

from ingest.eval_logs import Asked, import_log
from store.errors import InvalidSource, WrongUsage
from store.lake import append, commit, part_paths
from store.schemas import ITEMS, RAW_TABLES, RUNS
from store.settings import Home

MODE, SOURCE = "weather_prediction_hmmr", "hmmr"
OPTIONS = ["Fine", "Rainy"]
TIME = "2026-11-30T07-14-15.257194"
ZSTANDARD = 93


def prompt(number):
    return f"On the table: card {number}. You predict:"


def item(number, **changes):
    return {
        "item_id": f"test/{number}",
        "mode_id": MODE,
        "source_id": SOURCE,
        "prompt": prompt(number),
        "legal_options": OPTIONS,
        "credited_options": ["Fine"],
        "weight": 1.0,
    } | changes


@pytest.fixture
def lake(tmp_path):
    return Home(tmp_path / "lake")


def asked(lake, items):
    part = append(lake, "items", pa.Table.from_pylist(items, ITEMS), "questions")
    return Asked(MODE, SOURCE, [part.path])


def rows(lake, table, **values):
    paths = [str(path) for path in part_paths(lake, table)]
    found = ds.dataset(paths, schema=RAW_TABLES[table]).to_table().to_pylist() if paths else []
    return [row for row in found if all(row[name] == value for name, value in values.items())]


# --- lm-eval ---


def sample(number, nats, **changes):
    """One line as lm-eval 0.4.13 writes it for a task with options."""
    pairs = [[str(value), "False"] for value in nats]
    return {
        "doc_id": number,
        "doc": {"item_id": f"test/{number}", "prompt": prompt(number), "options": OPTIONS, "target": 0},
        "target": "0",
        "arguments": {
            f"gen_args_{place}": {"arg_0": prompt(number), "arg_1": f" {option}"}
            for place, option in enumerate(OPTIONS)
        },
        "resps": [[pair] for pair in pairs],
        "filtered_resps": pairs,
        "filter": "none",
        "metrics": ["acc"],
        "doc_hash": "d" * 64,
        "prompt_hash": "p" * 64,
        "target_hash": "t" * 64,
        "acc": 1.0,
    } | changes


def written(number, text, **changes):
    """One line of a task whose answers are written."""
    settings = {"until": ["\n"], "max_gen_toks": 64}
    answer = {
        "arguments": {"gen_args_0": {"arg_0": prompt(number), "arg_1": settings}},
        "resps": [[text]],
        "filtered_resps": [text],
    }
    return sample(number, (), **(answer | changes))


RESULTS = {
    "config": {
        "model": "hf",
        "model_args": {"pretrained": "owner/model", "dtype": "float32"},
        "model_dtype": "torch.float32",
        "model_revision": "main",
        "model_sha": "a" * 40,
        "limit": None,
    },
    "versions": {"weather": 1},
    "n-shot": {"weather": 0},
    "date": 1796022842.5,
    "lm_eval_version": "0.4.13",
    "max_length": 8192,
    "chat_template_sha": None,
}


def samples_file(folder, lines, results=RESULTS, name=f"samples_weather_{TIME}.jsonl"):
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    if results is not None:
        (folder / f"results_{TIME}.json").write_text(json.dumps(results))
    return path


def test_options_become_rows_with_their_log_probabilities(lake, tmp_path):
    questions = asked(lake, [item(0), item(1, participant_id="P7")])
    path = samples_file(tmp_path / "log", [sample(0, (-1.25, -0.5)), sample(1, (-3, "-4.5"))])
    [report] = import_log(lake, "lm-eval", path, questions)
    assert (report.n_source_rows, report.n_answered, report.n_questions, report.n_unreadable_rows) == (
        2,
        2,
        2,
        0,
    )
    found = [
        (row["item_id"], row["episode_id"], row["option_index"], row["option"], row["logprob_nats"])
        for row in rows(lake, "output_options")
    ]
    assert found == [
        ("test/0", "test/0", 0, "Fine", -1.25),
        ("test/0", "test/0", 1, "Rainy", -0.5),
        # answers of one participant depend on each other
        ("test/1", "P7", 0, "Fine", -3.0),
        ("test/1", "P7", 1, "Rainy", -4.5),
    ]
    outputs = rows(lake, "outputs")
    assert {row["status"] for row in outputs} == {"ok"} and {row["participant_id"] for row in outputs} == {
        None
    }
    # what is not in the log is not made up
    lacking = ("n_prompt_tokens", "n_response_tokens", "response_text")
    assert {row[name] for row in outputs for name in lacking} == {None}
    assert {row["text"] for row in rows(lake, "prompts")} == {prompt(0), prompt(1)}


def test_the_run_states_what_the_results_file_says(lake, tmp_path):
    path = samples_file(tmp_path / "log", [sample(0, (-1, -2))])
    import_log(lake, "lm-eval", path, asked(lake, [item(0)]))
    [run] = rows(lake, "runs")
    stated = {
        "kind": "archived",
        "model_id": "owner/model",
        "model_revision": "a" * 40,
        "agent_kind": "language_model",
        "protocol": "plain",
        "engine": "lm-eval hf",
        "engine_version": "0.4.13",
        "dtype": "float32",
        "context_effective_tokens": 8192,
        "source_id": SOURCE,
        "repeat": 0,
    }
    assert {name: run[name] for name in stated} == stated
    assert run["started_at"].timestamp() == RESULTS["date"]
    assert json.loads(run["environment_json"])["model_args"]["pretrained"] == "owner/model"
    assert any("no token counts" in note for note in run["notes"])


@pytest.mark.parametrize(
    ("change", "protocol"),
    [
        ({"chat_template_sha": "c" * 64}, "chat"),
        ({"n-shot": {"weather": 5}}, "plain, 5 shots"),
        ({"chat_template_sha": "c" * 64, "system_instruction": "Be brief."}, "chat, system prompt"),
    ],
)
def test_the_protocol_is_read_from_the_results_file(lake, tmp_path, change, protocol):
    path = samples_file(tmp_path / "log", [sample(0, (-1, -2))], RESULTS | change)
    import_log(lake, "lm-eval", path, asked(lake, [item(0)]))
    assert [run["protocol"] for run in rows(lake, "runs")] == [protocol]


def test_a_model_in_a_folder_goes_by_the_name_of_the_folder(lake, tmp_path):
    config = RESULTS["config"] | {
        "model_args": "pretrained=/somewhere/models/small,dtype=float32",
        "model_sha": "",
    }
    path = samples_file(tmp_path / "log", [sample(0, (-1, -2))], RESULTS | {"config": config})
    [report] = import_log(lake, "lm-eval", path, asked(lake, [item(0)]))
    [run] = rows(lake, "runs")
    assert (run["model_id"], run["model_revision"]) == ("small", None)
    assert any("/somewhere/models/small" in note for note in report.notes)
    assert "No immutable revision of the model is known." in report.notes


@pytest.mark.parametrize(
    "model_args",
    [
        {"pretrained": "owner/model", "token": "hf_secret", "api_key": "secret", "tokenizer": "a"},
        "pretrained=owner/model,token=hf_secret,api_key=secret,tokenizer=a",
    ],
)
def test_keys_in_a_log_stay_out_of_the_lake(lake, tmp_path, model_args):
    config = RESULTS["config"] | {"model_args": model_args}
    path = samples_file(tmp_path / "log", [sample(0, (-1, -2))], RESULTS | {"config": config})
    import_log(lake, "lm-eval", path, asked(lake, [item(0)]))
    [run] = rows(lake, "runs")
    assert json.loads(run["environment_json"])["model_args"] == {
        "pretrained": "owner/model",
        "tokenizer": "a",
    }
    assert not any("secret" in str(value) for value in run.values())


def test_without_a_results_file_the_model_must_be_named(lake, tmp_path):
    questions = asked(lake, [item(0)])
    path = samples_file(tmp_path / "log", [sample(0, (-1, -2))], results=None)
    with pytest.raises(WrongUsage, match="name it with --model"):
        import_log(lake, "lm-eval", path, questions)
    import_log(lake, "lm-eval", path, questions, model_id="owner/model", model_revision="b" * 40)
    [run] = rows(lake, "runs")
    assert (run["model_id"], run["model_revision"], run["engine_version"]) == ("owner/model", "b" * 40, None)


def test_the_same_file_twice_adds_nothing_the_second_time(lake, tmp_path):
    questions = asked(lake, [item(0)])
    path = samples_file(tmp_path / "log", [sample(0, (-1, -2))])
    assert len(import_log(lake, "lm-eval", path, questions)) == 1
    before = raw_hashes(lake)
    # also under another name
    again = samples_file(tmp_path / "copy", [sample(0, (-1, -2))])
    assert import_log(lake, "lm-eval", again, questions) == []
    assert raw_hashes(lake) == before


def test_two_filters_are_one_answer_and_two_verdicts(lake, tmp_path):
    lines = [
        written(
            0, "I say Fine.", filter=name, filtered_resps=[text], exact_match=mark, metrics=["exact_match"]
        )
        for name, text, mark in (("strict", "[invalid]", 0.0), ("flexible", "Fine", 1.0))
    ]
    path = samples_file(tmp_path / "log", lines)
    [report] = import_log(lake, "lm-eval", path, asked(lake, [item(0)]))
    [output] = rows(lake, "outputs")
    assert output["response_text"] == "I say Fine."
    assert {(row["grader_id"], row["verdict"]) for row in rows(lake, "verdicts")} == {
        ("lm-eval exact_match (strict)", 0.0),
        ("lm-eval exact_match (flexible)", 1.0),
    }
    assert report.n_source_rows == 1 and any("once per filter (flexible, strict)" in n for n in report.notes)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "-Infinity", "none"])
def test_what_is_no_finite_number_is_missing_and_never_an_average(lake, tmp_path, value):
    path = samples_file(tmp_path / "log", [sample(0, (-1, value))])
    [report] = import_log(lake, "lm-eval", path, asked(lake, [item(0)]))
    fine, rainy = rows(lake, "output_options")
    assert (fine["logprob_nats"], fine["status"]) == (-1.0, "ok")
    assert (rainy["logprob_nats"], rainy["status"]) == (None, "missing_option") and value in rainy[
        "status_reason"
    ]
    [output] = rows(lake, "outputs")
    assert output["status"] == "missing_option" and output["status_reason"].endswith("Rainy")
    assert report.n_unreadable_rows == 1


def test_a_pair_may_be_one_text(lake, tmp_path):
    lines = [sample(0, (), resps=[["(-1.5, False)"], ["(-0.25, True)"]])]
    import_log(lake, "lm-eval", samples_file(tmp_path / "log", lines), asked(lake, [item(0)]))
    assert [row["logprob_nats"] for row in rows(lake, "output_options")] == [-1.5, -0.25]


def test_options_behind_an_empty_prompt_are_not_the_options_of_the_question(lake, tmp_path):
    # as lm-eval asks for mutual information
    calls = sample(0, ())["arguments"] | {
        f"gen_args_{place}": {"arg_0": "", "arg_1": f" {option}"}
        for place, option in enumerate(OPTIONS, start=2)
    }
    lines = [sample(0, (-1, -2, -7, -8), arguments=calls)]
    import_log(lake, "lm-eval", samples_file(tmp_path / "log", lines), asked(lake, [item(0)]))
    assert [row["logprob_nats"] for row in rows(lake, "output_options")] == [-1.0, -2.0]


def test_an_option_that_ended_in_a_line_break_has_it_as_terminator(lake, tmp_path):
    options = ["1", "10"]
    calls = {
        f"gen_args_{place}": {"arg_0": prompt(0), "arg_1": f" {option}\n"}
        for place, option in enumerate(options)
    }
    lines = [sample(0, (-1, -2), arguments=calls)]
    import_log(
        lake, "lm-eval", samples_file(tmp_path / "log", lines), asked(lake, [item(0, legal_options=options)])
    )
    found = [(row["option"], row["terminator"], row["n_bytes"]) for row in rows(lake, "output_options")]
    assert found == [("1", "\n", 1), ("10", "\n", 2)]


def test_an_option_that_the_log_lacks_is_missing(lake, tmp_path):
    path = samples_file(tmp_path / "log", [sample(0, (-1, -2))])
    import_log(lake, "lm-eval", path, asked(lake, [item(0, legal_options=[*OPTIONS, "Windy"])]))
    [output] = rows(lake, "outputs")
    assert output["status"] == "missing_option" and output["status_reason"].endswith("of Windy")


def foreign(number, text, nats=(-1, -2)):
    """A sample of a task that others wrote: no item's id, the prompt alone."""
    calls = {
        f"gen_args_{place}": {"arg_0": text, "arg_1": f" {option}"} for place, option in enumerate(OPTIONS)
    }
    return sample(number, nats, doc={"question": text, "meta": {}, "answer": 3}, arguments=calls)


def test_a_task_of_others_is_matched_by_the_text_of_its_prompts(lake, tmp_path):
    questions = asked(lake, [item(0), item(1)])
    lines = [
        foreign(0, prompt(1)),
        foreign(1, prompt(0)),
        foreign(2, f"{prompt(0)} "),
        foreign(3, "Another?"),
    ]
    [report] = import_log(lake, "lm-eval", samples_file(tmp_path / "log", lines), questions)
    found = {row["item_id"]: (row["status"], row["status_reason"]) for row in rows(lake, "outputs")}
    nothing = ("error", "not a question of this mode")
    # nothing is lost, and what is no question of the mode is in no one's place
    assert found == {
        "test/0": ("ok", None),
        "test/1": ("ok", None),
        "weather/3": nothing,
        "weather/4": nothing,
    }
    assert report.n_answered == 2 and "2 of the outputs: not a question of this mode." in report.notes


def test_questions_of_one_text_are_answered_in_their_order_or_by_the_one_sample_there_is(lake, tmp_path):
    same = {"prompt": prompt(0)}
    questions = asked(lake, [item(0), item(1, **same), item(2, prompt="Else?"), item(3, prompt="Else?")])
    lines = [foreign(0, prompt(0), (-1, -9)), foreign(1, prompt(0), (-2, -9)), foreign(2, "Else?", (-3, -9))]
    import_log(lake, "lm-eval", samples_file(tmp_path / "log", lines), questions)
    found = {row["item_id"]: row["logprob_nats"] for row in rows(lake, "output_options", option="Fine")}
    assert found == {"test/0": -1.0, "test/1": -2.0, "test/2": -3.0, "test/3": -3.0}


def test_a_second_answer_to_a_question_is_kept_and_counts_for_nothing(lake, tmp_path):
    lines = [sample(0, (-1, -2)), sample(0, (-5, -6), doc_id=1)]
    [report] = import_log(lake, "lm-eval", samples_file(tmp_path / "log", lines), asked(lake, [item(0)]))
    first, second = rows(lake, "outputs")
    assert (first["item_id"], first["status"]) == ("test/0", "ok")
    assert (second["item_id"], second["status"]) == ("weather/2", "error")
    assert second["status_reason"] == "the question was answered by an earlier sample"
    assert [row["logprob_nats"] for row in rows(lake, "output_options")] == [-1.0, -2.0]
    assert report.n_unreadable_rows == 1


def test_other_words_than_the_question_has_are_noted(lake, tmp_path):
    path = samples_file(tmp_path / "log", [sample(0, (-1, -2))])
    [report] = import_log(lake, "lm-eval", path, asked(lake, [item(0, prompt="In newer words:")]))
    assert any(note.startswith("1 questions were asked in other words") for note in report.notes)
    assert [row["text"] for row in rows(lake, "prompts")] == [prompt(0)]


def test_questions_that_were_not_asked_are_counted(lake, tmp_path):
    items = [item(0), item(1), item(2, split="train", prompt=None)]
    lines = [sample(0, (-1, -2)), sample(2, (-1, -2))]
    [report] = import_log(lake, "lm-eval", samples_file(tmp_path / "log", lines), asked(lake, items))
    assert (report.n_answered, report.n_questions) == (1, 2)
    assert "1 of 2 questions of the mode have no answer in the log." in report.notes
    assert any(note.startswith("1 answers are to questions that are for fitting") for note in report.notes)


def test_answers_of_repeated_sampling_are_runs_of_their_own(lake, tmp_path):
    path = samples_file(tmp_path / "log", [written(0, "Fine", resps=[["Fine", "Rainy", "Fine"]])])
    reports = import_log(lake, "lm-eval", path, asked(lake, [item(0)]))
    runs = {run["run_id"]: run["repeat"] for run in rows(lake, "runs")}
    assert [runs[report.run_id] for report in reports] == [0, 1, 2]
    found = {runs[row["run_id"]]: row["response_text"] for row in rows(lake, "outputs")}
    assert found == {0: "Fine", 1: "Rainy", 2: "Fine"}


def test_odd_metadata_and_mixed_types_are_read(lake, tmp_path):
    lines = [
        sample(0, (-1, -2), doc={"item_id": "test/0", "prompt": prompt(0), "a": {}, "b": 1}, acc=math.nan),
        sample(1, (-1, -2), doc={"item_id": "test/1", "prompt": prompt(1), "a": [], "b": "x"}, acc=None),
        sample(2, (-1, -2), doc={"item_id": "test/2", "prompt": prompt(2), "a": None, "b": {}}, acc=[1, 2]),
    ]
    import_log(
        lake, "lm-eval", samples_file(tmp_path / "log", lines), asked(lake, [item(n) for n in range(3)])
    )
    assert {row["status"] for row in rows(lake, "outputs")} == {"ok"}
    verdicts = {row["item_id"]: (row["verdict"], row["status"]) for row in rows(lake, "verdicts")}
    # what is none from 0 to 1 is a verdict without a value
    assert verdicts == {"test/0": (None, "error"), "test/2": (None, "error")}


def test_a_sample_that_only_another_filter_has_is_kept(lake, tmp_path):
    lines = [
        written(0, "Fine", filter="strict"),
        written(0, "Fine", filter=None),
        written(1, "Rainy", filter=None),
        sample(2, (), arguments={}, resps=[], filter="late"),
    ]
    path = samples_file(tmp_path / "log", lines)
    [report] = import_log(lake, "lm-eval", path, asked(lake, [item(n) for n in range(3)]))
    assert report.n_source_rows == 3
    # what was asked of the last one the log does not say
    assert {
        row["item_id"]: (row["response_text"], row["status_reason"]) for row in rows(lake, "outputs")
    } == {
        "test/0": ("Fine", None),
        "test/1": ("Rainy", None),
        "test/2": (None, "the log has neither options nor settings of a written answer"),
    }


def test_a_time_outside_the_calendar_is_not_known(lake, tmp_path):
    path = samples_file(tmp_path / "log", [GOOD], RESULTS | {"date": 1e300})
    import_log(lake, "lm-eval", path, asked(lake, [item(0)]))
    assert [run["started_at"] for run in rows(lake, "runs")] == [None]


def test_of_one_model_only_one_log_may_lack_its_time(lake, tmp_path):
    questions = asked(lake, [item(0)])
    first = samples_file(tmp_path / "first", [GOOD], results=None)
    second = samples_file(tmp_path / "second", [sample(0, (-2, -1))], results=None)
    [report] = import_log(lake, "lm-eval", first, questions, model_id="a model")
    before = raw_hashes(lake)
    with pytest.raises(WrongUsage, match=f"raw/\\*/run={report.run_id}"):
        import_log(lake, "lm-eval", second, questions, model_id="a model")
    assert raw_hashes(lake) == before
    assert import_log(lake, "lm-eval", first, questions, model_id="a model") == []
    assert import_log(lake, "lm-eval", second, questions, model_id="another model")
    dated = samples_file(tmp_path / "dated", [sample(0, (-3, -1))])
    assert import_log(lake, "lm-eval", dated, questions, model_id="a model")


GOOD = sample(0, (-1, -2))


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([GOOD, '{"doc_id": 1,', GOOD], "line 2: expected a JSON object, found none"),
        ([GOOD, json.dumps(GOOD)[:200]], "line 2: expected a JSON object, found none"),
        ([GOOD, "", "[1, 2]"], "line 3: expected a JSON object, found list"),
        (["{}"], "line 1: expected doc, arguments and resps"),
        ([], "expected one sample per line, found an empty file"),
        ([GOOD, GOOD | {"arguments": [["a", " b"]]}], "line 2: expected arguments with gen_args_0"),
    ],
)
def test_a_malformed_file_is_one_sentence_with_the_line(lake, tmp_path, lines, words):
    questions = asked(lake, [item(0)])
    before = raw_hashes(lake)
    with pytest.raises(InvalidSource) as refusal:
        import_log(lake, "lm-eval", samples_file(tmp_path / "log", lines), questions)
    assert words in str(refusal.value) and "\n" not in str(refusal.value)
    assert refusal.value.exit_code == 10 and raw_hashes(lake) == before


def test_a_results_file_that_is_none_is_named(lake, tmp_path):
    path = samples_file(tmp_path / "log", [GOOD])
    (tmp_path / "log" / f"results_{TIME}.json").write_text("{")
    with pytest.raises(InvalidSource, match=f"results_{TIME}.json: expected the results file"):
        import_log(lake, "lm-eval", path, asked(lake, [item(0)]))


def test_prompts_that_the_lake_has_are_not_kept_again(lake, tmp_path):
    questions = asked(lake, [item(0), item(1)])
    import_log(lake, "lm-eval", samples_file(tmp_path / "log", [sample(0, (-1, -2))]), questions)
    import_log(
        lake, "lm-eval", samples_file(tmp_path / "log", [sample(0, (-3, -4)), sample(1, (-1, -2))]), questions
    )
    assert sorted(row["text"] for row in rows(lake, "prompts")) == [prompt(0), prompt(1)]
    assert len({row["prompt_sha256"] for row in rows(lake, "outputs")}) == 2


# --- Inspect ---


def inspect_sample(identity, epoch=1, text="Fine", **changes):
    """One sample as Inspect 0.3 writes it, with what it has of no use here."""
    return {
        "id": identity,
        "epoch": epoch,
        "input": prompt(identity),
        "target": "Fine",
        "messages": [
            {"id": "m1", "content": prompt(identity), "source": "input", "role": "user"},
            {
                "id": "m2",
                "content": text,
                "source": "generate",
                "role": "assistant",
                "model": "mockllm/model",
            },
        ],
        "output": {
            "model": "mockllm/model",
            "choices": [
                {"message": {"id": "m2", "content": text, "role": "assistant"}, "stop_reason": "stop"}
            ],
            "completion": text,
            "usage": {"input_tokens": 11, "output_tokens": 2, "total_tokens": 13},
        },
        "scores": {"includes": {"value": "C", "answer": text, "history": []}, "match": {"value": 0.5}},
        "metadata": {},
        "store": {},
        "events": [{"event": "sample_init", "timestamp": "2026-11-30T07:11:41.487407+00:00"}],
    } | changes


HEADER = {
    "version": 2,
    "status": "success",
    "eval": {
        "task": "weather",
        "task_version": 0,
        "created": "2026-11-30T07:11:41+00:00",
        "dataset": {"samples": 2},
        "model": "mockllm/model",
        "model_generate_config": {"temperature": 0.0},
        "model_args": {},
        "config": {"epochs": 1},
        "packages": {"inspect_ai": "0.3.285"},
    },
    "plan": {"name": "plan", "config": {}},
    "stats": {"started_at": "2026-11-30T07:11:41+00:00"},
}


def entries_of(samples, header=HEADER):
    names = {f"samples/{one['id']}_epoch_{one['epoch']}.json": one for one in samples}
    return {"_journal/start.json": HEADER, **names, "summaries.json": [], "header.json": header}


def eval_file(folder, entries, compression=zipfile.ZIP_DEFLATED):
    folder.mkdir(exist_ok=True)
    path = folder / "a-run.eval"
    with zipfile.ZipFile(path, "w", compression) as log:
        for name, content in entries.items():
            log.writestr(name, json.dumps(content))
    return path


def with_zstandard(path):
    """Compress the entries of a stored zip as newer versions of Inspect do; zipfile cannot write that."""
    with zipfile.ZipFile(path) as log:
        contents = {name: log.read(name) for name in log.namelist()}
    data, directory = io.BytesIO(), io.BytesIO()
    for name, content in contents.items():
        packed = pa.Codec("zstd").compress(content, asbytes=True)
        shared = struct.pack(
            "<HHHHHIIIHH",
            *(63, 0, ZSTANDARD, 0, 0, zlib.crc32(content), len(packed), len(content), len(name), 0),
        )
        offset = data.tell()
        data.write(b"PK\3\4" + shared + name.encode() + packed)
        directory.write(
            b"PK\1\2" + struct.pack("<H", 63) + shared + struct.pack("<HHHII", 0, 0, 0, 0, offset)
        )
        directory.write(name.encode())
    n = len(contents)
    end = struct.pack("<HHHHIIH", 0, 0, n, n, len(directory.getvalue()), data.tell(), 0)
    path.write_bytes(data.getvalue() + directory.getvalue() + b"PK\5\6" + end)
    return path


def json_file(folder, samples, header=HEADER):
    folder.mkdir(exist_ok=True)
    path = folder / "a-run.json"
    path.write_text(json.dumps(header | {"samples": samples}))
    return path


TWO = [inspect_sample(0), inspect_sample(1, text="Rainy, I think.")]


@pytest.mark.parametrize(
    "write",
    [
        lambda folder, samples: eval_file(folder, entries_of(samples)),
        lambda folder, samples: with_zstandard(eval_file(folder, entries_of(samples), zipfile.ZIP_STORED)),
        json_file,
    ],
    ids=["deflated", "zstandard", "json"],
)
def test_what_was_written_is_kept_as_it_was(lake, tmp_path, write):
    [report] = import_log(lake, "inspect", write(tmp_path / "log", TWO), asked(lake, [item(0), item(1)]))
    found = {
        row["item_id"]: (
            row["response_text"],
            row["finish_reason"],
            row["n_prompt_tokens"],
            row["n_response_tokens"],
        )
        for row in rows(lake, "outputs")
    }
    assert found == {"test/0": ("Fine", "stop", 11, 2), "test/1": ("Rainy, I think.", "stop", 11, 2)}
    [run] = rows(lake, "runs")
    stated = ("kind", "model_id", "engine", "engine_version", "protocol")
    assert tuple(run[name] for name in stated) == (
        *("archived", "mockllm/model", "inspect", "0.3.285", "chat, text"),
    )
    assert run["started_at"].isoformat() == "2026-11-30T07:11:41+00:00"
    assert "Inspect logs no revision of the model." in report.notes


def test_scores_of_the_log_are_verdicts_that_can_be_compared(lake, tmp_path):
    marks = {"a": "C", "b": "I", "c": "P", "d": "N", "e": True, "f": 0.25, "g": "B+", "h": {"x": 1, "y": 0}}
    one = inspect_sample(0, scores={name: {"value": value} for name, value in marks.items()})
    import_log(lake, "inspect", eval_file(tmp_path / "log", entries_of([one])), asked(lake, [item(0)]))
    found = {row["grader_id"].removeprefix("inspect "): row["verdict"] for row in rows(lake, "verdicts")}
    letters = {"a": 1.0, "b": 0.0, "c": 0.5, "d": 0.0, "e": 1.0, "f": 0.25, "g": None, "h x": 1.0, "h y": 0.0}
    assert found == letters
    assert {row["grader_version"] for row in rows(lake, "verdicts")} == {"0.3.285, task 0"}


def test_an_epoch_is_a_run_and_counts_no_question_twice(lake, tmp_path):
    samples = [
        inspect_sample(0, 1),
        inspect_sample(1, 1),
        inspect_sample(0, 2, "Rainy"),
        inspect_sample(1, 2),
    ]
    path = eval_file(tmp_path / "log", entries_of(samples))
    questions = asked(lake, [item(0), item(1)])
    reports = import_log(lake, "inspect", path, questions)
    assert [report.n_source_rows for report in reports] == [2, 2]
    outputs = rows(lake, "outputs")
    assert len(outputs) == 4 and len({(row["run_id"], row["item_id"]) for row in outputs}) == 4
    by_repeat = {run["repeat"]: run["run_id"] for run in rows(lake, "runs")}
    [second] = rows(lake, "outputs", run_id=by_repeat[1], item_id="test/0")
    assert second["response_text"] == "Rainy"
    assert import_log(lake, "inspect", path, questions) == []


def test_a_sample_that_failed_is_a_row_with_its_error(lake, tmp_path):
    failed = inspect_sample(
        1,
        output={"choices": []},
        scores={},
        error={"message": "RuntimeError('no\n reply')", "traceback": "..."},
    )
    path = eval_file(tmp_path / "log", entries_of([inspect_sample(0), failed]))
    [report] = import_log(lake, "inspect", path, asked(lake, [item(0), item(1)]))
    [row] = rows(lake, "outputs", item_id="test/1")
    assert (row["status"], row["status_reason"], row["response_text"]) == (
        "error",
        "RuntimeError('no reply')",
        None,
    )
    assert report.n_unreadable_rows == 1


def test_an_id_that_is_an_items_and_a_sole_question_after_a_system_prompt_are_found(lake, tmp_path):
    talk = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": prompt(1)}]
    parts = [{"role": "user", "content": [{"type": "text", "text": prompt(2)}]}]
    turns = [*talk, {"role": "assistant", "content": "Fine"}, {"role": "user", "content": prompt(3)}]
    samples = [
        inspect_sample(0, id="test/0", input="In other words"),
        inspect_sample(1, input=talk, messages=[]),
        inspect_sample(2, input=parts, messages=[]),
        inspect_sample(3, input=turns, messages=[]),
    ]
    path = json_file(tmp_path / "log", samples)
    import_log(lake, "inspect", path, asked(lake, [item(number) for number in range(4)]))
    found = {row["item_id"]: row["status"] for row in rows(lake, "outputs")}
    # the last one is a conversation, and not the question alone
    assert found == {"test/0": "ok", "test/1": "ok", "test/2": "ok", "weather/4": "error"}
    texts = {row["text"] for row in rows(lake, "prompts")}
    assert prompt(2) in texts
    assert (
        json.dumps([{"role": "system", "content": "Be brief."}, {"role": "user", "content": prompt(1)}])
        in texts
    )


def test_an_unfinished_log_says_so(lake, tmp_path):
    entries = entries_of([inspect_sample(0)])
    del entries["header.json"]
    start = {key: HEADER[key] for key in ("version", "eval", "plan")}
    path = eval_file(tmp_path / "log", entries | {"_journal/start.json": start})
    [report] = import_log(lake, "inspect", path, asked(lake, [item(0)]))
    assert "The log says that the run's status is started, not success." in report.notes


def damaged(folder):
    path = eval_file(folder, entries_of(TWO))
    data = bytearray(path.read_bytes())
    data[data.index(b"samples/0_epoch_1.json") + 40] ^= 0xFF
    path.write_bytes(data)
    return path


def unknown_method(folder):
    path = with_zstandard(eval_file(folder, entries_of(TWO), zipfile.ZIP_STORED))
    path.write_bytes(path.read_bytes().replace(struct.pack("<HH", 0, ZSTANDARD), struct.pack("<HH", 0, 97)))
    return path


def text_file(folder, text):
    folder.mkdir()
    (folder / "log.json").write_text(text)
    return folder / "log.json"


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda folder: text_file(folder, "[]"), "expected a log of Inspect"),
        (lambda folder: text_file(folder, '{"eval": {'), "expected a log of Inspect, found Invalid JSON"),
        (lambda folder: json_file(folder, None), "expected samples, found none"),
        (lambda folder: eval_file(folder, {"a.txt": 1}), "with header.json, found a.txt"),
        (
            lambda folder: eval_file(folder, entries_of([{"id": 1, "epoch": 1}])),
            "samples/1_epoch_1.json: expected",
        ),
        (damaged, "samples/0_epoch_1.json: cannot be read"),
        (unknown_method, "`inspect log convert`"),
    ],
)
def test_a_damaged_log_is_one_sentence_that_names_the_part(lake, tmp_path, write, words):
    questions = asked(lake, [item(0)])
    before = raw_hashes(lake)
    with pytest.raises(InvalidSource) as refusal:
        import_log(lake, "inspect", write(tmp_path / "log"), questions)
    assert words in str(refusal.value) and "\n" not in str(refusal.value)
    assert raw_hashes(lake) == before


def test_a_large_log_of_one_object_is_refused_with_the_way_out(lake, tmp_path, monkeypatch):
    monkeypatch.setattr("ingest.inspect_log._MAX_JSON_BYTES", 1 << 10)
    with pytest.raises(InvalidSource, match="`inspect log convert --to eval`"):
        import_log(lake, "inspect", json_file(tmp_path / "log", TWO), asked(lake, [item(0)]))


# --- the command ---


def commit_items(lake, items):
    run = {
        "run_id": "questions",
        "kind": "items",
        "model_id": "test",
        "agent_kind": "human",
        "planned_modes": [MODE],
        "source_id": SOURCE,
        "importer_version": 1,
        "notes": [],
    }
    tables = [("items", pa.Table.from_pylist(items, ITEMS))]
    commit(lake, "questions", tables, pa.Table.from_pylist([run], RUNS))


def test_the_command_says_what_it_did_and_the_second_time_that_nothing_is_new(lake, tmp_path, project):
    commit_items(lake, [item(0), item(1)])
    path = samples_file(tmp_path / "log", [sample(0, (-1, -2))])
    arguments = ("import", "lm-eval", str(path), "--mode", MODE)
    first, second = coglake(lake, project, *arguments), coglake(lake, project, *arguments)
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    assert "1 of 2 questions answered" in first.stdout and "no token counts" in first.stdout
    assert second.stdout.endswith(f": 0 new: its answers to {MODE} are in the lake\n")


@pytest.mark.parametrize(
    ("arguments", "exit_code", "words"),
    [
        (("lm-eval", "nowhere.jsonl", "--mode", MODE), 2, "expected the file of a log, found nothing"),
        (("lm-eval", ".", "--mode", MODE), 2, "found a folder"),
        (("lm-eval", "x", "--mode", "weather"), 2, "weather: no such mode"),
        (("lm-eval", "x", "--mode", "bart"), 2, "played step by step"),
        (("lm-eval", "x", "--mode", "false_belief_qa"), 2, "`coglake ingest tomi`"),
        (("lm-eval", "x", "--mode", "hybrid_sampling"), 2, "not identified"),
    ],
)
def test_what_cannot_be_imported_is_said_in_one_line(lake, project, arguments, exit_code, words):
    commit_items(lake, [item(0)])
    done = coglake(lake, project, "import", *arguments)
    assert done.returncode == exit_code and words in done.stderr and done.stderr.count("\n") == 1
