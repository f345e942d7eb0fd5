"""What differs between two builds, two versions of a rule or two runs: cells, then items with both verdicts.

Cells come from the history of builds, verdicts from the versions of the rules. Verdicts are first compared by
a hash of their keys, which leaves those that differ; only then is the text of these read.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from store.diff_names import Kind, Named

_COLUMN = {Kind.BUILD: "invocation_id", Kind.VERSION: "rule_sha", Kind.RUN: "run_id"}
_CELL_KEYS = ("run_id", "mode_id", "metric")
_VERDICT_KEYS = ("rule", "run_id", "mode_id", "episode_id", "item_id", "step_index", "readout")
_VERDICT = ("value", "weight", "status", "status_reason")

# history holds builds that made every table, even if a test of these failed, and the one that runs now
_IS_KEPT = "status <> 'running' and invocation_id in (select invocation_id from audit_score_history)"
# of several builds with one version, the newest; clocks go backwards, rows of the log do not
_SIDE_OF_CELLS = """
    select history.*
    from audit_score_history as history
    inner join build_log as log using (invocation_id)
    where log.status <> 'running' and {condition}
    qualify row_number() over (partition by run_id, mode_id, metric order by log.rowid desc) = 1
"""
_OLDER_BUILDS = """
    select strftime(built_at at time zone 'UTC', '%Y-%m-%d %H:%M:%S UTC')
    from audit_score_history
    where invocation_id in (select unnest($1::varchar[])) and benchmark is null
    limit 1
"""
_OF_LAST_BUILD = f"log.rowid = (select max(rowid) from build_log where {_IS_KEPT})"
_KEPT_VALUES = """
    select 1
    from audit_score_history as history
    inner join build_log as log using (invocation_id)
    where history.rule_sha = $1 and log.status <> 'running'
    limit 1
"""
# what the tables hold may be of these; no history tells
_NEWER_BUILD = f"""
    select
        strftime(started_at at time zone 'UTC', '%Y-%m-%d %H:%M:%S UTC'),
        case status when 'success' then 'was of a part' when 'failed' then 'failed' else 'did not end' end
    from build_log
    where rowid > (
        select max(rowid) from build_log
        where {_IS_KEPT} and ($1 or invocation_id in (select unnest($2::varchar[])))
    )
    qualify not bool_or({_IS_KEPT}) over ()
    order by rowid desc
    limit 1
"""
_OF_OLDER_BUILDS = "coalesce(history.benchmark, 's1cogbench') = 's1cogbench'"
# builds of an older version do not say all that went in: what they lack is not compared
_CELLS = """
    create or replace temp table diff_cells as
    with before as ({before}), after as ({after}),
    paired as (
        select
            {run_id} as run_id,
            coalesce(after.mode_id, before.mode_id) as mode_id,
            coalesce(after.metric, before.metric) as metric,
            coalesce(after.benchmark, before.benchmark, 's1cogbench') as benchmark,
            before,
            after,
            before.run_id is not null as is_before,
            after.run_id is not null as is_after,
            coalesce(
                before.raw_parts_sha256 <> after.raw_parts_sha256, before.raw_sha256 <> after.raw_sha256
            ) as is_of_other_rows
        from before
        full join after on {joined}
    )
    select
        *,
        not (is_before and is_after)
        or before.value is distinct from after.value
        or before.value_scored is distinct from after.value_scored
        or before.n_planned <> after.n_planned
        or before.n_scored <> after.n_scored
        or coalesce(before.n_unparsed <> after.n_unparsed, false)
        or coalesce(before.n_error <> after.n_error, false)
        or coalesce(before.n_too_long <> after.n_too_long, false)
        or coalesce(before.n_missing_option <> after.n_missing_option, false) as has_moved,
        case
            when not is_after then 'only before'
            when not is_before then 'only after'
            else nullif(concat_ws(
                ', ',
                case when before.rule_sha <> after.rule_sha then 'rule' end,
                case
                    when
                        before.scorer_sha <> after.scorer_sha
                        and before.rule_sha is not distinct from after.rule_sha
                        then 'metric'
                end,
                case when is_of_other_rows then 'raw rows' end,
                case when before.manifest_sha256 <> after.manifest_sha256 then 'manifest' end
            ), '')
        end as because
    from paired
