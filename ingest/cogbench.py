"""CogBench archive: raw outputs of language models in seven experiments, with published scores.

Source: Coda-Forno et al., CogBench, ``Experiments/<experiment>/data/<engine>.csv`` (one file per engine)
and ``Experiments/<experiment>/scores_data.csv`` (published scores). Columns are found by name; a cell that
cannot be read leaves its row in place with a reason, because a dropped row would shrink a denominator.
"""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import duckdb
import pyarrow as pa

from ingest.contract import Imported, RawRows
from ingest.csv_files import csv_fault, csv_header
from store.errors import InvalidSource
from store.manifest import PinnedFile, Source
from store.schemas import ITEMS, OUTPUTS, PUBLISHED, RUNS, STEPS
from store.settings import project_dir

# part of every run id: raise it when the same bytes are to be read in another way
IMPORTER_VERSION = 1

_DATA_FILE = re.compile(r"Experiments/(?P<experiment>\w+)/data/(?P<engine>[^/]+)\.csv")
_SCORES_FILE = re.compile(r"Experiments/(?P<experiment>\w+)/scores_data\.csv")

# cell readers shared by all experiments; -9999 is the archive family's code for a missing number, and no
# experiment can produce a number above 1e15, which sums could not add exactly
_MACROS = """
create macro number(cell) as case
    when abs(try_cast(cell as double)) <= 1e15 and try_cast(cell as double) <> -9999
    then try_cast(cell as double)
end;
create macro flaw(name, cell) as case
    when cell is null then name || ' is empty'
    when try_cast(cell as double) is null then name || ' is not a number'
    when not isfinite(try_cast(cell as double)) then name || ' is not finite'
    when abs(try_cast(cell as double)) > 1e15 then name || ' is out of range'
    when try_cast(cell as double) = -9999 then name || ' is the missing-value code -9999'
end;
create macro trial_number(cell) as try_cast(number(cell) as integer);
create macro trial_flaw(cell) as coalesce(
    flaw('trial', cell), case when trial_number(cell) is null then 'trial is out of range' end
);
create macro probability_flaw(name, cell) as coalesce(
    flaw(name, cell),
    case when try_cast(cell as double) not between 0 and 1 then name || ' is outside [0, 1]' end
);
create macro label(cell) as case
    when number(cell) = trunc(number(cell)) then cast(cast(number(cell) as bigint) as varchar) else cell
end;
create macro choice_flaw(name, cell, legal) as case
    when cell is null then name || ' is empty'
    when not list_contains(legal, label(cell)) then name || ' is not one of ' || array_to_string(legal, ', ')
end;
create macro best_of(first, second) as case
    when first > second then ['0'] when first < second then ['1'] when first = second then ['0', '1']
end;
"""

_BANDIT_LEGAL = "['0', '1']"


@dataclass(frozen=True, slots=True)
class Experiment:
    """How one experiment's files become raw rows.

    Attributes
    ----------
    mode_id
        Table 3 row that the experiment belongs to.
    columns
        Columns a data file must have; other columns are refused.
    optional
        Columns that some files lack; they read as null.
    key
        Columns that identify a row; empty if none do.
    may_repeat
        Whether files of the archive give a key several times (several passes under one run label).
    rows
        One SELECT per raw table over the table ``source`` (all cells text, plus ``source_row``).
    """

    mode_id: str
    columns: frozenset[str]
    rows: Mapping[str, str]
    optional: frozenset[str] = frozenset()
    key: tuple[str, ...] = ()
    may_repeat: bool = False


