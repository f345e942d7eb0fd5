"""Do models play episodes as agents do, and does a run that was stopped anywhere end as an unbroken one?"""

import hashlib
import math
from collections import Counter
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pytest
from doors import Doors, fitted

from generate import rollouts
from generate.contract import (
    Answer,
    Choose,
    EngineFacts,
    Environment,
    Message,
    Response,
    ScoredOption,
    Telling,
)
from generate.episodes import play
from generate.rollouts import Choosing, as_prompt, play_with_model
from generate.schedule import load_schedules
from store.errors import EngineFailed, LakeUnusable
from store.prompts import Template, load_template
from store.schemas import STEPS

TEMPLATE = Template(
    "play_doors",
    "0" * 64,
    {
        "prompt": "{history}Trial {number}: {options}. You open door",
        "opened": "Trial {number}: {reward} points.\n",
    },
)
CHOOSING = Choosing("argmax", is_chat=False, max_response_tokens=8, stop=("\n",), seed=7, batch_size=2)
ON_ALL_SIDES = (
    "trial",
    "stage",
    "observation",
    "legal_options",
    "credited_options",
    "is_forced",
    "is_rewarded",
    "is_last",
    "outcome",
    "reward",
    "hidden_values",
)


class ToldDoors(Doors):
    """Doors whose episodes are told apart by what they paid."""

    def tell(self, seen):
        return [
            Telling(
                () if seen.trial == 0 else (("opened", {"number": seen.trial, "reward": f"{reward:g}"}),),
                {"number": seen.trial + 1, "options": ", ".join(np.array(self.actions)[legal])},
            )
            for reward, legal in zip(seen.last_reward.tolist(), seen.legal, strict=True)
        ]


DOORS = ToldDoors()
FEW = DOORS.episodes([1, 2, 3, 4, 5])


