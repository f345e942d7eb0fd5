"""A reader of traces: works a score out from the raw rows and the manifest row of ``coglake trace --json``.

It never looks at counts or queries of a trace, knows nothing of DuckDB, and shares no code with the store.
"""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

from spec import learning_oracles, oracles

Row = Mapping[str, Any]
Trace = Mapping[str, Any]


class Scored(NamedTuple):
    """The value of one row, its weight, and the readout that it belongs to."""

    value: float
    weight: float = 1.0
    readout: str | None = None


def value_of(trace: Trace) -> float:
    """Return the score that the raw rows of a trace come to."""
    of_benchmark = {"s1cogbench": _of_table_3, "cognirank": _of_cognirank, "learning": _of_learning}
    return of_benchmark[trace["cell"]["benchmark"]](trace)


def printed(trace: Trace) -> str:
    """Return how a cell of Table 3 prints that score."""
    text = oracles.printed(value_of(trace), trace["cell"]["decimals"])
    assert text is not None
    return text


def number(cell: object) -> float | None:
    """Return a number of a row; JSON has no infinite ones, so these are texts."""
    return None if cell is None else float(str(cell))


# ---- Table 3 ----


def _of_table_3(trace: Trace) -> float:
    parameters = trace["parameters"]
    if trace["cell"]["column_kind"] == "uniform":
        return _expected(trace)
    if parameters["estimator"] == "belief_weights":
        return _belief_weight(trace)
    rule, is_played = parameters["rule"], trace["cell"]["is_played"]
    rows = (STEP_RULES if is_played and rule not in ANSWER_ONLY else ANSWER_RULES)[rule](trace)
    wanted = parameters["readout"]
    kept = [row for row in rows if wanted is None or row.readout == wanted]
    return float(parameters["scale"]) * ESTIMATORS[parameters["estimator"]](kept, parameters)


def _mean(rows: Sequence[Scored], _: Row) -> float:
    return math.fsum(row.weight * row.value for row in rows) / math.fsum(row.weight for row in rows)


def _trimmed_mean(rows: Sequence[Scored], parameters: Row) -> float:
    cut = oracles.percentile([row.value for row in rows], Fraction(str(parameters["trim_share"])))
    return _mean([row for row in rows if Fraction(row.value) > cut], parameters)


def _stay_interaction(rows: Sequence[Scored], parameters: Row) -> float:
    def share(readout: str) -> float:
        return _mean([row for row in rows if row.readout == readout], parameters)

    gain_if_common = share("common_rewarded") - share("common_unrewarded")
    return (gain_if_common - (share("rare_rewarded") - share("rare_unrewarded"))) / 4


ESTIMATORS: Mapping[str, Callable[[Sequence[Scored], Row], float]] = {
    "mean": _mean,
    "trimmed_mean": _trimmed_mean,
    "stay_interaction": _stay_interaction,
}


# decisions


def _steps(trace: Trace) -> list[Row]:
    return sorted(trace["rows"]["steps"], key=lambda step: (step["episode_id"], step["step_index"]))


def _episodes(trace: Trace) -> Iterable[list[Row]]:
    episodes: dict[str, list[Row]] = defaultdict(list)
    for step in _steps(trace):
        episodes[step["episode_id"]].append(step)
    return episodes.values()


def _is_credited(step: Row) -> float:
    return float(step["action"] in step["credited_options"])


def _asks_for_credit(step: Row) -> bool:
    return step.get("credited_options") is not None and step["status"] == "ok"


def _choices(trace: Trace) -> list[Scored]:
    return [
        Scored(_is_credited(step))
        for step in _steps(trace)
        if _asks_for_credit(step) and not step["is_forced"]
    ]


def _rewards(trace: Trace) -> list[Scored]:
    return [Scored(step["reward"]) for step in _steps(trace) if step["is_rewarded"]]


def _free_rewards(trace: Trace) -> list[Scored]:
    free = [
        [step for step in episode if step["is_rewarded"] and not step["is_forced"]]
        for episode in _episodes(trace)
    ]
    return [Scored(step["reward"], 1.0, f"horizon_{len(game)}") for game in free for step in game]


