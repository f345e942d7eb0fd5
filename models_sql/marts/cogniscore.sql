with

composites as (

    select * from {{ ref('int_cognirank_composites') }}

),

published as (

    -- what stands in for a component is never shown under its name
    select
        evaluation_id,
        component_id,
        value
    from {{ ref('int_cognirank_components') }}
    where
        is_primary
        and not is_stand_in

),

beside as (

    select
        {% for column in component_columns() %}
            max(value) filter (where component_id = '{{ column }}') as {{ column }},
        {% endfor %}
        evaluation_id
    from published
    group by evaluation_id

),

cogniscore as (

    select
        composites.evaluation_id as run_id,
        composites.model_id,
        composites.model_revision,
        {% for column in component_columns() %}
            beside.{{ column }},
        {% endfor %}
        composites.cogniscore,
        composites.withheld_because,
        composites.cogniscore_standin,
        composites.standin_datasets,
        composites.se,
        composites.ci_low,
        composites.ci_high,
        composites.context_tokens,
        composites.is_context_extension,
        composites.generation_id,
        composites.deviations,
        composites.trust_remote_code
    from composites
    left join beside on composites.evaluation_id = beside.evaluation_id

)

select * from cogniscore