def number(*parts):
    """Return a number on [0, 1) that depends on its parts alone."""
    digest = hashlib.sha256("|".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64


def chosen(prompt, options, **columns):
    """Return log-probabilities that depend on the prompt and the option alone."""
    scored = [ScoredOption(option, (1,), (math.log(0.01 + number(prompt, option)),)) for option in options]
    return Response("ok", prompt, n_prompt_tokens=len(prompt), options=tuple(scored), **columns)


class Model:
    """An engine that answers by a rule, and remembers what it was asked."""

    facts = EngineFacts("fake", "1", "float32", None, 100, has_chat_template=True, n_leading_bos=1)

    def __init__(self, rule=None):
        self.rule = rule or (lambda request: chosen(text_of(request), request.task.options))
        self.batches = []

    @property
    def requests(self):
        return [request for batch in self.batches for request in batch]

    def respond(self, requests):
        self.batches.append(list(requests))
        return [self.rule(request) for request in requests]

    def close(self):
        pass


def text_of(request):
    return request.prompt if isinstance(request.prompt, str) else request.prompt[0].content


class Killed(Exception):
    pass


class Lake:
    """What was written, and a writer that can be killed before a write is durable."""

    def __init__(self, n_writes=math.inf):
        self.parts, self.responses, self.n_requests = [STEPS.empty_table()], [], []
        self.n_writes_left = n_writes

    @property
    def steps(self):
        return pa.concat_tables(self.parts)

    def write(self, steps, responses, n_requests):
        if not self.n_writes_left:
            raise Killed
        self.n_writes_left -= 1
        self.parts.append(steps)
        self.responses += responses
        self.n_requests.append(n_requests)


def go_on(lake, model, environment=DOORS, episodes=FEW, template=TEMPLATE, choosing=CHOOSING, **loop):
    """Play with what a lake holds, and return whether all episodes are over."""
    loop = {"on_step": lambda done, total: None, "is_stopping": lambda: False} | loop
    return play_with_model(
        environment,
        episodes,
        template,
        model,
        choosing,
        run_id="r",
        mode_id="m",
        stored=lake.steps,
        write=lake.write,
        **loop,
    )


def played(model=None, **how):
    """Return all rows of an unbroken run."""
    lake = Lake()
    assert go_on(lake, model or Model(), **how)
    return rows_of(lake.steps)


def rows_of(steps):
    return steps.sort_by([("episode_id", "ascending"), ("step_index", "ascending")]).to_pylist()


@pytest.fixture
def each_batch(monkeypatch):
    """Every batch is made durable at once."""
    monkeypatch.setattr(rollouts, "FLUSH_SECONDS", 0.0)


def changed(**choices):
    return Choosing(**({name: getattr(CHOOSING, name) for name in CHOOSING.__slots__} | choices))


# --- every environment ---

SMALL = {
    "restless_bandit": {"block_lengths": [3, 2]},
    "instrumental_learning": {"n_visits": 2},
    "bart": {"maxima": [5, 3, 2], "n_balloons_per_letter": 2},
    "wcst": {"n_trials": 6, "block_length": 3},
    "two_step": {"horizon": 3},
}
PLAYED = [
    name for name, schedule in load_schedules().items() if isinstance(schedule.environment(), Environment)
]


def short(name):
    """Return a schedule's environment with few trials, six of its episodes and its template."""
    schedule = load_schedules()[name]
    constants = dict(schedule.constants) | SMALL.get(name, {})
    if name == "stationary_bandits":
        constants["conditions"] = [
            dict(condition) | {"n_trials": 2 + place % 3}
            for place, condition in enumerate(constants["conditions"])
        ]
    environment = type(schedule.environment())(**constants)
    episodes = environment.episodes(schedule.seeds.range[:6])
    which = np.linspace(0, len(episodes) - 1, 6).astype(np.int64)
    return {
        "environment": environment,
        "episodes": episodes.only(which),
        "template": load_template(f"play_{name}"),
    }


@pytest.mark.parametrize("name", PLAYED)
def test_a_model_leaves_the_rows_that_an_agent_with_its_choices_leaves(name):
    how = short(name)
    environment, rows = how["environment"], played(**how)
    labels = environment.actions
    by_episode = {}
    for row in rows:
        by_episode.setdefault(row["episode_id"], []).append(row)
    assert set(by_episode) == set(how["episodes"].ids)

    def script(step):
        return np.array(
            [
                labels.index(by_episode[name][step]["action"]) if step < len(by_episode[name]) else 0
                for name in how["episodes"].ids
            ]
        )

    n_steps = max(len(rows) for rows in by_episode.values())
    policy = fitted(*map(script, range(n_steps)))
    agent = rows_of(play(environment, how["episodes"], policy, 1, run_id="r", mode_id="m"))
    same = ("run_id", "mode_id", "episode_id", "step_index", "action", "status", *ON_ALL_SIDES)
    assert [[row[key] for key in same] for row in rows] == [[row[key] for key in same] for row in agent]


@pytest.mark.parametrize("name", PLAYED)
def test_the_action_is_the_legal_one_that_the_model_finds_most_likely(name):
    for row in played(**short(name)):
        assert row["status"] == "ok"
        if row["is_forced"]:
            assert row["logprobs_nats"] is row["prompt_sha256"] is None
        else:
            assert len(row["logprobs_nats"]) == len(row["legal_options"])
            best = row["logprobs_nats"].index(max(row["logprobs_nats"]))
            assert row["action"] == row["legal_options"][best]


@pytest.mark.parametrize("name", PLAYED)
def test_a_run_that_is_killed_at_every_write_ends_as_an_unbroken_one(name, each_batch):
    how = short(name) | {"choosing": changed(choice="sampled", batch_size=4)}
    model, lake, n_lost = Model(), Lake(n_writes=1), 0
    while True:
        n_asked = len(model.requests)
        try:
            assert go_on(lake, model, **how)
            break
        except Killed:
            lake.n_writes_left = 1
            n_lost += len(model.batches[-1])
            assert len(model.requests) > n_asked
    unbroken = Model()
    assert rows_of(lake.steps) == played(unbroken, **how)
    # nothing but the batch in flight was asked again
    assert len(model.requests) == len(unbroken.requests) + n_lost
    assert sum(lake.n_requests) == len(lake.responses) == len(unbroken.requests)


@pytest.mark.parametrize("name", PLAYED)
def test_a_run_that_is_stopped_after_every_batch_asks_nothing_twice(name):
    how = short(name) | {"choosing": changed(batch_size=4)}
    model, lake = Model(), Lake()
    while not go_on(lake, model, is_stopping=lambda: True, **how):
        assert len(lake.parts) - 1 == len(model.batches)
    unbroken = Model()
    assert rows_of(lake.steps) == played(unbroken, **how)
    assert Counter(model.requests) == Counter(unbroken.requests)


# --- what is asked ---


def test_all_live_episodes_step_together():
    model = Model()
    rows = played(model, choosing=changed(batch_size=100))
    # even episodes have a fifth trial; the last of each is forced
    assert [len(batch) for batch in model.batches] == [5, 5, 5, 2]
    assert sum(not row["is_forced"] for row in rows) == 5 + 5 + 5 + 2
    assert sum(row["is_forced"] for row in rows) == 5


def test_a_prompt_holds_all_that_happened_and_the_legal_actions():
    model = Model()
    rows = played(model, episodes=DOORS.episodes([2]))
    history = ""
    for request, row in zip(model.requests, rows, strict=False):
        place = row["trial"] + 1
        assert request.prompt == f"{history}Trial {place}: a, b, c. You open door "
        assert request.task == Choose(("a", "b", "c"))
        history += f"Trial {place}: {row['reward']:g} points.\n"
    assert len(model.requests) == len(rows) - 1


def test_a_batch_of_any_size_gives_the_same_rows():
    for choice in ("argmax", "sampled"):
        choosing = [changed(choice=choice, batch_size=size) for size in (1, 2, 3, 100)]
        first, *others = [played(choosing=how) for how in choosing]
        assert all(rows == first for rows in others)
        alone = [
            row
            for name in (1, 2, 3, 4, 5)
            for row in played(episodes=DOORS.episodes([name]), choosing=choosing[0])
        ]
        assert alone == first


def test_a_row_states_what_was_asked_and_said():
    model = Model(
        lambda request: chosen(
            f"<s>{text_of(request)}",
            request.task.options,
            n_response_tokens=0,
            max_tokens=5,
            finish_reason="x",
        )
    )
    [row, *_] = played(model, episodes=DOORS.episodes([1]))
    prompt = f"<s>{model.requests[0].prompt}"
    assert row["prompt_sha256"] == hashlib.sha256(prompt.encode()).hexdigest()
    assert row["n_prompt_tokens"] == len(prompt)
    assert (row["n_response_tokens"], row["max_response_tokens"], row["finish_reason"]) == (0, 5, "x")
    assert row["logprobs_nats"] == [math.log(0.01 + number(prompt, option)) for option in "abc"]
    assert row["response_text"] is None


def test_every_response_reaches_the_sink_once(monkeypatch):
    lakes = Lake(), Lake()
    for lake, seconds in zip(lakes, (5.0, 0.0), strict=True):
        monkeypatch.setattr(rollouts, "FLUSH_SECONDS", seconds)
        model = Model()
        go_on(lake, model)
        asked = [text_of(request) for request in model.requests]
        assert [response.prompt_text for response in lake.responses] == asked
    # a run of an instant is one part, unless every batch is one; the forced steps at the end ask nothing
    assert [lake.n_requests for lake in lakes] == [[17], [2, 2, 1, 2, 2, 1, 2, 2, 1, 2, 0]]
    assert rows_of(lakes[0].steps) == rows_of(lakes[1].steps)


@pytest.mark.parametrize(
    "text, is_chat, task, prompt",
    [
        ("You take", False, Choose(("1", "2")), "You take "),
        ("You take ", False, Choose(("1", "2")), "You take "),
        ("Answer:\n", False, Choose(("1", "2")), "Answer:\n"),
        ("You take", False, Choose((" 1", " 2")), "You take"),
        ("", False, Choose(("1", "2")), ""),
        ("You take", False, Answer(8), "You take"),
        ("You take", True, Choose(("1", "2")), (Message("user", "You take"),)),
        ("You take", True, Answer(8), (Message("user", "You take"),)),
    ],
)
def test_one_space_stands_between_a_plain_prompt_and_an_option(text, is_chat, task, prompt):
    assert as_prompt(text, is_chat, task) == prompt


# --- choosing ---


def test_of_actions_that_are_equally_likely_one_is_drawn():
    model = Model(
        lambda request: Response(
            "ok",
            text_of(request),
            options=tuple(ScoredOption(name, (1,), (-1.0 if name != "b" else -2.0,)) for name in "abc"),
        )
    )
    episodes = DOORS.episodes(range(1, 2001, 2))
    how = {"episodes": episodes, "choosing": changed(batch_size=10_000)}
    rows = [row for row in played(model, **how) if not row["is_forced"]]
    counts = Counter(row["action"] for row in rows)
    assert set(counts) == {"a", "c"} and len(rows) == 3000
    # 3,000 even draws
    assert abs(counts["a"] - 1500) < 4 * math.sqrt(3000 / 4)
    other_seed = played(model, **how | {"choosing": changed(batch_size=10_000, seed=8)})
    assert [row["action"] for row in other_seed] != [row["action"] for row in played(model, **how)]


def test_sampled_actions_follow_the_probabilities_of_the_legal_ones():
    # together the options have a tenth of all probability
    probabilities = {"a": 0.05, "b": 0.03, "c": 0.02}
    model = Model(
        lambda request: Response(
            "ok",
            text_of(request),
            options=tuple(
                ScoredOption(name, (1, 2), (math.log(p) - 0.25, 0.25)) for name, p in probabilities.items()
            ),
        )
    )
    episodes = DOORS.episodes(range(1, 4001, 2))
    rows = played(model, episodes=episodes, choosing=changed(choice="sampled", batch_size=10_000))
    rows = [row for row in rows if not row["is_forced"]]
    counts = Counter(row["action"] for row in rows)
    for name, p in probabilities.items():
        share = p / 0.1
        assert abs(counts[name] - len(rows) * share) < 4 * math.sqrt(len(rows) * share * (1 - share))


def test_a_draw_is_of_seed_episode_slot_and_step_alone():
    """The same draws by hand: 53 bits of a word of PCG64 per step, from the hash of the key."""
    rows = played(choosing=changed(choice="sampled"))
    for name in FEW.ids:
        digest = hashlib.sha256(f"(7, {name}, 0)".encode()).digest()
        words = np.random.PCG64(int.from_bytes(digest)).random_raw(5)
        mine = [row for row in rows if row["episode_id"] == name and not row["is_forced"]]
        for row, word in zip(mine, words.tolist(), strict=False):
            weights = [math.exp(value) for value in row["logprobs_nats"]]
            drawn = (word >> 11) * 2.0**-53 * sum(weights)
            assert row["action"] == row["legal_options"][sum(drawn >= below for below in accumulate(weights))]


def test_a_written_action_is_read():
    model = Model(lambda request: Response("ok", text_of(request), text="Door B.", n_response_tokens=3))
    rows = played(model, choosing=changed(choice="text"))
    assert {request.task for request in model.requests} == {Answer(8, ("\n",))}
    assert {row["action"] for row in rows if not row["is_forced"]} == {"b"}
    assert {row["response_text"] for row in rows if not row["is_forced"]} == {"Door B."}
    assert {row["logprobs_nats"] and 1 for row in rows} == {None}
    # what is written goes on behind the prompt without a space
    assert model.requests[0].prompt.endswith("You open door")


def test_a_chat_is_one_message():
    model = Model()
    played(model, choosing=changed(is_chat=True))
    assert all(len(request.prompt) == 1 for request in model.requests)
    assert model.requests[0].prompt[0] == Message("user", "Trial 1: a, b, c. You open door")


# --- what goes wrong ---


def fails_at(trial, response):
    """Return a model that fails in one trial, in the episodes that paid nothing before it."""

    def rule(request):
        lines = text_of(request).split("\n")
        is_poor = all(line.endswith(" 0 points.") for line in lines[:-1])
        if is_poor and lines[-1].startswith(f"Trial {trial + 1}:"):
            return response(request)
        return chosen(text_of(request), request.task.options)

    return Model(rule)


PARTLY = Response(
    "missing_option",
    "p",
    reason="c is outside the ten most likely",
    options=(
        ScoredOption("a", (1,), (-1.0,)),
        ScoredOption("b", (1,), (-2.0,)),
        ScoredOption("c", status="missing_option", reason="outside"),
    ),
)
NOT_FINITE = Response(
    "ok",
    "p",
    options=tuple(
        ScoredOption(name, (1,), (value,))
        for name, value in zip("abc", (-1.0, -math.inf, math.nan), strict=True)
    ),
)


@pytest.mark.parametrize(
    "response, status, reason, logprobs",
    [
        (Response("too_long", "p", reason="101 tokens, of 100"), "too_long", "101 tokens, of 100", None),
        (Response("error", "p", reason="the server said 500"), "error", "the server said 500", None),
        (Response("error", "p"), "error", "the engine gave no reason", None),
        (PARTLY, "missing_option", "c is outside the ten most likely", [-1.0, -2.0, None]),
        (
            NOT_FINITE,
            "missing_option",
            "expected a log-probability of b, c, found none",
            [-1.0, None, None],
        ),
    ],
)
def test_a_step_without_an_action_ends_its_episode_alone_and_shrinks_no_denominator(
    response, status, reason, logprobs, each_batch
):
    model, lake = fails_at(1, lambda request: response), Lake()
    assert go_on(lake, model)
    rows = rows_of(lake.steps)
    ended = {row["episode_id"] for row in rows if row["status"] != "ok"}
    assert ended and ended < set(FEW.ids)
    for name in ended:
        mine = [row for row in rows if row["episode_id"] == name]
        n_left = 3 if int(name) % 2 == 0 else 2
        assert [row["status"] for row in mine] == ["ok", status, *["error"] * n_left]
        assert [row["trial"] for row in mine] == [row["step_index"] for row in mine] == [*range(n_left + 2)]
        assert (
            [row["reward"] for row in mine[1:]]
            == [row["action"] for row in mine[1:]]
            == [None] * (n_left + 1)
        )
        assert all(row["is_rewarded"] for row in mine)
        assert mine[1]["status_reason"] == reason
        assert mine[1]["logprobs_nats"] == logprobs
        assert mine[1]["prompt_sha256"] == hashlib.sha256(b"p").hexdigest()
        assert {row["status_reason"] for row in mine[2:]} == {f"the episode ended at trial 1: {reason}"}
        assert {row["prompt_sha256"] for row in mine[2:]} == {None}
    others = [row for row in rows if row["episode_id"] not in ended]
    assert others == [row for row in played(fails_at(9, None)) if row["episode_id"] not in ended]
    # an episode that ended is over: nothing of it is asked again
    again = Model()
    assert go_on(lake, again) and not again.requests and rows_of(lake.steps) == rows


def test_text_that_names_no_action_or_several_ends_the_episode():
    said = ["a", "a or b", "a", "none", "c"]
    texts = iter([*said, "a", "a", "a", "a", "a", "a", "a", "a", "a"])
    model = Model(lambda request: Response("ok", text_of(request), text=next(texts)))
    rows = played(model, choosing=changed(choice="text"))
    first = [row for row in rows if row["step_index"] == 0]
    assert [row["response_text"] for row in first] == said
    assert [row["status"] for row in first] == ["ok", "unparsed", "ok", "unparsed", "ok"]
    assert [row["action"] for row in first] == ["a", None, "a", None, "c"]
    assert [row["status_reason"] for row in first] == [
        None,
        "expected one of a, b, c, found several: a, b",
        None,
        "expected one of a, b, c, found none of them",
        None,
    ]
    assert Counter(row["status"] for row in rows if row["episode_id"] in "24") == {"unparsed": 2, "error": 8}


@pytest.mark.parametrize("n_batches", range(1, 8))
def test_an_engine_that_breaks_down_loses_its_last_batch_alone(n_batches):
    class Broken(Model):
        def respond(self, requests):
            if len(self.batches) == n_batches:
                raise EngineFailed("the server is gone")
            return super().respond(requests)

    lake, broken, other = Lake(), Broken(), Model()
    with pytest.raises(EngineFailed, match="gone"):
        go_on(lake, broken)
    assert go_on(lake, other)
    unbroken = Model()
    assert rows_of(lake.steps) == played(unbroken)
    assert len(broken.requests) + len(other.requests) == len(unbroken.requests)


@pytest.mark.parametrize(
    "responses, said",
    [
        (lambda requests: [], "expected 2 responses, one per request, found 0"),
        (
            lambda requests: [chosen("p", "ba") for _ in requests],
            "expected the options a, b, c, found b, a",
        ),
        (
            lambda requests: [Response("ok", "p") for _ in requests],
            "expected the options a, b, c, found none",
        ),
    ],
)
def test_an_engine_that_does_not_answer_what_it_was_asked_fails(responses, said):
    model, lake = Model(), Lake()
    model.respond = responses
    with pytest.raises(EngineFailed, match=said):
        go_on(lake, model)
    assert not lake.steps.num_rows


# --- going on ---


def test_episodes_that_are_added_are_played_beside_those_that_are_over():
    lake, model = Lake(), Model()
    assert go_on(lake, model, episodes=FEW.only(np.arange(3)))
    n_asked = len(model.requests)
    assert go_on(lake, model)
    unbroken = Model()
    assert rows_of(lake.steps) == played(unbroken)
    assert len(model.requests) == len(unbroken.requests) > n_asked
    assert go_on(lake, model) and len(model.requests) == len(unbroken.requests)


@pytest.mark.parametrize("n_batches", range(1, 7))
@pytest.mark.parametrize("choice", ["argmax", "sampled"])
def test_episodes_that_are_added_catch_up_with_those_under_way(n_batches, choice):
    choosing = changed(choice=choice)
    lake, model = Lake(), Model()
    how = {"choosing": choosing, "is_stopping": lambda: len(model.batches) >= n_batches}
    assert not go_on(lake, model, episodes=FEW.only(np.array([1, 3, 4])), **how)
    assert go_on(lake, model, choosing=choosing)
    unbroken = Model()
    assert rows_of(lake.steps) == played(unbroken, choosing=choosing)
    assert Counter(model.requests) == Counter(unbroken.requests)


def test_steps_of_other_episodes_and_modes_are_ignored():
    lake = Lake()
    go_on(lake, Model())
    elsewhere = lake.steps.set_column(1, STEPS.field("mode_id"), pa.array(["other"] * lake.steps.num_rows))
    shard = Lake()
    shard.parts += [lake.steps, elsewhere]
    model = Model()
    assert go_on(shard, model, episodes=DOORS.episodes([6, 7]))
    assert sum(part.num_rows for part in shard.parts[3:]) == 5 + 4
    assert go_on(shard, model) and len(model.requests) == 4 + 3


def test_no_episodes_are_over_at_once():
    model, lake = Model(), Lake()
    assert go_on(lake, model, episodes=FEW.only(np.array([], dtype=np.int64)))
    assert not model.requests and len(lake.parts) == 1


def altered(steps, row, **values):
    rows = steps.to_pylist()
    rows[row] |= values
    return pa.Table.from_pylist(rows, STEPS)


@pytest.mark.parametrize(
    "row, values, said",
    [
        (
            0,
            {"reward": 5.0},
            r"episode 1, step 0: expected reward [01]\.0 as the environment says, found 5\.0",
        ),
        (1, {"legal_options": ["a", "b"]}, "episode 1, step 1: expected legal_options"),
        (1, {"action": "z"}, "episode 1, step 1: expected action None as the environment says, found z"),
        (2, {"hidden_values": [9.0]}, r"episode 1, step 2: expected hidden_values .* found \[9\.0\]"),
        (2, {"observation": None}, "episode 1, step 2: expected observation doors .* found None"),
        (3, {"is_forced": False}, "episode 1, step 3: expected is_forced True"),
        (2, {"status": "unparsed", "action": None, "reward": None, "outcome": None}, "expected action None"),
        (2, {"step_index": 1}, "episode 1: expected step 2 next, found step 1 in the lake"),
        (0, {"step_index": 4}, "episode 1: expected step 0 next, found step 1 in the lake"),
    ],
)
def test_stored_steps_that_the_environment_does_not_make_are_refused(row, values, said):
    lake, model = Lake(), Model()
    go_on(lake, model, episodes=FEW.only(np.arange(2)))
    lake.parts = [altered(lake.steps, row, **values)]
    n_asked = len(model.requests)
    with pytest.raises(LakeUnusable, match=said):
        go_on(lake, model)
    assert len(model.requests) == n_asked


def test_another_schedule_is_refused_before_anything_is_asked():
    lake, model = Lake(), Model()
    go_on(lake, model, episodes=FEW.only(np.arange(2)))
    for environment in (ToldDoors(n_trials=3), ToldDoors(n_doors=2), ToldDoors(n_doors=4)):
        other = Model()
        with pytest.raises(LakeUnusable, match="raise its version"):
            go_on(lake, other, environment=environment)
        assert not other.requests
    lake.parts.append(lake.steps)
    with pytest.raises(LakeUnusable, match="episode 1: expected step 1 next, found step 0 in the lake"):
        go_on(lake, model)


def test_an_ended_episode_that_lacks_its_last_trials_is_refused():
    lake = Lake()
    go_on(lake, Model(lambda request: Response("error", text_of(request), reason="broken")))
    lake.parts = [lake.steps.slice(0, lake.steps.num_rows - 1)]
    with pytest.raises(LakeUnusable, match="expected 22 steps of the episodes that were begun, found 21"):
        go_on(lake, Model())


# --- writing and showing ---


def test_steps_are_durable_within_a_step_of_all_episodes(each_batch):
    lake = Lake(n_writes=1)
    with pytest.raises(Killed):
        go_on(lake, Model())
    assert lake.steps["episode_id"].to_pylist() == ["1", "2"]


def test_steps_wait_until_a_part_is_worth_it(monkeypatch):
    now = [0.0]

    def rule(request):
        now[0] += 1.0
        return chosen(text_of(request), request.task.options)

    monkeypatch.setattr(rollouts.time, "monotonic", lambda: now[0])
    lake = Lake()
    go_on(lake, Model(rule), choosing=changed(batch_size=1))
    assert lake.n_requests == [5, 5, 5, 2]


def test_progress_is_in_trials_and_ends_with_all():
    seen = []
    lake, model = Lake(), Model()
    go_on(
        lake,
        model,
        on_step=lambda done, total: seen.append((done, total)),
        is_stopping=lambda: len(seen) == 2,
    )
    assert seen == [(5, 22), (10, 22)]
    go_on(lake, model, on_step=lambda done, total: seen.append((done, total)))
    # what was stored is no step anew
    assert seen[2:] == [(15, 22), (20, 22), (22, 22)]
