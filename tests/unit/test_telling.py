"""What is a model told before each choice: all that a participant sees, in these words, and nothing else?"""

import re
from collections import Counter
from dataclasses import dataclass, fields, replace
from itertools import pairwise

import numpy as np
import pytest

from generate.contract import Environment
from generate.environments.balloons import Balloons
from generate.environments.horizon import Horizon
from generate.environments.instrumental import InstrumentalLearning
from generate.environments.mouselab import MouselabTrees
from generate.environments.restless import RestlessBandit
from generate.environments.stationary import StationaryBandits
from generate.environments.two_step import TwoStep
from generate.environments.wcst import CardSorting
from generate.schedule import load_schedules
from store.errors import InvalidSource
from store.prompts import Template, load_template

ENVIRONMENTS = {
    name: environment
    for name, environment in ((name, schedule.environment()) for name, schedule in load_schedules().items())
    if isinstance(environment, Environment)
}
# what is in view says all, or earlier answers are not told
WITHOUT_HISTORY = {"stationary_bandits", "mouselab_trees", "temporal_discounting"}
LAST_STEP = 120
# about 2.4 characters of such a text make a token, and small models have room for 2,048
LONGEST_PROMPT = 4_500

every_environment = pytest.mark.parametrize("name", ENVIRONMENTS)


@dataclass(frozen=True)
class Asked:
    """What one episode is asked at one step."""

    prompt: str
    history: str
    instructions: str
    events: tuple[str, ...]
    legal: tuple[str, ...]


def some_episodes(name, n=8):
    """Return a few episodes from all over the schedule."""
    schedule = load_schedules()[name]
    episodes = ENVIRONMENTS[name].episodes(list(schedule.seeds.range))
    return episodes.only(np.unique(np.linspace(0, len(episodes) - 1, n).astype(int)))


def told_along(name, world, choose, n_steps=LAST_STEP):
    """Play, and return what each live episode is told at each step, by lane, and what was chosen."""
    environment, template = ENVIRONMENTS[name], load_template(f"play_{name}")
    state, taken = environment.start(world), []
    records = {lane: [] for lane in range(state.live.size)}
    histories = [""] * state.live.size
    while state.live.any() and len(taken) < n_steps:
        seen = environment.observe(world, state)
        told = environment.tell(seen)
        assert len(told) == state.live.size
        for lane in np.flatnonzero(state.live).tolist():
            histories[lane] += "".join(template.fill(text, places) for text, places in told[lane].happened)
            places = {**told[lane].asked, "history": histories[lane]}
            before, is_split, _ = template.fill("prompt", {**places, "history": "\0"}).partition("\0")
            records[lane].append(
                Asked(
                    template.fill("prompt", places),
                    histories[lane],
                    before if is_split else "",
                    tuple(text for text, _ in told[lane].happened),
                    tuple(np.array(environment.actions)[seen.legal[lane]].tolist()),
                )
            )
        actions = choose(seen)
        taken.append(actions)
        state, _ = environment.step(world, state, actions)
    return records, taken


def at_random(first=1.0):
    """Return a policy that draws any legal action; the first one less often if ``first`` is below 1."""
    stream = np.random.RandomState(1)

    def choose(seen):
        weights = stream.random_sample(seen.legal.shape)
        weights[:, 0] *= first
        return (weights * seen.legal).argmax(axis=1)

    return choose


def told_at_random(name, n_steps=LAST_STEP, first=1.0):
    records, _ = told_along(name, ENVIRONMENTS[name].draw(some_episodes(name)), at_random(first), n_steps)
    return records


def names_whole(text, label):
    return re.search(rf"(?<!\w){re.escape(label)}(?!\w)", text) is not None


# ---- every schedule ----


@every_environment
def test_a_prompt_names_every_legal_action_and_says_to_reply(name):
    for record in told_at_random(name).values():
        for asked in record:
            # what the history names does not count
            question = asked.prompt.removeprefix(asked.instructions).removeprefix(asked.history)
            if len(asked.legal) > 1:
                assert [label for label in asked.legal if not names_whole(question, label)] == []
            assert names_whole(question.lower(), "reply")