def _steps(
    *,
    action: str,
    action_flaw: str,
    legal: str = _BANDIT_LEGAL,
    credited: str = "null",
    other_flaws: str = "null",
    environment_flaws: str = "null",
    **columns: str,
) -> str:
    """Return the SELECT for ``steps``: one decision per source row."""
    extra = {
        "stage": "0",
        "observation": "null",
        "is_forced": "false",
        "is_rewarded": "true",
        "outcome": "null",
        "confidence": "null",
        "hidden_values": "null",
    } | columns
    return f"""
        select
            label(run) as episode_id,
            row_number() over (partition by label(run) order by source_row) - 1 as step_index,
            trial_number(trial) as trial,
            {action} as response_text,
            case when {action_flaw} is null then label({action}) end as action,
            {legal} as legal_options,
            {credited} as credited_options,
            number(reward) as reward,
            {", ".join(f"{value} as {name}" for name, value in extra.items())},
            case
                when {action_flaw} is not null then 'unparsed'
                when coalesce(flaw('reward', reward), {environment_flaws}) is not null then 'error'
                else 'ok'
            end as status,
            coalesce(
                {action_flaw}, flaw('reward', reward), {environment_flaws}, {other_flaws}, trial_flaw(trial)
            ) as status_reason
        from source
    """


_ARMS = dict(
    legal=_BANDIT_LEGAL,
    credited="best_of(number(mean0), number(mean1))",
    hidden_values="[number(mean0), number(mean1)]",
)

# a two-step trial is two decisions: the spaceship (stage 0), then the alien on the planet reached (stage 1)
_TWO_STEP = """
    with decisions as (
        select
            label(run) as episode_id,
            source_row,
            stage,
            trial_number(trial) as trial,
            case when stage = 0 then trial_flaw(trial) end as trial_flaw,
            state,
            case when stage = 0 then action1 else action2 end as response_text,
            case
                when stage = 0 then ['X', 'Y']
                when state = 'X' then ['D', 'F']
                when state = 'Y' then ['J', 'K']
            end as legal_options,
            case when stage = 1 then number(reward) end as reward,
            case when stage = 1 then
                [number("probsA"), number("probsB"), number("probsC"), number("probsD")]
            end as hidden_values,
            case when stage = 1 then flaw('reward', reward) end as reward_flaw,
            case
                when response_text is null then 'action' || (stage + 1) || ' is empty'
                when legal_options is null then 'state is not one of X, Y'
                when not list_contains(legal_options, response_text)
                then 'action' || (stage + 1) || ' is not one of ' || array_to_string(legal_options, ', ')
            end as action_flaw
        from source cross join (values (0), (1)) as stages (stage)
    )
    select
        episode_id,
        row_number() over (partition by episode_id order by source_row, stage) - 1 as step_index,
        trial,
        stage,
        case when stage = 1 then state end as observation,
        response_text,
        case when action_flaw is null then response_text end as action,
        legal_options,
        null as credited_options,
        false as is_forced,
        stage = 1 as is_rewarded,
        case when stage = 0 then state end as outcome,
        reward,
        null as confidence,
        hidden_values,
        case
            when action_flaw is not null then 'unparsed' when reward_flaw is not null then 'error' else 'ok'
        end as status,
        coalesce(action_flaw, reward_flaw, trial_flaw) as status_reason
    from decisions
"""

# an urn question: the prior of the left urn, how likely the drawn colour is there, and the report;
# model files give the likelihood of red, the human file that of the drawn colour (see docs/decisions.md)
_URN = """
    with cells as (
        select
            *,
            label(run) as episode_id,
            row_number() over (partition by label(run) order by source_row) - 1 as question,
            number(prior) as prior_left,
            case
                when $is_human or red_observation = 'True' then number(lh)
                when red_observation = 'False' then 1 - number(lh)
            end as likelihood_left,
            coalesce(
                probability_flaw('prior', prior),
                probability_flaw('lh', lh),
                case
                    when red_observation is null or red_observation not in ('True', 'False')
                    then 'red_observation is not True or False'
                    when (prior_left, likelihood_left) in ((0, 1), (1, 0))
                    then 'prior and lh exclude what was drawn'
                end
            ) as question_flaw,
            probability_flaw('left_pred', left_pred) as report_flaw
        from source
    )
"""

# readouts of a questionnaire of which the archive keeps the result alone
_DISCOUNTING_READOUTS = {
    "score": "score",
    "present bias": "present_bias",
    "subaddictivity": "subadditivity",
    "delay-speedup asymmetry-1": "delay_speedup_asymmetry",
    "delay-length asymmetry-2": "delay_length_asymmetry",
}
_DISCOUNTING_CELLS = ", ".join(
    # unpivot leaves nulls out, and a readout that is missing must stay a row
    f"""coalesce("{column}", '') as {readout}"""
    for column, readout in _DISCOUNTING_READOUTS.items()
)
_DISCOUNTING = f"""
    with cells as (
        unpivot (select label(run) as run, {_DISCOUNTING_CELLS} from source)
        on {", ".join(_DISCOUNTING_READOUTS.values())}
        into name readout value cell
    )
"""

