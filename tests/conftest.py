"""What tests share: a copy of the project, the demo lake built once, and the mirror or its absence."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import built, copy_project

from generate import demo_archive
from ingest.pipeline import ingest
from store.manifest import load_sources
from store.settings import Home

_skipped_for_mirror: list[pytest.Item] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests that need the mirror if nobody says where it is."""
    if os.environ.get("COGLAKE_MIRROR"):
        return
    for item in items:
        if item.get_closest_marker("mirror"):
            item.add_marker(pytest.mark.skip(reason="COGLAKE_MIRROR is not set"))
            _skipped_for_mirror.append(item)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line what was skipped, also with -q."""
    if _skipped_for_mirror:
        terminalreporter.write_line(
            f"COGLAKE_MIRROR is not set: {len(_skipped_for_mirror)} mirror tests are skipped"
        )


@pytest.fixture(scope="session", autouse=True)
def no_real_lake(tmp_path_factory) -> Iterator[None]:
    """A command that is told nothing writes here, and not into the lake of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COGLAKE_HOME", str(tmp_path_factory.mktemp("home") / "lake"))
        yield


@pytest.fixture(scope="session")
def project(tmp_path_factory) -> Path:
    """A copy of the project; a test that edits it takes a copy of its own."""
    return copy_project(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="session")
def empty_lake(tmp_path_factory, project) -> Home:
    """A lake without rows, built once. Read only."""
    lake = Home(tmp_path_factory.mktemp("empty") / "lake")
    built(lake, project)
    return lake


@pytest.fixture(scope="session")
def demo_lake(tmp_path_factory, project) -> Home:
    """The demo archive, ingested and built once. Read only: a test that changes it takes a copy."""
    folder = tmp_path_factory.mktemp("demo")
    demo_archive.write(folder / "mirror")
    lake = Home(folder / "lake")
    [report] = ingest(lake, [load_sources()["demo_archive"]], mirror=str(folder / "mirror"))
    assert report.failures == ()
    built(lake, project)
    return lake
