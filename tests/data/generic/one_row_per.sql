{#- Declared rows that do not appear exactly once, and rows that nobody declared. -#}
{% test one_row_per(model, column, parent, parent_key, where='true', parent_where='true') %}
with

found as (

    select
        {{ column }} as found_key,
        count(*) as n_rows
    from {{ model }}
    where {{ where }}
    group by {{ column }}

)

select
    parents.{{ parent_key }} as declared,
    found.found_key,
    found.n_rows
from (select * from {{ parent }} where {{ parent_where }}) as parents
full outer join found on parents.{{ parent_key }} = found.found_key
where
    parents.{{ parent_key }} is null
    or found.found_key is null
    or found.n_rows <> 1
{% endtest %}
