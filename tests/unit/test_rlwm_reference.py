"""The replay of archived fits: does it follow the model trial by trial, and see nothing that came later?"""

import json
import math
import random

import polars as pl
import pyarrow.dataset as ds
import pytest
from pytest import approx
from rlwm_files import FIRST, VALUES, fits_file, ingested, trials_file

from generate.contract import PredictsPeople, Training
from generate.pipeline import generate, plan
from generate.references.rlwm import ArchivedReplay
from generate.schedule import load_agents
from store.errors import EngineFailed
from store.lake import part_paths
from store.schemas import RAW_TABLES

MODEL = "model 2: WM RL0 0"
REPLAY = ArchivedReplay(model=MODEL)
PLAIN = {
    "alphaRL": 0.1,
    "stick": 0.05,
    "rho": 0.9,
    "forget": 0.2,
    "epsilon": 0.02,
    "biasWM": 0.3,
    "biasRL": 0.0,
    "r0": 0.0,
    "K": 3.0,
    "interact": 0.0,
    "value": 1.0,
}
COLUMNS = ("item_id", "participant_id", "legal_options", "credited_options", "facts_json", "response")


def archived(parameters, model=MODEL):
    """Parameters by participant -> rows of ``raw/fits``."""
    return pl.DataFrame(
        [
            {"dataset": "Expe1", "family": model, "participant_id": who, "parameter": name, "value": value}
            for who, values in parameters.items()
            for name, value in values.items()
        ],
        schema={
            "dataset": pl.String,
            "family": pl.String,
            "participant_id": pl.String,
            "parameter": pl.String,
            "value": pl.Float64,
        },
    )


def row(who, trial, block, set_size, picture, right, key):
    facts = {"trial": trial, "block": block, "set_size": set_size, "stimulus": picture}
    return dict(
        zip(
            COLUMNS,
            (f"{who}/{trial}", who, ["1", "2", "3"], [str(right)], json.dumps(facts), str(key)),
            strict=True,
        )
    )


def blocks_of(draw, who, sizes):
    """Draw what one participant did: some blocks are longer, and some trials were not answered."""
    rows, trial = [], 0
    for block, size in enumerate(sizes, start=1):
        right = [draw.randint(1, 3) for _ in range(size)]
        for picture in draw.choices(range(1, size + 1), k=draw.randint(1, 8 * size)):
            if draw.random() > 0.1:
                # more often right than not, as people are
                key = right[picture - 1] if draw.random() < 0.5 else draw.randint(1, 3)
                rows.append(row(who, trial, block, size, picture, right[picture - 1], key))
            trial += 1
    return rows


def table(rows):
    schema = {name: pl.List(pl.String) if name.endswith("options") else pl.String for name in COLUMNS}
    return pl.DataFrame(rows, schema=schema)


def predicted(rows, parameters):
    """Return the log-probabilities of the keys by item."""
    trials = table(rows)
    estimate = REPLAY.fit(Training(trials.clear(), archived(parameters)))
    found = REPLAY.predict(estimate, trials)
    assert found.columns == ["item_id", "participant_id", "logprobs_nats"]
    return dict(found.select("item_id", "logprobs_nats").iter_rows())


# ---- an oracle: one trial at a time, one number at a time ----


def softmax(values, lapse):
    odds = [math.exp(25 * value) for value in values]
    return [lapse / 3 + (1 - lapse) * one / sum(odds) for one in odds]


def oracle(rows, of):
    """Return the probabilities of each trial of one participant, in the order of the rows."""
    found, block = [], None
    for one in rows:
        facts = json.loads(one["facts_json"])
        picture, size = facts["stimulus"], facts["set_size"]
        if facts["block"] != block:
            block, last, habit, memory = facts["block"], None, {}, {}
        share = of["rho"] * min(1, of["K"] / size)
        if last is None:
            found.append([1 / 3] * 3)
        else:
            seen_habit = [habit.get((picture, key), 1 / 3) for key in (1, 2, 3)]
            seen_memory = [memory.get((picture, key), 1 / 3) for key in (1, 2, 3)]
            for values in (seen_habit, seen_memory):
                values[last - 1] += of["stick"]
            pairs = zip(softmax(seen_memory, of["epsilon"]), softmax(seen_habit, of["epsilon"]), strict=True)
            found.append([share * one + (1 - share) * other for one, other in pairs])
        key = int(one["response"])
        is_right = one["credited_options"] == [one["response"]]
        memory = {place: value + of["forget"] * (1 / 3 - value) for place, value in memory.items()}
        before_habit, before_memory = habit.get((picture, key), 1 / 3), memory.get((picture, key), 1 / 3)
        mix = share if of["interact"] else 0
        expected = mix * before_memory + (1 - mix) * before_habit
        lesson = 1 if is_right or not of["value"] else of["r0"]
        rate = of["alphaRL"] * (1 if is_right else of["biasRL"])
        habit[picture, key] = before_habit + rate * (lesson - expected)
        memory[picture, key] = before_memory + (1 if is_right else of["biasWM"]) * (is_right - before_memory)
        last = key
    return found


