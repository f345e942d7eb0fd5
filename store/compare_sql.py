"""The SQL of paired comparisons, in the order in which it runs."""

COLUMNS = """
    select distinct column_id, column_kind, coalesce(model_id, column_id)
    from table_3
    order by lower(column_id), column_id
"""
RUNS = "select distinct run_id from metrics order by run_id"
MODES = """
    select modes.mode_id, modes.variant_of is null
    from s1cogbench_modes as modes
    order by modes.display_order
"""
COMPARED = """
    create or replace temp table compared (
        side varchar, mode_id varchar, run_id varchar, value double, reason varchar
    )
"""
CELLS_OF_COLUMN = """
    insert into compared
    select $side, mode_id, run_id, value, reason
    from (
        select mode_id, column_id, run_id, value, reason from table_3
        union all
        select mode_id, column_id, run_id, value, reason from substitutes
    )
    where column_id = $name and run_id is not null
"""
CELLS_OF_RUN = """
    insert into compared
    select $side, metrics.mode_id, metrics.run_id, metrics.value, metrics.reason
    from metrics
    inner join s1cogbench_metrics as declared using (mode_id, metric)
    where declared.is_primary and metrics.run_id = $name
"""
WANTED = """
    create or replace temp table wanted as
    select
        modes.mode_id, modes.display_order, modes.label, modes.is_played, modes.is_adaptive,
        modes.cluster, modes.decimals,
        declared.metric, declared.unit, declared.scale, declared.rule, declared.readout,
        coalesce(stated.margin, declared.equivalence_margin) as margin
    from s1cogbench_modes as modes
    inner join s1cogbench_metrics as declared using (mode_id)
    left join (select unnest($stated) as mode_id, unnest($margins) as margin) as stated using (mode_id)
    where declared.is_primary and modes.mode_id in (select unnest($modes))
"""
KEYED = """
    create or replace temp table keyed as
    select
        scored.mode_id, scored.episode_id, scored.item_id, scored.step_index, scored.readout,
        count(*) filter (side = 'a') as n_a,
        count(*) filter (side = 'b') as n_b,
        count(*) filter (side = 'a' and status = 'ok') as n_ok_a,
        count(*) filter (side = 'b' and status = 'ok') as n_ok_b,
        max(scored.value) filter (side = 'a') as value_a,
        max(scored.value) filter (side = 'b') as value_b,
        max(scored.weight) filter (side = 'a') as weight_a,
        max(scored.weight) filter (side = 'b') as weight_b,
        min(scored.scorer_sha) as scorer_sha,
        max(scored.scorer_sha) as other_scorer_sha
    from int_scored as scored
    inner join compared using (run_id, mode_id)
    inner join wanted using (mode_id)
    where
        scored.rule = wanted.rule
        and (wanted.readout is null or scored.readout is null or scored.readout = wanted.readout)
    group by all
"""
MIXED_SCORERS = """
    select mode_id, min(scorer_sha), max(other_scorer_sha)
    from keyed
    group by mode_id
    having min(scorer_sha) <> max(other_scorer_sha)
    order by mode_id
"""
# episodes of one number need not be of one environment: what is known of both says whether they are
PLAYED = """
    create or replace temp table played as
    with

    trials as (
        select
            compared.side,
            steps.mode_id,
            steps.episode_id,
            steps.trial,
            max(steps.hidden_values) filter (list_count(steps.hidden_values) = len(steps.hidden_values))
                as hidden_values,
            bit_xor(hash(steps.step_index, steps.credited_options)) filter (
                steps.credited_options is not null and not steps.is_forced
            ) as credited
        from stg_steps as steps
        inner join compared using (run_id, mode_id)
        inner join wanted using (mode_id)
        where wanted.is_played
        group by compared.side, steps.mode_id, steps.episode_id, steps.trial
    )

    select
        a.mode_id,
        count(distinct a.episode_id) as n_episodes,
        count(distinct a.episode_id) filter (a.hidden_values <> b.hidden_values) as n_elsewhere,
        coalesce(bool_or(a.hidden_values <> b.hidden_values), false)
        or coalesce(bool_or(a.credited <> b.credited), false) as is_other_trials
    from trials as a
    inner join trials as b using (mode_id, episode_id, trial)
    where a.side = 'a' and b.side = 'b'
    group by a.mode_id
"""
# how many trials an episode has, and what is right in them, may depend on who plays: then an episode is a
# pair, and its value a weighted mean. What has no answer that counts is lacking
PAIRS = """
    create or replace temp table pairs as
    with

    how as (
        select
            keyed.mode_id,
            not any_value(wanted.is_played)
            or (
                any_value(wanted.unit) = 'percent'
                and not any_value(wanted.is_adaptive)
                and not coalesce(any_value(played.is_other_trials), false)
                and bool_and(n_ok_a > 0 and n_ok_b > 0)
            ) as by_item
        from keyed
        inner join wanted using (mode_id)
        left join played using (mode_id)
        group by keyed.mode_id
    ),

    pairs as (
        select
            mode_id, episode_id, item_id, step_index, readout, n_a, n_b, n_ok_a, n_ok_b,
            value_a, value_b, weight_a, weight_b, by_item
        from keyed
        inner join how using (mode_id)
        where by_item
        union all by name
        select
            mode_id,
            episode_id,
            sum(n_a) as n_a,
            sum(n_b) as n_b,
            sum(n_ok_a) as n_ok_a,
            sum(n_ok_b) as n_ok_b,
            sum(weight_a * value_a) / nullif(sum(weight_a), 0) as value_a,
            sum(weight_b * value_b) / nullif(sum(weight_b), 0) as value_b,
            sum(weight_a) as weight_a,
            sum(weight_b) as weight_b,
            by_item
        from keyed
        inner join how using (mode_id)
        where not by_item
        group by mode_id, episode_id, by_item
    )

    select
        * exclude (n_ok_a, n_ok_b),
        n_a > 0 and n_ok_a = n_a as is_in_a,
        n_b > 0 and n_ok_b = n_b as is_in_b
    from pairs
"""
# sums are multiples of 2^-60, and so exact in any order; in the unit of the metric from here on
CLUSTERS = """
    create or replace temp table cluster_sums as
    select
        compared.mode_id,
        clusters.cluster_id,
        any_value(wanted.scale) * coalesce(sum(value_sum_fixed) filter (side = 'a'), 0)
            / pow(2::double, 60) as value_a,
        coalesce(sum(weight_sum_fixed) filter (side = 'a'), 0) / pow(2::double, 60) as weight_a,
        any_value(wanted.scale) * coalesce(sum(value_sum_fixed) filter (side = 'b'), 0)
            / pow(2::double, 60) as value_b,
        coalesce(sum(weight_sum_fixed) filter (side = 'b'), 0) / pow(2::double, 60) as weight_b
    from int_episode_metrics as sums
    inner join compared using (run_id, mode_id)
    inner join wanted using (mode_id, metric)
    inner join int_clusters as clusters using (run_id, mode_id, episode_id)
    where sums.n_scored > 0
    group by all
"""
COMPARISONS = """
    with

    sides as (
        select
            wanted.*,
            a.run_id as run_a, b.run_id as run_b,
            a.value as value_a, b.value as value_b,
            a.reason as reason_a, b.reason as reason_b
        from wanted
        left join compared as a on a.mode_id = wanted.mode_id and a.side = 'a'
        left join compared as b on b.mode_id = wanted.mode_id and b.side = 'b'
    ),

    paired as (
        select
            mode_id,
            bool_and(by_item) as by_item,
            count(*) as n_keys,
            count(*) filter (is_in_a and is_in_b) as n_pairs,
            count(*) filter (not is_in_a) as n_a_lacks,
            count(*) filter (not is_in_b) as n_b_lacks,
            bool_or(n_a > 0) as has_a,
            bool_or(n_b > 0) as has_b,
            list(
                concat_ws(' ', 'episode ' || episode_id, 'item ' || item_id, 'step ' || step_index, readout)
                order by episode_id, item_id, step_index, readout
            ) filter (not is_in_a)[:$n_named] as a_lacks,
            list(
                concat_ws(' ', 'episode ' || episode_id, 'item ' || item_id, 'step ' || step_index, readout)
                order by episode_id, item_id, step_index, readout
            ) filter (not is_in_b)[:$n_named] as b_lacks,
            bool_and(value_a in (0, 1) and value_b in (0, 1)) as is_either_or,
            min(least(weight_a, weight_b)) = max(greatest(weight_a, weight_b)) as is_weighted_alike,
            max(value_a - value_b) - min(value_a - value_b) as range_of_differences,
            count(*) filter (value_a = 1 and value_b = 1) as both_right,
            count(*) filter (value_a = 1 and value_b = 0) as a_only,
            count(*) filter (value_a = 0 and value_b = 1) as b_only,
            count(*) filter (value_a = 0 and value_b = 0) as both_wrong
        from pairs
        group by mode_id
    ),

    means as (
        select
            mode_id,
            count(*) as n_clusters,
            -- in order, so that the last digit does not depend on the threads
            fsum(weight_a order by weight_a) as weight_a,
            fsum(weight_b order by weight_b) as weight_b,
            fsum(value_a order by value_a) / fsum(weight_a order by weight_a) as mean_a,
            fsum(value_b order by value_b) / fsum(weight_b order by weight_b) as mean_b
        from cluster_sums
        group by mode_id
    ),

    spread as (
        -- how far each cluster pulls the difference of two weighted means
        select
            mode_id,
            fsum(squared order by squared) as sum_of_squares
        from (
            select
                mode_id,
                power(
                    (sums.value_a - sums.weight_a * means.mean_a) / means.weight_a
                    - (sums.value_b - sums.weight_b * means.mean_b) / means.weight_b,
                    2
                ) as squared
            from cluster_sums as sums
            inner join means using (mode_id)
        )
        group by mode_id
    ),

    judged as (
        select
            sides.*,
            paired.* exclude (mode_id),
            played.n_episodes,
            played.n_elsewhere,
            means.n_clusters,
            -- a difference in the thirteenth digit is one of rounding
            1e-12 * (abs(means.mean_a) + abs(means.mean_b)) as rounding,
            sqrt(n_clusters / nullif(n_clusters - 1, 0) * sum_of_squares) as error,
            case
                when sides.run_a is null and sides.run_b is null then 'neither has a run of this mode'
                when coalesce(not paired.has_a, true) and coalesce(not paired.has_b, true)
                    then 'neither has an answer of this mode'
                when coalesce(not paired.has_a, true)
                    then 'A has no answer of this mode' || coalesce(': ' || sides.reason_a, '')
                when coalesce(not paired.has_b, true)
                    then 'B has no answer of this mode' || coalesce(': ' || sides.reason_b, '')
            end as absent_because,
            case
                when paired.n_a_lacks + paired.n_b_lacks > 0 then concat_ws(
                    '; ',
                    'A lacks ' || nullif(paired.n_a_lacks, 0) || ' of ' || paired.n_keys || ' pairs: '
                        || array_to_string(paired.a_lacks, ', ')
                        || if(paired.n_a_lacks > len(paired.a_lacks), ', ...', ''),
                    'B lacks ' || nullif(paired.n_b_lacks, 0) || ' of ' || paired.n_keys || ' pairs: '
                        || array_to_string(paired.b_lacks, ', ')
                        || if(paired.n_b_lacks > len(paired.b_lacks), ', ...', '')
                )
                when sides.value_a is null then 'A is incomplete: ' || coalesce(sides.reason_a, 'no value')
                when sides.value_b is null then 'B is incomplete: ' || coalesce(sides.reason_b, 'no value')
            end as unpaired_because
        from sides
        left join paired using (mode_id)
        left join played using (mode_id)
        left join means using (mode_id)
        left join spread using (mode_id)
    ),

    measured as (
        select
            *,
            case
                when absent_because is not null then 'absent'
                when unpaired_because is not null then 'unpaired'
                when isinf(value_a) or isinf(value_b) then 'infinite'
                else 'paired'
            end as found,
            case when found = 'paired' then value_a - value_b end as difference,
            case
                when found <> 'paired' then null
                when error > rounding then error
                when error is not null and scale * range_of_differences <= rounding then 0
            end as se,
            -- a share of rows that are right or wrong each
            found = 'paired' and unit = 'percent' and by_item and is_either_or as has_flips,
            has_flips and n_pairs = n_clusters and is_weighted_alike as is_mcnemar,
            case when has_flips then least(1, 2 * binomial_cdf(least(a_only, b_only), a_only + b_only, 0.5))
            end as mcnemar_p,
            case when se > 0 then difference / se end as t,
            case when se is not null then n_clusters - 1 end as degrees_of_freedom
        from judged
    ),

    tested as (
        select
            *,
            case
                when is_mcnemar then 'exact McNemar'
                when t is not null then 'paired t over clusters'
            end as test,
            case when is_mcnemar then mcnemar_p else 2 * student_t_cdf(-abs(t), degrees_of_freedom) end as p,
            case when se = 0 then 0 else student_t_quantile($upper, degrees_of_freedom) * se end as half_width
        from measured
    )

    select
        mode_id,
        label,
        metric,
        unit,
        decimals,
        case
            when found in ('absent', 'unpaired') then found
            when p is null then 'untested'
            else 'tested'
        end as status,
        coalesce(
            absent_because,
            unpaired_because,
            case
                when found = 'infinite'
                    then case
                        when isinf(value_a) and isinf(value_b) then 'both values are infinite'
                        when isinf(value_a) then 'the value of A is infinite'
                        else 'the value of B is infinite'
                    end
                when p is not null then null
                when n_clusters < 2 then 'one cluster does not show how clusters differ'
                when se is null then 'the clusters agree although the pairs in them differ'
                when difference = 0 then 'A and B agree on every pair'
                else 'every pair differs by the same'
            end
        ) as reason,
        run_a,
        run_b,
        value_a,
        value_b,
        difference,
        se,
        difference - half_width as ci_low,
        difference + half_width as ci_high,
        case when by_item then 'item' when not by_item then 'episode' end as pair,
        coalesce(n_pairs, 0) as n_pairs,
        coalesce(n_a_lacks, 0) as n_a_lacks,
        coalesce(n_b_lacks, 0) as n_b_lacks,
        case when found in ('paired', 'infinite') then n_clusters end as n_clusters,
        cluster,
        test,
        t,
        degrees_of_freedom,
        p,
        case
            when p is not null then max(least(1, (n_tested - place + 1) * p)) over (order by place)
        end as p_holm,
        case when has_flips then both_right end as both_right,
        case when has_flips then a_only end as a_only,
        case when has_flips then b_only end as b_only,
        case when has_flips then both_wrong end as both_wrong,
        mcnemar_p,
        margin,
        case
            when se > 0 then greatest(
                student_t_cdf(-(difference + margin) / se, degrees_of_freedom),
                student_t_cdf((difference - margin) / se, degrees_of_freedom)
            )
        end as equivalence_p,
        case when se > 0 then detectable_t($power, $significance, degrees_of_freedom) * se end as detectable,
        nullif(
            concat_ws(
                '; ',
                case
                    when has_flips and not is_mcnemar
                        then 'McNemar''s p takes rows of one ' || cluster || ' as independent; they are not'
                end,
                case
                    when found = 'paired' and unit = 'percent' and not by_item
                        then 'no flip table: the two played other trials, so an episode is a pair'
                    when found = 'paired' and unit = 'percent' and not is_either_or
                        then 'no flip table: some items are right in part'
                end,
                case
                    when found = 'paired' and n_elsewhere > 0
                        then
                            'in ' || n_elsewhere || ' of ' || n_episodes
                            || ' episodes of one number the two met'
                            || ' other environments: these share no chance, and pair by number alone'
                end,
                case
                    when found = 'paired' and margin is null
                        then 'no test of equivalence: no margin is stated'
                end
            ),
            ''
        ) as note
    from (
        select
            *,
            row_number() over (order by p nulls last, display_order) as place,
            count(p) over () as n_tested
        from tested
    )
    order by display_order
"""
CLUSTERS_OF_MODE = """
    select value_a, weight_a, value_b, weight_b
    from cluster_sums
    where mode_id = ?
"""
