"""What the header of long_tests.txt says: of every table of networks beside their limit
one row is not left out.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
LONG = [
    line
    for line in (TESTS / "long_tests.txt").read_text().splitlines()
    if not line.startswith("#")
]
TABLES = (
    "network/test_agreement.py::test_agreement",
    "network/test_classification.py::test_the_network_agrees",
    "network/test_few_networks.py::test_networks_of_dimension_150_agree_after_every_step",
    "network/test_finite_batch.py::test_the_network_agrees_and_rejects_the_isotropic_map",
    "network/test_general_batch.py::test_the_network_refutes_the_isotropic_map",
    "network/test_same_sample.py::test_agreement_with_the_experiment",
    "network/test_structured_networks.py::test_networks_at_three_percent",
)


@pytest.fixture(scope="module")
def collected():
    """Node ids of all tests of networks, and of those that `make test` runs."""
    files = sorted({TESTS / "families" / table.partition("::")[0] for table in TABLES})

    def collect(*marks):
        command = [
            sys.executable,
            "-m",
            "pytest",
            "--collect-only",
            "-q",
            "-n",
            "0",
            "-p",
            "no:cacheprovider",
        ]
        done = subprocess.run(
            [*command, *marks, *files], cwd=ROOT, capture_output=True, text=True
        )
        return [line for line in done.stdout.splitlines() if "::" in line]

    return collect("-m", "slow or not slow"), collect("-m", "not slow")


@pytest.mark.parametrize("table", TABLES)
def test_a_row_of_every_agreement_table_runs(collected, table):
    every, quick = (
        [node for node in nodes if f"/{table}" in node] for nodes in collected
    )
    assert every, "the table has another name"
    assert quick


def test_every_line_means_a_test():
    """A test that was renamed would silently count as quick."""
    for line in LONG:
        file, _, name = line.partition("::")
        found = list(TESTS.rglob(file)) or list((TESTS / "families").glob(file))
        assert len(found) >= 1, line
        assert any(
            f"def {name.partition('[')[0]}(" in path.read_text() for path in found
        ), line
