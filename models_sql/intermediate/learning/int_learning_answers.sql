{#- What an answer is compared with, and whose question it is, has tables of its own; how, has macros. -#}
-- depends_on: {{ ref('learning_tasks') }}

{% call scored_rule(['fraction_correct', 'active_induction', 'procedural'], 'steps', benchmark='learning') %}

    with

    steps as (

        select * from {{ ref('stg_steps') }}
        where {{ is_new_part() }}

    ),

    runs as (

        select * from {{ ref('int_learning_runs') }}

    ),

    questions as (

        select * from {{ ref('int_learning_questions') }}
        where question > 0

    ),

    examined as (

        -- whoever was examined twice has no score; what was said last is kept beside it
        select
            run_id,
            mode_id,
            episode_id,
            part_id,
            {{ lines_of("coalesce(response_text, '')") }} as reply,
            row_number() over () as reply_id
        from steps
        where
            outcome = 'examined'
            and status = 'ok'
        qualify row_number() over (partition by run_id, mode_id, episode_id order by step_index desc) = 1

    ),

    lines as (

        select
            reply_id,
            unnest(string_split(reply, chr(10))) as line,
            generate_subscripts(string_split(reply, chr(10)), 1) as place
        from examined

    ),

    read_lines as (

        select
            reply_id,
            place,
            regexp_extract(line, {{ answer_line() }}, ['number', 'said']) as found
        from lines

    ),

    numbered as (

        -- of several lines with one number the last that says something counts; lines without one are together
        select
            reply_id,
            try_cast(found.number as integer) as question,
            arg_max(found.said, ({{ says_something('found.said') }}, place)) as said
        from read_lines
        group by reply_id, question

    ),

    with_numbers as (

        select distinct reply_id
        from numbered
        where question is not null

    ),

    asked as (

        -- a reply without a number is the answer where there is one question
        select
            examined.run_id,
            examined.mode_id,
            examined.episode_id,
            examined.part_id,
            questions.item_id,
            questions.question,
            questions.match_kind,
            questions.comparison,
            case
                when numbered.reply_id is not null then numbered.said
                when questions.n_questions = 1 and with_numbers.reply_id is null then examined.reply
            end as said
        from examined
        inner join runs
            on
                examined.run_id = runs.run_id
                and examined.mode_id = runs.task_id
        inner join questions
            on
                runs.item_run_id = questions.item_run_id
                and examined.mode_id = questions.mode_id
                and examined.episode_id = questions.episode_id
        left join numbered
            on
                examined.reply_id = numbered.reply_id
                and questions.question = numbered.question
        left join with_numbers on examined.reply_id = with_numbers.reply_id

    ),

    comparisons as (

        select distinct
            comparison,
            match_kind,
            right_text,
            right_elements,
            small_labels
        from questions

    ),

    pairs as (

        -- the same answer to the same is compared once
        select distinct
            comparison,
            said
        from asked
        where said is not null

    ),

    bared as (

        select
            *,
            nullif({{ bare_answer('said') }}, '') as answer
        from pairs

    ),

    spelled as (

        select
            bared.said,
            bared.answer,
            comparisons.*,
            case
                when comparisons.match_kind = 'substring' or comparisons.small_labels is not null
                    then {{ learning_small('bared.answer') }}
            end as small_answer,
            case when comparisons.match_kind = 'sequence' then {{ elements('bared.answer') }} end as elements
        from bared
        inner join comparisons on bared.comparison = comparisons.comparison

    ),

    matched as (

        select
            *,
            coalesce(case match_kind
                when 'substring' then contains(small_answer, right_text)
                when 'integer' then {{ integer_answered('answer') }} = right_text
                when 'exact_nfc' then {{ learning_collapsed('answer') }} = right_text
                when 'sequence' then elements = right_elements
            end, false) as is_correct,
            coalesce(
                len(list_filter(small_labels, lambda label: contains(small_answer, label))), 0
            ) as n_labels_matched
        from spelled

    ),

    judged as (

        select
            *,
            case
                when not is_correct or match_kind <> 'substring' then is_correct
                when small_labels is not null
                    then {{ options_named('small_answer', 'small_labels') }} = [right_text]
                else {{ occurs('small_answer', 'right_text') }}
            end as is_strict,
            case
                when match_kind = 'sequence'
                    then
                        {{ share_of_positions(positions('elements'), positions('right_elements')) }}
            end as position_accuracy
        from matched

    ),

    answers as (

        -- what is not read is wrong
        select
            asked.run_id,
            asked.mode_id,
            asked.episode_id,
            asked.item_id,
            asked.question,
            asked.match_kind,
            judged.answer,
            coalesce(judged.is_correct, false) as is_correct,
            coalesce(judged.is_strict, false) as is_strict,
            cast(coalesce(judged.n_labels_matched, 0) as integer) as n_labels_matched,
            case
                when asked.match_kind = 'sequence' then coalesce(judged.position_accuracy, 0)
            end as position_accuracy,
            case when judged.answer is null then 'unparsed' else 'ok' end as status,
            case
                when judged.answer is null
                    then 'no answer to question ' || asked.question || ' could be read'
            end as status_reason,
            asked.part_id
        from asked
        left join judged
            on
                asked.comparison = judged.comparison
                and asked.said = judged.said

    )

    select * from answers

{% endcall %}
