"""Citations of the theory pages in any text: `spiked_features (4.7)` and
`spiked_features section 4.4`.

A page marks its equations with targets `(spiked_features-4.7)=` and its sections with
`(spiked_features-section-4.4)=`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

THEORY = Path(__file__).parents[1] / "theory"
PAGES = sorted(path.stem for path in THEORY.glob("*.md") if path.stem != "index")

EQUATION = r"\(\d+(?:\.\d+)*[a-z]?\)"
_SECTION = r"\d+(?:\.\d+)*"
_AND = r"(?:,| and| or| to|-|–)\s*"
_CITED = re.compile(
    rf"\b(?P<page>{'|'.join(PAGES)})(?:\.md)?[`\"']?,?\s+"
    rf"(?:(?P<equations>{EQUATION}(?:{_AND}{EQUATION})*)"
    rf"|(?:sections?\s+|§+\s?)(?P<sections>{_SECTION}(?:{_AND}{_SECTION}(?![\w(]))*))"
)


class Citation(NamedTuple):
    """An equation or a section cited in a text, the position of its number and the
    target it should have.
    """

    page: str
    number: str
    target: str
    start: int
    end: int


def find_citations(text: str) -> Iterator[Citation]:
    """Yield the citations of a text."""
    for match in _CITED.finditer(text):
        page = match["page"]
        kind = "equations" if match["equations"] else "sections"
        for number in re.finditer(r"\d+(?:\.\d+)*[a-z]?", match[kind]):
            start, end = (match.start(kind) + position for position in number.span())
            prefix = "" if kind == "equations" else "section-"
            yield Citation(
                page, number.group(), f"{page}-{prefix}{number.group()}", start, end
            )


def find_targets(page: str) -> set[str]:
    """Return the targets of a page of the theory."""
    return set(
        re.findall(
            r"^\((\S+)\)=$",
            (THEORY / f"{page}.md").read_text(encoding="utf-8"),
            flags=re.M,
        )
    )
