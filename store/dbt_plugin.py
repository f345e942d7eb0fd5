"""dbt-duckdb plugin: prepares the lake before dbt opens its database, and the connection after.

DuckDB refuses a glob without files and cannot create the folder of its own database, so plain ``dbt build``
on a fresh clone needs both made first.
"""

from typing import Any

from dbt.adapters.duckdb.plugins import BasePlugin
from duckdb import DuckDBPyConnection

from store import statistics
from store.lake import ensure_schema_parts
from store.settings import home


class Plugin(BasePlugin):
    """Plugin named in ``profiles.yml``."""

    def initialize(self, plugin_config: dict[str, Any]) -> None:
        """Make the lake's folder and the zero-row part of every raw table."""
        ensure_schema_parts(home())

    def configure_connection(self, conn: DuckDBPyConnection) -> None:
        """Keep timestamps the same on every machine, and add the distributions that intervals need."""
        conn.execute("set global TimeZone = 'UTC'")
        statistics.register(conn)
