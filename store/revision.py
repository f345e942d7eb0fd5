"""Which commit the project is at: what the history of scores keeps beside each build."""

import os
import subprocess
from pathlib import Path

# what decides scores; documents and tests do not
_SCORING = ("dbt_project.yml", "models_sql", "macros", "manifests")
_CHANGED = "+changes"
_TIMEOUT_S = 20.0

# within a hook of git these name the repository that the hook is of
_OF_A_HOOK = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX"})


def git_sha(project: Path) -> str | None:
    """Return the commit that the project is at, with ``+changes`` after it if what scores differs from it.

    Returns
    -------
    str or None
        None where there is no git, no repository, no commit yet, or a repository that does not hold the
        project: one around it that ignores it says nothing of it.
    """
    try:
        _git(project, "ls-files", "--error-unmatch", "dbt_project.yml")
        lines = _git(project, "status", "--porcelain=v2", "--branch", "--", *_SCORING).splitlines()
    except (OSError, subprocess.SubprocessError):
        return None
    oid = next((line.split()[-1] for line in lines if line.startswith("# branch.oid ")), "(initial)")
    if oid == "(initial)":
        return None
    is_changed = any(not line.startswith("#") for line in lines)
    return f"{oid}{_CHANGED}" if is_changed else oid


def _git(project: Path, *arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in _OF_A_HOOK}
    done = subprocess.run(  # noqa: S603 - git, wherever it is installed
        ["git", "-C", str(project), *arguments],  # noqa: S607
        # nothing is written there, and no message is translated
        env=environment | {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        encoding="utf-8",
        errors="replace",
        timeout=_TIMEOUT_S,
    )
    return done.stdout
