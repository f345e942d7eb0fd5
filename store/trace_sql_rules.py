"""SQL that gives a score again that somebody earned: over the verdicts of a build, and over raw rows alone.

Every rule of the manifests has an entry here, which a test holds against the marts.
"""

from store.trace_sql import (
    Estimate,
    Raw,
    asked_tables,
    estimated,
    items_table,
    of_run,
    over_parts,
    quoted,
    table,
    times,
    with_tables,
)

# ---- one value per row ----

_STEP_VALUES = {
    "credited_choice": """
    select cast(list_contains(credited_options, action) as double) as value, 1.0 as weight
    from steps
    where status = 'ok' and not is_forced and credited_options is not null""",
    "episode_return": """
    select reward as value, 1.0 as weight
    from steps
    where is_rewarded""",
    "free_reward": """
    select reward as value, 1.0 as weight, 'horizon_' || count(*) over (partition by episode_id) as readout
    from steps
    where is_rewarded and not is_forced""",
    "action_count": """
    select try_cast(action as double) as value, 1.0 as weight, outcome as readout
    from steps
    where legal_options is null and status = 'ok'
    union all
    select
        count(*) filter (where outcome not in ('banked', 'stopped')) as value,
        1.0 as weight,
        arg_max(outcome, step_index) as readout
    from steps
    where legal_options is not null
    group by episode_id, trial
    having bool_or(is_rewarded) and bool_and(status = 'ok')""",
    "quadratic_score": """
    select
        1 - power(cast(list_contains(credited_options, action) as double) - confidence, 2) as value,
        1.0 as weight
    from steps
    where status = 'ok' and credited_options is not null""",
    "adjusted_quadratic_score": """
    select
        1 - power(
            cast(list_contains(credited_options, action) as double)
            - case when highest > lowest then (confidence - lowest) / (highest - lowest) else confidence end,
            2
        ) as value,
        1.0 as weight
    from (
        select
            *,
            min(confidence) over (partition by episode_id) as lowest,
            max(confidence) over (partition by episode_id) as highest
        from steps
    )
    where status = 'ok' and credited_options is not null""",
    "reported_confidence": """
    select confidence as value, 1.0 as weight
    from steps""",
    "stay": """
    select
        cast(coalesce(choice = next_choice, false) as double) as value,
        1.0 as weight,
        case when choice = state then 'common' else 'rare' end
        || case when paid > 0 then '_rewarded' else '_unrewarded' end as readout
    from (
        select
            stage,
            coalesce(action, response_text) as choice,
            outcome as state,
            lead(reward) over episode as paid,
            lead(coalesce(action, response_text), 2) over episode as next_choice,
            lead(stage, 2) over episode as next_stage
        from steps
        window episode as (partition by episode_id order by step_index)
    )
    where stage = 0 and next_stage = 0""",
}

# the category of a choice is the dimension on which its card alone matches, or -1; hidden_values holds that
# of the rule and then the card that matches on each
_TRANSITIONS = """
    select cast({is_hit} as double) as value, 1.0 as weight
    from (
        select
            category,
            category <> hidden_values[1] as is_wrong,
            lag(category) over episode as category_before,
            lag(category <> hidden_values[1]) over episode as was_wrong,
            is_known and lag(is_known) over episode as is_scored
        from (
            select
                *,
                status = 'ok' and hidden_values is not null as is_known,
                case when len(matches) = 1 then matches[1] else -1 end as category
            from (
                select
                    *,
                    list_filter(
                        range(len(hidden_values) - 1),
                        lambda dimension: hidden_values[dimension + 2] = try_cast(action as double)
                    ) as matches
                from steps
            )
        )
        window episode as (partition by episode_id order by step_index)
    )
    where is_scored"""
_HITS = {
    "perseveration": "was_wrong and is_wrong and category = category_before",
    "set_loss": "not was_wrong and is_wrong and category <> category_before",
}

