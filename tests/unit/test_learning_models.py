"""Models in Learning dialogues: what is asked, that nothing is asked twice or lost, and what stops a run."""

import hashlib
import math
from dataclasses import dataclass, field, replace

import polars as pl
import pytest

from generate.contract import EngineFacts, Response
from generate.learning import model_runs
from generate.learning.families import load_families
from generate.learning.model_runs import count, do, plan
from generate.pending import Slice
from generate.rollouts import Choosing
from generate.weights import Weights
from store.errors import EngineFailed, InvalidSource, LakeUnusable
from store.lake import append, batch_parts, only_writer
from store.settings import Home

WEIGHTS = Weights("org/model", "0" * 40, "org/model", is_folder=False)
FACTS = EngineFacts("hf", "1", "float32", 2048, 2048, has_chat_template=True, n_leading_bos=1, bos_token_id=1)
CHOOSING = Choosing("text", is_chat=True, max_response_tokens=64, stop=(), seed=0, batch_size=5)
# one of each dialogue
NAMES = ("overshadowing", "numeric_property", "hanoi_two", "packet_filter")
REPLIES = ("MORE", "READY", "1: IN\n2: OUT\n3: IN\n4: OUT", "A>B", "A>C", "B>C", "", "nothing")


@dataclass
class Talker:
    """An engine that replies by what it was told last, fails at a call, and keeps what it was asked."""

    dies_at: int | None = None
    fails_on: str | None = None
    dies_of: type[BaseException] = EngineFailed
    facts: EngineFacts = FACTS
    asked: list = field(default_factory=list)
    n_calls: int = 0
    is_closed: bool = False

    def respond(self, requests):
        self.n_calls += 1
        if self.n_calls == self.dies_at:
            raise self.dies_of("the engine died")
        self.asked += [request.prompt for request in requests]
        return [self.said(request) for request in requests]

    def said(self, request):
        prompt = request.prompt if isinstance(request.prompt, str) else repr(request.prompt)
        if self.fails_on is not None and self.fails_on in prompt:
            return Response("too_long", prompt, "the prompt has 9 tokens, and 8 are left")
        reply = REPLIES[hashlib.sha256(prompt.encode()).digest()[0] % len(REPLIES)]
        return Response("ok", prompt, text=reply, finish_reason="stop", max_tokens=64)

    def close(self):
        self.is_closed = True


