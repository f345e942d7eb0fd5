{{ config(
    materialized='incremental',
    incremental_strategy='append',
    on_schema_change='sync_all_columns',
    pre_hook=["{{ forget_other_sums() }}", "{{ forget_rescored_parts() }}"],
) }}

with

scored as (

    select * from {{ ref('int_scored') }}
    {% if is_incremental() -%}
        where (rule, part_id) not in (select (done.rule, done.part_id) from {{ this }} as done)
    {%- endif %}

),

sums as (

    -- an episode lies in one part, or in parts that are scored as one, and its sums never change after that;
    -- they are kept as integer multiples of 2^-60, so that any grouping adds up to the same total.
    -- An infinite value is no such multiple and is counted: one of them makes its mean infinite
    select
        run_id,
        mode_id,
        rule,
        readout,
        episode_id,
        count(*) as n_rows,
        count(*) filter (where status = 'ok') as n_scored,
        count(*) filter (where status = 'unparsed') as n_unparsed,
        count(*) filter (where status = 'error') as n_error,
        count(*) filter (where status = 'too_long') as n_too_long,
        count(*) filter (where status = 'missing_option') as n_missing_option,
        count(*) filter (where status = 'ok' and isinf(value) and weight > 0) as n_infinite,
        sum({{ to_fixed('case when isfinite(value) then weight * value end') }}) filter (
            where status = 'ok'
        ) as value_sum_fixed,
        sum({{ to_fixed('weight') }}) filter (where status = 'ok') as weight_sum_fixed,
        sum({{ to_fixed('weight') }}) filter (where status <> 'ok') as unscored_weight_sum_fixed,
        min(weight) as lowest_weight,
        max(weight) as highest_weight,
        min(value) filter (where status = 'ok' and weight > 0) as lowest_value,
        max(value) filter (where status = 'ok' and weight > 0) as highest_value,
        min(status_reason) as status_reason,
        part_id,
        scorer_sha
    from scored
    group by run_id, mode_id, rule, readout, episode_id, part_id, scorer_sha

)

select
    *,
    '{{ model_sha() }}' as sums_sha
from sums
