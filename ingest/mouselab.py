"""Mouselab planning: every decision of every participant who clicked on a tree to see what its nodes hold.

Source: Callaway et al. (2022), Rational use of cognitive resources in human planning,
``data/<experiment>/trials.json``: participant to trials, a trial with the clicks ``[node, value]`` in order.
A trial of n clicks is n + 1 decisions, the last of which is to stop. Where no node is left, stopping is the
only option and still a decision: its logarithm is 0, and it counts.

A prompt has what the participant saw: the values revealed in the trial so far, and of every trial before it
the values in the order of the clicks, the route taken and the score.
"""

import re
from functools import cached_property
from pathlib import Path

import duckdb

from ingest.contract import Imported
from ingest.questions import imported
from store.errors import InvalidSource
from store.manifest import PinnedFile, Source
from store.prompts import Template, load_template

# part of every run id: raise it when the same bytes are to be read in another way
IMPORTER_VERSION = 2

MODE_ID = "mouselab_prediction"
STOP = "STOP"

# Fold of each trial of a participant, from 1, in the authors' cross-validation: their ``model_comparison.jl``
# deals a permutation of the 25 trials, the same for everybody, into five hands. The folds themselves are not
# published; these are ``randperm(MersenneTwister(123), 25)`` of Julia 1.0 to 1.10, with the seed that their
# ``conf.jl`` states.
FOLDS = (5, 4, 4, 2, 1, 2, 5, 1, 5, 3, 2, 2, 3, 1, 3, 2, 4, 5, 3, 1, 3, 5, 4, 4, 1)

_TRIALS_FILE = re.compile(r"data/(?P<experiment>\w+)/trials\.json")

_KEYS = ("graph", "mdp", "reveals", "route", "score")

_PARTICIPANTS = """
create or replace table participants as
select key as participant_id, value as trials, row_number() over () as position from json_each($content)
"""

_TRIALS = """
create or replace table trials as
select
    participant_id,
    position,
    cast(numbered.key as integer) as trial,
    numbered.value as record,
    numbered.value ->> 'graph' as graph,
    from_json(case when json_type(numbered.value, 'reveals') = 'ARRAY' then numbered.value -> 'reveals' end,
        '["JSON"]') as clicks,
    from_json(case when json_type(numbered.value, 'route') = 'ARRAY' then numbered.value -> 'route' end,
        '["JSON"]') as route,
    numbered.value -> 'score' as score
from participants, json_each(case when json_type(trials) = 'ARRAY' then trials else '[null]' end) as numbered
"""

# the first that does not hold refuses the file: (what is expected, condition of a trial that breaks it)
_EXPECTED = (
    ("a list of trials per participant", "json_type(record) <> 'OBJECT'"),
    (
        "participants named with letters, digits and . _ -",
        "not regexp_full_match(participant_id, '[A-Za-z0-9._-]+')",
    ),
    (f"trials with the keys {', '.join(_KEYS)}", f"list_sort(json_keys(record)) <> {list(_KEYS)}"),
    (
        "trees of up to four levels, one digit per level",
        "graph is null or not regexp_full_match(graph, '[1-9]{1,4}')",
    ),
    (
        "clicks as pairs of node and value, both whole numbers",
        """clicks is null or list_bool_or(list_transform(clicks, lambda click: coalesce(
            json_array_length(click) <> 2
            or json_type(click, '$[0]') not in ('UBIGINT', 'BIGINT')
            or json_type(click, '$[1]') not in ('UBIGINT', 'BIGINT')
            or try_cast(click ->> 0 as integer) is null
            or try_cast(click ->> 1 as integer) is null,
            true
        )))""",
    ),
    (
        "a route of nodes",
        """route is null or list_bool_or(list_transform(route, lambda node:
            coalesce(json_type(node) not in ('UBIGINT', 'BIGINT') or try_cast(node as integer) is null, true)
        ))""",
    ),
    (
        "a score in whole points",
        "coalesce(json_type(score) not in ('UBIGINT', 'BIGINT') or try_cast(score as integer) is null, true)",
    ),
    (
        "each participant once",
        """participant_id in (
            select twice.participant_id from trials as twice
            group by twice.participant_id having count(distinct twice.position) > 1
        )""",
    ),
)

