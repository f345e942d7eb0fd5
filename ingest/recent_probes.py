"""Recent probes: which key people press when asked whether a letter was among six they have just seen.

A measure of :mod:`ingest.self_regulation`. Four trials of practice, in which people are told whether they
were right, are followed by three runs of 24 trials in which they are told nothing. The left arrow key (37)
means that the probe was in the set, the right one (39) that it was not; -1 means that neither was pressed in
time.

Which participants were held out for the published row is not in the data. The rule here is ours: it looks at
nothing but the participant's name, so that a participant stays in a split whoever else is in the file.
"""

from collections.abc import Mapping

import duckdb
import pyarrow as pa

from store.prompts import Template, load_template

COLUMNS = ("trial_id", "exp_stage", "stim", "probe_letter", "key_press", "correct_response", "correct")
TEMPLATE_ID = "recent_probes"
OPTIONS = ("left", "right")

# Inferred: a participant is in the test if the SHA-256 of `27/<participant>` is in the lowest tenth. 27 is
# the smallest number by which the pinned file has the published 51 participants with 3,774 valid responses.
SPLIT_SEED = 27
_LOWEST_TENTH = "1999999a"

# a list as Python prints it
_LETTERS = r"\[''[A-Z]''(, ''[A-Z]'')*\]"

_TRIALS = f"""
create or replace table trials as
with

cells as (

    select
        *,
        case when regexp_full_match(stim, '{_LETTERS}') then regexp_extract_all(stim, '[A-Z]') end as letters,
        case when regexp_full_match(probe_letter, '[A-Z]') then probe_letter end as probe,
        case try_cast(key_press as double) when 37 then 'left' when 39 then 'right' end as pressed_key,
        try_cast(key_press as double) is not distinct from -1 as is_missed,
        case try_cast(correct_response as double) when 37 then 'left' when 39 then 'right' end as named_key,
        case when list_contains(letters, probe) then 'left' else 'right' end as right_key
    from screens
    where place_flaw is null

),

judged as (

    select
        *,
        case
            when trial_id is distinct from 'probe' then 'there is no probe on the screen'
            when exp_stage is null or exp_stage not in ('practice', 'test')
            then 'exp_stage is not one of practice, test'
            when letters is null or len(list_distinct(letters)) <> 6 or len(letters) <> 6
            then 'stim is not a list of six letters'
            when probe is null then 'probe_letter is not a letter'
            when named_key is distinct from right_key then 'correct_response contradicts the letters'
        end as trial_flaw,
        case
            when is_missed then 'no key was pressed in time'
            when pressed_key is null then 'key_press is not one of 37, 39, -1'
            when try_cast(correct as double) is distinct from cast(pressed_key = right_key as double)
            then 'correct contradicts key_press'
        end as response_flaw
    from cells

)

select
    *,
    case when response_flaw is null then pressed_key end as response,
    row_number() over (partition by participant_id, trial_flaw is null order by place) - 1 as trial,
    case
        when sha256('{SPLIT_SEED}/' || participant_id) < '{_LOWEST_TENTH}' then 'test' else 'train'
    end as split
from judged
"""

_FLAWS = """
with flawed as (
    select
        coalesce(
            trial_flaw || '; left out',
            response_flaw || '; not asked, and in the history a trial without a key'
        ) as flaw
    from trials
)

select flaw, count(*) as n_rows from flawed where flaw is not null group by flaw order by n_rows desc, flaw
"""

_NAMES = """
    $run_id || '/' || participant_id || '/' || trial as item_id,
    $mode_id as mode_id,
    $source_id as source_id,
    participant_id,
    split,
    1.0 as weight
"""

_RESPONSES = f"""
select {_NAMES}, response from trials
where trial_flaw is null and response is not null
order by participant_id, trial
"""


def _items(template: Template) -> str:
    return f"""
        with

        shown as (

            -- nobody is asked what training participants answered, so these need no prompt
            select
                * exclude (letters),
                letters as letter_list,
                trial + 1 as number,
                array_to_string(letters, ' ') as letters,
                coalesce(response, case when is_missed then 'nothing' else 'an unknown key' end) as pressed,
                case
                    when exp_stage = 'test' then ''
                    when response is null then ' No response detected.'
                    when response = right_key then ' Correct.'
                    else ' Incorrect.'
                end as feedback
            from trials
            where trial_flaw is null

        ),

        remembered as (

            select
                *,
                coalesce(
                    string_agg(case when split = 'test' then {template.sql("trial")} end, '') over (
                        partition by participant_id
                        order by trial rows between unbounded preceding and 1 preceding
                    ),
                    ''
                ) as history
            from shown

        )

        select
            {_NAMES},
            case when split = 'test' then {template.sql()} end as prompt,
            case when split = 'test' then $template_id end as template_id,
            case when split = 'test' then $template_sha256 end as template_sha256,
            {list(OPTIONS)} as legal_options,
            [right_key] as credited_options,
            to_json({{trial: trial, letters: letter_list, probe: probe}}) as facts_json
        from remembered
        where response is not null
        order by participant_id, trial
    """


def read_screens(
    con: duckdb.DuckDBPyConnection, names: Mapping[str, str]
) -> tuple[dict[str, pa.Table], list[tuple[str, int]]]:
    """Turn the table ``screens`` into items and responses, and count what cannot be.

    A trial without a valid key is no item: it has nothing to be predicted. It stays in the history.

    Parameters
    ----------
    names
        ``run_id``, ``mode_id`` and ``source_id`` of all rows.
    """
    template = load_template(TEMPLATE_ID)
    con.execute(_TRIALS)
    of_template = {"template_id": template.id, "template_sha256": template.sha256}
    tables = {
        "items": con.sql(_items(template), params={**names, **of_template}).to_arrow_table(),
        "human_responses": con.sql(_RESPONSES, params=dict(names)).to_arrow_table(),
    }
    return tables, con.execute(_FLAWS).fetchall()
