"""``coglake demo``: the whole way from nothing to Table 3 and the Learning report, without a download.

With a model it also asks that one, on the public questions as far as they can be had.
"""

import os

import duckdb

from generate.demo_archive import write
from generate.learning import agent_runs
from generate.learning.families import load_families
from generate.pipeline import generate, is_ready, plan, published_modes
from generate.schedule import load_agents, load_schedules
from generate.weights import resolve
from ingest.pipeline import ingest
from store import command_generate_model, console
from store.build import audit, build
from store.command_build import complain, counts, totals
from store.database import connect
from store.errors import SourceUnavailable
from store.export import export_table3, write_export
from store.export_learning import export_learning
from store.formats import Format, Sheet, records, to_json
from store.freshness import require_fresh
from store.learning_tasks import CATEGORIES
from store.manifest import load_sources
from store.settings import Home, home, project_dir

_SOURCE = "demo_archive"
_MAX_MODELS_SHOWN = 3

# sources whose questions a model is asked, from public files of a few megabytes
_QUESTIONS = ("rlwm", "self_regulation", "mouselab", "tomi", "polite_speaker", "pragmatics", "hyperbole")
_N_QUESTIONS, _N_EPISODES = 10, 1


def run(model: str | None, *, as_json: bool) -> None:
    """Ingest an archive made here, let all agents play, build, and show and export Table 3."""
    lake, project = home(), project_dir()
    _ingest(lake)
    if model is not None:
        _ingest_questions(lake)
    _generate(lake)
    if model is not None:
        _ask(model)

    console.say("3/4 build: scoring the raw rows with dbt on DuckDB")
    built = build(lake, project, quiet=False)
    console.say(counts(built))
    complain(built)
    console.say(totals(audit(lake)))

    con = connect(lake)
    try:
        source_build = require_fresh(con, lake, project)
        sheet, learning = export_table3(con), export_learning(con, CATEGORIES)
        stand_ins, ends = _stand_ins(con), _ends(con)
        shown = _shown(con, None if model is None else resolve(model).model_id)
    finally:
        con.close()
    path = lake.exports / "table3.csv"
    write_export(path, sheet, Format.CSV, source_build)
    write_export(lake.exports / "learning.csv", learning, Format.CSV, source_build)
    console.say(f"4/4 export: Table 3 is in {path}, the Learning report beside it in learning.csv")
    if as_json:
        console.write(
            to_json(
                {
                    "file": str(path),
                    "rows": records(shown),
                    "stand_ins": stand_ins,
                    "learning": records(ends),
                }
            )
        )
    else:
        console.show(shown)
        for stand_in in stand_ins:
            console.write(f"{stand_in}\n")
        console.show(ends)


def _ends(con: duckdb.DuckDBPyConnection) -> Sheet:
    """Return where the scale of each category of Learning begins and ends, as its agents found it."""
    agents = [name for name in agent_runs.load_agents() if name != "silent"]
    cells = con.execute(
        """
        select
            category,
            max(n_planned),
            max(format('{:.3f}', ceiling)),
            list(
                coalesce(
                    format('{:.3f}', score) || coalesce(' ± ' || format('{:.3f}', se), ''), 'n.e.'
                )
                order by list_position($agents, model_id)
            )
        from learning_report
        where model_id in (select unnest($agents))
        group by category
        order by list_position($categories, category)
        """,
        {"agents": agents, "categories": list(CATEGORIES)},
    ).fetchall()
    headers = ("Learning", "tasks", "ceiling", *agents)
    rows = tuple((category, n_tasks, ceiling, *printed) for category, n_tasks, ceiling, printed in cells)
    return Sheet(headers, rows, printed=frozenset(range(2, len(headers))))


def _stand_ins(con: duckdb.DuckDBPyConnection) -> list[str]:
    """Return one sentence for each reference that plays and may not fill its cell."""
    played = con.execute(
        """
        select
            modes.label || ': ' || audit.agent_id || ' scores '
            || format('{:.' || modes.decimals || 'f}', audit.value)
            || coalesce(format(' ± {:.' || modes.decimals + 1 || 'f}', audit.se), '')
            || ', a stand-in for the reference, which fills no cell'
        from audit_references as audit
        inner join s1cogbench_modes as modes on audit.mode_id = modes.mode_id
        where audit.value is not null and not audit.fills_cell
        order by modes.display_order, audit.agent_id
        """
    )
    return [sentence for (sentence,) in played.fetchall()]


