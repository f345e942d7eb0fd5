"""``coglake compare``: two models on the same items."""

import math
from collections.abc import Sequence

from store import console
from store.compare import (
    CONFIDENCE,
    N_REPLICATES,
    POWER,
    SIGNIFICANCE,
    Compared,
    Comparison,
    compare,
    resolve,
)
from store.database import connect
from store.errors import CheckFailed, WrongUsage
from store.formats import Format, Sheet, render, to_json
from store.freshness import require_fresh
from store.settings import home, project_dir

_DATA_FORMATS = (Format.CSV, Format.JSON)


def run(
    one: str,
    another: str,
    modes: Sequence[str],
    margins: Sequence[str],
    *,
    form: Format | None,
    as_json: bool,
) -> None:
    """Print the comparison of two models, mode by mode.

    Raises
    ------
    CheckFailed
        After the table, if pairs of a mode are missing.
    """
    stated = read_margins(margins)
    con = connect(home())
    try:
        built = require_fresh(con, home(), project_dir())
        a, b = resolve(con, one), resolve(con, another)
        found = compare(con, a, b, modes, stated)
    finally:
        con.close()
    if as_json:
        console.write(
            to_json(
                {
                    "a": a,
                    "b": b,
                    "build_id": built.invocation_id,
                    "confidence": CONFIDENCE,
                    "n_replicates": N_REPLICATES,
                    "power": POWER,
                    "significance": SIGNIFICANCE,
                    "n_tested": sum(each.status == "tested" for each in found),
                    "rows": found,
                }
            )
        )
    elif form in _DATA_FORMATS:
        console.write(render(numbers(found), form))
    else:
        sheet = drawn(found, a, b)
        if form is None:
            console.show(sheet)
        else:
            console.write(render(sheet, form))
        for note in sheet.notes:
            console.say(note)
    if unpaired := [each.mode_id for each in found if each.status == "unpaired"]:
        raise CheckFailed(
            f"{a.name} and {b.name} were not scored on the same items in {', '.join(unpaired)}: "
            "those rows say which pairs are missing, and have no statistics"
        )


def read_margins(margins: Sequence[str]) -> dict[str, float]:
    """Return what counts as equivalent, by mode, from texts such as ``bart=2``.

    Raises
    ------
    WrongUsage
        If a text is not a name, ``=`` and a number above 0, or a mode has two.
    """
    stated: dict[str, float] = {}
    for text in margins:
        mode_id, _, value = text.partition("=")
        try:
            margin = float(value)
        except ValueError:
            margin = math.nan
        if not mode_id or not 0 < margin < math.inf:
            raise WrongUsage(f"--margin {text}: expected MODE=VALUE with a value above 0, such as bart=2")
        if mode_id in stated:
            raise WrongUsage(f"--margin {text}: {mode_id} has a margin already")
        stated[mode_id] = margin
    return stated


def numbers(found: Sequence[Comparison]) -> Sheet:
    """Return every number of a comparison, unrounded: one row per mode."""
    names = tuple(Comparison.__dataclass_fields__)
    return Sheet(names, tuple(tuple(getattr(each, name) for name in names) for each in found))


def drawn(found: Sequence[Comparison], a: Compared, b: Compared) -> Sheet:
    """Return a comparison as it is read: one row per mode, rounded, without columns that are empty."""
    headers = (
        "Task mode",
        "Unit",
        f"A: {a.name}",
        f"B: {b.name}",
        "A - B",
        "SE",
        "95% CI",
        "Bootstrap CI",
        "Pairs",
        "Clusters",
        "Test",
        "p",
        "p (Holm)",
        "Bootstrap p",
        "Both/A/B/neither",
        "McNemar p",
        "Margin",
        "Equivalence p",
        "Detectable",
        "Why not",
    )
    rows = [_row(each) for each in found]
    # the first four columns say what was compared
    kept = [i for i in range(len(headers)) if i < 4 or any(row[i] for row in rows)]
    n_first, n_last = 2, len(headers) - 1
    return Sheet(
        tuple(headers[i] for i in kept),
        tuple(tuple(row[i] for i in kept) for row in rows),
        printed=frozenset(
            place for place, i in enumerate(kept) if n_first <= i < n_last and headers[i] != "Test"
        ),
        # too long for a cell: pairs by name, and what to know of a number
        notes=tuple(
            f"{each.mode_id}: {sentence}"
            for each in found
            for sentence in (each.reason if each.status == "unpaired" else None, each.note)
            if sentence
        ),
    )


def _row(each: Comparison) -> tuple[str, ...]:
    # differences are smaller than values
    digits = each.decimals + 1

    def number(value: float | None) -> str:
        if value is None:
            return ""
        return f"{value:.{digits}f}" if math.isfinite(value) else "+∞" if value > 0 else "-∞"

    def interval(low: float | None, high: float | None) -> str:
        return "" if low is None or high is None else f"[{number(low)}, {number(high)}]"

    counts = (each.both_right, each.a_only, each.b_only, each.both_wrong)
    is_paired = each.status in ("tested", "untested")
    n_pairs = f"{each.n_pairs} {each.pair}{'' if each.n_pairs == 1 else 's'}" if is_paired else ""
    return (
        each.label,
        each.unit,
        number(each.value_a),
        number(each.value_b),
        number(each.difference),
        number(each.se),
        interval(each.ci_low, each.ci_high),
        interval(each.bootstrap_low, each.bootstrap_high),
        n_pairs,
        "" if each.n_clusters is None else str(each.n_clusters),
        each.test or "",
        _probability(each.p),
        _probability(each.p_holm),
        _probability(each.bootstrap_p),
        "" if None in counts else "/".join(map(str, counts)),
        _probability(each.mcnemar_p),
        "" if each.margin is None or not is_paired else f"{each.margin:g}",
        _probability(each.equivalence_p),
        number(each.detectable),
        "pairs are missing" if each.status == "unpaired" else each.reason or "",
    )


def _probability(p: float | None) -> str:
    return "" if p is None else f"{p:.3g}"