# legal options with a log-probability, where all of a question have one
_OPTIONS = """given as (
    select
        said.*,
        items.credited_options,
        items.weight,
        items.facts_json,
        count(*) over answer = len(items.legal_options) as is_complete,
        max(said.logprob_nats) over answer as highest_nats,
        coalesce(bool_or(said.is_merged) over answer, false) as is_any_merged
    from (
        select * from stg_output_options
        where {output_options}
    ) as said
    join items on said.item_id = items.item_id
    join outputs
        on said.item_id = outputs.item_id
        and said.episode_id = outputs.episode_id
        and said.participant_id is not distinct from outputs.participant_id
    where
        list_contains(items.legal_options, said.option)
        and outputs.status = 'ok'
        and said.status = 'ok'
        and said.logprob_nats <= 1e-6
        and said.logprob_nats <> -9999
    window answer as (partition by said.item_id, said.episode_id, said.participant_id)
),
options as (
    select
        *,
        logprob_nats - highest_nats - ln(sum(exp(logprob_nats - highest_nats)) over answer) as nats,
        logprob_nats = highest_nats as is_likeliest,
        count(*) filter (where logprob_nats = highest_nats) over answer as n_likeliest
    from given
    where is_complete and isfinite(highest_nats)
    window answer as (partition by item_id, episode_id, participant_id)
)"""
_OF_RESPONSES = """
    from responses
    join options
        on responses.item_id = options.item_id
        and responses.response = options.option
        and coalesce(options.participant_id, responses.participant_id) = responses.participant_id"""

# rules over the log-probabilities of options: whether human responses are needed, and the values
_OPTION_VALUES = {
    "human_nll": (
        True,
        f"""
    select 0 - options.nats as value, responses.weight{_OF_RESPONSES}""",
    ),
    "human_nll_raw": (
        True,
        f"""
    select 0 - options.logprob_nats as value, responses.weight{_OF_RESPONSES}
    where not options.is_any_merged""",
    ),
    "predicted_choice": (
        True,
        f"""
    select
        cast(options.is_likeliest as double) / options.n_likeliest as value,
        responses.weight{_OF_RESPONSES}""",
    ),
    "credited_choice": (
        False,
        """
    select avg(cast(list_contains(credited_options, option) as double)) as value, any_value(weight) as weight
    from options
    where is_likeliest and credited_options is not null
    group by item_id, episode_id, participant_id""",
    ),
    "credited_probability": (
        False,
        """
    select
        coalesce(sum(exp(nats)) filter (where list_contains(credited_options, option)), 0) as value,
        any_value(weight) as weight
    from options
    where credited_options is not null
    group by item_id, episode_id, participant_id""",
    ),
    "normalised_likelihood": (
        False,
        """
    select
        avg(cast(list_contains(credited_options, option) as double)) as value,
        any_value(weight) as weight,
        any_value(facts_json) as facts_json
    from (
        select *, logprob_nats / {length} = max(logprob_nats / {length}) over answer as is_best
        from options
        window answer as (partition by item_id, episode_id)
    )
    where is_best
    group by item_id, episode_id""",
    ),
}
_LENGTHS = {
    "token": "n_tokens",
    "sum": "1",
    "character": "(n_characters + coalesce(length(terminator), 0))",
    "byte": "(n_bytes + coalesce(strlen(terminator), 0))",
}

# choices that were written: the options that the rules of reading found in the text
_READ_VALUES = {
    "credited_choice": (
        False,
        """
    select
        len(list_intersect(chosen_options, credited_options)) / len(chosen_options) as value,
        weight
    from answers
    where credited_options is not null""",
    ),
    "predicted_choice": (
        True,
        """
    select
        cast(list_contains(chosen_options, response) as double) / len(chosen_options) as value,
        responses.weight
    from answers
    join responses
        on answers.item_id = responses.item_id
        and coalesce(answers.participant_id, responses.participant_id) = responses.participant_id
    where list_contains(answers.legal_options, responses.response)""",
    ),
}

