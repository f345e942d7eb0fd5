"""The tests that docs/reliability.md names are there."""

import re

from support import ROOT

NAMED = re.compile(r"`(?P<file>tests/[a-z_/0-9]+\.py)?(?:::(?P<test>test_\w+))?`")


def named(text: str) -> list[tuple[str, str | None]]:
    """Return file and test of each name; one without a file is in the file named before it."""
    found, file = [], ""
    for match in NAMED.finditer(text):
        if match["file"] or match["test"]:
            file = match["file"] or file
            found.append((file, match["test"]))
    return found


def test_a_name_without_a_file_is_in_the_file_before():
    text = "`tests/unit/test_a.py::test_x`, `::test_y`; `coglake`; `tests/unit/test_b.py`"
    assert named(text) == [
        ("tests/unit/test_a.py", "test_x"),
        ("tests/unit/test_a.py", "test_y"),
        ("tests/unit/test_b.py", None),
    ]


def test_every_test_that_the_document_names_is_there():
    names = named((ROOT / "docs" / "reliability.md").read_text(encoding="utf-8"))
    assert len(names) > 50
    missing = [
        (file, test)
        for file, test in names
        if not (ROOT / file).is_file() or (test and f"\ndef {test}(" not in (ROOT / file).read_text())
    ]
    assert missing == []
