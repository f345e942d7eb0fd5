"""The items that a comparison found changed, with both verdicts and the raw text behind them."""

import secrets
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import duckdb

from store.privacy import withheld

_MAX_CONSTANTS = 64
_ROWS_AT_ONCE = 10_000
_ALL = 2**62
_NOBODYS = "a source that no run names"

_ASKED = """
    create or replace temp table diff_asked as
    select distinct side.run_id, side.mode_id, side.episode_id, side.item_id, side.step_index
    from (
        select before as side from diff_items where number <= $1
        union all
        select after as side from diff_items where number <= $1
    )
    where side.run_id is not null
"""

# A question is answered by its id; where several were put it, by the participant that the verdict calls its
# episode. A decision is a step. An episode that has one verdict shows its last reply.
_TEXTS = """
    create or replace temp table diff_texts as
    with asked as (select * from diff_asked),
    outputs as (
        select
            asked.*,
            coalesce(outputs.response_text, cast(outputs.response_number as varchar)) as response_text,
            outputs.prompt_sha256,
            cast(null as varchar) as observation
        from asked
        inner join stg_outputs as outputs
            on
                asked.run_id = outputs.run_id
                and asked.mode_id = outputs.mode_id
                and asked.item_id = outputs.item_id
        where outputs.run_id in ({runs})
        qualify row_number() over (
            partition by asked.run_id, asked.mode_id, asked.episode_id, asked.item_id
            order by
                outputs.episode_id = asked.episode_id desc,
                outputs.participant_id is not distinct from asked.episode_id desc,
                outputs.episode_id
        ) = 1
    ),
    steps as (
        select
            asked.*,
            coalesce(steps.response_text, steps.action) as response_text,
            steps.prompt_sha256,
            steps.observation
        from asked
        inner join stg_steps as steps
            on
                asked.run_id = steps.run_id
                and asked.mode_id = steps.mode_id
                and asked.episode_id = steps.episode_id
                and (asked.step_index is null or asked.step_index = steps.step_index)
        where asked.item_id is null and steps.run_id in ({runs})
        qualify row_number() over (
            partition by asked.run_id, asked.mode_id, asked.episode_id, asked.step_index
            order by steps.step_index desc
        ) = 1
    ),
    answers as (
        select * from outputs
        union all
        select * from steps
    ),
    items as (
        -- the same question may have been imported more than once
        select mode_id, item_id, min(prompt) as prompt, min(source_id) as source_id
        from stg_items
        where (mode_id, item_id) in (select (mode_id, item_id) from asked)
        group by mode_id, item_id
    ),
    prompts as (
        select prompt_sha256, text
        from stg_prompts
        where prompt_sha256 in (select prompt_sha256 from answers)
    )
    select
        asked.*,
        coalesce(prompts.text, items.prompt, answers.observation) as prompt,
        answers.response_text,
        runs.source_id as run_source_id,
        items.source_id as item_source_id
    from asked
    left join answers
        on
            asked.run_id = answers.run_id
            and asked.mode_id = answers.mode_id
            and asked.episode_id is not distinct from answers.episode_id
            and asked.item_id is not distinct from answers.item_id
            and asked.step_index is not distinct from answers.step_index
    left join items on asked.mode_id = items.mode_id and asked.item_id = items.item_id
    left join prompts on answers.prompt_sha256 = prompts.prompt_sha256
    left join (select run_id, source_id from stg_runs where run_id in ({runs})) as runs
        on asked.run_id = runs.run_id
"""

