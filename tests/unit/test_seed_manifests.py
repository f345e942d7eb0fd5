"""The declared rows, checked against rules stated here a second time and not read from the project."""

import csv
import math
import re
import tomllib
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

from generate.schedule import load_agents, load_schedules

MANIFESTS = Path(__file__).parents[2] / "manifests"
SEEDS = {
    "s1cogbench_modes": ("mode_id",),
    "s1cogbench_references": ("mode_id",),
    "s1cogbench_published": ("mode_id", "column_id"),
    "cognirank_components": ("component_id",),
    "cognirank_datasets": ("dataset_id",),
    "cognirank_metrics": ("component_id", "metric"),
    "learning_tasks": ("task_id",),
}

# domains and the modes under each, in the order of Table 3
ORDER = {
    "Evidence": ["bayesian_urn", "multiple_cue_judgment", "multi_attribute_choice", "probability_coherence"],
    "Category": ["shj_categories", "medin_categories", "weather_prediction"],
    "History": ["rlwm", "recent_probes"],
    "Adaptation": ["wcst_prediction", "wcst_autonomous", "restless_bandit", "instrumental_learning"],
    "Exploration": ["horizon_prediction", "horizon_autonomous", "stationary_bandits", "hybrid_sampling"],
    "Planning": ["mouselab_prediction", "mouselab_autonomous"],
    "Value": ["bart", "temporal_discounting", "two_step"],
    "Belief": ["false_belief_qa"],
    "Language": ["politeness", "pragmatic_interpretation", "nonliteral_number"],
    "Self-knowledge": ["self_assessment"],
}
COMPONENTS, DATASETS, METRICS = "cognirank_components", "cognirank_datasets", "cognirank_metrics"
MODELS = ["Laya", "Intern", "Llama", "Minitaur", "Qwen", "Jev", "Opus", "Sonnet", "Haiku"]
STATUSES = {"n.a.", "n.e.", "n.f.", "canc.", "part."}


# these modes are played; in the others an agent answers given items
PLAYED = {
    "wcst_autonomous",
    "restless_bandit",
    "instrumental_learning",
    "horizon_autonomous",
    "stationary_bandits",
    "mouselab_autonomous",
    "bart",
    "temporal_discounting",
    "two_step",
}
# other data than those behind the published row, each in the order of the rows
VARIANTS = {
    "multi_attribute_choice_frequencies": "multi_attribute_choice",
    "multi_attribute_choice_heck2017": "multi_attribute_choice",
    "weather_prediction_hmmr": "weather_prediction",
    "wcst_prediction_prl": "wcst_prediction",
    "temporal_discounting_bickel": "temporal_discounting",
    "temporal_discounting_titration": "temporal_discounting",
    "temporal_discounting_kirby": "temporal_discounting",
    "temporal_discounting_hbayesdm": "temporal_discounting",
    "recent_probes_psych_101": "recent_probes",
    "horizon_prediction_psych_101": "horizon_prediction",
}


def blocks(name):
    return tomllib.loads((MANIFESTS / f"{name}.toml").read_text(encoding="utf-8"))


