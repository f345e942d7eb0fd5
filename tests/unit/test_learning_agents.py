"""Agents in Learning dialogues: do they mark the ends of the scale, and is every run done once?"""

import itertools
import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from generate.learning import agent_runs, item_runs
from generate.learning.agent_runs import generate, load_agents, plan
from generate.learning.dialogues.exploration import Exploration
from generate.learning.dice import Dice
from generate.learning.families import load_families
from generate.learning.instances import dialogue_of
from generate.learning.players import Oracle, Prober, most_paying_steps
from store.errors import InvalidSource
from store.lake import committed_runs, part_paths
from store.learning_tasks import load_tasks
from store.settings import Home
from tests.unit.learning_toys import FindDigit, task

NAMES = ("overshadowing", "numeric_property", "hanoi_two", "packet_filter")


@pytest.fixture
def lake(tmp_path):
    return Home(tmp_path / "lake")


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    lake = Home(tmp_path_factory.mktemp("agents") / "lake")
    done(lake)
    return lake


def families(names=NAMES):
    return {name: load_families()[name] for name in names}


def done(lake, names=NAMES, agents=None):
    agents = list(load_agents().values()) if agents is None else [load_agents()[name] for name in agents]
    return generate(lake, plan(lake, agents, families(names)), lambda *_: None)


def rows(lake, table, run_id_begins=""):
    frames = [pl.read_parquet(path, hive_partitioning=False) for path in part_paths(lake, table)]
    found = pl.concat([frame for frame in frames if frame.height])
    if "run_id" in found.columns:
        found = found.filter(pl.col("run_id").str.starts_with(run_id_begins))
    return found


# --- runs ---


def test_each_agent_plays_the_families_of_its_categories_once(played):
    agents = load_agents()
    expected = {
        f"{agent.id}-{name}"
        for agent in agents.values()
        for name, family in families().items()
        if not agent.categories or family.category in agent.categories
    }
    found = {re.sub(r"-[0-9a-f]{12}$", "", run_id) for run_id in committed_runs(played)}
    assert found == expected | {family.run_id for family in families().values()}
    assert all(not report.is_new for report in done(played))


def test_every_question_is_an_item_with_its_answer_and_every_game_is_one(played):
    items = rows(played, "items")
    asked = items.filter(pl.col("credited_options").is_not_null())
    assert (
        asked.height
        == 12
        * sum(
            task.n_test_items for family in families().values() for task in family.tasks if task.n_test_items
        )
        // 3
    )
    games = items.filter(pl.col("credited_options").is_null())
    assert set(games["source_id"]) == {"hanoi_two"}
    assert games.height == 12
    assert items["item_id"].is_unique().all()


def test_one_family_is_played_as_it_is_beside_others(lake, played):
    done(lake, names=["hanoi_two"], agents=["random"])
    alone, beside = rows(lake, "steps"), rows(played, "steps", "random-hanoi_two")
    assert alone.drop("run_id").equals(beside.drop("run_id"))


def test_a_family_whose_code_gives_other_items_needs_a_version(played, monkeypatch):
    changed = agent_runs.dialogue_of

    def other(family, row):
        dialogue = changed(family, row)
        dialogue.questions = dialogue.questions[::-1]
        return dialogue

    monkeypatch.setattr(agent_runs, "dialogue_of", other)
    later = load_agents()["silent"].model_copy(update={"version": 2})
    tasks = plan(played, [later], families(["overshadowing"]))
    with pytest.raises(InvalidSource, match="overshadowing: the lake holds version 1 with other items"):
        generate(played, tasks, lambda *_: None)


@pytest.mark.parametrize("name", NAMES)
def test_a_family_that_tells_its_instances_in_other_words_needs_a_version(played, monkeypatch, name):
    made = agent_runs.dialogue_of

    def reworded(family, row):
        dialogue = made(family, row)
        *before, last = dialogue.texts
        dialogue.texts = [*before, (*last[:-1], last[-1] + " Mind the last word.")]
        return dialogue

    monkeypatch.setattr(agent_runs, "dialogue_of", reworded)
    later = load_agents()["silent"].model_copy(update={"version": 2})
    with pytest.raises(InvalidSource, match=f"{name}: the lake holds version 1 with other words"):
        generate(played, plan(played, [later], families([name])), lambda *_: None)


@pytest.mark.parametrize("name", NAMES)
def test_what_a_dialogue_tells_at_first_is_in_its_texts(name):
    family = families([name])[name]
    dialogue = dialogue_of(family, family.tasks[1])
    told = dialogue.messages(dialogue.start())
    assert len(dialogue.texts) == len(told) == family.seeds.count
    for message, texts in zip(told, dialogue.texts, strict=True):
        assert texts[0] in message
        assert sum(text in message for text in texts) >= min(2, len(texts))


def test_items_that_another_process_has_just_laid_out_are_as_good_as_own_ones(lake, monkeypatch):
    [task] = plan(lake, [load_agents()["silent"]], families(["overshadowing"]))
    found = item_runs.committed_runs

    def meanwhile(home):
        before = found(home)
        monkeypatch.setattr(item_runs, "committed_runs", found)
        done(lake, ["overshadowing"], ["oracle"])
        return before if is_seen_late else found(home)

    for is_seen_late in (False, True):
        monkeypatch.setattr(item_runs, "committed_runs", meanwhile)
        [report] = generate(lake, [replace(task, run_id=f"silent-{is_seen_late}")], lambda *_: None)
        assert report.is_new


