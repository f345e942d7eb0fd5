with recursive

designs as (

    -- branching [4, 1, 2]: the root has 4 children, each of these has 1, and each of those has 2
    select distinct
        facts_json ->> '$.branching' as branching_json,
        facts_json ->> '$.node_values' as node_values_json,
        cast({{ numbers_in_facts('branching') }} as bigint[]) as branching,
        {{ numbers_in_facts('node_values') }} as node_values
    from {{ ref('int_uniform_items') }}
    where uniform_rule in ('mouselab', 'mouselab_reveals')

),

trees as (

    select
        *,
        branching_json || ' ' || node_values_json as design,
        branching[1] as n_branches,
        list_aggregate(node_values, 'fsum') / len(node_values) as mean_value
    from designs
    where
        len(branching) > 0
        and len(node_values) > 0

),

addresses as (

    -- branches are alike, so the nodes of one stand for all; a node is found by the turns to it from the top
    select
        design,
        branching,
        [cast(0 as bigint)] as turns
    from trees
    union all
    select
        addresses.design,
        addresses.branching,
        list_append(addresses.turns, child.number) as turns
    from addresses
    cross join unnest(range(addresses.branching[len(addresses.turns) + 1])) as child (number)
    where len(addresses.turns) < len(addresses.branching)

),

nodes as (

    select
        design,
        turns,
        len(turns) = len(branching) as is_leaf,
        row_number() over (partition by design order by len(turns), turns) - 1 as place
    from addresses

),

openings as (

    -- a node can be opened once its parent is known; the top of a branch always
    select
        nodes.design,
        cast(1 as bigint) << nodes.place as node_bit,
        coalesce(cast(1 as bigint) << parents.place, 0) as parent_bit
    from nodes
    left join nodes as parents
        on
            nodes.design = parents.design
            and list_slice(nodes.turns, 1, len(nodes.turns) - 1) = parents.turns

),

moves as (

    -- the shape of a branch is the set of its known nodes, one bit for each
    select
        design,
        cast(null as bigint) as shape_before,
        cast(0 as bigint) as shape
    from trees
    union
    select
        moves.design,
        moves.shape as shape_before,
        moves.shape | openings.node_bit as shape
    from moves
    inner join openings on moves.design = openings.design
    where
        moves.shape & openings.node_bit = 0
        and moves.shape & openings.parent_bit = openings.parent_bit

),

known as (

    select distinct
        design,
        shape
    from moves

),

shapes as (

    select
        known.design,
        known.shape,
        count(moves.shape) as n_open
    from known
    left join moves
        on
            known.design = moves.design
            and known.shape = moves.shape_before
    group by known.design, known.shape

),

visits as (

    -- reveal by reveal: how likely a set of known nodes comes up; branches are alike, so their shapes are
    -- kept in order, and sets that differ by a swap of branches are one
    select
        design,
        0 as n_reveals,
        list_transform(range(n_branches), lambda branch: cast(0 as bigint)) as branch_shapes,
        cast(1 as double) as probability
    from trees
    union all
    select
        design,
        n_reveals + 1 as n_reveals,
        branch_shapes,
        {{ ordered_sum('probability') }} as probability
    from (
        select
            visits.design,
            visits.n_reveals,
            list_sort(
                list_slice(visits.branch_shapes, 1, branch.place - 1)
                || [moves.shape]
                || list_slice(visits.branch_shapes, branch.place + 1, len(visits.branch_shapes))
            ) as branch_shapes,
            visits.probability
            / (1 + count(*) over (partition by visits.design, visits.branch_shapes)) as probability
        from visits
        cross join unnest(range(1, len(visits.branch_shapes) + 1)) as branch (place)
        inner join moves
            on
                visits.design = moves.design
                and visits.branch_shapes[branch.place] = moves.shape_before
    ) as reveals
    group by design, n_reveals, branch_shapes

),

stops as (

    -- STOP is as likely as each reveal that is open, and certain once none is
    select
        visits.design,
        visits.branch_shapes,
        visits.n_reveals,
        visits.probability / (1 + sum(shapes.n_open)) as probability
    from visits
    cross join unnest(visits.branch_shapes) as branch (shape)
    inner join shapes
        on
            visits.design = shapes.design
            and branch.shape = shapes.shape
    group by visits.design, visits.branch_shapes, visits.n_reveals, visits.probability

),