# nodes are numbered from the root, which is 0, down each branch before the next
_TREES = """
create or replace table trees as
with recursive

graphs as (

    select distinct
        graph,
        list_transform(string_split(graph, ''), lambda digit: cast(digit as integer)) as branching
    from trials

),

paths as (

    select
        graph,
        branching,
        cast([] as integer[]) as path
    from graphs
    union all
    select
        paths.graph,
        paths.branching,
        list_append(paths.path, child.branch) as path
    from paths, unnest(range(1, paths.branching[len(paths.path) + 1] + 1)) as child (branch)
    where len(paths.path) < len(paths.branching)

),

numbered as (

    select
        *,
        row_number() over (partition by graph order by path) - 1 as node
    from paths

)

select
    nodes.graph,
    any_value(nodes.branching) as branching,
    list({node: nodes.node, parent: parents.node} order by nodes.node) as nodes
from numbered as nodes
inner join numbered as parents on nodes.graph = parents.graph and parents.path = nodes.path[:-2]
where len(nodes.path) > 0
group by nodes.graph
"""

# a list of trials without any becomes no item, and leaves no row
_WITHOUT_TRIALS = """
select 'the list of trials of ' || participant_id || ' is empty' from participants
where json_array_length(trials) = 0 order by position
"""

_JOURNEYS = """
create or replace table journeys as
select
    participant_id,
    trial,
    array_to_string(cast(route as varchar[]), '-') as path,
    score ->> '$' as score
from trials
"""

_DECISIONS = """
create or replace table decisions as
with

typed as (

    select
        participant_id,
        trial,
        graph,
        list_transform(clicks, lambda click: cast(click ->> 0 as integer)) as nodes,
        list_transform(clicks, lambda click: click -> 1) as node_values
    from trials

),

decisions as (

    select
        typed.* exclude (nodes, node_values),
        step.decision,
        typed.nodes[step.decision + 1] as node,
        typed.node_values[step.decision + 1] ->> '$' as value,
        typed.nodes[:step.decision] as known_nodes,
        typed.node_values[:step.decision] as known_values
    from typed, unnest(range(len(typed.nodes) + 1)) as step (decision)

)

select
    decisions.*,
    trees.branching,
    list_transform(
        list_filter(
            trees.nodes,
            lambda one: not list_contains(decisions.known_nodes, one.node)
            and (one.parent = 0 or list_contains(decisions.known_nodes, one.parent))
        ),
        lambda one: one.node
    ) as open_nodes
from decisions
inner join trees on decisions.graph = trees.graph
"""


def _rows(template: Template) -> str:
    """Return the SELECT of all decisions, as items and as responses."""
    return f"""
        with

        looked as (

            select
                *,
                trial + 1 as number,
                {template.sql("look")} as look
            from decisions

        ),

        seen as (

            select
                *,
                coalesce(
                    string_agg(look, ', ') over (
                        partition by participant_id, trial
                        order by decision rows between unbounded preceding and 1 preceding
                    ),
                    {template.sql("no_look")}
                ) as looks
            from looked

        ),

        ended as (

            -- before the decision to stop, all looks of the trial are seen
            select
                participant_id,
                trial,
                {template.sql("round")} as line
            from seen
            inner join journeys using (participant_id, trial)
            where node is null

        ),

        remembered as (

            select
                participant_id,
                trial,
                coalesce(
                    string_agg(line, '') over (
                        partition by participant_id
                        order by trial rows between unbounded preceding and 1 preceding
                    ),
                    {template.sql("no_round")}
                ) as history
            from ended

        ),

        edges as (

            select graph, unnest(nodes, recursive := true)
            from trees

        ),

        drawn as (

            select graph, string_agg({template.sql("node")}, ', ' order by node) as tree
            from edges
            group by graph

        ),

        asked as (

            select
                *,
                list_prepend($stop, cast(open_nodes as varchar[])) as legal_options,
                array_to_string(legal_options, ', ') as options
            from seen
            inner join remembered using (participant_id, trial)
            inner join drawn using (graph)

        )

        select
            $run_id || '/' || participant_id || '/' || trial || '/' || decision as item_id,
            $mode_id as mode_id,
            $source_id as source_id,
            participant_id,
            {template.sql()} as prompt,
            $template_id as template_id,
            $template_sha256 as template_sha256,
            legal_options,
            to_json({{
                trial: trial,
                branching: branching,
                known: map_from_entries(list_transform(
                    list_zip(known_nodes, known_values), lambda pair: {{key: pair[1], value: pair[2]}}
                ))
            }}) as facts_json,
            coalesce(cast(node as varchar), $stop) as response,
            cast($folds[1 + trial % len($folds)] as integer) as fold,
            1.0 as weight
        from asked
        order by participant_id, trial, decision
    """


