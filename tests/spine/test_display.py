"""Scenarios, studies and reports show themselves, as text and as HTML; a result has
what was asked for first.
"""

import sys
import types
from xml.etree import ElementTree

import numpy as np
import pytest
import xarray

import giantstep as gs
from giantstep.core.base.display import Table, blocks_html
from giantstep.core.base.progress import Progress
from giantstep.core.scenario.describe import describe
from giantstep.core.scenario.families import SHIPPED, family_class

ONE_STEP = gs.OneStep(
    width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1, step=gs.MaximalStep(2.0)
)


@pytest.mark.parametrize("family", sorted(SHIPPED))
def test_every_scenario_is_a_table_of_its_fields(family):
    scenario = family_class(family).example()
    html = scenario._repr_html_()
    text = str(scenario)
    for name, info in type(scenario).model_fields.items():
        assert name in html and name in text
        assert info.description in text
    assert "object at" not in text and "<table>" in html and "<pre>" not in html


def test_a_study_says_what_varies():
    study = gs.Study(
        ONE_STEP,
        grid={"ridge": np.linspace(0.1, 1, 20), "step__rate": [1, 2]},
        experiment={"dim": 40},
    )
    for shown in (repr(study), study._repr_html_()):
        assert (
            "0.1 ... 1 (20 values)" in shown
            and "step.rate" in shown
            and "errors" in shown
        )


@pytest.mark.parametrize(
    ("report", "word"),
    [
        (gs.exponents("z1 + h3(z2)", "relu"), "information exponent"),
        (gs.learnable("h3(z)", "relu"), "never"),
        (gs.regime(ONE_STEP, 200), "maximal step"),
    ],
)
def test_reports_are_not_dumps(report, word):
    assert repr(report) == str(report) and word in repr(report)
    html = report._repr_html_()
    assert word in html and "array(" not in html and "(self" not in html


def test_an_agreement_is_a_table():
    both = gs.compare(ONE_STEP, dim=20, trials=3)
    report = gs.agreement(both)
    html = report._repr_html_()
    assert repr(report) == report.table()
    assert (
        html.startswith("<table><thead><tr>")
        and report.verdict().sentence.split(";")[0] in html
    )
    assert html.count("<table>") == 2  # the variables of the question, and the others
    assert html.count('<th style="text-align: left">variable</th>') == 2
    assert report.table().count("largest |z|") == 1  # in text one table, headed once


BASE = gs.Network(
    target="tanh(z1)",
    noise=0.1,
    width_per_dim=1.5,
    samples_per_dim=2.0,
    steps=[],
    readout=gs.Ridge(0.1),
)
SHOWN = {
    "predict": (lambda: gs.predict(BASE, noise=[0.1, 0.2]), 1, 2),
    "simulate": (lambda: gs.simulate(BASE, dim=10, trials=2), 1, None),
    "compare": (lambda: gs.compare(BASE, dim=10, trials=2, noise=[0.1, 0.2]), 1, 2),
    "optimize": (
        lambda: gs.optimize(BASE, over={"readout.ridge": (0.01, 10)}),
        1,
        None,
    ),
    "sensitivity": (lambda: gs.sensitivity(BASE, to=["noise", "readout.ridge"]), 1, 2),
    "exponents": (lambda: gs.exponents("z1 + h3(z2)", "relu"), 1, None),
    "learnable": (lambda: gs.learnable("z1 + z1*z2", "relu"), 1, None),
    "study": (lambda: gs.Study(BASE, grid={"noise": [0.1, 0.2]}), 2, None),
    "describe": (lambda: describe("network"), 8, None),
}


@pytest.mark.filterwarnings("ignore::giantstep.GiantstepWarning")
@pytest.mark.parametrize(("make", "least", "rows"), SHOWN.values(), ids=SHOWN)
def test_what_verbs_return_is_html_tables_in_a_notebook(make, least, rows):
    """Well-formed tables, every row as long as its heads, numbers to the right; nothing
    preformatted.
    """
    html = make()._repr_html_().partition("<details")[0]
    tree = ElementTree.fromstring(f"<div>{html.replace('&nbsp;', ' ')}</div>")
    tables = tree.findall("table")
    assert len(tables) >= least and "<pre>" not in html
    for table in tables:
        heads = table.findall("thead/tr/th")
        found = table.findall("tbody/tr")
        assert found and {len(row.findall("td")) for row in found} == {len(heads)}
        assert rows is None or len(found) == rows
        for row in found:
            for cell in row.findall("td"):
                if cell.text and cell.text[:1].isdigit():
                    assert cell.get("style") == "text-align: right"


def test_html_escapes_what_stands_in_a_table():
    html = blocks_html(["a < b", "", Table(("x", "y"), [("  <b>", "1.5")])])
    assert (
        "a &lt; b" in html
        and "&nbsp;&nbsp;&lt;b&gt;" in html
        and html.count("<p>") == 1
    )


def test_long_tables_lose_their_middle_in_both_forms():
    curve = gs.predict(ONE_STEP, ridge=np.linspace(0.1, 1, 50))
    html = curve._repr_html_().partition("<details")[0]
    assert "(10 more)" in curve.listed() and "(10 more)" in html
    assert html.count("<tr>") == len(curve.listed().splitlines()) - 1 == 42


def test_what_was_asked_for_comes_first():
    spikes = gs.predict(gs.OneStep.example_for("spikes"), what="spikes", dim=40)
    assert next(iter(spikes.data_vars)) == "singular_values"
    question = gs.MixtureGLM.questions["errors"]
    names = list(gs.predict(gs.MixtureGLM.example()).data_vars)
    assert names[: len(question.plot)] == list(question.plot)
    assert [v.name for v in question.variables][: len(question.plot)] != list(
        question.plot
    )


def test_a_figure_knows_its_picture():
    figure = gs.plot(gs.predict(ONE_STEP, ridge=[0.1, 1.0]), "test_error")
    assert figure._repr_png_().startswith(b"\x89PNG")


@pytest.fixture
def notebook(monkeypatch):
    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setitem(
        sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell)
    )


def test_progress_in_a_notebook_needs_no_other_package(notebook, monkeypatch, capsys):
    monkeypatch.setattr("giantstep.core.base.progress.A_MOMENT", -1.0)
    with Progress(None, 4, "trials <1>") as progress:
        progress.advance(2)
    first, *_, last = capsys.readouterr().err.split("\r")[1:]
    assert (
        first == "trials <1>: 0 of 4"
        and last.startswith("trials <1>: 2 of 4")
        and last.endswith("\n")
    )


def test_a_short_call_leaves_nothing_below_its_cell(notebook, capsys):
    with Progress(None, 4, "trials") as progress:
        progress.advance(4)
    assert capsys.readouterr().err == ""


def test_paired_fields_and_results_without_reasons_are_shown():
    paired = {"samples_per_dim": [1.0, 2.0], "ridge": [0.1, 0.2]}
    pair = {name: xarray.DataArray(values, dims="p") for name, values in paired.items()}
    assert (
        "samples_per_dim"
        in gs.predict(ONE_STEP, pair)._repr_html_().partition("<details")[0]
    )
    curve = gs.predict(ONE_STEP, ridge=[0.1, 1.0])
    for changed in (
        curve.mean("ridge"),
        curve.drop_vars("status"),
        xarray.concat([curve, curve], "q"),
    ):
        assert "test_error" in changed._repr_html_()