_REPORT_VALUES = {
    "report_error": """
    select
        case
            when report_spacing is null and response_number between
                coalesce(support_low, response_number) and coalesce(support_high, response_number)
                then abs(response_number - target)
            when report_low = report_high then abs(target - report_low)
            when report_spacing = 0 and target between report_low and report_high
                then (power(target - report_low, 2) + power(report_high - target, 2))
                    / (2 * (report_high - report_low))
            when report_spacing = 0 then abs(target - (report_low + report_high) / 2)
            when report_spacing > 0 then list_avg(list_transform(
                range(cast(1 + round((report_high - report_low) / report_spacing) as bigint)),
                lambda place: abs(target - report_low - place * report_spacing)
            ))
        end as value,
        items.weight
    from outputs
    join items on outputs.item_id = items.item_id
    where outputs.status = 'ok'""",
    "clipped_report_score": """
    select
        1 - abs(target - greatest({clip_low}, least({clip_high}, response_number))) as value,
        items.weight
    from outputs
    join items on outputs.item_id = items.item_id
    where isfinite(response_number)""",
    "reported_value": """
    select response_number as value, items.weight, items.template_id as readout
    from outputs
    join items on outputs.item_id = items.item_id
    where outputs.status = 'ok'""",
}

_BELIEFS = """beliefs as (
    select
        cast(items.facts_json ->> '$.prior' as double) as prior,
        cast(items.facts_json ->> '$.likelihood' as double) as likelihood,
        greatest({clip_low}, least({clip_high}, outputs.response_number)) as report
    from outputs
    join items on outputs.item_id = items.item_id
    where outputs.response_number is not null
),
sums as (
    select
        sum(x * x) as xx,
        sum(x * z) as xz,
        sum(z * z) as zz,
        sum(x * y) as xy,
        sum(z * y) as zy,
        count(*) as n
    from (
        select
            ln(prior / (1 - prior)) as x,
            ln(likelihood / (1 - likelihood)) as z,
            ln(report / (1 - report)) as y
        from beliefs
        where prior > 0 and prior < 1 and likelihood > 0 and likelihood < 1
    )
)"""
_PRIOR, _LIKELIHOOD = "(zz * xy - xz * zy)", "(xx * zy - xz * xy)"
_BELIEF_WEIGHTS = {
    "prior_weight": f"{_PRIOR} / (xx * zz - xz * xz)",
    "likelihood_weight": f"{_LIKELIHOOD} / (xx * zz - xz * xz)",
    "weight_difference": f"({_PRIOR} - {_LIKELIHOOD}) / (xx * zz - xz * xz)",
    "weight_ratio": f"{_PRIOR} / {_LIKELIHOOD}",
}

RULES = frozenset({*_STEP_VALUES, *_HITS, *_OPTION_VALUES, *_REPORT_VALUES, "answer_match", "verdict"})
"""Rules that a score can be given again by."""


def reads_steps(rule: str | None, *, is_played: bool) -> bool:
    """Tell whether a rule scores decisions of a run that plays; if not, it scores answers to given items."""
    return rule in _HITS or (rule in _STEP_VALUES and (is_played or rule not in _OPTION_VALUES))


def reads_options(rule: str | None) -> bool:
    """Tell whether a rule of given items scores log-probabilities of their options."""
    return rule in _OPTION_VALUES


def reads_responses(rule: str | None) -> bool:
    """Tell whether a rule scores how what people did was predicted."""
    return rule in _OPTION_VALUES and _OPTION_VALUES[rule][0]


def from_verdicts(estimate: Estimate, rule: str | None, run_id: str, mode_id: str) -> str | None:
    """Return the SQL of a metric of S1CogBench over the verdicts of its rule; None if it has none."""
    if rule is None:
        return None
    values = (
        f"select value, weight, readout\n    from int_scored__{rule}\n"
        f"    where run_id = {quoted(run_id)}\n    and mode_id = {quoted(mode_id)}\n    and status = 'ok'"
    )
    return with_tables([f"verdicts as (\n    {values}\n)"], estimated(estimate))


