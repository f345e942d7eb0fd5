"""Are urn questions drawn by the published rule, and does the analytic agent answer them exactly?"""

import json
import re
from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.stats import chisquare

from generate.agents.bayes import Bayes
from generate.environments.urn import Urn, Urns
from generate.pipeline import ensure_items
from generate.schedule import load_agents, load_schedules
from store.errors import EngineFailed
from store.lake import ensure_schema_parts, part_paths
from store.schemas import ITEMS
from store.settings import Home

INFORMATIVE = (1, 2, 3, 7, 8, 9)
UNINFORMATIVE = (4, 5, 5, 6)
URNS = Urns(informative_tenths=INFORMATIVE, uninformative_tenths=UNINFORMATIVE)
seed_lists = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=5, unique=True)


def items_of(seeds, environment=URNS):
    return environment.items(environment.episodes(seeds))


def questions(facts):
    return pa.table(
        {
            "item_id": [f"item {number}" for number in range(len(facts))],
            "facts_json": [json.dumps(each) for each in facts],
        }
    )


def answered(facts):
    return Bayes().answer(questions(facts))["response_number"].to_pylist()


def drawn_by_hand(seed):
    """Both questions of a run, in plain Python: (prior, red in the left urn, whether the ball is red)."""
    numbers = iter(np.random.RandomState(seed).random_sample(8).tolist())
    for is_likelihood_informative in (True, False):
        informative = INFORMATIVE[int(6 * next(numbers))]
        uninformative = UNINFORMATIVE[int(4 * next(numbers))]
        prior = uninformative if is_likelihood_informative else informative
        red = informative if is_likelihood_informative else uninformative
        # the wheel has sections 0 to 9, of which the first ones are the left urn's; so have the urns balls
        is_left = int(10 * next(numbers)) in range(prior)
        is_red = int(10 * next(numbers)) in range(red if is_left else 10 - red)
        yield prior, red, is_red


@settings(max_examples=50, deadline=None)
@given(seeds=seed_lists)
def test_a_run_asks_what_it_asks_by_hand(seeds):
    items = items_of(seeds)
    assert [item.item_id for item in items] == [f"{seed}/{question}" for seed in seeds for question in (0, 1)]
    by_hand = [question for seed in seeds for question in drawn_by_hand(seed)]
    for item, (prior, red, is_red) in zip(items, by_hand, strict=True):
        likelihood = red if is_red else 10 - red
        assert item.facts == {
            "prior": float(Fraction(prior, 10)),
            "likelihood": float(Fraction(likelihood, 10)),
            "is_likelihood_informative": item.item_id.endswith("/0"),
            "red_share_left": float(Fraction(red, 10)),
            "red_share_right": float(Fraction(10 - red, 10)),
            "is_red": is_red,
        }
        left, right = Fraction(prior * likelihood), Fraction((10 - prior) * (10 - likelihood))
        assert item.target == float(left / (left + right))
        assert (item.support_low, item.support_high, item.legal_options) == (0.0, 1.0, None)


@settings(max_examples=50, deadline=None)
@given(seeds=seed_lists)
def test_a_prompt_says_all_that_is_visible_and_nothing_else(seeds):
    items = items_of(seeds)
    by_hand = [question for seed in seeds for question in drawn_by_hand(seed)]
    for item, (prior, red, is_red) in zip(items, by_hand, strict=True):
        counts = [int(number) for number in re.findall(r"\d+", item.prompt)]
        # the last are the ends of the scale
        assert counts == [red, 10 - red, 10 - red, red, prior, 10 - prior, 0, 1]
        [colour] = re.findall(r"The ball is (\w+)\.", item.prompt)
        assert colour == ("red" if is_red else "blue")
        assert item.prompt.endswith("\nAnswer:") and "{" not in item.prompt


