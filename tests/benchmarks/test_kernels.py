"""Only kernels of OpenBLAS that are really taken count, and the page says what failed
under which.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import kernels
import verify_report


def test_a_kernel_that_the_processor_does_not_have_is_not_counted(monkeypatch):
    """OpenBLAS takes another one silently."""
    own = kernels.in_use(None)
    if not own:
        pytest.skip("NumPy and SciPy do not use one OpenBLAS")
    monkeypatch.setattr(kernels, "NAMES", ("no such kernel", own))
    assert kernels.in_use("no such kernel") != "no such kernel"
    assert kernels.available() == (own, [own])


def test_the_page_names_kernels_threads_and_failures():
    record = {
        "said": "1 failed, 9 passed",
        "failures": ["tests/a.py::b"],
        "seconds": 61.0,
        "stale": False,
    }
    record |= {"date": "2026-11-17", "version": "0.2.0", "machine": "a machine"}
    good = {**record, "said": "10 passed", "failures": []}
    lines = "\n".join(
        verify_report.kernel_lines(
            {"kernels/SkylakeX-1": good, "kernels/Nehalem-2": record}
        )
    )
    assert (
        "Failed: `tests/a.py::b`." in lines and "| SkylakeX | 1 | 10 passed |" in lines
    )
    assert "| Nehalem | 2 | 1 failed, 9 passed |" in lines
    assert "Not run" in "\n".join(verify_report.kernel_lines({}))
