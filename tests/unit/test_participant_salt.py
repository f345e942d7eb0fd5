"""Salted participants: does no name reach the raw rows, and is everything else as it would be without a salt?

The files are those of the importers' own tests, with names that occur nowhere else.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import rlwm_files
import test_discounting_import as discounting
import test_mouselab_import as mouselab
import test_multi_attribute_import as attributes
import test_nonliteral_import as nonliteral
import test_politeness_import as politeness
import test_pragmatics_import as pragmatics
import test_psych_101 as transcripts
import test_recent_probes_import as probes
import test_wcst_import as sorting
import test_weather_import as weather

from ingest import pipeline
from ingest.contract import Imported, RawRows, with_every_column
from ingest.participants import Salt, read_salt, salted_run_id
from ingest.pipeline import IMPORTERS, ingest, listing
from store import cli
from store.errors import InvalidSource, WrongUsage
from store.lake import committed_runs, part_paths
from store.manifest import Source, load_sources
from store.schemas import RAW_TABLES, RUNS
from store.settings import Home

SALT, OTHER = Salt(b"sixteen bytes, or more"), Salt(b"another sixteen bytes")
# as words where a file has words, and as a number where it has numbers
ANNA, BERT, NUMBER, OTHER_NUMBER = "zedanna", "zedbert", "71828182", "31415926"


def archive(header, *rows):
    return "\n".join([header, *rows]) + "\n"


BANDITS = "Experiments/InstrumentalLearning/data/{}.csv"
BANDITS_HEADER = "run,trial,task,choice,reward"
URNS = "Experiments/ProbabilisticReasoning/data/{}.csv"


def files_with_people(folder: Path):
    """Yield for each importer of people: source, files, and how the file and the raw rows name its people."""
    yield (
        "self_regulation",
        {discounting.KIRBY: discounting.packed([*discounting.session(ANNA), *discounting.session(BERT)])},
        {ANNA: ANNA, BERT: BERT},
    )
    yield (
        "self_regulation",
        {probes.FILE: probes.packed([*probes.session(ANNA), *probes.session(BERT)])},
        {ANNA: ANNA, BERT: BERT},
    )
    yield (
        "hbayesdm",
        {discounting.HBAYESDM: discounting.tabbed(discounting.example(NUMBER))},
        {NUMBER: f"dd-{NUMBER}"},
    )
    yield (
        "mouselab",
        {mouselab.TRIALS: json.dumps({ANNA: [mouselab.trial([5, 10])], BERT: []})},
        {ANNA: ANNA, BERT: BERT},
    )
    yield (
        "multinomineq",
        {attributes.TRIALS: attributes.trials_file(folder, attributes.session(int(NUMBER), "AB"))},
        {NUMBER: f"heck2017-{NUMBER}"},
    )
    yield (
        "hmmr",
        {weather.PATH: weather.rda(folder, weather.visit(ANNA, "PD", 1, weather.SUNNY))},
        {ANNA: f"wpt-{ANNA}"},
    )
    yield (
        "hyperbole",
        {nonliteral.PRICES: nonliteral.csv_of(nonliteral.price(NUMBER), nonliteral.price(OTHER_NUMBER))},
        {NUMBER: f"experiment1/{NUMBER}", OTHER_NUMBER: f"experiment1/{OTHER_NUMBER}"},
    )
    # and one whose name is also the start of a question's id, which is asked of both
    said = '"{}.json",1,"song","both","heart3","neg","bad"'
    yield (
        "polite_speaker",
        {
            politeness.PRODUCTION: politeness.csv_of(
                politeness.PRODUCTION_HEADER, said.format(ANNA), said.format("3")
            )
        },
        {ANNA: f"speaker_production/{ANNA}"},
    )
    yield (
        "pragmatics",
        pragmatics.QUESTIONS
        | {pragmatics.RESPONSES: pragmatics.responses((ANNA, 1, 2, 2), (BERT, 1, 2, 3), (BERT, 2, 2, 9))},
        {ANNA: ANNA, BERT: BERT},
    )
    yield (
        "psych_101",
        {
            transcripts.TRAINING: "\n".join(
                transcripts.of_task("shj", participant=name) for name in (ANNA, BERT)
            )
        },
        {name: f"badham2017deficits/exp1/{name}" for name in (ANNA, BERT)},
    )
    yield (
        "rlwm",
        {
            "RLWM/DataSets/Expe1.mat": rlwm_files.trials_file(
                [trial | {"subno": 217} for trial in rlwm_files.session({}, {})]
            ),
            "RLWM/Fits/FitRLWM_dataset1.mat": rlwm_files.fits_file((217,)),
        },
        {"/217": "Expe1/217"},
    )
    yield (
        "wcst_prl",
        {
            sorting.CONTROLS: sorting.csv_of(
                {"subj_name": ANNA}, {"subj_name": BERT}, {"subj_name": "zedcarl", "chosen_card": ""}
            )
        },
        {name: name for name in (ANNA, BERT, "zedcarl")},
    )
    yield (
        "demo_archive",
        {BANDITS.format("human"): archive(BANDITS_HEADER, f"{NUMBER},0,3,0,0.0", f"{NUMBER},1,3,1,0.5")},
        {NUMBER: NUMBER},
    )
    yield (
        "demo_archive",
        {
            URNS.format("human"): archive(
                "informative_lh,prior,lh,left_pred,red_observation,run", f"True,0.5,0.8,0.78,True,{NUMBER}"
            )
        },
        {NUMBER: NUMBER},
    )


def pinned(folder: Path, source_id: str, files) -> Source:
    """Put files into a mirror and return the source that pins them."""
    contents = {path: text if isinstance(text, bytes) else text.encode() for path, text in files.items()}
    source = Source.model_validate(
        {
            "id": source_id,
            "kind": "generated",
            "repo": "handwritten",
            "revision": "1",
            "licence": "MIT",
            "description": "Files of a test.",
            "files": [
                {"path": path, "sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
                for path, content in contents.items()
            ],
        }
    )
    for file in source.files:
        path = folder / "mirror" / source.mirror_path(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents[file.path])
    return source


def ingested(folder: Path, source: Source, salt: Salt | None = None, name: str = "lake"):
    lake = Home(folder / name)
    [report] = ingest(lake, [source], mirror=str(folder / "mirror"), salt=salt)
    assert report.failures == (), report.failures
    return lake, report


def rows_of(lake: Home) -> dict[str, list[dict]]:
    return {
        table: [row for path in part_paths(lake, table) for row in pq.read_table(path).to_pylist()]
        for table in RAW_TABLES
    }


def texts(value: object) -> Iterator[str]:
    """Yield every text in a cell or a table."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from texts(inner)


