"""SQL that gives a score again: what all such queries are put together of.

Nothing here scores anything: marts are made by ``models_sql``. This is a second way to the same number, short
enough to be read, for those who want to check one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

_MOST_PARTS_LISTED = 24


@dataclass(frozen=True, slots=True)
class Raw:
    """Which rows of each staged raw table belong to a score: a condition for each.

    Attributes
    ----------
    where
        Condition by raw table, such as ``part_id in ('0f...') and mode_id = 'bart'``.
    is_text_read
        Some answers are texts alone, so that what the project's rules of reading made of them is needed.
    run_id
        Run whose rows are scored; empty for an expectation over items.
    mode_id
        Mode or data set of the rows.
    files
        The staging view of each raw table, over no other files than those that may hold such rows: the views
        themselves look into every file of the lake before they read the first.
    """

    where: Mapping[str, str]
    is_text_read: bool = False
    run_id: str = ""
    mode_id: str = ""
    files: Mapping[str, str] = field(default_factory=dict)

    def over_files(self, sql: str) -> str:
        """Return a query over the staging views as one over these files alone."""
        if not self.files:
            return sql
        views = ", ".join(f"stg_{name} as not materialized ({view})" for name, view in self.files.items())
        return f"with {views} {sql}"


@dataclass(frozen=True, slots=True)
class Estimate:
    """How values of rows become one number, as the manifest row of the metric says."""

    metric: str
    estimator: str
    scale: float = 1.0
    readout: str | None = None
    clip_low: float | None = None
    clip_high: float | None = None
    trim_share: float | None = None
    n_dimensions: int | None = None


def quoted(text: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def in_parts(part_ids: Sequence[str], mode_id: str, run_id: str | None = None) -> str:
    """Return a condition for the rows of some parts that belong to a mode.

    Constants tell DuckDB which files to leave closed.

    Parameters
    ----------
    part_ids
        Parts; none of them holds no row.
    run_id
        Run that the parts are all parts of, if they are of one: it stands for very many.
    """
    if not part_ids:
        return "false"
    of_mode = f"mode_id = {quoted(mode_id)}"
    if run_id is not None and len(part_ids) > _MOST_PARTS_LISTED:
        return f"run_id = {quoted(run_id)} and {of_mode}"
    return f"part_id in ({', '.join(map(quoted, part_ids))}) and {of_mode}"


def asked_tables(raw: Raw) -> list[str]:
    """Return answers and what was asked; a number that was only written is the one that was read in it."""
    if not raw.is_text_read:
        return [table("outputs", "outputs", raw), items_table(raw)]
    read = """outputs as (
    select said.* replace (coalesce(said.response_number, read_as.response_number) as response_number)
    from said
    join int_answers as read_as
        on said.run_id = read_as.run_id
        and said.mode_id = read_as.mode_id
        and said.item_id = read_as.item_id
        and said.episode_id = read_as.episode_id
        and said.participant_id is not distinct from read_as.participant_id
)"""
    return [table("said", "outputs", raw), read, items_table(raw)]


def items_table(raw: Raw) -> str:
    """Return the items that were asked, as a named table of a query."""
    return table("items", "items", raw, " and is_asked")


def table(name: str, raw_table: str, raw: Raw, also: str = "") -> str:
    """Return the rows of a raw table that belong to a score, as a named table of a query."""
    return f"{name} as (\n    select * from stg_{raw_table}\n    where {raw.where[raw_table]}{also}\n)"


def of_run(raw: Raw) -> str:
    """Return the condition for what a build made of the rows of a run."""
    return f"run_id = {quoted(raw.run_id)} and mode_id = {quoted(raw.mode_id)}"


def estimated(estimate: Estimate) -> str:
    """Return what makes one number of ``verdicts``."""
    kept = ["value is not null", *([f"readout = {quoted(estimate.readout)}"] if estimate.readout else [])]
    if estimate.estimator == "stay_interaction":
        mean = "avg(value) filter (where readout = '{}')"
        contrast = (
            f"(\n    {mean.format('common_rewarded')} - {mean.format('common_unrewarded')}"
            f"\n    - {mean.format('rare_rewarded')} + {mean.format('rare_unrewarded')}\n) / 4"
        )
        return f"select {times(estimate.scale, contrast)} as value, count(*) as n_scored\nfrom verdicts"
    if estimate.estimator == "trimmed_mean":
        kept.append(f"value > (select quantile_cont(value, {estimate.trim_share}) from verdicts)")
    mean = times(estimate.scale, "sum(weight * value) / sum(weight)")
    return f"select {mean} as value, count(*) as n_scored\nfrom verdicts\nwhere {' and '.join(kept)}"


def over_parts(scale: float, rows: str) -> str:
    """Return what makes one number of rows with strata: the mean over these."""
    return (
        f"select {times(scale, 'avg(mean)')} as value, sum(n) as n_scored\nfrom (\n"
        f"    select stratum, sum(weight * value) / sum(weight) as mean, count(*) as n\n    from {rows}\n"
        "    group by stratum\n)"
    )


def times(scale: float, expression: str) -> str:
    """Return an expression times a scale, which is not written if it is 1."""
    return expression if scale == 1 else f"{scale:g} * {expression}"


def with_tables(tables: Iterable[str], last: str) -> str:
    """Return a query over named tables."""
    return "with\n" + ",\n".join(tables) + f"\n{last}"
