"""What a page says was verified names its test, study or stored result, and that
exists.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for path in (ROOT / "docs").glob("*.md")
    if "\n## What was verified\n" in path.read_text()
)
NAME = re.compile(r"`((?:tests|benchmarks)/[\w/.*-]+)(?:::(\w+))?`")


def verified(page):
    """Return the section without what directives write."""
    section = (
        page.read_text().partition("\n## What was verified\n")[2].partition("\n## ")[0]
    )
    return re.sub(r"```\{.*?```", "", section, flags=re.S)


def test_every_family_is_among_them():
    assert len(PAGES) >= 10


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_names_exist(page):
    for file, test in NAME.findall(verified(page)):
        assert list(ROOT.glob(file)), file
        if test:
            assert re.search(
                rf"^def {test}\(", (ROOT / file).read_text(), flags=re.M
            ), f"{file}::{test}"
