-- Items whose support is not the one that their mode declares for all of them.
with

modes as (

    select * from {{ ref('s1cogbench_modes') }}
    where declared_n_legal is not null

),

items as (

    select * from {{ ref('int_uniform_items') }}
    where item_id is not null

)

select distinct
    items.mode_id,
    items.item_id,
    items.n_legal,
    modes.declared_n_legal,
    items.n_credited
from items
inner join modes on items.mode_id = modes.mode_id
where
    items.n_legal is distinct from modes.declared_n_legal
    or items.n_credited > 1