EXPERIMENTS: Mapping[str, Experiment] = {
    "BART": Experiment(
        mode_id="bart",
        columns=frozenset(
            ["run", "trial", "pumps", "reward", "max_pumps", "exploded", "balloon_trial", "balloon_idx"]
        ),
        key=("run", "trial"),
        rows={
            "steps": _steps(
                action="pumps",
                action_flaw="""coalesce(
                    flaw('pumps', pumps),
                    case
                        when number(pumps) not between 0 and coalesce(number(max_pumps), 'inf')
                        then 'pumps is outside 0..max_pumps'
                    end
                )""",
                environment_flaws="""coalesce(
                    flaw('max_pumps', max_pumps),
                    case when exploded is null or exploded not in ('True', 'False')
                    then 'exploded is not True or False' end
                )""",
                legal="null",
                observation="'balloon ' || balloon_idx",
                outcome="case exploded when 'True' then 'exploded' when 'False' then 'banked' end",
                hidden_values="[number(max_pumps)]",
            )
        },
    ),
    "HorizonTask": Experiment(
        mode_id="horizon_autonomous",
        columns=frozenset(["run", "trial", "mean0", "mean1", "reward0", "reward1", "choice", "reward"]),
        key=("run", "trial"),
        rows={
            "steps": _steps(
                action="choice",
                action_flaw=f"choice_flaw('choice', choice, {_BANDIT_LEGAL})",
                # trials 0 to 3 of a game are forced; one without a number could be either
                environment_flaws="coalesce(flaw('mean0', mean0), flaw('mean1', mean1), trial_flaw(trial))",
                is_forced="coalesce(number(trial) < 4, false)",
                **_ARMS,
            )
        },
    ),
    "InstrumentalLearning": Experiment(
        mode_id="instrumental_learning",
        columns=frozenset(["run", "trial", "task", "choice", "reward"]),
        optional=frozenset(["mean0", "mean1", "reward0", "reward1"]),
        key=("run", "trial"),
        may_repeat=True,
        rows={
            "steps": _steps(
                action="choice",
                action_flaw=f"choice_flaw('choice', choice, {_BANDIT_LEGAL})",
                observation="'casino ' || label(task)",
                **_ARMS,
            )
        },
    ),
    "ProbabilisticReasoning": Experiment(
        mode_id="bayesian_urn",
        columns=frozenset(["run", "informative_lh", "prior", "lh", "left_pred", "red_observation"]),
        rows={
            "items": f"""{_URN}
                select
                    $run_id || '/' || episode_id || '/' || question as item_id,
                    'posterior' as template_id,
                    0.0 as support_low,
                    1.0 as support_high,
                    case when question_flaw is null then
                        prior_left * likelihood_left / nullif(
                            prior_left * likelihood_left + (1 - prior_left) * (1 - likelihood_left), 0
                        )
                    end as target,
                    to_json({{
                        prior: prior_left,
                        likelihood: likelihood_left,
                        is_likelihood_informative: informative_lh = 'True'
                    }}) as facts_json
                from cells
            """,
            "outputs": f"""{_URN}
                select
                    $run_id || '/' || episode_id || '/' || question as item_id,
                    episode_id,
                    left_pred as response_text,
                    number(left_pred) as response_number,
                    case
                        when question_flaw is not null then 'error'
                        when report_flaw is not null then 'unparsed'
                        else 'ok'
                    end as status,
                    coalesce(question_flaw, report_flaw) as status_reason
                from cells
            """,
        },
    ),
    "RestlessBandit": Experiment(
        mode_id="restless_bandit",
        columns=frozenset(
            ["run", "trial", "block", "block_trial", "choice", "reward", "confidence", "accurate"]
        ),
        key=("run", "trial"),
        rows={
            "steps": _steps(
                action="choice",
                action_flaw=f"choice_flaw('choice', choice, {_BANDIT_LEGAL})",
                # the archive keeps whether the choice was right, not the arm means
                credited="""case
                    when number(accurate) = 1 then list_filter(['0', '1'], lambda arm: arm = label(choice))
                    when number(accurate) = 0 then list_filter(['0', '1'], lambda arm: arm <> label(choice))
                end""",
                environment_flaws="""coalesce(
                    flaw('accurate', accurate),
                    case when number(accurate) not in (0, 1) then 'accurate is not 0 or 1' end
                )""",
                other_flaws="probability_flaw('confidence', confidence)",
                confidence="case when number(confidence) between 0 and 1 then number(confidence) end",
            )
        },
    ),
    "TemporalDiscounting": Experiment(
        mode_id="temporal_discounting",
        columns=frozenset(["run", *_DISCOUNTING_READOUTS]),
        key=("run",),
        rows={
            "items": f"""{_DISCOUNTING}
                select distinct $run_id || '/' || readout as item_id, readout as template_id from cells
            """,
            "outputs": f"""{_DISCOUNTING}
                select
                    $run_id || '/' || readout as item_id,
                    run as episode_id,
                    nullif(cell, '') as response_text,
                    number(cell) as response_number,
                    case when flaw(readout, nullif(cell, '')) is null then 'ok' else 'unparsed' end as status,
                    flaw(readout, nullif(cell, '')) as status_reason
                from cells
            """,
        },
    ),
    "TwoStepTask": Experiment(
        mode_id="two_step",
        columns=frozenset(["run", "trial", "action1", "state", "action2", "reward"]),
        optional=frozenset(["probsA", "probsB", "probsC", "probsD"]),
        key=("run", "trial"),
        may_repeat=True,
        rows={"steps": _TWO_STEP},
    ),
}

