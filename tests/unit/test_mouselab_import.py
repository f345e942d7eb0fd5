"""Mouselab trials: does every decision, stopping included, become an item with its prompt and a response?"""

import json
import math
import os
from collections import Counter
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from handwritten import ingested

from ingest.mouselab import FOLDS, MouselabImporter
from ingest.pipeline import ingest, listing
from store.errors import InvalidSource
from store.lake import part_paths
from store.manifest import load_sources
from store.schemas import RAW_TABLES
from store.settings import Home

TRIALS = "data/exp1/trials.json"


def trial(*clicks, graph="412", **changed):
    # the leftmost way down the tree
    route = list(range(len(graph or "") + 1))
    return {"mdp": "x", "reveals": list(clicks), "route": route, "graph": graph, "score": 5} | changed


def rows_of(lake, table):
    paths = [str(path) for path in part_paths(lake, table)]
    return ds.dataset(paths, schema=RAW_TABLES[table]).to_table().to_pylist() if paths else []


def imported(folder, participants):
    lake, report = ingested(folder, "mouselab", TRIALS, json.dumps(participants))
    assert report.failures == (), report.failures
    return {table: rows_of(lake, table) for table in ("items", "human_responses", "runs")}, report


def refusal(folder, content):
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    lake, report = ingested(folder, "mouselab", TRIALS, text)
    [failure] = report.failures
    assert isinstance(failure, InvalidSource) and report.n_new_rows == 0
    assert rows_of(lake, "runs") == []
    where = "generated://handwritten@1/data/exp1/trials.json: "
    assert str(failure).startswith(where), failure
    return str(failure).removeprefix(where)


def decisions_by_hand(clicks, branching):
    """Walk through a trial: (known before, legal options, response) of each decision."""
    parents = {}

    def walk(node, level):
        for _ in range(branching[level] if level < len(branching) else 0):
            child = len(parents) + 1
            parents[child] = node
            walk(child, level + 1)

    walk(0, 0)
    known = {}
    for node, value in [*clicks, (None, None)]:
        legal = [n for n, parent in parents.items() if n not in known and parent in {0, *known}]
        yield dict(known), ["STOP", *map(str, legal)], "STOP" if node is None else str(node)
        known[node] = value


def test_a_trial_of_n_clicks_is_n_plus_one_decisions(tmp_path):
    clicks = [[9, -5], [10, 10], [1, 5], [12, -10]]
    tables, report = imported(tmp_path, {"w1": [trial(), trial(*clicks)], "w0": [trial([5, 10])]})
    items = {item["item_id"]: item for item in tables["items"]}
    responses = {response["item_id"]: response for response in tables["human_responses"]}
    [run] = tables["runs"]
    expected = [("w0", 0, [[5, 10]]), ("w1", 0, []), ("w1", 1, clicks)]
    names = []
    for participant, number, own in expected:
        for decision, (known, legal, response) in enumerate(decisions_by_hand(own, (4, 1, 2))):
            name = f"{run['run_id']}/{participant}/{number}/{decision}"
            names.append(name)
            assert items[name]["legal_options"] == legal
            assert json.loads(items[name]["facts_json"]) == {
                "trial": number,
                "branching": [4, 1, 2],
                "known": {str(node): value for node, value in known.items()},
            }
            assert responses[name]["response"] == response
            for row in (items[name], responses[name]):
                assert (row["mode_id"], row["source_id"]) == ("mouselab_prediction", "mouselab")
                assert (row["participant_id"], row["weight"], row["split"]) == (participant, 1.0, None)
            assert items[name]["credited_options"] is None
            assert responses[name]["fold"] == FOLDS[number]
    assert [item["item_id"] for item in tables["items"]] == names == list(responses)
    assert (report.n_source_rows, report.n_unreadable_rows) == (3, 0)


def test_the_run_brings_items_and_no_agent(tmp_path):
    tables, _ = imported(tmp_path, {"w0": [trial([5, 10])]})
    [run] = tables["runs"]
    assert (run["kind"], run["agent_kind"], run["model_id"]) == ("items", "human", "exp1")
    assert run["planned_modes"] == ["mouselab_prediction"] and run["source_id"] == "mouselab"
    assert (run["n_source_rows"], run["n_unreadable_rows"], run["notes"]) == (1, 0, [])
    assert run["run_id"].startswith("mouselab-exp1-") and len(run["parts"]) == 2


def test_what_is_known_keeps_the_order_of_the_clicks(tmp_path):
    tables, _ = imported(tmp_path, {"w0": [trial([13, 5], [1, -10], [14, 25])]})
    last = json.loads(tables["items"][-1]["facts_json"])
    assert list(last["known"].items()) == [("13", 5), ("1", -10), ("14", 25)]


# --- prompts ---