def test_prompts_of_one_question_are_the_same_whichever_urn_was_drawn_from():
    """The urn is hidden: what is visible decides the prompt."""
    prompts = {}
    for item in items_of(range(500)):
        visible = (item.facts["prior"], item.facts["red_share_left"], item.facts["is_red"])
        assert prompts.setdefault(visible, item.prompt) == item.prompt
    assert len(set(prompts.values())) == len(prompts)


def test_the_words_of_the_schedule_version_stay_as_they_are():
    """Items of one version never change: other words are another version."""
    assert load_schedules()["bayesian_urn"].version == 2
    assert {(item.template_id, item.template_sha256[:12]) for item in items_of([1, 2])} == {
        ("bayesian_urn", "3b19d5985a18")
    }


def test_items_in_the_lake_carry_their_prompts(tmp_path):
    lake = Home(tmp_path / "lake")
    ensure_schema_parts(lake)
    ensure_items(lake, load_schedules()["bayesian_urn"])
    paths = [str(path) for path in part_paths(lake, "items")]
    found = ds.dataset(paths, schema=ITEMS).to_table().to_pylist()
    assert len(found) == 400 and found[0]["item_id"].startswith("bayesian_urn@2/")
    schedule = load_schedules()["bayesian_urn"]
    items = schedule.environment().items(schedule.environment().episodes(schedule.seeds.range))
    names = ("prompt", "template_id", "template_sha256")
    assert [[row[name] for name in names] for row in found] == [
        [item.prompt, item.template_id, item.template_sha256] for item in items
    ]


@settings(max_examples=20, deadline=None)
@given(seeds=seed_lists, data=st.data())
def test_a_run_is_the_same_in_any_schedule(seeds, data):
    chosen = data.draw(st.permutations(seeds)).copy()[: data.draw(st.integers(0, len(seeds)))]
    whole = {item.item_id: item for item in items_of(seeds)}
    assert items_of(chosen) == [whole[f"{seed}/{question}"] for seed in chosen for question in (0, 1)]


def test_the_generator_has_the_expectation_that_follows_from_its_rule():
    expectation = Fraction()
    for informative, uninformative, is_likelihood, is_red in product(
        INFORMATIVE, UNINFORMATIVE, (True, False), (True, False)
    ):
        prior, red = (uninformative, informative) if is_likelihood else (informative, uninformative)
        urn = Urn(is_likelihood, prior, red, is_red)
        likelihood = Fraction(urn.likelihood, 10)
        of_colour = Fraction(prior, 10) * likelihood + (1 - Fraction(prior, 10)) * (1 - likelihood)
        p = urn.posterior
        expectation += of_colour * (p**2 + (1 - p) ** 2) / 2 / (6 * 4 * 2)
    assert expectation == Fraction(2302997, 6603300)
    errors = [(item.target**2 + (1 - item.target) ** 2) / 2 for item in items_of(range(2000))]
    assert abs(np.mean(errors) - float(expectation)) < 4 * np.std(errors) / np.sqrt(2000)


def test_questions_are_drawn_as_often_as_the_rule_says():
    items = items_of(range(6000))
    for question, names in ((0, ("red_share_left", "prior")), (1, ("prior", "red_share_left"))):
        facts = [item.facts for item in items[question::2]]
        informative, uninformative = ([round(10 * each[name]) for each in facts] for name in names)
        counts = [informative.count(value) for value in INFORMATIVE]
        assert sum(counts) == 6000 and chisquare(counts).pvalue > 1e-4
        counts = [uninformative.count(value) for value in (4, 5, 6)]
        assert sum(counts) == 6000 and chisquare(counts, [1500, 3000, 1500]).pvalue > 1e-4
    # the ball follows the urn, and the urn the wheel: of each question, as many are red as the rule expects
    expected = [
        each["prior"] * each["red_share_left"] + (1 - each["prior"]) * each["red_share_right"]
        for each in (item.facts for item in items)
    ]
    n_red = sum(item.facts["is_red"] for item in items)
    variance = sum(share * (1 - share) for share in expected)
    assert abs(n_red - sum(expected)) < 4 * np.sqrt(variance)


