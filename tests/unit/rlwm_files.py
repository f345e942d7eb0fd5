"""MATLAB files of the schema of AnneCollins/WMH, written by a test."""

import hashlib
import io

import numpy as np
from scipy.io import savemat

from ingest.pipeline import ingest
from ingest.rlwm import PictureLearningImporter
from store.manifest import Source
from store.schemas import RAW_TABLES
from store.settings import Home

IMPORTER = PictureLearningImporter()
COLUMNS = (
    *("subno", "block", "ns", "time", "stimseq", "imageseq", "folderseq", "iterseq", "corAseq"),
    *("choice", "key", "cor", "rew", "rt", "condition (WL)", "pcor", "delay"),
)
NAMES = ("alphaRL", "stick", "rho", "forget", "epsilon", "biasWM", "biasRL", "r0", "K")
# alphaRL, stick, rho, forget, epsilon, biasWM, K
VALUES = (0.1, 0.05, 0.9, 0.2, 0.02, 0.3, 3.0)
FIXED = {"biasRL": 0.0, "r0": 0.0}

# the first trial of a block of two pictures: picture 1, whose right key is 3, and key 3 is pressed
FIRST = {
    "subno": 1,
    "block": 1,
    "ns": 2,
    "time": 1,
    "stimseq": 1,
    "corAseq": 3,
    "choice": 3,
    "cor": 1,
    "rew": 1,
    "rt": 0.6,
}
MISSED = {"choice": -1, "cor": -1, "rew": -1, "rt": -1}


def session(*changes):
    """Return trials like the first one, at times 1, 2, …, each with its own changes."""
    return [FIRST | {"time": time} | change for time, change in enumerate(changes, start=1)]


def matrix(rows, columns=COLUMNS):
    """Return rows as the source's table: what a row does not say is missing."""
    return np.array([[row.get(name, np.nan) for name in columns] for row in rows]).reshape(-1, len(columns))


def mat(**variables):
    """Return the bytes of a MATLAB file."""
    file = io.BytesIO()
    savemat(file, variables, do_compression=True)
    return file.getvalue()


def cells(values):
    """Return values as a row of cells."""
    row = np.empty((1, len(values)), dtype=object)
    for place, value in enumerate(values):
        row[0, place] = value
    return row


def trials_file(rows, columns=COLUMNS, **variables):
    """Return the bytes of a file of trials."""
    return mat(**({"columns": cells(columns), "expe_data": matrix(rows, columns)} | variables))


def model(fixed=None, names=NAMES, **changes):
    """Return what defines a model: parameters that are not fixed are in the first columns, in their order."""
    fixed = FIXED if fixed is None else fixed
    free = iter(range(1, len(names)))
    return {
        "name": "RLWM",
        "pnames": cells(names),
        "pfixed": [[int(name in fixed) for name in names[:-1]]],
        "fixedvalue": [[fixed.get(name, np.nan) for name in names[:-1]]],
        "thetamapping": [[np.nan if name in fixed else next(free) for name in names[:-1]]],
        "interact": 0,
        "value": 1,
        "ID": "WM RL0 0",
    } | changes


def fits_file(participants=(1,), values=VALUES, models=None, sums=-12.5, **variables):
    """Return the bytes of a file of fits: one model at place 2 unless others are given by place."""
    models = {2: (model(), values)} if models is None else models
    n, places = len(participants), max(models)
    definitions, parameters = [np.empty((0, 0))] * places, [np.empty((0, 0))] * places
    measures = np.zeros((n, 6, places))
    for place, (definition, rows) in models.items():
        definitions[place - 1] = definition
        parameters[place - 1] = np.broadcast_to(np.atleast_2d(rows), (n, np.shape(rows)[-1])).copy()
        measures[:, 1, place - 1] = sums
    found = {
        "Ms": cells(definitions),
        "All_Params": cells(parameters),
        "All_fits": measures,
        "subjects_list": np.array([participants], dtype=np.uint8),
    }
    return mat(**(found | variables))


def pinned(folder, trials, fits=None, dataset=1):
    """Put a file of trials and its fits into a mirror below ``folder``; return the source that pins them."""
    contents = {f"RLWM/DataSets/Expe{dataset}.mat": trials}
    if fits is not None:
        contents[f"RLWM/Fits/FitRLWM_dataset{dataset}.mat"] = fits
    source = Source.model_validate(
        {
            "id": "rlwm",
            "kind": "generated",
            "repo": "handwritten",
            "revision": "1",
            "licence": "MIT",
            "description": "Files of a test.",
            "files": [
                {"path": path, "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
                for path, data in contents.items()
            ],
        }
    )
    for file in source.files:
        target = folder / "mirror" / source.mirror_path(file)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(contents[file.path])
    return source


def read(folder, trials, fits, dataset=1):
    """Read a file of trials with its fits; return the rows of each raw table."""
    source = pinned(folder, trials, fits, dataset)
    paths = {file.path: folder / "mirror" / source.mirror_path(file) for file in source.files}
    [file] = [file for file in source.files if IMPORTER.identify(source, file)]
    found = IMPORTER.read_with(source, file, paths[file.path], paths)
    rows = {raw.table: raw.rows.to_pylist() for raw in found.rows}
    tables = {table: rows.get(table, []) for table in RAW_TABLES}
    [run] = tables["runs"]
    assert (run["run_id"], run["n_source_rows"]) == (found.run_id, found.n_source_rows)
    return tables


def ingested(folder, trials, fits=None, dataset=1):
    """Import a file of trials with its fits into a lake below ``folder``; return lake and report."""
    lake = Home(folder / "lake")
    [report] = ingest(lake, [pinned(folder, trials, fits, dataset)], mirror=str(folder / "mirror"))
    return lake, report