def test_a_changed_row_is_named_with_its_column_and_both_values(played):
    family = families(["overshadowing"])["overshadowing"]
    rows_now = load_tasks()
    other = rows_now["overshadowing_2"].model_copy(update={"n_test_items": 5})
    was = rows_now["overshadowing_2"].n_test_items
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("generate.learning.families.load_tasks", lambda: rows_now | {"overshadowing_2": other})
        with pytest.raises(
            InvalidSource,
            match=f"overshadowing: the lake holds version 1 with n_test_items {was} where "
            "learning_tasks.csv has 5 for overshadowing_2; raise the version, or take the change back",
        ):
            plan(played, [load_agents()["silent"]], {"overshadowing": family})


def test_a_family_may_be_there_in_two_versions(lake):
    done(lake, ["overshadowing"], ["oracle"])
    family = families(["overshadowing"])["overshadowing"]
    raised = family.model_copy(update={"version": family.version + 1})
    tasks = plan(lake, [load_agents()["oracle"]], {"overshadowing": raised})
    [report] = generate(lake, tasks, lambda *_: None)
    assert report.is_new
    assert not done(lake, ["overshadowing"], ["oracle"])[0].is_new
    assert {run_id for run_id in committed_runs(lake) if run_id.startswith("learning-")} == {
        family.run_id,
        raised.run_id,
    }


# --- players ---


def test_the_oracle_solves_every_game_on_a_shortest_way(played):
    moves = rows(played, "steps", "oracle-hanoi_two")
    n_best = {
        row["participant_id"]: int(re.search(r"\d+", row["facts_json"])[0])
        for row in rows(played, "items").filter(pl.col("source_id") == "hanoi_two").to_dicts()
    }
    last = moves.filter(pl.col("is_last"))
    assert set(last["outcome"]) == {"solved"}
    assert dict(zip(last["episode_id"], last["step_index"] + 1, strict=True)) == n_best


def test_the_oracle_needs_no_further_example(played):
    assert rows(played, "steps", "oracle-numeric_property")["outcome"].to_list() == ["ready", "examined"] * 12


def test_the_silent_one_says_nothing_and_uses_up_every_budget(played):
    said = rows(played, "steps", "silent-")
    assert set(said["response_text"]) == {""}
    assert set(said["outcome"]) == {"unread", "examined"}


def test_guesses_are_made_anew_in_every_episode(played):
    exams = rows(played, "steps", "random-overshadowing")
    assert exams["response_text"].n_unique() > 6


def composite(row, values):
    """The formula as the document states it, without its last rounding."""
    n = len(values)
    x = np.arange(n)
    slope = ((x - x.mean()) * (np.array(values) - np.mean(values))).sum() / ((x - x.mean()) ** 2).sum()
    trajectory = (min(1.0, max(-1.0, slope * (n - 1))) + 1) / 2
    last = values[-max(1, n // 2) :]
    consistency = sum(v * w for v, w in zip(values, range(1, n + 1), strict=True)) / sum(range(1, n + 1))
    return 0.25 * sum(last) / len(last) + 0.25 * trajectory + 0.2 * consistency


@pytest.mark.parametrize(
    ("budget", "free", "n_rounds"), [(6, 2, 5), (7, 6, 5), (5, 1, 4), (4, 4, 3), (6, 2, 2)]
)
def test_the_oracle_holds_back_as_pays_most_among_all_ways_to_solve_the_rounds(budget, free, n_rounds):
    row = task("packet_filter_1", budget_steps=budget, min_explore_steps=free, practice_rounds=n_rounds)

    def efficiency(step):
        if step is None:
            return 0.0
        return 1.0 if step <= free else max(0.1, 1 - 0.9 * (step - free) / (budget - free))

    best = max(
        composite(row, [efficiency(step) for step in steps])
        for steps in itertools.product([None, *range(free, budget + 1)], repeat=n_rounds)
    )
    plan_ = most_paying_steps(row)
    assert len(plan_) == n_rounds
    assert composite(row, [efficiency(step) for step in plan_]) == pytest.approx(best, abs=1e-12)


def test_the_oracle_solves_each_round_at_the_action_that_it_plans():
    family = load_families()["packet_filter"]
    row = family.tasks[0]
    dialogue = dialogue_of(family, row)
    replies_of = Oracle().begin(row, dialogue, [""] * family.seeds.count, 0)
    state, lanes = dialogue.start(), list(range(family.seeds.count))
    solved_at = [{} for _ in lanes]
    while any(message is not None for message in dialogue.messages(state)):
        live = [lane for lane in lanes if dialogue.messages(state)[lane] is not None]
        places = {lane: dialogue.place(state, lane) for lane in live}
        replies = dict(zip(live, replies_of(state, live), strict=True))
        state, turns = dialogue.step(state, [replies.get(lane) for lane in lanes])
        for lane in live:
            if turns.outcomes[lane] == "solved":
                solved_at[lane][places[lane][0]] = places[lane][1] + 1
    planned = {number: step for number, step in enumerate(most_paying_steps(row)) if step is not None}
    assert planned
    assert solved_at == [planned] * len(lanes)


def test_the_prober_acts_alike_in_worlds_that_look_alike_until_it_is_told_otherwise():
    game = FindDigit()
    row = task("hanoi_two_1", budget_steps=9)
    actions = []
    for digit in (2, 8):
        dialogue = Exploration(row, game, np.array([digit]), 1)
        replies_of = Prober().begin(row, dialogue, ["one"], 0)
        state, said = dialogue.start(), []
        while dialogue.messages(state)[0] is not None:
            said += replies_of(state, [0])
            state, _ = dialogue.step(state, said[-1:])
        actions.append(said)
    # 0 and 1 are too low for both; then 2 is found, and every digit below 8 dropped one by one
    assert actions == [list("012"), list("012345678")]


def test_the_dice_of_an_agent_are_its_own():
    assert Dice("random", 1, "a/0").uniform() != Dice("random", 2, "a/0").uniform()
