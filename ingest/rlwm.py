"""Reinforcement learning and working memory: pictures whose right keys are learned by trial and error.

Source: Collins (2025), A habit and working memory model as an alternative account of human reward-based
learning, AnneCollins/WMH: ``RLWM/DataSets/Expe<n>.mat`` has one row per trial, and
``RLWM/Fits/FitRLWM_dataset<n>.mat`` the authors' maximum-likelihood fits of their models to each participant.
Blocks share no pictures, so what a participant saw that bears on a trial is the block before it.
"""

import io
import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.io import loadmat

from ingest.contract import Imported
from ingest.questions import imported
from ingest.rows import whole_number, without_response
from store.errors import InvalidSource
from store.manifest import PinnedFile, Source
from store.prompts import load_template

# part of every run id: raise it when the same bytes are to be read in another way
IMPORTER_VERSION = 2

MODE_ID = "rlwm"
TEMPLATE_ID = "rlwm"

# the model whose replay S1CogBench prints: its archived sums are what a replay is compared with
PUBLISHED_MODEL = "model 2: WM RL0 0"

_TRIALS_FILE = re.compile(r"RLWM/DataSets/(?P<dataset>Expe(?P<number>\d+))\.mat")

# of the 17 columns, those that say what was seen and done; the others follow from them or describe the person
_COLUMNS = ("subno", "block", "ns", "time", "stimseq", "corAseq", "choice", "cor", "rew", "rt")

# a right key brings 0 points in some of its blocks and 1 in the others, a wrong one a point less
_WITH_LOSSES = ("Expe16",)

# the nine parameters of the models without a further mechanism, capacity last
_PARAMETERS = ("alphaRL", "stick", "rho", "forget", "epsilon", "biasWM", "biasRL", "r0", "K")
# how a model differs beyond its parameters: whether working memory enters the expectation that reinforcement
# learning corrects, and whether that learns from points at all rather than from having chosen
_SWITCHES = ("interact", "value")
_LOG_LIKELIHOOD = 1

# of MATLAB files of version 5: bytes before the first variable and before each one, and its kind
_HEADER_BYTES, _TAG_BYTES, _COMPRESSED = 128, 8, 15

Floats = NDArray[np.float64]

# numbers that are not whole ones are nothing here; a flaw is the first thing in a row that cannot be read
_TRIALS = """
create or replace table trials as
with

cells as (

    select
        source_row,
        {whole_numbers},
        rt
    from source

),

judged as (

    select
        *,
        case
            when subno is null then 'subno is not a whole number'
            when block is null then 'block is not a whole number'
            when time is null then 'time is not a whole number'
            when ns is null or ns not between 1 and 26 then 'ns is not a number of pictures'
            when stimseq is null or stimseq not between 1 and ns then 'stimseq is not a picture of the block'
        end as place_flaw,
        case
            when choice = -1 then 'no key was pressed in time'
            when choice is null or choice not in (1, 2, 3) then 'choice is not one of 1, 2, 3'
            when corAseq is null or corAseq not in (1, 2, 3) then 'corAseq is not one of 1, 2, 3'
            when cor is distinct from cast(choice = corAseq as integer)
            then 'cor contradicts choice and corAseq'
            when rew is null or rew not in (cor, case when $has_losses then cor - 1 else cor end)
            then 'rew is not what the key brings'
        end as choice_flaw,
        case
            when isnan(rt) then 'rt is not a number'
            when rt <= 0.15 then 'answered within 0.15 s, which the authors'' likelihood passes over'
        end as time_flaw
    from cells

)

select
    * exclude (choice_flaw, time_flaw),
    choice_flaw is null as is_seen,
    coalesce(choice_flaw, time_flaw) as response_flaw,
    row_number() over (
        partition by subno, place_flaw is null order by block, time, source_row
    ) - 1 as trial
from judged
"""

# the first that has an offender refuses the file: (what is expected, names of the offenders)
_EXPECTED = (
    (
        "each trial once",
        """
        select 'trial ' || time || ' in block ' || block || ' of ' || subno from trials
        where place_flaw is null
        group by subno, block, time having count(*) > 1 order by subno, block, time
        """,
    ),
    (
        "one number of pictures per block",
        """
        select 'block ' || block || ' of ' || subno from trials where place_flaw is null
        group by subno, block having count(distinct ns) > 1 order by subno, block
        """,
    ),
    (
        "one right key per picture of a block",
        """
        select 'picture ' || stimseq || ' in block ' || block || ' of ' || subno from trials
        where place_flaw is null
        group by subno, block, stimseq having count(distinct corAseq) > 1 order by subno, block, stimseq
        """,
    ),
)