"""
# a run that is on one side alone is named once, and not cell by cell
_MOVED = """
    select
        benchmark,
        run_id,
        mode_id,
        metric,
        before.value as before,
        after.value as after,
        before.value_scored as before_scored,
        after.value_scored as after_scored,
        before.n_scored || ' of ' || before.n_planned as n_before,
        after.n_scored || ' of ' || after.n_planned as n_after,
        coalesce(
            because, case when before.project_sha256 <> after.project_sha256 then 'project' end
        ) as because
    from diff_cells
    where
        has_moved
        and (run_id is null or run_id in (
            select run_id from diff_cells group by run_id having bool_or(is_before) and bool_or(is_after)
        ))
    order by mode_id, run_id, metric
"""
_RUNS_OF_ONE_SIDE = """
    select run_id, bool_or(is_after)
    from diff_cells
    where run_id is not null
    group by run_id
    having not (bool_or(is_before) and bool_or(is_after))
    order by run_id
"""
_CHANGED_RULES = """
    select distinct after.rule, before.rule_sha, after.rule_sha
    from diff_cells
    where before.rule_sha <> after.rule_sha
    order by all
"""

# where each key has one row on either side, one join finds what differs
_BY_KEY = """
    create or replace temp table diff_keys as
    with before as (
        select hash({keys}) as key, hash({verdict}) as verdict from score_versions where {before}
    ),
    after as (
        select hash({keys}) as key, hash({verdict}) as verdict from score_versions where {after}
    )
    select
        count(*) filter (where before.key is not null and after.key is not null) as n_pairs,
        count(*) filter (where after.key is null) as n_only_before,
        count(*) filter (where before.key is null) as n_only_after,
        list(before.key) filter (where before.verdict <> after.verdict) as differing
    from before
    full join after on before.key = after.key
"""
# what is asked several times has several verdicts, which are compared as a set: this takes thrice as long
_BY_SET = """
    create or replace temp table diff_keys as
    with verdicts as (
        select false as is_after, hash({keys}) as key, hash({verdict}) as verdict
        from score_versions where {before}
        union all
        select true as is_after, hash({keys}) as key, hash({verdict}) as verdict
        from score_versions where {after}
    ),
    sets as (
        select
            key,
            count(*) filter (where not is_after) as n_before,
            count(*) filter (where is_after) as n_after,
            sum(case when is_after then 1 else -1 end * cast(verdict >> 1 as bigint)) as balance
        from verdicts
        group by key
    )
    select
        coalesce(sum(least(n_before, n_after)), 0)::bigint as n_pairs,
        coalesce(sum(n_before) filter (where n_after = 0), 0)::bigint as n_only_before,
        coalesce(sum(n_after) filter (where n_before = 0), 0)::bigint as n_only_after,
        list(key) filter (
            where n_before > 0 and n_after > 0 and (n_before <> n_after or balance <> 0)
        ) as differing
    from sets
"""
_CHANGED = """
    create or replace temp table diff_items as
    with differing as (select unnest(differing) as key from diff_keys),
    before as (
        select *, row_number() over (partition by {keys} order by {verdict}) as occurrence
        from score_versions
        where {before} and hash({keys}) in (select key from differing)
    ),
    after as (
        select *, row_number() over (partition by {keys} order by {verdict}) as occurrence
        from score_versions
        where {after} and hash({keys}) in (select key from differing)
    ),
    paired as (
        select before, after
        from before
        full join after on {joined} and before.occurrence = after.occurrence
        where {is_changed} or before.rule is null or after.rule is null
    )
    select
        *,
        row_number() over (order by {order}, coalesce(after.occurrence, before.occurrence)) as number
    from paired
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """One value that moved.

    Attributes
    ----------
    run_id
        None where two runs are compared.
    before, after
        Values under the strict policy, in the metric's unit; None where a planned row has no score.
    before_scored, after_scored
        Values over the rows that have a score.
    n_before, n_after
        Rows scored and planned, such as ``99 of 100``.
    because
        What is not the same on both sides, of rule, metric, raw rows, manifest and project; ``only before``
        and ``only after`` of a value that the other side lacks; None where nothing tells.
    """

    benchmark: str
    run_id: str | None
    mode_id: str
    metric: str
    before: float | None
    after: float | None
    before_scored: float | None
    after_scored: float | None
    n_before: str | None
    n_after: str | None
    because: str | None


