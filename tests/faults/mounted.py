"""Disks that a test may fill and folders that nobody may write to, in a mount namespace of their own.

Nothing outside sees these mounts, and they are gone with the process that holds them; so a test needs no
right that its user lacks, where the system grants namespaces to users.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Self

import pytest
from support import ROOT

_AS_ROOT = () if os.geteuid() == 0 else ("--map-root-user",)
_INTO_USER = () if os.geteuid() == 0 else ("--user", "--preserve-credentials")
_COGLAKE = "from store.cli import main; main()"


class Mounts:
    """A mount namespace; commands are run inside it.

    Entering it skips the test where the system lets this user make none.
    """

    def __enter__(self) -> Self:
        """Make the namespace."""
        if shutil.which("unshare") is None or shutil.which("nsenter") is None:
            pytest.skip("no unshare and nsenter here, so no small disk can be mounted")
        self._holder = subprocess.Popen(
            ["unshare", "--mount", *_AS_ROOT, "sh", "-c", "mount -t tmpfs none /mnt && echo yes; cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != "yes\n":
            self._holder.communicate()
            pytest.skip("the system lets this user mount nothing, so no small disk either")
        return self

    def __exit__(self, *_: object) -> None:
        """End the process that holds it, and with it the mounts."""
        self._holder.communicate()

    def run(self, *command: str, folder: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command inside, in ``folder``."""
        enter = ["nsenter", f"--target={self._holder.pid}", "--mount", *_INTO_USER, f"--wd={folder}"]
        return subprocess.run(
            [*enter, *command], env=os.environ | environment, text=True, capture_output=True, check=False
        )

    def done(self, *command: str) -> str:
        """Run a command inside that has to succeed; return what it prints."""
        ended = self.run(*command)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def python(self, code: str, *arguments: str) -> str:
        """Run Python code inside that may import the store and ``support``; return what it prints."""
        path = os.pathsep.join((str(ROOT), str(ROOT / "tests")))
        return self.done("env", f"PYTHONPATH={path}", sys.executable, "-c", code, *arguments)

    def coglake(self, lake: Path, project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command line inside, in the folder of the project."""
        return self.run(
            *(sys.executable, "-c", _COGLAKE, *arguments),
            folder=project,
            PYTHONPATH=str(ROOT),
            COGLAKE_HOME=str(lake),
        )

    def small_disk(self, folder: Path, megabytes: int) -> "Disk":
        """Mount an empty disk of that size over a folder."""
        self.done("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "none", str(folder))
        return Disk(self, folder)

    def write_protect(self, folder: Path) -> None:
        """Let nobody write below a folder, whatever the rights of its files."""
        self.done("mount", "--bind", str(folder), str(folder))
        self.done("mount", "-o", "remount,bind,ro", str(folder))


class Disk:
    """A disk of a few megabytes."""

    def __init__(self, mounts: Mounts, folder: Path) -> None:
        self._mounts = mounts
        self.folder = folder

    def fill(self, n_free_kib: int) -> None:
        """Leave so many KiB free."""
        self.clear()
        total = int(self._mounts.done("df", "--output=avail", "-B1024", str(self.folder)).split()[-1])
        ballast = max(1, total - n_free_kib)
        self._mounts.done("fallocate", "-l", f"{ballast}KiB", str(self.folder / "ballast"))

    def clear(self) -> None:
        """Free what :meth:`fill` took."""
        self._mounts.done("rm", "-f", str(self.folder / "ballast"))
