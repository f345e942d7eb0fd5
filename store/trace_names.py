"""Which score somebody means by a mode and a model."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import duckdb

from store.errors import WrongUsage
from store.export import near

Kind = Literal["cell", "component", "cogniscore", "task", "category"]

COGNISCORE = "cogniscore"

_MODES = """
    select 'cell', mode_id, label from s1cogbench_modes
    union all
    select 'component', component_id, label from cognirank_components
    union all
    select 'component', dataset_id, dataset_id from cognirank_datasets
    union all
    select 'category', category, category from learning_tasks
    union all
    select 'task', task_id, label from learning_tasks
"""

# what a score can be asked for by, beside the key of its row: a model stands for all rows that it has
_COLUMNS: Mapping[Kind, str] = {
    "cell": "select column_id, model_id from int_cells where mode_id = $1",
    "cogniscore": "select run_id, model_id from cogniscore where $1 is not null",
    "component": """
        select evaluation_id, model_id from cognirank_scores
        where is_primary and $1 in (component_id, dataset_id)
    """,
    "category": "select run_id, model_id from learning_report where category = $1",
    "task": """
        select evaluation_or_run_id, unnest([model_id, run_id]) from int_learning_scores where task_id = $1
    """,
}
_CALLED: Mapping[Kind, tuple[str, str]] = {
    "cell": ("column", "columns"),
    "cogniscore": ("evaluation", "evaluations"),
    "component": ("evaluation", "evaluations"),
    "category": ("evaluation", "evaluations"),
    "task": ("evaluation or run", "evaluations or runs"),
}


@dataclass(frozen=True, slots=True)
class Named:
    """One score.

    Attributes
    ----------
    mode_id
        Mode, component or data set, task or category.
    column_id
        Column of Table 3, evaluation, or run.
    """

    kind: Kind
    mode_id: str
    column_id: str


def find(con: duckdb.DuckDBPyConnection, mode: str, column: str) -> Named:
    """Return the score that two names mean.

    Raises
    ------
    WrongUsage
        If there is no such name, or if the second means several; the sentence has the near names, or all.
    """
    modes: dict[str, tuple[Kind, str]] = {
        COGNISCORE: ("cogniscore", COGNISCORE),
        "CogniScore": ("cogniscore", COGNISCORE),
    }
    for kind, key, label in con.execute(_MODES).fetchall():
        modes.setdefault(key, (kind, key))
        modes.setdefault(label, (kind, key))
    kind, mode_id = modes[_known(mode, modes, "mode, component, category or task")]

    keys: dict[str, dict[str, None]] = {}
    for key, *others in con.execute(_COLUMNS[kind], [mode_id]).fetchall():
        for name in (key, *filter(None, others)):
            keys.setdefault(name, {})[key] = None
    one, several = _CALLED[kind]
    if not keys:
        raise WrongUsage(f"{mode_id}: nobody was asked it in this lake, so it has no {one}")
    found = keys[_known(column, keys, f"{one} or model of {mode_id}")]
    if len(found) > 1 and column not in found:
        raise WrongUsage(f"{column} has several {several} of {mode_id}: {', '.join(found)}; name one of them")
    return Named(kind, mode_id, column if column in found else next(iter(found)))


def _known(name: str, names: Iterable[str], what: str) -> str:
    """Return ``name`` as it is written among ``names``."""
    known = list(names)
    if name in known:
        return name
    small = {each.lower(): each for each in reversed(known)}
    if name.lower() in small:
        return small[name.lower()]
    raise WrongUsage(f"{name}: there is no such {what}; {near(name, known) or f'known are {_some(known)}'}")


def _some(names: list[str]) -> str:
    most = 8
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