def _action_counts(trace: Trace) -> list[Scored]:
    steps = _steps(trace)
    at_once = [
        Scored(float(step["action"]), 1.0, step.get("outcome"))
        for step in steps
        if step.get("legal_options") is None and step["status"] == "ok"
    ]
    trials: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for step in steps:
        if step.get("legal_options") is not None:
            trials[step["episode_id"], step["trial"]].append(step)
    return at_once + [
        Scored(sum(step["outcome"] not in ("banked", "stopped") for step in trial), 1.0, trial[-1]["outcome"])
        for trial in trials.values()
        if any(step["is_rewarded"] for step in trial)
    ]


def _confidences(trace: Trace) -> list[Scored]:
    return [Scored(step["confidence"]) for step in _steps(trace)]


def _quadratic(trace: Trace, *, is_stretched: bool) -> list[Scored]:
    scores = []
    for episode in _episodes(trace):
        said = [step["confidence"] for step in episode]
        low, high = (min(said), max(said)) if is_stretched and min(said) < max(said) else (0.0, 1.0)
        scores += [
            Scored(1 - (_is_credited(step) - (step["confidence"] - low) / (high - low)) ** 2)
            for step in episode
            if _asks_for_credit(step)
        ]
    return scores


def _card_errors(trace: Trace, is_error: Callable[[int, bool, int, bool], bool]) -> list[Scored]:
    scores = []
    for episode in _episodes(trace):
        sorted_by = []
        for step in episode:
            rule, *cards = step["hidden_values"]
            matches = [dimension for dimension, card in enumerate(cards) if card == float(step["action"])]
            category = matches[0] if len(matches) == 1 else -1
            sorted_by.append((category, category != rule))
        scores += [Scored(float(is_error(*before, *now))) for before, now in pairwise(sorted_by)]
    return scores


def _stays(trace: Trace) -> list[Scored]:
    stays = []
    for episode in _episodes(trace):
        for first, second, then in zip(episode, episode[1:], episode[2:], strict=False):
            if first["stage"] == 0 and then["stage"] == 0:
                chosen, next_chosen = (
                    step.get("action") or step.get("response_text") for step in (first, then)
                )
                way = "common" if chosen is not None and chosen == first.get("outcome") else "rare"
                paid = "rewarded" if (second.get("reward") or 0) > 0 else "unrewarded"
                stays.append(
                    Scored(float(chosen is not None and chosen == next_chosen), 1.0, f"{way}_{paid}")
                )
    return stays


STEP_RULES: Mapping[str, Callable[[Trace], list[Scored]]] = {
    "credited_choice": _choices,
    "episode_return": _rewards,
    "free_reward": _free_rewards,
    "action_count": _action_counts,
    "reported_confidence": _confidences,
    "quadratic_score": lambda trace: _quadratic(trace, is_stretched=False),
    "adjusted_quadratic_score": lambda trace: _quadratic(trace, is_stretched=True),
    "perseveration": lambda trace: _card_errors(
        trace, lambda before, was_wrong, now, is_wrong: was_wrong and is_wrong and before == now
    ),
    "set_loss": lambda trace: _card_errors(
        trace, lambda before, was_wrong, now, is_wrong: not was_wrong and is_wrong and before != now
    ),
    "stay": _stays,
}


# answers


class Asked(NamedTuple):
    """An answer with its question, and the log-probabilities of its options if there are any."""

    output: Row
    item: Row
    nats: Mapping[str, float]

    @property
    def chosen(self) -> list[str]:
        """The likeliest options, or the one that is named."""
        if not self.nats:
            return oracles.options_named(
                (self.output["response_text"] or "").strip(), self.item["legal_options"]
            )
        return [option for option, nats in self.nats.items() if nats == max(self.nats.values())]


def _key(row: Row) -> tuple[object, ...]:
    return row["item_id"], row["episode_id"], row.get("participant_id")


def _answers(trace: Trace) -> list[Asked]:
    rows = trace["rows"]
    items = {item["item_id"]: item for item in rows["items"]}
    nats: dict[tuple[object, ...], dict[str, float]] = defaultdict(dict)
    for option in rows.get("output_options", []):
        nats[_key(option)][option["option"]] = number(option["logprob_nats"]) or 0.0
    return [
        Asked(
            output,
            items[output["item_id"]],
            {
                option: nats[_key(output)][option]
                for option in items[output["item_id"]].get("legal_options") or ()
                if nats[_key(output)]
            },
        )
        for output in rows["outputs"]
        if output["status"] == "ok" and output["item_id"] in items
    ]


