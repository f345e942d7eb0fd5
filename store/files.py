"""Writing files of which no reader sees half."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from store.errors import LakeUnusable, WrongUsage


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file under another name, flush it and rename it; a link that was there is replaced.

    Raises
    ------
    WrongUsage
        If the file cannot be written there.
    LakeUnusable
        If the disk is full.
    """
    with replacing(path) as temporary:
        temporary.write_bytes(content if isinstance(content, bytes) else content.encode())


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give the name that a file is to be written under; without an error in between it becomes ``path``.

    Raises
    ------
    WrongUsage
        If the file cannot be written there.
    LakeUnusable
        If the disk is full.
    """
    # not named after the process: in a container the next one has the number of the one that was killed
    temporary = path.with_name(f".{path.name}.{token_hex(8)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # exclusively, so that two writers in one process never mix
        temporary.open("xb").close()
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        sentence = f"{path}: cannot be written ({error.strerror})"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise LakeUnusable(f"{sentence}; free some space and run the same command again") from error
        raise WrongUsage(sentence) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
