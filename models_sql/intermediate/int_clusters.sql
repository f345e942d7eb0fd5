{{ config(materialized='view') }}

with

episodes as (

    select distinct
        run_id,
        mode_id,
        episode_id
    from {{ ref('int_episode_sums') }}

),

modes as (

    select * from {{ ref('s1cogbench_modes') }}

),

clusters as (

    -- a part that an id does not have is empty
    select
        episodes.run_id,
        episodes.mode_id,
        episodes.episode_id,
        coalesce(
            nullif(split_part(episodes.episode_id, '/', modes.cluster_part), ''), episodes.episode_id
        ) as cluster_id
    from episodes
    inner join modes on episodes.mode_id = modes.mode_id

)

select * from clusters
