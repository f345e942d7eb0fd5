"""CogniRank's protocol as data, and the release that hashes it."""

import hashlib
import shutil
from fractions import Fraction
from pathlib import Path

import pytest
from support import copy_project

from store import protocol
from store.errors import InvalidSource
from store.protocol import (
    datasets_of,
    generation_id,
    load_components,
    load_datasets,
    load_graders,
    load_metrics,
    release_files,
    release_id,
    release_paths,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture
def manifests(tmp_path):
    return Path(shutil.copytree(ROOT / "manifests", tmp_path / "manifests"))


def edited(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_the_weights_are_the_exact_ones_and_not_those_for_display():
    weights = {
        name: Fraction(row.weight_numerator, row.weight_denominator)
        for name, row in load_components().items()
    }
    assert weights == {
        "smolcua": Fraction(30, 95),
        "marc": Fraction(25, 95),
        "procedural_pile": Fraction(25, 95),
        "ttm": Fraction(15, 95),
    }
    displayed = sum(Fraction(str(row.display_weight_pct)) for row in load_components().values())
    assert displayed == Fraction("100.01")


def test_components_are_as_the_document_has_them():
    rows = load_components()
    assert [row.n_examples for row in rows.values()] == [3 * 400, 4 * 4 * 20, 20 * 7 + 35 * 6, 2000]
    assert [row.batch_size for row in rows.values()] == [32, 32, 8, 8]
    assert [row.max_response_tokens for row in rows.values()] == [512, 200, 512, None]
    assert [row.max_response_tokens_short for row in rows.values()] == [48, None, None, None]
    assert {row.context_tokens for row in rows.values()} == {4096}
    assert [row.prompt_style for row in rows.values()] == ["chat_or_plain", "plain", "chat_or_plain", "plain"]
    assert [row.resumes_by for row in rows.values()] == ["prediction", "component", "prediction", "component"]


def test_each_component_has_a_published_data_set_a_stand_in_and_one_primary_metric():
    for name in load_components():
        published, stand_in = (datasets_of(name, is_stand_in=is_stand_in) for is_stand_in in (False, True))
        assert (published.is_stand_in, stand_in.is_stand_in) == (False, True)
        assert published.dataset_id != stand_in.dataset_id
        assert [row.component_id for row in load_metrics() if row.is_primary].count(name) == 1


def test_a_metric_of_a_grader_names_its_version_and_a_rule_that_it_has():
    graders = load_graders()
    named = [row for row in load_metrics() if row.grader_id is not None]
    assert named
    for row in named:
        assert row.grader_version == graders[row.grader_id].version
        assert row.readout in graders[row.grader_id].answer_rules
    (primary,) = [row for row in named if row.is_primary]
    assert primary.readout == graders[primary.grader_id].answer_rules[0]


@pytest.mark.parametrize(
    ("file", "old", "new", "sentence"),
    [
        (
            "cognirank_components.csv",
            "1200,30,95",
            "1200,31,95",
            "weights that add up to one, found numerators",
        ),
        ("cognirank_components.csv", "1200,30,95", "1200,30,96", "over 95, 96"),
        ("cognirank_components.csv", "marc,2,", "ttm,2,", "expected each component once"),
        ("cognirank_components.csv", "1200,30,95", "many,30,95", "smolcua: n_examples"),
        ("cognirank_components.csv", "bfloat16", "float64", "dtype"),
        ("cognirank_components.csv", ",batch_size,", ",batches,", "batch"),
    ],
)
def test_a_component_that_cannot_be_is_refused(manifests, file, old, new, sentence):
    edited(manifests / file, old, new)
    with pytest.raises(InvalidSource, match=sentence):
        load_components(manifests)


def test_two_published_data_sets_of_one_component_are_refused(manifests):
    edited(
        manifests / "cognirank_datasets.csv",
        "marc_like,marc,marc_like,true",
        "marc_like,marc,marc_like,false",
    )
    with pytest.raises(InvalidSource, match="expected one published data set of each component"):
        load_datasets(manifests)


def test_a_grader_without_a_limit_is_refused(manifests):
    edited(manifests / "graders.toml", "timeout_s = 20.0", "timeout_s = 0.0")
    with pytest.raises(InvalidSource, match="timeout_s"):
        load_graders(manifests)


# --- the release ---


def test_a_release_names_protocol_prompts_and_scoring_and_nothing_else():
    names = set(release_files())
    assert {
        "manifests/cognirank_components.csv",
        "manifests/cognirank_datasets.csv",
        "manifests/cognirank_metrics.csv",
        "manifests/graders.toml",
        "manifests/sources.toml#ttm",
        "manifests/sources.toml#marc_like",
        "ingest/ttm.py",
        "generate/verifier/extraction.py",
        "models_sql/intermediate/scored/int_scored__answer_match.sql",
        "models_sql/marts/cogniscore.sql",
    } <= names
    assert not [name for name in names if "s1cogbench" in name or "bart" in name or "table_3" in name]
    for name, path in release_paths().items():
        assert release_files()[name] == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    "name",
    [
        "manifests/cognirank_metrics.csv",
        "manifests/graders.toml",
        "macros/reading.sql",
        "models_sql/marts/cogniscore.sql",
    ],
)
def test_an_edit_of_what_may_move_a_score_is_another_release(tmp_path, name):
    project = copy_project(tmp_path / "project")
    before = release_id(project)
    with (project / name).open("a", encoding="utf-8") as file:
        file.write("\n")
    assert release_id(project) != before


def test_another_pin_of_a_data_set_is_another_release_and_one_of_other_sources_is_not(tmp_path):
    project = copy_project(tmp_path / "project")
    before = release_id(project)
    text = (project / "manifests" / "sources.toml").read_text(encoding="utf-8")
    (project / "manifests" / "sources.toml").write_text(f"# other words\n{text}", encoding="utf-8")
    assert release_id(project) == before
    sha256 = "58827a0361597ae4d5ffa79ddbab0936d1509cafcfc02cbb731e4d7a7f3584b8"
    edited(project / "manifests" / "sources.toml", sha256, "0" * 64)
    assert release_id(project) != before


def test_a_release_that_lacks_a_file_is_refused(tmp_path):
    project = copy_project(tmp_path / "project")
    (project / "macros" / "reading.sql").unlink()
    with pytest.raises(InvalidSource, match=r"macros/reading.sql: expected a file of the release"):
        release_id(project)


def test_scoring_is_no_part_of_what_was_asked(monkeypatch):
    before = generation_id()
    changed = {
        name: row.model_copy(update={"metric": "other words", "weight_numerator": 1})
        for name, row in load_components().items()
    }
    monkeypatch.setattr(protocol, "load_components", lambda: changed)
    assert generation_id() == before
    changed["marc"] = changed["marc"].model_copy(update={"max_response_tokens": 201})
    assert generation_id() != before
