"""Rules that find the responses in a transcript, and what belongs to each; they become SQL over columns.

A transcript is the text of one person's session with every response marked ``<<so>>``. What can be known of
a response stands in four places: the instructions (before the first mark), the lead (since the mark before),
the block (the visible text since history began anew) and the tail (until the next mark). Rules name a place
and a pattern; ``manifests/psych_101.toml`` explains each key.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

import duckdb
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from store.errors import InvalidSource
from store.settings import project_dir

_Text = Annotated[str, Field(strict=True, min_length=1)]
_As = Literal["text", "number", "option"]

_BLOCK_BYTES = 2 << 20
# these transcripts were written for a window of 32,768 tokens: a longer one is damaged, and would not fit
LONGEST_PROMPT = 1 << 18
LONGEST_LINE = 2 << 20


class _Rules(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _valid_pattern(pattern: str | None) -> str | None:
    if pattern is not None:
        try:
            duckdb.execute("select regexp_matches('', $pattern)", {"pattern": pattern})
        except duckdb.Error as error:
            raise ValueError(f"{pattern!r} is not a pattern ({str(error).splitlines()[0]})") from error
    return pattern


class Finding(_Rules):
    """A text in a place: the group of ``find``, or the whole place; ``each`` makes a list of its parts."""

    where: Literal["instructions", "lead", "block", "tail"] = "lead"
    find: _Text | None = None
    each: _Text | None = None

    _patterns = field_validator("find", "each")(_valid_pattern)

    def text(self) -> str:
        """Return the text as SQL; null if it is not there."""
        if self.find is None:
            return self.where
        group = _group(self.find)
        if self.where in {"lead", "block"}:
            return f"regexp_extract_all({self.where}, {quoted(self.find)}, {group})[-1]"
        return f"nullif(regexp_extract({self.where}, {quoted(self.find)}, {group}), '')"

    def parts(self) -> str:
        """Return the list of the parts as SQL."""
        return _parts(self.text(), self.each or "(?s).+")


class Fact(Finding):
    """One visible fact of a response: a value, a list, or a list of lists."""

    inner: _Text | None = None
    codes: dict[str, float] = {}
    flags: tuple[_Text, ...] = ()
    kind: Annotated[_As | tuple[_As, ...], Field(alias="as")] = "text"

    _inner = field_validator("inner")(_valid_pattern)

    def sql(self) -> str:
        """Return the value as SQL over the places and ``options``."""
        if self.each is None:
            return self._value(self.text(), self.kind)
        if self.flags:
            flags = ", ".join(quoted(flag) for flag in self.flags)
            found = f"case when {self.text()} is not null then [{flags}] end"
            return f"list_transform({found}, lambda flag: list_contains({self.parts()}, flag)::integer)"
        if self.inner is None:
            return f"list_transform({self.parts()}, lambda part: {self._value('part', self.kind)})"
        if isinstance(self.kind, str):
            value = f"list_transform(pieces, lambda piece: {self._value('piece', self.kind)})"
        else:
            value = ", ".join(
                f"cast({self._value(f'pieces[{place}]', kind)} as double)"
                for place, kind in enumerate(self.kind, start=1)
            )
            value = f"[{value}]"
        pieces = f"list_transform({self.parts()}, lambda part: {_parts('part', self.inner)})"
        return f"list_transform({pieces}, lambda pieces: {value})"

    def _value(self, text: str, kind: _As | tuple[_As, ...]) -> str:
        if kind == "option":
            return f"list_position(options, {text}) - 1"
        return number(text, self.codes) if kind == "number" else text


class Options(Finding):
    """What the response may be: a list, whole numbers, or parts of a text."""

    listed: Annotated[tuple[_Text, ...], Field(alias="list")] = ()
    integers: tuple[int, int] | None = None

    @model_validator(mode="after")
    def _has_one_form(self) -> Self:
        if [bool(self.listed), self.integers is not None, self.each is not None].count(True) != 1:
            raise ValueError("expected one of list, integers, and find with each")
        if self.where not in {"instructions", "lead"} or len(set(self.listed)) < len(self.listed):
            raise ValueError("expected options that are visible and differ")
        return self

    def sql(self) -> str:
        """Return the list as SQL; null or short where the text does not say."""
        if self.integers is not None:
            low, high = self.integers
            return f"cast(range({low}, {high + 1}) as varchar[])"
        if self.listed:
            return "[" + ", ".join(quoted(option) for option in self.listed) + "]"
        return f"list_transform({self.parts()}, lambda option: trim(option))"


class Credited(_Rules):
    """What is right: named in the tail, judged there, or whether one fact is among those of another.

    Attributes
    ----------
    codes
        Name of what was right -> place of its option, from 0.
    right, wrong
        Patterns of a tail that judges; wrong means the other of two options.
    fact, within
        Names of facts: the first option is right if ``fact`` is one of ``within``, else the second.
    """

    find: _Text | None = None
    codes: dict[str, int] = {}
    right: _Text | None = None
    wrong: _Text | None = None
    fact: _Text | None = None
    within: _Text | None = None

    _patterns = field_validator("find", "right", "wrong")(_valid_pattern)

    def sql(self, facts: Mapping[str, str]) -> str:
        """Return the option as SQL over the places, ``options`` and ``response``; null if it is not known.

        ``facts`` gives the column of each fact.
        """
        if self.fact is not None and self.within is not None:
            is_within = f"list_contains({facts[self.within]}, {facts[self.fact]})"
            return f"case {is_within} when true then options[1] when false then options[2] end"
        rules = []
        if self.find is not None:
            named = Finding(where="tail", find=self.find).text()
            place = f"{mapped(self.codes, 'integer')}[{named}] + 1" if self.codes else None
            rules.append(f"options[{place}]" if place else _one_of_options(named))
        if self.wrong is not None:
            other = "list_filter(options, lambda option: option <> response)[1]"
            is_pair = "len(options) = 2 and list_contains(options, response)"
            rules.append(
                f"case when regexp_matches(tail, {quoted(self.wrong)}) and {is_pair} then {other} end"
            )
        if self.right is not None:
            right = f"regexp_matches(tail, {quoted(self.right)})"
            rules.append(f"case when {right} then {_one_of_options('response')} end")
        return f"coalesce({', '.join(rules)})"


class Target(_Rules):
    """The number to be matched: the response itself, or one that the tail names."""

    find: _Text | None = None
    is_response: bool = False

    _patterns = field_validator("find")(_valid_pattern)

    @model_validator(mode="after")
    def _has_one_form(self) -> Self:
        if (self.find is None) is not self.is_response:
            raise ValueError("expected find or is_response = true")
        return self


class Mark(_Rules):
    """One kind of response."""

    lead: _Text = ""
    tail: _Text | None = None
    options: Options
    numbers: dict[str, float] = {}
    credited: Credited | None = None
    target: Target | None = None
    support: tuple[float, float] | None = None
    facts: dict[str, Fact] = {}

    _patterns = field_validator("lead", "tail")(_valid_pattern)

    def condition(self) -> str:
        """Return as SQL whether a mark is of this kind."""
        conditions = [f"regexp_matches(lead, {quoted(self.lead)})"]
        if self.tail is not None:
            conditions.append(f"regexp_matches(tail, {quoted(self.tail)})")
        return " and ".join(conditions)


class Task(_Rules):
    """Experiments whose transcripts are read in one way."""

    mode: _Text
    experiments: tuple[_Text, ...]
    split: Literal["file", "participants"] = "file"
    block: _Text | None = None
    block_fact: _Text | None = None
    history: Literal["session", "block"] = "session"
    marks: Annotated[tuple[Mark, ...], Field(min_length=1)]

    _patterns = field_validator("block")(_valid_pattern)

    @model_validator(mode="after")
    def _has_the_places_that_it_names(self) -> Self:
        facts = [fact for mark in self.marks for fact in mark.facts.values()]
        needs_block = (
            self.history == "block"
            or self.block_fact is not None
            or any(fact.where == "block" for fact in facts)
        )
        if self.block is None and needs_block:
            raise ValueError("expected a pattern that begins a block, because something asks for blocks")
        if any(fact.where == "tail" for fact in facts):
            raise ValueError("expected facts from what is visible, found one from the tail")
        return self


class TranscriptRules(_Rules):
    """The whole manifest.

    Attributes
    ----------
    version
        Version of the reading of the same bytes.
    files
        Name of a file -> split of the people in it.
    tasks
        By name.
    """

    version: Annotated[int, Field(strict=True, ge=1)]
    files: dict[str, Literal["train", "test"]]
    tasks: dict[str, Task]

    @model_validator(mode="after")
    def _has_each_experiment_once(self) -> Self:
        named = [experiment for task in self.tasks.values() for experiment in task.experiments]
        if twice := sorted({experiment for experiment in named if named.count(experiment) > 1}):
            raise ValueError(f"{', '.join(twice)} belongs to more than one task")
        return self


def load_rules(path: Path | None = None) -> TranscriptRules:
    """Read the rules, by default ``manifests/psych_101.toml`` of the project.

    Raises
    ------
    InvalidSource
        If the file cannot be read or a rule is not valid; the sentence names file and key.
    """
    path = path or project_dir() / "manifests" / "psych_101.toml"
    try:
        return TranscriptRules.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidSource(f"{path.name}: {where or 'tasks'}: {first['msg']}") from error
    except (OSError, ValueError) as error:
        raise InvalidSource(f"{path.name}: cannot be read ({error})") from error


def blocks_of_lines(path: Path, where: str) -> Iterator[list[bytes | None]]:
    """Yield the lines of a file, some megabytes at a time, without a byte order mark.

    A line of more than :data:`LONGEST_LINE` bytes is given as None: it would not fit into memory.

    Raises
    ------
    InvalidSource
        If the file cannot be read to its end; ``where`` names it.
    """
    rest, is_too_long = b"", False
    try:
        with path.open("rb") as handle:
            if handle.read(3) != b"\xef\xbb\xbf":
                handle.seek(0)
            while block := handle.read(_BLOCK_BYTES):
                *lines, rest = (rest + block).split(b"\n")
                found: list[bytes | None] = list(lines)
                if is_too_long and found:
                    found[0], is_too_long = None, False
                if len(rest) > LONGEST_LINE or is_too_long:
                    rest, is_too_long = b"", True
                yield found
    except OSError as error:
        raise InvalidSource(f"{where}: cannot be read to its end ({error.strerror})") from error
    yield [None if is_too_long else rest]


def quoted(text: str) -> str:
    """Return a text as a SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def mapped(codes: Mapping[str, float], sql_type: str = "double") -> str:
    """Return codes as a SQL map."""
    pairs = ", ".join(f"{quoted(name)}: cast({code} as {sql_type})" for name, code in codes.items())
    return f"map {{{pairs}}}"


def number(text: str, codes: Mapping[str, float]) -> str:
    """Return the finite number that a text stands for, as SQL; null if it stands for none."""
    plain = f"try_cast({text} as double)"
    finite = f"case when isfinite({plain}) then {plain} end"
    return f"coalesce({mapped(codes)}[{text}], {finite})" if codes else finite


def _parts(text: str, pattern: str) -> str:
    return f"regexp_extract_all({text}, {quoted(pattern)}, {_group(pattern)})"


def _group(pattern: str) -> int:
    # RE2 numbers groups as Python does
    return min(re.compile(pattern).groups, 1)


def _one_of_options(text: str) -> str:
    return f"case when list_contains(options, {text}) then {text} end"