TREE_412 = (
    "1 below 0, 2 below 1, 3 below 2, 4 below 2, 5 below 0, 6 below 5, 7 below 6, 8 below 6, "
    "9 below 0, 10 below 9, 11 below 10, 12 below 10, 13 below 0, 14 below 13, 15 below 14, 16 below 14"
)

SESSION = [
    trial([5, 10], [6, -5], route=[0, 5, 6, 7], score=15),
    trial(route=[0, 1, 2, 4], score=-25),
    trial([9, 25], [10, 5], [13, -10], route=[0, 9, 10, 12], score=75),
    trial([1, -10], score=0),
]


def prompts(folder, trials):
    """The prompt of each decision, by trial and decision."""
    tables, _ = imported(folder, {"w1": [trial([1, 999])], "w0": trials, "w2": [trial([1, 999])]})
    names = ((item["item_id"].split("/")[1:], item["prompt"]) for item in tables["items"])
    return {(int(number), int(step)): prompt for (who, number, step), prompt in names if who == "w0"}


def test_a_prompt_shows_the_tree_the_trial_so_far_and_the_legal_options(tmp_path):
    found = prompts(tmp_path, SESSION)
    assert all(f"the node above it: {TREE_412}.\n" in prompt for prompt in found.values())
    assert (
        "Your rounds so far:\nnone\n\nThis is round 1. Revealed so far in this round: nothing." in found[0, 0]
    )
    assert found[0, 0].endswith("one of: STOP, 1, 5, 9, 13.\nYou reply:")
    last = "This is round 3. Revealed so far in this round: node 9 holds 25, node 10 holds 5."
    assert last in found[2, 2] and found[2, 2].endswith("one of: STOP, 1, 5, 11, 12, 13.\nYou reply:")


def test_a_prompt_remembers_the_trials_before_it_in_their_order(tmp_path):
    found = prompts(tmp_path, SESSION)
    rounds = [
        "Round 1. Revealed: node 5 holds 10, node 6 holds -5. Journey: 0-5-6-7. Points earned: 15.\n",
        "Round 2. Revealed: nothing. Journey: 0-1-2-4. Points earned: -25.\n",
        "Round 3. Revealed: node 9 holds 25, node 10 holds 5, node 13 holds -10. Journey: 0-9-10-12. "
        "Points earned: 75.\n",
    ]
    for (number, _), prompt in found.items():
        history = "".join(rounds[:number]) or "none\n"
        assert f"Your rounds so far:\n{history}\nThis is round {number + 1}. " in prompt
    assert "999" not in "".join(found.values())


@pytest.mark.parametrize("clicks", [[], [[5, 10]], [[5, 10], [1, -5]], [[5, 10], [6, 5], [9, 5]]])
def test_a_prompt_neither_knows_the_response_nor_what_came_after_it(tmp_path, clicks):
    before = prompts(tmp_path / "a", SESSION)
    changed = [SESSION[0] | {"reveals": clicks, "route": [0, 13, 14, 15], "score": 1}, trial([1, -5])]
    after = prompts(tmp_path / "b", changed)
    same = next(
        (n for n, (new, old) in enumerate(zip(clicks, [[5, 10], [6, -5]], strict=False)) if new != old),
        min(len(clicks), 2),
    )
    # up to the first decision that differs, which may be to stop, nothing does
    for step in range(same + 1):
        assert after[0, step] == before[0, step]
    assert after[1, 0] != before[1, 0]


def test_a_byte_order_mark_and_windows_line_ends_change_nothing(tmp_path):
    text = json.dumps({"w0": SESSION}, indent=1)
    prompts_of = []
    for name, content in (("a", text), ("b", b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())):
        lake, report = ingested(tmp_path / name, "mouselab", TRIALS, content)
        assert report.failures == ()
        prompts_of.append([item["prompt"] for item in rows_of(lake, "items")])
    assert prompts_of[0] == prompts_of[1]


def test_folds_are_those_of_the_permutation_that_julia_draws():
    # randperm(MersenneTwister(123), 25) of Julia 1.0 to 1.10; every fifth trial is one fold
    permutation = [
        *(8, 16, 21, 3, 22),
        *(20, 6, 19, 24, 9),
        *(14, 4, 10, 23, 18),
        *(25, 11, 13, 17, 1),
        *(5, 12, 15, 2, 7),
    ]
    assert sorted(permutation) == list(range(1, 26))
    assert [FOLDS[number - 1] for number in permutation] == [1, 2, 3, 4, 5] * 5


def test_trials_beyond_the_25_of_the_authors_go_round_the_folds(tmp_path):
    tables, _ = imported(tmp_path, {"w0": [trial() for _ in range(27)]})
    assert [row["fold"] for row in tables["human_responses"]] == [*FOLDS, *FOLDS[:2]]


