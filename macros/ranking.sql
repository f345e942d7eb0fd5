{#- Bootstrap and paired comparison of evaluations of the same items. Nothing is drawn at random: what a draw is
    follows from a text that names it, so every machine, version and number of threads draws the same. -#}


{#- Replicates of the bootstrap. -#}
{% macro n_replicates() -%}2000{%- endmacro %}


{#- n draws from 1..n with replacement, as a list. The first 8 hex digits of the md5 of `<seed>/0` are the first draw,
    the next 8 the second, and so on; after four draws `<seed>/1` follows. A number below 2^32 is scaled to 1..n,
    so no place is more likely than another by more than n in 2^32. -#}
{% macro draws(seed, n) -%}
    flatten(
        list_transform(
            list_transform(range(({{ n }} + 3) // 4), lambda block: md5({{ seed }} || '/' || block)),
            lambda digits: [
            {%- for place in (1, 9, 17, 25) %}
                1 + ((cast('0x' || substr(digits, {{ place }}, 8) as bigint) * {{ n }}) >> 32){{ ',' if not loop.last }}
            {%- endfor %}
            ]
        )
    )[:{{ n }}]
{%- endmacro %}


{#- End of the percentile interval that holds 95 % of the replicates: 0.025 or 0.975. -#}
{% macro percentile(replicates, share) -%}
    list_aggregate({{ replicates }}, 'quantile_cont', {{ share }})
{%- endmacro %}


{#- Differences of two lists of replicates, draw by draw. -#}
{% macro paired_differences(replicates, other_replicates) -%}
    list_transform(list_zip({{ replicates }}, {{ other_replicates }}), lambda pair: pair[1] - pair[2])
{%- endmacro %}


{#- Two-sided p of the hypothesis that there is no difference: twice the share of replicates on the other side of
    zero or on it, with one more counted above and below the line, so that p is never 0. -#}
{% macro bootstrap_p(differences) -%}
    least(
        1,
        2 * (
            1 + least(
                len(list_filter({{ differences }}, lambda difference: difference <= 0)),
                len(list_filter({{ differences }}, lambda difference: difference >= 0))
            )
        ) / (len({{ differences }}) + 1)
    )
{%- endmacro %}


{#- Exact two-sided p of McNemar's test: how likely it is that of `n` items that one alone got right, so few or fewer
    fall to the side that has `fewer` of them, if each falls to either side like a coin; doubled, and 1 at most. -#}
{% macro mcnemar_p(fewer, n) -%}
    least(1, 2 * binomial_cdf({{ fewer }}, {{ n }}, 0.5))
{%- endmacro %}


{#- Two models are told apart at this level, without a correction for the number of pairs. -#}
{% macro significance() -%}cast(0.05 as double){%- endmacro %}


{#- Components that have a column: those that the contract of the mart names so. A linter knows no contract. -#}
{% macro component_columns() -%}
    {%- if model is not defined -%}
        {{ return(['a_column']) }}
    {%- endif -%}
    {{ return(model.columns.values() | selectattr('meta.is_component', 'defined') | map(attribute='name') | list) }}
{%- endmacro %}