@dataclass(frozen=True, slots=True)
class Difference:
    """Everything that differs but the items themselves, which may be millions.

    Attributes
    ----------
    n_cells
        Values that are on both sides, moved or not.
    cells
        Values that moved or that one side lacks, of runs that are on both.
    runs_gone, runs_added
        Runs with values on one side alone.
    n_verdicts
        Verdicts on both sides that were compared.
    n_changed
        Those that are not the same.
    n_only_before, n_only_after
        Verdicts that the other side has no counterpart of.
    notes
        What could not be compared, and why.
    """

    n_cells: int
    cells: tuple[Cell, ...]
    runs_gone: tuple[str, ...]
    runs_added: tuple[str, ...]
    n_verdicts: int
    n_changed: int
    n_only_before: int
    n_only_after: int
    notes: tuple[str, ...]

    @property
    def is_nothing(self) -> bool:
        """Tell whether both sides are the same."""
        return not any(
            (
                self.cells,
                self.runs_gone,
                self.runs_added,
                self.n_changed,
                self.n_only_before,
                self.n_only_after,
            )
        )


@dataclass(frozen=True, slots=True)
class _Verdicts:
    """Which verdicts are compared, as conditions on ``score_versions``, and which columns name one."""

    before: str
    after: str
    keys: Sequence[str]


def compare(con: duckdb.DuckDBPyConnection, before: Named, after: Named) -> Difference:
    """Compare two builds, versions or runs; what changed stays in temporary tables for ``items``.

    Of two builds, the verdicts of the rules that changed between them are compared, for the runs that both
    have; of two versions, all verdicts; of two runs, those of the current versions.

    Parameters
    ----------
    con
        Connection to a built lake.
    before, after
        Two of one kind, of versions those of one rule.
    """
    notes: list[str] = []
    if before.kind is not Kind.VERSION:
        sides = [before.id, after.id]
        for started_at, outcome in con.execute(_NEWER_BUILD, [before.kind is Kind.RUN, sides]).fetchall():
            notes.append(f"the build of {started_at} {outcome}: its values are not kept, and not compared")
    _compare_cells(con, before, after, notes)
    verdicts = _verdicts(con, before, after, notes)
    counts = _compare_verdicts(con, verdicts)
    one_sided = con.execute(_RUNS_OF_ONE_SIDE).fetchall()
    [(n_cells,)] = con.execute("select count(*) from diff_cells where is_before and is_after").fetchall()
    return Difference(
        n_cells,
        tuple(Cell(*row) for row in con.execute(_MOVED).fetchall()),
        tuple(run_id for run_id, is_after in one_sided if not is_after),
        tuple(run_id for run_id, is_after in one_sided if is_after),
        *counts,
        notes=tuple(notes),
    )


def _compare_cells(con: duckdb.DuckDBPyConnection, before: Named, after: Named, notes: list[str]) -> None:
    """Pair the cells of both sides, and say in ``notes`` what one of them did not keep."""
    keys: Sequence[str] = _CELL_KEYS
    run_id = "coalesce(after.run_id, before.run_id)"
    if before.kind is Kind.RUN:
        keys, run_id = keys[1:], "cast(null as varchar)"
    conditions = [f"history.{_COLUMN[side.kind]} = {_literal(side.id)}" for side in (before, after)]
    if before.kind is Kind.RUN:
        # a value that the last build no longer makes is none of the run
        conditions = [f"{condition} and {_OF_LAST_BUILD}" for condition in conditions]
    if before.kind is Kind.VERSION:
        lacking = [side.id for side in (before, after) if not con.execute(_KEPT_VALUES, [side.id]).fetchall()]
        if lacking:
            notes.append(
                f"no build with version {lacking[0][:12]} made every table, so no values of it are kept: "
                "verdicts alone are compared"
            )
            conditions = ["false", "false"]
    older = con.execute(_OLDER_BUILDS, [[before.id, after.id]]).fetchall()
    if older:
        notes.append(
            f"the build of {older[0][0]} is of an older version, which kept the values of S1CogBench alone "
            "and not the versions of its rules: nothing else is compared"
        )
        conditions = [f"{condition} and {_OF_OLDER_BUILDS}" for condition in conditions]
    sides = [_SIDE_OF_CELLS.format(condition=condition) for condition in conditions]
    con.execute(_CELLS.format(before=sides[0], after=sides[1], run_id=run_id, joined=_equal(keys, "=")))


