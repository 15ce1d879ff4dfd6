"""CITATION.cff, `giantstep cite` and the references of the package say the same."""

import re
from pathlib import Path

import pytest

import giantstep as gs
from giantstep.core.scenario.families import SHIPPED, family_class
from giantstep.core.scenario.references import BIBTEX, software

CITATION = (Path(__file__).parents[2] / "CITATION.cff").read_text()


def plain(text):
    return re.sub(r"\s+", " ", re.sub(r"[{}\"]|\\.", "", text)).strip().lower()


def bibtex_field(entry, name):
    return plain(
        re.search(rf"\b{name}\s*=\s*\{{(.*?)\}},?\s*\n", entry, flags=re.S).group(1)
    )


def test_the_software_is_cited_alike():
    entry = software(gs.__version__)
    assert f"version: {gs.__version__}\n" in CITATION
    title = re.search(r"^title: (.*)$", CITATION, flags=re.M).group(1)
    assert plain(title) == bibtex_field(entry, "title")
    author = re.search(r"^authors:\n  - name: (.*)$", CITATION, flags=re.M).group(1)
    assert plain(author) == bibtex_field(entry, "author")


@pytest.mark.parametrize("family", sorted(SHIPPED))
def test_every_paper_of_a_family_is_in_the_citation_file(family):
    for key in family_class(family).papers:
        entry = BIBTEX[key]
        eprint = re.search(r"eprint\s*=\s*\{(.*?)\}", entry)
        if eprint:
            assert f'"arXiv:{eprint.group(1)}"' in CITATION, key
        else:
            assert bibtex_field(entry, "title") in plain(CITATION), key


def test_the_citation_file_names_no_other_paper():
    known = set(re.findall(r"eprint\s*=\s*\{(.*?)\}", "".join(BIBTEX.values())))
    assert set(re.findall(r"arXiv:([\d.]+)", CITATION)) <= known


def test_the_citation_file_can_be_read():
    yaml = pytest.importorskip("yaml")
    content = yaml.safe_load(CITATION)
    assert content["cff-version"] == "1.2.0"
    assert all(
        {"type", "title", "authors", "year"} <= set(paper)
        for paper in content["references"]
    )
