"""Questions with what people answered, as references are given them, and predictions of all their answers."""

import json

import polars as pl

from generate.answers import Author, predicted
from generate.contract import Training

COLUMNS = {
    "item_id": pl.String,
    "dataset": pl.String,
    "participant_id": pl.String,
    "split": pl.String,
    "fold": pl.Int32,
    "legal_options": pl.List(pl.String),
    "credited_options": pl.List(pl.String),
    "support_low": pl.Float64,
    "support_high": pl.Float64,
    "target": pl.Float64,
    "facts_json": pl.String,
    "response": pl.String,
    "response_number": pl.Float64,
    "weight": pl.Float64,
    "is_shared": pl.Boolean,
}
AUTHOR = Author("run", "mode", "source", "family", 1, "reimplementation")
NOTHING_ARCHIVED = pl.DataFrame()


def trials(rows):
    """Return rows of ``facts`` and other columns as a frame; columns that a row lacks are null."""
    filled = [
        dict.fromkeys(COLUMNS)
        | {
            "item_id": f"i{number}",
            "dataset": "study",
            "participant_id": "p",
            "weight": 1.0,
            "is_shared": False,
        }
        | {key: value for key, value in row.items() if key != "facts"}
        | {"facts_json": json.dumps(row["facts"])}
        for number, row in enumerate(rows)
    ]
    return pl.DataFrame(filled, schema=COLUMNS, orient="row")


def fitted(reference, frame):
    return reference.fit(Training(frame, NOTHING_ARCHIVED))


def predictions(reference, frame):
    """Predict a whole mode, each response from what the reference's exposure allows; item -> answer.

    An answer is the list of log-probabilities, or the number.
    """
    tables = dict(predicted(AUTHOR, reference, frame, NOTHING_ARCHIVED))
    answers = {}
    for row in tables["outputs"].to_pylist():
        answers[row["item_id"], row["participant_id"]] = row["response_number"]
    for row in sorted(tables.get("output_options", EMPTY).to_pylist(), key=lambda row: row["option_index"]):
        key = row["item_id"], row["participant_id"]
        answers[key] = [*(answers[key] or []), row["logprob_nats"]]
    return answers


EMPTY = pl.DataFrame().to_arrow()


def nll(frame, predicted_frame):
    """Return the sum of the negative log-probabilities of the responses, in nats."""
    joined = frame.join(predicted_frame, on="item_id", how="inner")
    assert joined.height == frame.height
    total = 0.0
    for options, logprobs, response in joined.select(
        "legal_options", "logprobs_nats", "response"
    ).iter_rows():
        total -= logprobs[options.index(response)]
    return total
