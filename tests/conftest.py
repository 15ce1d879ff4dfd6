"""What all tests share: one thread each, the same hypothesis examples every time, a GPU
only where one is.

At the end they say how long they took; `--write-times` puts that and the twenty slowest
into CONTRIBUTING.md.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from pathlib import Path

import hypothesis
import pytest

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.setdefault("MPLBACKEND", "agg")
os.environ.setdefault("GIANTSTEP_FULL_TRACEBACK", "1")  # a test that fails shows where
# long tests on a busy machine; the tests of the limit give it
os.environ.setdefault("GIANTSTEP_CPU_LIMIT", "inf")

hypothesis.settings.register_profile(
    "giantstep", derandomize=True, deadline=None, database=None
)
hypothesis.settings.load_profile("giantstep")

LONG = tuple(
    line
    for line in Path(__file__).with_name("long_tests.txt").read_text().splitlines()
    if line[0] != "#"
)
"""Ends of the node ids of tests that count as slow."""


STARTED = time.monotonic()
SLOWEST = 20
"""Tests that CONTRIBUTING.md lists."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--write-times",
        action="store_true",
        help="write wall time and slowest tests to CONTRIBUTING.md",
    )


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    reports = [
        report
        for group in terminalreporter.stats.values()
        for report in group
        if hasattr(report, "duration")
    ]
    if not reports:
        return
    seconds: Counter[str] = Counter()
    for report in reports:  # one each for the set-up, the test and what follows it
        seconds[report.nodeid] += report.duration
    minutes = (time.monotonic() - STARTED) / 60
    taken = f"{len(seconds):,} tests took {minutes:.1f} min of wall time"
    terminalreporter.write_line(f"{taken}.")
    if config.getoption("--write-times"):
        slowest = [
            (test.replace("|", "\\|"), took)
            for test, took in seconds.most_common(SLOWEST)
        ]
        lines = [f"| {took:.1f} | `{test}` |" for test, took in slowest]
        write_times(
            [
                f"{taken} on {os.cpu_count()} cores.",
                "",
                "| s | slowest tests |",
                "|---:|---|",
                *lines,
            ]
        )


def write_times(lines: list[str]) -> None:
    """Put lines between the marks of CONTRIBUTING.md."""
    page = Path(__file__).parents[1] / "CONTRIBUTING.md"
    begin = "<!-- times -->"
    end = "<!-- end of times -->"
    between = "\n".join([begin, *lines, end])
    text = re.sub(
        f"{begin}.*{end}",
        lambda found: between,
        page.read_text(encoding="utf-8"),
        flags=re.DOTALL,
    )
    page.write_text(text, encoding="utf-8")


def has_gpu() -> bool:
    try:
        import cupy

        return bool(cupy.cuda.runtime.getDeviceCount())
    except Exception:  # CuPy raises errors of its own where there is no driver
        return False


@pytest.hookimpl(
    tryfirst=True
)  # before the marker expression of the command line chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.endswith(LONG):
            item.add_marker(pytest.mark.slow)
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and not has_gpu():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="there is no CUDA device"))


@pytest.fixture
def still_rows(monkeypatch):
    """Let no step change the rows of a network themselves at a finite width:
    finite_size_steps (2.5), (2.6).
    """
    from giantstep.problems.network.rows.isotropic import ExactRows

    monkeypatch.setattr(
        ExactRows,
        "acted_on_itself",
        lambda rows, problem, before, after, gradient, descent: after,
    )


@pytest.fixture
def independent_means(monkeypatch, still_rows):
    """Take the finite-d option alone, a ridge 1/(d R_q): spiked_features section 4.4,
    few_steps_readout section 4.5.

    The pages print its values, and second routes are written for it; the means of the
    blocks are those of independent rows there, whatever the steps do to them.
    """
    from giantstep.core.readout import FiniteSize
    from giantstep.problems.network.answers import errors
    from giantstep.problems.network.rows import isotropic

    monkeypatch.setattr(
        errors, "finite_size", lambda problem, layer, members, dim: FiniteSize(1 / dim)
    )
    monkeypatch.setattr(isotropic, "in_initial_rows", lambda *of_steps: 0.0)