def _ingest(lake: Home) -> None:
    folder = lake.root / "demo_mirror"
    files = write(folder)
    with console.progress("ingest") as step:
        (report,) = ingest(
            lake,
            [load_sources()[_SOURCE]],
            mirror=str(folder),
            on_progress=lambda _, done, total, path: step(done, total, path),
        )
    for failure in report.failures:
        raise failure
    console.say(
        f"1/4 ingest: an archive of {len(files)} files in CogBench's schema, made in {folder}: "
        f"{report.n_new_files} new, {report.n_present_files} present"
    )


def _ingest_questions(lake: Home) -> None:
    """Ingest public questions; those that cannot be had are said and left out."""
    known = load_sources()
    with console.progress("ingest") as step:
        for source in _QUESTIONS:
            (report,) = ingest(
                lake,
                [known[source]],
                mirror=os.environ.get("COGLAKE_MIRROR"),
                on_progress=lambda _, done, total, path: step(done, total, path),
            )
            for failure in report.failures:
                if not isinstance(failure, SourceUnavailable):
                    raise failure
                console.say(f"{source}: left out: {failure}")


def _ask(model: str) -> None:
    """Let a model answer some questions of each mode and play an episode of each environment."""
    for is_played, limit in ((False, _N_QUESTIONS), (True, _N_EPISODES)):
        wanted = command_generate_model.Wanted(
            engine={"engine": "hf", "model": model, "dtype": "float32"},
            name=None,
            modes=published_modes(is_played=is_played),
            limit=limit,
            shard="1/1",
            # in a chat small models talk about a question; a plain text they go on with an answer
            format="plain",
            choice="argmax",
            max_response_tokens=32,
            seed=0,
            repeat=0,
        )
        asked = command_generate_model.ask(wanted)
        n_new = sum(report.n_new for report in asked.reports)
        what = f"{limit} episode of each environment" if is_played else f"{limit} questions of each mode"
        console.say(f"{model}: {what}: {len(asked.reports)} runs with {n_new:,} new answers or decisions")
        command_generate_model.complain(asked)


def _generate(lake: Home) -> None:
    agents = [agent for agent in load_agents().values() if is_ready(agent)]
    tasks = plan(lake, agents, load_schedules())
    with console.progress("generate") as step:
        reports = generate(lake, tasks, step)
    n_rows = sum(report.n_rows for report in reports)
    n_new = sum(report.is_new for report in reports)
    n_agents = len({task.agent.id for task in tasks})
    console.say(
        f"2/4 generate: {n_agents} agents, {len(reports)} runs: {n_new} new with {n_rows:,} decisions and "
        f"answers, {len(reports) - n_new} present"
    )
    _generate_learning(lake)


def _generate_learning(lake: Home) -> None:
    families = load_families()
    tasks = agent_runs.plan(lake, list(agent_runs.load_agents().values()), families)
    with console.progress("generate") as step:
        reports = agent_runs.generate(lake, tasks, step)
    n_rows = sum(report.n_rows for report in reports)
    n_new = sum(report.is_new for report in reports)
    console.say(
        f"learning: {len(families)} families of tasks, {len(reports)} runs of agents: {n_new} new with "
        f"{n_rows:,} replies, {len(reports) - n_new} present"
    )


def _shown(con: duckdb.DuckDBPyConnection, model_id: str | None) -> Sheet:
    """Return Table 3 as far as a terminal is wide; a cell that was played has its standard error.

    Parameters
    ----------
    model_id
        The model to show, its partial cells with the mean of what was scored; None for the archive's.
    """
    models = [
        column_id
        for (column_id,) in con.execute(
            """
            select distinct column_id from table_3
            where column_kind = 'model' and ($model_id is null or model_id = $model_id)
            order by column_id limit $most
            """,
            {"model_id": model_id, "most": _MAX_MODELS_SHOWN},
        ).fetchall()
    ]
    headers = ("Task mode", "Uniform", "Reference", *models)
    cells = con.execute(
        """
        select
            modes.label,
            list(
                cells.printed || case
                    when cells.value is not null
                        then coalesce(' ± ' || format('{:.' || modes.decimals + 1 || 'f}', cells.se), '')
                    when cells.value_scored is not null then ' ' || cells.printed_partial
                    else ''
                end
                order by shown.place
            )
        from s1cogbench_modes as modes
        cross join unnest(range(1, len($columns) + 1)) as shown (place)
        left join table_3 as cells
            on modes.mode_id = cells.mode_id and cells.column_id = $columns[shown.place]
        where modes.variant_of is null
        group by modes.label, modes.display_order
        order by modes.display_order
        """,
        {"columns": ["uniform", "reference", *models]},
    ).fetchall()
    rows = tuple((label, *printed) for label, printed in cells)
    return Sheet(headers, rows, printed=frozenset(range(1, len(headers))))