class MouselabImporter:
    """Reads the trials of an experiment with Mouselab trees."""

    def identify(self, source: Source, file: PinnedFile) -> str | None:
        """Return the run id of a file of trials; None for any other file of the repository."""
        trials = _TRIALS_FILE.fullmatch(file.path)
        if trials is None:
            return None
        return f"{source.id}-{trials['experiment']}-{file.sha256[:12]}-v{IMPORTER_VERSION}"

    def read(self, source: Source, file: PinnedFile, path: Path) -> Imported:
        """Turn each decision into an item, with what was known before it, and the human response to it.

        Raises
        ------
        InvalidSource
            If the file is not JSON of the source's schema, has a click on a node that was not open, or a
            route that no participant can take.
        """
        run_id, where = self.identify(source, file), source.uri(file)
        trials = _TRIALS_FILE.fullmatch(file.path)
        if run_id is None or trials is None:
            raise InvalidSource(f"{where}: not a file of trials")
        template = load_template("mouselab_prediction")
        n_trials = _load(self._con, path, where)
        names = {
            "run_id": run_id,
            "mode_id": MODE_ID,
            "source_id": source.id,
            "stop": STOP,
            "folds": FOLDS,
            "template_id": template.id,
            "template_sha256": template.sha256,
        }
        decisions = self._con.sql(_rows(template), params=names).to_arrow_table()
        return imported(
            source,
            file,
            run_id=run_id,
            importer_version=IMPORTER_VERSION,
            dataset=trials["experiment"],
            modes=[MODE_ID],
            tables={"items": decisions, "human_responses": decisions},
            n_source_rows=n_trials,
            flaws=[(what, 0) for (what,) in self._con.execute(_WITHOUT_TRIALS).fetchall()],
        )

    @cached_property
    def _con(self) -> duckdb.DuckDBPyConnection:
        return duckdb.connect()


def _load(con: duckdb.DuckDBPyConnection, path: Path, where: str) -> int:
    """Read the file into ``decisions``; return its number of trials."""
    try:
        content = path.read_text(encoding="utf-8-sig")
        [(kind,)] = con.execute("select json_type(cast($content as json))", {"content": content}).fetchall()
    except UnicodeDecodeError as error:
        raise InvalidSource(f"{where}: not UTF-8 text at byte {error.start}") from error
    except duckdb.ConversionException as error:
        fault = str(error).removeprefix("Conversion Error: ").partition(".  Input")[0]
        raise InvalidSource(f"{where}: not readable as JSON ({fault})") from error
    if kind != "OBJECT":
        raise InvalidSource(f"{where}: expected one object, participant to trials, found {kind.lower()}")
    con.execute(_PARTICIPANTS, {"content": content})
    con.execute(_TRIALS)
    trial = "'participant ' || participant_id || ', trial ' || trial"
    for expected, is_broken in _EXPECTED:
        _refuse(con, where, expected, f"select {trial} from trials where {is_broken} order by all")
    con.execute(_JOURNEYS)
    con.execute(_TREES)
    _refuse(
        con,
        where,
        "routes from the root to a leaf",
        f"""
        select {trial} from trials inner join trees using (graph)
        where len(route) <> len(branching) + 1 or not list_bool_and(list_transform(
            range(2, len(route) + 1),
            lambda step: list_contains(nodes, {{
                node: cast(route[step] as bigint), parent: cast(route[step - 1] as bigint)
            }})
        ))
        order by all
        """,
    )
    con.execute(_DECISIONS)
    # an item has no status that could say so, and what was known afterwards would be wrong as well
    _refuse(
        con,
        where,
        "clicks on open nodes alone",
        f"""
        select {trial} || ', node ' || node from decisions
        where node is not null and not list_contains(open_nodes, node)
        order by participant_id, trial, decision
        """,
    )
    return int(con.execute("select count(*) from trials").fetchall()[0][0])


def _refuse(con: duckdb.DuckDBPyConnection, where: str, expected: str, offenders: str) -> None:
    """Refuse the file if ``offenders``, a SELECT of names, finds any."""
    if found := con.execute(offenders).fetchall():
        raise InvalidSource(f"{where}: expected {expected}, found {len(found)} others, first {found[0][0]}")
