"""Every family has a page, and all of these pages have the same shape."""

import json
import re
from pathlib import Path

import pytest

from giantstep.families import SHIPPED

DOCS = Path(__file__).parents[2] / "docs"
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
    for directive in ("update-rule", "agreement", "fields", "questions", "papers"):
        assert f"```{{{directive}}} {family}\n" in text


@pytest.mark.parametrize("family", sorted(SHIPPED))
def test_the_agreement_of_a_family_was_measured(family):
    records = json.loads((DOCS / "data" / "verification.json").read_text()).values()
    rows = [row for record in records if record.get("family") == family for row in record.get("rows", [])]
    assert len({row["check"] for row in rows if row["shown"]}) >= 2
    assert all(row["largest_z"] <= row["line"] or row["largest_gap"] <= row["allowed_gap"] for row in rows)