_SCHEMAS = {"items": ITEMS, "outputs": OUTPUTS, "steps": STEPS}
_ORDER = {
    "items": "item_id",
    "outputs": "item_id, episode_id",
    "steps": "episode_id, step_index",
}


@cache
def engines() -> Mapping[str, tuple[str, str]]:
    """Return the declared engines of the archive: name to (agent kind, protocol)."""
    with (project_dir() / "manifests" / "cogbench_engines.csv").open(newline="", encoding="utf-8") as handle:
        return {row["engine"]: (row["agent_kind"], row["protocol"]) for row in csv.DictReader(handle)}


class CogBenchImporter:
    """Reads the CogBench archive, and archives of the same schema."""

    def identify(self, source: Source, file: PinnedFile) -> str | None:
        """Return the run id of a data or score file; None for any other file of the repository."""
        if data := _DATA_FILE.fullmatch(file.path):
            name = f"{data['experiment']}-{data['engine']}"
        elif scores := _SCORES_FILE.fullmatch(file.path):
            name = f"{scores['experiment']}-published"
        else:
            return None
        return f"{source.id}-{name}-{file.sha256[:12]}-v{IMPORTER_VERSION}"

    def read(self, source: Source, file: PinnedFile, path: Path) -> Imported:
        """Parse one data or score file.

        Raises
        ------
        InvalidSource
            Unknown experiment or engine, missing or unknown column, a line that is not CSV, or a repeated
            (run, trial) in an experiment that has each pair once.
        """
        run_id = self.identify(source, file)
        if run_id is None:
            raise InvalidSource(f"{source.uri(file)}: not a data or score file of the archive")
        where = source.uri(file)
        experiment_name = file.path.split("/")[1]
        if experiment_name not in EXPERIMENTS:
            raise InvalidSource(f"{where}: experiment {experiment_name} is not known to the importer")
        experiment = EXPERIMENTS[experiment_name]
        if _SCORES_FILE.fullmatch(file.path):
            return _read_scores(self._con, source, file, path, run_id, experiment.mode_id)
        return _read_data(self._con, source, file, path, run_id, experiment)

    @cached_property
    def _con(self) -> duckdb.DuckDBPyConnection:
        """One database in memory for all files: opening one takes longer than reading most of them."""
        con = duckdb.connect()
        con.execute(_MACROS)
        return con


