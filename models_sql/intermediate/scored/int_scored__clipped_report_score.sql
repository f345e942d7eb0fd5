{% call scored_rule('clipped_report_score', 'outputs') %}

    with

    outputs as (

        select * from {{ ref('stg_outputs') }}
        where {{ is_new_part() }}

    ),

    items as (

        select * from {{ ref('stg_items') }}

    ),

    clips as (

        select distinct
            mode_id,
            clip_low,
            clip_high
        from {{ ref('s1cogbench_metrics') }}
        where rule = 'clipped_report_score'

    ),

    scores as (

        -- a number outside the support is moved to its edge, as the publisher of the urn scores does;
        -- greatest() and least() pass over null, so a missing report is kept apart
        select
            outputs.run_id,
            outputs.mode_id,
            outputs.episode_id,
            outputs.item_id,
            cast(null as integer) as step_index,
            'clipped_report_score' as rule,
            cast(null as varchar) as readout,
            case
                when outputs.response_number is not null then
                    1 - abs(
                        items.target - greatest(clips.clip_low, least(clips.clip_high, outputs.response_number))
                    )
            end as value,
            coalesce(items.weight, 1) as weight,
            items.target,
            outputs.report_spacing,
            outputs.part_id
        from outputs
        inner join clips on outputs.mode_id = clips.mode_id
        left join items on outputs.item_id = items.item_id

    ),

    judged as (

        select
            scores.* exclude (target, report_spacing, part_id),
            case
                when scores.target is null then 'error' when scores.value is null then 'unparsed' else 'ok'
            end as status,
            case
                when scores.target is null then 'the target is not known'
                when scores.report_spacing is not null then 'the report is spread over a range'
                when scores.value is null then 'no finite report'
            end as status_reason,
            scores.part_id
        from scores

    )

    select * from judged

{% endcall %}
