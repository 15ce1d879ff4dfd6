"""The figures on giant steps: drawn with quick sizes, in agreement, with their data
beside them.
"""

import pytest

from giantstep.papers import runner

NAMES = ("giant-staircase", "giant-specialisation", "giant-stairway", "giant-one-step")


def rebuilt(name, folder):
    report = runner.reproduce(name, out=folder, quick=True, progress=False)
    assert report.agrees, str(report)
    written = {path.suffix for path in report.files}
    assert {".png", ".pdf", ".csv", ".toml", ".json"} <= written
    return report


def test_orientation_of_the_gradients(tmp_path):
    report = rebuilt("giant-orientation", tmp_path)
    assert [comparison.name for comparison in report.comparisons] == ["ex1", "ex2"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_other_figures(name, tmp_path):
    """Of a limit that is refused because neurons repel each other, the stairway draws
    the kernels' bound only.
    """
    rebuilt(name, tmp_path)