def _read_data(
    con: duckdb.DuckDBPyConnection,
    source: Source,
    file: PinnedFile,
    path: Path,
    run_id: str,
    experiment: Experiment,
) -> Imported:
    where, engine = source.uri(file), Path(file.path).stem
    if engine not in engines():
        raise InvalidSource(
            f"{where}: engine {engine} is not declared; add its row to manifests/cogbench_engines.csv"
        )
    agent_kind, protocol = engines()[engine]
    is_human = agent_kind == "human"
    n_rows = _load(con, path, where, experiment)
    tables = {
        table: _typed(
            con, select, _SCHEMAS[table], _ORDER[table], run_id, experiment.mode_id, source.id, is_human
        )
        for table, select in experiment.rows.items()
    }
    notes = ["the file is empty"] if n_rows == 0 else []
    n_unreadable = 0
    answers = tables.get("steps", tables.get("outputs"))
    if answers is not None:
        flaws = con.execute(
            "select status_reason, count(*) from answers "
            "where status_reason is not null group by all order by 1"
        ).fetchall()
        notes += [f"{count} rows: {reason}" for reason, count in flaws]
        n_unreadable = sum(count for _, count in flaws)
    notes += _repeats(con, experiment, where)
    runs = _run_record(
        run_id,
        source,
        file,
        kind="human" if is_human else "archived",
        model_id=engine,
        agent_kind=agent_kind,
        protocol=protocol,
        mode_id=experiment.mode_id,
        n_source_rows=n_rows,
        n_unreadable_rows=n_unreadable,
        notes=notes,
    )
    rows = [RawRows(table, table_rows) for table, table_rows in tables.items() if table_rows.num_rows]
    return Imported(run_id, (*rows, RawRows("runs", runs)), n_rows, n_unreadable, tuple(notes))


def _load(con: duckdb.DuckDBPyConnection, path: Path, where: str, experiment: Experiment) -> int:
    """Read the file's cells as text into ``source``; return its number of data rows."""
    columns = csv_header(path, where)
    if columns:
        missing = experiment.columns - set(columns)
        unknown = set(columns) - experiment.columns - experiment.optional
        if missing or unknown:
            raise InvalidSource(
                f"{where}: "
                + "; ".join(
                    f"{what} {', '.join(sorted(names))}"
                    for what, names in (("missing column", missing), ("unknown column", unknown))
                    if names
                )
            )
        try:
            con.execute(
                """
                create or replace table source as
                select row_number() over () as source_row, *
                from read_csv(
                    $path, columns = $columns, header = true, auto_detect = false,
                    delim = ',', quote = '"', escape = '"', strict_mode = true
                )
                """,
                {"path": str(path), "columns": dict.fromkeys(columns, "VARCHAR")},
            )
        except duckdb.Error as error:
            raise InvalidSource(f"{where}: not readable as CSV ({csv_fault(error)})") from error
    else:
        con.execute("create or replace table source (source_row bigint)")
    for name in sorted((experiment.columns | experiment.optional) - set(columns)):
        con.execute(f'alter table source add column "{name}" varchar')
    return int(con.execute("select count(*) from source").fetchall()[0][0])


def _typed(
    con: duckdb.DuckDBPyConnection,
    select: str,
    schema: pa.Schema,
    order: str,
    run_id: str,
    mode_id: str,
    source_id: str,
    is_human: bool,
) -> pa.Table:
    """Run one SELECT over ``source`` and return its rows in the raw table's schema."""
    parameters = {"run_id": run_id, "is_human": is_human}
    con.execute(
        f"create or replace table answers as {select}",
        {name: value for name, value in parameters.items() if f"${name}" in select},
    )
    constants = {"run_id": run_id, "mode_id": mode_id, "source_id": source_id, "weight": 1.0}
    rows = con.sql(f"select * from answers order by {order}").to_arrow_table()

    def column(field: pa.Field) -> pa.ChunkedArray | pa.Array:
        if field.name not in rows.column_names:
            return pa.repeat(pa.scalar(constants.get(field.name), field.type), rows.num_rows)
        found = rows[field.name]
        # a column of nulls alone has no type of its own, and which one DuckDB gives it depends on its version
        return pa.nulls(len(found), field.type) if found.null_count == len(found) else found.cast(field.type)

    return pa.table([column(field) for field in schema], schema=schema)


