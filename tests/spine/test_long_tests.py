"""The list of long tests names tests that exist: a stale line would bring a long test
back into the quick run.
"""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
LINES = [
    line
    for line in (TESTS / "long_tests.txt").read_text().splitlines()
    if not line.startswith("#")
]


@pytest.mark.parametrize("line", LINES)
def test_a_long_test_exists(line):
    path, name = re.match(r"(.*\.py)::(\w+)", line).groups()
    files = [
        file for file in TESTS.rglob(Path(path).name) if file.as_posix().endswith(path)
    ]
    assert len(files) == 1 and f"def {name}(" in files[0].read_text()