def test_stopping_where_nothing_is_left_is_a_decision(tmp_path):
    tables, _ = imported(tmp_path, {"w0": [trial([1, 5], [2, 5], [3, -5], graph="21")]})
    # a graph of two branches with one node each has nodes 1 to 4
    assert [item["legal_options"] for item in tables["items"]] == [
        ["STOP", "1", "3"],
        ["STOP", "2", "3"],
        ["STOP", "3"],
        ["STOP", "4"],
    ]
    tables, _ = imported(tmp_path / "all", {"w0": [trial([1, 5], [2, 5], graph="2")]})
    assert tables["items"][-1]["legal_options"] == ["STOP"]
    assert tables["human_responses"][-1]["response"] == "STOP"


@pytest.mark.parametrize("graph", ["412", "312", "22", "1", "1212", "3"])
def test_nodes_of_any_tree_open_as_their_parents_are_known(tmp_path, graph):
    branching = tuple(map(int, graph))
    clicks = []
    while True:
        *_, (_, legal, _) = decisions_by_hand(clicks, branching)
        if len(legal) == 1:
            break
        clicks.append([int(legal[-1]), 5])
    tables, _ = imported(tmp_path, {"w0": [trial(*clicks, graph=graph)]})
    expected = [legal for _, legal, _ in decisions_by_hand(clicks, branching)]
    assert [item["legal_options"] for item in tables["items"]] == expected


def test_trees_of_several_shapes_may_share_a_file(tmp_path):
    tables, _ = imported(tmp_path, {"w0": [trial(graph="2"), trial(graph="31")]})
    assert [item["legal_options"] for item in tables["items"]] == [
        ["STOP", "1", "2"],
        ["STOP", "1", "3", "5"],
    ]


@pytest.mark.parametrize(
    ("clicks", "named"),
    [
        ([[2, 5]], "node 2"),  # before its parent
        ([[1, 5], [1, 5]], "node 1"),  # again
        ([[17, 5]], "node 17"),  # not there
        ([[0, 5]], "node 0"),  # the root
        ([[-1, 5]], "node -1"),
    ],
)
def test_a_click_on_a_node_that_was_not_open_refuses_the_file(tmp_path, clicks, named):
    said = refusal(tmp_path, {"w0": [trial([5, 5])], "w1": [trial(), trial(*clicks)]})
    assert (
        said == f"expected clicks on open nodes alone, found 1 others, first participant w1, trial 1, {named}"
    )


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        (trial([1, 5, 3]), "clicks as pairs of node and value, both whole numbers"),
        (trial(["1", 5]), "clicks as pairs of node and value, both whole numbers"),
        (trial([1.5, 5]), "clicks as pairs of node and value, both whole numbers"),
        (trial([1, None]), "clicks as pairs of node and value, both whole numbers"),
        (trial([1, "5"]), "clicks as pairs of node and value, both whole numbers"),
        (trial([9999999999, 5]), "clicks as pairs of node and value, both whole numbers"),
        (trial([1, 6.000000001]), "clicks as pairs of node and value, both whole numbers"),
        (trial([1, 5.0]), "clicks as pairs of node and value, both whole numbers"),
        (trial([1, math.nan]), "clicks as pairs of node and value, both whole numbers"),
        (trial([1, 10**12]), "clicks as pairs of node and value, both whole numbers"),
        (trial(None), "clicks as pairs of node and value, both whole numbers"),
        (trial(reveals=None), "clicks as pairs of node and value, both whole numbers"),
        (trial(reveals={"1": 5}), "clicks as pairs of node and value, both whole numbers"),
        (trial(route=None), "a route of nodes"),
        (trial(route="0-1"), "a route of nodes"),
        (trial(route=[0, "1"]), "a route of nodes"),
        (trial(route=[0, None]), "a route of nodes"),
        (trial(score=None), "a score in whole points"),
        (trial(score=math.nan), "a score in whole points"),
        (trial(score=15.0), "a score in whole points"),
        (trial(score=10**30), "a score in whole points"),
        (trial(score="5"), "a score in whole points"),
        *(
            (trial(route=route), "routes from the root to a leaf")
            # nowhere, back, short of a leaf, beyond it, across branches, from a node below the root
            for route in ([], [0, 99], [0], [0, 1, 2], [0, 1, 2, 3, 4], [0, 1, 2, 7], [1, 2, 3], [0, 1, 0, 1])
        ),
        (trial(graph="402"), "trees of up to four levels, one digit per level"),
        (trial(graph="99999"), "trees of up to four levels, one digit per level"),
        (trial(graph=[[1], []]), "trees of up to four levels, one digit per level"),
        (trial(graph=None), "trees of up to four levels, one digit per level"),
        (trial(rts=[]), "trials with the keys graph, mdp, reveals, route, score"),
        ({"reveals": []}, "trials with the keys graph, mdp, reveals, route, score"),
        ([], "a list of trials per participant"),
        (None, "a list of trials per participant"),
    ],
)
def test_a_trial_of_another_form_refuses_the_file(tmp_path, broken, expected):
    said = refusal(tmp_path, {"w0": [trial()], "w1": [trial(), broken, trial()]})
    assert said == f"expected {expected}, found 1 others, first participant w1, trial 1"


