"""The pages of `make verify` and `make figures` are what their records say; pictures
are small.
"""

import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import figures_report
import random_networks
import verify_report
from giantstep.papers import list_figures

DOCS = Path(__file__).parents[2] / "docs"


def test_the_verification_page_is_that_of_its_records():
    records = json.loads((DOCS / "data" / "verification.json").read_text())
    drawn = {
        name: record for name, record in records.items() if name.startswith("networks/")
    }
    networks = "\n".join(random_networks.report_lines(drawn))
    assert (DOCS / "verification.md").read_text() == verify_report.report(
        records
    ) + "\n" + networks


def test_the_reproduction_page_has_the_verdict_of_every_record():
    records = json.loads((DOCS / "data" / "figures.json").read_text()).values()
    parts = re.split(r"^### ", (DOCS / "reproduction.md").read_text(), flags=re.M)[1:]
    said = {
        part.partition("\n")[0]: (
            re.search(r"^- \*\*(.*?)s?\.\*\*", part, flags=re.M)[1].lower()
        )
        for part in parts
    }
    assert said == {
        record["figure"]: figures_report.status(record) for record in records
    }


def test_a_figure_that_cannot_tell_says_why_the_trials_that_would_were_not_run():
    records = json.loads((DOCS / "data" / "figures.json").read_text()).values()
    undecided = {
        record["figure"]
        for record in records
        if figures_report.status(record) == "cannot tell"
    }
    assert undecided == set(figures_report.NOT_RUN)
    assert (DOCS / "reproduction.md").read_text().count(
        "\n- Why they were not run: "
    ) == len(undecided)


def test_every_recipe_of_a_paper_says_which_figure_it_is():
    known = figures_report.of_the_paper()
    published = {
        recipe.name
        for recipe in list_figures()
        if not recipe.paper.startswith("giantstep2026")
    }
    assert set(known) - {"without"} == published
    page = (DOCS / "reproduction.md").read_text()
    for name in published:
        own = known[name]
        assert ("shows" in own) != ("ours" in own) and (
            "differs" in own or "ours" in own
        )
        assert f"| `{name}` |" in page
    assert {one["paper"] for one in known["without"]} <= {
        recipe.paper for recipe in list_figures()
    }


def test_every_record_of_a_figure_has_a_small_picture():
    records = json.loads((DOCS / "data" / "figures.json").read_text()).values()
    sizes = {
        path.stem: path.stat().st_size
        for path in (DOCS / "figures" / "reproduced").glob("*.png")
    }
    assert set(sizes) == {record["figure"] for record in records}
    assert max(sizes.values()) < 30_000


def test_a_failed_check_is_a_difference_and_no_comparison_is_not_judged():
    check = {"line": 1.0}
    record = {"agrees": True, "checks": [], "comparisons": [], "verdict": "cannot tell"}
    assert figures_report.status(record) == "not judged"
    assert figures_report.status({**record, "checks": [check]}) == "agree"
    assert figures_report.status({**record, "comparisons": [1]}) == "cannot tell"
    assert figures_report.status({**record, "agrees": False}) == "differ"