def drawn_parameters(draw):
    found = {name: draw.random() for name in PLAIN}
    return found | {
        "stick": draw.uniform(-0.3, 0.3),
        "K": float(draw.randint(2, 5)),
        "interact": float(draw.random() < 0.5),
        "value": float(draw.random() < 0.5),
    }


def people(seed, n=6):
    draw = random.Random(seed)
    rows = {
        f"Expe{number % 2}/{number}": blocks_of(
            draw, f"Expe{number % 2}/{number}", draw.choices(range(1, 7), k=4)
        )
        for number in range(n)
    }
    return rows, {who: drawn_parameters(draw) for who in rows}


@pytest.mark.parametrize("seed", range(6))
def test_it_agrees_with_one_trial_at_a_time(seed):
    rows, parameters = people(seed)
    everything = [one for of_person in rows.values() for one in of_person]
    found = predicted(random.Random(seed).sample(everything, len(everything)), parameters)
    assert set(found) == {one["item_id"] for one in everything}
    for who, of_person in rows.items():
        for one, probabilities in zip(of_person, oracle(of_person, parameters[who]), strict=True):
            assert [math.exp(value) for value in found[one["item_id"]]] == approx(probabilities, abs=1e-12)


# ---- the rule by hand ----


def probabilities(keys, pictures=None, right=1, size=1, **changes):
    """Probabilities of the trial after the last of some keys, of one participant in one block."""
    pictures = pictures or [1] * (len(keys) + 1)
    keys = [*keys, 1]
    rows = [
        row("Expe1/1", trial, 1, size, picture, right, key)
        for trial, (key, picture) in enumerate(zip(keys, pictures, strict=True))
    ]
    found = predicted(rows, {"Expe1/1": PLAIN | changes})
    return [math.exp(value) for value in found[f"Expe1/1/{len(keys) - 1}"]]


def test_the_first_trial_of_a_block_is_even():
    assert probabilities([]) == approx([1 / 3] * 3)


def test_a_perfect_memory_alone_repeats_what_was_right():
    found = probabilities([1], rho=1.0, K=5.0, forget=0.0, epsilon=0.0, stick=0.0)
    # 1 for the key that was right, 1/3 for the others
    assert found == approx([1 / (1 + 2 * math.exp(25 * (1 / 3 - 1)))] + [found[1]] * 2)


def test_a_wrong_key_is_unlearned_by_memory_and_not_by_habit():
    in_memory = probabilities([2], rho=1.0, K=5.0, biasWM=1.0, forget=0.0, epsilon=0.0, stick=0.0)
    assert in_memory == approx([1 / (2 + math.exp(-25 / 3)), in_memory[1], in_memory[0]])
    assert in_memory[1] < 0.001
    assert probabilities([2], rho=0.0, epsilon=0.0, stick=0.0) == approx([1 / 3] * 3)


def test_memory_forgets_between_trials_of_other_pictures():
    settings = {"rho": 1.0, "K": 5.0, "epsilon": 0.0, "stick": 0.0, "size": 2, "biasWM": 0.0}
    found = probabilities([1, 2], pictures=[1, 2, 1], forget=0.5, **settings)
    # 1 has come half way back to 1/3
    assert found[0] == approx(1 / (1 + 2 * math.exp(-25 / 3)))


def test_memory_counts_less_the_more_pictures_there_are():
    settings = {"K": 2.0, "rho": 1.0, "forget": 0.0, "epsilon": 0.0, "stick": 0.0, "alphaRL": 0.0}
    whole, half = (probabilities([1], size=size, **settings) for size in (2, 4))
    assert half == approx([(one + 1 / 3) / 2 for one in whole])


def test_a_lapse_makes_keys_even_and_stickiness_repeats():
    assert probabilities([1], epsilon=1.0) == approx([1 / 3] * 3)
    sticky = probabilities([2], stick=0.1, epsilon=0.0, alphaRL=0.0, rho=0.0)
    assert sticky[1] / sticky[0] == approx(math.exp(2.5)) and sticky[0] == approx(sticky[2])


# ---- what it may look at ----


def test_nothing_that_came_later_changes_a_prediction():
    rows, parameters = people(seed=11, n=3)
    everything = [one for of_person in rows.values() for one in of_person]
    before = predicted(everything, parameters)
    for cut in range(0, len(everything), 7):
        # what was done at the cut, and all that follows in the session, is exchanged
        changed = [
            one | {"response": str(1 + int(one["response"]) % 3), "credited_options": one["credited_options"]}
            if place >= cut
            else one
            for place, one in enumerate(everything)
        ]
        after = predicted(changed, parameters)
        kept = [one["item_id"] for one in everything[: cut + 1]]
        assert [after[item] for item in kept] == [before[item] for item in kept]
    assert after != before


def test_the_right_key_of_a_trial_is_not_known_before_its_outcome():
    rows, parameters = people(seed=12, n=1)
    [of_person] = rows.values()
    before = predicted(of_person, parameters)
    moved = [*of_person[:-1], of_person[-1] | {"credited_options": ["3"]}]
    assert predicted(moved, parameters) == before