def _responses(trace: Trace) -> Iterable[tuple[Asked, Row]]:
    people: dict[str, list[Row]] = defaultdict(list)
    for response in trace["rows"]["human_responses"]:
        people[response["item_id"]].append(response)
    for answer in _answers(trace):
        of_one = answer.output.get("participant_id")
        for response in people[answer.item["item_id"]]:
            if of_one in (None, response["participant_id"]):
                yield answer, response


def _reports(trace: Trace) -> list[Scored]:
    scores = []
    for output, item, _ in _answers(trace):
        spacing = output.get("report_spacing")
        if spacing is not None:
            low, high = output["report_low"], output["report_high"]
            distance = (
                oracles.uniform_interval_error(item["target"], low, high)
                if spacing == 0
                else oracles.uniform_grid_error(item["target"], low, high, spacing)
            )
        else:
            distance = abs(_report(output) - item["target"])
        scores.append(Scored(float(distance), item["weight"]))
    return scores


def _report(output: Row) -> float:
    said = output.get("response_number")
    if said is None:
        said, _ = oracles.number_read(output["response_text"].strip())
    assert said is not None
    return float(said)


def _clipped(report: float, parameters: Row) -> float:
    return max(parameters["clip_low"], min(parameters["clip_high"], report))


def _report_scores(trace: Trace) -> list[Scored]:
    return [
        Scored(1 - abs(item["target"] - _clipped(_report(output), trace["parameters"])), item["weight"])
        for output, item, _ in _answers(trace)
    ]


def _belief_weight(trace: Trace) -> float:
    rows = []
    for output, item, _ in _answers(trace):
        facts = json.loads(item["facts_json"])
        report = _clipped(_report(output), trace["parameters"])
        if 0 < facts["prior"] < 1 and 0 < facts["likelihood"] < 1:
            rows.append([oracles.logit(p) for p in (facts["prior"], facts["likelihood"], report)])
    pp, pl, ll, pr, lr = (
        math.fsum(row[one] * row[other] for row in rows)
        for one, other in ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2))
    )
    prior = (ll * pr - pl * lr) / (pp * ll - pl * pl)
    likelihood = (pp * lr - pl * pr) / (pp * ll - pl * pl)
    weights = {
        "prior_weight": prior,
        "likelihood_weight": likelihood,
        "weight_difference": prior - likelihood,
        "weight_ratio": prior / likelihood,
    }
    return float(trace["parameters"]["scale"]) * weights[trace["parameters"]["metric"]]


ANSWER_RULES: Mapping[str, Callable[[Trace], list[Scored]]] = {
    "human_nll": lambda trace: [
        Scored(oracles.human_nll(answer.nats, response["response"]), response["weight"])
        for answer, response in _responses(trace)
    ],
    "human_nll_raw": lambda trace: [
        Scored(0 - answer.nats[response["response"]], response["weight"])
        for answer, response in _responses(trace)
    ],
    "predicted_choice": lambda trace: [
        Scored((response["response"] in answer.chosen) / len(answer.chosen), response["weight"])
        for answer, response in _responses(trace)
    ],
    "credited_choice": lambda trace: [
        Scored(
            len(set(answer.chosen) & set(answer.item["credited_options"])) / len(answer.chosen),
            answer.item["weight"],
        )
        for answer in _answers(trace)
    ],
    "credited_probability": lambda trace: [
        Scored(
            math.fsum(
                math.exp(-oracles.human_nll(answer.nats, each)) for each in answer.item["credited_options"]
            ),
            answer.item["weight"],
        )
        for answer in _answers(trace)
    ],
    "report_error": _reports,
    "clipped_report_score": _report_scores,
    "reported_value": lambda trace: [
        Scored(_report(output), item["weight"], item["template_id"]) for output, item, _ in _answers(trace)
    ],
}
ANSWER_ONLY = ANSWER_RULES.keys() - STEP_RULES.keys()


# exact expectations


