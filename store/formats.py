"""Text forms of a table: CSV, Markdown, LaTeX, JSON and HTML."""

import csv
import html
import io
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""A spreadsheet reads a cell that begins with one of these as a formula; the last four are wide forms."""

_MARKDOWN = str.maketrans({character: f"\\{character}" for character in "\\`*_[]<>|~&$"})
_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        # after the \\ of the row before, these two would be read as its arguments
        "[": "{[}",
        "*": "{*}",
        "±": r"$\pm$",
        **{character: f"\\{character}" for character in "&%_#${}"},
    }
)


class Format(StrEnum):
    """A text form that a table can be written in."""

    CSV = "csv"
    MD = "md"
    LATEX = "latex"
    JSON = "json"
    HTML = "html"

    @property
    def extension(self) -> str:
        """File name extension, without the dot."""
        return "tex" if self is Format.LATEX else self.value


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table ready to be written.

    Attributes
    ----------
    headers
        Column names.
    rows
        One tuple per row, as wide as ``headers``.
    printed
        Positions of the columns that hold printed numbers and statuses: ``-0.25`` there is no formula.
    notes
        Sentences for the person who asked; they are no part of the table.
    beside
        Neighbouring columns that say one thing: positions of a value and of its standard error, or of a value
        and both ends of its interval. Forms for reading show them as one.
    """

    headers: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    printed: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()
    beside: tuple[tuple[int, ...], ...] = ()


def render(sheet: Sheet, form: Format) -> str:
    """Return ``sheet`` as text that ends in a line break."""
    match form:
        case Format.CSV:
            return _csv(sheet)
        case Format.MD:
            return _markdown(as_read(sheet))
        case Format.LATEX:
            return _latex(as_read(sheet))
        case Format.JSON:
            return to_json(records(sheet))
        case Format.HTML:
            return _html(as_read(sheet))


def as_read(sheet: Sheet) -> Sheet:
    """Return a table as people read it: ``71.5 ± 1.0`` or ``71.5 [69.4, 73.6]`` in one cell."""
    if not sheet.beside:
        return sheet
    group_of = {group[0]: group for group in sheet.beside}
    inner = {index for group in sheet.beside for index in group[1:]}
    kept = [index for index in range(len(sheet.headers)) if index not in inner]
    return Sheet(
        headers=tuple(sheet.headers[index] for index in kept),
        rows=tuple(
            tuple(_joined(*(row[i] for i in group_of.get(index, (index,)))) for index in kept)
            for row in sheet.rows
        ),
        printed=frozenset(
            place for place, index in enumerate(kept) if index in sheet.printed or index in group_of
        ),
        notes=sheet.notes,
    )


def _joined(value: object, *beside: object) -> object:
    if not beside or value is None or None in beside:
        return value
    cells = [text(cell) for cell in beside]
    return f"{text(value)} ± {cells[0]}" if len(cells) == 1 else f"{text(value)} [{', '.join(cells)}]"


def text(value: object) -> str:
    """Return a cell as text: empty for null and for NaN, ``+∞`` and ``-∞`` for the infinite."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return "" if math.isnan(value) else f"{'+' if value > 0 else '-'}∞"
    if isinstance(value, list | dict):
        return json.dumps(_plain(value), ensure_ascii=False, allow_nan=False)
    return str(value)


def to_json(value: object) -> str:
    """Return strict JSON: null stands for NaN and for the infinite, text for what JSON has no type for."""
    return json.dumps(_plain(value), ensure_ascii=False, allow_nan=False, indent=2) + "\n"


def records(sheet: Sheet) -> list[dict[str, object]]:
    """Return one mapping per row; the second column of a name gets ``_2`` after it."""
    names: list[str] = []
    for header in sheet.headers:
        name, n = header, 1
        while name in names:
            n += 1
            name = f"{header}_{n}"
        names.append(name)
    return [dict(zip(names, row, strict=True)) for row in sheet.rows]


def _plain(value: object) -> object:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {str(key): _plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_plain(inner) for inner in value]
        case _ if is_dataclass(value):
            return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
        case _:
            return str(value)


def _csv(sheet: Sheet) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([_guarded(header) for header in sheet.headers])
    for row in sheet.rows:
        writer.writerow(
            [
                _guarded(cell) if isinstance(cell, str) and index not in sheet.printed else text(cell)
                for index, cell in enumerate(row)
            ]
        )
    return stream.getvalue()


def _guarded(name: str) -> str:
    """Put an apostrophe before a text that a spreadsheet would run as a formula."""
    is_formula = name.startswith(FORMULA_STARTS) and name not in ("+∞", "-∞")
    guarded = f"'{name}" if is_formula else name
    # the csv module does not quote a lone carriage return, which its own reader takes for a line's end
    return guarded.replace("\r\n", "\n").replace("\r", "\n")


def _markdown(sheet: Sheet) -> str:
    def line(cells: Sequence[object]) -> str:
        return f"| {' | '.join(_one_line(cell).translate(_MARKDOWN) for cell in cells)} |\n"

    rule = "|" + "".join(" ---: |" if right else " --- |" for right in is_right_aligned(sheet)) + "\n"
    return line(sheet.headers) + rule + "".join(line(row) for row in sheet.rows)


def _latex(sheet: Sheet) -> str:
    columns = "".join("r" if right else "l" for right in is_right_aligned(sheet))
    lines = [
        f"\\begin{{tabular}}{{{columns}}}",
        r"\hline",
        " & ".join(_latex_cell(header) for header in sheet.headers) + r" \\",
        r"\hline",
        *(" & ".join(_latex_cell(cell) for cell in row) + r" \\" for row in sheet.rows),
        r"\hline",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _latex_cell(value: object) -> str:
    return _one_line(value).translate(_LATEX).replace("+∞", r"$+\infty$").replace("-∞", r"$-\infty$")


def _html(sheet: Sheet) -> str:
    aligned = ['<td style="text-align: right">' if right else "<td>" for right in is_right_aligned(sheet)]

    def lines() -> Iterator[str]:
        yield '<!doctype html>\n<meta charset="utf-8">\n<table>\n<thead>\n<tr>'
        yield from (f"<th>{html.escape(header)}</th>" for header in sheet.headers)
        yield "</tr>\n</thead>\n<tbody>\n"
        for row in sheet.rows:
            cells = (f"{tag}{html.escape(text(cell))}</td>" for tag, cell in zip(aligned, row, strict=True))
            yield f"<tr>{''.join(cells)}</tr>\n"
        yield "</tbody>\n</table>\n"

    return "".join(lines())


def _one_line(value: object) -> str:
    return " ".join(text(value).splitlines())


def is_right_aligned(sheet: Sheet) -> list[bool]:
    """Tell which columns hold numbers: all printed ones, and those without a text in them."""
    return [
        index in sheet.printed
        or (bool(sheet.rows) and all(isinstance(row[index], int | float | None) for row in sheet.rows))
        for index in range(len(sheet.headers))
    ]