_QUESTIONS = """
create or replace view questions as
with

pictured as (

    select
        *,
        chr(cast(64 + stimseq as integer)) as picture,
        ns as set_size,
        case when rew > 0 then '+' else '' end || rew as points
    from trials
    where place_flaw is null

),

lines as (

    select
        *,
        case
            when is_seen then {trial}
            when choice = -1 then {missed}
            when choice not in (1, 2, 3) then {other_key}
            else {unknown}
        end as line
    from pictured

),

asked as (

    select
        *,
        coalesce(
            string_agg(line, '') over (
                partition by subno, block order by trial
                rows between unbounded preceding and 1 preceding
            ),
            {first}
        ) as history,
        {rewards} as rewards
    from lines

)

select
    subno,
    trial,
    '{dataset}/' || subno as participant_id,
    cast(choice as varchar) as response,
    [cast(corAseq as varchar)] as credited_options,
    {prompt} as prompt,
    to_json({{trial: trial, block: block, set_size: ns, stimulus: stimseq}}) as facts_json
from asked
where response_flaw is null
"""

# of the template; that about points depends on the data set
_TEXTS = ("prompt", "trial", "missed", "other_key", "unknown", "first")

_NAMES = """
    $run_id || '/' || subno || '/' || trial as item_id,
    $mode_id as mode_id,
    $source_id as source_id,
    participant_id,
    1.0 as weight
"""

_ITEMS = f"""
select
    {_NAMES},
    prompt,
    $template_id as template_id,
    $template_sha256 as template_sha256,
    ['1', '2', '3'] as legal_options,
    credited_options,
    facts_json
from questions
order by subno, trial
"""

_RESPONSES = f"select {_NAMES}, response from questions order by subno, trial"

_PARTICIPANTS = "select '{dataset}/' || subno as participant_id from trials where subno is not null"

_FLAWS = """
select
    coalesce(place_flaw || '; left out', response_flaw || '; no question') as what,
    count(*) as n_rows
from trials
where place_flaw is not null or response_flaw is not null
group by what
order by n_rows desc, what
"""


@dataclass(frozen=True, slots=True)
class _ArchivedFits:
    """The authors' fits to one data set.

    Attributes
    ----------
    participants
        Their numbers: participants.
    models
        Parameters and switches by model and name: each an array of participants.
    log_likelihoods
        In nats, of the choices that the fit used, by model: each an array of participants.
    """

    participants: NDArray[np.int64]
    models: Mapping[str, Mapping[str, Floats]]
    log_likelihoods: Mapping[str, Floats]


