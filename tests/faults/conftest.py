"""What the faults share: the server that starts and kills commands, and the lake that nothing happened to."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fault_lakes import Whole, make_whole
from kill_server import KillServer

from store.settings import Home


@pytest.fixture(scope="session")
def kill_server(tmp_path_factory: pytest.TempPathFactory, project: Path) -> Iterator[KillServer]:
    """Starts commands in forks of one process."""
    with KillServer(tmp_path_factory.mktemp("jobs"), project) as server:
        yield server


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory, kill_server: KillServer, empty_lake: Home) -> Whole:
    """Every command, run once and undisturbed. Read only: a fault is tried in a copy."""
    return make_whole(kill_server, tmp_path_factory.mktemp("whole"), empty_lake.database)
