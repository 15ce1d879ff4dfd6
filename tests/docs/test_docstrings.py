"""Every public name explains itself: a docstring with an example, and the example
runs.
"""

import doctest
import inspect
import re
import sys
import warnings
from pathlib import Path

import pytest

import giantstep

NAMES = [name for name in giantstep.__all__ if name != "inf"]


def documented(name):
    return inspect.getdoc(getattr(giantstep, name)) or ""


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_a_public_name_runs(name):
    text = documented(name)
    assert ">>> " in text, f"giantstep.{name} has no example"
    # its example runs in its own module
    thing = inspect.unwrap(getattr(giantstep, name))
    home = vars(sys.modules[getattr(thing, "__module__", f"giantstep.{name}")])
    found = doctest.DocTestParser().get_doctest(text, dict(home), name, None, None)
    said: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outcome = doctest.DocTestRunner().run(found, out=said.append)
    assert outcome.attempted and not outcome.failed, "".join(said)


def test_a_docstring_says_more_than_its_first_line():
    short = [
        name for name in NAMES if len(documented(name).partition(">>>")[0].strip()) < 30
    ]
    assert short == []


def test_the_reference_has_every_public_name():
    page = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
    shown = {
        name
        for names in re.findall(r"public-names:: (.*)", page)
        for name in names.split()
    }
    assert shown == set(NAMES) - {"estimators"}
