{{ config(materialized='view') }}

{% call uniform_rule('mouselab') %}

    with

    items as (

        select
            *,
            facts_json ->> '$.branching' as branching_json,
            facts_json ->> '$.node_values' as node_values_json
        from {{ ref('int_uniform_items') }}
        where uniform_rule = 'mouselab'

    ),

    trees as (

        select * from {{ ref('int_uniform_trees') }}

    ),

    expectations as (

        select
            items.mode_id,
            items.metric,
            items.item_id,
            items.weight,
            items.scale * trees.return_points as expectation
        from items
        left join trees
            on
                items.branching_json = trees.branching_json
                and items.node_values_json = trees.node_values_json

    )

    select * from expectations

{% endcall %}