@pytest.fixture
def lake(tmp_path):
    return Home(tmp_path / "lake")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A lake in which everything was asked without a break."""
    lake = Home(tmp_path_factory.mktemp("whole") / "lake")
    done(lake, Talker())
    return lake


def families(names=NAMES):
    return [load_families()[name] for name in names]


def planned(lake, names=NAMES, choosing=CHOOSING, weights=WEIGHTS, facts=FACTS, **more):
    return plan(lake, weights, facts, choosing, families(names), **more)


def done(lake, engine, part=Slice(), choosing=CHOOSING, names=NAMES, is_stopping=lambda: False):  # noqa: B008
    tasks = planned(lake, names, choosing)
    return do(lake, WEIGHTS, tasks, choosing, lambda: engine, part, lambda *_: None, is_stopping)


def steps(lake, names=NAMES, choosing=CHOOSING):
    paths = [
        path for t in planned(lake, names, choosing) for path in batch_parts(lake, t.task.run_id, "steps")
    ]
    frames = [pl.read_parquet(path, hive_partitioning=False) for path in paths]
    return pl.concat(frames).sort("mode_id", "episode_id", "step_index") if frames else None


def n_asked(lake, names=NAMES):
    return 0 if (found := steps(lake, names)) is None else found.height


# --- what a run is ---


@pytest.mark.parametrize("is_chat", [True, False])
def test_other_words_common_to_families_name_another_run(monkeypatch, lake, is_chat):
    choosing = replace(CHOOSING, is_chat=is_chat)
    before = planned(lake, choosing=choosing)
    load_template = model_runs.load_template
    reworded = "learning_exam" if is_chat else "learning_transcript"

    def edited(name):
        return replace(load_template(name), sha256="0" * 64) if name == reworded else load_template(name)

    monkeypatch.setattr(model_runs, "load_template", edited)
    after = planned(lake, choosing=choosing)
    is_other = [old.task.run_id != new.task.run_id for old, new in zip(before, after, strict=True)]
    # a game has no exam
    assert is_other == ([name != "hanoi_two" for name in NAMES] if is_chat else [True] * len(NAMES))


@pytest.mark.parametrize(
    "changed",
    [
        {"weights": replace(WEIGHTS, revision="1" * 40)},
        {"facts": replace(FACTS, dtype="bfloat16")},
        {"choosing": replace(CHOOSING, is_chat=False)},
        {"choosing": replace(CHOOSING, max_response_tokens=9)},
        {"repeat": 1},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_whatever_may_change_a_reply_names_another_run_and_evaluation(lake, changed):
    before, after = planned(lake), planned(lake, **changed)
    assert {t.task.run_id for t in before}.isdisjoint(t.task.run_id for t in after)
    assert {t.task.evaluation_id for t in before}.isdisjoint(t.task.evaluation_id for t in after)


def test_all_families_of_a_model_are_one_evaluation(lake):
    assert len({t.task.evaluation_id for t in planned(lake)}) == 1
    assert len({t.task.run_id for t in planned(lake)}) == len(NAMES)


# --- asking ---


def test_every_episode_is_carried_to_its_end(whole):
    last = steps(whole).group_by("episode_id").agg(pl.col("is_last").last(), pl.len())
    assert last["is_last"].all()
    n_episodes = sum(family.seeds.count * len(family.levels) for family in families())
    assert last.height == n_episodes
    assert all(count(whole, task, Slice())[1] == 0 for task in planned(whole))


def test_a_second_time_asks_nothing_and_opens_no_engine(whole):
    talker = Talker()
    reports = done(whole, talker)
    assert (talker.n_calls, talker.is_closed) == (0, False)
    assert all(report.is_whole and not report.n_new for report in reports)


def test_a_chat_holds_the_whole_dialogue_so_far(lake):
    talker = Talker()
    done(lake, talker, names=["hanoi_two"], part=Slice(limit=1))
    longest = max(talker.asked, key=len)
    assert [message.role for message in longest] == ["user", "assistant"] * (len(longest) // 2) + ["user"]
    assert len(longest) > 5


def test_a_plain_text_holds_the_whole_dialogue_so_far(lake):
    choosing = replace(CHOOSING, is_chat=False)
    talker = Talker()
    done(lake, talker, choosing=choosing, names=["hanoi_two"], part=Slice(limit=1))
    for _, episode in steps(lake, ["hanoi_two"], choosing).group_by("episode_id"):
        prompt = max((text for text in talker.asked if episode["observation"][0] in text), key=len)
        # a reply begins on a line of its own, and ends before an empty one
        assert prompt.endswith("\n\nReply:\n")
        said = [reply for reply in episode["response_text"].to_list()[:-1] if reply]
        assert [part.split("\n\n")[0] for part in prompt.split("\n\nReply:\n")[1:-1]] == said


@dataclass
class Mute(Talker):
    """Says nothing, or blanks, to every other message."""

    def said(self, request):
        blank = ("", " \n")[self.n_calls % 4 // 2] if self.n_calls % 2 else None
        response = super().said(request)
        return response if blank is None else replace(response, text=blank)


@pytest.mark.parametrize("is_chat", [True, False])
def test_a_message_without_a_reply_is_told_together_with_the_next(lake, is_chat):
    choosing = replace(CHOOSING, is_chat=is_chat)
    talker = Mute()
    done(lake, talker, choosing=choosing, names=["hanoi_two"], part=Slice(limit=1))
    turns = steps(lake, ["hanoi_two"], choosing)
    assert set(turns["response_text"]) >= {"", " \n"}
    longest = max(talker.asked, key=len)
    if is_chat:
        # templates and servers refuse a turn without text, and two turns in a row of one side
        assert all(message.content.strip() for prompt in talker.asked for message in prompt)
        assert [message.role for message in longest[:-1]] == ["user", "assistant"] * (len(longest) // 2)
    else:
        assert "Reply:\n\n" not in longest
    text = longest if isinstance(longest, str) else "\n\n".join(message.content for message in longest)
    [episode] = [
        one for _, one in turns.group_by("episode_id", maintain_order=True) if one["observation"][0] in text
    ]
    place = 0
    for told in episode["observation"].to_list()[:-1]:
        place = text.index(told, place) + len(told)


def test_a_reply_of_a_megabyte_is_kept_and_what_follows_may_not_fit(lake):
    @dataclass
    class Chatterbox(Talker):
        def said(self, request):
            n_characters = sum(len(message.content) for message in request.prompt)
            if n_characters > 1_000_000:
                return Response("too_long", "x", "the prompt has 250000 tokens, and 2048 are left")
            return Response("ok", "x", text="A>B " * 250_000, finish_reason="stop")

    done(lake, Chatterbox(), names=["overshadowing", "hanoi_two"], part=Slice(limit=1))
    sheets, game = steps(lake, ["overshadowing"]), steps(lake, ["hanoi_two"])
    for rows in (sheets, game):
        assert set(rows["response_text"].drop_nulls().str.len_chars()) == {1_000_000}
    assert sheets["outcome"].to_list() == ["examined"] * sheets.height
    assert game.sort("episode_id", "step_index")["outcome"].to_list() == ["unread", None] * 3
    assert game.sort("episode_id", "step_index")["status"].to_list() == ["ok", "too_long"] * 3


@pytest.mark.parametrize("dies_at", [1, 2, 7, 30])
def test_what_was_said_before_an_engine_died_is_kept_and_not_asked_again(lake, whole, dies_at):
    with pytest.raises(EngineFailed, match="the engine died"):
        done(lake, Talker(dies_at=dies_at))
    before = n_asked(lake)
    talker = Talker()
    reports = done(lake, talker)
    assert all(report.is_whole for report in reports)
    assert before + len(talker.asked) == n_asked(lake)
    assert steps(lake).equals(steps(whole))


def test_what_was_said_before_a_second_interrupt_is_kept(lake, whole):
    with pytest.raises(KeyboardInterrupt):
        done(lake, Talker(dies_at=30, dies_of=KeyboardInterrupt))
    assert n_asked(lake) > 0
    done(lake, Talker())
    assert steps(lake).equals(steps(whole))


def test_stopping_keeps_what_was_said(lake, whole):
    answers = iter([False] * 6 + [True] * 100)
    reports = done(lake, Talker(), is_stopping=lambda: next(answers))
    assert not all(report.is_whole for report in reports)
    assert n_asked(lake) > 0
    done(lake, Talker())
    assert steps(lake).equals(steps(whole))


def test_batches_of_another_size_say_the_same(lake, whole):
    done(lake, Talker(), choosing=replace(CHOOSING, batch_size=1000))
    assert steps(lake).equals(steps(whole))


def test_shards_together_are_the_whole(lake, whole):
    for shard in range(3):
        done(lake, Talker(), part=Slice(None, shard, 3))
    assert steps(lake).equals(steps(whole))


def test_a_limit_takes_the_first_instances_of_each_task_and_more_are_added_later(lake, whole):
    done(lake, Talker(), part=Slice(limit=1))
    assert set(steps(lake)["episode_id"].str.split("/").list.last()) == {"0"}
    done(lake, Talker())
    assert steps(lake).equals(steps(whole))


def test_batches_are_full_as_long_as_enough_episodes_are_left(lake):
    talker = Talker()
    sizes = []
    respond = talker.respond
    talker.respond = lambda requests: (sizes.append(len(requests)), respond(requests))[1]
    done(lake, talker)
    assert math.fsum(sizes) / len(sizes) > 0.8 * CHOOSING.batch_size


def test_long_waits_make_parts_of_what_is_unfinished(lake, whole, monkeypatch):
    names = ["overshadowing", "hanoi_two"]
    monkeypatch.setattr(model_runs, "FLUSH_SECONDS", 0.0)
    done(lake, Talker(), names=names, choosing=replace(CHOOSING, batch_size=12))
    n_parts = [
        sum(len(batch_parts(home, task.task.run_id, "steps")) for task in planned(home, names))
        for home in (lake, whole)
    ]
    assert n_parts[0] > n_parts[1] == len(names)
    assert steps(lake, names).equals(steps(whole, names))


# --- what stops a run ---


def test_a_prompt_that_is_too_long_ends_its_episode_with_the_reason(lake):
    reports = done(lake, Talker(fails_on="Actions left: "), names=["hanoi_two"])
    ended = steps(lake, ["hanoi_two"]).filter(pl.col("status") != "ok")
    assert set(ended["status"]) == {"too_long"}
    assert ended["is_last"].all()
    assert ended["status_reason"][0] == "the prompt has 9 tokens, and 8 are left"
    assert ended["outcome"].null_count() == ended.height
    assert reports[0].n_by_status == {"too_long": ended.height}
    # and is not asked again
    talker = Talker()
    done(lake, talker, names=["hanoi_two"])
    assert talker.n_calls == 0


def test_a_run_that_cannot_be_written_keeps_no_other_from_being_written(lake, monkeypatch):
    names = ["hanoi_two", "packet_filter"]
    write_steps = model_runs.Writer.write_steps

    def full_for_one(writer, rows, *more):
        if rows["mode_id"][0].as_py().startswith("hanoi_two"):
            raise LakeUnusable("no space left")
        write_steps(writer, rows, *more)

    monkeypatch.setattr(model_runs.Writer, "write_steps", full_for_one)
    choosing = replace(CHOOSING, batch_size=1000)
    with pytest.raises(LakeUnusable, match="no space left"):
        done(lake, Talker(), choosing=choosing, names=names, is_stopping=iter([False, True]).__next__)
    assert n_asked(lake, ["hanoi_two"]) == 0
    assert n_asked(lake, ["packet_filter"]) > 0


def test_two_processes_do_not_ask_one_run_at_once(lake):
    [task] = planned(lake, ["hanoi_two"])
    with only_writer(lake, task.task.run_id), pytest.raises(LakeUnusable, match="another process is at it"):
        done(lake, Talker(), names=["hanoi_two"])


def test_turns_that_the_dialogue_would_not_take_are_refused(lake):
    with pytest.raises(EngineFailed):
        done(lake, Talker(dies_at=6), names=["hanoi_two"])
    [task] = planned(lake, ["hanoi_two"])
    [path] = batch_parts(lake, task.task.run_id, "steps")
    rows = pl.read_parquet(path, hive_partitioning=False)
    changed = rows.with_columns(pl.lit("Go on.").alias("observation")).to_arrow()
    part = append(lake, "steps", changed, task.task.run_id)
    path.unlink()
    part.path.rename(path)
    with pytest.raises(LakeUnusable, match=r"expected observation .* found 'Go on.' in the lake"):
        done(lake, Talker(), names=["hanoi_two"])


def test_a_family_that_was_changed_under_its_version_is_refused(lake, whole):
    [family] = families(["hanoi_two"])
    other = family.model_copy(update={"seeds": family.seeds.model_copy(update={"count": 3})})
    with pytest.raises(
        InvalidSource,
        match="hanoi_two: the lake holds version 1 with another class, other levels or other seeds; raise",
    ):
        plan(whole, WEIGHTS, FACTS, CHOOSING, [other])
