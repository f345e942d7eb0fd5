-- Components without a column of their own in cogniscore.
select components.component_id
from {{ ref('cognirank_components') }} as components
where
    components.component_id not in (
        select named.column_name
        from information_schema.columns as named
        where named.table_name = '{{ ref("cogniscore").identifier }}'
    )