def hashed(salt: Salt, source_id: str, participant_id: str) -> str:
    """HMAC by its definition, RFC 2104."""
    key = salt.secret.ljust(64, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in key) + f"{source_id}/{participant_id}".encode())
    outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in key) + inner.digest())
    return f"p_{outer.hexdigest()[:16]}"


N_CASES = 14


@pytest.fixture(params=range(N_CASES))
def case(request, tmp_path):
    cases = list(files_with_people(tmp_path / "written"))
    assert len(cases) == N_CASES
    source_id, files, names = cases[request.param]
    return pinned(tmp_path, source_id, files), names


def test_no_name_is_in_the_raw_rows_or_in_their_bytes(tmp_path, case):
    source, names = case
    named, _ = ingested(tmp_path, source, name="named")
    salted, report = ingested(tmp_path, source, SALT, name="salted")

    assert all(any(name in text for text in texts(rows_of(named))) for name in names)
    found = [text for text in texts(rows_of(salted)) for name in names if name in text]
    assert found == []
    for path in salted.raw.rglob("*"):
        # a parquet file states the least and the greatest text of a column without packing them
        shown = f"{path}".encode() + (path.read_bytes() if path.is_file() else b"")
        assert not [name for name in names if name.encode() in shown]
    assert not [note for note in report.notes for name in names if name in note]


def test_what_is_no_name_is_as_it_would_be_without_a_salt(tmp_path, case):
    source, names = case
    named, before = ingested(tmp_path, source, name="named")
    salted, after = ingested(tmp_path, source, SALT, name="salted")
    [run_id], [new_run_id] = committed_runs(named), committed_runs(salted)
    everybody = {row["participant_id"] for row in rows_of(named)["human_responses"]} | set(names.values())

    def renamed(column, value):
        if column == "run_id":
            return new_run_id
        if column in ("participant_id", "episode_id") and value in everybody:
            return hashed(SALT, source.id, value)
        if column == "item_id":
            for name, participant in names.items():
                for spelled in (participant, name.strip("/")):
                    value = value.replace(
                        f"{run_id}/{spelled}/", f"{run_id}/{hashed(SALT, source.id, participant)}/"
                    )
            return value.replace(run_id, new_run_id)
        return value

    def comparable(rows, rename):
        return sorted(
            repr({column: rename(column, value) for column, value in row.items()})
            for row in rows
            if row.pop("parts", None) is None or row.pop("notes") is not None
        )

    expected, found = rows_of(named), rows_of(salted)
    for table in RAW_TABLES:
        assert comparable(expected[table], renamed) == comparable(found[table], lambda _, value: value)
    assert any(found[table] for table in ("items", "steps"))
    assert new_run_id == f"{run_id}-s{SALT.fingerprint}"
    assert (after.n_new_rows, after.n_source_rows, after.n_unreadable_rows) == (
        before.n_new_rows,
        before.n_source_rows,
        before.n_unreadable_rows,
    )