@every_environment
def test_a_prompt_ends_right_before_the_action(name):
    for record in told_at_random(name).values():
        for asked in record:
            assert re.search(r"[\w:]\Z", asked.prompt)
            assert not set("{}") & set(asked.prompt)


@every_environment
def test_history_grows_by_concatenation_and_nothing_before_it_changes(name):
    n_events = Counter()
    for record in told_at_random(name).values():
        assert record[0].events == ()
        for before, now in pairwise(record):
            n_events[len(now.events)] += 1
            if name not in WITHOUT_HISTORY:
                assert now.prompt.startswith(before.instructions + before.history)
                assert now.history.startswith(before.history)
                assert bool(now.events) == (now.history != before.history)
    assert set(n_events) <= ({0} if name in WITHOUT_HISTORY else {0, 1})
    # of the tasks with a history, only these have several decisions in a trial
    assert n_events[0] == 0 or name in {"bart", "two_step"} | WITHOUT_HISTORY


@every_environment
def test_every_text_of_a_template_is_used(name, monkeypatch):
    used = set()
    fill = Template.fill

    def noted(template, text, places):
        used.add(text)
        return fill(template, text, places)

    monkeypatch.setattr(Template, "fill", noted)
    told_at_random(name)
    assert used == set(load_template(f"play_{name}").texts)


@every_environment
def test_different_episodes_are_told_differently(name):
    # a tree is told like any other as long as no node is open
    records = told_at_random(name, n_steps=20, first=0.01 if name == "mouselab_trees" else 1.0)
    transcripts = {tuple(asked.prompt for asked in record) for record in records.values()}
    if name == "temporal_discounting":
        # nothing is drawn in it: sessions differ by their answers alone
        assert 1 < len(transcripts) <= len(records)
    else:
        assert len(transcripts) == len(records)


@every_environment
def test_a_whole_episode_fits_into_a_small_context(name):
    records = told_at_random(name)
    assert max(len(asked.prompt) for record in records.values() for asked in record) < LONGEST_PROMPT


def test_the_longest_summary_fits_too():
    name = "stationary_bandits"
    environment = ENVIRONMENTS[name]
    episodes = some_episodes(name)
    state = environment.start(environment.draw(episodes))
    n_arms = len(environment.actions)
    full = replace(
        state,
        n_chosen=np.full((len(episodes), n_arms), 1000),
        totals=np.full((len(episodes), n_arms), -99_990.0),
    )
    told = environment.tell(environment.observe(environment.draw(episodes), full))
    assert max(len(load_template(f"play_{name}").fill("prompt", telling.asked)) for telling in told) < 2_000


def test_a_mean_that_rounds_to_zero_has_no_sign():
    name = "stationary_bandits"
    environment = ENVIRONMENTS[name]
    world = environment.draw(some_episodes(name, 1))
    state = environment.start(world)
    ones = np.ones_like(state.n_chosen)
    [telling] = environment.tell(
        environment.observe(world, replace(state, n_chosen=3 * ones, totals=-0.012 * ones))
    )
    assert telling.asked["arms"].count("recommendations 3, mean reward 0.00\n") == 5


# ---- nothing hidden ----

SECRET = 77.0


def _other_rewards(world, taken):
    """Change what was not chosen or not reached, and the means."""
    rewards = np.full_like(world.rewards, SECRET)
    for trial, actions in enumerate(taken):
        rewards[world.which, trial, actions] = world.rewards[world.which, trial, actions]
    means = {name: getattr(world, name) + SECRET for name in ("means", "means_after") if hasattr(world, name)}
    return replace(world, rewards=rewards, **means)


def _other_arms(world, taken):
    """Change the means of arms that were never chosen, and the draws of trials to come."""
    means, chance = world.means.copy(), world.chance.copy()
    is_chosen = np.zeros_like(means, dtype=bool)
    for actions in taken:
        is_chosen[world.which, actions] = True
    means[~is_chosen & np.isfinite(means)] = SECRET
    chance[:, len(taken) :] = SECRET
    return replace(world, means=means, chance=chance)