def _expected(trace: Trace) -> float:
    parameters = trace["parameters"]
    expectation = EXPECTATIONS[parameters["uniform_rule"]]
    items = trace["rows"].get("items", [])
    if not items:
        # nothing is in the lake: as many legal options as are declared, one of them right
        items = [
            {
                "item_id": "",
                "legal_options": list(range(parameters["declared_n_legal"])),
                "credited_options": [0],
            }
        ]
    weights: dict[str, float] = {item["item_id"]: item.get("weight", 1.0) for item in items}
    people = trace["rows"].get("human_responses")
    if people is not None:
        weights = {
            item_id: math.fsum(each["weight"] for each in people if each["item_id"] == item_id)
            for item_id in weights
        }
    known: dict[str, float] = {}
    rows = []
    for item in items:
        if parameters["readout"] is not None and item["template_id"] != parameters["readout"]:
            continue
        if item.get("credited_options") is None and parameters["uniform_rule"] == "credited_share":
            continue
        told = json.dumps([item.get(name) for name in TOLD], sort_keys=True)
        if told not in known:
            found = expectation(item, parameters)
            known[told] = math.nan if found is None else float(found)
        if not math.isnan(known[told]):
            rows.append(Scored(known[told], weights[item["item_id"]]))
    return float(parameters["scale"]) * _mean(rows, parameters)


TOLD = ("legal_options", "credited_options", "support_low", "support_high", "target", "facts_json")


def _facts(item: Row) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(item["facts_json"])
    return facts


def _average(numbers: Sequence[float]) -> float:
    return math.fsum(numbers) / len(numbers)


def _tree(item: Row) -> oracles.Tree:
    facts = _facts(item)
    return oracles.uniform_tree(facts["branching"], facts["node_values"])


def _card_error(
    item: Row, parameters: Row, is_error: Callable[[oracles.Sorted, oracles.Sorted], bool]
) -> Fraction | None:
    is_switch = _facts(item).get("is_rule_switch")
    if is_switch is None:  # the first trial has none before it
        return None
    cards = tuple(range(1, int(parameters["n_dimensions"]) + 1))
    before, now = (oracles.Sorted(rule, cards, None) for rule in (0, int(is_switch)))
    return oracles.uniform_card_error(before, now, len(item["legal_options"]), is_error)


EXPECTATIONS: Mapping[str, Callable[[Row, Row], float | Fraction | None]] = {
    "credited_share": lambda item, _: Fraction(
        len(set(item["legal_options"]) & set(item["credited_options"])), len(item["legal_options"])
    ),
    "legal_share": lambda item, _: Fraction(1, len(item["legal_options"])),
    "log_legal": lambda item, _: math.log(len(item["legal_options"])),
    "continuous_report": lambda item, _: oracles.uniform_interval_error(
        item["target"], item["support_low"], item["support_high"]
    ),
    "integer_report": lambda item, _: oracles.uniform_grid_error(
        item["target"], item["support_low"], item["support_high"]
    ),
    "bart": lambda item, _: oracles.uniform_balloon(_facts(item)["maximum"]).reward,
    "bart_pumps": lambda item, _: oracles.uniform_balloon(_facts(item)["maximum"]).pumps,
    "expected_reward": lambda item, _: _average(_facts(item)["reward_means"]),
    "two_step": lambda item, _: _average(_facts(item)["reward_rates"]),
    "mouselab": lambda item, _: _tree(item).expected_return,
    "mouselab_reveals": lambda item, _: _tree(item).reveals,
    "perseveration": lambda item, parameters: _card_error(item, parameters, oracles.perseverates),
    "set_loss": lambda item, parameters: _card_error(item, parameters, oracles.loses_set),
}


# ---- CogniRank ----


def _of_cognirank(trace: Trace) -> float:
    if trace["nested"]:
        return math.fsum(
            component["weight_numerator"] * value_of(nested)
            for component, nested in zip(trace["components"], trace["nested"], strict=True)
        ) / int(trace["components"][0]["weight_denominator"])
    parameters = trace["parameters"]
    part_of, values = parameters["stratum_fact"], COMPONENT_RULES[parameters["rule"]](trace)
    parts: dict[object, list[Scored]] = defaultdict(list)
    for item in trace["rows"]["items"]:
        facts = json.loads(item["facts_json"]) if item.get("facts_json") else {}
        parts[facts[part_of] if part_of else ""].append(Scored(values[item["item_id"]], item["weight"]))
    return float(parameters["scale"]) * _average([_mean(part, parameters) for part in parts.values()])


def _matches(trace: Trace) -> dict[str, float]:
    return {
        item["item_id"]: oracles.answer_match(
            json.loads(item["facts_json"])["format"],
            output["response_text"],
            item["credited_options"],
            json.loads(item["facts_json"]).get("choices", ()),
        )
        for output, item, _ in _answers(trace)
    }


