"""The size of the code is counted in units that wider lines cannot improve."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import size

SPREAD = '''"""A module."""

from giantstep.core.base import errors

NUMBER = 3
"""A number."""


def f(x):
    """Return something."""
    # a reason
    y = (
        x
        if x
        else NUMBER
    )
    return f"{y + 1} and {y}"
'''
DENSE = '''"""A module."""
from giantstep.core.base import errors
NUMBER = 3
"""A number."""
def f(x):
    """Return something."""
    # a reason
    y = (x if x else NUMBER)
    return f"{y + 1} and {y}"
'''


def test_line_breaks_change_neither_tokens_nor_statements():
    spread = size.count_module("m", SPREAD)
    dense = size.count_module("m", DENSE)
    assert spread.tokens == dense.tokens == 8 + 3 + 6 + 9 + 2
    assert spread.statements == dense.statements == 5
    assert spread.comments == dense.comments == 1
    assert spread.conditionals == 1
    assert spread.lines > dense.lines


def test_parallel_assignments_nested_conditionals_and_inner_imports_are_seen():
    text = (
        "def f(x, y):\n"
        "    import giantstep.core.base\n"
        "    import numpy\n"
        "    a, b = x, y\n"
        "    c, d = f(x, y)\n"
        "    return a if x else b if y else c\n"
    )
    count = size.count_module("m", text)
    assert count.parallel_assignments == 1
    assert count.conditionals == 2
    assert count.nested_conditionals == 1
    assert count.inner_imports == 1


def test_an_import_upwards_is_found_and_one_downwards_is_none():
    order = size.rooms(size.ROOT)
    up = ("giantstep.core.maths.stacked", "giantstep.core.run.study")
    down = ("giantstep.core.run.study", "giantstep.core.maths.stacked")
    beside = ("giantstep.problems.network.layer", "giantstep.problems.inputs.law")
    count = size.Count(imports=[up, down, beside])
    assert size.against_order(count, order) == [up]


def test_no_import_of_the_package_goes_up():
    whole = size.total(size.count_package(size.ROOT))
    assert len(whole.imports) > 1500
    assert size.against_order(whole, size.rooms(size.ROOT)) == []
