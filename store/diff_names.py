"""What the two names of a comparison stand for: builds, versions of a rule, or runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

import duckdb

from store.errors import NothingToExport, WrongUsage
from store.freshness import has_table

# tables of a build that keeps versions; an older one has none of the second
_NEEDED = ("audit_score_history", "score_versions")
_BUILD_AGAIN = "run `coglake build`"
_PLACES = {"latest": -1, "previous": -2, "first": 0}
_SHORT = 12
_MAX_NAMED = 3

# clocks go backwards, rows of the log do not
_BUILDS = """
    select
        log.invocation_id,
        strftime(log.started_at at time zone 'UTC', '%Y-%m-%d %H:%M:%S UTC') as started_at,
        any_value(history.git_sha) as git_sha,
        log.status
    from build_log as log
    inner join audit_score_history as history using (invocation_id)
    where log.status <> 'running'
    group by log.rowid, log.invocation_id, log.started_at, log.status
    order by log.rowid
"""
_VERSIONS = """
    select scorer_sha, any_value(rule) as rule, bool_or(is_current) as is_current
    from score_versions
    group by scorer_sha
    order by scorer_sha
"""
_RUNS = """
    select runs.run_id, any_value(history.model_id) as model_id
    from (
        select run_id from int_episode_sums
        union
        select run_id from int_learning_scored
    ) as runs
    left join audit_score_history as history using (run_id)
    group by runs.run_id
    order by runs.run_id
"""
_METRIC_VERSION = """
    select rule, rule_sha
    from audit_score_history
    where starts_with(scorer_sha, $1) and rule_sha is not null
    limit 1
"""


class Kind(StrEnum):
    """What can be compared."""

    BUILD = "build"
    VERSION = "version"
    RUN = "run"


@dataclass(frozen=True, slots=True)
class Named:
    """One side of a comparison.

    Attributes
    ----------
    kind
        Build, version of a rule, or run.
    id
        Its whole id.
    facts
        What a reader knows it by: when a build began, at which commit and how it ended, the rule of a version
        and whether it is the current one, the model of a run.
    """

    kind: Kind
    id: str
    facts: Mapping[str, object]


def resolve(con: duckdb.DuckDBPyConnection, before: str, after: str) -> tuple[Named, Named]:
    """Return what two names stand for.

    Parameters
    ----------
    con
        Connection to a built lake.
    before, after
        Id or the beginning of one; of a build also ``latest``, ``previous`` or ``first``.

    Raises
    ------
    NothingToExport
        If no build kept a history.
    WrongUsage
        If a name is unknown or stands for several, or both are not of one kind or of one rule.
    """
    if not all(has_table(con, name) for name in _NEEDED):
        raise NothingToExport(f"no build of this lake kept versions of its scores; {_BUILD_AGAIN}")
    known = _known(con)
    found = [_matches(con, known, name) for name in (before, after)]
    shared = [kind for kind in Kind if all(matches[kind] for matches in found)]
    if not shared:
        kinds = [" or ".join(kind for kind in Kind if matches[kind]) for matches in found]
        raise WrongUsage(
            "expected two builds, two versions of a rule or two runs, "
            f"found a {kinds[0]} ({before}) and a {kinds[1]} ({after})"
        )
    for name, matches in zip((before, after), found, strict=True):
        several = [f"{kind} {each[:_SHORT]}" for kind in shared for each in matches[kind]]
        if len(several) > 1:
            more = f" and {len(several) - _MAX_NAMED} more" if len(several) > _MAX_NAMED else ""
            raise WrongUsage(
                f"{name or 'an empty name'} stands for {', '.join(several[:_MAX_NAMED])}{more}; "
                "write more of the id that you mean"
            )
    [kind] = shared
    one, another = (Named(kind, matches[kind][0], known[kind][matches[kind][0]]) for matches in found)
    if one.facts.get("rule") != another.facts.get("rule"):
        raise WrongUsage(
            f"expected two versions of one rule, found {one.id[:_SHORT]} of {one.facts['rule']} "
            f"and {another.id[:_SHORT]} of {another.facts['rule']}"
        )
    return one, another


_Known = Mapping[Kind, Mapping[str, Mapping[str, object]]]


def _known(con: duckdb.DuckDBPyConnection) -> _Known:
    """Return the ids of each kind with what is known of them, builds in the order that they were made."""
    builds = con.execute(_BUILDS).fetchall()
    versions = con.execute(_VERSIONS).fetchall()
    runs = con.execute(_RUNS).fetchall()
    return {
        Kind.BUILD: {
            id_: {"started_at": started_at, "git_sha": git_sha, "status": status}
            for id_, started_at, git_sha, status in builds
        },
        Kind.VERSION: {id_: {"rule": rule, "is_current": is_current} for id_, rule, is_current in versions},
        Kind.RUN: {id_: {"model_id": model_id} for id_, model_id in runs},
    }


def _matches(con: duckdb.DuckDBPyConnection, known: _Known, name: str) -> dict[Kind, list[str]]:
    """Return the ids of each kind that a name may stand for; whole ids come before beginnings of others."""
    if name in _PLACES:
        return {kind: [_build_at(known, name)] if kind is Kind.BUILD else [] for kind in Kind}
    exact = {kind: [name] if name in known[kind] else [] for kind in Kind}
    if any(exact.values()):
        return exact
    started = {kind: [id_ for id_ in known[kind] if id_.startswith(name)] for kind in Kind}
    if not any(started.values()):
        raise WrongUsage(_unknown(con, known, name))
    return started


def _build_at(known: _Known, name: str) -> str:
    builds = list(known[Kind.BUILD])
    # the place of the newest is -1, of the one before it -2
    if len(builds) < max(1, -_PLACES[name]):
        raise WrongUsage(
            f"{name}: only a full build that made every table is kept, and there is {len(builds) or 'none'}; "
            f"{_BUILD_AGAIN}"
        )
    return builds[_PLACES[name]]


def _unknown(con: duckdb.DuckDBPyConnection, known: _Known, name: str) -> str:
    # what tables call scorer_sha beside a value is the version of its metric, not of the rule
    metric = con.execute(_METRIC_VERSION, [name]).fetchall() if len(name) >= _SHORT else []
    if metric:
        rule, rule_sha = metric[0]
        return (
            f"{name} is a version of a metric; its rows were scored by {rule} {rule_sha[:_SHORT]}: name that"
        )
    ids = [id_ for kind in Kind for id_ in known[kind]]
    # ids of builds and versions are long, and nobody writes them whole
    by_start = {id_[: max(len(name), _SHORT)]: id_ for id_ in ids} | {place: place for place in _PLACES}
    close = [by_start[start] for start in get_close_matches(name, by_start, n=_MAX_NAMED)]
    hint = (
        f"did you mean {' or '.join(close)}?"
        if close
        else ", ".join(f"{len(known[kind])} {kind}s" for kind in Kind) + " are there"
    )
    return f"{name}: no such build, version of a rule or run; {hint}"
