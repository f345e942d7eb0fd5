"""Blocks of the manifests of Learning."""

import re
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from store.errors import InvalidSource

_NAME = re.compile(r"[a-z][a-z0-9_]*")


def read_blocks(path: Path, taken: Collection[str]) -> Mapping[str, dict[str, Any]]:
    """Return the blocks of a manifest by their names.

    Parameters
    ----------
    taken
        Keys that a block may not have, since name and place of the block say them.

    Raises
    ------
    InvalidSource
        If the file cannot be read, or holds anything but named blocks.
    """
    try:
        blocks = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidSource(f"{path.name}: cannot be read ({error})") from error
    for name, block in blocks.items():
        if not _NAME.fullmatch(name) or not isinstance(block, dict):
            raise InvalidSource(
                f"{path.name}: {name!r:.80}: expected a block named in lower case, digits and _"
            )
        if found := [key for key in taken if key in block]:
            raise InvalidSource(f"{path.name}: {name}: {found[0]}: expected no such key: the block says it")
    return blocks
