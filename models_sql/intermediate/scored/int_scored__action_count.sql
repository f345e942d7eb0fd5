{% call scored_rule('action_count', 'steps') %}

    with

    steps as (

        select * from {{ ref('stg_steps') }}
        where {{ is_new_part() }}

    ),

    modes as (
        {{ modes_scored_by('action_count') }}
    ),

    counts as (

        -- where no options are listed, the action is itself a count: pumps of a balloon, asked for at once
        select
            run_id,
            mode_id,
            episode_id,
            step_index,
            outcome as readout,
            try_cast(action as double) as value,
            case when status = 'ok' and try_cast(action as double) is null then 'unparsed' else status end as status,
            case
                when status <> 'ok' then status_reason
                when try_cast(action as double) is null then 'the action is not a count'
            end as status_reason,
            part_id
        from steps
        where
            legal_options is null
            and mode_id in (select modes.mode_id from modes)

    ),

    trials as (

        -- elsewhere each row is one decision: what ends a trial by choice is none of those that are counted. A trial
        -- ends with what it pays: until then it is none yet, and a run that broke off in it is short of it. Its
        -- decisions may lie in several parts, which are scored as one
        select
            run_id,
            mode_id,
            episode_id,
            max(step_index) as step_index,
            case when bool_and(status = 'ok') then arg_max(outcome, step_index) end as readout,
            cast(count(*) filter (where outcome not in ('banked', 'stopped')) as double) as value,
            coalesce(arg_min(status, step_index) filter (where status <> 'ok'), 'ok') as status,
            arg_min(status_reason, step_index) filter (where status <> 'ok') as status_reason,
            min(part_id) as part_id
        from steps
        where
            legal_options is not null
            and mode_id in (select modes.mode_id from modes)
        group by run_id, mode_id, episode_id, trial
        having bool_or(is_rewarded or status <> 'ok')

    ),

    counted as (

        select * from counts
        union all by name
        select * from trials

    ),

    labelled as (

        -- readouts split the counts by what came of them
        select
            run_id,
            mode_id,
            episode_id,
            cast(null as varchar) as item_id,
            step_index,
            'action_count' as rule,
            readout,
            case when status = 'ok' then value end as value,
            cast(1 as double) as weight,
            status,
            status_reason,
            part_id
        from counted

    )

    select * from labelled

{% endcall %}
