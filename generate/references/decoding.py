"""What references read of a trial: the facts that were visible, and which option was chosen."""

import numpy as np
import polars as pl

from generate.contract import Floats, Ints
from store.errors import InvalidSource

_GAME = pl.Struct({"game": pl.Int64, "history": pl.List(pl.List(pl.Float64))})


def with_facts(trials: pl.DataFrame, facts: pl.Struct) -> pl.DataFrame:
    """Return the trials with one column per fact.

    Parameters
    ----------
    trials
        As :class:`generate.contract.Training` has them.
    facts
        Names and types. A fact that an item does not have is null.

    Raises
    ------
    InvalidSource
        If the facts of an item are no JSON object of these types.
    """
    try:
        decoded = trials["facts_json"].str.json_decode(facts)
    except pl.exceptions.PolarsError as error:
        names = ", ".join(field.name for field in facts.fields)
        raise InvalidSource(
            f"facts_json: expected objects with {names}, found another form ({str(error).splitlines()[0]})"
        ) from error
    return trials.with_columns(decoded.alias("facts")).unnest("facts")


def require(rows: pl.DataFrame, *names: str) -> None:
    """Refuse rows that lack a fact.

    Raises
    ------
    InvalidSource
        If one of the columns ``names`` is null anywhere; the sentence names the first item.
    """
    for name in names:
        lacking = rows.filter(pl.col(name).is_null())
        if lacking.height:
            raise InvalidSource(
                f"facts_json: expected {name} of every item, found {lacking.height} without, first "
                f"{lacking['item_id'][0]}"
            )


def with_choice(trials: pl.DataFrame) -> pl.DataFrame:
    """Return the trials with ``choice``: the position of the response among the legal options, from 0.

    It is -1 where there is no response, or none that is legal.
    """
    numbered = trials.with_row_index("row")
    chosen = (
        numbered.select(
            "row", "response", "legal_options", choice=pl.int_ranges(pl.col("legal_options").list.len())
        )
        .explode("legal_options", "choice")
        .filter(pl.col("legal_options") == pl.col("response"))
        .group_by("row")
        .agg(pl.col("choice").min())
    )
    return (
        numbered.join(chosen, on="row", how="left", maintain_order="left")
        .drop("row")
        .with_columns(pl.col("choice").fill_null(-1))
    )


def with_game(trials: pl.DataFrame) -> pl.DataFrame:
    """Return the trials of games with ``choice``, ``game`` and ``history``, what was seen of the game so far.

    A history is a list of pairs: the position of an option among the legal ones, and what it paid. A question
    that nobody was asked is of no game and is left out.

    Raises
    ------
    InvalidSource
        If an item has no such facts.
    """
    asked = trials.filter(pl.col("participant_id").is_not_null())
    rows = with_choice(with_facts(asked, _GAME))
    require(rows, "game", "history", "legal_options")
    pair = pl.element()
    is_pair = (pair.list.len() == 2) & (pair.list.get(1, null_on_oob=True).is_finite())
    place = rows["history"].list.eval(pair.list.get(0, null_on_oob=True))
    wrong = rows.filter(
        ~pl.col("history").list.eval(is_pair.fill_null(False)).list.all()
        | (place.list.max() >= pl.col("legal_options").list.len())
        | (place.list.min() < 0)
        | place.list.eval(pair.is_null() | (pair != pair.floor())).list.any()
    )
    if wrong.height:
        raise InvalidSource(
            f"facts_json: expected histories of pairs of option, from 0, and reward; found {wrong.height} "
            f"others, first {wrong['item_id'][0]}"
        )
    return rows


def histories(rows: pl.DataFrame) -> tuple[Ints, Floats]:
    """Return the options and the rewards of histories as rows x steps; -1 and 0 after the end.

    ``rows`` are of :func:`with_game`.
    """
    lengths = rows["history"].list.len().to_numpy().astype(np.int64)
    row = np.repeat(np.arange(rows.height), lengths)
    step = np.arange(row.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    pairs = rows["history"].filter(rows["history"].list.len() > 0).explode()
    options = np.full((rows.height, lengths.max(initial=0)), -1)
    rewards = np.zeros(options.shape)
    options[row, step] = pairs.list.get(0).cast(pl.Int64)
    rewards[row, step] = pairs.list.get(1)
    return options, rewards
