"""SQL that gives a score of Learning again, over the replies of its dialogues."""

from collections.abc import Mapping
from typing import Any

from store.trace_sql import Raw, of_run, table, with_tables

# ---- instances of Learning ----

_EXAMS = """exams as (
    select episode_id, count(*) filter (where is_correct) / count(*) as accuracy
    from int_learning_answers
    where {of}
    group by episode_id
)"""
# replies until a game or a practice round was solved, and how far it was brought
_ROUNDS = """rounds as (
    select
        episode_id,
        coalesce(trial, 0) as trial,
        1 + min(step_index) filter (where outcome = 'solved' and status = 'ok')
            - min(step_index) as solved_at,
        arg_max(hidden_values[1], step_index) filter (where hidden_values[1] is not null) as progress
    from steps
    group by episode_id, coalesce(trial, 0)
    having count(*) filter (where outcome = 'examined' and status = 'ok') = 0
)"""
_EFFICIENCY_OF_STEPS = """case
            when solved_at is null then 0
            when greatest(1, least(solved_at, {budget_steps})) <= {min_explore_steps}
                or {budget_steps} <= {min_explore_steps} then 1
            else greatest(
                {efficiency_floor},
                1 - (1 - {efficiency_floor})
                * (greatest(1, least(solved_at, {budget_steps})) - {min_explore_steps})
                / ({budget_steps} - {min_explore_steps})
            )
        end"""
_EXAMPLES = """examples as (
    select
        episode_id,
        {initial_examples} + count(*) filter (where outcome = 'example') as n_used,
        greatest({initial_examples}, {free_threshold}) as n_free
    from steps
    group by episode_id
),
costs as (
    select
        episode_id,
        case
            when n_used <= n_free or {max_examples} <= n_free then 1
            else greatest({efficiency_floor}, 1 - (n_used - n_free) / ({max_examples} - n_free))
        end as efficiency
    from examples
)"""
_PRACTICE = """practised as (
    select *, count(*) over (partition by episode_id) as n_rounds, {efficiency} as efficiency
    from rounds
),
practice as (
    select
        episode_id,
        avg(efficiency) filter (
            where trial >= n_rounds - greatest(1, floor(n_rounds * {asymptote_share}))
        ) as asymptote,
        {trajectory} as trajectory,
        sum((trial + 1) * efficiency) / sum(trial + 1) as consistency
    from practised
    group by episode_id
)"""
_TRAJECTORY = (
    "case when count(*) = 1 then 0.5 "
    "else (greatest(-1, least(1, regr_slope(efficiency, trial) * (count(*) - 1))) + 1) / 2 end"
)


def of_instances(task: Mapping[str, Any], raw: Raw) -> str:
    """Return the SQL of a task of Learning over the steps of its dialogues.

    What a reply answered is taken from the table that the rules of reading made of it.

    Parameters
    ----------
    task
        Row of ``learning_tasks``, with every parameter of the formula.
    """
    exams = _EXAMS.format(of=of_run(raw))
    steps = table("steps", "steps", raw)
    match task["score_rule"]:
        case "fraction_correct":
            tables, relation = [exams], "exams"
            value = "{weight_accuracy} * accuracy"
        case "active_induction":
            tables, relation = [steps, exams, _EXAMPLES.format(**task)], "exams join costs using (episode_id)"
            value = "accuracy * ({weight_accuracy} + {weight_efficiency} * efficiency)"
        case "runtime_rl":
            efficiency = _EFFICIENCY_OF_STEPS.format(**task)
            tables, relation = [steps, _ROUNDS], f"(select *, {efficiency} as efficiency from rounds)"
            value = (
                "{weight_success} * cast(solved_at is not null as integer) + {weight_efficiency} * efficiency"
                " + {weight_progress} * greatest(0, least(1, coalesce(progress, 0)))"
            )
        case "procedural":
            practice = _PRACTICE.format(
                efficiency=_EFFICIENCY_OF_STEPS.format(**task),
                trajectory=_rounded(_TRAJECTORY, task["trajectory_decimals"]),
                **task,
            )
            tables, relation = [steps, exams, _ROUNDS, practice], "exams join practice using (episode_id)"
            value = (
                "{weight_transfer} * accuracy + {weight_asymptote} * asymptote"
                " + {weight_trajectory} * trajectory + {weight_consistency} * consistency"
            )
        case rule:
            raise ValueError(f"expected a rule of Learning, found {rule}")
    scored = _rounded(value.format(**task), task["score_decimals"])
    if task["has_zero_guard"] and task["score_rule"] == "procedural":
        unskilled = "asymptote < {epsilon} and accuracy < {epsilon}".format(**task)
        scored = f"case when {unskilled} then 0 else {scored} end"
    return with_tables(tables, f"select avg({scored}) as value, count(*) as n_scored\nfrom {relation}")


def _rounded(expression: str, decimals: int | None) -> str:
    """Return the decimal nearest to the exact value of a double, which round() does not give."""
    if decimals is None:
        return expression
    return f"cast(format('{{:.{decimals}f}}', cast({expression} as double)) as double)"
