"""What is read of a log before it is matched with questions: tables of a scratch database, and facts.

The database is a file, so that a log may be larger than memory.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

SCHEMA = """
    create table samples (
        sample bigint,               -- order in the log, from 1
        repeat integer,              -- which answer to the same question, from 0
        item_id varchar,             -- what the log calls the question, where that may be an item's id
        question_sha256 varchar,     -- of the question alone
        prompt_sha256 varchar,       -- of all that the model was shown
        options varchar[],           -- as they were scored, with the spaces around them
        logprobs varchar[],          -- as the log writes them
        response_text varchar,
        finish_reason varchar,
        n_prompt_tokens integer,
        n_response_tokens integer,
        error varchar                -- why there is no answer
    );
    create table prompts (prompt_sha256 varchar, text varchar);
    create table verdicts (sample bigint, repeat integer, grader_id varchar, value varchar);
"""


@dataclass(frozen=True, slots=True)
class LogFacts:
    """What a log says of the run behind it.

    Attributes
    ----------
    task
        Name of the task, for samples that are no question of the mode.
    model_id, model_revision
        None if the log does not say.
    engine_version, grader_version
        Version of the harness; ``unknown`` for the latter if the log does not say.
    started_at
        UTC; None if the log does not say.
    stated
        Settings as the log has them, kept with the run.
    notes
        What the log lacks, one sentence each.
    """

    task: str
    model_id: str | None
    model_revision: str | None
    protocol: str
    engine: str
    engine_version: str | None
    grader_version: str
    dtype: str | None = None
    context_tokens: int | None = None
    started_at: datetime | None = None
    stated: Mapping[str, object] = field(default_factory=dict)
    notes: Sequence[str] = ()


_SECRET = re.compile(r"(.*_)?(token|key|secret|password|headers?)", re.IGNORECASE)


def without_secrets(settings: Mapping[str, object]) -> dict[str, object]:
    """Return settings without those whose names say that they open a door: a lake is shared, they are not."""
    return {name: value for name, value in settings.items() if not _SECRET.fullmatch(name)}
