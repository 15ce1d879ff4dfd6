"""What code and documentation cite of the theory exists: `spiked_features (4.7)` is an
equation of that page.
"""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "_ext"))

from citations import PAGES, find_citations, find_targets  # noqa: E402

FOLDERS = ("src", "tests", "docs", "benchmarks")
TEXTS = sorted(
    path
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".py", ".md", ".js")
    and path != Path(__file__)
    and not {"_build", "examples"} & set(path.parts)
)


def words_of(path):
    """The words of a file, without the marks of comments that a line break puts between
    them.
    """
    return re.sub(r"\n\s*(?:#:?|//|\*)?\s*", " ", path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def citations():
    return {path: list(find_citations(words_of(path))) for path in TEXTS}


def test_citations_are_found():
    text = (
        "see spiked_features (4.2)-(4.4), few_steps_readout sections 3 and 4.2;"
        " `mixture_glm` (2b), subspace_clustering has 3 stages"
    )
    assert [(c.page, c.number) for c in find_citations(text)] == [
        ("spiked_features", "4.2"),
        ("spiked_features", "4.4"),
        ("few_steps_readout", "3"),
        ("few_steps_readout", "4.2"),
        ("mixture_glm", "2b"),
    ]
    assert [c.target for c in find_citations("few_steps_readout section 4.2")] == [
        "few_steps_readout-section-4.2"
    ]


@pytest.mark.parametrize("page", PAGES)
def test_targets_are_unique_and_shown(page):
    text = (ROOT / "docs" / "theory" / f"{page}.md").read_text(encoding="utf-8")
    targets = re.findall(r"^\((\S+)\)=$", text, flags=re.M)
    assert len(targets) == len(set(targets))
    assert all(target.startswith(f"{page}-") for target in targets)
    for target in targets:
        number = target.removeprefix(f"{page}-")
        if not number.startswith("section-"):
            assert f"({number})" in text or rf"\tag{{{number}}}" in text, (
                f"({number}) is not shown"
            )


def test_what_is_cited_exists(citations):
    targets = set().union(*map(find_targets, PAGES))
    missing = [
        f"{path.relative_to(ROOT)}: {cited.page} {cited.number}"
        for path, of_path in citations.items()
        for cited in of_path
        if cited.target not in targets
    ]
    assert not missing, "\n".join(missing)


def test_no_text_speaks_of_notes_that_a_reader_cannot_open():
    told = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in TEXTS
        if "theory" not in path.parts
        for match in re.finditer(
            r"\b(?:(?:of|in|from|by|to) the notes|notes on)\b.{0,40}", words_of(path)
        )
    ]
    assert not told, "\n".join(told)
