"""dbt-duckdb plugin: prepares the lake before dbt opens its database, and the connection after.

DuckDB refuses a glob without files and cannot create the folder of its own database, so plain ``dbt build``
on a fresh clone needs both made first.
"""

from pathlib import Path
from typing import Any

from dbt.adapters.duckdb.plugins import BasePlugin
from duckdb import DuckDBPyConnection
from duckdb.func import FunctionNullHandling

from store import statistics
from store.lake import ensure_schema_parts
from store.revision import git_sha
from store.settings import home


class Plugin(BasePlugin):
    """Plugin named in ``profiles.yml``."""

    def initialize(self, plugin_config: dict[str, Any]) -> None:
        """Make the lake's folder and the zero-row part of every raw table."""
        ensure_schema_parts(home())

    def configure_connection(self, conn: DuckDBPyConnection) -> None:
        """Keep timestamps the same on every machine, and add what SQL cannot find out by itself.

        These are the distributions that intervals need, and ``git_sha(folder)``, which is null where nothing
        tells the commit.
        """
        conn.execute("set global TimeZone = 'UTC'")
        statistics.register(conn)
        conn.create_function(
            "git_sha", _git_sha, ["VARCHAR"], "VARCHAR", null_handling=FunctionNullHandling.SPECIAL
        )


def _git_sha(folder: str) -> str | None:
    return git_sha(Path(folder))