def _verdicts(trace: Trace) -> dict[str, float]:
    parameters = trace["parameters"]
    return {
        row["item_id"]: row["verdict"]
        for row in trace["rows"]["verdicts"]
        if row["answer_rule"] == parameters["readout"]
        and row["grader_version"] == parameters["grader_version"]
    }


def _likeliest(trace: Trace) -> dict[str, float]:
    given: dict[str, list[oracles.Given]] = defaultdict(list)
    for row in trace["rows"]["output_options"]:
        given[row["item_id"]].append(
            oracles.Given(
                row["option"],
                number(row["logprob_nats"]),
                row["n_tokens"],
                row["n_characters"],
                row["n_bytes"],
            )
        )
    found = {}
    for _, item, _ in _answers(trace):
        [credited] = item["credited_options"]
        share, _ = oracles.normalised_likelihood(
            given[item["item_id"]], credited, trace["parameters"]["readout"]
        )
        assert share is not None
        found[item["item_id"]] = float(share)
    return found


COMPONENT_RULES = {"answer_match": _matches, "verdict": _verdicts, "normalised_likelihood": _likeliest}


# ---- Learning ----


def _of_learning(trace: Trace) -> float:
    if trace["nested"]:
        return _average([value_of(task) for task in trace["nested"]])
    questions: dict[str, list[Row]] = defaultdict(list)
    for item in trace["rows"]["items"]:
        questions[item["participant_id"]].append(item)
    episodes = {episode[0]["episode_id"]: episode for episode in _episodes(trace)}
    rule = LEARNING_RULES[trace["parameters"]["score_rule"]]
    return _average([rule(episodes[name], asked, trace["parameters"]) for name, asked in questions.items()])


def _accuracy(episode: Sequence[Row], items: Sequence[Row], task: Row) -> float:
    [reply] = [step["response_text"] for step in episode if step["outcome"] == "examined"]
    asked = {json.loads(item["facts_json"])["question"]: item for item in items}
    asked.pop(0, None)
    said = learning_oracles.answers(reply, len(asked))
    right = [
        learning_oracles.is_right(
            json.loads(item["facts_json"]).get("match_kind", task["match_kind"]),
            said[question],
            item["credited_options"][0],
        )
        for question, item in asked.items()
    ]
    return sum(right) / len(right)


def _solved_at(replies: Sequence[Row]) -> int | None:
    solved = [place for place, step in enumerate(replies, start=1) if step["outcome"] == "solved"]
    return solved[0] if solved else None


def _induced(episode: Sequence[Row], items: Sequence[Row], task: Row) -> float:
    n_used = task["initial_examples"] + sum(step["outcome"] == "example" for step in episode)
    accuracy = Fraction(_accuracy(episode, items, task)).limit_denominator(1000)
    return learning_oracles.active_induction(
        accuracy.numerator,
        accuracy.denominator,
        n_used,
        task["initial_examples"],
        task["free_threshold"],
        task["max_examples"],
        task["weight_accuracy"],
        task["weight_efficiency"],
    )


def _game(episode: Sequence[Row], _: Sequence[Row], task: Row) -> float:
    told = [step["hidden_values"][0] for step in episode if step.get("hidden_values")]
    return learning_oracles.runtime_rl(
        _solved_at(episode),
        task["budget_steps"],
        task["min_explore_steps"],
        told[-1] if told else 0.0,
        floor=task["efficiency_floor"],
    )


def _practised(episode: Sequence[Row], items: Sequence[Row], task: Row) -> float:
    rounds: dict[int, list[Row]] = defaultdict(list)
    for step in episode:
        if step["outcome"] != "examined":
            rounds[step["trial"]].append(step)
    efficiencies = [
        learning_oracles.step_efficiency(
            _solved_at(replies), task["budget_steps"], task["min_explore_steps"], task["efficiency_floor"]
        )
        for _, replies in sorted(rounds.items())
    ]
    [score] = learning_oracles.procedural(efficiencies, _accuracy(episode, items, task))
    return score


LEARNING_RULES: Mapping[str, Callable[[Sequence[Row], Sequence[Row], Row], float]] = {
    "fraction_correct": lambda episode, items, task: (
        task["weight_accuracy"] * _accuracy(episode, items, task)
    ),
    "active_induction": _induced,
    "runtime_rl": _game,
    "procedural": _practised,
}
