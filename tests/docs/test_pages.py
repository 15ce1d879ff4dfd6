"""Every family has a page, and all of these pages have the same shape."""

import json
import re
import sys
from pathlib import Path

import pytest

from giantstep.core.scenario.families import SHIPPED

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))

from tables import WRITERS, prose, table, written

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.glob("*.md"))
OF_THE_SITE = {"index.md", "api.md", "plain_files.md"}
"""Pages that only the site has: its front, the docstrings of the public names, and the
plain files of the theory.
"""
SHAPE = [
    "In five lines",
    "The model",
    "The equations",
    "What was verified",
    "What is not there yet",
    "Traps",
    "Fields",
    "Questions",
    "References",
]


@pytest.mark.parametrize("family", sorted(SHIPPED))
def test_a_page_has_the_shape_of_all(family):
    text = (DOCS / f"{family.replace('-', '_')}.md").read_text()
    headings = re.findall(r"^## (.*)$", text, flags=re.M)
    assert [heading for heading in headings if heading in SHAPE] == SHAPE
    opening = text.partition("## ")[0]
    assert re.search(r"^\*[^*]+\?\*$", opening, flags=re.M), "the question"
    assert re.search(r"!\[.+\]\(figures/[\w-]+\.png\)", opening), "the picture"
    assert "$$" in text, "equations"
    for kind in ("update-rule", "agreement", "fields", "questions", "papers"):
        assert f"<!-- {kind} {family} -->\n" in text


@pytest.mark.parametrize("family", sorted(SHIPPED))
def test_the_agreement_of_a_family_was_measured(family):
    records = json.loads((DOCS / "data" / "verification.json").read_text()).values()
    rows = [
        row
        for record in records
        if record.get("family") == family
        for row in record.get("rows", [])
    ]
    assert len({row["check"] for row in rows if row["shown"]}) >= 2
    assert all(
        row["largest_z"] <= row["line"] or row["largest_gap"] <= row["allowed_gap"]
        for row in rows
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_the_package_writes_into_a_page_is_current(page):
    """After a change of fields, questions, records or benchmarks: `make tables`."""
    text = page.read_text()
    assert written(text) == text
    marks = re.findall(r"^<!-- (end of )?([a-z-]+)", text, flags=re.M)
    assert [kind for end, kind in marks if not end] == [
        kind for end, kind in marks if end
    ]
    assert {kind for _, kind in marks} <= set(WRITERS)


def test_pages_can_be_read_where_they_are():
    """A code host shows a directive of the site as it is written."""
    pages = [
        page
        for page in [*PAGES, *(DOCS / "theory").glob("*.md")]
        if page.name not in OF_THE_SITE
    ]
    pages.append(DOCS / "theory" / "index.md")
    with_directives = [
        page.name
        for page in pages
        if re.search(r"^(```|:::+)\{", page.read_text(), flags=re.M)
    ]
    assert not with_directives


def lines_of_prose(text):
    """Yield the lines of a page that are no code, equation, table, heading, picture or
    written by a program.
    """
    text = re.sub(
        r"^<!-- ([a-z-]+).*?^<!-- end of \1 -->$", "", text, flags=re.M | re.S
    )
    text = re.sub(r"^```.*?^```$|^\$\$.*?\$\$$", "", text, flags=re.M | re.S)
    return [
        line for line in text.splitlines() if not re.match(r"[|#]|\[?!\[| {4}", line)
    ]


def test_lines_of_prose_are_short():
    """They are broken at 100 columns; what cannot be broken, a link or a formula, may
    go beyond.
    """
    by_program = {"verification.md", "reproduction.md"}
    long = [
        (page.name, line)
        for page in [DOCS.parent / "README.md", *PAGES]
        for line in lines_of_prose(page.read_text())
        if page.name not in by_program and len(line) > 130
    ]
    assert not long


def test_the_readme_leads_to_pages_that_can_be_read():
    links = re.findall(r"\]\(([^)#]+)", (DOCS.parent / "README.md").read_text())
    inside = [link for link in links if "://" not in link]
    assert all((DOCS.parent / link).exists() for link in inside)
    pages = {
        link.removeprefix("docs/")
        for link in inside
        if link.startswith("docs/") and link.endswith(".md")
    }
    assert "learning_rates.md" in pages and not pages & OF_THE_SITE


def test_cells_are_shown_as_they_are_meant():
    assert (
        prose("w* of <w, x>, `a|b_` and n_clusters_")
        == r"w\* of \<w, x>, `a|b_` and n_clusters\_"
    )
    assert table(("|z|",), [("`a|b`",)]) == "| \\|z\\| |\n|---|\n| `a\\|b` |"
