"""How importers of human responses judge cells and people, in SQL."""

import duckdb
import pyarrow as pa


def whole_number(column: str) -> str:
    """Return SQL for a column's whole numbers, which R keeps as doubles; null for any other value.

    A cast alone would round: 1.5 would become the number of another trial.
    """
    number = f"try_cast(cast({column} as varchar) as double)"
    return f"case when {number} = floor({number}) then try_cast({number} as integer) end"


def fault_branches(fault: str, participant: str) -> str:
    """Return SQL for the first branches of a CASE that says why a row is left out: what is wrong with it.

    Of a participant of whom ``n_readable``, a column beside it, says that no other row can be read either, it
    says so.
    """
    return f"""
        when {fault} is not null and regexp_full_match({participant}, '[A-Za-z0-9._-]+') and n_readable = 0
        then {fault} || ', and nothing else of ' || {participant} || ' can be read'
        when {fault} is not null then {fault}
    """


def left_out(table: str) -> str:
    """Return the SELECT that counts the rows of ``table`` by their ``flaw``, which leaves them out."""
    return f"""
        select flaw || '; left out' as what, count(*) as n_rows from {table}
        where flaw is not null
        group by flaw order by n_rows desc, what
    """


def without_response(
    con: duckdb.DuckDBPyConnection, participants: str, responses: pa.Table
) -> dict[str, int]:
    """Return a note on each participant of whom no response could be read, with the number of their rows.

    What is wrong with these rows is noted, and counted, beside it: this names who is lost.

    Parameters
    ----------
    participants
        SELECT of ``participant_id`` as in the responses, for each row of the file that names one.
    responses
        What was read, with ``participant_id``.
    """
    con.register("read_responses", responses)
    found = con.execute(f"""
        select 'no response of ' || participant_id || ' can be read' as note, count(*) as n_rows
        from ({participants}) anti join read_responses using (participant_id)
        group by participant_id
        order by participant_id
    """).fetchall()
    con.unregister("read_responses")
    return {str(note): int(n_rows) for note, n_rows in found}