def test_other_participants_and_other_blocks_change_nothing():
    rows, parameters = people(seed=13, n=2)
    first, second = rows
    both = predicted([*rows[first], *rows[second]], parameters)
    alone = predicted(rows[first], parameters)
    assert {item: both[item] for item in alone} == alone
    in_last = [one for one in rows[first] if json.loads(one["facts_json"])["block"] == 4]
    assert predicted(in_last, parameters) == {one["item_id"]: alone[one["item_id"]] for one in in_last}


def test_it_learns_from_no_response():
    assert REPLAY.exposure == "nothing" and isinstance(REPLAY, PredictsPeople)
    rows, parameters = people(seed=14, n=2)
    estimates = [
        REPLAY.fit(Training(table(learned_from), archived(parameters)))
        for learned_from in ([], [one for of_person in rows.values() for one in of_person])
    ]
    assert estimates[0].parameters.equals(estimates[1].parameters)
    assert estimates[0].fits == estimates[1].fits


# ---- parameters ----


def test_the_parameters_are_those_of_the_archive_and_are_kept_as_fits():
    rows, parameters = people(seed=15, n=2)
    other = archived({who: PLAIN for who in parameters}, "model 9: WM1 RL1 0")
    estimate = REPLAY.fit(Training(table([]), pl.concat([archived(parameters), other])))
    found = {(fit.participant_id, fit.parameter): fit.value for fit in estimate.fits}
    assert found == {(who, name): value for who, of in parameters.items() for name, value in of.items()}
    assert "model 2: WM RL0 0" in estimate.training_set
    first = next(iter(rows))
    assert estimate.parameters.filter(participant_id=first).to_dicts() == [
        {"participant_id": first} | parameters[first]
    ]


def test_a_participant_without_a_parameter_is_not_predicted():
    rows, parameters = people(seed=16, n=3)
    first, second, third = rows
    parameters[first]["rho"] = None
    del parameters[second]
    everything = [one for of_person in rows.values() for one in of_person]
    assert set(predicted(everything, parameters)) == {one["item_id"] for one in rows[third]}
    assert predicted(rows[first], parameters) == {}


def test_a_model_that_is_not_archived_is_named():
    for rows in (archived({}), archived({"Expe1/1": PLAIN}, "model 9: WM1 RL1 0")):
        with pytest.raises(EngineFailed, match="expected archived parameters of model 2: WM RL0 0, found"):
            REPLAY.fit(Training(table([]), rows))


# ---- from the file to the rows ----


def rows_of(lake, name, run):
    paths = [str(path) for path in part_paths(lake, name) if f"run={run}" in str(path)]
    return ds.dataset(paths, schema=RAW_TABLES[name]).to_table().to_pylist()


def test_a_replay_of_imported_trials_gives_every_option_its_probability(tmp_path):
    draw, rows = random.Random(5), []
    for number in (1, 2):
        for one in blocks_of(draw, f"Expe1/{number}", (2, 5)):
            facts = json.loads(one["facts_json"])
            key, right = int(one["response"]), int(one["credited_options"][0])
            rows.append(
                FIRST
                | {"subno": number, "block": facts["block"], "ns": facts["set_size"], "time": facts["trial"]}
                | {"stimseq": facts["stimulus"], "corAseq": right, "choice": key}
                | {"cor": int(key == right), "rew": int(key == right)}
            )
    # answered too soon: no item, and nothing is learned from it
    too_soon = rows[-1] | {"time": rows[-1]["time"] + 1, "rt": 0.1}
    lake, report = ingested(tmp_path, trials_file([*rows, too_soon]), fits_file((1, 2)))
    assert report.failures == ()

    agent = load_agents()["rlwm_replay"]
    assert agent.provenance == "archived_replay" and agent.made() == REPLAY
    tasks = plan(lake, [agent], {})
    [done] = generate(lake, tasks)
    assert (done.mode_id, done.n_rows) == ("rlwm", len(rows))

    fits = rows_of(lake, "fits", "rlwm_replay")
    assert {fit["provenance"] for fit in fits} == {"archived_replay"} and len(fits) == 2 * len(PLAIN)
    responses = {one["item_id"]: one for one in rows_of(lake, "human_responses", "rlwm-")}
    options = rows_of(lake, "output_options", "rlwm_replay")
    assert len(options) == 3 * len(rows)
    items = sorted(rows_of(lake, "items", "rlwm-"), key=lambda one: json.loads(one["facts_json"])["trial"])
    of = PLAIN | dict(
        zip(("alphaRL", "stick", "rho", "forget", "epsilon", "biasWM", "K"), VALUES, strict=True)
    )
    for who in ("Expe1/1", "Expe1/2"):
        done = [one | {"response": responses[one["item_id"]]["response"]} for one in items]
        done = [one for one in done if one["participant_id"] == who]
        for one, expected in zip(done, oracle(done, of), strict=True):
            found = {
                option["option"]: math.exp(option["logprob_nats"])
                for option in options
                if option["item_id"] == one["item_id"]
            }
            assert [found[key] for key in ("1", "2", "3")] == approx(expected, abs=1e-12)