def from_raw(estimate: Estimate, rule: str | None, raw: Raw, *, is_played: bool) -> str:
    """Return the SQL of a metric of S1CogBench over raw rows."""
    if rule is None:
        beliefs = _BELIEFS.format(clip_low=estimate.clip_low, clip_high=estimate.clip_high)
        scaled = times(estimate.scale, _BELIEF_WEIGHTS[estimate.metric])
        return with_tables(
            [*asked_tables(raw), beliefs], f"select {scaled} as value, n as n_scored\nfrom sums"
        )
    tables, values = _values(estimate, rule, raw, is_played=is_played)
    return with_tables([*tables, f"verdicts as ({values}\n)"], estimated(estimate))


def of_component(
    estimate: Estimate, rule: str, raw: Raw, stratum_fact: str | None, grader: tuple[str, str] | None
) -> str:
    """Return the SQL of a component of CogniRank over raw rows: the mean over the parts of its data set.

    Parameters
    ----------
    stratum_fact
        Fact of an item that names its part; None if the data set is one part.
    grader
        Grader and version whose verdicts count; None for a rule without one.
    """
    if rule == "verdict" and grader is not None:
        tables = [items_table(raw), table("graded", "verdicts", raw)]
        values = f"""
    select graded.verdict as value, items.weight, items.facts_json
    from graded
    join items on graded.item_id = items.item_id
    where
        graded.status = 'ok'
        and graded.grader_id = {quoted(grader[0])}
        and graded.grader_version = {quoted(grader[1])}
        and graded.answer_rule = {quoted(estimate.readout or "")}"""
    elif rule == "answer_match":
        # an answer format has too many forms to be said here; macros/answers.sql says them
        tables = [
            *asked_tables(raw),
            "matched as (\n    select * from int_scored__answer_match\n"
            f"    where {of_run(raw)} and status = 'ok'\n)",
        ]
        values = """
    select matched.value, items.weight, items.facts_json, outputs.response_text, items.credited_options
    from outputs
    join items on outputs.item_id = items.item_id
    join matched on outputs.item_id = matched.item_id and outputs.episode_id = matched.episode_id
    where outputs.status = 'ok'"""
    else:
        tables = [*asked_tables(raw), _OPTIONS.format(**raw.where)]
        values = _OPTION_VALUES[rule][1].format(length=_LENGTHS[estimate.readout or "sum"])
    part = "''" if stratum_fact is None else f"facts_json ->> {quoted(f'$.{stratum_fact}')}"
    return with_tables(
        [*tables, f"verdicts as ({values}\n)"],
        over_parts(estimate.scale, f"(select *, {part} as stratum from verdicts where value is not null)"),
    )


def of_component_verdicts(estimate: Estimate, run_id: str) -> str:
    """Return the SQL of a component of CogniRank over the verdicts of a build."""
    chosen = (
        f"(\n        select * from int_cognirank_items\n        where run_id = {quoted(run_id)} "
        f"and metric = {quoted(estimate.metric)} and status = 'ok'\n    )"
    )
    return over_parts(estimate.scale, chosen)


def _values(estimate: Estimate, rule: str, raw: Raw, *, is_played: bool) -> tuple[list[str], str]:
    """Return the tables that the values of a rule are read from, and the values."""
    if reads_steps(rule, is_played=is_played):
        values = _STEP_VALUES[rule] if rule in _STEP_VALUES else _TRANSITIONS.format(is_hit=_HITS[rule])
        return [table("steps", "steps", raw)], values
    if rule in _REPORT_VALUES:
        values = _REPORT_VALUES[rule].format(clip_low=estimate.clip_low, clip_high=estimate.clip_high)
        return asked_tables(raw), values
    if raw.is_text_read and rule in _READ_VALUES:
        has_responses, values = _READ_VALUES[rule]
        tables = [
            "answers as (\n    select * from int_answers\n"
            f"    where {of_run(raw)} and choice_status = 'ok'\n)"
        ]
    else:
        has_responses, values = _OPTION_VALUES[rule]
        tables = [*asked_tables(raw), _OPTIONS.format(**raw.where)]
    return [*tables, *([table("responses", "human_responses", raw)] if has_responses else [])], values