def rows(seed):
    with (MANIFESTS / f"{seed}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def printf(value, decimals):
    return f"{value:.{decimals}f}"  # CPython rounds the binary value correctly, as C does


@pytest.fixture(scope="module")
def every_mode():
    return {row["mode_id"]: row for row in rows("s1cogbench_modes")}


@pytest.fixture(scope="module")
def modes(every_mode):
    return {mode: row for mode, row in every_mode.items() if not row["variant_of"]}


@pytest.fixture(scope="module")
def variants(every_mode):
    return {mode: row for mode, row in every_mode.items() if row["variant_of"]}


# files


@pytest.mark.parametrize("seed", SEEDS)
def test_an_empty_cell_is_bare_so_that_it_loads_as_null(seed):
    text = (MANIFESTS / f"{seed}.csv").read_bytes().decode("utf-8")
    assert not text.startswith("\ufeff"), "a byte order mark becomes part of the first column's name"
    assert "\r" not in text
    quoted_empty = re.search(r'(^|,)""(,|$)', text, re.MULTILINE)
    assert not quoted_empty, "a quoted empty cell loads as '' and not as null"


@pytest.mark.parametrize("seed", SEEDS)
def test_no_row_is_shifted_and_no_cell_is_padded(seed):
    for row in rows(seed):
        assert None not in row, row
        assert None not in row.values(), row
        assert all(value == value.strip() for value in row.values()), row
        assert "null" not in [value.lower() for value in row.values()], "the loader reads this word as a null"


@pytest.mark.parametrize(("seed", "key"), SEEDS.items())
def test_a_key_is_never_empty_and_never_repeated(seed, key):
    keys = Counter(tuple(row[column] for column in key) for row in rows(seed))
    assert set(keys.values()) == {1}
    assert all(all(cells) for cells in keys)


# modes


def test_modes_stand_in_published_order_and_each_domain_is_one_block(modes):
    expected = [(domain, mode) for domain, members in ORDER.items() for mode in members]
    assert [(row["domain"], mode) for mode, row in modes.items()] == expected
    assert [int(row["display_order"]) for row in modes.values()] == list(range(1, 28))
    assert len(ORDER) == 10


def test_scored_rules_share_out_all_27_modes(modes):
    assert Counter(row["scored_rule"] for row in modes.values()) == {
        "human_nll": 9,
        "credited_choice": 12,
        "report_error": 3,
        "episode_return": 3,
    }


def test_uniform_rules_share_out_all_27_modes(modes):
    assert Counter(row["uniform_rule"] for row in modes.values()) == {
        "log_legal": 9,
        "credited_share": 12,
        "continuous_report": 2,
        "integer_report": 1,
        "bart": 1,
        "mouselab": 1,
        "two_step": 1,
    }


@pytest.mark.parametrize(
    ("scored_rule", "uniform_rules", "units"),
    [
        ("human_nll", {"log_legal"}, {"nats"}),
        ("credited_choice", {"credited_share"}, {"percent"}),
        ("report_error", {"continuous_report", "integer_report"}, {"probability", "percentage points"}),
        ("episode_return", {"bart", "mouselab", "two_step"}, {"points"}),
    ],
)
def test_a_mode_and_its_uniform_are_in_the_same_unit(modes, scored_rule, uniform_rules, units):
    ruled = [row for row in modes.values() if row["scored_rule"] == scored_rule]
    assert {row["uniform_rule"] for row in ruled} == uniform_rules
    assert {row["unit"] for row in ruled} == units


def test_losses_are_better_low_and_a_preference_has_no_better_side(modes):
    for mode, row in modes.items():
        is_loss = row["scored_rule"] in {"human_nll", "report_error"}
        expected = "none" if mode == "temporal_discounting" else "lower" if is_loss else "higher"
        assert row["direction"] == expected, mode


def test_declared_support_alone_gives_the_printed_uniform_cell(modes):
    for mode, row in modes.items():
        if not row["declared_n_legal"]:
            continue
        k = int(row["declared_n_legal"])
        value = {"log_legal": math.log(k), "credited_share": 100 / k}[row["uniform_rule"]]
        assert printf(value, row["decimals"]) == row["uniform_printed"], mode


def test_support_is_declared_only_where_no_item_differs_and_no_tie_is_credited(modes):
    undeclared = {mode for mode, row in modes.items() if not row["declared_n_legal"]}
    ties_credited = {"instrumental_learning", "stationary_bandits"}
    supports_vary = {"mouselab_prediction", "politeness", "pragmatic_interpretation", "self_assessment"}
    reports = {"bayesian_urn", "probability_coherence", "nonliteral_number"}
    returns = {"mouselab_autonomous", "bart", "two_step"}
    assert undeclared == ties_credited | supports_vary | reports | returns


def test_episode_length_is_declared_only_where_it_is_fixed(modes):
    lengths = {mode: row["trials_per_episode"] for mode, row in modes.items() if row["trials_per_episode"]}
    assert lengths == {"bart": "45", "restless_bandit": "80"}


def test_nine_modes_are_played(modes):
    assert {mode for mode, row in modes.items() if row["is_played"] == "true"} == PLAYED


def test_the_items_of_a_mode_come_from_a_pinned_source_or_a_schedule(modes):
    schedules = {name: block["mode"] for name, block in blocks("environments").items()}
    # one environment plays one mode, and its items are that mode's items
    assert {mode: modes[mode]["item_source_id"] for mode in schedules.values()} == {
        mode: name for name, mode in schedules.items()
    }
    known = set(blocks("sources")) | set(schedules)
    for mode, row in modes.items():
        assert row["item_source_id"] in known or not row["item_source_id"], mode
        assert PLAYED.isdisjoint({mode}) or row["item_source_id"] in schedules, mode
    unidentified = {mode for mode, row in modes.items() if not row["item_source_id"]}
    assert unidentified == {"wcst_prediction", "hybrid_sampling"}


# variants


def test_variants_follow_the_published_rows_and_each_names_its_own(modes, variants, every_mode):
    assert list(every_mode) == [*modes, *variants]
    assert {mode: row["variant_of"] for mode, row in variants.items()} == VARIANTS
    assert [int(row["display_order"]) for row in variants.values()] == list(range(28, 28 + len(VARIANTS)))
    labels = [row["label"] for row in every_mode.values()]
    assert len(set(labels)) == len(labels)


def test_a_variant_is_scored_as_its_row_is_on_given_items_of_another_source(modes, variants):
    sources = set(blocks("sources"))
    for mode, row in variants.items():
        published = modes[row["variant_of"]]
        same = ("domain", "primary_target", "direction", "unit", "decimals", "scored_rule", "uniform_rule")
        assert {name: row[name] for name in same} == {name: published[name] for name in same}, mode
        assert row["is_played"] == "false", mode
        assert row["item_source_id"] in sources - {published["item_source_id"]}, mode
        assert row["source_status"] == "substitute", mode


def test_nothing_is_printed_of_a_variant(variants):
    assert [mode for mode, row in variants.items() if row["uniform_printed"]] == []
    assert [row["mode_id"] for row in rows("s1cogbench_published") if row["mode_id"] in variants] == []
    printed = ("reference_printed", "reference_mark", "value_unrounded")
    references = [row for row in rows("s1cogbench_references") if row["mode_id"] in variants]
    assert [row["mode_id"] for row in references if any(row[name] for name in printed)] == []


# references


def test_every_mode_has_one_reference_row_in_the_same_order(every_mode):
    assert [row["mode_id"] for row in rows("s1cogbench_references")] == list(every_mode)


def test_unrounded_reference_prints_as_the_cell_by_printf_and_not_by_half_up(modes):
    # 78.25 and 68.75 are exact in binary: ties to even give 78.2 and 68.8, half-up would give 78.3
    checked = {}
    for row in rows("s1cogbench_references"):
        if row["value_unrounded"]:
            mode = row["mode_id"]
            checked[mode] = printf(float(row["value_unrounded"]), modes[mode]["decimals"])
            assert checked[mode] == row["reference_printed"], mode
    assert (checked["weather_prediction"], checked["restless_bandit"]) == ("78.2", "68.8")


def test_a_footnote_mark_stands_on_as_many_references_as_its_footnote_covers(modes):
    references = [row for row in rows("s1cogbench_references") if row["mode_id"] in modes]
    marks = Counter(row["reference_mark"] for row in references)
    assert marks == {"†": 6, "¶": 9, "∗": 2, "§": 1, "": 9}


def test_provenance_keeps_the_authors_work_apart_from_ours():
    kinds = {"official", "reimplementation", "archived_replay", "human", "answer_key", "analytic", "unknown"}
    assert {row["kind"] for row in rows("s1cogbench_references")} <= kinds


def test_human_type_means_responses_without_a_fitted_model():
    for row in rows("s1cogbench_references"):
        assert (row["reference_type"] == "human") == (row["kind"] == "human"), row["mode_id"]


def test_what_a_reference_is_scored_against_fits_the_rule_of_its_mode(every_mode):
    targets = {
        ("human_nll", "false"): {"human_response"},
        ("report_error", "false"): {"posterior", "human_report", "human_mean"},
        ("credited_choice", "false"): {"objective_label"},
        # a likelihood of what humans did, or a label under their history, is no choice of the agent's own
        ("credited_choice", "true"): {"own_choice"},
        ("episode_return", "true"): {"own_outcome"},
    }
    for row in rows("s1cogbench_references"):
        mode = every_mode[row["mode_id"]]
        # what people chose in a task that agents play is their own choice too
        published = every_mode[mode["variant_of"] or mode["mode_id"]]
        assert row["target"] in targets[published["scored_rule"], published["is_played"]], row["mode_id"]
        assert row["decimals"] == mode["decimals"], row["mode_id"]


def test_an_agent_that_fills_a_cell_is_no_stand_in_and_every_other_cell_says_what_it_waits_for():
    agents = load_agents()
    for row in rows("s1cogbench_references"):
        filling, standing_in = row["agent_id"], row["stand_in_agent_id"]
        # an agent whose people cannot be had waits for them too
        assert filling or row["waits_for"], row["mode_id"]
        if filling:
            assert agents[filling].provenance != "substitute", filling
        if standing_in:
            assert agents[standing_in].provenance == "substitute", standing_in


def test_whoever_fills_a_cell_or_stands_in_for_it_is_a_reference_that_acts_in_its_mode():
    agents, schedules = load_agents(), load_schedules()
    named = {
        (row["mode_id"], agent)
        for row in rows("s1cogbench_references")
        for agent in (row["agent_id"], row["stand_in_agent_id"])
        if agent
    }
    assert named
    for mode, agent in named:
        assert agents[agent].kind == "reference", agent
        # an agent that names neither a schedule nor modes acts in all, and so is the reference of none
        schedule = agents[agent].schedule
        acts_in = {schedules[schedule].mode} if schedule else set(agents[agent].predicts)
        assert mode in acts_in, agent


def test_a_printed_reference_that_cannot_be_met_says_why_in_its_note():
    why = {"restless_bandit": "598", "stationary_bandits": "67.40", "mouselab_autonomous": "not public"}
    notes = {row["mode_id"]: row["note"] for row in rows("s1cogbench_references")}
    assert all(notes.values())
    for mode, reason in why.items():
        assert reason in notes[mode]


def test_a_human_prediction_and_an_autonomous_mode_never_share_one_reference_figure():
    figures = {row["mode_id"]: row["value_unrounded"] for row in rows("s1cogbench_references")}
    assert float(figures["mouselab_prediction"]) != float(figures["mouselab_autonomous"])


# published cells


def test_a_published_cell_names_a_known_mode_and_a_known_column(modes):
    cells = rows("s1cogbench_published")
    assert {cell["mode_id"] for cell in cells} == set(modes)
    assert {cell["column_id"] for cell in cells} == {"uniform", "reference", *MODELS}


def test_a_published_number_has_the_digits_of_its_mode_or_is_a_known_status(modes):
    for row in rows("s1cogbench_published"):
        printed = row["printed"]
        number = rf"\d+\.\d{{{modes[row['mode_id']]['decimals']}}}s?"
        assert printed in STATUSES or printed == "+∞" or re.fullmatch(number, printed), row


def test_plus_infinity_is_possible_only_where_a_probability_is_scored(modes):
    infinite = {row["mode_id"] for row in rows("s1cogbench_published") if row["printed"] == "+∞"}
    assert infinite
    assert {modes[mode]["scored_rule"] for mode in infinite} == {"human_nll"}


def test_published_uniform_cells_are_complete_and_the_same_in_both_files(modes):
    cells = [row for row in rows("s1cogbench_published") if row["column_id"] == "uniform"]
    assert {cell["mode_id"]: cell["printed"] for cell in cells} == {
        mode: row["uniform_printed"] for mode, row in modes.items()
    }


def test_published_reference_cells_agree_with_the_references():
    declared = {row["mode_id"]: row["reference_printed"] for row in rows("s1cogbench_references")}
    published = [row for row in rows("s1cogbench_published") if row["column_id"] == "reference"]
    assert len(published) == 12
    assert all(row["printed"] == declared[row["mode_id"]] for row in published)


def test_a_cut_or_unseen_cell_is_absent_and_not_guessed(modes):
    seen = Counter(r["mode_id"] for r in rows("s1cogbench_published") if r["column_id"] in MODELS)
    first_eleven = list(modes)[:11]
    assert seen == {**dict.fromkeys(first_eleven, len(MODELS)), "restless_bandit": 4}


# CogniRank


def test_component_weights_are_95ths_and_leave_nothing_over():
    weights = {
        row["component_id"]: Fraction(int(row["weight_numerator"]), int(row["weight_denominator"]))
        for row in rows("cognirank_components")
    }
    assert sum(weights.values()) == Fraction(95, 95)
    scores = {"smolcua": "61.25", "marc": "40", "procedural_pile": "37.5", "ttm": "55.05"}
    assert sum(weights[name] * Fraction(score) for name, score in scores.items()) == Fraction(18403, 380)


def test_rounded_display_weights_must_not_be_computed_with():
    components = rows("cognirank_components")
    assert sum(Fraction(row["display_weight_pct"]) for row in components) == Fraction("100.01")
    for row in components:
        exact = 100 * int(row["weight_numerator"]) / int(row["weight_denominator"])
        assert printf(exact, 2) == row["display_weight_pct"]


def test_a_component_that_scores_options_generates_nothing():
    capped = {row["component_id"]: row["max_response_tokens"] for row in rows("cognirank_components")}
    assert capped == {"smolcua": "512", "marc": "200", "procedural_pile": "512", "ttm": ""}


def test_a_component_is_pinned_to_a_commit_and_never_to_a_branch():
    for row in rows("cognirank_components"):
        assert re.fullmatch(r"[0-9a-f]{40}", row["revision"]), row["component_id"]
        assert re.fullmatch(r"([0-9a-f]{64})?", row["source_sha256"]), row["component_id"]


def test_a_component_has_the_examples_the_caps_and_the_batches_of_the_document():
    columns = (
        "n_examples",
        "max_response_tokens",
        "max_response_tokens_short",
        "batch_size",
        "prompt_style",
        "resumes_by",
        "chance_pct",
    )
    assert {row["component_id"]: tuple(row[name] for name in columns) for row in rows(COMPONENTS)} == {
        "smolcua": (str(3 * 400), "512", "48", "32", "chat_or_plain", "prediction", ""),
        "marc": (str(4 * 4 * 20), "200", "", "32", "plain", "component", ""),
        "procedural_pile": (str(20 * 7 + 35 * 6), "512", "", "8", "chat_or_plain", "prediction", ""),
        "ttm": ("2000", "", "", "8", "plain", "component", "25"),
    }
    assert {(row["context_tokens"], row["dtype"]) for row in rows(COMPONENTS)} == {("4096", "bfloat16")}


def test_parts_of_a_component_are_of_one_size_and_named_by_a_fact():
    parts = {row["component_id"]: (row["stratum_fact"], int(row["n_strata"])) for row in rows(COMPONENTS)}
    # three passes, MARC-0 to MARC-3; the pile is the mean of its rows and not of its families
    assert parts == {"smolcua": ("pass", 3), "marc": ("level", 4), "procedural_pile": ("", 1), "ttm": ("", 1)}
    for row in [*rows(COMPONENTS), *rows(DATASETS)]:
        assert int(row["n_examples"]) % parts[row["component_id"]][1] == 0, row
    clusters = {row["component_id"]: row["cluster_fact"] for row in rows(COMPONENTS) if row["cluster_fact"]}
    assert clusters == {"procedural_pile": "task"}


def test_a_component_has_one_published_data_set_and_what_stands_in_has_another_name():
    components = {row["component_id"]: row for row in rows(COMPONENTS)}
    published = {row["component_id"]: row for row in rows(DATASETS) if row["is_stand_in"] == "false"}
    stand_ins = {row["component_id"]: row for row in rows(DATASETS) if row["is_stand_in"] == "true"}
    assert published.keys() == stand_ins.keys() == components.keys()
    assert len(rows(DATASETS)) == len(published) + len(stand_ins)
    for component, row in published.items():
        assert row["n_examples"] == components[component]["n_examples"], component
        assert row["dataset_id"] == component
    assert [row for row in stand_ins.values() if not row["dataset_id"].endswith("_like")] == []


def test_what_is_made_here_is_the_source_of_stand_ins_and_of_no_published_data_set(every_mode):
    sources = {row["source_id"]: row["is_stand_in"] == "true" for row in rows(DATASETS)}
    assert len(sources) == len(rows(DATASETS))
    # what is published and not pinned yet has no block
    kinds = {name: block["kind"] for name, block in blocks("sources").items() if name in sources}
    assert {name for name, is_stand_in in sources.items() if is_stand_in} <= kinds.keys()
    assert {name for name, kind in kinds.items() if kind == "generated"} == {
        name for name, is_stand_in in sources.items() if is_stand_in
    }
    assert {row["dataset_id"] for row in rows(DATASETS)}.isdisjoint(every_mode)


def test_a_component_has_one_score_and_what_else_is_computed_is_none():
    primary = {row["component_id"]: row["metric"] for row in rows(METRICS) if row["is_primary"] == "true"}
    assert primary == {
        "smolcua": "points",
        "marc": "exact_match",
        "procedural_pile": "reward",
        "ttm": "accuracy_per_token",
    }
    assert len(primary) == sum(row["is_primary"] == "true" for row in rows(METRICS))
    # values of items are 0 to 1, scores 0 to 100
    assert {(row["unit"], row["scale"]) for row in rows(METRICS)} == {("percent", "100")}
    # two metrics of one rule and readout would be one number under two names
    read = Counter((row["component_id"], row["rule"], row["readout"]) for row in rows(METRICS))
    assert set(read.values()) == {1}


def test_a_rule_has_the_readouts_that_its_rows_have():
    readouts = {}
    for row in rows(METRICS):
        readouts.setdefault(row["rule"], []).append(row["readout"])
    [grader] = blocks("graders").values()
    assert readouts == {
        "answer_match": ["", ""],
        "verdict": grader["answer_rules"],
        "normalised_likelihood": ["token", "sum", "character", "byte"],
    }


def test_verdicts_count_of_the_grader_that_is_installed_alone():
    graders = blocks("graders")
    for row in rows(METRICS):
        if row["rule"] == "verdict":
            assert row["grader_version"] == graders[row["grader_id"]]["version"], row
        else:
            assert row["grader_id"] == row["grader_version"] == "", row
    # the response as it is scores; other ways to take an answer from it are metrics of their own
    primary = {
        row["readout"] for row in rows(METRICS) if row["rule"] == "verdict" and row["is_primary"] == "true"
    }
    assert primary == {grader["answer_rules"][0] for grader in graders.values()} == {"raw-v1"}


def test_a_grader_is_pinned_and_its_version_says_to_what():
    for name, grader in blocks("graders").items():
        package, _, version = grader["package"].partition("==")
        assert package.replace("-", "_") == name
        assert re.fullmatch(r"\d+(\.\d+)+", version), name
        # with the names of the patches, since they move verdicts as well
        assert grader["version"].split("+")[0] == version
        assert all(re.fullmatch(r"[a-z0-9-]+-v\d+", patch) for patch in grader["version"].split("+")[1:])
        assert all(re.fullmatch(r"[a-z-]+-v\d+", rule) for rule in grader["answer_rules"])
        assert len(set(grader["answer_rules"])) == len(grader["answer_rules"])
        assert 0 < grader["timeout_s"] < math.inf
        assert grader["memory_mib"] > 0


# Learning

WEIGHTS = {
    "fraction_correct": {"accuracy": "1"},
    "active_induction": {"accuracy": "0.40", "efficiency": "0.60"},
    "runtime_rl": {"success": "0.55", "efficiency": "0.25", "progress": "0.20"},
    "procedural": {"transfer": "0.30", "asymptote": "0.25", "trajectory": "0.25", "consistency": "0.20"},
}
# a parameter of a rule, and the values that it may have: those of the document's tasks
PARAMETERS = {
    "fraction_correct": {"n_test_items": (4, 11)},
    "active_induction": {
        "free_threshold": (3, 10),
        "initial_examples": (0, 15),
        "max_examples": (12, 40),
        "n_test_items": (4, 4),
        "efficiency_floor": (0, 0),
    },
    "runtime_rl": {
        "budget_steps": (18, 44),
        "min_explore_steps": (5, 13),
        "efficiency_floor": (0.1, 0.1),
        "score_decimals": (4, 4),
    },
    "procedural": {
        "n_test_items": (4, 4),
        "practice_rounds": (5, 5),
        "budget_steps": (2, 44),
        "min_explore_steps": (1, 13),
        "efficiency_floor": (0.1, 0.1),
        "asymptote_share": (0.5, 0.5),
        "trajectory_decimals": (4, 4),
        "score_decimals": (4, 4),
        "epsilon": (1e-9, 1e-9),
    },
}
# how many families a category has at least, its rule, and how its answers may be compared
CATEGORIES = {
    "associative_learning": (8, "fraction_correct", {"substring", "integer"}),
    "concept_formation": (8, "active_induction", {"substring", "integer", "sequence"}),
    "language_learning": (8, "active_induction", {"exact_nfc"}),
    "observational_learning": (10, "fraction_correct", {"substring", "integer", "exact_nfc", "sequence"}),
    "runtime_rl": (8, "runtime_rl", {"none"}),
    "procedural_learning": (6, "procedural", {"substring", "integer", "exact_nfc", "sequence"}),
}


@pytest.fixture(scope="module")
def tasks():
    """Tasks whose instances are made here."""
    return [row for row in rows("learning_tasks") if row["family_id"]]


def test_each_family_is_a_task_at_each_of_three_levels(tasks):
    levels = Counter((task["category"], task["family_id"]) for task in tasks)
    assert set(levels.values()) == {3}
    # a family is of one category
    assert len({family for _, family in levels}) == len(levels)
    assert {task["task_id"] for task in tasks} == {
        f"{family}_{level}" for _, family in levels for level in (1, 2, 3)
    }
    assert all(task["task_id"] == f"{task['family_id']}_{task['level']}" for task in tasks)
    n_families = Counter(category for category, _ in levels)
    assert n_families.keys() == CATEGORIES.keys()
    assert all(n_families[category] >= least for category, (least, _, _) in CATEGORIES.items()), n_families


def test_families_are_those_of_their_categorys_manifest(tasks):
    declared = {(category, family) for category in CATEGORIES for family in blocks(f"learning/{category}")}
    assert {(task["category"], task["family_id"]) for task in tasks} == declared


def test_the_named_tasks_are_there(tasks):
    families = {task["family_id"] for task in tasks}
    assert families >= {"hidden_state_machine", "hidden_group_operation", "drelkovak", "gwelthar"}
    assert families >= {"hanoi_two", "mastermind_classic", "wordle_micro"}


def test_a_task_is_made_here_or_comes_from_a_source_and_never_both():
    for task in rows("learning_tasks"):
        is_made_here = bool(task["family_id"])
        assert bool(task["level"]) == is_made_here, task["task_id"]
        assert bool(task["source_id"]) != is_made_here, task["task_id"]
        assert is_made_here or task["source_id"] in blocks("sources"), task["task_id"]


def test_no_two_tasks_share_a_label():
    labels = Counter(task["label"] for task in rows("learning_tasks"))
    assert [label for label, n in labels.items() if n > 1] == []


def test_a_category_has_one_rule():
    rules = {(task["category"], task["score_rule"]) for task in rows("learning_tasks")}
    assert rules == {(category, rule) for category, (_, rule, _) in CATEGORIES.items()}


def test_weights_of_a_rule_add_up_to_one_and_no_other_rule_leaks_in():
    for task in rows("learning_tasks"):
        weights = {
            column.removeprefix("weight_"): Fraction(value)
            for column, value in task.items()
            if column.startswith("weight_") and value
        }
        assert sum(weights.values()) == 1, task["task_id"]
        expected = {name: Fraction(weight) for name, weight in WEIGHTS[task["score_rule"]].items()}
        assert weights == expected, task["task_id"]


def test_a_task_has_every_parameter_of_its_rule_within_the_documents_range_and_no_other(tasks):
    named = {name for parameters in PARAMETERS.values() for name in parameters}
    for task in tasks:
        ranges = PARAMETERS[task["score_rule"]]
        assert {name for name in named if task[name]} == ranges.keys(), task["task_id"]
        for name, (low, high) in ranges.items():
            assert low <= float(task[name]) <= high, (task["task_id"], name, task[name])
        if task["category"] == "associative_learning":
            assert 6 <= int(task["n_test_items"]) <= 11, task["task_id"]


def test_parameters_of_a_formula_vary_over_tasks(tasks):
    def values(category, column):
        return {task[column] for task in tasks if task["category"] == category}

    for category in ("concept_formation", "language_learning"):
        for column in ("free_threshold", "initial_examples", "max_examples"):
            assert len(values(category, column)) > 2, (category, column)
    for column in ("budget_steps", "min_explore_steps"):
        assert len(values("runtime_rl", column)) > 2, column
    assert len(values("associative_learning", "n_test_items")) > 2


def test_free_examples_and_free_steps_leave_something_to_pay_for(tasks):
    # a task that is free to the end tells nobody apart
    for task in tasks:
        if task["max_examples"]:
            free = max(int(task["initial_examples"]), int(task["free_threshold"]))
            assert int(task["max_examples"]) > free, task["task_id"]
        if task["budget_steps"]:
            assert int(task["budget_steps"]) > int(task["min_explore_steps"]), task["task_id"]


def test_progress_counts_without_success_so_runtime_rl_has_no_zero_guard():
    for task in rows("learning_tasks"):
        expected = task["score_rule"] in {"active_induction", "procedural"}
        assert (task["has_zero_guard"] == "true") == expected, task["task_id"]


def test_answers_are_compared_as_their_category_says():
    for task in rows("learning_tasks"):
        assert task["match_kind"] in CATEGORIES[task["category"]][2], task["task_id"]
