-- Cells of other data in Table 3, published rows among the substitutes, and rows that are in neither.
with

modes as (

    select * from {{ ref('s1cogbench_modes') }}

),

placed as (

    select distinct
        mode_id,
        'table_3' as mart
    from {{ ref('table_3') }}
    union all
    select distinct
        mode_id,
        'substitutes' as mart
    from {{ ref('substitutes') }}

)

select
    modes.mode_id,
    modes.variant_of,
    placed.mart
from modes
full outer join placed on modes.mode_id = placed.mode_id
where
    placed.mart is distinct from
    case when modes.variant_of is null then 'table_3' else 'substitutes' end