class PictureLearningImporter:
    """Reads the trials of a data set, with the archived fits to its participants."""

    def identify(self, source: Source, file: PinnedFile) -> str | None:
        """Return the run id of a file of trials and its fits; None for any other file."""
        trials = _TRIALS_FILE.fullmatch(file.path)
        if trials is None:
            return None
        digest = sha256("\n".join([file.sha256, *(fits.sha256 for fits in _fits(source, file))]).encode())
        return f"{source.id}-{trials['dataset']}-{digest.hexdigest()[:12]}-v{IMPORTER_VERSION}"

    def companions(self, source: Source, file: PinnedFile) -> tuple[PinnedFile, ...]:
        """Return the file of the fits to this data set.

        Raises
        ------
        InvalidSource
            If the source does not pin it.
        """
        fits = _fits(source, file)
        if not fits:
            raise InvalidSource(f"{source.uri(file)}: its archived fits are not among the source's files")
        return fits

    def read_with(
        self, source: Source, file: PinnedFile, path: Path, companions: Mapping[str, Path]
    ) -> Imported:
        """Turn each answered trial into an item and a response, and the fits into rows of their own.

        A trial without a key, or with one pressed within 0.15 s, is no item: the authors' likelihood passes
        over it. It happened, so the prompts of later trials show it.

        Raises
        ------
        InvalidSource
            If a file is not what the source declares, a trial is there twice, or a participant has no fit.
        """
        run_id, where = self.identify(source, file), source.uri(file)
        trials = _TRIALS_FILE.fullmatch(file.path)
        if run_id is None or trials is None:
            raise InvalidSource(f"{where}: not a file of trials")
        [fits_file] = self.companions(source, file)
        dataset = trials["dataset"]
        n_rows = _load(self._con, path, where, dataset)
        archived = _archived_fits(companions[fits_file.path], source.uri(fits_file))
        _require_fits(self._con, archived, source.uri(fits_file))
        names = {"run_id": run_id, "mode_id": MODE_ID, "source_id": source.id}
        template = {"template_id": TEMPLATE_ID, "template_sha256": load_template(TEMPLATE_ID).sha256}
        fits, n_without_value = _fit_rows(archived, dataset, run_id)
        flaws = [(str(what), int(count)) for what, count in self._con.execute(_FLAWS).fetchall()]
        if n_without_value:
            flaws.append(("a number of an archived fit is missing; kept without a value", n_without_value))
        responses = self._con.sql(_RESPONSES, params=names).to_arrow_table()
        lost = without_response(self._con, _PARTICIPANTS.format(dataset=dataset), responses)
        return imported(
            source,
            file,
            run_id=run_id,
            importer_version=IMPORTER_VERSION,
            dataset=dataset,
            modes=[MODE_ID],
            tables={
                "items": self._con.sql(_ITEMS, params=names | template).to_arrow_table(),
                "human_responses": responses,
                "fits": fits,
                "published": _published_rows(archived, dataset, source, fits_file),
            },
            n_source_rows=n_rows,
            flaws=[*flaws, *lost.items()],
            set_aside=lost,
        )

    @cached_property
    def _con(self) -> duckdb.DuckDBPyConnection:
        return duckdb.connect()


def _fits(source: Source, file: PinnedFile) -> tuple[PinnedFile, ...]:
    trials = _TRIALS_FILE.fullmatch(file.path)
    path = None if trials is None else f"RLWM/Fits/FitRLWM_dataset{trials['number']}.mat"
    return tuple(other for other in source.files if other.path == path)


# --- trials ---


def _load(con: duckdb.DuckDBPyConnection, path: Path, where: str, dataset: str) -> int:
    """Read the file into ``trials`` and ``questions``; return its number of rows."""
    source = _source(path, where)
    has_losses = dataset in _WITH_LOSSES
    con.register("source", source)
    try:
        whole_numbers = ", ".join(f"{whole_number(name)} as {name}" for name in _COLUMNS[:-1])
        con.execute(_TRIALS.format(whole_numbers=whole_numbers), {"has_losses": has_losses})
    finally:
        con.unregister("source")
    for expected, offenders in _EXPECTED:
        if found := con.execute(offenders).fetchall():
            raise InvalidSource(
                f"{where}: expected {expected}, found {len(found)} others, first {found[0][0]}"
            )
    template = load_template(TEMPLATE_ID)
    texts = {name: template.sql(name) for name in _TEXTS}
    rewards = template.sql("gains_and_losses" if has_losses else "gains")
    con.execute(_QUESTIONS.format(dataset=dataset, rewards=rewards, **texts))
    return int(source.num_rows)


def _source(path: Path, where: str) -> pa.Table:
    """Return the columns of ``_COLUMNS`` as numbers, with the row's number."""
    contents = _contents(path, where, ("columns", "expe_data"))
    rows = contents["expe_data"]
    if rows.ndim != 2 or not _is_numeric(rows):
        raise InvalidSource(f"{where}: expected a table of numbers in expe_data, found {_shape(rows)}")
    columns = [_text(cell) for cell in contents["columns"].ravel()]
    if len(columns) != rows.shape[1]:
        raise InvalidSource(f"{where}: expected {len(columns)} columns in expe_data, found {rows.shape[1]}")
    amiss = [name for name in _COLUMNS if columns.count(name) != 1]
    if amiss:
        raise InvalidSource(
            f"{where}: expected the columns {', '.join(_COLUMNS)}, each once; missing or repeated: "
            f"{', '.join(amiss)}"
        )
    found = {name: rows[:, columns.index(name)].astype(np.float64) for name in _COLUMNS}
    return pa.table({"source_row": np.arange(len(rows)), **found})


# --- archived fits ---


