import subprocess
import sys

import pytest
from pydantic import BaseModel, Field, ValidationError, field_validator

from store.errors import first_line


class Settings(BaseModel):
    length: int = Field(gt=0)
    name: str = "small"

    @field_validator("name")
    @classmethod
    def _is_known(cls, name):
        if name != "small":
            raise ValueError("no such name.\nThere is small.")
        return name


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("it is broken"), "it is broken"),
        (ValueError("\n  it is broken.\nand this is a trace\n"), "it is broken"),
        (ValueError("it is\r\nbroken"), "it is"),
        (ValueError(), "ValueError"),
        (ValueError(" \n "), "ValueError"),
        (OSError(28, "No space left on device", "a"), "[Errno 28] No space left on device: 'a'"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
    ],
)
def test_an_error_is_told_by_its_first_line(error, line):
    assert first_line(error) == line


def test_a_line_without_end_is_cut():
    assert first_line(ValueError("x" * 300)) == "x" * 300
    assert first_line(ValueError("x" * 301)) == "x" * 300 + "..."


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"length": 0}, "length: Input should be greater than 0"),
        ({"length": 1, "name": "large"}, "name: Value error, no such name"),
        ({"length": 0, "name": "large"}, "length: Input should be greater than 0"),
        ("small", "Input should be a valid dictionary or instance of Settings"),
    ],
)
def test_an_error_of_pydantic_is_told_by_what_is_wrong_first(values, line):
    with pytest.raises(ValidationError) as raised:
        Settings.model_validate(values)
    assert str(raised.value).splitlines()[0].endswith("for Settings")
    assert first_line(raised.value) == line


def test_errors_cost_no_import_of_pydantic():
    code = "import sys, store.errors; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
