"""The numbers of the overview are those of stored files and declarations."""

import json
import re
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import figures_report
from giantstep.core.scenario.families import SHIPPED
from giantstep.papers import list_figures

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
RESULTS = ROOT / "benchmarks" / "results"
TEXT = " ".join(
    re.sub(r"```.*?```", "", (DOCS / "overview.md").read_text(), flags=re.S).split()
)


def stored(name):
    return json.loads((DOCS / "data" / f"{name}.json").read_text()).values()


def claims():
    """Yield the sentences of the page with the numbers they must have."""
    yield f"has {len(SHIPPED)} families"
    studies = [
        record
        for record in stored("verification")
        if "family" in record and "rows" in record
    ]
    rows = [row for record in studies for row in record["rows"]]
    count = Counter(row["verdict"] for row in rows)
    yield (
        f"has {len(studies)} studies in which {len(rows)} variables are judged. In"
        f" {count['agrees']} of them"
    )
    yield (
        f"In {count['cannot tell']} the trials made cannot tell. In"
        f" {count['disagrees']} theory"
    )
    ladder = next(
        r
        for r in stored("verification")
        if r.get("check") == "maximal step, infinite batch, tanh/sin"
    )
    scores = [rung["wrong_z"] for rung in ladder["rungs"]]
    yield f"dimension up to {max(rung['dim'] for rung in ladder['rungs'])} reject"
    yield f"between {min(scores):.0f} and {max(scores):.0f},"
    rate = re.search(
        r"while streaming = ([\d.]+)", (RESULTS / "bench_experiment.txt").read_text()
    )[1]
    yield f"at {rate} of the rate"
    gpu = json.loads((RESULTS / "sweep_h200.json").read_text())
    share = gpu["products_and_solves_fraction_of_ceiling"]
    yield (
        f"a curve with {gpu['p']} neurons runs at {share:.2f} of the rate of a matrix"
        " product"
    )
    figures = list(stored("figures"))
    full = sum(not record["quick"] for record in figures)
    yield f"shows {len(figures)} of the {len(list_figures())}, {full} at full size"
    said = Counter(map(figures_report.status, figures))
    yield f"In {said['differ']} of them theory and experiment disagree or a check fails"
    yield f"In {said['cannot tell']} the trials made cannot tell, and"
    size = re.search(
        r"([\d.]+) MiB", (DOCS / "data" / "release_matrix.md").read_text()
    )[1]
    yield f"pure Python of {size} MiB"


def speeds():
    """Yield the words around a rounded speed of the page, and the stored number."""
    limit = (RESULTS / "bench_limit.txt").read_text()
    yield (
        "solves about {} points a second",
        re.search(r"k = 1:\s+(\d+) points/s", limit)[1],
    )
    yield (
        "neuron and about {} with four",
        re.search(r"k = 4:\s+(\d+) points/s", limit)[1],
    )
    yield "is about {} times slower", re.search(r"(\d+) times slower", limit)[1]


def test_rounded_speeds_are_near_the_stored_ones():
    for words, value in speeds():
        said = float(re.search(words.format(r"(\d+)"), TEXT)[1])
        assert 0.7 < said / float(value) < 1.4, words


def test_the_numbers_are_those_of_the_stored_files():
    assert [claim for claim in claims() if claim not in TEXT] == []
