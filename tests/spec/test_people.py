"""Is it right how predictions of people are scored? Answers at random, whole and faulty, shared and of one
participant, go through one build and are compared with the plain statements of ``oracles.py``."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb
import pytest
from pytest import approx
from spec import oracles
from spec.test_uniform import add_run
from support import built, copy_lake, query

from store.build import build
from store.export import export_table3
from store.settings import Home

Row = dict[str, Any]

PEOPLE = [f"p{i}" for i in range(9)]
# people predicted, with supports that vary; and right keys, of which people's presses are known too
PREDICTED, CREDITED = "pragmatic_interpretation", "rlwm"


@dataclass(frozen=True)
class Question:
    """One item with what people answered to it."""

    item_id: str
    legal: list[str] | None
    credited: list[str] | None
    responses: Mapping[str, tuple[str, float]]  # participant -> response, weight
    split: str | None = None
    weight: float = 1.0


@dataclass(frozen=True)
class Said:
    """What a run said of one item, of everybody or of one participant."""

    question: Question
    participant: str | None = None
    options: Mapping[str, float | None] = field(default_factory=dict)
    text: str | None = None
    status: str = "ok"

    @property
    def episode(self) -> str:
        return self.participant or self.question.item_id

    def answered(self) -> list[tuple[str, str, float]]:
        """Return the participants whose responses are predicted, with these."""
        return [
            (who, response, weight)
            for who, (response, weight) in self.question.responses.items()
            if self.participant in (None, who)
        ]


def questions(rng: random.Random) -> list[Question]:
    found = []
    for i in range(40):
        legal = [f"option {k}" for k in range(rng.randint(1, 6))]
        rng.shuffle(legal)
        people = rng.sample(PEOPLE, rng.randint(0, len(PEOPLE)))
        responses = {who: (rng.choice(legal), rng.choice((1.0, 1.0, 0.25))) for who in people}
        found.append(
            Question(
                f"q{i}",
                legal,
                None,
                responses,
                rng.choice((None, "test", "train")),
                rng.choice((1.0, 3.0)),
            )
        )
    outside = Question("outside", ["x", "y"], None, {"p0": ("x", 1.0), "p1": ("z", 1.0)})
    return [*found, outside, Question("no options", None, None, {"p0": ("x", 1.0)})]


def keys(rng: random.Random) -> list[Question]:
    def one(i: int) -> Question:
        legal = ["1", "2", "3"]
        credited = rng.choice(([rng.choice(legal)], [rng.choice(legal)], [], None))
        responses = {rng.choice(PEOPLE): (rng.choice(legal), 1.0)}
        return Question(
            f"k{i}", legal, credited, responses, rng.choice((None, "train")), rng.choice((1.0, 2.0))
        )

    return [one(i) for i in range(60)]


def nats(rng: random.Random, question: Question) -> dict[str, float | None]:
    """Return log-probabilities that tie now and then, and that add up to nothing in particular."""
    return {option: -float(rng.choice((1, 1, 2, 40, 900))) for option in question.legal or ()}


def whole(rng: random.Random, asked: Sequence[Question]) -> list[Said]:
    return [Said(question, options=nats(rng, question)) for question in asked]


def impossible(rng: random.Random, asked: Sequence[Question]) -> list[Said]:
    """Give no probability to some options, whether people chose them or not."""
    said = whole(rng, asked)
    return [
        replace(each, options={o: rng.choice((-math.inf, logprob)) for o, logprob in each.options.items()})
        for each in said
    ]


def faulty(rng: random.Random, asked: Sequence[Question]) -> list[Said]:
    def broken(said: Said) -> Said:
        options = dict(said.options)
        for option in list(options):
            fault = rng.random()
            if fault < 0.05:
                del options[option]
            elif fault < 0.15:
                options[option] = rng.choice((None, math.nan, math.inf))
        options["no legal option"] = -0.01
        return replace(said, options=options, status=rng.choice(("ok",) * 8 + ("error", "too_long")))

    return [broken(said) for said in whole(rng, asked)]


def texts(rng: random.Random, asked: Sequence[Question]) -> list[Said]:
    written = [[*(question.legal or ()), "nothing of the kind", None] for question in asked]
    return [
        Said(question, text=text if text is None else f" {text}\n")
        for question, choices in zip(asked, written, strict=True)
        for text in [rng.choice(choices)]
    ]


def personal(rng: random.Random, asked: Sequence[Question]) -> list[Said]:
    """Predict each participant apart; some without an answer, and one who was not asked."""
    return [
        Said(question, who, nats(rng, question) if rng.random() < 0.9 else {})
        for question in asked
        for who in [*question.responses, "somebody else"]
    ]


RUNS: dict[str, Callable[[random.Random, Sequence[Question]], list[Said]]] = {
    make.__name__: make for make in (whole, impossible, faulty, texts, personal)
}
ASKED = {PREDICTED: questions(random.Random("questions")), CREDITED: keys(random.Random("keys"))}


def said_by(run: str, mode_id: str) -> list[Said]:
    return RUNS[run](random.Random(f"{run} {mode_id}"), ASKED[mode_id])


def items_of(asked: Sequence[Question]) -> dict[str, list[Row]]:
    return {
        "items": [
            {
                "item_id": question.item_id,
                "legal_options": question.legal,
                "credited_options": question.credited,
                "split": question.split,
                "weight": question.weight,
            }
            for question in asked
        ],
        "human_responses": [
            {"item_id": question.item_id, "participant_id": who, "response": response, "weight": weight}
            for question in asked
            for who, (response, weight) in question.responses.items()
        ],
    }


def outputs_of(said: Sequence[Said], rng: random.Random | None = None) -> dict[str, list[Row]]:
    """Write answers as raw rows; the options in any order."""
    outputs, options = [], []
    for each in said:
        shared = {
            "item_id": each.question.item_id,
            "episode_id": each.episode,
            "participant_id": each.participant,
        }
        reason = None if each.status == "ok" else "it failed"
        outputs.append(shared | {"status": each.status, "status_reason": reason, "response_text": each.text})
        options += [
            shared
            | {"option_index": i, "option": option, "logprob_nats": logprob}
            | {"status": "ok" if logprob is not None else "missing_option"}
            for i, (option, logprob) in enumerate(each.options.items())
        ]
    if rng is not None:
        rng.shuffle(options)
        rng.shuffle(outputs)
    return {"outputs": outputs, "output_options": options}


@pytest.fixture(scope="module")
def lake(tmp_path_factory, empty_lake, project) -> Home:
    lake = copy_lake(empty_lake, tmp_path_factory.mktemp("people") / "lake")
    for mode_id, asked in ASKED.items():
        add_run(lake, f"items-{mode_id}", mode_id, items_of(asked), kind="items")
        for run in RUNS:
            said, run_id = outputs_of(said_by(run, mode_id)), f"{run}-{mode_id}"
            add_run(lake, run_id, mode_id, said, kind="model", model_id=run)
        shuffled = outputs_of(said_by("whole", mode_id), random.Random("shuffled"))
        add_run(lake, f"shuffled-{mode_id}", mode_id, shuffled, kind="model", model_id="shuffled")
    plant_special(lake)
    built(lake, project)
    return lake


def plant_special(lake: Home) -> None:
    """Write what has a test of its own."""
    cue = Question("cue", [str(k) for k in range(3)], None, {"p": ("0", 1.0)})
    add_run(lake, "items-cue", "politeness", items_of([cue]), kind="items")
    given = {"0": math.log(0.2), "1": math.log(0.1), "2": math.log(0.1)}
    add_run(lake, "cue", "politeness", outputs_of([Said(cue, options=given)]), kind="model", model_id="cue")
    # questions for fitting, and nothing else
    train = Question("train", ["1", "2"], ["1"], {"p": ("1", 1.0)}, split="train")
    add_run(lake, "items-train", "recent_probes", items_of([train]), kind="items")
    said = outputs_of([Said(train, options={"1": 0.0, "2": -math.inf})])
    add_run(lake, "train", "recent_probes", said, kind="model", model_id="train")
    # another sample than that of the published row
    other = Question("other", ["1", "2"], ["1"], {"p": ("1", 1.0)})
    add_run(lake, "items-other", VARIANT, items_of([other]), kind="items")
    said = outputs_of([Said(other, options={"1": 0.0, "2": -1.0})])
    add_run(lake, "other", VARIANT, said, kind="model", model_id="whole")
    add_run(lake, "other-reference", VARIANT, said, kind="reference", model_id="gcm")
    # a model that was asked all and answered the first half
    said = outputs_of(said_by("whole", PREDICTED)[:20])
    add_run(lake, "half", PREDICTED, said, kind="model", model_id="half")
    # a reference that predicts each participant apart
    said = outputs_of(said_by("personal", PREDICTED))
    add_run(lake, "reference", PREDICTED, said, kind="reference", model_id="leave_one_out")


VARIANT = "weather_prediction_hmmr"


def responses_to(
    run: str, mode_id: str, judge: Callable[[Said, str], oracles.Judged]
) -> list[oracles.Weighed]:
    """Judge every response that is predicted; those to questions for fitting are not."""
    asked = [said for said in said_by(run, mode_id) if said.question.split != "train"]
    rows = [
        oracles.Weighed(
            who,
            judge(said, response) if said.status == "ok" else oracles.Judged(None, said.status),
            weight,
        )
        for said in asked
        for who, response, weight in said.answered()
    ]
    # whoever is predicted and did not answer is an error, unless it could not be scored anyway
    for said in asked:
        if said.participant is not None and not said.answered():
            judged = judge(said, "what nobody said")
            status = said.status if said.status != "ok" else judged.why_not
            rows.append(oracles.Weighed(said.participant, oracles.Judged(None, status), 1.0))
    n_planned = sum(len(each.responses) for each in ASKED[mode_id] if each.split != "train")
    return rows + left_out(n_planned - len(rows))


def left_out(n: int) -> list[oracles.Weighed]:
    """Return rows for what was asked and has no answer."""
    return [oracles.Weighed("", oracles.Judged(None, "error"), 1.0)] * n


def answers_of(run: str, mode_id: str, judge: Callable[[Said], oracles.Judged]) -> list[oracles.Weighed]:
    """Judge every answer to a question of the test."""
    rows = [
        oracles.Weighed(
            said.episode,
            judge(said) if said.status == "ok" else oracles.Judged(None, said.status),
            said.question.weight,
        )
        for said in said_by(run, mode_id)
        if said.question.split != "train"
    ]
    return rows + left_out(sum(each.split != "train" for each in ASKED[mode_id]) - len(rows))


def nll(is_renormalised: bool) -> Callable[[Said, str], oracles.Judged]:
    return lambda said, response: oracles.likelihood(
        said.question.legal, said.options, response, is_renormalised=is_renormalised
    )


def hit(said: Said, response: str) -> oracles.Judged:
    return oracles.predicted_choice(said.question.legal, said.options, said.text, response)


def credited_choice(said: Said) -> oracles.Judged:
    """A credited choice is a predicted one with the credited options in the place of the response."""
    legal, credited = said.question.legal, said.question.credited
    if credited is None:
        return oracles.Judged(None, "error")
    hits = [oracles.predicted_choice(legal, said.options, said.text, option) for option in legal or ()]
    if any(each.value is None for each in hits):
        return hits[0]
    return oracles.Judged(
        math.fsum(
            each.value or 0 for option, each in zip(legal or (), hits, strict=True) if option in credited
        )
    )


def probability(said: Said) -> oracles.Judged:
    return oracles.credited_probability(said.question.legal, said.options, said.question.credited)


METRICS: dict[tuple[str, str], tuple[Callable[[str], list[oracles.Weighed]], float]] = {
    (PREDICTED, "human_nll_renormalised"): (lambda run: responses_to(run, PREDICTED, nll(True)), 1),
    (PREDICTED, "human_nll_raw"): (lambda run: responses_to(run, PREDICTED, nll(False)), 1),
    (PREDICTED, "choice_accuracy"): (lambda run: responses_to(run, PREDICTED, hit), 100),
    (CREDITED, "human_nll_renormalised"): (lambda run: responses_to(run, CREDITED, nll(True)), 1),
    (CREDITED, "human_nll_raw"): (lambda run: responses_to(run, CREDITED, nll(False)), 1),
    (CREDITED, "accuracy"): (lambda run: answers_of(run, CREDITED, credited_choice), 100),
    (CREDITED, "correct_probability"): (lambda run: answers_of(run, CREDITED, probability), 100),
}


def scored(lake: Home, run_id: str) -> dict[str, Row]:
    return {row["metric"]: row for row in query(lake, "select * from metrics where run_id = $1", run_id)}


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(("mode_id", "metric"), METRICS)
def test_every_metric_of_people_is_that_of_its_oracle(lake, run, mode_id, metric):
    rows_of, scale = METRICS[mode_id, metric]
    expected = oracles.weighed(rows_of(run), scale)
    row = scored(lake, f"{run}-{mode_id}")[metric]
    for name in ("value_scored", "se"):
        wanted = expected.pop(name)
        if wanted is None or math.isinf(wanted):
            assert row[name] == wanted, name
        else:
            assert row[name] == approx(wanted, rel=1e-9, abs=1e-12), name
    assert {name: row[name] for name in expected} == expected
    assert (row["value"] is None) == (row["n_scored"] < row["n_planned"])


def test_what_a_run_left_unanswered_stays_in_the_denominator(lake):
    asked = [question for question in ASKED[PREDICTED] if question.split != "train"]
    answered = [said.question for said in said_by("whole", PREDICTED)[:20] if said.question.split != "train"]
    n_planned = sum(len(question.responses) for question in asked)
    n_scored = sum(len(question.responses) for question in answered)
    assert 0 < n_scored < n_planned
    row = scored(lake, "half")["human_nll_renormalised"]
    assert (row["n_planned"], row["n_scored"], row["n_error"]) == (n_planned, n_scored, n_planned - n_scored)
    assert row["value"] is None and row["value_scored"] is not None
    assert row["reason"] == f"{n_planned - n_scored} of {n_planned} planned rows have no answer"
    [cell] = query(lake, "select status from table_3 where mode_id = $1 and column_id = 'half'", PREDICTED)
    assert cell["status"] == "part."


def test_the_traps_are_sprung():
    """Every kind of row is there, or the comparison above would say little."""
    judged = [row.judged for run in RUNS for make, _ in METRICS.values() for row in make(run)]
    assert {each.why_not for each in judged} == {None, "unparsed", "error", "too_long", "missing_option"}
    hits = {row.judged.value for row in responses_to("whole", PREDICTED, hit)}
    # two, three and more options tie
    assert {0.0, 1 / 3, 0.5, 1.0} <= hits
    assert math.inf in {row.judged.value for row in responses_to("impossible", PREDICTED, nll(True))}
    assert any(question.split == "train" and question.responses for question in ASKED[PREDICTED])
    people = {len(question.responses) for question in ASKED[PREDICTED]}
    assert {0, 1} <= people
    assert max(people) > 3


def test_raw_and_renormalised_likelihoods_are_two_numbers_with_two_names(lake):
    rows = scored(lake, "cue")
    assert rows["human_nll_raw"]["value"] == approx(-math.log(0.2), rel=1e-15)
    assert rows["human_nll_renormalised"]["value"] == approx(-math.log(0.2 / (0.2 + 0.1 + 0.1)), rel=1e-15)
    assert {rows[name]["unit"] for name in ("human_nll_raw", "human_nll_renormalised")} == {"nats"}
    assert [round(rows[name]["value"], 3) for name in ("human_nll_raw", "human_nll_renormalised")] == [
        1.609,
        0.693,
    ]
    assert rows["choice_accuracy"]["value"] == 100


@pytest.mark.parametrize("mode_id", ASKED)
def test_the_order_of_options_and_answers_changes_no_bit(lake, mode_id):
    ordered, shuffled = (scored(lake, f"{run}-{mode_id}") for run in ("whole", "shuffled"))
    compared = ("value_scored", "se", "n_planned", "n_scored", "n_clusters")
    assert ordered.keys() == shuffled.keys()
    for metric, row in ordered.items():
        assert [row[name] for name in compared] == [shuffled[metric][name] for name in compared], metric


def test_an_answer_to_a_question_for_fitting_is_neither_planned_nor_scored(lake):
    assert scored(lake, "train") == {}
    assert query(lake, "select * from int_scored where run_id = 'train'") == []
    [uniform] = query(lake, "select * from uniform where mode_id = 'recent_probes' and metric = 'accuracy'")
    # what is declared of the mode, and no item
    assert (uniform["value"], uniform["n_items"]) == (50.0, 0)


def test_each_participant_is_met_by_the_prediction_of_that_one_alone(lake):
    rows = query(
        lake,
        "select item_id, episode_id, count(*) as n from int_scored "
        "where run_id = $1 and rule = 'human_nll' and episode_id <> 'somebody else' group by all",
        f"personal-{PREDICTED}",
    )
    expected = {
        (question.item_id, who)
        for question in ASKED[PREDICTED]
        if question.split != "train"
        for who in question.responses
    }
    assert {(row["item_id"], row["episode_id"]) for row in rows} == expected
    assert {row["n"] for row in rows} == {1}


def test_a_reference_that_predicts_participants_fills_its_cell(lake):
    [cell] = query(lake, "select * from table_3 where mode_id = $1 and column_id = 'reference'", PREDICTED)
    expected = oracles.weighed(responses_to("personal", PREDICTED, nll(True)))
    assert cell["run_id"] == "reference"
    assert (cell["n_planned"], cell["n_scored"]) == (expected["n_planned"], expected["n_scored"])
    assert cell["value_scored"] == approx(expected["value_scored"], rel=1e-12)
    [audited] = query(
        lake, "select * from audit_references where agent_id = 'leave_one_out' and mode_id = $1", PREDICTED
    )
    assert (audited["fills_cell"], audited["run_id"]) == (True, "reference")


# ---- other data than the published row's ----


def test_a_variant_has_a_cell_of_its_own_and_none_in_table_3(lake):
    columns = {
        row["column_id"]: row for row in query(lake, "select * from substitutes where mode_id = $1", VARIANT)
    }
    for column_id in ("whole", "reference"):
        assert (columns[column_id]["value"], columns[column_id]["printed"]) == (100.0, "100.0")
        assert columns[column_id]["variant_of"] == "weather_prediction"
    assert columns["uniform"]["value"] == 50.0
    published = query(lake, "select * from table_3 where mode_id = 'weather_prediction'")
    assert {
        row["column_id"]: row["status"] for row in published if row["column_id"] != "uniform"
    } == dict.fromkeys(columns.keys() - {"uniform"}, "n.e.")
    variants = "select mode_id from s1cogbench_modes where variant_of is not null"
    assert query(lake, f"select * from table_3 where mode_id in ({variants})") == []
    [n] = query(lake, "select count(distinct mode_id) as n from table_3")
    assert n == {"n": 27}


def test_no_variant_is_exported(lake):
    labels = [
        row["label"] for row in query(lake, "select label from s1cogbench_modes where variant_of is not null")
    ]
    with duckdb.connect(str(lake.database), read_only=True) as con:
        rows = export_table3(con).rows
    assert len(rows) == 27
    assert not {cell for row in rows for cell in row} & set(labels)


# ---- counts, and sums that others published ----

HMMR = "77ecf8a0019d1bdf02a5bf1349ed4b6c390be66e"


@pytest.mark.parametrize(
    ("revision", "failures"), [(HMMR, ["no_row_where_audit_item_counts_not_agrees"]), ("0" * 40, [])]
)
def test_another_number_of_rows_fails_the_build_where_the_file_is_the_pinned_one(
    tmp_path, empty_lake, project, revision, failures
):
    counted = copy_lake(empty_lake, tmp_path / "lake")
    uri = f"github://cran/hmmr@{revision}/data/WPT.rda"
    asked = Question("i", ["1", "2"], ["1"], {"p": ("1", 1.0)})
    run = {"kind": "items", "model_id": "WPT", "source_uri": uri, "n_source_rows": 9600}
    add_run(counted, "few", VARIANT, items_of([asked]), **run)
    assert [failure.name for failure in build(counted, project).failures] == failures
    rows = query(counted, "select * from audit_item_counts where mode_id = $1 order by measure", VARIANT)
    assert [row["measure"] for row in rows] == ["participants", "source_rows"]
    if failures:
        assert [(row["found"], row["agrees"]) for row in rows] == [(1, False), (9600, True)]
    else:
        assert [(row["found"], row["agrees"], row["reason"]) for row in rows] == [
            (None, None, "not imported: WPT")
        ] * 2


def test_a_count_of_all_waits_for_every_data_set_and_an_older_reading_does_not_count(
    tmp_path, empty_lake, project
):
    partly = copy_lake(empty_lake, tmp_path / "lake")
    revision = "84d0415538cca3f8b495b29c9937c06dad83a25f"
    asked = [Question(f"i{i}", None, None, {"p": ("1", 1.0)}) for i in range(300)]
    for version in (1, 2):
        items = items_of([replace(question, item_id=f"{version}/{question.item_id}") for question in asked])
        run = {
            "kind": "items",
            "model_id": "experiment1",
            "source_uri": f"github://jeaneis/hyperbole@{revision}/experiment1.csv",
            "importer_version": version,
        }
        add_run(partly, f"experiment1-v{version}", "nonliteral_number", items, **run)
    built(partly, project)
    rows = query(partly, "select * from audit_item_counts where source_id = 'hyperbole'")
    found = {row["dataset"]: (row["found"], row["agrees"]) for row in rows}
    assert found == {"experiment1": (300, True), "experiment3b": (None, None), None: (None, None)}


@pytest.mark.parametrize(("nats_off", "agrees"), [(1e-9, True), (0.01, False)])
def test_a_replay_is_compared_with_the_sums_of_its_archive(tmp_path, empty_lake, project, nats_off, agrees):
    replayed = copy_lake(empty_lake, tmp_path / "lake")
    asked = [
        Question(f"k{i}", ["1", "2", "3"], ["1"], {who: ("2", 1.0)})
        for i, who in enumerate(["Expe1/1"] * 3 + ["Expe1/2"])
    ]
    given = {"1": math.log(0.5), "2": math.log(0.25), "3": math.log(0.125)}
    # of a participant whom the archive knows and the replay does not, too
    sums = {"Expe1/1": -3 * math.log(0.25) + nats_off, "Expe1/2": -math.log(0.25), "Expe1/3": 1.0}
    published = [
        {
            "source_uri": "a file",
            "model_id": "a model of the archive",
            "episode_id": who,
            "label": "negative_log_likelihood",
            "value": value,
        }
        for who, value in sums.items()
    ]
    add_run(replayed, "items", "rlwm", {**items_of(asked), "published": published}, kind="items")
    said = outputs_of([Said(question, next(iter(question.responses)), given) for question in asked])
    add_run(replayed, "replay", "rlwm", said, kind="reference", model_id="rlwm_replay")
    failures = [failure.name for failure in build(replayed, project).failures]
    assert failures == ([] if agrees else ["disagreements_have_a_reason_audit_published_cells_"])
    rows = query(
        replayed, "select * from audit_published_cells where mode_id = 'rlwm' and episode_id is not null"
    )
    audited = {row["episode_id"]: row for row in rows}
    assert {who: row["agrees"] for who, row in audited.items()} == {
        "Expe1/1": agrees,
        "Expe1/2": True,
        "Expe1/3": None,
    }
    # a sum, and not a mean
    assert audited["Expe1/1"]["computed"] == approx(-3 * math.log(0.25), rel=1e-12)
    assert audited["Expe1/1"]["metric"] == "human_nll_raw"
    assert audited["Expe1/3"]["reason"] == "no rows of this episode"
