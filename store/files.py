"""Writing files of which no reader sees half."""

import errno
import os
from contextlib import suppress
from pathlib import Path

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
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
            file.flush()
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