def test_a_participant_who_is_no_list_refuses_the_file(tmp_path):
    said = refusal(tmp_path, {"w0": trial()})
    assert said == "expected a list of trials per participant, found 1 others, first participant w0, trial 0"


@pytest.mark.parametrize("name", ["", "a/b", "e\u0301", "a b"])
def test_a_participant_who_cannot_be_named_in_an_id_refuses_the_file(tmp_path, name):
    said = refusal(tmp_path, {"w0": [trial()], name: [trial()]})
    assert said == (
        "expected participants named with letters, digits and . _ -, found 1 others, "
        f"first participant {name}, trial 0"
    )


def test_a_participant_without_trials_is_named(tmp_path):
    tables, report = imported(tmp_path, {"w0": [trial()], "w1": []})
    assert {item["participant_id"] for item in tables["items"]} == {"w0"}
    assert report.notes == (f"{TRIALS}: 0 rows: the list of trials of w1 is empty",)
    assert report.n_unreadable_rows == 0


def test_a_participant_who_appears_twice_refuses_the_file(tmp_path):
    one = json.dumps([trial()])
    said = refusal(tmp_path, f'{{"w0": {one}, "w1": {one}, "w0": {one}}}')
    assert said.startswith("expected each participant once, found 2 others, first participant w0, trial 0")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('{"w0": [', "not readable as JSON (Malformed JSON at byte 8 of input: unexpected end of data)"),
        ("", "not readable as JSON ("),
        ("[]", "expected one object, participant to trials, found array"),
        ("null", "expected one object, participant to trials, found null"),
        (b'{"w\xff": []}', "not UTF-8 text at byte 3"),
    ],
)
def test_a_file_that_is_no_such_json_is_refused(tmp_path, content, sentence):
    assert refusal(tmp_path, content).startswith(sentence)


def test_a_file_without_trials_is_a_run_without_rows(tmp_path):
    tables, report = imported(tmp_path, {})
    assert tables["items"] == tables["human_responses"] == []
    assert report.notes == (f"{TRIALS}: the file holds no rows",) and len(tables["runs"]) == 1


def test_other_files_of_the_repository_hold_no_rows(tmp_path):
    source = load_sources()["mouselab"]
    run_ids = {file.path: MouselabImporter().identify(source, file) for file in source.files}
    assert run_ids == {
        "analysis/model_names.json": None,
        TRIALS: "mouselab-exp1-00dd606006e4-v2",
    }
    names = next(file for file in source.files if file.path != TRIALS)
    with pytest.raises(InvalidSource, match="not a file of trials"):
        MouselabImporter().read(source, names, Path(tmp_path))


@pytest.mark.mirror
def test_the_published_counts_come_out(tmp_path):
    lake = Home(tmp_path / "lake")
    source = load_sources()["mouselab"]
    [report] = ingest(lake, [source], mirror=os.environ["COGLAKE_MIRROR"])
    assert report.failures == () and (report.n_source_rows, report.n_unreadable_rows) == (95 * 25, 0)
    items, responses = rows_of(lake, "items"), rows_of(lake, "human_responses")
    assert len(items) == len(responses) == 20_363
    assert len({item["participant_id"] for item in items}) == 95
    n_legal = Counter(len(item["legal_options"]) for item in items)
    published = {1: 63, 2: 167, 3: 576, 4: 2212, 5: 11096, 6: 4280, 7: 1385, 8: 464, 9: 120}
    assert n_legal == published
    assert sum(map(math.log, n_legal.elements())) / 20_363 == pytest.approx(1.6336348460, abs=5e-11)
    assert sum(response["response"] == "STOP" for response in responses) == 95 * 25
    options = {item["item_id"]: item["legal_options"] for item in items}
    assert all(response["response"] in options[response["item_id"]] for response in responses)
    # the folds of the authors: five trials of each participant
    folds = Counter(
        (response["participant_id"], response["fold"])
        for response in responses
        if response["response"] == "STOP"
    )
    assert set(folds.values()) == {5} and len(folds) == 95 * 5
    # a second time adds nothing
    [again] = ingest(lake, [source], mirror=os.environ["COGLAKE_MIRROR"])
    assert again.n_new_rows == 0
    [state] = listing(lake, [source])
    assert state.state == "imported" and state.n_rows == 95 * 25
