{#- Building blocks of the item-level rules in models_sql/intermediate/scored. -#}


{#- Wraps one rule over the raw table (steps or outputs) of its import CTE. The rule's expanded SQL, with what
    it reads, is its version: scorer_sha. A build reads the parts that this version has not scored yet, and
    only those that hold a mode of the rule; once a run that grows has more decisions, all of its parts again. Without
    a raw table the rule reads both: steps of modes that are played, outputs of the others. Without a name it is what
    all rules over the raw table share, with a list of names what these share. `benchmark` says whose manifest declares
    the rule's modes. -#}
{% macro scored_rule(rule_name, raw_table=none, benchmark='s1cogbench') %}
{%- set rule = caller() -%}
{%- set scorer_sha = sha256_of(rule ~ inputs_of_model()) -%}
{%- set parts = ref('stg_parts') -%}
select
    scored.* exclude (part_id),
    {% if raw_table == 'outputs' -%}
        scored.part_id,
    {%- else -%}
        coalesce(united.scored_as, scored.part_id) as part_id,
    {%- endif %}
    '{{ scorer_sha }}' as scorer_sha
from (
{{ rule | replace(is_new_part(), new_parts(rule_name, raw_table, parts, scorer_sha, benchmark)) }}
) as scored
{%- if raw_table != 'outputs' %}
left join (
    select distinct
        part_id,
        scored_as
    from {{ parts }}
    where scored_as <> part_id
) as united on scored.part_id = united.part_id
{%- endif %}
{% endmacro %}


{#- Stands in the import CTE of a rule; scored_rule() puts the condition in its place after hashing. -#}
{% macro is_new_part() %}true /* parts still to be scored */{% endmacro %}


{% macro new_parts(rule_name, raw_table, parts, scorer_sha, benchmark) %}
{%- if execute and model.resource_type == 'model' -%}
    {%- set to_score -%}
        select distinct parts.part_id
        from {{ parts }} as parts
        {%- if rule_name %}
        inner join {{ rules_of(benchmark) }} as metrics on parts.mode_id = metrics.mode_id
        {%- endif %}
        {%- if not raw_table %}
        inner join {{ ref('s1cogbench_modes') }} as modes on parts.mode_id = modes.mode_id
        {%- endif %}
        where
            parts.raw_table = {% if raw_table -%}
                '{{ raw_table }}'
            {%- else -%}
                case when modes.is_played then 'steps' else 'outputs' end
            {%- endif %}
        {%- if rule_name %}
            and metrics.rule in ('{{ ([rule_name] if rule_name is string else rule_name) | join("', '") }}')
        {%- endif %}
        {%- if is_incremental() %}
            and parts.scored_as not in (
                select done.part_id from {{ this }} as done where done.scorer_sha = '{{ scorer_sha }}'
            )
        {%- endif %}
        order by parts.part_id
    {%- endset -%}
    {%- set part_ids = run_query(to_score).columns[0].values() -%}
    {#- a list of constants tells which files need not be opened, but is compared entry by entry with every row -#}
    {%- set listed = "'" ~ (part_ids | join("', '")) ~ "'" -%}
    {%- if not part_ids -%}
        false
    {%- elif part_ids | length <= 64 -%}
        part_id in ({{ listed }})
    {%- else -%}
        part_id in (select unnest([{{ listed }}]))
    {%- endif %}
{%- else -%}
    true
{%- endif -%}
{% endmacro %}


{#- What a rule says of one raw row, with the types of replaced_scores. -#}
{% macro verdict_columns() %}
{{ return({
    'run_id': 'varchar',
    'mode_id': 'varchar',
    'episode_id': 'varchar',
    'item_id': 'varchar',
    'step_index': 'integer',
    'rule': 'varchar',
    'readout': 'varchar',
    'value': 'double',
    'weight': 'double',
    'status': 'varchar',
    'status_reason': 'varchar',
    'part_id': 'varchar',
    'scorer_sha': 'varchar',
}) }}
{% endmacro %}


{#- Version of the model that a pre-hook stands before. -#}
{% macro version_to_come() -%}
{{ modules.re.search("'([0-9a-f]{64})' as scorer_sha", model.compiled_code).group(1) }}
{%- endmacro %}


{#- Pre-hook of the rules, in the transaction of their model: what another version said moves to replaced_scores, however
    the table is built, and what the version to come said before leaves it, since its rows are scored again. Names of
    rules have two underscores; a model that gives no verdict has nothing to keep. -#}
{% macro keep_other_versions() %}
{%- set before = load_relation(this) if execute and '__' in model.name -%}
{%- if before -%}
    {%- set present = adapter.get_columns_in_relation(before) | map(attribute='name') | list -%}
    insert into {{ this.schema }}.replaced_scores by name
    select
        {%- for name in verdict_columns() if name in present %}
        {{ name }},
        {%- endfor %}
        {%- if 'weight' not in present %}
        {#- an episode of Learning counts as any other #}
        cast(1 as double) as weight,
        {%- endif %}
        '{{ invocation_id }}' as replaced_by,
        now() as replaced_at
    from {{ before }}
    where scorer_sha <> '{{ version_to_come() }}';
    delete from {{ this.schema }}.replaced_scores where scorer_sha = '{{ version_to_come() }}';
{%- endif -%}
{% endmacro %}


{#- Pre-hook: drops rows of another version of the rule, and of raw parts that are gone. -#}
{% macro forget_other_versions() %}
{%- set parts = ref('stg_parts') -%}
{%- if execute and is_incremental() -%}
    delete from {{ this }}
    where
        scorer_sha <> '{{ version_to_come() }}'
        or part_id not in (select parts.scored_as from {{ parts }} as parts)
{%- endif -%}
{% endmacro %}


{#- Pre-hook of the episode sums: drops those whose item scores are of another version or gone. -#}
{% macro forget_rescored_parts() %}
{%- set scored = ref('int_scored') -%}
{%- if execute and is_incremental() -%}
    delete from {{ this }}
    where (rule, part_id, scorer_sha) not in (
        select distinct (scored.rule, scored.part_id, scored.scorer_sha) from {{ scored }} as scored
    )
{%- endif -%}
{% endmacro %}


{#- What a model reads, as far as it decides its rows: checksums of seeds and the code of staging models, of what
    the uniform rules share, of the answers with the rules of reading, of the plan of what is missing, and of what the
    rules of Learning share with its macros, all three with what they read in turn. -#}
{% macro inputs_of_model() %}
{%- if execute -%}
    {{ inputs_of(model.depends_on.nodes) }}
{%- endif -%}
{% endmacro %}


{% macro inputs_of(node_ids) %}
    {#- a unit test has no graph -#}
    {%- set nodes = graph.get('nodes', {}) -%}
    {%- for node_id in node_ids if node_id in nodes -%}
        {%- set name = nodes[node_id].name -%}
        {%- if node_id.startswith('seed.') -%}
            {{ nodes[node_id].checksum.checksum }}
        {%- elif name.startswith('stg_') or (name.startswith('int_uniform_') and '__' not in name) -%}
            {{ nodes[node_id].raw_code }}
        {%- elif name in ('int_answers', 'int_unanswered') -%}
            {{ nodes[node_id].raw_code }}
            {{ reading_rules() if name == 'int_answers' }}
            {{ inputs_of(nodes[node_id].depends_on.nodes) }}
        {%- elif name.startswith('int_learning_') and '__' not in name -%}
            {{ nodes[node_id].raw_code }}
            {{ learning_rules() }}
            {{ inputs_of(nodes[node_id].depends_on.nodes) }}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}


{#- Version of a model that is built anew each time: its code and what it reads. -#}
{% macro model_sha() %}
{%- if execute -%}
    {{ sha256_of(model.raw_code ~ inputs_of_model()) }}
{%- endif -%}
{% endmacro %}


{% macro sha256_of(text) %}
{%- if execute -%}
    {{ run_query("select sha256('" ~ (text | replace("'", "''")) ~ "')").columns[0].values()[0] }}
{%- endif -%}
{% endmacro %}


{#- Quadratic score of a confidence, 1 - (right - confidence)^2, one row per decision. -#}
{% macro quadratic_scores(rule_name, confidence) %}
    select
        run_id,
        mode_id,
        episode_id,
        cast(null as varchar) as item_id,
        step_index,
        '{{ rule_name }}' as rule,
        cast(null as varchar) as readout,
        case
            when status = 'ok'
                then 1 - power(cast(list_contains(credited_options, action) as double) - {{ confidence }}, 2)
        end as value,
        cast(1 as double) as weight,
        case
            when status = 'ok' and credited_options is null then 'error'
            when status = 'ok' and confidence is null then 'unparsed'
            else status
        end as status,
        case
            when status = 'ok' and credited_options is null then 'the credited options are not known'
            when status <> 'ok' or confidence is null then coalesce(status_reason, 'no confidence')
        end as status_reason,
        part_id
{% endmacro %}


{#- Answers of the rule's modes beside what each human did who was asked: one row per answer and response. An
    answer that predicts one participant meets the response of this participant alone, any other those of all.
    `place` is that of the response among the legal options, null if it is none of them. -#}
{% macro predictions_of_people(rule_name) %}
    with

    answers as (

        select * from {{ ref('int_answers') }}
        where {{ is_new_part() }}

    ),

    responses as (

        select * from {{ ref('stg_human_responses') }}

    ),

    modes as (
        {{ modes_scored_by(rule_name) }}
    )

    -- a question that nobody answered leaves nothing to predict; whoever is predicted and did not answer it is an error
    select
        answers.*,
        coalesce(responses.participant_id, answers.participant_id, answers.episode_id) as responder_id,
        responses.item_id is not null as is_answered,
        responses.response,
        coalesce(responses.weight, 1) as response_weight,
        list_position(answers.legal_options, responses.response) as place
    from answers
    left join responses
        on
            answers.mode_id = responses.mode_id
            and answers.item_id = responses.item_id
            and coalesce(answers.participant_id, responses.participant_id) = responses.participant_id
    where
        answers.mode_id in (select modes.mode_id from modes)
        and (responses.item_id is not null or answers.participant_id is not null or not answers.is_known)
{% endmacro %}


{#- Negative log-likelihood of each human response, by one of the lists of log-probabilities of an answer and the
    status that goes with it. People are independent, their responses are not: the participant is the episode. -#}
{% macro likelihoods_of_people(rule_name, nats, status='likelihood_status', reason='likelihood_reason') %}
    with

    predictions as (
        {{ predictions_of_people(rule_name) }}
    ),

    nlls as (

        select
            run_id,
            mode_id,
            responder_id as episode_id,
            item_id,
            cast(null as integer) as step_index,
            '{{ rule_name }}' as rule,
            cast(null as varchar) as readout,
            case when {{ status }} = 'ok' then 0 - {{ nats }}[place] end as value,
            response_weight as weight,
            case when {{ status }} = 'ok' and place is null then 'error' else {{ status }} end as status,
            case
                when {{ status }} <> 'ok' then {{ reason }}
                when not is_answered then 'this participant did not answer the question'
                when place is null then 'what the human did is no legal option'
            end as status_reason,
            part_id
        from predictions

    )

    select * from nlls
{% endmacro %}


{#- Card sorting, one row per trial that has one before it. The category of a choice is the dimension on which
    the chosen card alone matches, or none; hidden_values holds the rule's dimension and then, for each dimension,
    the card that matches on it. Reads the CTE steps; `is_hit` says which transitions count. -#}
{% macro card_transitions(rule_name, is_hit) %}
    with

    sorted as (

        select
            *,
            list_filter(
                range(len(hidden_values) - 1),
                lambda dimension: hidden_values[dimension + 2] = try_cast(action as double)
            ) as dimensions
        from steps

    ),

    categorised as (

        select
            *,
            case when len(dimensions) = 1 then dimensions[1] else -1 end as category,
            case when status = 'ok' and hidden_values is null then 'error' else status end as trial_status,
            case
                when status = 'ok' and hidden_values is null then 'the state is not known'
                else status_reason
            end as trial_reason
        from sorted

    ),

    transitions as (

        select
            *,
            category <> hidden_values[1] as is_wrong,
            lag(category) over episode as category_before,
            lag(category <> hidden_values[1]) over episode as was_wrong,
            lag(trial_status) over episode as status_before,
            lag(trial_reason) over episode as reason_before
        from categorised
        window episode as (partition by run_id, mode_id, episode_id order by step_index)

    )

    select
        run_id,
        mode_id,
        episode_id,
        cast(null as varchar) as item_id,
        step_index,
        '{{ rule_name }}' as rule,
        cast(null as varchar) as readout,
        case
            when trial_status = 'ok' and status_before = 'ok' then cast({{ is_hit }} as double)
        end as value,
        cast(1 as double) as weight,
        case when trial_status <> 'ok' then trial_status else status_before end as status,
        case
            when trial_status <> 'ok' then trial_reason
            when status_before <> 'ok' then 'the trial before: ' || coalesce(reason_before, status_before)
        end as status_reason,
        part_id
    from transitions
    where status_before is not null
{% endmacro %}


{#- Modes whose metrics use one rule: which raw rows the rule has to score. -#}
{% macro modes_scored_by(rule, benchmark='s1cogbench') %}
    select distinct metrics.mode_id
    from {{ rules_of(benchmark) }} as metrics
    where metrics.rule = '{{ rule }}'
{% endmacro %}


{#- Modes, or data sets, of a benchmark with the rules that score them: what stands after `from`. -#}
{% macro rules_of(benchmark) -%}
    {%- if benchmark == 'cognirank' -%}
        (
            select
                datasets.dataset_id as mode_id,
                metrics.rule
            from {{ ref('cognirank_metrics') }} as metrics
            inner join {{ ref('cognirank_datasets') }} as datasets
                on metrics.component_id = datasets.component_id
        )
    {%- elif benchmark == 'learning' -%}
        (
            select
                tasks.task_id as mode_id,
                tasks.score_rule as rule
            from {{ ref('learning_tasks') }} as tasks
        )
    {%- else -%}
        {{ ref('s1cogbench_metrics') }}
    {%- endif -%}
{%- endmacro %}


{#- Expected distance from the target of a report that is spread evenly over low..high: over the whole interval
    if spacing is 0, else over low, low + spacing, ..., high. Nothing is enumerated: of n points, those at or
    below the target and those above it are two arithmetic series. -#}
{% macro spread_error(target, low, high, spacing) -%}
    case
        when {{ high }} = {{ low }} then abs({{ target }} - {{ low }})
        when {{ spacing }} = 0 then
            case
                when {{ target }} between {{ low }} and {{ high }}
                    then
                        (power({{ target }} - {{ low }}, 2) + power({{ high }} - {{ target }}, 2))
                        / (2 * ({{ high }} - {{ low }}))
                else abs({{ target }} - ({{ low }} + {{ high }}) / 2)
            end
        else
            {{ grid_error(
                '((' ~ target ~ ' - ' ~ low ~ ') / ' ~ spacing ~ ')',
                '(1 + round((' ~ high ~ ' - ' ~ low ~ ') / ' ~ spacing ~ '))',
            ) }} * {{ spacing }}
    end
{%- endmacro %}


{#- Mean distance of the points 0, 1, ..., n - 1 from x, both in units of the spacing. -#}
{% macro grid_error(x, n) -%}
    {%- set n_below = 'greatest(0, least(' ~ n ~ ', floor(' ~ x ~ ') + 1))' -%}
    (
        {{ x }} * (2 * {{ n_below }} - {{ n }})
        - {{ n_below }} * ({{ n_below }} - 1)
        + {{ n }} * ({{ n }} - 1) / 2
    ) / {{ n }}
{%- endmacro %}