def _other_balloons(world, taken):
    """Change all maxima, and where balloons burst that did not."""
    bursts = world.bursts.copy()
    lanes, balloon = np.arange(len(bursts)), np.zeros(len(bursts), dtype=int)
    pumps, is_burst = np.zeros_like(bursts), np.zeros_like(bursts, dtype=bool)
    for actions in taken:
        pumps[lanes, balloon] += actions
        is_burst[lanes, balloon] = pumps[lanes, balloon] == bursts[lanes, balloon]
        balloon += (actions == 0) | is_burst[lanes, balloon]
    return replace(world, maxima=world.maxima + 1, bursts=np.where(is_burst, bursts, bursts + 1))


def _other_rules(world, taken):
    """Take another rule wherever it gives the same verdict, and deal other cards to come."""
    environment, rules, stimuli = ENVIRONMENTS["wcst"], world.rules.copy(), world.stimuli.copy()
    cards = [[int(part.split()[-1]) - 1 for part in label.split(", ")] for label in environment.observations]
    for lane, trial in np.ndindex(rules.shape):
        if trial >= len(taken):
            stimuli[lane, trial] = (stimuli[lane, trial] + 1) % len(cards)
            continue
        dealt, chosen, rule = cards[stimuli[lane, trial]], taken[trial][lane], rules[lane, trial]
        alike = [
            other
            for other in range(3)
            if other != rule and (dealt[other] == chosen) == (dealt[rule] == chosen)
        ]
        rules[lane, trial] = alike[0] if alike else rule
    # the card that lies there now is seen
    stimuli[:, len(taken)] = world.stimuli[:, len(taken)]
    return replace(world, rules=rules, stimuli=stimuli)


def _other_rates(world, taken):
    """Change the rates of the aliens that were not met, and all chance to come."""
    rates, transitions, treasures = (
        np.full_like(world.rates, 0.5),
        *(np.zeros_like(values) for values in (world.transitions, world.treasures)),
    )
    lanes = np.arange(len(rates))
    for step, actions in enumerate(taken):
        trial, stage = divmod(step, 2)
        transitions[:, trial] = world.transitions[:, trial]
        if stage:
            treasures[:, trial] = world.treasures[:, trial]
            rates[lanes, trial, actions - 2] = world.rates[lanes, trial, actions - 2]
    return replace(world, rates=rates, transitions=transitions, treasures=treasures)


def _other_nodes(world, taken):
    """Change what the nodes hold that nobody looked at."""
    values = np.full_like(world.node_values, SECRET)
    for actions in taken:
        rows = np.flatnonzero(actions > 0)
        values[rows, actions[rows] - 1] = world.node_values[rows, actions[rows] - 1]
    return replace(world, node_values=values)


TWINS = {
    RestlessBandit: _other_rewards,
    InstrumentalLearning: _other_rewards,
    Horizon: _other_rewards,
    StationaryBandits: _other_arms,
    Balloons: _other_balloons,
    CardSorting: _other_rules,
    TwoStep: _other_rates,
    MouselabTrees: _other_nodes,
}


@pytest.mark.parametrize("n_steps", [1, 2, 7])
@pytest.mark.parametrize("name", [name for name in ENVIRONMENTS if type(ENVIRONMENTS[name]) in TWINS])
def test_what_was_not_shown_is_not_told(name, n_steps):
    environment = ENVIRONMENTS[name]
    world = environment.draw(some_episodes(name))
    chooser = at_random()
    # the last observation is told too, and what is chosen there is not played on
    records, taken = told_along(name, world, chooser, n_steps + 1)
    twin = TWINS[type(environment)](world, taken[:n_steps])
    assert any(
        not np.array_equal(getattr(world, field.name), getattr(twin, field.name)) for field in fields(world)
    )
    script = iter(taken)
    again, _ = told_along(name, twin, lambda seen: next(script), n_steps + 1)
    assert again == records


def test_only_the_questionnaire_has_nothing_to_hide():
    [name] = [name for name in ENVIRONMENTS if type(ENVIRONMENTS[name]) not in TWINS]
    world = ENVIRONMENTS[name].draw(some_episodes(name))
    assert name == "temporal_discounting" and [field.name for field in fields(world)] == ["n_episodes"]