def _archived_fits(path: Path, where: str) -> _ArchivedFits:
    """Read the fits of the models that have no further mechanism, with what defines each model.

    Raises
    ------
    InvalidSource
        If the file is damaged, or a model does not say what its parameters are.
    """
    contents = _contents(path, where, ("Ms", "All_Params", "All_fits", "subjects_list"))
    participants = contents["subjects_list"].ravel()
    measures = contents["All_fits"]
    definitions, parameters = contents["Ms"].ravel(), contents["All_Params"].ravel()
    expected = (len(participants), len(definitions))
    if (
        not _is_numeric(participants)
        or not _is_numeric(measures)
        or measures.ndim != 3
        or measures.shape[1] <= _LOG_LIKELIHOOD
        or (measures.shape[0], measures.shape[2]) != expected
        or len(parameters) != len(definitions)
        or any(cells.dtype != object for cells in (definitions, parameters))
    ):
        raise InvalidSource(
            f"{where}: expected measures of {expected[0]} participants and {expected[1]} models in All_fits "
            f"and as many models in All_Params, found {_shape(measures)} and {len(parameters)}"
        )
    if len(np.unique(participants)) != len(participants):
        raise InvalidSource(f"{where}: expected each participant of subjects_list once")
    models, log_likelihoods = {}, {}
    for index, name, definition, values in _models(definitions, parameters, where):
        if values.shape[0] != len(participants):
            raise InvalidSource(
                f"{where}: {name}: expected parameters of {len(participants)} participants, found "
                f"{_shape(values)}"
            )
        models[name] = _named(definition, values.astype(np.float64), f"{where}: {name}")
        log_likelihoods[name] = measures[:, _LOG_LIKELIHOOD, index].astype(np.float64)
    if PUBLISHED_MODEL not in models:
        raise InvalidSource(f"{where}: expected {PUBLISHED_MODEL}, found {', '.join(models) or 'no model'}")
    return _ArchivedFits(participants.astype(np.int64), models, log_likelihoods)


def _models(
    definitions: NDArray[Any], parameters: NDArray[Any], where: str
) -> Iterator[tuple[int, str, Any, NDArray[Any]]]:
    """Yield index, name, definition and parameters of each fitted model with the nine parameters."""
    for index, (definition, values) in enumerate(zip(definitions, parameters, strict=True)):
        # numbers that were planned and not used hold nothing
        if not definition.size or not values.size:
            continue
        name = f"model {index + 1}"
        try:
            model = definition.ravel()[0]
            names = tuple(_text(cell) for cell in model["pnames"].ravel())
            name = f"{name}: {_text(model['ID'])}"
        except (IndexError, KeyError, ValueError, TypeError, AttributeError) as error:
            raise InvalidSource(f"{where}: {name}: expected pnames and ID, found no such fields") from error
        if names != _PARAMETERS:
            continue
        if values.ndim != 2 or not _is_numeric(values):
            raise InvalidSource(f"{where}: {name}: expected a table of numbers, found {_shape(values)}")
        yield index, name, model, values