def _verdicts(con: duckdb.DuckDBPyConnection, before: Named, after: Named, notes: list[str]) -> _Verdicts:
    """Return which verdicts to compare, and say in ``notes`` what cannot be."""
    if before.kind is Kind.RUN:
        one, another = (f"is_current and run_id = {_literal(side.id)}" for side in (before, after))
        return _Verdicts(one, another, [key for key in _VERDICT_KEYS if key != "run_id"])
    if before.kind is Kind.VERSION:
        return _of_versions([(before.id, after.id)])

    changed = con.execute(_CHANGED_RULES).fetchall()
    kept = {
        scorer_sha
        for (scorer_sha,) in con.execute("select distinct scorer_sha from score_versions").fetchall()
    }
    pairs = []
    for rule, *versions in changed:
        missing = [version for version in versions if version not in kept]
        if missing:
            notes.append(
                f"{rule}: no verdicts of version {missing[0][:12]} are kept; its items are not compared"
            )
        else:
            pairs.append((versions[0], versions[1]))
    [(n_other_rows,)] = con.execute(
        """
        select count(*) from diff_cells
        where has_moved and is_before and is_after and is_of_other_rows
            and before.rule_sha is not distinct from after.rule_sha
        """
    ).fetchall()
    if n_other_rows:
        notes.append(
            f"{n_other_rows} of the cells that moved have other raw rows and the same rule: "
            "verdicts of rows that are gone are not kept"
        )
    of_versions = _of_versions(pairs)
    if not con.execute(_RUNS_OF_ONE_SIDE).fetchall():
        return of_versions
    common = "run_id in (select run_id from diff_cells where is_before and is_after)"
    return _Verdicts(f"{of_versions.before} and {common}", f"{of_versions.after} and {common}", _VERDICT_KEYS)


def _of_versions(pairs: Sequence[tuple[str, str]]) -> _Verdicts:
    if not pairs:
        return _Verdicts("false", "false", _VERDICT_KEYS)
    # constants, so that tables of other rules are not read
    before, after = (f"scorer_sha in ({', '.join(map(_literal, side))})" for side in zip(*pairs, strict=True))
    return _Verdicts(before, after, _VERDICT_KEYS)


def _compare_verdicts(con: duckdb.DuckDBPyConnection, verdicts: _Verdicts) -> tuple[int, int, int, int]:
    """Return how many verdicts both sides have, how many changed, and how many one side has alone."""
    texts = {
        "before": verdicts.before,
        "after": verdicts.after,
        "keys": ", ".join(verdicts.keys),
        "verdict": ", ".join(_VERDICT),
    }
    n_before, n_after = (
        _numbers(con, f"select count(*) from score_versions where {side}")[0]
        for side in (verdicts.before, verdicts.after)
    )
    con.execute(_BY_KEY.format(**texts))
    alone = "select n_pairs, n_only_before, n_only_after from diff_keys"
    n_pairs, alone_before, alone_after = _numbers(con, alone)
    # as many pairs as rows on both sides is only so if no key repeats
    if not n_pairs == n_before - alone_before == n_after - alone_after:
        con.execute(_BY_SET.format(**texts))
        n_pairs, alone_before, alone_after = _numbers(con, alone)
    con.execute(
        _CHANGED.format(
            **texts,
            joined=_equal(verdicts.keys, "is not distinct from"),
            is_changed=f"not ({_equal(_VERDICT, 'is not distinct from')})",
            order=", ".join(f"coalesce(after.{key}, before.{key})" for key in verdicts.keys),
        )
    )
    n_changed, more_before, more_after = _numbers(
        con,
        """
        select
            count(*) filter (where before.rule is not null and after.rule is not null),
            count(*) filter (where after.rule is null),
            count(*) filter (where before.rule is null)
        from diff_items
        """,
    )
    return n_pairs, n_changed, alone_before + more_before, alone_after + more_after


def _numbers(con: duckdb.DuckDBPyConnection, query: str) -> tuple[int, ...]:
    [row] = con.execute(query).fetchall()
    return row


def _equal(names: Sequence[str], operator: str) -> str:
    return " and ".join(f"before.{name} {operator} after.{name}" for name in names)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