def test_people_are_in_the_order_of_their_hashes(tmp_path):
    rows = [row for place in range(12) for row in discounting.session(f"zed{place:02}")]
    source = pinned(tmp_path, "self_regulation", {discounting.KIRBY: discounting.packed(rows)})
    lake, _ = ingested(tmp_path, source, SALT)
    items = rows_of(lake)["items"]
    people = [item["participant_id"] for item in items]
    assert people == sorted(people) and len(set(people)) == 12
    trials = [json.loads(item["facts_json"])["trial"] for item in items[:3]]
    assert trials == sorted(trials)


def test_published_scores_of_people_are_hashed_and_those_of_models_are_not(tmp_path):
    scores = "engine,run,performance_score1,performance_score1_name\n"
    rows = f"human,{NUMBER},0.5,reward\ngpt-4,{OTHER_NUMBER},0.7,reward\n"
    source = pinned(tmp_path, "demo_archive", {"Experiments/BART/scores_data.csv": scores + rows})
    lake, _ = ingested(tmp_path, source, SALT)
    episodes = {row["model_id"]: row["episode_id"] for row in rows_of(lake)["published"]}
    assert episodes == {"human": hashed(SALT, "demo_archive", NUMBER), "gpt-4": OTHER_NUMBER}


# --- which salt ---


@pytest.fixture
def people(tmp_path):
    return pinned(tmp_path, "hbayesdm", {discounting.HBAYESDM: discounting.tabbed(discounting.example())})


def test_the_same_salt_adds_nothing_and_another_or_none_is_refused(tmp_path, people):
    ingested(tmp_path, people, SALT)
    lake, report = ingested(tmp_path, people, Salt(SALT.secret))
    assert (report.n_new_files, report.n_present_files, report.n_new_rows) == (0, 1, 0)
    for salt, given in ((OTHER, OTHER.fingerprint), (None, "as the files name them")):
        with pytest.raises(WrongUsage, match=f"{SALT.fingerprint}.*{given}.*same salt as before"):
            ingested(tmp_path, people, salt)
    assert len(committed_runs(lake)) == 1
    assert [state.state for state in listing(lake, [people])] == ["imported"]


def test_a_lake_with_names_takes_no_salt_even_for_another_revision(tmp_path, people):
    ingested(tmp_path, people)
    text = discounting.tabbed(discounting.example(choices=("1", "1", "1")))
    newer = pinned(tmp_path, "hbayesdm", {discounting.HBAYESDM: text})
    for source in (people, newer):
        with pytest.raises(WrongUsage, match="hbayesdm: participants are in the lake as the files name them"):
            ingested(tmp_path, source, SALT)


def test_a_file_without_people_is_the_same_run_under_any_salt(tmp_path):
    played = archive(BANDITS_HEADER, "0,0,3,0,0.0")
    source = pinned(tmp_path, "demo_archive", {BANDITS.format("gpt-4"): played})
    ingested(tmp_path, source, SALT)
    for salt in (None, OTHER):
        lake, report = ingested(tmp_path, source, salt)
        assert (report.n_new_files, report.n_present_files) == (0, 1)
    [row] = rows_of(lake)["steps"]
    assert row["episode_id"] == "0"


def test_every_pinned_source_of_people_is_salted_and_no_other():
    sources = load_sources()
    salted = {
        source.id
        for source in sources.values()
        for file in source.files
        if source.id in IMPORTERS
        and (run_id := IMPORTERS[source.id].identify(source, file))
        and salted_run_id(source, file, run_id, SALT) != run_id
    }
    # demo_archive has scores of stand-ins in the file in which the archive has those of people
    assert salted == {
        *("cogbench", "demo_archive", "hbayesdm", "hmmr", "hyperbole", "mouselab", "multinomineq"),
        *("polite_speaker", "pragmatics", "psych_101", "rlwm", "self_regulation", "wcst_prl"),
    }