def _named(model: np.void, values: Floats, where: str) -> dict[str, Floats]:
    """Return parameters and switches by name; a fixed parameter is the same for all participants."""
    n, n_columns = values.shape
    try:
        is_fixed, fixed, column = (
            np.asarray(model[name], dtype=np.float64).ravel()
            for name in ("pfixed", "fixedvalue", "thetamapping")
        )
        switches = {name: np.full(n, float(model[name].ravel()[0])) for name in _SWITCHES}
        # capacity is searched over whole numbers and stands last, whatever the mapping says
        found = {
            name: np.full(n, fixed[place]) if is_fixed[place] else values[:, int(column[place]) - 1]
            for place, name in enumerate(_PARAMETERS[:-1])
        }
        if any(not is_fixed[place] and not 1 <= column[place] < n_columns for place in range(len(found))):
            raise ValueError("a parameter has no column")
    except (IndexError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise InvalidSource(f"{where}: expected a column or a fixed value for each parameter") from error
    return found | {_PARAMETERS[-1]: values[:, -1]} | switches


def _require_fits(con: duckdb.DuckDBPyConnection, archived: _ArchivedFits, where: str) -> None:
    found = con.execute("select distinct subno from trials where place_flaw is null order by all").fetchall()
    lacking = sorted({number for (number,) in found} - set(archived.participants.tolist()))
    if lacking:
        raise InvalidSource(
            f"{where}: expected a fit to each participant, found none to {len(lacking)}, first {lacking[0]}"
        )


def _fit_rows(archived: _ArchivedFits, dataset: str, run_id: str) -> tuple[pa.Table, int]:
    """Return every number of the fits as a row of ``raw/fits``, and how many are missing."""
    n = len(archived.participants)
    named = [
        (model, name, numbers)
        for model, parameters in archived.models.items()
        for name, numbers in (
            *parameters.items(),
            ("negative_log_likelihood", -archived.log_likelihoods[model]),
        )
    ]
    values = np.concatenate([numbers for _, _, numbers in named])
    is_missing = ~np.isfinite(values)
    rows = {
        "run_id": pa.repeat(run_id, len(values)),
        "mode_id": pa.repeat(MODE_ID, len(values)),
        "family": np.repeat([model for model, _, _ in named], n),
        "participant_id": np.tile(_participant_ids(archived, dataset), len(named)),
        "training_set": pa.repeat("the participant's own trials", len(values)),
        "parameter": np.repeat([name for _, name, _ in named], n),
        "value": pa.array(values, mask=is_missing),
        "provenance": pa.repeat("archived_replay", len(values)),
    }
    return pa.table(rows), int(is_missing.sum())


def _published_rows(archived: _ArchivedFits, dataset: str, source: Source, file: PinnedFile) -> pa.Table:
    """Return the archived sums, in nats, of the model that S1CogBench replays."""
    n = len(archived.participants)
    sums = -archived.log_likelihoods[PUBLISHED_MODEL]
    rows = {
        "source_id": pa.repeat(source.id, n),
        "source_uri": pa.repeat(source.uri(file), n),
        "mode_id": pa.repeat(MODE_ID, n),
        "model_id": pa.repeat(PUBLISHED_MODEL, n),
        "episode_id": _participant_ids(archived, dataset),
        "label": pa.repeat("negative_log_likelihood", n),
        "value": pa.array(sums, mask=~np.isfinite(sums)),
    }
    return pa.table(rows)


def _participant_ids(archived: _ArchivedFits, dataset: str) -> list[str]:
    return [f"{dataset}/{number}" for number in archived.participants]


# --- MATLAB ---


def _contents(path: Path, where: str, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Return variables of a MATLAB file.

    Raises
    ------
    InvalidSource
        If it is damaged or lacks one of them.
    """
    try:
        content = path.read_bytes()
        _require_whole(content)
        contents = loadmat(io.BytesIO(content), variable_names=list(names))
    except Exception as error:
        # what is no such file breaks wherever the bytes stop making sense, with as many kinds of errors
        said = " ".join(str(error).split()) or type(error).__name__
        raise InvalidSource(f"{where}: not readable as a MATLAB file ({said})") from error
    lacking = [name for name in names if not isinstance(contents.get(name), np.ndarray)]
    if lacking:
        raise InvalidSource(
            f"{where}: expected the variables {', '.join(names)}; missing: {', '.join(lacking)}"
        )
    return {name: contents[name] for name in names}


def _require_whole(content: bytes) -> None:
    """Check that a MATLAB file is compressed variables and no byte of them was changed.

    scipy trusts the lengths that it finds in a file: a changed one can end the whole process.
    """
    order = {b"IM": "<", b"MI": ">"}.get(content[126:_HEADER_BYTES])
    if order is None:
        raise ValueError("no header of version 5")
    start = _HEADER_BYTES
    while start < len(content):
        kind, n_bytes = struct.unpack_from(f"{order}II", content, start)
        start += _TAG_BYTES + n_bytes
        if kind != _COMPRESSED or start > len(content):
            raise ValueError("expected compressed variables, each as long as it says")
        # a wrong checksum is an error
        zlib.decompress(content[start - n_bytes : start])


def _text(cell: object) -> str:
    """Return the text in a cell, however often it is wrapped in others."""
    while isinstance(cell, np.ndarray):
        if cell.size != 1:
            return ""
        cell = cell.ravel()[0]
    return str(cell)


def _is_numeric(values: NDArray[Any]) -> bool:
    return bool(np.issubdtype(values.dtype, np.number))


def _shape(values: NDArray[Any]) -> str:
    return f"{' x '.join(str(size) for size in values.shape)} of {values.dtype.name}"