# ---- every prompt, word by word ----


def last_prompt(name, episode_id, *labels):
    """Return what an episode is asked after it took the actions with these labels."""
    environment = ENVIRONMENTS[name]
    episodes = environment.episodes(list(load_schedules()[name].seeds.range))
    world = environment.draw(episodes.only(np.array([episodes.ids.index(episode_id)])))
    script = iter(labels)

    def choose(seen):
        label = next(script, None)
        action = seen.legal[0].argmax() if label is None else environment.actions.index(label)
        assert seen.legal[0, action]
        return np.array([action])

    records, _ = told_along(name, world, choose, len(labels) + 1)
    return records[0][-1].prompt


EXPECTED = {
    "restless_bandit": (
        "20261009",
        "0 0 1",
        """\
In a casino there are two slot machines, machine 0 and machine 1. In each of 80 trials you play one of \
them and receive points, mostly between 20 and 80. At any time one machine pays more than the other on \
average. Every 18 to 22 trials the two change places: the other one now pays more. You are not told when \
this happens. You wish to collect as many points as possible.

Trial 1: machine 0, points 41.
Trial 2: machine 0, points 46.
Trial 3: machine 1, points 69.
Which machine do you play now? Reply with 0 or 1.
Trial 4: machine""",
    ),
    "instrumental_learning": (
        "20261101",
        "0 1 1",
        """\
You visit 4 casinos in mixed order, 24 times each, which makes 96 visits. Every casino has two slot \
machines of its own, machine 0 and machine 1. At each visit you play one of the two, and it pays 1 point \
or none. Chance decides, and machines may differ in how likely they are to pay. You wish to collect as \
many points as possible.

Visit 1, casino 4: machine 0, points 1.
Visit 2, casino 4: machine 1, points 1.
Visit 3, casino 3: machine 1, points 1.
Which machine do you play now? Reply with 0 or 1.
Visit 4, casino 4: machine""",
    ),
    "horizon": (
        "20261201/0",
        "1 0 1 0 0",
        """\
In a casino there are two slot machines, machine 0 and machine 1. Each time you play one of them you \
receive points. In the first 4 trials of this game you are told which machine to play. After that the \
choice is yours; the number of free choices in this game is 6. You wish to collect as many points as \
possible with them.

Trial 1, as you were told: machine 1, points 43.
Trial 2, as you were told: machine 0, points 42.
Trial 3, as you were told: machine 1, points 45.
Trial 4, as you were told: machine 0, points 45.
Trial 5: machine 0, points 34.
Free choices left, with the one you make now: 5. Which machine do you play? Reply with 0 or 1.
Trial 6: machine""",
    ),
    "stationary_bandits": (
        "gaussian_5_clothes_shopping_hard/20261301",
        "0 3 0",
        """\
You recommend clothes in an online shop. The shop has 5 items, which have the numbers 0, 1, 2, 3, 4. Each \
time a customer visits the shop you recommend one item and receive a reward, a number that says how well \
the customer took to it. You wish the sum of all rewards to be as large as possible.

Your recommendations so far:
item 0: recommendations 2, mean reward -0.11
item 1: recommendations 0
item 2: recommendations 0
item 3: recommendations 1, mean reward 2.56
item 4: recommendations 0

Which item do you recommend next? Reply with one of: 0, 1, 2, 3, 4.
You recommend item""",
    ),
    "mouselab_trees": (
        "0/0",
        "1 5 2",
        """\
You plan a journey through a tree. It starts at the root, node 0, and follows branches down to a leaf. \
Every other node holds one of these numbers of points, each as likely as the others: -10, -5, 5, 10. The \
points are hidden.

Before the journey you may reveal nodes, one at a time, at no cost in points: nodes below the root at \
first, and nodes below those that you have revealed. When you have seen enough you reply STOP. Then the \
journey that promises most by what you know is taken for you, and you earn the points that can be expected \
of its nodes. You wish to earn as many points as possible.

The nodes of the tree, each with the node above it: 1 below 0, 2 below 1, 3 below 2, 4 below 2, 5 below 0, \
6 below 5, 7 below 6, 8 below 6, 9 below 0, 10 below 9, 11 below 10, 12 below 10, 13 below 0, 14 below \
13, 15 below 14, 16 below 14.

Revealed so far: node 1 holds -10, node 2 holds -5, node 5 holds 5.

You may reply with one of: STOP, 3, 4, 6, 9, 13.
You reply:""",
    ),
    "bart": (
        "20261502",
        "inflate inflate skip inflate inflate inflate inflate inflate inflate inflate inflate inflate",
        """\
In this game you inflate 45 balloons, one after the other. A letter says of which type a balloon is: A, B, \
C. There are 15 balloons of each type. Every inflation makes the balloon larger and adds 1 point to it, \
but it may burst instead; the points of a balloon that bursts are lost. When you skip, you keep the points \
of the balloon and go on to the next. You wish to keep as many points as possible over all balloons.

Balloon 1, type B: inflations 2, did not burst, points 2.
Balloon 2, type C: inflations 3, burst, points 0.
Balloon 3, type C: inflations 5, burst, points 0.
Do you inflate this balloon, or skip? Reply with skip or inflate.
Balloon 4, type B, inflations so far 1: you choose to""",
    ),
    "temporal_discounting": (
        "20261601",
        "2",
        """\
Which of these two options do you prefer? There are no right answers.

Option 1: Receive 500 dollars now.
Option 2: Receive 510 dollars in 12 months.

Reply with 1 or 2.
You prefer option""",
    ),
    "wcst": (
        "20261701",
        "1 2 3",
        """\
You sort cards, one after the other, to one of four key cards:
1: one red circle
2: two green triangles
3: three blue crosses
4: four yellow stars

A rule that you are not told says which key card is right. After each choice you hear whether it was right \
or wrong. From time to time the rule changes without notice. You wish to be right as often as possible.

Card 1, four red crosses: key card 1, right.
Card 2, three green circles: key card 2, right.
Card 3, two red crosses: key card 3, wrong.
Which key card do you choose now? Reply with 1, 2, 3 or 4.
Card 4, two red crosses: key card""",
    ),
    "two_step": (
        "0",
        "X J Y",
        """\
You travel to foreign planets in search of treasure, once a day. First you take spaceship X, bound for \
planet X, or spaceship Y, bound for planet Y. On the planet where you land you then trade with an alien, D \
or F on planet X, J or K on planet Y, and receive treasure or junk. How likely each alien is to give \
treasure changes over time. You wish to receive treasure as often as possible.

Day 1: spaceship X, planet Y, alien J, treasure.
Which alien do you trade with? Reply with J or K.
Day 2: spaceship Y, planet Y, alien""",
    ),
}