def test_reports_of_the_posterior_are_calibrated():
    """Among balls with one posterior, the left urn is the source that often: drawn anew, by hand."""
    generator = np.random.RandomState(5)
    prior, red = 6, 3
    is_left = generator.random_sample(40_000) < prior / 10
    is_red = generator.random_sample(40_000) < np.where(is_left, red, 10 - red) / 10
    for colour in (True, False):
        share, p = is_left[is_red == colour], float(Urn(True, prior, red, colour).posterior)
        assert abs(share.mean() - p) < 4 * np.sqrt(p * (1 - p) / share.size)


def test_the_schedule_of_the_manifest_has_400_targets_which_bayes_meets_exactly():
    schedule, agent = load_schedules()["bayesian_urn"], load_agents()["bayes"]
    environment = schedule.environment()
    assert environment == URNS and agent.schedule == "bayesian_urn"
    items = environment.items(environment.episodes(schedule.seeds.range))
    assert len(items) == 400
    answers = agent.made().answer(
        pa.table(
            {
                "item_id": [item.item_id for item in items],
                "facts_json": [json.dumps(item.facts) for item in items],
            }
        )
    )
    assert answers["item_id"].to_pylist() == [item.item_id for item in items]
    assert answers["response_number"].to_pylist() == [item.target for item in items]
    assert [float(text) for text in answers["response_text"].to_pylist()] == [item.target for item in items]


shares = st.integers(0, 100).map(lambda hundredths: hundredths / 100)


@given(prior=shares, red_left=shares, red_right=shares, is_red=st.booleans())
def test_bayes_answers_with_the_posterior_of_what_is_visible(prior, red_left, red_right, is_red):
    facts = {"prior": prior, "red_share_left": red_left, "red_share_right": red_right, "is_red": is_red}
    wheel, left, right = (Fraction(round(100 * share), 100) for share in (prior, red_left, red_right))
    of_left = wheel * (left if is_red else 1 - left)
    of_either = of_left + (1 - wheel) * (right if is_red else 1 - right)
    if of_either == 0:
        with pytest.raises(EngineFailed, match="item 0: expected shares under which the ball can be drawn"):
            answered([facts])
    else:
        assert answered([facts]) == [float(of_left / of_either)]


def test_bayes_does_not_read_what_only_the_scorer_knows():
    facts = items_of([1])[0].facts
    planted = facts | {"likelihood": 0.999, "is_likelihood_informative": None, "target": 0.123}
    assert answered([planted]) == answered([facts])


@pytest.mark.parametrize("missing", ["prior", "red_share_left", "red_share_right", "is_red"])
def test_a_question_that_does_not_say_enough_is_an_error(missing):
    facts = {name: value for name, value in items_of([1])[0].facts.items() if name != missing}
    with pytest.raises(EngineFailed, match=f"item 0: expected an urn question, found no {missing}"):
        answered([facts])


@pytest.mark.parametrize("share", [1.5, -0.1, "many", None, True])
def test_a_share_that_is_none_is_an_error(share):
    with pytest.raises(EngineFailed, match="expected shares"):
        answered([items_of([1])[0].facts | {"prior": share}])


def test_no_question_has_no_answer():
    empty = pa.table({"item_id": pa.array([], pa.string()), "facts_json": pa.array([], pa.string())})
    assert Bayes().answer(empty).num_rows == 0


@pytest.mark.parametrize("tenths", [[], [0], [10], [0.5]])
def test_constants_that_make_no_sense_are_refused(tenths):
    with pytest.raises(ValidationError):
        Urns.model_validate({"informative_tenths": tenths, "uninformative_tenths": [5]})
    with pytest.raises(ValidationError):
        Urns.model_validate({"informative_tenths": [1], "uninformative_tenths": tenths})