def _repeats(con: duckdb.DuckDBPyConnection, experiment: Experiment, where: str) -> list[str]:
    """Return a note on repeated keys, or refuse them where the experiment has each once."""
    columns = ", ".join(experiment.key)
    if not columns:
        return []
    # as labels, since 1 and 1.0 name one run
    labels = ", ".join(f"label({name})" for name in experiment.key)
    repeated = con.execute(
        f"select {labels}, count(*) from source group by {labels} "
        "having count(*) > 1 order by min(source_row)"
    ).fetchall()
    if not repeated:
        return []
    n_extra = sum(count - 1 for *_, count in repeated)
    if experiment.may_repeat:
        return [f"{n_extra} rows repeat an earlier ({columns}); kept as further rows of the run"]
    first = ", ".join(f"{name} {value}" for name, value in zip(experiment.key, repeated[0], strict=False))
    raise InvalidSource(f"{where}: {n_extra} rows repeat an earlier ({columns}), the first is {first}")


def _read_scores(
    con: duckdb.DuckDBPyConnection, source: Source, file: PinnedFile, path: Path, run_id: str, mode_id: str
) -> Imported:
    """Turn ``scores_data.csv`` (one pair of columns per score) into one row per engine, run and score."""
    where = source.uri(file)
    columns = csv_header(path, where)
    scores = [name for name in columns if f"{name}_name" in columns]
    if missing := {"engine", "run"} - set(columns):
        raise InvalidSource(f"{where}: missing column {', '.join(sorted(missing))}")
    if not scores:
        raise InvalidSource(f"{where}: no score column with a matching _name column")
    cells = Experiment(mode_id=mode_id, columns=frozenset(columns), rows={})
    n_rows = _load(con, path, where, cells)
    if n_unnamed := con.execute("select count(*) from source where engine is null").fetchall()[0][0]:
        raise InvalidSource(f"{where}: {n_unnamed} rows name no engine")
    long = " union all ".join(
        f"""
        select
            engine as model_id, label(run) as episode_id, "{name}_name" as label, number("{name}") as value,
            case when "{name}" is not null then flaw('{name}', "{name}") end as score_flaw, source_row
        from source where "{name}_name" is not null
        """
        for name in scores
    )
    con.execute(f"create or replace table published as {long}")
    published = con.sql(
        """
        select $source_id as source_id, $uri as source_uri, $mode_id as mode_id,
            model_id, episode_id, label, value
        from published order by label, model_id, episode_id, source_row
        """,
        params={"source_id": source.id, "uri": where, "mode_id": mode_id},
    ).to_arrow_table()
    flaws = con.execute(
        "select score_flaw, count(*) from published where score_flaw is not null group by all order by 1"
    ).fetchall()
    notes = [f"{count} scores: {reason}" for reason, count in flaws]
    n_unreadable = sum(count for _, count in flaws)
    runs = _run_record(
        run_id,
        source,
        file,
        kind="published",
        model_id="published",
        agent_kind="none",
        protocol=None,
        mode_id=mode_id,
        n_source_rows=n_rows,
        n_unreadable_rows=n_unreadable,
        notes=notes,
    )
    rows = (RawRows("published", published.cast(PUBLISHED)), RawRows("runs", runs))
    return Imported(run_id, rows, n_rows, n_unreadable, tuple(notes))


def _run_record(run_id: str, source: Source, file: PinnedFile, *, mode_id: str, **values: object) -> pa.Table:
    """Return the one-row ``runs`` table that commits a file's rows."""
    record = {
        "run_id": run_id,
        "planned_modes": [mode_id],
        "source_id": source.id,
        "source_uri": source.uri(file),
        "source_sha256": file.sha256,
        "importer_version": IMPORTER_VERSION,
    } | values
    return pa.Table.from_pylist([record], schema=RUNS)