@every_environment
def test_a_prompt_reads_as_it_should(name):
    episode_id, labels, expected = EXPECTED[name]
    assert last_prompt(name, episode_id, *labels.split()) == expected


# ---- templates in Python ----


def template(text):
    return Template("greeting", "0" * 64, {"prompt": text})


def test_a_place_is_filled_with_what_stands_for_it_as_it_is():
    filled = template("{who} owes {amount}, {{no place}}.").fill(
        "prompt", {"who": "{amount} of {nobody}", "amount": 0, "more": "ignored"}
    )
    assert filled == "{amount} of {nobody} owes 0, {no place}."


@pytest.mark.parametrize("places", [{}, {"who": None}])
def test_an_empty_place_is_an_error_that_names_it(places):
    with pytest.raises(InvalidSource, match=r"greeting: prompt: expected something to stand in \{who\}"):
        template("Hello {who}").fill("prompt", places)


def test_an_unknown_text_is_an_error_that_names_those_there_are():
    with pytest.raises(InvalidSource, match="greeting: expected a text named trial, found prompt"):
        template("Hello").fill("trial", {})


def test_a_story_that_the_template_lacks_is_an_error():
    condition = ENVIRONMENTS["stationary_bandits"].conditions[0]
    environment = StationaryBandits(conditions=[condition.model_copy(update={"scenario": "gardening"})])
    world = environment.draw(environment.episodes([1]))
    with pytest.raises(InvalidSource, match="expected a text named gardening"):
        environment.tell(environment.observe(world, environment.start(world)))
