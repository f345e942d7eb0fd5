{#- How Learning is scored: how the answers of a reply are read, how an answer is compared with the computed truth, and
    the formulas. Every parameter of a formula is given to it: they are columns of the task's row. -#}


{#- ---- Reading a reply ---- -#}


{#- A line that answers a numbered question, with two groups: the number and the answer. Blanks, marks of lists, quotes
    and headings and an opening bracket may stand before it, then perhaps a word for a question, then its number and one
    of : . ) = - The expression is the same for every row; one that is made per row takes a hundred times as long. -#}
{% macro answer_line() -%}
    '(?i)^[{{ blanks() }}>*\-#_`"(•]*(?:(?:question|answer|item|q|a)[{{ blanks() }}_#]*)?0*([0-9]{1,6})'
    || '(?:[*_`")]*[{{ blanks() }}]*[:：]|[*_`")]*[.)=\-])(.*)'
{%- endmacro %}


{#- With one character at the end of every line. -#}
{% macro lines_of(text) -%}
    replace(replace({{ text }}, chr(13) || chr(10), chr(10)), chr(13), chr(10))
{%- endmacro %}


{#- White space of any kind, and what takes no room: marks of direction, joiners, soft hyphens. For an expression. -#}
{% macro blanks() -%}
    \s\x0b\x{85}\p{Z}\p{Cf}
{%- endmacro %}


{#- Without blanks and marks around it. One expression of both ends is slower, and trim() much slower still. -#}
{% macro without_around(text, marks) -%}
    regexp_replace(
        regexp_replace({{ text }}, '^[{{ blanks() ~ marks }}]+', ''), '[{{ blanks() ~ marks }}]+\z', ''
    )
{%- endmacro %}


{#- Marks of markdown, quotes and commas. For an expression. -#}
{% macro marks_around_answers() -%}
    *_`"''“”‘’«»,
{%- endmacro %}


{#- Without blanks and marks around it, unless it consists of marks. -#}
{% macro bare_answer(text) -%}
    coalesce(
        nullif({{ without_around(text, marks_around_answers()) }}, ''),
        {{ without_around(text, '') }}
    )
{%- endmacro %}


{#- Whether it has more than blanks and marks. -#}
{% macro says_something(text) -%}
    regexp_matches({{ text }}, '[^{{ blanks() ~ marks_around_answers() }}]')
{%- endmacro %}


{#- ---- Comparing an answer ---- -#}


{#- A letter and its accents are one text, in whatever order they are written. Of more than eight accents on one letter
    the others are left out: putting n of them in order takes the square of n. -#}
{% macro learning_spelling(text) -%}
    case
        when strlen({{ text }}) = length({{ text }}) and not contains({{ text }}, chr(0)) then {{ text }}
        else {{ one_spelling("regexp_replace(" ~ text ~ ", '(\\p{M}\\p{M}\\p{M}\\p{M}\\p{M}\\p{M}\\p{M}\\p{M})\\p{M}+', '\\1', 'g')") }}
    end
{%- endmacro %}


{#- The same where capitals do not count. -#}
{% macro learning_small(text) -%}
    case
        when strlen({{ text }}) = length({{ text }}) and not contains({{ text }}, chr(0)) then lower({{ text }})
        else {{ one_spelling("lower(" ~ learning_spelling(text) ~ ")") }}
    end
{%- endmacro %}


{#- The same letters, and one space where there was white space of any kind. -#}
{% macro learning_collapsed(text) -%}
    {{ as_running_text(learning_spelling(text)) }}
{%- endmacro %}


{#- With digits from 0 to 9 where there were full-width, Arabic-Indic, extended Arabic-Indic or Devanagari ones, and
    the signs that a keyboard has. -#}
{% macro plain_digits(text) -%}
    translate(
        {{ text }},
        '０１２３４５６７８９٠١٢٣٤٥٦٧٨٩۰۱۲۳۴۵۶۷۸۹०१२३४५६७८९−－＋',
        '0123456789012345678901234567890123456789--+'
    )
{%- endmacro %}


{#- One way to write each integer, however long: without plus sign and leading zeros. Null for what is no integer. -#}
{% macro integer_written(text) -%}
    case
        when regexp_matches({{ text }}, '^[+-]?0+$') then '0'
        when regexp_matches({{ text }}, '^-[0-9]+$') then '-' || ltrim({{ text }}, '-0')
        when regexp_matches({{ text }}, '^[+]?[0-9]+$') then ltrim({{ text }}, '+0')
    end
{%- endmacro %}


{#- The integer that a whole answer is, quotes, brackets, marks of markdown and a full stop at its end aside. -#}
{% macro integer_answered(text) -%}
    {%- set marks = '*_`"\'\'“”‘’«»()\\[\\]{}<>' -%}
    {{ integer_written(plain_digits(without_around(without_stop(without_around(text, marks)), marks))) }}
{%- endmacro %}


{#- What stands between white space, commas, semicolons, brackets and quotes, capitals aside; integers in their one way
    of writing. -#}
{% macro elements(text) -%}
    list_transform(
        regexp_extract_all(
            {{ plain_digits(learning_small(text)) }}, '[^\s\x0b\x{85}\p{Z},;()\[\]{}"''`“”‘’«»]+'
        ),
        lambda e: case
            when left(e, 1) in ('0', '+', '-') then coalesce({{ integer_written('e') }}, e)
            else e
        end
    )
{%- endmacro %}


{#- What positions are told by: the elements, or the letters of an answer that is one element. -#}
{% macro positions(elements) -%}
    case when len({{ elements }}) = 1 then string_split({{ elements }}[1], '') else {{ elements }} end
{%- endmacro %}


{#- Share of the places of the right answer at which another has the same. -#}
{% macro share_of_positions(given, right) -%}
    cast(len(list_filter(
        range(1, len({{ right }}) + 1), lambda place: {{ given }}[place] = {{ right }}[place]
    )) as double) / nullif(len({{ right }}), 0)
{%- endmacro %}


{#- ---- Formulas ---- -#}


{#- To so many decimals, as Python and C do: the decimal nearest to the exact value of the double, ties to even.
    round() is not that. Null decimals: as it is. -#}
{% macro rounded_to(value, decimals) -%}
    case
        when {{ decimals }} is null then {{ value }}
        else cast(format('{:.{}f}', {{ value }}, {{ decimals }}) as double)
    end
{%- endmacro %}


{#- greatest() and least() leave nulls out; a formula without one of its parameters has no value. -#}
{% macro larger_of(one, other) -%}
    case when {{ one }} >= {{ other }} then {{ one }} when {{ one }} < {{ other }} then {{ other }} end
{%- endmacro %}


{% macro smaller_of(one, other) -%}
    case when {{ one }} <= {{ other }} then {{ one }} when {{ one }} > {{ other }} then {{ other }} end
{%- endmacro %}


{#- Examples that cost nothing. -#}
{% macro free_examples(initial_examples, free_threshold) -%}
    {{ larger_of(initial_examples, free_threshold) }}
{%- endmacro %}


{#- Efficiency of examples asked for: 1 up to the free ones, then falling in a straight line to 0 at the maximum. A task
    whose examples are all free has nothing to pay for. -#}
{% macro example_efficiency(n_used, n_free, n_max, floor) -%}
    case
        when {{ n_used }} <= {{ n_free }} or {{ n_max }} <= {{ n_free }} then 1.0::double
        else
            {{ larger_of(
                floor,
                "(1 - cast(" ~ n_used ~ " - " ~ n_free ~ " as double) / (" ~ n_max ~ " - " ~ n_free ~ "))"
            ) }}
    end
{%- endmacro %}


{#- Accuracy, weighted by what it earns whatever its cost and by what a low cost adds. -#}
{% macro active_score(accuracy, efficiency, weight_accuracy, weight_efficiency, has_zero_guard) -%}
    case
        when {{ has_zero_guard }} and {{ accuracy }} = 0 then 0.0::double
        else {{ accuracy }} * ({{ weight_accuracy }} + {{ weight_efficiency }} * {{ efficiency }})
    end
{%- endmacro %}


{#- Efficiency of what is solved at a step from 1: 1 within the steps that cost nothing, then falling in a straight line
    to the floor at the last of the budget. 0 if it was not solved, which is a step of null. A budget that is all free
    leaves nothing to pay for. -#}
{% macro step_efficiency(step, budget_steps, min_explore_steps, floor) -%}
    {%- set paid_step = "((" ~ larger_of("1", "(" ~ smaller_of(step, budget_steps) ~ ")") ~ ") - " ~ min_explore_steps ~ ")" -%}
    {%- set paid_budget = "(" ~ budget_steps ~ " - " ~ min_explore_steps ~ ")" -%}
    case
        when {{ step }} is null then 0.0::double
        when {{ paid_step }} <= 0 or {{ paid_budget }} <= 0 then 1.0::double
        else
            {{ larger_of(
                floor,
                "(1 - (1 - " ~ floor ~ ") * (cast(" ~ paid_step ~ " as double) / " ~ paid_budget ~ "))"
            ) }}
    end
{%- endmacro %}


{#- Success, efficiency and progress, weighted. Progress counts whether or not the game was solved. -#}
{% macro game_score(
    success, efficiency, progress, weight_success, weight_efficiency, weight_progress, decimals
) -%}
    {{ rounded_to(
        "(" ~ weight_success ~ " * " ~ success ~ " + " ~ weight_efficiency ~ " * " ~ efficiency
        ~ " + " ~ weight_progress ~ " * " ~ progress ~ ")",
        decimals
    ) }}
{%- endmacro %}


{#- Practice rounds that the asymptote averages: the last part of them, one at least. -#}
{% macro n_last_rounds(n_rounds, asymptote_share) -%}
    {{ larger_of('1', "cast(floor(" ~ n_rounds ~ " * " ~ asymptote_share ~ ") as integer)") }}
{%- endmacro %}


{#- Slope of the efficiency per round as a share of the steepest, from -1 to 1, and that as one from 0 to 1. One round
    has no slope, which is neither a rise nor a fall: 0.5. -#}
{% macro trajectory_score(slope, n_rounds, decimals) -%}
    {%- set share = "(" ~ slope ~ " * (" ~ n_rounds ~ " - 1))" -%}
    {{ rounded_to(
        "case when " ~ n_rounds ~ " = 1 then 0.5::double else ("
        ~ larger_of("-1", "(" ~ smaller_of("1", share) ~ ")") ~ " + 1) / 2 end",
        decimals
    ) }}
{%- endmacro %}


{#- Transfer, asymptote, trajectory and consistency, weighted; 0 where neither practice nor transfer showed any skill,
    whatever its trajectory. -#}
{% macro practice_score(
    transfer,
    asymptote,
    trajectory,
    consistency,
    weight_transfer,
    weight_asymptote,
    weight_trajectory,
    weight_consistency,
    has_zero_guard,
    epsilon,
    decimals
) -%}
    case
        when {{ has_zero_guard }} and {{ asymptote }} < {{ epsilon }} and {{ transfer }} < {{ epsilon }}
            then 0.0::double
        else
            {{ rounded_to(
                "(" ~ weight_transfer ~ " * " ~ transfer ~ " + " ~ weight_asymptote ~ " * " ~ asymptote
                ~ " + " ~ weight_trajectory ~ " * " ~ trajectory ~ " + " ~ weight_consistency ~ " * "
                ~ consistency ~ ")",
                decimals
            ) }}
    end
{%- endmacro %}


{#- ---- Episodes ---- -#}


{#- Wraps one rule. Its expanded SQL, with what it reads, is its version. It is scored anew in each build: what takes time
    is reading replies, which is done once per part. -#}
{% macro learning_rule(rule_name) %}
{%- set rule = caller() -%}
select
    scored.*,
    '{{ rule_name }}' as rule,
    '{{ sha256_of(rule ~ inputs_of_model()) }}' as scorer_sha
from (
{{ rule }}
) as scored
{% endmacro %}


{#- Episodes of a rule with the parameters of their tasks, one row each: what the turns and, where there are questions,
    the answers add up to, and what keeps the episode from having a score. -#}
{% macro learning_episodes_of(rule_name, has_questions) %}
    with

    turns as (

        select * from {{ ref('int_learning_turns') }}

    ),
    {%- if has_questions %}

    answers as (

        select * from {{ ref('int_learning_answers') }}

    ),
    {%- endif %}

    tasks as (

        select * from {{ ref('learning_tasks') }}
        where score_rule = '{{ rule_name }}'

    ),

    episodes as (

        select
            turns.run_id,
            turns.mode_id,
            turns.episode_id,
            cast(sum(turns.n_replies) as integer) as n_replies,
            cast(sum(turns.n_examples) as integer) as n_examples_given,
            cast(sum(turns.n_unread) as integer) as n_unread,
            cast(sum(turns.n_illegal) as integer) as n_illegal,
            sum(turns.n_examined) as n_examined,
            min(turns.first_step) as first_step,
            max(turns.last_step) as last_step,
            bool_or(turns.is_ended) as is_ended,
            arg_min(turns.status, turns.trial) filter (where turns.status <> 'ok') as failed_status,
            arg_min(turns.status_reason, turns.trial) filter (where turns.status <> 'ok') as failed_reason
        from turns
        where turns.mode_id in (select tasks.task_id from tasks)
        group by turns.run_id, turns.mode_id, turns.episode_id

    ),
    {%- if has_questions %}

    exams as (

        select
            run_id,
            mode_id,
            episode_id,
            count(*) as n_questions,
            count(*) filter (where is_correct) as n_correct,
            count(*) filter (where is_strict) as n_strict,
            count(*) filter (where n_labels_matched > 1) as n_ambiguous,
            count(*) filter (where status <> 'ok') as n_unanswered,
            fsum(position_accuracy) / count(position_accuracy) as position_accuracy
        from answers
        group by run_id, mode_id, episode_id

    ),
    {%- endif %}

    judged as (

        select
            tasks.*,
            episodes.*,
            {%- if has_questions %}
            exams.n_questions,
            exams.n_ambiguous,
            exams.n_unanswered,
            exams.position_accuracy,
            cast(exams.n_correct as double) / exams.n_questions as accuracy,
            cast(exams.n_strict as double) / exams.n_questions as strict_accuracy,
            {%- endif %}
            case
                when episodes.failed_status is not null then episodes.failed_reason
                when episodes.n_replies <> episodes.last_step + 1 or episodes.first_step <> 0
                    then
                        episodes.n_replies || ' replies of which the last is number '
                        || (episodes.last_step + 1) || ': some are missing or stored twice'
                {%- if has_questions %}
                when episodes.n_examined = 0 then 'the episode was not brought to its end: no answers were given'
                when episodes.n_examined > 1 then 'examined ' || episodes.n_examined || ' times'
                when exams.n_questions is null then 'the lake holds no question of the episode'
                when exams.n_questions <> tasks.n_test_items
                    then exams.n_questions || ' questions where ' || tasks.n_test_items || ' are declared'
                {%- else %}
                when not episodes.is_ended then 'the episode was not brought to its end'
                {%- endif %}
            end as fault
        from episodes
        inner join tasks on episodes.mode_id = tasks.task_id
        {%- if has_questions %}
        left join exams
            on
                episodes.run_id = exams.run_id
                and episodes.mode_id = exams.mode_id
                and episodes.episode_id = exams.episode_id
        {%- endif %}

    )

    select * from judged
{% endmacro %}


{#- What every rule says of an episode last: a value, or why there is none. A null value that nothing else explains comes
    of a parameter that the task's row lacks. -#}
{% macro value_or_reason(value) %}
    case when fault is null then {{ value }} end as value,
    case
        when failed_status in ('unparsed', 'error', 'too_long', 'missing_option') then failed_status
        when failed_status is not null or fault is not null or {{ value }} is null then 'error'
        else 'ok'
    end as status,
    coalesce(fault, case when {{ value }} is null then 'the task lacks a parameter of its formula' end) as status_reason
{% endmacro %}


{#- Standard error of the mean of a list in the order of size, whose values are independent; null where there are no two.
    Of equal values it is 0, whatever the rounding of their mean. -#}
{% macro standard_error(values, mean) -%}
    case
        when len({{ values }}) > 1 and {{ values }}[1] = {{ values }}[-1] then 0.0::double
        when len({{ values }}) > 1
            then
                sqrt(
                    list_aggregate(
                        list_sort(list_transform({{ values }}, lambda v: power(v - {{ mean }}, 2))), 'fsum'
                    ) / (len({{ values }}) - 1) / len({{ values }})
                )
    end
{%- endmacro %}


{#- How replies are read and answers compared, for the version of what reads what came of it. -#}
{% macro learning_rules() -%}
    {{ answer_line() }}
    {{ lines_of('text') }}
    {{ bare_answer('text') }}
    {{ says_something('text') }}
    {{ learning_small('text') }}
    {{ learning_collapsed('text') }}
    {{ integer_answered('text') }}
    {{ elements('text') }}
    {{ positions('elements') }}
    {{ share_of_positions('given', 'right') }}
    {{ options_named('text', 'options') }}
{%- endmacro %}