# ids of a restricted source may call a person by name: they are numbered, in no order that tells anything
_SHOWN = """
    create or replace temp table diff_shown as
    with restricted (source_id, sentence) as (select unnest($1::varchar[]), unnest($2::varchar[])),
    verdicts as (
        select number, false as is_after, before as verdict from diff_items where number <= $3
        union all
        select number, true as is_after, after as verdict from diff_items where number <= $3
    ),
    told as (
        select
            verdicts.*,
            texts.prompt,
            texts.response_text,
            case when $4 then coalesce(
                of_run.sentence,
                of_item.sentence,
                case when texts.run_source_id is null and texts.item_source_id is null then $5 end
            ) end as withheld
        from verdicts
        left join diff_texts as texts
            on
                verdict.run_id = texts.run_id
                and verdict.mode_id = texts.mode_id
                and verdict.episode_id is not distinct from texts.episode_id
                and verdict.item_id is not distinct from texts.item_id
                and verdict.step_index is not distinct from texts.step_index
        left join restricted as of_run on texts.run_source_id = of_run.source_id
        left join restricted as of_item on texts.item_source_id = of_item.source_id
        where verdict.run_id is not null
    ),
    called as (
        select
            *,
            case
                when withheld is null or verdict.episode_id is null then verdict.episode_id
                else
                    'episode ' || dense_rank() over (
                        partition by withheld is null order by hash(verdict.episode_id || $6)
                    )
            end as episode_id,
            case
                when withheld is null or verdict.item_id is null then verdict.item_id
                else
                    'item ' || dense_rank() over (
                        partition by withheld is null order by hash(verdict.item_id || $6)
                    )
            end as item_id,
            {
                'run_id': verdict.run_id,
                'scorer_sha': verdict.scorer_sha,
                'value': verdict.value,
                'weight': verdict.weight,
                'status': verdict.status,
                'status_reason': case when withheld is null then verdict.status_reason end,
                'response_text': case when withheld is null then response_text end
            } as side
        from told
    )
    select
        number,
        any_value(verdict.rule) as rule,
        any_value(verdict.mode_id) as mode_id,
        any_value(episode_id) as episode_id,
        any_value(item_id) as item_id,
        any_value(verdict.step_index) as step_index,
        any_value(verdict.readout) as readout,
        any_value(case when withheld is null then prompt end) as prompt,
        any_value(side) filter (where not is_after) as before,
        any_value(side) filter (where is_after) as after,
        any_value(withheld) as withheld
    from called
    group by number
"""
# JSON has no infinity
_AS_JSON = """
    select to_json({
        'rule': rule,
        'mode_id': mode_id,
        'episode_id': episode_id,
        'item_id': item_id,
        'step_index': step_index,
        'readout': readout,
        'prompt': prompt,
        'before': struct_update(before, value := case when isfinite(before.value) then before.value end),
        'after': struct_update(after, value := case when isfinite(after.value) then after.value end),
        'withheld': withheld
    })::varchar
    from diff_shown
    order by number
"""
_AS_ROWS = """
    select
        rule, coalesce(after.run_id, before.run_id), mode_id, episode_id, item_id, step_index, readout,
        before.value, before.status, before.status_reason, after.value, after.status, after.status_reason,
        prompt, before.response_text, after.response_text, withheld
    from diff_shown
    order by number
"""


@dataclass(frozen=True, slots=True)
class Item:
    """One verdict that is not the same on both sides.

    Attributes
    ----------
    run_id
        Where two runs are compared, the second.
    before_value, after_value
        In the rule's unit; None where there is none, for which status and reason speak.
    before_status, after_status
        None where the side says less often of the row that it is scored.
    prompt
        As asked, of the second run where two are compared; None where the row has none, or may not be shown.
    response_before, response_after
        As answered; of two runs each answered, of builds and versions both sides score one answer.
    withheld
        Why text is left out; None where nothing is.
    """

    rule: str
    run_id: str
    mode_id: str
    episode_id: str | None
    item_id: str | None
    step_index: int | None
    readout: str | None
    before_value: float | None
    before_status: str | None
    before_reason: str | None
    after_value: float | None
    after_status: str | None
    after_reason: str | None
    prompt: str | None
    response_before: str | None
    response_after: str | None
    withheld: str | None


def show(con: duckdb.DuckDBPyConnection, n_items: int | None, restricted: Collection[str] | None) -> None:
    """Find the raw text of the first items that ``compare`` left, for ``rows`` and ``as_json``.

    Parameters
    ----------
    con
        The connection that compared.
    n_items
        How many; None for all.
    restricted
        Sources whose text is left out; None to leave out nothing.
    """
    n_items = _ALL if n_items is None else n_items
    con.execute(_ASKED, [n_items])
    con.execute(_TEXTS.format(runs=_runs(con)))
    sources = sorted(restricted or ())
    con.execute(
        _SHOWN,
        [
            sources,
            [withheld(source) for source in sources],
            n_items,
            restricted is not None,
            withheld(_NOBODYS),
            # another order each time: who knows all names could count them off otherwise
            secrets.token_hex(16),
        ],
    )


def rows(con: duckdb.DuckDBPyConnection) -> list[Item]:
    """Return what is shown, in the order of rule, run, mode and key."""
    return [Item(*row) for row in con.execute(_AS_ROWS).fetchall()]


def as_json(con: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Yield what is shown, each item as one JSON object; null stands for what is infinite."""
    result = con.execute(_AS_JSON)
    while batch := result.fetchmany(_ROWS_AT_ONCE):
        yield from (text for (text,) in batch)


def _runs(con: duckdb.DuckDBPyConnection) -> str:
    """Return the runs of what is asked, as constants if they are few: then others are not read."""
    runs = [run_id for (run_id,) in con.execute("select distinct run_id from diff_asked").fetchall()]
    if not runs or len(runs) > _MAX_CONSTANTS:
        return "select run_id from diff_asked"
    return ", ".join("'" + run_id.replace("'", "''") + "'" for run_id in sorted(runs))