ways as (

    -- a way through a branch: the places of its nodes, from the top to one leaf
    select
        leaves.design,
        leaves.place as leaf,
        list(nodes.place order by nodes.place) as places
    from nodes as leaves
    inner join nodes
        on
            leaves.design = nodes.design
            and list_slice(leaves.turns, 1, len(nodes.turns)) = nodes.turns
    where leaves.is_leaf
    group by leaves.design, leaves.place

),

branches as (

    select
        design,
        list(places order by leaf) as ways,
        max(list_max(places)) + 1 as n_nodes
    from ways
    group by design

),

outcomes as (

    -- a known node has one of the values, an unknown one counts at their mean
    select
        design,
        1 as is_known,
        unnest(node_values) as points,
        cast(1 as double) / len(node_values) as probability
    from trees
    union all
    select
        design,
        0 as is_known,
        mean_value as points,
        cast(1 as double) as probability
    from trees

),

draws as (

    select
        design,
        shape,
        cast([] as double[]) as drawn,
        cast(1 as double) as probability
    from shapes
    union all
    select
        draws.design,
        draws.shape,
        list_append(draws.drawn, outcomes.points) as drawn,
        draws.probability * outcomes.probability as probability
    from draws
    inner join branches on draws.design = branches.design
    inner join outcomes
        on
            draws.design = outcomes.design
            and (draws.shape >> len(draws.drawn)) & 1 = outcomes.is_known
    where len(draws.drawn) < branches.n_nodes

),

branch_draws as (

    select
        draws.design,
        draws.shape,
        draws.drawn,
        draws.probability,
        branches.ways
    from draws
    inner join branches on draws.design = branches.design
    where len(draws.drawn) = branches.n_nodes

),

branch_worths as (

    -- the best way through a branch decides what it is worth
    select
        design,
        shape,
        probability,
        list_max(
            list_transform(
                ways,
                lambda way: list_aggregate(list_transform(way, lambda place: drawn[place + 1]), 'fsum')
            )
        ) as points
    from branch_draws

),

bests as (

    select
        design,
        shape,
        points,
        {{ ordered_sum('probability') }} as probability
    from branch_worths
    group by design, shape, points

),

levels as (

    select distinct
        design,
        points
    from bests

),

branch_odds as (

    -- how likely a branch of a shape is worth no more than so many points
    select
        levels.design,
        levels.points,
        bests.shape,
        {{ ordered_sum('case when bests.points <= levels.points then bests.probability else 0 end') }}
            as probability
    from levels
    inner join bests on levels.design = bests.design
    group by levels.design, levels.points, bests.shape

),

tree_odds as (

    -- branches are independent, so the best of them is below a level as often as all of them are
    select
        stops.design,
        stops.branch_shapes,
        branch_odds.points,
        list_aggregate(
            list(branch_odds.probability order by branch_odds.probability), 'product'
        ) as probability
    from stops
    cross join unnest(stops.branch_shapes) as branch (shape)
    inner join branch_odds
        on
            stops.design = branch_odds.design
            and branch.shape = branch_odds.shape
    group by stops.design, stops.branch_shapes, branch_odds.points

),

tree_levels as (

    select
        *,
        probability - coalesce(
            lag(probability) over (partition by design, branch_shapes order by points), 0
        ) as probability_of_level
    from tree_odds

),

returns as (

    select
        design,
        branch_shapes,
        {{ ordered_sum('points * probability_of_level') }} as return_points
    from tree_levels
    group by design, branch_shapes

),

expected as (

    select
        stops.design,
        {{ ordered_sum('stops.probability * returns.return_points') }} as return_points,
        {{ ordered_sum('stops.probability * stops.n_reveals') }} as reveals,
        count(*) as n_states
    from stops
    inner join returns
        on
            stops.design = returns.design
            and stops.branch_shapes = returns.branch_shapes
    group by stops.design

),

described as (

    select
        trees.branching_json,
        trees.node_values_json,
        expected.return_points,
        expected.reveals,
        expected.n_states
    from expected
    inner join trees on expected.design = trees.design

)

select * from described
