{#- Standard errors over clusters, and intervals by Student's t. -#}


{#- How far the weighted sum of a cluster is from what its weight has at the mean. A difference in the thirteenth digit is
    one of rounding: clusters that agree have none. -#}
{% macro deviation(value_sum, weight_sum, mean) -%}
    case
        when abs({{ value_sum }} - {{ weight_sum }} * {{ mean }}) > 1e-12 * abs({{ value_sum }})
            then {{ value_sum }} - {{ weight_sum }} * {{ mean }}
        when {{ value_sum }} is not null and {{ mean }} is not null then 0.0::double
    end
{%- endmacro %}


{#- Cluster-robust standard error of an estimate, from the squares of how far each of n clusters pulls it; null with one. -#}
{% macro clustered_error(n_clusters, sum_of_squares) -%}
    case
        when {{ n_clusters }} > 1
            then sqrt(cast({{ n_clusters }} as double) / ({{ n_clusters }} - 1) * {{ sum_of_squares }})
    end
{%- endmacro %}


{#- Why there is no standard error of a value; null where there is one. `error` is what the clusters give, `lowest` and
    `highest` are among the values behind it: clusters that agree although values differ are a coincidence, or a model
    that fits exactly, and no sign that the value is known exactly. -#}
{% macro no_error_because(value, n_clusters, error, lowest, highest) -%}
    case
        when {{ value }} is null then 'there is no value'
        when isinf({{ value }}) then 'the value is infinite'
        when {{ n_clusters }} < 2 then 'one cluster does not show how clusters differ'
        when {{ error }} = 0 and {{ lowest }} < {{ highest }}
            then 'the clusters agree although the values in them differ'
    end
{%- endmacro %}


{#- End of the 95 % interval about an estimate, by Student's t; `sign` is - or +. It is not cut at the ends of the metric's
    range, so that the estimate is in its middle. Without spread it is the estimate, and without error null. -#}
{% macro interval_end(sign, estimate, se, degrees_of_freedom) -%}
    case
        when {{ se }} = 0 then {{ estimate }}
        else {{ estimate }} {{ sign }} student_t_quantile(0.975, {{ degrees_of_freedom }}) * {{ se }}
    end
{%- endmacro %}


{#- Degrees of freedom of a sum of independent parts (Satterthwaite), as an aggregate over the variances of the parts, in
    any unit, and the degrees of freedom of each: those of the part if it is one, null if none has any variance. -#}
{% macro joint_degrees_of_freedom(variance, degrees_of_freedom) -%}
    power({{ ordered_sum(variance) }}, 2)
    / nullif({{ ordered_sum('power(' ~ variance ~ ', 2) / nullif(' ~ degrees_of_freedom ~ ', 0)') }}, 0)
{%- endmacro %}


{#- Version of an estimator: its code, that of the sums and clusters that it reads, and what it shares with others. -#}
{% macro metric_sha() %}
{%- if execute -%}
    {#- a unit test has no graph -#}
    {%- set nodes = graph.get('nodes', {}).values() -%}
    {%- set read = namespace(code='') -%}
    {%- for node in nodes | sort(attribute='name') if node.name == 'int_clusters' or node.name.startswith('int_episode_') -%}
        {%- set read.code = read.code ~ node.raw_code -%}
    {%- endfor -%}
    {{ sha256_of(model.raw_code ~ read.code ~ statistics_rules() ~ inputs_of_model()) }}
{%- endif -%}
{% endmacro %}


{% macro statistics_rules() -%}
    {{ deviation('value_sum', 'weight_sum', 'mean') }}
    {{ clustered_error('n_clusters', 'sum_of_squares') }}
    {{ no_error_because('value', 'n_clusters', 'error', 'lowest', 'highest') }}
{%- endmacro %}


{#- Pre-hook of the episode sums: drops those that other code added up, as code that lacked a column did. -#}
{% macro forget_other_sums() %}
{%- if execute and is_incremental() -%}
    {%- set columns = adapter.get_columns_in_relation(this) | map(attribute='name') | list -%}
    {%- set found = modules.re.search("'([0-9a-f]{64})' as sums_sha", model.compiled_code) -%}
    delete from {{ this }}
    {%- if 'sums_sha' in columns %}
    where sums_sha <> '{{ found.group(1) }}'
    {%- endif -%}
{%- endif -%}
{% endmacro %}
