"""The check of the built documentation finds what is missing."""

import importlib.util
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "docs" / "check_links.py"


def problems(folder):
    found = importlib.util.spec_from_file_location("check_links", PROGRAM)
    program = importlib.util.module_from_spec(found)
    found.loader.exec_module(program)
    return program.problems(folder)


def test_missing_pages_anchors_and_foreign_files_are_named(tmp_path):
    (tmp_path / "b.html").write_text('<h1 id="here">b</h1>')
    (tmp_path / "a.html").write_text(
        '<a href="b.html#here">fine</a><a href="https://arxiv.org">fine</a><a'
        ' href="#">fine</a>'
    )
    assert problems(tmp_path) == []
    (tmp_path / "c.html").write_text(
        '<a href="d.html">gone</a><a href="b.html#there">gone</a><img'
        ' src="p.png"><script src="https://cdn.example/x.js"></script>'
    )
    assert problems(tmp_path) == [
        "c.html loads https://cdn.example/x.js from elsewhere",
        "c.html links to d.html, which does not exist",
        "c.html links to b.html#there, which has no such anchor",
        "c.html links to p.png, which does not exist",
    ]
