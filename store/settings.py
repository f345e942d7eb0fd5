"""Where things are: the lake, the project and the mirror."""

import os
from dataclasses import dataclass
from pathlib import Path

from store.errors import WrongUsage


@dataclass(frozen=True, slots=True)
class Home:
    """Paths of one lake.

    Attributes
    ----------
    root
        ``COGLAKE_HOME``, by default ``lake`` in the current folder.
    """

    root: Path

    @property
    def raw(self) -> Path:
        """Folder of the raw tables, one sub-folder each."""
        return self.root / "raw"

    @property
    def database(self) -> Path:
        """The DuckDB file that dbt builds."""
        return self.root / "coglake.duckdb"

    @property
    def exports(self) -> Path:
        """Default folder of exported tables."""
        return self.root / "exports"

    @property
    def cache(self) -> Path:
        """Content-addressed cache of fetched source files."""
        return self.root / "cache"


def home() -> Home:
    """Return the lake that ``COGLAKE_HOME`` names.

    Raises
    ------
    WrongUsage
        If the path has a character that DuckDB would read as a pattern (the raw tables are globs below it)
        or as the end of a path.
    """
    root = os.environ.get("COGLAKE_HOME") or "lake"
    if patterns := sorted(set("*?[]{}#") & set(str(Path(root).resolve()))):
        raise WrongUsage(f"COGLAKE_HOME={root}: choose a path without {' '.join(patterns)}")
    return Home(Path(root))


def project_dir() -> Path:
    """Return the folder that holds ``dbt_project.yml``: the current one, or the clone this code lives in.

    Raises
    ------
    WrongUsage
        If neither holds the project.
    """
    for candidate in (Path.cwd(), Path(__file__).resolve().parent.parent):
        if (candidate / "dbt_project.yml").is_file() and (candidate / "models_sql").is_dir():
            return candidate
    raise WrongUsage("no coglake project here: run this command in a clone that holds dbt_project.yml")