def test_people_of_a_source_that_is_not_known_to_have_any_are_refused(tmp_path, monkeypatch):
    class Unforeseen:
        def identify(self, source, file):
            return f"unforeseen-{file.sha256[:12]}-v1"

        def read(self, source, file, path):
            run_id = self.identify(source, file)
            named = {"item_id": f"{run_id}/0", "mode_id": "bart", "source_id": source.id, "weight": 1.0}
            responses = pa.Table.from_pylist([named | {"participant_id": ANNA}])
            run = {
                "run_id": run_id,
                "kind": "items",
                "model_id": "x",
                "agent_kind": "human",
                "planned_modes": ["bart"],
                "notes": [],
            }
            rows = (
                RawRows("human_responses", with_every_column(responses, RAW_TABLES["human_responses"])),
                RawRows("runs", pa.Table.from_pylist([run], schema=RUNS)),
            )
            return Imported(run_id, rows, 1, 0, ())

    monkeypatch.setitem(pipeline.IMPORTERS, "unforeseen", Unforeseen())
    source = pinned(tmp_path, "unforeseen", {"a.txt": "a"})
    lake = Home(tmp_path / "lake")
    [report] = ingest(lake, [source], mirror=str(tmp_path / "mirror"), salt=SALT)
    [failure] = report.failures
    assert isinstance(failure, InvalidSource) and "expected no participants, found some" in str(failure)
    assert committed_runs(lake) == frozenset()


# --- the file of the salt ---


def test_white_space_around_a_salt_is_no_part_of_it(tmp_path):
    (tmp_path / "salt").write_bytes(b"  " + SALT.secret + b"\r\n")
    assert read_salt(tmp_path / "salt") == SALT
    assert SALT.secret.decode() not in repr(SALT)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, r"cannot be read \(No such file or directory\)"),
        (b"", "expected 16 bytes or more, found 0"),
        (b"\n" * 20, "expected 16 bytes or more, found 0"),
        (b"x" * 15 + b"\n", "expected 16 bytes or more, found 15"),
    ],
)
def test_a_bad_salt_is_one_sentence(tmp_path, content, said):
    path = tmp_path / "salt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(WrongUsage, match=said) as refused:
        read_salt(path)
    assert "\n" not in str(refused.value) and str(path) in str(refused.value)


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Run ``coglake ingest hbayesdm`` on the lake of the test; return exit code, output and messages."""
    source = pinned(tmp_path, "hbayesdm", {discounting.HBAYESDM: discounting.tabbed(discounting.example())})
    monkeypatch.setattr("store.command_ingest.load_sources", lambda: {"hbayesdm": source})
    monkeypatch.setenv("COGLAKE_HOME", str(tmp_path / "lake"))
    monkeypatch.setenv("COGLAKE_MIRROR", str(tmp_path / "mirror"))

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            cli.app(["ingest", "hbayesdm", *arguments])
        return ended.value.code, *capsys.readouterr()

    return run


def test_the_command_warns_of_a_salt_that_others_can_read_and_of_the_cache(tmp_path, command):
    path = tmp_path / "salt"
    path.write_bytes(SALT.secret)
    path.chmod(0o644)
    code, _, said = command("--participant-salt", str(path))
    assert code == 0 and "others can read this salt" in said and SALT.fingerprint in said
    assert "cache keeps the files as they were fetched" in said
    path.chmod(0o600)
    code, out, said = command("--participant-salt", str(path))
    assert code == 0 and "0 new, 1 present" in out and "others can read" not in said


def test_the_command_refuses_another_salt_before_it_fetches(tmp_path, command):
    (tmp_path / "salt").write_bytes(SALT.secret)
    assert command("--participant-salt", str(tmp_path / "salt"))[0] == 0
    code, out, said = command()
    assert (code, out) == (2, "") and said.count("\n") == 1 and "use the same salt as before" in said
    assert command("--participant-salt", str(tmp_path / "none"))[0] == 2


@pytest.mark.mirror
def test_no_published_name_is_in_the_raw_rows(tmp_path):
    sources = [load_sources()[name] for name in ("polite_speaker", "wcst_prl")]
    named, salted = Home(tmp_path / "named"), Home(tmp_path / "salted")
    for lake, salt in ((named, None), (salted, SALT)):
        ingest(lake, sources, mirror=os.environ["COGLAKE_MIRROR"], salt=salt)
    people = {row["participant_id"] for row in rows_of(named)["human_responses"]}
    names = {name.rpartition("/")[2] for name in people}
    assert len(names) == 586 and min(map(len, names)) >= 8
    words = {word for text in texts(rows_of(salted)) for word in text.split("/")}
    assert words.isdisjoint(names | people)
    assert {row["participant_id"] for row in rows_of(salted)["human_responses"]} == {
        hashed(SALT, source_id, name)
        for name, source_id in {
            (row["participant_id"], row["source_id"]) for row in rows_of(named)["human_responses"]
        }
    }
