"""Prompt templates: one file per template under ``manifests/prompts``, read and filled here.

A template holds one or more texts with named places such as ``{letters}``: ``prompt`` is the whole prompt,
any other is a part of it, such as the line of one earlier trial. For items a text becomes a SQL expression
over the columns of these names, so a prompt is built for all of them at once; what is told while an episode
is played is filled here.
"""

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from store.errors import InvalidSource
from store.settings import project_dir


@dataclass(frozen=True, slots=True)
class Template:
    """One prompt template.

    Attributes
    ----------
    id
        Name of its file; ``template_id`` of the items.
    sha256
        Hash of its texts: two items with the same hash were asked in the same words.
    texts
        By name; ``prompt`` is always there.
    """

    id: str
    sha256: str
    texts: Mapping[str, str]

    def sql(self, name: str = "prompt") -> str:
        """Return a SQL expression that fills the text ``name`` from columns named as its places.

        A null in any place makes the whole text null.
        """
        parts = []
        for literal, place, _, _ in Formatter().parse(self.texts[name]):
            if literal:
                parts.append("'" + literal.replace("'", "''") + "'")
            if place is not None:
                parts.append(f"cast({place} as varchar)")
        return "(" + " || ".join(parts) + ")"

    def fill(self, name: str, places: Mapping[str, object]) -> str:
        """Return the text ``name`` with its places filled.

        Parameters
        ----------
        places
            What stands in each place; braces in it mean nothing. Places that the text lacks are ignored.

        Raises
        ------
        InvalidSource
            If there is no such text, or nothing stands in one of its places.
        """
        if name not in self.texts:
            raise InvalidSource(f"{self.id}: expected a text named {name}, found {', '.join(self.texts)}")
        return self.texts[name].format_map(_Places(self.id, name, places))


@dataclass(frozen=True, slots=True)
class _Places:
    """Places of one text, of which none may be empty."""

    template: str
    text: str
    values: Mapping[str, object]

    def __getitem__(self, place: str) -> object:
        value = self.values.get(place)
        if value is None:
            raise InvalidSource(
                f"{self.template}: {self.text}: expected something to stand in {{{place}}}, found nothing"
            )
        return value


class _File(BaseModel):
    """What a template file states."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    description: Annotated[str, Field(strict=True, min_length=1)]
    texts: dict[str, Annotated[str, Field(strict=True, min_length=1)]]

    @field_validator("texts")
    @classmethod
    def _can_be_filled(cls, texts: dict[str, str]) -> dict[str, str]:
        if "prompt" not in texts:
            raise ValueError("expected a text named prompt")
        for name, text in texts.items():
            for _, place, how, conversion in Formatter().parse(text):
                if place is not None and (not place.isidentifier() or how or conversion):
                    raise ValueError(f"{name}: expected places such as {{letters}}, found {{{place}}}")
        return texts


def load_template(template_id: str, folder: Path | None = None) -> Template:
    """Read one template.

    Raises
    ------
    InvalidSource
        If there is no such file or it is not valid; the sentence names file and key.
    """
    path = (folder or project_dir() / "manifests" / "prompts") / f"{template_id}.toml"
    try:
        texts = _File.model_validate(tomllib.loads(path.read_text(encoding="utf-8"))).texts
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidSource(f"{path.name}: cannot be read ({error})") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidSource(f"{path.name}: {where}: {first['msg']}") from error
    except ValueError as error:
        raise InvalidSource(f"{path.name}: {error}") from error
    canonical = json.dumps(texts, sort_keys=True, ensure_ascii=False)
    return Template(template_id, hashlib.sha256(canonical.encode()).hexdigest(), texts)
