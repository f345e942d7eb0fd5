with recursive

composites as (

    -- ranked with each other: composites of the same items, under one protocol and with the same deviations
    select
        case when cogniscore is null then 'cogniscore_standin' else 'cogniscore' end as ranked,
        datasets,
        generation_id,
        deviations,
        evaluation_id as run_id,
        model_id,
        model_revision,
        coalesce(cogniscore, cogniscore_standin) as score,
        ci_low,
        ci_high,
        concat_ws(
            chr(10), datasets, items_id, coalesce(generation_id, ''), coalesce(deviations, '')
        ) as list_id
    from {{ ref('int_cognirank_composites') }}
    where coalesce(cogniscore, cogniscore_standin) is not null

),

pairs as (

    select * from {{ ref('cogniscore_pairs') }}
    where component_id in (select composites.ranked from composites)

),

listed as (

    -- scores that are equal as fractions differ by a last digit at most
    select
        *,
        rank() over (partition by list_id order by round(score, 9) desc) as place,
        row_number() over (partition by list_id order by round(score, 9) desc, run_id asc) as row_no,
        count(*) over (partition by list_id) as n_ranked
    from composites

),

behind as (

    -- each composite with those below it
    select
        leaders.list_id,
        leaders.run_id as leader_run_id,
        leaders.row_no as leader_row,
        followers.run_id,
        followers.row_no,
        greatest(leaders.score - followers.score, 0) as difference,
        pairs.p_value
    from listed as leaders
    inner join listed as followers
        on
            leaders.list_id = followers.list_id
            and leaders.row_no < followers.row_no
    inner join pairs
        on
            least(leaders.run_id, followers.run_id) = pairs.run_id
            and greatest(leaders.run_id, followers.run_id) = pairs.other_run_id

),

parted as (

    -- the first below each that differs from it significantly
    select
        list_id,
        leader_row,
        min(row_no) as next_row
    from behind
    where p_value <= {{ significance() }}
    group by list_id, leader_row

),

leaders as (

    -- the first of a list leads a group; who differs significantly from the leader leads the next
    select
        listed.list_id,
        listed.row_no as leader_row,
        1 as tied_group
    from listed
    where listed.row_no = 1
    union all
    select
        leaders.list_id,
        parted.next_row as leader_row,
        leaders.tied_group + 1 as tied_group
    from leaders
    inner join parted
        on
            leaders.list_id = parted.list_id
            and leaders.leader_row = parted.leader_row

),

grouped as (

    select
        listed.*,
        leaders.tied_group,
        leaders.leader_row
    from listed
    asof inner join leaders
        on
            listed.list_id = leaders.list_id
            and listed.row_no >= leaders.leader_row

),

ranks as (

    select
        grouped.ranked,
        grouped.place as rank,
        grouped.n_ranked,
        grouped.run_id,
        grouped.model_id,
        grouped.model_revision,
        grouped.score,
        grouped.ci_low,
        grouped.ci_high,
        cast(grouped.tied_group as bigint) as tied_group,
        behind.leader_run_id,
        behind.difference as behind_leader,
        behind.p_value,
        grouped.datasets,
        grouped.generation_id,
        grouped.deviations
    from grouped
    left join behind
        on
            grouped.list_id = behind.list_id
            and grouped.run_id = behind.run_id
            and grouped.leader_row = behind.leader_row

)

select * from ranks
