"""Do ToMi, recent probes and the choices between rewards come out as counted and as published?"""

import hashlib
import os
from itertools import count

import polars as pl
import pytest
from pytest import approx

from generate.pipeline import generate, plan
from generate.schedule import load_agents
from ingest.pipeline import SourceReport, ingest
from ingest.recent_probes import SPLIT_SEED
from store.lake import part_paths
from store.manifest import load_sources
from store.settings import Home

pytestmark = pytest.mark.mirror

SOURCES = ("tomi", "self_regulation", "hbayesdm")
AGENTS = ("answer_key", "recent_probes_matrix", "human_later_reward")


@pytest.fixture(scope="module")
def reports(tmp_path_factory) -> tuple[Home, list[SourceReport]]:
    lake = Home(tmp_path_factory.mktemp("tomi_probes") / "lake")
    sources = [load_sources()[name] for name in SOURCES]
    return lake, ingest(lake, sources, mirror=os.environ["COGLAKE_MIRROR"])


@pytest.fixture(scope="module")
def lake(reports) -> Home:
    """The lake with what the references predict."""
    lake, _ = reports
    for agent in (load_agents()[name] for name in AGENTS):
        generate(lake, plan(lake, [agent], {}, agent.predicts))
    return lake


def rows_of(lake, table, mode_id):
    parts = [pl.read_parquet(path) for path in part_paths(lake, table)]
    return pl.concat([part for part in parts if part.height], how="diagonal_relaxed").filter(mode_id=mode_id)


def test_everything_was_read_and_a_second_time_adds_nothing(reports):
    lake, first = reports
    assert [report.failures for report in first] == [()] * 3
    assert [report.n_source_rows for report in first] == [3 * 5_994, 46_980 + 22_446 + 14_616 + 39_672, 2_160]
    again = ingest(lake, [load_sources()[name] for name in SOURCES], mirror=os.environ["COGLAKE_MIRROR"])
    assert [report.n_new_rows for report in again] == [0, 0, 0]


def test_tomi_has_the_published_questions(lake):
    items = rows_of(lake, "items", "false_belief_qa").with_columns(
        kind=pl.col("facts_json").str.json_path_match("$.question_type"),
        is_first=pl.col("credited_options").list.first() == pl.col("legal_options").list.first(),
    )
    assert items.height == 5_994 and items["split"].unique().to_list() == ["test"]
    assert items["legal_options"].list.n_unique().unique().to_list() == [2]
    assert items.select(
        pl.col("legal_options").list.contains(pl.col("credited_options").list.first()).all()
    ).item()
    assert dict(items["kind"].value_counts().iter_rows()) == {
        "memory": 999,
        "reality": 999,
        "first_order": 1_998,
        "second_order": 1_998,
    }
    # whoever always names the first container is right as often as by chance: 3,001 of 5,994 questions
    assert items["is_first"].sum() == 3_001
    by_kind = dict(items.group_by("kind").agg(pl.col("is_first").mean()).iter_rows())
    assert all(share == approx(0.5, abs=0.01) for share in by_kind.values())


def test_the_answer_key_scores_100(lake):
    items, answers = (rows_of(lake, table, "false_belief_qa") for table in ("items", "outputs"))
    joined = answers.join(items, on="item_id").with_columns(credited=pl.col("credited_options").list.first())
    assert joined.height == 5_994 and (joined["response_text"] == joined["credited"]).all()


def test_recent_probes_has_the_published_responses(lake):
    items, responses = (rows_of(lake, table, "recent_probes") for table in ("items", "human_responses"))
    assert items.height == responses.height == 38_488 == 34_714 + 3_774
    for split, n_responses, n_participants in (("train", 34_714, 471), ("test", 3_774, 51)):
        of_split = responses.filter(split=split)
        assert (of_split.height, of_split["participant_id"].n_unique()) == (n_responses, n_participants)
    asked = items.filter(split="test")
    assert asked["prompt"].null_count() == 0 and items.filter(split="train")["prompt"].null_count() == 34_714


def test_the_inferred_split_has_the_smallest_seed(lake):
    counts = dict(
        rows_of(lake, "human_responses", "recent_probes")["participant_id"].value_counts().iter_rows()
    )

    def n_test(seed):
        """Participants in the lowest tenth of all digests, and their responses."""
        of_tenth = [
            n
            for participant, n in counts.items()
            if int(hashlib.sha256(f"{seed}/{participant}".encode()).hexdigest()[:8], 16) <= 0x19999999
        ]
        return len(of_tenth), sum(of_tenth)

    assert next(seed for seed in count() if n_test(seed) == (51, 3_774)) == SPLIT_SEED


def test_the_response_matrix_is_right_on_every_probe(lake):
    items = rows_of(lake, "items", "recent_probes")
    options = rows_of(lake, "output_options", "recent_probes").join(
        items.select("item_id", "credited_options"), on="item_id"
    )
    likeliest = options.sort("logprob_nats", descending=True).unique("item_id", keep="first")
    assert likeliest.height == 3_774
    assert likeliest.select(pl.col("credited_options").list.contains(pl.col("option")).all()).item()
    fits = dict(rows_of(lake, "fits", "recent_probes").select("parameter", "n_training").iter_rows())
    assert fits["p_left_given_in_set"] + fits["p_right_given_not_in_set"] == 34_714


@pytest.mark.parametrize(
    ("mode_id", "n_later", "n_responses", "n_participants"),
    [
        ("temporal_discounting_bickel", 27_345, 46_980, 522),
        ("temporal_discounting_titration", 6_153, 18_792, 522),
        ("temporal_discounting_kirby", 5_478, 14_094, 522),
        ("temporal_discounting_hbayesdm", 1_430, 2_160, 20),
    ],
)
def test_the_rate_of_the_later_reward_is_that_of_the_files_own_column(
    lake, mode_id, n_later, n_responses, n_participants
):
    items = rows_of(lake, "items", mode_id)
    assert items["participant_id"].n_unique() == n_participants and items["prompt"].null_count() == 0
    joined = rows_of(lake, "outputs", mode_id).join(items.select("item_id", "credited_options"), on="item_id")
    is_later = pl.col("credited_options").list.contains(pl.col("response_text"))
    assert (joined.height, joined.select(is_later.sum()).item()) == (n_responses, n_later)
