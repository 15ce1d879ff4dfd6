"""The version is one: in the package, the project file, the changelog, and in the tag
of a commit that has one.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import giantstep as gs

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import release_matrix  # noqa: E402


def test_the_files_say_one_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    newest = re.search(
        r"^## \[(.*?)\]", (ROOT / "CHANGELOG.md").read_text(), flags=re.M
    )[1]
    assert project["version"] == newest == gs.__version__


def test_a_tag_is_the_version():
    listed = subprocess.run(
        ["git", "tag", "--points-at", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout
    assert [
        tag
        for tag in listed.split()
        if re.match(r"v\d", tag) and tag != f"v{gs.__version__}"
    ] == []


def test_the_workflow_compares_the_tag_with_the_version():
    workflow = "".join(
        path.read_text() for path in (ROOT / ".github" / "workflows").glob("*.yml")
    )
    assert "GITHUB_REF_NAME" in workflow and '["version"]' in workflow


def test_rows_that_are_not_run_stay(tmp_path):
    table = tmp_path / "table.md"
    table.write_text(
        "| Python | environment | versions | outcome | wheel |\n| 3.11.7 | oldest | a |"
        " x | 0.1.0 |\n"
    )
    rows = release_matrix.merged(
        table, ["| 3.11.7 | types | b | y |", "| 3.11.7 | oldest | a | z |"]
    )
    assert rows[2:] == ["| 3.11.7 | oldest | a | z |", "| 3.11.7 | types | b | y |"]
